# Copyright (c) 2026 The inferops.locality authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Would the kubelet start: every rule of its start, every change that needs a file gone, and what people ran into."""

from __future__ import annotations

import copy
import json
import os
from pathlib import Path
from typing import Any, Optional, Union

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.inferops.locality.plugins.module_utils import kubelet_predict, kubelet_state, plan
from ansible_collections.inferops.locality.plugins.module_utils.cpulist import from_list, to_list
from ansible_collections.inferops.locality.plugins.module_utils.kubelet_predict import Checkpoint, Machine
from ansible_collections.inferops.locality.plugins.module_utils.sysroot import SysRoot

CPU, MEMORY = "/k/cpu_manager_state", "/k/memory_manager_state"
GIB = 2**30
POD = "39b37746-7f5e-4064-b8e1-eebd2bfaa003"

# Two NUMA nodes with 64 GiB and 4 huge pages of 1 GiB each.
NODES = {0: {"memory": 64 * GIB, "hugepages-1Gi": 4 * GIB, "hugepages-2Mi": 0}, 1: {"memory": 64 * GIB, "hugepages-1Gi": 4 * GIB, "hugepages-2Mi": 0}}
MACHINE = Machine(from_list("0-15"), NODES, 34, {})
# What the plan of such a machine has.
WANTED: dict[str, Any] = {
    "kubelet.cpu_manager_policy": "static", "kubelet.cpu_manager_options": ["full-pcpus-only=true"], "kubelet.topology_manager_policy": "single-numa-node",
    "kubelet.topology_manager_scope": "pod", "kubelet.memory_manager_policy": "Static", "kubelet.reserved_memory": {"0": 6 * GIB, "1": 6 * GIB},
    "kubelet.reserved_cpus": "0-1", "kubelet.system_reserved": {"memory": 8 * GIB}, "kubelet.kube_reserved": {"memory": 4 * GIB},
    "kubelet.eviction_hard": {"nodefs.available": "5%"}, "kubelet.state_files": "consistent",
}
STRICT = {"kubelet.cpu_manager_options": ["full-pcpus-only=true", "strict-cpu-reservation=true"]}
NONE = {"kubelet.cpu_manager_policy": "none", "kubelet.cpu_manager_options": None}


def cpu(policy: str = "static", default: str = "0-15", entries: Optional[dict] = None, pods: Optional[dict] = None, form: str = "v2") -> str:
    """A checkpoint with its checksum."""
    data: dict[str, Any] = {"policyName": policy, "defaultCpuSet": default}
    if entries is not None:
        data["entries"] = entries
    if pods is not None:
        data["podEntries"] = pods
    if form == "v4":
        inner = json.dumps(data)
        outer = {key: data[key] for key in data if key != "podEntries"}
        checksum = kubelet_state.cpu_checksum("v2", {key.lower(): value for key, value in outer.items()})
        return json.dumps({**outer, "checksum": checksum, "data": inner, "dataChecksum": kubelet_state.data_checksum(inner)})
    return json.dumps({**data, "checksum": kubelet_state.cpu_checksum(form, {key.lower(): value for key, value in data.items()})})


def node(total: int = 64 * GIB, reserved: int = 6 * GIB, pages: int = 4 * GIB, id: int = 0, **more: Any) -> dict[str, Any]:
    """A NUMA node of a memory checkpoint."""
    def table(size: int, kept: int, left: int) -> dict[str, int]:
        return {"total": size, "systemReserved": kept, "allocatable": left, "reserved": 0, "free": left}

    resources = {"memory": table(total, reserved, total - reserved - pages), "hugepages-1Gi": table(pages, 0, pages), "hugepages-2Mi": table(0, 0, 0)}
    return {"numberOfAssignments": 0, "memoryMap": resources, "cells": [id], **more}


def memory(policy: str = "Static", nodes: Optional[dict] = None, entries: Optional[dict] = None, pods: Optional[dict] = None) -> str:
    """A checkpoint with its checksum."""
    nodes = {"0": node(), "1": node(id=1)} if nodes is None else nodes
    data: dict[str, Any] = {"policyName": policy, "machineState": nodes, "entries": entries or {}}
    if pods is not None:
        data["podEntries"] = pods
    return json.dumps({**data, "checksum": kubelet_state.memory_checksum("v1" if pods is None else "v2", {key.lower(): value for key, value in data.items()})})


def predict(
    tmp_path: Path, cpu_file: Optional[str], memory_file: Optional[str], wanted: Union[dict, str, None] = "planned", machine: Machine = MACHINE,
) -> kubelet_predict.Prediction:
    (tmp_path / "k").mkdir(exist_ok=True)
    for name, text in ((CPU, cpu_file), (MEMORY, memory_file)):
        if text is not None:
            (tmp_path / name[1:]).write_text(text, encoding="utf-8")
    return predicted(kubelet_predict.read_files(SysRoot(str(tmp_path)), "/k/", machine.minor), WANTED if isinstance(wanted, str) else wanted, machine)


def predicted(files: dict[str, Checkpoint], wanted: Optional[dict], machine: Machine = MACHINE) -> kubelet_predict.Prediction:
    prediction = kubelet_predict.predict(files, wanted, machine)
    _same_from_facts(files, wanted, machine, prediction)
    return prediction


def _same_from_facts(files: dict, wanted: Optional[dict], machine: Machine, prediction: kubelet_predict.Prediction) -> None:
    """What the controller makes of a node's facts is what the node makes of its files."""
    judged = kubelet_predict.judge(files, prediction)
    facts = {
        "platform": {"rke2": {"minor": machine.minor}},
        "kubelet": {"state_files": {name: {**judged[name], "content": kubelet_predict.content(files[name])} for name in judged}, "machine": machine.to_facts()},
    }
    if wanted is not None:
        assert kubelet_predict.stale(json.loads(json.dumps(facts)), wanted) == prediction.remove


# -- what the kubelet does at its start: kubelet.md 1.5

ENTRY = {POD: {"app": "4-7"}}
BUSY = cpu(default="0-3,8-15", entries=ENTRY)
STRICT_FREE = cpu(default="2-15")
BLOCK = {"numaAffinity": [0], "type": "memory", "size": 8 * GIB}


def _held(size: int = 8 * GIB, count: int = 1) -> dict[str, Any]:
    found = node(numberOfAssignments=count)
    found["memoryMap"]["memory"].update(reserved=size, free=54 * GIB - size)
    return found


