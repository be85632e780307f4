# Copyright (c) 2026 The inferops.locality authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether the cluster is well enough; T-WIN 16 and 17 as judged from answers."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ansible_collections.inferops.locality.plugins.module_utils import cluster_health, node_turn
from ansible_collections.inferops.locality.plugins.module_utils.findings import Findings

MARK = node_turn.Mark("anna@control/1", "2026-11-30T02:00:00Z", True).text()


def node(name: str, ready: str = "True", mark: str | None = None) -> dict[str, Any]:
    return {
        "metadata": {"name": name, "annotations": {} if mark is None else {node_turn.ANNOTATION: mark}},
        "status": {"conditions": [{"type": "Ready", "status": ready}] if ready else []},
    }


@pytest.mark.parametrize(
    ("nodes", "limits", "told"),
    [
        ([node("a"), node("b")], {}, []),
        # The node itself does not count: to mend it is what the turn is for.
        ([node("a", "False"), node("b")], {}, []),
        ([node("a"), node("b", "False"), node("c", "Unknown"), node("d", "")], {}, ["3 other nodes are not ready: b, c, d; wanted at most 0"]),
        # A number, and not a text with a 0 in it (T-ROLL 11).
        ([node("a"), *(node(f"n{number}", "False") for number in range(10))], {"max_not_ready": 9}, ["10 other nodes are not ready"]),
        ([node("a"), *(node(f"n{number}", "False") for number in range(10))], {"max_not_ready": 10}, []),
        ([node("a"), node("b", mark=MARK)], {}, ["the turn of b (by anna@control/1 since 2026-11-30T02:00:00Z) was begun and not ended"]),
        ([node("a", mark=MARK), node("b")], {}, []),
        ([node("a"), node("b", mark=MARK)], {"max_unavailable": 2}, []),
        ([node("a"), node("b", mark="hand made")], {}, ["node b: annotation locality.inferops.io/cordoned-by: found 'hand made'"]),
    ],
)
def test_other_nodes(nodes: list[dict[str, Any]], limits: dict[str, int], told: list[str]) -> None:
    found = Findings()
    cluster_health.nodes(found, nodes, "a", **{"max_not_ready": 0, "max_unavailable": 1, **limits})
    assert len(found.items) == len(told)
    assert [text in item["message"] for item, text in zip(found.items, told)] == [True] * len(told)


def test_where_no_node_is_taken_out_all_count_and_no_turn_may_be_begun() -> None:
    found = Findings()
    cluster_health.nodes(found, [node("a", "False"), node("b", mark=MARK)], None, max_not_ready=0, max_unavailable=2)
    assert [item["message"].partition(";")[0] for item in found.items] == [
        "1 nodes are not ready: a", "the turn of b (by anna@control/1 since 2026-11-30T02:00:00Z) was begun and not ended",
    ]
    well = Findings()
    cluster_health.nodes(well, [node("a"), node("b")], None, max_not_ready=0, max_unavailable=1)
    assert well.items == []


def test_maintenance_of_another_tool_is_told_by_name_tool_and_age() -> None:
    found = Findings()
    cluster_health.maintenances(found, [
        {"metadata": {"namespace": "network-operator", "name": "x", "creationTimestamp": "2026-11-01T00:00:00Z"},
         "spec": {"nodeName": "a", "requestorID": "nvidia.network.operator"}},
        {"metadata": {"name": "y"}, "spec": {"nodeName": "b", "reason": "disk"}},
        {"metadata": {"name": "z"}, "spec": {"nodeName": "a", "reason": "disk"}},
    ], "a")
    assert [item["message"] for item in found.items] == [
        "NodeMaintenance network-operator/x (nvidia.network.operator) is for this node since 2026-11-01T00:00:00Z",
        "NodeMaintenance z (disk) is for this node since unknown",
    ]


def test_pods_that_have_ended_do_not_block() -> None:
    found = Findings()
    pods = [{"metadata": {"namespace": "n", "name": name, "uid": name}, "status": {"phase": phase}} for name, phase in (("a", "Running"), ("b", "Succeeded"))]
    cluster_health.blocking_pods(found, pods, "app=training")
    assert [item["message"] for item in found.items] == ["pods that match 'app=training' run on the node: n/a"]


