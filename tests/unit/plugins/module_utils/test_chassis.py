# Copyright (c) 2026 The inferops.locality authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import copy
from typing import Any, Callable, Dict, List

import pytest

from ansible_collections.inferops.locality.plugins.module_utils import chassis
from ansible_collections.inferops.locality.tests.unit.strategies import GIB, TrueMachine, regular, topology

CHASSIS: Dict[str, Any] = {
    "sockets": 2,
    "threads_per_core": 2,
    "cores": 16,
    "memory_tolerance_percent": 5,
    "gpus": 2,
    "nvme": 1,
    "numa_nodes": {"0": {"memory": "512Gi", "gpus": 1, "nics": 1, "cores": 8}, "1": {"memory": "512Gi", "gpus": 1, "nics": 0, "nvme": 1}},
    "nics": [{"slot": "0000:18:00.0", "speed_gbps": 400}],
}


def machine() -> Dict[str, Any]:
    devices = (
        {"address": "0000:18:00.0", "kind": "nic", "numa_node": 0, "interfaces": [{"name": "eth0", "speed_mbps": 400000}]},
        {"address": "0000:18:00.1", "kind": "nic", "numa_node": 0, "physfn": "0000:18:00.0", "interfaces": []},
        {"address": "0000:19:00.0", "kind": "gpu", "numa_node": 0},
        {"address": "0000:99:00.0", "kind": "accelerator", "numa_node": 1},
        {"address": "0000:9a:00.0", "kind": "nvme", "numa_node": 1},
    )
    regular_machine = regular(cores=8, memory=504 * GIB)
    return topology(TrueMachine(regular_machine.cores, regular_machine.memory, sockets=2, devices=devices))


def without(shown: Dict[str, Any], address: str) -> None:
    shown["devices"] = [device for device in shown["devices"] if device["address"] != address]


def smt_off(shown: Dict[str, Any]) -> None:
    shown["cpus"].update(threads_per_core=1, smt="off")


def moved(shown: Dict[str, Any]) -> None:
    shown["devices"][0]["address"] = "0000:3b:00.0"


def slow(shown: Dict[str, Any]) -> None:
    shown["devices"][0]["interfaces"][0]["speed_mbps"] = 100000


def no_link(shown: Dict[str, Any]) -> None:
    shown["devices"][0]["interfaces"][0]["speed_mbps"] = None


def less_memory(shown: Dict[str, Any]) -> None:
    shown["numa_nodes"][1]["memory_bytes"] = 448 * GIB


def no_memory(shown: Dict[str, Any]) -> None:
    shown["numa_nodes"][1]["memory_bytes"] = None


def fewer_nodes(shown: Dict[str, Any]) -> None:
    shown["numa_nodes"].pop()


def more_nodes(shown: Dict[str, Any]) -> None:
    shown["numa_nodes"].append({"id": 2, "cpus": "", "memory_bytes": GIB})


def one_socket(shown: Dict[str, Any]) -> None:
    shown["sockets"].pop()


def fewer_cores(shown: Dict[str, Any]) -> None:
    shown["cores"].pop(0)


