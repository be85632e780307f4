# Copyright (c) 2026 The inferops.locality authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Paper nodes: what is refused, and that a tree is complete and always the same."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.inferops.locality.plugins.plugin_utils import paper
from ansible_collections.inferops.locality.tests.unit.fixtures import machines as fixtures

CPUS = {"sockets": 1, "cores_per_numa": 2}


def digest(root: Path) -> str:
    """Digest over the names, links and contents of a tree."""
    told = hashlib.sha256()
    for folder, names, files in sorted(os.walk(root)):
        for name in sorted(names + files):
            path = Path(folder) / name
            content = os.readlink(path).encode() if path.is_symlink() else path.read_bytes() if path.is_file() else b""
            told.update(str(path.relative_to(root)).encode() + b"\0" + content + b"\0")
    return told.hexdigest()


def test_the_same_description_gives_the_same_tree(tmp_path: Path) -> None:
    assert digest(fixtures.build("two-sockets", tmp_path / "a" / "one")) == digest(fixtures.build("two-sockets", tmp_path / "b" / "two"))


def test_a_tree_that_exists_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "node").mkdir()
    with pytest.raises(ValueError, match="exists already"):
        paper.build({"cpus": CPUS}, tmp_path / "node")
    assert list((tmp_path / "node").iterdir()) == []


def test_a_description_that_is_refused_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="omit"):
        paper.build({"cpus": CPUS, "omit": ["/sys/nothing"]}, tmp_path / "node")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("description", "message"),
    [
        ([], "a mapping is wanted"),
        ({}, "cpus: missing"),
        ({"cpus": CPUS, "disks": 1}, "unknown key disks"),
        ({"cpus": {**CPUS, "socket": 1}}, "cpus: unknown key socket"),
        ({"cpus": {**CPUS, "sockets": 0}}, "cpus.sockets: a number of at least 1"),
        ({"cpus": {**CPUS, "threads": True}}, "cpus.threads"),
        ({"cpus": {**CPUS, "numbering": "random"}}, "cpus.numbering: 'random'"),
        ({"cpus": {**CPUS, "order": [0, 0]}}, "cpus.order: 2 different numbers"),
        ({"cpus": {**CPUS, "offline": "9"}}, "cpus.offline: 9 are no CPUs"),
        ({"cpus": {**CPUS, "offline": "0-1"}}, "no CPU is left"),
        ({"cpus": {**CPUS, "offline": "x"}}, "cpus.offline"),
        ({"cpus": {**CPUS, "smt": "maybe"}}, "cpus.smt"),
        ({"cpus": {"cores": [{"cpus": "0"}, {"cpus": "0"}]}}, "exactly one core"),
        ({"cpus": CPUS, "numa": {"zero": {}}}, "'zero' is no node id"),
        ({"cpus": CPUS, "numa": {"0": {"memory": "lots"}}}, "numa.0.memory"),
        ({"cpus": CPUS, "numa": {"0": {}, "1": {}}}, "1 nodes with CPUs are wanted by cpus, found 2"),
        ({"cpus": CPUS, "distances": [[10, 20]]}, "distances: 1 rows"),
        ({"cpus": CPUS, "pci": [{"host_bridge": "0000:00"}]}, "host_bridge"),
        ({"cpus": CPUS, "pci": [{"host_bridge": "pci0000:00", "children": [{"gpu": "nvidia-h100"}]}]}, "address None"),
        ({"cpus": CPUS, "pci": [{"host_bridge": "pci0000:00", "children": [{"gpu": "nvidia-h1", "address": "0000:00:01.0"}]}]}, "none of nvidia-a100"),
        ({"cpus": CPUS, "pci": [{"host_bridge": "pci0000:00", "children": [{"address": "0000:00:01.0"}]}]}, "exactly one of"),
        ({"cpus": CPUS, "pci": [{"host_bridge": "pci0000:00", "children": [{"nvme": "kioxia-cm7", "address": "0000:00:01.0"}] * 2}]}, "described twice"),
        ({"cpus": CPUS, "running": {"thp": "sometimes"}}, "running.thp"),
        ({"cpus": CPUS, "running": {"swap": 1}}, "running: unknown key swap"),
        ({"cpus": CPUS, "cgroup": "v3"}, "cgroup"),
        ({"cpus": CPUS, "iommu": "on"}, "iommu"),
        ({"cpus": CPUS, "files": {"etc/x": ""}}, "no absolute path"),
        ({"cpus": CPUS, "files": {"/../x": ""}}, "no absolute path"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_bad_descriptions(description: Any, message: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=message):
        paper.build(description, tmp_path / "node")
    assert not (tmp_path / "node").exists()


@pytest.mark.parametrize(("text", "message"), [("cpus: [", "not YAML"), ("- 1\n", "a mapping is wanted"), ("cpus: {sockets: 0}\n", "cpus.sockets")])
def test_files_that_are_no_description(text: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "node.yml"
    path.write_text(text)
    with pytest.raises(ValueError, match=message) as caught:
        paper.load(path)
    assert str(path) in str(caught.value)
    with pytest.raises(ValueError, match="No such file"):
        paper.load(tmp_path / "nothing.yml")


@pytest.mark.parametrize("name", [path.stem for path in sorted((fixtures.FOLDER.parents[2] / "inventories/demo/nodes").glob("*.yml"))])
def test_the_nodes_of_the_demo(name: str, tmp_path: Path) -> None:
    path = fixtures.FOLDER.parents[2] / f"inventories/demo/nodes/{name}.yml"
    paper.build(paper.load(path), tmp_path / "node")
    for file in ("proc/interrupts", "proc/softirqs", "proc/cmdline", "etc/os-release", "etc/rancher/rke2/config.yaml", "sys/fs/cgroup/cgroup.controllers"):
        assert (tmp_path / "node" / file).is_file()