def answer(*labels: dict[str, str]) -> dict[str, Any]:
    """What ``/api/v1/query`` answers (prometheus.io, HTTP API, instant queries)."""
    return {"status": "success", "data": {"resultType": "vector", "result": [{"metric": each, "value": [1.0, "1"]} for each in labels]}}


def alert(name: str, state: str = "firing", **labels: str) -> dict[str, str]:
    return {"__name__": "ALERTS", "alertname": name, "alertstate": state, **labels}


def judged(reply: Any, setting: dict[str, Any], suppressed: list[dict[str, str]] | None = None) -> list[str]:
    found = Findings()
    cluster_health.alerts(found, reply, setting, suppressed)
    return [item["message"] for item in found.items]


def test_alerts_block_unless_ignored_or_silenced() -> None:
    reply = answer(alert("Watchdog"), alert("KubeNodeNotReady", node="gpu-a02"), alert("Slow", "pending"))
    assert judged(reply, {}) == ['Prometheus answers with 2 alerts: KubeNodeNotReady{node="gpu-a02"}, Slow{} (pending)']
    assert judged(answer(alert("Watchdog")), {}) == []
    assert judged(answer(alert("Watchdog")), {"ignore": []}) != []
    assert judged(reply, {"ignore": ["Watchdog", "KubeNodeNotReady", "Slow"]}) == []
    silenced = [{"alertname": "KubeNodeNotReady", "node": "gpu-a02", "cluster": "external"}]
    assert judged(reply, {}, silenced) == ["Prometheus answers with 1 alerts: Slow{} (pending)"]
    # A silence for another node is none for this one.
    assert "KubeNodeNotReady" in judged(reply, {}, [{"alertname": "KubeNodeNotReady", "node": "gpu-a03"}])[0]


def test_a_long_list_is_cut_and_counted() -> None:
    assert judged(answer(*(alert(f"A{number:02}") for number in range(13))), {})[0].endswith("A09{} and 3 more")


@pytest.mark.parametrize(
    ("setting", "query"),
    [
        ({}, 'ALERTS{alertstate="firing"}'),
        ({"pending": True}, 'ALERTS{alertstate=~"firing|pending"}'),
        ({"match": ['severity="critical"', 'namespace=~"llm.*"']}, 'ALERTS{alertstate="firing", severity="critical", namespace=~"llm.*"}'),
        ({"query": "up == 0"}, "up == 0"),
    ],
)
def test_the_query_is_the_gates_choice(setting: dict[str, Any], query: str) -> None:
    assert cluster_health.alert_query(setting) == query


@pytest.mark.parametrize(
    ("reply", "told"),
    [
        ({"status": "error", "errorType": "bad_data", "error": "parse error: unexpected end"}, "parse error: unexpected end"),
        ({"status": "success", "data": {"resultType": "scalar", "result": [1, "0"]}}, "the query gives a scalar, wanted a vector"),
        ({"status": "success", "data": {"resultType": "matrix", "result": []}}, "the query gives a matrix"),
        ({"status": "success"}, "no answer of Prometheus"),
        ([], "no answer of Prometheus"),
        ("ok", "no answer of Prometheus"),
        (None, "no answer of Prometheus"),
    ],
)
def test_what_is_no_answer_is_no_all_clear(reply: Any, told: str) -> None:
    with pytest.raises(cluster_health.AnswerError, match=told):
        cluster_health.series(reply)


def test_silenced_and_inhibited_are_alertmanagers_suppressed() -> None:
    states = {"a": "suppressed", "b": "active", "c": "unprocessed"}
    reply = [{"labels": {"alertname": name}, "status": {"state": state, "silencedBy": [], "inhibitedBy": []}} for name, state in states.items()]
    assert cluster_health.suppressed_labels(reply) == [{"alertname": "a"}]
    for wrong in ({"status": "success"}, [{"labels": {}}], json.loads("null")):
        with pytest.raises(cluster_health.AnswerError, match="no answer of Alertmanager"):
            cluster_health.suppressed_labels(wrong)
