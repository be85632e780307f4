# Copyright (c) 2026 The inferops.locality authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What Cilium's agent on a node is configured with, and the CiliumNodeConfig by which a node gets other values than its cluster.

The agent reads its configuration when its pod is made (``cilium-dbg build-config``): the ConfigMap, then each CiliumNodeConfig of its namespace that selects
the Node, in the order of their names; the later wins. Nodes with the same values share one object of ours, named by a hash of the values, which selects them
by a label with the same hash.
"""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple

from ansible_collections.inferops.locality.plugins.module_utils import findings as findings_m
from ansible_collections.inferops.locality.plugins.module_utils import knobs
from ansible_collections.inferops.locality.plugins.module_utils.node_labels import labels_of

NAMESPACE = "kube-system"
CONFIG_MAP = "cilium-config"
DAEMON_SET = "cilium"
API_VERSION = "cilium.io/v2"
LABEL = "locality.inferops.io/cilium"
ANNOTATION = "locality.inferops.io/owner"
PREFIX = f"{knobs.OWNER}-"
# Of ``node:``, where an agent is told to read its configuration from its Node too.
NODE_KEY = "config.cilium.io/"

# Knobs that may differ from node to node, and the keys of the agent that they are; other keys have a meaning for the whole cluster.
NODE_KEYS: Dict[str, Tuple[str, ...]] = {
    "cilium.datapath_mode": ("datapath-mode",),
    "cilium.big_tcp": ("enable-ipv4-big-tcp", "enable-ipv6-big-tcp"),
    "cilium.devices": ("devices",),
    "cilium.xdp": ("bpf-lb-acceleration",),
}
KEYS: Dict[str, Tuple[str, ...]] = {
    **NODE_KEYS,
    "cilium.bpf_maps": ("bpf-distributed-lru", "bpf-map-dynamic-size-ratio"),
    "cilium.clock": ("enable-bpf-clock-probe",),
    "cilium.bandwidth_manager": ("enable-bandwidth-manager", "enable-bbr"),
}

# A value of the agent and where it comes from.
Setting = Tuple[str, str]


class SelectorError(ValueError):
    """A label selector has an operator that Kubernetes does not have."""


@dataclass(frozen=True)
class Sources:
    """Where an agent reads its configuration, by the arguments of its container ``config``.

    :ivar node_configs: it reads CiliumNodeConfigs. :ivar node: it reads labels and annotations of its Node. :ivar allowed: keys that these may set; None: all
        that are not in ``denied``.
    """

    node_configs: bool = True
    node: bool = False
    allowed: Optional[Tuple[str, ...]] = None
    denied: Tuple[str, ...] = ()

    def may_set(self, key: str) -> bool:
        """Whether a key may be set by another source than the ConfigMap."""
        return key in self.allowed if self.allowed is not None else key not in self.denied


def sources_of(daemon_set: Mapping[str, Any]) -> Sources:
    """The sources of the agents of a DaemonSet."""
    spec = ((daemon_set.get("spec") or {}).get("template") or {}).get("spec") or {}
    words: List[str] = []
    for container in spec.get("initContainers") or []:
        if container.get("name") == "config":
            words = [str(word) for word in [*(container.get("command") or []), *(container.get("args") or [])]]
    given: Dict[str, List[str]] = {}
    for index, word in enumerate(words):
        name, equals, value = word.partition("=")
        if name in ("--source", "--allow-config-keys", "--deny-config-keys"):
            value = value if equals else words[index + 1] if index + 1 < len(words) else ""
            given.setdefault(name, []).extend(part for part in value.split(",") if part)
    sources = given.get("--source")
    return Sources(
        node_configs=sources is None or any(source.startswith("cilium-node-config") for source in sources),
        node=any(re.match(r"node(:|$)", source) for source in sources or []),
        allowed=tuple(given["--allow-config-keys"]) if given.get("--allow-config-keys") else None,
        denied=tuple(given.get("--deny-config-keys") or ()),
    )


def selects(selector: Optional[Mapping[str, Any]], labels: Mapping[str, str]) -> bool:
    """Whether a label selector selects labels; an empty one selects all, none selects nothing.

    :raises SelectorError: unknown operator.
    """
    if selector is None:
        return False
    if any(labels.get(key) != value for key, value in (selector.get("matchLabels") or {}).items()):
        return False
    for rule in selector.get("matchExpressions") or []:
        key, operator, values = rule.get("key"), rule.get("operator"), rule.get("values") or []
        if operator == "In":
            holds = labels.get(key) in values if key in labels else False
        elif operator == "NotIn":
            holds = key not in labels or labels[key] not in values
        elif operator == "Exists":
            holds = key in labels
        elif operator == "DoesNotExist":
            holds = key not in labels
        else:
            raise SelectorError(f"found operator '{operator}', wanted In, NotIn, Exists or DoesNotExist")
        if not holds:
            return False
    return True


def merged(
    config: Mapping[str, str], objects: Sequence[Mapping[str, Any]], node: Mapping[str, Any], sources: Sources = Sources(),
) -> Dict[str, Setting]:
    """What an agent of a Node is started with: key to value and source.

    :param config: ``data`` of the ConfigMap. :param objects: CiliumNodeConfigs of its namespace; those of others are not read.
    :raises SelectorError: of one of the objects.
    """
    found = {key: (str(value), f"ConfigMap {NAMESPACE}/{CONFIG_MAP}") for key, value in config.items()}

    def take(more: Mapping[str, Any], source: str) -> None:
        found.update({key: (str(value), source) for key, value in more.items() if sources.may_set(key)})

    if sources.node_configs:
        for item in sorted(_matching(objects, labels_of(node)), key=name_of):
            take((item.get("spec") or {}).get("defaults") or {}, source_name(item))
    if sources.node:
        meta = node.get("metadata") or {}
        for kind in ("labels", "annotations"):
            own = {key[len(NODE_KEY):]: value for key, value in (meta.get(kind) or {}).items() if key.startswith(NODE_KEY)}
            take(own, f"{kind} of the Node")
    return found


def _matching(objects: Sequence[Mapping[str, Any]], labels: Mapping[str, str]) -> List[Mapping[str, Any]]:
    chosen = []
    for item in objects:
        if (item.get("metadata") or {}).get("namespace", NAMESPACE) != NAMESPACE:
            continue
        try:
            if selects((item.get("spec") or {}).get("nodeSelector"), labels):
                chosen.append(item)
        except SelectorError as error:
            raise SelectorError(f"{source_name(item)}: {error}") from error
    return chosen


def name_of(item: Mapping[str, Any]) -> str:
    """Name of an object."""
    return str((item.get("metadata") or {}).get("name"))


def source_name(item: Mapping[str, Any]) -> str:
    """A CiliumNodeConfig as reports name it."""
    return f"CiliumNodeConfig {NAMESPACE}/{name_of(item)}"


# -- knobs and keys


def configured(settings: Mapping[str, Setting]) -> Dict[str, Dict[str, Any]]:
    """Settings of an agent as knobs: ``{knob: {value, source}}``, in the form that a plan has.

    What nobody sets is as the agent has it without (veth, off), its source null; without ``devices`` the agent chooses, which is null. A value that is none is
    given as it stands.
    """
    result = {}
    for knob, keys in KEYS.items():
        given = {key: settings[key] for key in keys if key in settings}
        places = [source for _value, source in given.values()]
        # One object of a node decides, if there is one among them.
        source = next((place for place in places if not place.startswith("ConfigMap ")), places[0] if places else None)
        try:
            value = _value(knob, {key: text for key, (text, _source) in given.items()})
        except ValueError:
            value = ", ".join(f"{key}: {text}" for key, (text, _source) in given.items())
        result[knob] = {"value": value, "source": source}
    return result


def _value(knob: str, given: Mapping[str, str]) -> Any:
    if knob == "cilium.datapath_mode":
        return given.get("datapath-mode") or "veth"
    if knob == "cilium.big_tcp":
        return [family for family in ("ipv4", "ipv6") if _flag(given, f"enable-{family}-big-tcp")]
    if knob == "cilium.devices":
        return sorted({name for name in re.split(r"[\s,]+", given["devices"]) if name}) or None if "devices" in given else None
    if knob == "cilium.xdp":
        return given.get("bpf-lb-acceleration") or "disabled"
    if knob == "cilium.bpf_maps":
        ratio = given.get("bpf-map-dynamic-size-ratio")
        return {"distributed_lru": _flag(given, "bpf-distributed-lru"), "ratio": float(ratio) if ratio else None}
    if knob == "cilium.clock":
        return _flag(given, "enable-bpf-clock-probe")
    return {"enabled": _flag(given, "enable-bandwidth-manager"), "bbr": _flag(given, "enable-bbr")}


def _flag(given: Mapping[str, str], key: str) -> bool:
    # As Go's strconv.ParseBool reads it.
    text = given.get(key) or "false"
    if text in ("1", "t", "T", "TRUE", "true", "True"):
        return True
    if text in ("0", "f", "F", "FALSE", "false", "False"):
        return False
    raise ValueError(text)


def own(found: Mapping[str, Mapping[str, Any]]) -> Dict[str, Any]:
    """Knobs of a node that an object of ours sets, with their values, of what :func:`configured` returned: the way back to it."""
    ours = f"CiliumNodeConfig {NAMESPACE}/{PREFIX}"
    return {knob: found[knob]["value"] for knob in NODE_KEYS if str(found[knob]["source"] or "").startswith(ours)}


def defaults(wanted: Mapping[str, Any]) -> Dict[str, str]:
    """Keys and values of the agent for the knobs of a plan that may differ from node to node; none for knobs that it does not have."""
    found: Dict[str, str] = {}
    if wanted.get("cilium.datapath_mode") is not None:
        found["datapath-mode"] = str(wanted["cilium.datapath_mode"])
    if wanted.get("cilium.big_tcp") is not None:
        for family in ("ipv4", "ipv6"):
            found[f"enable-{family}-big-tcp"] = "true" if family in wanted["cilium.big_tcp"] else "false"
    if wanted.get("cilium.devices"):
        found["devices"] = " ".join(sorted(wanted["cilium.devices"]))
    if wanted.get("cilium.xdp") is not None:
        found["bpf-lb-acceleration"] = str(wanted["cilium.xdp"])
    return dict(sorted(found.items()))


def digest(values: Mapping[str, str]) -> str:
    """The name of a set of values: ten hexadecimal digits."""
    return hashlib.sha256(json.dumps(dict(values), sort_keys=True).encode()).hexdigest()[:10]


def build(values: Mapping[str, str]) -> Dict[str, Any]:
    """The CiliumNodeConfig for nodes with these values."""
    name = digest(values)
    return {
        "apiVersion": API_VERSION, "kind": "CiliumNodeConfig",
        "metadata": {"name": f"{PREFIX}{name}", "namespace": NAMESPACE, "annotations": {ANNOTATION: "inferops.locality"}},
        "spec": {"nodeSelector": {"matchLabels": {LABEL: name}}, "defaults": dict(values)},
    }


def is_ours(item: Mapping[str, Any]) -> bool:
    """Whether a CiliumNodeConfig was written by this collection."""
    return name_of(item).startswith(PREFIX) and ANNOTATION in ((item.get("metadata") or {}).get("annotations") or {})


# -- what to do


@dataclass(frozen=True)
class Change:
    """What to do so that a Node has its values, in this order.

    :ivar label: value of the label of the Node, None to take it away. :ivar relabel: the Node has another one now. :ivar write: the object to be there, None
        for none. :ivar replaces: the object of this name that is there and differs. :ivar remove: objects of ours that no Node is left for.
    """

    label: Optional[str]
    relabel: bool
    write: Optional[Dict[str, Any]] = None
    replaces: Optional[Dict[str, Any]] = None
    remove: Tuple[Dict[str, Any], ...] = ()

    @property
    def anything(self) -> bool:
        return bool(self.relabel or self.write or self.remove)


def refusals(
    wanted: Mapping[str, Any], objects: Sequence[Mapping[str, Any]], node: Mapping[str, Any], sources: Sources = Sources(),
) -> List[Dict[str, str]]:
    """What keeps this collection from giving a Node its values, as error findings, all at once.

    :raises SelectorError: of one of the objects.
    """
    found = findings_m.Findings()
    values = defaults(wanted)
    if not values:
        return []
    mine = build(values)
    if not sources.node_configs:
        found.error(
            "cilium.node_config_not_read",
            f"the agents do not read CiliumNodeConfigs: found no cilium-node-config in --source of DaemonSet {NAMESPACE}/{DAEMON_SET}",
            "leave the chart's daemon.configSources unset, or add cilium-node-config to it",
        )
    blocked = [key for key in values if not sources.may_set(key)]
    if blocked:
        found.error(
            "cilium.key_not_allowed", f"the agents let no CiliumNodeConfig set {', '.join(blocked)}",
            "add these to the chart's daemon.allowedConfigOverrides, or take them out of daemon.blockedConfigOverrides",
        )
    after = {**labels_of(node), LABEL: mine["spec"]["nodeSelector"]["matchLabels"][LABEL]}
    for item in sorted(objects, key=name_of):
        if name_of(item) == name_of(mine) and not is_ours(item):
            found.error(
                "cilium.name_taken", f"{source_name(item)} has no annotation {ANNOTATION}: it has our name and is not ours", "delete or rename it",
            )
    for item in sorted(_matching(objects, after), key=name_of):
        both = [key for key in values if key in ((item.get("spec") or {}).get("defaults") or {})]
        if both and name_of(item) != name_of(mine):
            found.error(
                "cilium.foreign_config", f"{source_name(item)} selects this node and sets {', '.join(both)}, which its plan sets too",
                "take these keys out of it, or the node out of its nodeSelector",
            )
    if sources.node:
        meta = node.get("metadata") or {}
        own = [key for key in values for kind in ("labels", "annotations") if NODE_KEY + key in (meta.get(kind) or {})]
        if own:
            found.error(
                "cilium.foreign_config", f"labels or annotations of the Node ({', '.join(NODE_KEY + key for key in own)}) set what its plan sets too",
                "remove them",
            )
    return found.sorted()


def decide(
    wanted: Mapping[str, Any], objects: Sequence[Mapping[str, Any]], node: Mapping[str, Any], labels_in_use: Sequence[str],
) -> Change:
    """What has to be changed so that a Node has the values of a plan; with ``wanted`` empty, none of ours.

    :param labels_in_use: the label's values on the other Nodes.
    """
    values = defaults(wanted)
    mine = build(values) if values else None
    label = mine["spec"]["nodeSelector"]["matchLabels"][LABEL] if mine else None
    there = {name_of(item): item for item in objects if is_ours(item)}
    keep = {f"{PREFIX}{value}" for value in labels_in_use} | ({name_of(mine)} if mine else set())
    remove = tuple(dict(item) for name, item in sorted(there.items()) if name not in keep)
    current = there.get(name_of(mine)) if mine else None
    same = current is not None and mine is not None and current.get("spec") == mine["spec"]
    return Change(
        label, labels_of(node).get(LABEL) != label, write=None if same else mine,
        replaces=dict(current) if current is not None and not same else None, remove=remove,
    )


__all__ = (
    "ANNOTATION", "API_VERSION", "CONFIG_MAP", "DAEMON_SET", "KEYS", "LABEL", "NAMESPACE", "NODE_KEYS", "PREFIX", "Change", "SelectorError", "Sources",
    "build", "configured", "decide", "defaults", "digest", "is_ours", "merged", "name_of", "own", "refusals", "selects", "source_name",
    "sources_of",
)
