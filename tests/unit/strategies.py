# Copyright (c) 2026 The inferops.locality authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Random machines for property tests, and the topologies that numa_topology would return for them.

A machine here is the truth that sysfs shows only in part: which CPUs are siblings even if some are offline. The topology is
built from it independently of the planner, with lists written out CPU by CPU.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field, replace
from typing import Any, Dict, FrozenSet, List, Mapping, Optional, Sequence, Tuple

from hypothesis import strategies as st

GIB = 2**30
MIB = 2**20

NUMBERINGS = ("adjacent", "siblings-last", "interleaved", "random")


@dataclass(frozen=True)
class TrueCore:
    """A core with all its siblings, those that are offline too, in the order of its threads."""

    numa_node: int
    cpus: Tuple[int, ...]


@dataclass(frozen=True)
class TrueMachine:
    """A machine as it is built; ``memory`` has every NUMA node, those without CPUs too."""

    cores: Tuple[TrueCore, ...]
    memory: Mapping[int, Optional[int]]
    offline: FrozenSet[int] = frozenset()
    sockets: int = 1
    devices: Tuple[Mapping[str, Any], ...] = ()
    relations: Mapping[str, Mapping[str, str]] = field(default_factory=dict)

    @property
    def online(self) -> FrozenSet[int]:
        """All CPUs that run."""
        return frozenset(cpu for core in self.cores for cpu in core.cpus) - self.offline

    def live(self, core: TrueCore) -> FrozenSet[int]:
        """CPUs of a core that run."""
        return frozenset(core.cpus) - self.offline

    def running(self) -> List[TrueCore]:
        """Cores with a CPU that runs, in the order of the lowest one."""
        return sorted((core for core in self.cores if self.live(core)), key=lambda core: min(self.live(core)))

    def nodes_with_cpus(self) -> List[int]:
        """NUMA nodes in which a CPU runs."""
        return sorted({core.numa_node for core in self.running()})

    def seen_incomplete(self) -> List[TrueCore]:
        """Cores with a sibling offline, as far as sysfs tells: they are narrower than another core."""
        widest = max((len(self.live(core)) for core in self.running()), default=0)
        return [core for core in self.running() if len(self.live(core)) < len(core.cpus) and len(self.live(core)) < widest]

    def renumbered(self, new: Mapping[int, int]) -> TrueMachine:
        """The same machine with other CPU numbers."""
        return replace(
            self,
            cores=tuple(TrueCore(core.numa_node, tuple(new[cpu] for cpu in core.cpus)) for core in self.cores),
            offline=frozenset(new[cpu] for cpu in self.offline),
        )


def written(cpus: Sequence[int] | FrozenSet[int]) -> str:
    """A CPU list without ranges."""
    return ",".join(str(cpu) for cpu in sorted(cpus))


def topology(machine: TrueMachine, shuffle: Optional[int] = None) -> Dict[str, Any]:
    """What numa_topology returns for a machine; with ``shuffle``, its lists in another order."""
    every = frozenset(cpu for core in machine.cores for cpu in core.cpus)
    ids = sorted(machine.memory)
    cores = [
        {"id": min(machine.live(core)), "socket": 0, "numa_node": core.numa_node, "cpus": written(machine.live(core))} for core in machine.running()
    ]
    numa_nodes = [
        {
            "id": id,
            "cpus": written([cpu for core in machine.cores if core.numa_node == id for cpu in machine.live(core)]),
            "memory_bytes": machine.memory[id],
            "distances": {str(other): 10 if other == id else 20 + abs(ids.index(other) - ids.index(id)) for other in ids},
            "hugepages": {"2Mi": {"total": 0, "free": 0}, "1Gi": {"total": 0, "free": 0}},
        }
        for id in ids
    ]
    devices = [dict(device) for device in machine.devices]
    if shuffle is not None:
        order = random.Random(shuffle)
        for items in (cores, numa_nodes, devices):
            order.shuffle(items)
    return {
        "cpus": {
            "possible": written(every),
            "present": written(every),
            "online": written(machine.online),
            "offline": written(machine.offline),
            "threads_per_core": max((len(machine.live(core)) for core in machine.running()), default=None),
            "smt": "on" if any(len(core.cpus) > 1 for core in machine.cores) else "notsupported",
        },
        "sockets": [{"id": id, "cpus": "", "numa_nodes": []} for id in range(machine.sockets)],
        "numa_nodes": numa_nodes,
        "cores": cores,
        "devices": devices,
        "relations": {gpu: dict(others) for gpu, others in machine.relations.items()},
        "kernel": {"release": "6.12.57", "command_line": "quiet"},
        "problems": [],
    }


