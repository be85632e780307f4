# Copyright (c) 2026 The inferops.locality authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read the kubelet's checkpoints, and take away those with which it would not start: with a copy, while it is stopped, and not under pinned containers."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from typing import Any, Dict, List, Mapping, Optional

from ansible_collections.inferops.locality.plugins.module_utils import knobs, kubelet_args, kubelet_live, kubelet_predict, rke2_config
from ansible_collections.inferops.locality.plugins.module_utils.kubelet_predict import Checkpoint, Prediction
from ansible_collections.inferops.locality.plugins.module_utils.node_files import Entry, Files
from ansible_collections.inferops.locality.plugins.module_utils.sysroot import SysRoot

DIR_SAVED = f"{knobs.DIR_STATE}/saved"


class CheckpointError(Exception):
    """Why nothing was removed; all reasons in one message."""


@dataclass(frozen=True)
class Look:
    """A node's checkpoints as they were found.

    :ivar alive: containers with processes; None where that cannot be told.
    :ivar containers: what has CPUs of its own in the CPU checkpoint, of :func:`kubelet_live.living`; ``alive`` is None where that cannot be told.
    """

    files: Mapping[str, Checkpoint]
    prediction: Prediction
    alive: Optional[List[kubelet_live.Container]]
    containers: List[Dict[str, Any]]

    def result(self) -> Dict[str, Any]:
        """``{cpu, memory, would_start, remove, containers}``."""
        judged = kubelet_predict.judge(self.files, self.prediction)
        return {
            **judged, "would_start": {"ok": self.prediction.starts, "reasons": self.prediction.reasons}, "remove": self.prediction.remove,
            "containers": self.containers,
        }


def check(wanted: Mapping[str, Any]) -> List[str]:
    """What is wrong with the names of wanted knobs."""
    return [f"wanted: found the knob '{name}', wanted one of docs/knobs.md such as kubelet.cpu_manager_policy" for name in wanted if name not in knobs.KNOBS]


def look(sysroot: SysRoot, root_dir: Optional[str] = None, wanted: Optional[Mapping[str, Any]] = None) -> Look:
    """Read both checkpoints and say whether the kubelet would start. Never raises for what a node holds.

    :param root_dir: the kubelet's ``--root-dir``; None for that of RKE2's configuration.
    :param wanted: knobs to values, as of a plan; None for what RKE2's configuration gives its kubelet now.
    """
    config = rke2_config.read(sysroot)
    reason = ""
    if wanted is None:
        wanted, reason = kubelet_args.configured(sysroot, config)
    minor = kubelet_args.minor(kubelet_args.version(sysroot, config))
    machine = kubelet_predict.read_machine(sysroot, minor, kubelet_args.gates(config))
    files = kubelet_predict.read_files(sysroot, root_dir or kubelet_args.root_dir(config), minor)
    prediction = kubelet_predict.predict(files, wanted, machine)
    if reason:
        prediction.untold.append(f"{reason}: only the files themselves are judged")
    gone, strange = kubelet_args.unknown_flags(config, minor)
    prediction.configuration.extend(f"kubelet-arg: found --{flag}, which Kubernetes 1.{minor} does not have: take it out" for flag in gone)
    for flag in strange:
        prediction.untold.append(f"kubelet-arg: whether the kubelet has the argument --{flag} cannot be told")
    alive = kubelet_live.containers(sysroot)
    containers = kubelet_live.living(files["cpu"], alive or [])
    if alive is None:
        containers = [{**each, "alive": None} for each in containers]
    return Look(files, prediction, alive, containers)


def refusal(sysroot: SysRoot, found: Look, force: bool = False) -> List[str]:
    """Why the files that must go may not be removed now; empty where they may. Below another root nothing runs.

    :param force: remove them although containers with CPUs or memory of their own may be alive.
    """
    if not found.prediction.remove or not sysroot.live:
        return []
    reasons = []
    process = kubelet_live.kubelet_process(sysroot)
    if process is not None:
        reasons.append(f"the kubelet runs (process {process}) and would write them again: stop RKE2 first")
    if found.alive is None and not force:
        reasons.append("whether containers are alive cannot be told (no cgroup v2): set force if none with CPUs or memory of its own is")
    pinned = [each for each in found.containers if each["alive"]]
    if pinned and not force:
        names = ", ".join(f"{each['container'] or 'all'} of pod {each['pod'] or 'unknown'} on CPUs {each['cpus'] or 'unknown'}" for each in pinned)
        reasons.append(f"containers with CPUs of their own are alive, and would be moved by the kubelet: {names}. Drain the node, end these pods, or set force")
    # A container with a number of CPUs that is not whole has memory of its own all the same.
    holders = kubelet_live.memory_holders(found.files["memory"], found.alive or []) if "memory" in found.prediction.refused else []
    if holders and not force:
        reasons.append(f"pods with memory of their own are alive, and the kubelet would give it to others: {', '.join(holders)}. "
                       "Drain the node, end these pods, or set force")
    return reasons


def removal(sysroot: SysRoot, found: Look, now: Optional[float] = None) -> Files:
    """Decide the copies and the removals; nothing is written yet.

    :param now: seconds since the epoch, for the names of the copies.
    :raises FilesError: a file cannot be read, or a link leads out of the root.
    """
    files = Files(sysroot)
    stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(now))
    for name in found.prediction.refused:
        checkpoint = found.files[name]
        files.own(_free(sysroot, f"{DIR_SAVED}/{os.path.basename(checkpoint.file)}.{stamp}"), Entry(checkpoint.data, 0o600))
        files.own(checkpoint.file, Entry())
    return files


def _free(sysroot: SysRoot, path: str) -> str:
    """A path at which nothing is yet: a copy is never written over another."""
    names = [path, *(f"{path}.{number}" for number in range(1, 1000))]
    return next((name for name in names if not sysroot.exists(name) and sysroot.readlink(name) is None), names[-1])


def remove(sysroot: SysRoot, found: Look, files: Files) -> None:
    """Write the copies and remove the files, all or none of them.

    :raises CheckpointError: a file is not what was judged, or the kubelet was started meanwhile; nothing was changed.
    :raises FilesError: a file cannot be written or removed; all are as before.
    """
    if not files.changed():
        return
    fresh = SysRoot(sysroot.root)
    changed = any(fresh.data(checkpoint.file) != checkpoint.data for checkpoint in found.files.values() if checkpoint.data is not None)
    if changed or (sysroot.live and kubelet_live.kubelet_process(sysroot) is not None):
        raise CheckpointError("a kubelet was started while its files were looked at: nothing was removed, stop RKE2 and run again")
    files.apply()


def saved(files: Files) -> List[str]:
    """Paths of the copies."""
    return [path for path in files.changed() if path.startswith(f"{DIR_SAVED}/")]


__all__ = ("CheckpointError", "DIR_SAVED", "Look", "check", "look", "refusal", "removal", "remove", "saved")
