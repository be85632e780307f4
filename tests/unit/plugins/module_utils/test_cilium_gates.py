# Copyright (c) 2026 The inferops.locality authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What stands against the policy's wishes on a node, by its facts and by its cluster's settings. No agent runs here: the rules are those that it has."""

from __future__ import annotations

import copy
from typing import Any, Dict, List, Optional, Tuple

import pytest

from ansible_collections.inferops.locality.plugins.module_utils import cilium_gates, cilium_maps, plan
from ansible_collections.inferops.locality.tests.unit.strategies import GIB, PLATFORM, regular, topology

# A ConfigMap as the profile gives it.
GOOD: Dict[str, str] = {
    "routing-mode": "native", "kube-proxy-replacement": "true", "enable-bpf-masquerade": "true", "enable-ipv4": "true", "enable-ipv6": "true",
    "enable-host-legacy-routing": "false", "cluster-name": "default",
}
NETKIT = {"cilium.datapath_mode": "netkit"}
BIG_TCP = {"cilium.big_tcp": ["ipv4", "ipv6"]}


def node(  # noqa: PLR0917
    kernel: Optional[str] = "6.12.57", netkit: Optional[bool] = True, uplinks: Any = ("eth0",), vxlan: Any = (), kvm: int = 0, **interfaces: Any,
) -> Dict[str, Any]:
    """A platform; an interface is (driver, tso_max_size), or more keys."""
    entries = {
        name: {"driver": entry[0], "physical": True, "lower": [], "tso_max_size": entry[1], "gso_ipv4_max_size": None} if isinstance(entry, tuple) else entry
        for name, entry in (interfaces or {"eth0": ("mlx5_core", 524280)}).items()
    }
    return {
        "kernel": kernel, "features": {"netkit": netkit}, "guests": {"vfio": [], "kvm": kvm},
        "network": {"uplinks": list(uplinks), "interfaces": entries, "vxlan": list(vxlan)},
    }


def ids(wanted: Dict[str, Any], platform: Dict[str, Any], version: Optional[str] = None, config: Optional[Dict[str, Any]] = None) -> Dict[str, str]:
    """Findings by id, with their severity."""
    given = None if version is None and config is None else {"version": version, "config": GOOD if config is None else {**GOOD, **config}}
    found = cilium_gates.check(wanted, platform, cilium_gates.settings(given))
    assert all(item["message"] and not item["message"].endswith(".") for item in found)
    return {item["id"][len("cilium."):]: item["severity"] for item in found}


VERSIONS: List[Tuple[Any, Tuple[int, ...]]] = [
    ("1.19.4", (1, 19, 4)), ("v1.20.0", (1, 20, 0)), ("1.19.402", (1, 19, 4)), ("1.20.102", (1, 20, 1)), ("1.19", (1, 19, 0)), ("1.21.0-pre.0", (1, 21, 0)),
    (None, ()), ("latest", ()),
]


@pytest.mark.parametrize(("text", "number"), VERSIONS)
def test_versions_of_cilium_and_of_rke2s_chart(text: Any, number: Tuple[int, ...]) -> None:
    assert cilium_gates.version(text) == number


def test_a_node_that_can_all_of_it_has_nothing_against_it() -> None:
    wanted = {
        **NETKIT, **BIG_TCP, "cilium.devices": ["eth0"], "cilium.xdp": "native", "cilium.clock": True,
        "cilium.bandwidth_manager": {"enabled": True, "bbr": True},
    }
    assert ids(wanted, node(), "1.20.2") == {"netkit_beta": "note"}


def test_a_policy_that_asks_nothing_of_cilium_is_judged_by_nothing() -> None:
    assert ids({"vm.thp": "madvise"}, node("5.10", False), "1.19.4", {"cluster-name": "prod"}) == {}


NETKIT_CASES: List[Any] = [
    ("6.1.0-29-amd64", True, "netkit_kernel", "error"),
    ("6.6.80", True, "netkit_kernel", "error"),
    ("6.7.12", True, "netkit_kernel", "error"),
    ("6.8.0-48-generic", True, None, None),
    ("6.8.0-48-generic", False, "netkit_not_built", "error"),
    ("6.12.57", None, "netkit_unknown", "note"),
    (None, None, "kernel_unknown", "warning"),
]


