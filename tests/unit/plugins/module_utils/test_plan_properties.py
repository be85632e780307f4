# Copyright (c) 2026 The inferops.locality authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is true of the plan of every machine. The truth about a machine comes from tests/unit/strategies.py, not from the planner."""

from __future__ import annotations

import json
from fractions import Fraction
from typing import Any, Dict, FrozenSet, List

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from ansible_collections.inferops.locality.plugins.module_utils import cpulist, plan, policy
from ansible_collections.inferops.locality.tests.unit import strategies
from ansible_collections.inferops.locality.tests.unit.strategies import PLATFORM, TrueMachine, topology

SUFFIXES = {"Mi": 2**20}


def errors(made: Dict[str, Any]) -> List[str]:
    return [item["id"] for item in made["findings"] if item["severity"] == "error"]


def cpus(text: str) -> FrozenSet[int]:
    return cpulist.from_list(text)


def size(value: Any) -> int:
    """Bytes of a quantity as tests/unit/strategies.py writes them."""
    return value if isinstance(value, int) else int(value[:-2]) * SUFFIXES[value[-2:]]


@st.composite
def planned(draw: st.DrawFn, most_numa_nodes: int = 16) -> Any:
    machine = draw(strategies.machines(most_numa_nodes=most_numa_nodes))
    wanted = draw(strategies.policies(machine))
    return machine, wanted, plan.make_plan(topology(machine), PLATFORM, wanted)


@st.composite
def planned_well(draw: st.DrawFn) -> Any:
    machine = draw(strategies.machines(roomy=True))
    wanted = draw(strategies.policies(machine, fitting=True))
    made = plan.make_plan(topology(machine), PLATFORM, wanted)
    # An incomplete core may leave a NUMA node without a whole one, and housekeeping may take all.
    assume(not errors(made))
    return machine, wanted, made


@given(planned())
def test_every_online_cpu_is_either_housekeeping_or_isolated(case: Any) -> None:
    machine, _wanted, made = case
    quiet, busy = cpus(made["isolated_cpus"]), cpus(made["housekeeping_cpus"])
    assert quiet | busy == machine.online
    assert not quiet & busy


@given(planned())
def test_no_core_is_split(case: Any) -> None:
    machine, _wanted, made = case
    busy = cpus(made["housekeeping_cpus"])
    assert [core for core in machine.running() if machine.live(core) & busy and not machine.live(core) <= busy] == []


@given(planned())
def test_the_core_of_cpu_0_and_incomplete_cores_are_housekeeping(case: Any) -> None:
    machine, _wanted, made = case
    busy = cpus(made["housekeeping_cpus"])
    must = machine.seen_incomplete() + [core for core in machine.running() if 0 in machine.live(core)]
    assert [core for core in must if not machine.live(core) <= busy] == []


@given(st.data())
def test_a_list_of_the_operators_keeps_these_rules_too(data: st.DataObject) -> None:
    machine = data.draw(strategies.machines(most_numa_nodes=4))
    every = sorted(cpu for core in machine.cores for cpu in core.cpus)
    asked = data.draw(st.sets(st.sampled_from(every), min_size=1))
    made = plan.make_plan(topology(machine), PLATFORM, {"housekeeping": {"cpus": strategies.written(frozenset(asked))}})
    busy, quiet = cpus(made["housekeeping_cpus"]), cpus(made["isolated_cpus"])
    must = machine.seen_incomplete() + [core for core in machine.running() if 0 in machine.live(core) or asked & machine.live(core)]
    widest = max(len(machine.live(core)) for core in machine.running())
    # With a CPU offline, narrow cores of a hybrid machine count as incomplete.
    narrow = [core for core in machine.running() if machine.offline and len(machine.live(core)) < widest]
    assert frozenset(cpu for core in must for cpu in machine.live(core)) <= busy
    assert busy <= frozenset(cpu for core in [*must, *narrow] for cpu in machine.live(core))
    assert (busy | quiet, busy & quiet) == (machine.online, frozenset())
    # It is taken without an error only if it is exactly what the plan has.
    refused = [id for id in errors(made) if id.startswith("housekeeping.")]
    assert bool(refused) is (busy != asked or not quiet)
    empty = [node for node in machine.nodes_with_cpus() if not any(machine.live(core) & busy for core in machine.running() if core.numa_node == node)]
    # A list of offline CPUs alone is refused as a whole.
    assert ("housekeeping.numa_node_without" in [item["id"] for item in made["findings"]]) is bool(empty and busy)


