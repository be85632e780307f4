# Copyright (c) 2026 The inferops.locality authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Nodes: start, wait for, talk to, reboot and end them."""

from __future__ import annotations

import fcntl
import json
import os
import shlex
import shutil
import socket
import subprocess
import sys
import time
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Callable, Dict, Iterator, List, Optional, Sequence, Tuple

from vlab import config, image, process
from vlab.config import Cache
from vlab.machine import Machine, Shape, arguments, check_name
from vlab.process import LabError
from vlab.serial import Finding, Watch

# A boot that these end is the emulator's fault, not that of what was set before it.
EMULATOR_FAULTS: Tuple[str, ...] = ("stall", "died")
_KEPT_LOGS = 20


class BootFailed(LabError):
    """A node did not come up. :ivar finding: why."""

    def __init__(self, name: str, finding: Finding, log: Optional[Path] = None) -> None:
        place = f"; console: {log}" if log else ""
        super().__init__(f"node {name} did not boot: {finding.kind}: {finding.line}{place}")
        self.finding = finding


def say(text: str) -> None:
    """Progress goes to stderr: stdout is for what was asked."""
    print(f"lab: {text}", file=sys.stderr, flush=True)


def setting(name: str, default: int) -> int:
    """A whole number from the environment.

    :raises LabError: not a number.
    """
    text = os.environ.get(name, "")
    if text and not text.isdigit():
        raise LabError(f"{name}={text}: a whole number")
    return int(text) if text else default


def boot_timeout() -> int:
    """Seconds a boot may take: 40 alone under emulation, several times that on a busy machine."""
    return setting("LOCALITY_LAB_BOOT_TIMEOUT", 600)


def boot_retries() -> int:
    """How often a boot is tried again."""
    return setting("LOCALITY_LAB_BOOT_RETRIES", 2)


def accelerator() -> str:
    """``kvm`` where the machine's CPUs have it, else ``tcg``; the environment can choose.

    A /dev/kvm alone is not enough: software-only variants have one and do not run an ordinary kernel.
    """
    chosen = os.environ.get("LOCALITY_LAB_ACCEL")
    if chosen:
        if chosen not in ("kvm", "tcg"):
            raise LabError(f"LOCALITY_LAB_ACCEL={chosen}: kvm or tcg")
        return chosen
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        flags = next((line.split(":", 1)[1].split() for line in file if line.startswith("flags")), [])
    if not {"vmx", "svm"} & set(flags):
        return "tcg"
    try:
        os.close(os.open("/dev/kvm", os.O_RDWR | os.O_CLOEXEC))
    except OSError:
        return "tcg"
    return "kvm"


@dataclass
class Record:
    """What node.json holds.

    :ivar boots: kernel boots that we watched, retried ones included. :ivar retries: one kind and line for each boot tried again.
    """

    port: int
    shape: Dict[str, Any]
    accelerator: str
    pid: int = 0
    started: int = 0
    boots: int = 0
    retries: List[Dict[str, str]] = field(default_factory=list)