HELD = memory(nodes={"0": _held(), "1": node(id=1)}, entries={POD: {"app": [BLOCK]}})
PAIR = {"numaAffinity": [0, 1], "type": "memory", "size": 60 * GIB}


def _pair(id: int, reserved: int, count: int = 1) -> dict[str, Any]:
    found = node(id=id, numberOfAssignments=count, cells=[0, 1])
    found["memoryMap"]["memory"].update(reserved=reserved, free=54 * GIB - reserved)
    return found


UNCHECKED = json.dumps({**json.loads(memory()), "checksum": 0})
# What 1.37 writes, its new half cut off.
BROKEN_V4 = cpu(form="v4").replace('"dataChecksum": ', '"dataChecksum": 1')
GATE = {"PodLevelResourceManagers": True}

# name: CPU file, memory file, changes to what is wanted, changes to the machine, whether it starts, what is said (each of a file that must go: "cpu …",
# "memory …").
START: dict[str, tuple[Optional[str], Optional[str], dict, dict, Optional[bool], list[str]]] = {
    "no files": (None, None, {}, {}, True, []),
    "files of this machine": (cpu(), memory(), {}, {}, True, []),
    "files with containers": (BUSY, HELD, {}, {}, True, []),
    "files of policy none": (cpu("none", ""), memory("None", {}), {**NONE, "kubelet.memory_manager_policy": None}, {}, True, []),
    "another CPU policy": (cpu("none", ""), memory(), {}, {}, False, ["cpu policy is 'none', wanted 'static'"]),
    "another memory policy": (cpu(), memory("None", {}), {}, {}, False, ["memory policy is 'None', wanted 'Static'"]),
    "CPU file garbled": ('{"policyName":"sta', memory(), {}, {}, False, ["cpu is not JSON: broken at character 15"]),
    "memory file garbled": (cpu(), "\0\0\0", {}, {}, False, ["memory is empty"]),
    "CPU checksum wrong": (cpu().replace("0-15", "0-14"), None, {}, {}, False, ["cpu checksum does not match"]),
    "memory checksum wrong": (None, memory().replace("systemReserved\": 64", "systemReserved\": 65").replace("cells\": [1]", "cells\": [0]"), {}, {}, False,
                              ["memory checksum does not match"]),
    "a CPU set that cannot be read": (cpu(entries={POD: {"app": "4-x"}}), None, {}, {}, False, [f"cpu CPUs of container app of pod {POD}"]),
    "default set empty with entries": (cpu(default="", entries=ENTRY), None, {}, {}, False, ["cpu the default CPU set is empty, but there are entries"]),
    "default set empty with an entry of nothing": (cpu(default="", entries={POD: {}}), None, {}, {}, False, ["cpu the default CPU set is empty, but there"]),
    "default set empty without entries": (cpu(default=""), None, {}, {}, True, []),
    "checksum of a memory file left out": (None, UNCHECKED, {}, {}, False, ["memory checksum does not match"]),
    "checksum of a memory file left out, 1.36": (None, UNCHECKED, {}, {"minor": 36}, True, []),
    "checksum of a memory file left out, no version": (None, UNCHECKED, {}, {"minor": None}, False, ["memory checksum does not match"]),
    "a reserved CPU is not in the default set": (cpu(default="0,2-15", entries={POD: {"app": "1"}}), None, {}, {}, False,
                                                 [f"cpu gives reserved CPUs 1 to container app of pod {POD}"]),
    "strict: a reserved CPU is in the default set": (cpu(default="1-15"), None, STRICT, {}, False, ["cpu has reserved CPUs 1 in its default CPU set"]),
    "strict: as it should be": (STRICT_FREE, None, STRICT, {}, True, []),
    "strict: an entry has a reserved CPU": (cpu(default="2-15", entries={POD: {"app": "1"}}), None, STRICT, {}, False,
                                            [f"cpu gives reserved CPUs 1 to container app of pod {POD}"]),
    "an entry overlaps the default set": (cpu(entries=ENTRY), None, {}, {}, False, [f"cpu has CPUs 4-7 of container app of pod {POD} in its default CPU set"]),
    "a CPU went offline": (cpu(), None, {}, {"online": from_list("0-14")}, False, ["cpu does not fit the online CPUs: CPUs 15 are in it and not online"]),
    "a CPU came online": (cpu(default="0-14"), None, {}, {}, False, ["cpu does not fit the online CPUs: CPUs 15 are not in it"]),
    "strict: a CPU went offline": (STRICT_FREE, None, STRICT, {"online": from_list("0-14")}, False, ["cpu does not fit the online CPUs: CPUs 15 are in"]),
    "machine state empty with entries": (None, memory(nodes={}, entries={POD: {"app": [BLOCK]}}), {}, {}, False, ["memory the machine state is empty"]),
    "machine state empty": (None, memory(nodes={}), {}, {}, True, []),
    "one byte of a total": (None, memory(nodes={"0": node(total=64 * GIB - 1), "1": node(id=1)}), {}, {}, False,
                            ["memory memory drift, the NUMA nodes' totals are not what they were: "
                             f"NUMA node 0 memory total {64 * GIB - 1} in it, {64 * GIB} now"]),
    "one byte of what is reserved": (None, memory(nodes={"0": node(reserved=6 * GIB + 1), "1": node(id=1)}), {}, {}, False,
                                     [f"memory does not fit this machine and its configuration: NUMA node 0 memory systemReserved {6 * GIB + 1} in it"]),
    "another number of huge pages": (None, memory(nodes={"0": node(pages=5 * GIB), "1": node(id=1)}), {}, {}, False,
                                     [f"NUMA node 0 hugepages-1Gi total {5 * GIB} in it, {4 * GIB} now"]),
    "another set of NUMA nodes": (None, memory(nodes={"0": node()}), {}, {}, False, ["memory has NUMA nodes 0, the machine has 0-1"]),
    "another set of page sizes": (None, memory(), {}, {"numa_nodes": {id: {"memory": 64 * GIB, "hugepages-2Mi": 0} for id in (0, 1)}}, False,
                                  ["NUMA node 0 has hugepages-1Gi, hugepages-2Mi, memory in it, hugepages-2Mi, memory on this machine"]),
    "numberOfAssignments differs": (None, memory(nodes={"0": _held(count=2), "1": node(id=1)}, entries={POD: {"app": [BLOCK]}}), {}, {}, False,
                                    ["NUMA node 0 has numberOfAssignments 2 in it, its entries make 1"]),
    "cells differ": (None, memory(nodes={"0": node(cells=[0, 1]), "1": node(id=1)}), {}, {}, False,
                     ["NUMA node 0 has cells [0, 1] in it, its entries make [0]"]),
    "a group of two nodes": (None, memory(nodes={"0": _pair(0, 54 * GIB), "1": _pair(1, 6 * GIB)}, entries={POD: {"app": [PAIR]}}), {}, {}, True, []),
    "a group whose memory lies elsewhere": (None, memory(nodes={"0": _pair(0, 30 * GIB), "1": _pair(1, 30 * GIB)}, entries={POD: {"app": [PAIR]}}),
                                            {}, {}, True, []),
    "the sum of a group differs": (None, memory(nodes={"0": _pair(0, 54 * GIB), "1": _pair(1, 5 * GIB)}, entries={POD: {"app": [PAIR]}}), {}, {}, False,
                                   [f"NUMA nodes 0-1 memory free {49 * GIB} in it, its entries make {48 * GIB}"]),
    "memory of a node that is not there": (None, memory(entries={POD: {"app": [{**BLOCK, "numaAffinity": [7]}]}}), {}, {}, False,
                                           [f"gives container app of pod {POD} memory of NUMA node 7, which is not there"]),
    "memory of a kind that is not there": (None, memory(entries={POD: {"app": [{**BLOCK, "type": "hugepages-64Ki"}]}}), {}, {}, False,
                                           ["hugepages-64Ki of NUMA node 0, which has none"]),
    "policy none: content does not matter": (cpu("none", "0-3", ENTRY), memory("None", {"9": node()}),
                                             {**NONE, "kubelet.memory_manager_policy": "None"}, {"online": from_list("0-63")}, True, []),
    "the online CPUs are not known": (cpu(), None, {}, {"online": None}, None, ["cannot be compared with the online CPUs"]),
    "the NUMA nodes are not known": (None, memory(), {}, {"numa_nodes": None}, None, ["cannot be compared with the memory of the NUMA nodes"]),
    "both at once": (cpu("none", ""), "{", {}, {}, False, ["cpu policy is 'none'", "memory is not JSON"]),
}


