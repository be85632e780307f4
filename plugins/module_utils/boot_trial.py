# Copyright (c) 2026 The inferops.locality authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Kernel arguments tried once: a node that does not come back boots its previous arguments the next time.

The default entry is left alone. A second entry has the new arguments, and GRUB is told to start it once: it forgets that
(``next_entry`` in its environment block) before it starts the kernel, so any second boot, for whatever reason, is one with
the previous arguments. What ends a boot that does not work:

* a panic: ``panic=`` restarts;
* a hang after systemd has started: the hardware's watchdog, which ``systemd.watchdog_sec=`` (systemd 250 on) and a drop-in set;
* a boot that works and cannot be reached: a timer restarts the node unless the arguments were confirmed;
* a hang before systemd: only a watchdog that firmware or initramfs has started, or somebody with power over the machine.

A trial that was confirmed becomes the default, and every trace of the trial goes.
"""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import dataclass
from typing import Any, Dict, List, Optional, Sequence, Tuple

from ansible_collections.inferops.locality.plugins.module_utils import boot, kernel_args, knobs, state_boot
from ansible_collections.inferops.locality.plugins.module_utils.boot import Loader, Node
from ansible_collections.inferops.locality.plugins.module_utils.boot_files import BootError, Files
from ansible_collections.inferops.locality.plugins.module_utils.kernel_args import Arg
from ansible_collections.inferops.locality.plugins.module_utils.state_boot import Boot

FILE_TRIAL = f"{boot.DIR}/trial.json"
FILE_ARGS = f"/etc/{knobs.OWNER}/boot-trial.cfg"
FILE_SCRIPT = f"/etc/grub.d/42_{knobs.OWNER}"
UNIT = f"{knobs.OWNER}-boot-trial"
FILE_SERVICE = f"/etc/systemd/system/{UNIT}.service"
FILE_TIMER = f"/etc/systemd/system/{UNIT}.timer"
FILE_WANTS = f"/etc/systemd/system/sysinit.target.d/{knobs.DROP_IN}-boot-trial.conf"
FILE_WATCHDOG = f"/etc/systemd/system.conf.d/{knobs.DROP_IN}-boot-trial.conf"
_GRUB_FILES: Tuple[str, ...] = (FILE_ARGS, FILE_SCRIPT)
_UNIT_FILES: Tuple[str, ...] = (FILE_SERVICE, FILE_TIMER, FILE_WANTS, FILE_WATCHDOG)

SUBMENU = f"{knobs.OWNER}-trial"
# The kernel leaves names with a dot of modules that it does not have alone, and init never sees them (init/main.c).
MARK = "inferops_locality.trial"

_WRITTEN = "# Written by the Ansible collection inferops.locality (module kernel_args); goes when the boot with new arguments was confirmed.\n"

_SCRIPT = f"""\
#!/bin/sh
{_WRITTEN}# While new kernel arguments are on trial, this prints the normal menu once more, in a submenu of its own, with these arguments
# in the place of the present ones. Nothing of it is booted unless GRUB is told to. A submenu cannot hold functions; the normal
# menu has defined them by then.
set -e
[ -r {FILE_ARGS} ] || exit 0
. {FILE_ARGS}
export GRUB_CMDLINE_LINUX GRUB_CMDLINE_LINUX_DEFAULT
echo "submenu 'New kernel arguments, on trial' --id {SUBMENU} {{"
/etc/grub.d/10_linux | sed '/^function /,/^}}/d'
echo "}}"
"""

_SERVICE = _WRITTEN + """\
[Unit]
Description=Restart with the previous kernel arguments, since the new ones were not confirmed
DefaultDependencies=no
SuccessAction=reboot-force
FailureAction=reboot-force

[Service]
Type=oneshot
ExecStart=/bin/true
"""
# Early and without the usual dependencies: it has to run in emergency mode too.
_TIMER = _WRITTEN + """\
[Unit]
Description=Time left to confirm the new kernel arguments
DefaultDependencies=no
Conflicts=shutdown.target
Before=shutdown.target
ConditionKernelCommandLine={mark}

