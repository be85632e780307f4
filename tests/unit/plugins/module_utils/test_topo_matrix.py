# Copyright (c) 2026 The inferops.locality authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The matrices of nvidia-smi and rocm-smi: every way they get damaged, random ones printed and read back, and rubbish."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ansible_collections.inferops.locality.plugins.module_utils import topo_matrix
from ansible_collections.inferops.locality.plugins.module_utils.topo_matrix import TopoError, parse_nvidia_topo, parse_rocm_topo

HEADER = "\tGPU0\tGPU1\tNIC0\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\n"
ROW1 = "GPU1\tNV4\t X \tSYS\t16-31,48-63\t1\t\tN/A\n"
TAIL = "NIC0\tPIX\tSYS\t X \t\t\t\t\n\nLegend:\n\n  X    = Self\n\nNIC Legend:\n\n  NIC0: mlx5_3\n"


def matrix(row0: str, header: str = HEADER) -> str:
    """A machine with two GPUs and a NIC; the first row is the one under test."""
    return header + row0 + "\n" + ROW1 + TAIL


def first(row0: str, header: str = HEADER) -> tuple[Any, ...]:
    gpu = parse_nvidia_topo(matrix(row0, header))["gpus"][0]
    return gpu["cpu_affinity"], gpu["numa_affinity"], gpu["gpu_numa_id"]


def test_a_whole_matrix() -> None:
    assert parse_nvidia_topo(matrix("GPU0\t X \tNV4\tPIX\t0-15,32-47\t0\t\tN/A")) == {
        "gpus": [
            {"name": "GPU0", "cpu_affinity": "0-15,32-47", "cpu_affinity_complete": True, "numa_affinity": "0", "gpu_numa_id": None},
            {"name": "GPU1", "cpu_affinity": "16-31,48-63", "cpu_affinity_complete": True, "numa_affinity": "1", "gpu_numa_id": None},
        ],
        "nics": [{"name": "NIC0", "device": "mlx5_3"}],
        "relations": {"GPU0": {"GPU1": "NV4", "NIC0": "PIX"}, "GPU1": {"GPU0": "NV4", "NIC0": "SYS"}, "NIC0": {"GPU0": "PIX", "GPU1": "SYS"}},
        "problems": [],
    }


@pytest.mark.parametrize(
    ("row", "cells"),
    [
        pytest.param("GPU0\t X \tNV4\tPIX\t0-15\t0\t\t2", ("0-15", "0", "2"), id="a GPU with memory of its own"),
        pytest.param("GPU0\t X \tNV4\tPIX\t0-15\t0-3\t\tN/A", ("0-15", "0-3", None), id="NUMA range"),
        pytest.param("GPU0\t X \tNV4\tPIX\t\t\t\tN/A", (None, None, None), id="empty affinities, tabs"),
        pytest.param("GPU0 X NV4 PIX N/A", (None, None, None), id="empty affinities, squeezed"),
        pytest.param("GPU0\t X \tNV4\tPIX\tN/A\tN/A\t\tN/A", (None, None, None), id="not available"),
        pytest.param("GPU0\t X \tNV4\tPIX\t\t1\t\tN/A", (None, "1", None), id="only the NUMA node, tabs"),
        pytest.param("GPU0\t X \tNV4\tPIX\t\t1\t\tN/A".expandtabs(8), (None, "1", None), id="only the NUMA node, blanks"),
        pytest.param("GPU0\t X \tNV4\tPIX\t0-15\t\t\tN/A".expandtabs(8), ("0-15", None, None), id="only the CPUs, blanks"),
        pytest.param("GPU0     X      NV4     PIX     0-15    0N/A", ("0-15", "0", None), id="NUMA node and id glued"),
        pytest.param("GPU0     X      NV4     PIX0-15     0     N/A", ("0-15", "0", None), id="relation and CPUs glued"),
        pytest.param("GPU0     X      NV4PIX     0-15     0     N/A", ("0-15", "0", None), id="relations glued"),
        pytest.param("GPU0 XNV4PIX 0-15 0 N/A", ("0-15", "0", None), id="X glued"),
        pytest.param("GPU0X NV4 PIX 0-15 0 N/A", ("0-15", "0", None), id="X glued to the name"),
        pytest.param("  GPU0\xa0 X  NV4  PIX  0-15  0  N/A   ", ("0-15", "0", None), id="indented, non-breaking and trailing blanks"),
        pytest.param("\x1b[1mGPU0\x1b[0m\t X \tNV4\t\x1b[32mPIX\x1b[0m\t0-15\t0\t\tN/A\r", ("0-15", "0", None), id="colours and CR"),
        pytest.param("[1mGPU0[0m\t X \tNV4\tPIX\t0-15\t0\t\tN/A", ("0-15", "0", None), id="colours that lost their escape"),
    ],
)
def test_readings_without_doubt(row: str, cells: tuple[Any, ...]) -> None:
    assert first(row) == cells
    assert parse_nvidia_topo(matrix(row))["problems"] == []


