# Copyright (c) 2026 The inferops.locality authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The module that writes a snapshot: its file, its result, its check mode, its errors."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from ansible.module_utils.testing import patch_module_args

from ansible_collections.inferops.locality.plugins.modules import locality_snapshot
from ansible_collections.inferops.locality.plugins.plugin_utils import archives, paper


@pytest.fixture
def root(tmp_path: Path) -> Path:
    paper.build({"cpus": {"sockets": 1, "cores_per_numa": 2, "threads": 1}, "files": {"/etc/rancher/rke2/config.yaml": "token: canary\nnode-name: gpu-1\n"}},
                tmp_path / "node")
    return tmp_path / "node"


def run(capsys: pytest.CaptureFixture, **arguments: Any) -> dict:
    with patch_module_args(arguments), pytest.raises(SystemExit):
        locality_snapshot.main()
    return json.loads(capsys.readouterr().out)


def test_writes_once_and_for_the_owner_only(capsys: pytest.CaptureFixture, root: Path, tmp_path: Path) -> None:
    dest = tmp_path / "s.tar.gz"
    result = run(capsys, root=str(root), dest=str(dest))
    assert (result["changed"], result["dest"], result["size"]) == (True, str(dest), dest.stat().st_size)
    assert dest.stat().st_mode & 0o777 == 0o600
    assert "/etc/rancher/rke2/config.yaml" in result["files"]
    assert result["left_out"] == [{"file": "/etc/rancher/rke2/config.yaml", "reason": "comments, and values of keys outside the whitelist"}]
    assert "canary" not in json.dumps(result)
    archives.unpack(dest, tmp_path / "out")
    assert (tmp_path / "out/etc/rancher/rke2/config.yaml").read_text() == 'token: (left out)\nnode-name: "gpu-1"\n'
    assert run(capsys, root=str(root), dest=str(dest))["changed"] is False
    dest.chmod(0o644)
    assert run(capsys, root=str(root), dest=str(dest))["changed"] is True
    assert dest.stat().st_mode & 0o777 == 0o600
    assert sorted(path.name for path in tmp_path.iterdir()) == ["node", "out", "s.tar.gz"]


def test_check_mode_says_what_and_writes_nothing(capsys: pytest.CaptureFixture, root: Path, tmp_path: Path) -> None:
    result = run(capsys, root=str(root), dest=str(tmp_path / "s.tar.gz"), _ansible_check_mode=True)
    assert result["changed"] is True and "/proc/cmdline" in result["files"]
    assert [path.name for path in tmp_path.iterdir()] == ["node"]


def test_anonymize(capsys: pytest.CaptureFixture, root: Path, tmp_path: Path) -> None:
    run(capsys, root=str(root), dest=str(tmp_path / "s.tar.gz"), anonymize=True)
    archives.unpack(tmp_path / "s.tar.gz", tmp_path / "out")
    assert (tmp_path / "out/etc/rancher/rke2/config.yaml").read_text() == 'token: (left out)\nnode-name: "node-1"\n'


@pytest.mark.parametrize("arguments, message", [
    ({"root": "absent", "dest": "s"}, "root: found '{tmp}/absent', wanted a directory"),
    ({"root": "node", "dest": ""}, "dest: '{tmp}' is a directory"),
    ({"root": "node", "dest": "absent/s"}, "dest: the folder '{tmp}/absent' does not exist"),
])
def test_wrong_arguments(capsys: pytest.CaptureFixture, root: Path, tmp_path: Path, arguments: dict, message: str) -> None:
    result = run(capsys, **{key: str(tmp_path / value) for key, value in arguments.items()})
    assert result["failed"] and message.format(tmp=tmp_path) in result["msg"]


def test_link_at_the_destination_is_replaced_and_not_followed(capsys: pytest.CaptureFixture, root: Path, tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("x")
    (tmp_path / "s.tar.gz").symlink_to(victim)
    run(capsys, root=str(root), dest=str(tmp_path / "s.tar.gz"))
    assert victim.read_text() == "x" and not (tmp_path / "s.tar.gz").is_symlink()
