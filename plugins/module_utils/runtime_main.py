# Copyright (c) 2026 The inferops.locality authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the program on the node does at boot, when a NIC appears, and once a minute: bring interrupts and queues to where irq.json has them.

It decides nothing: ``/etc/inferops-locality/irq.json`` comes from the plan. Before RKE2 starts it can take away checkpoint files that would stop the
kubelet, by the rules of the module kubelet_cpu_state. It is packed from these very files
(``plugin_utils/runtime.py``), so that the node at boot and the modules of a run agree.
"""

from __future__ import annotations

import argparse
import json
import sys
from contextlib import ExitStack
from typing import Any, Dict, List, Optional, Sequence, TextIO

from ansible_collections.inferops.locality.plugins.module_utils import cpulist, irq, irq_saved, nic_channels
from ansible_collections.inferops.locality.plugins.module_utils.sysroot import SysRoot

DONE, NOT_DONE, UNUSABLE = 0, 1, 2


def main(argv: Optional[Sequence[str]] = None, version: str = "unknown", out: Optional[TextIO] = None) -> int:
    """Run one command; the exit status.

    0: all is where it should be, or will be with the next interrupt, or the kernel manages it itself, or the device is not
    there; nothing is known that would stop the kubelet. 1: something could not be brought there, or the kubelet would not start. 2: irq.json, or what was
    saved, cannot be used (argparse ends with 2 for wrong arguments as well).

    :param version: of the program, from its own archive.
    """
    out = out or sys.stdout
    parser = argparse.ArgumentParser(prog="locality.pyz", description="Puts interrupts and queues where the plan of inferops.locality has them.")
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("version", help="print the version")
    command = commands.add_parser("irq", help="bring interrupts and queues to /etc/inferops-locality/irq.json, or back")
    command.add_argument("action", nargs="?", choices=("apply", "restore"), default="apply",
                         help="apply (default), or restore what was there before the first apply")
    command.add_argument("--check", action="store_true", help="say what differs and change nothing")
    command.add_argument("--interface", help="the device of this interface only")
    command.add_argument("--brief", action="store_true", help="say what is changed, and what is wrong only if it was not said since the boot")
    command.add_argument("--json", action="store_true", help="print {changed, good, lines}")
    command.add_argument("--root", default="/", help=argparse.SUPPRESS)
    command = commands.add_parser("softirqs", help="count softirqs of the network for some seconds and print them as JSON")
    command.add_argument("--seconds", type=_seconds, default=10.0, help="default 10")
    command.add_argument("--cpus", type=cpulist.from_list, help="CPU list of which the share of NET_RX is told")
    command.add_argument("--root", default="/", help=argparse.SUPPRESS)
    command = commands.add_parser("kubelet-state", help="before the kubelet's first start of a boot: take away checkpoint files with which it would not start")
    command.add_argument("--check", action="store_true", help="say what would be done and do nothing")
    command.add_argument("--json", action="store_true", help="print {changed, good, lines}")
    command.add_argument("--root", default="/", help=argparse.SUPPRESS)
    arguments = parser.parse_args(argv)
    if arguments.command == "version":
        out.write(f"{version}\n")
        return DONE
    sysroot = SysRoot(arguments.root)
    if arguments.command == "softirqs":
        json.dump(irq.sample_softirqs(sysroot, arguments.seconds, arguments.cpus), out)
        out.write("\n")
        return DONE
    if arguments.command == "kubelet-state":
        # Not at the top: an archive without compiled files reads each member anew, and the timer of the interrupts runs once a minute.
        from ansible_collections.inferops.locality.plugins.module_utils import kubelet_boot  # noqa: PLC0415

        good, changed, lines = kubelet_boot.before_first_start(sysroot, arguments.check)
        _print(out, arguments.json, changed, good, lines)
        return DONE if good else NOT_DONE
    if arguments.action == "restore" and arguments.interface:
        parser.error("restore knows no --interface")
    report = Report()
    status = _run(sysroot, arguments, report)
    lines = report.brief(irq.read_runtime(sysroot)["said"]) if arguments.brief else report.lines
    if arguments.brief and not arguments.check:
        try:
            irq.learn(sysroot, (), report.standing)
        except OSError as error:
            lines.append(f"{irq.RUNTIME} stays as it is: {error.strerror}")
    _print(out, arguments.json, report.changed, status == DONE, lines)
    return status


def _print(out: TextIO, as_json: bool, changed: bool, good: bool, lines: List[str]) -> None:
    if as_json:
        json.dump({"changed": changed, "good": good, "lines": lines}, out)
        out.write("\n")
    else:
        for line in lines:
            out.write(f"{line}\n")


def _seconds(text: str) -> float:
    value = float(text)
    if not 0 < value <= 3600:
        raise argparse.ArgumentTypeError(f"{text} is not more than 0 and at most 3600")
    return value


class Report:
    """What a run has to say.

    :ivar lines: all of it. :ivar changed: whether anything was changed. :ivar standing: device to the lines that will be true
        at the next run as well; of the node itself under an empty name.
    """

    def __init__(self) -> None:
        self.lines: List[str] = []
        self.changed = False
        self.standing: Dict[str, List[str]] = {}
        self._changes: List[str] = []

    def did(self, line: str) -> None:
        """Something was changed."""
        self.lines.append(line)
        self._changes.append(line)
        self.changed = True

    def stands(self, device: str, line: str) -> None:
        """Something is not as wanted, or cannot be."""
        self.lines.append(line)
        self.standing.setdefault(device, []).append(line)

    def looked(self, device: str) -> None:
        """A device's lines of earlier runs are out of date."""
        self.standing.setdefault(device, [])

    def brief(self, said: Dict[str, Any]) -> List[str]:
        """Lines that are news: changes, and what stands for the first time."""
        news = {line for device, lines in self.standing.items() for line in lines if line not in said.get(device, [])}
        return [line for line in self.lines if line in self._changes or line in news]


