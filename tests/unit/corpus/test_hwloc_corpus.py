# Copyright (c) 2026 The inferops.locality authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Real machines collected by hwloc, compared with what lstopo says about the same trees."""

from __future__ import annotations

import re
from xml.etree import ElementTree
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Callable

import pytest

from ansible_collections.inferops.locality.plugins.module_utils import cpulist, pcie
from ansible_collections.inferops.locality.tests.unit.corpus.machines import Comparison, Kind, Machine, listed, name_of, only

# -- what lstopo says --------------------------------------------------------------------------------------------------


@dataclass
class Lstopo:
    """lstopo's objects, in our terms. Memory is text as printed in a console, or a number of bytes."""

    cpus: frozenset[int] = frozenset()
    cores: set[frozenset[int]] = field(default_factory=set)
    sockets: dict[int, frozenset[int]] = field(default_factory=dict)
    nodes: dict[int, frozenset[int]] = field(default_factory=dict)
    memory: dict[int, Any] = field(default_factory=dict)
    distances: dict[int, dict[int, int]] = field(default_factory=dict)
    pci: dict[str, tuple[str, str]] = field(default_factory=dict)
    os_devices: dict[str, set[str]] = field(default_factory=dict)


def mask(text: str) -> frozenset[int]:
    """hwloc's bitmap: words of 32 bits with commas, most significant first; an empty word is 0."""
    value = 0
    for word in text.split(","):
        value = value << 32 | (int(word, 16) if word else 0)
    return frozenset(bit for bit in range(value.bit_length()) if value >> bit & 1)


def read_xml(text: str) -> Lstopo:
    """lstopo's XML (versions 2 and 3)."""
    found = Lstopo()
    top = ElementTree.fromstring(text)
    # Types of network and OpenFabrics devices: bits since version 3, numbers before.
    bits = top.get("version", "").startswith("3")

    def network(element: ElementTree.Element) -> bool:
        number = int(element.get("osdev_type") or 0)
        return bool(number & (16 | 32)) if bits else number in (2, 3)

    def walk(element: ElementTree.Element, pci: str | None) -> None:
        kind, number = element.get("type"), int(element.get("os_index", -1))
        cpus = mask(element.get("cpuset", "0"))
        if kind == "Machine":
            found.cpus = cpus
        elif kind == "Core":
            found.cores.add(cpus)
        elif kind == "Package" and number >= 0:
            found.sockets[number] = cpus
        elif kind == "NUMANode":
            found.nodes[number] = cpus
            found.memory[number] = int(element.get("local_memory", 0))
        elif kind in ("PCIDev", "Bridge") and element.get("pci_busid"):
            pci = element.get("pci_busid") or ""
            match = re.match(r"([0-9a-f]{4}) \[([0-9a-f]{4}):", element.get("pci_type", ""))
            assert match, f"pci_type {element.get('pci_type')!r}"
            found.pci[pci] = (match.group(1), match.group(2))
        elif kind == "OSDev" and pci and network(element):
            found.os_devices.setdefault(pci, set()).add(element.get("name") or "")
        for child in element.findall("object"):
            walk(child, pci)

    for element in top.findall("object"):
        walk(element, None)
    for matrix in top.findall("distances2"):
        if matrix.get("type") == "NUMANode" and matrix.get("name") in ("NUMALatency", None):
            indexes = [int(item) for element in matrix.findall("indexes") for item in (element.text or "").split()]
            values = [int(item) for element in matrix.findall("u64values") for item in (element.text or "").split()]
            for row, node in enumerate(indexes):
                found.distances[node] = dict(zip(indexes, values[row * len(indexes) : (row + 1) * len(indexes)]))
    return found