def run_row(tmp_path: Path, row: tuple) -> None:
    cpu_file, memory_file, changes, machine, starts, said = row
    prediction = predict(tmp_path, cpu_file, memory_file, {**WANTED, **changes}, Machine(**{**vars(MACHINE), **machine}))
    assert (prediction.starts, prediction.configuration) == (starts, [])
    text = "\n".join(prediction.reasons)
    for each in said:
        assert each.removeprefix("cpu ").removeprefix("memory ") in text
    gone = {each.partition(" ")[0] for each in said if each.startswith(("cpu ", "memory "))}
    if starts is False and not gone:
        gone = {"memory"}
    assert {item["file"] for item in prediction.remove} == {{"cpu": CPU, "memory": MEMORY}[name] for name in gone}
    assert all(reason for reason in prediction.reasons) and bool(prediction.reasons) == (starts is not True)


@pytest.mark.parametrize("name", START)
def test_start(tmp_path: Path, name: str) -> None:
    run_row(tmp_path, START[name])


# -- which changes need a file gone: kubelet.md 1.6. Each begins with the files of a node that runs as WANTED (or as said).

PODS_V3 = cpu(default="0-3,8-15", pods={POD: {"cpuSet": "4-7"}}, form="v3")
PODS_V4 = cpu(default="0-3,8-15", pods={POD: {"cpuSet": "4-7"}}, form="v4")
MEMORY_ONLY = {"kubelet.reserved_memory": {"0": 7 * GIB, "1": 7 * GIB}, "kubelet.system_reserved": {"memory": 10 * GIB}}

