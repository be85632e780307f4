# Copyright (c) 2026 The inferops.locality authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Speaks to the API server from the control host, with the kubeconfig, the TLS and the credentials of the Python client ``kubernetes``.

Objects go through as the API has them, in dictionaries. The client's own calls are not used: they keep the ``Date`` of an answer from us, by which Leases are
judged, some of their versions try a refused request again by themselves, which must not happen to an eviction, and their arguments for an answer without
objects change from one version to the next.
"""

from __future__ import annotations

import datetime as dt
import json
import random
import time
import traceback
from email.utils import parsedate_to_datetime
from typing import Any, Callable, Dict, List, Mapping, Optional
from urllib.parse import quote, urlencode

from ansible.module_utils.basic import AnsibleModule, missing_required_lib

IMPORT_ERROR: Optional[str] = None
try:
    import urllib3
    from kubernetes import config
except ImportError:
    IMPORT_ERROR = traceback.format_exc()

ARGUMENTS: Dict[str, Dict[str, Any]] = {
    "kubeconfig": {"type": "path"},
    "context": {"type": "str"},
    "request_timeout": {"type": "int", "default": 30},
}
# The API server was not reached.
UNREACHED = 0
# Answers of an API server that restarts, or is behind a balancer that does: what waits goes on waiting.
PASSING = (UNREACHED, 502, 503, 504)
_MERGE = "application/merge-patch+json"
_PAGE = 500


class ApiError(Exception):
    """The API server refused a request or was not reached.

    :ivar status: the HTTP status, 0 if there was no answer. :ivar details: of the answer's ``Status``. :ivar retry_after: seconds, if the answer has them.
    """

    def __init__(self, what: str, status: int, message: str, details: Mapping[str, Any], retry_after: Optional[int] = None) -> None:
        # An answer that was given and says the wrong thing, such as another machine's Node, is no matter of HTTP.
        super().__init__(f"{what}: {message}" if status < 300 else f"{what}: HTTP {status}: {message}")
        self.status = status
        self.message = message
        self.details = details
        self.retry_after = retry_after

    @property
    def causes(self) -> List[Mapping[str, Any]]:
        """What the API server says beyond the message, such as the budget that an eviction would violate."""
        return list(self.details.get("causes") or [])


class Api:
    """The API server that a kubeconfig names.

    :ivar now: the API server's time of its last answer.
    """

    def __init__(self, kubeconfig: Optional[str], context: Optional[str] = None, request_timeout: float = 30) -> None:
        """:raises ApiError: the kubeconfig cannot be used."""
        self._timeout = request_timeout
        self.now: Optional[dt.datetime] = None
        try:
            self._client = config.new_client_from_config(config_file=kubeconfig, context=context, persist_config=False)
        except Exception as error:
            # ConfigException, and whatever reading YAML, keys and the answers of credential programs raises.
            raise ApiError(f"kubeconfig {kubeconfig or 'of the user or KUBECONFIG'}", UNREACHED, f"{error}", {}) from error

    def get(self, path: str, query: Optional[Mapping[str, Any]] = None) -> Dict[str, Any]:
        """:raises ApiError: refused or not reached."""
        return self._request("GET", path, query=query)

    def items(self, path: str, query: Optional[Mapping[str, Any]] = None) -> List[Dict[str, Any]]:
        """All objects of a list, page by page; :raises ApiError: refused or not reached."""
        found: List[Dict[str, Any]] = []
        asked = {**(query or {}), "limit": _PAGE}
        while True:
            page = self.get(path, asked)
            found += page.get("items") or []
            more = (page.get("metadata") or {}).get("continue")
            if not more:
                return found
            asked["continue"] = more

    def create(self, path: str, body: Mapping[str, Any], *, dry_run: bool = False) -> Dict[str, Any]:
        """:raises ApiError: refused or not reached."""
        return self._request("POST", path, body, query={"dryRun": "All"} if dry_run else None)

    def replace(self, path: str, body: Mapping[str, Any], *, dry_run: bool = False) -> Dict[str, Any]:
        """:raises ApiError: refused or not reached; status 409 if the object has changed since it was read."""
        return self._request("PUT", path, body, query={"dryRun": "All"} if dry_run else None)

    def patch(self, path: str, body: Mapping[str, Any], *, dry_run: bool = False) -> Dict[str, Any]:
        """A merge patch; :raises ApiError: refused or not reached; status 409 if the object has changed since the patch's ``resourceVersion``."""
        return self._request("PATCH", path, body, query={"dryRun": "All"} if dry_run else None, content_type=_MERGE)

    def delete(self, path: str, body: Mapping[str, Any]) -> Dict[str, Any]:
        """:raises ApiError: refused or not reached."""
        return self._request("DELETE", path, body)

    def server_time(self) -> dt.datetime:
        """The API server's time of its last answer; :raises ApiError: it had none."""
        if self.now is None:
            raise ApiError("the API server", UNREACHED, "its answer has no Date header, by which Leases are judged", {})
        return self.now

    def _request(
        self, method: str, path: str, body: Optional[Mapping[str, Any]] = None, *, query: Optional[Mapping[str, Any]] = None,
        content_type: str = "application/json",
    ) -> Dict[str, Any]:
        what = f"{method} {path}"
        settings = self._client.configuration
        headers = {"Accept": "application/json", "Content-Type": content_type}
        # Asked for each time: a token may have to be renewed.
        headers.update({each["key"]: each["value"] for each in settings.auth_settings().values() if each["in"] == "header" and each["value"]})
        try:
            answer = self._client.rest_client.pool_manager.request(
                method, f"{settings.host}{path}{'?' + urlencode(query) if query else ''}", headers=headers, timeout=self._timeout,
                body=None if body is None else json.dumps(body).encode(), retries=urllib3.Retry(2, status=0, respect_retry_after_header=False)
                if method == "GET" else False,
            )
        except urllib3.exceptions.HTTPError as error:
            raise ApiError(what, UNREACHED, f"{settings.host} was not reached: {error}", {}) from error
        self.now = parsedate_to_datetime(answer.headers["Date"]) if answer.headers.get("Date") else None
        try:
            data = json.loads(answer.data)
        except ValueError:
            data = None
        if not isinstance(data, dict):
            data = {"message": f"found {answer.data[:200]!r}, wanted an object of the API"}
            if answer.status < 300:
                raise ApiError(what, answer.status, data["message"], {})
        if answer.status >= 300:
            after = answer.headers.get("Retry-After") or ""
            raise ApiError(what, answer.status, data.get("message") or answer.reason or "no message", data.get("details") or {},
                           int(after) if after.isdecimal() else None)
        return data


