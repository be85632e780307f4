# Copyright (c) 2026 The inferops.locality authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a policy means for Cilium on one node."""

from __future__ import annotations

import copy
from typing import Any, Dict, List

import pytest

from ansible_collections.inferops.locality.plugins.module_utils import knobs, plan
from ansible_collections.inferops.locality.tests.unit.strategies import PLATFORM, regular, topology


def make(network: Dict[str, Any], uplinks: Any = ("eth0",)) -> Dict[str, Any]:
    platform = copy.deepcopy(PLATFORM)
    platform["network"]["uplinks"] = list(uplinks) if uplinks is not None else None
    return plan.make_plan(topology(regular()), platform, {"network": network})


def wanted(made: Dict[str, Any]) -> Dict[str, Any]:
    return {id: value for id, value in made["knobs"].items() if id.startswith("cilium.")}


def test_a_policy_that_says_nothing_leaves_cilium_as_it_is() -> None:
    assert wanted(make({})) == {}


def test_all_of_them() -> None:
    asked = {
        "datapath_mode": "netkit", "big_tcp": ["ipv6", "ipv4"], "devices": ["eth1", "eth0"], "xdp": "best-effort", "routing": "direct",
        "bpf_maps": {"distributed_lru": True}, "clock_probe": True, "bandwidth_manager": {"bbr": True},
    }
    assert wanted(make(asked)) == {
        "cilium.datapath_mode": "netkit",
        "cilium.big_tcp": ["ipv4", "ipv6"],
        "cilium.devices": ["eth0", "eth1"],
        "cilium.xdp": "best-effort",
        "cilium.bpf_maps": {"distributed_lru": True, "ratio": 0.0025},
        "cilium.clock": True,
        "cilium.bandwidth_manager": {"enabled": True, "bbr": True},
    }


ONE: List[Any] = [
    ({"big_tcp": []}, {"cilium.big_tcp": []}),
    ({"clock_probe": False}, {"cilium.clock": False}),
    ({"bpf_maps": {"ratio": 1}}, {"cilium.bpf_maps": {"distributed_lru": False, "ratio": 1.0}}),
    ({"bandwidth_manager": {"enabled": False}}, {"cilium.bandwidth_manager": {"enabled": False, "bbr": False}}),
    ({"devices": "uplink"}, {"cilium.devices": ["eth0"]}),
    ({"routing": "bgp"}, {}),
]


@pytest.mark.parametrize(("network", "knob"), ONE)
def test_only_what_is_not_null_is_wanted(network: Dict[str, Any], knob: Dict[str, Any]) -> None:
    made = make(network)
    assert wanted(made) == knob
    assert set(knob) <= set(knobs.KNOBS)
    assert [item for item in made["findings"] if item["severity"] == "error"] == []


def test_the_uplink_is_what_carries_the_default_routes() -> None:
    assert wanted(make({"devices": "uplink"}, ("eth1", "bond0")))["cilium.devices"] == ["bond0", "eth1"]


WRONG: List[Any] = [
    ({"devices": "uplink"}, None, "cilium.no_uplink", "could not be read"),
    ({"devices": "uplink"}, [], "cilium.no_uplink", "this node has no default route"),
    ({"devices": ["eth0", "ens9"]}, ["eth0"], "cilium.no_such_device", "found ens9, wanted interfaces of this node: eth0, eth1"),
    ({"bandwidth_manager": {"enabled": False, "bbr": True}}, ["eth0"], "cilium.bbr_alone", "bbr: true with enabled: false"),
]


@pytest.mark.parametrize(("network", "uplinks", "id", "words"), WRONG, ids=[case[2] for case in WRONG])
def test_what_cannot_be_is_an_error(network: Dict[str, Any], uplinks: Any, id: str, words: str) -> None:
    made = make(network, uplinks)
    assert [(item["id"], item["severity"]) for item in made["findings"] if item["id"].startswith("cilium.")] == [(id, "error")]
    assert words in made["findings"][0]["message"]
    assert "cilium.devices" not in made["knobs"]


def test_interfaces_that_nobody_read_are_taken_as_named() -> None:
    platform = copy.deepcopy(PLATFORM)
    del platform["network"]
    assert plan.make_plan(topology(regular()), platform, {"network": {"devices": ["ens9"]}})["knobs"]["cilium.devices"] == ["ens9"]
