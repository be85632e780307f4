# Copyright (c) 2026 The inferops.locality authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs the collection's playbooks as an operator does, on nodes on paper."""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Iterator

import yaml

from ansible_collections.inferops.locality.plugins.module_utils import drift, state
from ansible_collections.inferops.locality.plugins.module_utils.sysroot import SysRoot
from ansible_collections.inferops.locality.plugins.plugin_utils import report

TOP = Path(__file__).resolve().parents[2]
DEMO = TOP / "inventories" / "demo"
COLLECTIONS = Path(report.__file__).parents[5]

_RECAP = re.compile(r"^(\S+)\s+: ok=(\d+)\s+changed=(\d+)\s+unreachable=(\d+)\s+failed=(\d+)", re.MULTILINE)


@dataclass(frozen=True)
class Run:
    """How a playbook ended. :ivar recap: host to its counts."""

    rc: int
    out: str
    err: str
    recap: dict[str, dict[str, int]]

    @property
    def text(self) -> str:
        """All that an operator saw."""
        return self.out + self.err


def play(playbook: str, *arguments: str, inventory: Path | None, env: dict[str, str] | None = None, cwd: Path | None = None) -> Run:
    """Run a playbook of the collection; ``inventory`` None: without one."""
    source = ["-i", str(inventory)] if inventory else []
    done = subprocess.run(
        [sys.executable, "-m", "ansible", "playbook", *source, str(TOP / "playbooks" / f"{playbook}.yml"), *arguments],
        cwd=cwd or TOP, check=False, capture_output=True, text=True,
        env={
            **{name: value for name, value in os.environ.items() if not name.startswith("ANSIBLE_")},
            "ANSIBLE_COLLECTIONS_PATH": str(COLLECTIONS), "ANSIBLE_CONFIG": str(TOP / "ansible.cfg"), "ANSIBLE_PIPELINING": "1", "ANSIBLE_NOCOLOR": "1",
            **(env or {}),
        },
    )
    names = ("ok", "changed", "unreachable", "failed")
    recap = {host: dict(zip(names, map(int, counts))) for host, *counts in _RECAP.findall(done.stdout)}
    return Run(done.returncode, done.stdout, done.stderr, recap)


def write_inventory(folder: Path, roots: dict[str, Path], variables: dict[str, Any], per_host: dict[str, dict[str, Any]] | None = None) -> Path:
    """An inventory of nodes that are there already, all of one chassis."""
    hosts = {
        host: {"locality_root": str(root), "ansible_connection": "local", "ansible_python_interpreter": sys.executable, **(per_host or {}).get(host, {})}
        for host, root in roots.items()
    }
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "hosts.yml"
    file.write_text(yaml.safe_dump({"all": {"children": {"chassis_test": {"hosts": hosts, "vars": variables}}}}), encoding="utf-8")
    return file


def every_task(value: object) -> Iterator[dict[str, Any]]:
    """All tasks, blocks and plays of what a file of YAML has, at any depth."""
    if isinstance(value, list):
        for item in value:
            yield from every_task(item)
    elif isinstance(value, dict):
        yield value
        for key in ("tasks", "pre_tasks", "post_tasks", "handlers", "block", "rescue", "always"):
            yield from every_task(value.get(key))


def contents(root: Path) -> dict[str, str]:
    """Every file, link and folder of a node but its kernel's, with what is in it."""
    found: dict[str, str] = {}
    for folder, folders, files in os.walk(root):
        here = Path(folder)
        if here == root:
            folders[:] = [name for name in folders if name not in ("sys", "proc", ".locality")]
        for name in [*folders, *files]:
            path = here / name
            key = "/" + path.relative_to(root).as_posix()
            if path.is_symlink():
                found[key] = f"link to {os.readlink(path)}"
            elif path.is_dir():
                found[key] = "folder"
            else:
                found[key] = hashlib.sha256(path.read_bytes()).hexdigest() + oct(path.stat().st_mode & 0o777)
    return found


def drifting(root: Path, made: dict[str, Any]) -> list[str]:
    """Names of the managed knobs that an audit of this node names, in process."""
    return [entry["knob"] for entry in report.drifting(drift.compare(made, state.read_state(SysRoot(str(root))), live=False))]
