# Copyright (c) 2026 The inferops.locality authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a node has of DRANET, of objects as an API server returns them; tests/cluster asks a real one."""

from __future__ import annotations

import copy
from typing import Any, Callable

import pytest

from ansible_collections.inferops.locality.plugins.module_utils import dra_claims, dra_cluster, dra_knobs, drift, knobs, plan, policy
from ansible_collections.inferops.locality.plugins.module_utils.dra_cluster import LABEL, Look
from ansible_collections.inferops.locality.tests.unit.strategies import PLATFORM, regular, topology

ROOTS = {"0": "pci0000:15", "1": "pci0000:97"}
POLICY: dict[str, Any] = {"dra": {
    "dranet": True, "gpus": "nvidia-dra", "namespaces": ["inference", "batch"], "uplinks": ["front0"], "pairs": [1, 2],
}}
MANAGED = ["dra.dranet", "dra.device_class", "dra.claim_template"]


def dra(**given: Any) -> dict[str, Any]:
    return dict(policy.normalise_policy({"dra": {**POLICY["dra"], **given}})["dra"])


def device(kind: str, number: int, numa: int = 0, name: str = "") -> dict[str, Any]:
    return {
        "address": f"0000:{number:02x}:00.0", "kind": kind, "numa_node": numa, "pcie_root": ROOTS[str(numa)], "physfn": None,
        "rdma": [f"mlx5_{number}"] if kind == "nic" else [], "interfaces": [{"name": name}] if name else [],
    }


MACHINE: dict[str, Any] = {"devices": [
    device("gpu", 0x16), device("nic", 0x17, name="fab0"), device("gpu", 0x98, 1), device("nic", 0x99, 1, "fab1"), device("nic", 0x9a, 1, "front0"),
]}


def objects(given: dict[str, Any], roots: list[str] | None = None) -> list[dict[str, Any]]:
    return dra_claims.objects(dra_claims.templates(MACHINE, given)[0], given, roots or [*ROOTS.values()], given["namespaces"], "v1")


def nics(*, root: str | None = None, uplink: bool = False, rdma: bool = True) -> dict[str, Any]:
    """The slice of DRANET on the node."""
    devices = []
    for item in MACHINE["devices"]:
        name = item["interfaces"][0]["name"] if item["interfaces"] else ""
        if item["kind"] == "nic" and (uplink or name != "front0"):
            attributes = {
                "dra.net/ifName": {"string": name}, "dra.net/pciAddress": {"string": item["address"]}, "dra.net/rdma": {"bool": rdma},
                "resource.kubernetes.io/pcieRoot": {"string": root or item["pcie_root"]},
            }
            devices.append({"name": name, "attributes": attributes})
    return {"spec": {"driver": "dra.net", "nodeName": "a", "pool": {"name": "a"}, "devices": devices}}


GPUS = {"spec": {"driver": "gpu.nvidia.com", "nodeName": "a", "pool": {"name": "a"}, "devices": [{"name": "gpu-0"}]}}


def node(name: str = "a", label: str | None = "true", kubelet: str = "v1.36.3+rke2r1", gpus: str = "0") -> dict[str, Any]:
    return {
        "metadata": {"name": name, "labels": {LABEL: label} if label else {}},
        "status": {"nodeInfo": {"kubeletVersion": kubelet}, "allocatable": {"nvidia.com/gpu": gpus}},
    }


def look(**given: Any) -> Look:
    return Look(**{"minor": 36, "versions": ["v1"], "nodes": [node()], "slices": [nics(), GPUS], "claims": [], "objects": objects(dra()), **given})


def pod(
    image: str = "registry.k8s.io/networking/dranet:v1.4.0", selector: bool = True, ready: str = "True", owner: str = "DaemonSet", ending: bool = False,
) -> Any:
    return {
        "metadata": {"name": "dranet-x", "ownerReferences": [{"kind": owner}], **({"deletionTimestamp": "2026-12-01T10:00:00Z"} if ending else {})},
        "spec": {"containers": [{"image": image}], "nodeSelector": {LABEL: "true"} if selector else {}},
        "status": {"conditions": [{"type": "Ready", "status": ready}]},
    }


