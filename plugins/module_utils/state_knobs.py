# Copyright (c) 2026 The inferops.locality authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the host, interrupt and kubelet knobs of a node are set to, running and configured, and who else sets them.

The value of a knob has the same form here and in the plan, so that drift is a comparison. A knob that could not be read is
left out; None means that it was read and is not set.
"""

from __future__ import annotations

import hashlib
import io
import os
import re
import zipfile
import zlib
from collections import Counter
from dataclasses import dataclass, field
from typing import Any, Callable, Dict, Iterable, List, Mapping, Optional, Sequence, Tuple

from ansible_collections.inferops.locality.plugins.module_utils import cpulist, findings, irq, kernel_args, knobs, quantity
from ansible_collections.inferops.locality.plugins.module_utils.cpulist import CpuListError, CpuSet
from ansible_collections.inferops.locality.plugins.module_utils.kernel_args import Arg
from ansible_collections.inferops.locality.plugins.module_utils.kubelet_args import FLAGS as KUBELET_FLAGS
from ansible_collections.inferops.locality.plugins.module_utils.kubelet_args import file_settings, unit_settings
from ansible_collections.inferops.locality.plugins.module_utils.kubelet_args import values as kubelet_values
from ansible_collections.inferops.locality.plugins.module_utils.platform import irqbalance_env, irqbalance_installed, tuned_dirs
from ansible_collections.inferops.locality.plugins.module_utils.probe import Probe
from ansible_collections.inferops.locality.plugins.module_utils.rke2_config import KubeletArg, Rke2Config
from ansible_collections.inferops.locality.plugins.module_utils.state_boot import Boot
from ansible_collections.inferops.locality.plugins.module_utils.state_files import (
    Setting, TunedProfile, Write, enabled, environment, environment_assignments, is_vendor, mask, sysctl_file, sysctls, tmpfiles_after_boot,
    tmpfiles_writes, tuned_profile, unit_cgroup, unit_setting, written,
)
from ansible_collections.inferops.locality.plugins.module_utils.sysroot import SysRoot

SYSCTLS: Mapping[str, str] = {
    "vm.swappiness": "vm.swappiness",
    "vm.zone_reclaim": "vm.zone_reclaim_mode",
    "kernel.numa_balancing": "kernel.numa_balancing",
}
# Set by sysctl too, but never by us there: the boot loader owns huge pages.
_HUGE_SYSCTLS: Tuple[str, ...] = ("vm.nr_hugepages", "vm.nr_hugepages_mempolicy")
# All keys whose values are read from sysctl.d.
SYSCTL_KEYS: Tuple[str, ...] = (*SYSCTLS.values(), *_HUGE_SYSCTLS)
THP = "/sys/kernel/mm/transparent_hugepage"
WORKQUEUE = "/sys/devices/virtual/workqueue/cpumask"
CPUS = "/sys/devices/system/cpu"
# Files that tmpfiles.d and tuned write, each with its knob; of every CPU's files the first stands for all.
WRITTEN: Mapping[str, str] = {
    f"{THP}/enabled": "vm.thp",
    f"{THP}/defrag": "vm.thp_defrag",
    WORKQUEUE: "workqueue.cpumask",
    f"{CPUS}/cpu0/cpufreq/scaling_governor": "cpu.governor",
    f"{CPUS}/cpufreq/policy0/scaling_governor": "cpu.governor",
    f"{CPUS}/cpu0/power/pm_qos_resume_latency_us": "cpu.latency",
}
_CMDLINE_KNOBS: Tuple[str, ...] = (
    "kernel.isolcpus", "kernel.nohz_full", "kernel.irqaffinity", "kernel.rcu_nocbs", "kernel.hugepages", "kernel.iommu", "kernel.acs",
)


@dataclass
class Knobs:
    """What was found.

    :ivar running: knob to value. :ivar configured: knob to ``{"value", "source"}``, source ``path:line`` or None where nothing sets it.
    :ivar foreign: ``{"knob", "file", "line", "value"}``.
    """

    running: Dict[str, Any] = field(default_factory=dict)
    configured: Dict[str, Dict[str, Any]] = field(default_factory=dict)
    foreign: List[Dict[str, Any]] = field(default_factory=list)

    def configure(self, knob: str, value: Any, source: Optional[str] = None) -> None:
        """Note the configured side of a knob."""
        self.configured[knob] = {"value": value, "source": source}

    def owned(self, knob: str, setting: Setting, value: Optional[str] = None) -> None:
        """Note that a file of somebody else sets a knob."""
        entry = {"knob": knob, "file": setting.file, "line": setting.line or None, "value": setting.value if value is None else value}
        if entry not in self.foreign:
            self.foreign.append(entry)


def _mixed(values: Iterable[Any]) -> Any:
    """The value that all have; ``mixed: a, b`` where they differ, the most common first; None where there is none."""
    counts = Counter(values)
    if len(counts) <= 1:
        return next(iter(counts), None)
    return "mixed: " + ", ".join(str(value) for value, _count in sorted(counts.items(), key=lambda item: (-item[1], str(item[0]))))


# -- kernel arguments


def read_kernel(sysroot: SysRoot, found: Knobs, boot: Boot) -> Dict[str, Any]:
    """The kernel's command line: what runs (effect files before the line's own words), what comes next, what is dropped.

    :returns: the ``boot`` part of the facts, secrets masked.
    """
    possible = sysroot.cpu_list(f"{CPUS}/possible")
    last = max(possible) if possible else None
    page = _default_page(sysroot)
    text = sysroot.text("/proc/cmdline", 2**20)
    now = None if text is None else kernel_args.meaning(kernel_args.parse(text).args, last, page)
    _running_kernel(sysroot, found, now)
    then = None
    if boot.args is not None:
        then = kernel_args.meaning(boot.args, last, page)
        for knob in _CMDLINE_KNOBS:
            origin = then.origin.get(knob)
            found.configure(knob, then.values.get(knob), origin.source if origin is not None and knob in then.values else None)
    for arg in boot.foreign_args:
        knob_id = kernel_args.knob_of(arg)
        if knob_id is not None and arg.file is not None:
            found.owned(knob_id, Setting(arg.raw, arg.file, arg.line or 0))
    for arg, variable, file, line in boot.replaced:
        knob_id = kernel_args.knob_of(arg)
        if knob_id is not None:
            found.owned(knob_id, Setting(f"{findings.REPLACES}{variable} of the files before it", file, line))
    running_now = now or kernel_args.Meaning()
    ignored = running_now.ignored + (then.ignored if then else [])
    return {
        "command_line": None if text is None else kernel_args.masked(text),
        "next_boot": {
            "entry": boot.entry,
            "args": None if boot.args is None else [kernel_args.masked_word(arg.raw) for arg in boot.args],
            "source": boot.source,
        },
        "duplicates": list(dict.fromkeys(running_now.duplicates + (then.duplicates if then else []))),
        "ignored": [entry for index, entry in enumerate(ignored) if entry not in ignored[:index]],
    }


def _default_page(sysroot: SysRoot) -> Optional[str]:
    match = re.search(r"^Hugepagesize:\s*(\d+) kB", sysroot.text("/proc/meminfo", 2**20) or "", re.MULTILINE)
    return quantity.binary(int(match.group(1)) * 1024) if match else None


def _running_kernel(sysroot: SysRoot, found: Knobs, now: Optional[kernel_args.Meaning]) -> None:
    isolated = sysroot.cpu_list(f"{CPUS}/isolated")
    if now is not None:
        by_flag: Dict[str, CpuSet] = dict(now.isolated)
        if isolated is not None:
            # The file shows the domain flag's effect (boot-time isolation); the other flags show nowhere but on the command line.
            by_flag.pop("domain", None)
            if isolated:
                by_flag["domain"] = isolated
        found.running["kernel.isolcpus"] = kernel_args.isolcpus_form(by_flag)
        for knob in ("kernel.irqaffinity", "kernel.rcu_nocbs", "kernel.iommu", "kernel.acs"):
            found.running[knob] = now.values.get(knob)
        if "kernel.preempt" in now.values:
            found.running["kernel.preempt"] = now.values["kernel.preempt"]
    tickless = sysroot.cpu_list(f"{CPUS}/nohz_full")
    if tickless is not None:
        found.running["kernel.nohz_full"] = cpulist.to_list(tickless) or None
    elif now is not None and sysroot.is_dir(CPUS) and isolated is not None:
        # No such file: the kernel was built without it and ignores the argument.
        found.running["kernel.nohz_full"] = None
    pools = _pools(sysroot)
    if pools is not None:
        found.running["kernel.hugepages"] = pools or None


def _pools(sysroot: SysRoot) -> Optional[Dict[str, Dict[str, int]]]:
    """Huge pages there are, by size and NUMA node; None where no NUMA node can be read."""
    nodes = sorted(int(name[4:]) for name in sysroot.listdir("/sys/devices/system/node") if re.fullmatch(r"node\d+", name))
    if not nodes:
        return None
    pools: Dict[str, Dict[str, int]] = {}
    for node in nodes:
        base = f"/sys/devices/system/node/node{node}/hugepages"
        for name in sysroot.listdir(base):
            match = re.fullmatch(r"hugepages-(\d+)kB", name)
            count = sysroot.integer(f"{base}/{name}/nr_hugepages") if match else None
            if match and count:
                pools.setdefault(quantity.binary(int(match.group(1)) * 1024), {})[str(node)] = count
    return pools


# -- sysctl.d


def read_sysctls(sysroot: SysRoot, found: Knobs, boot: Boot) -> None:
    """Running from /proc/sys, configured from sysctl.d in its order; numa_balancing falls back to the kernel argument."""
    names = {key: knob for knob, key in SYSCTLS.items()}
    for knob, key in SYSCTLS.items():
        path = f"/proc/sys/{key.replace('.', '/')}"
        value = sysroot.integer(path)
        if value is not None:
            found.running[knob] = value
    assigned = sysctls(sysroot, [*names, *_HUGE_SYSCTLS])
    lone = sysctl_file(sysroot, "/etc/sysctl.conf", [*names, *_HUGE_SYSCTLS])
    meaning = None if boot.args is None else kernel_args.meaning(boot.args)
    for key, settings in assigned.items():
        knob = names.get(key, "kernel.hugepages")
        ours = [index for index, setting in enumerate(settings) if setting.file == knobs.FILE_SYSCTL]
        for index, setting in enumerate(settings):
            name = os.path.basename(setting.file)
            loses = is_vendor(setting.file) and (index < ours[-1] if ours else name < os.path.basename(knobs.FILE_SYSCTL))
            if setting.file != knobs.FILE_SYSCTL and not loses:
                found.owned(knob, setting)
        # sysctl --system and tuned apply /etc/sysctl.conf last, whether or not it is linked into sysctl.d.
        for setting in lone[key]:
            found.owned(knob, setting)
        if key not in names:
            continue
        last = settings[-1] if settings else None
        if last is not None:
            found.configure(knob, _number(last.value), last.source)
        elif meaning is not None and knob in meaning.values:
            found.configure(knob, meaning.values[knob], meaning.origin[knob].source)
        else:
            found.configure(knob, None)


def _number(text: str) -> Any:
    """An int, or the text as it stands where it is none: it equals no plan then."""
    try:
        return int(text.split(maxsplit=1)[0], 0) if text.split() else None
    except ValueError:
        return text


# -- files that tmpfiles.d and tuned write


@dataclass
class Tuned:
    """The tuned profile in force. ``names``: what active_profile says; empty where tuned is not installed or masked."""

    names: List[str] = field(default_factory=list)
    manual: bool = True
    profile: TunedProfile = field(default_factory=TunedProfile)

    def option(self, kind: str, *names: str) -> Optional[Setting]:
        """The first of these options of a plug-in that is set to something."""
        options = self.profile.options(kind)
        return next((options[name] for name in names if name in options and options[name].value), None)


def read_tuned(sysroot: SysRoot, found: Knobs, installed: bool, probe: Optional[Probe] = None) -> Tuned:
    """The active tuned profile and what of ours it sets. A profile that tuned chose itself (mode auto) is nobody's decision.

    Which profile is in force only the daemon knows: it is asked where it runs.
    """
    tuned = Tuned()
    if not installed:
        found.running["tuned.profile"] = None
        found.configure("tuned.profile", None)
        return tuned
    text = sysroot.text(knobs.FILE_TUNED_ACTIVE)
    mode = sysroot.text(knobs.FILE_TUNED_MODE)
    masked = mask(sysroot, "tuned.service")
    tuned.manual = mode is None or mode.strip() == "manual"
    name = " ".join((text or "").split()) or None
    if masked is not None:
        found.running["tuned.profile"] = None
        found.configure("tuned.profile", None, masked)
        return tuned
    tuned.names = (name or "").split()
    found.configure("tuned.profile", name, f"{knobs.FILE_TUNED_ACTIVE}:1" if name else None)
    if sysroot.is_dir(unit_cgroup("tuned.service")):
        answer = probe.ask("tuned-active") if probe is not None else None
        match = re.search(r"^Current active profile: (.+)$", answer.out, re.MULTILINE) if answer is not None else None
        if match is not None:
            found.running["tuned.profile"] = " ".join(match.group(1).split())
        elif answer is not None:
            found.running["tuned.profile"] = None
        elif probe is None or not sysroot.live:
            found.running["tuned.profile"] = name
        # A daemon that was asked and gave no answer in time: the file tells what comes back, not what runs.
    elif sysroot.is_dir("/sys/fs/cgroup/system.slice") or not sysroot.live:
        # The folder /run/tuned is there after each boot, whether the daemon runs or not.
        found.running["tuned.profile"] = name if sysroot.exists("/run/tuned") and not sysroot.is_dir("/sys/fs/cgroup/system.slice") else None
    tuned.profile = tuned_profile(sysroot, tuned_dirs(sysroot), tuned.names)
    for missing in tuned.profile.missing:
        sysroot.problem(knobs.FILE_TUNED_ACTIVE, f"names or includes profile '{missing}', which is not there")
    if name and name != knobs.TUNED_PROFILE and tuned.manual:
        found.owned("tuned.profile", Setting(name, knobs.FILE_TUNED_ACTIVE, 1))
        _tuned_foreign(found, tuned)
    return tuned


def _tuned_foreign(found: Knobs, tuned: Tuned) -> None:
    keys = {key: knob for knob, key in SYSCTLS.items()}
    for option, setting in tuned.profile.options("sysctl").items():
        sysctl_knob = keys.get(option.replace("/", "."), "kernel.hugepages" if option in _HUGE_SYSCTLS else None)
        if sysctl_knob:
            found.owned(sysctl_knob, setting)
    for option, setting in tuned.profile.options("bootloader").items():
        if option.startswith("cmdline"):
            for arg in kernel_args.parse(setting.value.lstrip("+- ")).args:
                argument_knob = kernel_args.knob_of(arg)
                if argument_knob:
                    found.owned(argument_knob, setting, arg.raw)
    for kind, names, knob in (
        ("cpu", ("governor",), "cpu.governor"),
        ("cpu", ("force_latency", "pm_qos_resume_latency_us"), "cpu.latency"),
        ("vm", ("transparent_hugepages", "transparent_hugepage"), "vm.thp"),
        ("vm", ("transparent_hugepage.defrag", "transparent_hugepages.defrag"), "vm.thp_defrag"),
    ):
        for name in names:
            given = tuned.option(kind, name)
            if given is not None:
                found.owned(knob, given)
    for option, setting in tuned.profile.options("sysfs").items():
        for path, written_knob in WRITTEN.items():
            if written([Write(option, setting, False)], path) is not None:
                found.owned(written_knob, setting)


def read_written(sysroot: SysRoot, found: Knobs, boot: Boot, tuned: Tuned) -> None:
    """THP, governor, C-state latency and the mask of unbound work.

    At boot come first the kernel's argument, then systemd-tmpfiles, then tuned, which leaves THP alone where the command
    line sets it (tuned's plugin_vm).
    """
    writes = tmpfiles_writes(sysroot)
    meaning = kernel_args.meaning(boot.args or [], None)
    for path, knob in WRITTEN.items():
        for write in [*writes, *tmpfiles_after_boot(sysroot)]:
            if write.setting.file != knobs.FILE_TMPFILES and written([write], path) is not None:
                found.owned(knob, write.setting)
    chosen: Dict[str, Setting] = {}
    for path, knob in WRITTEN.items():
        setting = written(writes, path)
        if setting is not None:
            chosen[knob] = setting
    by_tuned = {
        "vm.thp_defrag": tuned.option("vm", "transparent_hugepage.defrag", "transparent_hugepages.defrag"),
        "vm.thp": None if "vm.thp" in meaning.values else tuned.option("vm", "transparent_hugepages", "transparent_hugepage"),
        "cpu.governor": tuned.option("cpu", "governor"),
        "cpu.latency": tuned.option("cpu", "pm_qos_resume_latency_us"),
    }
    sysfs = [Write(option, setting, False) for option, setting in tuned.profile.options("sysfs").items()]
    for path, knob in WRITTEN.items():
        by_tuned[knob] = written(sysfs, path) or by_tuned.get(knob)
    for knob, option in by_tuned.items():
        if option is not None:
            chosen[knob] = option
    forms: Mapping[str, Callable[[str], Any]] = {"cpu.latency": _latency, "workqueue.cpumask": _mask_list, "cpu.governor": _first_word}
    for knob in dict.fromkeys(WRITTEN.values()):
        if knob in chosen:
            found.configure(knob, forms.get(knob, str)(chosen[knob].value), chosen[knob].source)
        elif knob in meaning.values:
            found.configure(knob, meaning.values[knob], meaning.origin[knob].source)
        else:
            found.configure(knob, None)
    _running_written(sysroot, found)


def _first_word(text: str) -> str:
    # tuned takes "schedutil|ondemand|powersave": the first that the driver has.
    return text.split("|", maxsplit=1)[0].strip()


def _latency(text: str) -> Any:
    """Microseconds of ``pm_qos_resume_latency_us``, by file or by tuned's option; None for no limit; the text where it is neither."""
    text = text.strip()
    if text in ("0", "None", "none", ""):
        return None
    if text == "n/a":
        return 0
    last = text.rpartition("|")[2]
    return int(last) if last.isdecimal() and len(last) < 20 else text


def _mask_list(text: str) -> str:
    try:
        return cpulist.to_list(cpulist.from_mask(text))
    except CpuListError:
        return text


def bracketed(text: Optional[str]) -> Optional[str]:
    """The word in brackets of a kernel file that lists its choices; None where there is none."""
    match = re.search(r"\[([^\]]+)\]", text or "")
    return match.group(1) if match else None


def _running_written(sysroot: SysRoot, found: Knobs) -> None:
    for name, knob in (("enabled", "vm.thp"), ("defrag", "vm.thp_defrag")):
        text = sysroot.text(f"{THP}/{name}", 4096)
        word = bracketed(text)
        if word is not None:
            found.running[knob] = word
        elif text is not None:
            sysroot.problem(f"{THP}/{name}", "no word is in brackets")
    unbound = sysroot.cpu_mask(WORKQUEUE)
    if unbound is not None:
        found.running["workqueue.cpumask"] = cpulist.to_list(unbound)
    online = sysroot.cpu_list(f"{CPUS}/online") or frozenset()
    governors = [text for text in (sysroot.text(f"{CPUS}/cpu{cpu}/cpufreq/scaling_governor", 256) for cpu in sorted(online)) if text]
    if governors:
        found.running["cpu.governor"] = _mixed(governors)
    latencies = [text for text in (sysroot.text(f"{CPUS}/cpu{cpu}/power/pm_qos_resume_latency_us", 256) for cpu in sorted(online)) if text]
    if latencies:
        found.running["cpu.latency"] = _mixed(_latency(text) for text in latencies)


# -- systemd


def _cpu_words(text: str) -> CpuSet:
    """AllowedCPUs= takes lists with commas or blanks (parse_cpu_set)."""
    return cpulist.from_list(text.replace(" ", ","))


def read_units(sysroot: SysRoot, found: Knobs, role: Optional[str]) -> None:
    """AllowedCPUs= of the slices and LimitMEMLOCK= of RKE2's unit. Lists grow with each line, an empty one starts anew."""
    configured: Dict[str, Optional[str]] = {}
    source = None
    for unit, file in zip(knobs.SLICES, knobs.FILES_SLICES):
        kind = "Scope" if unit.endswith(".scope") else "Slice"
        lines = unit_setting(sysroot, unit, kind, "AllowedCPUs")
        effective = lines.effective()
        for setting in lines.lines:
            if setting.file != file and setting.value and not (is_vendor(setting.file) and setting not in effective):
                found.owned("systemd.slices", setting)
        try:
            configured[unit] = cpulist.to_list(frozenset().union(*(_cpu_words(setting.value) for setting in effective))) or None
        except CpuListError as error:
            sysroot.problem(effective[-1].file, str(error)[:200])
            configured[unit] = " ".join(setting.value for setting in effective)
        source = source or (effective[-1].source if effective else None)
    found.configure("systemd.slices", configured if any(configured.values()) else None, source)
    if sysroot.exists("/sys/fs/cgroup/cgroup.controllers"):
        running: Dict[str, Optional[str]] = {}
        everything = sysroot.cpu_list("/sys/fs/cgroup/cpuset.cpus.effective") or sysroot.cpu_list(f"{CPUS}/online")
        for unit in knobs.SLICES:
            if sysroot.is_dir(f"/sys/fs/cgroup/{unit}"):
                cpus = sysroot.cpu_list(f"/sys/fs/cgroup/{unit}/cpuset.cpus")
                # A cgroup with processes in it cannot be given an empty list again, so the one way to open it is all CPUs.
                running[unit] = cpulist.to_list(cpus) if cpus and not (everything and cpus >= everything) else None
        if len(running) == len(knobs.SLICES):
            found.running["systemd.slices"] = running if any(running.values()) else None
    _memlock(sysroot, found, role)


def _memlock(sysroot: SysRoot, found: Knobs, role: Optional[str]) -> None:
    if role is None:
        # Nothing says which of RKE2's units this node will run: the one with a setting counts.
        role = next((name for name in ("server", "agent") if unit_setting(sysroot, f"rke2-{name}.service", "Service", "LimitMEMLOCK").lines), "agent")
    unit = f"rke2-{role}.service"
    ours = f"/etc/systemd/system/{unit}.d/{knobs.DROP_IN}.conf"
    lines = unit_setting(sysroot, unit, "Service", "LimitMEMLOCK").lines
    last = next((setting for setting in reversed(lines) if setting.value), None)
    for setting in lines:
        if setting.file != ours and setting.value and not (is_vendor(setting.file) and setting != last):
            found.owned("limits.memlock", setting)
    found.configure("limits.memlock", _limit(last.value) if last else None, last.source if last else None)
    process = unit_process(sysroot, unit)
    if process is not None:
        match = re.search(r"^Max locked memory\s+(\S+)\s+(\S+)", sysroot.text(f"/proc/{process}/limits", 2**16) or "", re.MULTILINE)
        if match:
            soft, hard = ("infinity" if part == "unlimited" else part for part in match.groups())
            found.running["limits.memlock"] = soft if soft == hard else f"{soft}:{hard}"


def unit_process(sysroot: SysRoot, unit: str) -> Optional[str]:
    """The process of RKE2's unit: ``rke2``, or the first that is no shim. Shims outlive a stop of the unit, with the limits they had."""
    processes = (sysroot.text(f"{unit_cgroup(unit)}/cgroup.procs", 2**20) or "").split()
    names = {process: sysroot.text(f"/proc/{process}/comm", 256) for process in processes}
    named = [process for process, name in names.items() if name == "rke2"]
    others = [process for process, name in names.items() if name is not None and not name.startswith("containerd-shim")]
    return next(iter([*named, *others]), None)


def runs(sysroot: SysRoot, role: Optional[str]) -> Dict[str, Optional[bool]]:
    """Whether RKE2's unit and its kubelet run, None where no cgroups can be read; ``left``: a run of this collection stopped the unit and did not start it."""
    left = sysroot.exists(knobs.FILE_STOPPED)
    if not sysroot.is_dir("/sys/fs/cgroup/system.slice"):
        return {"unit": None, "kubelet": None, "left": left}
    units = [f"rke2-{name}.service" for name in ([role] if role else ["server", "agent"])]
    return {"unit": any(unit_process(sysroot, unit) for unit in units), "kubelet": _kubelet_flags(sysroot, role) is not None, "left": left}


def _limit(text: str) -> str:
    """A limit in bytes, as text; suffixes count in 1024 (systemd.exec(5)); ``soft:hard`` keeps both where they differ."""
    parts = []
    for part in text.split(":"):
        match = re.fullmatch(r"(\d+)([KMGTPE]?)", part.strip())
        parts.append(str(int(match.group(1)) * 1024 ** " KMGTPE".index(match.group(2) or " ")) if match else part.strip())
    return parts[0] if len(set(parts)) == 1 else ":".join(parts)


# -- irqbalance


def read_irqbalance(sysroot: SysRoot, found: Knobs, debian: bool) -> None:
    """``disabled``, ``enabled`` or ``banned:<list>``; running is told by the unit's cgroup, its ban list from the configuration."""
    unit = "irqbalance.service"
    masked = mask(sysroot, unit)
    if masked is None and sysroot.exists(knobs.FILE_IRQBALANCE_MASK):
        found.owned("irqbalance", Setting(findings.UNIT_FILE, knobs.FILE_IRQBALANCE_MASK, 0))
    if not irqbalance_installed(sysroot) or masked is not None:
        found.configure("irqbalance", "disabled", masked)
        value = "enabled"
    else:
        link = enabled(sysroot, unit)
        settings = _irqbalance_environment(sysroot, irqbalance_env(sysroot, debian))
        value, setting = _bans(sysroot, settings)
        if link is None:
            found.configure("irqbalance", "disabled")
        else:
            found.configure("irqbalance", value, setting.source if setting is not None else link)
            for name in ("IRQBALANCE_BANNED_CPUS", "IRQBALANCE_BANNED_CPULIST"):
                entry = settings.get(name)
                if entry is not None and entry.value and entry.file != knobs.FILE_IRQBALANCE:
                    found.owned("irqbalance", entry, f"{name}={entry.value}")
    if sysroot.exists("/sys/fs/cgroup/cgroup.controllers") and sysroot.is_dir("/sys/fs/cgroup/system.slice"):
        if not sysroot.is_dir(unit_cgroup(unit)):
            found.running["irqbalance"] = "disabled"
        else:
            given = _irqbalance_process(sysroot, unit)
            found.running["irqbalance"] = value if given is None else _bans(sysroot, given)[0]


def _irqbalance_process(sysroot: SysRoot, unit: str) -> Optional[Dict[str, Setting]]:
    """The variables that the running daemon was started with; None where they cannot be read. It looks at them once."""
    for process in (sysroot.text(f"{unit_cgroup(unit)}/cgroup.procs", 2**16) or "").split():
        path = f"/proc/{process}/environ"
        data = sysroot.data(path, 2**20)
        if data is not None:
            pairs = [word.decode("utf-8", "replace").partition("=") for word in data.split(b"\0")]
            return {name: Setting(value, path, 0) for name, equals, value in pairs if equals}
    return None


def _irqbalance_environment(sysroot: SysRoot, file: str) -> Dict[str, Setting]:
    """Variables of the daemon: Environment= lines, then the file of EnvironmentFile=, which wins (systemd.exec(5))."""
    settings: Dict[str, Setting] = {}
    for line in unit_setting(sysroot, "irqbalance.service", "Service", "Environment").effective():
        settings.update(environment_assignments(line))
    settings.update(environment(sysroot, file))
    return settings


def _bans(sysroot: SysRoot, settings: Mapping[str, Setting]) -> Tuple[str, Optional[Setting]]:
    """The old mask counts before the list (irqbalance cputree.c); an empty variable bans nothing explicitly."""
    for name, read in (("IRQBALANCE_BANNED_CPUS", cpulist.from_mask), ("IRQBALANCE_BANNED_CPULIST", _cpu_words)):
        setting = settings.get(name)
        if setting is None or not setting.value or setting.value == "-":
            continue
        try:
            return f"banned:{cpulist.to_list(read(setting.value))}", setting
        except CpuListError as error:
            sysroot.problem(setting.file, f"{name}: {error}"[:200])
            return f"banned:{setting.value}", setting
    return "enabled", None


# -- interrupts and queues


def read_interrupts(sysroot: SysRoot, found: Knobs, devices: Sequence[Mapping[str, Any]]) -> List[Dict[str, Any]]:
    """Interrupts, queues and packet steering of devices, and of whatever else our file names.

    ``irq.affinity`` of a device is the list its file gives if every interrupt is where that file places it (or will be at its
    next firing); otherwise the CPUs that are really asked for. ``nic.rps`` and ``nic.xps`` of a device are a list if all its queues
    have that one (an empty one: off), else ``mixed: …``; one that has nothing to be steered is left out.

    :param devices: ``{address, interfaces: [names]}`` of the node's devices with interrupts.
    """
    configured = irq.read_configured(sysroot)
    entries = {entry["address"]: entry for entry in (configured or {}).get("devices", [])}
    wanted: List[Mapping[str, Any]] = list(devices)
    others = [address for address in entries if address not in {device["address"] for device in devices}]
    wanted += [{"address": address, "interfaces": irq.interfaces(sysroot, address)} for address in others]
    irqs = irq.read_irqs(sysroot, wanted)
    source = f"{knobs.FILE_IRQ}:1"
    failed = configured is None and sysroot.reads.get(knobs.FILE_IRQ) in ("file", "link")
    if not failed:
        for knob, key in (("irq.affinity", "cpus"), ("nic.queues", "queues"), ("nic.rps", "rps"), ("nic.xps", "xps")):
            values = {address: entry[key] for address, entry in entries.items() if entry[key] is not None}
            found.configure(knob, values or None, source if values else None)
        strategies = sorted({entry["strategy"] for entry in entries.values()})
        found.configure("irq.service", *_service(sysroot, " and ".join(strategies) or None))
        if configured is not None:
            found.configure("irq.default_affinity", configured["default_affinity"], source)
        elif "kernel.irqaffinity" in found.configured:
            found.configured["irq.default_affinity"] = dict(found.configured["kernel.irqaffinity"])
    default = irq.read_default(sysroot)
    if default is not None:
        found.running["irq.default_affinity"] = cpulist.to_list(default)
    affinity: Dict[str, str] = {}
    for device in wanted:
        mine = [entry for entry in irqs if entry["device"] == device["address"] and not entry["managed"] and entry["asked"] is not None]
        if mine:
            affinity[device["address"]] = _affinity(sysroot, mine, entries.get(device["address"]))
    if irqs or sysroot.is_dir("/proc/irq"):
        found.running["irq.affinity"] = affinity or None
    queues: Dict[str, int] = {}
    steering: Dict[str, Dict[str, str]] = {"rps": {}, "xps": {}}
    for device in wanted:
        for name in device["interfaces"][:1]:
            received = [queue for queue in sysroot.listdir(f"/sys/class/net/{name}/queues") if queue.startswith("rx-")]
            if received:
                queues[device["address"]] = len(received)
        for kind, values in steering.items():
            lists = {cpulist.to_list(cpus) for name in device["interfaces"] for cpus in irq.read_steering(sysroot, name, kind).values()}
            if len(lists) > 1:
                values[device["address"]] = "mixed: " + "; ".join(text or "off" for text in sorted(lists))
            elif lists:
                values[device["address"]] = lists.pop()
    if sysroot.is_dir("/sys/class/net"):
        found.running["nic.queues"] = queues or None
        found.running["nic.rps"] = steering["rps"] or None
        found.running["nic.xps"] = steering["xps"] or None
    return irqs


def _service(sysroot: SysRoot, strategy: Optional[str]) -> Tuple[Optional[str], Optional[str]]:
    """How interrupts are dealt by what starts the boot program, if all of that is as it was written; else what is not.

    Each of the files carries the checksum of what follows it, so that a change of any line shows.
    """
    texts = {file: sysroot.text(file, 2**20) for file in knobs.FILES_IRQ_SERVICE}
    links = {file: sysroot.readlink(file) for file in knobs.LINKS_IRQ_SERVICE}
    there = [file for file, text in [*texts.items(), *links.items()] if text is not None]
    if not there:
        return None, None
    for file, text in texts.items():
        if text is None:
            return f"{file} is missing", there[0]
        if not _as_written(text):
            return f"{file} was changed", f"{file}:1"
    for file, target in links.items():
        if target is None:
            return f"{file} is missing", there[0]
    return strategy, f"{knobs.FILE_IRQ_UNIT}:1"


def _as_written(text: str) -> bool:
    """Whether a file of ours that carries the checksum of what follows it is as it was written."""
    head, mark, body = text.partition("\n# Checksum of what follows: ")
    checksum, _end, body = body.partition("\n")
    return bool(mark) and hashlib.sha256(body.rstrip().encode()).hexdigest() == checksum and all(line.startswith("#") for line in head.split("\n"))


def _affinity(sysroot: SysRoot, irqs: Sequence[Mapping[str, Any]], entry: Optional[Mapping[str, Any]]) -> str:
    def cpus_of(text: Optional[str]) -> Optional[CpuSet]:
        return None if text is None else cpulist.from_list(text)

    if entry is not None and entry["cpus"]:
        cpus = cpulist.from_list(entry["cpus"])
        placed = irq.place(irqs, cpus, entry["strategy"], irq.read_cores(sysroot, cpus))
        if all(irq.verdict(placed[item["irq"]], cpus_of(item["asked"]), cpus_of(item["effective"])) in irq.IN_SYNC for item in irqs):
            return str(entry["cpus"])
    return cpulist.to_list(frozenset().union(*(cpulist.from_list(item["asked"]) for item in irqs)))


# -- the kubelet


def read_kubelet(sysroot: SysRoot, found: Knobs, config: Rke2Config, role: Optional[str], data_dir: str) -> None:
    """Configured: RKE2's merged configuration. Running: the flags of the kubelet's process. Flags of other files are foreign."""
    if config.complete:
        values = kubelet_values([(arg.flag, arg.value) for arg in config.kubelet_args])
        sources: Dict[str, KubeletArg] = {}
        for arg in config.kubelet_args:
            sources[arg.flag] = arg
        for flag, knob in KUBELET_FLAGS.items():
            last = sources.get(flag)
            found.configure(knob, values[knob], None if last is None else f"{last.file}:{last.line}")
    for arg in config.kubelet_args:
        if arg.flag in KUBELET_FLAGS and arg.file != knobs.FILE_KUBELET:
            found.owned(KUBELET_FLAGS[arg.flag], Setting(arg.value, arg.file, arg.line), f"{arg.flag}={arg.value}")
    for lost in config.replaced:
        if lost.flag in KUBELET_FLAGS and lost.dropped_from == knobs.FILE_KUBELET:
            found.owned(KUBELET_FLAGS[lost.flag], Setting(f"{findings.REPLACES}kubelet-arg of the files before it", lost.file, lost.line))
    for knob, setting, text in unit_settings(sysroot, role):
        found.owned(knob, setting, text)
    for knob, setting in file_settings(sysroot, config, data_dir):
        found.owned(knob, setting)
    found.configure("kubelet.first_start", *_first_start(sysroot, role))
    flags = _kubelet_flags(sysroot, role)
    if flags is not None:
        found.running.update(kubelet_values(flags))


def _first_start(sysroot: SysRoot, role: Optional[str]) -> Tuple[Optional[str], Optional[str]]:
    """The command of the boot program that RKE2's unit runs before it starts, if its line is as it was written and in force; else what is not."""
    for unit, file in zip(knobs.RKE2_UNITS, knobs.FILES_FIRST_START):
        text = sysroot.text(file, 2**20)
        if text is None or role not in (None, unit[len("rke2-"):-len(".service")]):
            continue
        if not _as_written(text):
            return f"{file} was changed", f"{file}:1"
        lines = unit_setting(sysroot, unit, "Service", "ExecStartPre").lines
        behind = lines[max((index for index, line in enumerate(lines) if line.file == file), default=-1) + 1:]
        # An empty one takes all that stand before it away (systemd.service(5)).
        emptied = next((line for line in behind if not line.value), None)
        return (f"taken away by {emptied.source}", emptied.source) if emptied else (knobs.FIRST_START, f"{file}:1")
    return None, None


def _kubelet_flags(sysroot: SysRoot, role: Optional[str]) -> Optional[List[Tuple[str, str]]]:
    """Our flags of the kubelet that RKE2 runs; None where there is none. Other flags are not looked at."""
    for name in ([role] if role else ["server", "agent"]):
        for process in (sysroot.text(f"{unit_cgroup(f'rke2-{name}.service')}/cgroup.procs", 2**20) or "").split():
            if sysroot.text(f"/proc/{process}/comm", 256) != "kubelet":
                continue
            data = sysroot.data(f"/proc/{process}/cmdline", 2**20)
            if not data:
                return None
            flags: List[Tuple[str, str]] = []
            words = [word.decode("utf-8", "replace") for word in data.rstrip(b"\0").split(b"\0")]
            for index, word in enumerate(words):
                flag, equals, value = word.lstrip("-").partition("=")
                if word.startswith("--") and flag in KUBELET_FLAGS:
                    flags.append((flag, value if equals else words[index + 1] if index + 1 < len(words) else ""))
            return flags
    return None


# -- what we brought


def read_runtime(sysroot: SysRoot, found: Knobs) -> None:
    """Version of the program that acts at boot: the member ``VERSION`` of its archive, whose end is a hash of all other members.

    A program whose members do not fit the hash was changed by hand: its version says so and equals no plan.
    """
    data = sysroot.data(knobs.FILE_RUNTIME, 16 * 2**20)
    if data is None:
        if sysroot.reads.get(knobs.FILE_RUNTIME, "absent") == "absent":
            found.configure("runtime.version", None)
        return
    version = "not readable"
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            members = {info.filename: archive.read(info) for info in archive.infolist() if info.file_size < 2**22}
        version = members.pop("VERSION").decode("ascii").strip()
        digest = hashlib.sha256()
        for name in sorted(members):
            digest.update(f"{name}\0{len(members[name])}\0".encode() + members[name])
        if not version.endswith(f"+{digest.hexdigest()[:12]}"):
            version += " (changed)"
    except (zipfile.BadZipFile, zlib.error, KeyError, ValueError, RuntimeError, NotImplementedError, OSError, EOFError) as error:
        sysroot.problem(knobs.FILE_RUNTIME, f"is not the archive this collection writes: {type(error).__name__}")
    found.configure("runtime.version", version, knobs.FILE_RUNTIME)


__all__ = (
    "KUBELET_FLAGS",
    "SYSCTLS",
    "Arg",
    "Knobs",
    "Tuned",
    "WRITTEN",
    "bracketed",
    "kubelet_values",
    "read_interrupts",
    "read_irqbalance",
    "read_kernel",
    "read_kubelet",
    "read_runtime",
    "read_sysctls",
    "read_tuned",
    "read_units",
    "read_written",
)
