# Copyright (c) 2026 The inferops.locality authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What ``dra`` of a policy means for one node, and what its cluster has of it: the values of the knobs of the layer ``dra``. No I/O.

The driver's chart, the DeviceClasses and the claim templates are objects of the cluster. What a node has of them is whether the driver runs on it, and whether
classes and templates serve its hardware: that is judged, so that other nodes' roots and templates beside its own are no drift.
"""

from __future__ import annotations

import re
from typing import Any, Dict, Iterable, List, Mapping, NamedTuple, Optional, Sequence, Tuple

from ansible_collections.inferops.locality.plugins.module_utils import dra_claims, dra_cluster
from ansible_collections.inferops.locality.plugins.module_utils.dra_cluster import LABEL, Look
from ansible_collections.inferops.locality.plugins.module_utils.node_labels import labels_of

__all__ = ["Driver", "NodeState", "judge", "node_state", "wanted"]

DEVICE_PLUGIN, NVIDIA_DRA = "device-plugin", "nvidia-dra"


class Driver(NamedTuple):
    """What the API server knows of DRANET's driver: pods of the node, DaemonSets of the cluster."""

    pods: Sequence[Mapping[str, Any]]
    sets: Sequence[Mapping[str, Any]]


class NodeState(NamedTuple):
    """``running`` is ``knob → value``, ``configured`` is ``knob → {value, source}``."""

    running: Dict[str, Any]
    configured: Dict[str, Dict[str, Any]]


def _gpu_roots(topology: Mapping[str, Any], dra: Mapping[str, Any]) -> List[str]:
    return sorted(root for root, place in dra_claims.capacity(topology, dra)["roots"].items() if place["gpus"])


def wanted(topology: Mapping[str, Any], dra: Mapping[str, Any]) -> Dict[str, Any]:
    """The knobs of the layer dra; none where the policy leaves DRANET as it is.

    :param topology: ``ansible_facts.numa_topology``. :param dra: ``dra`` of the checked policy.
    """
    if dra["dranet"] is None:
        return {}
    if not dra["dranet"]:
        return {"dra.dranet": False}
    without = sorted(dra["uplinks"])
    classes = {
        dra["nic_class"]: {"without": without},
        dra_claims.near_class(dra): {"without": without, "roots": _gpu_roots(topology, dra)},
    }
    templates = dra_claims.templates(topology, dra)[0] if dra["namespaces"] else {}
    return {
        "dra.dranet": True,
        "dra.device_class": classes,
        "dra.claim_template": {name: sorted(dra["namespaces"]) for name in sorted(templates)},
        "dra.nri": True,
        "dra.api": "v1",
        "dra.gpu_driver": dra["gpus"],
        "dra.nics": dra_claims.nic_roots(topology, dra["uplinks"]),
    }


def judge(knob: str, wanted_: Mapping[str, Any], found: Any) -> Tuple[bool, str]:
    """Whether a knob with parts is as planned, and where it differs; words without a difference are what looks like a fault and is none."""
    found = found if isinstance(found, Mapping) else {}
    differing = [name for name in wanted_ if name not in found or found[name] != wanted_[name]]
    if knob != "dra.nics":
        return not differing, ", ".join(f"{name} is not there as planned" for name in differing)
    words = [f"{name} is {f'published with {found[name]}' if name in found else 'not published'}" for name in differing]
    return not differing, ", ".join(words or [f"{name} is published too" for name in found if name not in wanted_])


# -- what the cluster has ---------------------------------------------------------------------------------------------


def _is_driver(pod_spec: Mapping[str, Any]) -> bool:
    """Whether a pod is DRANET's: it selects nodes by our label, or its image is called dranet, wherever it is pulled from."""
    images = [str(container.get("image") or "") for container in pod_spec.get("containers") or []]
    names = [re.split(r"[:@]", image.rsplit("/", 1)[-1])[0] for image in images]
    return LABEL in (pod_spec.get("nodeSelector") or {}) or "dranet" in names


def _ready(pod: Mapping[str, Any]) -> bool:
    conditions = (pod.get("status") or {}).get("conditions") or []
    ready = any(item.get("type") == "Ready" and item.get("status") == "True" for item in conditions)
    return ready and not pod["metadata"].get("deletionTimestamp")


def _of_set(pod: Mapping[str, Any]) -> bool:
    return any(owner.get("kind") == "DaemonSet" for owner in pod["metadata"].get("ownerReferences") or [])


def _set_name(item: Mapping[str, Any]) -> str:
    return f"DaemonSet {item['metadata'].get('namespace')}/{item['metadata']['name']}"


def _leftover(look: Look, sets: Iterable[Mapping[str, Any]]) -> Optional[str]:
    """What stands of DRANET in a cluster none of whose nodes has it: a removal that did not get to its end."""
    if any(LABEL in labels_of(node) for node in look.nodes):
        return None
    # One that somebody else brought has no selector of ours.
    left = [_set_name(item) for item in sets if LABEL in (item["spec"]["template"]["spec"].get("nodeSelector") or {})]
    for item in look.objects:
        if dra_cluster.is_ours(item):
            kind, namespace, name = dra_cluster.key_of(item)
            left.append(f"{kind} {namespace + '/' if namespace else ''}{name}")
    return ", ".join(sorted(left)) or None


def _labelled(look: Look, node: str, driver: Driver, on: bool) -> Dict[str, Any]:
    """``on``: it is to have DRANET, so that what the cluster has without the label is no leftover."""
    labels = next((labels_of(item) for item in look.nodes if item["metadata"]["name"] == node), {})
    if LABEL in labels:
        return {"value": labels[LABEL] == "true", "source": f"label {LABEL} of Node {node}"}
    left = None if on else _leftover(look, driver.sets)
    return {"value": left is not None, "source": left}


