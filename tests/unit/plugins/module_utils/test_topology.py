# Copyright (c) 2026 The inferops.locality authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Topology of machines on paper, of damaged trees, and under renumbering of CPUs."""

from __future__ import annotations

import copy
import os
import shutil
import tempfile
from pathlib import Path
from typing import Any, Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ansible_collections.inferops.locality.plugins.module_utils import cpulist
from ansible_collections.inferops.locality.plugins.module_utils.sysroot import SysRoot
from ansible_collections.inferops.locality.plugins.module_utils.topology import read_topology
from ansible_collections.inferops.locality.plugins.plugin_utils import paper
from ansible_collections.inferops.locality.tests.unit.fixtures import machines as fixtures

CPU = "sys/devices/system/cpu"
NODE = "sys/devices/system/node"


def facts(root: Path) -> dict[str, Any]:
    return read_topology(SysRoot(str(root))).to_facts()


def write(root: Path, path: str, data: bytes | str) -> None:
    place = root / path
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_bytes(data.encode() if isinstance(data, str) else data)


@pytest.fixture
def machine(tmp_path: Path) -> Path:
    """A machine with two sockets, SMT and PCI devices, for a test to damage."""
    return fixtures.build("two-sockets", tmp_path / "node")


def files_of(problems: list[dict[str, str]]) -> set[str]:
    return {problem["file"] for problem in problems}


