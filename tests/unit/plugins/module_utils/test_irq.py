# Copyright (c) 2026 The inferops.locality authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Interrupts on paper: reading them, telling queues apart, placing them, and judging what a write did."""

from __future__ import annotations

import errno
import json
import shutil
from pathlib import Path
from typing import Any, Dict, Optional

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.inferops.locality.plugins.module_utils import irq
from ansible_collections.inferops.locality.plugins.module_utils.cpulist import from_list, from_mask, to_mask
from ansible_collections.inferops.locality.plugins.module_utils.sysroot import SysRoot
from ansible_collections.inferops.locality.plugins.plugin_utils import paper
from ansible_collections.inferops.locality.tests.unit.paper_kernel import Kernel

MACHINE: Dict[str, Any] = {
    "cpus": {"sockets": 1, "cores_per_numa": 4, "threads": 2},
    "pci": [{"host_bridge": "pci0000:00", "numa": 0, "children": [
        {"nic": "mlx5", "address": "0000:00:01.0", "interface": "eth0", "queues": 4, "irqs": 5},
        {"nvme": "samsung-pm9a3", "address": "0000:00:02.0", "name": "nvme0", "irqs": 3},
        {"nic": "virtio", "address": "0000:00:03.0", "interface": "eth1", "queues": 2, "irqs": 5},
    ]}],
    "running": {"softirqs": {"net_rx": {"0": 100, "3": 7}}, "default_affinity": "0,4"},
}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    paper.build(MACHINE, tmp_path / "node")
    return tmp_path / "node"


@pytest.fixture
def machine(root: Path) -> SysRoot:
    return SysRoot(str(root))


def read(sysroot: SysRoot, *addresses: str) -> list:
    return irq.read_irqs(sysroot, [{"address": address} for address in addresses])


# -- reading

ROWS = {
    "modern": (
        " 99:        324          0  IR-PCI-MSIX-0000:01:00.0    1-edge      mlx5_comp0@pci:0000:01:00.0",
        99, [324, 0], ["mlx5_comp0@pci:0000:01:00.0"],
    ),
    "old": (" 32:          0          5   PCI-MSI-edge      eth0-TxRx-1", 32, [0, 5], ["eth0-TxRx-1"]),
    "several handlers": (" 11:  1  2   IO-APIC  11-fasteoi   uhci_hcd:usb1, ens3", 11, [1, 2], ["uhci_hcd:usb1", "ens3"]),
    "handler of two words": (" 26:  0  0   IR-PCI-MSI-0000:00:01.0   0-edge      PCIe PME, aerdrv", 26, [0, 0], ["PCIe PME", "aerdrv"]),
    "no handler": ("  7:         17          0  IR-IO-APIC-edge    ", 7, [17, 0], []),
    "no handler, modern": ("  7:         17          0  IR-IO-APIC   7-edge    ", 7, [17, 0], []),
    "arm64": (" 11:        261        256 GIC-0  27 Level     arch_timer", 11, [261, 256], ["arch_timer"]),
    "arm64 chip with a number first": (" 22:  0  3 9030000.pl061   3 Edge      GPIO Key Poweroff", 22, [0, 3], ["GPIO Key Poweroff"]),
    "handler that ends like a trigger": (" 38:  1  1  IR-PCI-MSIX-0000:23:00.0    1-edge      megasas0-msix1", 38, [1, 1], ["megasas0-msix1"]),
    "named row": ("LOC:       2937   55   Local timer interrupts", None, [2937, 55], []),
    "s390": ("EXT:      31903      57022", None, [31903, 57022], []),
}


@pytest.mark.parametrize("row, number, counts, names", ROWS.values(), ids=ROWS)
@pytest.mark.parametrize("header", ["           CPU0       CPU1\n", ""])
def test_row_of_proc_interrupts(header: str, row: str, number: Optional[int], counts: list, names: list) -> None:
    parsed = irq.parse_interrupts(header + row)[0]
    assert (parsed.irq, list(parsed.counts.values()), list(parsed.names)) == (number, counts, names)


def test_columns_are_the_online_cpus() -> None:
    parsed = irq.parse_interrupts("     CPU0  CPU2  CPU3\n 24: 1 2 3  IR-PCI-MSI 1-edge  eth0\nErr:  9\n")
    assert parsed[0].counts == {0: 1, 2: 2, 3: 3}
    assert (parsed[1].label, parsed[1].counts) == ("Err", {-1: 9})


