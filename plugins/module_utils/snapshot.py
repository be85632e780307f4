# Copyright (c) 2026 The inferops.locality authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One archive with what the two facts modules read from a node, for planning without the node and for bug reports.

Both readers are run over a root that notes every look: contents as they were read, names of listed folders, links, and what was only
asked to be there. Read from the unpacked archive, the facts are those of the node. What the readers do not need does not leave the node:
configuration is cut to the lines they use (RKE2's to its whitelist of keys), each on its own line number.
"""

from __future__ import annotations

import gzip
import io
import ipaddress
import json
import os
import platform as running_python
import re
import stat
import struct
import tarfile
from typing import Callable, Dict, List, NamedTuple, Optional, Set, Tuple

from ansible_collections.inferops.locality.plugins.module_utils import kernel_args, knobs, net_devices, rke2_config
from ansible_collections.inferops.locality.plugins.module_utils.probe import PROBE_DIR, Answer, Probe
from ansible_collections.inferops.locality.plugins.module_utils.state import read_state
from ansible_collections.inferops.locality.plugins.module_utils.state_files import sysctl_lines
from ansible_collections.inferops.locality.plugins.module_utils.state_knobs import SYSCTL_KEYS
from ansible_collections.inferops.locality.plugins.module_utils.sysroot import DEFAULT_LIMIT, MANIFEST, SysRoot
from ansible_collections.inferops.locality.plugins.module_utils.topology import read_topology

FORMAT = 1
MASK = "********"


class Snapshot(NamedTuple):
    """What an archive holds, by node path. ``files``: content and permission bits."""

    files: Dict[str, Tuple[bytes, int]]
    links: Dict[str, str]
    dirs: Set[str]
    left_out: List[Dict[str, str]]
    unreadable: Dict[str, str]


class _Recorder(SysRoot):
    """A root that notes what is looked at. Paths in its notes have no link left in them."""

    def __init__(self, root: str, offline: bool = False) -> None:
        super().__init__(root)
        if offline:
            self.live = False
        self.contents: Dict[str, bytes] = {}
        self.present: Set[str] = set()
        self.listed: Dict[str, List[str]] = {}
        self.modes: Dict[str, int] = {}

    def data(self, path: str, limit: int = DEFAULT_LIMIT) -> Optional[bytes]:
        content = super().data(path, limit)
        # realpath() notes what is there
        real = self.realpath(path)
        if content is not None and real is not None:
            self.contents.setdefault(real, content)
        return content

    def realpath(self, path: str) -> Optional[str]:
        real = super().realpath(path)
        if real is not None:
            self.present.add(real)
        return real

    def is_dir(self, path: str) -> bool:
        self.realpath(path)
        return super().is_dir(path)

    def listdir(self, path: str) -> List[str]:
        names = super().listdir(path)
        real = self.realpath(path)
        if real is not None and self.reads.get(path) == "dir":
            self.listed[real] = names
        return names

    def mode(self, path: str) -> Optional[int]:
        bits = super().mode(path)
        real = self.realpath(path)
        if real is not None and bits is not None:
            self.modes[real] = bits
        return bits

    def links(self) -> Dict[str, str]:
        """Every link that was looked at, and its target."""
        found: Dict[str, str] = {}
        for path in [path for path, kind in self.reads.items() if kind == "link"]:
            parent, name = os.path.split(path)
            real = super().realpath(parent)
            here = f"{(real or '').rstrip('/')}/{name}"
            try:
                found[here] = os.readlink(self.on_host(here))
            except OSError:
                continue
        return found


class _Recorded(Probe):
    """Gives the answers another probe got."""

    def __init__(self, sysroot: SysRoot, answers: Dict[str, Answer]) -> None:
        super().__init__(sysroot)
        self.answers = dict(answers)

    def _run(self, name: str, argv: Tuple[str, ...]) -> Optional[Answer]:
        return None

    def _recorded(self, file: str) -> Optional[Answer]:
        return None


def collect(root: str = "/", anonymize: bool = False) -> Snapshot:
    """Read a node and put together what its snapshot holds. Raises nothing for what a node holds.

    :param root: ``/`` for this machine, or the directory in which a node's ``/`` lies.
    :param anonymize: replace hardware and network addresses, host names, UUIDs and serial numbers, the same by the same everywhere.
    """
    live = _Recorder(root)
    probe = Probe(live)
    read_topology(live)
    read_state(live, probe)
    recorders = [live]
    if live.live:
        # Below a root the readers look at other files than on the running machine (what the next boot would have, which Python is there).
        offline = _Recorder(root, offline=True)
        read_state(offline, _Recorded(offline, probe.answers))
        recorders.append(offline)
    snapshot = _gather(recorders)
    _redact(snapshot, live)
    for name, answer in probe.answers.items():
        answer = net_devices.cut(answer) if name.startswith(("ip-link.", "ip-vxlan.")) else answer
        snapshot.files[f"{PROBE_DIR}/{name}"] = (answer.record().encode(), 0o644)
    return _Anonymous(live).apply(snapshot) if anonymize else snapshot


def _gather(recorders: List[_Recorder]) -> Snapshot:
    snapshot = Snapshot({}, {}, {"/"}, [], {})
    for recorder in recorders:
        for path, target in recorder.links().items():
            snapshot.links.setdefault(path, _inside(path, target))
        for path, content in recorder.contents.items():
            snapshot.files.setdefault(path, (content, 0o644))
    for recorder in recorders:
        names = set(recorder.present)
        for folder, children in recorder.listed.items():
            names.add(folder)
            names |= {f"{folder.rstrip('/')}/{name}" for name in children}
        for path in names:
            _presence(snapshot, recorder, path)
        # whether a mask may be written is what tells that the kernel manages an interrupt
        for path, bits in recorder.modes.items():
            if path in snapshot.files and not bits & 0o222:
                snapshot.files[path] = (snapshot.files[path][0], 0o444)
        for problem in recorder.problems if recorder is recorders[0] else []:
            if problem["reason"].startswith(("cannot be read", "cannot be listed", "is larger than")):
                snapshot.unreadable[problem["file"]] = problem["reason"]
    for path in list(snapshot.files):
        # an answer below a root is written again, and the manifest is a new one
        if path.startswith("/.locality/"):
            del snapshot.files[path]
    for path in [*snapshot.files, *snapshot.links, *snapshot.dirs]:
        while path != "/":
            path = os.path.dirname(path)
            snapshot.dirs.add(path)
    snapshot.dirs.difference_update({path for path in snapshot.dirs if path.startswith("/.locality")})
    return snapshot


def _presence(snapshot: Snapshot, recorder: _Recorder, path: str) -> None:
    """Put in what was only listed or asked for: an empty file, an empty folder or a link."""
    if path in snapshot.files or path in snapshot.links or path in snapshot.dirs or path.startswith("/.locality/"):
        return
    try:
        status = os.lstat(recorder.on_host(path))
        if stat.S_ISLNK(status.st_mode):
            snapshot.links[path] = _inside(path, os.readlink(recorder.on_host(path)))
        elif stat.S_ISDIR(status.st_mode):
            snapshot.dirs.add(path)
        elif stat.S_ISREG(status.st_mode):
            snapshot.files[path] = (b"", 0o644)
    except OSError:
        # gone since it was listed
        return


def _inside(path: str, target: str) -> str:
    """A link's target that counts from the link, so that the archive can be unpacked anywhere; the mask ``/dev/null`` stays."""
    parent = os.path.dirname(path)
    if target == "/dev/null":
        return target
    absolute = os.path.normpath(os.path.join(parent, target))
    depth = parent.count("/") if parent != "/" else 0
    for part in target.split("/"):
        depth += -1 if part == ".." else 1 if part not in ("", ".") else 0
        if depth < 0 or target.startswith("/"):
            # above / is still / on a running machine
            return os.path.relpath(absolute, parent)
    return target


# -- what does not leave the node

_SECRET_WORD = re.compile(
    r"""((?:[\w.\-]*(?:passw|passphrase|secret|token|cred|psk|(?:root|ssh|boot)pw|api[_-]?key|private[_-]?key|luks\.key"""
    r"""|(?<![A-Za-z])(?:pwd|pass|auth|pin)(?![A-Za-z]))[\w.\-]*"""
    r"""|(?<=[?&])(?:[\w.\-]*[._-])?(?:sig|signature|key|code|pw|\w*accesskey)(?:[._-][\w.\-]*)?)\s*[=:]\s*)"""
    r"""(?!\s)("[^"]*"|'[^']*'|[^\s"',;]+)""", re.IGNORECASE)
_URL_USER = re.compile(r"(?<=://)[^/@\s\"']*:[^/@\s\"']*(?=@)")
_ISCSI_USER = re.compile(r"(?<=iscsi:)[^/\s\"']*(?=@)")
_PASSWORD_LINE = re.compile(r"\s*password(?:_pbkdf2)?\s")
_UNIT_KEYS = frozenset(("AllowedCPUs", "CPUAffinity", "EnvironmentFile", "LimitMEMLOCK"))
_ENVIRONMENT_WORD = re.compile(r"\"(IRQBALANCE_\w+)=([^\"]*)\"|'(IRQBALANCE_\w+)=([^']*)'|(?<!\S)(IRQBALANCE_\w+)=(\S*)")
_KUBELET_FIELD = re.compile(
    r"[ \t]{0,8}\"?(?:apiVersion|kind|cpuManager|topologyManager|memoryManager|reserved|systemReserved|kubeReserved|eviction|enforceNode)\w*\"?[ \t]*:"
)


def mask(text: str) -> str:
    """A text with the values of words that are named like secrets replaced, and users and passwords in addresses."""
    lines = []
    for line in text.split("\n"):
        if _PASSWORD_LINE.match(line):
            line = ""
        line = _SECRET_WORD.sub(lambda match: match.group(1) + MASK, line)
        lines.append(_ISCSI_USER.sub(MASK, _URL_USER.sub(MASK, line)))
    return "\n".join(lines)


def unit_lines(text: str) -> str:
    """A systemd unit or drop-in cut to the settings that are read; continued lines are joined, line numbers stay."""
    lines = text.split("\n")
    kept = [""] * len(lines)
    at = 0
    while at < len(lines):
        first = at
        line = lines[at].strip()
        at += 1
        if line[:1] in ("", "#", ";"):
            continue
        while line.endswith("\\") and at < len(lines):
            following = lines[at].strip()
            at += 1
            if not following.startswith(("#", ";")):
                line = line[:-1].rstrip() + " " + following
        key, equals, value = (part.strip() for part in line.partition("="))
        if (line.startswith("[") and line.endswith("]")) or (equals and (key in _UNIT_KEYS or (key in ("Environment", "ExecStartPre") and not value))):
            kept[first] = line
        elif equals and key == "Environment":
            words = [f'"{groups[0] or groups[2] or groups[4]}={groups[1] or groups[3] or groups[5]}"' for groups in _ENVIRONMENT_WORD.findall(value)]
            kept[first] = f"Environment={' '.join(words)}" if words else ""
    return "\n".join(kept)


def tmpfiles_lines(text: str) -> str:
    """A tmpfiles.d file cut to what is written into the kernel's files: other lines may carry the content of any file."""
    def wanted(line: str) -> bool:
        fields = line.split(None, 2)
        return len(fields) > 2 and fields[0].startswith("w") and fields[1].lstrip("\"'").startswith(("/sys/", "/proc/"))
    return "\n".join(line if wanted(line) else "" for line in text.split("\n"))


def grub_lines(text: str) -> str:
    """A file of GRUB's settings without its comments, and with secrets masked.

    What starts a comment is guessed as the shell has it; a file that would then be read in another way keeps more of them.
    """
    read = kernel_args.grub_defaults([("", text)])
    whole = "\n".join(_block_mark(line) if line.lstrip().startswith("#") else line for line in text.split("\n"))
    for cut in (_without_comments(text), whole):
        if kernel_args.grub_defaults([("", cut)]) == read and kernel_args.block_lines(cut) == kernel_args.block_lines(text):
            return mask(cut)
    return mask(text)


def _block_mark(comment: str) -> str:
    """What stays of a comment: nothing, or the mark by which our part of the file is known."""
    return next((mark for mark in (kernel_args.BLOCK_BEGIN, kernel_args.BLOCK_END) if comment.startswith(mark)), "")


def _without_comments(text: str) -> str:
    kept: List[str] = []
    at, quote, word = 0, "", False
    while at < len(text):
        char = text[at]
        if char == "\\" and quote != "'":
            kept.append(text[at:at + 2])
            word = word or text[at + 1:at + 2] != "\n"
            at += 2
            continue
        if char == "#" and not quote and not word:
            end = text.find("\n", at)
            end = len(text) if end < 0 else end
            kept.append(_block_mark(text[at:end]))
            at = end
            continue
        if char in "\"'" and quote in ("", char):
            quote = "" if quote else char
        word = bool(quote) or char not in " \t\r\n;&|()"
        kept.append(char)
        at += 1
    return "".join(kept)


def sysctl_cut(text: str) -> str:
    """A sysctl.d file without comments, and with the values of other keys than those that are read masked."""
    return "\n".join(sysctl_lines(text, SYSCTL_KEYS, MASK))


def kubelet_command(data: bytes) -> bytes:
    """A kubelet's command line with the values of flags that may leave the node."""
    words = []
    value_follows = False
    for word in data.decode("utf-8", "replace").split("\0"):
        flag, equals, value = word.lstrip("-").partition("=")
        if word.startswith("--"):
            known = flag in rke2_config.KUBELET_FLAGS
            value_follows = known and not equals
            words.append(word if known and not rke2_config.glued(value) else f"--{flag}={rke2_config.LEFT_OUT}" if equals else word)
        elif not words or not word or (value_follows and not rke2_config.glued(word)):
            words.append(word)
            value_follows = False
        else:
            words.append(rke2_config.LEFT_OUT)
    return "\0".join(words).encode()


def kubelet_lines(text: str) -> str:
    """A KubeletConfiguration file cut to the fields that are read."""
    return "\n".join(line if _KUBELET_FIELD.match(line) else "" for line in text.split("\n"))


def mount_lines(text: str) -> str:
    """The mounts that tell where the boot loader's files lie."""
    return "\n".join(line for line in text.split("\n") if re.match(r"\S+ (?:/|/boot\S*|/efi\S*) ", line))


def _redact(snapshot: Snapshot, sysroot: _Recorder) -> None:
    rules = _rules(sysroot)
    for path, (content, bits) in list(snapshot.files.items()):
        if path.startswith(("/sys/", "/.locality/")) or not content:
            continue
        if re.fullmatch(r"/proc/\d+/cmdline", path):
            snapshot.files[path] = (kubelet_command(content), bits)
            continue
        if re.fullmatch(r"/proc/\d+/environ", path):
            words = [word for word in content.split(b"\0") if word.startswith(b"IRQBALANCE_BANNED_")]
            snapshot.files[path] = (b"\0".join(words), bits)
            continue
        if content.startswith(b"#!/usr/bin/env python3\nPK") or path == "/proc/config.gz":
            # our own program: its version is a hash over its content; and the packed form of what /boot/config-* says
            continue
        try:
            text: Optional[str] = content.replace(b"\0", b"").decode("utf-8")
        except UnicodeDecodeError:
            text = None
        if text is None:
            # enough to give the same problem
            snapshot.files[path] = (b"\xff", bits)
            snapshot.left_out.append({"file": path, "reason": "is not text"})
            continue
        rule, reason = next(((rule, reason) for matches, rule, reason in rules if matches(path)), (mask, "values named like secrets"))
        cut = rule(text)
        if cut != text:
            snapshot.left_out.append({"file": path, "reason": reason})
            snapshot.files[path] = (cut.encode(), bits)
    snapshot.left_out.sort(key=lambda entry: entry["file"])


Rule = Tuple[Callable[[str], bool], Callable[[str], str], str]


def _rules(sysroot: _Recorder) -> List[Rule]:
    """Which files are cut how; the first that fits counts, and masking secrets is for all others."""
    config = rke2_config.read(sysroot)
    rke2 = {sysroot.realpath(name) or name for name in rke2_config.file_names(sysroot, config.path)}
    environment = {sysroot.realpath(name) or name for name in rke2_config.ENVIRONMENT}
    named = {sysroot.realpath(arg.value) or arg.value for arg in config.kubelet_args if arg.flag in ("config", "config-dir") and arg.value.startswith("/")}
    # checkpoints carry a checksum over their content, which holds ids of pods and names of containers
    whole = re.compile(r".*/(?:cpu|memory)_manager_state|/proc/(?:interrupts|softirqs|meminfo|cpuinfo|sys/.*|irq/.*|\d+/comm)|/boot/config-.*")
    lines = "lines that are not read"
    return [
        (lambda path: path in rke2 or path.startswith("/etc/rancher/"), rke2_config.redact, "comments, and values of keys outside the whitelist"),
        (lambda path: path in environment, rke2_config.redact_environment, "variables outside the whitelist"),
        (lambda path: path in named or os.path.dirname(path) in named or "/kubelet.conf.d/" in path, kubelet_lines, lines),
        (lambda path: whole.fullmatch(path) is not None, lambda text: text, ""),
        # Ours, and judged by a checksum over each.
        (lambda path: path in (*knobs.FILES_IRQ_SERVICE, *knobs.FILES_FIRST_START), lambda text: text, ""),
        (lambda path: path.startswith("/etc/default/grub"), grub_lines, "comments, and values named like secrets"),
        (lambda path: "/sysctl.d/" in path or path == "/etc/sysctl.conf", sysctl_cut, "comments, and values of keys that are not read"),
        (lambda path: "/systemd/" in path, unit_lines, lines),
        (lambda path: "/tmpfiles.d/" in path, tmpfiles_lines, lines),
        (lambda path: path == "/proc/mounts" or path.endswith("/mounts"), mount_lines, lines),
    ]


# -- addresses and serials

_MAC = re.compile(r"(?<![0-9A-Fa-f:])[0-9A-Fa-f]{2}(?::[0-9A-Fa-f]{2}){5,19}(?![0-9A-Fa-f:])")
_UUID = re.compile(r"(?<![0-9A-Fa-f-])[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}(?![0-9A-Fa-f-])")
_MACHINE_ID = re.compile(r"(?<![0-9A-Za-z])[0-9a-f]{32}(?![0-9A-Za-z])")
_IPV4 = re.compile(r"(?<![\w.])(?:\d{1,3}\.){3}\d{1,3}(?![\w.])")
_IPV6 = re.compile(r"(?<![\w:.])[0-9A-Fa-f:]*:[0-9A-Fa-f:]*:[0-9A-Fa-f:.]*(?![\w:])")
_DISK = re.compile(r"(?<=/by-id/)[^\s\"'/]+|(?<=/by-path/)[^\s\"'/]+")
_IQN = re.compile(r"(?<!\w)(?:iqn|nqn)\.\d{4}-\d{2}\.[^\s\"',/]+")
_CPU_SERIAL = re.compile(r"(?m)^(Serial\s*:\s*)\S+")


class _Anonymous:
    """Replaces addresses and serials; the same one by the same everywhere, numbered in the order of the files' names."""

    def __init__(self, sysroot: _Recorder) -> None:
        self.seen: Dict[Tuple[str, str], str] = {}
        self.counts: Dict[str, int] = {}
        self.hosts = self._hosts(sysroot)

    def _hosts(self, sysroot: _Recorder) -> List[str]:
        config = rke2_config.read(sysroot)
        names = [config.values.get("node-name"), sysroot.text("/proc/sys/kernel/hostname"), sysroot.text("/etc/hostname")]
        names += [arg.value for arg in config.kubelet_args if arg.flag == "hostname-override"]
        found = {name for name in names if isinstance(name, str) and len(name) > 1 and name not in ("localhost", "(none)", rke2_config.LEFT_OUT)}
        found |= {name.split(".")[0] for name in found}
        # a longer name first: gpu-1.example.net before gpu-1
        return sorted(found, key=lambda name: (-len(name), name))

    def number(self, kind: str, value: str) -> int:
        """The running number of a value among its kind."""
        key = (kind, value.lower())
        if key not in self.seen:
            self.counts[kind] = self.counts.get(kind, 0) + 1
            self.seen[key] = str(self.counts[kind])
        return int(self.seen[key])

    def _mac(self, match: "re.Match[str]") -> str:
        parts = match.group().split(":")
        if set(parts) in ({"00"}, {"ff"}, {"FF"}):
            return match.group()
        number = self.number("mac", match.group())
        return ":".join(["02"] + ["00"] * (len(parts) - 4) + [f"{number >> shift & 255:02x}" for shift in (16, 8, 0)])

    def _ipv4(self, match: "re.Match[str]") -> str:
        try:
            address = ipaddress.IPv4Address(match.group())
        except ValueError:
            return match.group()
        if address.is_loopback or address.is_unspecified or match.group().startswith("255."):
            return match.group()
        number = self.number("ipv4", match.group())
        return f"198.{18 + (number >> 16) % 2}.{number >> 8 & 255}.{number & 255}"

    def _ipv6(self, match: "re.Match[str]") -> str:
        try:
            address = ipaddress.IPv6Address(match.group())
        except ValueError:
            return match.group()
        if address.is_loopback or address.is_unspecified:
            return match.group()
        return f"2001:db8::{self.number('ipv6', str(address)):x}"

    def path(self, text: str) -> str:
        """A path with ids and host names replaced; what looks like an address in sysfs is one of PCI."""
        text = _UUID.sub(lambda match: f"00000000-0000-4000-8000-{self.number('uuid', match.group()):012x}", text)
        text = _MACHINE_ID.sub(lambda match: f"{self.number('machine', match.group()):032x}", text)
        return self._host(text, plain=False)

    def text(self, text: str) -> str:
        """A text with all of them replaced."""
        text = _UUID.sub(lambda match: f"00000000-0000-4000-8000-{self.number('uuid', match.group()):012x}", text)
        text = _MACHINE_ID.sub(lambda match: f"{self.number('machine', match.group()):032x}", text)
        text = _IQN.sub(lambda match: f"{match.group()[:3]}.2000-01.example:{self.number('iqn', match.group())}", text)
        text = _DISK.sub(lambda match: f"disk-{self.number('disk', match.group())}", text)
        text = _IPV6.sub(self._ipv6, _IPV4.sub(self._ipv4, text))
        text = _MAC.sub(self._mac, text)
        text = _CPU_SERIAL.sub(lambda match: f"{match.group(1)}{0:016x}", text)
        return self._host(text, plain=False)

    def _host(self, text: str, plain: bool) -> str:
        for name in self.hosts:
            # a name such as "static" is a word of its own elsewhere
            if plain or re.search(r"[\d.-]", name):
                text = re.sub(rf"(?<![\w.-]){re.escape(name)}(?![\w-])", f"node-{self.number('host', name.split('.')[0])}", text)
        return text

    def named(self, text: str) -> str:
        """RKE2's configuration, where the node's name stands as a value and as nothing else."""
        def renamed(match: "re.Match[str]") -> str:
            name = match.group(2)
            return match.group(1) + (f"node-{self.number('host', name.split('.')[0])}" if name in self.hosts else name)

        return self.text(re.sub(r"""((?:node-name|hostname-override|RKE2_NODE_NAME)["']?\s*[:=]\s*["']?)([^\s"']+)""", renamed, text))

    def apply(self, snapshot: Snapshot) -> Snapshot:
        """The snapshot with contents, names and links replaced."""
        files: Dict[str, Tuple[bytes, int]] = {}
        for path, (content, bits) in sorted(snapshot.files.items()):
            files[self.path(path)] = (self._content(path, content), bits)
        return Snapshot(
            files, {self.path(path): self.path(target) for path, target in sorted(snapshot.links.items())},
            {self.path(path) for path in sorted(snapshot.dirs)},
            [{**entry, "file": self.path(entry["file"])} for entry in snapshot.left_out],
            {self.path(path): reason for path, reason in sorted(snapshot.unreadable.items())},
        )

    def _content(self, path: str, content: bytes) -> bytes:
        if re.fullmatch(r"/sys/devices/.*/config", path):
            return without_serial(content)
        # a checkpoint's ids are under its checksum, and our own program's content under its version
        if path.endswith(("_manager_state", ".pyz")) or path == "/proc/interrupts":
            return content
        if path.startswith("/sys/") and not path.endswith("/address"):
            return content
        if path == "/proc/sys/kernel/hostname" or path == "/etc/hostname":
            return self._host(content.decode("utf-8", "replace"), plain=True).encode()
        try:
            return self.named(content.decode("utf-8")).encode()
        except UnicodeDecodeError:
            return content


def without_serial(config: bytes) -> bytes:
    """PCI config space with the number of the Device Serial Number capability (id 3, PCIe base specification) zeroed."""
    data = bytearray(config)
    offset, steps = 0x100, 0
    while 0x100 <= offset <= len(data) - 12 and steps < 512:
        header = struct.unpack_from("<I", data, offset)[0]
        if header in (0, 0xFFFFFFFF):
            break
        if header & 0xFFFF == 3:
            data[offset + 4:offset + 12] = bytes(8)
        offset, steps = header >> 20, steps + 1
    return bytes(data)


# -- the archive

def manifest(snapshot: Snapshot, anonymize: bool) -> Dict[str, object]:
    """What the archive says about itself; ``unreadable`` gives the reader the problems the node's own reading had."""
    return {
        "format": FORMAT, "written_by": "inferops.locality", "anonymized": anonymize,
        "python": ".".join(running_python.python_version_tuple()[:2]),
        "files": sorted(snapshot.files), "links": sorted(snapshot.links),
        "left_out": snapshot.left_out, "unreadable": dict(sorted(snapshot.unreadable.items())),
    }


def pack(snapshot: Snapshot, anonymize: bool = False) -> bytes:
    """The archive (tar, gzip); the same content gives the same bytes."""
    buffer = io.BytesIO()
    files = {**snapshot.files, MANIFEST: ((json.dumps(manifest(snapshot, anonymize), indent=1, sort_keys=True) + "\n").encode(), 0o644)}
    dirs = set(snapshot.dirs) | {"/.locality"}
    if any(path.startswith(PROBE_DIR + "/") for path in files):
        dirs.add(PROBE_DIR)
    with gzip.GzipFile(fileobj=buffer, mode="wb", filename="", mtime=0, compresslevel=6) as stream, \
            tarfile.open(fileobj=stream, mode="w", format=tarfile.GNU_FORMAT) as archive:
        for path in sorted(dirs | set(files) | set(snapshot.links)):
            if path == "/":
                continue
            member = tarfile.TarInfo(path[1:])
            member.uname = member.gname = "root"
            if path in files:
                content, member.mode = files[path]
                member.size = len(content)
                archive.addfile(member, io.BytesIO(content))
            elif path in snapshot.links:
                member.type, member.linkname, member.mode = tarfile.SYMTYPE, snapshot.links[path], 0o777
                archive.addfile(member)
            else:
                member.type, member.mode = tarfile.DIRTYPE, 0o755
                archive.addfile(member)
    return buffer.getvalue()


__all__ = ("FORMAT", "MANIFEST", "Snapshot", "collect", "kubelet_command", "manifest", "mask", "pack", "tmpfiles_lines", "unit_lines", "without_serial")
