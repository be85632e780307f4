# Copyright (c) 2026 The inferops.locality authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Recorded outputs of cyclictest and oslat (rt-tests 2.4), numbers shortened; of rtla timerlat in the form that the kernel's documentation has."""

from __future__ import annotations

import pytest

from ansible_collections.inferops.locality.plugins.module_utils.latency_results import LatencyError, is_latency, latency_metrics, parse_latency

CYCLICTEST = """\
# /dev/cpu_dma_latency set to 0us
T: 0 (17876) P:95 I:2000 C:    300 Min:     30 Act:  109 Avg:  359 Max:   32213
T: 1 (17877) P:95 I:2500 C:    266 Min:     22 Act:   77 Avg:  417 Max:    5020
"""
OSLAT = """\
oslat V 2.40
Total runtime: \t\t2 seconds
        Core:\t 0 1
Counter Freq:\t 2304 2298 (Mhz)
    001 (us):\t 10436662 10791853
    032 (us):\t 185 348 (including overflows)
     Minimum:\t 1 1 (us)
     Average:\t 1.165 1.160 (us)
     Maximum:\t 36624 43027 (us)
     Max-Min:\t 36623 43026 (us)
    Duration:\t 1.997 2.025 (sec)
"""
RTLA = """\
                                     Timer Latency
  0 00:10:00   |          IRQ Timer Latency (us)        |         Thread Timer Latency (us)
CPU COUNT      |      cur       min       avg       max |      cur       min       avg       max
  2 #600000    |        1         0         1        14 |       10         3         9        52
  3 #600000    |        0         0         1        12 |        8         2         8       131 <--- CPU with spike
  4 #0         |        -         -         -         - |        -         -         -         -
---------------|----------------------------------------|---------------------------------------
ALL #1200000 e0|                  0         1        14 |                  2         8       131
"""
RTLA_USER = """\
                                     Timer Latency
  0 00:01:00   |          IRQ Timer Latency (us)        |         Thread Timer Latency (us)      |    Ret user Timer Latency (us)
CPU COUNT      |      cur       min       avg       max |      cur       min       avg       max |      cur       min       avg       max
  2 #60000     |        1         1         6        41 |       11         7        18       367 |       14        10        22       372
"""


def test_cyclictest_has_a_line_for_each_thread() -> None:
    result = parse_latency(CYCLICTEST)
    assert result["test"] == "cyclictest" and result["threads"][1] == {"thread": 1, "min_us": 22.0, "avg_us": 417.0, "max_us": 5020.0}
    assert latency_metrics(result) == {"worst_us": 32213.0, "worst_average_us": 417.0}


def test_without_quiet_the_last_line_of_a_thread_counts() -> None:
    again = CYCLICTEST + "\x1b[1AT: 0 (17876) P:95 I:2000 C:    900 Min:     30 Act:  109 Avg:  300 Max:   40000\r\n"
    assert [thread["max_us"] for thread in parse_latency(again)["threads"]] == [40000.0, 5020.0]


def test_oslat_has_a_column_for_each_cpu() -> None:
    result = parse_latency(OSLAT)
    assert result["test"] == "oslat" and result["threads"][0] == {"cpu": 0, "min_us": 1.0, "avg_us": 1.165, "max_us": 36624.0}
    assert latency_metrics(result)["worst_us"] == 43027.0


def test_rtla_timerlat_has_a_row_for_each_cpu_and_the_last_table_counts() -> None:
    result = parse_latency(RTLA)
    assert result["test"] == "rtla-timerlat" and result["ok"]
    assert result["threads"] == [{"cpu": 2, "min_us": 3.0, "avg_us": 9.0, "max_us": 52.0}, {"cpu": 3, "min_us": 2.0, "avg_us": 8.0, "max_us": 131.0}]
    assert latency_metrics(result) == {"worst_us": 131.0, "worst_average_us": 9.0}
    assert parse_latency(RTLA.replace("131", "999") + RTLA) == result


def test_rtla_with_threads_of_user_space_is_a_test_of_its_own() -> None:
    result = parse_latency(RTLA_USER)
    assert result["test"] == "rtla-timerlat-user" and result["threads"] == [{"cpu": 2, "min_us": 10.0, "avg_us": 22.0, "max_us": 372.0}]


def test_a_run_that_a_threshold_ended_is_no_whole_run() -> None:
    result = parse_latency(RTLA + "rtla timerlat hit stop tracing\n")
    assert not result["ok"] and result["failures"] == [{"line": 9, "reason": "a threshold ended it early: rtla timerlat hit stop tracing"}]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("hello", "found no output of cyclictest, oslat or rtla"),
        (None, "found no output"),
        (CYCLICTEST.replace("Max:    5020", "Max:"), "cannot read line 3"),
        (OSLAT.split("     Maximum", maxsplit=1)[0], "ended without its line 'Maximum:'"),
        (RTLA.replace("52\n", "\n"), "cannot read line 4"),
        (RTLA_USER.replace(" |       14        10        22       372", ""), "cannot read line 4: '2 #60000"),
        (RTLA.split("  2 #", maxsplit=1)[0], "no row with numbers"),
        (OSLAT.replace("36624 43027", "36624"), "line 9: 'Maximum' has 1 values for 2 CPUs"),
    ],
)
def test_what_was_cut_is_an_error_with_its_line(text: object, message: str) -> None:
    with pytest.raises(LatencyError) as raised:
        parse_latency(text)
    assert message in str(raised.value)


def test_other_texts_are_not_taken_for_latencies() -> None:
    assert is_latency(CYCLICTEST) and is_latency(OSLAT) and is_latency(RTLA) and not is_latency("T: nothing") and not is_latency(7)
