# Copyright (c) 2026 The inferops.locality authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Writes kernel arguments where a node's boot loader takes them from, and proves that the next boot has them.

Three kinds of loader: drop-ins of grub-mkconfig (Debian, Ubuntu), a marked part of ``/etc/default/grub`` (SLES), and grubby
for the entries of the Boot Loader Specification (RHEL family). Arguments of others keep their text, quotes and order.
What is decided is evaluated before it is written, and the loader's own menu is read after it.
"""

from __future__ import annotations

import hashlib
import json
import os
from typing import Any, Dict, List, Optional, Sequence, Set, Tuple, Type

from ansible_collections.inferops.locality.plugins.module_utils import kernel_args, knobs, platform, state_boot
from ansible_collections.inferops.locality.plugins.module_utils.boot_files import BootError, Files
from ansible_collections.inferops.locality.plugins.module_utils.kernel_args import Arg
from ansible_collections.inferops.locality.plugins.module_utils.state_boot import Boot
from ansible_collections.inferops.locality.plugins.module_utils.sysroot import SysRoot

DIR = f"{knobs.DIR_STATE}/boot"
ORIGINALS = f"{DIR}/originals"
# There while files are written and the loader's menu is not yet made from them.
PENDING = f"{DIR}/pending"

_HEAD = """\
# Written by the Ansible collection inferops.locality (module kernel_args) from the inventory; changes made here are undone.
# To remove by hand: delete this file, then run update-grub and reboot.
"""


class Runner:
    """Runs the commands that change a boot loader. The module gives one that Ansible runs; nothing else here runs commands."""

    def find(self, program: str) -> bool:
        """Whether the node has a program."""
        raise NotImplementedError

    def run(self, argv: Sequence[str]) -> Tuple[int, str, str]:
        """Run it. :returns: exit status, output, errors."""
        raise NotImplementedError


class Node:
    """A node, live or below another root.

    :ivar live: False below another root, where files are written and nothing is run.
    """

    def __init__(self, root: str, runner: Runner, live: Optional[bool] = None) -> None:
        self.root = root
        self.runner = runner
        self.live = (os.path.abspath(root) == "/") if live is None else live

    def sysroot(self) -> SysRoot:
        """The node's files as they are now: what was read before is forgotten."""
        found = SysRoot(self.root)
        found.live = self.live
        return found

    def boot(self, once: bool = False) -> Boot:
        """The boot loader as it is now. :param once: see ``read_boot``."""
        sysroot = self.sysroot()
        return state_boot.read_boot(sysroot, platform.is_debian(platform.os_release(sysroot)), once)

    def command(self, argv: Sequence[str]) -> str:
        """Run a command that has to succeed. :returns: its output.

        :raises BootError: it is not there, or failed.
        """
        if not self.runner.find(argv[0]):
            raise BootError(f"'{argv[0]}' is not on this node")
        rc, out, err = self.runner.run(argv)
        if rc != 0:
            lines = [line for line in (err + "\n" + out).splitlines() if line.strip()]
            raise BootError(f"'{' '.join(argv)}' failed with {rc}: {' / '.join(lines[-5:])}")
        return out

    def text(self, path: str) -> Optional[str]:
        """Text of a file as it is now."""
        return self.sysroot().text(path)


def parse_tokens(tokens: Sequence[str]) -> List[Arg]:
    """The arguments that are asked for.

    :raises BootError: a text is not one kernel argument, or an argument is given twice where the first wins.
    """
    args: List[Arg] = []
    for token in tokens:
        found = kernel_args.parse(token)
        if len(found.args) != 1 or found.init or not found.args[0].closed or not found.args[0].name or "\n" in token:
            raise BootError(f"'{kernel_args.masked_word(token)}' is not one kernel argument")
        args.append(found.args[0])
    for duplicate in kernel_args.meaning(args).duplicates:
        raise BootError(f"the arguments set '{duplicate}' twice, of which the kernel ignores one")
    return args


