# Copyright (c) 2026 The inferops.locality authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Configuration that a node collects from several directories: sysctl.d, tmpfiles.d, systemd's drop-ins, tuned's profiles.

Each has rules of its own for which file is read and which line wins; they are here, so that state.py asks only for answers.
"""

from __future__ import annotations

import fnmatch
import re
from dataclasses import dataclass, field
from typing import Dict, List, NamedTuple, Optional, Sequence, Tuple

from ansible_collections.inferops.locality.plugins.module_utils.sysroot import SysRoot

SYSCTL_DIRS: Tuple[str, ...] = ("/etc/sysctl.d", "/run/sysctl.d", "/usr/local/lib/sysctl.d", "/usr/lib/sysctl.d", "/lib/sysctl.d")
TMPFILES_DIRS: Tuple[str, ...] = ("/etc/tmpfiles.d", "/run/tmpfiles.d", "/usr/local/lib/tmpfiles.d", "/usr/lib/tmpfiles.d")
# systemd.unit(5), Unit File Load Path of the system manager, highest priority first.
UNIT_DIRS: Tuple[str, ...] = (
    "/etc/systemd/system.control", "/run/systemd/system.control", "/run/systemd/transient", "/run/systemd/generator.early",
    "/etc/systemd/system", "/etc/systemd/system.attached", "/run/systemd/system", "/run/systemd/system.attached", "/run/systemd/generator",
    "/usr/local/lib/systemd/system", "/usr/lib/systemd/system", "/lib/systemd/system", "/run/systemd/generator.late",
)
# What a distribution brings; the rest was put there by an operator or a tool.
_VENDOR = ("/usr/", "/lib/", "/run/systemd/generator")


class Setting(NamedTuple):
    """One value with the file and line that gives it."""

    value: str
    file: str
    line: int

    @property
    def source(self) -> str:
        """``path:line``."""
        return f"{self.file}:{self.line}"


def is_vendor(path: str) -> bool:
    """Whether a file belongs to the distribution: what it sets is a default, not somebody's decision."""
    return path.startswith(_VENDOR)


def _real(sysroot: SysRoot, path: str) -> str:
    """The file behind a link (99-sysctl.conf is /etc/sysctl.conf), since that is the one to edit."""
    return (sysroot.realpath(path) or path) if sysroot.readlink(path) is not None else path


def drop_ins(sysroot: SysRoot, dirs: Sequence[str], suffix: str = ".conf") -> List[str]:
    """Files of several directories in order of their names; of one name the first directory's, and none if that is a mask.

    A link to /dev/null hides the files of its name (sysctl.d(5), tmpfiles.d(5), systemd.unit(5)).
    """
    chosen: Dict[str, str] = {}
    for directory in dirs:
        for name in sysroot.listdir(directory):
            if name.endswith(suffix):
                chosen.setdefault(name, f"{directory}/{name}")
    return [chosen[name] for name in sorted(chosen) if sysroot.readlink(chosen[name]) != "/dev/null"]


# -- sysctl.d


def _sysctl_key(text: str) -> str:
    """The key with ``/`` between its parts: the separator that comes first is the one meant, the other is part of a name."""
    first = re.search(r"[./]", text)
    return text if first is None or first.group() == "/" else text.translate(str.maketrans("./", "/."))


