# Copyright (c) 2026 The inferops.locality authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the module kernel_args does, as a whole: give a node its arguments, for good or for one boot, or take them away."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Dict, List, Optional, Sequence

from ansible_collections.inferops.locality.plugins.module_utils import boot, kernel_args, knobs, state_boot
from ansible_collections.inferops.locality.plugins.module_utils.boot import Loader, Node
from ansible_collections.inferops.locality.plugins.module_utils.boot_files import BootError, Files
from ansible_collections.inferops.locality.plugins.module_utils.boot_trial import MARK, Safety, Trial
from ansible_collections.inferops.locality.plugins.module_utils.kernel_args import Arg


@dataclass
class Outcome:
    """What was done, or would be; the module's result."""

    loader: str
    changed: bool = False
    written: List[str] = field(default_factory=list)
    commands: List[str] = field(default_factory=list)
    next_boot: Dict[str, Any] = field(default_factory=dict)
    foreign: List[Dict[str, object]] = field(default_factory=list)
    reboot_required: bool = False
    trial: Dict[str, Any] = field(default_factory=dict)
    diff: List[Dict[str, str]] = field(default_factory=list)
    warnings: List[str] = field(default_factory=list)


@dataclass(frozen=True)
class Wish:
    """How arguments are given.

    :ivar boot_once: try them in one boot first. :ivar adopt: take over arguments of others that set the same.
    :ivar no_fallback: write them for good where they cannot be tried once. :ivar retry: try again what failed.
    """

    boot_once: bool = False
    adopt: bool = False
    no_fallback: bool = False
    retry: bool = False
    safety: Safety = field(default_factory=Safety)


def present(node: Node, tokens: Sequence[str], wish: Wish, check: bool = False) -> Outcome:
    """Give a node exactly these arguments, in this order, beside those of others.

    With ``boot_once`` a trial is armed. Once it has booted, the same call without ``boot_once`` confirms it.

    :raises BootError: it cannot be done; nothing was changed then, or it was put back.
    """
    wanted = boot.parse_tokens(tokens)
    if not wanted:
        return absent(node, check)
    loader = boot.loader_of(node)
    trial = Trial(node, loader)
    same = trial.args == [arg.raw for arg in wanted]
    files = Files(node.sysroot())
    foreign = loader.foreign(wanted)
    own = loader.own()
    args = loader.stage(files, wanted, wish.adopt)
    for_good = _due(node, loader, files, wanted, own)
    outcome = Outcome(loader.kind, foreign=boot.foreign_list(foreign))
    if same and trial.state == "running" and wish.boot_once and for_good:
        # This boot is the trial; to be confirmed it needs the call without boot_once.
        return _close(outcome, node, trial, wanted, own)
    if same and trial.state == "failed" and for_good and not (wish.boot_once and wish.retry):
        raise BootError(
            "these arguments were tried and the node did not stay up with them: it is back on its previous ones. Say retry (with boot_once) to try"
            " them again, or state absent to forget the trial",
        )
    if wish.boot_once and for_good and node.live:
        reason = trial.impossible()
        if reason is None:
            return _arm(outcome, node, trial, wanted, own, wish, check)
        if not wish.no_fallback:
            raise BootError(f"boot.no_fallback: {reason}")
        outcome.warnings.append(f"written for good without a trial: {reason}")
    if same and trial.state == "armed" and for_good and not wish.boot_once:
        raise BootError("these arguments are to be tried at the next boot, which has not happened; reboot, or forget the trial with state absent")
    commands = loader.commands(wanted) if for_good else []
    return _for_good(outcome, node, loader, trial, files, commands, wanted, own, args, check)


def absent(node: Node, check: bool = False) -> Outcome:
    """Take away all arguments that were ever given here, and a trial; originals come back.

    :raises BootError: it cannot be done.
    """
    try:
        loader = boot.loader_of(node)
    except BootError:
        if any(node.sysroot().exists(path) for path in (knobs.FILE_GRUB, boot.DIR)):
            raise
        # Nothing was ever given here, and nothing could have been.
        return Outcome(node.boot().kind)
    trial = Trial(node, loader)
    files = Files(node.sysroot())
    own = loader.own()
    outcome = Outcome(loader.kind)
    outcome.warnings += loader.stage_absent(files)
    due = bool(files.changed()) or _pending(node)
    commands = loader.commands([]) + loader.restoring() if due else []
    args = [arg for arg in node.boot().args or [] if arg.raw not in {gone.raw for gone in own}]
    return _for_good(outcome, node, loader, trial, files, commands, [], own, args, check)


def _pending(node: Node) -> bool:
    return node.sysroot().exists(boot.PENDING)