# -- machines ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "cpus", "sockets", "nodes", "cores"),
    [
        ("two-sockets", ("0-15", 2, "on"), {0: "0-3,8-11", 1: "4-7,12-15"}, {0: "0-3,8-11", 1: "4-7,12-15"}, {0: (0, 0, "0,8"), 7: (1, 1, "7,15")}),
        ("adjacent", ("0-11", 4, "on"), {0: "0-11"}, {0: "0-11"}, {0: (0, 0, "0-3"), 4: (0, 0, "4-7"), 8: (0, 0, "8-11")}),
        (
            "interleaved",
            ("0-15", 2, "on"),
            {0: "0-1,4-5,8-9,12-13", 1: "2-3,6-7,10-11,14-15"},
            {0: "0,4,8,12", 1: "1,5,9,13", 2: "2,6,10,14", 3: "3,7,11,15"},
            {0: (0, 0, "0,8"), 2: (1, 2, "2,10"), 5: (0, 1, "5,13")},
        ),
        ("sparse-nodes", ("0-3", 1, "unknown"), {0: "0-1", 1: "2-3"}, {0: "0-1", 4: "", 8: "2-3", 252: ""}, {0: (0, 0, "0"), 2: (1, 8, "2")}),
        ("overlapping-nodes", ("0-3", 1, "notsupported"), {0: "0-3"}, {0: "0-1", 1: "0-3"}, {0: (0, None, "0"), 1: (0, None, "1"), 2: (0, 1, "2")}),
        ("offline-cpus", ("0-4,6-7", 2, "on"), {0: "0-1,4", 1: "2-3,6-7"}, {0: "0-1,4", 1: "2-3,6-7"}, {0: (0, 0, "0,4"), 1: (0, 0, "1")}),
        ("no-numa", ("0-3", 2, "on"), {0: "0-3"}, {}, {0: (0, None, "0,2"), 1: (0, None, "1,3")}),
        ("hybrid", ("0-5", 2, "on"), {0: "0-4"}, {0: "0-5"}, {0: (0, 0, "0-1"), 4: (0, 0, "4"), 5: (None, 0, "5")}),
        ("old-kernel", ("0-3", 1, "unknown"), {0: "0-1", 1: "2-3"}, {0: "0-1", 1: "2-3"}, {0: (0, 0, "0"), 3: (1, 1, "3")}),
        ("virtual-machine", ("0-1", 1, "unknown"), {0: "0", 1: "1"}, {0: "0-1"}, {0: (0, 0, "0"), 1: (1, 0, "1")}),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_machines(
    name: str, cpus: tuple[Any, ...], sockets: dict[int, str], nodes: dict[int, str], cores: dict[int, tuple[Any, ...]], tmp_path: Path
) -> None:
    found = facts(fixtures.build(name, tmp_path / "node"))
    assert (found["cpus"]["online"], found["cpus"]["threads_per_core"], found["cpus"]["smt"]) == cpus
    assert {socket["id"]: socket["cpus"] for socket in found["sockets"]} == sockets
    assert {node["id"]: node["cpus"] for node in found["numa_nodes"]} == nodes
    seen = {core["id"]: (core["socket"], core["numa_node"], core["cpus"]) for core in found["cores"]}
    assert {core: seen.get(core) for core in cores} == cores
    assert cpulist.to_list(cpu for core in found["cores"] for cpu in cpulist.from_list(core["cpus"])) == found["cpus"]["online"]


def test_lists_of_a_machine_with_an_offline_cpu(tmp_path: Path) -> None:
    cpus = facts(fixtures.build("offline-cpus", tmp_path / "node"))["cpus"]
    assert (cpus["possible"], cpus["present"], cpus["online"], cpus["offline"]) == ("0-9", "0-7", "0-4,6-7", "5,8-9")


def test_many_cpus(tmp_path: Path) -> None:
    found = facts(fixtures.build("many-cpus", tmp_path / "node"))
    assert found["cpus"]["online"] == "0-1151" and len(found["cores"]) == 576 and found["problems"] == []
    assert found["sockets"][7] == {"id": 7, "cpus": "504-575,1080-1151", "numa_nodes": [7]}


def test_memory_pages_and_distances(machine: Path, tmp_path: Path) -> None:
    one, two = facts(machine)["numa_nodes"]
    assert (one["memory_bytes"], two["memory_bytes"]) == (64 << 30, 32 << 30)
    assert one["hugepages"] == {"2Mi": {"total": 0, "free": 0}, "1Gi": {"total": 8, "free": 6}}
    assert (one["distances"], two["distances"]) == ({"0": 10, "1": 21}, {"0": 21, "1": 10})
    sparse = facts(fixtures.build("sparse-nodes", tmp_path / "sparse"))["numa_nodes"]
    assert sparse[2]["distances"] == {"0": 40, "4": 20, "8": 10, "252": 80}, "columns are the online nodes, whatever their ids"
    assert sparse[3]["memory_bytes"] == 0 and sparse[3]["hugepages"] == {}


def test_columns_are_the_online_nodes_also_where_a_directory_is_missing(tmp_path: Path) -> None:
    root = fixtures.build("sparse-nodes", tmp_path / "node")
    shutil.rmtree(root / NODE / "node4")
    nodes = {node["id"]: node["distances"] for node in facts(root)["numa_nodes"]}
    assert nodes[8] == {"0": 40, "4": 20, "8": 10, "252": 80}


def test_nodes_that_claim_the_same_cpus_are_named(tmp_path: Path) -> None:
    found = facts(fixtures.build("overlapping-nodes", tmp_path / "node"))
    (problem,) = found["problems"]
    assert problem["file"] == f"/{NODE}" and "nodes 0-1" in problem["reason"] and "CPUs 0-1" in problem["reason"]


def test_page_sizes_of_other_architectures(machine: Path) -> None:
    write(machine, f"{NODE}/node0/hugepages/hugepages-64kB/nr_hugepages", "5\n")
    write(machine, f"{NODE}/node0/hugepages/hugepages-16777216kB/nr_hugepages", "1\n")
    pages = facts(machine)["numa_nodes"][0]["hugepages"]
    assert pages["64Ki"] == {"total": 5, "free": None} and pages["16Gi"] == {"total": 1, "free": None}


@pytest.mark.parametrize("keep", ["core_cpus_list", "core_cpus", "thread_siblings_list", "thread_siblings"])
def test_any_one_of_the_sibling_files_tells_the_cores(keep: str, machine: Path) -> None:
    before = facts(machine)["cores"]
    for path in (machine / CPU).glob("cpu*/topology/*"):
        if path.name in {"core_cpus_list", "core_cpus", "thread_siblings_list", "thread_siblings"} - {keep}:
            path.unlink()
    assert facts(machine)["cores"] == before


def test_core_ids_do_not_matter(machine: Path) -> None:
    """Core ids repeat in each socket, and on some machines within one."""
    before = facts(machine)["cores"]
    for path in (machine / CPU).glob("cpu*/topology/core_id"):
        path.write_text("0\n")
    assert facts(machine)["cores"] == before


def test_smt_words(machine: Path) -> None:
    said = {}
    for word in ("on", "off", "forceoff", "notsupported", "notimplemented", "1", "2", "", "maybe", "\u00b2"):
        write(machine, f"{CPU}/smt/control", word + "\n")
        found = facts(machine)
        said[word] = found["cpus"]["smt"]
        assert (f"/{CPU}/smt/control" in files_of(found["problems"])) == (word in ("maybe", "\u00b2"))
    assert said == {
        "on": "on",
        "off": "off",
        "forceoff": "forceoff",
        "notsupported": "notsupported",
        "notimplemented": "unknown",
        "1": "off",
        "2": "on",
        "": "unknown",
        "maybe": "unknown",
        "\u00b2": "unknown",
    }


@pytest.mark.parametrize(("package", "sockets"), [("-1", {1: "4-7,12-15"}), (None, {1: "4-7,12-15"}), ("36", {1: "4-7,12-15", 36: "0-3,8-11"})])
def test_packages_without_a_number(package: str | None, sockets: dict[int, str], machine: Path) -> None:
    for cpu in (0, 1, 2, 3, 8, 9, 10, 11):
        path = machine / CPU / f"cpu{cpu}/topology/physical_package_id"
        path.unlink() if package is None else path.write_text(package + "\n")
    found = facts(machine)
    assert {socket["id"]: socket["cpus"] for socket in found["sockets"]} == sockets
    assert found["cores"][0]["socket"] == (36 if package == "36" else None)
    assert found["problems"] == []


def test_a_package_number_used_in_several_books(machine: Path) -> None:
    """s390 counts sockets anew in each book."""
    for cpu in range(16):
        write(machine, f"{CPU}/cpu{cpu}/topology/physical_package_id", "1\n")
        write(machine, f"{CPU}/cpu{cpu}/topology/book_id", f"{cpu % 2}\n")
    found = facts(machine)
    assert found["sockets"] == [] and {core["socket"] for core in found["cores"]} == {None}
    assert any("several books" in problem["reason"] for problem in found["problems"])


# -- machines that tell less -------------------------------------------------------------------------------------------


def test_an_empty_directory(tmp_path: Path) -> None:
    found = facts(tmp_path)
    assert found == {
        "cpus": {"possible": None, "present": None, "online": None, "offline": None, "threads_per_core": None, "smt": "unknown"},
        "sockets": [],
        "numa_nodes": [],
        "cores": [],
        "devices": [],
        "relations": {},
        "kernel": {"release": None, "command_line": None},
        "problems": [],
    }


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("proc/cpuinfo", "processor\t: 0\nmodel name\t: x\n\nprocessor\t: 2\n"),
        ("proc/cpuinfo", "vendor_id       : IBM/S390\n# processors    : 2\nprocessor 0: version = FF\nprocessor 2: version = FF\n"),
        ("proc/stat", "cpu  1 2 3\ncpu0 1 2 3\ncpu2 1 2 3\nintr 5\n"),
    ],
    ids=["cpuinfo", "cpuinfo of s390", "stat"],
)
def test_without_sysfs_procfs_tells_the_online_cpus_and_no_more(path: str, text: str, tmp_path: Path) -> None:
    write(tmp_path, path, text)
    found = facts(tmp_path)
    assert found["cpus"]["online"] == "0,2" and found["cpus"]["present"] is None and found["cpus"]["threads_per_core"] is None
    assert found["cores"] == []
    assert [problem["reason"] for problem in found["problems"]] == ["nothing says to which core CPUs 0,2 belong"]


