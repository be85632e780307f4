# Copyright (c) 2026 The inferops.locality authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The knob test of the kubelet layer: each of its knobs, changed behind the tool's back on a node with a real kubelet, is named, and no other is.

What is changed, and how, is in the table of tests/unit/knob_changes.py. Each comparison is made twice: with the command line of the kubelet's process, as
an audit does, and with what the kubelet itself says, as the proof of a run does.

Boots a virtual node, so these are run with FULL=1 only. In this order: each leaves the node to the next.
"""

from __future__ import annotations

import os
import re
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Dict, Iterator, List, Mapping, Tuple

import pytest

import kubelet_files
from ansible_collections.inferops.locality.plugins.module_utils import drift, knobs, plan
from ansible_collections.inferops.locality.plugins.plugin_utils import report
from ansible_collections.inferops.locality.tests.unit import knob_changes
from controlplane import control_plane
from controlplane.nodemodules import Modules, modules
from controlplane.realnode import RealNode, real_node
from kubelet_files import HOOK, OURS
from turns import TOP, Cluster
from turns import until_slowly as until
from vlab import node

if not os.environ.get("FULL"):
    pytest.skip("a node of tests/lab is booted only with FULL=1", allow_module_level=True)

CHECKPOINTS = ["/var/lib/kubelet/cpu_manager_state", "/var/lib/kubelet/memory_manager_state"]
POLICY: Dict[str, Any] = {
    "memory": {"system_reserved": "96Mi", "kube_reserved": "64Mi", "eviction_hard": "60Mi"},
    # The second is one that a kubelet does not take at its registration.
    "kubelet": {"labels": {"gpu": "h100", "off.k8s.io/x": "1"}, "taints": ["dedicated=inference:NoSchedule"]},
}
CONFIGURED = [knob for knob, side in knob_changes.kubelet_sides() if side == "configured"]
# Knob to the sides that differ and what mending it costs.
Named = Dict[str, Tuple[List[str], str]]


@dataclass
class Lab:
    """A node whose kubelet runs as planned.

    :ivar ours: the cluster, asked as the collection's account. :ivar root: below it the role wrote the plan's files.
    """

    real: RealNode
    ask: Modules
    ours: Cluster
    plan: Mapping[str, Any]
    root: Path

    def named(self) -> Named:
        """The knobs of this layer that are not as planned."""
        state = self.ask("locality_state")["ansible_facts"]["locality_state"]
        cluster = self.ours.call("node_labels", self.real.name, state="read")["cluster_state"]
        access = self.ours.call("kubelet_access", self.real.name)
        told = self.ask("kubelet_configz", token=access["token"], port=access["port"], timeout=200)
        assert "running" in told, told
        by_flags, by_itself = (self._named(state, cluster, running) for running in (None, told["running"]))
        assert by_flags == by_itself
        return by_itself

    def _named(self, state: Mapping[str, Any], cluster: Mapping[str, Any], running: Any) -> Named:
        entries = report.drifting(drift.compare(self.plan, state, cluster, kubelet_running=running), only=["kubelet"])
        return {entry["knob"]: (re.findall(r"\b(running|configured) (?:differs|could)", entry["reason"]), entry["needs"]) for entry in entries}

    @contextmanager
    def changed(self, change: knob_changes.Change) -> Iterator[None]:
        """With the file of a change as somebody left it."""
        kept = self.real.node.run(f"base64 --wrap 0 {change.file} && {change.command()}").stdout
        try:
            yield
        finally:
            self.real.node.run(f"base64 --decode > {change.file}", stdin=kept)

    def start(self, text: str, wanted: Any) -> List[str]:
        """Starts the kubelet with this drop-in. :returns: the checkpoint files that had to go for it."""
        self.real.hold()
        self.real.node.put(OURS, text)
        done = self.ask("kubelet_cpu_state", wanted=wanted, state="consistent")
        assert not done.get("failed"), done
        assert self.real.go_on() == ""
        return sorted(each["file"] for each in done["remove"])


def planned(topology: Mapping[str, Any], platform: Mapping[str, Any]) -> Dict[str, Any]:
    """A plan that sets every knob of the layer: as if the machine had more NUMA nodes than a kubelet takes without being told."""
    more = [{"id": id, "cpus": "", "memory_bytes": 2**30} for id in range(2, 9)]
    found = plan.make_plan({**topology, "numa_nodes": [*topology["numa_nodes"], *more]}, platform, POLICY)
    assert [each for each in found["findings"] if each["severity"] == "error"] == []
    assert [id for id, knob in knobs.KNOBS.items() if knob.klass == "managed" and knob.layer == "kubelet" and not found["knobs"].get(id)] == []
    return found


@pytest.fixture(scope="module")
def lab(programs: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    with ExitStack() as stack:
        plane = stack.enter_context(control_plane())
        real = stack.enter_context(real_node(stack.enter_context(node("kubeknobs")), plane))
        ask = stack.enter_context(modules(real.node))
        ours = Cluster(plane, Path(os.devnull))
        plane.kubectl("apply", "-f", str(TOP / "docs" / "rbac-configz.yaml"))
        until("the authorizer knows", lambda: ours.call("kubelet_access", real.name).get("token"))
        platform = ask("locality_state")["ansible_facts"]["locality_state"]["platform"]
        made = planned(ask("numa_topology")["ansible_facts"]["numa_topology"], platform)
        root = kubelet_files.write(tmp_path_factory.mktemp("plans"), {"planned": made}, platform)["planned"]
        found = Lab(real, ask, ours, made, root)
        real.node.put(HOOK, (root / HOOK[1:]).read_text(encoding="utf-8"))
        real.node.run("systemctl daemon-reload")
        # Joined with policies none: both files are theirs.
        assert found.start((root / OURS[1:]).read_text(encoding="utf-8"), made["knobs"]) == CHECKPOINTS
        labelled = ours.call("node_labels", real.name, labels=made["knobs"]["node.labels"], taints=made["knobs"]["node.taints"])
        assert labelled["changed"], labelled
        yield found


def test_nothing_is_named_of_a_kubelet_that_runs_as_planned(lab: Lab) -> None:
    assert lab.named() == {}


@pytest.mark.parametrize("knob", CONFIGURED)
def test_what_would_come_with_the_next_start_is_named(lab: Lab, knob: str) -> None:
    expected: Named = {knob: (["configured"], "live")}
    if knob in knob_changes.KUBELET_UNFIT:
        # As the drop-in is now the kubelet would not start again, and writing it mends that too.
        expected["kubelet.state_files"] = (["configured"], "live")
    if knob == "kubelet.state_files":
        expected[knob] = (["configured"], "restart")
    with lab.changed(knob_changes.CONFIGURED[knob]):
        assert lab.named() == expected
        if knob == "kubelet.state_files":
            # Nothing less than a restart would do.
            assert "stop RKE2 first" in lab.ask("kubelet_cpu_state", wanted=lab.plan["knobs"], state="consistent")["msg"]


@pytest.mark.parametrize("knob", knob_changes.CLUSTER)
def test_what_somebody_changed_through_the_api_is_named(lab: Lab, knob: str) -> None:
    lab.real.cluster.api.patch(f"/api/v1/nodes/{lab.real.name}", knob_changes.CLUSTER[knob])
    assert lab.named() == {knob: (["running"], "live")}
    wanted = {kind: lab.plan["knobs"][f"node.{kind}"] for kind in ("labels", "taints")}
    assert lab.ours.call("node_labels", lab.real.name, **wanted)["changed"]
    assert lab.named() == {}


def test_what_runs_is_named_until_the_kubelet_is_started_as_planned(lab: Lab, tmp_path: Path) -> None:
    ours = (lab.root / OURS[1:]).read_text(encoding="utf-8")
    copy = tmp_path / OURS[1:]
    copy.parent.mkdir(parents=True)
    copy.write_text(ours, encoding="utf-8")
    for knob in knob_changes.KUBELET:
        knob_changes.CONFIGURED[knob].apply(tmp_path)
    assert lab.start(copy.read_text(encoding="utf-8"), None) == CHECKPOINTS
    lab.real.node.put(OURS, ours)
    # The plan's kubelet would not start with the files that this one has written.
    assert lab.named() == {**{knob: (["running"], "restart") for knob in knob_changes.KUBELET}, "kubelet.state_files": (["configured"], "restart")}
    assert lab.start(ours, lab.plan["knobs"]) == CHECKPOINTS
    assert lab.named() == {}
