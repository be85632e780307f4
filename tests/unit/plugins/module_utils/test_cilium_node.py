# Copyright (c) 2026 The inferops.locality authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

from pathlib import Path
from typing import Any, Dict, List, Optional, Tuple

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.inferops.locality.plugins.module_utils import cilium_node, drift, knobs
from ansible_collections.inferops.locality.tests.unit import cilium_answers as answers

CONFIG = {
    "datapath-mode": "veth", "enable-ipv4-big-tcp": "false", "enable-ipv6-big-tcp": "false", "bpf-lb-acceleration": "disabled",
    "enable-bpf-clock-probe": "true",
    "bpf-distributed-lru": "false", "bpf-map-dynamic-size-ratio": "0.0025", "enable-bandwidth-manager": "true", "enable-bbr": "true", "routing-mode": "native",
}
CONFIG_MAP = "ConfigMap kube-system/cilium-config"
WANTED = answers.KNOBS
VALUES = {
    "bpf-lb-acceleration": "native", "datapath-mode": "netkit", "devices": "ens10f0np0", "enable-ipv4-big-tcp": "true", "enable-ipv6-big-tcp": "false",
}


def node(labels: Optional[Dict[str, str]] = None, annotations: Optional[Dict[str, str]] = None) -> Dict[str, Any]:
    return {"metadata": {"name": "a", "resourceVersion": "1", "labels": labels or {}, "annotations": annotations or {}}}


def theirs(name: str, defaults: Dict[str, str], selector: Any = None, namespace: str = "kube-system") -> Dict[str, Any]:
    return {
        "metadata": {"name": name, "namespace": namespace}, "spec": {"defaults": defaults, "nodeSelector": {} if selector is None else selector},
    }


def ours(values: Dict[str, str]) -> Dict[str, Any]:
    made = cilium_node.build(values)
    made["metadata"].update({"uid": f"uid-{made['metadata']['name']}", "resourceVersion": "7"})
    return made


def daemon_set(*command: str) -> Dict[str, Any]:
    containers = [{"name": "mount-cgroup"}, {"name": "config", "command": ["cilium-dbg", "build-config", *command]}]
    return {"spec": {"template": {"spec": {"initContainers": containers}}}}


# -- what an agent is started with

ORDER: List[Tuple[List[Dict[str, Any]], str, str]] = [
    ([], "veth", CONFIG_MAP),
    ([theirs("a", {"datapath-mode": "netkit"})], "netkit", "CiliumNodeConfig kube-system/a"),
    ([theirs("b", {"datapath-mode": "netkit"}), theirs("a", {"datapath-mode": "netkit-l2"})], "netkit", "CiliumNodeConfig kube-system/b"),
    ([theirs("z", {"datapath-mode": "netkit"}, {"matchLabels": {"gpu": "no"}})], "veth", CONFIG_MAP),
    ([theirs("z", {"datapath-mode": "netkit"}, namespace="cilium")], "veth", CONFIG_MAP),
    ([ours(VALUES)], "netkit", f"CiliumNodeConfig kube-system/inferops-locality-{cilium_node.digest(VALUES)}"),
    ([ours(VALUES), theirs("zz", {"datapath-mode": "veth"})], "veth", "CiliumNodeConfig kube-system/zz"),
]


@pytest.mark.parametrize(("objects", "value", "source"), ORDER)
def test_the_later_of_the_objects_that_select_a_node_wins(objects: List[Dict[str, Any]], value: str, source: str) -> None:
    mine = node({"gpu": "h100", cilium_node.LABEL: cilium_node.digest(VALUES)})
    found = cilium_node.configured(cilium_node.merged(CONFIG, objects, mine))
    assert found["cilium.datapath_mode"] == {"value": value, "source": source}
    assert found["cilium.clock"] == {"value": True, "source": CONFIG_MAP}