@pytest.mark.parametrize(
    ("row", "cells", "doubtful"),
    [
        pytest.param("GPU0\t X \tNV4\tPIX\t48-95,144-1911N/A", (None, None, None), ["CPU", "NUMA"], id="CPUs, NUMA node and id glued"),
        pytest.param("GPU0 X NV4 PIX 0-151 N/A", (None, None, None), ["CPU", "NUMA"], id="CPUs and NUMA node glued, or one is missing"),
        pytest.param("GPU0 X NV4 PIX 1 N/A", (None, None, None), ["CPU", "NUMA"], id="one of two is missing"),
    ],
)
def test_doubtful_cells_are_null_with_a_problem(row: str, cells: tuple[Any, ...], doubtful: list[str]) -> None:
    result = parse_nvidia_topo(matrix(row))
    assert first(row) == cells and result["relations"]["GPU0"] == {"GPU1": "NV4", "NIC0": "PIX"}
    assert [(problem["line"], problem["reason"]) for problem in result["problems"]] == [
        (2, f"GPU0: {word} Affinity cannot be told from the cells beside it") for word in doubtful
    ]


@pytest.mark.parametrize(
    ("row1", "link", "cpus"),
    [
        # With NV1 the list would begin 80-55, with NV180 it would begin with a dash: one reading is left.
        pytest.param("GPU1 NV4 X\nGPU0 X NV180-55 0 N/A", "NV18", "0-55", id="one reading"),
        pytest.param("GPU1 NV4 X\nGPU0 X NV1824-47 0 N/A", None, None, id="NV18 and 24-47, or NV182 and 4-47"),
    ],
)
def test_an_nvlink_glued_to_the_cpus(row1: str, link: str | None, cpus: str | None) -> None:
    text = "\tGPU0\tGPU1\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\n" + row1.replace("GPU1 NV4 X", "GPU1 NV4 X 0-55 0 N/A") + "\n"
    result = parse_nvidia_topo(text)
    assert result["relations"]["GPU0"] == {"GPU1": link} and result["gpus"][0]["cpu_affinity"] == cpus
    assert len(result["problems"]) == (0 if cpus else 2)


