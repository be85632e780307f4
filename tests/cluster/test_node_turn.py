# Copyright (c) 2026 The inferops.locality authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The modules of a node's turn against a real API server, with the rights of docs/rbac.yaml. T-ROLL and T-WIN are the tables of cases seen at peers."""

from __future__ import annotations

import json
import threading
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Dict, Iterator, List, Tuple

import pytest
import yaml

from turns import LEASES, MARK, RBAC, TOP, Cluster, turn_cluster, until

RUN, OTHER = "anna@control/1", "ben@control/2"


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


def hold(cluster: Cluster, node: str = "a", holder: str = RUN, **more: Any) -> Dict[str, Any]:
    return cluster.call("node_lock", node, state="held", holder=holder, **more)


def cordon(cluster: Cluster, node: str = "a", **more: Any) -> Dict[str, Any]:
    return cluster.call("node_cordon", node, state="cordoned", holder=RUN, **more)


# -- lock -------------------------------------------------------------------------------------------------------------


def test_a_lock_is_taken_renewed_and_released(cluster: Cluster) -> None:
    taken = hold(cluster, duration=600)
    assert (taken["changed"], taken["lease"]) == (True, "kube-system/inferops-locality-0")
    first = cluster.lease()["spec"]
    assert (first["holderIdentity"], first["leaseDurationSeconds"]) == (RUN, 600)
    assert cluster.lease()["metadata"]["annotations"]["locality.inferops.io/node"] == "a"
    renewed = cluster.call("node_lock", "a", state="renewed", holder=RUN, duration=700)
    assert not renewed["changed"]
    second = cluster.lease()["spec"]
    assert second["acquireTime"] == first["acquireTime"] and second["leaseDurationSeconds"] == 700
    assert cluster.call("node_lock", "a", state="released", holder=RUN)["changed"]
    assert cluster.holders() == [""]
    assert not cluster.call("node_lock", "a", state="released", holder=RUN)["changed"]
    assert hold(cluster, holder=OTHER)["lease"] == "kube-system/inferops-locality-0"


def test_check_mode_asks_and_takes_nothing(cluster: Cluster) -> None:
    assert hold(cluster, check=True)["changed"]
    assert cluster.holders() == []
    hold(cluster, holder=OTHER)
    assert hold(cluster, check=True)["failed"]
    assert cluster.holders() == [OTHER]


def test_t_win_18_a_held_lock_is_told_and_taken_over_when_expired_or_by_name(cluster: Cluster) -> None:
    hold(cluster, "b", OTHER, duration=3600)
    refused = hold(cluster)
    assert refused["failed"] and refused["holders"] == [OTHER]
    assert f"kube-system/inferops-locality-0 is held by {OTHER} for node b since 20" in refused["msg"] and ", expires 20" in refused["msg"]
    # Not one second before its time, by the server's clock; and not from somebody else's name.
    assert hold(cluster, take_from=["somebody"])["failed"]
    assert hold(cluster, take_from=[OTHER])["changed"]
    assert cluster.holders() == [RUN]
    lost = cluster.call("node_lock", "b", state="renewed", holder=OTHER)
    assert lost["failed"]
    # The holder's node is gone from the cluster: only its Lease is left, which expires.
    cluster.forget_lock()
    hold(cluster, "no-such-node-any-more", OTHER, duration=600)
    cluster.api.patch(f"{LEASES}/inferops-locality-0", {"spec": {"renewTime": "2026-01-01T00:00:00.000000Z"}})
    assert hold(cluster)["changed"]


def test_a_lock_that_was_taken_over_and_let_go_is_lost_all_the_same(cluster: Cluster) -> None:
    hold(cluster)
    hold(cluster, "b", OTHER, take_from=[RUN])
    cluster.call("node_lock", "b", state="released", holder=OTHER)
    lost = cluster.call("node_lock", "a", state="renewed", holder=RUN)
    assert lost["failed"] and "was taken over from this run, which must not go on" in lost["msg"]


@pytest.mark.parametrize("slots", [1, 2])
def test_of_many_runs_at_once_no_more_than_the_slots_hold(cluster: Cluster, slots: int) -> None:
    lock = _lock_class()
    runs = [f"run-{number}" for number in range(8)]
    barrier = threading.Barrier(len(runs))

    def race(run: str) -> bool:
        barrier.wait()
        try:
            lock(cluster, f"node-{run}", run).hold(slots=slots, duration=600)
        except Exception as error:
            assert "is not free" in str(error) or "HTTP 409" in str(error), error
            return False
        return True

    with ThreadPoolExecutor(len(runs)) as pool:
        won = [run for run, has in zip(runs, pool.map(race, runs)) if has]
    assert 1 <= len(won) <= slots
    assert sorted(holder for holder in cluster.holders() if holder) == sorted(won)


