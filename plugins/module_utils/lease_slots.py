# Copyright (c) 2026 The inferops.locality authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The lock of a rollout: one Lease for each node that may be unavailable at a time, taken by compare-and-swap.

A Lease ``kube-system/inferops-locality-<slot>`` says who works on which node. It is released by taking the holder out of it, so that it need not be deleted.
It is judged by the API server's clock, which the ``Date`` of every answer tells: ``renewTime`` is written from it and compared with it, so that the clocks of
two control hosts need not agree. To watch a Lease for as long as it lasts, as controllers do (client-go leaderelection), would take a person an hour.
"""

from __future__ import annotations

import datetime as dt
import re
from dataclasses import dataclass
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple

NAMESPACE = "kube-system"
PREFIX = "inferops-locality-"
# By this label all slots are listed, those of a run with another max_unavailable too.
LABEL = ("app.kubernetes.io/managed-by", "inferops-locality")
NODE_ANNOTATION = "locality.inferops.io/node"
# The API servers of one cluster have a clock each.
SKEW_SECONDS = 30


@dataclass(frozen=True)
class Slot:
    """A Lease as it was read. :ivar node: what the holder works on. :ivar index: its number; None for a Lease that is none of the slots."""

    name: str
    holder: str
    node: str
    acquired: Optional[dt.datetime]
    renewed: Optional[dt.datetime]
    duration: int
    resource_version: str

    @property
    def index(self) -> Optional[int]:
        match = re.fullmatch(rf"{PREFIX}([0-9]+)", self.name)
        return int(match.group(1)) if match else None

    @property
    def expires(self) -> Optional[dt.datetime]:
        """When it may be taken over; None for a Lease that was never renewed."""
        return None if self.renewed is None else self.renewed + dt.timedelta(seconds=self.duration + SKEW_SECONDS)

    def is_free(self, now: dt.datetime) -> bool:
        """Whether nobody holds it, or its holder did not renew it in time. :param now: the API server's time."""
        return not self.holder or self.expires is None or now >= self.expires

    def told(self, now: dt.datetime) -> str:
        """Who holds it, for a person."""
        since = "" if self.acquired is None else f" since {time_text(self.acquired)}"
        renewed = "" if self.renewed is None else f", renewed {time_text(self.renewed)}"
        end = f", {'expired' if self.is_free(now) else 'expires'} {time_text(self.expires)}" if self.expires else ""
        return f"{NAMESPACE}/{self.name} is held by {self.holder} for node {self.node or 'unknown'}{since}{renewed}{end}"


@dataclass(frozen=True)
class Decision:
    """What to do about the lock.

    :ivar index: the slot to write; None if there is none. :ivar slot: that slot as it was read, None if its Lease is to be made.
    :ivar renews: it is the holder's own already. :ivar busy: who is in the way, for a person.
    """

    index: Optional[int] = None
    slot: Optional[Slot] = None
    renews: bool = False
    busy: Tuple[str, ...] = ()
    holders: Tuple[str, ...] = ()


