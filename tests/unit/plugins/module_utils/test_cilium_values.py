# Copyright (c) 2026 The inferops.locality authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Values of Cilium's charts: what is made of a policy, and what is found before helm or an agent would.

Where there is a reference, what is made is held to the charts' own schemas and lists of keys; with LOCALITY_CILIUM_CHART=path and helm, to a chart itself. What
an agent does with them cannot be seen here.
"""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any, Dict, Iterator, List, Mapping, Optional, Tuple

import jsonschema
import pytest
import yaml

from ansible_collections.inferops.locality.plugins.module_utils import cilium_gates, cilium_keys, cilium_values, findings, plan, policy
from ansible_collections.inferops.locality.tests.unit.strategies import PLATFORM, regular, topology


def _helm() -> Optional[str]:
    """On PATH, or that of the cluster's programs (tests/cluster), which are built once."""
    cache = Path(os.environ.get("LOCALITY_CLUSTER_CACHE") or Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "inferops-locality/cluster")
    return shutil.which("helm") or next((str(path) for path in sorted(cache.glob("*/bin/helm"))), None)


HELM = _helm()
CHARTS = [pytest.param(mode, version, id=f"{chart}-{version}") for mode, chart in cilium_values.CHARTS.items()
          for whose, version in cilium_keys.VERSIONS.values() if whose == chart]
LETTERS = {version: letter for letter, (_chart, version) in cilium_keys.VERSIONS.items()}
# Versions that are warned of whatever the values.
VERSION_IDS = ("cilium.version_policies", "cilium.version_node_config", "cilium.version_vxlan")


def network(**asked: Any) -> Dict[str, Any]:
    return policy.normalise_policy({"network": asked})["network"]


FULL = network(
    datapath_mode="netkit", big_tcp=["ipv4", "ipv6"], devices=["bond1", "bond0"], xdp="best-effort", routing="direct",
    bpf_maps={"distributed_lru": True}, clock_probe=True, bandwidth_manager={"bbr": True},
)
PROFILES: Dict[str, Dict[str, Any]] = {
    "least": network(routing="bgp"), "full": FULL, "one-family": network(routing="direct", big_tcp=["ipv4"], devices="uplink"),
}
RANGES = {"least": ["10.42.0.0/16"], "full": ["10.42.0.0/16", "2001:db8:42::/56"], "one-family": ["10.42.0.0/16"]}


def made(name: str, mode: str) -> Dict[str, Any]:
    values, found = cilium_values.profile(PROFILES[name], mode, RANGES[name], 3)
    assert found == []
    return values


def ids(values: Any, version: str = "1.19.6", mode: str = "helm", nodes: Optional[int] = None) -> Dict[str, str]:
    """Findings by what follows cilium., with their severity; warnings about the version left out."""
    return {
        item["id"][len("cilium."):]: item["severity"] for item in cilium_values.check_values(values, version, mode, nodes) if item["id"] not in VERSION_IDS
    }


# -- made of a policy


def test_the_profile_of_a_new_cluster() -> None:
    assert made("full", "bundled") == {
        "routingMode": "native", "ipv4NativeRoutingCIDR": "10.42.0.0/16", "ipv6NativeRoutingCIDR": "2001:db8:42::/56", "autoDirectNodeRoutes": True,
        "kubeProxyReplacement": True, "k8sServiceHost": "localhost", "k8sServicePort": "6443",
        "bpf": {
            "masquerade": True, "hostLegacyRouting": False, "distributedLRU": {"enabled": True}, "mapDynamicSizeRatio": 0.0025, "datapathMode": "netkit",
        },
        "bpfClockProbe": True, "bandwidthManager": {"enabled": True, "bbr": True}, "enableIPv4BIGTCP": True, "enableIPv6BIGTCP": True,
        "devices": "bond0 bond1", "loadBalancer": {"acceleration": "best-effort"}, "cni": {"chainingMode": "none"}, "operator": {"replicas": 2},
        "updateStrategy": {"type": "OnDelete"},
    }


def test_ciliums_own_chart_is_told_what_rke2s_knows() -> None:
    own, bundled = made("full", "helm"), made("full", "bundled")
    assert {key: own[key] for key in own if key not in bundled} == {"ipv4": {"enabled": True}, "ipv6": {"enabled": True}, "ipam": {"mode": "kubernetes"}}
    assert {key: own[key] for key in bundled} == bundled


