# Copyright (c) 2026 The inferops.locality authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a drain does with each pod of a node, judged from the pods as the API returns them.

The rules are those of ``kubectl drain`` (k8s.io/kubectl/pkg/drain/filters.go), with three differences: a finished pod is left, since nothing of it runs; a pod
that is ending already is waited for and not evicted again; pods that stay are told when they have whole CPUs of their own.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, List, Mapping, Optional, Sequence, Tuple

from ansible_collections.inferops.locality.plugins.module_utils import quantity

MIRROR = "kubernetes.io/config.mirror"
# Why a pod stays on a drained node.
STAYS_MIRROR = "static"
STAYS_DAEMONSET = "daemonset"
STAYS_FINISHED = "finished"


@dataclass(frozen=True)
class Pod:
    """What a drain needs to know of a pod.

    :ivar name: ``namespace/name``. :ivar ending: since when it is being deleted, as the API says it. :ivar grace: seconds it may take to end.
    :ivar pinned: it has whole CPUs of its own under the kubelet's static policy. :ivar extended: extended resources it holds, such as ``nvidia.com/gpu``.
    """

    namespace: str
    short_name: str
    uid: str
    stays: Optional[str] = None
    unmanaged: bool = False
    local_data: Tuple[str, ...] = ()
    ending: Optional[str] = None
    grace: int = 30
    pinned: bool = False
    extended: Tuple[str, ...] = ()

    @property
    def name(self) -> str:
        return f"{self.namespace}/{self.short_name}"


@dataclass
class Sorted:
    """The pods of a node by what a drain does with them; each pod is in one list."""

    evict: List[Pod] = field(default_factory=list)
    ending: List[Pod] = field(default_factory=list)
    stay: List[Pod] = field(default_factory=list)

    def refused(self, *, local_data: bool, unmanaged: bool, pinned: bool = True) -> List[str]:
        """Why pods may not be evicted, one text for each pod and reason; none if all may.

        :param local_data: pods with an emptyDir volume may be evicted, which loses its data.
        :param unmanaged: pods without a controller may be evicted, which nobody starts again.
        :param pinned: pods that stay may have whole CPUs of their own.
        """
        reasons = []
        for pod in self.evict:
            if pod.local_data and not local_data:
                reasons.append(f"pod {pod.name} has data in emptyDir volumes ({', '.join(pod.local_data)}), which are lost when it goes")
            if pod.unmanaged and not unmanaged:
                reasons.append(f"pod {pod.name} has no controller that starts it again")
        if not pinned:
            reasons += [
                f"pod {pod.name} ({pod.stays}) stays with whole CPUs of its own, so that the kubelet's checkpoint cannot go without a reboot"
                for pod in self.survivors()
            ]
        return reasons

    def survivors(self) -> List[Pod]:
        """Pods with whole CPUs of their own that run on after the drain: the kubelet's checkpoint keeps their CPUs."""
        return [pod for pod in self.stay if pod.pinned and pod.stays != STAYS_FINISHED]


def read(pod: Mapping[str, Any]) -> Pod:
    """One pod, as ``GET /api/v1/pods`` lists it."""
    meta, spec, status = pod["metadata"], pod.get("spec") or {}, pod.get("status") or {}
    owner = controller(pod)
    stays = None
    if MIRROR in (meta.get("annotations") or {}):
        stays = STAYS_MIRROR
    elif status.get("phase") in ("Succeeded", "Failed"):
        stays = STAYS_FINISHED
    elif owner is not None and owner["kind"] == "DaemonSet":
        stays = STAYS_DAEMONSET
    grace = meta.get("deletionGracePeriodSeconds")
    if grace is None:
        grace = spec.get("terminationGracePeriodSeconds")
    return Pod(
        namespace=meta["namespace"], short_name=meta["name"], uid=meta["uid"], stays=stays, unmanaged=owner is None,
        local_data=tuple(volume["name"] for volume in spec.get("volumes") or [] if "emptyDir" in volume),
        ending=meta.get("deletionTimestamp"), grace=30 if grace is None else grace, pinned=whole_cpus(pod), extended=extended_resources(spec),
    )


