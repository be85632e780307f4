# Copyright (c) 2026 The inferops.locality authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The role cilium in a node's turn, on a real API server. There is no Cilium: the agents are a DaemonSet of their name, and what the node's crictl gives as
their status are recorded answers, good and bad.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, Dict, Iterator

import pytest

import stand_in_cilium as cilium
from ansible_collections.inferops.locality.tests.unit import cilium_answers as answers
from test_cilium_node import LABEL, RIGHTS, reference
from turns import TOP, Cluster, turn_cluster, until

PLAY = """
- name: Network
  hosts: all
  gather_facts: false
  tasks:
    - name: Bring its Cilium to the plan
      ansible.builtin.include_role: {name: inferops.locality.cilium, tasks_from: node}
"""
# Which of the recorded answers is given: the good one as long as the Node has our label.
CRICTL = """#!/bin/sh
case "$*" in
  *" ps "*) cat {folder}/ps ;;
  *"--output json")
    if [ -e {folder}/broken ] || ! {kubectl} get node -o name -l {label} | grep -q node/a; then cat {folder}/bad; else cat {folder}/good; fi ;;
  *) exit 9 ;;
esac
"""


@pytest.fixture(scope="module")
def shared(programs: None) -> Iterator[Cluster]:
    definitions = reference() / "data" / "crds"
    with turn_cluster("a") as running:
        running.plane.kubectl("apply", "-f", str(RIGHTS))
        cilium.install(running, definitions, 1)
        until("our account may read", lambda: not running.call("cilium_node_config", "a", state="read").get("failed"), 30)
        yield running


@pytest.fixture
def cluster(shared: Cluster, tmp_path: Path) -> Iterator[Cluster]:
    cilium.forget(shared, "a")
    shared.reset("a")
    shared.cordon("a")
    (tmp_path / "bin").mkdir()
    (tmp_path / "play.yml").write_text(PLAY, encoding="utf-8")
    (tmp_path / "ps").write_text(answers.containers(), encoding="utf-8")
    (tmp_path / "good").write_text(answers.text(answers.GOOD), encoding="utf-8")
    (tmp_path / "bad").write_text(answers.text(answers.FALLEN_BACK), encoding="utf-8")
    script = tmp_path / "bin/crictl"
    kubectl = f"{shared.plane.programs['kubectl']} --kubeconfig {shared.admin}"
    script.write_text(CRICTL.format(folder=tmp_path, kubectl=kubectl, label=LABEL), encoding="utf-8")
    script.chmod(0o755)
    yield shared
    shared.cordon("a", False)


def play(cluster: Cluster, folder: Path, knobs: Dict[str, Any], *options: str, **given: Any) -> subprocess.CompletedProcess[str]:
    variables = {
        "locality_kubeconfig": str(cluster.ours), "locality_plan": {"knobs": knobs}, "ansible_connection": "local", "cilium_data_dir": str(folder),
        "cilium_timeout": 60, "cilium_status_tries": 1, **given,
    }
    return subprocess.run(
        [sys.executable, "-m", "ansible", "playbook", "-i", "a,", str(folder / "play.yml"), "-e", json.dumps(variables), *options],
        env={**os.environ, "ANSIBLE_COLLECTIONS_PATH": str(TOP / ".collections"), "ANSIBLE_CONFIG": str(TOP / "ansible.cfg"), "ANSIBLE_NOCOLOR": "1"},
        check=False, capture_output=True, text=True, timeout=300,
    )


def state(cluster: Cluster) -> Any:
    """Label, objects and taints of ours."""
    taints = [taint["key"] for taint in cluster.node("a")["spec"].get("taints", []) if taint["key"].startswith("locality")]
    return cluster.node("a")["metadata"]["labels"].get(LABEL), sorted(cilium.objects(cluster)), taints


