# Copyright (c) 2026 The inferops.locality authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Kernel command lines: reading, comparing, merging and printing them, and the files of GRUB that they come from.

Three grammars meet here. The kernel's own (lib/cmdline.c ``next_arg``): words between white space, ``"`` protects blanks,
no escapes, ``--`` ends the kernel's part. The shell's, of which ``/etc/default/grub`` and ``grub.d`` use assignments only.
And GRUB's, which reads the words once more in ``grub.cfg``: there a bare ``;`` ends the command.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Dict, Iterable, List, Mapping, NamedTuple, Optional, Sequence, Set, Tuple

from ansible_collections.inferops.locality.plugins.module_utils import cpulist, quantity
from ansible_collections.inferops.locality.plugins.module_utils.cpulist import CpuListError, CpuSet

# What the kernel's isspace() takes for a blank between arguments (lib/ctype.c; 0xa0 is Latin-1's and cannot occur in UTF-8 text).
_BLANKS = " \t\n\v\f\r"

# x86 and arm64 cut the line at COMMAND_LINE_SIZE, the final NUL included (asm/setup.h).
MAX_LENGTH = 2047


class KernelArgsError(ValueError):
    """An argument that cannot be written on a kernel command line."""


@dataclass(frozen=True)
class Arg:
    """One argument as the kernel understands it.

    :ivar raw: the word as it stands on the command line, quotes included.
    :ivar name: the text before the first ``=``, without quotes.
    :ivar value: the text after it, without enclosing quotes; None where there is no ``=``.
    """

    raw: str
    name: str
    value: Optional[str] = None
    file: Optional[str] = None
    line: Optional[int] = None
    closed: bool = True

    @property
    def key(self) -> str:
        """The name for comparing: the kernel takes ``-`` and ``_`` in names as equal (kernel/params.c ``parameqn``)."""
        return self.name.replace("-", "_")

    @property
    def source(self) -> Optional[str]:
        """``path:line`` where the argument comes from."""
        return None if self.file is None else self.file if self.line is None else f"{self.file}:{self.line}"


@dataclass(frozen=True)
class CommandLine:
    """A command line taken apart. :ivar init: the words after ``--``, which the kernel hands to init unread."""

    args: Tuple[Arg, ...] = ()
    init: Tuple[str, ...] = ()


def _word(raw: str, file: Optional[str] = None, line: Optional[int] = None) -> Arg:
    # next_arg(): a quote at the very start belongs to the whole argument; one right after the first "=" to the value.
    body = raw[1:] if raw.startswith('"') else raw
    quoted = raw.startswith('"')
    closed = raw.count('"') % 2 == 0
    name, equals, value = body.partition("=")
    if not equals:
        return Arg(raw, body[:-1] if quoted and body.endswith('"') else body, None, file, line, closed)
    if value.startswith('"'):
        value = value[1:]
        if value.endswith('"'):
            value = value[:-1]
    elif quoted and value.endswith('"'):
        value = value[:-1]
    return Arg(raw, name, value, file, line, closed)


def _spans(text: str) -> List[Tuple[int, str]]:
    """Offset and text of each word; blanks inside double quotes do not end one."""
    words: List[Tuple[int, str]] = []
    start = -1
    quoted = False
    for index, char in enumerate(text):
        if char in _BLANKS and not quoted:
            if start >= 0:
                words.append((start, text[start:index]))
                start = -1
            continue
        if start < 0:
            start = index
        if char == '"':
            quoted = not quoted
    if start >= 0:
        words.append((start, text[start:]))
    return words


def parse(line: str, file: Optional[str] = None, number: Optional[int] = None) -> CommandLine:
    """Read a command line as the kernel does. Never raises: every text is some command line.

    :param file: where the text comes from, with ``number`` its line; kept in each argument.
    """
    words = [text for _offset, text in _spans(line)]
    if "--" in words:
        end = words.index("--")
        return CommandLine(tuple(_word(word, file, number) for word in words[:end]), tuple(words[end + 1:]))
    return CommandLine(tuple(_word(word, file, number) for word in words))


def make(name: str, value: Optional[str] = None) -> Arg:
    """An argument from name and value, with quotes where blanks need them.

    :raises KernelArgsError: the grammar has no way to write it (a ``"``, a control character, an empty name, ``--``).
    """
    for text in (name, value or ""):
        bad = next((char for char in text if char == '"' or (char not in " \t" and not char.isprintable())), None)
        if bad is not None:
            raise KernelArgsError(f"the kernel argument '{name}' holds {bad!r}, which a command line cannot carry")
    if not name or "=" in name or any(char in _BLANKS for char in name):
        raise KernelArgsError(f"'{name}' is not the name of a kernel argument")
    if value is None:
        if name == "--":
            raise KernelArgsError("'--' ends the kernel's arguments and cannot be one of them")
        return Arg(name, name)
    raw = f'{name}="{value}"' if any(char in _BLANKS for char in value) else f"{name}={value}"
    return Arg(raw, name, value)


def render(args: Iterable[Arg], init: Sequence[str] = ()) -> str:
    """The command line of these arguments, in order; with ``--`` and init's words where there are any."""
    words = [arg.raw for arg in args]
    if init:
        words += ["--", *init]
    return " ".join(words)


def merge(args: Sequence[Arg], ours: Sequence[Arg]) -> List[Arg]:
    """``args`` with every argument that ours replaces taken out and ours, in order, at the end.

    An argument is replaced by key; of a list such as ``pci=`` only the parts that ours sets go. ``hugepages`` belongs to
    the size before it, so the three huge page keys are replaced together.

    :raises KernelArgsError: a quote of ``args`` is not closed: what follows it would become part of that argument.
    """
    keys = {arg.key for arg in ours}
    if keys & _HUGE_KEYS:
        keys |= _HUGE_KEYS
    lists = {arg.key: {_part_key(part) for part in (arg.value or "").split(",")} for arg in ours if arg.key in _LIST_KEYS}
    kept: List[Arg] = []
    for arg in args:
        if not arg.closed:
            raise KernelArgsError(f"a quote in the kernel argument '{masked_word(arg.raw)}' is not closed")
        if arg.key in lists:
            parts = [part for part in (arg.value or "").split(",") if part and _part_key(part) not in lists[arg.key]]
            if parts:
                kept.append(make(arg.name, ",".join(parts)))
        elif arg.key not in keys:
            kept.append(arg)
    return kept + list(ours)


