# Copyright (c) 2026 The inferops.locality authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A node's own configuration of Cilium on a real API server, with the rights of docs/rbac.yaml and docs/rbac-cilium.yaml. There is no Cilium: the agents are a
DaemonSet of their name, see stand_in_cilium.py.
"""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import Any, Dict, Iterator, List, Tuple

import pytest
import yaml

import stand_in_cilium as cilium
from turns import TOP, Cluster, turn_cluster, until

LABEL = "locality.inferops.io/cilium"
RIGHTS = TOP / "docs" / "rbac-cilium.yaml"
WANTED: Dict[str, Any] = {
    "cilium.datapath_mode": "netkit", "cilium.big_tcp": ["ipv4"], "cilium.devices": ["ens10f0np0"], "cilium.xdp": "native", "cilium.clock": True,
    "vm.thp": "madvise",
}
OTHER = {**WANTED, "cilium.xdp": "best-effort"}


def reference() -> Path:
    """Folder with the definitions of kinds."""
    place = Path(os.environ.get("LOCALITY_REFERENCE") or TOP.parent / "shared" / "reference")
    if not place.is_dir():
        told = f"reference is not at {place}"
        if "reference" in os.environ.get("LOCALITY_REQUIRE", "").split(","):
            pytest.fail(told)
        pytest.skip(told)
    return place


@pytest.fixture(scope="module")
def shared(programs: None) -> Iterator[Cluster]:
    definitions = reference() / "data" / "crds"
    with turn_cluster("a", "b") as running:
        running.plane.kubectl("apply", "-f", str(RIGHTS))
        cilium.install(running, definitions, 2)
        until("our account may read", lambda: not running.call("cilium_node_config", "a", state="read").get("failed"), 30)
        yield running


@pytest.fixture
def cluster(shared: Cluster) -> Cluster:
    cilium.forget(shared, "a", "b")
    shared.reset("a", "b")
    return shared


def label(cluster: Cluster, node: str) -> Any:
    return cluster.node(node)["metadata"]["labels"].get(LABEL)


def test_check_run_run_again_check_again_and_back(cluster: Cluster) -> None:
    foretold = cluster.call("cilium_node_config", "a", check=True, wanted=WANTED)
    assert foretold["changed"] and label(cluster, "a") is None and cilium.objects(cluster) == {}
    assert foretold["diff"]["after"][f"label {LABEL}"] == foretold["name"].rpartition("-")[2]
    made = cluster.call("cilium_node_config", "a", wanted=WANTED)
    assert made["changed"] and made["name"] == foretold["name"] and made["diff"] == foretold["diff"]
    assert label(cluster, "a") == made["name"].rpartition("-")[2]
    spec = cilium.objects(cluster)[made["name"]]["spec"]
    assert spec == {
        "nodeSelector": {"matchLabels": {LABEL: label(cluster, "a")}},
        "defaults": {"datapath-mode": "netkit", "enable-ipv4-big-tcp": "true", "enable-ipv6-big-tcp": "false", "devices": "ens10f0np0",
                     "bpf-lb-acceleration": "native"},
    }
    assert made["configured"]["cilium.xdp"] == {"value": "native", "source": f"CiliumNodeConfig kube-system/{made['name']}"}
    assert made["configured"]["cilium.clock"] == {"value": True, "source": "ConfigMap kube-system/cilium-config"}
    for check in (False, True):
        again = cluster.call("cilium_node_config", "a", check=check, wanted=WANTED)
        assert not again["changed"] and again["configured"] == made["configured"] and "diff" not in again
    assert cluster.call("cilium_node_config", "a", check=True, state="absent")["removed"] == [made["name"]]
    assert cilium.objects(cluster)
    back = cluster.call("cilium_node_config", "a", state="absent")
    assert back["changed"] and back["removed"] == [made["name"]] and back["configured"]["cilium.datapath_mode"]["value"] == "veth"
    assert label(cluster, "a") is None and cilium.objects(cluster) == {}
    assert not cluster.call("cilium_node_config", "a", state="absent")["changed"]


def test_nodes_with_the_same_values_share_an_object_which_goes_with_the_last(cluster: Cluster) -> None:
    names = [cluster.call("cilium_node_config", node, wanted=WANTED)["name"] for node in ("a", "b")]
    assert names[0] == names[1] and list(cilium.objects(cluster)) == names[:1]
    moved = cluster.call("cilium_node_config", "a", wanted=OTHER)
    assert moved["own"] == {knob: WANTED[knob] for knob in list(WANTED)[:4]}
    assert moved["removed"] == [] and set(cilium.objects(cluster)) == {names[0], moved["name"]}
    assert cluster.call("cilium_node_config", "b", wanted=OTHER)["removed"] == [names[0]]
    assert list(cilium.objects(cluster)) == [moved["name"]]


def test_an_object_that_somebody_changed_is_found_and_written_again(cluster: Cluster) -> None:
    name = cluster.call("cilium_node_config", "a", wanted=WANTED)["name"]
    cluster.plane.kubectl("patch", "-n", "kube-system", "ciliumnodeconfig", name, "--type=merge", "-p", '{"spec": {"defaults": {"datapath-mode": "veth"}}}')
    assert cluster.call("cilium_node_config", "a", state="read", wanted=WANTED)["configured"]["cilium.datapath_mode"]["value"] == "veth"
    foretold = cluster.call("cilium_node_config", "a", check=True, wanted=WANTED)
    assert foretold["changed"] and "veth" in str(foretold["diff"]["before"])
    assert cluster.call("cilium_node_config", "a", wanted=WANTED)["configured"]["cilium.datapath_mode"]["value"] == "netkit"


def test_an_object_of_others_with_the_same_key_is_refused_by_name_and_nothing_is_changed(cluster: Cluster) -> None:
    theirs = {"apiVersion": "cilium.io/v2", "kind": "CiliumNodeConfig", "metadata": {"name": "gpu-pool", "namespace": "kube-system"},
              "spec": {"nodeSelector": {"matchLabels": {"kubernetes.io/hostname": "a"}}, "defaults": {"devices": "eth9"}}}
    cluster.plane.kubectl("apply", "-f", "-", manifest=yaml.safe_dump(theirs))
    for check in (True, False):
        refused = cluster.call("cilium_node_config", "a", check=check, wanted=WANTED)
        assert refused["failed"] and "CiliumNodeConfig kube-system/gpu-pool selects this node and sets devices" in refused["msg"]
    read = cluster.call("cilium_node_config", "a", state="read", wanted=WANTED)
    assert [item["id"] for item in read["findings"]] == ["cilium.foreign_config"] and not read["changed"]
    assert read["configured"]["cilium.devices"] == {"value": ["eth9"], "source": "CiliumNodeConfig kube-system/gpu-pool"}
    assert label(cluster, "a") is None and list(cilium.objects(cluster)) == ["gpu-pool"]
    assert cluster.call("cilium_node_config", "b", wanted=WANTED)["changed"]


def test_a_node_that_others_write_to_all_the_time_gets_its_values(cluster: Cluster) -> None:
    stop = threading.Event()

    def others() -> None:
        number = 0
        while not stop.is_set():
            number += 1
            cluster.api.patch("/api/v1/nodes/a", {"metadata": {"annotations": {"beside": str(number)}}})

    writer = threading.Thread(target=others)
    writer.start()
    try:
        results = [cluster.call("cilium_node_config", "a", wanted=wanted) for wanted in (WANTED, OTHER, WANTED)]
    finally:
        stop.set()
        writer.join()
    assert [result.get("msg") for result in results] == [None, None, None]
    assert label(cluster, "a") == results[-1]["name"].rpartition("-")[2] and list(cilium.objects(cluster)) == [results[-1]["name"]]


def test_a_cluster_without_cilium_and_a_node_that_is_not_there_are_told(cluster: Cluster) -> None:
    assert "set locality_node_name" in cluster.call("cilium_node_config", "nowhere", wanted=WANTED)["msg"]
    config = cluster.api.get(cilium.CONFIG_MAP)["data"]
    cluster.api.delete(cilium.CONFIG_MAP)
    try:
        refused = cluster.call("cilium_node_config", "a", wanted=WANTED)
        assert refused["failed"] and "wanted a cluster whose CNI is Cilium" in refused["msg"]
    finally:
        cluster.api.post("/api/v1/namespaces/kube-system/configmaps", {"metadata": {"name": "cilium-config"}, "data": config})


# -- the agent


def test_the_agent_is_made_anew_by_an_eviction_and_the_next_one_is_ready(cluster: Cluster) -> None:
    before = cilium.agents(cluster, "a")
    read = cluster.call("cilium_agent", "a")
    assert read["agent"]["uid"] == before[0] and read["agent"]["ready"] and not read["changed"]
    assert cluster.call("cilium_agent", "a", check=True, state="recreated")["changed"] and cilium.agents(cluster, "a") == before
    made = cluster.call("cilium_agent", "a", state="recreated", timeout=60)
    assert made["changed"] and made["agent"]["ready"] and made["agent"]["uid"] not in before
    assert cilium.agents(cluster, "a") == [made["agent"]["uid"]]
    assert len(cilium.agents(cluster, "b")) == 1


def test_an_agent_that_does_not_come_back_is_told(cluster: Cluster) -> None:
    cluster.plane.nodes["a"].stop()
    refused = cluster.call("cilium_agent", "a", state="recreated", timeout=4)
    assert refused["failed"] and "is not ready 4 s after it was evicted" in refused["msg"] and "is still ending" in refused["msg"]
    cluster.plane.nodes["a"].ready()
    until("it is there again", lambda: len(cilium.agents(cluster, "a")) == 1)
    assert "no pod of DaemonSet kube-system/cilium" in cluster.call("cilium_agent", "nowhere", state="recreated")["msg"]


def test_a_budget_that_holds_the_agent_is_named(cluster: Cluster) -> None:
    path = "/apis/policy/v1/namespaces/kube-system/poddisruptionbudgets"
    cluster.api.post(path, {"metadata": {"name": "agents"}, "spec": {"minAvailable": 2, "selector": {"matchLabels": {"k8s-app": "cilium"}}}})
    try:
        until("the budget is computed", lambda: cluster.api.get(f"{path}/agents").get("status", {}).get("observedGeneration"))
        before = cilium.agents(cluster, "a")
        refused = cluster.call("cilium_agent", "a", state="recreated", timeout=3)
        assert refused["failed"] and "may not be evicted" in refused["msg"] and "agents" in refused["msg"]
        assert cilium.agents(cluster, "a") == before
    finally:
        cluster.api.delete(f"{path}/agents")


def test_pods_of_daemon_sets_go_and_come_back_with_the_taint(cluster: Cluster, request: pytest.FixtureRequest) -> None:
    with cluster.namespace(request.node.name) as space:
        cluster.api.post(f"/apis/apps/v1/namespaces/{space}/daemonsets", {"metadata": {"name": "exporter"}, "spec": {
            "selector": {"matchLabels": {"app": "exporter"}}, "template": {"metadata": {"labels": {"app": "exporter"}}, "spec": {
                "terminationGracePeriodSeconds": 1, "containers": [{"name": "main", "image": "none"}],
                "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists"}],
            }},
        }})
        until("it runs on both", lambda: len(cluster.names(space)) == 2)
        assert "is not cordoned" in cluster.call("cilium_agent", "a", state="emptied", timeout=30)["msg"]
        cluster.cordon("a")
        assert cluster.call("cilium_agent", "a", check=True, state="emptied")["changed"] and len(cluster.names(space, "a")) == 1
        emptied = cluster.call("cilium_agent", "a", state="emptied", timeout=60)
        assert emptied["changed"] and emptied["pods"] == [] and cluster.names(space, "a") == []
        assert len(cilium.agents(cluster, "a")) == 1 and len(cluster.names(space, "b")) == 1
        assert not cluster.call("cilium_agent", "a", state="emptied", timeout=60)["changed"]
        assert cluster.call("cilium_agent", "a", check=True, state="released")["changed"] and cluster.call("cilium_agent", "a", state="released")["changed"]
        until("it is back", lambda: len(cluster.names(space, "a")) == 1)
        assert not cluster.call("cilium_agent", "a", state="released")["changed"]
        cluster.cordon("a", False)


def test_pods_that_tolerate_everything_are_refused_by_name_before_anything_is_changed(cluster: Cluster, request: pytest.FixtureRequest) -> None:
    with cluster.namespace(request.node.name) as space:
        cluster.daemons(space, "logging", 2)
        cluster.cordon("a")
        for check in (True, False):
            refused = cluster.call("cilium_agent", "a", check=check, state="emptied", timeout=5)
            assert refused["failed"] and refused["pods"] == [told for told in refused["pods"] if told.startswith(f"{space}/logging-")] != []
            assert "of DaemonSet logging, which tolerates locality.inferops.io/network:NoExecute" in refused["msg"]
        assert not [taint for taint in cluster.node("a")["spec"].get("taints", []) if taint["key"].startswith("locality")]
        cluster.cordon("a", False)


# -- rights


def rights() -> List[Tuple[int, str]]:
    rules = yaml.safe_load(RIGHTS.read_text(encoding="utf-8"))["items"][0]["rules"]
    return [(number, verb) for number, rule in enumerate(rules) for verb in rule["verbs"]]


def walk(cluster: Cluster) -> List[Dict[str, Any]]:
    """All that is asked of the API server: an object made, changed by others and written again, and taken away, an agent made anew, a node emptied."""
    made = cluster.call("cilium_node_config", "a", wanted=WANTED)
    results = [made]
    if made.get("name") in cilium.objects(cluster):
        cluster.plane.kubectl("patch", "-n", "kube-system", "ciliumnodeconfig", made["name"], "--type=merge", "-p", '{"spec": {"defaults": {"x": "y"}}}')
        results.append(cluster.call("cilium_node_config", "a", wanted=WANTED))
    results += [cluster.call("cilium_node_config", "a", state="absent"), cluster.call("cilium_agent", "a", state="recreated", timeout=60)]
    return results


def test_with_the_rights_of_both_pages_all_of_it_works(cluster: Cluster) -> None:
    assert [result.get("msg") for result in walk(cluster) if result.get("failed")] == []


@pytest.mark.parametrize(("number", "verb"), rights())
def test_without_any_one_of_the_rights_something_fails(cluster: Cluster, number: int, verb: str) -> None:
    found = yaml.safe_load(RIGHTS.read_text(encoding="utf-8"))
    rules = found["items"][0]["rules"]
    rules[number]["verbs"].remove(verb)
    found["items"][0]["rules"] = [rule for rule in rules if rule["verbs"]]
    try:
        cluster.plane.kubectl("apply", "-f", "-", manifest=yaml.safe_dump(found))
        # The authorizer follows a moment later.
        refused = until("something is refused", lambda: [
            result for result in walk(cluster) if result.get("status") == 403 and f'cannot {verb} resource "' in result["msg"]
        ], 60)
        assert "docs/rbac-cilium.yaml" in refused[0]["msg"]
    finally:
        cluster.plane.kubectl("apply", "-f", str(RIGHTS))
    until("it works again", lambda: not cluster.call("cilium_node_config", "a", state="read").get("failed"))
