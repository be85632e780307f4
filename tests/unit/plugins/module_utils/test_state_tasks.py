# Copyright (c) 2026 The inferops.locality authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Threads that pile up on one CPU of an isolated set: the rule as a table, and the reading on trees whose files move on while it waits."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Mapping

import pytest

from ansible_collections.inferops.locality.plugins.module_utils import cpulist, drift, state, state_tasks
from ansible_collections.inferops.locality.plugins.module_utils.probe import Probe
from ansible_collections.inferops.locality.plugins.module_utils.state_tasks import Thread
from ansible_collections.inferops.locality.plugins.module_utils.sysroot import SysRoot

FOUR = cpulist.from_list("2-5")
ISOLATED = cpulist.from_list("2-7")
UID = "0a1b2c3d-0a1b-0a1b-0a1b-0a1b2c3d4e5f"
POD = f"/kubepods.slice/kubepods-pod{UID.replace('-', '_')}.slice/cri-containerd-4f2a.scope"


def threads(count: int, cpu: int, ran: float, waited: float, allowed: str = "2-5") -> list[Thread]:
    return [Thread(cpu, ran, waited, cpulist.from_list(allowed))] * count


def piled(cpu: int, count: int, share: int, idle: str) -> dict[str, Any]:
    return {"cpus": "2-5", "cpu": cpu, "threads": count, "share_percent": share, "idle_cpus": idle}


BUSY_5 = {2: 1.0, 3: 1.0, 4: 1.0, 5: 0.0, 6: 1.0, 7: 1.0}
ALL_BUSY = dict.fromkeys(range(8), 0.0)
# what it is, threads, idle share of the CPUs, wanted
RULE: list[tuple[str, list[Thread], dict[int, float], list[dict[str, Any]]]] = [
    ("four on one", threads(4, 5, 0.25, 0.75), BUSY_5, [piled(5, 4, 25, "2-4")]),
    ("two on one, one elsewhere", threads(2, 5, 0.5, 0.5) + threads(1, 4, 1, 0), {**BUSY_5, 4: 0.0}, [piled(5, 2, 50, "2-3")]),
    ("two piles", threads(2, 5, 0.5, 0.5) + threads(3, 2, 0.33, 0.67), {**BUSY_5, 2: 0.0}, [piled(2, 3, 33, "3-4"), piled(5, 2, 50, "3-4")]),
    ("sleepers beside them do not count", threads(2, 5, 0.5, 0.5) + threads(90, 5, 0.001, 0.001), BUSY_5, [piled(5, 2, 50, "2-4")]),
    ("one busy thread", threads(1, 5, 1, 0), BUSY_5, []),
    ("one busy thread among many that sleep", threads(1, 5, 0.98, 0.01) + threads(90, 5, 0.0002, 0.01), BUSY_5, []),
    ("a CPU each", [thread for cpu in (2, 3, 4, 5) for thread in threads(1, cpu, 1, 0)], ALL_BUSY, []),
    ("two on each of all CPUs", [thread for cpu in (2, 3, 4, 5) for thread in threads(2, cpu, 0.5, 0.5)], ALL_BUSY, []),
    ("pinned to one CPU", threads(4, 5, 0.25, 0.75, "5"), BUSY_5, []),
    ("pinned to some", threads(4, 5, 0.25, 0.75, "4-5"), BUSY_5, []),
    ("one of two is pinned", threads(1, 5, 0.5, 0.5, "5") + threads(1, 5, 0.5, 0.5), BUSY_5, []),
    ("allowed CPUs unknown", [Thread(5, 0.25, 0.75, None)] * 4, BUSY_5, []),
    ("held back by a quota", threads(4, 5, 0.1, 0.9), {**BUSY_5, 5: 0.6}, []),
    ("in turns", threads(2, 5, 0.45, 0.0), {**BUSY_5, 5: 0.1}, []),
    ("the other CPUs do other work", threads(4, 5, 0.25, 0.75), {**ALL_BUSY, 4: 0.4}, []),
    ("the kernel does not say what the CPUs do", threads(4, 5, 0.25, 0.75), {}, []),
    ("the scheduler balances there", threads(4, 1, 0.25, 0.75, "2-5"), {**BUSY_5, 1: 0.0}, []),
]