def driver(*pods: Any, sets: Any = ()) -> dra_knobs.Driver:
    return dra_knobs.Driver(list(pods), list(sets))


def known(state: dra_knobs.NodeState) -> dict[str, Any]:
    return {"dra": {"running": {**state.running, "dra.nri": True}, "configured": state.configured}}


def judged(where: Look, given: dict[str, Any] | None = None, by: dra_knobs.Driver | None = None) -> dict[str, Any]:
    """What drift says of the node: knob → reason of those that are not as planned."""
    given = given or dra()
    state = dra_knobs.node_state(where, by or driver(pod()), "a", MACHINE, given)
    report = drift.compare({"knobs": dra_knobs.wanted(MACHINE, given)}, {"running": {}, "configured": {}}, known(state))
    return {entry["knob"]: entry["reason"] for entry in report["entries"] if not entry["in_sync"]}


def test_the_knobs_of_a_policy() -> None:
    assert dra_knobs.wanted(MACHINE, dra()) == {
        "dra.dranet": True,
        "dra.device_class": {"dranet-rdma": {"without": ["front0"]}, "dranet-rdma-near-gpu": {"without": ["front0"], "roots": [*ROOTS.values()]}},
        "dra.claim_template": {"gpu-nic": ["batch", "inference"], "gpu-nic-tp2": ["batch", "inference"]},
        "dra.nri": True, "dra.api": "v1", "dra.gpu_driver": "nvidia-dra", "dra.nics": {"0000:17:00.0": "pci0000:15", "0000:99:00.0": "pci0000:97"},
    }
    assert dra_knobs.wanted(MACHINE, dra(namespaces=[]))["dra.claim_template"] == {}
    assert dra_knobs.wanted(MACHINE, dra(dranet=False)) == {"dra.dranet": False}
    assert dra_knobs.wanted(MACHINE, dra(dranet=None)) == {}
    assert list(dra_knobs.wanted(MACHINE, dra())) == [knob.id for knob in knobs.KNOBS.values() if knob.layer == "dra"]


def test_the_plan_has_them() -> None:
    made = plan.make_plan(topology(regular()), PLATFORM, {"dra": {"dranet": True}})
    assert [id for id in made["knobs"] if knobs.KNOBS[id].layer == "dra"] == [knob.id for knob in knobs.KNOBS.values() if knob.layer == "dra"]
    assert not [id for id in plan.make_plan(topology(regular()), PLATFORM, {})["knobs"] if id.startswith("dra.")]


def test_a_node_that_has_everything_is_in_sync() -> None:
    assert judged(look()) == {}
    # Classes and templates that other nodes need too are no drift of this one; the uplinks of the role's caller neither.
    more = dra(uplinks=["front0", "front9"])
    assert judged(look(objects=[*objects(more, ["pci0000:00", *ROOTS.values()]), *objects(dra(template="other"))[2:]])) == {}


def without(name: str) -> Callable[[list[dict[str, Any]]], list[dict[str, Any]]]:
    return lambda items: [item for item in items if item["metadata"]["name"] != name]


def not_ours(name: str) -> Callable[[list[dict[str, Any]]], list[dict[str, Any]]]:
    return lambda items: [{**item, "metadata": {**item["metadata"], "labels": {}}} if item["metadata"]["name"] == name else item for item in items]


def text(name: str, old: str, new: str) -> Callable[[list[dict[str, Any]]], list[dict[str, Any]]]:
    def change(items: list[dict[str, Any]]) -> list[dict[str, Any]]:
        items = copy.deepcopy(items)
        cel = next(item for item in items if item["metadata"]["name"] == name)["spec"]["selectors"][0]["cel"]
        assert old in cel["expression"]
        cel["expression"] = cel["expression"].replace(old, new)
        return items
    return change


