# Copyright (c) 2026 The inferops.locality authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whose cordon it is, and whether a node is back."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ansible_collections.inferops.locality.plugins.module_utils import node_turn

NOW = "2026-11-30T02:00:00Z"


def node(
    *, cordoned: bool = False, mark: str | None = None, taints: Any = None, ready: str = "True", gpus: str = "8", boot: str = "one", **more: Any,
) -> dict[str, Any]:
    """A Node as the API returns it."""
    made: dict[str, Any] = {
        "metadata": {"name": "gpu-a01", "resourceVersion": "7", "annotations": {"other": "x"}}, "spec": {},
        "status": {
            "conditions": [{"type": "Ready", "status": ready, "lastTransitionTime": NOW, "message": "as told"}],
            "nodeInfo": {"bootID": boot, "machineID": "m1"},
            "allocatable": {"cpu": "128", "memory": "1Ti", "nvidia.com/gpu": gpus, "hugepages-1Gi": "0"},
        },
    }
    if cordoned:
        made["spec"]["unschedulable"] = True
    if taints:
        made["spec"]["taints"] = taints
    if mark is not None:
        made["metadata"]["annotations"][node_turn.ANNOTATION] = mark
    made["status"].update(more)
    return made


def resident(name: str, *, ready: bool = True) -> dict[str, Any]:
    owner = {"kind": "DaemonSet", "name": name, "controller": True}
    return {
        "metadata": {"namespace": "kube-system", "name": f"{name}-x", "uid": name, "ownerReferences": [owner]},
        "status": {"conditions": [{"type": "Ready", "status": str(ready)}]},
    }


def applied(found: dict[str, Any], change: node_turn.Change) -> dict[str, Any]:
    """A Node after a merge patch (RFC 7386), as far as the patches here go."""
    patch = change.patch or {"metadata": {}}
    annotations = {**found["metadata"]["annotations"], **patch["metadata"].get("annotations", {})}
    spec = {**found["spec"], **patch.get("spec", {})}
    return {
        **found, "metadata": {**found["metadata"], "annotations": {key: value for key, value in annotations.items() if value is not None}},
        "spec": {key: value for key, value in spec.items() if value is not None},
    }


def cordon(found: dict[str, Any], run: str = "r1", **more: Any) -> node_turn.Change:
    return node_turn.cordon(found, [resident("cilium"), resident("broken", ready=False)], run=run, now=NOW, taint=more.pop("taint", False), **more)


def test_a_turn_of_a_schedulable_node_leaves_no_trace() -> None:
    before = node()
    begun = applied(before, cordon(before))
    mark = node_turn.mark_of(begun)
    assert mark == node_turn.Mark("r1", NOW, True, False, "one", {"nvidia.com/gpu": 8}, ("DaemonSet kube-system/cilium",))
    assert node_turn.is_cordoned(begun)
    ended = node_turn.uncordon(begun)
    assert ended.schedulable
    assert applied(begun, ended) == before


def test_a_cordon_of_somebody_else_stays() -> None:
    before = node(cordoned=True)
    begun = applied(before, cordon(before))
    mark = node_turn.mark_of(begun)
    assert mark is not None and not mark.ours
    ended = node_turn.uncordon(begun)
    assert not ended.schedulable
    assert applied(begun, ended) == before


def test_a_cordon_without_a_mark_is_never_lifted() -> None:
    assert node_turn.uncordon(node(cordoned=True)) == node_turn.Change(None, None, schedulable=False)


def test_another_run_goes_on_with_what_the_first_one_saw() -> None:
    begun = applied(node(), cordon(node()))
    # After the reboot the device plugin is not there yet: that must not become what is wanted.
    back = {**begun, "status": node(gpus="0", boot="two")["status"]}
    change = cordon(back, run="r2")
    assert change.mark == node_turn.Mark("r2", NOW, True, False, "one", {"nvidia.com/gpu": 8}, ("DaemonSet kube-system/cilium",))
    assert not change.lifted
    assert cordon(applied(back, change), run="r2").patch is None


@pytest.mark.parametrize("foreign", [False, True])
def test_a_lifted_cordon_is_seen_and_made_ours(foreign: bool) -> None:
    begun = applied(node(cordoned=foreign), cordon(node(cordoned=foreign)))
    lifted = {**begun, "spec": {}}
    change = cordon(lifted)
    assert change.lifted and change.patch and change.patch["spec"] == {"unschedulable": True}
    assert change.mark and change.mark.ours


