# Copyright (c) 2026 The inferops.locality authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""From a machine's topology to the group variables of its chassis: what was measured, and the default policy to edit."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from ansible_collections.inferops.locality.plugins.module_utils import cpulist

MODEL = re.compile(r"[A-Za-z0-9_]+\Z")
GIB = 2**30

_POLICY = """\
# What you want of this chassis. Everything here is the default: delete what you do not change.
locality_policy:
  # CPUs for the system, the kubelet and interrupts: whole cores on every NUMA node. Or {cores: N} in all,
  # {profile: minimal|standard|observability|full} for at least 8|12|16|20 CPUs, or {cpus: "0-1,64-65"}.
  housekeeping: {cores_per_numa_node: 1}

  isolation:
    # isolated takes the pods' CPUs out of the scheduler's balancing: only for programs that pin every thread themselves.
    scheduler: balanced
    # Keep the kernel's own (managed) interrupts off the pods' CPUs where that is possible.
    managed_irqs: true
    # nohz_full: pays only with one runnable thread per CPU, and makes every system call dearer.
    tickless: false
    # Keep system.slice, user.slice and init.scope on the housekeeping CPUs.
    system_slices: true

  # Huge pages by size and NUMA node, such as {"1Gi": {"0": 16, "1": 16}}. Taken from the memory of pods.
  hugepages: {}

  # Reserved on the node as a whole, spread over its NUMA nodes.
  memory: {system_reserved: 8Gi, kube_reserved: 4Gi, eviction_hard: 500Mi}

  cpu_policy: kubelet-static
  kubelet:
    topology_manager_policy: single-numa-node
    topology_manager_scope: pod
    memory_manager_policy: Static
    cpu_manager_options: [full-pcpus-only]
    labels: {}
    taints: []

  # null leaves a setting alone.
  host:
    thp: madvise
    thp_defrag: madvise
    swappiness: 0
    numa_balancing: 0
    governor: performance
    # Longest wake-up from idle that is accepted, in microseconds.
    max_latency_us: null
    # Pods inherit it; RDMA needs it.
    memlock: infinity
    irqbalance: disabled
    # A parent brings its own boot arguments and memory settings.
    tuned_parent: null

  # Kinds (nic, rdma, nvme, gpu, accelerator) or PCI addresses whose interrupts are placed.
  irq: {devices: [nic], strategy: spread, queues: null, rps: false}

  # acs_off needs a justification and an owner: it weakens the isolation between devices.
  pcie: {iommu: null, acs_off: [], justification: null, owner: null, force: false, min_link_width: null}

  # Cilium; null leaves it as it is. devices: uplink (the interfaces of the default route) keeps it off the fabric's NICs.
  network: {datapath_mode: null, big_tcp: null, devices: null, xdp: null, routing: null, bpf_maps: null, clock_probe: null, bandwidth_manager: null}
  dra: {dranet: null, gpus: device-plugin, align: auto, pairs: [1, 2, 4, 8], gpu_class: gpu.nvidia.com, nic_class: dranet-rdma, template: gpu-nic,
        namespaces: [], uplinks: [], network_config: {}}
"""

_HEAD = """\
---
# Chassis {model}, measured from {source}.
# A node of this group whose hardware differs is refused before anything is touched.
"""


def _devices(topology: Mapping[str, Any], kinds: tuple[str, ...]) -> list[Mapping[str, Any]]:
    return [device for device in topology.get("devices") or [] if device.get("kind") in kinds and not device.get("physfn")]


def measure(topology: Mapping[str, Any]) -> dict[str, Any]:
    """``locality_chassis`` of this machine. Memory in whole Gi, rounded down; what is not known is left out."""
    gpus, nics = _devices(topology, ("gpu", "accelerator")), _devices(topology, ("nic", "rdma"))
    result: dict[str, Any] = {}
    if topology.get("sockets"):
        result["sockets"] = len(topology["sockets"])
    threads = (topology.get("cpus") or {}).get("threads_per_core")
    if threads:
        result["threads_per_core"] = threads
    if topology.get("cores"):
        result["cores"] = len(topology["cores"])
    result["memory_tolerance_percent"] = 5
    result["gpus"] = len(gpus)
    numa_nodes = {}
    for node in topology.get("numa_nodes") or []:
        entry: dict[str, Any] = {}
        if node.get("memory_bytes") and node["memory_bytes"] >= GIB:
            entry["memory"] = f"{node['memory_bytes'] // GIB}Gi"
        entry["gpus"] = sum(1 for device in gpus if device.get("numa_node") == node["id"])
        entry["nics"] = sum(1 for device in nics if device.get("numa_node") == node["id"])
        numa_nodes[str(node["id"])] = entry
    if numa_nodes:
        result["numa_nodes"] = numa_nodes
    slots = []
    for device in nics:
        speeds = [port["speed_mbps"] for port in device.get("interfaces") or [] if port.get("speed_mbps")]
        slots.append({"slot": device["address"], **({"speed_gbps": max(speeds) // 1000} if speeds and max(speeds) >= 1000 else {})})
    if slots:
        result["nics"] = slots
    return result


def model_name(topology: Mapping[str, Any]) -> str:
    """A name for a chassis that has none yet, from what is in it: ``2s_128cpu_4gpu``."""
    online = cpulist.from_list((topology.get("cpus") or {}).get("online") or "")
    gpus = _devices(topology, ("gpu", "accelerator"))
    return f"{len(topology.get('sockets') or [])}s_{len(online)}cpu" + (f"_{len(gpus)}gpu" if gpus else "")


def _flow(value: Any) -> str:
    """A small value in one line of YAML."""
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{key}: {_flow(item)}" for key, item in value.items()) + "}"
    if isinstance(value, str) and re.fullmatch(r"[A-Za-z0-9.]+[A-Za-z]", value):
        return value
    return json.dumps(value)


def render(chassis: Mapping[str, Any], model: str, source: str) -> str:
    """The text of ``group_vars/chassis_<model>.yml``. :raises ValueError: the model cannot be part of a group's name."""
    if not MODEL.match(model):
        raise ValueError(f"chassis: found '{model}', wanted letters, digits and _ (it becomes a part of a group's name)")
    lines = [_HEAD.format(model=model, source=" ".join(source.split())) + "locality_chassis:"]
    for key, value in chassis.items():
        if key == "numa_nodes":
            lines += [f"  {key}:"] + [f'    "{node}": {_flow(entry)}' for node, entry in value.items()]
        elif key == "nics":
            lines += [f"  {key}:"] + [f"    - {_flow(entry)}" for entry in value]
        else:
            lines.append(f"  {key}: {_flow(value)}")
    return "\n".join(lines) + "\n\n" + _POLICY


__all__ = ("MODEL", "measure", "model_name", "render")
