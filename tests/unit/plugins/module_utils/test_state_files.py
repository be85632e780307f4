# Copyright (c) 2026 The inferops.locality authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which file of several counts: sysctl.d, tmpfiles.d, systemd's drop-ins, tuned's profiles."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Mapping, Optional

import pytest

from ansible_collections.inferops.locality.plugins.module_utils import state_files
from ansible_collections.inferops.locality.plugins.module_utils.sysroot import SysRoot

KEY = "vm.swappiness"


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


SYSCTL: list[tuple[str, dict[str, str], dict[str, str], list[tuple[str, str]]]] = [
    ("nothing", {}, {}, []),
    ("dots", {"/etc/sysctl.d/1.conf": "vm.swappiness = 1"}, {}, [("1", "/etc/sysctl.d/1.conf:1")]),
    ("slashes", {"/etc/sysctl.d/1.conf": "# x\nvm/swappiness=1"}, {}, [("1", "/etc/sysctl.d/1.conf:2")]),
    ("leading dash", {"/etc/sysctl.d/1.conf": "-vm.swappiness=1"}, {}, [("1", "/etc/sysctl.d/1.conf:1")]),
    ("comment", {"/etc/sysctl.d/1.conf": "#vm.swappiness=1\n;vm.swappiness=2"}, {}, []),
    ("not a conf", {"/etc/sysctl.d/1.txt": "vm.swappiness=1"}, {}, []),
    ("no value", {"/etc/sysctl.d/1.conf": "vm.swappiness"}, {}, []),
    (
        "name order beats directory",
        {"/etc/sysctl.d/10.conf": "vm.swappiness=1", "/usr/lib/sysctl.d/20.conf": "vm.swappiness=2"},
        {},
        [("1", "/etc/sysctl.d/10.conf:1"), ("2", "/usr/lib/sysctl.d/20.conf:1")],
    ),
    (
        "same name: etc hides run and usr",
        {"/etc/sysctl.d/1.conf": "vm.swappiness=1", "/run/sysctl.d/1.conf": "vm.swappiness=2", "/usr/lib/sysctl.d/1.conf": "vm.swappiness=3"},
        {},
        [("1", "/etc/sysctl.d/1.conf:1")],
    ),
    (
        "same name: run hides usr",
        {"/run/sysctl.d/1.conf": "vm.swappiness=2", "/usr/lib/sysctl.d/1.conf": "vm.swappiness=3"},
        {},
        [("2", "/run/sysctl.d/1.conf:1")],
    ),
    ("mask", {"/usr/lib/sysctl.d/1.conf": "vm.swappiness=3"}, {"/etc/sysctl.d/1.conf": "/dev/null"}, []),
    (
        "twice in a file",
        {"/etc/sysctl.d/1.conf": "vm.swappiness=1\nvm.swappiness=2"},
        {},
        [("1", "/etc/sysctl.d/1.conf:1"), ("2", "/etc/sysctl.d/1.conf:2")],
    ),
    (
        "sysctl.conf through its link is the last",
        {"/etc/sysctl.conf": "\nvm.swappiness=1", "/etc/sysctl.d/90-x.conf": "vm.swappiness=0"},
        {"/etc/sysctl.d/99-sysctl.conf": "../sysctl.conf"},
        [("0", "/etc/sysctl.d/90-x.conf:1"), ("1", "/etc/sysctl.conf:2")],
    ),
    ("sysctl.conf without a link is not read", {"/etc/sysctl.conf": "vm.swappiness=1"}, {}, []),
    ("pattern", {"/etc/sysctl.d/1.conf": "vm.swap*=1"}, {}, [("1", "/etc/sysctl.d/1.conf:1")]),
    ("the very key beats a later pattern", {"/etc/sysctl.d/1.conf": "vm.swappiness=1\nvm.*=2"}, {}, [("1", "/etc/sysctl.d/1.conf:1")]),
    ("taken out of patterns", {"/etc/sysctl.d/1.conf": "vm.*=2\n-vm.swappiness"}, {}, []),
]


