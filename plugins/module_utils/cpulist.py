# Copyright (c) 2026 The inferops.locality authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""CPU lists and masks: the grammars of the kernel, of the kubelet and of ``isolcpus=``.

A CPU set is a ``frozenset`` of CPU numbers; texts exist only at the edges. The canonical text of a set is sorted, without
blanks, ranges of two or more CPUs as ``a-b``: what both the kernel (``%*pbl``) and the kubelet (``cpuset.String``) print.
"""

from __future__ import annotations

import re
from typing import FrozenSet, Iterable, List, Optional, Tuple

CpuSet = FrozenSet[int]

EMPTY: CpuSet = frozenset()

# Far above any kernel's NR_CPUS (8192): a list that needs more is a typing error, and expanding it would eat the memory.
MAX_CPU = 65535

_RANGE = re.compile(
    r"(?:(?P<all>all)|(?P<first>\d+|N)(?:-(?P<last>\d+|N))?)(?::(?P<used>\d+|N)/(?P<group>\d+|N))?", re.IGNORECASE | re.ASCII
)
_KUBELET_ITEM = re.compile(r"([0-9]+)(?:-([0-9]+))?")
_FLAG = re.compile(r"[A-Za-z_]+")
_WHOLE_WORDS = re.compile(r"[0-9a-fA-F]{1,8}(?:,[0-9a-fA-F]{8})*")

ISOLCPUS_FLAGS = ("domain", "managed_irq", "nohz")


class CpuListError(ValueError):
    """A text that is not a CPU list, with the part that is wrong."""


def _number(text: str, last: Optional[int], whole: str) -> int:
    if text in ("N", "n"):
        if text == "n" or last is None:
            raise CpuListError(f"'{text}' in CPU list '{whole}' stands for the last CPU, which is not known here")
        return last
    value = int(text)
    if value > MAX_CPU:
        raise CpuListError(f"CPU {value} in list '{whole}' is above {MAX_CPU}")
    return value


def from_list(text: str, last: Optional[int] = None) -> CpuSet:
    """Read a kernel CPU list (``bitmap_parselist``, lib/bitmap-str.c).

    Regions are separated by commas or white space, repeats allowed; a region is ``n``, ``a-b``, ``a-b:used/group`` or
    ``all``; ``N`` is the last CPU. ``lscpu``'s stride ``a-b:s`` is read as well.

    :param last: number of the last CPU, for ``N`` and ``all``; without it these two are errors.
    :raises CpuListError: reversed ranges, a group of 0, ``used`` above ``group``, letters, signs.
    """
    cpus: set[int] = set()
    for region in re.split(r"[,\s]+", text):
        if not region:
            continue
        stride = re.fullmatch(r"([0-9]+)-([0-9]+):([0-9]+)", region)
        if stride:
            first, end, step = (int(part) for part in stride.groups())
            if first > end or step == 0 or end > MAX_CPU:
                raise CpuListError(f"'{region}' in CPU list '{text}' is not a range with a stride")
            cpus.update(range(first, end + 1, step))
            continue
        match = _RANGE.fullmatch(region)
        if not match:
            raise CpuListError(f"'{region}' in CPU list '{text}' is neither a number nor a range")
        if match.group("all"):
            if last is None:
                raise CpuListError(f"'all' in CPU list '{text}' needs the number of the last CPU, which is not known here")
            first, end = 0, last
        else:
            first = _number(match.group("first"), last, text)
            end = first if match.group("last") is None else _number(match.group("last"), last, text)
            if match.group("used") and match.group("last") is None:
                raise CpuListError(f"'{region}' in CPU list '{text}': a pattern needs a range before it")
        if first > end:
            raise CpuListError(f"'{region}' in CPU list '{text}' runs backwards")
        if match.group("used") is None:
            cpus.update(range(first, end + 1))
            continue
        used = _number(match.group("used"), last, text)
        group = _number(match.group("group"), last, text)
        if group == 0 or used > group:
            raise CpuListError(f"'{region}' in CPU list '{text}': {used} of every {group} CPUs cannot be taken")
        for start in range(first, end + 1, group):
            cpus.update(range(start, min(start + used, end + 1)))
    return frozenset(cpus)


def from_kubelet(text: str) -> CpuSet:
    """Read a CPU set of the kubelet (``cpuset.Parse``): comma separated ``n`` or ``a-b`` only, no blanks, no empty item.

    :raises CpuListError: everything the kubelet would refuse.
    """
    cpus: set[int] = set()
    if text == "":
        return EMPTY
    for item in text.split(","):
        match = _KUBELET_ITEM.fullmatch(item)
        if not match:
            raise CpuListError(f"'{item}' in CPU set '{text}' is neither a number nor a range; the kubelet takes nothing else")
        first = _number(match.group(1), None, text)
        end = first if match.group(2) is None else _number(match.group(2), None, text)
        if first > end:
            raise CpuListError(f"'{item}' in CPU set '{text}' runs backwards")
        cpus.update(range(first, end + 1))
    return frozenset(cpus)


def to_list(cpus: Iterable[int]) -> str:
    """Print a CPU set in canonical form: ``0-1,64-65``; the empty set is the empty text."""
    parts: List[str] = []
    start = previous = -2
    for cpu in sorted(set(cpus)):
        if cpu == previous + 1:
            previous = cpu
            continue
        if start >= 0:
            parts.append(_span(start, previous))
        start = previous = cpu
    if start >= 0:
        parts.append(_span(start, previous))
    return ",".join(parts)


def _span(first: int, last: int) -> str:
    return str(first) if first == last else f"{first}-{last}"


def from_mask(text: str) -> CpuSet:
    """Read a kernel mask: hexadecimal, comma after every eight digits, most significant word first (lib/bitmap-str.c).

    Leading words may be missing or zero. Words before the last have eight digits or fewer.

    :raises CpuListError: not hexadecimal, or a word above 32 bits.
    """
    text = text.strip()
    body = text[2:] if text.lower().startswith("0x") and "," not in text else text
    value = 0
    words = body.split(",") if body else []
    if _WHOLE_WORDS.fullmatch(body):  # as every kernel prints it; machines of 1,000 CPUs have thousands of masks
        value, words = int(body.replace(",", ""), 16), []
    for word in words:
        if not re.fullmatch(r"[0-9a-fA-F]{1,8}", word):
            if len(words) == 1 and re.fullmatch(r"[0-9a-fA-F]+", word):
                value = int(word, 16)
                break
            raise CpuListError(f"'{word}' in CPU mask '{text}' is not a hexadecimal word of 32 bits")
        value = (value << 32) | int(word, 16)
    if value.bit_length() > MAX_CPU + 1:
        raise CpuListError(f"CPU mask of {value.bit_length()} bits is above {MAX_CPU + 1}")
    bits = bin(value)[:1:-1]
    return frozenset(index for index, bit in enumerate(bits) if bit == "1")


def to_mask(cpus: Iterable[int], width: Optional[int] = None) -> str:
    """Print a CPU set as the kernel does: words of eight hexadecimal digits with commas, most significant first.

    :param width: number of CPUs the mask has to cover (the first word is cut to its digits); without it as many whole
        words as the highest CPU needs, at least one.
    """
    value = 0
    for cpu in cpus:
        value |= 1 << cpu
    digits = (max(width, value.bit_length()) + 3) // 4 if width else ((value.bit_length() + 31) // 32 or 1) * 8
    text = f"{value:0{digits}x}"
    head = len(text) % 8
    words = ([text[:head]] if head else []) + [text[at:at + 8] for at in range(head, len(text), 8)]
    return ",".join(words)


def from_isolcpus(text: str, last: Optional[int] = None) -> Tuple[Tuple[str, ...], CpuSet]:
    """Read the value of ``isolcpus=`` (kernel/sched/isolation.c): ``[flag,...]cpulist``.

    Each flag ends with a comma; without flags the flag is ``domain``. A word that is not a flag but made of letters and
    underscores is skipped by the kernel; a flag that holds any other character makes the kernel ignore the parameter as a
    whole (``managed_irq:1-30``).

    :returns: sorted flags and CPUs. No CPUs means that nothing is isolated.
    :raises CpuListError: the kernel would ignore the parameter.
    """
    flags: set[str] = set()
    rest = text
    named = False
    while rest and rest[0].isalpha():
        head, comma, tail = rest.partition(",")
        if not _FLAG.fullmatch(head):
            raise CpuListError(f"'{head}' in isolcpus={text} is not a flag; the kernel ignores the whole parameter (each flag ends with a comma)")
        if not comma and head not in ISOLCPUS_FLAGS:
            raise CpuListError(f"isolcpus={text} names no CPUs: '{head}' is read as an unknown flag")
        if head in ISOLCPUS_FLAGS:
            flags.add(head)
            named = True
        rest = tail
    cpus = from_list(rest, last)
    if not named:
        flags.add("domain")
    return tuple(sorted(flags)), cpus


__all__ = (
    "EMPTY",
    "ISOLCPUS_FLAGS",
    "MAX_CPU",
    "CpuListError",
    "CpuSet",
    "from_isolcpus",
    "from_kubelet",
    "from_list",
    "from_mask",
    "to_list",
    "to_mask",
)
