# Copyright (c) 2026 The inferops.locality authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""State of a node: both sides of each knob, other owners, secrets that stay, and files that make no sense."""

from __future__ import annotations

import hashlib
import io
import json
import os
import time
import zipfile
from pathlib import Path
from typing import Any, Dict, Mapping, Optional

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ansible_collections.inferops.locality.plugins.module_utils import knobs, state_boot, state_knobs
from ansible_collections.inferops.locality.plugins.module_utils import state as state_m
from ansible_collections.inferops.locality.plugins.module_utils.probe import Probe
from ansible_collections.inferops.locality.plugins.module_utils.state import read_state
from ansible_collections.inferops.locality.plugins.module_utils.sysroot import SysRoot
from ansible_collections.inferops.locality.plugins.plugin_utils import paper, runtime

DEBIAN = {"/etc/os-release": "ID=debian\nVERSION_ID=13\n", "/etc/default/grub": 'GRUB_CMDLINE_LINUX_DEFAULT="quiet"\n'}
CPUS = "/sys/devices/system/cpu"
AGENT_FIRST, SERVER_FIRST = knobs.FILES_FIRST_START
_FIRST_LINES = "[Service]\nExecStartPre=-/usr/bin/python3 /usr/local/libexec/inferops-locality/locality.pyz kubelet-state"
FIRST = f"# ours\n# Checksum of what follows: {hashlib.sha256(_FIRST_LINES.encode()).hexdigest()}\n{_FIRST_LINES}\n"


def build(base: Path, files: Mapping[str, Any], links: Optional[Mapping[str, str]] = None) -> SysRoot:
    """A root with these files (text, bytes) and links."""
    for path, text in files.items():
        target = base / path.lstrip("/")
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(text if isinstance(text, bytes) else text.encode())
    for path, to in (links or {}).items():
        target = base / path.lstrip("/")
        target.parent.mkdir(parents=True, exist_ok=True)
        target.symlink_to(to)
    return SysRoot(str(base))


def grub(args: str) -> dict[str, str]:
    return {"/etc/default/grub": f'GRUB_CMDLINE_LINUX="{args}"\n'}


