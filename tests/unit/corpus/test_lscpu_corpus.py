# Copyright (c) 2026 The inferops.locality authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Real machines collected for util-linux, compared with what lscpu says about the same trees."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Callable

import pytest

from ansible_collections.inferops.locality.plugins.module_utils import cpulist
from ansible_collections.inferops.locality.tests.unit.corpus.machines import Comparison, Kind, Machine, cpu_text, listed, name_of


@dataclass
class Lscpu:
    """lscpu's summary, and its first table: one row for each online CPU, cores and sockets with numbers of its own."""

    summary: dict[str, str] = field(default_factory=dict)
    rows: list[dict[str, str]] = field(default_factory=list)

    def groups(self, column: str) -> frozenset[frozenset[int]]:
        """CPUs that share a number in a column."""
        found: dict[str, set[int]] = {}
        for row in self.rows:
            found.setdefault(row[column], set()).add(int(row["CPU"]))
        return frozenset(frozenset(cpus) for cpus in found.values())


def read(text: str) -> Lscpu:
    """The expected output: lines ``key: value``, then tables whose last comment line names the columns."""
    found = Lscpu()
    head, *tables = re.split(r"^# The following is the parsable format.*$", text, flags=re.MULTILINE)
    for line in head.splitlines():
        key, colon, value = line.partition(":")
        if colon:
            found.summary.setdefault(key.strip(), value.strip())
    if tables:
        lines = tables[0].strip().splitlines()
        columns = next(line for line in reversed(lines) if line.startswith("# CPU")).lstrip("# ").split(",")
        found.rows = [dict(zip(columns, line.split(","))) for line in lines if line[:1].isdigit()]
    return found


KINDS = (
    Kind(
        "core types",
        "cores",
        "lscpu numbers the cores of each type of a hybrid machine from 0, so its numbers stand for several",
        lambda m: len(set(re.findall(r"^CPU part\s*: (\S+)", m.text("proc/cpuinfo"), re.MULTILINE))) > 1,
    ),
    Kind(
        "core types' sockets",
        "sockets",
        "lscpu counts the sockets of each core type",
        lambda m: len(set(re.findall(r"^CPU part\s*: (\S+)", m.text("proc/cpuinfo"), re.MULTILINE))) > 1,
    ),
    Kind(
        "unnumbered packages",
        "sockets",
        "the kernel numbers no package (-1 or no file); lscpu makes sockets of the sibling lists",
        lambda m: not m.packages() or "-1" in m.packages(),
    ),
    Kind(
        "packages of several books",
        "sockets",
        "s390 numbers its packages anew in each book; lscpu tells them apart by the sibling lists, we name no socket",
        Machine.numbered_in_books,
    ),
    Kind("no node directory", "numa_nodes", "the kernel shows no NUMA node, and lscpu says none", lambda m: not m.node_ids()),
)


SOCKET_KINDS = tuple(kind.name for kind in KINDS if kind.field == "sockets")


def compare(machine: Machine, says: Lscpu) -> Comparison:
    """Compare all that both state."""
    comparison = Comparison(machine, KINDS)
    summary = says.summary
    comparison.check("cpus", machine.online, cpu_text(summary["On-line CPU(s) list"]))
    if machine.facts["cpus"]["present"] is not None and "CPU(s)" in summary:
        comparison.check("present", len(cpulist.from_list(machine.facts["cpus"]["present"])), int(summary["CPU(s)"]))
    if "Off-line CPU(s) list" in summary:
        present = cpulist.from_list(machine.facts["cpus"]["present"] or "")
        offline = cpulist.from_list(machine.facts["cpus"]["offline"] or "") & present
        comparison.check("offline", offline, cpu_text(summary["Off-line CPU(s) list"]) & present)
    if says.rows:
        online = [row for row in says.rows if int(row["CPU"]) in machine.online]
        says = Lscpu(summary, online)
        comparison.check("cores", machine.cores(), says.groups("Core"), "core types")
        comparison.check("sockets", frozenset(machine.sockets().values()), says.groups("Socket"), *SOCKET_KINDS)
    if "Thread(s) per core" in summary:
        comparison.check("threads", machine.facts["cpus"]["threads_per_core"], int(summary["Thread(s) per core"]))
    nodes = {int(match.group(1)): cpu_text(value) for key, value in summary.items() for match in [re.match(r"NUMA node(\d+) CPU\(s\)", key)] if match}
    if comparison.applies("no node directory"):
        assert not nodes, f"lscpu says nodes {nodes} of a tree without any"
        assert machine.facts["numa_nodes"] == []
    comparison.check("numa_nodes", set(machine.nodes()), set(nodes), "no node directory")
    if nodes:
        # The files of a node may list CPUs that are possible and not there; both say them, we say the online ones.
        ours = {node: frozenset(cpulist.from_list(found["cpus"])) for node, found in machine.nodes().items()}
        comparison.check("numa_cpus", ours, {node: cpus & machine.online for node, cpus in nodes.items()})
    return comparison


@pytest.mark.parametrize("tarball", listed("lscpu/*.tar.*"), ids=name_of)
def test_lscpu_says_the_same(tarball: Path, corpus: Path, machines: Callable[[Path], list[Machine]]) -> None:
    """Trees without an expected output are read without raising."""
    found = machines(tarball)
    assert found, f"{tarball.name} holds no root"
    expected = tarball.with_name("lscpu-" + tarball.name.partition(".tar")[0])
    for machine in found if expected.is_file() else ():
        comparison = compare(machine, read(expected.read_text()))
        assert not comparison.verdict(), f"{tarball.name}: {comparison.verdict()}"


@pytest.mark.parametrize("tarball", listed("lscpu/lsmem/*.tar.*"), ids=name_of)
def test_trees_of_memory_only_are_read(tarball: Path, corpus: Path, machines: Callable[[Path], list[Machine]]) -> None:
    for machine in machines(tarball):
        assert machine.facts["cores"] == [] and machine.facts["cpus"]["threads_per_core"] is None


TEXT = """\
CPU(s):              4
On-line CPU(s) list: 0,2,3
Off-line CPU(s) list: 1
Thread(s) per core:  2
NUMA node0 CPU(s):   0-2:2
NUMA node8 CPU(s):

# The following is the parsable format, which can be fed to other
# programs.
# CPU,Core,Socket,Node,,L1d
0,0,0,0,,0
2,0,0,0,,0
3,1,1,,,1

# The following is the parsable format, which can be fed to other
# CPU,Core
0,9
"""


def test_an_output_is_understood() -> None:
    says = read(TEXT)
    assert says.summary["NUMA node0 CPU(s)"] == "0-2:2" and says.summary["NUMA node8 CPU(s)"] == ""
    assert says.groups("Core") == {frozenset((0, 2)), frozenset((3,))}
    assert cpu_text(says.summary["NUMA node0 CPU(s)"]) == {0, 2}
