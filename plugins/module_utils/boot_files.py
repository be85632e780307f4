# Copyright (c) 2026 The inferops.locality authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Files of a boot loader: decided together, written one by one so that each is always whole, and taken back together.

A machine may lose power at any moment here, so each file is written beside its place, forced to the disk and renamed.
"""

from __future__ import annotations

import os
import tempfile
from typing import Dict, List, Optional, Tuple

from ansible_collections.inferops.locality.plugins.module_utils import knobs
from ansible_collections.inferops.locality.plugins.module_utils.sysroot import SysRoot

# Folders that are ours alone, or that nobody misses when they are empty.
_OWN_FOLDERS: Tuple[str, ...] = (
    f"{knobs.DIR_STATE}/boot/originals/etc/default/grub.d", f"{knobs.DIR_STATE}/boot/originals/etc/default", f"{knobs.DIR_STATE}/boot/originals/etc",
    f"{knobs.DIR_STATE}/boot/originals", f"{knobs.DIR_STATE}/boot", knobs.DIR_STATE, f"/etc/{knobs.OWNER}", "/etc/systemd/system.conf.d",
    "/etc/systemd/system/sysinit.target.d",
)


class BootError(Exception):
    """Boot arguments that cannot be written, with the reason; nothing was changed, or what was is as before.

    :ivar foreign: ``{"token", "file", "line"}`` of the arguments of others that are in the way.
    """

    def __init__(self, message: str, foreign: Optional[List[Dict[str, object]]] = None) -> None:
        super().__init__(message)
        self.foreign = foreign or []


class Files:
    """Changes to files that were decided and not yet made.

    :ivar touched: paths that ``keep`` was told of: commands change them, ``undo`` brings them back.
    """

    def __init__(self, sysroot: SysRoot) -> None:
        self._sysroot = sysroot
        self._base = "" if sysroot.root == "/" else sysroot.root
        self._wanted: Dict[str, Tuple[Optional[bytes], int]] = {}
        self._before: Dict[str, Tuple[Optional[bytes], int]] = {}
        self._kept: List[str] = []

    def read(self, path: str) -> Optional[bytes]:
        """Content of a file before any change; None where there is none.

        :raises BootError: it is there and cannot be read.
        """
        if path not in self._before:
            data = self._sysroot.data(path)
            if data is None and (self._sysroot.exists(path) or os.path.lexists(self._base + path)):
                reason = next((problem["reason"] for problem in self._sysroot.problems if problem["file"] == path), "cannot be read")
                raise BootError(f"{path} {reason}")
            mode = self._sysroot.mode(path)
            self._before[path] = (data, 0o644 if mode is None else mode)
        return self._before[path][0]

    def text(self, path: str) -> Optional[str]:
        """The same as text.

        :raises BootError: it cannot be read, or is not UTF-8.
        """
        data = self.read(path)
        try:
            return None if data is None else data.decode("utf-8")
        except UnicodeDecodeError:
            raise BootError(f"{path} is not UTF-8 text") from None

    def write(self, path: str, text: str, mode: Optional[int] = None) -> None:
        """Decide a file's content; without a mode it keeps the one it has, or gets 0644."""
        self.put(path, text.encode("utf-8"), mode)

    def put(self, path: str, data: Optional[bytes], mode: Optional[int] = None) -> None:
        """Decide a file's content; None removes it."""
        self.read(path)
        reason = self._sysroot.escapes(path)
        if reason:
            raise BootError(reason)
        self._wanted[path] = (data, self._before[path][1] if mode is None else mode)

    def remove(self, path: str) -> None:
        """Decide that a file goes."""
        self.put(path, None)

    def wanted(self, path: str) -> Optional[bytes]:
        """Content of a file after the changes."""
        return self._wanted[path][0] if path in self._wanted else self.read(path)

    def keep(self, path: str) -> None:
        """Remember a file that a command is going to change, for ``undo``."""
        self.read(path)
        if path not in self._kept:
            self._kept.append(path)

    def changed(self) -> List[str]:
        """The paths whose content or mode is to change, in the order of deciding."""
        return [path for path, wanted in self._wanted.items() if wanted[0] != self._before[path][0] or (wanted[0] is not None and wanted != self._before[path])]

    def diff(self) -> List[Dict[str, str]]:
        """The changes as Ansible shows them."""
        found = []
        for path in self.changed():
            before, after = self._before[path][0], self._wanted[path][0]
            found.append({
                "before_header": path if before is not None else f"{path} (absent)", "after_header": path if after is not None else f"{path} (absent)",
                "before": (before or b"").decode("utf-8", "replace"), "after": (after or b"").decode("utf-8", "replace"),
            })
        return found

    def apply(self) -> None:
        """Make the changes.

        :raises BootError: one could not be made; those before it are taken back.
        """
        done: List[str] = []
        try:
            for path in self.changed():
                done.append(path)
                self._set(path, *self._wanted[path])
        except OSError as error:
            for path in reversed(done[:-1]):
                self._set(path, *self._before[path])
            raise BootError(f"{done[-1]} cannot be written: {error.strerror}") from None
        self._tidy()

    def undo(self) -> None:
        """Put back every file that was changed here, and those that a command changed."""
        fresh = SysRoot(self._sysroot.root)
        for path in [*reversed(self.changed()), *self._kept]:
            if fresh.data(path) != self._before[path][0] or path not in self._kept:
                self._set(path, *self._before[path])
        self._tidy()

    def _set(self, path: str, data: Optional[bytes], mode: int) -> None:
        target = self._base + (self._sysroot.realpath(path) or path)
        if data is None:
            if os.path.lexists(target):
                os.unlink(target)
                _force_folder(os.path.dirname(target))
            return
        os.makedirs(os.path.dirname(target), mode=0o755, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=os.path.dirname(target), prefix=".inferops-locality-")
        try:
            with os.fdopen(handle, "wb") as stream:
                stream.write(data)
                stream.flush()
                self._own_like(target, stream.fileno(), mode)
                os.fsync(stream.fileno())
            os.replace(temporary, target)
        except BaseException:
            os.unlink(temporary)
            raise
        _force_folder(os.path.dirname(target))

    @staticmethod
    def _own_like(target: str, handle: int, mode: int) -> None:
        try:
            os.fchmod(handle, mode)
            found = os.stat(target)
            if os.geteuid() == 0:
                os.fchown(handle, found.st_uid, found.st_gid)
        except OSError:
            # No file there yet, or FAT, which has neither modes nor owners.
            return

    def _tidy(self) -> None:
        """Remove folders that only we had files in."""
        for folder in _OWN_FOLDERS:
            try:
                os.rmdir(self._base + folder)
            except OSError:
                continue


def _force_folder(folder: str) -> None:
    """A rename is on the disk when its folder is (fsync(2))."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


__all__ = ("BootError", "Files")