def test_of_many_runs_for_one_node_never_two_hold_though_there_are_slots(cluster: Cluster) -> None:
    lock = _lock_class()
    for attempt in range(5):
        runs = [f"run-{attempt}-{number}" for number in range(4)]
        barrier = threading.Barrier(len(runs))

        def race(run: str, barrier: threading.Barrier = barrier) -> bool:
            barrier.wait()
            try:
                lock(cluster, "a", run).hold(slots=4, duration=600)
            except Exception as error:
                assert "is not free" in str(error) or "HTTP 409" in str(error), error
                return False
            return True

        with ThreadPoolExecutor(len(runs)) as pool:
            won = [run for run, has in zip(runs, pool.map(race, runs)) if has]
        assert len(won) <= 1
        assert [holder for holder in cluster.holders() if holder] == won
        cluster.forget_lock()


def _lock_class() -> Any:
    """Threads cannot share the arguments of a module: its logic is called."""
    from ansible_collections.inferops.locality.plugins.module_utils.kube_client import Api
    from ansible_collections.inferops.locality.plugins.module_utils.node_lock import Lock

    return lambda cluster, node, run: Lock(Api(str(cluster.ours)), node, run)


# -- cordon -----------------------------------------------------------------------------------------------------------


def test_t_roll_1_a_cordon_of_somebody_else_stays(cluster: Cluster) -> None:
    cluster.cordon("a")
    begun = cordon(cluster)
    assert begun["changed"] and not begun["mark"]["ours"]
    ended = cluster.call("node_cordon", "a", state="uncordoned")
    assert ended["changed"] and not ended["schedulable"]
    assert cluster.is_cordoned("a") and cluster.mark("a") is None


def test_t_roll_2_a_later_run_goes_on_with_the_mark_of_one_that_died(cluster: Cluster) -> None:
    first = cordon(cluster)
    assert cluster.is_cordoned("a") and cluster.mark("a") == first["mark"]
    assert first["mark"]["extended"] == {"nvidia.com/gpu": 8}
    assert first["boot_id"] == cluster.node("a")["status"]["nodeInfo"]["bootID"] == first["mark"]["boot_id"]
    again = cluster.call("node_cordon", "a", state="cordoned", holder=OTHER)
    assert again["mark"] == {**first["mark"], "run": OTHER}
    assert not cluster.call("node_cordon", "a", state="cordoned", holder=OTHER)["changed"]
    assert cluster.call("node_cordon", "a", state="uncordoned")["schedulable"]
    assert not cluster.is_cordoned("a") and cluster.mark("a") is None
    assert not cluster.call("node_cordon", "a", state="uncordoned")["changed"]


def test_t_roll_7_a_cordon_that_somebody_lifted_is_seen(cluster: Cluster) -> None:
    cordon(cluster)
    cluster.cordon("a", False)
    assert cordon(cluster)["lifted"]
    assert cluster.is_cordoned("a")
    assert not cordon(cluster)["lifted"]


def test_check_mode_and_diff_say_what_a_cordon_changes(cluster: Cluster) -> None:
    told = cordon(cluster, check=True, taint=True)
    assert told["changed"] and told["diff"]["after"]["spec"]["unschedulable"] is True
    assert not cluster.is_cordoned("a") and cluster.mark("a") is None
    done = cordon(cluster, taint=True)
    assert {key: value for key, value in done["diff"]["after"]["spec"].items() if key != "taints"} == {"unschedulable": True}
    keys = [taint["key"] for taint in cluster.node("a")["spec"]["taints"]]
    assert "locality.inferops.io/unproved" in keys
    cluster.call("node_cordon", "a", state="uncordoned")
    until("no taint is left", lambda: not cluster.node("a")["spec"].get("taints"))


def test_a_node_that_changes_all_the_time_is_cordoned_and_uncordoned_whole(cluster: Cluster) -> None:
    stop = threading.Event()

    def disturb() -> None:
        number = 0
        while not stop.wait(0.01):
            number += 1
            cluster.api.patch("/api/v1/nodes/a", {"metadata": {"annotations": {"test/number": str(number)}}})

    worker = threading.Thread(target=disturb)
    worker.start()
    try:
        for _round in range(5):
            assert "failed" not in cordon(cluster)
            assert cluster.is_cordoned("a")
            assert "failed" not in cluster.call("node_cordon", "a", state="uncordoned")
            assert not cluster.is_cordoned("a")
    finally:
        stop.set()
        worker.join()
        cluster.api.patch("/api/v1/nodes/a", {"metadata": {"annotations": {"test/number": None}}})