CHANGES: dict[str, tuple[Optional[str], Optional[str], dict, dict, Optional[bool], list[str]]] = {
    "cpu policy none to static": (cpu("none", ""), memory(), {}, {}, False, ["cpu policy is"]),
    "cpu policy static to none": (cpu(), memory(), NONE, {}, False, ["cpu policy is 'static', wanted 'none'"]),
    "reserved CPUs grown, no entries": (cpu(), memory(), {"kubelet.reserved_cpus": "0-3"}, {}, True, []),
    "reserved CPUs grown, into an entry": (BUSY, memory(), {"kubelet.reserved_cpus": "0-4"}, {}, False, ["cpu gives reserved CPUs 4 to container app"]),
    "reserved CPUs grown, beside an entry": (BUSY, memory(), {"kubelet.reserved_cpus": "0-3"}, {}, True, []),
    "reserved CPUs shrunk": (BUSY, memory(), {"kubelet.reserved_cpus": "0"}, {}, True, []),
    "strict: reserved CPUs grown": (STRICT_FREE, None, {**STRICT, "kubelet.reserved_cpus": "0-3"}, {}, False, ["cpu has reserved CPUs 2-3 in its default"]),
    "strict: reserved CPUs shrunk": (STRICT_FREE, None, {**STRICT, "kubelet.reserved_cpus": "0"}, {}, False,
                                     ["cpu does not fit the online CPUs: CPUs 1 are not"]),
    "strict switched on": (cpu(), None, STRICT, {}, False, ["cpu has reserved CPUs 0-1 in its default CPU set, which strict-cpu-reservation forbids"]),
    "strict switched off": (STRICT_FREE, None, {}, {}, False,
                            ["cpu does not fit the online CPUs: CPUs 0-1 are not in it (reserved: it was written with strict-cpu-reservation)"]),
    "full-pcpus-only switched off": (BUSY, HELD, {"kubelet.cpu_manager_options": []}, {}, True, []),
    "distribute-cpus-across-numa switched on": (BUSY, HELD, {"kubelet.cpu_manager_options": ["distribute-cpus-across-numa=true"]}, {}, True, []),
    "prefer-align-cpus-by-uncorecache switched on": (BUSY, HELD, {"kubelet.cpu_manager_options": ["prefer-align-cpus-by-uncorecache=true"]}, {}, True, []),
    "SMT switched off": (cpu(), memory(), {}, {"online": from_list("0-7")}, False, ["cpu does not fit the online CPUs: CPUs 8-15 are in it and not online"]),
    "a larger virtual machine": (cpu(), memory(), {}, {"online": from_list("0-31")}, False, ["cpu does not fit the online CPUs: CPUs 16-31 are not in it"]),
    # isolcpus= is no input: it takes no CPU offline.
    "isolcpus changed only": (cpu(), memory(), {"kernel.isolcpus": "managed_irq,domain,2-15"}, {}, True, []),
    "topology manager policy": (BUSY, HELD, {"kubelet.topology_manager_policy": "restricted"}, {}, True, []),
    "topology manager scope": (BUSY, HELD, {"kubelet.topology_manager_scope": "container"}, {}, True, []),
    "memory policy None to Static": (cpu(), memory("None", {}), {}, {}, False, ["memory policy is"]),
    "memory policy Static to None": (cpu(), memory(), {"kubelet.memory_manager_policy": None, "kubelet.reserved_memory": None}, {}, False,
                                     ["memory policy is"]),
    "reserved memory": (cpu(), memory(), MEMORY_ONLY, {}, False, [f"memory does not fit this machine and its configuration: NUMA node 0 memory systemReserved "
                                                                  f"{6 * GIB} in it, {7 * GIB} now, NUMA node 1"]),
    "huge pages of the plan": (cpu(), memory(), {"kernel.hugepages": {"1Gi": {"0": 4, "1": 8}}}, {}, False,
                               [f"memory does not fit this machine and its configuration: NUMA node 1 hugepages-1Gi total {4 * GIB} in it, {8 * GIB} now"]),
    "huge pages of the plan are there": (cpu(), memory(), {"kernel.hugepages": {"1Gi": {"0": 4, "1": 4}}}, {}, True, []),
    "a DIMM less": (cpu(), memory(), {}, {"numa_nodes": {**NODES, 1: {**NODES[1], "memory": 32 * GIB}}}, False,
                    [f"memory memory drift, the NUMA nodes' totals are not what they were: NUMA node 1 memory total {64 * GIB} in it, {32 * GIB} now"]),
    "a plain reboot": (cpu(), memory(), {}, {"numa_nodes": {0: {**NODES[0], "memory": 64 * GIB - 4096}, 1: {**NODES[1], "memory": 64 * GIB + 4096}}}, False,
                       [f"memory memory drift, the NUMA nodes' totals are not what they were, their sum is: NUMA node 0 memory total {64 * GIB} in it, "
                        f"{64 * GIB - 4096} now, NUMA node 1 memory total {64 * GIB} in it, {64 * GIB + 4096} now"]),
    "downgrade from 1.36 with the gate, CPU": (cpu(default="0-3,8-15", pods={POD: {"cpuSet": "4-7"}}, form="v3"), None, {}, {"minor": 35}, False,
                                               ["cpu is of form v3, which Kubernetes 1.35 does not read"]),
    "downgrade from 1.36 with the gate, memory": (None, memory(pods={}), {}, {"minor": 35}, False,
                                                  ["memory is of form v2, which Kubernetes 1.35 does not read"]),
    "the same on 1.36 without the gate": (PODS_V3, None, {}, {"minor": 36}, False, ["cpu is of form v3, which a kubelet without the feature gate PodLevelR"]),
    "the same on 1.36 without the gate, memory": (None, memory(pods={}), {}, {"minor": 36}, False, ["memory is of form v2, which a kubelet without the"]),
    "the same without pods on 1.36 without the gate": (cpu(form="v3"), None, {}, {"minor": 36}, False, ["cpu is of form v3, which a kubelet without the"]),
    "the same without pods on 1.36 with the gate": (cpu(form="v3"), None, {}, {"minor": 36, "gates": GATE}, True, []),
    "the same on 1.36 with the gate": (PODS_V3, None, {}, {"minor": 36, "gates": GATE}, True, []),
    "the same on 1.36, and nobody knows the gates": (PODS_V3, None, {}, {"minor": 36, "gates": None}, None, ["feature gate PodLevelResourceM"]),
    "the same on 1.37": (PODS_V3, None, {}, {"minor": 37}, None, ["feature gate PodLevelResourceM"]),
    "downgrade from 1.37": (cpu(form="v4"), None, {}, {"minor": 34}, True, []),
    "downgrade from 1.37 of a broken file": (BROKEN_V4, None, {}, {"minor": 36}, True, []),
    "a broken file of 1.37": (BROKEN_V4, None, {}, {"minor": 37}, False, ["cpu dataChecksum does not match"]),
    "a broken file of 1.37, and nobody knows the version": (BROKEN_V4, None, {}, {"minor": None}, False, ["cpu dataChecksum does not match"]),
    "downgrade from 1.37 with CPUs of pods": (PODS_V4, None, {}, {"minor": 36}, False, ["cpu does not fit the online CPUs: CPUs 4-7 are not in it"]),
    "CPUs of pods of 1.37, and nobody knows the version": (PODS_V4, None, {}, {"minor": None}, None, ["form v4 with"]),
    "1.37 with CPUs of pods": (cpu(default="0-3,8-15", pods={POD: {"cpuSet": "4-7"}}, form="v4"), None, {}, {"minor": 37}, True, []),
    "upgrade to 1.37 of a file of 1.17": (cpu(entries={"c0ffee": "4-7"}, default="0-3,8-15", form="v1"), None, {}, {"minor": 37}, False, ["cpu is of form v1"]),
    "upgrade to 1.34 of a file of 1.17": (cpu(entries={"c0ffee": "4-7"}, default="0-3,8-15", form="v1"), None, {}, {"minor": 34}, None, [
        "is of form v1, whose containers the kubelet has to find by their ids"]),
    "upgrade to 1.34 of a file of 1.17 without entries": (cpu(form="v1"), None, {}, {"minor": 34}, True, []),
}


@pytest.mark.parametrize("name", CHANGES)
def test_change(tmp_path: Path, name: str) -> None:
    run_row(tmp_path, CHANGES[name])


# -- what people ran into: the table T-KUB of peers.md. A row names its test; of kind "kubelet" what only a real kubelet or the cluster can show.

T_KUB = {
    1: ("change", "cpu policy none to static"),
    2: ("change", "reserved CPUs grown, into an entry"),
    3: ("change", "a larger virtual machine"),
    4: ("change", "isolcpus changed only"),
    5: ("start", "a CPU went offline"),
    6: ("change", "a plain reboot"),
    7: ("start", "cells differ"),
    8: ("elsewhere", "module_utils/test_kubelet_live.py::test_entries_whose_container_is_gone"),
    9: ("start", "an entry overlaps the default set"),
    10: ("peer", "strict, and pods have all other CPUs"),
    11: ("kubelet", "that pods of the shared pool use reserved CPUs without strict-cpu-reservation"),
    12: ("change", "downgrade from 1.36 with the gate, CPU"),
    13: ("start", "a CPU came online"),
    14: ("configuration", "policies in the wrong case"),
    15: ("configuration", "reserved memory is not the sum"),
    16: ("elsewhere", "module_utils/test_plan.py::test_kubelet_arguments_of_the_default_policy"),
    17: ("configuration", "quotes that became part of the value"),
    18: ("kubelet", "configz tells what a running kubelet took"),
    19: ("configuration", "static without reserved CPUs"),
    20: ("elsewhere", "module_utils/test_state.py::test_foreign"),
    21: ("kubelet", "the device plugin's registration"),
    22: ("kubelet", "pods that a restarted kubelet refuses"),
    23: ("elsewhere", "modules/test_kubelet_cpu_state.py::test_containers_with_cpus_of_their_own_forbid_it_unless_forced"),
    24: ("kubelet", "a CPU DRA driver is an object of the cluster"),
}


