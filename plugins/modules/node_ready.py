#!/usr/bin/python

# Copyright (c) 2026 The inferops.locality authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: node_ready
short_description: Wait until a node is back as it was before its turn
version_added: 0.1.0
description:
  - Waits until the node is Ready with its network, has another boot ID where it was to be rebooted, has none of the taints of a node that is not fit yet, and
    has again what C(locality.inferops.io/cordoned-by) says it had when its turn began. That is its allocatable extended resources, such as
    C(nvidia.com/gpu), and the pods of DaemonSets and static pods that were ready, the CNI's agent and the device plugins among them.
  - All of it has to be so for O(stable_seconds) without a break, and the kubelet has to renew its Lease in that time. The condition Ready alone is true for a
    while after a kubelet has ended.
  - A node without the annotation is judged by what it says of itself alone.
options:
  node:
    description: Name of the Node.
    type: str
    required: true
  timeout:
    description: Seconds to wait. When they are over the module fails with everything that is missing.
    type: int
    default: 600
  boot_before:
    description: The boot ID that must be gone, RV(inferops.locality.node_cordon#module:boot_id) from before the reboot. Empty if the node was not rebooted.
    type: str
    default: ""
  stable_seconds:
    description: How long all has to be well. The kubelet renews its Lease every 10 seconds, so that it takes longer than that in any case.
    type: int
    default: 15
extends_documentation_fragment:
  - inferops.locality.cluster
attributes:
  check_mode:
    support: full
    description: Can run in check mode; looks once and does not wait or fail.
  diff_mode:
    support: none
    description: Nothing is changed.
  idempotent:
    support: full
    description: Nothing is changed.
author:
  - The inferops.locality authors (@inferops)
seealso:
  - module: inferops.locality.node_cordon
"""

EXAMPLES = r"""
- name: Wait for the node after its reboot
  inferops.locality.node_ready:
    kubeconfig: "{{ locality_kubeconfig }}"
    node: gpu-a01
    boot_before: "{{ turn.boot_id }}"
    timeout: 2400
  delegate_to: localhost
"""

RETURN = r"""
ready:
  description: Whether pods may come.
  returned: success
  type: bool
  sample: true
missing:
  description: What is not as it has to be, at the last look.
  returned: always
  type: list
  elements: str
  sample: ["allocatable nvidia.com/gpu: found 0, wanted 8 as before"]
waited_seconds:
  description: How long it took.
  returned: always
  type: int
  sample: 41
boot_id:
  description: The boot that the kubelet reported last.
  returned: success
  type: str
  sample: 5e1f0c3a-7a52-4a55-8fd2-6a7a5d0b7d1e
status:
  description: HTTP status of the API server's refusal, 0 if it was not reached; absent if the kubeconfig cannot be used.
  returned: when the API server refused
  type: int
  sample: 403
"""

import time

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.inferops.locality.plugins.module_utils import kube_client, node_turn, node_wait
from ansible_collections.inferops.locality.plugins.module_utils.kube_client import ApiError


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            **kube_client.ARGUMENTS,
            "node": {"type": "str", "required": True},
            "timeout": {"type": "int", "default": 600},
            "boot_before": {"type": "str", "default": ""},
            "stable_seconds": {"type": "int", "default": 15},
        },
        supports_check_mode=True,
    )
    params = module.params
    if params["timeout"] <= params["stable_seconds"]:
        module.fail_json(msg=f"timeout: found {params['timeout']}, wanted more than stable_seconds {params['stable_seconds']}", missing=[], waited_seconds=0)
    began = time.monotonic()
    wait = node_wait.Wait(kube_client.connect(module), params["node"], boot_before=params["boot_before"], stable_seconds=params["stable_seconds"])
    try:
        if module.check_mode:
            wait.look()
        else:
            wait.run(params["timeout"])
    except ApiError as error:
        kube_client.fail(module, error, missing=wait.missing, waited_seconds=int(time.monotonic() - began))
    except node_turn.MarkError as error:
        module.fail_json(msg=f"node {params['node']}: {error}", missing=[str(error)], waited_seconds=int(time.monotonic() - began))
    waited = int(time.monotonic() - began)
    if wait.missing and not module.check_mode:
        message = f"node {params['node']} is not back within {params['timeout']} s: {'; '.join(wait.missing)}"
        module.fail_json(msg=message, missing=wait.missing, waited_seconds=waited)
    module.exit_json(changed=False, ready=not wait.missing, missing=wait.missing, waited_seconds=waited, boot_id=wait.boot_id)


if __name__ == "__main__":
    main()
