# Copyright (c) 2026 The inferops.locality authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Interrupts: which belong to which device, where they are sent, and where they should be.

An interrupt belongs to a PCI device because it is listed in the device's ``msi_irqs`` folder, never because of its name;
numbers change when a driver reloads or channels are added, so they are read again each time. Names only tell queues from
housekeeping vectors (mailbox, link, flow director) and give the queues an order.

Whether a write did anything is seen in ``effective_affinity_list`` alone: while the present CPU is still in the new mask the
kernel reports success and moves nothing (x86, arch/x86/kernel/apic/vector.c), so a move is asked for with a list of one CPU.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import re
import time
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Callable, Collection, Dict, Iterable, Iterator, List, Mapping, Optional, Sequence, Set, Tuple

from ansible_collections.inferops.locality.plugins.module_utils import cpulist
from ansible_collections.inferops.locality.plugins.module_utils.cpulist import CpuSet
from ansible_collections.inferops.locality.plugins.module_utils.sysroot import SysRoot

CONFIGURED = "/etc/inferops-locality/irq.json"
# What only this boot knows: interrupts that turned out to be managed, and what the boot program has said already.
RUNTIME = "/run/inferops-locality/irq.json"
DEFAULT = "/proc/irq/default_smp_affinity"
_LOCK = "/run/inferops-locality/irq.lock"
STRATEGIES = ("spread", "mask")
VERDICTS = ("right", "moved", "pending", "managed", "refused", "no_vectors", "differs")
IN_SYNC = frozenset(("right", "moved", "pending", "managed"))

_ADDRESS = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")
_COUNTER = 2**32

# Files of /proc/irq/N; every other name there is the folder of a handler (kernel/irq/proc.c register_handler_proc).
_IRQ_FILES = frozenset((
    "affinity_hint", "effective_affinity", "effective_affinity_list", "node", "smp_affinity", "smp_affinity_list", "spurious",
))


# -- /proc/interrupts, /proc/softirqs

@dataclass(frozen=True)
class Interrupt:
    """One row of ``/proc/interrupts``.

    :ivar label: what stands before the colon; :ivar irq: it as a number, None for ``NMI`` and its like.
    :ivar counts: CPU to count; only online CPUs have a column. Rows with one sum (``ERR``) have it under CPU -1.
    :ivar names: the handlers.
    """

    label: str
    irq: Optional[int]
    counts: Dict[int, int]
    names: Tuple[str, ...]

    @property
    def total(self) -> int:
        return sum(self.counts.values())


# Digits of 64 bits at most: what the kernel prints, and what int() takes whatever the file holds.
_DIGITS = re.compile(r"[0-9]{1,20}")
_HEADER = re.compile(r"\s*CPU[0-9]{1,9}(?:\s+CPU[0-9]{1,9})*\s*")
# Chip, number within the chip and trigger: what a row without a handler ends with.
_TRIGGER = re.compile(r"(?:\S* )?\d+[- ](?:edge|level|fasteoi|handler)|\S+-(?:edge|level|fasteoi)|\d+", re.IGNORECASE)


def _columns(line: str) -> List[int]:
    return [int(number) for number in re.findall(r"CPU([0-9]{1,9})", line)]


def parse_interrupts(text: str, only: Optional[Collection[int]] = None) -> List[Interrupt]:
    """Read ``/proc/interrupts`` (kernel/irq/proc.c show_interrupts, with or without its header).

    :param only: interrupts to read; rows of others are passed over, which matters where a row has a thousand columns.
    """
    rows: List[Interrupt] = []
    header: Optional[List[int]] = None
    for line in text.split("\n"):
        label, colon, rest = line.partition(":")
        label = label.strip()
        if not colon or not label or " " in label:
            if header is None and _HEADER.fullmatch(line):
                header = _columns(line)
            continue
        number = int(label) if _DIGITS.fullmatch(label) else None
        if only is not None and number not in only:
            continue
        fields = rest.split()
        limit = len(fields) if header is None else len(header)
        width = 0
        while width < limit and width < len(fields) and _DIGITS.fullmatch(fields[width]):
            width += 1
        values = [int(field) for field in fields[:width]]
        if width == 1 and len(fields) == 1 and (header is None or len(header) > 1) and number is None:
            counts = {-1: values[0]}
        else:
            counts = dict(zip(header if header is not None else range(width), values))
        # handlers stand behind the last two blanks
        tail = re.sub(rf"^(?:\s*\d+){{{width}}}", "", rest).strip() if width else rest.strip()
        parts = re.split(r"\s{2,}|\t", tail)
        names: Tuple[str, ...] = ()
        if number is not None and len(parts) > 1 and not _TRIGGER.fullmatch(parts[-1]):
            names = tuple(parts[-1].split(", "))
        rows.append(Interrupt(label, number, counts, names))
    return rows


