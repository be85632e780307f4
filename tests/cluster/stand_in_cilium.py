# Copyright (c) 2026 The inferops.locality authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What of Cilium an API server has, without Cilium: the kind CiliumNodeConfig, the agents' ConfigMap, and a DaemonSet of the agents' name whose containers do
not exist. Nothing here reads a configuration or moves a packet; what "the agent" says of itself are answers that were recorded or written by us.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Dict, List, Optional

from turns import Cluster, until

OBJECTS = "/apis/cilium.io/v2/namespaces/kube-system/ciliumnodeconfigs"
DAEMON_SETS = "/apis/apps/v1/namespaces/kube-system/daemonsets"
CONFIG_MAP = "/api/v1/namespaces/kube-system/configmaps/cilium-config"
CONFIG = {
    "datapath-mode": "veth", "enable-ipv4-big-tcp": "false", "enable-ipv6-big-tcp": "false", "bpf-lb-acceleration": "disabled", "routing-mode": "native",
    "enable-bpf-clock-probe": "true", "bpf-map-dynamic-size-ratio": "0.0025", "bpf-distributed-lru": "true", "enable-bandwidth-manager": "true",
    "enable-bbr": "true",
}


def install(cluster: Cluster, definitions: Path, nodes: int) -> None:
    """The kind, as the reference has it, the configuration and agents on so many nodes."""
    cluster.plane.kubectl("apply", "-f", str(definitions / "cilium.io_ciliumnodeconfigs.yaml"))
    cluster.plane.kubectl("wait", "--for=condition=Established", "crd/ciliumnodeconfigs.cilium.io", "--timeout=60s")
    until("the kind is served", lambda: cluster.exists(OBJECTS))
    cluster.api.post("/api/v1/namespaces/kube-system/configmaps", {"metadata": {"name": "cilium-config"}, "data": CONFIG})
    cluster.api.post(DAEMON_SETS, daemon_set())
    until("an agent is ready on each node", lambda: len(agents(cluster)) == nodes)


def daemon_set(command: Optional[List[str]] = None) -> Dict[str, Any]:
    """As the chart renders it, with what matters here."""
    return {
        "metadata": {"name": "cilium", "labels": {"k8s-app": "cilium"}},
        "spec": {
            "selector": {"matchLabels": {"k8s-app": "cilium"}}, "updateStrategy": {"type": "OnDelete"},
            "template": {"metadata": {"labels": {"k8s-app": "cilium"}}, "spec": {
                "hostNetwork": True, "tolerations": [{"operator": "Exists"}], "terminationGracePeriodSeconds": 1,
                "initContainers": [{"name": "config", "image": "none", "command": command or ["cilium-dbg", "build-config"]}],
                "containers": [{"name": "cilium-agent", "image": "none"}],
            }},
        },
    }


def agents(cluster: Cluster, node: str = "") -> List[str]:
    """UIDs of the agents that run."""
    return [pod["metadata"]["uid"] for pod in cluster.pods("kube-system", node) if pod["metadata"].get("labels", {}).get("k8s-app") == "cilium"]


def objects(cluster: Cluster) -> Dict[str, Dict[str, Any]]:
    """CiliumNodeConfigs by name."""
    return {item["metadata"]["name"]: item for item in cluster.api.get(OBJECTS)["items"]}


def forget(cluster: Cluster, *nodes: str) -> None:
    """Nodes and their cluster as they were installed."""
    for name in objects(cluster):
        cluster.api.delete(f"{OBJECTS}/{name}")
    for name in nodes:
        taints = [taint for taint in cluster.node(name)["spec"].get("taints", []) if taint["key"] != "locality.inferops.io/network"]
        cluster.api.patch(f"/api/v1/nodes/{name}", {"metadata": {"labels": {"locality.inferops.io/cilium": None}}, "spec": {"taints": taints or None}})
