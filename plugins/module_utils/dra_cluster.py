# Copyright (c) 2026 The inferops.locality authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a cluster must have before DRANET is brought to its nodes, which objects it is given, and what stands against taking them away."""

from __future__ import annotations

import re
from typing import Any, Dict, Iterable, List, Mapping, NamedTuple, Optional, Sequence, Tuple

from ansible_collections.inferops.locality.plugins.module_utils import dra_claims
from ansible_collections.inferops.locality.plugins.module_utils import findings as findings_m
from ansible_collections.inferops.locality.plugins.module_utils.node_labels import labels_of

__all__ = [
    "LABEL", "OLDEST_MINOR", "Change", "Look", "checks", "decide", "in_use", "is_ours", "key_of", "leave", "minor_of", "pending", "plugin_gpus", "same",
    "wanted",
]

# Nodes with this label get DRANET: the pilot group.
LABEL = "locality.inferops.io/dranet"
# DRANET v1.4.0 speaks resource.k8s.io/v1 only.
OLDEST_MINOR = 34
CPU_DRIVER = "dra.cpu"
# The device plugins' resources, which a DRA driver's GPU must not be given out by beside.
_PLUGIN = re.compile(r"nvidia\.com/(gpu|mig-.+)")


class Look(NamedTuple):
    """What the API server knows: ``minor`` of its version, versions it serves of the group, and the cluster's objects."""

    minor: int
    versions: Sequence[str]
    nodes: Sequence[Mapping[str, Any]]
    slices: Sequence[Mapping[str, Any]]
    claims: Sequence[Mapping[str, Any]]
    objects: Sequence[Mapping[str, Any]]  # DeviceClasses and ResourceClaimTemplates


def _name(item: Mapping[str, Any]) -> str:
    return str(item["metadata"]["name"])


def minor_of(version: str) -> Optional[int]:
    """The minor version of Kubernetes, of ``v1.36.2``; None for what is no version."""
    match = re.match(r"v?1\.([0-9]+)", version)
    return int(match.group(1)) if match else None


def plugin_gpus(allocatable: Mapping[str, Any]) -> List[str]:
    """Resources by which a device plugin gives out GPUs of a node, of its ``status.allocatable``."""
    return sorted(resource for resource, count in allocatable.items() if _PLUGIN.fullmatch(resource) and str(count) != "0")


def _others(look: Look, nodes: Sequence[str]) -> List[str]:
    return sorted(_name(node) for node in look.nodes if LABEL in labels_of(node) and _name(node) not in nodes)


def _drivers(look: Look, node: str) -> List[str]:
    return sorted({str(item["spec"]["driver"]) for item in look.slices if item["spec"].get("nodeName") == node})


def _node_checks(node: Mapping[str, Any], look: Look, dra: Mapping[str, Any], cpu_policy: Optional[str], found: findings_m.Findings) -> None:
    name, info = _name(node), (node.get("status") or {}).get("nodeInfo") or {}
    kubelet = minor_of(str(info.get("kubeletVersion") or ""))
    if kubelet is not None and kubelet < OLDEST_MINOR:
        found.error(
            "dra.kubernetes_too_old", f"node {name}: found kubelet {info['kubeletVersion']}, wanted 1.{OLDEST_MINOR} or newer",
            "upgrade the node, or leave it out",
        )
    runtime = re.match(r"containerd://([0-9]+)\.", str(info.get("containerRuntimeVersion") or ""))
    if runtime and int(runtime.group(1)) < 2:
        found.error(
            "dra.no_nri", f"node {name}: found {info['containerRuntimeVersion']}, in which NRI is off; DRANET moves NICs by it",
            "use a release of RKE2 with containerd 2 (1.31.6, 1.32.2 and later)",
        )
    drivers = _drivers(look, name)
    allocatable = (node.get("status") or {}).get("allocatable") or {}
    plugin = plugin_gpus(allocatable)
    if dra["gpus"] == "nvidia-dra" and plugin:
        found.error(
            "dra.device_plugin",
            f"node {name}: dra.gpus is nvidia-dra, and a device plugin gives out {', '.join(plugin)} there: one GPU would be given to two pods",
            "take the device plugin off the node, or set dra.gpus to device-plugin",
        )
    if dra["gpus"] == "device-plugin" and dra_claims.GPU_DRIVER in drivers:
        found.error(
            "dra.gpu_driver", f"node {name}: dra.gpus is device-plugin, and NVIDIA's DRA driver publishes GPUs there",
            "set dra.gpus to nvidia-dra, or remove the driver",
        )
    if cpu_policy == "kubelet-static" and CPU_DRIVER in drivers:
        found.error(
            "dra.cpu_driver", f"node {name}: the driver {CPU_DRIVER} gives out CPUs that the kubelet's static CPU manager gives out too",
            "remove the driver from the node, or plan it without cpu_policy kubelet-static",
        )
    published = {
        str(dra_claims.attribute(device, "dra.net/ifName")) for item in look.slices if item["spec"].get("nodeName") == name
        and item["spec"]["driver"] == dra_claims.DRANET for device in item["spec"].get("devices") or []
    }
    for uplink in sorted(published & set(dra["uplinks"])):
        found.note("dra.uplink_published", f"node {name}: DRANET publishes the uplink {uplink}; the DeviceClasses made here leave it out")