def numbered(shape: Sequence[Tuple[int, int]], numbering: str, seed: int = 0) -> Tuple[TrueCore, ...]:
    """Cores of a machine: ``shape`` has NUMA node and number of threads of each, ``numbering`` is one of NUMBERINGS.

    adjacent: siblings have neighbouring numbers; siblings-last: first threads core by core, then the second ones; interleaved:
    the same, but cores are dealt to the NUMA nodes in turn.
    """
    order = list(range(len(shape)))
    if numbering == "interleaved":
        rank: Dict[int, int] = {}
        place = {}
        for index in order:
            node = shape[index][0]
            rank[node] = rank.get(node, 0) + 1
            place[index] = (rank[node], node)
        order.sort(key=lambda index: place[index])
    if numbering == "adjacent":
        threads = [(index, thread) for index in order for thread in range(shape[index][1])]
    else:
        threads = [(index, thread) for thread in range(max((width for _node, width in shape), default=0)) for index in order if thread < shape[index][1]]
    numbers = list(range(len(threads)))
    if numbering == "random":
        random.Random(seed).shuffle(numbers)
    where = dict(zip(threads, numbers))
    return tuple(TrueCore(node, tuple(where[index, thread] for thread in range(width))) for index, (node, width) in enumerate(shape))


def regular(numa_nodes: int = 2, cores: int = 32, threads: int = 2, numbering: str = "siblings-last", memory: int = 512 * GIB) -> TrueMachine:
    """A machine with equal NUMA nodes and cores."""
    shape = [(node, threads) for node in range(numa_nodes) for _core in range(cores)]
    return TrueMachine(numbered(shape, numbering), dict.fromkeys(range(numa_nodes), memory), sockets=numa_nodes)


