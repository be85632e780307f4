# Copyright (c) 2026 The inferops.locality authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a run records of a host, and what nobody can go back to."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.inferops.locality.plugins.plugin_utils import record, report

PLAN = {"version": 1, "knobs": {"vm.swappiness": 10, "kubelet.reserved_memory": {0: {"memory": 1}}, "runtime.version": "0.1.0+aaa"}}
RUN = {
    "run": "site-x", "by": "anna@control", "started": "2026-11-28T02:00:00Z", "ended": "2026-11-28T02:20:00Z", "collection": "0.1.0+aaa",
    "layers": ["host", "irq"],
}
RESULT = {"outcome": "written", "before": [], "plan": PLAN, "policy": {"host": {"swappiness": 10}}, "chassis_expected": None, "window": "open"}


@pytest.fixture
def kept(tmp_path: Path) -> Path:
    path = tmp_path / "site-x.json"
    path.write_text(json.dumps(record.host_record("a", RESULT, RUN)), encoding="utf-8")
    return path


def test_what_was_recorded_is_loaded_and_equals_the_plan_it_was_made_of(kept: Path) -> None:
    found = record.load(str(kept), "a")
    assert {key: found[key] for key in (*RUN, "policy", "window", "outcome")} == {
        **RUN, "policy": {"host": {"swappiness": 10}}, "window": "open", "outcome": "written",
    }
    # The numbers of NUMA nodes are texts in JSON, and the program comes with the collection.
    assert record.differences({**PLAN, "knobs": {**PLAN["knobs"], "runtime.version": "0.2.0+bbb"}}, found["plan"]) == []


@pytest.mark.parametrize("knobs, told", [
    ({"vm.swappiness": 1}, "vm.swappiness: recorded 10, now 1"),
    ({"vm.swappiness": None}, "vm.swappiness: recorded 10, now not set"),
    ({"vm.thp": "never"}, "vm.thp: recorded not set, now never"),
])
def test_another_plan_of_the_same_policy_is_an_error(kept: Path, knobs: dict[str, Any], told: str) -> None:
    found = record.differences({**PLAN, "knobs": {**PLAN["knobs"], **knobs}}, record.load(str(kept), "a")["plan"])
    assert [item["id"] for item in found] == ["record.differs"] and told in found[0]["message"]


def test_a_plan_of_another_version_is_an_error_of_its_own(kept: Path) -> None:
    found = record.differences({**PLAN, "version": 2, "knobs": {}}, record.load(str(kept), "a")["plan"])
    assert [(item["id"], item["severity"]) for item in found] == [("record.version", "error")]


@pytest.mark.parametrize("change, told", [
    ({"host": "b"}, "is of b, wanted one of a"),
    ({"outcome": "failed"}, "did not bring the host to its plan: failed"),
    ({"outcome": "would_write"}, "did not bring the host to its plan: would be written"),
    ({"plan": {}}, "did not bring the host to its plan"),
    ({"version": 7}, "is no record of a host in the form of this version"),
    ({"plan": []}, "is no record of a host"),
    ({"layers": None}, "is no record of a host"),
])
def test_what_is_no_record_of_a_good_run_is_told(kept: Path, change: dict[str, Any], told: str) -> None:
    kept.write_text(json.dumps({**json.loads(kept.read_text(encoding="utf-8")), **change}), encoding="utf-8")
    with pytest.raises(record.RecordError) as error:
        record.load(str(kept), "a")
    assert told in str(error.value)


@pytest.mark.parametrize("has, asked, told", [
    (["host"], ["host"], None),
    (["host", "irq", "kubelet"], ["host", "irq", "kubelet"], None),
    (["irq", "host"], ["irq"], None),
    (["host"], ["host", "irq", "kubelet"], "brought host alone to the plan, wanted irq, kubelet too"),
    (["host", "irq"], ["kubelet"], "brought host, irq alone to the plan, wanted kubelet too"),
    # As --tags with a name that is no layer's.
    ([], ["host"], "brought no layer alone to the plan"),
])
def test_what_the_run_did_not_bring_is_not_gone_back_to(kept: Path, has: list[str], asked: list[str], told: str | None) -> None:
    kept.write_text(json.dumps({**json.loads(kept.read_text(encoding="utf-8")), "layers": has}), encoding="utf-8")
    found = record.missing(record.load(str(kept), "a"), asked, {})
    assert [(item["id"], item["severity"]) for item in found] == ([("record.layers", "error")] if told else [])
    hint = f"go back with --tags {','.join(has)}" if has else "take the record of another run"
    assert [told in item["message"] and item["hint"] == hint for item in found] == ([True] if told else [])


def test_a_record_from_before_there_was_the_layer_dra_is_whole_unless_its_policy_had_it(kept: Path) -> None:
    kept.write_text(json.dumps({**json.loads(kept.read_text(encoding="utf-8")), "layers": ["host", "irq", "kubelet", "network"]}), encoding="utf-8")
    recorded = record.load(str(kept), "a")
    then = dict(recorded["plan"])
    now = {**then, "knobs": {**then.get("knobs", {}), "dra.dranet": True}}
    assert record.missing(recorded, report.LAYERS, then) == [] and record.differences(then, then) == []
    assert [item["id"] for item in record.missing(recorded, report.LAYERS, now)] == ["record.layers"]
    # As it says to go back: without that layer.
    assert record.missing(recorded, recorded["layers"], now) == [] and record.differences(now, then) == []
    # A record that has the layer is held to it.
    assert [item["id"] for item in record.differences(then, now)] == ["record.differs"]


@pytest.mark.parametrize("text", ["", "[]", "{", "\x00"])
def test_a_file_that_is_no_record_is_told(kept: Path, text: str) -> None:
    kept.write_text(text, encoding="utf-8")
    with pytest.raises(record.RecordError, match=r"cannot be read|is no record"):
        record.load(str(kept), "a")


def test_a_record_that_is_not_there_is_told_with_those_that_are(kept: Path) -> None:
    with pytest.raises(record.RecordError) as error:
        record.load(str(kept.parent / "site-y.json"), "a")
    assert str(error.value).endswith("; there are site-x")
    with pytest.raises(record.RecordError, match="there is none of this host"):
        record.load(str(kept.parent / "nobody" / "site-y.json"), "a")