@pytest.mark.parametrize(
    "row",
    [
        pytest.param("GPU0\t X ", id="cut after the X"),
        pytest.param("GPU0\t X \tNV4\tPI", id="cut in a relation"),
        pytest.param("GPU0\t X \tNV4\tPIX", id="cut before the affinities"),
        pytest.param("GPU0\t X \tNV4\tPIX\t0-", id="cut in a range"),
        pytest.param("GPU0\t X \tNV4\tPIX\t0-1", id="cut in a number"),
        pytest.param("GPU0\t X \tNV4\tPIX\t0-15\t0", id="cut after the NUMA node"),
        pytest.param("GPU0\t X \tNV4\tPIX\t0-15\t0\t\tN", id="cut in the id"),
        pytest.param("GPU0\t X \tPIX\t0-15\t0\t\tN/A", id="a relation is missing"),
        pytest.param("GPU0\tNV4\t X \tPIX\t0-15\t0\t\tN/A", id="the X in another column"),
        pytest.param("GPU0\t X \tNV4\tPIX\tPIX\t0-15\t0\t\tN/A", id="a relation too many"),
        pytest.param("GPU0\t X \tNV4\tPIX\t0-15\t0\t\tN/A\t7", id="a cell too many"),
        pytest.param("GPU0\t X \tNV4\tPIX\t15-0\t0\t\tN/A", id="a range that runs backwards"),
        pytest.param("GPU0\t X \tNV4\tPIX\t8-15,0-7\t0\t\tN/A", id="ranges out of order"),
        pytest.param("GPU0\t X \tNV4\tPIX\t?\t0\t\tN/A", id="rubbish"),
        pytest.param("GPU2\t X \tNV4\tPIX\t0-15\t0\t\tN/A", id="a row without a column"),
        pytest.param(ROW1.strip(), id="a row twice"),
    ],
)
def test_a_row_that_is_not_whole_is_an_error_with_the_line(row: str) -> None:
    with pytest.raises(TopoError, match=r"line [23]: 'GPU") as caught:
        parse_nvidia_topo(matrix(row))
    assert "\t" not in str(caught.value)


@pytest.mark.parametrize("cut", ["0-4", "0-47", "0-47,96-99", ""])
def test_a_row_cut_before_its_numa_node_is_an_error(cut: str) -> None:
    """Without a GPU NUMA ID at the end, only the tab after the CPUs tells an empty cell from a cut row."""
    header = "\tGPU0\tCPU Affinity\tNUMA Affinity\n"
    if cut:
        with pytest.raises(TopoError, match="line 2"):
            parse_nvidia_topo(header + f"GPU0\t X \t{cut}")
    (gpu,) = parse_nvidia_topo(header + f"GPU0\t X \t{cut}\t\n")["gpus"]
    assert (gpu["cpu_affinity"], gpu["numa_affinity"]) == (cut or None, None)
    # Other lines follow: the row was not cut, but its cells may be glued.
    (gpu,) = parse_nvidia_topo(header + f"GPU0 X {cut}\n\nLegend:\n")["gpus"]
    assert (gpu["cpu_affinity"], gpu["numa_affinity"]) == (None, None)


@pytest.mark.parametrize("cut", ["S", "SY", "N", "NO", "NV", "PX"])
def test_a_nic_row_cut_in_its_last_relation_is_an_error(cut: str) -> None:
    with pytest.raises(TopoError, match="line 3"):
        parse_nvidia_topo(f"\tGPU0\tNIC0\tNIC1\tCPU Affinity\nGPU0\t X \tPIX\tSYS\t0-3\nNIC0\tPIX\t X \t{cut}")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param("", "the text is empty", id="nothing"),
        pytest.param("NVIDIA-SMI has failed\n", "no matrix of 'nvidia-smi topo -m' found", id="message"),
        pytest.param("\nNVIDIA-SMI has failed\n", "line 2: 'NVIDIA-SMI has failed'", id="message, with its line"),
        pytest.param("GPU 0: NVIDIA H100\n\tGPU0\tGPU1\nGPU0\tX\tGNS\nGPU1\tGNS\tX\n", "no matrix", id="the p2p matrix"),
        pytest.param(HEADER, "has a header and no rows: line 1", id="header only"),
        pytest.param(HEADER[:-6] + "\n" + ROW1, "line 1: 'GPU0 GPU1 NIC0 CPU Affinity NUMA Affinity GPU NU'", id="a cut header"),
        pytest.param("\tGPU0\tGPU0\tCPU Affinity\n", "a column stands twice", id="a column twice"),
        pytest.param("\tGPU0\t??\tCPU Affinity\n", "cannot read column '??'", id="a strange column"),
        pytest.param(None, "must be text, not NoneType", id="null"),
        pytest.param(["GPU0"], "must be text, not list", id="lines"),
    ],
)
def test_a_text_without_a_matrix_is_an_error(text: Any, message: str) -> None:
    with pytest.raises(TopoError, match=re.escape(message)):
        parse_nvidia_topo(text)