def read_console(text: str) -> Lstopo:
    """lstopo's verbose text: objects by indentation; a NUMA node has the CPUs of the object it is printed in."""
    found = Lstopo()
    stack: list[tuple[int, str, int | None, str, set[int]]] = []
    logical: dict[int, int] = {}
    homes: dict[int, set[int]] = {}
    columns: list[int] | None = None
    matrix = False
    pci: str | None = None

    def leave(depth: int) -> None:
        while stack and stack[-1][0] >= depth:
            _depth, kind, number, _rest, cpus = stack.pop()
            if kind == "Core":
                found.cores.add(frozenset(cpus))
            elif kind == "Package" and number is not None:
                found.sockets[number] = frozenset(cpus)

    for line in text.splitlines():
        match = re.match(r"( *)([A-Z][A-Za-z0-9]*)(?:\([^)]*\))? (?:L#(\d+)|\(P#)", line)
        indent = len(line) - len(line.lstrip())
        if line.startswith("Relative latency matrix") and "between" in line:
            matrix, columns = "NUMANodes" in line, None
        elif matrix and line.split()[:1] == ["index"]:
            columns = [int(item) for item in line.split()[1:]]
        elif matrix and columns and re.fullmatch(r"[\d\s]+", line) and len(line.split()) == len(columns) + 1:
            row, *values = (int(item) for item in line.split())
            found.distances[logical[row]] = {logical[column]: value for column, value in zip(columns, values)}
        elif match and "=" not in line[: match.end()] and not line.startswith(("depth", "Special")):
            kind = match.group(2)
            if not (kind == "Machine" or match.group(3) is not None) or " = " in line.split("(")[0]:
                continue
            os_index = re.search(r"\(P#(\d+)", line)
            number = int(os_index.group(1)) if os_index else None
            leave(indent)
            if kind == "PU":
                assert number is not None
                for entry in stack:
                    entry[4].add(number)
                found.cpus |= {number}
            elif kind == "NUMANode":
                assert number is not None
                logical[int(match.group(3))] = number
                holder = next(entry for entry in reversed(stack) if entry[1] != "MemCache")
                homes[number] = holder[4]
                memory = re.search(r"local=(\S+?)[ )]", line)
                found.memory[number] = memory.group(1) if memory else None
            elif kind == "PCI":
                device = re.search(r"busid=([0-9a-f:.]+) id=([0-9a-f]{4}):[0-9a-f]{4} class=([0-9a-f]{4})", line)
                assert device, line
                pci = device.group(1)
                found.pci[pci] = (device.group(3), device.group(2))
                stack.append((indent, kind, number, pci, set()))
            else:
                stack.append((indent, kind, number, "", set()))
        device_line = re.match(r" *OSDev\[(Network|OpenFabrics)[^]]*\].*\"([^\"]+)\"", line)
        if device_line:
            holders = [entry for entry in stack if entry[1] == "PCI" and entry[0] < indent]
            if holders:
                found.os_devices.setdefault(holders[-1][3], set()).add(device_line.group(2))
    leave(0)
    found.nodes = {node: frozenset(cpus) for node, cpus in homes.items()}
    return found


def printed(size: int) -> str:
    """Bytes as lstopo prints them: the largest unit that gives ten or more, rounded to the nearest."""
    for unit, shift in (("TiB", 40), ("GiB", 30), ("MiB", 20)):
        if size >= 10 << shift:
            return f"{((size >> shift - 1) + 1) >> 1}{unit}"
    return f"{((size >> 9) + 1) >> 1}KiB"


# -- a case: a tarball, an expected output, options and environment ----------------------------------------------------


@dataclass
class Case:
    """One ``.test`` file of hwloc."""

    path: Path
    source: Path
    target: Path
    options: str
    env: str

    @classmethod
    def read(cls, path: Path) -> Case:
        lines = re.findall(r"^(\w+):\s*(.*)$", path.read_text(), re.MULTILINE)
        values = {key: " ".join(value for name, value in lines if name == key).strip() for key, _value in lines}
        return cls(path, path.parent / values["source"], path.parent / values["target"], values.get("options", ""), values.get("env", ""))


