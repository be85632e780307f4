#!/usr/bin/python

# Copyright (c) 2026 The inferops.locality authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: cilium_agent
short_description: Make the Cilium agent of a drained node anew, so that it reads its configuration
version_added: 0.1.0
description:
  - The agent reads its configuration when its pod is made. From Cilium 1.19 on it does not start in another datapath mode beside pods of the old one, and
    a drain leaves the pods of DaemonSets, so these have to go first.
  - The agent is evicted and not deleted, for which the rights of a drain are enough.
options:
  node:
    description: Name of the Node.
    type: str
    required: true
  state:
    description:
      - V(read) changes nothing and says what the agent is, and which pods would be in the way of another datapath mode.
      - V(emptied) gives a Node that is cordoned the taint C(locality.inferops.io/network:NoExecute) and waits until no pod on the pod network is left. Pods of
        DaemonSets that tolerate it, and static pods, are refused by name before anything is changed.
      - V(recreated) evicts the agent and waits until the next one is ready.
      - V(released) takes the taint away.
    type: str
    choices: [read, emptied, recreated, released]
    default: read
  timeout:
    description: Seconds that pods have to go, and the next agent has to be ready.
    type: int
    default: 300
extends_documentation_fragment:
  - inferops.locality.cluster
attributes:
  check_mode:
    support: full
    description: Can run in check mode and return what would be changed, and refuses there what it would refuse. A node that would be drained need not be.
  diff_mode:
    support: none
    description: Nothing of a pod is worth showing.
  idempotent:
    support: partial
    description: With O(state=recreated) each run makes the agent anew, otherwise a second run changes nothing.
author:
  - The inferops.locality authors (@inferops)
seealso:
  - module: inferops.locality.cilium_node_config
  - module: inferops.locality.cilium_status
"""

EXAMPLES = r"""
- name: Make the agent of a drained node anew
  inferops.locality.cilium_agent:
    kubeconfig: "{{ locality_kubeconfig }}"
    node: gpu-a01
    state: recreated
  delegate_to: localhost
"""

RETURN = r"""
agent:
  description:
    - The agent's pod after the module, with C(pod), C(uid), C(ready) and C(trouble), which is why it is not ready, in its own words where it ended.
    - V(null) if there is none.
  returned: success
  type: dict
  sample: {pod: cilium-7x2kq, uid: 3f0c2a52-7d0b-4a51-b3a8-0a9f7a0a1c11, ready: true, trouble: null}
pods:
  description: Pods on the pod network of the node; if it failed, those that are in the way.
  returned: always, unless the API server refused
  type: list
  elements: str
  sample: [monitoring/dcgm-exporter-x7k2p]
would_stay:
  description: Those of them that neither a drain nor the taint sends away, and why.
  returned: success
  type: list
  elements: str
  sample: ["logging/agent-2x8vd (of DaemonSet agent, which tolerates locality.inferops.io/network:NoExecute)"]
status:
  description: HTTP status of the API server's refusal, 0 if it was not reached.
  returned: failure
  type: int
  sample: 403
"""

from typing import Any, Dict

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.inferops.locality.plugins.module_utils import cilium_turn, kube_client
from ansible_collections.inferops.locality.plugins.module_utils.kube_client import ApiError


def act(turn: cilium_turn.Turn, state: str, check_mode: bool) -> bool:
    """Do it; whether that changed anything. :raises AgentError: what is in the way. :raises ApiError: refused or not reached."""
    if state == "read":
        return False
    if state == "released":
        return turn.taint(False, dry_run=check_mode)
    if not check_mode:
        if state == "emptied":
            return turn.empty()
        turn.recreate()
        return True
    pods = turn.pods()
    staying = cilium_turn.would_stay(pods) if state == "emptied" else []
    if staying:
        raise cilium_turn.AgentError(f"pods on the pod network would stay: {', '.join(staying)}", staying)
    if state == "recreated" and cilium_turn.agent_of(pods) is None:
        raise cilium_turn.AgentError("the node has no pod of Cilium's agent")
    return state == "recreated" or not turn.tainted()


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            **kube_client.ARGUMENTS,
            "node": {"type": "str", "required": True},
            "state": {"type": "str", "choices": ["read", "emptied", "recreated", "released"], "default": "read"},
            "timeout": {"type": "int", "default": 300},
        },
        supports_check_mode=True,
    )
    turn = cilium_turn.Turn(kube_client.connect(module), module.params["node"], module.params["timeout"])
    result: Dict[str, Any] = {}
    try:
        result["changed"] = act(turn, module.params["state"], module.check_mode)
        pods = turn.pods()
    except ApiError as error:
        kube_client.fail(module, error)
        raise
    except cilium_turn.AgentError as error:
        module.fail_json(msg=str(error), pods=error.pods)
        raise
    on_network = sorted(cilium_turn.full_name(pod) for pod in cilium_turn.on_network(pods))
    module.exit_json(agent=cilium_turn.agent_of(pods), pods=on_network, would_stay=cilium_turn.would_stay(pods), **result)


if __name__ == "__main__":
    main()
