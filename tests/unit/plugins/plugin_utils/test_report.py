# Copyright (c) 2026 The inferops.locality authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a run says to people."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.inferops.locality.plugins.plugin_utils import report


def entry(knob: str, **more: Any) -> dict[str, Any]:
    """A drift entry that is not in sync."""
    return {
        "knob": knob, "wanted": 0, "running": None, "configured": 60, "in_sync": False, "class": "managed", "needs": "live", "source": None,
        "reason": "configured differs", **more,
    }


@pytest.mark.parametrize(
    ("run", "skip", "layers"),
    [
        (["all"], [], ["host", "irq", "kubelet", "network", "dra"]),
        (["host"], [], ["host"]),
        (["kubelet", "host"], [], ["host", "kubelet"]),
        (["all"], ["irq"], ["host", "kubelet", "network", "dra"]),
        (["something"], [], []),
    ],
)
def test_tags_choose_layers(run: list[str], skip: list[str], layers: list[str]) -> None:
    assert report.layers(run, skip) == layers


@pytest.mark.parametrize("run, skip, strange", [
    (["all"], [], []), (["host", "irq"], ["kubelet"], []), (["tagged"], ["always"], []),
    (["host", "kublet"], [], ["kublet"]), (["monitoring"], [], ["monitoring"]), (["untagged"], [], ["untagged"]),
    (["all"], ["kublet", "hots"], ["kublet", "hots"]), (["all"], ["molecule-notest", "notest"], []),
])
def test_tags_that_name_no_layer(run: list[str], skip: list[str], strange: list[str]) -> None:
    assert report.strange_tags(run, skip) == strange


def test_only_managed_knobs_of_the_layers_block() -> None:
    drift = {"entries": [
        entry("vm.swappiness"), entry("vm.thp", in_sync=True), entry("pcie.aspm", **{"class": "reported"}), entry("kubelet.reserved_cpus", needs="restart"),
    ]}
    assert [item["knob"] for item in report.drifting(drift)] == ["vm.swappiness", "kubelet.reserved_cpus"]
    assert [item["knob"] for item in report.drifting(drift, ["host"])] == ["vm.swappiness"]
    assert report.drifting({}) == []


def test_the_boot_program_counts_with_the_layer_whose_role_brings_it() -> None:
    drift = {"entries": [{"knob": "runtime.version", "class": "managed", "in_sync": False}]}
    assert report.drifting(drift, ["host"]) == []
    assert [item["knob"] for item in report.drifting(drift, ["irq"])] == ["runtime.version"]


@pytest.mark.parametrize(
    ("item", "line"),
    [
        (
            entry("vm.swappiness", source="/etc/sysctl.d/90-inferops-locality.conf:3"),
            "vm.swappiness: configured 60 (/etc/sysctl.d/90-inferops-locality.conf:3); wanted 0; needs live [configured differs]",
        ),
        (
            entry("vm.swappiness", running=1, reason="running and configured differ"),
            "vm.swappiness: running 1, configured 60; wanted 0; needs live [running and configured differ]",
        ),
        (
            entry("kubelet.reserved_memory", wanted={"0": 2**30}, configured=None, needs="restart"),
            "kubelet.reserved_memory: configured not set; wanted 0: 1Gi; needs restart [configured differs]",
        ),
    ],
)
def test_a_drift_line_has_knob_side_found_place_and_wanted(item: dict[str, Any], line: str) -> None:
    assert report.drift_line(item) == line


def test_cost_is_listed_dearest_first() -> None:
    costs = report.cost([entry("a"), entry("b", needs="reboot"), entry("c", needs="restart")])
    assert list(costs.items()) == [("reboot", ["b"]), ("restart", ["c"]), ("live", ["a"])]


def test_a_file_outside_the_tree_is_an_error_once() -> None:
    problem = {"file": "/etc/sysctl.d", "reason": "symbolic link leaves the root: /etc/sysctl.d -> ../../.."}
    warning = {"id": "x", "severity": "warning", "message": "m", "hint": ""}
    found = report.errors({"findings": [warning], "problems": [problem, {"file": "/a", "reason": "cannot be read"}]})
    assert [(item["id"], item["severity"]) for item in found] == [("root.escape", "error")]
    assert report.errors({"findings": found, "problems": [problem]}) == found


def state(**files: dict[str, Any]) -> dict[str, Any]:
    """Facts with these checkpoint files."""
    return {"kubelet": {"state_files": files}}


PLAN = {"knobs": {"kubelet.state_files": "consistent", "kubelet.cpu_manager_policy": "static", "kubelet.memory_manager_policy": "Static"}}


