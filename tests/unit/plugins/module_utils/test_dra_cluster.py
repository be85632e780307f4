# Copyright (c) 2026 The inferops.locality authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What keeps DRANET from a cluster, which objects are made there, and what keeps them. tests/cluster asks a real API server."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from ansible_collections.inferops.locality.plugins.module_utils import dra_cluster, policy
from ansible_collections.inferops.locality.plugins.module_utils.dra_cluster import LABEL, Look


def dra(**given: Any) -> dict[str, Any]:
    return dict(policy.normalise_policy({"dra": given})["dra"])


def node(
    name: str = "a", kubelet: str = "v1.36.3+rke2r1", runtime: str = "containerd://2.1.4-k3s1", gpus: str = "0", label: str | None = None,
) -> dict[str, Any]:
    return {
        "metadata": {"name": name, "labels": {LABEL: label} if label else {}},
        "status": {"nodeInfo": {"kubeletVersion": kubelet, "containerRuntimeVersion": runtime}, "allocatable": {"nvidia.com/gpu": gpus}},
    }


def published(driver: str, name: str = "a", interface: str = "") -> dict[str, Any]:
    attributes = {"dra.net/ifName": {"string": interface}} if interface else {}
    return {"spec": {"driver": driver, "nodeName": name, "pool": {"name": name}, "devices": [{"name": "x", "attributes": attributes}]}}


def look(**given: Any) -> Look:
    return Look(**{"minor": 36, "versions": ["v1", "v1beta2"], "nodes": [node()], "slices": [], "claims": [], "objects": [], **given})


def ids(found: list[dict[str, str]], severity: str = "error") -> list[str]:
    return [item["id"] for item in found if item["severity"] == severity]


def test_a_cluster_that_has_everything_is_not_refused() -> None:
    assert dra_cluster.checks(look(), dra(), ["a"], "kubelet-static") == []
    slices = [published("gpu.nvidia.com"), published("dra.net", interface="fab0")]
    assert dra_cluster.checks(look(slices=slices), dra(gpus="nvidia-dra"), ["a"], "kubelet-static") == []


REFUSED: list[tuple[dict[str, Any], dict[str, Any], str, str]] = [
    ({"minor": 33, "versions": ["v1beta1"]}, {}, "dra.kubernetes_too_old", "the API server is 1.33 and serves v1beta1 of resource.k8s.io, wanted 1.34"),
    ({"versions": []}, {}, "dra.kubernetes_too_old", "serves nothing"),
    ({"nodes": [node(kubelet="v1.33.5+rke2r1")]}, {}, "dra.kubernetes_too_old", "node a: found kubelet v1.33.5+rke2r1, wanted 1.34 or newer"),
    ({"nodes": [node(runtime="containerd://1.7.27-k3s1")]}, {}, "dra.no_nri", "found containerd://1.7.27-k3s1, in which NRI is off"),
    ({"nodes": [node("b")]}, {}, "dra.no_such_node", "the cluster has no node a"),
    ({"nodes": [node(), node("b", label="true")]}, {}, "dra.not_all_nodes", "nodes b have DRANET and are not in this run"),
    ({"nodes": [node(gpus="8")], "slices": [published("gpu.nvidia.com")]}, {"gpus": "nvidia-dra"}, "dra.device_plugin", "nvidia.com/gpu"),
    ({"slices": [published("gpu.nvidia.com")]}, {}, "dra.gpu_driver", "NVIDIA's DRA driver publishes GPUs there"),
    ({"slices": [published("dra.cpu")]}, {}, "dra.cpu_driver", "the driver dra.cpu gives out CPUs"),
]


@pytest.mark.parametrize(("known", "given", "id", "message"), REFUSED)
def test_what_stands_against_it_is_named(known: dict[str, Any], given: dict[str, Any], id: str, message: str) -> None:
    found = dra_cluster.checks(look(**known), dra(**given), ["a"], "kubelet-static")
    assert ids(found) == [id] and message in found[0]["message"] and found[0]["hint"]


def test_drivers_of_other_nodes_and_other_cpu_policies_refuse_nothing() -> None:
    assert dra_cluster.checks(look(nodes=[node(), node("b")], slices=[published("dra.cpu", "b")]), dra(), ["a"], "kubelet-static") == []
    assert dra_cluster.checks(look(slices=[published("dra.cpu")]), dra(), ["a"], "best-effort") == []


def test_a_missing_gpu_driver_and_a_published_uplink_are_said() -> None:
    assert ids(dra_cluster.checks(look(), dra(gpus="nvidia-dra"), ["a"], None), "warning") == ["dra.no_gpu_driver"]
    found = dra_cluster.checks(look(slices=[published("dra.net", interface="front0")]), dra(uplinks=["front0"]), ["a"], None)
    assert ids(found, "note") == ["dra.uplink_published"]


def test_a_template_of_somebody_else_that_aligns_nothing_is_said() -> None:
    theirs = {
        "apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaimTemplate", "metadata": {"namespace": "x", "name": "blog"},
        "spec": {"spec": {"devices": {
            "requests": [{"name": "nic", "exactly": {"deviceClassName": "dranet-rdma"}}], "constraints": [{"matchAttribute": "dra.net/pcieRoot"}],
        }}},
    }
    found = dra_cluster.checks(look(objects=[theirs]), dra(), ["a"], None)
    assert ids(found, "warning") == ["dra.no_such_attribute", "dra.gpu_not_in_claim"] and "ResourceClaimTemplate x/blog: constraints[0]" in found[0]["message"]


