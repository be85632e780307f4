# Copyright (c) 2026 The inferops.locality authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reads and writes the Leases of :mod:`lease_slots`."""

from __future__ import annotations

from typing import Any, Dict, List, Sequence

from ansible_collections.inferops.locality.plugins.module_utils import kube_client, lease_slots
from ansible_collections.inferops.locality.plugins.module_utils.kube_client import Api, ApiError

_LEASES = f"/apis/coordination.k8s.io/v1/namespaces/{lease_slots.NAMESPACE}/leases"
_TAKE = (
    "wait until it has ended, or until the lock expires; if you know that its run is dead, take the lock over with take_from (locality_take_lock_from)"
)


class HeldError(Exception):
    """The lock is held by others. :ivar held_by: for people. :ivar holders: their ids."""

    def __init__(self, message: str, held_by: Sequence[str], holders: Sequence[str]) -> None:
        super().__init__(message)
        self.held_by = list(held_by)
        self.holders = list(holders)


class Lock:
    """The lock of one holder for one node. All methods raise ApiError if the API server refuses or is not reached."""

    def __init__(self, api: Api, node: str, holder: str, *, dry_run: bool = False) -> None:
        self._api = api
        self._node = node
        self._holder = holder
        self._dry_run = dry_run

    def read(self) -> Dict[str, Any]:
        """What the holder has, and what others have."""
        return {"changed": False, **self._told(self._leases())}

    def hold(self, *, slots: int, duration: int, take_from: Sequence[str] = (), renew: bool = False) -> Dict[str, Any]:
        """Take the lock, or renew it.

        :param slots: how many nodes may be unavailable at a time. :param duration: seconds. :param renew: it has to be the holder's still.
        :raises HeldError: others hold it, or took it over.
        """
        return dict(kube_client.retry_conflict(lambda: self._hold(slots, duration, take_from, renew)))

    def _hold(self, slots: int, duration: int, take_from: Sequence[str], renew: bool) -> Dict[str, Any]:
        leases = self._leases()
        now = self._api.server_time()
        decision = lease_slots.decide(leases, holder=self._holder, node=self._node, slots=slots, now=now, take_from=take_from)
        if decision.index is None:
            raise HeldError(f"the lock for node {self._node} is not free: {'; '.join(decision.busy)}: {_TAKE}", decision.busy, decision.holders)
        own = decision.slot is not None and decision.slot.holder == self._holder and decision.slot.node == self._node
        if renew and not own:
            raise HeldError(f"the lock for node {self._node} was taken over from this run, which must not go on", [], [])
        wanted = lease_slots.held(
            decision.slot, decision.index, holder=self._holder, node=self._node, duration=duration, now=now, renews=own,
        )
        if decision.slot is None:
            self._create(wanted)
        else:
            self._api.replace(f"{_LEASES}/{decision.slot.name}", wanted, dry_run=self._dry_run)
        if self._dry_run:
            return {"changed": not own, "lease": f"{lease_slots.NAMESPACE}/{wanted['metadata']['name']}", "expires": "", "held_by": [], "holders": []}
        leases = self._leases()
        rivals = [slot for slot in map(lease_slots.read, leases) if slot.node == self._node and not slot.is_free(now)
                  and slot.holder not in (self._holder, *take_from)]
        if rivals:
            # Two runs took a slot each for this node at the same moment. Whoever sees the other lets go: at least one of them does.
            self.release()
            told = [slot.told(now) for slot in rivals]
            raise HeldError(f"the lock for node {self._node} is not free: {'; '.join(told)}: {_TAKE}", told, [slot.holder for slot in rivals])
        return {"changed": not own, **self._told(leases)}

    def _create(self, lease: Dict[str, Any]) -> None:
        try:
            self._api.create(_LEASES, lease, dry_run=self._dry_run)
        except ApiError as error:
            # Somebody made it meanwhile (AlreadyExists is a 409): read again.
            # Without our label it would be there and not in our list for ever.
            if error.status == 409 and not self._is_ours(lease["metadata"]["name"]):
                raise ApiError(
                    f"Lease {lease_slots.NAMESPACE}/{lease['metadata']['name']}", kube_client.UNREACHED,
                    f"is there without the label {lease_slots.LABEL[0]}: remove it if nobody works on a node", {},
                ) from error
            raise

    def _is_ours(self, name: str) -> bool:
        return any(each["metadata"]["name"] == name for each in self._leases())

    def release(self, take_from: Sequence[str] = ()) -> Dict[str, Any]:
        """Let go of what the holder has for the node, and of what those have that ``take_from`` names."""
        return dict(kube_client.retry_conflict(lambda: self._release(take_from)))

    def _release(self, take_from: Sequence[str]) -> Dict[str, Any]:
        slots = lease_slots.to_release(self._leases(), holder=self._holder, node=self._node, take_from=take_from)
        for slot in slots:
            self._api.replace(f"{_LEASES}/{slot.name}", lease_slots.released(slot, self._api.server_time()), dry_run=self._dry_run)
        return {"changed": bool(slots), **self._told(self._leases())}

    def _leases(self) -> List[Dict[str, Any]]:
        return self._api.items(_LEASES, {"labelSelector": "=".join(lease_slots.LABEL)})

    def _told(self, leases: Sequence[Dict[str, Any]]) -> Dict[str, Any]:
        now = self._api.server_time()
        slots = [slot for slot in map(lease_slots.read, leases) if slot.holder]
        mine = [slot for slot in slots if slot.holder == self._holder and slot.node == self._node]
        others = [slot for slot in slots if slot not in mine and not slot.is_free(now)]
        return {
            "lease": f"{lease_slots.NAMESPACE}/{mine[0].name}" if mine else "", "expires": lease_slots.time_text(mine[0].expires) if mine else "",
            "held_by": [slot.told(now) for slot in others], "holders": [slot.holder for slot in others],
        }


__all__ = ("HeldError", "Lock")