def test_every_row_of_the_table_is_accounted_for() -> None:
    assert sorted(T_KUB) == list(range(1, 25))
    tables = {"start": START, "change": CHANGES, "configuration": CONFIGURATION, "peer": PEERS}
    assert [row for row in T_KUB.values() if row[0] in tables and row[1] not in tables[row[0]]] == []
    assert {kind for kind, _name in T_KUB.values()} == {*tables, "elsewhere", "kubelet"}
    for kind, name in T_KUB.values():
        if kind == "elsewhere":
            file, _colons, test = name.partition("::")
            assert f"\ndef {test}(" in (Path(__file__).parents[1] / file).read_text(encoding="utf-8")


PEERS: dict[str, tuple[Optional[str], Optional[str], dict, dict, Optional[bool], list[str]]] = {
    "strict, and pods have all other CPUs": (cpu(default="", entries={POD: {"app": "2-15"}}), None, STRICT, {}, False, [
        "cpu the default CPU set is empty, but there are entries, which strict-cpu-reservation leads to when pods have all other CPUs"]),
}


@pytest.mark.parametrize("name", PEERS)
def test_peers(tmp_path: Path, name: str) -> None:
    run_row(tmp_path, PEERS[name])


# -- the configuration itself: kubelet.md 2

NINE = dict.fromkeys(range(9), NODES[0])

ALPHA = "CPUManagerPolicyAlphaOptions"

