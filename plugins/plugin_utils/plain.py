# Copyright (c) 2026 The inferops.locality authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Plain Python values from what a playbook hands to a plugin."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def plain(value: Any) -> Any:
    """A copy made of dict, list, str, int, float, bool and None only.

    ansible-core hands over subclasses of these that carry their origin and may template when they are read; the logic of this
    collection compares, copies and prints values, and must see the values themselves. What is of none of these types (a date that
    YAML made) is returned as it is, for the check that follows to name it.
    """
    if isinstance(value, Mapping):
        return {plain(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, bool) or value is None:
        return value
    for kind in (str, int, float):
        if isinstance(value, kind):
            return kind(value)
    return value


__all__ = ("plain",)
