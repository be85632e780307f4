# Copyright (c) 2026 The inferops.locality authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The control plane for tests is one: it starts, denies, evicts, reschedules, and leaves nothing behind."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Dict, Iterator, List, Optional, Tuple

import pytest

from ansible_collections.inferops.locality.plugins.module_utils import kubelet_args
from controlplane import Api, ApiError, ClusterError, ControlPlane, binaries, control, control_plane
from turns import until
from vlab import process

HERE = Path(__file__).resolve().parent


@pytest.fixture
def namespace(cluster: ControlPlane, request: pytest.FixtureRequest) -> Iterator[str]:
    name = request.node.name.replace("_", "-")[:60].strip("-")
    cluster.api.post("/api/v1/namespaces", {"metadata": {"name": name}})
    until("the namespace has its service account", lambda: found(cluster, f"/api/v1/namespaces/{name}/serviceaccounts/default"))
    yield name
    cluster.api.delete(f"/api/v1/namespaces/{name}")


def found(cluster: ControlPlane, path: str) -> Optional[Dict[str, Any]]:
    try:
        return cluster.api.get(path)
    except ApiError as error:
        if error.code != 404:
            raise
        return None


def template(app: str, grace: int = 30) -> Dict[str, Any]:
    return {
        "metadata": {"labels": {"app": app}},
        "spec": {"terminationGracePeriodSeconds": grace, "containers": [{"name": "main", "image": "none"}]},
    }


def deploy(cluster: ControlPlane, namespace: str, app: str, replicas: int, grace: int = 30) -> None:
    cluster.api.post(f"/apis/apps/v1/namespaces/{namespace}/deployments", {
        "metadata": {"name": app},
        "spec": {"replicas": replicas, "selector": {"matchLabels": {"app": app}}, "template": template(app, grace)},
    })
    until("all replicas run", lambda: len(running(cluster, namespace)) == replicas)


def pods(cluster: ControlPlane, namespace: str) -> List[Dict[str, Any]]:
    return list(cluster.api.get(f"/api/v1/namespaces/{namespace}/pods")["items"])


def running(cluster: ControlPlane, namespace: str, node: Optional[str] = None) -> List[Dict[str, Any]]:
    """Pods that run and are not about to end."""
    return [
        pod for pod in pods(cluster, namespace)
        if pod["status"].get("phase") == "Running" and "deletionTimestamp" not in pod["metadata"] and node in (None, pod["spec"]["nodeName"])
    ]


def ready(cluster: ControlPlane, node: str) -> str:
    """Status of the node's condition Ready."""
    conditions = cluster.api.get(f"/api/v1/nodes/{node}")["status"]["conditions"]
    return str(next(condition["status"] for condition in conditions if condition["type"] == "Ready"))


def cordon(cluster: ControlPlane, node: str, on: bool = True) -> None:
    cluster.api.patch(f"/api/v1/nodes/{node}", {"spec": {"unschedulable": on or None}})