def test_a_recorded_agent_that_does_what_was_asked_is_brought_to_its_plan_and_back(cluster: Cluster, tmp_path: Path) -> None:
    before = cilium.agents(cluster)
    foretold = play(cluster, tmp_path, answers.KNOBS, "--check", "--diff")
    assert foretold.returncode == 0, foretold.stdout + foretold.stderr
    assert "netkit" in foretold.stdout and "changed=3" in foretold.stdout
    assert state(cluster) == (None, [], []) and cilium.agents(cluster) == before
    done = play(cluster, tmp_path, answers.KNOBS)
    assert done.returncode == 0, done.stdout + done.stderr
    made = state(cluster)
    assert made[0] and made[1] == [f"inferops-locality-{made[0]}"] and made[2] == []
    assert cilium.agents(cluster) != before
    # Nothing drifts any more: the agent is left as it is.
    for options in ((), ("--check",)):
        again = play(cluster, tmp_path, answers.KNOBS, *options, cilium_recreate=False)
        assert again.returncode == 0 and "changed=0" in again.stdout, again.stdout
    back = play(cluster, tmp_path, {})
    assert back.returncode == 0, back.stdout + back.stderr
    assert state(cluster) == (None, [], [])


def test_a_recorded_agent_that_fell_back_fails_the_turn_and_everything_is_taken_back(cluster: Cluster, tmp_path: Path) -> None:
    (tmp_path / "broken").touch()
    before = cilium.agents(cluster)
    done = play(cluster, tmp_path, answers.KNOBS)
    assert done.returncode != 0
    assert "cilium.datapath_mode found veth, wanted netkit" in done.stdout and "has its earlier configuration of Cilium again" in done.stdout
    assert state(cluster) == (None, [], []) and cilium.agents(cluster) != before


def test_the_earlier_values_of_a_node_come_back_where_new_ones_fail(cluster: Cluster, tmp_path: Path) -> None:
    assert play(cluster, tmp_path, answers.KNOBS).returncode == 0
    made = state(cluster)
    done = play(cluster, tmp_path, {**answers.KNOBS, "cilium.datapath_mode": "netkit-l2"}, cilium_empty=False)
    assert done.returncode != 0 and "cilium.datapath_mode found netkit, wanted netkit-l2" in done.stdout
    assert "has its earlier configuration" in done.stdout and "way back failed" not in done.stdout
    assert state(cluster) == made


