# Copyright (c) 2026 The inferops.locality authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Virtual two-socket nodes with real kernels, for tests and for people. ``python3 lab.py --help``; more in README.md beside it."""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import asdict
from pathlib import Path
from types import FrameType
from typing import List, Optional

sys.path.insert(0, str(Path(__file__).resolve().parent))

from vlab import config, serial  # noqa: E402
from vlab.machine import Shape  # noqa: E402
from vlab.node import LabError, Node, make_image, names, say, up  # noqa: E402


def _image(options: argparse.Namespace) -> int:
    print(make_image(config.cache()))
    return 0


def _up(options: argparse.Namespace) -> int:
    shape = Shape(options.nic, options.iommu, options.memory0, options.memory1, options.nvme, options.peer)
    node = up(config.cache(), options.node, shape)
    print(f"{node.name} 127.0.0.1:{node.port}")
    return 0


def _running(name: str) -> Node:
    node = Node.open(config.cache(), name)
    if not node.running():
        raise LabError(f"node {name} does not run: lab.py up {name}")
    return node


def _ssh(options: argparse.Namespace) -> int:
    node = _running(options.node)
    command: List[str] = options.command[1:] if options.command[:1] == ["--"] else options.command
    # With the terminal as ours is; the connection that is kept must not hold our output open, so it is made first.
    node.connect(60)
    return subprocess.run(node.ssh_argv(*command, tty=not command and sys.stdin.isatty()), check=False).returncode


def _wait(options: argparse.Namespace) -> int:
    print(f"{options.node}: up after {_running(options.node).wait():.0f} s")
    return 0


def _down(options: argparse.Namespace) -> int:
    cache = config.cache()
    if not options.node and not options.all:
        raise LabError("down: name a node, or --all")
    rc = 0
    for name in names(cache) if options.all else [options.node]:
        try:
            Node.open(cache, name).down()
            say(f"node {name}: down")
        except LabError as error:
            say(str(error))
            rc = 1
    return rc


def _status(options: argparse.Namespace) -> int:
    cache = config.cache()
    found = []
    for name in names(cache):
        node = Node.open(cache, name)
        state = "running" if node.running() else "stopped"
        found.append({"node": name, "state": state, **asdict(node.record)})
    if options.json:
        print(json.dumps(found, indent=1))
        return 0
    for entry in found:
        shape = " ".join(f"{key}={value}" for key, value in entry["shape"].items() if value not in (None, False))
        print(f"{entry['node']:12} {entry['state']:8} port {entry['port']} pid {entry['pid']} boots {entry['boots']} retries {len(entry['retries'])} {shape}")
    if not found:
        print("no nodes")
    return 0


def _inventory(options: argparse.Namespace) -> int:
    cache = config.cache()
    print("# Printed by tests/lab/lab.py inventory.")
    print(f"{options.group}:\n  hosts:")
    for name in names(cache):
        node = Node.open(cache, name)
        if not node.running() or (options.node and name not in options.node):
            continue
        print(f"    {name}:")
        print("      ansible_host: 127.0.0.1")
        print(f"      ansible_port: {node.port}")
        print(f"      ansible_ssh_args: {json.dumps('-F none ' + ' '.join(node.ssh_options()))}")
    print("  vars:")
    print("    ansible_user: root")
    print(f"    ansible_ssh_private_key_file: {json.dumps(str(cache.key))}")
    print("    ansible_python_interpreter: /usr/bin/python3")
    print("    ansible_ssh_pipelining: true")
    print("    # These nodes are there to be rebooted.")
    print("    locality_reboot_ok: true")
    print("    # Emulated, they take their time from initramfs to systemd.")
    print("    locality_watchdog_seconds: 180")
    return 0


def _serial(options: argparse.Namespace) -> int:
    node = Node.open(config.cache(), options.node)
    if not options.follow:
        print(serial.tail(node.serial_log, options.lines))
        return 0
    with node.serial_log.open("rb") as file:
        while True:
            data = file.read()
            sys.stdout.buffer.write(data)
            sys.stdout.buffer.flush()
            if not data and not node.running():
                return 0
            time.sleep(0.3)


