# Copyright (c) 2026 The inferops.locality authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What runs is brought to the files, only where it differs, and back to what it was."""

from __future__ import annotations

import errno
import json
import os
import shutil
from pathlib import Path
from typing import Any, Callable, Sequence

import pytest

from ansible_collections.inferops.locality.plugins.module_utils import host_settings, knobs
from ansible_collections.inferops.locality.plugins.module_utils.sysroot import SysRoot

SWAPPINESS, THP, WORKQUEUE = host_settings.KERNEL_FILES["vm.swappiness"], host_settings.KERNEL_FILES["vm.thp"], host_settings.KERNEL_FILES["workqueue.cpumask"]
GOVERNOR = "/sys/devices/system/cpu/cpu{}/cpufreq/scaling_governor"
CGROUP = "/sys/fs/cgroup"
SYSCTL = f"/usr/lib/systemd/systemd-sysctl {knobs.FILE_SYSCTL}"
TMPFILES = f"systemd-tmpfiles --create --boot {knobs.FILE_TMPFILES}"
WANTED: dict[str, Any] = {
    "vm.swappiness": 0, "vm.thp": "madvise", "workqueue.cpumask": "0-1", "irqbalance": "disabled",
    "systemd.slices": dict.fromkeys(knobs.SLICES, "0-1"), "kernel.isolcpus": "managed_irq,2-3", "limits.memlock": "infinity",
}


class Machine:
    """A running node on paper: its kernel's files, and commands that do to them what the real ones do.

    :ivar ran: every command.
    """

    def __init__(self, root: Path) -> None:
        self.root, self.ran, self.fails = root, list[str](), ""
        for path, text in {
            "/etc/os-release": "ID=debian\nVERSION_ID=13\n", SWAPPINESS: "60", THP: "[always] madvise never", WORKQUEUE: "f",
            "/sys/devices/system/cpu/online": "0-3", "/usr/lib/systemd/system/irqbalance.service": "", f"{CGROUP}/cgroup.controllers": "cpuset",
            f"{CGROUP}/system.slice/irqbalance.service/cgroup.procs": "",
            **{f"{CGROUP}/{unit}/cpuset.cpus": "" for unit in knobs.SLICES},
        }.items():
            self.write(path, text)
        self.link("/etc/systemd/system/multi-user.target.wants/irqbalance.service", "/usr/lib/systemd/system/irqbalance.service")

    def write(self, path: str, text: str) -> None:
        place = self.root / path[1:]
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text + "\n", encoding="utf-8")

    def read(self, path: str) -> str:
        return (self.root / path[1:]).read_text(encoding="utf-8").strip()

    def link(self, path: str, target: str) -> None:
        place = self.root / path[1:]
        place.parent.mkdir(parents=True, exist_ok=True)
        place.symlink_to(target)

    def there(self, path: str) -> bool:
        return os.path.lexists(self.root / path[1:])

    def node(self) -> SysRoot:
        found = SysRoot(str(self.root))
        found.live = True
        return found

    def tuned(self, active: str = "balanced") -> None:
        """tuned is installed and runs."""
        self.write("/usr/sbin/tuned", "")
        self.write(knobs.FILE_TUNED_ACTIVE, active)
        self.write(knobs.FILE_TUNED_MODE, "auto")
        self.write(f"{CGROUP}/system.slice/tuned.service/cgroup.procs", "")
        self.write("/usr/lib/tuned/balanced/tuned.conf", "[main]")
        for cpu in range(2):
            self.write(GOVERNOR.format(cpu), "powersave")

    def roles(self, *, tuned: bool = False) -> None:
        """What the role writes."""
        self.write(knobs.FILE_SYSCTL, "vm.swappiness = 0")
        self.write(knobs.FILE_TMPFILES, f"w! {THP} - - - - madvise\nw! {WORKQUEUE} - - - - 3")
        if not self.there(knobs.FILE_IRQBALANCE_MASK):
            self.link(knobs.FILE_IRQBALANCE_MASK, "/dev/null")
        if tuned:
            self.write(knobs.FILE_TUNED_ACTIVE, "inferops-locality")
            self.write(knobs.FILE_TUNED_MODE, "manual")

    def run(self, argv: Sequence[str]) -> tuple[int, str, str]:
        command = " ".join(argv)
        self.ran.append(command)
        if self.fails and self.fails in command:
            return 1, "first\nlast words", ""
        if argv[0].endswith("systemd-sysctl"):
            self.write(SWAPPINESS, self.read(argv[1]).rpartition("= ")[2])
        elif argv[0] == "systemd-tmpfiles":
            assert argv[1:3] == ("--create", "--boot"), "lines with ! act at boot only"
            for line in self.read(argv[3]).splitlines():
                path, text = line.split()[1], line.split()[6]
                self.write(path, "always [madvise] never" if path == THP else text)
        elif command == "systemctl daemon-reload":
            allowed = "0-1" if self.there(knobs.FILE_SYSCTL) else ""
            for unit in knobs.SLICES:
                self.write(f"{CGROUP}/{unit}/cpuset.cpus", allowed)
        elif argv[0] == "systemctl":
            shutil.rmtree(self.root / f"{CGROUP}/system.slice/{argv[2]}"[1:], ignore_errors=True)
            if argv[1] != "stop":
                self.write(f"{CGROUP}/system.slice/{argv[2]}/cgroup.procs", "")
        elif argv[:2] == ("tuned-adm", "profile"):
            for cpu in range(2):
                self.write(GOVERNOR.format(cpu), "performance")
        return 0, "", ""


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    # Nothing of this machine is asked.
    monkeypatch.setattr(host_settings.Probe, "ask", lambda *_args, **_more: None)
    return Machine(tmp_path)