def _lists(text: str) -> List[List[str]]:
    """The lists of texts in an expression of ours, in their order."""
    return [re.findall(r'"([^"]*)"', inner) for inner in re.findall(r" in \[([^\]]*)\]", text)]


def _class(item: Optional[Mapping[str, Any]], want: Mapping[str, Any], name: str, dra: Mapping[str, Any]) -> Optional[Dict[str, Any]]:
    """What a DeviceClass does for this node, of what is wanted; None if there is none of ours, or its expression is another than we write."""
    if item is None or not dra_cluster.is_ours(item):
        return None
    selectors = item["spec"].get("selectors") or []
    text = str(((selectors[0] if selectors else {}).get("cel") or {}).get("expression") or "")
    lists = _lists(text)
    roots = lists.pop() if "roots" in want and lists else []
    without = lists.pop() if lists else []
    made = dra_claims.device_classes({**dra, "uplinks": without}, roots)
    if not any(each["metadata"]["name"] == name and dra_cluster.same(item["spec"], each["spec"]) for each in made):
        return None
    found: Dict[str, Any] = {"without": [each for each in want["without"] if each in without]}
    if "roots" in want:
        found["roots"] = [root for root in want["roots"] if root in roots]
    return found


def _templates(look: Look, topology: Mapping[str, Any], dra: Mapping[str, Any], wanted_: Mapping[str, Any]) -> Dict[str, List[str]]:
    there = {dra_cluster.key_of(item): item for item in look.objects if dra_cluster.is_ours(item)}
    found: Dict[str, List[str]] = {}
    specs = dra_claims.templates(topology, dra)[0]
    for item in dra_claims.objects({name: specs[name] for name in wanted_}, dra, [], dra["namespaces"], "v1"):
        key = dra_cluster.key_of(item)
        if key[0] == "ResourceClaimTemplate" and key in there and dra_cluster.same(there[key]["spec"], item["spec"]):
            found.setdefault(key[2], []).append(key[1])
    return {name: sorted(found[name]) for name in sorted(found)}


def _api(look: Look, node: str) -> Optional[str]:
    """The newest version of the API that both the API server and the node's kubelet speak; None where it is too old."""
    kubelet = next((
        str(((item.get("status") or {}).get("nodeInfo") or {}).get("kubeletVersion") or "") for item in look.nodes if item["metadata"]["name"] == node
    ), "")
    minor = dra_cluster.minor_of(kubelet)
    old = look.minor < dra_cluster.OLDEST_MINOR or (minor is not None and minor < dra_cluster.OLDEST_MINOR)
    return "v1" if "v1" in look.versions and not old else None


def _published(look: Look, node: str, driver: str) -> Optional[List[Mapping[str, Any]]]:
    """The devices that a driver publishes on a node; None where it publishes nothing."""
    slices = [item["spec"] for item in look.slices if item["spec"].get("nodeName") == node and item["spec"]["driver"] == driver]
    return [device for spec in slices for device in spec.get("devices") or []] if slices else None


def _gpu_driver(look: Look, node: str) -> str:
    """Who gives out the GPUs of a node: ``device-plugin``, ``nvidia-dra``, both or none of them."""
    resources = next((((item.get("status") or {}).get("allocatable") or {}) for item in look.nodes if item["metadata"]["name"] == node), {})
    who = [DEVICE_PLUGIN] if dra_cluster.plugin_gpus(resources) else []
    who += [NVIDIA_DRA] if _published(look, node, dra_claims.GPU_DRIVER) else []
    return " and ".join(who) or "none"


def _nics(look: Look, node: str) -> Dict[str, Any]:
    """The RDMA NICs that DRANET publishes on a node: ``PCI address → PCIe root``."""
    found = {}
    for device in _published(look, node, dra_claims.DRANET) or []:
        address = dra_claims.attribute(device, f"{dra_claims.DRANET}/pciAddress")
        if address is not None and dra_claims.attribute(device, f"{dra_claims.DRANET}/rdma") is True:
            found[str(address)] = dra_claims.attribute(device, dra_claims.PCIE_ROOT)
    return dict(sorted(found.items()))


def node_state(look: Look, driver: Driver, node: str, topology: Mapping[str, Any], dra: Mapping[str, Any]) -> NodeState:
    """Both sides of the knobs on a node, but ``dra.nri``, which the node itself shows.

    :param look: of the cluster. :param driver: of DRANET. :param node: name of the Node. :param dra: ``dra`` of the checked policy.
    """
    want = wanted(topology, dra)
    runs = any(_of_set(pod) and _is_driver(pod["spec"]) and _ready(pod) for pod in driver.pods)
    state = NodeState({"dra.dranet": runs}, {"dra.dranet": _labelled(look, node, driver, bool(dra["dranet"]))})
    if not dra["dranet"]:
        return state
    there = {dra_cluster.key_of(item): item for item in look.objects}
    classes = {name: _class(there.get(("DeviceClass", "", name)), asked, name, dra) for name, asked in want["dra.device_class"].items()}
    state.configured["dra.device_class"] = {"value": classes, "source": f"DeviceClasses {', '.join(classes)}"}
    templates = _templates(look, topology, dra, want["dra.claim_template"])
    state.configured["dra.claim_template"] = {"value": templates, "source": f"ResourceClaimTemplates {', '.join(want['dra.claim_template'])}".rstrip()}
    state.running.update({"dra.api": _api(look, node), "dra.gpu_driver": _gpu_driver(look, node), "dra.nics": _nics(look, node)})
    return state
