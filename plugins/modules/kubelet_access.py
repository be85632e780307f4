#!/usr/bin/python

# Copyright (c) 2026 The inferops.locality authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: kubelet_access
short_description: Get a short-lived token with which a node can ask its kubelet for its configuration
version_added: 0.1.0
description:
  - Asks the API server for a token of a service account that may read C(/configz) of kubelets and nothing else, as C(docs/rbac-configz.yaml) makes it, and for
    the port of the node's kubelet. For M(inferops.locality.kubelet_configz), which runs on the node.
  - A token of the account that this module runs with would give the node rights on all nodes.
options:
  node:
    description: Name of the Node.
    type: str
    required: true
  account:
    description: Name of the service account.
    type: str
    default: inferops-locality-configz
  namespace:
    description: Its namespace.
    type: str
    default: kube-system
  seconds:
    description: How long the token is valid. The API server gives none for less than ten minutes.
    type: int
    default: 600
extends_documentation_fragment:
  - inferops.locality.cluster
attributes:
  check_mode:
    support: full
    description: Can run in check mode and does the same there. A token is no object of the cluster.
  diff_mode:
    support: none
    description: Nothing is changed.
  idempotent:
    support: full
    description: Nothing is changed, but each token is another one.
author:
  - The inferops.locality authors (@inferops)
seealso:
  - module: inferops.locality.kubelet_configz
"""

EXAMPLES = r"""
- name: Get a token that opens nothing else
  inferops.locality.kubelet_access:
    kubeconfig: "{{ locality_kubeconfig }}"
    node: gpu-a01
  delegate_to: localhost
  no_log: true
  register: access
"""

RETURN = r"""
token:
  description: The token.
  returned: success
  type: str
  sample: eyJhbGciOiJSUzI1NiJ9.e30.c2lnbmF0dXJl
port:
  description: Port of the node's kubelet.
  returned: success
  type: int
  sample: 10250
status:
  description: HTTP status of the API server's refusal, 0 if it was not reached; absent if the kubeconfig cannot be used.
  returned: failure
  type: int
  sample: 404
"""

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.inferops.locality.plugins.module_utils import kube_client, kubelet_configz
from ansible_collections.inferops.locality.plugins.module_utils.kube_client import ApiError


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            **kube_client.ARGUMENTS,
            "node": {"type": "str", "required": True},
            "account": {"type": "str", "default": "inferops-locality-configz"},
            "namespace": {"type": "str", "default": "kube-system"},
            "seconds": {"type": "int", "default": 600},
        },
        supports_check_mode=True,
    )
    api = kube_client.connect(module)
    try:
        node = kube_client.get_node(api, module.params["node"])
        token = kube_client.account_token(api, module.params["namespace"], module.params["account"], module.params["seconds"])
    except ApiError as error:
        kube_client.fail(module, error)
        raise
    endpoint = ((node.get("status") or {}).get("daemonEndpoints") or {}).get("kubeletEndpoint") or {}
    module.exit_json(changed=False, token=token, port=endpoint.get("Port") or kubelet_configz.PORT)


if __name__ == "__main__":
    main()
