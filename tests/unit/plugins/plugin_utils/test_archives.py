# Copyright (c) 2026 The inferops.locality authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Archives that are not trusted: what is taken, and that a refused one leaves nothing behind."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import os
import tarfile
from pathlib import Path
from typing import Any, Callable

import pytest

from ansible_collections.inferops.locality.plugins.plugin_utils import archives


def member(name: str, kind: bytes = tarfile.REGTYPE, content: bytes = b"x", **more: Any) -> tuple[tarfile.TarInfo, bytes]:
    info = tarfile.TarInfo(name)
    info.type = kind
    info.size = len(content) if kind == tarfile.REGTYPE else 0
    for key, value in more.items():
        setattr(info, key, value)
    return info, content


def link(name: str, target: str) -> tuple[tarfile.TarInfo, bytes]:
    return member(name, tarfile.SYMTYPE, linkname=target)


def folder(name: str) -> tuple[tarfile.TarInfo, bytes]:
    return member(name, tarfile.DIRTYPE)


def packed(tmp_path: Path, *members: tuple[tarfile.TarInfo, bytes], compress: bool = True) -> Path:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.GNU_FORMAT) as tar:
        for info, content in members:
            tar.addfile(info, io.BytesIO(content) if info.isreg() else None)
    path = tmp_path / "snapshot.tar.gz"
    path.write_bytes(gzip.compress(buffer.getvalue()) if compress else buffer.getvalue())
    return path


@pytest.mark.parametrize("compress", [True, False])
def test_folders_files_and_links_are_taken(tmp_path: Path, compress: bool) -> None:
    archive = packed(
        tmp_path, folder("./"), folder("sys/empty"), member("./sys/a", content=b"1\n"), member("proc/irq/1/mask", mode=0o444),
        link("etc/x.service", "/dev/null"),
        link("sys/class/net/eth0", "../../devices/eth0"), member("sys/devices/eth0/mtu", content=b"9000\n"), link("dangling", "not/there"), compress=compress,
    )
    target = tmp_path / "out"
    archives.unpack(archive, target)
    assert (target / "sys/class/net/eth0/mtu").read_bytes() == b"9000\n"
    assert (target / "sys/empty").is_dir()
    assert os.readlink(target / "etc/x.service") == "/dev/null"
    assert [(target / name).stat().st_mode & 0o777 for name in ("sys/a", "proc/irq/1/mask")] == [0o644, 0o444]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out", "snapshot.tar.gz"]


HOSTILE = {
    "absolute name": ([member("/etc/passwd")], "'/etc/passwd' is an absolute name"),
    "name that climbs": ([member("a/../../x")], r"'a/../../x' leaves the archive"),
    "name that climbs and comes back": ([member("a/../b")], r"'a/../b' leaves the archive"),
    "link to an absolute path": ([link("a", "/etc/passwd")], "'a' is a link that leaves the archive: to '/etc/passwd'"),
    "link that climbs": ([link("a/b", "../../x")], "'a/b' is a link that leaves the archive"),
    "link that climbs in its middle": ([link("a", "b/../../c/x")], "'a' is a link that leaves the archive"),
    "link that leaves over another": ([link("p/q/up", "../.."), link("out", "p/q/up/..")], "'out' is a link that leaves the archive"),
    "file written through a link": ([link("a", "b"), member("a/x"), folder("b")], "'a' comes twice"),
    "folder made through a link": ([link("p/up", ".."), link("a", "p/up/.."), link("a/evil/x", "y")], "'a/evil/x' lies below a link"),
    "file in place of a link": ([link("a", "b"), member("a")], "'a' comes twice"),
    "link in place of a file": ([member("a"), link("a", "b")], "'a' comes twice"),
    "folder in place of a link": ([link("a", "b"), folder("a")], "'a' comes twice"),
    "file twice": ([member("a"), member("./a")], "'a' comes twice"),
    "hard link": ([member("a", tarfile.LNKTYPE, linkname="/etc/passwd")], "'a' is a hard link"),
    "character device": ([member("a", tarfile.CHRTYPE)], "'a' is a device or another special file"),
    "block device": ([member("a", tarfile.BLKTYPE)], "'a' is a device or another special file"),
    "pipe": ([member("a", tarfile.FIFOTYPE)], "'a' is a device or another special file"),
    "file below a file": ([member("a"), member("a/b")], "can be unpacked: File exists"),
    "name too long for a file": ([member("a" * 300)], "can be unpacked: File name too long"),
    "too many": ([member(f"f{index}") for index in range(11)], "holds more than 10 members"),
    "too large": ([member("a", content=bytes(600)), member("b", content=bytes(600))], "'b' brings it above 1000 bytes"),
}


