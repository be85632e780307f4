# Copyright (c) 2026 The inferops.locality authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the software of a node can do: distribution, boot loader, kernel features, cgroups, SELinux, tuned, irqbalance, RKE2."""

from __future__ import annotations

import gzip
import platform as running_python
import re
import zlib
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple

from ansible_collections.inferops.locality.plugins.module_utils import kubelet_args, net_devices, nic_channels
from ansible_collections.inferops.locality.plugins.module_utils.kubelet_args import DEFAULT_DATA_DIR, root_dir
from ansible_collections.inferops.locality.plugins.module_utils.probe import Probe
from ansible_collections.inferops.locality.plugins.module_utils.rke2_config import Rke2Config
from ansible_collections.inferops.locality.plugins.module_utils.state_boot import Boot, trial_obstacle
from ansible_collections.inferops.locality.plugins.module_utils.state_files import enabled, environment, mask, unit_cgroup, unit_setting
from ansible_collections.inferops.locality.plugins.module_utils.sysroot import SysRoot

SUPPORTED = "supported are Debian 12 and 13, Ubuntu 22.04 and 24.04, the RHEL family 9 and 10, and SLES 15 SP6 or newer"
RHEL_FAMILY: Tuple[str, ...] = ("rhel", "rocky", "almalinux", "ol", "centos", "redhat")
_MICRO: Tuple[str, ...] = ("sl-micro", "sle-micro", "sle-micro-rancher", "suse-microos", "opensuse-microos", "opensuse-leap-micro")
MINIMUM_PYTHON = (3, 9)
# Newest first; what is looked for when a node's python3 is too old.
# Python 3.9 or newer of the distribution itself, where it is not python3: that of SLES 15 is 3.6.
_INTERPRETERS: Dict[str, str] = {"sles": "/usr/bin/python3.11"}
_PYTHONS: Tuple[str, ...] = tuple(f"3.{minor}" for minor in range(15, 8, -1))
RKE2_ROLES: Tuple[str, ...] = ("server", "agent")
_UNIT_DIRS: Tuple[str, ...] = ("/etc/systemd/system", "/usr/local/lib/systemd/system", "/usr/lib/systemd/system", "/lib/systemd/system")


def os_release(sysroot: SysRoot) -> Dict[str, str]:
    """Fields of os-release(5); empty where there is none."""
    for path in ("/etc/os-release", "/usr/lib/os-release"):
        if sysroot.exists(path):
            return {name: setting.value for name, setting in environment(sysroot, path).items()}
    return {}


def is_debian(release: Dict[str, str]) -> bool:
    """Whether the distribution's grub-mkconfig reads /etc/default/grub.d."""
    return bool({"debian", "ubuntu"} & {release.get("ID", ""), *release.get("ID_LIKE", "").split()})


def is_suse(release: Dict[str, str]) -> bool:
    """Whether the distribution is of the SUSE family."""
    return bool({"suse", "sles", "opensuse"} & {release.get("ID", ""), *release.get("ID_LIKE", "").split()})


