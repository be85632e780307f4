# Copyright (c) 2026 The inferops.locality authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Action benchmark_report: compares recorded runs on the controller."""

from __future__ import annotations

import json
import os
from typing import Any

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase
from ansible.utils.display import Display

from ansible_collections.inferops.locality.plugins.plugin_utils import benchmark, benchmark_svg, whole_file

display = Display()


class ActionModule(ActionBase):
    """Needs no connection."""

    TRANSFERS_FILES = False
    _requires_connection = False
    _supports_check_mode = True
    _supports_diff = True

    def run(self, tmp: Any = None, task_vars: Any = None) -> dict[str, Any]:
        """Print the report, and write what of it is not written yet."""
        result: dict[str, Any] = super().run(tmp, task_vars)
        _checked, arguments = self.validate_argument_spec({"src": {"type": "path", "required": True}, "dest": {"type": "path"}})
        src = os.path.abspath(arguments["src"])
        dest = os.path.abspath(arguments["dest"] or src)
        try:
            found = benchmark.read(src)
        except (benchmark.BenchmarkError, OSError) as error:
            raise AnsibleActionFail(f"benchmark: {error}") from error
        lines = benchmark.text(found)
        # A debug task would print this as one quoted text.
        display.display("\n".join(lines))
        wanted = {
            "report.txt": "\n".join(lines) + "\n",
            "report.json": json.dumps(found, indent=1) + "\n",
            "report.svg": benchmark_svg.picture(found),
        }
        stale = {name: _content(os.path.join(dest, name)) for name in wanted}
        stale = {name: before for name, before in stale.items() if before != wanted[name]}
        if stale and not self._task.check_mode:
            try:
                os.makedirs(dest, exist_ok=True)
                for name in stale:
                    whole_file.write(os.path.join(dest, name), wanted[name].encode("utf-8"), 0o644)
            except OSError as error:
                raise AnsibleActionFail(f"benchmark: the report cannot be written to {dest}: {error}; give another folder as dest") from error
        if self._task.diff:
            result["diff"] = [
                {"before_header": os.path.join(dest, name), "after_header": os.path.join(dest, name), "before": before or "", "after": wanted[name]}
                for name, before in stale.items() if name != "report.svg"
            ]
        return {**result, "changed": bool(stale), "results": found, "files": [os.path.join(dest, name) for name in wanted]}


def _content(path: str) -> str | None:
    try:
        with open(path, encoding="utf-8") as file:
            return file.read()
    except (OSError, UnicodeDecodeError):
        return None