def test_each_nodes_own_uplink_is_in_no_clusters_values() -> None:
    assert "devices" not in made("one-family", "bundled")
    assert made("one-family", "bundled")["enableIPv6BIGTCP"] is False


@pytest.mark.parametrize(("nodes", "replicas"), [(1, 1), (2, 2), (40, 2)])
def test_operators_are_no_more_than_nodes(nodes: int, replicas: int) -> None:
    assert cilium_values.profile(PROFILES["least"], "helm", ["10.42.0.0/16"], nodes)[0]["operator"] == {"replicas": replicas}


MISSING: List[Any] = [
    ({}, ["10.42.0.0/16"], {"cilium.routing_unstated"}),
    ({"routing": "bgp"}, [], {"cilium.no_cidr"}),
    ({}, [], {"cilium.routing_unstated", "cilium.no_cidr"}),
]


@pytest.mark.parametrize(("asked", "cidrs", "wanted"), MISSING)
def test_what_a_profile_lacks_is_said_at_once(asked: Dict[str, Any], cidrs: List[str], wanted: Any) -> None:
    found = cilium_values.profile(network(**asked), "bundled", cidrs, 3)[1]
    assert {item["id"] for item in found} == wanted and {item["severity"] for item in found} == {"error"}


@pytest.mark.parametrize("name", PROFILES)
@pytest.mark.parametrize(("mode", "version"), CHARTS)
def test_what_is_made_passes_the_own_check(mode: str, version: str, name: str) -> None:
    found = ids(made(name, mode), version, mode, 3)
    # One family of BIG TCP and netkit are said of a node, not of values.
    assert found == {}


def test_values_go_over_each_other_as_helm_lays_them() -> None:
    first = {"a": {"b": 1, "c": [1]}, "d": 1}
    assert cilium_values.merge(first, {"a": {"c": [2]}, "d": {"e": None}}) == {"a": {"b": 1, "c": [2]}, "d": {"e": None}}
    assert first == {"a": {"b": 1, "c": [1]}, "d": 1}


# -- held to the charts' data


def _data(reference: Path, mode: str, name: str, version: str, suffix: str) -> Path:
    return reference / "data" / ("cilium" if mode == "helm" else "rke2-cilium") / f"{name}-{version}.{suffix}"


@pytest.mark.parametrize(("mode", "version"), CHARTS)
def test_a_charts_own_defaults_are_right(reference: Path, mode: str, version: str) -> None:
    defaults = yaml.safe_load(_data(reference, mode, "values", version, "yaml").read_text(encoding="utf-8"))
    assert ids(defaults, version, mode) == {}


@pytest.mark.parametrize("name", PROFILES)
@pytest.mark.parametrize(("mode", "version"), CHARTS)
def test_what_is_made_validates_against_the_charts_schema(reference: Path, mode: str, version: str, name: str) -> None:
    schema = json.loads(_data(reference, mode, "values.schema", version, "json").read_text(encoding="utf-8"))
    jsonschema.Draft7Validator(schema).validate(made(name, mode))


@pytest.mark.parametrize("version", ["1.18.12", "1.19.4", "1.19.6", "1.20.0"])
def test_what_is_foretold_of_the_configmap_are_keys_of_it(reference: Path, version: str) -> None:
    keys = set(_data(reference, "helm", "configmap-keys", version, "txt").read_text(encoding="utf-8").split())
    foretold = set(cilium_values.config_of(cilium_values.merge(made("full", "helm"), {"encryption": {"enabled": True}}), "helm"))
    assert foretold <= keys
    # All that a policy can ask for is there.
    assert set(cilium_values.PER_NODE) | {"bpf-distributed-lru", "bpf-map-dynamic-size-ratio", "enable-bpf-clock-probe", "enable-bbr"} <= foretold
    assert set(cilium_values.VERIFIED) <= keys


def test_the_table_of_keys_is_what_the_charts_have(reference: Path) -> None:
    path = Path(__file__).resolve().parents[3] / "tools" / "cilium_keys.py"
    spec = importlib.util.spec_from_file_location("cilium_keys_tool", path)
    assert spec is not None and spec.loader is not None
    tool = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tool)
    assert tool.table(reference / "data", cilium_keys.VERSIONS) == cilium_keys._TABLE.strip(), "run tests/tools/cilium_keys.py"