@given(planned_well())
def test_every_numa_node_with_cpus_has_a_housekeeping_core(case: Any) -> None:
    machine, _wanted, made = case
    busy = cpus(made["housekeeping_cpus"])
    assert {core.numa_node for core in machine.running() if machine.live(core) <= busy} == set(machine.nodes_with_cpus())


@given(planned_well())
def test_housekeeping_is_as_large_as_asked_and_no_larger(case: Any) -> None:
    machine, wanted, made = case
    busy = cpus(made["housekeeping_cpus"])
    # On a hybrid machine an offline CPU may make the planner take narrow cores besides; that is covered on its own.
    widest = max(len(machine.live(core)) for core in machine.running())
    extra = [core for core in machine.running() if machine.offline and len(machine.live(core)) < widest]
    whole = [core for core in machine.running() if core not in extra]
    taken = {node: [core for core in whole if core.numa_node == node and machine.live(core) <= busy] for node in machine.nodes_with_cpus()}
    counts = {node: len(cores) for node, cores in taken.items()}
    (form, number), = wanted["housekeeping"].items()
    if form == "cores_per_numa_node":
        assert counts == dict.fromkeys(counts, number)
    elif form == "cores":
        assert sum(counts.values()) == number
        assert max(counts.values()) - min(counts.values()) <= 1
        assert sorted(counts, key=lambda node: (-counts[node], node)) == sorted(counts)
    else:
        assert len(set(counts.values())) == 1
        least = {"minimal": 8, "standard": 12, "observability": 16, "full": 20}[number]
        assert sum(len(machine.live(core)) for cores in taken.values() for core in cores) >= least
        fewer = [core for cores in taken.values() for core in sorted(cores, key=lambda core: min(machine.live(core)))[:-1]]
        assert sum(len(machine.live(core)) for core in fewer) < least or set(counts.values()) == {1}


@given(planned_well())
def test_interrupts_go_to_housekeeping_cpus_only(case: Any) -> None:
    machine, wanted, made = case
    busy = cpus(made["housekeeping_cpus"])
    asked = wanted["irq"]["devices"]
    assert [item["device"] for item in made["irqs"]] == [device["address"] for device in machine.devices if device["kind"] in asked]
    homes = {device["address"]: device["numa_node"] for device in machine.devices}
    for item in made["irqs"]:
        assert cpus(item["cpus"]) and cpus(item["cpus"]) <= busy
        local = frozenset(cpu for core in machine.running() if core.numa_node == homes[item["device"]] for cpu in machine.live(core))
        if local & busy:
            assert cpus(item["cpus"]) == local & busy
    assert made["knobs"]["irq.affinity"] == {item["device"]: item["cpus"] for item in made["irqs"]}


@given(planned_well(), st.data())
def test_fitted_queues_are_one_for_each_cpu_that_may_serve_them(case: Any, data: st.DataObject) -> None:
    machine, wanted, _made = case
    nics = [device["address"] for device in machine.devices if device["kind"] == "nic" and "nic" in wanted["irq"]["devices"]]
    most = {address: data.draw(st.none() | st.integers(1, 64)) for address in nics if data.draw(st.booleans())}
    made = plan.make_plan(topology(machine), {**PLATFORM, "nic_queues": most}, {**wanted, "irq": {**wanted["irq"], "queues": "fitted"}})
    lists = {item["device"]: item["cpus"] for item in made["irqs"]}
    queues = made["knobs"]["nic.queues"]
    assert list(queues) == [address for address in nics if most.get(address, 1) is not None]
    for address, count in queues.items():
        assert 1 <= count <= len(cpus(lists[address]))
        assert count == min(len(cpus(lists[address])), most.get(address, count))
    assert not errors(made)