CONFIGURED: list[tuple[str, str, dict[str, Any], dict[str, str], Any, Optional[str]]] = [
    ("nothing is set", "kernel.isolcpus", DEBIAN, {}, None, None),
    (
        "isolcpus",
        "kernel.isolcpus",
        {**DEBIAN, knobs.FILE_GRUB: 'GRUB_CMDLINE_LINUX_DEFAULT="$GRUB_CMDLINE_LINUX_DEFAULT isolcpus=managed_irq,2-7"'},
        {},
        "managed_irq,2-7",
        f"{knobs.FILE_GRUB}:1",
    ),
    (
        "a tmpfiles line after ours loses at boot",
        "vm.thp",
        {
            knobs.FILE_TMPFILES: f"w! {state_knobs.THP}/enabled - - - - madvise",
            "/etc/tmpfiles.d/99-x.conf": f"w {state_knobs.THP}/enabled - - - - always",
        },
        {},
        "madvise",
        f"{knobs.FILE_TMPFILES}:1",
    ),
    ("hugepages", "kernel.hugepages", {**DEBIAN, **grub("hugepagesz=1G hugepages=0:8,1:8")}, {}, {"1Gi": {"0": 8, "1": 8}}, "/etc/default/grub:1"),
    (
        "acs",
        "kernel.acs",
        {**DEBIAN, **grub("pci=config_acs=xx000xx@0000:17:00.0\\;xx000xx@0000:18:00.0")},
        {},
        "config_acs=xx000xx@0000:17:00.0;xx000xx@0000:18:00.0",
        "/etc/default/grub:1",
    ),
    (
        "BLS",
        "kernel.nohz_full",
        {"/etc/os-release": "ID=rhel\nVERSION_ID=9.4\n", "/boot/loader/entries/a-5.14.conf": "title a\noptions ro nohz_full=2-3\n"},
        {},
        "2-3",
        "/boot/loader/entries/a-5.14.conf:2",
    ),
    ("sysctl", "vm.swappiness", {knobs.FILE_SYSCTL: "# x\nvm.swappiness = 0\n"}, {}, 0, f"{knobs.FILE_SYSCTL}:2"),
    (
        "sysctl overruled",
        "vm.swappiness",
        {knobs.FILE_SYSCTL: "vm.swappiness = 0\n", "/etc/sysctl.d/99-z.conf": "vm.swappiness=10"},
        {},
        10,
        "/etc/sysctl.d/99-z.conf:1",
    ),
    ("sysctl garbled", "vm.swappiness", {knobs.FILE_SYSCTL: "vm.swappiness = low\n"}, {}, "low", f"{knobs.FILE_SYSCTL}:1"),
    ("numa_balancing by argument", "kernel.numa_balancing", {**DEBIAN, **grub("numa_balancing=disable")}, {}, 0, "/etc/default/grub:1"),
    (
        "sysctl after argument",
        "kernel.numa_balancing",
        {**DEBIAN, **grub("numa_balancing=disable"), "/etc/sysctl.d/a.conf": "kernel.numa_balancing=1"},
        {},
        1,
        "/etc/sysctl.d/a.conf:1",
    ),
    ("zone reclaim", "vm.zone_reclaim", {knobs.FILE_SYSCTL: "vm.zone_reclaim_mode=0"}, {}, 0, f"{knobs.FILE_SYSCTL}:1"),
    ("thp by argument", "vm.thp", {**DEBIAN, **grub("transparent_hugepage=never")}, {}, "never", "/etc/default/grub:1"),
    (
        "thp by tmpfiles after argument",
        "vm.thp",
        {**DEBIAN, **grub("transparent_hugepage=never"), knobs.FILE_TMPFILES: f"w! {state_knobs.THP}/enabled - - - - madvise"},
        {},
        "madvise",
        f"{knobs.FILE_TMPFILES}:1",
    ),
    (
        "thp_defrag",
        "vm.thp_defrag",
        {knobs.FILE_TMPFILES: f"w! {state_knobs.THP}/defrag - - - - defer+madvise"},
        {},
        "defer+madvise",
        f"{knobs.FILE_TMPFILES}:1",
    ),
    (
        "workqueue",
        "workqueue.cpumask",
        {knobs.FILE_TMPFILES: f"w! {state_knobs.WORKQUEUE} - - - - 00000000,00000003"},
        {},
        "0-1",
        f"{knobs.FILE_TMPFILES}:1",
    ),
    (
        "governor",
        "cpu.governor",
        {knobs.FILE_TMPFILES: f"w! {CPUS}/cpu*/cpufreq/scaling_governor - - - - performance"},
        {},
        "performance",
        f"{knobs.FILE_TMPFILES}:1",
    ),
    (
        "latency",
        "cpu.latency",
        {knobs.FILE_TMPFILES: f"w! {CPUS}/cpu*/power/pm_qos_resume_latency_us - - - - 30"},
        {},
        30,
        f"{knobs.FILE_TMPFILES}:1",
    ),
    (
        "latency n/a",
        "cpu.latency",
        {knobs.FILE_TMPFILES: f"w! {CPUS}/cpu*/power/pm_qos_resume_latency_us - - - - n/a"},
        {},
        0,
        f"{knobs.FILE_TMPFILES}:1",
    ),
    (
        "latency by tuned",
        "cpu.latency",
        {
            "/usr/sbin/tuned": "",
            knobs.FILE_TUNED_ACTIVE: "inferops-locality\n",
            "/etc/tuned/inferops-locality/tuned.conf": "[cpu]\npm_qos_resume_latency_us=cstate.id:1|3",
        },
        {},
        3,
        "/etc/tuned/inferops-locality/tuned.conf:2",
    ),
    (
        "tuned after tmpfiles",
        "vm.thp",
        {
            "/usr/sbin/tuned": "",
            knobs.FILE_TUNED_ACTIVE: "x\n",
            "/etc/tuned/x/tuned.conf": "[vm]\ntransparent_hugepages=always",
            knobs.FILE_TMPFILES: f"w! {state_knobs.THP}/enabled - - - - madvise",
        },
        {},
        "always",
        "/etc/tuned/x/tuned.conf:2",
    ),
    (
        "tuned leaves thp of the command line",
        "vm.thp",
        {
            **DEBIAN,
            **grub("transparent_hugepage=never"),
            "/usr/sbin/tuned": "",
            knobs.FILE_TUNED_ACTIVE: "x\n",
            "/etc/tuned/x/tuned.conf": "[vm]\ntransparent_hugepages=always",
        },
        {},
        "never",
        "/etc/default/grub:1",
    ),
    (
        "tuned.profile",
        "tuned.profile",
        {"/usr/sbin/tuned": "", knobs.FILE_TUNED_ACTIVE: "inferops-locality\n"},
        {},
        "inferops-locality",
        f"{knobs.FILE_TUNED_ACTIVE}:1",
    ),
    (
        "tuned masked",
        "tuned.profile",
        {"/usr/sbin/tuned": "", knobs.FILE_TUNED_ACTIVE: "x\n"},
        {"/etc/systemd/system/tuned.service": "/dev/null"},
        None,
        "/etc/systemd/system/tuned.service",
    ),
    ("no tuned", "tuned.profile", {knobs.FILE_TUNED_ACTIVE: "x\n"}, {}, None, None),
    (
        "slices",
        "systemd.slices",
        {knobs.FILES_SLICES[1]: "[Slice]\nAllowedCPUs=0-1\n", knobs.FILES_SLICES[0]: "[Scope]\nAllowedCPUs=0 1\n"},
        {},
        {"init.scope": "0-1", "system.slice": "0-1", "user.slice": None},
        f"{knobs.FILES_SLICES[0]}:2",
    ),
    ("slices reset", "systemd.slices", {knobs.FILES_SLICES[1]: "[Slice]\nAllowedCPUs=0-1\nAllowedCPUs=\n"}, {}, None, None),
    ("memlock", "limits.memlock", {knobs.FILES_MEMLOCK[0]: "[Service]\nLimitMEMLOCK=infinity\n"}, {}, "infinity", f"{knobs.FILES_MEMLOCK[0]}:2"),
    ("memlock in bytes", "limits.memlock", {knobs.FILES_MEMLOCK[0]: "[Service]\nLimitMEMLOCK=8M\n"}, {}, "8388608", f"{knobs.FILES_MEMLOCK[0]}:2"),
    ("memlock of the server", "limits.memlock", {knobs.FILES_MEMLOCK[1]: "[Service]\nLimitMEMLOCK=1:2\n"}, {}, "1:2", f"{knobs.FILES_MEMLOCK[1]}:2"),
    ("irqbalance absent", "irqbalance", {}, {}, "disabled", None),
    (
        "irqbalance masked",
        "irqbalance",
        {"/usr/sbin/irqbalance": ""},
        {knobs.FILE_IRQBALANCE_MASK: "/dev/null"},
        "disabled",
        knobs.FILE_IRQBALANCE_MASK,
    ),
    ("irqbalance not started", "irqbalance", {"/usr/sbin/irqbalance": ""}, {}, "disabled", None),
    (
        "irqbalance on",
        "irqbalance",
        {"/usr/lib/systemd/system/irqbalance.service": ""},
        {"/etc/systemd/system/multi-user.target.wants/irqbalance.service": "/usr/lib/systemd/system/irqbalance.service"},
        "enabled",
        "/etc/systemd/system/multi-user.target.wants/irqbalance.service",
    ),
    (
        "irqbalance bans",
        "irqbalance",
        {"/usr/lib/systemd/system/irqbalance.service": "", knobs.FILE_IRQBALANCE: "[Service]\nEnvironment=IRQBALANCE_BANNED_CPULIST=2-7"},
        {"/etc/systemd/system/multi-user.target.wants/irqbalance.service": "/usr/lib/systemd/system/irqbalance.service"},
        "banned:2-7",
        f"{knobs.FILE_IRQBALANCE}:2",
    ),
    (
        "irqbalance's file beats its unit",
        "irqbalance",
        {
            **DEBIAN,
            "/usr/lib/systemd/system/irqbalance.service": "",
            "/etc/default/irqbalance": "IRQBALANCE_BANNED_CPUS=0000000c\n",
            knobs.FILE_IRQBALANCE: "[Service]\nEnvironment=IRQBALANCE_BANNED_CPULIST=2-7",
        },
        {"/etc/systemd/system/multi-user.target.wants/irqbalance.service": "/usr/lib/systemd/system/irqbalance.service"},
        "banned:2-3",
        "/etc/default/irqbalance:1",
    ),
    (
        "irq",
        "irq.affinity",
        {knobs.FILE_IRQ: json.dumps({"version": 1, "devices": [{"address": "0000:18:00.0", "cpus": "0-1", "queues": 4}]})},
        {},
        {"0000:18:00.0": "0-1"},
        f"{knobs.FILE_IRQ}:1",
    ),
    (
        "queues",
        "nic.queues",
        {knobs.FILE_IRQ: json.dumps({"version": 1, "devices": [{"address": "0000:18:00.0", "cpus": "0-1", "queues": 4}]})},
        {},
        {"0000:18:00.0": 4},
        f"{knobs.FILE_IRQ}:1",
    ),
    (
        "kubelet",
        "kubelet.cpu_manager_policy",
        {knobs.FILE_KUBELET: 'kubelet-arg+:\n  - "cpu-manager-policy=static"\n'},
        {},
        "static",
        f"{knobs.FILE_KUBELET}:2",
    ),
    ("kubelet not set", "kubelet.reserved_cpus", {knobs.FILE_KUBELET: 'kubelet-arg+:\n  - "max-pods=9"\n'}, {}, None, None),
    ("runtime absent", "runtime.version", {}, {}, None, None),
    ("first start", "kubelet.first_start", {AGENT_FIRST: FIRST}, {}, "kubelet-state", f"{AGENT_FIRST}:1"),
    ("first start of the server", "kubelet.first_start", {SERVER_FIRST: FIRST}, {}, "kubelet-state", f"{SERVER_FIRST}:1"),
    ("first start, changed", "kubelet.first_start", {AGENT_FIRST: FIRST.replace("=-", "=")}, {}, f"{AGENT_FIRST} was changed", f"{AGENT_FIRST}:1"),
    ("first start, emptied", "kubelet.first_start", {AGENT_FIRST: ""}, {}, f"{AGENT_FIRST} was changed", f"{AGENT_FIRST}:1"),
    (
        "first start, a further line before it", "kubelet.first_start",
        {AGENT_FIRST: FIRST, "/etc/systemd/system/rke2-agent.service.d/10.conf": "[Service]\nExecStartPre=\nExecStartPre=/bin/true\n"}, {}, "kubelet-state",
        f"{AGENT_FIRST}:1",
    ),
    (
        "first start, taken away by a later file", "kubelet.first_start",
        {AGENT_FIRST: FIRST, "/etc/systemd/system/rke2-agent.service.d/95.conf": "[Service]\nExecStartPre=\nExecStartPre=/bin/true\n"}, {},
        "taken away by /etc/systemd/system/rke2-agent.service.d/95.conf:2", "/etc/systemd/system/rke2-agent.service.d/95.conf:2",
    ),
    (
        "first start, of the unit that this node does not run", "kubelet.first_start",
        {SERVER_FIRST: FIRST}, {"/etc/systemd/system/multi-user.target.wants/rke2-agent.service": "/usr/lib/systemd/system/rke2-agent.service"}, None, None,
    ),
]


@pytest.mark.parametrize("name, knob, files, links, value, source", CONFIGURED, ids=[row[0] for row in CONFIGURED])
def test_configured(tmp_path: Path, name: str, knob: str, files: dict, links: dict, value: Any, source: Optional[str]) -> None:
    state = read_state(build(tmp_path, files, links))
    assert state["configured"][knob] == {"value": value, "source": source}, state["problems"]


def test_version_of_the_program(tmp_path: Path) -> None:
    data, version = runtime.build()
    state = read_state(build(tmp_path, {knobs.FILE_RUNTIME: data}))
    assert state["configured"]["runtime.version"] == {"value": version, "source": knobs.FILE_RUNTIME}
    assert state["problems"] == []