def _foreign_templates(look: Look, dra: Mapping[str, Any]) -> List[Dict[str, str]]:
    """What is wrong with templates of somebody else that ask for DRANET's NICs: they are theirs to mend, and pods that use them stay pending."""
    found = findings_m.Findings()
    classes = (dra["nic_class"], dra_claims.near_class(dra))
    for item in look.objects:
        if item["kind"] != "ResourceClaimTemplate" or is_ours(item):
            continue
        requests = item["spec"]["spec"]["devices"].get("requests") or []
        if any((request.get("exactly") or {}).get("deviceClassName") in classes for request in requests):
            for wrong in findings_m.errors(dra_claims.check_claim(item, gpu_classes=(dra["gpu_class"], *dra_claims.GPU_CLASSES))):
                _kind, namespace, name = key_of(item)
                found.warning(wrong["id"], f"ResourceClaimTemplate {namespace}/{name}: {wrong['message']}", wrong["hint"])
    return found.items


def checks(look: Look, dra: Mapping[str, Any], nodes: Sequence[str], cpu_policy: Optional[str], every: bool = True) -> List[Dict[str, str]]:
    """What stands against DRANET on these nodes.

    :param cpu_policy: of the policy, null not to look at it. :param every: these are all the nodes that are to have it.
    """
    found = findings_m.Findings()
    if look.minor < OLDEST_MINOR or "v1" not in look.versions:
        found.error(
            "dra.kubernetes_too_old",
            f"the API server is 1.{look.minor} and serves {', '.join(look.versions) or 'nothing'} of resource.k8s.io, wanted 1.{OLDEST_MINOR} or newer with "
            "v1: DRANET speaks nothing else",
            "upgrade the cluster",
        )
    known = {_name(node): node for node in look.nodes}
    for name in nodes:
        if name in known:
            _node_checks(known[name], look, dra, cpu_policy, found)
        else:
            found.error("dra.no_such_node", f"the cluster has no node {name}", "set locality_node_name")
    found.extend(_foreign_templates(look, dra))
    others = _others(look, nodes)
    if every and others:
        found.error(
            "dra.not_all_nodes",
            f"nodes {', '.join(others)} have DRANET and are not in this run, which would judge the DeviceClasses and templates without them",
            f"run it for all of them together, or take the label {LABEL} off those that shall not have it",
        )
    if dra["gpus"] == "nvidia-dra" and not any(dra_claims.GPU_DRIVER in _drivers(look, name) for name in nodes):
        found.warning(
            "dra.no_gpu_driver",
            f"dra.gpus is nvidia-dra, and no GPU is published on {', '.join(nodes) or 'any node'}: claims for pairs stay pending",
            "install NVIDIA's DRA driver with gpuResourcesEnabledOverride: true; its GPU allocation is not officially supported yet",
        )
    return found.items


def wanted(topologies: Iterable[Mapping[str, Any]], dra: Mapping[str, Any], api: str) -> Tuple[List[Dict[str, Any]], List[Dict[str, str]]]:
    """The objects for nodes with these topologies, and findings."""
    found = findings_m.Findings()
    made: Dict[str, Dict[str, Any]] = {}
    roots = set()
    for topology in topologies:
        specs, items = dra_claims.templates(topology, dra)
        found.extend(item for item in items if item not in found.items)
        roots |= {root for root, place in dra_claims.capacity(topology, dra)["roots"].items() if place["gpus"]}
        for name, spec in specs.items():
            if made.setdefault(name, spec) != spec:
                found.error(
                    "dra.template_conflict", f"the template {name} is another for different nodes: their NUMA nodes have other roots",
                    "give each chassis its own locality_policy.dra.template, and bring them by themselves",
                )
    return dra_claims.objects(made, dra, roots, dra["namespaces"], api), found.items


def is_ours(item: Mapping[str, Any]) -> bool:
    """Whether this collection made an object."""
    return all(labels_of(item).get(key) == value for key, value in dra_claims.MANAGED_BY.items())


def key_of(item: Mapping[str, Any]) -> Tuple[str, str, str]:
    """Kind, namespace and name."""
    return str(item["kind"]), str(item["metadata"].get("namespace") or ""), _name(item)


class Change(NamedTuple):
    """What brings the cluster to what is wanted. A changed template is removed and made anew: its spec cannot be changed."""

    create: List[Dict[str, Any]]
    replace: List[Tuple[Mapping[str, Any], Dict[str, Any]]]
    remove: List[Mapping[str, Any]]
    label: Dict[str, Optional[str]]  # node → value of LABEL, null to take it off

    @property
    def anything(self) -> bool:
        return bool(self.create or self.replace or self.remove or self.label)


