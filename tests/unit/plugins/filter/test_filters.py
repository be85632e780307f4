# Copyright (c) 2026 The inferops.locality authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The filters: values, the one error type, and that each has its documentation."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Callable

import pytest
import yaml
from ansible.errors import AnsibleFilterError
from jinja2 import Environment

from ansible_collections.inferops.locality.plugins.filter import cpu_lists, dra_claim_findings, nccl_results, nvidia_topo, nvidia_topo_differences, rocm_topo

FOLDER = Path(cpu_lists.__file__).parent
FILTERS: dict[str, Callable[..., Any]] = {}
for plugin in (cpu_lists, dra_claim_findings, nccl_results, nvidia_topo, nvidia_topo_differences, rocm_topo):
    FILTERS.update(plugin.FilterModule().filters())


@pytest.mark.parametrize(
    ("name", "args", "result"),
    [
        ("cpu_list", ["8,0,1, 2-3"], "0-3,8"),
        ("cpu_list", [[3, 1, 2, "8"]], "1-3,8"),
        ("cpu_list", [3], "3"),
        ("cpu_list", [""], ""),
        ("cpu_list", [[]], ""),
        ("cpu_list", ["domain,managed_irq,2-5", True], "2-5"),
        ("cpu_mask", ["0-1,32-33"], "00000003,00000003"),
        ("cpu_mask", ["0-1", 8], "03"),
        ("cpu_mask", ["0", 64], "00000000,00000001"),
        ("cpu_from_mask", ["00000003,00000003"], "0-1,32-33"),
        ("cpu_count", ["0-3,3,8"], 5),
        ("cpu_count", [""], 0),
        ("cpu_union", ["0-1"], "0-1"),
        ("cpu_union", ["0-1", "2", [3]], "0-3"),
        ("cpu_difference", ["0-31", "0-1", "31"], "2-30"),
        ("cpu_difference", ["0-3", "0-7"], ""),
        ("cpu_intersection", ["0-7", "4-15", "6-20"], "6-7"),
    ],
)
def test_values(name: str, args: list[Any], result: Any) -> None:
    assert FILTERS[name](*args) == result


@pytest.mark.parametrize(
    ("name", "args", "message"),
    [
        ("cpu_list", ["3-1"], "cpu_list: '3-1' in CPU list '3-1' runs backwards"),
        ("cpu_list", [None], "cpu_list: needs a CPU list such as '0-3,8', not NoneType"),
        ("cpu_list", [True], "cpu_list: needs a CPU list such as '0-3,8', not True"),
        ("cpu_list", [-1], "cpu_list: '-1'"),
        ("cpu_list", [[1, None]], "cpu_list: needs a list of CPU numbers, not [1, None]"),
        ("cpu_list", [{"cpus": "1"}], "not dict"),
        ("cpu_union", ["0", "x"], "cpu_union: 'x'"),
        ("cpu_difference", ["0", 1.5], "cpu_difference: needs a CPU list"),
        ("cpu_intersection", ["0", "a-b"], "cpu_intersection: 'a-b'"),
        ("cpu_count", ["0-"], "cpu_count: '0-'"),
        ("cpu_mask", ["0", 0], "cpu_mask: width must be a number of CPUs from 1, not 0"),
        ("cpu_mask", ["0", "64"], "cpu_mask: width must be a number of CPUs from 1, not '64'"),
        ("cpu_from_mask", ["xyz"], "cpu_from_mask: "),
        ("cpu_from_mask", [10], "cpu_from_mask: needs a mask such as 'ff,00000000', not int (quote it)"),
        ("nvidia_topo", ["nothing"], "nvidia_topo: no matrix"),
        ("nvidia_topo", [None], "nvidia_topo: the output of 'nvidia-smi topo -m' must be text, not NoneType"),
        ("rocm_topo", ["nothing"], "rocm_topo: no matrix"),
        ("nccl_results", ["nothing"], "nccl_results: found no table of nccl-tests in 1 lines"),
        ("dra_claim_findings", [{"kind": "Pod"}], "dra_claim_findings: found Pod, wanted a ResourceClaim or ResourceClaimTemplate"),
        ("nvidia_topo_differences", ["nothing", {}, "0, 00000000:1B:00.0"], "nvidia_topo_differences: no matrix"),
        ("nvidia_topo_differences", ["\tGPU0\tCPU Affinity\nGPU0\t X \t0\n", {}, ""], "nvidia_topo_differences: nvidia-smi names no GPU"),
        ("nvidia_topo_differences", ["\tGPU0\tCPU Affinity\nGPU0\t X \t0\n", None, ""], "topology must be the facts of numa_topology"),
    ],
)
def test_errors(name: str, args: list[Any], message: str) -> None:
    with pytest.raises(AnsibleFilterError, match=re.escape(message)):
        FILTERS[name](*args)


def test_differences_take_the_text_or_what_was_read_of_it() -> None:
    text = "\tGPU0\tmlx5_0\tCPU Affinity\nGPU0\t X \tPIX\t0\nmlx5_0\tPIX\t X \n"
    facts = {
        "devices": [{"address": "0000:1b:00.0", "rdma": []}, {"address": "0000:1c:00.0", "rdma": ["mlx5_0"]}],
        "relations": {"0000:1b:00.0": {"0000:1c:00.0": "SYS"}},
    }
    for printed in (text, FILTERS["nvidia_topo"](text)):
        (found,) = FILTERS["nvidia_topo_differences"](printed, facts, "0, 00000000:1B:00.0")
        assert (found["gpu_address"], found["other_address"], found["printed"], found["computed"]) == ("0000:1b:00.0", "0000:1c:00.0", "PIX", "SYS")


def _documentation(name: str) -> tuple[dict[str, Any], str]:
    sidecar = FOLDER / f"{name}.yml"
    if sidecar.exists():
        found = yaml.safe_load(sidecar.read_text(encoding="utf-8"))
        return found["DOCUMENTATION"], found["EXAMPLES"]
    text: dict[str, Any] = {}
    exec(compile((FOLDER / f"{name}.py").read_text(encoding="utf-8"), name, "exec"), text)
    return yaml.safe_load(text["DOCUMENTATION"]), text["EXAMPLES"]


@pytest.mark.parametrize("name", sorted(FILTERS))
def test_documentation_names_the_filter_and_its_examples_are_right(name: str) -> None:
    documentation, examples = _documentation(name)
    assert documentation["name"] == name
    environment = Environment(autoescape=False)
    environment.filters.update({f"inferops.locality.{known}": function for known, function in FILTERS.items()})
    for task in yaml.safe_load(examples):
        message = task.get("ansible.builtin.debug", {}).get("msg", "")
        if not name.startswith("cpu_"):
            assert task["name"]
            continue
        assert environment.from_string(message).render() == task["name"].removeprefix("Print "), task["name"]
