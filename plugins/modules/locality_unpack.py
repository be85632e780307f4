#!/usr/bin/python
# Copyright (c) 2026 The inferops.locality authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Documentation of the action locality_unpack, which runs on the controller."""

from __future__ import annotations

DOCUMENTATION = r"""
module: locality_unpack
short_description: Give a snapshot as a folder of the controller
version_added: 0.1.0
author:
  - The inferops.locality authors (@inferops)
description:
  - Unpacks an archive of M(inferops.locality.locality_snapshot) into the temporary folder of the run, which is removed at its end.
  - An archive is not trusted. One with absolute names, C(..), links that leave it, devices or more than a snapshot can hold is refused as a whole.
options:
  src:
    description: The archive on the controller. A folder is returned as it is; one with links that leave it is refused.
    type: path
    required: true
attributes:
  check_mode:
    support: full
    description: Unpacks in check mode too, since only the temporary folder of the run is written.
  diff_mode:
    support: none
    description: Has no diff.
"""

EXAMPLES = r"""
- name: Open a snapshot
  inferops.locality.locality_unpack:
    src: snapshots/gpu-a01.tar.gz
  register: snapshot

- name: Read the hardware it holds
  inferops.locality.numa_topology:
    root: "{{ snapshot.path }}"
"""

RETURN = r"""
path:
  description: The folder.
  returned: success
  type: str
"""
