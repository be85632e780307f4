# Copyright (c) 2026 The inferops.locality authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which PCI devices an operator means: by interface, driver, address or class.

A bond, a team, a bridge or a VLAN has no interrupts: it stands for the ports below it. Each function is itself: a virtual
function and the physical one share nothing but the slot.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Dict, List, Mapping, Optional, Sequence, Set, Tuple

from ansible_collections.inferops.locality.plugins.module_utils import irq, pcie
from ansible_collections.inferops.locality.plugins.module_utils.sysroot import SysRoot

CLASSES = ("nic", "rdma", "nvme", "gpu", "accelerator")
KEYS = ("interface", "driver", "address", "class")

_BUS = "/sys/bus/pci/devices"
_NET = "/sys/class/net"


class TargetError(ValueError):
    """A device that names nothing. The message says what was found."""


@dataclass(frozen=True)
class Target:
    """A PCI device that was named.

    :ivar interfaces: its network interfaces. :ivar named_by: each ``key=value`` that led to it, in order.
    """

    address: str
    interfaces: Tuple[str, ...]
    named_by: Tuple[str, ...]


def resolve(sysroot: SysRoot, wanted: Sequence[Mapping[str, Optional[str]]]) -> List[Target]:
    """The PCI devices that are named, each once, in the order they are named first.

    :param wanted: mappings of which one of ``KEYS`` has a value.
    :raises TargetError: one of them names nothing.
    """
    named: Dict[str, List[str]] = {}
    for entry in wanted:
        given = [(key, str(entry[key])) for key in KEYS if entry.get(key)]
        if len(given) != 1:
            raise TargetError(f"devices: each has one of {', '.join(KEYS)}, found {', '.join(key for key, dummy in given) or 'none'}")
        key, value = given[0]
        for address in _FIND[key](sysroot, value):
            words = named.setdefault(address, [])
            if f"{key}={value}" not in words:
                words.append(f"{key}={value}")
    return [Target(address, tuple(irq.interfaces(sysroot, address)), tuple(words)) for address, words in named.items()]


def ports(sysroot: SysRoot, interface: str) -> List[str]:
    """Interfaces that carry the traffic of this one: itself if it has a device, else the ports at the bottom of it."""
    return _ports(sysroot, interface, set())


def _ports(sysroot: SysRoot, interface: str, seen: Set[str]) -> List[str]:
    if interface in seen:
        return []
    seen.add(interface)
    if sysroot.exists(f"{_NET}/{interface}/device"):
        return [interface]
    lower = (sysroot.text(f"{_NET}/{interface}/bonding/slaves", 2**16) or "").split()
    lower += [name[6:] for name in sysroot.listdir(f"{_NET}/{interface}") if name.startswith("lower_")]
    found: List[str] = []
    for name in dict.fromkeys(lower):
        found += _ports(sysroot, name, seen)
    return found


def _interface(sysroot: SysRoot, name: str) -> List[str]:
    if "/" in name or not sysroot.is_dir(f"{_NET}/{name}"):
        raise TargetError(f"devices: there is no interface {name}, found {_listed(_interfaces(sysroot))}")
    below = ports(sysroot, name)
    if not below:
        raise TargetError(f"devices: interface {name} is no device and has no ports below it; of devices are {_listed(_real(sysroot))}")
    lost = [port for port in below if irq.pci_address(sysroot, port) is None]
    if lost:
        way = "" if lost == [name] else f" (below {name})"
        raise TargetError(f"devices: interface {lost[0]}{way} belongs to no PCI device; interfaces of PCI devices are {_listed(_real(sysroot))}")
    return [address for address in (irq.pci_address(sysroot, port) for port in below) if address is not None]


def _interfaces(sysroot: SysRoot) -> List[str]:
    return [name for name in sysroot.listdir(_NET) if sysroot.is_dir(f"{_NET}/{name}")]


def _real(sysroot: SysRoot) -> List[str]:
    return [name for name in _interfaces(sysroot) if irq.pci_address(sysroot, name)]


def _addresses(sysroot: SysRoot) -> List[str]:
    found = [name for name in sysroot.listdir(_BUS) if irq.is_address(name)]
    return sorted(found, key=lambda address: (int(address.split(":", 1)[0], 16), address))


def _address(sysroot: SysRoot, text: str) -> List[str]:
    address = text.lower()
    if not irq.is_address(address):
        raise TargetError(f"devices: '{text}' is not a PCI address such as 0000:18:00.0")
    if not sysroot.exists(f"{_BUS}/{address}"):
        having = [name for name in _addresses(sysroot) if irq.device_irqs(sysroot, name)]
        raise TargetError(f"devices: there is no PCI device {address}; devices with interrupts of their own are {_listed(having)}")
    return [address]


def _link_name(sysroot: SysRoot, path: str) -> Optional[str]:
    target = sysroot.readlink(path)
    return target.rsplit("/", 1)[-1] if target else None


def _drivers(sysroot: SysRoot, address: str) -> List[str]:
    """Driver of a PCI device, and of the virtio devices below it."""
    base = f"{_BUS}/{address}"
    below = [f"{base}/{name}/driver" for name in sysroot.listdir(base) if name.startswith("virtio")]
    return [name for name in (_link_name(sysroot, path) for path in [f"{base}/driver", *below]) if name]


def _driver(sysroot: SysRoot, name: str) -> List[str]:
    having = {address: _drivers(sysroot, address) for address in _addresses(sysroot)}
    found = [address for address, drivers in having.items() if name in drivers]
    if not found:
        others = sorted({driver for drivers in having.values() for driver in drivers})
        raise TargetError(f"devices: no PCI device has the driver {name}, found {_listed(others)}")
    return found


def _class(sysroot: SysRoot, name: str) -> List[str]:
    kinds: Dict[str, Optional[str]] = {}
    for address in _addresses(sysroot):
        base = f"{_BUS}/{address}"
        # Virtual functions belong to pods; who wants one names its address.
        if not sysroot.exists(f"{base}/physfn"):
            kinds[address] = pcie.kind_of(sysroot.text(f"{base}/class", 64) or "", sysroot.text(f"{base}/vendor", 64))
    found = [address for address, kind in kinds.items() if kind == name]
    if not found:
        raise TargetError(f"devices: there is no device of class {name}, found {_listed(sorted({kind for kind in kinds.values() if kind}))}")
    return found


_FIND = {"interface": _interface, "driver": _driver, "address": _address, "class": _class}


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names[:40]) + (" …" if len(names) > 40 else "") or "none"


__all__ = ("CLASSES", "KEYS", "Target", "TargetError", "ports", "resolve")
