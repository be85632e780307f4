# Copyright (c) 2026 The inferops.locality authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is said of a node that failed after it was taken out of its cluster. The lock itself is a matter of tests/cluster: no run here holds one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from ansible_collections.inferops.locality.tests.unit import playing


@pytest.mark.parametrize("mark, text", [
    ({"run": "anna@control/1"}, "told [Hold: no; the node stays cordoned until a run brings it to its end, and no other node is taken out before]"),
    # Its lock was not released after the node was uncordoned, say.
    (None, "told [Hold: no; the node had been given back to its cluster]"),
])
def test_it_says_whether_the_node_stays_cordoned(tmp_path: Path, mark: Any, text: str) -> None:
    book = tmp_path / "book.yml"
    book.write_text(yaml.safe_dump([{
        "hosts": "localhost", "gather_facts": False,
        "tasks": [
            {"ansible.builtin.set_fact": {"site_failure": "Hold: no", "node_maintenance_turn": {"mark": mark}}},
            {"ansible.builtin.include_tasks": str(playing.TOP / "playbooks/tasks/let_go.yml")},
            {"ansible.builtin.debug": {"msg": "told [{{ site_failure }}]"}},
        ],
    }]), encoding="utf-8")
    run = playing.play(str(book.with_suffix("")), inventory=None)
    assert run.rc == 0 and text in run.out, run.text


@pytest.mark.parametrize("turn", ["turn", "removal"])
def test_a_node_is_let_go_of_from_the_moment_it_is_taken_out(turn: str) -> None:
    """Nothing can fail between the end of the drain and the note by which a failure releases the lock: ``hold`` gives nothing back."""
    tasks = yaml.safe_load((playing.TOP / "playbooks" / "tasks" / f"{turn}.yml").read_text(encoding="utf-8"))
    block = next(task for task in tasks if "rescue" in task)
    assert block["block"][0]["name"] == "Note that the node is begun"
    names = [task["name"] for task in block["block"]]
    taken = names.index("Take the node out of its cluster")
    assert names[taken + 1:taken + 3] == ["Note that the node is taken out", "Make sure that the node is still ours"]
    noted, out = block["block"][taken + 1], block["block"][taken]
    assert noted["ansible.builtin.set_fact"] == {"site_taken": True} and noted["when"] == out["when"]
    let_go = next(task for task in block["rescue"] if "let_go.yml" in str(task))
    assert let_go["when"] == "site_taken is defined and not ansible_check_mode"
