# Copyright (c) 2026 The inferops.locality authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Stand-in for "rke2 agent" on a lab node: merges RKE2's configuration, starts containerd, keeps a real kubelet running.

What it does as RKE2 does: reads config.yaml and then config.yaml.d/*.yaml and *.yml in name order, where the last value of a key replaces earlier ones and
``key+`` appends; a ``kubelet-arg`` replaces the built-in argument of that name, ``name+`` appends to it, ``name-`` goes before it, further ones of the name
are added; built-in settings go to a file of ``--config-dir``; a kubelet that ended is started again after five seconds; both programs end with it, containers
do not. For tests that start it often it knows two signals that RKE2 does not: SIGUSR1 ends the kubelet and starts none, SIGUSR2 reads the configuration and
starts it, while containerd goes on. Everything else of RKE2 it does not do: no server is asked, certificates and programs are put there by the tests.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Dict, List

import yaml  # lies beside this file on the node

ETC = Path("/etc/rancher/rke2")
AGENT = Path("/var/lib/rancher/rke2/agent")
SOCKET = "/run/k3s/containerd/containerd.sock"
DEFAULTS: Dict[str, Any] = {
    "apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration",
    "authentication": {"anonymous": {"enabled": False}, "webhook": {"enabled": True}, "x509": {"clientCAFile": str(AGENT / "client-ca.crt")}},
    "authorization": {"mode": "Webhook"},
    "cgroupDriver": "systemd", "containerRuntimeEndpoint": f"unix://{SOCKET}", "failSwapOn": False, "resolvConf": "/dev/null",
    "evictionHard": {"imagefs.available": "5%", "nodefs.available": "5%"},
    "evictionMinimumReclaim": {"imagefs.available": "10%", "nodefs.available": "10%"},
    "staticPodPath": str(AGENT / "pod-manifests"), "readOnlyPort": 0,
}


def merged() -> Dict[str, Any]:
    """RKE2's configuration as it is in force."""
    settings: Dict[str, Any] = {}
    folder = ETC / "config.yaml.d"
    drop_ins = sorted(path for path in folder.glob("*") if path.suffix in (".yaml", ".yml")) if folder.is_dir() else []
    for path in (ETC / "config.yaml", *drop_ins):
        if not path.exists():
            continue
        for key, value in (yaml.safe_load(path.read_text(encoding="utf-8")) or {}).items():
            if key.endswith("+"):
                settings[key[:-1]] = as_list(settings.get(key[:-1])) + as_list(value)
            else:
                settings[key] = value
    return settings


def as_list(value: Any) -> List[str]:
    if value is None:
        return []
    return [str(item) for item in value] if isinstance(value, list) else [str(value)]


def arguments(built_in: Dict[str, List[str]], extra: List[str]) -> List[str]:
    """The kubelet's command line: built-in arguments, changed by those of ``kubelet-arg``."""
    found = {name: list(values) for name, values in built_in.items()}
    replaced = set()
    for item in extra:
        name, _equals, value = item.partition("=")
        if name.endswith("+"):
            found.setdefault(name[:-1], []).append(value)
        elif name.endswith("-"):
            found.setdefault(name[:-1], []).insert(0, value)
        elif name in replaced:
            found[name].append(value)
        else:
            replaced.add(name)
            found[name] = [value]
    return [f"--{name}={value}" for name in sorted(found) for value in found[name]]


def notify(state: str) -> None:
    """Tells systemd."""
    address = os.environ.get("NOTIFY_SOCKET")
    if address:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
            sender.sendto(state.encode(), address.replace("@", "\0", 1) if address.startswith("@") else address)


def dies_with_us() -> None:
    ctypes.CDLL(None).prctl(1, signal.SIGTERM)  # PR_SET_PDEATHSIG


def start(argv: List[str]) -> "subprocess.Popen[bytes]":
    # With a thread for each emulated CPU, Go's search for work keeps all of them busy, and the machine below with them.
    environment = {**os.environ, "GOMAXPROCS": "2"}
    return subprocess.Popen(argv, env=environment, preexec_fn=dies_with_us)  # noqa: PLW1509  (one thread only)


def kubelet_argv() -> List[str]:
    """Writes the built-in settings and reads RKE2's configuration, as at each start of RKE2."""
    settings = merged()
    conf = AGENT / "etc" / "kubelet.conf.d"
    conf.mkdir(parents=True, exist_ok=True)
    (conf / "00-rke2-defaults.conf").write_text(json.dumps(DEFAULTS, indent=1) + "\n", encoding="utf-8")
    (AGENT / "pod-manifests").mkdir(exist_ok=True)
    built_in = {
        "config-dir": [str(conf)], "kubeconfig": [str(AGENT / "kubelet.kubeconfig")], "hostname-override": [settings.get("node-name") or socket.gethostname()],
        "node-labels": [",".join(as_list(settings.get("node-label")))], "register-with-taints": [",".join(as_list(settings.get("node-taint")))],
    }
    return ["/usr/local/bin/kubelet", *arguments({name: values for name, values in built_in.items() if values != [""]}, as_list(settings.get("kubelet-arg")))]


def main() -> int:
    argv = kubelet_argv()
    containerd = start(["/usr/bin/containerd", "--config", "/etc/inferops-cluster/containerd.toml"])
    kubelet = None
    held = False

    def stop(number: int, frame: object) -> None:
        for child in (kubelet, containerd):
            if child is not None:
                child.terminate()
        raise SystemExit(0)

    def hold(number: int, frame: object) -> None:
        nonlocal held
        held = True
        if kubelet is not None:
            kubelet.terminate()

    def go_on(number: int, frame: object) -> None:
        nonlocal held
        held = False

    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGUSR1, hold)
    signal.signal(signal.SIGUSR2, go_on)
    while not Path(SOCKET).exists():
        if containerd.poll() is not None:
            return 1
        time.sleep(0.2)
    while True:
        print("kubelet:", *argv, flush=True)
        kubelet = start(argv)
        notify("READY=1")
        print(f"kubelet ended: rc {kubelet.wait()}", flush=True)
        again = time.monotonic() + 5
        # A handler runs in the middle of a sleep, which goes on after it.
        while time.monotonic() < again and not held:
            time.sleep(0.1)
        if held:
            while held:
                time.sleep(0.1)
            argv = kubelet_argv()


if __name__ == "__main__":
    sys.exit(main())
