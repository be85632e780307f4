# Copyright (c) 2026 The inferops.locality authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A real control plane on the loopback address, with stand-ins for nodes. Standard library only; needs tests/lab on sys.path too.

    from controlplane import control_plane
    with control_plane() as cluster:
        cluster.nodes.add("a")
        cluster.kubectl("get", "nodes")
"""

from __future__ import annotations

from controlplane.api import Api, ApiError
from controlplane.binaries import ClusterError
from controlplane.plane import ControlPlane, control_plane
from controlplane.standin import StandIn, StandIns

__all__ = ["Api", "ApiError", "ClusterError", "ControlPlane", "StandIn", "StandIns", "control_plane"]
