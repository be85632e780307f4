# Copyright (c) 2026 The inferops.locality authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read the tail latency of a host as ``cyclictest`` and ``oslat`` print it (rt-tests 2.4): how late a thread wakes, how long one is held up.

``cyclictest -q`` prints one line for each thread, ``oslat`` one column for each CPU. Both in microseconds.
"""

from __future__ import annotations

import re
from typing import Any, Dict, List

__all__ = ["LatencyError", "is_latency", "latency_metrics", "parse_latency"]

_THREAD = re.compile(
    r"T:\s*(?P<thread>[0-9]+)\s*\(\s*[0-9]+\)\s*P:\s*(?P<priority>[0-9]+)\s+I:\s*[0-9]+\s+C:\s*(?P<cycles>[0-9]+)\s+"
    r"Min:\s*(?P<min>[0-9]+)\s+Act:\s*[0-9]+\s+Avg:\s*(?P<avg>[0-9]+)\s+Max:\s*(?P<max>[0-9]+)\s*$"
)
_OSLAT = re.compile(r"^oslat V", re.MULTILINE)
_OSLAT_ROW = re.compile(r"\s*(?P<name>Core|Minimum|Average|Maximum):\s+(?P<values>[0-9. ]+?)\s*(?:\(us\))?\s*$")


class LatencyError(ValueError):
    """A text that is no output of the tool, or is not whole. The message names the line."""


def is_latency(text: object) -> bool:
    """Whether a text is an output of cyclictest or oslat."""
    return isinstance(text, str) and bool(_OSLAT.search(text) or re.search(r"^T:\s*[0-9]+ \(", text, re.MULTILINE))


def _cyclictest(text: str) -> List[Dict[str, Any]]:
    found: Dict[str, Dict[str, Any]] = {}
    for number, line in enumerate(text.split("\n"), 1):
        # Without -q each line is printed over the last one: the last is the whole run's.
        clean = re.sub(r"\x1b\[[0-9;]*[A-Za-z]", "", line.rstrip("\r")).strip()
        if not clean.startswith("T:"):
            continue
        match = _THREAD.match(clean)
        if not match:
            raise LatencyError(f"cannot read line {number}: '{clean[:160]}'; wanted T: .. Min: .. Act: .. Avg: .. Max: ..")
        found[match.group("thread")] = {
            "thread": int(match.group("thread")), "min_us": float(match.group("min")), "avg_us": float(match.group("avg")), "max_us": float(match.group("max")),
        }
    return list(found.values())


def _oslat(text: str) -> List[Dict[str, Any]]:
    values: Dict[str, List[str]] = {}
    where: Dict[str, int] = {}
    for number, line in enumerate(text.split("\n"), 1):
        match = _OSLAT_ROW.match(line.rstrip("\r"))
        if match:
            values[match.group("name")], where[match.group("name")] = match.group("values").split(), number
    missing = [name for name in ("Core", "Minimum", "Average", "Maximum") if name not in values]
    if missing:
        raise LatencyError(f"oslat ended without its line '{missing[0]}:', the last of {len(text.splitlines())}")
    for name, items in values.items():
        if len(items) != len(values["Core"]):
            raise LatencyError(f"line {where[name]}: '{name}' has {len(items)} values for {len(values['Core'])} CPUs")
    columns = zip(values["Core"], values["Minimum"], values["Average"], values["Maximum"])
    return [{"cpu": int(cpu), "min_us": float(low), "avg_us": float(mean), "max_us": float(high)} for cpu, low, mean, high in columns]


def parse_latency(text: object) -> Dict[str, Any]:
    """What one run measured.

    :returns: ``{kind: "latency", test: "cyclictest"|"oslat", threads: [{thread|cpu, min_us, avg_us, max_us}], ok: true, failures: []}``.
    :raises LatencyError: no output of these tools, or one that was cut.
    """
    if not isinstance(text, str) or not is_latency(text):
        raise LatencyError("found no output of cyclictest or oslat")
    oslat = bool(_OSLAT.search(text))
    return {
        "kind": "latency", "test": "oslat" if oslat else "cyclictest", "threads": _oslat(text) if oslat else _cyclictest(text), "ok": True, "failures": [],
    }


def latency_metrics(result: Dict[str, Any]) -> Dict[str, float]:
    """``worst_us``, the longest of all threads or CPUs, and ``worst_average_us``, the highest average of one."""
    threads = result["threads"]
    return {"worst_us": max(item["max_us"] for item in threads), "worst_average_us": max(item["avg_us"] for item in threads)}
