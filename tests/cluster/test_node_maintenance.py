# Copyright (c) 2026 The inferops.locality authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The role node_maintenance, run by ansible-playbook against a real API server whose nodes are stand-ins: turns that end, fail, are killed, or meet another."""

from __future__ import annotations

import json
import os
import random
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Dict, Iterator, List, Sequence

import pytest

from turns import MARK, TOP, Cluster, turn_cluster, until

SPREAD = {"topologySpreadConstraints": [
    {"maxSkew": 1, "topologyKey": "kubernetes.io/hostname", "whenUnsatisfiable": "ScheduleAnyway", "labelSelector": {"matchLabels": {"app": "web"}}},
]}
# What stands between is what a playbook does to its node: it may look at the API, fail, or reboot the stand-in. Becoming root would fail.
PLAY = """
- name: Work on each node
  hosts: all
  gather_facts: false
  serial: 1
  any_errors_fatal: true
  vars: {ansible_become: true, ansible_become_exe: /bin/false}
  tasks:
    - name: Know the machine as locality_state does
      ansible.builtin.set_fact: {locality_state: "{{ known }}", cacheable: true}
      when: known is defined

    - name: Leave the node as it is
      ansible.builtin.meta: end_host
      when: inventory_hostname in skipped

    - name: Turn
      block:
        - name: Take the node out
          ansible.builtin.include_role: {name: inferops.locality.node_maintenance}

        - name: Between
          ansible.builtin.command: {argv: "{{ between }}"}
          delegate_to: localhost
          vars: {ansible_become: false}
          when: between | length > 0

        - name: Hold it
          ansible.builtin.include_role: {name: inferops.locality.node_maintenance, tasks_from: hold}

        - name: Touch
          ansible.builtin.command: {argv: "{{ touch }}"}
          delegate_to: localhost
          vars: {ansible_become: false}
          when: touch | length > 0

        - name: Give it back
          ansible.builtin.include_role: {name: inferops.locality.node_maintenance, tasks_from: finish}
          vars: {node_maintenance_rebooted: "{{ rebooted }}"}
      rescue:
        - name: Let go
          ansible.builtin.include_role: {name: inferops.locality.node_maintenance, tasks_from: unlock}

        - name: Stop
          ansible.builtin.fail: {msg: "{{ ansible_failed_result.msg }}"}
"""


@pytest.fixture(scope="module")
def shared(programs: None) -> Iterator[Cluster]:
    with turn_cluster("a", "b") as cluster:
        yield cluster


@pytest.fixture
def cluster(shared: Cluster) -> Cluster:
    shared.reset("a", "b")
    return shared


@pytest.fixture
def namespace(cluster: Cluster, request: pytest.FixtureRequest) -> Iterator[str]:
    with cluster.namespace(request.node.name) as name:
        yield name


