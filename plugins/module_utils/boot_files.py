# Copyright (c) 2026 The inferops.locality authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Files of a boot loader, with the folders that go with them."""

from __future__ import annotations

from typing import Dict, List, Optional

from ansible_collections.inferops.locality.plugins.module_utils import knobs, node_files


class BootError(node_files.FilesError):
    """Boot arguments that cannot be written, with the reason; nothing was changed, or what was is as before.

    :ivar foreign: ``{"token", "file", "line"}`` of the arguments of others that are in the way.
    """

    def __init__(self, message: str, foreign: Optional[List[Dict[str, object]]] = None) -> None:
        super().__init__(message)
        self.foreign = foreign or []


class Files(node_files.Files):
    """Changes to the files of a boot loader."""

    error = BootError
    # Ours alone, or missed by nobody when they are empty.
    folders = (
        f"{knobs.DIR_STATE}/boot/originals/etc/default/grub.d", f"{knobs.DIR_STATE}/boot/originals/etc/default", f"{knobs.DIR_STATE}/boot/originals/etc",
        f"{knobs.DIR_STATE}/boot/originals", f"{knobs.DIR_STATE}/boot", knobs.DIR_STATE, f"/etc/{knobs.OWNER}", "/etc/systemd/system.conf.d",
        "/etc/systemd/system/sysinit.target.d",
    )


__all__ = ("BootError", "Files")