def test_old_columns() -> None:
    result = parse_nvidia_topo("\tGPU0\tmlx4_0\tCPU Affinity\nGPU0\t X \tSOC\t0-5\nmlx4_0\tSOC\t X \n")
    assert result["nics"] == [{"name": "mlx4_0", "device": "mlx4_0"}] and result["relations"]["GPU0"] == {"mlx4_0": "SOC"}
    assert result["gpus"][0] == {"name": "GPU0", "cpu_affinity": "0-5", "cpu_affinity_complete": True, "numa_affinity": None, "gpu_numa_id": None}


def test_glued_columns() -> None:
    result = parse_nvidia_topo("GPU0NIC9NIC10CPU Affinity NUMA AffinityGPU NUMA ID\nGPU0 X SYS PIX 0-5 0 N/A\n")
    assert [nic["name"] for nic in result["nics"]] == ["NIC9", "NIC10"] and result["relations"]["GPU0"] == {"NIC9": "SYS", "NIC10": "PIX"}


def test_asymmetric_rows_are_kept() -> None:
    text = matrix("GPU0\t X \tSYS\tPIX\t0-15\t0\t\tN/A")
    assert parse_nvidia_topo(text)["relations"]["GPU0"]["GPU1"] == "SYS" and parse_nvidia_topo(text)["relations"]["GPU1"]["GPU0"] == "NV4"


def test_missing_rows_and_names_are_problems() -> None:
    result = parse_nvidia_topo(HEADER + ROW1)
    assert result["gpus"][0] == {"name": "GPU0", "cpu_affinity": None, "cpu_affinity_complete": None, "numa_affinity": None, "gpu_numa_id": None}
    assert [problem["reason"] for problem in result["problems"]] == ["no row for GPU0, NIC0", "the NIC legend does not name NIC0"]


@pytest.mark.parametrize("entry", ["NIC0: A", "NIC0: ity     GPU NUMA ID", "NIC0:"])
def test_a_garbled_legend_names_nothing(entry: str) -> None:
    result = parse_nvidia_topo(matrix("GPU0\t X \tNV4\tPIX\t0-15\t0\t\tN/A").replace("NIC0: mlx5_3", entry))
    assert result["nics"] == [{"name": "NIC0", "device": None}] and "the NIC legend is garbled: NIC0" in result["problems"][0]["reason"]


def test_words_nobody_explained_are_kept_with_a_problem() -> None:
    result = parse_nvidia_topo(matrix("GPU0\t X \tC2C\tN/A\t0-15\t0\t\tN/A"))
    assert result["relations"]["GPU0"] == {"GPU1": "C2C", "NIC0": None}
    assert [problem["reason"] for problem in result["problems"]] == ["GPU0: relation 'C2C' to GPU1 is not one nvidia-smi explains"]


def test_a_second_matrix_is_said() -> None:
    text = matrix("GPU0\t X \tNV4\tPIX\t0-15\t0\t\tN/A")
    assert [problem["reason"] for problem in parse_nvidia_topo(text + text)["problems"]] == ["a second matrix follows and is not read"]


