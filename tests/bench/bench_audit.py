# Copyright (c) 2026 The inferops.locality authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How long ``audit.yml`` takes for 200 nodes of the demo on two cores, and how much memory all its processes hold at most.

The nodes are the demo's three in turn, under new names. Their files are built first and not measured.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import yaml

TOP = Path(__file__).resolve().parents[2]
DEMO = TOP / "inventories" / "demo"
HOSTS = int(os.environ.get("LOCALITY_BENCH_HOSTS", "200"))
CORES = 2


def write_inventory(target: Path) -> None:
    shutil.copytree(DEMO, target, ignore=shutil.ignore_patterns(".nodes", "nodes"), symlinks=True)
    (target / "nodes").mkdir()
    descriptions = [yaml.safe_load(path.read_text(encoding="utf-8")) for path in sorted((DEMO / "nodes").glob("*.yml"))]
    for number in range(HOSTS):
        description = {**descriptions[number % len(descriptions)], "host": f"node{number:03d}"}
        (target / "nodes" / f"node{number:03d}.yml").write_text(yaml.safe_dump(description, sort_keys=False), encoding="utf-8")


def memory_of_session(session: int) -> int:
    """Bytes that the processes of one session hold together; a page that several share counts once in all (PSS)."""
    total = 0
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if int((process / "stat").read_text().rsplit(")", 1)[1].split()[3]) == session:
                total += int(re.search(r"^Pss:\s+(\d+) kB", (process / "smaps_rollup").read_text(), re.MULTILINE).group(1)) * 1024
        except (OSError, ValueError, IndexError, AttributeError):
            continue  # it has ended
    return total


def main() -> int:
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:CORES])
    play = Path(sys.executable).parent / "ansible-playbook"
    with tempfile.TemporaryDirectory(prefix="locality-bench-") as scratch:
        inventory = Path(scratch) / "inventory"
        write_inventory(inventory)
        environment = {**os.environ, "ANSIBLE_CONFIG": str(TOP / "ansible.cfg")}
        start = time.monotonic()
        subprocess.run([play.with_name("ansible-inventory"), "-i", str(inventory), "--list"], cwd=TOP, env=environment, check=True, stdout=subprocess.DEVNULL)
        print(f"  building the files of {HOSTS} nodes: {time.monotonic() - start:.1f} s")

        log = Path(scratch) / "log"
        peak = 0
        start = time.monotonic()
        with open(log, "wb") as out:
            process = subprocess.Popen(
                [play, "-i", str(inventory), "playbooks/audit.yml"], cwd=TOP, env=environment, stdin=subprocess.DEVNULL,
                stdout=out, stderr=subprocess.STDOUT, start_new_session=True,
            )
            ended = threading.Event()

            def watch() -> None:
                nonlocal peak
                while not ended.wait(0.5):
                    peak = max(peak, memory_of_session(process.pid))

            watcher = threading.Thread(target=watch, daemon=True)
            watcher.start()
            code = process.wait()
            ended.set()
            watcher.join()
        seconds = time.monotonic() - start
        lines = log.read_text(errors="replace").splitlines()
        audited = sum(1 for line in lines if re.match(r"node\d+\s+: ok=", line))
        # Nothing has been written to these nodes, so audit.yml may well say that they drift.
        if audited != HOSTS:
            print(*lines[-40:], f"  audit.yml ended with {code} and listed {audited} of {HOSTS} nodes", sep="\n")
            return 1
        print(f"  audit.yml on {HOSTS} nodes, {len(os.sched_getaffinity(0))} cores: {seconds:.1f} s, {seconds / HOSTS:.2f} s per node (exit code {code})")
        print(f"  peak memory of all its processes: {peak / 2**20:.0f} MiB")
    return 0


if __name__ == "__main__":
    sys.exit(main())