DIFFERENCES = [
    pytest.param(lambda shown: without(shown, "0000:19:00.0"), [
        "gpus: found 1 (0000:99:00.0), wanted 2", "numa_nodes.0.gpus: found 0, wanted 1",
    ], id="gpu-missing"),
    pytest.param(moved, ["nics[0].slot: found NICs in 0000:3b:00.0, wanted a NIC in 0000:18:00.0"], id="nic-in-the-wrong-slot"),
    pytest.param(slow, ["nics[0].speed_gbps: found 100 on 0000:18:00.0, wanted 400"], id="nic-too-slow"),
    pytest.param(no_link, ["nics[0].speed_gbps: found no link, wanted 400"], id="nic-without-link"),
    pytest.param(lambda shown: without(shown, "0000:9a:00.0"), ["nvme: found 0, wanted 1", "numa_nodes.1.nvme: found 0, wanted 1"], id="nvme-missing"),
    pytest.param(smt_off, ["threads_per_core: found 1 (SMT off), wanted 2"], id="T-CPU-15-SMT-off"),
    pytest.param(less_memory, ["numa_nodes.1.memory: found 448.0Gi (-12.5 %), wanted 512Gi within 5 %"], id="less-memory"),
    pytest.param(no_memory, ["numa_nodes.1.memory: found unknown, wanted 512Gi"], id="memory-unknown"),
    pytest.param(fewer_nodes, ["numa_nodes.1: found NUMA nodes 0, wanted a NUMA node 1"], id="numa-node-missing"),
    pytest.param(more_nodes, ["numa_nodes: found NUMA nodes 0, 1, 2, wanted only 0, 1"], id="numa-node-too-many"),
    pytest.param(one_socket, ["sockets: found 1, wanted 2"], id="socket-missing"),
    pytest.param(fewer_cores, ["cores: found 15, wanted 16", "numa_nodes.0.cores: found 7, wanted 8"], id="core-missing"),
]


def test_a_machine_like_its_chassis_has_no_difference() -> None:
    assert chassis.compare(machine(), CHASSIS) == []


@pytest.mark.parametrize("expected", [None, {}, {"numa_nodes": {}}, {"nics": []}])
def test_a_chassis_that_names_nothing_expects_nothing(expected: Any) -> None:
    assert chassis.compare(machine(), expected) == []


@pytest.mark.parametrize(("change", "differences"), DIFFERENCES)
def test_differences_are_errors_with_found_and_wanted(change: Callable[[Dict[str, Any]], None], differences: List[str]) -> None:
    shown = copy.deepcopy(machine())
    change(shown)
    items = chassis.compare(shown, CHASSIS)
    assert [item["message"] for item in items] == [f"locality_chassis.{text}" for text in differences]
    assert {item["severity"] for item in items} == {"error"}
    assert all(item["hint"] for item in items)


@pytest.mark.parametrize(
    ("tolerance", "gib", "accepted"),
    [(5, 487, True), (5, 486, False), (5, 537, True), (5, 538, False), (0, 512, True), (0.5, 509, False)],
)
def test_memory_has_a_tolerance(tolerance: float, gib: int, accepted: bool) -> None:
    shown = machine()
    shown["numa_nodes"][0]["memory_bytes"] = gib * GIB
    items = chassis.compare(shown, {"memory_tolerance_percent": tolerance, "numa_nodes": {"0": {"memory": "512Gi"}, "1": {}}})
    assert (items == []) is accepted


WRONG = [
    ({"socket": 2}, "policy.unknown_key", "locality_chassis.socket: unknown key", "locality_chassis.sockets"),
    ({"numa_nodes": {"0": {"gpu": 2}}}, "policy.unknown_key", "locality_chassis.numa_nodes.0.gpu", "locality_chassis.numa_nodes.0.gpus"),
    ({"nics": [{"slot": "18:00.0"}]}, "policy.wrong_value", "locality_chassis.nics[0].slot", ""),
    ({"nics": [{"speed_gbps": 400}]}, "policy.missing_key", "locality_chassis.nics[0].slot: missing", ""),
    ({"sockets": "two"}, "policy.wrong_type", "locality_chassis.sockets: found 'two'", ""),
    ([], "policy.wrong_type", "locality_chassis: found []", ""),
]


@pytest.mark.parametrize(("expected", "id", "message", "hint"), WRONG)
def test_a_wrong_chassis_is_named(expected: Any, id: str, message: str, hint: str) -> None:
    items = [item for item in chassis.compare(machine(), expected) if item["id"].startswith("policy.")]
    assert [item["id"] for item in items] == [id]
    assert message in items[0]["message"] and hint in items[0]["hint"]
