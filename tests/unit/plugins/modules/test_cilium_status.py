# Copyright (c) 2026 The inferops.locality authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The module with recorded answers of an agent, and with a crictl that gives them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible.module_utils.testing import patch_module_args

from ansible_collections.inferops.locality.plugins.module_utils.probe import Answer
from ansible_collections.inferops.locality.plugins.modules import cilium_status
from ansible_collections.inferops.locality.tests.unit import cilium_answers as answers


def run(capsys: pytest.CaptureFixture[str], **args: Any) -> tuple[int, dict[str, Any]]:
    with patch_module_args(args), pytest.raises(SystemExit) as stop:
        cilium_status.main()
    return int(stop.value.code or 0), json.loads(capsys.readouterr().out)


def record(root: Path, name: str, out: str, rc: int = 0, err: str = "") -> None:
    folder = root / ".locality/probe"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}.json").write_text(Answer((name,), rc, out, err).record(), encoding="utf-8")


@pytest.fixture
def node(tmp_path: Path) -> Path:
    """A node with a recorded agent that does what was asked."""
    record(tmp_path, "cilium-agents", answers.containers())
    record(tmp_path, f"cilium-status-json.{answers.AGENT}", answers.text(answers.GOOD))
    return tmp_path


def test_a_recorded_agent_that_does_what_was_asked(node: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, result = run(capsys, root=str(node), wanted=answers.KNOBS, fail=True, _ansible_check_mode=True)
    assert code == 0 and result["changed"] is False
    assert (result["pod"], result["pod_uid"], result["format"]) == ("cilium-7x2kq", "uid-1", "json")
    assert result["running"]["cilium.datapath_mode"] == "netkit"
    assert [entry["knob"] for entry in result["read_back"]] == list(answers.KNOBS)


def test_a_recorded_agent_that_fell_back_fails_with_all_that_did(node: Path, capsys: pytest.CaptureFixture[str]) -> None:
    record(node, f"cilium-status-json.{answers.AGENT}", answers.text(answers.FALLEN_BACK))
    code, result = run(capsys, root=str(node), wanted=answers.KNOBS, fail=True)
    assert code == 1 and all(knob in result["msg"] for knob in answers.KNOBS)
    assert "cilium.datapath_mode found veth, wanted netkit" in result["msg"]
    code, result = run(capsys, root=str(node), wanted=answers.KNOBS)
    assert code == 0 and not any(entry["in_force"] for entry in result["read_back"])


@pytest.mark.parametrize("answer", [("unknown shorthand flag: 'o' in -o", 1), ("KVStore: Ok\n", 0)])
def test_an_agent_without_json_is_read_by_its_recorded_text(node: Path, capsys: pytest.CaptureFixture[str], answer: tuple[str, int]) -> None:
    record(node, f"cilium-status-json.{answers.AGENT}", answer[0], answer[1])
    record(node, f"cilium-status-text.{answers.AGENT}", answers.TEXT)
    code, result = run(capsys, root=str(node), wanted=answers.KNOBS, fail=True)
    assert code == 0 and result["format"] == "text"


@pytest.mark.parametrize(
    ("name", "out", "rc", "words"),
    [
        ("cilium-agents", json.dumps({"containers": []}), 0, "no container cilium-agent"),
        ("cilium-agents", "{", 0, "no list of containers"),
        ("cilium-agents", json.dumps({"containers": [{"state": "CONTAINER_RUNNING"}]}), 0, "no list of containers"),
        ("cilium-agents", "connect: no such file or directory", 1, "connect: no such file or directory"),
        (f"cilium-status-json.{answers.AGENT}", "Is the agent running?", 1, "Is the agent running?"),
        (f"cilium-status-json.{answers.AGENT}", answers.text(answers.GOOD)[:200], 0, "it may be cut"),
    ],
)
def test_an_agent_that_is_not_there_or_says_nothing_is_an_error(  # noqa: PLR0917
    node: Path, capsys: pytest.CaptureFixture[str], name: str, out: str, rc: int, words: str,
) -> None:
    record(node, name, out, rc)
    code, result = run(capsys, root=str(node))
    assert code == 1 and words in result["msg"]


def test_the_agent_that_began_last_is_asked(node: Path, capsys: pytest.CaptureFixture[str]) -> None:
    newer = "2e" * 32
    record(node, "cilium-agents", answers.containers(
        {"id": newer, "state": "CONTAINER_RUNNING", "createdAt": "1780000000000000002", "labels": {"io.kubernetes.pod.uid": "uid-2"}},
    ))
    record(node, f"cilium-status-json.{newer}", answers.text(answers.FALLEN_BACK))
    assert run(capsys, root=str(node))[1]["pod_uid"] == "uid-2"


def test_without_recorded_answers_nothing_is_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, result = run(capsys, root=str(tmp_path))
    assert code == 1 and "no answer is recorded" in result["msg"]
    code, result = run(capsys, root=str(tmp_path / "gone"))
    assert code == 1 and "wanted a directory" in result["msg"]


CRICTL = """#!/bin/sh
echo "$@" >> {log}
case "$*" in
  *" ps "*) cat {folder}/ps ;;
  *" exec {agent} cilium-dbg status --output json") cat {folder}/json ;;
  *) echo "unexpected: $*" >&2; exit 9 ;;
esac
"""


def test_on_the_node_crictl_of_rke2s_data_dir_is_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A script that gives recorded answers stands for crictl."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "ps").write_text(answers.containers(), encoding="utf-8")
    (tmp_path / "json").write_text(answers.text(answers.GOOD), encoding="utf-8")
    script = tmp_path / "bin/crictl"
    script.write_text(CRICTL.format(log=tmp_path / "log", folder=tmp_path, agent=answers.AGENT), encoding="utf-8")
    script.chmod(0o755)
    code, result = run(capsys, data_dir=str(tmp_path), wanted=answers.KNOBS, fail=True)
    assert code == 0, result
    asked = (tmp_path / "log").read_text(encoding="utf-8").splitlines()
    assert len(asked) == 2 and all(line.startswith("--runtime-endpoint unix:///run/k3s/containerd/containerd.sock ") for line in asked)
    assert "--name ^cilium-agent$ --label io.kubernetes.pod.namespace=kube-system" in asked[0]


def test_documentation_names_what_is_returned(node: Path, capsys: pytest.CaptureFixture[str]) -> None:
    documented = yaml.safe_load(cilium_status.RETURN)
    result = run(capsys, root=str(node))[1]
    assert set(documented) == set(result) - {"changed", "invocation"}
    assert set(documented["status"]["sample"]) == set(result["status"])