@given(planned_well())
def test_every_list_is_the_one_decision(case: Any) -> None:
    _machine, wanted, made = case
    busy, quiet = made["housekeeping_cpus"], made["isolated_cpus"]
    args = dict(argument.split("=", 1) for argument in made["kernel_args"])
    flags = [flag for flag, on in (("domain", wanted["isolation"]["scheduler"] == "isolated"), ("managed_irq", wanted["isolation"]["managed_irqs"])) if on]
    assert args.get("isolcpus") == (",".join([*flags, quiet]) if flags else None)
    assert args.get("nohz_full") == (quiet if wanted["isolation"]["tickless"] else None)
    assert args["irqaffinity"] == busy
    knobs = made["knobs"]
    assert knobs["kernel.isolcpus"] == args.get("isolcpus")
    assert knobs["kernel.nohz_full"] == args.get("nohz_full")
    assert {knobs["kernel.irqaffinity"], knobs["workqueue.cpumask"], knobs["irq.default_affinity"], knobs["kubelet.reserved_cpus"]} == {busy}
    assert f"reserved-cpus={busy}" in made["kubelet"]["args"]
    slices = {"init.scope": busy, "system.slice": busy, "user.slice": busy} if wanted["isolation"]["system_slices"] else None
    assert knobs.get("systemd.slices") == slices
    assert knobs.get("irqbalance") in ("disabled", "enabled", None, f"banned:{quiet}")
    assert frozenset().union(*(cpus(node["housekeeping_cpus"]) for node in made["numa_nodes"])) == cpus(busy)
    assert frozenset().union(*(cpus(node["isolated_cpus"]) for node in made["numa_nodes"])) == cpus(quiet)


