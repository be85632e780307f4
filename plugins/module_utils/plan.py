# Copyright (c) 2026 The inferops.locality authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""From topology, platform and policy to the plan of a node. No I/O: the same input gives the same plan, always.

**Which cores become housekeeping.** Housekeeping always holds the core of CPU 0 (the boot CPU keeps time and takes the
interrupts that nobody else takes) and every core that has a sibling offline (it can never be handed out whole). Beyond
that, each NUMA node gives as many whole cores as the policy asks of it, in the order of the lowest CPU of each core; the core
of CPU 0 comes first in its node and counts. So the plan depends on which CPUs share a core, on which cores share a NUMA
node, and on the *order* of the cores within each NUMA node, and on no other property of the numbering: siblings adjacent,
half apart or dealt over the NUMA nodes give the same physical cores. A renumbering that keeps CPU 0's core and that order
renumbers the plan; one that changes the order within a NUMA node moves the choice to other cores of that same node, as many
as before. No rule can do better: equal cores have nothing but their numbers to tell them apart.

**Incomplete cores.** Sysfs does not say whose sibling an offline CPU was. A core counts as incomplete if CPUs are present
and offline, and the core has fewer CPUs than the widest core. On a hybrid machine with an offline CPU this takes the narrow
cores too, which errs on the safe side and is reported.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any, Dict, FrozenSet, Iterable, List, Mapping, Optional, Sequence, Set, Tuple

from ansible_collections.inferops.locality.plugins.module_utils import chassis as chassis_m
from ansible_collections.inferops.locality.plugins.module_utils import cilium_gates, cilium_knobs, cilium_values, cpulist
from ansible_collections.inferops.locality.plugins.module_utils import findings as findings_m
from ansible_collections.inferops.locality.plugins.module_utils import dra_claims, dra_knobs, knobs
from ansible_collections.inferops.locality.plugins.module_utils import pcie, pcie_knobs
from ansible_collections.inferops.locality.plugins.module_utils import policy as policy_m
from ansible_collections.inferops.locality.plugins.module_utils import quantity

PLAN_VERSION = 1

RELATIONS = pcie.RELATIONS

# x86 and arm64 cut the whole command line at 2048 bytes (arch/*/include/uapi/asm/setup.h); the boot loader and the
# operator have a share in it.
COMMAND_LINE_LIMIT = 2048
COMMAND_LINE_SHARE = 1536

# More NUMA nodes than this stop the kubelet unless max-allowable-numa-nodes says otherwise; memory-only ones count.
TOPOLOGY_MANAGER_NUMA_NODES = 8

# RKE2 has these two and no memory.available; an eviction-hard flag replaces the whole map, so they are repeated.
RKE2_EVICTION: Dict[str, str] = {"nodefs.available": "5%", "imagefs.available": "5%"}

# CPU manager options that a gate keeps off, by minor version: (first minor it exists in, first minor it works without a gate).
_OPTION_MINORS: Dict[str, Tuple[int, Optional[int]]] = {
    "align-by-socket": (25, None),
    "distribute-cpus-across-cores": (31, None),
    "distribute-cpus-across-numa": (23, 33),
    "full-pcpus-only": (22, 23),
    "prefer-align-cpus-by-uncorecache": (32, 34),
    "strict-cpu-reservation": (32, 33),
}
# Labels of Kubernetes' own names that a kubelet may set beside those of its two domains.
_KUBELET_LABELS = frozenset((
    "kubernetes.io/hostname", "kubernetes.io/os", "kubernetes.io/arch", "topology.kubernetes.io/zone", "topology.kubernetes.io/region",
    "failure-domain.beta.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/region", "node.kubernetes.io/instance-type",
    "beta.kubernetes.io/instance-type", "beta.kubernetes.io/os", "beta.kubernetes.io/arch",
))
_EXCLUSIVE_OPTIONS: Tuple[Tuple[str, str], ...] = (
    ("full-pcpus-only", "distribute-cpus-across-cores"),
    ("distribute-cpus-across-numa", "distribute-cpus-across-cores"),
    ("prefer-align-cpus-by-uncorecache", "distribute-cpus-across-cores"),
    ("prefer-align-cpus-by-uncorecache", "distribute-cpus-across-numa"),
)
_MAX_ALLOWABLE_MINOR = 31

# Bits of config_acs from the right: SV TB RR CR UF EC DT. Off are request redirect, completion redirect and egress control, as
# disable_acs_redir does: any of the three sends peer traffic over the host bridge (p2pdma.c). An x is what the firmware set, also where
# the kernel would have set more since there is an IOMMU (pci.c __pci_config_acs), so what it would have set is written out then:
# source validation, and upstream forwarding, without which bridges below that still redirect would redirect to nowhere.
ACS_BITS = "x0x00xx"
ACS_BITS_IOMMU = "x0100x1"

ISOLATED_WARNING = (
    "isolcpus=domain takes the pods' CPUs out of the scheduler's balancing, and the kubelet only sets a cpuset: all threads of a pod "
    "that does not pin its threads itself pile up on one CPU (measured: four busy children of a pod with CPUs 2-5 all ran on CPU 5, "
    "a quarter of it each)"
)


class PlanError(ValueError):
    """The topology is not what numa_topology returns."""


@dataclass(frozen=True)
class Core:
    """A physical core: its lowest CPU, its NUMA node (None: unknown or ambiguous) and its online CPUs."""

    id: int
    numa_node: Optional[int]
    cpus: FrozenSet[int]


@dataclass(frozen=True)
class Machine:
    """What planning needs of a topology, checked.

    :ivar groups: cores by NUMA node, in the order of their lowest CPU; without NUMA nodes all are node 0.
    :ivar incomplete: cores with a sibling offline.
    """

    online: FrozenSet[int]
    possible: FrozenSet[int]
    cores: Tuple[Core, ...]
    numa_nodes: Tuple[Mapping[str, Any], ...]
    groups: Mapping[int, Tuple[Core, ...]]
    unplaced: Tuple[Core, ...]
    incomplete: FrozenSet[Core]
    threads: int
    devices: Tuple[Mapping[str, Any], ...]
    relations: Mapping[str, Mapping[str, Optional[str]]]

    def whole(self, numa_node: int) -> Tuple[Core, ...]:
        """Cores of a NUMA node with all their siblings online."""
        return tuple(core for core in self.groups.get(numa_node, ()) if core not in self.incomplete)


def _cpus(text: Any, key: str) -> FrozenSet[int]:
    if text is None:
        return cpulist.EMPTY
    if not isinstance(text, str):
        raise PlanError(f"topology: {key} is {policy_m.shown(text)}, wanted a CPU list")
    try:
        return cpulist.from_list(text)
    except cpulist.CpuListError as error:
        raise PlanError(f"topology: {key}: {error}") from error


def _part(topology: Mapping[str, Any], key: str, kind: type, name: str = "topology") -> Any:
    value = topology.get(key)
    if value is None:
        return kind()
    if not isinstance(value, kind):
        raise PlanError(f"{name}: {key} is {policy_m.shown(value)}, wanted {'a list' if kind is list else 'a mapping'}")
    return value


