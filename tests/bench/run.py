# Copyright (c) 2026 The inferops.locality authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs the measurements, each in a process of its own; ``make bench`` calls it.

    python tests/bench/run.py              all of them
    python tests/bench/run.py topology     tests/bench/bench_topology.py
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
TOP = HERE.parents[1]


def main(arguments: list[str]) -> int:
    benches = {path.stem.removeprefix("bench_"): path for path in sorted(HERE.glob("bench_*.py"))}
    unknown = [name for name in arguments if name not in benches]
    if unknown:
        print(f"No measurement {', '.join(unknown)}; there are {', '.join(benches)}.", file=sys.stderr)
        return 2
    # In front of the path, so that the collection's code is imported as it is in Ansible.
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, [str(TOP / ".collections"), os.environ.get("PYTHONPATH")]))}
    failed = 0
    for name, path in benches.items():
        if not arguments or name in arguments:
            print(f"{name}:", flush=True)
            failed += subprocess.run([sys.executable, str(path)], cwd=TOP, env=environment, check=False).returncode != 0
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
