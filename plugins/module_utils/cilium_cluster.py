# Copyright (c) 2026 The inferops.locality authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which Cilium a cluster has, and what its chart is to be given. No I/O: the objects of the API come from the caller.

RKE2 installs its own chart by a HelmChart named rke2-cilium, which a HelmChartConfig of the same name adds values to. With ``cni: none`` somebody else installs
Cilium's own chart. The one is not changed into the other, nor any CNI into another, while a cluster lives: RKE2 wants a new cluster for that.
"""

from __future__ import annotations

import hashlib
import ipaddress
import json
import re
from dataclasses import dataclass, field
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence, Tuple

from ansible_collections.inferops.locality.plugins.module_utils import cilium_gates, cilium_node, cilium_values
from ansible_collections.inferops.locality.plugins.module_utils import findings as findings_m
from ansible_collections.inferops.locality.plugins.module_utils.cilium_node import name_of
from ansible_collections.inferops.locality.plugins.module_utils.policy import MAP_RATIO

NAMESPACE = "kube-system"
NAME = "rke2-cilium"
# What this collection found before it wrote, a hash of what it wrote, and what of it the cluster was made with: so that it can be taken back, nobody's change
# is lost, and pods keep the network that they were made on. An annotation of the HelmChartConfig; for a release of helm, which has no such place, a Secret,
# since values may have passwords.
NOTE = "locality.inferops.io/cilium-values"
NOTE_SECRET = "inferops-locality-cilium"
# What RKE2 writes to objects that it makes from files of its manifests (rancher/wrangler, apply): the file's name without its ending.
_FROM_FILE = "objectset.rio.cattle.io/owner-name"
# Knobs that are the cluster's, and may change under pods.
_CLUSTER_KNOBS: Tuple[str, ...] = tuple(knob for knob in cilium_node.KEYS if knob not in cilium_node.NODE_KEYS)
# HelmCharts of RKE2 that are a CNI (multus stands beside one).
_BUNDLED_CNI: Tuple[str, ...] = ("rke2-cilium", "rke2-canal", "rke2-calico", "rke2-flannel")
_RKE2_CIDR = "10.42.0.0/16"

Load = Callable[[str], Any]


@dataclass
class Found:
    """What the API server says of a cluster's CNI.

    :ivar bundled: the HelmCharts of RKE2 that are a CNI. :ivar release: name of the helm release that Cilium's DaemonSet is of, empty if there is no Cilium.
    :ivar version: of Cilium, empty if it is not known. :ivar pods: how many run on the pod network. :ivar kube_proxies: how many run.
    :ivar values: the operator's own values of the bundled chart. :ivar helm_config: the HelmChartConfig, if there is one. :ivar noted: what this collection
        noted when it gave the chart values, as :func:`note` returns it.
    """

    bundled: List[str] = field(default_factory=list)
    release: str = ""
    there: bool = False
    version: str = ""
    config: Dict[str, str] = field(default_factory=dict)
    stored_versions: Tuple[str, ...] = ()
    cidrs: List[str] = field(default_factory=list)
    pod_cidrs: List[str] = field(default_factory=list)
    nodes: int = 0
    pods: int = 0
    kube_proxies: int = 0
    values: Dict[str, Any] = field(default_factory=dict)
    helm_config: Optional[Mapping[str, Any]] = None
    noted: Optional[Mapping[str, Any]] = None

    @property
    def profile(self) -> Dict[str, Any]:
        """Values of ours that the cluster was made with; none if its network is not of ours."""
        return dict((self.noted or {}).get("profile") or {})

    @property
    def live(self) -> bool:
        """Whether pods would notice."""
        return self.there and self.pods > 0


def _spec(item: Mapping[str, Any]) -> Mapping[str, Any]:
    return item.get("spec") or {}


def _annotations(item: Mapping[str, Any]) -> Mapping[str, Any]:
    return (item.get("metadata") or {}).get("annotations") or {}


def _ranges(text: Any) -> List[str]:
    return [part.strip() for part in str(text or "").split(",") if part.strip()]


def _cidrs(chart: Optional[Mapping[str, Any]], nodes: Sequence[Mapping[str, Any]]) -> List[str]:
    """The cluster's ranges for pods: as RKE2 gives them to its chart, or was told on its command line; its own default where it was not."""
    given = _spec(chart or {}).get("set") or {}
    families = [_ranges(given.get(f"global.clusterCIDR{family}")) for family in ("v4", "v6")]
    if any(families):
        return [cidr for part in families for cidr in part]
    if given.get("global.clusterCIDR"):
        return _ranges(given["global.clusterCIDR"])
    for node in nodes:
        try:
            words = [str(word) for word in json.loads(_annotations(node).get("rke2.io/node-args") or "[]")]
        except ValueError:
            continue
        for word, after in zip(words, [*words[1:], ""]):
            if word == "--cluster-cidr":
                return _ranges(after)
            if word.startswith("--cluster-cidr="):
                return _ranges(word.partition("=")[2])
    return [_RKE2_CIDR] if nodes else []


