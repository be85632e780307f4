# Copyright (c) 2026 The inferops.locality authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import copy
from typing import Any, Dict, List, Optional, Tuple

import pytest

from ansible_collections.inferops.locality.plugins.module_utils import drift, knobs, plan
from ansible_collections.inferops.locality.tests.unit.strategies import GIB, PLATFORM, TrueMachine, regular, topology

OURS = {
    "kernel": f"{knobs.FILE_GRUB}:3",
    "vm": f"{knobs.FILE_SYSCTL}:3",
    "kubelet": f"{knobs.FILE_KUBELET}:4",
}


def made(machine: Optional[TrueMachine] = None, policy: Optional[Dict[str, Any]] = None, **more: Any) -> Dict[str, Any]:
    result = plan.make_plan(topology(machine or regular(cores=2)), PLATFORM, policy or {}, **more)
    assert not [item for item in result["findings"] if item["severity"] == "error"]
    return result


NICS = TrueMachine(
    regular(cores=2).cores, {0: 64 * GIB, 1: 64 * GIB},
    devices=({"address": "0000:01:00.0", "kind": "nic", "numa_node": 0, "path": []}, {"address": "0000:81:00.0", "kind": "nic", "numa_node": 1, "path": []}),
)
EVERYTHING = made(
    NICS,
    {
        "isolation": {"tickless": True}, "hugepages": {"1Gi": {"0": 4}}, "host": {"max_latency_us": 10}, "irq": {"queues": 2, "rps": True},
        "pcie": {"iommu": "pt", "acs_off": ["pci:10b5:8747"], "justification": "one tenant", "owner": "ops"},
    },
    runtime_version="1.0.0+abc",
)


def in_sync(wanted: Dict[str, Any]) -> Dict[str, Any]:
    """A state that equals a plan on every side."""
    state: Dict[str, Any] = {"running": {}, "configured": {}, "foreign": [], "boot": {}, "kubelet": {"args": {}, "args_sources": []}, "problems": []}
    for id, value in wanted["knobs"].items():
        if "running" in knobs.KNOBS[id].sides:
            state["running"][id] = copy.deepcopy(value)
        if "configured" in knobs.KNOBS[id].sides:
            state["configured"][id] = {"value": copy.deepcopy(value), "source": OURS.get(id.partition(".")[0])}
    return state


def out_of_sync(report: Dict[str, Any]) -> List[str]:
    return [entry["knob"] for entry in report["entries"] if not entry["in_sync"]]


def entry_of(report: Dict[str, Any], knob: str) -> Dict[str, Any]:
    return next(entry for entry in report["entries"] if entry["knob"] == knob)


def found(report: Dict[str, Any]) -> List[Tuple[str, str]]:
    return [(item["id"], item["severity"]) for item in report["findings"]]


def test_a_node_like_its_plan_needs_nothing() -> None:
    report = drift.compare(EVERYTHING, in_sync(EVERYTHING))
    assert report["summary"] == {"needs": None, "count": 0}
    assert report["findings"] == []
    assert [entry["knob"] for entry in report["entries"]] == list(EVERYTHING["knobs"])
    assert {entry["reason"] for entry in report["entries"]} == {None}


@pytest.mark.parametrize(("softirqs", "share", "words"), [
    ({"net_rx": {"0": 60, "1": 1, "2": 38, "3": 1}, "net_tx": {}, "seconds": 10.0}, 0.98, "98.0% of 100 receive softirqs were on housekeeping CPUs in 10 s"),
    ({"net_rx": {"0": 1, "1": 3}, "net_tx": {}, "seconds": None}, 0.25, "25.0% of 4 receive softirqs were on housekeeping CPUs since the boot"),
    # A CPU that is offline now has counted too.
    ({"net_rx": {"0": 1, "77": 1}, "net_tx": {}, "seconds": 0.5}, 0.5, "in 0.5 s"),
    ({"net_rx": {"0": 0}, "net_tx": {}, "seconds": 10.0}, None, ""),
    ({"net_rx": {}, "net_tx": {}}, None, ""),
])
def test_share_of_receive_softirqs_is_reported_and_blocks_nothing(softirqs: Dict[str, Any], share: Any, words: str) -> None:
    report = drift.compare(EVERYTHING, {**in_sync(EVERYTHING), "softirqs": softirqs})
    entries = [entry for entry in report["entries"] if entry["knob"] == "irq.softirq_share"]
    assert [entry["running"]["share"] for entry in entries] == ([] if share is None else [share])
    assert all(words in entry["reason"] and entry["class"] == "reported" and entry["in_sync"] for entry in entries)
    assert report["summary"] == {"needs": None, "count": 0}
    assert not any(entry["knob"] == "irq.softirq_share" for entry in drift.compare(EVERYTHING, {"softirqs": softirqs}, live=False)["entries"])


MANAGED = sorted(id for id in EVERYTHING["knobs"] if knobs.KNOBS[id].klass == "managed")


def other(value: Any) -> Any:
    """A value of the same shape that differs."""
    if isinstance(value, dict):
        return {key: other(item) for key, item in value.items()}
    if isinstance(value, list):
        return [*value, "x=true"]
    if isinstance(value, bool) or value is None:
        return "x"
    return value + 1 if isinstance(value, int) else f"{value}9"


