# Copyright (c) 2026 The inferops.locality authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The Cilium agent of a node, made anew: the pods that are in its way, its eviction, and the wait for the next one.

An agent does not start in another datapath mode beside pods of the old one (from 1.19 on), and a drain leaves the pods of DaemonSets. A taint with NoExecute
sends those away that do not tolerate it, and keeps new ones from coming until the agent is proved.
"""

from __future__ import annotations

import time
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence

from ansible_collections.inferops.locality.plugins.module_utils import cilium_node, kube_client, node_drain, node_pods, node_turn
from ansible_collections.inferops.locality.plugins.module_utils.kube_client import Api, ApiError

TAINT = {"key": "locality.inferops.io/network", "effect": "NoExecute"}
LOOK_SECONDS = 2


class AgentError(Exception):
    """The node is not emptied, or its agent did not come back; the message says what is in the way. :ivar pods: those, as ``namespace/name``."""

    def __init__(self, message: str, pods: Sequence[str] = ()) -> None:
        super().__init__(message)
        self.pods = list(pods)


def full_name(pod: Mapping[str, Any]) -> str:
    """``namespace/name``."""
    return f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"


def on_network(pods: Sequence[Mapping[str, Any]]) -> List[Mapping[str, Any]]:
    """Pods that have, or are about to have, an address of the pod network; those that have ended have none."""
    return [
        pod for pod in pods
        if not (pod.get("spec") or {}).get("hostNetwork") and (pod.get("status") or {}).get("phase") not in ("Succeeded", "Failed")
    ]


def tolerates(pod: Mapping[str, Any]) -> bool:
    """Whether a pod stays for good on a node with the taint (``k8s.io/component-helpers``); one that may stay for some seconds does not."""
    for toleration in (pod.get("spec") or {}).get("tolerations") or []:
        if toleration.get("effect") not in (None, "", TAINT["effect"]) or toleration.get("tolerationSeconds") is not None:
            continue
        exists = toleration.get("operator") == "Exists"
        key = toleration.get("key") or ""
        if (not key and exists) or (key == TAINT["key"] and (exists or not toleration.get("value"))):
            return True
    return False


def would_stay(pods: Sequence[Mapping[str, Any]]) -> List[str]:
    """Pods on the pod network that neither a drain nor the taint sends away: of DaemonSets that tolerate it, and static ones. Names and why, sorted."""
    told = []
    for pod in on_network(pods):
        stays = node_pods.read(pod).stays
        if stays == node_pods.STAYS_MIRROR:
            told.append(f"{full_name(pod)} (static)")
        elif stays == node_pods.STAYS_DAEMONSET and tolerates(pod):
            owner = node_pods.controller(pod)
            told.append(f"{full_name(pod)} (of DaemonSet {owner['name'] if owner else '?'}, which tolerates {TAINT['key']}:{TAINT['effect']})")
    return sorted(told)


def agents(pods: Sequence[Mapping[str, Any]]) -> List[Mapping[str, Any]]:
    """Pods of the DaemonSet of Cilium's agents among those of a node."""
    found = []
    for pod in pods:
        owner = node_pods.controller(pod)
        of_cilium = owner is not None and (owner["kind"], owner["name"]) == ("DaemonSet", cilium_node.DAEMON_SET)
        if of_cilium and pod["metadata"]["namespace"] == cilium_node.NAMESPACE:
            found.append(pod)
    return found


def trouble(pod: Mapping[str, Any]) -> str:
    """Why an agent is not ready, in its own words where it ended: Cilium's containers leave the end of their log there."""
    status = pod.get("status") or {}
    told = []
    for each in [*(status.get("initContainerStatuses") or []), *(status.get("containerStatuses") or [])]:
        state, last = each.get("state") or {}, each.get("lastState") or {}
        ended = state.get("terminated") or last.get("terminated") or {}
        if ended.get("exitCode"):
            words = " ".join(str(ended.get("message") or ended.get("reason") or "").split())
            told.append(f"container {each.get('name')} ended with {ended['exitCode']}: {words[-600:] or 'no message'}")
        elif state.get("waiting"):
            told.append(f"container {each.get('name')} waits: {state['waiting'].get('reason')}")
    return "; ".join(told) or f"phase {status.get('phase') or 'unknown'}, not Ready"


