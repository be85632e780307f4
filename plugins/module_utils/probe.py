# Copyright (c) 2026 The inferops.locality authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Answers of a node's commands. Nothing else in this collection runs commands to read a node.

On the live node the command is run; below another root the answer is the one that a snapshot recorded under
``/.locality/probe``. All commands here only read.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
from dataclasses import dataclass
from typing import Dict, List, Optional, Tuple

from ansible_collections.inferops.locality.plugins.module_utils.sysroot import SysRoot

PROBE_DIR = "/.locality/probe"

_CRICTL = ("crictl", "--runtime-endpoint", "unix:///run/k3s/containerd/containerd.sock")

# Each word in braces is an argument of ask(); its value becomes a part of the recorded answer's file name.
COMMANDS: Dict[str, Tuple[str, ...]] = {
    "systemctl-show-irqbalance": (
        "systemctl", "show", "irqbalance.service",
        "--property=LoadState,UnitFileState,ActiveState,EnvironmentFiles,ProtectKernelTunables",
    ),
    "systemctl-show-slices": ("systemctl", "show", "system.slice", "user.slice", "init.scope", "--property=Id,AllowedCPUs,EffectiveCPUs"),
    "systemctl-show-rke2": ("systemctl", "show", "rke2-agent.service", "rke2-server.service", "--property=Id,LoadState,UnitFileState,ActiveState,LimitMEMLOCK"),
    "systemd-detect-virt": ("systemd-detect-virt",),
    "tuned-version": ("tuned-adm", "--version"),
    "tuned-active": ("tuned-adm", "active"),
    "rke2-version": ("rke2", "--version"),
    "ethtool-channels": ("ethtool", "-l", "{interface}"),
    "ip-link": ("ip", "-d", "-j", "link", "show", "dev", "{interface}"),
    "ip-vxlan": ("ip", "-d", "-j", "link", "show", "type", "vxlan"),
    "ip-route": ("ip", "-j", "-4", "route", "show", "default"),
    "ip-route6": ("ip", "-j", "-6", "route", "show", "default"),
    "nvidia-smi-topo": ("nvidia-smi", "topo", "-m"),
    "nvidia-smi-persistence": ("nvidia-smi", "--query-gpu=persistence_mode", "--format=csv,noheader"),
    # All of RKE2's containers are behind this socket, whatever its data-dir is.
    "cilium-agents": (*_CRICTL, "ps", "--name", "^cilium-agent$", "--label", "io.kubernetes.pod.namespace=kube-system", "--output", "json"),
    "cilium-status-json": (*_CRICTL, "exec", "{container}", "cilium-dbg", "status", "--output", "json"),
    "cilium-status-text": (*_CRICTL, "exec", "{container}", "cilium-dbg", "status", "--verbose"),
    "nvidia-smi-gpus": ("nvidia-smi", "--query-gpu=index,pci.bus_id", "--format=csv,noheader"),
}

_SEARCH_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:/var/lib/rancher/rke2/bin:/opt/rke2/bin"
_ARGUMENT = re.compile(r"[A-Za-z0-9_.:@-]+")


@dataclass(frozen=True)
class Answer:
    """What a command said: its argument vector, exit status and output."""

    argv: Tuple[str, ...]
    rc: int
    out: str
    err: str

    def record(self) -> str:
        """The answer as a snapshot keeps it."""
        return json.dumps({"argv": list(self.argv), "rc": self.rc, "stdout": self.out, "stderr": self.err}, indent=1, sort_keys=True) + "\n"


class Probe:
    """Asks one node. :ivar answers: file name below ``/.locality/probe`` to answer, for snapshots."""

    def __init__(self, sysroot: SysRoot, timeout: float = 30.0, programs: str = "") -> None:
        """:param programs: one more folder in which programs are looked for, before the others."""
        self._sysroot = sysroot
        self._timeout = timeout
        self._path = f"{programs}:{_SEARCH_PATH}" if programs else _SEARCH_PATH
        self.answers: Dict[str, Answer] = {}

    def ask(self, name: str, **arguments: str) -> Optional[Answer]:
        """The answer of a command of ``COMMANDS``; None where the command is not there, or did not end in time (a problem).

        :raises KeyError: not one of ``COMMANDS``, or an argument is missing; these are faults of the caller.
        """
        argv = tuple(part.format(**arguments) for part in COMMANDS[name])
        file = ".".join([name] + [arguments[key] for key in sorted(arguments)]) + ".json"
        if any(not _ARGUMENT.fullmatch(value) or value.startswith("-") for value in arguments.values()):
            self._sysroot.problem(f"{PROBE_DIR}/{name}", "was not asked: an argument holds characters that no interface or unit has")
            return None
        if file not in self.answers:
            answer = self._run(name, argv) if self._sysroot.live else self._recorded(file)
            if answer is None:
                return None
            self.answers[file] = answer
        return self.answers[file]

    def _run(self, name: str, argv: Tuple[str, ...]) -> Optional[Answer]:
        environment = {"PATH": self._path, "LC_ALL": "C", "LANG": "C"}
        program = next((path for path in (os.path.join(part, argv[0]) for part in self._path.split(":")) if os.access(path, os.X_OK)), None)
        if program is None:
            return None
        try:
            done = subprocess.run(  # pylint: disable=ansible-bad-function  # there is no AnsibleModule here: the boot program asks too
                [program, *argv[1:]], stdin=subprocess.DEVNULL, capture_output=True, env=environment,
                timeout=self._timeout, check=False,
            )
        except subprocess.TimeoutExpired:
            self._sysroot.problem(f"{PROBE_DIR}/{name}", f"'{' '.join(argv)}' did not answer within {self._timeout:g} seconds")
            return None
        except OSError as error:
            self._sysroot.problem(f"{PROBE_DIR}/{name}", f"'{' '.join(argv)}' could not be run: {error.strerror}")
            return None
        return Answer(argv, done.returncode, done.stdout.decode("utf-8", "replace"), done.stderr.decode("utf-8", "replace"))

    def _recorded(self, file: str) -> Optional[Answer]:
        path = f"{PROBE_DIR}/{file}"
        text = self._sysroot.text(path)
        if text is None:
            return None
        try:
            record = json.loads(text)
            argv: List[str] = record["argv"]
            answer = Answer(tuple(str(part) for part in argv), int(record["rc"]), record["stdout"], record["stderr"])
            if not isinstance(answer.out, str) or not isinstance(answer.err, str):
                raise TypeError("stdout and stderr are texts")
        except (ValueError, KeyError, TypeError) as error:
            self._sysroot.problem(path, f"is not a recorded answer: {type(error).__name__}")
            return None
        return answer


__all__ = ("COMMANDS", "PROBE_DIR", "Answer", "Probe")