EXAMPLES = [("helmchartconfig-rke2-cilium.yaml", "bundled", "1.19.601"), ("values-self-managed-1.20.yaml", "helm", "1.20.0")]


@pytest.mark.parametrize(("name", "mode", "version"), EXAMPLES)
def test_values_that_are_known_to_be_right(reference: Path, name: str, mode: str, version: str) -> None:
    read = yaml.safe_load((reference / "data" / "examples" / name).read_text(encoding="utf-8"))
    values = yaml.safe_load(read["spec"]["valuesContent"]) if mode == "bundled" else read
    assert ids(values, version, mode) == {}


@pytest.mark.parametrize("name", PROFILES)
@pytest.mark.parametrize(("mode", "version"), CHARTS)
def test_helm_takes_what_is_made(reference: Path, tmp_path: Path, mode: str, version: str, name: str) -> None:
    """Helm itself lays the values over the chart's defaults and holds them to its schema. The chart has one template of ours, which shows what came of them."""
    if HELM is None:
        pytest.skip("there is no helm")
    (tmp_path / "templates").mkdir()
    (tmp_path / "Chart.yaml").write_text(f"apiVersion: v2\nname: {cilium_values.CHARTS[mode]}\nversion: {version}\n", encoding="utf-8")
    (tmp_path / "templates/all.yaml").write_text("all: {{ .Values | toJson }}\n", encoding="utf-8")
    shutil.copy(_data(reference, mode, "values", version, "yaml"), tmp_path / "values.yaml")
    shutil.copy(_data(reference, mode, "values.schema", version, "json"), tmp_path / "values.schema.json")
    file = tmp_path / "made.yaml"
    for values, right in ((made(name, mode), True), ({**made(name, mode), "enableIPv4BIGTCP": "yes"}, False)):
        file.write_text(yaml.safe_dump(values), encoding="utf-8")
        done = subprocess.run([HELM, "template", "cilium", str(tmp_path), "-f", str(file)], capture_output=True, text=True, check=False)
        assert (done.returncode == 0) == right, done.stderr
        if right:
            together = yaml.safe_load(done.stdout)["all"]
            assert cilium_values.merge(together, values) == together
            # The defaults that are taken as the chart's here are.
            assert cilium_values.config_of(together, mode).items() >= cilium_values.config_of(values, mode).items()


def test_a_chart_renders_what_is_foretold(tmp_path: Path) -> None:
    """``helm template`` of a real chart: LOCALITY_CILIUM_CHART is its folder or archive."""
    chart, helm = os.environ.get("LOCALITY_CILIUM_CHART"), HELM
    if not chart or helm is None:
        pytest.skip("LOCALITY_CILIUM_CHART names no chart, or there is no helm")
    shown = yaml.safe_load(subprocess.run([helm, "show", "chart", chart], capture_output=True, text=True, check=True).stdout)
    mode = "bundled" if shown["name"] == "rke2-cilium" else "helm"
    for name in PROFILES:
        values = made(name, mode)
        if mode == "bundled":
            ranges = {"clusterCIDRv4": RANGES[name][0], "clusterCIDRv6": "".join(RANGES[name][1:])}
            values = cilium_values.merge(values, {"global": ranges})
        file = tmp_path / f"{name}.yaml"
        file.write_text(yaml.safe_dump(values), encoding="utf-8")
        out = subprocess.run([helm, "template", "cilium", chart, "-n", "kube-system", "-f", str(file)], capture_output=True, text=True, check=False)
        assert out.returncode == 0, out.stderr
        config = next(item["data"] for item in yaml.safe_load_all(out.stdout) if item and item["metadata"]["name"] == "cilium-config")
        foretold = cilium_values.config_of(values, mode)
        assert {key: config.get(key) for key in foretold if key in config} == {key: value for key, value in foretold.items() if key in config}
        assert set(cilium_values.PER_NODE) - {"devices"} <= set(config)


_RENDERED = """\
apiVersion: v1
kind: ConfigMap
metadata: {name: cilium-config}
data:
  routing-mode: {{ .Values.routingMode | default "tunnel" | quote }}
  datapath-mode: {{ .Values.bpf.datapathMode | quote }}
  enable-ipv4-big-tcp: {{ .Values.enableIPv4BIGTCP | quote }}
  enable-ipv6-big-tcp: {{ .Values.enableIPv6BIGTCP | quote }}
  bpf-lb-acceleration: {{ .Values.loadBalancer.acceleration | quote }}
"""


