# Copyright (c) 2026 The inferops.locality authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Check the parameters that a claim gives to DRANET for its NICs, before the driver refuses them when a pod starts.

DRANET decodes them strictly (v1.4.0, pkg/apis): one unknown key and the pod stays in ContainerCreating. The parameters are a bare object without
apiVersion and kind.
"""

from __future__ import annotations

import difflib
import ipaddress
import re
from typing import Any, Callable, Dict, Mapping, Optional

from ansible_collections.inferops.locality.plugins.module_utils import findings as findings_m

__all__ = ["check"]

_INTERFACE = re.compile(r"[^\s/:]{1,15}")
_MAC = re.compile(r"[0-9a-fA-F]{2}(:[0-9a-fA-F]{2}){5}(([:][0-9a-fA-F]{2}){14})?")
# Those need an interface; an RDMA-only device (InfiniBand without a netdev) has none.
_OF_AN_INTERFACE = ("interface", "routes", "rules", "neighbors", "ethtool")

_Rule = Callable[[Any], bool]


def _text(value: Any) -> bool:
    return isinstance(value, str)


def _bool(value: Any) -> bool:
    return isinstance(value, bool)


def _int(low: int, high: Optional[int] = None) -> _Rule:
    return lambda value: isinstance(value, int) and not isinstance(value, bool) and value >= low and (high is None or value <= high)


def _address(value: Any) -> bool:
    try:
        ipaddress.ip_address(value)
    except ValueError:
        return False
    return isinstance(value, str)


def _prefix(value: Any) -> bool:
    try:
        ipaddress.ip_interface(value)
    except ValueError:
        return False
    return isinstance(value, str) and "/" in value


def _flags(value: Any) -> bool:
    return isinstance(value, Mapping) and all(isinstance(key, str) and isinstance(item, bool) for key, item in value.items())


_SIZE = (_int(1), "a number of bytes from 1")
_TABLE = (_int(0), "the number of a routing table from 0")
_PREFIX = (_prefix, "an address with its prefix, such as 192.0.2.0/24")
_ADDRESS = (_address, "an IP address")
_MAC_RULE = (lambda value: _text(value) and bool(_MAC.fullmatch(value)), "a hardware address such as 02:00:00:00:00:01")
_INTERFACE_RULE = (lambda value: _text(value) and bool(_INTERFACE.fullmatch(value)), "the name of an interface, at most 15 characters without blanks, / and :")

# A key: what it takes. A mapping: its own keys; a list of one mapping: a list of such, with the keys that must be there.
_KEYS: Dict[str, Any] = {
    "profile": (_text, "a text"),
    "interface": {
        "name": _INTERFACE_RULE,
        "addresses": (lambda value: isinstance(value, list) and all(map(_prefix, value)), "a list of addresses with their prefix, such as 192.0.2.7/24"),
        "dhcp": (_bool, "true or false"),
        "mtu": (_int(68), "a number from 68"),
        "hardwareAddr": _MAC_RULE,
        "gsoMaxSize": _SIZE, "groMaxSize": _SIZE, "gsoIPv4MaxSize": _SIZE, "groIPv4MaxSize": _SIZE,
        "disableEbpfPrograms": (_bool, "true or false"),
        "forwarding": (_bool, "true or false"),
        "vrf": {"name": _INTERFACE_RULE, "table": _TABLE},
    },
    "routes": ({
        "destination": (lambda value: _prefix(value) or _address(value), "an address, with its prefix where it is a network"),
        "gateway": _ADDRESS, "source": _ADDRESS, "scope": (lambda value: _int(0)(value) and value in (0, 253), "0 (universe) or 253 (link)"), "table": _TABLE,
    }, ("destination",)),
    "rules": ({"priority": (_int(0, 32767), "a number from 0 to 32767"), "source": _PREFIX, "destination": _PREFIX, "table": _TABLE}, ()),
    "neighbors": ({"destination": _ADDRESS, "hardwareAddr": _MAC_RULE}, ("destination", "hardwareAddr")),
    "ethtool": {
        "features": (_flags, "a mapping of a feature's name to true or false"),
        "privateFlags": (_flags, "a mapping of a flag's name to true or false"),
    },
}


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."


class _Check:
    def __init__(self, found: findings_m.Findings) -> None:
        self.found = found

    def wrong(self, path: str, value: Any, wanted: str, hint: str = "") -> None:
        self.found.error("dra.network_config", f"{path}: found {_shown(value)}, wanted {wanted}", hint)

    def mapping(self, value: Any, keys: Mapping[str, Any], path: str) -> None:
        if not isinstance(value, Mapping):
            self.wrong(path, value, "a mapping")
            return
        for key, item in value.items():
            if key not in keys:
                near = difflib.get_close_matches(str(key), list(keys), 1, 0.6)
                hint = f"the nearest known key is {near[0]}" if near else f"known here: {', '.join(keys)}"
                self.found.error("dra.network_config", f"{path}.{key}: unknown key; DRANET would refuse the pod's claim", hint)
                continue
            self.key(item, keys[key], f"{path}.{key}")

    def key(self, item: Any, rule: Any, path: str) -> None:
        if isinstance(rule, dict):
            self.mapping(item, rule, path)
        elif isinstance(rule[0], dict):
            if not isinstance(item, list):
                self.wrong(path, item, "a list")
                return
            for index, entry in enumerate(item):
                self.mapping(entry, rule[0], f"{path}[{index}]")
                for name in rule[1]:
                    if isinstance(entry, Mapping) and name not in entry:
                        self.found.error("dra.network_config", f"{path}[{index}].{name}: missing", "add the key")
        elif not rule[0](item):
            self.wrong(path, item, rule[1])


def check(config: Any, path: str, found: findings_m.Findings, *, rdma_only: bool = False) -> None:
    """Check one object of parameters.

    :param config: the object, ``{}`` for none.
    :param path: where it stands, for messages.
    :param rdma_only: the NICs have no network interface.
    """
    _Check(found).mapping(config, _KEYS, path)
    if not isinstance(config, Mapping):
        return
    interface = config.get("interface")
    interface = interface if isinstance(interface, Mapping) else {}
    if interface.get("dhcp") is True and interface.get("addresses"):
        found.error("dra.network_config", f"{path}.interface: dhcp and addresses exclude each other", "keep one of them")
    if config.get("rules") and interface.get("vrf"):
        found.error(
            "dra.network_config", f"{path}.rules: found rules beside interface.vrf, which brings its own", "leave the rules out, or the vrf"
        )
    if rdma_only:
        for key in _OF_AN_INTERFACE:
            if config.get(key):
                found.error("dra.network_config", f"{path}.{key}: the NICs are RDMA only and have no network interface", "remove the key")