def parse_softirqs(text: str) -> Dict[str, Dict[int, int]]:
    """Read ``/proc/softirqs``: kind to CPU to count. All possible CPUs have a column; counters wrap at 32 bits."""
    rows: Dict[str, Dict[int, int]] = {}
    header: List[int] = []
    for line in text.split("\n"):
        label, colon, rest = line.partition(":")
        if not colon:
            header = _columns(line) or header
            continue
        fields = rest.split()
        if all(_DIGITS.fullmatch(field) for field in fields):
            rows[label.strip()] = dict(zip(header or range(len(fields)), (int(field) for field in fields)))
    return rows


def read_softirqs(sysroot: SysRoot) -> Dict[str, Dict[str, int]]:
    """``{"net_rx": {"0": n, …}, "net_tx": …}`` since the boot; both empty where the kernel does not say."""
    rows = parse_softirqs(sysroot.text("/proc/softirqs") or "")
    return {name: {str(cpu): count for cpu, count in rows.get(name.upper(), {}).items()} for name in ("net_rx", "net_tx")}


def softirq_delta(before: Mapping[str, int], after: Mapping[str, int]) -> Dict[str, int]:
    """What was counted between two samples, CPU for CPU; a counter that went down has wrapped at 32 bits."""
    return {cpu: (count - before[cpu]) % _COUNTER for cpu, count in after.items() if cpu in before}


def softirq_share(delta: Mapping[str, int], cpus: CpuSet) -> Optional[float]:
    """Part of what was counted that these CPUs did, 0 to 1; None where nothing was counted."""
    total = sum(delta.values())
    return sum(count for cpu, count in delta.items() if int(cpu) in cpus) / total if total else None


def count_softirqs(sysroot: SysRoot, seconds: float, pause: Callable[[float], None] = time.sleep) -> Dict[str, Dict[str, int]]:
    """As :func:`read_softirqs`, but what was counted in an interval."""
    before = read_softirqs(sysroot)
    pause(seconds)
    after = read_softirqs(sysroot)
    return {name: softirq_delta(before[name], after[name]) for name in after}


def sample_softirqs(sysroot: SysRoot, seconds: float, cpus: Optional[CpuSet] = None, pause: Callable[[float], None] = time.sleep) -> Dict[str, Any]:
    """What softirqs of the network did in an interval.

    :param cpus: of these the share of ``net_rx`` is told.
    :returns: ``{seconds, net_rx: {cpu: count}, net_tx: {cpu: count}, cpus: list|None, share: 0..1|None}``; CPUs that counted
        nothing are left out.
    """
    counted = count_softirqs(sysroot, seconds, pause)
    return {
        "seconds": seconds,
        **{name: {cpu: count for cpu, count in counts.items() if count} for name, counts in counted.items()},
        "cpus": None if cpus is None else cpulist.to_list(cpus),
        "share": None if cpus is None else softirq_share(counted["net_rx"], cpus),
    }


# -- devices and their interrupts

# Patterns of the drivers of data centre NICs and of NVMe (names as requested by the drivers, kernel 6.1 to 7.2).
_DATA = (
    re.compile(r"-Tx-?Rx-(\d+)$", re.IGNORECASE),               # ice, i40e, iavf, ixgbe, igb, bnxt, hns3, idpf; ena
    re.compile(r"-rx-(\d+)$"),                                   # receive alone, or behind a transmit queue (qlcnic, enic)
    re.compile(r"-tx-(\d+)$"),
    re.compile(r"^mlx5_(?:comp|combined)(\d+)@"),
    re.compile(r"^mlx4-(\d+)@"),
    re.compile(r"^virtio\d+-(?:input|output|req)\.(\d+)$"),
    re.compile(r"-fp-(\d+)$|^gve-ntfy-blk(\d+)@|^mana_q(\d+)@"),  # qede, gve, mana
    re.compile(r"^nvme\d+q([1-9]\d*)$"),
)
_ADMIN = re.compile(
    r"(?:^|[-:_@.])(?:misc|ctrl|control|mbx|mailbox|mgmnt|mgmt|fdir|config|hwc|link|lsc|err|ptp|async\d*|async_eq|cmd_eq|pages_eq|default_queue)"
    r"(?:$|[-:_@.])|^nvme\d+q0$"
)
_FDIR = re.compile(r":fdir-")
_LAST_NUMBER = re.compile(r"(?:[-._:]|q)(\d+)$")