@given(planned_well())
def test_reserved_memory_adds_up_is_equal_and_fits(case: Any) -> None:
    machine, wanted, made = case
    total = sum(size(wanted["memory"][key]) for key in ("system_reserved", "kube_reserved", "eviction_hard"))
    given_out = {int(node): amount for node, amount in made["knobs"]["kubelet.reserved_memory"].items()}
    assert sum(given_out.values()) == total
    assert set(given_out) <= set(machine.nodes_with_cpus())
    assert 0 not in given_out.values()
    room = {}
    for node in machine.nodes_with_cpus():
        huge = sum((2**30 if page == "1Gi" else 2**21) * counts.get(str(node), 0) for page, counts in wanted["hugepages"].items())
        room[node] = machine.memory[node] - huge
        assert given_out.get(node, 0) <= room[node]
    # Equal among those that have room for more; in Mi steps, the rest at the lowest of them.
    free = [node for node in room if room[node] // 2**20 > given_out.get(node, 0) // 2**20]
    if len(free) > 1:
        amounts = [given_out.get(node, 0) for node in free]
        assert len(set(amounts[1:])) == 1
        assert amounts[0] >= amounts[1]
        assert amounts[1] % 2**20 == 0
        assert amounts[0] - amounts[1] < len(machine.nodes_with_cpus()) * 2**20 + 2**20
    value = next(argument for argument in made["kubelet"]["args"] if argument.startswith("reserved-memory=")).partition("=")[2]
    printed = {}
    for part in value.split(";"):
        node, _colon, amount = part.partition(":memory=")
        printed[int(node)] = size(amount if amount.endswith("Mi") else int(amount))
    assert printed == given_out


@given(
    st.lists(st.tuples(st.integers(0, 24), st.integers(0, 24)), min_size=1, max_size=8),
    st.integers(1, 60 * 1024),
)
def test_huge_pages_leave_less_to_reserve(nodes: List[Any], mebi: int) -> None:
    """Memory and huge pages of each NUMA node in Gi, and what is reserved in all: it fits, or an error says why not."""
    machine = strategies.regular(numa_nodes=len(nodes), cores=2)
    machine = TrueMachine(machine.cores, {id: size * strategies.GIB for id, (size, _huge) in enumerate(nodes)})
    wanted = {
        "hugepages": {"1Gi": {str(id): huge for id, (_size, huge) in enumerate(nodes)}},
        "memory": {"system_reserved": f"{mebi}Mi", "kube_reserved": "1Mi", "eviction_hard": "1Mi"},
    }
    made = plan.make_plan(topology(machine), PLATFORM, wanted)
    room = [max(0, size - huge) * 1024 for size, huge in nodes]
    reserved = [node["reserved_memory_bytes"] // 2**20 for node in made["numa_nodes"]]
    assert all(amount <= most for amount, most in zip(reserved, room))
    if any(huge > size for size, huge in nodes):
        assert "hugepages.too_many" in errors(made)
    elif sum(room) < mebi + 2:
        assert errors(made) == ["memory.does_not_fit"]
    else:
        assert errors(made) == []
        assert sum(reserved) == mebi + 2


@given(planned_well())
def test_what_is_allocatable_is_what_is_left(case: Any) -> None:
    machine, _wanted, made = case
    for node in made["numa_nodes"]:
        huge = sum((2**30 if page == "1Gi" else 2**21) * count for page, count in node["hugepages"].items())
        assert node["allocatable_memory_bytes"] + node["reserved_memory_bytes"] + huge == machine.memory[node["id"]]
    capacity = made["capacity"]
    assert capacity["cpus"] == len(cpus(made["isolated_cpus"]))
    assert capacity["cpus"] == sum(node["cpus"] for node in capacity["numa_nodes"].values())
    assert capacity["whole_cores"] == sum(1 for core in machine.running() if machine.live(core) <= cpus(made["isolated_cpus"]))
    assert capacity["whole_cores"] == sum(node["whole_cores"] for node in capacity["numa_nodes"].values())


@given(planned(), st.integers(0, 99))
def test_the_same_input_gives_the_same_plan_in_any_order(case: Any, seed: int) -> None:
    machine, wanted, made = case
    before = json.dumps([topology(machine), wanted])
    again = plan.make_plan(json.loads(before)[0], json.loads(json.dumps(PLATFORM)), json.loads(before)[1])
    assert json.dumps(again) == json.dumps(made)
    assert plan.make_plan(topology(machine, shuffle=seed), PLATFORM, wanted) == made


@given(st.data())
def test_a_renumbering_in_the_same_order_renumbers_the_plan(data: st.DataObject) -> None:
    machine, wanted, made = data.draw(planned(most_numa_nodes=8))
    assume(0 in machine.online)
    new = data.draw(strategies.same_order_renumberings(machine))
    other = plan.make_plan(topology(machine.renumbered(new)), PLATFORM, wanted)

    def moved(text: str) -> str:
        return cpulist.to_list(new[cpu] for cpu in cpus(text))

    assert other["housekeeping_cpus"] == moved(made["housekeeping_cpus"])
    assert other["isolated_cpus"] == moved(made["isolated_cpus"])
    assert other["irqs"] == [{"device": item["device"], "cpus": moved(item["cpus"])} for item in made["irqs"]]
    assert other["capacity"] == made["capacity"]
    assert [item["id"] for item in other["findings"]] == [item["id"] for item in made["findings"]]
    keys = ("id", "allocatable_memory_bytes", "reserved_memory_bytes", "hugepages", "gpus", "nics")
    for mine, theirs in zip(made["numa_nodes"], other["numa_nodes"]):
        assert {key: theirs[key] for key in keys} == {key: mine[key] for key in keys}
        assert theirs["housekeeping_cpus"] == moved(mine["housekeeping_cpus"])
    lists = ("kernel.irqaffinity", "workqueue.cpumask", "irq.default_affinity", "kubelet.reserved_cpus")
    assert {key: other["knobs"][key] for key in lists if made["knobs"][key]} == {key: moved(made["knobs"][key]) for key in lists if made["knobs"][key]}


@given(st.data())
def test_any_renumbering_takes_as_many_cores_of_each_numa_node(data: st.DataObject) -> None:
    """Equal cores have nothing but their numbers, so which of them are taken may change; how many may not."""
    machine = data.draw(strategies.machines(most_numa_nodes=6, offline=False))
    # Cores of one width: on a hybrid NUMA node another order of the cores may bring a wider core first.
    assume(len({len(core.cpus) for core in machine.cores}) == 1)
    wanted = data.draw(strategies.policies(machine))
    made = plan.make_plan(topology(machine), PLATFORM, wanted)
    new = data.draw(strategies.any_renumberings(machine))
    other = plan.make_plan(topology(machine.renumbered(new)), PLATFORM, wanted)
    counted = [[(node["id"], len(cpus(node["housekeeping_cpus"])), len(cpus(node["isolated_cpus"])), node["reserved_memory_bytes"])
                for node in each["numa_nodes"]] for each in (made, other)]
    assert counted[0] == counted[1]
    assert other["capacity"] == made["capacity"]


@given(st.integers(0, 2**40), st.dictionaries(st.integers(0, 40), st.none() | st.integers(0, 2**40), max_size=16))
def test_spread_memory_never_gives_more_than_there_is_nor_loses_a_byte(total: int, room: Dict[int, Any]) -> None:
    given_out, left = plan.spread_memory(total, room)
    assert sum(given_out.values()) + left == total
    assert all(0 < amount and (room[node] is None or amount <= room[node]) for node, amount in given_out.items())
    if left:
        # What is left found no room: less than a Mi is free on each node, or the rest of it.
        assert all(bound is not None and bound - given_out.get(node, 0) < 2**20 for node, bound in room.items())


@given(st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.floats(allow_nan=False) | st.sampled_from(["", "0-3", "8Gi", "off", "x", "1Gi"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(
        st.sampled_from([*policy.POLICY_SCHEMA["properties"], "cores", "cpus", "1Gi", "0", "labels", "acs_off", "iommu", "x"]) | st.integers(0, 2),
        inner, max_size=4,
    ),
    max_leaves=12,
))
def test_no_policy_makes_the_planner_raise(wanted: Any) -> None:
    made = plan.make_plan(topology(strategies.regular(cores=2)), PLATFORM, wanted)
    assert cpus(made["housekeeping_cpus"]) >= {0}
    assert all(item["severity"] in ("error", "warning", "note") and item["message"] for item in made["findings"])


@pytest.mark.parametrize("numa_nodes", range(1, 9))
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("number", range(1, 17))
def test_cores_are_counted_exactly(numa_nodes: int, threads: int, number: int) -> None:
    """The profile creator of a peer gives 11 CPUs for 10 on 3 NUMA nodes, and 15 for 13 on 4."""
    machine = strategies.regular(numa_nodes=numa_nodes, cores=17, threads=threads)
    made = plan.make_plan(topology(machine), PLATFORM, {"housekeeping": {"cores": number}})
    if number < numa_nodes:
        assert errors(made) == ["housekeeping.too_few_cores"]
    else:
        assert errors(made) == []
        assert len(cpus(made["housekeeping_cpus"])) == number * threads
        shares = [Fraction(len(cpus(node["housekeeping_cpus"])), threads) for node in made["numa_nodes"]]
        assert shares == sorted(shares, reverse=True) and shares[0] - shares[-1] <= 1


def test_a_regular_machine_is_a_truth_of_its_own() -> None:
    machine: TrueMachine = strategies.regular(cores=2)
    assert [core.cpus for core in machine.running()] == [(0, 4), (1, 5), (2, 6), (3, 7)]