class Playing:
    """Runs the play above on a cluster."""

    def __init__(self, cluster: Cluster, folder: Path) -> None:
        self.cluster = cluster
        self.folder = folder
        (folder / "play.yml").write_text(PLAY, encoding="utf-8")

    def command(self, *arguments: str, hosts: Sequence[str] = ("a", "b"), maintenance: Any = None, **variables: Any) -> List[str]:
        hosts_file = self.folder / f"hosts-{'-'.join(hosts)}.json"
        host = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable}
        hosts_file.write_text(json.dumps({"all": {"hosts": dict.fromkeys(hosts, host)}}), encoding="utf-8")
        given = {
            "locality_kubeconfig": str(self.cluster.ours), "between": [], "touch": [], "skipped": [], "rebooted": False,
            "locality_maintenance": {"drain_timeout": 60, "reboot_timeout": 60, **(maintenance or {})}, **variables,
        }
        return [
            sys.executable, "-m", "ansible", "playbook", "-i", str(hosts_file), str(self.folder / "play.yml"), "-e", json.dumps(given), *arguments,
        ]

    @property
    def env(self) -> Dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith("ANSIBLE_")}
        return {**kept, "ANSIBLE_CONFIG": str(TOP / "ansible.cfg"), "ANSIBLE_COLLECTIONS_PATH": str(TOP / ".collections"), "ANSIBLE_NOCOLOR": "1"}

    def run(self, *arguments: str, **variables: Any) -> "subprocess.CompletedProcess[str]":
        command = self.command(*arguments, **variables)
        return subprocess.run(command, capture_output=True, text=True, check=False, env=self.env, cwd=self.folder, timeout=300)

    @contextmanager
    def started(self, **variables: Any) -> "Iterator[subprocess.Popen[bytes]]":
        with open(self.folder / "started.log", "wb") as log, subprocess.Popen(
            self.command(**variables), stdout=log, stderr=log, env=self.env, cwd=self.folder, start_new_session=True,
        ) as process:
            try:
                yield process
            finally:
                if process.poll() is None:
                    os.killpg(process.pid, signal.SIGKILL)

    def reboot(self, node: str = "{{ inventory_hostname }}", seconds: int = 3) -> List[str]:
        """A command that reboots the stand-in, as another process."""
        return [sys.executable, str(TOP / "tests/cluster/cluster.py"), "node", str(self.cluster.plane.control), node, "reboot", "--seconds", str(seconds)]

    def kubectl(self, *arguments: str) -> List[str]:
        return [str(self.cluster.plane.programs["kubectl"]), f"--kubeconfig={self.cluster.admin}", *arguments]


@pytest.fixture
def playing(cluster: Cluster, tmp_path: Path) -> Playing:
    return Playing(cluster, tmp_path)


class Watcher:
    """Looks at the nodes all the time.

    :ivar most: nodes that were not fit for pods at a time, at most. :ivar most_worked_on: the same of those with a mark or not ready.
    :ivar seen: nodes that were cordoned once.
    """

    def __init__(self, cluster: Cluster) -> None:
        self.most = self.most_worked_on = 0
        self.seen: List[str] = []
        self._cluster = cluster
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> "Watcher":
        self._thread.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self._stop.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._stop.wait(0.1):
            nodes = self._cluster.api.get("/api/v1/nodes")["items"]
            cordoned = [node["metadata"]["name"] for node in nodes if node["spec"].get("unschedulable")]
            silent = [node["metadata"]["name"] for node in nodes
                      if not any(each["type"] == "Ready" and each["status"] == "True" for each in node["status"]["conditions"])]
            marked = [node["metadata"]["name"] for node in nodes if MARK in node["metadata"].get("annotations", {})]
            self.most = max(self.most, len({*cordoned, *silent}))
            self.most_worked_on = max(self.most_worked_on, len({*marked, *silent}))
            self.seen += [name for name in cordoned if name not in self.seen]


class Relay:
    """An address of the API server at which three connections of four are closed at once: a module asks three times, so each fails the first time it runs.

    :ivar kubeconfig: one that has this address.
    """

    def __init__(self, cluster: Cluster, folder: Path) -> None:
        known = json.loads(cluster.ours.read_text(encoding="utf-8"))
        cluster_of = known["clusters"][0]["cluster"]
        self._server = int(cluster_of["server"].rpartition(":")[2])
        self._listening = socket.create_server(("127.0.0.1", 0))
        cluster_of["server"] = f"https://127.0.0.1:{self._listening.getsockname()[1]}"
        self.kubeconfig = folder / "relayed.kubeconfig"
        self.kubeconfig.write_text(json.dumps(known), encoding="utf-8")

    def __enter__(self) -> "Relay":
        threading.Thread(target=self._serve, daemon=True).start()
        return self

    def __exit__(self, *_error: object) -> None:
        self._listening.close()

    def _serve(self) -> None:
        count = 0
        while True:
            try:
                client, _address = self._listening.accept()
            except OSError:
                return
            count += 1
            if count % 4:
                client.close()
                continue
            server = socket.create_connection(("127.0.0.1", self._server))
            for source, target in ((client, server), (server, client)):
                threading.Thread(target=self._pass_on, args=(source, target), daemon=True).start()

    @staticmethod
    def _pass_on(source: socket.socket, target: socket.socket) -> None:
        try:
            while data := source.recv(65536):
                target.sendall(data)
            target.shutdown(socket.SHUT_WR)
        except OSError:
            pass


