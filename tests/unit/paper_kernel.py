# Copyright (c) 2026 The inferops.locality authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A paper node that passes for the running one: what is written into its interrupts' files is taken as a kernel takes it."""

from __future__ import annotations

from pathlib import Path
from typing import Dict, List, Optional, Tuple

from ansible_collections.inferops.locality.plugins.module_utils.cpulist import from_list
from ansible_collections.inferops.locality.plugins.module_utils.sysroot import SysRoot


class Kernel:
    """Moves interrupts at once, at the next interrupt (``moves=False``), or not at all (``errors``: errnos by number, in turn)."""

    def __init__(self, root: Path, moves: bool = True, errors: Optional[Dict[int, List[int]]] = None) -> None:
        self.root, self.moves, self.errors = root, moves, errors or {}
        self.writes: List[Tuple[str, str]] = []

    def write(self, path: str, text: str) -> None:
        parts = path.split("/")
        number = int(parts[3]) if path.startswith("/proc/irq/") and parts[3].isdigit() else -1
        if self.errors.get(number):
            code = self.errors[number].pop(0)
            if code:
                raise OSError(code, "")
        self.writes.append((path, text))
        (self.root / path[1:]).write_text(text + "\n")
        if self.moves and number >= 0:
            present = (self.root / f"proc/irq/{number}/effective_affinity_list").read_text().strip()
            if not from_list(present) <= from_list(text):
                (self.root / f"proc/irq/{number}/effective_affinity_list").write_text(str(min(from_list(text))))


class Live(SysRoot):
    """A paper node whose kernel is asked, for what only a running one has."""

    def __init__(self, root: Path) -> None:
        super().__init__(str(root))
        self.live = True


__all__ = ("Kernel", "Live")