def sysctls(sysroot: SysRoot, keys: Sequence[str]) -> Dict[str, List[Setting]]:
    """What systemd-sysctl sets at boot: key (``vm.swappiness``) to its assignments in order; the last one counts.

    Files go by name over all directories (sysctl.d(5)); an assignment to the very key beats one by a pattern, whatever the
    order; ``-key`` without a value takes the key out of patterns. /etc/sysctl.conf is read only through a link.
    """
    exact: Dict[str, List[Setting]] = {key: [] for key in keys}
    globbed: Dict[str, List[Setting]] = {key: [] for key in keys}
    excluded: Dict[str, bool] = {}
    wanted = {key.replace(".", "/"): key for key in keys}
    for path in drop_ins(sysroot, SYSCTL_DIRS):
        text = sysroot.text(path)
        real = _real(sysroot, path)
        for number, name, value in _sysctl_lines(text or ""):
            plain = name[1:].strip() if name.startswith("-") else name
            key = _sysctl_key(plain).lstrip("/")
            if value is None:
                if name.startswith("-") and key in wanted:
                    excluded[wanted[key]] = True
                continue
            setting = Setting(value, real, number)
            if key in wanted:
                exact[wanted[key]].append(setting)
            elif any(char in key for char in "*?["):
                for path_form, dotted in wanted.items():
                    if fnmatch.fnmatchcase(path_form, key):
                        globbed[dotted].append(setting)
    return {key: exact[key] or ([] if excluded.get(key) else globbed[key]) for key in keys}


def sysctl_file(sysroot: SysRoot, path: str, keys: Sequence[str]) -> Dict[str, List[Setting]]:
    """Assignments to these keys in one file, whether or not it is read at boot."""
    wanted = {key.replace(".", "/"): key for key in keys}
    found: Dict[str, List[Setting]] = {key: [] for key in keys}
    for number, name, value in _sysctl_lines(sysroot.text(path) or ""):
        key = _sysctl_key(name.lstrip("-").strip()).lstrip("/")
        if value is not None and key in wanted:
            found[wanted[key]].append(Setting(value, path, number))
    return found


def sysctl_names(sysroot: SysRoot, path: str) -> List[Tuple[int, str]]:
    """Line and key (``vm.swappiness``) of every assignment of one file."""
    lines = [(number, name) for number, name, value in _sysctl_lines(sysroot.text(path) or "") if value is not None]
    keys = [(number, _sysctl_key(name.lstrip("-").strip()).lstrip("/")) for number, name in lines]
    return [(number, key.translate(str.maketrans("./", "/."))) for number, key in keys]


def _sysctl_lines(text: str) -> List[Tuple[int, str, Optional[str]]]:
    lines: List[Tuple[int, str, Optional[str]]] = []
    for number, raw in enumerate(text.split("\n"), 1):
        line = raw.strip()
        if not line or line[0] in "#;":
            continue
        name, equals, value = line.partition("=")
        lines.append((number, name.strip(), value.strip() if equals else None))
    return lines


def sysctl_lines(text: str, keys: Sequence[str], mask: str) -> List[str]:
    """The lines of a sysctl.d file, for a copy that gives the same answers for these keys: comments and lines without an assignment
    are empty, the value of another key is ``mask``."""
    wanted = {key.replace(".", "/") for key in keys}
    lines = [""] * (text.count("\n") + 1)
    for number, name, value in _sysctl_lines(text):
        key = _sysctl_key(name.lstrip("-").strip()).lstrip("/")
        read = key in wanted
        globbed = any(char in key for char in "*?[") and any(fnmatch.fnmatchcase(path, key) for path in wanted)
        if value is not None:
            lines[number - 1] = f"{name} = {value if read or globbed else mask}"
        elif read:
            lines[number - 1] = name
    return lines


# -- tmpfiles.d


class Write(NamedTuple):
    """One ``w`` line of tmpfiles.d."""

    pattern: str
    setting: Setting
    append: bool
    at_boot_only: bool = False


def tmpfiles_writes(sysroot: SysRoot) -> List[Write]:
    """``w`` lines in the order systemd-tmpfiles runs them at boot.

    Of several lines for one path the first counts, in the order of file names (tmpfiles.d(5)), so an earlier file wins here,
    other than in sysctl.d; ``w+`` lines are all run. Lines for different patterns are run in the order they were read.
    """
    return _tmpfiles(sysroot)[0]


