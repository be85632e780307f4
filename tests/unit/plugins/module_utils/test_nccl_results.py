# Copyright (c) 2026 The inferops.locality authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Recorded forms of the outputs of nccl-tests and p2pBandwidthLatencyTest. The numbers are invented, the lines are laid out as the programs print them."""

from __future__ import annotations

from pathlib import Path

import pytest

from ansible_collections.inferops.locality.plugins.module_utils import nccl_results
from ansible_collections.inferops.locality.plugins.module_utils.nccl_results import NcclError, parse_nccl, parse_p2p, parse_results

HEAD = """\
#                                                              out-of-place                       in-place
#       size         count      type   redop    root     time   algbw   busbw  #wrong     time   algbw   busbw  #wrong
#        (B)    (elements)                               (us)  (GB/s)  (GB/s)             (us)  (GB/s)  (GB/s)
"""
OLD_HEAD = """\
#                                                       out-of-place                       in-place
#       size         count      type   redop     time   algbw   busbw  error     time   algbw   busbw  error
#        (B)    (elements)                       (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)
"""
END = "# Out of bounds values : 0 OK\n# Avg bus bandwidth    : 150.5 \n#\n"
ROW = "  1073741824     268435456     float     sum      -1   5400.1  198.84  372.82       0   5399.0  198.88  372.90       0\n"


def row(size: int = 1073741824, busbw: str = "372.82", wrong: str = "0") -> str:
    return f"  {size} {size // 4} float sum -1 5400.1 198.84 {busbw} {wrong} 5399.0 198.88 372.90 {wrong}\n"


def test_the_recorded_output_of_one_node(reference: Path) -> None:
    result = parse_nccl((reference / "data" / "samples" / "all_reduce_perf.txt").read_text(encoding="utf-8"))
    assert result["ok"] and result["complete"] and result["failures"] == []
    assert (result["test"], result["version"]) == ("all_reduce_perf", "2.19.6")
    assert [(rank["rank"], rank["host"], rank["address"], rank["name"]) for rank in result["ranks"]] == [
        (0, "node-a", "0000:1b:00", "NVIDIA H200"), (1, "node-a", "0000:43:00", "NVIDIA H200"),
    ]
    assert result["avg_busbw"] == 56.3858
    assert result["transport"] is None, "nothing was said about it"
    assert [item["size"] for item in result["rows"]] == [1048576, 2097152, 4194304]
    assert result["rows"][-1] == {
        "size": 4194304, "count": 1048576, "type": "float", "redop": "sum", "root": -1, "line": 14,
        "out_of_place": {"time_us": 52.4, "algbw": 80.04, "busbw": 80.04, "wrong": 0},
        "in_place": {"time_us": 52.2, "algbw": 80.35, "busbw": 80.35, "wrong": 0},
    }


def test_what_is_not_available_is_null() -> None:
    found = parse_nccl(HEAD + row(wrong="N/A") + END)["rows"][0]
    assert found["out_of_place"]["wrong"] is None and found["in_place"]["wrong"] is None
    assert found["out_of_place"]["busbw"] == 372.82


def test_old_releases_have_an_error_and_no_root() -> None:
    result = parse_nccl(OLD_HEAD + "  33554432       8388608     float     sum   4393.9    7.64   14.32  4e-07   4384.4    7.65   14.35  4e-07\n" + END)
    assert result["ok"] and result["test"] is None
    assert result["rows"][0]["root"] is None
    assert result["rows"][0]["out_of_place"] == {"time_us": 4393.9, "algbw": 7.64, "busbw": 14.32, "wrong": None}


@pytest.mark.parametrize(
    "line",
    [
        "#   Rank  3 Pid  38629 on    gpu-b01 device  3 [0x8d] Tesla V100-SXM3-32GB",
        "#  Rank  3 Group  0 Pid  38629 on gpu-b01 device  3 [0000:8d:00] NVIDIA H100 80GB HBM3",
    ],
)
def test_ranks_of_old_and_new_releases(line: str) -> None:
    rank = parse_nccl(line + "\n" + HEAD + ROW + END)["ranks"][0]
    assert (rank["rank"], rank["pid"], rank["host"], rank["device"]) == (3, 38629, "gpu-b01", 3)