def test_a_node_that_was_touched_is_not_given_back_by_a_turn_that_failed() -> None:
    begun = applied(node(), cordon(node()))
    assert applied(begun, node_turn.uncordon(begun, keep_disturbed=True)) == node()
    touched = applied(begun, cordon(begun, disturbed=True))
    assert node_turn.uncordon(touched, keep_disturbed=True).patch is None
    # A later run that only begins again does not forget it.
    assert cordon(touched, run="r2").mark.disturbed  # type: ignore[union-attr]
    assert applied(touched, node_turn.uncordon(touched)) == node()


def test_the_taint_comes_and_goes_alone() -> None:
    other = {"key": "dedicated", "value": "llm", "effect": "NoSchedule"}
    before = node(taints=[other])
    begun = applied(before, cordon(before, taint=True))
    assert begun["spec"]["taints"] == [other, node_turn.TAINT]
    assert applied(begun, cordon(begun, taint=True)) == begun
    assert applied(begun, node_turn.uncordon(begun)) == before
    bare = applied(node(), cordon(node(), taint=True))
    assert applied(bare, node_turn.uncordon(bare)) == node()


def test_each_patch_is_for_what_was_read() -> None:
    assert cordon(node()).patch["metadata"]["resourceVersion"] == "7"  # type: ignore[index]


@pytest.mark.parametrize(
    "text", ["r1", "[]", "{}", json.dumps({"run": "x"}), json.dumps({"run": "x", "since": "y", "ours": True, "extended": {"a/b": "many"}})],
)
def test_an_annotation_of_another_form_is_refused_as_it_stands(text: str) -> None:
    with pytest.raises(node_turn.MarkError, match="found '"):
        node_turn.mark_of(node(mark=text))


def missing(found: dict[str, Any], pods: list[dict[str, Any]] | None = None, boot_before: str = "") -> list[str]:
    wanted = ("DaemonSet kube-system/cilium", "DaemonSet kube-system/nvidia-device-plugin")
    present = [resident("cilium"), resident("nvidia-device-plugin")] if pods is None else pods
    return node_turn.not_ready(found, present, wanted_extended={"nvidia.com/gpu": 8}, wanted_residents=wanted, boot_before=boot_before)


def test_a_node_that_is_back_misses_nothing() -> None:
    assert missing(node(), boot_before="zero") == []
    assert missing(node(gpus="9")) == []


@pytest.mark.parametrize(
    ("found", "pods", "boot_before", "told"),
    [
        (node(), None, "one", "it has not reported another boot yet: boot ID found one"),
        (node(ready="Unknown"), None, "", "condition Ready: found Unknown since 2026-11-30T02:00:00Z (as told), wanted True"),
        (node(conditions=[]), None, "", "condition Ready: found none, wanted True"),
        (node(conditions=[{"type": "Ready", "status": "True"}, {"type": "NetworkUnavailable", "status": "True", "reason": "NoRoute"}]), None, "",
         "condition NetworkUnavailable: found True since unknown (NoRoute), wanted False"),
        (node(taints=[{"key": "node.cilium.io/agent-not-ready", "effect": "NoExecute"}]), None, "", "taint node.cilium.io/agent-not-ready:NoExecute"),
        (node(), [resident("cilium", ready=False), resident("nvidia-device-plugin")], "", "DaemonSet kube-system/cilium: its pod is not ready"),
        (node(), [resident("cilium")], "", "DaemonSet kube-system/nvidia-device-plugin: it has no pod here"),
        (node(gpus="7"), None, "", "allocatable nvidia.com/gpu: found 7, wanted 8 as before"),
        (node(allocatable={"cpu": "128"}), None, "", "allocatable nvidia.com/gpu: found 0, wanted 8 as before"),
    ],
)
def test_each_thing_that_is_missing_is_told(found: dict[str, Any], pods: Any, boot_before: str, told: str) -> None:
    reasons = missing(found, pods, boot_before)
    assert len(reasons) == 1 and told in reasons[0]


def test_another_machine_behind_the_name_is_refused() -> None:
    assert node_turn.other_machine(node(), "m1\n") is None
    assert node_turn.other_machine(node(), "") is None
    assert "machineID found m1, wanted m2" in (node_turn.other_machine(node(), "m2") or "")