@pytest.mark.parametrize(
    ("cpus", "complete"),
    [
        ("0,2,4,6,8,10", False),
        ("0,8,16,24,34", False),
        ("2,10,18,30", False),
        ("70-99,102-107", False),  # two ranges of different length: a third may have been cut
        ("0-3,8-11,16-19", False),
        ("0,2,4,6,8", True),  # an entry would still have been added
        ("1,48-89", True),
        ("0-127", True),
        ("128-255,384-511", True),
        ("5-6,133-134", True),
        ("0-5,12-17", True),
        ("0,2,4,6,8,10,12", True),  # longer than a cut list can be: this nvidia-smi does not cut
    ],
)
def test_lists_that_may_be_cut(cpus: str, complete: bool) -> None:
    assert parse_nvidia_topo(matrix(f"GPU0\t X \tNV4\tPIX\t{cpus}\t0\t\tN/A"))["gpus"][0]["cpu_affinity_complete"] is complete


# --- random matrices --------------------------------------------------------------------------------------------------------


@st.composite
def _cpu_lists(draw: Any) -> str:
    numbers = sorted(draw(st.sets(st.integers(0, 1151), min_size=2, max_size=6)))
    entries = [f"{low}-{high}" for low, high in zip(numbers[::2], numbers[1::2])]
    return ",".join(entries + ([str(numbers[-1])] if len(numbers) % 2 else []))


@st.composite
def _machines(draw: Any) -> dict[str, Any]:
    columns = draw(st.integers(1, 3))
    gpus = [f"GPU{number}" for number in range(draw(st.integers(1, 11)))]
    nics = [f"NIC{number}" for number in range(draw(st.integers(0, 12)))]
    if columns < 3 and draw(st.booleans()):
        nics = [name.replace("NIC", "mlx5_") for name in nics]
    names = gpus + nics
    words = st.sampled_from(["PIX", "PXB", "PHB", "NODE", "SYS"])
    links = st.one_of(words, st.builds("NV{}".format, st.integers(1, 36)))
    relations = {
        row: {column: draw(links if row in gpus and column in gpus else words) for column in names if column != row} for row in names
    }  # fmt: skip
    empty = columns == 3 and draw(st.booleans())
    tails = {}
    for gpu in gpus:
        cells = ["", ""] if empty and draw(st.booleans()) else [draw(_cpu_lists()), draw(st.sampled_from(["0", "7", "0-3", "N/A"]))]
        tails[gpu] = (cells + [draw(st.sampled_from(["N/A", "N/A", "0", "2"]))])[:columns]
    return {"columns": columns, "gpus": gpus, "nics": nics, "relations": relations, "tails": tails}


def _print(machine: dict[str, Any], style: str) -> str:
    """As nvidia-smi prints it (tabs), as a terminal shows that (blanks), or as people squeeze it."""
    names = machine["gpus"] + machine["nics"]
    labels = ["CPU Affinity", "NUMA Affinity", "GPU NUMA ID"][: machine["columns"]]
    lines = [["", *names, *labels]]
    for row in names:
        cells = [" X " if column == row else machine["relations"][row][column] for column in names]
        tail = list(machine["tails"].get(row, []))
        if len(tail) == 3:
            tail.insert(2, "")  # two tabs before the id
        lines.append([row, *cells, *tail])
    if style == "squeezed":
        text = "\n".join(" ".join(cell.strip() for cell in line if cell.strip()) for line in lines)
    else:
        text = "\n".join("\t".join(line) for line in lines)
        text = text if style == "tabs" else "\n".join(line.expandtabs(8) for line in text.split("\n"))
        text = "\x1b[4m" + text.replace("\n", "\x1b[0m\r\n", 1) if style == "ansi" else text
    legend = "\n".join(f"  {nic}: mlx5_{number + 1}" for number, nic in enumerate(machine["nics"]) if nic.startswith("NIC"))
    return text + "\n\nLegend:\n\n  X    = Self\n\nNIC Legend:\n\n" + legend + "\n"


