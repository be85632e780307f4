# Copyright (c) 2026 The inferops.locality authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which Cilium a cluster has, from objects written by us, and what its chart may be given."""

from __future__ import annotations

import json
from typing import Any, Dict, List, Optional

import pytest
import yaml

from ansible_collections.inferops.locality.plugins.module_utils import cilium_cluster, policy

API = ("localhost", 6443)
CHART = {"metadata": {"name": "rke2-cilium"}, "spec": {"set": {"global.clusterCIDRv4": "10.42.0.0/16"}}}
DAEMON_SET = {"spec": {"template": {"spec": {"containers": [{"name": "cilium-agent", "image": "rancher/mirrored-cilium-cilium:v1.19.6"}]}}}}
NODE = {"metadata": {"name": "a"}, "spec": {"podCIDRs": ["10.42.0.0/24"]}}
POD = {"metadata": {"name": "x", "namespace": "default"}, "spec": {}, "status": {"phase": "Running"}}
# As the agents of a live cluster have it that got the profile when it was new.
LIVE = {
    "routing-mode": "native", "kube-proxy-replacement": "true", "enable-bpf-masquerade": "true", "enable-ipv4": "true", "enable-ipv6": "false",
    "enable-host-legacy-routing": "false", "ipam": "kubernetes", "cni-chaining-mode": "none", "datapath-mode": "veth",
    "ipv4-native-routing-cidr": "10.42.0.0/16",
}
OWN = {"routingMode": "native", "ipv4NativeRoutingCIDR": "10.42.0.0/16", "kubeProxyReplacement": True, "k8sServiceHost": "localhost",
       "bpf": {"masquerade": True, "hostLegacyRouting": False}, "cni": {"chainingMode": "none"}, "autoDirectNodeRoutes": True}


def helm_config(values: Dict[str, Any], before: Any = None, mark: bool = False) -> Dict[str, Any]:
    spec = {"failurePolicy": "abort", "valuesContent": yaml.safe_dump(values)}
    noted = {cilium_cluster.NOTE: json.dumps({"before": before, "written": cilium_cluster.digest(spec)})} if mark else {}
    return {"metadata": {"name": "rke2-cilium", "annotations": noted}, "spec": spec}


def cluster(**objects: Any) -> cilium_cluster.Found:
    given: Dict[str, Any] = {
        "charts": [CHART], "nodes": [NODE], "pods": [], "helm_config": None, "config_map": None, "daemon_set": None, "definition": None, **objects,
    }
    return cilium_cluster.found(given, yaml.safe_load)


def live(**objects: Any) -> cilium_cluster.Found:
    return cluster(**{"pods": [POD], "daemon_set": DAEMON_SET, "config_map": {"data": LIVE}, "helm_config": helm_config(OWN), **objects})


def decide(  # noqa: PLR0917
    found: cilium_cluster.Found, mode: Optional[str] = None, values: Any = None, version: Optional[str] = "1.19.6", current: Any = None, **network: Any,
) -> Any:
    checked = policy.normalise_policy({"network": network})["network"]
    return cilium_cluster.decide(found, mode, checked, values or {}, version, API, current)


def errors(decision: Any) -> List[str]:
    return [item["id"] for item in decision.findings if item["severity"] == "error"]


# -- what is there


CIDRS: List[Any] = [
    ([{**CHART, "spec": {"set": {"global.clusterCIDRv4": "10.42.0.0/16", "global.clusterCIDRv6": "fd00:42::/56"}}}], NODE, ["10.42.0.0/16", "fd00:42::/56"]),
    ([{**CHART, "spec": {"set": {"global.clusterCIDR": "10.1.0.0/16,fd00::/56"}}}], NODE, ["10.1.0.0/16", "fd00::/56"]),
    ([], {**NODE, "metadata": {"annotations": {"rke2.io/node-args": '["server", "--cluster-cidr", "10.9.0.0/16"]'}}}, ["10.9.0.0/16"]),
    ([], {**NODE, "metadata": {"annotations": {"rke2.io/node-args": '["server", "--cluster-cidr=10.9.0.0/16"]'}}}, ["10.9.0.0/16"]),
    ([], {**NODE, "metadata": {"annotations": {"rke2.io/node-args": "no json"}}}, ["10.42.0.0/16"]),
    ([], NODE, ["10.42.0.0/16"]),
]


