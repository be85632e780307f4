# Copyright (c) 2026 The inferops.locality authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What went wrong with host tuning in other tools, as cases: T-HOST of the reference's page on peers, its row numbers as names.

A row that another test has names it, and that the test is there is checked too; a row that is no case here says why.
"""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any, Callable

import pytest

from ansible_collections.inferops.locality.plugins.module_utils import drift, kernel_args, knobs, plan, state_knobs
from ansible_collections.inferops.locality.plugins.module_utils.sysroot import SysRoot
from ansible_collections.inferops.locality.plugins.plugin_utils import report
from ansible_collections.inferops.locality.tests.unit.strategies import PLATFORM, regular, topology

TOP = Path(__file__).resolve().parents[4]


def planned(policy: dict[str, Any]) -> dict[str, Any]:
    return plan.make_plan(topology(regular(cores=2)), PLATFORM, policy)


def in_sync(made: dict[str, Any]) -> dict[str, Any]:
    state: dict[str, Any] = {"running": {}, "configured": {}}
    for id, value in made["knobs"].items():
        for side in knobs.KNOBS[id].sides:
            state[side][id] = copy.deepcopy(value) if side == "running" else {"value": copy.deepcopy(value), "source": None}
    return state


def drifting(made: dict[str, Any], state: dict[str, Any]) -> list[dict[str, Any]]:
    return report.drifting(drift.compare(made, state))


def what_the_kernel_was_not_given_is_named(folder: Path) -> None:
    """The files have it, the boot loader's menu was not made anew: the running command line counts."""
    made = planned({"isolation": {"tickless": True}})
    state = in_sync(made)
    lost = [knob.id for knob in knobs.KNOBS.values() if knob.needs == "reboot" and made["knobs"].get(knob.id)]
    for id in lost:
        state["running"][id] = None
    entries = drifting(made, state)
    assert [entry["knob"] for entry in entries] == lost == ["kernel.isolcpus", "kernel.nohz_full", "kernel.irqaffinity"]
    assert {(entry["needs"], entry["reason"]) for entry in entries} == {("reboot", "running differs")}
    ours = kernel_args.parse(" ".join(made["kernel_args"])).args
    assert len(kernel_args.lacks(kernel_args.parse("ro quiet").args, ours)) == len(ours)


def one_copy_of_each_argument(folder: Path) -> None:
    ours = kernel_args.parse("isolcpus=managed_irq,2-7 irqaffinity=0-1").args
    once = kernel_args.merge(kernel_args.parse("ro isolcpus=managed_irq,4-7 irqaffinity=0 quiet isolcpus=3").args, ours)
    assert [arg.raw for arg in once] == ["ro", "quiet", "isolcpus=managed_irq,2-7", "irqaffinity=0-1"]
    assert [arg.raw for arg in kernel_args.merge(once, ours)] == [arg.raw for arg in once]


def huge_pages_alone(folder: Path) -> None:
    """The plan always divides the CPUs; a node need not be told of it."""
    made = planned({"isolation": {"managed_irqs": False, "system_slices": False}, "hugepages": {"2Mi": {"0": 8, "1": 8}}, "irq": {"devices": []}})
    assert not [item for item in made["findings"] if item["severity"] == "error"]
    assert made["knobs"]["kernel.hugepages"] == {"2Mi": {"0": 8, "1": 8}}
    assert made["knobs"]["kernel.isolcpus"] is None
    assert "hugepages=0:8,1:8" in made["kernel_args"]


def fewer_pages_than_asked_are_told_for_each_numa_node(folder: Path) -> None:
    made = planned({"hugepages": {"1Gi": {"0": 8, "1": 8}}})
    state = in_sync(made)
    state["running"]["kernel.hugepages"] = {"1Gi": {"0": 5, "1": 3}}
    (entry,) = drifting(made, state)
    line = report.drift_line(entry)
    assert (entry["knob"], entry["reason"]) == ("kernel.hugepages", "running differs: pages of 1Gi")
    assert "0: 5; 1: 3" in line and "0: 8; 1: 8" in line