def _expected(machine: dict[str, Any]) -> tuple[Any, Any, Any]:
    gpus = []
    for gpu in machine["gpus"]:
        cells = [cell if cell not in ("", "N/A") else None for cell in machine["tails"][gpu]]
        gpus.append((gpu, *(cells + [None, None])[:3]))
    nics = [(nic, f"mlx5_{number + 1}" if nic.startswith("NIC") else nic) for number, nic in enumerate(machine["nics"])]
    return gpus, nics, machine["relations"]


def _read(text: str) -> tuple[Any, Any, Any]:
    result = parse_nvidia_topo(text)
    gpus = [(gpu["name"], gpu["cpu_affinity"], gpu["numa_affinity"], gpu["gpu_numa_id"]) for gpu in result["gpus"]]
    return gpus, [(nic["name"], nic["device"]) for nic in result["nics"]], result["relations"]


@settings(max_examples=150, deadline=None)
@given(_machines(), st.sampled_from(["tabs", "blanks", "ansi"]))
def test_what_is_printed_is_read_back(machine: dict[str, Any], style: str) -> None:
    assert _read(_print(machine, style)) == _expected(machine)
    assert parse_nvidia_topo(_print(machine, style))["problems"] == []


@settings(max_examples=100, deadline=None)
@given(_machines())
def test_what_is_squeezed_is_read_back_or_null(machine: dict[str, Any]) -> None:
    """Where an empty cell left no trace, its neighbour may not be told; nothing else may be lost, and nothing may be wrong."""
    text = _print(machine, "squeezed")
    if any(tail[:2] == ["", ""] and tail[2] != "N/A" for tail in machine["tails"].values() if len(tail) == 3):
        with pytest.raises(TopoError):
            parse_nvidia_topo(text)
        return
    assert _read(text) == _expected(machine)


@settings(max_examples=150, deadline=None)
@given(_machines(), st.sampled_from(["tabs", "blanks", "squeezed"]), st.data())
def test_a_cut_text_is_an_error_or_right_as_far_as_it_goes(machine: dict[str, Any], style: str, data: Any) -> None:
    text = _print(machine, style).split("\n\nLegend", maxsplit=1)[0]
    cut = data.draw(st.integers(0, len(text)))
    # A cell cut between its digits looks whole if nothing has to follow it in its row.
    last_cell = re.split(r"\s", text[text.rfind("\n", 0, cut) + 1 : (text + "\n").index("\n", cut)])[-1]
    beginning = (text + "\n").index("\n", cut) - len(last_cell)
    if cut > beginning:
        cut = beginning
    try:
        gpus, _nics, relations = _read(text[:cut])
    except TopoError:
        return
    wanted, _names, wanted_relations = _expected(machine)
    for (name, *cells), (wanted_name, *wanted_cells) in zip(gpus, wanted):
        assert name == wanted_name and all(cell in (None, right) for cell, right in zip(cells, wanted_cells))
    for row, columns in relations.items():
        assert all(word in (None, wanted_relations[row][column]) for column, word in columns.items())


_words = st.sampled_from(
    ["GPU0", "GPU1", "NIC0", "mlx5_0", "CPU Affinity", "NUMA Affinity", "GPU NUMA ID", "X", " X ", "NV18", "NV", "NODE", "PIX", "SYSSYS", "N/A"]
    + ["0-3", "0", "1911N/A", "²", "٣", "\t", "\t\t", " ", "        ", "\n", "\n\n", "\r\n", "\x1b[4m", "\x1b]0;", "\x00", "NIC0: mlx5_0", "Legend:"]
    + ["=== Numa Nodes ===", "GPU[0]", ": Numa Node: 1"]
    + ["=== Weight between two GPUs ===", "=== Hops between two GPUs ===", "=== Link Type between two GPUs ===", "XGMI", "15"]
)
_noise = st.one_of(st.text(max_size=60), st.lists(st.one_of(_words, _words, st.text(max_size=3)), max_size=40).map("".join))


