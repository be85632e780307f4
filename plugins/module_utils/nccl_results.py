# Copyright (c) 2026 The inferops.locality authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read what nccl-tests (``all_reduce_perf`` and its sisters) and ``p2pBandwidthLatencyTest`` print.

These outputs come out of containers, mpirun and srun: with the lines of all ranks in one stream, with what NCCL says between the rows, cut where a run was
killed. What a run measured is returned as measured; a run that failed is a result with ``ok: false`` and the lines that say why; a table that says something
which cannot be read is an error with its line, since a number in the wrong column is worse than none.

Rows go by the header of their own table. Releases differ: ``error`` was renamed ``#wrong``, ``root`` and ``redop`` were not always there.
"""

from __future__ import annotations

import re
from typing import Any, Dict, List, NamedTuple, Optional, Tuple

__all__ = ["NcclError", "is_p2p", "parse_nccl", "parse_p2p", "parse_results"]

_ANSI = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
# mpirun --tag-output and srun --label put the rank before each line.
_TAG = re.compile(r"^(?:\[[0-9]+,[0-9]+\]<std(?:out|err)>:|[0-9]+: )")
# What NCCL itself prints to the same stream, also into a line that is not finished: HOST:PID:TID [GPU] [FILE:LINE] NCCL LEVEL ...
_NCCL_LINE = re.compile(r"(?:\[[0-9]+\]\s+)?[^\s\[\]]+:[0-9]+:[0-9]+ \[[0-9]+\] (?:\S+:[0-9]+ )?NCCL (?P<level>[A-Z]+) ?(?P<text>.*)$")
_CHANNEL = re.compile(r"Channel [0-9/]+ ?: .*\bvia (?P<via>\S.*?)\s*$")

_RANK = re.compile(
    r"#\s*Rank\s+(?P<rank>[0-9]+)\s+(?:Group\s+(?P<group>[0-9]+)\s+)?Pid\s+(?P<pid>[0-9]+)\s+on\s+(?P<host>\S+)\s+"
    r"device\s+(?P<device>[0-9]+)\s+\[(?P<address>[0-9a-fA-Fx:.]+)\]\s*(?P<name>.*?)\s*$"
)
_VERSION = re.compile(r"#\s*nccl-tests version (?P<version>\S+)")
_STARTING = re.compile(r"#\s*Collective test starting: (?P<test>\S+)")
_CONCLUDED = re.compile(r"#\s*Collective test concluded: (?P<test>\S+)")
_BOUNDS = re.compile(r"#\s*Out of bounds values\s*:\s*(?P<count>[0-9]+)\s+(?P<verdict>OK|FAILED)")
_AVERAGE = re.compile(r"#\s*Avg bus bandwidth\s*:\s*(?P<value>\S+)(?:\s+(?P<verdict>OK|FAILED))?\s*$")
_FAILURE = re.compile(
    r"Test (?:NCCL |CUDA |HIP )?failure|MPI_ABORT was invoked|mpirun noticed|srun: error:|Primary job\s+terminated|exited on signal"
    r"|Segmentation fault|Killed$|unhandled (?:cuda|system) error|CUDA error|Cuda failure"
)
_MEASURES = ("time", "algbw", "busbw")
_DIGITS = re.compile(r"[0-9]+")
_NUMBER = re.compile(r"[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
NOT_AVAILABLE = "N/A"


class NcclError(ValueError):
    """A text that is no output of the test, or a row that cannot be read. The message names the line."""


class _Line(NamedTuple):
    number: int
    text: str

    def __str__(self) -> str:
        text = " ".join(self.text.split())
        return f"line {self.number}: '{text if len(text) <= 160 else text[:157] + '...'}'"


class _Table(NamedTuple):
    shared: List[str]  # size, count, type, redop, root: those that this release prints
    group: List[str]  # time, algbw, busbw and #wrong, once for out-of-place and once for in-place

    @property
    def width(self) -> int:
        return len(self.shared) + 2 * len(self.group)


def _lines(text: object, command: str) -> List[_Line]:
    if not isinstance(text, str):
        raise NcclError(f"the output of {command} must be text, not {type(text).__name__}")
    clean = _ANSI.sub("", text).replace("\x00", "")
    return [_Line(number + 1, line.rstrip("\r")) for number, line in enumerate(clean.split("\n"))]


def _header(line: _Line) -> Optional[_Table]:
    words = line.text.split()
    if words[:3] != ["#", "size", "count"]:
        return None
    names = words[1:]
    if "time" not in names:
        raise NcclError(f"the header has no column 'time' in {line}")
    first = names.index("time")
    group = names[first : first + (len(names) - first) // 2]
    if names[first:] != group * 2 or tuple(group[:3]) != _MEASURES or tuple(group[3:]) not in (("#wrong",), ("error",), ()):
        raise NcclError(
            f"cannot read the columns '{' '.join(names[first:])}' in {line}; wanted time, algbw, busbw and #wrong, once for out-of-place and once for in-place"
        )
    return _Table(names[:first], group)


def _measure(word: str, line: _Line) -> Optional[float]:
    if word == NOT_AVAILABLE:
        return None
    if not _NUMBER.fullmatch(word):
        raise NcclError(f"cannot read '{word}' as a number in {line}")
    return float(word)


def _measured(words: List[str], table: _Table, line: _Line) -> Dict[str, Any]:
    values = dict(zip(table.group, words))
    wrong = values.get("#wrong", values.get("error"))
    # "error" of old releases is the largest difference found, not a count; they check it against their own bounds.
    return {
        "time_us": _measure(values["time"], line), "algbw": _measure(values["algbw"], line), "busbw": _measure(values["busbw"], line),
        "wrong": None if wrong is None or "error" in values or wrong == NOT_AVAILABLE else _count(wrong, line),
    }


def _count(word: str, line: _Line) -> int:
    if not _DIGITS.fullmatch(word):
        raise NcclError(f"cannot read '{word}' as a count of wrong values in {line}")
    return int(word)


def _row(words: List[str], table: _Table, line: _Line) -> Dict[str, Any]:
    shared = dict(zip(table.shared, words))
    for name in ("size", "count"):
        if not _DIGITS.fullmatch(shared[name]):
            raise NcclError(f"cannot read '{shared[name]}' as {name} in {line}")
    start, step = len(table.shared), len(table.group)
    return {
        "size": int(shared["size"]), "count": int(shared["count"]), "type": shared.get("type"), "redop": shared.get("redop"),
        "root": int(shared["root"]) if re.fullmatch(r"-?[0-9]+", shared.get("root", "")) else None,
        "out_of_place": _measured(words[start : start + step], table, line), "in_place": _measured(words[start + step :], table, line),
        "line": line.number,
    }


class _Transport:
    """What NCCL said it uses between the ranks, counted by channel."""

    def __init__(self) -> None:
        self.network: Dict[str, Dict[str, int]] = {}
        self.local: Dict[str, int] = {}

    def see(self, text: str) -> None:
        match = _CHANNEL.search(text)
        if not match:
            return
        via = match.group("via")
        parts = via.split("/")
        if parts[0] == "NET" and len(parts) > 1:
            counts = self.network.setdefault("/".join(parts[:2]), {"channels": 0, "gdrdma": 0})
            counts["channels"] += 1
            # NET/IB/0/GDRDMA, and GDRDMA(PCI) where the way goes over the PCIe switch of a C2C machine.
            counts["gdrdma"] += any(part.startswith("GDRDMA") for part in parts[2:])
        else:
            name = "/".join(parts[:2])
            self.local[name] = self.local.get(name, 0) + 1

    def told(self) -> Optional[Dict[str, Any]]:
        if not self.network and not self.local:
            return None
        channels = sum(counts["channels"] for counts in self.network.values())
        gdrdma = sum(counts["gdrdma"] for counts in self.network.values())
        word = None if not channels else "all" if gdrdma == channels else "some" if gdrdma else "none"
        return {"network": self.network, "local": self.local, "gdrdma": word}


def _unit(line: _Line) -> None:
    units = [word for word in line.text.split() if re.fullmatch(r"\((?:n|u|m)?s\)", word)]
    if units and set(units) != {"(us)"}:
        raise NcclError(f"times are in {units[0]}, wanted (us), in {line}")


class _Reader:
    def __init__(self) -> None:
        self.table: Optional[_Table] = None
        self.rows: List[Dict[str, Any]] = []
        self.failures: List[Dict[str, Any]] = []
        self.warnings: List[Dict[str, Any]] = []
        self.ranks: List[Dict[str, Any]] = []
        self.transport = _Transport()
        self.facts: Dict[str, Any] = {
            "test": None, "version": None, "out_of_bounds": None, "out_of_bounds_verdict": None, "avg_busbw": None, "min_busbw_verdict": None,
        }
        self.ended = False

    def fail(self, line: _Line, reason: str) -> None:
        self.failures.append({"line": line.number, "reason": reason})

    def comment(self, line: _Line) -> None:
        rank = _RANK.search(line.text)
        if rank:
            values: Dict[str, Any] = rank.groupdict()
            for name in ("rank", "group", "pid", "device"):
                values[name] = None if values[name] is None else int(values[name])
            self.ranks.append(values)
            return
        for pattern, key in ((_VERSION, "version"), (_STARTING, "test"), (_CONCLUDED, "test")):
            match = pattern.search(line.text)
            if match:
                self.facts[key] = self.facts[key] or match.group(key)
                return
        match = _BOUNDS.search(line.text)
        if match:
            self.facts.update(out_of_bounds=int(match.group("count")), out_of_bounds_verdict=match.group("verdict"))
            if match.group("verdict") == "FAILED":
                self.fail(line, f"{match.group('count')} values out of bounds: what was moved is wrong")
            return
        match = _AVERAGE.search(line.text)
        if match:
            self.ended = True
            self.facts.update(avg_busbw=_measure(match.group("value"), line), min_busbw_verdict=match.group("verdict"))
            if match.group("verdict") == "FAILED":
                self.fail(line, f"an average of {match.group('value')} GB/s is below the NCCL_TESTS_MIN_BW of the run")
            return
        if self.table and not self.rows:
            _unit(line)

    def row(self, line: _Line, text: str) -> None:
        table = self.table
        if table is None:
            return
        words = text.split()
        if len(words) == table.width:
            row = _row(words, table, line)
            self.rows.append(row)
            for name in ("out_of_place", "in_place"):
                if row[name]["wrong"]:
                    self.fail(line, f"{row[name]['wrong']} wrong values at {row['size']} bytes ({name.replace('_', '-')})")
        elif len(words) < table.width or _FAILURE.search(text):
            # The columns of a row are printed as they are measured.
            self.fail(line, f"the row of {words[0]} bytes was not finished")
        else:
            raise NcclError(f"found {len(words)} columns, the header has {table.width}, in {line}")

    def line(self, line: _Line) -> None:
        text = _TAG.sub("", line.text)
        said = _NCCL_LINE.search(text)
        if said:
            self.transport.see(said.group("text"))
            if said.group("level") in ("WARN", "ERROR"):
                self.warnings.append({"line": line.number, "text": said.group("text").strip()[:200]})
            text = text[: said.start()]
        stripped = text.strip()
        table = _header(line._replace(text=stripped))
        if table:
            if self.table is not None:
                raise NcclError(
                    f"a second table begins in {line}; wanted the output of one test in one file. Where mpirun starts a test that was built without MPI, "
                    "each rank is a test of its own: build it with MPI=1"
                )
            self.table = table
        elif stripped.startswith("#"):
            self.comment(line._replace(text=stripped))
        elif re.match(r"[0-9]+(\s|$)", stripped) and self.table and not self.ended:
            self.row(line._replace(text=text), stripped)
        if _FAILURE.search(stripped):
            self.fail(line, " ".join(stripped.split())[:200])


def parse_nccl(text: object) -> Dict[str, Any]:
    """What one run of nccl-tests measured.

    :returns: ``{kind: "nccl", test, version, ranks: [{rank, group, pid, host, device, address, name}], hosts, rows: [{size, count, type, redop, root,
        out_of_place: {time_us, algbw, busbw, wrong}, in_place: {...}, line}], out_of_bounds, avg_busbw, min_busbw_verdict, transport, complete, ok,
        failures: [{line, reason}], warnings: [{line, text}]}``. Sizes in bytes, bandwidths in GB/s, null for ``N/A``. ``transport`` is null unless the run
        had ``NCCL_DEBUG=INFO``, else ``{network: {"NET/IB": {channels, gdrdma}}, local: {"P2P/CUMEM": channels}, gdrdma: all|some|none|null}``.
    :raises NcclError: no output of nccl-tests; a row that cannot be read. A run that failed is no error, but has ``ok: false``.
    """
    lines = _lines(text, "nccl-tests")
    reader = _Reader()
    for line in lines:
        reader.line(line)
    if reader.table is None and not reader.failures:
        raise NcclError(f"found no table of nccl-tests in {len(lines)} lines; wanted a line '# size count type ...' with rows below it")
    last = max((line.number for line in lines if line.text.strip()), default=1)
    complete = reader.ended and bool(reader.rows)
    if not complete and not reader.failures:
        reason = "the table has no row" if not reader.rows else "the run ended without its last line, '# Avg bus bandwidth'"
        reader.failures.append({"line": last, "reason": reason})
    hosts = sorted({rank["host"] for rank in reader.ranks})
    return {
        "kind": "nccl", **reader.facts, "ranks": reader.ranks, "hosts": hosts, "rows": reader.rows, "transport": reader.transport.told(),
        "complete": complete, "ok": complete and not reader.failures, "failures": reader.failures, "warnings": reader.warnings,
    }


# --- p2pBandwidthLatencyTest -------------------------------------------------------------------------------------------------

_P2P_TITLE = "P2P (Peer-to-Peer) GPU Bandwidth Latency Test"
_P2P_DEVICE = re.compile(
    r"Device: (?P<index>[0-9]+), (?P<name>.*), pciBusID: (?P<bus>[0-9a-fA-F]+), pciDeviceID: (?P<device>[0-9a-fA-F]+), pciDomainID: ?(?P<domain>[0-9a-fA-F]+)"
)
_P2P_SECTIONS: Tuple[Tuple["re.Pattern[str]", str, str], ...] = (
    (re.compile(r"P2P Connectivity Matrix"), "connectivity", ""),
    (re.compile(r"Unidirectional P2P=Disabled Bandwidth Matrix \((?P<unit>.*)\)"), "unidirectional_disabled", "GB/s"),
    (re.compile(r"Unidirectional P2P=Enabled Bandwidth(?: \(P2P (?:Writes|Reads)\))? Matrix \((?P<unit>.*)\)"), "unidirectional_enabled", "GB/s"),
    (re.compile(r"Bidirectional P2P=Disabled Bandwidth Matrix \((?P<unit>.*)\)"), "bidirectional_disabled", "GB/s"),
    (re.compile(r"Bidirectional P2P=Enabled Bandwidth(?: \(P2P (?:Writes|Reads)\))? Matrix \((?P<unit>.*)\)"), "bidirectional_enabled", "GB/s"),
    (re.compile(r"P2P=Disabled Latency Matrix \((?P<unit>.*)\)"), "latency_disabled", "us"),
    (re.compile(r"P2P=Enabled Latency(?: \(P2P (?:Writes|Reads)\))? Matrix \((?P<unit>.*)\)"), "latency_enabled", "us"),
)
_P2P_HEAD = re.compile(r"(?P<corner>D\\D|GPU|CPU)((?:\s+[0-9]+)+)\s*$")


def is_p2p(text: object) -> bool:
    """Whether a text is an output of ``p2pBandwidthLatencyTest``."""
    return isinstance(text, str) and (_P2P_TITLE in text or "P2P Connectivity Matrix" in text)


class _Matrix:
    def __init__(self, section: str, where: str, columns: List[int], line: _Line) -> None:
        self.section, self.where, self.columns, self.line = section, where, columns, line
        self.rows: List[List[float]] = []

    def row(self, line: _Line) -> None:
        words = line.text.split()
        if words[0] != str(self.columns[len(self.rows)]) or len(words) != len(self.columns) + 1:
            raise NcclError(f"wanted the row of GPU {self.columns[len(self.rows)]} with {len(self.columns)} values in {line}")
        values = [_measure(word, line) for word in words[1:]]
        if None in values:
            raise NcclError(f"a value is missing in {line}")
        self.rows.append([value for value in values if value is not None])

    @property
    def full(self) -> bool:
        return len(self.rows) == len(self.columns)


def parse_p2p(text: object) -> Dict[str, Any]:
    """What one run of ``p2pBandwidthLatencyTest`` measured.

    :returns: ``{kind: "p2p", devices: [{index, name, address}], connectivity: [[0|1]], unidirectional_disabled: [[GB/s]],
        unidirectional_enabled, bidirectional_disabled, bidirectional_enabled, latency_disabled: {gpu: [[us]], cpu: [[us]]},
        latency_enabled, complete, ok, failures}``; rows and columns in the order of
        ``devices``. A section that was not printed is null.
    :raises NcclError: no output of it; a matrix that is not whole.
    """
    lines = _lines(text, "p2pBandwidthLatencyTest")
    if not is_p2p(text):
        raise NcclError(f"found no section of p2pBandwidthLatencyTest in {len(lines)} lines")
    result: Dict[str, Any] = {"kind": "p2p", "test": "p2pBandwidthLatencyTest", "devices": [], **{name: None for _pattern, name, _unit in _P2P_SECTIONS}}
    failures: List[Dict[str, Any]] = []
    section, matrix = "", None
    for line in lines:
        device = _P2P_DEVICE.match(line.text.strip())
        if device:
            address = f"{int(device.group('domain'), 16):04x}:{int(device.group('bus'), 16):02x}:{int(device.group('device'), 16):02x}.0"
            result["devices"].append({"index": int(device.group("index")), "name": device.group("name"), "address": address})
            continue
        if _FAILURE.search(line.text):
            failures.append({"line": line.number, "reason": " ".join(line.text.split())[:200]})
        if matrix is not None and not matrix.full:
            if not line.text.strip() or not line.text.split()[0].isdigit():
                if failures:
                    break
                raise NcclError(f"the matrix '{matrix.section}' has {len(matrix.rows)} rows of {len(matrix.columns)} before {line}")
            matrix.row(line)
            if matrix.full:
                _keep(result, matrix)
            continue
        section = _section(line) or section
        head = _P2P_HEAD.match(line.text.strip())
        if head and section:
            matrix = _Matrix(section, head.group("corner"), [int(word) for word in head.group(2).split()], line)
    missing = [name for _pattern, name, _unit in _P2P_SECTIONS if result[name] is None]
    if missing and not failures:
        last = max((line.number for line in lines if line.text.strip()), default=1)
        failures.append({"line": last, "reason": f"the run ended without {', '.join(missing)}"})
    return {**result, "complete": not missing, "ok": not missing and not failures, "failures": failures}


def _section(line: _Line) -> str:
    for pattern, name, unit in _P2P_SECTIONS:
        match = pattern.match(line.text.strip())
        if match:
            if unit and match.group("unit") != unit:
                raise NcclError(f"values are in {match.group('unit')}, wanted {unit}, in {line}")
            return name
    return ""


def _keep(result: Dict[str, Any], matrix: _Matrix) -> None:
    if not matrix.section.startswith("latency"):
        result[matrix.section] = matrix.rows
    elif matrix.where in ("GPU", "CPU"):
        result[matrix.section] = {**(result[matrix.section] or {}), matrix.where.lower(): matrix.rows}


def parse_results(text: object) -> Dict[str, Any]:
    """An output of either test, by what it says it is: see :func:`parse_nccl` and :func:`parse_p2p`."""
    return parse_p2p(text) if is_p2p(text) else parse_nccl(text)
