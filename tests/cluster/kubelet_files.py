# Copyright (c) 2026 The inferops.locality authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The kubelet layer's files of plans for a lab node, written by the role itself below another root on this machine."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, Dict, Mapping

from ansible_collections.inferops.locality.plugins.module_utils import knobs, plan

OURS, HOOK = knobs.FILE_KUBELET, knobs.FILES_FIRST_START[0]
_PLAYBOOK = """
- hosts: all
  gather_facts: false
  tasks:
    - ansible.builtin.include_role:
        name: inferops.locality.rke2_kubelet
"""


def write(folder: Path, plans: Mapping[str, Mapping[str, Any]], platform: Mapping[str, Any]) -> Dict[str, Path]:
    """:returns: for each plan, by its name, the root below which its files lie."""
    roots = {name: folder / name for name in plans}
    hosts = {}
    for name, root in roots.items():
        root.mkdir()
        hosts[name] = {
            "ansible_connection": "local", "ansible_python_interpreter": sys.executable, "rke2_kubelet_root": str(root), "rke2_kubelet_plan": plans[name],
            "rke2_kubelet_platform": platform,
        }
    (folder / "hosts.json").write_text(json.dumps({"all": {"hosts": hosts}}), encoding="utf-8")
    (folder / "write.yml").write_text(_PLAYBOOK, encoding="utf-8")
    argv = [sys.executable, "-m", "ansible", "playbook", "-i", str(folder / "hosts.json"), str(folder / "write.yml")]
    collections = Path(plan.__file__).parents[5]
    environment = {**os.environ, "ANSIBLE_COLLECTIONS_PATH": str(collections), "ANSIBLE_CONFIG": str(Path(plan.__file__).parents[2] / "ansible.cfg")}
    done = subprocess.run(argv, check=False, capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stdout + done.stderr
    return roots