def unsupported(release: Dict[str, str], cgroup: Optional[str], boot: Boot, ostree: bool, python: Optional[str], python_absent: bool) -> Optional[str]:
    """Why this version does not support the node, by name; None where it does. Every reason that holds is named."""
    reasons: List[str] = []
    name = release.get("PRETTY_NAME") or release.get("ID") or ""
    distribution, version = release.get("ID", ""), release.get("VERSION_ID", "")
    like = release.get("ID_LIKE", "").split()
    major = re.match(r"\d+", version)
    if not distribution:
        reasons.append("the distribution cannot be told: neither /etc/os-release nor /usr/lib/os-release names one")
    elif distribution in _MICRO or "micro" in distribution:
        reasons.append(f"{name}: a system of read-only snapshots (SL Micro, MicroOS) is not supported; its settings need transactional-update")
    elif distribution == "debian":
        if not version:
            reasons.append(f"{name}: no release number (testing or unstable); {SUPPORTED}")
        elif version not in ("12", "13"):
            reasons.append(f"{name}: {SUPPORTED}")
    elif distribution == "ubuntu":
        if version not in ("22.04", "24.04"):
            reasons.append(f"{name}: {SUPPORTED}")
    elif distribution in RHEL_FAMILY or "rhel" in like:
        if major is None or int(major.group()) not in (9, 10):
            extra = " (RHEL 8 has cgroup v1 and a kernel without many of these settings)" if major is not None and int(major.group()) == 8 else ""
            reasons.append(f"{name}: {SUPPORTED}{extra}")
    elif distribution == "sles":
        service_pack = re.fullmatch(r"15\.(\d+)", version)
        if not service_pack or int(service_pack.group(1)) < 6:
            reasons.append(f"{name}: {SUPPORTED}")
    else:
        reasons.append(f"{name}: {SUPPORTED}")
    if ostree:
        reasons.append("rpm-ostree manages this system: its kernel arguments and /usr change only by rpm-ostree, which is not supported")
    if boot.uki:
        reasons.append(f"unified kernel images carry their own command line ({boot.uki}), which is not supported")
    if cgroup in ("v1", "hybrid"):
        reasons.append(f"cgroup {cgroup}: the kubelet from 1.35 on does not start there; boot with systemd.unified_cgroup_hierarchy=1")
    if python_absent:
        reasons.append("no Python 3.9 or newer" + (f" (python3 is {python})" if python else "") + ": Ansible's modules do not run")
    return "; ".join(reasons) or None


_SBIN: Tuple[str, ...] = ("/usr/sbin", "/sbin", "/usr/local/sbin", "/usr/bin", "/bin")


def _trial(sysroot: SysRoot, boot: Boot) -> Dict[str, Any]:
    """Whether the running node can try boot arguments once; null below another root, where nothing is booted."""
    if not sysroot.live:
        return {"possible": None, "reason": None}
    command = any(sysroot.exists(f"{directory}/{name}") for directory in _SBIN for name in ("grub-reboot", "grub2-reboot"))
    reason = trial_obstacle(boot, command)
    return {"possible": reason is None, "reason": reason}


def _cgroup(sysroot: SysRoot) -> Optional[str]:
    if sysroot.exists("/sys/fs/cgroup/cgroup.controllers"):
        return "v2"
    if sysroot.exists("/sys/fs/cgroup/unified/cgroup.controllers"):
        return "hybrid"
    names = sysroot.listdir("/sys/fs/cgroup")
    return "v1" if {"cpuset", "memory", "systemd", "cpu", "cpu,cpuacct"} & set(names) else None


def _python(sysroot: SysRoot) -> Tuple[Optional[str], bool]:
    """Version of the Python that modules run with, and whether none of the needed version is there."""
    if sysroot.live:
        return running_python.python_version(), False
    found: Optional[str] = None
    any_bin = False
    for directory in ("/usr/bin", "/usr/local/bin", "/usr/libexec"):
        if not sysroot.is_dir(directory):
            continue
        any_bin = True
        for name in ("python3", "platform-python"):
            match = re.search(r"python(3\.\d+)$", sysroot.readlink(f"{directory}/{name}") or "")
            found = found or (match.group(1) if match else None)
        version = next((version for version in _PYTHONS if sysroot.exists(f"{directory}/python{version}")), None)
        if version is not None and (found is None or _version(found) < MINIMUM_PYTHON):
            found = version
    if found is None:
        return None, any_bin and sysroot.exists("/etc/os-release") and bool(sysroot.listdir("/usr/bin"))
    return found, _version(found) < MINIMUM_PYTHON


def _version(text: str) -> Tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", text)[:3])


def kernel_version(release: Optional[str]) -> Tuple[int, ...]:
    """Major and minor number of a kernel's release; empty where it is not known."""
    return _version(release or "")[:2]


