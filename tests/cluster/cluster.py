# Copyright (c) 2026 The inferops.locality authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A real control plane on the loopback address, for tests and for people. ``python3 cluster.py --help``; more in README.md beside it."""

from __future__ import annotations

import argparse
import json
import os
import re
import signal
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path
from typing import Any, Dict, List, Mapping, Optional

_HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(_HERE), str(_HERE.parent / "lab")]

from vlab import config, process  # noqa: E402
from vlab.config import Cache  # noqa: E402
from vlab.node import Node  # noqa: E402
from vlab.process import LabError  # noqa: E402

from controlplane import binaries, control  # noqa: E402
from controlplane.binaries import ClusterError, say  # noqa: E402
from controlplane.plane import START_SECONDS, ControlPlane, control_plane  # noqa: E402
from controlplane.realnode import READY_SECONDS, RealNodes  # noqa: E402

# -- clusters that run on their own ------------------------------------------------------------------------------------


def _file(name: str) -> Path:
    if not re.fullmatch(r"[a-z][a-z0-9-]{0,30}", name):
        raise ClusterError(f"{name!r} is no name: small letters, digits and dashes")
    top = binaries.cache() / "clusters"
    top.mkdir(exist_ok=True)
    return top / f"{name}.json"


def _record(name: str) -> Optional[Dict[str, Any]]:
    """What the process of that cluster wrote; None if it does not run."""
    try:
        record: Dict[str, Any] = json.loads(_file(name).read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    return record if process.alive(record["pid"], record["started"]) else None


def _running(name: str) -> Dict[str, Any]:
    record = _record(name)
    if record is None:
        raise ClusterError(f"cluster {name} does not run: cluster.py up {name}")
    return record


def _names() -> List[str]:
    return sorted(path.stem for path in (binaries.cache() / "clusters").glob("*.json"))


def _requests(cluster: ControlPlane, real: RealNodes) -> control.Requests:
    """What commands ask of the process of a cluster, because it has to hold what comes of it."""

    def join(request: Mapping[str, Any]) -> Dict[str, Any]:
        began = time.monotonic()
        real.join(Node.open(Cache(Path(request["lab"])), request["node"]))
        return {"seconds": round(time.monotonic() - began)}

    def kubeconfig(request: Mapping[str, Any]) -> Dict[str, Any]:
        return {"kubeconfig": cluster.kubeconfig_for(Path(request["manifest"])).read_text(encoding="utf-8")}

    return {"join": join, "kubeconfig": kubeconfig}


def _serve(options: argparse.Namespace) -> int:
    """The process of a cluster: its programs are tied to it."""
    with control_plane(node_grace=options.node_grace, audit=options.audit) as cluster, closing(RealNodes(cluster)) as real:
        for name in options.nodes:
            cluster.nodes.add(name)
        cluster.requests.update(_requests(cluster, real))
        record = {
            "pid": os.getpid(), "started": process.start_time(os.getpid()), "server": cluster.server, "kubeconfig": str(cluster.kubeconfig),
            "control": str(cluster.control), "logs": str(cluster.logs), "nodes": options.nodes, "kubectl": str(cluster.programs["kubectl"]),
        }
        partial = _file(options.name).with_suffix(".partial")
        partial.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
        partial.rename(_file(options.name))
        try:
            while True:
                signal.pause()
        finally:
            _file(options.name).unlink(missing_ok=True)


def _up(options: argparse.Namespace) -> int:
    if _record(options.name):
        raise ClusterError(f"cluster {options.name} runs already: cluster.py down {options.name}")
    _file(options.name).unlink(missing_ok=True)
    # Here, so that one sees what a long build does.
    binaries.programs(["etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubectl"])
    log = binaries.cache() / "logs" / f"cluster-{options.name}.log"
    log.unlink(missing_ok=True)
    argv = [sys.executable, str(Path(__file__).resolve()), "serve", options.name, "--node-grace", str(options.node_grace), "--nodes", *options.nodes]
    argv += ["--audit", str(options.audit.absolute())] if options.audit else []
    started = process.start(argv, log, tied=False)
    began = process.start_time(started.pid) or 0
    deadline = time.monotonic() + START_SECONDS + 60
    try:
        while (record := _record(options.name)) is None:
            if started.poll() is not None or time.monotonic() > deadline:
                raise ClusterError(f"cluster {options.name} did not start:\n{log.read_text(encoding='utf-8', errors='replace')}")
            time.sleep(0.1)
    except BaseException:
        process.end(started.pid, began, patience=30)
        raise
    print(f"export KUBECONFIG={record['kubeconfig']}")
    return 0


def _down(options: argparse.Namespace) -> int:
    if not options.name and not options.all:
        raise ClusterError("down: name a cluster, or --all")
    for name in _names() if options.all else [options.name]:
        record = _record(name)
        if record:
            process.end(record["pid"], record["started"], patience=30)
        _file(name).unlink(missing_ok=True)
        say(f"{name}: {'down' if record else 'did not run'}")
    return 0


def _status(options: argparse.Namespace) -> int:
    for name in _names():
        record = _record(name)
        if record:
            print(f"{name:12} {record['server']} nodes {','.join(record['nodes']) or '-'} logs {record['logs']} KUBECONFIG={record['kubeconfig']}")
    return 0


# -- what is done with one ---------------------------------------------------------------------------------------------


def _kubectl(options: argparse.Namespace) -> int:
    record = _running(options.name)
    command = options.command[1:] if options.command[:1] == ["--"] else options.command
    return subprocess.run([record["kubectl"], *command], check=False, env={**os.environ, "KUBECONFIG": record["kubeconfig"]}).returncode


def _node(options: argparse.Namespace) -> int:
    path = Path(options.name) if os.sep in options.name else Path(_running(options.name)["control"])
    values = {key: value for key, value in (("seconds", options.seconds), ("namespace", options.namespace), ("pod", options.pod)) if value is not None}
    print(json.dumps(control.tell(path, options.node, options.action, **values)))
    return 0


def _join(options: argparse.Namespace) -> int:
    path = Path(_running(options.name)["control"])
    # Here, so that one sees what a long build does.
    binaries.programs(["kubelet"])
    # Files, start and Ready each have a limit of their own.
    told = control.ask(path, 3 * READY_SECONDS, {"do": "join", "node": options.node, "lab": str(config.cache().top)})
    say(f"{options.name}: node {options.node} is Ready after {told['seconds']} s")
    return 0


def _kubeconfig(options: argparse.Namespace) -> int:
    told = control.ask(Path(_running(options.name)["control"]), 300, {"do": "kubeconfig", "manifest": str(options.manifest.absolute())})
    options.out.touch(mode=0o600)
    options.out.write_text(told["kubeconfig"], encoding="utf-8")
    return 0


def _binaries(options: argparse.Namespace) -> int:
    found = binaries.programs(options.program or binaries.NAMES, options.jobs)
    print(*binaries.described(found), sep="\n")
    if not options.program:
        print(f"{'kubernetes.core':35} {binaries.collections()}")
    return 0


def parser() -> argparse.ArgumentParser:
    """The command line."""
    top = argparse.ArgumentParser(prog="cluster.py", description="A real control plane on the loopback address, with stand-ins for nodes.")
    commands = top.add_subparsers(dest="command_name", required=True, metavar="COMMAND")

    def command(name: str, function: object, text: str, cluster: bool = True) -> argparse.ArgumentParser:
        made = commands.add_parser(name, help=text, description=text)
        made.set_defaults(function=function)
        if cluster:
            made.add_argument("name", metavar="CLUSTER")
        return made

    made = command("binaries", _binaries, "make the programs that are not in the cache; print where each lies", cluster=False)
    made.add_argument("program", nargs="*", metavar="PROGRAM", help=f"only these of {', '.join(binaries.NAMES)}")
    made.add_argument("--jobs", type=int, metavar="N", help="commands that a build runs at a time (default: all cores)")
    for name, function, text in (("up", _up, "start a cluster that runs until it is put down"), ("serve", _serve, "the process behind up, in the foreground")):
        made = command(name, function, text)
        made.add_argument("--nodes", nargs="*", default=[], metavar="NODE", help="stand-ins for these nodes")
        made.add_argument("--node-grace", type=int, default=50, metavar="SECONDS", help="without a heartbeat until a node is unknown (default %(default)s)")
        made.add_argument("--audit", type=Path, metavar="FILE", help="have evictions, and what the account of docs/rbac.yaml asks for, written there")
    made = command("kubectl", _kubectl, "kubectl as the administrator: kubectl CLUSTER -- get pods")
    made.add_argument("command", nargs=argparse.REMAINDER, metavar="ARGUMENT")
    made = command("node", _node, "tell a node's stand-in something; CLUSTER may be the path of a cluster's control socket")
    made.add_argument("node", metavar="NODE")
    made.add_argument("action", choices=list(control.ACTIONS), metavar="ACTION", help=", ".join(control.ACTIONS))
    made.add_argument("--seconds", type=float, metavar="N", help="how long a reboot takes, pods take to end (ending, keep), device plugins take to be back")
    made.add_argument("--namespace", help="of keep and static-pod")
    made.add_argument("--pod", help="of keep and static-pod")
    made = command("join", _join, "make a running node of tests/lab a node of the cluster: a real kubelet, until the cluster is put down")
    made.add_argument("node", metavar="NODE")
    made = command("kubeconfig", _kubeconfig, "make a kubeconfig for an account with exactly the roles of a manifest")
    made.add_argument("manifest", type=Path, metavar="MANIFEST")
    made.add_argument("out", type=Path, metavar="FILE")
    made = command("down", _down, "end a cluster and remove its data", cluster=False)
    made.add_argument("name", nargs="?", metavar="CLUSTER")
    made.add_argument("--all", action="store_true", help="every cluster of this cache")
    command("status", _status, "the clusters that run", cluster=False)
    return top


def _terminated(number: int, frame: object) -> None:
    # Like Ctrl-C: whoever started something ends it on the way out.
    raise SystemExit(128 + number)


def main(arguments: Optional[List[str]] = None) -> int:
    """Runs one command. :returns: exit status."""
    options = parser().parse_args(arguments)
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _terminated)
    try:
        return int(options.function(options))
    except LabError as error:
        say(str(error))
        return 1
    except KeyboardInterrupt:
        say("stopped")
        return 130


if __name__ == "__main__":
    sys.exit(main())