[Timer]
OnBootSec={minutes}min
AccuracySec=1s
"""
_WANTS = _WRITTEN + f"[Unit]\nWants={UNIT}.timer\n"
_WATCHDOG = _WRITTEN + "[Manager]\nRuntimeWatchdogSec={seconds}\n"


@dataclass(frozen=True)
class Safety:
    """What ends a trial that does not work. :ivar panic: seconds to the restart after a panic. :ivar watchdog: seconds. :ivar confirm: minutes."""

    panic: int = 10
    watchdog: int = 60
    confirm: int = 60


class Trial:
    """The trial of a node, if there is one.

    :ivar state: ``none``; ``armed``: GRUB will start it at the next boot; ``running``: this boot is it, and nobody has
        confirmed it; ``failed``: it was started, and the node is back on its previous arguments.
    """

    def __init__(self, node: Node, loader: Loader) -> None:
        self.node = node
        self.loader = loader
        self.record = self._read()
        self.boot = node.boot()
        self.state = self._state()

    def _read(self) -> Dict[str, Any]:
        text = self.node.text(FILE_TRIAL)
        if text is None:
            return {}
        try:
            found = json.loads(text)
            if not all(isinstance(found[key], kind) for key, kind in (("id", str), ("args", list), ("boot_id", str), ("path", str))):
                raise ValueError
            return dict(found)
        except (ValueError, KeyError, TypeError, RecursionError):
            raise BootError(f"{FILE_TRIAL} is not what this collection writes; remove it, then take the trial away with state absent") from None

    def _boot_id(self) -> str:
        return self.node.text("/proc/sys/kernel/random/boot_id") or ""

    def _state(self) -> str:
        if not self.record or not self.node.live:
            return "none"
        running = kernel_args.parse(self.node.text("/proc/cmdline") or "").args
        if any(arg.name == MARK and arg.value == self.record["id"] for arg in running):
            return "running"
        if self.boot.next_entry == self.record["path"]:
            return "armed"
        # Told otherwise since, without a boot: nothing was tried.
        return "none" if self.record["boot_id"] == self._boot_id() else "failed"

    @property
    def args(self) -> List[str]:
        """The arguments on trial."""
        return [str(token) for token in self.record.get("args", [])]

    def impossible(self) -> Optional[str]:
        """Why this node cannot try an entry once, or None."""
        if not self.node.live:
            return "below another root nothing is booted"
        return state_boot.trial_obstacle(self.boot, self._reboot_command() is not None)

    def watchdog(self) -> bool:
        """Whether the node has a watchdog that ends a hang."""
        return bool(self.node.sysroot().listdir("/sys/class/watchdog"))

    def _reboot_command(self) -> Optional[str]:
        return next((program for program in ("grub-reboot", "grub2-reboot") if self.node.runner.find(program)), None)

    # -- arming

    def extras(self, identity: str, safety: Safety) -> List[Arg]:
        """The arguments that a trial has beside those that are tried."""
        return [kernel_args.make("panic", str(safety.panic)), kernel_args.make("systemd.watchdog_sec", str(safety.watchdog)), kernel_args.make(MARK, identity)]

    def _path(self) -> str:
        """The entry on trial as GRUB's ``default`` names it: the same way through the menu, one level deeper."""
        if isinstance(self.loader, boot.Bls):
            return f"{self.boot.entry}{boot.TRIAL_ENTRY_SUFFIX}"
        return f"{SUBMENU}>{self.boot.chosen}"

    def stage(self, files: Files, wanted: Sequence[Arg], safety: Safety, adopt: bool) -> Tuple[Dict[str, Any], List[List[str]]]:
        """Decide the files of a trial. :returns: its record, and the commands that make the menu.

        The arguments of a normal entry are written down whole, as they will be if the trial is confirmed: so an argument of
        others that is taken over is not in it, while its file is as it was.

        :raises BootError: it cannot be done.
        """
        if self.boot.args is None or self.boot.chosen is None:
            raise BootError("the entry of the next boot cannot be read, so no entry on trial can be made from it")
        tokens = [arg.raw for arg in wanted]
        boot_id = self._boot_id()
        identity = hashlib.sha256(json.dumps([tokens, boot_id]).encode()).hexdigest()[:12]
        record = {"id": identity, "args": tokens, "boot_id": boot_id, "path": self._path()}
        extras = self.extras(identity, safety)
        # What the loader would say of these arguments as the default: the same refusals, nothing of it is written.
        line = kernel_args.merge(self.loader.stage(Files(self.node.sysroot()), wanted, adopt), extras)
        commands: List[List[str]] = []
        if isinstance(self.loader, boot.Bls):
            self._stage_entry(files, line)
        else:
            files.write(FILE_ARGS, f'{_WRITTEN}GRUB_CMDLINE_LINUX=""\n{boot.assignment(line, False)}')
            files.write(FILE_SCRIPT, _SCRIPT, 0o755)
            commands = self.loader.commands(wanted)
        files.write(FILE_SERVICE, _SERVICE)
        files.write(FILE_TIMER, _TIMER.format(mark=f"{MARK}={identity}", minutes=safety.confirm))
        files.write(FILE_WANTS, _WANTS)
        files.write(FILE_WATCHDOG, _WATCHDOG.format(seconds=safety.watchdog))
        files.write(FILE_TRIAL, json.dumps(record, indent=1, sort_keys=True) + "\n", 0o600)
        return record, commands

    def _stage_entry(self, files: Files, args: Sequence[Arg]) -> None:
        """A copy of the default entry's file with other options."""
        path = f"{state_boot.BLS_DIR}/{self.boot.entry}.conf"
        text = files.text(path) or ""
        lines = []
        for line in text.splitlines():
            key = line.split(None, 1)[0] if line.split() else ""
            if key == "title":
                line += " (new kernel arguments, on trial)"
            elif key == "options":
                continue
            lines.append(line)
        lines.append(f"options {kernel_args.render(args)}")
        files.write(f"{state_boot.BLS_DIR}/{self._path()}.conf", "\n".join(lines) + "\n")

    def arm(self, wanted: Sequence[Arg], safety: Safety, adopt: bool, check: bool) -> Tuple[bool, Files]:
        """Make the trial and tell GRUB to start it once. :returns: whether anything was, or would be, changed; the files.

        :raises BootError: it cannot be armed; all is as it was then.
        """
        reason = self.impossible()
        if reason:
            raise BootError(f"boot.no_fallback: {reason}")
        before = list(self.boot.args or [])
        files = Files(self.node.sysroot())
        if isinstance(self.loader, boot.Bls):
            for name in self._entries():
                files.remove(name)
        record, commands = self.stage(files, wanted, safety, adopt)
        changed = bool(files.changed()) or self.state != "armed"
        if check or not changed:
            return changed, files
        boot.keep_menu(self.node, files)
        files.apply()
        try:
            for argv in commands:
                self.node.command(argv)
            self._prove(record, [*wanted, *self.extras(record["id"], safety)], before)
            self.node.command([self._reboot_command() or "", record["path"]])
            if self.node.boot().next_entry != record["path"]:
                raise BootError("GRUB's environment block did not take next_entry")
        except BootError as error:
            self._disarm(record["path"])
            raise files.undone(f"the trial was not armed: {error}") from None
        os.sync()
        return True, files

    def _entries(self) -> List[str]:
        return [f"{state_boot.BLS_DIR}/{name}" for name in self.node.sysroot().listdir(state_boot.BLS_DIR) if boot.TRIAL_ENTRY_SUFFIX in name]

    def _prove(self, record: Dict[str, Any], wanted: Sequence[Arg], before: Sequence[Arg]) -> None:
        """The menu has the trial, with the kernel of the default entry, and the default entry is as it was."""
        now = self.node.boot()
        if now.args is None or _pairs(now.args) != _pairs(before):
            raise BootError(
                "making the menu anew changes the default entry too, which is to be the way back: its files were edited without that. Do it by hand"
                " (update-grub), and see that the node boots",
            )
        trial = self.trial_entry(record["path"])
        if trial is None or trial.args is None:
            raise BootError(f"the menu has no entry '{record['path']}': /etc/grub.d/10_linux did not print the default entry again")
        if trial.kernel != now.kernel:
            raise BootError(f"the entry on trial starts {trial.kernel}, the default one {now.kernel}")
        reasons = kernel_args.lacks(trial.args, wanted)
        if reasons:
            raise BootError(f"{trial.source}: the entry on trial is not as wanted: {'; '.join(reasons)}")
        ours = {arg.raw for arg in self.loader.own()}
        rest = [arg for arg in before if arg.raw not in ours]
        if sorted(_pairs(trial.args)) != sorted(_pairs(kernel_args.merge(rest, wanted))):
            raise BootError(f"{trial.source}: the entry on trial differs from the default one by more than the arguments that are tried")

    def trial_entry(self, path: str) -> Optional[Boot]:
        """The entry on trial as GRUB finds it; None where it does not."""
        sysroot = self.node.sysroot()
        found = Boot(kind=self.loader.kind)
        if isinstance(self.loader, boot.Bls):
            file = f"{state_boot.BLS_DIR}/{path}.conf"
            text = sysroot.text(file)
            if text is None:
                return None
            found.args, found.source = kernel_args.bls_args(text, file, kernel_args.grubenv(sysroot.text(f"{self.boot.grub_dir}/grubenv") or ""), "")[0], file
            found.kernel = next((value for _number, value in kernel_args.bls_entry(text).get("linux", [])), None)
            return found
        file = f"{self.boot.grub_dir}/grub.cfg"
        menu = kernel_args.grub_menu(sysroot.text(file) or "")
        entry = kernel_args.find_entry(menu.entries, path)
        if entry is None or entry.linux is None:
            return None
        found.kernel = entry.linux.words[1]
        found.args, found.source = kernel_args.entry_args(entry, menu.variables, file), f"{file}:{entry.linux.line}"
        return found

    # -- ending

    def stage_end(self, files: Files) -> List[str]:
        """Decide that every file of the trial goes. :returns: the paths that are there."""
        paths = [path for path in (*_GRUB_FILES, *_UNIT_FILES, FILE_TRIAL, *self._entries()) if files.read(path) is not None]
        for path in paths:
            files.remove(path)
        return paths

    def end(self) -> None:
        """Stop what the trial has running and make GRUB forget it. Before its files go: a timer that runs keeps its unit.

        :raises BootError: the timer cannot be stopped: it would restart the node.
        """
        if not self.node.live:
            return
        if self.node.text(FILE_TIMER) is not None:
            self.node.command(["systemctl", "stop", f"{UNIT}.timer"])
        if self.record:
            self._disarm(self.record["path"])

    def ended(self) -> None:
        """Have systemd forget the units whose files are gone."""
        if self.node.live:
            self.node.command(["systemctl", "daemon-reload"])

    def _disarm(self, path: str) -> None:
        now = self.node.boot()
        program = next((name for name in ("grub-editenv", "grub2-editenv") if self.node.runner.find(name)), None)
        # GRUB empties the variable when it has obeyed it, and leaves the name behind; somebody else's entry stays.
        if now.next_entry in (None, path) and now.obeys_next_entry and program is not None:
            self.node.command([program, f"{now.grub_dir}/grubenv", "unset", "next_entry"])


def _pairs(args: Sequence[Arg]) -> List[Tuple[str, str]]:
    return [(arg.key, "" if arg.value is None else f"={arg.value}") for arg in args]


__all__ = (
    "FILE_ARGS",
    "FILE_SCRIPT",
    "FILE_TIMER",
    "FILE_TRIAL",
    "FILE_WATCHDOG",
    "MARK",
    "SUBMENU",
    "UNIT",
    "Safety",
    "Trial",
)