def converge(machine: Machine, wanted: dict[str, Any]) -> host_settings.Outcome:
    host_settings.save(machine.node(), wanted)
    machine.roles(tuned="tuned.profile" in wanted)
    return host_settings.apply(machine.node(), machine.run, wanted, reload=True)


def test_everything_is_brought_to_the_files_by_the_tools_that_read_them(machine: Machine) -> None:
    outcome = converge(machine, WANTED)
    assert machine.ran == ["systemctl daemon-reload", SYSCTL, TMPFILES, "systemctl stop irqbalance.service"]
    assert outcome.changed and not outcome.failed
    assert {item["knob"]: item["after"] for item in outcome.settings} == {
        knob: WANTED[knob] for knob in ("vm.swappiness", "vm.thp", "workqueue.cpumask", "systemd.slices", "irqbalance")
    }


# What somebody did to a converged node, and the commands that mend it.
BY_HAND: dict[str, tuple[Callable[[Machine], None], list[str]]] = {
    "nothing": (lambda node: None, []),
    "a sysctl": (lambda node: node.write(SWAPPINESS, "60"), [SYSCTL]),
    "huge pages": (lambda node: node.write(THP, "[always] madvise never"), [TMPFILES]),
    "work queues": (lambda node: node.write(WORKQUEUE, "f"), [TMPFILES]),
    "a slice": (lambda node: node.write(f"{CGROUP}/user.slice/cpuset.cpus", "0-3"), ["systemctl daemon-reload"]),
    "irqbalance": (
        lambda node: node.write(f"{CGROUP}/system.slice/irqbalance.service/cgroup.procs", ""),
        ["systemctl daemon-reload", "systemctl stop irqbalance.service"],
    ),
}


@pytest.mark.parametrize("name", BY_HAND)
def test_drift_of_what_runs_is_mended_and_nothing_else_is_touched(machine: Machine, name: str) -> None:
    change, commands = BY_HAND[name]
    converge(machine, WANTED)
    change(machine)
    machine.ran.clear()
    foretold = host_settings.apply(machine.node(), machine.run, WANTED, check=True)
    assert machine.ran == []
    outcome = host_settings.apply(machine.node(), machine.run, WANTED)
    assert machine.ran == commands == foretold.commands
    assert outcome.settings == foretold.settings
    assert outcome.changed == bool(commands)
    assert host_settings.differing(WANTED, host_settings.running(machine.node())) == []


