# Copyright (c) 2026 The inferops.locality authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What tests/run.py counts of a step that its time does not suffice for."""

from __future__ import annotations

import importlib.util
import sys
import time
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

FILE = Path(__file__).resolve().parents[1] / "run.py"


@pytest.fixture(scope="module")
def stages() -> ModuleType:
    spec = importlib.util.spec_from_file_location("stages", FILE)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    # Its dataclasses look their module up.
    sys.modules["stages"] = module
    spec.loader.exec_module(module)
    return module


def a_run(stages: ModuleType, tmp_path: Path, seconds: float) -> Any:
    return stages.Run(scratch=tmp_path, deadline=time.monotonic() + seconds)


@pytest.mark.parametrize(("left", "takes", "begun"), [(100, 200, False), (200, 100, True), (float("inf"), 1e9, True), (-1, 0, True)])
def test_a_step_is_begun_if_it_can_end(stages: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str], left: float, takes: float, begun: bool) -> None:
    run = a_run(stages, tmp_path, left)
    assert run.has_time("lab", takes) is begun
    assert run.count == stages.Count(skipped=int(not begun))
    assert ("no time" in capsys.readouterr().out) is not begun


@pytest.mark.parametrize(("seconds", "code", "counted"), [
    (100, 0, "passed"), (100, 1, "failed"), (100, 124, "failed"), (-1, 0, "passed"), (-1, 124, "skipped"), (-1, 1, "skipped"),
])
def test_what_the_end_of_the_time_ended_is_no_failure(stages: ModuleType, tmp_path: Path, seconds: float, code: int, counted: str) -> None:
    assert a_run(stages, tmp_path, seconds).judge(code) == stages.Count(**{counted: 1})


def test_tests_are_ended_with_the_time(stages: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stages, "OUTPUT", tmp_path / "output")
    monkeypatch.setattr(stages, "TOP", tmp_path)
    (tmp_path / "test_it.py").write_text("import time\n\n\ndef test_it():\n    time.sleep(60)\n")
    run = a_run(stages, tmp_path, 3)
    run.stage = "cluster"
    run.pytest("slow", Path(sys.executable), ["-n", "0", str(tmp_path / "test_it.py")], run.left())
    assert run.count == stages.Count(skipped=1)
