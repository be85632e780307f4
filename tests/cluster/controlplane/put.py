# Copyright (c) 2026 The inferops.locality authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Many files onto a lab node in one step."""

from __future__ import annotations

import io
import subprocess
import tarfile
import time
from typing import Mapping, Tuple

from vlab.node import Node

from controlplane.binaries import ClusterError


def archive(files: Mapping[str, Tuple[bytes, int]], links: Mapping[str, str]) -> bytes:
    """A tar of files (path without its first slash to content and mode) and links (path to what it points to)."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        for name, (content, mode) in files.items():
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode, entry.mtime = len(content), mode, int(time.time())
            tar.addfile(entry, io.BytesIO(content))
        for name, target in links.items():
            entry = tarfile.TarInfo(name)
            entry.type, entry.linkname = tarfile.SYMTYPE, target
            tar.addfile(entry)
    return out.getvalue()


def put_files(node: Node, files: Mapping[str, Tuple[bytes, int]], links: Mapping[str, str], command: str, seconds: float) -> None:
    """Unpacks files and links below the node's ``/``.

    :param command: of the node's shell; it has :func:`archive` of them as its input. :param seconds: for all of it.
    :raises ClusterError: the node refused it, or it did not end in time.
    """
    node.connect(120)
    try:
        done = subprocess.run(node.ssh_argv(command), input=archive(files, links), capture_output=True, timeout=seconds, check=False)
    except subprocess.TimeoutExpired:
        raise ClusterError(f"node {node.name}: its files are not there after {seconds:.0f} s") from None
    if done.returncode:
        raise ClusterError(f"node {node.name}: rc {done.returncode}: {done.stderr.decode(errors='replace').strip()}")
