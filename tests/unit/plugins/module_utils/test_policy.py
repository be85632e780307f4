# Copyright (c) 2026 The inferops.locality authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import datetime
from typing import Any, Dict, List, Tuple

import jsonschema
import pytest

from ansible_collections.inferops.locality.plugins.module_utils import policy

DEFAULTS: Dict[str, Any] = {
    "housekeeping": {"cores_per_numa_node": 1},
    "isolation": {"scheduler": "balanced", "managed_irqs": True, "tickless": False, "system_slices": True},
    "hugepages": {},
    "memory": {"system_reserved": "8Gi", "kube_reserved": "4Gi", "eviction_hard": "500Mi"},
    "cpu_policy": "kubelet-static",
    "kubelet": {
        "topology_manager_policy": "single-numa-node", "topology_manager_scope": "pod", "memory_manager_policy": "Static",
        "cpu_manager_options": ["full-pcpus-only"], "labels": {}, "taints": [],
    },
    "host": {
        "thp": "madvise", "thp_defrag": "madvise", "swappiness": 0, "numa_balancing": 0, "governor": "performance", "max_latency_us": None,
        "memlock": "infinity", "irqbalance": "disabled", "tuned_parent": None,
    },
    "irq": {"devices": ["nic"], "strategy": "spread", "queues": None, "rps": False},
    "pcie": {"iommu": None, "acs_off": [], "justification": None, "owner": None, "force": False, "min_link_width": None},
    "network": {
        "datapath_mode": None, "big_tcp": None, "devices": None, "xdp": None, "routing": None, "bpf_maps": None, "clock_probe": None, "bandwidth_manager": None,
    },
    "dra": {
        "dranet": None, "gpus": "device-plugin", "align": "auto", "pairs": [1, 2, 4, 8], "gpu_class": "gpu.nvidia.com", "nic_class": "dranet-rdma",
        "template": "gpu-nic", "namespaces": [], "uplinks": [], "network_config": {},
    },
}


@pytest.mark.parametrize("given", [{}, None, {"host": None, "hugepages": None, "housekeeping": None}], ids=["empty", "null", "empty-sections"])
def test_defaults(given: Any) -> None:
    assert policy.check_policy(given) == (DEFAULTS, [])


GOOD: List[Tuple[Dict[str, Any], str, Any]] = [
    ({"housekeeping": {"cores": 6}}, "housekeeping", {"cores": 6}),
    ({"housekeeping": {"profile": "full"}}, "housekeeping", {"profile": "full"}),
    ({"housekeeping": {"cpus": "0-1"}}, "housekeeping", {"cpus": "0-1"}),
    ({"hugepages": {"1Gi": {0: 16, "1": 16}}}, "hugepages", {"1Gi": {"0": 16, "1": 16}}),
    ({"memory": {"eviction_hard": 524288000}}, "memory", {**DEFAULTS["memory"], "eviction_hard": 524288000}),
    ({"pcie": {"iommu": False}}, "pcie", {**DEFAULTS["pcie"], "iommu": "off"}),
    ({"pcie": {"iommu": "off"}}, "pcie", {**DEFAULTS["pcie"], "iommu": "off"}),
    ({"pcie": {"acs_off": ["0000:15:01.0/00.0", "pci:10b5:8747"]}}, "pcie", {**DEFAULTS["pcie"], "acs_off": ["0000:15:01.0/00.0", "pci:10b5:8747"]}),
    ({"host": {"memlock": "64Gi"}}, "host", {**DEFAULTS["host"], "memlock": "64Gi"}),
    ({"kubelet": {"labels": {"example.net/a.b_c-d": "", "e": "F.1"}}}, "kubelet", {**DEFAULTS["kubelet"], "labels": {"example.net/a.b_c-d": "", "e": "F.1"}}),
    ({"network": {"devices": "uplink"}}, "network", {**DEFAULTS["network"], "devices": "uplink"}),
    ({"network": {"devices": ["eth0", "bond0.100"]}}, "network", {**DEFAULTS["network"], "devices": ["eth0", "bond0.100"]}),
    ({"network": {"big_tcp": []}}, "network", {**DEFAULTS["network"], "big_tcp": []}),
    ({"network": {"bpf_maps": {"ratio": 1}}}, "network", {**DEFAULTS["network"], "bpf_maps": {"distributed_lru": False, "ratio": 1}}),
    ({"network": {"bpf_maps": {}}}, "network", {**DEFAULTS["network"], "bpf_maps": {"distributed_lru": False, "ratio": 0.0025}}),
    ({"network": {"bandwidth_manager": {}}}, "network", {**DEFAULTS["network"], "bandwidth_manager": {"enabled": True, "bbr": False}}),
    ({"network": {"clock_probe": False, "xdp": "best-effort"}}, "network", {**DEFAULTS["network"], "clock_probe": False, "xdp": "best-effort"}),
    ({"dra": {"dranet": True, "network_config": {"interface": {"mtu": 9000}}}}, "dra",
     {**DEFAULTS["dra"], "dranet": True, "network_config": {"interface": {"mtu": 9000}}}),
    ({"kubelet": {"taints": ["gpu=yes:NoSchedule"]}}, "kubelet", {**DEFAULTS["kubelet"], "taints": ["gpu=yes:NoSchedule"]}),
]