class Loader:
    """One kind of boot loader.

    :ivar kind: its name in the platform facts.
    """

    kind = "unknown"

    def __init__(self, node: Node) -> None:
        self.node = node

    def own(self) -> List[Arg]:
        """The arguments that are ours now, by the files they come from."""
        raise NotImplementedError

    def foreign(self, wanted: Sequence[Arg]) -> List[Arg]:
        """Arguments of others that set what ``wanted`` sets.

        :raises BootError: the files cannot be understood.
        """
        raise NotImplementedError

    def stage(self, files: Files, wanted: Sequence[Arg], adopt: bool) -> List[Arg]:
        """Decide the changes that make ``wanted`` ours.

        :param adopt: take arguments of others out that set the same; their originals are saved.
        :returns: the arguments that the loader then has for a normal entry.
        :raises BootError: it cannot be done.
        """
        raise NotImplementedError

    def stage_absent(self, files: Files) -> List[str]:
        """Decide the changes that take away all that was ever ours. :returns: what could not be put back, with the reason."""
        raise NotImplementedError

    def commands(self, wanted: Sequence[Arg]) -> List[List[str]]:
        """What makes the loader take the files over, once they are written. Asked before they are."""
        raise NotImplementedError

    def restoring(self) -> List[List[str]]:
        """What puts back, after these, the arguments that were taken over and lie in no file."""
        return []

    def needed(self, wanted: Sequence[Arg]) -> bool:
        """Whether the commands have something to do though no file changes."""
        return False


def refuse_foreign(foreign: Sequence[Arg]) -> None:
    """:raises BootError: there are arguments of others in the way."""
    if foreign:
        shown = ", ".join(f"'{kernel_args.masked_word(arg.raw)}' ({arg.source})" for arg in foreign)
        raise BootError(
            f"others set the same kernel arguments: {shown}. Of two the kernel ignores one: remove them there, or say adopt to take them over",
            foreign_list(foreign),
        )


def foreign_list(foreign: Sequence[Arg]) -> List[Dict[str, object]]:
    """Arguments of others as they are returned."""
    return [{"token": kernel_args.masked_word(arg.raw), "file": arg.file, "line": arg.line} for arg in foreign]


