# Copyright (c) 2026 The inferops.locality authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Files of a node: decided together, written one by one so that each is always whole, and taken back together.

A machine may lose power at any moment here, so each file is written beside its place, forced to the disk and renamed.
"""

from __future__ import annotations

import os
import stat
import tempfile
from dataclasses import dataclass
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple, Type

from ansible_collections.inferops.locality.plugins.module_utils.sysroot import SysRoot


class FilesError(Exception):
    """Files that cannot be read or written, with the reason; nothing was changed, or what was is as before."""


@dataclass(frozen=True, eq=False)
class Entry:
    """What is at a path: a file, a symbolic link, or with neither nothing.

    :ivar mode: permission bits of the file. :ivar link: target of the link as it is written.
    """

    data: Optional[bytes] = None
    mode: int = 0o644
    link: Optional[str] = None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Entry) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def _key(self) -> Tuple[Any, ...]:
        return (self.data, self.link, self.mode if self.data is not None else None)

    @property
    def absent(self) -> bool:
        """Whether nothing is there."""
        return self.data is None and self.link is None

    def shown(self) -> str:
        """The content for a diff."""
        return f"-> {self.link}\n" if self.link is not None else (self.data or b"").decode("utf-8", "replace")

    def header(self, path: str) -> str:
        """The path for a diff, with what its content does not say."""
        if self.absent:
            return f"{path} (absent)"
        return path if self.link is not None else f"{path} (mode {self.mode:04o})"


class Files:
    """Changes to files that were decided and not yet made.

    A path that ``own`` was told of is ours alone: a link there is replaced. Else links are followed.
    """

    # Raised for a file that cannot be read or written.
    error: Type[FilesError] = FilesError
    # Folders that are removed when nothing is left in them.
    folders: Tuple[str, ...] = ()

    def __init__(self, sysroot: SysRoot) -> None:
        self._sysroot = sysroot
        self._wanted: Dict[str, Entry] = {}
        self._before: Dict[str, Entry] = {}
        self._owned: List[str] = []
        self._kept: List[str] = []

    # -- reading

    def read(self, path: str) -> Optional[bytes]:
        """Content of a file before any change; None where there is none.

        :raises FilesError: it is there and cannot be read.
        """
        return self._entry(path).data

    def _entry(self, path: str) -> Entry:
        if path not in self._before:
            link = self._sysroot.readlink(path) if path in self._owned else None
            data = None if link is not None else self._sysroot.data(path)
            if data is None and link is None and (self._sysroot.exists(path) or os.path.lexists(self._sysroot.on_host(path))):
                reason = next((problem["reason"] for problem in self._sysroot.problems if problem["file"] == path), "cannot be read")
                raise self.error(f"{path} {reason}")
            mode = None if link is not None else self._sysroot.mode(path)
            self._before[path] = Entry(data, 0o644 if mode is None else mode, link)
        return self._before[path]

    def text(self, path: str) -> Optional[str]:
        """The same as text.

        :raises FilesError: it cannot be read, or is not UTF-8.
        """
        data = self.read(path)
        try:
            return None if data is None else data.decode("utf-8")
        except UnicodeDecodeError:
            raise self.error(f"{path} is not UTF-8 text") from None

    # -- deciding

    def write(self, path: str, text: str, mode: Optional[int] = None) -> None:
        """Decide a file's content; without a mode it keeps the one it has, or gets 0644."""
        self.put(path, text.encode("utf-8"), mode)

    def put(self, path: str, data: Optional[bytes], mode: Optional[int] = None) -> None:
        """Decide a file's content; None removes it."""
        before = self._entry(path)
        self._decide(path, Entry(data, before.mode if mode is None else mode))

    def remove(self, path: str) -> None:
        """Decide that a file goes."""
        self.put(path, None)

    def own(self, path: str, entry: Entry) -> None:
        """Decide what is at a path that is ours alone.

        :raises FilesError: a folder is there, or a file where a link is wanted, which somebody else wrote.
        """
        if path not in self._owned:
            self._owned.append(path)
        before = self._entry(path)
        if entry.link is not None and before.data is not None:
            raise self.error(f"{path} is a file of somebody else, wanted a link to {entry.link}: move the file away, or give what is in it another place")
        self._decide(path, entry)

    def unlink(self, path: str, target: str) -> None:
        """Decide that a link goes, if it points to ``target``; whatever else is there stays."""
        if self._sysroot.readlink(path) == target:
            self.own(path, Entry())

    def _decide(self, path: str, entry: Entry) -> None:
        reason = self._sysroot.escapes(os.path.dirname(path) if path in self._owned else path)
        if reason:
            raise self.error(reason)
        self._wanted[path] = entry

    def wanted(self, path: str) -> Optional[bytes]:
        """Content of a file after the changes."""
        return self._wanted[path].data if path in self._wanted else self.read(path)

    def keep(self, path: str) -> None:
        """Remember a file that a command is going to change, for ``undo``."""
        self.read(path)
        if path not in self._kept:
            self._kept.append(path)

    def changed(self) -> List[str]:
        """The paths whose content, target or mode is to change, in the order of deciding."""
        return [path for path, wanted in self._wanted.items() if wanted != self._before[path]]

    def present(self) -> List[str]:
        """Those of them at which something is to be."""
        return [path for path in self.changed() if not self._wanted[path].absent]

    def diff(self) -> List[Dict[str, str]]:
        """The changes as Ansible shows them."""
        found = []
        for path in self.changed():
            before, after = self._before[path], self._wanted[path]
            found.append({
                "before_header": before.header(path), "after_header": after.header(path), "before": before.shown(), "after": after.shown(),
            })
        return found

    # -- acting

    def apply(self) -> None:
        """Make the changes.

        :raises FilesError: one could not be made; those before it are taken back.
        """
        done: List[str] = []
        try:
            for path in self.changed():
                done.append(path)
                self._set(path, self._wanted[path])
        except OSError as error:
            for path in reversed(done[:-1]):
                self._set(path, self._before[path])
            raise self.error(f"{done[-1]} cannot be written: {error.strerror}") from None
        self._tidy()

    def undo(self) -> None:
        """Put back every file that was changed here, and those that a command changed."""
        fresh = SysRoot(self._sysroot.root)
        for path in [*reversed(self.changed()), *self._kept]:
            if path not in self._kept or fresh.data(path) != self._before[path].data:
                self._set(path, self._before[path])
        self._tidy()

    def _place(self, path: str) -> str:
        """Where a change is made on this machine."""
        if path in self._owned:
            folder, name = os.path.split(path)
            return os.path.join(self._sysroot.on_host(self._sysroot.realpath(folder) or folder), name)
        return self._sysroot.on_host(self._sysroot.realpath(path) or path)

    def _set(self, path: str, entry: Entry) -> None:
        place = self._place(path)
        folder = os.path.dirname(place)
        if entry.absent:
            if os.path.lexists(place):
                os.unlink(place)
                _force_folder(folder)
            return
        os.makedirs(folder, mode=0o755, exist_ok=True)
        if entry.link is not None:
            temporary = os.path.join(folder, f".inferops-locality-{os.getpid()}")
            os.symlink(entry.link, temporary)
        else:
            handle, temporary = tempfile.mkstemp(dir=folder, prefix=".inferops-locality-")
        try:
            if entry.link is None:
                with os.fdopen(handle, "wb") as stream:
                    stream.write(entry.data or b"")
                    stream.flush()
                    self._own_like(place, stream.fileno(), entry.mode)
                    os.fsync(stream.fileno())
            os.replace(temporary, place)
        except BaseException:
            os.unlink(temporary)
            raise
        _force_folder(folder)

    @staticmethod
    def _own_like(place: str, handle: int, mode: int) -> None:
        try:
            os.fchmod(handle, mode)
            found = os.lstat(place)
            if os.geteuid() == 0 and stat.S_ISREG(found.st_mode):
                os.fchown(handle, found.st_uid, found.st_gid)
        except OSError:
            # No file there yet, or FAT, which has neither modes nor owners.
            return

    def _tidy(self) -> None:
        for folder in self.folders:
            try:
                os.rmdir(self._sysroot.on_host(folder))
            except OSError:
                continue


