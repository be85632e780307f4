# Copyright (c) 2026 The inferops.locality authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read the matrices of ``nvidia-smi topo -m`` and ``rocm-smi --showtopo``, and compare them with computed relations.

These outputs are made for eyes and reach us through terminals, web forms and logs: with tabs or blanks, with colour codes,
with cells glued together and lists cut short. The rule here is to return what a row says beyond doubt, null with a problem where
two readings are possible, and an error where a row is not whole. A wrong CPU list is worse than none.
"""

from __future__ import annotations

import re
from typing import Any, Dict, Iterator, List, Mapping, NamedTuple, Optional, Sequence, Tuple

__all__ = ["TopoError", "compare_relations", "parse_gpu_addresses", "parse_nvidia_topo", "parse_rocm_topo", "without_colours"]

# CSI sequences (colours, underline), OSC sequences (titles, links), two-byte escapes, and colours that lost their escape character.
_ANSI = re.compile(r"(?:\^\[)?\[[0-9;]*m|\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\^_])")

_AFFINITY_HEADER = re.compile(r"CPU\s+Affinity(?P<numa>\s*NUMA\s+Affinity)?(?P<id>\s*GPU\s+NUMA\s+ID)?\s*$")
_GPU = re.compile(r"GPU[0-9]+")
_GLUED_NAMES = re.compile(r"(?:GPU[0-9]+|NIC[0-9]+)+")
_NAME = re.compile(r"GPU[0-9]+|NIC[0-9]+|[a-z][A-Za-z0-9_.-]*")
_LEGEND_NIC = re.compile(r"\s*(NIC[0-9]+)\s*:(.*)$")
# Drivers name RDMA devices mlx5_0, irdma1, rocep4s0f0, bnxt_re0. With many NICs nvidia-smi has been seen to print pieces of its own
# header in the legend ("A", "IC59    NIC60"): those are not names.
_DEVICE = re.compile(r"[a-z][A-Za-z0-9_.-]*")

# Longest first: a PIX must not be read as an X.
_RELATION = re.compile(r"NV[0-9]+|NODE|SYS|SOC|PHB|PXB|PIX|X")
_RELATIONS = re.compile(r"(?:NV[0-9]+|NODE|SYS|SOC|PHB|PXB|PIX|X)+")
_BEGUN = re.compile(r"(?:NODE|SYS|SOC|PHB|PXB|PIX|X|NV)+")
_OTHER_RELATION = re.compile(r"N/A|[A-Z][A-Z0-9]{1,7}")
_KNOWN_WORDS = ("NODE", "SYS", "SOC", "PHB", "PXB", "PIX")

_CPU_LIST = re.compile(r"[0-9]+(?:-[0-9]+)?(?:,[0-9]+(?:-[0-9]+)?)*")
_NUMA_ID = re.compile(r"[0-9]+")
NOT_AVAILABLE = "N/A"

# nvidia-smi adds no entry to a CPU list that already has this many characters (see _is_complete).
_CUT_AT = 10
# No printed affinity cell is longer; longer ones are not searched for glued cells, so that odd input stays cheap.
_MAX_GLUED = 64


class TopoError(ValueError):
    """A text that holds no matrix, or a row that is not whole. The message quotes the line."""


def without_colours(text: str) -> str:
    """A text for eyes without what terminals and web forms add: colours, titles, blanks that do not break."""
    return _ANSI.sub("", text).replace("\xa0", " ").replace("\x00", "")


class _Line(NamedTuple):
    number: int
    text: str
    last: bool = False  # nothing but blanks follows

    def __str__(self) -> str:
        text = " ".join(self.text.split())
        return f"line {self.number}: '{text if len(text) <= 160 else text[:157] + '...'}'"


def _lines(text: object, command: str) -> List[_Line]:
    if not isinstance(text, str):
        raise TopoError(f"the output of '{command}' must be text, not {type(text).__name__}")
    clean = without_colours(text)
    texts = [line.rstrip("\r") for line in clean.split("\n")]
    last = max((number for number, line in enumerate(texts) if line.strip()), default=0)
    return [_Line(number + 1, line, number >= last) for number, line in enumerate(texts)]


def _ascending(entries: str) -> bool:
    previous = -1
    for entry in entries.split(","):
        first, _dash, last = entry.partition("-")
        low, high = int(first), int(last or first)
        if low <= previous or high < low:
            return False
        previous = high
    return True


def _is_list(text: str) -> bool:
    # nvidia-smi numbers are short; the limit also keeps int() away from its own limit on digits.
    return len(text) < 1000 and bool(_CPU_LIST.fullmatch(text)) and _ascending(text)


def _is_complete(cpu_affinity: str) -> bool:
    """Whether a printed CPU list can be taken as the whole list.

    nvidia-smi stops after the entry that brings the list to ten characters or more. Seen on interleaved CPUs: lists end as
    ``0,2,4,6,8,10``, ``0,8,16,24,34`` and ``2,10,18,30``, never later, although the NUMA node has more CPUs; an entry is still added to
    nine characters (``0,2,4,6,8``), never to ten. It marks the cut in no way, so the text alone must decide:

    * shorter than ten characters: whole;
    * ten or more characters before the last entry: this nvidia-smi did not stop there, so it is one that does not cut: whole;
    * one range, or two ranges of the same length (the cores and their SMT siblings: what nearly every machine prints): whole;
    * everything else may have been cut, and is called incomplete.
    """
    entries = cpu_affinity.split(",")
    if len(cpu_affinity) < _CUT_AT or len(",".join(entries[:-1])) >= _CUT_AT or len(entries) == 1:
        return True
    if len(entries) != 2:
        return False
    bounds = [entry.split("-") for entry in entries]
    lengths = {int(bound[-1]) - int(bound[0]) for bound in bounds}
    return len(lengths) == 1


# --- nvidia-smi topo -m -----------------------------------------------------------------------------------------------------


class _Header(NamedTuple):
    names: List[str]
    tail: int  # how many of CPU Affinity, NUMA Affinity, GPU NUMA ID there are


def _read_header(line: _Line) -> Optional[_Header]:
    match = _AFFINITY_HEADER.search(line.text)
    if not match or not _GPU.match(line.text.lstrip()):
        return None
    names: List[str] = []
    for token in line.text[: match.start()].split():
        if _GLUED_NAMES.fullmatch(token):
            names.extend(re.findall(r"GPU[0-9]+|NIC[0-9]+", token))
        elif _NAME.fullmatch(token):
            names.append(token)
        else:
            raise TopoError(f"cannot read column '{token}' of the header in {line}")
    if len(set(names)) != len(names):
        raise TopoError(f"a column stands twice in the header in {line}")
    if match.group("id") and not match.group("numa"):
        raise TopoError(f"the header has a GPU NUMA ID but no NUMA Affinity in {line}")
    return _Header(names, 1 + bool(match.group("numa")) + bool(match.group("id")))


def _split_name(text: str, names: Sequence[str]) -> Optional[Tuple[str, str]]:
    """(row name, rest) if this line is a row of the matrix."""
    stripped = text.strip()
    first = stripped.split(None, 1)[0] if stripped else ""
    if first in names:
        return first, stripped[len(first) :]
    for name in names:
        rest = first[len(name) :]
        if first.startswith(name) and rest and _RELATIONS.fullmatch(rest):
            return name, stripped[len(name) :]
    return None


# One reading of the end of a row: the last relation if it was glued to what follows (else null), and the affinity cells.
_Reading = Tuple[Optional[str], Tuple[str, ...]]


def _glued_boundary(token: str) -> Iterator[Tuple[List[str], str]]:
    """Ways to read a token as relations followed by the beginning of a CPU list, such as ``SYS0-47`` or ``NV1824-47``."""
    match = _BEGUN.match(token)
    if not match:
        return
    head, rest = match.group(0), token[match.end() :]
    if not head.endswith("NV"):
        if rest and (rest[0].isdigit() or rest == NOT_AVAILABLE):
            yield _RELATION.findall(head), rest
        return
    words = _RELATION.findall(head[:-2])
    for digits in (1, 2, 3):
        if rest[:digits].isdigit() and len(rest) > digits:
            yield words + ["NV" + rest[:digits]], rest[digits:]


def _fill(tokens: Sequence[str], columns: int) -> Iterator[Tuple[str, ...]]:
    """Ways to lay tokens into the affinity cells, in order, some cells left empty, some tokens holding two or three cells."""
    if columns == 3:
        if not tokens or len(tokens[-1]) > _MAX_GLUED:
            return
        # nvidia-smi never leaves the GPU NUMA ID empty: a row without one is not whole. Only N/A can be split off for sure.
        last = tokens[-1]
        if last == NOT_AVAILABLE or _NUMA_ID.fullmatch(last):
            for cells in _fill(tokens[:-1], 2):
                yield cells + (last,)
        elif last.endswith(NOT_AVAILABLE):
            for cells in _fill(list(tokens[:-1]) + [last[: -len(NOT_AVAILABLE)]], 2):
                yield cells + (NOT_AVAILABLE,)
        return
    usable = [token for token in tokens if token == NOT_AVAILABLE or _is_list(token)]
    if columns == 1:
        if len(tokens) <= 1 and len(usable) == len(tokens):
            yield (tokens[0],) if tokens else ("",)
        return
    if not tokens:
        yield ("", "")
    elif len(tokens) == 2:
        if len(usable) == 2:
            yield (tokens[0], tokens[1])
    elif len(tokens) == 1 and len(tokens[0]) <= _MAX_GLUED:
        token = tokens[0]
        if usable:
            yield (token, "")
            yield ("", token)
        for cut in range(1, len(token)):
            left, right = token[:cut], token[cut:]
            if all(part == NOT_AVAILABLE or _is_list(part) for part in (left, right)):
                yield (left, right)


def _printed(line: _Line, name: str, relations: Sequence[str], readings: Sequence[_Reading], header: _Header) -> List[_Reading]:
    """The readings that nvidia-smi itself would print as exactly this line: two tabs before the GPU NUMA ID, blanks around the X."""

    def same(reading: _Reading) -> bool:
        last, cells = reading
        shown = [" X " if relation == "X" else relation for relation in list(relations) + ([last] if last else [])]
        tail = list(cells[:2]) + [""] * (len(cells) == 3) + list(cells[2:])
        text, ours = line.text.expandtabs(8), "\t".join([name] + shown + tail).expandtabs(8)
        # Blanks at the end mean nothing after the GPU NUMA ID; without that column they are the empty cells.
        return text.rstrip() == ours.rstrip() if header.tail == 3 else text == ours

    return [reading for reading in readings if same(reading)]


class _Row(NamedTuple):
    relations: List[Optional[str]]
    cells: Tuple[Optional[str], ...]  # affinity cells; "" where the cell is empty, null where it cannot be told
    problems: List[str]


def _read_relations(line: _Line, name: str, rest: str, header: _Header) -> Tuple[List[str], List[str], List[str]]:
    """(relations, tokens after them, problems); the last relation is missing if it is glued to a CPU list."""
    wanted = len(header.names)
    relations: List[str] = []
    problems: List[str] = []
    tokens = rest.split()
    used = 0
    while used < len(tokens) and len(relations) < wanted:
        token = tokens[used]
        if _RELATIONS.fullmatch(token):
            found = _RELATION.findall(token)
        elif _OTHER_RELATION.fullmatch(token) and not any(word.startswith(token) for word in _KNOWN_WORDS + ("NV",)):
            found = [token]
            if token != NOT_AVAILABLE:
                problems.append(f"{name}: relation '{token}' to {header.names[len(relations)]} is not one nvidia-smi explains")
        else:
            break
        relations.extend(found)
        used += 1
    if len(relations) > wanted:
        raise TopoError(f"{name} has more cells than the header has columns ({len(header.names)}) in {line}")
    return relations, tokens[used:], problems


def _read_row(line: _Line, name: str, rest: str, header: _Header) -> _Row:
    relations, tokens, problems = _read_relations(line, name, rest, header)
    wanted = len(header.names)
    readings: List[_Reading] = []
    is_gpu = bool(_GPU.fullmatch(name))
    if len(relations) == wanted:
        if not is_gpu:
            if tokens:
                raise TopoError(f"{name} has more cells than the header has columns ({wanted}) in {line}")
            return _Row(list(_checked(line, name, relations, header)), (), problems)
        readings = [(None, cells) for cells in _fill(tokens, header.tail)]
    elif is_gpu and tokens:
        for words, remainder in _glued_boundary(tokens[0]):
            if len(relations) + len(words) == wanted:
                begun = relations + words[:-1]
                readings.extend((words[-1], cells) for cells in _fill([remainder] + tokens[1:], header.tail))
        if readings:
            relations = begun
    if not readings:
        if len(relations) < wanted:
            raise TopoError(f"{name} has {len(relations)} of {wanted} relations: the row is cut or garbled in {line}")
        raise TopoError(f"the affinity cells of {name} are cut or garbled in {line}")

    # A row that has all its cells is read as it stands.
    regular = [reading for reading in readings if reading[0] is None and len(tokens) == header.tail]
    if not regular:
        regular = _printed(line, name, relations, readings, header)
    if not regular:
        # Cells are glued or empty and the blanks between them are not nvidia-smi's own. If nothing shows that the row reached its
        # end, it may as well have been cut.
        reached_end = tokens[-1].endswith(NOT_AVAILABLE) if header.tail == 3 else header.tail == 1 or not tokens or not line.last
        if not reached_end:
            raise TopoError(f"the affinity cells of {name} are cut or garbled in {line}")
    return _agreed(line, name, relations, regular or readings, header, problems)


def _agreed(
    line: _Line, name: str, relations: List[str], readings: List[_Reading], header: _Header, problems: List[str]
) -> _Row:
    """What all readings of a row say; where they differ null, with a problem."""
    cells: List[Optional[str]] = []
    for column, label in enumerate(("CPU Affinity", "NUMA Affinity", "GPU NUMA ID")[: header.tail]):
        values = {reading[1][column] for reading in readings}
        cells.append(values.pop() if len(values) == 1 else None)
        if cells[-1] is None:
            problems.append(f"{name}: {label} cannot be told from the cells beside it")
    complete: List[Optional[str]] = list(relations)
    if len(complete) < len(header.names):
        last = {reading[0] for reading in readings}
        complete.append(last.pop() if len(last) == 1 else None)
        if complete[-1] is None:
            problems.append(f"{name}: the relation to {header.names[-1]} cannot be told from the CPU Affinity beside it")
    return _Row(list(_checked(line, name, complete, header)), tuple(cells), problems)


def _checked(line: _Line, name: str, relations: Sequence[Optional[str]], header: _Header) -> Sequence[Optional[str]]:
    """The X must stand in the row's own column and nowhere else: otherwise a cell was lost or doubled on the way."""
    for column, relation in zip(header.names, relations):
        if (column == name) != (relation == "X"):
            raise TopoError(f"{name} does not have its X in column {name}: cells are missing or doubled in {line}")
    return relations


