# Copyright (c) 2026 The inferops.locality authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Filter nccl_results."""

from __future__ import annotations

from typing import Any, Callable, Dict

from ansible.errors import AnsibleFilterError

from ansible_collections.inferops.locality.plugins.module_utils import nccl_results as results

DOCUMENTATION = r"""
name: nccl_results
short_description: Read the output of nccl-tests or p2pBandwidthLatencyTest
version_added: 0.1.0
author:
  - The inferops.locality authors (@inferops)
description:
  - Reads what C(all_reduce_perf), C(all_gather_perf) and the other nccl-tests print, of present and older releases, with the lines of mpirun, srun and
    C(NCCL_DEBUG=INFO) between the rows; and what C(p2pBandwidthLatencyTest) prints.
  - A run that failed or was cut has C(ok) V(false), and C(failures) with the lines that say why.
  - A text without a table, and a row that cannot be read, is an error that quotes the line.
options:
  _input:
    description:
      - The text.
    type: str
    required: true
"""

EXAMPLES = r"""
- name: Run all_reduce on the GPUs of one node
  ansible.builtin.command:
    argv: [all_reduce_perf, -b, "8", -e, 8G, -f, "2", -g, "8"]
  environment:
    NCCL_DEBUG: INFO
  register: printed
  changed_when: false

- name: Show the bus bandwidth of the largest size
  ansible.builtin.debug:
    msg: "{{ (printed.stdout | inferops.locality.nccl_results).rows[-1].out_of_place.busbw }} GB/s"
"""

RETURN = r"""
_value:
  description: What was measured.
  type: dict
  contains:
    kind:
      description: V(nccl) or V(p2p). The keys below are those of V(nccl), unless they say otherwise.
      type: str
    test:
      description: The name of the test; null where the release does not print it.
      type: str
    ok:
      description: For both kinds, whether the run came to its end and what it moved was right.
      type: bool
    failures:
      description: For both kinds, why it is not, as C(line) and C(reason).
      type: list
      elements: dict
    ranks:
      description: The GPUs, with C(rank), C(host), C(device), C(address) and C(name).
      type: list
      elements: dict
    rows:
      description:
        - One entry for each size, with C(size) in bytes, C(count), C(type), C(redop), C(root), C(line), and C(out_of_place) and C(in_place) with C(time_us),
          C(algbw) and C(busbw) in GB/s and C(wrong), the number of wrong values. V(N/A) is null.
      type: list
      elements: dict
    avg_busbw:
      description: The average over all sizes as printed. It is mostly that of small messages; compare runs by their largest sizes.
      type: float
    transport:
      description:
        - What NCCL said it uses, counted by channel. Null without C(NCCL_DEBUG=INFO).
        - C(network) by the name of the network with C(channels) and C(gdrdma), C(local) by the name of the way inside a node, and C(gdrdma), V(all), V(some) or
          V(none) of the network's channels; null where no channel leaves the node.
      type: dict
    devices:
      description: For V(p2p), the GPUs with C(index), C(name) and C(address).
      type: list
      elements: dict
    unidirectional_enabled:
      description:
        - For V(p2p), a matrix of GB/s in the order of C(devices). C(unidirectional_disabled), C(bidirectional_enabled), C(bidirectional_disabled) and
          C(connectivity) are of the same form; C(latency_enabled) and C(latency_disabled) have matrices C(gpu) and C(cpu) in microseconds.
      type: list
      elements: list
"""


def nccl_results(text: Any) -> Dict[str, Any]:
    try:
        return results.parse_results(text)
    except results.NcclError as error:
        raise AnsibleFilterError(f"nccl_results: {error}") from error


class FilterModule:
    """Filter nccl_results."""

    def filters(self) -> Dict[str, Callable[..., Any]]:
        return {"nccl_results": nccl_results}