def test_pods_that_stay_refuse_the_node_and_nothing_is_changed(cluster: Cluster, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    before = cilium.agents(cluster)
    with cluster.namespace(request.node.name) as space:
        cluster.daemons(space, "logging", 1)
        done = play(cluster, tmp_path, answers.KNOBS)
        assert done.returncode != 0 and f"{space}/logging-" in done.stdout
        assert state(cluster) == (None, [], []) and cilium.agents(cluster) == before
        # Without another datapath mode they may stay.
        other = {**answers.KNOBS}
        assert play(cluster, tmp_path, other, cilium_empty=False).returncode == 0
        assert play(cluster, tmp_path, {}, cilium_empty=False).returncode == 0


# -- what is seen of it before and after

OBSERVE = """
- name: See
  hosts: all
  gather_facts: false
  tasks:
    - name: Ask
      ansible.builtin.include_tasks: {tasks}
    - name: Compare
      inferops.locality.locality_drift:
        plan: "{{{{ __observe_plan.plan }}}}"
        state: {{}}
        cluster_state: "{{{{ __observe_cilium }}}}"
        fail: false
      register: drift
    - name: Keep
      ansible.builtin.copy:
        dest: {told}
        content: "{{{{ {{'findings': __observe_cilium_findings, 'entries': drift.entries, 'summary': drift.summary}} | to_json }}}}"
        mode: "0600"
      delegate_to: localhost
"""


def observe(cluster: Cluster, folder: Path, mode: str = "report", unit: Any = True, knobs: Any = None) -> Dict[str, Any]:
    """What the role observe finds of the node's Cilium, as the tasks of the role have it."""
    text = OBSERVE.format(tasks=TOP / "roles/observe/tasks/cilium.yml", told=folder / "told.json")
    (folder / "play.yml").write_text(text, encoding="utf-8")
    done = play(
        cluster, folder, {}, observe_kubeconfig=str(cluster.ours), observe_node_name="a", observe_control_host="localhost", observe_mode=mode,
        __observe_plan={"plan": {"knobs": answers.KNOBS if knobs is None else knobs}}, __observe_cilium_retries=1, __observe_cilium_delay=0,
        __observe_state={"ansible_facts": {"locality_state": {"platform": {"rke2": {"data_dir": str(folder)}}, "kubelet": {"runs": {"unit": unit}}}}},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    (folder / "play.yml").write_text(PLAY, encoding="utf-8")
    return dict(json.loads((folder / "told.json").read_text(encoding="utf-8")))


def off(seen: Dict[str, Any]) -> Dict[str, str]:
    return {entry["knob"]: entry["needs"] for entry in seen["entries"] if entry["class"] == "managed" and not entry["in_sync"]}


def test_a_node_with_recorded_answers_is_seen_to_drift_and_then_not(cluster: Cluster, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    with cluster.namespace(request.node.name) as space:
        cluster.daemons(space, "logging", 1)
        before = observe(cluster, tmp_path, mode="preflight")
        assert off(before)["cilium.datapath_mode"] == "drain" and before["summary"]["needs"] == "drain"
        assert [item["id"] for item in before["findings"]] == ["cilium.pods_would_stay"] and f"{space}/logging-" in before["findings"][0]["message"]
    assert play(cluster, tmp_path, answers.KNOBS).returncode == 0
    after = observe(cluster, tmp_path, mode="proof")
    assert after["summary"] == {"needs": None, "count": 0} and after["findings"] == [], after
    # Somebody takes our object away while the agent runs on as it is: it is written again, and nobody is disturbed.
    for name in cilium.objects(cluster):
        cluster.api.delete(f"{cilium.OBJECTS}/{name}")
    assert set(off(observe(cluster, tmp_path)).values()) == {"live"}
    # A plan that no longer has it.
    assert play(cluster, tmp_path, answers.KNOBS, cilium_recreate=False).returncode == 0
    with cluster.namespace(request.node.name) as space:
        cluster.daemons(space, "logging", 1)
        dropped = observe(cluster, tmp_path, mode="preflight", knobs={})
        assert off(dropped)["cilium.datapath_mode"] == "drain"
        assert [item["id"] for item in dropped["findings"]] == ["cilium.pods_would_stay"] and f"{space}/logging-" in dropped["findings"][0]["message"]


def test_an_agent_that_cannot_be_asked_disturbs_nobody_and_proves_nothing(cluster: Cluster, tmp_path: Path) -> None:
    assert play(cluster, tmp_path, answers.KNOBS).returncode == 0
    (tmp_path / "ps").write_text('{"containers": []}', encoding="utf-8")
    seen = observe(cluster, tmp_path, mode="preflight")
    assert seen["summary"]["count"] == 0
    assert [(item["id"], item["severity"]) for item in seen["findings"]] == [("cilium.status_unknown", "warning")]
    proof = observe(cluster, tmp_path, mode="proof")
    assert set(off(proof)) >= {"cilium.datapath_mode", "cilium.xdp"}
    # Left off on purpose: then nobody will answer.
    stopped = observe(cluster, tmp_path, mode="proof", unit=False)
    assert stopped["summary"]["count"] == 0 and [(item["id"], item["severity"]) for item in stopped["findings"]] == [("cilium.status_unknown", "note")]


TURN = """
- name: Turn
  hosts: all
  gather_facts: false
  vars_files: [{top}/playbooks/vars/turn.yml]
  vars: {{site_stop: false, ansible_become: false}}
  tasks:
    - name: Stand where the first play of site.yml leaves a node
      ansible.builtin.set_fact:
        locality_state: "{{{{ state }}}}"
        cacheable: true
      tags: [always]
    - name: Sort
      ansible.builtin.group_by: {{key: locality_drifting}}
      tags: [always]
    - name: Go through the node's turn
      ansible.builtin.import_tasks: {top}/playbooks/tasks/turn.yml
"""


@pytest.mark.parametrize(("needs", "steps"), [
    ("drain", [
        "Take the node out of its cluster", "Send pods away", "Give the node its own configuration", "Make the agent of the node anew", "Let pods come back",
    ]),
    ("live", ["Give the node its own configuration", "Let pods come back"]),
])
def test_a_turn_of_site_yml_disturbs_a_node_as_far_as_its_cilium_drifts(cluster: Cluster, tmp_path: Path, needs: str, steps: Any) -> None:
    """In check mode: a proof would judge the machine of the test."""
    cluster.cordon("a", False)
    (tmp_path / "play.yml").write_text(TURN.format(top=TOP), encoding="utf-8")
    drifting = [{"knob": "cilium.datapath_mode", "needs": needs, "class": "managed", "in_sync": False, "reason": "x"}]
    before = {"root": "/", "chassis": "", "plan": {"knobs": answers.KNOBS}, "drifting": drifting, "policy": {}, "findings": [], "errors": []}
    done = play(
        cluster, tmp_path, answers.KNOBS, "--check", "--diff", "--tags", "network",
        site_before=before, observe_result=before, site_window="",
        state={"platform": {"rke2": {"role": "agent"}, "kernel": "6.12"}, "kubelet": {"runs": {"unit": True, "left": False, "kubelet": True}}, "ours": []},
    )
    assert done.returncode == 0 and "rescued=0" in done.stdout, done.stdout + done.stderr
    at = [done.stdout.find(step) for step in steps]
    assert -1 not in at and at == sorted(at), done.stdout
    assert ("Send pods away" in done.stdout and "skipping: [a]" not in done.stdout.split("Send pods away")[1].split("TASK")[0]) == (needs == "drain")
    assert state(cluster) == (None, [], []) and not cluster.is_cordoned("a")


def test_taking_everything_off_takes_the_nodes_cilium_back_too(cluster: Cluster, request: pytest.FixtureRequest) -> None:
    """In check mode: the node's files would be those of the machine of the test."""
    cluster.cordon("a", False)
    assert cluster.call("cilium_node_config", "a", wanted=answers.KNOBS)["changed"]
    before = state(cluster)
    given = {"locality_kubeconfig": str(cluster.ours), "ansible_connection": "local", "node_maintenance_machine_id": "", "record": "none"}

    def rollback() -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "ansible", "playbook", "-i", "a,", str(TOP / "playbooks/rollback.yml"), "-e", json.dumps(given), "--check", "--diff"],
            env={**os.environ, "ANSIBLE_COLLECTIONS_PATH": str(TOP / ".collections"), "ANSIBLE_CONFIG": str(TOP / "ansible.cfg"), "ANSIBLE_NOCOLOR": "1"},
            check=False, capture_output=True, text=True, timeout=300,
        )

    with cluster.namespace(request.node.name) as space:
        cluster.daemons(space, "logging", 1)
        done = rollback()
        assert done.returncode != 0 and "cilium.pods_would_stay" in done.stdout and f"{space}/logging-" in done.stdout
    done = rollback()
    assert "the configuration of Cilium for its Node" in done.stdout, done.stdout + done.stderr
    told = done.stdout.split("Take back the configuration of Cilium for the node")[1]
    assert "Send pods away" in told and f"-    \"CiliumNodeConfig kube-system/{before[1][0]}\"" in told and "Note why" not in told
    assert state(cluster) == before
