# Copyright (c) 2026 The inferops.locality authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""From a topology to group_vars/chassis_<model>.yml."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from ansible_collections.inferops.locality.plugins.module_utils import chassis, policy, topology
from ansible_collections.inferops.locality.plugins.module_utils.sysroot import SysRoot
from ansible_collections.inferops.locality.plugins.plugin_utils import chassis_vars
from ansible_collections.inferops.locality.tests.unit.fixtures import machines as fixtures


@pytest.mark.parametrize("name", fixtures.names())
def test_a_machine_is_of_the_chassis_that_was_measured_from_it(name: str, tmp_path: Path) -> None:
    facts = topology.read_topology(SysRoot(str(fixtures.build(name, tmp_path / "node")))).to_facts()
    text = chassis_vars.render(chassis_vars.measure(facts), chassis_vars.model_name(facts), name)
    written = yaml.safe_load(text)
    assert written["locality_chassis"] == chassis_vars.measure(facts)
    assert chassis.compare(facts, written["locality_chassis"]) == []


def test_the_policy_in_the_file_is_the_default_one() -> None:
    written = yaml.safe_load(chassis_vars.render({}, "model", "here"))["locality_policy"]
    default = policy.defaults(policy.POLICY_SCHEMA)
    assert written == {key: value for key, value in default.items() if value != {} or key == "hugepages"}
    assert policy.check_policy(written) == (default, [])


@pytest.mark.parametrize("model", ["", "h100 8gpu", "../x", "a-b"])
def test_a_model_must_fit_into_a_groups_name(model: str) -> None:
    with pytest.raises(ValueError, match="letters, digits and _"):
        chassis_vars.render({}, model, "here")


def test_a_name_is_made_from_what_is_in_the_machine(tmp_path: Path) -> None:
    facts = topology.read_topology(SysRoot(str(fixtures.build("two-sockets", tmp_path / "node")))).to_facts()
    assert chassis_vars.model_name(facts) == "2s_16cpu_3gpu"
