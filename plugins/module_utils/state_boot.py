# Copyright (c) 2026 The inferops.locality authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What boots next: the boot loader of a node, its default entry and that entry's kernel arguments."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import Dict, List, Optional, Tuple

from ansible_collections.inferops.locality.plugins.module_utils import kernel_args, knobs
from ansible_collections.inferops.locality.plugins.module_utils.kernel_args import Arg
from ansible_collections.inferops.locality.plugins.module_utils.sysroot import SysRoot

GRUB_DEFAULT = "/etc/default/grub"
GRUB_D = "/etc/default/grub.d"
GRUB_DIRS: Tuple[str, ...] = ("/boot/grub", "/boot/grub2")
BLS_DIR = "/boot/loader/entries"
ESP_DIRS: Tuple[str, ...] = ("/efi", "/boot/efi", "/boot")
# Where GRUB can write its environment block, so that "try once" is once (grub-core/commands/loadenv.c, disk/diskfilter.c).
_ONCE = ("ext2", "ext3", "ext4", "xfs", "vfat")
_NEVER = ("btrfs", "zfs", "bcachefs")
# What kernel_args has done on this node, for the way back.
FILE_RECORD = f"{knobs.DIR_STATE}/boot/record.json"


@dataclass
class Boot:
    """The boot loader and what it starts next.

    :ivar args: arguments of the next boot with their sources; None where they cannot be told.
    :ivar entry: name of the entry; None below a root, where the files decide that entries are made from.
    :ivar foreign_args: arguments that stand in files of others.
    :ivar replaced: arguments of ours that an assignment of someone else drops, each with that assignment's variable, file and line.
    :ivar grub_dir: where grub.cfg and grubenv lie. :ivar chosen: what GRUB's ``default`` says, in its own words.
    :ivar kernel: image of the chosen entry. :ivar next_entry: the entry that GRUB was told to start once; None where it was not.
    :ivar obeys_next_entry: whether grub.cfg starts ``next_entry`` at all.
    """

    kind: str = "unknown"
    drop_in_dir: Optional[str] = None
    once: Optional[bool] = None
    entry: Optional[str] = None
    source: Optional[str] = None
    args: Optional[List[Arg]] = None
    foreign_args: List[Arg] = field(default_factory=list)
    replaced: List[Tuple[Arg, str, str, int]] = field(default_factory=list)
    uki: Optional[str] = None
    grub_dir: Optional[str] = None
    chosen: Optional[str] = None
    kernel: Optional[str] = None
    next_entry: Optional[str] = None
    obeys_next_entry: bool = False


def read_boot(sysroot: SysRoot, debian: bool, once: bool = True) -> Boot:
    """Read the boot loader. Never raises; what cannot be told is None, with a problem where a file is there.

    :param debian: Debian and its relatives, whose grub-mkconfig reads /etc/default/grub.d.
    :param once: False passes over an entry that is to be started once: what the boots after the next one get.
    """
    boot = Boot()
    boot.uki = _uki(sysroot)
    grub_dir = next((directory for directory in GRUB_DIRS if sysroot.exists(f"{directory}/grub.cfg")), None)
    bls = [name for name in sysroot.listdir(BLS_DIR) if name.endswith(".conf")]
    grub_text = sysroot.text(GRUB_DEFAULT)
    boot.grub_dir = grub_dir
    has_grub = grub_dir is not None or grub_text is not None or sysroot.is_dir(GRUB_D)
    esp = next((path for path in ESP_DIRS if sysroot.exists(f"{path}/loader/loader.conf")), None)
    if esp is not None and not has_grub:
        boot.kind = "systemd-boot"
    elif bls and not debian:
        boot.kind = "bls"
    elif has_grub:
        boot.kind = "grub-drop-in" if debian else "grub-default"
    if boot.kind == "grub-drop-in":
        boot.drop_in_dir = GRUB_D
    boot.once = _once(sysroot) if boot.kind in ("grub-drop-in", "grub-default", "bls") else None
    if boot.kind == "systemd-boot":
        _cmdline_file(sysroot, boot)
    elif boot.kind == "bls":
        _bls(sysroot, boot, bls, once)
    elif boot.kind != "unknown":
        _grub(sysroot, boot, grub_text, once)
    return boot