@pytest.mark.parametrize(("knob", "side"), [(id, side) for id in MANAGED for side in knobs.KNOBS[id].sides])
def test_each_knob_that_is_changed_is_named_and_no_other(knob: str, side: str) -> None:
    state = in_sync(EVERYTHING)
    if side == "running":
        state["running"][knob] = other(state["running"][knob])
    else:
        state["configured"][knob]["value"] = other(state["configured"][knob]["value"])
    report = drift.compare(EVERYTHING, state)
    assert out_of_sync(report) == [knob]
    # A file that is wrong while the right value runs is only written again.
    only_file = side == "configured" and "running" in knobs.KNOBS[knob].sides
    assert report["summary"] == {"needs": "live" if only_file else knobs.KNOBS[knob].needs, "count": 1}
    assert entry_of(report, knob)["reason"].startswith(f"{side} differs")
    below = drift.compare(EVERYTHING, state, live=False)
    assert out_of_sync(below) == ([knob] if side == "configured" else [])


@pytest.mark.parametrize("knob", MANAGED)
def test_a_side_that_could_not_be_read_is_not_in_sync(knob: str) -> None:
    state = in_sync(EVERYTHING)
    side = knobs.KNOBS[knob].sides[0]
    del state[side][knob]
    report = drift.compare(EVERYTHING, state)
    assert out_of_sync(report) == [knob]
    assert entry_of(report, knob)["reason"] == f"{side} could not be read"


def _without_kubelet(state: Dict[str, Any], unit: bool) -> Dict[str, Any]:
    running = {knob: value for knob, value in state["running"].items() if not knob.startswith("kubelet.")}
    return {**state, "running": running, "kubelet": {**state.get("kubelet", {}), "runs": {"unit": unit, "kubelet": False}}}


def test_where_no_kubelet_runs_what_it_will_be_given_is_judged() -> None:
    plan = made()
    state = _without_kubelet(in_sync(plan), True)
    report = drift.compare(plan, state)
    assert out_of_sync(report) == []
    assert ("kubelet.not_running", "note") in found(report) or ("note", "kubelet.not_running") in found(report)
    state["configured"]["kubelet.cpu_manager_policy"] = {"value": "none", "source": None}
    report = drift.compare(plan, state)
    assert out_of_sync(report) == ["kubelet.cpu_manager_policy"]
    # RKE2 runs and would have to start it.
    assert entry_of(report, "kubelet.cpu_manager_policy")["needs"] == "restart"


def test_what_does_not_run_need_not_be_restarted() -> None:
    plan = made()
    state = _without_kubelet(in_sync(plan), False)
    del state["running"]["limits.memlock"]
    for knob in ("limits.memlock", "kubelet.cpu_manager_policy"):
        state["configured"][knob] = {"value": None, "source": None}
    report = drift.compare(plan, state)
    assert [(knob, entry_of(report, knob)["needs"]) for knob in out_of_sync(report)] == [
        ("limits.memlock", "live"), ("kubelet.cpu_manager_policy", "live"),
    ]


def test_below_another_root_only_what_is_written_is_judged() -> None:
    state = in_sync(EVERYTHING)
    state["running"] = {}
    report = drift.compare(EVERYTHING, state, live=False)
    assert report["summary"] == {"needs": None, "count": 0}
    assert all("configured" in knobs.KNOBS[entry["knob"]].sides for entry in report["entries"])
    assert {entry["reason"] for entry in report["entries"]} == {"written, not in force"}


# A CPU manager's file, whether RKE2's unit runs, and what it costs that the file does not fit RKE2's configuration.
CHECKPOINTS: List[Tuple[Dict[str, Any], Optional[bool], str]] = [
    # Somebody changed the policy in RKE2's files; the kubelet that runs wrote the file.
    ({"policy": "static", "format": "v2"}, True, "live"),
    ({"policy": "static", "format": "v2"}, False, "live"),
    ({"policy": "none", "format": "v2"}, True, "restart"),
    ({"policy": "none", "format": "v2"}, False, "drain"),
    ({"policy": "none", "format": "v2"}, None, "drain"),
    ({"policy": None, "format": "v2", "reason": "checksum does not match"}, True, "restart"),
    # Nobody takes it away.
    ({"policy": None, "format": "unknown", "reason": "has keys no known version writes"}, True, "drain"),
]


@pytest.mark.parametrize(("entry", "unit", "needs"), CHECKPOINTS)
def test_what_checkpoint_files_cost_depends_on_whether_the_plan_takes_them(entry: Dict[str, Any], unit: Optional[bool], needs: str) -> None:
    plan = made()
    state = in_sync(plan)
    state["configured"]["kubelet.state_files"]["value"] = "/var/lib/kubelet/cpu_manager_state does not fit"
    state["kubelet"]["state_files"] = {"cpu": {"file": "/var/lib/kubelet/cpu_manager_state", "exists": True, **entry}}
    state["kubelet"]["runs"] = {"unit": unit, "kubelet": unit}
    report = drift.compare(plan, state)
    assert out_of_sync(report) == ["kubelet.state_files"] and report["summary"]["needs"] == needs
    assert entry_of(report, "kubelet.state_files")["reason"].endswith("; they fit the plan") is (needs == "live")


@pytest.mark.parametrize(
    ("knobs_off", "needs"),
    [(["vm.thp"], "live"), (["vm.thp", "kubelet.state_files"], "drain"), (["kubelet.reserved_cpus", "vm.thp"], "restart"),
     (["kernel.isolcpus", "kubelet.reserved_cpus", "kubelet.state_files"], "reboot")],
)
def test_the_dearest_need_counts(knobs_off: List[str], needs: str) -> None:
    state = in_sync(EVERYTHING)
    for knob in knobs_off:
        side = "running" if "running" in knobs.KNOBS[knob].sides else "configured"
        state[side][knob] = "x" if side == "running" else {"value": "x", "source": None}
    assert drift.compare(EVERYTHING, state)["summary"] == {"needs": needs, "count": len(knobs_off)}


