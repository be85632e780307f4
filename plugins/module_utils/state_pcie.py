# Copyright (c) 2026 The inferops.locality authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What runs of the PCIe layer: links, ACS, ASPM, relaxed ordering, what GPUs' drivers offer, and whether the node runs virtual machines.

Values have the form that :mod:`pcie_knobs` compares. A value that could not be read is a text that begins with ``unknown:`` and says
why; what needs a GPU driver and finds none is ``not present``. Both are never as wanted.
"""

from __future__ import annotations

import re
from typing import Any, Dict, List, Optional, Tuple

from ansible_collections.inferops.locality.plugins.module_utils import pcie, pcie_knobs
from ansible_collections.inferops.locality.plugins.module_utils.pcie_knobs import NOT_PRESENT, UNKNOWN
from ansible_collections.inferops.locality.plugins.module_utils.platform import kernel_version
from ansible_collections.inferops.locality.plugins.module_utils.probe import Probe
from ansible_collections.inferops.locality.plugins.module_utils.state_knobs import Knobs, bracketed
from ansible_collections.inferops.locality.plugins.module_utils.sysroot import SysRoot

ASPM_POLICY = "/sys/module/pcie_aspm/parameters/policy"
PEERMEM = "/sys/module/nvidia_peermem"
NVIDIA_VERSION = "/proc/driver/nvidia/version"
NVIDIA_FS = "/sys/module/nvidia_fs"
# On the host, and where the GPU Operator's driver container shows its root.
PERSISTENCED: Tuple[str, ...] = ("/run/nvidia-persistenced", "/run/nvidia/driver/run/nvidia-persistenced")
VFIO = "/sys/bus/pci/drivers/vfio-pci"
KVM_DEBUG = "/sys/kernel/debug/kvm"
# Modules whose use count grows with each virtual machine, and with each program that has /dev/kvm open.
KVM_MODULES: Tuple[str, ...] = ("kvm_amd", "kvm_intel", "kvm_hv")

# Drivers that a pod can use a GPU with. The kernel's display drivers and vfio-pci are none.
GPU_DRIVERS = frozenset(("amdgpu", "habanalabs", "i915", "nvidia", "xe"))
# dma-buf needs the open modules and a kernel from this version on (NVIDIA's GPUDirect RDMA guide).
_DMA_BUF_KERNEL = (5, 12)

_NOT_ROOT = f"{UNKNOWN}: only root may read all of its config space"


def read_pcie(sysroot: SysRoot, found: Knobs, pci: pcie.Pci, release: Optional[str], probe: Probe) -> None:
    """Read the running side of the knobs of the PCIe layer into ``found``. Virtual functions are passed over: pods own them.

    :param release: of the running kernel.
    """
    devices = [device for device in pci.devices if device.physfn is None]
    if devices:
        _links(sysroot, found, pci, devices)
        found.running["pcie.acs"] = {address: _redirects(bridge) for address, bridge in sorted(pci.bridges.items())}
    gpus = [device for device in devices if device.kind in ("gpu", "accelerator")]
    if not gpus:
        return
    for knob, kinds in (("gpu.nic_relation", ("nic", "rdma")), ("gpu.nvme_relation", ("nvme",))):
        others = [device for device in devices if device.kind in kinds]
        found.running[knob] = {gpu.address: _relation(pci, gpu, others) for gpu in gpus}
    nvidia = [gpu for gpu in gpus if gpu.vendor == pcie_knobs.NVIDIA]
    if nvidia:
        driven = [gpu for gpu in nvidia if gpu.driver == "nvidia"]
        found.running["gpu.peermem"] = _peermem(sysroot, release) if driven else NOT_PRESENT
        found.running["gpu.persistence"] = _persistence(sysroot, probe) if driven else NOT_PRESENT
        found.running["gpu.gds"] = _gds(sysroot, pci, driven) if driven else NOT_PRESENT


def _links(sysroot: SysRoot, found: Knobs, pci: pcie.Pci, devices: List[pcie.Device]) -> None:
    widths: Dict[str, str] = {}
    speeds: Dict[str, str] = {}
    aspm: Dict[str, str] = {}
    ordering: Dict[str, str] = {}
    policy = bracketed(sysroot.text(ASPM_POLICY, 4096))
    for device in devices:
        if device.link is None:
            continue
        address, link = device.address, device.link
        widths[address] = f"{UNKNOWN}: the kernel does not know it" if link.width is None else pcie_knobs.lanes(link.width)
        speeds[address] = f"{UNKNOWN}: the kernel does not know it" if link.speed_gts is None else pcie_knobs.gts(link.speed_gts)
        config = sysroot.data(f"{pci.places[address]}/config", pcie.CONFIG_BYTES)
        express = pcie.express_of(config) if config else None
        port = pci.bridges.get(device.path[-1]) if device.path else None
        if express is None:
            why = _NOT_ROOT if config and len(config) in (64, 128) else f"{UNKNOWN}: its PCI Express capability cannot be read"
            aspm[address] = ordering[address] = why
            continue
        ordering[address] = "on" if express.relaxed_ordering else "off"
        if port is not None and port.express is None:
            aspm[address] = f"{UNKNOWN}: the link control of its port {port.address} cannot be read"
            continue
        on = set(express.aspm) | set(port.express.aspm if port is not None and port.express is not None else ())
        aspm[address] = " ".join(name for name in pcie.ASPM_BITS if name in on) or "off"
    found.running["pcie.link_width"] = widths
    found.running["pcie.link_speed"] = speeds
    found.running["pcie.aspm"] = {**({"policy": policy} if policy else {}), **aspm}
    found.running["pcie.relaxed_ordering"] = ordering


def _redirects(bridge: pcie.Bridge) -> str:
    if bridge.acs is None:
        return _NOT_ROOT
    if not bridge.acs.supported:
        return pcie_knobs.NO_ACS
    return " ".join(bit for bit in pcie.ACS_REDIRECTS if bit in bridge.acs.enabled) or "off"


def _relation(pci: pcie.Pci, gpu: pcie.Device, others: List[pcie.Device]) -> str:
    if gpu.driver not in GPU_DRIVERS:
        return NOT_PRESENT
    row = pci.relations.get(gpu.address) or {}
    return pcie_knobs.nearest([row.get(other.address) for other in others])


def _peermem(sysroot: SysRoot, release: Optional[str]) -> str:
    """``nvidia_peermem``, else ``dma-buf`` where the open kernel modules run on a kernel that has it, else ``none``."""
    if sysroot.is_dir(PEERMEM):
        return "nvidia_peermem"
    version = sysroot.text(NVIDIA_VERSION, 65536)
    if version is None:
        return f"{UNKNOWN}: {NVIDIA_VERSION} cannot be read, so whether the kernel modules are the open ones is not known"
    if "Open Kernel Module" in version and kernel_version(release) >= _DMA_BUF_KERNEL:
        return "dma-buf"
    return "none"


def _persistence(sysroot: SysRoot, probe: Probe) -> str:
    """Whether persistence mode is on. No file of the kernel says it: the daemon does, or nvidia-smi.

    The daemon runs with persistence mode unless ``--no-persistence-mode`` says otherwise (nvidia-persistenced.c).
    """
    for home in PERSISTENCED:
        if not sysroot.exists(f"{home}/socket"):
            continue
        pid = sysroot.integer(f"{home}/nvidia-persistenced.pid") if home == PERSISTENCED[0] else None
        if pid is not None and sysroot.live:
            # What the daemon was started with; a socket may outlive it. In a container the number is another one.
            words = (sysroot.data(f"/proc/{pid}/cmdline", 65536) or b"").split(b"\0")
            if not words[0].endswith(b"nvidia-persistenced"):
                continue
            return "off" if b"--no-persistence-mode" in words else "on"
        return "on"
    answer = probe.ask("nvidia-smi-persistence")
    if answer is not None and answer.rc == 0:
        modes = {line.strip() for line in answer.out.splitlines() if line.strip()}
        if modes <= {"Enabled", "Disabled"} and modes:
            return "on" if modes == {"Enabled"} else "off"
    return f"{UNKNOWN}: nvidia-persistenced does not run, and nvidia-smi, which can set the mode without it, does not answer"


def _gds(sysroot: SysRoot, pci: pcie.Pci, gpus: List[pcie.Device]) -> str:
    """``nvidia_fs``, else ``NVMe P2PDMA`` where every GPU offers its memory to the kernel's own peer-to-peer DMA."""
    if sysroot.is_dir(NVIDIA_FS):
        return "nvidia_fs"
    # Documentation/ABI/testing/sysfs-bus-pci: p2pmem is there once a driver has registered memory of the function.
    if all(sysroot.is_dir(f"{pci.places[gpu.address]}/p2pmem") for gpu in gpus):
        return "NVMe P2PDMA"
    return "none"


