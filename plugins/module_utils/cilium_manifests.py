# Copyright (c) 2026 The inferops.locality authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Cilium for a cluster that is still to be made: files of RKE2 on its nodes, before the first start.

RKE2 applies what lies in ``server/manifests`` of its data-dir, in each start of a server anew (k3s ``pkg/deploy``): right for the first one, and in the way of
every later change. So the HelmChartConfig lies there until the cluster is made, and not longer; the object stays when its file goes.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple

from ansible_collections.inferops.locality.plugins.module_utils import cilium_cluster, cilium_gates, cilium_values
from ansible_collections.inferops.locality.plugins.module_utils import findings as findings_m
from ansible_collections.inferops.locality.plugins.module_utils.policy import shown
from ansible_collections.inferops.locality.plugins.module_utils.rke2_config import Rke2Config
from ansible_collections.inferops.locality.plugins.module_utils.sysroot import SysRoot

ROLES = ("server", "agent")
# RKE2 makes an object of each file's name, which may have no underscore.
MANIFEST = "inferops-locality-cilium.yaml"
# Not named as the drop-ins that record=none takes away: a server that starts without it would bring another CNI to its cluster.
DROP_IN = "80-inferops-locality-cilium.yaml"
DATA_DIR = "/var/lib/rancher/rke2"
_DEFAULT_CIDR = "10.42.0.0/16"


@dataclass(frozen=True)
class Wish:
    """What the cluster is to be. :ivar role: ``server`` or ``agent``. :ivar nodes: how many it will have. :ivar api: where nodes reach the API server."""

    role: str
    mode: str
    network: Mapping[str, Any]
    values: Mapping[str, Any]
    version: str
    nodes: int
    api: Tuple[str, int] = ("localhost", 6443)


@dataclass
class Node:
    """What a node has. :ivar started: RKE2 has been started there. :ivar manifests: text of each file in ``server/manifests``, by its path."""

    config: Rke2Config
    started: bool = False
    manifests: Dict[str, str] = field(default_factory=dict)

    @property
    def data_dir(self) -> str:
        given = self.config.values.get("data-dir")
        return str(given) if isinstance(given, str) and given else DATA_DIR

    @property
    def manifest(self) -> str:
        return f"{self.data_dir}/server/manifests/{MANIFEST}"

    @property
    def drop_in(self) -> str:
        return f"{self.config.path}.d/{DROP_IN}"


def read(sysroot: SysRoot, config: Rke2Config) -> Node:
    """Look at the files of a node."""
    node = Node(config)
    server = f"{node.data_dir}/server"
    node.started = any(sysroot.exists(f"{server}/{name}") for name in ("db", "token", "tls")) or sysroot.exists(f"{node.data_dir}/agent/kubelet.kubeconfig")
    for name in sysroot.listdir(f"{server}/manifests"):
        text = sysroot.text(f"{server}/manifests/{name}") if name.endswith((".yaml", ".yml", ".json")) else None
        if text is not None:
            node.manifests[f"{server}/manifests/{name}"] = text
    return node


@dataclass(frozen=True)
class Decision:
    """:ivar files: path to the text that is to be there, None for no file. :ivar values: of the chart."""

    files: Dict[str, Optional[str]]
    values: Dict[str, Any]
    findings: List[Dict[str, str]]


def decide(node: Node, wish: Wish, absent: bool = False) -> Decision:
    """The files, and all that stands against them. :param absent: take them away again, which is for a cluster that was not made."""
    found = findings_m.Findings()
    drop_in = {} if absent else _settings(node, wish, found)
    values: Dict[str, Any] = {}
    files: Dict[str, Optional[str]] = {node.drop_in: "".join(f"{key}: {value}\n" for key, value in drop_in.items()) or None}
    if wish.role == "server":
        files[node.manifest] = None
        if wish.mode == "bundled" and not absent and not node.started:
            values, text = _chart(node, wish, found)
            files[node.manifest] = text
            for path, other in node.manifests.items():
                if path != node.manifest and re.search(r"\bHelmChartConfig\b", other) and re.search(rf"\bname: *[\"']?{cilium_cluster.NAME}\b", other):
                    found.error(
                        "cilium.foreign_manifest", f"{path}: is a HelmChartConfig {cilium_cluster.NAME} too, and RKE2 would apply both",
                        "take its values into values of locality_cilium, and the file away",
                    )
    return Decision(files, values, found.sorted())