@pytest.mark.parametrize(("given", "section", "value"), GOOD)
def test_right_values(given: Dict[str, Any], section: str, value: Any) -> None:
    assert policy.normalise_policy(given) == {**DEFAULTS, section: value}


def test_parameters_of_dranet_are_checked_beyond_the_schema() -> None:
    result, (found,) = policy.check_policy({"dra": {"network_config": {"interface": {"mtu": 9}}}})
    assert found["message"] == "locality_policy.dra.network_config.interface.mtu: found 9, wanted a number from 68"
    assert result == DEFAULTS


# (policy, id of the finding, what the message must hold, what the hint must hold)
BAD = [
    ({"houskeeping": {"cores": 1}}, "policy.unknown_key", "locality_policy.houskeeping: unknown key (value {'cores': 1})", "locality_policy.housekeeping"),
    ({"isolation": {"managed_irq": True}}, "policy.unknown_key", "locality_policy.isolation.managed_irq", "locality_policy.isolation.managed_irqs"),
    ({"governor": "x"}, "policy.unknown_key", "locality_policy.governor", "the key of that name is locality_policy.host.governor"),
    ({"host": {"topology_policy": 1}}, "policy.unknown_key", "locality_policy.host.topology_policy", "locality_policy.kubelet.topology_manager_policy"),
    ({"zzz": 1}, "policy.unknown_key", "locality_policy.zzz", "known here: housekeeping, isolation"),
    ({"housekeeping": {"cpus": 3}}, "policy.wrong_type", "locality_policy.housekeeping.cpus: found 3 (a whole number), wanted a text", ""),
    ({"isolation": {"tickless": "yes"}}, "policy.wrong_type", "found 'yes' (a text), wanted true or false", ""),
    ({"isolation": []}, "policy.wrong_type", "locality_policy.isolation: found [] (a list), wanted a mapping", ""),
    ({"host": {"swappiness": True}}, "policy.wrong_type", "found true (a boolean), wanted a whole number or null", ""),
    ({"host": {"irqbalance": False}}, "policy.wrong_type", "locality_policy.host.irqbalance: found false", ""),
    ({"host": {"governor": datetime.date(2026, 1, 1)}}, "policy.wrong_type", "(date)", ""),
    ({"housekeeping": {"cores": 0}}, "policy.wrong_value", "locality_policy.housekeeping.cores: found 0, wanted at least 1", ""),
    ({"housekeeping": {}}, "policy.wrong_value", "wanted exactly one of cores_per_numa_node, cores, profile, cpus", ""),
    ({"housekeeping": {"cores": 2, "profile": "full"}}, "policy.wrong_value", "wanted exactly one of", ""),
    ({"housekeeping": {"profile": "standart"}}, "policy.wrong_value", "wanted one of minimal, standard, observability, full (nearest: standard)", ""),
    ({"host": {"max_latency_us": 0}}, "policy.wrong_value", "wanted at least 1", ""),
    ({"host": {"swappiness": 201}}, "policy.wrong_value", "wanted at most 200", ""),
    ({"hugepages": {"1GB": {"0": 1}}}, "policy.wrong_value", "locality_policy.hugepages.1GB", ""),
    ({"hugepages": {"3Mi": {"0": 1}}}, "policy.wrong_value", "wanted a page size as key, such as 2Mi or 1Gi", ""),
    ({"hugepages": {"1Gi": {"node0": 1}}}, "policy.wrong_value", "wanted the number of a NUMA node as key", ""),
    ({"hugepages": {"1Gi": {"0": -1}}}, "policy.wrong_value", "locality_policy.hugepages.1Gi.0: found -1, wanted at least 0", ""),
    ({"hugepages": {"1Gi": 16}}, "policy.wrong_type", "locality_policy.hugepages.1Gi: found 16", ""),
    ({"memory": {"eviction_hard": "5%"}}, "policy.wrong_value", "wanted an absolute quantity", ""),
    ({"memory": {"system_reserved": "8GB"}}, "policy.wrong_value", "wanted a quantity such as 8Gi", ""),
    ({"memory": {"kube_reserved": "0"}}, "policy.wrong_value", "wanted a quantity above 0", ""),
    ({"kubelet": {"memory_manager_policy": None}}, "policy.wrong_type", "locality_policy.kubelet.memory_manager_policy: found null", ""),
    ({"kubelet": {"memory_manager_policy": "static"}}, "policy.wrong_value", "wanted one of None, Static (nearest: Static)", ""),
    ({"kubelet": {"cpu_manager_options": ["full-pcpus-only=true,strict-cpu-reservation=true"]}}, "policy.wrong_value", "each option by its name alone", ""),
    ({"kubelet": {"cpu_manager_options": ["full-pcpus-only", "full-pcpus-only"]}}, "policy.wrong_value", "cpu_manager_options[1]", ""),
    ({"kubelet": {"labels": {"a": 1}}}, "policy.wrong_type", "locality_policy.kubelet.labels.a: found 1", ""),
    ({"kubelet": {"labels": {"a b": "x"}}}, "policy.wrong_value", "locality_policy.kubelet.labels.a b: found 'a b', wanted a label key", ""),
    ({"kubelet": {"labels": {"X.example/a": "x"}}}, "policy.wrong_value", "wanted a label key", ""),
    ({"kubelet": {"labels": {"a/b/c": "x"}}}, "policy.wrong_value", "wanted a label key", ""),
    ({"kubelet": {"labels": {"a" * 64: "x"}}}, "policy.wrong_value", "wanted a label key", ""),
    ({"kubelet": {"labels": {"a": "x,b=y"}}}, "policy.wrong_value", "locality_policy.kubelet.labels.a: found 'x,b=y', wanted a label value", ""),
    ({"kubelet": {"labels": {"a": "x\n"}}}, "policy.wrong_value", "wanted a label value", ""),
    ({"kubelet": {"labels": {"a": "-x"}}}, "policy.wrong_value", "wanted a label value", ""),
    ({"irq": {"queues": 2049}}, "policy.wrong_value", "locality_policy.irq.queues: found 2049, wanted at most 2048", ""),
    ({"irq": {"queues": 0}}, "policy.wrong_value", "locality_policy.irq.queues: found 0, wanted at least 1", ""),
    ({"irq": {"queues": "fit"}}, "policy.wrong_value", "locality_policy.irq.queues: found 'fit', wanted a number of queues, or fitted: as many as", ""),
    ({"irq": {"queues": "4"}}, "policy.wrong_value", "locality_policy.irq.queues: found '4', wanted a number of queues", ""),
    ({"kubelet": {"taints": ["gpu"]}}, "policy.wrong_value", "wanted a taint such as key=value:NoSchedule", ""),
    ({"irq": {"devices": ["eth0"]}}, "policy.wrong_value", "locality_policy.irq.devices[0]: found 'eth0'", ""),
    ({"pcie": {"iommu": "on"}}, "policy.wrong_value", "wanted one of pt, off, null", ""),
    ({"pcie": {"iommu": True}}, "policy.wrong_value", "found true, wanted one of pt, off, null", ""),
    ({"pcie": {"acs_off": ["17:00.0"]}}, "policy.wrong_value", "wanted a bridge as the kernel names it", ""),
    ({"pcie": {"min_link_width": 3}}, "policy.wrong_value", "wanted one of 1, 2, 4, 8, 16, 32, null", ""),
    ({"cpu_policy": "nri-balloons"}, "policy.not_in_this_version", "'nri-balloons' is not in this version", "kubelet-static"),
    ({"cpu_policy": "best-effort"}, "policy.not_in_this_version", "'best-effort' is not in this version", "kubelet-static"),
    ({"nri_balloons": {}}, "policy.not_in_this_version", "locality_policy.nri_balloons: not in this version", "remove"),
    ({"pod_fit": True}, "policy.not_in_this_version", "locality_policy.pod_fit", "remove"),
    ({"pod_pinning_info": True}, "policy.not_in_this_version", "locality_policy.pod_pinning_info", "remove"),
    ({"guaranteed_resources": {}}, "policy.not_in_this_version", "locality_policy.guaranteed_resources", "remove"),
    ({"locality_taint_until_proved": True}, "policy.not_in_this_version", "locality_taint_until_proved", "remove"),
    ({"network": {"mtu": 9000}}, "policy.unknown_key", "locality_policy.network.mtu: unknown key (value 9000)", "known here: datapath_mode, big_tcp"),
    ({"network": {"datapathMode": "netkit"}}, "policy.unknown_key", "locality_policy.network.datapathMode", "locality_policy.network.datapath_mode"),
    ({"network": {"datapath_mode": "netkti"}}, "policy.wrong_value", "wanted one of veth, netkit, netkit-l2, null (nearest: netkit)", ""),
    ({"network": {"big_tcp": ["ipv4", "IPv6"]}}, "policy.wrong_value", "locality_policy.network.big_tcp[1]: found 'IPv6', wanted one of ipv4, ipv6", ""),
    ({"network": {"big_tcp": True}}, "policy.wrong_type", "locality_policy.network.big_tcp: found true (a boolean), wanted a list or null", ""),
    ({"network": {"devices": "eth0"}}, "policy.wrong_value", "wanted uplink (the interfaces of the default route), or a list of interfaces", ""),
    ({"network": {"devices": ["eth+"]}}, "policy.wrong_value", "locality_policy.network.devices[0]: found 'eth+', wanted the name of a network interface", ""),
    ({"network": {"devices": []}}, "policy.wrong_value", "locality_policy.network.devices: found [], wanted at least 1 item", ""),
    ({"network": {"xdp": "besteffort"}}, "policy.wrong_value", "(nearest: best-effort)", ""),
    ({"network": {"bpf_maps": {"ratio": 0}}}, "policy.wrong_value", "locality_policy.network.bpf_maps.ratio: found 0, wanted more than 0", ""),
    ({"network": {"bpf_maps": {"ratio": 1.5}}}, "policy.wrong_value", "locality_policy.network.bpf_maps.ratio: found 1.5, wanted at most 1", ""),
    ({"network": {"bpf_maps": True}}, "policy.wrong_type", "locality_policy.network.bpf_maps: found true (a boolean), wanted a mapping or null", ""),
    ({"dra": {"enabled": True}}, "policy.unknown_key", "locality_policy.dra.enabled: unknown key", ""),
    ({"dra": {"pairs": [0]}}, "policy.wrong_value", "locality_policy.dra.pairs[0]: found 0, wanted at least 1", ""),
    ({"dra": {"pairs": [17]}}, "policy.wrong_value", "locality_policy.dra.pairs[0]: found 17, wanted at most 16", ""),
    ({"dra": {"align": "numa"}}, "policy.wrong_value", "wanted one of auto, pcie_root, numa_node", ""),
    ({"dra": {"nic_class": "RDMA"}}, "policy.wrong_value", "locality_policy.dra.nic_class: found 'RDMA', wanted a name of a Kubernetes object", ""),
    ({"dra": {"namespaces": ["a.b"]}}, "policy.wrong_value", "locality_policy.dra.namespaces[0]: found 'a.b', wanted the name of a namespace", ""),
    ([1], "policy.wrong_type", "locality_policy: found [1] (a list), wanted a mapping", ""),
    ("x", "policy.wrong_type", "locality_policy: found 'x' (a text), wanted a mapping", ""),
]