def test_reported_knobs_never_count() -> None:
    wanted = copy.deepcopy(EVERYTHING)
    wanted["knobs"]["kernel.preempt"] = "full"
    state = in_sync(EVERYTHING)
    state["running"]["kernel.preempt"] = "none"
    report = drift.compare(wanted, state)
    assert out_of_sync(report) == ["kernel.preempt"]
    assert report["summary"] == {"needs": None, "count": 0}


# (knob, value found, whether it is what the plan wants)
EQUAL = [
    ("kernel.nohz_full", "7,5,3,1", True),
    ("kernel.nohz_full", "1,3,5", False),
    ("kubelet.reserved_cpus", "00,2,4,6", True),
    ("kernel.hugepages", {"1Gi": {"0": 4}, "2Mi": {"0": 512}}, True),
    ("kernel.hugepages", {"1Gi": {"0": 3}}, False),
    ("kernel.hugepages", {"1Gi": {"0": 4, "1": 1}}, False),
    ("kernel.hugepages", None, False),
    ("irq.affinity", {"0000:01:00.0": "0,4", "0000:81:00.0": "2,6", "0000:99:00.0": "0-7"}, True),
    ("irq.affinity", {"0000:01:00.0": "0,4"}, True),
    ("irq.affinity", {"0000:01:00.0": "0-7", "0000:81:00.0": "2,6"}, False),
    ("nic.queues", {"0000:01:00.0": 2}, False),
    ("nic.rps", None, False),
    ("nic.rps", {"0000:01:00.0": "0,4", "0000:81:00.0": "6,2"}, True),
    ("nic.rps", {"0000:01:00.0": "0,4", "0000:81:00.0": ""}, False),
    ("nic.rps", {"0000:01:00.0": "0,4", "0000:81:00.0": "mixed: 6,2; off"}, False),
    # A device with one queue has no file for it.
    ("nic.xps", {"0000:01:00.0": "0,4"}, True),
    ("nic.xps", {"0000:01:00.0": "0,4", "0000:81:00.0": "6"}, False),
    ("kernel.isolcpus", "domain,managed_irq,1,3,5,7", False),
]


@pytest.mark.parametrize(("knob", "value", "same"), EQUAL)
def test_running_values_are_compared_by_their_meaning(knob: str, value: Any, same: bool) -> None:
    state = in_sync(EVERYTHING)
    state["running"][knob] = value
    assert (out_of_sync(drift.compare(EVERYTHING, state)) == []) is same


def test_an_even_total_of_an_old_kernel_is_what_the_plan_means() -> None:
    wanted = made(policy={"hugepages": {"1Gi": {"0": 4, "1": 4}}})
    state = in_sync(wanted)
    state["configured"]["kernel.hugepages"]["value"] = {"1Gi": {"total": 8}}
    assert out_of_sync(drift.compare(wanted, state)) == []
    state["configured"]["kernel.hugepages"]["value"] = {"1Gi": {"total": 9}}
    assert out_of_sync(drift.compare(wanted, state)) == ["kernel.hugepages"]


def test_a_device_in_our_file_that_the_plan_no_longer_has_is_drift() -> None:
    state = in_sync(EVERYTHING)
    state["configured"]["irq.affinity"]["value"]["0000:99:00.0"] = "0"
    assert entry_of(drift.compare(EVERYTHING, state), "irq.affinity")["reason"] == "configured differs: 0000:99:00.0 is not in the plan"


LEFTOVERS = [
    ("kernel.iommu", "pt", OURS["kernel"], True),
    ("kernel.iommu", "pt", "/etc/default/grub:6", False),
    ("kernel.iommu", None, OURS["kernel"], False),
    ("kernel.acs", "config_acs=x@0000:17:00.0", OURS["kernel"], True),
    ("vm.swappiness", 10, f"{knobs.FILE_SYSCTL}:3", True),
    ("cpu.latency", 10, "/etc/tuned/inferops-locality/tuned.conf:7", True),
    ("nic.rps", {"0000:01:00.0": None}, f"{knobs.FILE_IRQ}:1", False),
    ("nic.rps", {"0000:01:00.0": "0,4"}, f"{knobs.FILE_IRQ}:1", True),
]


@pytest.mark.parametrize(("knob", "value", "source", "leftover"), LEFTOVERS)
def test_what_we_wrote_earlier_and_no_longer_want_is_drift(knob: str, value: Any, source: str, leftover: bool) -> None:
    wanted = made(NICS, {"host": {"swappiness": None}})
    state = in_sync(wanted)
    state["configured"][knob] = {"value": value, "source": source}
    report = drift.compare(wanted, state, live=False)
    assert out_of_sync(report) == ([knob] if leftover else [])
    if leftover:
        assert (entry_of(report, knob)["wanted"], entry_of(report, knob)["reason"]) == (None, "written earlier, no longer in the plan")


def test_huge_pages_that_only_our_file_still_asks_for_are_drift() -> None:
    wanted = made()
    state = in_sync(wanted)
    state["configured"]["kernel.hugepages"] = {"value": {"1Gi": {"0": 4}}, "source": OURS["kernel"]}
    assert out_of_sync(drift.compare(wanted, state)) == ["kernel.hugepages"]
    state["configured"]["kernel.hugepages"]["source"] = "/etc/default/grub:6"
    assert out_of_sync(drift.compare(wanted, state)) == []


