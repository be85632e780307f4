# Copyright (c) 2026 The inferops.locality authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The module itself: check mode, what it returns, bad input."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible.module_utils.testing import patch_module_args

from ansible_collections.inferops.locality.plugins.modules import node_files
from ansible_collections.inferops.locality.tests.unit import paper_kernel

FILES = [{"path": "/etc/x.conf", "content": "x\n"}, {"path": "/etc/wants/x", "link": "../x.conf"}, {"path": "/etc/gone"}]


def run(capsys: pytest.CaptureFixture[str], root: Path, **args: Any) -> tuple[int, dict[str, Any]]:
    """Exit status and result."""
    with patch_module_args({"root": str(root), **args}), pytest.raises(SystemExit) as stop:
        node_files.main()
    return int(stop.value.code or 0), json.loads(capsys.readouterr().out)


def test_check_run_and_both_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, planned = run(capsys, tmp_path, files=FILES, _ansible_check_mode=True, _ansible_diff=True)
    assert code == 0 and planned["paths"] == ["/etc/x.conf", "/etc/wants/x"] and not list(tmp_path.iterdir())
    assert run(capsys, tmp_path, files=FILES, _ansible_diff=True)[1] == planned
    assert (tmp_path / "etc/wants/x").read_text(encoding="utf-8") == "x\n"
    for check in (False, True):
        again = run(capsys, tmp_path, files=FILES, _ansible_check_mode=check, _ansible_diff=True)[1]
        assert (again["changed"], again["paths"], again["diff"]) == (False, [], [])


def test_keys_that_are_null_are_not_given(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = [{"path": "/a", "link": "b", "unlink": None, "content": None}, {"path": "/c", "link": None, "unlink": "d"}]
    assert run(capsys, tmp_path, files=files)[1]["paths"] == ["/a"]


@pytest.mark.parametrize("files, said", [
    ([{"path": "etc/x", "content": "x"}], "found 'etc/x'"), ([{"content": "x"}], "path"), ([{"path": "/x", "mode": "rw"}], "mode: found 'rw'"),
    ([{"path": "/fine", "content": "x"}, {"path": "/x", "content": "x", "link": "y"}], "/x: found content and link"),
    ([{"path": "/x", "owner": "root"}], "owner"),
])
def test_bad_input_writes_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str], files: list[dict[str, Any]], said: str) -> None:
    code, result = run(capsys, tmp_path, files=files)
    assert code == 1 and said in result["msg"] and not list(tmp_path.iterdir())


def test_what_cannot_be_written_is_told_in_check_mode_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").write_text("a file where a folder is wanted", encoding="utf-8")
    for check in (True, False):
        code, result = run(capsys, tmp_path, files=[*FILES, {"path": "/file/x", "content": "x"}], _ansible_check_mode=check)
        assert (code, result["msg"]) == (1, "nothing was written: /file/x cannot be written: /file is a file, wanted a folder")
    assert [path.name for path in tmp_path.rglob("*")] == ["file"]


@pytest.mark.parametrize("stuck", [False, True])
def test_a_disk_that_fills_up_is_told_and_whether_all_is_as_before(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, stuck: bool,
) -> None:
    (tmp_path / "a").write_text("old", encoding="utf-8")
    real, full = os.replace, []

    def replace(old: str, new: str) -> None:
        if new.endswith("/z") or (stuck and full):
            full.append(new)
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        real(old, new)

    monkeypatch.setattr(os, "replace", replace)
    code, result = run(capsys, tmp_path, files=[{"path": "/a", "content": "new"}, *FILES, {"path": "/z", "content": "x"}])
    said = "/z cannot be written: No space left on device"
    assert (code, result["msg"]) == (1, f"{said}; /a could NOT be put back: No space left on device" if stuck else f"{said}. All files are as before")
    assert [path.name for path in tmp_path.rglob("*")] == ["a"] and (tmp_path / "a").read_text(encoding="utf-8") == ("new" if stuck else "old")


def test_no_label_is_asked_for_a_file_that_was_removed(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "gone").write_text("x", encoding="utf-8")
    (tmp_path / "l").symlink_to("/dev/null")
    labelled: list[str] = []
    monkeypatch.setattr(node_files, "SysRoot", lambda root: paper_kernel.Live(Path(root)))
    monkeypatch.setattr("ansible.module_utils.basic.AnsibleModule.set_default_selinux_context", lambda self, path, changed: labelled.append(path) or changed)
    files = [{"path": "/gone"}, {"path": "/l", "unlink": "/dev/null"}, {"path": "/x", "content": "x"}, {"path": "/y", "link": "nowhere"}]
    assert run(capsys, tmp_path, files=files)[1]["paths"] == ["/gone", "/l", "/x", "/y"]
    assert labelled == ["/x", "/y"]


def test_a_root_that_is_not_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "is not a directory" in run(capsys, tmp_path / "x", files=FILES)[1]["msg"]


def test_documentation_names_what_is_returned(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert set(yaml.safe_load(node_files.RETURN)) == set(run(capsys, tmp_path, files=FILES)[1]) - {"changed", "diff", "invocation"}
