# Copyright (c) 2026 The inferops.locality authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The picture of a benchmark report: for each test the runs of both kinds, their medians and their spreads."""

from __future__ import annotations

from typing import Any, Mapping
from xml.sax.saxutils import escape

from ansible_collections.inferops.locality.plugins.plugin_utils import benchmark

__all__ = ["picture"]

WIDTH, PANEL, LEFT, RIGHT, TOP, BOTTOM = 860, 360, 80, 30, 64, 56
COLOURS = ("#0b6cb5", "#c8590a")  # told apart by people who do not see red and green, and in grey


def _text(x: float, y: float, words: str, more: str = "") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}"{more}>{escape(words)}</text>'


def _line(x1: float, y1: float, x2: float, y2: float, stroke: str, more: str = "") -> str:
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{stroke}"{more}/>'


def _ceiling(value: float) -> float:
    """The next of 1, 2, 5 times a power of ten."""
    step = 1.0
    while step * 10 <= value:
        step *= 10
    while step > value:
        step /= 10
    return next((step * factor for factor in (1, 2, 5, 10) if step * factor >= value), step * 10)


class _Panel:
    """One test. Metrics stand side by side at equal distances: sizes are powers of two, so this is a logarithmic axis."""

    def __init__(self, place: str, test: Mapping[str, Any], offset: float) -> None:
        self.test, self.offset = test, offset
        self.metrics = [row["metric"] for row in test["rows"]]
        self.highest = _ceiling(max((row[name]["max"] for row in test["rows"] for name in test["names"]), default=1) or 1)
        self.place = place

    def x(self, metric: str) -> float:
        step = (WIDTH - LEFT - RIGHT) / max(len(self.metrics), 1)
        return LEFT + step * (self.metrics.index(metric) + 0.5)

    def y(self, value: float) -> float:
        return self.offset + TOP + (PANEL - TOP - BOTTOM) * (1 - value / self.highest)

    def axes(self) -> list[str]:
        parts = [
            _text(LEFT, self.offset + 20, f"{self.place}: {self.test['test']}", ' class="title"'),
            _text(LEFT, self.offset + 38, benchmark.verdict(self.test)[:150]),
            _text(8, self.y(self.highest) - 8, self.test["unit"]),
        ]
        for tick in range(6):
            value = self.highest * tick / 5
            parts.append(_line(LEFT, self.y(value), WIDTH - RIGHT, self.y(value), "#ddd" if tick else "#555"))
            parts.append(_text(LEFT - 8, self.y(value) + 4, f"{value:g}", ' text-anchor="end"'))
        every = max(1, len(self.metrics) // 10 + 1)
        for index, metric in enumerate(self.metrics):
            if (len(self.metrics) - 1 - index) % every == 0:
                parts.append(_text(self.x(metric), self.y(0) + 18, benchmark.metric_name(self.test, metric), ' text-anchor="middle"'))
        if self.test["kind"] == "nccl" and self.test["judged"]:
            left = (self.x(self.test["judged"][0]) + self.x(self.metrics[max(0, self.metrics.index(self.test["judged"][0]) - 1)])) / 2
            parts.append(_line(left, self.y(self.highest), left, self.y(0), "#555", ' stroke-dasharray="4 4"'))
            parts.append(_text(left + 4, self.y(self.highest) - 4, "judged"))
        return parts

    def series(self, name: str, colour: str, shift: float) -> list[str]:
        points = [(self.x(row["metric"]) + shift, row[name]) for row in self.test["rows"]]
        line = " ".join(f"{x:.1f},{self.y(stats['median']):.1f}" for x, stats in points)
        parts = [f'<polyline points="{line}" fill="none" stroke="{colour}" stroke-width="2"/>'] if self.test["kind"] == "nccl" else []
        for x, stats in points:
            parts.append(_line(x, self.y(stats["min"]), x, self.y(stats["max"]), colour, ' stroke-width="5" stroke-opacity="0.35"'))
        for run in self.test["runs"]:
            if run["variant"] == name:
                parts.extend(
                    f'<circle cx="{self.x(metric) + shift:.1f}" cy="{self.y(value):.1f}" r="2.5" fill="{colour}"/>'
                    for metric, value in run["metrics"].items() if metric in self.metrics
                )
        return parts

    def drawn(self) -> list[str]:
        parts = self.axes()
        for index, (name, colour) in enumerate(zip(self.test["names"], COLOURS)):
            parts.extend(self.series(name, colour, -3 if index == 0 else 3))
            x, y = LEFT + 130 * index, self.y(0) + 40
            parts.append(f'<rect x="{x}" y="{y - 9:.1f}" width="12" height="10" fill="{colour}"/>')
            parts.append(_text(x + 18, y, name))
        return parts


def picture(results: Mapping[str, Any]) -> str:
    """An SVG image, one panel below the other. Dots are runs, bars their spread, lines join the medians."""
    panels: list[str] = []
    height = 0
    for place in results["places"]:
        for test in place["tests"]:
            if test["rows"]:
                panels.extend(_Panel(place["place"], test, height).drawn())
                height += PANEL
    height = height or 60
    body = "\n".join(panels) if panels else _text(20, 35, "no test has runs of both kinds")
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" viewBox="0 0 {WIDTH} {height}" font-family="sans-serif" font-size="12">\n'
        "<style>.title{font-size:15px;font-weight:bold}</style>\n"
        f'<rect width="{WIDTH}" height="{height}" fill="#fff"/>\n{body}\n</svg>\n'
    )
