# Copyright (c) 2026 The inferops.locality authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The PCI functions of a node that matter for locality: GPUs, accelerators, NICs, RDMA and NVMe; their bridges and relations.

How a root port is told from a switch: by the Device/Port Type of the PCI Express capability in the bridge's config space (4
root port, 5 switch upstream port, 6 switch downstream port, 7 and 8 bridges to and from conventional PCI). Where that
capability cannot be read (config space absent, empty, or only the 64 bytes that everybody may read), by position: the first
bridge below ``pciDDDD:BB`` is the root port, and those below it are upstream and downstream ports in turn. A root port leads to
one link and forwards nothing between devices, so it is no switch.

Relations follow NVIDIA's legend (``nvidia-smi topo -m``): PIX, the path crosses at most one switch; PXB, several switches but no
host bridge; PHB, a host bridge; NODE, host bridges of one NUMA node; SYS, between NUMA nodes. A switch is counted once,
however many of its ports are on the path; a bridge to conventional PCI counts like a switch when it is crossed.
"""

from __future__ import annotations

import re
import struct
from dataclasses import dataclass, field
from typing import Any, Dict, List, Optional, Tuple

from ansible_collections.inferops.locality.plugins.module_utils.sysroot import SysRoot

BUS = "/sys/bus/pci/devices"

# Domains have four digits or more: VMD and Hyper-V make domains above 0xffff.
_ADDRESS = re.compile(r"[0-9a-f]{4,}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]\Z")
_HOST_BRIDGE = re.compile(r"pci[0-9a-f]{4,}:[0-9a-f]{2}\Z")
_CLASS = re.compile(r"0x[0-9a-f]{6}\Z")
_ID = re.compile(r"0x[0-9a-f]{4}\Z")

GPU_CLASSES = frozenset(("0300", "0302", "0380"))
GPU_VENDORS = frozenset(("0x10de", "0x1002", "0x8086"))
KINDS = ("gpu", "nic", "rdma", "nvme", "accelerator")
# Near to far: the order counts.
RELATIONS = ("PIX", "PXB", "PHB", "NODE", "SYS")

# Host bridges lie at the top (x86) or below a platform or ACPI device (platform/soc/14160000.pcie/pci0004:00).
_HOST_BRIDGE_DEPTH = 4
_LINK_FILES = frozenset(("current_link_speed", "current_link_width", "max_link_speed", "max_link_width"))
_NO_BUS = frozenset(("breakpoint", "cpu", "msr", "software", "system", "tracepoint", "virtual"))

# Bridges, and what VMD controllers call themselves (RAID, or a system peripheral): only these have functions below them.
_MAY_HAVE_CHILDREN = ("0x06", "0x0104", "0x0880")

ROOT_PORT, UPSTREAM, DOWNSTREAM, BRIDGE = "root_port", "upstream", "downstream", "bridge"
_PORT_TYPES = {4: ROOT_PORT, 5: UPSTREAM, 6: DOWNSTREAM, 7: BRIDGE, 8: BRIDGE}

CONFIG_BYTES = 4096
_UNPRIVILEGED_BYTES = (64, 128)  # 128 for CardBus bridges (drivers/pci/pci-sysfs.c pci_read_config)
_CAP_PCI_EXPRESS = 0x10
_CAP_ACS = 0x000D
# Bits of the ACS capability and control registers (include/uapi/linux/pci_regs.h).
ACS_BITS = ("SV", "TB", "RR", "CR", "UF", "EC", "DT")
# What breaks the short way between two devices: pci_bridge_has_acs_redir in drivers/pci/p2pdma.c.
ACS_REDIRECTS = ("RR", "CR", "EC")
ASPM_BITS = ("L0s", "L1")
_RELAXED_ORDERING = 0x0010
# Widths of the PCI Express specification; the kernel prints 0, 63 and 255 for links it cannot tell.
_WIDTHS = frozenset((1, 2, 4, 8, 12, 16, 32))


@dataclass
class Interface:
    """A network interface; ``speed_mbps`` is None while the link is down."""

    name: str
    mac: Optional[str] = None
    speed_mbps: Optional[int] = None
    mtu: Optional[int] = None

    def to_facts(self) -> Dict[str, Any]:
        return {"name": self.name, "mac": self.mac, "speed_mbps": self.speed_mbps, "mtu": self.mtu}


@dataclass
class Link:
    """Speeds in GT/s, widths in lanes; None where the kernel says "Unknown"."""

    speed_gts: Optional[float] = None
    width: Optional[int] = None
    max_speed_gts: Optional[float] = None
    max_width: Optional[int] = None

    def to_facts(self) -> Dict[str, Any]:
        return {"speed_gts": self.speed_gts, "width": self.width, "max_speed_gts": self.max_speed_gts, "max_width": self.max_width}


@dataclass
class Acs:
    """Access Control Services of one bridge: bits it can set and bits that are set. A bridge without the capability has none."""

    supported: Tuple[str, ...] = ()
    enabled: Tuple[str, ...] = ()

    def to_facts(self) -> Dict[str, Any]:
        return {"supported": list(self.supported), "enabled": list(self.enabled)}


@dataclass
class Express:
    """What is switched on in a function's PCI Express capability: ``aspm`` of ``ASPM_BITS``, and relaxed ordering."""

    aspm: Tuple[str, ...] = ()
    relaxed_ordering: bool = False


