#!/usr/bin/python

# Copyright (c) 2026 The inferops.locality authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: node_drain
short_description: Evict the pods of a cordoned node within a deadline, and say what is in the way
version_added: 0.1.0
description:
  - Asks the API server for each pod's eviction without doing it, until every one would be allowed. So a disruption budget that never allows one is found
    while all pods still run, and a drain that fails for it has evicted nothing.
  - Then evicts each pod once, and waits until all are gone. A pod that is ending already is waited for and not evicted again. A budget that is used up for the
    moment is asked again, after the time that the API server names.
  - O(timeout) is for all of it. When it is over the module fails and names every pod and its budget, or that it is still ending.
  - Static pods, pods of DaemonSets and finished pods stay. Those of them with whole CPUs of their own are told in RV(survivors), since the kubelet's checkpoint
    keeps their CPUs.
  - M(kubernetes.core.k8s_drain) evicts each pod once and fails at the first budget that is used up for the moment, with the pods before it evicted; it
    evicts pods that are ending, names no budget, and has no deadline over all.
options:
  node:
    description: Name of the Node. It has to be cordoned, and to stay so.
    type: str
    required: true
  holder:
    description:
      - Id of the run that M(inferops.locality.node_cordon) wrote to the node. The drain ends with an error as soon as it is another one, so that it does not go
        on when its playbook was killed and a later run has given the node back.
    type: str
    default: ""
  timeout:
    description: Seconds for all of it, the waiting for pods to end included.
    type: int
    default: 900
  emptydir_data:
    description: V(delete) also evicts pods with emptyDir volumes, whose data are lost. With V(keep) such a pod fails the module before any pod is evicted.
    type: str
    choices: [keep, delete]
    default: keep
  unmanaged_pods:
    description: V(delete) also evicts pods without a controller, which nobody starts again. With V(keep) such a pod fails the module before any is evicted.
    type: str
    choices: [keep, delete]
    default: keep
  whole_cpu_pods:
    description: V(fail) fails the module before any pod is evicted if a pod that stays has whole CPUs of its own, as the kubelet's checkpoint has to go then.
    type: str
    choices: [stay, fail]
    default: stay
  delete_after:
    description:
      - Seconds after which pods that a budget still holds are deleted in spite of it. Part of O(timeout). By default that is never done.
      - Needs the right to delete pods, which is a role of its own in C(docs/rbac.yaml).
    type: int
  grace_period:
    description: Seconds that a pod may take to end. By default what it says itself.
    type: int
extends_documentation_fragment:
  - inferops.locality.cluster
attributes:
  check_mode:
    support: full
    description: Can run in check mode and return what would be evicted and what a budget holds now; the API server is asked with C(dryRun=All).
  diff_mode:
    support: none
    description: No configuration is changed.
  idempotent:
    support: full
    description: A second run finds no pods to evict.
author:
  - The inferops.locality authors (@inferops)
seealso:
  - module: inferops.locality.node_cordon
  - module: kubernetes.core.k8s_drain
"""

EXAMPLES = r"""
- name: Drain the node
  inferops.locality.node_drain:
    kubeconfig: "{{ locality_kubeconfig }}"
    node: gpu-a01
    timeout: 900
    emptydir_data: delete
  delegate_to: localhost
"""

RETURN = r"""
evicted:
  description: Pods that were evicted, in check mode those that would be.
  returned: always
  type: list
  elements: str
  sample: [inference/llama-0]
deleted:
  description: Pods that were deleted in spite of their budget, after O(delete_after).
  returned: always
  type: list
  elements: str
  sample: []
blockers:
  description: What is in the way, one text for each pod. In check mode what would be at this moment.
  returned: always
  type: list
  elements: str
  sample: ["pod inference/llama-0 may not be evicted: The disruption budget llama needs 2 healthy pods and has 2 currently"]
stayed:
  description: Pods that a drain leaves. C(kind) is V(static), V(daemonset) or V(finished).
  returned: always
  type: list
  elements: dict
  sample: [{pod: kube-system/cilium-x2x4z, kind: daemonset, extended_resources: []}]
survivors:
  description:
    - Those of RV(stayed) that run on with whole CPUs of their own. The kubelet's checkpoint cannot be removed while they do, other than as the last act before
      a reboot.
  returned: always
  type: list
  elements: dict
  sample: [{pod: monitoring/dcgm-exporter-7x9k2, kind: daemonset, extended_resources: []}]
status:
  description: HTTP status of the API server's refusal, 0 if it was not reached; absent if the kubeconfig cannot be used.
  returned: when the API server refused
  type: int
  sample: 403
"""

from typing import Any, Dict

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.inferops.locality.plugins.module_utils import kube_client, node_drain
from ansible_collections.inferops.locality.plugins.module_utils.kube_client import ApiError


def told(result: node_drain.Result) -> Dict[str, Any]:
    return {
        "changed": bool(result.evicted or result.deleted or result.would_evict), "evicted": result.evicted or result.would_evict, "deleted": result.deleted,
        "blockers": result.blockers, "stayed": result.stayed, "survivors": result.survivors,
    }


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            **kube_client.ARGUMENTS,
            "node": {"type": "str", "required": True},
            "holder": {"type": "str", "default": ""},
            "timeout": {"type": "int", "default": 900},
            "emptydir_data": {"type": "str", "choices": ["keep", "delete"], "default": "keep"},
            "unmanaged_pods": {"type": "str", "choices": ["keep", "delete"], "default": "keep"},
            "whole_cpu_pods": {"type": "str", "choices": ["stay", "fail"], "default": "stay"},
            "delete_after": {"type": "int"},
            "grace_period": {"type": "int"},
        },
        supports_check_mode=True,
    )
    params = module.params
    wrong = [] if params["timeout"] > 0 else [f"timeout: found {params['timeout']}, wanted seconds above 0"]
    if params["delete_after"] is not None and not 0 <= params["delete_after"] < params["timeout"]:
        wrong.append(f"delete_after: found {params['delete_after']}, wanted seconds below timeout {params['timeout']}")
    if params["request_timeout"] > params["timeout"]:
        wrong.append(f"request_timeout: found {params['request_timeout']}, wanted at most timeout {params['timeout']}")
    if wrong:
        module.fail_json(msg="; ".join(wrong))
    node = params["node"]
    drain = node_drain.Drain(kube_client.connect(module), node, node_drain.Options(
        timeout=params["timeout"], holder=params["holder"], local_data=params["emptydir_data"] == "delete", unmanaged=params["unmanaged_pods"] == "delete",
        pinned=params["whole_cpu_pods"] == "stay", delete_after=params["delete_after"], grace=params["grace_period"],
    ))
    try:
        if module.check_mode:
            result = drain.plan()
        else:
            result = drain.run()
    except node_drain.DrainError as error:
        module.fail_json(msg=f"node {node}: {error}", **told(error.result))
    except ApiError as error:
        kube_client.fail(module, error, **told(drain.result))
        raise
    for warning in [*result.warnings, *(result.blockers if module.check_mode else [])]:
        module.warn(f"node {node}: {warning}")
    module.exit_json(**told(result))


if __name__ == "__main__":
    main()
