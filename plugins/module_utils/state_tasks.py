# Copyright (c) 2026 The inferops.locality authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Do threads pile up on one CPU of an isolated set while its other CPUs are idle?

CPUs that are isolated from the scheduler's domains, by ``isolcpus=domain`` or by a cpuset partition of type ``isolated``, are not balanced:
fork and wake-up keep the previous CPU (kernel/sched/fair.c, select_task_rq_fair), so the threads of a pod that does not pin them itself
stay on the CPU where the first one began. No setting shows that; only where the threads run does.
"""

from __future__ import annotations

import re
import time
from typing import Any, Callable, Dict, FrozenSet, Iterator, List, Mapping, NamedTuple, Optional, Tuple

from ansible_collections.inferops.locality.plugins.module_utils import cpulist
from ansible_collections.inferops.locality.plugins.module_utils.cpulist import CpuSet
from ansible_collections.inferops.locality.plugins.module_utils.state_files import UnitLines, drop_ins, ini_lines, unit_setting
from ansible_collections.inferops.locality.plugins.module_utils.sysroot import SysRoot

CGROUPS = "/sys/fs/cgroup"
ISOLATED = "/sys/devices/system/cpu/isolated"

# Seconds over which cgroups, then the threads of the busy ones are watched. The longest wait of one of 64 threads that share a CPU,
# which the kernel counts when it ends only, is under half of the second.
GROUP_SECONDS = 0.25
THREAD_SECONDS = 0.5
# A cgroup that had less than this of one CPU is not looked into: of two threads that want a CPU each has more.
BUSY_GROUP = 0.1
# A thread wants a CPU if it ran or waited for one this long.
WANTS = 0.5
# A CPU on which threads could run instead was idle at least this long; one on which they pile up at most that long.
IDLE = 0.5
FULL = 0.2
# No node is made busy by looking: 8,000 small files at most, about a third of a second.
MAX_GROUPS = 4096
MAX_THREADS = 4096

_POD = re.compile(r"(?:^|[-/])pod([0-9a-f]{8}[-_][0-9a-f]{4}[-_][0-9a-f]{4}[-_][0-9a-f]{4}[-_][0-9a-f]{12}|[0-9a-f]{32})(?:\.slice)?(?:/|$)")


class Thread(NamedTuple):
    """A thread that was watched. ``ran``, ``waited``: shares of the time; ``allowed``: CPUs that it may run on, None unknown."""

    cpu: int
    ran: float
    waited: float
    allowed: Optional[CpuSet]


def pod_of(cgroup: str) -> Optional[str]:
    """UID of the pod that a cgroup belongs to, for both cgroup drivers of the kubelet; None where it is no pod's."""
    match = _POD.search(cgroup)
    return match.group(1).replace("_", "-") if match else None


def piled_up(cpus: CpuSet, isolated: CpuSet, threads: List[Thread], idle: Mapping[int, float]) -> List[Dict[str, Any]]:
    """Where threads of one cgroup share an isolated CPU although another of their CPUs has nothing to do.

    The rule: at least two threads, on one isolated CPU, each of which wanted a CPU (ran or waited) for half of the time or more, may run on
    all CPUs of the cgroup's cpuset, and meanwhile this CPU was hardly idle and another CPU of the cpuset was idle for half of the time or more. So
    none of these is one: a program with one busy thread, however many sleep; threads that pinned themselves (``Cpus_allowed`` narrower
    than the cpuset: their program's own decision); more threads than CPUs, all CPUs busy; threads held back by a CPU quota (their CPU idles);
    threads of different cgroups. An unknown share of a CPU is neither idle nor full.

    :param cpus: effective cpuset of the cgroup. :param idle: share of the time each CPU was idle.
    :returns: ``{cpus, cpu, threads, share_percent, idle_cpus}``, by CPU; ``share_percent``: what each thread had of the CPU, on average.
    """
    found = []
    free = frozenset(cpu for cpu in cpus if idle.get(cpu, 0.0) >= IDLE)
    for cpu in sorted(cpus & isolated):
        busy = [thread for thread in threads if thread.cpu == cpu and thread.ran + thread.waited >= WANTS and thread.allowed == cpus]
        if len(busy) > 1 and idle.get(cpu, 1.0) <= FULL and free - {cpu}:
            found.append({
                "cpus": cpulist.to_list(cpus),
                "cpu": cpu,
                "threads": len(busy),
                "share_percent": round(100 * sum(thread.ran for thread in busy) / len(busy)),
                "idle_cpus": cpulist.to_list(free - {cpu}),
            })
    return found