def queue_numbers(names: Mapping[int, Sequence[str]]) -> Dict[int, Optional[int]]:
    """Queue of each interrupt of ONE device by the names of its handlers; None for one that carries no data.

    Names of unknown drivers count as queues if they end with a number, or if the device has one interrupt only.
    """
    result: Dict[int, Optional[int]] = {}
    for number, handlers in names.items():
        result[number] = None
        for name in handlers:
            queue = _queue(name, alone=len(names) == 1)
            if queue is not None:
                result[number] = queue
                break
    return result


def _queue(name: str, alone: bool) -> Optional[int]:
    if not _FDIR.search(name):
        for pattern in _DATA:
            match = pattern.search(name)
            if match:
                return int(next(group for group in match.groups() if group is not None))
    if _ADMIN.search(name):
        return None
    match = _LAST_NUMBER.search(name)
    if match:
        return int(match.group(1))
    return 0 if alone else None


def is_address(text: str) -> bool:
    """Whether a text is a PCI address as the kernel writes it."""
    return _ADDRESS.fullmatch(text) is not None


def pci_address(sysroot: SysRoot, interface: str) -> Optional[str]:
    """PCI address of a network interface; for virtio and sub-functions it is that of the PCI device above."""
    path = sysroot.realpath(f"/sys/class/net/{interface}/device")
    while path and path != "/":
        path, name = os.path.split(path)
        if _ADDRESS.fullmatch(name):
            return name
    return None


def interfaces(sysroot: SysRoot, address: str) -> List[str]:
    """Network interfaces of a PCI device, its virtio devices included."""
    base = f"/sys/bus/pci/devices/{address}"
    found = sysroot.listdir(base + "/net")
    for name in sysroot.listdir(base):
        if re.fullmatch(r"virtio\d+", name):
            found += sysroot.listdir(f"{base}/{name}/net")
    return sorted(set(found))


def device_irqs(sysroot: SysRoot, address: str) -> List[int]:
    """Interrupts of a PCI device, in order. A device with a shared line instead of MSI has none of its own."""
    return sorted(int(name) for name in sysroot.listdir(f"/sys/bus/pci/devices/{address}/msi_irqs") if _DIGITS.fullmatch(name))


def read_irqs(sysroot: SysRoot, devices: Iterable[Mapping[str, Any]]) -> List[Dict[str, Any]]:
    """Interrupts of these devices (``address`` is used of each), devices in the order given, queues in theirs.

    :returns: ``{irq, device, queue, asked, effective, affinity_hint, managed}``. ``queue`` is None for an interrupt that
        carries no data; lists are canonical texts or None where the file is absent; ``effective`` of an interrupt that was
        never started is empty. ``managed``, whether the kernel alone places it: from 6.12 on the mask of such an interrupt is
        not writable, and of others it is. Older kernels tell only who writes: True if it was told to a write since this boot,
        else None.
    """
    entries: List[Dict[str, Any]] = []
    known = read_runtime(sysroot)["managed"]
    shown = False
    for device in devices:
        address = str(device["address"])
        numbers = device_irqs(sysroot, address)
        names = {number: handlers(sysroot, number) for number in numbers}
        queues = queue_numbers(names)
        for number in sorted(numbers, key=lambda irq: _order(queues[irq], irq)):
            entry = {"irq": number, "device": address, "queue": queues[number], **_affinity(sysroot, number)}
            # A kernel that shows it of one, whatever its number: distributions bring such changes back.
            shown = shown or entry["managed"] is True
            # The number alone may have gone to another device since.
            if names[number] and known.get(str(number)) == names[number]:
                entry["managed"] = True
            entries.append(entry)
    if _version(sysroot) >= (6, 12) or shown:
        for entry in entries:
            if entry["managed"] is None and entry["asked"] is not None:
                entry["managed"] = False
    return entries


def _version(sysroot: SysRoot) -> Tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d{1,9}", sysroot.text("/proc/sys/kernel/osrelease") or "")[:2])