@pytest.mark.skipif(HELM is None, reason="there is no helm")
@pytest.mark.parametrize("packed", [False, True], ids=["folder", "archive"])
def test_the_comparison_with_a_real_chart_by_one_of_ours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, packed: bool) -> None:
    """That it reads a chart's folder and archive, and fails where the chart renders something else than was foretold."""
    chart = tmp_path / "cilium"
    (chart / "templates").mkdir(parents=True)
    (chart / "Chart.yaml").write_text("apiVersion: v2\nname: cilium\nversion: 1.19.6\n", encoding="utf-8")
    defaults = {"bpf": {"datapathMode": "veth"}, "enableIPv4BIGTCP": False, "enableIPv6BIGTCP": False, "loadBalancer": {"acceleration": "disabled"}}
    (chart / "values.yaml").write_text(yaml.safe_dump(defaults), encoding="utf-8")

    def name(text: str) -> None:
        (chart / "templates/config.yaml").write_text(text, encoding="utf-8")
        if packed:
            subprocess.run([str(HELM), "package", str(chart), "--destination", str(tmp_path)], check=True, capture_output=True)
        monkeypatch.setenv("LOCALITY_CILIUM_CHART", str(tmp_path / "cilium-1.19.6.tgz" if packed else chart))

    name(_RENDERED)
    test_a_chart_renders_what_is_foretold(tmp_path)
    name(_RENDERED.replace("{{ .Values.routingMode | default", "{{ .Values.routing | default"))
    with pytest.raises(AssertionError):
        test_a_chart_renders_what_is_foretold(tmp_path)


# -- wrong keys, types and words


TYPOS: List[Any] = [
    ({"enableIpv4BigTcp": True}, "enableIpv4BigTcp", "the nearest known key is enableIPv4BIGTCP"),
    ({"bpf": {"datapathmode": "netkit"}}, "bpf.datapathmode", "the nearest known key is bpf.datapathMode"),
    ({"bpf": {"bpfClockProbe": True}}, "bpf.bpfClockProbe", "the key of that name is bpfClockProbe"),
    ({"bpf": {"distributedLru": {"enabled": True}}}, "bpf.distributedLru", "the nearest known key is bpf.distributedLRU"),
    ({"ipv4NativeRoutingCidr": "10.42.0.0/16"}, "ipv4NativeRoutingCidr", "ipv4NativeRoutingCIDR"),
    ({"autoDirectNodeRoute": True}, "autoDirectNodeRoute", "autoDirectNodeRoutes"),
    ({"kubeproxyreplacement": True}, "kubeproxyreplacement", "kubeProxyReplacement"),
    ({"mapDynamicSizeRatio": 0.1}, "mapDynamicSizeRatio", "the key of that name is bpf.mapDynamicSizeRatio"),
    ({"loadBalancer": {"accelaration": "native"}}, "loadBalancer.accelaration", "loadBalancer.acceleration"),
]


@pytest.mark.parametrize(("values", "place", "hint"), TYPOS)
@pytest.mark.parametrize(("mode", "version"), CHARTS)
def test_a_typo_names_the_nearest_key(mode: str, version: str, values: Dict[str, Any], place: str, hint: str) -> None:
    found = [item for item in cilium_values.check_values(values, version, mode) if item["id"] == "cilium.values_unknown_key"]
    assert [item["severity"] for item in found] == ["error"]
    assert found[0]["message"].startswith(f"{place}: the chart {cilium_values.CHARTS[mode]} {version} has no such key")
    assert hint in found[0]["hint"]


def _named(known: Mapping[str, cilium_keys.Key], letter: str, path: Tuple[str, ...] = ()) -> Iterator[Tuple[Tuple[str, ...], cilium_keys.Key]]:
    for name, key in known.items():
        if letter in key.versions:
            yield (*path, name), key
            if not key.free:
                yield from _named(key.below, letter, (*path, name))


def _nested(path: Tuple[str, ...], value: Any) -> Dict[str, Any]:
    for name in reversed(path):
        value = {name: value}
    return dict(value)


def _at(path: Tuple[str, ...]) -> Mapping[str, cilium_keys.Key]:
    known: Mapping[str, cilium_keys.Key] = cilium_keys.KEYS
    for name in path:
        known = known[name].below
    return known