def trial_obstacle(boot: Boot, command: bool) -> Optional[str]:
    """Why the node cannot try an entry once, or None.

    :param command: whether the node has grub-reboot or grub2-reboot.
    """
    if not boot.once:
        return "the file system of /boot cannot take GRUB's note back (it has to be a plain ext4, xfs or FAT partition), so that once would be always"
    if not boot.obeys_next_entry:
        return f"{boot.grub_dir or '/boot/grub'}/grub.cfg does not obey next_entry"
    if not command:
        return "neither grub-reboot nor grub2-reboot is on this node"
    if boot.kind == "bls" and re.fullmatch(r"\d+", boot.chosen or "") and boot.chosen != "0":
        return "GRUB's default entry is a number, which an entry on trial could shift"
    return None


def _uki(sysroot: SysRoot) -> Optional[str]:
    """The file that shows that the node boots unified kernel images, or None."""
    for esp in ESP_DIRS:
        directory = f"{esp}/EFI/Linux"
        name = next((name for name in sysroot.listdir(directory) if name.lower().endswith(".efi")), None)
        if name is not None:
            return f"{directory}/{name}"
    text = sysroot.text("/etc/kernel/install.conf") or ""
    return "/etc/kernel/install.conf" if re.search(r"^\s*layout\s*=\s*uki\s*$", text, re.MULTILINE) else None


def _once(sysroot: SysRoot) -> Optional[bool]:
    """Whether the file system of /boot can take the boot loader's note back; None where that cannot be told."""
    best: Tuple[int, str, str] = (0, "", "")
    for line in (sysroot.text("/proc/mounts") or "").split("\n"):
        fields = line.split()
        if len(fields) >= 3 and (fields[1] == "/" or fields[1] == "/boot" or fields[1] in ("/boot/grub", "/boot/grub2")) and len(fields[1]) >= best[0]:
            best = (len(fields[1]), fields[0], fields[2])
    if not best[2]:
        return None
    if best[2] in _NEVER or re.match(r"/dev/(mapper/|dm-|md)", best[1]):
        return False
    return True if best[2] in _ONCE and best[1].startswith("/dev/") else None


def _cmdline_file(sysroot: SysRoot, boot: Boot) -> None:
    for path in ("/etc/kernel/cmdline", "/usr/lib/kernel/cmdline"):
        text = sysroot.text(path)
        if text is not None:
            boot.args = [arg for number, line in enumerate(text.split("\n"), 1) for arg in kernel_args.parse(line, path, number).args]
            boot.source = path
            boot.foreign_args = list(boot.args)
            return


def grub_files(sysroot: SysRoot) -> List[str]:
    """/etc/default/grub and the drop-ins that Debian's grub-mkconfig sources after it, in the shell's order."""
    names = [name for name in sysroot.listdir(GRUB_D) if name.endswith(".cfg") and not name.startswith(".")]
    return [GRUB_DEFAULT] + [f"{GRUB_D}/{name}" for name in names]


def _grub(sysroot: SysRoot, boot: Boot, grub_text: Optional[str], once: bool) -> None:
    texts: List[Tuple[str, str]] = [(GRUB_DEFAULT, grub_text)] if grub_text is not None else []
    unread = False
    if boot.kind == "grub-drop-in":
        for path in grub_files(sysroot)[1:]:
            before = len(sysroot.problems)
            text = sysroot.text(path)
            if text is not None:
                texts.append((path, text))
            elif len(sysroot.problems) > before:
                unread = True
    defaults = kernel_args.grub_defaults(texts)
    for problem in defaults.problems:
        sysroot.problem(problem["file"], problem["reason"])
    ours = kernel_args.block_lines(grub_text or "")

    def is_ours(file: Optional[str], line: Optional[int]) -> bool:
        return file == knobs.FILE_GRUB or (file == GRUB_DEFAULT and line in ours)

    boot.foreign_args = [arg for arg in defaults.known_args() if not is_ours(arg.file, arg.line)]
    boot.replaced = [item for item in defaults.dropped if is_ours(item[0].file, item[0].line) and not is_ours(item[2], item[3])]
    if sysroot.live:
        if boot.grub_dir is not None:
            _next_entry(sysroot, boot, boot.grub_dir, once)
        return
    if texts and not unread:
        boot.args = defaults.kernel_args()
        boot.source = GRUB_DEFAULT


def _grubenv(sysroot: SysRoot, grub_dir: Optional[str]) -> Tuple[Dict[str, str], str]:
    for path in [f"{directory}/grubenv" for directory in ((grub_dir,) if grub_dir else GRUB_DIRS)]:
        text = sysroot.text(path, 2**16)
        if text is not None:
            return kernel_args.grubenv(text), path
    return {}, f"{grub_dir or GRUB_DIRS[1]}/grubenv"


