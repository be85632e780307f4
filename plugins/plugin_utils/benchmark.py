# Copyright (c) 2026 The inferops.locality authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Recorded runs of benchmarks: reads a folder of them, compares, and says what came out as text and as data.

The folder::

    DIR/PLACE/aligned/RUN.txt      PLACE: a node, or nodes that were measured together
    DIR/PLACE/misaligned/RUN.txt   RUN ends with a number: the order of the runs, over both folders; all_reduce-03.txt
    DIR/PLACE/before/RUN.txt       the same for a node before and after it was tuned
    DIR/PLACE/after/RUN.txt
    DIR/PLACE/RUN.txt              a run that is shown and compared with nothing
    DIR/PLACE/facts.json           optional: a mapping of what is to stand beside the numbers

With one place, DIR may be that place itself.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, Iterable, Mapping, NamedTuple

from ansible_collections.inferops.locality.plugins.module_utils import latency_results, nccl_results, run_comparison

__all__ = ["BenchmarkError", "read", "text"]

ENDINGS = (".txt", ".log", ".out")
REPORT = ("report.txt", "report.json", "report.svg")
_NAMES = {name for names in run_comparison.VARIANTS for name in names}
LARGEST_FILE = 64 * 1024 * 1024
_UNIT = {"nccl": "GB/s", "p2p": "GB/s", "latency": "us"}
_SIZES = ("B", "KiB", "MiB", "GiB", "TiB")


class BenchmarkError(ValueError):
    """A folder that holds no runs. The message says what was looked for."""


class _File(NamedTuple):
    variant: str
    name: str  # variant/run.txt
    test: str
    result: Mapping[str, Any]


def _result(content: str) -> dict[str, Any]:
    if latency_results.is_latency(content):
        return latency_results.parse_latency(content)
    return nccl_results.parse_results(content)


def _load(path: Path) -> dict[str, Any]:
    if path.stat().st_size > LARGEST_FILE:
        raise ValueError(f"has {path.stat().st_size} bytes, more than the {LARGEST_FILE} that are read")
    return _result(path.read_bytes().decode("utf-8", errors="replace"))


def _test_of(path: Path, result: Mapping[str, Any]) -> str:
    # Old releases do not say which test it is; the name of the file may.
    return str(result.get("test") or re.sub(r"[^A-Za-z]*[0-9]*$", "", path.stem) or "nccl-tests")


def _why(result: Mapping[str, Any]) -> str:
    first, more = result["failures"][0], len(result["failures"]) - 1
    return f"the run failed, line {first['line']}: {first['reason']}" + (f", and {more} more" if more else "")


def _file(path: Path, variant: str, problems: list[dict[str, str]]) -> _File | None:
    where = f"{variant}/{path.name}" if variant else path.name
    reason = ""
    if path.suffix not in ENDINGS or not path.is_file():
        reason = f"not read; wanted a file that ends with {', '.join(ENDINGS)}"
    else:
        try:
            result = _load(path)
            reason = "" if result["ok"] else _why(result)
        except (OSError, ValueError) as error:
            reason = str(error)
    if reason:
        problems.append({"file": where, "reason": reason})
        return None
    return _File(variant, where, _test_of(path, result), result)


def _files(folder: Path, names: tuple[str, str], problems: list[dict[str, str]]) -> list[_File]:
    paths = [(name, path) for name in names if (folder / name).is_dir() for path in sorted((folder / name).iterdir())]
    return [item for item in (_file(path, name, problems) for name, path in paths) if item]


def _alone(item: _File) -> dict[str, Any]:
    """A run that is compared with nothing: what would have been judged of it."""
    metrics = _metrics(item.result)
    judged = sorted(metrics, key=int)[-run_comparison.LARGEST_SIZES:] if item.result["kind"] == "nccl" else list(metrics)
    return {
        "file": item.name, "test": item.test, "kind": item.result["kind"], "unit": _UNIT[item.result["kind"]],
        "metrics": {name: metrics[name] for name in judged}, "transport": _transport([item]), "hosts": item.result.get("hosts") or [],
        "gpus": len(item.result.get("ranks") or item.result.get("devices") or ()),
    }


def _metrics(result: Mapping[str, Any]) -> dict[str, float]:
    if result["kind"] == "latency":
        return latency_results.latency_metrics(dict(result))
    return run_comparison.p2p_metrics(result) if result["kind"] == "p2p" else run_comparison.nccl_metrics(result)


