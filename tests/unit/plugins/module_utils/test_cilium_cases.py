# Copyright (c) 2026 The inferops.locality authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rows of T-NET that the policy, the gates and the values decide: what others met with Cilium on such nodes, and what happens here.

The rows about endpoints that live while a node moves are a node's turn; those about NICs and balloons belong to DRA.
"""

from __future__ import annotations

from typing import Any, Dict, List

import pytest

from ansible_collections.inferops.locality.plugins.module_utils import cilium_gates, policy

PROFILE: Dict[str, str] = {
    "routing-mode": "native", "kube-proxy-replacement": "true", "enable-bpf-masquerade": "true", "enable-ipv4": "true", "enable-ipv6": "true",
}


def interface(driver: Any, size: Any) -> Dict[str, Any]:
    return {"driver": driver, "physical": driver is not None, "lower": [], "tso_max_size": size, "gso_ipv4_max_size": 65536}


def node(kernel: str = "6.12.57", netkit: bool = True, kvm: int = 0, vxlan: Any = (), **interfaces: Any) -> Dict[str, Any]:
    found = interfaces or {"eth0": interface("mlx5_core", 524280)}
    return {
        "kernel": kernel, "features": {"netkit": netkit}, "guests": {"vfio": [], "kvm": kvm},
        "network": {"uplinks": list(found), "interfaces": found, "vxlan": list(vxlan)},
    }


NETKIT = {"cilium.datapath_mode": "netkit"}
BOTH = {"cilium.big_tcp": ["ipv4", "ipv6"]}

# (row, what is asked, node, version, more of the ConfigMap, id of the finding, its severity, words of it)
ROWS: List[Any] = [
    (1, NETKIT, node("6.1.0-29-amd64"), "1.20.2", {}, "cilium.netkit_kernel", "error", "the kernel is 6.1.0-29-amd64, wanted 6.8 or newer"),
    (1, NETKIT, node("6.7.5"), "1.20.2", {}, "cilium.netkit_kernel", "error", "the kernel is 6.7.5, wanted 6.8 or newer"),
    (1, NETKIT, node(netkit=False), "1.20.2", {}, "cilium.netkit_not_built", "error", "built without CONFIG_NETKIT"),
    (3, NETKIT, node(), "1.20.2", {"enable-bpf-tproxy": "true"}, "cilium.netkit_tproxy", "error", "bpf.tproxy"),
    (3, NETKIT, node(kvm=2), "1.20.2", {}, "cilium.netkit_guests", "warning", "Kata Containers and KubeVirt"),
    (4, BOTH, node(vxlan=["cilium_vxlan"]), "1.19.402", {}, "cilium.version_vxlan", "error", "does not start where there is a VXLAN device"),
    (4, BOTH, node(), "1.19.4", {"enable-egress-gateway": "true"}, "cilium.version_vxlan", "error", "found the egress gateway's"),
    (4, BOTH, node(), "1.19.4", {}, "cilium.version_vxlan", "warning", "found none"),
    (5, {"cilium.big_tcp": ["ipv4"]}, node("6.8.0"), "1.20.2", {}, "cilium.big_tcp_one_family", "warning", "found ipv4 alone"),
    (5, {"cilium.big_tcp": ["ipv6"]}, node("6.8.0"), "1.20.2", {}, "cilium.big_tcp_one_family", "warning", "found ipv6 alone"),
    (6, BOTH, node(dummy0=interface(None, 524280)), "1.20.2", {}, "cilium.big_tcp_virtual", "warning", "dummy0 stands on no NIC"),
    (7, BOTH, node(eth0=interface("ena", 65536)), "1.20.2", {}, "cilium.big_tcp_device", "error", "eth0 (ena) takes packets up to 65536 bytes"),
]


@pytest.mark.parametrize(
    ("row", "wanted", "platform", "version", "config", "id", "severity", "words"), ROWS, ids=[f"T-NET-{case[0]}-{case[5]}" for case in ROWS],
)
def test_t_net(  # noqa: PLR0917
    row: int, wanted: Dict[str, Any], platform: Dict[str, Any], version: str, config: Dict[str, str], id: str, severity: str, words: str,
) -> None:
    cluster = cilium_gates.settings({"version": version, "config": {**PROFILE, **config}})
    found = [item for item in cilium_gates.check(wanted, platform, cluster) if item["id"] == id]
    assert [item["severity"] for item in found] == [severity], row
    assert words in found[0]["message"]
    assert found[0]["hint"]


def test_t_net_2_the_mode_that_flips_by_itself_cannot_be_asked_for() -> None:
    _checked, items = policy.check_policy({"network": {"datapath_mode": "auto"}})
    assert [item["message"] for item in items] == ["locality_policy.network.datapath_mode: found 'auto', wanted one of veth, netkit, netkit-l2, null"]
