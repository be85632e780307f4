# Copyright (c) 2026 The inferops.locality authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What forbids to disturb a running node is said before anything is touched, all of it at once."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.inferops.locality.plugins.plugin_utils import report, rollout

PLAN = {"kernel_args": ["irqaffinity=0-1"], "knobs": {"kubelet.state_files": "consistent", "kubelet.cpu_manager_policy": "static"}}
ARGUMENT = {"knob": "kernel.irqaffinity", "needs": "reboot", "reason": "running differs; configured differs"}
PAGES = {"knob": "kernel.hugepages", "needs": "reboot", "reason": "running differs: pages of 2Mi"}
LIMIT = {"knob": "limits.memlock", "needs": "restart", "reason": "running differs"}
POLICY = {"knob": "kubelet.cpu_manager_policy", "needs": "restart", "reason": "configured differs"}
SYSCTL = {"knob": "vm.swappiness", "needs": "live", "reason": "running differs"}
WRITTEN = {"knob": "kernel.irqaffinity", "needs": "live", "reason": "configured differs"}

NO_TRIAL = {"platform": {"boot_loader": {"trial": {"possible": False, "reason": "/boot is on btrfs"}}}}
TRIAL = {"platform": {"boot_loader": {"trial": {"possible": True, "reason": None}}}}
STALE = {**TRIAL, "kubelet": {"state_files": {"cpu": {
    "file": "/var/lib/kubelet/cpu_manager_state", "exists": True, "format": "v1", "policy": "none", "valid": True, "reason": None,
}}}}
STATIC = {**STALE, "kubelet": {"state_files": {"cpu": {**STALE["kubelet"]["state_files"]["cpu"], "policy": "static"}}}}

# Name: drifting entries, state, what is allowed, the ids of the errors.
CASES: dict[str, tuple[list[dict[str, Any]], dict[str, Any], dict[str, bool], list[str]]] = {
    "in sync": ([], NO_TRIAL, {"cluster": True}, []),
    "live": ([SYSCTL, WRITTEN], NO_TRIAL, {"cluster": True}, []),
    "a reboot": ([ARGUMENT, SYSCTL], TRIAL, {}, ["boot.reboot_not_allowed"]),
    "an allowed reboot": ([ARGUMENT], TRIAL, {"reboot_ok": True}, []),
    "no way back": ([ARGUMENT], NO_TRIAL, {"reboot_ok": True}, ["boot.no_fallback"]),
    "no way back, allowed": ([ARGUMENT], NO_TRIAL, {"reboot_ok": True, "allow_no_fallback": True}, []),
    "nobody knows whether there is a way back": ([ARGUMENT], {}, {"reboot_ok": True}, []),
    "nothing new to try": ([PAGES], NO_TRIAL, {"reboot_ok": True}, []),
    "a restart needs no reboot": ([LIMIT], NO_TRIAL, {}, []),
    "a node of a cluster": ([LIMIT], TRIAL, {"cluster": True}, []),
    "checkpoint files": ([POLICY], STALE, {}, ["site.state_files"]),
    "checkpoint files of a node that is drained": ([POLICY], STALE, {"cluster": True}, []),
    "checkpoint files of a node that is rebooted": ([POLICY, ARGUMENT], STALE, {"reboot_ok": True}, []),
    "checkpoint files, no kubelet layer": ([LIMIT], STALE, {}, []),
    "all at once": (
        [ARGUMENT, POLICY], {**STALE, **NO_TRIAL}, {"cluster": True}, ["boot.reboot_not_allowed", "boot.no_fallback"],
    ),
}


def findings(entries: list[dict[str, Any]], state: dict[str, Any], **allowed: bool) -> list[dict[str, str]]:
    return rollout.findings(
        {"plan": PLAN, "drifting": entries}, state, layers=report.LAYERS,
        **{"reboot_ok": False, "allow_no_fallback": False, "cluster": False, **allowed},
    )


@pytest.mark.parametrize("name", CASES)
def test_errors(name: str) -> None:
    entries, state, allowed, ids = CASES[name]
    assert [item["id"] for item in findings(entries, state, **allowed) if item["severity"] == "error"] == ids