def _due(node: Node, loader: Loader, files: Files, wanted: Sequence[Arg], own: Sequence[Arg]) -> bool:
    """Whether the arguments are not yet those of every boot to come."""
    if files.changed() or _pending(node) or loader.needed(wanted):
        return True
    if not node.live:
        return False
    try:
        boot.prove(node, wanted, own)
    except BootError:
        return True
    return False


def _for_good(  # noqa: PLR0917
    outcome: Outcome, node: Node, loader: Loader, trial: Trial, files: Files, commands: List[List[str]],
    wanted: Sequence[Arg], own: Sequence[Arg], args: Sequence[Arg], check: bool,
) -> Outcome:
    ended = trial.stage_end(files)
    if ended and not commands and not isinstance(loader, boot.Bls):
        # The menu still has the entry on trial.
        commands = loader.commands(wanted)
    entries = _entries(node) if commands and isinstance(loader, boot.Bls) else []
    outcome.written = files.changed() + entries
    outcome.diff = files.diff()
    outcome.changed = bool(outcome.written) or bool(commands)
    if node.live:
        outcome.commands = [" ".join(argv) for argv in commands]
    if check:
        predicted = node.boot(once=not ended)
        _report(outcome, node, trial, predicted, list(args) if not node.live else _predict(predicted.args, own, wanted), wanted, own)
        return outcome
    if outcome.changed:
        if ended:
            trial.end()
        boot.write(node, files, commands, wanted, own)
        if ended:
            trial.ended()
    return _close(outcome, node, Trial(node, loader), wanted, own)


def _arm(  # noqa: PLR0917
    outcome: Outcome, node: Node, trial: Trial, wanted: Sequence[Arg], own: Sequence[Arg], wish: Wish, check: bool,
) -> Outcome:
    if not trial.watchdog():
        outcome.warnings.append("the node has no watchdog: a trial that hangs is ended only by somebody with power over the machine")
    outcome.changed, files = trial.arm(wanted, wish.safety, wish.adopt, check)
    outcome.written, outcome.diff = files.changed(), files.diff()
    if check:
        predicted = node.boot()
        _report(outcome, node, trial, predicted, _predict(predicted.args, own, wanted), wanted, own)
        outcome.trial["state"] = "armed"
        return outcome
    return _close(outcome, node, Trial(node, trial.loader), wanted, own)


def _entries(node: Node) -> List[str]:
    names = node.sysroot().listdir(state_boot.BLS_DIR)
    return [f"{state_boot.BLS_DIR}/{name}" for name in names if name.endswith(".conf") and boot.TRIAL_ENTRY_SUFFIX not in name]


def _predict(now: Optional[Sequence[Arg]], own: Sequence[Arg], wanted: Sequence[Arg]) -> Optional[List[Arg]]:
    if now is None:
        return None
    gone = {(arg.key, arg.value) for arg in own}
    return kernel_args.merge([arg for arg in now if (arg.key, arg.value) not in gone], wanted)


def _close(outcome: Outcome, node: Node, trial: Trial, wanted: Sequence[Arg], own: Sequence[Arg]) -> Outcome:
    found = node.boot(once=True)
    _report(outcome, node, trial, found, found.args, wanted, own)
    return outcome


def _report(  # noqa: PLR0917
    outcome: Outcome, node: Node, trial: Trial, found: state_boot.Boot, args: Optional[Sequence[Arg]], wanted: Sequence[Arg], own: Sequence[Arg],
) -> None:
    outcome.next_boot = {
        "entry": found.entry, "source": found.source, "args": None if args is None else [kernel_args.masked_word(arg.raw) for arg in args],
    }
    reason = trial.impossible()
    outcome.trial = {
        "state": trial.state, "args": [kernel_args.masked_word(token) for token in trial.args], "possible": reason is None, "reason": reason,
        "watchdog": trial.watchdog() if node.live else None,
    }
    outcome.reboot_required = node.live and args is not None and _differs(node, args, wanted, own)


def _differs(node: Node, args: Sequence[Arg], wanted: Sequence[Arg], own: Sequence[Arg]) -> bool:
    """Whether the running kernel has other arguments of ours than the next boot."""
    text = node.text("/proc/cmdline")
    if text is None:
        return True
    ours = [*wanted, *own]

    def mine(line: Sequence[Arg]) -> List[Any]:
        rivals = kernel_args.rivals(line, ours)
        return [(arg.key, arg.value) for arg in line if arg in rivals or (arg.key in kernel_args.KNOB_KEYS)]

    running = kernel_args.parse(text).args
    if any(arg.name == MARK for arg in args) and not any(arg.name == MARK for arg in running):
        return True
    return mine(running) != mine(args)


__all__ = ("Outcome", "Wish", "absent", "present")