def untouched(cluster: Cluster, *nodes: str) -> bool:
    return not any(cluster.is_cordoned(node) or cluster.mark(node) for node in nodes) and not any(cluster.holders())


def test_a_node_that_is_another_machine_is_left_alone(playing: Playing, cluster: Cluster) -> None:
    right = {name: cluster.node(name)["status"]["nodeInfo"]["machineID"] for name in ("a", "b")}
    run = playing.run(known={"platform": {"machine_id": right["b"]}})
    assert run.returncode != 0 and f"machineID found {right['a']}, wanted {right['b']}" in run.stdout
    assert not any(cluster.node(name)["spec"].get("unschedulable") for name in right)
    # The same fact, of the node that it means.
    again = playing.run(known={"platform": {"machine_id": right["b"]}}, skipped=["a"])
    assert again.returncode == 0, again.stdout


def test_t_roll_22_two_nodes_one_after_the_other_are_drained_rebooted_and_given_back(
    cluster: Cluster, namespace: str, playing: Playing, tmp_path: Path,
) -> None:
    cluster.daemons(namespace, "cni", 2)
    gpu = {"containers": [{"name": "main", "image": "none", "resources": {"limits": {"nvidia.com/gpu": "2"}}}]}
    cluster.deploy(namespace, "web", 3, spec={**SPREAD, **gpu})
    cluster.budget(namespace, "web", 2)
    before = {name: cluster.node(name)["status"]["nodeInfo"]["bootID"] for name in ("a", "b")}
    # The pods that hold GPUs are gone when the node is touched.
    look = playing.kubectl("get", "pods", "-n", namespace, "--field-selector=spec.nodeName={{ inventory_hostname }}", "-l", "app=web", "-o", "name")
    program = "import subprocess, sys; out = subprocess.run(sys.argv[2:-1], capture_output=True, text=True, check=True).stdout; " \
              "open(sys.argv[1] + '/' + sys.argv[-1], 'w').write(out)"
    with Watcher(cluster) as watcher:
        done = playing.run(touch=playing.reboot(), rebooted=True,
                           between=[sys.executable, "-c", program, str(tmp_path), *look, "{{ inventory_hostname }}"])
    assert done.returncode == 0, done.stdout + done.stderr
    assert watcher.most == 1 and watcher.seen == ["a", "b"]
    assert [(tmp_path / name).read_text(encoding="utf-8") for name in ("a", "b")] == ["", ""]
    assert untouched(cluster, "a", "b")
    assert all(cluster.node(name)["status"]["nodeInfo"]["bootID"] != boot for name, boot in before.items())
    assert len(cluster.evictions(namespace)) == len(set(cluster.evictions(namespace)))


def test_t_roll_3_and_12_and_t_win_19_a_drain_that_fails_gives_the_node_back_and_stops(cluster: Cluster, namespace: str, playing: Playing) -> None:
    cluster.deploy(namespace, "kept", 2, node="a")
    cluster.budget(namespace, "kept", 2)
    with Watcher(cluster) as watcher:
        done = playing.run(maintenance={"drain_timeout": 31})
    assert done.returncode != 0
    assert "may not be evicted: The disruption budget kept needs 2 healthy pods" in done.stdout
    assert "becom" not in done.stdout.lower()
    assert untouched(cluster, "a", "b") and watcher.seen == ["a"]
    assert cluster.evictions(namespace) == []


