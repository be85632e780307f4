#!/usr/bin/python

# Copyright (c) 2026 The inferops.locality authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: node_lock
short_description: Take, renew and release the lock for a node's turn
version_added: 0.1.0
description:
  - O(slots) Leases C(kube-system/inferops-locality-<slot>) are the lock. A run needs one for each node that it works on, so that no more than O(slots) nodes
    are worked on at a time, whoever works on them. No two runs have a Lease for the same node.
  - A Lease is written only if nobody wrote it since it was read. It is taken over only when it has expired, by the API server's clock, or from a holder that
    O(take_from) names, or from a run of this control host whose process has ended. A held lock fails the module, which says by whom, for which node and since
    when.
  - A Lease that is released stays, without a holder.
  - The action plugin of this name adds the run's id and looks for its processes on the machine that runs ansible-playbook. The Leases are written from the
    host that the task runs on.
options:
  node:
    description: Name of the Node.
    type: str
    required: true
  state:
    description:
      - V(held) takes the lock, or renews it.
      - V(renewed) renews it, and fails if it was taken over meanwhile.
      - V(released) releases what the holder has for the node.
      - V(read) changes nothing.
    type: str
    choices: [held, renewed, released, read]
    default: read
  holder:
    description: Id of the run. By default made from the user, the machine and the process of ansible-playbook.
    type: str
  slots:
    description: How many nodes may be unavailable at a time.
    type: int
    default: 1
  duration:
    description: Seconds after which a lock that was not renewed may be taken over. Longer than the longest step between two renewals.
    type: int
    default: 3300
  take_from:
    description: Holders whose locks are taken over or released although they have not expired. Name one only when you know that its run has ended.
    type: list
    elements: str
    default: []
extends_documentation_fragment:
  - inferops.locality.cluster
attributes:
  check_mode:
    support: full
    description: Can run in check mode and fails where a run would; the API server is asked with C(dryRun=All).
  diff_mode:
    support: none
    description: No configuration is changed.
  idempotent:
    support: partial
    description: Renewing changes the time in the Lease and is no change. Taking and releasing are, once.
author:
  - The inferops.locality authors (@inferops)
seealso:
  - module: inferops.locality.node_cordon
"""

EXAMPLES = r"""
- name: Lock the node
  inferops.locality.node_lock:
    kubeconfig: "{{ locality_kubeconfig }}"
    node: gpu-a01
    state: held
    slots: 1
    duration: 3300
  delegate_to: localhost
  register: lock

- name: Take over the lock of a run that ended on another control host
  inferops.locality.node_lock:
    kubeconfig: "{{ locality_kubeconfig }}"
    node: gpu-a01
    state: held
    take_from: [deploy@old-control/4711-812345-5e1f0c3a7a52-4026531836]
  delegate_to: localhost
"""

RETURN = r"""
holder:
  description: Id of the run.
  returned: always
  type: str
  sample: deploy@control/4711-812345-5e1f0c3a7a52-4026531836
lease:
  description: The Lease that the holder has for the node, empty if it has none.
  returned: success
  type: str
  sample: kube-system/inferops-locality-0
expires:
  description: When it may be taken over unless it is renewed.
  returned: success
  type: str
  sample: "2026-11-30T03:10:30Z"
held_by:
  description: The locks of others, for people. With V(failed) those in the way.
  returned: always
  type: list
  elements: str
  sample:
    - >-
      kube-system/inferops-locality-0 is held by anna@control/815-99-5e1f0c3a7a52-4026531836 for node gpu-a02 since 2026-11-30T02:15:00Z, renewed
      2026-11-30T02:15:00Z, expires 2026-11-30T03:10:30Z
holders:
  description: Their ids, as O(take_from) takes them.
  returned: always
  type: list
  elements: str
  sample: [anna@control/815-99-5e1f0c3a7a52-4026531836]
status:
  description: HTTP status of the API server's refusal, 0 if it was not reached; absent if the kubeconfig cannot be used.
  returned: when the API server refused
  type: int
  sample: 403
"""

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.inferops.locality.plugins.module_utils import kube_client, node_lock
from ansible_collections.inferops.locality.plugins.module_utils.kube_client import ApiError


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            **kube_client.ARGUMENTS,
            "node": {"type": "str", "required": True},
            "state": {"type": "str", "choices": ["held", "renewed", "released", "read"], "default": "read"},
            "holder": {"type": "str"},
            "slots": {"type": "int", "default": 1},
            "duration": {"type": "int", "default": 3300},
            "take_from": {"type": "list", "elements": "str", "default": []},
        },
        supports_check_mode=True,
    )
    params = module.params
    holder = params["holder"]
    wrong = [f"{name}: found {params[name]}, wanted at least 1" for name in ("slots", "duration") if params[name] < 1]
    if not holder:
        wrong.append("holder: is missing")
    elif holder in params["take_from"]:
        wrong.append(f"take_from: found the holder itself, {holder}")
    if wrong:
        module.fail_json(msg="; ".join(wrong), holder=holder, held_by=[], holders=[])
    lock = node_lock.Lock(kube_client.connect(module), params["node"], holder, dry_run=module.check_mode)
    try:
        if params["state"] == "released":
            result = lock.release(params["take_from"])
        elif params["state"] == "read":
            result = lock.read()
        else:
            result = lock.hold(slots=params["slots"], duration=params["duration"], take_from=params["take_from"], renew=params["state"] == "renewed")
    except node_lock.HeldError as error:
        module.fail_json(msg=str(error), holder=holder, held_by=error.held_by, holders=error.holders)
    except ApiError as error:
        kube_client.fail(module, error, holder=holder, held_by=[], holders=[])
        raise
    module.exit_json(holder=holder, **result)


if __name__ == "__main__":
    main()
