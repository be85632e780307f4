# Copyright (c) 2026 The inferops.locality authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A node's turn as the API shows it: whose cordon it is, and whether the node is back as it was.

The annotation ``locality.inferops.io/cordoned-by`` is the mark of a turn. It says which run began it and when, whether the cordon is the run's or was there
before, and what of the node has to be there again before pods may come. It outlives the run: a later one goes on from it.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple

from ansible_collections.inferops.locality.plugins.module_utils import node_pods, quantity

ANNOTATION = "locality.inferops.io/cordoned-by"
TAINT = {"key": "locality.inferops.io/unproved", "effect": "NoSchedule"}

# Taints that a node has as long as it is not fit for pods: of the node lifecycle controller, and the one that Cilium's agent takes away when it runs.
NOT_YET = (
    "node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable", "node.kubernetes.io/network-unavailable", "node.kubernetes.io/memory-pressure",
    "node.kubernetes.io/disk-pressure", "node.kubernetes.io/pid-pressure", "node.cloudprovider.kubernetes.io/uninitialized", "node.cilium.io/agent-not-ready",
)


class MarkError(ValueError):
    """The annotation is there and is none that this version wrote."""


@dataclass(frozen=True)
class Mark:
    """What the annotation says.

    :ivar run: who began the turn, or went on with it last. :ivar since: when it began. :ivar ours: the cordon is ours; else it was there before.
    :ivar disturbed: the node was touched after its drain, so that it stays cordoned until it is whole again.
    :ivar boot_id: the boot in which the turn began. :ivar extended: allocatable extended resources then, such as ``{"nvidia.com/gpu": 8}``.
    :ivar residents: pods that belong to the node and were ready then, by :func:`node_pods.resident_name`.
    """

    run: str
    since: str
    ours: bool
    disturbed: bool = False
    boot_id: str = ""
    extended: Mapping[str, int] = field(default_factory=dict)
    residents: Tuple[str, ...] = ()

    def text(self) -> str:
        """The annotation's value."""
        return json.dumps({**asdict(self), "residents": list(self.residents)}, sort_keys=True)


@dataclass(frozen=True)
class Change:
    """What to do to a Node.

    :ivar patch: a merge patch, None if there is nothing to do. It has the ``resourceVersion`` of what was judged, so that the API refuses it (409) if the
        Node has changed since. :ivar mark: the mark after it. :ivar lifted: the node was cordoned in this turn, and somebody made it schedulable.
    """

    patch: Optional[Dict[str, Any]]
    mark: Optional[Mark]
    lifted: bool = False
    schedulable: bool = False