@pytest.mark.parametrize("what, found, idle, wanted", RULE, ids=[row[0] for row in RULE])
def test_when_threads_have_piled_up(what: str, found: list[Thread], idle: Mapping[int, float], wanted: list[dict[str, Any]]) -> None:
    assert state_tasks.piled_up(FOUR, ISOLATED, found, idle) == wanted


def test_a_cpuset_that_is_isolated_in_part() -> None:
    """The balanced CPUs of it help no thread that is on an isolated one."""
    cpus = cpulist.from_list("0-1,5")
    assert [entry["cpu"] for entry in state_tasks.piled_up(cpus, ISOLATED, threads(2, 5, 0.5, 0.5, "0-1,5"), {0: 1.0, 1: 0.0, 5: 0.0})] == [5]
    assert state_tasks.piled_up(cpus, ISOLATED, threads(2, 0, 0.5, 0.5, "0-1,5"), {0: 0.0, 1: 1.0, 5: 1.0}) == []


@pytest.mark.parametrize(
    "cgroup, uid",
    [
        (POD, UID),
        (f"/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{UID.replace('-', '_')}.slice/cri-containerd-1.scope", UID),
        (f"/kubepods/besteffort/pod{UID}/4f2a", UID),
        (f"/kubepods/pod{UID}", UID),
        ("/kubepods.slice/kubepods-pod0123456789abcdef0123456789abcdef.slice/x", "0123456789abcdef0123456789abcdef"),
        ("/system.slice/podman.service", None),
        ("/user.slice/user-0.slice/session-1.scope", None),
    ],
)
def test_whose_a_cgroup_is(cgroup: str, uid: str | None) -> None:
    assert state_tasks.pod_of(cgroup) == uid


# -- reading


@dataclass
class Node:
    """A running node on paper: ``pause`` lets its clock and counters go on, as the shares of its threads and CPUs say."""

    root: Path
    cgroups: dict[str, dict[str, Any]]
    idle: dict[int, float]
    files: dict[str, str] = field(default_factory=dict)
    now: float = 0.0
    pauses: list[float] = field(default_factory=list)
    ends: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        self.put("/sys/fs/cgroup/cgroup.controllers", "cpuset cpu memory\n")
        self.put("/sys/fs/cgroup/cpuset.cpus.effective", "0-7\n")
        for path, text in self.files.items():
            self.put(path, text)
        self.write()

    def put(self, path: str, text: str) -> None:
        place = self.root / path.lstrip("/")
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text, encoding="utf-8")

    def write(self) -> None:
        ticks = round(self.now * 100)
        rows = [f"cpu{cpu} {ticks - round(ticks * share)} 0 0 {round(ticks * share)} 0 0 0 0 0 0" for cpu, share in self.idle.items()]
        self.put("/proc/stat", "cpu  1 2 3 4 5 6 7 8 9 10\n" + "\n".join(rows) + "\nintr 1 2\nctxt 3\n")
        for name, group in self.cgroups.items():
            base = f"/sys/fs/cgroup{name}"
            inside = {thread: values for thread, values in group.get("threads", {}).items() if thread not in self.ends or not self.now}
            self.put(f"{base}/cpu.stat", f"usage_usec {round(sum(ran for _cpu, ran, _waited, _allowed in inside.values()) * self.now * 1e6)}\nuser_usec 1\n")
            self.put(f"{base}/cgroup.threads", "".join(f"{thread}\n" for thread in inside))
            if "cpus" in group:
                self.put(f"{base}/cpuset.cpus.effective", group["cpus"] + "\n")
            for thread, (cpu, ran, waited, allowed) in inside.items():
                place = f"/proc/{thread}"
                self.put(f"{place}/schedstat", f"{round(ran * self.now * 1e9)} {round(waited * self.now * 1e9)} 17\n")
                self.put(f"{place}/stat", f"{thread} (a) b (c) R " + "0 " * 35 + f"{cpu} 0 0 0\n")
                self.put(f"{place}/status", f"Name:\ta) b (c\nCpus_allowed:\tff\nCpus_allowed_list:\t{allowed}\nMems_allowed_list:\t0\n")
        for thread in self.ends if self.now else ():
            for name in ("schedstat", "stat", "status"):
                (self.root / "proc" / thread / name).unlink(missing_ok=True)

    def pause(self, seconds: float) -> None:
        self.pauses.append(seconds)
        self.now += seconds
        self.write()

    def look(self) -> tuple[Any, list[dict[str, str]]]:
        sysroot = SysRoot(str(self.root))
        return state_tasks.look(sysroot, self.pause, lambda: self.now), sysroot.problems