def test_what_is_wrong_with_a_node_is_told(cluster: Cluster) -> None:
    assert "the cluster has no such node" in cordon(cluster, "nobody")["msg"]
    assert cordon(cluster, machine_id="0123")["msg"].startswith("node a: the Node is another machine: machineID found ")
    assert not cluster.is_cordoned("a")
    machine = cluster.node("a")["status"]["nodeInfo"]["machineID"]
    assert cordon(cluster, machine_id=f"{machine}\n")["changed"]
    cluster.api.patch("/api/v1/nodes/a", {"metadata": {"annotations": {MARK: "by hand"}}})
    assert "found 'by hand'" in cordon(cluster)["msg"]


def test_a_server_that_is_not_there_and_a_kubeconfig_that_is_none_are_told(cluster: Cluster, tmp_path: Any) -> None:
    text = yaml.safe_load(cluster.ours.read_text(encoding="utf-8"))
    text["clusters"][0]["cluster"]["server"] = "https://127.0.0.1:1"
    (tmp_path / "none").write_text(yaml.safe_dump(text), encoding="utf-8")
    told = cordon(cluster, kubeconfig=tmp_path / "none")
    assert told["failed"] and told["status"] == 0 and "https://127.0.0.1:1 was not reached" in told["msg"]
    (tmp_path / "bad").write_text("users: [", encoding="utf-8")
    for path in (tmp_path / "bad", tmp_path / "absent"):
        told = cordon(cluster, kubeconfig=path)
        # Without a status, by which the roles try a server again that does not answer.
        assert f"kubeconfig {path}: " in told["msg"] and "status" not in told


# -- drain ------------------------------------------------------------------------------------------------------------


def drain(cluster: Cluster, **more: Any) -> Dict[str, Any]:
    return cluster.call("node_drain", "a", **{"timeout": 60, **more})


def test_a_drain_evicts_each_pod_once_and_leaves_what_belongs_to_the_node(cluster: Cluster, namespace: str) -> None:
    cluster.daemons(namespace, "agent", 2)
    cluster.deploy(namespace, "web", 4, spec={"topologySpreadConstraints": [
        {"maxSkew": 1, "topologyKey": "kubernetes.io/hostname", "whenUnsatisfiable": "ScheduleAnyway", "labelSelector": {"matchLabels": {"app": "web"}}},
    ]})
    static = cluster.plane.nodes["a"].static_pod(namespace, "proxy")
    until("the static pod runs", lambda: static in cluster.names(namespace))
    cluster.api.post(f"/api/v1/namespaces/{namespace}/pods", {
        "metadata": {"name": "done"}, "spec": {"nodeName": "a", "restartPolicy": "Never", "containers": [{"name": "main", "image": "none"}]},
    })
    until("it runs", lambda: "done" in cluster.names(namespace))
    cluster.api.patch(f"/api/v1/namespaces/{namespace}/pods/done/status", {"status": {"phase": "Succeeded"}})
    here = [name for name in cluster.names(namespace, "a") if name.startswith("web-")]
    assert here
    try:
        assert "the node is not cordoned" in drain(cluster)["msg"]
        cordon(cluster)
        foretold = drain(cluster, check=True)
        assert foretold["evicted"] == [f"{namespace}/{name}" for name in here]
        assert cluster.evictions(namespace) == []
        done = drain(cluster)
        assert sorted(done["evicted"]) == foretold["evicted"]
        assert sorted(cluster.evictions(namespace)) == here
        kinds = {each["pod"].split("/")[1]: each["kind"] for each in done["stayed"] if each["pod"].startswith(f"{namespace}/")}
        assert kinds["done"] == "finished" and kinds[static] == "static"
        assert sorted(kinds.values()) == ["daemonset", "finished", "static"]
        until("four run elsewhere", lambda: len([name for name in cluster.names(namespace, "b") if name.startswith("web-")]) == 4)
        assert not drain(cluster)["changed"]
    finally:
        cluster.plane.nodes["a"].forget_static_pod(namespace, static)


def test_t_roll_3_and_4_a_budget_that_never_allows_it_ends_at_the_deadline_by_name_with_nothing_evicted(cluster: Cluster, namespace: str) -> None:
    cluster.deploy(namespace, "free", 2, node="a")
    cluster.deploy(namespace, "kept", 2, node="a")
    cluster.budget(namespace, "kept", 2)
    before = cluster.names(namespace)
    cordon(cluster)
    foretold = drain(cluster, check=True)
    assert len(foretold["blockers"]) == 2 and "failed" not in foretold
    refused = drain(cluster, timeout=6, request_timeout=5)
    assert refused["failed"] and "not drained within 6 s, and no pod was evicted" in refused["msg"]
    for name in (name for name in before if name.startswith("kept-")):
        assert f"pod {namespace}/{name} may not be evicted: The disruption budget kept needs 2 healthy pods and has 2 currently" in refused["msg"]
    assert cluster.names(namespace) == before and cluster.evictions(namespace) == []


