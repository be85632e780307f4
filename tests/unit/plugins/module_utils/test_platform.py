# Copyright (c) 2026 The inferops.locality authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which distributions are supported, and what a platform says of itself."""

from __future__ import annotations

from pathlib import Path
from typing import Mapping, Optional

import pytest

from ansible_collections.inferops.locality.plugins.module_utils import platform
from ansible_collections.inferops.locality.plugins.module_utils.probe import Probe
from ansible_collections.inferops.locality.plugins.module_utils.rke2_config import read
from ansible_collections.inferops.locality.plugins.module_utils.state_boot import Boot, read_boot
from ansible_collections.inferops.locality.plugins.module_utils.sysroot import SysRoot


def node(tmp_path: Path, files: Mapping[str, str], links: Optional[Mapping[str, str]] = None) -> SysRoot:
    """A root with these files and links."""
    for path, text in files.items():
        target = tmp_path / path.lstrip("/")
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8")
    for path, to in (links or {}).items():
        target = tmp_path / path.lstrip("/")
        target.parent.mkdir(parents=True, exist_ok=True)
        target.symlink_to(to)
    return SysRoot(str(tmp_path))


def facts(root: SysRoot) -> dict:
    """The platform of a root."""
    release = platform.os_release(root)
    return platform.read_platform(root, Probe(root), read_boot(root, platform.is_debian(release)), read(root))


SYSTEMS = [
    ("debian", "12", "", True),
    ("debian", "13", "", True),
    ("debian", "11", "", False),
    ("debian", "", "", False),
    ("ubuntu", "22.04", "debian", True),
    ("ubuntu", "24.04", "debian", True),
    ("ubuntu", "20.04", "debian", False),
    ("ubuntu", "25.04", "debian", False),
    ("rhel", "9.4", "fedora", True),
    ("rhel", "10.0", "fedora", True),
    ("rhel", "8.10", "fedora", False),
    ("rocky", "9.5", "rhel centos fedora", True),
    ("almalinux", "10.1", "rhel centos fedora", True),
    ("ol", "9.4", "fedora", True),
    ("rocky", "8.10", "rhel centos fedora", False),
    ("fedora", "42", "", False),
    ("sles", "15.6", "suse", True),
    ("sles", "15.7", "suse", True),
    ("sles", "15.5", "suse", False),
    ("sles", "16.0", "suse", False),
    ("sl-micro", "6.1", "suse", False),
    ("opensuse-microos", "20260101", "suse opensuse", False),
    ("opensuse-leap", "15.6", "suse opensuse", False),
    ("arch", "", "", False),
]


@pytest.mark.parametrize("name, version, like, supported", SYSTEMS, ids=[f"{row[0]}-{row[1]}" for row in SYSTEMS])
def test_supported_distributions(name: str, version: str, like: str, supported: bool) -> None:
    release = {"ID": name, "VERSION_ID": version, "ID_LIKE": like, "PRETTY_NAME": f"The {name} {version}"}
    reason = platform.unsupported(release, "v2", Boot(), False, "3.12", False)
    assert (reason is None) is supported
    if reason is not None:
        assert f"The {name} {version}" in reason


@pytest.mark.parametrize(
    "change, word",
    [
        ({"cgroup": "v1"}, "cgroup v1"),
        ({"cgroup": "hybrid"}, "cgroup hybrid"),
        ({"ostree": True}, "rpm-ostree"),
        ({"boot": Boot(uki="/boot/efi/EFI/Linux/x.efi")}, "unified kernel image"),
        ({"python": "3.6", "python_absent": True}, "python3 is 3.6"),
        ({"python": None, "python_absent": True}, "no Python 3.9"),
        ({"release": {}}, "cannot be told"),
    ],
)
def test_refusals_by_name(change: dict, word: str) -> None:
    arguments = {
        "release": {"ID": "debian", "VERSION_ID": "13"}, "cgroup": "v2", "boot": Boot(), "ostree": False, "python": "3.13", "python_absent": False,
    }
    reason = platform.unsupported(**{**arguments, **change})
    assert reason is not None and word in reason


def test_every_reason_is_named() -> None:
    reason = platform.unsupported({"ID": "rhel", "VERSION_ID": "8.10", "PRETTY_NAME": "RHEL 8.10"}, "v1", Boot(), True, "3.6", True)
    assert reason is not None
    assert all(word in reason for word in ("RHEL 8.10", "cgroup v1", "rpm-ostree", "no Python 3.9"))


