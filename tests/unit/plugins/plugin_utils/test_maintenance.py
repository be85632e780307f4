# Copyright (c) 2026 The inferops.locality authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Checks of locality_maintenance besides its windows."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.inferops.locality.plugins.plugin_utils import maintenance


@pytest.mark.parametrize(
    ("value", "parts"),
    [
        (None, []),
        ({}, []),
        ({"expected_minutes": 60}, []),
        ({"windows": [], "blackouts": [], "prometheus": None, "max_not_ready": 0}, []),
        ("sat", ["locality_maintenance: found 'sat', wanted a mapping"]),
        ({"window": []}, ["locality_maintenance.window: unknown key"]),
        ({"prometheus": "https://prometheus.example.net:9090/x"}, []),
        ({"prometheus": {"url": "http://prometheus:9090", "match": ['severity=~"critical|warning"', 'a != "b"'], "alertmanager": "http://am:9093"}}, []),
        ({"prometheus": {"url": "https://u:secret@p:9090", "query": "up == 0", "ignore": [], "validate_certs": False, "bearer_token_file": "/t"}}, []),
        ({"prometheus": {"uri": "http://p"}}, ["prometheus: uri: unknown key, known are url, match", "prometheus: url: wanted a URL"]),
        ({"prometheus": {"url": "http://p", "match": ["severity=critical"]}}, ["prometheus: match: found 'severity=critical', wanted a label matcher"]),
        ({"prometheus": {"url": "http://p", "match": "x", "pending": "no", "query": ""}}, ["match: found 'x'", "pending: found 'no'", "query: found ''"]),
        ({"prometheus": {"url": "http://p", "query": "up", "pending": True}}, ["prometheus: query: is given with match or pending"]),
        ({"prometheus": {"url": "http://p", "alertmanager": "am"}}, ["prometheus: alertmanager: wanted null or a URL"]),
        ({"blocking_pods": ["app=training"], "drain": {"emptydir_data": "delete", "unmanaged_pods": "keep", "delete_after": 600, "grace_period": 30}}, []),
        ({"blocking_pods": "app=training"}, ["locality_maintenance.blocking_pods: found 'app=training', wanted a list"]),
        ({"drain": ["x"]}, ["locality_maintenance.drain: found ['x'], wanted a mapping"]),
        ({"drain": {"emptydir_data": True, "force": True}}, ["drain.force: unknown key", "drain.emptydir_data: found True, wanted keep or delete"]),
        ({"drain": {"delete_after": 900, "grace_period": -1}},
         ["drain.delete_after: found 900, wanted less than drain_timeout 900", "drain.grace_period: found -1"]),
        ({"prometheus": True}, ["locality_maintenance.prometheus: found True, wanted null, a URL"]),
        ({"prometheus": "prometheus"}, ["locality_maintenance.prometheus: found a text that is no URL, wanted"]),
        ({"prometheus": ["http://x"]}, ["locality_maintenance.prometheus: found ['http://x'], wanted"]),
        ({"windows": "sat"}, ["locality_maintenance.windows: found 'sat', wanted a list"]),
        ({"expected_minutes": 0}, ["locality_maintenance.expected_minutes: found 0, wanted a whole number of at least 1"]),
        ({"expected_minutes": True}, ["locality_maintenance.expected_minutes: found True"]),
        # 900 s + 2400 s + 5 minutes = 60 minutes
        ({"expected_minutes": 59}, ["locality_maintenance.expected_minutes: found 59, wanted at least 60"]),
        ({"expected_minutes": 60, "drain_timeout": 901}, ["wanted at least 61"]),
        ({"reboot_timeout": 7200}, ["locality_maintenance.expected_minutes: found 60, wanted at least 140"]),
        ({"expected_minutes": 10081}, ["locality_maintenance.expected_minutes: found 10081, wanted at most 10080"]),
        ({"drain_timeout": "15m", "max_unavailable": 0}, ["drain_timeout: found '15m'", "max_unavailable: found 0"]),
    ],
)
def test_each_mistake_is_named(value: Any, parts: list[str]) -> None:
    found = maintenance.check(value)
    assert len(found) == len(parts)
    for part, finding in zip(parts, found):
        assert part in finding["message"]
        assert finding["severity"] == "error"


def test_an_unknown_key_names_the_nearest() -> None:
    assert maintenance.check({"window": []})[0]["hint"] == "the nearest known key is locality_maintenance.windows"


def test_what_the_gate_found_is_added() -> None:
    found = maintenance.check({}, ["windows[0].timezone: 'x' is not known", "expected_minutes: is missing"])
    assert [item["message"] for item in found] == ["locality_maintenance.windows[0].timezone: 'x' is not known"]
