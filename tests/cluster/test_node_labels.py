# Copyright (c) 2026 The inferops.locality authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Labels and taints of a Node on a real API server, by the module and with the rights of docs/rbac.yaml."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any, Dict, Iterator

import pytest

from turns import TOP, Cluster, turn_cluster, until

NOTE = "locality.inferops.io/labels"
WANTED: Dict[str, Any] = {"labels": {"gpu": "h100", "node-role.kubernetes.io/inference": "true"}, "taints": ["dedicated=inference:PreferNoSchedule"]}


@pytest.fixture(scope="module")
def shared(programs: None) -> Iterator[Cluster]:
    with turn_cluster("a") as cluster:
        yield cluster


@pytest.fixture
def cluster(shared: Cluster) -> Cluster:
    shared.api.patch("/api/v1/nodes/a", {"metadata": {"annotations": {NOTE: None}, "labels": {"gpu": None, "other": None}}, "spec": {"taints": None}})
    return shared


def taints(cluster: Cluster) -> list[str]:
    return [f"{taint['key']}={taint.get('value', '')}:{taint['effect']}" for taint in cluster.node("a")["spec"].get("taints", [])]


def test_set_check_set_again_check_again_and_take_away(cluster: Cluster) -> None:
    cluster.plane.kubectl("label", "node", "a", "other=x")
    cluster.plane.kubectl("taint", "node", "a", "other=x:PreferNoSchedule")
    before = cluster.node("a")
    foretold = cluster.call("node_labels", "a", check=True, **WANTED)
    assert foretold["changed"] and cluster.node("a")["metadata"]["labels"] == before["metadata"]["labels"]
    assert foretold["diff"]["after"]["labels"] == WANTED["labels"]
    made = cluster.call("node_labels", "a", **WANTED)
    assert made["changed"] and made["cluster_state"] == foretold["cluster_state"]
    assert cluster.node("a")["metadata"]["labels"] == {**before["metadata"]["labels"], **WANTED["labels"]}
    assert taints(cluster) == ["other=x:PreferNoSchedule", "dedicated=inference:PreferNoSchedule"]
    for check in (False, True):
        again = cluster.call("node_labels", "a", check=check, **WANTED)
        assert (again["changed"], again["cluster_state"]) == (False, made["cluster_state"])
    assert cluster.call("node_labels", "a", state="read")["cluster_state"] == made["cluster_state"]
    assert cluster.call("node_labels", "a", state="absent")["changed"]
    after = cluster.node("a")
    assert after["metadata"]["labels"] == before["metadata"]["labels"] and after["spec"]["taints"] == before["spec"]["taints"]
    assert NOTE not in after["metadata"].get("annotations", {})
    assert not cluster.call("node_labels", "a", state="absent")["changed"]


def test_what_the_api_refuses_is_told_and_changes_nothing(cluster: Cluster) -> None:
    before = cluster.node("a")["metadata"]["labels"]
    for arguments in ({"labels": {"gpu": "h100", "not a name": "x"}}, {"labels": {"gpu": "no value "}}, {"taints": ["dedicated:NoSchedul"]}):
        refused = cluster.call("node_labels", "a", **arguments)
        assert refused["failed"] and next(iter(arguments)) in refused["msg"], refused
    assert cluster.node("a")["metadata"]["labels"] == before


def test_a_node_that_is_not_there(cluster: Cluster) -> None:
    refused = cluster.call("node_labels", "nowhere", **WANTED)
    assert refused["failed"] and "set locality_node_name" in refused["msg"]


def test_a_taint_that_the_cluster_sets_meanwhile_is_not_lost(cluster: Cluster) -> None:
    """The list of taints is written as a whole, so a writer in between must make it be read again."""
    stop = threading.Event()

    def others() -> None:
        number = 0
        while not stop.is_set():
            number += 1
            cluster.api.patch("/api/v1/nodes/a", {"metadata": {"annotations": {"beside": str(number)}}})

    writer = threading.Thread(target=others)
    writer.start()
    try:
        cluster.plane.nodes["a"].not_ready()
        until("the cluster has set its own", lambda: any("not-ready" in taint for taint in taints(cluster)))
        results = [cluster.call("node_labels", "a", taints=wanted) for wanted in (["one:PreferNoSchedule"], ["two:PreferNoSchedule"])]
    finally:
        stop.set()
        writer.join()
        cluster.plane.nodes["a"].ready()
    assert [result.get("msg") for result in results] == [None, None]
    assert "two=:PreferNoSchedule" in taints(cluster) and "one=:PreferNoSchedule" not in taints(cluster)
    until("the cluster has taken its own away", lambda: not any("not-ready" in taint for taint in taints(cluster)))


PLAY = """
- name: Label
  hosts: all
  gather_facts: false
  vars: {ansible_become: true, ansible_become_exe: /bin/false}
  tasks:
    - name: Give the Node its labels and taints
      ansible.builtin.include_role: {name: inferops.locality.rke2_kubelet, tasks_from: labels}
"""


@pytest.mark.parametrize("knobs", [{"node.labels": WANTED["labels"], "node.taints": WANTED["taints"]}, {}], ids=["a plan", "a plan without"])
def test_the_role_checks_sets_sets_again_and_checks_again(cluster: Cluster, tmp_path: Path, knobs: Dict[str, Any]) -> None:
    """Becoming root, as the plays of nodes do, is not for the control host: there it would fail."""
    if not knobs:
        cluster.call("node_labels", "a", **WANTED)
    (tmp_path / "play.yml").write_text(PLAY, encoding="utf-8")
    given = {"locality_kubeconfig": str(cluster.ours), "locality_plan": {"knobs": knobs}, "ansible_connection": "local"}
    changed = []
    for options in (["--check", "--diff"], [], [], ["--check"]):
        done = subprocess.run(
            [sys.executable, "-m", "ansible", "playbook", "-i", "a,", str(tmp_path / "play.yml"), "-e", json.dumps(given), *options],
            env={**os.environ, "ANSIBLE_COLLECTIONS_PATH": str(TOP / ".collections"), "ANSIBLE_CONFIG": str(TOP / "ansible.cfg"), "ANSIBLE_NOCOLOR": "1"},
            check=False, capture_output=True, text=True, timeout=300,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        changed.append("changed=1" in done.stdout)
        assert not options[1:] or "h100" in done.stdout
    assert changed == [True, True, False, False]
    assert ("gpu" in cluster.node("a")["metadata"]["labels"]) == bool(knobs)