def allowed(machine: Machine, what: str) -> frozenset[int] | None:
    """CPUs (``cpus``) or nodes (``mems``) of the cgroup that lstopo ran in, where the tree holds its files."""
    group = machine.text("proc/self/cpuset")
    if group in ("", "/") or "--disallowed" in machine.options or "--whole-system" in machine.options:
        return None
    # cgroup v2, v1, and v1 mounted without prefix; lstopo reads what was asked for of v1, not effective_cpus.
    for name in (f"cpuset.{what}.effective", f"cpuset.{what}", what):
        for path in machine.glob(f"**{group}/{name}"):
            return frozenset(cpulist.from_list(machine.text(path)))
    return None


def memory_of(machine: Machine, node: int) -> int | None:
    match = re.search(r"MemTotal:\s*(\d+) kB", machine.text(f"sys/devices/system/node/node{node}/meminfo"))
    return int(match.group(1)) * 1024 if match else None


def gpu_nodes(machine: Machine) -> set[int]:
    """Nodes that are the memory of NVIDIA GPUs, as the driver says."""
    texts = (machine.text(path) for path in machine.glob("proc/driver/nvidia/gpus/*/numa_status"))
    return {int(match.group(1)) for match in (re.search(r"^Node:\s*(\d+)", text, re.MULTILINE) for text in texts) if match}


def without_memory(machine: Machine) -> set[int]:
    return {node for node in machine.node_ids() if memory_of(machine, node) == 0}


def overlapping(machine: Machine) -> set[int]:
    maps = {node: machine.node_map(node) & machine.online for node in machine.node_ids()}
    return {one for one in maps for two in maps if one != two and maps[one] & maps[two]}


def structure_only(machine: Machine) -> bool:
    return "--filter all:structure" in machine.options


def keeps(machine: Machine, name: str) -> bool:
    return name in machine.env


def bulldozer(machine: Machine) -> bool:
    text = machine.text("proc/cpuinfo")
    return "AuthenticAMD" in text and bool(re.search(r"^cpu family\s*: (21|22)$", text, re.MULTILINE))


KINDS = (
    Kind("cgroup", "cpus", "lstopo shows the CPUs of its own cgroup only; ours are compared within it", lambda m: allowed(m, "cpus") is not None),
    Kind("compute units", "cores", "hwloc calls the two halves of an AMD family 21 module cores, the kernel calls them siblings", bulldozer),
    Kind("structure only", "cores", "this output leaves out objects that add no structure, cores too", structure_only),
    Kind(
        "unnumbered packages",
        "sockets",
        "the kernel numbers no package (-1 or no file); lstopo makes packages of the sibling lists",
        lambda m: not m.packages() or "-1" in m.packages(),
    ),
    Kind(
        "packages of several books",
        "sockets",
        "s390 numbers its packages anew in each book; lstopo tells them apart by the sibling lists, we name no socket",
        Machine.numbered_in_books,
    ),
    Kind("no node directory", "numa_nodes", "the kernel shows no NUMA node; lstopo invents one of /proc/meminfo", lambda m: not m.node_ids()),
    Kind(
        "overlapping nodes",
        "numa_nodes",
        "several nodes claim the same CPUs: lstopo keeps one of them, we keep all and give the CPUs to none",
        lambda m: bool(overlapping(m)) and not keeps(m, "HWLOC_DEBUG_ALLOW_OVERLAPPING_NODE_CPUSETS=1"),
    ),
    Kind(
        "GPU memory",
        "numa_nodes",
        "nodes that are the memory of an NVIDIA GPU are hidden by lstopo unless asked for",
        lambda m: bool(gpu_nodes(m)) and not keeps(m, "HWLOC_KEEP_NVIDIA_GPU_NUMA_NODES=1"),
    ),
    Kind("nodes without memory", "numa_nodes", "lstopo's NUMA nodes are memory: nodes with MemTotal 0 are none", lambda m: bool(without_memory(m))),
    Kind(
        "nodes without CPUs",
        "numa_cpus",
        "lstopo places a node without CPUs beside the CPUs nearest to it; to the kernel it has none",
        lambda m: any(not m.node_map(node) & m.online for node in m.node_ids()),
    ),
    Kind(
        "no vendor file",
        "pci",
        "without a vendor file lstopo prints 0000, we ask the NVIDIA driver's list",
        lambda m: any(not m.text(f"{path}/vendor") for path in m.glob("sys/bus/pci/devices/*")),
    ),
    Kind("PCI without its bus", "pci", "lstopo finds PCI devices below /sys/bus/pci only", lambda m: not m.glob("sys/bus/pci/devices")),
)


