# Copyright (c) 2026 The inferops.locality authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Files of a role: all or none, each whole, no link followed out of the root."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.inferops.locality.plugins.module_utils import node_files
from ansible_collections.inferops.locality.plugins.module_utils.sysroot import SysRoot


def decided(root: Path, *items: dict[str, Any]) -> node_files.Files:
    files = node_files.Files(SysRoot(str(root)))
    node_files.decide(files, items)
    return files


def listing(root: Path) -> dict[str, str]:
    return {
        str(path.relative_to(root)): f"-> {os.readlink(path)}" if path.is_symlink() else path.read_text()
        for path in sorted(root.rglob("*")) if path.is_symlink() or path.is_file()
    }


ITEMS: list[dict[str, Any]] = [
    {"path": "/etc/sysctl.d/90-x.conf", "content": "vm.swappiness = 0\n"},
    {"path": "/etc/systemd/system/multi-user.target.wants/x.service", "link": "../x.service"},
    {"path": "/etc/old", "content": None},
    {"path": "/etc/systemd/system/irqbalance.service", "unlink": "/dev/null"},
]


def test_files_links_and_removal_in_one_step_and_nothing_in_the_next(tmp_path: Path) -> None:
    (tmp_path / "etc/systemd/system").mkdir(parents=True)
    (tmp_path / "etc/old").write_text("old")
    (tmp_path / "etc/systemd/system/irqbalance.service").symlink_to("/dev/null")
    files = decided(tmp_path, *ITEMS)
    assert files.changed() == [item["path"] for item in ITEMS]
    assert len(listing(tmp_path)) == 2, "deciding writes nothing"
    files.apply()
    assert listing(tmp_path) == {"etc/sysctl.d/90-x.conf": "vm.swappiness = 0\n", "etc/systemd/system/multi-user.target.wants/x.service": "-> ../x.service"}
    assert (tmp_path / "etc/sysctl.d/90-x.conf").stat().st_mode & 0o777 == 0o644
    assert decided(tmp_path, *ITEMS).changed() == []


def test_the_diff_shows_content_target_mode_and_absence(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("same")
    (tmp_path / "a").chmod(0o600)
    shown = decided(tmp_path, {"path": "/a", "content": "same"}, {"path": "/b", "link": "c"}).diff()
    assert [(item["before_header"], item["after_header"], item["before"], item["after"]) for item in shown] == [
        ("/a (mode 0600)", "/a (mode 0644)", "same", "same"), ("/b (absent)", "/b", "", "-> c\n"),
    ]


def test_a_link_at_our_path_is_replaced_and_not_written_through(tmp_path: Path) -> None:
    (tmp_path / "other").write_text("of somebody else")
    (tmp_path / "ours").symlink_to("other")
    (tmp_path / "masked").symlink_to("/dev/null")
    decided(tmp_path, {"path": "/ours", "content": "ours"}, {"path": "/masked", "content": "unit"}).apply()
    assert listing(tmp_path) == {"other": "of somebody else", "ours": "ours", "masked": "unit"}


@pytest.mark.parametrize("there", ["a unit file of somebody else", None])
def test_what_is_no_link_to_the_target_is_not_unlinked(tmp_path: Path, there: str | None) -> None:
    if there is None:
        (tmp_path / "x").symlink_to("/usr/lib/x")
    else:
        (tmp_path / "x").write_text(there)
    assert decided(tmp_path, {"path": "/x", "unlink": "/dev/null"}).changed() == []


def test_everything_that_is_wrong_is_told_at_once_and_nothing_written(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "unit").write_text("of somebody else")
    outside = tmp_path.parent / f"{tmp_path.name}-outside"
    outside.mkdir()
    (tmp_path / "leads").symlink_to(outside)
    items = [
        {"path": "/fine", "content": "x"}, {"path": "/fine", "content": "y"}, {"path": "/folder", "content": "x"}, {"path": "/unit", "link": "/dev/null"},
        {"path": "/leads/x", "content": "x"}, {"path": "/leads/l", "link": "x"}, {"path": "/leads/gone"}, {"path": "/a/../b", "content": "x"},
        {"path": "b", "content": "x"}, {"path": "/", "content": "x"}, {"path": "/m", "content": "x", "mode": "8"},
        {"path": "/n", "content": "x", "mode": "7777"},
        {"path": "/two", "content": "x", "link": "y", "unlink": None},
    ]
    with pytest.raises(node_files.FilesError) as error:
        decided(tmp_path, *items)
    for said in ("/fine is listed twice", "/folder is a directory", "/unit is a file of somebody else, wanted a link to /dev/null", "to /leads leaves the root",
                 "found '/a/../b'", "found 'b'", "found '/'", "mode: found '8'", "mode: found '7777'",
                 "/two: found content and link, wanted one of them"):
        assert said in str(error.value)
    assert str(error.value).count("leaves the root") == 3
    assert sorted(listing(tmp_path)) == ["leads", "unit"] and not list(outside.iterdir())


def test_what_was_written_before_a_failure_is_put_back(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("old")
    (tmp_path / "l").symlink_to("old")
    (tmp_path / "file").write_text("a file where a folder is wanted")
    before = listing(tmp_path)
    items = [{"path": "/a", "content": "new"}, {"path": "/l", "link": "new"}, {"path": "/new", "content": "x"}, {"path": "/file/x", "content": "x"}]
    files = decided(tmp_path, *items)
    with pytest.raises(node_files.FilesError, match="/file/x cannot be written"):
        files.apply()
    assert listing(tmp_path) == before


def test_a_folder_that_is_a_link_inside_the_root_is_followed(tmp_path: Path) -> None:
    (tmp_path / "usr/etc").mkdir(parents=True)
    (tmp_path / "etc").symlink_to("usr/etc")
    decided(tmp_path, {"path": "/etc/x", "content": "x"}, {"path": "/etc/l", "link": "x"}).apply()
    assert listing(tmp_path / "usr") == {"etc/l": "-> x", "etc/x": "x"}