def test_only_wanted_rows_are_read() -> None:
    assert [row.irq for row in irq.parse_interrupts(" CPU0\n 1: 5 x  a\n 2: 6 x  b\nNMI: 0\n", {2})] == [2]


@pytest.mark.parametrize("odd", ["\u00b2", "9" * 5000, "\u0663"])
def test_digits_that_are_no_number(odd: str) -> None:
    assert irq.parse_softirqs(f"CPU0 CPU{odd}\nNET_RX: {odd} 1\nNET_TX: 1 2\n")["NET_TX"][0] == 1
    assert [row.irq for row in irq.parse_interrupts(f" CPU0\n {odd}: 1 chip x\n 5: {odd} chip 1-edge eth0\n")] == [None, 5]


def test_garbage_is_no_interrupt() -> None:
    assert irq.parse_interrupts("\x00\n:::\nno colon\n: 1 2\n") == []


def test_softirqs_of_possible_cpus(machine: SysRoot) -> None:
    read_back = irq.read_softirqs(machine)
    assert read_back["net_rx"] == {str(cpu): {0: 100, 3: 7}.get(cpu, 0) for cpu in range(8)}
    assert set(read_back["net_tx"].values()) == {0}


def test_no_softirqs_no_counts(tmp_path: Path) -> None:
    assert irq.read_softirqs(SysRoot(str(tmp_path))) == {"net_rx": {}, "net_tx": {}}


def test_counters_wrap_at_32_bits() -> None:
    before = {"0": 4294967290, "1": 5, "2": 1}
    assert irq.softirq_delta(before, {"0": 10, "1": 5, "3": 9}) == {"0": 16, "1": 0}


# -- names

QUEUES = {
    "mlx5": (["mlx5_async0@pci:0000:18:00.0", "mlx5_comp0@pci:0000:18:00.0", "mlx5_comp1@pci:0000:18:00.0"], [None, 0, 1]),
    "mlx5 with one vector": (["mlx5_combined0@pci:0000:18:00.0"], [0]),
    "old mlx5": (["mlx5_pages_eq@pci:0000:01:00.0", "mlx5_cmd_eq@pci:0000:01:00.0", "mlx5_async_eq@pci:0000:01:00.0", "mlx5_comp3@pci:0000:01:00.0"],
                 [None, None, None, 3]),
    "mlx4": (["mlx4-async@pci:0000:13:00.0", "mlx4-1@0000:13:00.0"], [None, 1]),
    "ice": (["ice-0000:18:00.0:misc", "ice-eth0-TxRx-0", "ice-eth0:ctrl"], [None, 0, None]),
    "i40e": (["i40e-0000:c3:00.2:misc", "i40e-enp195s0f2-TxRx-63", "i40e-0000:c3:00.2:fdir-TxRx-0"], [None, 63, None]),
    "iavf": (["iavf-0000:3b:0b.0:mbx", "iavf-ens1f1v3-TxRx-3"], [None, 3]),
    "ena": (["ena-mgmnt@pci:0000:00:05.0", "eth0-Tx-Rx-1"], [None, 1]),
    "bnxt": (["ens1f0np0-TxRx-0", "ens1f0np0-TxRx-11"], [0, 11]),
    "igb": (["eth3", "eth3-TxRx-0"], [None, 0]),
    "one vector named like the interface": (["enp0s25"], [0]),
    "virtio": (["virtio0-config", "virtio0-input.0", "virtio0-output.0", "virtio0-control"], [None, 0, 0, None]),
    "qlcnic": (["eth0-rx-0", "eth0-tx-0-rx-3"], [0, 3]),
    "nvme": (["nvme0q0", "nvme0q1", "nvme0q12"], [None, 1, 12]),
    "unknown driver": (["foo-event", "foo-q3"], [None, 3]),
    "interface whose name looks like a housekeeping word": (["link0-TxRx-2", "x"], [2, None]),
}


@pytest.mark.parametrize("names, wanted", QUEUES.values(), ids=QUEUES)
def test_queue_by_name(names: list, wanted: list) -> None:
    assert irq.queue_numbers({index: [name] for index, name in enumerate(names)}) == dict(enumerate(wanted))


def test_vector_without_handler_is_no_queue() -> None:
    assert irq.queue_numbers({1: [], 2: ["eth0-TxRx-0"]}) == {1: None, 2: 0}


