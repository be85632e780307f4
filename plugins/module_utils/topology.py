# Copyright (c) 2026 The inferops.locality authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a machine is: CPUs, cores, sockets, NUMA nodes and PCI devices, from sysfs and procfs.

Nothing is guessed. A value whose file is absent is None; a file that is there and makes no sense is None and a problem. Only
where the kernel states the same thing in another place is that place read: a machine without ``cpu/online`` by the CPUs'
own directories, else by ``/proc/cpuinfo`` or ``/proc/stat``; a node without ``cpulist`` by ``cpumap``, else by its CPU links.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any, Dict, FrozenSet, Iterable, List, Optional, Tuple

from ansible_collections.inferops.locality.plugins.module_utils import cpulist, kernel_args, pcie, quantity
from ansible_collections.inferops.locality.plugins.module_utils.sysroot import SysRoot

CpuSet = FrozenSet[int]

CPU = "/sys/devices/system/cpu"
NODE = "/sys/devices/system/node"
SMT_STATES = ("on", "off", "forceoff", "notsupported", "unknown")

# Where the CPUs of a core stand, newest name first; Linux before 5.3 has the thread_ names only.
_SIBLINGS = (("core_cpus_list", False), ("thread_siblings_list", False), ("core_cpus", True), ("thread_siblings", True))


@dataclass
class HugePages:
    """Number of pages of one size on one NUMA node."""

    total: Optional[int] = None
    free: Optional[int] = None


@dataclass
class Core:
    """A physical core with its online CPUs; ``id`` is its lowest CPU. Socket and NUMA node are None where unknown or ambiguous."""

    id: int
    socket: Optional[int]
    numa_node: Optional[int]
    cpus: CpuSet


@dataclass
class Socket:
    """A processor package with its online CPUs and the NUMA nodes they belong to."""

    id: int
    cpus: CpuSet
    numa_nodes: Tuple[int, ...] = ()


@dataclass
class NumaNode:
    """A NUMA node. ``cpus`` are online CPUs (None: not readable); nodes of memory only have none. Memory is in bytes."""

    id: int
    cpus: Optional[CpuSet] = None
    memory_bytes: Optional[int] = None
    distances: Optional[Dict[int, int]] = None
    hugepages: Dict[str, HugePages] = field(default_factory=dict)


@dataclass
class Topology:
    """A machine as ``numa_topology`` reports it. CPU sets are None where their file is absent or makes no sense."""

    possible: Optional[CpuSet] = None
    present: Optional[CpuSet] = None
    online: Optional[CpuSet] = None
    offline: Optional[CpuSet] = None
    smt: str = "unknown"
    threads_per_core: Optional[int] = None
    sockets: List[Socket] = field(default_factory=list)
    numa_nodes: List[NumaNode] = field(default_factory=list)
    cores: List[Core] = field(default_factory=list)
    pci: pcie.Pci = field(default_factory=pcie.Pci)
    kernel_release: Optional[str] = None
    command_line: Optional[str] = None
    problems: List[Dict[str, str]] = field(default_factory=list)

    def to_facts(self) -> Dict[str, Any]:
        """The facts of ``numa_topology``: plain types, CPU sets as canonical lists, keys as text."""
        return {
            "cpus": {
                "possible": _listed(self.possible),
                "present": _listed(self.present),
                "online": _listed(self.online),
                "offline": _listed(self.offline),
                "threads_per_core": self.threads_per_core,
                "smt": self.smt,
            },
            "sockets": [{"id": socket.id, "cpus": _listed(socket.cpus), "numa_nodes": list(socket.numa_nodes)} for socket in self.sockets],
            "numa_nodes": [
                {
                    "id": node.id,
                    "cpus": _listed(node.cpus),
                    "memory_bytes": node.memory_bytes,
                    "distances": None if node.distances is None else {str(other): value for other, value in node.distances.items()},
                    "hugepages": {size: {"total": pages.total, "free": pages.free} for size, pages in node.hugepages.items()},
                }
                for node in self.numa_nodes
            ],
            "cores": [{"id": core.id, "socket": core.socket, "numa_node": core.numa_node, "cpus": _listed(core.cpus)} for core in self.cores],
            "devices": [device.to_facts() for device in self.pci.devices],
            "relations": self.pci.relations,
            "kernel": {"release": self.kernel_release, "command_line": self.command_line},
            "problems": self.problems,
        }


