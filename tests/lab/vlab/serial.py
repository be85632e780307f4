# Copyright (c) 2026 The inferops.locality authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reads a node's serial console and says when its kernel has died or got stuck."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Optional, Tuple

# kind, what the console says. QEMU before 11 loses timer interrupts under multi-threaded emulation; the kernel then reports
# the first of these some 20 s later. A soft lockup is not listed: a busy host is enough for one.
PATTERNS: Tuple[Tuple[str, "re.Pattern[str]"], ...] = (
    ("stall", re.compile(r"rcu_\w+ kthread (timer wakeup didn't happen|starved)|rcu: INFO: \S+ (self-)?detected (expedited )?stalls?")),
    ("panic", re.compile(r"Kernel panic - not syncing")),
    ("oops", re.compile(r"\bOops: |\bBUG: unable to handle|\bkernel BUG at |general protection fault, ")),
    ("initramfs", re.compile(r"^\(initramfs\) |Gave up waiting for root", re.MULTILINE)),
    ("grub", re.compile(r"^grub( rescue)?> |^error: .*(not found|no such)", re.MULTILINE)),
)
# What the kernel says as it goes and GRUB as it comes.
_BOOT_MARKS = (b"reboot: Restarting system", b"Rebooting in ", b"Booting `")
_KEEP = 4096  # longer than any line that is looked for; a pattern can lie across two reads


@dataclass(frozen=True)
class Finding:
    """What was seen: its kind, one of ``PATTERNS`` or ``died`` or ``timeout``, and the line."""

    kind: str
    line: str


def find(text: str) -> Optional[Finding]:
    """The earliest sign of a dead or stuck kernel in a console's text."""
    best: Optional[Tuple[int, Finding]] = None
    for kind, pattern in PATTERNS:
        match = pattern.search(text)
        if match is None or (best is not None and best[0] <= match.start()):
            continue
        begin = text.rfind("\n", 0, match.start()) + 1
        end = text.find("\n", match.end())
        line = text[begin : end if end >= 0 else len(text)].strip()
        best = (match.start(), Finding(kind, line[:200]))
    return best[1] if best else None


class Watch:
    """Looks at what a console file got since the last look. :ivar offset: bytes read."""

    def __init__(self, path: Path, offset: int = 0) -> None:
        self.path = path
        self.offset = offset
        self._tail = ""

    @classmethod
    def last_boot(cls, path: Path) -> "Watch":
        """Looks from the last boot on: a panic that an earlier one was made to have is over."""
        try:
            data = path.read_bytes()
        except FileNotFoundError:
            data = b""
        return cls(path, max(0, *(data.rfind(mark) for mark in _BOOT_MARKS)))

    def poll(self) -> Optional[Finding]:
        """A finding in the new text, reported once; None for none, or as long as the file is not there."""
        try:
            with self.path.open("rb") as file:
                file.seek(self.offset)
                new = file.read()
        except FileNotFoundError:
            return None
        if not new:
            return None
        self.offset += len(new)
        text = self._tail + new.decode("utf-8", "replace").replace("\r", "")
        finding = find(text)
        # After a finding its text must not be found again.
        self._tail = "" if finding else text[-_KEEP:]
        return finding


def tail(path: Path, lines: int = 25) -> str:
    """The last lines of a console."""
    try:
        text = path.read_bytes()[-65536:].decode("utf-8", "replace").replace("\r", "")
    except FileNotFoundError:
        return "(no output)"
    return "\n".join(text.splitlines()[-lines:])