SELECTORS = [
    ({}, True), (None, False), ({"matchLabels": {"gpu": "h100"}}, True), ({"matchLabels": {"gpu": "h100", "x": "y"}}, False),
    ({"matchExpressions": [{"key": "gpu", "operator": "In", "values": ["h100", "b200"]}]}, True),
    ({"matchExpressions": [{"key": "x", "operator": "In", "values": [None]}]}, False),
    ({"matchExpressions": [{"key": "gpu", "operator": "NotIn", "values": ["h100"]}]}, False),
    ({"matchExpressions": [{"key": "x", "operator": "NotIn", "values": ["y"]}]}, True),
    ({"matchExpressions": [{"key": "gpu", "operator": "Exists"}, {"key": "x", "operator": "DoesNotExist"}]}, True),
    ({"matchExpressions": [{"key": "x", "operator": "Exists"}]}, False),
    ({"matchExpressions": [{"key": "gpu", "operator": "DoesNotExist"}]}, False),
    ({"matchLabels": {"gpu": "h100"}, "matchExpressions": [{"key": "gpu", "operator": "DoesNotExist"}]}, False),
]


@pytest.mark.parametrize(("selector", "selected"), SELECTORS)
def test_selectors_are_those_of_kubernetes(selector: Any, selected: bool) -> None:
    assert cilium_node.selects(selector, {"gpu": "h100"}) is selected


def test_an_operator_that_kubernetes_does_not_have_is_told_with_its_object() -> None:
    bad = theirs("bad", {}, {"matchExpressions": [{"key": "gpu", "operator": "Like"}]})
    with pytest.raises(cilium_node.SelectorError, match="kube-system/bad: found operator 'Like'"):
        cilium_node.merged(CONFIG, [bad], node())


def test_what_nobody_sets_is_as_the_agent_has_it() -> None:
    found = cilium_node.configured({})
    assert {knob: entry["value"] for knob, entry in found.items()} == {
        "cilium.datapath_mode": "veth", "cilium.big_tcp": [], "cilium.devices": None, "cilium.xdp": "disabled",
        "cilium.bpf_maps": {"distributed_lru": False, "ratio": None}, "cilium.clock": False, "cilium.bandwidth_manager": {"enabled": False, "bbr": False},
    }
    assert {entry["source"] for entry in found.values()} == {None}


@pytest.mark.parametrize(("key", "text", "knob", "value"), [
    ("devices", "eth1 eth0", "cilium.devices", ["eth0", "eth1"]), ("devices", "eth1,eth0", "cilium.devices", ["eth0", "eth1"]),
    ("devices", "", "cilium.devices", None), ("enable-ipv6-big-tcp", "T", "cilium.big_tcp", ["ipv6"]),
    ("enable-ipv6-big-tcp", "yes", "cilium.big_tcp", "enable-ipv4-big-tcp: false, enable-ipv6-big-tcp: yes"),
    ("bpf-map-dynamic-size-ratio", "0.08", "cilium.bpf_maps", {"distributed_lru": False, "ratio": 0.08}),
    ("bpf-map-dynamic-size-ratio", "much", "cilium.bpf_maps", "bpf-distributed-lru: false, bpf-map-dynamic-size-ratio: much"),
])
def test_values_of_the_agent_become_those_of_a_plan(key: str, text: str, knob: str, value: Any) -> None:
    assert cilium_node.configured(cilium_node.merged({**CONFIG, key: text}, [], node()))[knob]["value"] == value


def test_what_is_written_for_a_plan_is_read_as_the_plan_and_drift_finds_nothing() -> None:
    mine = node({cilium_node.LABEL: cilium_node.digest(cilium_node.defaults(WANTED))})
    found = cilium_node.configured(cilium_node.merged({**CONFIG, "bpf-distributed-lru": "true"}, [ours(cilium_node.defaults(WANTED))], mine))
    assert {knob: entry["value"] for knob, entry in found.items()} == {knob: WANTED[knob] for knob in cilium_node.KEYS}
    report = drift.compare({"knobs": WANTED}, {}, {"cilium": {"running": {**WANTED}, "configured": found}})
    assert report["summary"] == {"needs": None, "count": 0}
    assert drift.is_ours(found["cilium.xdp"]["source"]) and not drift.is_ours(found["cilium.clock"]["source"])


@given(st.fixed_dictionaries({}, optional={
    "cilium.datapath_mode": st.sampled_from(["veth", "netkit", "netkit-l2"]), "cilium.xdp": st.sampled_from(["disabled", "native", "best-effort"]),
    "cilium.big_tcp": st.sets(st.sampled_from(["ipv4", "ipv6"])).map(sorted),
    "cilium.devices": st.sets(st.sampled_from(["eth0", "ens10f0np0", "bond0"]), min_size=1).map(sorted),
}))
def test_every_value_of_a_plan_comes_back(wanted: Dict[str, Any]) -> None:
    values = cilium_node.defaults(wanted)
    found = cilium_node.configured(cilium_node.merged(CONFIG, [ours(values)], node({cilium_node.LABEL: cilium_node.digest(values)})))
    assert all(found[knob]["value"] == value for knob, value in wanted.items())
    assert all(isinstance(value, str) for value in values.values())


