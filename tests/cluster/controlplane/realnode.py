# Copyright (c) 2026 The inferops.locality authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A real node of a cluster: a virtual machine of tests/lab with containerd, runc and the kubelet, joined to a control plane of this machine.

The guest reaches nothing but this machine's ssh client: the API server comes to it through a reverse tunnel, under the address it has here. The other way
there is none: ``kubectl logs`` and ``exec`` do not work, and what the kubelet serves is asked for on the node.
"""

from __future__ import annotations

import importlib.util
import json
import re
import subprocess
import threading
import time
from contextlib import contextmanager
from pathlib import Path
from typing import Dict, Iterator, Mapping, Optional, Tuple

from vlab import process
from vlab.node import Node

from controlplane import binaries
from controlplane.binaries import ClusterError, say
from controlplane.plane import ControlPlane
from controlplane.put import put_files

IMAGE = "localhost/test:1"
READY_SECONDS = 600.0
_GUEST = Path(__file__).resolve().parents[1] / "guest"
_LIB = "usr/local/lib/inferops-cluster"
_AGENT = "var/lib/rancher/rke2/agent"
# No pod has a network of its own: the network is there, and who asks it for an address gets none.
_NETWORK = {"cniVersion": "1.0.0", "name": "none", "plugins": [{"type": "none"}]}


class Tunnel:
    """Brings a port of this machine to the guest, as long as both live: a guest that reboots finds it again, one that is taken down ends it."""

    def __init__(self, node: Node, port: int) -> None:
        self.node = node
        self._port = port
        self._stopping = threading.Event()
        self._child: Optional[subprocess.Popen[bytes]] = None
        self._thread = threading.Thread(target=self._keep, name=f"tunnel-{node.name}", daemon=True)
        self._thread.start()

    def _keep(self) -> None:
        # A connection of its own: the one that commands share ends when they want it to. The thread lives as long as the child, which is tied to it.
        argv = self.node.ssh_argv("-N")
        options = ["-N", "-o", "ControlPath=none", "-o", "ExitOnForwardFailure=yes", "-R", f"127.0.0.1:{self._port}:127.0.0.1:{self._port}"]
        argv = [argv[0], *options, *argv[1:-1]]
        while not self._stopping.is_set() and self.node.directory.is_dir():
            self._child = process.start(argv, self.node.directory / "tunnel.log", tied=True)
            while self._child.poll() is None and not self._stopping.wait(0.2):
                pass
            if self._child.poll() is None:
                self._child.kill()
                self._child.wait()
            self._stopping.wait(1)

    def close(self) -> None:
        self._stopping.set()
        self._thread.join(10)


class RealNode:
    """A node that a kubelet runs; made by :func:`real_node`.

    :ivar node: the virtual machine: ``run``, ``put``, ``reboot``, ``qmp``.
    """

    def __init__(self, node: Node, cluster: ControlPlane) -> None:
        self.node = node
        self.cluster = cluster
        self.name = node.name

    def install(self) -> None:
        """Puts everything onto the node that its unit rke2-agent needs; starts nothing.

        :raises LabError: the node refused it.
        """
        # RKE2 makes this link at each start; it tells which version is in use.
        links = {"var/lib/rancher/rke2/bin": f"/var/lib/rancher/rke2/data/{binaries.kubernetes_version()}-rke2r1-standin/bin"}
        put_files(self.node, self._files(), links, "tar -C / -xf - && systemctl daemon-reload", READY_SECONDS)

    def _files(self) -> Mapping[str, Tuple[bytes, int]]:
        spec = importlib.util.find_spec("yaml")
        if spec is None or not spec.submodule_search_locations:
            raise ClusterError("no PyYAML here: the guest's stand-in for rke2-agent reads RKE2's files with it")
        user = self.cluster.authority.client(f"node-{self.name}", f"system:node:{self.name}", ["system:nodes"])
        kubeconfig = {
            "apiVersion": "v1", "kind": "Config", "current-context": "node",
            "clusters": [{"name": "test", "cluster": {"server": self.cluster.server, "certificate-authority": f"/{_AGENT}/server-ca.crt"}}],
            "users": [{"name": "node", "user": {"client-certificate": f"/{_AGENT}/client-kubelet.crt", "client-key": f"/{_AGENT}/client-kubelet.key"}}],
            "contexts": [{"name": "node", "context": {"cluster": "test", "user": "node"}}],
        }
        authority = self.cluster.authority.pair.certificate.read_bytes()
        return {
            "usr/local/bin/kubelet": (binaries.programs(["kubelet"])["kubelet"].read_bytes(), 0o755),
            **{f"{_LIB}/{path.name}": (path.read_bytes(), 0o644) for path in _GUEST.glob("*.py")},
            **{f"{_LIB}/yaml/{path.name}": (path.read_bytes(), 0o644) for path in Path(next(iter(spec.submodule_search_locations))).glob("*.py")},
            # Where the lab has its own stand-in, which only sleeps.
            "etc/systemd/system/rke2-agent.service": ((_GUEST / "rke2-agent.service").read_bytes(), 0o644),
            "etc/inferops-cluster/containerd.toml": ((_GUEST / "containerd.toml").read_bytes(), 0o644),
            "etc/inferops-cluster/cni/10-none.conflist": (json.dumps(_NETWORK).encode(), 0o644),
            "etc/modules-load.d/inferops-cluster.conf": (b"overlay\n", 0o644),
            f"{_AGENT}/kubelet.kubeconfig": (json.dumps(kubeconfig, indent=1).encode(), 0o600),
            f"{_AGENT}/server-ca.crt": (authority, 0o644),
            f"{_AGENT}/client-ca.crt": (authority, 0o644),
            f"{_AGENT}/client-kubelet.crt": (user.certificate.read_bytes(), 0o644),
            f"{_AGENT}/client-kubelet.key": (user.key.read_bytes(), 0o600),
        }

    def start(self) -> float:
        """Starts rke2-agent, gives it the image, waits until the API says Ready. :returns: seconds.

        :raises ClusterError: not Ready in time; with the unit's last lines.
        """
        began = time.monotonic()
        self.node.run(f"modprobe overlay; systemctl restart rke2-agent && /usr/bin/python3 /{_LIB}/make_image.py", timeout=READY_SECONDS)
        self.wait_ready()
        return time.monotonic() - began

    def ready(self) -> bool:
        """Whether the API has the node as Ready."""
        for item in self.cluster.api.get("/api/v1/nodes")["items"]:
            if item["metadata"]["name"] == self.name:
                return any(one["type"] == "Ready" and one["status"] == "True" for one in item["status"].get("conditions", ()))
        return False

    def wait_ready(self, seconds: float = READY_SECONDS) -> None:
        """:raises ClusterError: not Ready in time; with the unit's last lines."""
        deadline = time.monotonic() + seconds
        while not self.ready():
            if time.monotonic() > deadline:
                raise ClusterError(f"node {self.name} is not Ready after {seconds:.0f} s:\n{self.journal()}")
            time.sleep(1)

    def restart(self, seconds: float = READY_SECONDS) -> str:
        """Restarts rke2-agent and waits until its kubelet has started its managers, or has ended.

        :returns: empty if it started; else the errors it ended with, a line each. RKE2 would try again every five seconds, so does the stand-in.
        :raises ClusterError: neither happened in time.
        """
        return self._outcome("systemctl restart rke2-agent", seconds)

    def hold(self) -> None:
        """Ends the kubelet, and has rke2-agent start none until :meth:`go_on`. RKE2 cannot do that; it spares containerd's start."""
        self.node.run("systemctl kill --kill-whom main --signal USR1 rke2-agent; while pidof -q kubelet; do sleep 0.1; done", timeout=READY_SECONDS)

    def go_on(self, seconds: float = READY_SECONDS) -> str:
        """Starts the kubelet after :meth:`hold`, with RKE2's configuration as it is now. :returns: as :meth:`restart`."""
        return self._outcome("systemctl kill --kill-whom main --signal USR2 rke2-agent", seconds)

    def _outcome(self, begin: str, seconds: float) -> str:
        # One command: a connection and a look at the journal take seconds on an emulated node. The plugin manager is started after the container manager, in
        # which the CPU and memory managers are.
        told = self.node.run(
            "last=$(journalctl --unit rke2-agent --lines 0 --show-cursor | sed -n 's/^-- cursor: //p'); "
            f"{begin}; timeout {seconds:.0f} sed --unbuffered '/Starting Kubelet Plugin Manager/q; /^kubelet ended: rc /q' "
            """< <(journalctl --follow --lines all --unit rke2-agent --output cat ${last:+"--after-cursor=$last"} 2>&- | sed --unbuffered '1,/^kubelet: /d')""",
            check=False, timeout=seconds + READY_SECONDS,
        ).stdout
        if "Starting Kubelet Plugin Manager" in told:
            return ""
        before, ended, _after = told.partition("\nkubelet ended: rc ")
        if not ended:
            raise ClusterError(f"node {self.name}: the kubelet neither started nor ended within {seconds:.0f} s:\n{self.journal()}")
        return "\n".join(line for line in before.splitlines() if re.match(r"[EF]\d{4} ", line) or line.startswith("Error:"))

    def configure(self, name: str, text: str) -> None:
        """Writes a file of RKE2's ``config.yaml.d``; without text it is removed. Read at the next start."""
        path = f"/etc/rancher/rke2/config.yaml.d/{name}.yaml"
        if text:
            self.node.put(path, text)
        else:
            self.node.run(f"rm -f {path}")

    def journal(self, lines: int = 40) -> str:
        """The last lines of rke2-agent: containerd's and the kubelet's too."""
        return self.node.run(f"journalctl --unit rke2-agent --no-pager --output cat --lines {lines}", check=False).stdout


