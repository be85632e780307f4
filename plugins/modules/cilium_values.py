#!/usr/bin/python

# Copyright (c) 2026 The inferops.locality authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: cilium_values
short_description: Make and check the values of a cluster's Cilium, and give them to RKE2's own chart
version_added: 0.1.0
description:
  - Finds out which Cilium a cluster has, RKE2's own chart (V(bundled)) or one that somebody installed (V(helm)), makes its values from the policy, and checks
    them for all that the chart or the agent would refuse or pass over without a word.
  - For V(bundled) they are written to the HelmChartConfig C(rke2-cilium), over the values that stand there, with C(failurePolicy=abort). What stood there
    before is kept in an annotation, and put back with O(state=absent).
  - For V(helm) nothing is written; RV(chart_values) are what C(kubernetes.core.helm) is to be given.
  - A cluster without pods gets the whole profile. With pods only maps, clock and bandwidth manager, and O(values) that change nothing else; routing,
    kube-proxy replacement, IPAM, masquerading and chaining are compared and never changed, and what nodes have each for themselves is not changed for all.
  - The CNI of a cluster that lives is not changed, and no Cilium is made ready beside a CNI that RKE2 brings.
options:
  mode:
    description: Whose chart. By default the one that the cluster has.
    type: str
    choices: [bundled, helm]
  network:
    description: C(network) of C(locality_policy).
    type: dict
    default: {}
  values:
    description: More values of the chart, which win.
    type: dict
    default: {}
  current:
    description: The values that the helm release has, where there is one. Nothing but helm knows them.
    type: dict
  version:
    description: Version of the chart. By default of the one that runs.
    type: str
  cluster_cidrs:
    description: The cluster's ranges for pods. By default as RKE2 has them.
    type: list
    elements: str
  api_host:
    description: Where every node reaches the API server without the service. RKE2 has a load balancer of its own there.
    type: str
    default: localhost
  api_port:
    description: The port of it.
    type: int
    default: 6443
  state:
    description:
      - V(present) writes what is to be written.
      - V(read) writes nothing, and fails for nothing that V(present) would refuse.
      - V(absent) puts back what stood in the HelmChartConfig before.
    type: str
    choices: [present, read, absent]
    default: present
extends_documentation_fragment:
  - inferops.locality.cluster
attributes:
  check_mode:
    support: full
    description: Can run in check mode and return what would be changed; the API server is asked with C(dryRun=All).
  diff_mode:
    support: full
    description: Returns the HelmChartConfig before and after.
  idempotent:
    support: full
    description: A second run with the same options changes nothing.
requirements:
  - The Python package PyYAML, which kubernetes needs too.
notes:
  - Needs the rights of C(docs/rbac-cilium-values.yaml).
author:
  - The inferops.locality authors (@inferops)
seealso:
  - module: inferops.locality.locality_plan
  - module: inferops.locality.cilium_node_config
  - module: kubernetes.core.helm
"""

EXAMPLES = r"""
- name: Give RKE2's Cilium its values
  inferops.locality.cilium_values:
    kubeconfig: "{{ locality_kubeconfig }}"
    network: {routing: direct, bpf_maps: {distributed_lru: true}, clock_probe: true}
  delegate_to: localhost

- name: See what a Cilium of helm would be given
  inferops.locality.cilium_values:
    kubeconfig: "{{ locality_kubeconfig }}"
    mode: helm
    version: 1.19.6
    network: {routing: bgp}
    values: {hubble: {enabled: false}}
    state: read
  delegate_to: localhost
  register: cilium
"""

RETURN = r"""
mode:
  description: Whose chart.
  returned: success
  type: str
  sample: bundled
helm:
  description: Whether the chart is one of helm and may be; then helm is to be asked for the values of the release, and given these.
  returned: success
  type: bool
  sample: false
version:
  description: Version of the chart or of the Cilium that runs.
  returned: success
  type: str
  sample: 1.19.6
live:
  description: Whether pods run on its network, so that only a part may change.
  returned: success
  type: bool
  sample: false
nodes:
  description: Number of Nodes.
  returned: success
  type: int
  sample: 12
cluster_cidrs:
  description: The cluster's ranges for pods.
  returned: success
  type: list
  elements: str
  sample: [10.42.0.0/16]
chart_values:
  description: All values that the chart is to be given.
  returned: success
  type: dict
  sample: {routingMode: native, ipv4NativeRoutingCIDR: 10.42.0.0/16}
config:
  description: Data of the ConfigMap C(cilium-config) as it is, empty where there is none.
  returned: success
  type: dict
  sample: {routing-mode: native}
findings:
  description: All that stands against them; errors are refused unless O(state=read).
  returned: success and failure
  type: list
  elements: dict
  sample: []
status:
  description: HTTP status of the API server's refusal, 0 if it was not reached; absent if the kubeconfig cannot be used.
  returned: failure
  type: int
  sample: 403
