# Copyright (c) 2026 The inferops.locality authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Does a machine look like its chassis? A node that differs is refused before anything is touched."""

from __future__ import annotations

from typing import Any, Dict, List, Mapping, Optional

from ansible_collections.inferops.locality.plugins.module_utils import findings as findings_m
from ansible_collections.inferops.locality.plugins.module_utils import policy as policy_m
from ansible_collections.inferops.locality.plugins.module_utils import quantity

GIB = 2**30


def _devices(topology: Mapping[str, Any], kind: str) -> List[Mapping[str, Any]]:
    """Devices of a kind as a person counts cards; InfiniBand counts as a NIC, virtual functions do not count."""
    kinds = {"gpus": ("gpu", "accelerator"), "nics": ("nic", "rdma"), "nvme": ("nvme",)}[kind]
    return [device for device in topology.get("devices") or [] if device.get("kind") in kinds and not device.get("physfn")]


def _gib(size: int) -> str:
    return f"{size / GIB:.1f}Gi"


def _speed_gbps(device: Mapping[str, Any]) -> Optional[float]:
    speeds = [port["speed_mbps"] for port in device.get("interfaces") or [] if port.get("speed_mbps")]
    return max(speeds) / 1000 if speeds else None


def _differs(found: findings_m.Findings, key: str, seen: Any, wanted: Any, hint: str) -> None:
    found.error(f"chassis.{key.split('.', maxsplit=1)[0].split('[', maxsplit=1)[0]}", f"locality_chassis.{key}: found {seen}, wanted {wanted}", hint)


def _count(found: findings_m.Findings, key: str, devices: List[Mapping[str, Any]], wanted: int) -> None:
    if len(devices) != wanted:
        names = ", ".join(str(device["address"]) for device in devices)
        _differs(
            found,
            key,
            f"{len(devices)}" + (f" ({names})" if names else ""),
            wanted,
            "look for a card that is missing, dead or in another slot; or correct the chassis",
        )


def compare(topology: Mapping[str, Any], chassis: Any) -> List[Dict[str, str]]:
    """Compare a topology with ``locality_chassis``.

    Only what the chassis names is compared. Memory may be less than named by ``memory_tolerance_percent`` (the kernel and the
    firmware keep some), and more by as much.

    :returns: one error finding for each difference, with what was found and what was wanted; a chassis with unknown keys or
        wrong types gives findings too, and its good keys are still compared.
    """
    expected, items = policy_m.check_chassis(chassis)
    found = findings_m.Findings()
    found.extend(items)
    cpus = topology.get("cpus") or {}
    numa_nodes = {str(node["id"]): node for node in topology.get("numa_nodes") or []}
    cores = topology.get("cores") or []

    if "sockets" in expected and len(topology.get("sockets") or []) != expected["sockets"]:
        _differs(
            found,
            "sockets",
            len(topology.get("sockets") or []),
            expected["sockets"],
            "look for a processor that is missing or disabled; or correct the chassis",
        )
    if "threads_per_core" in expected and cpus.get("threads_per_core") != expected["threads_per_core"]:
        _differs(
            found,
            "threads_per_core",
            f"{policy_m.shown(cpus.get('threads_per_core'))} (SMT {cpus.get('smt') or 'unknown'})",
            expected["threads_per_core"],
            "look at SMT in the firmware and at nosmt on the kernel command line; or correct the chassis",
        )
    if "cores" in expected and len(cores) != expected["cores"]:
        _differs(found, "cores", len(cores), expected["cores"], "look for offline CPUs and disabled cores; or correct the chassis")
    for kind in ("gpus", "nvme"):
        if kind in expected:
            _count(found, kind, _devices(topology, kind), expected[kind])
    for id, part in (expected.get("numa_nodes") or {}).items():
        node = numa_nodes.get(id)
        if node is None:
            _differs(
                found,
                f"numa_nodes.{id}",
                f"NUMA nodes {', '.join(numa_nodes) or 'none'}",
                f"a NUMA node {id}",
                "look at the firmware's NUMA settings (SNC, NPS); or correct the chassis",
            )
            continue
        _numa_node(topology, id, node, part, float(expected["memory_tolerance_percent"]), found)
    if expected.get("numa_nodes"):
        extra = [id for id in numa_nodes if id not in expected["numa_nodes"]]
        if extra:
            _differs(
                found,
                "numa_nodes",
                f"NUMA nodes {', '.join(numa_nodes)}",
                f"only {', '.join(expected['numa_nodes'])}",
                "look at the firmware's NUMA settings (SNC, NPS); or add the others to the chassis",
            )
    _nics(topology, expected.get("nics") or [], found)
    return found.items


def _numa_node(
    topology: Mapping[str, Any],
    id: str,
    node: Mapping[str, Any],
    part: Mapping[str, Any],
    tolerance: float,
    found: findings_m.Findings,
) -> None:
    key = f"numa_nodes.{id}"
    if "memory" in part:
        wanted, seen = quantity.to_bytes(part["memory"]), node.get("memory_bytes")
        if seen is None:
            _differs(found, f"{key}.memory", "unknown", part["memory"], "see the problems of numa_topology")
        elif abs(seen - wanted) * 100 > tolerance * wanted:
            _differs(
                found,
                f"{key}.memory",
                f"{_gib(seen)} ({(seen - wanted) * 100 / wanted:+.1f} %)",
                f"{part['memory']} within {tolerance:g} %",
                "look for a memory module that is missing or mapped out; or correct the chassis",
            )
    if "cores" in part:
        there = sum(1 for core in topology.get("cores") or [] if str(core.get("numa_node")) == id)
        if there != part["cores"]:
            _differs(found, f"{key}.cores", there, part["cores"], "look for offline CPUs and disabled cores; or correct the chassis")
    for kind in ("gpus", "nics", "nvme"):
        if kind in part:
            _count(found, f"{key}.{kind}", [device for device in _devices(topology, kind) if str(device.get("numa_node")) == id], part[kind])


def _nics(topology: Mapping[str, Any], wanted: List[Mapping[str, Any]], found: findings_m.Findings) -> None:
    there = {str(device["address"]): device for device in _devices(topology, "nics")}
    for index, nic in enumerate(wanted):
        slot = nic.get("slot")
        if slot is None:
            continue
        device = there.get(slot)
        if device is None:
            _differs(
                found,
                f"nics[{index}].slot",
                f"NICs in {', '.join(there) or 'no slot'}",
                f"a NIC in {slot}",
                "look for a card that is missing, dead or in another slot; or correct the chassis",
            )
        elif "speed_gbps" in nic:
            speed = _speed_gbps(device)
            if speed is None or speed != nic["speed_gbps"]:
                _differs(
                    found,
                    f"nics[{index}].speed_gbps",
                    "no link" if speed is None else f"{speed:g} on {slot}",
                    f"{nic['speed_gbps']:g}",
                    "look at the cable, the port and the switch; or correct the chassis",
                )


__all__ = ("compare",)
