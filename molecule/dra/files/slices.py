# Copyright (c) 2026 The inferops.locality authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The ResourceSlices of a node, and the DeviceClass that NVIDIA's chart has: ``slices.py NODE ROOT``."""

import json
import sys
from pathlib import Path

TOP = Path(__file__).resolve().parents[3]
sys.path[:0] = [str(TOP / ".collections"), str(TOP / "tests" / "cluster")]

from ansible_collections.inferops.locality.plugins.module_utils.sysroot import SysRoot  # noqa: E402
from ansible_collections.inferops.locality.plugins.module_utils.topology import read_topology  # noqa: E402
from dra_slices import GPU_CLASS, slices  # noqa: E402

node, root = sys.argv[1:]
made = slices(node, read_topology(SysRoot(root)).to_facts(), "front0")
print(json.dumps({"apiVersion": "v1", "kind": "List", "items": [GPU_CLASS, *made]}))
