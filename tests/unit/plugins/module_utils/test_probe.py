# Copyright (c) 2026 The inferops.locality authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import json
from pathlib import Path

import pytest

from ansible_collections.inferops.locality.plugins.module_utils import probe
from ansible_collections.inferops.locality.plugins.module_utils.sysroot import SysRoot


def recorded(root: Path, file: str, content: str) -> probe.Probe:
    folder = root / ".locality/probe"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / file).write_text(content)
    return probe.Probe(SysRoot(str(root)))


def test_a_recorded_answer_comes_back_as_it_was(tmp_path: Path) -> None:
    answer = probe.Answer(("systemd-detect-virt",), 1, "none\n", "")
    ask = recorded(tmp_path, "systemd-detect-virt.json", answer.record())
    assert ask.ask("systemd-detect-virt") == answer
    assert list(ask.answers) == ["systemd-detect-virt.json"]


def test_arguments_are_part_of_the_file_name(tmp_path: Path) -> None:
    answer = probe.Answer(("ethtool", "-l", "eth0"), 0, "x", "")
    assert recorded(tmp_path, "ethtool-channels.eth0.json", answer.record()).ask("ethtool-channels", interface="eth0") == answer


def test_below_a_root_nothing_is_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probe.subprocess, "run", lambda *args, **kwargs: pytest.fail("ran a command"))
    assert probe.Probe(SysRoot(str(tmp_path))).ask("systemd-detect-virt") is None


@pytest.mark.parametrize("content", [
    "", "{", "[]",
    json.dumps({"argv": [], "rc": "x", "stdout": "", "stderr": ""}),
    json.dumps({"argv": [], "rc": 0, "stdout": 1, "stderr": ""}),
])
def test_a_garbled_record_is_a_problem(tmp_path: Path, content: str) -> None:
    ask = recorded(tmp_path, "systemd-detect-virt.json", content)
    assert ask.ask("systemd-detect-virt") is None
    assert ask._sysroot.problems[0]["file"] == "/.locality/probe/systemd-detect-virt.json"


@pytest.mark.parametrize("interface", ["../../etc/passwd", "-x", "a b", ""])
def test_an_argument_is_never_a_path_or_an_option(tmp_path: Path, interface: str) -> None:
    node = SysRoot(str(tmp_path))
    assert probe.Probe(node).ask("ethtool-channels", interface=interface) is None
    assert "was not asked" in node.problems[0]["reason"]


def test_the_live_node_is_asked_in_the_c_locale(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(probe.COMMANDS, "locale", ("env",))
    answer = probe.Probe(SysRoot("/")).ask("locale")
    assert answer is not None and answer.rc == 0
    assert "LC_ALL=C" in answer.out.splitlines()


def test_a_command_that_hangs_is_a_problem(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(probe.COMMANDS, "slow", ("sleep", "30"))
    node = SysRoot("/")
    assert probe.Probe(node, timeout=0.05).ask("slow") is None
    assert "did not answer" in node.problems[0]["reason"]


def test_a_command_that_is_not_there_is_no_problem(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(probe.COMMANDS, "absent", ("no-such-program-here",))
    node = SysRoot("/")
    assert probe.Probe(node).ask("absent") is None
    assert node.problems == []
