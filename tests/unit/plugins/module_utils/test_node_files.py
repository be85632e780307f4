# Copyright (c) 2026 The inferops.locality authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Files of a role: all or none, each whole, no link followed out of the root."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.inferops.locality.plugins.module_utils import boot_files, node_files
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
        ("/a (mode 0600)", "/a (mode 0644)", "/a (mode 0600)\n", "/a (mode 0644)\n"), ("/b (absent)", "/b", "", "-> c\n"),
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


class Disk:
    """Lets chosen calls of the system fail."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._patch = monkeypatch

    def fails(self, call: str, at: Any, number: int = errno.ENOSPC) -> None:
        """Whenever ``at`` is true of the arguments."""
        real = getattr(os, call)

        def wrapped(*args: Any, **kwargs: Any) -> Any:
            if at(*args):
                raise OSError(number, os.strerror(number))
            return real(*args, **kwargs)

        self._patch.setattr(os, call, wrapped)


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Disk:
    return Disk(monkeypatch)


def tree(root: Path) -> list[str]:
    """All there is, folders among them."""
    return sorted(str(path.relative_to(root)) for path in root.rglob("*"))


def test_what_was_written_before_a_failure_is_put_back_and_new_folders_go(tmp_path: Path, disk: Disk) -> None:
    (tmp_path / "a").write_text("old")
    (tmp_path / "a").chmod(0o640)
    (tmp_path / "gone").write_text("gone")
    (tmp_path / "gone").chmod(0o600)
    os.chown(tmp_path / "gone", os.getuid(), 7 if os.geteuid() == 0 else -1)
    (tmp_path / "l").symlink_to("old")
    (tmp_path / "kept").mkdir()
    before, all_before, owner = listing(tmp_path), tree(tmp_path), (tmp_path / "gone").stat().st_gid
    items: list[dict[str, Any]] = [
        {"path": "/a", "content": "new"}, {"path": "/gone"}, {"path": "/l", "link": "new"}, {"path": "/new/deep/x", "content": "x"},
        {"path": "/kept/x", "content": "x"}, {"path": "/last", "content": "x"},
    ]
    files = decided(tmp_path, *items)
    disk.fails("replace", lambda _old, new: new.endswith("/last"))
    with pytest.raises(node_files.FilesError, match=r"^/last cannot be written: No space left on device$") as error:
        files.apply()
    assert (listing(tmp_path), tree(tmp_path), error.value.left) == (before, all_before, ())
    assert [(tmp_path / name).stat().st_mode & 0o777 for name in ("a", "gone")] == [0o640, 0o600]
    assert (tmp_path / "gone").stat().st_gid == owner


def test_a_file_that_was_put_in_place_before_it_failed_is_put_back_too(tmp_path: Path, disk: Disk) -> None:
    (tmp_path / "a").write_text("old")
    files = decided(tmp_path, {"path": "/a", "content": "new"})
    synced = []
    disk.fails("fsync", lambda handle: os.path.isdir(f"/proc/self/fd/{handle}") and not synced.append(handle) and len(synced) == 1, errno.EIO)
    with pytest.raises(node_files.FilesError, match="/a cannot be written: Input/output error"):
        files.apply()
    assert listing(tmp_path) == {"a": "old"}


def test_what_cannot_be_put_back_is_told_and_the_rest_is_put_back(tmp_path: Path, disk: Disk) -> None:
    for name in "abc":
        (tmp_path / name).write_text("old")
    files = decided(tmp_path, *({"path": f"/{name}", "content": "new"} for name in "abcd"))
    written = []
    disk.fails("replace", lambda _old, new: new.endswith("/d") or (new.endswith("/b") and (written.append(new) or len(written) > 1)))
    with pytest.raises(node_files.FilesError) as error:
        files.apply()
    assert str(error.value) == "/d cannot be written: No space left on device; /b could NOT be put back: No space left on device"
    assert error.value.left == ("/b",) and listing(tmp_path) == {"a": "old", "b": "new", "c": "old"}


def test_files_of_a_boot_loader_that_cannot_be_put_back_are_told(tmp_path: Path, disk: Disk) -> None:
    (tmp_path / "a").write_text("old")
    files = boot_files.Files(SysRoot(str(tmp_path)))
    files.write("/a", "new")
    files.write("/new/b", "new")
    files.apply()
    disk.fails("replace", lambda _old, _new: True)
    error = files.undone("GRUB failed")
    assert isinstance(error, boot_files.BootError) and error.left == ("/a",)
    assert str(error) == "GRUB failed; /a could NOT be put back: No space left on device"
    assert tree(tmp_path) == ["a"]


def test_the_next_run_takes_what_a_killed_one_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def killed(_old: str, _new: str) -> None:
        raise KeyboardInterrupt

    items: list[dict[str, Any]] = [{"path": "/a.conf", "content": "x"}, {"path": "/l", "link": "x"}]
    for item in items:
        with monkeypatch.context() as patch:
            patch.setattr(os, "replace", killed)
            patch.setattr(os, "unlink", lambda _path: None)
            with pytest.raises(KeyboardInterrupt):
                decided(tmp_path, item).apply()
    assert len(tree(tmp_path)) == 2
    decided(tmp_path, *items).apply()
    assert listing(tmp_path) == {"a.conf": "x", "l": "-> x"}


@pytest.mark.parametrize("wrong", [
    {"path": "/file/x", "content": "x"}, {"path": "/file/deep/x", "content": "x"}, {"path": "/file/x", "link": "x"}, {"path": "/nowhere/x", "content": "x"},
])
def test_no_folder_where_one_is_wanted_is_told_before_anything_is_written(tmp_path: Path, wrong: dict[str, Any]) -> None:
    (tmp_path / "file").write_text("x")
    (tmp_path / "nowhere").symlink_to("x")
    reason = "/(file is a file|nowhere is a link that leads to no folder), wanted a folder"
    with pytest.raises(node_files.FilesError, match=f"^{wrong['path']} cannot be written: {reason}$"):
        decided(tmp_path, {"path": "/fine", "content": "x"}, wrong)
    decided(tmp_path, {"path": "/file/x"}, {"path": "/nowhere/x"})


def test_what_is_read_only_is_told_before_and_only_where_something_changes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/same").write_text("x")
    (tmp_path / "etc/same").chmod(0o644)
    monkeypatch.setattr(os, "access", lambda path, mode: not path.startswith(str(tmp_path / "etc")))
    decided(tmp_path, {"path": "/etc/same", "content": "x"}, {"path": "/etc/none"}, {"path": "/etc/link", "unlink": "x"})
    changes: list[tuple[dict[str, Any], str]] = [
        ({"path": "/etc/deep/new", "content": "x"}, "written"), ({"path": "/etc/same"}, "removed"), ({"path": "/etc/l", "link": "x"}, "written"),
    ]
    for item, what in changes:
        with pytest.raises(node_files.FilesError, match=f"cannot be {what}: /etc may not be written to"):
            decided(tmp_path, item)
    monkeypatch.setattr(os, "access", lambda path, mode: not path.endswith("/same"))
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    with pytest.raises(node_files.FilesError, match=r"/etc/same cannot be removed: it may not be changed \(see lsattr\)"):
        decided(tmp_path, {"path": "/etc/same"})


def test_a_file_system_that_is_mounted_read_only_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "statvfs", lambda _path: os.statvfs_result((0,) * 8 + (os.ST_RDONLY, 255)))
    with pytest.raises(node_files.FilesError, match="/x cannot be written: / is on a file system that is mounted read-only"):
        decided(tmp_path, {"path": "/x", "content": "x"})


def test_one_file_under_two_names_is_told(tmp_path: Path) -> None:
    (tmp_path / "usr/lib").mkdir(parents=True)
    (tmp_path / "lib").symlink_to("usr/lib")
    for first, second in (("/lib/x", "/usr/lib/x"), ("/lib/new/x", "/usr/lib/new/x")):
        with pytest.raises(node_files.FilesError, match=f"^{second} and {first} are one file"):
            decided(tmp_path, {"path": first, "content": "x"}, {"path": second})


@pytest.mark.parametrize("items, said", [
    ([{"path": "//x", "content": "x"}], "found '//x'"),
    ([{"path": "/x", "content": "x"}, {"path": "/x/y", "content": "x"}], "/x/y lies below /x"),
    ([{"path": "/x/y/z", "link": "x"}, {"path": "/x", "link": "x"}], "/x/y/z lies below /x"),
    ([{"path": "/x", "link": ""}], "/x: link: found ''"),
    ([{"path": "/x\0y", "content": "x"}], r"path is not UTF-8 text without NULs"),
    ([{"path": "/x\udcff", "content": "x"}], "path is not UTF-8 text"),
    ([{"path": "/x", "content": "x\udcff"}], "/x: content is not UTF-8 text"),
    ([{"path": "/x", "link": "x\0"}], "/x: link is not UTF-8 text"),
])
def test_odd_items_are_refused(tmp_path: Path, items: list[dict[str, Any]], said: str) -> None:
    with pytest.raises(node_files.FilesError) as error:
        decided(tmp_path, *items)
    assert said in str(error.value) and str(error.value).encode("utf-8") and not tree(tmp_path)


def test_a_link_whose_target_is_no_text_is_shown_and_put_back_as_it_was(tmp_path: Path, disk: Disk) -> None:
    os.symlink(b"to\xff", os.fsencode(tmp_path / "l"))
    files = decided(tmp_path, {"path": "/l", "content": "x"}, {"path": "/z", "content": "x"})
    assert files.diff()[0]["before"] == "-> to\\xff\n"
    disk.fails("replace", lambda _old, new: new.endswith("/z"))
    with pytest.raises(node_files.FilesError):
        files.apply()
    assert os.readlink(os.fsencode(tmp_path / "l")) == b"to\xff"


def test_a_change_of_the_mode_or_of_an_empty_file_has_lines_in_the_diff(tmp_path: Path) -> None:
    for name in ("mode", "empty"):
        (tmp_path / name).touch(0o600)
    shown = decided(tmp_path, {"path": "/mode", "content": ""}, {"path": "/empty"}, {"path": "/new", "content": ""}).diff()
    assert [(item["before"], item["after"]) for item in shown] == [
        ("/mode (mode 0600)\n", "/mode (mode 0644)\n"), ("/empty (mode 0600)\n", "/empty (absent)\n"), ("/new (absent)\n", "/new (mode 0644)\n"),
    ]


def test_an_empty_folder_behind_a_link_out_of_the_root_stays(tmp_path: Path) -> None:
    root, outside = tmp_path / "root", tmp_path / "outside"
    (outside / "inferops-locality").mkdir(parents=True)
    root.mkdir()
    (root / "etc").symlink_to(outside)
    files = boot_files.Files(SysRoot(str(root)))
    files.apply()
    assert (outside / "inferops-locality").is_dir()


def test_a_folder_that_is_a_link_inside_the_root_is_followed(tmp_path: Path) -> None:
    (tmp_path / "usr/etc").mkdir(parents=True)
    (tmp_path / "etc").symlink_to("usr/etc")
    decided(tmp_path, {"path": "/etc/x", "content": "x"}, {"path": "/etc/l", "link": "x"}).apply()
    assert listing(tmp_path / "usr") == {"etc/l": "-> x", "etc/x": "x"}