def compare(machine: Machine, says: Lstopo) -> Comparison:
    """Compare all that both state."""
    comparison = Comparison(machine, KINDS)
    cgroup, mems = allowed(machine, "cpus"), allowed(machine, "mems")
    if not comparison.applies("cgroup"):
        cgroup = machine.online

    def within(cpus: frozenset[int]) -> frozenset[int]:
        return cpus & cgroup

    comparison.check("cpus", within(machine.online), says.cpus)
    comparison.check("cores", {within(core) for core in machine.cores()} - {frozenset()}, says.cores, "compute units", "structure only")
    if comparison.uncompared.get("cores") == "compute units":
        # Each of our cores is still a union of theirs.
        halves = all(sum(len(half) for half in says.cores if half <= core) == len(core) for core in machine.cores())
        assert halves, f"{machine.root.name}: our cores are not made of lstopo's"
    sockets = {number: within(cpus) for number, cpus in machine.sockets().items() if within(cpus)}
    comparison.check("sockets", sockets, {number: cpus for number, cpus in says.sockets.items() if cpus}, "unnumbered packages", "packages of several books")
    ids = set(machine.node_ids())
    if comparison.applies("no node directory") or comparison.applies("overlapping nodes"):
        comparison.check("numa_nodes", None, None, "no node directory", "overlapping nodes")
        assert not ids or set(says.nodes) <= set(machine.nodes())
        return _pci(comparison, says)
    hidden = gpu_nodes(machine) if comparison.applies("GPU memory") else set()
    hidden |= without_memory(machine)
    if mems is not None:
        hidden |= ids - mems
    nodes = only(machine.nodes(), set(machine.nodes()) - hidden)
    comparison.check("numa_nodes", set(nodes), set(says.nodes))
    ours = {node: within(frozenset(cpulist.from_list(found["cpus"]))) for node, found in nodes.items()}
    placed = {node for node in nodes if not machine.node_map(node) & machine.online} if comparison.applies("nodes without CPUs") else set()
    comparison.check("numa_cpus", only(ours, set(ours) - placed), only(says.nodes, set(says.nodes) - placed))
    as_printed = {
        node: printed(found["memory_bytes"]) if isinstance(says.memory.get(node), str) else found["memory_bytes"] for node, found in nodes.items()
    }
    comparison.check("memory", as_printed, says.memory)
    if says.distances:
        distances = {
            node: {int(other): value for other, value in (found["distances"] or {}).items() if int(other) in says.distances}
            for node, found in nodes.items()
            if node in says.distances
        }
        comparison.check("distances", distances, says.distances)
    return _pci(comparison, says)


