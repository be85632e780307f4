# Copyright (c) 2026 The inferops.locality authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""benchmark.yml on recorded outputs: check run, run, run again, another folder for the report, and what it refuses."""

from __future__ import annotations

import json
from pathlib import Path

from ansible_collections.inferops.locality.tests.unit import playing
from ansible_collections.inferops.locality.tests.unit.plugins.plugin_utils.test_benchmark import recorded


def test_recorded_runs_become_a_report(tmp_path: Path) -> None:
    recorded(tmp_path / "runs" / "a-b", [380, 382, 381, 379], [190, 192, 189, 191])
    files = [tmp_path / "runs" / f"report.{ending}" for ending in ("txt", "json", "svg")]

    checked = playing.play("benchmark", "-e", "results_from=runs", "--check", inventory=None, env={"PWD": str(tmp_path)})
    assert checked.rc == 0 and checked.recap["localhost"]["changed"] == 1, checked.text
    assert "aligned is ahead at the 3 largest sizes" in checked.out
    assert not any(file.exists() for file in files)

    run = playing.play("benchmark", "-e", "results_from=runs", inventory=None, env={"PWD": str(tmp_path)})
    assert run.rc == 0 and run.recap["localhost"]["changed"] == 1, run.text
    assert all(file.exists() for file in files)
    assert json.loads(files[1].read_text(encoding="utf-8"))["places"][0]["tests"][0]["winner"] == "aligned"

    again = playing.play("benchmark", "-e", f"results_from={tmp_path}/runs", "-e", f"output={tmp_path}/out", inventory=None)
    assert again.rc == 0 and (tmp_path / "out" / "report.svg").read_text(encoding="utf-8") == files[2].read_text(encoding="utf-8"), again.text

    third = playing.play("benchmark", "-e", f"results_from={tmp_path}/runs", inventory=None)
    assert third.rc == 0 and third.recap["localhost"]["changed"] == 0, third.text


def test_a_folder_without_runs_is_refused_by_name(tmp_path: Path) -> None:
    run = playing.play("benchmark", "-e", f"results_from={tmp_path}", inventory=None)
    assert run.rc != 0 and f"{tmp_path} has no folder PLACE/aligned" in run.text
    bare = playing.play("benchmark", inventory=None)
    assert bare.rc != 0 and "results_from: not given" in bare.text