@pytest.mark.parametrize(
    ("entry", "reason"),
    [
        ({"exists": False, "policy": None, "valid": None, "reason": None}, None),
        ({"exists": True, "policy": "static", "valid": True, "reason": None, "format": "v2"}, None),
        ({"exists": True, "policy": "none", "valid": True, "reason": None, "format": "v2"}, "policy is 'none', wanted 'static'"),
        # The node is configured for none yet; the file is right for what is planned.
        ({"exists": True, "policy": "static", "valid": False, "reason": "policy is 'static', wanted 'none'", "format": "v2"}, None),
        ({"exists": True, "policy": None, "valid": False, "reason": "checksum is wrong", "format": "v2"}, "checksum is wrong"),
        ({"exists": True, "policy": None, "valid": False, "reason": "is of a form nobody knows", "format": "unknown"}, None),
    ],
)
def test_checkpoints_that_stop_the_planned_kubelet_are_stale(entry: dict[str, Any], reason: str | None) -> None:
    found = report.stale_files(state(cpu={"file": "/var/lib/kubelet/cpu_manager_state", **entry}), PLAN)
    assert found == ([] if reason is None else [{"file": "/var/lib/kubelet/cpu_manager_state", "reason": reason}])


def test_no_checkpoint_is_stale_where_the_plan_does_not_judge_them() -> None:
    assert report.stale_files(state(cpu={"file": "f", "exists": True, "policy": "none", "valid": False, "reason": "r"}), {"knobs": {}}) == []


def test_results_know_who_was_asked_and_who_did_not_answer() -> None:
    hostvars = {
        "a": {"observe_result": {"errors": [], "drifting": []}, "site_hosts": ["a", "b", "c"]},
        "b": {},
        "c": {"observe_result": {"errors": [{"id": "x"}], "drifting": []}},
        "d": {"observe_result": {"errors": [], "drifting": [entry("vm.thp")]}},
    }
    found = report.results(hostvars, ["a", "b", "c", "d"])
    assert {host: result["outcome"] for host, result in found.items()} == {"a": "in_sync", "b": "unreachable", "c": "refused"}
    assert report.count_line(found) == "3 nodes: 1 in sync; 1 refused; 1 not reached"


def test_what_only_reads_does_not_say_that_it_refused() -> None:
    item = {"outcome": "refused", "before": [], "topology_differences": [], "errors": [{"id": "x", "severity": "error", "message": "m", "hint": ""}]}
    texts = {style: "\n".join(report.lines({"a": item}, style)) for style in report.STYLES}
    assert {style: "site.yml would refuse it" in text for style, text in texts.items()} == {"table": False, "audit": True, "plan": True}
    assert texts["plan"].endswith("\n1 node: 1 has errors, site.yml would refuse it")
    assert report.refusal(item) == "refused, 1 error, nothing was written:\n- error x: m."
    assert report.refusal(item, "audit") == "1 error, site.yml would refuse this node:\n- error x: m."
    assert report.refusal(item, "proof") == "1 error after everything was written:\n- error x: m."


def test_every_style_has_a_word_for_every_outcome() -> None:
    assert [style for style, words in report.STYLES.items() if set(words) != set(report.OUTCOMES)] == []


def test_an_audit_says_why_a_node_was_not_reached() -> None:
    found = report.results({"a": {"site_outcome": "unreachable", "site_failure": "No route to host"}}, ["a"])
    assert report.lines(found, "audit") == ["a - not reached", "  No route to host", "", "1 node: 1 not reached"]


def test_how_a_node_was_disturbed_is_still_said_after_its_proof() -> None:
    note = {"id": "site.no_cluster", "severity": "note", "message": "without drain", "hint": ""}
    held = {"id": "cluster.held", "severity": "warning", "message": "a budget", "hint": ""}
    old = {"id": "recipe.x", "severity": "warning", "message": "was repaired", "hint": ""}
    before = {"drifting": [], "findings": [old, note, held]}
    found = report.results({"n": {
        "observe_result": {"errors": [], "drifting": [], "findings": []}, "site_before": before, "site_outcome": "written",
    }}, ["n"])
    assert found["n"]["findings"] == [note, held]


def test_a_node_without_a_plan_still_has_a_table() -> None:
    lines = report.node_lines("n", {
        "outcome": "refused", "root": "/", "before": [], "plan": {}, "topology_differences": [],
        "errors": [{"id": "observe.failed", "severity": "error", "message": "no such folder", "hint": "look"}],
    })
    assert lines == ["n - refused", "  drift           none", "  findings        error observe.failed: no such folder. Hint: look."]


def test_reported_knobs_are_shown_and_block_nothing() -> None:
    entries = [
        {"knob": "pcie.link_width", "class": "reported", "in_sync": False, "needs": "live", "reason": "running differs: 0000:18:00.0 x8, wanted x16"},
        {"knob": "pcie.link_speed", "class": "reported", "in_sync": True, "needs": "live", "reason": "running as wanted: 0000:18:00.0 2.5 GT/s of 32"},
        {"knob": "pcie.aspm", "class": "reported", "in_sync": True, "needs": "live", "reason": None},
        {"knob": "vm.thp", "class": "managed", "in_sync": True, "needs": "live", "reason": None},
    ]
    result = {"outcome": "in_sync", "drift": {"entries": entries}, "topology_differences": [], "before": []}
    assert report.audit_lines("n1", result) == [
        "n1 - in sync",
        "  reported, blocks nothing: pcie.link_width: running differs: 0000:18:00.0 x8, wanted x16",
        "  reported, blocks nothing: pcie.link_speed: running as wanted: 0000:18:00.0 2.5 GT/s of 32",
    ]
    table = report.node_lines("n1", result)
    assert "  reported        pcie.link_width: running differs: 0000:18:00.0 x8, wanted x16" in table
    assert not [line for line in table if "pcie.aspm" in line]
    assert [entry["knob"] for entry in report.summary({"n1": result})["hosts"]["n1"]["reported"]] == ["pcie.link_width", "pcie.link_speed"]
    assert report.drifting({"entries": entries}) == []


