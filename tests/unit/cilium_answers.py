# Copyright (c) 2026 The inferops.locality authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Answers of a Cilium agent, written by us in the form that its API and its printer have: one that does what was asked, one that fell back without an error.

There is no agent here; tests with these are named after what they are, recorded answers.
"""

from __future__ import annotations

import copy
import json
from typing import Any

GOOD: dict[str, Any] = {
    "attach-mode": "TCX",
    "bandwidth-manager": {"congestionControl": "bbr", "devices": ["ens10f0np0"], "enabled": True},
    "bpf-maps": {"dynamic-size-ratio": 0.0025, "maps": [{"name": "NAT", "size": 9713000}]},
    "cilium": {"msg": "1.20.1 (v1.20.1-00000000)", "state": "Ok"},
    "clock-source": {"hertz": 1000, "mode": "jiffies"},
    "cni-chaining": {"mode": "none"},
    "configured-datapath-mode": "netkit",
    "datapath-mode": "netkit",
    "encryption": {"mode": "Disabled"},
    "ipv4-big-tcp": {"enabled": True, "maxGRO": 196608, "maxGSO": 196608},
    "ipv6-big-tcp": {},
    "kube-proxy-replacement": {
        "deviceList": [{"ip": ["192.0.2.11", "fe80::1"], "name": "ens10f0np0"}], "devices": ["ens10f0np0"], "directRoutingDevice": "ens10f0np0",
        "features": {"nodePort": {"acceleration": "Native", "algorithm": "Random", "enabled": True, "mode": "SNAT"}}, "mode": "True",
    },
    "masquerading": {"enabled": True, "enabledProtocols": {"ipv4": True}, "mode": "BPF", "snat-exclusion-cidr-v4": "10.42.0.0/16"},
    "routing": {"inter-host-routing-mode": "Native", "intra-host-routing-mode": "BPF"},
}

FALLEN_BACK: dict[str, Any] = {
    **copy.deepcopy(GOOD),
    "attach-mode": "Legacy TC",
    "bandwidth-manager": {"devices": None},
    "bpf-maps": {"dynamic-size-ratio": 0.08},
    "clock-source": {"mode": "ktime"},
    "cni-chaining": {"mode": "portmap"},
    "configured-datapath-mode": "auto",
    "datapath-mode": "veth",
    "ipv4-big-tcp": {"enabled": True, "maxGRO": 65536, "maxGSO": 65536},
    "kube-proxy-replacement": {"deviceList": None, "devices": None, "features": {"nodePort": {}}, "mode": "False"},
    "masquerading": {"enabled": True, "enabledProtocols": {"ipv4": True}, "mode": "iptables"},
    "routing": {"inter-host-routing-mode": "Tunnel", "intra-host-routing-mode": "Legacy", "tunnel-protocol": "vxlan"},
}

# What GOOD does, as a plan has it.
KNOBS: dict[str, Any] = {
    "cilium.datapath_mode": "netkit", "cilium.big_tcp": ["ipv4"], "cilium.devices": ["ens10f0np0"], "cilium.xdp": "native",
    "cilium.bpf_maps": {"distributed_lru": True, "ratio": 0.0025}, "cilium.clock": True, "cilium.bandwidth_manager": {"enabled": True, "bbr": True},
    "cilium.routing": "native", "cilium.kube_proxy_replacement": True, "cilium.host_routing": "bpf", "cilium.masquerade": "bpf",
}

_XDP = {"disabled": "Disabled", "native": "Native", "best-effort": "Best-Effort"}


def doing(knobs: dict[str, Any]) -> dict[str, Any]:
    """The status of an agent that does what these knobs say, as far as one agent differs from the other."""
    families = {f"{family}-big-tcp": {"enabled": True, "maxGRO": 196608, "maxGSO": 196608} if family in knobs["cilium.big_tcp"] else {}
                for family in ("ipv4", "ipv6")}
    manager = knobs["cilium.bandwidth_manager"]
    status = {
        **copy.deepcopy(GOOD), **families, "datapath-mode": knobs["cilium.datapath_mode"], "configured-datapath-mode": knobs["cilium.datapath_mode"],
        "clock-source": GOOD["clock-source"] if knobs["cilium.clock"] else {"mode": "ktime"},
        "bandwidth-manager": {**GOOD["bandwidth-manager"], "congestionControl": "bbr" if manager["bbr"] else "cubic"} if manager["enabled"] else {},
        "bpf-maps": {**GOOD["bpf-maps"], "dynamic-size-ratio": knobs["cilium.bpf_maps"]["ratio"]},
    }
    status["kube-proxy-replacement"]["features"]["nodePort"]["acceleration"] = _XDP[knobs["cilium.xdp"]]
    return status


TEXT = """\
KVStore:                 Disabled{blanks}
Kubernetes:              Ok         1.36 (v1.36.3+rke2r1) [linux/amd64]
KubeProxyReplacement:    True   [ens10f0np0   192.0.2.11 fe80::1 (Direct Routing)]
Host firewall:           Disabled
CNI Chaining:            none
Cilium:                  Ok   1.20.1 (v1.20.1-00000000)
IPv4 BIG TCP:            Enabled   [196608]
IPv6 BIG TCP:            Disabled
BandwidthManager:        EDT with BPF [BBR] [ens10f0np0]
Routing:                 Network: Native   Host: BPF
Attach Mode:             TCX
Device Mode:             netkit
Masquerading:            BPF   [ens10f0np0]   10.42.0.0/16  [IPv4: Enabled, IPv6: Disabled]
Clock Source for BPF:    jiffies   [1000 Hz]
Controller Status:       40/40 healthy
  Name                   Last success   Last error   Count   Message
  Device Mode: veth      5s ago         never        0       no error
KubeProxyReplacement Details:
  Status:               True
  Devices:              ens10f0np0   192.0.2.11 fe80::1 (Direct Routing)
  Mode:                 SNAT
  XDP Acceleration:     Native
  Services:
  - ClusterIP:      Enabled
BPF Maps:   dynamic sizing: on (ratio: 0.002500)
  Name                          Size
  NAT                           9713000
Encryption:                               Disabled{blanks}
""".replace("{blanks}", 8 * " ")


def text(data: dict[str, Any]) -> str:
    """As ``cilium-dbg status -o json`` prints it."""
    return json.dumps(data, indent=2) + "\n"


def containers(*more: dict[str, Any]) -> str:
    """As ``crictl ps --output json`` prints it: an agent that ends beside one that runs, and what else a test has."""
    labels = {"io.kubernetes.container.name": "cilium-agent", "io.kubernetes.pod.namespace": "kube-system", "io.kubernetes.pod.name": "cilium-7x2kq"}
    return json.dumps({"containers": [
        {"id": "0" * 64, "state": "CONTAINER_EXITED", "createdAt": "1790000000000000009", "labels": {**labels, "io.kubernetes.pod.uid": "gone"}},
        {"id": "1f" * 32, "state": "CONTAINER_RUNNING", "createdAt": "1780000000000000001", "labels": {**labels, "io.kubernetes.pod.uid": "uid-1"}},
        *more,
    ]})


AGENT = "1f" * 32
