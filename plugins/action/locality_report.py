# Copyright (c) 2026 The inferops.locality authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Action locality_report: prints the summary of a run on the controller."""

from __future__ import annotations

import getpass
import os
import socket
from datetime import datetime, timezone
from typing import Any

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase
from ansible.utils.display import Display

from ansible_collections.inferops.locality.plugins.plugin_utils import record, record_files, report, runtime

display = Display()


class ActionModule(ActionBase):
    """Needs no connection: everything it prints is handed to it."""

    _supports_check_mode = True
    _supports_diff = False
    TRANSFERS_FILES = False

    def run(self, tmp: Any = None, task_vars: Any = None) -> dict[str, Any]:
        """Print the lines; write the records where they are wanted."""
        super().run(tmp, task_vars)
        _unused, args = self.validate_argument_spec({
            "results": {"type": "dict", "required": True},
            "style": {"type": "str", "choices": list(report.STYLES), "default": "table"},
            "record": {"type": "str"},
            "layers": {"type": "list", "elements": "str", "choices": list(report.LAYERS), "default": list(report.LAYERS)},
            "started": {"type": "str"},
        })
        lines = report.lines(args["results"], args["style"])
        summary = report.summary(args["results"])
        # A debug task would print this as one quoted text.
        display.display("\n".join(lines))
        result: dict[str, Any] = {"changed": False, "summary": summary, "count": report.count_line(args["results"], args["style"])}
        folders = {host: item["records_dir"] for host, item in args["results"].items() if item.get("records_dir")}
        if args["record"] and folders:
            result.update(changed=True, record=args["record"])
            if not self._task.check_mode:
                files = record_files.Files(args["record"], folders)
                run = _run(files.name, args["started"], args["layers"])
                files.write({**run, **summary}, lambda host: record.host_record(host, args["results"][host], run))
                result.update(record=files.name, records=files.summaries)
                if files.errors:
                    raise AnsibleActionFail("; ".join(files.errors))
        return result


def _run(name: str, started: str | None, layers: list[str]) -> dict[str, Any]:
    return {
        "run": name, "by": f"{_user()}@{socket.gethostname()}", "started": started, "layers": layers,
        "ended": datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"), "collection": runtime.version(),
    }


def _user() -> str:
    try:
        return os.environ.get("SUDO_USER") or getpass.getuser()
    except (KeyError, OSError):
        # In a container, say, whose user has no name.
        return str(os.getuid())