def _order(queue: Optional[int], irq: int) -> Tuple[bool, int, int]:
    return (queue is None, queue or 0, irq)


def handlers(sysroot: SysRoot, number: int) -> List[str]:
    """Names of the handlers; a vector nobody asked for yet has none."""
    names = [name for name in sysroot.listdir(f"/proc/irq/{number}") if name not in _IRQ_FILES]
    if not names:
        # a name with a slash has no folder
        names = [name for name in (sysroot.text(f"/sys/kernel/irq/{number}/actions", 4096) or "").split(",") if name]
    return names


def _list(sysroot: SysRoot, path: str) -> Optional[str]:
    cpus = sysroot.cpu_list(path)
    return None if cpus is None else cpulist.to_list(cpus)


def _affinity(sysroot: SysRoot, number: int) -> Dict[str, Any]:
    base = f"/proc/irq/{number}"
    hint = sysroot.cpu_mask(base + "/affinity_hint")
    mode = sysroot.mode(base + "/smp_affinity")
    return {
        "asked": _list(sysroot, base + "/smp_affinity_list"),
        "effective": _list(sysroot, base + "/effective_affinity_list"),
        "affinity_hint": cpulist.to_list(hint) if hint else None,
        "managed": True if mode is not None and not mode & 0o222 else None,
    }


def read_default(sysroot: SysRoot) -> Optional[CpuSet]:
    """CPUs new interrupts start on (``/proc/irq/default_smp_affinity``, a mask without a list form)."""
    return sysroot.cpu_mask(DEFAULT)


def read_cores(sysroot: SysRoot, cpus: Iterable[int]) -> List[CpuSet]:
    """The cores these CPUs belong to, as sets of siblings; a CPU of which nothing is known is a core of its own."""
    cores: Set[CpuSet] = set()
    for cpu in cpus:
        base = f"/sys/devices/system/cpu/cpu{cpu}/topology/"
        siblings = sysroot.cpu_list(base + "core_cpus_list")
        if siblings is None:
            siblings = sysroot.cpu_list(base + "thread_siblings_list")
        cores.add(siblings if siblings and cpu in siblings else frozenset((cpu,)))
    return sorted(cores, key=min)


def nearest(cpus: CpuSet, home: Optional[int], members: Mapping[int, CpuSet], distances: Mapping[int, int]) -> CpuSet:
    """Those of the CPUs that are nearest to a device: of its own NUMA node, else of the nearest one that has some, else all.

    :param home: the device's NUMA node; None where the machine does not tell: then nothing is guessed.
    :param members: CPUs of each NUMA node. :param distances: of each NUMA node from ``home``.
    """
    if home is None:
        return cpus
    if members.get(home, cpulist.EMPTY) & cpus:
        return members[home] & cpus
    known = sorted((distances[node], node) for node, mine in members.items() if mine & cpus and node in distances)
    return members[known[0][1]] & cpus if known else cpus


def numa_node(sysroot: SysRoot, address: str) -> Optional[int]:
    """NUMA node of a PCI device; None where the firmware told none (-1)."""
    home = sysroot.integer(f"/sys/bus/pci/devices/{address}/numa_node")
    return home if home is not None and home >= 0 else None


def read_nearest(sysroot: SysRoot, address: str, cpus: CpuSet) -> CpuSet:
    """:func:`nearest` for a PCI device of this node."""
    base = "/sys/devices/system/node"
    nodes = sorted(int(name[4:]) for name in sysroot.listdir(base) if name[:4] == "node" and _DIGITS.fullmatch(name[4:]))
    home = numa_node(sysroot, address)
    columns = (sysroot.text(f"{base}/node{home}/distance", 2**16) or "").split() if home in nodes else []
    # one column for each NUMA node that is online
    distances = {node: int(value) for node, value in zip(nodes, columns) if _DIGITS.fullmatch(value)} if len(columns) == len(nodes) else {}
    members = {node: sysroot.cpu_list(f"{base}/node{node}/cpulist") or cpulist.EMPTY for node in nodes}
    return nearest(cpus, home, members, distances)


# -- placing

