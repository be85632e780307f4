#!/usr/bin/python

# Copyright (c) 2026 The inferops.locality authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: node_cordon
short_description: Begin and end a node's turn, without lifting a cordon of somebody else
version_added: 0.1.0
description:
  - With O(state=cordoned) the scheduler puts no more pods on the node, and the annotation C(locality.inferops.io/cordoned-by) says which run began the turn,
    when, whether the cordon is the run's or was there before, the boot ID, the allocatable extended resources and the pods of the node that were ready.
  - A node that has this annotation is gone on with, whichever run wrote it, since the lock of M(inferops.locality.node_lock) is for one run at a time. What the
    node has to have again is not read anew then.
  - With O(state=uncordoned) the annotation and the taint go. The cordon goes only if it is the run's. A node without the annotation keeps its cordon.
  - M(kubernetes.core.k8s_drain) lifts any cordon, whoever made it, and leaves no mark by which a later run could tell. Other controllers lift cordons as
    well, so call this with O(state=cordoned) once more right before a reboot, and drain again if RV(lifted=true).
options:
  node:
    description: Name of the Node.
    type: str
    required: true
  state:
    description: V(read) changes nothing.
    type: str
    choices: [cordoned, uncordoned, read]
    default: read
  holder:
    description: Id of the run. Needed with O(state=cordoned).
    type: str
  taint:
    description: With O(state=cordoned), also put the taint C(locality.inferops.io/unproved:NoSchedule) on the node, which a lifted cordon leaves in place.
    type: bool
    default: false
  disturbed:
    description:
      - With O(state=cordoned), also note that the node is touched from here on. RV(mark) says so to a later run, which must not give the node back before it
        is whole. It goes with the mark.
    type: bool
    default: false
  keep_disturbed:
    description: With O(state=uncordoned), leave a node as it is that is noted as O(disturbed). For a turn that failed.
    type: bool
    default: false
  machine_id:
    description: The machine's C(/etc/machine-id). If the Node has another one the module fails, since the inventory means another machine.
    type: str
    default: ""
extends_documentation_fragment:
  - inferops.locality.cluster
attributes:
  check_mode:
    support: full
    description: Can run in check mode and return what would be changed; the API server is asked with C(dryRun=All).
  diff_mode:
    support: full
    description: Returns what is changed of the Node.
  idempotent:
    support: full
    description: A second run with the same options changes nothing.
author:
  - The inferops.locality authors (@inferops)
seealso:
  - module: inferops.locality.node_drain
  - module: inferops.locality.node_lock
"""

EXAMPLES = r"""
- name: Cordon the node
  inferops.locality.node_cordon:
    kubeconfig: "{{ locality_kubeconfig }}"
    node: gpu-a01
    holder: "{{ lock.holder }}"
    state: cordoned
  delegate_to: localhost
  register: turn

- name: End the turn
  inferops.locality.node_cordon:
    kubeconfig: "{{ locality_kubeconfig }}"
    node: gpu-a01
    state: uncordoned
  delegate_to: localhost
"""

RETURN = r"""
mark:
  description:
    - What the annotation says after the module, null if it is not there.
    - C(ours) is false where somebody else had cordoned the node. C(residents) are DaemonSets and static pods whose pod was ready.
  returned: success
  type: dict
  sample:
    run: deploy@control/4711-812345-5e1f0c3a-4026531836
    since: "2026-11-30T02:15:00Z"
    ours: true
    disturbed: false
    boot_id: 5e1f0c3a-7a52-4a55-8fd2-6a7a5d0b7d1e
    extended: {nvidia.com/gpu: 8}
    residents: [DaemonSet kube-system/cilium, static pod kube-system/kube-proxy-gpu-a01]
schedulable:
  description: Whether the scheduler may put pods on the node after the module.
  returned: success
  type: bool
  sample: false
lifted:
  description: The turn had begun, and somebody has made the node schedulable since. Pods may have come.
  returned: success
  type: bool
  sample: false
boot_id:
  description: The boot that the kubelet reported last, to be compared after a reboot.
  returned: success
  type: str
  sample: 5e1f0c3a-7a52-4a55-8fd2-6a7a5d0b7d1e
status:
  description: HTTP status of the API server's refusal, 0 if it was not reached; absent if the kubeconfig cannot be used.
  returned: failure
  type: int
  sample: 403
"""

from dataclasses import asdict
from typing import Any, Dict, Tuple

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.inferops.locality.plugins.module_utils import kube_client, lease_slots, node_turn
from ansible_collections.inferops.locality.plugins.module_utils.kube_client import Api, ApiError


def turn(api: Api, params: Dict[str, Any], check_mode: bool) -> Tuple[Dict[str, Any], node_turn.Change]:
    """Read the Node, judge it and write it; the Node as it was, and what was done."""
    # Read first, so that little time is between the reading of the Node and its writing.
    pods = kube_client.pods_of(api, params["node"]) if params["state"] == "cordoned" else []
    node = kube_client.get_node(api, params["node"])
    wrong = node_turn.other_machine(node, params["machine_id"])
    if wrong:
        raise ApiError(f"node {params['node']}", 200, wrong, {})
    if params["state"] == "cordoned":
        now = lease_slots.time_text(api.server_time())
        change = node_turn.cordon(node, pods, run=params["holder"], now=now, taint=params["taint"], disturbed=params["disturbed"])
    elif params["state"] == "uncordoned":
        change = node_turn.uncordon(node, keep_disturbed=params["keep_disturbed"])
    else:
        change = node_turn.Change(None, node_turn.mark_of(node), schedulable=not node_turn.is_cordoned(node))
    if change.patch is not None:
        api.patch(kube_client.node_path(params["node"]), change.patch, dry_run=check_mode)
    return node, change


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            **kube_client.ARGUMENTS,
            "node": {"type": "str", "required": True},
            "state": {"type": "str", "choices": ["cordoned", "uncordoned", "read"], "default": "read"},
            "holder": {"type": "str"},
            "taint": {"type": "bool", "default": False},
            "disturbed": {"type": "bool", "default": False},
            "keep_disturbed": {"type": "bool", "default": False},
            "machine_id": {"type": "str", "default": ""},
        },
        required_if=[("state", "cordoned", ["holder"])],
        supports_check_mode=True,
    )
    api = kube_client.connect(module)
    try:
        node, change = kube_client.retry_conflict(lambda: turn(api, module.params, module.check_mode))
    except ApiError as error:
        kube_client.fail(module, error)
        raise
    except node_turn.MarkError as error:
        module.fail_json(msg=f"node {module.params['node']}: {error}; remove the annotation if nobody works on the node", status=200)
    result = {
        "changed": change.patch is not None, "mark": asdict(change.mark) if change.mark else None, "schedulable": change.schedulable,
        "lifted": change.lifted, "boot_id": node_turn.boot_id(node),
    }
    if module._diff and change.patch is not None:
        result["diff"] = node_turn.diff(node, change.patch)
    module.exit_json(**result)


if __name__ == "__main__":
    main()
