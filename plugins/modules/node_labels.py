#!/usr/bin/python

# Copyright (c) 2026 The inferops.locality authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: node_labels
short_description: Give a Node the labels and taints of its plan
version_added: 0.1.0
description:
  - Sets labels and taints of a Node, and takes away those that an earlier run set and that are no longer wanted. Those of others stay.
  - RKE2 gives C(node-label) and C(node-taint) of its configuration to the API server when a node registers, and never again.
  - What was set stands in the annotation C(locality.inferops.io/labels). A label or taint that somebody changed after it was set is theirs, and stays when it
    is no longer wanted.
options:
  node:
    description: Name of the Node.
    type: str
    required: true
  state:
    description:
      - V(present) sets O(labels) and O(taints).
      - V(absent) takes away all that was set, as V(present) with none.
      - V(read) changes nothing.
    type: str
    choices: [present, absent, read]
    default: present
  labels:
    description: Names to values.
    type: dict
    default: {}
  taints:
    description: Such as V(dedicated=inference:NoSchedule), or V(dedicated:NoSchedule) without a value. A taint of the same key and effect is replaced.
    type: list
    elements: str
    default: []
extends_documentation_fragment:
  - inferops.locality.cluster
attributes:
  check_mode:
    support: full
    description: Can run in check mode and return what would be changed; the API server is asked with C(dryRun=All).
  diff_mode:
    support: full
    description: Returns the labels and taints that are changed.
  idempotent:
    support: full
    description: A second run with the same options changes nothing.
author:
  - The inferops.locality authors (@inferops)
seealso:
  - module: inferops.locality.locality_drift
"""

EXAMPLES = r"""
- name: Label the node
  inferops.locality.node_labels:
    kubeconfig: "{{ locality_kubeconfig }}"
    node: gpu-a01
    labels: {inferops.io/chassis: h100-8gpu}
    taints: ["dedicated=inference:NoSchedule"]
  delegate_to: localhost

- name: Read what the API server knows
  inferops.locality.node_labels:
    kubeconfig: "{{ locality_kubeconfig }}"
    node: gpu-a01
    state: read
  delegate_to: localhost
  register: known

- name: Compare it with the plan
  inferops.locality.locality_drift:
    plan: "{{ plan }}"
    state: "{{ ansible_facts['locality_state'] }}"
    cluster_state: "{{ known.cluster_state }}"
"""

RETURN = r"""
cluster_state:
  description: All labels and taints of the Node after the module, as O(inferops.locality.locality_drift#module:cluster_state) takes them.
  returned: success
  type: dict
  sample:
    labels: {kubernetes.io/hostname: gpu-a01, inferops.io/chassis: h100-8gpu}
    taints: ["dedicated=inference:NoSchedule"]
kept:
  description: What an earlier run set, is no longer wanted, and stays, since somebody has changed it.
  returned: success
  type: list
  elements: str
  sample: [label inferops.io/chassis=mine]
status:
  description: HTTP status of the API server's refusal, 0 if it was not reached; absent if the kubeconfig cannot be used.
  returned: failure
  type: int
  sample: 403
"""

from typing import Any, Dict, Tuple

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.inferops.locality.plugins.module_utils import kube_client, node_labels
from ansible_collections.inferops.locality.plugins.module_utils.kube_client import Api, ApiError


def set_labels(api: Api, params: Dict[str, Any], check_mode: bool) -> Tuple[Dict[str, Any], node_labels.Change]:
    """Read the Node, judge it and write it; the Node as it is then, and what was done."""
    node = kube_client.get_node(api, params["node"])
    if params["state"] == "read":
        return node, node_labels.Change(None)
    present = params["state"] == "present"
    labels = {str(key): str(value) for key, value in params["labels"].items()} if present else {}
    change = node_labels.decide(node, labels, params["taints"] if present else [])
    if change.patch is not None:
        node = api.patch(kube_client.node_path(params["node"]), change.patch, dry_run=check_mode)
    return node, change


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            **kube_client.ARGUMENTS,
            "node": {"type": "str", "required": True},
            "state": {"type": "str", "choices": ["present", "absent", "read"], "default": "present"},
            "labels": {"type": "dict", "default": {}},
            "taints": {"type": "list", "elements": "str", "default": []},
        },
        supports_check_mode=True,
    )
    api = kube_client.connect(module)
    try:
        node, change = kube_client.retry_conflict(lambda: set_labels(api, module.params, module.check_mode))
    except ApiError as error:
        kube_client.fail(module, error)
        raise
    except ValueError as error:
        module.fail_json(msg=f"taints: {error}")
    result: Dict[str, Any] = {
        "changed": change.patch is not None, "kept": list(change.kept),
        "cluster_state": {"labels": node_labels.labels_of(node), "taints": node_labels.taints_of(node)},
    }
    if module._diff and change.patch is not None:
        header = f"Node {module.params['node']}"
        result["diff"] = {"before": change.before, "after": change.after, "before_header": header, "after_header": header}
    module.exit_json(**result)


if __name__ == "__main__":
    main()