class Node:
    """One virtual node. Made by ``up`` or ``node``; ``open`` finds one that runs."""

    def __init__(self, cache: Cache, name: str, record: Record, directory: Optional[Path] = None, known_hosts: Optional[Path] = None) -> None:
        self.cache = cache
        self.name = name
        self.record = record
        self.directory = directory or cache.nodes / name
        self.known_hosts = known_hosts or cache.known_hosts
        self.tied = False
        self._watch: Optional[Watch] = None

    # -- files

    @property
    def port(self) -> int:
        return self.record.port

    @property
    def serial_log(self) -> Path:
        return self.directory / "serial.log"

    def _save(self) -> None:
        new = self.directory / "node.json.new"
        new.write_text(json.dumps(asdict(self.record), indent=1) + "\n", encoding="utf-8")
        new.rename(self.directory / "node.json")

    @classmethod
    def open(cls, cache: Cache, name: str) -> "Node":
        """A node by its name, running or not.

        :raises LabError: there is none.
        """
        try:
            text = (cache.nodes / check_name(name) / "node.json").read_text(encoding="utf-8")
            return cls(cache, name, Record(**json.loads(text)))
        except FileNotFoundError:
            raise LabError(f"no node {name}: lab.py up {name}") from None

    def running(self) -> bool:
        return bool(self.record.pid) and process.alive(self.record.pid, self.record.started)

    # -- life

    def start(self, tools: image.Tools, disk: Path, disk_format: str) -> None:
        """Starts the emulator; returns before the kernel does anything."""
        machine = Machine(self.name, self.directory, disk, self.port, Shape(**self.record.shape), disk_format, self.record.accelerator)
        for path in (machine.serial, machine.monitor, *self.directory.glob("wire-*")):
            path.unlink(missing_ok=True)
        self._watch = Watch(machine.serial)
        child = process.start(tools.qemu(arguments(machine)), self.directory / "qemu.log", self.tied)
        started = process.start_time(child.pid)
        # An emulator that ended at once has no start time; waiting for it says why.
        self.record.pid, self.record.started = child.pid, started or 0
        self.record.boots += 1
        self._save()

    def stop(self) -> None:
        """Ends the emulator and the ssh connections to it. What the guest had not written is lost."""
        self.close()
        if self.record.pid:
            process.end(self.record.pid, self.record.started)
            self.record.pid = self.record.started = 0
            if self.directory.is_dir():
                self._save()

    def down(self) -> None:
        """Ends the node and removes its files."""
        self.stop()
        process.remove_tree(self.directory)

    # -- ssh

    @property
    def control_path(self) -> Path:
        return self.directory / "ssh"

    def ssh_options(self) -> List[str]:
        """Options for ssh to this node, without the port and the key."""
        return [
            "-o", "BatchMode=yes", "-o", "StrictHostKeyChecking=yes", "-o", "HostKeyAlias=locality-lab", "-o", f"UserKnownHostsFile={self.known_hosts}",
            "-o", "GlobalKnownHostsFile=/dev/null", "-o", "IdentitiesOnly=yes", "-o", "LogLevel=ERROR", "-o", "ConnectTimeout=60",
            "-o", "ServerAliveInterval=10", "-o", "ServerAliveCountMax=6",
            "-o", "ControlMaster=auto", "-o", f"ControlPath={self.control_path}", "-o", "ControlPersist=120",
        ]

    def ssh_argv(self, *command: str, tty: bool = False) -> List[str]:
        own = ["-F", "none", "-p", str(self.port), "-i", str(self.cache.key), *(["-t"] if tty else [])]
        return ["ssh", *own, *self.ssh_options(), "root@127.0.0.1", *command]

    def close(self) -> None:
        """Ends the ssh connection that is kept for later commands."""
        if self.control_path.exists():
            argv = ["ssh", "-F", "none", "-o", f"ControlPath={self.control_path}", "-O", "exit", "root@127.0.0.1"]
            subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, timeout=30, check=False)
            self.control_path.unlink(missing_ok=True)

    def run(self, command: str, check: bool = True, timeout: float = 120, stdin: str = "") -> "subprocess.CompletedProcess[str]":
        """A shell command on the node, its output as text.

        :raises LabError: with ``check``, it failed; or it did not end in time (then with what the console says of the kernel).
        """
        # The kept connection would hold our pipes open: its output goes to nobody.
        self.connect(timeout)
        try:
            done = subprocess.run(self.ssh_argv(command), input=stdin, capture_output=True, text=True, timeout=timeout, check=False)
        except subprocess.TimeoutExpired:
            raise LabError(f"node {self.name}: not done in {timeout:.0f} s: {command}{self._ill()}") from None
        if check and done.returncode != 0:
            raise LabError(f"node {self.name}: rc {done.returncode}: {command}\n{done.stdout}{done.stderr}")
        return done

    def connect(self, timeout: float) -> None:
        """Makes the connection that later commands share, unless it is there; a node that refuses it says so to them.

        :raises LabError: no answer in time (with what the console says of the kernel).
        """
        if self.control_path.exists():
            return
        try:
            subprocess.run(self.ssh_argv("true"), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=timeout, check=False)
        except subprocess.TimeoutExpired:
            raise LabError(f"node {self.name}: ssh has no answer after {timeout:.0f} s{self._ill()}; see lab.py serial {self.name}") from None

    def _ill(self) -> str:
        finding = self.console()
        return f"; {finding.kind}: {finding.line}" if finding else ""

    def put(self, path: str, text: str, mode: int = 0o644) -> None:
        """Writes a file on the node; its folder is made."""
        quoted = shlex.quote(path)
        self.run(f"install -D -m {mode:o} /dev/stdin {quoted}", stdin=text)

    def boot_id(self) -> str:
        """Changes with each boot."""
        return self.run("cat /proc/sys/kernel/random/boot_id").stdout.strip()

    def qmp(self, command: str, **values: Any) -> Any:
        """A command to the emulator, such as ``set_link``, ``system_reset``; its answer.

        :raises LabError: refused.
        """
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as channel:
            channel.settimeout(20)
            channel.connect(str(self.directory / "qmp"))
            with channel.makefile("rw", encoding="utf-8") as lines:
                lines.readline()  # greeting
                for name, given in (("qmp_capabilities", {}), (command, values)):
                    lines.write(json.dumps({"execute": name, "arguments": given}) + "\n")
                    lines.flush()
                    while True:
                        answer = json.loads(lines.readline() or '{"error": {"desc": "closed"}}')
                        if "error" in answer:
                            raise LabError(f"node {self.name}: {name}: {answer['error'].get('desc')}")
                        if "return" in answer:
                            break
        return answer["return"]

    # -- boots

    def console(self) -> Optional[Finding]:
        """What the console says of the kernel since the last look, if it is bad."""
        if self._watch is None:
            self._watch = Watch.last_boot(self.serial_log)
        return self._watch.poll()

    def answers(self) -> bool:
        """Whether ssh works and the units of the boot have been started."""
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=5) as probe:
                probe.settimeout(5)
                if not probe.recv(4).startswith(b"SSH-"):
                    return False
        except OSError:
            return False
        try:
            return self.run("systemctl is-active multi-user.target", check=False, timeout=60).stdout.strip() == "active"
        except LabError:
            return False

    def wait(self, timeout: Optional[float] = None, tolerate: Sequence[str] = (), not_boot: str = "") -> float:
        """Waits until the node is up. :returns: seconds waited.

        :param tolerate: kinds of findings that are expected on the way, for a boot that is to fail and fall back.
        :param not_boot: boot id that is not the one waited for.
        :raises BootFailed: a finding, or ``died``, or ``timeout``.
        """
        began = time.monotonic()
        limit = boot_timeout() if timeout is None else timeout
        while True:
            finding = self.console()
            if finding and finding.kind not in tolerate:
                raise BootFailed(self.name, finding, self._keep_log(finding.kind))
            if not self.running():
                raise BootFailed(self.name, Finding("died", self._last_words()), self._keep_log("died"))
            if self.answers():
                if not not_boot:
                    return time.monotonic() - began
                seen = self.run("cat /proc/sys/kernel/random/boot_id", check=False, timeout=60).stdout.strip()
                if seen and seen != not_boot:
                    return time.monotonic() - began
                self.close()
            if time.monotonic() - began > limit:
                raise BootFailed(self.name, Finding("timeout", f"not up after {limit:.0f} s"), self._keep_log("timeout"))
            time.sleep(1)

    def _last_words(self) -> str:
        """What the emulator said before it ended; it warns of NICs that lead nowhere at each start."""
        log = self.directory / "qemu.log"
        lines = log.read_text(encoding="utf-8", errors="replace").splitlines() if log.exists() else []
        return " / ".join([line for line in lines if line.strip() and "warning:" not in line][-3:]) or "the emulator ended without a word"

    def _keep_log(self, kind: str) -> Optional[Path]:
        if not self.serial_log.exists():
            return None
        kept = self.cache.logs / f"{self.name}-{time.strftime('%Y%m%dT%H%M%S')}-{kind}.log"
        shutil.copyfile(self.serial_log, kept)
        for old in sorted(self.cache.logs.glob("*-*-*.log"), key=lambda path: path.stat().st_mtime)[:-_KEPT_LOGS]:
            old.unlink(missing_ok=True)
        return kept

    def _note(self, seconds: float, what: str, result: str) -> None:
        entry = {
            "at": time.strftime("%Y-%m-%dT%H:%M:%S"), "node": self.name, "what": what, "result": result, "seconds": round(seconds, 1),
            "accelerator": self.record.accelerator, "load": round(os.getloadavg()[0], 1),
        }
        with self.cache.boots.open("a", encoding="utf-8") as file:
            file.write(json.dumps(entry) + "\n")

    def _retry(self, failure: BootFailed, left: int) -> None:
        self.record.retries.append({"kind": failure.finding.kind, "line": failure.finding.line})
        say(f"{failure}; boot is tried again, {left} left")
        self.stop()

    def boot(
        self, tools: image.Tools, disk: Path, disk_format: str = "qcow2", retries: Optional[int] = None, fresh: Optional[Callable[[], None]] = None
    ) -> float:
        """Starts the node and waits for it; tries the boot again, a bounded number of times.

        :returns: seconds of the boot that worked.

        Nothing of a test has run yet, so every kind of failure is tried again.

        :param fresh: makes the disk anew before each try.
        :raises BootFailed: the last try failed too.
        """
        left = boot_retries() if retries is None else retries
        while True:
            if fresh:
                fresh()
            self.start(tools, disk, disk_format)
            began = time.monotonic()
            try:
                self.wait()
            except BootFailed as failure:
                self._note(time.monotonic() - began, "boot", failure.finding.kind)
                if left <= 0:
                    raise
                left -= 1
                self._retry(failure, left)
                continue
            seconds = time.monotonic() - began
            self._note(seconds, "boot", "ok")
            return seconds

    def reboot(self, timeout: Optional[float] = None, tolerate: Sequence[str] = (), retries: int = 1) -> float:
        """Reboots the node by systemd and waits for it. :returns: seconds from the command until it answers.

        Only a fault of the emulator is tried again, with the node's disk as it is: a panic or a time-out may come from what a
        test has set, and fails.

        :param tolerate: see ``wait``.
        :raises BootFailed: it did not come back.
        """
        old = self.boot_id()
        self.console()
        began = time.monotonic()
        self.record.boots += 1
        self._save()
        try:
            # The connection ends with the system: neither an rc of 255 nor no answer is a failure.
            self.run("systemctl reboot", check=False, timeout=60)
        except LabError:
            pass
        self.close()
        try:
            self.wait(timeout, tolerate, not_boot=old)
        except BootFailed as failure:
            self._note(time.monotonic() - began, "reboot", failure.finding.kind)
            if retries <= 0 or failure.finding.kind not in EMULATOR_FAULTS:
                raise
            self._retry(failure, retries - 1)
            self.boot(image.Tools(image.tools_path(self.cache)), self.directory / "disk.qcow2", retries=retries - 1)
        seconds = time.monotonic() - began
        self._note(seconds, "reboot", "ok")
        return seconds

    def power_cut(self, **shape: Any) -> float:
        """Takes the power away and gives it back: the guest is not told, and what it had not written is lost. :returns: seconds until it answers.

        :param shape: fields of :class:`vlab.machine.Shape` that the machine has from then on, such as ``memory1``.
        :raises LabError: no such machine.
        :raises BootFailed: it did not come back; a fault of the emulator is tried again, once.
        """
        changed = {**self.record.shape, **shape}
        Shape(**changed).check()
        self.stop()
        self.record.shape = changed
        self._save()
        tools, disk = image.Tools(image.tools_path(self.cache)), self.directory / "disk.qcow2"
        try:
            return self.boot(tools, disk, retries=0)
        except BootFailed as failure:
            if failure.finding.kind not in EMULATOR_FAULTS:
                raise
            self._retry(failure, 0)
            return self.boot(tools, disk, retries=0)