def node_path(name: str) -> str:
    """Path of a Node."""
    return f"/api/v1/nodes/{quote(name, safe='')}"


def pods_of(api: Api, node: str, selector: str = "") -> List[Dict[str, Any]]:
    """The pods that are bound to a node, all or those of a label selector; :raises ApiError: refused or not reached."""
    return api.items("/api/v1/pods", {"fieldSelector": f"spec.nodeName={node}", **({"labelSelector": selector} if selector else {})})


def get_node(api: Api, name: str) -> Dict[str, Any]:
    """A Node; :raises ApiError: refused or not reached; for one that does not exist the message says which name was asked for."""
    try:
        return api.get(node_path(name))
    except ApiError as error:
        if error.status == 404:
            raise ApiError(f"node {name}", error.status, "the cluster has no such node; wanted the name of a Node (set locality_node_name)", {}) from error
        raise


def account_token(api: Api, namespace: str, account: str, seconds: int) -> str:
    """A token of a service account, made for this call; :raises ApiError: refused or not reached."""
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": seconds}}
    path = f"/api/v1/namespaces/{quote(namespace, safe='')}/serviceaccounts/{quote(account, safe='')}/token"
    return str(api.create(path, body)["status"]["token"])


def connect(module: AnsibleModule) -> Api:
    """The API server that a module's arguments name; ends the module if it cannot be spoken to at all."""
    if IMPORT_ERROR is not None:
        module.fail_json(msg=missing_required_lib("kubernetes"), exception=IMPORT_ERROR)
    try:
        return Api(module.params["kubeconfig"], module.params["context"], module.params["request_timeout"])
    except ApiError as error:
        # Nobody was asked, and nothing is gained by trying again: there is no status.
        module.fail_json(msg=str(error))
        raise


def fail(module: AnsibleModule, error: ApiError, page: str = "rbac.yaml", **result: Any) -> None:
    """End a module because of an answer of the API server; a missing right is named as such. ``page``: the file of docs that has it."""
    hint = f". Its docs/{page} has the rights that this collection needs" if error.status == 403 else ""
    module.fail_json(msg=f"{error}{hint}", status=error.status, **result)


def retry_conflict(attempt: Callable[[], Any], tries: int = 20) -> Any:
    """What ``attempt`` returns, which reads, judges and writes; again, a moment later, if somebody wrote in between. A Node is written to often.

    :raises ApiError: of the last attempt.
    """
    for number in range(1, tries):
        try:
            return attempt()
        except ApiError as error:
            if error.status != 409:
                raise
        time.sleep(random.uniform(0, min(0.02 * number, 0.2)))
    return attempt()


__all__ = ("ARGUMENTS", "IMPORT_ERROR", "PASSING", "UNREACHED", "Api", "ApiError", "connect", "fail", "get_node", "node_path", "pods_of", "retry_conflict")
