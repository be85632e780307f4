# Copyright (c) 2026 The inferops.locality authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Lets other processes steer a cluster and its stand-ins: a playbook that reboots its node, a person at a shell.

A UNIX socket in the cluster's folder takes one line of JSON, such as ``{"node": "a", "do": "reboot", "seconds": 3}``, and answers one with the node's state,
or with ``error``. The process that holds the cluster may add requests of its own, which name no stand-in.
"""

from __future__ import annotations

import json
import socket
import socketserver
import threading
from pathlib import Path
from typing import Any, Callable, Dict, Mapping, MutableMapping

from vlab.process import LabError

from controlplane.binaries import ClusterError
from controlplane.standin import StandIn, StandIns

# What the cluster itself can be told: the request to the answer.
Requests = MutableMapping[str, Callable[[Mapping[str, Any]], Dict[str, Any]]]

# What a node can be told, and the keys of the request that it takes.
ACTIONS: Mapping[str, Callable[[StandIn, Mapping[str, Any]], object]] = {
    "status": lambda node, request: None,
    "ready": lambda node, request: node.ready(),
    "not-ready": lambda node, request: node.not_ready(),
    "stop": lambda node, request: node.stop(),
    "reboot": lambda node, request: node.reboot(float(request.get("seconds", 3))),
    "ending": lambda node, request: setattr(node, "ending", None if request["seconds"] is None else float(request["seconds"])),
    "devices-after": lambda node, request: setattr(node, "devices_after", None if request["seconds"] is None else float(request["seconds"])),
    "keep": lambda node, request: node.keep(request["namespace"], request["pod"], float(request["seconds"])),
    "static-pod": lambda node, request: node.static_pod(request["namespace"], request["pod"], request.get("spec")),
}


def answer(nodes: StandIns, requests: Requests, line: str) -> Dict[str, Any]:
    """Does what one line asks for."""
    try:
        request = json.loads(line)
        if request["do"] in requests:
            return requests[request["do"]](request)
        name, action = request["node"], request["do"]
        if name not in nodes:
            return {"error": f"no node {name}; there are {', '.join(nodes.names()) or 'none'}"}
        if action not in ACTIONS:
            return {"error": f"a node cannot be told {action!r}; it can be told {', '.join(ACTIONS)}"}
        node = nodes[name]
        ACTIONS[action](node, request)
    except LabError as error:
        return {"error": str(error)}
    except (ValueError, TypeError, KeyError) as error:
        return {"error": f"{line.strip()}: {type(error).__name__} {error}"}
    return {"node": name, "boot_id": node.boot_id, "reboots": node.reboots, "rebooting": node.rebooting, "beating": node.beating, "ready": node.unready is None}


class Control:
    """The listening end, worked by threads of its own.

    :ivar requests: what the cluster can be told besides its stand-ins; empty until somebody adds to it.
    """

    def __init__(self, path: Path, nodes: StandIns) -> None:
        requests: Requests = {}

        class Handler(socketserver.StreamRequestHandler):
            def handle(self) -> None:
                line = self.rfile.readline().decode(errors="replace")
                self.wfile.write(json.dumps(answer(nodes, requests, line)).encode() + b"\n")

        self.path = path
        self.requests = requests
        self._server = socketserver.ThreadingUnixStreamServer(str(path), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, name="control", daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


def ask(path: Path, seconds: float, request: Mapping[str, Any]) -> Dict[str, Any]:
    """Sends a request to the process that holds a cluster; returns its answer, for which it waits so many seconds.

    :raises ClusterError: nobody listens there, it has no answer in time, or it cannot be done.
    """
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.settimeout(seconds)
        try:
            connection.connect(str(path))
        except OSError as error:
            raise ClusterError(f"no cluster listens at {path}: {error.strerror}") from None
        connection.sendall(json.dumps(request).encode() + b"\n")
        try:
            with connection.makefile("r", encoding="utf-8") as file:
                line = file.readline()
        except TimeoutError:
            raise ClusterError(f"the cluster at {path} has no answer after {seconds:.0f} s") from None
    if not line:
        raise ClusterError(f"the cluster at {path} ended before it answered")
    told: Dict[str, Any] = json.loads(line)
    if "error" in told:
        raise ClusterError(told["error"])
    return told


def tell(path: Path, node: str, action: str, **values: Any) -> Dict[str, Any]:
    """Tells a stand-in of another process something; returns the node's state afterwards.

    :raises ClusterError: nobody listens there, or it cannot be done.
    """
    return ask(path, 30, {"node": node, "do": action, **values})