# -- the API server's part

CLUSTER = [
    (None, None),
    ({"labels": {"pool": "gpu", "other": "x"}, "taints": ["a=1:NoExecute", "other:NoSchedule"]}, []),
    ({"labels": {"pool": "cpu"}, "taints": ["a=1:NoExecute"]}, ["node.labels"]),
    ({"labels": {"pool": "gpu"}, "taints": []}, ["node.taints"]),
    ({}, ["node.labels", "node.taints"]),
]


@pytest.mark.parametrize(("cluster", "off"), CLUSTER)
def test_labels_and_taints_are_judged_only_where_the_api_server_was_asked(cluster: Any, off: Optional[List[str]]) -> None:
    wanted = made(policy={"kubelet": {"labels": {"pool": "gpu"}, "taints": ["a=1:NoExecute"]}})
    report = drift.compare(wanted, in_sync(wanted), cluster)
    judged = [entry["knob"] for entry in report["entries"] if entry["knob"].startswith("node.")]
    assert judged == ([] if off is None else ["node.labels", "node.taints"])
    assert out_of_sync(report) == (off or [])


# -- Cilium, whose sides the agent and the API server show

CILIUM_SOURCE = "CiliumNodeConfig kube-system/inferops-locality-0a1b2c3d4e"
CILIUM: Dict[str, Any] = {
    "cilium.datapath_mode": "netkit", "cilium.big_tcp": ["ipv4"], "cilium.devices": ["ens10f0np0"], "cilium.xdp": "native",
    "cilium.bpf_maps": {"distributed_lru": True, "ratio": 0.0025}, "cilium.clock": True, "cilium.bandwidth_manager": {"enabled": True, "bbr": True},
    "cilium.routing": "native", "cilium.kube_proxy_replacement": True, "cilium.host_routing": "bpf", "cilium.masquerade": "bpf",
}


def cilium(source: str = CILIUM_SOURCE) -> Dict[str, Any]:
    """What is known of Cilium on a node that is as planned: the agent does not tell of distributed LRU maps."""
    running = {**copy.deepcopy(CILIUM), "cilium.bpf_maps": {"distributed_lru": None, "ratio": 0.0025}}
    configured = {id: {"value": copy.deepcopy(value), "source": source} for id, value in CILIUM.items() if "configured" in knobs.KNOBS[id].sides}
    return {"labels": {}, "taints": [], "cilium": {"running": running, "configured": configured}}


def with_cilium() -> Dict[str, Any]:
    return {**EVERYTHING, "knobs": {**EVERYTHING["knobs"], **CILIUM}}


def test_every_knob_of_the_network_is_in_these_tests() -> None:
    assert list(CILIUM) == [knob.id for knob in knobs.KNOBS.values() if knob.layer == "network"]


@pytest.mark.parametrize("cluster", [None, {"labels": {}, "taints": []}, {"cilium": None}])
def test_cilium_is_judged_only_where_it_was_asked(cluster: Any) -> None:
    report = drift.compare(with_cilium(), in_sync(EVERYTHING), cluster)
    assert not [entry for entry in report["entries"] if entry["knob"].startswith("cilium.")]


def test_a_node_whose_cilium_is_as_planned_needs_nothing() -> None:
    report = drift.compare(with_cilium(), in_sync(EVERYTHING), cilium())
    assert {entry["knob"] for entry in report["entries"] if entry["in_sync"]} >= set(CILIUM)
    assert report["summary"] == {"needs": None, "count": 0}
    assert entry_of(report, "cilium.xdp")["source"] == CILIUM_SOURCE
    below = drift.compare(with_cilium(), in_sync(EVERYTHING), cilium(), live=False)
    assert not [entry for entry in below["entries"] if entry["knob"].startswith("cilium.")]


@pytest.mark.parametrize(("knob", "side"), [(id, side) for id in CILIUM for side in knobs.KNOBS[id].sides])
@pytest.mark.parametrize("gone", [False, True])
def test_each_knob_of_cilium_that_differs_is_named_and_no_other(knob: str, side: str, gone: bool) -> None:
    known = cilium()
    part = known["cilium"][side]
    if gone:
        del part[knob]
    elif side == "configured":
        part[knob]["value"] = other(part[knob]["value"])
    else:
        part[knob] = other(part[knob]) if knob != "cilium.bpf_maps" else {"distributed_lru": None, "ratio": 0.08}
    report = drift.compare(with_cilium(), in_sync(EVERYTHING), known)
    assert out_of_sync(report) == [knob]
    managed = knobs.KNOBS[knob].klass == "managed"
    # An object that was changed is written again and nobody is disturbed: the agent reads it when its pod is made.
    assert report["summary"] == {"needs": None if not managed else "live" if side == "configured" else "drain", "count": int(managed)}
    assert entry_of(report, knob)["reason"].startswith(f"{side} {'could not be read' if gone else 'differs'}")


def test_an_agent_that_gave_no_answer_is_judged_by_what_it_will_be_started_with() -> None:
    known = cilium()
    known["cilium"]["running"] = None
    report = drift.compare(with_cilium(), in_sync(EVERYTHING), known)
    assert report["summary"] == {"needs": None, "count": 0}
    assert [entry["knob"] for entry in report["entries"] if entry["knob"].startswith("cilium.")] == [
        id for id in CILIUM if "configured" in knobs.KNOBS[id].sides
    ]
    known["cilium"]["configured"]["cilium.xdp"]["value"] = "disabled"
    report = drift.compare(with_cilium(), in_sync(EVERYTHING), known)
    assert out_of_sync(report) == ["cilium.xdp"]
    # It is written, and nobody is disturbed for what an agent may do.
    assert report["summary"] == {"needs": "live", "count": 1}