def test_knobs_that_a_node_may_have_of_its_own_are_registered() -> None:
    managed = [knob.id for knob in knobs.KNOBS.values() if knob.layer == "network" and knob.klass == "managed"]
    assert list(cilium_node.KEYS) == managed
    assert list(cilium_node.NODE_KEYS) == managed[:4]


@pytest.mark.parametrize("version", ["1.18.12", "1.19.4", "1.19.6", "1.20.0"])
def test_every_key_is_one_that_the_chart_of_each_version_renders(reference: Path, version: str) -> None:
    known = (reference / "data" / "cilium" / f"configmap-keys-{version}.txt").read_text(encoding="utf-8").split()
    assert not {key for keys in cilium_node.KEYS.values() for key in keys} - set(known)


def test_the_object_is_one_of_the_definition(reference: Path) -> None:
    jsonschema = pytest.importorskip("jsonschema")
    definition = yaml.safe_load((reference / "data" / "crds" / "cilium.io_ciliumnodeconfigs.yaml").read_text(encoding="utf-8"))
    version = next(item for item in definition["spec"]["versions"] if item["name"] == "v2")
    made = cilium_node.build(VALUES)
    assert made["apiVersion"] == "cilium.io/v2"
    jsonschema.validate(made, version["schema"]["openAPIV3Schema"])


# -- where an agent reads


@pytest.mark.parametrize(("command", "expected"), [
    ((), cilium_node.Sources()),
    (("--source=config-map:cilium-config,cilium-node-config",), cilium_node.Sources()),
    (("--source", "config-map:cilium-config"), cilium_node.Sources(node_configs=False)),
    (("--source=config-map:cilium-config", "--source=node:"), cilium_node.Sources(node_configs=False, node=True)),
    (("--allow-config-keys=devices,mtu",), cilium_node.Sources(allowed=("devices", "mtu"))),
    (("--allow-config-keys=none",), cilium_node.Sources(allowed=("none",))),
    (("--deny-config-keys=devices",), cilium_node.Sources(denied=("devices",))),
    (("--source",), cilium_node.Sources(node_configs=False)),
])
def test_the_arguments_of_the_agents_say_where_they_read(command: Tuple[str, ...], expected: cilium_node.Sources) -> None:
    assert cilium_node.sources_of(daemon_set(*command)) == expected
    assert cilium_node.sources_of({}) == cilium_node.Sources()


def test_keys_that_may_not_be_set_are_not() -> None:
    objects = [theirs("a", {"datapath-mode": "netkit", "devices": "eth0"})]
    for sources in (cilium_node.Sources(allowed=("devices",)), cilium_node.Sources(denied=("datapath-mode",))):
        found = cilium_node.merged(CONFIG, objects, node(), sources)
        assert (found["datapath-mode"][0], found["devices"][0]) == ("veth", "eth0")
    assert "devices" not in cilium_node.merged(CONFIG, objects, node(), cilium_node.Sources(node_configs=False))


def test_the_node_itself_is_read_where_agents_do() -> None:
    mine = node({"config.cilium.io/devices": "eth1"}, {"config.cilium.io/devices": "eth2"})
    assert cilium_node.merged(CONFIG, [], mine, cilium_node.Sources(node=True))["devices"] == ("eth2", "annotations of the Node")
    assert "devices" not in cilium_node.merged(CONFIG, [], mine)


# -- what is refused


def ids(found: List[Dict[str, str]]) -> List[str]:
    return [item["id"] for item in found]


def test_an_object_of_others_with_a_key_of_ours_is_refused_by_name_whichever_wins() -> None:
    for name in ("a-first", "zz-last"):
        found = cilium_node.refusals(WANTED, [theirs(name, {"devices": "eth0", "mtu": "9000"})], node())
        assert ids(found) == ["cilium.foreign_config"] and f"kube-system/{name}" in found[0]["message"] and "sets devices," in found[0]["message"]
    assert cilium_node.refusals(WANTED, [theirs("other", {"mtu": "9000"})], node()) == []
    assert cilium_node.refusals(WANTED, [theirs("other", {"devices": "eth0"}, {"matchLabels": {"gpu": "no"}})], node()) == []
    assert cilium_node.refusals({"cilium.xdp": "native"}, [theirs("other", {"devices": "eth0"})], node()) == []
    assert cilium_node.refusals({}, [theirs("other", {"devices": "eth0"})], node()) == []


