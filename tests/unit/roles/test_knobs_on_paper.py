# Copyright (c) 2026 The inferops.locality authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The knob test on paper: each managed knob, changed behind the tool's back, is named by an audit, and no other is."""

from __future__ import annotations

import io
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from ansible_collections.inferops.locality.plugins.module_utils import knobs, plan, runtime_main, state, topology
from ansible_collections.inferops.locality.plugins.module_utils.sysroot import SysRoot
from ansible_collections.inferops.locality.plugins.plugin_utils import paper, runtime
from ansible_collections.inferops.locality.tests.unit import knob_changes, playing

# Sets every knob that a node without tuned can have.
POLICY: dict[str, Any] = {
    "isolation": {"tickless": True},
    "hugepages": {"1Gi": {"0": 4, "1": 4}},
    "host": {"max_latency_us": 20},
    "irq": {"queues": 4, "rps": True},
    "kubelet": {"labels": {"gpu": "h100", "off.k8s.io/x": "1"}, "taints": ["dedicated=inference:NoSchedule"]},
    "pcie": {"iommu": "pt", "acs_off": ["0000:15:01.0", "0000:17:00.0"], "justification": "GPU to NIC", "owner": "platform team", "force": True},
}

# Beside irqbalance no interrupts are placed.
BANNED: dict[str, Any] = {"host": {"irqbalance": "banned"}, "irq": {"devices": []}}

# Only where tuned is installed and on.
TUNED = ("tuned.profile",)
# Only where irqbalance stays.
BANS = ("irqbalance",)


# Only on machines with more than eight NUMA nodes.
LARGE = ("kubelet.topology_manager_options",)

JUDGED = [knob.id for knob in knobs.KNOBS.values() if knob.klass == "managed" and "configured" in knob.sides and not knob.api]


def _description() -> dict[str, Any]:
    description = paper.load(playing.DEMO / "nodes" / "h100-sxm-4gpu.yml")
    description["files"]["/usr/sbin/irqbalance"] = ""
    description["files"]["/usr/lib/systemd/system/irqbalance.service"] = "[Service]\nExecStart=/usr/sbin/irqbalance\n"
    description["links"]["/etc/systemd/system/multi-user.target.wants/irqbalance.service"] = "/usr/lib/systemd/system/irqbalance.service"
    return description


@dataclass(frozen=True)
class Node:
    """A node as its plan has it."""

    root: Path
    plan: dict[str, Any]


@pytest.fixture(scope="module")
def converged(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Node]:
    """Nodes that site.yml brought to their plan: one without tuned, one with it, one with ten NUMA nodes, one that keeps irqbalance."""
    folder = tmp_path_factory.mktemp("nodes")
    roots = {}
    for name in ("plain", "tuned", "large", "banned"):
        description = _description()
        if name == "large":
            description["numa"].update({str(node): {"memory": "16Gi", "cpus": "none"} for node in range(2, 10)})
        if name == "tuned":
            description["files"]["/usr/sbin/tuned"] = ""
            description["dirs"] += ["/etc/tuned/profiles", "/usr/lib/tuned/profiles"]
            description["links"]["/etc/systemd/system/multi-user.target.wants/tuned.service"] = "/usr/lib/systemd/system/tuned.service"
        paper.build(description, folder / name)
        roots[name] = folder / name
    inventory = playing.write_inventory(folder / "inventory", roots, {"locality_policy": POLICY}, {"banned": {"locality_policy": BANNED}})
    run = playing.play("site", inventory=inventory)
    assert run.rc == 0, run.text
    nodes = {}
    for name, root in roots.items():
        seen = state.read_state(SysRoot(str(root)))
        policy = BANNED if name == "banned" else POLICY
        facts = topology.read_topology(SysRoot(str(root))).to_facts()
        nodes[name] = Node(root, plan.make_plan(facts, seen["platform"], policy, None, runtime.version()))
    return nodes


@pytest.mark.parametrize("name", ["plain", "tuned", "large", "banned"])
def test_what_the_roles_write_is_read_back_as_planned(converged: dict[str, Node], name: str) -> None:
    node = converged[name]
    assert playing.drifting(node.root, node.plan) == []


