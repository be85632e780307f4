# Copyright (c) 2026 The inferops.locality authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The virtual machine: two sockets, two NUMA nodes, PCIe trees with stand-in GPUs and NICs. Pure: settings to QEMU's arguments.

```
pci0000:20 node 0   20:00.0 switch ── gpu00, NIC n00, second switch ── gpu01, NIC n02
                    20:01.0 NVMe (--nvme)    20:02.0 NIC n01
pci0000:50 node 0   50:00.0 NIC n03
pci0000:80 node 1   80:00.0 switch ── gpu10, gpu11, NIC n10
                    80:02.0 NIC n11
```
"""

from __future__ import annotations

import re
import zlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import List, Optional, Tuple

from vlab.process import LabError

NAME = re.compile(r"[a-z][a-z0-9-]{0,11}")
MANAGEMENT_MAC = "52:54:00:00:00:01"
# NIC, PCI bus it sits on. The order gives its MAC's last byte.
NICS: Tuple[Tuple[str, str], ...] = (("n00", "dn02"), ("n01", "rp02"), ("n10", "dn12"), ("n11", "rp12"), ("n02", "dn0b1"), ("n03", "rp20"))
# These two, one on each NUMA node, lead to the peer.
WIRED: Tuple[str, ...] = ("n01", "n11")
GPUS: Tuple[Tuple[str, str], ...] = (("gpu00", "dn00"), ("gpu01", "dn0b0"), ("gpu10", "dn10"), ("gpu11", "dn11"))


@dataclass(frozen=True)
class Shape:
    """What a node is to be.

    :ivar nic: ``igb``: 9 MSI-X vectors each; ``virtio``: multi-queue over tap devices (root).
    :ivar iommu: an Intel IOMMU with interrupt remapping: an affinity takes effect at once.
    :ivar memory0: MiB of NUMA node 0; 4096 is needed for one 1 GiB page there.
    :ivar memory1: MiB of NUMA node 1; 2048 is needed for one 1 GiB page there.
    :ivar nvme: an NVMe drive, whose queue interrupts are managed by the kernel.
    :ivar peer: name of the node that NICs n01 and n11 are wired to; it must name this one too.
    """

    nic: str = "igb"
    iommu: bool = False
    memory0: int = 1024
    memory1: int = 1024
    nvme: bool = False
    peer: Optional[str] = None

    def check(self) -> None:
        """:raises LabError: no such machine."""
        if self.nic not in ("igb", "virtio"):
            raise LabError(f"nic {self.nic}: igb or virtio")
        if self.peer and self.nic != "igb":
            raise LabError("only igb NICs can be wired to a peer")
        if min(self.memory0, self.memory1) < 512:
            raise LabError("a NUMA node needs 512 MiB")


@dataclass(frozen=True)
class Machine:
    """One machine as it is started. ``directory`` holds its files; ``accelerator`` is ``tcg`` or ``kvm``."""

    name: str
    directory: Path
    disk: Path
    port: int
    shape: Shape = field(default_factory=Shape)
    disk_format: str = "qcow2"
    accelerator: str = "tcg"

    @property
    def serial(self) -> Path:
        return self.directory / "serial.log"

    @property
    def monitor(self) -> Path:
        return self.directory / "qmp"


def check_name(name: str) -> str:
    """:raises LabError: not a name for a node."""
    if not NAME.fullmatch(name):
        raise LabError(f"node name {name!r}: a small letter, then up to 11 small letters, digits and hyphens")
    return name


def mac(name: str, index: int) -> str:
    """The MAC of a NIC under test: not the same on two nodes."""
    number = zlib.crc32(name.encode()) & 0xFFFF
    return f"52:54:01:{number >> 8:02x}:{number & 0xFF:02x}:{index:02x}"


def tap(name: str, nic: str) -> str:
    """The host's interface of a virtio NIC: at most 15 characters."""
    return f"lab{zlib.crc32(name.encode()):08x}{nic}"


def machine_id(name: str) -> str:
    """The same node has the same machine id in each life."""
    return "".join(f"{zlib.crc32(f'{name}-{part}'.encode()):08x}" for part in range(4))


