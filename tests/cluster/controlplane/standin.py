# Copyright (c) 2026 The inferops.locality authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Stand-ins for nodes: Node objects without a machine, whose heartbeat and pods are kept by a thread instead of a kubelet.

The API server, the scheduler and the controllers are real, so is what they do with these nodes: a pod is bound, evicted, kept by a budget, replaced.
What a kubelet would report is claimed: no container runs, no image is pulled, no probe asked, no resource used.
"""

from __future__ import annotations

import math
import threading
import time
import traceback
import uuid
from dataclasses import dataclass, field
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence, Tuple

from controlplane.api import Api, ApiError, Object
from controlplane.binaries import ClusterError, kubernetes_version, say

HEARTBEAT = 2.0
TICK = 0.1
LEASE_SECONDS = 40
MIRROR = "kubernetes.io/config.mirror"
_LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"
_CAPACITY = {"cpu": "128", "memory": "1Ti", "pods": "110", "ephemeral-storage": "1Ti"}


def _now() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


def _now_micro() -> str:
    seconds = time.time()
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds)) + f".{int(seconds % 1 * 1e6):06d}Z"


@dataclass
class StandIn:
    """The stand-in for one node. Made by :meth:`StandIns.add`; what is set here takes effect within a fraction of a second.

    :ivar ending: seconds that a pod takes to end once it is deleted; None: its own grace period, to the last second.
    :ivar boot_id: as the Node tells it; another one after each reboot.
    :ivar reboots: reboots that were ended.
    :ivar resources: capacity, all of it allocatable. What has a domain, such as nvidia.com/gpu, is a device plugin's.
    :ivar devices_after: seconds from the end of a reboot until the device plugins have registered; the node has none of theirs before. None: never.
    """

    name: str
    ending: Optional[float] = 0.5
    boot_id: str = field(default_factory=lambda: str(uuid.uuid4()))
    reboots: int = 0
    resources: Dict[str, str] = field(default_factory=dict)
    devices_after: Optional[float] = 0.0
    # None: ready; else reason and message of the condition Ready=False.
    unready: Optional[Tuple[str, str]] = None
    beating: bool = True
    _back_at: Optional[float] = None
    _devices_at: float = 0.0
    _slow: Dict[Tuple[str, str], float] = field(default_factory=dict)
    _static: Dict[Tuple[str, str], Object] = field(default_factory=dict)
    _next_beat: float = 0.0

    def not_ready(self, reason: str = "KubeletNotReady", message: str = "the stand-in was told so") -> None:
        """The node says Ready=False and goes on with its heartbeat, as with a broken CNI or container runtime."""
        self.unready = (reason, message)
        self._next_beat = 0

    def ready(self) -> None:
        """The node says Ready=True again, and its heartbeat goes on."""
        self.unready, self.beating, self._back_at = None, True, None
        self._next_beat = 0

    def stop(self) -> None:
        """No heartbeat any more, nothing done for pods, as when the kubelet stops or the machine dies: the controller manager finds out."""
        self.beating = False

    def reboot(self, seconds: float = 3.0) -> None:
        """NotReady at once (as a kubelet that notices the shutdown), silent for so many seconds, then Ready with another boot ID.

        What runs on the node is started again then; pods that were ending are gone.
        """
        self.unready, self.beating = ("KubeletNotReady", "node is shutting down"), True
        self._back_at = time.monotonic() + seconds
        self._next_beat = 0

    def reported(self) -> Dict[str, str]:
        """The resources that the node has now."""
        there = time.monotonic() >= self._devices_at
        return {name: amount if there or "/" not in name else "0" for name, amount in self.resources.items()}

    @property
    def rebooting(self) -> bool:
        return self._back_at is not None

    def keep(self, namespace: str, name: str, seconds: float) -> None:
        """This pod takes so many seconds to end, whatever its grace period."""
        self._slow[namespace, name] = seconds

    def static_pod(self, namespace: str, name: str, spec: Optional[Object] = None) -> str:
        """A pod from a file of the node: it has a mirror in the API that comes back when deleted. Returns the mirror's name."""
        mirror = f"{name}-{self.name}"
        self._static[namespace, mirror] = spec or {"containers": [{"name": name, "image": "static"}]}
        return mirror

    def forget_static_pod(self, namespace: str, mirror: str) -> None:
        """The file is gone: the mirror is not made again."""
        self._static.pop((namespace, mirror), None)