@pytest.mark.parametrize(
    "file, how",
    [(file, how) for file in knobs.FILES_IRQ_SERVICE for how in ("gone", "last line gone", "a line more")]
    + [(file, "gone") for file in knobs.LINKS_IRQ_SERVICE],
)
def test_whatever_starts_the_boot_program_is_missed(converged: dict[str, Node], tmp_path: Path, file: str, how: str) -> None:
    node = converged["plain"]
    root = tmp_path / "node"
    _copy(node.root, root)
    place = root / file[1:]
    if how == "gone":
        place.unlink()
    else:
        lines = place.read_text(encoding="utf-8").splitlines()
        place.write_text("\n".join(lines[:-1] if how == "last line gone" else [*lines, "X=1"]) + "\n", encoding="utf-8")
    assert playing.drifting(root, node.plan) == ["irq.service"]


def test_another_way_of_dealing_interrupts_is_missed(converged: dict[str, Node], tmp_path: Path) -> None:
    root = tmp_path / "node"
    _copy(converged["plain"].root, root)
    knob_changes.Edit(knobs.FILE_IRQ, '"strategy": "spread"', '"strategy": "mask"').apply(root)
    assert playing.drifting(root, converged["plain"].plan) == ["irq.service"]


def test_every_managed_knob_is_changed_here() -> None:
    assert sorted(knob_changes.CONFIGURED) == sorted(JUDGED)


def test_every_side_that_a_lab_node_has_is_changed_in_the_lab() -> None:
    """molecule/knobs does it."""
    wanted = {
        (knob.id, side) for knob in knobs.KNOBS.values() if knob.klass == "managed" and knob.layer in ("host", "irq") and knob.lab
        for side in (["both"] if knob.needs == "reboot" else knob.sides)
    }
    found = [(entry.knob, entry.side) for entry in [*knob_changes.lab(), *knob_changes.lab_boot()]]
    assert sorted(found) == sorted(wanted)


def test_every_side_of_the_kubelet_is_changed_on_a_real_one() -> None:
    """tests/cluster/test_kubelet_knobs.py does it."""
    wanted = {(knob.id, side) for knob in knobs.KNOBS.values() if knob.klass == "managed" and knob.layer == "kubelet" for side in knob.sides}
    assert sorted(knob_changes.kubelet_sides()) == sorted(wanted)


@pytest.mark.parametrize("knob", JUDGED)
def test_an_audit_names_the_knob_that_was_changed_and_no_other(converged: dict[str, Node], tmp_path: Path, knob: str) -> None:
    node = converged["tuned" if knob in TUNED else "large" if knob in LARGE else "banned" if knob in BANS else "plain"]
    assert knob in node.plan["knobs"], "the policy of this test does not set the knob"
    root = tmp_path / "node"
    _copy(node.root, root)
    knob_changes.CONFIGURED[knob].apply(root)
    assert playing.drifting(root, node.plan) == [knob]


def test_steering_goes_from_the_plan_to_the_queues_and_back(converged: dict[str, Node], tmp_path: Path) -> None:
    """What the boot program does with the file that the role wrote from the plan; paper takes what is written."""
    root, wanted = tmp_path / "node", converged["plain"].plan["knobs"]
    _copy(converged["plain"].root, root)

    def steering() -> dict[str, Any]:
        running = state.read_state(SysRoot(str(root)))["running"]
        return {knob: running[knob] for knob in ("nic.rps", "nic.xps")}

    before = steering()
    nics = set(wanted["nic.rps"])
    assert nics and all(set(values.values()) == {""} for values in before.values())
    assert runtime_main.main(["irq", "--root", str(root)], out=io.StringIO()) == runtime_main.DONE
    after = steering()
    assert all({nic: after[knob][nic] for nic in nics} == wanted[knob] for knob in after)
    assert runtime_main.main(["irq", "restore", "--root", str(root)], out=io.StringIO()) == runtime_main.DONE
    assert steering() == before


def _copy(root: Path, target: Path) -> None:
    """A node whose own files may be changed."""
    shutil.copytree(root, target, symlinks=True)


OURS = (
    knobs.FILE_GRUB, knobs.FILE_SYSCTL, knobs.FILE_TMPFILES, *knobs.FILES_SLICES, knobs.FILES_MEMLOCK[0],
    knobs.FILE_IRQ, *knobs.FILES_IRQ_SERVICE, knobs.FILE_KUBELET, knobs.FILES_FIRST_START[0],
)


