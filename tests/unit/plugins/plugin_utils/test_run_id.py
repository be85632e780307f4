# Copyright (c) 2026 The inferops.locality authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Who a run is, and that its end is told only when it is certain: with real processes."""

from __future__ import annotations

import multiprocessing
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from ansible_collections.inferops.locality.plugins.plugin_utils import run_id

pytestmark = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs a procfs")


def _put(queue: multiprocessing.Queue[str]) -> None:
    queue.put(run_id.current())


def id_of(process: int) -> str:
    """The id that a process would have as a run."""
    return re.sub(r"/[0-9]+-[0-9]+-", f"/{process}-{run_id._start_time(process, Path('/proc'))}-", run_id.current())


def test_a_run_is_the_process_that_starts_the_workers() -> None:
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    worker = context.Process(target=_put, args=(queue,))
    worker.start()
    told = queue.get(timeout=30)
    worker.join()
    assert told == run_id.current()
    assert f"/{os.getpid()}-" in told


def test_a_run_has_ended_when_its_process_is_gone_or_dead() -> None:
    assert not run_id.has_ended(run_id.current())
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"]) as process:
        name = id_of(process.pid)
        assert not run_id.has_ended(name)
        process.send_signal(signal.SIGKILL)
        # Dead, and not waited for yet: its entry is there, as a zombie's.
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        assert Path(f"/proc/{process.pid}/stat").exists()
        assert run_id.has_ended(name)
    assert run_id.has_ended(name)


def test_a_process_that_has_the_number_now_is_another_one() -> None:
    assert run_id.has_ended(re.sub(r"-[0-9]+-", "-1-", run_id.current(), count=1))


@pytest.mark.parametrize(
    "change",
    [
        lambda name: re.sub(r"@[^/]*/", "@elsewhere/", name),
        lambda name: re.sub(r"-[0-9a-f]{12}-", "-0123456789ab-", name),
        lambda name: re.sub(r"-[0-9]+$", "-1", name),
        lambda name: "somebody",
        lambda name: "",
    ],
    ids=["another machine", "another boot", "another PID namespace", "another form", "empty"],
)
def test_of_a_run_elsewhere_nothing_is_certain(change: object) -> None:
    dead = re.sub(r"/[0-9]+-", "/4194304-", run_id.current(), count=1)
    assert run_id.has_ended(dead)
    assert not run_id.has_ended(change(dead))  # type: ignore[operator]
