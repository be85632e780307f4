# Copyright (c) 2026 The inferops.locality authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The action plugin: what it does with an answer, and how it waits. The clock and the sleep are ours: nothing sleeps here."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

import pytest
import yaml

from ansible_collections.inferops.locality.plugins.action import maintenance_gate

UTC = dt.timezone.utc
WINDOWS = [{"days": ["sat"], "start": "22:00", "duration": "8h", "timezone": "Europe/Berlin"}]  # 20:00 UTC to 04:00 UTC


class Clock:
    """A clock that moves only when somebody sleeps."""

    def __init__(self, start: str):
        self.now = dt.datetime.fromisoformat(start).replace(tzinfo=UTC)
        self.sleeps: list[float] = []
        self.set_back_after: int | None = None

    def __call__(self) -> dt.datetime:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.sleeps.append(seconds)
        if self.set_back_after is not None and len(self.sleeps) % self.set_back_after == 0:
            self.now -= dt.timedelta(seconds=seconds)
        else:
            self.now += dt.timedelta(seconds=seconds)


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch) -> Any:
    def run(at: str, check_mode: bool = False, clock: Clock | None = None, **args: Any) -> tuple[dict[str, Any], Clock]:
        clock = clock or Clock(at)
        monkeypatch.setattr(maintenance_gate, "_clock", clock)
        monkeypatch.setattr(maintenance_gate, "_sleep", clock.sleep)
        task = SimpleNamespace(args={"windows": WINDOWS, "expected_minutes": 60, **args}, check_mode=check_mode, async_val=0, diff=False)
        plugin = maintenance_gate.ActionModule(
            task, connection=mock.Mock(), play_context=mock.Mock(), loader=mock.Mock(), templar=mock.Mock(), shared_loader_obj=mock.Mock()
        )
        return plugin.run(task_vars={}), clock

    return run


@pytest.mark.parametrize("on_closed", ["wait", "stop", "fail"])
def test_open(gate: Any, on_closed: str) -> None:
    result, clock = gate("2026-10-04T00:00", on_closed=on_closed)
    assert (result["outcome"], result["minutes_left"], result["changed"], clock.sleeps) == ("run", 240, False, [])
    assert "failed" not in result


def test_waits_until_it_opens_in_small_steps(gate: Any) -> None:
    result, clock = gate("2026-10-03T17:00")
    assert (result["outcome"], result["minutes_left"], result["waited_minutes"]) == ("run", 480, 180)
    assert sum(clock.sleeps) == 3 * 3600 and max(clock.sleeps) <= maintenance_gate.SLEEP_SECONDS


def test_does_not_wait_for_more_than_12_hours(gate: Any) -> None:
    result, clock = gate("2026-10-03T07:59")
    assert (result["outcome"], clock.sleeps) == ("stop", []) and "failed" not in result


@pytest.mark.parametrize("set_back_after", [1, 2, 3])
def test_a_clock_that_is_set_back_does_not_make_it_wait_for_ever(gate: Any, set_back_after: int) -> None:
    clock = Clock("2026-10-03T19:00")
    clock.set_back_after = set_back_after  # 1: it runs backwards; 2: it does not get on; 3: two steps on, one back
    result, clock = gate("", clock=clock)
    assert result["outcome"] == ("run" if set_back_after == 3 else "stop")
    assert sum(clock.sleeps) <= 12 * 3600 and "failed" not in result


def test_a_rest_of_the_window_that_is_too_short_waits_for_the_next(gate: Any) -> None:
    daily = [{"rrule": "FREQ=DAILY", "start": "22:00", "duration": "13h", "timezone": "UTC"}]
    result, clock = gate("2026-10-04T10:30", windows=daily)
    assert (result["outcome"], sum(clock.sleeps)) == ("run", 11.5 * 3600)


@pytest.mark.parametrize("more", [{"check_mode": True}, {"now": "2026-10-03T17:00Z"}, {"now": dt.datetime(2026, 10, 3, 17, tzinfo=UTC)}])
def test_a_question_never_sleeps(gate: Any, more: dict[str, Any]) -> None:
    result, clock = gate("2026-10-03T17:00", **more)
    assert (result["outcome"], result["opens_at"], clock.sleeps) == ("wait", "2026-10-03T22:00:00+02:00", [])


@pytest.mark.parametrize("now", [None, ""])
def test_no_question_means_the_present(gate: Any, now: Any) -> None:
    assert gate("2026-10-04T00:00", now=now)[0]["outcome"] == "run"


@pytest.mark.parametrize("check_mode", [False, True])
@pytest.mark.parametrize("at", ["2026-10-03T17:00", "2026-10-01T00:00"])
def test_stop_ends_cleanly(gate: Any, at: str, check_mode: bool) -> None:
    """T-WIN-20: the outcome tells a closed gate from a failure."""
    result, clock = gate(at, check_mode=check_mode, on_closed="stop")
    assert (result["outcome"], clock.sleeps) == ("stop", []) and "failed" not in result
    assert "opens Sat 2026-10-03 22:00 Europe/Berlin (2026-10-03 20:00 UTC)" in result["msg"]


def test_fail_fails_and_says_why(gate: Any) -> None:
    result, _clock = gate("2026-10-03T17:00", on_closed="fail")
    assert result["failed"] and result["outcome"] == "stop"
    assert result["msg"].startswith("the maintenance gate is closed: closed: Sat 2026-10-03 19:00 Europe/Berlin (2026-10-03 17:00 UTC)")


def test_mistakes_of_all_arguments_are_told_at_once(gate: Any) -> None:
    result, clock = gate("2026-10-03T17:00", windows=[], on_closed="maybe", expected_minutes="soon", expected_minute=1, now="2026-10-03T17:00")
    assert result["failed"] and clock.sleeps == []
    for part in (
        "expected_minute: unknown argument; did you mean 'expected_minutes'?",
        "on_closed: 'maybe' is not one of wait, stop, fail",
        "windows: the list is empty",
        "expected_minutes: 'soon' is not a number",
        "now: '2026-10-03T17:00' has no time zone",
    ):
        assert part in result["msg"]


def test_a_number_from_the_command_line_is_text(gate: Any) -> None:
    assert gate("2026-10-04T00:00", expected_minutes="60")[0]["outcome"] == "run"


def test_documented_arguments_and_results_are_the_real_ones(gate: Any) -> None:
    stub = Path(maintenance_gate.__file__).parents[1] / "modules" / "maintenance_gate.py"
    text: dict[str, Any] = {}
    exec(compile(stub.read_text(encoding="utf-8"), str(stub), "exec"), text)
    assert set(yaml.safe_load(text["DOCUMENTATION"])["options"]) == set(maintenance_gate.ARGUMENTS)
    documented = set(yaml.safe_load(text["RETURN"])) - {"errors"}
    assert documented == set(gate("2026-10-04T00:00")[0]) - {"changed", "msg"}
    # The examples hold windows: they must be ones the gate takes.
    example = yaml.safe_load(text["EXAMPLES"])[0]["inferops.locality.maintenance_gate"]
    assert gate("2026-10-04T00:00", **example)[0]["outcome"] == "run"