def parse_nvidia_topo(text: str) -> Dict[str, Any]:
    """Read the text of ``nvidia-smi topo -m``.

    :returns: ``gpus`` [{name, cpu_affinity, cpu_affinity_complete, numa_affinity, gpu_numa_id}], all as printed, null for ``N/A``,
        empty, or a column that is not there; ``cpu_affinity_complete`` (rule: ``_is_complete``) is null without a list.
        ``nics`` [{name, device}]: device from the NIC legend, or the name itself where the columns are device names (older drivers).
        ``relations`` {row: {column: word}} of GPU and NIC rows as printed (old ``SOC`` means SYS), without the X; each row for itself,
        real matrices can be asymmetric. ``problems`` [{line, reason}].
    :raises TopoError: no matrix, no row, a header or a row that is cut or garbled.
    """
    command = "nvidia-smi topo -m"
    lines = _lines(text, command)
    start, header = _find_header(lines, command)
    problems: List[Dict[str, Any]] = []
    rows: Dict[str, _Row] = {}
    legend: Dict[str, Optional[str]] = {}
    in_matrix = True
    for line in lines[start:]:
        if not line.text.strip():
            continue
        if _AFFINITY_HEADER.search(line.text) and _GPU.match(line.text.lstrip()):
            problems.append({"line": line.number, "reason": "a second matrix follows and is not read"})
            break
        entry = _LEGEND_NIC.match(line.text)
        if entry:
            in_matrix = False
            name, device = entry.group(1), entry.group(2).strip()
            legend[name] = device if _DEVICE.fullmatch(device) else None
            if legend[name] is None:
                problems.append({"line": line.number, "reason": f"the NIC legend is garbled: {name} cannot be '{' '.join(device.split())[:60]}'"})
            continue
        split = _split_name(line.text, header.names) if in_matrix else None
        if split is None:
            if in_matrix and re.match(r"(?:GPU|NIC)[0-9]+(?:\s|$)", line.text.strip()):
                raise TopoError(f"a row without a column in the header: the header is cut, in {line}")
            in_matrix = False
            continue
        name, rest = split
        if name in rows:
            raise TopoError(f"{name} has two rows, the second in {line}")
        row = _read_row(line, name, rest, header)
        rows[name] = row
        problems.extend({"line": line.number, "reason": reason} for reason in row.problems)
    if not rows:
        raise TopoError(f"the matrix of '{command}' has a header and no rows: {lines[start - 1]}")

    missing = [name for name in header.names if name not in rows]
    if missing:
        problems.append({"line": lines[start - 1].number, "reason": f"no row for {', '.join(missing)}"})
    gpus = [_gpu(name, rows.get(name)) for name in header.names if _GPU.fullmatch(name)]
    nics = [
        {"name": name, "device": legend.get(name) if re.fullmatch(r"NIC[0-9]+", name) else name}
        for name in header.names
        if not _GPU.fullmatch(name)
    ]
    unnamed = [nic["name"] for nic in nics if nic["device"] is None and nic["name"] not in legend]
    if unnamed:
        problems.append({"line": None, "reason": f"the NIC legend does not name {', '.join(str(name) for name in unnamed)}"})
    strange = [name for name in legend if name not in header.names]
    if strange:
        problems.append({"line": None, "reason": f"the NIC legend names {', '.join(strange)}, which have no column"})
    relations = {
        name: {column: word for column, word in zip(header.names, rows[name].relations) if column != name}
        for name in header.names
        if name in rows
    }
    for row_relations in relations.values():
        for column, word in row_relations.items():
            if word == NOT_AVAILABLE:
                row_relations[column] = None
    return {"gpus": gpus, "nics": nics, "relations": relations, "problems": problems}