@st.composite
def machines(draw: st.DrawFn, most_numa_nodes: int = 16, offline: bool = True, roomy: bool = False) -> TrueMachine:
    """1 to 16 NUMA nodes with sparse ids and without CPUs here and there, SMT 1/2/4/8, hybrid cores, any numbering, offline CPUs.

    A roomy machine has cores and memory for an ordinary policy; others may be too small for any.
    """
    count = draw(st.integers(1, most_numa_nodes))
    ids = sorted(draw(st.sets(st.integers(0, 40), min_size=count, max_size=count)))
    with_cpus = [id for index, id in enumerate(ids) if index == 0 or draw(st.integers(0, 4))]
    width = draw(st.sampled_from((1, 2, 4, 8)))
    hybrid = draw(st.booleans()) and draw(st.booleans())
    fewest = 2 if roomy else 1
    even = draw(st.integers(fewest, 5))
    shape: List[Tuple[int, int]] = []
    for id in with_cpus:
        cores = even if draw(st.integers(0, 3)) else draw(st.integers(fewest, 5))
        shape += [(id, 1 if hybrid and index >= cores - cores // 2 else width) for index in range(cores)]
    cores_there = numbered(shape, draw(st.sampled_from(NUMBERINGS)), draw(st.integers(0, 99)))
    total = sum(each for _node, each in shape)
    gone: FrozenSet[int] = frozenset()
    if offline and total > 1 and draw(st.booleans()):
        # CPU 0 can be offline on few machines only, but on some.
        gone = frozenset(draw(st.sets(st.integers(0 if not draw(st.integers(0, 9)) else 1, total - 1), max_size=min(4, total - 1))))
    least = 2**15 if roomy else 1
    memory: Dict[int, Optional[int]] = {id: draw(st.integers(least, 2**22)) * 256 * 1024 if draw(st.integers(0, 19)) else 0 for id in ids}
    if roomy and not any(memory[id] for id in with_cpus):
        memory[with_cpus[0]] = 64 * GIB
    devices: List[Dict[str, Any]] = []
    for index in range(draw(st.integers(0, 4))):
        devices.append({
            "address": f"0000:{index + 1:02x}:00.0",
            "kind": draw(st.sampled_from(("nic", "rdma", "gpu", "nvme"))),
            "numa_node": draw(st.sampled_from([None, *ids])),
            "path": [],
        })
    relations = {
        gpu["address"]: {nic["address"]: draw(st.sampled_from(("PIX", "PXB", "PHB", "NODE", "SYS"))) for nic in devices if nic["kind"] in ("nic", "rdma")}
        for gpu in devices if gpu["kind"] == "gpu"
    }
    return TrueMachine(cores_there, memory, gone, draw(st.integers(1, 4)), tuple(devices), relations)


@st.composite
def same_order_renumberings(draw: st.DrawFn, machine: TrueMachine) -> Dict[int, int]:
    """New CPU numbers that keep CPU 0's core first and the order of the cores within each NUMA node; all else may change.

    Cores are dealt out in a random order of NUMA nodes. Siblings follow at once, or after all cores, in any order.
    """
    queues: Dict[int, List[TrueCore]] = {}
    for core in machine.running():
        queues.setdefault(core.numa_node, []).append(core)
    dealt = [queues[machine.running()[0].numa_node].pop(0)]
    while any(queues.values()):
        dealt.append(queues[draw(st.sampled_from(sorted(node for node, queue in queues.items() if queue)))].pop(0))
    # Which thread of a core comes first is the firmware's choice.
    threads = {core: draw(st.permutations(sorted(machine.live(core)))) for core in dealt}
    if draw(st.booleans()):
        order = [cpu for core in dealt for cpu in threads[core]]
    else:
        order = [threads[core][0] for core in dealt] + list(draw(st.permutations([cpu for core in dealt for cpu in threads[core][1:]])))
    order += sorted(machine.offline)
    return {old: new for new, old in enumerate(order)}


@st.composite
def any_renumberings(draw: st.DrawFn, machine: TrueMachine) -> Dict[int, int]:
    """New CPU numbers of any kind that leave CPU 0 where it is."""
    every = sorted(cpu for core in machine.cores for cpu in core.cpus)
    rest = draw(st.permutations([cpu for cpu in every if cpu]))
    return {0: 0, **dict(zip([cpu for cpu in every if cpu], rest))}


PLATFORM: Dict[str, Any] = {
    "distribution": {"id": "debian", "version_id": "13", "pretty_name": "Debian GNU/Linux 13", "like": []},
    "supported": True,
    "unsupported_reason": None,
    "kernel": "6.12.57",
    "cpu_vendor": "GenuineIntel",
    "boot_loader": {"kind": "grub-drop-in", "drop_in_dir": "/etc/default/grub.d", "once": True},
    "features": {
        "config_acs": True, "hugepages_per_node": True, "nohz_full": True, "cpufreq": True, "cpuidle": True, "thp": True, "numa_balancing": True, "iommu": True,
        "netkit": True,
    },
    "tuned": {"installed": False, "version": None, "profile_dir": None, "active": None},
    "irqbalance": {"installed": True, "env_file": "/etc/default/irqbalance"},
    "network": {
        "uplinks": ["eth0"],
        "interfaces": {
            name: {"driver": "mlx5_core", "physical": True, "lower": [], "tso_max_size": 524280} for name in ("eth0", "eth1")
        },
    },
    "nic_queues": {},
    "rke2": {"role": "agent", "version": "v1.33.5+rke2r1", "minor": 33},
    "virtualization": None,
}


def housekeepings(machine: TrueMachine, fitting: bool = False) -> st.SearchStrategy[Dict[str, Any]]:
    """The three forms of housekeeping that count cores; with ``fitting``, such as the machine can give."""
    nodes = machine.nodes_with_cpus()
    widest = max((len(machine.live(core)) for core in machine.running()), default=1)
    full = [core for core in machine.running() if not machine.offline or len(machine.live(core)) == widest]
    whole = {node: sum(1 for core in full if core.numa_node == node) for node in nodes}
    most = max(1, min(whole.values(), default=1)) if fitting else 3
    counts = st.integers(len(nodes), len(nodes) * most) if fitting else st.integers(1, 20)
    forms = [
        st.builds(lambda count: {"cores_per_numa_node": count}, st.integers(1, most)),
        st.builds(lambda count: {"cores": count}, counts),
    ]
    if not fitting or len(nodes) * most >= 20:
        forms.append(st.builds(lambda name: {"profile": name}, st.sampled_from(("minimal", "standard", "observability", "full"))))
    return st.one_of(forms)


@st.composite
def policies(draw: st.DrawFn, machine: TrueMachine, fitting: bool = False) -> Dict[str, Any]:
    """Right policies, which may ask more of a machine than it has, unless ``fitting``."""
    ids = sorted(machine.memory)
    hugepages: Dict[str, Dict[str, int]] = {}
    for size, most in (("1Gi", 4), ("2Mi", 600)):
        if draw(st.booleans()):
            hugepages[size] = {str(id): draw(st.integers(0, most)) for id in draw(st.sets(st.sampled_from(ids), min_size=1, max_size=3))
                               if not fitting or (machine.memory[id] or 0) >= 6 * GIB}
    size = st.integers(1, 3000).map(lambda count: f"{count}Mi") | st.integers(1, 2**31)
    return {
        "housekeeping": draw(housekeepings(machine, fitting)),
        "isolation": {
            "scheduler": draw(st.sampled_from(("balanced", "isolated"))),
            "managed_irqs": draw(st.booleans()),
            "tickless": draw(st.booleans()),
            "system_slices": draw(st.booleans()),
        },
        "hugepages": hugepages,
        "memory": {"system_reserved": draw(size), "kube_reserved": draw(size), "eviction_hard": draw(size)},
        "host": {"irqbalance": draw(st.sampled_from(("disabled", "enabled", "banned", None)))},
        "irq": {
            "devices": draw(st.sampled_from((["nic"], ["nic", "nvme"], [], ["rdma", "nic"]))), "rps": draw(st.booleans()),
            "queues": draw(st.sampled_from((None, "fitted"))),
        },
    }
