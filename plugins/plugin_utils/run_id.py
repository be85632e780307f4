# Copyright (c) 2026 The inferops.locality authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Who a run is: the user, the machine and the process of ansible-playbook, in a form by which the same machine can tell that the process has ended."""

from __future__ import annotations

import getpass
import multiprocessing
import os
import re
import socket
from pathlib import Path

_ID = re.compile(r"(?P<user>[^/]*)@(?P<host>[^/]*)/(?P<pid>[0-9]+)-(?P<start>[0-9]+)-(?P<boot>[0-9a-f]{12})-(?P<namespace>[0-9]+)")


def _start_time(pid: int, proc: Path) -> str | None:
    """When a process began, in ticks since the boot (proc_pid_stat(5), field 22); None if there is none, or if it is dead and only not waited for."""
    try:
        # The name in brackets may hold blanks and brackets.
        fields = (proc / str(pid) / "stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] in ("Z", "X") else fields[19]


def _machine(proc: Path) -> tuple[str, str] | None:
    """The boot and the PID namespace, within which a process has a number of its own; None where that cannot be told."""
    try:
        boot = (proc / "sys/kernel/random/boot_id").read_text(encoding="ascii").strip().replace("-", "")[:12]
        namespace = re.findall(r"[0-9]+", os.readlink(proc / "self/ns/pid"))
    except OSError:
        return None
    return (boot, namespace[0]) if namespace else None


def current(proc: Path = Path("/proc")) -> str:
    """The id of this run: ``user@host/pid-start-boot-namespace``; without the last three where there is no procfs.

    Tasks run in children of ansible-playbook; the run is their parent.
    """
    parent = multiprocessing.parent_process()
    pid = os.getpid() if parent is None or parent.pid is None else parent.pid
    try:
        user = getpass.getuser()
    except (OSError, KeyError):
        user = str(os.getuid())
    name = f"{user.replace('/', '_')}@{socket.gethostname()}/{pid}"
    machine, start = _machine(proc), _start_time(pid, proc)
    return name if machine is None or start is None else f"{name}-{start}-{machine[0]}-{machine[1]}"


def has_ended(run: str, proc: Path = Path("/proc")) -> bool:
    """Whether it is certain that a run has ended: it was of this machine, this boot and this PID namespace, and its process is not there any more."""
    match = _ID.fullmatch(run)
    if match is None or match["host"] != socket.gethostname() or _machine(proc) != (match["boot"], match["namespace"]):
        return False
    return _start_time(int(match["pid"]), proc) != match["start"]


__all__ = ("current", "has_ended")