@pytest.mark.parametrize(("charts", "node", "cidrs"), CIDRS)
def test_the_ranges_are_found(charts: Any, node: Any, cidrs: List[str]) -> None:
    assert cluster(charts=charts, nodes=[node]).cidrs == cidrs


VERSIONS: List[Any] = [
    ({"daemon_set": DAEMON_SET}, "1.19.6"),
    ({"charts": [{"metadata": {"name": "rke2-cilium", "annotations": {"helm.cattle.io/chart-url": "https://x/rke2-cilium-1.19.601.tgz"}}}]}, "1.19.601"),
    ({}, ""),
]


@pytest.mark.parametrize(("objects", "version"), VERSIONS)
def test_the_version_is_that_of_the_agents_or_of_the_chart(objects: Any, version: str) -> None:
    assert cluster(**objects).version == version


def test_what_counts_as_a_pod_on_the_network() -> None:
    host = {**POD, "spec": {"hostNetwork": True}}
    ended = {**POD, "status": {"phase": "Succeeded"}}
    proxy = {"metadata": {"name": "kube-proxy-a", "namespace": "kube-system"}, "spec": {"hostNetwork": True}, "status": {"phase": "Running"}}
    found = cluster(pods=[POD, host, ended, proxy], daemon_set=DAEMON_SET)
    assert (found.pods, found.kube_proxies, found.live) == (1, 1, True)
    assert not cluster(pods=[host], daemon_set=DAEMON_SET).live


def test_the_operators_values_are_those_before_ours() -> None:
    theirs = helm_config({"a": 1, "b": {"c": 2}})
    theirs["spec"]["values"] = {"b": {"c": 3}}
    assert cilium_cluster.own_values(theirs, yaml.safe_load) == {"a": 1, "b": {"c": 3}}
    ours = helm_config({"a": 2}, before={"valuesContent": "a: 1"}, mark=True)
    assert cilium_cluster.own_values(ours, yaml.safe_load) == {"a": 1}
    assert cilium_cluster.own_values(helm_config({"a": 2}, before=None, mark=True), yaml.safe_load) == {}
    for text in ("{", "- a"):
        with pytest.raises(ValueError):
            cilium_cluster.own_values({"spec": {"valuesContent": text}}, yaml.safe_load)


# -- what it may be given


def test_a_new_cluster_gets_the_profile_over_what_stands_there() -> None:
    decision = decide(cluster(helm_config=helm_config({"hubble": {"enabled": True}})), routing="direct", values={"operator": {"replicas": 1}})
    assert errors(decision) == [] and not decision.live and decision.mode == "bundled"
    assert decision.values["hubble"] == {"enabled": True} and decision.values["routingMode"] == "native"
    assert decision.values["ipv4NativeRoutingCIDR"] == "10.42.0.0/16"


def test_a_live_cluster_gets_what_may_change() -> None:
    decision = decide(live(), bpf_maps={"ratio": 0.005}, clock_probe=True)
    assert errors(decision) == [] and decision.live
    assert decision.values == {
        **OWN, "bpf": {**OWN["bpf"], "distributedLRU": {"enabled": False}, "mapDynamicSizeRatio": 0.005}, "bpfClockProbe": True,  # type: ignore[dict-item]
        "updateStrategy": {"type": "OnDelete"},
    }


