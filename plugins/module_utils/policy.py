# Copyright (c) 2026 The inferops.locality authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the operator wants: the JSON schemas of ``locality_policy`` and ``locality_chassis``, their defaults and their check.

The schemas are plain JSON schema, so editors can use them. They are checked by the small validator here and not by the
jsonschema library for two reasons: a node has no such library, and a message must name the key, the value that was found
and the nearest key that exists. Everything that is wrong is reported at once.
"""

from __future__ import annotations

import copy
import difflib
import re
from typing import Any, Dict, List, Optional, Tuple

from ansible_collections.inferops.locality.plugins.module_utils import dranet_config
from ansible_collections.inferops.locality.plugins.module_utils import findings as findings_m
from ansible_collections.inferops.locality.plugins.module_utils import quantity

CPU_MANAGER_OPTIONS: Tuple[str, ...] = (
    "align-by-socket",
    "distribute-cpus-across-cores",
    "distribute-cpus-across-numa",
    "full-pcpus-only",
    "prefer-align-cpus-by-uncorecache",
    "strict-cpu-reservation",
)

PROFILES: Dict[str, int] = {"minimal": 8, "standard": 12, "observability": 16, "full": 20}

_PCI_ADDRESS = r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]"

# A bridge as pci= names it (drivers/pci/pci.c pci_dev_str_match): an address, a path from one, or a pair (or four) of ids.
_BRIDGE = rf"^({_PCI_ADDRESS}(/[0-9a-f]{{2}}\.[0-7])*|pci:[0-9a-f]{{1,4}}:[0-9a-f]{{1,4}}(:[0-9a-f]{{1,4}}:[0-9a-f]{{1,4}})?)$"

# Labels of Kubernetes (apimachinery pkg/util/validation): a name of 63 characters behind an optional DNS subdomain of 253.
_LABEL_NAME = r"[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?"
_LABEL_KEY = rf"^((?=[^/]{{1,253}}/)[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*/)?{_LABEL_NAME}(?!\n)$"
_LABEL_VALUE = rf"^({_LABEL_NAME})?(?!\n)$"

# More than the interrupts a PCI device can have (MSI-X: 2048) is a slip of the pen on any machine.
MOST_QUEUES = 2048
# The word for as many queues as a NIC has housekeeping CPUs.
FITTED = "fitted"

# The word for the interfaces that carry the default route.
UPLINK = "uplink"
IP_FAMILIES: Tuple[str, ...] = ("ipv4", "ipv6")
DATAPATH_MODES: Tuple[str, ...] = ("veth", "netkit", "netkit-l2")
XDP_MODES: Tuple[str, ...] = ("disabled", "native", "best-effort")
# What Linux takes as the name of an interface (net/core/dev.c dev_valid_name), less the signs that no driver or udev rule gives one.
_INTERFACE = r"^(?!\.{1,2}$)[A-Za-z0-9_.-]{1,15}$"
# Names of Kubernetes objects (DNS subdomain) and namespaces (DNS label).
_OBJECT_NAME = r"^(?=.{1,200}$)[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*(?!\n)$"
_NAMESPACE = r"^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?(?!\n)$"
# Cilium's own (pkg/defaults/defaults.go): the share of the memory that its maps are sized by.
MAP_RATIO = 0.0025

# Formats are named in the schemas as JSON schema allows; what they mean is in _format below.
_QUANTITY = {"type": ["string", "integer"], "format": "quantity"}
_BOOL = {"type": "boolean"}


def _object(properties: Dict[str, Any], **more: Any) -> Dict[str, Any]:
    return {"type": "object", "properties": properties, "additionalProperties": False, **more}


def _default(value: Any, **schema: Any) -> Dict[str, Any]:
    return {**schema, "default": value}


POLICY_SCHEMA: Dict[str, Any] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "title": "locality_policy",
    **_object(
        {
            "housekeeping": _default(
                {"cores_per_numa_node": 1},
                **_object(
                    {
                        "cores_per_numa_node": {"type": "integer", "minimum": 1},
                        "cores": {"type": "integer", "minimum": 1},
                        "profile": {"type": "string", "enum": list(PROFILES)},
                        "cpus": {"type": "string", "format": "cpu-list"},
                    },
                    minProperties=1,
                    maxProperties=1,
                ),
            ),
            "isolation": _object(
                {
                    "scheduler": _default("balanced", type="string", enum=["balanced", "isolated"]),
                    "managed_irqs": _default(True, **_BOOL),
                    "tickless": _default(False, **_BOOL),
                    "system_slices": _default(True, **_BOOL),
                }
            ),
            "hugepages": _default(
                {},
                type="object",
                propertyNames={"format": "page-size"},
                additionalProperties={
                    "type": "object",
                    "propertyNames": {"pattern": r"^(0|[1-9][0-9]*)$"},
                    "additionalProperties": {"type": "integer", "minimum": 0},
                },
            ),
            "memory": _object(
                {
                    "system_reserved": _default("8Gi", **_QUANTITY),
                    "kube_reserved": _default("4Gi", **_QUANTITY),
                    "eviction_hard": _default("500Mi", **_QUANTITY),
                }
            ),
            "cpu_policy": _default("kubelet-static", type="string", enum=["kubelet-static"]),
            "kubelet": _object(
                {
                    "topology_manager_policy": _default(
                        "single-numa-node",
                        type="string",
                        enum=["none", "best-effort", "restricted", "single-numa-node"],
                    ),
                    "topology_manager_scope": _default("pod", type="string", enum=["container", "pod"]),
                    "memory_manager_policy": _default("Static", type="string", enum=["None", "Static"]),
                    "cpu_manager_options": _default(
                        ["full-pcpus-only"],
                        type="array",
                        uniqueItems=True,
                        items={"type": "string", "enum": list(CPU_MANAGER_OPTIONS)},
                    ),
                    "labels": _default(
                        {},
                        type="object",
                        propertyNames={"pattern": _LABEL_KEY},
                        additionalProperties={"type": "string", "pattern": _LABEL_VALUE},
                    ),
                    "taints": _default(
                        [],
                        type="array",
                        uniqueItems=True,
                        items={"type": "string", "pattern": r"^[^=:\s]+(=[^=:\s]*)?:(NoSchedule|PreferNoSchedule|NoExecute)$"},
                    ),
                }
            ),
            "host": _object(
                {
                    "thp": _default("madvise", type=["string", "null"], enum=["always", "madvise", "never", None]),
                    "thp_defrag": _default(
                        "madvise",
                        type=["string", "null"],
                        enum=["always", "defer", "defer+madvise", "madvise", "never", None],
                    ),
                    "swappiness": _default(0, type=["integer", "null"], minimum=0, maximum=200),
                    "numa_balancing": _default(0, type=["integer", "null"], minimum=0, maximum=2),
                    "governor": _default("performance", type=["string", "null"], pattern=r"^[a-z_]+$"),
                    # 0 means "no limit" to pm_qos_resume_latency_us, the opposite of what it says here.
                    "max_latency_us": _default(None, type=["integer", "null"], minimum=1),
                    "memlock": _default("infinity", type=["string", "integer", "null"], format="memlock"),
                    "irqbalance": _default("disabled", type=["string", "null"], enum=["disabled", "enabled", "banned", None]),
                    "tuned_parent": _default(None, type=["string", "null"], pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$"),
                }
            ),
            "irq": _object(
                {
                    "devices": _default(
                        ["nic"],
                        type="array",
                        uniqueItems=True,
                        items={"type": "string", "pattern": rf"^(nic|rdma|nvme|gpu|accelerator|{_PCI_ADDRESS})$"},
                    ),
                    "strategy": _default("spread", type="string", enum=["spread", "mask"]),
                    "queues": _default(None, type=["integer", "string", "null"], minimum=1, maximum=MOST_QUEUES, pattern=f"^{FITTED}$"),
                    "rps": _default(False, **_BOOL),
                }
            ),
            "pcie": _object(
                {
                    # An unquoted off is a boolean in YAML 1.1; nothing else can have been meant.
                    "iommu": _default(None, type=["string", "boolean", "null"], enum=["pt", "off", None, False]),
                    "acs_off": _default(
                        [],
                        type="array",
                        uniqueItems=True,
                        items={
                            "type": "string",
                            "pattern": _BRIDGE,
                        },
                    ),
                    "justification": _default(None, type=["string", "null"]),
                    "owner": _default(None, type=["string", "null"]),
                    "force": _default(False, **_BOOL),
                    "min_link_width": _default(None, type=["integer", "null"], enum=[1, 2, 4, 8, 16, 32, None]),
                }
            ),
            # Null leaves everything of Cilium as it is.
            "network": _object(
                {
                    "datapath_mode": _default(None, type=["string", "null"], enum=[*DATAPATH_MODES, None]),
                    "big_tcp": _default(None, type=["array", "null"], uniqueItems=True, items={"type": "string", "enum": list(IP_FAMILIES)}),
                    "devices": _default(
                        None,
                        type=["string", "array", "null"],
                        pattern=f"^{UPLINK}$",
                        minItems=1,
                        uniqueItems=True,
                        items={"type": "string", "pattern": _INTERFACE},
                    ),
                    "xdp": _default(None, type=["string", "null"], enum=[*XDP_MODES, None]),
                    "routing": _default(None, type=["string", "null"], enum=["direct", "bgp", None]),
                    "bpf_maps": _default(
                        None,
                        **{
                            **_object(
                                {
                                    "distributed_lru": _default(False, **_BOOL),
                                    "ratio": _default(MAP_RATIO, type=["integer", "number"], exclusiveMinimum=0, maximum=1),
                                }
                            ),
                            "type": ["object", "null"],
                        },
                    ),
                    "clock_probe": _default(None, type=["boolean", "null"]),
                    "bandwidth_manager": _default(
                        None,
                        **{**_object({"enabled": _default(True, **_BOOL), "bbr": _default(False, **_BOOL)}), "type": ["object", "null"]},
                    ),
                }
            ),
            "dra": _object(
                {
                    # null: left as it is, nothing is installed and nothing removed.
                    "dranet": _default(None, type=["boolean", "null"]),
                    "gpus": _default("device-plugin", type="string", enum=["device-plugin", "nvidia-dra"]),
                    "align": _default("auto", type="string", enum=["auto", "pcie_root", "numa_node"]),
                    # A claim has at most 32 requests, and a pair takes two.
                    "pairs": _default([1, 2, 4, 8], type="array", uniqueItems=True, items={"type": "integer", "minimum": 1, "maximum": 16}),
                    "gpu_class": _default("gpu.nvidia.com", type="string", pattern=_OBJECT_NAME),
                    "nic_class": _default("dranet-rdma", type="string", pattern=_OBJECT_NAME),
                    "template": _default("gpu-nic", type="string", pattern=_OBJECT_NAME),
                    "namespaces": _default([], type="array", uniqueItems=True, items={"type": "string", "pattern": _NAMESPACE}),
                    "uplinks": _default([], type="array", uniqueItems=True, items={"type": "string", "pattern": _INTERFACE}),
                    # As DRANET takes it; dranet_config checks it.
                    "network_config": _default({}, type="object"),
                }
            ),
        }
    ),
}

CHASSIS_SCHEMA: Dict[str, Any] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "title": "locality_chassis",
    **_object(
        {
            "sockets": {"type": "integer", "minimum": 1},
            "threads_per_core": {"type": "integer", "minimum": 1},
            "cores": {"type": "integer", "minimum": 1},
            "memory_tolerance_percent": _default(5, type=["integer", "number"], minimum=0, maximum=100),
            "gpus": {"type": "integer", "minimum": 0},
            "nvme": {"type": "integer", "minimum": 0},
            "numa_nodes": {
                "type": "object",
                "propertyNames": {"pattern": r"^(0|[1-9][0-9]*)$"},
                "additionalProperties": _object(
                    {
                        "memory": _QUANTITY,
                        "cores": {"type": "integer", "minimum": 0},
                        "gpus": {"type": "integer", "minimum": 0},
                        "nics": {"type": "integer", "minimum": 0},
                        "nvme": {"type": "integer", "minimum": 0},
                    }
                ),
            },
            "nics": {
                "type": "array",
                "items": _object(
                    {
                        "slot": {"type": "string", "pattern": rf"^{_PCI_ADDRESS}$"},
                        "speed_gbps": {"type": ["integer", "number"], "minimum": 0},
                    },
                    required=["slot"],
                ),
            },
        }
    ),
}

# Public names of DESIGN that have no meaning here yet. Accepting one silently would promise what nothing does.
NOT_YET_KEYS: Tuple[str, ...] = (
    "nri_balloons",
    "pod_pinning_info",
    "guaranteed_resources",
    "pod_fit",
    "taint_until_proved",
    "locality_taint_until_proved",
)
NOT_YET_VALUES: Dict[str, Tuple[Any, ...]] = {"locality_policy.cpu_policy": ("nri-balloons", "best-effort")}

_TYPES: Dict[str, Tuple[type, ...]] = {
    "object": (dict,),
    "array": (list, tuple),
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "null": (type(None),),
}
_NAMES = {
    "object": "a mapping",
    "array": "a list",
    "string": "a text",
    "integer": "a whole number",
    "number": "a number",
    "boolean": "true or false",
    "null": "null",
}


class PolicyError(ValueError):
    """A policy that cannot be used; ``findings`` has everything that is wrong with it."""

    def __init__(self, items: List[Dict[str, str]]) -> None:
        super().__init__(findings_m.listed(items))
        self.findings = items


def shown(value: Any) -> str:
    """A value as the operator typed it, cut to a length that a message can hold."""
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."


def defaults(schema: Dict[str, Any]) -> Any:
    """The value a schema has where nothing is given; keys without a default are left out."""
    if "default" in schema:
        return copy.deepcopy(schema["default"])
    result: Dict[str, Any] = {}
    for key, part in schema.get("properties", {}).items():
        if "default" in part or "properties" in part:
            result[key] = defaults(part)
    return result


def _is_type(value: Any, name: str) -> bool:
    if isinstance(value, bool):
        return name == "boolean"
    return isinstance(value, _TYPES[name])


def _places(schema: Dict[str, Any], path: str) -> Dict[str, str]:
    """Every key of a schema with the path at which it stands."""
    result: Dict[str, str] = {}
    for key, part in schema.get("properties", {}).items():
        result.setdefault(key, f"{path}.{key}")
        for inner, place in _places(part, f"{path}.{key}").items():
            result.setdefault(inner, place)
    return result


class _Check:
    def __init__(self, schema: Dict[str, Any], root: str, found: findings_m.Findings) -> None:
        self.root = root
        self.found = found
        self.places = _places(schema, root)

    def unknown(self, path: str, key: str, value: Any, known: List[str]) -> None:
        if path == self.root and key in NOT_YET_KEYS:
            self.found.error("policy.not_in_this_version", f"{path}.{key}: not in this version", "remove the key")
            return
        near = difflib.get_close_matches(key, known, 1, 0.6)
        if near:
            hint = f"the nearest known key is {path}.{near[0]}"
        elif key in self.places:
            hint = f"the key of that name is {self.places[key]}"
        else:
            elsewhere = difflib.get_close_matches(key, list(self.places), 1, 0.75)
            hint = f"the nearest known key is {self.places[elsewhere[0]]}" if elsewhere else f"known here: {', '.join(known)}"
        self.found.error("policy.unknown_key", f"{path}.{key}: unknown key (value {shown(value)})", hint)

    def wrong(self, path: str, value: Any, wanted: str) -> None:
        self.found.error("policy.wrong_value", f"{path}: found {shown(value)}, wanted {wanted}", "")

    def value(self, value: Any, schema: Dict[str, Any], path: str, fallback: Any) -> Any:
        """The checked value with defaults filled in; the fallback where it is wrong."""
        types = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
        if not any(_is_type(value, name) for name in types):
            # A key whose whole section is left empty in YAML is null; that means the section's defaults.
            if value is None and "object" in types:
                return copy.deepcopy(fallback)
            self.found.error(
                "policy.wrong_type",
                f"{path}: found {shown(value)} ({_kind(value)}), wanted {' or '.join(_NAMES[name] for name in types)}",
                "",
            )
            return copy.deepcopy(fallback)
        if isinstance(value, dict):
            return self._mapping(value, schema, path, fallback)
        if isinstance(value, (list, tuple)):
            return self._sequence(list(value), schema, path, fallback)
        return self._scalar(value, schema, path, fallback)

    def _mapping(self, value: Dict[Any, Any], schema: Dict[str, Any], path: str, fallback: Any) -> Any:
        # YAML reads 0: as a number; JSON knows texts only.
        value = {str(key) if isinstance(key, int) and not isinstance(key, bool) else key: item for key, item in value.items()}
        properties = schema.get("properties")
        if properties is None:
            return self._free(value, schema, path)
        # Of a choice of forms (housekeeping) the default goes away as soon as another form is chosen.
        choice = "maxProperties" in schema
        result: Dict[str, Any] = {} if choice else defaults({"properties": properties})
        for key, item in value.items():
            if key not in properties:
                self.unknown(path, str(key), item, list(properties))
                continue
            good = self.value(item, properties[key], f"{path}.{key}", _BAD if choice else result.get(key, _BAD))
            if good is not _BAD:
                result[key] = good
        for key in schema.get("required", ()):
            if key not in value:
                self.found.error("policy.missing_key", f"{path}.{key}: missing", "add the key")
        named = [key for key in value if key in properties]
        if choice and len(named) != 1:
            if len(named) > 1 or not value:
                self.wrong(path, value, f"exactly one of {', '.join(properties)}")
            return copy.deepcopy(fallback)
        return result if result or not choice else copy.deepcopy(fallback)

    def _free(self, value: Dict[Any, Any], schema: Dict[str, Any], path: str) -> Dict[str, Any]:
        names = schema.get("propertyNames", {})
        inner = schema.get("additionalProperties")
        result: Dict[str, Any] = {}
        for key, item in value.items():
            if not isinstance(key, str):
                self.wrong(f"{path}.{shown(key)}", key, "a text as key")
                continue
            if "pattern" in names and not re.search(names["pattern"], key):
                self.wrong(f"{path}.{key}", key, _KEY_PATTERNS.get(names["pattern"], 'the number of a NUMA node as key, such as "0"'))
                continue
            if names.get("format") == "page-size" and not _page_size(key):
                self.wrong(f"{path}.{key}", key, "a page size as key, such as 2Mi or 1Gi")
                continue
            if inner is None:
                result[key] = item
                continue
            good = self.value(item, inner, f"{path}.{key}", _BAD)
            if good is not _BAD:
                result[key] = good
        return result

    def _sequence(self, value: List[Any], schema: Dict[str, Any], path: str, fallback: Any) -> Any:
        result: List[Any] = []
        if len(value) < schema.get("minItems", 0):
            self.wrong(path, value, f"at least {schema['minItems']} item" + ("s" if schema["minItems"] > 1 else ""))
            return copy.deepcopy(fallback)
        for index, item in enumerate(value):
            good = self.value(item, schema["items"], f"{path}[{index}]", _BAD)
            if good is _BAD:
                continue
            if schema.get("uniqueItems") and good in result:
                self.wrong(f"{path}[{index}]", item, "each item once")
                continue
            result.append(good)
        return result

    def _scalar(self, value: Any, schema: Dict[str, Any], path: str, fallback: Any) -> Any:
        wanted = None
        if value in NOT_YET_VALUES.get(path, ()):
            self.found.error(
                "policy.not_in_this_version",
                f"{path}: {shown(value)} is not in this version",
                f"use {', '.join(map(str, schema['enum']))}",
            )
            return copy.deepcopy(fallback)
        if "enum" in schema and not any(value == item and isinstance(value, bool) == isinstance(item, bool) for item in schema["enum"]):
            wanted = "one of " + ", ".join("null" if item is None else str(item) for item in schema["enum"] if item is not False)
            near = (
                difflib.get_close_matches(value, [item for item in schema["enum"] if isinstance(item, str)], 1, 0.6) if isinstance(value, str) else []
            )
            if "cpu_manager_options" in path and isinstance(value, str) and "=" in value:
                wanted += "; each option by its name alone: the kubelet takes one option per flag, and a list in one flag stops it"
            elif near:
                wanted += f" (nearest: {near[0]})"
        elif value is None:
            return value
        elif "minimum" in schema and _is_type(value, "number") and value < schema["minimum"]:
            wanted = f"at least {schema['minimum']}"
        elif "exclusiveMinimum" in schema and _is_type(value, "number") and not value > schema["exclusiveMinimum"]:
            wanted = f"more than {schema['exclusiveMinimum']}"
        elif "maximum" in schema and _is_type(value, "number") and value > schema["maximum"]:
            wanted = f"at most {schema['maximum']}"
        elif "pattern" in schema and isinstance(value, str) and not re.search(schema["pattern"], value):
            wanted = _PATTERNS.get(schema["pattern"], f"a text of the form {schema['pattern']}")
        elif "format" in schema:
            wanted = _format(schema["format"], value)
        if wanted is not None:
            self.wrong(path, value, wanted)
            return copy.deepcopy(fallback) if fallback is not _BAD else _BAD
        return value


class _Bad:
    def __deepcopy__(self, memo: Any) -> _Bad:
        return self


_BAD: Any = _Bad()

_LABEL_RULE = "up to 63 letters, digits, '-', '_' and '.', a letter or digit at both ends"
_KEY_PATTERNS = {_LABEL_KEY: f"a label key: {_LABEL_RULE}, with an optional DNS name and '/' before it"}

_PATTERNS = {
    f"^{FITTED}$": f"a number of queues, or {FITTED}: as many as the NIC has housekeeping CPUs",
    f"^{UPLINK}$": f"{UPLINK} (the interfaces of the default route), or a list of interfaces such as [eth0]",
    _OBJECT_NAME: "a name of a Kubernetes object: lower case letters, digits, '-' and '.', a letter or digit at both ends",
    _NAMESPACE: "the name of a namespace: lower case letters, digits and '-', at most 63",
    _INTERFACE: "the name of a network interface such as eth0",
    _LABEL_VALUE: f"a label value: empty, or {_LABEL_RULE}",
    POLICY_SCHEMA["properties"]["kubelet"]["properties"]["taints"]["items"]["pattern"]: "a taint such as key=value:NoSchedule",
    POLICY_SCHEMA["properties"]["irq"]["properties"]["devices"]["items"][
        "pattern"
    ]: "nic, rdma, nvme, gpu, accelerator or a PCI address such as 0000:18:00.0",
    POLICY_SCHEMA["properties"]["pcie"]["properties"]["acs_off"]["items"][
        "pattern"
    ]: "a bridge as the kernel names it: 0000:17:00.0, a path 0000:15:01.0/00.0 or pci:vendor:device, in lower case",
    CHASSIS_SCHEMA["properties"]["nics"]["items"]["properties"]["slot"]["pattern"]: "a PCI address such as 0000:18:00.0, in lower case",
}


def _kind(value: Any) -> str:
    for name in ("boolean", "null", "integer", "number", "string", "array", "object"):
        if _is_type(value, name):
            return _NAMES[name] if name != "boolean" else "a boolean"
    return type(value).__name__


def _page_size(text: str) -> bool:
    try:
        size = quantity.to_bytes(text)
        quantity.page_kernel(text)
    except quantity.QuantityError:
        return False
    return size >= 4096 and size & (size - 1) == 0


def _format(name: str, value: Any) -> Optional[str]:
    """What is wanted, where a value is not of a format."""
    if name == "memlock" and value == "infinity":
        return None
    if name in ("quantity", "memlock"):
        if isinstance(value, str) and value.strip().endswith("%"):
            return "an absolute quantity such as 500Mi: a share of the memory depends on what the kernel takes at each boot"
        try:
            size = quantity.to_bytes(value)
        except quantity.QuantityError as error:
            return f"a quantity such as 8Gi{' or infinity' if name == 'memlock' else ''} ({error})"
        if size == 0:
            return "a quantity above 0"
    return None


def check_policy(policy: Any) -> Tuple[Dict[str, Any], List[Dict[str, str]]]:
    """Check a policy and fill in its defaults.

    :returns: the normalised policy, in which every wrong value is replaced by its default so that planning can go on and find
        more, and the findings. ``pcie.iommu: off`` is a text even where YAML made it a boolean.
    """
    found = findings_m.Findings()
    result = _Check(POLICY_SCHEMA, "locality_policy", found).value(policy, POLICY_SCHEMA, "locality_policy", defaults(POLICY_SCHEMA))
    if result["pcie"]["iommu"] is False:
        result["pcie"]["iommu"] = "off"
    parameters = findings_m.Findings()
    dranet_config.check(result["dra"]["network_config"], "locality_policy.dra.network_config", parameters)
    if parameters.items:
        found.extend(parameters.items)
        result["dra"]["network_config"] = {}
    return result, found.items


def check_chassis(chassis: Any) -> Tuple[Dict[str, Any], List[Dict[str, str]]]:
    """Check the description of the expected hardware; as :func:`check_policy`, for ``locality_chassis``."""
    found = findings_m.Findings()
    result = _Check(CHASSIS_SCHEMA, "locality_chassis", found).value(chassis, CHASSIS_SCHEMA, "locality_chassis", defaults(CHASSIS_SCHEMA))
    return result, found.items


def normalise_policy(policy: Any) -> Dict[str, Any]:
    """The policy with its defaults; :raises PolicyError: with everything that is wrong in it."""
    result, items = check_policy(policy)
    if items:
        raise PolicyError(items)
    return result


__all__ = (
    "CHASSIS_SCHEMA",
    "CPU_MANAGER_OPTIONS",
    "DATAPATH_MODES",
    "FITTED",
    "IP_FAMILIES",
    "MAP_RATIO",
    "POLICY_SCHEMA",
    "PROFILES",
    "UPLINK",
    "XDP_MODES",
    "PolicyError",
    "check_chassis",
    "check_policy",
    "defaults",
    "normalise_policy",
    "shown",
)