@pytest.mark.parametrize("path", [*OURS, knobs.FILE_IRQBALANCE])
def test_every_file_says_whose_it_is_and_how_to_remove_it(converged: dict[str, Node], path: str) -> None:
    root = converged["banned" if path == knobs.FILE_IRQBALANCE else "plain"].root
    text = (root / path[1:]).read_text(encoding="utf-8")
    assert "inferops.locality" in text
    assert "emove by hand: delete this file" in text
    assert (root / path[1:]).stat().st_mode & 0o777 == 0o644


def test_the_kubelets_arguments_are_texts_for_yaml_too(converged: dict[str, Node]) -> None:
    node = converged["plain"]
    written = yaml.safe_load((node.root / knobs.FILE_KUBELET[1:]).read_text(encoding="utf-8"))
    assert written == {
        "kubelet-arg+": node.plan["kubelet"]["args"], "node-label+": ["gpu=h100"], "node-taint+": ["dedicated=inference:NoSchedule"],
    }
    assert state.read_state(SysRoot(str(node.root)))["strays"] == []


def test_boot_arguments_pass_the_shell_and_grub(converged: dict[str, Node]) -> None:
    """A bare ; ends the command in grub.cfg; the shell that reads /etc/default/grub leaves \\; within quotes alone."""
    text = (converged["plain"].root / knobs.FILE_GRUB[1:]).read_text(encoding="utf-8")
    assert ";" in " ".join(converged["plain"].plan["kernel_args"]), "the policy of this test has no list in pci="
    assert re.findall(r"(.);", text.splitlines()[-1]) == ["\\"] * text.splitlines()[-1].count(";")
    out = subprocess.run(
        ["sh", "-c", f". {converged['plain'].root}{knobs.FILE_GRUB}; printf %s \"$GRUB_CMDLINE_LINUX_DEFAULT\""], check=True, capture_output=True, text=True,
    ).stdout
    assert out.strip().replace("\\;", ";").split() == converged["plain"].plan["kernel_args"]


def test_with_tuned_the_governor_is_in_its_profile_alone(converged: dict[str, Node]) -> None:
    root = converged["tuned"].root
    assert (root / "etc/tuned/active_profile").read_text(encoding="utf-8") == "inferops-locality\n"
    assert (root / "etc/tuned/profile_mode").read_text(encoding="utf-8") == "manual\n"
    profile = (root / "etc/tuned/profiles/inferops-locality/tuned.conf").read_text(encoding="utf-8")
    # force_latency is a limit for all CPUs beside theirs (/dev/cpu_dma_latency), which no file shows.
    assert profile.endswith("[cpu]\ngovernor=performance\n")
    assert "include=" not in profile
    written = (root / knobs.FILE_TMPFILES[1:]).read_text(encoding="utf-8")
    assert "governor" not in written and "/power/pm_qos_resume_latency_us - - - - 20\n" in written


def test_what_the_plan_no_longer_has_loses_its_file(converged: dict[str, Node], tmp_path: Path) -> None:
    root = tmp_path / "node"
    _copy(converged["plain"].root, root)
    before = playing.contents(root)
    policy = {
        "isolation": {"system_slices": False},
        "host": {"irqbalance": None, "memlock": None, "thp": None, "thp_defrag": None, "governor": None},
        "irq": {"devices": []},
    }
    inventory = playing.write_inventory(tmp_path / "inventory", {"plain": root}, {"locality_policy": policy})
    run = playing.play("site", inventory=inventory)
    assert run.rc == 0, run.text
    gone = sorted(set(before) - set(playing.contents(root)))
    # A folder goes with the last of our files in it.
    folders = [path for path in gone if before[path] == "folder"]
    assert [path for path in folders if not any(other.startswith(f"{path}/") for other in gone)] == []
    assert [path for path in gone if path not in folders] == sorted((
        *knobs.FILES_SLICES, knobs.FILES_MEMLOCK[0], knobs.FILE_IRQBALANCE_MASK, knobs.FILE_IRQ, knobs.FILE_HOST_SAVED,
        *knobs.FILES_IRQ_SERVICE, *knobs.LINKS_IRQ_SERVICE,
    ))
    assert playing.play("audit", inventory=inventory).rc == 0