def _wrong(name: str) -> List[str]:
    """Slips of the pen: other case, a letter left out, two exchanged."""
    middle = len(name) // 2
    return [name.swapcase(), name[:middle] + name[middle + 1:], name[:middle - 1] + name[middle] + name[middle - 1] + name[middle + 1:]]


def test_slips_in_any_key_are_errors() -> None:
    version, tried = "1.20.0", 0
    for path, _key in _named(cilium_keys.KEYS, LETTERS[version]):
        for wrong in _wrong(path[-1]) if len(path[-1]) >= 8 else [path[-1].swapcase()]:
            if wrong in _at(path[:-1]):
                continue
            tried += 1
            found = findings.Findings()
            cilium_values._Check({}, version, "helm", found).keys(_nested((*path[:-1], wrong), None), cilium_keys.KEYS, ())
            assert [(item["id"], item["severity"]) for item in found.items] == [("cilium.values_unknown_key", "error")], (path, wrong)
    assert tried > 2000


def test_what_is_near_nothing_is_a_warning() -> None:
    assert ids({"zzz": 1, "bpf": {"qqqqqqqqqqqq": 2}}) == {"values_unknown_key": "warning"}
    assert len(cilium_values.check_values({"zzz": 1, "bpf": {"qqqqqqqqqqqq": 2}}, "1.19.6", "helm")) == 2


def test_below_what_is_the_operators_anything_may_stand() -> None:
    values = {"extraConfig": {"any": "1"}, "podAnnotations": {"a/b": "c"}, "nodeSelector": {"x": "y"}}
    assert ids({**values, "updateStrategy": {"rollingUpdate": {"maxUnavailable": 1}}}) == {}


OTHER_VERSIONS: List[Any] = [
    ({"nativeRoutingCIDRFromClusterPool": True, "ipam": {"operator": {"clusterPoolIPv4PodCIDRList": ["10.0.0.0/8"]}}}, "1.19.6", "error"),
    ({"nodePort": {"enabled": True}}, "1.19.6", "warning"),
    ({"nodePort": {"enabled": True}}, "1.18.12", None),
    ({"portmapPlugin": {"image": {"tag": "x"}}}, "1.19.6", "warning"),
]


@pytest.mark.parametrize(("values", "version", "severity"), OTHER_VERSIONS)
def test_keys_of_other_versions_are_named(values: Dict[str, Any], version: str, severity: Any) -> None:
    assert ids(values, version).get("values_other_version") == severity


def test_a_version_between_those_of_the_table_is_judged_by_the_one_before() -> None:
    assert ids({"bpf": {"masquerade": False}}, "1.19.5") == {}
    assert ids({}, "1.21.0") == {"values_version": "warning"}
    assert ids({}, "1.20.102", "bundled") == {}


TYPES: List[Any] = [
    ({"enableIPv4BIGTCP": "yes"}, "enableIPv4BIGTCP: found 'yes', wanted true or false"),
    ({"bpf": True}, "bpf: found true, wanted a mapping of"),
    ({"bpf": {"mapDynamicSizeRatio": []}}, "bpf.mapDynamicSizeRatio: found [], wanted null or a number or a text"),
    ({"operator": {"replicas": "2"}}, "operator.replicas: found '2', wanted a whole number"),
]


@pytest.mark.parametrize(("values", "message"), TYPES)
def test_types_are_those_of_the_schema(values: Dict[str, Any], message: str) -> None:
    found = cilium_values.check_values(values, "1.19.6", "helm")
    assert [item["id"] for item in found] == ["cilium.values_type"]
    assert message in found[0]["message"]


WORDS: List[Any] = [
    ({"bpf": {"datapathMode": "netkti"}}, "1.19.6", "bpf.datapathMode: found 'netkti', wanted veth, netkit, netkit-l2", "the nearest is netkit"),
    ({"bpf": {"datapathMode": "auto"}}, "1.19.6", "bpf.datapathMode: found 'auto'", "auto is there from 1.20.0 on"),
    ({"routingMode": "Native"}, "1.19.6", "routingMode: found 'Native', wanted tunnel, native", "the nearest is native"),
    ({"loadBalancer": {"acceleration": "besteffort"}}, "1.19.6", "loadBalancer.acceleration: found 'besteffort'", "the nearest is best-effort"),
    ({"encryption": {"type": "wiregaurd"}}, "1.18.12", "encryption.type: found 'wiregaurd'", "the nearest is wireguard"),
    ({"updateStrategy": {"type": "onDelete"}}, "1.19.6", "updateStrategy.type: found 'onDelete'", "the nearest is OnDelete"),
]