# name: changes to what is wanted, changes to the machine, what is said; no file is in the way.
NO_MEMORY: dict[str, Any] = {"kubelet.memory_manager_policy": "None", "kubelet.reserved_memory": None}
CONFIGURATION: dict[str, tuple[dict, dict, list[str]]] = {
    "as planned": ({}, {}, []),
    "policies in the wrong case": ({"kubelet.cpu_manager_policy": "Static", "kubelet.memory_manager_policy": "static"}, {}, [
        "cpu-manager-policy: found 'Static', wanted none or static, spelt so", "memory-manager-policy: found 'static', wanted None or Static, spelt so"]),
    "quotes that became part of the value": ({"kubelet.cpu_manager_policy": '"static"'}, {}, ["cpu-manager-policy: found '\"static\"'"]),
    "static without reserved CPUs": ({"kubelet.reserved_cpus": None}, {}, ["reserved-cpus: found none, wanted at least one CPU"]),
    "static with reserved CPUs by count": ({"kubelet.reserved_cpus": None, "kubelet.kube_reserved": {"cpu": "500m", "memory": 4 * GIB}}, {}, []),
    "static with 0 reserved CPUs by count": ({"kubelet.reserved_cpus": "", "kubelet.kube_reserved": {"cpu": "0", "memory": 4 * GIB}}, {}, ["found none"]),
    "reserved CPUs offline": ({"kubelet.reserved_cpus": "0-1,16-17"}, {}, ["reserved-cpus: CPUs 16-17 are not online (online are 0-15)"]),
    "reserved CPUs in the kernel's grammar": ({"kubelet.reserved_cpus": "0-15:2/8"}, {}, ["reserved-cpus: found '0-15:2/8', wanted a list"]),
    "reserved CPUs of another type": ({"kubelet.reserved_cpus": [0, 1]}, {}, ["reserved-cpus: found '[0, 1]'"]),
    "one reserved CPU, a number of YAML": ({"kubelet.reserved_cpus": 0}, {}, []),
    "an option that is not": ({"kubelet.cpu_manager_options": ["full-pcpus=true"]}, {}, ["cpu-manager-policy-options: found 'full-pcpus', wanted one of"]),
    "two options in one flag": ({"kubelet.cpu_manager_options": ["full-pcpus-only=true,align-by-socket=true"]}, {}, ["one option with true or false for each"]),
    "options of another type": ({"kubelet.cpu_manager_options": "full-pcpus-only=true"}, {}, [
        "cpu-manager-policy-options: found 'full-pcpus-only=true', wanted a"]),
    "options that refuse each other": ({"kubelet.cpu_manager_options": ["full-pcpus-only=true", "distribute-cpus-across-cores=1"]}, {}, ["wanted one of them"]),
    "an option that is off refuses nothing": ({"kubelet.cpu_manager_options": ["full-pcpus-only=true", "distribute-cpus-across-cores=false"]},
                                              {"gates": {ALPHA: True}}, []),
    "options with policy none": ({"kubelet.cpu_manager_policy": "none"}, {}, ["policy none takes no options"]),
    "align-by-socket with single-numa-node": ({"kubelet.cpu_manager_options": ["align-by-socket=true"]}, {}, ["with topology-manager-policy single-numa-node"]),
    "reserved memory is not the sum": ({"kubelet.reserved_memory": {"0": 4 * GIB, "1": 4 * GIB}}, {}, [
        f"reserved-memory: found {8 * GIB} bytes in all, wanted {12 * GIB}: system-reserved, kube-reserved and hard eviction, exactly"]),
    "hard eviction counts": ({"kubelet.eviction_hard": {"memory.available": 500 * 2**20}}, {}, [f"wanted {12 * GIB + 500 * 2**20}"]),
    "no reserved memory": ({"kubelet.reserved_memory": None}, {}, ["reserved-memory: found none"]),
    "no reserved memory, and none is needed": ({"kubelet.reserved_memory": None, "kubelet.memory_manager_policy": "None"}, {}, []),
    "reserved huge pages": ({"kubelet.reserved_memory": {"0": 6 * GIB, "1": 6 * GIB, "0:hugepages-1Gi": GIB}}, {}, ["huge pages cannot be reserved"]),
    "reserved memory of no NUMA node": ({"kubelet.reserved_memory": {"0": 6 * GIB, "2": 6 * GIB}}, {}, [
        "reserved-memory: found NUMA node 2, wanted one of 0-1"]),
    "reserved memory of 0": ({"kubelet.reserved_memory": {"0": 12 * GIB, "1": 0}}, {}, ["reserved-memory: found 0 of NUMA node 1"]),
    "reserved memory nobody can read": ({"kubelet.reserved_memory": "0:memory"}, {}, ["reserved-memory: found '0:memory'"]),
    "reserved memory of odd keys": ({"kubelet.reserved_memory": {"x": None}}, {}, ["reserved-memory: found 'x: None'"]),
    # Rules that hold whatever the memory manager's policy is.
    "reserved memory of 0, policy None": ({**NO_MEMORY, "kubelet.reserved_memory": {"0": 0}}, {}, ["reserved-memory: found 0 of NUMA node 0"]),
    "reserved memory of another type, policy None": ({**NO_MEMORY, "kubelet.reserved_memory": {"0:cpu": 2}}, {}, [
        "reserved-memory: found cpu of NUMA node 0, wanted memory or hugepages-SIZE"]),
    "reserved huge pages, policy None": ({**NO_MEMORY, "kubelet.reserved_memory": {"0:hugepages-1Gi": GIB}}, {}, []),
    "reserved memory nobody can read, policy None": ({**NO_MEMORY, "kubelet.reserved_memory": "0:memory"}, {}, ["reserved-memory: found '0:memory'"]),
    "a reservation nobody can read, policy None": ({**NO_MEMORY, "kubelet.kube_reserved": "memory"}, {}, ["kube-reserved: found 'memory'"]),
    "hard eviction nobody can read, policy None": ({**NO_MEMORY, "kubelet.eviction_hard": "memory.available=5%"}, {}, [
        "eviction-hard: found 'memory.available=5%', wanted pairs such as memory.available<500Mi"]),
    "huge pages kept for the system": ({"kubelet.system_reserved": {"memory": 8 * GIB, "hugepages-2Mi": GIB}}, {}, [
        "system-reserved: found hugepages-2Mi, wanted cpu, memory, ephemeral-storage or pid"]),
    "a reservation that is no quantity, policy None": ({**NO_MEMORY, "kubelet.kube_reserved": {"memory": "lots"}}, {}, ["kube-reserved: found memory=lots"]),
    "a reservation below nothing": ({**NO_MEMORY, "kubelet.kube_reserved": {"cpu": "-1"}}, {}, ["kube-reserved: found cpu=-1"]),
    "a fraction of a byte, policy None": ({**NO_MEMORY, "kubelet.kube_reserved": {"memory": "1500m"}}, {}, []),
    "more CPUs by count than there are": ({"kubelet.reserved_cpus": None, "kubelet.kube_reserved": {"cpu": "16500m", "memory": 4 * GIB}}, {}, [
        "system-reserved and kube-reserved keep 16.5 CPUs from pods, wanted at most the 16 of this machine"]),
    "a list takes the place of counts": ({"kubelet.kube_reserved": {"cpu": "17", "memory": 4 * GIB}}, {}, []),
    "an eviction signal that is not": ({"kubelet.eviction_hard": {"memory.free": GIB}}, {}, ["eviction-hard: found memory.free, wanted a signal"]),
    "an eviction threshold of 0": ({"kubelet.eviction_hard": {"pid.available": "0"}}, {}, ["eviction-hard: found pid.available<0, wanted more than 0"]),
    "an eviction threshold of 0 bytes": ({"kubelet.eviction_hard": {"memory.available": 0}}, {}, ["eviction-hard: found memory.available<0, wanted"]),
    "eviction shares": ({"kubelet.eviction_hard": {"nodefs.available": "0%", "nodefs.inodesFree": "100%", "imagefs.available": "2.5%"}}, {}, []),
    "an eviction share above all": ({"kubelet.eviction_hard": {"nodefs.available": "101%"}}, {}, ["eviction-hard: found nodefs.available<101%"]),
    "all that can be kept": ({"kubelet.system_reserved": {"memory": 8 * GIB, "cpu": "1", "ephemeral-storage": GIB, "pid": 1000}}, {}, []),
    "an option of a later version": (STRICT, {"minor": 31}, [
        "cpu-manager-policy-options: found 'strict-cpu-reservation', which Kubernetes 1.31 does not have (since 1.32)"]),
    "an alpha option of this version": (STRICT, {"minor": 32}, ["found 'strict-cpu-reservation', which needs the feature gate CPUManagerPolicyAlphaOptions"]),
    "an alpha option with its gate": (STRICT, {"minor": 32, "gates": {ALPHA: True}}, []),
    "a beta option": (STRICT, {"minor": 33}, []),
    "a beta option, and nobody knows the gates": (STRICT, {"minor": 33, "gates": None}, []),
    "a beta option without its gate": (STRICT, {"minor": 33, "gates": {"CPUManagerPolicyBetaOptions": False}}, ["needs the feature gate CPUManagerPolicyBeta"]),
    "a stable option": (STRICT, {"minor": 35, "gates": {"CPUManagerPolicyBetaOptions": False}}, []),
    "an option, and nobody knows the version": (STRICT, {"minor": None}, []),
    "an option that is alpha everywhere": ({"kubelet.cpu_manager_options": ["distribute-cpus-across-cores=false"]}, {"minor": None}, [
        "found 'distribute-cpus-across-cores', which needs the feature gate CPUManagerPolicyAlphaOptions"]),
    "feature gates that are no more": ({}, {"minor": 36, "gates": {"MemoryManager": True, "CPUManager": False, "Other": True}}, [
        "feature-gates: found MemoryManager, which Kubernetes 1.36 does not have (gone since 1.36)", "found CPUManager"]),
    "feature gates that are still there": ({}, {"minor": 32, "gates": {"MemoryManager": True, "CPUManager": False}}, []),
    "a reservation nobody can read": ({"kubelet.system_reserved": "memory"}, {}, ["system-reserved: found 'memory'"]),
    "topology policy and scope": ({"kubelet.topology_manager_policy": "numa", "kubelet.topology_manager_scope": "node"}, {}, [
        "topology-manager-policy: found 'numa'", "topology-manager-scope: found 'node'"]),
    "nine NUMA nodes": ({}, {"numa_nodes": NINE}, ["the machine has 9 NUMA nodes, wanted at most 8"]),
    "nine NUMA nodes that are allowed": ({"kubelet.topology_manager_options": {"max-allowable-numa-nodes": "9"}}, {"numa_nodes": NINE}, []),
    "a limit below eight": ({"kubelet.topology_manager_options": {"max-allowable-numa-nodes": "4"}}, {}, [
        "found max-allowable-numa-nodes=4, wanted 8 or more"]),
    "a limit that is no number": ({"kubelet.topology_manager_options": {"max-allowable-numa-nodes": "true"}}, {}, ["wanted a number from 8"]),
    "an option of the topology manager that is not": ({"kubelet.topology_manager_options": {"max-numa-nodes": "16"}}, {}, [
        "topology-manager-policy-options: found max-numa-nodes, wanted a value for max-allowable-numa-nodes or prefer-closest-numa-nodes"]),
    "options of the topology manager nobody can read": ({"kubelet.topology_manager_options": "prefer-closest-numa-nodes"}, {}, [
        "topology-manager-policy-options: found prefer-closest-numa-nodes, wanted a value for"]),
    "an option of the topology manager that is neither true nor false": ({"kubelet.topology_manager_options": {"prefer-closest-numa-nodes": "yes"}}, {}, [
        "found prefer-closest-numa-nodes=yes, wanted true or false"]),
    "an option of the topology manager that is": ({"kubelet.topology_manager_options": {"prefer-closest-numa-nodes": "true"}}, {}, []),
    "an odd option of a topology manager without policy": (
        {"kubelet.topology_manager_options": {"max-numa-nodes": "16"}, "kubelet.topology_manager_policy": "none"}, {}, []),
    "more kept from pods than there is": ({**NO_MEMORY, "kubelet.kube_reserved": {"memory": 121 * GIB}}, {}, [
        f"system-reserved, kube-reserved and eviction-hard keep {129 * GIB} bytes of memory from pods, wanted at most the {128 * GIB} of this machine"]),
    "all that there is kept from pods": ({**NO_MEMORY, "kubelet.kube_reserved": {"memory": 120 * GIB}}, {}, []),
    "more kept than there is, of a machine nobody knows": ({**NO_MEMORY, "kubelet.kube_reserved": {"memory": 900 * GIB}}, {"numa_nodes": None}, []),
}