def _transport(files: Iterable[_File]) -> dict[str, Any] | None:
    """What the runs of one kind used: networks, and GDRDMA on all, some or none of their channels; null where no run says it."""
    told = [item.result["transport"] for item in files if item.result.get("transport")]
    if not told:
        return None
    words = {item["gdrdma"] for item in told} - {None}
    return {
        "networks": sorted({name for item in told for name in item["network"]}), "local": sorted({name for item in told for name in item["local"]}),
        "gdrdma": (words.pop() if len(words) == 1 else "some") if words else None, "runs": len(told),
    }


def _unlike(files: list[_File]) -> list[str]:
    """What forbids to compare the runs: other nodes, another number of GPUs, another kind of output."""
    reasons = []
    hosts = {tuple(item.result["hosts"]) for item in files if item.result.get("hosts")}
    if len(hosts) > 1:
        reasons.append(f"the runs are of different nodes: {' and '.join(', '.join(names) for names in sorted(hosts))}")
    ranks = {len(item.result["ranks"]) for item in files if item.result.get("ranks")}
    if len(ranks) > 1:
        reasons.append(f"the runs have different numbers of GPUs: {', '.join(map(str, sorted(ranks)))}")
    kinds = {item.result["kind"] for item in files}
    if len(kinds) > 1:
        reasons.append(f"the runs are of different programs: {', '.join(sorted(kinds))}")
    return reasons


def _compared(test: str, files: list[_File], names: tuple[str, str]) -> dict[str, Any]:
    kind = files[0].result["kind"]
    unlike = _unlike(files)
    # Of different programs nothing can be set side by side.
    same = [item for item in files if item.result["kind"] == kind]
    runs = [run_comparison.Run(item.variant, run_comparison.run_number(item.name.split("/", 1)[1]), _metrics(item.result)) for item in same]
    result = run_comparison.compare(runs, names, by_size=kind == "nccl", lower_is_better=kind == "latency")
    if unlike:
        result.update(winner=None, reasons=unlike + result["reasons"])
    hosts = sorted({host for item in files for host in item.result.get("hosts") or ()})
    return {
        "test": test, "kind": kind, "unit": _UNIT[kind], **result, "hosts": hosts,
        "gpus": max((len(item.result.get("ranks") or item.result.get("devices") or ()) for item in files), default=0),
        "transport": {name: _transport(item for item in files if item.variant == name) for name in names},
        "runs": [{"file": item.name, "variant": run.variant, "number": run.number, "metrics": dict(run.metrics)} for item, run in zip(same, runs)],
    }


