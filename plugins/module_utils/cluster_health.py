# Copyright (c) 2026 The inferops.locality authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether the cluster is well enough for a node to be taken out of it, judged from objects of the API and answers of Prometheus and Alertmanager.

What cannot be told counts as not well.
"""

from __future__ import annotations

import re
from typing import Any, Dict, List, Mapping, Optional, Sequence

from ansible_collections.inferops.locality.plugins.module_utils import node_pods, node_turn
from ansible_collections.inferops.locality.plugins.module_utils.findings import Findings

# Group, kind's plural, and how a list tells the node. Both have the node's name in spec.nodeName.
NODE_MAINTENANCES = (("maintenance.nvidia.com", "nodemaintenances"), ("nodemaintenance.medik8s.io", "nodemaintenances"))
# Alerts that say nothing about the cluster: one that always fires, to show that alerting works, and one that only inhibits others (kube-prometheus).
IGNORED_ALERTS = ("InfoInhibitor", "Watchdog")
SHOWN_ALERTS = 10
PROMETHEUS_KEYS = ("url", "match", "ignore", "pending", "query", "alertmanager", "bearer_token_file", "ca_path", "validate_certs")


class AnswerError(ValueError):
    """An answer of Prometheus or Alertmanager that does not say what was asked."""


def nodes(found: Findings, all_nodes: Sequence[Mapping[str, Any]], node: Optional[str], *, max_not_ready: int, max_unavailable: int) -> None:
    """Judge the other nodes: those that are not ready, and those whose turn was begun and not ended.

    The node itself does not count: to mend it is what the turn is for. Without a node all count, and no turn may be begun.
    """
    other, most, beside = ("other nodes", max_unavailable - 1, f"at most {max_unavailable - 1} beside this node's") if node else ("nodes", 0, "none")
    others = [each for each in all_nodes if each["metadata"]["name"] != node]
    silent = [each["metadata"]["name"] for each in others if not node_turn.is_ready(each)]
    if len(silent) > max_not_ready:
        found.error(
            "health.nodes_not_ready", f"{len(silent)} {other} are not ready: {', '.join(sorted(silent))}; wanted at most {max_not_ready}",
            "bring them back, or raise max_not_ready",
        )
    begun = []
    for each in others:
        try:
            mark = node_turn.mark_of(each)
        except node_turn.MarkError as error:
            found.error("health.mark", f"node {each['metadata']['name']}: {error}", "remove the annotation if nobody works on the node")
            continue
        if mark is not None:
            begun.append(f"{each['metadata']['name']} (by {mark.run} since {mark.since})")
    if len(begun) > most:
        found.error(
            "health.turn_not_ended", f"the turn of {', '.join(sorted(begun))} was begun and not ended; wanted {beside}",
            "run again for that node, which goes on with it",
        )


def maintenances(found: Findings, objects: Sequence[Mapping[str, Any]], node: str) -> None:
    """Judge the NodeMaintenance objects of other tools: one for this node keeps us from it."""
    for each in objects:
        spec = each.get("spec") or {}
        if spec.get("nodeName") == node:
            meta = each["metadata"]
            name = f"{meta['namespace']}/{meta['name']}" if meta.get("namespace") else meta["name"]
            by = spec.get("requestorID") or spec.get("reason") or "an unnamed tool"
            found.error(
                "health.node_maintenance", f"NodeMaintenance {name} ({by}) is for this node since {meta.get('creationTimestamp', 'unknown')}",
                "wait until it is gone, or remove it if its tool is",
            )


def blocking_pods(found: Findings, pods: Sequence[Mapping[str, Any]], selector: str) -> None:
    """Judge the pods of the node that match a selector of those that must not be disturbed; finished ones do not count."""
    names = sorted(pod.name for pod in map(node_pods.read, pods) if pod.stays != node_pods.STAYS_FINISHED)
    if names:
        found.error("health.blocking_pods", f"pods that match '{selector}' run on the node: {', '.join(names)}", "wait until they have ended")


def check_prometheus(setting: Any) -> List[str]:
    """What is wrong with ``locality_maintenance.prometheus``; a URL alone is a mapping with ``url``. No text shows a URL, which may carry a password."""
    if setting is None:
        return []
    if isinstance(setting, str):
        return [] if _is_url(setting) else ["found a text that is no URL, wanted null, a URL such as http://prometheus:9090, or a mapping"]
    if not isinstance(setting, Mapping):
        return [f"found {setting!r}, wanted null, a URL such as http://prometheus:9090, or a mapping"]
    given = dict(setting)
    wrong = [f"{key}: unknown key, known are {', '.join(PROMETHEUS_KEYS)}" for key in given if key not in PROMETHEUS_KEYS]
    if not _is_url(given.get("url")):
        wrong.append("url: wanted a URL such as http://prometheus:9090")
    if given.get("alertmanager") is not None and not _is_url(given["alertmanager"]):
        wrong.append("alertmanager: wanted null or a URL such as http://alertmanager:9093")
    for key in ("match", "ignore"):
        value = given.get(key)
        if value is not None and not (isinstance(value, (list, tuple)) and all(isinstance(each, str) for each in value)):
            wrong.append(f"{key}: found {value!r}, wanted a list of texts")
    matchers = given["match"] if isinstance(given.get("match"), (list, tuple)) else ()
    for each in matchers:
        if isinstance(each, str) and not re.fullmatch(r'\s*[A-Za-z_][A-Za-z0-9_]*\s*(=~|!~|!=|=)\s*"([^"\\]|\\.)*"\s*', each):
            wrong.append(f"match: found '{each}', wanted a label matcher such as severity=~\"critical|warning\"")
    for key in ("pending", "validate_certs"):
        if not isinstance(given.get(key, False), bool):
            wrong.append(f"{key}: found {given[key]!r}, wanted true or false")
    for key in ("query", "bearer_token_file", "ca_path"):
        if given.get(key) is not None and not (isinstance(given[key], str) and given[key].strip()):
            wrong.append(f"{key}: found {given[key]!r}, wanted a text")
    if given.get("query") and (given.get("match") or given.get("pending")):
        wrong.append("query: is given with match or pending, which are for the query that is made without it")
    return wrong


def _is_url(value: Any) -> bool:
    return isinstance(value, str) and re.fullmatch(r"https?://[^\s/]\S*", value) is not None


def alert_query(setting: Mapping[str, Any]) -> str:
    """The query for alerts that block, in PromQL: the operator's own, or ``ALERTS`` by state and matchers."""
    if setting.get("query"):
        return str(setting["query"])
    state = 'alertstate=~"firing|pending"' if setting.get("pending") else 'alertstate="firing"'
    return f"ALERTS{{{', '.join([state, *(setting.get('match') or [])])}}}"