REFUSED: List[Any] = [
    (live(charts=[{"metadata": {"name": "rke2-canal"}}]), "bundled", {}, ["cilium.cni_change"]),
    (live(charts=[]), "bundled", {}, ["cilium.not_bundled"]),
    (live(), "helm", {}, ["cilium.helm_beside_bundled"]),
    (cluster(charts=[{"metadata": {"name": "rke2-canal"}}], pods=[POD]), "helm", {}, ["cilium.helm_beside_bundled", "cilium.cni_change"]),
    (cluster(charts=[], pods=[POD]), "helm", {}, ["cilium.cni_change"]),
    (live(), None, {"routingMode": "tunnel", "autoDirectNodeRoutes": False}, ["cilium.live_change"]),
    (live(), None, {"bpf": {"datapathMode": "netkit"}}, ["cilium.live_node_change"]),
    (live(config_map={"data": {**LIVE, "routing-mode": "tunnel"}}), None, {}, ["cilium.live_change"]),
    (live(), None, {"enableIpv4BigTcp": True}, ["cilium.values_unknown_key"]),
]


@pytest.mark.parametrize(("found", "mode", "values", "ids"), REFUSED)
def test_what_is_refused(found: cilium_cluster.Found, mode: Any, values: Dict[str, Any], ids: List[str]) -> None:
    said = errors(decide(found, mode, values, routing="bgp", current=OWN))
    assert set(said) >= {ids[0]}
    assert set(said) <= set(ids)


def test_helm_values_that_nobody_knows_are_not_guessed() -> None:
    assert "cilium.no_current_values" in errors(decide(live(charts=[], helm_config=None), "helm"))
    decision = decide(live(charts=[], helm_config=None), "helm", current={**OWN, "ipam": {"mode": "kubernetes"}}, clock_probe=True)
    assert errors(decision) == [] and decision.values["bpfClockProbe"] is True


def test_a_cluster_with_kube_proxy_is_not_told_to_replace_it() -> None:
    proxy = {"metadata": {"name": "kube-proxy-a", "namespace": "kube-system"}, "spec": {"hostNetwork": True}, "status": {"phase": "Running"}}
    assert errors(decide(cluster(pods=[proxy]), routing="direct")) == ["cilium.kube_proxy_runs"]


def test_ranges_that_the_nodes_are_not_in() -> None:
    assert errors(decide(cluster(nodes=[{**NODE, "spec": {"podCIDRs": ["10.7.0.0/24"]}}]), routing="direct")) == ["cilium.cidr_outside"]


def test_a_version_that_is_not_known_is_asked_for() -> None:
    assert errors(decide(cluster(), version=None, routing="direct")) == ["cilium.no_version"]


def test_a_config_that_somebody_changed_is_left_as_it_is() -> None:
    config = helm_config(OWN, mark=True)
    assert errors(decide(live(helm_config=config, config_map={"data": LIVE}), values=OWN)) == []
    config["spec"]["valuesContent"] += "a: 1\n"
    assert errors(decide(live(helm_config=config), values=OWN)) == ["cilium.config_changed"]


def noted(values: Dict[str, Any], before: Any = None, profile: Any = None) -> Dict[str, Any]:
    """A HelmChartConfig of ours."""
    config = helm_config(values)
    note = {"before": before, "written": cilium_cluster.digest(config["spec"]), "profile": OWN if profile is None else profile}
    return {**config, "metadata": {**config["metadata"], "annotations": {cilium_cluster.NOTE: json.dumps(note)}}}


def test_a_cluster_that_was_made_with_the_profile_keeps_it_when_pods_run() -> None:
    new = decide(cluster(), routing="direct", clock_probe=True)
    assert new.profile["routingMode"] == "native" and "bpfClockProbe" not in new.profile and "distributedLRU" not in new.profile["bpf"]
    config = noted(new.values, profile=new.profile)
    again = decide(live(helm_config=config), routing="direct", clock_probe=True)
    assert errors(again) == [] and again.values == new.values and again.profile == new.profile
    # What may change and is not asked for any more goes back to what was there.
    less = decide(live(helm_config=config), routing="direct")
    assert errors(less) == [] and less.values == {key: value for key, value in new.values.items() if key != "bpfClockProbe"}


