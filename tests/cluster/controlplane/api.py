# Copyright (c) 2026 The inferops.locality authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A client of the API server as small as the tests and the stand-ins need it: JSON over HTTPS, and watches."""

from __future__ import annotations

import http.client
import json
import ssl
from pathlib import Path
from typing import Any, Dict, Iterator, Mapping, Optional, Tuple
from urllib.parse import quote, urlencode, urlsplit

from controlplane.binaries import ClusterError

Object = Dict[str, Any]
MERGE_PATCH = "application/merge-patch+json"


class ApiError(ClusterError):
    """The API server refused a request.

    :ivar code: HTTP status. :ivar status: the Status object, empty if the answer was none.
    """

    def __init__(self, code: int, what: str, text: str) -> None:
        self.code = code
        try:
            self.status: Object = json.loads(text)
        except ValueError:
            self.status = {}
        super().__init__(f"{what}: {code} {self.status.get('message') or text.strip()}")


class Api:
    """Calls one API server as one user. Every request has a connection of its own, so threads may share an object."""

    def __init__(self, server: str, authority: Path, certificate: Optional[Tuple[Path, Path]] = None, token: Optional[str] = None) -> None:
        self.server = server
        address = urlsplit(server)
        self._host, self._port = str(address.hostname), address.port
        self._tls = ssl.create_default_context(cafile=str(authority))
        if certificate:
            self._tls.load_cert_chain(*certificate)
        self._headers = {"Authorization": f"Bearer {token}"} if token else {}

    @classmethod
    def of(cls, kubeconfig: Path) -> Api:
        """A client as the user of a kubeconfig that :class:`controlplane.plane.ControlPlane` wrote."""
        text = json.loads(kubeconfig.read_text(encoding="utf-8"))
        cluster, user = text["clusters"][0]["cluster"], text["users"][0]["user"]
        pair = (Path(user["client-certificate"]), Path(user["client-key"])) if "client-certificate" in user else None
        return cls(cluster["server"], Path(cluster["certificate-authority"]), pair, user.get("token"))

    def _send(
        self, method: str, path: str, body: Optional[Object], content: str, query: Mapping[str, Any], timeout: float
    ) -> Tuple[http.client.HTTPSConnection, http.client.HTTPResponse]:
        connection = http.client.HTTPSConnection(self._host, self._port, context=self._tls, timeout=timeout)
        url = quote(path) + (f"?{urlencode(query)}" if query else "")
        data = None if body is None else json.dumps(body)
        connection.request(method, url, data, {**self._headers, "Accept": "application/json", **({"Content-Type": content} if body is not None else {})})
        answer = connection.getresponse()
        if answer.status >= 300:
            text = answer.read().decode(errors="replace")
            connection.close()
            raise ApiError(answer.status, f"{method} {path}", text)
        return connection, answer

    def request(self, method: str, path: str, body: Optional[Object] = None, content: str = "application/json", timeout: float = 30, **query: Any) -> Object:
        """One request; returns the object that was answered, ``{"text": …}`` if it was no JSON.

        :raises ApiError: the server refused it. :raises OSError: the server was not reached within ``timeout`` seconds.
        """
        connection, answer = self._send(method, path, body, content, query, timeout)
        try:
            text = answer.read().decode()
        finally:
            connection.close()
        try:
            return dict(json.loads(text))
        except ValueError:
            return {"text": text}

    def get(self, path: str, **query: Any) -> Object:
        return self.request("GET", path, **query)

    def post(self, path: str, body: Object, **query: Any) -> Object:
        return self.request("POST", path, body, **query)

    def patch(self, path: str, body: Object, **query: Any) -> Object:
        """A merge patch: lists are replaced as a whole, null removes."""
        return self.request("PATCH", path, body, MERGE_PATCH, **query)

    def delete(self, path: str, body: Optional[Object] = None, **query: Any) -> Object:
        return self.request("DELETE", path, body, **query)

    def watch(self, path: str, version: str, seconds: int = 300, **query: Any) -> Iterator[Tuple[str, Object]]:
        """Events after a resource version: their kind (ADDED, MODIFIED, DELETED, BOOKMARK) and the object, for at most so many seconds.

        :raises ApiError: that version is too old (410), or the server refused it.
        """
        query = {**query, "watch": "true", "resourceVersion": version, "timeoutSeconds": seconds, "allowWatchBookmarks": "true"}
        connection, answer = self._send("GET", path, None, "", query, timeout=seconds + 30)
        try:
            for line in answer:
                event = json.loads(line)
                if event["type"] == "ERROR":
                    raise ApiError(int(event["object"].get("code", 0)), f"watch {path}", json.dumps(event["object"]))
                yield event["type"], event["object"]
        finally:
            connection.close()
