# Copyright (c) 2026 The inferops.locality authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How many entries the connection maps of a Cilium agent get from a node's memory, and what they cost.

The rule is that of pkg/option/config.go (calculateDynamicBPFMapSizes): the entries of all maps at their defaults are taken as 148373504 bytes, and each map
grows as the share of the memory does, between a least and a most.
"""

from __future__ import annotations

from typing import Dict, Tuple

_DEFAULT_BYTES = 148373504
_MOST = 16777216
# Map: (entries by default, the least).
_MAPS: Dict[str, Tuple[int, int]] = {"ct_tcp": (524288, 131072), "ct_any": (262144, 65536), "nat": (524288, 131072)}
# Bytes of key and value of one entry, as the agent itself counts them; what the kernel keeps beside them comes on top.
_ENTRY_BYTES = 94


def entries(memory: int, ratio: float, possible_cpus: int = 1, distributed_lru: bool = False) -> Dict[str, int]:
    """Entries of ``ct_tcp``, ``ct_any`` and ``nat``, for each address family.

    :param memory: of the node, in bytes. :param ratio: ``bpf.mapDynamicSizeRatio``, above 0 and at most 1.
    :param possible_cpus: a distributed LRU deals its entries over them, the same number to each.
    """
    share = int(memory * ratio)
    found = {name: max(least, min(_MOST, default * share // _DEFAULT_BYTES)) for name, (default, least) in _MAPS.items()}
    if distributed_lru and possible_cpus > 0:
        found = {name: max(possible_cpus, count // possible_cpus * possible_cpus) for name, count in found.items()}
    found["nat"] = min(found["nat"], found["ct_tcp"] + found["ct_any"])
    return found


def cost(found: Dict[str, int], families: int = 1) -> int:
    """Bytes that the entries take at least once the maps are full; maps of an LRU, such as these, take them at once."""
    return sum(found.values()) * _ENTRY_BYTES * families


def at_most(found: Dict[str, int]) -> bool:
    """Whether a map is as large as it can be, so that more memory or a higher ratio changes nothing of it."""
    return any(count >= _MOST - _MOST // 1000 for count in found.values())


__all__ = ("at_most", "cost", "entries")
