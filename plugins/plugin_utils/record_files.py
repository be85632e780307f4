# Copyright (c) 2026 The inferops.locality authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Where records lie on the controller, and how they come there: each under a name of its own, none over another."""

from __future__ import annotations

import errno
import json
import os
import re
from typing import Any, Callable, Mapping

from ansible_collections.inferops.locality.plugins.plugin_utils import whole_file


def folder(value: str, inventory_dir: str | None) -> str:
    """``locality_records_dir`` of a host as an absolute path.

    :param inventory_dir: of the host, to which a relative path is relative, whatever folder the run was started in. None: its inventory is no file, and the
        folder of the run is meant.
    """
    return os.path.normpath(os.path.join(inventory_dir or os.getcwd(), os.path.expanduser(os.path.expandvars(value))))


def file_name(host: str) -> str:
    """A host's name for a file or a folder. A name of the inventory may be any text; what of it would lead out of a folder is written as in a URL."""
    return re.sub(r"^[.]", "%2E", re.sub(r"[%/\x00-\x1f]", lambda found: f"%{ord(found[0]):02X}", host))


def of_host(records_dir: str, host: str, name: str) -> str:
    """The file of a host's record."""
    return os.path.join(records_dir, file_name(host), f"{name}.json")


def of_run(records_dir: str, name: str) -> str:
    """The file of a run's summary."""
    return os.path.join(records_dir, f"{name}.json")


class Files:
    """The files of a run: its summary in each folder, and the record of each host in the host's own.

    :ivar name: the name of the run, with a number if another run has the one that was asked for. :ivar errors: what could not be written, and why.
    """

    def __init__(self, name: str, folders: Mapping[str, str]) -> None:
        """Take a name that no run has in any of the folders.

        :param folders: host to its folder.
        """
        self.errors: list[str] = []
        self._folders = dict(folders)
        self._hosts: dict[str, list[str]] = {}
        for host, where in folders.items():
            self._hosts.setdefault(where, []).append(host)
        self.name, number = name, 1
        while not self._take():
            number += 1
            self.name = f"{name}-{number}"

    @property
    def summaries(self) -> list[str]:
        """The summary's files."""
        return [of_run(where, self.name) for where in self._hosts]

    def write(self, summary: Mapping[str, Any], of: Callable[[str], Mapping[str, Any]]) -> None:
        """Fill them. A folder that cannot be written to costs the others nothing. :param of: a host's record."""
        for where, hosts in self._hosts.items():
            for host in hosts:
                self._fill(of_host(where, host, self.name), of(host))
            self._fill(of_run(where, self.name), summary)

    def _take(self) -> bool:
        made: list[str] = []
        self.errors = []
        broken = []
        for where, hosts in self._hosts.items():
            mine: list[str] = []
            try:
                # The summary first: it is what two runs at once contend for.
                for path in (of_run(where, self.name), *(of_host(where, host, self.name) for host in hosts)):
                    _make_folder(os.path.dirname(path))
                    os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o640))
                    mine.append(path)
            except FileExistsError:
                _remove([*made, *mine])
                return False
            except OSError as error:
                _remove(mine)
                broken.append(where)
                self.errors.append(f"the records below {where} cannot be written: {error.filename}: {error.strerror}")
            else:
                made += mine
        for where in broken:
            del self._hosts[where]
        return True

    def _fill(self, path: str, value: Mapping[str, Any]) -> None:
        try:
            # Over the empty file that is ours.
            whole_file.write(path, (json.dumps(_keyed(value), indent=1, sort_keys=True, default=str) + "\n").encode("utf-8"), 0o640)
        except OSError as error:
            self.errors.append(f"the record {path} cannot be written: {error.strerror}")


def _make_folder(path: str) -> None:
    try:
        os.makedirs(path, mode=0o750, exist_ok=True)
    except FileExistsError as error:
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), path) from error


def _remove(paths: list[str]) -> None:
    for path in paths:
        os.unlink(path)


def _keyed(value: Any) -> Any:
    """With texts as keys. A refused policy has whatever YAML makes: numbers beside texts, dates."""
    if isinstance(value, Mapping):
        return {str(key): _keyed(item) for key, item in value.items()}
    return [_keyed(item) for item in value] if isinstance(value, list) else value


__all__ = ("Files", "file_name", "folder", "of_host", "of_run")