def test_t_roll_6_a_node_that_was_cordoned_and_not_drained_is_drained_and_stays_cordoned(cluster: Cluster, namespace: str, playing: Playing) -> None:
    cluster.deploy(namespace, "web", 2, spec=SPREAD)
    assert cluster.names(namespace, "a")
    cluster.cordon("a")
    done = playing.run(hosts=["a"])
    assert done.returncode == 0, done.stdout
    assert "a was cordoned before the run, and stays so" in done.stdout
    assert cluster.is_cordoned("a") and cluster.mark("a") is None and not any(cluster.holders())
    assert cluster.names(namespace, "a") == []


def test_t_roll_7_a_cordon_that_is_lifted_before_the_node_is_touched_is_made_good(cluster: Cluster, namespace: str, playing: Playing) -> None:
    cluster.deploy(namespace, "web", 2, spec=SPREAD)
    # Somebody lifts it, and a pod comes that belongs elsewhere.
    lift = f"{' '.join(playing.kubectl('uncordon', 'a'))} && {' '.join(playing.kubectl('scale', '-n', namespace, 'deployment/late', '--replicas=1'))}"
    wait = f"{' '.join(playing.kubectl('wait', '-n', namespace, '--for=condition=Available', 'deployment/late', '--timeout=60s'))}"
    cluster.deploy(namespace, "late", 0, node="a")
    done = playing.run(hosts=["a"], between=["sh", "-c", f"{lift} && sleep 1 && {wait}"], touch=playing.kubectl(
        "get", "pods", "-n", namespace, "--field-selector=spec.nodeName=a,status.phase=Running", "-o", "name"))
    assert done.returncode == 0, done.stdout
    assert any(name.startswith("late-") for name in cluster.evictions(namespace))
    assert untouched(cluster, "a")


def test_t_roll_2_a_node_that_failed_after_it_was_touched_stays_cordoned_and_is_gone_on_with(cluster: Cluster, namespace: str, playing: Playing) -> None:
    cluster.deploy(namespace, "web", 2, spec=SPREAD)
    cluster.daemons(namespace, "agent", 2)
    failed = playing.run(touch=["false"])
    assert failed.returncode != 0
    mark = cluster.mark("a")
    assert cluster.is_cordoned("a") and mark and mark["disturbed"] and not any(cluster.holders())
    # Nobody takes another node out now, and nobody gives this one back by failing again.
    other = playing.run(hosts=["a", "b"], skipped=["a"])
    assert other.returncode != 0 and "the turn of a (by " in other.stdout and "run again for that node" in other.stdout
    assert not cluster.is_cordoned("b")
    again = playing.run(hosts=["a"], maintenance={"blocking_pods": ["app=agent"]})
    assert again.returncode != 0 and "An earlier run has touched the node: it stays cordoned" in again.stdout
    assert cluster.is_cordoned("a") and cluster.mark("a") and not any(cluster.holders())
    done = playing.run()
    assert done.returncode == 0, done.stdout
    assert untouched(cluster, "a", "b")


def retried(done: "subprocess.CompletedProcess[str]") -> List[str]:
    """Tasks that failed and were run again, without the role's name."""
    told = r"^FAILED - RETRYING: \[a -> localhost\]: (?:inferops.locality.node_maintenance : )?(.+) \([0-9]+ retries left\)"
    return re.findall(told, done.stdout, re.MULTILINE)


def test_a_turn_whose_every_request_is_answered_at_the_second_try_comes_to_its_end(cluster: Cluster, namespace: str, playing: Playing) -> None:
    cluster.deploy(namespace, "web", 2, spec=SPREAD)
    with Relay(cluster, playing.folder) as relay:
        done = playing.run(hosts=["a"], locality_kubeconfig=str(relay.kubeconfig), __node_maintenance_delay=1)
    assert done.returncode == 0, done.stdout
    assert untouched(cluster, "a") and cluster.evictions(namespace)
    assert retried(done) == [
        "Take the lock", "Look at the other nodes, alerts, pods that block and maintenance of others", "Mark and cordon the node", "Renew what the run holds",
        "Mark and cordon the node", "Renew what the run holds", "Uncordon the node, if the cordon is ours", "Let go of the lock",
    ]


