# Copyright (c) 2026 The inferops.locality authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Unpacks snapshot archives on the controller. An archive comes from a node or from a bug report and is not trusted."""

from __future__ import annotations

import bz2
import gzip
import lzma
import os
import shutil
import tarfile
import tempfile
import zlib
from pathlib import Path
from typing import IO, Any, Callable

MAX_FILES = 200_000
MAX_BYTES = 512 * 2**20


# By the first bytes of a file; the streams read it as they go.
_COMPRESSED: tuple[tuple[bytes, Callable[[Any], Any]], ...] = (
    (b"\x1f\x8b", lambda raw: gzip.GzipFile(fileobj=raw)),
    (b"BZh", bz2.BZ2File),
    (b"\xfd7zXZ\0", lzma.LZMAFile),
)

# What lies at the top of a node's file system, as far as the facts modules read it.
_TOP = frozenset(("boot", "etc", "lib", "proc", "run", "sys", "usr", "var", ".locality"))


class ArchiveError(ValueError):
    """An archive that is not unpacked. The text names the archive and the member."""


class _Bounded:
    """A stream that ends with an error instead of growing without end (headers of an archive may claim any size)."""

    def __init__(self, stream: IO[bytes], limit: int) -> None:
        self._stream = stream
        self._left = limit

    def read(self, size: int = -1) -> bytes:
        data = self._stream.read(self._left + 1 if size < 0 else min(size, self._left + 1))
        self._left -= len(data)
        if self._left < 0:
            raise ArchiveError("holds more than may be unpacked")
        return data


def unpack(archive: str | os.PathLike[str], target: str | os.PathLike[str], max_files: int = MAX_FILES, max_bytes: int = MAX_BYTES) -> None:
    """Unpack a snapshot (tar, plain or compressed with gzip, bzip2 or xz) into a folder that is not there yet.

    Folders, files and symbolic links that stay within the archive are taken (and links to ``/dev/null``, which mask a unit). All else
    is refused, and then nothing is written: absolute names, ``..``, links that leave, hard links, devices, names that come
    twice, more than ``max_files`` members or ``max_bytes`` unpacked. Links are made last, so that nothing is written through one.

    :raises ArchiveError: the archive is refused or cannot be read, or the target exists.
    """
    archive, target = Path(archive), Path(target)
    if target.exists() or target.is_symlink():
        raise ArchiveError(f"{target}: exists already, nothing is unpacked over it")
    temporary = Path(tempfile.mkdtemp(dir=target.parent, prefix=".unpack-"))
    try:
        _unpack(archive, temporary, max_files, max_bytes)
        temporary.chmod(0o755)
        temporary.rename(target)
    except ArchiveError as error:
        raise ArchiveError(f"{archive}: {error}") from error
    except (OSError, tarfile.TarError, EOFError, zlib.error, lzma.LZMAError, ValueError, OverflowError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error) or type(error).__name__
        raise ArchiveError(f"{archive}: is not an archive that can be unpacked: {reason}") from error
    finally:
        if temporary.exists():
            shutil.rmtree(temporary, ignore_errors=True)


def top(folder: str | os.PathLike[str]) -> Path:
    """The folder in which the node's ``/`` lies: the one given, or the only folder in it, which many tools wrap around a tree."""
    folder = Path(folder)
    names = {entry.name for entry in folder.iterdir()}
    if not names & _TOP and len(names) == 1:
        inner = folder / names.pop()
        if inner.is_dir() and not inner.is_symlink():
            return inner
    return folder


def leaving(folder: str | os.PathLike[str]) -> list[tuple[str, str]]:
    """Links of a folder that leave it, as (name, target), wherever they lie. No link is followed.

    An absolute target counts from the folder, as it would on the node; where nothing is there, it can only mean this machine.
    """
    found = []
    for here, folders, files in os.walk(folder):
        for name in (*folders, *files):
            path = os.path.join(here, name)
            if not os.path.islink(path):
                continue
            target, inside = os.readlink(path), os.path.relpath(path, folder)
            if target.startswith("/"):
                leaves = target != "/dev/null" and not os.path.lexists(os.path.join(folder, target.lstrip("/")))
            else:
                leaves = os.path.normpath(os.path.join(os.path.dirname(inside), target)).split("/", 1)[0] == ".."
            if leaves:
                found.append((inside, target))
    return sorted(found)