def test_a_program_that_was_changed_says_so(tmp_path: Path) -> None:
    data, version = runtime.build()
    buffer = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as source, zipfile.ZipFile(buffer, "w") as target:
        for name in source.namelist():
            target.writestr(name, source.read(name) + (b"# mine\n" if name == "__main__.py" else b""))
    state = read_state(build(tmp_path, {knobs.FILE_RUNTIME: buffer.getvalue()}))
    assert state["configured"]["runtime.version"]["value"] == f"{version} (changed)"


def test_a_program_that_is_cut_off_is_no_program(tmp_path: Path) -> None:
    state = read_state(build(tmp_path, {knobs.FILE_RUNTIME: runtime.build()[0][:5000]}))
    assert state["configured"]["runtime.version"]["value"] == "not readable"
    assert [problem["file"] for problem in state["problems"]] == [knobs.FILE_RUNTIME]


RUNNING: list[tuple[str, str, dict[str, Any], Any]] = [
    ("no argument", "kernel.isolcpus", {"/proc/cmdline": "ro\n"}, None),
    (
        "managed_irq shows on the line only",
        "kernel.isolcpus",
        {"/proc/cmdline": "isolcpus=managed_irq,2-3\n", f"{CPUS}/isolated": "\n"},
        "managed_irq,2-3",
    ),
    (
        "the effect of domain counts",
        "kernel.isolcpus",
        {"/proc/cmdline": "isolcpus=domain,managed_irq,2-3\n", f"{CPUS}/isolated": "\n"},
        "managed_irq,2-3",
    ),
    (
        "domain in force",
        "kernel.isolcpus",
        {"/proc/cmdline": "isolcpus=domain,managed_irq,2-3\n", f"{CPUS}/isolated": "2-3\n"},
        "domain,managed_irq,2-3",
    ),
    ("nohz_full (null)", "kernel.nohz_full", {"/proc/cmdline": "nohz_full=2-3\n", f"{CPUS}/nohz_full": "   (null)\n"}, None),
    ("nohz_full padded", "kernel.nohz_full", {f"{CPUS}/nohz_full": b"2-3\n" + b"\0" * 60}, "2-3"),
    ("nohz_full not built", "kernel.nohz_full", {"/proc/cmdline": "nohz_full=2-3\n", f"{CPUS}/isolated": "\n"}, None),
    ("irqaffinity has the boot CPU", "kernel.irqaffinity", {"/proc/cmdline": "irqaffinity=1\n"}, "0-1"),
    (
        "pools",
        "kernel.hugepages",
        {
            "/sys/devices/system/node/node0/hugepages/hugepages-1048576kB/nr_hugepages": "8\n",
            "/sys/devices/system/node/node1/hugepages/hugepages-1048576kB/nr_hugepages": "4\n",
            "/sys/devices/system/node/node1/hugepages/hugepages-2048kB/nr_hugepages": "0\n",
        },
        {"1Gi": {"0": 8, "1": 4}},
    ),
    ("iommu", "kernel.iommu", {"/proc/cmdline": "iommu=pt\n"}, "pt"),
    ("thp", "vm.thp", {f"{state_knobs.THP}/enabled": "always [madvise] never\n"}, "madvise"),
    ("defrag", "vm.thp_defrag", {f"{state_knobs.THP}/defrag": "always defer [defer+madvise] madvise never\n"}, "defer+madvise"),
    ("swappiness", "vm.swappiness", {"/proc/sys/vm/swappiness": "60\n"}, 60),
    (
        "governors differ",
        "cpu.governor",
        {f"{CPUS}/online": "0-2\n", **{f"{CPUS}/cpu{cpu}/cpufreq/scaling_governor": "powersave\n" if cpu else "performance\n" for cpu in range(3)}},
        "mixed: powersave, performance",
    ),
    ("latency", "cpu.latency", {f"{CPUS}/online": "0-1\n", **{f"{CPUS}/cpu{cpu}/power/pm_qos_resume_latency_us": "30\n" for cpu in range(2)}}, 30),
    ("no latency limit", "cpu.latency", {f"{CPUS}/online": "0\n", f"{CPUS}/cpu0/power/pm_qos_resume_latency_us": "0\n"}, None),
    ("workqueue", "workqueue.cpumask", {state_knobs.WORKQUEUE: "ff\n"}, "0-7"),
    (
        "slices",
        "systemd.slices",
        {"/sys/fs/cgroup/cgroup.controllers": "cpuset", **{f"/sys/fs/cgroup/{unit}/cpuset.cpus": "0-1\n" for unit in knobs.SLICES}},
        dict.fromkeys(knobs.SLICES, "0-1"),
    ),
    (
        "slices with all CPUs, which restricts nothing",
        "systemd.slices",
        {
            "/sys/fs/cgroup/cgroup.controllers": "cpuset", "/sys/fs/cgroup/cpuset.cpus.effective": "0-3\n",
            **{f"/sys/fs/cgroup/{unit}/cpuset.cpus": "0-3\n" for unit in knobs.SLICES},
        },
        None,
    ),
    (
        "memlock",
        "limits.memlock",
        {
            "/etc/systemd/system/multi-user.target.wants/rke2-agent.service": "",
            "/sys/fs/cgroup/system.slice/rke2-agent.service/cgroup.procs": "7\n9\n",
            "/proc/7/comm": "containerd\n",
            "/proc/9/comm": "rke2\n",
            "/proc/9/limits": "Limit   Soft   Hard   Units\nMax locked memory   8388608   unlimited   bytes\n",
        },
        "8388608:infinity",
    ),
    (
        "memlock of a process of another name, beside a shim of before",
        "limits.memlock",
        {
            "/etc/systemd/system/multi-user.target.wants/rke2-agent.service": "",
            "/sys/fs/cgroup/system.slice/rke2-agent.service/cgroup.procs": "7\n9\n",
            "/proc/7/comm": "containerd-shim\n",
            "/proc/9/comm": "sleep\n",
            "/proc/9/limits": "Limit   Soft   Hard   Units\nMax locked memory   unlimited   unlimited   bytes\n",
        },
        "infinity",
    ),
    (
        "irqbalance with a list it was started with, not that of its file",
        "irqbalance",
        {
            "/usr/lib/systemd/system/irqbalance.service": "", "/sys/fs/cgroup/cgroup.controllers": "",
            knobs.FILE_IRQBALANCE: "[Service]\nEnvironment=IRQBALANCE_BANNED_CPULIST=2-7",
            "/sys/fs/cgroup/system.slice/irqbalance.service/cgroup.procs": "5\n",
            "/proc/5/environ": b"HOME=/\0IRQBALANCE_BANNED_CPULIST=4-7\0",
        },
        "banned:4-7",
    ),
    (
        "irqbalance that was started without its new list",
        "irqbalance",
        {
            "/usr/lib/systemd/system/irqbalance.service": "", "/sys/fs/cgroup/cgroup.controllers": "",
            knobs.FILE_IRQBALANCE: "[Service]\nEnvironment=IRQBALANCE_BANNED_CPULIST=2-7",
            "/sys/fs/cgroup/system.slice/irqbalance.service/cgroup.procs": "5\n",
            "/proc/5/environ": b"HOME=/\0",
        },
        "enabled",
    ),
    (
        "tuned off, with the folder that each boot makes",
        "tuned.profile",
        {
            "/usr/sbin/tuned": "", "/etc/tuned/active_profile": "inferops-locality\n", "/run/tuned/x": "", "/sys/fs/cgroup/system.slice/x": "",
            "/usr/lib/tuned/inferops-locality/tuned.conf": "[main]",
        },
        None,
    ),
    (
        "irqbalance off",
        "irqbalance",
        {"/usr/sbin/irqbalance": "", "/sys/fs/cgroup/cgroup.controllers": "", "/sys/fs/cgroup/system.slice/x": ""},
        "disabled",
    ),
    (
        "irqbalance on",
        "irqbalance",
        {"/usr/sbin/irqbalance": "", "/sys/fs/cgroup/cgroup.controllers": "", "/sys/fs/cgroup/system.slice/irqbalance.service/x": ""},
        "enabled",
    ),
    ("default affinity", "irq.default_affinity", {"/proc/irq/default_smp_affinity": "00000000,00000003\n"}, "0-1"),
    (
        "kubelet",
        "kubelet.reserved_cpus",
        {
            "/etc/systemd/system/multi-user.target.wants/rke2-agent.service": "",
            "/sys/fs/cgroup/system.slice/rke2-agent.service/cgroup.procs": "7\n",
            "/proc/7/comm": "kubelet\n",
            "/proc/7/cmdline": b"kubelet\0--reserved-cpus=0-1\0--v\0" + b"2\0",
        },
        "0-1",
    ),
]