def evict(cluster: ControlPlane, pod: Dict[str, Any]) -> None:
    metadata = {key: pod["metadata"][key] for key in ("name", "namespace")}
    path = f"/api/v1/namespaces/{metadata['namespace']}/pods/{metadata['name']}/eviction"
    cluster.api.post(path, {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": metadata})


def budget(cluster: ControlPlane, namespace: str, app: str, available: int) -> None:
    path = f"/apis/policy/v1/namespaces/{namespace}/poddisruptionbudgets"
    cluster.api.post(path, {"metadata": {"name": app}, "spec": {"minAvailable": available, "selector": {"matchLabels": {"app": app}}}})
    until("the budget is computed", lambda: cluster.api.get(f"{path}/{app}").get("status", {}).get("observedGeneration"))


# -- programs ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", binaries.NAMES)
def test_a_program_tells_the_pinned_version(programs: None, name: str) -> None:
    version = binaries.version_of(binaries.programs([name])[name])
    if name == "etcd":
        assert version == binaries.pinned("go.etcd.io/etcd/server/v3")
    elif name == "kubectl":
        assert binaries.minor(version) == binaries.minor(binaries.kubernetes_version())
    elif name == "helm":
        assert version
    else:
        assert version == binaries.kubernetes_version()


# -- start and end ----------------------------------------------------------------------------------------------------


def test_it_runs_with_the_pinned_version(cluster: ControlPlane) -> None:
    assert sorted(cluster.running()) == ["etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler"]
    assert cluster.api.get("/version")["gitVersion"] == binaries.kubernetes_version()
    assert cluster.kubectl("get", "nodes", "--output", "name").stdout.split() == ["node/a", "node/b"]


def test_two_side_by_side_do_not_see_each_other(cluster: ControlPlane) -> None:
    with control_plane(controllers=False, scheduler=False) as other:
        assert sorted(other.running()) == ["etcd", "kube-apiserver"]
        other.api.post("/api/v1/namespaces", {"metadata": {"name": "theirs"}})
        assert found(cluster, "/api/v1/namespaces/theirs") is None
        assert other.api.get("/api/v1/nodes")["items"] == []
        # Neither knows the other's certificate, nor who signed its users'.
        stranger = Api(other.server, other.authority.pair.certificate, (cluster.authority.folder / "admin.crt", cluster.authority.folder / "admin.key"))
        with pytest.raises(ApiError) as refused:
            stranger.get("/api/v1/nodes")
        assert refused.value.code == 401
        with pytest.raises(OSError, match="certificate verify failed"):
            Api(other.server, cluster.authority.pair.certificate).get("/readyz")
        logs, folder, pids = other.logs, other.folder, other.running().values()
    assert not [pid for pid in pids if process.start_time(pid)]
    assert not folder.exists()
    assert (logs / "kube-apiserver.log").stat().st_size
    assert sorted(cluster.running()) == ["etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler"]


def test_a_program_that_does_not_start_is_told_with_its_log(programs: None) -> None:
    with pytest.raises(ClusterError, match=r"(?s)kube-apiserver ended before the API server is ready.*--no-such-flag"), \
            control_plane(arguments={"kube-apiserver": ["--no-such-flag"]}):
        pass
    assert process_names("etcd", f"locality-cluster-{os.getpid()}-") == []


def process_names(program: str, part: str) -> List[str]:
    """Command lines of that program's processes that have ``part`` in them."""
    lines = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True).stdout.splitlines()
    return [line for line in lines if Path(line.split()[0]).name == program and part in line and "kubelet" not in line]


SCRIPT = """
import json, sys, time
from controlplane import control_plane
with control_plane() as cluster:
    cluster.nodes.add("a")
    print(json.dumps({"pids": cluster.running(), "folder": str(cluster.folder)}), flush=True)
    time.sleep(600)
"""


def test_everything_ends_with_a_process_that_is_killed(programs: None) -> None:
    path = os.pathsep.join([str(HERE), str(HERE.parent / "lab")])
    test = subprocess.Popen([sys.executable, "-c", SCRIPT], stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": path})
    assert test.stdout is not None
    told = json.loads(test.stdout.readline())
    started = {pid: process.start_time(pid) for pid in told["pids"].values()}
    assert len(started) == 4 and all(started.values())
    test.send_signal(signal.SIGKILL)
    test.wait()
    test.stdout.close()
    until("all programs are gone", lambda: not any(process.start_time(pid) == began for pid, began in started.items()), 20)
    assert Path(told["folder"]).exists()
    with control_plane(controllers=False, scheduler=False):
        assert not Path(told["folder"]).exists(), "the next one clears what the killed one could not"


# -- who may do what --------------------------------------------------------------------------------------------------

RBAC = """
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: reader}
rules:
  - {apiGroups: [""], resources: [nodes], verbs: [get, list]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: leases, namespace: kube-system}
rules:
  - {apiGroups: [coordination.k8s.io], resources: [leases], verbs: [create, get]}
"""
ACCOUNT = """
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: operator, namespace: kube-system}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: operator}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: reader}
subjects: [{kind: ServiceAccount, name: operator, namespace: kube-system}]
"""


def test_an_account_may_do_what_the_manifest_says_and_no_more(cluster: ControlPlane, tmp_path: Path) -> None:
    manifest = tmp_path / "rbac.yaml"
    manifest.write_text(RBAC, encoding="utf-8")
    assert cluster.kubeconfig_for(manifest) == cluster.kubeconfig_for(manifest)
    kubeconfig = cluster.kubeconfig_for(manifest)
    api = Api.of(kubeconfig)
    assert len(api.get("/api/v1/nodes")["items"]) == 2
    leases = "/apis/coordination.k8s.io/v1/namespaces/{}/leases"
    api.post(leases.format("kube-system"), {"metadata": {"name": "ours"}, "spec": {}})
    for method, path, body in (
        ("PATCH", "/api/v1/nodes/a", {"metadata": {"labels": {"x": "y"}}}), ("DELETE", "/api/v1/nodes/a", None), ("GET", "/api/v1/pods", None),
        ("POST", leases.format("default"), {"metadata": {"name": "ours"}}), ("DELETE", leases.format("kube-system") + "/ours", None),
    ):
        with pytest.raises(ApiError) as refused:
            api.request(method, path, body, "application/merge-patch+json" if method == "PATCH" else "application/json")
        assert refused.value.code == 403, (method, path)
    denied = cluster.kubectl("get", "pods", kubeconfig=kubeconfig, check=False)
    assert denied.returncode and 'User "system:serviceaccount:default:rbac" cannot list resource "pods"' in denied.stderr


def test_an_account_with_bindings_of_its_own_gets_no_others(cluster: ControlPlane, tmp_path: Path) -> None:
    manifest = tmp_path / "own.yaml"
    manifest.write_text(RBAC + ACCOUNT, encoding="utf-8")
    api = Api.of(cluster.kubeconfig_for(manifest))
    assert api.get("/api/v1/nodes")["items"]
    with pytest.raises(ApiError) as refused:
        api.post("/apis/coordination.k8s.io/v1/namespaces/kube-system/leases", {"metadata": {"name": "unbound"}, "spec": {}})
    assert refused.value.code == 403


def test_a_manifest_for_nobody_or_for_several_is_refused(cluster: ControlPlane, tmp_path: Path) -> None:
    manifest = tmp_path / "odd.yaml"
    someone = RBAC + ACCOUNT.replace("kind: ServiceAccount, name: operator", "kind: User, name: root").replace("kind: ServiceAccount\n", "kind: ConfigMap\n")
    another = RBAC + ACCOUNT.replace("name: operator, namespace: kube-system}]", "name: other, namespace: default}]")
    for text, told in ((ACCOUNT, "has no ClusterRole and no Role"), (someone, "it has none"), (another, "it has default/other, kube-system/operator")):
        manifest.write_text(text, encoding="utf-8")
        with pytest.raises(ClusterError, match=told):
            cluster.kubeconfig_for(manifest)


def test_a_stranger_may_nothing_and_a_node_only_what_is_its_own(cluster: ControlPlane) -> None:
    with pytest.raises(ApiError) as refused:
        Api(cluster.server, cluster.authority.pair.certificate).get("/api/v1/nodes")
    assert refused.value.code == 403
    node = Api.of(cluster.user("system:node:a", ["system:nodes"]))
    node.patch("/api/v1/nodes/a", {"metadata": {"annotations": {"own": "1"}}})
    with pytest.raises(ApiError) as refused:
        node.patch("/api/v1/nodes/b", {"metadata": {"annotations": {"own": "1"}}})
    assert refused.value.code == 403


# -- drains -----------------------------------------------------------------------------------------------------------


def test_a_budget_blocks_an_eviction(cluster: ControlPlane, namespace: str) -> None:
    deploy(cluster, namespace, "web", replicas=2)
    budget(cluster, namespace, "web", available=2)
    victim = pods(cluster, namespace)[0]
    with pytest.raises(ApiError) as refused:
        evict(cluster, victim)
    assert refused.value.code == 429
    assert refused.value.status["details"]["causes"][0]["reason"] == "DisruptionBudget"
    cluster.api.patch(f"/apis/apps/v1/namespaces/{namespace}/deployments/web", {"spec": {"replicas": 3}})
    until("the third one runs", lambda: len(running(cluster, namespace)) == 3)
    until("the budget allows one", lambda: cluster.api.get(f"/apis/policy/v1/namespaces/{namespace}/poddisruptionbudgets/web")["status"]["disruptionsAllowed"])
    evict(cluster, victim)
    until("another one runs in its place", lambda: victim["metadata"]["uid"] not in [pod["metadata"]["uid"] for pod in running(cluster, namespace)])
    until("three run again", lambda: len(running(cluster, namespace)) == 3)


def test_a_drain_moves_deployments_and_leaves_daemon_and_mirror_pods(cluster: ControlPlane, namespace: str) -> None:
    deploy(cluster, namespace, "web", replicas=4)
    assert {pod["spec"]["nodeName"] for pod in running(cluster, namespace)} == {"a", "b"}
    cluster.api.post(f"/apis/apps/v1/namespaces/{namespace}/daemonsets", {
        "metadata": {"name": "agent"}, "spec": {"selector": {"matchLabels": {"app": "agent"}}, "template": template("agent")},
    })
    until("the daemon runs on both", lambda: len(running(cluster, namespace)) == 6)
    mirror = cluster.nodes["a"].static_pod(namespace, "proxy")
    until("the mirror runs", lambda: mirror in [pod["metadata"]["name"] for pod in running(cluster, namespace)])
    try:
        drained = cluster.kubectl("drain", "a", "--ignore-daemonsets", "--timeout=120s", check=False)
        assert drained.returncode == 0, drained.stderr
        left = [pod["metadata"]["name"] for pod in running(cluster, namespace, "a")]
        assert sorted(left) == sorted([mirror, *(name for name in left if name.startswith("agent-"))]) and len(left) == 2
        until("all replicas run elsewhere", lambda: len([pod for pod in running(cluster, namespace, "b") if pod["metadata"]["labels"]["app"] == "web"]) == 4)
        uid = found(cluster, f"/api/v1/namespaces/{namespace}/pods/{mirror}")
        assert uid is not None
        cluster.api.delete(f"/api/v1/namespaces/{namespace}/pods/{mirror}")
        until("a deleted mirror comes back", lambda: [
            pod for pod in running(cluster, namespace, "a") if pod["metadata"]["name"] == mirror and pod["metadata"]["uid"] != uid["metadata"]["uid"]
        ])
    finally:
        cordon(cluster, "a", on=False)
        cluster.nodes["a"].forget_static_pod(namespace, mirror)


def test_a_pod_ends_after_its_grace_period_or_when_told(cluster: ControlPlane, namespace: str) -> None:
    node = cluster.nodes["a"]
    cordon(cluster, "b")
    try:
        deploy(cluster, namespace, "slow", replicas=2, grace=6)
        first, second = running(cluster, namespace, "a")
        node.ending = None
        node.keep(namespace, second["metadata"]["name"], 12)
        taken = {}
        began = time.monotonic()
        for pod in (first, second):
            evict(cluster, pod)
        for pod in (first, second):
            path = f"/api/v1/namespaces/{namespace}/pods/{pod['metadata']['name']}"
            until("the pod is gone", lambda path=path: found(cluster, path) is None)
            taken[pod["metadata"]["name"]] = time.monotonic() - began
        assert 5.5 < taken[first["metadata"]["name"]] < 12
        assert taken[second["metadata"]["name"]] > 11.5
    finally:
        node.ending = 0.5
        cordon(cluster, "b", on=False)


# -- nodes ------------------------------------------------------------------------------------------------------------


def test_a_reboot_is_seen_as_one(cluster: ControlPlane, namespace: str) -> None:
    deploy(cluster, namespace, "web", replicas=2)
    before = cluster.api.get("/api/v1/nodes/a")["status"]["nodeInfo"]["bootID"]
    uids = {pod["metadata"]["uid"] for pod in running(cluster, namespace, "a")}
    assert uids
    # As a playbook would, from another process.
    command = [sys.executable, str(HERE / "cluster.py"), "node", str(cluster.control), "a", "reboot", "--seconds", "4"]
    told = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    assert told["rebooting"] and told["boot_id"] == before
    until("it goes down", lambda: ready(cluster, "a") == "False")
    assert ready(cluster, "b") == "True"
    until("it is back", lambda: ready(cluster, "a") == "True")
    assert cluster.api.get("/api/v1/nodes/a")["status"]["nodeInfo"]["bootID"] not in ("", before)
    assert cluster.nodes["a"].reboots == 1
    again = until("its pods were started again", lambda: [
        pod for pod in running(cluster, namespace, "a") if pod["metadata"]["uid"] in uids and pod["status"]["containerStatuses"][0]["restartCount"] == 1
    ])
    assert len(again) == len(uids)
    until("no taint is left", lambda: not cluster.api.get("/api/v1/nodes/a")["spec"].get("taints"))


def test_devices_are_back_some_time_after_the_node(cluster: ControlPlane) -> None:
    def gpus() -> Tuple[str, str]:
        return ready(cluster, "g"), cluster.api.get("/api/v1/nodes/g")["status"]["allocatable"]["nvidia.com/gpu"]

    node = cluster.nodes.add("g", capacity={"nvidia.com/gpu": "8"})
    try:
        assert gpus() == ("True", "8")
        control.tell(cluster.control, "g", "devices-after", seconds=4)
        node.reboot(1)
        until("it goes down", lambda: ready(cluster, "g") == "False")
        until("it is back without GPUs", lambda: gpus() == ("True", "0"))
        until("they are back", lambda: gpus() == ("True", "8"))
    finally:
        cluster.nodes.remove("g")


def test_a_silent_node_is_called_unknown_and_its_pods_are_replaced(cluster: ControlPlane, namespace: str) -> None:
    short = template("web")
    short["spec"]["tolerations"] = [
        {"key": f"node.kubernetes.io/{kind}", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 2} for kind in ("unreachable", "not-ready")
    ]
    cluster.api.post(f"/apis/apps/v1/namespaces/{namespace}/deployments", {
        "metadata": {"name": "web"}, "spec": {"replicas": 2, "selector": {"matchLabels": {"app": "web"}}, "template": short},
    })
    until("one runs on each", lambda: running(cluster, namespace, "a") and running(cluster, namespace, "b"))
    lost = running(cluster, namespace, "a")[0]["metadata"]["name"]
    cluster.nodes["a"].stop()
    try:
        until("it is called unknown", lambda: ready(cluster, "a") == "Unknown")
        until("both run on the other", lambda: len(running(cluster, namespace, "b")) == 2)
        assert found(cluster, f"/api/v1/namespaces/{namespace}/pods/{lost}"), "nobody there who could end it"
    finally:
        cluster.nodes["a"].ready()
    until("it is ready again", lambda: ready(cluster, "a") == "True")
    until("the lost pod is ended", lambda: found(cluster, f"/api/v1/namespaces/{namespace}/pods/{lost}") is None)
    until("no taint is left", lambda: not cluster.api.get("/api/v1/nodes/a")["spec"].get("taints"))


def test_a_node_says_that_it_is_not_ready(cluster: ControlPlane) -> None:
    assert control.tell(cluster.control, "b", "not-ready")["ready"] is False
    try:
        until("it says so", lambda: ready(cluster, "b") == "False")
        lease = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/b"
        first = cluster.api.get(lease)["spec"]["renewTime"]
        until("its heartbeat goes on", lambda: cluster.api.get(lease)["spec"]["renewTime"] > first)
    finally:
        control.tell(cluster.control, "b", "ready")
    until("it is ready", lambda: ready(cluster, "b") == "True")


def test_what_cannot_be_told_to_a_node_is_said(cluster: ControlPlane, tmp_path: Path) -> None:
    with pytest.raises(ClusterError, match="no node c; there are a, b"):
        control.tell(cluster.control, "c", "reboot")
    with pytest.raises(ClusterError, match="cannot be told 'explode'"):
        control.tell(cluster.control, "a", "explode")
    with pytest.raises(ClusterError, match="KeyError 'namespace'"):
        control.tell(cluster.control, "a", "keep", seconds=3)
    with pytest.raises(ClusterError, match="no cluster listens at"):
        control.tell(tmp_path / "none.sock", "a", "status")


def test_the_stand_ins_had_no_trouble(cluster: ControlPlane) -> None:
    # A request that timed out is the machine's doing; one that was refused, or a slip of ours, is not.
    assert [text for text in cluster.nodes.trouble if "Traceback" in text or "/api" in text] == []


# -- by hand ----------------------------------------------------------------------------------------------------------


def test_a_cluster_by_hand(programs: None, tmp_path: Path) -> None:
    def call(*arguments: str) -> "subprocess.CompletedProcess[str]":
        return subprocess.run([sys.executable, str(HERE / "cluster.py"), *arguments], capture_output=True, text=True, check=False, timeout=300)

    name = f"t{os.getpid()}"
    try:
        up = call("up", name, "--nodes", "a")
        assert up.returncode == 0 and up.stdout.startswith("export KUBECONFIG="), up.stderr
        assert call("up", name).returncode == 1
        assert name in call("status").stdout
        assert call("kubectl", name, "--", "get", "nodes", "-o", "name").stdout == "node/a\n"
        assert json.loads(call("node", name, "a", "status").stdout)["ready"] is True
        (tmp_path / "rbac.yaml").write_text(RBAC, encoding="utf-8")
        made = call("kubeconfig", name, str(tmp_path / "rbac.yaml"), str(tmp_path / "account"))
        assert made.returncode == 0, made.stderr
        account = Api.of(tmp_path / "account")
        assert account.get("/api/v1/nodes")["items"]
        with pytest.raises(ApiError):
            account.get("/api/v1/pods")
        assert (tmp_path / "account").stat().st_mode & 0o777 == 0o600
        joined = call("join", name, "nosuch")
        assert joined.returncode == 1 and "no node nosuch: lab.py up nosuch" in joined.stderr
    finally:
        down = call("down", name)
    assert down.returncode == 0, down.stderr
    assert not Path(up.stdout.strip().split("=", 1)[1]).parent.exists()
    assert call("kubectl", name, "--", "get", "nodes").returncode == 1


def test_the_kubelet_has_the_flags_that_are_known_of_it(programs: None) -> None:
    told = subprocess.run([str(binaries.programs(["kubelet"])["kubelet"]), "--help"], capture_output=True, text=True, check=True).stdout
    have = set(re.findall(r"^ +(?:-\w, )?--([a-z0-9-]+)", told, re.MULTILINE)) - {"help", "version"}
    assert have == kubelet_args.KNOWN_FLAGS