def _features(sysroot: SysRoot, release: Optional[str], cpu: str) -> Dict[str, Optional[bool]]:
    kernel = kernel_version(release)
    cpus = sysroot.is_dir("/sys/devices/system/cpu")
    nohz: Optional[bool] = None
    if sysroot.exists("/sys/devices/system/cpu/nohz_full"):
        nohz = True
    elif release is not None and sysroot.exists(f"/boot/config-{release}"):
        nohz = "\nCONFIG_NO_HZ_FULL=y" in (sysroot.text(f"/boot/config-{release}") or "")
    elif cpus and sysroot.exists("/sys/devices/system/cpu/isolated"):
        nohz = False
    iommu: Optional[bool] = None
    if sysroot.is_dir("/sys/class/iommu"):
        iommu = bool(sysroot.listdir("/sys/class/iommu"))
    elif sysroot.is_dir("/sys/kernel/iommu_groups"):
        iommu = bool(sysroot.listdir("/sys/kernel/iommu_groups"))
    idle = sysroot.text("/sys/devices/system/cpu/cpuidle/current_driver")
    return {
        # Both are known for mainline releases only; a distribution may have them in an older kernel.
        "config_acs": kernel >= (6, 11),
        "hugepages_per_node": kernel >= (5, 16),
        "nohz_full": nohz,
        "cpufreq": sysroot.exists(f"/sys/devices/system/cpu/cpu{cpu}/cpufreq/scaling_governor"),
        "cpuidle": bool(idle) and idle != "none" and sysroot.is_dir(f"/sys/devices/system/cpu/cpu{cpu}/cpuidle"),
        "thp": sysroot.exists("/sys/kernel/mm/transparent_hugepage/enabled"),
        "numa_balancing": sysroot.exists("/proc/sys/kernel/numa_balancing"),
        "iommu": iommu,
        "netkit": _netkit(sysroot, release),
    }


def _netkit(sysroot: SysRoot, release: Optional[str]) -> Optional[bool]:
    """Whether the kernel was built with CONFIG_NETKIT; None where its configuration is not to be had."""
    config = sysroot.text(f"/boot/config-{release}") if release is not None else None
    if config is None:
        packed = sysroot.data("/proc/config.gz", 2**22)
        try:
            config = gzip.decompress(packed).decode("utf-8", "replace") if packed is not None else None
        except (OSError, EOFError, zlib.error):
            sysroot.problem("/proc/config.gz", "is no gzip file")
    return None if config is None else bool(re.search(r"^CONFIG_NETKIT=[ym]$", config, re.MULTILINE))


def _cpuinfo(sysroot: SysRoot) -> Tuple[Optional[str], bool]:
    """Vendor of the CPUs and whether they say that a hypervisor runs them."""
    text = (sysroot.text("/proc/cpuinfo") or "").partition("\n\n")[0]
    match = re.search(r"^vendor_id\s*:\s*(\S+)", text, re.MULTILINE)
    if match:
        return match.group(1), bool(re.search(r"^flags\s*:.*\bhypervisor\b", text, re.MULTILINE))
    match = re.search(r"^CPU implementer\s*:\s*(0x[0-9a-fA-F]+)", text, re.MULTILINE)
    arm = {"0x41": "ARM", "0x4e": "NVIDIA", "0xc0": "Ampere", "0x46": "Fujitsu", "0x48": "HiSilicon"}
    return (arm.get(match.group(1).lower(), match.group(1)) if match else None), False


def _virtualization(sysroot: SysRoot, probe: Probe, hypervisor: bool) -> Optional[str]:
    answer = probe.ask("systemd-detect-virt")
    if answer is not None and re.fullmatch(r"[a-z0-9-]+", answer.out.strip()):
        return answer.out.strip()
    vendor = sysroot.text("/sys/class/dmi/id/sys_vendor") or ""
    for text, name in (("QEMU", "kvm"), ("VMware", "vmware"), ("Microsoft", "microsoft"), ("Xen", "xen"), ("Amazon", "amazon"), ("Google", "google")):
        if text in vendor and (hypervisor or text in ("QEMU", "VMware", "Xen")):
            return name
    if hypervisor:
        return "vm-other"
    return "none" if vendor else None


def _selinux(sysroot: SysRoot) -> Optional[str]:
    enforce = sysroot.text("/sys/fs/selinux/enforce")
    if enforce in ("0", "1"):
        return "enforcing" if enforce == "1" else "permissive"
    if sysroot.live:
        return "disabled"
    config = environment(sysroot, "/etc/selinux/config").get("SELINUX")
    if config is not None:
        return config.value.lower() if config.value.lower() in ("enforcing", "permissive", "disabled") else None
    return "disabled" if sysroot.is_dir("/sys/kernel") else None