class StandIns:
    """All stand-ins of one cluster, worked by two threads: one watches pods, the other reports.

    :param api: the administrator's client. It does what a node's own identity may do, and creating nodes.
    """

    def __init__(self, api: Api) -> None:
        self.api = api
        self._nodes: Dict[str, StandIn] = {}
        self._pods: Dict[str, Object] = {}
        self._ends: Dict[str, float] = {}
        self._booted: Dict[str, str] = {}
        self._lock = threading.RLock()
        self._stopping = threading.Event()
        self._threads: List[threading.Thread] = []
        self.trouble: List[str] = []

    def __getitem__(self, name: str) -> StandIn:
        return self._nodes[name]

    def __contains__(self, name: str) -> bool:
        return name in self._nodes

    def names(self) -> List[str]:
        return sorted(self._nodes)

    def start(self) -> None:
        for work in (self._watch, self._work):
            thread = threading.Thread(target=work, name=f"stand-in{work.__name__}", daemon=True)
            thread.start()
            self._threads.append(thread)

    def stop(self) -> None:
        self._stopping.set()
        for thread in self._threads:
            if thread.name.endswith("_work"):  # the other one sits in a watch until the API server ends
                thread.join(10)

    # -- nodes --------------------------------------------------------------------------------------------------------

    def add(
        self, name: str, labels: Optional[Mapping[str, str]] = None, taints: Sequence[Object] = (), capacity: Optional[Mapping[str, str]] = None,
        ending: Optional[float] = 0.5, wait: float = 60,
    ) -> StandIn:
        """Registers a node as its kubelet would, and returns when it is Ready and untainted for that (``wait`` 0: at once).

        :param capacity: resources beside or instead of 128 CPUs, 1 TiB of memory and 110 pods, such as ``{"nvidia.com/gpu": "8"}``.
        :raises ClusterError: it is not ready in time.
        """
        node = StandIn(name, ending, resources={**_CAPACITY, **(capacity or {})})
        self.api.post("/api/v1/nodes", {
            "metadata": {"name": name, "labels": {
                "kubernetes.io/hostname": name, "kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64", "node.kubernetes.io/instance-type": "rke2",
                **(labels or {}),
            }},
            "spec": {"taints": list(taints)},
        })
        with self._lock:
            self._nodes[name] = node
        deadline = time.monotonic() + wait
        while wait and not self._usable(name):
            if time.monotonic() > deadline:
                raise ClusterError(f"node {name} is not usable after {wait:.0f} s: {self.api.get(f'/api/v1/nodes/{name}')['spec']}, {self.trouble[-1:]}")
            time.sleep(TICK)
        return node

    def remove(self, name: str) -> None:
        """Forgets a node and deletes its object."""
        with self._lock:
            del self._nodes[name]
        self.api.delete(f"/api/v1/nodes/{name}")

    def _usable(self, name: str) -> bool:
        found = self.api.get(f"/api/v1/nodes/{name}")
        ready = any(condition["type"] == "Ready" and condition["status"] == "True" for condition in found["status"].get("conditions", ()))
        return ready and not any(taint["key"].startswith("node.kubernetes.io/not-ready") for taint in found["spec"].get("taints", ()))

    def _beat(self, node: StandIn) -> None:
        ready = node.unready is None
        reason, message = node.unready or ("KubeletReady", "the stand-in says so")
        kinds = [("MemoryPressure", False), ("DiskPressure", False), ("PIDPressure", False), ("Ready", ready)]
        old = {condition["type"]: condition for condition in self.api.get(f"/api/v1/nodes/{node.name}").get("status", {}).get("conditions", ())}
        conditions = []
        for kind, value in kinds:
            condition = {
                "type": kind, "status": str(value), "lastHeartbeatTime": _now(), "lastTransitionTime": _now(),
                "reason": reason if kind == "Ready" else f"KubeletHasNo{kind}", "message": message if kind == "Ready" else "the stand-in says so",
            }
            if old.get(kind, {}).get("status") == condition["status"]:
                condition["lastTransitionTime"] = old[kind]["lastTransitionTime"]
            conditions.append(condition)
        self.api.patch(f"/api/v1/nodes/{node.name}/status", {"status": {
            "conditions": conditions, "capacity": node.reported(), "allocatable": node.reported(),
            "addresses": [{"type": "Hostname", "address": node.name}],
            "nodeInfo": {
                "bootID": node.boot_id, "machineID": uuid.uuid5(uuid.NAMESPACE_DNS, node.name).hex,
                "systemUUID": str(uuid.uuid5(uuid.NAMESPACE_DNS, node.name)), "kernelVersion": "stand-in", "osImage": "stand-in",
                "containerRuntimeVersion": "stand-in://1", "kubeletVersion": f"{kubernetes_version()}+rke2r1", "kubeProxyVersion": "",
                "operatingSystem": "linux", "architecture": "amd64",
            },
        }})
        spec = {"holderIdentity": node.name, "leaseDurationSeconds": LEASE_SECONDS, "renewTime": _now_micro()}
        try:
            self.api.patch(f"{_LEASES}/{node.name}", {"spec": spec})
        except ApiError as error:
            if error.code != 404:
                raise
            self.api.post(_LEASES, {"metadata": {"name": node.name}, "spec": spec})

    # -- pods ---------------------------------------------------------------------------------------------------------

    def _watch(self) -> None:
        while not self._stopping.is_set():
            try:
                listed = self.api.get("/api/v1/pods")
                with self._lock:
                    self._pods = {pod["metadata"]["uid"]: pod for pod in listed["items"]}
                version = listed["metadata"]["resourceVersion"]
                for kind, pod in self.api.watch("/api/v1/pods", version):
                    if kind == "BOOKMARK":
                        continue
                    with self._lock:
                        if kind == "DELETED":
                            for known in (self._pods, self._ends, self._booted):
                                known.pop(pod["metadata"]["uid"], None)
                        else:
                            self._pods[pod["metadata"]["uid"]] = pod
            except (OSError, ApiError, ValueError) as error:
                # Too old a version, or a server that went away: from the start again.
                if not self._stopping.wait(0.5):
                    self.trouble.append(f"watch: {error}")

    def _work(self) -> None:
        while not self._stopping.wait(TICK):
            with self._lock:
                nodes, pods = dict(self._nodes), list(self._pods.values())
            for node in nodes.values():
                self._try(self._tend, node, [pod for pod in pods if pod["spec"].get("nodeName") == node.name])

    def _try(self, work: Callable[..., None], *arguments: Any) -> None:
        """A request may be refused because the world went on; it is tried again at the next tick, and told if that was not why."""
        try:
            work(*arguments)
        except ApiError as error:
            if error.code not in (404, 409) and not self._stopping.is_set():
                self.trouble.append(str(error))
                say(f"stand-in: {error}")
        except OSError as error:
            if not self._stopping.is_set():
                self.trouble.append(str(error))
        except Exception:
            # A thread's end would be noticed by nobody: the nodes would only fall silent.
            self.trouble.append(traceback.format_exc())
            say(f"stand-in: {traceback.format_exc()}")

    def _tend(self, node: StandIn, pods: Sequence[Object]) -> None:
        if not node.beating:
            return
        now = time.monotonic()
        if node._back_at is not None and now >= node._back_at:
            node.boot_id = str(uuid.uuid4())
            node.reboots += 1
            node._devices_at = math.inf if node.devices_after is None else now + node.devices_after
            node.unready, node._back_at, node._next_beat = None, None, 0
        elif node._back_at is not None and node._next_beat:
            return  # said that it goes down; silent until it is back
        if now >= node._next_beat:
            # Set before: what the node is told during its heartbeat asks for another one at once.
            node._next_beat = now + HEARTBEAT
            try:
                self._beat(node)
            except (ApiError, OSError):
                node._next_beat = 0
                raise
        if node._back_at is not None:
            return
        present = {(pod["metadata"]["namespace"], pod["metadata"]["name"]) for pod in pods}
        for (namespace, name), spec in list(node._static.items()):
            if (namespace, name) not in present:
                self._try(self._mirror, node, namespace, name, spec)
        for pod in pods:
            self._try(self._tend_pod, node, pod, now)

    def _tend_pod(self, node: StandIn, pod: Object, now: float) -> None:
        metadata = pod["metadata"]
        uid, path = metadata["uid"], f"/api/v1/namespaces/{metadata['namespace']}/pods/{metadata['name']}"
        if metadata.get("deletionTimestamp"):
            # A mirror goes at once, and no container lives through a reboot.
            gone = MIRROR in metadata.get("annotations", {}) or self._booted.get(uid, node.boot_id) != node.boot_id
            own = node._slow.get((metadata["namespace"], metadata["name"]), node.ending)
            seconds = float(metadata.get("deletionGracePeriodSeconds") or 0) if own is None else own
            if now >= self._ends.setdefault(uid, now + seconds) or gone:
                self.api.delete(path, {"gracePeriodSeconds": 0, "preconditions": {"uid": uid}})
            return
        status = pod.get("status", {})
        if status.get("phase") in ("Succeeded", "Failed"):
            return
        # The controller manager calls the pods of a node unready that is; the kubelet corrects that when it is back.
        doubted = node.unready is None and any(condition["type"] == "Ready" and condition["status"] == "False" for condition in status.get("conditions", ()))
        boot = self._booted.get(uid)
        if boot != node.boot_id or doubted:
            self._run(pod, path, restarted=boot is not None and boot != node.boot_id)
            self._booted[uid] = node.boot_id

    def _run(self, pod: Object, path: str, restarted: bool) -> None:
        old = {status["name"]: status for status in pod.get("status", {}).get("containerStatuses", ())}
        kinds = ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled")
        self.api.patch(f"{path}/status", {"status": {
            "phase": "Running", "startTime": pod.get("status", {}).get("startTime") or _now(),
            "conditions": [{"type": kind, "status": "True", "lastTransitionTime": _now()} for kind in kinds],
            "containerStatuses": [{
                "name": container["name"], "image": container.get("image", ""), "imageID": "", "containerID": f"stand-in://{uuid.uuid4().hex}",
                "ready": True, "started": True, "restartCount": old.get(container["name"], {}).get("restartCount", 0) + restarted,
                "state": {"running": {"startedAt": _now()}},
            } for container in pod["spec"]["containers"]],
        }})

    def _mirror(self, node: StandIn, namespace: str, name: str, spec: Object) -> None:
        uid = self.api.get(f"/api/v1/nodes/{node.name}")["metadata"]["uid"]
        digest = uuid.uuid5(uuid.NAMESPACE_DNS, f"{namespace}/{name}").hex
        marks = {"hash": digest, "source": "file", "seen": _now(), "mirror": digest}
        content: Dict[str, Any] = {
            "metadata": {
                "name": name,
                "annotations": {f"kubernetes.io/config.{key}": value for key, value in marks.items()},
                "ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": node.name, "uid": uid, "controller": True}],
            },
            "spec": {**spec, "nodeName": node.name, "tolerations": [{"operator": "Exists", "effect": "NoExecute"}]},
        }
        self.api.post(f"/api/v1/namespaces/{namespace}/pods", content)
