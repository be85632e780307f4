# Copyright (c) 2026 The inferops.locality authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read the tail latency of a host as ``cyclictest`` and ``oslat`` (rt-tests 2.4) and ``rtla timerlat top`` print it: how late a thread wakes, how long one is
held up.

``cyclictest -q`` prints one line for each thread, ``oslat`` one column for each CPU, ``rtla timerlat top`` a table with a row for each CPU
(Documentation/tools/rtla/rtla-timerlat-top.rst). All in microseconds.
"""

from __future__ import annotations

import re
from typing import Any, Dict, List, Tuple

__all__ = ["LatencyError", "is_latency", "latency_metrics", "parse_latency"]

_THREAD = re.compile(
    r"T:\s*(?P<thread>[0-9]+)\s*\(\s*[0-9]+\)\s*P:\s*(?P<priority>[0-9]+)\s+I:\s*[0-9]+\s+C:\s*(?P<cycles>[0-9]+)\s+"
    r"Min:\s*(?P<min>[0-9]+)\s+Act:\s*[0-9]+\s+Avg:\s*(?P<avg>[0-9]+)\s+Max:\s*(?P<max>[0-9]+)\s*$"
)
_OSLAT = re.compile(r"^oslat V", re.MULTILINE)
_OSLAT_ROW = re.compile(r"\s*(?P<name>Core|Minimum|Average|Maximum):\s+(?P<values>[0-9. ]+?)\s*(?:\(us\))?\s*$")
_RTLA = re.compile(r"^.*Thread Timer Latency \(us\)(?P<user>.*Ret user Timer Latency \(us\))?", re.MULTILINE)
_RTLA_ROW = re.compile(r"\s*(?P<cpu>[0-9]+)\s+#[0-9]+\s*\|")
_RTLA_PART = re.compile(r"\s*(?:[0-9]+|-)\s+(?P<min>[0-9]+|-)\s+(?P<avg>[0-9]+|-)\s+(?P<max>[0-9]+|-)")
_RTLA_STOPPED = "hit stop tracing"


class LatencyError(ValueError):
    """A text that is no output of the tool, or is not whole. The message names the line."""


def is_latency(text: object) -> bool:
    """Whether a text is an output of cyclictest, oslat or ``rtla timerlat top``."""
    return isinstance(text, str) and bool(_OSLAT.search(text) or _RTLA.search(text) or re.search(r"^T:\s*[0-9]+ \(", text, re.MULTILINE))


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


def _rtla(text: str) -> Tuple[List[Dict[str, Any]], List[Dict[str, Any]], bool]:
    """Rows of the last table, failures, and whether the threads were those of user space (``-u``), which are measured until they are back there."""
    found: List[Dict[str, Any]] = []
    failures: List[Dict[str, Any]] = []
    user = False
    for number, line in enumerate(text.split("\n"), 1):
        head, row = _RTLA.match(line), _RTLA_ROW.match(line)
        if head:
            # Without -q the table is printed again each second: the last is the whole run's.
            found, user = [], bool(head.group("user"))
        elif row:
            parts = line[row.end():].split("|")
            # After those of the IRQ and, with -u, of the thread.
            match = _RTLA_PART.match(parts[-1]) if len(parts) == (3 if user else 2) else None
            if not match:
                raise LatencyError(f"cannot read line {number}: '{line.strip()[:160]}'; wanted cur, min, avg and max in {3 if user else 2} columns")
            # A CPU whose thread did not run yet has dashes.
            if "-" not in match.groups():
                values = {f"{name}_us": float(match.group(name)) for name in ("min", "avg", "max")}
                found.append({"cpu": int(row.group("cpu")), **values})
        elif _RTLA_STOPPED in line:
            failures.append({"line": number, "reason": f"a threshold ended it early: {' '.join(line.split())[:120]}"})
    if not found:
        raise LatencyError("rtla timerlat printed no row with numbers after its last head")
    return found, failures, user


def parse_latency(text: object) -> Dict[str, Any]:
    """What one run measured.

    :returns: ``{kind: "latency", test: "cyclictest"|"oslat"|"rtla-timerlat"|"rtla-timerlat-user", threads: [{thread|cpu, min_us, avg_us, max_us}],
        ok, failures: [{line, reason}]}``. Not ok is a run that a threshold ended early.
    :raises LatencyError: no output of these tools, or one that was cut.
    """
    if not isinstance(text, str) or not is_latency(text):
        raise LatencyError("found no output of cyclictest, oslat or rtla timerlat top")
    failures: List[Dict[str, Any]] = []
    if _RTLA.search(text):
        threads, failures, user = _rtla(text)
        test = "rtla-timerlat-user" if user else "rtla-timerlat"
    elif _OSLAT.search(text):
        test, threads = "oslat", _oslat(text)
    else:
        test, threads = "cyclictest", _cyclictest(text)
    return {"kind": "latency", "test": test, "threads": threads, "ok": not failures, "failures": failures}


def latency_metrics(result: Dict[str, Any]) -> Dict[str, float]:
    """``worst_us``, the longest of all threads or CPUs, and ``worst_average_us``, the highest average of one."""
    threads = result["threads"]
    return {"worst_us": max(item["max_us"] for item in threads), "worst_average_us": max(item["avg_us"] for item in threads)}
