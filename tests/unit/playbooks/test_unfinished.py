# Copyright (c) 2026 The inferops.locality authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A node whose turn an earlier run began, and that a run refuses: the refusal says how it was left. The playbooks' own tasks are run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from ansible_collections.inferops.locality.tests.unit import playing

MARK = {"run": "anna@control/1", "since": "2026-11-30T02:15:00Z", "ours": True}
ERROR = {"id": "platform.unsupported", "severity": "error", "message": "no such system", "hint": ""}


def judged(folder: Path, playbook: str, names: list[str], *, errors: list[dict[str, str]], mark: Any, left: bool) -> str:
    """What the tasks of these names make of a running node; ``left``: RKE2 was stopped and is."""
    plays = yaml.safe_load((playing.TOP / "playbooks" / f"{playbook}.yml").read_text(encoding="utf-8"))
    part = next(part for part in plays if part["name"].startswith(("Observe every", "Read every")))
    chosen = [next(task for task in playing.every_task(part["tasks"]) if task.get("name") == name) for name in names]
    runs = {"unit": not left, "kubelet": not left, "left": left}
    state = {"ours": [], "kubelet": {"runs": runs}, "platform": {}, "problems": [], "configured": {}}
    result = {"root": "/", "chassis": "", "plan": {}, "drift": {}, "drifting": [], "errors": errors, "findings": errors, "problems": []}
    book = folder / "book.yml"
    book.write_text(yaml.safe_dump([{
        "hosts": "localhost", "gather_facts": False, "vars": {**part["vars"], "ansible_become": False},
        "tasks": [
            {"ansible.builtin.set_fact": {"locality_state": state, "cacheable": True}},
            {"ansible.builtin.set_fact": {
                "observe_result": result, "node_maintenance_mark": mark, "node_maintenance_cordoned": mark is not None, "node_maintenance_findings": errors,
                "__rollback_state": {"ansible_facts": {"locality_state": state}}, "rollback_boot": {}, "rollback_labels": {},
            }},
            *[{"ansible.builtin.debug": {"msg": "nothing"}, "register": name, "when": False} for name in ("site_gate", "site_boot", "rollback_cilium")],
            *chosen,
            {"ansible.builtin.debug": {"msg": "refusal [{{ observe_result | inferops.locality.locality_refusal }}] in {{ group_names | join(',') }}"}},
        ],
    }]), encoding="utf-8")
    run = playing.play(str(book.with_suffix("")), inventory=None)
    assert run.rc == 0, run.text
    return run.out


@pytest.mark.parametrize("playbook", ["site", "rollback"])
def test_the_refusal_says_how_an_earlier_run_left_the_node(tmp_path: Path, playbook: str) -> None:
    told = judged(tmp_path, playbook, ["Note how the node stands"], errors=[ERROR], mark=MARK, left=True).split("refusal [")[1]
    assert "error platform.unsupported: no such system" in told
    assert "warning site.turn_not_ended: the run anna@control/1 began the turn of this node at 2026-11-30T02:15:00Z and did not end it" in told
    assert "the node is cordoned" in told
    assert "RKE2 is stopped" in told and "Hint: " in told.partition("site.turn_not_ended")[2]


@pytest.mark.parametrize("playbook", ["site", "rollback"])
def test_a_node_that_nobody_began_is_refused_as_ever(tmp_path: Path, playbook: str) -> None:
    told = judged(tmp_path, playbook, ["Note how the node stands"], errors=[ERROR], mark=None, left=False)
    assert "platform.unsupported" in told.split("refusal [")[1] and "site.turn_not_ended" not in told


@pytest.mark.parametrize("mark, left, group", [(None, False, "in_sync"), (MARK, False, "drifting"), (None, True, "drifting")])
def test_a_node_that_a_run_left_is_brought_to_its_end_though_nothing_drifts(tmp_path: Path, mark: Any, left: bool, group: str) -> None:
    """Without a cluster there is no mark: RKE2 would stay stopped on a node that is called in sync."""
    told = judged(tmp_path, "site", ["Note how the node stands", "Sort the nodes"], errors=[], mark=mark, left=left)
    assert f"locality_{group}" in told.split("refusal [")[1]


@pytest.mark.parametrize("playbook, asks", [("site", 1), ("rollback", 2)])
def test_a_node_that_is_refused_already_is_asked_for_its_mark(playbook: str, asks: int) -> None:
    plays = yaml.safe_load((playing.TOP / "playbooks" / f"{playbook}.yml").read_text(encoding="utf-8"))
    asked = [task for task in playing.every_task(plays) if "'preflight'" in str(task.get("ansible.builtin.include_role"))]
    assert len(asked) == asks and "errors" not in " ".join(task["when"] for task in asked)
