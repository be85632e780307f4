# Copyright (c) 2026 The inferops.locality authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Files of a node: decided together, written one by one so that each is always whole, and taken back together.

A machine may lose power at any moment here, so each file is written beside its place, forced to the disk and renamed.
"""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from dataclasses import dataclass, field
from typing import AbstractSet, Any, Dict, Iterable, List, Mapping, Optional, Sequence, Tuple, Type

from ansible_collections.inferops.locality.plugins.module_utils import knobs
from ansible_collections.inferops.locality.plugins.module_utils.sysroot import SysRoot


class FilesError(Exception):
    """Files that cannot be read or written, with the reason; nothing was changed, or what was is as before.

    :ivar left: paths that could not be put back, which the message names with the reasons; empty where all is as before.
    """

    left: Tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class Entry:
    """What is at a path: a file, a symbolic link, or with neither nothing.

    :ivar mode: permission bits of the file. :ivar link: target of the link as it is written. :ivar owner: user and group of a file that was found.
    """

    data: Optional[bytes] = None
    mode: int = 0o644
    link: Optional[str] = None
    owner: Optional[Tuple[int, int]] = field(default=None, repr=False)

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
        if self.link is not None:
            return f"-> {os.fsencode(self.link).decode('utf-8', 'backslashreplace')}\n"
        return (self.data or b"").decode("utf-8", "replace")

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
        self.sysroot = sysroot
        self._wanted: Dict[str, Entry] = {}
        self._before: Dict[str, Entry] = {}
        self._owned: List[str] = []
        self._kept: List[str] = []
        # Folders on this machine that did not exist before.
        self._made: List[str] = []

    # -- reading

    def read(self, path: str) -> Optional[bytes]:
        """Content of a file before any change; None where there is none.

        :raises FilesError: it is there and cannot be read.
        """
        return self._entry(path).data

    def _entry(self, path: str) -> Entry:
        if path not in self._before:
            link = self.sysroot.readlink(path, raw=True) if path in self._owned else None
            data = None if link is not None else self.sysroot.data(path)
            if data is None and link is None and (self.sysroot.exists(path) or os.path.lexists(self.sysroot.on_host(path))):
                reason = next((problem["reason"] for problem in self.sysroot.problems if problem["file"] == path), "cannot be read")
                raise self.error(f"{path} {reason}")
            self._before[path] = self._found(path, data, link)
        return self._before[path]

    def _found(self, path: str, data: Optional[bytes], link: Optional[str]) -> Entry:
        if data is None:
            return Entry(link=link)
        try:
            found = os.lstat(self._place(path))
        except OSError as error:
            raise self.error(f"{path} was changed while it was read: {error.strerror}") from None
        return Entry(data, stat.S_IMODE(found.st_mode), None, (found.st_uid, found.st_gid))

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

        :raises FilesError: a folder is there, or a file where a link is wanted, which somebody else wrote; or it cannot be written, as far as that can be
            told before.
        """
        if path not in self._owned:
            self._owned.append(path)
        before = self._entry(path)
        if entry.link is not None and before.data is not None:
            raise self.error(f"{path} is a file of somebody else, wanted a link to {entry.link}: move the file away, or give what is in it another place")
        self._decide(path, entry)
        obstacle = None if entry == before else self._obstacle(path)
        if obstacle:
            del self._wanted[path]
            raise self.error(f"{path} cannot be {'removed' if entry.absent else 'written'}: {obstacle}")

    def _obstacle(self, path: str) -> Optional[str]:
        """What is in the way of a change, as far as it can be told without making it."""
        place = self._place(path)
        folder, above = os.path.dirname(place), os.path.dirname(path)
        while not os.path.lexists(folder):
            folder, above = os.path.dirname(folder), os.path.dirname(above)
        if not os.path.lexists(f"{folder}/."):
            return f"{above} is {'a link that leads to no folder' if _kind(folder) == stat.S_IFLNK else 'a file'}, wanted a folder"
        if os.statvfs(folder).f_flag & os.ST_RDONLY:
            return f"{above} is on a file system that is mounted read-only"
        if not os.access(folder, os.W_OK | os.X_OK):
            return f"{above} may not be written to (see its mode, and lsattr -d)"
        # For root this is false where the file is immutable.
        if os.geteuid() == 0 and _kind(place) == stat.S_IFREG and not os.access(place, os.W_OK):
            return "it may not be changed (see lsattr)"
        return None

    def unlink(self, path: str, target: str) -> None:
        """Decide that a link goes, if it points to ``target``; whatever else is there stays."""
        if self.sysroot.readlink(path) == target:
            self.own(path, Entry())

    def _decide(self, path: str, entry: Entry) -> None:
        reason = self.sysroot.escapes(os.path.dirname(path) if path in self._owned else path)
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
            headers, texts = (before.header(path), after.header(path)), (before.shown(), after.shown())
            if texts[0] == texts[1]:
                # Ansible shows a diff by its lines: mode and absence must be among them.
                texts = (f"{headers[0]}\n", f"{headers[1]}\n")
            found.append({"before_header": headers[0], "after_header": headers[1], "before": texts[0], "after": texts[1]})
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
            # The last one too: it may have failed when it was there already.
            left = self._put_back(reversed(done))
            text = f"{done[-1]} cannot be {'removed' if self._wanted[done[-1]].absent else 'written'}: {error.strerror}"
            raise self._failure(text, left) from None
        self._tidy()

    def undo(self) -> None:
        """Put back every file that was changed here, and those that a command changed.

        :raises FilesError: not all could be put back.
        """
        fresh = SysRoot(self.sysroot.root)
        left = self._put_back(
            path for path in [*reversed(self.changed()), *self._kept] if path not in self._kept or fresh.data(path) != self._before[path].data)
        self._tidy()
        if left:
            raise self._failure("", left)

    def undone(self, reason: str) -> FilesError:
        """Put everything back; the error to raise, which says whether that was done."""
        try:
            self.undo()
        except FilesError as error:
            failure = self.error(f"{reason}; {error}")
            failure.left = error.left
            return failure
        return self.error(f"{reason}. All files are as before")

    def _put_back(self, paths: Iterable[str]) -> Dict[str, str]:
        """The paths for which that failed, with the reasons. Folders that were made for them go."""
        left = {}
        for path in paths:
            try:
                self._set(path, self._before[path])
            except OSError as error:
                left[path] = error.strerror or str(error)
        while self._made:
            with suppress(OSError):
                os.rmdir(self._made.pop())
        return left

    def _failure(self, text: str, left: Mapping[str, str]) -> FilesError:
        error = self.error("; ".join([*([text] if text else []), *(f"{path} could NOT be put back: {reason}" for path, reason in left.items())]))
        error.left = tuple(left)
        return error

    def _place(self, path: str) -> str:
        """Where a change is made on this machine."""
        if path in self._owned:
            folder, name = os.path.split(path)
            return os.path.join(self.sysroot.on_host(self.sysroot.realpath(folder) or folder), name)
        return self.sysroot.on_host(self.sysroot.realpath(path) or path)

    def _set(self, path: str, entry: Entry) -> None:
        place = self._place(path)
        folder, name = os.path.split(place)
        # The same at each run, so that one that was killed leaves nothing for good. No program takes it for a file of its own: its ending is not theirs.
        temporary = os.path.join(folder, f".{name[:200]}.{knobs.OWNER}")
        if entry.absent:
            for there in (temporary, place):
                if os.path.lexists(there):
                    os.unlink(there)
                    _force_folder(folder)
            return
        self._make(folder)
        with suppress(FileNotFoundError):
            os.unlink(temporary)
        try:
            if entry.link is not None:
                os.symlink(entry.link, temporary)
            else:
                handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
                with os.fdopen(handle, "wb") as stream:
                    stream.write(entry.data or b"")
                    stream.flush()
                    self._own_like(place, stream.fileno(), entry)
                    os.fsync(stream.fileno())
            os.replace(temporary, place)
        except BaseException:
            with suppress(OSError):
                os.unlink(temporary)
            raise
        _force_folder(folder)

    def _make(self, folder: str) -> None:
        """Make a folder and those above it, on the disk as well."""
        if os.path.lexists(folder):
            return
        above = os.path.dirname(folder)
        self._make(above)
        try:
            os.mkdir(folder, 0o755)
        except FileExistsError:
            # Somebody else made it at this moment.
            return
        self._made.append(folder)
        _force_folder(above)

    @staticmethod
    def _own_like(place: str, handle: int, entry: Entry) -> None:
        try:
            os.fchmod(handle, entry.mode)
            owner = entry.owner
            if owner is None:
                found = os.lstat(place)
                owner = (found.st_uid, found.st_gid) if stat.S_ISREG(found.st_mode) else None
            if owner is not None and os.geteuid() == 0:
                os.fchown(handle, *owner)
        except OSError:
            # No file there yet, or FAT, which has neither modes nor owners.
            return

    def _tidy(self) -> None:
        for folder in self.folders:
            # Where it really lies: a link may lead out of the root.
            real = self.sysroot.realpath(folder)
            if real is not None:
                with suppress(OSError):
                    os.rmdir(self.sysroot.on_host(real))