@pytest.mark.parametrize("name, knob, files, value", RUNNING, ids=[row[0] for row in RUNNING])
def test_running(tmp_path: Path, name: str, knob: str, files: dict, value: Any) -> None:
    state = read_state(build(tmp_path, files))
    assert state["running"][knob] == value, state["problems"]


@pytest.mark.parametrize("said, value", [
    ("Current active profile: inferops-locality\n", "inferops-locality"), ("Current active profile: balanced powersave\n", "balanced powersave"),
    ("No current active profile.\n", None),
])
def test_the_daemon_says_which_profile_is_in_force(tmp_path: Path, said: str, value: Optional[str]) -> None:
    answer = {"argv": ["tuned-adm", "active"], "rc": 0, "stdout": said, "stderr": ""}
    state = read_state(build(tmp_path, {
        "/usr/sbin/tuned": "", "/etc/tuned/active_profile": "inferops-locality\n", "/usr/lib/tuned/inferops-locality/tuned.conf": "[main]",
        "/sys/fs/cgroup/system.slice/tuned.service/cgroup.procs": "4\n", "/.locality/probe/tuned-active.json": json.dumps(answer),
    }))
    assert state["running"]["tuned.profile"] == value
    assert state["platform"]["tuned"]["on"]


@pytest.mark.parametrize("left", [False, True])
@pytest.mark.parametrize("procs, runs", [
    ("", {"unit": False, "kubelet": False}), ("7\n", {"unit": True, "kubelet": False}), ("7\n8\n", {"unit": True, "kubelet": True}),
    ("9\n", {"unit": False, "kubelet": False}),
])
def test_whether_rke2_and_its_kubelet_run(tmp_path: Path, procs: str, runs: Dict[str, bool], left: bool) -> None:
    state = read_state(build(tmp_path, {
        **({"/var/lib/inferops-locality/rke2-stopped": ""} if left else {}),
        "/etc/systemd/system/multi-user.target.wants/rke2-agent.service": "",
        "/sys/fs/cgroup/system.slice/rke2-agent.service/cgroup.procs": procs,
        "/proc/7/comm": "rke2\n", "/proc/8/comm": "kubelet\n", "/proc/8/cmdline": b"kubelet\0--v=2\0", "/proc/9/comm": "containerd-shim\n",
    }))
    assert state["kubelet"]["runs"] == {**runs, "left": left}


def test_what_is_ours_on_a_node(tmp_path: Path) -> None:
    ours = [
        knobs.FILE_SYSCTL, knobs.FILES_SLICES[0], knobs.FILE_RUNTIME, knobs.FILE_HOST_SAVED, f"/etc/{knobs.OWNER}/boot-trial.cfg", knobs.FILE_TUNED_ACTIVE,
        f"/etc/tuned/{knobs.TUNED_PROFILE}/tuned.conf",
    ]
    texts = {knobs.FILE_TUNED_ACTIVE: f"{knobs.TUNED_PROFILE}\n"}
    others = {"/usr/sbin/tuned": "", "/etc/sysctl.d/99-other.conf": "", "/etc/systemd/system/init.scope.d/other.conf": ""}
    assert read_state(build(tmp_path, {**{path: texts.get(path, "") for path in ours}, **others}))["ours"] == sorted(ours)


def test_a_knob_that_cannot_be_read_is_left_out(tmp_path: Path) -> None:
    running = read_state(build(tmp_path, {}))["running"]
    assert not {"vm.swappiness", "kernel.isolcpus", "vm.thp", "cpu.governor", "workqueue.cpumask", "kubelet.reserved_cpus", "irqbalance"} & set(
        running
    )


def nic(base: str, effective: str = "0") -> dict[str, str]:
    """A NIC with two queues on CPU 0 and 1 (or elsewhere)."""
    device = "/sys/devices/pci0000:17/0000:18:00.0"
    files = {f"{device}/class": "0x020000\n", f"{device}/vendor": "0x15b3\n", f"{device}/device": "0x1021\n", f"{device}/net/eth0/mtu": "9000\n"}
    for number, cpu in ((40, "0"), (41, base)):
        files[f"{device}/msi_irqs/{number}"] = "msix\n"
        files[f"/proc/irq/{number}/smp_affinity_list"] = f"{cpu}\n"
        files[f"/proc/irq/{number}/effective_affinity_list"] = f"{effective if number == 40 else cpu}\n"
        files[f"/proc/irq/{number}/eth0-TxRx-{number - 40}/x"] = ""
    for queue in ("rx-0", "rx-1", "tx-0", "tx-1"):
        files[f"{device}/net/eth0/queues/{queue}/{'rps' if queue[0] == 'r' else 'xps'}_cpus"] = "3\n" if queue[0] == "t" else "0\n"
    return files


NIC_LINKS = {
    "/sys/bus/pci/devices/0000:18:00.0": "../../../devices/pci0000:17/0000:18:00.0",
    "/sys/class/net/eth0": "../../devices/pci0000:17/0000:18:00.0/net/eth0",
    "/sys/devices/pci0000:17/0000:18:00.0/net/eth0/device": "../../../0000:18:00.0",
}
IRQ_FILE = {knobs.FILE_IRQ: json.dumps({"version": 1, "devices": [{"address": "0000:18:00.0", "cpus": "0-1,64-65", "strategy": "spread"}]})}


@pytest.mark.parametrize(
    "second, file, wanted",
    [
        ("1", IRQ_FILE, "0-1,64-65"),
        ("1", {}, "0-1"),
        ("7", IRQ_FILE, "0,7"),
        ("0", IRQ_FILE, "0"),
    ],
    ids=["placed as its file says", "no file", "one elsewhere", "both on one CPU"],
)
def test_interrupts_of_a_nic(tmp_path: Path, second: str, file: dict, wanted: str) -> None:
    state = read_state(build(tmp_path, {**nic(second), **file}, NIC_LINKS))
    assert state["running"]["irq.affinity"] == {"0000:18:00.0": wanted}, state["problems"]
    assert state["running"]["nic.queues"] == {"0000:18:00.0": 2}
    assert state["running"]["nic.xps"] == {"0000:18:00.0": "0-1"}
    assert state["running"]["nic.rps"] == {"0000:18:00.0": ""}
    assert [(entry["irq"], entry["queue"], entry["asked"]) for entry in state["irqs"]] == [(40, 0, "0"), (41, 1, second)]


STEERED = "/sys/devices/pci0000:17/0000:18:00.0/net/eth0/queues"


@pytest.mark.parametrize(
    "files, rps, xps",
    [
        ({f"{STEERED}/{queue}/rps_cpus": "3\n" for queue in ("rx-0", "rx-1")}, "0-1", "0-1"),
        ({f"{STEERED}/rx-1/rps_cpus": "3\n"}, "mixed: off; 0-1", "0-1"),
        ({f"{STEERED}/tx-0/xps_cpus": "1\n", f"{STEERED}/tx-1/xps_cpus": "2\n"}, "", "mixed: 0; 1"),
    ],
    ids=["all queues alike", "one queue steered", "each queue its own CPU"],
)
def test_steering_of_a_nic(tmp_path: Path, files: dict, rps: str, xps: str) -> None:
    running = read_state(build(tmp_path, {**nic("1"), **files}, NIC_LINKS))["running"]
    assert (running["nic.rps"], running["nic.xps"]) == ({"0000:18:00.0": rps}, {"0000:18:00.0": xps})


CHANNELS = """\
Channel parameters for eth0:
Pre-set maximums:
RX:\t\tn/a
TX:\t\tn/a
Other:\t\t1
Combined:\t{most}
Current hardware settings:
RX:\t\tn/a
TX:\t\tn/a
Other:\t\t1
Combined:\t2
"""