def _find_header(lines: Sequence[_Line], command: str) -> Tuple[int, _Header]:
    for index, line in enumerate(lines):
        header = _read_header(line)
        if header:
            return index + 1, header
    near = next((line for line in lines if _GPU.search(line.text)), None) or next((line for line in lines if line.text.strip()), None)
    raise TopoError(f"no matrix of '{command}' found (its header names GPU0 … CPU Affinity); " + (str(near) if near else "the text is empty"))


def _gpu(name: str, row: Optional[_Row]) -> Dict[str, Any]:
    cells = [cell if cell not in ("", NOT_AVAILABLE) else None for cell in (row.cells if row else ())]
    cpus, numa, own_id = (cells + [None, None, None])[:3]
    return {
        "name": name,
        "cpu_affinity": cpus,
        "cpu_affinity_complete": None if cpus is None else _is_complete(cpus),
        "numa_affinity": numa,
        "gpu_numa_id": own_id,
    }


# --- rocm-smi --showtopo ----------------------------------------------------------------------------------------------------

_ROCM_TITLE = re.compile(r"=+\s*(?P<title>[^=]*?)\s*=+")
_ROCM_SECTIONS = {
    "weight between two gpus": "weights",
    "hops between two gpus": "hops",
    "link type between two gpus": "relations",
    "numa nodes": "numa",
}
_ROCM_NUMA = re.compile(r"\s*GPU\[([0-9]+)\]\s*:\s*(?:\(Topology\)\s*)?Numa (Node|Affinity)\s*:\s*(\S+)\s*$", re.IGNORECASE)
_ROCM_NUMA_BEGUN = re.compile(r"\s*GPU\[")