def topology(bus: str = "15", node_id: int = 0, aligned: bool = True) -> dict[str, Any]:
    common = {"numa_node": node_id, "physfn": None, "interfaces": []}
    return {"devices": [
        {"address": f"0000:{bus}:00.0", "kind": "gpu", "pcie_root": f"pci0000:{bus}", "rdma": [], **common},
        {"address": f"0000:{bus}:01.0", "kind": "nic", "pcie_root": f"pci0000:{bus}" if aligned else f"pci0001:{bus}", "rdma": ["mlx5_0"], **common},
    ]}


def wanted(*topologies: dict[str, Any], **given: Any) -> tuple[list[dict[str, Any]], list[dict[str, str]]]:
    return dra_cluster.wanted(topologies, dra(gpus="nvidia-dra", namespaces=["x"], pairs=[1], **given), "v1")


def test_the_class_near_gpus_has_the_roots_of_all_nodes() -> None:
    objects, found = wanted(topology("15"), topology("97"))
    assert [dra_cluster.key_of(item) for item in objects] == [
        ("DeviceClass", "", "dranet-rdma"), ("DeviceClass", "", "dranet-rdma-near-gpu"), ("ResourceClaimTemplate", "x", "gpu-nic"),
    ]
    assert '["pci0000:15", "pci0000:97"]' in objects[1]["spec"]["selectors"][0]["cel"]["expression"] and found == []


def test_one_name_for_two_templates_is_an_error() -> None:
    _objects, found = wanted(topology("15", aligned=False), topology("97", aligned=False))
    assert ids(found) == ["dra.template_conflict"]


def stored(objects: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """As the API server gives them back: with what it fills in."""
    made = copy.deepcopy(objects)
    for item in made:
        item["metadata"]["uid"] = "1"
        for request in item["spec"].get("spec", {}).get("devices", {}).get("requests", []):
            request["exactly"]["tolerations"] = []
    return made


def test_what_is_there_is_left_and_what_is_not_wanted_goes() -> None:
    objects, _found = wanted(topology())
    change, found = dra_cluster.decide(look(), objects, ["a"])
    assert len(change.create) == 3 and change.label == {"a": "true"} and found == []
    there = look(objects=stored(objects), nodes=[node(label="true")])
    assert not dra_cluster.decide(there, objects, ["a"])[0].anything
    gone, _found = dra_cluster.decide(there, [], None)
    assert len(gone.remove) == 3 and gone.label == {"a": None}
    other, _found = wanted(topology(), uplinks=["front0"])
    assert [item["metadata"]["name"] for _old, item in dra_cluster.decide(there, other, ["a"])[0].replace] == ["dranet-rdma", "dranet-rdma-near-gpu"]


def test_an_object_of_somebody_else_is_refused_and_never_removed() -> None:
    objects, _found = wanted(topology())
    theirs = stored(objects)
    for item in theirs:
        item["metadata"]["labels"] = {"app.kubernetes.io/managed-by": "Helm"}
    change, found = dra_cluster.decide(look(objects=theirs), objects, ["a"])
    assert ids(found) == ["dra.foreign_object"] * 3 and not change.create and not change.remove
    assert not dra_cluster.decide(look(objects=theirs), [], None)[0].remove


def claim(device_class: str, driver: str = "", pod: str = "worker") -> dict[str, Any]:
    results = [{"driver": driver, "pool": "a", "device": "pci-0000-19-00-0", "request": "nic"}]
    status = {"allocation": {"devices": {"results": results}}, "reservedFor": [{"name": pod}]} if driver else {}
    return {
        "metadata": {"namespace": "x", "name": f"{pod}-accel"}, "status": status,
        "spec": {"devices": {"requests": [{"name": "nic", "exactly": {"deviceClassName": device_class}}]}},
    }


def test_claims_that_hold_a_nic_or_ask_for_a_class_are_listed() -> None:
    objects, _found = wanted(topology())
    claims = [
        claim("dranet-rdma", "dra.net"), claim("theirs", "dra.net", "other"), claim("gpu.nvidia.com", "gpu.nvidia.com", "third"),
        claim("dranet-rdma", pod="waits"),
    ]
    known = look(claims=claims)
    assert dra_cluster.in_use(known, objects, driver=True) == [
        "x/other-accel (pods: other): pci-0000-19-00-0", "x/waits-accel (pods: none): not allocated yet", "x/worker-accel (pods: worker): pci-0000-19-00-0",
    ]
    assert dra_cluster.in_use(known, [], driver=False) == []
    assert list(dra_cluster.pending(known, dra())) == ["x/waits-accel"]


@pytest.mark.parametrize("more", [{"config": [{"requests": ["nic"]}]}, {"constraints": [{"matchAttribute": "dra.net/numaNode"}]}])
def test_a_part_that_is_wanted_no_longer_is_a_change_and_what_a_server_fills_in_is_none(more: dict[str, Any]) -> None:
    want = {"devices": {"requests": [{"name": "nic", "exactly": {"deviceClassName": "x"}}]}}
    filled = {"devices": {"requests": [{"name": "nic", "exactly": {"deviceClassName": "x", "allocationMode": "ExactCount", "count": 1, "selectors": []}}]}}
    assert dra_cluster.same(filled, want)
    assert not dra_cluster.same({"devices": {**filled["devices"], **more}}, want)
