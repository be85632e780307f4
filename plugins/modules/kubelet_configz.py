#!/usr/bin/python

# Copyright (c) 2026 The inferops.locality authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: kubelet_configz
short_description: Ask the kubelet of this node what it runs with
version_added: 0.1.0
description:
  - Reads C(/configz) of the kubelet on the loopback address, which is its configuration after all files and flags. What is written is not necessarily in force.
  - The kubelet has the API server say who may read it. The token needs the right C(get) on C(nodes/configz), which Kubernetes has since 1.33.
options:
  token:
    description: The token of an account with that right, RV(inferops.locality.kubelet_access#module:token).
    type: str
    required: true
  port:
    description: Port of the kubelet.
    type: int
    default: 10250
  timeout:
    description: Seconds to wait for a kubelet that is starting.
    type: int
    default: 120
attributes:
  check_mode:
    support: full
    description: Can run in check mode and does the same there.
  diff_mode:
    support: none
    description: Nothing is changed.
  idempotent:
    support: full
    description: Nothing is changed.
author:
  - The inferops.locality authors (@inferops)
seealso:
  - module: inferops.locality.kubelet_access
  - module: inferops.locality.locality_drift
"""

EXAMPLES = r"""
- name: Get a token that opens nothing else
  inferops.locality.kubelet_access:
    kubeconfig: "{{ locality_kubeconfig }}"
    node: gpu-a01
  delegate_to: localhost
  no_log: true
  register: access

- name: Ask the kubelet what it runs with
  inferops.locality.kubelet_configz:
    token: "{{ access.token }}"
    port: "{{ access.port }}"
  register: kubelet
"""

RETURN = r"""
running:
  description: Knobs of the kubelet layer as they are in force, C(null) where the kubelet has none. Bytes are numbers.
  returned: success
  type: dict
  sample:
    kubelet.cpu_manager_policy: static
    kubelet.cpu_manager_options: [full-pcpus-only=true]
    kubelet.reserved_cpus: 0-1,32-33
    kubelet.system_reserved: {memory: 1073741824}
status:
  description: HTTP status of the kubelet's refusal, 0 if it was not reached.
  returned: failure
  type: int
  sample: 403
"""

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.inferops.locality.plugins.module_utils import kubelet_configz


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "token": {"type": "str", "required": True, "no_log": True},
            "port": {"type": "int", "default": kubelet_configz.PORT},
            "timeout": {"type": "int", "default": 120},
        },
        supports_check_mode=True,
    )
    try:
        config = kubelet_configz.read(module.params["token"], module.params["port"], module.params["timeout"])
    except kubelet_configz.ConfigzError as error:
        module.fail_json(msg=str(error), status=error.status)
        raise
    module.exit_json(changed=False, running=kubelet_configz.running(config))


if __name__ == "__main__":
    main()
