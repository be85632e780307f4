# Copyright (c) 2026 The inferops.locality authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a kubelet says it runs with: its endpoint ``/configz``, the configuration after files and flags.

The kubelet asks the API server who may read it (``--authorization-mode=Webhook``): the right is ``get`` on ``nodes/configz``, since Kubernetes 1.33
(KubeletFineGrainedAuthz, pkg/kubelet/server/auth.go); before it was ``nodes/proxy``, with which one can run commands in every pod.
"""

from __future__ import annotations

import http.client
import json
import ssl
import time
from typing import Any, Dict, List, Mapping, Tuple

from ansible_collections.inferops.locality.plugins.module_utils import kubelet_args

PORT = 10250
# Answers of a kubelet that has just started, or whose API server has not answered it yet.
_PASSING = (401, 500, 502, 503, 504)
_FLAG_OF = {knob: flag for flag, knob in kubelet_args.FLAGS.items()}


class ConfigzError(Exception):
    """The kubelet was not reached or does not tell; the message says why. :ivar status: the HTTP status, 0 without an answer."""

    def __init__(self, message: str, status: int = 0) -> None:
        super().__init__(message)
        self.status = status


def running(config: Mapping[str, Any]) -> Dict[str, Any]:
    """Knobs of ``kubeletconfig``, in the form that :func:`kubelet_args.values` gives them; one that is not set is None.

    With ``reservedSystemCPUs`` the CPUs of the two reservations say nothing: the kubelet drops those of kubeReserved and counts the list in systemReserved,
    whatever was given (cmd/kubelet/app/server.go).
    """
    if config.get("reservedSystemCPUs"):
        kept = {field: {name: value for name, value in (config.get(field) or {}).items() if name != "cpu"} for field in ("systemReserved", "kubeReserved")}
        config = {**config, **kept}
    return kubelet_args.values(_flags(config))


def _flags(config: Mapping[str, Any]) -> List[Tuple[str, str]]:
    """The flags that say what the fields of a KubeletConfiguration v1beta1 do."""
    found: List[Tuple[str, str]] = []
    for field, knob in kubelet_args.FIELDS.items():
        flag, value = _FLAG_OF[knob], config.get(field)
        if field == "reservedMemory":
            found += [(flag, f"{node['numaNode']}:{kind}={amount}") for node in value or [] for kind, amount in sorted(node["limits"].items())]
        elif isinstance(value, Mapping):
            separator = "<" if field == "evictionHard" else "="
            found += [(flag, f"{name}{separator}{amount}") for name, amount in sorted(value.items())]
        elif value:
            found.append((flag, str(value)))
    return found


def read(token: str, port: int = PORT, timeout: float = 30, host: str = "127.0.0.1") -> Dict[str, Any]:
    """``kubeletconfig`` of the kubelet of this machine.

    Its certificate is not looked at: the connection does not leave the machine, and the token opens nothing else.

    :param token: of an account with the right ``get`` on ``nodes/configz``.
    :param timeout: seconds to wait for a kubelet that is starting.
    :raises ConfigzError: it refused, or did not answer in time.
    """
    deadline = time.monotonic() + timeout
    while True:
        try:
            return _ask(token, port, host)
        except ConfigzError as error:
            if error.status not in (0, *_PASSING) or time.monotonic() + 2 > deadline:
                raise
        time.sleep(2)


def _ask(token: str, port: int, host: str) -> Dict[str, Any]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    where = f"https://{host}:{port}/configz"
    connection = http.client.HTTPSConnection(host, port, timeout=10, context=context)
    try:
        connection.request("GET", "/configz", headers={"Authorization": f"Bearer {token}", "Accept": "application/json"})
        answer = connection.getresponse()
        status, body = answer.status, answer.read(2**22)
    except (OSError, http.client.HTTPException) as error:
        raise ConfigzError(f"the kubelet was not reached at {where}: {error}") from error
    finally:
        connection.close()
    if status != 200:
        text = body[:200].decode("utf-8", "replace").strip()
        hint = ": it needs the right nodes/configz of docs/rbac-configz.yaml, and Kubernetes 1.33 or newer" if status == 403 else ""
        raise ConfigzError(f"the kubelet refused {where}: HTTP {status} {text}{hint}", status)
    try:
        found = json.loads(body)["kubeletconfig"]
    except (ValueError, KeyError, TypeError) as error:
        raise ConfigzError(f"{where}: found {body[:100]!r}, wanted an object with kubeletconfig", status) from error
    if not isinstance(found, dict):
        raise ConfigzError(f"{where}: kubeletconfig is no object", status)
    return found


__all__ = ("PORT", "ConfigzError", "read", "running")
