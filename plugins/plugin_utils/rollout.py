# Copyright (c) 2026 The inferops.locality authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What forbids to disturb a running node, beside what is wrong with it or its plan: said before anything is touched."""

from __future__ import annotations

from typing import Any, Mapping, Sequence

from ansible_collections.inferops.locality.plugins.module_utils import findings as findings_m
from ansible_collections.inferops.locality.plugins.plugin_utils import report

_ALLOW_REBOOT = "set locality_reboot_ok: true where the node may be rebooted"


def findings(  # noqa: PLR0913
    result: Mapping[str, Any], state: Mapping[str, Any], *, layers: Sequence[str], reboot_ok: bool, allow_no_fallback: bool, cluster: bool,
) -> list[dict[str, str]]:
    """Findings of a running node that drifts; none for one in sync.

    :param result: what the role observe found: ``plan``, ``drifting``.
    :param state: ``ansible_facts.locality_state``.
    :param layers: those that the run brings to their plan.
    :param cluster: the node is taken out of its cluster before it is disturbed.
    """
    found = findings_m.Findings()
    entries = list(result.get("drifting") or [])
    _reboot(entries, result, state, reboot_ok, allow_no_fallback, found)
    disturbing = [entry["knob"] for entry in entries if entry["needs"] != "live"]
    if disturbing and not cluster:
        found.note("site.no_cluster", "locality_kubeconfig is not set: the node is disturbed without lock, cordon and drain")
    rebooted = any(entry["needs"] == "reboot" for entry in entries)
    if "kubelet" in layers and not (cluster or rebooted) and any(entry["knob"].startswith("kubelet.") for entry in entries):
        _state_files(state, result.get("plan") or {}, "wanted: the knobs of its plan", found)
    return found.sorted()


def removal(state: Mapping[str, Any], *, reboot_required: bool, reboot_ok: bool, cluster: bool) -> list[dict[str, str]]:
    """Findings of a running node from which everything is to be taken off.

    :param reboot_required: boot arguments of ours are in force.
    :param cluster: the node is taken out of its cluster before it is disturbed.
    """
    found = findings_m.Findings()
    if reboot_required and not reboot_ok:
        found.error(
            "boot.reboot_not_allowed", "boot arguments of this collection are in force, and only a reboot ends that",
            _ALLOW_REBOOT,
        )
    # Without our arguments the kubelet has its own defaults.
    if not (cluster or reboot_required):
        _state_files(state, {"knobs": {"kubelet.state_files": "consistent"}}, "wanted: {}", found)
    return found.sorted()


def unfinished(mark: Mapping[str, Any] | None, state: Mapping[str, Any], *, cordoned: bool) -> list[dict[str, str]]:
    """How an earlier run left a node whose turn it began; empty where none did. For a node that this run may not get to.

    :param mark: of the turn, as the module node_cordon reads it. :param state: ``ansible_facts.locality_state``.
    :param cordoned: the scheduler puts no pods on the node.
    """
    found = findings_m.Findings()
    told = []
    if mark is not None:
        told.append(
            f"the run {mark['run']} began the turn of this node at {mark['since']} and did not end it: the node {'is cordoned' if cordoned else 'is marked'}, "
            "and no other node of its cluster is taken out before it is ended",
        )
    runs = (state.get("kubelet") or {}).get("runs") or {}
    if runs.get("left") and runs.get("unit") is not True:
        told.append(f"RKE2 {'is' if runs.get('unit') is False else 'may be'} stopped, by a run that did not get to its end")
    if told:
        found.warning(
            report.UNFINISHED, "; ".join(told),
            "the next run that may touch the node ends this: mend what keeps it from the node and run again; docs/rollout.md has the way by hand",
        )
    return found.sorted()


def would_stay(pods: Sequence[str]) -> list[dict[str, str]]:
    """That pods would be in the way of another datapath mode. :param pods: those that neither a drain nor the taint sends away, as cilium_agent names them."""
    found = findings_m.Findings()
    if pods:
        found.error(
            "cilium.pods_would_stay", f"pods on the pod network would stay, beside which no agent starts in another datapath mode: {', '.join(pods)}",
            "docs/network.md: take their toleration, give them hostNetwork, or keep them from the node",
        )
    return found.items


def _reboot(
    entries: Sequence[Mapping[str, Any]], result: Mapping[str, Any], state: Mapping[str, Any], allowed: bool, no_fallback: bool, found: findings_m.Findings,
) -> None:
    reboots = [entry for entry in entries if entry["needs"] == "reboot"]
    if not reboots:
        return
    if not allowed:
        found.error(
            "boot.reboot_not_allowed",
            f"{', '.join(entry['knob'] for entry in reboots)} cannot be mended without a reboot, and locality_reboot_ok is not set",
            _ALLOW_REBOOT,
        )
    trial = ((state.get("platform") or {}).get("boot_loader") or {}).get("trial") or {}
    # Arguments that every boot has already are not tried: then only what runs differs.
    fresh = (result.get("plan") or {}).get("kernel_args") and any("configured" in (entry.get("reason") or "") for entry in reboots)
    if fresh and trial.get("possible") is False and not no_fallback:
        found.error(
            "boot.no_fallback",
            f"new boot arguments cannot be tried once on this node, so that one that does not boot stays down: {trial.get('reason')}",
            "put /boot on a plain ext4, xfs or FAT partition, or set locality_allow_no_fallback: true where somebody can get at its console",
        )


def _state_files(state: Mapping[str, Any], plan: Mapping[str, Any], wanted: str, found: findings_m.Findings) -> None:
    """A node that was not drained has containers that the kubelet would move to other CPUs, if it starts without its file and no reboot ends them."""
    for item in report.stale_files(state, plan):
        # Without "wanted" the module judges by RKE2's present configuration, with which the file fits, and leaves it.
        found.error(
            "site.state_files",
            f"the kubelet would not start with {item['file']} ({item['reason']}), which goes from a drained node only, and locality_kubeconfig is not set",
            "set locality_kubeconfig; or drain the node, stop RKE2, remove the file with the module kubelet_cpu_state "
            f"({wanted}, state: consistent), and run again before RKE2 starts",
        )


__all__ = ("findings", "removal", "unfinished", "would_stay")
