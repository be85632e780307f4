# Copyright (c) 2026 The inferops.locality authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the tests of a node's turn share: a control plane with an audit log, workloads on it, and the collection's modules called as Ansible calls them."""

from __future__ import annotations

import contextlib
import importlib
import io
import json
import re
import tempfile
import time
import uuid
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Callable, Dict, Iterator, List, Optional

from ansible.module_utils.testing import patch_module_args

from controlplane import ApiError, ControlPlane, control_plane

TOP = Path(__file__).resolve().parents[2]
RBAC = TOP / "docs" / "rbac.yaml"
MARK = "locality.inferops.io/cordoned-by"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases"
PATIENCE = 90.0


def until(what: str, reached: Callable[[], Any], patience: float = PATIENCE, pause: float = 0.1) -> Any:
    """The first true answer. Emulated and shared machines are slow: patience is no measure of anything."""
    deadline = time.monotonic() + patience
    while True:
        found = reached()
        if found:
            return found
        assert time.monotonic() < deadline, f"not within {patience:.0f} s: {what}"
        time.sleep(pause)


def until_slowly(what: str, reached: Callable[[], Any], patience: float = 300) -> Any:
    """The same on an emulated node, where each look takes a while."""
    return until(what, reached, patience, pause=1)


class Cluster:
    """A control plane and what the tests do to it. :ivar admin: the administrator's kubeconfig. :ivar ours: the one with the rights of docs/rbac.yaml."""

    def __init__(self, plane: ControlPlane, audit: Path) -> None:
        self.plane = plane
        self.api = plane.api
        self.admin = plane.kubeconfig
        self.ours = plane.kubeconfig_for(RBAC)
        self._audit = audit

    def events(self) -> List[Dict[str, Any]]:
        """What the API server wrote down."""
        # A line is whole when it ends.
        lines = self._audit.read_text(encoding="utf-8").rpartition("\n")[0].splitlines() if self._audit.exists() else []
        return [json.loads(line) for line in lines]

    def evictions(self, namespace: str) -> List[str]:
        """Names of the pods that were evicted for real and not refused, one for each eviction."""
        return [
            event["objectRef"]["name"] for event in self.events()
            if event.get("objectRef", {}).get("subresource") == "eviction" and event["objectRef"]["namespace"] == namespace
            and "dryRun" not in event["requestURI"] and event["responseStatus"]["code"] < 300
        ]

    def node(self, name: str) -> Dict[str, Any]:
        return dict(self.api.get(f"/api/v1/nodes/{name}"))

    def cordon(self, name: str, on: bool = True) -> None:
        """As somebody else does, with kubectl."""
        self.plane.kubectl("cordon" if on else "uncordon", name)

    def is_cordoned(self, name: str) -> bool:
        return bool(self.node(name)["spec"].get("unschedulable"))

    def mark(self, name: str) -> Optional[Dict[str, Any]]:
        text = self.node(name)["metadata"].get("annotations", {}).get(MARK)
        return json.loads(text) if text else None

    def lease(self, slot: int = 0) -> Dict[str, Any]:
        return dict(self.api.get(f"{LEASES}/inferops-locality-{slot}"))

    def holders(self) -> List[str]:
        """Who holds which slot of the lock, in the order of the slots; empty for nobody."""
        found = [item for item in self.api.get(LEASES)["items"] if item["metadata"]["name"].startswith("inferops-locality-")]
        return [item["spec"].get("holderIdentity") or "" for item in sorted(found, key=lambda item: item["metadata"]["name"])]

    def forget_lock(self) -> None:
        for item in self.api.get(LEASES)["items"]:
            if item["metadata"]["name"].startswith("inferops-locality-"):
                self.api.delete(f"{LEASES}/{item['metadata']['name']}")

    def reset(self, *nodes: str) -> None:
        """Nodes as if nobody had ever worked on them."""
        self.forget_lock()
        for name in nodes:
            self.plane.nodes[name].ready()
            self.api.patch(f"/api/v1/nodes/{name}", {"metadata": {"annotations": {MARK: None}}, "spec": {"unschedulable": None}})
            taints = [taint for taint in self.node(name)["spec"].get("taints", []) if not taint["key"].startswith("locality.")]
            self.api.patch(f"/api/v1/nodes/{name}", {"spec": {"taints": taints or None}})
        until("they are ready", lambda: all(self._is_clean(name) for name in nodes))

    def _is_clean(self, name: str) -> bool:
        found = self.node(name)
        ready = any(each["type"] == "Ready" and each["status"] == "True" for each in found["status"]["conditions"])
        return ready and not found["spec"].get("taints")

    @contextmanager
    def namespace(self, test: str) -> Iterator[str]:
        """A namespace with a name of its own, since the audit log goes on; its pods are gone afterwards."""
        name = f"{re.sub('[^a-z0-9]+', '-', test)[:40].strip('-')}-{uuid.uuid4().hex[:6]}"
        self.api.post("/api/v1/namespaces", {"metadata": {"name": name}})
        until("the namespace has its service account", lambda: self.exists(f"/api/v1/namespaces/{name}/serviceaccounts/default"))
        try:
            yield name
        finally:
            self.api.delete(f"/api/v1/namespaces/{name}")
        until("its pods are gone", lambda: not self.api.get(f"/api/v1/namespaces/{name}/pods")["items"])

    def exists(self, path: str) -> bool:
        try:
            return bool(self.api.get(path))
        except ApiError as error:
            # 429: of a kind that is new, and whose storage is being made.
            if error.code not in (404, 429):
                raise
            return False

    def pods(self, namespace: str, node: str = "") -> List[Dict[str, Any]]:
        """Pods that run and are not ending."""
        found = self.api.get(f"/api/v1/namespaces/{namespace}/pods")["items"]
        return [
            pod for pod in found if pod["status"].get("phase") == "Running" and "deletionTimestamp" not in pod["metadata"]
            and (not node or pod["spec"].get("nodeName") == node)
        ]

    def names(self, namespace: str, node: str = "") -> List[str]:
        return sorted(pod["metadata"]["name"] for pod in self.pods(namespace, node))

    def deploy(self, namespace: str, app: str, replicas: int, *, node: str = "", spec: Optional[Dict[str, Any]] = None) -> None:
        """A Deployment whose pods run; on one node, if the test names it."""
        pod = {"containers": [{"name": "main", "image": "none"}], **({"nodeSelector": {"kubernetes.io/hostname": node}} if node else {}), **(spec or {})}
        self.api.post(f"/apis/apps/v1/namespaces/{namespace}/deployments", {
            "metadata": {"name": app},
            "spec": {"replicas": replicas, "selector": {"matchLabels": {"app": app}}, "template": {"metadata": {"labels": {"app": app}}, "spec": pod}},
        })
        until("all replicas run", lambda: len([pod for pod in self.pods(namespace) if pod["metadata"].get("labels", {}).get("app") == app]) == replicas)

    def daemons(self, namespace: str, app: str, nodes: int, resources: Optional[Dict[str, Any]] = None) -> None:
        """A DaemonSet with a ready pod on each node, cordoned ones too."""
        self.api.post(f"/apis/apps/v1/namespaces/{namespace}/daemonsets", {
            "metadata": {"name": app},
            "spec": {"selector": {"matchLabels": {"app": app}}, "template": {
                "metadata": {"labels": {"app": app}},
                "spec": {"containers": [{"name": "main", "image": "none", "resources": resources or {}}], "tolerations": [{"operator": "Exists"}]},
            }},
        })
        until("a pod runs on each node", lambda: len([pod for pod in self.pods(namespace) if pod["metadata"].get("labels", {}).get("app") == app]) == nodes)

    def bare_pod(self, namespace: str, name: str, node: str, spec: Optional[Dict[str, Any]] = None, labels: Optional[Dict[str, str]] = None) -> None:
        """A pod that nobody starts again."""
        self.api.post(f"/api/v1/namespaces/{namespace}/pods", {
            "metadata": {"name": name, "labels": labels or {}},
            "spec": {"nodeName": node, "containers": [{"name": "main", "image": "none"}], **(spec or {})},
        })
        until("it runs", lambda: name in self.names(namespace))

    def budget(self, namespace: str, app: str, available: int) -> None:
        path = f"/apis/policy/v1/namespaces/{namespace}/poddisruptionbudgets"
        self.api.post(path, {"metadata": {"name": app}, "spec": {"minAvailable": available, "selector": {"matchLabels": {"app": app}}}})
        until("the budget is computed", lambda: self.api.get(f"{path}/{app}").get("status", {}).get("observedGeneration"))

    def call(self, module: str, node: str, *, kubeconfig: Optional[Path] = None, check: bool = False, **arguments: Any) -> Dict[str, Any]:
        """The result of a module of the collection, with ``failed`` where it failed; with the rights of docs/rbac.yaml and no more."""
        given = {
            "kubeconfig": str(kubeconfig or self.ours), **({"node": node} if node else {}), "_ansible_check_mode": check, "_ansible_diff": True,
            **{key: value for key, value in arguments.items() if value is not None},
        }
        loaded = importlib.import_module(f"ansible_collections.inferops.locality.plugins.modules.{module}")
        told = io.StringIO()
        with patch_module_args(given), contextlib.redirect_stdout(told):
            try:
                loaded.main()
            except SystemExit:
                pass
        return dict(json.loads(told.getvalue()))


@contextmanager
def turn_cluster(*nodes: str) -> Iterator[Cluster]:
    """A control plane with nodes of eight GPUs and an audit log."""
    with tempfile.TemporaryDirectory(prefix="locality-turn-") as folder:
        audit = Path(folder) / "audit.log"
        with control_plane(node_grace=10, audit=audit) as plane:
            for name in nodes:
                plane.nodes.add(name, capacity={"nvidia.com/gpu": "8"})
            yield Cluster(plane, audit)
