# Copyright (c) 2026 The inferops.locality authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Machines of the corpus: unpacked once a run, and compared field by field with what another tool said about them."""

from __future__ import annotations

import os
import re
import tarfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Callable, Iterable

from ansible_collections.inferops.locality.plugins.module_utils import cpulist
from ansible_collections.inferops.locality.plugins.module_utils.sysroot import SysRoot
from ansible_collections.inferops.locality.plugins.module_utils.topology import read_topology

CORPUS = Path(os.environ.get("LOCALITY_CORPUS") or Path(__file__).resolve().parents[4] / "shared" / "corpus")


# Directories of sysfs that neither we nor the other tools' comparisons look at, and that hold most of a capture's files.
_SKIPPED = re.compile(
    r"/(cache|cpuidle|cpufreq|power|statistics|microcode|thermal_throttle|firmware_node|machinecheck|clockevents|LNXSYSTM:[0-9]+|memory[0-9]+"
    r"|virtual/(tty|msr|cpuid|thermal)|host[0-9]+|ata[0-9]+|usb[0-9]+)(/|$)"
)


def listed(*patterns: str) -> list[Any]:
    """Files of the corpus for parametrize; one None where there are none, so that the test is there to be skipped or to fail."""
    return sorted(path for pattern in patterns for path in CORPUS.glob(pattern)) or [None]


def name_of(path: Any) -> str:
    """Name of a test case."""
    return path.name if isinstance(path, Path) else "absent"


def unpack(tarball: Path, to: Path, everything: bool = False) -> list[Path]:
    """Unpack a tarball and return the roots in it: directories with a sys or proc of their own.

    :param everything: also what no comparison looks at.
    """
    with tarfile.open(tarball) as archive:
        for member in archive:
            if not (member.isreg() or member.isdir() or member.issym() or member.islnk()):
                continue
            if member.name.startswith("/") or ".." in member.name.split("/") or (not everything and _SKIPPED.search(member.name)):
                continue
            member.mode |= 0o700 if member.isdir() else 0o400
            member.uid, member.gid = os.getuid(), os.getgid()
            archive.extract(member, to, numeric_owner=True, filter="fully_trusted")
    roots: list[Path] = []
    for directory, names, _files in os.walk(to):
        if "sys" in names or "proc" in names:
            roots.append(Path(directory))
            names.clear()
    return sorted(roots)


def cpu_text(text: str) -> frozenset[int]:
    """A CPU list as other tools print it, with strides."""
    return frozenset(cpulist.from_list(text))


@dataclass
class Machine:
    """One unpacked root and what we say about it, with the options and environment the other tool was run with.

    Rules read the tree's files through it, so that they do not lean on our own reader.
    """

    root: Path
    facts: dict[str, Any] = field(default_factory=dict)
    options: str = ""
    env: str = ""

    @classmethod
    def at(cls, root: Path) -> Machine:
        return cls(root, read_topology(SysRoot(str(root))).to_facts())

    def text(self, path: str) -> str:
        """A file of the tree without NULs and blanks at its ends; nothing where it is absent."""
        place = self.root / path.lstrip("/")
        return place.read_bytes().replace(b"\0", b"").decode("utf-8", "replace").strip() if place.is_file() else ""

    def glob(self, pattern: str) -> list[str]:
        return sorted("/" + str(path.relative_to(self.root)) for path in self.root.glob(pattern.lstrip("/")))

    def node_ids(self) -> list[int]:
        found = (re.fullmatch(r".*/node([0-9]+)", path) for path in self.glob("sys/devices/system/node/node*"))
        return sorted(int(match.group(1)) for match in found if match)

    def node_map(self, node: int) -> frozenset[int]:
        """CPUs that the tree's files give a node, offline ones too."""
        home = f"sys/devices/system/node/node{node}"
        text = self.text(f"{home}/cpulist")
        return frozenset(cpulist.from_list(text)) if text else frozenset(cpulist.from_mask(self.text(f"{home}/cpumap") or "0"))

    def packages(self) -> list[str]:
        return [self.text(path) for path in self.glob("sys/devices/system/cpu/cpu*/topology/physical_package_id")]

    def numbered_in_books(self) -> bool:
        """Whether a package number stands for packages of several books or drawers, as on s390."""
        places: dict[str, set[tuple[str, str]]] = {}
        for path in self.glob("sys/devices/system/cpu/cpu*/topology"):
            book = (self.text(f"{path}/drawer_id"), self.text(f"{path}/book_id"))
            places.setdefault(self.text(f"{path}/physical_package_id"), set()).add(book)
        return any(len(books) > 1 for number, books in places.items() if number not in ("", "-1"))

    # What we say, in the terms of the comparison.

    @property
    def online(self) -> frozenset[int]:
        return frozenset(cpulist.from_list(self.facts["cpus"]["online"] or ""))

    def cores(self) -> frozenset[frozenset[int]]:
        return frozenset(frozenset(cpulist.from_list(core["cpus"])) for core in self.facts["cores"])

    def sockets(self) -> dict[int, frozenset[int]]:
        return {socket["id"]: frozenset(cpulist.from_list(socket["cpus"])) for socket in self.facts["sockets"]}

    def nodes(self) -> dict[int, dict[str, Any]]:
        return {node["id"]: node for node in self.facts["numa_nodes"]}


@dataclass(frozen=True)
class Kind:
    """A known difference in one field: why the other tool differs, and the rule that tells from the tree that it must."""

    name: str
    field: str
    reason: str
    rule: Callable[[Machine], bool]


@dataclass
class Comparison:
    """Fields that were the same, that differ, and that were not compared with the kind that says why."""

    machine: Machine
    kinds: tuple[Kind, ...]
    same: set[str] = field(default_factory=set)
    differ: dict[str, str] = field(default_factory=dict)
    uncompared: dict[str, str] = field(default_factory=dict)

    def applies(self, name: str) -> bool:
        """Whether a kind's rule holds for this machine."""
        return next(kind for kind in self.kinds if kind.name == name).rule(self.machine)

    def check(self, name: str, ours: Any, theirs: Any, *kinds: str) -> None:
        """Compare a field, unless a kind of that field applies, or the other tool says nothing (``theirs`` None)."""
        for kind in kinds:
            found = next(item for item in self.kinds if item.name == kind)
            assert found.field == name, f"kind {kind} is about {found.field}, not about {name}"
            if found.rule(self.machine):
                self.uncompared[name] = kind
                return
        if theirs is None:
            return
        if ours == theirs:
            self.same.add(name)
        else:
            self.differ[name] = f"we say {shown(ours)}, they say {shown(theirs)}"

    def verdict(self) -> str:
        """Empty if the machine passes."""
        told = [f"{name}: {difference}" for name, difference in sorted(self.differ.items())]
        if not self.same & {"cpus", "numa_nodes", "cores"}:
            told.append(f"CPUs, NUMA nodes and cores all went uncompared: {self.uncompared}")
        return "\n".join(told)


def shown(value: Any) -> str:
    """A short text of a field for a failed test."""
    if isinstance(value, (frozenset, set)):
        if all(isinstance(item, int) for item in value):
            return cpulist.to_list(value)
        return str(sorted((cpulist.to_list(item) if isinstance(item, frozenset) else str(item)) for item in value))
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key}: {shown(item)}" for key, item in sorted(value.items())) + "}"
    return str(value)


def only(values: dict[Any, Any], keys: Iterable[Any]) -> dict[Any, Any]:
    """The entries of these keys."""
    wanted = set(keys)
    return {key: value for key, value in values.items() if key in wanted}