def _run(sysroot: SysRoot, arguments: argparse.Namespace, report: Report) -> int:
    with ExitStack() as stack:
        # below another root nobody else acts
        if sysroot.live and not arguments.check:
            try:
                stack.enter_context(irq.locked(sysroot))
            except OSError as error:
                report.stands("", f"only root may change interrupts: {error.strerror}")
                return NOT_DONE
        if arguments.action == "restore":
            return _restore(sysroot, arguments.check, report)
        return apply(sysroot, arguments.check, arguments.interface, report)


def apply(sysroot: SysRoot, check: bool = False, interface: Optional[str] = None, report: Optional[Report] = None) -> int:
    """Bring the configured devices, or the one behind ``interface``, to their plan; the exit status as of :func:`main`."""
    report = report or Report()
    configured = irq.read_configured(sysroot)
    if configured is None:
        for problem in sysroot.problems:
            report.stands("", f"{problem['file']} {problem['reason']}")
        if not sysroot.problems:
            report.stands("", f"{irq.CONFIGURED} is not there: nothing to do")
        return UNUSABLE if sysroot.problems else DONE
    devices: List[Dict[str, Any]] = configured["devices"]
    if interface is not None:
        address = irq.pci_address(sysroot, interface)
        devices = [device for device in devices if device["address"] == address]
        if not devices:
            report.lines.append(f"{interface}: nothing is configured for this interface")
    else:
        report.looked("")
    present = [device for device in devices if sysroot.is_dir(f"/sys/bus/pci/devices/{device['address']}")]
    good = True
    if not check and (present or configured["default_affinity"]):
        try:
            irq_saved.take(sysroot, [device["address"] for device in present])
        except irq_saved.SavedError as error:
            report.stands("", f"{error}: remove it, and with it the way back, or put the right one there")
            return UNUSABLE
        except OSError as error:
            # A node that boots must not take interrupts on its pods' CPUs because a disk is full.
            report.stands("", f"{irq_saved.SAVED} cannot be written, there will be no way back: {error.strerror}")
            good = False
    if interface is None and sysroot.is_dir("/sys/fs/cgroup/system.slice/irqbalance.service"):
        report.stands("", "irqbalance runs: it moves interrupts away from where they are put")
    if interface is None and configured["default_affinity"]:
        good &= _default(sysroot, configured["default_affinity"], check, report)
    for device in devices:
        report.looked(device["address"])
        if device not in present:
            # pulled, or not there yet: udev says when it comes
            report.stands(device["address"], f"{device['address']}: no such device")
            continue
        # the number of queues first: it makes and frees interrupts
        good &= _queues(sysroot, device, check, report)
        good &= _interrupts(sysroot, device, check, report)
        good &= _steering(sysroot, device, check, report)
    return DONE if good else NOT_DONE


def _restore(sysroot: SysRoot, check: bool, report: Report) -> int:
    try:
        results, done, failed = irq_saved.restore(sysroot, None, check)
    except irq_saved.SavedError as error:
        report.stands("", str(error))
        return UNUSABLE
    except OSError as error:
        report.stands("", f"{irq_saved.SAVED}: {error.strerror}")
        return NOT_DONE
    for result in results:
        if result["verdict"] in ("moved", "differs") or result["errno"]:
            line = f"{result['device']} interrupt {result['irq']}: {result['verdict']}: CPUs '{result['wanted']}'"
            report.lines.append(line)
            report.changed |= result["errno"] is None and not check
    for line in done:
        report.lines.append(line)
        report.changed |= not check
    report.lines += failed
    if not report.lines:
        report.lines.append("nothing to put back")
    return NOT_DONE if failed else DONE