@pytest.mark.parametrize(("kernel", "built", "id", "severity"), NETKIT_CASES)
def test_netkit_and_the_kernel(kernel: Any, built: Any, id: Any, severity: Any) -> None:
    found = ids(NETKIT, node(kernel, built))
    assert found.pop("netkit_beta") == "note"
    assert found == ({} if id is None else {id: severity})


def test_veth_needs_nothing() -> None:
    assert ids({"cilium.datapath_mode": "veth"}, node("5.10.0", False), "1.20.2", {"enable-host-legacy-routing": "true"}) == {}


NETKIT_SETTINGS: List[Any] = [
    ("1.20.2", "6.12.57", {"enable-bpf-tproxy": "true"}, {"netkit_tproxy": "error"}),
    ("1.20.2", "6.12.57", {"enable-host-legacy-routing": "true", "cni-chaining-mode": "portmap"}, {"netkit_legacy_routing": "error"}),
    ("1.19.6", "6.12.57", {"enable-host-legacy-routing": "true"}, {"netkit_legacy_routing": "warning"}),
    ("1.20.2", "6.11.0", {"enable-endpoint-routes": "true"}, {"netkit_endpoint_routes": "error"}),
    ("1.20.2", "6.12.118", {"enable-endpoint-routes": "true"}, {"netkit_endpoint_routes": "warning"}),
    ("1.19.6", "6.12.57", {"enable-endpoint-routes": "true"}, {"netkit_endpoint_routes": "warning"}),
    ("1.20.2", "6.13.1", {"enable-endpoint-routes": "true"}, {}),
]


@pytest.mark.parametrize(("version", "kernel", "config", "wanted"), NETKIT_SETTINGS)
def test_netkit_and_the_clusters_settings(version: str, kernel: str, config: Dict[str, str], wanted: Dict[str, str]) -> None:
    assert ids(NETKIT, node(kernel), version, config) == {**wanted, "netkit_beta": "note"}


FAMILIES: List[Any] = [
    (["ipv4", "ipv6"], "6.1.0", {"big_tcp_kernel": "error"}),
    (["ipv6"], "6.1.0", {}),
    (["ipv6"], "5.15.0", {"big_tcp_kernel": "error"}),
    (["ipv4"], "6.3.0", {}),
    (["ipv4"], "6.7.0", {"big_tcp_one_family": "warning"}),
    (["ipv6"], "6.12.57", {"big_tcp_one_family": "warning"}),
    (["ipv4", "ipv6"], "6.12.57", {}),
    (["ipv4"], None, {"kernel_unknown": "warning"}),
]


@pytest.mark.parametrize(("families", "kernel", "wanted"), FAMILIES)
def test_big_tcp_and_the_kernel(families: List[str], kernel: Any, wanted: Dict[str, str]) -> None:
    # A kernel this old shows no size.
    size = 524280 if kernel is None or kernel != "5.15.0" else None
    found = ids({"cilium.big_tcp": families}, node(kernel, eth0=("mlx5_core", size)))
    assert {id: severity for id, severity in found.items() if id != "big_tcp_unknown"} == wanted


def test_an_older_kernel_whose_interfaces_show_the_size_has_it() -> None:
    entry = {"driver": "mlx5_core", "physical": True, "lower": [], "tso_max_size": 524280, "gso_ipv4_max_size": 65536}
    assert ids(BIG_TCP, node("5.14.0-570.el9.x86_64", eth0=entry)) == {}


DEVICES: List[Any] = [
    (("mlx5_core", 524280), {}),
    (("ice", 131072), {}),
    (("mlx5_core", 65536), {"big_tcp_device": "error"}),
    (("ena", 65536), {"big_tcp_device": "error"}),
    (("ena", None), {"big_tcp_device": "error"}),
    (("mlx5_core", None), {"big_tcp_unknown": "note"}),
    (("bnxt_en", None), {"big_tcp_unknown": "warning"}),
    (("bnxt_en", 262144), {}),
]


@pytest.mark.parametrize(("entry", "wanted"), DEVICES)
def test_the_number_decides_and_the_driver_is_a_hint(entry: Any, wanted: Dict[str, str]) -> None:
    assert ids(BIG_TCP, node(eth0=entry)) == wanted


