# Copyright (c) 2026 The inferops.locality authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Drains a node by the eviction API, within one deadline for all of it, and says what is in the way.

First every pod's eviction is asked for without being done (``dryRun=All``), until each would be allowed: a budget that never allows one is found while all pods
still run. Then each pod is evicted once and waited for.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any, Callable, Dict, List, Optional, Set, Tuple

from ansible_collections.inferops.locality.plugins.module_utils import kube_client, node_pods, node_turn
from ansible_collections.inferops.locality.plugins.module_utils.kube_client import Api, ApiError
from ansible_collections.inferops.locality.plugins.module_utils.node_pods import Pod

LOOK_SECONDS = 2
# The API server says 10 where a budget has not been counted anew yet, and nothing where it is used up (pkg/registry/core/pod/storage/eviction.go).
RETRY_SECONDS = 5

GONE = "gone"
ACCEPTED = "accepted"
HELD = "held"


@dataclass(frozen=True)
class Answer:
    """What the API server said to an eviction. :ivar budgets: names of the disruption budgets that hold the pod, with what they say."""

    outcome: str
    budgets: Tuple[str, ...] = ()
    retry_after: int = RETRY_SECONDS


@dataclass
class Options:
    """How to drain.

    :ivar timeout: seconds for all of it. :ivar local_data: pods with emptyDir volumes may go. :ivar unmanaged: pods without a controller may.
    :ivar pinned: pods that stay may have whole CPUs of their own. :ivar delete_after: seconds after which pods that budgets hold are deleted; None for never.
    :ivar grace: seconds for a pod to end; None for its own. :ivar holder: the run whose turn it has to be all the time; empty for anybody's.
    """

    timeout: int
    holder: str = ""
    local_data: bool = False
    unmanaged: bool = False
    pinned: bool = True
    delete_after: Optional[int] = None
    grace: Optional[int] = None


@dataclass
class Result:
    """What was done.

    :ivar deleted: deleted against their budgets. :ivar blockers: what is in the way, one text for each pod. :ivar stayed: pods that a drain leaves.
    :ivar survivors: those of them with whole CPUs of their own. :ivar would_evict: in check mode.
    """

    evicted: List[str] = field(default_factory=list)
    deleted: List[str] = field(default_factory=list)
    blockers: List[str] = field(default_factory=list)
    warnings: List[str] = field(default_factory=list)
    survivors: List[Dict[str, Any]] = field(default_factory=list)
    stayed: List[Dict[str, Any]] = field(default_factory=list)
    would_evict: List[str] = field(default_factory=list)


class DrainError(Exception):
    """The node is not drained. :ivar result: what was done until then."""

    def __init__(self, message: str, result: Result) -> None:
        super().__init__(message)
        self.result = result


def judge(error: ApiError) -> Answer:
    """What a refused eviction means; :raises ApiError: it is refused for good."""
    if error.status in (404, 409):
        # Gone, or another pod of that name by now: the eviction names the one that was meant.
        return Answer(GONE)
    if error.status == 429:
        budgets = tuple(str(cause.get("message")) for cause in error.causes if cause.get("reason") == "DisruptionBudget")
        return Answer(HELD, budgets or (error.message,), error.retry_after or RETRY_SECONDS)
    if error.status == 403 and any(cause.get("reason") == "NamespaceTerminating" for cause in error.causes):
        return Answer(HELD, ("its namespace is being deleted",))
    raise error


