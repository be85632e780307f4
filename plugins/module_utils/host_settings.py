# Copyright (c) 2026 The inferops.locality authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Brings the running side of the host layer to what was written, and back to what it was before.

The files are written by the role; here the system's own tools are told to read them: systemd-sysctl and systemd-tmpfiles, each
given our file alone, so that nobody else's settings are applied again; ``daemon-reload`` for slices; irqbalance; tuned. Only a
setting that differs is acted upon, so that drift of the running side alone is mended and a node in sync is left alone.

What was there before is saved before the first change, once for each knob, and put back when the knob is no longer wanted.
"""

from __future__ import annotations

import errno
import fnmatch
import json
import os
from dataclasses import dataclass, field
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence, Tuple

from ansible_collections.inferops.locality.plugins.module_utils import irq, knobs, platform, state_knobs
from ansible_collections.inferops.locality.plugins.module_utils.probe import Probe
from ansible_collections.inferops.locality.plugins.module_utils.state_boot import Boot
from ansible_collections.inferops.locality.plugins.module_utils.state_files import mask, unit_cgroup
from ansible_collections.inferops.locality.plugins.module_utils.sysroot import SysRoot

# Runs a command of the node. :returns: exit status, output, errors.
Run = Callable[[Sequence[str]], Tuple[int, str, str]]

_NOTE = "What the collection inferops.locality found before it changed the host's settings; removed when that is put back."
_SYSCTL = "/usr/lib/systemd/systemd-sysctl"
_SYSCTLS: Tuple[str, ...] = tuple(state_knobs.SYSCTLS)
# Set by tuned where it is on.
_GOVERNOR = "cpu.governor"
# Kernel file of each knob; a * stands for every CPU.
KERNEL_FILES: Mapping[str, str] = {
    **{knob: f"/proc/sys/{key.replace('.', '/')}" for knob, key in state_knobs.SYSCTLS.items()},
    "vm.thp": f"{state_knobs.THP}/enabled",
    "vm.thp_defrag": f"{state_knobs.THP}/defrag",
    "workqueue.cpumask": state_knobs.WORKQUEUE,
    _GOVERNOR: f"{state_knobs.CPUS}/cpu*/cpufreq/scaling_governor",
    "cpu.latency": f"{state_knobs.CPUS}/cpu*/power/pm_qos_resume_latency_us",
}
_SLICE_FILES: Tuple[str, ...] = tuple(f"/sys/fs/cgroup/{unit}/cpuset.cpus" for unit in knobs.SLICES)
_IRQBALANCE = "irqbalance.service"
_TUNED = "tuned.service"
# Everything that this can bring to its wanted value.
KNOBS: Tuple[str, ...] = (*KERNEL_FILES, "systemd.slices", "irqbalance", "tuned.profile")
# Folders that hold a file of ours; those that are not there before the first run go with the last one.
_FOLDERS: Tuple[str, ...] = tuple(dict.fromkeys(os.path.dirname(path) for path in (
    knobs.FILE_GRUB, knobs.FILE_SYSCTL, knobs.FILE_TMPFILES, *knobs.FILES_SLICES, *knobs.FILES_MEMLOCK, knobs.FILE_IRQBALANCE, knobs.FILE_IRQ,
    *knobs.LINKS_IRQ_SERVICE, knobs.FILE_IRQ_UDEV, knobs.FILE_RUNTIME, knobs.FILE_KUBELET,
    knobs.FILE_HOST_SAVED,
)))


class SettingsError(Exception):
    """What was saved cannot be used, or a command failed; the message says which."""


@dataclass
class Outcome:
    """What was done, or would be.

    :ivar settings: ``{"knob", "before", "after", "wanted"}`` of each knob that was acted upon; ``after`` is the wanted value in check mode.
    :ivar restored: one line for each thing that was put back. :ivar commands: in the order they were run.
    :ivar failed: what did not work.
    """

    settings: List[Dict[str, Any]] = field(default_factory=list)
    restored: List[str] = field(default_factory=list)
    commands: List[str] = field(default_factory=list)
    failed: List[str] = field(default_factory=list)

    @property
    def changed(self) -> bool:
        """Whether anything was, or would be, changed."""
        return bool(self.settings or self.restored)


# -- reading


def running(sysroot: SysRoot) -> Dict[str, Any]:
    """The running side of the knobs here, in the form of the plan; a knob that could not be read is left out."""
    found, boot = state_knobs.Knobs(), Boot()
    state_knobs.read_sysctls(sysroot, found, boot)
    tuned = state_knobs.read_tuned(sysroot, found, platform.tuned_installed(sysroot), Probe(sysroot))
    state_knobs.read_written(sysroot, found, boot, tuned)
    state_knobs.read_units(sysroot, found, None)
    state_knobs.read_irqbalance(sysroot, found, platform.is_debian(platform.os_release(sysroot)))
    return {knob: found.running[knob] for knob in KNOBS if knob in found.running}


def _again(sysroot: SysRoot) -> SysRoot:
    """The node as it is now: what was read before is forgotten."""
    found = SysRoot(sysroot.root)
    found.live = sysroot.live
    return found


def _content(sysroot: SysRoot, path: str) -> Optional[str]:
    """A file of the disk to the last byte; None where it is not there."""
    data = sysroot.data(path, 65536)
    return None if data is None else data.decode("utf-8", "replace")


def _paths(sysroot: SysRoot, knob: str) -> List[str]:
    pattern = KERNEL_FILES[knob]
    if "*" not in pattern:
        return [pattern]
    head, tail = pattern.split("/cpu*/")
    return [f"{head}/{name}/{tail}" for name in sysroot.listdir(head) if fnmatch.fnmatch(name, "cpu[0-9]*")]


def _raw(sysroot: SysRoot, path: str) -> Optional[str]:
    """What a kernel file says, in the words that it takes; None where it is not there."""
    text = sysroot.text(path, 65536)
    return state_knobs.bracketed(text) or text


def _unit_runs(sysroot: SysRoot, unit: str) -> bool:
    return sysroot.is_dir(unit_cgroup(unit))


# -- what was there before


def read_saved(sysroot: SysRoot) -> Dict[str, Any]:
    """``{"version": 1, "folders": [paths], "knobs": {knob: record}}``; without knobs where nothing was saved.

    A record is ``{"files": {path: text or null}}``, for irqbalance also ``runs`` and ``masked``, for tuned ``runs``.

    :raises SettingsError: not what this version writes. Nothing may be changed then, since the originals would be lost.
    """
    path = knobs.FILE_HOST_SAVED
    text = sysroot.text(path, 2**24)
    if text is None:
        if sysroot.reads.get(path) == "file":
            raise SettingsError(f"{path} cannot be read")
        return {"version": 1, "folders": [], "knobs": {}}
    try:
        data = json.loads(text)
        if data["version"] != 1:
            raise SettingsError(f"{path} has version {data['version']!r}, this collection knows 1")
        folders = [str(name) for name in data["folders"]]
        records: Dict[str, Dict[str, Any]] = {}
        for knob, record in data["knobs"].items():
            files = record["files"]
            if knob not in KNOBS or not all(isinstance(key, str) and (value is None or isinstance(value, str)) for key, value in files.items()):
                raise ValueError(knob)
            records[knob] = {"files": dict(files), "runs": record.get("runs"), "masked": record.get("masked")}
    except (KeyError, TypeError, AttributeError, ValueError, RecursionError) as error:
        raise SettingsError(f"{path} is not what this version writes ({type(error).__name__} {str(error)[:200]}); put it right or remove it") from error
    return {"version": 1, "folders": folders, "knobs": records}


def _record(sysroot: SysRoot, knob: str) -> Optional[Dict[str, Any]]:
    """What a knob is now; None where there is nothing to go back to, as below another root for what only runs."""
    record: Dict[str, Any] = {"files": {}}
    if knob in KERNEL_FILES:
        record["files"] = {path: text for path, text in ((path, _raw(sysroot, path)) for path in _paths(sysroot, knob)) if text is not None}
        return record if sysroot.live and record["files"] else None
    if knob == "systemd.slices":
        record["files"] = {path: sysroot.text(path, 65536) for path in _SLICE_FILES}
        return record if sysroot.live else None
    unit = _IRQBALANCE if knob == "irqbalance" else _TUNED
    record["runs"] = _unit_runs(sysroot, unit) if sysroot.live else None
    if knob == "irqbalance":
        record["masked"] = mask(sysroot, unit) is not None
    else:
        record["files"] = {path: _content(sysroot, path) for path in (knobs.FILE_TUNED_ACTIVE, knobs.FILE_TUNED_MODE)}
    return record


def _missing_folders(sysroot: SysRoot) -> List[str]:
    found: List[str] = []
    profile = f"{platform.tuned_dirs(sysroot)[-1]}/{knobs.TUNED_PROFILE}"
    for folder in (*_FOLDERS, *([profile] if platform.tuned_installed(sysroot) else [])):
        while folder not in ("/", "") and not sysroot.is_dir(folder):
            found.append(folder)
            folder = os.path.dirname(folder)
    return sorted(set(found))


def save(sysroot: SysRoot, wanted: Mapping[str, Any], check: bool = False) -> List[str]:
    """Save what the knobs of a plan are now, those that were saved before apart. :returns: the knobs that were, or would be, saved.

    To be called before the first file is written.

    :raises SettingsError: what was saved before cannot be used, or nothing can be written.
    """
    data = read_saved(sysroot)
    fresh = {knob: _record(sysroot, knob) for knob in KNOBS if wanted.get(knob) is not None and knob not in data["knobs"]}
    records = {knob: record for knob, record in fresh.items() if record is not None}
    if records and not check:
        if not data["knobs"]:
            data["folders"] = _missing_folders(sysroot)
        data["knobs"].update(records)
        _store(sysroot, data)
    return list(records)


def _store(sysroot: SysRoot, data: Mapping[str, Any]) -> None:
    try:
        irq.store(sysroot, knobs.FILE_HOST_SAVED, json.dumps({"note": _NOTE, **data}, indent=1, sort_keys=True) + "\n")
    except OSError as error:
        raise SettingsError(f"{knobs.FILE_HOST_SAVED} cannot be written: {error.strerror}") from error


# -- acting


class _Act:
    """One run over the settings of a node."""

    def __init__(self, sysroot: SysRoot, run: Run, check: bool) -> None:
        self.sysroot, self.run, self.check = sysroot, run, check
        self.outcome = Outcome()

    def command(self, *argv: str) -> bool:
        """Run a command on the running node. :returns: whether it succeeded."""
        if not self.sysroot.live:
            return True
        self.outcome.commands.append(" ".join(argv))
        if self.check:
            return True
        rc, out, err = self.run(argv)
        if rc != 0:
            lines = [line.strip() for line in (out + "\n" + err).splitlines() if line.strip()]
            self.outcome.failed.append(f"'{' '.join(argv)}' failed with {rc}: {' / '.join(lines[-5:]) or 'it said nothing'}")
        return rc == 0

    def put(self, path: str, text: Optional[str], disk: bool = False) -> bool:
        """Write to a file of the kernel, or bring a file of the disk back. :returns: whether it differs from what is there."""
        now = self._now(path) if disk else _raw(self.sysroot, path)
        if now == text or (not disk and (now is None or (text is None and not now))):
            # A CPU that is gone has no file; a list that is empty restricts nothing, like one that is not there.
            return False
        if self.check:
            return True
        reason = self.sysroot.escapes(path)
        place = self.sysroot.on_host(path)
        try:
            if reason:
                raise OSError(0, reason)
            if disk and text is None:
                os.unlink(place)
            elif disk:
                irq.store(self.sysroot, path, text or "")
            else:
                handle = os.open(place, os.O_WRONLY | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW)
                try:
                    os.write(handle, f"{text or ''}\n".encode())
                finally:
                    os.close(handle)
        except OSError as error:
            if error.errno == errno.ENOSPC and not disk and not text and path in _SLICE_FILES:
                return self._open_up(path)
            self.outcome.failed.append(f"{path}: '{text or ''}' cannot be written: {error.strerror}")
            return False
        return True

    def _open_up(self, path: str) -> bool:
        """Give a cgroup all CPUs: where processes are in it, the kernel takes no empty list (cpuset.c, validate_change: ENOSPC)."""
        everything = _raw(self.sysroot, f"{os.path.dirname(os.path.dirname(path))}/cpuset.cpus.effective")
        if not everything:
            self.outcome.failed.append(f"{path}: '' cannot be written, since processes are in there, and which CPUs there are is not known")
            return False
        return self.put(path, everything)

    def _now(self, path: str) -> Optional[str]:
        """A file of the disk; of a link its target."""
        return self.sysroot.readlink(path) or _content(self.sysroot, path)


def differing(wanted: Mapping[str, Any], found: Mapping[str, Any]) -> List[str]:
    """Knobs whose running side was read and is not as wanted."""
    return [knob for knob in KNOBS if wanted.get(knob) is not None and knob in found and found[knob] != wanted[knob]]


def apply(sysroot: SysRoot, run: Run, wanted: Mapping[str, Any], reload: bool = False, check: bool = False) -> Outcome:
    """Bring the running side to the files that were written, and put back what is no longer wanted.

    :param wanted: ``knobs`` of the plan; those that are none of ours here are not looked at.
    :param reload: unit files were written: systemd has to read them.
    :raises SettingsError: what was saved cannot be used; nothing was changed.
    """
    act = _Act(sysroot, run, check)
    saved = read_saved(sysroot)
    before = running(sysroot) if sysroot.live else {}
    due = differing(wanted, before)
    stale = [knob for knob in saved["knobs"] if wanted.get(knob) is None]
    if reload or "systemd.slices" in due or "irqbalance" in due or ("irqbalance" in stale and not saved["knobs"]["irqbalance"]["masked"]):
        act.command("systemctl", "daemon-reload")
    _activate(act, wanted, due, before)
    _restore(act, {knob: saved["knobs"][knob] for knob in stale})
    after = before if check or not sysroot.live else running(_again(sysroot))
    act.outcome.settings = [
        {"knob": knob, "before": before[knob], "after": wanted[knob] if check else after.get(knob), "wanted": wanted[knob]} for knob in due
    ]
    if stale and not check and not act.outcome.failed:
        _forget(act, saved, stale)
    return act.outcome


def _activate(act: _Act, wanted: Mapping[str, Any], due: Sequence[str], before: Mapping[str, Any]) -> None:
    by_tuned = wanted.get("tuned.profile") is not None
    if any(knob in _SYSCTLS for knob in due):
        act.command(_SYSCTL, knobs.FILE_SYSCTL)
    if any(knob in KERNEL_FILES and knob not in _SYSCTLS and not (by_tuned and knob == _GOVERNOR) for knob in due):
        # The lines act at boot only, so that nobody's later call of the tool writes them again; this call is one that does.
        act.command("systemd-tmpfiles", "--create", "--boot", knobs.FILE_TMPFILES)
    if "irqbalance" in due:
        act.command("systemctl", "stop" if wanted["irqbalance"] == "disabled" else "restart", _IRQBALANCE)
    if by_tuned and any(knob in ("tuned.profile", _GOVERNOR) for knob in due):
        if not _unit_runs(act.sysroot, _TUNED):
            act.command("systemctl", "start", _TUNED)
        if act.command("tuned-adm", "profile", str(wanted["tuned.profile"])):
            act.command("tuned-adm", "verify", "--ignore-missing")


def _restore(act: _Act, records: Mapping[str, Mapping[str, Any]]) -> None:
    """Put back what knobs were: the daemons first, since tuned takes back its own settings when it is stopped."""
    sysroot, done = act.sysroot, act.outcome.restored
    tuned = records.get("tuned.profile")
    if tuned is not None:
        texts = [path for path, text in tuned["files"].items() if act.put(path, text, disk=True)]
        done += [f"{path}: {shown_text(tuned['files'][path])}" for path in texts]
        runs = _unit_runs(sysroot, _TUNED)
        if tuned["runs"] and (texts or not runs):
            act.command("systemctl", "restart", _TUNED)
            done.append("tuned: its profile from before")
        elif tuned["runs"] is False and runs:
            act.command("systemctl", "stop", _TUNED)
            done.append("tuned: stopped")
    balance = records.get("irqbalance")
    if balance is not None:
        link = mask(sysroot, _IRQBALANCE)
        if not balance["masked"] and link == knobs.FILE_IRQBALANCE_MASK and act.put(link, None, disk=True):
            done.append(f"{link}: no longer masked")
            act.command("systemctl", "daemon-reload")
        runs = _unit_runs(sysroot, _IRQBALANCE)
        if balance["runs"] is not None and balance["runs"] != runs:
            act.command("systemctl", "start" if balance["runs"] else "stop", _IRQBALANCE)
            done.append(f"irqbalance: {'started' if balance['runs'] else 'stopped'}")
    if not sysroot.live:
        return
    for knob, record in records.items():
        if knob in KERNEL_FILES or knob == "systemd.slices":
            done += [f"{path}: {shown_text(text)}" for path, text in record["files"].items() if act.put(path, text)]


def shown_text(text: Optional[str]) -> str:
    """A file's content in one line."""
    return "absent" if text is None else text.replace("\n", " ") or "empty"


def _forget(act: _Act, saved: Dict[str, Any], stale: Sequence[str]) -> None:
    for knob in stale:
        del saved["knobs"][knob]
    if saved["knobs"]:
        _store(act.sysroot, saved)
        return
    try:
        irq.discard(act.sysroot, knobs.FILE_HOST_SAVED)
    except OSError as error:
        act.outcome.failed.append(f"{knobs.FILE_HOST_SAVED} stays: {error.strerror}")
        return
    for folder in sorted(saved["folders"], key=len, reverse=True):
        if act.sysroot.escapes(folder) is None:
            try:
                os.rmdir(act.sysroot.on_host(folder))
            except OSError:
                # Somebody put a file there since, or it is gone.
                continue


__all__ = ("KERNEL_FILES", "KNOBS", "Outcome", "SettingsError", "apply", "differing", "read_saved", "running", "save")
