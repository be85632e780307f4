# Copyright (c) 2026 The inferops.locality authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Labels and taints: those that are wanted, those of an earlier plan, those of others."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.inferops.locality.plugins.module_utils import node_labels

FOREIGN: dict[str, str] = {"kubernetes.io/hostname": "a"}
OTHER = {"key": "other", "value": "x", "effect": "NoExecute", "timeAdded": "2026-11-30T02:00:00Z"}


def node(labels: dict[str, str] | None = None, taints: Any = None, note: str | None = None) -> dict[str, Any]:
    """A Node as the API returns it."""
    made: dict[str, Any] = {"metadata": {"name": "a", "resourceVersion": "7", "labels": {**FOREIGN, **(labels or {})}}, "spec": {}}
    if taints:
        made["spec"]["taints"] = taints
    if note is not None:
        made["metadata"]["annotations"] = {node_labels.ANNOTATION: note}
    return made


def applied(found: dict[str, Any], change: node_labels.Change) -> dict[str, Any]:
    """A Node after a merge patch (RFC 7386), as far as the patches here go."""
    patch = change.patch or {}
    meta = patch.get("metadata", {})
    made: dict[str, Any] = {"metadata": {**found["metadata"]}, "spec": dict(found["spec"])}
    for part in ("labels", "annotations"):
        values = {**found["metadata"].get(part, {}), **meta.get(part, {})}
        made["metadata"][part] = {key: value for key, value in values.items() if value is not None}
    if "spec" in patch:
        made["spec"] = {key: value for key, value in patch["spec"].items() if value is not None}
    return made


def test_what_is_wanted_is_set_and_a_second_time_changes_nothing() -> None:
    before = node(taints=[OTHER])
    change = node_labels.decide(before, {"gpu": "h100"}, ["dedicated=inference:NoSchedule", "new:NoExecute"])
    assert change.patch is not None and change.patch["metadata"]["resourceVersion"] == "7"
    assert (change.before, change.after) == (
        {"labels": {"gpu": None}, "taints": ["other=x:NoExecute"]},
        {"labels": {"gpu": "h100"}, "taints": ["other=x:NoExecute", "dedicated=inference:NoSchedule", "new:NoExecute"]},
    )
    after = applied(before, change)
    assert node_labels.labels_of(after) == {**FOREIGN, "gpu": "h100"}
    assert after["spec"]["taints"][0] == OTHER, "a taint of somebody else loses nothing of it"
    assert node_labels.decide(after, {"gpu": "h100"}, ["new:NoExecute", "dedicated=inference:NoSchedule"]).patch is None


def test_what_is_no_longer_wanted_goes_and_what_others_have_stays() -> None:
    wanted = {"gpu": "h100", "zone": "a"}
    first = applied(node(), node_labels.decide(node(), wanted, ["dedicated:NoSchedule"]))
    second = node_labels.decide(first, {"zone": "a"}, [])
    assert second.after == {"labels": {"gpu": None}, "taints": []}
    last = applied(applied(first, second), node_labels.decide(applied(first, second), {}, []))
    assert last["metadata"]["labels"] == FOREIGN and last["metadata"]["annotations"] == {} and last["spec"] == {}
    assert node_labels.decide(last, {}, []).patch is None


def test_what_somebody_changed_since_is_theirs() -> None:
    note = '{"labels": {"gpu": "h100"}, "taints": ["dedicated=a:NoSchedule"]}'
    found = node({"gpu": "mine"}, [{"key": "dedicated", "value": "b", "effect": "NoSchedule"}], note)
    change = node_labels.decide(found, {}, [])
    assert change.kept == ("label gpu=mine", "taint dedicated=b:NoSchedule")
    after = applied(found, change)
    assert node_labels.labels_of(after)["gpu"] == "mine" and node_labels.taints_of(after) == ["dedicated=b:NoSchedule"]


def test_what_somebody_changed_and_is_still_wanted_is_set_again() -> None:
    note = '{"labels": {"gpu": "h100"}, "taints": ["dedicated=a:NoSchedule"]}'
    found = node({"gpu": "mine"}, [{"key": "dedicated", "value": "b", "effect": "NoSchedule"}], note)
    after = applied(found, node_labels.decide(found, {"gpu": "h100"}, ["dedicated=a:NoSchedule"]))
    assert node_labels.labels_of(after)["gpu"] == "h100" and node_labels.taints_of(after) == ["dedicated=a:NoSchedule"]


def test_a_taint_of_another_effect_is_another_taint() -> None:
    found = node(taints=[{"key": "dedicated", "value": "a", "effect": "NoExecute"}])
    after = applied(found, node_labels.decide(found, {}, ["dedicated=a:NoSchedule"]))
    assert node_labels.taints_of(after) == ["dedicated=a:NoExecute", "dedicated=a:NoSchedule"]


@pytest.mark.parametrize("note", ["", "no JSON", "[]", "1", '{"labels": [1]}', '{"labels": {}, "taints": ["x"]}', '{"taints": 7}', "null"])
def test_a_note_of_somebody_else_takes_nothing_away(note: str) -> None:
    change = node_labels.decide(node({"gpu": "h100"}, [OTHER], note), {"zone": "a"}, [])
    assert change.patch is not None and change.patch["metadata"]["labels"] == {"zone": "a"} and "spec" not in change.patch and change.kept == ()


@pytest.mark.parametrize("text", ["", "key", "key=value", "=value:NoSchedule", "key:noschedule", ":NoSchedule", "key=value:"])
def test_what_is_no_taint_is_refused_before_anything_is_decided(text: str) -> None:
    with pytest.raises(ValueError, match="wanted a taint such as key=value:NoSchedule"):
        node_labels.decide(node(), {}, [text])


_KEYS = st.sampled_from(["a", "b", "c"])
_LABELS = st.dictionaries(_KEYS, st.sampled_from(["1", "2"]))
_TAINTS = st.lists(st.builds("{}{}:{}".format, _KEYS, st.sampled_from(["", "=1", "=2"]), st.sampled_from(["NoSchedule", "NoExecute"])),
                   unique_by=lambda text: (text[0], text.rpartition(":")[2]))


@given(_LABELS, _TAINTS, _LABELS, _TAINTS)
def test_whatever_plan_follows_another_only_the_last_one_is_left(labels: dict, taints: list, later: dict, last: list) -> None:
    first = applied(node(), node_labels.decide(node(), labels, taints))
    second = applied(first, node_labels.decide(first, later, last))
    assert node_labels.labels_of(second) == {**FOREIGN, **later}
    assert sorted(node_labels.taints_of(second)) == sorted(last)
    assert node_labels.decide(second, later, last).patch is None
