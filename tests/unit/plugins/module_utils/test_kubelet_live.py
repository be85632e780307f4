# Copyright (c) 2026 The inferops.locality authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which containers are alive, told from cgroups of both of the kubelet's drivers, and whether a kubelet runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Optional

import pytest

from ansible_collections.inferops.locality.plugins.module_utils import kubelet_live
from ansible_collections.inferops.locality.plugins.module_utils.cpulist import from_list
from ansible_collections.inferops.locality.plugins.module_utils.kubelet_predict import Checkpoint
from ansible_collections.inferops.locality.plugins.module_utils.kubelet_state import CpuState
from ansible_collections.inferops.locality.plugins.module_utils.sysroot import SysRoot

POD = "39b37746-7f5e-4064-b8e1-eebd2bfaa003"
STATIC_POD = "0123456789abcdef0123456789abcdef"
ID, SANDBOX = "a" * 64, "b" * 64
PODS = {
    "systemd": f"kubepods.slice/kubepods-pod{POD.replace('-', '_')}.slice",
    "systemd, burstable": f"kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{POD.replace('-', '_')}.slice",
    "cgroupfs": f"kubepods/pod{POD}",
    "cgroupfs, burstable": f"kubepods/burstable/pod{POD}",
}


def cgroup(root: Path, path: str, cpus: Optional[str] = "", populated: Optional[bool] = True) -> None:
    """A cgroup with its files; ``cpus`` None: without a cpuset."""
    folder = root / "sys/fs/cgroup" / path
    folder.mkdir(parents=True, exist_ok=True)
    (root / "sys/fs/cgroup/cgroup.controllers").write_text("cpuset cpu\n")
    if populated is not None:
        (folder / "cgroup.events").write_text(f"populated {int(populated)}\nfrozen 0\n")
    if cpus is not None:
        (folder / "cpuset.cpus").write_text(f"{cpus}\n")


def file(*entries: tuple[str, str, str], pods: Optional[dict] = None, form: str = "v2") -> Checkpoint:
    """A checkpoint with these containers: pod, container, CPUs."""
    found: dict[str, Any] = {}
    for pod, name, cpus in entries:
        found.setdefault(pod, {})[name] = from_list(cpus)
    return Checkpoint("/f", True, CpuState(form, "static", from_list("0-1"), found, pods or {}))


@pytest.mark.parametrize("driver", PODS)
@pytest.mark.parametrize("name", ["cri-containerd-{}.scope", "{}"])
def test_containers_of_both_drivers(tmp_path: Path, driver: str, name: str) -> None:
    cgroup(tmp_path, f"{PODS[driver]}/{name.format(ID)}", "4-7")
    cgroup(tmp_path, f"{PODS[driver]}/{name.format(SANDBOX)}", "")
    cgroup(tmp_path, f"{PODS[driver]}/{name.format('c' * 64)}", "8", populated=False)
    cgroup(tmp_path, f"{PODS[driver]}/init.scope", "9")
    found = kubelet_live.containers(SysRoot(str(tmp_path)))
    assert found is not None
    assert [(each.pod, each.id, each.cpus, each.guaranteed) for each in found] == [
        (POD, ID, from_list("4-7"), "burstable" not in driver), (POD, SANDBOX, frozenset(), "burstable" not in driver),
    ]
    assert found[0].cgroup == f"/{PODS[driver]}/{name.format(ID)}"


def test_static_pods_have_a_hash_for_a_uid(tmp_path: Path) -> None:
    cgroup(tmp_path, f"kubepods.slice/kubepods-pod{STATIC_POD}.slice/cri-containerd-{ID}.scope", "2")
    found = kubelet_live.containers(SysRoot(str(tmp_path)))
    assert found is not None and kubelet_live.living(file((STATIC_POD, "etcd", "2-3")), found)[0]["alive"] is True