def _unpack(archive: Path, folder: Path, max_files: int, max_bytes: int) -> None:
    links: dict[str, str] = {}
    seen: set[str] = set()
    with archive.open("rb") as raw:
        start = raw.read(6)
        raw.seek(0)
        stream: IO[bytes] = next((opened(raw) for magic, opened in _COMPRESSED if start.startswith(magic)), raw)
        # headers and padding are read through the same stream: room for them beside the contents
        bounded = _Bounded(stream, max_bytes + 2048 * max_files)
        size = 0
        with tarfile.open(fileobj=bounded, mode="r|") as tar:  # type: ignore[call-overload]
            for count, member in enumerate(tar, start=1):
                name = _name(member.name)
                if count > max_files:
                    raise ArchiveError(f"holds more than {max_files} members")
                size += member.size
                if size > max_bytes:
                    raise ArchiveError(f"'{name}' brings it above {max_bytes} bytes")
                if name == ".":
                    continue
                if member.isdir():
                    if name in links:
                        raise ArchiveError(f"'{name}' comes twice")
                    _folder(folder, name)
                    continue
                if name in seen:
                    raise ArchiveError(f"'{name}' comes twice")
                seen.add(name)
                if member.issym():
                    links[name] = _target(name, member.linkname)
                elif member.isreg() and not member.issparse():
                    _file(folder, name, tar.extractfile(member), member.mode)
                else:
                    kind = "a hard link" if member.islnk() else "a sparse file" if member.issparse() else "a device or another special file"
                    raise ArchiveError(f"'{name}' is {kind}")
    _links(folder, links)


def _name(name: str) -> str:
    if name.startswith("/"):
        raise ArchiveError(f"'{name[:200]}' is an absolute name")
    parts = [part for part in name.split("/") if part not in ("", ".")]
    if ".." in parts:
        raise ArchiveError(f"'{name[:200]}' leaves the archive")
    if "\0" in name:
        raise ArchiveError("a name holds a NUL")
    return "/".join(parts) or "."


def _folder(folder: Path, name: str) -> Path:
    path = folder / name
    path.mkdir(parents=True, exist_ok=True)
    return path


def _file(folder: Path, name: str, content: IO[bytes] | None, mode: int) -> None:
    _folder(folder, os.path.dirname(name))
    with (folder / name).open("xb") as stream:
        if content is not None:
            shutil.copyfileobj(content, stream)
    # that a file may not be written says something; all other bits do not
    (folder / name).chmod(0o644 if mode & 0o222 else 0o444)


def _target(name: str, target: str) -> str:
    if target == "/dev/null":
        return target
    if target.startswith("/"):
        raise ArchiveError(f"'{name}' is a link that leaves the archive: to '{target[:200]}'")
    depth = name.count("/")
    for part in target.split("/"):
        depth += -1 if part == ".." else 0 if part in ("", ".") else 1
        if depth < 0:
            raise ArchiveError(f"'{name}' is a link that leaves the archive: to '{target[:200]}'")
    return target


def _links(folder: Path, links: dict[str, str]) -> None:
    """Make the links, then follow each: over another link a path can leave that does not look like it."""
    for name in links:
        parts = name.split("/")
        if any("/".join(parts[:depth]) in links for depth in range(1, len(parts))):
            raise ArchiveError(f"'{name}' lies below a link")
        # all folders before the first link, so that none is made through one
        _folder(folder, os.path.dirname(name))
    for name, target in sorted(links.items()):
        try:
            (folder / name).symlink_to(target)
        except FileExistsError as error:
            raise ArchiveError(f"'{name}' comes twice") from error
    top = os.path.realpath(folder)
    for name, target in links.items():
        real = os.path.realpath(os.path.join(folder, name))
        if target != "/dev/null" and real != top and not real.startswith(top + os.sep) and real != "/dev/null":
            raise ArchiveError(f"'{name}' is a link that leaves the archive: to '{target[:200]}'")


__all__ = ("MAX_BYTES", "MAX_FILES", "ArchiveError", "leaving", "top", "unpack")
