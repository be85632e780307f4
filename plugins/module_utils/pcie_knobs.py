# Copyright (c) 2026 The inferops.locality authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The reported knobs of the PCIe layer: what a machine should show, and whether it does. No I/O.

Values are texts, or texts by PCI address: ``x16``, ``32 GT/s`` (for a GPU ``up to 32 GT/s``), ACS redirects ``off`` or ``RR CR``,
ASPM ``off`` or ``L0s L1``, relaxed ordering ``on`` or ``off``, relations as ``nvidia-smi topo -m`` names them. Nothing here blocks a
node: most of it is hardware, firmware, or another owner's driver.
"""

from __future__ import annotations

import re
from typing import Any, Dict, FrozenSet, Iterable, List, Mapping, Optional, Sequence, Tuple

from ansible_collections.inferops.locality.plugins.module_utils import pcie

NVIDIA = "0x10de"
NOT_PRESENT = "not present"
UNKNOWN = "unknown"
NO_ACS = "no ACS"
NONE_THERE = "none there"
UP_TO = "up to "
ALTERNATIVES = " or "
_MAXIMUM_UNKNOWN = f"{UNKNOWN}: neither the device nor its port tells its maximum"
_GPU_KINDS = ("gpu", "accelerator")
_NIC_KINDS = ("nic", "rdma")


def lanes(width: int) -> str:
    """``x16`` of 16."""
    return f"x{width}"


def gts(speed: float) -> str:
    """``32 GT/s`` of 32.0."""
    return f"{speed:g} GT/s"


def nearest(relations: Iterable[Optional[str]]) -> str:
    """The nearest of the relations of a device to its peers."""
    found = list(relations)
    known = [relation for relation in found if relation in pcie.RELATIONS]
    if known:
        return min((str(relation) for relation in known), key=pcie.RELATIONS.index)
    return f"{UNKNOWN}: the PCI tree does not tell" if found else NONE_THERE


def _least(*values: Optional[float]) -> Optional[float]:
    known = [value for value in values if value is not None]
    return min(known) if known else None


def wanted(
    devices: Sequence[Mapping[str, Any]],
    relations: Mapping[str, Mapping[str, Optional[str]]],
    ports: Mapping[str, Mapping[str, Any]],
    floor: Optional[int],
    acs_off: Iterable[str],
) -> Dict[str, Any]:
    """What the reported knobs of the PCIe layer should be on a machine.

    Links: the lesser of what device and port can do, and for GPUs and NICs no less than the policy's floor as far as the device has it.
    ASPM off and relaxed ordering on for GPUs and NICs, where each microsecond and each reordered write counts. Relations: as the
    hardware has them.

    :param devices, relations: of the topology. :param ports: ``platform.pcie_ports``. :param floor: ``pcie.min_link_width``.
    :param acs_off: bridges on which ACS redirects are to be off.
    """
    mine = [device for device in devices if not device.get("physfn")]
    widths: Dict[str, str] = {}
    speeds: Dict[str, str] = {}
    busy: List[str] = []
    for device in mine:
        link, address = device.get("link"), str(device["address"])
        if link is None:
            continue
        path = device.get("path") or []
        port = ports.get(str(path[-1])) or {} if path else {}
        width = _least(link.get("max_width"), port.get("max_width"))
        if width is not None and floor is not None and device.get("kind") in (*_GPU_KINDS, *_NIC_KINDS):
            width = max(width, min(floor, link.get("max_width") or floor))
        widths[address] = _MAXIMUM_UNKNOWN if width is None else lanes(int(width))
        speed = _least(link.get("max_speed_gts"), port.get("max_speed_gts"))
        # GPUs go down to the lowest speed when nothing runs on them.
        idle = UP_TO if device.get("kind") in _GPU_KINDS else ""
        speeds[address] = _MAXIMUM_UNKNOWN if speed is None else f"{idle}{gts(speed)}"
        if device.get("kind") in (*_GPU_KINDS, *_NIC_KINDS):
            busy.append(address)
    result: Dict[str, Any] = {}
    bridges = sorted(acs_off)
    if bridges:
        result["pcie.acs"] = dict.fromkeys(bridges, "off")
    if widths:
        result["pcie.link_width"], result["pcie.link_speed"] = widths, speeds
    if busy:
        result["pcie.aspm"] = dict.fromkeys(busy, "off")
        result["pcie.relaxed_ordering"] = dict.fromkeys(busy, "on")
    gpus = [device for device in mine if device.get("kind") in _GPU_KINDS]
    for knob, kinds in (("gpu.nic_relation", _NIC_KINDS), ("gpu.nvme_relation", ("nvme",))):
        others = [str(device["address"]) for device in mine if device.get("kind") in kinds]
        if gpus and others:
            result[knob] = {
                str(gpu["address"]): nearest([(relations.get(str(gpu["address"])) or {}).get(other) for other in others]) for gpu in gpus
            }
    if any(gpu.get("vendor") == NVIDIA for gpu in gpus):
        result["gpu.peermem"] = f"nvidia_peermem{ALTERNATIVES}dma-buf"
        result["gpu.persistence"] = "on"
        if any(device.get("kind") == "nvme" for device in mine):
            result["gpu.gds"] = f"nvidia_fs{ALTERNATIVES}NVMe P2PDMA"
    return result


# -- ACS


def resolve(
    names: Iterable[str], devices: Sequence[Mapping[str, Any]], ports: Mapping[str, Mapping[str, Any]]
) -> Tuple[Dict[str, FrozenSet[str]], List[str]]:
    """The bridges that names of ``pcie.acs_off`` mean, and the names that mean none.

    A name is an address, a path from one (``0000:15:01.0/00.0``), or ids (``pci:8086:352a``, 0 for any), as drivers/pci/pci.c
    (pci_dev_str_match) has them. Ids name all bridges of a kind, also those that lead to no device of ours.
    """
    paths = {tuple(str(bridge) for bridge in device.get("path") or ()) for device in devices}
    bridges = {bridge for path in paths for bridge in path} | {str(bridge) for device in devices for bridge in device.get("acs") or {}}
    found: Dict[str, FrozenSet[str]] = {}
    missing: List[str] = []
    for name in names:
        if name.startswith("pci:"):
            ids = [int(part, 16) for part in name.split(":")[1:3]]
            found[name] = frozenset(bridge for bridge in bridges if _is_of(ports.get(bridge) or {}, ids))
            continue
        root, *functions = name.split("/")
        if not functions:
            mine = {root} & bridges
        else:
            mine = {path[index + len(functions)] for path in paths for index in range(len(path) - len(functions))
                    if path[index] == root and [bridge.rpartition(":")[2] for bridge in path[index + 1 : index + 1 + len(functions)]] == functions}
        found[name] = frozenset(mine)
        if not mine:
            missing.append(name)
    return found, missing


def _is_of(port: Mapping[str, Any], ids: Sequence[int]) -> bool:
    return all(port.get(key) is not None and (id == 0 or int(str(port[key]), 16) == id) for key, id in zip(("vendor", "device"), ids))


def redirected(one: Mapping[str, Any], two: Mapping[str, Any]) -> List[str]:
    """Bridges between two devices below one switch that send their peer traffic up to the host bridge instead (RR, CR or EC set).

    The rule of the kernel (pci_bridge_has_acs_redir in drivers/pci/p2pdma.c). Empty where there is none, or they share no bridge.
    """
    ways = [[str(bridge) for bridge in device.get("path") or ()] for device in (one, two)]
    common = 0
    for left, right in zip(*ways):
        if left != right:
            break
        common += 1
    if not common:
        return []
    acs = {**(one.get("acs") or {}), **(two.get("acs") or {})}
    return [bridge for way in ways for bridge in way[common:] if set((acs.get(bridge) or {}).get("enabled") or ()) & set(pcie.ACS_REDIRECTS)]


# -- judging


def judge(want: Any, found: Any) -> Tuple[bool, str]:
    """Whether a running value is as wanted, and what there is to say: where it differs, or what is no fault though it looks like one."""
    if isinstance(want, Mapping):
        found = found if isinstance(found, Mapping) else {}
        same = True
        words: Dict[str, List[str]] = {}
        for address, value in want.items():
            right, word = _one(value, found.get(address))
            same = same and right
            if word:
                words.setdefault(word, []).append(str(address))
        return same, ", ".join(f"{' '.join(addresses)} {word}" for word, addresses in words.items())
    return _one(want, found)


def _one(want: Any, found: Any) -> Tuple[bool, str]:
    if found is None:
        return False, "not found"
    if found == NOT_PRESENT:
        return False, "not present, no driver that pods could use the GPU with is bound to it"
    if str(found).startswith(UNKNOWN):
        return False, str(found)
    if str(want).startswith(UNKNOWN):
        return False, f"{found}, wanted {want}"
    if str(want).startswith(UP_TO):
        most, now = _number(want), _number(found)
        if most is None or now is None or now > most:
            return False, f"{found}, wanted {want}"
        return True, "" if now == most else f"{found} of {most:g}, as GPUs have when idle: judge it under load"
    return (True, "") if found in (want, *str(want).split(ALTERNATIVES)) else (False, f"{found}, wanted {want}")


def _number(text: Any) -> Optional[float]:
    match = re.search(r"([0-9]+(?:\.[0-9]+)?) GT/s\Z", str(text))
    return float(match.group(1)) if match else None


__all__ = (
    "ALTERNATIVES", "NOT_PRESENT", "NO_ACS", "NVIDIA", "UNKNOWN", "UP_TO", "gts", "judge", "lanes", "nearest", "redirected",
    "resolve", "wanted",
)
