# Copyright (c) 2026 The inferops.locality authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What ``network`` of a policy means for the Cilium agent of one node: the values of its knobs. No I/O."""

from __future__ import annotations

from typing import Any, Dict, List, Mapping, Optional

from ansible_collections.inferops.locality.plugins.module_utils import findings as findings_m
from ansible_collections.inferops.locality.plugins.module_utils.policy import UPLINK


def devices(asked: Any, network: Mapping[str, Any], found: findings_m.Findings) -> Optional[List[str]]:
    """The interfaces that Cilium attaches to, sorted: those of the default route, so that fabric NICs stay out, or those that are named.

    :param asked: ``network.devices`` of the checked policy. :param network: ``platform.network`` of ``locality_state``.
    :returns: None where it cannot be told, with an error.
    """
    uplinks = network.get("uplinks")
    if asked == UPLINK:
        if uplinks:
            return sorted(str(name) for name in uplinks)
        none = "this node has no default route"
        unknown = "which interface carries the default route could not be read (`ip route` of iproute2)"
        found.error(
            "cilium.no_uplink",
            f"network.devices: found uplink, but {none if uplinks is not None else unknown}",
            "name the interfaces in network.devices",
        )
        return None
    known = network.get("interfaces") or {}
    absent = [name for name in asked if name not in known] if known else []
    if absent:
        found.error(
            "cilium.no_such_device",
            f"network.devices: found {', '.join(absent)}, wanted interfaces of this node: {', '.join(known)}",
            "correct the names, or use uplink: the interfaces that carry the default route",
        )
        return None
    return sorted(asked)


def wanted(policy: Mapping[str, Any], platform: Mapping[str, Any], found: findings_m.Findings) -> Dict[str, Any]:
    """The knobs of the network layer; what the policy leaves as it is has none.

    :param policy: ``network`` of the checked policy. :param platform: ``platform`` of ``locality_state``.
    """
    result: Dict[str, Any] = {}
    if policy["datapath_mode"] is not None:
        result["cilium.datapath_mode"] = policy["datapath_mode"]
    if policy["big_tcp"] is not None:
        result["cilium.big_tcp"] = sorted(policy["big_tcp"])
    if policy["devices"]:
        chosen = devices(policy["devices"], platform.get("network") or {}, found)
        if chosen is not None:
            result["cilium.devices"] = chosen
    if policy["xdp"] is not None:
        result["cilium.xdp"] = policy["xdp"]
    if policy["bpf_maps"] is not None:
        result["cilium.bpf_maps"] = {"distributed_lru": policy["bpf_maps"]["distributed_lru"], "ratio": float(policy["bpf_maps"]["ratio"])}
    if policy["clock_probe"] is not None:
        result["cilium.clock"] = policy["clock_probe"]
    manager = policy["bandwidth_manager"]
    if manager is not None:
        if manager["bbr"] and not manager["enabled"]:
            found.error(
                "cilium.bbr_alone",
                "network.bandwidth_manager: found bbr: true with enabled: false, but BBR is a part of the bandwidth manager",
                "set enabled to true, or bbr to false",
            )
        result["cilium.bandwidth_manager"] = {"enabled": manager["enabled"], "bbr": manager["bbr"]}
    return result


__all__ = ("devices", "wanted")