def rivals(args: Iterable[Arg], ours: Sequence[Arg]) -> List[Arg]:
    """The arguments that set what ours set: those that ``merge`` takes out, whole or in part."""
    keys = {arg.key for arg in ours}
    if keys & _HUGE_KEYS:
        keys |= _HUGE_KEYS
    parts = {(arg.key, _part_key(part)) for arg in ours if arg.key in _LIST_KEYS for part in (arg.value or "").split(",")}
    return [
        arg for arg in args
        if arg.key in keys and (arg.key not in _LIST_KEYS or any((arg.key, _part_key(part)) in parts for part in (arg.value or "").split(",")))
    ]


def lacks(args: Iterable[Arg], ours: Sequence[Arg]) -> List[str]:
    """What keeps a line from setting exactly what ours set: a sentence for each argument that is missing, or there beside ours.

    Empty where the line has ours, in their order, and no rival of them.
    """
    found = rivals(args, ours)
    left = [(arg.key, arg.value) for arg in found]
    wanted = [(arg.key, arg.value) for arg in ours]
    if left == wanted:
        return []
    missing = [f"'{masked_word(arg.raw)}' is missing" for arg in ours if (arg.key, arg.value) not in left]
    extra = [f"'{masked_word(arg.raw)}' is there too{f' ({arg.source})' if arg.source else ''}" for arg in found if (arg.key, arg.value) not in wanted]
    return missing + extra or ["the arguments are there twice or in another order"]


def _part_key(part: str) -> str:
    return part.partition("=")[0]


_HUGE_KEYS: Set[str] = {"hugepagesz", "hugepages", "default_hugepagesz"}
# Keys of which each occurrence adds to the ones before (drivers/pci/pci.c, drivers/iommu).
_LIST_KEYS: Set[str] = {"pci"}

# -- what a line means for our knobs

# Kernel arguments that set a managed knob. "pci" does so only with one of _ACS_PARTS.
KNOB_KEYS: Mapping[str, str] = {
    "isolcpus": "kernel.isolcpus",
    "nohz_full": "kernel.nohz_full",
    "irqaffinity": "kernel.irqaffinity",
    "rcu_nocbs": "kernel.rcu_nocbs",
    "hugepages": "kernel.hugepages",
    "hugepagesz": "kernel.hugepages",
    "default_hugepagesz": "kernel.hugepages",
    "iommu": "kernel.iommu",
    "iommu.passthrough": "kernel.iommu",
    "intel_iommu": "kernel.iommu",
    "amd_iommu": "kernel.iommu",
    "transparent_hugepage": "vm.thp",
    "numa_balancing": "kernel.numa_balancing",
    "workqueue.unbound_cpus": "workqueue.cpumask",
    "cpufreq.default_governor": "cpu.governor",
    "intel_idle.max_cstate": "cpu.latency",
    "processor.max_cstate": "cpu.latency",
    "cpuidle.off": "cpu.latency",
    "idle": "cpu.latency",
}
_ACS_PARTS = ("config_acs", "disable_acs_redir")
# Of these a second occurrence is ignored by the kernel (host parameters where the first wins).
FIRST_WINS: Tuple[str, ...] = ("isolcpus", "nohz_full", "default_hugepagesz")


def knob_of(arg: Arg) -> Optional[str]:
    """The knob that an argument sets, or None."""
    if arg.key == "pci":
        return "kernel.acs" if any(_part_key(part) in _ACS_PARTS for part in (arg.value or "").split(",")) else None
    return KNOB_KEYS.get(arg.key)


@dataclass
class Meaning:
    """What a command line sets.

    :ivar values: knob to its value, only for knobs that the line mentions with an effect.
    :ivar origin: knob to the argument that decided.
    :ivar duplicates: names given twice where once is meant.
    :ivar ignored: ``{"token", "reason"}`` of arguments that the kernel drops.
    """

    values: Dict[str, object] = field(default_factory=dict)
    origin: Dict[str, Arg] = field(default_factory=dict)
    duplicates: List[str] = field(default_factory=list)
    ignored: List[Dict[str, str]] = field(default_factory=list)
    isolated: Dict[str, CpuSet] = field(default_factory=dict)

    def drop(self, arg: Arg, reason: str) -> None:
        """Note an argument that has no effect."""
        self.ignored.append({"token": masked_word(arg.raw), "reason": reason})

    def set(self, knob: str, value: object, arg: Arg) -> None:
        """Note what decides a knob."""
        self.values[knob] = value
        self.origin[knob] = arg


def isolcpus_form(isolated: Mapping[str, CpuSet]) -> Optional[str]:
    """``managed_irq,2-31`` of flag to CPUs, flags sorted; different CPUs per flag give one text for each set, with a blank between.

    None where nothing is isolated.
    """
    by_cpus: Dict[CpuSet, List[str]] = {}
    for flag in sorted(isolated):
        if isolated[flag]:
            by_cpus.setdefault(isolated[flag], []).append(flag)
    return " ".join(",".join([*flags, cpulist.to_list(cpus)]) for cpus, flags in by_cpus.items()) or None


def meaning(args: Sequence[Arg], last: Optional[int] = None, default_page: Optional[str] = None) -> Meaning:
    """What a command line sets, with the kernel's rules for duplicates, order and errors. Never raises.

    isolcpus and nohz_full: the first that sets a flag wins, a later one with another set is dropped (kernel/sched/isolation.c);
    rcu_nocbs, irqaffinity, module parameters: the last wins; hugepages belongs to the size before it (mm/hugetlb.c).

    :param last: number of the last possible CPU, for ``N`` and ``all``.
    :param default_page: size of ``hugepages=`` without a size before it (``2Mi``), where the line does not say.
    """
    found = Meaning()
    seen: Dict[str, Arg] = {}
    nohz_full: Dict[str, CpuSet] = {}
    for arg in args:
        if arg.key in seen and arg.key in ("isolcpus", "nohz_full", "irqaffinity", "rcu_nocbs", "default_hugepagesz", "transparent_hugepage",
                                           "numa_balancing", "iommu.passthrough", "workqueue.unbound_cpus") and arg.key not in found.duplicates:
            found.duplicates.append(arg.key)
        seen.setdefault(arg.key, arg)
        if arg.key in ("isolcpus", "nohz_full"):
            _isolation(found, arg, nohz_full, last)
        elif arg.key in ("irqaffinity", "rcu_nocbs", "workqueue.unbound_cpus"):
            _cpu_list(found, arg, last)
        elif arg.key == "transparent_hugepage":
            _word_of(found, arg, "vm.thp", {"always": "always", "madvise": "madvise", "never": "never"})
        elif arg.key == "numa_balancing":
            _word_of(found, arg, "kernel.numa_balancing", {"enable": 1, "disable": 0})
        elif arg.key == "cpufreq.default_governor" and arg.value:
            found.set("cpu.governor", arg.value, arg)
        elif arg.key == "preempt" and arg.value:
            found.set("kernel.preempt", arg.value, arg)
        elif arg.key in ("iommu", "intel_iommu", "amd_iommu", "iommu.passthrough"):
            _iommu(found, arg)
    if found.isolated:
        form = isolcpus_form(found.isolated)
        if form:
            found.values["kernel.isolcpus"] = form
    _hugepages(found, args, default_page)
    _acs(found, args)
    return found


