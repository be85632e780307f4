# Copyright (c) 2026 The inferops.locality authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Paper nodes: write the files of a node, as its kernel would show them, from a short description.

The demo inventory and the unit tests use trees made here. A tree holds everything the two facts modules read below a
root: sysfs (CPUs, NUMA nodes, PCI, network, interrupts, memory settings), procfs, the configuration files named in the
description, and recorded command answers under ``/.locality/probe``. The same description gives the same tree, byte for byte.

Description (a mapping; only ``cpus`` is required)::

    name: any text
    plugin, chassis, host, trees: # read by the inventory plugin of the same name, which makes a description a host
    cpus:
      sockets: 2                 # a regular machine: all four counts are at least 1, threads default 1
      numa_per_socket: 1         # default 1
      cores_per_numa: 32
      threads: 2
      numbering: siblings-last   # siblings-last: 0..N-1 are the first threads, socket by socket, then the second ones
                                 # adjacent: the threads of a core have neighbouring numbers
                                 # interleaved-sockets, interleaved: cores are dealt to the sockets (or NUMA nodes) in turn, siblings last
      order: [..]                # instead of numbering: the number of each thread, core by core
      cores: [{cpus: "0,64", socket: 0, numa: 0, core_id: 0}]   # instead of the counts: any machine; socket and numa may be null
      offline: "5,7"             # CPU list or list of numbers
      possible_extra: 0          # so many numbers above the highest are possible, but not present
      smt: on                    # on | off | forceoff | notsupported | absent; default on or notsupported
      vendor: GenuineIntel       # /proc/cpuinfo
    numa: none                   # no node directory at all; or, by node id (default: one node for each group of cores):
      "0": {memory: 512Gi, hugepages: {"1Gi": {total: 16, free: 16}}}
      "4": {memory: 256Gi, cpus: none}          # none, or a CPU list that replaces the node's own (also one that lies)
    distances: {local: 10, socket: 12, remote: 21, memory: 24}   # or a list of rows, in the order of the node ids
    pci:                         # trees; a bridge has children
      - host_bridge: "pci0000:15"
        numa: 0                  # null: the firmware told none (-1)
        children:
          - port: root           # root | switch_up | switch_down | pci (a conventional bridge)
            address: "0000:15:01.0"
            acs: on              # on (SV RR CR UF) | off | none (no such capability) | [names]
            config: 4096         # bytes of config space: 4096 | 256 | 64 | none
            children:
              - {gpu: nvidia-h100, address: "0000:18:00.0"}
              - {nic: mlx5, address: "0000:1a:00.0", interface: eth0, speed_mbps: 400000, mtu: 9000, rdma: [mlx5_0], queues: 16, irqs: 17}
                # a NIC with queues answers `ethtool -l` too; max_queues is 63 unless given. All answer `ip link`: tso_max is the largest packet
                # in bytes, as the model's driver has it unless given; null: iproute2 is too old to say. With uplink: true the default route uses it
              - {infiniband: mlx5, address: "0000:1b:00.0", interface: ib0, rdma: [mlx5_1]}
              - {nvme: samsung-pm9a3, address: "0000:1c:00.0", name: nvme0, irqs: 17}
              - {bmc: aspeed, address: "0000:03:00.0"}
              - {accelerator: habana-gaudi2, address: "0000:1d:00.0"}
              - {other: {class: "0x088000", vendor: "0x8086", device: "0x0b00"}, address: "0000:1e:00.0"}
      # every function may have: numa, driver, link {speed, width, max_speed, max_width} or none, physfn (address), config,
      # aspm (list of L0s, L1; default none), relaxed_ordering (default true): what its PCI Express capability says,
      # msi {cpus: list, effective: list} (where its interrupts are asked to go and go; default: spread over its NUMA node)
    kernel: {release: 6.12.57, command_line: "...", version: "..."}
    iommu: pt                    # pt | dma | off (default off)
    running:
      thp: madvise               # and thp_defrag: the word in brackets
      sysctls: {vm.swappiness: 60}
      governor: performance      # writes cpufreq; cpuidle: [{name, latency, disable}] writes idle states
      isolated: ""               # and nohz_full: the kernel's lists
      workqueue: "0-127"         # CPU list of the unbound workqueues; default all
      default_affinity: "0-127"  # of interrupts
      softirqs: {net_rx: {"0": 100}, net_tx: {}}
    cgroup: v2                   # v2 | v1 | none
    files: {/etc/os-release: "text"}
    dirs: [/etc/sysctl.d]
    links: {/etc/systemd/system/x.service: /dev/null}
    omit: [/sys/devices/system/cpu/online]       # files or directories taken away at the end
    pad: [/sys/devices/system/cpu/online]        # files that old tools captured: padded with NUL bytes to 4096
    probe: {name: {argv: [..], rc: 0, stdout: "", stderr: ""}}
