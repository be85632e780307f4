#!/usr/bin/python
# Copyright (c) 2026 The inferops.locality authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Documentation of the action locality_report, which runs on the controller."""

from __future__ import annotations

DOCUMENTATION = r"""
module: locality_report
short_description: Print the summary of a run
version_added: 0.1.0
author:
  - The inferops.locality authors (@inferops)
description:
  - Prints for each node its CPU lists, capacity, GPU and NIC pairs, findings, what its drift costs to mend, and how the run ended for it.
  - Runs on the controller and needs no connection.
options:
  results:
    description: What P(inferops.locality.locality_results#filter) collected.
    type: dict
    required: true
  style:
    description:
      - V(table) prints everything about each node, V(audit) what is not as planned.
      - V(plan) prints everything in the words of a plan that is not in force yet.
    type: str
    choices: [table, audit, plan]
    default: table
  record:
    description:
      - Leave the run under this name on the controller, as JSON. Its summary is written to each folder that a host of O(results) has as C(records_dir), and
        what is known of each host to a folder of the host's name in the host's own. Without such a folder nothing is written.
      - A name that another run has already gets a number.
    type: str
  layers:
    description: The layers that the run brought to their plan, for the record.
    type: list
    elements: str
    choices: [host, irq, kubelet, network, dra]
    default: [host, irq, kubelet, network, dra]
  started:
    description: When the run began, for the record.
    type: str
attributes:
  check_mode:
    support: full
    description: Prints in check mode too; the record is not written then.
  diff_mode:
    support: none
    description: Has no diff.
"""

EXAMPLES = r"""
- name: Show the summary
  inferops.locality.locality_report:
    results: "{{ hostvars | inferops.locality.locality_results(groups['all']) }}"
"""

RETURN = r"""
summary:
  description: The run for programs, with C(counts) by outcome and C(hosts).
  returned: success
  type: dict
count:
  description: How many nodes ended how, in one line.
  returned: success
  type: str
record:
  description: The name under which the run was written, in check mode the one that was asked for.
  returned: when O(record) is given and a host has a folder for it
  type: str
records:
  description: The files with the summary.
  returned: when they were written
  type: list
  elements: str
"""
