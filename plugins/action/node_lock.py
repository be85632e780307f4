# Copyright (c) 2026 The inferops.locality authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Action plugin of node_lock: knows which run this is, and which runs of this machine have ended. The module does the rest."""

from __future__ import annotations

from typing import Any

from ansible.plugins.action import ActionBase

from ansible_collections.inferops.locality.plugins.plugin_utils import run_id

MODULE = "inferops.locality.node_lock"


class ActionModule(ActionBase):
    """Take, renew and release the lock for a node's turn."""

    TRANSFERS_FILES = False
    _supports_check_mode = True
    _supports_async = False
    _supports_diff = False

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        result: dict[str, Any] = super().run(tmp, task_vars)
        del tmp
        args = dict(self._task.args)
        args["holder"] = args.get("holder") or run_id.current()
        answer = self._execute_module(module_name=MODULE, module_args=args, task_vars=task_vars)
        ended = [holder for holder in answer.get("holders") or [] if run_id.has_ended(holder)]
        # One that a run of this machine left behind when it was killed need not be waited for.
        if answer.get("failed") and ended:
            args["take_from"] = [*(args.get("take_from") or []), *ended]
            answer = self._execute_module(module_name=MODULE, module_args=args, task_vars=task_vars)
        result.update(answer)
        return result