@pytest.mark.parametrize(("change", "knob", "words"), [
    (without("dranet-rdma"), "dra.device_class", "dranet-rdma is not there as planned"),
    (not_ours("dranet-rdma-near-gpu"), "dra.device_class", "dranet-rdma-near-gpu is not there as planned"),
    (text("dranet-rdma", '"front0"', '"front1"'), "dra.device_class", "dranet-rdma is not"),
    (text("dranet-rdma", "rdma.orValue(false)", "rdma.orValue(true)"), "dra.device_class", "dranet-rdma is not"),
    (text("dranet-rdma-near-gpu", ', "pci0000:97"', ""), "dra.device_class", "dranet-rdma-near-gpu is not"),
    (text("dranet-rdma-near-gpu", 'device.driver == "dra.net"', "true"), "dra.device_class", "dranet-rdma-near-gpu is not"),
    (without("gpu-nic-tp2"), "dra.claim_template", "gpu-nic-tp2 is not there as planned"),
    (not_ours("gpu-nic"), "dra.claim_template", "gpu-nic is not there as planned"),
])
def test_an_object_that_was_changed_is_named_by_its_knob_and_no_other(change: Any, knob: str, words: str) -> None:
    found = judged(look(objects=change(objects(dra()))))
    assert list(found) == [knob] and words in found[knob]


def test_a_template_that_is_another_in_one_namespace_only_is_drift() -> None:
    items = [item for item in objects(dra()) if (item["metadata"].get("namespace"), item["metadata"]["name"]) != ("batch", "gpu-nic")]
    assert list(judged(look(objects=items))) == ["dra.claim_template"]
    other = objects(dra(network_config={"interface": {"mtu": 9000}}))
    assert judged(look(objects=other)) == {"dra.claim_template": (
        "configured differs: gpu-nic is not there as planned, gpu-nic-tp2 is not there as planned")}


@pytest.mark.parametrize(("where", "by", "words"), [
    (look(nodes=[node(label=None)]), driver(pod()), "configured differs"),
    (look(nodes=[node(label="false")]), driver(pod()), "configured differs"),
    (look(), driver(), "running differs"),
    (look(), driver(pod(ready="False")), "running differs"),
    (look(), driver(pod(ending=True)), "running differs"),
    (look(), driver(pod(owner="ReplicaSet")), "running differs"),
    (look(), driver(pod("registry.k8s.io/pause:3.10", selector=False)), "running differs"),
    (look(nodes=[node(label=None)]), driver(), "running differs; configured differs"),
])
def test_whether_the_driver_is_on_the_node(where: Look, by: dra_knobs.Driver, words: str) -> None:
    assert judged(where, by=by) == {"dra.dranet": words}


@pytest.mark.parametrize("image", [
    "registry.k8s.io/networking/dranet:v1.4.0", "registry.example.com:5000/mirror/dranet@sha256:00", "dranet",
])
def test_a_driver_for_all_nodes_is_known_by_its_image(image: str) -> None:
    assert judged(look(), by=driver(pod(image, selector=False))) == {}


@pytest.mark.parametrize(("change", "knob", "reason"), [
    ({"versions": ["v1beta2"]}, "dra.api", "running differs"),
    ({"minor": 33}, "dra.api", "running differs"),
    ({"nodes": [node(kubelet="v1.33.1")]}, "dra.api", "running differs"),
    ({"slices": [nics()]}, "dra.gpu_driver", "running differs"),
    ({"nodes": [node(gpus="8")]}, "dra.gpu_driver", "running differs"),
    ({"slices": [GPUS]}, "dra.nics", "running differs: 0000:17:00.0 is not published, 0000:99:00.0 is not published"),
    ({"slices": [GPUS, nics(rdma=False)]}, "dra.nics", "running differs: 0000:17:00.0 is not published, 0000:99:00.0 is not published"),
    ({"slices": [GPUS, nics(root="pci0000:15")]}, "dra.nics", "running differs: 0000:99:00.0 is published with pci0000:15"),
])
def test_what_is_reported(change: dict[str, Any], knob: str, reason: str) -> None:
    assert judged(look(**change)) == {knob: reason}
    assert knobs.KNOBS[knob].klass == "reported"