@pytest.mark.parametrize(
    "answer, queues",
    [
        ({"rc": 0, "stdout": CHANNELS.format(most=63), "stderr": ""}, {"0000:18:00.0": 63}),
        ({"rc": 0, "stdout": CHANNELS.format(most="n/a"), "stderr": ""}, {"0000:18:00.0": None}),
        ({"rc": 75, "stdout": "Channel parameters for eth0:\n", "stderr": "netlink error: Operation not supported\n"}, {"0000:18:00.0": None}),
        ({"rc": 1, "stdout": "", "stderr": "netlink error: No such device\n"}, {}),
        (None, {}),
    ],
    ids=["63", "none", "a driver without the setting", "gone", "not recorded"],
)
def test_most_queues_of_a_nic(tmp_path: Path, answer: Optional[dict], queues: dict) -> None:
    recorded = {} if answer is None else {"/.locality/probe/ethtool-channels.eth0.json": json.dumps({"argv": ["ethtool", "-l", "eth0"], **answer})}
    assert read_state(build(tmp_path, {**nic("1"), **recorded}, NIC_LINKS))["platform"]["nic_queues"] == queues


def test_interrupts_of_drives_and_gpus_are_listed(tmp_path: Path) -> None:
    paper.build({"cpus": {"sockets": 1, "cores_per_numa": 4, "threads": 1}, "pci": [{"host_bridge": "pci0000:00", "numa": 0, "children": [
        {"nvme": "samsung-pm9a3", "address": "0000:00:01.0", "name": "nvme0", "irqs": 2},
        {"gpu": "nvidia-h100", "address": "0000:00:02.0", "irqs": 1},
        {"nic": "mlx5", "address": "0000:00:03.0", "interface": "eth0", "queues": 1, "irqs": 1},
    ]}]}, tmp_path / "node")
    state = read_state(SysRoot(str(tmp_path / "node")))
    assert [(entry["device"][-4:], entry["managed"]) for entry in state["irqs"]] == [("01.0", True), ("01.0", False), ("02.0", False), ("03.0", False)]
    # What nobody can place is not judged.
    assert state["running"]["irq.affinity"] == {"0000:00:01.0": "0", "0000:00:02.0": "0", "0000:00:03.0": "0"}


def test_softirqs_since_the_boot_or_over_an_interval(tmp_path: Path) -> None:
    counts = tmp_path / "proc/softirqs"
    root = build(tmp_path, {"/proc/softirqs": "CPU0 CPU1\nNET_TX: 1 1\nNET_RX: 4294967290 7\n"})
    waited = []

    def wait(seconds: float) -> None:
        waited.append(seconds)
        counts.write_text("CPU0 CPU1\nNET_TX: 1 2\nNET_RX: 4 10\n")

    # below another root nothing counts, and nobody waits
    assert read_state(root, softirq_interval=5, pause=wait)["softirqs"] == {"net_rx": {"0": 4294967290, "1": 7}, "net_tx": {"0": 1, "1": 1}, "seconds": None}
    root.live = True
    assert state_m._softirqs(root, 5, wait) == {"net_rx": {"0": 10, "1": 3}, "net_tx": {"0": 0, "1": 1}, "seconds": 5}
    assert state_m._softirqs(root, 0, wait)["seconds"] is None
    assert waited == [5]


# -- other owners