def test_every_selected_device_counts_and_no_other() -> None:
    platform = node(uplinks=["eth0"], eth0=("mlx5_core", 524280), eth1=("igb", 65536), fab0=("ena", 65536))
    assert ids(BIG_TCP, platform) == {}
    assert ids({**BIG_TCP, "cilium.devices": ["eth0", "eth1"]}, platform) == {"big_tcp_device": "error"}
    # As the cluster has them, where the policy leaves them alone.
    assert ids(BIG_TCP, platform, "1.20.2", {"devices": "eth+"}) == {"big_tcp_device": "error"}
    assert ids(BIG_TCP, platform, "1.20.2", {"devices": "eth0"}) == {}


def test_devices_that_nobody_knows_are_said() -> None:
    assert ids(BIG_TCP, node(uplinks=[])) == {"devices_unknown": "warning"}


def test_a_bond_is_judged_by_its_own_number_and_named_with_the_drivers_below() -> None:
    bond = {"driver": None, "physical": False, "lower": ["eth0", "eth1"], "tso_max_size": 65536}
    platform = node(uplinks=["bond0"], bond0=bond, eth0=("mlx5_core", 524280), eth1=("tg3", 65536))
    found = cilium_gates.check(BIG_TCP, platform, None)
    assert [(item["id"], item["severity"]) for item in found] == [("cilium.big_tcp_device", "error")]
    assert "bond0 (mlx5_core, tg3) takes packets up to 65536 bytes (tso_max_size), wanted more than 65536" in found[0]["message"]


BIG_TCP_SETTINGS: List[Any] = [
    ("1.20.2", {"enable-host-legacy-routing": "true"}, {"big_tcp_legacy_routing": "error"}),
    ("1.20.2", {"kube-proxy-replacement": "false"}, {"big_tcp_legacy_routing": "error"}),
    ("1.20.2", {"enable-bpf-masquerade": "false"}, {"big_tcp_legacy_routing": "error"}),
    ("1.20.2", {"enable-bpf-masquerade": "false", "enable-ipv4-masquerade": "false", "enable-ipv6-masquerade": "false"}, {}),
    ("1.20.2", {"enable-ipsec": "true"}, {"big_tcp_legacy_routing": "error", "big_tcp_encryption": "error"}),
    ("1.20.2", {"enable-wireguard": "true"}, {}),
    ("1.18.12", {"enable-wireguard": "true"}, {"big_tcp_encryption": "error"}),
    ("1.18.12", {"routing-mode": "tunnel"}, {"big_tcp_tunnel": "error"}),
    ("1.19.2", {"routing-mode": "tunnel"}, {"big_tcp_tunnel": "error", "version_policies": "warning"}),
    ("1.19.2", {"routing-mode": "tunnel", "enable-tunnel-big-tcp": "true"}, {"big_tcp_tunnel": "warning", "version_policies": "warning"}),
    ("1.20.2", {"routing-mode": "tunnel"}, {"big_tcp_tunnel": "warning"}),
    ("1.20.2", {"bpf-lb-dsr-dispatch": "ipip"}, {"big_tcp_dsr": "error"}),
    ("1.18.12", {"bpf-lb-dsr-dispatch": "ipip"}, {}),
    ("1.20.2", {"enable-ipv6": "false"}, {"big_tcp_no_family": "error"}),
]


@pytest.mark.parametrize(("version", "config", "wanted"), BIG_TCP_SETTINGS)
def test_big_tcp_and_the_clusters_settings(version: str, config: Dict[str, str], wanted: Dict[str, str]) -> None:
    assert ids(BIG_TCP, node(), version, config) == wanted