def test_t_roll_4_the_fallback_deletes_what_the_budget_holds_and_needs_its_right(cluster: Cluster, namespace: str) -> None:
    cluster.deploy(namespace, "kept", 2, node="a")
    cluster.budget(namespace, "kept", 2)
    before = cluster.names(namespace)
    cordon(cluster)
    refused = drain(cluster, delete_after=1)
    assert refused["failed"] and refused["status"] == 403 and 'cannot delete resource "pods"' in refused["msg"]
    assert cluster.names(namespace) == before
    done = drain(cluster, delete_after=1, kubeconfig=cluster.admin)
    assert done["deleted"] == [f"{namespace}/{name}" for name in before] and done["evicted"] == []


def test_t_roll_13_a_budget_that_is_used_up_for_the_moment_is_asked_again(cluster: Cluster, namespace: str) -> None:
    cluster.deploy(namespace, "web", 3, spec={"topologySpreadConstraints": [
        {"maxSkew": 1, "topologyKey": "kubernetes.io/hostname", "whenUnsatisfiable": "ScheduleAnyway", "labelSelector": {"matchLabels": {"app": "web"}}},
    ]})
    cluster.budget(namespace, "web", 3)
    cordon(cluster)
    here = cluster.names(namespace, "a")
    assert here
    threading.Timer(6, lambda: cluster.api.patch(f"/apis/apps/v1/namespaces/{namespace}/deployments/web", {"spec": {"replicas": 4}})).start()
    done = drain(cluster, timeout=90)
    assert sorted(done.get("evicted", [done.get("msg")])) == [f"{namespace}/{name}" for name in here]
    assert sorted(cluster.evictions(namespace)) == here


def test_t_roll_9_a_pod_that_ends_slowly_is_waited_for_and_not_evicted_twice(cluster: Cluster, namespace: str) -> None:
    cluster.deploy(namespace, "slow", 1, node="a")
    name = cluster.names(namespace)[0]
    cluster.plane.nodes["a"].keep(namespace, name, 6)
    cordon(cluster)
    refused = drain(cluster, timeout=3, request_timeout=3)
    assert refused["failed"] and f"pod {namespace}/{name} is ending since 20" in refused["msg"]
    assert refused["evicted"] == [f"{namespace}/{name}"]
    again = drain(cluster)
    assert "failed" not in again and again["evicted"] == []
    assert cluster.evictions(namespace) == [name]


@pytest.mark.parametrize("ended", [False, True], ids=["taken over", "given back"])
def test_a_drain_that_goes_on_after_its_run_evicts_nothing_of_a_node_that_is_not_its_own(cluster: Cluster, namespace: str, ended: bool) -> None:
    cluster.deploy(namespace, "kept", 1, node="a")
    cluster.budget(namespace, "kept", 1)
    cordon(cluster)
    kept = cluster.names(namespace)

    def follow() -> None:
        # As node_cordon writes it.
        mark = json.dumps({**(cluster.mark("a") or {}), "run": OTHER})
        cluster.api.patch("/api/v1/nodes/a", {"metadata": {"annotations": {MARK: None if ended else mark}}, "spec": {"unschedulable": None if ended else True}})
        # It would be evicted now.
        cluster.api.delete(f"/apis/policy/v1/namespaces/{namespace}/poddisruptionbudgets/kept")

    threading.Timer(3, follow).start()
    left = drain(cluster, holder=RUN)
    assert left["failed"] and ("the node is not cordoned" if ended else f"is not that of {RUN} any more, but of {OTHER}") in left["msg"]
    until("the budget is gone", lambda: not cluster.exists(f"/apis/policy/v1/namespaces/{namespace}/poddisruptionbudgets/kept"))
    assert cluster.names(namespace) == kept and cluster.evictions(namespace) == []


@pytest.mark.parametrize(
    ("spec", "allow", "told"),
    [
        ({}, {"unmanaged_pods": "delete"}, "has no controller that starts it again"),
        ({"volumes": [{"name": "shm", "emptyDir": {"medium": "Memory"}}]}, {"unmanaged_pods": "delete", "emptydir_data": "delete"}, "emptyDir volumes (shm)"),
    ],
)
def test_pods_that_lose_something_refuse_the_drain_before_anything_is_evicted(
    cluster: Cluster, namespace: str, spec: Dict[str, Any], allow: Dict[str, str], told: str,
) -> None:
    cluster.deploy(namespace, "web", 1, node="a")
    cluster.bare_pod(namespace, "bare", "a", spec)
    cordon(cluster)
    for check in (True, False):
        refused = drain(cluster, check=check)
        assert refused["failed"] and told in refused["msg"] and f"pod {namespace}/bare " in refused["msg"]
    assert cluster.evictions(namespace) == []
    assert len(drain(cluster, **allow)["evicted"]) == 2


