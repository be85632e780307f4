# Copyright (c) 2026 The inferops.locality authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the tests of a control plane share: one that runs, and its logs where a test fails."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Generator, Iterator, List, NoReturn

import pytest

_HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(_HERE), str(_HERE.parent / "lab")]

from controlplane import ControlPlane, binaries, control_plane  # noqa: E402

_RUNNING: List[ControlPlane] = []


def _lacks(told: str) -> NoReturn:
    """Without what a test needs it is skipped, or fails if LOCALITY_REQUIRE names ``cluster``."""
    if "cluster" in os.environ.get("LOCALITY_REQUIRE", "").split(","):
        pytest.fail(told)
    pytest.skip(told)


@pytest.fixture(scope="session")
def programs() -> None:
    """The programs are there: no test starts a long build."""
    missing = binaries.missing()
    if missing:
        _lacks(f"cluster: {', '.join(missing)} not made yet: python3 tests/cluster/cluster.py binaries")


@pytest.fixture(scope="session")
def collections() -> Path:
    """Where kubernetes.core is, as a part of ANSIBLE_COLLECTIONS_PATH."""
    try:
        return binaries.collections(tell=None)
    except binaries.ClusterError as error:
        _lacks(str(error))


@pytest.fixture(scope="session")
def cluster(programs: None) -> Iterator[ControlPlane]:
    """A control plane with two nodes, ``a`` and ``b``. A node that is silent for 10 seconds is called unknown."""
    with control_plane(node_grace=10) as running:
        _RUNNING.append(running)
        for name in ("a", "b"):
            running.nodes.add(name)
        yield running
        _RUNNING.remove(running)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.failed:
        for running in _RUNNING:
            report.sections.append((f"{running.server}, whose logs stay in {running.logs}", "\n".join([running.log_tail(), *running.nodes.trouble[-5:]])))
    return report
