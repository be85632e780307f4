# Copyright (c) 2026 The inferops.locality authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Filters of the playbooks and of the role observe: what drifts, what refuses a host, what a run did."""

from __future__ import annotations

import os
from typing import Any, Callable

from ansible.errors import AnsibleFilterError
from ansible.module_utils.parsing.convert_bool import boolean

from ansible_collections.inferops.locality.plugins.plugin_utils import cluster_chart, maintenance, record_files, report, rollout
from ansible_collections.inferops.locality.plugins.plugin_utils.plain import plain


def _mapping(value: Any, name: str) -> Any:
    if not hasattr(value, "get"):
        raise AnsibleFilterError(f"{name}: the input must be a mapping, not {type(value).__name__}")
    return value


def locality_drifting(drift: Any, layers: Any = None) -> Any:
    return report.drifting(_mapping(drift, "locality_drifting"), layers)


def locality_errors(result: Any) -> Any:
    return report.errors(_mapping(result, "locality_errors"))


def locality_layers(run_tags: Any, skip_tags: Any = ()) -> Any:
    return report.layers(run_tags, skip_tags)


def locality_strange_tags(run_tags: Any, skip_tags: Any = ()) -> Any:
    return report.strange_tags(run_tags, skip_tags)


def locality_refusal(result: Any, mode: str = "preflight") -> Any:
    return report.refusal(_mapping(result, "locality_refusal"), mode)


def locality_proof(result: Any, names: bool = False) -> Any:
    return (report.drift_names if names else report.proof)(_mapping(result, "locality_proof"))


def locality_stale_files(state: Any, plan: Any) -> Any:
    return report.stale_files(_mapping(state, "locality_stale_files"), _mapping(plan, "locality_stale_files"))


def locality_results(hostvars: Any, hosts: Any) -> Any:
    return report.results(_mapping(hostvars, "locality_results"), hosts)


def locality_maintenance_errors(value: Any, gate: Any = None) -> Any:
    return maintenance.check(plain(value), (gate or {}).get("errors") or ())


def locality_rollout(  # noqa: PLR0913
    result: Any, state: Any, layers: Any = report.LAYERS, reboot_ok: Any = False, allow_no_fallback: Any = False, cluster: Any = False,
) -> Any:
    return rollout.findings(
        plain(_mapping(result, "locality_rollout")), plain(_mapping(state, "locality_rollout")), layers=list(layers), reboot_ok=boolean(reboot_ok),
        allow_no_fallback=boolean(allow_no_fallback), cluster=boolean(cluster),
    )


def locality_cost(entries: Any) -> Any:
    return report.cost_line(plain(entries))


def locality_turns(groups: Any, chosen: str, part: str = "all") -> Any:
    try:
        return report.turns(_mapping(groups, "locality_turns"), chosen, part)
    except ValueError as exc:
        raise AnsibleFilterError(f"locality_turns: {exc}") from exc


def locality_removal(state: Any, reboot_required: Any, reboot_ok: Any = False, cluster: Any = False) -> Any:
    return rollout.removal(
        plain(_mapping(state, "locality_removal")), reboot_required=boolean(reboot_required), reboot_ok=boolean(reboot_ok), cluster=boolean(cluster),
    )


def locality_charts(hostvars: Any, hosts: Any, reached: Any, everyone: Any = False) -> Any:
    return cluster_chart.clusters(_mapping(hostvars, "locality_charts"), list(hosts), list(reached), boolean(everyone))


def locality_file_name(host: Any) -> str:
    return record_files.file_name(str(host))


def locality_record_path(records_dir: Any, host: str, name: str, inventory_dir: Any = None) -> str:
    # As somebody names a run: by its name, its file, or the file's path.
    name = os.path.basename(name)
    return record_files.of_host(record_files.folder(str(records_dir), inventory_dir), host, name[:-len(".json")] if name.endswith(".json") else name)


def locality_would_stay(pods: Any) -> Any:
    return rollout.would_stay(list(plain(pods)))


def locality_unfinished(mark: Any, state: Any, cordoned: Any = True) -> Any:
    return rollout.unfinished(
        None if mark is None else plain(_mapping(mark, "locality_unfinished")), plain(_mapping(state, "locality_unfinished")), cordoned=boolean(cordoned),
    )


class FilterModule:
    """Filters of this file."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        return {
            "locality_charts": locality_charts,
            "locality_cost": locality_cost,
            "locality_drifting": locality_drifting,
            "locality_errors": locality_errors,
            "locality_file_name": locality_file_name,
            "locality_layers": locality_layers,
            "locality_maintenance_errors": locality_maintenance_errors,
            "locality_proof": locality_proof,
            "locality_record_path": locality_record_path,
            "locality_refusal": locality_refusal,
            "locality_removal": locality_removal,
            "locality_results": locality_results,
            "locality_rollout": locality_rollout,
            "locality_stale_files": locality_stale_files,
            "locality_strange_tags": locality_strange_tags,
            "locality_turns": locality_turns,
            "locality_unfinished": locality_unfinished,
            "locality_would_stay": locality_would_stay,
        }