@dataclass
class Bridge:
    """A bridge on the way to a device: its port type (None: not readable) and ACS (None: not readable).

    :ivar link: of the link below the bridge; a port knows what it can do there, whoever is plugged in.
    :ivar express: None where the capability is not readable or not there.
    """

    address: str
    port: Optional[str] = None
    acs: Optional[Acs] = None
    vendor: Optional[str] = None
    device: Optional[str] = None
    link: Optional[Link] = None
    express: Optional[Express] = None


@dataclass
class Device:
    """One PCI function. ``path`` are its bridges from the host bridge down; None where the tree does not show them."""

    address: str
    kind: str
    class_: str
    vendor: Optional[str] = None
    device: Optional[str] = None
    driver: Optional[str] = None
    numa_node: Optional[int] = None
    pcie_root: Optional[str] = None
    path: Optional[Tuple[str, ...]] = None
    link: Optional[Link] = None
    interfaces: List[Interface] = field(default_factory=list)
    rdma: List[str] = field(default_factory=list)
    physfn: Optional[str] = None
    iommu_group: Optional[int] = None
    acs: Optional[Dict[str, Optional[Acs]]] = None

    def to_facts(self) -> Dict[str, Any]:
        """The device as DESIGN names it in ``numa_topology.devices``."""
        acs = None
        if self.acs is not None:
            acs = {bridge: None if found is None else found.to_facts() for bridge, found in self.acs.items()}
        return {
            "address": self.address,
            "kind": self.kind,
            "class": self.class_,
            "vendor": self.vendor,
            "device": self.device,
            "driver": self.driver,
            "numa_node": self.numa_node,
            "pcie_root": self.pcie_root,
            "path": None if self.path is None else list(self.path),
            "link": None if self.link is None else self.link.to_facts(),
            "interfaces": [interface.to_facts() for interface in self.interfaces],
            "rdma": list(self.rdma),
            "physfn": self.physfn,
            "iommu_group": self.iommu_group,
            "acs": acs,
        }


@dataclass
class Pci:
    """What was read of the PCI tree: ``devices`` by address, ``bridges`` on their paths, and ``relations`` of each GPU.

    :ivar places: sysfs directory of each device.
    """

    devices: List[Device] = field(default_factory=list)
    bridges: Dict[str, Bridge] = field(default_factory=dict)
    relations: Dict[str, Dict[str, Optional[str]]] = field(default_factory=dict)
    places: Dict[str, str] = field(default_factory=dict)


# -- pure parts --------------------------------------------------------------------------------------------------------


def kind_of(class_: str, vendor: Optional[str]) -> Optional[str]:
    """Kind of a function by its class (``0x030200``) and vendor (``0x10de``), or None where it does not matter for locality.

    Graphics of other vendors (ASPEED 1a03, Matrox 102b: a board's management controller) are no GPUs.
    """
    base, sub = class_[2:4], class_[2:6]
    if sub in GPU_CLASSES:
        return "gpu" if vendor in GPU_VENDORS else None
    if sub == "1200":
        return "accelerator"
    if base == "02":
        return "rdma" if sub == "0207" else "nic"
    if sub == "0108":
        return "nvme"
    return None


