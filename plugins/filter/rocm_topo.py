# Copyright (c) 2026 The inferops.locality authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Filter rocm_topo."""

from __future__ import annotations

from typing import Any, Callable, Dict

from ansible.errors import AnsibleFilterError

from ansible_collections.inferops.locality.plugins.module_utils import topo_matrix

DOCUMENTATION = r"""
name: rocm_topo
short_description: Read the matrices of rocm-smi --showtopo
version_added: 0.1.0
author:
  - The inferops.locality authors (@inferops)
description:
  - Reads the text of C(rocm-smi --showtopo). A text without a matrix, or with a row that was cut, is an error that quotes the line.
options:
  _input:
    description:
      - The text.
    type: str
    required: true
"""

EXAMPLES = r"""
- name: Ask rocm-smi
  ansible.builtin.command:
    argv: [rocm-smi, --showtopo]
  register: printed
  changed_when: false

- name: Show the NUMA node of each GPU
  ansible.builtin.debug:
    msg: "{{ (printed.stdout | inferops.locality.rocm_topo).gpus | items2dict(key_name='name', value_name='numa_node') }}"
"""

RETURN = r"""
_value:
  description: The matrices, in the shape of P(inferops.locality.nvidia_topo#filter).
  type: dict
  contains:
    gpus:
      description:
        - One entry for each GPU. C(numa_node) and C(numa_affinity) are as printed, and null for V(-1). The keys of
          P(inferops.locality.nvidia_topo#filter) that rocm-smi does not print are null.
      type: list
      elements: dict
    nics:
      description: Always empty. rocm-smi prints no NICs.
      type: list
      elements: dict
    relations:
      description: For each row, the link type to each other GPU, such as V(XGMI) or V(PCIE).
      type: dict
    weights:
      description: For each row, the weight of the link to each other GPU.
      type: dict
    hops:
      description: For each row, the hops to each other GPU.
      type: dict
    problems:
      description: What could not be read, as C(line) and C(reason).
      type: list
      elements: dict
"""


def rocm_topo(text: Any) -> Dict[str, Any]:
    try:
        return topo_matrix.parse_rocm_topo(text)
    except topo_matrix.TopoError as error:
        raise AnsibleFilterError(f"rocm_topo: {error}") from error


class FilterModule:
    """Filter rocm_topo."""

    def filters(self) -> Dict[str, Callable[..., Any]]:
        return {"rocm_topo": rocm_topo}