def test_a_unit_file_alone_is_read_and_changes_nothing_that_runs(machine: Machine) -> None:
    converge(machine, WANTED)
    machine.ran.clear()
    outcome = host_settings.apply(machine.node(), machine.run, WANTED, reload=True)
    assert machine.ran == ["systemctl daemon-reload"] and not outcome.changed


def test_the_way_back(machine: Machine) -> None:
    before = {path: machine.read(path) for path in (SWAPPINESS, WORKQUEUE)}
    converge(machine, WANTED)
    (machine.root / knobs.FILE_SYSCTL[1:]).unlink()
    (machine.root / knobs.FILE_TMPFILES[1:]).unlink()
    machine.ran.clear()
    foretold = host_settings.apply(machine.node(), machine.run, {}, reload=True, check=True)
    assert machine.ran == [] and machine.there(knobs.FILE_IRQBALANCE_MASK)
    outcome = host_settings.apply(machine.node(), machine.run, {}, reload=True)
    assert {path: machine.read(path) for path in before} == before
    assert machine.read(THP) == "always"
    assert not machine.there(knobs.FILE_IRQBALANCE_MASK) and machine.there(f"{CGROUP}/system.slice/irqbalance.service")
    assert [machine.read(f"{CGROUP}/{unit}/cpuset.cpus") for unit in knobs.SLICES] == [""] * 3
    assert not machine.there(knobs.DIR_STATE), "nothing is left of what was saved"
    assert outcome.changed and foretold.changed and outcome.commands == foretold.commands
    assert not host_settings.apply(machine.node(), machine.run, {}).changed


def test_folders_that_were_not_there_go_and_others_stay(machine: Machine) -> None:
    (machine.root / "etc/tmpfiles.d").mkdir(parents=True)
    converge(machine, WANTED)
    assert machine.there("/etc/sysctl.d")
    for path in (knobs.FILE_SYSCTL, knobs.FILE_TMPFILES):
        (machine.root / path[1:]).unlink()
    host_settings.apply(machine.node(), machine.run, {})
    assert not machine.there("/etc/sysctl.d") and machine.there("/etc/tmpfiles.d")