def _isolation(found: Meaning, arg: Arg, nohz_full: Dict[str, CpuSet], last: Optional[int]) -> None:
    value = arg.value or ""
    try:
        if arg.key == "isolcpus":
            flags, cpus = cpulist.from_isolcpus(value, last)
        else:
            flags, cpus = ("nohz_full",), cpulist.from_list(value, last)
    except CpuListError as error:
        found.drop(arg, str(error))
        return
    if not cpus:
        found.drop(arg, "names no CPUs: nothing is isolated")
        return
    taken: Dict[str, CpuSet] = {**found.isolated, **nohz_full}
    # The tick is one flag: isolcpus=nohz and nohz_full must agree, and so must two of either.
    for flag in flags:
        same = [name for name in taken if name == flag or {name, flag} == {"nohz", "nohz_full"}]
        if any(taken[name] != cpus for name in same):
            found.drop(arg, f"comes after another argument that sets '{flag}' for other CPUs: the first wins")
            return
    if arg.key == "nohz_full":
        nohz_full["nohz_full"] = cpus
        if "kernel.nohz_full" not in found.values:
            found.set("kernel.nohz_full", cpulist.to_list(cpus), arg)
        return
    for flag in flags:
        found.isolated.setdefault(flag, cpus)
    found.origin.setdefault("kernel.isolcpus", arg)


def _cpu_list(found: Meaning, arg: Arg, last: Optional[int]) -> None:
    knob = KNOB_KEYS[arg.key]
    try:
        cpus = cpulist.from_list(arg.value or "", last)
    except CpuListError as error:
        if arg.key == "rcu_nocbs" and last is not None:
            # kernel/rcu/tree_nocb.h: a bad list means all CPUs.
            found.set(knob, cpulist.to_list(range(last + 1)), arg)
        found.drop(arg, str(error))
        return
    if arg.key == "rcu_nocbs" and arg.value is None:
        if last is not None:
            found.set(knob, cpulist.to_list(range(last + 1)), arg)
        return
    if not cpus:
        found.values.pop(knob, None)
        found.drop(arg, "names no CPUs")
        return
    if arg.key == "irqaffinity":
        # kernel/irq/irqdesc.c puts the boot CPU in, whatever the list says.
        cpus = cpus | {0}
    found.set(knob, cpulist.to_list(cpus), arg)


def _word_of(found: Meaning, arg: Arg, knob: str, words: Mapping[str, object]) -> None:
    if arg.value in words:
        found.set(knob, words[arg.value or ""], arg)
    else:
        found.drop(arg, f"takes {', '.join(words)} only")


def _iommu(found: Meaning, arg: Arg) -> None:
    parts = (arg.value or "").split(",")
    if arg.key == "iommu.passthrough":
        if arg.value in ("1", "y", "Y", "on"):
            found.set("kernel.iommu", "pt", arg)
        elif found.values.get("kernel.iommu") == "pt":
            found.values.pop("kernel.iommu")
        return
    if "off" in parts:
        found.set("kernel.iommu", "off", arg)
    elif arg.key == "iommu" and "pt" in parts and found.values.get("kernel.iommu") != "off":
        found.set("kernel.iommu", "pt", arg)
    elif arg.key == "iommu" and "nopt" in parts and found.values.get("kernel.iommu") == "pt":
        found.values.pop("kernel.iommu")
    elif arg.key == "amd_iommu" and parts == ["on"]:
        found.drop(arg, "is no option of the AMD driver, which is on wherever the firmware has it")


def _page(text: Optional[str]) -> Optional[str]:
    """``1G`` as ``1Gi``; None for anything that is not a size of huge pages (memparse() takes both cases)."""
    match = re.fullmatch(r"(\d+)([kKmMgGtT]?)", text or "")
    if not match:
        return None
    size = int(match.group(1)) * {"": 1, "k": 2**10, "m": 2**20, "g": 2**30, "t": 2**40}[match.group(2).lower()]
    return quantity.binary(size) if size else None


def _hugepages(found: Meaning, args: Sequence[Arg], default_page: Optional[str]) -> None:
    """Pairs of size and count (mm/hugetlb.c of 6.12: hugepagesz_setup, hugepages_setup, default_hugepagesz_setup)."""
    default: Optional[str] = None
    pools: Dict[str, Dict[str, int]] = {}
    unsized: Optional[Dict[str, int]] = None
    current: Optional[str] = None
    valid = True
    asked = False  # a count for the present size was read already
    sized: Set[str] = set()
    for arg in args:
        if arg.key not in _HUGE_KEYS:
            continue
        found.origin.setdefault("kernel.hugepages", arg)
        if arg.key in ("hugepagesz", "default_hugepagesz"):
            page = _page(arg.value)
            if page is None:
                found.drop(arg, "is not a size of huge pages")
                valid = False
            elif arg.key == "default_hugepagesz" and default is not None:
                found.drop(arg, "comes after another default_hugepagesz: the first wins")
                valid = False
            elif arg.key == "hugepagesz" and page in sized and not (page == default and page not in pools):
                if arg.key not in found.duplicates:
                    found.duplicates.append(arg.key)
                found.drop(arg, "names a size that came before: the first wins")
                valid = False
            else:
                valid, current = True, page
                asked = page in pools
                sized.add(page)
                if arg.key == "default_hugepagesz":
                    default = page
                    if unsized is not None:
                        pools[page] = unsized
                        unsized, asked = None, True
            continue
        count = _page_count(arg.value)
        if not valid:
            found.drop(arg, "follows a size that the kernel ignores")
            valid = True
        elif count is None:
            found.drop(arg, "is neither a number of pages nor numbers per NUMA node such as 0:8,1:8")
        elif current is None:
            if unsized is not None:
                found.duplicates.append(arg.key)
                found.drop(arg, "is the second number for one size: the first wins")
            else:
                unsized = count
        elif asked:
            if arg.key not in found.duplicates:
                found.duplicates.append(arg.key)
            found.drop(arg, "is the second number for one size: the first wins")
        else:
            pools[current] = count
            asked = True
    if unsized is not None:
        pools[default or default_page or "default"] = unsized
    pools = {size: {node: n for node, n in counts.items() if n} for size, counts in pools.items()}
    pools = {size: counts for size, counts in pools.items() if counts}
    if pools:
        found.values["kernel.hugepages"] = pools