def names(cache: Cache) -> List[str]:
    """All nodes that have files, running or not."""
    return sorted(path.parent.name for path in cache.nodes.glob("*/node.json"))


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _choose_port(cache: Cache) -> int:
    taken = {Node.open(cache, name).port for name in names(cache)}
    for _attempt in range(100):
        port = process.free_port()
        if port not in taken:
            return port
    raise LabError("no free port found")


def make_image(cache: Cache) -> Path:
    """The image, built if absent; with the tools."""

    def first_boot(tools: image.Tools, disk: Path, work: Path) -> None:
        # Only a running system can have GRUB find its own disk.
        record = Record(process.free_port(), asdict(Shape(nic="igb")), accelerator())
        guest = Node(cache, "image", record, work / "node", work / "known_hosts")
        guest.tied = True
        kept = work / "disk.orig"
        subprocess.run(["cp", "--sparse=always", str(disk), str(kept)], check=True)

        def fresh() -> None:
            subprocess.run(["cp", "--sparse=always", str(kept), str(disk)], check=True)

        try:
            seconds = guest.boot(tools, disk, "raw", fresh=fresh)
            say(f"image: first boot took {seconds:.0f} s, {len(guest.record.retries)} retries")
            guest.run("update-grub && : > /etc/machine-id && rm -f /var/lib/systemd/random-seed; sync", timeout=300)
            guest.qmp("system_powerdown")  # the ACPI button
            guest.close()
            deadline = time.monotonic() + 120
            while guest.running() and time.monotonic() < deadline:
                time.sleep(0.5)
            if guest.running():
                raise LabError("the image did not power off")
        finally:
            guest.stop()

    disk = image.build(cache, say, first_boot)
    # One image at a time is in use, so one file for all nodes will do.
    shutil.copyfile(disk.parent / "known_hosts", cache.known_hosts)
    return disk