def test_interrupts_of_a_device_in_queue_order(machine: SysRoot) -> None:
    entries = read(machine, "0000:00:01.0", "0000:00:03.0")
    assert [(entry["device"][-4:], entry["irq"], entry["queue"]) for entry in entries] == [
        ("01.0", 65, 0), ("01.0", 66, 1), ("01.0", 67, 2), ("01.0", 68, 3), ("01.0", 64, None),
        ("03.0", 73, 0), ("03.0", 74, 0), ("03.0", 75, 1), ("03.0", 76, 1), ("03.0", 72, None),
    ]
    assert entries[0] == {"irq": 65, "device": "0000:00:01.0", "queue": 0, "asked": "1", "effective": "1", "affinity_hint": None, "managed": False}
    assert machine.problems == []


def test_numbers_sort_as_numbers(tmp_path: Path) -> None:
    paper.build({"cpus": MACHINE["cpus"], "pci": [{"host_bridge": "pci0000:00", "children": [
        {"nic": "mlx5", "address": "0000:00:01.0", "interface": "eth0", "queues": 12, "irqs": 13}]}]}, tmp_path / "node")
    assert [entry["queue"] for entry in read(SysRoot(str(tmp_path / "node")), "0000:00:01.0")] == [*range(12), None]


@pytest.mark.parametrize("kernel, device, known, shown", [
    # From 6.12 on the mode of the mask tells, of every interrupt.
    ("6.12.57+deb13-amd64", "0000:00:02.0", [], [True, True, False]),
    ("6.12.57+deb13-amd64", "0000:00:01.0", [], [False] * 5),
    # An older one that shows it all the same.
    ("5.14.0-570.el9", "0000:00:02.0", [], [True, True, False]),
    # Of others only those are known that refused a write in this boot.
    ("6.1.0-40-amd64", "0000:00:01.0", [], [None] * 5),
    ("6.1.0-40-amd64", "0000:00:01.0", [66], [None, True, None, None, None]),
    (None, "0000:00:01.0", [], [None] * 5),
])
def test_interrupts_the_kernel_manages(machine: SysRoot, root: Path, kernel: Optional[str], device: str, known: list, shown: list) -> None:
    release = root / "proc/sys/kernel/osrelease"
    release.unlink(missing_ok=True)
    if kernel is not None:
        release.write_text(kernel + "\n")
    irq.learn(machine, [{"irq": number, "errno": "EIO", "verdict": "managed"} for number in known])
    assert [entry["managed"] for entry in read(SysRoot(str(root)), device)] == shown


def test_device_without_msi_has_none(machine: SysRoot) -> None:
    assert read(machine, "0000:7f:00.0") == []


def test_interface_names_its_pci_device(machine: SysRoot) -> None:
    assert irq.pci_address(machine, "eth0") == "0000:00:01.0"
    assert irq.pci_address(machine, "eth1") == "0000:00:03.0"
    assert irq.pci_address(machine, "lo") is None
    assert irq.pci_address(machine, "absent") is None
    assert (irq.interfaces(machine, "0000:00:01.0"), irq.interfaces(machine, "0000:00:03.0")) == (["eth0"], ["eth1"])


def test_cores_of_cpus(machine: SysRoot) -> None:
    assert irq.read_cores(machine, [0, 4, 1]) == [frozenset((0, 4)), frozenset((1, 5))]
    assert irq.read_cores(machine, [99]) == [frozenset((99,))]
    assert irq.read_default(machine) == frozenset((0, 4))


# -- placing

def entries(*queues: Optional[int]) -> list:
    return [{"irq": 100 + index, "queue": queue} for index, queue in enumerate(queues)]


CORES = [frozenset((0, 8)), frozenset((1, 9)), frozenset((2, 10))]

PLACES = {
    "whole cores first": (entries(0, 1, 2, 3), "0-1,8-9", "spread", [0, 1, 8, 9]),
    "round and round": (entries(0, 1, 2), "0-1", "spread", [0, 1, 0]),
    "numeric order of queues": (entries(10, 2, 1), "0-2", "spread", [2, 1, 0]),
    "vectors without data come last": (entries(None, 0, 1), "0-2", "spread", [2, 0, 1]),
    "receive and transmit of a queue together": (entries(0, 0, 1, 1), "0-2", "spread", [0, 0, 1, 1]),
    "part of a core": (entries(0, 1), "8,1", "spread", [1, 8]),
    "CPU of no known core": (entries(0, 1, 2), "0,8,20", "spread", [0, 20, 8]),
}