class RealNodes:
    """The real nodes of a cluster that goes on running: each keeps its tunnel until it leaves or the cluster ends."""

    def __init__(self, cluster: ControlPlane) -> None:
        self.cluster = cluster
        self._tunnels: Dict[str, Tunnel] = {}
        # A node at a time: both would build what is missing.
        self._lock = threading.Lock()

    def join(self, node: Node) -> RealNode:
        """Makes a running node of the lab a node of the cluster; returns when it is Ready. One that has joined is made anew.

        :raises LabError: it does not run, its name is a stand-in's, or it does not become Ready.
        """
        with self._lock:
            if node.name in self.cluster.nodes:
                raise ClusterError(f"{node.name} is the name of a stand-in here")
            if not node.running():
                raise ClusterError(f"node {node.name} does not run: lab.py up {node.name}")
            self._leave(node.name)
            self._tunnels[node.name] = Tunnel(node, self.cluster.port("api"))
            found = RealNode(node, self.cluster)
            try:
                began = time.monotonic()
                found.install()
                put = time.monotonic() - began
                say(f"node {found.name}: files after {put:.0f} s, Ready {found.start():.0f} s later")
            except BaseException:
                self._leave(node.name)
                raise
            return found

    def _leave(self, name: str) -> None:
        tunnel = self._tunnels.pop(name, None)
        if tunnel:
            tunnel.close()

    def close(self) -> None:
        """Takes the API server away from all of them."""
        for name in list(self._tunnels):
            self._leave(name)


@contextmanager
def real_node(node: Node, cluster: ControlPlane) -> Iterator[RealNode]:
    """A node of the lab as a node of the cluster for the length of a ``with`` block; it goes on running and loses the API server with it.

    :raises ClusterError: it does not become Ready.
    """
    joined = RealNodes(cluster)
    try:
        yield joined.join(node)
    finally:
        joined.close()
