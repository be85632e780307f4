# Copyright (c) 2026 The inferops.locality authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Arguments tried once: what boots when, on paper machines whose stand-in for GRUB forgets next_entry as the real one does.

The real GRUB, kernel and watchdog are in the lab (molecule scenario boot_fallback).
"""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any, Sequence

import pytest

from ansible_collections.inferops.locality.plugins.module_utils import boot_steps, boot_trial, kernel_args, knobs, state_boot
from ansible_collections.inferops.locality.plugins.module_utils.boot_files import BootError
from ansible_collections.inferops.locality.plugins.module_utils.boot_steps import Outcome, Wish
from ansible_collections.inferops.locality.plugins.module_utils.boot_trial import Safety
from ansible_collections.inferops.locality.tests.unit import paper_loaders

ARGS = ["isolcpus=managed_irq,2-7", "irqaffinity=0-1"]
OTHER = ["irqaffinity=0"]
OLD = ["root=UUID=1", "ro", "quiet"]
KINDS = [paper_loaders.Debian, paper_loaders.Suse]


def arm(paper: paper_loaders.Paper, args: Sequence[str] = tuple(ARGS), check: bool = False, **wish: Any) -> Outcome:
    return boot_steps.present(paper.node(), args, Wish(boot_once=True, **wish), check)


def confirm(paper: paper_loaders.Paper, args: Sequence[str] = tuple(ARGS), check: bool = False, **wish: Any) -> Outcome:
    return boot_steps.present(paper.node(), args, Wish(**wish), check)


def on_trial(words: Sequence[str]) -> bool:
    return any(word.startswith(f"{boot_trial.MARK}=") for word in words)


def make(kind: type, base: Path, **more: Any) -> Any:
    """A paper node; RedHat has options, the others files."""
    return kind(base, **more) if kind is paper_loaders.RedHat else kind(base, more.get("files", {}))


EVERY = [*KINDS, paper_loaders.RedHat]
IDS = ["Debian", "recorded Suse", "recorded RedHat"]


@pytest.mark.parametrize("kind", EVERY, ids=IDS)
def test_a_good_trial_is_confirmed_and_leaves_nothing(tmp_path: Path, kind: type) -> None:
    paper = make(kind, tmp_path)
    armed = arm(paper, safety=Safety(7, 77, 17))
    assert armed.changed and armed.reboot_required and armed.trial["state"] == "armed"
    assert [arg.raw for arg in paper.node().boot().args or []] == OLD, "the default entry is the way back"
    words = paper.boot()
    assert [word for word in words if word not in OLD][:2] == ARGS and on_trial(words)
    assert words[-3:-1] == ["panic=7", "systemd.watchdog_sec=77"]
    again = arm(paper)
    assert (again.changed, again.trial["state"]) == (False, "running"), "armed again while it runs: to be confirmed, not to be tried anew"
    done = confirm(paper)
    assert done.changed and done.trial["state"] == "none" and not done.reboot_required
    assert ["systemctl", "stop", f"{boot_trial.UNIT}.timer"] in paper.calls and paper.calls[-1] == ["systemctl", "daemon-reload"]
    left = {path for path in paper.tree() if "locality" in path}
    assert left == ({state_boot.FILE_RECORD} if kind is paper_loaders.RedHat else {knobs.FILE_GRUB} if kind is paper_loaders.Debian else
                    {state_boot.FILE_RECORD, "/var/lib/inferops-locality/boot/originals/etc/default/grub"})
    assert "trial" not in paper.tree()[f"/boot/{paper.grub}/grub.cfg"].decode()
    for _boot in range(2):
        assert paper.boot() == [*OLD, *ARGS]
    paper.calls.clear()
    assert not confirm(paper).changed and not arm(paper).changed and paper.calls == []


@pytest.mark.parametrize("kind", EVERY, ids=IDS)
def test_a_node_that_does_not_come_back_boots_its_previous_arguments(tmp_path: Path, kind: type) -> None:
    paper = make(kind, tmp_path)
    before = paper.tree()
    arm(paper)
    assert on_trial(paper.boot())
    # The panic, the watchdog, the timer or the power: whatever ends that boot, the next one is this.
    for _boot in range(3):
        assert paper.boot() == OLD
    now = paper.tree()
    for call in (confirm, arm):
        with pytest.raises(BootError, match="back on its previous ones"):
            call(paper)
    assert paper.tree() == now
    assert boot_steps.absent(paper.node()).changed
    assert paper.tree() == before and paper.boot() == OLD


def test_what_failed_is_tried_again_only_if_told(tmp_path: Path) -> None:
    paper = paper_loaders.Debian(tmp_path, {})
    arm(paper)
    paper.boot()
    paper.boot()
    assert arm(paper, retry=True).trial["state"] == "armed"
    # As site.yml does next.
    assert not arm(paper).changed
    assert on_trial(paper.boot())
    assert confirm(paper).changed
    assert paper.boot() == [*OLD, *ARGS]


def test_other_arguments_after_a_failure_are_a_new_trial(tmp_path: Path) -> None:
    paper = paper_loaders.Debian(tmp_path, {})
    arm(paper)
    paper.boot()
    paper.boot()
    assert arm(paper, OTHER).changed
    assert [word for word in paper.boot() if word.startswith("irqaffinity")] == OTHER
    confirm(paper, OTHER)
    assert paper.boot() == [*OLD, *OTHER]


def test_arguments_in_force_are_the_way_back_of_the_next_ones(tmp_path: Path) -> None:
    paper = paper_loaders.Debian(tmp_path, {})
    confirm(paper, OTHER)
    paper.boot()
    arm(paper)
    words = paper.boot()
    assert words[:len(OLD) + 2] == [*OLD, *ARGS], "in the place of ours, not beside them"
    assert paper.boot() == [*OLD, *OTHER]


def test_arming_twice_changes_nothing_and_check_mode_does_nothing(tmp_path: Path) -> None:
    paper = paper_loaders.Debian(tmp_path, {})
    before = paper.tree()
    planned = arm(paper, check=True)
    assert paper.tree() == before and paper.calls == []
    done = arm(paper)
    assert (planned.changed, planned.written, planned.diff, planned.trial["state"]) == (done.changed, done.written, done.diff, done.trial["state"])
    paper.calls.clear()
    now = paper.tree()
    for check in (False, True):
        assert not arm(paper, check=check).changed
    assert paper.tree() == now and paper.calls == []
    paper.boot()
    planned = confirm(paper, check=True)
    now, paper.calls = paper.tree(), []
    done = confirm(paper)
    assert (planned.changed, planned.written, planned.diff, planned.commands) == (done.changed, done.written, done.diff, done.commands)
    assert now != paper.tree()
    assert planned.next_boot["args"] == done.next_boot["args"] == [*OLD, *ARGS]


def test_armed_arguments_are_not_written_for_good_without_their_boot(tmp_path: Path) -> None:
    paper = paper_loaders.Debian(tmp_path, {})
    arm(paper)
    now = paper.tree()
    with pytest.raises(BootError, match="has not happened"):
        confirm(paper)
    assert paper.tree() == now


def test_a_trial_that_is_no_longer_wanted_is_forgotten(tmp_path: Path) -> None:
    paper = paper_loaders.Debian(tmp_path, {})
    confirm(paper, OTHER)
    paper.boot()
    before = paper.tree()
    arm(paper)
    assert arm(paper, OTHER).changed, "what is in force is wanted again"
    assert paper.tree() == before and paper.env == {}
    assert paper.boot() == [*OLD, *OTHER]


def test_somebody_elses_single_boot_is_seen_and_kept(tmp_path: Path) -> None:
    paper = paper_loaders.Debian(tmp_path, {})
    arm(paper)
    paper.grub_reboot("1>0")
    found = arm(paper)
    assert found.changed and paper.env["next_entry"].startswith(boot_trial.SUBMENU)
    boot_steps.absent(paper.node())
    paper.grub_reboot("1>0")
    confirm(paper)
    assert paper.env == {"next_entry": "1>0"}


def test_a_kernel_that_is_installed_between_is_tried_too(tmp_path: Path) -> None:
    paper = paper_loaders.Debian(tmp_path, {})
    arm(paper)
    paper.put("/boot/vmlinuz-6.13.0-1", "")
    paper.update_grub()
    words = paper.boot()
    assert on_trial(words) and "vmlinuz-6.13.0-1" in paper.text("/proc/cmdline")
    confirm(paper)
    assert paper.boot() == [*OLD, *ARGS] and "vmlinuz-6.13.0-1" in paper.text("/proc/cmdline")


@pytest.mark.parametrize(
    "default, kernel",
    [("0", "2"), ("1>1", "1"), ("gnulinux-advanced-1>gnulinux-vmlinuz-6.12.0-1-advanced-1", "1"), ("gone", "2"), ("Debian", "2")],
)
def test_the_kernel_on_trial_is_that_of_the_default_entry(tmp_path: Path, default: str, kernel: str) -> None:
    files = {"/etc/default/grub": f'GRUB_DEFAULT="{default}"\nGRUB_CMDLINE_LINUX_DEFAULT="quiet"\n', "/boot/vmlinuz-6.12.0-2": ""}
    paper = paper_loaders.Debian(tmp_path, files)
    arm(paper)
    assert on_trial(paper.boot())
    assert f"vmlinuz-6.12.0-{kernel} " in paper.text("/proc/cmdline")
    assert paper.boot() == OLD


def test_a_default_of_a_script_that_we_cannot_repeat_is_refused(tmp_path: Path) -> None:
    paper = paper_loaders.Debian(tmp_path, {"/etc/default/grub": 'GRUB_DEFAULT=custom\nGRUB_CMDLINE_LINUX_DEFAULT="quiet"\n'})
    paper.put("/etc/grub.d/40_custom", "#!/bin/sh\necho \"menuentry 'x' --id custom {\"\necho ' linux /boot/vmlinuz-6.12.0-1 quiet'\necho '}'\n", 0o755)
    paper.update_grub()
    before = paper.tree()
    with pytest.raises(BootError, match="did not print the default entry again"):
        arm(paper)
    assert paper.tree() == before and paper.env == {}


def test_nothing_is_armed_where_the_menu_was_stale(tmp_path: Path) -> None:
    paper = paper_loaders.Debian(tmp_path, {})
    paper.put("/etc/default/grub", 'GRUB_CMDLINE_LINUX_DEFAULT="quiet debug"\n')
    before = paper.tree()
    with pytest.raises(BootError, match="edited without that"):
        arm(paper)
    assert paper.tree() == before


@pytest.mark.parametrize("command", ["update-grub", "grub-reboot"])
def test_a_command_that_fails_leaves_all_as_it_was(tmp_path: Path, command: str) -> None:
    paper = paper_loaders.Debian(tmp_path, {})
    before = paper.tree()
    paper.broken[command] = "no"
    with pytest.raises(BootError, match=f"not armed: '{command}"):
        arm(paper)
    assert paper.tree() == before and paper.boot() == OLD


def test_a_timer_that_cannot_be_stopped_keeps_the_trial_unconfirmed(tmp_path: Path) -> None:
    paper = paper_loaders.Debian(tmp_path, {})
    arm(paper)
    paper.boot()
    now = paper.tree()
    paper.broken["systemctl"] = "no"
    with pytest.raises(BootError, match="systemctl stop"):
        confirm(paper)
    assert paper.tree() == now, "otherwise the timer would restart a node that counts as proved"


def test_a_confirmation_whose_menu_fails_leaves_the_default_as_it_was(tmp_path: Path) -> None:
    paper = paper_loaders.Debian(tmp_path, {})
    arm(paper)
    paper.boot()
    paper.broken["update-grub"] = "no"
    with pytest.raises(BootError, match="update-grub"):
        confirm(paper)
    assert [arg.raw for arg in paper.node().boot().args or []] == OLD
    paper.broken.clear()
    assert confirm(paper).changed
    assert paper.boot() == [*OLD, *ARGS]


NOT_ONCE = [
    ({"/proc/mounts": "/dev/mapper/vg-root / ext4 rw 0 0\n"}, (), "plain ext4"),
    ({"/proc/mounts": "/dev/md0 / ext4 rw 0 0\n"}, (), "plain ext4"),
    ({"/proc/mounts": "/dev/sda2 / btrfs rw 0 0\n"}, (), "plain ext4"),
    ({"/proc/mounts": "rpool/root / zfs rw 0 0\n"}, (), "plain ext4"),
    ({"/proc/mounts": "/dev/sda2 / ext4 rw 0 0\n/dev/mapper/b /boot ext4 rw 0 0\n"}, (), "plain ext4"),
    ({"/proc/mounts": ""}, (), "plain ext4"),
    ({}, ("grub-reboot",), "neither grub-reboot"),
]


@pytest.mark.parametrize("files, missing, reason", NOT_ONCE)
def test_a_node_that_cannot_try_once_is_refused_unless_allowed(tmp_path: Path, files: dict[str, str], missing: tuple[str, ...], reason: str) -> None:
    paper = paper_loaders.Debian(tmp_path, {})
    for path, text in files.items():
        paper.put(path, text)
    paper.programs = tuple(name for name in paper.programs if name not in missing)
    before = paper.tree()
    with pytest.raises(BootError, match=rf"boot\.no_fallback: .*{reason}"):
        arm(paper)
    assert paper.tree() == before and paper.calls == []
    done = arm(paper, no_fallback=True)
    assert done.written == [knobs.FILE_GRUB] and [reason in warning for warning in done.warnings] == [True]
    assert done.trial["possible"] is False and reason in done.trial["reason"]
    assert paper.boot() == [*OLD, *ARGS]


def test_a_plain_boot_partition_is_enough(tmp_path: Path) -> None:
    paper = paper_loaders.Debian(tmp_path, {})
    paper.put("/proc/mounts", "/dev/mapper/vg-root / xfs rw 0 0\n/dev/sda1 /boot xfs rw 0 0\n")
    assert arm(paper).trial["state"] == "armed"


def test_a_menu_that_does_not_obey_next_entry_is_refused(tmp_path: Path) -> None:
    paper = paper_loaders.Debian(tmp_path, {})
    paper.put("/boot/grub/grub.cfg", paper.text("/boot/grub/grub.cfg").replace("next_entry", "other"))
    with pytest.raises(BootError, match="does not obey next_entry"):
        arm(paper)


def test_recorded_default_by_number_is_refused_beside_entry_files(tmp_path: Path) -> None:
    paper = paper_loaders.RedHat(tmp_path)
    paper.env = {"saved_entry": "1"}
    with pytest.raises(BootError, match="a number"):
        arm(paper)


def test_a_node_without_a_watchdog_is_told_so(tmp_path: Path) -> None:
    paper = paper_loaders.Debian(tmp_path, {})
    assert arm(paper).warnings == []
    (tmp_path / "sys/class/watchdog/watchdog0").rmdir()
    done = arm(paper, OTHER)
    assert done.trial["watchdog"] is False and len(done.warnings) == 1


def test_arguments_of_others_that_are_taken_over_are_on_trial_while_their_file_is_as_it_was(tmp_path: Path) -> None:
    text = 'GRUB_CMDLINE_LINUX="isolcpus=1 debug"\n'
    paper = paper_loaders.Debian(tmp_path, {"/etc/default/grub": text})
    before = paper.tree()
    with pytest.raises(BootError, match="/etc/default/grub:1"):
        arm(paper)
    arm(paper, adopt=True)
    assert paper.text("/etc/default/grub") == text
    words = paper.boot()
    assert [word for word in words if word.startswith("isolcpus")] == ARGS[:1] and "debug" in words
    confirm(paper, adopt=True)
    assert paper.text("/etc/default/grub") == 'GRUB_CMDLINE_LINUX="debug"\n'
    assert paper.boot() == ["root=UUID=1", "ro", "debug", *ARGS]
    boot_steps.absent(paper.node())
    assert paper.tree() == before


def test_the_script_is_one_that_every_shell_reads(tmp_path: Path) -> None:
    paper = paper_loaders.Debian(tmp_path, {})
    arm(paper)
    script = tmp_path / boot_trial.FILE_SCRIPT.lstrip("/")
    assert script.stat().st_mode & 0o777 == 0o755
    for shell in ("sh", "bash"):
        assert subprocess.run([shell, "-n", str(script)], capture_output=True, check=False).returncode == 0
    (tmp_path / boot_trial.FILE_ARGS.lstrip("/")).unlink()
    paper.update_grub()
    assert "trial" not in paper.text("/boot/grub/grub.cfg"), "without its arguments it prints nothing"


def test_the_timer_runs_in_the_boot_on_trial_only(tmp_path: Path) -> None:
    paper = paper_loaders.Debian(tmp_path, {})
    arm(paper, safety=Safety(confirm=33))
    timer = paper.text(boot_trial.FILE_TIMER)
    mark = next(arg for arg in kernel_args.parse(" ".join(paper.boot())).args if arg.name == boot_trial.MARK)
    assert f"ConditionKernelCommandLine={mark.raw}\n" in timer and "OnBootSec=33min\n" in timer


@pytest.mark.parametrize("text", ["", "{}", "[]", json.dumps({"id": 1, "args": [], "boot_id": "", "path": ""})])
def test_a_damaged_record_of_a_trial_is_refused(tmp_path: Path, text: str) -> None:
    paper = paper_loaders.Debian(tmp_path, {})
    paper.put(boot_trial.FILE_TRIAL, text)
    with pytest.raises(BootError, match=r"trial\.json"):
        arm(paper)