def test_an_object_that_selects_by_our_label_is_one_of_others_too() -> None:
    clash = theirs("clash", {"devices": "eth0"}, {"matchExpressions": [{"key": cilium_node.LABEL, "operator": "Exists"}]})
    assert ids(cilium_node.refusals(WANTED, [clash], node())) == ["cilium.foreign_config"]


def test_our_name_with_somebody_elses_object_is_refused() -> None:
    taken = ours(cilium_node.defaults(WANTED))
    del taken["metadata"]["annotations"]
    assert ids(cilium_node.refusals(WANTED, [taken], node())) == ["cilium.name_taken"]


def test_all_that_keeps_agents_from_reading_ours_is_told_at_once() -> None:
    sources = cilium_node.Sources(node_configs=False, node=True, allowed=("devices",))
    found = cilium_node.refusals(WANTED, [], node({"config.cilium.io/devices": "eth1"}), sources)
    assert ids(found) == ["cilium.node_config_not_read", "cilium.key_not_allowed", "cilium.foreign_config"]
    assert "datapath-mode" in found[1]["message"] and "devices" not in found[1]["message"].replace("let no CiliumNodeConfig", "")


# -- what is done

BASE = cilium_node.defaults(WANTED)
OTHER = {**BASE, "datapath-mode": "veth"}


def test_a_node_without_gets_its_label_and_the_object() -> None:
    change = cilium_node.decide(WANTED, [], node(), [])
    assert (change.label, change.relabel, change.write, change.replaces, change.remove) == (
        cilium_node.digest(BASE), True, cilium_node.build(BASE), None, (),
    )
    assert change.anything


def test_a_node_that_has_all_needs_nothing() -> None:
    change = cilium_node.decide(WANTED, [ours(BASE), theirs("x", {})], node({cilium_node.LABEL: cilium_node.digest(BASE)}), [])
    assert not change.anything


def test_a_second_node_with_the_same_values_gets_the_label_alone() -> None:
    change = cilium_node.decide(WANTED, [ours(BASE)], node(), [cilium_node.digest(BASE)])
    assert change.relabel and change.write is None and change.remove == ()


def test_an_object_that_somebody_changed_is_written_again() -> None:
    changed = ours(BASE)
    changed["spec"]["defaults"]["devices"] = "eth9"
    change = cilium_node.decide(WANTED, [changed], node({cilium_node.LABEL: cilium_node.digest(BASE)}), [])
    assert not change.relabel and change.write == cilium_node.build(BASE) and change.replaces == changed


def test_an_object_that_no_node_is_left_for_goes_and_one_of_others_stays() -> None:
    mine = node({cilium_node.LABEL: cilium_node.digest(OTHER)})
    change = cilium_node.decide(WANTED, [ours(OTHER), theirs("inferops-locality-theirs", {})], mine, [])
    assert [item["metadata"]["name"] for item in change.remove] == [f"inferops-locality-{cilium_node.digest(OTHER)}"]
    kept = cilium_node.decide(WANTED, [ours(OTHER)], mine, [cilium_node.digest(OTHER)])
    assert kept.remove == ()


def test_a_plan_without_knobs_of_a_node_takes_all_of_ours_back() -> None:
    mine = node({cilium_node.LABEL: cilium_node.digest(BASE)})
    for wanted in ({}, {"vm.thp": "never"}, {"cilium.clock": True}):
        change = cilium_node.decide(wanted, [ours(BASE)], mine, [])
        assert (change.label, change.relabel, change.write) == (None, True, None) and len(change.remove) == 1
    assert not cilium_node.decide({}, [], node(), []).anything


def test_the_name_of_a_set_of_values_does_not_depend_on_their_order_and_fits_a_label() -> None:
    assert cilium_node.digest(BASE) == cilium_node.digest(dict(reversed(list(BASE.items())))) != cilium_node.digest(OTHER)
    assert len(cilium_node.digest(BASE)) == 10