def test_maps_of_which_nothing_is_known_are_not_as_wanted() -> None:
    known = cilium()
    known["cilium"]["running"]["cilium.bpf_maps"] = {"distributed_lru": None, "ratio": None}
    assert out_of_sync(drift.compare(with_cilium(), in_sync(EVERYTHING), known)) == ["cilium.bpf_maps"]


def test_what_we_wrote_for_cilium_and_is_no_longer_planned_costs_a_drain() -> None:
    plan = with_cilium()
    del plan["knobs"]["cilium.datapath_mode"]
    report = drift.compare(plan, in_sync(EVERYTHING), cilium())
    assert out_of_sync(report) == ["cilium.datapath_mode"]
    assert report["summary"] == {"needs": "drain", "count": 1}
    assert entry_of(report, "cilium.datapath_mode")["reason"] == "written earlier, no longer in the plan"
    for theirs in ("CiliumNodeConfig kube-system/gpu-netkit", "ConfigMap kube-system/cilium-config"):
        assert not out_of_sync(drift.compare(plan, in_sync(EVERYTHING), cilium(theirs)))


# -- other owners

FOREIGN = {"knob": "vm.swappiness", "file": "/etc/sysctl.conf", "line": 12, "value": "60"}


def test_someone_elses_setting_is_an_error_with_file_and_line() -> None:
    state = {**in_sync(EVERYTHING), "foreign": [FOREIGN, {"knob": "vm.thp", "file": "/x", "line": None, "value": None}]}
    report = drift.compare(EVERYTHING, state)
    assert found(report) == [("foreign.vm.swappiness", "error"), ("foreign.vm.thp", "error")]
    assert report["findings"][0]["message"] == "/etc/sysctl.conf:12 sets vm.swappiness to '60'"
    assert report["findings"][1]["message"] == "/x sets vm.thp to null"


def test_adopting_makes_it_a_note() -> None:
    report = drift.compare(EVERYTHING, {**in_sync(EVERYTHING), "foreign": [FOREIGN]}, adopt=True)
    assert found(report) == [("foreign.vm.swappiness", "note")]


@pytest.mark.parametrize("adopt", [False, True])
def test_a_file_that_drops_ours_is_an_error_that_adopting_does_not_undo(adopt: bool) -> None:
    state = in_sync(EVERYTHING)
    value = "replaces kubelet-arg of the files before it"
    state["foreign"] = [{"knob": "kubelet.reserved_cpus", "file": "/etc/rancher/rke2/config.yaml.d/99-a.yaml", "line": 3, "value": value}]
    (item,) = drift.compare(EVERYTHING, state, adopt=adopt)["findings"]
    assert (item["id"], item["severity"]) == ("foreign.kubelet.reserved_cpus", "error")
    assert item["message"] == f"/etc/rancher/rke2/config.yaml.d/99-a.yaml:3 {value}, and so drops kubelet.reserved_cpus"


@pytest.mark.parametrize("adopt", [False, True])
@pytest.mark.parametrize("wanted", ["disabled", "enabled"])
def test_a_unit_file_in_the_place_of_a_mask_is_an_error_where_the_unit_is_to_be_masked(wanted: str, adopt: bool) -> None:
    plan = made(policy={"host": {"irqbalance": wanted}})
    state = in_sync(plan)
    state["foreign"] = [{"knob": "irqbalance", "file": "/etc/systemd/system/irqbalance.service", "line": None, "value": "is a unit file of its own"}]
    messages = [item["message"] for item in drift.compare(plan, state, adopt=adopt)["findings"] if item["id"] == "foreign.irqbalance"]
    assert messages == (
        ["/etc/systemd/system/irqbalance.service is a unit file of its own, in the place of the link that masks the unit"] if wanted == "disabled" else []
    )


def test_what_the_plan_does_not_judge_is_nobodys_business() -> None:
    report = drift.compare(made(policy={"host": {"swappiness": None}}), {"foreign": [FOREIGN]})
    assert found(report) == []


def test_a_link_out_of_the_root_is_an_error() -> None:
    state = in_sync(EVERYTHING)
    link = {"file": "/etc/sysctl.d/x", "reason": "symbolic link leaves the root: /etc/sysctl.d/x -> ../../../../y"}
    state["problems"] = [link, {"file": "/a", "reason": "is empty"}]
    report = drift.compare(EVERYTHING, state)
    assert found(report) == [("root.escape", "error")]
    assert report["findings"][0]["message"].startswith("/etc/sysctl.d/x: symbolic link leaves the root")


# -- recipes that break a node

BIG = made(regular(cores=32))
CONFIG = "/etc/rancher/rke2/config.yaml"
GRUB = "/etc/default/grub"


def node(args: Optional[Dict[str, List[str]]] = None, boot: str = "", file: str = CONFIG, **of_boot: Any) -> Dict[str, Any]:
    """The state of a node that an operator configured."""
    args = args or {}
    tokens = boot.split()
    return {
        "boot": {"command_line": "", "next_boot": {"entry": None, "args": tokens, "source": "/boot/grub/grub.cfg"}, "duplicates": [], "ignored": [], **of_boot},
        "kubelet": {
            "args": args, "args_sources": [{"flag": flag, "value": value, "file": file, "line": 7} for flag, values in args.items() for value in values],
        },
        "foreign": [{"knob": "kernel.isolcpus", "file": GRUB, "line": 9, "value": token} for token in tokens],
    }