def mark_of(node: Mapping[str, Any]) -> Optional[Mark]:
    """The mark of a turn on a Node; None if there is none.

    :raises MarkError: the annotation cannot be understood.
    """
    text = (node["metadata"].get("annotations") or {}).get(ANNOTATION)
    if text is None:
        return None
    try:
        found = json.loads(text)
        return Mark(
            run=str(found["run"]), since=str(found["since"]), ours=found["ours"] is True,
            disturbed=found.get("disturbed") is True, boot_id=str(found.get("boot_id") or ""),
            extended={str(name): int(count) for name, count in (found.get("extended") or {}).items()},
            residents=tuple(str(name) for name in found.get("residents") or ()),
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise MarkError(f"annotation {ANNOTATION}: found '{text}', wanted what this collection writes there") from error


def boot_id(node: Mapping[str, Any]) -> str:
    """The kernel's id of the boot that the kubelet reported last."""
    return ((node.get("status") or {}).get("nodeInfo") or {}).get("bootID") or ""


def other_machine(node: Mapping[str, Any], machine_id: str) -> Optional[str]:
    """Why a Node is not the machine with this ``/etc/machine-id``; None if it is, or if either is not known."""
    found = ((node.get("status") or {}).get("nodeInfo") or {}).get("machineID") or ""
    if not found or not machine_id or found.replace("-", "") == machine_id.strip().replace("-", ""):
        return None
    return f"the Node is another machine: machineID found {found}, wanted {machine_id.strip()} of this host's /etc/machine-id; set locality_node_name"


def is_cordoned(node: Mapping[str, Any]) -> bool:
    """Whether the scheduler puts no pods on the Node."""
    return (node.get("spec") or {}).get("unschedulable") is True


def is_ready(node: Mapping[str, Any]) -> bool:
    """Whether the Node's condition Ready is True; Unknown, as of a kubelet that is silent, is not."""
    return _condition(node, "Ready") == "True"


def extended(node: Mapping[str, Any]) -> Dict[str, int]:
    """Allocatable extended resources of a Node, by name."""
    allocatable = (node.get("status") or {}).get("allocatable") or {}
    return {name: quantity.to_bytes(amount) for name, amount in sorted(allocatable.items()) if node_pods.is_extended(name)}


def cordon(node: Mapping[str, Any], pods: Sequence[Mapping[str, Any]], *, run: str, now: str, taint: bool, disturbed: bool = False) -> Change:
    """Mark a Node and keep the scheduler from it.

    A Node that is cordoned and has no mark was cordoned by somebody else, and stays so after the turn. A mark that is there is gone on with: what it wants
    to be there again was read when the node was whole. A Node with a mark that is schedulable was made so by somebody else in between (kured, a person): it is
    cordoned again, and pods may have come.

    :param pods: the pods of the node. :param now: when the turn begins. :param taint: put the taint *unproved* on it as well. :param disturbed: note that
        the node is touched from here on.
    :raises MarkError: the annotation cannot be understood.
    """
    before = mark_of(node)
    cordoned = is_cordoned(node)
    if before is None:
        names = {node_pods.resident_name(pod) or "" for pod in pods if node_pods.is_ready(pod)} - {""}
        mark = Mark(
            run=run, since=now, ours=not cordoned, disturbed=disturbed, boot_id=boot_id(node), extended=extended(node), residents=tuple(sorted(names)),
        )
    else:
        mark = replace(before, run=run, ours=before.ours or not cordoned, disturbed=before.disturbed or disturbed)
    spec: Dict[str, Any] = {} if cordoned else {"unschedulable": True}
    if taint and not _has_taint(node):
        spec["taints"] = [*taints(node), dict(TAINT)]
    return Change(_patch(node, spec, {ANNOTATION: mark.text()} if mark != before else {}), mark, lifted=before is not None and not cordoned)


def uncordon(node: Mapping[str, Any], *, keep_disturbed: bool = False) -> Change:
    """End a turn: the mark and the taint go, and the cordon if it is ours. A Node without a mark keeps its cordon.

    :param keep_disturbed: leave a Node as it is that was touched in its turn. :raises MarkError: the annotation cannot be understood.
    """
    mark = mark_of(node)
    if mark is not None and mark.disturbed and keep_disturbed:
        return Change(None, mark, schedulable=not is_cordoned(node))
    spec: Dict[str, Any] = {}
    if mark is not None and mark.ours and is_cordoned(node):
        spec["unschedulable"] = None
    if _has_taint(node):
        spec["taints"] = [taint for taint in taints(node) if taint.get("key") != TAINT["key"]] or None
    patch = _patch(node, spec, {} if mark is None else {ANNOTATION: None})
    return Change(patch, None, schedulable=not is_cordoned(node) or "unschedulable" in spec)


def diff(node: Mapping[str, Any], patch: Mapping[str, Any]) -> Dict[str, Any]:
    """What a patch changes of a Node, before and after, as ``--diff`` shows it."""
    spec = node.get("spec") or {}
    keys = patch.get("spec") or {}
    notes = (patch["metadata"].get("annotations")) or {}
    had = node["metadata"].get("annotations") or {}
    return {
        "before": {"annotations": {key: had.get(key) for key in notes}, "spec": {key: spec.get(key) for key in keys}},
        "after": {"annotations": dict(notes), "spec": dict(keys)},
        "before_header": f"Node {node['metadata']['name']}", "after_header": f"Node {node['metadata']['name']}",
    }


def not_ready(
    node: Mapping[str, Any], pods: Sequence[Mapping[str, Any]], *, wanted_extended: Mapping[str, int], wanted_residents: Sequence[str], boot_before: str = "",
) -> List[str]:
    """Why pods may not come to a node yet; empty if they may.

    :param wanted_extended: extended resources that have to be allocatable again, at least so many. :param wanted_residents: pods of the node that have to be
        ready again, by :func:`node_pods.resident_name`: the CNI's agent and the device plugins are among them, whatever their names are.
    :param boot_before: the boot that must have ended; empty if the node was not rebooted.
    """
    reasons = []
    if boot_before and boot_id(node) == boot_before:
        reasons.append(f"it has not reported another boot yet: boot ID found {boot_before}, wanted another one")
    if not is_ready(node):
        reasons.append(f"condition Ready: found {_told(node, 'Ready')}, wanted True")
    if _condition(node, "NetworkUnavailable") not in (None, "False"):
        reasons.append(f"condition NetworkUnavailable: found {_told(node, 'NetworkUnavailable')}, wanted False")
    reasons += [f"taint {taint['key']}:{taint['effect']} is still there" for taint in taints(node) if taint.get("key") in NOT_YET]
    present = {node_pods.resident_name(pod) for pod in pods}
    ready = {node_pods.resident_name(pod) for pod in pods if node_pods.is_ready(pod)}
    for name in wanted_residents:
        if name not in ready:
            reasons.append(f"{name}: {'its pod is not ready' if name in present else 'it has no pod here'}, and it was ready before")
    found = extended(node)
    for name, count in sorted(wanted_extended.items()):
        if found.get(name, 0) < count:
            reasons.append(f"allocatable {name}: found {found.get(name, 0)}, wanted {count} as before")
    return reasons


def _condition(node: Mapping[str, Any], kind: str) -> Optional[str]:
    return next((each["status"] for each in (node.get("status") or {}).get("conditions") or [] if each["type"] == kind), None)


def _told(node: Mapping[str, Any], kind: str) -> str:
    for each in (node.get("status") or {}).get("conditions") or []:
        if each["type"] == kind:
            return f"{each['status']} since {each.get('lastTransitionTime', 'unknown')} ({each.get('message') or each.get('reason') or 'no reason'})"
    return "none"


def taints(node: Mapping[str, Any]) -> List[Dict[str, Any]]:
    """All taints of a Node, as the API has them."""
    return list((node.get("spec") or {}).get("taints") or [])


def _has_taint(node: Mapping[str, Any]) -> bool:
    return any(taint.get("key") == TAINT["key"] for taint in taints(node))


def _patch(node: Mapping[str, Any], spec: Dict[str, Any], annotations: Dict[str, Optional[str]]) -> Optional[Dict[str, Any]]:
    if not spec and not annotations:
        return None
    meta: Dict[str, Any] = {"resourceVersion": node["metadata"]["resourceVersion"]}
    if annotations:
        meta["annotations"] = annotations
    return {"metadata": meta, **({"spec": spec} if spec else {})}


__all__ = (
    "ANNOTATION", "NOT_YET", "TAINT", "Change", "Mark", "MarkError", "boot_id", "cordon", "diff", "extended", "is_cordoned", "is_ready", "mark_of", "not_ready",
    "other_machine", "taints", "uncordon",
)
