# Copyright (c) 2026 The inferops.locality authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Kubernetes quantities of memory and CPUs, and the kernel's names of huge page sizes."""

from __future__ import annotations

import re
from fractions import Fraction
from typing import Union

_SUFFIXES = {
    "": 1, "k": 10**3, "M": 10**6, "G": 10**9, "T": 10**12, "P": 10**15, "E": 10**18,
    "Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40, "Pi": 2**50, "Ei": 2**60,
}
_QUANTITY = re.compile(r"([0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:(Ki|Mi|Gi|Ti|Pi|Ei|k|M|G|T|P|E)|[eE]([+-]?[0-9]{1,2}))?")
MIB = 2**20


class QuantityError(ValueError):
    """A text that is not a Kubernetes quantity of bytes."""


def to_bytes(quantity: Union[str, int]) -> int:
    """Bytes of a Kubernetes quantity (``8Gi``, ``500M``, ``1.5Gi``, ``4e9``, 1024).

    Grammar: apimachinery ``resource.ParseQuantity``; negative values and fractions of a byte are refused, since memory
    that is reserved has neither.

    :raises QuantityError: the text is not a quantity of whole bytes.
    """
    if isinstance(quantity, bool) or not isinstance(quantity, (int, str)):
        raise QuantityError(f"{quantity!r} is not a quantity: wanted a text such as 8Gi or 500Mi")
    if isinstance(quantity, int):
        if quantity < 0:
            raise QuantityError(f"{quantity} is negative")
        return quantity
    match = _QUANTITY.fullmatch(quantity.strip())
    if not match:
        raise QuantityError(f"'{quantity}' is not a quantity: wanted a number with Ki, Mi, Gi, Ti, k, M, G or T, such as 8Gi")
    number, suffix, exponent = match.groups()
    value = Fraction(number if not number.endswith(".") else number + "0") * _SUFFIXES[suffix or ""]
    if exponent is not None:
        value *= Fraction(10) ** int(exponent)
    if value.denominator != 1:
        raise QuantityError(f"'{quantity}' is not a whole number of bytes")
    return int(value)


def to_cores(quantity: Union[str, int, float]) -> Fraction:
    """CPUs of a Kubernetes quantity: ``2`` and ``2000m`` are 2, ``500m`` a half; :raises QuantityError: the text is not a quantity of CPUs."""
    match = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?|\.[0-9]+)([num]|k|[eE][+-]?[0-9]{1,2})?", str(quantity).strip())
    if not match or isinstance(quantity, bool):
        raise QuantityError(f"'{quantity}' is not a quantity of CPUs: wanted a number such as 2 or 500m")
    number, suffix = match.groups()
    scale = {None: Fraction(1), "m": Fraction(1, 10**3), "u": Fraction(1, 10**6), "n": Fraction(1, 10**9), "k": Fraction(10**3)}.get(suffix)
    return Fraction(number) * (Fraction(10) ** int(suffix[1:]) if scale is None else scale)


def mebi(size: int) -> str:
    """Bytes as a quantity in Mi (``6394Mi``); :raises QuantityError: not a whole number of MiB."""
    if size % MIB:
        raise QuantityError(f"{size} bytes are not a whole number of Mi")
    return f"{size // MIB}Mi"


def binary(size: int) -> str:
    """Bytes as the largest binary unit that divides them: 8589934592 is ``8Gi``, 500 is ``500``."""
    for suffix in ("Ti", "Gi", "Mi", "Ki"):
        if size and size % _SUFFIXES[suffix] == 0:
            return f"{size // _SUFFIXES[suffix]}{suffix}"
    return str(size)


def page_from_kib(kib: int) -> str:
    """Kubernetes' name of a huge page size from the kernel's directory number (``hugepages-2048kB``): ``2Mi``."""
    return binary(kib * 1024)


def page_kernel(page: str) -> str:
    """Kubernetes' page size (``1Gi``) as ``hugepagesz=`` takes it (``1G``, lib/cmdline.c memparse)."""
    size = to_bytes(page)
    for suffix in ("Gi", "Mi", "Ki"):
        if size and size % _SUFFIXES[suffix] == 0:
            return f"{size // _SUFFIXES[suffix]}{suffix[0]}"
    raise QuantityError(f"'{page}' is not a page size")


def page_from_kernel(text: str) -> str:
    """A size of ``hugepagesz=`` (``1G``, ``2M``, ``2048K``, bytes) as Kubernetes names it.

    :raises QuantityError: not a size.
    """
    match = re.fullmatch(r"(0[xX][0-9a-fA-F]+|[0-9]+)([kKmMgGtT]?)", text)
    if not match:
        raise QuantityError(f"'{text}' is not a page size: wanted 2M or 1G")
    factor = {"": 1, "k": 2**10, "m": 2**20, "g": 2**30, "t": 2**40}[match.group(2).lower()]
    return binary(int(match.group(1), 0) * factor if match.group(1)[:2].lower() == "0x" else int(match.group(1)) * factor)


__all__ = ("MIB", "QuantityError", "binary", "mebi", "page_from_kernel", "page_from_kib", "page_kernel", "to_bytes", "to_cores")