def recipe(state: Dict[str, Any], id: str, wanted: Optional[Dict[str, Any]] = None, adopt: bool = False) -> Dict[str, str]:
    wanted = wanted or BIG
    items = [item for item in drift.compare(wanted, state, adopt=adopt)["findings"] if item["id"] == f"recipe.{id}"]
    assert len(items) == 1, [item["id"] for item in drift.compare(wanted, state)["findings"]]
    return items[0]


def recipes(state: Dict[str, Any], wanted: Optional[Dict[str, Any]] = None) -> List[str]:
    wanted = wanted or BIG
    return [item["id"][7:] for item in drift.compare(wanted, state)["findings"] if item["id"].startswith("recipe.")]


def test_isolcpus_domain_under_the_static_policy() -> None:
    item = recipe(node(boot="quiet isolcpus=2-31,66-95"), "isolcpus_domain")
    assert item["message"].startswith(f"{GRUB}:9: isolcpus=2-31,66-95: isolcpus=domain takes the pods' CPUs out of the scheduler's balancing")
    assert "all ran on CPU 5" in item["message"]
    assert item["hint"].startswith("isolcpus=managed_irq,1-31,33-63,65-95,97-127 keeps")
    assert recipes(node(boot="isolcpus=managed_irq,2-31,66-95")) == []
    asked_for = made(regular(cores=32), {"isolation": {"scheduler": "isolated"}})
    assert recipes(node(boot="isolcpus=domain,managed_irq,1-31"), asked_for) == []


# (reserved-memory, system, kube, eviction, sum given, sum needed, right value); None: nothing is wrong
MEMORY = [
    ("0:memory=4Gi;1:memory=4Gi", "8Gi", "4Gi", None, "8192Mi", "12288Mi", "0:memory=6144Mi;1:memory=6144Mi"),
    ("0:memory=4Gi;1:memory=4Gi", "8Gi", "4Gi", "memory.available<100Mi", "8192Mi", "12388Mi", "0:memory=6194Mi;1:memory=6194Mi"),
    ("0:memory=6Gi;1:memory=6Gi", "8Gi", "4Gi", "memory.available<500Mi,nodefs.available<5%", "12288Mi", "12788Mi", "0:memory=6394Mi;1:memory=6394Mi"),
    ("0:memory=6Gi;1:memory=6244Mi", "8Gi", "4Gi", "memory.available<100Mi", None, None, None),
    ("0:memory=6Gi;1:memory=6144Mi", "8Gi", "4Gi", "nodefs.available<5%", None, None, None),
    ("0:memory=4Gi;1:memory=4Gi", "6Gi", "2Gi", None, None, None, None),
]


@pytest.mark.parametrize(("reserved", "system", "kube", "eviction", "given", "needed", "right"), MEMORY)
def test_reserved_memory_that_does_not_add_up(
    reserved: str, system: str, kube: str, eviction: Optional[str], given: Optional[str], needed: Optional[str], right: Optional[str],
) -> None:
    args = {"memory-manager-policy": ["Static"], "reserved-memory": [reserved]}
    args.update({"system-reserved": [f"memory={system}"], "kube-reserved": [f"cpu=1,memory={kube}"]})
    if eviction:
        args["eviction-hard"] = [eviction]
    if given is None:
        assert recipes(node(args)) == []
        return
    item = recipe(node(args), "reserved_memory")
    assert f"the kubelet does not start: reserved-memory adds up to {given}, needed is {needed} " in item["message"]
    assert item["message"].startswith(f"{CONFIG}:7: ")
    assert item["hint"].endswith(f"reserved-memory={right}")
    assert recipes(node({**args, "memory-manager-policy": ["None"]})) == []


def test_reserved_memory_given_twice_adds_up() -> None:
    """Our file and the operator's: the kubelet takes both."""
    args = {"memory-manager-policy": ["Static"], "reserved-memory": ["0:memory=1Gi", "1:memory=1Gi"]}
    args.update({"system-reserved": ["memory=1Gi"], "kube-reserved": ["memory=512Mi"]})
    assert "adds up to 2048Mi, needed is 1536Mi" in recipe(node(args), "reserved_memory")["message"]


def test_huge_pages_and_shares_cannot_be_reserved() -> None:
    args = {"memory-manager-policy": ["Static"], "reserved-memory": ["0:memory=1Gi,hugepages-1Gi=2Gi"], "system-reserved": ["memory=1Gi"]}
    assert "reserves huge pages (0:memory=1Gi,hugepages-1Gi=2Gi)" in recipe(node(args), "reserved_hugepages")["message"]
    args = {"memory-manager-policy": ["Static"], "reserved-memory": ["0:memory=1Gi"], "eviction-hard": ["memory.available<5%"]}
    assert recipes(node(args)) == ["eviction_share"]


def test_a_reservation_that_is_no_quantity() -> None:
    args = {"memory-manager-policy": ["Static"], "reserved-memory": ["0:memory=4GB"], "system-reserved": ["memory=4Gi"]}
    assert "'4GB' is not a quantity" in recipe(node(args), "reserved_memory")["message"]


