# Copyright (c) 2026 The inferops.locality authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A node that does not answer is in the summary, also where no other is left; the run ends with an error."""

from __future__ import annotations

from pathlib import Path

import pytest

from ansible_collections.inferops.locality.plugins.module_utils import knobs
from ansible_collections.inferops.locality.plugins.plugin_utils import paper
from ansible_collections.inferops.locality.tests.unit import playing
from ansible_collections.inferops.locality.tests.unit.fixtures import machines as fixtures

REASON = "No route to host"


@pytest.fixture
def inventory(tmp_path: Path) -> Path:
    """A node that is there and one that is not: an ssh that ends as ssh does when it cannot connect."""
    small, node = fixtures.description("two-sockets"), paper.load(playing.DEMO / "nodes" / "cpu-snc2-cxl.yml")
    paper.build({**small, **{key: node[key] for key in ("kernel", "dirs", "files", "links")}}, tmp_path / "node")
    ssh = tmp_path / "ssh"
    ssh.write_text(f"#!/bin/sh\necho 'ssh: connect to host gone port 22: {REASON}' >&2\nexit 255\n", encoding="utf-8")
    ssh.chmod(0o755)
    return playing.write_inventory(
        tmp_path / "inventory", {"gone": tmp_path, "node": tmp_path / "node"}, {},
        {"gone": {"locality_root": "/", "ansible_connection": "ssh", "ansible_ssh_executable": str(ssh)}},
    )


@pytest.mark.parametrize("playbook", ["audit", "site", "rollback", "plan"])
def test_the_only_node_is_gone(playbook: str, inventory: Path, tmp_path: Path) -> None:
    run = playing.play(playbook, "--limit", "gone", "-e", "record=none", "-e", f"output={tmp_path}/vars.yml", inventory=inventory)
    assert run.rc != 0
    assert "\ngone" in run.out and " - not reached\n" in run.out
    assert "\n1 node: 1 not reached\n" in run.out, "those outside of the limit were not asked"
    assert f"{REASON}\"}}" in run.out.rpartition("fatal: [gone]: FAILED!")[2]
    assert run.recap["gone"]["failed"] == 1
    assert not (tmp_path / "vars.yml").exists()


def test_the_others_go_on_without_it(inventory: Path, tmp_path: Path) -> None:
    run = playing.play("site", "--tags", "kubelet", inventory=inventory)
    assert run.rc != 0
    assert "\n2 nodes: 1 written, in sync; 1 not reached\n" in run.out
    assert {host: counts["failed"] for host, counts in run.recap.items()} == {"gone": 1, "node": 0}
    plan = playing.play("plan", "-e", f"output={tmp_path}/vars.yml", inventory=inventory)
    assert plan.rc != 0
    assert "\n2 nodes: 1 is not as planned yet; 1 not reached\n" in plan.out
    assert {host: counts["failed"] for host, counts in plan.recap.items()} == {"gone": 1, "node": 0}
    assert "locality_chassis:" in (tmp_path / "vars.yml").read_text(encoding="utf-8")


def test_strict_stops_for_it(inventory: Path, tmp_path: Path) -> None:
    run = playing.play("site", "-e", "locality_strict=true", inventory=inventory)
    assert run.rc != 0
    assert "\n2 nodes: 1 left out, the rollout stopped before it; 1 not reached\n" in run.out
    assert not (tmp_path / "node" / knobs.FILE_KUBELET[1:]).exists()