@settings(max_examples=400, deadline=None)
@given(_noise, st.sampled_from([parse_nvidia_topo, parse_rocm_topo, topo_matrix.parse_gpu_addresses]))
def test_rubbish_is_read_or_refused_in_one_way(text: str, parse: Any) -> None:
    try:
        assert isinstance(parse(text), dict)
    except TopoError:
        pass


@settings(max_examples=150, deadline=None)
@given(_machines(), st.sampled_from(["tabs", "blanks", "squeezed"]), st.data())
def test_damage_is_read_or_refused_in_one_way(machine: dict[str, Any], style: str, data: Any) -> None:
    text = _print(machine, style)
    for _number in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(text) - 1))
        text = text[:at] + data.draw(st.one_of(_words, st.just(""))) + text[at + data.draw(st.integers(0, 5)) :]
    try:
        assert parse_nvidia_topo(text)["gpus"]
    except TopoError:
        pass


def test_odd_sizes_are_refused_with_a_short_message() -> None:
    with pytest.raises(TopoError, match=r"\.\.\.'"):
        parse_nvidia_topo(matrix("GPU0\t X \tNV4\tPIX\t" + "1" * 100000 + "N/A"))
    with pytest.raises(TopoError):
        parse_nvidia_topo(matrix("GPU0" + "SYS" * 50000 + "!"))


# --- rocm-smi ---------------------------------------------------------------------------------------------------------------

ROCM = """
======== Weight between two GPUs ========
       GPU0         GPU1
GPU0   0            15
GPU1   15           0

========= Hops between two GPUs =========
       GPU0         GPU1
GPU0   0            1
GPU1   1            0

====== Link Type between two GPUs =======
       GPU0         GPU1
GPU0   0            XGMI
GPU1   XGMI         0

============== Numa Nodes ===============
GPU[0]\t\t: (Topology) Numa Node: 3
GPU[0]\t\t: (Topology) Numa Affinity: 3
GPU[1]\t\t: (Topology) Numa Node: 0
GPU[1]\t\t: (Topology) Numa Affinity: -1
========== End of ROCm SMI Log ==========
"""


def test_rocm() -> None:
    result = parse_rocm_topo(ROCM)
    assert result["relations"] == {"GPU0": {"GPU1": "XGMI"}, "GPU1": {"GPU0": "XGMI"}}
    assert result["weights"]["GPU0"] == {"GPU1": 15} and result["hops"]["GPU1"] == {"GPU0": 1}
    assert [(gpu["name"], gpu["numa_node"], gpu["numa_affinity"]) for gpu in result["gpus"]] == [("GPU0", "3", "3"), ("GPU1", "0", None)]
    nvidia = parse_nvidia_topo(matrix("GPU0\t X \tNV4\tPIX\t0-15\t0\t\tN/A"))
    assert set(result) >= set(nvidia) and set(result["gpus"][0]) >= set(nvidia["gpus"][0])


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("GPU1   XGMI         0", "GPU1   XG", "the row is cut"),
        ("GPU1   15           0", "GPU1   15", "the row is cut"),
        ("GPU0   0            15", "GPU0   15           0", "does not have its 0"),
        ("GPU0   0            1\n", "GPU0   0            one\n", "'one' is not a number"),
        ("GPU1   1            0", "GPU2   1            0", "a row without a column"),
        ("Numa Node: 3", "Numa Node: three", "'three' is not a NUMA node"),
        ("Numa Node: 3", "Numa No", "cannot read the NUMA node"),
        ("Hops", "Weight", "a second 'Weight between two GPUs'"),
        (ROCM, "ERROR: GPU not found", "no matrix of 'rocm-smi --showtopo'"),
        ("GPU0   0            15\nGPU1   15           0\n", "", "has a header and no rows"),
    ],
)
def test_rocm_errors(old: str, new: str, message: str) -> None:
    assert old in ROCM
    with pytest.raises(TopoError, match=re.escape(message)):
        parse_rocm_topo(ROCM.replace(old, new, 1))


# --- the cross-check --------------------------------------------------------------------------------------------------------

