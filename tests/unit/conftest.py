# Copyright (c) 2026 The inferops.locality authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What every unit test shares: where the real machines' data lies, when its absence is a failure, and how hard hypothesis tries."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Generator

import pytest
from hypothesis import HealthCheck, settings

TOP = Path(__file__).resolve().parents[2]

# Data of real machines, and facts to check against, lie beside a checkout where they exist.
TIERS = {
    "corpus": Path(os.environ.get("LOCALITY_CORPUS") or TOP.parent / "shared" / "corpus"),
    "reference": Path(os.environ.get("LOCALITY_REFERENCE") or TOP.parent / "shared" / "reference"),
}
REQUIRED = {name.strip() for name in os.environ.get("LOCALITY_REQUIRE", "").split(",") if name.strip()}

# The clock of a busy test machine is no measure of the code, and CI judges a change by the same cases each time.
settings.register_profile("default", deadline=None, derandomize=bool(os.environ.get("CI")), suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("quick", settings.get_profile("default"), max_examples=15)
settings.load_profile(os.environ.get("LOCALITY_HYPOTHESIS") or "default")


def _tier(name: str) -> Path:
    if not TIERS[name].is_dir():
        pytest.skip(f"{name} is not at {TIERS[name]}")
    return TIERS[name]


@pytest.fixture(scope="session")
def corpus() -> Path:
    """Folder with data of real machines; the test is skipped where it is absent."""
    return _tier("corpus")


@pytest.fixture(scope="session")
def reference() -> Path:
    """Folder with verified facts and schemas; the test is skipped where it is absent."""
    return _tier("reference")


def _demand(report: pytest.TestReport | pytest.CollectReport) -> None:
    """Turn a skip into a failure if it was for the lack of something that LOCALITY_REQUIRE names."""
    if report.skipped and not hasattr(report, "wasxfail") and isinstance(report.longrepr, tuple):
        reason = str(report.longrepr[2])
        missing = [name for name in sorted(REQUIRED) if name in reason.lower()]
        if missing:
            report.outcome = "failed"
            report.longrepr = f"LOCALITY_REQUIRE names {', '.join(missing)}, but this was skipped: {reason}"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    _demand(report)
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(collector: pytest.Collector) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    report = yield
    _demand(report)
    return report