FOREIGN: list[tuple[str, dict[str, Any], dict[str, str], list[tuple[str, str, Optional[int], str]]]] = [
    (
        "our own files",
        {
            **DEBIAN,
            knobs.FILE_GRUB: 'GRUB_CMDLINE_LINUX_DEFAULT="$GRUB_CMDLINE_LINUX_DEFAULT isolcpus=2"',
            knobs.FILE_SYSCTL: "vm.swappiness=0",
            knobs.FILE_TMPFILES: f"w! {state_knobs.THP}/enabled - - - - madvise",
            knobs.FILES_SLICES[1]: "[Slice]\nAllowedCPUs=0",
            knobs.FILES_MEMLOCK[0]: "[Service]\nLimitMEMLOCK=infinity",
            knobs.FILE_KUBELET: 'kubelet-arg+:\n- "reserved-cpus=0"\n',
            "/usr/sbin/tuned": "",
            knobs.FILE_TUNED_ACTIVE: "inferops-locality",
            knobs.FILE_TUNED_MODE: "manual",
            "/etc/tuned/inferops-locality/tuned.conf": "[cpu]\ngovernor=performance",
        },
        {},
        [],
    ),
    ("grub", {**DEBIAN, **grub("quiet isolcpus=2-3")}, {}, [("kernel.isolcpus", "/etc/default/grub", 1, "isolcpus=2-3")]),
    (
        "grub.d",
        {**DEBIAN, "/etc/default/grub.d/50-x.cfg": '\nGRUB_CMDLINE_LINUX="iommu=pt"'},
        {},
        [("kernel.iommu", "/etc/default/grub.d/50-x.cfg", 2, "iommu=pt")],
    ),
    (
        "BLS",
        {"/etc/os-release": "ID=rhel\n", "/boot/loader/entries/a.conf": "options ro nohz_full=1"},
        {},
        [("kernel.nohz_full", "/boot/loader/entries/a.conf", 1, "nohz_full=1")],
    ),
    ("sysctl that wins", {"/etc/sysctl.d/99-a.conf": "vm.swappiness=10"}, {}, [("vm.swappiness", "/etc/sysctl.d/99-a.conf", 1, "10")]),
    (
        "sysctl of an operator that loses",
        {"/etc/sysctl.d/10-a.conf": "vm.swappiness=10"},
        {},
        [("vm.swappiness", "/etc/sysctl.d/10-a.conf", 1, "10")],
    ),
    ("sysctl of the vendor that loses", {"/usr/lib/sysctl.d/10-a.conf": "vm.swappiness=10", knobs.FILE_SYSCTL: "vm.swappiness=0"}, {}, []),
    ("sysctl of the vendor that would lose", {"/usr/lib/sysctl.d/10-a.conf": "vm.swappiness=10"}, {}, []),
    (
        "sysctl of the vendor that wins",
        {"/usr/lib/sysctl.d/99-a.conf": "vm.swappiness=10"},
        {},
        [("vm.swappiness", "/usr/lib/sysctl.d/99-a.conf", 1, "10")],
    ),
    (
        "sysctl.conf, linked",
        {"/etc/sysctl.conf": "#\nvm.swappiness=1"},
        {"/etc/sysctl.d/99-sysctl.conf": "../sysctl.conf"},
        [("vm.swappiness", "/etc/sysctl.conf", 2, "1")],
    ),
    ("sysctl.conf, not linked", {"/etc/sysctl.conf": "vm.swappiness=1"}, {}, [("vm.swappiness", "/etc/sysctl.conf", 1, "1")]),
    ("huge pages by sysctl", {"/etc/sysctl.d/a.conf": "vm.nr_hugepages=512"}, {}, [("kernel.hugepages", "/etc/sysctl.d/a.conf", 1, "512")]),
    (
        "tmpfiles",
        {"/etc/tmpfiles.d/thp.conf": f"w {state_knobs.THP}/enabled - - - - never"},
        {},
        [("vm.thp", "/etc/tmpfiles.d/thp.conf", 1, "never")],
    ),
    (
        "tmpfiles after ours, which wins once the boot is over",
        {
            knobs.FILE_TMPFILES: f"w! {state_knobs.THP}/enabled - - - - madvise",
            "/etc/tmpfiles.d/99-x.conf": f"#\nw {state_knobs.THP}/enabled - - - - always\nw! {state_knobs.THP}/defrag - - - - never",
        },
        {},
        [("vm.thp", "/etc/tmpfiles.d/99-x.conf", 2, "always"), ("vm.thp_defrag", "/etc/tmpfiles.d/99-x.conf", 3, "never")],
    ),
    (
        "governor by a pattern",
        {"/etc/tmpfiles.d/g.conf": f"w {CPUS}/cpu*/cpufreq/scaling_governor - - - - powersave"},
        {},
        [("cpu.governor", "/etc/tmpfiles.d/g.conf", 1, "powersave")],
    ),
    (
        "slice",
        {"/etc/systemd/system.control/system.slice.d/50-AllowedCPUs.conf": "[Slice]\nAllowedCPUs=0-3"},
        {},
        [("systemd.slices", "/etc/systemd/system.control/system.slice.d/50-AllowedCPUs.conf", 2, "0-3")],
    ),
    (
        "memlock",
        {"/etc/systemd/system/rke2-agent.service.d/rdma.conf": "[Service]\nLimitMEMLOCK=64M"},
        {},
        [("limits.memlock", "/etc/systemd/system/rke2-agent.service.d/rdma.conf", 2, "64M")],
    ),
    (
        "memlock of the vendor without effect",
        {"/usr/lib/systemd/system/rke2-agent.service": "[Service]\nLimitMEMLOCK=64M", knobs.FILES_MEMLOCK[0]: "[Service]\nLimitMEMLOCK=1"},
        {},
        [],
    ),
    (
        "kubelet-arg",
        {"/etc/rancher/rke2/config.yaml": "token: CANARY\nkubelet-arg:\n- max-pods=200\n- reserved-cpus=0-3\n"},
        {},
        [("kubelet.reserved_cpus", "/etc/rancher/rke2/config.yaml", 4, "reserved-cpus=0-3")],
    ),
    (
        "a plain kubelet-arg in a file after ours",
        {
            knobs.FILE_KUBELET: "kubelet-arg+:\n- cpu-manager-policy=static\n- reserved-cpus=0\n",
            "/etc/rancher/rke2/config.yaml.d/99-site.yaml": "debug: true\nkubelet-arg:\n- max-pods=200\n",
            "/etc/rancher/rke2/config.yaml.d/99-then.yaml": "kubelet-arg:\n- max-pods=100\n",
        },
        {},
        [
            (f"kubelet.{knob}", "/etc/rancher/rke2/config.yaml.d/99-site.yaml", 2, "replaces kubelet-arg of the files before it")
            for knob in ("cpu_manager_policy", "reserved_cpus")
        ],
    ),
    (
        "kubelet-arg that drops nothing of ours",
        {
            "/etc/rancher/rke2/config.yaml": "kubelet-arg:\n- max-pods=100\n",
            "/etc/rancher/rke2/config.yaml.d/10-x.yaml": "kubelet-arg:\n- max-pods=200\n",
            knobs.FILE_KUBELET: "kubelet-arg+:\n- reserved-cpus=0\n",
            "/etc/rancher/rke2/config.yaml.d/99-site.yaml": "kubelet-arg+:\n- max-pods=200\n",
        },
        {},
        [],
    ),
    (
        "a GRUB file after ours that keeps nothing",
        {
            **DEBIAN,
            knobs.FILE_GRUB: 'GRUB_CMDLINE_LINUX_DEFAULT="$GRUB_CMDLINE_LINUX_DEFAULT isolcpus=2 iommu=pt"',
            "/etc/default/grub.d/99-x.cfg": '#\nGRUB_CMDLINE_LINUX_DEFAULT="splash iommu=off"\n',
        },
        {},
        [
            ("kernel.iommu", "/etc/default/grub.d/99-x.cfg", 2, "iommu=off"),
            ("kernel.iommu", "/etc/default/grub.d/99-x.cfg", 2, "replaces GRUB_CMDLINE_LINUX_DEFAULT of the files before it"),
            ("kernel.isolcpus", "/etc/default/grub.d/99-x.cfg", 2, "replaces GRUB_CMDLINE_LINUX_DEFAULT of the files before it"),
        ],
    ),
    (
        "GRUB files around ours that drop nothing of it",
        {
            **DEBIAN,
            "/etc/default/grub.d/50-x.cfg": 'GRUB_CMDLINE_LINUX_DEFAULT="splash"\n',
            knobs.FILE_GRUB: 'GRUB_CMDLINE_LINUX_DEFAULT="$GRUB_CMDLINE_LINUX_DEFAULT isolcpus=2"',
            "/etc/default/grub.d/99-x.cfg": 'GRUB_CMDLINE_LINUX_DEFAULT="panic=1 ${GRUB_CMDLINE_LINUX_DEFAULT}"\n',
        },
        {},
        [],
    ),
    (
        "kubelet-arg in a drop-in of RKE2's unit",
        {
            "/usr/lib/systemd/system/rke2-agent.service": "[Service]\nExecStart=/usr/bin/rke2 agent --kubelet-arg=reserved-cpus=1\n",
            "/etc/systemd/system/rke2-agent.service.d/x.conf": (
                "[Service]\nExecStart=\nExecStart=/usr/bin/rke2 agent --token CANARY \"--kubelet-arg=reserved-cpus=0-3\" --kubelet-arg max-pods=9 \\\n"
                "  --kubelet-arg --cpu-manager-policy=none '--kubelet-arg=kube-reserved=memory=1Gi --token=CANARY'\n"
            ),
        },
        {},
        [
            ("kubelet.cpu_manager_policy", "/etc/systemd/system/rke2-agent.service.d/x.conf", 3, "cpu-manager-policy=none"),
            ("kubelet.reserved_cpus", "/etc/systemd/system/rke2-agent.service.d/x.conf", 3, "reserved-cpus=0-3"),
        ],
    ),
    (
        "kubelet's own file",
        {
            "/var/lib/rancher/rke2/agent/etc/kubelet.conf.d/10-x.conf": (
                "kind: KubeletConfiguration\ncpuManagerPolicy: static\nsystemReserved:\n  memory: 1Gi\n"
            ),
            "/var/lib/rancher/rke2/agent/etc/kubelet.conf.d/00-rke2-defaults.conf": "cpuManagerPolicy: none\n",
        },
        {},
        [
            ("kubelet.cpu_manager_policy", "/var/lib/rancher/rke2/agent/etc/kubelet.conf.d/10-x.conf", 2, "cpuManagerPolicy: static"),
            ("kubelet.system_reserved", "/var/lib/rancher/rke2/agent/etc/kubelet.conf.d/10-x.conf", 3, "systemReserved"),
        ],
    ),
    (
        "irqbalance by a unit file of its own",
        {knobs.FILE_IRQBALANCE_MASK: "[Service]\nExecStart=/opt/irqbalance\n", "/usr/sbin/irqbalance": ""},
        {},
        [("irqbalance", knobs.FILE_IRQBALANCE_MASK, None, "is a unit file of its own")],
    ),
    (
        "tuned by hand",
        {
            "/usr/sbin/tuned": "",
            knobs.FILE_TUNED_ACTIVE: "mine",
            knobs.FILE_TUNED_MODE: "manual",
            "/usr/lib/tuned/base/tuned.conf": "[vm]\ntransparent_hugepages=never",
            "/etc/tuned/mine/tuned.conf": (
                "[main]\ninclude=base\n[sysctl]\nvm.swappiness=5\n[bootloader]\ncmdline_x=+isolcpus=1 quiet\n[cpu]\ngovernor=powersave\nforce_latency=1"
            ),
        },
        {},
        [
            ("cpu.governor", "/etc/tuned/mine/tuned.conf", 8, "powersave"),
            ("cpu.latency", "/etc/tuned/mine/tuned.conf", 9, "1"),
            ("kernel.isolcpus", "/etc/tuned/mine/tuned.conf", 6, "isolcpus=1"),
            ("tuned.profile", knobs.FILE_TUNED_ACTIVE, 1, "mine"),
            ("vm.swappiness", "/etc/tuned/mine/tuned.conf", 4, "5"),
            ("vm.thp", "/usr/lib/tuned/base/tuned.conf", 2, "never"),
        ],
    ),
    (
        "tuned by itself",
        {
            "/usr/sbin/tuned": "",
            knobs.FILE_TUNED_ACTIVE: "balanced",
            knobs.FILE_TUNED_MODE: "auto",
            "/usr/lib/tuned/balanced/tuned.conf": "[cpu]\ngovernor=x",
        },
        {},
        [],
    ),
    (
        "irqbalance",
        {**DEBIAN, "/usr/lib/systemd/system/irqbalance.service": "", "/etc/default/irqbalance": "#\nIRQBALANCE_BANNED_CPULIST=2-7\n"},
        {"/etc/systemd/system/multi-user.target.wants/irqbalance.service": "/usr/lib/systemd/system/irqbalance.service"},
        [("irqbalance", "/etc/default/irqbalance", 2, "IRQBALANCE_BANNED_CPULIST=2-7")],
    ),
    (
        "irqbalance's file while it is masked",
        {**DEBIAN, "/usr/lib/systemd/system/irqbalance.service": "", "/etc/default/irqbalance": "IRQBALANCE_BANNED_CPULIST=2-7\n"},
        {knobs.FILE_IRQBALANCE_MASK: "/dev/null"},
        [],
    ),
]


