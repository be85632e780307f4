# Copyright (c) 2026 The inferops.locality authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether the kubelet runs, and which containers with CPUs of their own are alive: told by /proc and cgroups, without asking anybody.

Containers outlive a kubelet and RKE2: their shims stay when the unit is stopped. The kubelet sets a cpuset on the container's cgroup, never on that of
the pod or of its sandbox (pkg/kubelet/cm/cpumanager, updateContainerCPUSet).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Dict, List, Optional

from ansible_collections.inferops.locality.plugins.module_utils import cpulist
from ansible_collections.inferops.locality.plugins.module_utils.cpulist import CpuSet
from ansible_collections.inferops.locality.plugins.module_utils.kubelet_predict import Checkpoint, entries_of
from ansible_collections.inferops.locality.plugins.module_utils.kubelet_state import CpuState
from ansible_collections.inferops.locality.plugins.module_utils.state_tasks import CGROUPS, pod_of
from ansible_collections.inferops.locality.plugins.module_utils.sysroot import SysRoot

# The kubelet's cgroup of all pods, of its drivers systemd and cgroupfs.
_PODS = ("kubepods.slice", "kubepods")
# Pods of the classes Burstable and BestEffort lie one level deeper; those of the class Guaranteed, which alone have CPUs of their own, do not.
_CLASS = re.compile(r"(?:kubepods-)?(?:burstable|besteffort)(?:\.slice)?")
_CONTAINER = re.compile(r"(?:(?:cri-containerd|crio|docker)-)?([0-9a-f]{64})(?:\.scope)?")


@dataclass(frozen=True)
class Container:
    """A container or sandbox with processes.

    :ivar cpus: its cpuset as it is set; empty where it has its parent's, None where that cannot be read. :ivar guaranteed: of a pod of the class Guaranteed.
    :ivar mems: the same of its NUMA nodes.
    """

    pod: str
    id: str
    cgroup: str
    cpus: Optional[CpuSet]
    guaranteed: bool
    mems: Optional[CpuSet] = cpulist.EMPTY


def kubelet_process(sysroot: SysRoot) -> Optional[int]:
    """The process of a kubelet; None where none runs."""
    for name in sysroot.listdir("/proc"):
        if name.isdecimal() and sysroot.text(f"/proc/{name}/comm", 256) == "kubelet":
            return int(name)
    return None


def containers(sysroot: SysRoot) -> Optional[List[Container]]:
    """All containers of pods that have processes, sandboxes among them; None where cgroups cannot be read (cgroup v1)."""
    if not sysroot.exists(f"{CGROUPS}/cgroup.controllers"):
        return None
    found: List[Container] = []
    for top in _PODS:
        for name in sysroot.folders(f"{CGROUPS}/{top}"):
            path = f"{CGROUPS}/{top}/{name}"
            if pod_of(f"/{name}"):
                found += _containers(sysroot, path, True)
            elif _CLASS.fullmatch(name):
                for inner in sysroot.folders(path):
                    if pod_of(f"/{inner}"):
                        found += _containers(sysroot, f"{path}/{inner}", False)
    return found


def _containers(sysroot: SysRoot, pod: str, guaranteed: bool) -> List[Container]:
    found = []
    for name in sysroot.folders(pod):
        match = _CONTAINER.fullmatch(name)
        path = f"{pod}/{name}"
        if match is None or not _populated(sysroot, path):
            continue
        found.append(Container(pod_of(pod) or "", match.group(1), path[len(CGROUPS):], sysroot.cpu_list(f"{path}/cpuset.cpus"), guaranteed,
                               sysroot.cpu_list(f"{path}/cpuset.mems")))
    return found


def _populated(sysroot: SysRoot, cgroup: str) -> bool:
    """Whether a cgroup or one below it has processes (Documentation/admin-guide/cgroup-v2.rst, cgroup.events). One that cannot be read has some."""
    events = sysroot.text(f"{cgroup}/cgroup.events", 4096)
    # Gone since its name was read.
    return sysroot.is_dir(cgroup) if events is None else "populated 0" not in events


def living(checkpoint: Checkpoint, alive: List[Container]) -> List[Dict[str, Any]]:
    """What has CPUs of its own in a checkpoint, and whether it is alive.

    A checkpoint names containers, a cgroup has their ids: an entry is taken for alive if a container of its pod with processes has one of its CPUs in its
    cpuset, or a cpuset that cannot be read. Of a file that cannot be used all containers of Guaranteed pods with a cpuset are told, as it may have them.

    :returns: ``{pod, container, cpus, alive}``, the CPUs as a list.
    """
    if checkpoint.exists and checkpoint.state is None:
        return [
            {"pod": each.pod, "container": each.id, "cpus": None if each.cpus is None else cpulist.to_list(each.cpus), "alive": True}
            for each in alive if each.guaranteed and each.cpus != cpulist.EMPTY
        ]
    result = []
    for pod, name, cpus in entries_of(checkpoint):
        mine = [each for each in alive if (each.pod == pod if pod else each.id == name)]
        lives = any(each.cpus is None or each.cpus & cpus for each in mine)
        result.append({"pod": pod, "container": name, "cpus": cpulist.to_list(cpus), "alive": lives})
    return result


def memory_holders(checkpoint: Checkpoint, alive: List[Container]) -> List[str]:
    """UIDs of living pods with memory of their own in a checkpoint of the memory manager, which sets the NUMA nodes of their containers.

    Of a file that cannot be used all pods of the class Guaranteed with such a container are told, as it may have them.
    """
    state = checkpoint.state
    if not checkpoint.exists or isinstance(state, CpuState):
        return []
    holds = [each for each in alive if each.mems != cpulist.EMPTY and (each.guaranteed if state is None else each.pod in {*state.entries, *state.pods})]
    return sorted({each.pod for each in holds})


__all__ = ("Container", "containers", "kubelet_process", "living", "memory_holders")