def alerts(found: Findings, answer: Any, setting: Mapping[str, Any], suppressed: Optional[Sequence[Mapping[str, str]]]) -> None:
    """Judge the answer of Prometheus to :func:`alert_query`: any series in it blocks, unless its alert is ignored or silenced.

    :param suppressed: labels of the alerts that Alertmanager has silenced or inhibited. They have the labels of Prometheus and may have more
        (``external_labels``). None if Alertmanager was not asked.
    :raises AnswerError: the answer is none of ``/api/v1/query``.
    """
    names = []
    ignored = IGNORED_ALERTS if setting.get("ignore") is None else setting["ignore"]
    for labels in series(answer):
        plain = {name: value for name, value in labels.items() if name not in ("__name__", "alertstate")}
        if labels.get("alertname") in ignored:
            continue
        if any(plain.items() <= dict(each).items() for each in suppressed or ()):
            continue
        rest = ", ".join(f'{name}="{value}"' for name, value in sorted(plain.items()) if name != "alertname")
        names.append(f"{labels.get('alertname', 'a series')}{{{rest}}}" + (" (pending)" if labels.get("alertstate") == "pending" else ""))
    if names:
        more = f" and {len(names) - SHOWN_ALERTS} more" if len(names) > SHOWN_ALERTS else ""
        found.error(
            "health.alerts", f"Prometheus answers with {len(names)} alerts: {', '.join(sorted(names)[:SHOWN_ALERTS])}{more}",
            "mend what they tell, or leave them out by match, ignore or a silence",
        )


def series(answer: Any) -> List[Dict[str, str]]:
    """Labels of the series in an answer of ``/api/v1/query``.

    A scalar always has a value, so that a query which gives one would block for ever or never: it is refused.

    :raises AnswerError: it is no such answer, or not of a vector.
    """
    data = answer.get("data") if isinstance(answer, Mapping) else None
    if not isinstance(answer, Mapping) or answer.get("status") != "success" or not isinstance(data, Mapping):
        told = answer.get("error") if isinstance(answer, Mapping) else None
        raise AnswerError(told or "it is no answer of Prometheus to a query")
    if data.get("resultType") != "vector" or not isinstance(data.get("result"), list):
        raise AnswerError(f"the query gives a {data.get('resultType')}, wanted a vector with a series for each thing that blocks")
    return [dict(each.get("metric") or {}) for each in data["result"]]


def suppressed_labels(answer: Any) -> List[Dict[str, str]]:
    """Labels of the alerts in an answer of Alertmanager's ``/api/v2/alerts`` that are silenced or inhibited.

    :raises AnswerError: it is no such answer.
    """
    if not isinstance(answer, list) or not all(isinstance(each, Mapping) and isinstance(each.get("status"), Mapping) for each in answer):
        raise AnswerError("it is no answer of Alertmanager with alerts")
    return [dict(each.get("labels") or {}) for each in answer if each["status"].get("state") == "suppressed"]


__all__ = (
    "IGNORED_ALERTS", "NODE_MAINTENANCES", "PROMETHEUS_KEYS", "AnswerError", "alert_query", "alerts", "blocking_pods", "check_prometheus", "maintenances",
    "nodes", "series", "suppressed_labels",
)