@pytest.mark.parametrize("name, files, links, wanted", FOREIGN, ids=[row[0] for row in FOREIGN])
def test_foreign(tmp_path: Path, name: str, files: dict, links: dict, wanted: list) -> None:
    state = read_state(build(tmp_path, files, links))
    assert [(entry["knob"], entry["file"], entry["line"], entry["value"]) for entry in state["foreign"]] == wanted


# -- the kubelet's flags

FLAGS: list[tuple[list[tuple[str, str]], str, Any]] = [
    ([], "kubelet.cpu_manager_policy", None),
    ([("cpu-manager-policy", "none"), ("cpu-manager-policy", "static")], "kubelet.cpu_manager_policy", "static"),
    ([("cpu-manager-policy", '"static"')], "kubelet.cpu_manager_policy", '"static"'),
    ([("cpu-manager-policy-options", "b=true"), ("cpu-manager-policy-options", "a=true")], "kubelet.cpu_manager_options", ["a=true", "b=true"]),
    ([("cpu-manager-policy-options", "a=true,b=true")], "kubelet.cpu_manager_options", ["a=true,b=true"]),
    ([("topology-manager-policy-options", "max-allowable-numa-nodes=9")], "kubelet.topology_manager_options", {"max-allowable-numa-nodes": "9"}),
    ([("reserved-memory", "0:memory=6Gi;1:memory=6244Mi")], "kubelet.reserved_memory", {"0": 6 * 2**30, "1": 6244 * 2**20}),
    ([("reserved-memory", "0:memory=6Gi"), ("reserved-memory", "1:memory=1Gi")], "kubelet.reserved_memory", {"0": 6 * 2**30, "1": 2**30}),
    ([("reserved-memory", "0:memory=1Gi,hugepages-2Mi=2Mi")], "kubelet.reserved_memory", {"0": 2**30, "0:hugepages-2Mi": 2 * 2**20}),
    ([("reserved-memory", "0:memory=1Gi;0:memory=2Gi")], "kubelet.reserved_memory", "0:memory=1Gi;0:memory=2Gi"),
    ([("reserved-memory", "memory=1Gi")], "kubelet.reserved_memory", "memory=1Gi"),
    ([("reserved-memory", "\u00b2:memory=1Gi")], "kubelet.reserved_memory", "\u00b2:memory=1Gi"),
    ([("reserved-cpus", "1,0,4-5")], "kubelet.reserved_cpus", "0-1,4-5"),
    ([("reserved-cpus", "0 1")], "kubelet.reserved_cpus", "0 1"),
    ([("system-reserved", "memory=8Gi,cpu=500m")], "kubelet.system_reserved", {"memory": 8 * 2**30, "cpu": "500m"}),
    ([("kube-reserved", "memory")], "kubelet.kube_reserved", "memory"),
    (
        [("eviction-hard", "memory.available<500Mi,nodefs.available<5%")],
        "kubelet.eviction_hard",
        {"memory.available": 500 * 2**20, "nodefs.available": "5%"},
    ),
]


@pytest.mark.parametrize("args, knob, value", FLAGS)
def test_kubelet_values(args: list, knob: str, value: Any) -> None:
    assert state_knobs.kubelet_values(args)[knob] == value


# -- what boots next on the live node

GRUB_CFG = """\
if [ "${next_entry}" ] ; then
  set default="${next_entry}"
else
  set default="${saved_entry}"
fi
menuentry 'one' --id one {
  linux /vmlinuz ro isolcpus=1
}
menuentry 'two' --id two {
  linux /vmlinuz ro isolcpus=2
}
"""


def live(base: Path, files: Mapping[str, Any]) -> SysRoot:
    """A root that takes itself for the running machine."""
    root = build(base, files)
    root.live = True
    return root


@pytest.mark.parametrize(
    "environment, entry, value",
    [
        ("", "one", "domain,1"),
        ("saved_entry=two", "two", "domain,2"),
        ("saved_entry=1", "two", "domain,2"),
        ("saved_entry=one\nnext_entry=two", "two", "domain,2"),
        ("saved_entry=gone", "one", "domain,1"),
    ],
)
def test_next_boot_of_grub(tmp_path: Path, environment: str, entry: str, value: str) -> None:
    root = live(tmp_path, {"/boot/grub/grub.cfg": GRUB_CFG, "/boot/grub/grubenv": environment, **DEBIAN})
    boot = state_boot.read_boot(root, True)
    assert boot.entry == entry
    found = state_knobs.Knobs()
    state_knobs.read_kernel(root, found, boot)
    assert found.configured["kernel.isolcpus"]["value"] == value
    assert found.configured["kernel.isolcpus"]["source"] == f"/boot/grub/grub.cfg:{7 if entry == 'one' else 10}"
    assert bool(root.problems) is (environment == "saved_entry=gone")


def test_next_boot_that_cannot_be_read_is_unknown(tmp_path: Path) -> None:
    root = live(tmp_path, {"/boot/grub/grub.cfg": b"\xff\xfe", **DEBIAN})
    boot = state_boot.read_boot(root, True)
    found = state_knobs.Knobs()
    facts = state_knobs.read_kernel(root, found, boot)
    assert facts["next_boot"] == {"entry": None, "args": None, "source": None}
    assert not any(knob.startswith("kernel.") for knob in found.configured)
    assert root.problems


BLS = {
    "/etc/os-release": "ID=rhel\n",
    "/boot/grub2/grub.cfg": "blscfg\n",
    "/boot/loader/entries/m-5.14.0-70.conf": "title Seventy\noptions ro a=70\n",
    "/boot/loader/entries/m-5.14.0-503.conf": "title New\noptions $kernelopts a=503 $tuned_params\n",
}


@pytest.mark.parametrize(
    "environment, entry, args",
    [
        ("kernelopts=root=/dev/sda ro", "m-5.14.0-503", ["root=/dev/sda", "ro", "a=503"]),
        ("kernelopts=ro\ntuned_params=b=1", "m-5.14.0-503", ["ro", "a=503", "b=1"]),
        ("saved_entry=m-5.14.0-70", "m-5.14.0-70", ["ro", "a=70"]),
        ("saved_entry=Seventy", "m-5.14.0-70", ["ro", "a=70"]),
        ("saved_entry=1", "m-5.14.0-70", ["ro", "a=70"]),
        ("saved_entry=m-5.14.0-503\nnext_entry=m-5.14.0-70", "m-5.14.0-70", ["ro", "a=70"]),
        ("saved_entry=m-5.14.0-503", None, None),
    ],
)
def test_next_boot_of_bls(tmp_path: Path, environment: str, entry: Optional[str], args: Optional[list]) -> None:
    boot = state_boot.read_boot(live(tmp_path, {**BLS, "/boot/grub2/grubenv": environment}), False)
    assert (boot.kind, boot.entry) == ("bls", entry)
    assert (None if boot.args is None else [arg.raw for arg in boot.args]) == args


# -- secrets

CANARY = "CANARY4711"
SECRETS = f"""\
# the token was {CANARY}
token: {CANARY}
agent-token: "{CANARY}"
server: https://{CANARY}:9345
etcd-s3-secret-key: '{CANARY}'
etcd-s3-access-key: {CANARY}
kube-apiserver-arg:
  - "token-auth-file={CANARY}"
kubelet-arg:
  - "reserved-cpus=0-1" # {CANARY}
  - "bootstrap-token={CANARY}"
  - "{CANARY}"
"""
BROKEN = [
    ("well formed", ""),
    ("a line that is no key", f"{CANARY} {CANARY}\n"),
    ("a multi-line scalar", f"token+: |\n  {CANARY}\n  {CANARY}\n"),
    ("a folded scalar", f"server+: >-\n  {CANARY}\n"),
    ("an open quote", f'agent-token+: "{CANARY}\n'),
    ("a tab", f"\t{CANARY}: {CANARY}\n"),
    ("a list that goes on", f"node-label: [{CANARY}\n"),
    ("a plain value over two lines", f"token: a\n  {CANARY}\n"),
    ("an anchor", f"token: &x {CANARY}\nagent-token: *x\n"),
    ("a nested mapping", f"token:\n  deep: {CANARY}\n"),
    ("two documents", f"---\ntoken: {CANARY}\n"),
    ("not UTF-8", "\udcff"),
]