def time_text(moment: Optional[dt.datetime]) -> str:
    """A moment as people and annotations read it: ``2026-11-30T19:54:33Z``."""
    return "never" if moment is None else moment.astimezone(dt.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


def micro_time(moment: dt.datetime) -> str:
    """A moment as ``metav1.MicroTime`` wants it, with six digits."""
    return moment.astimezone(dt.timezone.utc).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def parse_time(text: Optional[str]) -> Optional[dt.datetime]:
    """A moment of the API, with or without fractions of a second; :raises ValueError: it is none."""
    if not text:
        return None
    # Python 3.9 takes no Z, and three or six digits only.
    match = re.fullmatch(r"([^.Z+]+)(?:\.([0-9]+))?(Z|[+-][0-9:]+)", text)
    if match is None:
        raise ValueError(f"'{text}' is not a time of the API")
    head, digits, zone = match.groups()
    return dt.datetime.fromisoformat(f"{head}.{(digits or '')[:6]:0<6}{'+00:00' if zone == 'Z' else zone}")


def read(lease: Mapping[str, Any]) -> Slot:
    """A Lease as the API returns it."""
    meta, spec = lease["metadata"], lease.get("spec") or {}
    return Slot(
        name=meta["name"], holder=spec.get("holderIdentity") or "", node=(meta.get("annotations") or {}).get(NODE_ANNOTATION, ""),
        acquired=parse_time(spec.get("acquireTime")), renewed=parse_time(spec.get("renewTime")), duration=spec.get("leaseDurationSeconds") or 0,
        resource_version=meta["resourceVersion"],
    )


def decide(leases: Sequence[Mapping[str, Any]], *, holder: str, node: str, slots: int, now: dt.datetime, take_from: Sequence[str] = ()) -> Decision:
    """Which slot the holder may have for a node.

    :param leases: all Leases with our label. :param slots: how many nodes may be unavailable at a time. :param now: the API server's time.
    :param take_from: holders that are known to be dead: theirs are taken over before they expire.
    """
    read_slots = [slot for slot in map(read, leases) if slot.index is not None]
    mine = [slot for slot in read_slots if slot.holder == holder and slot.node == node]
    others = [slot for slot in read_slots if slot not in mine and not slot.is_free(now) and slot.holder not in take_from]
    same_node = [slot for slot in others if slot.node == node]
    if same_node:
        return Decision(busy=tuple(slot.told(now) for slot in same_node), holders=tuple(slot.holder for slot in same_node))
    if mine:
        first = min(mine, key=lambda slot: slot.index or 0)
        return Decision(index=first.index, slot=first, renews=not first.is_free(now))
    if len(others) >= slots:
        return Decision(busy=tuple(slot.told(now) for slot in others), holders=tuple(slot.holder for slot in others))
    taken = {slot.index for slot in others}
    by_index = {slot.index: slot for slot in read_slots}
    free = [index for index in range(slots) if index not in taken]
    # One that a dead run left for this very node is gone on with, so that it does not stay behind.
    index = next((index for index in free if index in by_index and by_index[index].node == node), free[0])
    return Decision(index=index, slot=by_index.get(index))


def held(slot: Optional[Slot], index: int, *, holder: str, node: str, duration: int, now: dt.datetime, renews: bool) -> Dict[str, Any]:
    """The Lease to write for a holder. With a slot that was read its ``resourceVersion`` stands in it: the API refuses it (409) if somebody was faster."""
    meta: Dict[str, Any] = {
        "name": f"{PREFIX}{index}", "namespace": NAMESPACE, "labels": {LABEL[0]: LABEL[1]}, "annotations": {NODE_ANNOTATION: node},
    }
    if slot is not None:
        meta["resourceVersion"] = slot.resource_version
    acquired = slot.acquired if slot is not None and renews and slot.acquired else now
    return {
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": meta,
        "spec": {"holderIdentity": holder, "leaseDurationSeconds": duration, "acquireTime": micro_time(acquired), "renewTime": micro_time(now)},
    }


def released(slot: Slot, now: dt.datetime) -> Dict[str, Any]:
    """The Lease to write to let go of a slot; ``leaseDurationSeconds`` has to be positive."""
    return {
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": {"name": slot.name, "namespace": NAMESPACE, "labels": {LABEL[0]: LABEL[1]}, "resourceVersion": slot.resource_version},
        "spec": {"holderIdentity": "", "leaseDurationSeconds": 1, "renewTime": micro_time(now)},
    }


def to_release(leases: Sequence[Mapping[str, Any]], *, holder: str, node: str, take_from: Sequence[str] = ()) -> List[Slot]:
    """The slots of a holder for a node, and those of holders that are known to be dead for it."""
    return [slot for slot in map(read, leases) if slot.index is not None and slot.holder and slot.node == node and slot.holder in (holder, *take_from)]


__all__ = (
    "LABEL", "NAMESPACE", "NODE_ANNOTATION", "PREFIX", "SKEW_SECONDS", "Decision", "Slot", "decide", "held", "micro_time", "parse_time", "read", "released",
    "time_text", "to_release",
)
