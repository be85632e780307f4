# Copyright (c) 2026 The inferops.locality authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The network interfaces that a CNI may attach to: which carry the default route, which stand on which, and how large a packet each takes.

Answers come from ``ip`` (iproute2); what it did not say is None, never a guess. Interfaces of pods and virtual functions, which are handed to them, are
left out.
"""

from __future__ import annotations

import json
import re
from typing import Any, Dict, List, Optional, Set

from ansible_collections.inferops.locality.plugins.module_utils.probe import Answer, Probe
from ansible_collections.inferops.locality.plugins.module_utils.sysroot import SysRoot

_NET = "/sys/class/net"
_LOWER = "lower_"
# What is kept of an answer of `ip link` in a snapshot: nothing that names the machine.
_LINK_KEYS = ("ifname", "mtu", "link_type", "tso_max_size", "tso_max_segs", "gso_max_size", "gro_max_size", "gso_ipv4_max_size", "gro_ipv4_max_size")
_NAME = re.compile(r"[A-Za-z0-9_.-]{1,15}")


def _json(answer: Optional[Answer]) -> Optional[List[Dict[str, Any]]]:
    """Objects that a command of iproute2 printed; None where it printed none, which an old one without ``-j`` does not."""
    if answer is None or answer.rc != 0:
        return None
    try:
        found = json.loads(answer.out or "[]")
    except ValueError:
        return None
    return [item for item in found if isinstance(item, dict)] if isinstance(found, list) else None


def _first_hops(routes: List[Dict[str, Any]]) -> Set[str]:
    """Devices of the default routes that count, those of the lowest metric; of each path where there are several."""
    usable = [route for route in routes if route.get("dst") == "default" and route.get("type", "unicast") == "unicast"]
    metrics = [metric if isinstance(metric, int) else 0 for metric in (route.get("metric") for route in usable)]
    found: Set[str] = set()
    for route, metric in zip(usable, metrics):
        if metric == min(metrics):
            hops = route.get("nexthops")
            found |= {str(hop["dev"]) for hop in [route, *(hops if isinstance(hops, list) else [])] if isinstance(hop, dict) and hop.get("dev")}
    return found


def _uplinks(probe: Probe) -> Optional[List[str]]:
    families = [routes for routes in (_json(probe.ask("ip-route")), _json(probe.ask("ip-route6"))) if routes is not None]
    if not families:
        return None
    return sorted(set().union(*(_first_hops(routes) for routes in families)) - {"lo"})


def _number(value: Any) -> Optional[int]:
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else None


def read(sysroot: SysRoot, probe: Probe) -> Dict[str, Any]:
    """``{uplinks, interfaces, vxlan}``. Never raises.

    ``uplinks`` are the names of the interfaces of the default routes, IPv4 and IPv6, sorted; None where nobody could say.
    ``interfaces`` are the physical ones (virtual functions left out), what stands on them (bonds, VLANs, bridges) and the uplinks, by name:
    ``{driver, physical, lower: [names], tso_max_size, gso_ipv4_max_size}``. ``tso_max_size`` is the largest packet in bytes that may be handed to it; None
    where iproute2 (before 6.0) or the kernel (before 5.19) does not say. ``gso_ipv4_max_size`` is there where the kernel knows BIG TCP of IPv4.
    ``vxlan`` are the names of the VXLAN devices, whoever made them; None where nobody could say.
    """
    uplinks = _uplinks(probe)
    lower: Dict[str, List[str]] = {}
    backed: Set[str] = set()
    physical: Set[str] = set()
    for name in sysroot.listdir(_NET):
        if not sysroot.is_dir(f"{_NET}/{name}"):
            continue
        names = sysroot.listdir(f"{_NET}/{name}")
        lower[name] = [part[len(_LOWER):] for part in names if part.startswith(_LOWER)]
        if "device" in names:
            backed.add(name)
            if not sysroot.exists(f"{_NET}/{name}/device/physfn"):
                physical.add(name)
    chosen = physical | {name for name in uplinks or () if name in lower}
    while True:
        above = {name for name, below in lower.items() if chosen & set(below)}
        # The ports of a bridge for virtual machines or containers carry nothing and end here.
        under = {name for top in chosen for name in lower[top] if name in backed or lower.get(name)}
        if above | under <= chosen:
            break
        chosen |= above | under
    tunnels = _json(probe.ask("ip-vxlan"))
    return {
        "uplinks": uplinks,
        "interfaces": {name: _interface(sysroot, probe, name, name in physical, lower[name]) for name in sorted(chosen)},
        "vxlan": None if tunnels is None else sorted(str(link["ifname"]) for link in tunnels if link.get("ifname")),
    }


def _interface(sysroot: SysRoot, probe: Probe, name: str, physical: bool, lower: List[str]) -> Dict[str, Any]:
    links = _json(probe.ask("ip-link", interface=name)) if _NAME.fullmatch(name) else None
    link = next((link for link in links or [] if link.get("ifname") == name), {})
    driver = sysroot.readlink(f"{_NET}/{name}/device/driver")
    return {
        "driver": driver.rsplit("/", 1)[-1] if driver else None, "physical": physical, "lower": lower,
        **{key: _number(link.get(key)) for key in ("tso_max_size", "gso_ipv4_max_size")},
    }


def cut(answer: Answer) -> Answer:
    """An answer of ``ip link`` with what is read of it, for a snapshot: the rest has addresses and serials in many forms."""
    links = _json(answer)
    if links is None:
        return Answer(answer.argv, answer.rc, "", answer.err)
    return Answer(answer.argv, answer.rc, json.dumps([{key: link[key] for key in _LINK_KEYS if key in link} for link in links]), answer.err)


__all__ = ("cut", "read")
