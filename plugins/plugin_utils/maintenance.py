# Copyright (c) 2026 The inferops.locality authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Checks ``locality_maintenance``; its windows and blackouts are checked by :mod:`windows`."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from typing import Any

from ansible_collections.inferops.locality.plugins.module_utils import cluster_health

# Key: (type, default, least).
NUMBERS: dict[str, tuple[int, int]] = {
    "expected_minutes": (60, 1),
    "drain_timeout": (900, 1),
    "reboot_timeout": (2400, 1),
    "max_unavailable": (1, 1),
    "max_not_ready": (0, 0),
}
OTHERS = ("windows", "blackouts", "prometheus", "blocking_pods", "drain")
KEYS = (*OTHERS, *NUMBERS)

DRAIN_KEYS = ("emptydir_data", "unmanaged_pods", "delete_after", "grace_period")

# Between the end of the longest step and the end of the window.
SPARE_MINUTES = 5
MOST_MINUTES = 7 * 24 * 60


def _error(message: str, hint: str = "correct the value") -> dict[str, str]:
    return {"id": "maintenance.invalid", "severity": "error", "message": message, "hint": hint}


def _drain(drain: Any, timeout: int | None) -> list[dict[str, str]]:
    """How pods are evicted. :param timeout: ``drain_timeout`` in seconds, None if that is wrong itself."""
    if drain is None:
        return []
    if not isinstance(drain, Mapping):
        return [_error(f"locality_maintenance.drain: found {drain!r}, wanted a mapping")]
    found = [_error(f"locality_maintenance.drain.{key}: unknown key", f"known are {', '.join(DRAIN_KEYS)}") for key in drain if key not in DRAIN_KEYS]
    for key in ("emptydir_data", "unmanaged_pods"):
        if drain.get(key, "keep") not in ("keep", "delete"):
            found.append(_error(f"locality_maintenance.drain.{key}: found {drain[key]!r}, wanted keep or delete"))
    for key in ("delete_after", "grace_period"):
        value = drain.get(key)
        if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < 0):
            found.append(_error(f"locality_maintenance.drain.{key}: found {value!r}, wanted null or a whole number of at least 0"))
        elif value is not None and timeout is not None and value >= timeout:
            found.append(_error(f"locality_maintenance.drain.{key}: found {value}, wanted less than drain_timeout {timeout}"))
    return found


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
    for text in cluster_health.check_prometheus(maintenance.get("prometheus")):
        found.append(_error(f"locality_maintenance.prometheus: {text}"))
    selectors = maintenance.get("blocking_pods")
    if selectors is not None and not (isinstance(selectors, (list, tuple)) and all(isinstance(each, str) and each.strip() for each in selectors)):
        found.append(_error(f"locality_maintenance.blocking_pods: found {selectors!r}, wanted a list of label selectors such as app=training"))
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
    found += _drain(maintenance.get("drain"), numbers.get("drain_timeout"))
    # The number is named above already.
    found += [_error(f"locality_maintenance.{text}") for text in gate_errors if not text.startswith("expected_minutes")]
    return found


__all__ = ("DRAIN_KEYS", "KEYS", "MOST_MINUTES", "NUMBERS", "SPARE_MINUTES", "check")
