# Copyright (c) 2026 The inferops.locality authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The actions as a playbook calls them: one run of ansible-playbook, in check mode, whose results are looked at here."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from ansible_collections.inferops.locality.plugins.module_utils import plan
from ansible_collections.inferops.locality.plugins.plugin_utils import runtime
from ansible_collections.inferops.locality.plugins.plugin_utils.plain import plain
from ansible_collections.inferops.locality.tests.unit.strategies import PLATFORM, regular, topology

TOP = Path(__file__).resolve().parents[4]
SHOWN = topology(regular(cores=2))

PLAN = {"topology": "{{ shown }}", "platform": "{{ on }}"}
DRIFT = {"plan": "{{ result_good.plan }}"}
TASKS: dict[str, tuple[str, dict[str, Any]]] = {
    "good": ("plan", PLAN),
    "empty": ("plan", {**PLAN, "policy": "{{ nothing }}", "chassis": "{{ nothing }}"}),
    "templated": ("plan", {**PLAN, "policy": {"housekeeping": {"cores": "{{ 2 + 0 }}"}, "pcie": {"iommu": "{{ word }}"}}}),
    "wrong": ("plan", {**PLAN, "policy": {"houskeeping": {}, "isolation": {"tickless": "yes"}}, "chassis": {"sockets": 3}}),
    "wrong_looked_at": ("plan", {**PLAN, "policy": {"houskeeping": {}}, "fail": False}),
    "other_shape": ("plan", {**PLAN, "topology": [1]}),
    "missing": ("plan", {"topology": "{{ shown }}"}),
    "unknown": ("plan", {**PLAN, "polcy": {}}),
    "not_a_bool": ("plan", {**PLAN, "fail": "perhaps"}),
    "drift": ("drift", {**DRIFT, "state": {"configured": {"vm.swappiness": {"value": 60, "source": "/etc/sysctl.conf:1"}}}, "live": False}),
    "drift_fails": ("drift", {**DRIFT, "state": {"foreign": [{"knob": "vm.thp", "file": "/x", "line": 1, "value": "never"}]}, "live": False, "fail": True}),
    "drift_adopts": ("drift", {**DRIFT, "state": {"foreign": [{"knob": "vm.thp", "file": "/x", "line": 1, "value": "never"}]}, "adopt": True}),
    "drift_shape": ("drift", {**DRIFT, "state": "x"}),
}


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Registered result of each task."""
    folder = tmp_path_factory.mktemp("play")
    tasks: list[dict[str, Any]] = [
        {f"inferops.locality.locality_{action}": arguments, "register": f"result_{name}", "ignore_errors": True} for name, (action, arguments) in TASKS.items()
    ]
    shown = "{{ {" + ", ".join(f"'{name}': result_{name}" for name in TASKS) + "} | to_json }}"
    tasks.append({"ansible.builtin.debug": {"msg": "RESULTS" + shown}})
    play = [{"hosts": "all", "gather_facts": False, "vars": {"shown": SHOWN, "on": PLATFORM, "nothing": None, "word": "pt"}, "tasks": tasks}]
    (folder / "play.yml").write_text(yaml.safe_dump(play), encoding="utf-8")
    # No connection: the host does not exist.
    (folder / "hosts").write_text("gpu-17.example.invalid ansible_connection=ssh\n", encoding="utf-8")
    (folder / "ansible.cfg").write_text(f"[defaults]\nstdout_callback = ansible.builtin.minimal\ncollections_path = {TOP / '.collections'}\n", encoding="utf-8")
    environment = {key: value for key, value in os.environ.items() if not key.startswith("ANSIBLE_")}
    run = subprocess.run(
        [sys.executable, "-m", "ansible", "playbook", "--check", "-i", "hosts", "play.yml"], cwd=folder, check=False, capture_output=True, text=True,
        env={**environment, "ANSIBLE_CONFIG": str(folder / "ansible.cfg"), "ANSIBLE_HOME": str(folder / "home"), "ANSIBLE_NOCOLOR": "1"},
        stdin=subprocess.DEVNULL,
    )
    text = run.stdout.partition("=> {\n    \"msg\": \"RESULTS")[2]
    assert text, run.stdout[-3000:] + run.stderr[-3000:]
    found: dict[str, Any] = json.loads(json.loads('"' + text.rpartition('"\n}')[0] + '"'))
    return found


def test_the_plan_of_the_action_is_the_plan(results: dict[str, Any]) -> None:
    assert results["good"]["plan"] == plan.make_plan(SHOWN, PLATFORM, {}, None, runtime.version())
    assert (results["good"]["changed"], results["good"]["failed"]) == (False, False)


def test_an_empty_policy_means_the_defaults(results: dict[str, Any]) -> None:
    assert results["empty"]["plan"] == results["good"]["plan"]


def test_templates_have_their_types(results: dict[str, Any]) -> None:
    assert results["templated"]["plan"]["knobs"]["kernel.iommu"] == "pt"
    assert not results["templated"]["failed"]


def test_all_errors_fail_the_task_at_once_with_the_host(results: dict[str, Any]) -> None:
    message = results["wrong"]["msg"]
    assert results["wrong"]["failed"]
    assert message.split("\n")[0].endswith("gpu-17.example.invalid: the plan has 3 errors")
    assert [line.split(":")[0] for line in message.split("\n")[1:4]] == ["- policy.unknown_key", "- policy.wrong_type", "- chassis.sockets"]
    assert "locality_policy.houskeeping" in message and "nearest known key is locality_policy.housekeeping" in message
    assert results["wrong"]["plan"]["housekeeping_cpus"]


def test_without_fail_errors_are_findings(results: dict[str, Any]) -> None:
    assert not results["wrong_looked_at"]["failed"]
    assert [item["id"] for item in results["wrong_looked_at"]["plan"]["findings"]] == ["policy.unknown_key"]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("other_shape", "gpu-17.example.invalid: cannot be planned: topology is [1], wanted the mapping that numa_topology returns"),
        ("missing", "missing required arguments: platform"),
        ("unknown", "polcy"),
        ("not_a_bool", "fail"),
        ("drift_shape", "gpu-17.example.invalid: cannot be compared: state is 'x', wanted a mapping"),
    ],
)
def test_wrong_arguments_are_named(results: dict[str, Any], name: str, message: str) -> None:
    assert results[name]["failed"]
    assert message in results[name]["msg"]


def test_drift_is_returned_and_fails_only_where_asked(results: dict[str, Any]) -> None:
    report = results["drift"]
    assert not report["failed"]
    entry = next(entry for entry in report["entries"] if entry["knob"] == "vm.swappiness")
    assert (entry["in_sync"], entry["configured"], entry["source"], entry["reason"]) == (False, 60, "/etc/sysctl.conf:1", "configured differs")
    assert report["summary"]["needs"] == "reboot"
    failed = results["drift_fails"]
    assert failed["failed"]
    assert "gpu-17.example.invalid: errors 1, drifting knobs " in failed["msg"]
    assert "- foreign.vm.thp: /x:1 sets vm.thp to 'never'" in failed["msg"]
    assert "- kernel.irqaffinity: configured could not be read (needs: reboot)" in failed["msg"]


def test_adopt_reaches_the_comparison(results: dict[str, Any]) -> None:
    assert [(item["id"], item["severity"]) for item in results["drift_adopts"]["findings"]] == [("foreign.vm.thp", "note")]


def test_plain_makes_plain_values() -> None:
    class Text(str):
        pass

    class Number(int):
        pass

    class Table(dict):  # type: ignore[type-arg]
        pass

    value = plain(Table({Text("a"): [Number(3), True, None, 1.5, (Text("b"),)]}))
    assert value == {"a": [3, True, None, 1.5, ["b"]]}
    assert [type(value), type(next(iter(value))), type(value["a"][0]), type(value["a"][1]), type(value["a"][4][0])] == [dict, str, int, bool, str]
