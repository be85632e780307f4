# Copyright (c) 2026 The inferops.locality authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What went wrong with interrupts in other tools, as cases: T-IRQ of the reference's page on peers, its row numbers as names.

A row that another part of this collection answers says where; that the test it names is there is checked too.
"""

from __future__ import annotations

import errno
import re
from pathlib import Path
from typing import Any, Callable

import pytest
import yaml

from ansible_collections.inferops.locality.plugins.module_utils import irq, irq_targets
from ansible_collections.inferops.locality.plugins.module_utils.cpulist import from_list
from ansible_collections.inferops.locality.plugins.module_utils.sysroot import SysRoot
from ansible_collections.inferops.locality.plugins.modules import irq_affinity
from ansible_collections.inferops.locality.plugins.plugin_utils import paper
from ansible_collections.inferops.locality.tests.unit.paper_kernel import Kernel

TOP = Path(__file__).resolve().parents[4]
NIC, NIC10, VIRTIO0, VIRTIO1, NVME = "0000:11:00.0", "0000:12:00.0", "0000:13:00.0", "0000:14:00.0", "0000:15:00.0"
PF, VF, LOST = "0000:16:00.0", "0000:16:00.1", "0000:01:00.0"

MACHINE: dict[str, Any] = {
    "cpus": {"sockets": 2, "cores_per_numa": 4, "threads": 2},
    "pci": [
        {"host_bridge": "pci0000:10", "numa": 1, "children": [
            {"nic": "mlx5", "address": NIC, "interface": "eth1", "queues": 4, "irqs": 5, "msi": {"cpus": "0-15", "effective": "9"}},
            {"nic": "mlx5", "address": NIC10, "interface": "eth10", "queues": 4, "irqs": 5, "msi": {"cpus": "0-15", "effective": "9"}},
            {"nic": "virtio", "address": VIRTIO0, "interface": "ens3", "queues": 2, "irqs": 5},
            {"nic": "virtio", "address": VIRTIO1, "interface": "ens4", "queues": 2, "irqs": 5},
            {"nvme": "samsung-pm9a3", "address": NVME, "name": "nvme0", "irqs": 3},
            {"nic": "mlx5", "address": PF, "interface": "eth6", "queues": 2, "irqs": 3},
            {"nic": "mlx5", "address": VF, "interface": "eth7", "queues": 2, "irqs": 3, "physfn": PF},
        ]},
        {"host_bridge": "pci0000:00", "numa": None, "children": [{"nic": "mlx5", "address": LOST, "interface": "eth8", "queues": 2, "irqs": 3}]},
    ],
}


class Case:
    """A paper node with a kernel on paper."""

    def __init__(self, root: Path) -> None:
        self.root, self.kernel = root, Kernel(root)

    def node(self) -> SysRoot:
        return SysRoot(str(self.root))

    def irqs(self, address: str) -> list[dict[str, Any]]:
        return irq.read_irqs(self.node(), [{"address": address}])

    def place(self, address: str, cpus: str, strategy: str = "spread") -> list[dict[str, Any]]:
        entries = self.irqs(address)
        return irq.apply(self.node(), irq.place(entries, from_list(cpus), strategy), entries, write=self.kernel.write, pause=lambda seconds: None)

    def names(self, address: str) -> set[str]:
        return {path.name for entry in self.irqs(address) for path in (self.root / f"proc/irq/{entry['irq']}").iterdir() if path.is_dir()}


@pytest.fixture
def case(tmp_path: Path) -> Case:
    paper.build(MACHINE, tmp_path / "node")
    return Case(tmp_path / "node")


def managed_is_no_failure(case: Case) -> None:
    numbers = [entry["irq"] for entry in case.irqs(NVME) if entry["queue"] is not None]
    case.kernel.errors = {number: [errno.EPERM] for number in numbers}
    results = case.place(NVME, "0")
    assert {entry["verdict"] for entry in results if entry["irq"] in numbers} == {"managed"}
    assert all(entry["verdict"] in irq.IN_SYNC for entry in results)
    # what to do about it
    notes = next(note for note in yaml.safe_load(irq_affinity.DOCUMENTATION)["notes"] if "manages" in note)
    assert "isolcpus=managed_irq" in notes and "fewer queues" in notes


def both_errors_mean_managed_and_the_rest_goes_on(case: Case) -> None:
    first, second, *rest = (entry["irq"] for entry in case.irqs(NIC))
    case.kernel.errors = {first: [errno.EIO], second: [errno.EPERM]}
    results = {entry["irq"]: entry for entry in case.place(NIC, "0")}
    assert [(results[number]["verdict"], results[number]["errno"]) for number in (first, second)] == [("managed", "EIO"), ("managed", "EPERM")]
    assert {results[number]["verdict"] for number in rest} == {"moved"}


def used_up_vectors_are_not_for_ever(case: Case) -> None:
    victim = case.irqs(NIC)[0]["irq"]
    case.kernel.errors = {victim: [errno.ENOSPC]}
    results = case.place(NIC, "0")
    assert [entry["verdict"] for entry in results] == ["no_vectors", "moved", "moved", "moved", "moved"]
    assert irq.without_vectors(results) == "have vectors for 4 of its 5 interrupts: give it fewer queues or more CPUs"
    assert case.place(NIC, "0")[0]["verdict"] == "moved"
    assert irq.without_vectors(case.place(NIC, "0")) is None


def a_write_that_moves_nothing_is_seen(case: Case) -> None:
    case.kernel.moves = False
    fired = {entry["irq"] for entry in case.irqs(NIC)}
    counts = case.root / "proc/interrupts"
    text, real = counts.read_text(), case.kernel.write

    def write(path: str, value: str) -> None:
        real(path, value)
        counts.write_text("\n".join(
            f"{line.split(':')[0]}: " + "99999 " * 16 + " PCI-MSI 1-edge x" if line.split(":")[0].strip() in {str(number) for number in fired} else line
            for line in text.splitlines()))
    case.kernel.write = write  # type: ignore[assignment, method-assign]
    results = case.place(NIC, "2")
    assert {(entry["asked"], entry["effective"], entry["verdict"]) for entry in results} == {("2", "9", "differs")}


def only_the_devices_own(case: Case) -> None:
    assert {name.split("@pci:")[1] for name in case.names(NIC)} == {NIC}
    found = [{entry["irq"] for entry in case.irqs(address)} for address in (NIC, NIC10, VIRTIO0, VIRTIO1)]
    assert [len(numbers) for numbers in found] == [5, 5, 5, 5]
    assert len(set().union(*found)) == 20
    assert irq_targets.resolve(case.node(), [{"interface": "eth1"}])[0].address == NIC


def names_need_not_start_with_the_interfaces(case: Case) -> None:
    assert not any(name.startswith("ens3") for name in case.names(VIRTIO0))
    assert [entry["queue"] for entry in case.irqs(VIRTIO0)] == [0, 0, 1, 1, None]


def gaps_and_99_to_100(case: Case) -> None:
    entries = case.irqs(NIC)
    folder = next(path for path in case.root.glob("sys/devices/**/msi_irqs") if path.parent.name == NIC)
    for entry, number in zip(sorted(entries, key=lambda entry: entry["irq"]), (98, 99, 100, 107, 1000)):
        (folder / str(entry["irq"])).rename(folder / str(number))
        (case.root / f"proc/irq/{entry['irq']}").rename(case.root / f"proc/irq/{number}")
    assert irq.device_irqs(case.node(), NIC) == [98, 99, 100, 107, 1000]
    assert [(entry["irq"], entry["queue"]) for entry in case.irqs(NIC)] == [(99, 0), (100, 1), (107, 2), (1000, 3), (98, None)]


def each_function_its_own(case: Case) -> None:
    numbers = {address: {entry["irq"] for entry in case.irqs(address)} for address in (PF, VF)}
    assert len(numbers[PF]) == len(numbers[VF]) == 3 and not numbers[PF] & numbers[VF]
    named = [target.address for target in irq_targets.resolve(case.node(), [{"class": "nic"}])]
    assert PF in named and VF not in named, "virtual functions belong to pods"
    assert [target.address for target in irq_targets.resolve(case.node(), [{"address": VF}])] == [VF]


def an_unknown_numa_node_is_not_node_0(case: Case) -> None:
    node = case.node()
    both = from_list("0,4")
    assert irq.numa_node(node, LOST) is None
    assert irq.read_nearest(node, LOST, both) == both
    assert irq.read_nearest(node, NIC, both) == {4}
    # several NUMA nodes in one package: the nearest that has any of the CPUs
    members = {0: from_list("0-3"), 1: from_list("4-7"), 2: from_list("8-11"), 3: from_list("12-15")}
    assert irq.nearest(from_list("0,8"), 3, members, {0: 32, 1: 32, 2: 12, 3: 10}) == {8}
    assert irq.nearest(from_list("0,8"), 3, members, {}) == {0, 8}


def new_interrupts_are_placed_and_a_second_run_is_right(case: Case) -> None:
    assert {entry["verdict"] for entry in case.place(NIC, "2,3")} == {"moved"}
    folder = next(path for path in case.root.glob("sys/devices/**/msi_irqs") if path.parent.name == NIC)
    number = case.irqs(NIC)[0]["irq"]
    (folder / str(number)).rename(folder / "900")
    (case.root / f"proc/irq/{number}").rename(case.root / "proc/irq/900")
    for name in ("smp_affinity_list", "effective_affinity_list"):
        (case.root / f"proc/irq/900/{name}").chmod(0o644)
        (case.root / f"proc/irq/900/{name}").write_text("9\n")
    assert [(entry["irq"], entry["verdict"]) for entry in case.place(NIC, "2,3") if entry["verdict"] != "right"] == [(900, "moved")]
    assert {entry["verdict"] for entry in case.place(NIC, "2,3")} == {"right"}


def skew_is_told(case: Case) -> None:
    results = [{"queue": queue, "effective": "0"} for queue in range(32)]
    assert irq.skew(results, from_list("0-15")) == "32 of 32 queues are on CPU 0, of 16 CPUs that they may use"
    assert irq.skew([{"queue": queue, "effective": str(queue % 16)} for queue in range(32)], from_list("0-15")) is None
    assert irq.skew(results, from_list("0")) is None, "one CPU is all there is"


def counted_for_each_numa_node(case: Case) -> None:
    node, cpus = case.node(), from_list("0-1,4-7")
    assert [len(irq.read_nearest(node, address, cpus)) for address in (NIC, LOST)] == [4, 6]


def a_name_that_stands_for_nothing_changes_nothing(case: Case) -> None:
    with pytest.raises(irq_targets.TargetError, match="there is no interface all, found ens3, ens4, eth1"):
        irq_targets.resolve(case.node(), [{"interface": "eth1"}, {"interface": "all"}])


def failing_half_way_tells_what_moved(case: Case) -> None:
    numbers = [entry["irq"] for entry in case.irqs(NIC)]
    case.kernel.errors = {numbers[2]: [errno.EINVAL]}
    assert [entry["verdict"] for entry in case.place(NIC, "0")] == ["moved", "moved", "refused", "moved", "moved"]


CASES: dict[str, Callable[[Case], None]] = {
    "1": managed_is_no_failure,
    "2": both_errors_mean_managed_and_the_rest_goes_on,
    "3": used_up_vectors_are_not_for_ever,
    "4": a_write_that_moves_nothing_is_seen,
    "5": only_the_devices_own,
    "6": names_need_not_start_with_the_interfaces,
    "7": gaps_and_99_to_100,
    "8": each_function_its_own,
    "9": an_unknown_numa_node_is_not_node_0,
    "10": new_interrupts_are_placed_and_a_second_run_is_right,
    "14": skew_is_told,
    "15": counted_for_each_numa_node,
    "16": a_name_that_stands_for_nothing_changes_nothing,
    "17": failing_half_way_tells_what_moved,
}

# irqbalance is the host layer's: its ban list in the right file, as its version reads it (11), the warning about its own detection
# (12), drift (13: an interrupt that was moved again differs from the plan). Links, channels and drivers that lose interrupts (10) are
# on paper above, and on a real kernel in the scenario. That irqbalance is right after its restart (11) needs its daemon: the lab's
# scenario of the host layer.
ELSEWHERE = {
    "10": [("molecule/irq_affinity/side_effect.yml", "link flap, more queues, fewer queues"), ("molecule/irq_affinity/side_effect.yml", "what: driver reload")],
    "11": [("tests/unit/plugins/module_utils/test_state.py", "IRQBALANCE_BANNED_CPULIST"), ("tests/unit/knob_changes.py", "CPULIST=3")],
    "12": [("tests/unit/plugins/module_utils/test_plan.py", "def test_a_ban_list_is_written_and_noted")],
    "13": [("tests/unit/plugins/module_utils/test_state.py", '"one elsewhere"'), ("tests/unit/plugins/module_utils/test_drift.py", '"irq.affinity"')],
}


@pytest.mark.parametrize("row", CASES)
def test_row(row: str, case: Case) -> None:
    CASES[row](case)


@pytest.mark.parametrize("row", ELSEWHERE)
def test_row_that_another_test_has(row: str) -> None:
    for file, text in ELSEWHERE[row]:
        assert text in (TOP / file).read_text(encoding="utf-8")


def test_every_row_is_here() -> None:
    assert sorted({*CASES, *ELSEWHERE}, key=int) == [str(number) for number in range(1, 18)]


def test_the_reference_has_no_other_rows(reference: Path) -> None:
    _before, _title, section = (reference / "peers.md").read_text(encoding="utf-8").partition("(T-IRQ)")
    rows = re.findall(r"^\| (\d+) \|", section.partition("\n### ")[0], re.MULTILINE)
    assert rows == sorted({*CASES, *ELSEWHERE}, key=int)