def test_without_the_online_file_each_cpu_tells_itself(tmp_path: Path) -> None:
    root = fixtures.build("offline-cpus", tmp_path / "node")
    (root / CPU / "online").unlink()
    assert facts(root)["cpus"]["online"] == "0-4,6-7"


@pytest.mark.parametrize(("text", "online"), [("", ""), ("\0\0\0", ""), ("0-", None), ("nonsense", None), ("3-1", None)])
def test_a_useless_online_file_is_no_answer_and_the_machine_is_still_told(text: str, online: str | None, machine: Path) -> None:
    before = facts(machine)
    write(machine, f"{CPU}/online", text)
    found = facts(machine)
    assert found["cpus"]["online"] == online
    assert f"/{CPU}/online" in files_of(found["problems"])
    assert found["cores"] == before["cores"] and found["numa_nodes"] == before["numa_nodes"]


def test_node_cpus_by_map_by_links_or_not_at_all(machine: Path) -> None:
    before = facts(machine)["numa_nodes"][1]["cpus"]
    (machine / NODE / "node1/cpulist").unlink()
    assert facts(machine)["numa_nodes"][1]["cpus"] == before
    (machine / NODE / "node1/cpumap").unlink()
    assert facts(machine)["numa_nodes"][1]["cpus"] == before
    for link in (machine / NODE / "node1").glob("cpu*"):
        link.unlink()
    found = facts(machine)
    assert found["numa_nodes"][1]["cpus"] is None
    assert [core["numa_node"] for core in found["cores"]] == [0, 0, 0, 0, None, None, None, None]