def test_pods_with_whole_cpus_that_stay_are_told_and_refuse_if_asked_to(cluster: Cluster, namespace: str) -> None:
    whole = {"cpu": "2", "memory": "1Gi"}
    cluster.daemons(namespace, "dcgm", 2, {"requests": whole, "limits": whole})
    cluster.deploy(namespace, "web", 1, node="a")
    cordon(cluster)
    refused = drain(cluster, whole_cpu_pods="fail")
    assert refused["failed"] and f"pod {namespace}/dcgm-" in refused["msg"] and "(daemonset) stays with whole CPUs of its own" in refused["msg"]
    assert cluster.evictions(namespace) == []
    done = drain(cluster)
    assert [each["pod"].split("/")[1][:5] for each in done["survivors"]] == ["dcgm-"]


def test_two_budgets_for_one_pod_are_refused_for_good_before_any_is_evicted(cluster: Cluster, namespace: str) -> None:
    cluster.deploy(namespace, "web", 1, node="a")
    cluster.deploy(namespace, "zwei", 1, node="a")
    cluster.budget(namespace, "zwei", 0)
    path = f"/apis/policy/v1/namespaces/{namespace}/poddisruptionbudgets"
    cluster.api.post(path, {"metadata": {"name": "also"}, "spec": {"minAvailable": 0, "selector": {"matchLabels": {"app": "zwei"}}}})
    cordon(cluster)
    refused = drain(cluster)
    assert refused["failed"] and refused["status"] == 500 and "more than one PodDisruptionBudget" in refused["msg"] and "/pods/zwei-" in refused["msg"]
    assert cluster.evictions(namespace) == []


def test_arguments_that_do_not_fit_each_other_are_told(cluster: Cluster) -> None:
    told = drain(cluster, timeout=20, delete_after=20, request_timeout=30)["msg"]
    assert "delete_after: found 20, wanted seconds below timeout 20" in told and "request_timeout: found 30, wanted at most timeout 20" in told


# -- ready ------------------------------------------------------------------------------------------------------------


def ready(cluster: Cluster, **more: Any) -> Dict[str, Any]:
    return cluster.call("node_ready", "a", **{"timeout": 60, "stable_seconds": 3, **more})


def set_gpus(cluster: Cluster, count: int) -> None:
    cluster.plane.nodes["a"].resources["nvidia.com/gpu"] = str(count)
    until("the node says so", lambda: cluster.node("a")["status"]["allocatable"]["nvidia.com/gpu"] == str(count))


def test_a_node_is_back_when_it_has_rebooted_and_has_its_gpus_and_pods_again(cluster: Cluster, namespace: str) -> None:
    cluster.daemons(namespace, "cni", 2)
    begun = cordon(cluster)
    assert f"DaemonSet {namespace}/cni" in begun["mark"]["residents"]
    # The device plugin registers when the node is Ready for some time.
    cluster.plane.nodes["a"].devices_after = 5
    cluster.plane.nodes["a"].reboot(seconds=4)
    back = ready(cluster, boot_before=begun["boot_id"])
    assert back.get("ready"), back
    assert back["boot_id"] != begun["boot_id"] and back["waited_seconds"] >= 9


def test_all_that_is_missing_is_told_at_the_deadline(cluster: Cluster, namespace: str) -> None:
    cluster.daemons(namespace, "cni", 2)
    begun = cordon(cluster)
    set_gpus(cluster, 6)
    try:
        cluster.api.delete(f"/apis/apps/v1/namespaces/{namespace}/daemonsets/cni")
        until("its pods are gone", lambda: not cluster.names(namespace))
        told = ready(cluster, timeout=5, boot_before=begun["boot_id"])
        assert told["failed"] and "node a is not back within 5 s" in told["msg"]
        assert [text.split(":")[0] for text in told["missing"]] == [
            "it has not reported another boot yet", f"DaemonSet {namespace}/cni", "allocatable nvidia.com/gpu",
        ]
        assert ready(cluster, check=True)["ready"] is False
    finally:
        set_gpus(cluster, 8)


def test_a_node_that_only_was_ready_is_not_back(cluster: Cluster) -> None:
    """Its kubelet has ended, and the API still shows what it said last."""
    cordon(cluster)
    cluster.plane.nodes["a"].stop()
    told = ready(cluster, timeout=7)
    assert told["failed"] and "kubelet has not renewed Lease kube-node-lease/a" in told["msg"]
    until("it is called unknown", lambda: any("condition Ready: found Unknown" in text for text in ready(cluster, check=True)["missing"]))
    cluster.plane.nodes["a"].ready()
    assert ready(cluster)["ready"]


# -- health -----------------------------------------------------------------------------------------------------------


def health(cluster: Cluster, **more: Any) -> Dict[str, Any]:
    return cluster.call("cluster_health", "a", **more)


def ids(result: Dict[str, Any]) -> List[str]:
    return [reason["id"] for reason in result["reasons"]]


