# Copyright (c) 2026 The inferops.locality authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What hosts of one cluster ask together of the chart of its Cilium."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.inferops.locality.plugins.plugin_utils import cluster_chart


def host(kubeconfig: Any = "/k", cilium: Any = None, root: str = "/", control: Any = None, **network: Any) -> dict[str, Any]:
    return {
        "locality_kubeconfig": kubeconfig, "locality_root": root, "locality_policy": {"network": network}, "locality_cilium": cilium,
        **({"locality_control_host": control} if control else {}),
    }


def clusters(reached: Any = None, everyone: bool = False, **hosts: Any) -> list[dict[str, Any]]:
    return cluster_chart.clusters(hosts, list(hosts), list(hosts) if reached is None else reached, everyone)


def test_hosts_that_share_a_kubeconfig_and_a_control_host_are_one_cluster() -> None:
    found = clusters(
        a=host(routing="direct"), b=host(routing="direct"), c=host(kubeconfig="/other", routing="bgp"), d=host(control="bastion", clock_probe=True),
    )
    assert [(item["hosts"], item["first"]) for item in found] == [(["a", "b"], "a"), (["c"], "c"), (["d"], "d")]
    assert [item["network"]["routing"] for item in found] == ["direct", "bgp", None]


@pytest.mark.parametrize("nobody", [
    host(), host(datapath_mode="netkit", big_tcp=["ipv4"], devices="uplink", xdp="native"), host(cilium={"version": "1.19.6", "config": {}}),
    host(kubeconfig=None, routing="direct"), host(root="/srv/image", routing="direct"), {"locality_kubeconfig": "/k", "locality_policy": "no mapping"}, {},
])
def test_who_asks_for_nothing_of_the_chart_costs_nothing(nobody: Any) -> None:
    assert clusters(a=nobody) == []


def test_a_host_that_leaves_it_alone_agrees_with_any_and_what_is_asked_adds_up() -> None:
    found = clusters(
        a=host(datapath_mode="netkit"), b=host(bpf_maps={}, cilium={"version": "1.19.6", "values": {"hubble": {"enabled": True}}}),
        c=host(bpf_maps={"ratio": 0.0025}, routing="direct", cilium={"values": {"hubble": {"relay": {"enabled": False}}}}),
    )
    assert len(found) == 1 and found[0]["findings"] == [] and found[0]["hosts"] == ["b", "c"]
    assert found[0]["network"] == {
        "routing": "direct", "bpf_maps": {"distributed_lru": False, "ratio": 0.0025}, "clock_probe": None, "bandwidth_manager": None,
        "datapath_mode": None, "big_tcp": None, "devices": None, "xdp": None,
    }
    assert found[0]["values"] == {"hubble": {"enabled": True, "relay": {"enabled": False}}} and found[0]["version"] == "1.19.6" and found[0]["mode"] is None


def test_what_nodes_have_each_for_themselves_is_the_charts_where_all_have_the_same() -> None:
    found = clusters(a=host(xdp="native", big_tcp=[], routing="bgp"), b=host(xdp="native", big_tcp=["ipv4"]))
    assert (found[0]["network"]["xdp"], found[0]["network"]["big_tcp"]) == ("native", None)


DIFFERENT: list[Any] = [
    (host(routing="direct"), host(routing="bgp"), "locality_policy.network.routing: ", '"direct" on a; "bgp" on b'),
    (host(bpf_maps={"ratio": 0.005}), host(bpf_maps={}), "locality_policy.network.bpf_maps: ", '0.005} on a; {"distributed_lru": false, "ratio": 0.0025} on b'),
    (host(clock_probe=True), host(clock_probe=False), "locality_policy.network.clock_probe: ", "true on a; false on b"),
    (host(routing="bgp", cilium={"version": "1"}), host(routing="bgp", cilium={"version": "2"}), "locality_cilium.version: ", '"1" on a; "2" on b'),
    (host(cilium={"values": {"x": {"y": 1}}}), host(cilium={"values": {"x": {"y": 2}}}), "locality_cilium.values.x.y: ", "1 on a; 2 on b"),
    (host(cilium={"values": {"x": {"y": None}}}), host(cilium={"values": {"x": {"y": 2}}}), "locality_cilium.values.x.y: ", "null on a; 2 on b"),
    (host(cilium={"values": {"x": False}}), host(cilium={"values": {"x": {"y": 2}}}), "locality_cilium.values.x: ", "false on a; keys below it (2) on b"),
]


@pytest.mark.parametrize(("one", "other", "key", "words"), DIFFERENT)
def test_hosts_that_ask_for_different_values_are_named_with_them(one: Any, other: Any, key: str, words: str) -> None:
    found = clusters(a=one, b=other)
    assert [item["id"] for item in found[0]["findings"]] == ["cilium.cluster_disagrees"]
    message = found[0]["findings"][0]["message"]
    assert message.startswith(key) and words in message and found[0]["findings"][0]["severity"] == "error"
    # Whoever is not looked at in this run has a say too.
    assert clusters(reached=["b"], a=one, b=other)[0]["findings"] == found[0]["findings"]


def test_the_first_host_is_one_that_was_reached() -> None:
    hosts = {"a": host(routing="direct"), "b": host(routing="direct")}
    assert clusters(reached=["b"], **hosts)[0]["first"] == "b"
    assert clusters(reached=[], **hosts) == []


def test_a_recorded_policy_wins_over_the_inventorys() -> None:
    found = clusters(a={**host(routing="direct"), "observe_result": {"policy": {"network": {"routing": "bgp"}}}})
    assert found[0]["network"]["routing"] == "bgp"


def test_taking_everything_off_looks_at_every_cluster() -> None:
    found = clusters(everyone=True, a=host(), b=host(routing="direct"), c=host(kubeconfig=None))
    assert [(item["hosts"], item["findings"]) for item in found] == [(["a", "b"], [])]