def _page_count(value: Optional[str]) -> Optional[Dict[str, int]]:
    """``16`` as {"total": 16} (the kernel spreads it), ``0:8,1:8`` as {"0": 8, "1": 8}."""
    if value is None:
        return None
    if re.fullmatch(r"\d{1,12}", value):
        return {"total": int(value)}
    counts: Dict[str, int] = {}
    for part in value.split(","):
        match = re.fullmatch(r"(\d{1,5}):(\d{1,12})", part)
        if not match:
            return None
        counts[str(int(match.group(1)))] = int(match.group(2))
    return counts


def _acs(found: Meaning, args: Sequence[Arg]) -> None:
    """Inside ``pci=`` the last config_acs and the last disable_acs_redir count (drivers/pci/pci.c pci_setup)."""
    parts: Dict[str, str] = {}
    for arg in args:
        if arg.key != "pci":
            continue
        for part in (arg.value or "").split(","):
            key = _part_key(part)
            if key in _ACS_PARTS and "=" in part:
                if key in parts and key not in found.duplicates:
                    found.duplicates.append(key)
                parts[key] = part
                found.origin["kernel.acs"] = arg
    if parts:
        found.values["kernel.acs"] = ",".join(parts[key] for key in sorted(parts))


# -- secrets

# Values of such arguments never leave the node. "key" alone is too wide (rd.luks.key= names a file, key=value pairs abound).
_SECRET = re.compile(
    r"passw|passphrase|secret|token|cred|psk|(?:root|ssh|boot)pw|api[_-]?key|private[_-]?key|luks\.key"
    r"|(?:^|[._-])(?:pwd|pass|auth|pin)(?:$|[._-])",
    re.IGNORECASE,
)
# In the query of an address a key or a signature is nothing but a secret.
_QUERY_SECRET = re.compile(r"(?:^|[._-])(?:sig|signature|key|code|pw)(?:$|[._-])|accesskey", re.IGNORECASE)
_URL_USER = re.compile(r"(?<=://)[^/@\s\"]*:[^/@\s\"]*(?=@)")
_ISCSI_USER = re.compile(r"(?<=iscsi:)[^/\s\"]*(?=@)")
MASK = "********"


def masked_word(raw: str) -> str:
    """A word with its value replaced where the name says that it is a secret, or where an address carries a user's password."""
    for match in re.finditer("=", raw):
        # A list may hold pairs of its own: x=debug,password=...
        name = re.split(r"[,;=?&]", raw[:match.start()])[-1]
        query = raw[:match.start() - len(name)].endswith(("?", "&"))
        if match.end() < len(raw) and (_SECRET.search(name) or (query and _QUERY_SECRET.search(name))):
            return raw[:match.end()] + MASK + ('"' if raw.startswith('"') else "")
    return _ISCSI_USER.sub(MASK, _URL_USER.sub(MASK, raw))


def masked(line: str) -> str:
    """A whole command line with its secrets masked; a secret given as two words (``--password x``) too."""
    words: List[str] = []
    hide = False
    for _offset, raw in _spans(line):
        if hide and not raw.startswith("-"):
            words.append(MASK)
            hide = False
            continue
        hide = raw.startswith("--") and "=" not in raw and bool(_SECRET.search(raw))
        words.append(masked_word(raw))
    return " ".join(words)


# -- /etc/default/grub and grub.d


class _Piece(NamedTuple):
    """A part of a value with its origin; text None: a command's output or a variable of the environment, which is not known."""

    text: Optional[str]
    file: str
    line: int


@dataclass
class GrubValue:
    """Value of a variable. :ivar known: False where a part of it is not known."""

    pieces: List[_Piece] = field(default_factory=list)

    @property
    def known(self) -> bool:
        """Whether every part of the value is known."""
        return all(piece.text is not None for piece in self.pieces)

    @property
    def text(self) -> Optional[str]:
        """The value, or None where a part of it is not known."""
        return "".join(piece.text or "" for piece in self.pieces) if self.known else None

    def args(self) -> List[Arg]:
        """The arguments in the value as they reach the kernel, each with the file and line it comes from.

        GRUB reads the text again: quotes and backslashes go, and a bare ``;`` ends the command (``cut`` says so).
        """
        return self._args()[0]

    @property
    def cut(self) -> Optional[str]:
        """The text after a bare ``;``, which GRUB takes for another command; None where there is none."""
        return self._args()[1]

    def _args(self) -> Tuple[List[Arg], Optional[str]]:
        text = "".join(piece.text or "" for piece in self.pieces)
        starts: List[Tuple[int, _Piece]] = []
        at = 0
        for piece in self.pieces:
            starts.append((at, piece))
            at += len(piece.text or "")
        args: List[Arg] = []
        for statement in _grub_statements(text, ""):
            if statement.offset > 0 and args and statement.cut_before:
                return args, text[statement.offset:]
            for offset, word in zip(statement.offsets, statement.words):
                begin, origin = next((pair for pair in reversed(starts) if pair[0] <= offset), starts[0])
                # A variable of GRUB's own is set in grub.cfg, if at all: nothing of ours comes from one.
                plain = _MARK.sub("", word)
                if not plain:
                    continue
                args.append(_word(_as_loader(plain), origin.file, origin.line + text[begin:offset].count("\n")))
        return args, None