def _next_entry(sysroot: SysRoot, boot: Boot, grub_dir: str, once: bool) -> None:
    """The default entry of grub.cfg as GRUB would choose it now."""
    path = f"{grub_dir}/grub.cfg"
    text = sysroot.text(path)
    if text is None:
        return
    menu = kernel_args.grub_menu(text)
    environment, _file = _grubenv(sysroot, grub_dir)
    boot.obeys_next_entry = menu.next_entry
    boot.next_entry = environment.get("next_entry") or None
    default = boot.next_entry if menu.next_entry and once else None
    if not default:
        default = re.sub("\x00([A-Za-z0-9_]+)\x01", lambda match: environment.get(match.group(1), menu.variables.get(match.group(1), "")), menu.default or "")
    entry = kernel_args.find_entry(menu.entries, default or "0")
    if entry is None and default:
        # GRUB falls back to its first entry when the one it was told is gone.
        sysroot.problem(path, "names a default entry that is not there; GRUB then starts the first one")
        default = "0"
        entry = kernel_args.find_entry(menu.entries, default)
    if entry is None:
        sysroot.problem(path, "has no entry to boot")
        return
    args = kernel_args.entry_args(entry, {**menu.variables, **environment}, path)
    if args is None:
        sysroot.problem(f"{path}:{entry.line}", "the default entry starts no Linux kernel")
        return
    boot.chosen = default or "0"
    boot.kernel = entry.linux.words[1] if entry.linux else None
    boot.entry, boot.source, boot.args = entry.id or entry.title, f"{path}:{entry.linux.line if entry.linux else entry.line}", args


def _bls(sysroot: SysRoot, boot: Boot, names: List[str], once: bool) -> None:
    """The default entry among BLS files (grub's blscfg, rhboot/grub2): by saved_entry, else the newest kernel."""
    grub_dir = boot.grub_dir
    environment, env_path = _grubenv(sysroot, grub_dir)
    ordered = sorted((name[:-len(".conf")] for name in names), key=kernel_args.version_key, reverse=True)
    boot.next_entry = environment.get("next_entry") or None
    # grub.cfg of this family obeys next_entry (util/grub.d/00_header.in); a stub or none at all is not known to.
    boot.obeys_next_entry = grub_dir is not None and kernel_args.grub_menu(sysroot.text(f"{grub_dir}/grub.cfg") or "").next_entry
    wanted = (boot.next_entry if once else None) or environment.get("saved_entry") or "0"
    chosen = wanted[:-len(".conf")] if wanted.endswith(".conf") else wanted
    if chosen not in ordered:
        titles = {}
        for name in ordered:
            for _number, title in kernel_args.bls_entry(sysroot.text(f"{BLS_DIR}/{name}.conf") or "").get("title", []):
                titles[title] = name
        if chosen in titles:
            chosen = titles[chosen]
        elif re.fullmatch(r"\d{1,4}", chosen) and int(chosen) < len(ordered):
            chosen = ordered[int(chosen)]
        else:
            sysroot.problem(env_path, "names an entry that is not there; the newest one is booted")
            chosen = ordered[0]
    path = f"{BLS_DIR}/{chosen}.conf"
    text = sysroot.text(path)
    if text is None:
        return
    variables = dict(environment)
    if "kernelopts" not in variables and grub_dir is not None:
        # RHEL 8's grub.cfg sets a value of its own where grubenv has none.
        default = kernel_args.grub_menu(sysroot.text(f"{grub_dir}/grub.cfg") or "").variables.get("kernelopts")
        if default is not None:
            variables["kernelopts"] = default
    args, missing = kernel_args.bls_args(text, path, variables, env_path)
    if "kernelopts" in missing:
        sysroot.problem(path, "takes its arguments from $kernelopts, which the environment of GRUB does not have")
        return
    boot.entry, boot.source, boot.args = chosen, path, args
    boot.chosen = wanted
    boot.kernel = next((value for _number, value in kernel_args.bls_entry(text).get("linux", [])), None)
    ours = recorded(sysroot)
    boot.foreign_args = [arg for arg in args if arg.raw not in ours]


def recorded(sysroot: SysRoot) -> List[str]:
    """The arguments that this collection gave to BLS entries, which have no place for a mark of ours."""
    try:
        found = json.loads(sysroot.text(FILE_RECORD) or "{}").get("args", [])
        return [arg for arg in found if isinstance(arg, str)]
    except (ValueError, AttributeError, TypeError, RecursionError):
        sysroot.problem(FILE_RECORD, "is not what this collection writes")
        return []


__all__ = ("BLS_DIR", "FILE_RECORD", "GRUB_D", "GRUB_DEFAULT", "GRUB_DIRS", "Boot", "grub_files", "read_boot", "recorded", "trial_obstacle")