def _version(daemon_set: Optional[Mapping[str, Any]], chart: Optional[Mapping[str, Any]]) -> str:
    """Of the agents' image, else of the bundled chart."""
    containers = ((_spec(daemon_set or {}).get("template") or {}).get("spec") or {}).get("containers") or []
    for container in containers:
        match = re.search(r":v?(\d+\.\d+\.\d+[^@]*)", str(container.get("image"))) if container.get("name") == "cilium-agent" else None
        if match:
            return match.group(1)
    for text in (_annotations(chart or {}).get("helm.cattle.io/chart-url"), _spec(chart or {}).get("chart"), _spec(chart or {}).get("version")):
        match = re.search(r"\d+\.\d+\.\d+", str(text or ""))
        if match:
            return match.group()
    return ""


def found(objects: Mapping[str, Any], load: Load) -> Found:
    """What these objects say.

    :param objects: ``charts``, ``nodes``, ``pods`` (lists), ``helm_config``, ``config_map``, ``daemon_set``, ``definition`` (objects, or None where there is
        none).
    :param load: reads YAML; the operator's values are a text of it. :raises ValueError: they cannot be read.
    """
    charts = {name_of(item): item for item in objects["charts"]}
    chart, daemon_set, config = charts.get(NAME), objects["daemon_set"], objects["helm_config"]
    network = [item for item in objects["pods"] if not _spec(item).get("hostNetwork") and (item.get("status") or {}).get("phase") == "Running"]
    return Found(
        bundled=[name for name in _BUNDLED_CNI if name in charts],
        release=str(_annotations(daemon_set or {}).get("meta.helm.sh/release-name") or ""),
        there=daemon_set is not None,
        version=_version(daemon_set, chart),
        config={str(key): str(value) for key, value in ((objects["config_map"] or {}).get("data") or {}).items()},
        stored_versions=tuple(((objects["definition"] or {}).get("status") or {}).get("storedVersions") or ()),
        cidrs=_cidrs(chart, objects["nodes"]),
        pod_cidrs=[cidr for node in objects["nodes"] for cidr in _spec(node).get("podCIDRs") or ()],
        nodes=len(objects["nodes"]),
        pods=len(network),
        kube_proxies=sum(
            1 for item in objects["pods"]
            if (item.get("metadata") or {}).get("namespace") == NAMESPACE and re.match(r"kube-proxy-", name_of(item)) and "Running" == (
                item.get("status") or {}).get("phase")
        ),
        values=own_values(config, load),
        helm_config=config,
        noted=note(config),
    )


def note(config: Optional[Mapping[str, Any]]) -> Optional[Dict[str, Any]]:
    """What this collection noted in a HelmChartConfig; None where it did not write it.

    ``{before, written, profile}``: the spec that stood there or None, a hash of the one that was written, the values that the cluster was made with.
    """
    return read_note(_annotations(config or {}).get(NOTE))


def read_note(text: Optional[str]) -> Optional[Dict[str, Any]]:
    """The same from its text. For a release of helm ``before`` are values, None where there was none, and ``since`` is a hash of those that were replaced."""
    try:
        noted = json.loads(text or "null")
    except ValueError:
        return None
    return noted if isinstance(noted, dict) and {"before", "written"} <= set(noted) else None


def digest(spec: Mapping[str, Any]) -> str:
    """A hash of what a HelmChartConfig says, or of the values of a release."""
    return hashlib.sha256(json.dumps(spec, sort_keys=True).encode()).hexdigest()[:16]


def own_values(config: Optional[Mapping[str, Any]], load: Load) -> Dict[str, Any]:
    """The operator's values in a HelmChartConfig: what stood there before this collection wrote, if it did.

    :raises ValueError: they are no YAML, or no mapping.
    """
    noted = note(config)
    spec = (noted["before"] or {}) if noted else _spec(config or {})
    try:
        read = load(spec.get("valuesContent") or "") or {}
    except Exception as error:
        raise ValueError(f"HelmChartConfig {NAME}: valuesContent is no YAML: {error}") from error
    if not isinstance(read, dict):
        raise ValueError(f"HelmChartConfig {NAME}: valuesContent is no mapping")
    return cilium_values.merge(read, spec.get("values") or {})


def config_spec(config: Optional[Mapping[str, Any]], text: str) -> Dict[str, Any]:
    """The spec of the HelmChartConfig with these values. A failed upgrade is left as it is: RKE2's default, reinstall, takes the CNI away first."""
    noted = note(config)
    before = dict((noted["before"] or {}) if noted else _spec(config or {}))
    before.pop("values", None)
    return {**before, "failurePolicy": "abort", "valuesContent": text}


