# Copyright (c) 2026 The inferops.locality authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Virtual two-socket nodes with real kernels. Standard library only.

    from vlab import node
    with node("a", iommu=True) as a:
        a.run("lscpu")
"""

from __future__ import annotations

from vlab.machine import Shape
from vlab.node import BootFailed, LabError, Node, node

__all__ = ["BootFailed", "LabError", "Node", "Shape", "node"]