@pytest.mark.parametrize("name", CONFIGURATION)
def test_configuration(tmp_path: Path, name: str) -> None:
    changes, machine, said = CONFIGURATION[name]
    prediction = predict(tmp_path, None, None, {**WANTED, **changes}, Machine(**{**vars(MACHINE), **machine}))
    assert prediction.starts is (not said) and len(prediction.configuration) >= len(said)
    assert [text for text in said if text not in "\n".join(prediction.reasons)] == [] and prediction.remove == []


@pytest.mark.parametrize("changes, said", [
    ({"kubelet.reserved_memory": {"0": 4 * GIB, "1": 70 * GIB}, "kubelet.system_reserved": {"memory": 70 * GIB}},
     f"reserved-memory: found {70 * GIB} bytes of NUMA node 1, wanted at most {60 * GIB}"),
    ({"kernel.hugepages": {"1Gi": {"0": 60, "1": 4}}}, f"NUMA node 0, wanted at most {4 * GIB}"),
])
def test_more_reserved_than_a_node_has_is_said_and_stops_no_kubelet(tmp_path: Path, changes: dict, said: str) -> None:
    prediction = predict(tmp_path, None, None, {**WANTED, **changes})
    assert prediction.starts is True and len(prediction.reasons) == 1 and said in prediction.reasons[0]


def test_a_percentage_of_memory_is_not_guessed(tmp_path: Path) -> None:
    prediction = predict(tmp_path, cpu(), None, {**WANTED, "kubelet.eviction_hard": {"memory.available": "5%"}})
    assert prediction.starts is None and "how many bytes '5%' of memory.available are cannot be told" in prediction.reasons[0]


def test_files_are_judged_beside_a_configuration_that_is_wrong(tmp_path: Path) -> None:
    prediction = predict(tmp_path, cpu("none", ""), "{", {**WANTED, "kubelet.reserved_cpus": "0-99"})
    assert [item["file"] for item in prediction.remove] == [CPU, MEMORY] and len(prediction.reasons) == 3


def test_a_policy_that_no_kubelet_has_takes_no_file_away(tmp_path: Path) -> None:
    assert predict(tmp_path, cpu(), memory(), {**WANTED, "kubelet.cpu_manager_policy": "Static", "kubelet.memory_manager_policy": "static"}).remove == []


def test_an_option_of_a_gate_that_nobody_knows(tmp_path: Path) -> None:
    machine = Machine(**{**vars(MACHINE), "gates": None})
    prediction = predict(tmp_path, None, None, {**WANTED, "kubelet.cpu_manager_options": ["distribute-cpus-across-cores=true"]}, machine)
    assert prediction.starts is None and "whether the feature gate CPUManagerPolicyAlphaOptions, which it needs, is on" in prediction.reasons[0]


def test_the_planner_has_the_same_versions_of_options() -> None:
    assert {option: (since, beta) for option, (since, beta, _stable) in kubelet_predict._MATURITY.items()} == plan._OPTION_MINORS


def test_reserved_cpus_by_count_are_not_guessed(tmp_path: Path) -> None:
    wanted = {**WANTED, "kubelet.reserved_cpus": None, "kubelet.kube_reserved": {"cpu": "2", "memory": 4 * GIB}}
    assert predict(tmp_path, cpu(), None, wanted).starts is True
    assert predict(tmp_path, BUSY, None, wanted).starts is None
    assert predict(tmp_path, STRICT_FREE, None, {**wanted, **STRICT}).starts is None


# -- files that are not what they should be

UNKNOWN = '{"policyName":"static","defaultCpuSet":"0-15","futureThing":1,"checksum":1}'


def test_an_unknown_form_is_left_alone(tmp_path: Path) -> None:
    prediction = predict(tmp_path, UNKNOWN, UNKNOWN)
    assert (prediction.starts, prediction.remove) == (None, [])
    judged = kubelet_predict.judge(prediction.files, prediction)
    assert [(entry["valid"], entry["format"], entry["policy"]) for entry in judged.values()] == [(None, "unknown", None)] * 2
    assert "whether the kubelet starts with it cannot be told" in prediction.reasons[0]
    assert "no known version writes (futurething)" in kubelet_predict.summary(prediction)


