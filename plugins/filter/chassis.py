# Copyright (c) 2026 The inferops.locality authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Filters of plan.yml: from a topology to the group variables of its chassis."""

from __future__ import annotations

from typing import Any, Callable

from ansible.errors import AnsibleFilterError

from ansible_collections.inferops.locality.plugins.plugin_utils import chassis_vars
from ansible_collections.inferops.locality.plugins.plugin_utils.plain import plain


def _topology(value: Any, name: str) -> Any:
    if not hasattr(value, "get"):
        raise AnsibleFilterError(f"{name}: the input must be the facts of numa_topology, not {type(value).__name__}")
    return plain(value)


def locality_chassis(topology: Any) -> Any:
    return chassis_vars.measure(_topology(topology, "locality_chassis"))


def locality_chassis_name(topology: Any) -> Any:
    return chassis_vars.model_name(_topology(topology, "locality_chassis_name"))


def locality_chassis_vars(chassis: Any, model: Any, source: Any) -> Any:
    try:
        return chassis_vars.render(_topology(chassis, "locality_chassis_vars"), str(model), str(source))
    except ValueError as error:
        raise AnsibleFilterError(str(error)) from error


class FilterModule:
    """Filters of this file."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        return {
            "locality_chassis": locality_chassis,
            "locality_chassis_name": locality_chassis_name,
            "locality_chassis_vars": locality_chassis_vars,
        }
