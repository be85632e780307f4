# Copyright (c) 2026 The inferops.locality authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Filter nvidia_topo_differences."""

from __future__ import annotations

from typing import Any, Callable, Dict

from ansible.errors import AnsibleFilterError

from ansible_collections.inferops.locality.plugins.module_utils import topo_matrix

DOCUMENTATION = r"""
name: nvidia_topo_differences
short_description: Compare nvidia-smi's relations with the computed ones
version_added: 0.1.0
author:
  - The inferops.locality authors (@inferops)
description:
  - Compares the relations that C(nvidia-smi topo -m) prints with those M(inferops.locality.numa_topology) computes from sysfs.
  - GPU pairs joined by NVLink are not compared, since V(NV#) hides their PCIe relation.
positional: topology, addresses
options:
  _input:
    description:
      - The text of C(nvidia-smi topo -m), or the result of P(inferops.locality.nvidia_topo#filter).
    type: raw
    required: true
  topology:
    description:
      - The facts of M(inferops.locality.numa_topology).
    type: dict
    required: true
  addresses:
    description:
      - The text of C(nvidia-smi --query-gpu=index,pci.bus_id --format=csv,noheader).
    type: str
    required: true
"""

EXAMPLES = r"""
- name: Show where nvidia-smi and sysfs disagree
  ansible.builtin.debug:
    msg: "{{ matrix.stdout | inferops.locality.nvidia_topo_differences(ansible_facts.numa_topology, addresses.stdout) }}"
"""

RETURN = r"""
_value:
  description:
    - One entry for each difference, with C(gpu), C(gpu_address), C(other), C(other_address), C(printed), C(computed) and C(reason). Empty if both agree.
  type: list
  elements: dict
"""


def nvidia_topo_differences(printed: Any, topology: Any, addresses: Any) -> Any:
    if not isinstance(topology, dict):
        raise AnsibleFilterError(f"nvidia_topo_differences: topology must be the facts of numa_topology, not {type(topology).__name__}")
    try:
        matrix = printed if isinstance(printed, dict) else topo_matrix.parse_nvidia_topo(printed)
        return topo_matrix.compare_relations(topology, matrix, topo_matrix.parse_gpu_addresses(addresses))
    except topo_matrix.TopoError as error:
        raise AnsibleFilterError(f"nvidia_topo_differences: {error}") from error


class FilterModule:
    """Filter nvidia_topo_differences."""

    def filters(self) -> Dict[str, Callable[..., Any]]:
        return {"nvidia_topo_differences": nvidia_topo_differences}