@pytest.mark.parametrize("members, reason", HOSTILE.values(), ids=HOSTILE)
def test_hostile_archive_is_refused_and_leaves_nothing(tmp_path: Path, members: list, reason: str) -> None:
    home = tmp_path / "home"
    home.mkdir()
    archive = packed(home, *members)
    with pytest.raises(archives.ArchiveError, match=reason) as caught:
        archives.unpack(archive, home / "out", max_files=10, max_bytes=1000)
    assert str(caught.value).startswith(str(archive))
    assert [path.name for path in home.iterdir()] == ["snapshot.tar.gz"]
    assert [path.name for path in tmp_path.iterdir()] == ["home"]


def _claims_a_huge_header(data: bytes) -> bytes:
    info = tarfile.TarInfo("x")
    info.type, info.size = tarfile.XHDTYPE, 2**40
    return info.tobuf(tarfile.GNU_FORMAT) + data


BROKEN: dict[str, tuple[Callable[[bytes], bytes], str]] = {
    "no archive": (lambda data: b"hello", "is not an archive"),
    "empty": (lambda data: b"", "is not an archive"),
    "cut": (lambda data: gzip.compress(data)[:60], "is not an archive"),
    "cut within a file": (lambda data: data[:700], "is not an archive"),
    "broken compression": (lambda data: b"\x1f\x8b\x08\0" + bytes(30), "is not an archive"),
    "header of a terabyte": (_claims_a_huge_header, "is not an archive|holds more"),
    "bomb": (lambda data: gzip.compress(_claims_a_huge_header(bytes(2**23))), "is not an archive|holds more"),
}


@pytest.mark.parametrize("spoil, reason", BROKEN.values(), ids=BROKEN)
def test_broken_archive_is_refused_and_leaves_nothing(tmp_path: Path, spoil: Callable[[bytes], bytes], reason: str) -> None:
    archive = packed(tmp_path, member("a", content=bytes(400)), compress=False)
    archive.write_bytes(spoil(archive.read_bytes()))
    with pytest.raises(archives.ArchiveError, match=reason):
        archives.unpack(archive, tmp_path / "out", max_files=10, max_bytes=2**20)
    assert [path.name for path in tmp_path.iterdir()] == ["snapshot.tar.gz"]


def test_target_that_exists_stays(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    with pytest.raises(archives.ArchiveError, match="exists already"):
        archives.unpack(packed(tmp_path, member("a")), tmp_path / "out")
    (tmp_path / "link").symlink_to("nowhere")
    with pytest.raises(archives.ArchiveError, match="exists already"):
        archives.unpack(packed(tmp_path, member("a")), tmp_path / "link")


def test_archive_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(archives.ArchiveError, match="No such file"):
        archives.unpack(tmp_path / "absent.tar.gz", tmp_path / "out")


@pytest.mark.parametrize("compress", [bz2.compress, lzma.compress], ids=["bzip2", "xz"])
def test_other_compressions_are_known_by_their_first_bytes(tmp_path: Path, compress: Callable[[bytes], bytes]) -> None:
    archive = packed(tmp_path, member("sys/a", content=b"1\n"), compress=False)
    archive.write_bytes(compress(archive.read_bytes()))
    archives.unpack(archive, tmp_path / "out")
    assert (tmp_path / "out/sys/a").read_bytes() == b"1\n"


@pytest.mark.parametrize(
    "there, wanted",
    [(["sys", "proc"], "."), (["machine/sys"], "machine"), (["machine/other"], "machine"), (["sys"], "."), (["a/sys", "b/sys"], "."), ([], ".")],
)
def test_a_folder_wrapped_around_a_tree_is_not_the_tree(tmp_path: Path, there: list[str], wanted: str) -> None:
    for name in there:
        (tmp_path / name).mkdir(parents=True)
    assert archives.top(tmp_path) == tmp_path / wanted


@pytest.mark.parametrize(
    ("name", "target", "leaves"),
    [
        ("etc/deep/x", "../../../x", True), ("x", "..", True), ("etc/x", "/etc/not-here", True), ("etc/x", "deep/../../../x", True),
        ("etc/deep/x", "../../sys", False), ("x", "not/there", False), ("etc/x", "/etc/deep", False), ("etc/x", "/dev/null", False), ("x", ".", False),
    ],
)
def test_links_of_a_folder_that_leave_it_are_found_anywhere(tmp_path: Path, name: str, target: str, leaves: bool) -> None:
    (tmp_path / "etc/deep").mkdir(parents=True)
    (tmp_path / name).symlink_to(target)
    assert archives.leaving(tmp_path) == ([(name, target)] if leaves else [])


def test_a_link_is_no_wrapping_folder(tmp_path: Path) -> None:
    (tmp_path / "node").mkdir()
    (tmp_path / "node/away").symlink_to("/")
    assert archives.top(tmp_path / "node") == tmp_path / "node"