BOOT = {"/sys/devices/system/cpu/isolated": "2-7\n"}
FOUR_PILED = {str(pid): (5, 0.25, 0.75, "2-5") for pid in (101, 102, 103, 104)}
PILED = {POD: {"cpus": "2-5", "threads": FOUR_PILED}}
FOUND = {"cgroup": POD, "pod": UID, **piled(5, 4, 25, "2-4")}


def test_what_is_piled_up_is_found_with_its_pod(tmp_path: Path) -> None:
    node = Node(tmp_path, PILED, {cpu: BUSY_5.get(cpu, 0.5) for cpu in range(8)}, BOOT)
    seen, problems = node.look()
    assert seen == {"isolated_at_boot": "2-7", "isolated_by_partition": "", "groups": 1, "threads": 4, "piled_up": [FOUND]}
    assert problems == []


@pytest.mark.parametrize(
    "files, wanted",
    [
        ({"/sys/devices/system/cpu/isolated": "\n", "/sys/fs/cgroup/cpuset.cpus.isolated": "2-5\n"}, ("", "2-5")),
        ({**BOOT, "/sys/fs/cgroup/cpuset.cpus.isolated": "2-7\n"}, ("2-7", "")),
        # Before 6.7 only the partitions themselves tell.
        ({"/sys/devices/system/cpu/isolated": "\n", f"/sys/fs/cgroup{POD}/cpuset.cpus.partition": "isolated\n",
          "/sys/fs/cgroup/kubepods.slice/cpuset.cpus.partition": "root\n",
          f"/sys/fs/cgroup{POD.rpartition('/')[0]}/cpuset.cpus.partition": "root\n"}, ("", "2-5")),
    ],
    ids=["a partition", "both files at boot", "a partition of an older kernel"],
)
def test_however_the_cpus_are_isolated(tmp_path: Path, files: dict[str, str], wanted: tuple[str, str]) -> None:
    seen, _problems = Node(tmp_path, PILED, dict(BUSY_5), files).look()
    assert (seen["isolated_at_boot"], seen["isolated_by_partition"]) == wanted
    assert seen["piled_up"] == [FOUND]


def test_an_invalid_partition_isolates_nothing(tmp_path: Path) -> None:
    files = {"/sys/devices/system/cpu/isolated": "\n", f"/sys/fs/cgroup{POD}/cpuset.cpus.partition": "isolated invalid (Cpu list not exclusive)\n"}
    assert Node(tmp_path, PILED, dict(BUSY_5), files).look()[0]["isolated_by_partition"] == ""


