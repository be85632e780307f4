# Copyright (c) 2026 The inferops.locality authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""T-NET: what others met with Cilium, DRA and NRI on such nodes, and what happens here.

Row 2 is a node's turn too (``tests/cluster/test_cilium_role.py``: a node with pods of the old mode is refused by name). What cannot be had here is said at its
row: there is no DRANET, no balloon policy and no containerd to ask.
"""

from __future__ import annotations

import copy
import re
from pathlib import Path
from typing import Any, Dict, List

import pytest

from ansible_collections.inferops.locality.plugins.module_utils import cilium_gates, cpulist, plan, policy
from ansible_collections.inferops.locality.tests.unit import strategies
from ansible_collections.inferops.locality.tests.unit.strategies import regular

TOP = Path(__file__).resolve().parents[4]

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


def test_t_net_8_a_nic_that_a_pod_has_keeps_its_place_and_is_the_same_when_it_is_back() -> None:
    """Whether DRANET gives it back is told by nobody here. One that is away has no interface in the node's own namespace, and nothing is asked of it."""
    there = strategies.topology(regular(cores=4))
    there["devices"] = [{
        "address": "0000:18:00.0", "kind": "nic", "class": "020000", "vendor": "15b3", "device": "1021", "driver": "mlx5_core", "numa_node": 0,
        "pcie_root": "0000:17", "path": [], "link": None, "interfaces": [{"name": "ens1", "mac": "02:00:00:00:00:01", "speed_mbps": 400000, "mtu": 9000}],
        "rdma": ["mlx5_0"], "physfn": None, "iommu_group": None, "acs": None,
    }]
    away = copy.deepcopy(there)
    away["devices"][0]["interfaces"] = []
    wish = {"irq": {"devices": ["nic"], "queues": 2}}
    made = [plan.make_plan(found, strategies.PLATFORM, wish) for found in (there, away, there)]
    assert [item["numa_nodes"][0]["nics"] for item in made] == [["0000:18:00.0"]] * 3
    assert [sorted(item["knobs"]["irq.affinity"]) for item in made] == [["0000:18:00.0"]] * 3
    assert [sorted(item["knobs"].get("nic.queues") or {}) for item in made] == [["0000:18:00.0"], [], ["0000:18:00.0"]]
    assert made[0] == made[2] and not [item for item in made[1]["findings"] if item["severity"] == "error" and "nic" in item["id"]]


def test_t_net_9_no_balloons_are_brought_so_none_are_left_pinned() -> None:
    """A policy that asks for them is refused, so that nobody changes or removes what this collection brought. No plugin is here whose removal could be seen."""
    _checked, items = policy.check_policy({"cpu_policy": "nri-balloons"})
    assert [item["severity"] for item in items] == ["error"] and "cpu_policy" in items[0]["message"]


@pytest.mark.parametrize("numbering", ["adjacent", "siblings-last", "interleaved"])
def test_t_net_10_cpus_for_pods_are_whole_cores_whatever_their_numbers(numbering: str) -> None:
    machine = regular(cores=4, numbering=numbering)
    made = plan.make_plan(strategies.topology(machine), strategies.PLATFORM, {})
    isolated = cpulist.from_list(made["isolated_cpus"])
    whole = [set(core.cpus) for core in machine.cores if set(core.cpus) <= isolated]
    assert set().union(*whole) == isolated and len(whole) == made["capacity"]["whole_cores"] == 6


@pytest.mark.parametrize("numbering", ["adjacent", "siblings-last", "interleaved"])
def test_t_net_11_no_interrupt_is_placed_on_cpus_of_pods(numbering: str) -> None:
    made = plan.make_plan(strategies.topology(regular(cores=4, numbering=numbering)), strategies.PLATFORM, {})
    isolated = cpulist.from_list(made["isolated_cpus"])
    lists = [made["knobs"]["irq.default_affinity"], *made["knobs"]["irq.affinity"].values()]
    assert isolated and not [text for text in lists if cpulist.from_list(text) & isolated]


def test_t_net_12_nothing_here_writes_containerds_configuration() -> None:
    """So no time-out of NRI can stand at a wrong level of it by us. RKE2 makes that file, and no containerd is here whose dump could be read; whether NRI is on
    is told by its socket (role dranet)."""
    files = [path for folder in ("roles", "playbooks", "plugins") for path in (TOP / folder).rglob("*") if path.suffix in (".yml", ".py", ".j2")]
    told = {path.relative_to(TOP).as_posix(): path.read_text(encoding="utf-8") for path in files}
    assert len(told) > 200
    assert [name for name, text in told.items() if re.search(r"containerd/config|config(-v3)?\.toml", text)] == []