def test_another_node_that_is_not_ready_closes_the_gate(cluster: Cluster) -> None:
    assert health(cluster)["healthy"]
    cluster.plane.nodes["b"].not_ready()
    until("it says so", lambda: not health(cluster, fail=False)["healthy"])
    told = health(cluster)
    assert told["failed"] and ids(told) == ["health.nodes_not_ready"] and "1 other nodes are not ready: b; wanted at most 0" in told["msg"]
    assert health(cluster, max_not_ready=1)["healthy"]
    # For the node itself it is a reason to go on.
    assert cluster.call("cluster_health", "b")["healthy"]


def test_t_roll_21_a_turn_that_was_begun_elsewhere_closes_the_gate_with_run_and_age(cluster: Cluster) -> None:
    cordon(cluster, "b")
    told = health(cluster)
    assert ids(told) == ["health.turn_not_ended"] and f"the turn of b (by {RUN} since 20" in told["msg"]
    assert health(cluster, max_unavailable=2)["healthy"]
    assert cluster.call("cluster_health", "b")["healthy"]


def test_pods_that_must_not_be_disturbed_close_the_gate(cluster: Cluster, namespace: str) -> None:
    cluster.bare_pod(namespace, "train", "a", labels={"job": "training"})
    assert health(cluster, blocking_pods=["job=other"])["healthy"]
    told = health(cluster, blocking_pods=["job=other", "job in (training)"])
    assert ids(told) == ["health.blocking_pods"] and f"{namespace}/train" in told["msg"]
    assert "HTTP 400: found '=='" in health(cluster, blocking_pods=["=="])["msg"]


CRD = """
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: "nodemaintenances.GROUP"}
spec:
  group: GROUP
  scope: SCOPE
  names: {kind: NodeMaintenance, listKind: NodeMaintenanceList, plural: nodemaintenances, singular: nodemaintenance}
  versions:
    - name: VERSION
      served: true
      storage: true
      schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
"""


@pytest.mark.parametrize(
    ("group", "version", "scope", "spec", "by"),
    [
        ("maintenance.nvidia.com", "v1alpha1", "Namespaced", {"nodeName": "a", "requestorID": "nvidia.network.operator"}, "nvidia.network.operator"),
        ("nodemaintenance.medik8s.io", "v1beta1", "Cluster", {"nodeName": "a", "reason": "disk swap"}, "disk swap"),
    ],
)
def test_maintenance_of_another_tool_closes_the_gate(cluster: Cluster, group: str, version: str, scope: str, spec: Dict[str, Any], by: str) -> None:
    crd = CRD.replace("GROUP", group).replace("VERSION", version).replace("SCOPE", scope)
    cluster.plane.kubectl("apply", "-f", "-", manifest=crd)
    cluster.plane.kubectl("wait", "--for=condition=Established", f"crd/nodemaintenances.{group}", "--timeout=60s")
    where = f"/apis/{group}/{version}/{'namespaces/default/' if scope == 'Namespaced' else ''}nodemaintenances"
    until("it is served", lambda: cluster.exists(where))
    until("it is discovered", lambda: group in [each["name"] for each in cluster.api.get("/apis")["groups"]])
    try:
        assert health(cluster)["healthy"]
        for name, node in (("ours", "a"), ("theirs", "b")):
            made = {"apiVersion": f"{group}/{version}", "kind": "NodeMaintenance", "metadata": {"name": name}, "spec": {**spec, "nodeName": node}}
            cluster.api.post(where, made)
        told = health(cluster)
        assert ids(told) == ["health.node_maintenance"] and by in told["msg"] and "ours" in told["msg"]
    finally:
        cluster.plane.kubectl("delete", "crd", f"nodemaintenances.{group}", "--timeout=60s")


class StandInPrometheus(BaseHTTPRequestHandler):
    """Answers as Prometheus and Alertmanager do (their HTTP APIs); neither runs here."""

    answers: Dict[str, Tuple[int, str]] = {}
    asked: List[Tuple[str, str]] = []

    def do_GET(self) -> None:
        self.asked.append((self.path, self.headers.get("Authorization") or ""))
        status, body = self.answers.get(self.path.partition("?")[0], (404, "nothing"))
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.end_headers()
        self.wfile.write(body.encode())

    def log_message(self, format: str, *args: Any) -> None:
        """Quiet."""


@pytest.fixture
def prometheus() -> Iterator[str]:
    StandInPrometheus.answers, StandInPrometheus.asked = {}, []
    server = ThreadingHTTPServer(("127.0.0.1", 0), StandInPrometheus)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    server.server_close()