def test_planned_queues_are_shown_by_their_number() -> None:
    queues = {"0000:01:00.0": 2, "0000:81:00.0": 4, "0000:82:00.0": 2}
    plan = {
        "housekeeping_cpus": "0-1", "isolated_cpus": "2-7", "numa_nodes": [], "knobs": {"nic.queues": queues},
        "capacity": {"cpus": 6, "whole_cores": 3, "pairs": [], "numa_nodes": {}},
    }
    lines = report.node_lines("a", {"outcome": "in_sync", "plan": plan, "before": [], "topology_differences": []})
    assert lines[3:5] == ["  queues          2: 0000:01:00.0, 0000:82:00.0", "                  4: 0000:81:00.0"]
    plan["knobs"] = {}
    assert not any("queues" in line for line in report.node_lines("a", {"outcome": "in_sync", "plan": plan, "before": [], "topology_differences": []}))


def test_what_it_costs_is_one_line_dearest_first() -> None:
    entries = [{"knob": "vm.swappiness", "needs": "live"}, {"knob": "kernel.hugepages", "needs": "reboot"}, {"knob": "vm.thp", "needs": "live"}]
    assert report.cost_line(entries) == "reboot: kernel.hugepages; live: vm.swappiness, vm.thp"
    assert report.cost_line([]) == ""


def test_t_roll_19_what_waits_for_a_window_is_said_with_its_one_reboot() -> None:
    waiting = [entry("kernel.isolcpus", needs="reboot"), entry("memory.hugepages", needs="reboot"), entry("kubelet.reserved_cpus", needs="restart")]
    variables = {
        "observe_result": {"drifting": waiting, "errors": [], "findings": [], "root": "/"},
        "site_before": {"drifting": waiting}, "site_begun": None, "site_outcome": "closed", "site_window": "opens Sat 22:00",
    }
    found = report.results({"a": variables}, ["a"])
    lines = report.node_lines("a", found["a"])
    assert lines[0] == "a - left out, its maintenance window is closed"
    assert "  drift           reboot: kernel.isolcpus, memory.hugepages" in lines and "  window          opens Sat 22:00" in lines
    assert report.count_line(found) == "1 node: 1 left out, its maintenance window is closed"
    assert report.summary(found)["hosts"]["a"]["drift_before"] == waiting


def test_turns_are_taken_begun_ones_first_and_servers_last() -> None:
    groups = {"all": ["server", "one", "begun", "two", "other"], "chosen": ["two", "one", "begun", "server"], "locality_first": ["begun"],
              "locality_last": ["server", "other"]}
    assert report.turns(groups, "chosen") == ["begun", "one", "two", "server"]
    assert report.turns({"all": ["b", "a"], "chosen": ["a", "b"]}, "chosen") == ["b", "a"]
    assert report.turns(groups, "nobody") == []
    assert (report.turns(groups, "chosen", "agents"), report.turns(groups, "chosen", "servers")) == (["begun", "one", "two"], ["server"])
    # A server whose turn was begun does not wait for the others.
    groups["locality_last"].append("begun")
    assert (report.turns(groups, "chosen", "agents"), report.turns(groups, "chosen", "servers")) == (["begun", "one", "two"], ["server"])
    with pytest.raises(ValueError, match="wanted all, agents or servers"):
        report.turns(groups, "chosen", "masters")


LEFT = {"id": report.UNFINISHED, "severity": "warning", "message": "cordoned", "hint": ""}


def test_a_refusal_says_how_an_earlier_run_left_the_node() -> None:
    wrong = {"id": "x", "severity": "error", "message": "wrong", "hint": ""}
    assert report.refusal({"errors": [wrong], "findings": [wrong, LEFT]}).splitlines() == [
        "refused, 1 error, nothing was written:", "- error x: wrong.", "- warning site.turn_not_ended: cordoned.",
    ]
    assert report.refusal({"errors": [], "findings": [LEFT]}) == ""


@pytest.mark.parametrize("outcome, kept", [
    ("refused", True), ("closed", True), ("left", True), ("would_write", True), ("written", False), ("removed", False), ("failed", False),
])
def test_it_is_told_as_long_as_it_is_so(outcome: str, kept: bool) -> None:
    found = report.results({"a": {"observe_result": {"findings": []}, "site_before": {"findings": [LEFT]}, "site_outcome": outcome}}, ["a"])
    assert (LEFT in found["a"]["findings"]) is kept
