# Copyright (c) 2026 The inferops.locality authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.inferops.locality.plugins.module_utils import quantity


@pytest.mark.parametrize(
    "text, size",
    [
        ("0", 0), ("8Gi", 8 * 2**30), ("500M", 500 * 10**6), ("1.5Gi", 1610612736), ("4e9", 4 * 10**9), (1024, 1024),
        (" 4Gi ", 4 * 2**30), ("1k", 1000), ("2Ki", 2048), (".5Ki", 512), ("1.Ki", 1024),
    ],
)
def test_to_bytes(text: str | int, size: int) -> None:
    assert quantity.to_bytes(text) == size


@pytest.mark.parametrize("text", ["", "8 Gi", "8GB", "-1Gi", "1.5", "0.3Ki", "five", "8gi", -1, True, None, 1.5, "1e999"])
def test_to_bytes_refuses(text: object) -> None:
    with pytest.raises(quantity.QuantityError):
        quantity.to_bytes(text)  # type: ignore[arg-type]


@given(st.integers(0, 2**50))
def test_binary_is_exact(size: int) -> None:
    assert quantity.to_bytes(quantity.binary(size)) == size


def test_mebi_is_exact_or_refused() -> None:
    assert quantity.mebi(6394 * 2**20) == "6394Mi"
    with pytest.raises(quantity.QuantityError):
        quantity.mebi(2**20 + 1)


@pytest.mark.parametrize("page, kernel, kib", [("2Mi", "2M", 2048), ("1Gi", "1G", 1048576), ("64Ki", "64K", 64), ("16Gi", "16G", 16777216)])
def test_page_sizes(page: str, kernel: str, kib: int) -> None:
    assert quantity.page_kernel(page) == kernel
    assert quantity.page_from_kernel(kernel) == quantity.page_from_kernel(kernel.lower()) == page
    assert quantity.page_from_kib(kib) == page
    assert quantity.page_from_kernel(str(kib * 1024)) == quantity.page_from_kernel(hex(kib * 1024)) == page


@pytest.mark.parametrize(
    ("text", "cores"),
    [("2", 2), (3, 3), ("2000m", 2), ("500m", Fraction(1, 2)), ("0.1", Fraction(1, 10)), (".5", Fraction(1, 2)), ("1k", 1000), ("2e1", 20),
     ("100u", Fraction(1, 10000)), ("1n", Fraction(1, 10**9)), ("0", 0)],
)
def test_cpus_of_a_quantity(text: object, cores: object) -> None:
    assert quantity.to_cores(text) == cores  # type: ignore[arg-type]


@pytest.mark.parametrize("text", ["", "two", "2Gi", "-1", "1e", True, "2 m"])
def test_what_is_no_quantity_of_cpus(text: object) -> None:
    with pytest.raises(quantity.QuantityError, match="not a quantity of CPUs"):
        quantity.to_cores(text)  # type: ignore[arg-type]
