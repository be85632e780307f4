# Copyright (c) 2026 The inferops.locality authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Checkpoints of real kubelets and of Kubernetes' own tests; the expected facts are those of the corpus' index."""

from __future__ import annotations

from pathlib import Path

import pytest

from ansible_collections.inferops.locality.plugins.module_utils import kubelet_state
from ansible_collections.inferops.locality.plugins.module_utils.cpulist import from_list

# file, form, policy, default set, exclusive sets
CPU = {
    "cpu-01-none.json": ("v2", "none", "", []),
    "cpu-02-none-v1-checksum.json": ("v1", "none", "", []),
    "cpu-04-static-v1.34.json": ("v2", "static", "0-1,6-11", ["2-3", "4-5"]),
    "cpu-06-two-containers-one-pod.json": ("v2", "static", "0-1,6-13,18-23", ["2-3,14-15", "4-5,16-17"]),
    "cpu-07-one-of-two-pinned.json": ("v2", "static", "0-1,4-13,16-23", ["2-3,14-15"]),
    "cpu-09-strict-cpu-reservation.json": ("v2", "static", "2-15,17-31,34-47,49-63", []),
    "cpu-12-strict-80cpu.json": ("v2", "static", "2-19,22-39,42-59,62-79", []),
    "cpu-14-16cpu-smt.json": ("v2", "static", "0,4-8,12-15", ["1,9", "2-3,10-11"]),
    "cpu-16-256cpu-3-daemon-cpus.json": ("v2", "static", "0,2-127,130-255", ["129", "128", "1"]),
    "cpu-18-talos-reserved-0-2-16-18.json": ("v2", "static", "1,3-15,17,19-31", []),
    "cpu-21-k8s-v2.json": ("v3", "static", "7-9", ["4-6", "1-3"]),
    "cpu-22-k8s-v3-podentries.json": ("v3", "static", "1-2", ["5-6", "3-4"]),
}

BROKEN = {
    "cpu-27-k8s-truncated.json": "is not JSON",
    "cpu-29-empty-file.json": "is empty",
    "mem-07-truncated.json": "is not JSON",
    # these three carry a checksum of 1, which is not theirs
    "mem-03-talos-2node-2m-hugepages.json": "checksum does not match",
    "mem-04-talos-1node.json": "checksum does not match",
    "mem-06-none-entries.json": "checksum does not match",
}

# file, policy, NUMA nodes, allocatable memory of node 0
MEMORY = {
    "mem-02-2node-1g-hugepages-no-entries.json": ("v1", "Static", [0, 1], 99759243264 - 10538188800 - 10737418240),
    "mem-05-none-real.json": ("v1", "None", [], None),
}


@pytest.mark.parametrize("name", CPU)
def test_cpu_checkpoint_is_valid(corpus: Path, name: str) -> None:
    form, policy, default, exclusive = CPU[name]
    state = kubelet_state.decode_cpu((corpus / "state" / name).read_text(encoding="utf-8"))
    assert (state.form, state.policy, state.default) == (form, policy, from_list(default))
    assert sorted(map(sorted, (cpus for pod in state.entries.values() for cpus in pod.values()))) == sorted(sorted(from_list(text)) for text in exclusive)


def test_cpus_of_a_whole_pod(corpus: Path) -> None:
    state = kubelet_state.decode_cpu((corpus / "state" / "cpu-22-k8s-v3-podentries.json").read_text(encoding="utf-8"))
    assert state.pods == {"pod2": from_list("7-9")}


@pytest.mark.parametrize("name", MEMORY)
def test_memory_checkpoint_is_valid(corpus: Path, name: str) -> None:
    state = kubelet_state.decode_memory((corpus / "state" / name).read_text(encoding="utf-8"))
    allocatable = state.machine[0]["memory"]["allocatable"] if state.machine else None
    assert (state.form, state.policy, sorted(state.machine), allocatable) == MEMORY[name]


@pytest.mark.parametrize("name", BROKEN)
def test_broken_checkpoint_has_a_reason(corpus: Path, name: str) -> None:
    text = (corpus / "state" / name).read_text(encoding="utf-8")
    with pytest.raises(kubelet_state.StateError, match=BROKEN[name]):
        (kubelet_state.decode_cpu if name.startswith("cpu") else kubelet_state.decode_memory)(text)


def test_no_file_is_left_out(corpus: Path) -> None:
    named = set(CPU) | set(BROKEN) | set(MEMORY)
    assert {path.name for path in (corpus / "state").glob("*.json")} == named