@pytest.mark.parametrize(("values", "version", "message", "hint"), WORDS)
def test_a_wrong_word_names_the_nearest(values: Dict[str, Any], version: str, message: str, hint: str) -> None:
    found = [item for item in cilium_values.check_values(values, version, "helm") if item["id"] == "cilium.values_word"]
    assert len(found) == 1 and message in found[0]["message"] and found[0]["hint"] == hint


def test_the_mode_auto_is_right_from_1_20_on() -> None:
    assert ids({"bpf": {"datapathMode": "auto"}}, "1.20.0") == {}


@pytest.mark.parametrize("values", [[], "x", 3])
def test_values_that_are_no_mapping(values: Any) -> None:
    assert ids(values) == {"values_type": "error"}


@pytest.mark.parametrize(("version", "mode"), [("latest", "helm"), ("1.19.6", "other")])
def test_an_unknown_chart_is_an_error_of_the_caller(version: str, mode: str) -> None:
    with pytest.raises(cilium_values.ValuesError):
        cilium_values.check_values({}, version, mode)


# -- what the templates refuse, and what the agent does

# A cluster with native routing that all is well with.
BASE: Dict[str, Any] = {
    "routingMode": "native", "ipv4NativeRoutingCIDR": "10.42.0.0/16", "kubeProxyReplacement": True, "k8sServiceHost": "localhost", "bpf": {"masquerade": True},
}
TEMPLATES: List[Any] = [
    ({"kubeProxyReplacement": "strict"}, "kubeProxyReplacement: found 'strict', wanted true or false"),
    ({"ipv6": {"enabled": True}}, "ipv6NativeRoutingCIDR: missing with routingMode: native and IPv6"),
    ({"k8sServiceHostRef": {"name": "x"}}, "k8sServiceHost and k8sServiceHostRef: found both"),
    ({"bpf": {"masquerade": True, "tproxy": True, "datapathMode": "netkit"}}, "bpf.tproxy: found true with bpf.datapathMode netkit"),
    ({"l7Proxy": False, "gatewayAPI": {"enabled": True}}, "l7Proxy: found false with gatewayAPI"),
    ({"kubeProxyReplacement": None, "ingressController": {"enabled": True}}, "kubeProxyReplacement: missing with ingressController"),
    ({"hubble": {"ui": {"enabled": True}}}, "hubble.ui: found enabled without hubble.relay"),
    ({"hubble": {"enabled": False, "relay": {"enabled": True}}}, "hubble.relay: found enabled without hubble"),
    ({"cluster": {"name": "Prod_1"}}, "cluster.name: found 'Prod_1'"),
    ({"cluster": {"name": "x" * 33}}, "cluster.name: found"),
    ({"cluster": {"id": 3}}, "cluster.name: found default with cluster.id 3"),
    ({"operator": {"setNodeTaints": True, "removeNodeTaints": False}}, "operator.setNodeTaints"),
]


@pytest.mark.parametrize(("values", "message"), TEMPLATES)
def test_what_the_templates_refuse_is_foretold(values: Dict[str, Any], message: str) -> None:
    found = [item for item in cilium_values.check_values({**BASE, **values}, "1.19.6", "helm") if item["id"] == "cilium.values_template"]
    assert len(found) == 1 and found[0]["severity"] == "error"
    assert found[0]["message"].startswith(message)


GONE: List[Any] = [({"tunnel": "vxlan"}, "tunnel"), ({"encryption": {"keyFile": "x"}}, "encryption.keyFile"), ({"enableCnpStatusUpdates": True}, "enableCnp")]


@pytest.mark.parametrize(("values", "place"), GONE)
def test_values_that_are_gone_are_named(values: Dict[str, Any], place: str) -> None:
    found = [item for item in cilium_values.check_values(values, "1.19.6", "helm") if item["id"] == "cilium.values_removed"]
    assert len(found) == 1 and found[0]["message"].startswith(place)


