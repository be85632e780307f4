# Copyright (c) 2026 The inferops.locality authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Before the kubelet's first start of a boot: what goes, and when nothing is touched."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest

from ansible_collections.inferops.locality.plugins.module_utils import kubelet_boot, kubelet_state, runtime_main

MIB = 2**20
FOLDER = "var/lib/kubelet"
CPU, MEMORY = f"{FOLDER}/cpu_manager_state", f"{FOLDER}/memory_manager_state"
SAVED = "var/lib/inferops-locality/saved"
STATIC = '{"policyName":"static","defaultCpuSet":"0-7","checksum":14413152}'
CONFIG = """kubelet-arg:
  - cpu-manager-policy=static
  - reserved-cpus=0-1
  - memory-manager-policy=Static
  - reserved-memory=0:memory=256Mi
  - system-reserved=memory=256Mi
"""


def memory(total: int) -> str:
    left = total - 256 * MIB
    table = {"total": total, "systemReserved": 256 * MIB, "allocatable": left, "reserved": 0, "free": left}
    nodes = {"0": {"numberOfAssignments": 0, "memoryMap": {"memory": table}, "cells": [0]}}
    checksum = kubelet_state.memory_checksum("v1", {"policyname": "Static", "machinestate": nodes})
    return json.dumps({"policyName": "Static", "machineState": nodes, "checksum": checksum})


@pytest.fixture
def node(tmp_path: Path) -> Path:
    """A node with 8 CPUs and 1 GiB that has just booted."""
    for name, text in {
        "sys/devices/system/cpu/online": "0-7\n", "sys/devices/system/node/node0/meminfo": "Node 0 MemTotal: 1048576 kB\n",
        "sys/fs/cgroup/cgroup.controllers": "cpuset\n", "proc/1/comm": "systemd\n", "etc/rancher/rke2/config.yaml": CONFIG, CPU: STATIC,
        MEMORY: memory(1024 * MIB),
    }.items():
        put(tmp_path, name, text)
    return tmp_path


def put(root: Path, name: str, text: str) -> None:
    (root / name).parent.mkdir(parents=True, exist_ok=True)
    (root / name).write_text(text)


def run(root: Path, *arguments: str) -> tuple[int, str]:
    out = io.StringIO()
    return runtime_main.main(["kubelet-state", *arguments, "--root", str(root)], "1.0.0+abc", out), out.getvalue()


def names(root: Path) -> list[str]:
    return sorted(path.name for path in (root / FOLDER).iterdir())


def test_files_that_fit_are_left_alone(node: Path) -> None:
    assert run(node) == (0, "the kubelet would start with its checkpoint files: nothing to do\n")
    assert names(node) == ["cpu_manager_state", "memory_manager_state"] and not (node / SAVED).exists()


def test_memory_that_moved_at_the_reboot(node: Path) -> None:
    drifted = memory(1024 * MIB - 4096)
    put(node, MEMORY, drifted)
    status, said = run(node, "--check")
    assert status == 1 and "/var/lib/kubelet/memory_manager_state would be removed" in said
    assert names(node) == ["cpu_manager_state", "memory_manager_state"] and not (node / kubelet_boot.MARK[1:]).exists()
    status, said = run(node, "--json")
    result = json.loads(said)
    assert (status, result["good"], result["changed"]) == (0, True, True)
    assert f"NUMA node 0 memory total {1024 * MIB - 4096} in it, {1024 * MIB} now" in result["lines"][0]
    assert names(node) == ["cpu_manager_state"] and [path.read_text() for path in (node / SAVED).iterdir()] == [drifted]


def test_only_the_first_start_of_a_boot_is_looked_at(node: Path) -> None:
    run(node)
    put(node, MEMORY, "{")
    assert run(node) == (0, "this boot was looked at already: nothing to do\n")
    (node / kubelet_boot.MARK[1:]).unlink()
    assert run(node)[0] == 0 and names(node) == ["cpu_manager_state"]


@pytest.mark.parametrize("name, text, said", [
    ("proc/712/comm", "kubelet\n", "the kubelet runs (process 712): nothing to do"),
    (f"sys/fs/cgroup/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod{'a' * 32}.slice/cri-containerd-{'b' * 64}.scope/cgroup.events",
     "populated 1\n", "this is no first start, 1 containers are alive"),
])
def test_what_runs_forbids_it(node: Path, name: str, text: str, said: str) -> None:
    put(node, CPU, "{")
    put(node, name, text)
    status, lines = run(node)
    assert status == 0 and lines.startswith(said) and names(node) == ["cpu_manager_state", "memory_manager_state"]
    assert not (node / kubelet_boot.MARK[1:]).exists()


def test_without_cgroup_v2_nothing_is_touched(node: Path) -> None:
    put(node, CPU, "{")
    (node / "sys/fs/cgroup/cgroup.controllers").unlink()
    assert run(node)[0] == 0 and (node / CPU).read_text() == "{"


def test_an_unknown_form_is_left_alone(node: Path) -> None:
    put(node, CPU, '{"policyName":"none","shiny":1,"checksum":0}')
    status, said = run(node)
    assert status == 0 and "cannot be told" in said and "cpu_manager_state" in names(node)


def test_a_configuration_that_no_kubelet_starts_with_is_told(node: Path) -> None:
    put(node, "etc/rancher/rke2/config.yaml", CONFIG.replace("0-1", "0-63"))
    put(node, MEMORY, "")
    status, said = run(node)
    assert status == 1 and "reserved-cpus: CPUs 8-63 are not online" in said and names(node) == ["cpu_manager_state"]


def test_a_configuration_that_is_not_known_takes_no_good_file_away(node: Path) -> None:
    put(node, "etc/rancher/rke2/config.yaml", "kubelet-arg: [\n")
    put(node, MEMORY, memory(MIB * 512))
    status, said = run(node)
    assert status == 0 and "only the files themselves are judged" in said and "memory_manager_state" in names(node)


def test_what_cannot_be_saved_is_not_removed(node: Path) -> None:
    put(node, MEMORY, "{")
    put(node, SAVED, "a file where the folder is wanted")
    status, said = run(node)
    assert status == 1 and "cannot be written" in said and (node / MEMORY).read_text() == "{" and not (node / kubelet_boot.MARK[1:]).exists()
