# Copyright (c) 2026 The inferops.locality authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a drain does with each pod."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.inferops.locality.plugins.module_utils import node_pods


def pod(name: str = "a", *, owner: str = "ReplicaSet", **more: Any) -> dict[str, Any]:
    """A pod as the API returns it."""
    made: dict[str, Any] = {
        "metadata": {"namespace": "inference", "name": name, "uid": f"uid-{name}"}, "spec": {"containers": [{"name": "main"}]},
        "status": {"phase": "Running", "qosClass": "BestEffort", "conditions": [{"type": "Ready", "status": "True"}]},
    }
    if owner:
        made["metadata"]["ownerReferences"] = [{"kind": owner, "name": "owner", "controller": True}]
    for part, values in more.items():
        made[part].update(values)
    return made


MIRROR = {"annotations": {node_pods.MIRROR: "x"}, "ownerReferences": [{"kind": "Node", "name": "gpu-a01", "controller": True}]}
GPU = {"name": "main", "resources": {"requests": {"cpu": "4"}, "limits": {"cpu": "4", "nvidia.com/gpu": "2"}}}


@pytest.mark.parametrize(
    ("found", "where", "stays"),
    [
        (pod(), "evict", None),
        (pod(owner="Job"), "evict", None),
        (pod(owner=""), "evict", None),
        (pod(owner="DaemonSet"), "stay", "daemonset"),
        (pod(owner="", metadata=MIRROR), "stay", "static"),
        (pod(status={"phase": "Succeeded"}), "stay", "finished"),
        (pod(owner="", status={"phase": "Failed"}), "stay", "finished"),
        (pod(metadata={"deletionTimestamp": "2026-11-30T02:00:00Z"}), "ending", None),
        # Its like comes back at once.
        (pod(owner="DaemonSet", metadata={"deletionTimestamp": "2026-11-30T02:00:00Z"}), "stay", "daemonset"),
        # Owned, but by nobody who starts it again.
        (pod(metadata={"ownerReferences": [{"kind": "DaemonSet", "name": "x"}]}), "evict", None),
    ],
)
def test_each_pod_is_in_one_list(found: dict[str, Any], where: str, stays: str | None) -> None:
    result = node_pods.sort([found])
    assert {name: [each.name for each in getattr(result, name)] for name in ("evict", "ending", "stay")} == {
        "evict": [], "ending": [], "stay": [], where: ["inference/a"],
    }
    assert node_pods.read(found).stays == stays


def test_all_refusals_are_told_at_once_by_pod_and_volume() -> None:
    pods = node_pods.sort([
        pod("bare", owner=""), pod("scratch", spec={"volumes": [{"name": "cache", "emptyDir": {}}, {"name": "token", "projected": {}}]}),
        # Nobody asks what becomes of a pod that stays or has ended.
        pod("agent", owner="DaemonSet", spec={"volumes": [{"name": "run", "emptyDir": {}}]}), pod("done", owner="", status={"phase": "Succeeded"}),
    ])
    assert pods.refused(local_data=False, unmanaged=False) == [
        "pod inference/bare has no controller that starts it again",
        "pod inference/scratch has data in emptyDir volumes (cache), which are lost when it goes",
    ]
    assert pods.refused(local_data=True, unmanaged=False) == ["pod inference/bare has no controller that starts it again"]
    assert pods.refused(local_data=True, unmanaged=True) == []