def cpu_order(cpus: CpuSet, cores: Sequence[CpuSet]) -> List[int]:
    """The CPUs in the order they get interrupts: one of every core first, then the second siblings, and so on."""
    known: Set[int] = set()
    members: List[List[int]] = []
    for core in sorted((core for core in cores if core), key=min):
        members.append(sorted((core & cpus) - known))
        known |= core
    members += [[cpu] for cpu in sorted(cpus - known)]
    members.sort(key=lambda core: core[0] if core else -1)
    depth = max((len(core) for core in members), default=0)
    return [core[rank] for rank in range(depth) for core in members if rank < len(core)]


def place(irqs: Iterable[Mapping[str, Any]], cpus: CpuSet, strategy: str = "spread", cores: Sequence[CpuSet] = ()) -> Dict[int, CpuSet]:
    """Where the interrupts of one device go.

    ``spread``: one CPU each, round and round, queues in the order of their numbers and interrupts without data last.
    ``mask``: all of the CPUs each, and the kernel chooses one.

    :param irqs: entries of :func:`read_irqs` (``irq`` and ``queue`` are used).
    :raises ValueError: no CPUs, or an unknown strategy.
    """
    if strategy not in STRATEGIES:
        raise ValueError(f"strategy '{strategy}' is none of {', '.join(STRATEGIES)}")
    entries = sorted(irqs, key=lambda entry: _order(entry["queue"], entry["irq"]))
    if not cpus:
        raise ValueError("there are no CPUs to place interrupts on")
    if strategy == "mask":
        return {entry["irq"]: cpus for entry in entries}
    order = cpu_order(cpus, cores)
    # Receive and transmit of one queue share a CPU where they have an interrupt each (virtio): what one wrote the other reads.
    turns: Dict[int, int] = {}
    wanted: Dict[int, CpuSet] = {}
    turn = 0
    for entry in entries:
        queue = entry["queue"]
        if queue is None or queue not in turns:
            position = turn
            turn += 1
            if queue is not None:
                turns[queue] = position
        else:
            position = turns[queue]
        wanted[entry["irq"]] = frozenset((order[position % len(order)],))
    return wanted


def skew(results: Iterable[Mapping[str, Any]], cpus: CpuSet) -> Optional[str]:
    """Words about queues of one device that pile up on few of the CPUs they were given, or None.

    Queues are even if no CPU has two more than its fair share: with the strategy ``mask`` the kernel may choose otherwise.
    """
    queues: Dict[int, int] = {}
    for entry in results:
        effective = _set(entry["effective"]) or cpulist.EMPTY
        if entry["queue"] is not None and len(effective) == 1:
            queues[min(effective)] = queues.get(min(effective), 0) + 1
    total, most = sum(queues.values()), max(queues.values(), default=0)
    if len(cpus) < 2 or most < -(-total // len(cpus)) + 2:
        return None
    busiest = min(cpu for cpu, count in queues.items() if count == most)
    return f"{most} of {total} queues are on CPU {busiest}, of {len(cpus)} CPUs that they may use"


def without_vectors(results: Sequence[Mapping[str, Any]]) -> Optional[str]:
    """Words about how many interrupts of one device its CPUs have room for, or None where that is all of them."""
    without = sum(entry["verdict"] == "no_vectors" for entry in results)
    return f"have vectors for {len(results) - without} of its {len(results)} interrupts: give it fewer queues or more CPUs" if without else None


def verdict(
    wanted: CpuSet, asked: Optional[CpuSet], effective: Optional[CpuSet], errno: Optional[int] = None,  # pylint: disable=redefined-outer-name
    fired: Optional[bool] = None, wrote: bool = False,
) -> str:
    """One of VERDICTS about an interrupt.

    :param asked, effective: as read now, after the write if there was one; None where the kernel has no such file.
    :param errno: of the write that failed: EPERM (kernel 6.12 and later) and EIO (before) mean the kernel manages it, ENOSPC
        that no CPU of the list has a vector left.
    :param fired: whether it came since the write. A move is done by the next interrupt, so before it ``pending`` is right.
    :param wrote: a write has succeeded: ``moved`` instead of ``right``.
    """
    if errno is not None:
        return _ERRNO.get(errno, "refused")
    if asked is None or asked != wanted:
        return "differs"
    if effective is None or (effective and effective <= wanted):
        return "moved" if wrote else "right"
    # an interrupt that was never started has no effective CPU
    return "differs" if fired and effective else "pending"


_ERRNO = {errno.EPERM: "managed", errno.EIO: "managed", errno.ENOSPC: "no_vectors"}


# -- the live node

Write = Callable[[str, str], None]


def writer(sysroot: SysRoot) -> Write:
    """A function that writes a text into a file that exists, below the root."""
    def write(path: str, text: str) -> None:
        reason = sysroot.escapes(path)
        if reason:
            raise OSError(errno.EXDEV, reason)
        handle = os.open(sysroot.on_host(path), os.O_WRONLY | os.O_CLOEXEC | (0 if sysroot.live else os.O_TRUNC))
        try:
            os.write(handle, text.encode("ascii"))
        finally:
            os.close(handle)
    return write


def store(sysroot: SysRoot, path: str, text: str) -> None:
    """Write a file of our own, whole or not at all; its folder is made.

    :raises OSError: it cannot be written.
    """
    reason = sysroot.escapes(path)
    if reason:
        raise OSError(errno.EXDEV, reason)
    place = sysroot.on_host(path)
    os.makedirs(os.path.dirname(place), mode=0o755, exist_ok=True)
    temporary = f"{place}.{os.getpid()}.new"
    handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW, 0o644)
    try:
        try:
            data = text.encode("utf-8")
            while data:
                data = data[os.write(handle, data):]
            os.fsync(handle)
        finally:
            os.close(handle)
        os.replace(temporary, place)
    except BaseException:
        os.unlink(temporary)
        raise