VERSION_CASES: List[Any] = [
    ("1.19.4", NETKIT, {}, (), {"version_policies": "warning"}),
    ("1.19.402", NETKIT, {"cluster-name": "prod"}, (), {"version_policies": "error"}),
    ("1.19.5", NETKIT, {"cluster-name": "prod"}, (), {}),
    ("1.19.4", BIG_TCP, {}, (), {"version_policies": "warning", "version_vxlan": "warning"}),
    ("1.19.4", BIG_TCP, {}, ("cilium_vxlan",), {"version_policies": "warning", "version_vxlan": "error"}),
    ("1.19.4", BIG_TCP, {"enable-egress-gateway": "true"}, (), {"version_policies": "warning", "version_vxlan": "error"}),
    ("1.19.601", BIG_TCP, {}, ("cilium_vxlan",), {"version_vxlan": "warning"}),
    ("1.20.0", NETKIT, {}, (), {"version_node_config": "warning"}),
    ("1.20.102", NETKIT, {}, (), {"version_node_config": "warning"}),
    ("1.20.2", BIG_TCP, {}, ("cilium_vxlan",), {}),
]


@pytest.mark.parametrize(("version", "wanted", "config", "vxlan", "findings"), VERSION_CASES)
def test_versions_known_to_be_bad(version: str, wanted: Dict[str, Any], config: Dict[str, str], vxlan: Any, findings: Dict[str, str]) -> None:
    found = ids(wanted, node(vxlan=vxlan), version, config)
    found.pop("netkit_beta", None)
    assert found == findings


def test_a_definition_that_1_20_0_cannot_take_over_refuses_it() -> None:
    cluster = cilium_gates.settings({"version": "1.20.1", "config": GOOD, "stored_versions": ["v2alpha1", "v2"]})
    found = cilium_gates.check({"cilium.xdp": "disabled"}, node(), cluster)
    assert [(item["id"], item["severity"]) for item in found] == [("cilium.version_node_config", "error")]


OTHERS: List[Any] = [
    ({"cilium.xdp": "native"}, {}, ("mlx5_core", 1), {}),
    ({"cilium.xdp": "native"}, {}, ("e1000e", 1), {"xdp_driver": "warning"}),
    ({"cilium.xdp": "best-effort"}, {}, ("e1000e", 1), {"xdp_driver": "note"}),
    ({"cilium.xdp": "disabled"}, {}, ("e1000e", 1), {}),
    ({"cilium.xdp": "native"}, {"kube-proxy-replacement": "false"}, ("mlx5_core", 1), {"xdp_kube_proxy": "error"}),
    ({"cilium.xdp": "native"}, {"routing-mode": "tunnel", "underlay-protocol": "ipv6"}, ("mlx5_core", 1), {"xdp_tunnel": "error"}),
    ({"cilium.bandwidth_manager": {"enabled": True, "bbr": False}}, {"enable-ipsec": "true"}, ("mlx5_core", 1), {"bandwidth_manager_ipsec": "error"}),
    ({"cilium.bandwidth_manager": {"enabled": False, "bbr": False}}, {"enable-ipsec": "true"}, ("mlx5_core", 1), {}),
    ({"cilium.bandwidth_manager": {"enabled": True, "bbr": True}}, {"kube-proxy-replacement": "false"}, ("mlx5_core", 1), {"bbr_legacy_routing": "error"}),
    ({"cilium.bandwidth_manager": {"enabled": True, "bbr": True}}, {"kube-proxy-replacement": "false", "enable-bbr-hostns-only": "true"}, ("mlx5_core", 1), {}),
]


@pytest.mark.parametrize(("wanted", "config", "entry", "findings"), OTHERS)
def test_xdp_and_bandwidth_manager(wanted: Dict[str, Any], config: Dict[str, str], entry: Any, findings: Dict[str, str]) -> None:
    assert ids(wanted, node(eth0=entry), "1.20.2", config) == findings


@pytest.mark.parametrize(("driver", "kernel", "said"), [
    ("mlx5_core", "5.15.0", ""), ("gve", "6.4.0", ""),
    ("gve", "6.1.0-30-amd64", "eth0 has a driver that does XDP itself from a newer kernel than 6.1.0-30-amd64 on: gve from 6.4:"),
    ("tg3", "6.12.0", "has the driver tg3, which is not known to do XDP itself:"), ("tg3", "", "has the driver tg3"), ("gve", "", ""),
])
def test_a_driver_does_xdp_from_its_kernel_on(driver: str, kernel: str, said: str) -> None:
    found = cilium_gates.check({"cilium.xdp": "native"}, node(kernel, eth0=(driver, 65536)), cilium_gates.settings({"version": "1.20.2", "config": GOOD}))
    told = [item["message"] for item in found if item["id"] == "cilium.xdp_driver"]
    assert len(told) == bool(said) and all(said in message for message in told)