def tuned_dirs(sysroot: SysRoot) -> List[str]:
    """Directories of tuned's profiles, the one that counts last (``profile_dirs`` of tuned-main.conf, else by release)."""
    setting = environment(sysroot, "/etc/tuned/tuned-main.conf").get("profile_dirs")
    text = sysroot.text("/etc/tuned/tuned-main.conf") or ""
    match = re.search(r"^\s*profile_dirs\s*=\s*(.+)$", text, re.MULTILINE)
    value = match.group(1) if match else setting.value if setting is not None else ""
    dirs = [part.strip() for part in value.split(",") if part.strip().startswith("/")]
    if dirs:
        return dirs
    if sysroot.is_dir("/usr/lib/tuned/profiles"):
        return ["/usr/lib/tuned/profiles", "/etc/tuned/profiles"]
    return ["/usr/lib/tuned", "/etc/tuned"]


def tuned_installed(sysroot: SysRoot) -> bool:
    """Whether tuned is there to be started."""
    return any(sysroot.exists(path) for path in ("/usr/sbin/tuned", "/usr/sbin/tuned-adm", "/usr/bin/tuned-adm", "/usr/lib/systemd/system/tuned.service",
                                                 "/lib/systemd/system/tuned.service"))


def _tuned(sysroot: SysRoot, probe: Probe) -> Dict[str, Any]:
    installed = tuned_installed(sysroot)
    version = None
    answer = probe.ask("tuned-version") if installed else None
    if answer is not None:
        match = re.search(r"\d+(\.\d+)+", answer.out)
        version = match.group() if match else None
    return {
        "installed": installed,
        "version": version,
        "profile_dir": tuned_dirs(sysroot)[-1] if installed else None,
        "active": (sysroot.text("/etc/tuned/active_profile") or "").strip() or None,
        # Whether it is there to act: started at boot, or running now.
        "on": installed and mask(sysroot, "tuned.service") is None
        and (enabled(sysroot, "tuned.service") is not None or sysroot.is_dir(unit_cgroup("tuned.service"))),
    }


def irqbalance_env(sysroot: SysRoot, debian: bool) -> str:
    """The environment file that irqbalance's unit reads."""
    for setting in reversed(unit_setting(sysroot, "irqbalance.service", "Service", "EnvironmentFile").effective()):
        path = setting.value.lstrip("-")
        if path.startswith("/"):
            return path
    return "/etc/default/irqbalance" if debian else "/etc/sysconfig/irqbalance"


def irqbalance_installed(sysroot: SysRoot) -> bool:
    """Whether irqbalance is there to be started."""
    units = (f"{directory}/irqbalance.service" for directory in _UNIT_DIRS)
    return sysroot.exists("/usr/sbin/irqbalance") or any(sysroot.exists(path) and sysroot.readlink(path) != "/dev/null" for path in units)


def rke2_role(sysroot: SysRoot, data_dir: str) -> Tuple[Optional[str], List[str]]:
    """``server`` or ``agent``, and the units that are there. The archive brings both units, so the one that starts at boot decides."""
    units = [f"rke2-{role}.service" for role in RKE2_ROLES
             if any(sysroot.exists(f"{directory}/rke2-{role}.service") for directory in _UNIT_DIRS)]
    started = [role for role in RKE2_ROLES if enabled(sysroot, f"rke2-{role}.service") and not mask(sysroot, f"rke2-{role}.service")]
    if not started:
        started = [role for role in RKE2_ROLES if sysroot.is_dir(unit_cgroup(f"rke2-{role}.service"))]
    if len(started) == 1:
        return started[0], units
    if not started and len(units) == 1:
        return units[0][len("rke2-"):-len(".service")], units
    if sysroot.is_dir(f"{data_dir}/server"):
        return "server", units
    return ("agent" if sysroot.is_dir(f"{data_dir}/agent") else None), units


def _rke2(sysroot: SysRoot, probe: Probe, config: Rke2Config) -> Dict[str, Any]:
    data_dir = kubelet_args.data_dir(config)
    role, units = rke2_role(sysroot, data_dir)
    version = kubelet_args.version(sysroot, config)
    if version is None:
        answer = probe.ask("rke2-version")
        match = re.search(r"v\d+\.\d+\.\d+\S*", answer.out) if answer is not None else None
        version = match.group() if match else None
    name = config.values.get("node-name")
    return {
        "role": role,
        "version": version,
        "minor": kubelet_args.minor(version),
        "data_dir": data_dir,
        "kubelet_root_dir": root_dir(config),
        "node_name": name if isinstance(name, str) and name else None,
        "units": units,
    }