def parse_path(path: str) -> Tuple[Optional[str], Optional[Tuple[str, ...]]]:
    """Host bridge and bridges of a function from its real sysfs path.

    ``/sys/devices/pci0000:15/0000:15:01.0/0000:18:00.0`` is ``("pci0000:15", ("0000:15:01.0",))``. The host bridge may lie
    deeper (``platform/14160000.pcie/pci0004:00``). Below a VMD controller a second host bridge follows; the first one is
    where the device hangs, and the controller itself is no bridge. ``(None, None)`` for a path that shows no host bridge.
    """
    parts = path.split("/")
    root = None
    bridges: List[str] = []
    for index, part in enumerate(parts[:-1]):
        if _HOST_BRIDGE.match(part):
            root = root or part
        elif root is not None and _ADDRESS.match(part) and not _HOST_BRIDGE.match(parts[index + 1]):
            bridges.append(part)
    return (None, None) if root is None else (root, tuple(bridges))


def link_speed(text: Optional[str]) -> Optional[float]:
    """GT/s of ``16.0 GT/s PCIe`` or ``8 GT/s``; None for ``Unknown`` and everything else."""
    match = re.match(r"([0-9]+(?:\.[0-9]+)?) GT/s", text or "")
    return float(match.group(1)) if match else None


def link_width(text: Optional[str]) -> Optional[int]:
    """Lanes of ``16`` or ``x16``; None for a width no link has, which stands for an unknown one."""
    digits = (text or "").strip().lstrip("x")
    width = int(digits) if digits.isdecimal() and len(digits) < 4 else None
    return width if width in _WIDTHS else None


def _express_position(config: bytes) -> Optional[int]:
    """Where the PCI Express capability starts; 0 where there is none, None where the capability list cannot be read."""
    if len(config) < 0x40 or len(config) in _UNPRIVILEGED_BYTES:
        return None
    if not struct.unpack_from("<H", config, 6)[0] & 0x10:
        return 0
    position = config[0x34] & 0xFC
    for _guard in range(48):  # no more than 48 capabilities fit
        if position < 0x40:
            return 0
        if position + 4 > len(config):
            return None
        if config[position] == _CAP_PCI_EXPRESS:
            return position
        position = config[position + 1] & 0xFC
    return None


def port_type(config: bytes) -> Optional[str]:
    """Port type from config space; None where the capability list cannot be read or names no port.

    A bridge whose whole list is readable and has no PCI Express capability is a conventional one: ``bridge``.
    """
    position = _express_position(config)
    if not position:
        return BRIDGE if position == 0 else None
    return _PORT_TYPES.get(config[position + 2] >> 4)


def express_of(config: bytes) -> Optional[Express]:
    """Device control and link control from config space; None where there is no such capability or it cannot be read.

    Offsets and bits: include/uapi/linux/pci_regs.h, PCI_EXP_DEVCTL and PCI_EXP_LNKCTL. A function that answers all ones is gone.
    """
    position = _express_position(config)
    if not position or position + 0x12 > len(config):
        return None
    device, link = struct.unpack_from("<H", config, position + 8)[0], struct.unpack_from("<H", config, position + 0x10)[0]
    if device == link == 0xFFFF:
        return None
    return Express(tuple(name for bit, name in enumerate(ASPM_BITS) if link >> bit & 1), bool(device & _RELAXED_ORDERING))


def acs_of(config: bytes) -> Optional[Acs]:
    """ACS capability in config space; an empty Acs where there is none, None where it cannot be known.

    The list of extended capabilities starts at 0x100; 256 bytes are a function without extended space.
    """
    if len(config) < 256:
        return None
    position = 0x100
    seen = set()
    while position and position not in seen:
        seen.add(position)
        if position + 4 > len(config):
            # The end of the space at its start: a function without extended space. Anywhere else: cut short.
            return Acs() if len(config) == 256 else None
        header = struct.unpack_from("<I", config, position)[0]
        if header in (0, 0xFFFFFFFF):
            break
        if header & 0xFFFF == _CAP_ACS:
            if position + 8 > len(config):
                return None
            supported, enabled = struct.unpack_from("<HH", config, position + 4)
            return Acs(
                tuple(name for bit, name in enumerate(ACS_BITS) if supported >> bit & 1),
                tuple(name for bit, name in enumerate(ACS_BITS) if enabled >> bit & 1),
            )
        position = header >> 20 & 0xFFC
    return Acs()


