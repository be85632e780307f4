# Copyright (c) 2026 The inferops.locality authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Where interrupts, queues and steering were before this collection touched them, and the way back.

Taken once for each device, before its first change, and never overwritten. Interrupts are kept by what they are to their
device, not by number: numbers change when a driver reloads or the node reboots.
"""

from __future__ import annotations

import json
from typing import Any, Dict, Iterable, List, Mapping, Optional, Sequence, Tuple

from ansible_collections.inferops.locality.plugins.module_utils import cpulist, irq, nic_channels
from ansible_collections.inferops.locality.plugins.module_utils.cpulist import CpuSet
from ansible_collections.inferops.locality.plugins.module_utils.sysroot import SysRoot

SAVED = "/var/lib/inferops-locality/irq.json"
_NOTE = "What the collection inferops.locality found before it placed interrupts; removed when that is put back."


class SavedError(ValueError):
    """The file is there and is not what this version writes."""


def read(sysroot: SysRoot) -> Optional[Dict[str, Any]]:
    """``{"version": 1, "default_affinity": list|None, "devices": {address: record}}``; None where nothing was saved.

    A record is ``{"irqs": [{"queue", "asked"}], "channels": {interface: [rx, tx, combined]}, "rps": {interface: {queue: list}},
    "xps": …}``, its interrupts in the order of their numbers then.

    :raises SavedError: not such a file. Nothing may be changed then, since the originals would be lost.
    """
    text = sysroot.text(SAVED, 2**24)
    if text is None:
        if sysroot.reads.get(SAVED) == "file":
            raise SavedError(f"{SAVED} cannot be read")
        return None
    try:
        data = json.loads(text)
        if data["version"] != 1:
            raise SavedError(f"{SAVED} has version {data['version']!r}, this collection knows 1")
        if data["default_affinity"] is not None:
            cpulist.from_list(data["default_affinity"])
        for address, record in data["devices"].items():
            if not irq.is_address(address):
                raise SavedError(f"{SAVED}: '{address}' is not a PCI address")
            _check(record)
    except (KeyError, TypeError, AttributeError, ValueError, RecursionError) as error:
        if isinstance(error, SavedError):
            raise
        raise SavedError(f"{SAVED} is not what this version writes: {type(error).__name__} {str(error)[:200]}") from error
    return {key: data[key] for key in ("version", "default_affinity", "devices")}


def _check(record: Mapping[str, Any]) -> None:
    for entry in record["irqs"]:
        if entry["asked"] is not None:
            cpulist.from_list(entry["asked"])
        if entry["queue"] is not None and not isinstance(entry["queue"], int):
            raise TypeError("queue is not a number")
    for values in record["channels"].values():
        if len(values) != 3 or not all(isinstance(value, int) for value in values):
            raise TypeError("channels are not three numbers")
    for kind in ("rps", "xps"):
        for queues in record[kind].values():
            for value in queues.values():
                cpulist.from_list(value)


def take(sysroot: SysRoot, addresses: Iterable[str]) -> bool:
    """Save what these devices have now, those that were saved before apart. :returns: whether anything was saved.

    :raises SavedError: what was saved before cannot be read. :raises OSError: the file cannot be written.
    """
    present = read(sysroot)
    data = present or {"version": 1, "default_affinity": _text(irq.read_default(sysroot)), "devices": {}}
    fresh = [address for address in addresses if address not in data["devices"]]
    if present is not None and not fresh:
        return False
    for address in fresh:
        data["devices"][address] = _record(sysroot, address)
    irq.store(sysroot, SAVED, json.dumps({"note": _NOTE, **data}, indent=1) + "\n")
    return True


def _text(cpus: Optional[CpuSet]) -> Optional[str]:
    return None if cpus is None else cpulist.to_list(cpus)


def _record(sysroot: SysRoot, address: str) -> Dict[str, Any]:
    entries = sorted(irq.read_irqs(sysroot, [{"address": address}]), key=lambda entry: int(entry["irq"]))
    names = irq.interfaces(sysroot, address)
    record: Dict[str, Any] = {"irqs": [{"queue": entry["queue"], "asked": entry["asked"]} for entry in entries], "channels": {}}
    for name in names if sysroot.live else ():
        try:
            channels = nic_channels.get(name)
        except OSError:
            channels = None
        if channels is not None:
            record["channels"][name] = [channels.rx, channels.tx, channels.combined]
    for kind in ("rps", "xps"):
        record[kind] = {name: {queue: cpulist.to_list(cpus) for queue, cpus in irq.read_steering(sysroot, name, kind).items()} for name in names}
    return record


def originals(record: Mapping[str, Any], entries: Sequence[Mapping[str, Any]], default: Optional[str]) -> Dict[int, CpuSet]:
    """Where the interrupts of a device were: number as of now to CPUs.

    As many as then: the same order. Otherwise by queue; one that is new starts where new ones start.

    :param entries: of ``irq.read_irqs``, of this device. :param default: CPUs new interrupts started on then.
    """
    saved = record["irqs"]
    ordered = sorted(entries, key=lambda entry: int(entry["irq"]))
    plan: Dict[int, CpuSet] = {}
    left: Dict[Any, List[Optional[str]]] = {}
    for entry in saved:
        left.setdefault(entry["queue"], []).append(entry["asked"])
    for position, entry in enumerate(ordered):
        if len(ordered) == len(saved):
            value = saved[position]["asked"]
        else:
            mine = left.get(entry["queue"])
            value = mine.pop(0) if mine else default
        cpus = cpulist.from_list(value) if value is not None else cpulist.EMPTY
        if cpus:
            plan[int(entry["irq"])] = cpus
    return plan


def restore(
    sysroot: SysRoot, addresses: Optional[Sequence[str]] = None, check: bool = False, write: Optional[irq.Write] = None,
) -> Tuple[List[Dict[str, Any]], List[str], List[str]]:
    """Put back what was saved, and forget it: of these devices, or of all and with them where new interrupts start.

    :returns: results of ``irq.apply``; lines about queues, steering and devices that are gone; lines about what could not be
        put back. What could not be put back stays saved.
    :raises SavedError: what was saved cannot be read. :raises OSError: the file cannot be written.
    """
    data = read(sysroot)
    results: List[Dict[str, Any]] = []
    done: List[str] = []
    failed: List[str] = []
    if data is None:
        return results, done, failed
    for address in list(data["devices"]) if addresses is None else addresses:
        record = data["devices"].get(address)
        if record is None:
            continue
        before = len(failed)
        if not sysroot.exists(f"/sys/bus/pci/devices/{address}"):
            done.append(f"{address}: no such device any more: forgotten")
        else:
            _channels(sysroot, address, record, check, done, failed)
            entries = irq.read_irqs(sysroot, [{"address": address}])
            mine = irq.apply(sysroot, originals(record, entries, data["default_affinity"]), entries, check, write)
            results += mine
            failed += [f"{address} interrupt {entry['irq']}: {entry['verdict']} ({entry['errno']})" for entry in mine
                       if entry["errno"] and entry["verdict"] not in irq.IN_SYNC]
            _steering(sysroot, address, record, check, write, done, failed)
        if len(failed) == before:
            del data["devices"][address]
    if not data["devices"] and data["default_affinity"]:
        changed, code = irq.put_default(sysroot, cpulist.from_list(data["default_affinity"]), check, write)
        if code:
            failed.append(f"{irq.DEFAULT} stays: {code}")
        elif changed:
            done.append(f"new interrupts start on '{data['default_affinity']}'")
    if not check:
        if data["devices"] or failed:
            irq.store(sysroot, SAVED, json.dumps({"note": _NOTE, **data}, indent=1) + "\n")
        else:
            irq.discard(sysroot, SAVED)
    return results, done, failed


def _channels(sysroot: SysRoot, address: str, record: Mapping[str, Any], check: bool, done: List[str], failed: List[str]) -> None:
    for name, (received, sent, combined) in record["channels"].items() if sysroot.live else ():
        if name not in irq.interfaces(sysroot, address):
            continue
        try:
            present = nic_channels.get(name)
            if present is None or (present.rx, present.tx, present.combined) == (received, sent, combined):
                continue
            if not check:
                nic_channels.put(name, nic_channels.with_counts(present, received, sent, combined))
            done.append(f"{address} {name}: {combined or received} queues")
        except OSError as error:
            failed.append(f"{address} {name}: the number of queues stays: {error.strerror}")


def _steering(
    sysroot: SysRoot, address: str, record: Mapping[str, Any], check: bool, write: Optional[irq.Write], done: List[str], failed: List[str],
) -> None:
    for kind in ("rps", "xps"):
        for name in irq.interfaces(sysroot, address):
            saved = {queue: cpulist.from_list(value) for queue, value in record[kind].get(name, {}).items()}
            result = irq.steer(sysroot, name, kind, cpulist.EMPTY, check, write, saved)
            if result["changed"]:
                done.append(f"{address} {name}: {kind} of {len(result['changed'])} queues")
            failed += [f"{address} {name}: {kind} of {queue} stays: {code}" for queue, code in result["errno"].items()]
            failed += [f"{address} {name}: {kind} of {queue}: the kernel took '{taken}'" for queue, taken in result["cut"].items()]


__all__ = ("SAVED", "SavedError", "originals", "read", "restore", "take")