@pytest.mark.parametrize("irqs, cpus, strategy, wanted", PLACES.values(), ids=PLACES)
def test_place(irqs: list, cpus: str, strategy: str, wanted: list) -> None:
    assert irq.place(irqs, from_list(cpus), strategy, CORES) == {100 + index: frozenset((cpu,)) for index, cpu in enumerate(wanted)}


def test_mask_gives_all_cpus_to_each() -> None:
    assert irq.place(entries(0, None), from_list("0-1"), "mask", CORES) == {100: from_list("0-1"), 101: from_list("0-1")}


@pytest.mark.parametrize("cpus, strategy, reason", [("", "spread", "no CPUs"), ("0", "scatter", "'scatter' is none of")])
def test_place_refuses(cpus: str, strategy: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        irq.place(entries(0), from_list(cpus), strategy)


@given(st.sets(st.integers(0, 40), min_size=1), st.integers(1, 60), st.integers(1, 4))
def test_spread_is_even_and_stays_on_its_cpus(cpus: set, count: int, threads: int) -> None:
    cores = [frozenset(range(first, first + threads)) for first in range(0, 44, threads)]
    placed = irq.place(entries(*range(count)), frozenset(cpus), "spread", cores)
    load = {cpu: sum(where == {cpu} for where in placed.values()) for cpu in cpus}
    assert sum(load.values()) == count and max(load.values()) - min(load.values()) <= 1
    if count <= len([core for core in cores if core & cpus]):
        assert len({next(core for core in cores if where <= core) for where in placed.values()}) == count


# -- judging

VERDICTS = {
    "right": ("4", "4", "4", None, None, False, "right"),
    "right after a write": ("4", "4", "4", None, None, True, "moved"),
    "effective within a mask": ("0-1", "0-1", "1", None, None, False, "right"),
    "kernel without effective_affinity": ("4", "4", None, None, None, False, "right"),
    "not fired since": ("4", "4", "9", None, False, True, "pending"),
    "unknown whether it fired": ("4", "4", "9", None, None, False, "pending"),
    "fired and still elsewhere": ("4", "4", "9", None, True, True, "differs"),
    "never started": ("4", "4", "", None, True, True, "pending"),
    "asked elsewhere": ("4", "5", "4", None, None, False, "differs"),
    "asked for more": ("4", "4-5", "4", None, None, False, "differs"),
    "no such file": ("4", None, None, None, None, False, "differs"),
    "managed, new kernels": ("4", "9", "9", errno.EPERM, None, False, "managed"),
    "managed, old kernels": ("4", "9", "9", errno.EIO, None, False, "managed"),
    "vectors used up": ("4", "9", "9", errno.ENOSPC, None, False, "no_vectors"),
    "offline CPU": ("4", "9", "9", errno.EINVAL, None, False, "refused"),
    "busy": ("4", "9", "9", errno.EBUSY, None, False, "refused"),
}


@pytest.mark.parametrize("wanted, asked, effective, code, fired, wrote, expected", VERDICTS.values(), ids=VERDICTS)
def test_verdict(wanted: str, asked: Optional[str], effective: Optional[str], code: Optional[int], fired: Optional[bool], wrote: bool, expected: str) -> None:
    def cpus(text: Optional[str]) -> Any:
        return None if text is None else from_list(text)
    assert irq.verdict(cpus(wanted), cpus(asked), cpus(effective), code, fired, wrote) == expected
    assert expected in irq.VERDICTS


# -- writing, with a kernel on paper

def applied(root: Path, kernel: Kernel, cpus: str, strategy: str = "spread", check: bool = False, pauses: Optional[list] = None) -> list:
    sysroot = SysRoot(str(root))
    present = read(sysroot, "0000:00:01.0")
    plan = irq.place(present, from_list(cpus), strategy, irq.read_cores(sysroot, from_list(cpus)))
    return irq.apply(sysroot, plan, present, check, kernel.write, (pauses if pauses is not None else []).append)


def test_apply_moves_what_is_wrong_and_leaves_the_rest(machine: SysRoot, root: Path) -> None:
    kernel = Kernel(root)
    first = applied(root, kernel, "1,5")
    assert [(entry["irq"], entry["wanted"], entry["effective"], entry["verdict"]) for entry in first] == [
        (65, "1", "1", "right"), (66, "5", "5", "moved"), (67, "1", "1", "moved"), (68, "5", "5", "moved"), (64, "1", "1", "moved")]
    assert [path.split("/")[3] for path, dummy in kernel.writes] == ["66", "67", "68", "64"]
    kernel.writes.clear()
    assert {entry["verdict"] for entry in applied(root, kernel, "1,5")} == {"right"}
    assert kernel.writes == []


def test_check_writes_nothing(machine: SysRoot, root: Path) -> None:
    kernel = Kernel(root)
    assert [entry["verdict"] for entry in applied(root, kernel, "1,5", check=True)] == ["right", "differs", "differs", "differs", "differs"]
    assert kernel.writes == []


def test_idle_queue_is_pending(machine: SysRoot, root: Path) -> None:
    assert [entry["verdict"] for entry in applied(root, Kernel(root, moves=False), "7")][:2] == ["pending", "pending"]


def test_refusals_have_their_names(machine: SysRoot, root: Path) -> None:
    kernel = Kernel(root, errors={65: [errno.EPERM], 66: [errno.EIO], 67: [errno.ENOSPC], 68: [errno.EINVAL]})
    assert [(entry["verdict"], entry["errno"]) for entry in applied(root, kernel, "7")] == [
        ("managed", "EPERM"), ("managed", "EIO"), ("no_vectors", "ENOSPC"), ("refused", "EINVAL"), ("moved", None)]


def test_busy_is_tried_again_a_few_times(machine: SysRoot, root: Path) -> None:
    pauses: list = []
    kernel = Kernel(root, errors={65: [errno.EBUSY, errno.EBUSY], 66: [errno.EBUSY] * 9})
    result = applied(root, kernel, "7", pauses=pauses)
    assert [(entry["verdict"], entry["errno"]) for entry in result][:2] == [("moved", None), ("refused", "EBUSY")]
    assert len(pauses) == 2 + 5


def test_interrupt_that_vanishes_is_refused(machine: SysRoot, root: Path) -> None:
    def gone(path: str, text: str) -> None:
        raise FileNotFoundError(errno.ENOENT, "gone", path)
    present = read(machine, "0000:00:01.0")
    result = irq.apply(machine, {65: frozenset((7,))}, present, write=gone)
    assert [(entry["verdict"], entry["errno"]) for entry in result] == [("refused", "ENOENT")]


def test_vector_that_nobody_asked_for_is_pending(machine: SysRoot, root: Path) -> None:
    """An igb that is down has vectors in msi_irqs and none of them in /proc/irq."""
    for number in range(64, 69):
        shutil.rmtree(root / f"proc/irq/{number}")
    kernel = Kernel(root)
    for check in (True, False):
        assert {(entry["verdict"], entry["asked"], entry["errno"]) for entry in applied(root, kernel, "1,5", check=check)} == {("pending", None, None)}
    assert kernel.writes == []


def test_files_below_the_root_are_written(machine: SysRoot, root: Path) -> None:
    irq.apply(machine, {65: frozenset((7,))}, read(machine, "0000:00:01.0"))
    assert (root / "proc/irq/65/smp_affinity_list").read_text() == "7"


def test_link_out_of_the_root_is_not_written(machine: SysRoot, root: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    outside = tmp_path_factory.mktemp("outside") / "file"
    outside.write_text("3\n")
    victim = root / "proc/irq/65/smp_affinity_list"
    victim.unlink()
    victim.symlink_to(outside)
    result = irq.apply(SysRoot(str(root)), {65: frozenset((7,))}, read(SysRoot(str(root)), "0000:00:01.0"))
    assert result[0]["errno"] == "EXDEV"
    assert outside.read_text() == "3\n"


def test_steering_masks(machine: SysRoot, root: Path) -> None:
    kernel = Kernel(root)
    result = irq.steer(machine, "eth0", "rps", from_list("0,4"), write=kernel.write)
    assert result == {"interface": "eth0", "kind": "rps", "wanted": "0,4", "changed": ["rx-0", "rx-1", "rx-2", "rx-3"], "errno": {}, "cut": {}}
    assert kernel.writes[0] == ("/sys/class/net/eth0/queues/rx-0/rps_cpus", "00000011")
    assert irq.steer(SysRoot(str(root)), "eth0", "rps", from_list("0,4"), write=kernel.write)["changed"] == []
    assert irq.steer(machine, "eth0", "xps", from_list("0"), check=True, write=kernel.write)["changed"] == ["tx-0", "tx-1", "tx-2", "tx-3"]
    assert len(kernel.writes) == 4


def test_steering_that_the_kernel_cuts_is_told(machine: SysRoot, root: Path) -> None:
    """Of CPUs that the boot arguments isolate the kernel keeps none, and says nothing."""
    def write(path: str, text: str) -> None:
        (root / path[1:]).write_text(to_mask(from_mask(text) - {4}) + "\n")

    assert irq.steer(machine, "eth0", "rps", from_list("0,4"), write=write)["cut"] == dict.fromkeys(("rx-0", "rx-1", "rx-2", "rx-3"), "0")
    again = irq.steer(machine, "eth0", "rps", from_list("0,4"), write=write)
    assert (again["changed"], sorted(again["cut"])) == ([], ["rx-0", "rx-1", "rx-2", "rx-3"])


# -- configured

GOOD = {"address": "0000:18:00.0", "cpus": "0-1,64-65", "strategy": "spread", "queues": 8, "rps": None, "xps": "0-1"}


def configured(tmp_path: Path, text: str) -> tuple:
    path = tmp_path / irq.CONFIGURED.lstrip("/")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    sysroot = SysRoot(str(tmp_path))
    return irq.read_configured(sysroot), [problem["reason"] for problem in sysroot.problems]


def test_configured_is_read_in_canonical_form(tmp_path: Path) -> None:
    assert irq.read_configured(SysRoot(str(tmp_path))) is None
    data, problems = configured(tmp_path, json.dumps({"version": 1, "devices": [{**GOOD, "cpus": "1,0,64-65"}, {"address": "0000:1a:00.0", "rps": "3"}]}))
    assert problems == []
    other = {"address": "0000:1a:00.0", "cpus": None, "strategy": "spread", "queues": None, "rps": "3", "xps": None}
    assert data == {"version": 1, "default_affinity": None, "devices": [GOOD, other]}
    assert (configured(tmp_path, '{"version": 1, "default_affinity": "4,0,1", "devices": []}')[0] or {})["default_affinity"] == "0-1,4"


BAD = {
    "empty": ("", "is not JSON"),
    "a list": ("[]", "version is not 1"),
    "of the future": ('{"version": 2, "devices": []}', "version is not 1"),
    "no devices": ('{"version": 1}', "'devices' is missing"),
    "devices of another kind": ('{"version": 1, "devices": {}}', "devices is not a list"),
    "a device of another kind": ('{"version": 1, "devices": ["x"]}', "not a mapping"),
    "an interface as address": (json.dumps({"version": 1, "devices": [{**GOOD, "address": "eth0"}]}), "not a PCI address"),
    "a path as address": (json.dumps({"version": 1, "devices": [{**GOOD, "address": "../../x"}]}), "not a PCI address"),
    "an unknown strategy": (json.dumps({"version": 1, "devices": [{**GOOD, "strategy": "pile"}]}), "strategy of 0000:18:00.0"),
    "no queues": (json.dumps({"version": 1, "devices": [{**GOOD, "queues": 0}]}), "queues of 0000:18:00.0"),
    "a number for a list": (json.dumps({"version": 1, "devices": [{**GOOD, "cpus": 3}]}), "cpus of 0000:18:00.0 is not a CPU list"),
    "an empty list": (json.dumps({"version": 1, "devices": [{**GOOD, "cpus": ""}]}), "cpus of 0000:18:00.0 is empty"),
    "a broken list": (json.dumps({"version": 1, "devices": [{**GOOD, "xps": "3-1"}]}), "runs backwards"),
    "a default of another kind": ('{"version": 1, "default_affinity": [0], "devices": []}', "default_affinity is not a CPU list"),
    "an empty default": ('{"version": 1, "default_affinity": "", "devices": []}', "default_affinity is not a CPU list"),
    "deeply nested": ("[" * 100000, "is not JSON"),
}


@pytest.mark.parametrize("text, reason", BAD.values(), ids=BAD)
def test_configured_that_is_not_ours_is_a_problem(tmp_path: Path, text: str, reason: str) -> None:
    data, problems = configured(tmp_path, text)
    assert data is None
    assert len(problems) == 1 and reason in problems[0]