def _rocm_row(line: _Line, names: Sequence[str], key: str) -> Tuple[str, List[str]]:
    tokens = line.text.split()
    if tokens[0] not in names:
        raise TopoError(f"a row without a column in the header: {line}")
    if len(tokens) != len(names) + 1:
        raise TopoError(f"{tokens[0]} has {len(tokens) - 1} of {len(names)} cells: the row is cut or garbled in {line}")
    cells = tokens[1:]
    if cells[names.index(tokens[0])] not in ("0", "X"):
        raise TopoError(f"{tokens[0]} does not have its 0 in column {tokens[0]}: cells are missing or doubled in {line}")
    if key != "relations":
        for cell in cells:
            if cell != NOT_AVAILABLE and not re.fullmatch(r"[0-9]{1,9}", cell):
                raise TopoError(f"'{cell}' is not a number in {line}")
    return tokens[0], cells


def parse_rocm_topo(text: str) -> Dict[str, Any]:
    """Read the text of ``rocm-smi --showtopo``.

    The result has the shape of :func:`parse_nvidia_topo`: ``gpus`` [{name, cpu_affinity, cpu_affinity_complete, numa_affinity, gpu_numa_id,
    numa_node}] (rocm-smi prints no CPUs: the first two are null, and so is gpu_numa_id; ``numa_node`` and ``numa_affinity`` as printed,
    null for -1, which is how the kernel says "unknown"), ``nics`` [] , ``relations`` {GPU0: {GPU1: "XGMI"}} (the link type),
    ``problems`` [{line, reason}]; and besides it ``weights`` and ``hops`` {GPU0: {GPU1: int}}. A section that is not printed is empty.

    :raises TopoError: no section with a matrix, a row that is cut or garbled.
    """
    command = "rocm-smi --showtopo"
    problems: List[Dict[str, Any]] = []
    matrices: Dict[str, Dict[str, List[str]]] = {"weights": {}, "hops": {}, "relations": {}}
    numa: Dict[str, Dict[str, Optional[str]]] = {}
    columns: Dict[str, List[str]] = {}
    section: Optional[str] = None
    for line in _lines(text, command):
        stripped = line.text.strip()
        title = _ROCM_TITLE.fullmatch(stripped)
        if title:
            section = _ROCM_SECTIONS.get(title.group("title").lower())
            if section in columns:
                raise TopoError(f"a second '{title.group('title')}' in {line}")
            continue
        if not stripped or section is None:
            continue
        if section == "numa":
            match = _ROCM_NUMA.match(line.text)
            if match:
                value = match.group(3)
                if not re.fullmatch(r"-1|[0-9]+|N/A|None", value):
                    raise TopoError(f"'{value}' is not a NUMA node in {line}")
                known = value if value.isdigit() else None
                numa.setdefault(f"GPU{match.group(1)}", {})[match.group(2).lower()] = known
            elif _ROCM_NUMA_BEGUN.match(line.text):
                raise TopoError(f"cannot read the NUMA node in {line}")
            continue
        if section not in columns:
            names = stripped.split()
            if not all(_GPU.fullmatch(name) for name in names) or len(set(names)) != len(names):
                raise TopoError(f"cannot read the columns in {line}")
            columns[section] = names
            continue
        name, cells = _rocm_row(line, columns[section], section)
        if name in matrices[section]:
            raise TopoError(f"{name} has two rows, the second in {line}")
        matrices[section][name] = cells
    order: List[str] = []
    for names in list(columns.values()) + [list(numa)]:
        order.extend(name for name in names if name not in order)
    if not order:
        raise TopoError(f"no matrix of '{command}' found (its sections are titled '… between two GPUs' and 'Numa Nodes')")
    for key, names in columns.items():
        absent = [name for name in names if name not in matrices[key]]
        if absent and len(absent) == len(names):
            raise TopoError(f"the {key} matrix of '{command}' has a header and no rows")
        if absent:
            problems.append({"line": None, "reason": f"{key}: no row for {', '.join(absent)}"})

    def others(key: str) -> Dict[str, Dict[str, Any]]:
        result: Dict[str, Dict[str, Any]] = {}
        for name, cells in matrices[key].items():
            pairs = [(column, None if cell == NOT_AVAILABLE else cell) for column, cell in zip(columns[key], cells) if column != name]
            result[name] = {column: int(cell) if cell is not None and key != "relations" else cell for column, cell in pairs}
        return result

    gpus = [
        {
            "name": name,
            "cpu_affinity": None,
            "cpu_affinity_complete": None,
            "numa_affinity": numa.get(name, {}).get("affinity"),
            "gpu_numa_id": None,
            "numa_node": numa.get(name, {}).get("node"),
        }
        for name in order
    ]
    return {"gpus": gpus, "nics": [], "relations": others("relations"), "weights": others("weights"), "hops": others("hops"), "problems": problems}


