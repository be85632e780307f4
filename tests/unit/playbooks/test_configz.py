# Copyright (c) 2026 The inferops.locality authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A kubelet that cannot be asked is told of and fails nothing; one that does not run is not waited for."""

from __future__ import annotations

import json
import stat
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from ansible_collections.inferops.locality.tests.unit import playing


def asked(folder: Path, runs: dict[str, Any], **variables: Any) -> tuple[playing.Run, list[dict[str, str]]]:
    """Run the tasks on a node of this state; the findings that they leave."""
    ssh = folder / "ssh"
    ssh.write_text("#!/bin/sh\necho 'No route to host' >&2\nexit 255\n", encoding="utf-8")
    ssh.chmod(ssh.stat().st_mode | stat.S_IXUSR)
    book = folder / "book.yml"
    book.write_text(yaml.safe_dump([{
        "hosts": "localhost", "gather_facts": False,
        "vars": {
            "observe_kubeconfig": str(folder / "kubeconfig"), "observe_node_name": "a", "observe_control_host": "localhost",
            "__observe_state": {"ansible_facts": {"locality_state": {"kubelet": {"runs": runs}}}},
            "__observe_access_retries": 2, "__observe_access_delay": 0, "ansible_ssh_executable": str(ssh), **variables,
        },
        "tasks": [
            {"ansible.builtin.include_tasks": str(playing.TOP / "roles/observe/tasks/configz.yml")},
            {"ansible.builtin.copy": {"dest": str(folder / "told.json"), "content": "{{ __observe_configz_findings | to_json }}", "mode": "0600"}},
        ],
    }]), encoding="utf-8")
    run = playing.play(str(book.with_suffix("")), "-e", f"ansible_python_interpreter={sys.executable}", inventory=None)
    assert run.rc == 0, run.text
    return run, json.loads((folder / "told.json").read_text(encoding="utf-8"))


def test_a_kubelet_that_does_not_run_is_not_waited_for(tmp_path: Path) -> None:
    run, found = asked(tmp_path, {"unit": False, "kubelet": False})
    assert [item["id"] for item in found] == ["kubelet.configz_unknown"] and "was not asked what it runs with, since RKE2 does not run" in found[0]["message"]
    assert run.out.count("skipping: [localhost]") == 2


@pytest.mark.parametrize("runs", [{"unit": True, "kubelet": False}, {"unit": None, "kubelet": None}, {"unit": False, "kubelet": True}])
def test_one_that_starts_or_of_which_nothing_is_known_is_asked(tmp_path: Path, runs: dict[str, Any]) -> None:
    run, found = asked(tmp_path, runs)
    assert [item["id"] for item in found] == ["kubelet.configz_unknown"] and found[0]["message"].startswith("the kubelet was judged by its command line: ")
    assert "ok: [localhost]" in run.out.split("TASK [Get a token for the kubelet's configuration]")[1].split("TASK")[0]


def test_a_control_host_that_is_not_reached_fails_no_proof(tmp_path: Path) -> None:
    _run, found = asked(tmp_path, {"unit": True, "kubelet": True}, observe_control_host="gone.example.net")
    assert "No route to host" in found[0]["message"]


def test_an_api_server_that_is_never_reached_fails_no_proof(tmp_path: Path) -> None:
    pytest.importorskip("kubernetes")
    (tmp_path / "kubeconfig").write_text(yaml.safe_dump({
        "apiVersion": "v1", "kind": "Config", "current-context": "c", "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": {"server": "https://127.0.0.1:1"}}], "users": [{"name": "u", "user": {"token": "t"}}],
    }), encoding="utf-8")
    run, found = asked(tmp_path, {"unit": True, "kubelet": True})
    assert "FAILED - RETRYING" in run.out and "https://127.0.0.1:1 was not reached" in found[0]["message"]


def test_a_kubeconfig_that_cannot_be_used_is_told_at_once(tmp_path: Path) -> None:
    pytest.importorskip("kubernetes")
    run, found = asked(tmp_path, {"unit": True, "kubelet": True})
    assert "FAILED - RETRYING" not in run.out and "kubeconfig" in found[0]["message"]
