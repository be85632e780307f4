# Copyright (c) 2026 The inferops.locality authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Single plans: the cases other tools got wrong, the numbers of the kubelet's rules, and every message an operator may meet."""

from __future__ import annotations

import copy
from typing import Any, Dict, List, Optional

import pytest

from ansible_collections.inferops.locality.plugins.module_utils import cpulist, kernel_args, plan
from ansible_collections.inferops.locality.tests.unit import strategies
from ansible_collections.inferops.locality.tests.unit.strategies import GIB, MIB, PLATFORM, TrueCore, TrueMachine, numbered, regular, topology


def platform(**changes: Any) -> Dict[str, Any]:
    """The usual platform with other values; a mapping changes only the keys it names."""
    result = copy.deepcopy(PLATFORM)
    for key, value in changes.items():
        if isinstance(value, dict):
            result[key].update(value)
        else:
            result[key] = value
    return result


def make(machine: TrueMachine, policy: Optional[Dict[str, Any]] = None, **changes: Any) -> Dict[str, Any]:
    return plan.make_plan(topology(machine), platform(**changes), policy or {})


def found(made: Dict[str, Any], id: str) -> Dict[str, str]:
    """The one finding of an id."""
    items = [item for item in made["findings"] if item["id"] == id]
    assert len(items) == 1, [item["id"] for item in made["findings"]]
    return items[0]


def errors(made: Dict[str, Any]) -> List[str]:
    return [item["id"] for item in made["findings"] if item["severity"] == "error"]


def ids(made: Dict[str, Any]) -> List[str]:
    return [item["id"] for item in made["findings"]]


# -- cases of other planners

# (what is wanted, numbering, housekeeping) of two NUMA nodes with two cores of two threads: the same cores in each numbering.
NUMBERINGS = [
    pytest.param("adjacent", "0-1,4-5", id="T-CPU-4-siblings-adjacent"),
    pytest.param("siblings-last", "0,2,4,6", id="T-CPU-4-siblings-half-apart"),
    pytest.param("interleaved", "0-1,4-5", id="T-CPU-4-interleaved-over-nodes"),
]


@pytest.mark.parametrize(("numbering", "housekeeping"), NUMBERINGS)
def test_the_same_cores_in_all_numberings(numbering: str, housekeeping: str) -> None:
    machine = regular(cores=2, numbering=numbering)
    made = make(machine)
    assert made["housekeeping_cpus"] == housekeeping
    taken = [index for index, core in enumerate(machine.cores) if set(core.cpus) <= cpulist.from_list(housekeeping)]
    assert taken == [0, 2]


# Two NUMA nodes with 40 cores each, siblings 80 apart.
EIGHTY = regular(cores=40)
LISTED = [
    pytest.param(
        "0-4,40-44", "housekeeping.split_core", "a part of the cores 0,80, 1,81, 2,82, 3,83, 4,84, 40,120",
        "0-4,40-44,80-84,120-124", id="T-CPU-1-2-broken-cores-and-completing-list",
    ),
    pytest.param("0-2,80", "housekeeping.split_core", "a part of the cores 1,81, 2,82", "0-2,80-82", id="T-CPU-1-odd-number-of-threads"),
    pytest.param("0,80,160", "housekeeping.no_such_cpu", "found CPUs 160, wanted CPUs up to 159", None, id="T-CPU-12-id-equals-the-count"),
    pytest.param("1,40,81,120", "housekeeping.cpu0_isolated", "its core 0,80", "0-1,40,80-81,120", id="T-CPU-13-CPU-0-isolated"),
    pytest.param("5-3", "housekeeping.bad_list", "'5-3' in CPU set '5-3' runs backwards", None, id="T-CPU-10-reversed"),
    pytest.param("4-N", "housekeeping.bad_list", "'4-N'", None, id="T-CPU-10-N-is-taken-nowhere"),
    pytest.param("", "housekeeping.bad_list", "the list is empty", None, id="T-CPU-10-empty"),
    pytest.param("0-159", "housekeeping.nothing_left", "takes all 160 online CPUs (0-159)", None, id="T-CPU-20-shared-pool-empty"),
]


@pytest.mark.parametrize(("text", "id", "message", "right"), LISTED)
def test_a_list_that_cannot_be_used(text: str, id: str, message: str, right: Optional[str]) -> None:
    made = make(EIGHTY, {"housekeeping": {"cpus": text}})
    item = found(made, id)
    assert item["severity"] == "error"
    assert message in item["message"]
    if right is not None:
        assert item["hint"] == f'the completed list is "{right}"'
        assert errors(make(EIGHTY, {"housekeeping": {"cpus": right}})) == []


@pytest.mark.parametrize(
    ("text", "housekeeping"),
    [
        pytest.param("0-0,40-40,80,120", "0,40,80,120", id="T-CPU-10-3-3"),
        pytest.param("120,0-1,80-81,40", "0-1,40,80-81,120", id="T-CPU-10-out-of-order"),
        pytest.param("0-1,1,80-81,40,120,0", "0-1,40,80-81,120", id="T-CPU-10-overlap"),
        pytest.param("0, 80, 40, 120", "0,40,80,120", id="blanks"),
    ],
)
def test_a_list_in_another_form(text: str, housekeeping: str) -> None:
    made = make(EIGHTY, {"housekeeping": {"cpus": text}})
    assert errors(made) == []
    assert made["housekeeping_cpus"] == housekeeping


def test_offline_cpus_in_a_list_are_named() -> None:
    machine = TrueMachine(EIGHTY.cores, EIGHTY.memory, frozenset({7, 87}), 2)
    item = found(make(machine, {"housekeeping": {"cpus": "0,7,40,80,87,120"}}), "housekeeping.offline_cpu")
    assert "CPUs 7,87 are offline, wanted online CPUs 0-6,8-86,88-159" in item["message"]


def test_all_that_is_wrong_with_a_list_is_said_at_once() -> None:
    made = make(EIGHTY, {"housekeeping": {"cpus": "1,40,999"}})
    assert sorted(errors(made)) == ["housekeeping.cpu0_isolated", "housekeeping.no_such_cpu", "housekeeping.split_core"]


# (NUMA nodes, threads, cores asked, CPUs on each node)
SPLIT = [
    pytest.param(4, 1, 13, [4, 3, 3, 3], id="T-CPU-3-13-on-4-without-SMT"),
    pytest.param(3, 1, 10, [4, 3, 3], id="T-CPU-3-10-on-3-without-SMT"),
    pytest.param(3, 2, 4, [4, 2, 2], id="T-CPU-3-8-CPUs-on-3-with-SMT"),
    pytest.param(2, 2, 3, [4, 2], id="6-CPUs-on-2-with-SMT"),
]


@pytest.mark.parametrize(("nodes", "threads", "cores", "shares"), SPLIT)
def test_cores_are_split_over_numa_nodes(nodes: int, threads: int, cores: int, shares: List[int]) -> None:
    made = make(regular(numa_nodes=nodes, cores=16, threads=threads), {"housekeeping": {"cores": cores}})
    assert errors(made) == []
    assert [len(cpulist.from_list(node["housekeeping_cpus"])) for node in made["numa_nodes"]] == shares


def test_t_cpu_5_memory_only_numa_nodes_hold_memory_and_nothing_else() -> None:
    machine = regular(numa_nodes=2, cores=4)
    machine = TrueMachine(machine.cores, {**machine.memory, 4: 256 * GIB, 5: 256 * GIB}, sockets=2)
    made = make(machine, {"hugepages": {"1Gi": {"4": 8}}})
    assert errors(made) == []
    assert made["knobs"]["kubelet.reserved_memory"] == {"0": 6394 * MIB, "1": 6394 * MIB}
    assert [(node["id"], node["housekeeping_cpus"], node["isolated_cpus"], node["reserved_memory_bytes"]) for node in made["numa_nodes"]][2:] == [
        (4, "", "", 0), (5, "", "", 0),
    ]
    assert made["numa_nodes"][2]["allocatable_memory_bytes"] == 248 * GIB
    assert "hugepages=4:8" in made["kernel_args"]