def test_without_isolated_cpus_nothing_is_watched_and_nothing_waits(tmp_path: Path) -> None:
    node = Node(tmp_path, PILED, dict(BUSY_5), {"/sys/devices/system/cpu/isolated": "\n", "/sys/fs/cgroup/cpuset.cpus.isolated": "\n"})
    sysroot = SysRoot(str(tmp_path))
    seen = state_tasks.look(sysroot, node.pause, lambda: node.now)
    assert seen == {"isolated_at_boot": "", "isolated_by_partition": "", "groups": 0, "threads": 0, "piled_up": []}
    assert node.pauses == []
    assert not [path for path in sysroot.reads if path.startswith("/proc") or "kubepods" in path]


def test_of_idle_cgroups_no_thread_is_read(tmp_path: Path) -> None:
    quiet = {f"/kubepods.slice/quiet{pod}.scope": {"cpus": "2-5", "threads": {str(1000 + pod): (2, 0.01, 0.0, "2-5")}} for pod in range(5)}
    elsewhere = {
        "/system.slice": {"cpus": "0-1", "threads": {"2000": (0, 1.0, 0.0, "0-1")}}, "/one.slice": {"cpus": "6", "threads": {"2001": (6, 1.0, 0.0, "6")}},
    }
    node = Node(tmp_path, {**PILED, **quiet, **elsewhere}, dict(BUSY_5), BOOT)
    sysroot = SysRoot(str(tmp_path))
    seen = state_tasks.look(sysroot, node.pause, lambda: node.now)
    assert seen is not None and (seen["groups"], seen["threads"], seen["piled_up"]) == (1, 4, [FOUND])
    assert {path.split("/")[2] for path in sysroot.reads if path.startswith("/proc/")} == {"stat", "101", "102", "103", "104"}


def test_a_cgroup_without_a_cpuset_of_its_own_has_its_parents(tmp_path: Path) -> None:
    seen, _problems = Node(tmp_path, {"/a.slice": {"cpus": "2-5"}, "/a.slice/b.scope": {"threads": FOUR_PILED}}, dict(BUSY_5), BOOT).look()
    assert seen["piled_up"] == [{**FOUND, "cgroup": "/a.slice/b.scope", "pod": None}]


def test_threads_that_end_meanwhile_are_no_problem(tmp_path: Path) -> None:
    seen, problems = Node(tmp_path, PILED, dict(BUSY_5), BOOT, ends=("101", "103")).look()
    assert (seen["piled_up"][0]["threads"], problems) == (2, [])


def test_the_threads_that_are_read_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(state_tasks, "MAX_THREADS", 64)
    many = {str(10000 + number): (5, 0.005, 0.995, "2-5") for number in range(200)}
    seen, _problems = Node(tmp_path, {POD: {"cpus": "2-5", "threads": many}}, dict(BUSY_5), BOOT).look()
    assert seen["threads"] <= 64
    assert seen["piled_up"][0]["threads"] == seen["threads"]


def test_the_cgroups_that_are_read_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(state_tasks, "MAX_GROUPS", 3)
    _seen, problems = Node(tmp_path, {f"/s{number}.slice": {"cpus": "0-7"} for number in range(5)}, dict(BUSY_5), BOOT).look()
    assert [problem["file"] for problem in problems] == ["/sys/fs/cgroup"]


def test_where_it_cannot_be_told(tmp_path: Path) -> None:
    sysroot = SysRoot(str(tmp_path))
    assert state_tasks.look(sysroot) is None
    (tmp_path / "sys/devices/system/cpu").mkdir(parents=True)
    (tmp_path / "sys/devices/system/cpu/isolated").write_text("2-7\n", encoding="utf-8")
    # cgroup v1
    (tmp_path / "sys/fs/cgroup/cpuset").mkdir(parents=True)
    assert state_tasks.look(SysRoot(str(tmp_path))) is None


def test_threads_are_watched_on_a_running_node_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(state_tasks, "look", lambda sysroot: {"seen": sysroot.root})
    assert state.read_state(SysRoot(str(tmp_path)), watch=True)["tasks"] is None
    live, probe = SysRoot(str(tmp_path)), Probe(SysRoot(str(tmp_path)))
    live.live = True
    assert state.read_state(live, probe)["tasks"] is None
    assert state.read_state(live, probe, watch=True)["tasks"] == {"seen": str(tmp_path)}