# --- the cross-check --------------------------------------------------------------------------------------------------------

_SMI_ADDRESS = re.compile(r"\s*([0-9]+)\s*,\s*([0-9A-Fa-f]{4,8}):([0-9A-Fa-f]{2}):([0-9A-Fa-f]{2})\.([0-7])\s*$")


def parse_gpu_addresses(text: str) -> Dict[str, str]:
    """Read ``nvidia-smi --query-gpu=index,pci.bus_id --format=csv,noheader`` into {"GPU0": "0000:1b:00.0"}.

    nvidia-smi prints the PCI domain with eight digits (``00000000:1B:00.0``), sysfs with four unless it needs more; the result has sysfs's form.

    :raises TopoError: a line that is not an index and an address, an index twice, no line at all.
    """
    addresses: Dict[str, str] = {}
    for line in _lines(text, "nvidia-smi --query-gpu=index,pci.bus_id"):
        if not line.text.strip() or line.text.strip().lower().startswith("index"):
            continue
        match = _SMI_ADDRESS.match(line.text)
        if not match:
            raise TopoError(f"not 'index, bus id' in {line}")
        index, domain, bus, device, function = match.groups()
        name = f"GPU{int(index[:9])}"
        if name in addresses:
            raise TopoError(f"GPU index {index} stands twice, the second time in {line}")
        addresses[name] = f"{int(domain, 16):04x}:{bus.lower()}:{device.lower()}.{function}"
    if not addresses:
        raise TopoError("nvidia-smi names no GPU")
    return addresses