def test_a_cgroup_with_processes_in_it_gets_all_cpus_back(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    before = host_settings.running(machine.node())
    machine.write(f"{CGROUP}/cpuset.cpus.effective", "0-3")
    converge(machine, WANTED)
    write = os.write

    def kernel(handle: int, data: bytes) -> int:
        if data == b"\n" and os.readlink(f"/proc/self/fd/{handle}").endswith("/init.scope/cpuset.cpus"):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return write(handle, data)

    monkeypatch.setattr(os, "write", kernel)
    outcome = host_settings.apply(machine.node(), machine.run, {})
    assert not outcome.failed
    assert [machine.read(f"{CGROUP}/{unit}/cpuset.cpus") for unit in knobs.SLICES] == ["0-3", "", ""]
    assert host_settings.running(machine.node()).get("systemd.slices") == before.get("systemd.slices")
    assert not host_settings.apply(machine.node(), machine.run, {}).changed


def test_a_slice_that_systemd_leaves_restricted_is_opened(machine: Machine) -> None:
    converge(machine, WANTED)
    # The file is still there, so this reload does not do it.
    host_settings.apply(machine.node(), machine.run, {})
    assert machine.read(f"{CGROUP}/system.slice/cpuset.cpus") == ""


@pytest.mark.parametrize("runs, masked", [(True, False), (False, False), (False, True)])
def test_irqbalance_is_afterwards_what_it_was(machine: Machine, runs: bool, masked: bool) -> None:
    if not runs:
        shutil.rmtree(machine.root / f"{CGROUP}/system.slice/irqbalance.service"[1:])
    if masked:
        machine.link(knobs.FILE_IRQBALANCE_MASK, "/dev/null")
    converge(machine, WANTED)
    host_settings.apply(machine.node(), machine.run, {})
    assert machine.there(f"{CGROUP}/system.slice/irqbalance.service") == runs
    assert machine.there(knobs.FILE_IRQBALANCE_MASK) == masked


def test_originals_are_those_before_the_first_change(machine: Machine) -> None:
    converge(machine, WANTED)
    machine.write(SWAPPINESS, "10")
    assert host_settings.save(machine.node(), WANTED) == []
    assert host_settings.save(machine.node(), {**WANTED, "vm.thp_defrag": "madvise"}, check=True) == []
    machine.write(host_settings.KERNEL_FILES["vm.thp_defrag"], "always defer [madvise] never")
    assert host_settings.save(machine.node(), {**WANTED, "vm.thp_defrag": "madvise"}) == ["vm.thp_defrag"]
    saved = host_settings.read_saved(machine.node())["knobs"]
    assert saved["vm.swappiness"]["files"] == {SWAPPINESS: "60"}
    assert saved["vm.thp_defrag"]["files"] == {host_settings.KERNEL_FILES["vm.thp_defrag"]: "madvise"}


def test_a_knob_that_leaves_the_plan_goes_back_and_the_others_stay(machine: Machine) -> None:
    converge(machine, WANTED)
    outcome = host_settings.apply(machine.node(), machine.run, {knob: value for knob, value in WANTED.items() if knob != "vm.swappiness"})
    assert outcome.restored == [f"{SWAPPINESS}: 60"]
    assert machine.read(SWAPPINESS) == "60" and "vm.thp" in host_settings.read_saved(machine.node())["knobs"]


def test_tuned_has_governors_and_gets_its_profile_back(machine: Machine) -> None:
    machine.tuned()
    wanted = {"tuned.profile": "inferops-locality", "cpu.governor": "performance"}
    converge(machine, wanted)
    assert machine.ran[-2:] == ["tuned-adm profile inferops-locality", "tuned-adm verify --ignore-missing"]
    assert not any(command.startswith("systemd-tmpfiles") for command in machine.ran)
    host_settings.apply(machine.node(), machine.run, {})
    assert machine.ran[-1] == "systemctl restart tuned.service"
    assert (machine.read(knobs.FILE_TUNED_ACTIVE), machine.read(knobs.FILE_TUNED_MODE)) == ("balanced", "auto")
    assert [machine.read(GOVERNOR.format(cpu)) for cpu in range(2)] == ["powersave"] * 2


@pytest.mark.parametrize("command", ["systemd-sysctl", "systemd-tmpfiles", "stop irqbalance", "verify"])
def test_a_command_that_fails_is_named_with_its_last_words(machine: Machine, command: str) -> None:
    machine.tuned()
    machine.fails = command
    outcome = converge(machine, {**WANTED, "tuned.profile": "inferops-locality", "cpu.governor": "performance"})
    assert [command in line and "first / last words" in line for line in outcome.failed] == [True]


@pytest.mark.parametrize("text", ["", "{", "[]", '{"version": 2}', '{"version": 1, "folders": [], "knobs": {"vm.dirty": {"files": {}}}}'])
def test_a_damaged_record_stops_everything(machine: Machine, text: str) -> None:
    machine.write(knobs.FILE_HOST_SAVED, text)
    with pytest.raises(host_settings.SettingsError, match=r"host\.json"):
        host_settings.save(machine.node(), WANTED)
    with pytest.raises(host_settings.SettingsError, match=r"host\.json"):
        host_settings.apply(machine.node(), machine.run, WANTED)
    assert machine.ran == []


def test_below_another_root_files_of_others_are_kept_and_nothing_runs(machine: Machine) -> None:
    machine.tuned()
    root = str(machine.root)
    wanted = {**WANTED, "tuned.profile": "inferops-locality"}
    assert host_settings.save(SysRoot(root), wanted) == ["irqbalance", "tuned.profile"]
    machine.roles(tuned=True)
    assert not host_settings.apply(SysRoot(root), machine.run, wanted, reload=True).changed
    assert host_settings.apply(SysRoot(root), machine.run, {}).changed
    assert machine.read(knobs.FILE_TUNED_ACTIVE) == "balanced" and not machine.there(knobs.FILE_IRQBALANCE_MASK)
    assert machine.ran == [] and not machine.there(knobs.DIR_STATE)


def test_the_record_says_what_it_is(machine: Machine) -> None:
    converge(machine, WANTED)
    record = json.loads(machine.read(knobs.FILE_HOST_SAVED))
    assert record["version"] == 1 and "inferops.locality" in record["note"]