def test_a_failed_turn_leaves_no_lock_where_the_api_does_not_answer_for_a_moment(cluster: Cluster, namespace: str, playing: Playing) -> None:
    with Relay(cluster, playing.folder) as relay:
        given = {"hosts": ["a"], "locality_kubeconfig": str(relay.kubeconfig), "__node_maintenance_delay": 1}
        touched = playing.run(touch=["false"], **given)
        assert touched.returncode != 0 and retried(touched)[-1] == "Let go of the lock"
        assert cluster.mark("a") and not any(cluster.holders())
        cluster.reset("a")
        # Before it was touched it is given back, too.
        cluster.deploy(namespace, "kept", 1, node="a")
        cluster.budget(namespace, "kept", 1)
        held = playing.run(maintenance={"drain_timeout": 31}, **given)
    assert held.returncode != 0 and "may not be evicted: The disruption budget kept" in held.stdout
    # The last one is of the play, which lets go of what is let go of.
    assert retried(held)[-3:] == ["Uncordon the node unless it was touched", "Let go of the lock", "Let go of the lock"]
    assert untouched(cluster, "a")


def test_what_cannot_be_given_back_does_not_hide_why_the_turn_failed(cluster: Cluster, namespace: str, playing: Playing) -> None:
    """All tries fail: the API server is gone for good from the drain on."""
    cluster.deploy(namespace, "kept", 1, node="a")
    cluster.budget(namespace, "kept", 1)
    known = json.loads(cluster.ours.read_text(encoding="utf-8"))
    kubeconfig, moved = playing.folder / "kubeconfig", playing.folder / "moved"
    kubeconfig.write_text(json.dumps(known), encoding="utf-8")
    known["clusters"][0]["cluster"]["server"] = "https://127.0.0.1:1"
    moved.write_text(json.dumps(known), encoding="utf-8")
    variables = {"locality_kubeconfig": str(kubeconfig), "__node_maintenance_delay": 1, "__node_maintenance_retries": 2}
    with playing.started(hosts=["a"], maintenance={"drain_timeout": 31}, **variables) as process:
        until("it is cordoned", lambda: cluster.mark("a"))
        moved.replace(kubeconfig)
        process.wait(timeout=200)
    told = (playing.folder / "started.log").read_text(encoding="utf-8")
    assert process.returncode != 0 and "Evict the pods: node a: not drained within 31 s" in told, told
    assert "The node is still cordoned: " in told and "The lock is still held: " in told


def test_t_roll_2_a_run_that_is_killed_in_its_drain_is_gone_on_with_at_once(cluster: Cluster, namespace: str, playing: Playing) -> None:
    cluster.deploy(namespace, "slow", 1, node="a")
    name = cluster.names(namespace)[0]
    cluster.plane.nodes["a"].keep(namespace, name, 25)
    with playing.started(hosts=["a"]) as process:
        until("the pod is evicted", lambda: cluster.evictions(namespace))
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    holder = cluster.holders()
    mark = cluster.mark("a")
    assert holder != [""] and mark and mark["run"] == holder[0] and cluster.is_cordoned("a")
    done = playing.run(hosts=["a"])
    assert done.returncode == 0, done.stdout
    assert untouched(cluster, "a")
    assert cluster.evictions(namespace) == [name]


@pytest.fixture
def third(cluster: Cluster) -> Iterator[str]:
    """A node for the pods of two that are cordoned."""
    cluster.plane.nodes.add("c", capacity={"nvidia.com/gpu": "8"})
    yield "c"
    cluster.plane.nodes.remove("c")


def left_behind(folder: Path) -> bool:
    """Whether a process of a run in this folder is still there. Ansible gives each worker a session of its own, so its process group does not tell."""
    for file in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if str(folder).encode() in file.read_bytes():
                return True
        except OSError:
            continue
    return False


# LOCALITY_KILLS=20 tries twenty moments; each takes half a minute on an idle machine.
SEEDS = range(int(os.environ.get("LOCALITY_KILLS", "1")))


