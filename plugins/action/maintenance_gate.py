# Copyright (c) 2026 The inferops.locality authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Action plugin of maintenance_gate: runs on the controller, never on the node."""

from __future__ import annotations

import datetime as dt
import time
from typing import Any

from ansible.plugins.action import ActionBase
from ansible.utils.display import Display

from ansible_collections.inferops.locality.plugins.plugin_utils import windows

display = Display()

ON_CLOSED = ("wait", "stop", "fail")
ARGUMENTS = ("windows", "blackouts", "expected_minutes", "now", "on_closed")

# Short enough that an interrupt or a changed clock is noticed soon.
SLEEP_SECONDS = 30


def _clock() -> dt.datetime:
    return dt.datetime.now(dt.timezone.utc)


def _sleep(seconds: float) -> None:
    time.sleep(seconds)


def _number(value: Any) -> Any:
    """Extra variables of the command line arrive as text."""
    if isinstance(value, str) and value.strip().isdecimal() and len(value) < 10:
        return int(value)
    return value


class ActionModule(ActionBase):
    """Say whether a node may be disturbed now, and wait for it if asked to."""

    TRANSFERS_FILES = False
    _requires_connection = False
    _supports_check_mode = True
    _supports_async = False
    _supports_diff = False

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        result: dict[str, Any] = super().run(tmp, task_vars)
        del tmp
        args = dict(self._task.args)
        errors = [f"{key}: unknown argument{windows._nearest(str(key), ARGUMENTS)}" for key in args if key not in ARGUMENTS]
        errors.extend(f"{key}: is missing" for key in ("windows", "expected_minutes") if key not in args)
        on_closed = args.get("on_closed", "wait")
        if on_closed not in ON_CLOSED:
            errors.append(f"on_closed: '{on_closed}' is not one of {', '.join(ON_CLOSED)}")
        asked = args.get("now")
        if asked in (None, ""):
            asked = None
        try:
            answer = self._ask(args, asked or _clock())
        except windows.WindowError as error:
            # A missing argument is not wrong a second time.
            told = {text.partition(":")[0] for text in errors}
            errors.extend(text for text in error.errors if text.partition(":")[0] not in told)
        if errors:
            result.update(failed=True, msg="maintenance_gate cannot be used:\n- " + "\n- ".join(errors), errors=errors)
            return result

        waited = 0
        if answer["outcome"] == "wait" and on_closed == "wait" and asked is None and not self._task.check_mode:
            answer, waited = self._wait(args, answer)
        if answer["outcome"] == "wait" and on_closed != "wait":
            answer["outcome"] = "stop"
        result.update(answer)
        result["changed"] = False
        result["waited_minutes"] = waited // 60
        if answer["outcome"] != "run" and on_closed == "fail":
            result.update(failed=True, msg=f"the maintenance gate is closed: {answer['reason']}")
        else:
            result["msg"] = answer["reason"]
        for note in answer["notes"]:
            display.vv(f"maintenance_gate: {note}")
        return result

    def _ask(self, args: dict[str, Any], now: Any) -> dict[str, Any]:
        return windows.evaluate(args.get("windows"), args.get("blackouts"), _number(args.get("expected_minutes")), now)

    def _wait(self, args: dict[str, Any], answer: dict[str, Any]) -> tuple[dict[str, Any], int]:
        """Sleep until the gate opens, at most 12 hours in all; (the answer then, seconds slept)."""
        slept = 0.0
        limit = windows.MAX_WAIT.total_seconds()
        while answer["outcome"] == "wait":
            opens = dt.datetime.fromisoformat(answer["opens_at"])
            display.display(f"maintenance_gate: {answer['reason']}; waiting")
            while (now := _clock()) < opens:
                # Counted, not read from the clock: one that is set back must not make a rollout hang for days.
                if slept >= limit:
                    answer.update(outcome="stop", reason=f"waited {limit / 3600:.0f} hours for {answer['opens_at']}, and it is not there yet")
                    return answer, int(slept)
                step = min(SLEEP_SECONDS, max((opens - now).total_seconds(), 0.1), limit - slept)
                _sleep(step)
                slept += step
            answer = self._ask(args, now)
        return answer, int(slept)