def test_t_cpu_5_a_device_of_a_memory_only_numa_node_interrupts_the_nearest_one() -> None:
    machine = regular(numa_nodes=2, cores=4)
    devices = ({"address": "0000:01:00.0", "kind": "nic", "numa_node": 5, "path": []},)
    machine = TrueMachine(machine.cores, {**machine.memory, 5: GIB}, devices=devices)
    assert make(machine)["irqs"] == [{"device": "0000:01:00.0", "cpus": "4,12"}]


@pytest.mark.parametrize(("minor", "severity"), [(33, "warning"), (31, "warning"), (30, "error"), (None, "warning")])
def test_t_cpu_6_many_numa_nodes(minor: Optional[int], severity: str) -> None:
    machine = TrueMachine(regular(numa_nodes=2, cores=4).cores, dict.fromkeys(range(34), 16 * GIB))
    made = make(machine, rke2={"minor": minor})
    id = "kubelet.too_many_numa_nodes" if severity == "error" else "kubelet.many_numa_nodes"
    item = found(made, id)
    assert item["severity"] == severity
    assert "34 NUMA nodes (memory-only ones count)" in item["message"]
    assert "topology-manager-policy-options=max-allowable-numa-nodes=34" in made["kubelet"]["args"]
    assert made["knobs"]["kubelet.topology_manager_options"] == {"max-allowable-numa-nodes": "34"}


def test_t_cpu_6_eight_numa_nodes_need_no_option() -> None:
    made = make(regular(numa_nodes=8, cores=2))
    assert not [argument for argument in made["kubelet"]["args"] if argument.startswith("topology-manager-policy-options")]
    assert "kubelet.topology_manager_options" not in made["knobs"]


def test_t_cpu_7_hybrid_cores_are_whole_cores() -> None:
    """Two wide cores, four narrow ones: none is incomplete, and no sibling of a housekeeping CPU is handed out."""
    machine = TrueMachine(numbered([(0, 2), (0, 2), (0, 1), (0, 1), (0, 1), (0, 1)], "adjacent"), {0: 64 * GIB})
    made = make(machine)
    assert errors(made) == []
    assert (made["housekeeping_cpus"], made["isolated_cpus"]) == ("0-1", "2-7")
    assert made["capacity"]["whole_cores"] == 5


def test_t_cpu_7_a_hybrid_machine_with_an_offline_sibling_errs_on_the_safe_side() -> None:
    machine = TrueMachine(numbered([(0, 2), (0, 2), (0, 2), (0, 1), (0, 1)], "adjacent"), {0: 64 * GIB}, frozenset({3}))
    made = make(machine)
    assert (made["housekeeping_cpus"], made["isolated_cpus"]) == ("0-2,6-7", "4-5")
    assert "2, 6, 7 have fewer CPUs than the others" in found(made, "topology.incomplete_cores")["message"]


@pytest.mark.parametrize("cores", [33, 257, 576])
def test_t_cpu_8_many_cpus(cores: int) -> None:
    made = make(regular(numa_nodes=1, cores=cores))
    assert made["housekeeping_cpus"] == f"0,{cores}"
    assert made["isolated_cpus"] == f"1-{cores - 1},{cores + 1}-{2 * cores - 1}"
    assert cpulist.from_mask(cpulist.to_mask(cpulist.from_list(made["isolated_cpus"]))) == cpulist.from_list(made["isolated_cpus"])


def test_t_cpu_11_new_interrupts_start_outside_the_isolated_cpus() -> None:
    made = make(EIGHTY)
    assert f"irqaffinity={made['housekeeping_cpus']}" in made["kernel_args"]
    assert not cpulist.from_list(made["knobs"]["irq.default_affinity"]) & cpulist.from_list(made["isolated_cpus"])


def test_t_cpu_14_each_node_has_a_plan_of_its_own() -> None:
    policy = {"housekeeping": {"cores_per_numa_node": 1}}
    plans = [make(regular(cores=2, numbering=numbering), policy) for numbering in ("adjacent", "siblings-last")]
    assert [made["housekeeping_cpus"] for made in plans] == ["0-1,4-5", "0,2,4,6"]
    assert plans[0]["capacity"] == plans[1]["capacity"]


def test_t_cpu_16_half_a_core_is_never_used_as_a_whole_one() -> None:
    """95 of 96 CPUs."""
    machine = TrueMachine(regular(numa_nodes=2, cores=24).cores, {0: 64 * GIB, 1: 64 * GIB}, frozenset({53}), 2)
    made = make(machine)
    assert made["housekeeping_cpus"] == "0,5,24,48,72"
    assert made["capacity"] == {**made["capacity"], "cpus": 90, "whole_cores": 45}
    item = found(made, "housekeeping.incomplete_core" if "housekeeping.incomplete_core" in ids(made) else "topology.incomplete_cores")
    assert item["message"].startswith("CPUs are offline: the cores 5 have")
    listed = make(machine, {"housekeeping": {"cpus": "0,24,48,72"}})
    assert "cores 5 have a sibling offline" in found(listed, "housekeeping.incomplete_core")["message"]
    assert listed["housekeeping_cpus"] == "0,5,24,48,72"


def test_smt_switched_off_leaves_whole_cores() -> None:
    """With nosmt all second threads are offline; cores of one CPU each are complete then."""
    machine = TrueMachine(regular(numa_nodes=1, cores=4).cores, {0: 64 * GIB}, frozenset(range(4, 8)))
    made = make(machine)
    assert (made["housekeeping_cpus"], made["isolated_cpus"]) == ("0", "1-3")
    assert "topology.incomplete_cores" not in ids(made)


def test_t_cpu_18_housekeeping_and_isolated_cover_all_cpus() -> None:
    made = make(EIGHTY, {"housekeeping": {"cpus": "0-1,80-81,40,120"}})
    assert made["isolated_cpus"] == "2-39,41-79,82-119,121-159"


def test_t_cpu_19_isolcpus_domain_is_warned_of() -> None:
    item = found(make(EIGHTY, {"isolation": {"scheduler": "isolated"}}), "isolation.scheduler_isolated")
    assert item["severity"] == "warning"
    assert "all ran on CPU 5" in item["message"]
    assert "isolation.scheduler_isolated" not in ids(make(EIGHTY))
    assert not [argument for argument in make(EIGHTY)["kernel_args"] if argument.startswith("isolcpus=domain")]


def test_t_cpu_20_strict_reservation_would_empty_the_shared_pool() -> None:
    made = make(EIGHTY, {"kubelet": {"cpu_manager_options": ["full-pcpus-only", "strict-cpu-reservation"]}})
    assert errors(made) == ["kubelet.shared_pool_empty"]


def test_t_cpu_21_every_socket_has_housekeeping_cpus() -> None:
    item = found(make(EIGHTY, {"housekeeping": {"cpus": "0-1,80-81"}}), "housekeeping.numa_node_without")
    assert item["severity"] == "warning"
    assert "0-1,80-81 lies on NUMA node 0 only; NUMA node 1 has no housekeeping CPU" in item["message"]
    assert item["hint"].endswith("such as 40,120")


# Where the other rows of that table are tested; none is left out without a word.
ELSEWHERE = {
    9: "test_cpulist.py: masks are read as sets",
    15: "test_chassis.py: SMT switched off is a difference; the recorded plan is compared by the rollout",
    17: "not planned: housekeeping cores are chosen by NUMA node alone, so that the choice can be foretold",
}