"""

from __future__ import annotations

import json
import os
import re
import shutil
import struct
from pathlib import Path
from typing import Any, Iterable

import yaml

from ansible_collections.inferops.locality.plugins.module_utils import cpulist, quantity

_KEYS = frozenset(
    (
        "name",
        "plugin",
        "chassis",
        "host",
        "trees",
        "cpus",
        "numa",
        "distances",
        "pci",
        "kernel",
        "iommu",
        "running",
        "cgroup",
        "files",
        "dirs",
        "links",
        "omit",
        "pad",
        "probe",
    )
)
_CPU_KEYS = frozenset(
    (
        "sockets",
        "numa_per_socket",
        "cores_per_numa",
        "threads",
        "numbering",
        "order",
        "cores",
        "offline",
        "possible_extra",
        "smt",
        "vendor",
        "model",
    )
)
_RUNNING_KEYS = frozenset(
    ("thp", "thp_defrag", "sysctls", "governor", "cpuidle", "isolated", "nohz_full", "workqueue", "default_affinity", "softirqs")
)
_COMMON_DEVICE_KEYS = frozenset(("address", "numa", "driver", "link", "physfn", "config", "msi", "irqs", "acs", "aspm", "relaxed_ordering", "id", "class"))
_KIND_KEYS = {
    "port": frozenset(("children",)),
    "gpu": frozenset(),
    "nic": frozenset(("interface", "speed_mbps", "mtu", "mac", "rdma", "queues", "max_queues", "tso_max", "uplink")),
    "infiniband": frozenset(("interface", "speed_mbps", "mtu", "mac", "rdma", "queues", "max_queues", "tso_max", "uplink")),
    "nvme": frozenset(("name",)),
    "bmc": frozenset(),
    "accelerator": frozenset(),
    "other": frozenset(),
}
_ADDRESS = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]\Z")
_HOST_BRIDGE = re.compile(r"pci[0-9a-f]{4,8}:[0-9a-f]{2}\Z")

# model: (class, vendor, device, driver, link speed in GT/s, link width)
_MODELS: dict[str, dict[str, tuple[str, str, str, str | None, float, int]]] = {
    "gpu": {
        "nvidia-a100": ("0x030200", "0x10de", "0x20b2", "nvidia", 16.0, 16),
        "nvidia-h100": ("0x030200", "0x10de", "0x2330", "nvidia", 32.0, 16),
        "nvidia-l40s": ("0x030200", "0x10de", "0x26b9", "nvidia", 16.0, 16),
        "nvidia-rtx-4090": ("0x030000", "0x10de", "0x2684", "nvidia", 16.0, 16),
        "amd-mi300x": ("0x120000", "0x1002", "0x74a1", "amdgpu", 32.0, 16),
        "amd-w7900": ("0x030000", "0x1002", "0x7448", "amdgpu", 16.0, 16),
        "intel-max-1550": ("0x038000", "0x8086", "0x0bd5", "i915", 32.0, 16),
    },
    "nic": {
        "mlx5": ("0x020000", "0x15b3", "0x1021", "mlx5_core", 32.0, 16),
        "mlx5-cx6": ("0x020000", "0x15b3", "0x101d", "mlx5_core", 16.0, 16),
        "ice": ("0x020000", "0x8086", "0x1592", "ice", 16.0, 16),
        "i40e": ("0x020000", "0x8086", "0x1583", "i40e", 8.0, 8),
        "bnxt": ("0x020000", "0x14e4", "0x1751", "bnxt_en", 16.0, 16),
        "ena": ("0x020000", "0x1d0f", "0xec20", "ena", 8.0, 8),
        "igb": ("0x020000", "0x8086", "0x1521", "igb", 5.0, 4),
        "virtio": ("0x020000", "0x1af4", "0x1041", "virtio-pci", 0.0, 0),
    },
    "infiniband": {"mlx5": ("0x020700", "0x15b3", "0x1021", "mlx5_core", 32.0, 16)},
    "nvme": {
        "samsung-pm9a3": ("0x010802", "0x144d", "0xa80a", "nvme", 16.0, 4),
        "kioxia-cm7": ("0x010802", "0x1e0f", "0x0013", "nvme", 32.0, 4),
    },
    "bmc": {
        "aspeed": ("0x030000", "0x1a03", "0x2000", "ast", 0.0, 0),
        "matrox": ("0x030000", "0x102b", "0x0536", "mgag200", 0.0, 0),
    },
    "accelerator": {
        "habana-gaudi2": ("0x120000", "0x1da3", "0x1020", "habanalabs", 16.0, 16),
        "google-tpu": ("0x120000", "0x1ae0", "0x0063", None, 16.0, 16),
    },
    "port": {
        "root": ("0x060400", "0x8086", "0x352a", "pcieport", 32.0, 16),
        "switch_up": ("0x060400", "0x1000", "0xc030", "pcieport", 32.0, 16),
        "switch_down": ("0x060400", "0x1000", "0xc030", "pcieport", 32.0, 16),
        "pci": ("0x060400", "0x1a03", "0x1150", None, 0.0, 0),
    },
}
# tso_max_size of the drivers that are known to take more than 64 KiB.
_TSO_MAX = {"mlx5": 524280, "mlx5-cx6": 524280, "ice": 131072}
# Types of the PCI Express capability (PCIe base specification, Device/Port Type).
_PORT_TYPES = {"root": 4, "switch_up": 5, "switch_down": 6}
_ACS_BITS = {"SV": 0, "TB": 1, "RR": 2, "CR": 3, "UF": 4, "EC": 5, "DT": 6}
_ACS_ON = ("SV", "RR", "CR", "UF")

_THP_WORDS = {
    "thp": ("enabled", ("always", "madvise", "never")),
    "thp_defrag": ("defrag", ("always", "defer", "defer+madvise", "madvise", "never")),
}
_SOFTIRQS = ("HI", "TIMER", "NET_TX", "NET_RX", "BLOCK", "IRQ_POLL", "TASKLET", "SCHED", "HRTIMER", "RCU")


def load(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Read a description from a YAML file. Raises ValueError that names the file when it is not a description."""
    try:
        with open(path, encoding="utf-8") as stream:
            description = yaml.safe_load(stream)
    except OSError as exc:
        raise ValueError(f"{path}: {exc.strerror}") from exc
    except (yaml.YAMLError, UnicodeDecodeError) as exc:
        raise ValueError(f"{path}: not YAML: {exc}") from exc
    try:
        _plan_cpus(_checked(description))
    except ValueError as exc:
        raise ValueError(f"{path}: {exc}") from exc
    return description


def build(description: dict[str, Any], target: str | os.PathLike[str]) -> None:
    """Write the tree of ``description`` to ``target``, which must not exist yet.

    The tree is written beside the target and renamed at the end, so a target that exists is complete. Raises ValueError
    that names the key of a bad description, or the target that exists.
    """
    _checked(description)
    target = Path(target)
    if target.exists() or target.is_symlink():
        raise ValueError(f"{target}: exists already")
    partial = target.with_name(f".{target.name}.partial")
    if partial.exists():
        shutil.rmtree(partial)
    partial.mkdir(parents=True)
    try:
        _Node(description, _Writer(partial)).write()
    except BaseException:
        shutil.rmtree(partial, ignore_errors=True)
        raise
    partial.rename(target)


# -- checks ----------------------------------------------------------------------------------------------------------


