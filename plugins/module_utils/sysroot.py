# Copyright (c) 2026 The inferops.locality authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Opens the files of a node, live or below another root. Nothing else in this collection does.

Every file of a node that cannot be had is a value of its own, never an exception: an absent file is None, an unreadable or
garbled one is None and an entry in ``problems``. Paths are those of the node (``/sys/...``), whatever the root.
"""

from __future__ import annotations

import errno
import json
import os
import stat
from typing import Callable, Dict, List, Optional, Tuple

from ansible_collections.inferops.locality.plugins.module_utils import cpulist

# The largest file a node has for us is /proc/interrupts of a machine with many CPUs (some 40 MB at 2,000 CPUs).
DEFAULT_LIMIT = 64 * 2**20
_MAX_LINKS = 40

# In a snapshot: what it holds, and which files could not be read on the node.
MANIFEST = "/.locality/manifest.json"

# Files of a running kernel whose being unreadable says nothing new: they are not there for this kernel or this device, or
# have no value now (the speed of a network interface that is down: EINVAL), or their process has ended (ESRCH).
_ABSENT = (errno.ENOENT, errno.ENOTDIR, errno.ENODEV, errno.ENXIO, errno.EINVAL, errno.EOPNOTSUPP, errno.ESRCH)


class _Escape(Exception):
    pass


class SysRoot:
    """The files of one node.

    :ivar root: directory in which the node's ``/`` lies; ``/`` is the running machine.
    :ivar problems: ``{"file", "reason"}`` of everything that was there and could not be used.
    :ivar reads: node path to ``file``, ``dir``, ``link`` or ``absent``: what was looked at, which is what a snapshot holds.
    """

    def __init__(self, root: str = "/") -> None:
        self.root = os.path.abspath(root)
        self.live = self.root == "/"
        self._base = "" if self.live else self.root
        self.problems: List[Dict[str, str]] = []
        self.reads: Dict[str, str] = {}
        self._dirs: Dict[str, Optional[str]] = {"/": "/"}
        self._seen: set[Tuple[str, str]] = set()
        self._unreadable: Dict[str, str] = {} if self.live else self._known_unreadable()

    def _known_unreadable(self) -> Dict[str, str]:
        """Files whose content a snapshot does not hold because the node could not read them, with the node's reasons."""
        try:
            handle = os.open(self._base + MANIFEST, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
            with os.fdopen(handle, "rb") as stream:
                found = json.loads(stream.read(2**24))["unreadable"]
            return {str(path): str(reason)[:200] for path, reason in found.items()}
        except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
            return {}

    def problem(self, file: str, reason: str) -> None:
        """Note once that a file cannot be used."""
        file, reason = _printable(file), _printable(reason)
        if (file, reason) not in self._seen:
            self._seen.add((file, reason))
            self.problems.append({"file": file, "reason": reason})

    # -- where a path really lies

    def on_host(self, path: str) -> str:
        """Where a path without links lies on this machine."""
        return self._base + path

    def _resolve(self, path: str, links: int = 0) -> Optional[str]:
        """The node path behind all symbolic links, or None where nothing is; links are followed inside the root only.

        An absolute target counts from the root, as it would on the node.
        """
        parent, name = os.path.split(os.path.normpath(path))
        if not name:
            return "/"
        if parent in self._dirs:
            directory = self._dirs[parent]
        else:
            self._dirs[parent] = None
            directory = self._dirs[parent] = self._resolve(parent, links)
        if directory is None:
            return None
        here = (directory if directory != "/" else "") + "/" + name
        try:
            target = os.readlink(self._base + here)
        except OSError as error:
            if error.errno == errno.EINVAL:
                return here
            if error.errno not in _ABSENT:
                self.problem(here, f"cannot be read: {os.strerror(error.errno) if error.errno else error}")
            return None
        self.reads.setdefault(here, "link")
        return self._follow(here, target, links)

    def _follow(self, here: str, target: str, links: int) -> Optional[str]:
        if links >= _MAX_LINKS:
            self.problem(here, "too many symbolic links")
            return None
        if not target.startswith("/"):
            depth = here.count("/") - 1
            level = depth
            for part in target.split("/"):
                if part == "..":
                    level -= 1
                elif part not in ("", "."):
                    level += 1
                if level < 0 and not self.live:
                    raise _Escape(f"symbolic link leaves the root: {here} -> {target}")
            target = os.path.normpath(os.path.join(os.path.dirname(here), target))
            return self._resolve(target, links + 1)
        resolved = self._resolve(os.path.normpath(target), links + 1)
        if not self.live and (resolved is None or not os.path.lexists(self._base + resolved)) and target != "/dev/null":
            raise _Escape(f"symbolic link leaves the root: {here} -> {target}")
        return resolved

    def realpath(self, path: str) -> Optional[str]:
        """Node path behind all links; None where nothing is, or where a link leaves the root (a problem then)."""
        try:
            resolved = self._resolve(path)
        except _Escape as error:
            self.problem(path, str(error))
            return None
        if resolved is None or not os.path.lexists(self._base + resolved):
            return None
        return resolved

    def _host_path(self, path: str) -> Optional[str]:
        """Path on this machine with no symbolic link left in its directories; None where the directory is not there."""
        parent, name = os.path.split(path)
        directory = self._dirs.get(parent)
        if directory is None:
            if parent in self._dirs:
                return None
            try:
                directory = self._resolve(parent)
            except _Escape as error:
                self.problem(path, str(error))
                directory = None
            self._dirs[parent] = directory
            if directory is None:
                return None
        return f"{self._base}{directory if directory != '/' else ''}/{name}"

    def escapes(self, path: str) -> Optional[str]:
        """Why writing to this path with ordinary tools would leave the root, or None.

        Ordinary tools (Ansible's copy and template) follow an absolute link out of the root, also where the node would not.
        """
        if self.live:
            return None
        real_root = os.path.realpath(self.root)
        real = os.path.realpath(self._base + path)
        if real == real_root or real.startswith(real_root.rstrip("/") + "/") or real == "/dev/null":
            return None
        return f"a symbolic link on the way to {path} leaves the root: it would be written to {real}"

    def place(self, path: str) -> str:
        """Where a path lies on this machine by whatever links its folder is named, there or not; for paths that do not leave the root."""
        folder, name = os.path.split(path)
        return os.path.join(os.path.realpath(self._base + folder), name)

    # -- reading

    def data(self, path: str, limit: int = DEFAULT_LIMIT) -> Optional[bytes]:
        """Content of a file, at most ``limit`` bytes; None where it is absent, or unreadable (a problem then)."""
        if path in self._unreadable:
            self.problem(path, self._unreadable[path])
            return None
        host = self._host_path(path)
        if host is None:
            self.reads.setdefault(path, "absent")
            return None
        try:
            handle = os.open(host, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
        except OSError as error:
            if error.errno == errno.ELOOP:
                target = self.realpath(path)
                if target is None or target == path:
                    self.reads.setdefault(path, "absent")
                    return None
                self.reads[path] = "link"
                return self.data(target, limit)
            self._failed(path, error)
            return None
        try:
            mode = os.fstat(handle).st_mode
            if not stat.S_ISREG(mode):
                self.problem(path, "is a directory, not a file" if stat.S_ISDIR(mode) else "is not a regular file")
                return None
            chunks: List[bytes] = []
            size = 0
            while size <= limit:
                chunk = os.read(handle, min(65536 if size < 65536 else 2**20, limit + 1 - size))
                if not chunk:
                    break
                chunks.append(chunk)
                size += len(chunk)
        except OSError as error:
            self._failed(path, error)
            return None
        finally:
            os.close(handle)
        self.reads[path] = "file"
        if size > limit:
            self.problem(path, f"is larger than {limit} bytes")
            return None
        return b"".join(chunks)

    def _failed(self, path: str, error: OSError) -> None:
        if error.errno in _ABSENT:
            self.reads.setdefault(path, "absent")
            return
        self.reads.setdefault(path, "file")
        self.problem(path, f"cannot be read: {os.strerror(error.errno) if error.errno else error}")

    def text(self, path: str, limit: int = DEFAULT_LIMIT) -> Optional[str]:
        """Text of a file without NULs and without the white space at its end (old kernels pad sysfs files with NULs)."""
        raw = self.data(path, limit)
        if raw is None:
            return None
        if b"\0" in raw:
            raw = raw.replace(b"\0", b"")
        try:
            return raw.decode("utf-8").rstrip()
        except UnicodeDecodeError:
            self.problem(path, "is not UTF-8 text")
            return None

    def integer(self, path: str) -> Optional[int]:
        """Decimal or 0x number in a file; None where it is absent or empty, or garbled (a problem then)."""
        value = self.text(path, 4096)
        if not value:
            return None
        try:
            return int(value, 16) if value[:2] in ("0x", "0X") else int(value)
        except ValueError:
            self.problem(path, f"holds '{value[:40]}', wanted a number")
            return None

    def cpu_list(self, path: str) -> Optional[cpulist.CpuSet]:
        """CPU list in a file; None where it is absent or garbled (a problem then). ``(null)`` of old kernels is empty."""
        return self._cpus(path, cpulist.from_list)

    def cpu_mask(self, path: str) -> Optional[cpulist.CpuSet]:
        """CPU mask in a file; None where it is absent or garbled (a problem then)."""
        return self._cpus(path, cpulist.from_mask)

    def _cpus(self, path: str, read: Callable[[str], cpulist.CpuSet]) -> Optional[cpulist.CpuSet]:
        value = self.text(path, 2**20)
        if value is None:
            return None
        value = value.strip()
        if value == "(null)":
            return cpulist.EMPTY
        try:
            return read(value)
        except cpulist.CpuListError as error:
            self.problem(path, str(error)[:200])
            return None

    def listdir(self, path: str) -> List[str]:
        """Sorted names in a directory; empty where it is absent, or unreadable (a problem then)."""
        if path in self._unreadable:
            self.problem(path, self._unreadable[path])
            return []
        host = self._directory(path)
        if host is None:
            self.reads.setdefault(path, "absent")
            return []
        try:
            found = sorted(os.listdir(host))
        except OSError as error:
            if error.errno not in _ABSENT:
                self.problem(path, f"cannot be listed: {os.strerror(error.errno) if error.errno else error}")
            self.reads.setdefault(path, "absent")
            return []
        self.reads[path] = "dir"
        names = [name for name in found if _printable(name) == name]
        if len(names) != len(found):
            # A name that is no text can neither be reported nor be one of ours; facts with it would be refused as a whole.
            odd = ", ".join(f"'{_printable(name)}'" for name in found if name not in names)
            self.problem(path, f"holds names that are not UTF-8, which are passed over: {odd[:200]}")
        return names

    def _directory(self, path: str) -> Optional[str]:
        path = os.path.normpath(path)
        if path not in self._dirs:
            self._dirs[path] = None
            try:
                self._dirs[path] = self._resolve(path)
            except _Escape as error:
                self.problem(path, str(error))
        directory = self._dirs[path]
        return None if directory is None else self._base + directory if directory != "/" else self.root

    def folders(self, path: str) -> List[str]:
        """Sorted names of the directories in a directory, links left out; cheap where it holds many files. Empty where it is absent or unreadable."""
        host = self._directory(path)
        try:
            with os.scandir(host or "") as entries:
                return sorted(entry.name for entry in entries if _printable(entry.name) == entry.name and entry.is_dir(follow_symlinks=False))
        except OSError as error:
            if error.errno not in _ABSENT:
                self.problem(path, f"cannot be listed: {os.strerror(error.errno) if error.errno else error}")
            return []

    def exists(self, path: str) -> bool:
        """Whether something is at the path, links followed."""
        return self.realpath(path) is not None

    def is_dir(self, path: str) -> bool:
        """Whether a directory is at the path, links followed."""
        host = self._directory(path)
        return host is not None and os.path.isdir(host)

    def mode(self, path: str) -> Optional[int]:
        """Permission bits of what is at the path, links followed; None where nothing is."""
        resolved = self.realpath(path)
        try:
            return None if resolved is None else stat.S_IMODE(os.stat(self._base + resolved).st_mode)
        except OSError:
            return None

    def readlink(self, path: str, raw: bool = False) -> Optional[str]:
        """Text of a symbolic link, which is not followed; None where there is none.

        :param raw: as :func:`os.symlink` takes it, also where it is not UTF-8.
        """
        host = self._host_path(path)
        if host is None:
            return None
        try:
            target = os.readlink(host)
        except OSError:
            return None
        self.reads[path] = "link"
        return target if raw else _printable(target)


def _printable(text: str) -> str:
    """The text with what is not UTF-8 in it (file names may hold any bytes) as ``\\xff``."""
    return text if text.isascii() else os.fsencode(text).decode("utf-8", "backslashreplace")


__all__ = ("DEFAULT_LIMIT", "MANIFEST", "SysRoot")