def test_hosts_of_several_ranks_are_listed_once() -> None:
    ranks = "".join(f"#  Rank {rank} Group  0 Pid {rank} on node-{'ab'[rank // 2]} device {rank % 2} [0000:18:00] NVIDIA H200\n" for rank in range(4))
    assert parse_nccl(ranks + HEAD + ROW + END)["hosts"] == ["node-a", "node-b"]


def channel(via: str, rank: int = 0) -> str:
    return f"node-a:497888:498087 [{rank}] NCCL INFO Channel 00/0 : 16[0] -> 0[0] [receive] via {via}\n"


@pytest.mark.parametrize(
    ("vias", "word", "network"),
    [
        (["NET/IB/7/GDRDMA", "NET/IB/7/GDRDMA"], "all", {"NET/IB": {"channels": 2, "gdrdma": 2}}),
        (["NET/IB/0/GDRDMA(PCI)"], "all", {"NET/IB": {"channels": 1, "gdrdma": 1}}),
        (["NET/IBext_v8/3/GDRDMA/Shared"], "all", {"NET/IBext_v8": {"channels": 1, "gdrdma": 1}}),
        (["NET/IB/0", "NET/IB/1/GDRDMA"], "some", {"NET/IB": {"channels": 2, "gdrdma": 1}}),
        (["NET/Socket/0"], "none", {"NET/Socket": {"channels": 1, "gdrdma": 0}}),
        (["P2P/CUMEM", "SHM/direct/direct"], None, {}),
    ],
)
def test_the_transport_is_what_nccl_says_between_the_rows(vias: list[str], word: str | None, network: dict) -> None:
    result = parse_nccl(HEAD + ROW + "".join(map(channel, vias)) + row(2147483648) + "NCCL version 2.28.3+cuda13.0\n" + END)
    assert result["ok"] and [item["size"] for item in result["rows"]] == [1073741824, 2147483648]
    assert result["transport"]["gdrdma"] == word and result["transport"]["network"] == network
    if word is None:
        assert result["transport"]["local"] == {"P2P/CUMEM": 1, "SHM/direct": 1}


def test_a_line_of_nccl_at_the_end_of_a_row_is_none_of_it() -> None:
    result = parse_nccl(HEAD + ROW.rstrip("\n") + " " + channel("NET/IB/0") + END)
    assert result["ok"] and result["rows"][0]["in_place"]["busbw"] == 372.9
    assert result["transport"]["gdrdma"] == "none"


@pytest.mark.parametrize("tag", ["[1,0]<stdout>:", "0: "])
def test_tags_of_mpirun_and_srun_are_none_of_the_lines(tag: str) -> None:
    text = "".join(tag + line for line in (HEAD + ROW + END).splitlines(keepends=True))
    assert len(parse_nccl(text)["rows"]) == 1


# -- runs that failed -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (HEAD + ROW, "the run ended without its last line"),
        (HEAD, "the table has no row"),
        (HEAD + ROW + "  2147483648     536870912     float     sum      -1", "the row of 2147483648 bytes was not finished"),
        (HEAD + ROW + " 2147483648 536870912 float sum -1node-a: Test NCCL failure common.cu:958 'unhandled cuda error'\n", "not finished"),
        ("node-a: Test NCCL failure common.cu:1285 'invalid usage'\n .. node-a pid 776691: Test failure common.cu:1161\n", "common.cu:1285"),
        (HEAD + ROW + "# Out of bounds values : 3 FAILED\n# Avg bus bandwidth    : 150.5 \n", "3 values out of bounds"),
        (HEAD + row(wrong="7") + END, "7 wrong values at 1073741824 bytes (out-of-place)"),
        (HEAD + ROW + "# Out of bounds values : 0 OK\n# Avg bus bandwidth    : 150.5 FAILED\n", "below the NCCL_TESTS_MIN_BW"),
        (HEAD + ROW + "mpirun noticed that process rank 3 exited on signal 9 (Killed).\n", "mpirun noticed"),
    ],
)
def test_a_run_that_failed_says_why(text: str, reason: str) -> None:
    result = parse_nccl(text)
    assert not result["ok"]
    assert any(reason in failure["reason"] for failure in result["failures"]), result["failures"]
    assert all(text.count("\n") + 1 >= failure["line"] >= 1 for failure in result["failures"])