def _mapping(value: Any, name: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ValueError(f"{name}: a mapping is wanted, found {value!r}")
    return value


def _known(value: dict[str, Any], keys: Iterable[str], name: str) -> None:
    unknown = sorted(str(key) for key in value if key not in keys)
    if unknown:
        raise ValueError(f"{name}: unknown key {', '.join(unknown)}; known are {', '.join(sorted(keys))}")


def _count(value: Any, name: str, least: int = 1) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise ValueError(f"{name}: a number of at least {least} is wanted, found {value!r}")
    return value


def _cpus(value: Any, name: str) -> frozenset[int]:
    """A CPU list, a list of numbers, ``none`` or null as a set."""
    if value is None or value == "none":
        return frozenset()
    if isinstance(value, int) and not isinstance(value, bool):
        return frozenset((value,))
    if isinstance(value, list):
        return frozenset(_count(item, name, 0) for item in value)
    if isinstance(value, str):
        try:
            return frozenset(cpulist.from_list(value))
        except cpulist.CpuListError as exc:
            raise ValueError(f"{name}: {exc}") from exc
    raise ValueError(f"{name}: a CPU list is wanted, found {value!r}")


def _bytes(value: Any, name: str) -> int:
    try:
        return quantity.to_bytes(value)
    except quantity.QuantityError as exc:
        raise ValueError(f"{name}: {exc}") from exc


def _onoff(value: Any) -> Any:
    """YAML 1.1 reads a bare ``on`` as true."""
    return {True: "on", False: "off"}.get(value, value) if isinstance(value, bool) else value


def _checked(description: Any) -> dict[str, Any]:
    _mapping(description, "description")
    _known(description, _KEYS, "description")
    if "cpus" not in description:
        raise ValueError("cpus: missing")
    _known(_mapping(description["cpus"], "cpus"), _CPU_KEYS, "cpus")
    _known(_mapping(description.get("running") or {}, "running"), _RUNNING_KEYS, "running")
    for path in list(description.get("files") or {}) + list(description.get("dirs") or []) + list(description.get("links") or {}):
        if not str(path).startswith("/") or ".." in str(path).split("/"):
            raise ValueError(f"files, dirs, links: {path!r} is no absolute path")
    return description


# -- CPUs and NUMA nodes -----------------------------------------------------------------------------------------------


class _Core:
    def __init__(self, cpus: list[int], socket: int | None, numa: int | None, core_id: int) -> None:
        self.cpus = cpus
        self.socket = socket
        self.numa = numa
        self.core_id = core_id


def _numa_ids(description: dict[str, Any], default: int) -> list[int]:
    """Ids of the NUMA nodes that hold CPUs of their own, lowest first."""
    numa = description.get("numa")
    if numa is None or numa == "none":
        return list(range(default))
    ids = []
    for key, node in _mapping(numa, "numa").items():
        if not str(key).isdigit():
            raise ValueError(f"numa: {key!r} is no node id")
        _known(_mapping(node, f"numa.{key}"), ("memory", "cpus", "hugepages", "free"), f"numa.{key}")
        if node.get("cpus", "own") in ("own", None) or node.get("cpus") not in ("none", ""):
            ids.append(int(key))
    return sorted(ids)


def _plan_cpus(description: dict[str, Any]) -> list[_Core]:
    """The cores with their CPU numbers."""
    cpus = description["cpus"]
    if "cores" in cpus:
        cores = []
        for index, core in enumerate(cpus["cores"]):
            _known(_mapping(core, f"cpus.cores[{index}]"), ("cpus", "socket", "numa", "core_id"), f"cpus.cores[{index}]")
            cores.append(
                _Core(sorted(_cpus(core.get("cpus"), f"cpus.cores[{index}].cpus")), core.get("socket"), core.get("numa"), core.get("core_id", index))
            )
        numbers = [cpu for core in cores for cpu in core.cpus]
        if not numbers or len(set(numbers)) != len(numbers):
            raise ValueError("cpus.cores: each CPU belongs to exactly one core, and there is at least one")
        return cores
    sockets = _count(cpus.get("sockets"), "cpus.sockets")
    per_socket = _count(cpus.get("numa_per_socket", 1), "cpus.numa_per_socket")
    per_numa = _count(cpus.get("cores_per_numa"), "cpus.cores_per_numa")
    threads = _count(cpus.get("threads", 1), "cpus.threads")
    nodes = sockets * per_socket
    ids = _numa_ids(description, nodes)
    if len(ids) != nodes:
        raise ValueError(f"numa: {nodes} nodes with CPUs are wanted by cpus, found {len(ids)}")
    total = nodes * per_numa
    number = _numbering(cpus, sockets, nodes, per_numa, threads)
    cores = []
    for index in range(total):
        node = index // per_numa
        socket = node // per_socket
        cores.append(_Core([number[index * threads + thread] for thread in range(threads)], socket, ids[node], index % (per_socket * per_numa)))
    return cores


def _numbering(cpus: dict[str, Any], sockets: int, nodes: int, per_numa: int, threads: int) -> list[int]:
    """The number of each thread, core by core."""
    total = nodes * per_numa
    if "order" in cpus:
        order = cpus["order"]
        if not isinstance(order, list) or len(set(order)) != total * threads or len(order) != total * threads:
            raise ValueError(f"cpus.order: {total * threads} different numbers are wanted")
        return [_count(item, "cpus.order", 0) for item in order]
    kind = cpus.get("numbering", "siblings-last")
    if kind == "adjacent":
        return list(range(total * threads))
    groups = {"siblings-last": 1, "interleaved-sockets": sockets, "interleaved": nodes}.get(kind)
    if groups is None:
        raise ValueError(f"cpus.numbering: {kind!r} is none of siblings-last, adjacent, interleaved-sockets, interleaved")
    each = total // groups
    return [(core % each) * groups + core // each + thread * total for core in range(total) for thread in range(threads)]


# -- writing -----------------------------------------------------------------------------------------------------------


class _Writer:
    """Writes files below one directory; paths are those of the node."""

    def __init__(self, root: Path) -> None:
        self.root = str(root)
        self._made: set[str] = set()

    def place(self, path: str) -> str:
        return self.root + path

    def dir(self, path: str) -> None:
        if path not in self._made:
            os.makedirs(self.root + path, exist_ok=True)
            self._made.add(path)

    def raw(self, path: str, data: bytes, mode: int | None = None) -> None:
        self.dir(path.rpartition("/")[0])
        with open(self.root + path, "wb") as stream:
            stream.write(data)
        if mode is not None:
            os.chmod(self.root + path, mode)

    def text(self, path: str, text: Any, mode: int | None = None) -> None:
        """One value with a newline, as the kernel prints it."""
        self.raw(path, f"{text}\n".encode(), mode)

    def link(self, path: str, to: str) -> None:
        """A relative link from one place of the node to another, as sysfs has them."""
        directory = path.rpartition("/")[0]
        self.dir(directory)
        os.symlink(os.path.relpath(to, directory), self.root + path)


class _Node:
    """One node while it is written."""

    def __init__(self, description: dict[str, Any], writer: _Writer) -> None:
        self.description = description
        self.out = writer
        self.cores = _plan_cpus(description)
        cpus = description["cpus"]
        self.present = frozenset(cpu for core in self.cores for cpu in core.cpus)
        self.offline = _cpus(cpus.get("offline"), "cpus.offline")
        if not self.offline <= self.present:
            raise ValueError(f"cpus.offline: {cpulist.to_list(self.offline - self.present)} are no CPUs of this machine")
        self.online = self.present - self.offline
        if not self.online:
            raise ValueError("cpus.offline: no CPU is left online")
        extra = _count(cpus.get("possible_extra", 0), "cpus.possible_extra", 0)
        self.possible = self.present | frozenset(range(max(self.present) + 1, max(self.present) + 1 + extra))
        self.width = max(self.possible) + 1
        self.node_cpus: dict[int, frozenset[int]] = {}
        self.node_socket: dict[int, int | None] = {}
        self._plan_numa()
        self.running = description.get("running") or {}
        self.iommu = _onoff(description.get("iommu", "off"))
        if self.iommu not in ("pt", "dma", "off"):
            raise ValueError(f"iommu: {self.iommu!r} is none of pt, dma, off")
        self.next_irq = 64
        self.next_group = 0
        self.irqs: list[tuple[int, str, int]] = []
        self.addresses: dict[str, str] = {}
        self.physfns: list[tuple[str, str]] = []
        self.macs = 0
        self.probes: dict[str, dict[str, Any]] = {}
        self.uplinks: list[str] = []
        self.page_totals: dict[str, list[int]] = {}

    def _plan_numa(self) -> None:
        numa = self.description.get("numa")
        if numa == "none":
            return
        own: dict[int, set[int]] = {}
        for core in self.cores:
            if core.numa is not None:
                own.setdefault(core.numa, set()).update(cpu for cpu in core.cpus if cpu in self.online)
                self.node_socket.setdefault(core.numa, core.socket)
        ids = sorted(int(key) for key in numa) if numa else sorted(own)
        missing = sorted(set(own) - set(ids))
        if missing:
            raise ValueError(f"numa: node {missing[0]} has CPUs and is not described")
        for node in ids:
            asked = self._numa(node).get("cpus", "own")
            self.node_cpus[node] = frozenset(own.get(node, ())) if asked in ("own", None) else _cpus(asked, f"numa.{node}.cpus")

    def _numa(self, node: int) -> dict[str, Any]:
        numa = self.description.get("numa") or {}
        return numa.get(str(node)) or numa.get(node) or {}

    def write(self) -> None:
        self._system_cpus()
        self._system_nodes()
        self._proc()
        for index, tree in enumerate(self.description.get("pci") or []):
            self._host_bridge(_mapping(tree, f"pci[{index}]"))
        for function, parent in self.physfns:
            if parent not in self.addresses:
                raise ValueError(f"pci {function}: physfn {parent!r} is no function of this machine")
            self.out.link(f"{self.addresses[function]}/physfn", self.addresses[parent])
            self.out.link(f"{self.addresses[parent]}/virtfn{sum(1 for f, p in self.physfns if p == parent and f < function)}", self.addresses[function])
        self._interrupts()
        self._memory_settings()
        self._rest()

    def _list(self, cpus: Iterable[int]) -> str:
        return cpulist.to_list(frozenset(cpus))

    def _mask(self, cpus: Iterable[int]) -> str:
        return cpulist.to_mask(frozenset(cpus), self.width)

    # CPUs

    def _system_cpus(self) -> None:
        out, base = self.out, "/sys/devices/system/cpu"
        for name, cpus in (
            ("possible", self.possible),
            ("present", self.present),
            ("online", self.online),
            ("offline", self.possible - self.online),
        ):
            out.text(f"{base}/{name}", self._list(cpus))
        out.text(f"{base}/kernel_max", 8191)
        out.text(f"{base}/isolated", self.running.get("isolated", ""))
        out.text(f"{base}/nohz_full", self.running.get("nohz_full", ""))
        threads = max(len([cpu for cpu in core.cpus if cpu in self.online]) for core in self.cores)
        smt = _onoff(self.description["cpus"].get("smt", "on" if threads > 1 else "notsupported"))
        if smt not in ("on", "off", "forceoff", "notsupported", "notimplemented", "absent"):
            raise ValueError(f"cpus.smt: {smt!r} is none of on, off, forceoff, notsupported, notimplemented, absent")
        if smt != "absent":
            out.text(f"{base}/smt/control", smt)
            out.text(f"{base}/smt/active", 1 if threads > 1 else 0)
        packages: dict[int | None, set[int]] = {}
        for core in self.cores:
            packages.setdefault(core.socket, set()).update(cpu for cpu in core.cpus if cpu in self.online)
        governor = self.running.get("governor")
        for core in self.cores:
            siblings = [cpu for cpu in core.cpus if cpu in self.online]
            for cpu in core.cpus:
                home = f"{base}/cpu{cpu}"
                if cpu != min(self.present):
                    out.text(f"{home}/online", int(cpu in self.online))
                else:
                    out.dir(home)
                if cpu not in self.online:
                    continue
                topology = f"{home}/topology"
                out.text(f"{topology}/physical_package_id", -1 if core.socket is None else core.socket)
                out.text(f"{topology}/core_id", core.core_id)
                for name in ("core_cpus", "thread_siblings"):
                    out.text(f"{topology}/{name}", self._mask(siblings))
                    out.text(f"{topology}/{name}_list", self._list(siblings))
                package = packages[core.socket] if core.socket is not None else set(siblings)
                for name in ("package_cpus", "core_siblings"):
                    out.text(f"{topology}/{name}_list", self._list(package))
                if governor:
                    out.text(f"{home}/cpufreq/scaling_governor", governor)
                    out.text(f"{home}/cpufreq/scaling_available_governors", "performance powersave")
                    out.text(f"{home}/cpufreq/scaling_driver", "intel_pstate")
                for state, idle in enumerate(self.running.get("cpuidle") or []):
                    for key in ("name", "latency", "disable"):
                        out.text(f"{home}/cpuidle/state{state}/{key}", idle.get(key, 0))
        if self.running.get("cpuidle"):
            out.text(f"{base}/cpuidle/current_driver", "intel_idle")

    # NUMA nodes

    def _system_nodes(self) -> None:
        if not self.node_cpus:
            return
        out, base, ids = self.out, "/sys/devices/system/node", sorted(self.node_cpus)
        out.text(f"{base}/possible", self._list(ids))
        out.text(f"{base}/online", self._list(ids))
        out.text(f"{base}/has_cpu", self._list(node for node in ids if self.node_cpus[node]))
        memory = {node: _bytes(self._numa(node).get("memory", "64Gi"), f"numa.{node}.memory") for node in ids}
        out.text(f"{base}/has_memory", self._list(node for node in ids if memory[node]))
        sizes = sorted({size for node in ids for size in (self._numa(node).get("hugepages") or {})} | {"2Mi", "1Gi"})
        self.page_totals = {size: [0, 0] for size in sizes}
        for row, node in enumerate(ids):
            home, cpus = f"{base}/node{node}", self.node_cpus[node]
            out.text(f"{home}/cpulist", self._list(cpus))
            out.text(f"{home}/cpumap", self._mask(cpus))
            out.text(f"{home}/distance", " ".join(str(value) for value in self._distances(row, ids)))
            out.text(f"{home}/meminfo", self._node_meminfo(node, memory[node]))
            for cpu in sorted(cpus & self.present):
                out.link(f"{home}/cpu{cpu}", f"/sys/devices/system/cpu/cpu{cpu}")
            pages = self._numa(node).get("hugepages") or {}
            for size in sizes if memory[node] else ():
                page = _mapping(pages.get(size) or {}, f"numa.{node}.hugepages.{size}")
                total = _count(page.get("total", 0), f"numa.{node}.hugepages.{size}.total", 0)
                free = _count(page.get("free", total), f"numa.{node}.hugepages.{size}.free", 0)
                self._pages(f"{home}/hugepages", size, total, free)
                self.page_totals[size][0] += total
                self.page_totals[size][1] += free

    def _pages(self, base: str, size: str, total: int, free: int) -> None:
        home = f"{base}/hugepages-{_bytes(size, 'hugepages') // 1024}kB"
        self.out.text(f"{home}/nr_hugepages", total)
        self.out.text(f"{home}/free_hugepages", free)
        self.out.text(f"{home}/surplus_hugepages", 0)

    def _distances(self, row: int, ids: list[int]) -> list[int]:
        given = self.description.get("distances") or {}
        if isinstance(given, list):
            if len(given) != len(ids) or any(not isinstance(line, list) or len(line) != len(ids) for line in given):
                raise ValueError(f"distances: {len(ids)} rows of {len(ids)} numbers are wanted")
            return given[row]
        _known(_mapping(given, "distances"), ("local", "socket", "remote", "memory"), "distances")
        values = []
        for other in ids:
            if other == ids[row]:
                values.append(given.get("local", 10))
            elif not self.node_cpus[other] or not self.node_cpus[ids[row]]:
                values.append(given.get("memory", 24))
            elif self.node_socket.get(other) == self.node_socket.get(ids[row]):
                values.append(given.get("socket", 12))
            else:
                values.append(given.get("remote", 21))
        return values

    def _node_meminfo(self, node: int, memory: int) -> str:
        total = memory // 1024
        free = total * 9 // 10
        lines = (("MemTotal", total), ("MemFree", free), ("MemUsed", total - free))
        return "\n".join(f"Node {node} {name + ':':<15}{value:>10} kB" for name, value in lines)

    # procfs

    def _proc(self) -> None:
        out, kernel = self.out, _mapping(self.description.get("kernel") or {}, "kernel")
        _known(kernel, ("release", "command_line", "version"), "kernel")
        release = kernel.get("release", "6.12.57+deb13-amd64")
        out.text("/proc/cmdline", kernel.get("command_line", f"BOOT_IMAGE=/boot/vmlinuz-{release} root=/dev/sda2 ro quiet"))
        out.text("/proc/sys/kernel/osrelease", release)
        out.text("/proc/version", f"Linux version {release} {kernel.get('version', '#1 SMP PREEMPT_DYNAMIC')}")
        vendor = self.description["cpus"].get("vendor", "GenuineIntel")
        model = self.description["cpus"].get("model", "paper CPU")
        records = []
        for core in self.cores:
            for cpu in core.cpus:
                if cpu in self.online:
                    records.append((cpu, f"processor\t: {cpu}\nvendor_id\t: {vendor}\nmodel name\t: {model}\nphysical id\t: {core.socket or 0}\n"))
        out.raw("/proc/cpuinfo", "".join(text + "\n" for _cpu, text in sorted(records)).encode())
        out.raw("/proc/stat", ("cpu  0 0 0 0 0 0 0 0 0 0\n" + "".join(f"cpu{cpu} 0 0 0 0 0 0 0 0 0 0\n" for cpu in sorted(self.online))).encode())
        total = sum(_bytes(self._numa(node).get("memory", "64Gi"), "numa") for node in self.node_cpus) // 1024 or 67108864
        out.text("/proc/meminfo", f"MemTotal:       {total} kB\nMemFree:        {total * 9 // 10} kB\nSwapTotal:             0 kB\nHugepagesize:       2048 kB")
        out.raw("/proc/swaps", b"Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority\n")
        sysctls = {
            "vm.swappiness": 60,
            "vm.zone_reclaim_mode": 0,
            "kernel.numa_balancing": 1 if len(self.node_cpus) > 1 else 0,
            **_mapping(self.running.get("sysctls") or {}, "running.sysctls"),
        }
        for name, value in sysctls.items():
            if value is not None:
                out.text(f"/proc/sys/{name.replace('.', '/')}", value)

    # PCI

    def _host_bridge(self, tree: dict[str, Any]) -> None:
        name = tree.get("host_bridge")
        if not isinstance(name, str) or not _HOST_BRIDGE.match(name):
            raise ValueError(f"pci: host_bridge {name!r} is not of the form pci0000:15")
        _known(tree, ("host_bridge", "numa", "children"), f"pci {name}")
        numa = tree.get("numa")
        home = f"/sys/devices/{name}"
        self.out.dir(home)
        for child in tree.get("children") or []:
            self._function(_mapping(child, f"pci {name}"), home, numa, 1)

    def _function(self, child: dict[str, Any], parent: str, numa: int | None, depth: int) -> None:
        kinds = [kind for kind in _KIND_KEYS if kind in child]
        address = child.get("address")
        if not isinstance(address, str) or not _ADDRESS.match(address):
            raise ValueError(f"pci: address {address!r} is not of the form 0000:15:01.0")
        if len(kinds) != 1:
            raise ValueError(f"pci {address}: exactly one of {', '.join(_KIND_KEYS)} is wanted")
        kind = kinds[0]
        _known(child, _COMMON_DEVICE_KEYS | _KIND_KEYS[kind] | {kind}, f"pci {address}")
        if address in self.addresses:
            raise ValueError(f"pci {address}: described twice")
        home = f"{parent}/{address}"
        self.addresses[address] = home
        model = child[kind]
        if kind == "other":
            other = _mapping(model, f"pci {address}: other")
            known = (other.get("class", "0x088000"), other.get("vendor", "0x8086"), other.get("device", "0x0000"), other.get("driver"), 0.0, 0)
        elif model not in _MODELS[kind]:
            raise ValueError(f"pci {address}: {kind} {model!r} is none of {', '.join(_MODELS[kind])}")
        else:
            known = _MODELS[kind][model]
        class_, vendor, device, driver, speed, width = known
        class_, device, driver = child.get("class", class_), child.get("id", device), child.get("driver", driver)
        out = self.out
        numa = child.get("numa", numa)
        local = self.node_cpus.get(numa, frozenset()) if numa is not None else self.online
        out.text(f"{home}/class", class_)
        out.text(f"{home}/vendor", vendor)
        out.text(f"{home}/device", device)
        out.text(f"{home}/revision", "0x01")
        out.text(f"{home}/numa_node", -1 if numa is None else numa)
        out.text(f"{home}/local_cpulist", self._list(local))
        out.text(f"{home}/local_cpus", self._mask(local))
        self._link(home, child.get("link", {}), speed, width)
        if driver:
            bus_driver = f"/sys/bus/pci/drivers/{driver}"
            out.dir(bus_driver)
            out.link(f"{home}/driver", bus_driver)
            out.link(f"{bus_driver}/{address}", home)
        out.link(f"/sys/bus/pci/devices/{address}", home)
        port = _PORT_TYPES.get(model) if kind == "port" else None
        express = port is not None or speed > 0
        config = child.get("config", 4096 if express else 256)
        if config not in (4096, 256, 64, "none", None):
            raise ValueError(f"pci {address}: config {config!r} is none of 4096, 256, 64, none")
        if config not in ("none", None):
            children = child.get("children") or []
            buses = [int(str(item.get("address", "")).split(":")[1], 16) for item in children if _ADDRESS.match(str(item.get("address", "")))]
            # Type 0 is an endpoint; without a capability of PCI Express there is none.
            kind_of_port = port if port is not None else 0 if express else None
            control = _control(child, address)
            data = _config_space((class_, vendor, device), kind_of_port, self._acs(child, port, address), min(buses or [0]), control)
            out.raw(f"{home}/config", data[: int(config)])
        if self.iommu != "off" and kind != "port":
            self._iommu_group(home, address)
        if child.get("physfn"):
            self.physfns.append((address, child["physfn"]))
        if kind in ("nic", "infiniband"):
            self._network(child, kind, home, address)
        if kind == "nvme":
            name = child.get("name", f"nvme{len([a for a in self.addresses if a < address])}")
            out.text(f"{home}/nvme/{name}/state", "live")
            out.link(f"{home}/nvme/{name}/device", home)
            out.link(f"/sys/class/nvme/{name}", f"{home}/nvme/{name}")
        self._msi(child, kind, str(model), home, address, numa)
        if kind == "port":
            for grandchild in child.get("children") or []:
                self._function(_mapping(grandchild, f"pci {address}"), home, numa, depth + 1)

    def _link(self, home: str, link: Any, speed: float, width: int) -> None:
        if link in (None, "none") or (not link and not width):
            return
        _known(_mapping(link, f"{home}: link"), ("speed", "width", "max_speed", "max_width"), f"{home}: link")
        highest, widest = link.get("max_speed", speed), link.get("max_width", width)
        for name, value in (("current_link_speed", link.get("speed", highest)), ("max_link_speed", highest)):
            self.out.text(f"{home}/{name}", value if isinstance(value, str) else f"{float(value):.1f} GT/s PCIe")
        for name, value in (("current_link_width", link.get("width", widest)), ("max_link_width", widest)):
            self.out.text(f"{home}/{name}", value)

    def _acs(self, child: dict[str, Any], port: int | None, address: str) -> int | None:
        """The ACS control bits, or None where the function has no such capability."""
        asked = _onoff(child.get("acs", "on" if self.iommu != "off" else "off") if port in (4, 6) else child.get("acs", "none"))
        if asked == "none" or asked is None:
            return None
        names = _ACS_ON if asked == "on" else () if asked == "off" else asked
        if isinstance(names, str) or any(name not in _ACS_BITS for name in names):
            raise ValueError(f"pci {address}: acs {asked!r} is none of on, off, none, or a list of {', '.join(_ACS_BITS)}")
        return sum(1 << _ACS_BITS[name] for name in names)

    def _iommu_group(self, home: str, address: str) -> None:
        group = f"/sys/kernel/iommu_groups/{self.next_group}"
        self.next_group += 1
        self.out.text(f"{group}/type", "identity" if self.iommu == "pt" else "DMA-FQ")
        self.out.link(f"{group}/devices/{address}", home)
        self.out.link(f"{home}/iommu_group", group)
        self.out.dir("/sys/class/iommu/dmar0")

    def _network(self, child: dict[str, Any], kind: str, home: str, address: str) -> None:
        out = self.out
        for name in child.get("rdma") or []:
            out.text(f"{home}/infiniband/{name}/node_type", "1: CA")
            out.link(f"{home}/infiniband/{name}/device", home)
            out.link(f"/sys/class/infiniband/{name}", f"{home}/infiniband/{name}")
        interface = child.get("interface")
        if not interface:
            return
        owner = home
        if child[kind] == "virtio":
            owner = f"{home}/virtio{self.macs}"
            out.text(f"{owner}/device", "0x0001")
        net = f"{owner}/net/{interface}"
        self.macs += 1
        out.text(f"{net}/address", child.get("mac", f"02:00:00:00:{self.macs >> 8:02x}:{self.macs & 255:02x}"))
        out.text(f"{net}/mtu", child.get("mtu", 1500))
        out.text(f"{net}/speed", child.get("speed_mbps", -1))
        out.text(f"{net}/operstate", "up" if child.get("speed_mbps") else "down")
        out.text(f"{net}/type", 32 if kind == "infiniband" else 1)
        out.link(f"{net}/device", owner)
        out.link(f"/sys/class/net/{interface}", net)
        size = child.get("tso_max", _TSO_MAX.get(child[kind], 65536))
        link = {"ifname": interface, "mtu": child.get("mtu", 1500), "link_type": "infiniband" if kind == "infiniband" else "ether"}
        self.probes[f"ip-link.{interface}"] = {
            "argv": ["ip", "-d", "-j", "link", "show", "dev", interface], "stdout": json.dumps([{**link, **({} if size is None else {"tso_max_size": size})}]),
        }
        if child.get("uplink"):
            self.uplinks.append(interface)
        queues = _count(child.get("queues", 0), f"pci {address}: queues", 0)
        if queues:
            most = _count(child.get("max_queues", max(queues, 63)), f"pci {address}: max_queues")
            counts = [f"{title}\nRX:\t\tn/a\nTX:\t\tn/a\nOther:\t\tn/a\nCombined:\t{number}" for title, number in
                      (("Pre-set maximums:", most), ("Current hardware settings:", queues))]
            text = f"Channel parameters for {interface}:\n" + "\n".join(counts) + "\n"
            self.probes[f"ethtool-channels.{interface}"] = {"argv": ["ethtool", "-l", interface], "stdout": text}
        for queue in range(queues):
            out.text(f"{net}/queues/rx-{queue}/rps_cpus", self._mask(()))
            out.text(f"{net}/queues/rx-{queue}/rps_flow_cnt", 0)
            out.text(f"{net}/queues/tx-{queue}/xps_cpus", self._mask(()))

    # interrupts

    def _msi(self, child: dict[str, Any], kind: str, model: str, home: str, address: str, numa: int | None) -> None:
        count = _count(child.get("irqs", 0), f"pci {address}: irqs", 0)
        msi = _mapping(child.get("msi") or {}, f"pci {address}: msi")
        _known(msi, ("cpus", "effective"), f"pci {address}: msi")
        local = sorted((self.node_cpus.get(numa, frozenset()) if numa is not None else frozenset()) & self.online) or sorted(self.online)
        asked = _cpus(msi["cpus"], f"pci {address}: msi.cpus") if "cpus" in msi else None
        effective = sorted(_cpus(msi["effective"], f"pci {address}: msi.effective")) if "effective" in msi else None
        for index in range(count):
            number = self.next_irq
            self.next_irq += 1
            self.out.text(f"{home}/msi_irqs/{number}", "msix")
            spread = local[index % len(local)]
            wanted = asked if asked is not None else frozenset((spread,))
            hit = effective[index % len(effective)] if effective else sorted(wanted)[index % len(wanted)] if asked else spread
            name = _irq_name(kind, model, child, address, index)
            managed = kind == "nvme" and index > 0
            self._irq(number, name, wanted, hit, numa, managed)

    def _irq(self, number: int, name: str, wanted: frozenset[int], hit: int, numa: int | None, managed: bool) -> None:
        home = f"/proc/irq/{number}"
        # From Linux 6.12 on, the files of an interrupt nobody may move are read-only.
        mode = 0o444 if managed else 0o644
        self.out.text(f"{home}/smp_affinity", self._mask(wanted), mode)
        self.out.text(f"{home}/smp_affinity_list", self._list(wanted), mode)
        self.out.text(f"{home}/effective_affinity", self._mask((hit,)), 0o444)
        self.out.text(f"{home}/effective_affinity_list", hit, 0o444)
        self.out.text(f"{home}/affinity_hint", self._mask(()), 0o444)
        self.out.text(f"{home}/node", -1 if numa is None else numa, 0o444)
        self.out.dir(f"{home}/{name.partition(' ')[0]}")
        self.irqs.append((number, name, hit))

    def _interrupts(self) -> None:
        online = sorted(self.online)
        column = {cpu: index for index, cpu in enumerate(online)}
        lines = ["      " + "".join(f"{'CPU' + str(cpu):>11}" for cpu in online)]
        for number, name, hit in self.irqs:
            counts = ["          0"] * len(online)
            if hit in column:
                counts[column[hit]] = f"{number * 1009 % 90000 + 100:>11}"
            lines.append(f"{number:>5}:" + "".join(counts) + f"  IR-PCI-MSIX-{name.partition('@pci:')[2] or '0000:00:00.0'}    0-edge      {name}")
        lines.append("  NMI:" + "          0" * len(online) + "   Non-maskable interrupts")
        lines.append("  LOC:" + "       1000" * len(online) + "   Local timer interrupts")
        lines.append("  ERR:          0")
        self.out.text("/proc/interrupts", "\n".join(lines))
        default = self.running.get("default_affinity")
        cpus = self.present if default is None else _cpus(default, "running.default_affinity")
        self.out.text("/proc/irq/default_smp_affinity", self._mask(cpus))
        shares = _mapping(self.running.get("softirqs") or {}, "running.softirqs")
        possible = sorted(self.possible)
        rows = ["                    " + "".join(f"{'CPU' + str(cpu):<11}" for cpu in possible)]
        for name in _SOFTIRQS:
            share = shares.get(name.lower()) or {}
            rows.append(f"{name + ':':>12} " + " ".join(f"{int(share.get(str(cpu), 0)):>10}" for cpu in possible))
        self.out.text("/proc/softirqs", "\n".join(rows))

    # memory, work queues and everything else

    def _memory_settings(self) -> None:
        for key, (name, words) in _THP_WORDS.items():
            active = self.running.get(key, "madvise")
            if active is None:
                continue
            if active not in words:
                raise ValueError(f"running.{key}: {active!r} is none of {', '.join(words)}")
            text = " ".join(f"[{word}]" if word == active else word for word in words)
            self.out.text(f"/sys/kernel/mm/transparent_hugepage/{name}", text)
        for size, (total, free) in sorted(self.page_totals.items()):
            self._pages("/sys/kernel/mm/hugepages", size, total, free)
        workqueue = self.running.get("workqueue")
        self.out.text("/sys/devices/virtual/workqueue/cpumask", self._mask(self.present if workqueue is None else _cpus(workqueue, "running.workqueue")))

    def _rest(self) -> None:
        out, description = self.out, self.description
        out.text("/sys/devices/virtual/net/lo/mtu", 65536)
        out.text("/sys/devices/virtual/net/lo/address", "00:00:00:00:00:00")
        out.link("/sys/class/net/lo", "/sys/devices/virtual/net/lo")
        cgroup = description.get("cgroup", "v2")
        if cgroup == "v2":
            out.text("/sys/fs/cgroup/cgroup.controllers", "cpuset cpu io memory hugetlb pids rdma misc")
        elif cgroup == "v1":
            out.dir("/sys/fs/cgroup/cpuset")
        elif cgroup != "none":
            raise ValueError(f"cgroup: {cgroup!r} is none of v2, v1, none")
        for path in description.get("dirs") or []:
            out.dir(path)
        for path, text in (description.get("files") or {}).items():
            out.raw(path, (text or "").encode())
        for path, to in (description.get("links") or {}).items():
            out.dir(path.rpartition("/")[0])
            os.symlink(to, out.place(path))
        if self.uplinks:
            hops = [{"dst": "default", "gateway": "192.0.2.1", "dev": interface, "protocol": "static", "flags": []} for interface in self.uplinks]
            self.probes["ip-route"] = {"argv": ["ip", "-j", "-4", "route", "show", "default"], "stdout": json.dumps(hops)}
            self.probes["ip-route6"] = {"argv": ["ip", "-j", "-6", "route", "show", "default"], "stdout": "[]"}
        for name, answer in {**self.probes, **(description.get("probe") or {})}.items():
            _known(_mapping(answer, f"probe.{name}"), ("argv", "rc", "stdout", "stderr"), f"probe.{name}")
            record = {"argv": answer.get("argv", []), "rc": answer.get("rc", 0), "stdout": answer.get("stdout", ""), "stderr": answer.get("stderr", "")}
            out.text(f"/.locality/probe/{name}.json", json.dumps(record, indent=1, sort_keys=True))
        for path in description.get("pad") or []:
            with open(out.place(path), "r+b") as stream:
                stream.truncate(4096)
        for path in description.get("omit") or []:
            place = out.place(path)
            if os.path.isdir(place) and not os.path.islink(place):
                shutil.rmtree(place)
            elif os.path.lexists(place):
                os.unlink(place)
            else:
                raise ValueError(f"omit: {path}: no such file in this tree")


def _irq_name(kind: str, model: str, child: dict[str, Any], address: str, index: int) -> str:
    """The name a driver gives to an interrupt: some index by queue, some reserve the first for events."""
    interface = child.get("interface", "")
    if kind == "nvme":
        return f"{child.get('name', 'nvme0')}q{index}"
    if model.startswith("mlx5"):
        return f"mlx5_async0@pci:{address}" if index == 0 else f"mlx5_comp{index - 1}@pci:{address}"
    if model == "ice":
        return f"ice-{interface}-TxRx-{index - 1}" if index else f"ice-{address}:misc"
    if model == "i40e":
        return f"i40e-{interface}-TxRx-{index - 1}" if index else f"i40e-{address}:misc"
    if model == "ena":
        return f"{interface}-Tx-Rx-{index - 1}" if index else f"ena-mgmnt@pci:{address}"
    if model == "virtio":
        return "virtio0-config" if index == 0 else f"virtio0-{'input' if index % 2 else 'output'}.{(index - 1) // 2}"
    return f"{interface or child.get('driver', model)}-TxRx-{index}"


def _control(child: dict[str, Any], address: str) -> tuple[int, int]:
    """Device control and link control of the PCI Express capability."""
    aspm, bits = child.get("aspm") or [], {"L0s": 1, "L1": 2}
    if not isinstance(aspm, list) or any(name not in bits for name in aspm):
        raise ValueError(f"pci {address}: aspm {aspm!r} is no list of L0s and L1")
    # Relaxed ordering and no snoop are on after a reset.
    return 0x2810 if child.get("relaxed_ordering", True) else 0x2800, sum(bits[name] for name in aspm)


def _config_space(ids: tuple[str, str, str], express: int | None, acs: int | None, secondary: int, control: tuple[int, int]) -> bytes:
    """4096 bytes of config space: header, PCI Express capability of type ``express``, AER and, with ``acs``, ACS.

    :param control: device control and link control.
    """
    class_, vendor, device = ids
    data = bytearray(4096)
    struct.pack_into("<HH", data, 0, int(vendor, 16), int(device, 16))
    struct.pack_into("<H", data, 6, 0x0010 if express is not None else 0)
    struct.pack_into("<I", data, 8, int(class_, 16) << 8 | 1)
    if class_.startswith("0x0604"):
        data[0x0E] = 1
        data[0x19] = data[0x1A] = secondary
    if express is None:
        return bytes(data)
    data[0x34] = 0x40
    data[0x40] = 0x01  # power management, so that a reader has to walk the list
    data[0x41] = 0x60
    data[0x60] = 0x10
    struct.pack_into("<H", data, 0x62, 2 | express << 4)
    struct.pack_into("<H", data, 0x68, control[0])
    struct.pack_into("<H", data, 0x70, control[1])
    struct.pack_into("<I", data, 0x100, 0x0001 | 2 << 16 | (0x148 if acs is not None else 0) << 20)
    if acs is not None:
        struct.pack_into("<I", data, 0x148, 0x000D | 1 << 16)
        struct.pack_into("<HH", data, 0x14C, 0x005F, acs)
    return bytes(data)
