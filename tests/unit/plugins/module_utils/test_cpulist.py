# Copyright (c) 2026 The inferops.locality authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.inferops.locality.plugins.module_utils import cpulist

CPU_SETS = st.frozensets(st.integers(0, 2047), max_size=200)


@pytest.mark.parametrize(
    "text, cpus",
    [
        ("", []),
        ("0", [0]),
        ("3-3", [3]),
        ("1,0-2", [0, 1, 2]),
        ("0-2,2", [0, 1, 2]),
        ("0-1,64-65", [0, 1, 64, 65]),
        (" 0-1 ,, 4\t8\n", [0, 1, 4, 8]),
        ("0-15:2/8", [0, 1, 8, 9]),
        ("0-5:1/2", [0, 2, 4]),
        ("0-62:31", [0, 31, 62]),
        ("9-N", [9, 10, 11]),
        ("N", [11]),
        ("all", list(range(12))),
        ("ALL:1/4", [0, 4, 8]),
    ],
)
def test_kernel_list(text: str, cpus: list[int]) -> None:
    assert cpulist.from_list(text, last=11) == frozenset(cpus)


@pytest.mark.parametrize("text", ["5-3", "4-", "-1", "a", "0-3:0/0", "0-3:5/4", "5:1/2", "0-3:0", "1.5", "99999", "0x3", "n", "\u0663"])
def test_kernel_list_refuses(text: str) -> None:
    with pytest.raises(cpulist.CpuListError):
        cpulist.from_list(text, last=11)


@pytest.mark.parametrize("text", ["N", "4-N", "all"])
def test_the_last_cpu_is_never_guessed(text: str) -> None:
    with pytest.raises(cpulist.CpuListError, match="last CPU"):
        cpulist.from_list(text)


@pytest.mark.parametrize("text", ["0,", ",3", "0,,3", "1-", "-1", "3-0", "0-3:1/2", "all", "N", "0 1", " 0", "x", "\u0663"])
def test_kubelet_set_refuses_what_the_kubelet_refuses(text: str) -> None:
    with pytest.raises(cpulist.CpuListError):
        cpulist.from_kubelet(text)


def test_kubelet_set_takes_any_order() -> None:
    assert cpulist.from_kubelet("8,0-3,2-4") == frozenset({0, 1, 2, 3, 4, 8})


@given(CPU_SETS)
def test_list_round_trip(cpus: cpulist.CpuSet) -> None:
    text = cpulist.to_list(cpus)
    assert cpulist.from_list(text) == cpulist.from_kubelet(text) == cpus


@given(CPU_SETS, st.one_of(st.none(), st.integers(1, 4096)))
def test_mask_round_trip(cpus: cpulist.CpuSet, width: int | None) -> None:
    text = cpulist.to_mask(cpus, width)
    assert cpulist.from_mask(text) == cpus
    assert all(len(word) == 8 for word in text.split(",")[1:])


@pytest.mark.parametrize(
    "text, cpus",
    [
        ("0", ""), ("00000000,0000000f", "0-3"), ("f", "0-3"), ("0000,00000f00,00000003", "0-1,40-43"), ("1,00000000", "32"),
        ("0xff", "0-7"), ("ffffffffffffffff", "0-63"), ("", ""),
    ],
)
def test_masks_short_or_with_leading_zeros_are_sets(text: str, cpus: str) -> None:
    assert cpulist.to_list(cpulist.from_mask(text)) == cpus


@pytest.mark.parametrize("text", ["g", "000000000f,0", "0-3", "1,,2", "f,123456789"])
def test_mask_refuses(text: str) -> None:
    with pytest.raises(cpulist.CpuListError):
        cpulist.from_mask(text)


def test_a_mask_that_would_fill_the_memory_is_refused() -> None:
    with pytest.raises(cpulist.CpuListError, match="bits"):
        cpulist.from_mask("1" + ",00000000" * 3000)


def test_wide_machines() -> None:
    cpus = frozenset(range(0, 1152, 2))
    text = cpulist.to_mask(cpus, 1152)
    assert text.count(",") == 35 and cpulist.from_mask(text) == cpus
    assert cpulist.to_mask({0}, 12) == "001"


@pytest.mark.parametrize(
    "text, flags, cpus",
    [
        ("2-3", ("domain",), "2-3"),
        ("managed_irq,2-31", ("managed_irq",), "2-31"),
        ("domain,managed_irq,2-31", ("domain", "managed_irq"), "2-31"),
        ("managed_irq,domain,", ("domain", "managed_irq"), ""),
        ("nohz,domain,1", ("domain", "nohz"), "1"),
        ("speedy,2-3", ("domain",), "2-3"),
        ("0-N", ("domain",), "0-7"),
    ],
)
def test_isolcpus(text: str, flags: tuple[str, ...], cpus: str) -> None:
    found, isolated = cpulist.from_isolcpus(text, last=7)
    assert (found, cpulist.to_list(isolated)) == (flags, cpus)


@pytest.mark.parametrize("text", ["domain,managed_irq:1-30", "managed_irq:2-3", "dom1,2-3", "all", "N"])
def test_isolcpus_that_the_kernel_ignores_as_a_whole(text: str) -> None:
    with pytest.raises(cpulist.CpuListError):
        cpulist.from_isolcpus(text, last=7)
