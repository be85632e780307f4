# Copyright (c) 2026 The inferops.locality authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How long reading the topology of the corpus' largest machines takes in process, against ``lstopo --input TREE --if fsroot``.

Both read the same unpacked tree, in turns, after one turn that is not measured, so that the files are in memory for both. The
shortest of the turns counts. The largest are those with the most CPUs, and the one with the most files: lstopo leaves out the
PCI devices of a capture without /sys/bus/pci, which are searched for here. lstopo's time is that of its process, which is how
its users meet it; what starting a process costs here is printed beside it.
"""

from __future__ import annotations

import platform
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Callable

from ansible_collections.inferops.locality.plugins.module_utils import cpulist
from ansible_collections.inferops.locality.plugins.module_utils.sysroot import SysRoot
from ansible_collections.inferops.locality.plugins.module_utils.topology import read_topology
from ansible_collections.inferops.locality.plugins.plugin_utils import paper
from ansible_collections.inferops.locality.tests.unit.corpus.machines import CORPUS, unpack

TREES = 3
TURNS = 15
PAPER = {"cpus": {"sockets": 8, "cores_per_numa": 72, "threads": 2}}


def seconds(call: Callable[[], object]) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def run(command: list[str]) -> None:
    subprocess.run(command, check=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def compare(name: str, root: Path, lstopo: str | None) -> float | None:
    """Print one tree's line and return the ratio."""

    def ours() -> object:
        return read_topology(SysRoot(str(root))).to_facts()

    command = [lstopo or "", "--input", str(root), "--if", "fsroot", "--of", "console"]
    mine, theirs = [], []
    for _turn in range(TURNS + 1):
        mine.append(seconds(ours))
        if lstopo:
            theirs.append(seconds(lambda: run(command)))
    best = min(mine[1:])
    if not lstopo:
        print(f"  {name}: {best * 1000:.1f} ms")
        return None
    ratio = best / min(theirs[1:])
    print(f"  {name}: {best * 1000:.1f} ms, lstopo {min(theirs[1:]) * 1000:.1f} ms, ratio {ratio:.2f}")
    return ratio


def main() -> int:
    lstopo = shutil.which("lstopo-no-graphics") or shutil.which("lstopo")
    if lstopo is None:
        print("  lstopo is not installed (Debian: package hwloc): no ratio, only our own times.")
    else:
        version = subprocess.run([lstopo, "--version"], capture_output=True, text=True, check=True).stdout.split()[-1]
        empty = min(seconds(lambda: run(["true"])) for _turn in range(5))
        print(f"  Python {platform.python_version()}, lstopo {version}, starting a process {empty * 1000:.1f} ms; best of {TURNS}")
    with tempfile.TemporaryDirectory(prefix="locality-bench-") as scratch:
        trees: list[tuple[int, int, str, Path]] = []
        for index, tarball in enumerate(sorted(CORPUS.glob("hwloc/**/*.t*z*")) + sorted(CORPUS.glob("lscpu/*.t*z*"))):
            for root in unpack(tarball, Path(scratch) / str(index), everything=True):
                cpus = len(cpulist.from_list(read_topology(SysRoot(str(root))).to_facts()["cpus"]["online"] or ""))
                trees.append((cpus, sum(1 for _path in root.rglob("*")), tarball.name, root))
        if not trees:
            print(f"  The corpus is not at {CORPUS}: a machine on paper is read instead.")
        trees.sort(reverse=True)
        most_files = max(trees, key=lambda tree: tree[1], default=None)
        chosen = trees[:TREES] + ([most_files] if most_files and most_files not in trees[:TREES] else [])
        ratios = [compare(f"{name}, {cpus} CPUs, {files} files", root, lstopo) for cpus, files, name, root in chosen]
        paper.build(PAPER, Path(scratch) / "paper")
        compare("1,152 CPUs on paper", Path(scratch) / "paper", lstopo)
        if ratios and ratios[0] is not None:
            print(f"  ratio on the largest tree: {ratios[0]:.2f} (at most 1 is the aim)")
    return 0


if __name__ == "__main__":
    sys.exit(main())
