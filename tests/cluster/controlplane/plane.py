# Copyright (c) 2026 The inferops.locality authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Starts and ends a control plane on the loopback address: etcd, API server, and where wanted controller manager and scheduler."""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import subprocess
import tempfile
import time
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Callable, Dict, Iterator, List, Mapping, Optional, Sequence, Tuple

from vlab import process

from controlplane import binaries
from controlplane.api import Api, ApiError, Object
from controlplane.binaries import ClusterError, say
from controlplane.control import Control, Requests
from controlplane.standin import StandIns
from controlplane.tls import Authority, Pair

START_SECONDS = 180.0
LOGS_KEPT = 20
SERVICE_NETWORK = "10.43.0.0/16"
# What the tests need of the controller manager; the others only take time here.
CONTROLLERS = (
    "serviceaccount-controller", "root-ca-certificate-publisher-controller", "namespace-controller", "garbage-collector-controller",
    "pod-garbage-collector-controller", "clusterrole-aggregation-controller", "node-lifecycle-controller", "taint-eviction-controller", "disruption-controller",
    "replicaset-controller", "deployment-controller", "daemonset-controller", "statefulset-controller", "job-controller", "resourceclaim-controller",
    "device-taint-eviction-controller",
)

# The API server writes down who asked for what: a witness that knows nothing of the code under test.
_AUDIT = """
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
  - level: Request
    resources: [{group: "", resources: [pods/eviction]}]
  - level: Metadata
    users: [system:serviceaccount:kube-system:inferops-locality]
  - level: None
"""


class ReservedPort:
    """A TCP port of the loopback address that stays ours until the object is closed.

    The socket is bound and does not listen. Servers that set SO_REUSEPORT (and run as the same user) can bind the port beside it, nobody else gets it.
    """

    def __init__(self) -> None:
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        self._socket.bind(("127.0.0.1", 0))
        self.number = int(self._socket.getsockname()[1])

    def close(self) -> None:
        self._socket.close()