# -- facts for the plan


def ports(pci: pcie.Pci) -> Dict[str, Dict[str, Any]]:
    """Bridges on the paths of devices: their ids, and what the link below them can do at most."""
    result: Dict[str, Dict[str, Any]] = {}
    for address, bridge in sorted(pci.bridges.items()):
        link = bridge.link or pcie.Link()
        result[address] = {
            "vendor": bridge.vendor, "device": bridge.device, "max_speed_gts": link.max_speed_gts, "max_width": link.max_width,
        }
    return result


def guests(sysroot: SysRoot) -> Dict[str, Any]:
    """What tells that the node runs virtual machines.

    :returns: ``vfio``: functions bound to vfio-pci; ``kvm``: users of the kernel's hypervisor, machines or programs that have
        ``/dev/kvm`` open; None where it cannot be told, 0 where the hypervisor is not there.
    """
    bound = [name for name in sysroot.listdir(VFIO) if re.fullmatch(r"[0-9a-f]{4,}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]", name)]
    counts = [sysroot.integer(f"/sys/module/{name}/refcnt") for name in KVM_MODULES]
    users: Optional[int] = None
    # Built into the kernel there is no count; debugfs has a folder for each machine, <pid>-<fd>, and only root may look.
    machines = [name for name in sysroot.listdir(KVM_DEBUG) if re.fullmatch(r"\d+-\d+", name)]
    if machines:
        users = len(machines)
    elif any(count is not None for count in counts):
        users = max(count for count in counts if count is not None)
    elif sysroot.is_dir(KVM_DEBUG) or (sysroot.is_dir("/sys/module") and not sysroot.is_dir("/sys/module/kvm")):
        users = 0
    return {"vfio": bound, "kvm": users}


__all__ = (
    "ASPM_POLICY", "GPU_DRIVERS", "KVM_DEBUG", "KVM_MODULES", "NVIDIA_FS", "NVIDIA_VERSION", "PEERMEM", "PERSISTENCED", "VFIO", "guests", "ports",
    "read_pcie",
)