def test_cpus_that_are_neither_isolated_nor_reserved() -> None:
    """The recipe of DESIGN for 128 CPUs, word for word."""
    state = node({"reserved-cpus": ["0-1,64-65"]}, "isolcpus=managed_irq,2-31,66-95")
    item = recipe(state, "uncovered_cpus")
    assert "CPUs 32-63,96-127 are neither isolated (isolcpus: 2-31,66-95) nor reserved (reserved-cpus: 0-1,64-65)" in item["message"]
    assert item["hint"] == "isolate 2-63,66-127, all that is not reserved"
    side = recipe(state, "one_numa_node")
    assert "reserved-cpus=0-1,64-65 lies on NUMA node 0 only; NUMA node 1 has no housekeeping CPU" in side["message"]
    assert side["hint"] == "reserved-cpus=0,32,64,96"


def test_cpus_that_are_both() -> None:
    state = node({"reserved-cpus": ["0-1,32,64-65,96"]}, "isolcpus=managed_irq,1-31,33-63,65-95,97-127")
    assert "CPUs 1,65 are isolated" in recipe(state, "overlapping_cpus")["message"]


def test_lists_that_cover_all_are_no_finding() -> None:
    assert recipes(node({"reserved-cpus": ["0,32,64,96"]}, "isolcpus=managed_irq,1-31,33-63,65-95,97-N")) == []


@pytest.mark.parametrize("value", ["0 - 1", "0-1:2/4", "all", "1-0"])
def test_a_list_the_kubelet_does_not_take(value: str) -> None:
    assert "the kubelet does not start" in recipe(node({"reserved-cpus": [value]}), "reserved_cpus")["message"]


def test_two_options_in_one_flag() -> None:
    item = recipe(node({"cpu-manager-policy-options": ["full-pcpus-only=true,distribute-cpus-across-numa=true"]}), "cpu_manager_options")
    assert "is one option with a value the kubelet refuses" in item["message"]
    assert item["hint"].endswith("cpu-manager-policy-options=full-pcpus-only=true cpu-manager-policy-options=distribute-cpus-across-numa=true")
    assert recipes(node({"cpu-manager-policy-options": ["full-pcpus-only=true", "distribute-cpus-across-numa=true"]})) == []


def test_a_colon_after_a_flag_makes_the_kernel_ignore_isolcpus() -> None:
    state = node(boot="isolcpus=domain,managed_irq:1-30", ignored=[{"token": "isolcpus=domain,managed_irq:1-30", "reason": "bad flag"}])
    item = recipe(state, "isolcpus_ignored")
    assert "the kernel ignores isolcpus=domain,managed_irq:1-30 as a whole, so nothing is isolated" in item["message"]
    assert item["hint"] == "a comma ends each flag: isolcpus=managed_irq,1-31,33-63,65-95,97-127"
    assert recipes(state) == ["isolcpus_ignored"]


def test_what_the_next_boot_does_not_have_is_no_finding() -> None:
    old = [{"token": "amd_iommu=on", "reason": "is no option"}]
    assert recipes(node(boot="quiet", ignored=old, duplicates=["nohz_full"])) == []
    assert recipes(node(boot="amd_iommu=on", ignored=old)) == ["boot_argument_ignored"]


@pytest.mark.parametrize(("name", "tokens", "rule"), [
    ("nohz_full", "nohz_full=1-3 nohz_full=2-3", "the first wins"),
    ("irqaffinity", "irqaffinity=0 irqaffinity=1", "the last wins"),
    ("config_acs", "pci=config_acs=x@pci:1:2 pci=config_acs=1@pci:1:2", "the last wins"),
])
def test_an_argument_given_twice(name: str, tokens: str, rule: str) -> None:
    item = recipe(node(boot=tokens, duplicates=[name]), "boot_argument_twice")
    assert f"({tokens}): {rule}" in item["message"]


def test_two_that_clash_on_the_running_command_line_are_both_quoted() -> None:
    running = "quiet nohz_full=1-3 nohz_full=2-3"
    item = recipe(node(boot="quiet nohz_full=1-31", command_line=running, duplicates=["nohz_full"]), "boot_argument_twice")
    assert "(nohz_full=1-3 nohz_full=2-3): the first wins" in item["message"]


def test_a_number_of_huge_pages_belongs_to_the_size_before_it() -> None:
    item = recipe(node(boot="hugepages=16 hugepagesz=1G"), "hugepages_order")
    assert "belongs to the default size" in item["message"]
    assert recipes(node(boot="hugepagesz=1G hugepages=16 hugepagesz=2M hugepages=512")) == []


def test_a_recipe_blocks_where_writing_our_files_would_not_undo_it() -> None:
    state = node({"cpu-manager-policy-options": ["a=true,b=true"]})
    assert recipe(state, "cpu_manager_options")["severity"] == "error"
    assert recipe(state, "cpu_manager_options", adopt=True)["severity"] == "warning"
    ours = node({"cpu-manager-policy-options": ["a=true,b=true"]}, file=knobs.FILE_KUBELET)
    assert recipe(ours, "cpu_manager_options")["severity"] == "warning"
    argument = node(boot="isolcpus=1-3")
    assert recipe(argument, "isolcpus_domain")["severity"] == "error"
    assert recipe({**argument, "foreign": []}, "isolcpus_domain")["severity"] == "warning"


# -- input of another shape


