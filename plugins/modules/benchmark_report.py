#!/usr/bin/python
# Copyright (c) 2026 The inferops.locality authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Documentation of the action benchmark_report, which runs on the controller."""

from __future__ import annotations

DOCUMENTATION = r"""
module: benchmark_report
short_description: Compare recorded runs of nccl-tests, p2pBandwidthLatencyTest, cyclictest, oslat and rtla timerlat
version_added: 0.1.0
author:
  - The inferops.locality authors (@inferops)
description:
  - Reads a folder of outputs, compares the runs of each test, prints a report and writes it as C(report.txt), C(report.json) and C(report.svg).
  - Runs lie in C(PLACE/aligned) and C(PLACE/misaligned), or in C(PLACE/before) and C(PLACE/after), as files that end with C(.txt), C(.log) or C(.out). A
    place is a node, or nodes that were measured together. The last number in a file's name is its place in the order of the runs, over both folders.
  - nccl-tests are judged by the bus bandwidth of the three largest sizes, p2pBandwidthLatencyTest by its slowest pair of GPUs, cyclictest, oslat and
    C(rtla timerlat top) by their worst thread.
  - A kind of run is called ahead only where each of its runs is ahead of each run of the other kind, with four runs of each at least, made alternately on the
    same nodes. Otherwise the report says why there is no winner.
  - Runs that failed or cannot be read are left out, and listed with the line that says why.
options:
  src:
    description: The folder with the runs, on the controller.
    type: path
    required: true
  dest:
    description: The folder for the report, the one with the runs by default.
    type: path
attributes:
  check_mode:
    support: full
    description: Prints the report, and writes nothing.
  diff_mode:
    support: full
    description: Shows the difference of the text and the data.
"""

EXAMPLES = r"""
- name: Compare what was recorded
  inferops.locality.benchmark_report:
    src: results/h200
"""

RETURN = r"""
results:
  description: The content of C(report.json).
  returned: success
  type: dict
  contains:
    places:
      description:
        - One entry for each place with C(place), C(facts) (the content of C(PLACE/facts.json)), C(problems) (C(file) and C(reason)) and C(tests).
        - A test has C(test), C(names), C(rows) (for each size the median, smallest and largest of each kind, and their ratio with its spread), C(judged),
          C(winner) (null where there is none), C(reasons), C(transport), C(hosts), C(gpus) and C(runs).
      type: list
      elements: dict
files:
  description: The files of the report.
  returned: success
  type: list
  elements: str
  sample: [results/h200/report.txt, results/h200/report.json, results/h200/report.svg]
"""
