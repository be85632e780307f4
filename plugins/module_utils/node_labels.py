# Copyright (c) 2026 The inferops.locality authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Labels and taints of a Node: those that are wanted, those that were set for an earlier plan, and those of others, which stay.

RKE2 gives ``node-label`` and ``node-taint`` of its configuration to the API when a node registers, and never again. The annotation
``locality.inferops.io/labels`` says what was set, so that what a plan no longer has can be taken away.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple

from ansible_collections.inferops.locality.plugins.module_utils import node_turn

ANNOTATION = "locality.inferops.io/labels"


@dataclass(frozen=True)
class Change:
    """What to do to a Node.

    :ivar patch: a merge patch with the ``resourceVersion`` of what was judged, or None. :ivar before: what of the Node it changes, as it is.
    :ivar after: as it will be. :ivar kept: what an earlier run set and somebody has changed since, which stays.
    """

    patch: Optional[Dict[str, Any]]
    before: Dict[str, Any] = field(default_factory=dict)
    after: Dict[str, Any] = field(default_factory=dict)
    kept: Tuple[str, ...] = ()


def labels_of(item: Mapping[str, Any]) -> Dict[str, str]:
    """All labels of an object of the API, such as a Node."""
    return dict((item.get("metadata") or {}).get("labels") or {})


def taints_of(node: Mapping[str, Any]) -> List[str]:
    """All taints of a Node, as :func:`taint_text` writes them."""
    return [taint_text(taint) for taint in node_turn.taints(node)]


def taint_text(taint: Mapping[str, Any]) -> str:
    """A taint as kubectl and RKE2 write it: ``key=value:Effect``, without a value ``key:Effect``."""
    value = taint.get("value")
    return f"{taint['key']}{f'={value}' if value else ''}:{taint['effect']}"


def parse_taint(text: str) -> Dict[str, str]:
    """The way back.

    :raises ValueError: it is no taint.
    """
    head, colon, effect = text.rpartition(":")
    key, _equals, value = head.partition("=")
    if not colon or not key or effect not in ("NoSchedule", "PreferNoSchedule", "NoExecute"):
        raise ValueError(f"found '{text}', wanted a taint such as key=value:NoSchedule")
    return {"key": key, **({"value": value} if value else {}), "effect": effect}


def decide(node: Mapping[str, Any], labels: Mapping[str, str], taints: Sequence[str]) -> Change:
    """What has to be changed so that a Node has these labels and taints, and none that an earlier run set and that is not among them.

    A taint is told by key and effect, as the API does: one with another value is replaced. What somebody changed after an earlier run set it is theirs.

    :raises ValueError: a taint is none.
    """
    wanted = {_identity(taint): taint for taint in map(parse_taint, taints)}
    ours_labels, ours_taints = _set_before(node)
    had = labels_of(node)
    new: Dict[str, Optional[str]] = {key: value for key, value in labels.items() if had.get(key) != value}
    kept = []
    for key, value in ours_labels.items():
        if key in labels or key not in had:
            continue
        if had[key] == value:
            new[key] = None
        else:
            kept.append(f"label {key}={had[key]}")
    ours = {_identity(parse_taint(text)) for text in ours_taints}
    made: List[Dict[str, Any]] = []
    for taint in node_turn.taints(node):
        name = _identity(taint)
        if name in wanted:
            one = wanted[name]
            made.append(taint if taint.get("value", "") == one.get("value", "") else dict(one))
        elif taint_text(taint) not in ours_taints:
            made.append(taint)
            if name in ours:
                kept.append(f"taint {taint_text(taint)}")
    there = {_identity(taint) for taint in made}
    made += [dict(taint) for name, taint in wanted.items() if name not in there]
    note = _note(labels, taints)
    patch: Dict[str, Any] = {}
    before: Dict[str, Any] = {}
    after: Dict[str, Any] = {}
    if new:
        patch.setdefault("metadata", {})["labels"] = new
        before["labels"], after["labels"] = {key: had.get(key) for key in new}, dict(new)
    if made != node_turn.taints(node):
        patch["spec"] = {"taints": made or None}
        before["taints"], after["taints"] = taints_of(node), [taint_text(taint) for taint in made]
    if note != (node["metadata"].get("annotations") or {}).get(ANNOTATION):
        patch.setdefault("metadata", {})["annotations"] = {ANNOTATION: note}
    if not patch:
        return Change(None, kept=tuple(kept))
    patch.setdefault("metadata", {})["resourceVersion"] = node["metadata"]["resourceVersion"]
    return Change(patch, before, after, tuple(kept))


def _note(labels: Mapping[str, str], taints: Sequence[str]) -> Optional[str]:
    """The annotation; None where nothing is set."""
    return json.dumps({"labels": dict(labels), "taints": sorted(taints)}, sort_keys=True) if labels or taints else None


def _set_before(node: Mapping[str, Any]) -> Tuple[Dict[str, str], List[str]]:
    """What the annotation says; nothing where it is not there, or was written by somebody else: then nothing is taken away."""
    text = (node["metadata"].get("annotations") or {}).get(ANNOTATION)
    try:
        found = json.loads(text) if text else {}
        labels = {str(key): str(value) for key, value in found.get("labels", {}).items()}
        taints = [str(taint) for taint in found.get("taints", [])]
        for taint in taints:
            parse_taint(taint)
    except (ValueError, AttributeError, TypeError):
        return {}, []
    return labels, taints


def _identity(taint: Mapping[str, Any]) -> Tuple[str, str]:
    return str(taint["key"]), str(taint["effect"])


__all__ = ("ANNOTATION", "Change", "decide", "labels_of", "parse_taint", "taint_text", "taints_of")