def test_no_pods_and_no_cgroups(tmp_path: Path) -> None:
    assert kubelet_live.containers(SysRoot(str(tmp_path))) is None
    cgroup(tmp_path, "system.slice/rke2-agent.service")
    assert kubelet_live.containers(SysRoot(str(tmp_path))) == []


# The container's cpuset and whether it has processes; whether the entry "4-7" is alive.
ALIVE = {
    "as in the file": ("4-7", True, True),
    "a part of it": ("4-5", True, True),
    "of the shared pool": ("0-1,8-15", True, False),
    "a sandbox alone": ("", True, False),
    "a cpuset that cannot be read": (None, True, True),
    "ended": ("4-7", False, False),
    "no word whether it has processes": ("4-7", None, True),
}


@pytest.mark.parametrize("name", ALIVE)
def test_alive(tmp_path: Path, name: str) -> None:
    cpus, populated, alive = ALIVE[name]
    cgroup(tmp_path, f"{PODS['systemd']}/cri-containerd-{ID}.scope", cpus, populated)
    found = kubelet_live.containers(SysRoot(str(tmp_path)))
    assert found is not None
    assert kubelet_live.living(file((POD, "app", "4-7")), found) == [{"pod": POD, "container": "app", "cpus": "4-7", "alive": alive}]


def test_entries_whose_container_is_gone(tmp_path: Path) -> None:
    """Their CPUs are leaked until a kubelet starts; one of another pod does not keep them alive."""
    cgroup(tmp_path, f"{PODS['systemd']}/cri-containerd-{ID}.scope", "4-7")
    found = kubelet_live.containers(SysRoot(str(tmp_path))) or []
    other = "11111111-2222-3333-4444-555555555555"
    entries = kubelet_live.living(file((POD, "app", "4-7"), (other, "app", "4-7"), pods={other: from_list("8-9")}), found)
    assert [(each["pod"], each["container"], each["alive"]) for each in entries] == [(POD, "app", True), (other, "app", False), (other, "", False)]


def test_the_oldest_form_names_containers_by_their_id(tmp_path: Path) -> None:
    cgroup(tmp_path, f"{PODS['cgroupfs']}/{ID}", "4-7")
    found = kubelet_live.containers(SysRoot(str(tmp_path))) or []
    entries = kubelet_live.living(file(("", ID, "4-7"), ("", "f" * 64, "4-7"), form="v1"), found)
    assert [each["alive"] for each in entries] == [True, False]


def test_of_a_file_that_cannot_be_used_every_guaranteed_container_may_have_cpus(tmp_path: Path) -> None:
    cgroup(tmp_path, f"{PODS['systemd']}/cri-containerd-{ID}.scope", "4-7")
    cgroup(tmp_path, f"{PODS['systemd']}/cri-containerd-{SANDBOX}.scope", "")
    cgroup(tmp_path, f"{PODS['systemd, burstable']}/cri-containerd-{'c' * 64}.scope", "0-1")
    found = kubelet_live.containers(SysRoot(str(tmp_path))) or []
    assert kubelet_live.living(Checkpoint("/f", True, None, "is empty"), found) == [{"pod": POD, "container": ID, "cpus": "4-7", "alive": True}]
    assert kubelet_live.living(Checkpoint("/f"), found) == []


@pytest.mark.parametrize("comm, found", [("kubelet", 712), ("kubelet-x", None), ("rke2", None)])
def test_a_kubelet_runs(tmp_path: Path, comm: str, found: Optional[int]) -> None:
    for name, text in (("1", "systemd"), ("712", comm), ("self", "kubelet")):
        (tmp_path / "proc" / name).mkdir(parents=True)
        (tmp_path / "proc" / name / "comm").write_text(text + "\n")
    assert kubelet_live.kubelet_process(SysRoot(str(tmp_path))) == found
    assert kubelet_live.kubelet_process(SysRoot(str(tmp_path / "nothing"))) is None
