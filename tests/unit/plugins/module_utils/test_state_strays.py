# Copyright (c) 2026 The inferops.locality authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Lines that somebody added to files of this collection."""

from __future__ import annotations

from pathlib import Path

import pytest

from ansible_collections.inferops.locality.plugins.module_utils import drift, knobs, rke2_config, state_strays
from ansible_collections.inferops.locality.plugins.module_utils.sysroot import SysRoot

PROFILES = "/etc/tuned"
OURS: dict[str, str] = {
    knobs.FILE_SYSCTL: "# ours\nvm.swappiness = 0\nvm.zone_reclaim_mode = 0\nkernel.numa_balancing = 0\n",
    knobs.FILE_TMPFILES: "# ours\nw! /sys/kernel/mm/transparent_hugepage/enabled - - - - madvise\n"
    "w! /sys/devices/system/cpu/cpu*/cpufreq/scaling_governor - - - - performance\n"
    "w! /sys/devices/system/cpu/cpu*/power/pm_qos_resume_latency_us - - - - 20\n",
    knobs.FILES_SLICES[0]: "# ours\n[Scope]\nAllowedCPUs=0-1\n",
    knobs.FILES_SLICES[1]: "# ours\n[Slice]\nAllowedCPUs=0-1\n",
    knobs.FILES_MEMLOCK[0]: "# ours\n[Service]\nLimitMEMLOCK=infinity\n",
    knobs.FILE_IRQBALANCE: "# ours\n[Service]\nEnvironment=IRQBALANCE_BANNED_CPULIST=2-7\n",
    f"{PROFILES}/{knobs.TUNED_PROFILE}/tuned.conf": "# ours\n[main]\nsummary=x\ninclude=y\n\n[cpu]\ngovernor=performance\n",
    knobs.FILE_KUBELET: "# ours\nkubelet-arg+:\n  - \"cpu-manager-policy=static\"\n  - \"eviction-hard=memory.available<500Mi\"\n",
}


def strays(tmp_path: Path, file: str = "", added: str = "") -> list[tuple[str, int | None, str]]:
    """What is found on a node with all our files, to one of which something was added."""
    for path, text in OURS.items():
        target = tmp_path / path.lstrip("/")
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text + (added if path == file else ""), encoding="utf-8")
    sysroot = SysRoot(str(tmp_path))
    return [(item["file"], item["line"], item["name"]) for item in state_strays.read_strays(sysroot, rke2_config.read(sysroot), PROFILES)]


def test_files_as_they_are_written_have_none(tmp_path: Path) -> None:
    assert strays(tmp_path) == []


def test_a_node_without_our_files_has_none(tmp_path: Path) -> None:
    sysroot = SysRoot(str(tmp_path))
    assert state_strays.read_strays(sysroot, rke2_config.read(sysroot), None) == []
    assert sysroot.problems == []


@pytest.mark.parametrize(
    ("file", "added", "line", "name"),
    [
        (knobs.FILE_SYSCTL, "# a remark\nvm.dirty_ratio = 5\n", 6, "vm.dirty_ratio"),
        (knobs.FILE_SYSCTL, "net/ipv4/conf/eth0.1/rp_filter = 2\n", 5, "net.ipv4.conf.eth0/1.rp_filter"),
        (knobs.FILE_SYSCTL, "-vm.nr_hugepages = 64\n", 5, "vm.nr_hugepages"),
        (knobs.FILE_TMPFILES, "w /sys/block/sda/queue/scheduler - - - - none\n", 5, "/sys/block/sda/queue/scheduler"),
        (knobs.FILE_TMPFILES, "d /run/mine 0755 root root\n", 5, "/run/mine"),
        (knobs.FILES_SLICES[0], "MemoryMax=1G\n", 4, "[Scope] MemoryMax"),
        (knobs.FILES_SLICES[1], "[Unit]\nAllowedCPUs=3\n", 5, "[Unit] AllowedCPUs"),
        (knobs.FILES_MEMLOCK[0], "Environment=TOKEN=hidden\n", 4, "[Service] Environment"),
        (knobs.FILE_IRQBALANCE, "Nice=5\n", 4, "[Service] Nice"),
        (f"{PROFILES}/{knobs.TUNED_PROFILE}/tuned.conf", "[sysctl]\nvm.dirty_ratio=5\n", 9, "[sysctl] vm.dirty_ratio"),
        (knobs.FILE_KUBELET, '  - "max-pods=200"\n', 5, "kubelet-arg max-pods"),
        (knobs.FILE_KUBELET, "token: hidden\n", None, "token"),
    ],
)
def test_what_was_added_is_named_with_its_line_and_without_its_value(tmp_path: Path, file: str, added: str, line: int | None, name: str) -> None:
    assert strays(tmp_path, file, added) == [(file, line, name)]


def test_what_was_added_is_one_warning_for_each_file_and_no_drift(tmp_path: Path) -> None:
    strays(tmp_path, knobs.FILE_SYSCTL, "".join(f"vm.x{number} = 5\n" for number in range(10)))
    sysroot = SysRoot(str(tmp_path))
    found = state_strays.read_strays(sysroot, rke2_config.read(sysroot), None)
    compared = drift.compare({"knobs": {}}, {"strays": [*found, {"file": knobs.FILE_KUBELET, "line": None, "name": "token"}]})
    assert compared["summary"]["count"] == 0
    assert [(item["severity"], item["id"]) for item in compared["findings"]] == [("warning", "file.stray")] * 2
    assert compared["findings"][0]["message"].startswith(f"{knobs.FILE_SYSCTL} has settings that this collection does not write there: vm.x0 (line 5), vm.x1")
    assert "vm.x7 (line 12) and 2 more; they go" in compared["findings"][0]["message"]
    assert compared["findings"][1]["message"].startswith(f"{knobs.FILE_KUBELET} has settings that this collection does not write there: token; they go")