@dataclass(frozen=True)
class Decision:
    """What a chart is to be given, and what stands against it.

    :ivar mode: whose chart. :ivar helm: helm may be asked for its release, and given values. :ivar profile: the part of the values that a cluster is made with.
    """

    mode: str
    helm: bool
    version: str
    live: bool
    values: Dict[str, Any]
    findings: List[Dict[str, str]]
    profile: Dict[str, Any] = field(default_factory=dict)


def decide(  # noqa: PLR0917
    cluster: Found, mode: Optional[str], network: Mapping[str, Any], values: Mapping[str, Any], version: Optional[str], api: Tuple[str, int],
    current: Optional[Mapping[str, Any]] = None,
) -> Decision:
    """Values for the chart of a cluster, and everything that forbids to give them to it.

    :param mode: ``bundled``, ``helm`` or None for what the cluster has. :param network: ``network`` of a checked policy.
    :param values: more of the operator's, which win. :param version: of the chart; None for the one that runs.
    :param api: where nodes reach the API server. :param current: values of the helm release as it is, which nothing but helm knows.
    """
    found = findings_m.Findings()
    chosen = mode or ("bundled" if NAME in cluster.bundled else "helm")
    _whose(cluster, chosen, found)
    other = bool(found.items)
    text = version or cluster.version
    if not cilium_gates.version(text):
        found.error("cilium.no_version", f"the version of Cilium's chart is not known (found {text or 'none'})", "say it: cilium_version")
    if chosen == "helm" and cluster.there and current is None:
        found.error("cilium.no_current_values", "the values of the helm release are not known, so what would change cannot be told", "give them as current")
    base = cluster.values if chosen == "bundled" else _before(cluster, current)
    profile = cluster.profile
    if cluster.live:
        own = cilium_values.merge(profile, cilium_values.cluster_values(network), {"updateStrategy": {"type": "OnDelete"}})
    else:
        own, lacking = cilium_values.profile(network, chosen, cluster.cidrs, cluster.nodes, api)
        profile = cilium_values.without_cluster_values(own)
        found.extend(lacking)
        _ranges_fit(cluster, found)
    made = cilium_values.merge(base, own, values)
    if cilium_gates.version(text):
        found.extend(cilium_values.check_values(made, text, chosen, cluster.nodes or None))
    if cluster.live and not other:
        found.extend(cilium_values.live_differences(cluster.config, made, chosen))
    elif not cluster.live and cilium_values.config_of(made, chosen)["kube-proxy-replacement"] == "true" and cluster.kube_proxies:
        found.error(
            "cilium.kube_proxy_runs", f"kubeProxyReplacement: found true, and {cluster.kube_proxies} kube-proxy pods run beside it",
            "disable-kube-proxy: true in RKE2's configuration of servers and agents",
        )
    file = _annotations(cluster.helm_config or {}).get(_FROM_FILE)
    if chosen == "bundled" and file:
        found.warning(
            "cilium.config_from_file",
            f"HelmChartConfig {NAME} comes from a file in server/manifests of a server (Addon {file}): RKE2 applies it again at each start of a server, and "
            "takes back what is changed here",
            "take the file away, the object stays; docs/network.md",
        )
    found.extend(_changed(cluster, chosen, current))
    return Decision(chosen, chosen == "helm" and not other, text, cluster.live, made, found.sorted(), profile)


def _before(cluster: Found, current: Optional[Mapping[str, Any]]) -> Dict[str, Any]:
    """Values of a release of helm before this collection gave it its own."""
    return dict(current or {} if cluster.noted is None or current is None else cluster.noted["before"] or {})


def _changed(cluster: Found, mode: str, current: Optional[Mapping[str, Any]]) -> List[Dict[str, str]]:
    found = findings_m.Findings()
    noted = cluster.noted
    if noted and mode == "bundled" and noted["written"] != digest(_spec(cluster.helm_config or {})):
        found.error(
            "cilium.config_changed", f"HelmChartConfig {NAME}: somebody has changed it since it was written, and that would be lost",
            f"take the change into values of locality_cilium, or take it back; without its annotation {NOTE} it is yours again, as it stands",
        )
    # A run that ended between its note and helm has left the values as they were.
    if noted and mode == "helm" and current is not None and digest(current) not in (noted["written"], noted.get("since")):
        found.error(
            "cilium.config_changed", "the values of the helm release: somebody has changed them since they were written, and that would be lost",
            "take the change into values of locality_cilium, or take it back; "
            f"without the Secret {NAMESPACE}/{NOTE_SECRET} they are yours again, as they stand",
        )
    return found.items