def read_machine(topology: Mapping[str, Any]) -> Machine:
    """Check a topology and sort it for planning.

    A CPU that is online and belongs to no core (a machine without topology files) is a core of its own.

    :raises PlanError: a part is of the wrong shape.
    """
    if not isinstance(topology, Mapping):
        raise PlanError(f"topology is {policy_m.shown(topology)}, wanted the mapping that numa_topology returns")
    cpus = _part(topology, "cpus", dict)
    online = _cpus(cpus.get("online"), "cpus.online")
    present = _cpus(cpus.get("present"), "cpus.present")
    offline = _cpus(cpus.get("offline"), "cpus.offline")
    possible = _cpus(cpus.get("possible"), "cpus.possible") or online | present
    try:
        numa_nodes = tuple(sorted(_part(topology, "numa_nodes", list), key=lambda item: int(item["id"])))
        devices = tuple(sorted(_part(topology, "devices", list), key=lambda item: str(item["address"])))
        cores: List[Core] = []
        for item in _part(topology, "cores", list):
            mine = _cpus(item["cpus"], "cores[].cpus") & online
            if mine:
                cores.append(Core(min(mine), None if item.get("numa_node") is None else int(item["numa_node"]), mine))
    except (KeyError, TypeError, ValueError) as error:
        if isinstance(error, PlanError):
            raise
        raise PlanError(f"topology: a core, NUMA node or device lacks its id, address or CPUs ({error!r})") from error
    homes: Dict[int, List[int]] = {}
    for node in numa_nodes:
        for cpu in _cpus(node.get("cpus"), "numa_nodes[].cpus"):
            homes.setdefault(cpu, []).append(int(node["id"]))
    covered: Set[int] = set()
    for core in cores:
        if covered & core.cpus:
            raise PlanError(f"topology: CPUs {cpulist.to_list(covered & core.cpus)} belong to more than one core")
        covered |= core.cpus
    for cpu in sorted(online - covered):
        home = homes.get(cpu, [])
        cores.append(Core(cpu, home[0] if len(home) == 1 else None, frozenset((cpu,))))
    cores.sort(key=lambda core: core.id)
    groups: Dict[int, List[Core]] = {}
    unplaced: List[Core] = []
    for core in cores:
        if not numa_nodes:
            groups.setdefault(0, []).append(core)
        elif core.numa_node is None:
            unplaced.append(core)
        else:
            groups.setdefault(core.numa_node, []).append(core)
    threads = max((len(core.cpus) for core in cores), default=0)
    gone = (present - online) if present else offline
    incomplete = frozenset(core for core in cores if gone and len(core.cpus) < threads)
    return Machine(
        online=online,
        possible=possible,
        cores=tuple(cores),
        numa_nodes=numa_nodes,
        groups={key: tuple(groups[key]) for key in sorted(groups)},
        unplaced=tuple(unplaced),
        incomplete=incomplete,
        threads=threads,
        devices=devices,
        relations=_part(topology, "relations", dict),
    )


# -- housekeeping


def _plural(number: int, thing: str) -> str:
    return f"{number} {thing}" + ("" if number == 1 else "s")


def _quotas(machine: Machine, form: Mapping[str, Any], found: findings_m.Findings) -> Dict[int, int]:
    """How many whole cores each NUMA node with CPUs gives."""
    nodes = list(machine.groups)
    if "cores_per_numa_node" in form:
        key, quotas = "cores_per_numa_node", {node: int(form["cores_per_numa_node"]) for node in nodes}
    elif "cores" in form:
        key, asked = "cores", int(form["cores"])
        share, rest = divmod(asked, len(nodes))
        quotas = {node: share + (1 if index < rest else 0) for index, node in enumerate(nodes)}
        if share == 0:
            found.error(
                "housekeeping.too_few_cores",
                f"housekeeping.cores: found {asked}, wanted at least {len(nodes)}: each of the {len(nodes)} NUMA nodes with CPUs needs a "
                "housekeeping core",
                f"set cores to {len(nodes)} or more",
            )
            quotas = dict.fromkeys(nodes, 1)
    else:
        key = "profile"
        wanted = policy_m.PROFILES[form["profile"]]
        most = max((len(machine.whole(node)) for node in nodes), default=0)
        count = 1
        while count <= most and sum(len(core.cpus) for node in nodes for core in machine.whole(node)[:count]) < wanted:
            count += 1
        if count > most:
            there = sum(len(core.cpus) for node in nodes for core in machine.whole(node))
            found.error(
                "housekeeping.too_many_cores",
                f"housekeeping.profile: {form['profile']} wants {wanted} CPUs in whole cores, found {there} on the whole machine",
                "choose a smaller profile or cores_per_numa_node",
            )
            return dict.fromkeys(nodes, 1)
        quotas = dict.fromkeys(nodes, count)
    for node in nodes:
        there = len(machine.whole(node))
        if quotas[node] > there:
            found.error(
                "housekeeping.too_many_cores",
                f"housekeeping.{key}: wanted {_plural(quotas[node], 'housekeeping core')} on NUMA node {node}, found "
                f"{_plural(there, 'whole core')} there",
                f"ask for at most {min(len(machine.whole(each)) for each in nodes)} on each NUMA node",
            )
    return quotas


def _listed(machine: Machine, text: str, must: FrozenSet[int], found: findings_m.Findings) -> FrozenSet[int]:
    """The operator's own list, completed to what it should have been so that planning can go on."""
    key = "housekeeping.cpus"
    try:
        asked = cpulist.from_kubelet("".join(text.split()))
    except cpulist.CpuListError as error:
        found.error("housekeeping.bad_list", f"{key}: {error}", "write CPUs and ranges with commas, such as 0-1,64-65")
        return must
    if not asked:
        found.error("housekeeping.bad_list", f"{key}: the list is empty", "write CPUs and ranges with commas, such as 0-1,64-65")
    beyond = asked - machine.possible
    if beyond:
        found.error(
            "housekeeping.no_such_cpu",
            f"{key}: found CPUs {cpulist.to_list(beyond)}, wanted CPUs up to {max(machine.possible)}: this machine has no others",
            "remove them from the list",
        )
    off = (asked - beyond) - machine.online
    if off:
        found.error(
            "housekeeping.offline_cpu",
            f"{key}: CPUs {cpulist.to_list(off)} are offline, wanted online CPUs {cpulist.to_list(machine.online)}",
            "remove them from the list, or bring them online",
        )
    asked &= machine.online
    split = [core for core in machine.cores if core.cpus & asked and not core.cpus <= asked]
    whole = asked | frozenset(cpu for core in split for cpu in core.cpus) | must
    right = f'the completed list is "{cpulist.to_list(whole)}"'
    if split:
        found.error(
            "housekeeping.split_core",
            f"{key}: found a part of the cores "
            + ", ".join(cpulist.to_list(core.cpus) for core in split[:16])
            + (f" and {len(split) - 16} more" if len(split) > 16 else "")
            + ", wanted whole cores with all their siblings",
            right,
        )
    zero = [core for core in machine.cores if 0 in core.cpus and 0 not in asked]
    if zero:
        found.error(
            "housekeeping.cpu0_isolated",
            f"{key}: CPU 0 is not in the list, wanted its core {cpulist.to_list(zero[0].cpus)}: the boot CPU keeps time and takes interrupts "
            "whatever is asked",
            right,
        )
    halves = [core for core in sorted(machine.incomplete, key=lambda core: core.id) if not core.cpus & asked and 0 not in core.cpus]
    if halves:
        found.error(
            "housekeeping.incomplete_core",
            f"{key}: cores {', '.join(cpulist.to_list(core.cpus) for core in halves)} have a sibling offline and are not in the list; "
            "they can never be handed out whole",
            right,
        )
    without = [node for node, cores in machine.groups.items() if not any(core.cpus & whole for core in cores)]
    if without and whole:
        having = sorted(set(machine.groups) - set(without))
        nics = [str(device["address"]) for device in machine.devices if _is_nic(device) and device.get("numa_node") in without]
        found.warning(
            "housekeeping.numa_node_without",
            f"{key}: {cpulist.to_list(whole)} lies on NUMA node {', '.join(map(str, having))} only; NUMA node {', '.join(map(str, without))} has "
            "no housekeeping CPU, "
            "so every interrupt of a device there crosses to another NUMA node" + (f" (NICs {', '.join(nics)})" if nics else ""),
            "add a core of each NUMA node, such as " + ", ".join(cpulist.to_list(machine.groups[node][0].cpus) for node in without),
        )
    return whole


