# Copyright (c) 2026 The inferops.locality authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""When a comparison of runs has a winner, and that it has none where it should not."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.inferops.locality.plugins.module_utils import run_comparison
from ansible_collections.inferops.locality.plugins.module_utils.run_comparison import Run, compare, interleaved, nccl_metrics, run_number

NAMES = ("aligned", "misaligned")
SIZES = ("8", "1048576", "268435456", "1073741824", "8589934592")


def runs(aligned: list[float], misaligned: list[float], sizes: tuple[str, ...] = SIZES) -> list[Run]:
    """Alternating runs; each value is the bandwidth of the large sizes, the smallest size is noise."""
    made = []
    for index in range(max(len(aligned), len(misaligned))):
        for offset, (name, values) in enumerate(zip(NAMES, (aligned, misaligned))):
            if index < len(values):
                made.append(Run(name, 2 * index + offset, {size: values[index] if size != "8" else 0.01 * (index % 3 + 1) for size in sizes}))
    return made


def test_separate_spreads_of_enough_runs_have_a_winner() -> None:
    result = compare(runs([360, 362, 361, 359], [180, 182, 179, 181]), NAMES, by_size=True)
    assert result["winner"] == "aligned" and result["reasons"] == []
    assert result["judged"] == ["268435456", "1073741824", "8589934592"]
    row = result["rows"][-1]
    assert row["metric"] == "8589934592" and row["ratio"] == round(360.5 / 180.5, 4)
    assert row["ratio_spread"] == [round(359 / 182, 4), round(362 / 179, 4)]
    assert row["aligned"] == {"runs": 4, "median": 360.5, "min": 359, "max": 362}


def test_the_small_sizes_are_listed_and_not_judged() -> None:
    result = compare(runs([360, 362, 361, 359], [180, 182, 179, 181]), NAMES, by_size=True)
    assert [row["metric"] for row in result["rows"]] == list(SIZES)
    assert result["rows"][0]["better"] is None


def test_the_other_kind_wins_where_it_is_ahead() -> None:
    assert compare(runs([180, 182, 179, 181], [360, 362, 361, 359]), NAMES, by_size=True)["winner"] == "misaligned"


def test_lower_latency_is_better() -> None:
    made = [Run(name, number, {"worst_us": value}) for number, (name, value) in enumerate(
        [("after", 40.0), ("before", 900.0), ("after", 45.0), ("before", 800.0), ("after", 42.0), ("before", 850.0), ("after", 44.0), ("before", 820.0)])]
    assert compare(made, ("after", "before"), lower_is_better=True)["winner"] == "after"
    assert compare(made, ("after", "before"))["winner"] == "before"


@pytest.mark.parametrize(
    ("made", "reason"),
    [
        (runs([360, 362, 361], [180, 182, 179]), "3 runs of aligned, at least 4 are wanted"),
        (runs([360, 362, 361, 359], [180, 182, 360, 181]), "the spreads of the runs overlap at the 3 largest sizes"),
        (runs([360, 362, 361, 359], []), "0 runs of misaligned"),
        (runs([0, 0, 0, 0], [0, 0, 0, 0]), "a bandwidth of 0: a test of one rank"),
        ([Run(run.variant, None, run.metrics) for run in runs([360, 362, 361, 359], [180, 182, 179, 181])], "the order of the runs is not known"),
        ([Run(run.variant, index, run.metrics) for index, run in enumerate(sorted(runs([3, 4, 5, 6], [1, 1, 1, 1]), key=lambda run: run.variant))],
         "4 runs of one kind were made in a row"),
        ([Run(name, number, {size: 1.0}) for number, (name, size) in enumerate([("aligned", "8"), ("misaligned", "16")] * 4)],
         "no size or value is in all runs"),
    ],
)
def test_no_winner_is_called(made: list[Run], reason: str) -> None:
    result = compare(made, NAMES, by_size=True)
    assert result["winner"] is None
    assert any(reason in told for told in result["reasons"]), result["reasons"]


def test_ahead_at_one_size_and_behind_at_another_is_no_winner() -> None:
    made = [
        Run(run.variant, run.number, {**run.metrics, "8589934592": 10.0 + (run.number or 0) if run.variant == "aligned" else 300.0 + (run.number or 0)})
        for run in runs([360, 362, 361, 359], [180, 182, 179, 181])
    ]
    result = compare(made, NAMES, by_size=True)
    assert result["winner"] is None and "not the same kind is ahead" in result["reasons"][0]


@given(st.lists(st.floats(1, 500), min_size=4, max_size=8), st.lists(st.floats(1, 500), min_size=4, max_size=8))
def test_overlapping_spreads_never_have_a_winner(first: list[float], second: list[float]) -> None:
    result = compare(runs(first, second), NAMES, by_size=True)
    overlap = min(first) <= max(second) and min(second) <= max(first)
    assert not (overlap and result["winner"])
    swapped = compare(runs(second, first), NAMES, by_size=True)["winner"]
    assert {result["winner"], swapped} in ({None}, set(NAMES)), "the names make no difference"


@pytest.mark.parametrize(
    ("order", "good"), [("abab", True), ("abba", True), ("aabb", True), ("aaabbb", False), ("abbba", False)],
)
def test_no_kind_runs_more_than_twice_in_a_row(order: str, good: bool) -> None:
    made = [Run(letter, number, {}) for number, letter in enumerate(order)]
    assert interleaved(reversed(made))[0] is good


def test_runs_of_one_number_are_a_pair() -> None:
    assert interleaved([Run(letter, number, {}) for letter in "ab" for number in range(5)])[0]


@pytest.mark.parametrize(("name", "number"), [("01.txt", 1), ("all_reduce-03.txt", 3), ("h200-run-12.log", 12), ("first.txt", None)])
def test_a_file_name_says_the_order(name: str, number: int | None) -> None:
    assert run_number(name) == number


def nccl_row(size: int, out_of_place: float | None, in_place: float | None) -> dict[str, Any]:
    return {"size": size, "out_of_place": {"busbw": out_of_place}, "in_place": {"busbw": in_place}}


def test_bandwidths_are_those_out_of_place_and_the_mean_of_repeated_sizes() -> None:
    assert nccl_metrics({"rows": [nccl_row(8, 1.0, 9.0), nccl_row(16, None, 4.0), nccl_row(8, 3.0, 9.0), nccl_row(32, None, None)]}) == {"8": 2.0, "16": 4.0}


def test_the_slowest_pair_of_gpus_is_what_the_p2p_test_is_judged_by() -> None:
    matrix = [[4000.0, 395.0, 50.0], [394.0, 4000.0, 396.0], [51.0, 397.0, 4000.0]]
    assert run_comparison.p2p_metrics({"unidirectional_enabled": matrix, "bidirectional_enabled": None}) == {"unidirectional_enabled": 50.0}
