# Copyright (c) 2026 The inferops.locality authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Golden plans: the plan of each node of the demo, written down, so that a change of any plan shows in the change that makes it.

    PYTHONPATH=.collections python tests/unit/golden/regenerate.py    writes them anew
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path
from typing import Any

import yaml

from ansible_collections.inferops.locality.plugins.module_utils import plan
from ansible_collections.inferops.locality.plugins.module_utils.state import read_state
from ansible_collections.inferops.locality.plugins.module_utils.sysroot import SysRoot
from ansible_collections.inferops.locality.plugins.module_utils.topology import read_topology
from ansible_collections.inferops.locality.plugins.plugin_utils import paper

HERE = Path(__file__).resolve().parent
DEMO = HERE.parents[2] / "inventories" / "demo"
# Keys of the inventory source; the rest of the file describes the machine.
INVENTORY_KEYS = ("plugin", "chassis", "host", "trees")


def hosts() -> list[str]:
    """Names of the demo's nodes."""
    return sorted(file.stem for file in (DEMO / "nodes").glob("*.yml"))


def golden(host: str) -> Path:
    """Where the golden plan of a node lies."""
    return HERE / f"{host}.json"


def made(host: str) -> dict[str, Any]:
    """The plan of a node of the demo, from its files below a root."""
    source = yaml.safe_load((DEMO / "nodes" / f"{host}.yml").read_text(encoding="utf-8"))
    variables = yaml.safe_load((DEMO / "group_vars" / f"chassis_{source['chassis']}.yml").read_text(encoding="utf-8"))
    with tempfile.TemporaryDirectory(prefix="locality-golden-") as folder:
        root = Path(folder) / host
        paper.build({key: value for key, value in source.items() if key not in INVENTORY_KEYS}, root)
        topology = read_topology(SysRoot(str(root))).to_facts()
        platform = read_state(SysRoot(str(root)))["platform"]
    return plan.make_plan(topology, platform, variables["locality_policy"], variables["locality_chassis"])


def text(content: dict[str, Any]) -> str:
    """A plan as it is written down: in the plan's own order, which is part of it."""
    return json.dumps(content, indent=2) + "\n"


def main() -> int:
    for file in HERE.glob("*.json"):
        if file.stem not in hosts():
            file.unlink()
            print(f"removed {file.name}")
    for host in hosts():
        new = text(made(host))
        old = golden(host).read_text(encoding="utf-8") if golden(host).exists() else None
        golden(host).write_text(new, encoding="utf-8")
        print(f"{'unchanged' if new == old else 'written'} {golden(host).name}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