QUIET = '{"status":"success","data":{"resultType":"vector","result":[]}}'
FIRING = (
    '{"status":"success","data":{"resultType":"vector","result":[{"metric":{"__name__":"ALERTS","alertname":"GpuHot","alertstate":"firing","node":"b"},'
    '"value":[1796000000.1,"1"]}]}}'
)
BAD_QUERY = '{"status":"error","errorType":"bad_data","error":"invalid parameter \\"query\\": 1:3: parse error: unexpected end of input"}'


@pytest.mark.parametrize(
    ("answer", "reason", "told"),
    [
        ((200, QUIET), None, ""),
        ((200, FIRING), "health.alerts", 'GpuHot{node="b"}'),
        ((400, BAD_QUERY), "health.alerts_unknown", "HTTP 400: invalid parameter"),
        ((503, "no healthy upstream"), "health.alerts_unknown", "HTTP 503"),
        ((200, "<html>a login page</html>"), "health.alerts_unknown", "the answer is no JSON"),
        ((200, '{"status":"success","data":{"resultType":"scalar","result":[1,"0"]}}'), "health.alerts_unknown", "wanted a vector"),
    ],
    ids=["quiet", "firing", "bad query", "balancer", "login page", "scalar"],
)
def test_t_win_16_what_cannot_be_told_is_closed(cluster: Cluster, prometheus: str, answer: Tuple[int, str], reason: Any, told: str) -> None:
    StandInPrometheus.answers["/api/v1/query"] = answer
    result = health(cluster, prometheus=prometheus)
    assert ids(result) == ([reason] if reason else []) and told in result.get("msg", "")


def test_t_win_16_a_prometheus_that_is_not_there_is_closed_and_no_password_is_shown(cluster: Cluster) -> None:
    told = health(cluster, prometheus={"url": "http://anna:secret@127.0.0.1:1/x"})
    assert ids(told) == ["health.alerts_unknown"] and "Prometheus at http://127.0.0.1:1 does not answer" in told["msg"]
    assert "secret" not in str(told)


def test_t_win_17_each_gate_chooses_what_counts(cluster: Cluster, prometheus: str, tmp_path: Any) -> None:
    token = tmp_path / "token"
    token.write_text("sesame\n", encoding="utf-8")
    StandInPrometheus.answers["/api/v1/query"] = (200, FIRING)
    labels = '{"alertname":"GpuHot","node":"b","cluster":"x"}'
    StandInPrometheus.answers["/api/v2/alerts"] = (200, f'[{{"labels":{labels},"status":{{"state":"suppressed","silencedBy":["1"],"inhibitedBy":[]}}}}]')
    assert health(cluster, prometheus={"url": prometheus, "ignore": ["GpuHot"]})["healthy"]
    silenced = {"url": prometheus, "alertmanager": prometheus, "match": ['severity="critical"'], "pending": True, "bearer_token_file": str(token)}
    assert health(cluster, prometheus=silenced)["healthy"]
    paths = [path for path, _authorization in StandInPrometheus.asked[-2:]]
    assert "ALERTS%7Balertstate%3D~%22firing%7Cpending%22%2C+severity%3D%22critical%22%7D" in paths[0] and "silenced=true" in paths[1]
    assert {authorization for _path, authorization in StandInPrometheus.asked[-2:]} == {"Bearer sesame"}
    StandInPrometheus.answers["/api/v2/alerts"] = (500, "")
    assert ids(health(cluster, prometheus=silenced)) == ["health.alerts_unknown"]
    assert ids(health(cluster, prometheus={"url": prometheus, "query": "up == 0"})) == ["health.alerts"]
    assert "unknown key" in health(cluster, prometheus={"url": prometheus, "queries": "x"})["msg"]


# -- rights -----------------------------------------------------------------------------------------------------------


def rights() -> List[Tuple[int, int, str, str]]:
    """Each right of docs/rbac.yaml that is bound: object, rule, group and verb."""
    documents = yaml.safe_load(RBAC.read_text(encoding="utf-8"))["items"]
    bound = {document["roleRef"]["name"] for document in documents if document["kind"].endswith("Binding")}
    return [
        (number, place, group, verb)
        for number, document in enumerate(documents) if document["kind"] in ("ClusterRole", "Role") and document["metadata"]["name"] in bound
        for place, rule in enumerate(document["rules"]) for group in rule["apiGroups"] for verb in rule["verbs"]
    ]


def whole_turn(cluster: Cluster, kubeconfig: Any) -> List[Dict[str, Any]]:
    """Each step of a turn, as the role takes them; the lock is taken twice, since its Lease is made the first time."""
    steps: List[Tuple[str, Dict[str, Any]]] = [
        ("node_lock", {"state": "held", "holder": RUN}), ("node_lock", {"state": "renewed", "holder": RUN}), ("cluster_health", {}),
        ("node_cordon", {"state": "cordoned", "holder": RUN}), ("node_drain", {"timeout": 30}), ("node_ready", {"timeout": 30, "stable_seconds": 2}),
        ("node_cordon", {"state": "uncordoned"}), ("node_lock", {"state": "released", "holder": RUN}),
    ]
    return [cluster.call(module, "a", kubeconfig=kubeconfig, **arguments) for module, arguments in steps]


