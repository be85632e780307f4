# Copyright (c) 2026 The inferops.locality authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What interrupts and queues were before: kept once, found again whatever their numbers, never guessed from a broken file."""

from __future__ import annotations

import errno
import json
from pathlib import Path
from typing import Any, Optional

import pytest

from ansible_collections.inferops.locality.plugins.module_utils import irq, irq_saved, nic_channels
from ansible_collections.inferops.locality.plugins.module_utils.cpulist import from_list
from ansible_collections.inferops.locality.plugins.module_utils.sysroot import SysRoot
from ansible_collections.inferops.locality.plugins.plugin_utils import paper
from ansible_collections.inferops.locality.tests.unit.paper_kernel import Kernel, Live

NIC = "0000:00:01.0"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    paper.build({
        "cpus": {"sockets": 1, "cores_per_numa": 4, "threads": 2},
        "pci": [{"host_bridge": "pci0000:00", "numa": 0, "children": [
            {"nic": "mlx5", "address": NIC, "interface": "eth0", "queues": 2, "irqs": 3, "msi": {"cpus": "0-7", "effective": "4"}}]}],
    }, tmp_path / "node")
    return tmp_path / "node"


def saved(*entries: tuple[Optional[int], Optional[str]]) -> dict[str, Any]:
    return {"irqs": [{"queue": queue, "asked": asked} for queue, asked in entries]}


def now(*queues: Optional[int]) -> list[dict[str, Any]]:
    return [{"irq": 100 + position, "queue": queue} for position, queue in enumerate(queues)]


ORIGINALS: dict[str, tuple[dict[str, Any], list[dict[str, Any]], dict[int, str]]] = {
    "as many": (saved((None, "0"), (0, "1"), (1, "2")), now(None, 0, 1), {100: "0", 101: "1", 102: "2"}),
    # before an interface is up its vectors have no names, hence no queues
    "as many, without names then": (saved((None, "0"), (None, "1"), (None, "2")), now(None, 0, 1), {100: "0", 101: "1", 102: "2"}),
    "fewer": (saved((None, "0"), (0, "1"), (1, "2")), now(None, 1), {100: "0", 101: "2"}),
    "more": (saved((None, "0"), (0, "1")), now(None, 0, 1, 2), {100: "0", 101: "1", 102: "0-7", 103: "0-7"}),
    "both directions of one queue": (saved((0, "1"), (0, "2"), (None, "0")), now(0, 0, 1, 1, None), {100: "1", 101: "2", 102: "0-7", 103: "0-7", 104: "0"}),
    "not known then": (saved((0, None), (1, "2")), now(0, 1), {101: "2"}),
}


@pytest.mark.parametrize(("record", "entries", "wanted"), ORIGINALS.values(), ids=ORIGINALS)
def test_originals(record: dict[str, Any], entries: list[dict[str, Any]], wanted: dict[int, str]) -> None:
    assert irq_saved.originals(record, entries, "0-7") == {number: from_list(cpus) for number, cpus in wanted.items()}


def test_taken_once(root: Path) -> None:
    assert irq_saved.take(SysRoot(str(root)), [NIC]) is True
    (root / "proc/irq/64/smp_affinity_list").write_text("3")
    assert irq_saved.take(SysRoot(str(root)), [NIC]) is False
    data = irq_saved.read(SysRoot(str(root)))
    assert data is not None and {entry["asked"] for entry in data["devices"][NIC]["irqs"]} == {"0-7"}


GOOD = {"irqs": [{"queue": 0, "asked": "0"}], "channels": {"eth0": [0, 0, 8]}, "rps": {"eth0": {"rx-0": ""}}, "xps": {}}
BAD = {
    "not JSON": "{",
    "a list": "[]",
    "of the future": json.dumps({"version": 2, "default_affinity": None, "devices": {}}),
    "no devices": json.dumps({"version": 1, "default_affinity": None}),
    "a path as address": json.dumps({"version": 1, "default_affinity": None, "devices": {"../../x": GOOD}}),
    "no list": json.dumps({"version": 1, "default_affinity": None, "devices": {NIC: {**GOOD, "irqs": [{"queue": 0, "asked": "x"}]}}}),
    "a queue that is no number": json.dumps({"version": 1, "default_affinity": None, "devices": {NIC: {**GOOD, "irqs": [{"queue": "0", "asked": "0"}]}}}),
    "channels": json.dumps({"version": 1, "default_affinity": None, "devices": {NIC: {**GOOD, "channels": {"eth0": [8]}}}}),
    "steering": json.dumps({"version": 1, "default_affinity": None, "devices": {NIC: {**GOOD, "rps": {"eth0": {"rx-0": "-"}}}}}),
    "default": json.dumps({"version": 1, "default_affinity": "-", "devices": {}}),
}


@pytest.mark.parametrize("text", BAD.values(), ids=BAD)
def test_what_is_not_ours_is_refused_and_stays(root: Path, text: str) -> None:
    place = root / irq_saved.SAVED[1:]
    place.parent.mkdir(parents=True)
    place.write_text(text)
    for act in (irq_saved.read, lambda node: irq_saved.take(node, [NIC]), irq_saved.restore):
        with pytest.raises(irq_saved.SavedError, match=r"irq.json"):
            act(SysRoot(str(root)))
    assert place.read_text() == text


def test_number_of_queues_comes_back(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    present = [nic_channels.Channels(0, 0, 1, 63, 0, 0, 1, 63)]
    monkeypatch.setattr(nic_channels, "get", lambda name: present[-1])
    monkeypatch.setattr(nic_channels, "put", lambda name, channels: present.append(channels))
    irq_saved.take(Live(root), [NIC])
    present.append(nic_channels.with_counts(present[0], 0, 0, 4))
    _results, done, failed = irq_saved.restore(Live(root), write=Kernel(root).write)
    assert (present[-1], done, failed) == (present[0], [f"{NIC} eth0: 63 queues"], [])
    assert not (root / irq_saved.SAVED[1:]).exists()


def test_what_cannot_be_put_back_stays_saved(root: Path) -> None:
    irq_saved.take(SysRoot(str(root)), [NIC])
    for number in (64, 65):
        (root / f"proc/irq/{number}/smp_affinity_list").write_text("3")
    _results, _done, failed = irq_saved.restore(SysRoot(str(root)), write=Kernel(root, errors={64: [errno.ENOSPC]}).write)
    assert failed == [f"{NIC} interrupt 64: no_vectors (ENOSPC)"]
    assert (root / irq_saved.SAVED[1:]).exists()
    assert irq_saved.restore(SysRoot(str(root)), write=Kernel(root).write)[2] == []
    assert not (root / irq_saved.SAVED[1:]).exists()
    assert (root / "proc/irq/64/smp_affinity_list").read_text().strip() == "0-7"


def test_device_that_is_gone_is_forgotten(root: Path) -> None:
    irq_saved.take(SysRoot(str(root)), [NIC])
    (root / f"sys/bus/pci/devices/{NIC}").unlink()
    assert irq_saved.restore(SysRoot(str(root)))[1] == [f"{NIC}: no such device any more: forgotten"]
    assert irq_saved.read(SysRoot(str(root))) is None


def test_folder_out_of_the_root_is_not_written(root: Path, tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    (root / "var").mkdir(exist_ok=True)
    (root / "var/lib").symlink_to(tmp_path / "outside")
    with pytest.raises(OSError) as raised:
        irq.store(SysRoot(str(root)), irq_saved.SAVED, "")
    assert raised.value.errno == errno.EXDEV
    assert list((tmp_path / "outside").iterdir()) == []
