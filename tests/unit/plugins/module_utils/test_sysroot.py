# Copyright (c) 2026 The inferops.locality authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import Iterator

import pytest

from ansible_collections.inferops.locality.plugins.module_utils.sysroot import SysRoot


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    root = tmp_path / "node"
    (root / "sys/devices/a/b").mkdir(parents=True)
    (root / "etc").mkdir()
    return root


def reasons(node: SysRoot) -> list[str]:
    return [problem["reason"] for problem in node.problems]


def test_absent_is_none_without_a_problem(tree: Path) -> None:
    node = SysRoot(str(tree))
    assert node.text("/sys/nothing") is None
    assert node.text("/no/such/folder/file") is None
    assert node.listdir("/no/such") == []
    assert not node.exists("/sys/nothing")
    assert node.problems == []
    assert node.reads["/sys/nothing"] == "absent"


@pytest.mark.parametrize(
    "content, text", [(b"1\n", "1"), (b"", ""), (b"00000003\n\0\0\0", "00000003"), (b"\0\0", ""), (b" a b \n\n", " a b")]
)
def test_text_drops_padding(tree: Path, content: bytes, text: str) -> None:
    (tree / "etc/f").write_bytes(content)
    assert SysRoot(str(tree)).text("/etc/f") == text


def test_garbled_content_is_a_problem_and_none(tree: Path) -> None:
    (tree / "etc/binary").write_bytes(b"\xff\xfe\x80")
    (tree / "etc/word").write_text("seven\n")
    (tree / "etc/list").write_text("3-1\n")
    (tree / "etc/mask").write_text("xyz\n")
    (tree / "etc/folder").mkdir()
    node = SysRoot(str(tree))
    assert node.text("/etc/binary") is None
    assert node.integer("/etc/word") is None
    assert node.cpu_list("/etc/list") is None
    assert node.cpu_mask("/etc/mask") is None
    assert node.text("/etc/folder") is None
    assert [problem["file"] for problem in node.problems] == ["/etc/binary", "/etc/word", "/etc/list", "/etc/mask", "/etc/folder"]


def test_numbers_and_sets(tree: Path) -> None:
    for name, content in {"d": "-1\n", "h": "0x10de\n", "e": "\n", "l": "0-1,4\n", "n": "        (null)\n", "m": "0000000f\n"}.items():
        (tree / "etc" / name).write_text(content)
    node = SysRoot(str(tree))
    assert (node.integer("/etc/d"), node.integer("/etc/h"), node.integer("/etc/e")) == (-1, 0x10DE, None)
    assert node.cpu_list("/etc/l") == {0, 1, 4}
    assert node.cpu_list("/etc/n") == frozenset()
    assert node.cpu_mask("/etc/m") == {0, 1, 2, 3}
    assert node.problems == []


def test_names_that_are_no_text_are_passed_over_with_a_problem(tree: Path) -> None:
    (tree / os.fsdecode(b"etc/x\xff.conf")).write_text("1\n")
    (tree / "etc/caf\u00e9.conf").write_text("1\n", encoding="utf-8")
    os.symlink(os.fsdecode(b"x\xff.conf"), tree / "etc/link")
    node = SysRoot(str(tree))
    assert node.listdir("/etc") == ["caf\u00e9.conf", "link"]
    assert node.readlink("/etc/link") == "x\\xff.conf"
    assert node.problems == [{"file": "/etc", "reason": "holds names that are not UTF-8, which are passed over: 'x\\xff.conf'"}]


def test_a_problem_is_noted_once(tree: Path) -> None:
    (tree / "etc/word").write_text("seven")
    node = SysRoot(str(tree))
    node.integer("/etc/word")
    node.integer("/etc/word")
    assert len(node.problems) == 1


def test_links_are_followed_inside_the_root(tree: Path) -> None:
    (tree / "sys/devices/a/b/f").write_text("in")
    (tree / "sys/bus").mkdir()
    (tree / "sys/bus/b").symlink_to("../devices/a/b")
    (tree / "etc/absolute").symlink_to("/sys/bus/b/f")
    node = SysRoot(str(tree))
    assert node.text("/sys/bus/b/f") == "in"
    assert node.text("/etc/absolute") == "in"
    assert node.realpath("/etc/absolute") == "/sys/devices/a/b/f"
    assert node.readlink("/sys/bus/b") == "../devices/a/b"
    assert node.listdir("/sys/bus/b") == ["f"]
    assert node.is_dir("/sys/bus/b") and not node.is_dir("/etc/absolute")
    assert node.problems == []


@pytest.mark.parametrize("target", ["/etc/hostname", "../../secret", "../../../../../../../etc/hostname"])
@pytest.mark.parametrize("link", ["etc/leaf", "etc/folder"])
def test_a_link_that_leaves_the_root_is_never_followed(tree: Path, link: str, target: str) -> None:
    (tree.parent / "secret").write_text("outside")
    (tree / link).symlink_to(target)
    node = SysRoot(str(tree))
    assert node.text(f"/{link}") is None
    assert node.text(f"/{link}/below") is None
    assert node.listdir(f"/{link}") == []
    assert any("leaves the root" in reason and target in reason for reason in reasons(node))


def test_loops_end(tree: Path) -> None:
    (tree / "etc/a").symlink_to("b")
    (tree / "etc/b").symlink_to("a")
    (tree / "etc/self").symlink_to("self/x")
    node = SysRoot(str(tree))
    assert node.text("/etc/a") is None
    assert node.text("/etc/self/x/y") is None
    assert not node.exists("/etc/a")


def test_a_write_through_a_link_out_of_the_root_is_named(tree: Path, tmp_path: Path) -> None:
    (tree / "etc/systemd").symlink_to("/etc/systemd")
    (tree / "etc/inner").symlink_to("../sys")
    node = SysRoot(str(tree))
    assert "leaves the root" in (node.escapes("/etc/systemd/system/x.conf") or "")
    assert node.escapes("/etc/inner/x.conf") is None
    assert node.escapes("/etc/new/folder/x.conf") is None
    assert SysRoot("/").escapes("/etc/x") is None


def test_limits_and_special_files(tree: Path) -> None:
    (tree / "etc/big").write_bytes(b"x" * 200000)
    os.mkfifo(tree / "etc/fifo")
    node = SysRoot(str(tree))
    assert node.data("/etc/big", 100000) is None
    assert len(node.data("/etc/big", 200000) or b"") == 200000
    assert node.text("/etc/fifo") is None
    assert reasons(node) == ["is larger than 100000 bytes", "is not a regular file"]


@contextlib.contextmanager
def unprivileged() -> Iterator[None]:
    """Root reads everything, so it steps down for a moment."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)


def test_unreadable_is_a_problem(tree: Path) -> None:
    (tree / "etc/closed").write_text("x")
    (tree / "etc/closed").chmod(0)
    with unprivileged():
        node = SysRoot(str(tree))
        assert node.text("/etc/closed") is None
        assert node.listdir("/etc/closed") == []
    # Which part of the way is closed depends on who made the temporary folder.
    assert set(reasons(node)) == {"cannot be read: Permission denied"}