@pytest.mark.parametrize("name, files, links, wanted", SYSCTL, ids=[row[0] for row in SYSCTL])
def test_sysctls(tmp_path: Path, name: str, files: dict, links: dict, wanted: list) -> None:
    found = state_files.sysctls(node(tmp_path, files, links), [KEY])[KEY]
    assert [(setting.value, setting.source) for setting in found] == wanted


THP = "/sys/kernel/mm/transparent_hugepage/enabled"
TMPFILES: list[tuple[str, dict[str, str], Optional[tuple[str, str]]]] = [
    ("nothing", {}, None),
    ("plain", {"/etc/tmpfiles.d/a.conf": f"w {THP} - - - - never"}, ("never", "/etc/tmpfiles.d/a.conf:1")),
    ("at boot only", {"/etc/tmpfiles.d/a.conf": f"w! {THP} - - - - never"}, ("never", "/etc/tmpfiles.d/a.conf:1")),
    ("comment", {"/etc/tmpfiles.d/a.conf": f"#w {THP} - - - - never"}, None),
    ("another type", {"/etc/tmpfiles.d/a.conf": f"f {THP} - - - - never"}, None),
    ("no argument", {"/etc/tmpfiles.d/a.conf": f"w {THP} - - - -"}, None),
    (
        "the first file wins",
        {"/etc/tmpfiles.d/b.conf": f"w {THP} - - - - never", "/usr/lib/tmpfiles.d/a.conf": f"w {THP} - - - - always"},
        ("always", "/usr/lib/tmpfiles.d/a.conf:1"),
    ),
    (
        "w+ is run as well",
        {"/etc/tmpfiles.d/b.conf": f"w+ {THP} - - - - never", "/etc/tmpfiles.d/a.conf": f"w {THP} - - - - always"},
        ("never", "/etc/tmpfiles.d/b.conf:1"),
    ),
    (
        "a pattern that was read later is run later",
        {"/etc/tmpfiles.d/a.conf": f"w {THP} - - - - always\nw /sys/kernel/mm/*/enabled - - - - never"},
        ("never", "/etc/tmpfiles.d/a.conf:2"),
    ),
    ("a star does not cross a slash", {"/etc/tmpfiles.d/a.conf": "w /sys/kernel/*/enabled - - - - never"}, None),
    (
        "braces",
        {"/etc/tmpfiles.d/a.conf": "w /sys/kernel/mm/transparent_hugepage/{defrag,enabled} - - - - never"},
        ("never", "/etc/tmpfiles.d/a.conf:1"),
    ),
    (
        "same name: etc hides usr",
        {"/etc/tmpfiles.d/a.conf": "", "/usr/lib/tmpfiles.d/a.conf": f"w {THP} - - - - always"},
        None,
    ),
]


@pytest.mark.parametrize("name, files, wanted", TMPFILES, ids=[row[0] for row in TMPFILES])
def test_tmpfiles(tmp_path: Path, name: str, files: dict, wanted: Optional[tuple]) -> None:
    found = state_files.written(state_files.tmpfiles_writes(node(tmp_path, files)), THP)
    assert (None if found is None else (found.value, found.source)) == wanted


@pytest.mark.parametrize("first, second, wanted", [
    ("w!", "w", ["/etc/tmpfiles.d/b.conf:1"]),
    ("w!", "w-", ["/etc/tmpfiles.d/b.conf:1"]),
    ("w!", "w!", []),
    ("w", "w", []),
])
def test_a_line_that_wins_once_the_boot_is_over(tmp_path: Path, first: str, second: str, wanted: list) -> None:
    files = {"/etc/tmpfiles.d/a.conf": f"{first} {THP} - - - - never", "/etc/tmpfiles.d/b.conf": f"{second} {THP} - - - - always"}
    assert [write.setting.source for write in state_files.tmpfiles_after_boot(node(tmp_path, files))] == wanted


