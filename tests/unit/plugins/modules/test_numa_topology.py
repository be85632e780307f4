# Copyright (c) 2026 The inferops.locality authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The module numa_topology: what it takes, refuses and returns."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible.module_utils.testing import patch_module_args

from ansible_collections.inferops.locality.plugins.modules import numa_topology
from ansible_collections.inferops.locality.tests.unit.fixtures import machines as fixtures


def run(capsys: pytest.CaptureFixture[str], **arguments: Any) -> dict[str, Any]:
    with patch_module_args(arguments), pytest.raises(SystemExit):
        numa_topology.main()
    return json.loads(capsys.readouterr().out)


def documented(contains: dict[str, Any], found: Any, path: str = "") -> list[str]:
    """Keys that are returned and not documented, or the other way round."""
    wrong = []
    for item in found if isinstance(found, list) else [found]:
        wrong += [f"{path}{key}" for key in set(contains) ^ set(item)]
        for key, entry in contains.items():
            if "contains" in entry:
                wrong += documented(entry["contains"], item[key], f"{path}{key}.")
    return wrong


@pytest.mark.parametrize("check_mode", [False, True])
def test_facts_are_those_that_are_documented(check_mode: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    root = fixtures.build("two-sockets", tmp_path / "node")
    result = run(capsys, root=str(root), _ansible_check_mode=check_mode)
    assert result["changed"] is False
    facts = result["ansible_facts"]["numa_topology"]
    assert facts["cpus"]["online"] == "0-15" and len(facts["devices"]) == 8
    contains = yaml.safe_load(numa_topology.RETURN)["ansible_facts"]["contains"]["numa_topology"]["contains"]
    assert documented(contains, facts) == []


def test_the_running_machine_is_read(capsys: pytest.CaptureFixture[str]) -> None:
    """Whoever runs the tests: as root or not."""
    facts = run(capsys)["ansible_facts"]["numa_topology"]
    assert facts["cpus"]["online"] and facts["kernel"]["release"]


@pytest.mark.parametrize(("name", "message"), [("nothing", "does not exist"), ("file", "is not a directory")])
def test_a_root_that_is_no_directory_is_refused(name: str, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").write_text("")
    result = run(capsys, root=str(tmp_path / name))
    assert result["failed"] is True
    assert message in result["msg"] and str(tmp_path / name) in result["msg"]


def test_documentation_names_every_option() -> None:
    assert set(yaml.safe_load(numa_topology.DOCUMENTATION)["options"]) == {"root"}
    assert all("inferops.locality.numa_topology" in json.dumps(task) or "debug" in json.dumps(task) for task in yaml.safe_load(numa_topology.EXAMPLES))
