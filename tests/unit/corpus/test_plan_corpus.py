# Copyright (c) 2026 The inferops.locality authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Every real machine of the corpus can be planned, or is refused with a reason, and its plan keeps the rules."""

from __future__ import annotations

from pathlib import Path
from typing import Callable

import pytest

from ansible_collections.inferops.locality.plugins.module_utils import cpulist, plan
from ansible_collections.inferops.locality.tests.unit.corpus.machines import Machine, listed, name_of
from ansible_collections.inferops.locality.tests.unit.strategies import PLATFORM

# What may be wrong with a machine for the default policy: too small, no NUMA node or one that lies, nothing readable.
REFUSALS = {"housekeeping.nothing_left", "memory.does_not_fit", "memory.no_numa_node", "topology.no_cpus", "topology.no_numa_node"}


@pytest.mark.parametrize("tarball", listed("hwloc/*.tar.*", "hwloc/other/*.t*z*", "lscpu/*.tar.*"), ids=name_of)
def test_the_plan_of_a_real_machine(tarball: Path, corpus: Path, machines: Callable[[Path], list[Machine]]) -> None:
    for machine in machines(tarball):
        made = plan.make_plan(machine.facts, PLATFORM, {})
        busy, quiet = cpulist.from_list(made["housekeeping_cpus"]), cpulist.from_list(made["isolated_cpus"])
        assert busy | quiet == machine.online and not busy & quiet
        assert not [core for core in machine.cores() if core & busy and core & quiet]
        assert 0 in busy or 0 not in machine.online
        assert {item["id"] for item in made["findings"] if item["severity"] == "error"} <= REFUSALS
        if not any(item["severity"] == "error" for item in made["findings"]):
            assert sum(made["knobs"]["kubelet.reserved_memory"].values()) == 12788 * 2**20
            assert all(node["housekeeping_cpus"] for node in made["numa_nodes"] if node["housekeeping_cpus"] or node["isolated_cpus"])