def _ports(path: Tuple[str, ...], bridges: Dict[str, Bridge]) -> List[str]:
    """Port type of each bridge of a path: what config space says, else by position."""
    ports: List[str] = []
    for index, address in enumerate(path):
        bridge = bridges.get(address)
        told = bridge.port if bridge is not None else None
        if told is not None:
            ports.append(told)
        elif index == 0:
            ports.append(ROOT_PORT)
        else:
            ports.append(DOWNSTREAM if ports[-1] == UPSTREAM else UPSTREAM)
    return ports


def _switches(ports: List[str]) -> int:
    """Switches and bridges that a way down through these ports crosses.

    An upstream port opens a switch; a downstream port without one belongs to a switch whose upstream port is not shown or
    is shared with the other device.
    """
    count = 0
    inside = False
    for port in ports:
        if port == UPSTREAM:
            count += 1
            inside = True
        elif port == DOWNSTREAM:
            count += 0 if inside else 1
            inside = False
        else:
            count += port == BRIDGE
            inside = False
    return count


def relation(one: Device, two: Device, bridges: Dict[str, Bridge], numa_nodes: Optional[int] = None) -> Optional[str]:
    """Relation of two functions, one of ``RELATIONS``; None where the tree does not say.

    :param numa_nodes: number of NUMA nodes of the machine: with exactly one, all host bridges are of that node.
    """
    if one.path is not None and two.path is not None and one.pcie_root == two.pcie_root:
        common = 0
        for left, right in zip(one.path, two.path):
            if left != right:
                break
            common += 1
        if not common:
            return "PHB"
        ways = (_ports(one.path, bridges), _ports(two.path, bridges))
        # Inside one switch the ways part below its upstream port, and both go on through downstream ports of that switch.
        inside = ways[0][common - 1] == UPSTREAM
        crossed = 1 if inside else 0
        for ports in ways:
            rest = ports[common:]
            crossed += _switches(rest[1:] if inside and rest[:1] == [DOWNSTREAM] else rest)
        return "PIX" if crossed <= 1 else "PXB"
    if one.numa_node is not None and two.numa_node is not None and one.numa_node != two.numa_node:
        return "SYS"
    if one.path is None or two.path is None:
        return None
    if numa_nodes == 1 or (one.numa_node is not None and one.numa_node == two.numa_node):
        return "NODE"
    return None


def relations(devices: List[Device], bridges: Dict[str, Bridge], numa_nodes: Optional[int] = None) -> Dict[str, Dict[str, Optional[str]]]:
    """Relations of every GPU and accelerator to every NIC, RDMA function, NVMe drive and other GPU."""
    return {
        one.address: {two.address: relation(one, two, bridges, numa_nodes) for two in devices if two is not one}
        for one in devices
        if one.kind in ("gpu", "accelerator")
    }


# -- reading -----------------------------------------------------------------------------------------------------------


def read_pci(sysroot: SysRoot, numa_nodes: Optional[int] = None) -> Pci:
    """Read the PCI tree of a node. Never raises for what a file holds: None, and an entry in the problems of ``sysroot``."""
    reader = _Reader(sysroot)
    found = Pci()
    for address, place in reader.functions():
        device = reader.device(address, place)
        if device is not None:
            found.devices.append(device)
    found.devices.sort(key=lambda device: _sort_key(device.address))
    for device in found.devices:
        found.places[device.address] = reader.place(device.address)
        if device.path is None:
            continue
        for depth, address in enumerate(device.path):
            if address not in found.bridges:
                found.bridges[address] = reader.bridge(address, device, depth)
        device.acs = {address: found.bridges[address].acs for address in device.path}
        if device.acs and all(acs is None for acs in device.acs.values()):
            device.acs = None
    found.relations = relations(found.devices, found.bridges, numa_nodes)
    return found


def _sort_key(address: str) -> Tuple[int, str]:
    return int(address.split(":", 1)[0], 16), address