def arguments(machine: Machine) -> List[str]:
    """QEMU's arguments, without the program.

    :raises LabError: the shape cannot be had.
    """
    shape = machine.shape
    shape.check()
    kvm = machine.accelerator == "kvm"
    out: List[str] = []

    def add(option: str, value: str) -> None:
        out.extend((option, value))

    def device(text: str) -> None:
        add("-device", text)

    add("-name", f"locality-lab-{machine.name}")
    add("-machine", "q35,kernel-irqchip=split" if kvm and shape.iommu else "q35")
    add("-accel", "kvm" if kvm else "tcg,thread=multi,tb-size=512")
    # 36 bits: with more, SeaBIOS puts 512 MiB windows below each port as soon as RAM passes 4 GiB, and runs out of space.
    add("-cpu", "host,host-phys-bits=off,phys-bits=36" if kvm else "max,phys-bits=36")
    add("-m", f"{shape.memory0 + shape.memory1}M")
    add("-smp", "8,sockets=2,cores=2,threads=2")
    for number, (cpus, memory) in enumerate((("0-3", shape.memory0), ("4-7", shape.memory1))):
        add("-object", f"memory-backend-ram,id=m{number},size={memory}M")
        add("-numa", f"node,nodeid={number},cpus={cpus},memdev=m{number}")
    add("-numa", "dist,src=0,dst=1,val=21")
    out.extend(("-display", "none", "-vga", "none", "-nodefaults", "-no-user-config"))
    add("-rtc", "base=utc")
    add("-serial", f"file:{machine.serial}")
    add("-qmp", f"unix:{machine.monitor},server=on,wait=off")
    add("-smbios", f"type=11,value=io.systemd.credential:system.hostname={machine.name}")
    add("-smbios", f"type=11,value=io.systemd.credential:system.machine_id={machine_id(machine.name)}")
    device("i6300esb,bus=pcie.0,addr=5")
    add("-action", "watchdog=reset")
    if shape.iommu:
        device("intel-iommu,intremap=on,device-iotlb=on")
    # On the board: NUMA node unknown (-1).
    add("-drive", f"if=none,id=d0,file={machine.disk},format={machine.disk_format},cache=unsafe,discard=unmap")
    device("virtio-blk-pci,drive=d0,bootindex=0,bus=pcie.0,addr=2")
    add("-netdev", f"user,id=mg,restrict=on,hostfwd=tcp:127.0.0.1:{machine.port}-:22")
    device(f"virtio-net-pci,netdev=mg,mac={MANAGEMENT_MAC},bus=pcie.0,addr=3,romfile=")
    device("virtio-rng-pci,bus=pcie.0,addr=4")

    for bridge, bus_number, numa_node, place in (("pxb0", 32, 0, 8), ("pxb1", 128, 1, 9), ("pxb2", 80, 0, 10)):
        device(f"pxb-pcie,id={bridge},bus_nr={bus_number},bus=pcie.0,numa_node={numa_node},addr={place}")
    chassis = 0

    def port(kind: str, name: str, bus: str, addr: Optional[int] = None) -> None:
        nonlocal chassis
        chassis += 1
        # Without hotplug: SeaBIOS keeps no windows for what may come.
        where = "" if addr is None else f",addr={addr}"
        device(f"{kind},id={name},bus={bus},chassis={chassis},slot={chassis},hotplug=off{where}")

    for side in (0, 1):
        for number in range(3):
            port("pcie-root-port", f"rp{side}{number}", f"pxb{side}", number)
        device(f"x3130-upstream,id=up{side},bus=rp{side}0")
        for number in range(3):
            port("xio3130-downstream", f"dn{side}{number}", f"up{side}")
    # A switch below a switch gives PXB, a second host bridge on node 0 gives NODE.
    device("x3130-upstream,id=up0b,bus=dn01")
    port("xio3130-downstream", "dn0b0", "up0b")
    port("xio3130-downstream", "dn0b1", "up0b")
    port("pcie-root-port", "rp20", "pxb2", 0)

    for gpu, bus in GPUS:
        device(f"bochs-display,id={gpu},bus={bus}")
    for index, (nic, bus) in enumerate(NICS):
        address = mac(machine.name, index)
        if shape.nic == "virtio":
            add("-netdev", f"tap,id={nic},ifname={tap(machine.name, nic)},queues=4,script=no,downscript=no,vhost=off")
            device(f"virtio-net-pci,id=dev-{nic},netdev={nic},mac={address},bus={bus},mq=on,vectors=10,romfile=")
            continue
        if shape.peer and nic in WIRED:
            remote = machine.directory.parent / check_name(shape.peer) / f"wire-{nic}"
            local = machine.directory / f"wire-{nic}"
            add("-netdev", f"dgram,id={nic},local.type=unix,local.path={local},remote.type=unix,remote.path={remote}")
        else:
            add("-netdev", f"hubport,id={nic},hubid={index + 1}")
        device(f"igb,id=dev-{nic},netdev={nic},mac={address},bus={bus},romfile=")
    if shape.nvme:
        add("-drive", "if=none,id=nv0,driver=null-co,size=1G,read-zeroes=on")
        device("nvme,drive=nv0,serial=lab0,bus=rp01")
    return out
