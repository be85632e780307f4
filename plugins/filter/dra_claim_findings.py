# Copyright (c) 2026 The inferops.locality authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Filter dra_claim_findings."""

from __future__ import annotations

from typing import Any, Callable, Dict, List, Optional

from ansible.errors import AnsibleFilterError

from ansible_collections.inferops.locality.plugins.module_utils import dra_claims
from ansible_collections.inferops.locality.plugins.plugin_utils.plain import plain

DOCUMENTATION = r"""
name: dra_claim_findings
short_description: Say what is wrong with a claim that is to align GPU and NIC
version_added: 0.1.0
author:
  - The inferops.locality authors (@inferops)
description:
  - Judges a ResourceClaim or ResourceClaimTemplate before the scheduler does. It finds constraints on attributes that no driver publishes, on one device alone
    or on requests that do not exist; a GPU that is not in the claim; fields that stand where this version of the API does not have them; and parameters that
    DRANET refuses.
  - Such claims are accepted by the API server. They stay pending, or are allocated and align nothing.
options:
  _input:
    description:
      - The object.
    type: dict
    required: true
  pod:
    description:
      - The pod that uses it, or a Deployment, Job or other object with its template, to find a GPU that comes from the device plugin.
    type: dict
  gpu_classes:
    description:
      - DeviceClasses whose devices are GPUs.
    type: list
    elements: str
    default: [gpu.nvidia.com, mig.nvidia.com, vfio.gpu.nvidia.com]
"""

EXAMPLES = r"""
- name: Refuse a claim template that aligns nothing
  ansible.builtin.assert:
    that: found | length == 0
    fail_msg: "{{ found | map(attribute='message') | join('; ') }}"
  vars:
    found: "{{ lookup('ansible.builtin.file', 'gpu-nic.yaml') | from_yaml | inferops.locality.dra_claim_findings | selectattr('severity', 'eq', 'error') }}"
"""

RETURN = r"""
_value:
  description: Findings, errors first, each with C(id), C(severity), C(message) and C(hint), which says what to write instead.
  type: list
  elements: dict
"""


def dra_claim_findings(claim: Any, pod: Optional[Any] = None, gpu_classes: Any = dra_claims.GPU_CLASSES) -> List[Dict[str, str]]:
    try:
        return dra_claims.check_claim(plain(claim), pod=plain(pod) if pod else None, gpu_classes=list(gpu_classes))
    except dra_claims.ClaimError as error:
        raise AnsibleFilterError(f"dra_claim_findings: {error}") from error


class FilterModule:
    """Filter dra_claim_findings."""

    def filters(self) -> Dict[str, Callable[..., Any]]:
        return {"dra_claim_findings": dra_claim_findings}