class Turn:
    """What is done to the agent of one node, within one deadline for each step."""

    def __init__(self, api: Api, node: str, timeout: int, *, clock: Callable[[], float] = time.monotonic, sleep: Callable[[float], None] = time.sleep) -> None:
        """:param timeout: seconds of a step."""
        self._api = api
        self._node = node
        self._timeout = timeout
        self._clock = clock
        self._sleep = sleep

    def pods(self) -> List[Dict[str, Any]]:
        """All pods of the node; :raises ApiError: refused or not reached."""
        return kube_client.pods_of(self._api, self._node)

    def tainted(self) -> bool:
        """Whether the Node has the taint."""
        return any(_same(taint) for taint in node_turn.taints(kube_client.get_node(self._api, self._node)))

    def taint(self, on: bool, dry_run: bool = False) -> bool:
        """Set the taint or take it away; whether that changed anything. :raises ApiError: refused or not reached."""

        def attempt() -> bool:
            node = kube_client.get_node(self._api, self._node)
            has = node_turn.taints(node)
            kept = [taint for taint in has if not _same(taint)]
            if on == (len(kept) < len(has)):
                return False
            patch = {"metadata": {"resourceVersion": node["metadata"]["resourceVersion"]}, "spec": {"taints": [*kept, *([dict(TAINT)] if on else [])] or None}}
            self._api.patch(kube_client.node_path(self._node), patch, dry_run=dry_run)
            return True

        return bool(kube_client.retry_conflict(attempt))

    def empty(self) -> bool:
        """Send the pods on the pod network away; whether that changed anything. The Node keeps the taint, also if this fails after it was set.

        :raises AgentError: pods would stay, in which case nothing was changed, or have not gone in time. :raises ApiError: refused or not reached.
        """
        if not node_turn.is_cordoned(kube_client.get_node(self._api, self._node)):
            raise AgentError(f"node {self._node} is not cordoned: it has to be drained first, which node_cordon and node_drain do")
        pods = self.pods()
        staying = would_stay(pods)
        if staying:
            raise AgentError(
                f"pods on the pod network of node {self._node} would stay, beside which no agent starts in another datapath mode: {', '.join(staying)}. "
                "Take the toleration from their DaemonSet, keep it from this node by its nodeAffinity, or give it hostNetwork",
                staying,
            )
        if not on_network(pods) and self.tainted():
            return False
        changed = self.taint(True)
        left = self._until(lambda: [full_name(pod) for pod in on_network(self.pods())])
        if left:
            raise AgentError(f"pods on the pod network of node {self._node} have not gone within {self._timeout} s: {', '.join(left)}", left)
        return changed

    def recreate(self) -> Dict[str, str]:
        """Evict the agent and wait for the next one to be ready: its ``{pod, uid}``.

        :raises AgentError: there is none, a budget holds it, or the next one is not ready in time. :raises ApiError: refused or not reached.
        """
        old = agents(self.pods())
        if not old:
            raise AgentError(
                f"no pod of DaemonSet {cilium_node.NAMESPACE}/{cilium_node.DAEMON_SET} is on node {self._node}: is Cilium its CNI, and does it select it?",
            )
        gone = {pod["metadata"]["uid"] for pod in old}
        held = self._until(lambda: [told for pod in old if not pod["metadata"].get("deletionTimestamp") for told in self._evict(pod)])
        if held:
            raise AgentError(f"the agent of node {self._node} may not be evicted: {'; '.join(held)}", [full_name(pod) for pod in old])
        seen: List[Mapping[str, Any]] = []

        def missing() -> List[str]:
            seen[:] = agents(self.pods())
            fresh = [pod for pod in seen if pod["metadata"]["uid"] not in gone]
            told = [f"{full_name(pod)} is still ending" for pod in seen if pod["metadata"]["uid"] in gone]
            told += [f"{full_name(pod)}: {trouble(pod)}" for pod in fresh if not node_pods.is_ready(pod)]
            return told or ([] if fresh else ["the DaemonSet has made no new pod"])

        left = self._until(missing)
        if left:
            names = [full_name(pod) for pod in seen]
            raise AgentError(f"the agent of node {self._node} is not ready {self._timeout} s after it was evicted: {'; '.join(left)}", names)
        ready = next(pod for pod in seen if pod["metadata"]["uid"] not in gone)
        return {"pod": str(ready["metadata"]["name"]), "uid": str(ready["metadata"]["uid"])}

    def _evict(self, pod: Mapping[str, Any]) -> List[str]:
        """What holds a pod; nothing if its eviction was accepted, or it is gone."""
        one = node_pods.read(pod)
        body = {
            "apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": one.short_name, "namespace": one.namespace},
            "deleteOptions": {"preconditions": {"uid": one.uid}},
        }
        try:
            self._api.create(f"{node_drain.pod_path(one)}/eviction", body)
        except ApiError as error:
            if error.status in kube_client.PASSING:
                raise
            answer = node_drain.judge(error)
            return list(answer.budgets) if answer.outcome == node_drain.HELD else []
        return []

    def _until(self, missing: Callable[[], List[str]]) -> List[str]:
        """Ask until nothing is missing, and no longer than the deadline; what is missing then. An API server that is away for a while is waited for."""
        began = self._clock()
        while True:
            try:
                told = missing()
            except ApiError as error:
                if error.status not in kube_client.PASSING:
                    raise
                told = [str(error)]
            if not told or self._clock() - began >= self._timeout:
                return told
            self._sleep(LOOK_SECONDS)


def _same(taint: Mapping[str, Any]) -> bool:
    return taint.get("key") == TAINT["key"] and taint.get("effect") == TAINT["effect"]


def agent_of(pods: Sequence[Mapping[str, Any]]) -> Optional[Dict[str, Any]]:
    """The agent of a node, ``{pod, uid, ready, trouble}``; None if it has none."""
    found = sorted(agents(pods), key=lambda pod: bool(pod["metadata"].get("deletionTimestamp")))
    if not found:
        return None
    ready = node_pods.is_ready(found[0])
    return {
        "pod": str(found[0]["metadata"]["name"]), "uid": str(found[0]["metadata"]["uid"]), "ready": ready, "trouble": None if ready else trouble(found[0]),
    }


__all__ = ("TAINT", "AgentError", "Turn", "agent_of", "agents", "full_name", "on_network", "tolerates", "trouble", "would_stay")