@pytest.mark.parametrize("make", ["directory", "fifo", "huge", "link to a directory", "link out of the root"])
def test_what_cannot_be_read_is_left_alone(tmp_path: Path, make: str, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "k").mkdir()
    path = tmp_path / CPU[1:]
    if make == "directory":
        path.mkdir()
    elif make == "fifo":
        os.mkfifo(path)
    elif make == "huge":
        monkeypatch.setattr(kubelet_state, "MAX_BYTES", 10)
        path.write_text(cpu(), encoding="utf-8")
    elif make == "link to a directory":
        path.symlink_to("/k")
    else:
        (tmp_path.parent / f"{tmp_path.name}-outside").write_text(cpu("none", ""), encoding="utf-8")
        path.symlink_to(f"../../{tmp_path.name}-outside")
    prediction = predict(tmp_path, None, None)
    assert prediction.remove == [] and prediction.starts is None and prediction.reasons[0].startswith(f"{CPU} cannot be read")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may enter every folder")
def test_a_folder_that_may_not_be_entered_hides_its_files(tmp_path: Path) -> None:
    (tmp_path / "k").mkdir(mode=0o000)
    files = kubelet_predict.read_files(SysRoot(str(tmp_path)), "/k")
    (tmp_path / "k").chmod(0o700)
    assert kubelet_predict.predict(files, WANTED, MACHINE).starts is None


def test_a_file_behind_a_link_is_read(tmp_path: Path) -> None:
    (tmp_path / "k").mkdir()
    (tmp_path / "elsewhere").write_text(cpu("none", ""), encoding="utf-8")
    (tmp_path / CPU[1:]).symlink_to("/elsewhere")
    assert predict(tmp_path, None, None).remove[0]["reason"] == "policy is 'none', wanted 'static'"


def test_without_a_configuration_only_the_files_are_judged(tmp_path: Path) -> None:
    prediction = predict(tmp_path, cpu("none", ""), "{", None, Machine())
    assert [item["file"] for item in prediction.remove] == [MEMORY]
    assert kubelet_predict.summary(prediction) == f"{MEMORY} is not JSON: broken at character 2"


def test_judged_entry_has_all_its_keys(tmp_path: Path) -> None:
    prediction = predict(tmp_path, BUSY, None)
    judged = kubelet_predict.judge(prediction.files, prediction)
    assert judged["cpu"] == {"file": CPU, "exists": True, "policy": "static", "valid": True, "reason": None, "format": "v2", "entries": 1}
    assert judged["memory"] == {"file": MEMORY, "exists": False, "policy": None, "valid": None, "reason": None, "format": None, "entries": 0}
    assert kubelet_predict.summary(prediction) == "consistent"


def test_what_is_not_known_of_the_machine_is_no_drift(tmp_path: Path) -> None:
    prediction = predict(tmp_path, cpu(), memory(), WANTED, Machine())
    assert kubelet_predict.summary(prediction) == "consistent" and prediction.starts is None


# -- the machine


def test_the_machine_is_read(tmp_path: Path) -> None:
    base = tmp_path / "sys/devices/system"
    for id, kib in ((0, 1024), (1, 2048)):
        (base / f"node/node{id}/hugepages/hugepages-2048kB").mkdir(parents=True)
        (base / f"node/node{id}/meminfo").write_text(f"Node {id} MemTotal:       {kib} kB\nNode {id} MemFree: 1 kB\n")
        (base / f"node/node{id}/hugepages/hugepages-2048kB/nr_hugepages").write_text(f"{id}\n")
    (base / "cpu").mkdir()
    (base / "cpu/online").write_text("0-3\n")
    machine = kubelet_predict.read_machine(SysRoot(str(tmp_path)), 34)
    assert machine == Machine(from_list("0-3"), {0: {"memory": 2**20, "hugepages-2Mi": 0}, 1: {"memory": 2**21, "hugepages-2Mi": 2**21}}, 34)
    assert Machine.from_facts(json.loads(json.dumps(machine.to_facts())), 34) == machine
    (base / "node/node1/meminfo").write_text("")
    assert kubelet_predict.read_machine(SysRoot(str(tmp_path))).numa_nodes is None
    assert kubelet_predict.read_machine(SysRoot(str(tmp_path / "nothing"))) == Machine()


# -- properties


@given(st.binary(max_size=40))
def test_no_bytes_make_a_traceback(tmp_path_factory: pytest.TempPathFactory, data: bytes) -> None:
    root = tmp_path_factory.getbasetemp()
    for name in kubelet_predict.FILES.values():
        (root / name).write_bytes(data)
    prediction = predicted(kubelet_predict.read_files(SysRoot(str(root)), "/"), WANTED)
    assert prediction.starts is False and len(prediction.remove) == 2


_CPUS = st.sets(st.integers(0, 11))


@given(_CPUS, _CPUS, _CPUS.filter(bool), _CPUS.filter(bool), st.booleans())
def test_the_cpu_rules_as_the_kubelet_has_them(default: set, mine: set, reserved: set, online: set, strict: bool) -> None:
    """The rules once more, in the kubelet's order and words."""
    def starts() -> bool:
        if not reserved <= online:
            return False
        usable = online - reserved if strict else online
        if not default:
            return not mine
        if strict and reserved & default:
            return False
        if not strict and reserved & default != reserved:
            return False
        return not default & mine and default | mine == usable

    entries = {POD: {"app": to_list(mine)}} if mine else None
    wanted = {**WANTED, **(STRICT if strict else {}), "kubelet.reserved_cpus": to_list(reserved)}
    files = {"cpu": Checkpoint(CPU, True, kubelet_state.decode_cpu(cpu(default=to_list(default), entries=entries))), "memory": Checkpoint(MEMORY)}
    prediction = predicted(files, wanted, Machine(frozenset(online), NODES, 34))
    assert prediction.starts is starts()
    assert len(set(prediction.reasons)) == len(prediction.reasons)


_VALUES = st.recursive(st.one_of(st.none(), st.booleans(), st.integers(-5, 2**70), st.text(max_size=4)),
                       lambda inner: st.one_of(st.lists(inner, max_size=2), st.dictionaries(st.sampled_from(["0", "1", "memory", "cpu", "1Gi", "x"]), inner)),
                       max_leaves=5)


@given(st.dictionaries(st.sampled_from([*WANTED, "kernel.hugepages", "kubelet.topology_manager_options"]), _VALUES, max_size=4))
def test_no_configuration_makes_a_traceback(changes: dict) -> None:
    files = {"cpu": Checkpoint(CPU, True, kubelet_state.decode_cpu(BUSY)), "memory": Checkpoint(MEMORY, True, kubelet_state.decode_memory(HELD))}
    predicted(files, {**copy.deepcopy(WANTED), **changes})