def test_an_image(tmp_path: Path) -> None:
    root = node(
        tmp_path,
        {
            "/etc/os-release": 'ID=debian\nVERSION_ID="13"\nPRETTY_NAME="Debian 13"\n',
            "/etc/default/grub": "GRUB_TIMEOUT=1\n",
            "/proc/mounts": "/dev/sda2 / ext4 rw 0 0\n",
            "/proc/cpuinfo": "processor\t: 0\nvendor_id\t: AuthenticAMD\nflags\t\t: fpu hypervisor\n\nprocessor\t: 1\n",
            "/proc/sys/kernel/osrelease": "6.12.57\n",
            "/usr/bin/python3.13": "",
            "/usr/sbin/irqbalance": "",
            # Empty as in an image: then D-Bus has it.
            "/etc/machine-id": "\n",
            "/var/lib/dbus/machine-id": "7d1f0e6a6a0b4c0d9c3f5b1e2a4c6d8e\n",
            "/etc/rancher/rke2/config.yaml": "node-name: Gpu-1\ndata-dir: /data/rke2\nkubelet-arg: root-dir=/data/kubelet\n",
            "/usr/local/lib/systemd/system/rke2-agent.service": "",
            "/usr/local/lib/systemd/system/rke2-server.service": "",
            "/data/rke2/data/v1.34.1-rke2r1-0123456789ab/bin/x": "",
            "/sys/fs/cgroup/cgroup.controllers": "cpuset",
        },
        {
            "/usr/bin/python3": "python3.13",
            "/data/rke2/bin": "/data/rke2/data/v1.34.1-rke2r1-0123456789ab/bin",
            "/etc/systemd/system/multi-user.target.wants/rke2-agent.service": "/usr/local/lib/systemd/system/rke2-agent.service",
        },
    )
    found = facts(root)
    assert found["supported"], found["unsupported_reason"]
    assert found["boot_loader"] == {"kind": "grub-drop-in", "drop_in_dir": "/etc/default/grub.d", "once": True, "trial": {"possible": None, "reason": None}}
    assert found["python"] == "3.13"
    assert found["cpu_vendor"] == "AuthenticAMD"
    assert found["machine_id"] == "7d1f0e6a6a0b4c0d9c3f5b1e2a4c6d8e"
    assert found["cgroup"] == "v2"
    assert found["features"]["config_acs"] and found["features"]["hugepages_per_node"] and not found["features"]["cpufreq"]
    assert found["irqbalance"] == {"installed": True, "env_file": "/etc/default/irqbalance"}
    assert found["rke2"] == {
        "role": "agent", "version": "v1.34.1+rke2r1", "minor": 34, "data_dir": "/data/rke2", "kubelet_root_dir": "/data/kubelet", "node_name": "Gpu-1",
        "units": ["rke2-server.service", "rke2-agent.service"],
    }
    assert found["virtualization"] == "vm-other"


@pytest.mark.parametrize(
    "files, links, python, refused",
    [
        ({"/usr/bin/python3.9": ""}, {"/usr/bin/python3": "python3.9"}, "3.9", False),
        ({"/usr/bin/python3.6": "", "/usr/bin/python3.11": ""}, {"/usr/bin/python3": "python3.6"}, "3.11", False),
        ({"/usr/bin/python3.6": ""}, {"/usr/bin/python3": "python3.6"}, "3.6", True),
        ({"/usr/bin/true": ""}, {}, None, True),
        ({}, {}, None, False),
    ],
    ids=["3.9", "3.6 with 3.11 beside it", "3.6 only", "none", "no programs in the snapshot"],
)
def test_python_of_an_image(tmp_path: Path, files: dict, links: dict, python: Optional[str], refused: bool) -> None:
    found = facts(node(tmp_path, {"/etc/os-release": "ID=debian\nVERSION_ID=13\n", **files}, links))
    assert found["python"] == python
    assert found["supported"] is not refused


