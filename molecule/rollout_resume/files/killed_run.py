# Copyright (c) 2026 The inferops.locality authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Starts ansible-playbook and kills it with SIGKILL at a moment: so many seconds after something was seen on the node or in the API.

    killed_run.py --node NODE --cluster CLUSTER --when cordoned|written --within SECONDS --seed N --log FILE -- ansible-playbook …

Ansible-playbook alone is killed, so that the task it was at goes on without it, as after an out-of-memory kill. Prints what happened as JSON.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import time
from pathlib import Path

_TESTS = Path(os.environ["MOLECULE_PROJECT_DIRECTORY"]) / "tests"
sys.path.insert(0, str(_TESTS / "lab"))

from vlab import config  # noqa: E402
from vlab.node import Node  # noqa: E402

MARK = "locality.inferops.io/cordoned-by"
# Of the kubelet layer, the last that is written before the reboot.
FILE = "/etc/rancher/rke2/config.yaml.d/90-inferops-locality.yaml"


def cordoned(options: argparse.Namespace) -> bool:
    command = [sys.executable, str(_TESTS / "cluster" / "cluster.py"), "kubectl", options.cluster, "--", "get", "node", options.node, "--output", "json"]
    told = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return MARK in json.loads(told)["metadata"].get("annotations", {})


def written(options: argparse.Namespace) -> bool:
    return Node.open(config.cache(), options.node).run(f"test -e {FILE}", check=False).returncode == 0


def main() -> int:
    seen = {"cordoned": cordoned, "written": written}
    top = argparse.ArgumentParser()
    top.add_argument("--node", required=True)
    top.add_argument("--cluster", required=True)
    top.add_argument("--when", choices=list(seen), required=True)
    top.add_argument("--within", type=float, required=True)
    top.add_argument("--seed", required=True)
    top.add_argument("--log", type=Path, required=True)
    top.add_argument("command", nargs="+")
    options = top.parse_args()
    later = random.Random(f"{options.seed} {options.when}").uniform(0, options.within)
    began = time.monotonic()
    with options.log.open("wb") as log, subprocess.Popen(options.command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True) as run:
        while not seen[options.when](options):
            if run.poll() is not None:
                print(options.log.read_text(encoding="utf-8", errors="replace"), file=sys.stderr)
                return 1
            time.sleep(0.5)
        time.sleep(later)
        ended = run.poll()
        run.kill()
    tasks = [line for line in options.log.read_text(encoding="utf-8", errors="replace").splitlines() if line.startswith("TASK [")]
    told = {"seconds": round(time.monotonic() - began), "later": round(later, 1), "task": tasks[-1] if tasks else "", "ended": ended}
    print(json.dumps(told))
    # A run that has ended by itself was not killed.
    return 0 if ended is None else 1


if __name__ == "__main__":
    sys.exit(main())