def tmpfiles_after_boot(sysroot: SysRoot) -> List[Write]:
    """``w`` lines that lose at boot to a ``w!`` line before them, and win when systemd-tmpfiles runs without ``--boot``.

    Without it ``w!`` lines are passed over before lines for one path are compared (systemd, src/tmpfiles/tmpfiles.c).
    """
    return _tmpfiles(sysroot)[1]


def tmpfiles_targets(sysroot: SysRoot, path: str) -> List[Tuple[int, str, str]]:
    """Line, type and path of every line of one file, whether or not it counts."""
    rows = [(number, line.split(None, 2)) for number, line in enumerate((sysroot.text(path) or "").split("\n"), 1)]
    return [(number, fields[0], _unquote(fields[1])) for number, fields in rows if len(fields) > 1 and not fields[0].startswith("#")]


def _tmpfiles(sysroot: SysRoot) -> Tuple[List[Write], List[Write]]:
    order: Dict[str, List[Write]] = {}
    after_boot: List[Write] = []
    for path in drop_ins(sysroot, TMPFILES_DIRS):
        for number, line in enumerate((sysroot.text(path) or "").split("\n"), 1):
            fields = line.split(None, 6)
            if len(fields) < 7 or fields[0].startswith("#"):
                continue
            kind = fields[0]
            if not kind.startswith("w") or not re.fullmatch(r"w[!+\-=~^$]*", kind):
                continue
            target = _unquote(fields[1])
            append = "+" in kind[1:]
            write = Write(target, Setting(_unescape(_unquote(fields[6].strip())), path, number), append, "!" in kind)
            earlier = order.setdefault(target, [])
            if append or not earlier or all(item.setting.value == write.setting.value for item in earlier):
                earlier.append(write)
            elif not write.at_boot_only and all(item.at_boot_only for item in earlier):
                after_boot.append(write)
    return [write for writes in order.values() for write in writes], after_boot


def _unquote(text: str) -> str:
    return text[1:-1] if len(text) > 1 and text[0] == text[-1] and text[0] in "\"'" else text


def _unescape(text: str) -> str:
    return re.sub(r"\\(.)", lambda match: {"n": "\n", "t": "\t"}.get(match.group(1), match.group(1)), text.replace("%%", "%")).strip()


def written(writes: Sequence[Write], path: str) -> Optional[Setting]:
    """What is written last to a path, patterns included; None where nothing is."""
    found = None
    for write in writes:
        if write.pattern == path or (any(char in write.pattern for char in "*?[{") and _matches(path, write.pattern)):
            found = write.setting
    return found


def _matches(path: str, pattern: str) -> bool:
    """glob(3) with braces: ``*`` does not cross a ``/``."""
    for one in _braces(pattern):
        left, right = path.split("/"), one.split("/")
        if len(left) == len(right) and all(fnmatch.fnmatchcase(a, b) for a, b in zip(left, right)):
            return True
    return False


def _braces(pattern: str, depth: int = 0) -> List[str]:
    match = re.search(r"\{([^{}]*)\}", pattern)
    if not match or depth > 4:
        return [pattern]
    return [item for part in match.group(1).split(",")[:64] for item in _braces(pattern[:match.start()] + part + pattern[match.end():], depth + 1)]


# -- systemd units


@dataclass
class UnitLines:
    """Assignments to one key of a unit over its file and drop-ins, in the order systemd reads them.

    :ivar lines: the settings; an empty value is an assignment that resets the list.
    """

    lines: List[Setting] = field(default_factory=list)

    def effective(self) -> List[Setting]:
        """The settings after the last reset."""
        kept: List[Setting] = []
        for setting in self.lines:
            kept = [] if setting.value == "" else kept + [setting]
        return kept