class Drain:
    """One drain of one node.

    :param clock: seconds that only go on. :param sleep: waits. :ivar result: what was done so far.
    """

    def __init__(
        self, api: Api, node: str, options: Options, *, clock: Callable[[], float] = time.monotonic, sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._api = api
        self._node = node
        self._options = options
        self._clock = clock
        self._sleep = sleep
        self._began = clock()
        self.result = Result()
        # By UID: a pod is evicted once, even if a list still has it as it was.
        self._done: Set[str] = set()
        self._held: Dict[str, Answer] = {}
        self._not_before: Dict[str, float] = {}

    def _check_node(self) -> None:
        """Before each look, since a drain whose playbook was killed goes on by itself: it must not evict what comes to a node that was given back."""
        node = kube_client.get_node(self._api, self._node)
        if not node_turn.is_cordoned(node):
            raise DrainError("the node is not cordoned, and pods would come as fast as they go; cordon it first", self.result)
        try:
            mark = node_turn.mark_of(node)
        except node_turn.MarkError as error:
            raise DrainError(str(error), self.result) from error
        if self._options.holder and (mark is None or mark.run != self._options.holder):
            raise DrainError(f"the node's turn is not that of {self._options.holder} any more, but {f'of {mark.run}' if mark else 'ended'}", self.result)

    def plan(self) -> Result:
        """What a drain would do, asked for with ``dryRun=All``; a budget that holds a pod now is among the blockers.

        :raises DrainError: pods that may not be evicted. :raises ApiError: refused for good, or not reached.
        """
        pods = self._look()
        for pod in pods.evict:
            if self._evict(pod, dry_run=True).outcome != GONE:
                self.result.would_evict.append(pod.name)
        self.result.blockers = [told for told in self._in_the_way(pods) if not told.endswith(" runs")]
        return self.result

    def run(self) -> Result:
        """Drain the node.

        :raises DrainError: pods that may not be evicted, before any was; the deadline; or the node is not ours any more.
        :raises ApiError: refused for good, or not reached.
        """
        self._until(self._asked)
        self._until(self._emptied)
        return self.result

    def _until(self, step: Callable[[node_pods.Sorted], bool]) -> None:
        while True:
            pods, trouble = None, ""
            try:
                self._check_node()
                pods = self._look()
                if step(pods):
                    return
            except ApiError as error:
                if error.status not in kube_client.PASSING:
                    raise
                trouble = str(error)
            if self._clock() - self._began >= self._options.timeout:
                self.result.blockers = [*([trouble] if trouble else []), *(self._in_the_way(pods) if pods else [])]
                none = "" if self.result.evicted or self.result.deleted else ", and no pod was evicted"
                raise DrainError(f"not drained within {self._options.timeout} s{none}: {'; '.join(self.result.blockers)}", self.result)
            self._sleep(LOOK_SECONDS)

    def _look(self) -> node_pods.Sorted:
        pods = node_pods.sort(kube_client.pods_of(self._api, self._node))
        self.result.survivors = [_told(pod) for pod in pods.survivors()]
        self.result.stayed = [_told(pod) for pod in pods.stay]
        refused = pods.refused(local_data=self._options.local_data, unmanaged=self._options.unmanaged, pinned=self._options.pinned)
        if refused:
            raise DrainError(f"no drain is possible: {'; '.join(refused)}", self.result)
        for pod in [*pods.evict, *pods.ending]:
            left = self._options.timeout - (self._clock() - self._began)
            grace = pod.grace if self._options.grace is None or pod.ending else self._options.grace
            if grace > left and pod.uid not in self._done:
                told = f"pod {pod.name} may take {grace} s to end, longer than the {int(left)} s that are left for the drain"
                if not any(each.startswith(f"pod {pod.name} ") for each in self.result.warnings):
                    self.result.warnings.append(told)
        return pods

    def _asked(self, pods: node_pods.Sorted) -> bool:
        """Ask for each eviction without doing it; whether each would be allowed."""
        for pod in pods.evict:
            if pod.uid in self._done or self._waits(pod):
                continue
            if self._evict(pod, dry_run=True).outcome != HELD:
                self._done.add(pod.uid)
        allowed = all(pod.uid in self._done for pod in pods.evict)
        if allowed or self._deletes():
            self._done.clear()
            return True
        return False

    def _emptied(self, pods: node_pods.Sorted) -> bool:
        """Evict what was not evicted yet; whether all are gone."""
        for pod in pods.evict:
            if pod.uid in self._done or (self._waits(pod) and not self._deletes()):
                continue
            answer = self._evict(pod, dry_run=False)
            if answer.outcome == HELD and self._deletes():
                answer = self._delete(pod)
                self.result.deleted.append(pod.name)
            elif answer.outcome == ACCEPTED:
                self.result.evicted.append(pod.name)
            if answer.outcome == ACCEPTED:
                self._done.add(pod.uid)
        return not pods.evict and not pods.ending

    def _waits(self, pod: Pod) -> bool:
        return self._clock() < self._not_before.get(pod.uid, 0)

    def _deletes(self) -> bool:
        return self._options.delete_after is not None and self._clock() - self._began >= self._options.delete_after

    def _evict(self, pod: Pod, *, dry_run: bool) -> Answer:
        options: Dict[str, Any] = {"preconditions": {"uid": pod.uid}}
        if self._options.grace is not None:
            options["gracePeriodSeconds"] = self._options.grace
        if dry_run:
            options["dryRun"] = ["All"]
        body = {
            "apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": pod.short_name, "namespace": pod.namespace}, "deleteOptions": options,
        }
        try:
            self._api.create(f"{pod_path(pod)}/eviction", body, dry_run=dry_run)
            answer = Answer(ACCEPTED)
        except ApiError as error:
            answer = judge(error)
        if answer.outcome == HELD:
            self._held[pod.uid] = answer
            self._not_before[pod.uid] = self._clock() + answer.retry_after
        else:
            self._held.pop(pod.uid, None)
        return answer

    def _delete(self, pod: Pod) -> Answer:
        body: Dict[str, Any] = {"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": {"uid": pod.uid}}
        if self._options.grace is not None:
            body["gracePeriodSeconds"] = self._options.grace
        try:
            self._api.delete(pod_path(pod), body)
        except ApiError as error:
            if error.status not in (404, 409):
                raise
        return Answer(ACCEPTED)

    def _in_the_way(self, pods: node_pods.Sorted) -> List[str]:
        told = []
        for pod in pods.evict:
            answer = self._held.get(pod.uid)
            told.append(f"pod {pod.name} " + ("runs" if answer is None else f"may not be evicted: {', '.join(answer.budgets)}"))
        told += [f"pod {pod.name} is ending since {pod.ending} and may take {pod.grace} s" for pod in pods.ending]
        return told


def _told(pod: Pod) -> Dict[str, Any]:
    return {"pod": pod.name, "kind": pod.stays, "extended_resources": list(pod.extended)}


def pod_path(pod: Pod) -> str:
    """Path of a pod."""
    return f"/api/v1/namespaces/{pod.namespace}/pods/{pod.short_name}"


__all__ = ("LOOK_SECONDS", "RETRY_SECONDS", "Answer", "Drain", "DrainError", "Options", "Result", "judge", "pod_path")