def read_topology(sysroot: SysRoot) -> Topology:
    """Read the machine below ``sysroot``. Never raises for what a file holds; what could not be used is in ``problems``."""
    topology = Topology()
    reader = _Reader(sysroot)
    reader.cpus(topology)
    reader.nodes(topology)
    reader.cores(topology)
    topology.pci = pcie.read_pci(sysroot, len(topology.numa_nodes) or None)
    topology.kernel_release = _release(sysroot)
    line = sysroot.text("/proc/cmdline", 2**20)
    topology.command_line = None if line is None else kernel_args.masked(line)
    topology.problems = list(sysroot.problems)
    return topology


def _listed(cpus: Optional[Iterable[int]]) -> Optional[str]:
    return None if cpus is None else cpulist.to_list(cpus)


def _release(sysroot: SysRoot) -> Optional[str]:
    """Kernel release, also from ``/proc/version`` ("Linux version 6.12.57 (...) ...")."""
    release = sysroot.text("/proc/sys/kernel/osrelease", 4096)
    if release is not None:
        return release
    words = (sysroot.text("/proc/version", 65536) or "").split()
    return words[2] if words[:2] == ["Linux", "version"] and len(words) > 2 else None


def _numbered(names: Iterable[str], prefix: str) -> List[int]:
    """Numbers of the names that are this prefix and a number (``cpu12``, not ``cpufreq``), in order."""
    size = len(prefix)
    return sorted(int(name[size:]) for name in names if name.startswith(prefix) and name[size:].isdigit() and name[size:].isascii())