def _kind(place: str) -> int:
    """Type of what is there, of a link its own; 0 where nothing is."""
    try:
        return stat.S_IFMT(os.lstat(place).st_mode)
    except OSError:
        return 0


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
    seen: Dict[str, str] = {}
    listed = {item["path"] for item in items}
    for item in items:
        path = item["path"]
        try:
            _check(item, listed)
            place = files.sysroot.place(path)
            if place in seen:
                raise FilesError(f"{path} is listed twice" if seen[place] == path else f"{path} and {seen[place]} are one file, by a link: list it once")
            seen[place] = path
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


def _check(item: Mapping[str, Any], listed: AbstractSet[str]) -> None:
    path: str = item["path"]
    # Two slashes at the beginning are a root of its own for POSIX, and stay.
    if not path.startswith("/") or path.startswith("//") or os.path.normpath(path) != path or path == "/":
        raise FilesError(f"path: found '{_shown(path)}', wanted the absolute path of a file without '..' and double slashes")
    for key in ("path", "content", "link", "unlink"):
        text = item.get(key)
        if text is not None and (not _is_text(text) or ("\0" in text and key != "content")):
            raise FilesError(f"{_shown(path)}: {key} is not UTF-8 text" + ("" if key == "content" else " without NULs"))
    if item.get("link") == "":
        raise FilesError(f"{path}: link: found '', wanted the target of a symbolic link")
    above = os.path.dirname(path)
    while above != "/":
        if above in listed:
            raise FilesError(f"{path} lies below {above}, which is listed as a file")
        above = os.path.dirname(above)


def _is_text(text: str) -> bool:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def _shown(text: str) -> str:
    return text if _is_text(text) and "\0" not in text else ascii(text)[1:-1]


def _mode(text: Optional[str]) -> int:
    try:
        mode = int(text or "0644", 8)
    except ValueError:
        mode = -1
    if not 0 <= mode <= 0o777:
        raise FilesError(f"mode: found '{text}', wanted permission bits in octal, as '0644'")
    return mode


__all__ = ("Entry", "Files", "FilesError", "decide")