"""

import json
from typing import Any, Dict, List, Mapping, Optional

from ansible.module_utils.basic import AnsibleModule, missing_required_lib

from ansible_collections.inferops.locality.plugins.module_utils import cilium_cluster, findings, kube_client, policy
from ansible_collections.inferops.locality.plugins.module_utils.kube_client import Api, ApiError

try:
    import yaml
except ImportError:
    yaml = None  # type: ignore[assignment]

CHARTS = f"/apis/helm.cattle.io/v1/namespaces/{cilium_cluster.NAMESPACE}/helmcharts"
CONFIGS = f"/apis/helm.cattle.io/v1/namespaces/{cilium_cluster.NAMESPACE}/helmchartconfigs"
DEFINITION = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/ciliumnodeconfigs.cilium.io"


def _get(api: Api, path: str) -> Optional[Dict[str, Any]]:
    """An object; None where there is none, or no such kind."""
    try:
        return api.get(path)
    except ApiError as error:
        if error.status == 404:
            return None
        raise


def read(api: Api) -> Dict[str, Any]:
    """The objects that say which Cilium a cluster has; :raises ApiError: refused or not reached."""
    space = f"namespaces/{cilium_cluster.NAMESPACE}"
    return {
        "charts": (_get(api, CHARTS) or {}).get("items") or [],
        "helm_config": _get(api, f"{CONFIGS}/{cilium_cluster.NAME}"),
        "config_map": _get(api, f"/api/v1/{space}/configmaps/cilium-config"),
        "daemon_set": _get(api, f"/apis/apps/v1/{space}/daemonsets/cilium"),
        "definition": _get(api, DEFINITION),
        "nodes": api.items("/api/v1/nodes"),
        "pods": api.items("/api/v1/pods"),
    }


def write(api: Api, before: Optional[Mapping[str, Any]], spec: Optional[Mapping[str, Any]], kept: Optional[Mapping[str, Any]], dry_run: bool) -> None:
    """Make, replace or delete the HelmChartConfig.

    :param spec: None takes it away. :param kept: what stood there before this collection wrote; None with a spec that is somebody else's.
    """
    path = f"{CONFIGS}/{cilium_cluster.NAME}"
    metadata = dict((before or {}).get("metadata") or {"name": cilium_cluster.NAME, "namespace": cilium_cluster.NAMESPACE})
    if spec is None:
        if not dry_run:
            api.delete(path, {"preconditions": {"uid": metadata["uid"], "resourceVersion": metadata["resourceVersion"]}})
        return
    annotations = {key: value for key, value in (metadata.get("annotations") or {}).items() if key != cilium_cluster.NOTE}
    if kept is not None:
        annotations[cilium_cluster.NOTE] = json.dumps({**kept, "written": cilium_cluster.digest(spec)}, sort_keys=True)
    body = {"apiVersion": "helm.cattle.io/v1", "kind": "HelmChartConfig", "metadata": {**metadata, "annotations": annotations}, "spec": dict(spec)}
    if before is None:
        api.create(CONFIGS, body, dry_run=dry_run)
    else:
        api.replace(path, body, dry_run=dry_run)


def bring(api: Api, module: AnsibleModule) -> Dict[str, Any]:
    """Read the cluster, decide, and write what is to be written."""
    params = module.params
    network, wrong = policy.check_policy({"network": params["network"]})
    objects = read(api)
    cluster = cilium_cluster.found(objects, yaml.safe_load)
    if params["cluster_cidrs"]:
        cluster.cidrs = list(params["cluster_cidrs"])
    decision = cilium_cluster.decide(
        cluster, params["mode"], network["network"], params["values"], params["version"], (params["api_host"], params["api_port"]), params["current"],
    )
    config = cluster.helm_config
    noted = cilium_cluster.note(config)
    result: Dict[str, Any] = {
        "changed": False, "mode": decision.mode, "helm": decision.helm, "version": decision.version, "live": decision.live,
        "nodes": cluster.nodes, "cluster_cidrs": cluster.cidrs, "chart_values": decision.values, "config": cluster.config,
        "findings": [*wrong, *decision.findings],
    }
    before: Optional[Mapping[str, Any]] = (config or {}).get("spec")
    after = before
    if params["state"] == "absent" and noted is not None:
        result["findings"] = cilium_cluster.against_removal(cluster)
        after = noted["before"]
    elif params["state"] == "present" and decision.mode == "bundled":
        after = cilium_cluster.config_spec(config, yaml.safe_dump(decision.values, sort_keys=True))
    elif params["state"] == "absent":
        result["findings"] = []
    errors: List[Dict[str, Any]] = [] if params["state"] == "read" else findings.errors(result["findings"])
    if errors:
        module.fail_json(msg=f"Cilium is left as it is: {len(errors)} error{'s' if len(errors) > 1 else ''}\n{findings.listed(errors)}", **result)
    if after != before:
        kept = None if params["state"] == "absent" else {"before": noted["before"] if noted else before}
        write(api, config, after, kept, module.check_mode)
        result["changed"] = True
        if module._diff:
            header = f"HelmChartConfig {cilium_cluster.NAMESPACE}/{cilium_cluster.NAME}"
            result["diff"] = {"before": before or {}, "after": after or {}, "before_header": header, "after_header": header}
    return result


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            **kube_client.ARGUMENTS,
            "mode": {"type": "str", "choices": ["bundled", "helm"]},
            "network": {"type": "dict", "default": {}},
            "values": {"type": "dict", "default": {}},
            "current": {"type": "dict"},
            "version": {"type": "str"},
            "cluster_cidrs": {"type": "list", "elements": "str"},
            "api_host": {"type": "str", "default": "localhost"},
            "api_port": {"type": "int", "default": 6443},
            "state": {"type": "str", "choices": ["present", "read", "absent"], "default": "present"},
        },
        supports_check_mode=True,
    )
    if yaml is None:
        module.fail_json(msg=missing_required_lib("PyYAML"))
    api = kube_client.connect(module)
    try:
        result = kube_client.retry_conflict(lambda: bring(api, module))
    except ApiError as error:
        kube_client.fail(module, error, "rbac-cilium-values.yaml")
        raise
    except ValueError as error:
        module.fail_json(msg=str(error))
    module.exit_json(**result)


if __name__ == "__main__":
    main()