def unit_files(sysroot: SysRoot, unit: str) -> List[str]:
    """The unit's file, then its drop-ins by name; of one name the directory with the highest priority counts (systemd.unit(5)).

    Drop-ins of the unit's type (``slice.d``) are read too; those of the unit itself count before them on the same name.
    """
    files: List[str] = []
    for directory in UNIT_DIRS:
        path = f"{directory}/{unit}"
        if sysroot.readlink(path) == "/dev/null":
            break
        if sysroot.exists(path):
            files.append(path)
            break
    kind = unit.rpartition(".")[2]
    return files + drop_ins(sysroot, [f"{directory}/{unit}.d" for directory in UNIT_DIRS] + [f"{directory}/{kind}.d" for directory in UNIT_DIRS])


def unit_setting(sysroot: SysRoot, unit: str, section: str, key: str) -> UnitLines:
    """Every assignment to a key of a unit."""
    result = UnitLines()
    for path in unit_files(sysroot, unit):
        for setting in ini_lines(sysroot, path, section, key):
            result.lines.append(setting)
    return result


def ini_lines(sysroot: SysRoot, path: str, section: str, key: str) -> List[Setting]:
    """Assignments to a key in a section of one file of systemd's syntax (systemd.syntax(7)), continued lines joined."""
    return [setting for here, name, setting in ini_settings(sysroot, path) if (here, name) == (section, key)]


def ini_settings(sysroot: SysRoot, path: str) -> List[Tuple[str, str, Setting]]:
    """All assignments of such a file, each with its section and key."""
    found: List[Tuple[str, str, Setting]] = []
    here = ""
    lines = (sysroot.text(path) or "").split("\n")
    at = 0
    while at < len(lines):
        number = at + 1
        line = lines[at].strip()
        at += 1
        if not line or line[0] in "#;":
            continue
        while line.endswith("\\") and at < len(lines):
            following = lines[at].strip()
            at += 1
            if not following.startswith(("#", ";")):
                line = line[:-1].rstrip() + " " + following
        if line.startswith("[") and line.endswith("]"):
            here = line[1:-1]
            continue
        name, equals, value = line.partition("=")
        if equals:
            found.append((here, name.strip(), Setting(value.strip(), path, number)))
    return found


def unit_cgroup(unit: str) -> str:
    """The cgroup of a service that runs; it is not there otherwise."""
    return f"/sys/fs/cgroup/system.slice/{unit}"


def enabled(sysroot: SysRoot, unit: str) -> Optional[str]:
    """The link that starts a unit at boot (``*.wants``, ``*.requires`` of a target), or None."""
    for directory in ("/etc/systemd/system", "/run/systemd/system", "/usr/local/lib/systemd/system", "/usr/lib/systemd/system"):
        for name in sysroot.listdir(directory):
            if name.endswith((".target.wants", ".target.requires")):
                path = f"{directory}/{name}/{unit}"
                if sysroot.readlink(path) is not None or sysroot.exists(path):
                    return path
    return None


def mask(sysroot: SysRoot, unit: str) -> Optional[str]:
    """The link to /dev/null (or the empty file) that masks a unit, or None."""
    for directory in ("/etc/systemd/system", "/run/systemd/system"):
        path = f"{directory}/{unit}"
        if sysroot.readlink(path) == "/dev/null":
            return path
    return None


# -- environment files


def environment(sysroot: SysRoot, path: str) -> Dict[str, Setting]:
    """Variables of a file for EnvironmentFile= (systemd.exec(5)): no expansion, quotes around a value are taken off."""
    found: Dict[str, Setting] = {}
    for number, line in enumerate((sysroot.text(path) or "").split("\n"), 1):
        match = re.fullmatch(r"\s*(?:export\s+)?([A-Za-z_][A-Za-z0-9_]*)=(.*)", line)
        if match:
            found[match.group(1)] = Setting(_unquote(match.group(2).strip()), path, number)
    return found