ETC = "/etc/systemd/system/system.slice.d"
UNITS: list[tuple[str, dict[str, str], dict[str, str], list[str]]] = [
    ("nothing", {}, {}, []),
    ("drop-in", {f"{ETC}/a.conf": "[Slice]\nAllowedCPUs=0-1"}, {}, ["0-1"]),
    ("another section", {f"{ETC}/a.conf": "[Unit]\nAllowedCPUs=0-1"}, {}, []),
    ("lists grow", {f"{ETC}/a.conf": "[Slice]\nAllowedCPUs=0-1\nAllowedCPUs=4"}, {}, ["0-1", "4"]),
    ("an empty one starts anew", {f"{ETC}/a.conf": "[Slice]\nAllowedCPUs=0-1\nAllowedCPUs=\nAllowedCPUs=4"}, {}, ["4"]),
    (
        "by name over directories",
        {f"{ETC}/b.conf": "[Slice]\nAllowedCPUs=1", "/run/systemd/system/system.slice.d/a.conf": "[Slice]\nAllowedCPUs=0"},
        {},
        ["0", "1"],
    ),
    (
        "set-property hides our directory",
        {"/etc/systemd/system.control/system.slice.d/a.conf": "[Slice]\nAllowedCPUs=7", f"{ETC}/a.conf": "[Slice]\nAllowedCPUs=1"},
        {},
        ["7"],
    ),
    (
        "etc hides usr",
        {f"{ETC}/a.conf": "[Slice]\nAllowedCPUs=1", "/usr/lib/systemd/system/system.slice.d/a.conf": "[Slice]\nAllowedCPUs=0"},
        {},
        ["1"],
    ),
    ("mask", {"/usr/lib/systemd/system/system.slice.d/a.conf": "[Slice]\nAllowedCPUs=0"}, {f"{ETC}/a.conf": "/dev/null"}, []),
    (
        "the unit's file first",
        {"/usr/lib/systemd/system/system.slice": "[Slice]\nAllowedCPUs=0", f"{ETC}/a.conf": "[Slice]\nAllowedCPUs=1"},
        {},
        ["0", "1"],
    ),
    (
        "etc's unit file instead",
        {"/usr/lib/systemd/system/system.slice": "[Slice]\nAllowedCPUs=0", "/etc/systemd/system/system.slice": "[Slice]\nAllowedCPUs=1"},
        {},
        ["1"],
    ),
    ("all slices", {"/etc/systemd/system/slice.d/a.conf": "[Slice]\nAllowedCPUs=1"}, {}, ["1"]),
    ("continued line", {f"{ETC}/a.conf": "[Slice]\nAllowedCPUs=0 \\\n# no\n 4-5"}, {}, ["0 4-5"]),
]


@pytest.mark.parametrize("name, files, links, wanted", UNITS, ids=[row[0] for row in UNITS])
def test_unit_setting(tmp_path: Path, name: str, files: dict, links: dict, wanted: list) -> None:
    found = state_files.unit_setting(node(tmp_path, files, links), "system.slice", "Slice", "AllowedCPUs")
    assert [setting.value for setting in found.effective()] == wanted


def test_lines_of_a_unit_are_counted_with_its_continuations(tmp_path: Path) -> None:
    root = node(tmp_path, {f"{ETC}/a.conf": "[Slice]\nX=1 \\\n2\n\nAllowedCPUs=3\n"})
    assert state_files.unit_setting(root, "system.slice", "Slice", "AllowedCPUs").lines[0].source == f"{ETC}/a.conf:5"


@pytest.mark.parametrize(
    "line, wanted",
    [
        ("A=1 B=2", {"A": "1", "B": "2"}),
        ('"A=x y" B=2', {"A": "x y", "B": "2"}),
        ("'A=x y'", {"A": "x y"}),
        ('A="x y"', {"A": "x y"}),
        ("A=", {"A": ""}),
    ],
)
def test_environment_line(line: str, wanted: dict) -> None:
    found = state_files.environment_assignments(state_files.Setting(line, "/u", 1))
    assert {name: setting.value for name, setting in found.items()} == wanted