@pytest.fixture(scope="module")
def maintained(shared: Cluster) -> Iterator[Cluster]:
    """With the kinds of other tools, whose lists are asked for."""
    for group, version in (("maintenance.nvidia.com", "v1alpha1"), ("nodemaintenance.medik8s.io", "v1beta1")):
        shared.plane.kubectl("apply", "-f", "-", manifest=CRD.replace("GROUP", group).replace("VERSION", version).replace("SCOPE", "Cluster"))
        shared.plane.kubectl("wait", "--for=condition=Established", f"crd/nodemaintenances.{group}", "--timeout=60s")
        until("it is discovered", lambda group=group: group in [each["name"] for each in shared.api.get("/apis")["groups"]])  # type: ignore[misc]
        until("it is served", lambda group=group, version=version: shared.exists(f"/apis/{group}/{version}/nodemaintenances"))  # type: ignore[misc]
    yield shared
    for group in ("maintenance.nvidia.com", "nodemaintenance.medik8s.io"):
        shared.plane.kubectl("delete", "crd", f"nodemaintenances.{group}", "--timeout=60s")


def test_with_the_rights_of_the_page_a_whole_turn_works(maintained: Cluster, cluster: Cluster, namespace: str) -> None:
    cluster.deploy(namespace, "web", 1, node="a")
    results = whole_turn(cluster, None)
    assert [result.get("msg") for result in results if result.get("failed")] == []
    assert results[4]["evicted"]


@pytest.mark.parametrize(("document", "rule", "group", "verb"), rights())
def test_without_any_one_of_them_something_fails(
    maintained: Cluster, cluster: Cluster, namespace: str, document: int, rule: int, group: str, verb: str,
) -> None:
    cluster.deploy(namespace, "web", 1, node="a")
    if verb == "update":
        # Without a Lease the first lock of all is made, not updated.
        hold(cluster)
        cluster.call("node_lock", "a", state="released", holder=RUN)
    found = yaml.safe_load(RBAC.read_text(encoding="utf-8"))
    rules = found["items"][document]["rules"]
    taken = rules[rule]
    rest = [{**taken, "apiGroups": [each for each in taken["apiGroups"] if each != group]}, {**taken, "apiGroups": [group], "verbs": [
        each for each in taken["verbs"] if each != verb
    ]}]
    rules[rule:rule + 1] = [each for each in rest if each["apiGroups"] and each["verbs"]]
    try:
        cluster.plane.kubectl("apply", "-f", "-", manifest=yaml.safe_dump(found))
        # The authorizer follows a moment later.
        until("something is refused", lambda: [
            result for result in whole_turn(cluster, None) if result.get("status") == 403 and f'cannot {verb} resource "' in result["msg"]
        ], 30)
    finally:
        cluster.plane.kubectl("apply", "-f", str(RBAC))
    until("it works again", lambda: cluster.call("node_lock", "a", state="read", holder=RUN).get("status") != 403)


# -- the tables -------------------------------------------------------------------------------------------------------

# Rows of T-ROLL and of the API's part of T-WIN whose test is another one, or that need more than the API.
ELSEWHERE = {
    "T-ROLL": {
        5: "plugins/plugin_utils/test_maintenance: expected_minutes and drain.delete_after", 6: "test_node_maintenance", 8: "every module has a finite default",
        10: "all modules judge by status and objects", 11: "module_utils/test_cluster_health: a number", 12: "test_node_maintenance",
        14: "molecule/rollout: verify", 15: "molecule/rollout: verify", 16: "playbooks/test_order",
        17: "playbooks/test_order: servers last, one at a time", 18: "playbooks/test_order", 19: "plugin_utils/test_report",
        20: "playbooks/test_unreachable", 22: "test_node_maintenance",
    },
    "T-WIN": {12: "nobody waits for a lock: one that is held fails at once", 19: "test_node_maintenance"},
}


def test_each_row_of_the_tables_is_a_test_or_has_a_reason() -> None:
    text = (TOP / "tests/cluster/test_node_turn.py").read_text(encoding="utf-8") + (TOP / "tests/cluster/test_node_maintenance.py").read_text(encoding="utf-8")
    for table, rows in (("t_roll", range(1, 23)), ("t_win", (12, 16, 17, 18, 19))):
        named = {int(number) for line in text.splitlines() if line.startswith(f"def test_{table}_")
                 for number in line.split(f"test_{table}_")[1].split("(")[0].split("_") if number.isdecimal()}
        assert named | set(ELSEWHERE[table.upper().replace("_", "-")]) >= set(rows)