def test_every_row_of_the_table_has_a_place(request: pytest.FixtureRequest) -> None:
    names = " ".join(item.nodeid.lower().replace("-", "_") for item in request.session.items if "test_plan.py" in item.nodeid)
    if "t_cpu_21" not in names:
        pytest.skip("only a part of this file runs")
    here = {row for row in range(1, 22) if f"t_cpu_{row}_" in names or f"_{row}_broken" in names}
    assert here | set(ELSEWHERE) == set(range(1, 22))
    assert not here & set(ELSEWHERE)


# -- housekeeping that cannot be had

TOO_MUCH = [
    pytest.param(
        {"cores_per_numa_node": 5}, "housekeeping.too_many_cores", "wanted 5 housekeeping cores on NUMA node 0, found 4 whole cores there", id="per-node",
    ),
    pytest.param({"cores": 1}, "housekeeping.too_few_cores", "found 1, wanted at least 2", id="fewer-than-numa-nodes"),
    pytest.param({"profile": "full"}, "housekeeping.too_many_cores", "full wants 20 CPUs in whole cores, found 16 on the whole machine", id="profile"),
    pytest.param({"cores_per_numa_node": 4}, "housekeeping.nothing_left", "takes all 16 online CPUs (0-15)", id="all"),
]


@pytest.mark.parametrize(("form", "id", "message"), TOO_MUCH)
def test_more_than_there_is(form: Dict[str, Any], id: str, message: str) -> None:
    items = [item for item in make(regular(cores=4), {"housekeeping": form})["findings"] if item["id"] == id]
    assert message in items[0]["message"]
    assert {item["severity"] for item in items} == {"error"}


def test_too_many_cores_names_every_numa_node_that_is_too_small() -> None:
    machine = TrueMachine(numbered([(0, 2)] * 4 + [(1, 2)] * 2 + [(3, 2)], "adjacent"), dict.fromkeys((0, 1, 3), 64 * GIB))
    messages = [item["message"] for item in make(machine, {"housekeeping": {"cores_per_numa_node": 3}})["findings"] if item["severity"] == "error"]
    assert ["NUMA node 1, found 2 whole cores" in messages[0], "NUMA node 3, found 1 whole core there" in messages[1]] == [True, True]
    assert len(messages) == 2


@pytest.mark.parametrize(
    ("profile", "threads", "nodes", "housekeeping"),
    [
        ("minimal", 2, 2, 8), ("standard", 2, 2, 12), ("observability", 2, 2, 16), ("full", 2, 2, 20),
        ("minimal", 1, 2, 8), ("standard", 4, 2, 16), ("standard", 2, 4, 16), ("full", 8, 1, 24), ("minimal", 2, 8, 16),
    ],
)
def test_profiles_are_reached_in_whole_cores_equally(profile: str, threads: int, nodes: int, housekeeping: int) -> None:
    made = make(regular(numa_nodes=nodes, cores=12, threads=threads), {"housekeeping": {"profile": profile}})
    assert len(cpulist.from_list(made["housekeeping_cpus"])) == housekeeping


def test_a_numa_node_that_is_housekeeping_as_a_whole_is_warned_of() -> None:
    machine = TrueMachine(numbered([(0, 2)] * 4 + [(1, 2)], "adjacent"), {0: 64 * GIB, 1: 64 * GIB})
    item = found(make(machine), "housekeeping.whole_numa_node")
    assert (item["severity"], "NUMA node 1 is housekeeping as a whole" in item["message"]) == ("warning", True)


# -- memory

# The numbers of the kubelet's rule: system + kube + hard eviction = sum of reserved memory.
SUMS = [
    pytest.param(2, "8Gi", "4Gi", "500Mi", "0:memory=6394Mi;1:memory=6394Mi", id="default"),
    pytest.param(2, "8Gi", "4Gi", "100Mi", "0:memory=6194Mi;1:memory=6194Mi", id="kubeadm-eviction"),
    pytest.param(3, "8Gi", "4Gi", "500Mi", "0:memory=4264Mi;1:memory=4262Mi;2:memory=4262Mi", id="three-nodes-the-rest-at-the-lowest"),
    pytest.param(4, "1Gi", "1Mi", "1Mi", "0:memory=258Mi;1:memory=256Mi;2:memory=256Mi;3:memory=256Mi", id="four-nodes"),
    pytest.param(7, "5Mi", "1Mi", "2Mi", "0:memory=2Mi;1:memory=1Mi;2:memory=1Mi;3:memory=1Mi;4:memory=1Mi;5:memory=1Mi;6:memory=1Mi", id="seven-nodes"),
    pytest.param(8, "1Mi", "1Mi", "1Mi", "0:memory=3Mi", id="fewer-Mi-than-nodes"),
    pytest.param(2, "1G", "1Gi", "1Mi", "0:memory=1037748736;1:memory=989Mi", id="not-a-whole-number-of-Mi"),
]


@pytest.mark.parametrize(("nodes", "system", "kube", "eviction", "value"), SUMS)
def test_reserved_memory(nodes: int, system: str, kube: str, eviction: str, value: str) -> None:
    made = make(regular(numa_nodes=nodes, cores=2), {"memory": {"system_reserved": system, "kube_reserved": kube, "eviction_hard": eviction}})
    assert errors(made) == []
    assert f"reserved-memory={value}" in made["kubelet"]["args"]


def test_a_full_numa_node_gives_what_it_has_and_the_others_the_rest() -> None:
    machine = TrueMachine(regular(numa_nodes=3, cores=2).cores, {0: 20 * GIB, 1: 64 * GIB, 2: 64 * GIB})
    made = make(machine, {"hugepages": {"1Gi": {"0": 18}}})
    assert made["knobs"]["kubelet.reserved_memory"] == {"0": 2048 * MIB, "1": 5370 * MIB, "2": 5370 * MIB}
    assert found(made, "memory.nothing_left")["message"].startswith("NUMA node 0 has no memory left")


@pytest.mark.parametrize(("hugepages", "left"), [({"1Gi": {"0": 20}}, 20 * GIB), ({"1Gi": {"0": 18}}, 20 * GIB + 4097)])
def test_a_numa_node_without_memory_for_pods_is_named(hugepages: Dict[str, Any], left: int) -> None:
    machine = TrueMachine(regular(numa_nodes=2, cores=2).cores, {0: left, 1: 64 * GIB})
    assert found(make(machine, {"hugepages": hugepages}), "memory.nothing_left")["message"].startswith("NUMA node 0 has no memory left")


def test_cpus_without_memory_reserve_none() -> None:
    machine = TrueMachine(regular(numa_nodes=2, cores=2).cores, {0: 64 * GIB, 1: 0})
    made = make(machine)
    assert errors(made) == []
    assert "reserved-memory=0:memory=12788Mi" in made["kubelet"]["args"]


def test_memory_that_does_not_fit_is_an_error_with_numbers() -> None:
    machine = TrueMachine(regular(numa_nodes=2, cores=2).cores, {0: 20 * GIB, 1: 20 * GIB})
    item = found(make(machine, {"hugepages": {"1Gi": {"0": 18, "1": 17}}}), "memory.does_not_fit")
    assert "wanted 12788Mi (system 8Gi, kube 4Gi, hard eviction 500Mi), found room for 5120Mi" in item["message"]
    assert "node 0 2048Mi, node 1 3072Mi" in item["message"]


def test_hugepages_above_the_memory_of_a_numa_node_are_refused_per_node() -> None:
    machine = TrueMachine(regular(numa_nodes=2, cores=2).cores, {0: 20 * GIB, 1: 200 * GIB})
    made = make(machine, {"hugepages": {"1Gi": {"0": 20, "1": 20}, "2Mi": {"0": 512}}})
    assert errors(made) == ["hugepages.too_many"]
    assert "NUMA node 0 is asked for 20 pages of 1Gi, 512 pages of 2Mi, 21504Mi in all, and has 20480Mi" in found(made, "hugepages.too_many")["message"]


