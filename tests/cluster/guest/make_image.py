# Copyright (c) 2026 The inferops.locality authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Makes the image ``localhost/test:1`` out of a few programs of this system and gives it to containerd. Runs on a lab node.

It is what every pod of the tests runs, and the sandbox (pause) of each. Nothing is pulled.
"""

from __future__ import annotations

import hashlib
import io
import json
import re
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Any, Dict, List

NAME = "localhost/test:1"
PROGRAMS = ("/usr/bin/dash", "/usr/bin/sleep", "/usr/bin/cat", "/usr/bin/true", "/usr/bin/taskset")
# As process 1 of its container a shell ends on SIGTERM only if it is told to.
COMMAND = ["/usr/bin/dash", "-c", "trap 'exit 0' TERM; while :; do sleep 3600 & wait $!; done"]


def layer() -> bytes:
    """A tar of the programs and what the loader needs for them."""
    files = set(PROGRAMS)
    for program in PROGRAMS:
        told = subprocess.run(["ldd", program], capture_output=True, text=True, check=True).stdout
        files.update(re.findall(r"(/\S+) \(0x", told))
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        for name in sorted(files):
            entry = tar.gettarinfo(str(Path(name).resolve()), arcname=name.lstrip("/"))
            entry.mtime, entry.uname, entry.gname = 0, "", ""
            with open(name, "rb") as content:
                tar.addfile(entry, content)
        for folder in ("etc", "proc", "sys", "dev", "tmp"):
            entry = tarfile.TarInfo(folder)
            entry.type, entry.mode = tarfile.DIRTYPE, 0o755
            tar.addfile(entry)
    return out.getvalue()


def archive() -> bytes:
    """The image as an OCI layout in a tar."""
    blobs: Dict[str, bytes] = {}

    def blob(content: bytes, kind: str) -> Dict[str, Any]:
        digest = hashlib.sha256(content).hexdigest()
        blobs[digest] = content
        return {"mediaType": f"application/vnd.oci.image.{kind}", "digest": f"sha256:{digest}", "size": len(content)}

    def text(value: Any) -> bytes:
        return json.dumps(value).encode()

    content = layer()
    described = blob(content, "layer.v1.tar")
    config = {
        "architecture": "amd64", "os": "linux", "config": {"Entrypoint": COMMAND, "Env": ["PATH=/usr/bin"]},
        "rootfs": {"type": "layers", "diff_ids": [described["digest"]]},
    }
    manifest = blob(text({"schemaVersion": 2, "config": blob(text(config), "config.v1+json"), "layers": [described]}), "manifest.v1+json")
    manifest["annotations"] = {"io.containerd.image.name": NAME, "org.opencontainers.image.ref.name": NAME}
    parts: List[Any] = [("oci-layout", text({"imageLayoutVersion": "1.0.0"})), ("index.json", text({"schemaVersion": 2, "manifests": [manifest]}))]
    parts += [(f"blobs/sha256/{digest}", data) for digest, data in blobs.items()]
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        for name, data in parts:
            entry = tarfile.TarInfo(name)
            entry.size = len(data)
            tar.addfile(entry, io.BytesIO(data))
    return out.getvalue()


if __name__ == "__main__":
    ctr = ["ctr", "--address", "/run/k3s/containerd/containerd.sock", "--namespace", "k8s.io"]
    subprocess.run([*ctr, "images", "import", "-"], input=archive(), check=True)
    # The kubelet's garbage collection leaves pinned images alone.
    subprocess.run([*ctr, "images", "label", NAME, "io.cri-containerd.pinned=pinned"], check=True, stdout=subprocess.DEVNULL)
    sys.exit(0)
