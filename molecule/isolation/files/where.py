# Copyright (c) 2026 The inferops.locality authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""where.py CGROUP: where its busy threads ran in the next three seconds.

Prints ``{"cpus": {CPU: CPUs' worth of time}, "threads": [CPUs' worth of time of each busy thread]}``. What a thread ran in a tenth of a second
belongs to the CPU it is on at its end.
"""

from __future__ import annotations

import json
import sys
import time


def ran(thread: str) -> int:
    with open(f"/proc/{thread}/schedstat", encoding="ascii") as file:
        return int(file.read().split()[0])


def cpu(thread: str) -> str:
    with open(f"/proc/{thread}/stat", encoding="utf-8") as file:
        return file.read().rpartition(")")[2].split()[36]


with open(f"/sys/fs/cgroup/{sys.argv[1]}/cgroup.threads", encoding="ascii") as listed:
    threads = listed.read().split()
began = time.monotonic()
last = {thread: ran(thread) for thread in threads}
cpus, total = {}, dict.fromkeys(threads, 0)
while time.monotonic() < began + 3:
    time.sleep(0.1)
    for thread in threads:
        now = ran(thread)
        cpus[cpu(thread)] = cpus.get(cpu(thread), 0) + now - last[thread]
        total[thread] += now - last[thread]
        last[thread] = now
span = (time.monotonic() - began) * 1e9
print(json.dumps({
    "cpus": {number: round(time_ / span, 3) for number, time_ in sorted(cpus.items()) if time_ > 0.01 * span},
    "threads": sorted(round(time_ / span, 3) for time_ in total.values() if time_ > 0.01 * span),
}))
