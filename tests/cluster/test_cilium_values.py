# Copyright (c) 2026 The inferops.locality authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Values of RKE2's Cilium on a real API server, with the rights of docs/rbac.yaml and docs/rbac-cilium-values.yaml.

There is no RKE2 and no Cilium: the kinds are those of the reference, the HelmChart and the agents' objects are written by us, and no helm controller acts on
what is written.
"""

from __future__ import annotations

import json
from typing import Any, Dict, Iterator

import pytest
import yaml

import stand_in_cilium as cilium
from test_cilium_node import reference
from turns import TOP, Cluster, turn_cluster, until

CHARTS = "/apis/helm.cattle.io/v1/namespaces/kube-system/helmcharts"
CONFIGS = "/apis/helm.cattle.io/v1/namespaces/kube-system/helmchartconfigs"
CONFIG = f"{CONFIGS}/rke2-cilium"
RIGHTS = TOP / "docs" / "rbac-cilium-values.yaml"
NETWORK: Dict[str, Any] = {"routing": "direct", "bpf_maps": {"distributed_lru": True}, "clock_probe": True}
WANTED: Dict[str, Any] = {"network": NETWORK, "version": "1.19.601"}


def chart(name: str = "rke2-cilium") -> Dict[str, Any]:
    return {
        "apiVersion": "helm.cattle.io/v1", "kind": "HelmChart", "metadata": {"name": name, "namespace": "kube-system"},
        "spec": {"chart": name, "set": {"global.clusterCIDR": "10.0.0.0/8", "global.clusterCIDRv4": "10.0.0.0/8"}},
    }


@pytest.fixture(scope="module")
def shared(programs: None) -> Iterator[Cluster]:
    definitions = reference() / "data" / "crds"
    with turn_cluster("a", "b") as running:
        for kind in ("helmcharts", "helmchartconfigs"):
            running.plane.kubectl("apply", "-f", str(definitions / f"helm.cattle.io_{kind}.yaml"))
            running.plane.kubectl("wait", "--for=condition=Established", f"crd/{kind}.helm.cattle.io", "--timeout=60s")
        until("the kinds are served", lambda: running.exists(CHARTS) and running.exists(CONFIGS))
        running.plane.kubectl("apply", "-f", str(RIGHTS))
        running.api.post(CHARTS, chart())
        until("our account may read", lambda: "status" not in call(running, state="read"), 30)
        yield running


@pytest.fixture
def cluster(shared: Cluster) -> Cluster:
    if shared.exists(CONFIG):
        shared.api.delete(CONFIG)
    return shared


def call(cluster: Cluster, check: bool = False, **arguments: Any) -> Dict[str, Any]:
    """The module; it has no node."""
    return cluster.call("cilium_values", "", check=check, **{**WANTED, **arguments})


def values(cluster: Cluster) -> Any:
    return yaml.safe_load(cluster.api.get(CONFIG)["spec"]["valuesContent"])


def test_check_run_run_again_check_again_and_back(cluster: Cluster) -> None:
    foretold = call(cluster, check=True)
    assert foretold["changed"] and not cluster.exists(CONFIG)
    made = call(cluster)
    assert made["changed"] and made["diff"] == foretold["diff"] and made["chart_values"] == foretold["chart_values"]
    spec = cluster.api.get(CONFIG)["spec"]
    assert spec["failurePolicy"] == "abort" and values(cluster) == made["chart_values"]
    assert made["chart_values"]["ipv4NativeRoutingCIDR"] == "10.0.0.0/8" and made["chart_values"]["bpf"]["distributedLRU"] == {"enabled": True}
    assert (made["mode"], made["live"], made["nodes"]) == ("bundled", False, 2)
    for check in (False, True):
        again = call(cluster, check=check)
        assert not again["changed"] and "diff" not in again
    assert call(cluster, check=True, state="absent")["changed"] and cluster.exists(CONFIG)
    assert call(cluster, state="absent")["changed"] and not cluster.exists(CONFIG)
    for check in (False, True):
        assert not call(cluster, check=check, state="absent")["changed"]


def test_what_stood_there_is_built_upon_and_comes_back(cluster: Cluster) -> None:
    theirs = {"valuesContent": "hubble:\n  enabled: true\n", "failurePolicy": "retry"}
    cluster.api.post(CONFIGS, {"metadata": {"name": "rke2-cilium", "labels": {"team": "net"}}, "spec": theirs, "apiVersion": "helm.cattle.io/v1",
                               "kind": "HelmChartConfig"})
    assert call(cluster)["changed"] and values(cluster)["hubble"] == {"enabled": True}
    # Once more with another wish: what was there is still what was there.
    assert call(cluster, network={**NETWORK, "clock_probe": None})["changed"]
    assert "bpfClockProbe" not in values(cluster) and values(cluster)["hubble"] == {"enabled": True}
    assert call(cluster, state="absent")["changed"]
    found = cluster.api.get(CONFIG)
    assert found["spec"] == theirs and found["metadata"]["labels"] == {"team": "net"} and not found["metadata"].get("annotations")
    assert not call(cluster, state="absent")["changed"]


def test_a_change_of_somebody_else_is_not_lost(cluster: Cluster) -> None:
    call(cluster)
    cluster.api.patch(CONFIG, {"spec": {"valuesContent": "debug:\n  enabled: true\n"}})
    for arguments in ({}, {"state": "absent"}, {"check": True}):
        refused = call(cluster, **arguments)  # type: ignore[arg-type]
        assert refused["failed"] and "cilium.config_changed" in refused["msg"]
    assert values(cluster) == {"debug": {"enabled": True}}


def test_all_refusals_come_at_once_and_nothing_is_written(cluster: Cluster) -> None:
    wrong = {"enableIpv4BigTcp": True, "bpf": {"datapathMode": "netkti"}}
    refused = call(cluster, network={"bpf_maps": {}}, values=wrong)
    assert refused["failed"] and not cluster.exists(CONFIG)
    assert {item["id"] for item in refused["findings"] if item["severity"] == "error"} == {
        "cilium.routing_unstated", "cilium.values_unknown_key", "cilium.values_word",
    }
    assert "the nearest known key is enableIPv4BIGTCP" in refused["msg"] and "the nearest is netkit" in refused["msg"]
    # Reading tells the same and fails for none of it.
    read = call(cluster, network={"bpf_maps": {}}, values=wrong, state="read")
    assert not read.get("failed") and read["findings"] == refused["findings"]


def test_no_other_cilium_beside_the_bundled_one(cluster: Cluster) -> None:
    refused = call(cluster, mode="helm", version="1.19.6")
    assert refused["failed"] and "RKE2 brings a CNI of its own here (HelmChart rke2-cilium)" in refused["msg"]


def test_another_cni_is_not_changed(cluster: Cluster) -> None:
    cluster.api.delete(f"{CHARTS}/rke2-cilium")
    cluster.api.post(CHARTS, chart("rke2-canal"))
    try:
        for mode in ("bundled", "helm"):
            refused = call(cluster, mode=mode)
            assert refused["failed"] and "rke2-canal" in refused["msg"] and not cluster.exists(CONFIG)
    finally:
        cluster.api.delete(f"{CHARTS}/rke2-canal")
        cluster.api.post(CHARTS, chart())


def test_what_is_not_changed_under_pods(cluster: Cluster) -> None:
    config_map = "/api/v1/namespaces/kube-system/configmaps"
    live = {
        "routing-mode": "native", "kube-proxy-replacement": "true", "enable-bpf-masquerade": "true", "enable-ipv4": "true", "enable-ipv6": "false",
        "ipam": "kubernetes", "cni-chaining-mode": "none", "enable-host-legacy-routing": "false", "datapath-mode": "veth",
    }
    call(cluster, network={"routing": "direct"})
    cluster.api.post(config_map, {"metadata": {"name": "cilium-config"}, "data": live})
    cluster.api.post(cilium.DAEMON_SETS, cilium.daemon_set())
    try:
        with cluster.namespace("live") as namespace:
            cluster.deploy(namespace, "app", 1)
            until("a pod runs", lambda: call(cluster, state="read")["live"])
            # What this cluster was made with stays when pods run on it.
            made = dict(values(cluster))
            assert not call(cluster, network={"routing": "direct"})["changed"]
            changed = call(cluster, network={"bpf_maps": {"ratio": 0.005}})
            assert changed["changed"] and changed["pending"] == ["cilium.bpf_maps"]
            assert values(cluster) == {**made, "bpf": {**made["bpf"], "mapDynamicSizeRatio": 0.005, "distributedLRU": {"enabled": False}}}
            refused = call(cluster, values={"routingMode": "tunnel", "autoDirectNodeRoutes": False})
            assert refused["failed"] and "routing-mode: found native in the cluster" in refused["msg"]
            # RKE2 has not rendered it: agents that start now would have the old maps.
            late = call(cluster, network={"bpf_maps": {"ratio": 0.006}}, wait=1)
            assert late["failed"] and late["changed"] and "does not have cilium.bpf_maps" in late["msg"]
            cluster.api.patch(f"{config_map}/cilium-config", {"data": {"bpf-map-dynamic-size-ratio": "0.006"}})
            assert not call(cluster, network={"bpf_maps": {"ratio": 0.006}}, wait=1)["changed"]
            cluster.api.patch(f"{config_map}/cilium-config", {"data": {"bpf-map-dynamic-size-ratio": None}})
            assert call(cluster, state="absent", check=True)["changed"] and values(cluster)["bpf"]["mapDynamicSizeRatio"] == 0.006
            back = call(cluster, state="absent")
            assert back["changed"] and values(cluster) == made and [item["id"] for item in back["findings"]] == ["cilium.profile_stays"]
            assert json.loads(cluster.api.get(CONFIG)["metadata"]["annotations"]["locality.inferops.io/cilium-values"])["before"] is None
            for check in (False, True):
                assert not call(cluster, state="absent", check=check)["changed"]
    finally:
        cluster.api.delete(f"{config_map}/cilium-config")
        cluster.api.delete(f"{cilium.DAEMON_SETS}/cilium")


@pytest.mark.parametrize(("group", "resource"), [("helm.cattle.io", "helmcharts"), ("helm.cattle.io", "helmchartconfigs"), ("", "configmaps"),
                                                 ("apps", "daemonsets"), ("apiextensions.k8s.io", "customresourcedefinitions")])
def test_every_right_is_needed(cluster: Cluster, group: str, resource: str) -> None:
    whole = yaml.safe_load(RIGHTS.read_text(encoding="utf-8"))
    less = json.loads(json.dumps(whole))
    for item in less["items"]:
        if "rules" in item:
            item["rules"] = [rule for rule in item["rules"] if not (rule["apiGroups"] == [group] and rule["resources"] == [resource])]
    cluster.plane.kubectl("apply", "-f", "-", manifest=yaml.safe_dump(less))
    try:
        until("the right is gone", lambda: call(cluster, check=True).get("status") == 403, 30)
        assert "docs/rbac-cilium-values.yaml" in call(cluster, check=True)["msg"]
    finally:
        cluster.plane.kubectl("apply", "-f", str(RIGHTS))
        until("the right is back", lambda: "status" not in call(cluster, state="read"), 30)
