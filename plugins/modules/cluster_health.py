#!/usr/bin/python

# Copyright (c) 2026 The inferops.locality authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: cluster_health
short_description: Say whether the cluster is well enough for a node to be taken out of it
version_added: 0.1.0
description:
  - Looks for more than O(max_not_ready) other nodes that are not ready, for O(max_unavailable) other nodes whose turn was begun and not ended, for pods on the
    node that must not be disturbed, for alerts that fire in Prometheus, and for a NodeMaintenance object of another tool (C(maintenance.nvidia.com),
    C(nodemaintenance.medik8s.io)) for the node. All reasons are told together.
  - What cannot be told counts as not well, such as a Prometheus that does not answer, or a query that it does not understand.
  - It is a module of its own beside M(inferops.locality.maintenance_gate), which needs no cluster and runs on the machine that runs ansible-playbook. The API
    server and Prometheus may be reachable from the control host only.
options:
  node:
    description: Name of the Node that is to be taken out. Without it the whole cluster is to be touched and no node taken out, so that all nodes count.
    type: str
  max_not_ready:
    description: How many other nodes may be not ready.
    type: int
    default: 0
  max_unavailable:
    description: How many nodes may be worked on at a time, this one among them.
    type: int
    default: 1
  blocking_pods:
    description: Label selectors of pods. One of them that runs on the node blocks.
    type: list
    elements: str
    default: []
  prometheus:
    description:
      - A URL, or a mapping with C(url). Without it no alerts are looked at.
      - C(match) is a list of label matchers as in PromQL, such as V(severity=~"critical|warning"), which an alert must have to block.
      - C(ignore) is a list of names of alerts that do not block, by default V(Watchdog) and V(InfoInhibitor).
      - C(pending) also takes alerts that are pending.
      - C(query) is a query of your own in place of all this. Each series in its answer blocks.
      - C(alertmanager) is the URL of an Alertmanager. Alerts that are silenced or inhibited there do not block.
      - C(bearer_token_file), C(ca_path) and C(validate_certs) are for the connection to both.
    type: raw
  fail:
    description: Fail if the cluster is not well, instead of returning the reasons.
    type: bool
    default: true
extends_documentation_fragment:
  - inferops.locality.cluster
attributes:
  check_mode:
    support: full
    description: Changes nothing in any case.
  diff_mode:
    support: none
    description: Nothing is changed.
  idempotent:
    support: full
    description: Nothing is changed.
author:
  - The inferops.locality authors (@inferops)
seealso:
  - module: inferops.locality.maintenance_gate
"""

EXAMPLES = r"""
- name: May the node be taken out now?
  inferops.locality.cluster_health:
    kubeconfig: "{{ locality_kubeconfig }}"
    node: gpu-a01
    blocking_pods: [app=training]
    prometheus:
      url: http://prometheus.example.net:9090
      match: ['severity=~"critical|warning"', 'namespace="inference"']
      alertmanager: http://alertmanager.example.net:9093
  delegate_to: localhost
"""

RETURN = r"""
healthy:
  description: Whether nothing keeps us from the node.
  returned: always
  type: bool
  sample: false
reasons:
  description: Everything that does.
  returned: always
  type: list
  elements: dict
  sample:
    - id: health.nodes_not_ready
      severity: error
      message: "1 other nodes are not ready: gpu-a02; wanted at most 0"
      hint: bring them back, or raise max_not_ready
status:
  description: HTTP status of the API server's refusal, 0 if it was not reached; absent if the kubeconfig cannot be used.
  returned: when the API server refused
  type: int
  sample: 403
"""

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.inferops.locality.plugins.module_utils import cluster_health, cluster_look, findings, kube_client
from ansible_collections.inferops.locality.plugins.module_utils.kube_client import ApiError


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            **kube_client.ARGUMENTS,
            "node": {"type": "str"},
            "max_not_ready": {"type": "int", "default": 0},
            "max_unavailable": {"type": "int", "default": 1},
            "blocking_pods": {"type": "list", "elements": "str", "default": []},
            "prometheus": {"type": "raw"},
            "fail": {"type": "bool", "default": True},
        },
        supports_check_mode=True,
    )
    params = module.params
    wrong = [f"prometheus: {text}" for text in cluster_health.check_prometheus(params["prometheus"])]
    if wrong:
        module.fail_json(msg="; ".join(wrong), healthy=False, reasons=[])
    module.no_log_values.update(cluster_look.passwords(params["prometheus"]))
    found = findings.Findings()
    try:
        cluster_look.nodes_and_pods(
            found, kube_client.connect(module), params["node"], max_not_ready=params["max_not_ready"], max_unavailable=params["max_unavailable"],
            selectors=params["blocking_pods"],
        )
    except ApiError as error:
        kube_client.fail(module, error, healthy=False, reasons=found.sorted())
    if params["prometheus"]:
        cluster_look.alerts(found, params["prometheus"], params["request_timeout"])
    reasons = found.sorted()
    result = {"changed": False, "healthy": not reasons, "reasons": reasons}
    if reasons and params["fail"]:
        what = f"node {params['node']} may not be taken out of the cluster" if params["node"] else "the cluster may not be touched"
        module.fail_json(msg=f"{what} now:\n{findings.listed(reasons)}", **result)
    module.exit_json(**result)


if __name__ == "__main__":
    main()