AGENT: List[Any] = [
    ({"ipv4NativeRoutingCIDR": ""}, "ipv4NativeRoutingCIDR: missing with routingMode: native"),
    ({"routingMode": "tunnel", "autoDirectNodeRoutes": True}, "autoDirectNodeRoutes: found true with a tunnel"),
    ({"enableIPv4Masquerade": False}, "bpf.masquerade: found true, but nothing is masqueraded"),
    ({"bpf": {"masquerade": True, "mapDynamicSizeRatio": 1.5}}, "bpf.mapDynamicSizeRatio: found 1.5, wanted more than 0 and at most 1"),
    ({"bpf": {"masquerade": True, "mapDynamicSizeRatio": "a lot"}}, "bpf.mapDynamicSizeRatio: found a lot"),
    ({"bpf": {"masquerade": True, "mapDynamicSizeRatio": 0, "distributedLRU": {"enabled": True}}}, "bpf.distributedLRU: found enabled with"),
    ({"bpf": {"masquerade": False}, "installNoConntrackIptablesRules": True}, "installNoConntrackIptablesRules: found true"),
]


@pytest.mark.parametrize(("values", "message"), AGENT)
def test_what_the_agent_refuses_is_foretold(values: Dict[str, Any], message: str) -> None:
    found = [item for item in cilium_values.check_values({**BASE, **values}, "1.19.6", "helm") if item["id"] == "cilium.values_agent"]
    assert len(found) == 1 and found[0]["message"].startswith(message), found


def test_the_base_of_these_cases_is_right() -> None:
    assert ids(BASE) == {}


def test_a_ratio_of_zero_switches_dynamic_sizes_off_and_is_no_error() -> None:
    assert ids({**BASE, "bpf": {"masquerade": True, "mapDynamicSizeRatio": 0}}) == {}


COMBINATIONS: List[Any] = [
    ({"enableIPv4BIGTCP": True, "cni": {"chainingMode": "portmap"}}, "1.20.0", {"big_tcp_legacy_routing": "error"}),
    ({"enableIPv4BIGTCP": True, "encryption": {"enabled": True}}, "1.20.0", {"big_tcp_legacy_routing": "error", "big_tcp_encryption": "error"}),
    ({"enableIPv4BIGTCP": True, "encryption": {"enabled": True, "type": "wireguard"}}, "1.18.12", {"big_tcp_encryption": "error"}),
    ({"enableIPv4BIGTCP": True, "extraConfig": {"enable-host-legacy-routing": "true"}}, "1.20.0", {"big_tcp_legacy_routing": "error"}),
    ({"bpf": {"masquerade": True, "datapathMode": "netkit", "hostLegacyRouting": True}}, "1.20.0", {"netkit_legacy_routing": "error"}),
    ({"enableIPv6BIGTCP": True}, "1.20.0", {"big_tcp_no_family": "error"}),
    ({"bandwidthManager": {"enabled": True, "bbr": True}, "bpf": {"masquerade": False}}, "1.20.0", {"bbr_legacy_routing": "error"}),
    ({"bandwidthManager": {"bbr": True}}, "1.20.0", {"values_bbr": "warning"}),
    ({"k8sServiceHost": ""}, "1.20.0", {"values_api_host": "error"}),
]


@pytest.mark.parametrize(("values", "version", "wanted"), COMBINATIONS)
def test_combinations_that_do_not_start_are_foretold(values: Dict[str, Any], version: str, wanted: Dict[str, str]) -> None:
    found = cilium_values.check_values({**BASE, **values}, version, "helm")
    assert {item["id"][len("cilium."):]: item["severity"] for item in found if item["id"] not in VERSION_IDS} == wanted
    assert not any("network." in item["message"] + item["hint"] for item in found)


BUNDLED: List[Any] = [
    ({"cni": {"chainingMode": "none"}}, {"values_host_ports": "error"}),
    ({"cni": {"chainingMode": "none"}, "kubeProxyReplacement": True, "k8sServiceHost": "localhost"}, {}),
    # The chart's own portmap makes host routing legacy.
    ({"kubeProxyReplacement": True, "k8sServiceHost": "localhost", "bpf": {"masquerade": True}, "enableIPv4BIGTCP": True, "routingMode": "native",
      "ipv4NativeRoutingCIDR": "10.42.0.0/16"}, {"big_tcp_legacy_routing": "error"}),
    ({"global": {"clusterCIDR": "10.0.0.0/8"}}, {"values_rke2_sets": "error"}),
]


@pytest.mark.parametrize(("values", "wanted"), BUNDLED)
def test_what_rke2s_chart_adds(values: Dict[str, Any], wanted: Dict[str, str]) -> None:
    assert ids(values, "1.19.601", "bundled") == wanted