def _as_loader(word: str) -> str:
    """A word of GRUB as its Linux loader puts it on the command line: quoted where it holds blanks (grub_create_loader_cmdline)."""
    return f'"{word}"' if any(char in _BLANKS for char in word) else word


@dataclass
class GrubDefaults:
    """``/etc/default/grub`` and its drop-ins after they were read in order.

    :ivar complete: False where a part that could not be read may change the kernel's arguments.
    :ivar dropped: arguments that a later assignment did not keep, each with that assignment's variable, file and line.
    """

    values: Dict[str, GrubValue] = field(default_factory=dict)
    problems: List[Dict[str, str]] = field(default_factory=list)
    complete: bool = True
    dropped: List[Tuple[Arg, str, str, int]] = field(default_factory=list)

    def kernel_args(self) -> Optional[List[Arg]]:
        """Arguments of a normal entry: GRUB_CMDLINE_LINUX, then GRUB_CMDLINE_LINUX_DEFAULT (util/grub.d/10_linux.in).

        None where they cannot be told.
        """
        if not self.complete or not all(self.values[name].known for name in GRUB_KERNEL if name in self.values):
            return None
        return self.known_args()

    def known_args(self) -> List[Arg]:
        """The arguments as far as they are known."""
        return [arg for name in GRUB_KERNEL if name in self.values for arg in self.values[name].args()]


GRUB_KERNEL: Tuple[str, ...] = ("GRUB_CMDLINE_LINUX", "GRUB_CMDLINE_LINUX_DEFAULT")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_VARIABLE = re.compile(r"\$(?:\{([A-Za-z_][A-Za-z0-9_]*)\}|([A-Za-z_][A-Za-z0-9_]*))")
_OPENERS = {"if", "for", "while", "until", "case", "{", "("}
_CLOSERS = {"fi", "done", "esac", "}", ")"}
_MIDDLE = {"then", "else", "elif", "do"}
# Commands after which the rest of the files may not be read, or others are.
_FAR_REACHING = {".", "source", "eval", "exec", "exit", "return", "unset"}


def grub_defaults(files: Sequence[Tuple[str, str]]) -> GrubDefaults:
    """Evaluate files of assignments, in order: ``(path, text)`` of /etc/default/grub and then grub.d/\\*.cfg.

    A subset of the shell: comments, ``NAME=word``, ``export``, quotes, backslash and newline, ``$NAME`` and ``${NAME}`` of
    names set before. Output of commands is an unknown part of the value. Anything else is a problem, and where it may change
    the kernel's arguments the result is not ``complete``. Problems name file and line and quote nothing.
    """
    result = GrubDefaults()
    for path, text in files:
        _Shell(path, text, result).run()
    for name in GRUB_KERNEL:
        value = result.values.get(name)
        if value is None:
            continue
        if not value.known:
            piece = next(piece for piece in value.pieces if piece.text is None)
            _note(result, piece.file, piece.line, f"{name} holds the output of a command or a variable from elsewhere, which cannot be told")
        elif value.cut is not None:
            piece = next(piece for piece in value.pieces if ";" in (piece.text or ""))
            _note(result, piece.file, piece.line, f"a bare ';' in {name} ends GRUB's command: what follows never reaches the kernel (write \\;)")
    return result


def _note(result: GrubDefaults, file: str, line: int, reason: str) -> None:
    entry = {"file": f"{file}:{line}", "reason": reason}
    if entry not in result.problems:
        result.problems.append(entry)


class _Unreadable(Exception):
    pass