@pytest.mark.parametrize(
    ("wanted", "state", "message"),
    [
        (None, {}, "plan is null"), ([], {}, "plan is []"), ({}, None, "state is null"), ({}, {"running": []}, "state.running is []"),
        ({"knobs": 3}, {}, "plan.knobs is 3"), ({}, {"foreign": {}}, "state.foreign is {}"),
        ({}, {"configured": {"vm.thp": 3}}, "state.configured.vm.thp is 3"),
        ({"housekeeping_cpus": "3-1"}, {"kubelet": {"args": {"reserved-cpus": ["0"]}}}, "plan: '3-1'"),
    ],
)
def test_input_of_another_shape_is_refused_by_name(wanted: Any, state: Any, message: str) -> None:
    with pytest.raises(drift.DriftError) as caught:
        drift.compare(wanted, state)
    assert message in str(caught.value)


def test_the_input_is_not_changed() -> None:
    state = in_sync(EVERYTHING)
    before = copy.deepcopy((EVERYTHING, state))
    drift.compare(EVERYTHING, state)
    assert (EVERYTHING, state) == before


@pytest.mark.parametrize(
    ("source", "ours"),
    [
        (f"{knobs.FILE_KUBELET}:3", True), (knobs.FILE_GRUB, True), (f"{knobs.FILES_SLICES[0]}:2", True), (f"{knobs.FILE_IRQ}:1", True),
        ("/etc/default/grub:3", False), ("/etc/sysctl.d/90-inferops-locality-old.conf:1", False), (None, False),
    ],
)
def test_which_files_are_ours(source: Optional[str], ours: bool) -> None:
    assert drift.is_ours(source) is ours


# -- the PCIe layer


HARDWARE = TrueMachine(
    regular(cores=2).cores, {0: 64 * GIB, 1: 64 * GIB},
    devices=tuple(
        {"address": address, "kind": kind, "vendor": "0x10de", "numa_node": 0, "path": ["0000:00:01.0"],
         "link": {"width": 16, "max_width": 16, "speed_gts": 32.0, "max_speed_gts": 32.0}}
        for address, kind in (("0000:01:00.0", "gpu"), ("0000:02:00.0", "nic"), ("0000:03:00.0", "nvme"))
    ),
    relations={"0000:01:00.0": {"0000:02:00.0": "PIX", "0000:03:00.0": "PXB"}},
)
# (knob, running, in sync, what the reason says)
PCIE: List[Any] = [
    ("pcie.link_width", {"0000:01:00.0": "x8", "0000:02:00.0": "x16", "0000:03:00.0": "x16"}, False, "running differs: 0000:01:00.0 x8, wanted x16"),
    ("pcie.link_speed", {"0000:01:00.0": "2.5 GT/s", "0000:02:00.0": "32 GT/s", "0000:03:00.0": "32 GT/s"}, True,
     "running as wanted: 0000:01:00.0 2.5 GT/s of 32, as GPUs have when idle: judge it under load"),
    ("pcie.aspm", {"policy": "powersave", "0000:01:00.0": "off", "0000:02:00.0": "L1"}, False, "running differs: 0000:02:00.0 L1, wanted off"),
    ("pcie.relaxed_ordering", {"0000:01:00.0": "unknown: only root", "0000:02:00.0": "on"}, False, "0000:01:00.0 unknown: only root"),
    ("gpu.nic_relation", {"0000:01:00.0": "not present"}, False, "not present"),
    ("gpu.nvme_relation", {"0000:01:00.0": "PXB"}, True, None),
    ("gpu.peermem", "none", False, "running differs: none, wanted nvidia_peermem or dma-buf"),
    ("gpu.persistence", "not present", False, "not present"),
    ("gpu.gds", "NVMe P2PDMA", True, None),
]


@pytest.mark.parametrize(("knob", "running", "same", "reason"), PCIE, ids=[case[0] for case in PCIE])
def test_the_pcie_layer_is_compared_and_blocks_nothing(knob: str, running: Any, same: bool, reason: Optional[str]) -> None:
    wanted = made(HARDWARE)
    state = in_sync(wanted)
    state["running"][knob] = running
    report = drift.compare(wanted, state)
    entry = entry_of(report, knob)
    assert (entry["in_sync"], entry["class"]) == (same, "reported")
    assert entry["reason"] is None if reason is None else reason in entry["reason"]
    assert report["summary"] == {"needs": None, "count": 0}


def test_a_knob_of_the_pcie_layer_that_was_not_read_is_not_right() -> None:
    wanted = made(HARDWARE)
    state = in_sync(wanted)
    del state["running"]["pcie.aspm"]
    entry = entry_of(drift.compare(wanted, state), "pcie.aspm")
    assert (entry["in_sync"], entry["reason"]) == (False, "running could not be read")


def test_files_below_another_root_say_nothing_of_the_pcie_layer() -> None:
    wanted = made(HARDWARE)
    layer = {knob.id for knob in knobs.KNOBS.values() if knob.layer == "pcie"}
    assert not layer & {entry["knob"] for entry in drift.compare(wanted, in_sync(wanted), live=False)["entries"]}


def test_what_the_kubelet_says_itself_counts_where_the_plan_sets_a_knob() -> None:
    wanted = made()
    state = in_sync(wanted)
    says = {id: copy.deepcopy(value) for id, value in wanted["knobs"].items() if id.startswith("kubelet.")}
    assert out_of_sync(drift.compare(wanted, state, kubelet_running=says)) == []
    # Its command line asks for static; a knob that the plan does not set may have any default.
    says.update({"kubelet.cpu_manager_policy": "none", "kubelet.topology_manager_options": {"x": "y"}, "kubelet.other": "x"})
    assert "kubelet.topology_manager_options" not in wanted["knobs"]
    assert out_of_sync(drift.compare(wanted, state, kubelet_running=says)) == ["kubelet.cpu_manager_policy"]