def _pci(comparison: Comparison, says: Lstopo) -> Comparison:
    if not says.pci and not comparison.applies("PCI without its bus"):
        return comparison
    machine = comparison.machine
    ours = {device["address"]: device["kind"] for device in machine.facts["devices"]}
    kinds = {address: pcie.kind_of(f"0x{class_}00", f"0x{vendor}") for address, (class_, vendor) in says.pci.items()}
    comparison.check("pci", ours, {address: kind for address, kind in kinds.items() if kind}, "no vendor file", "PCI without its bus")
    if comparison.uncompared.get("pci") == "no vendor file":
        assert {device["address"]: device["class"][2:6] for device in machine.facts["devices"]} == {
            address: class_ for address, (class_, vendor) in says.pci.items() if vendor == "0000"
        }
    names = {
        device["address"]: {interface["name"] for interface in device["interfaces"]} | set(device["rdma"])
        for device in machine.facts["devices"]
        if device["kind"] in ("nic", "rdma")
    }
    if "pci" in comparison.same:
        comparison.check("interfaces", {address: found for address, found in names.items() if found}, only(says.os_devices, names))
    return comparison


# -- tests -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", listed("hwloc/*.test"), ids=name_of)
def test_lstopo_says_the_same(path: Path, corpus: Path, machines: Callable[[Path], list[Machine]]) -> None:
    case = Case.read(path)
    (machine,) = machines(case.source)
    machine.options, machine.env = case.options, case.env
    text = case.target.read_text()
    comparison = compare(machine, read_xml(text) if case.target.suffix == ".xml" else read_console(text))
    assert not comparison.verdict(), f"{path.name}: {comparison.verdict()}"


@pytest.mark.parametrize("tarball", listed("hwloc/*.tar.*", "hwloc/other/*.t*z*"), ids=name_of)
def test_every_tree_is_read(tarball: Path, corpus: Path, machines: Callable[[Path], list[Machine]]) -> None:
    """Also those without an expected output: nothing is raised, every problem names a file, and every CPU set is a list."""
    found = machines(tarball)
    assert found, f"{tarball.name} holds no root"
    for machine in found:
        for problem in machine.facts["problems"]:
            assert set(problem) == {"file", "reason"} and problem["file"].startswith("/")
        for core in machine.facts["cores"]:
            assert cpulist.from_list(core["cpus"]) <= machine.online


def test_every_kind_names_its_field_and_reason() -> None:
    assert len({kind.name for kind in KINDS}) == len(KINDS)
    assert all(kind.reason and kind.field for kind in KINDS)


CONSOLE = """\
Machine (P#0 total=24GiB)
  Package L#0 (P#0 total=24GiB)
    MemCache L#0 (total=12GiB size=1GiB)
      NUMANode L#0 (P#4 local=12GiB total=12GiB)
    Core L#0 (P#0)
      PU L#0 (P#0)
      PU L#1 (P#2)
    HostBridge L#0 (buses=0000:[00-00])
      PCI L#0 (busid=0000:00:03.0 id=1af4:1000 class=0200(Ethernet) PCISlot=3)
        OSDev[Network] L#1 (Address=06:7a:4c:00:00:22) "ens3"
  Package L#1 (P#1 total=12GiB)
    NUMANode L#1 (P#7 local=12GiB total=12GiB)
    Core L#1 (P#0)
      PU L#2 (P#1)
depth 0:           1 Machine (type #0)
Relative latency matrix (name NUMALatency kind 5) between 2 NUMANodes (depth -3) by logical indexes:
 index     0     1
     0    10    20
     1    21    10
"""


def test_a_console_is_understood() -> None:
    """The reader of the expected outputs is itself held to an output whose meaning is plain."""
    says = read_console(CONSOLE)
    assert says.cpus == {0, 1, 2}
    assert says.cores == {frozenset((0, 2)), frozenset((1,))}
    assert says.sockets == {0: {0, 2}, 1: {1}}
    assert says.nodes == {4: {0, 2}, 7: {1}}
    assert says.memory == {4: "12GiB", 7: "12GiB"}
    assert says.distances == {4: {4: 10, 7: 20}, 7: {4: 21, 7: 10}}
    assert says.pci == {"0000:00:03.0": ("0200", "1af4")}
    assert says.os_devices == {"0000:00:03.0": {"ens3"}}
