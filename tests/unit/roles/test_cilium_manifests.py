# Copyright (c) 2026 The inferops.locality authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The role cilium prepares nodes on paper for the first start of their cluster."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import yaml

from ansible_collections.inferops.locality.tests.unit import playing

PLAY: list[dict[str, Any]] = [{"name": "Prepare", "hosts": "all", "gather_facts": False, "tasks": [
    {"name": "Write", "ansible.builtin.include_role": {"name": "inferops.locality.cilium", "tasks_from": "manifests"},
     "vars": {"cilium_rke2_role": "{{ 'server' if inventory_hostname == 'server' else 'agent' }}"}},
]}]


def test_check_run_run_again(tmp_path: Path) -> None:
    roots = {name: tmp_path / name for name in ("server", "agent")}
    for root in roots.values():
        root.mkdir()
    policy = {"network": {"routing": "bgp", "bpf_maps": {"distributed_lru": True}}}
    inventory = playing.write_inventory(tmp_path / "inventory", roots, {"locality_policy": policy, "locality_cilium": {"version": "1.20.102"}})
    (tmp_path / "play.yml").write_text(yaml.safe_dump(PLAY), encoding="utf-8")

    def play(*options: str) -> dict[str, int]:
        done = subprocess.run(
            [sys.executable, "-m", "ansible", "playbook", "-i", str(inventory), str(tmp_path / "play.yml"), "--diff", *options], check=False,
            capture_output=True, text=True, env={
                **os.environ, "ANSIBLE_COLLECTIONS_PATH": str(playing.COLLECTIONS), "ANSIBLE_CONFIG": str(playing.TOP / "ansible.cfg"), "ANSIBLE_NOCOLOR": "1",
            },
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return {host: int(line.partition("changed=")[2].split()[0]) for host in roots for line in done.stdout.splitlines() if line.startswith(f"{host} ")}

    assert play("--check") == {"server": 1, "agent": 1} and not any(path.is_file() for root in roots.values() for path in root.rglob("*"))
    assert play() == {"server": 1, "agent": 1}
    manifest = yaml.safe_load((roots["server"] / "var/lib/rancher/rke2/server/manifests/inferops-locality-cilium.yaml").read_text(encoding="utf-8"))
    values = json.loads(manifest["spec"]["valuesContent"])
    assert values["autoDirectNodeRoutes"] is False and values["bpf"]["distributedLRU"] == {"enabled": True} and values["operator"]["replicas"] == 2
    assert [path.name for path in roots["agent"].rglob("*") if path.is_file()] == ["80-inferops-locality-cilium.yaml"]
    assert play() == {"server": 0, "agent": 0}
