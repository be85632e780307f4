# Copyright (c) 2026 The inferops.locality authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Starts, finds and ends processes so that none is left behind and none of someone else's is hit."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import time
from pathlib import Path
from typing import IO, Dict, List, Mapping, Optional, Sequence


class LabError(Exception):
    """The lab cannot do what was asked; the message says what to do."""


def start_time(pid: int) -> Optional[int]:
    """When a process began, in clock ticks since boot; None if there is none, or only a zombie.

    A pid is used again; a pid with its start time is not.
    """
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return None
    fields = text[text.rindex(")") + 2 :].split()
    return None if fields[0] in ("Z", "X") else int(fields[19])


def alive(pid: int, started: int) -> bool:
    """Whether exactly this process still runs."""
    try:
        os.waitpid(pid, os.WNOHANG)  # ours and dead: reap it
    except ChildProcessError:
        pass
    return start_time(pid) == started


def end(pid: int, started: int, patience: float = 5.0) -> None:
    """Ends a process and its group, first politely.

    :raises LabError: it is still there.
    """
    if not alive(pid, started):
        return
    # From here on the number is the group's: it is not given anew while one of the group lives, even if its leader is gone.
    for number in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(pid, number)  # every process here leads a group of its own
        except ProcessLookupError:
            return
        deadline = time.monotonic() + patience
        while time.monotonic() < deadline:
            if not alive(pid, started) and not group(pid):
                return
            time.sleep(0.05)
    raise LabError(f"process {pid} cannot be ended")


def start(argv: Sequence[str], log: Path, tied: bool) -> "subprocess.Popen[bytes]":
    """Starts a process that leads its own session, so that Ctrl-C reaches only us.

    :param tied: it ends with us even if we are killed.
    """
    full = list(argv)
    if tied:
        full = ["setpriv", "--pdeathsig", "KILL", *full]
    with log.open("ab") as out:
        return subprocess.Popen(full, stdin=subprocess.DEVNULL, stdout=out, stderr=out, start_new_session=True)


def run(argv: Sequence[str], log: Path, env: Optional[Mapping[str, str]] = None, stdin: Optional[IO[bytes]] = None) -> None:
    """Runs a build step to its end, its output in ``log``; ends its whole group if we are stopped.

    :raises LabError: it failed; with the log's last lines.
    """
    environment: Dict[str, str] = {**os.environ, **(env or {}), "LC_ALL": "C"}
    with log.open("ab") as out:
        out.write((" ".join(argv) + "\n").encode())
        out.flush()
        process = subprocess.Popen(list(argv), stdin=stdin or subprocess.DEVNULL, stdout=out, stderr=out, env=environment, start_new_session=True)
        try:
            rc = process.wait()
        except BaseException:
            stop_group(process)
            raise
    if rc != 0:
        lines = log.read_text(encoding="utf-8", errors="replace").splitlines()[-15:]
        raise LabError(f"{argv[0]} failed (rc {rc}), log {log}:\n" + "\n".join(lines))


def stop_group(process: "subprocess.Popen[bytes]", patience: float = 30.0) -> None:
    """Ends a child and its group; politely first, since mmdebstrap unmounts what it mounted."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(process.pid, number)
        except ProcessLookupError:
            break
        deadline = time.monotonic() + patience
        while time.monotonic() < deadline:
            process.poll()
            if not group(process.pid):
                return
            time.sleep(0.1)
    process.wait()


def group(pgid: int) -> List[int]:
    """The living processes of a group."""
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            if os.getpgid(int(entry.name)) == pgid and start_time(int(entry.name)) is not None:
                found.append(int(entry.name))
        except ProcessLookupError:
            continue
    return found


def free_port() -> int:
    """A TCP port of the loopback address that nobody has now."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def remove_tree(path: Path) -> None:
    """Removes a folder unless something is mounted below it: /dev of this machine must not go with it.

    :raises LabError: something is mounted there.
    """
    if not path.exists():
        return
    top = str(path.resolve())
    with open("/proc/self/mountinfo", encoding="utf-8") as file:
        mounts = [line.split()[4] for line in file]
    below = [mount for mount in mounts if mount == top or mount.startswith(top + "/")]
    if below:
        raise LabError(f"{path} is not removed, this is mounted there: {', '.join(below)}")
    shutil.rmtree(path)
