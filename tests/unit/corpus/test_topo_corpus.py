# Copyright (c) 2026 The inferops.locality authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Matrices as people posted them, against what the corpus says is in them. Every text file of the corpus must be covered."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.inferops.locality.plugins.module_utils.topo_matrix import parse_nvidia_topo, parse_rocm_topo

NEAREST = ("PIX", "PXB", "PHB", "NODE", "SYS")

# Where the expectations of the corpus are not what a reader may return, one entry for each field with its reason.
# "fields" are compared with this instead.
CORRECTED: dict[str, dict[str, Any]] = {
    # nvidia-smi printed pieces of its own header and rows into the legend of this machine with 62 NICs ("NIC0: A", "NIC1: DE   N/A",
    # "NIC2: IC59    NIC60 …", "NIC3: ity     GPU NUMA ID"). The script that made the expectations took their first words for device names.
    "nv-56-2gpu62nic.txt": {"nic_names": {"NIC0": None, "NIC1": None, "NIC2": None, "NIC3": None}},
}

# Affinities of files whose cells are glued (the expectations hold the raw text there), and of files without expectations.
# None: the cells cannot be told apart.
AFFINITIES: dict[str, dict[str, tuple[Any, Any]]] = {
    "nv-37-8gpu5nic-glued-numa.txt": {"GPU0 GPU1 GPU2 GPU3": ("0-89", "0"), "GPU4 GPU5 GPU6 GPU7": ("90-179", "1")},
    "nv-38-8gpu4nic-tab-glued.txt": {"GPU0 GPU1 GPU2 GPU3": ("0-47,96-143", "0"), "GPU4 GPU5 GPU6 GPU7": (None, None)},
    "ext-01-4gpu-mlx4-soc-old.txt": {"GPU0 GPU1": ("0-5", None), "GPU2 GPU3": ("6-11", None)},
    "ext-04-6gpu-ansi-around-tab.txt": {"GPU0 GPU1 GPU2 GPU3": ("0-23,48-71", "0"), "GPU4 GPU5": ("24-47,72-95", "1")},
    "ext-09-8gpu36nic-glued-cells-excerpt.txt": {"GPU0": ("0-55,112-167", "0"), "GPU4": ("70-99,102-107", "1"), "GPU1 GPU2 GPU3 GPU5 GPU6 GPU7": (None, None)},
    "ml-03-8xa100-narrow-columns.txt": {"GPU0 GPU1 GPU2 GPU3": ("0-23", "0"), "GPU4 GPU5 GPU6 GPU7": ("24-47", "1")},
    "ml-04-8xh100-narrow-columns.txt": {"GPU0 GPU1 GPU2 GPU3": ("0-51", "0"), "GPU4 GPU5 GPU6 GPU7": ("52-103", "1")},
    "rs-01-8gpu-mlx4_0-old-no-numa.txt": {"GPU0 GPU1 GPU2 GPU3": ("0-9,20-29", None), "GPU4": ("10-19,30-39", None)},
}

# Lists that nvidia-smi cut or may have cut.
CUT = {
    "nv-15-1gpu-odd-cpulist-truncated.txt",
    "nv-48-8gpu9nic-stride8.txt",
    "nv-66-8gpu12nic-evenodd.txt",
    # "70-99,102-107" of GPU4: the SMT siblings of both ranges are missing.
    "ext-09-8gpu36nic-glued-cells-excerpt.txt",
}

ROCM = {
    "rocm-01-1gpu-node1.txt": "1/1",
    "rocm-03-2gpu-2numa.txt": "0/0 1/1",
    "rocm-04-2gpu-minus1-tabs.txt": "0/None 0/None",
    "rocm-05-4gpu-mi300a.txt": "0/0 1/1 2/2 3/3",
    "rocm-07-8gpu-nps4.txt": "3/3 3/3 2/2 2/2 7/7 7/7 6/6 6/6",
    "rocm-09-8gpu-full-xgmi.txt": "0/0 0/0 0/0 0/0 1/1 1/1 1/1 1/1",
    "rocm-10-8gpu-mi250-weights.txt": "3/3 3/3 1/1 1/1 0/0 0/0 2/2 2/2",
}