def _force_folder(folder: str) -> None:
    """A rename is on the disk when its folder is (fsync(2))."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def decide(files: Files, items: Sequence[Mapping[str, Any]]) -> None:
    """Decide the files of a role.

    :param items: ``{"path", "content", "link", "unlink", "mode"}``: a file with this content, a link to ``link``, a link that goes if it points to
        ``unlink``; with none of the three nothing is to be there.
    :raises FilesError: with everything that is wrong, one reason after the other.
    """
    reasons = []
    seen: Dict[str, Mapping[str, Any]] = {}
    for item in items:
        path = item["path"]
        try:
            if not path.startswith("/") or os.path.normpath(path) != path or path == "/":
                raise FilesError(f"path: found '{path}', wanted the absolute path of a file without '..' and double slashes")
            if path in seen:
                raise FilesError(f"{path} is listed twice")
            seen[path] = item
            given = [key for key in ("content", "link", "unlink") if item.get(key) is not None]
            if len(given) > 1:
                raise FilesError(f"{path}: found {' and '.join(given)}, wanted one of them")
            if item.get("unlink") is not None:
                files.unlink(path, item["unlink"])
            elif item.get("link") is not None:
                files.own(path, Entry(link=item["link"]))
            else:
                content = item.get("content")
                files.own(path, Entry(None if content is None else content.encode("utf-8"), _mode(item.get("mode"))))
        except FilesError as error:
            reasons.append(str(error))
    if reasons:
        raise FilesError("; ".join(reasons))


def _mode(text: Optional[str]) -> int:
    try:
        mode = int(text or "0644", 8)
    except ValueError:
        mode = -1
    if not 0 <= mode <= 0o777:
        raise FilesError(f"mode: found '{text}', wanted permission bits in octal, as '0644'")
    return mode


__all__ = ("Entry", "Files", "FilesError", "decide")