def test_environment_file(tmp_path: Path) -> None:
    root = node(tmp_path, {"/etc/default/x": "# A=0\nA=1\n B=\"x y\"\nexport C='3'\nno\nD=\n"})
    found = state_files.environment(root, "/etc/default/x")
    assert {name: (setting.value, setting.line) for name, setting in found.items()} == {"A": ("1", 2), "B": ("x y", 3), "C": ("3", 4), "D": ("", 6)}


DIRS = ["/usr/lib/tuned", "/etc/tuned"]
TUNED: list[tuple[str, dict[str, str], list[str], dict[str, str]]] = [
    ("own", {"/etc/tuned/a/tuned.conf": "[cpu]\ngovernor=performance # why"}, ["a"], {"governor": "performance"}),
    (
        "etc before usr",
        {"/etc/tuned/a/tuned.conf": "[cpu]\ngovernor=x", "/usr/lib/tuned/a/tuned.conf": "[cpu]\ngovernor=y"},
        ["a"],
        {"governor": "x"},
    ),
    (
        "own before its parent's",
        {"/etc/tuned/a/tuned.conf": "[main]\ninclude=b\n[cpu]\ngovernor=x", "/usr/lib/tuned/b/tuned.conf": "[cpu]\ngovernor=y\nforce_latency=1"},
        ["a"],
        {"governor": "x", "force_latency": "1"},
    ),
    (
        "replace",
        {"/etc/tuned/a/tuned.conf": "[main]\ninclude=b\n[cpu]\nreplace=1\ngovernor=x", "/usr/lib/tuned/b/tuned.conf": "[cpu]\nforce_latency=1"},
        ["a"],
        {"governor": "x", "replace": "1"},
    ),
    ("a section of another name", {"/etc/tuned/a/tuned.conf": "[my]\ntype=cpu\ngovernor=x"}, ["a"], {"type": "cpu", "governor": "x"}),
    ("a loop of parents", {"/etc/tuned/a/tuned.conf": "[main]\ninclude=a\n[cpu]\ngovernor=x"}, ["a"], {"governor": "x"}),
    (
        "several profiles",
        {"/etc/tuned/a/tuned.conf": "[cpu]\ngovernor=x", "/etc/tuned/b/tuned.conf": "[cpu]\ngovernor=y"},
        ["a", "b"],
        {"governor": "y"},
    ),
    ("not a name", {"/etc/tuned/a/tuned.conf": "[cpu]\ngovernor=x"}, ["../tuned/a"], {}),
]


@pytest.mark.parametrize("name, files, names, wanted", TUNED, ids=[row[0] for row in TUNED])
def test_tuned_profile(tmp_path: Path, name: str, files: dict, names: list, wanted: dict[str, Any]) -> None:
    found = state_files.tuned_profile(node(tmp_path, files), DIRS, names)
    assert {option: setting.value for option, setting in found.options("cpu").items()} == wanted


def test_missing_profiles_are_named(tmp_path: Path) -> None:
    root = node(tmp_path, {"/etc/tuned/a/tuned.conf": "[main]\ninclude=gone"})
    assert state_files.tuned_profile(root, DIRS, ["a", "lost"]).missing == ["gone", "lost"]


def test_enabled_and_masked(tmp_path: Path) -> None:
    root = node(
        tmp_path,
        {"/usr/lib/systemd/system/a.service": ""},
        {"/etc/systemd/system/multi-user.target.wants/a.service": "/usr/lib/systemd/system/a.service", "/etc/systemd/system/b.service": "/dev/null"},
    )
    assert state_files.enabled(root, "a.service") == "/etc/systemd/system/multi-user.target.wants/a.service"
    assert state_files.enabled(root, "b.service") is None
    assert state_files.mask(root, "b.service") == "/etc/systemd/system/b.service"
    assert state_files.mask(root, "a.service") is None