def test_a_node_lists_cpus_that_are_not_there(machine: Path) -> None:
    """POWER lists possible CPUs in cpulist."""
    write(machine, f"{NODE}/node1/cpulist", "4-7,12-15,100-120\n")
    assert facts(machine)["numa_nodes"][1]["cpus"] == "4-7,12-15"


def test_online_cpus_in_no_node(machine: Path) -> None:
    write(machine, f"{NODE}/node1/cpulist", "4-6,12-14\n")
    found = facts(machine)
    assert any("CPUs 7,15 are online and in no NUMA node" in problem["reason"] for problem in found["problems"])
    assert found["cores"][7]["numa_node"] is None and found["cores"][6]["numa_node"] == 1


def test_siblings_that_contradict_each_other_are_one_core(machine: Path) -> None:
    """A core must never be split between system and pods: in doubt it is the larger one."""
    for name in ("core_cpus_list", "thread_siblings_list"):
        write(machine, f"{CPU}/cpu1/topology/{name}", "1-2\n")
    found = facts(machine)
    assert next(core["cpus"] for core in found["cores"] if core["id"] == 1) == "1-2,9-10"
    assert any("contradict" in problem["reason"] for problem in found["problems"])


def test_kernel(machine: Path) -> None:
    assert facts(machine)["kernel"]["release"] == "6.12.57+deb13-amd64"
    (machine / "proc/sys/kernel/osrelease").unlink()
    write(machine, "proc/version", "Linux version 4.18.0-553.el8.x86_64 (mockbuild@x) #1 SMP\n")
    write(machine, "proc/cmdline", "ro quiet\0\n")
    assert facts(machine)["kernel"] == {"release": "4.18.0-553.el8.x86_64", "command_line": "ro quiet"}


# -- damaged trees -----------------------------------------------------------------------------------------------------

GARBAGE = {
    "empty": b"",
    "NUL bytes": b"\0" * 4096,
    "not UTF-8": b"\xff\xfe\x80\n",
    "words": b"lorem ipsum, dolor\n",
    "negative": b"-1\n",
    "large number": b"9" * 400 + b"\n",
    "backwards": b"9-3\n",
    "newlines": b"\n" * 100,
}
# Texts: any bytes of UTF-8 are a fine command line.
TEXTS = ("/proc/", "/address", "/speed")


def read_files(root: Path) -> list[str]:
    """Node paths of the files that reading this machine opens."""
    sysroot = SysRoot(str(root))
    read_topology(sysroot)
    return sorted(path for path, kind in sysroot.reads.items() if kind == "file")


@pytest.mark.parametrize("garbage", GARBAGE)
def test_every_file_may_hold_garbage(garbage: str, machine: Path) -> None:
    data = GARBAGE[garbage]
    paths = read_files(machine)
    assert len(paths) > 80
    for path in paths:
        place = machine / path.lstrip("/")
        before = place.read_bytes()
        place.write_bytes(data)
        found = facts(machine)
        if garbage in ("words", "not UTF-8") and not path.endswith("config") and not any(text in path for text in TEXTS) and "_link_" not in path:
            assert path in files_of(found["problems"]), f"{path}: no problem tells of {garbage}"
        place.write_bytes(before)
    for path in paths:
        (machine / path.lstrip("/")).write_bytes(data)
    assert set(facts(machine)) == {"cpus", "sockets", "numa_nodes", "cores", "devices", "relations", "kernel", "problems"}


def damage_directories(root: Path, path: Path) -> None:
    path.unlink()
    path.mkdir()


def damage_loops(root: Path, path: Path) -> None:
    path.unlink()
    path.symlink_to(path.name)


def damage_outside(root: Path, path: Path) -> None:
    path.unlink()
    outside = root.parent / "outside"
    outside.write_text("0-999\n")
    path.symlink_to(os.path.relpath(outside, path.parent))


def damage_absolute(root: Path, path: Path) -> None:
    path.unlink()
    path.symlink_to("/etc/hostname")


def damage_missing(root: Path, path: Path) -> None:
    path.unlink()


