# Copyright (c) 2026 The inferops.locality authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Checks ``locality_maintenance``; its windows and blackouts are checked by :mod:`windows`."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping, Sequence
from typing import Any

# Key: (type, default, least).
NUMBERS: dict[str, tuple[int, int]] = {
    "expected_minutes": (60, 1),
    "drain_timeout": (900, 1),
    "reboot_timeout": (2400, 1),
    "max_unavailable": (1, 1),
    "max_not_ready": (0, 0),
}
OTHERS = ("windows", "blackouts", "prometheus")
KEYS = (*OTHERS, *NUMBERS)

# Between the end of the longest step and the end of the window.
SPARE_MINUTES = 5
MOST_MINUTES = 7 * 24 * 60


def _error(message: str, hint: str = "correct the value") -> dict[str, str]:
    return {"id": "maintenance.invalid", "severity": "error", "message": message, "hint": hint}


def check(maintenance: Any, gate_errors: Sequence[str] = ()) -> list[dict[str, str]]:
    """Everything that is wrong, as error findings. ``gate_errors``: what the gate said about windows and blackouts."""
    if maintenance is None:
        return []
    if not isinstance(maintenance, Mapping):
        return [_error(f"locality_maintenance: found {maintenance!r}, wanted a mapping")]
    found = []
    for key in maintenance:
        if key not in KEYS:
            near = difflib.get_close_matches(str(key), KEYS, 1, 0.6)
            hint = f"the nearest known key is locality_maintenance.{near[0]}" if near else f"known are {', '.join(KEYS)}"
            found.append(_error(f"locality_maintenance.{key}: unknown key", hint))
    for key in ("windows", "blackouts"):
        value = maintenance.get(key)
        if value is not None and not isinstance(value, (list, tuple)):
            found.append(_error(f"locality_maintenance.{key}: found {value!r}, wanted a list"))
    prometheus = maintenance.get("prometheus")
    is_url = isinstance(prometheus, str) and re.fullmatch(r"https?://[^\s/]\S*", prometheus)
    if prometheus is not None and not isinstance(prometheus, Mapping) and not is_url:
        # An address may carry a password: it is not shown.
        shown = "a text that is no URL" if isinstance(prometheus, str) else repr(prometheus)
        found.append(_error(f"locality_maintenance.prometheus: found {shown}, wanted null, a URL such as http://prometheus:9090, or a mapping"))
    numbers = {}
    for key, (default, least) in NUMBERS.items():
        value = maintenance.get(key, default)
        if isinstance(value, bool) or not isinstance(value, int) or value < least:
            found.append(_error(f"locality_maintenance.{key}: found {value!r}, wanted a whole number of at least {least}"))
        elif key == "expected_minutes" and value > MOST_MINUTES:
            found.append(_error(f"locality_maintenance.{key}: found {value}, wanted at most {MOST_MINUTES}: no window is longer than 7 days"))
        else:
            numbers[key] = value
    # The defaults fit each other; as soon as one of them is set, all three have to.
    if {"drain_timeout", "reboot_timeout", "expected_minutes"} <= set(numbers):
        longest = -(-(numbers["drain_timeout"] + numbers["reboot_timeout"]) // 60) + SPARE_MINUTES
        if numbers["expected_minutes"] < longest:
            found.append(_error(
                f"locality_maintenance.expected_minutes: found {numbers['expected_minutes']}, wanted at least {longest}: "
                f"drain_timeout {numbers['drain_timeout']} s + reboot_timeout {numbers['reboot_timeout']} s + {SPARE_MINUTES} minutes",
            ))
    # The number is named above already.
    found += [_error(f"locality_maintenance.{text}") for text in gate_errors if not text.startswith("expected_minutes")]
    return found


__all__ = ("KEYS", "MOST_MINUTES", "NUMBERS", "SPARE_MINUTES", "check")