def _difference(
    gpu: str, other: str, printed: Optional[str], computed: Optional[str], reason: str, addresses: Mapping[str, Optional[str]]
) -> Dict[str, Any]:
    return {
        "gpu": gpu,
        "gpu_address": addresses.get(gpu),
        "other": other,
        "other_address": addresses.get(other),
        "printed": printed,
        "computed": computed,
        "reason": reason,
    }


def compare_relations(
    topology_facts: Mapping[str, Any], nvidia_topo: Mapping[str, Any], smi_gpu_addresses: Mapping[str, str]
) -> List[Dict[str, Any]]:
    """Compare the relations computed from sysfs with those nvidia-smi printed.

    :param topology_facts: facts of ``numa_topology`` (``devices`` with ``address`` and ``rdma``, ``relations``).
    :param nvidia_topo: result of :func:`parse_nvidia_topo`.
    :param smi_gpu_addresses: result of :func:`parse_gpu_addresses`.
    :returns: [{gpu, gpu_address, other, other_address, printed, computed, reason}], empty when both say the same. A GPU or NIC that cannot be
        found on the other side is one entry with ``printed`` and ``computed`` null.

    Rows of GPUs only. Not compared: ``NV#`` (it hides the PCIe relation) and cells that could not be read. ``SOC`` of old drivers is
    SYS, and since they know no NODE, their PHB is PHB or NODE.
    """
    devices = [device for device in topology_facts.get("devices") or [] if isinstance(device, Mapping)]
    known = {str(device.get("address")) for device in devices}
    by_rdma = {str(name): str(device.get("address")) for device in devices for name in device.get("rdma") or []}
    computed_relations: Mapping[str, Mapping[str, str]] = topology_facts.get("relations") or {}
    printed_relations: Mapping[str, Mapping[str, Optional[str]]] = nvidia_topo.get("relations") or {}

    differences: List[Dict[str, Any]] = []
    addresses: Dict[str, Optional[str]] = {}
    for gpu in nvidia_topo.get("gpus") or []:
        name = gpu["name"]
        addresses[name] = smi_gpu_addresses.get(name)
        if addresses[name] is None:
            differences.append(_difference(name, name, None, None, "nvidia-smi gives no PCI address for this index", addresses))
        elif addresses[name] not in known:
            differences.append(_difference(name, name, None, None, "no such device in the topology", addresses))
            addresses[name] = None
    for nic in nvidia_topo.get("nics") or []:
        name, device = nic["name"], nic.get("device")
        addresses[name] = by_rdma.get(str(device)) if device else None
        if addresses[name] is None:
            reason = f"no RDMA device '{device}' in the topology" if device else "the NIC legend does not name its device"
            differences.append(_difference(name, name, None, None, reason, addresses))

    old_words = any(word == "SOC" for row in printed_relations.values() for word in row.values())
    seen: Dict[Tuple[str, str], Optional[str]] = {}
    for gpu in nvidia_topo.get("gpus") or []:
        name = gpu["name"]
        for other, word in (printed_relations.get(name) or {}).items():
            ours, theirs = addresses.get(name), addresses.get(other)
            if ours is None or theirs is None or word is None or word.startswith("NV"):
                continue
            pair = (min(name, other), max(name, other))
            if seen.get(pair) == word:
                continue
            seen[pair] = word
            computed = (computed_relations.get(ours) or {}).get(theirs) or (computed_relations.get(theirs) or {}).get(ours)
            same = {"SYS"} if word == "SOC" else {"PHB", "NODE"} if word == "PHB" and old_words else {word}
            if computed not in same:
                reason = "not computed from sysfs" if computed is None else f"nvidia-smi says {word}, sysfs says {computed}"
                differences.append(_difference(name, other, word, computed, reason, addresses))
    return differences