def test_unknown_memory_is_not_guessed() -> None:
    machine = TrueMachine(regular(numa_nodes=2, cores=2).cores, {0: 64 * GIB, 1: None})
    made = make(machine)
    assert made["numa_nodes"][1]["allocatable_memory_bytes"] is None
    assert "NUMA node 1 could not be read" in found(made, "memory.unknown")["message"]
    assert sum(made["knobs"]["kubelet.reserved_memory"].values()) == 12788 * MIB


def test_hugepages_of_a_size_or_node_that_is_not_there() -> None:
    made = make(regular(cores=2), {"hugepages": {"16Gi": {"0": 1}, "1Gi": {"7": 1}}})
    assert errors(made) == ["hugepages.no_such_size", "hugepages.no_such_numa_node"]
    assert "found 2Mi, 1Gi" in found(made, "hugepages.no_such_size")["message"]
    assert not [argument for argument in made["kernel_args"] if argument.startswith("huge")]


def test_a_machine_without_numa_nodes() -> None:
    shown = topology(regular(numa_nodes=1, cores=4))
    shown["numa_nodes"] = []
    for core in shown["cores"]:
        core["numa_node"] = None
    made = plan.make_plan(shown, PLATFORM, {})
    assert errors(made) == ["memory.no_numa_node"]
    assert (made["housekeeping_cpus"], made["numa_nodes"]) == ("0,4", [])
    assert errors(plan.make_plan(shown, PLATFORM, {"kubelet": {"memory_manager_policy": "None"}})) == []


def test_cores_of_no_numa_node_are_an_error() -> None:
    shown = topology(regular(numa_nodes=2, cores=2))
    shown["cores"][1]["numa_node"] = None
    made = plan.make_plan(shown, PLATFORM, {})
    assert errors(made) == ["topology.no_numa_node"]
    assert "CPUs 1,5 belong to no NUMA node or to several" in found(made, "topology.no_numa_node")["message"]


def test_online_cpus_without_core_are_cores_of_their_own() -> None:
    shown = topology(regular(numa_nodes=2, cores=2, threads=1))
    shown["cores"] = []
    made = plan.make_plan(shown, PLATFORM, {})
    assert (made["housekeeping_cpus"], made["isolated_cpus"]) == ("0,2", "1,3")


# -- kernel arguments

ARGUMENTS = [
    pytest.param({}, {}, ["isolcpus=managed_irq,1,3,5,7", "irqaffinity=0,2,4,6"], id="default"),
    pytest.param({"isolation": {"managed_irqs": False}}, {}, ["irqaffinity=0,2,4,6"], id="no-isolcpus"),
    pytest.param(
        {"isolation": {"scheduler": "isolated", "tickless": True}}, {},
        ["isolcpus=domain,managed_irq,1,3,5,7", "nohz_full=1,3,5,7", "irqaffinity=0,2,4,6"], id="isolated-and-tickless",
    ),
    pytest.param(
        {"hugepages": {"2Mi": {"1": 512}, "1Gi": {"1": 16, "0": 16}}}, {},
        ["isolcpus=managed_irq,1,3,5,7", "irqaffinity=0,2,4,6", "hugepagesz=1G", "hugepages=0:16,1:16", "hugepagesz=2M", "hugepages=1:512"],
        id="hugepages-largest-first",
    ),
    pytest.param(
        {"hugepages": {"1Gi": {"0": 16, "1": 16}}}, {"features": {"hugepages_per_node": False}},
        ["isolcpus=managed_irq,1,3,5,7", "irqaffinity=0,2,4,6", "hugepagesz=1G", "hugepages=32"], id="hugepages-of-an-old-kernel",
    ),
    pytest.param(
        {"pcie": {"iommu": "pt"}}, {}, ["isolcpus=managed_irq,1,3,5,7", "irqaffinity=0,2,4,6", "intel_iommu=on", "iommu=pt"], id="iommu-pt-intel",
    ),
    pytest.param(
        {"pcie": {"iommu": "pt"}}, {"cpu_vendor": "AuthenticAMD"}, ["isolcpus=managed_irq,1,3,5,7", "irqaffinity=0,2,4,6", "iommu=pt"], id="iommu-pt-amd",
    ),
    pytest.param({"pcie": {"iommu": False}}, {}, ["isolcpus=managed_irq,1,3,5,7", "irqaffinity=0,2,4,6", "intel_iommu=off"], id="iommu-off-as-YAML-reads-it"),
    pytest.param(
        {"pcie": {"iommu": "off"}}, {"cpu_vendor": "AuthenticAMD"}, ["isolcpus=managed_irq,1,3,5,7", "irqaffinity=0,2,4,6", "amd_iommu=off"],
        id="iommu-off-amd",
    ),
    pytest.param(
        {"pcie": {"iommu": "pt"}}, {"cpu_vendor": "ARM"}, ["isolcpus=managed_irq,1,3,5,7", "irqaffinity=0,2,4,6", "iommu.passthrough=1"], id="iommu-pt-arm",
    ),
]


@pytest.mark.parametrize(("policy", "changes", "arguments"), ARGUMENTS)
def test_kernel_arguments(policy: Dict[str, Any], changes: Dict[str, Any], arguments: List[str]) -> None:
    made = make(regular(cores=2), policy, **changes)
    assert errors(made) == []
    assert made["kernel_args"] == arguments


@pytest.mark.parametrize(("policy", "changes", "arguments"), [case for case in ARGUMENTS if case.id != "hugepages-of-an-old-kernel"])
def test_the_kernel_reads_the_arguments_as_the_plan_means_them(policy: Dict[str, Any], changes: Dict[str, Any], arguments: List[str]) -> None:
    """The reader of command lines, written apart from the planner, finds each knob's wanted value."""
    made = make(regular(cores=2), policy, **changes)
    meaning = kernel_args.meaning(kernel_args.parse(" ".join(arguments)).args, last=7)
    knobs = ("kernel.isolcpus", "kernel.nohz_full", "kernel.irqaffinity", "kernel.iommu", "kernel.acs")
    assert {knob: meaning.values.get(knob) for knob in knobs} == {knob: made["knobs"].get(knob) for knob in knobs}
    assert meaning.values.get("kernel.hugepages", {}) == made["knobs"]["kernel.hugepages"]
    assert not meaning.duplicates


def test_iommu_on_an_unknown_cpu_is_an_error() -> None:
    assert errors(make(regular(cores=2), {"pcie": {"iommu": "off"}}, cpu_vendor="ARM")) == ["pcie.iommu_unknown_cpu"]


def test_uneven_hugepages_need_a_kernel_that_takes_them() -> None:
    made = make(regular(cores=2), {"hugepages": {"1Gi": {"0": 16}}}, features={"hugepages_per_node": False})
    assert errors(made) == ["hugepages.not_per_node"]
    assert "found 16 on NUMA node 0" in found(made, "hugepages.not_per_node")["message"]


def acs(**pcie: Any) -> Dict[str, Any]:
    return {"pcie": {"acs_off": ["0000:17:00.0", "0000:18:01.0"], "justification": "one tenant", "owner": "ops", **pcie}}


SWITCHED = TrueMachine(
    regular(cores=2).cores, {0: 64 * GIB, 1: 64 * GIB},
    devices=({"address": "0000:19:00.0", "kind": "gpu", "numa_node": 0, "path": ["0000:17:00.0", "0000:18:01.0"], "link": {"width": 8, "max_width": 16}},),
)


def test_acs_redirects_are_switched_off_by_the_kernel() -> None:
    made = make(SWITCHED, acs())
    assert errors(made) == []
    assert made["kernel_args"][-1] == "pci=config_acs=x0100x1@0000:17:00.0;x0100x1@0000:18:01.0"
    assert made["knobs"]["kernel.acs"] == "config_acs=x0100x1@0000:17:00.0;x0100x1@0000:18:01.0"
    older = make(SWITCHED, acs(), features={"config_acs": False, "iommu": True})
    assert older["knobs"]["kernel.acs"] == "disable_acs_redir=0000:17:00.0;0000:18:01.0"