@dataclass(frozen=True)
class Removal:
    """What a chart is to be given when ours is taken back. :ivar values: all of them. :ivar whole: nothing of ours is left in them."""

    values: Dict[str, Any]
    whole: bool
    findings: List[Dict[str, str]]


def removal(cluster: Found, mode: str, current: Optional[Mapping[str, Any]] = None) -> Removal:
    """Values without ours. Under pods those stay that the cluster was made with, and what would change all the same is refused."""
    found = findings_m.Findings()
    before = cluster.values if mode == "bundled" else _before(cluster, current)
    whole = not (cluster.live and cluster.profile)
    values = before if whole else cilium_values.merge(before, cluster.profile)
    found.extend(_changed(cluster, mode, current))
    if mode == "helm" and cluster.there and current is None:
        found.error("cilium.no_current_values", "the values of the helm release are not known, so what would change cannot be told", "give them as current")
    if cluster.live:
        found.extend(cilium_values.live_differences(cluster.config, values, mode))
    if not whole:
        found.warning(
            "cilium.profile_stays",
            f"values that this cluster was made with stay ({', '.join(cluster.profile)}): they are not changed under pods",
            "they go with the cluster",
        )
    return Removal(values, whole, found.sorted())


def pending(config: Mapping[str, str], values: Mapping[str, Any], mode: str) -> List[str]:
    """Knobs of the cluster that ``cilium-config`` does not have yet as values say: the chart is rendered some time after it was given them.

    :param config: data of the ConfigMap; empty where there is no Cilium, and then nothing is waited for.
    """
    if not config:
        return []

    def knobs(data: Mapping[str, str]) -> Dict[str, Any]:
        full = {"bpf-map-dynamic-size-ratio": str(MAP_RATIO), **data}
        return {knob: item["value"] for knob, item in cilium_node.configured({key: (str(value), "") for key, value in full.items()}).items()}

    now, then = knobs(config), knobs(cilium_values.config_of(values, mode))
    return [knob for knob in _CLUSTER_KNOBS if now[knob] != then[knob]]


def _whose(cluster: Found, mode: str, found: findings_m.Findings) -> None:
    others = [name for name in cluster.bundled if name != NAME]
    if mode == "helm" and cluster.bundled:
        found.error(
            "cilium.helm_beside_bundled",
            f"mode: found helm, but RKE2 brings a CNI of its own here (HelmChart {', '.join(cluster.bundled)}): two of them fight over every node",
            "use mode: bundled" if NAME in cluster.bundled else "the CNI of a cluster that lives is not changed: build a new one with cni: none",
        )
    elif mode == "bundled" and others:
        found.error(
            "cilium.cni_change", f"mode: found bundled, but the cluster's CNI is {', '.join(others)}: RKE2 does not support to change it while a cluster lives",
            "build a new cluster with cni: cilium",
        )
    elif mode == "bundled" and NAME not in cluster.bundled:
        release = f" (helm release {cluster.release})" if cluster.release else ""
        found.error(
            "cilium.not_bundled",
            "mode: found bundled, but RKE2 of this cluster does not bring Cilium: there is no HelmChart rke2-cilium" + (
                f"; the Cilium that is there{release} is somebody else's" if cluster.there else ""),
            "use mode: helm" if cluster.there else "cni: cilium in RKE2's configuration of a new cluster, or mode: helm with cni: none",
        )
    elif mode == "helm" and not cluster.there and cluster.pods:
        found.error(
            "cilium.cni_change", f"mode: found helm, but {cluster.pods} pods run on the network of another CNI: that of a cluster that lives is not changed",
            "build a new cluster with cni: none",
        )


def _ranges_fit(cluster: Found, found: findings_m.Findings) -> None:
    """Pods outside of the native routing CIDR would be masqueraded."""
    try:
        whole = [ipaddress.ip_network(cidr) for cidr in cluster.cidrs]
        outside = [cidr for cidr in cluster.pod_cidrs if not any(_inside(ipaddress.ip_network(cidr), each) for each in whole)]
    except ValueError as error:
        found.error("cilium.no_cidr", f"the cluster's ranges for pods cannot be used: {error}", "see cluster-cidr of RKE2's configuration")
        return
    if outside:
        found.error(
            "cilium.cidr_outside", f"nodes have pod ranges {', '.join(outside[:4])}, outside of the cluster's {', '.join(cluster.cidrs)}",
            "name the ranges: cilium_cluster_cidrs",
        )


def _inside(part: Any, whole: Any) -> bool:
    return bool(part.version == whole.version and part.subnet_of(whole))


__all__ = (
    "NAME", "NAMESPACE", "NOTE", "NOTE_SECRET", "Decision", "Found", "Removal", "config_spec", "decide", "digest", "found", "note", "own_values", "pending",
    "read_note", "removal",
)