def test_bbr_needs_its_kernel() -> None:
    assert ids({"cilium.bandwidth_manager": {"enabled": True, "bbr": True}}, node("5.15.0")) == {"bbr_kernel": "error"}


def test_all_refusals_come_at_once() -> None:
    wanted = {**NETKIT, **BIG_TCP, "cilium.bandwidth_manager": {"enabled": True, "bbr": True}}
    found = ids(wanted, node("5.15.0", False, eth0=("ena", 65536)), "1.18.12", {"enable-ipsec": "true", "enable-bpf-tproxy": "true"})
    assert {id for id, severity in found.items() if severity == "error"} == {
        "netkit_kernel", "netkit_tproxy", "big_tcp_kernel", "big_tcp_legacy_routing", "big_tcp_encryption", "big_tcp_device", "bandwidth_manager_ipsec",
        "bbr_kernel", "bbr_legacy_routing",
    }


WRONG: List[Any] = [[], "1.19.6", {"config": []}, {"version": "latest"}]


@pytest.mark.parametrize("given", WRONG)
def test_settings_of_another_shape_are_refused(given: Any) -> None:
    with pytest.raises(cilium_gates.SettingsError):
        cilium_gates.settings(given)
    with pytest.raises(plan.PlanError):
        plan.make_plan(topology(regular()), PLATFORM, {}, cilium=given)


# -- maps

SIZES: List[Any] = [(16, 151765, 75882), (30, 284560, 142280), (240, 2276484, 1138242), (360, 3414726, 1707363)]


@pytest.mark.parametrize(("gib", "tcp", "other"), SIZES)
def test_map_sizes_are_those_of_ciliums_own_test(gib: int, tcp: int, other: int) -> None:
    assert cilium_maps.entries(gib * GIB, 0.0025) == {"ct_tcp": tcp, "ct_any": other, "nat": tcp}


def test_map_sizes_end_at_the_least_and_the_most() -> None:
    assert cilium_maps.entries(GIB, 0.0025) == {"ct_tcp": 131072, "ct_any": 65536, "nat": 131072}
    assert cilium_maps.entries(1024 * GIB, 0.08) == {"ct_tcp": 16777216, "ct_any": 16777216, "nat": 16777216}
    assert cilium_maps.entries(55 * GIB, 0.08)["ct_tcp"] < 16777216 == cilium_maps.entries(56 * GIB, 0.08)["ct_tcp"]
    assert cilium_maps.entries(110 * GIB, 0.08)["ct_any"] < 16777216 == cilium_maps.entries(111 * GIB, 0.08)["ct_any"]


def test_a_distributed_lru_gives_each_cpu_as_many() -> None:
    assert all(count % 96 == 0 for count in cilium_maps.entries(16 * GIB, 0.0025, 96, True).values())


COSTS: List[Any] = [
    (512, 0.0025, "note", "at least 1088 MiB"), (512, 0.08, "warning", "as large as they can be"), (16, 0.05, "warning", "more than a hundredth"),
]


@pytest.mark.parametrize(("gib", "ratio", "severity", "words"), COSTS)
def test_what_the_maps_cost_is_said(gib: int, ratio: float, severity: str, words: str) -> None:
    found = cilium_gates.check({"cilium.bpf_maps": {"distributed_lru": False, "ratio": ratio}}, node(), None, gib * GIB, 128)
    assert [(item["id"], item["severity"]) for item in found] == [("cilium.map_memory", severity)]
    assert words in found[0]["message"]


# -- in the plan


def test_the_plan_has_them_with_the_nodes_own_memory() -> None:
    platform = copy.deepcopy(PLATFORM)
    platform["kernel"] = "6.1.0-29-amd64"
    made = plan.make_plan(
        topology(regular()), platform, {"network": {"datapath_mode": "netkit", "bpf_maps": {}}},
        cilium={"version": "1.20.2", "config": {"enable-bpf-tproxy": "true"}},
    )
    assert {"cilium.netkit_kernel", "cilium.netkit_tproxy", "cilium.map_memory"} <= {item["id"] for item in made["findings"]}