@pytest.mark.parametrize(
    ("iommu", "there", "bits"),
    [(None, False, "x0x00xx"), (None, None, "x0x00xx"), (None, True, "x0100x1"), ("pt", False, "x0100x1"), ("pt", True, "x0100x1"), ("off", True, "x0x00xx")],
)
def test_what_the_kernel_sets_with_an_iommu_is_kept(iommu: Optional[str], there: Optional[bool], bits: str) -> None:
    """From the right: SV TB RR CR UF EC DT. What decides must not change by the reboot that the plan asks for."""
    made = make(SWITCHED, acs(iommu=iommu, acs_off=["0000:17:00.0"]), features={"iommu": there})
    assert made["knobs"]["kernel.acs"] == f"config_acs={bits}@0000:17:00.0"


def test_acs_needs_a_reason_and_someone_to_ask() -> None:
    made = make(SWITCHED, acs(justification=" ", owner=None))
    assert errors(made) == ["pcie.acs_not_justified"]
    assert "without justification and owner" in found(made, "pcie.acs_not_justified")["message"]


def test_acs_of_a_bridge_that_no_device_is_behind() -> None:
    other = acs(acs_off=["0000:99:00.0"])
    assert "found bridges 0000:17:00.0, 0000:18:01.0" in found(make(SWITCHED, other), "pcie.acs_no_such_bridge")["message"]
    other["pcie"]["force"] = True
    assert errors(make(SWITCHED, other)) == []


def test_the_reason_for_weaker_isolation_is_in_the_findings_that_a_run_records() -> None:
    item = found(make(SWITCHED, acs()), "pcie.acs_off")
    assert (item["severity"], item["message"]) == ("note", "ACS redirects are switched off on 0000:17:00.0, 0000:18:01.0: one tenant (owner: ops)")


def test_acs_of_bridges_without_it() -> None:
    bits = {"0000:17:00.0": {"supported": [], "enabled": []}, "0000:18:01.0": {"supported": ["RR", "CR"], "enabled": ["RR"]}}
    made = make(TrueMachine(SWITCHED.cores, SWITCHED.memory, devices=({**SWITCHED.devices[0], "acs": bits},)), acs())
    assert "0000:17:00.0 has no ACS, so there is nothing to switch off" in found(made, "pcie.acs_not_there")["message"]
    assert made["knobs"]["pcie.acs"] == {"0000:18:01.0": "off"}


@pytest.mark.parametrize("name", ["0000:17:00.0/01.0", "pci:10b5:8747", "pci:10b5:0"])
def test_acs_off_by_path_and_by_ids_names_bridges(name: str) -> None:
    made = plan.make_plan(topology(SWITCHED), {**platform(), "pcie_ports": {"0000:18:01.0": {"vendor": "0x10b5", "device": "0x8747"}}}, acs(acs_off=[name]))
    assert errors(made) == []
    assert made["knobs"]["kernel.acs"] == f"config_acs=x0100x1@{name}" and made["knobs"]["pcie.acs"] == {"0000:18:01.0": "off"}


def test_acs_off_by_a_path_that_leads_nowhere() -> None:
    assert "lies behind 0000:17:00.0/02.0" in found(make(SWITCHED, acs(acs_off=["0000:17:00.0/02.0"])), "pcie.acs_no_such_bridge")["message"]


def guarded(policy: Dict[str, Any], **facts: Any) -> Dict[str, Any]:
    return plan.make_plan(topology(SWITCHED), {**platform(), **facts}, policy)


# (policy, facts of the platform, finding, what it says)
GUESTS = [
    (acs(), {"vfio": ["0000:65:00.0"], "kvm": 0}, "pcie.virtual_machines", "1 PCI function bound to vfio-pci (0000:65:00.0)"),
    (acs(), {"vfio": [], "kvm": 3}, "pcie.virtual_machines", "pcie.acs_off (0000:17:00.0, 0000:18:01.0): found 3 users of KVM"),
    ({"pcie": {"iommu": "off"}}, {"vfio": [], "kvm": 1}, "pcie.virtual_machines", "pcie.iommu (off): found 1 user of KVM"),
    (acs(iommu="off"), {"vfio": ["0000:65:00.0", "0000:66:00.0"], "kvm": 2}, "pcie.virtual_machines",
     "and pcie.iommu (off): found 2 PCI functions bound to vfio-pci (0000:65:00.0, 0000:66:00.0) and 2 users of KVM"),
]


@pytest.mark.parametrize(("policy", "guests", "id", "words"), GUESTS)
def test_a_node_with_virtual_machines_keeps_its_guards(policy: Dict[str, Any], guests: Dict[str, Any], id: str, words: str) -> None:
    made = guarded(policy, guests=guests)
    assert errors(made) == [id] and words in found(made, id)["message"]
    assert "pcie.force" in found(made, id)["hint"]
    forced = guarded({"pcie": {**policy["pcie"], "force": True}}, guests=guests)
    assert errors(forced) == [] and found(forced, id)["severity"] == "warning" and "pcie.force goes on all the same" in found(forced, id)["message"]


@pytest.mark.parametrize(
    ("policy", "guests"),
    [({"pcie": {"iommu": "pt"}}, {"vfio": ["0000:65:00.0"], "kvm": 3}), ({}, {"vfio": [], "kvm": 3}), (acs(), {"vfio": [], "kvm": 0}), (acs(), None)],
    ids=["pt takes nothing from them", "nothing asked", "no machines", "a platform that does not tell"],
)
def test_who_takes_no_guard_away_may_run_virtual_machines(policy: Dict[str, Any], guests: Any) -> None:
    assert not [id for id in ids(guarded(policy, guests=guests)) if id.startswith("pcie.virtual_machines")]


def test_a_device_of_ours_that_is_bound_to_vfio_counts_without_the_platforms_word() -> None:
    machine = TrueMachine(SWITCHED.cores, SWITCHED.memory, devices=({**SWITCHED.devices[0], "driver": "vfio-pci"},))
    assert errors(make(machine, acs())) == ["pcie.virtual_machines"]


def test_that_nobody_can_tell_is_told() -> None:
    assert found(guarded(acs(), guests={"vfio": [], "kvm": None}), "pcie.virtual_machines_unknown")["severity"] == "note"


def test_iommu_pt_is_not_iommu_off() -> None:
    """pt keeps the guard; off takes it away and is warned of."""
    pt, off = make(SWITCHED, {"pcie": {"iommu": "pt"}}), make(SWITCHED, {"pcie": {"iommu": "off"}})
    assert "pcie.iommu_off" not in ids(pt) and found(off, "pcie.iommu_off")["severity"] == "warning"
    assert (pt["knobs"]["kernel.iommu"], off["knobs"]["kernel.iommu"]) == ("pt", "off")


def test_acs_in_a_guest_is_its_hypervisors() -> None:
    assert "this node is a virtual machine (kvm)" in found(guarded(acs(), virtualization="kvm"), "pcie.acs_in_a_guest")["message"]
    assert "pcie.acs_in_a_guest" not in ids(guarded(acs(), virtualization="none"))


def pair(bits: List[str]) -> TrueMachine:
    acs_bits = {"0000:18:01.0": {"supported": ["RR", "CR"], "enabled": bits}, "0000:18:02.0": {"supported": ["RR", "CR"], "enabled": bits}}
    gpu = {"address": "0000:19:00.0", "kind": "gpu", "numa_node": 0, "path": ["0000:17:00.0", "0000:18:01.0"], "link": None, "acs": acs_bits}
    nic = {"address": "0000:1a:00.0", "kind": "nic", "numa_node": 0, "path": ["0000:17:00.0", "0000:18:02.0"], "link": None, "acs": acs_bits}
    return TrueMachine(SWITCHED.cores, SWITCHED.memory, devices=(gpu, nic), relations={"0000:19:00.0": {"0000:1a:00.0": "PIX"}})


