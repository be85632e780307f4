# Copyright (c) 2026 The inferops.locality authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which pods are in the way of another datapath mode, and why an agent does not start. Eviction and waiting are proved on a real API server (tests/cluster)."""

from __future__ import annotations

from typing import Any, Dict, List

import pytest

from ansible_collections.inferops.locality.plugins.module_utils import cilium_turn

TAINT = cilium_turn.TAINT


def pod(name: str, owner: str = "", tolerations: Any = None, **more: Any) -> Dict[str, Any]:
    meta: Dict[str, Any] = {"namespace": "kube-system", "name": name, "uid": f"uid-{name}"}
    if owner:
        kind, own = owner.split("/")
        meta["ownerReferences"] = [{"kind": kind, "name": own, "controller": True}]
    meta.update(more.pop("metadata", {}))
    status = more.pop("status", {"phase": "Running"})
    return {"metadata": meta, "spec": {"tolerations": tolerations or [], **more}, "status": status}


@pytest.mark.parametrize(("toleration", "stays"), [
    ({"operator": "Exists"}, True),
    ({"operator": "Exists", "effect": "NoExecute"}, True),
    ({"operator": "Exists", "effect": "NoSchedule"}, False),
    ({"key": TAINT["key"], "operator": "Exists"}, True),
    ({"key": TAINT["key"]}, True),
    ({"key": TAINT["key"], "operator": "Equal", "value": "x"}, False),
    ({"key": TAINT["key"], "operator": "Exists", "tolerationSeconds": 300}, False),
    ({"key": "nvidia.com/gpu", "operator": "Exists"}, False),
    ({"key": "", "operator": "Equal"}, False),
])
def test_tolerations_are_those_of_kubernetes(toleration: Dict[str, Any], stays: bool) -> None:
    assert cilium_turn.tolerates(pod("a", tolerations=[{"key": "x", "operator": "Exists"}, toleration])) is stays
    assert not cilium_turn.tolerates(pod("a"))


def test_pods_on_the_pod_network_that_nothing_sends_away_are_named_with_the_reason() -> None:
    everything = [{"operator": "Exists"}]
    pods = [
        pod("dcgm-x", "DaemonSet/dcgm", everything), pod("ingress-x", "DaemonSet/ingress", [{"key": "dedicated", "operator": "Exists"}]),
        pod("cilium-x", "DaemonSet/cilium", everything, hostNetwork=True), pod("llama", "ReplicaSet/llama", everything),
        pod("web", metadata={"annotations": {"kubernetes.io/config.mirror": "x"}}), pod("job", "DaemonSet/old", everything, status={"phase": "Failed"}),
        # It has no address yet, and gets one of the kind that the agent has then.
        pod("new", "DaemonSet/new", everything, status={"phase": "Pending"}),
    ]
    assert cilium_turn.would_stay(pods) == [
        "kube-system/dcgm-x (of DaemonSet dcgm, which tolerates locality.inferops.io/network:NoExecute)",
        "kube-system/new (of DaemonSet new, which tolerates locality.inferops.io/network:NoExecute)", "kube-system/web (static)",
    ]
    assert [item["metadata"]["name"] for item in cilium_turn.on_network(pods)] == ["dcgm-x", "ingress-x", "llama", "web", "new"]


def test_agents_are_told_by_their_daemon_set() -> None:
    other = pod("cilium-envoy-x", "DaemonSet/cilium-envoy")
    elsewhere = pod("cilium-y", "DaemonSet/cilium", metadata={"namespace": "other"})
    agent = pod("cilium-x", "DaemonSet/cilium", status={"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]})
    assert cilium_turn.agents([other, elsewhere, agent]) == [agent]
    assert cilium_turn.agent_of([other, elsewhere]) is None
    assert cilium_turn.agent_of([agent]) == {"pod": "cilium-x", "uid": "uid-cilium-x", "ready": True, "trouble": None}
    ending = pod("cilium-w", "DaemonSet/cilium", metadata={"deletionTimestamp": "2026-12-01T00:00:00Z"})
    found = cilium_turn.agent_of([ending, agent])
    assert found is not None and found["pod"] == "cilium-x"


FATAL = "level=fatal msg=\"Cannot start cilium-agent with datapath-mode=netkit: detected 2 existing endpoint(s) using veth datapath mode\""
TROUBLE: List[Any] = [
    ({"containerStatuses": [{"name": "cilium-agent", "state": {"waiting": {"reason": "CrashLoopBackOff"}},
                             "lastState": {"terminated": {"exitCode": 1, "message": FATAL}}}]}, "2 existing endpoint(s)"),
    ({"initContainerStatuses": [{"name": "config", "state": {"terminated": {"exitCode": 1, "reason": "Error"}}}]}, "container config ended with 1: Error"),
    ({"initContainerStatuses": [{"name": "config", "state": {"terminated": {"exitCode": 0}}}],
      "containerStatuses": [{"name": "cilium-agent", "state": {"waiting": {"reason": "ImagePullBackOff"}}}]}, "cilium-agent waits: ImagePullBackOff"),
    ({"phase": "Running", "containerStatuses": [{"name": "cilium-agent", "state": {"running": {}}}]}, "phase Running, not Ready"),
    ({}, "phase unknown"),
]


@pytest.mark.parametrize(("status", "words"), TROUBLE)
def test_an_agent_that_does_not_start_is_told_in_its_own_recorded_words(status: Dict[str, Any], words: str) -> None:
    assert words in cilium_turn.trouble(pod("cilium-x", "DaemonSet/cilium", status=status))