@pytest.mark.parametrize("case, id, text", [
    ("all at once", "boot.reboot_not_allowed", "kernel.irqaffinity"), ("all at once", "boot.no_fallback", "/boot is on btrfs"),
    ("checkpoint files", "site.state_files", "/var/lib/kubelet/cpu_manager_state"),
])
def test_each_names_what_is_in_the_way_and_what_to_do(case: str, id: str, text: str) -> None:
    entries, state, allowed, _ids = CASES[case]
    finding = next(item for item in findings(entries, state, **allowed) if item["id"] == id)
    assert text in finding["message"] and finding["hint"]


def test_the_way_to_remove_a_file_says_what_the_kubelet_is_to_start_with() -> None:
    """Else the module compares the file with the present configuration, and leaves it."""
    entries, state, allowed, _ids = CASES["checkpoint files"]
    hint = next(item["hint"] for item in findings(entries, state, **allowed) if item["id"] == "site.state_files")
    assert "(wanted: the knobs of its plan, state: consistent)" in hint
    assert "(wanted: {}, state: consistent)" in rollout.removal(STATIC, reboot_required=False, reboot_ok=False, cluster=False)[0]["hint"]


def test_without_a_cluster_the_summary_says_what_is_left_out() -> None:
    assert [(item["id"], item["severity"]) for item in findings([LIMIT], TRIAL)] == [("site.no_cluster", "note")]
    assert findings([SYSCTL], TRIAL) == []


@pytest.mark.parametrize("state, given, ids", [
    ({"ours": []}, {"cluster": True}, []),
    ({"ours": ["/etc/x"]}, {}, []),
    ({"ours": ["/etc/x"]}, {"cluster": True}, []),
    ({"ours": ["/etc/x"]}, {"reboot_required": True}, ["boot.reboot_not_allowed"]),
    ({"ours": ["/etc/x"]}, {"reboot_required": True, "reboot_ok": True}, []),
    (STATIC, {}, ["site.state_files"]),
    (STATIC, {"cluster": True}, []),
    (STATIC, {"reboot_required": True, "reboot_ok": True}, []),
    (STALE, {}, []),
])
def test_what_forbids_to_take_everything_off(state: dict[str, Any], given: dict[str, bool], ids: list[str]) -> None:
    found = rollout.removal(state, **{"reboot_required": False, "reboot_ok": False, "cluster": False, **given})
    assert [item["id"] for item in found] == ids


MARK = {"run": "anna@control/1", "since": "2026-11-30T02:15:00Z", "ours": True}


@pytest.mark.parametrize("mark, cordoned, state, told", [
    (None, False, {}, []),
    # Somebody else's cordon, and a RKE2 that somebody else stopped.
    (None, True, {"kubelet": {"runs": {"unit": False, "left": False}}}, []),
    # It was started by hand.
    (None, False, {"kubelet": {"runs": {"unit": True, "left": True}}}, []),
    (None, False, {"kubelet": {"runs": {"unit": False, "left": True}}}, ["RKE2 is stopped"]),
    (None, False, {"kubelet": {"runs": {"unit": None, "left": True}}}, ["RKE2 may be stopped"]),
    (MARK, True, {}, ["anna@control/1", "2026-11-30T02:15:00Z", "the node is cordoned"]),
    (MARK, False, {}, ["the node is marked", "no other node"]),
    (MARK, True, {"kubelet": {"runs": {"unit": False, "left": True}}}, ["the node is cordoned", "; RKE2 is stopped"]),
])
def test_how_an_earlier_run_left_the_node(mark: Any, cordoned: bool, state: dict[str, Any], told: list[str]) -> None:
    found = rollout.unfinished(mark, state, cordoned=cordoned)
    assert [(item["id"], item["severity"]) for item in found] == ([("site.turn_not_ended", "warning")] if told else [])
    assert [text for text in told if text not in found[0]["message"]] == []
    assert all(item["hint"] for item in found)


def test_pods_that_would_stay_are_named() -> None:
    assert rollout.would_stay([]) == []
    found = rollout.would_stay(["logging/a (static)", "logging/b (static)"])
    assert [(item["id"], item["severity"]) for item in found] == [("cilium.pods_would_stay", "error")]
    assert "logging/a (static), logging/b (static)" in found[0]["message"]