def _nic_queues(sysroot: SysRoot, probe: Probe, nics: Sequence[Mapping[str, Any]]) -> Dict[str, Optional[int]]:
    """Most queues of each NIC; None where its driver has no such setting. One that does not say is left out."""
    found: Dict[str, Optional[int]] = {}
    for device in nics:
        known: List[Optional[int]] = []
        for name in device["interfaces"]:
            answer = probe.ask("ethtool-channels", interface=name)
            channels = None
            if answer is not None:
                channels = nic_channels.parse(answer.out) if answer.rc == 0 else None
                if channels is None and "not supported" not in answer.err:
                    continue
            elif sysroot.live:
                try:
                    channels = nic_channels.get(name)
                except OSError:
                    continue
            else:
                continue
            known.append(nic_channels.most(channels) or None if channels is not None else None)
        if known:
            found[str(device["address"])] = None if None in known else min(number for number in known if number is not None)
    return found


def _machine_id(sysroot: SysRoot) -> Optional[str]:
    """What the kubelet gives its Node as ``machineID``: the first of the files of its flag ``machine-id-file`` that is not empty (cadvisor machine/info.go)."""
    found = ((sysroot.text(path) or "").strip() for path in ("/etc/machine-id", "/var/lib/dbus/machine-id"))
    return next((text for text in found if text), None)


def read_platform(sysroot: SysRoot, probe: Probe, boot: Boot, config: Rke2Config, nics: Sequence[Mapping[str, Any]] = ()) -> Dict[str, Any]:
    """The ``platform`` part of ``locality_state``. Never raises.

    :param nics: ``{address, interfaces: [names]}`` of the node's NICs.
    """
    release = os_release(sysroot)
    kernel = sysroot.text("/proc/sys/kernel/osrelease")
    vendor, hypervisor = _cpuinfo(sysroot)
    cgroup = _cgroup(sysroot)
    ostree = sysroot.exists("/run/ostree-booted") or sysroot.is_dir("/sysroot/ostree")
    python, python_absent = _python(sysroot)
    reason = unsupported(release, cgroup, boot, ostree, python, python_absent)
    irqbalance = irqbalance_installed(sysroot)
    return {
        "distribution": {
            "id": release.get("ID") or None,
            "version_id": release.get("VERSION_ID") or None,
            "pretty_name": release.get("PRETTY_NAME") or None,
            "like": release.get("ID_LIKE", "").split(),
        },
        "supported": reason is None,
        "unsupported_reason": reason,
        "kernel": kernel or None,
        "machine_id": _machine_id(sysroot),
        "cpu_vendor": vendor,
        "python": python,
        "interpreter": _INTERPRETERS.get(release.get("ID", ""), "/usr/bin/python3"),
        "boot_loader": {"kind": boot.kind, "drop_in_dir": boot.drop_in_dir, "once": boot.once, "trial": _trial(sysroot, boot)},
        "cgroup": cgroup,
        "selinux": _selinux(sysroot),
        "features": _features(sysroot, kernel or None, "0"),
        "tuned": _tuned(sysroot, probe),
        "irqbalance": {"installed": irqbalance, "env_file": irqbalance_env(sysroot, is_debian(release)) if irqbalance else None},
        "network": net_devices.read(sysroot, probe),
        "nic_queues": _nic_queues(sysroot, probe, nics),
        "rke2": _rke2(sysroot, probe, config),
        "virtualization": _virtualization(sysroot, probe, hypervisor),
    }


__all__ = (
    "DEFAULT_DATA_DIR",
    "RHEL_FAMILY",
    "irqbalance_env",
    "irqbalance_installed",
    "kernel_version",
    "is_debian",
    "is_suse",
    "os_release",
    "read_platform",
    "rke2_role",
    "root_dir",
    "tuned_dirs",
    "tuned_installed",
    "unsupported",
)
