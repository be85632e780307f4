# Copyright (c) 2026 The inferops.locality authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The collection's modules on a lab node, without Ansible's half a minute for each: the module's own code, its arguments checked by Ansible's own code."""

from __future__ import annotations

import importlib.util
import json
import select
import subprocess
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Dict, Iterator, Tuple

from vlab.node import Node

from controlplane.binaries import ClusterError
from controlplane.put import put_files

_TOP = Path(__file__).resolve().parents[3]
_GUEST = Path(__file__).resolve().parents[1] / "guest"
_LIB = "usr/local/lib/inferops-modules"
_SECONDS = 300.0


class Modules:
    """Runs modules on a node; made by :func:`modules`."""

    def __init__(self, node: Node, process: "subprocess.Popen[str]") -> None:
        self._node = node
        self._process = process

    def __call__(self, module: str, **args: Any) -> Dict[str, Any]:
        """The result of one run, of a failed one too (``failed`` and ``msg``).

        :raises ClusterError: no answer.
        """
        channel, answers = self._process.stdin, self._process.stdout
        if channel is None or answers is None:
            raise ClusterError("no pipes")
        try:
            channel.write(json.dumps({"module": module, "args": args}) + "\n")
            channel.flush()
            ready = select.select([answers], [], [], _SECONDS)[0]
            line = answers.readline() if ready else ""
        except OSError:
            line = ""
        if not line:
            raise ClusterError(f"node {self._node.name}: no answer from the module {module}")
        result: Dict[str, Any] = json.loads(line)
        return result


def files() -> Dict[str, Tuple[bytes, int]]:
    """The modules, what they import, and the program that runs them.

    :raises ClusterError: ansible-core is not there.
    """
    spec = importlib.util.find_spec("ansible")
    if spec is None or spec.origin is None:
        raise ClusterError("no ansible-core here: the modules need its module_utils on the node")
    ansible = Path(spec.origin).parent
    files = {f"ansible/{path.relative_to(ansible)}": path.read_bytes() for path in sorted((ansible / "module_utils").rglob("*.py"))}
    # The package's own is for the controller.
    files["ansible/__init__.py"] = b""
    for folder in ("modules", "module_utils"):
        here = sorted((_TOP / "plugins" / folder).glob("*.py"))
        files.update({f"ansible_collections/inferops/locality/plugins/{folder}/{path.name}": path.read_bytes() for path in here})
    files["run_modules.py"] = (_GUEST / "run_modules.py").read_bytes()
    return {f"{_LIB}/{name}": (content, 0o644) for name, content in files.items()}


@contextmanager
def modules(node: Node) -> Iterator[Modules]:
    """The checkout's modules on a running node, for the length of a ``with`` block or until it reboots.

    :raises ClusterError: the node refused them.
    """
    put_files(node, files(), {}, f"rm -rf /{_LIB} && tar -C / -xf -", 600)
    argv = node.ssh_argv(f"cd /{_LIB} && exec /usr/bin/python3 run_modules.py")
    process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        yield Modules(node, process)
    finally:
        process.kill()
        process.communicate()
