# Copyright (c) 2026 The inferops.locality authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Action locality_report: prints the summary of a run on the controller."""

from __future__ import annotations

import getpass
import json
import os
import socket
import tempfile
from datetime import datetime, timezone
from typing import Any

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase
from ansible.utils.display import Display

from ansible_collections.inferops.locality.plugins.plugin_utils import record, report, runtime

display = Display()


class ActionModule(ActionBase):
    """Needs no connection: everything it prints is handed to it."""

    _supports_check_mode = True
    _supports_diff = False
    TRANSFERS_FILES = False

    def run(self, tmp: Any = None, task_vars: Any = None) -> dict[str, Any]:
        """Print the lines; write the summary where a record is wanted."""
        super().run(tmp, task_vars)
        _unused, args = self.validate_argument_spec({
            "results": {"type": "dict", "required": True},
            "style": {"type": "str", "choices": list(report.STYLES), "default": "table"},
            "record": {"type": "path"},
            "started": {"type": "str"},
        })
        lines = report.lines(args["results"], args["style"])
        summary = report.summary(args["results"])
        # A debug task would print this as one quoted text.
        display.display("\n".join(lines))
        result: dict[str, Any] = {"changed": False, "summary": summary, "count": report.count_line(args["results"], args["style"])}
        if args["record"]:
            result["record"] = args["record"]
            result["changed"] = True
            if not self._task.check_mode:
                _record(args["record"], args["started"], args["results"], summary)
        return result


def _record(path: str, started: str | None, results: dict[str, Any], summary: dict[str, Any]) -> None:
    """Write the run, and below the same folder each host of it."""
    folder, name = os.path.split(path)
    run = {
        "run": os.path.splitext(name)[0], "by": f"{_user()}@{socket.gethostname()}", "started": started,
        "ended": datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"), "collection": runtime.version(),
    }
    for host, result in results.items():
        _write(os.path.join(folder, host, name), _json(record.host_record(host, result, run)))
    _write(path, _json({**run, **summary}))


def _user() -> str:
    try:
        return os.environ.get("SUDO_USER") or getpass.getuser()
    except (KeyError, OSError):
        # In a container, say, whose user has no name.
        return str(os.getuid())


def _json(value: dict[str, Any]) -> str:
    return json.dumps(_keyed(value), indent=1, sort_keys=True, default=str) + "\n"


def _keyed(value: Any) -> Any:
    """With texts as keys. A refused policy has whatever YAML makes: numbers beside texts, dates."""
    if isinstance(value, dict):
        return {str(key): _keyed(item) for key, item in value.items()}
    return [_keyed(item) for item in value] if isinstance(value, list) else value


def _write(path: str, text: str) -> None:
    folder = os.path.dirname(os.path.abspath(path))
    try:
        os.makedirs(folder, mode=0o750, exist_ok=True)
        handle, aside = tempfile.mkstemp(prefix=".record-", dir=folder)
        with os.fdopen(handle, "w", encoding="utf-8") as stream:
            stream.write(text)
        os.chmod(aside, 0o640)
        os.replace(aside, path)
    except OSError as error:
        raise AnsibleActionFail(f"the record {path} cannot be written: {error.strerror}") from error
