# Copyright (c) 2026 The inferops.locality authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A control host that is not reached refuses the nodes that it is asked about, by name: they do not drop out of the run."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any, Iterator

import yaml

from ansible_collections.inferops.locality.tests.unit import playing

REASON = "No route to host"


def run(folder: Path, *tasks: dict[str, Any], **variables: Any) -> tuple[playing.Run, Any]:
    """Run tasks whose control host is gone; what they leave in ``told``."""
    ssh = folder / "ssh"
    ssh.write_text(f"#!/bin/sh\necho '{REASON}' >&2\nexit 255\n", encoding="utf-8")
    ssh.chmod(0o755)
    book = folder / "book.yml"
    tell = {"ansible.builtin.copy": {"dest": str(folder / "told.json"), "content": "{{ told | to_json }}", "mode": "0600"}}
    given = {"ansible_ssh_executable": str(ssh), "locality_control_host": "gone.example.net", "locality_kubeconfig": str(folder / "kubeconfig"), **variables}
    book.write_text(yaml.safe_dump([{"hosts": "localhost", "gather_facts": False, "vars": given, "tasks": [*tasks, tell]}]), encoding="utf-8")
    done = playing.play(str(book.with_suffix("")), "-e", f"ansible_python_interpreter={sys.executable}", inventory=None)
    assert done.rc == 0, done.text
    return done, json.loads((folder / "told.json").read_text(encoding="utf-8"))


def test_it_refuses_the_node_in_the_preflight(tmp_path: Path) -> None:
    done, told = run(
        tmp_path, {"ansible.builtin.include_role": {"name": "inferops.locality.node_maintenance", "tasks_from": "preflight"}},
        told="{{ [node_maintenance_findings, node_maintenance_mark] }}",
    )
    (finding,), mark = told
    assert (finding["id"], finding["severity"], finding["hint"], mark) == ("cluster.refused", "error", "see locality_control_host", None)
    assert finding["message"].startswith("the control host gone.example.net was not reached: ") and REASON in finding["message"]
    assert done.recap["localhost"]["unreachable"] == 0


def test_an_api_server_that_is_not_reached_refuses_it_as_well(tmp_path: Path) -> None:
    _done, told = run(
        tmp_path, {"ansible.builtin.include_role": {"name": "inferops.locality.node_maintenance", "tasks_from": "preflight"}},
        told="{{ node_maintenance_findings }}", locality_control_host="localhost",
    )
    assert [(item["id"], item["severity"]) for item in told] == [("cluster.refused", "error")] and told[0]["message"]
    assert "control host" not in told[0]["message"]


def test_it_is_an_error_of_the_node_that_is_observed(tmp_path: Path) -> None:
    observe = {
        "observe_control_host": "gone.example.net", "observe_kubeconfig": str(tmp_path / "kubeconfig"), "observe_node_name": "a",
        "__observe_plans_labels": True,
    }
    _done, told = run(
        tmp_path, {
            "block": [{"ansible.builtin.include_tasks": str(playing.TOP / "roles/observe/tasks/cluster.yml")}],
            "rescue": [{"ansible.builtin.set_fact": {"told": "{{ ansible_failed_result.msg }}"}}],
        }, **observe,
    )
    assert told.startswith("the control host gone.example.net was not reached: ") and REASON in told


def before_a_turn() -> Iterator[tuple[str, dict[str, Any], dict[str, Any]]]:
    """Tasks that run for all nodes, before the first one's turn: file, task, and what its blocks set."""
    files = ["roles/node_maintenance/tasks/preflight.yml", *(f"roles/observe/tasks/{path.name}" for path in (playing.TOP / "roles/observe/tasks").iterdir())]
    found = [(name, task) for name in files for task in yaml.safe_load((playing.TOP / name).read_text(encoding="utf-8"))]
    for book in ("site", "rollback", "audit", "plan"):
        for part in yaml.safe_load((playing.TOP / "playbooks" / f"{book}.yml").read_text(encoding="utf-8")):
            if not part.get("serial"):
                found += [(f"playbooks/{book}.yml", task) for task in part.get("tasks", [])]

    def inner(name: str, task: dict[str, Any], outer: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any], dict[str, Any]]]:
        settings = {**outer, **{key: task[key] for key in ("delegate_to", "ignore_unreachable") if key in task}}
        parts = [part for key in ("block", "rescue", "always") for part in task.get(key, [])]
        for part in parts:
            yield from inner(name, part, settings)
        if not parts:
            yield name, task, settings

    for name, task in found:
        yield from inner(name, task, {})


def test_nothing_that_is_asked_of_it_before_the_first_turn_drops_a_node() -> None:
    delegated = [(name, task["name"], settings) for name, task, settings in before_a_turn() if "{{" in settings.get("delegate_to", "")]
    assert {name for name, _task, _settings in delegated} >= {
        "roles/node_maintenance/tasks/preflight.yml", "roles/observe/tasks/cluster.yml", "roles/observe/tasks/configz.yml", "playbooks/rollback.yml",
    }
    assert [(name, task) for name, task, settings in delegated if not settings.get("ignore_unreachable")] == []