@pytest.mark.parametrize(("given", "id", "message", "hint"), BAD, ids=[f"{index}-{case[1].partition('.')[2]}" for index, case in enumerate(BAD)])
def test_wrong_values_are_named_and_replaced_by_the_default(given: Any, id: str, message: str, hint: str) -> None:
    result, items = policy.check_policy(given)
    assert [item["id"] for item in items] == [id]
    assert items[0]["severity"] == "error"
    assert message in items[0]["message"]
    assert hint in items[0]["hint"]
    expected = {**DEFAULTS, "hugepages": {key: {} for key in result["hugepages"]}}
    # Of a list only the wrong item goes.
    for section, key in (("kubelet", "cpu_manager_options"), ("irq", "devices"), ("network", "devices"), ("network", "big_tcp"), ("dra", "pairs")):
        if isinstance(given, dict) and isinstance((given.get(section) or {}).get(key), list) and given[section][key]:
            expected = {**expected, section: {**expected[section], key: list(result[section][key])}}
            assert len(result[section][key]) == len(given[section][key]) - 1
    if isinstance(given, dict) and isinstance((given.get("network") or {}).get("bpf_maps"), dict):
        expected["network"] = {**expected["network"], "bpf_maps": {"distributed_lru": False, "ratio": 0.0025}}
    assert result == expected
    with pytest.raises(policy.PolicyError) as caught:
        policy.normalise_policy(given)
    assert caught.value.findings == items