def discard(sysroot: SysRoot, path: str) -> None:
    """Remove a file of our own, and its folder where that is empty then.

    :raises OSError: it is there and stays.
    """
    reason = sysroot.escapes(path)
    if reason:
        raise OSError(errno.EXDEV, reason)
    place = sysroot.on_host(path)
    try:
        os.unlink(place)
        os.rmdir(os.path.dirname(place))
    except OSError as error:
        if error.errno not in (errno.ENOENT, errno.ENOTEMPTY, errno.EEXIST):
            raise


@contextmanager
def locked(sysroot: SysRoot) -> Iterator[None]:
    """Keeps the module, the boot unit and the udev units off each other: all of them read, decide and write.

    :raises OSError: not root.
    """
    place = sysroot.on_host(_LOCK)
    os.makedirs(os.path.dirname(place), mode=0o755, exist_ok=True)
    handle = os.open(place, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def read_runtime(sysroot: SysRoot) -> Dict[str, Any]:
    """What this boot has learnt: ``{"managed": {irq: [handlers]}, "said": {device: [lines]}}``, empty before the first run."""
    found: Dict[str, Any] = {"managed": {}, "said": {}}
    try:
        data = json.loads(sysroot.text(RUNTIME, 2**22) or "{}")
    except (ValueError, RecursionError):
        return found
    for key in found:
        if isinstance(data, dict) and isinstance(data.get(key), dict):
            found[key] = data[key]
    return found


def learn(sysroot: SysRoot, results: Iterable[Mapping[str, Any]], said: Optional[Mapping[str, Sequence[str]]] = None) -> None:
    """Keep until the next boot what a run has learnt; nothing is written where that is nothing new.

    :param results: of :func:`apply`.
    """
    before = read_runtime(sysroot)
    after = {"managed": dict(before["managed"]), "said": {**before["said"], **{device: list(lines) for device, lines in (said or {}).items()}}}
    for entry in results:
        if entry["errno"] and entry["verdict"] == "managed":
            after["managed"][str(entry["irq"])] = handlers(sysroot, entry["irq"])
    if after != before:
        store(sysroot, RUNTIME, json.dumps(after) + "\n")


def put_default(sysroot: SysRoot, cpus: CpuSet, check: bool = False, write: Optional[Write] = None) -> Tuple[bool, Optional[str]]:
    """Set where new interrupts start. :returns: whether it differed, and the errno's name if it was refused."""
    present = read_default(sysroot)
    if present is None or present == cpus:
        return False, None
    if not check:
        try:
            (write or writer(sysroot))(DEFAULT, cpulist.to_mask(cpus))
        except OSError as error:
            return True, errno.errorcode.get(error.errno or 0, str(error.errno))
    return True, None


def _fired(sysroot: SysRoot, numbers: Collection[int]) -> Dict[int, int]:
    return {row.irq: row.total for row in parse_interrupts(sysroot.text("/proc/interrupts") or "", numbers) if row.irq is not None}


def _set(value: Optional[str]) -> Optional[CpuSet]:
    return None if value is None else cpulist.from_list(value)


def apply(
    sysroot: SysRoot, plan: Mapping[int, CpuSet], entries: Sequence[Mapping[str, Any]], check: bool = False,
    write: Optional[Write] = None, pause: Callable[[float], None] = time.sleep,
) -> List[Dict[str, Any]]:
    """Bring the interrupts of ``entries`` (of :func:`read_irqs`) to where ``plan`` has them.

    Nothing is written where an interrupt is right already, nor with ``check``: then the verdict is about what is there, and an
    interrupt that is known to be managed is told from one that only differs. One that does not exist yet is ``pending``.

    :returns: ``{irq, device, queue, wanted, asked, effective, verdict, errno}``, lists as texts.
    """
    write = write or writer(sysroot)
    chosen = [entry for entry in entries if entry["irq"] in plan]
    # A vector that no driver has asked for (an interface that was not brought up yet) has no files: nothing can be set before.
    asleep = {entry["irq"] for entry in chosen if entry["asked"] is None and not sysroot.exists(f"/proc/irq/{entry['irq']}")}
    errors: Dict[int, int] = {}
    wrote: Set[int] = set()
    before: Dict[int, int] = {}
    if not check:
        awake = [entry for entry in chosen if entry["irq"] not in asleep]
        wrong = [entry for entry in awake if verdict(plan[entry["irq"]], _set(entry["asked"]), _set(entry["effective"])) != "right"]
        before = _fired(sysroot, {entry["irq"] for entry in wrong}) if wrong else {}
        for entry in wrong:
            number = entry["irq"]
            failed = _move(write, number, plan[number], pause)
            if failed is None:
                wrote.add(number)
            else:
                errors[number] = failed
    after = _fired(sysroot, wrote) if wrote else {}
    results: List[Dict[str, Any]] = []
    for entry in chosen:
        number = entry["irq"]
        now = {**entry, **_affinity(sysroot, number)} if number in wrote or number in errors else entry
        fired = after[number] > before[number] if number in after and number in before else None
        judged = verdict(plan[number], _set(now["asked"]), _set(now["effective"]), errors.get(number), fired, number in wrote)
        if judged == "differs" and check and now["managed"]:
            judged = "managed"
        if number in asleep:
            judged = "pending"
        results.append({
            "irq": number, "device": entry["device"], "queue": entry["queue"], "wanted": cpulist.to_list(plan[number]),
            "asked": now["asked"], "effective": now["effective"], "errno": errno.errorcode.get(errors[number]) if number in errors else None,
            "verdict": judged,
        })
    return results


def _move(write: Write, number: int, cpus: CpuSet, pause: Callable[[float], None]) -> Optional[int]:
    """Ask for a move; the errno if it was refused. EBUSY (an earlier move still cleans up) is tried again for 50 ms."""
    for attempt in range(6):
        try:
            write(f"/proc/irq/{number}/smp_affinity_list", cpulist.to_list(cpus))
            return None
        except OSError as error:
            if error.errno != errno.EBUSY or attempt == 5:
                return error.errno or errno.EIO
            pause(0.01)
    return errno.EBUSY


def read_steering(sysroot: SysRoot, interface: str, kind: str) -> Dict[str, CpuSet]:
    """Receive (``rps``) or transmit (``xps``) packet steering of an interface: queue to CPUs.

    A queue without the file is left out: a kernel without the feature, or a device with one queue, which refuses to say.
    """
    prefix = {"rps": "rx-", "xps": "tx-"}[kind]
    base = f"/sys/class/net/{interface}/queues"
    found: Dict[str, CpuSet] = {}
    for queue in sorted((name for name in sysroot.listdir(base) if name.startswith(prefix)), key=lambda name: (len(name), name)):
        present = sysroot.cpu_mask(f"{base}/{queue}/{kind}_cpus")
        if present is not None:
            found[queue] = present
    return found


def steer(
    sysroot: SysRoot, interface: str, kind: str, cpus: CpuSet, check: bool = False, write: Optional[Write] = None,
    each: Optional[Mapping[str, CpuSet]] = None,
) -> Dict[str, Any]:
    """Set receive (``rps``) or transmit (``xps``) packet steering of all queues of an interface; no CPUs turn it off.

    :param each: queues that get other CPUs than the rest.
    :returns: ``{interface, kind, wanted, changed: [queue], errno: {queue: name}, cut: {queue: list}}``; of the queues in ``cut``
        the kernel took other CPUs than it was given: of those for receiving it keeps none that the boot arguments isolate
        (net/core/net-sysfs.c).
    """
    write = write or writer(sysroot)
    result: Dict[str, Any] = {"interface": interface, "kind": kind, "wanted": cpulist.to_list(cpus), "changed": [], "errno": {}, "cut": {}}
    for queue, present in read_steering(sysroot, interface, kind).items():
        mine = (each or {}).get(queue, cpus)
        path = f"/sys/class/net/{interface}/queues/{queue}/{kind}_cpus"
        if present == mine:
            continue
        if not check:
            try:
                write(path, cpulist.to_mask(mine))
            except OSError as error:
                result["errno"][queue] = errno.errorcode.get(error.errno or 0, str(error.errno))
                continue
            taken = sysroot.cpu_mask(path)
            if taken is not None and taken != mine:
                result["cut"][queue] = cpulist.to_list(taken)
            if taken == present:
                continue
        result["changed"].append(queue)
    return result


# -- what is configured for the next boot

def read_configured(sysroot: SysRoot) -> Optional[Dict[str, Any]]:
    """The file the boot program reads: ``{"version": 1, "default_affinity", "devices": [{address, cpus, strategy, queues, rps, xps}]}``.

    Lists are canonical texts, ``queues`` a number; all but address and strategy are None where nothing is wanted. None where the
    file is absent, or not such a file (a problem then).
    """
    text = sysroot.text(CONFIGURED, 2**20)
    if text is None:
        return None
    try:
        data = json.loads(text)
    except (ValueError, RecursionError):
        sysroot.problem(CONFIGURED, "is not JSON")
        return None
    try:
        return _configured(data)
    except (KeyError, TypeError, ValueError) as error:
        reason = f"'{error.args[0]}' is missing" if isinstance(error, KeyError) else str(error)
        sysroot.problem(CONFIGURED, f"is not what this version writes: {reason[:200]}")
        return None


def _configured(data: Any) -> Dict[str, Any]:
    if not isinstance(data, dict) or data.get("version") != 1:
        raise ValueError("version is not 1")
    if not isinstance(data["devices"], list):
        raise TypeError("devices is not a list")
    default = data.get("default_affinity")
    if default is not None:
        if not isinstance(default, str) or not cpulist.from_list(default):
            raise ValueError("default_affinity is not a CPU list")
        default = cpulist.to_list(cpulist.from_list(default))
    devices: List[Dict[str, Any]] = []
    for device in data["devices"]:
        if not isinstance(device, dict):
            raise TypeError("a device is not a mapping")
        if not isinstance(device["address"], str) or not _ADDRESS.fullmatch(device["address"]):
            raise ValueError("a device's address is not a PCI address")
        if device.get("strategy", "spread") not in STRATEGIES:
            raise ValueError(f"strategy of {device['address']} is none of {', '.join(STRATEGIES)}")
        queues = device.get("queues")
        if queues is not None and (isinstance(queues, bool) or not isinstance(queues, int) or queues < 1):
            raise ValueError(f"queues of {device['address']} is not a number above 0")
        entry: Dict[str, Any] = {"address": device["address"], "strategy": device.get("strategy", "spread"), "queues": queues}
        for key in ("cpus", "rps", "xps"):
            value = device.get(key)
            if value is not None and not isinstance(value, str):
                raise TypeError(f"{key} of {device['address']} is not a CPU list")
            entry[key] = None if value is None else cpulist.to_list(cpulist.from_list(value))
        if entry["cpus"] == "":
            raise ValueError(f"cpus of {device['address']} is empty")
        devices.append(entry)
    return {"version": 1, "default_affinity": default, "devices": devices}


__all__ = (
    "CONFIGURED", "DEFAULT", "IN_SYNC", "Interrupt", "RUNTIME", "STRATEGIES", "VERDICTS", "apply", "count_softirqs", "cpu_order", "device_irqs", "discard",
    "handlers", "interfaces", "is_address", "learn", "locked", "nearest", "numa_node", "parse_interrupts", "parse_softirqs", "pci_address", "place",
    "put_default", "queue_numbers", "read_configured", "read_cores", "read_default", "read_irqs", "read_nearest", "read_runtime",
    "read_softirqs", "read_steering", "sample_softirqs", "skew", "softirq_delta", "softirq_share", "steer", "store", "verdict", "without_vectors", "writer",
)