# -- saying so


@pytest.mark.parametrize(
    "tasks, words, hint",
    [
        ({"isolated_at_boot": "2-7"}, "pod " + UID, "isolation.scheduler: balanced"),
        ({"isolated_at_boot": "", "isolated_by_partition": "2-5"}, "cpuset partition of type isolated", "a partition of type member"),
    ],
)
def test_an_audit_says_who_piles_up_where_and_what_to_do(tasks: dict[str, Any], words: str, hint: str) -> None:
    report = drift.compare({"knobs": {}}, {"tasks": {**tasks, "piled_up": [FOUND]}})
    (finding,) = report["findings"]
    assert (finding["id"], finding["severity"]) == ("isolation.piled_up", "warning")
    for word in (words, POD, "4 busy threads", "share CPU 5", "25 % of it each", "CPUs 2-4 of their cpuset 2-5 are idle"):
        assert word in finding["message"]
    assert hint in finding["hint"]
    assert "pin its own threads" in finding["hint"]


@pytest.mark.parametrize("tasks", [None, {"isolated_at_boot": "2-7", "piled_up": []}])
def test_nothing_is_said_where_nothing_is_piled_up(tasks: Any) -> None:
    assert drift.compare({"knobs": {}}, {"tasks": tasks})["findings"] == []


# -- masks that are inherited

AGENT = "/etc/systemd/system/rke2-agent.service.d"


@pytest.mark.parametrize(
    "files, role, wanted",
    [
        ({}, "agent", []),
        ({f"{AGENT}/pin.conf": "[Service]\nCPUAffinity=0-3\n"}, "agent", [("rke2-agent.service", f"{AGENT}/pin.conf", 2, "0-3")]),
        ({f"{AGENT}/pin.conf": "[Service]\nCPUAffinity=0-3\n"}, "server", []),
        ({f"{AGENT}/pin.conf": "[Service]\nCPUAffinity=0-3\n"}, None, [("rke2-agent.service", f"{AGENT}/pin.conf", 2, "0-3")]),
        ({f"{AGENT}/pin.conf": "[Service]\nCPUAffinity=0-3\n", f"{AGENT}/zz.conf": "[Service]\nCPUAffinity=\n"}, "agent", []),
        ({"/etc/systemd/system.conf": "[Manager]\n#CPUAffinity=\nCPUAffinity=0 1\n"}, "agent", [("systemd", "/etc/systemd/system.conf", 3, "0 1")]),
        (
            {"/etc/systemd/system.conf.d/a.conf": "[Manager]\nCPUAffinity=0\n", "/usr/lib/systemd/system.conf.d/a.conf": "[Manager]\nCPUAffinity=7\n"},
            "agent", [("systemd", "/etc/systemd/system.conf.d/a.conf", 2, "0")],
        ),
    ],
    ids=["none", "the unit", "another role's unit", "role unknown", "reset", "systemd", "a file hides another"],
)
def test_masks_that_pods_inherit(tmp_path: Path, files: dict[str, str], role: str | None, wanted: list[tuple[Any, ...]]) -> None:
    Node(tmp_path, {}, {}, files)
    assert [tuple(entry.values()) for entry in state_tasks.read_affinity(SysRoot(str(tmp_path)), role)] == wanted


def test_an_audit_warns_of_masks_that_pods_inherit() -> None:
    (finding,) = drift.compare({"knobs": {}}, {"cpu_affinity": [{"unit": "rke2-agent.service", "file": "/a.conf", "line": 2, "value": "0-3"}]})["findings"]
    assert (finding["id"], finding["severity"]) == ("recipe.cpu_affinity", "warning")
    assert "/a.conf:2 sets CPUAffinity=0-3 for rke2-agent.service" in finding["message"]
    assert "isolation.system_slices" in finding["hint"]