class _Grub(Loader):
    """Loaders whose menu grub-mkconfig makes from assignments of a shell."""

    def _read(self) -> List[Tuple[str, str]]:
        """The files that grub-mkconfig reads, in order."""
        raise NotImplementedError

    def _ours(self, path: str) -> bool:
        """Whether the whole file is ours."""
        return False

    def _put(self, texts: List[Tuple[str, str]], wanted: Sequence[Arg]) -> List[Tuple[str, str]]:
        """The files with ours in place."""
        raise NotImplementedError

    def _files(self, paths: Sequence[str]) -> List[Tuple[str, str]]:
        found = []
        files = Files(self.node.sysroot())
        for path in paths:
            text = files.text(path)
            if text is not None:
                found.append((path, text))
        return found

    def _foreign_files(self) -> List[Tuple[str, str]]:
        return [(path, kernel_args.without_block(text)) for path, text in self._read() if not self._ours(path)]

    @staticmethod
    def evaluate(texts: Sequence[Tuple[str, str]]) -> List[Arg]:
        """The arguments that the files give a normal entry.

        :raises BootError: they cannot be told; names file and line.
        """
        defaults = kernel_args.grub_defaults(texts)
        args = defaults.kernel_args()
        cut = any(defaults.values[name].cut is not None for name in kernel_args.GRUB_KERNEL if name in defaults.values)
        if args is None or cut:
            problems = [problem for problem in defaults.problems if "cannot be told" in problem["reason"] or "never reaches" in problem["reason"]]
            shown = "; ".join(f"{problem['file']} {problem['reason']}" for problem in problems or defaults.problems)
            raise BootError(f"the kernel's arguments cannot be told from the files: {shown}")
        return args

    def foreign(self, wanted: Sequence[Arg]) -> List[Arg]:
        return kernel_args.rivals(self.evaluate(self._foreign_files()), wanted)

    def own(self) -> List[Arg]:
        for path, text in self._read():
            ours = kernel_args.block_lines(text)
            if self._ours(path):
                return kernel_args.grub_defaults([(path, text)]).known_args()
            if ours:
                return [arg for arg in kernel_args.grub_defaults([(path, text)]).known_args() if arg.line in ours]
        return []

    def stage(self, files: Files, wanted: Sequence[Arg], adopt: bool) -> List[Arg]:
        texts = self._foreign_files()
        before = self.evaluate(texts)
        foreign = kernel_args.rivals(before, wanted)
        record = read_record(self.node)
        if not adopt:
            refuse_foreign(foreign)
        for arg in foreign:
            if kernel_args.merge([arg], wanted) != list(wanted):
                raise BootError(f"{arg.source}: '{kernel_args.masked_word(arg.raw)}' also sets what is not ours; take it apart by hand", foreign_list([arg]))
            texts = [(path, self._without(text, arg) if path == arg.file else text) for path, text in texts]
        if foreign:
            left = [(arg.key, arg.value) for arg in self.evaluate(texts)]
            gone = {(arg.key, arg.value) for arg in foreign}
            if left != [(arg.key, arg.value) for arg in before if (arg.key, arg.value) not in gone]:
                raise BootError(f"{foreign[0].source}: the argument of others cannot be taken out without touching the rest", foreign_list(foreign))
        after = self._put(texts, wanted)
        args = self.evaluate(after)
        reasons = kernel_args.lacks(args, wanted)
        if reasons:
            later = [path for path, _text in after if path.startswith(state_boot.GRUB_D) and path > knobs.FILE_GRUB]
            also = f"; {', '.join(later)} is read later" if later else ""
            raise BootError(f"the arguments would not reach the kernel: {'; '.join(reasons)}{also}")
        length = len(kernel_args.render(args).encode())
        if length > kernel_args.MAX_LENGTH - 200:
            # The loader adds the image's path and the root file system.
            raise BootError(f"the command line would have {length} bytes and more; the kernel cuts it at {kernel_args.MAX_LENGTH}")
        for path, text in after:
            self._edit(files, record, path, text)
        write_record(files, record)
        return args

    @staticmethod
    def _without(text: str, arg: Arg) -> str:
        after = kernel_args.without_word(text, arg.line or 0, arg.raw)
        if after is None:
            raise BootError(f"{arg.source}: '{kernel_args.masked_word(arg.raw)}' cannot be taken out of the line; remove it by hand", foreign_list([arg]))
        return after

    # -- originals

    def _edit(self, files: Files, record: Dict[str, Any], path: str, text: str) -> None:
        """Change a file of somebody else; the first time its original is saved."""
        old = files.read(path)
        new = text.encode("utf-8")
        if self._ours(path) or old == new:
            files.put(path, new)
            return
        edited = record.setdefault("edited", {})
        if old is not None and edited.get(path) != _sum(old):
            # The first time, or somebody changed it since: then what it is now without our part is the original.
            files.put(f"{ORIGINALS}{path}", _strip(old), 0o600)
        edited[path] = _sum(new)
        files.put(path, new)

    def stage_absent(self, files: Files) -> List[str]:
        record = read_record(self.node)
        left = []
        for path, expected in sorted(record.get("edited", {}).items()):
            now, original = files.read(path), files.read(f"{ORIGINALS}{path}")
            if now is None or original is None:
                left.append(f"{path} or its original is gone: nothing was put back")
            elif _sum(now) == expected:
                files.put(path, original)
                files.remove(f"{ORIGINALS}{path}")
            else:
                # Somebody changed it since: only our part goes.
                body = _strip(now)
                lost = sorted(kernel_args.masked_word(word) for word in _words(original) - _words(body))
                if lost:
                    left.append(f"{path} was changed since it was written here and is left so; its original also had: {' '.join(lost)}")
                files.put(path, original if body.rstrip(b"\n") == original.rstrip(b"\n") else body)
                files.remove(f"{ORIGINALS}{path}")
        files.remove(knobs.FILE_GRUB)
        for path, text in self._read():
            if not self._ours(path) and path not in record.get("edited", {}) and kernel_args.block_lines(text):
                files.put(path, _strip(text.encode("utf-8")))
        write_record(files, {})
        return left