def sort(pods: Sequence[Mapping[str, Any]]) -> Sorted:
    """The pods of a node by what a drain does with them.

    A DaemonSet's or static pod that is ending stays: its like comes back at once, so that a drain would wait for ever.
    """
    result = Sorted()
    for pod in sorted((read(each) for each in pods), key=lambda each: each.name):
        if pod.stays:
            result.stay.append(pod)
        elif pod.ending:
            result.ending.append(pod)
        else:
            result.evict.append(pod)
    return result


def controller(pod: Mapping[str, Any]) -> Optional[Mapping[str, Any]]:
    """The owner that would start a pod again (``metav1.GetControllerOf``); None for a pod that somebody made by hand."""
    return next((owner for owner in pod["metadata"].get("ownerReferences") or [] if owner.get("controller")), None)


def whole_cpus(pod: Mapping[str, Any]) -> bool:
    """Whether the kubelet's static policy gives CPUs of their own to a container of the pod.

    It does for a pod of the class Guaranteed, for each container with a whole number of CPUs (pkg/kubelet/cm/cpumanager/policy_static.go,
    guaranteedCPUs). Init containers that end give theirs back; those that are sidecars keep them. Whole CPUs of the pod itself count, as the kubelet's
    PodLevelResourceManagers would give them.
    """
    spec = pod.get("spec") or {}
    if (pod.get("status") or {}).get("qosClass") != "Guaranteed":
        return False
    lasting = [*(spec.get("containers") or []), *(each for each in spec.get("initContainers") or [] if each.get("restartPolicy") == "Always")]
    return any(_is_whole(((each.get("resources") or {}).get("requests") or {}).get("cpu")) for each in [*lasting, spec])


def _is_whole(cpu: Any) -> bool:
    if cpu is None:
        return False
    cores = quantity.to_cores(cpu)
    return cores >= 1 and cores.denominator == 1


def extended_resources(spec: Mapping[str, Any]) -> Tuple[str, ...]:
    """Names of the extended resources that the containers of a pod hold."""
    names = {
        name
        for container in [*(spec.get("containers") or []), *(spec.get("initContainers") or [])]
        for name, amount in ((container.get("resources") or {}).get("limits") or {}).items()
        if is_extended(name) and str(amount) != "0"
    }
    return tuple(sorted(names))


def is_extended(name: str) -> bool:
    """Whether a resource is one that a device plugin or the like advertises (pkg/apis/core/v1/helper, IsExtendedResourceName)."""
    domain, slash, _rest = name.partition("/")
    return bool(slash) and domain != "kubernetes.io" and not domain.endswith(".kubernetes.io") and not name.startswith("requests.")


def is_ready(pod: Mapping[str, Any]) -> bool:
    """Whether a pod runs, is Ready and is not ending."""
    conditions = (pod.get("status") or {}).get("conditions") or []
    ready = any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)
    return ready and not pod["metadata"].get("deletionTimestamp")


def resident_name(pod: Mapping[str, Any]) -> Optional[str]:
    """The name by which a pod that belongs to the node is known again after a reboot; None for other pods.

    A static pod keeps its own name, the pod of a DaemonSet gets a new one: it is known by ``namespace/name`` of the DaemonSet.
    """
    meta = pod["metadata"]
    if MIRROR in (meta.get("annotations") or {}):
        return f"static pod {meta['namespace']}/{meta['name']}"
    owner = controller(pod)
    return f"DaemonSet {meta['namespace']}/{owner['name']}" if owner is not None and owner["kind"] == "DaemonSet" else None


__all__ = (
    "MIRROR", "STAYS_DAEMONSET", "STAYS_FINISHED", "STAYS_MIRROR", "Pod", "Sorted", "controller", "extended_resources", "is_extended", "is_ready", "read",
    "resident_name", "sort", "whole_cpus",
)