def what_services_may_run_on_is_read_from_their_cgroups(folder: Path) -> None:
    """Their slices' files say housekeeping, and the kernel has no limit for one of them."""
    made = planned({})
    wanted = made["knobs"]["systemd.slices"]
    for unit in knobs.SLICES:
        cgroup = folder / "sys/fs/cgroup" / unit
        cgroup.mkdir(parents=True)
        (cgroup / "cpuset.cpus").write_text("\n" if unit == "user.slice" else f"{wanted[unit]}\n", encoding="utf-8")
    (folder / "sys/fs/cgroup/cgroup.controllers").write_text("cpuset\n", encoding="utf-8")
    found = state_knobs.Knobs()
    state_knobs.read_units(SysRoot(str(folder)), found, "agent")
    state = in_sync(made)
    state["running"]["systemd.slices"] = found.running["systemd.slices"]
    assert [(entry["knob"], entry["reason"]) for entry in drifting(made, state)] == [("systemd.slices", "running differs")]


CASES: dict[str, Callable[[Path], None]] = {
    "1": what_the_kernel_was_not_given_is_named,
    "3": one_copy_of_each_argument,
    "7": huge_pages_alone,
    "8": fewer_pages_than_asked_are_told_for_each_numa_node,
    "11": what_services_may_run_on_is_read_from_their_cgroups,
}

# Row: the files that have the case, each with a text of it.
ELSEWHERE: dict[str, list[tuple[str, str]]] = {
    # Nothing of ours lies in an initrd: the arguments are the boot loader's, the files are read by systemd from the root file system.
    "2": [
        ("tests/unit/plugins/module_utils/test_boot.py", "def test_removal_leaves_every_file_as_it_was"),
        ("tests/unit/roles/test_knobs_on_paper.py", "def test_what_the_plan_no_longer_has_loses_its_file"),
    ],
    "4": [("tests/unit/plugins/module_utils/test_boot.py", "def test_check_mode_says_the_same_and_does_nothing")],
    "5": [
        ("tests/unit/plugins/module_utils/test_boot.py", "def test_recorded_grubby_is_called_once_with_all_arguments"),
        ("tests/unit/plugins/module_utils/test_boot_trial.py", "def test_a_kernel_that_is_installed_between_is_tried_too"),
    ],
    # The module hands out reboot_required; the playbook reboots, or refuses before it writes.
    "6": [("plugins/modules/kernel_args.py", "reboot_required:"), ("tests/unit/playbooks/test_demo.py", "boot.reboot_not_allowed")],
    "9": [("tests/unit/plugins/module_utils/test_plan.py", "def test_hugepages_above_the_memory_of_a_numa_node_are_refused_per_node")],
    "10": [("tests/unit/plugins/module_utils/test_state_tasks.py", "def test_an_audit_warns_of_masks_that_pods_inherit")],
    # And on a real node: molecule's knobs and irq_affinity.
    "12": [("tests/unit/playbooks/test_demo.py", "def test_a_second_run_changes_nothing")],
    # And with a real GRUB: molecule's boot_fallback.
    "13": [("tests/unit/plugins/module_utils/test_boot_trial.py", "def test_a_node_that_does_not_come_back_boots_its_previous_arguments")],
    # And with a real driver: molecule's irq_affinity.
    "15": [("tests/unit/plugins/module_utils/test_irq_cases.py", "def new_interrupts_are_placed_and_a_second_run_is_right")],
}

NOT_HERE = {
    "14": "one governor for all CPUs: housekeeping CPUs take the interrupts of the pods' devices, and a slow one delays a fast one",
}


@pytest.mark.parametrize("row", CASES)
def test_row(row: str, tmp_path: Path) -> None:
    CASES[row](tmp_path)


@pytest.mark.parametrize("row", ELSEWHERE)
def test_row_that_another_test_has(row: str) -> None:
    assert [file for file, text in ELSEWHERE[row] if text not in (TOP / file).read_text(encoding="utf-8")] == []


def test_every_row_is_here() -> None:
    assert sorted([*CASES, *ELSEWHERE, *NOT_HERE], key=int) == [str(number) for number in range(1, 16)]
