# Copyright (c) 2026 The inferops.locality authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The module itself: its options, what it returns, and that its documentation names both."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible.module_utils.testing import patch_module_args

from ansible_collections.inferops.locality.plugins.module_utils import boot, knobs
from ansible_collections.inferops.locality.plugins.modules import kernel_args
from ansible_collections.inferops.locality.tests.unit import paper_loaders

ARGS = ["isolcpus=managed_irq,2-7", "irqaffinity=0-1"]


def run(capsys: pytest.CaptureFixture[str], **args: Any) -> tuple[int, dict[str, Any]]:
    """Exit status and result."""
    with patch_module_args(args), pytest.raises(SystemExit) as stop:
        kernel_args.main()
    return int(stop.value.code or 0), json.loads(capsys.readouterr().out)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    paper_loaders.Debian(tmp_path, {})
    return tmp_path


def test_present_and_absent_below_a_root(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, planned = run(capsys, root=str(root), args=ARGS, _ansible_check_mode=True, _ansible_diff=True)
    assert code == 0 and planned["changed"] and not (root / knobs.FILE_GRUB.lstrip("/")).exists()
    code, done = run(capsys, root=str(root), args=ARGS, _ansible_diff=True)
    assert code == 0 and done == planned
    assert done["diff"][0]["after"].endswith(f'"$GRUB_CMDLINE_LINUX_DEFAULT {" ".join(ARGS)}"\n')
    assert run(capsys, root=str(root), args=ARGS)[1]["changed"] is False
    assert run(capsys, root=str(root), state="absent")[1]["written"] == [knobs.FILE_GRUB]
    assert run(capsys, root=str(root), state="absent")[1]["changed"] is False


def test_a_refusal_names_the_owner(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (root / "etc/default/grub").write_text('GRUB_CMDLINE_LINUX="isolcpus=1 x.password=hunter2"\n')
    code, result = run(capsys, root=str(root), args=ARGS)
    assert code == 1 and result["foreign"] == [{"token": "isolcpus=1", "file": "/etc/default/grub", "line": 1}]
    assert "/etc/default/grub:1" in result["msg"]
    code, result = run(capsys, root=str(root), args=ARGS, adopt=True)
    assert code == 0 and "hunter2" not in json.dumps(result["next_boot"])


@pytest.mark.parametrize("name, value", [("panic_seconds", 0), ("watchdog_seconds", 9), ("confirm_minutes", 1), ("state", "maybe")])
def test_options_out_of_range_are_refused(root: Path, capsys: pytest.CaptureFixture[str], name: str, value: Any) -> None:
    code, result = run(capsys, root=str(root), args=ARGS, **{name: value})
    assert code == 1 and name in result["msg"]
    assert not (root / knobs.FILE_GRUB.lstrip("/")).exists()


def test_documentation_names_what_is_returned(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    documented = yaml.safe_load(kernel_args.RETURN)
    result = run(capsys, root=str(root), args=ARGS)[1]
    assert set(documented) == set(result) - {"changed", "diff", "invocation"}
    assert set(documented["trial"]["contains"]) == set(result["trial"])


def test_commands_are_found_and_run_with_a_plain_locale(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """The one place where commands are run: a stand-in for update-grub says what it was called with."""
    paper = paper_loaders.Debian(tmp_path / "root", {})
    program = tmp_path / "bin/update-grub"
    program.parent.mkdir()
    program.write_text(f"#!/bin/sh\necho \"$LC_ALL $#\" > {tmp_path}/called\necho 'no room' >&2\nexit 3\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}{os.pathsep}{os.environ['PATH']}")
    node = boot.Node
    monkeypatch.setattr(boot, "Node", lambda path, runner: node(path, runner, live=True))
    code, result = run(capsys, root=str(paper.base), args=ARGS)
    assert code == 1 and "'update-grub' failed with 3: no room" in result["msg"]
    assert (tmp_path / "called").read_text() == "C 0\n"