def _default(sysroot: SysRoot, cpus: str, check: bool, report: Report) -> bool:
    differs, code = irq.put_default(sysroot, cpulist.from_list(cpus), check)
    if code:
        report.stands("", f"new interrupts do not start on '{cpus}': {code}")
    elif differs and check:
        report.stands("", f"new interrupts do not start on '{cpus}'")
    elif differs:
        report.did(f"new interrupts start on '{cpus}'")
    return not (code or (differs and check))


def _queues(sysroot: SysRoot, device: Dict[str, Any], check: bool, report: Report) -> bool:
    # there is no such setting on paper
    if device["queues"] is None or not sysroot.live:
        return True
    address, good = device["address"], True
    for name in irq.interfaces(sysroot, address):
        try:
            present = nic_channels.get(name)
            if present is None:
                report.stands(address, f"{address} {name}: the driver has no number of queues to set")
                continue
            wanted = nic_channels.wanted(present, device["queues"])
            if wanted == present:
                continue
            line = f"{address} {name}: {present.combined or present.rx} queues, {device['queues']} wanted"
            if check:
                report.stands(address, line)
                good = False
            else:
                nic_channels.put(name, wanted)
                report.did(line + ": set")
        except (OSError, ValueError) as error:
            report.stands(address, f"{address} {name}: the number of queues stays: {getattr(error, 'strerror', None) or error}")
            good = False
    return good


def _interrupts(sysroot: SysRoot, device: Dict[str, Any], check: bool, report: Report) -> bool:
    if device["cpus"] is None:
        return True
    address = device["address"]
    cpus = cpulist.from_list(device["cpus"])
    entries = irq.read_irqs(sysroot, [device])
    if not entries:
        report.stands(address, f"{address}: has no interrupts of its own")
        return True
    before = {entry["irq"]: (entry["asked"], entry["effective"]) for entry in entries}
    results = irq.apply(sysroot, irq.place(entries, cpus, device["strategy"], irq.read_cores(sysroot, cpus)), entries, check)
    counts = dict.fromkeys(irq.VERDICTS, 0)
    moved = 0
    for result in results:
        counts[result["verdict"]] += 1
        moved += (result["asked"], result["effective"]) != before[result["irq"]]
        if result["verdict"] not in irq.IN_SYNC or result["verdict"] == "managed":
            reason = f" ({result['errno']})" if result["errno"] and result["verdict"] != "managed" else ""
            report.stands(address, f"{address} interrupt {result['irq']}: {result['verdict']}{reason}: on CPUs '{result['effective'] or result['asked']}', "
                                   f"wanted '{result['wanted']}'")
    line = f"{address}: " + ", ".join(f"{count} {name}" for name, count in counts.items() if count)
    if moved:
        report.did(line)
    else:
        report.lines.append(line)
    words = irq.without_vectors(results)
    if words:
        report.stands(address, f"{address}: CPUs '{device['cpus']}' {words}")
    if not check:
        try:
            irq.learn(sysroot, results)
        except OSError:
            # only spares older kernels a look at what they manage
            pass
    return not any(count for name, count in counts.items() if name not in irq.IN_SYNC)


def _steering(sysroot: SysRoot, device: Dict[str, Any], check: bool, report: Report) -> bool:
    address, good = device["address"], True
    for kind in ("rps", "xps"):
        if device[kind] is None:
            continue
        for name in irq.interfaces(sysroot, address):
            result = irq.steer(sysroot, name, kind, cpulist.from_list(device[kind]), check)
            if result["changed"] and check:
                report.stands(address, f"{address} {name}: {kind} of {len(result['changed'])} queues differs from '{device[kind]}'")
                good = False
            elif result["changed"]:
                report.did(f"{address} {name}: {kind} of {len(result['changed'])} queues set to '{device[kind]}'")
            for queue, code in result["errno"].items():
                report.stands(address, f"{address} {name}: {kind} of {queue} stays: {code}")
                good = False
            for queue, taken in result["cut"].items():
                report.stands(address, f"{address} {name}: {kind} of {queue}: the kernel took '{taken}' of '{device[kind]}'")
                good = False
    return good


__all__ = ("DONE", "NOT_DONE", "Report", "UNUSABLE", "apply", "main")