def look(sysroot: SysRoot, pause: Callable[[float], None] = time.sleep, clock: Callable[[], float] = time.monotonic) -> Optional[Dict[str, Any]]:
    """Watch the threads of a running node for under a second. Where no CPU is isolated nothing is watched and nothing waits.

    :param pause: waits some seconds. :param clock: seconds.
    :returns: ``{isolated_at_boot, isolated_by_partition, groups, threads, piled_up}``: CPU lists, how many busy cgroups and threads of them were
        watched, and what :func:`piled_up` found, with ``cgroup`` and ``pod`` (its UID or None). None where it cannot be told:
        cgroup v1, no such kernel.
    """
    at_boot = sysroot.cpu_list(ISOLATED)
    if at_boot is None or not sysroot.exists(f"{CGROUPS}/cgroup.controllers"):
        return None
    partitions = sysroot.cpu_list(f"{CGROUPS}/cpuset.cpus.isolated")
    # Kernels before 6.7 do not sum them up.
    by_partition = (_partitions(sysroot, CGROUPS) if partitions is None else partitions) - at_boot
    result: Dict[str, Any] = {
        "isolated_at_boot": cpulist.to_list(at_boot), "isolated_by_partition": cpulist.to_list(by_partition), "groups": 0, "threads": 0, "piled_up": [],
    }
    isolated = at_boot | by_partition
    if not isolated:
        return result
    groups = _busy_groups(sysroot, isolated, pause, clock)
    names = {cgroup: _strided(_threads(sysroot, cgroup), max(64, MAX_THREADS // len(groups))) for cgroup in groups}
    result["groups"], result["threads"] = len(groups), sum(map(len, names.values()))
    if not result["threads"]:
        return result
    processors = _processors(sysroot)
    before = {name: (clock(), _ran_and_waited(sysroot, name)) for found in names.values() for name in found}
    pause(THREAD_SECONDS)
    idle = _idle(processors, _processors(sysroot))
    for cgroup, cpus in groups.items():
        threads = [thread for thread in (_thread(sysroot, name, before[name], clock) for name in names[cgroup]) if thread is not None]
        for entry in piled_up(cpus, isolated, threads, idle):
            result["piled_up"].append({"cgroup": cgroup, "pod": pod_of(cgroup), **entry})
    return result


def _partitions(sysroot: SysRoot, cgroup: str) -> CpuSet:
    """CPUs of the partitions of type isolated; a partition lies below partitions only."""
    found: CpuSet = cpulist.EMPTY
    for name in sysroot.folders(cgroup):
        kind = sysroot.text(f"{cgroup}/{name}/cpuset.cpus.partition", 4096)
        # "isolated invalid (...)" is none.
        if kind == "isolated":
            found |= sysroot.cpu_list(f"{cgroup}/{name}/cpuset.cpus.effective") or cpulist.EMPTY
        elif kind == "root":
            found |= _partitions(sysroot, f"{cgroup}/{name}")
    return found


def _walk(sysroot: SysRoot) -> Iterator[Tuple[str, CpuSet]]:
    """Every cgroup but the root, with its effective CPUs; without a cpuset of its own it has its parent's."""
    waiting: List[Tuple[str, CpuSet]] = [("", sysroot.cpu_list(f"{CGROUPS}/cpuset.cpus.effective") or cpulist.EMPTY)]
    seen = 0
    while waiting:
        parent, inherited = waiting.pop()
        for name in sysroot.folders(f"{CGROUPS}{parent}"):
            seen += 1
            if seen > MAX_GROUPS:
                sysroot.problem(CGROUPS, f"holds more than {MAX_GROUPS} cgroups; the others were not looked at for threads that pile up")
                return
            cgroup = f"{parent}/{name}"
            own = sysroot.cpu_list(f"{CGROUPS}{cgroup}/cpuset.cpus.effective")
            cpus = inherited if own is None else own
            waiting.append((cgroup, cpus))
            yield cgroup, cpus


def _busy_groups(sysroot: SysRoot, isolated: CpuSet, pause: Callable[[float], None], clock: Callable[[], float]) -> Dict[str, CpuSet]:
    """Cgroups with several CPUs, isolated ones among them, that had a good part of a CPU while it was watched."""
    before: Dict[str, Tuple[CpuSet, float, int]] = {}
    for cgroup, cpus in _walk(sysroot):
        if len(cpus) > 1 and cpus & isolated:
            usage = _usage(sysroot, cgroup)
            if usage is not None:
                before[cgroup] = (cpus, clock(), usage)
    if not before:
        return {}
    pause(GROUP_SECONDS)
    found = {}
    for cgroup, (cpus, began, used) in before.items():
        usage = _usage(sysroot, cgroup)
        if usage is not None and usage - used >= BUSY_GROUP * 1e6 * (clock() - began):
            found[cgroup] = cpus
    return found


def _usage(sysroot: SysRoot, cgroup: str) -> Optional[int]:
    """CPU time of a cgroup in microseconds."""
    match = re.search(r"^usage_usec (\d+)$", sysroot.text(f"{CGROUPS}{cgroup}/cpu.stat", 65536) or "", re.MULTILINE)
    return int(match.group(1)) if match else None


def _threads(sysroot: SysRoot, cgroup: str) -> List[str]:
    return [name for name in (sysroot.text(f"{CGROUPS}{cgroup}/cgroup.threads") or "").split() if name.isdigit()]


def _strided(names: List[str], most: int) -> List[str]:
    """At most so many of them, from all over the list."""
    return names[::-(-len(names) // most)] if len(names) > most else names


def _ran_and_waited(sysroot: SysRoot, thread: str) -> Optional[Tuple[int, int]]:
    """Nanoseconds for which a thread ran, and waited for a CPU; None where it has ended."""
    words = (sysroot.text(f"/proc/{thread}/schedstat", 4096) or "").split()
    return (int(words[0]), int(words[1])) if len(words) == 3 and all(word.isdigit() for word in words) else None


def _thread(sysroot: SysRoot, name: str, before: Tuple[float, Optional[Tuple[int, int]]], clock: Callable[[], float]) -> Optional[Thread]:
    """What a thread did since; None where it ended, or wanted no CPU, which spares reading the rest."""
    began, first = before
    second = _ran_and_waited(sysroot, name)
    span = (clock() - began) * 1e9
    if first is None or second is None or span <= 0:
        return None
    ran, waited = (second[0] - first[0]) / span, (second[1] - first[1]) / span
    if ran + waited < WANTS:
        return None
    # The name in the second field may hold anything, a bracket too.
    fields = (sysroot.text(f"/proc/{name}/stat", 65536) or "").rpartition(")")[2].split()
    allowed = re.search(r"^Cpus_allowed_list:\s*(\S*)$", sysroot.text(f"/proc/{name}/status", 65536) or "", re.MULTILINE)
    if len(fields) < 37 or not fields[36].isdigit() or allowed is None:
        return None
    try:
        return Thread(int(fields[36]), ran, waited, cpulist.from_list(allowed.group(1)))
    except cpulist.CpuListError:
        return Thread(int(fields[36]), ran, waited, None)


def _processors(sysroot: SysRoot) -> Dict[int, Tuple[int, int]]:
    """Of every online CPU the ticks it was idle, and all ticks."""
    found = {}
    for line in (sysroot.text("/proc/stat") or "").splitlines():
        match = re.match(r"cpu(\d+)((?: \d+){5,})", line)
        if match:
            # user nice system idle iowait irq softirq steal; guest time is in user already
            ticks = [int(word) for word in match.group(2).split()[:8]]
            found[int(match.group(1))] = (ticks[3] + ticks[4], sum(ticks))
    return found


def _idle(before: Mapping[int, Tuple[int, int]], after: Mapping[int, Tuple[int, int]]) -> Dict[int, float]:
    """Share of the time each CPU was idle; a CPU whose ticks stand still is left out."""
    both: FrozenSet[int] = frozenset(before) & frozenset(after)
    return {
        cpu: (after[cpu][0] - before[cpu][0]) / (after[cpu][1] - before[cpu][1]) for cpu in sorted(both) if after[cpu][1] > before[cpu][1]
    }


_MANAGER_DIRS: Tuple[str, ...] = tuple(f"{base}/systemd/system.conf.d" for base in ("/etc", "/run", "/usr/local/lib", "/usr/lib", "/lib"))


def read_affinity(sysroot: SysRoot, role: Optional[str]) -> List[Dict[str, Any]]:
    """CPUAffinity= of systemd itself and of RKE2's units, which pods inherit: ``{"unit", "file", "line", "value"}``.

    :param role: ``server`` or ``agent``; None: both units are looked at.
    """
    manager = UnitLines()
    for path in ["/etc/systemd/system.conf", *drop_ins(sysroot, _MANAGER_DIRS)]:
        manager.lines += ini_lines(sysroot, path, "Manager", "CPUAffinity")
    found = [("systemd", setting) for setting in manager.effective()]
    for name in [role] if role else ["server", "agent"]:
        unit = f"rke2-{name}.service"
        found += [(unit, setting) for setting in unit_setting(sysroot, unit, "Service", "CPUAffinity").effective()]
    return [{"unit": unit, "file": setting.file, "line": setting.line, "value": setting.value} for unit, setting in found]


__all__ = ("Thread", "look", "piled_up", "pod_of", "read_affinity")