def environment_assignments(setting: Setting) -> Dict[str, Setting]:
    """Variables of one ``Environment=`` line of a unit: words ``NAME=value``, each with quotes around it or its value."""
    found: Dict[str, Setting] = {}
    for match in re.finditer(r'"([A-Za-z_]\w*)=([^"]*)"|\'([A-Za-z_]\w*)=([^\']*)\'|([A-Za-z_]\w*)=("[^"]*"|\'[^\']*\'|\S*)', setting.value):
        double, double_value, single, single_value, plain, plain_value = match.groups()
        name = double or single or plain
        value = double_value if double else single_value if single else _unquote(plain_value or "")
        found[name] = Setting(value or "", setting.file, setting.line)
    return found


# -- tuned


@dataclass
class TunedProfile:
    """A profile with its parents put in.

    :ivar sections: plug-in type and section name to option to its setting; the profile's own beat its parents'.
    :ivar missing: names of profiles that were not found.
    """

    sections: Dict[Tuple[str, str], Dict[str, Setting]] = field(default_factory=dict)
    missing: List[str] = field(default_factory=list)

    def options(self, kind: str) -> Dict[str, Setting]:
        """All options of the sections of a plug-in, later sections last."""
        merged: Dict[str, Setting] = {}
        for (section_kind, _name), options in self.sections.items():
            if section_kind == kind:
                merged.update(options)
        return merged


def tuned_profile(sysroot: SysRoot, dirs: Sequence[str], names: Sequence[str], _seen: Optional[List[str]] = None) -> TunedProfile:
    """Read profiles by name, in order, with ``include=`` of each (parents first). ``dirs``: the directory that counts comes last."""
    result = TunedProfile()
    seen = [] if _seen is None else _seen
    for name in names:
        if name in seen or not re.fullmatch(r"[A-Za-z0-9_.+-]+", name) or name in (".", ".."):
            continue
        seen.append(name)
        path = next((file for file in (f"{directory}/{name}/tuned.conf" for directory in reversed(dirs)) if sysroot.exists(file)), None)
        text = sysroot.text(path) if path is not None else None
        if path is None or text is None:
            result.missing.append(name)
            continue
        own: Dict[str, Dict[str, Setting]] = {}
        section = ""
        for number, raw in enumerate(text.split("\n"), 1):
            line = raw.strip()
            if not line or line[0] in "#;":
                continue
            if line.startswith("[") and line.endswith("]"):
                section = line[1:-1].strip()
                own.setdefault(section, {})
                continue
            option, equals, value = line.partition("=")
            if equals and section:
                own[section][option.strip()] = Setting(re.sub(r"\s+#.*$", "", value).strip(), path, number)
        parents = re.split(r"[,;\s]+", own.get("main", {}).get("include", Setting("", path, 0)).value)
        parent = tuned_profile(sysroot, dirs, [item.lstrip("-") for item in parents if item and "$" not in item], seen)
        result.missing += parent.missing
        for source in (parent.sections, {(_kind(name_, options), name_): options for name_, options in own.items() if name_ != "main"}):
            for key, options in source.items():
                if options.get("replace", Setting("", "", 0)).value.lower() in ("1", "true", "yes"):
                    result.sections[key] = {}
                result.sections.setdefault(key, {}).update(options)
    return result


def _kind(name: str, options: Dict[str, Setting]) -> str:
    return options["type"].value if "type" in options else name


__all__ = (
    "SYSCTL_DIRS",
    "TMPFILES_DIRS",
    "UNIT_DIRS",
    "Setting",
    "TunedProfile",
    "UnitLines",
    "Write",
    "drop_ins",
    "enabled",
    "environment",
    "environment_assignments",
    "ini_lines",
    "ini_settings",
    "is_vendor",
    "mask",
    "sysctl_file",
    "sysctl_lines",
    "sysctl_names",
    "sysctls",
    "tmpfiles_after_boot",
    "tmpfiles_targets",
    "tmpfiles_writes",
    "tuned_profile",
    "unit_cgroup",
    "unit_files",
    "unit_setting",
    "written",
)