def _sum(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _strip(data: bytes) -> bytes:
    return kernel_args.without_block(data.decode("utf-8")).encode("utf-8")


def _words(data: bytes) -> Set[str]:
    return set(data.decode("utf-8", "replace").replace('"', " ").replace("'", " ").split())


def read_record(node: Node) -> Dict[str, Any]:
    """What was done on this node before; empty where nothing was.

    :raises BootError: the record is damaged: without it nothing can be put back.
    """
    text = node.text(state_boot.FILE_RECORD)
    if text is None:
        return {}
    try:
        found = json.loads(text)
        if not isinstance(found, dict) or not isinstance(found.get("edited", {}), dict) or not isinstance(found.get("args", []), list):
            raise ValueError
        return found
    except (ValueError, RecursionError):
        raise BootError(f"{state_boot.FILE_RECORD} is not what this collection writes; put it right or remove it") from None


def write_record(files: Files, record: Dict[str, Any]) -> None:
    """Decide the record; an empty one has no file."""
    record = {key: value for key, value in record.items() if value}
    if record:
        files.write(state_boot.FILE_RECORD, json.dumps(record, indent=1, sort_keys=True) + "\n", 0o600)
    else:
        files.remove(state_boot.FILE_RECORD)


class GrubDropIn(_Grub):
    """Debian and its relatives: grub-mkconfig reads /etc/default/grub.d after /etc/default/grub."""

    kind = "grub-drop-in"

    def _read(self) -> List[Tuple[str, str]]:
        return self._files(state_boot.grub_files(self.node.sysroot()))

    def _ours(self, path: str) -> bool:
        return path == knobs.FILE_GRUB

    def _put(self, texts: List[Tuple[str, str]], wanted: Sequence[Arg]) -> List[Tuple[str, str]]:
        ours = (knobs.FILE_GRUB, _HEAD + assignment(wanted))
        # /etc/default/grub is first, then the drop-ins in the order of their names.
        return [entry for entry in texts if entry[0] < knobs.FILE_GRUB] + [ours] + [entry for entry in texts if entry[0] > knobs.FILE_GRUB]

    def commands(self, wanted: Sequence[Arg]) -> List[List[str]]:
        return [["update-grub"]]


class GrubDefault(_Grub):
    """SLES: grub2-mkconfig reads /etc/default/grub only, and pbl calls it."""

    kind = "grub-default"

    def _read(self) -> List[Tuple[str, str]]:
        return self._files([state_boot.GRUB_DEFAULT])

    def _put(self, texts: List[Tuple[str, str]], wanted: Sequence[Arg]) -> List[Tuple[str, str]]:
        text = texts[0][1] if texts else ""
        if text and not text.endswith("\n"):
            text += "\n"
        block = f"{kernel_args.BLOCK_BEGIN} (module kernel_args; changes made here are undone)\n{assignment(wanted)}{kernel_args.BLOCK_END}\n"
        return [(state_boot.GRUB_DEFAULT, text + block)]

    def commands(self, wanted: Sequence[Arg]) -> List[List[str]]:
        if self.node.runner.find("pbl"):
            return [["pbl", "--config"]]
        return [["grub2-mkconfig", "-o", f"{self.node.boot().grub_dir or '/boot/grub2'}/grub.cfg"]]


class Bls(Loader):
    """RHEL family 9 and 10: each kernel has a file with its options, and grubby changes them all.

    grubby's --args takes every argument of the same key out first, so all of ours go in one call. grub2-mkconfig is never
    called: it may overwrite every entry from /etc/default/grub.
    """

    kind = "bls"

    def _entries(self) -> Dict[str, List[Arg]]:
        sysroot = self.node.sysroot()
        found: Dict[str, List[Arg]] = {}
        for name in sysroot.listdir(state_boot.BLS_DIR):
            if not name.endswith(".conf") or TRIAL_ENTRY_SUFFIX in name:
                continue
            path = f"{state_boot.BLS_DIR}/{name}"
            text = sysroot.text(path)
            if text is None:
                raise BootError(f"{path} cannot be read")
            args, missing = kernel_args.bls_args(text, path, {}, "")
            if "kernelopts" in missing:
                raise BootError(f"{path} takes its arguments from $kernelopts in GRUB's environment, as RHEL 8 does: not supported")
            broken = next((arg for arg in args if not arg.closed), None)
            if broken is not None:
                raise BootError(f"{broken.source}: a quote in '{kernel_args.masked_word(broken.raw)}' is not closed")
            found[path] = args
        if not found:
            raise BootError(f"{state_boot.BLS_DIR} holds no entry")
        return found

    def own(self) -> List[Arg]:
        return [arg for token in read_record(self.node).get("args", []) for arg in kernel_args.parse(str(token)).args]

    def foreign(self, wanted: Sequence[Arg]) -> List[Arg]:
        ours = {arg.raw for arg in self.own()}
        found: List[Arg] = []
        for args in self._entries().values():
            found.extend(arg for arg in kernel_args.rivals(args, wanted) if arg.raw not in ours)
        return found

    def stage(self, files: Files, wanted: Sequence[Arg], adopt: bool) -> List[Arg]:
        self._live()
        for arg in wanted:
            if any(char in arg.raw for char in ";\"'\\ \t&*"):
                # grubby pastes values into regular expressions, and a ';' ends GRUB's command.
                raise BootError(f"'{arg.raw}' holds a character that grubby cannot be trusted with; give one argument for each device")
        foreign = self.foreign(wanted)
        if not adopt:
            refuse_foreign(foreign)
        record = read_record(self.node)
        for arg in foreign:
            kept = record.setdefault("adopted", {}).setdefault(arg.file, [])
            if arg.raw not in kept:
                kept.append(arg.raw)
        record["args"] = [arg.raw for arg in wanted]
        self._keep(files)
        write_record(files, record)
        old = {arg.raw for arg in self.own()}
        return kernel_args.merge([arg for arg in self.node.boot().args or [] if arg.raw not in old], wanted)

    def needed(self, wanted: Sequence[Arg]) -> bool:
        """Whether grubby has anything to do."""
        old = self.own()
        for args in self._entries().values():
            if kernel_args.lacks(args, wanted):
                return True
            stale = [arg.raw for arg in old if arg.raw not in [want.raw for want in wanted]]
            if any(arg.raw in stale for arg in args):
                return True
        return False

    def _keep(self, files: Files) -> None:
        for path in [*self._entries(), state_boot.GRUB_DEFAULT, "/etc/kernel/cmdline"]:
            files.keep(path)

    def _live(self) -> None:
        if not self.node.live:
            raise BootError("the entries of this boot loader are changed by grubby, which needs the running node")

    def commands(self, wanted: Sequence[Arg]) -> List[List[str]]:
        old = [arg for arg in self.own() if arg.raw not in {want.raw for want in wanted}]
        keys = {grubby_key(arg) for arg in wanted}
        stale = [arg.raw for arg in old if grubby_key(arg) not in keys]
        argv = ["grubby", "--update-kernel=ALL"]
        if stale:
            argv.append(f"--remove-args={' '.join(stale)}")
        if wanted:
            argv.append(f"--args={' '.join(arg.raw for arg in wanted)}")
        return [argv] if len(argv) > 2 else []

    def stage_absent(self, files: Files) -> List[str]:
        if not read_record(self.node):
            return []
        self._live()
        self._keep(files)
        write_record(files, {})
        return []

    def restoring(self) -> List[List[str]]:
        """The grubby calls that put back what was taken over, one for each kernel."""
        calls = []
        sysroot = self.node.sysroot()
        for path, tokens in sorted(read_record(self.node).get("adopted", {}).items()):
            linux = kernel_args.bls_entry(sysroot.text(path) or "").get("linux", [])
            if linux:
                image = linux[0][1] if linux[0][1].startswith("/boot/") else f"/boot{linux[0][1]}"
                calls.append(["grubby", f"--update-kernel={image}", f"--args={' '.join(tokens)}"])
        return calls


TRIAL_ENTRY_SUFFIX = "~inferops-locality-trial"


def grubby_key(arg: Arg) -> str:
    """What grubby takes for the key of an argument: the text before its last ``=``."""
    return arg.raw.rpartition("=")[0] if "=" in arg.raw else arg.raw


def assignment(wanted: Sequence[Arg], add: bool = True) -> str:
    """The line of shell that adds the arguments to those of a normal entry, or sets them."""
    try:
        words = kernel_args.grub_words(arg.raw for arg in wanted)
    except kernel_args.KernelArgsError as error:
        raise BootError(str(error)) from None
    before = "$GRUB_CMDLINE_LINUX_DEFAULT " if add else ""
    return f'GRUB_CMDLINE_LINUX_DEFAULT="{before}{words}"\n'


_LOADERS: Tuple[Type[Loader], ...] = (GrubDropIn, GrubDefault, Bls)


def loader_of(node: Node) -> Loader:
    """The node's boot loader.

    :raises BootError: none that this collection can write.
    """
    boot = node.boot()
    if boot.uki is not None:
        raise BootError(f"{boot.uki} shows that the node boots unified kernel images, whose arguments are inside the image: not supported")
    for kind in _LOADERS:
        if kind.kind == boot.kind:
            return kind(node)
    raise BootError(f"found boot loader '{boot.kind}'; kernel arguments can be written for GRUB with grub-mkconfig and for BLS entries with grubby")


def keep_menu(node: Node, files: Files) -> None:
    """Remember the menu that a command is going to make anew: putting it back needs no command that might fail again."""
    grub_dir = node.boot().grub_dir
    if grub_dir is not None:
        files.keep(f"{grub_dir}/grub.cfg")
        # grub-mkconfig leaves this beside it when it finds its own work broken.
        files.keep(f"{grub_dir}/grub.cfg.new")


def write(node: Node, files: Files, commands: Sequence[Sequence[str]], wanted: Sequence[Arg], gone: Sequence[Arg]) -> None:
    """Make decided changes and see that the loader's default entry has them; else everything is put back.

    :param gone: arguments that must not be there any more.
    :raises BootError: with what is missing.
    """
    if not node.live:
        files.apply()
        return
    keep_menu(node, files)
    pending = Files(node.sysroot())
    pending.write(PENDING, "")
    pending.apply()
    files.apply()
    try:
        for argv in commands:
            node.command(argv)
        prove(node, wanted, gone)
    except BootError as error:
        raise files.undone(str(error)) from None
    os.sync()
    done = Files(node.sysroot())
    done.remove(PENDING)
    done.apply()


def prove(node: Node, wanted: Sequence[Arg], gone: Sequence[Arg]) -> None:
    """See that the entry that boots by default sets what is wanted.

    :raises BootError: it does not; says what is missing.
    """
    boot = node.boot()
    if boot.args is None:
        raise BootError("the entry of the next boot cannot be read, so nothing shows that it has the arguments")
    reasons = kernel_args.lacks(boot.args, wanted)
    stale = {(arg.key, arg.value) for arg in gone} - {(arg.key, arg.value) for arg in wanted}
    reasons += [f"'{kernel_args.masked_word(arg.raw)}' is still there" for arg in boot.args if (arg.key, arg.value) in stale]
    if reasons:
        raise BootError(f"{boot.source}: the entry of the next boot is not as wanted: {'; '.join(reasons)}")


__all__ = (
    "DIR",
    "ORIGINALS",
    "PENDING",
    "TRIAL_ENTRY_SUFFIX",
    "Bls",
    "GrubDefault",
    "GrubDropIn",
    "Loader",
    "Node",
    "Runner",
    "assignment",
    "foreign_list",
    "grubby_key",
    "keep_menu",
    "loader_of",
    "parse_tokens",
    "prove",
    "read_record",
    "refuse_foreign",
    "write",
    "write_record",
)