def _housekeeping(machine: Machine, form: Mapping[str, Any], found: findings_m.Findings) -> FrozenSet[int]:
    must = frozenset(cpu for core in machine.cores if 0 in core.cpus or core in machine.incomplete for cpu in core.cpus)
    if "cpus" in form:
        result = _listed(machine, form["cpus"], must, found)
    else:
        quotas = _quotas(machine, form, found) if machine.groups else {}
        result = must | frozenset(cpu for node, count in quotas.items() for core in machine.whole(node)[:count] for cpu in core.cpus)
    if machine.online and result == machine.online:
        found.error(
            "housekeeping.nothing_left",
            f"housekeeping takes all {len(machine.online)} online CPUs ({cpulist.to_list(machine.online)}), wanted at least one core left for pods",
            "ask for fewer housekeeping cores",
        )
    else:
        empty = [node for node, cores in machine.groups.items() if not any(core.cpus - result for core in cores)]
        if empty:
            found.warning(
                "housekeeping.whole_numa_node",
                f"NUMA node {', '.join(map(str, empty))} is housekeeping as a whole and has no CPU for pods",
                "ask for fewer housekeeping cores if pods should run there",
            )
    return result


# -- memory


def spread_memory(total: int, room: Mapping[int, Optional[int]]) -> Tuple[Dict[int, int], int]:
    """Spread reserved memory over NUMA nodes: equally, in steps of 1 Mi, the rest to the lowest id with room for it.

    A NUMA node that has less room than its share gives all it has (whole Mi), and the others share what is left.

    :param total: bytes.
    :param room: bytes each NUMA node can give; None where that is not known, which sets no bound.
    :returns: bytes of each NUMA node that gives any, and the bytes that found no room.
    """
    mib = quantity.MIB
    open_nodes = sorted(room)
    most = {node: None if room[node] is None else max(0, int(room[node] or 0)) for node in room}
    given: Dict[int, int] = {}
    left = total
    while open_nodes:
        share = left // mib // len(open_nodes) * mib
        full = [node for node in open_nodes if most[node] is not None and (most[node] or 0) // mib * mib < max(share, 1)]
        if not full:
            break
        for node in full:
            given[node] = (most[node] or 0) // mib * mib
            left -= given[node]
            open_nodes.remove(node)
    if open_nodes:
        share = left // mib // len(open_nodes) * mib
        for node in open_nodes:
            given[node] = share
        left -= share * len(open_nodes)
        for node in open_nodes:
            bound = most[node]
            extra = left if bound is None else min(left, bound - share)
            given[node] += extra
            left -= extra
    return {node: given[node] for node in sorted(given) if given[node]}, left


def kubelet_quantity(size: int) -> str:
    """Bytes for a kubelet flag: Mi where it is exact, else bytes; the kubelet compares quantities exactly."""
    return quantity.mebi(size) if size % quantity.MIB == 0 else str(size)


def reserved_memory_value(reserved: Mapping[Any, int]) -> str:
    """The value of ``--reserved-memory``: ``0:memory=6394Mi;1:memory=6394Mi``. A zero entry would stop the kubelet and is left out."""
    return ";".join(f"{node}:memory={kubelet_quantity(reserved[node])}" for node in sorted(reserved, key=int) if reserved[node])


@dataclass
class _Memory:
    hugepages: Dict[int, Dict[str, int]]
    huge_bytes: Dict[int, int]
    reserved: Dict[int, int]
    total: int


def _hugepages(machine: Machine, wanted: Mapping[str, Mapping[str, int]], found: findings_m.Findings) -> Dict[int, Dict[str, int]]:
    nodes = {int(node["id"]): node for node in machine.numa_nodes}
    result: Dict[int, Dict[str, int]] = {}
    for size, counts in wanted.items():
        known = sorted({each for node in nodes.values() for each in (node.get("hugepages") or {})}, key=quantity.to_bytes)
        if known and size not in known:
            found.error(
                "hugepages.no_such_size",
                f"hugepages.{size}: this machine has no pages of that size, found {', '.join(known)}",
                "use a size the kernel offers",
            )
            continue
        for key, count in counts.items():
            node = int(key)
            if node not in nodes:
                found.error(
                    "hugepages.no_such_numa_node",
                    f"hugepages.{size}.{key}: there is no NUMA node {key}, found {', '.join(map(str, nodes)) or 'none'}",
                    "use the ids of this machine's NUMA nodes",
                )
            elif count:
                result.setdefault(node, {})[size] = count
    return result


def _memory(machine: Machine, policy: Mapping[str, Any], found: findings_m.Findings) -> _Memory:
    hugepages = _hugepages(machine, policy["hugepages"], found)
    huge_bytes = {node: sum(quantity.to_bytes(size) * count for size, count in sizes.items()) for node, sizes in hugepages.items()}
    asked = policy["memory"]
    total = sum(quantity.to_bytes(asked[key]) for key in ("system_reserved", "kube_reserved", "eviction_hard"))
    room: Dict[int, Optional[int]] = {}
    short = False
    for node in machine.numa_nodes:
        id, size = int(node["id"]), node.get("memory_bytes")
        huge = huge_bytes.get(id, 0)
        if size is not None and huge > size:
            short = True
            found.error(
                "hugepages.too_many",
                f"hugepages: NUMA node {id} is asked for {_pages(hugepages[id])}, {_mi(huge)} in all, and has {_mi(size)} of memory",
                "ask for fewer pages",
            )
        if id in machine.groups:
            room[id] = None if size is None else size - huge
            if size is None:
                found.warning(
                    "memory.unknown",
                    f"the memory of NUMA node {id} could not be read; whether its share of the reserved memory fits is not known",
                    "see the problems of numa_topology",
                )
    if not machine.numa_nodes and machine.online:
        if policy["kubelet"]["memory_manager_policy"] == "Static":
            found.error(
                "memory.no_numa_node",
                "kubelet.memory_manager_policy: found Static, but the kernel shows no NUMA node (/sys/devices/system/node), so the kubelet "
                "knows no memory to manage",
                'set kubelet.memory_manager_policy to "None"',
            )
        room = {0: None}
    reserved, left = spread_memory(total, room)
    if left and room and not short:
        found.error(
            "memory.does_not_fit",
            f"reserved memory: wanted {_mi(total)} (system {asked['system_reserved']}, kube {asked['kube_reserved']}, hard eviction "
            f"{asked['eviction_hard']}), "
            f"found room for {_mi(total - left)} on the NUMA nodes with CPUs after their hugepages: "
            + ", ".join(f"node {node} {_mi(max(0, size))}" for node, size in room.items() if size is not None),
            "ask for fewer hugepages or reserve less",
        )
    elif not left:
        bare = [
            node for node, size in room.items()
            if size is not None and (reserved.get(node) or huge_bytes.get(node)) and size - reserved.get(node, 0) < quantity.MIB
        ]
        if bare:
            found.warning(
                "memory.nothing_left",
                f"NUMA node {', '.join(map(str, bare))} has no memory left for pods after its hugepages and reserved memory",
                "ask for fewer hugepages or reserve less",
            )
    return _Memory(hugepages, huge_bytes, reserved, total)


def _mi(size: int) -> str:
    return f"{size // quantity.MIB}Mi"


def _pages(sizes: Mapping[str, int]) -> str:
    return ", ".join(f"{sizes[size]} pages of {size}" for size in sorted(sizes, key=quantity.to_bytes, reverse=True))


# -- devices


def _is_nic(device: Mapping[str, Any]) -> bool:
    """Network devices of the host; virtual functions belong to pods."""
    return device.get("kind") in ("nic", "rdma") and not device.get("physfn")


def _is_gpu(device: Mapping[str, Any]) -> bool:
    return device.get("kind") in ("gpu", "accelerator") and not device.get("physfn")


def _irq_cpus(machine: Machine, device: Mapping[str, Any], housekeeping: FrozenSet[int]) -> FrozenSet[int]:
    """Housekeeping CPUs of the device's NUMA node, else of the NUMA node nearest to it, else all."""
    local = {node: frozenset(cpu for core in cores for cpu in core.cpus) & housekeeping for node, cores in machine.groups.items()}
    home = device.get("numa_node")
    if home is None:
        return housekeeping
    if local.get(home):
        return local[home]
    distances: Mapping[str, int] = next((node.get("distances") or {} for node in machine.numa_nodes if int(node["id"]) == home), {})
    near = sorted((int(distances[str(node)]), node) for node in local if local[node] and str(node) in distances)
    return local[near[0][1]] if near else housekeeping


def _pairs(machine: Machine) -> Tuple[List[Dict[str, Any]], List[str]]:
    """The nearest NIC of each GPU; among equally near ones the one that serves the fewest GPUs so far, then the lowest address."""
    nics = [str(device["address"]) for device in machine.devices if _is_nic(device)]
    used = dict.fromkeys(nics, 0)
    pairs: List[Dict[str, Any]] = []
    far: List[str] = []
    for device in machine.devices:
        if not _is_gpu(device):
            continue
        gpu = str(device["address"])
        relations = machine.relations.get(gpu) or {}
        known = [(RELATIONS.index(str(relations[nic])), used[nic], nic) for nic in nics if relations.get(nic) in RELATIONS]
        best = min(known) if known else None
        if best is None:
            pairs.append({"gpu": gpu, "nic": None, "relation": None})
        else:
            used[best[2]] += 1
            pairs.append({"gpu": gpu, "nic": best[2], "relation": RELATIONS[best[0]]})
        if best is None or RELATIONS[best[0]] == "SYS":
            far.append(gpu)
    return pairs, far


def _device_findings(
    machine: Machine, policy: Mapping[str, Any], pairs: Sequence[Mapping[str, Any]], far: Sequence[str], found: findings_m.Findings
) -> None:
    if far:
        nics = any(_is_nic(device) for device in machine.devices)
        found.warning(
            "gpu.far_from_nics",
            f"GPUs {', '.join(far)} reach every NIC across the link between sockets (SYS)" if nics else f"GPUs {', '.join(far)} have no NIC at all",
            "put a NIC into a slot of their socket, or keep multi-node jobs off them",
        )
    node = [str(pair["gpu"]) for pair in pairs if pair["relation"] == "NODE"]
    if node:
        found.note(
            "gpu.nic_other_host_bridge",
            f"GPUs {', '.join(node)} reach their nearest NIC across host bridges of their NUMA node (NODE), not behind one switch",
        )
    width = policy["pcie"]["min_link_width"]
    if width is not None:
        for device in machine.devices:
            link = device.get("link") or {}
            now, most = link.get("width"), link.get("max_width")
            if not (_is_gpu(device) or _is_nic(device)) or now is None or now >= width:
                continue
            message = f"{device['kind']} {device['address']} runs with {now} lanes, wanted at least {width} (the device has {most or 'an unknown number'})"
            if most is not None and most < width:
                found.note("pcie.link_width", message, "the device has no more lanes whatever the slot: pcie.min_link_width does not fit it")
            else:
                found.warning("pcie.link_width", message, "reseat the card, or look at the slot's bifurcation in the firmware")


def _redirect_findings(
    machine: Machine, policy: Mapping[str, Any], pairs: Sequence[Mapping[str, Any]], off: FrozenSet[str], found: findings_m.Findings
) -> None:
    """GPUs and NICs below one switch whose traffic goes over the host bridge all the same."""
    devices = {str(device["address"]): device for device in machine.devices}
    slow: Dict[str, List[str]] = {}
    for pair in pairs:
        if pair["relation"] not in ("PIX", "PXB"):
            continue
        bridges = [bridge for bridge in pcie_knobs.redirected(devices[pair["gpu"]], devices[pair["nic"]]) if bridge not in off]
        if bridges:
            slow[f"{pair['gpu']} and {pair['nic']}"] = bridges
    if slow:
        pt = policy["pcie"]["iommu"] == "pt"
        found.note(
            "pcie.acs_redirects",
            f"ACS sends the traffic between GPU and NIC over the host bridge though a switch joins them: {', '.join(list(slow)[:4])}"
            + (f" and {len(slow) - 4} more pairs" if len(slow) > 4 else "")
            + " (redirects on "
            + f"{', '.join(sorted({bridge for bridges in slow.values() for bridge in bridges}))})"
            + ("; with iommu: pt the kernel turns them on itself, also where the firmware has them off" if pt else ""),
            "docs/security.md says what they guard; pcie.acs_off turns them off on named bridges, with a justification and an owner",
        )


# -- kernel arguments


def _vendor(platform: Mapping[str, Any]) -> Optional[str]:
    text = str(platform.get("cpu_vendor") or "").lower()
    for name in ("intel", "amd", "arm"):
        if name in text:
            return name
    return None


def _iommu_args(wanted: str, platform: Mapping[str, Any], found: findings_m.Findings) -> List[str]:
    """``iommu=pt`` makes identity the default domain and turns nothing on: Intel needs ``intel_iommu=on`` besides, AMD knows no such word."""
    vendor = _vendor(platform)
    if vendor == "intel":
        return ["intel_iommu=on", "iommu=pt"] if wanted == "pt" else ["intel_iommu=off"]
    if vendor == "amd":
        return ["iommu=pt"] if wanted == "pt" else ["amd_iommu=off"]
    if vendor == "arm" and wanted == "pt":
        return ["iommu.passthrough=1"]
    found.error(
        "pcie.iommu_unknown_cpu",
        f"pcie.iommu: found {wanted}, and no kernel argument for it is known on CPUs of {platform.get('cpu_vendor') or 'an unknown vendor'}",
        "set pcie.iommu to null and set the argument by hand",
    )
    return []


def _acs_value(
    machine: Machine, pcie: Mapping[str, Any], platform: Mapping[str, Any], found: findings_m.Findings
) -> Tuple[Optional[str], FrozenSet[str]]:
    """The sub-option of ``pci=`` that switches peer-to-peer redirects off, and the bridges with ACS that it names."""
    names = [str(name) for name in pcie["acs_off"]]
    if not names:
        return None, frozenset()
    missing = [key for key in ("justification", "owner") if not (pcie[key] or "").strip()]
    if missing:
        found.error(
            "pcie.acs_not_justified",
            f"pcie.acs_off: found {', '.join(names)} without {' and '.join(missing)}: switching ACS redirects off lets devices reach "
            "each other past the IOMMU",
            f"write pcie.{' and pcie.'.join(missing)}, or leave acs_off empty",
        )
    else:
        found.note(
            "pcie.acs_off",
            f"ACS redirects are switched off on {', '.join(names)}: {pcie['justification'].strip()} (owner: {pcie['owner'].strip()})",
        )
    ports = _part(platform, "pcie_ports", dict, "platform")
    named, unseen = pcie_knobs.resolve(names, machine.devices, ports)
    if unseen and not pcie["force"]:
        bridges = {str(bridge) for device in machine.devices for bridge in list(device.get("path") or []) + list(device.get("acs") or {})}
        found.error(
            "pcie.acs_no_such_bridge",
            f"pcie.acs_off: no GPU, NIC or NVMe lies behind {', '.join(unseen)}, found bridges {', '.join(sorted(bridges)) or 'none'}",
            "name a bridge on the path of a device, or set pcie.force",
        )
    acs = {str(bridge): each for device in machine.devices for bridge, each in (device.get("acs") or {}).items() if each is not None}
    meant = frozenset(bridge for bridges in named.values() for bridge in bridges)
    without = sorted(bridge for bridge in meant if bridge in acs and not acs[bridge].get("supported"))
    if without:
        found.warning(
            "pcie.acs_not_there",
            f"pcie.acs_off: {', '.join(without)} {'has' if len(without) == 1 else 'have'} no ACS, so there is nothing to switch off and the kernel "
            "passes over the name",
            "remove it from acs_off",
        )
    if platform.get("virtualization") not in (None, "none"):
        found.warning(
            "pcie.acs_in_a_guest",
            f"pcie.acs_off: this node is a virtual machine ({platform['virtualization']}); the redirects that count are those of its hypervisor",
            "have them switched off there",
        )
    features = platform.get("features") or {}
    if features.get("config_acs"):
        bits = ACS_BITS_IOMMU if pcie["iommu"] == "pt" or (pcie["iommu"] is None and features.get("iommu")) else ACS_BITS
        return "config_acs=" + ";".join(f"{bits}@{name}" for name in names), meant - frozenset(without)
    return "disable_acs_redir=" + ";".join(names), meant - frozenset(without)


def _guest_findings(machine: Machine, pcie: Mapping[str, Any], platform: Mapping[str, Any], found: findings_m.Findings) -> None:
    """Virtual machines rely on what ``acs_off`` and ``iommu: off`` take away: devices of their own, in IOMMU groups of their own."""
    weaker = [f"pcie.acs_off ({', '.join(pcie['acs_off'])})"] if pcie["acs_off"] else []
    weaker += ["pcie.iommu (off)"] if pcie["iommu"] == "off" else []
    if pcie["iommu"] == "off":
        found.warning(
            "pcie.iommu_off",
            "pcie.iommu: off lets every device read and write all memory of the node: no driver's mistake and no firmware's is caught any more, and no "
            "device can be given to a virtual machine",
            "pt keeps the IOMMU on and is as fast for the host's own devices; docs/security.md says who must sign off",
        )
    if not weaker:
        return
    guests = platform.get("guests") or {}
    vfio = sorted({str(address) for address in guests.get("vfio") or ()}
                  | {str(device["address"]) for device in machine.devices if device.get("driver") == "vfio-pci"})
    kvm = guests.get("kvm")
    evidence = [f"{_plural(len(vfio), 'PCI function')} bound to vfio-pci ({', '.join(vfio)})"] if vfio else []
    evidence += [f"{_plural(int(kvm), 'user')} of KVM"] if kvm else []
    if evidence:
        message = f"{' and '.join(weaker)}: found {' and '.join(evidence)}, wanted a node without virtual machines: their isolation rests on what is taken away"
        if pcie["force"]:
            found.warning("pcie.virtual_machines", f"{message}; pcie.force goes on all the same", "move them to another node")
        else:
            found.error("pcie.virtual_machines", message, "move them to another node, or set pcie.force and say in pcie.justification why that is safe")
    elif guests and kvm is None:
        found.note("pcie.virtual_machines_unknown", f"{' and '.join(weaker)}: whether this node runs virtual machines could not be read")


def _hugepage_args(
    machine: Machine, hugepages: Mapping[int, Mapping[str, int]], features: Mapping[str, Any], found: findings_m.Findings
) -> List[str]:
    """Pairs of size and count, largest size first: gigantic pages need whole memory, and ``hugepages`` belongs to the size before it."""
    args: List[str] = []
    for size in sorted({each for sizes in hugepages.values() for each in sizes}, key=quantity.to_bytes, reverse=True):
        counts = {node: hugepages[node][size] for node in sorted(hugepages) if size in hugepages[node]}
        args.append(f"hugepagesz={quantity.page_kernel(size)}")
        if features.get("hugepages_per_node", True):
            args.append("hugepages=" + ",".join(f"{node}:{count}" for node, count in counts.items()))
            continue
        # Older kernels know a total only and deal it evenly to the NUMA nodes with memory.
        having = {int(node["id"]) for node in machine.numa_nodes if node.get("memory_bytes") != 0}
        if set(counts) != having or len(set(counts.values())) != 1:
            found.error(
                "hugepages.not_per_node",
                f"hugepages.{size}: found {', '.join(f'{count} on NUMA node {node}' for node, count in counts.items())}; this kernel takes a "
                "total only and "
                f"deals it evenly to the NUMA nodes {', '.join(map(str, sorted(having)))}",
                "ask for the same number on each NUMA node, or use a kernel that takes numbers per node (5.16 and later)",
            )
        args.append(f"hugepages={sum(counts.values())}")
    return args


# -- the kubelet


def _option_findings(machine: Machine, kubelet: Mapping[str, Any], minor: Optional[int], sockets: int, found: findings_m.Findings) -> None:
    options = kubelet["cpu_manager_options"]
    for first, second in _EXCLUSIVE_OPTIONS:
        if first in options and second in options:
            found.error(
                "kubelet.options_exclude",
                f"kubelet.cpu_manager_options: {first} and {second} exclude each other; the kubelet does not start with both",
                "remove one of them",
            )
    if "align-by-socket" in options and (kubelet["topology_manager_policy"] == "single-numa-node" or sockets > len(machine.groups)):
        found.error(
            "kubelet.options_exclude",
            "kubelet.cpu_manager_options: align-by-socket does not start with topology_manager_policy single-numa-node, nor with more sockets "
            f"({sockets}) than NUMA nodes ({len(machine.groups)})",
            "remove align-by-socket",
        )
    if "strict-cpu-reservation" in options:
        found.error(
            "kubelet.shared_pool_empty",
            "kubelet.cpu_manager_options: strict-cpu-reservation takes the housekeeping CPUs out of the shared pool; once pods hold all "
            "isolated CPUs, every other pod has no CPU at all",
            "remove strict-cpu-reservation: without it housekeeping CPUs are never handed out exclusively either",
        )
    for option in options:
        since, free = _OPTION_MINORS[option]
        if minor is None:
            continue
        if minor < since:
            found.error(
                "kubelet.option_unknown",
                f"kubelet.cpu_manager_options: {option} came with Kubernetes 1.{since}, found 1.{minor}; the kubelet does not start with it",
                f"remove {option}",
            )
        elif free is None or minor < free:
            found.error(
                "kubelet.option_gated",
                f"kubelet.cpu_manager_options: {option} needs the feature gate CPUManagerPolicyAlphaOptions on Kubernetes 1.{minor}, which this "
                "collection does not set",
                f"remove {option}",
            )


def _kubelet(
    machine: Machine,
    policy: Mapping[str, Any],
    memory: _Memory,
    housekeeping: FrozenSet[int],
    minor: Optional[int],
    found: findings_m.Findings,
    wanted: Dict[str, Any],
) -> List[str]:
    kubelet, reserve = policy["kubelet"], policy["memory"]
    sizes = {key: quantity.to_bytes(value) for key, value in reserve.items()}
    options = sorted(f"{option}=true" for option in kubelet["cpu_manager_options"])
    args = ["cpu-manager-policy=static"]
    # One flag each: a list in one flag is read as one option with a bad value.
    args += [f"cpu-manager-policy-options={option}" for option in options]
    args += [f"topology-manager-policy={kubelet['topology_manager_policy']}", f"topology-manager-scope={kubelet['topology_manager_scope']}"]
    wanted["kubelet.cpu_manager_policy"] = "static"
    wanted["kubelet.cpu_manager_options"] = options
    wanted["kubelet.topology_manager_policy"] = kubelet["topology_manager_policy"]
    wanted["kubelet.topology_manager_scope"] = kubelet["topology_manager_scope"]
    count = len(machine.numa_nodes)
    if count > TOPOLOGY_MANAGER_NUMA_NODES and kubelet["topology_manager_policy"] != "none":
        args.append(f"topology-manager-policy-options=max-allowable-numa-nodes={count}")
        wanted["kubelet.topology_manager_options"] = {"max-allowable-numa-nodes": str(count)}
        if minor is not None and minor < _MAX_ALLOWABLE_MINOR:
            found.error(
                "kubelet.too_many_numa_nodes",
                f"found {count} NUMA nodes (memory-only ones count); the kubelet of Kubernetes 1.{minor} does not start with more than "
                f"{TOPOLOGY_MANAGER_NUMA_NODES} and a topology manager policy",
                "use Kubernetes 1.31 or later, or kubelet.topology_manager_policy none",
            )
        else:
            found.warning(
                "kubelet.many_numa_nodes",
                f"found {count} NUMA nodes (memory-only ones count), above the kubelet's limit of {TOPOLOGY_MANAGER_NUMA_NODES}; "
                f"max-allowable-numa-nodes={count} is set. "
                "The number of hints grows with every NUMA node: kubelet start and pod admission get slower",
                "fewer NUMA nodes in the firmware (SNC, NPS) make it faster",
            )
    args.append(f"memory-manager-policy={kubelet['memory_manager_policy']}")
    wanted["kubelet.memory_manager_policy"] = kubelet["memory_manager_policy"]
    wanted["kubelet.reserved_memory"] = None
    if kubelet["memory_manager_policy"] == "Static":
        args.append(f"reserved-memory={reserved_memory_value(memory.reserved)}")
        wanted["kubelet.reserved_memory"] = {str(node): size for node, size in memory.reserved.items() if size}
    args.append(f"reserved-cpus={cpulist.to_list(housekeeping)}")
    wanted["kubelet.reserved_cpus"] = cpulist.to_list(housekeeping)
    for flag, key in (("system-reserved", "system_reserved"), ("kube-reserved", "kube_reserved")):
        args.append(f"{flag}=memory={kubelet_quantity(sizes[key])}")
        wanted[f"kubelet.{key}"] = {"memory": sizes[key]}
    eviction = f"memory.available<{kubelet_quantity(sizes['eviction_hard'])}"
    args.append("eviction-hard=" + ",".join([eviction] + [f"{signal}<{value}" for signal, value in RKE2_EVICTION.items()]))
    wanted["kubelet.eviction_hard"] = {"memory.available": sizes["eviction_hard"], **RKE2_EVICTION}
    wanted["kubelet.state_files"] = "consistent"
    wanted["kubelet.first_start"] = knobs.FIRST_START
    if kubelet["labels"]:
        wanted["node.labels"] = dict(kubelet["labels"])
    if kubelet["taints"]:
        wanted["node.taints"] = sorted(kubelet["taints"])
    return args


def _registers(label: str) -> bool:
    """Whether a kubelet takes a label at its node's registration; it does not start with another one of Kubernetes' own names.

    k8s.io/kubernetes cmd/kubelet/app/options (ValidateKubeletFlags), k8s.io/kubelet pkg/apis/well_known_labels.go. The API takes all of them.
    """
    prefix = label.partition("/")[0] if "/" in label else ""
    if not any(prefix == domain or prefix.endswith(f".{domain}") for domain in ("kubernetes.io", "k8s.io")):
        return True
    return label in _KUBELET_LABELS or any(prefix == domain or prefix.endswith(f".{domain}") for domain in ("kubelet.kubernetes.io", "node.kubernetes.io"))


# -- the host


def _host(
    platform: Mapping[str, Any],
    policy: Mapping[str, Any],
    isolated: FrozenSet[int],
    housekeeping: FrozenSet[int],
    found: findings_m.Findings,
    wanted: Dict[str, Any],
) -> None:
    host, features = policy["host"], platform.get("features") or {}

    def need(feature: str, knob: str, key: str, what: str) -> None:
        value = host[key]
        if value is None:
            return
        if features.get(feature):
            wanted[knob] = value
        else:
            found.note(f"platform.no_{feature}", f"host.{key}: found {value}, but this machine has no {what}; {knob} is left alone")

    need("thp", "vm.thp", "thp", "transparent huge pages")
    need("thp", "vm.thp_defrag", "thp_defrag", "transparent huge pages")
    need("numa_balancing", "kernel.numa_balancing", "numa_balancing", "automatic NUMA balancing")
    need("cpufreq", "cpu.governor", "governor", "CPU frequency control")
    need("cpuidle", "cpu.latency", "max_latency_us", "CPU idle states")
    if host["swappiness"] is not None:
        wanted["vm.swappiness"] = host["swappiness"]
    wanted["vm.zone_reclaim"] = 0
    wanted["workqueue.cpumask"] = cpulist.to_list(housekeeping)
    if policy["isolation"]["system_slices"] and isolated:
        wanted["systemd.slices"] = {unit: cpulist.to_list(housekeeping) for unit in knobs.SLICES}
    if host["memlock"] is not None:
        wanted["limits.memlock"] = "infinity" if host["memlock"] == "infinity" else str(quantity.to_bytes(host["memlock"]))
    if host["irqbalance"] is not None:
        installed = (platform.get("irqbalance") or {}).get("installed")
        if host["irqbalance"] == "disabled":
            if installed is not False:
                wanted["irqbalance"] = "disabled"
        elif installed is False:
            found.error(
                "platform.no_irqbalance",
                f"host.irqbalance: found {host['irqbalance']}, but irqbalance is not installed",
                "install irqbalance, or set host.irqbalance to disabled",
            )
        elif host["irqbalance"] == "enabled":
            wanted["irqbalance"] = "enabled"
        else:
            wanted["irqbalance"] = f"banned:{cpulist.to_list(isolated)}"
            found.note(
                "irqbalance.ban_list",
                "host.irqbalance: an explicit ban list switches irqbalance's own detection of isolated CPUs off; it bans what is in the list "
                "and nothing else",
            )
    tuned = platform.get("tuned") or {}
    if tuned.get("installed") and tuned.get("on") is not False:
        wanted["tuned.profile"] = knobs.TUNED_PROFILE
    elif tuned.get("installed") and host["tuned_parent"] is not None:
        found.error(
            "platform.tuned_off",
            f"host.tuned_parent: found {host['tuned_parent']}, but tuned is installed and off",
            "enable and start tuned, or set host.tuned_parent to null",
        )
    elif tuned.get("installed"):
        found.note("platform.tuned_off", "tuned is installed and off: what its profile would hold is written as files of the kernel instead")
    elif host["tuned_parent"] is not None:
        found.error(
            "platform.no_tuned",
            f"host.tuned_parent: found {host['tuned_parent']}, but tuned is not installed",
            "install tuned, or set host.tuned_parent to null",
        )


def _platform_findings(platform: Mapping[str, Any], args: Sequence[str], found: findings_m.Findings) -> None:
    if platform.get("supported") is False:
        found.error(
            "platform.unsupported",
            f"this system is not supported: {platform.get('unsupported_reason') or 'no reason given'}",
            "see the list of supported systems in the README",
        )
    if (platform.get("rke2") or {}).get("minor") is None:
        found.note("platform.rke2_unknown", "the version of RKE2 is not known; whether it knows every kubelet flag of the plan was not checked")
    loader = platform.get("boot_loader") or {}
    if args and loader and loader.get("kind") not in ("grub-drop-in", "grub-default", "bls"):
        found.error(
            "boot.loader",
            f"found boot loader {loader.get('kind') or 'unknown'}; boot arguments can be written for GRUB with grub-mkconfig and for BLS entries "
            "with grubby",
            "add these arguments by hand: " + " ".join(args),
        )
    length = len(" ".join(args))
    if length > COMMAND_LINE_SHARE:
        found.error(
            "boot.command_line_too_long",
            f"the plan's kernel arguments take {length} bytes, wanted at most {COMMAND_LINE_SHARE}: the kernel cuts the command line at "
            f"{COMMAND_LINE_LIMIT} bytes, everything included",
            "number the CPUs so that lists are short (firmware), or leave out isolation.managed_irqs",
        )


# -- the plan


def make_plan(
    topology: Mapping[str, Any],
    platform: Optional[Mapping[str, Any]],
    policy: Any,
    chassis: Optional[Any] = None,
    runtime_version: Optional[str] = None,
    cilium: Optional[Any] = None,
) -> Dict[str, Any]:
    """Plan a node.

    :param topology: ``ansible_facts.numa_topology``.
    :param platform: ``ansible_facts.locality_state.platform``.
    :param policy: ``locality_policy`` as the operator wrote it; defaults are filled in here.
    :param chassis: ``locality_chassis``, or None to expect nothing.
    :param cilium: what is known of the cluster's Cilium: its ``version``, and the data of its ConfigMap as ``config``, or the ``values`` that its chart
        (``mode``, bundled or helm) gets, which are checked too; None not to judge by it.
    :param runtime_version: version of the program that acts at boot, as this collection would write it; None not to judge it.
    :returns: ``version, housekeeping_cpus, isolated_cpus, numa_nodes, kernel_args, kubelet, irqs, knobs, capacity, findings``. CPU
        sets are canonical lists, memory is in bytes. A knob that is missing in ``knobs`` is not judged, null means that it must
        not be set. With an error among the findings the plan must not be applied; it is still as complete as it can be.
    :raises PlanError: the topology or platform is not of the shape the facts modules return.
    """
    found = findings_m.Findings()
    checked, items = policy_m.check_policy({} if policy is None else policy)
    found.extend(items)
    platform = {} if platform is None else platform
    if not isinstance(platform, Mapping):
        raise PlanError(f"platform is {policy_m.shown(platform)}, wanted the mapping that locality_state returns as platform")
    machine = read_machine(topology)
    features = platform.get("features") or {}
    minor = (platform.get("rke2") or {}).get("minor")
    if not machine.online:
        found.error("topology.no_cpus", "the online CPUs could not be read", "see the problems of numa_topology")
    if machine.unplaced:
        found.error(
            "topology.no_numa_node",
            f"CPUs {cpulist.to_list(cpu for core in machine.unplaced for cpu in core.cpus)} belong to no NUMA node or to several; the kubelet "
            "could not align pods on them",
            "see the problems of numa_topology, and the firmware's NUMA settings",
        )
    if machine.incomplete:
        found.warning(
            "topology.incomplete_cores",
            "CPUs are offline: the cores "
            f"{', '.join(cpulist.to_list(core.cpus) for core in sorted(machine.incomplete, key=lambda core: core.id)[:16])} have fewer CPUs than "
            "the others and are housekeeping",
            "bring the offline CPUs back, or take their siblings offline as well",
        )
    if chassis is not None:
        found.extend(chassis_m.compare(topology, chassis))

    housekeeping = _housekeeping(machine, checked["housekeeping"], found)
    isolated = machine.online - housekeeping
    memory = _memory(machine, checked, found)
    wanted: Dict[str, Any] = {}
    args: List[str] = []

    isolation = checked["isolation"]
    flags = (["domain"] if isolation["scheduler"] == "isolated" else []) + (["managed_irq"] if isolation["managed_irqs"] else [])
    wanted["kernel.isolcpus"] = ",".join(flags + [cpulist.to_list(isolated)]) if flags and isolated else None
    if wanted["kernel.isolcpus"]:
        args.append(f"isolcpus={wanted['kernel.isolcpus']}")
    if isolation["scheduler"] == "isolated":
        found.warning(
            "isolation.scheduler_isolated",
            f"isolation.scheduler: isolated: {ISOLATED_WARNING}",
            "keep scheduler: balanced unless every program on this node pins its own threads",
        )
    wanted["kernel.nohz_full"] = cpulist.to_list(isolated) if isolation["tickless"] and isolated else None
    if isolation["tickless"]:
        if features.get("nohz_full") is False:
            found.error(
                "platform.no_nohz_full",
                "isolation.tickless: found true, but this kernel is built without CONFIG_NO_HZ_FULL and ignores nohz_full=",
                "set isolation.tickless to false",
            )
        elif features.get("nohz_full") is None:
            found.note("platform.nohz_full_unknown", "isolation.tickless: whether this kernel knows nohz_full= could not be read")
    if wanted["kernel.nohz_full"]:
        args.append(f"nohz_full={wanted['kernel.nohz_full']}")
    wanted["kernel.irqaffinity"] = cpulist.to_list(housekeeping) or None
    if housekeeping:
        args.append(f"irqaffinity={cpulist.to_list(housekeeping)}")
    args += _hugepage_args(machine, memory.hugepages, features, found)
    sizes: Dict[str, Dict[str, int]] = {}
    for node, pages in sorted(memory.hugepages.items()):
        for size, count in pages.items():
            sizes.setdefault(size, {})[str(node)] = count
    wanted["kernel.hugepages"] = sizes
    if checked["pcie"]["iommu"] is not None:
        args += _iommu_args(checked["pcie"]["iommu"], platform, found)
        wanted["kernel.iommu"] = checked["pcie"]["iommu"]
    acs, off = _acs_value(machine, checked["pcie"], platform, found)
    _guest_findings(machine, checked["pcie"], platform, found)
    if acs is not None:
        args.append(f"pci={acs}")
        wanted["kernel.acs"] = acs

    _host(platform, checked, isolated, housekeeping, found, wanted)
    kubelet_args = _kubelet(machine, checked, memory, housekeeping, minor, found, wanted)
    _option_findings(machine, checked["kubelet"], minor, len(topology.get("sockets") or []), found)
    _platform_findings(platform, args, found)

    irqs = _irqs(machine, checked["irq"], housekeeping, platform, found, wanted)
    if runtime_version is not None:
        wanted["runtime.version"] = runtime_version if irqs or wanted.get("kubelet.first_start") else None
    if irqs and str(wanted.get("irqbalance") or "disabled") != "disabled":
        # Not a warning: it would undo in seconds what the boot program redoes each minute, so that the node never stays as planned.
        found.error(
            "irqbalance.against_irq_devices",
            f"host.irqbalance: found {checked['host']['irqbalance']}, with irq.devices {', '.join(checked['irq']['devices'])}: irqbalance moves the same "
            "interrupts elsewhere every few seconds, also among the CPUs that it does not ban",
            "set host.irqbalance to disabled, or irq.devices to [] to leave all interrupts to irqbalance",
        )
    wanted["irq.service"] = checked["irq"]["strategy"] if irqs else None
    pairs, far = _pairs(machine)
    _device_findings(machine, checked, pairs, far, found)
    _redirect_findings(machine, checked, pairs, off, found)
    wanted.update(
        pcie_knobs.wanted(machine.devices, machine.relations, _part(platform, "pcie_ports", dict, "platform"), checked["pcie"]["min_link_width"], off)
    )
    wanted.update(cilium_knobs.wanted(checked["network"], platform, found))
    wanted.update(dra_knobs.wanted(topology, checked["dra"]))
    try:
        cluster = cilium_values.settings(cilium)
        if cilium is not None and cilium.get("values") is not None and cilium.get("version"):
            found.extend(cilium_values.check_values(cilium["values"], str(cilium["version"]), str(cilium.get("mode") or "bundled")))
    except (cilium_gates.SettingsError, cilium_values.ValuesError) as error:
        raise PlanError(str(error)) from error
    in_all = sum(int(node.get("memory_bytes") or 0) for node in machine.numa_nodes)
    found.extend(cilium_gates.check(wanted, platform, cluster, in_all, len(machine.possible)))
    numa_nodes = _numa_nodes(machine, housekeeping, memory)
    aligned = dra_claims.capacity(topology, {**checked["dra"], "align": "pcie_root"})
    if checked["dra"]["dranet"]:
        found.extend(dra_claims.templates(topology, checked["dra"])[1])
    return {
        "version": PLAN_VERSION,
        "housekeeping_cpus": cpulist.to_list(housekeeping),
        "isolated_cpus": cpulist.to_list(isolated),
        "numa_nodes": numa_nodes,
        "kernel_args": args,
        "kubelet": {
            "args": kubelet_args,
            "node_labels": [f"{name}={value}" for name, value in sorted(checked["kubelet"]["labels"].items()) if _registers(name)],
            "node_taints": sorted(checked["kubelet"]["taints"]),
        },
        "irqs": irqs,
        "knobs": {knob: wanted[knob] for knob in knobs.KNOBS if knob in wanted},
        "capacity": _capacity(machine, isolated, numa_nodes, pairs, far, aligned),
        "findings": found.sorted(),
    }


def _irqs(
    machine: Machine,
    irq: Mapping[str, Any],
    housekeeping: FrozenSet[int],
    platform: Mapping[str, Any],
    found: findings_m.Findings,
    wanted: Dict[str, Any],
) -> List[Dict[str, str]]:
    chosen: List[Mapping[str, Any]] = []
    addresses = {str(device["address"]): device for device in machine.devices}
    for name in irq["devices"]:
        if ":" in name and name not in addresses:
            found.error(
                "irq.no_such_device",
                f"irq.devices: there is no device {name}, found {', '.join(addresses) or 'none'}",
                "use the PCI address of a device of this machine",
            )
    for device in machine.devices:
        if str(device["address"]) in irq["devices"] or (device.get("kind") in irq["devices"] and not device.get("physfn")):
            chosen.append(device)
    lists = {str(device["address"]): cpulist.to_list(_irq_cpus(machine, device, housekeeping)) for device in chosen}
    # One that was handed to a virtual machine has no interface, and so no queues to set.
    nics = [str(device["address"]) for device in chosen if device.get("kind") == "nic" and device.get("interfaces") != []]
    wanted["irq.affinity"] = lists
    wanted["irq.default_affinity"] = cpulist.to_list(housekeeping)
    if irq["queues"] is not None:
        queues = _queues(irq["queues"], {address: lists[address] for address in nics}, len(machine.online), platform, found)
        if queues is not None:
            wanted["nic.queues"] = queues
    if irq["rps"]:
        wanted["nic.rps"] = {address: lists[address] for address in nics}
        wanted["nic.xps"] = {address: lists[address] for address in nics}
    return [{"device": address, "cpus": cpus} for address, cpus in lists.items()]


def _queues(
    asked: Any,
    lists: Mapping[str, str],
    online: int,
    platform: Mapping[str, Any],
    found: findings_m.Findings,
) -> Optional[Dict[str, int]]:
    """Queues of each NIC; None where as many cannot be had.

    Fitted ones are as many as the CPUs that the NIC's interrupts go to, those of its own NUMA node if they can, so that no CPU
    serves two queues of it; and no more than its driver can have.

    :param lists: CPUs of the interrupts of each NIC. :param online: number of online CPUs.
    """
    limits = platform.get("nic_queues") or {}
    unset = [address for address in lists if address in limits and not limits[address]]
    most = {address: limits.get(address) for address in lists if address not in unset}
    if unset:
        found.note("irq.no_queue_setting", f"irq.queues: the number of queues of {', '.join(unset)} cannot be set (driver), so it is left as it is")
    if asked == policy_m.FITTED:
        unknown = [address for address, limit in most.items() if limit is None]
        if unknown:
            found.note(
                "irq.queues_unknown",
                f"irq.queues: how many queues {', '.join(unknown)} can have could not be read; if it is fewer than planned, activation fails there",
            )
        fitted = {address: max(1, len(cpulist.from_list(lists[address]))) for address in most}
        return {address: count if most[address] is None else min(count, int(most[address] or 1)) for address, count in fitted.items()}
    # Drivers refuse more channels than CPUs, or than they can have, and at boot there is nobody to read that.
    short = {address: int(limit) for address, limit in most.items() if limit is not None and limit < asked}
    if asked > online or short:
        bounds = [f"{online}, the number of online CPUs"] if asked > online else []
        bounds += [f"{limit} for {address}" for address, limit in short.items()]
        found.error(
            "irq.too_many_queues",
            f"irq.queues: found {asked}, wanted at most {', '.join(bounds)}",
            f"lower irq.queues, set it to {policy_m.FITTED}, or leave it out to keep the driver's number",
        )
        return None
    return dict.fromkeys(most, asked)


def _numa_nodes(machine: Machine, housekeeping: FrozenSet[int], memory: _Memory) -> List[Dict[str, Any]]:
    result: List[Dict[str, Any]] = []
    for node in machine.numa_nodes:
        id = int(node["id"])
        mine = frozenset(cpu for core in machine.groups.get(id, ()) for cpu in core.cpus)
        size, reserved = node.get("memory_bytes"), memory.reserved.get(id, 0)
        result.append(
            {
                "id": id,
                "housekeeping_cpus": cpulist.to_list(mine & housekeeping),
                "isolated_cpus": cpulist.to_list(mine - housekeeping),
                "allocatable_memory_bytes": None if size is None else max(0, size - memory.huge_bytes.get(id, 0) - reserved),
                "reserved_memory_bytes": reserved,
                "hugepages": copy.deepcopy(memory.hugepages.get(id, {})),
                "gpus": [str(device["address"]) for device in machine.devices if _is_gpu(device) and device.get("numa_node") == id],
                "nics": [str(device["address"]) for device in machine.devices if _is_nic(device) and device.get("numa_node") == id],
            }
        )
    return result


def _capacity(
    machine: Machine,
    isolated: FrozenSet[int],
    numa_nodes: Iterable[Mapping[str, Any]],
    pairs: List[Dict[str, Any]],
    far: List[str],
    aligned: Mapping[str, Any],
) -> Dict[str, Any]:
    def whole(cores: Iterable[Core]) -> int:
        return sum(1 for core in cores if core.cpus <= isolated)

    nodes = {
        str(node["id"]): {
            "cpus": len(cpulist.from_list(node["isolated_cpus"])),
            "whole_cores": whole(machine.groups.get(node["id"], ())),
            "memory_bytes": node["allocatable_memory_bytes"],
            "hugepages": dict(node["hugepages"]),
            "gpus": len(node["gpus"]),
            "nics": len(node["nics"]),
        }
        for node in numa_nodes
    }
    return {
        "cpus": len(isolated),
        "whole_cores": whole(machine.cores),
        "gpus": sum(1 for device in machine.devices if _is_gpu(device)),
        "nics": sum(1 for device in machine.devices if _is_nic(device)),
        "numa_nodes": nodes,
        "pairs": pairs,
        # A GPU and a NIC with RDMA of its own behind one host bridge: what a claim can ask for.
        "aligned_pairs": aligned["pairs"],
        "gpus_far_from_nics": far,
    }


normalise_policy = policy_m.normalise_policy

__all__ = (
    "COMMAND_LINE_LIMIT",
    "PLAN_VERSION",
    "RELATIONS",
    "RKE2_EVICTION",
    "Machine",
    "PlanError",
    "kubelet_quantity",
    "make_plan",
    "normalise_policy",
    "read_machine",
    "reserved_memory_value",
    "spread_memory",
)
