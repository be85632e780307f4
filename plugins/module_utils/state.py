# Copyright (c) 2026 The inferops.locality authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""State and platform of a node in one reading: what is running, what is configured to come back, and what the node can do."""

from __future__ import annotations

import re
import time
from typing import Any, Callable, Dict, List, Mapping, Optional

from ansible_collections.inferops.locality.plugins.module_utils import (
    boot_trial, irq, irq_targets, knobs, kubelet_args, kubelet_predict, pcie, platform, rke2_config, state_boot, state_knobs, state_pcie, state_strays,
    state_tasks,
)
from ansible_collections.inferops.locality.plugins.module_utils.probe import Probe
from ansible_collections.inferops.locality.plugins.module_utils.rke2_config import Rke2Config
from ansible_collections.inferops.locality.plugins.module_utils.state_knobs import Knobs
from ansible_collections.inferops.locality.plugins.module_utils.sysroot import SysRoot


def read_state(
    sysroot: SysRoot, probe: Optional[Probe] = None, watch: bool = False, softirq_interval: float = 0, pause: Callable[[float], None] = time.sleep,
) -> Dict[str, Any]:
    """The facts of ``locality_state``. Never raises for what a node holds; what could not be used is in ``problems``.

    :param watch: watch the threads of a running node for under a second, if it has isolated CPUs; no file tells what they do.
    :param softirq_interval: seconds over which softirqs are counted, on the live node; 0 for the counts since its boot.
    """
    probe = probe or Probe(sysroot)
    config = rke2_config.read(sysroot)
    release = platform.os_release(sysroot)
    debian = platform.is_debian(release)
    boot = state_boot.read_boot(sysroot, debian)
    nodes = sum(1 for name in sysroot.listdir("/sys/devices/system/node") if re.fullmatch(r"node\d+", name))
    pci = pcie.read_pci(sysroot, nodes or None)
    devices = _devices(pci)
    facts = platform.read_platform(sysroot, probe, boot, config, [device for device in devices if device["kind"] in ("nic", "rdma")])
    role = facts["rke2"]["role"]
    found = Knobs()
    boot_facts = state_knobs.read_kernel(sysroot, found, boot)
    state_knobs.read_sysctls(sysroot, found, boot)
    tuned = state_knobs.read_tuned(sysroot, found, facts["tuned"]["installed"], probe)
    state_knobs.read_written(sysroot, found, boot, tuned)
    state_knobs.read_units(sysroot, found, role)
    state_knobs.read_irqbalance(sysroot, found, debian)
    facts["pcie_ports"] = state_pcie.ports(pci)
    facts["guests"] = state_pcie.guests(sysroot)
    state_pcie.read_pcie(sysroot, found, pci, facts["kernel"], probe)
    irqs = state_knobs.read_interrupts(sysroot, found, devices)
    state_knobs.read_kubelet(sysroot, found, config, role, facts["rke2"]["data_dir"])
    state_knobs.read_runtime(sysroot, found)
    tasks = state_tasks.look(sysroot) if watch and sysroot.live else None
    checkpoints = _state_files(sysroot, found, config, facts["rke2"])
    return {
        "platform": facts,
        "running": dict(sorted(found.running.items())),
        "configured": dict(sorted(found.configured.items())),
        "foreign": sorted(found.foreign, key=lambda entry: (entry["knob"], entry["file"], entry["line"] or 0, entry["value"])),
        "irqs": irqs,
        "softirqs": _softirqs(sysroot, softirq_interval, pause),
        "tasks": tasks,
        "cpu_affinity": state_tasks.read_affinity(sysroot, role),
        "kubelet": {**_kubelet(config), **checkpoints, "runs": state_knobs.runs(sysroot, role)},
        "boot": boot_facts,
        "ours": _ours(sysroot, facts["tuned"]["profile_dir"]),
        "strays": state_strays.read_strays(sysroot, config, facts["tuned"]["profile_dir"]),
        "problems": list(sysroot.problems),
    }


