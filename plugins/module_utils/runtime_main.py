# Copyright (c) 2026 The inferops.locality authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the program on the node does at boot and when a NIC appears: bring interrupts and queues to where irq.json has them.

It decides nothing: ``/etc/inferops-locality/irq.json`` comes from the plan. It is packed from these very files
(``plugin_utils/runtime.py``), so that the node at boot and the modules of a run agree.
"""

from __future__ import annotations

import argparse
import sys
from typing import Any, Dict, List, Optional, Sequence, TextIO

from ansible_collections.inferops.locality.plugins.module_utils import cpulist, irq, nic_channels
from ansible_collections.inferops.locality.plugins.module_utils.sysroot import SysRoot

DONE, NOT_DONE, UNUSABLE = 0, 1, 2


def main(argv: Optional[Sequence[str]] = None, version: str = "unknown", out: Optional[TextIO] = None) -> int:
    """Run one command; the exit status.

    0: all is where it should be, or will be with the next interrupt, or the kernel manages it itself. 1: something could not be
    brought there. 2: irq.json cannot be used (argparse ends with 2 for wrong arguments as well).

    :param version: of the program, from its own archive.
    """
    out = out or sys.stdout
    parser = argparse.ArgumentParser(prog="locality.pyz", description="Puts interrupts and queues where the plan of inferops.locality has them.")
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("version", help="print the version")
    command = commands.add_parser("irq", help="bring interrupts and queues to /etc/inferops-locality/irq.json")
    command.add_argument("action", nargs="?", choices=("apply",), default="apply")
    command.add_argument("--check", action="store_true", help="say what differs and change nothing")
    command.add_argument("--interface", help="the device of this interface only")
    command.add_argument("--root", default="/", help=argparse.SUPPRESS)
    arguments = parser.parse_args(argv)
    if arguments.command == "version":
        print(version, file=out)
        return DONE
    return apply(SysRoot(arguments.root), arguments.check, arguments.interface, out)


def apply(sysroot: SysRoot, check: bool = False, interface: Optional[str] = None, out: Optional[TextIO] = None) -> int:
    """Bring the configured devices, or the one behind ``interface``, to their plan; the exit status as of :func:`main`."""
    out = out or sys.stdout
    configured = irq.read_configured(sysroot)
    if configured is None:
        for problem in sysroot.problems:
            print(f"{problem['file']} {problem['reason']}", file=out)
        if not sysroot.problems:
            print(f"{irq.CONFIGURED} is not there: nothing to do", file=out)
        return UNUSABLE if sysroot.problems else DONE
    devices: List[Dict[str, Any]] = configured["devices"]
    if interface is not None:
        address = irq.pci_address(sysroot, interface)
        devices = [device for device in devices if device["address"] == address]
        if not devices:
            print(f"{interface}: nothing is configured for this interface", file=out)
    good = True
    for device in devices:
        if not sysroot.is_dir(f"/sys/bus/pci/devices/{device['address']}"):
            print(f"{device['address']}: no such device", file=out)
            good = False
            continue
        # the number of queues first: it makes and frees interrupts
        good &= _queues(sysroot, device, check, out)
        good &= _interrupts(sysroot, device, check, out)
        good &= _steering(sysroot, device, check, out)
    return DONE if good else NOT_DONE


def _queues(sysroot: SysRoot, device: Dict[str, Any], check: bool, out: TextIO) -> bool:
    # there is no such setting on paper
    if device["queues"] is None or not sysroot.live:
        return True
    good = True
    for name in irq.interfaces(sysroot, device["address"]):
        try:
            present = nic_channels.get(name)
            if present is None:
                print(f"{device['address']} {name}: the driver has no number of queues to set", file=out)
                continue
            wanted = nic_channels.wanted(present, device["queues"])
            if wanted == present:
                continue
            print(f"{device['address']} {name}: {present.combined or present.rx} queues, {device['queues']} wanted{'' if check else ': set'}", file=out)
            if not check:
                nic_channels.put(name, wanted)
            else:
                good = False
        except (OSError, ValueError) as error:
            print(f"{device['address']} {name}: the number of queues stays: {getattr(error, 'strerror', None) or error}", file=out)
            good = False
    return good


def _interrupts(sysroot: SysRoot, device: Dict[str, Any], check: bool, out: TextIO) -> bool:
    if device["cpus"] is None:
        return True
    cpus = cpulist.from_list(device["cpus"])
    entries = irq.read_irqs(sysroot, [device])
    if not entries:
        print(f"{device['address']}: has no interrupts of its own", file=out)
        return True
    plan = irq.place(entries, cpus, device["strategy"], irq.read_cores(sysroot, cpus))
    counts = dict.fromkeys(irq.VERDICTS, 0)
    for result in irq.apply(sysroot, plan, entries, check):
        counts[result["verdict"]] += 1
        if result["verdict"] not in irq.IN_SYNC:
            reason = f" ({result['errno']})" if result["errno"] else ""
            print(f"{device['address']} interrupt {result['irq']}: {result['verdict']}{reason}: on CPUs '{result['effective'] or result['asked']}', "
                  f"wanted '{result['wanted']}'", file=out)
    print(f"{device['address']}: " + ", ".join(f"{count} {name}" for name, count in counts.items() if count), file=out)
    return not any(count for name, count in counts.items() if name not in irq.IN_SYNC)


def _steering(sysroot: SysRoot, device: Dict[str, Any], check: bool, out: TextIO) -> bool:
    good = True
    for kind in ("rps", "xps"):
        if device[kind] is None:
            continue
        for name in irq.interfaces(sysroot, device["address"]):
            result = irq.steer(sysroot, name, kind, cpulist.from_list(device[kind]), check)
            if result["changed"]:
                done = "differs from" if check else "set to"
                print(f"{device['address']} {name}: {kind} of {len(result['changed'])} queues {done} '{device[kind]}'", file=out)
                good &= not check
            for queue, code in result["errno"].items():
                print(f"{device['address']} {name}: {kind} of {queue} stays: {code}", file=out)
                good = False
    return good


__all__ = ("DONE", "NOT_DONE", "UNUSABLE", "apply", "main")
