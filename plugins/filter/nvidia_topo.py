# Copyright (c) 2026 The inferops.locality authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Filter nvidia_topo."""

from __future__ import annotations

from typing import Any, Callable, Dict

from ansible.errors import AnsibleFilterError

from ansible_collections.inferops.locality.plugins.module_utils import topo_matrix

DOCUMENTATION = r"""
name: nvidia_topo
short_description: Read the matrix of nvidia-smi topo -m
version_added: 0.1.0
author:
  - The inferops.locality authors (@inferops)
description:
  - Reads the text of C(nvidia-smi topo -m) as it comes from a command, a terminal or a bug report, with tabs or blanks, colour codes,
    old and new columns, and glued or empty cells.
  - Returns what a row says beyond doubt. Cells that cannot be told apart are null with a problem; a text without a matrix, or with a row that
    was cut, is an error that quotes the line.
options:
  _input:
    description:
      - The text.
    type: str
    required: true
"""

EXAMPLES = r"""
- name: Ask nvidia-smi
  ansible.builtin.command:
    argv: [nvidia-smi, topo, -m]
  register: printed
  changed_when: false

- name: Show which NICs are beside GPU 0
  ansible.builtin.debug:
    msg: "{{ (printed.stdout | inferops.locality.nvidia_topo).relations.GPU0 | dict2items | selectattr('value', 'in', ['PIX', 'PXB']) }}"
"""

RETURN = r"""
_value:
  description: The matrix.
  type: dict
  contains:
    gpus:
      description:
        - One entry for each GPU column, with C(name), C(cpu_affinity), C(cpu_affinity_complete), C(numa_affinity) and C(gpu_numa_id).
        - Affinities are as printed, and null for V(N/A), empty cells and columns that are not there.
        - nvidia-smi cuts long CPU lists without saying so. C(cpu_affinity_complete) is V(false) where a list may have been cut, that is, where it has
          ten characters or more, had fewer before its last entry, and is neither one range nor two ranges of the same length.
      type: list
      elements: dict
    nics:
      description: One entry for each NIC column, with C(name) and C(device), the RDMA device name of the legend.
      type: list
      elements: dict
    relations:
      description: For each row, a word such as V(PIX) or V(NV18) for each other column, each row for itself.
      type: dict
    problems:
      description: What could not be read, as C(line) and C(reason).
      type: list
      elements: dict
"""


def nvidia_topo(text: Any) -> Dict[str, Any]:
    try:
        return topo_matrix.parse_nvidia_topo(text)
    except topo_matrix.TopoError as error:
        raise AnsibleFilterError(f"nvidia_topo: {error}") from error


class FilterModule:
    """Filter nvidia_topo."""

    def filters(self) -> Dict[str, Callable[..., Any]]:
        return {"nvidia_topo": nvidia_topo}