def _boots(options: argparse.Namespace) -> int:
    cache = config.cache()
    lines = cache.boots.read_text(encoding="utf-8").splitlines() if cache.boots.exists() else []
    entries = [entry for entry in map(json.loads, lines) if entry["at"] >= options.since]
    for entry in entries:
        print(f"{entry['at']} {entry['node']:12} {entry['what']:7} {entry['result']:9} {entry['seconds']:6.1f} s  {entry['accelerator']} load {entry['load']}")
    bad = sum(entry["result"] != "ok" for entry in entries)
    print(f"{len(entries)} boots, {bad} failed")
    return 0


def parser() -> argparse.ArgumentParser:
    """The command line."""
    top = argparse.ArgumentParser(prog="lab.py", description="Virtual two-socket nodes with real kernels.")
    commands = top.add_subparsers(dest="command_name", required=True, metavar="COMMAND")

    def command(name: str, function: object, text: str) -> argparse.ArgumentParser:
        made = commands.add_parser(name, help=text, description=text)
        made.set_defaults(function=function)
        return made

    command("image", _image, "build the image and the tools, if they are not in the cache; print the disk's path")
    made = command("up", _up, "start a node and wait until it answers")
    made.add_argument("node", metavar="NODE")
    shape = Shape()
    made.add_argument("--nic", choices=("igb", "virtio"), default=shape.nic, help="kind of the NICs under test (default %(default)s; virtio needs root)")
    made.add_argument("--iommu", action="store_true", help="an Intel IOMMU with interrupt remapping")
    made.add_argument("--memory0", type=int, default=shape.memory0, metavar="MIB", help="memory of NUMA node 0 (default %(default)s; 4096 for a 1 GiB page)")
    made.add_argument("--memory1", type=int, default=shape.memory1, metavar="MIB", help="memory of NUMA node 1 (default %(default)s; 2048 for a 1 GiB page)")
    made.add_argument("--nvme", action="store_true", help="an NVMe drive on NUMA node 0")
    made.add_argument("--peer", metavar="NODE", help="wire NICs n01 and n11 to those of that node (give it --peer too)")
    made = command("ssh", _ssh, "a shell on a node, or a command: ssh NODE -- COMMAND")
    made.add_argument("node", metavar="NODE")
    made.add_argument("command", nargs=argparse.REMAINDER, metavar="COMMAND")
    made = command("wait", _wait, "wait until a node answers, after a reboot for instance")
    made.add_argument("node", metavar="NODE")
    made = command("down", _down, "end a node and remove its files")
    made.add_argument("node", nargs="?", metavar="NODE")
    made.add_argument("--all", action="store_true", help="every node of this cache")
    made = command("status", _status, "the nodes, with their boots and retries")
    made.add_argument("--json", action="store_true")
    made = command("inventory", _inventory, "print an Ansible inventory of the running nodes")
    made.add_argument("node", nargs="*", metavar="NODE", help="only these")
    made.add_argument("--group", default="lab", help="their group (default %(default)s)")
    made = command("serial", _serial, "what a node's console said")
    made.add_argument("node", metavar="NODE")
    made.add_argument("--follow", "-f", action="store_true")
    made.add_argument("--lines", "-n", type=int, default=50)
    made = command("boots", _boots, "every boot so far with its result and time")
    made.add_argument("--since", default="", metavar="TIME", help="only from this local time on, such as 2026-01-31T12:00:00")
    return top


def _terminated(number: int, frame: Optional[FrameType]) -> None:
    # Like Ctrl-C: whoever started something ends it on the way out.
    raise SystemExit(128 + number)


def main(arguments: Optional[List[str]] = None) -> int:
    """Runs one command. :returns: exit status."""
    options = parser().parse_args(arguments)
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _terminated)
    try:
        return int(options.function(options))
    except LabError as error:
        say(str(error))
        return 1
    except KeyboardInterrupt:
        say("stopped")
        return 130
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return 1


if __name__ == "__main__":
    sys.exit(main())