def against_start(node: Node, changed: Sequence[str]) -> List[Dict[str, str]]:
    """What forbids these changes: the CNI of a cluster that lives is not changed. That the manifest goes then is no such change."""
    found = findings_m.Findings()
    paths = [path for path in changed if path != node.manifest] if node.started else []
    if paths:
        found.error(
            "cilium.started", f"RKE2 has been started on this node, so {', '.join(paths)} would change the CNI or the kube-proxy of a cluster that lives",
            "build a new cluster; site.yml, or tasks_from: cluster, gives the chart of one that lives its values",
        )
    return found.items


def _settings(node: Node, wish: Wish, found: findings_m.Findings) -> Dict[str, str]:
    """Keys of RKE2's configuration that this node lacks."""
    wanted: Dict[str, str] = {"disable-kube-proxy": "true"}
    if wish.role == "server":
        wanted["cni"] = "cilium" if wish.mode == "bundled" else "none"
    result: Dict[str, str] = {}
    for key, value in sorted(wanted.items()):
        if not node.config.complete:
            continue
        given, source = node.config.values.get(key), str(node.config.sources.get(key) or "").rpartition(":")[0]
        words = given if isinstance(given, list) else [] if given in (None, "") else [str(given)]
        if source == node.drop_in or not words:
            result[key] = value
        elif [word.lower() for word in words if word != "multus"] != [value]:
            found.error(
                "cilium.rke2_setting", f"{key}: found {', '.join(words)} ({node.config.sources.get(key)}), wanted {value}",
                f"take it out of there, or set {value}; it has to be the same on all {'servers' if key == 'cni' else 'nodes'} before the cluster is made",
            )
    if not node.config.complete:
        problems = "; ".join(f"{item['file']}: {item['reason']}" for item in node.config.problems)
        found.error("cilium.rke2_unread", f"RKE2's configuration was not read whole: {problems or 'a file could not be read'}", "mend it")
    return result


def _cidrs(config: Rke2Config) -> List[str]:
    given = config.values.get("cluster-cidr")
    texts = given if isinstance(given, list) else [str(given)] if given else []
    return [part.strip() for text in texts for part in text.split(",") if part.strip()] or [_DEFAULT_CIDR]


def _chart(node: Node, wish: Wish, found: findings_m.Findings) -> Tuple[Dict[str, Any], Optional[str]]:
    """Values of RKE2's chart and the manifest that has them."""
    own, lacking = cilium_values.profile(wish.network, wish.mode, _cidrs(node.config), wish.nodes, wish.api)
    found.extend(lacking)
    values = cilium_values.merge(own, wish.values)
    if not cilium_gates.version(wish.version):
        found.error(
            "cilium.no_version", f"the version of RKE2's Cilium chart is not known (found {shown(wish.version) if wish.version else 'none'})",
            "say it: version of locality_cilium, such as 1.19.601 of RKE2 v1.36.3",
        )
    else:
        found.extend(cilium_values.check_values(values, wish.version, wish.mode, wish.nodes))
    return values, manifest(values, cilium_values.without_cluster_values(own))


def manifest(values: Mapping[str, Any], profile: Mapping[str, Any]) -> str:
    """The HelmChartConfig as a file of YAML, its values as JSON in it, since nodes have no YAML library. It is noted as written by this collection."""
    text = json.dumps(values, indent=2, sort_keys=True)
    spec = {"failurePolicy": "abort", "valuesContent": text}
    noted = json.dumps({"before": None, "written": cilium_cluster.digest(spec), "profile": profile}, sort_keys=True).replace("'", "''")
    lines = "".join(f"    {line}\n" for line in text.splitlines())
    return (
        "# Written by inferops.locality for the first start of this cluster.\n"
        "apiVersion: helm.cattle.io/v1\nkind: HelmChartConfig\nmetadata:\n"
        f"  name: {cilium_cluster.NAME}\n  namespace: {cilium_cluster.NAMESPACE}\n  annotations:\n    {cilium_cluster.NOTE}: '{noted}'\n"
        f"spec:\n  failurePolicy: abort\n  valuesContent: |-\n{lines}"
    )


__all__ = ("DROP_IN", "MANIFEST", "ROLES", "Decision", "Node", "Wish", "against_start", "decide", "manifest", "read")