def test_a_warning_of_nccl_is_kept_and_no_failure() -> None:
    result = parse_nccl(HEAD + "node-a:1:2 [0] misc/ibvwrap.cc:94 NCCL WARN Call to ibv_open_device failed\n" + ROW + END)
    assert result["ok"] and result["warnings"] == [{"line": 4, "text": "Call to ibv_open_device failed"}]


def test_the_verdict_of_a_wanted_bandwidth_is_read() -> None:
    assert parse_nccl(HEAD + ROW + "# Avg bus bandwidth    : 150.5 OK\n")["min_busbw_verdict"] == "OK"


# -- what cannot be read ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("hello\n", "found no table of nccl-tests in 2 lines"),
        (HEAD + ROW.replace("372.82", "372,82") + END, "cannot read '372,82' as a number in line 4"),
        (HEAD + ROW.replace("372.82", "XXX.XX") + END, "cannot read 'XXX.XX' as a number in line 4"),
        (HEAD + ROW.replace("268435456", "lots") + END, "cannot read 'lots' as count in line 4"),
        (HEAD + ROW.rstrip("\n") + " 17\n" + END, "found 14 columns, the header has 13, in line 4"),
        (HEAD + ROW + HEAD + ROW + END, "a second table begins in line 6"),
        (HEAD.replace("(us)", "(ms)") + ROW + END, "times are in (ms), wanted (us), in line 3"),
        (HEAD.replace("busbw", "wombat") + ROW + END, "cannot read the columns"),
    ],
)
def test_a_table_that_cannot_be_read_is_an_error_with_its_line(text: str, message: str) -> None:
    with pytest.raises(NcclError) as raised:
        parse_nccl(text)
    assert message in str(raised.value)


@pytest.mark.parametrize("value", [None, 7, b"# size", ["x"]])
def test_only_text_is_read(value: object) -> None:
    with pytest.raises(NcclError, match="must be text"):
        parse_results(value)


# -- p2pBandwidthLatencyTest ------------------------------------------------------------------------------------------


def test_the_recorded_output_of_the_p2p_test(reference: Path) -> None:
    result = parse_results((reference / "data" / "samples" / "p2pBandwidthLatencyTest.txt").read_text(encoding="utf-8"))
    assert result["kind"] == "p2p" and result["ok"], result["failures"]
    assert [device["address"] for device in result["devices"]] == ["0000:1b:00.0", "0000:43:00.0"]
    assert result["connectivity"] == [[1, 1], [1, 1]]
    assert result["unidirectional_enabled"] == [[4011.0, 395.4], [395.1, 4013.0]]
    assert result["unidirectional_disabled"][0][1] == 55.2
    assert result["bidirectional_enabled"][1][0] == 771.0 and result["bidirectional_disabled"][1][0] == 70.2
    assert result["latency_enabled"] == {"gpu": [[2.2, 2.6], [2.61, 2.21]], "cpu": [[2.7, 2.1], [2.1, 2.7]]}
    assert result["latency_disabled"]["gpu"][0][1] == 15.1


P2P = "P2P Connectivity Matrix\n     D\\D     0     1\n     0\t     1     1\n     1\t     1     1\n"


def test_a_p2p_test_that_was_cut_says_what_is_missing() -> None:
    result = parse_p2p(P2P)
    assert not result["ok"] and "ended without unidirectional_disabled" in result["failures"][0]["reason"]
    assert result["connectivity"] == [[1, 1], [1, 1]]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (P2P.replace("     1\t     1     1\n", "     2\t     1     1\n"), "wanted the row of GPU 1 with 2 values in line 4"),
        (P2P.replace("     1\t     1     1\n", "\nhello"), "has 1 rows of 2 before line 4"),
        (P2P + "Unidirectional P2P=Enabled Bandwidth (P2P Writes) Matrix (MB/s)\n", "values are in MB/s, wanted GB/s"),
        (P2P.replace("1     1\n     1", "1     x\n     1"), "cannot read 'x' as a number in line 3"),
    ],
)
def test_a_matrix_that_is_not_whole_is_an_error_with_its_line(text: str, message: str) -> None:
    with pytest.raises(NcclError) as raised:
        parse_p2p(text)
    assert message in str(raised.value)


def test_a_p2p_test_is_told_from_the_others() -> None:
    assert nccl_results.is_p2p(P2P) and not nccl_results.is_p2p(HEAD + ROW)
