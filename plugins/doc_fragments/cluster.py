# Copyright (c) 2026 The inferops.locality authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Documentation that the modules which speak to the API server share."""

from __future__ import annotations


class ModuleDocFragment:
    DOCUMENTATION = r"""
options:
  kubeconfig:
    description: File with the cluster's address and credentials, on the host that the task runs on. By default that of C(KUBECONFIG), else C(~/.kube/config).
    type: path
  context:
    description: The context in it. By default its current one.
    type: str
  request_timeout:
    description: Seconds that one answer of the API server may take.
    type: int
    default: 30
requirements:
  - The Python package kubernetes (24.2 or newer) on the host that the task runs on.
notes:
  - Runs where the API server can be reached from, so C(delegate_to) the control host. Needs no connection to the node.
  - C(docs/rbac.yaml) of the collection has the rights that are needed.
"""