class _Reader:
    """Reads one machine. ``working``: the CPUs taken as online, from whatever says so; ``numa_of``: CPU to its only node."""

    def __init__(self, sysroot: SysRoot) -> None:
        self.sysroot = sysroot
        self.working: CpuSet = cpulist.EMPTY
        self.directories: List[int] = []
        self.numa_of: Dict[int, int] = {}
        self._expected: Optional[Tuple[str, bool]] = None

    # -- CPUs

    def cpus(self, topology: Topology) -> None:
        sysroot = self.sysroot
        names = sysroot.listdir(CPU)
        self.directories = _numbered(names, "cpu")
        for name in ("possible", "present", "online", "offline"):
            if name in names:
                setattr(topology, name, sysroot.cpu_list(f"{CPU}/{name}"))
        if topology.online:
            self.working = topology.online
        else:
            self.working = self._online_elsewhere()
            if "online" not in names:
                topology.online = self.working or None
            elif topology.online is not None:
                sysroot.problem(f"{CPU}/online", "is empty: no machine runs without a CPU")
        if "smt" in names:
            topology.smt = self._smt()

    def _online_elsewhere(self) -> CpuSet:
        """Online CPUs of a machine without (or with a useless) ``online`` file: its CPU directories, else procfs."""
        sysroot = self.sysroot
        if self.directories:
            # cpuN/online is absent where a CPU cannot be switched off, and on kernels without CPU hotplug.
            return frozenset(cpu for cpu in self.directories if sysroot.integer(f"{CPU}/cpu{cpu}/online") != 0)
        text = sysroot.text("/proc/cpuinfo") or ""
        # "processor : 3" of most architectures, "processor 3: version = ..." of s390.
        found = re.findall(r"^processor\s*(?::\s*([0-9]+)\s*$|([0-9]+):)", text, re.MULTILINE)
        if not found:
            found = [(number, "") for number in re.findall(r"^cpu([0-9]+)\s", sysroot.text("/proc/stat") or "", re.MULTILINE)]
        return frozenset(int(one or two) for one, two in found if len(one or two) < 7)

    def _smt(self) -> str:
        path = f"{CPU}/smt/control"
        word = self.sysroot.text(path, 4096)
        if word in SMT_STATES:
            return word
        if word and word.isdecimal():  # POWER: the number of threads that are on
            return "on" if int(word) > 1 else "off"
        if word and word != "notimplemented":
            self.sysroot.problem(path, f"holds '{word[:40]}', wanted one of {', '.join(SMT_STATES[:4])}")
        return "unknown"

    # -- NUMA nodes

    def nodes(self, topology: Topology) -> None:
        sysroot = self.sysroot
        names = sysroot.listdir(NODE)
        ids = _numbered(names, "node")
        # The columns of every distance file are the online nodes (drivers/base/node.c), which need not all be in a capture.
        online = sysroot.cpu_list(f"{NODE}/online") if "online" in names else None
        columns = sorted(online) if online else ids
        claims: Dict[int, List[int]] = {}
        for node_id in ids:
            home = f"{NODE}/node{node_id}"
            files = frozenset(sysroot.listdir(home))
            node = NumaNode(node_id)
            cpus = self._node_cpus(home, files)
            node.cpus = None if cpus is None else cpus & self.working
            for cpu in node.cpus or ():
                claims.setdefault(cpu, []).append(node_id)
            if "meminfo" in files:
                node.memory_bytes = self._memory(f"{home}/meminfo")
            if "distance" in files:
                node.distances = self._distances(f"{home}/distance", columns)
            if "hugepages" in files:
                node.hugepages = self._hugepages(f"{home}/hugepages")
            topology.numa_nodes.append(node)
        self._assign(claims, any(node.cpus is None for node in topology.numa_nodes))

    def _node_cpus(self, home: str, files: FrozenSet[str]) -> Optional[CpuSet]:
        if "cpulist" in files:
            cpus = self.sysroot.cpu_list(f"{home}/cpulist")
            if cpus is not None:
                return cpus
        if "cpumap" in files:
            return self.sysroot.cpu_mask(f"{home}/cpumap")
        # Neither file, but links to CPUs: the kernel makes them for the same CPUs. Without links this says nothing.
        return frozenset(_numbered(files, "cpu")) or None if "cpulist" not in files else None

    def _assign(self, claims: Dict[int, List[int]], incomplete: bool) -> None:
        """Give each CPU its node, if exactly one claims it."""
        disputed: Dict[Tuple[int, ...], List[int]] = {}
        for cpu, nodes in claims.items():
            if len(nodes) == 1:
                self.numa_of[cpu] = nodes[0]
            else:
                disputed.setdefault(tuple(nodes), []).append(cpu)
        for claimants, cpus in sorted(disputed.items()):
            self.sysroot.problem(
                NODE, f"NUMA nodes {cpulist.to_list(claimants)} all claim CPUs {cpulist.to_list(cpus)}: the node of these CPUs is not known"
            )
        homeless = self.working - claims.keys()
        if claims and homeless and not incomplete:
            self.sysroot.problem(NODE, f"CPUs {cpulist.to_list(homeless)} are online and in no NUMA node")

    def _memory(self, path: str) -> Optional[int]:
        """Bytes of MemTotal; the line reads ``Node 0 MemTotal:  16777216 kB``."""
        text = self.sysroot.text(path, 2**20)
        if not text:
            return None
        match = re.search(r"\bMemTotal:\s*([0-9]{1,18}) kB", text)
        if match is None:
            self.sysroot.problem(path, "has no MemTotal in kB")
            return None
        return int(match.group(1)) * 1024

    def _distances(self, path: str, columns: List[int]) -> Optional[Dict[int, int]]:
        text = self.sysroot.text(path, 2**20)
        if not text:
            return None
        values = text.split()
        if len(values) != len(columns) or not all(value.isdigit() and value.isascii() and len(value) < 7 for value in values):
            self.sysroot.problem(path, f"holds '{text[:40]}', wanted {len(columns)} numbers, one for each online node")
            return None
        return dict(zip(columns, (int(value) for value in values)))

    def _hugepages(self, home: str) -> Dict[str, HugePages]:
        sizes = []
        for name in self.sysroot.listdir(home):
            match = re.match(r"hugepages-([0-9]{1,15})kB\Z", name)
            if match and int(match.group(1)):
                sizes.append((int(match.group(1)), name))
        return {
            quantity.page_from_kib(kib): HugePages(
                self.sysroot.integer(f"{home}/{name}/nr_hugepages"), self.sysroot.integer(f"{home}/{name}/free_hugepages")
            )
            for kib, name in sorted(sizes)
        }

    # -- cores and sockets

    def cores(self, topology: Topology) -> None:
        online = sorted(self.working.intersection(self.directories))
        told: Dict[int, CpuSet] = {}
        packages: Dict[int, int] = {}
        books: Dict[int, set[Tuple[Optional[int], ...]]] = {}
        for cpu in online:
            home = f"{CPU}/cpu{cpu}/topology"
            siblings, package, book = self._cpu(home)
            if siblings is not None:
                told[cpu] = siblings & self.working
            if package is not None and package >= 0:
                packages[cpu] = package
                books.setdefault(package, set()).add(book)
        for package in sorted(package for package, where in books.items() if len(where) > 1):
            self.sysroot.problem(CPU, f"physical_package_id {package} stands for packages of several books or drawers: the socket is not known")
            packages = {cpu: other for cpu, other in packages.items() if other != package}
        for cpus in self._group(told):
            nodes = {self.numa_of.get(cpu) for cpu in cpus}
            sockets = {packages.get(cpu) for cpu in cpus}
            if len(sockets - {None}) > 1:
                self.sysroot.problem(CPU, f"CPUs {cpulist.to_list(cpus)} are one core, and say that they are in several sockets")
            topology.cores.append(
                Core(min(cpus), sockets.pop() if len(sockets) == 1 else None, nodes.pop() if len(nodes) == 1 else None, cpus)
            )
        topology.cores.sort(key=lambda core: core.id)
        grouped = frozenset(cpu for core in topology.cores for cpu in core.cpus)
        if self.working - grouped:
            self.sysroot.problem(CPU, f"nothing says to which core CPUs {cpulist.to_list(self.working - grouped)} belong")
        topology.threads_per_core = max((len(core.cpus) for core in topology.cores), default=None)
        members: Dict[int, List[int]] = {}
        for cpu, package in packages.items():
            members.setdefault(package, []).append(cpu)
        for package, numbers in sorted(members.items()):
            nodes_of = sorted({self.numa_of[cpu] for cpu in numbers if cpu in self.numa_of})
            topology.sockets.append(Socket(package, frozenset(numbers), tuple(nodes_of)))

    def _cpu(self, home: str) -> Tuple[Optional[CpuSet], Optional[int], Tuple[Optional[int], ...]]:
        """Siblings, package, and the s390 book and drawer of one CPU.

        All CPUs of a kernel have the same files, so what the first one has is asked of the others without listing them.
        """
        sysroot = self.sysroot
        if self._expected:
            siblings = sysroot.cpu_mask(f"{home}/{self._expected[0]}") if self._expected[1] else sysroot.cpu_list(f"{home}/{self._expected[0]}")
            if siblings is not None:
                return siblings, sysroot.integer(f"{home}/physical_package_id"), ()
        names = sysroot.listdir(home)
        siblings = None
        for name, mask in _SIBLINGS:
            if name in names:
                siblings = sysroot.cpu_mask(f"{home}/{name}") if mask else sysroot.cpu_list(f"{home}/{name}")
                if siblings is not None:
                    break
        package = sysroot.integer(f"{home}/physical_package_id") if "physical_package_id" in names else None
        book = tuple(sysroot.integer(f"{home}/{name}") for name in ("drawer_id", "book_id") if name in names)
        if siblings is not None and not book and "physical_package_id" in names:
            self._expected = (name, mask)
        return siblings, package, book

    def _group(self, told: Dict[int, CpuSet]) -> List[CpuSet]:
        """Cores from what each CPU says of its siblings. CPUs that name each other are one core, also where only one does."""
        leader: Dict[int, int] = {}

        def find(cpu: int) -> int:
            while leader.setdefault(cpu, cpu) != cpu:
                leader[cpu] = leader[leader[cpu]]
                cpu = leader[cpu]
            return cpu

        contradicted = set()
        for cpu, siblings in told.items():
            for other in siblings | {cpu}:
                leader[find(other)] = find(cpu)
                if other in told and told[other] != siblings:
                    contradicted.add(cpu)
        if contradicted:
            self.sysroot.problem(CPU, f"CPUs {cpulist.to_list(contradicted)} contradict their siblings on which CPUs are one core: taken as one")
        groups: Dict[int, List[int]] = {}
        for cpu in leader:
            groups.setdefault(find(cpu), []).append(cpu)
        return [frozenset(cpus) for cpus in groups.values()]


__all__ = ("Core", "HugePages", "NumaNode", "Socket", "Topology", "read_topology")