def test_traffic_that_acs_sends_the_long_way_is_told() -> None:
    item = found(make(pair(["RR", "CR"])), "pcie.acs_redirects")
    assert "0000:19:00.0 and 0000:1a:00.0 (redirects on 0000:18:01.0, 0000:18:02.0)" in item["message"] and "kernel turns them on" not in item["message"]
    assert "kernel turns them on itself" in found(make(pair(["RR"]), {"pcie": {"iommu": "pt"}}), "pcie.acs_redirects")["message"]
    assert "pcie.acs_redirects" not in ids(make(pair([])))
    assert "pcie.acs_redirects" not in ids(make(pair(["RR"]), acs(acs_off=["0000:18:01.0", "0000:18:02.0"])))
    assert "(redirects on 0000:18:02.0)" in found(make(pair(["RR"]), acs(acs_off=["0000:18:01.0"])), "pcie.acs_redirects")["message"]


def test_a_device_that_cannot_reach_the_floor_is_no_fault_of_its_slot() -> None:
    machine = TrueMachine(SWITCHED.cores, SWITCHED.memory, devices=({**SWITCHED.devices[0], "link": {"width": 8, "max_width": 8}},))
    item = found(make(machine, {"pcie": {"min_link_width": 16}}), "pcie.link_width")
    assert item["severity"] == "note" and "does not fit it" in item["hint"]


def test_a_narrow_link_is_warned_of_where_asked() -> None:
    item = found(make(SWITCHED, {"pcie": {"min_link_width": 16}}), "pcie.link_width")
    assert "gpu 0000:19:00.0 runs with 8 lanes, wanted at least 16 (the device has 16)" in item["message"]
    assert "pcie.link_width" not in ids(make(SWITCHED, {"pcie": {"min_link_width": 8}}))


@pytest.mark.parametrize(("nohz_full", "ids_found"), [(True, []), (False, ["platform.no_nohz_full"]), (None, ["platform.nohz_full_unknown"])])
def test_tickless_needs_a_kernel_built_for_it(nohz_full: Optional[bool], ids_found: List[str]) -> None:
    made = make(regular(cores=2), {"isolation": {"tickless": True}}, features={"nohz_full": nohz_full})
    assert [id for id in ids(made) if "nohz" in id] == ids_found


def test_a_command_line_that_the_kernel_would_cut_is_refused() -> None:
    """Cores dealt to many NUMA nodes with a housekeeping core in each make lists without ranges."""
    cores = tuple(TrueCore(index % 2, (index,)) for index in range(1, 2000, 2))
    machine = TrueMachine((TrueCore(0, (0,)), *cores), {0: 64 * GIB, 1: 64 * GIB})
    assert "boot.command_line_too_long" in errors(make(machine))


# -- kubelet


def test_kubelet_arguments_of_the_default_policy() -> None:
    assert make(regular(cores=2))["kubelet"]["args"] == [
        "cpu-manager-policy=static",
        "cpu-manager-policy-options=full-pcpus-only=true",
        "topology-manager-policy=single-numa-node",
        "topology-manager-scope=pod",
        "memory-manager-policy=Static",
        "reserved-memory=0:memory=6394Mi;1:memory=6394Mi",
        "reserved-cpus=0,2,4,6",
        "system-reserved=memory=8192Mi",
        "kube-reserved=memory=4096Mi",
        "eviction-hard=memory.available<500Mi,nodefs.available<5%,imagefs.available<5%",
    ]


def test_cpu_manager_options_are_one_flag_each() -> None:
    made = make(regular(cores=2), {"kubelet": {"cpu_manager_options": ["full-pcpus-only", "distribute-cpus-across-numa"]}})
    flags = [argument for argument in made["kubelet"]["args"] if argument.startswith("cpu-manager-policy-options=")]
    assert flags == ["cpu-manager-policy-options=distribute-cpus-across-numa=true", "cpu-manager-policy-options=full-pcpus-only=true"]
    assert made["knobs"]["kubelet.cpu_manager_options"] == ["distribute-cpus-across-numa=true", "full-pcpus-only=true"]


def test_without_memory_manager_nothing_is_reserved_per_numa_node() -> None:
    made = make(regular(cores=2), {"kubelet": {"memory_manager_policy": "None"}})
    assert not [argument for argument in made["kubelet"]["args"] if argument.startswith("reserved-memory")]
    assert made["knobs"]["kubelet.reserved_memory"] is None


# (options, minor, topology policy, finding)
OPTIONS = [
    (["full-pcpus-only", "distribute-cpus-across-cores"], None, "restricted", "kubelet.options_exclude"),
    (["prefer-align-cpus-by-uncorecache", "distribute-cpus-across-numa"], None, "restricted", "kubelet.options_exclude"),
    (["align-by-socket"], None, "single-numa-node", "kubelet.options_exclude"),
    (["align-by-socket"], 33, "restricted", "kubelet.option_gated"),
    (["distribute-cpus-across-numa"], 32, "restricted", "kubelet.option_gated"),
    (["distribute-cpus-across-numa"], 33, "restricted", None),
    (["prefer-align-cpus-by-uncorecache"], 33, "restricted", "kubelet.option_gated"),
    (["prefer-align-cpus-by-uncorecache"], 34, "restricted", None),
    (["prefer-align-cpus-by-uncorecache"], 31, "restricted", "kubelet.option_unknown"),
    (["full-pcpus-only"], 30, "restricted", None),
    ([], 30, "restricted", None),
]


@pytest.mark.parametrize(("options", "minor", "topology_policy", "id"), OPTIONS)
def test_options_with_which_the_kubelet_does_not_start(options: List[str], minor: Optional[int], topology_policy: str, id: Optional[str]) -> None:
    policy = {"kubelet": {"cpu_manager_options": options, "topology_manager_policy": topology_policy}}
    assert errors(make(regular(cores=2), policy, rke2={"minor": minor})) == ([] if id is None else [id])


def test_labels_and_taints_are_wanted_only_if_the_policy_names_any() -> None:
    assert not [knob for knob in make(regular(cores=2))["knobs"] if knob.startswith("node.")]
    made = make(regular(cores=2), {"kubelet": {"labels": {"pool": "gpu"}, "taints": ["b:NoSchedule", "a=1:NoExecute"]}})
    assert made["knobs"]["node.labels"] == {"pool": "gpu"}
    assert made["knobs"]["node.taints"] == ["a=1:NoExecute", "b:NoSchedule"]


# -- host and platform

HOST = [
    ({}, {}, {"vm.thp": "madvise", "vm.thp_defrag": "madvise", "vm.swappiness": 0, "vm.zone_reclaim": 0, "kernel.numa_balancing": 0,
              "cpu.governor": "performance", "limits.memlock": "infinity", "irqbalance": "disabled"}),
    ({"thp": None, "swappiness": None, "governor": None, "numa_balancing": None, "thp_defrag": None, "memlock": None, "irqbalance": None}, {},
     {"vm.zone_reclaim": 0}),
    ({"memlock": "64Gi", "max_latency_us": 10}, {"features": {"cpufreq": False, "thp": False, "numa_balancing": False}},
     {"vm.swappiness": 0, "vm.zone_reclaim": 0, "limits.memlock": str(64 * GIB), "cpu.latency": 10, "irqbalance": "disabled"}),
    ({"irqbalance": "disabled", "thp": "never"}, {"irqbalance": {"installed": False}, "tuned": {"installed": True}, "features": {"cpuidle": False}},
     {"vm.thp": "never", "vm.thp_defrag": "madvise", "vm.swappiness": 0, "vm.zone_reclaim": 0, "kernel.numa_balancing": 0,
      "cpu.governor": "performance", "limits.memlock": "infinity", "tuned.profile": "inferops-locality"}),
]


