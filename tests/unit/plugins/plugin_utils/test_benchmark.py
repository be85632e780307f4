# Copyright (c) 2026 The inferops.locality authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reports of recorded runs: the folder, the words, the picture. The outputs are laid out as the programs print them, the numbers are invented."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree

import pytest

from ansible_collections.inferops.locality.plugins.plugin_utils import benchmark, benchmark_svg

HEAD = """\
# nccl-tests version 2.19.6 nccl-headers=22809 nccl-library=22809
# Collective test starting: {test}
#  Rank  0 Group  0 Pid   4101 on     {host} device  0 [0000:1b:00] NVIDIA H200
#  Rank  1 Group  0 Pid   4101 on     node-b device  0 [0000:1b:00] NVIDIA H200
#       size         count      type   redop    root     time   algbw   busbw  #wrong     time   algbw   busbw  #wrong
#        (B)    (elements)                               (us)  (GB/s)  (GB/s)             (us)  (GB/s)  (GB/s)
"""


def nccl(busbw: float, *, test: str = "all_reduce_perf", host: str = "node-a", via: str = "") -> str:
    rows = "".join(
        f"  {size}  {size // 4}  float  sum  -1  99.0  1.0  {busbw * size / 2**33:.2f}  0  99.0  1.0  {busbw * size / 2**33:.2f}  0\n"
        for size in (2**31, 2**32, 2**33)
    )
    said = f"{host}:1:2 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[0] [send] via {via}\n" if via else ""
    return HEAD.format(test=test, host=host) + said + rows + "# Out of bounds values : 0 OK\n# Avg bus bandwidth    : 1.0 \n"


def recorded(folder: Path, aligned: list[float], misaligned: list[float], **more: str) -> Path:
    """Runs of one place, made alternately."""
    for offset, (name, values, via) in enumerate((("aligned", aligned, "NET/IB/0/GDRDMA"), ("misaligned", misaligned, "NET/IB/0"))):
        (folder / name).mkdir(parents=True, exist_ok=True)
        for index, value in enumerate(values):
            (folder / name / f"{2 * index + offset:02}.txt").write_text(nccl(value, via=via, **more), encoding="utf-8")
    return folder


def test_a_winner_is_named_with_its_ratio_its_spread_and_its_transport(tmp_path: Path) -> None:
    recorded(tmp_path / "a-b", [380, 382, 381, 379], [190, 192, 189, 191])
    (tmp_path / "a-b" / "facts.json").write_text(json.dumps({"relation": "PIX", "kernel": "6.12", "more": {"x": 1}}), encoding="utf-8")
    results = benchmark.read(str(tmp_path))
    (test,) = results["places"][0]["tests"]
    assert test["winner"] == "aligned" and test["hosts"] == ["node-a", "node-b"] and test["gpus"] == 2
    said = "\n".join(benchmark.text(results))
    assert "aligned is ahead at the 3 largest sizes; aligned/misaligned is 1.997 (1.974 to 2.021) at 8 GiB" in said
    assert "transport, aligned: NET/IB, GDRDMA on all of the network's channels" in said
    assert "transport, misaligned: NET/IB, GDRDMA on none of the network's channels" in said
    assert "  relation: PIX" in said and "more" not in said
    json.dumps(results)


def test_a_comparison_without_a_winner_says_why(tmp_path: Path) -> None:
    recorded(tmp_path / "a-b", [380, 382, 381, 185], [190, 192, 189, 191])
    said = "\n".join(benchmark.text(benchmark.read(str(tmp_path))))
    assert "no winner: the spreads of the runs overlap at the 3 largest sizes" in said


def test_runs_of_different_nodes_are_not_compared(tmp_path: Path) -> None:
    recorded(tmp_path / "a-b", [380, 382, 381, 379], [])
    recorded(tmp_path / "a-b", [], [190, 192, 189, 191], host="node-z")
    (test,) = benchmark.read(str(tmp_path))["places"][0]["tests"]
    assert test["winner"] is None and "the runs are of different nodes: node-a, node-b and node-b, node-z" in test["reasons"]


def test_tests_are_compared_with_their_like(tmp_path: Path) -> None:
    recorded(tmp_path / "a-b", [380] * 4, [190] * 4)
    for offset, name in enumerate(("aligned", "misaligned")):
        (tmp_path / "a-b" / name / f"all_gather-{20 + offset}.txt").write_text(nccl(300, test="all_gather_perf"), encoding="utf-8")
    tests = benchmark.read(str(tmp_path))["places"][0]["tests"]
    assert [(test["test"], test["winner"]) for test in tests] == [("all_gather_perf", None), ("all_reduce_perf", "aligned")]