def same(there: Any, want: Any) -> bool:
    """Whether what is there says what is wanted. What an API server fills in are single values, and these do not count; parts of their own do."""
    if isinstance(want, Mapping):
        more = [key for key, value in there.items() if key not in want and isinstance(value, (Mapping, list)) and value] if isinstance(there, Mapping) else []
        return isinstance(there, Mapping) and not more and all(same(there.get(key), value) for key, value in want.items())
    if isinstance(want, list):
        return isinstance(there, list) and len(there) == len(want) and all(map(same, there, want))
    return bool(there == want)


def decide(look: Look, objects: Sequence[Dict[str, Any]], nodes: Optional[Sequence[str]]) -> Tuple[Change, List[Dict[str, str]]]:
    """What has to be changed, and what belongs to somebody else.

    :param objects: what is wanted; none takes all of ours away. :param nodes: those that get DRANET; null: no node keeps the label.
    """
    found = findings_m.Findings()
    there = {key_of(item): item for item in look.objects}
    keys = {key_of(item) for item in objects}
    change = Change([], [], [item for key, item in there.items() if is_ours(item) and key not in keys], {})
    for item in objects:
        old = there.get(key_of(item))
        if old is None:
            change.create.append(item)
        elif not is_ours(old):
            kind, namespace, name = key_of(item)
            found.error(
                "dra.foreign_object", f"{kind} {namespace + '/' if namespace else ''}{name} is there and was made by somebody else",
                "choose another nic_class or template in locality_policy.dra, or remove it",
            )
        elif not same(old["spec"], item["spec"]):
            change.replace.append((old, item))
    for node in look.nodes:
        has = labels_of(node).get(LABEL)
        if nodes is None and has is not None:
            change.label[_name(node)] = None
        elif nodes is not None and _name(node) in nodes and has != "true":
            change.label[_name(node)] = "true"
    return change, found.items


def leave(look: Look, nodes: Sequence[str]) -> Tuple[Change, List[str]]:
    """What takes DRANET off nodes, and which nodes keep it: as long as one does, classes and templates stay.

    :param nodes: none: all of the cluster.
    """
    keep = _others(look, nodes) if nodes else []
    if not keep:
        return decide(look, [], None)[0], []
    return Change([], [], [], {_name(node): None for node in look.nodes if LABEL in labels_of(node) and _name(node) in nodes}), keep


def in_use(look: Look, removed: Iterable[Mapping[str, Any]], driver: bool, nodes: Optional[Sequence[str]] = None) -> List[str]:
    """Claims that hold what is to be taken away, as ``namespace/claim (pod POD): device, ...``.

    :param removed: objects that go; a claim of one of these DeviceClasses counts, allocated or not.
    :param driver: DRANET goes too, and with it all of its NICs. :param nodes: from these alone; null: from all.
    """
    classes = {_name(item) for item in removed if item["kind"] == "DeviceClass"}
    places = {
        str(item["spec"]["pool"]["name"]): str(item["spec"].get("nodeName") or "") for item in look.slices if item["spec"]["driver"] == dra_claims.DRANET
    }
    told = []
    for claim in look.claims:
        status = claim.get("status") or {}
        # A pool of which no slice is left has the name of its node.
        devices = [
            str(item["device"]) for item in ((status.get("allocation") or {}).get("devices") or {}).get("results") or []
            if item["driver"] == dra_claims.DRANET and (nodes is None or places.get(str(item["pool"]), str(item["pool"])) in nodes)
        ]
        asked = {str((request.get("exactly") or request).get("deviceClassName")) for request in claim["spec"]["devices"].get("requests") or []}
        if (driver and devices) or asked & classes:
            pods = ", ".join(str(item.get("name")) for item in status.get("reservedFor") or []) or "none"
            metadata = claim["metadata"]
            told.append(f"{metadata.get('namespace')}/{metadata['name']} (pods: {pods}): {', '.join(devices) or 'not allocated yet'}")
    return sorted(told)


def pending(look: Look, dra: Mapping[str, Any]) -> Dict[str, List[str]]:
    """Claims for GPUs and NICs that nothing is allocated for: ``namespace/claim → a line for each node``, see :func:`dra_claims.why_pending`."""
    classes = {dra["gpu_class"], dra["nic_class"], dra_claims.near_class(dra)}
    told = {}
    for claim in look.claims:
        asked = {str((request.get("exactly") or {}).get("deviceClassName")) for request in claim["spec"]["devices"].get("requests") or []}
        if asked & classes and not (claim.get("status") or {}).get("allocation"):
            metadata = claim["metadata"]
            told[f"{metadata.get('namespace')}/{metadata['name']}"] = dra_claims.why_pending(claim["spec"], look.slices, look.claims, dra["gpu_class"])
    return told