def test_everything_that_is_wrong_is_said_at_once() -> None:
    _result, items = policy.check_policy({"a": 1, "host": {"b": 1, "thp": "x", "swappiness": "y"}, "irq": {"devices": ["q", 3]}, "cpu_policy": 7})
    assert [item["message"].split(":")[0] for item in items] == [
        "locality_policy.a", "locality_policy.host.b", "locality_policy.host.thp", "locality_policy.host.swappiness",
        "locality_policy.irq.devices[0]", "locality_policy.irq.devices[1]", "locality_policy.cpu_policy",
    ]


def test_a_ratio_that_is_no_number_is_refused() -> None:
    # YAML has .nan, which is neither above nor below anything; JSON has none, so this is no case of the table.
    _result, items = policy.check_policy({"network": {"bpf_maps": {"ratio": float("nan")}}})
    assert [item["message"] for item in items] == ["locality_policy.network.bpf_maps.ratio: found nan, wanted more than 0"]


def test_a_long_value_is_cut() -> None:
    _result, items = policy.check_policy({"cpu_policy": "x" * 10000})
    assert len(items[0]["message"]) < 200


def test_the_policy_of_the_caller_stays_as_it_is() -> None:
    given: Dict[str, Any] = {"hugepages": {"1Gi": {"0": 1}}, "kubelet": {"taints": ["a:NoSchedule"]}}
    result = policy.normalise_policy(given)
    result["hugepages"]["1Gi"]["0"] = 2
    result["kubelet"]["taints"].append("b:NoSchedule")
    result["kubelet"]["cpu_manager_options"].append("x")
    assert given == {"hugepages": {"1Gi": {"0": 1}}, "kubelet": {"taints": ["a:NoSchedule"]}}
    assert policy.normalise_policy({}) == DEFAULTS