class ControlPlane:
    """A running control plane; made by :func:`control_plane`.

    :ivar folder: its data, gone when it ends. :ivar logs: one file for each program, kept.
    :ivar server: the API server's address. :ivar kubeconfig: the administrator's. :ivar api: a client as the administrator.
    :ivar nodes: the stand-ins for nodes. :ivar control: socket through which other processes steer them (:mod:`controlplane.control`).
    """

    def __init__(self, folder: Path, logs: Path, programs: Mapping[str, Path]) -> None:
        self.folder = folder
        self.logs = logs
        self.programs = programs
        self.authority = Authority(folder / "tls")
        self._processes: Dict[str, Tuple[subprocess.Popen[bytes], int]] = {}
        self._ports = {name: ReservedPort() for name in ("etcd", "etcd-peer", "api")}
        self.server = f"https://127.0.0.1:{self.port('api')}"
        self.kubeconfig = self.user("admin", ["system:masters"])
        self.api = Api.of(self.kubeconfig)
        self.nodes = StandIns(self.api)
        self.control = folder / "control.sock"
        self._control = Control(self.control, self.nodes)

    # -- start and end ------------------------------------------------------------------------------------------------

    def port(self, name: str) -> int:
        return self._ports[name].number

    @property
    def requests(self) -> Requests:
        """What other processes may tell this one through :attr:`control`, besides the stand-ins."""
        return self._control.requests

    def _start(self, name: str, arguments: Sequence[str]) -> None:
        started = process.start([str(self.programs[name]), *arguments], self.logs / f"{name}.log", tied=True)
        self._processes[name] = (started, process.start_time(started.pid) or 0)

    def start(self, controllers: bool, scheduler: bool, node_grace: int, arguments: Mapping[str, Sequence[str]], audit: Optional[Path]) -> None:
        """Starts the programs and waits until they serve; :func:`control_plane` says what the parameters are.

        :raises ClusterError: one ended, or did not become ready in time; with its log's last lines.
        """
        etcd, peer = (f"http://127.0.0.1:{self.port(name)}" for name in ("etcd", "etcd-peer"))
        self._start("etcd", [
            f"--data-dir={self.folder / 'etcd'}", "--name=test", f"--listen-client-urls={etcd}", f"--advertise-client-urls={etcd}",
            f"--listen-peer-urls={peer}", f"--initial-advertise-peer-urls={peer}", f"--initial-cluster=test={peer}", "--socket-reuse-port",
            # Nothing of a test survives its machine.
            "--unsafe-no-fsync", "--log-level=warn", *arguments.get("etcd", ()),
        ])
        serving = self.authority.server("kube-apiserver", ["IP:127.0.0.1", "IP:10.43.0.1", "DNS:localhost", "DNS:kubernetes.default.svc"])
        accounts = self.authority.signing_key("service-accounts")
        kubelet = self.authority.client("kubelet-client", "kube-apiserver", ["system:masters"])
        audited: List[str] = []
        if audit:
            policy = self.folder / "audit.yaml"
            policy.write_text(_AUDIT, encoding="utf-8")
            audited = [f"--audit-policy-file={policy}", f"--audit-log-path={audit}", "--audit-log-mode=blocking-strict"]
        self._start("kube-apiserver", [
            f"--etcd-servers={etcd}", "--bind-address=127.0.0.1", f"--secure-port={self.port('api')}", "--permit-port-sharing",
            f"--tls-cert-file={serving.certificate}", f"--tls-private-key-file={serving.key}", f"--client-ca-file={self.authority.pair.certificate}",
            f"--kubelet-client-certificate={kubelet.certificate}", f"--kubelet-client-key={kubelet.key}",
            "--authorization-mode=Node,RBAC", "--enable-admission-plugins=NodeRestriction", "--allow-privileged",
            f"--service-account-key-file={accounts.certificate}", f"--service-account-signing-key-file={accounts.key}",
            "--service-account-issuer=https://kubernetes.default.svc", f"--service-cluster-ip-range={SERVICE_NETWORK}",
            # Endpoints must not be loopback addresses, and nobody here reaches the API server through its service.
            "--endpoint-reconciler-type=none", "--profiling=false",
            # Without the controller that makes each namespace's account no pod could be made.
            *([] if controllers else ["--disable-admission-plugins=ServiceAccount"]), *audited, *arguments.get("kube-apiserver", ()),
        ])
        self._until("the API server is ready", self._serves)
        if controllers:
            self._start("kube-controller-manager", [
                f"--kubeconfig={self.user('system:kube-controller-manager')}", f"--root-ca-file={self.authority.pair.certificate}",
                f"--controllers={','.join(CONTROLLERS)}", "--use-service-account-credentials", "--leader-elect=false", "--secure-port=0",
                f"--node-monitor-grace-period={node_grace}s", "--node-monitor-period=1s", *arguments.get("kube-controller-manager", ()),
            ])
        if scheduler:
            self._start("kube-scheduler", [
                f"--kubeconfig={self.user('system:kube-scheduler')}", "--leader-elect=false", "--secure-port=0", *arguments.get("kube-scheduler", ()),
            ])
        if controllers:
            self._until("namespace default has its service account", lambda: self._exists("/api/v1/namespaces/default/serviceaccounts/default"))
        self.nodes.start()

    def _serves(self) -> bool:
        try:
            return self.api.get("/readyz")["text"] == "ok"
        except (OSError, ApiError):
            return False

    def _exists(self, path: str) -> bool:
        try:
            return bool(self.api.get(path))
        except ApiError as error:
            if error.code != 404:
                raise
            return False

    def _until(self, what: str, reached: Callable[[], bool]) -> None:
        deadline = time.monotonic() + START_SECONDS
        while not reached():
            dead = [name for name, (started, _time) in self._processes.items() if started.poll() is not None]
            if dead:
                raise ClusterError(f"{', '.join(dead)} ended before {what}:\n{self.log_tail(dead)}")
            if time.monotonic() > deadline:
                raise ClusterError(f"not within {START_SECONDS:.0f} s: {what}\n{self.log_tail()}")
            time.sleep(0.1)

    def stop(self) -> None:
        """Ends every process; the logs stay.

        :raises LabError: a process cannot be ended.
        """
        self._control.close()
        self.nodes.stop()
        # Killed, for nothing of theirs is kept: a server that is asked to end waits for its clients first.
        for started, time_of_start in reversed(self._processes.values()):
            started.kill()
            process.end(started.pid, time_of_start)
        for port in self._ports.values():
            port.close()

    def running(self) -> Dict[str, int]:
        """Process id of each program that runs."""
        return {name: started.pid for name, (started, _time) in self._processes.items() if started.poll() is None}

    def log_tail(self, names: Optional[Sequence[str]] = None, lines: int = 15) -> str:
        """The last lines of the programs' logs."""
        parts = []
        for log in sorted(self.logs.glob("*.log")):
            if names is None or log.stem in names:
                parts += [f"-- {log}", *log.read_text(encoding="utf-8", errors="replace").splitlines()[-lines:]]
        return "\n".join(parts)

    # -- who calls it -------------------------------------------------------------------------------------------------

    def _kubeconfig(self, name: str, user: Mapping[str, str]) -> Path:
        # JSON is YAML: kubectl and the clients of every language read it.
        text = {
            "apiVersion": "v1", "kind": "Config", "current-context": name,
            "clusters": [{"name": "test", "cluster": {"server": self.server, "certificate-authority": str(self.authority.pair.certificate)}}],
            "users": [{"name": name, "user": dict(user)}],
            "contexts": [{"name": name, "context": {"cluster": "test", "user": name}}],
        }
        path = self.folder / f"{re.sub(r'[^a-z0-9.-]+', '-', name)}.kubeconfig"
        path.touch(mode=0o600)
        path.write_text(json.dumps(text, indent=1) + "\n", encoding="utf-8")
        return path

    def user(self, name: str, groups: Sequence[str] = ()) -> Path:
        """A kubeconfig for a user known by a certificate, such as ``system:node:a`` of the group ``system:nodes``."""
        pair: Pair = self.authority.client(re.sub(r"[^a-z0-9.-]+", "-", name), name, groups)
        return self._kubeconfig(name, {"client-certificate": str(pair.certificate), "client-key": str(pair.key)})

    def kubeconfig_for(self, manifest: Path, namespace: str = "default") -> Path:
        """A kubeconfig for a service account that has exactly the roles of a manifest.

        The manifest is applied. If its bindings name a service account, that one is taken, and made if the manifest does not; if it has roles only, an
        account named after the file is made in ``namespace`` and bound to each of them. May be called again with the same manifest.

        :raises ClusterError: the manifest has no role, or not one service account, or cannot be applied.
        """
        found = json.loads(self.kubectl("apply", "--filename", str(manifest), "--output", "json").stdout)
        kinds: Dict[str, List[Object]] = {}
        for item in found["items"] if found["kind"] == "List" else [found]:
            kinds.setdefault(item["kind"], []).append(item)
        roles = [*kinds.get("ClusterRole", []), *kinds.get("Role", [])]
        if not roles:
            raise ClusterError(f"{manifest} has no ClusterRole and no Role")
        bindings = [*kinds.get("ClusterRoleBinding", []), *kinds.get("RoleBinding", [])]
        accounts = {(item["metadata"]["namespace"], item["metadata"]["name"]) for item in kinds.get("ServiceAccount", [])}
        subjects = [subject for binding in bindings for subject in binding.get("subjects", ())]
        accounts |= {(subject["namespace"], subject["name"]) for subject in subjects if subject["kind"] == "ServiceAccount"}
        if not accounts and not bindings:
            accounts = {(namespace, re.sub(r"[^a-z0-9-]+", "-", manifest.stem.lower()).strip("-"))}
        if len(accounts) != 1:
            raise ClusterError(f"{manifest}: one service account is wanted, it has {', '.join('/'.join(pair) for pair in sorted(accounts)) or 'none'}")
        [(namespace, name)] = accounts
        made: List[Object] = [{"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name, "namespace": namespace}}]
        made += [] if bindings else [self._binding(name, namespace, role) for role in roles]
        self.kubectl("apply", "--filename", "-", manifest=json.dumps({"apiVersion": "v1", "kind": "List", "items": made}))
        request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": 24 * 3600}}
        token = self.api.post(f"/api/v1/namespaces/{namespace}/serviceaccounts/{name}/token", request)["status"]["token"]
        return self._kubeconfig(name, {"token": token})

    @staticmethod
    def _binding(account: str, namespace: str, role: Object) -> Object:
        name, kind = role["metadata"]["name"], role["kind"]
        return {
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": f"{kind}Binding",
            "metadata": {"name": f"{account}-{name}", **({"namespace": role["metadata"]["namespace"]} if kind == "Role" else {})},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": name},
            "subjects": [{"kind": "ServiceAccount", "name": account, "namespace": namespace}],
        }

    def kubectl(
        self, *arguments: str, kubeconfig: Optional[Path] = None, manifest: Optional[str] = None, check: bool = True
    ) -> "subprocess.CompletedProcess[str]":
        """Runs kubectl as the administrator, or as another user; ``manifest`` is its standard input.

        :raises ClusterError: it failed, and ``check`` was not turned off.
        """
        environment = {**os.environ, "KUBECONFIG": str(kubeconfig or self.kubeconfig), "HOME": str(self.folder)}
        command = [str(self.programs["kubectl"]), *arguments]
        done = subprocess.run(command, input=manifest or "", capture_output=True, text=True, check=False, env=environment, timeout=300)
        if check and done.returncode:
            raise ClusterError(f"kubectl {' '.join(arguments)}: rc {done.returncode}: {done.stderr.strip()}")
        return done


_PREFIX = "locality-cluster"


def _remove_abandoned() -> None:
    """Removes the data of clusters whose process was killed: their programs ended with it, their files could not."""
    for old in Path(tempfile.gettempdir()).glob(f"{_PREFIX}-*"):
        named = re.fullmatch(rf"{_PREFIX}-(\d+)-(\d+)-\w+", old.name)
        if named and old.stat().st_uid == os.geteuid() and process.start_time(int(named[1])) != int(named[2]):
            shutil.rmtree(old, ignore_errors=True)


def _fresh_logs() -> Path:
    top = binaries.cache() / "logs"
    logs = Path(tempfile.mkdtemp(prefix=time.strftime("run-%Y%m%dT%H%M%S-"), dir=top))
    for old in sorted(top.glob("run-*"))[:-LOGS_KEPT]:
        shutil.rmtree(old, ignore_errors=True)
    return logs


@contextmanager
def control_plane(
    controllers: bool = True, scheduler: bool = True, node_grace: int = 50, arguments: Optional[Mapping[str, Sequence[str]]] = None,
    audit: Optional[Path] = None,
) -> Iterator[ControlPlane]:
    """A control plane for the length of a ``with`` block. It ends with it, and with the calling thread, even if the process is killed.

    :param controllers: run the controller manager. Without it a node keeps its taints, and a budget (PDB) is never computed.
    :param scheduler: run the scheduler; without it pods need a ``nodeName``.
    :param node_grace: seconds without a heartbeat after which the controller manager calls a node's state unknown. 50 is Kubernetes' default.
    :param arguments: further arguments of a program, by its name.
    :param audit: file to which the API server writes evictions and what the account of docs/rbac.yaml asks for, an event a line.
    :raises ClusterError: a program is missing or did not start.
    """
    if shutil.which("setpriv") is None:
        raise ClusterError("no setpriv on PATH: apt-get install --no-install-recommends util-linux")
    names = ["etcd", "kube-apiserver", "kubectl"]
    names += ["kube-controller-manager"] if controllers else []
    names += ["kube-scheduler"] if scheduler else []
    programs = binaries.programs(names)
    _remove_abandoned()
    began = time.monotonic()
    folder = Path(tempfile.mkdtemp(prefix=f"{_PREFIX}-{os.getpid()}-{process.start_time(os.getpid())}-"))
    with ExitStack() as last:
        last.callback(process.remove_tree, folder)
        cluster = ControlPlane(folder, _fresh_logs(), programs)
        last.callback(cluster.stop)
        cluster.start(controllers, scheduler, node_grace, arguments or {}, audit)
        say(f"{cluster.server} ready after {time.monotonic() - began:.1f} s, logs in {cluster.logs}")
        yield cluster
