# Copyright (c) 2026 The inferops.locality authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Compare two ways of running the same thing by repeated, interleaved runs; say which is better only where the runs allow it.

The rule is the weakest one that needs no assumption about how results scatter: one way is called better where each of its runs is better than each run of
the other. By chance alone that happens in 2 of C(2n, n) orders: 10 % of comparisons of three and three runs, 2.9 % of four and four. So four are the fewest.
Runs of one way after the other measure what else changed meanwhile (clocks, heat, other tenants), so the order has to alternate.
"""

from __future__ import annotations

import re
from typing import Any, Dict, Iterable, List, Mapping, NamedTuple, Optional, Sequence, Tuple

__all__ = ["FEWEST_RUNS", "LARGEST_SIZES", "VARIANTS", "Run", "compare", "interleaved", "nccl_metrics", "p2p_metrics", "run_number"]

FEWEST_RUNS = 4
# Small messages measure latency, and an average over all sizes is mostly small messages: the largest sizes of a table are judged.
LARGEST_SIZES = 3
# What is hoped to be better, and what it is compared with: the folders of one place.
VARIANTS: Tuple[Tuple[str, str], ...] = (("aligned", "misaligned"), ("after", "before"))


class Run(NamedTuple):
    """One run: its variant, its place in the order (null: not known), and ``metric → value``."""

    variant: str
    number: Optional[int]
    metrics: Mapping[str, float]


def run_number(name: str) -> Optional[int]:
    """The place in the order of runs: the last number in a file name without its ending (``all_reduce-03.txt``: 3)."""
    found = re.findall(r"[0-9]+", re.sub(r"\.[A-Za-z]+$", "", name))
    return int(found[-1]) if found else None


def nccl_metrics(result: Mapping[str, Any]) -> Dict[str, float]:
    """``size in bytes → busbw in GB/s``, out-of-place; in-place where that is all there is. Of a size that was run repeatedly, the mean."""
    found: Dict[str, List[float]] = {}
    for row in result["rows"]:
        value = row["out_of_place"]["busbw"]
        value = row["in_place"]["busbw"] if value is None else value
        if value is not None:
            found.setdefault(str(row["size"]), []).append(value)
    return {size: sum(values) / len(values) for size, values in found.items()}


def p2p_metrics(result: Mapping[str, Any]) -> Dict[str, float]:
    """The slowest pair of GPUs: its bandwidth in GB/s, P2P enabled, one way and both ways."""
    metrics = {}
    for name in ("unidirectional_enabled", "bidirectional_enabled"):
        pairs = [value for row, values in enumerate(result[name] or []) for column, value in enumerate(values) if row != column]
        if pairs:
            metrics[name] = min(pairs)
    return metrics


def interleaved(runs: Iterable[Run]) -> Tuple[bool, str]:
    """Whether no way was run more than twice in a row, and if not, why."""
    runs = list(runs)
    if any(run.number is None for run in runs):
        return False, "the order of the runs is not known: number the files in the order in which they were run, over both folders"
    # Two runs of one number are a pair, whose order inside does not matter.
    ordered = sorted(runs, key=lambda run: (run.number or 0, run.variant))
    longest = row = 1
    for before, run in zip(ordered, ordered[1:]):
        row = row + 1 if run.variant == before.variant else 1
        longest = max(longest, row)
    if longest > 2:
        return False, f"{longest} runs of one kind were made in a row: whatever else changed meanwhile is in the difference; alternate them"
    return True, ""


def _median(values: Sequence[float]) -> float:
    ordered = sorted(values)
    middle = len(ordered) // 2
    return ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2


def _stats(values: Sequence[float]) -> Dict[str, Any]:
    return {"runs": len(values), "median": round(_median(values), 4), "min": min(values), "max": max(values)}


def _row(metric: str, better: Sequence[float], other: Sequence[float], names: Tuple[str, str], lower_is_better: bool) -> Dict[str, Any]:
    low, high = min(better), max(better)
    other_low, other_high = min(other), max(other)
    ratio = spread = None
    if other_low > 0:
        ratio, spread = round(_median(better) / _median(other), 4), [round(low / other_high, 4), round(high / other_low, 4)]
    first, second = (names[1], names[0]) if lower_is_better else names
    winner = first if low > other_high else second if high < other_low else None
    return {"metric": metric, names[0]: _stats(better), names[1]: _stats(other), "ratio": ratio, "ratio_spread": spread, "better": winner}


def _judged(metrics: Sequence[str], by_size: bool) -> List[str]:
    return sorted(metrics, key=int)[-LARGEST_SIZES:] if by_size else list(metrics)


def compare(runs: Iterable[Run], names: Tuple[str, str], *, by_size: bool = False, lower_is_better: bool = False) -> Dict[str, Any]:
    """Compare the runs of ``names[0]`` with those of ``names[1]``.

    :param by_size: metrics are sizes in bytes; the largest are judged, all are listed.
    :returns: ``{names, rows: [{metric, NAME: {runs, median, min, max}, ..., ratio, ratio_spread, better}], judged: [metric], winner: NAME|null,
        reasons: [...]}``.
        ``ratio`` is that of the medians; ``ratio_spread`` the smallest and largest ratio of any run to any run of the other kind; ``better`` is null where the
        spreads overlap. ``reasons`` says why there is no winner.
    """
    runs = list(runs)
    kinds = [[run for run in runs if run.variant == name] for name in names]
    common = [metric for metric in (kinds[0][0].metrics if kinds[0] else {}) if all(metric in run.metrics for run in runs)]
    rows = []
    for metric in sorted(common, key=int) if by_size else common:
        values = [[run.metrics[metric] for run in kind] for kind in kinds]
        if values[1]:
            rows.append(_row(metric, values[0], values[1], names, lower_is_better))
    judged = _judged([row["metric"] for row in rows], by_size)
    reasons = []
    for name, kind in zip(names, kinds):
        if len(kind) < FEWEST_RUNS:
            reasons.append(f"{len(kind)} runs of {name}, at least {FEWEST_RUNS} are wanted: of fewer, all of one kind are ahead by chance too often")
    if runs and not rows and all(kinds):
        reasons.append("no size or value is in all runs: make them with the same arguments")
    alternated, why = interleaved(runs) if all(kinds) else (True, "")
    if not alternated:
        reasons.append(why)
    winners = {row["better"] for row in rows if row["metric"] in judged}
    what = f"the {len(judged)} largest sizes" if by_size else "what was measured"
    if any(value == 0 for run in runs for metric in judged for value in [run.metrics[metric]]):
        reasons.append("a bandwidth of 0: a test of one rank moves nothing over a link")
    elif None in winners:
        level = [row["metric"] for row in rows if row["metric"] in judged and not row["better"]]
        reasons.append(f"the spreads of the runs overlap at {what}: {', '.join(level)}")
    elif len(winners) > 1:
        reasons.append(f"not the same kind is ahead in all of {what}")
    winner = winners.pop() if len(winners) == 1 and not reasons else None
    return {"names": list(names), "rows": rows, "judged": judged, "winner": winner, "reasons": reasons}
