# Copyright (c) 2026 The inferops.locality authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Findings: what plan and drift have to say to the operator, collected instead of raised, so that all of them are shown at once."""

from __future__ import annotations

from typing import Any, Dict, Iterable, List

ERROR = "error"
WARNING = "warning"
NOTE = "note"
SEVERITIES = (ERROR, WARNING, NOTE)
# How the value of a foreign entry begins where a file does not set a knob but drops what the files before it set.
REPLACES = "replaces "
# The value of a foreign entry for a unit file that stands where the link that masks the unit would be.
UNIT_FILE = "is a unit file of its own"


class Findings:
    """A list of ``{id, severity, message, hint}``, the same finding once.

    Messages name no host: who prints them knows it.
    """

    def __init__(self) -> None:
        self.items: List[Dict[str, str]] = []

    def _add(self, severity: str, id: str, message: str, hint: str) -> None:
        item = {"id": id, "severity": severity, "message": message, "hint": hint}
        if item not in self.items:
            self.items.append(item)

    def error(self, id: str, message: str, hint: str) -> None:
        """The plan must not be applied."""
        self._add(ERROR, id, message, hint)

    def warning(self, id: str, message: str, hint: str) -> None:
        """The plan may be applied; something in it is likely not what was meant."""
        self._add(WARNING, id, message, hint)

    def note(self, id: str, message: str, hint: str = "") -> None:
        """Worth knowing, nothing to do."""
        self._add(NOTE, id, message, hint)

    def add(self, severity: str, id: str, message: str, hint: str) -> None:
        """As the named severity says; :raises ValueError: unknown severity."""
        if severity not in SEVERITIES:
            raise ValueError(f"unknown severity {severity}")
        self._add(severity, id, message, hint)

    def extend(self, items: Iterable[Dict[str, str]]) -> None:
        """Take over findings of another list."""
        for item in items:
            self.add(item["severity"], item["id"], item["message"], item["hint"])

    def sorted(self) -> List[Dict[str, str]]:
        """Errors first, then warnings, then notes; within a severity as found."""
        return sorted(self.items, key=lambda item: SEVERITIES.index(item["severity"]))


def errors(findings: Iterable[Dict[str, Any]]) -> List[Dict[str, Any]]:
    """The error findings of a plan or drift report."""
    return [item for item in findings if item["severity"] == ERROR]


def listed(findings: Iterable[Dict[str, Any]]) -> str:
    """Findings as lines for a person: ``- id: message (hint)``."""
    return "\n".join(
        f"- {item['id']}: {item['message']}" + (f" ({item['hint']})" if item["hint"] else "") for item in findings
    )


__all__ = ("ERROR", "NOTE", "REPLACES", "SEVERITIES", "UNIT_FILE", "WARNING", "Findings", "errors", "listed")