def damage_pipe(root: Path, path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def damage_huge(root: Path, path: Path) -> None:
    with open(path, "r+b") as stream:
        stream.truncate(1 << 33)


@pytest.mark.parametrize(
    ("damage", "told"),
    [
        (damage_missing, False),
        (damage_directories, True),
        (damage_loops, True),
        (damage_outside, True),
        (damage_absolute, True),
        (damage_pipe, True),
        (damage_huge, True),
    ],
)
def test_every_file_may_be_something_else(damage: Callable[[Path, Path], None], told: bool, machine: Path) -> None:
    """Directories, loops, links out of the root, pipes and 8 GiB of zeros in the place of files: nothing raises, nothing is believed."""
    paths = read_files(machine)
    for path in paths:
        damage(machine, machine / path.lstrip("/"))
    sysroot = SysRoot(str(machine))
    found = read_topology(sysroot).to_facts()
    assert found["cpus"]["possible"] is None and found["cpus"]["present"] is None
    if told:
        assert f"/{CPU}/online" in files_of(found["problems"]) and found["cpus"]["online"] is None


def test_directories_that_loop(tmp_path: Path) -> None:
    (tmp_path / "sys/devices").mkdir(parents=True)
    (tmp_path / "sys/devices/pci0000:00").mkdir()
    (tmp_path / "sys/devices/pci0000:00/0000:00:01.0").symlink_to("../pci0000:00")
    (tmp_path / "sys/devices/system").symlink_to("system")
    assert facts(tmp_path)["devices"] == []


def test_a_directory_that_leads_out_of_the_root(tmp_path: Path) -> None:
    root = tmp_path / "node"
    fixtures.build("two-sockets", tmp_path / "other")
    root.mkdir()
    (root / "sys").symlink_to("../other/sys")
    found = facts(root)
    assert found["cpus"]["online"] is None and found["devices"] == [] and found["problems"]


# -- renumbering -------------------------------------------------------------------------------------------------------


@st.composite
def machines(draw: st.DrawFn) -> tuple[dict[str, Any], dict[int, int]]:
    """A machine of any shape, and a renumbering of its CPUs."""
    sockets, per_socket = draw(st.integers(1, 2)), draw(st.integers(1, 2))
    threads = draw(st.sampled_from((1, 2, 4)))
    cores = []
    number = 0
    for node in range(sockets * per_socket):
        for _core in range(draw(st.integers(1, 3))):
            size = draw(st.integers(1, threads))
            cores.append({"cpus": list(range(number, number + size)), "socket": node // per_socket, "numa": node, "core_id": draw(st.integers(0, 3))})
            number += size
    offline = draw(st.sets(st.integers(0, number - 1), max_size=max(0, number - 2)))
    new = draw(st.permutations(range(number)))
    pci = [{"host_bridge": "pci0000:00", "numa": 0, "children": [{"nic": "igb", "address": "0000:00:01.0"}, {"gpu": "nvidia-l40s", "address": "0000:00:02.0"}]}]
    return {"cpus": {"cores": cores, "offline": sorted(offline)}, "pci": pci}, dict(enumerate(new))


def renumbered(description: dict[str, Any], new: dict[int, int]) -> dict[str, Any]:
    other = copy.deepcopy(description)
    for core in other["cpus"]["cores"]:
        core["cpus"] = [new[cpu] for cpu in core["cpus"]]
    other["cpus"]["offline"] = [new[cpu] for cpu in other["cpus"]["offline"]]
    return other


def mapped(found: dict[str, Any], new: dict[int, int]) -> dict[str, Any]:
    """Facts with every CPU replaced by its new number."""

    def text(cpus: str) -> str:
        return cpulist.to_list(new[cpu] for cpu in cpulist.from_list(cpus))

    other = copy.deepcopy(found)
    for key in ("possible", "present", "online", "offline"):
        other["cpus"][key] = text(found["cpus"][key])
    for part in ("sockets", "numa_nodes", "cores"):
        for item in other[part]:
            item["cpus"] = text(item["cpus"])
    for core in other["cores"]:
        core["id"] = min(cpulist.from_list(core["cpus"]))
    other["cores"].sort(key=lambda core: core["id"])
    for problem in other["problems"]:
        problem["reason"] = ""
    return other


@settings(max_examples=40)
@given(machines())
def test_renumbering_the_cpus_renumbers_every_answer(case: tuple[dict[str, Any], dict[int, int]]) -> None:
    description, new = case
    with tempfile.TemporaryDirectory() as folder:
        paper.build(description, Path(folder) / "one")
        paper.build(renumbered(description, new), Path(folder) / "two")
        one, two = facts(Path(folder) / "one"), facts(Path(folder) / "two")
    # The kernel's command line and release are the same; where CPU 0 went does not show.
    assert mapped(one, new) == mapped(two, {cpu: cpu for cpu in new})


def test_a_secret_on_the_command_line_stays_on_the_node(tmp_path: Path) -> None:
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc/cmdline").write_text("root=/dev/sda1 ro rd.luks.password=canary-4711 quiet\n")
    facts = read_topology(SysRoot(str(tmp_path))).to_facts()
    assert "canary-4711" not in repr(facts)
    assert facts["kernel"]["command_line"].split()[0] == "root=/dev/sda1"