def test_an_uplink_that_is_published_is_said_and_is_no_difference() -> None:
    state = dra_knobs.node_state(look(slices=[GPUS, nics(uplink=True)]), driver(pod()), "a", MACHINE, dra())
    report = drift.compare({"knobs": dra_knobs.wanted(MACHINE, dra())}, {"running": {}, "configured": {}}, known(state))
    entry = next(entry for entry in report["entries"] if entry["knob"] == "dra.nics")
    assert entry["in_sync"] and entry["reason"] == "running as wanted: 0000:9a:00.0 is published too"


DAEMON_SET = {"metadata": {"namespace": "kube-system", "name": "dranet"}, "spec": {"template": {"spec": {"nodeSelector": {LABEL: "true"}}}}}
THEIRS = {"metadata": {"namespace": "net", "name": "dranet"}, "spec": {"template": {"spec": {}}}}


@pytest.mark.parametrize(("where", "by", "source"), [
    (look(nodes=[node(label=None)], objects=[]), driver(), None),
    (look(nodes=[node()], objects=[]), driver(), f"label {LABEL} of Node a"),
    # A removal that did not get to its end, and one of somebody else.
    (look(nodes=[node(label=None)], objects=[]), driver(sets=[DAEMON_SET, THEIRS]), "DaemonSet kube-system/dranet"),
    (look(nodes=[node(label=None)], objects=objects(dra())[:1]), driver(), "DeviceClass dranet-rdma"),
    (look(nodes=[node(label=None)], objects=[]), driver(sets=[THEIRS]), None),
    # Others have it, so what is of the cluster is theirs.
    (look(nodes=[node(label=None), node("b")]), driver(sets=[DAEMON_SET]), None),
])
def test_where_it_is_to_be_off(where: Look, by: dra_knobs.Driver, source: str | None) -> None:
    off = dra(dranet=False)
    state = dra_knobs.node_state(where, by, "a", {}, off)
    assert state.configured == {"dra.dranet": {"value": source is not None, "source": source}}
    assert judged(where, off, by) == ({"dra.dranet": "configured differs"} if source else {})


def test_what_costs_nothing_to_mend_disturbs_nobody() -> None:
    state = dra_knobs.node_state(look(objects=[], nodes=[node(label=None)]), driver(), "a", MACHINE, dra())
    report = drift.compare({"knobs": dra_knobs.wanted(MACHINE, dra())}, {"running": {}, "configured": {}}, known(state))
    assert report["summary"] == {"needs": "live", "count": len(MANAGED)}
    assert [entry["knob"] for entry in report["entries"] if entry["class"] == "managed"] == MANAGED


@pytest.mark.parametrize("cluster", [None, {"labels": {}, "taints": []}, {"dra": None}])
def test_it_is_judged_only_where_it_was_asked(cluster: Any) -> None:
    assert not drift.compare({"knobs": dra_knobs.wanted(MACHINE, dra())}, {"running": {}, "configured": {}}, cluster)["entries"]


def test_a_node_leaves_and_the_last_one_takes_everything() -> None:
    where = look(nodes=[node(), node("b")])
    change, keep = dra_cluster.leave(where, ["a"])
    assert (change.label, change.remove, keep) == ({"a": None}, [], ["b"])
    for nodes in (["a", "b"], []):
        change, keep = dra_cluster.leave(where, nodes)
        assert (change.label, len(change.remove), keep) == ({"a": None, "b": None}, len(where.objects), [])


def test_only_claims_on_the_nodes_that_leave_stand_against_it() -> None:
    held = {"metadata": {"namespace": "inference", "name": "c"}, "spec": {"devices": {"requests": []}}, "status": {
        "reservedFor": [{"name": "worker"}], "allocation": {"devices": {"results": [{"driver": "dra.net", "pool": "a", "device": "fab0"}]}}}}
    assert dra_cluster.in_use(look(claims=[held]), [], True, ["a"]) == ["inference/c (pods: worker): fab0"]
    assert dra_cluster.in_use(look(claims=[held]), [], True, ["b"]) == []
    # Its slice is gone already: pools have the names of their nodes.
    assert dra_cluster.in_use(look(claims=[held], slices=[]), [], True, ["a"]) == ["inference/c (pods: worker): fab0"]