def test_what_a_cluster_was_made_with_stays_under_pods_and_the_rest_goes() -> None:
    made = {**OWN, "bpfClockProbe": True, "hubble": {"enabled": True}}
    config = noted(made, before={"valuesContent": "hubble: {enabled: true}"})
    back = cilium_cluster.removal(live(helm_config=config), "bundled")
    assert back.values == {**OWN, "hubble": {"enabled": True}} and not back.whole
    assert [(item["id"], item["severity"]) for item in back.findings] == [("cilium.profile_stays", "warning")]
    empty = cilium_cluster.removal(live(helm_config=config, pods=[]), "bundled")
    assert empty.values == {"hubble": {"enabled": True}} and empty.whole and empty.findings == []
    # Values of the operator that nobody noted are not there any more when ours go.
    lost = cilium_cluster.removal(live(helm_config=noted(made, profile={})), "bundled")
    assert {item["id"] for item in lost.findings} == {"cilium.live_change"}


def test_a_release_of_helm_goes_back_to_what_it_had() -> None:
    found = live(charts=[], helm_config=None)
    theirs = {**OWN, "ipam": {"mode": "kubernetes"}}
    given = {**theirs, "bpfClockProbe": True}
    found.noted = {"before": theirs, "written": cilium_cluster.digest(given), "since": cilium_cluster.digest(theirs), "profile": {}}
    assert decide(found, "helm", current=given).values == {**theirs, "updateStrategy": {"type": "OnDelete"}}
    back = cilium_cluster.removal(found, "helm", given)
    assert back.values == theirs and back.whole and back.findings == []
    assert "cilium.no_current_values" in {item["id"] for item in cilium_cluster.removal(found, "helm").findings}
    # As after a run that ended before helm had them.
    assert errors(decide(found, "helm", current=theirs, clock_probe=True)) == []
    for changed in (decide(found, "helm", current={**given, "debug": {"enabled": True}}).findings, cilium_cluster.removal(found, "helm", {}).findings):
        assert "cilium.config_changed" in {item["id"] for item in changed}


def test_a_config_that_a_file_brings_back_is_said() -> None:
    config = helm_config(OWN)
    config["metadata"]["annotations"]["objectset.rio.cattle.io/owner-name"] = "rke2-cilium-config"
    told = [item for item in decide(live(helm_config=config), clock_probe=True).findings if item["id"] == "cilium.config_from_file"]
    assert len(told) == 1 and told[0]["severity"] == "warning" and "Addon rke2-cilium-config" in told[0]["message"]


PENDING: List[Any] = [
    ({}, {"bpfClockProbe": True}, []),
    (LIVE, {}, []),
    (LIVE, {"bpfClockProbe": True}, ["cilium.clock"]),
    ({**LIVE, "enable-bpf-clock-probe": "true"}, {"bpfClockProbe": True}, []),
    ({**LIVE, "enable-bpf-clock-probe": "true"}, {}, ["cilium.clock"]),
    (LIVE, {"bpf": {"mapDynamicSizeRatio": 0.0025}}, []),
    (LIVE, {"bpf": {"distributedLRU": {"enabled": True}}, "bandwidthManager": {"enabled": True}}, ["cilium.bpf_maps", "cilium.bandwidth_manager"]),
]


@pytest.mark.parametrize(("config", "values", "knobs"), PENDING)
def test_what_the_agents_would_not_have_yet(config: Dict[str, str], values: Dict[str, Any], knobs: List[str]) -> None:
    assert cilium_cluster.pending(config, values, "bundled") == knobs


def test_a_failed_upgrade_never_takes_the_cni_away() -> None:
    theirs = {"spec": {"failurePolicy": "reinstall", "valuesContent": "a: 1", "values": {"a": 2}, "valuesSecrets": [{"name": "x"}]}}
    assert cilium_cluster.config_spec(theirs, "b: 1\n") == {"failurePolicy": "abort", "valuesContent": "b: 1\n", "valuesSecrets": [{"name": "x"}]}