@pytest.fixture(scope="module")
def topo(corpus: Path) -> Path:
    return corpus / "topo"


@pytest.fixture(scope="module")
def expectations(topo: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((topo / "expected.json").read_text(encoding="utf-8"))
    return found


def read(topo: Path, name: str) -> dict[str, Any]:
    return parse_nvidia_topo((topo / name).read_text(encoding="utf-8"))


def test_every_file_is_covered(topo: Path, expectations: dict[str, Any]) -> None:
    assert {path.name for path in topo.glob("*.txt")} == set(expectations) | set(AFFINITIES) | set(ROCM)
    index = (topo / "INDEX.md").read_text(encoding="utf-8")
    assert all(name in index for name in set(expectations) | set(AFFINITIES) | set(ROCM))


def test_expected_columns_and_legends(topo: Path, expectations: dict[str, Any]) -> None:
    for name, expected in expectations.items():
        result = read(topo, name)
        assert [item["name"] for item in result["gpus"] + result["nics"]] == expected["columns"], name
        assert (len(result["gpus"]), len(result["nics"])) == (expected["gpus"], expected["nics"]), name
        legend = {**(expected["nic_names"] or {}), **CORRECTED.get(name, {}).get("nic_names", {})}
        old_columns = {nic["name"]: nic["name"] for nic in result["nics"] if not nic["name"].startswith("NIC")}
        without = {nic["name"]: None for nic in result["nics"]} if not expected["nic_names"] else {}
        assert {nic["name"]: nic["device"] for nic in result["nics"]} == {**without, **old_columns, **legend}, name


def test_expected_affinities(topo: Path, expectations: dict[str, Any]) -> None:
    compared = 0
    for name, expected in expectations.items():
        for gpu in read(topo, name)["gpus"]:
            wanted = expected["gpu"][gpu["name"]]
            # Files with glued cells have "raw_tail" in place of these keys: see AFFINITIES.
            assert ("raw_tail" in wanted) == (name in AFFINITIES), name
            for theirs, ours in (("cpu", "cpu_affinity"), ("numa", "numa_affinity"), ("gpu_numa_id", "gpu_numa_id")):
                if theirs in wanted:
                    assert gpu[ours] == (wanted[theirs] if wanted[theirs] not in ("", "N/A") else None), (name, gpu["name"], theirs)
                    compared += 1
    assert compared > 350


def test_expected_relations(topo: Path, expectations: dict[str, Any]) -> None:
    for name, expected in expectations.items():
        result = read(topo, name)
        for gpu, wanted in expected["gpu"].items():
            row = result["relations"][gpu]
            nics = {nic["name"]: row[nic["name"]] for nic in result["nics"]}
            if nics:
                best = min(nics.values(), key=NEAREST.index)
                assert wanted["nearest"] == {"relation": best, "nics": [nic for nic in nics if nics[nic] == best]}, (name, gpu)
            links = {other: word for other, word in row.items() if other.startswith("GPU")}
            if isinstance(wanted["gpu_links"], dict):
                assert links == wanted["gpu_links"], (name, gpu)
            else:
                assert sorted(set(links.values())) == sorted(wanted["gpu_links"]), (name, gpu)


def test_stated_affinities(topo: Path) -> None:
    for name, groups in AFFINITIES.items():
        gpus = {gpu["name"]: gpu for gpu in read(topo, name)["gpus"]}
        assert set(" ".join(groups).split()) == set(gpus), name
        for group, (cpus, numa) in groups.items():
            for gpu in group.split():
                assert (gpus[gpu]["cpu_affinity"], gpus[gpu]["numa_affinity"], gpus[gpu]["gpu_numa_id"]) == (cpus, numa, None), (name, gpu)


def test_glued_affinities_are_problems_and_never_a_cpu_that_is_not_there(topo: Path) -> None:
    result = read(topo, "nv-38-8gpu4nic-tab-glued.txt")
    rows = {problem["reason"][:4] for problem in result["problems"] if problem["line"]}
    assert rows == {"GPU4", "GPU5", "GPU6", "GPU7"}
    assert "1911" not in str(result)


def test_glued_relations(topo: Path) -> None:
    relations = read(topo, "ext-09-8gpu36nic-glued-cells-excerpt.txt")["relations"]
    assert {nic for nic, word in relations["GPU0"].items() if word == "PIX"} == {f"NIC{number}" for number in (*range(8), 35)}
    assert relations["GPU0"]["NIC34"] == "NODE"
    assert {nic for nic, word in relations["GPU4"].items() if word == "PIX"} == {f"NIC{number}" for number in (*range(16, 24), 32)}


def test_old_relations(topo: Path) -> None:
    soc = read(topo, "ext-01-4gpu-mlx4-soc-old.txt")
    assert [soc["relations"][f"GPU{number}"]["mlx4_0"] for number in range(4)] == ["SOC", "SOC", "PHB", "PHB"]
    old = read(topo, "rs-01-8gpu-mlx4_0-old-no-numa.txt")
    assert [old["relations"][f"GPU{number}"]["mlx4_0"] for number in range(5)] == ["PHB", "PHB", "PHB", "PHB", "SYS"]


def test_asymmetric_matrix(topo: Path) -> None:
    relations = read(topo, "nv-31-4gpu-even-numa.txt")["relations"]
    assert (relations["GPU0"]["GPU2"], relations["GPU2"]["GPU0"]) == ("NV6", "SYS")


def test_cut_lists(topo: Path) -> None:
    names = [path.name for path in topo.glob("*.txt") if path.name not in ROCM]
    assert {name for name in names if any(gpu["cpu_affinity_complete"] is False for gpu in read(topo, name)["gpus"])} == CUT


def test_no_other_problem(topo: Path) -> None:
    """Files that are whole must be read without one."""
    legendless = re.compile(r"the NIC legend does not name ")
    names = [path.name for path in topo.glob("*.txt") if path.name not in ROCM]
    found = {name for name in names if any(not legendless.match(problem["reason"]) for problem in read(topo, name)["problems"])}
    # Glued for good, an excerpt, an excerpt, and the garbled legend.
    assert found == {
        "nv-38-8gpu4nic-tab-glued.txt", "ext-09-8gpu36nic-glued-cells-excerpt.txt", "rs-01-8gpu-mlx4_0-old-no-numa.txt", "nv-56-2gpu62nic.txt",
    }  # fmt: skip


def test_rocm(topo: Path) -> None:
    for name, expected in ROCM.items():
        result = parse_rocm_topo((topo / name).read_text(encoding="utf-8"))
        assert " ".join(f"{gpu['numa_node']}/{gpu['numa_affinity']}" for gpu in result["gpus"]) == expected, name
        names = [gpu["name"] for gpu in result["gpus"]]
        assert result["problems"] == [] and result["nics"] == []
        for key in ("relations", "weights", "hops"):
            assert {row: sorted(columns) for row, columns in result[key].items()} == {row: sorted(set(names) - {row}) for row in names}, (name, key)
    weights = parse_rocm_topo((topo / "rocm-03-2gpu-2numa.txt").read_text(encoding="utf-8"))
    assert (weights["weights"]["GPU0"]["GPU1"], weights["hops"]["GPU0"]["GPU1"], weights["relations"]["GPU0"]["GPU1"]) == (72, 3, "PCIE")


def test_cut_anywhere_is_an_error_or_right(topo: Path, expectations: dict[str, Any]) -> None:
    """Each file, cut in the middle of each line of its matrix."""
    refused = 0
    for name in (*expectations, *AFFINITIES):
        text = (topo / name).read_text(encoding="utf-8").split("\n\n")[0]
        whole = parse_nvidia_topo(text)
        gpus = {gpu["name"]: gpu for gpu in whole["gpus"]}
        begin = 0
        for line in text.split("\n"):
            cut = text[: begin + len(line) * 2 // 3]
            begin += len(line) + 1
            try:
                part = parse_nvidia_topo(cut)
            except ValueError:
                refused += 1
                continue
            for row, columns in part["relations"].items():
                assert columns == whole["relations"][row], (name, line)
            for gpu in part["gpus"]:
                assert all(value in (None, gpus[gpu["name"]][key]) for key, value in gpu.items()), (name, line)
    assert refused > 300
