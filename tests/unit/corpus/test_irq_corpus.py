# Copyright (c) 2026 The inferops.locality authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Interrupt files of real machines; the expected facts are those of the corpus' own index."""

from __future__ import annotations

import bz2
import re
from pathlib import Path

import pytest

from ansible_collections.inferops.locality.plugins.module_utils import irq


def text(corpus: Path, start: str) -> str:
    path = next(iter(sorted((corpus / "irq").glob(start + "*"))), None)
    assert path is not None, f"no file of the corpus starts with {start}"
    return bz2.decompress(path.read_bytes()).decode() if path.suffix == ".bz2" else path.read_text(encoding="utf-8")


def queues(rows: list, pattern: str) -> dict:
    """Queue numbers of the interrupts whose handler matches, as if they were one device's."""
    names = {row.irq: row.names for row in rows if any(re.search(pattern, name) for name in row.names)}
    return {names[number][0]: queue for number, queue in irq.queue_numbers(names).items()}


# file, handlers of one device, CPUs with a column, data queues, vectors without data
DEVICES = [
    ("interrupts-01", r"^i40e-(enp195s0f2|0000:c3:00\.2)", 1152, 94, 2),
    ("interrupts-03", r"^enp0s25$", 8, 1, 0),
    ("interrupts-04", r"^ens3$", 1, 1, 0),
    ("interrupts-06", r"^eno1", 40, 40, 1),
    ("interrupts-06", r"^mlx4", 40, 80, 1),
    ("interrupts-07", r"@pci:0000:01:00\.0", 4, 4, 3),
    ("interrupts-07", r"@pci:0000:01:00\.1", 4, 4, 3),
    ("interrupts-10", r"^i40e-(eth0|0000:01:00\.0)", 4, 4, 2),
    ("interrupts-11", r"^eth0-", 48, 4, 0),
    ("interrupts-16", r"@pci:0000:01:00\.0", 12, 12, 1),
    ("interrupts-17", r"^nvme0", 14, 3, 1),
    ("interrupts-22", r"^eth0", 2, 4, 0),
]


@pytest.mark.parametrize("file, pattern, columns, data, other", DEVICES, ids=[f"{row[0]}-{row[1]}" for row in DEVICES])
def test_queues_of_a_device(corpus: Path, file: str, pattern: str, columns: int, data: int, other: int) -> None:
    rows = irq.parse_interrupts(text(corpus, file))
    assert max(len(row.counts) for row in rows) == columns
    found = queues(rows, pattern)
    numbers = [queue for queue in found.values() if queue is not None]
    assert len(numbers) == data
    assert len(set(numbers)) == len(numbers)
    assert len(found) - len(numbers) == other


def test_every_file_is_read(corpus: Path) -> None:
    files = [path for path in sorted((corpus / "irq").glob("interrupts-*")) if "listing" not in path.name]
    assert files
    for path in files:
        rows = irq.parse_interrupts(text(corpus, path.name))
        assert rows, path.name
        # a row of counts has one count for each column, but for the sums at the end
        widths = {len(row.counts) for row in rows if row.irq is not None}
        assert len(widths) <= 1, path.name
        for row in rows:
            assert not any(name.endswith(("-edge", "-fasteoi")) or name[:1].isspace() for name in row.names), (path.name, row.label)


def test_interrupts_without_a_handler(corpus: Path) -> None:
    nameless = [row.irq for row in irq.parse_interrupts(text(corpus, "interrupts-11")) if row.irq is not None and not row.names]
    assert nameless == [3, 4]
    assert [row.irq for row in irq.parse_interrupts(text(corpus, "interrupts-10")) if row.irq is not None and not row.names] == [7]


def test_shared_line(corpus: Path) -> None:
    row = next(row for row in irq.parse_interrupts(text(corpus, "interrupts-04")) if row.irq == 11)
    assert row.names == ("uhci_hcd:usb1", "ens3")


def test_machine_without_device_interrupts(corpus: Path) -> None:
    assert [(row.label, row.irq) for row in irq.parse_interrupts(text(corpus, "interrupts-05"))] == [("EXT", None), ("I/O", None)]


def test_busiest_vector(corpus: Path) -> None:
    rows = irq.parse_interrupts(text(corpus, "interrupts-16"))
    busiest = max(rows, key=lambda row: max(row.counts.values()))
    assert (busiest.irq, busiest.counts[8]) == (114, 1024467)


def test_sums_at_the_end(corpus: Path) -> None:
    assert [row.counts for row in irq.parse_interrupts(text(corpus, "interrupts-10")) if row.label == "ERR"] == [{-1: 17}]
    assert [row.counts for row in irq.parse_interrupts(text(corpus, "interrupts-20")) if row.label == "Err"] == [{-1: 0}]


def test_counters_above_two_to_the_31(corpus: Path) -> None:
    row = next(row for row in irq.parse_interrupts(text(corpus, "interrupts-22")) if row.irq == 138)
    assert row.counts == {0: 2707861846, 1: 1580501564}


def test_handler_folders_of_a_virtual_function(corpus: Path) -> None:
    names = re.findall(r"^/proc/irq/(\d+)/(iavf-(?:ens1f1v3|0000:3b:0b\.0).*)$", text(corpus, "interrupts-21"), re.MULTILINE)
    found = irq.queue_numbers({int(number): [name] for number, name in names})
    assert (found[1423], found[1424], found[240]) == (3, None, 0)


# file, CPUs, CPU with the most, its count, the least, the sum
SOFTIRQS = [
    ("softirqs-02", 8, 0, 2452582, 326415, 5317658),
    ("softirqs-03", 1, 0, 2315415, 2315415, 2315415),
    ("softirqs-04", 40, 10, 41047432, 11565548, 902122212),
    ("softirqs-06", 8, 4, 3497390485, 894237858, None),
    ("softirqs-07", 2, 1, 11500522, 10915058, 22415580),
]


@pytest.mark.parametrize("file, cpus, busiest, most, least, total", SOFTIRQS, ids=[row[0] for row in SOFTIRQS])
def test_received_packets_per_cpu(corpus: Path, file: str, cpus: int, busiest: int, most: int, least: int, total: int) -> None:
    counts = irq.parse_softirqs(text(corpus, file))["NET_RX"]
    assert len(counts) == cpus
    assert max(counts, key=lambda cpu: counts[cpu]) == busiest
    assert (max(counts.values()), min(counts.values())) == (most, least)
    assert total is None or sum(counts.values()) == total
