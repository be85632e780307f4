# Copyright (c) 2026 The inferops.locality authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Asks the Cilium agent of a node for its status, by RKE2's crictl: nobody needs a right to run commands in pods for it."""

from __future__ import annotations

import json
from typing import Any, Dict, List, Mapping, Optional

from ansible_collections.inferops.locality.plugins.module_utils import cilium_status
from ansible_collections.inferops.locality.plugins.module_utils.probe import PROBE_DIR, Answer, Probe


class AgentError(Exception):
    """The agent was not found or did not answer; the message says what was tried."""


def ask(probe: Probe, live: bool) -> Dict[str, Any]:
    """Find the agent that runs and ask it.

    :param live: on the node itself; else below another root, where answers are recorded.
    :returns: ``{pod, pod_uid, container, format: json|text, status}``, ``status`` as :func:`cilium_status.empty` has it.
    :raises AgentError: nothing that runs is an agent, or it gave no status.
    """
    container = _agent(probe, live)
    asked: List[str] = []
    for name, kind in (("cilium-status-json", "json"), ("cilium-status-text", "text")):
        answer = probe.ask(name, container=container["id"])
        if answer is not None and answer.rc == 0:
            status = cilium_status.parse(answer.out)
            # A version that does not know the option prints what it has.
            if cilium_status.running(status):
                labels = container["labels"]
                return {
                    "pod": labels.get("io.kubernetes.pod.name"), "pod_uid": labels.get("io.kubernetes.pod.uid"), "container": container["id"],
                    "format": kind, "status": status,
                }
            asked.append(f"{name}: {'; '.join(problem['reason'] for problem in status['problems'])}")
        else:
            asked.append(_said(name, answer, live))
    raise AgentError(f"the Cilium agent in the container {container['id'][:13]} gave no status: {'; '.join(asked)}")


def _agent(probe: Probe, live: bool) -> Mapping[str, Any]:
    answer = probe.ask("cilium-agents")
    if answer is None or answer.rc != 0:
        raise AgentError(f"the containers of this node could not be listed: {_said('cilium-agents', answer, live)}")
    try:
        found = [
            {"id": str(item["id"]), "created": int(item.get("createdAt") or 0), "labels": dict(item.get("labels") or {})}
            for item in json.loads(answer.out).get("containers") or [] if item.get("state") == "CONTAINER_RUNNING"
        ]
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise AgentError(f"crictl ps answered with what is no list of containers: {type(error).__name__}") from error
    if not found:
        raise AgentError("no container cilium-agent of a pod in kube-system runs on this node: is Cilium its CNI, and does RKE2 run?")
    # One that ends and one that has begun can both be there while a pod is replaced.
    return max(found, key=lambda item: item["created"])


def _said(name: str, answer: Optional[Answer], live: bool) -> str:
    if answer is None:
        return (
            f"{name}: crictl was not found or did not answer in time, looked for in bin of RKE2's data-dir" if live
            else f"{name}: no answer is recorded below {PROBE_DIR}"
        )
    words = " ".join((answer.err or answer.out).split())
    return f"{name}: rc {answer.rc}: {words[-300:]}"


__all__ = ("AgentError", "ask")