@pytest.mark.parametrize("seed", SEEDS)
def test_t_roll_2_a_run_that_is_killed_at_any_moment_is_gone_on_with(
    cluster: Cluster, third: str, namespace: str, playing: Playing, seed: int,
) -> None:
    """A budget, a pod that ends slowly, a cordon of somebody else, reboots; ``kill -9`` of ansible-playbook alone, so that its last task goes on without it."""
    cluster.daemons(namespace, "cni", 3)
    cluster.deploy(namespace, "web", 3, spec=SPREAD)
    cluster.budget(namespace, "web", 2)
    cluster.plane.nodes["a"].keep(namespace, cluster.names(namespace, "a")[0], 6)
    cluster.cordon("b")
    moment = random.Random(seed).uniform(1, 45)
    with Watcher(cluster) as watcher:
        with playing.started(touch=playing.reboot(), rebooted=True) as process:
            try:
                # A run that has ended by then was killed too late; a second one has nothing to go on with.
                process.wait(timeout=moment)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        # Its last task may be marking a node.
        until("the task that goes on without it has ended", lambda: not left_behind(playing.folder))
        # A node whose turn was begun comes first: until it is ended no other one is taken out.
        done = playing.run(hosts=sorted(("a", "b"), key=lambda name: cluster.mark(name) is None), touch=playing.reboot(), rebooted=True)
    assert done.returncode == 0, f"killed after {moment:.1f} s: {done.stdout}"
    assert watcher.most_worked_on == 1
    assert cluster.mark("a") is None and cluster.mark("b") is None and not any(cluster.holders())
    assert not cluster.is_cordoned("a") and cluster.is_cordoned("b"), "the cordon of somebody else stays, ours does not"
    assert len(cluster.evictions(namespace)) == len(set(cluster.evictions(namespace)))


def test_t_win_18_of_two_operators_at_once_the_second_is_told_who_is_there(cluster: Cluster, namespace: str, playing: Playing) -> None:
    marker = playing.folder / "go"
    wait = ["sh", "-c", f"while [ ! -e {marker} ]; do sleep 0.2; done"]
    with playing.started(hosts=["a"], touch=wait) as process:
        until("the first one has touched its node", lambda: (cluster.mark("a") or {}).get("disturbed"))
        second = playing.run(hosts=["b"])
        assert second.returncode != 0 and "the lock for node b is not free" in second.stdout and " for node a since 20" in second.stdout
        assert not cluster.is_cordoned("b")
        # The same node, with slots to spare.
        same = playing.run(hosts=["a"], maintenance={"max_unavailable": 2})
        assert same.returncode != 0 and "the lock for node a is not free" in same.stdout
        assert (cluster.mark("a") or {})["disturbed"]
        marker.touch()
        assert process.wait(timeout=120) == 0, (playing.folder / "started.log").read_text(encoding="utf-8")
    assert untouched(cluster, "a", "b")


def test_a_lock_that_is_taken_over_stops_the_run_before_it_touches_the_node(cluster: Cluster, namespace: str, playing: Playing) -> None:
    steal = {"spec": {"holderIdentity": "somebody@elsewhere/1"}}
    lease = playing.kubectl("patch", "lease", "-n", "kube-system", "inferops-locality-0", "--type=merge", "-p", json.dumps(steal))
    touched = playing.folder / "touched"
    done = playing.run(hosts=["a"], between=lease, touch=["touch", str(touched)])
    assert done.returncode != 0 and "the lock for node a is not free" in done.stdout
    assert not touched.exists()
    assert cluster.holders() == ["somebody@elsewhere/1"]