def test_failed_and_unreadable_runs_are_listed_and_left_out(tmp_path: Path) -> None:
    place = recorded(tmp_path / "a-b", [380] * 5, [190] * 4)
    (place / "aligned" / "08.txt").write_text(nccl(380).rsplit("# Out", 1)[0], encoding="utf-8")
    (place / "misaligned" / "09.txt").write_text("hello", encoding="utf-8")
    (place / "misaligned" / "notes.md").write_text("x", encoding="utf-8")
    (place / "elsewhere").mkdir()
    (found,) = benchmark.read(str(tmp_path))["places"]
    assert found["tests"][0]["winner"] == "aligned"
    assert {problem["file"]: problem["reason"].split(",")[0].split(";")[0] for problem in found["problems"]} == {
        "aligned/08.txt": "the run failed", "misaligned/09.txt": "found no table of nccl-tests in 1 lines",
        "misaligned/notes.md": "not read", "elsewhere": "not read",
    }


def test_notes_beside_the_places_hide_none_of_them(tmp_path: Path) -> None:
    recorded(tmp_path / "a-b", [380] * 4, [190] * 4)
    (tmp_path / "notes.txt").write_text("measured on Sunday", encoding="utf-8")
    assert [place["place"] for place in benchmark.read(str(tmp_path))["places"]] == ["a-b"]


def test_one_place_may_be_the_folder_itself(tmp_path: Path) -> None:
    assert [place["place"] for place in benchmark.read(str(recorded(tmp_path / "h200", [380] * 4, [190] * 4)))["places"]] == ["h200"]


def test_recorded_runs_of_one_kind_are_shown_and_compared_with_nothing(tmp_path: Path, reference: Path) -> None:
    for name in ("all_reduce_perf.txt", "p2pBandwidthLatencyTest.txt"):
        (tmp_path / name).write_text((reference / "data" / "samples" / name).read_text(encoding="utf-8"), encoding="utf-8")
    (tmp_path / "report.txt").write_text("an earlier report", encoding="utf-8")
    said = benchmark.text(benchmark.read(str(tmp_path)))[1:]
    assert said == [
        "  all_reduce_perf (all_reduce_perf.txt), compared with nothing: 33.61 GB/s at 1 MiB, 55.04 GB/s at 2 MiB, 80.04 GB/s at 4 MiB; "
        "transport: not known, run it with NCCL_DEBUG=INFO",
        "  p2pBandwidthLatencyTest (p2pBandwidthLatencyTest.txt), compared with nothing: 395.10 GB/s at unidirectional enabled, "
        "770.00 GB/s at bidirectional enabled",
    ]


def test_latency_before_and_after_is_compared_by_the_worst_thread(tmp_path: Path) -> None:
    for offset, (name, worst) in enumerate((("before", 900), ("after", 40))):
        (tmp_path / "gpu-a01" / name).mkdir(parents=True)
        for index in range(4):
            (tmp_path / "gpu-a01" / name / f"{2 * index + offset}.txt").write_text(
                f"T: 0 (17876) P:95 I:2000 C:    300 Min:     30 Act:  39 Avg:  {worst // 10} Max:   {worst + index}\n", encoding="utf-8")
    (test,) = benchmark.read(str(tmp_path))["places"][0]["tests"]
    assert (test["test"], test["unit"], test["winner"]) == ("cyclictest", "us", "after")


@pytest.mark.parametrize(
    ("made", "message"),
    [
        ([], "has no folder PLACE/aligned, PLACE/misaligned, PLACE/before or PLACE/after; found nothing"),
        (["a/other/x.txt"], "found a"),
        (["a/aligned/01.txt"], "no run can be used\n- a/aligned/01.txt: found no table"),
    ],
)
def test_a_folder_without_runs_is_an_error(tmp_path: Path, made: list[str], message: str) -> None:
    for name in made:
        (tmp_path / name).parent.mkdir(parents=True)
        (tmp_path / name).write_text("hello", encoding="utf-8")
    with pytest.raises(benchmark.BenchmarkError) as raised:
        benchmark.read(str(tmp_path))
    assert message in str(raised.value)


def test_the_picture_is_whole_and_shows_every_run(tmp_path: Path) -> None:
    recorded(tmp_path / "<a & b>", [380, 382, 381, 379], [190, 192, 189, 191])
    tree = ElementTree.fromstring(benchmark_svg.picture(benchmark.read(str(tmp_path))))
    svg = "{http://www.w3.org/2000/svg}"
    dots = tree.findall(f"{svg}circle")
    assert len(dots) == 2 * 4 * 3
    assert all(0 <= float(dot.get("cy", "-1")) <= float(tree.get("height", "0")) for dot in dots)
    assert len({dot.get("fill") for dot in dots}) == 2
    told = [item.text for item in tree.findall(f"{svg}text")]
    assert "<a & b>: all_reduce_perf" in told and "8 GiB" in told
    # Higher on the page is more.
    heights = {colour: [float(dot.get("cy", "0")) for dot in dots if dot.get("fill") == colour] for colour in benchmark_svg.COLOURS}
    assert min(heights[benchmark_svg.COLOURS[0]]) < min(heights[benchmark_svg.COLOURS[1]])


def test_a_picture_without_comparisons_says_so(tmp_path: Path) -> None:
    (tmp_path / "run.txt").write_text(nccl(380), encoding="utf-8")
    assert "no test has runs of both kinds" in benchmark_svg.picture(benchmark.read(str(tmp_path)))