@pytest.mark.parametrize("name, more", BROKEN, ids=[row[0] for row in BROKEN])
def test_no_secret_leaves_the_node(tmp_path: Path, name: str, more: str) -> None:
    files: dict[str, Any] = {
        **DEBIAN,
        "/etc/rancher/rke2/config.yaml": (SECRETS + more).encode("utf-8", "surrogateescape"),
        "/etc/rancher/rke2/config.yaml.d/50-more.yaml": f"agent-token: {CANARY}\nkubelet-arg+:\n- token={CANARY}\n",
        "/etc/default/rke2-agent": f"RKE2_TOKEN={CANARY}\nRKE2_URL=https://{CANARY}\n",
        "/proc/cmdline": f"ro rd.iscsi.password={CANARY} my_token={CANARY} -- --secret {CANARY}\n",
        "/etc/default/grub": f"# {CANARY}\nGRUB_X='{CANARY}'\nGRUB_CMDLINE_LINUX=\"x.secret={CANARY} isolcpus=1 isolcpus={CANARY}:\"\npassword {CANARY}\n",
        "/etc/default/irqbalance": f"X={CANARY}\n",
        "/etc/inferops-locality/irq.json": f'{{"version": 1, "devices": [{{"{CANARY}": 1}}]}}',
        "/var/lib/rancher/rke2/agent/etc/kubelet.conf.d/1.conf": f"staticPodURLHeader:\n  X: [{CANARY}]\n",
    }
    root = build(tmp_path, files)
    text = json.dumps(read_state(root)) + json.dumps(root.problems) + json.dumps(root.reads)
    # A CPU list that is wrong is shown, since it is a managed argument and no secret.
    assert CANARY not in text.replace(f"isolcpus={CANARY}:", "").replace(f"'{CANARY}:'", "")
    assert "reserved-cpus" in text or name not in ("well formed", "a multi-line scalar")


# -- files that make no sense

READ = [
    "/proc/cmdline",
    "/proc/meminfo",
    "/proc/mounts",
    "/proc/cpuinfo",
    "/proc/softirqs",
    "/etc/os-release",
    "/etc/default/grub",
    knobs.FILE_GRUB,
    "/boot/grub/grub.cfg",
    "/boot/grub/grubenv",
    "/boot/loader/entries/a.conf",
    knobs.FILE_SYSCTL,
    knobs.FILE_TMPFILES,
    *knobs.FILES_SLICES,
    *knobs.FILES_MEMLOCK,
    knobs.FILE_IRQBALANCE,
    knobs.FILE_TUNED_ACTIVE,
    knobs.FILE_TUNED_MODE,
    "/etc/tuned/tuned-main.conf",
    "/etc/tuned/x/tuned.conf",
    knobs.FILE_IRQ,
    knobs.FILE_RUNTIME,
    knobs.FILE_KUBELET,
    "/etc/rancher/rke2/config.yaml",
    "/var/lib/kubelet/cpu_manager_state",
    "/var/lib/kubelet/memory_manager_state",
    f"{CPUS}/online",
    f"{CPUS}/possible",
    f"{CPUS}/isolated",
    f"{CPUS}/nohz_full",
    f"{CPUS}/cpu0/cpufreq/scaling_governor",
    f"{CPUS}/cpu0/power/pm_qos_resume_latency_us",
    f"{state_knobs.THP}/enabled",
    state_knobs.WORKQUEUE,
    "/proc/sys/vm/swappiness",
    "/sys/devices/system/node/node0/hugepages/hugepages-2048kB/nr_hugepages",
    "/proc/irq/default_smp_affinity",
    "/sys/fs/cgroup/cgroup.controllers",
    "/sys/fs/cgroup/system.slice/cpuset.cpus",
    "/sys/fs/cgroup/system.slice/rke2-agent.service/cgroup.procs",
    "/usr/sbin/tuned",
    "/usr/sbin/irqbalance",
    "/etc/default/irqbalance",
]
GARBAGE: dict[str, bytes] = {
    "empty": b"",
    "NUL": b"\0" * 64,
    "not UTF-8": b"\xff\xfe\x00x",
    "letters": b"garbage = [ { ( ' \" ` $ \\",
    "many lines": b"[a]\nb=c\n" * 200,
    "numbers": b"99999999999999999999999999-1",
    "line of quotes": b"\"'`$(" * 50 + b"\n",
}


@pytest.mark.parametrize("kind", GARBAGE)
def test_garbled_files_are_problems_not_errors(tmp_path: Path, kind: str) -> None:
    state = read_state(build(tmp_path, dict.fromkeys(READ, GARBAGE[kind])))
    json.dumps(state)
    parts = {"platform", "running", "configured", "foreign", "irqs", "softirqs", "tasks", "cpu_affinity", "kubelet", "boot", "ours", "strays", "problems"}
    assert set(state) == parts
    if kind == "not UTF-8":
        assert len(state["problems"]) > 20


def test_directories_in_place_of_files(tmp_path: Path) -> None:
    for path in READ:
        (tmp_path / path.lstrip("/")).mkdir(parents=True, exist_ok=True)
    state = read_state(SysRoot(str(tmp_path)))
    assert any(problem["reason"].startswith("is a directory") for problem in state["problems"])


def test_a_link_out_of_the_root_is_a_problem(tmp_path: Path) -> None:
    (tmp_path / "outside").write_text("vm.swappiness=1\n", encoding="utf-8")
    base = tmp_path / "root"
    state = read_state(build(base, {"/etc/x": ""}, {"/etc/sysctl.d": "../../..", knobs.FILE_TMPFILES: str(tmp_path / "outside")}))
    assert any("leaves the root" in problem["reason"] for problem in state["problems"])


@given(st.dictionaries(st.sampled_from(READ), st.binary(max_size=120), max_size=6))
@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
def test_never_raises(tmp_path_factory: pytest.TempPathFactory, files: dict) -> None:
    json.dumps(read_state(build(tmp_path_factory.mktemp("node"), files)))


def test_many_cpus_are_read_in_a_moment(tmp_path: Path) -> None:
    count = 1152
    files: dict[str, Any] = {
        f"{CPUS}/online": f"0-{count - 1}",
        f"{CPUS}/possible": f"0-{count - 1}",
        f"{CPUS}/isolated": "",
        "/proc/cmdline": f"isolcpus=managed_irq,2-{count - 1}",
    }
    for cpu in range(count):
        files[f"{CPUS}/cpu{cpu}/cpufreq/scaling_governor"] = "performance"
        files[f"{CPUS}/cpu{cpu}/power/pm_qos_resume_latency_us"] = "0"
    root = build(tmp_path, files)
    start = time.process_time()
    state = read_state(root)
    assert time.process_time() - start < 2
    assert state["running"]["cpu.governor"] == "performance"
    assert state["running"]["kernel.isolcpus"] == "managed_irq,2-1151"


def test_the_running_machine_can_be_read() -> None:
    state = read_state(SysRoot("/"))
    assert state["platform"]["kernel"] == os.uname().release
    assert all(set(problem) == {"file", "reason"} for problem in state["problems"])
    assert set(state["running"]) <= set(knobs.KNOBS)
    assert set(state["configured"]) <= set(knobs.KNOBS)


def test_every_managed_knob_with_a_configured_side_is_read(tmp_path: Path) -> None:
    found = read_state(build(tmp_path, DEBIAN))["configured"]
    wanted = {knob.id for knob in knobs.KNOBS.values() if knob.klass == "managed" and "configured" in knob.sides and not knob.api}
    assert wanted <= set(found)


@pytest.mark.parametrize("live, running", [(True, {}), (False, {"tuned.profile": "ours"})])
def test_a_daemon_that_does_not_answer_in_time_runs_with_nobody_knows_what(tmp_path: Path, live: bool, running: dict[str, Any]) -> None:
    sysroot = build(tmp_path, {knobs.FILE_TUNED_ACTIVE: "ours\n", "/sys/fs/cgroup/system.slice/tuned.service/cgroup.procs": "7\n"})
    sysroot.live = live
    found = state_knobs.Knobs()
    state_knobs.read_tuned(sysroot, found, True, Probe(SysRoot(str(tmp_path))))
    assert found.running == running