def test_check_mode_says_what_would_be_evicted_and_what_is_in_the_way_and_changes_nothing(cluster: Cluster, namespace: str, playing: Playing) -> None:
    cluster.deploy(namespace, "kept", 1, node="a")
    cluster.budget(namespace, "kept", 1)
    name = cluster.names(namespace)[0]
    with Watcher(cluster) as watcher:
        done = playing.run("--check", "--diff")
    assert done.returncode == 0, done.stdout
    assert f"a: would be evicted: {namespace}/{name}" in done.stdout and "b: would be evicted: no pod" in done.stdout
    # Lines of a warning are folded.
    assert f"pod {namespace}/{name} may not be evicted" in " ".join((done.stdout + done.stderr).split())
    assert untouched(cluster, "a", "b") and watcher.seen == [] and cluster.holders() == []


PREFLIGHT = """
- name: Ask for all nodes
  hosts: all
  gather_facts: false
  tasks:
    - name: Ask
      ansible.builtin.include_role: {name: inferops.locality.node_maintenance, tasks_from: preflight}

    - name: Tell
      ansible.builtin.copy:
        dest: "{{ playbook_dir }}/{{ inventory_hostname }}.json"
        content: "{{ {'findings': node_maintenance_findings, 'mark': node_maintenance_mark, 'cordoned': node_maintenance_cordoned} | to_json }}"
        mode: "0600"
"""


def test_all_that_would_refuse_a_node_is_known_before_the_first_is_touched(cluster: Cluster, namespace: str, playing: Playing) -> None:
    cluster.bare_pod(namespace, "bare", "a", {"volumes": [{"name": "shm", "emptyDir": {}}]})
    cluster.deploy(namespace, "kept", 1, node="b")
    cluster.budget(namespace, "kept", 1)
    cluster.call("node_cordon", "b", state="cordoned", holder="somebody@elsewhere/1")
    (playing.folder / "play.yml").write_text(PREFLIGHT, encoding="utf-8")
    done = playing.run(hosts=["a", "b", "nobody"])
    assert done.returncode == 0, done.stdout
    told = {name: json.loads((playing.folder / f"{name}.json").read_text(encoding="utf-8")) for name in ("a", "b", "nobody")}
    refused, held, unknown = (told[name]["findings"] for name in ("a", "b", "nobody"))
    assert [(item["id"], item["severity"]) for item in (*refused, *held, *unknown)] == [
        ("cluster.refused", "error"), ("cluster.held", "warning"), ("cluster.refused", "error"),
    ]
    assert "bare has data in emptyDir volumes (shm)" in refused[0]["message"] and "bare has no controller" in refused[0]["message"]
    assert "The disruption budget kept needs 1 healthy pods" in held[0]["message"]
    assert "the cluster has no such node" in unknown[0]["message"]
    assert told["a"]["mark"] is None and told["b"]["mark"]["run"] == "somebody@elsewhere/1"
    assert {name: found["cordoned"] for name, found in told.items()} == {"a": False, "b": True, "nobody": False}
    assert cluster.evictions(namespace) == [] and cluster.holders() == [] and not cluster.is_cordoned("a")


def test_a_cluster_that_is_not_well_keeps_the_run_from_the_node(cluster: Cluster, playing: Playing) -> None:
    cluster.plane.nodes["b"].not_ready()
    until("it says so", lambda: cluster.call("cluster_health", "a", fail=False)["healthy"] is False)
    done = playing.run(hosts=["a"])
    assert done.returncode != 0 and "health.nodes_not_ready" in done.stdout
    assert untouched(cluster, "a")


def test_the_time_outs_of_tasks_are_above_those_of_their_modules(cluster: Cluster, playing: Playing) -> None:
    began = time.monotonic()
    cluster.plane.nodes["a"].not_ready()
    until("it says so", lambda: cluster.call("cluster_health", "b", fail=False)["healthy"] is False)
    done = playing.run(hosts=["a"], maintenance={"reboot_timeout": 20})
    assert done.returncode != 0 and "node a is not back within 20 s: condition Ready: found False" in done.stdout
    assert time.monotonic() - began < 120
    mark = cluster.mark("a")
    assert cluster.is_cordoned("a") and mark and mark["disturbed"] and not any(cluster.holders())
