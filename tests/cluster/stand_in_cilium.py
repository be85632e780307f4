# Copyright (c) 2026 The inferops.locality authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What of Cilium an API server has, without Cilium: the kind CiliumNodeConfig, the agents' ConfigMap, and a DaemonSet of the agents' name whose containers do
not exist. Nothing here moves a packet; what "the agent" says of itself are answers that were recorded or written by us.

``played`` lets two stand-ins act on it: one renders a HelmChartConfig to the ConfigMap, as RKE2's helm controller does with the chart, by our own reading of
the chart; one reads the configuration of a node when its agent's pod is made, as the agent does, and records an answer that says so.
"""

from __future__ import annotations

import threading
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Callable, Dict, Iterator, List, Mapping, Optional

import yaml

from ansible_collections.inferops.locality.plugins.module_utils import cilium_node, cilium_values
from ansible_collections.inferops.locality.plugins.module_utils.probe import PROBE_DIR, Answer
from ansible_collections.inferops.locality.tests.unit import cilium_answers
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


# -- what acts on it


def _spec_values(config: Optional[Mapping[str, Any]]) -> Dict[str, Any]:
    spec = (config or {}).get("spec") or {}
    return cilium_values.merge(yaml.safe_load(spec.get("valuesContent") or "{}") or {}, spec.get("values") or {})


def render(cluster: Cluster) -> None:
    """What RKE2's helm controller does once it has seen a HelmChartConfig: the ConfigMap is as the chart's values say."""
    configs = cluster.api.get("/apis/helm.cattle.io/v1/namespaces/kube-system/helmchartconfigs")["items"]
    data = cilium_values.config_of(_spec_values(configs[0] if configs else None), "bundled")
    found = cluster.api.get(CONFIG_MAP)["data"]
    if found != data:
        cluster.api.patch(CONFIG_MAP, {"data": {**dict.fromkeys(found), **data}})


def record_agents(cluster: Cluster, roots: Mapping[str, Path], seen: Dict[str, str]) -> None:
    """What each agent says that has started since: that it does what it was configured with. :param seen: its pod of each node."""
    for node, root in roots.items():
        uids = agents(cluster, node)
        if not uids or uids == [seen.get(node)]:
            continue
        settings = cilium_node.merged(cluster.api.get(CONFIG_MAP)["data"], list(objects(cluster).values()), cluster.node(node))
        status = cilium_answers.doing({knob: item["value"] for knob, item in cilium_node.configured(settings).items()})
        folder = root / PROBE_DIR[1:]
        folder.mkdir(parents=True, exist_ok=True)
        for name, out in (("cilium-agents", cilium_answers.containers()), (f"cilium-status-json.{cilium_answers.AGENT}", cilium_answers.text(status))):
            (folder / f"{name}.json").write_text(Answer(("crictl",), 0, out, "").record(), encoding="utf-8")
        seen[node] = uids[0]


@contextmanager
def played(cluster: Cluster, roots: Mapping[str, Path]) -> Iterator[None]:
    """Both stand-ins at work, for nodes whose files are below these roots."""
    seen: Dict[str, str] = {}
    steps: List[Callable[[], None]] = [lambda: render(cluster), lambda: record_agents(cluster, roots, seen)]
    ended = threading.Event()
    trouble: List[BaseException] = []

    def work() -> None:
        while not ended.wait(0.3):
            try:
                for step in steps:
                    step()
            except Exception as error:
                # Objects change while they are looked at; what lasts is told at the end.
                trouble[:] = [error]
            else:
                trouble.clear()

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    try:
        until("every agent has said what it does", lambda: set(seen) == set(roots))
        yield
    finally:
        ended.set()
        thread.join()
    assert not trouble, trouble