class _Reader:
    def __init__(self, sysroot: SysRoot) -> None:
        self.sysroot = sysroot
        self._places: Dict[str, str] = {}
        self._classes: Dict[str, Optional[str]] = {}
        self._interfaces: Optional[Dict[str, List[str]]] = None

    def functions(self) -> List[Tuple[str, str]]:
        """Address and sysfs directory of every PCI function, where it really lies."""
        listed = [name for name in self.sysroot.listdir(BUS) if _ADDRESS.match(name)]
        for name in listed:
            place = f"{BUS}/{name}"
            target = self.sysroot.readlink(place)
            if target is not None:
                real = self.sysroot.realpath(place)
                if real is None:
                    self.sysroot.problem(place, "leads nowhere")
                    continue
                place = real
            self._places[name] = place
        if not listed and not self.sysroot.is_dir(BUS):
            self._search()
        return sorted(self._places.items())

    def _search(self) -> None:
        """Find functions without the bus directory, which some captures leave out. Links are not followed, so there is no loop."""
        names = self.sysroot.listdir("/sys/devices")
        tops = [name for name in names if _HOST_BRIDGE.match(name)]
        for name in tops:
            self._below(f"/sys/devices/{name}")
        if not tops:
            for name in names:
                if name not in _NO_BUS:
                    self._host_bridges(f"/sys/devices/{name}", 1)

    def _host_bridges(self, directory: str, depth: int) -> None:
        if self.sysroot.readlink(directory) is not None or not self.sysroot.is_dir(directory):
            return
        for name in self.sysroot.listdir(directory):
            if _HOST_BRIDGE.match(name):
                self._below(f"{directory}/{name}")
            elif depth < _HOST_BRIDGE_DEPTH:
                self._host_bridges(f"{directory}/{name}", depth + 1)

    def _below(self, directory: str) -> None:
        for name in self.sysroot.listdir(directory):
            if ":" not in name:
                continue
            function = bool(_ADDRESS.match(name))
            if (function or _HOST_BRIDGE.match(name)) and self.sysroot.readlink(f"{directory}/{name}") is None:
                place = f"{directory}/{name}"
                if function:
                    self._places[name] = place
                    class_ = self._class(place)
                    if class_ is not None and not class_.startswith(_MAY_HAVE_CHILDREN):
                        continue
                self._below(place)

    def _word(self, place: str, pattern: "re.Pattern[str]", wanted: str) -> Optional[str]:
        text = self.sysroot.text(place, 4096)
        if not text:
            return None
        text = text.strip().lower()
        if not pattern.match(text):
            self.sysroot.problem(place, f"holds '{text[:40]}', wanted {wanted}")
            return None
        return text

    def _class(self, place: str) -> Optional[str]:
        if place not in self._classes:
            self._classes[place] = self._word(f"{place}/class", _CLASS, "a PCI class such as 0x030200")
        return self._classes[place]

    def device(self, address: str, place: str) -> Optional[Device]:
        """One function, or None where it is of no kind that matters."""
        class_ = self._class(place)
        if class_ is None:
            if not self.sysroot.text(f"{place}/class", 4096):
                self.sysroot.problem(f"{place}/class", "is absent or empty: what this function is is not known")
            return None
        graphics = class_[2:6] in GPU_CLASSES
        vendor = self._word(f"{place}/vendor", _ID, "a PCI vendor such as 0x10de") if graphics or kind_of(class_, None) else None
        if vendor is None and graphics and self.sysroot.is_dir(f"/proc/driver/nvidia/gpus/{address}"):
            vendor = "0x10de"  # the driver lists the functions it drives by address, and only its own
        kind = kind_of(class_, vendor)
        if kind is None:
            if graphics and vendor is None:
                self.sysroot.problem(f"{place}/vendor", "is not known: whether this display controller is a GPU cannot be told")
            return None
        device = Device(address, kind, class_, vendor)
        names = frozenset(self.sysroot.listdir(place))
        device.device = self._word(f"{place}/device", _ID, "a PCI device such as 0x2330")
        if "driver" in names:
            device.driver = (self.sysroot.readlink(f"{place}/driver") or "").rpartition("/")[2] or None
        numa_node = self.sysroot.integer(f"{place}/numa_node") if "numa_node" in names else None
        device.numa_node = numa_node if numa_node is not None and numa_node >= 0 else None
        device.pcie_root, device.path = parse_path(place)
        device.link = self._link(place, names)
        if "physfn" in names:
            physfn = (self.sysroot.readlink(f"{place}/physfn") or "").rpartition("/")[2]
            device.physfn = physfn if _ADDRESS.match(physfn) else None
        if "iommu_group" in names:
            group = (self.sysroot.readlink(f"{place}/iommu_group") or "").rpartition("/")[2]
            device.iommu_group = int(group) if group.isdecimal() else None
        if "infiniband" in names:
            device.rdma = self.sysroot.listdir(f"{place}/infiniband")
        if kind in ("nic", "rdma"):
            device.interfaces = [self._interface(name, home) for name, home in self._nets(address, place, names)]
        return device

    def _link(self, place: str, names: "frozenset[str]") -> Optional[Link]:
        if not names & _LINK_FILES:
            return None
        return Link(
            link_speed(self.sysroot.text(f"{place}/current_link_speed", 4096)),
            link_width(self.sysroot.text(f"{place}/current_link_width", 4096)),
            link_speed(self.sysroot.text(f"{place}/max_link_speed", 4096)),
            link_width(self.sysroot.text(f"{place}/max_link_width", 4096)),
        )

    def place(self, address: str) -> str:
        """The sysfs directory of a function that was found."""
        return self._places[address]

    def _nets(self, address: str, place: str, names: "frozenset[str]") -> List[Tuple[str, str]]:
        """Interfaces of a NIC with their directories: below the function, or below its virtio device, or by the class's links."""
        homes = [place] if "net" in names else []
        homes += [f"{place}/{name}" for name in sorted(names) if name.startswith("virtio") and name[6:].isdecimal()]
        found = [(name, f"{home}/net/{name}") for home in homes for name in self.sysroot.listdir(f"{home}/net")]
        if found:
            return found
        if self._interfaces is None:
            self._interfaces = {}
            for name in self.sysroot.listdir("/sys/class/net"):
                real = self.sysroot.realpath(f"/sys/class/net/{name}/device") if self.sysroot.readlink(f"/sys/class/net/{name}/device") else None
                parts = [part for part in (real or "").split("/") if _ADDRESS.match(part)]
                if parts:
                    self._interfaces.setdefault(parts[-1], []).append(name)
        return [(name, f"/sys/class/net/{name}") for name in self._interfaces.get(address, [])]

    def _interface(self, name: str, home: str) -> Interface:
        speed = self.sysroot.integer(f"{home}/speed")
        # -1, also as an unsigned number, is what the kernel says of a link that is down.
        known = speed is not None and 0 < speed < 2**31
        return Interface(name, self.sysroot.text(f"{home}/address", 4096) or None, speed if known else None, self.sysroot.integer(f"{home}/mtu"))

    def bridge(self, address: str, device: Device, depth: int) -> Bridge:
        """A bridge on the path of a device: its directory is a part of the device's own."""
        if device.path is None:
            raise AssertionError
        real = self._places[device.address]
        place = real[: real.index("/" + address)] + "/" + address
        bridge = Bridge(address)
        bridge.vendor = self._word(f"{place}/vendor", _ID, "a PCI vendor such as 0x10b5")
        bridge.device = self._word(f"{place}/device", _ID, "a PCI device such as 0x8747")
        bridge.link = self._link(place, frozenset(self.sysroot.listdir(place)))
        config = self.sysroot.data(f"{place}/config", CONFIG_BYTES)
        if config is None or not config:
            return bridge
        bridge.port, bridge.acs, bridge.express = port_type(config), acs_of(config), express_of(config)
        if bridge.acs is None:
            reason = "only root may read it all" if len(config) in _UNPRIVILEGED_BYTES else "it ends early"
            self.sysroot.problem(f"{place}/config", f"holds {len(config)} bytes, {reason}: the bridge's ACS is not known")
        return bridge


__all__ = (
    "ACS_BITS",
    "ACS_REDIRECTS",
    "ASPM_BITS",
    "Acs",
    "Bridge",
    "CONFIG_BYTES",
    "Device",
    "Express",
    "Interface",
    "KINDS",
    "Link",
    "Pci",
    "RELATIONS",
    "acs_of",
    "express_of",
    "kind_of",
    "link_speed",
    "link_width",
    "parse_path",
    "port_type",
    "read_pci",
    "relation",
    "relations",
)