class _Shell:
    """Reads one file of assignments."""

    def __init__(self, path: str, text: str, result: GrubDefaults) -> None:
        self.path = path
        self.text = text
        self.result = result
        self.at = 0
        self.line = 1
        self.depth = 0

    def run(self) -> None:
        """Read all statements; one that is not understood is noted and passed over up to the end of its line."""
        while True:
            self._skip()
            if self.at >= len(self.text):
                return
            start, line = self.at, self.line
            try:
                self._statement()
            except _Unreadable as error:
                self._refuse(start, line, str(error))

    def _refuse(self, start: int, line: int, reason: str) -> None:
        end = self.text.find("\n", max(self.at, start))
        end = len(self.text) if end < 0 else end
        statement = self.text[start:end]
        first = statement.split(None, 1)[0] if statement.split() else ""
        words = re.findall(r"[^\s;&|`()]+", statement)
        harmless = "GRUB_CMDLINE" not in statement and not set(words) & _FAR_REACHING
        self.line = line + statement.count("\n")
        self.at = end
        self.depth = max(0, self.depth + sum(word in _OPENERS for word in words) - sum(word in _CLOSERS for word in words))
        if first in _CLOSERS | _MIDDLE and harmless:
            return
        if not harmless:
            self.result.complete = False
        _note(self.result, self.path, line, reason + ("" if harmless else "; the kernel's arguments cannot be told"))

    def _skip(self) -> None:
        """White space, line ends, ``;`` and comments before a statement."""
        while self.at < len(self.text):
            char = self.text[self.at]
            if char == "\n":
                self.line += 1
            elif char == "#":
                end = self.text.find("\n", self.at)
                self.at = len(self.text) if end < 0 else end
                continue
            elif char == "\\" and self.text[self.at:self.at + 2] == "\\\n":
                self.line += 1
                self.at += 1
            elif char not in " \t\r;":
                return
            self.at += 1

    def _statement(self) -> None:
        export = re.compile(r"export(?=[ \t])[ \t]+").match(self.text, self.at)
        if export:
            self.at = export.end()
        assigned: List[Tuple[str, GrubValue]] = []
        first = self.line
        while True:
            name = _NAME.match(self.text, self.at)
            if not name:
                raise _Unreadable("is not an assignment")
            if self.text[name.end():name.end() + 1] != "=":
                end = name.end()
                if export and (end >= len(self.text) or self.text[end] in " \t\r\n;#"):
                    self.at = end
                else:
                    raise _Unreadable("is not an assignment")
            else:
                self.at = name.end() + 1
                assigned.append((name.group(), self._word()))
            blanks = self.at
            while self.at < len(self.text) and self.text[self.at] in " \t\r":
                self.at += 1
            if self.at >= len(self.text) or self.text[self.at] in "\n;":
                break
            if self.text[self.at] == "#" and self.at > blanks:
                break
            if self.at == blanks:
                raise _Unreadable("holds a character after an assignment that is not understood")
        if self.depth and any(variable.startswith("GRUB_CMDLINE") for variable, _value in assigned):
            raise _Unreadable("is an assignment under a condition")
        for variable, value in assigned:
            # An assignment with a part that is not known may keep anything; it has a problem of its own.
            if variable in GRUB_KERNEL and variable in self.result.values and value.known:
                kept = value.args()
                lost = [arg for arg in self.result.values[variable].args() if arg not in kept]
                self.result.dropped += [(arg, variable, self.path, first) for arg in lost]
            self.result.values[variable] = value

    def _word(self) -> GrubValue:
        value = GrubValue()
        while self.at < len(self.text):
            char = self.text[self.at]
            if char in " \t\r\n;":
                break
            if char in "&|<>()":
                raise _Unreadable("is a command, not an assignment")
            if char == "'":
                end = self.text.find("'", self.at + 1)
                if end < 0:
                    raise _Unreadable("opens a quote that is not closed")
                self._put(value, self.text[self.at + 1:end])
                self._advance(end + 1)
            elif char == '"':
                self._double(value)
            elif char == "\\":
                if self.at + 1 >= len(self.text):
                    raise _Unreadable("ends in a backslash")
                if self.text[self.at + 1] != "\n":
                    self._put(value, self.text[self.at + 1])
                self._advance(self.at + 2)
            elif char in "$`":
                self._dollar(value)
            else:
                self._put(value, char)
                self.at += 1
        return value

    def _double(self, value: GrubValue) -> None:
        self._put(value, "")
        self.at += 1
        while True:
            if self.at >= len(self.text):
                raise _Unreadable("opens a quote that is not closed")
            char = self.text[self.at]
            if char == '"':
                self.at += 1
                return
            if char == "\\" and self.text[self.at + 1:self.at + 2] in ("$", "`", '"', "\\", "\n"):
                if self.text[self.at + 1] != "\n":
                    self._put(value, self.text[self.at + 1])
                self._advance(self.at + 2)
            elif char in "$`":
                self._dollar(value)
            else:
                self._put(value, char)
                self._advance(self.at + 1)

    def _dollar(self, value: GrubValue) -> None:
        if self.text[self.at] == "`":
            end = self.at + 1
            while end < len(self.text) and self.text[end] != "`":
                end += 2 if self.text[end] == "\\" else 1
            self._opaque(value, end + 1)
            return
        rest = self.text[self.at + 1:self.at + 2]
        if rest == "(":
            self._opaque(value, self._closing(self.at + 2))
            return
        match = _VARIABLE.match(self.text, self.at)
        if match:
            name = str(match.group(1) or match.group(2))
            if name in self.result.values:
                value.pieces.extend(self.result.values[name].pieces)
            elif not name.startswith("GRUB_"):
                value.pieces.append(_Piece(None, self.path, self.line))
            self._advance(match.end())
            return
        if rest == "{":
            # ${NAME:-word} and its kind: what it gives depends on rules we do not evaluate.
            end = self.text.find("}", self.at)
            if end < 0:
                raise _Unreadable("opens a brace that is not closed")
            self._opaque(value, end + 1)
            return
        if rest and rest in "0123456789@*#?$!-":
            self._opaque(value, self.at + 2)
            return
        self._put(value, "$")
        self.at += 1

    def _closing(self, at: int) -> int:
        """Offset behind the parenthesis that closes ``$(``; quotes inside protect parentheses."""
        depth = 1
        quote = ""
        while at < len(self.text):
            char = self.text[at]
            if quote:
                if char == "\\" and quote == '"':
                    at += 1
                elif char == quote:
                    quote = ""
            elif char in "'\"":
                quote = char
            elif char == "\\":
                at += 1
            elif char == "(":
                depth += 1
            elif char == ")":
                depth -= 1
                if depth == 0:
                    return at + 1
            at += 1
        return len(self.text) + 1

    def _opaque(self, value: GrubValue, end: int) -> None:
        if end > len(self.text):
            raise _Unreadable("opens a command that is not closed")
        value.pieces.append(_Piece(None, self.path, self.line))
        self._advance(end)

    def _advance(self, end: int) -> None:
        self.line += self.text.count("\n", self.at, end)
        self.at = end

    def _put(self, value: GrubValue, text: str) -> None:
        last = value.pieces[-1] if value.pieces else None
        if last is not None and last.text is not None and last.file == self.path and last.line + last.text.count("\n") == self.line:
            value.pieces[-1] = _Piece(last.text + text, last.file, last.line)
        else:
            value.pieces.append(_Piece(text, self.path, self.line))


def grub_words(args: Iterable[str]) -> str:
    """Arguments as they must stand inside ``GRUB_CMDLINE_LINUX_DEFAULT="..."`` to reach the kernel unchanged.

    GRUB ends a command at a bare ``;`` and takes ``$``, quotes and backslashes; the shell's double quotes take four of these
    before it. So each gets a backslash for GRUB, and where the shell needs one, another for the shell.

    :raises KernelArgsError: an argument holds a blank outside quotes or a control character.
    """
    words: List[str] = []
    for token in args:
        parsed = parse(token)
        if parsed.init or len(parsed.args) != 1 or not parsed.args[0].closed or any(not char.isprintable() for char in token):
            raise KernelArgsError(f"'{masked_word(token)}' is not one kernel argument")
        arg = parsed.args[0]
        plain = f"{arg.name}={arg.value}" if arg.value is not None else arg.name
        if '"' in plain:
            raise KernelArgsError(f"'{masked_word(token)}' holds a quote inside its value")
        for_grub = "".join("\\" + char if char in "\\;$'\"{}&|<># " else char for char in plain)
        words.append("".join("\\" + char if char in '\\$`"' and not _kept(for_grub, at) else char for at, char in enumerate(for_grub)))
    return " ".join(words)


def _kept(text: str, at: int) -> bool:
    """Whether a backslash stays as it is inside the shell's double quotes: those before anything but $ ` " \\ and newline do."""
    return text[at] == "\\" and text[at + 1:at + 2] not in ("$", "`", '"', "\\", "\n", "")


# A part of ours in /etc/default/grub, where grub-mkconfig reads no drop-ins.
BLOCK_BEGIN = "# BEGIN inferops.locality"
BLOCK_END = "# END inferops.locality"


