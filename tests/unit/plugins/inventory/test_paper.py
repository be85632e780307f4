# Copyright (c) 2026 The inferops.locality authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Descriptions of nodes as an inventory."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from ansible_collections.inferops.locality.plugins.inventory import paper as plugin
from ansible_collections.inferops.locality.plugins.plugin_utils import paper
from ansible_collections.inferops.locality.tests.unit import playing

DESCRIPTION = "plugin: inferops.locality.paper\nchassis: small\ncpus: {sockets: 1, cores_per_numa: 2, threads: 2}\n"


def inventory(path: Path) -> tuple[dict, str]:
    """What ansible-inventory makes of it, and what it says."""
    done = subprocess.run(
        [sys.executable, "-m", "ansible", "inventory", "-i", str(path), "--list"], check=False, capture_output=True, text=True,
        env={**os.environ, "ANSIBLE_COLLECTIONS_PATH": str(playing.COLLECTIONS), "ANSIBLE_NOCOLOR": "1"}, cwd=path.parent,
    )
    return json.loads(done.stdout or "{}"), done.stderr


def test_a_description_is_a_host_of_its_chassis_with_its_files(tmp_path: Path) -> None:
    file = tmp_path / "nodes" / "one.yml"
    file.parent.mkdir()
    file.write_text(DESCRIPTION, encoding="utf-8")
    found, _said = inventory(tmp_path / "nodes")
    assert found["chassis_small"]["hosts"] == ["one"]
    variables = json.dumps(found["_meta"]["hostvars"]["one"])
    assert str(tmp_path / ".nodes" / "one") in variables
    assert sorted(os.listdir(tmp_path / ".nodes")) == ["one"]
    assert (tmp_path / ".nodes" / "one" / "sys/devices/system/cpu/online").read_text(encoding="utf-8") == "0-3\n"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (DESCRIPTION + "gpus: 4\n", "unknown key gpus"),
        (DESCRIPTION.replace("small", "h100-8"), "chassis 'h100-8' cannot end a group's name"),
        (DESCRIPTION + "host: ../x\n", "host '../x' is not a host name"),
        (DESCRIPTION.replace("chassis: small\n", ""), "chassis"),
    ],
)
def test_a_wrong_description_is_named(tmp_path: Path, text: str, said: str) -> None:
    file = tmp_path / "bad.yml"
    file.write_text(text, encoding="utf-8")
    _found, message = inventory(file)
    assert said in message
    assert "bad.yml" in message


def test_a_tree_that_is_there_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "node").mkdir()
    plugin._build({"cpus": {"sockets": 1, "cores_per_numa": 1}}, str(tmp_path / "node"))
    assert os.listdir(tmp_path / "node") == []


def test_whoever_comes_second_leaves_the_first_ones_tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tree = tmp_path / "node"
    build = paper.build

    def slow(description: dict, target: str) -> None:
        build(description, target)
        tree.mkdir()
        (tree / "mark").touch()

    monkeypatch.setattr(paper, "build", slow)
    plugin._build({"cpus": {"sockets": 1, "cores_per_numa": 1}}, str(tree))
    assert os.listdir(tree) == ["mark"]
    assert os.listdir(tmp_path) == ["node"]


def test_a_failed_build_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(description: dict, target: str) -> None:
        Path(target).mkdir()
        raise ValueError("broken")

    monkeypatch.setattr(paper, "build", broken)
    with pytest.raises(ValueError, match="broken"):
        plugin._build({}, str(tmp_path / "node"))
    assert os.listdir(tmp_path) == []
