# Copyright (c) 2026 The inferops.locality authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The plans of the demo's nodes are those written down in tests/unit/golden; policies of the inventories are right."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from ansible_collections.inferops.locality.plugins.module_utils import policy
from ansible_collections.inferops.locality.tests.unit.golden import regenerate

INVENTORIES = Path(__file__).resolve().parents[2] / "inventories"


@pytest.mark.parametrize("host", regenerate.hosts())
def test_the_plan_is_the_golden_one(host: str) -> None:
    assert regenerate.golden(host).exists(), "run tests/unit/golden/regenerate.py"
    made = regenerate.made(host)
    written = json.loads(regenerate.golden(host).read_text(encoding="utf-8"))
    assert made == written, "a plan changed: run tests/unit/golden/regenerate.py and say so in the changelog"
    assert regenerate.text(made) == regenerate.golden(host).read_text(encoding="utf-8")


def test_every_golden_plan_belongs_to_a_node() -> None:
    assert regenerate.hosts()
    assert sorted(file.stem for file in regenerate.HERE.glob("*.json")) == regenerate.hosts()


VARIABLES = sorted(file for file in INVENTORIES.glob("*/group_vars/**/*.yml") if ".nodes" not in file.parts)


@pytest.mark.parametrize("file", VARIABLES, ids=[str(file.relative_to(INVENTORIES)) for file in VARIABLES])
def test_policies_and_chassis_of_the_inventories_are_right(file: Path) -> None:
    variables = yaml.safe_load(file.read_text(encoding="utf-8")) or {}
    assert policy.check_policy(variables.get("locality_policy"))[1] == []
    assert policy.check_chassis(variables.get("locality_chassis"))[1] == []
