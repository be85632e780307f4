# Copyright (c) 2026 The inferops.locality authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The module itself: its one option, what it returns, and that its documentation names what it returns."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible.module_utils.testing import patch_module_args

from ansible_collections.inferops.locality.plugins.modules import locality_state

CANARY = "CANARY4711"


def run(capsys: pytest.CaptureFixture[str], **args: Any) -> tuple[int, dict[str, Any], str]:
    """Exit status, result and all of the output."""
    with patch_module_args(args), pytest.raises(SystemExit) as stop:
        locality_state.main()
    captured = capsys.readouterr()
    return int(stop.value.code or 0), json.loads(captured.out), captured.out + captured.err


@pytest.mark.parametrize("check", [False, True])
def test_facts(tmp_path: Path, capsys: pytest.CaptureFixture[str], check: bool) -> None:
    (tmp_path / "etc/sysctl.d").mkdir(parents=True)
    (tmp_path / "etc/sysctl.d/99-x.conf").write_text("vm.swappiness=10\n", encoding="utf-8")
    code, result, _output = run(capsys, root=str(tmp_path), _ansible_check_mode=check)
    assert code == 0 and result["changed"] is False
    state = result["ansible_facts"]["locality_state"]
    assert state["configured"]["vm.swappiness"] == {"value": 10, "source": "/etc/sysctl.d/99-x.conf:1"}


def test_a_root_that_is_not_there_is_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, result, _output = run(capsys, root=str(tmp_path / "gone"))
    assert code == 1
    assert str(tmp_path / "gone") in result["msg"]


def test_no_token_in_anything_the_module_prints(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "etc/rancher/rke2"
    folder.mkdir(parents=True)
    (folder / "config.yaml").write_text(f"token: {CANARY}\nserver: https://{CANARY}\nx {CANARY}\n", encoding="utf-8")
    code, result, output = run(capsys, root=str(tmp_path), _ansible_verbosity=4)
    assert code == 0
    assert result["ansible_facts"]["locality_state"]["problems"]
    assert CANARY not in output


def test_documentation_names_what_is_returned(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    documented = yaml.safe_load(locality_state.RETURN)["ansible_facts"]["contains"]["locality_state"]["contains"]
    state = run(capsys, root=str(tmp_path))[1]["ansible_facts"]["locality_state"]
    assert set(documented) == set(state)
    for part in ("platform", "kubelet", "boot"):
        assert set(documented[part]["contains"]) == set(state[part]), part
    for part in ("distribution", "boot_loader", "features", "tuned", "irqbalance", "rke2"):
        assert set(documented["platform"]["contains"][part]["sample"]) == set(state["platform"][part]), part