def _place(folder: Path) -> dict[str, Any]:
    problems: list[dict[str, str]] = []
    tests = []
    for names in run_comparison.VARIANTS:
        files = _files(folder, names, problems)
        for test in sorted({item.test for item in files}):
            tests.append(_compared(test, [item for item in files if item.test == test], names))
    measured = [_file(path, "", problems) for path in sorted(folder.iterdir()) if path.suffix in ENDINGS and path.is_file() and path.name not in REPORT]
    problems.extend(
        {"file": path.name, "reason": "not read; runs lie in the folders aligned and misaligned, or before and after"}
        for path in sorted(folder.iterdir()) if path.is_dir() and path.name not in _NAMES
    )
    facts = None
    if (folder / "facts.json").is_file():
        try:
            facts = json.loads((folder / "facts.json").read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            problems.append({"file": "facts.json", "reason": f"cannot be read: {error}"})
    return {"place": folder.name, "facts": facts, "tests": tests, "measured": [_alone(item) for item in measured if item], "problems": problems}


def _has_kinds(folder: Path) -> bool:
    return any((folder / name).is_dir() for name in _NAMES)


def _is_place(folder: Path) -> bool:
    return _has_kinds(folder) or any(path.suffix in ENDINGS and path.name not in REPORT for path in folder.iterdir())


def _places(top: Path) -> list[Path]:
    """The folders of places. Where there are some, a file beside them (notes, say) does not make the folder above them one."""
    if _has_kinds(top):
        return [top]
    places = [path for path in sorted(top.iterdir()) if path.is_dir() and _is_place(path)]
    return places or ([top] if _is_place(top) else [])


def read(folder: str) -> dict[str, Any]:
    """Read and compare the runs below a folder.

    :returns: ``{version: 1, places: [{place, facts, tests: [...], measured: [...], problems: [{file, reason}]}]}``; a test is a comparison of
        :func:`run_comparison.compare` with ``test``, ``kind``, ``unit``, ``hosts``, ``gpus``, ``transport`` by variant and ``runs``.
    :raises BenchmarkError: no such folder, no place in it, or no run that can be used.
    """
    top = Path(folder)
    if not top.is_dir():
        raise BenchmarkError(f"{folder} is no folder; wanted one with PLACE/aligned/RUN.txt and PLACE/misaligned/RUN.txt")
    places = _places(top)
    if not places:
        raise BenchmarkError(f"{folder} has no folder PLACE/aligned, PLACE/misaligned, PLACE/before or PLACE/after; found {_found(top)}")
    found = [_place(path) for path in places]
    if not any(place["tests"] or place["measured"] for place in found):
        told = [f"{place['place']}/{item['file']}: {item['reason']}" for place in found for item in place["problems"]]
        raise BenchmarkError("no run can be used\n- " + "\n- ".join(told or ["the folders are empty"]))
    return {"version": 1, "places": found}


def _found(top: Path) -> str:
    names = sorted(path.name for path in top.iterdir())
    return (", ".join(names[:8]) + (f" and {len(names) - 8} more" if len(names) > 8 else "")) or "nothing"


# -- text -------------------------------------------------------------------------------------------------------------


def metric_name(test: Mapping[str, Any], metric: str) -> str:
    """A size with its unit (``8 GiB``), or the words of another metric."""
    if test["kind"] != "nccl":
        return metric.replace("_us", "").replace("_", " ")
    size, unit = float(metric), 0
    while size >= 1024 and unit < len(_SIZES) - 1:
        size, unit = size / 1024, unit + 1
    return f"{size:g} {_SIZES[unit]}"


def _number(value: float) -> str:
    return f"{value:.2f}"


def _cell(stats: Mapping[str, Any]) -> str:
    return f"{_number(stats['median'])} ({_number(stats['min'])} to {_number(stats['max'])})"


def verdict(test: Mapping[str, Any]) -> str:
    """Who is ahead, by how much, or why nobody is."""
    if not test["winner"]:
        return f"no winner: {'; '.join(test['reasons'])}"
    what = f"the {len(test['judged'])} largest sizes" if test["kind"] == "nccl" else "all that was measured"
    row = next(row for row in reversed(test["rows"]) if row["metric"] == test["judged"][-1])
    ratio = "" if row["ratio"] is None else (
        f"; {test['names'][0]}/{test['names'][1]} is {row['ratio']:.3f} ({row['ratio_spread'][0]:.3f} to {row['ratio_spread'][1]:.3f}) "
        f"at {metric_name(test, row['metric'])}"
    )
    return f"{test['winner']} is ahead at {what}{ratio}"


def _transport_line(transport: Mapping[str, Any] | None) -> str:
    if transport is None:
        return "not known, run it with NCCL_DEBUG=INFO"
    ways = ", ".join(transport["networks"] + transport["local"])
    return ways + (f", GDRDMA on {transport['gdrdma']} of the network's channels" if transport["gdrdma"] else "")


def _table(test: Mapping[str, Any]) -> list[str]:
    first, second = test["names"]
    rows = [["", f"{first}, {test['unit']}", f"{second}, {test['unit']}", f"{first}/{second}", "ahead"]]
    for row in test["rows"]:
        ratio = "-" if row["ratio"] is None else f"{row['ratio']:.3f} ({row['ratio_spread'][0]:.3f} to {row['ratio_spread'][1]:.3f})"
        mark = "* " if row["metric"] in test["judged"] else ""
        rows.append([mark + metric_name(test, row["metric"]), _cell(row[first]), _cell(row[second]), ratio, row["better"] or "-"])
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return ["    " + "  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip() for row in rows]


def text(results: Mapping[str, Any]) -> list[str]:
    """The lines of a report. Values are the median of the runs and their spread; ``*`` marks what is judged."""
    lines = []
    for place in results["places"]:
        lines.append(place["place"])
        if isinstance(place["facts"], Mapping):
            lines.extend(f"  {key}: {value}" for key, value in place["facts"].items() if isinstance(value, (str, int, float)))
        for test in place["tests"]:
            runs = " and ".join(f"{sum(run['variant'] == name for run in test['runs'])} {name}" for name in test["names"])
            where = f" on {', '.join(test['hosts'])}" if test["hosts"] else ""
            lines.append(f"  {test['test']}, {runs} runs" + (f", {test['gpus']} GPUs{where}" if test["gpus"] else ""))
            lines.extend(_table(test) if test["rows"] else [])
            lines.append(f"    {verdict(test)}")
            if test["kind"] == "nccl":
                lines.extend(f"    transport, {name}: {_transport_line(test['transport'][name])}" for name in test["names"])
        for item in place["measured"]:
            values = ", ".join(f"{_number(value)} {item['unit']} at {metric_name(item, name)}" for name, value in item["metrics"].items())
            way = f"; transport: {_transport_line(item['transport'])}" if item["kind"] == "nccl" else ""
            lines.append(f"  {item['test']} ({item['file']}), compared with nothing: {values}{way}")
        lines.extend(f"  not used: {problem['file']}: {problem['reason']}" for problem in place["problems"])
    return lines
