# Copyright (c) 2026 The inferops.locality authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The lock: who may have which slot, by the API server's clock."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest

from ansible_collections.inferops.locality.plugins.module_utils import lease_slots

NOW = dt.datetime(2026, 11, 30, 2, 0, 0, tzinfo=dt.timezone.utc)
MINE, THEIRS = "anna@control/1", "ben@control/2"


def lease(index: int, holder: str, node: str, *, age: int = 60, duration: int = 3300) -> dict[str, Any]:
    """A Lease as the API returns it, renewed ``age`` seconds ago."""
    renewed = NOW - dt.timedelta(seconds=age)
    made = lease_slots.held(None, index, holder=holder, node=node, duration=duration, now=renewed, renews=False)
    made["metadata"]["resourceVersion"] = f"{index}00"
    return made


def decide(leases: list[dict[str, Any]], *, slots: int = 1, take_from: tuple[str, ...] = ()) -> lease_slots.Decision:
    return lease_slots.decide(leases, holder=MINE, node="a", slots=slots, now=NOW, take_from=take_from)


@pytest.mark.parametrize(
    ("leases", "slots", "index", "renews"),
    [
        ([], 1, 0, False),
        ([lease(0, "", "b")], 1, 0, False),
        ([lease(0, MINE, "a")], 1, 0, True),
        # Its own that expired is its own as long as nobody took it.
        ([lease(0, MINE, "a", age=9999)], 1, 0, False),
        ([lease(0, THEIRS, "b", age=3300 + lease_slots.SKEW_SECONDS)], 1, 0, False),
        ([lease(0, THEIRS, "b")], 2, 1, False),
        # One run with two nodes has two slots.
        ([lease(0, MINE, "b")], 2, 1, False),
        ([lease(0, THEIRS, "b"), lease(1, "", "")], 2, 1, False),
        # What a dead run left for this node is gone on with.
        ([lease(0, "", ""), lease(1, THEIRS, "a", age=9999)], 2, 1, False),
    ],
)
def test_a_slot_is_found(leases: list[dict[str, Any]], slots: int, index: int, renews: bool) -> None:
    found = decide(leases, slots=slots)
    assert (found.index, found.renews, found.busy) == (index, renews, ())


@pytest.mark.parametrize(
    ("leases", "slots"),
    [
        ([lease(0, THEIRS, "b")], 1),
        ([lease(0, THEIRS, "b", age=3300 + lease_slots.SKEW_SECONDS - 1)], 1),
        ([lease(0, MINE, "b")], 1),
        # The same node, though there are slots.
        ([lease(1, THEIRS, "a")], 3),
        # A run with a larger max_unavailable has a slot that this one does not count.
        ([lease(5, THEIRS, "b")], 1),
        ([lease(0, MINE, "a"), lease(1, THEIRS, "a")], 2),
    ],
)
def test_a_lock_that_is_held_is_told_with_holder_node_and_times(leases: list[dict[str, Any]], slots: int) -> None:
    found = decide(leases, slots=slots)
    assert found.index is None
    assert found.busy and all(" is held by " in told and " for node " in told and " since 2026-" in told for told in found.busy)


def test_a_dead_holder_is_taken_over_before_it_expires() -> None:
    held = [lease(0, THEIRS, "a")]
    assert decide(held).holders == (THEIRS,)
    assert decide(held, take_from=(THEIRS,)).index == 0
    assert [slot.name for slot in lease_slots.to_release(held, holder=MINE, node="a", take_from=(THEIRS,))] == ["inferops-locality-0"]
    assert lease_slots.to_release(held, holder=MINE, node="a") == []


def test_what_is_written_carries_the_version_that_was_read_and_the_first_time() -> None:
    found = lease_slots.read(lease(0, MINE, "a", age=600))
    written = lease_slots.held(found, 0, holder=MINE, node="a", duration=10, now=NOW, renews=True)
    assert written["metadata"]["resourceVersion"] == "000"
    assert (written["spec"]["acquireTime"], written["spec"]["renewTime"]) == ("2026-11-30T01:50:00.000000Z", "2026-11-30T02:00:00.000000Z")
    assert lease_slots.held(found, 0, holder=MINE, node="a", duration=10, now=NOW, renews=False)["spec"]["acquireTime"] == "2026-11-30T02:00:00.000000Z"
    assert lease_slots.read({**lease_slots.released(found, NOW)}).is_free(NOW)


@pytest.mark.parametrize("text", ["2026-11-30T02:00:00Z", "2026-11-30T02:00:00.000000Z", "2026-11-30T03:00:00.0+01:00", "2026-11-30T02:00:00.000000000Z"])
def test_times_of_the_api_are_read_on_every_python(text: str) -> None:
    assert lease_slots.parse_time(text) == NOW


def test_what_is_no_time_is_said_so() -> None:
    assert lease_slots.parse_time(None) is None
    with pytest.raises(ValueError, match="'yesterday' is not a time"):
        lease_slots.parse_time("yesterday")