@pytest.mark.parametrize(
    "mounts, once",
    [
        ("/dev/sda1 / ext4 rw 0 0", True),
        ("/dev/sda1 / btrfs rw 0 0\n/dev/sda2 /boot ext4 rw 0 0", True),
        ("/dev/sda1 / ext4 rw 0 0\n/dev/sda2 /boot btrfs rw 0 0", False),
        ("/dev/mapper/vg-root / ext4 rw 0 0", False),
        ("/dev/md0 / xfs rw 0 0", False),
        ("overlay / overlay rw 0 0", None),
        ("", None),
    ],
)
def test_whether_an_entry_can_be_tried_once(tmp_path: Path, mounts: str, once: Optional[bool]) -> None:
    root = node(tmp_path, {"/etc/os-release": "ID=debian\nVERSION_ID=13\n", "/etc/default/grub": "", "/proc/mounts": mounts})
    assert facts(root)["boot_loader"]["once"] is once


LOADERS: list[tuple[str, str, dict[str, str], str]] = [
    ("Debian", "ID=debian", {"/boot/grub/grub.cfg": ""}, "grub-drop-in"),
    ("Ubuntu's image", "ID=ubuntu\nID_LIKE=debian", {"/etc/default/grub": ""}, "grub-drop-in"),
    ("SLES", "ID=sles", {"/etc/default/grub": "", "/boot/grub2/grub.cfg": ""}, "grub-default"),
    ("RHEL", "ID=rhel", {"/etc/default/grub": "", "/boot/grub2/grub.cfg": "", "/boot/loader/entries/a.conf": ""}, "bls"),
    ("systemd-boot", "ID=debian", {"/efi/loader/loader.conf": "", "/etc/kernel/cmdline": "ro"}, "systemd-boot"),
    ("none", "ID=debian", {}, "unknown"),
]


@pytest.mark.parametrize("name, release, files, kind", LOADERS, ids=[row[0] for row in LOADERS])
def test_boot_loader(tmp_path: Path, name: str, release: str, files: dict, kind: str) -> None:
    assert facts(node(tmp_path, {"/etc/os-release": release, **files}))["boot_loader"]["kind"] == kind


@pytest.mark.parametrize(
    "files, role",
    [
        ({"/usr/lib/systemd/system/rke2-server.service": ""}, "server"),
        ({"/usr/lib/systemd/system/rke2-server.service": "", "/usr/lib/systemd/system/rke2-agent.service": ""}, None),
        ({"/sys/fs/cgroup/system.slice/rke2-server.service/cgroup.procs": "", "/usr/lib/systemd/system/rke2-agent.service": ""}, "server"),
        ({"/var/lib/rancher/rke2/agent/x": ""}, "agent"),
        ({"/var/lib/rancher/rke2/agent/x": "", "/var/lib/rancher/rke2/server/x": ""}, "server"),
        ({}, None),
    ],
)
def test_role_of_rke2(tmp_path: Path, files: dict, role: Optional[str]) -> None:
    assert platform.rke2_role(node(tmp_path, files), "/var/lib/rancher/rke2")[0] == role


@pytest.mark.parametrize(
    "files, dirs",
    [
        ({}, ["/usr/lib/tuned", "/etc/tuned"]),
        ({"/usr/lib/tuned/profiles/a/tuned.conf": ""}, ["/usr/lib/tuned/profiles", "/etc/tuned/profiles"]),
        ({"/etc/tuned/tuned-main.conf": "profile_dirs = /a, /b"}, ["/a", "/b"]),
        ({"/etc/tuned/tuned-main.conf": "# profile_dirs = /a"}, ["/usr/lib/tuned", "/etc/tuned"]),
    ],
)
def test_tuned_dirs(tmp_path: Path, files: dict, dirs: list) -> None:
    assert platform.tuned_dirs(node(tmp_path, files)) == dirs


@pytest.mark.parametrize("target", ["/var/lib/rancher/rke2/data/v1.36.3-rke2r1-5d2f/bin", "data/v1.36.3-rke2r1-5d2f/bin"])
def test_the_version_of_rke2_is_in_the_link_to_its_programs(tmp_path: Path, target: str) -> None:
    # RKE2 makes the link absolute, a snapshot relative.
    root = node(tmp_path, {"/var/lib/rancher/rke2/data/v1.36.3-rke2r1-5d2f/bin/kubectl": ""}, {"/var/lib/rancher/rke2/bin": target})
    assert facts(root)["rke2"]["minor"] == 36