ADDRESSES = "0, 00000000:1B:00.0\n1, 00010000:9A:00.0\n"
PRINTED = matrix("GPU0\t X \tNV4\tPIX\t0-15,32-47\t0\t\tN/A")


def _facts(**relations: str) -> dict[str, Any]:
    gpu0, gpu1, nic = "0000:1b:00.0", "10000:9a:00.0", "0000:1c:00.0"
    return {
        "devices": [{"address": gpu0, "rdma": []}, {"address": gpu1, "rdma": None}, {"address": nic, "rdma": ["mlx5_3"]}],
        "relations": {gpu0: {nic: relations.get("near", "PIX"), gpu1: "SYS"}, gpu1: {nic: relations.get("far", "SYS"), gpu0: "SYS"}},
    }


def _compare(facts: dict[str, Any], text: str = PRINTED, addresses: str = ADDRESSES) -> list[tuple[str, str, Any, Any, str]]:
    found = topo_matrix.compare_relations(facts, parse_nvidia_topo(text), topo_matrix.parse_gpu_addresses(addresses))
    return [(item["gpu"], item["other"], item["printed"], item["computed"], item["reason"]) for item in found]


def test_addresses() -> None:
    assert topo_matrix.parse_gpu_addresses("index, pci.bus_id\n" + ADDRESSES) == {"GPU0": "0000:1b:00.0", "GPU1": "10000:9a:00.0"}


@pytest.mark.parametrize(
    "text", ["", "0, 1B:00.0\n", "No devices were found\n", "0, 00000000:1B:00.0\n0, 00000000:1C:00.0\n", "GPU0, 00000000:1B:00.0\n", None]
)
def test_addresses_that_are_none(text: Any) -> None:
    with pytest.raises(TopoError):
        topo_matrix.parse_gpu_addresses(text)


def test_both_say_the_same() -> None:
    assert _compare(_facts()) == []


def test_differences() -> None:
    assert _compare(_facts(near="PXB", far="NODE")) == [
        ("GPU0", "NIC0", "PIX", "PXB", "nvidia-smi says PIX, sysfs says PXB"),
        ("GPU1", "NIC0", "SYS", "NODE", "nvidia-smi says SYS, sysfs says NODE"),
    ]


def test_nothing_computed() -> None:
    facts = _facts()
    facts["relations"] = {}
    assert [item[3:] for item in _compare(facts)] == [(None, "not computed from sysfs")] * 2


def test_what_the_other_side_does_not_know() -> None:
    facts = _facts()
    facts["devices"] = facts["devices"][:1]
    assert _compare(facts, addresses="0, 00000000:1B:00.0\n") == [
        ("GPU1", "GPU1", None, None, "nvidia-smi gives no PCI address for this index"),
        ("NIC0", "NIC0", None, None, "no RDMA device 'mlx5_3' in the topology"),
    ]
    assert ("GPU1", "GPU1", None, None, "no such device in the topology") in _compare(facts)


def test_gpu_pairs_are_compared_once_unless_the_rows_differ() -> None:
    text = PRINTED.replace("NV4", "NODE")
    assert _compare(_facts(), text) == [("GPU0", "GPU1", "NODE", "SYS", "nvidia-smi says NODE, sysfs says SYS")]
    text = PRINTED.replace("X \tNV4", "X \tNODE").replace("GPU1\tNV4", "GPU1\tPHB")
    assert len(_compare(_facts(), text)) == 2


def test_old_words() -> None:
    text = "\tGPU0\tGPU1\tmlx5_3\tCPU Affinity\nGPU0\t X \tSOC\tPHB\t0-5\nGPU1\tSOC\t X \tSOC\t6-11\n"
    assert _compare(_facts(near="NODE"), text) == []
    assert _compare(_facts(near="SYS"), text) == [("GPU0", "mlx5_3", "PHB", "SYS", "nvidia-smi says PHB, sysfs says SYS")]