# -- the same schemas, read by a library that knows nothing of us


@pytest.mark.parametrize("schema", [policy.POLICY_SCHEMA, policy.CHASSIS_SCHEMA], ids=["policy", "chassis"])
def test_the_schemas_are_json_schemas(schema: Dict[str, Any]) -> None:
    jsonschema.Draft202012Validator.check_schema(schema)


def _formats() -> jsonschema.FormatChecker:
    checker = jsonschema.FormatChecker(formats=())
    for name in ("quantity", "memlock"):
        checker.checks(name)(lambda value, name=name: not isinstance(value, (str, int)) or policy._format(name, value) is None)
    checker.checks("page-size")(policy._page_size)
    return checker


@pytest.mark.parametrize("given", [case[0] for case in GOOD] + [DEFAULTS, {}])
def test_jsonschema_takes_what_the_own_check_takes(given: Any) -> None:
    # Numbers as keys come from YAML; JSON has none.
    given = {**given, "hugepages": {size: {str(node): count for node, count in counts.items()} for size, counts in given.get("hugepages", {}).items()}}
    assert jsonschema.Draft202012Validator(policy.POLICY_SCHEMA, format_checker=_formats()).is_valid(given)


@pytest.mark.parametrize("given", [case[0] for case in BAD], ids=[f"{index}-{case[1].partition('.')[2]}" for index, case in enumerate(BAD)])
def test_jsonschema_refuses_what_the_own_check_refuses(given: Any) -> None:
    assert not jsonschema.Draft202012Validator(policy.POLICY_SCHEMA, format_checker=_formats()).is_valid(given)


def test_every_default_is_what_the_schema_allows() -> None:
    assert policy.defaults(policy.POLICY_SCHEMA) == DEFAULTS
    assert policy.check_policy(policy.defaults(policy.POLICY_SCHEMA))[1] == []
