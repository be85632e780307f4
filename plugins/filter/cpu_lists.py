# Copyright (c) 2026 The inferops.locality authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Filters over CPU lists. They are documented in the files named after them."""

from __future__ import annotations

from typing import Any, Callable, Dict

from ansible.errors import AnsibleFilterError

from ansible_collections.inferops.locality.plugins.module_utils import cpulist


def _read(value: Any, what: str) -> cpulist.CpuSet:
    """A CPU list, or a list of CPU numbers. Numbers alone are taken too: YAML reads ``cpus: 3`` as one."""
    if isinstance(value, bool):
        raise AnsibleFilterError(f"{what}: needs a CPU list such as '0-3,8', not {value!r}")
    if isinstance(value, int):
        value = str(value)
    if isinstance(value, (list, tuple)):
        if any(isinstance(item, (bool, dict, list, tuple)) or item is None for item in value):
            raise AnsibleFilterError(f"{what}: needs a list of CPU numbers, not {list(value)!r}")
        value = ",".join(str(item) for item in value)
    if not isinstance(value, str):
        raise AnsibleFilterError(f"{what}: needs a CPU list such as '0-3,8', not {type(value).__name__}")
    try:
        return cpulist.from_list(value)
    except cpulist.CpuListError as error:
        raise AnsibleFilterError(f"{what}: {error}") from error


def cpu_list(value: Any, isolcpus: bool = False) -> str:
    if isolcpus and isinstance(value, str):
        try:
            return cpulist.to_list(cpulist.from_isolcpus(value)[1])
        except cpulist.CpuListError as error:
            raise AnsibleFilterError(f"cpu_list: {error}") from error
    return cpulist.to_list(_read(value, "cpu_list"))


def cpu_mask(value: Any, width: Any = None) -> str:
    if width is not None and (isinstance(width, bool) or not isinstance(width, int) or width < 1):
        raise AnsibleFilterError(f"cpu_mask: width must be a number of CPUs from 1, not {width!r}")
    try:
        return cpulist.to_mask(_read(value, "cpu_mask"), width)
    except cpulist.CpuListError as error:
        raise AnsibleFilterError(f"cpu_mask: {error}") from error


def cpu_from_mask(value: Any) -> str:
    if not isinstance(value, str):
        raise AnsibleFilterError(f"cpu_from_mask: needs a mask such as 'ff,00000000', not {type(value).__name__} (quote it)")
    try:
        return cpulist.to_list(cpulist.from_mask(value))
    except cpulist.CpuListError as error:
        raise AnsibleFilterError(f"cpu_from_mask: {error}") from error


def cpu_count(value: Any) -> int:
    return len(_read(value, "cpu_count"))


def cpu_union(value: Any, *others: Any) -> str:
    return cpulist.to_list(_read(value, "cpu_union").union(*(_read(other, "cpu_union") for other in others)))


def cpu_difference(value: Any, *others: Any) -> str:
    return cpulist.to_list(_read(value, "cpu_difference").difference(*(_read(other, "cpu_difference") for other in others)))


def cpu_intersection(value: Any, *others: Any) -> str:
    return cpulist.to_list(_read(value, "cpu_intersection").intersection(*(_read(other, "cpu_intersection") for other in others)))


class FilterModule:
    """CPU list filters."""

    def filters(self) -> Dict[str, Callable[..., Any]]:
        return {
            "cpu_count": cpu_count,
            "cpu_difference": cpu_difference,
            "cpu_from_mask": cpu_from_mask,
            "cpu_intersection": cpu_intersection,
            "cpu_list": cpu_list,
            "cpu_mask": cpu_mask,
            "cpu_union": cpu_union,
        }