@pytest.mark.parametrize(
    ("qos", "spec", "pinned"),
    [
        ("Guaranteed", {"containers": [{"name": "a", "resources": {"requests": {"cpu": "2"}}}]}, True),
        ("Guaranteed", {"containers": [{"name": "a", "resources": {"requests": {"cpu": "2000m"}}}]}, True),
        ("Guaranteed", {"containers": [{"name": "a", "resources": {"requests": {"cpu": "1500m"}}}]}, False),
        ("Guaranteed", {"containers": [{"name": "a", "resources": {"requests": {"cpu": "500m"}}}, {"name": "b", "resources": {"requests": {"cpu": 3}}}]}, True),
        ("Guaranteed", {"containers": [{"name": "a", "resources": {"requests": {"cpu": "0"}}}]}, False),
        ("Burstable", {"containers": [{"name": "a", "resources": {"requests": {"cpu": "2"}}}]}, False),
        # Gives its CPUs back when it has ended.
        ("Guaranteed", {"containers": [{"name": "a"}], "initContainers": [{"name": "i", "resources": {"requests": {"cpu": "2"}}}]}, False),
        ("Guaranteed", {"containers": [{"name": "a"}],
                        "initContainers": [{"name": "i", "restartPolicy": "Always", "resources": {"requests": {"cpu": "2"}}}]}, True),
        ("Guaranteed", {"containers": [{"name": "a"}], "resources": {"requests": {"cpu": "4"}}}, True),
        ("Guaranteed", {"containers": [{"name": "a", "resources": {}}]}, False),
    ],
)
def test_whole_cpus_are_those_of_the_static_policy(qos: str, spec: dict[str, Any], pinned: bool) -> None:
    found = pod(owner="DaemonSet", spec=spec, status={"qosClass": qos})
    assert node_pods.whole_cpus(found) is pinned
    assert [each.name for each in node_pods.sort([found]).survivors()] == (["inference/a"] if pinned else [])


def test_a_pod_that_stays_with_whole_cpus_refuses_a_drain_if_asked_to() -> None:
    pinned = {"status": {"qosClass": "Guaranteed"}, "spec": {"containers": [GPU]}}
    pods = node_pods.sort([pod("dcgm", owner="DaemonSet", **pinned), pod("llm", **pinned), pod("done", owner="DaemonSet", spec=pinned["spec"],
                           status={"qosClass": "Guaranteed", "phase": "Failed"})])
    assert pods.refused(local_data=False, unmanaged=False, pinned=False) == [
        "pod inference/dcgm (daemonset) stays with whole CPUs of its own, so that the kubelet's checkpoint cannot go without a reboot",
    ]
    assert pods.refused(local_data=False, unmanaged=False) == []
    assert [each.extended for each in pods.survivors()] == [("nvidia.com/gpu",)]


@pytest.mark.parametrize(
    ("name", "is_one"),
    [("nvidia.com/gpu", True), ("rdma/hca_a", True), ("cpu", False), ("hugepages-1Gi", False), ("attachable-volumes-csi-x", False),
     ("kubernetes.io/batch-cpu", False), ("x.kubernetes.io/y", False)],
)
def test_extended_resources_have_a_domain_that_is_not_kubernetes(name: str, is_one: bool) -> None:
    assert node_pods.is_extended(name) is is_one


def test_grace_is_that_of_the_deletion_where_there_is_one() -> None:
    assert node_pods.read(pod()).grace == 30
    assert node_pods.read(pod(spec={"terminationGracePeriodSeconds": 600})).grace == 600
    ending = pod(spec={"terminationGracePeriodSeconds": 600}, metadata={"deletionTimestamp": "2026-11-30T02:00:00Z", "deletionGracePeriodSeconds": 0})
    assert node_pods.read(ending).grace == 0


def test_pods_of_the_node_are_known_again_after_a_reboot() -> None:
    assert node_pods.resident_name(pod("cilium-x2", owner="DaemonSet")) == "DaemonSet inference/owner"
    assert node_pods.resident_name(pod("kube-proxy-gpu-a01", owner="", metadata=MIRROR)) == "static pod inference/kube-proxy-gpu-a01"
    assert node_pods.resident_name(pod()) is None
    assert node_pods.is_ready(pod()) and not node_pods.is_ready(pod(metadata={"deletionTimestamp": "x"}))
    assert not node_pods.is_ready(pod(status={"conditions": [{"type": "Ready", "status": "False"}]}))