def up(cache: Cache, name: str, shape: Shape, tied: bool = False) -> Node:
    """A running node of that shape, started from the image if it is not there.

    :param tied: ends with this process, even if that is killed.
    :raises LabError: it runs with another shape, something is missing, or it does not boot.
    """
    check_name(name)
    shape.check()
    if shape.nic == "virtio" and os.geteuid() != 0:
        raise LabError("virtio NICs need tap devices, hence root; igb does not")
    disk = make_image(cache)
    tools = image.build_tools(cache, say)
    with _locked(cache.nodes / f".{name}.lock"):
        directory = cache.nodes / name
        if (directory / "node.json").exists():
            old = Node.open(cache, name)
            if old.running():
                if old.record.shape != asdict(shape):
                    raise LabError(f"node {name} runs with another shape ({old.record.shape}): lab.py down {name}")
                old.wait()
                return old
            old.down()
        process.remove_tree(directory)
        directory.mkdir()
        with _locked(cache.nodes / ".port.lock"):
            fresh_node = Node(cache, name, Record(_choose_port(cache), asdict(shape), accelerator()))
            fresh_node.tied = tied
            fresh_node._save()
        overlay = directory / "disk.qcow2"

        def fresh() -> None:
            overlay.unlink(missing_ok=True)
            argv = tools.argv("usr/bin/qemu-img", "create", "-q", "-f", "qcow2", "-F", "raw", "-b", str(disk), str(overlay))
            subprocess.run(argv, check=True)

        try:
            seconds = fresh_node.boot(tools, overlay, fresh=fresh)
        except BaseException:
            fresh_node.down()
            raise
        say(f"node {name}: up after {seconds:.0f} s, {len(fresh_node.record.retries)} retries")
        return fresh_node


@contextmanager
def node(name: str, **shape: Any) -> Iterator[Node]:
    """A fresh node for the length of a ``with`` block; ended afterwards, whatever happened.

    Takes the fields of :class:`vlab.machine.Shape`.
    """
    cache = config.cache()
    if name in names(cache):
        Node.open(cache, name).down()
    found = up(cache, name, Shape(**shape), tied=True)
    try:
        yield found
    finally:
        say(f"node {name}: {found.record.boots} boots, {len(found.record.retries)} retries")
        found.down()
