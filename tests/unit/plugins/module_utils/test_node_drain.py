# Copyright (c) 2026 The inferops.locality authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the API server's answers to an eviction mean. The drain itself is proved on a real API server (tests/cluster)."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.inferops.locality.plugins.module_utils import node_drain
from ansible_collections.inferops.locality.plugins.module_utils.kube_client import ApiError

BUDGET = {"reason": "DisruptionBudget", "message": "The disruption budget llama needs 2 healthy pods and has 2 currently"}


def refused(status: int, *causes: dict[str, str], after: Any = None) -> ApiError:
    return ApiError("POST /x", status, "as the server says", {"causes": list(causes)}, after)


@pytest.mark.parametrize(
    ("error", "answer"),
    [
        (refused(404), node_drain.Answer("gone")),
        # The precondition names another pod: a StatefulSet has made its like.
        (refused(409), node_drain.Answer("gone")),
        (refused(429, BUDGET), node_drain.Answer("held", (BUDGET["message"],), node_drain.RETRY_SECONDS)),
        (refused(429, BUDGET, BUDGET, after=10), node_drain.Answer("held", (BUDGET["message"], BUDGET["message"]), 10)),
        # Of the server's own priority and fairness: no budget is named.
        (refused(429, after=1), node_drain.Answer("held", ("as the server says",), 1)),
        (refused(403, {"reason": "NamespaceTerminating", "message": "x"}), node_drain.Answer("held", ("its namespace is being deleted",))),
    ],
)
def test_a_refusal_that_passes_is_waited_for(error: ApiError, answer: node_drain.Answer) -> None:
    assert node_drain.judge(error) == answer


@pytest.mark.parametrize("status", [403, 500, 503, 0])
def test_other_refusals_are_raised_as_they_are(status: int) -> None:
    with pytest.raises(ApiError, match="as the server says"):
        node_drain.judge(refused(status))