def block_lines(text: str) -> range:
    """The numbers of the lines from our begin to our end mark in /etc/default/grub; empty where there is no such part."""
    lines = text.split("\n")
    begin = next((number for number, line in enumerate(lines, 1) if line.startswith(BLOCK_BEGIN)), None)
    if begin is None:
        return range(0)
    end = next((number for number, line in enumerate(lines[begin:], begin + 1) if line.startswith(BLOCK_END)), None)
    return range(0) if end is None else range(begin, end + 1)


def without_block(text: str) -> str:
    """The text without our part."""
    ours = block_lines(text)
    return "\n".join(line for number, line in enumerate(text.split("\n"), 1) if number not in ours)


def without_word(text: str, line: int, raw: str) -> Optional[str]:
    """The text with one word and the blanks beside it taken out of a line (counted from 1).

    None where the word is not there exactly once as it stands on the command line. The caller reads the result again: what
    looks like the word may have been a part of something else.
    """
    lines = text.split("\n")
    if not 0 < line <= len(lines):
        return None
    found = list(re.finditer(r"(?<![^\s\"'=])" + re.escape(raw) + r"(?![^\s\"'#])", lines[line - 1]))
    if len(found) != 1:
        return None
    before, after = lines[line - 1][:found[0].start()], lines[line - 1][found[0].end():]
    if after[:1] in (" ", "\t"):
        after = after.lstrip(" \t")
    elif before[-1:] in (" ", "\t"):
        before = before.rstrip(" \t")
    lines[line - 1] = before + after
    return "\n".join(lines)


# -- grub.cfg


class GrubStatement(NamedTuple):
    """One command of a GRUB script.

    :ivar words: its words with quotes and escapes gone; variables are kept as ``\\x00name\\x01``.
    :ivar opens: ends in ``{``. :ivar closes: is ``}``.
    """

    words: List[str]
    offsets: List[int]
    line: int
    offset: int
    opens: bool
    closes: bool
    cut_before: bool


def _grub_statements(text: str, _path: str) -> List[GrubStatement]:
    """Take a GRUB script apart (grub-core/script/yylex.l): words, quotes, ``;`` and line ends, ``{`` and ``}`` as words."""
    statements: List[GrubStatement] = []
    words: List[str] = []
    offsets: List[int] = []
    bare: List[bool] = []
    at, line, start_line, start = 0, 1, 1, 0
    cut = False

    def finish(opens: bool = False, closes: bool = False, by_semicolon: bool = False) -> None:
        nonlocal words, offsets, bare, cut
        if words or opens or closes:
            statements.append(GrubStatement(words, offsets, start_line, start, opens, closes, cut))
        words, offsets, bare = [], [], []
        cut = by_semicolon

    size = len(text)
    while at < size:
        char = text[at]
        if char == "\n":
            finish()
            line += 1
            at += 1
        elif char in " \t\r":
            at += 1
        elif char in ";&|":
            finish(by_semicolon=True)
            at += 1
        elif char == "#" and not (at and text[at - 1] not in " \t\r\n;{}"):
            end = text.find("\n", at)
            at = size if end < 0 else end
        elif char in "{}" and (at + 1 >= size or text[at + 1] in " \t\r\n;"):
            if not words:
                start_line, start = line, at
            finish(opens=char == "{", closes=False) if char == "{" else finish()
            if char == "}":
                start_line, start = line, at
                finish(closes=True)
            at += 1
        else:
            if not words:
                start_line, start = line, at
            offsets.append(at)
            word, at, line = _grub_word(text, at, line)
            words.append(word)
    finish()
    return statements


def _grub_word(text: str, at: int, line: int) -> Tuple[str, int, int]:
    out: List[str] = []
    size = len(text)
    variable = re.compile(r"\$(?:\{([A-Za-z_][A-Za-z0-9_]*|[0-9]+)\}|([A-Za-z_][A-Za-z0-9_]*|[0-9]+))")
    while at < size:
        char = text[at]
        if char in " \t\r\n;&|":
            break
        if char == "'":
            end = text.find("'", at + 1)
            end = size if end < 0 else end
            out.append(text[at + 1:end])
            line += text.count("\n", at, end)
            at = end + 1
        elif char == '"':
            at += 1
            while at < size and text[at] != '"':
                if text[at] == "\\" and text[at + 1:at + 2] in ("$", '"', "\\"):
                    out.append(text[at + 1])
                    at += 2
                    continue
                if text[at] == "\\" and text[at + 1:at + 2] == "\n":
                    line += 1
                    at += 2
                    continue
                match = variable.match(text, at)
                if match:
                    out.append(f"\x00{match.group(1) or match.group(2)}\x01")
                    at = match.end()
                    continue
                line += text[at] == "\n"
                out.append(text[at])
                at += 1
            at += 1
        elif char == "\\":
            if text[at + 1:at + 2] == "\n":
                line += 1
            else:
                out.append(text[at + 1:at + 2])
            at += 2
        elif char == "$":
            match = variable.match(text, at)
            if match:
                out.append(f"\x00{match.group(1) or match.group(2)}\x01")
                at = match.end()
            else:
                out.append("$")
                at += 1
        else:
            out.append(char)
            at += 1
    return "".join(out), at, line


_MARK = re.compile("\x00([A-Za-z0-9_]+)\x01")


def _expand(word: str, variables: Mapping[str, str]) -> str:
    return _MARK.sub(lambda match: variables.get(match.group(1), ""), word)


@dataclass
class GrubEntry:
    """An entry of GRUB's menu. :ivar path: numbers, titles and ids on the way to it, from the outermost submenu."""

    title: str
    id: Optional[str]
    line: int
    linux: Optional[GrubStatement] = None
    entries: List[GrubEntry] = field(default_factory=list)
    submenu: bool = False


@dataclass
class GrubMenu:
    """``grub.cfg`` as far as it decides what is booted next."""

    entries: List[GrubEntry] = field(default_factory=list)
    variables: Dict[str, str] = field(default_factory=dict)
    default: Optional[str] = None
    next_entry: bool = False
    blscfg: bool = False