def _ours(sysroot: SysRoot, profile_dir: Optional[str]) -> List[str]:
    """Files and links of this collection that are there. The mask of irqbalance is not told from one of somebody else."""
    paths = [
        knobs.FILE_GRUB, knobs.FILE_SYSCTL, knobs.FILE_TMPFILES, *knobs.FILES_SLICES, *knobs.FILES_MEMLOCK, knobs.FILE_IRQBALANCE, *knobs.FILES_IRQ_SERVICE,
        *knobs.LINKS_IRQ_SERVICE, knobs.FILE_KUBELET, *knobs.FILES_FIRST_START, boot_trial.FILE_SCRIPT, boot_trial.FILE_SERVICE, boot_trial.FILE_TIMER,
        boot_trial.FILE_WANTS, boot_trial.FILE_WATCHDOG,
    ]
    if profile_dir is not None:
        paths.append(f"{profile_dir}/{knobs.TUNED_PROFILE}/tuned.conf")
    found = [path for path in paths if sysroot.exists(path) or sysroot.readlink(path) is not None]
    for folder in (f"/etc/{knobs.OWNER}", f"/usr/local/libexec/{knobs.OWNER}", knobs.DIR_STATE):
        found += [f"{folder}/{name}" for name in sysroot.listdir(folder)]
    if profile_dir is not None and (sysroot.text(knobs.FILE_TUNED_ACTIVE) or "").split() == [knobs.TUNED_PROFILE]:
        found.append(knobs.FILE_TUNED_ACTIVE)
    return sorted(found)


def _devices(pci: pcie.Pci) -> List[Mapping[str, Any]]:
    """Devices whose interrupts may be placed."""
    return [
        {"address": device.address, "kind": device.kind, "interfaces": [interface.name for interface in device.interfaces]}
        for device in pci.devices if device.kind in irq_targets.CLASSES
    ]


def _softirqs(sysroot: SysRoot, interval: float, pause: Callable[[float], None]) -> Dict[str, Any]:
    # below another root nothing counts
    if interval > 0 and sysroot.live:
        return {**irq.count_softirqs(sysroot, interval, pause), "seconds": interval}
    return {**irq.read_softirqs(sysroot), "seconds": None}


def _kubelet(config: Rke2Config) -> Dict[str, Any]:
    args: Dict[str, List[str]] = {}
    for arg in config.kubelet_args:
        args.setdefault(arg.flag, []).append(arg.value)
    return {
        "args": args,
        "args_sources": [{"flag": arg.flag, "value": arg.value, "file": arg.file, "line": arg.line} for arg in config.kubelet_args],
        "files": config.files,
    }


def _state_files(sysroot: SysRoot, found: Knobs, config: Rke2Config, rke2: Mapping[str, Any]) -> Dict[str, Any]:
    """The kubelet's checkpoint files, judged against what it will start with, and the machine they were compared with."""
    # Without the flags the kubelet's own defaults hold.
    wanted = {knob: found.configured[knob]["value"] for knob in kubelet_args.FLAGS.values()} if config.complete else None
    machine = kubelet_predict.read_machine(sysroot, rke2["minor"], kubelet_args.gates(config))
    root_dir = rke2["kubelet_root_dir"]
    files = kubelet_predict.read_files(sysroot, root_dir, rke2["minor"])
    prediction = kubelet_predict.predict(files, wanted, machine)
    # A directory that may not be entered hides whether there are files at all.
    unread = any(problem["file"].startswith(root_dir) and "cannot be" in problem["reason"] for problem in sysroot.problems)
    if wanted is not None and not unread:
        found.configure("kubelet.state_files", kubelet_predict.summary(prediction), root_dir)
    judged = kubelet_predict.judge(files, prediction)
    return {
        "state_files": {name: {**entry, "content": kubelet_predict.content(files[name])} for name, entry in judged.items()},
        "machine": machine.to_facts(),
    }


__all__ = ("read_state",)