@pytest.mark.parametrize(("host", "changes", "knobs"), HOST)
def test_host_knobs(host: Dict[str, Any], changes: Dict[str, Any], knobs: Dict[str, Any]) -> None:
    made = make(regular(cores=2), {"host": host}, **changes)
    assert errors(made) == []
    of_host = ("vm.thp", "vm.thp_defrag", "vm.swappiness", "vm.zone_reclaim", "kernel.numa_balancing", "cpu.governor", "cpu.latency",
               "limits.memlock", "irqbalance", "tuned.profile")
    assert {knob: value for knob, value in made["knobs"].items() if knob in of_host} == knobs


def test_what_the_platform_lacks_is_a_note_or_an_error() -> None:
    lacking = {"features": {"cpufreq": False}, "tuned": {"installed": False}, "irqbalance": {"installed": False}}
    made = make(regular(cores=2), {"host": {"tuned_parent": "throughput-performance", "irqbalance": "banned"}}, **lacking)
    assert found(made, "platform.no_cpufreq")["severity"] == "note"
    assert errors(made) == ["platform.no_irqbalance", "platform.no_tuned"]


@pytest.mark.parametrize("irqbalance, devices, refused", [
    ("enabled", ["nic"], True), ("banned", ["nic"], True), ("disabled", ["nic"], False), ("banned", [], False), ("enabled", [], False),
    ("banned", ["gpu"], False),
])
def test_irqbalance_and_placed_interrupts_exclude_each_other(irqbalance: str, devices: list[str], refused: bool) -> None:
    here = ({"address": "0000:01:00.0", "kind": "nic", "numa_node": 0, "path": []},)
    machine = TrueMachine(regular(cores=2).cores, {0: 64 * GIB, 1: 64 * GIB}, devices=here)
    made = make(machine, {"host": {"irqbalance": irqbalance}, "irq": {"devices": devices}})
    assert ("irqbalance.against_irq_devices" in errors(made)) == refused


@pytest.mark.parametrize("on, parent, wanted, finding", [
    (True, None, True, None), (False, None, False, ("platform.tuned_off", "note")), (False, "throughput-performance", False, ("platform.tuned_off", "error")),
])
def test_a_tuned_that_is_off_stays_off(on: bool, parent: Any, wanted: bool, finding: Any) -> None:
    made = make(regular(cores=2), {"host": {"tuned_parent": parent}}, tuned={"installed": True, "on": on})
    assert ("tuned.profile" in made["knobs"]) == wanted
    assert [(item["id"], item["severity"]) for item in made["findings"] if item["id"].startswith("platform.tuned")] == ([finding] if finding else [])


def test_a_ban_list_is_written_and_noted() -> None:
    made = make(regular(cores=2), {"host": {"irqbalance": "banned"}})
    assert made["knobs"]["irqbalance"] == "banned:1,3,5,7"
    assert found(made, "irqbalance.ban_list")["severity"] == "note"


def test_more_queues_than_online_cpus_are_refused() -> None:
    devices = ({"address": "0000:01:00.0", "kind": "nic", "numa_node": 1, "path": []}, {"address": "0000:02:00.0", "kind": "nvme", "numa_node": 0, "path": []},
               {"address": "0000:01:00.1", "kind": "nic", "numa_node": 1, "path": [], "physfn": "0000:01:00.0"})
    machine = TrueMachine(regular(cores=2).cores, {0: 64 * GIB, 1: 64 * GIB}, devices=devices)
    online = len(plan.cpulist.from_list(topology(machine)["cpus"]["online"]))
    made = make(machine, {"irq": {"queues": online + 1}})
    assert errors(made) == ["irq.too_many_queues"]
    assert f"found {online + 1}, wanted at most {online}" in found(made, "irq.too_many_queues")["message"]
    assert "nic.queues" not in made["knobs"]
    assert errors(make(machine, {"irq": {"queues": online}})) == []


def test_queues_and_packet_steering() -> None:
    devices = ({"address": "0000:01:00.0", "kind": "nic", "numa_node": 1, "path": []}, {"address": "0000:02:00.0", "kind": "nvme", "numa_node": 0, "path": []},
               {"address": "0000:01:00.1", "kind": "nic", "numa_node": 1, "path": [], "physfn": "0000:01:00.0"})
    machine = TrueMachine(regular(cores=2).cores, {0: 64 * GIB, 1: 64 * GIB}, devices=devices)
    made = make(machine, {"irq": {"devices": ["nic", "0000:02:00.0"], "queues": 4, "rps": True}})
    assert made["irqs"] == [{"device": "0000:01:00.0", "cpus": "2,6"}, {"device": "0000:02:00.0", "cpus": "0,4"}]
    assert made["knobs"]["nic.queues"] == {"0000:01:00.0": 4}
    assert made["knobs"]["nic.rps"] == made["knobs"]["nic.xps"] == {"0000:01:00.0": "2,6"}
    assert "nic.rps" not in make(machine)["knobs"]


FAR, NEAR0, NEAR1, LOST = "0000:03:00.0", "0000:01:00.0", "0000:81:00.0", "0000:05:00.0"

# (housekeeping, most queues of each NIC, queues planned, findings)
FITTED = [
    # The CPUs of the NIC's own NUMA node; all of them where its NUMA node is unknown; the nearest where its own has none.
    ({"cores_per_numa_node": 1}, {NEAR0: 63, NEAR1: 63, LOST: 63, FAR: 63}, {NEAR0: 2, NEAR1: 2, LOST: 4, FAR: 2}, []),
    ({"cores_per_numa_node": 2}, {NEAR0: 63, NEAR1: 63, LOST: 63, FAR: 63}, {NEAR0: 4, NEAR1: 4, LOST: 8, FAR: 4}, []),
    ({"cpus": "0-1,8-9"}, {NEAR0: 63, NEAR1: 63, LOST: 63, FAR: 63}, {NEAR0: 4, NEAR1: 4, LOST: 4, FAR: 4}, []),
    # No more than the driver can have; a driver without the setting is left as it is.
    ({"cores_per_numa_node": 2}, {NEAR0: 3, NEAR1: 63, LOST: 1, FAR: 63}, {NEAR0: 3, NEAR1: 4, LOST: 1, FAR: 4}, []),
    ({"cores_per_numa_node": 1}, {NEAR0: None, NEAR1: 8, LOST: 8, FAR: 8}, {NEAR1: 2, LOST: 4, FAR: 2}, ["irq.no_queue_setting"]),
    ({"cores_per_numa_node": 1}, {NEAR0: 8, LOST: 8, FAR: 8}, {NEAR0: 2, NEAR1: 2, LOST: 4, FAR: 2}, ["irq.queues_unknown"]),
]


def _nics() -> TrueMachine:
    devices = [{"address": address, "kind": "nic", "numa_node": node, "path": []} for address, node in ((NEAR0, 0), (NEAR1, 1), (FAR, 2), (LOST, None))]
    guests = {**devices[0], "address": "0000:02:00.0", "interfaces": []}
    # NUMA node 2 has memory only, and is nearer to 1 than to 0.
    return TrueMachine(regular(cores=4).cores, dict.fromkeys(range(3), 64 * GIB), devices=(*devices, guests))


@pytest.mark.parametrize(("housekeeping", "most", "queues", "notes"), FITTED)
def test_queues_fitted_to_housekeeping_cpus(housekeeping: Dict[str, Any], most: Dict[str, Any], queues: Dict[str, int], notes: List[str]) -> None:
    made = make(_nics(), {"housekeeping": housekeeping, "irq": {"queues": "fitted"}}, nic_queues=most)
    assert made["knobs"]["nic.queues"] == queues
    assert errors(made) == []
    assert [id for id in ids(made) if id.startswith("irq.")] == notes