def test_a_tunnel_with_big_tcp_is_a_warning_from_1_19_3_on() -> None:
    values = {**BASE, "routingMode": "tunnel", "enableIPv4BIGTCP": True, "ipv4NativeRoutingCIDR": ""}
    assert ids(values, "1.19.6") == {"big_tcp_tunnel": "warning"}


def test_two_operators_on_one_node() -> None:
    assert ids(BASE, nodes=1) == {"values_operator": "warning"}
    assert ids({**BASE, "operator": {"replicas": 1}}, nodes=1) == {}


def test_all_that_is_wrong_comes_at_once() -> None:
    values = {"enableIpv4BigTcp": True, "routingMode": "natve", "bpf": {"datapathMode": "netkti"}, "kubeProxyReplacement": "strict", "tunnel": "vxlan"}
    assert set(ids(values)) == {"values_unknown_key", "values_word", "values_template", "values_removed"}


# -- a cluster that lives

LIVE = {
    "routing-mode": "native", "kube-proxy-replacement": "true", "enable-bpf-masquerade": "true", "enable-ipv4": "true", "enable-ipv6": "false",
    "ipam": "kubernetes", "enable-host-legacy-routing": "false", "datapath-mode": "veth", "enable-ipv4-masquerade": "true", "enable-ipv6-masquerade": "true",
    "bpf-lb-acceleration": "disabled", "cni-chaining-mode": "none", "enable-ipv4-big-tcp": "false", "enable-ipv6-big-tcp": "false",
}
CHANGES: List[Any] = [
    ({}, {}, []),
    ({"routing-mode": "tunnel"}, {}, ["routing-mode"]),
    ({"kube-proxy-replacement": "false"}, {}, ["kube-proxy-replacement"]),
    ({"ipam": "cluster-pool"}, {}, ["ipam"]),
    ({"enable-bpf-masquerade": "false"}, {}, ["enable-bpf-masquerade"]),
    ({"cni-chaining-mode": "portmap", "enable-host-legacy-routing": "true"}, {}, ["cni-chaining-mode", "enable-host-legacy-routing"]),
    ({}, {"bpf": {"datapathMode": "netkit"}}, ["datapath-mode"]),
    ({}, {"enableIPv4BIGTCP": True, "devices": "eth0"}, ["enable-ipv4-big-tcp", "devices"]),
    ({}, {"loadBalancer": {"acceleration": "native"}}, ["bpf-lb-acceleration"]),
    ({}, {"bpfClockProbe": True, "bpf": {"mapDynamicSizeRatio": 0.005}, "bandwidthManager": {"enabled": True}}, []),
]


@pytest.mark.parametrize(("now", "values", "keys"), CHANGES)
def test_what_is_not_changed_under_pods(now: Dict[str, str], values: Dict[str, Any], keys: List[str]) -> None:
    wanted = cilium_values.merge(made("least", "bundled"), values)
    found = cilium_values.live_differences({**LIVE, **now}, wanted, "bundled")
    assert [item["message"].partition(":")[0] for item in found] == keys
    assert all(item["severity"] == "error" and item["hint"] for item in found)


# -- known to the plan


def test_values_stand_for_a_configmap_that_is_not_there_yet() -> None:
    given = {"version": "1.19.6", "mode": "helm", "values": {**BASE, "encryption": {"enabled": True}}}
    found = plan.make_plan(topology(regular()), PLATFORM, {"network": {"big_tcp": ["ipv4"]}}, cilium=given)["findings"]
    assert "cilium.big_tcp_encryption" in {item["id"] for item in found if item["severity"] == "error"}


WRONG: List[Any] = [{"mode": "other", "values": {}}, {"values": []}]


@pytest.mark.parametrize("given", WRONG)
def test_settings_of_another_shape(given: Any) -> None:
    with pytest.raises(cilium_gates.SettingsError):
        cilium_values.settings(given)


def test_a_typo_in_the_inventorys_values_refuses_the_node() -> None:
    given = {"version": "1.19.6", "mode": "helm", "values": {"enableIpv4BigTcp": True, "bpf": {"datapathMode": "netkti"}}}
    found = plan.make_plan(topology(regular()), PLATFORM, {}, cilium=given)["findings"]
    assert {item["id"] for item in found if item["severity"] == "error"} == {"cilium.values_unknown_key", "cilium.values_word"}