def grub_menu(text: str) -> GrubMenu:
    """Read ``grub.cfg``: its entries in order, its default, and whether it obeys ``next_entry``. Never raises."""
    menu = GrubMenu()
    stack: List[Optional[GrubEntry]] = []
    for statement in _grub_statements(text, ""):
        words = statement.words
        if statement.closes:
            if stack:
                stack.pop()
            continue
        command = words[0] if words else ""
        if statement.opens:
            entry = None
            if command in ("menuentry", "submenu") and len(words) > 1:
                entry = GrubEntry(words[1], _entry_id(words), statement.line, submenu=command == "submenu")
                parent = next((item for item in reversed(stack) if item is not None), None)
                (parent.entries if parent is not None and parent.submenu else menu.entries).append(entry)
            stack.append(entry)
            continue
        current = next((item for item in reversed(stack) if item is not None), None)
        if current is not None:
            if command in ("linux", "linux16", "linuxefi") and current.linux is None and len(words) > 1:
                current.linux = statement
            continue
        if command == "blscfg":
            menu.blscfg = True
        if command == "set" and len(words) == 2 and "=" in words[1]:
            name, _equals, value = words[1].partition("=")
            if name == "default":
                if "\x00next_entry\x01" in value:
                    menu.next_entry = True
                else:
                    menu.default = value
            elif not any(item is None for item in stack):
                menu.variables[name] = _expand(value, menu.variables)
    return menu


def _entry_id(words: Sequence[str]) -> Optional[str]:
    for index, word in enumerate(words[:-1]):
        # grub.cfg sets menuentry_id_option to --id before its entries.
        if word in ("--id", "\x00menuentry_id_option\x01"):
            return words[index + 1]
        if word.startswith("--id="):
            return word[5:]
    return None


def find_entry(entries: Sequence[GrubEntry], wanted: str) -> Optional[GrubEntry]:
    """The entry that ``default`` names: a number, title or id, with ``>`` between the levels; a submenu means its first entry."""
    head, _sep, rest = wanted.partition(">")
    found = next((entry for entry in entries if entry.id == head or entry.title == head), None)
    if found is None and re.fullmatch(r"\d{1,6}", head) and int(head) < len(entries):
        found = entries[int(head)]
    if found is None and "\\" not in wanted and ">" in wanted:
        # A title may hold a ">" itself.
        found = next((entry for entry in entries if entry.title == wanted), None)
        rest = ""
    if found is None or not found.submenu:
        return found
    return find_entry(found.entries, rest or "0")


def entry_args(entry: GrubEntry, variables: Mapping[str, str], path: str) -> Optional[List[Arg]]:
    """Arguments that an entry's ``linux`` command gives the kernel; None where it has none."""
    if entry.linux is None:
        return None
    args: List[Arg] = []
    for word in entry.linux.words[2:]:
        expanded = _expand(word, variables)
        if _MARK.fullmatch(word):
            # A variable alone holds several arguments: GRUB splits it at blanks.
            args.extend(_word(part, path, entry.linux.line) for _offset, part in _spans(expanded))
        elif expanded:
            args.append(_word(_as_loader(expanded), path, entry.linux.line))
    end = next((index for index, arg in enumerate(args) if arg.raw == "--"), len(args))
    return args[:end]


def grubenv(text: str) -> Dict[str, str]:
    """Variables of GRUB's environment block: ``name=value`` lines, ``\\`` escapes backslash and newline, ``#`` fills the rest."""
    values: Dict[str, str] = {}
    for line in re.split(r"(?<!\\)\n", text):
        if line.startswith("#") or "=" not in line:
            continue
        name, _equals, value = line.partition("=")
        values[name] = re.sub(r"\\(.)", r"\1", value, flags=re.DOTALL)
    return values


# -- Boot Loader Specification entries


def bls_entry(text: str) -> Dict[str, List[Tuple[int, str]]]:
    """Fields of a ``loader/entries/*.conf`` file: key to ``(line, value)``; ``options`` may come more than once."""
    fields: Dict[str, List[Tuple[int, str]]] = {}
    for number, line in enumerate(text.splitlines(), 1):
        parts = line.strip().split(None, 1)
        if parts and not parts[0].startswith("#"):
            fields.setdefault(parts[0], []).append((number, parts[1] if len(parts) > 1 else ""))
    return fields


def bls_args(text: str, path: str, environment: Mapping[str, str], environment_path: str) -> Tuple[List[Arg], List[str]]:
    """Arguments of a BLS entry with ``$kernelopts`` and its kind put in from grubenv.

    :returns: the arguments, and names of variables that grubenv does not have (GRUB puts nothing there).
    """
    args: List[Arg] = []
    missing: List[str] = []
    for number, value in bls_entry(text).get("options", []):
        for _offset, raw in _spans(value):
            match = re.fullmatch(r"\$(?:\{([A-Za-z_][A-Za-z0-9_]*)\}|([A-Za-z_][A-Za-z0-9_]*))", raw)
            if not match:
                args.append(_word(raw.replace("\\;", ";"), path, number))
                continue
            name = match.group(1) or match.group(2)
            if name not in environment:
                missing.append(name)
                continue
            args.extend(_word(part, environment_path, None) for _at, part in _spans(environment[name]))
    return args, missing


def version_key(name: str) -> List[Tuple[int, int, str]]:
    """Sorting key of kernel versions as GRUB's blscfg sorts entries (rpmvercmp): numbers by value, above letters; ``~`` lowest."""
    parts: List[Tuple[int, int, str]] = []
    for number, letters, tilde in re.findall(r"(\d+)|([A-Za-z]+)|(~)", name):
        parts.append((2, int(number), "") if number else (1, 0, letters) if letters else (-1, 0, tilde))
    return parts + [(0, 0, "")]


__all__ = (
    "BLOCK_BEGIN",
    "BLOCK_END",
    "FIRST_WINS",
    "GRUB_KERNEL",
    "KNOB_KEYS",
    "MASK",
    "MAX_LENGTH",
    "Arg",
    "CommandLine",
    "GrubDefaults",
    "GrubEntry",
    "GrubMenu",
    "GrubValue",
    "KernelArgsError",
    "Meaning",
    "bls_args",
    "bls_entry",
    "block_lines",
    "entry_args",
    "find_entry",
    "grub_defaults",
    "grub_menu",
    "grub_words",
    "grubenv",
    "isolcpus_form",
    "knob_of",
    "lacks",
    "make",
    "masked",
    "masked_word",
    "meaning",
    "merge",
    "parse",
    "render",
    "rivals",
    "version_key",
    "without_block",
    "without_word",
)