@pytest.mark.parametrize(("most", "words"), [
    ({NEAR0: 4, NEAR1: 63}, f"found 6, wanted at most 4 for {NEAR0}"),
    ({NEAR0: 4, NEAR1: 5}, f"found 6, wanted at most 4 for {NEAR0}, 5 for {NEAR1}"),
])
def test_more_queues_than_a_nic_can_have_are_refused(most: Dict[str, int], words: str) -> None:
    made = make(_nics(), {"irq": {"queues": 6}}, nic_queues=most)
    assert errors(made) == ["irq.too_many_queues"]
    assert words in found(made, "irq.too_many_queues")["message"]
    assert "fitted" in found(made, "irq.too_many_queues")["hint"]
    assert "nic.queues" not in made["knobs"]


def test_a_nic_that_was_handed_to_a_guest_has_no_queues_to_set() -> None:
    knobs = make(_nics(), {"irq": {"queues": "fitted", "rps": True}})["knobs"]
    assert "0000:02:00.0" in knobs["irq.affinity"]
    assert all("0000:02:00.0" not in knobs[knob] for knob in ("nic.queues", "nic.rps", "nic.xps"))


def test_a_device_that_is_not_there_is_named() -> None:
    assert errors(make(regular(cores=2), {"irq": {"devices": ["0000:77:00.0"]}})) == ["irq.no_such_device"]


@pytest.mark.parametrize(
    ("changes", "id"),
    [
        ({"supported": False, "unsupported_reason": "RHEL 8"}, "platform.unsupported"),
        ({"boot_loader": {"kind": "systemd-boot", "drop_in_dir": None}}, "boot.loader"),
        ({"boot_loader": {"kind": "unknown", "drop_in_dir": None}}, "boot.loader"),
    ],
)
def test_platforms_that_are_refused(changes: Dict[str, Any], id: str) -> None:
    made = make(regular(cores=2), None, **changes)
    assert errors(made) == [id]
    if id == "boot.loader":
        assert "irqaffinity=0,2,4,6" in found(made, id)["hint"]
    else:
        assert "RHEL 8" in found(made, id)["message"]


def test_an_unknown_rke2_is_noted() -> None:
    assert found(make(regular(cores=2), None, rke2={"minor": None}), "platform.rke2_unknown")["severity"] == "note"


# -- GPUs and NICs


def test_pairs_take_the_nearest_nic_and_share_equal_ones() -> None:
    devices = [{"address": f"0000:0{index}:00.0", "kind": "gpu", "numa_node": 0, "path": []} for index in range(1, 4)]
    devices += [{"address": f"0000:1{index}:00.0", "kind": "nic", "numa_node": 0, "path": []} for index in range(3)]
    relations = {
        "0000:01:00.0": {"0000:10:00.0": "PXB", "0000:11:00.0": "PXB", "0000:12:00.0": "SYS"},
        "0000:02:00.0": {"0000:10:00.0": "PXB", "0000:11:00.0": "PXB", "0000:12:00.0": "SYS"},
        "0000:03:00.0": {"0000:10:00.0": "SYS", "0000:11:00.0": "SYS", "0000:12:00.0": "SYS"},
    }
    made = make(TrueMachine(regular(cores=2).cores, {0: 64 * GIB, 1: 64 * GIB}, devices=tuple(devices), relations=relations))
    assert made["capacity"]["pairs"] == [
        {"gpu": "0000:01:00.0", "nic": "0000:10:00.0", "relation": "PXB"},
        {"gpu": "0000:02:00.0", "nic": "0000:11:00.0", "relation": "PXB"},
        {"gpu": "0000:03:00.0", "nic": "0000:12:00.0", "relation": "SYS"},
    ]
    assert made["capacity"]["gpus_far_from_nics"] == ["0000:03:00.0"]
    assert found(made, "gpu.far_from_nics")["message"].startswith("GPUs 0000:03:00.0 reach every NIC across the link between sockets")


def test_a_gpu_without_any_nic_is_far_from_all() -> None:
    devices = ({"address": "0000:01:00.0", "kind": "gpu", "numa_node": 0, "path": []},)
    made = make(TrueMachine(regular(cores=2).cores, {0: 64 * GIB, 1: 64 * GIB}, devices=devices))
    assert made["capacity"]["pairs"] == [{"gpu": "0000:01:00.0", "nic": None, "relation": None}]
    assert "have no NIC at all" in found(made, "gpu.far_from_nics")["message"]


# -- input of another shape

SHAPES = [
    (None, {}, "topology is null"),
    ([], {}, "topology is []"),
    ({"cpus": []}, {}, "topology: cpus is []"),
    ({"cpus": {"online": "3-1"}}, {}, "topology: cpus.online: '3-1'"),
    ({"cpus": {"online": 3}}, {}, "topology: cpus.online is 3"),
    ({"cpus": {"online": "0"}, "cores": [{"id": 0}]}, {}, "lacks its id, address or CPUs"),
    ({"cpus": {"online": "0-1"}, "cores": [{"cpus": "0-1"}, {"cpus": "1"}]}, {}, "CPUs 1 belong to more than one core"),
    ({"cpus": {"online": "0"}, "devices": [{}]}, {}, "lacks its id, address or CPUs"),
    ({"cpus": {"online": "0"}}, "debian", "platform is 'debian'"),
]


@pytest.mark.parametrize(("shown", "on", "message"), SHAPES)
def test_a_topology_of_another_shape_is_refused_by_name(shown: Any, on: Any, message: str) -> None:
    with pytest.raises(plan.PlanError) as caught:
        plan.make_plan(shown, on, {})
    assert message in str(caught.value)


def test_a_machine_whose_cpus_could_not_be_read_is_an_error_finding() -> None:
    made = plan.make_plan({"cpus": {"online": None}}, {}, None)
    assert "topology.no_cpus" in errors(made)
    assert made["kernel_args"] == []


def test_wrong_policy_and_wrong_chassis_are_reported_together() -> None:
    made = plan.make_plan(topology(regular(cores=2)), PLATFORM, {"houskeeping": {}, "memory": {"kube_reserved": "4Gb"}}, {"sockets": 4})
    assert errors(made) == ["policy.unknown_key", "policy.wrong_value", "chassis.sockets"]


def test_the_input_is_not_changed() -> None:
    shown, on, wanted = topology(EIGHTY), copy.deepcopy(PLATFORM), {"hugepages": {"1Gi": {"0": 1}}, "kubelet": {"labels": {"a": "b"}}}
    before = copy.deepcopy((shown, on, wanted))
    made = plan.make_plan(shown, on, wanted)
    made["knobs"]["kernel.hugepages"]["1Gi"]["0"] = 99
    made["knobs"]["node.labels"]["a"] = "x"
    assert (shown, on, wanted) == before
    assert strategies.PLATFORM == before[1]


@pytest.mark.parametrize("label, registers", [
    ("gpu", True), ("inferops.io/chassis", True), ("example-kubernetes.io/x", True), ("node.kubernetes.io/pool", True), ("a.node.kubernetes.io/x", True),
    ("kubelet.kubernetes.io/x", True), ("topology.kubernetes.io/zone", True), ("kubernetes.io/hostname", True),
    ("node-role.kubernetes.io/gpu", False), ("kubernetes.io/x", False), ("k8s.io/x", False), ("feature.node-x.kubernetes.io/x", False),
    ("node-restriction.kubernetes.io/x", False),
])
def test_a_label_that_would_keep_a_kubelet_from_starting_is_left_to_the_api(label: str, registers: bool) -> None:
    made = make(EIGHTY, {"kubelet": {"labels": {label: "x"}}})
    assert made["kubelet"]["node_labels"] == ([f"{label}=x"] if registers else [])
    assert made["knobs"]["node.labels"] == {label: "x"}
