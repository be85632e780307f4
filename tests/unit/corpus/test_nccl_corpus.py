# Copyright (c) 2026 The inferops.locality authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Relations of real GPU machines, as NCCL and RCCL dumped their trees, against the relations we compute.

A dump leaves out the root ports and gives each switch one element. From it a tree of files is written, with root ports and the
ports of each switch; this is read like any machine. The expectation comes from the dump alone, by NCCL's rule: the switches
between two devices, then the CPU element. A dump tells neither PHB from NODE, which count as one.
"""

from __future__ import annotations

from xml.etree import ElementTree
from pathlib import Path
from typing import Any, Iterator

import pytest

from ansible_collections.inferops.locality.plugins.module_utils import pcie
from ansible_collections.inferops.locality.plugins.module_utils.sysroot import SysRoot
from ansible_collections.inferops.locality.plugins.plugin_utils import paper
from ansible_collections.inferops.locality.tests.unit.corpus.machines import listed, name_of


def is_switch(element: ElementTree.Element) -> bool:
    return element.get("class", "").startswith("0x0604") or element.find("pci") is not None


class Dump:
    """One dump: its devices with the chain of elements above each, from the CPU down."""

    def __init__(self, path: Path) -> None:
        self.system = ElementTree.fromstring(path.read_text().strip())
        self.chains: dict[str, list[ElementTree.Element]] = {}
        self.gpus: set[str] = set()
        self.numbers = iter(range(1, 1 << 16))

    def cpus(self) -> list[ElementTree.Element]:
        return self.system.findall("cpu")

    def read(self) -> list[dict[str, Any]]:
        """The machine's PCI trees as a description for paper; each element below a CPU gets a host bridge of its own."""
        trees = []
        for cpu in self.cpus():
            numa = int(cpu.get("numaid", -1))
            for top in cpu.findall("pci"):
                number = next(self.numbers)
                children = list(self._function(top, [cpu]))
                root = {"port": "root", "address": self._address(), "children": children}
                trees.append({"host_bridge": f"pci{0x30000 + number:05x}:00", "numa": numa if numa >= 0 else None, "children": [root]})
        return trees

    def _address(self) -> str:
        return f"{0x20000 + next(self.numbers):05x}:00:00.0"

    def _function(self, element: ElementTree.Element, above: list[ElementTree.Element]) -> Iterator[dict[str, Any]]:
        address = element.get("busid", "").lower()
        if is_switch(element):
            ports = [
                {"port": "switch_down", "address": self._address(), "children": list(self._function(child, [*above, element]))}
                for child in element.findall("pci")
            ]
            yield {"port": "switch_up", "address": self._address(), "children": ports}
            return
        self.chains[address] = above
        # Files written by hand have no gpu elements, and some no class either: then each function stands for a GPU.
        if element.find("gpu") is not None or element.get("class", "0x0302")[:6] in ("0x0300", "0x0302", "0x0380", "0x1200"):
            self.gpus.add(address)
            yield {"gpu": "nvidia-h100", "address": address}
        else:
            yield {"nic": "mlx5", "address": address}

    def expected(self, one: str, two: str) -> str:
        left, right = self.chains[one], self.chains[two]
        if left[0] is not right[0]:
            return "SYS"
        common = sum(1 for a, b in zip(left, right) if a is b)
        if common == 1:
            return "PHB"
        switches = 1 + len(left[common:]) + len(right[common:])
        return "PIX" if switches == 1 else "PXB"


def relations(dump: Dump, target: Path) -> dict[str, dict[str, str | None]]:
    """Our relations, NODE as PHB."""
    trees = dump.read()
    ids = {tree["numa"] for tree in trees if tree["numa"] is not None}
    cores = [{"cpus": str(index), "socket": 0, "numa": node} for index, node in enumerate(sorted(ids) or [0])]
    paper.build({"cpus": {"cores": cores}, "pci": trees}, target)
    found = pcie.read_pci(SysRoot(str(target)), len(dump.cpus())).relations
    return {one: {two: "PHB" if relation == "NODE" else relation for two, relation in row.items()} for one, row in found.items()}


def dumps() -> list[Any]:
    """Dumps of systems; a file of rings and trees (``graphs``) tells no PCI tree."""
    return [path for path in listed("topo/xml/*.xml") if path is None or "<system" in path.read_text()] or [None]


@pytest.mark.parametrize("path", dumps(), ids=name_of)
def test_relations_are_those_of_the_dump(path: Path, corpus: Path, tmp_path: Path) -> None:
    dump = Dump(path)
    ours = relations(dump, tmp_path / "node")
    assert set(ours) == dump.gpus and dump.gpus, "every GPU of the dump is one of ours"
    wrong = {
        (one, two): (relation, dump.expected(one, two)) for one, row in ours.items() for two, relation in row.items() if relation != dump.expected(one, two)
    }
    assert not wrong, f"{path.name}: ours, theirs: {wrong}"
    assert all(set(row) == set(dump.chains) - {one} for one, row in ours.items())


def test_second_level_switches_are_pxb(corpus: Path, tmp_path: Path) -> None:
    """In Oracle's H100 dump GPU 0f and NIC 0c hang below one switch, each behind a switch of its own."""
    path = corpus / "topo/xml/oci-H100-topology.xml"
    ours = relations(Dump(path), tmp_path / "node")
    assert ours["0000:0f:00.0"]["0000:0c:00.0"] == "PXB"
