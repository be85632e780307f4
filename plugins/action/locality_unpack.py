# Copyright (c) 2026 The inferops.locality authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Action locality_unpack: gives a snapshot as a folder of the controller."""

from __future__ import annotations

import os
import tempfile
from typing import Any

from ansible import constants as C
from ansible.plugins.action import ActionBase

from ansible_collections.inferops.locality.plugins.plugin_utils import archives


class ActionModule(ActionBase):
    """Needs no connection. What it unpacks lies in the temporary folder of this run, which is removed at its end."""

    TRANSFERS_FILES = False
    _requires_connection = False
    _supports_check_mode = True
    _supports_diff = False

    def run(self, tmp: Any = None, task_vars: Any = None) -> dict[str, Any]:
        """Returns the folder; one that is given is returned as it is, if no link leaves it."""
        result: dict[str, Any] = super().run(tmp, task_vars)
        _checked, arguments = self.validate_argument_spec({"src": {"type": "path", "required": True}})
        src = os.path.abspath(arguments["src"])
        host = (task_vars or {}).get("inventory_hostname", "localhost")
        result["changed"] = False
        if os.path.isdir(src):
            if not os.access(src, os.R_OK | os.X_OK):
                return {**result, "failed": True, "msg": f"{host}: snapshot: the folder {src} may not be read"}
            top = str(archives.top(src))
            # The controller's own / is no snapshot, and all its links lie within it.
            links = archives.leaving(top) if top != "/" else []
            if links:
                told = ", ".join(f"'{name}' -> '{target[:200]}'" for name, target in links[:8]) + (f" and {len(links) - 8} more" if len(links) > 8 else "")
                return {**result, "failed": True, "msg": f"{host}: snapshot: the folder {src} holds links that leave it: {told}"}
            return {**result, "path": top}
        if not os.path.exists(src):
            return {**result, "failed": True, "msg": f"{host}: snapshot: {src} does not exist; wanted a folder or an archive"}
        target = os.path.join(tempfile.mkdtemp(prefix="snapshot-", dir=C.DEFAULT_LOCAL_TMP), "node")
        try:
            archives.unpack(src, target)
        except archives.ArchiveError as error:
            return {**result, "failed": True, "msg": f"{host}: snapshot: {error}"}
        return {**result, "path": str(archives.top(target))}
