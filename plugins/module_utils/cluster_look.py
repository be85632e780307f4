# Copyright (c) 2026 The inferops.locality authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Asks the API server, Prometheus and Alertmanager what :mod:`cluster_health` judges."""

from __future__ import annotations

import json
from typing import Any, Dict, List, Mapping, Optional, Sequence
from urllib.error import HTTPError
from urllib.parse import urlencode, urlsplit

from ansible.module_utils.urls import open_url

from ansible_collections.inferops.locality.plugins.module_utils import cluster_health, kube_client
from ansible_collections.inferops.locality.plugins.module_utils.findings import Findings
from ansible_collections.inferops.locality.plugins.module_utils.kube_client import Api, ApiError
from ansible_collections.inferops.locality.plugins.module_utils.sysroot import SysRoot

_HINT = "the gate stays closed while this cannot be told; mend it, or take prometheus out of locality_maintenance"


def nodes_and_pods(found: Findings, api: Api, node: Optional[str], *, max_not_ready: int, max_unavailable: int, selectors: Sequence[str]) -> None:
    """What the API server knows. :param node: None if no node is to be taken out. :raises ApiError: refused or not reached."""
    if node is not None:
        # A name that is none is found here, and not when the node is to be cordoned.
        kube_client.get_node(api, node)
    cluster_health.nodes(found, api.items("/api/v1/nodes"), node, max_not_ready=max_not_ready, max_unavailable=max_unavailable)
    if node is None:
        return
    cluster_health.maintenances(found, _maintenances(api), node)
    for selector in selectors:
        cluster_health.blocking_pods(found, kube_client.pods_of(api, node, selector), selector)


def _maintenances(api: Api) -> List[Dict[str, Any]]:
    """NodeMaintenance objects of all tools that are installed."""
    objects: List[Dict[str, Any]] = []
    installed = {group["name"]: group["preferredVersion"]["groupVersion"] for group in api.get("/apis").get("groups") or []}
    for group, plural in cluster_health.NODE_MAINTENANCES:
        if group not in installed:
            continue
        try:
            objects += api.items(f"/apis/{installed[group]}/{plural}")
        except ApiError as error:
            # The group is there and has no such kind.
            if error.status != 404:
                raise
    return objects


def passwords(setting: Any) -> List[str]:
    """Passwords in the URLs of a setting, which no result may show."""
    given: Mapping[str, Any] = {"url": setting} if isinstance(setting, str) else setting or {}
    urls = (urlsplit(str(given.get(key) or "")) for key in ("url", "alertmanager"))
    return [url.password for url in urls if url.password]


def alerts(found: Findings, setting: Any, timeout: int) -> None:
    """What Prometheus knows; that it cannot be told is a finding too. :param setting: as :func:`cluster_health.check_prometheus` takes it."""
    given: Dict[str, Any] = {"url": setting} if isinstance(setting, str) else dict(setting)
    try:
        answer = _fetch("Prometheus", given["url"], "/api/v1/query", {"query": cluster_health.alert_query(given)}, given, timeout)
        suppressed = None
        if given.get("alertmanager"):
            asked = {"active": "false", "silenced": "true", "inhibited": "true", "unprocessed": "false"}
            silent = _fetch("Alertmanager", given["alertmanager"], "/api/v2/alerts", asked, given, timeout)
            suppressed = cluster_health.suppressed_labels(silent)
        cluster_health.alerts(found, answer, given, suppressed)
    except cluster_health.AnswerError as error:
        found.error("health.alerts_unknown", f"whether alerts fire is not known: {error}", _HINT)


def _fetch(what: str, url: str, path: str, query: Mapping[str, str], setting: Mapping[str, Any], timeout: int) -> Any:
    """The JSON of an answer. :raises AnswerError: there is none, or it is no JSON; the text has no password."""
    split = urlsplit(url)
    shown = f"{what} at {split.scheme}://{split.hostname}{f':{split.port}' if split.port else ''}"
    headers = {"Accept": "application/json"}
    token: Optional[str] = setting.get("bearer_token_file")
    if token:
        text = SysRoot("/").text(token)
        if text is None:
            raise cluster_health.AnswerError(f"{shown}: bearer_token_file {token} cannot be read")
        headers["Authorization"] = f"Bearer {text.strip()}"
    try:
        answer = open_url(
            f"{url.rstrip('/')}{path}?{urlencode(query)}", headers=headers, timeout=timeout, validate_certs=setting.get("validate_certs", True),
            ca_path=setting.get("ca_path"), force_basic_auth="@" in split.netloc,
        )
        body = answer.read()
    except HTTPError as error:
        # A query that is not understood is answered with 400 and a reason.
        body = error.read()
        try:
            reason = json.loads(body)["error"]
        except (ValueError, KeyError, TypeError):
            reason = error.reason
        raise cluster_health.AnswerError(f"{shown}: HTTP {error.code}: {reason}") from error
    except Exception as error:
        # open_url raises what urllib, http.client and ssl raise, and errors of its own.
        raise cluster_health.AnswerError(f"{shown} does not answer: {str(error).replace(url, shown)}") from error
    try:
        return json.loads(body)
    except ValueError as error:
        raise cluster_health.AnswerError(f"{shown}: the answer is no JSON") from error


__all__ = ("alerts", "nodes_and_pods", "passwords")
