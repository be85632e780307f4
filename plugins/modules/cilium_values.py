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
  - For V(helm) RV(chart_values) are what C(kubernetes.core.helm) is to be given. The values that the release had are kept in the Secret
    C(kube-system/inferops-locality-cilium) before, which is all that is written.
  - A cluster without pods gets the whole profile. With pods only maps, clock and bandwidth manager, and O(values) that change nothing else; routing,
    kube-proxy replacement, IPAM, masquerading and chaining are compared and never changed, and what nodes have each for themselves is not changed for all. What
    a cluster was made with is kept.
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
      - V(absent) puts back what stood in the HelmChartConfig before, or says what is to be given to helm. Values that the cluster was made with stay as long as
        pods run on its network, and a release that was not there before stays too. For helm it is called once more with the values that were given.
    type: str
    choices: [present, read, absent]
    default: present
  wait:
    description:
      - Seconds to wait until C(cilium-config) has the maps, clock and bandwidth manager of the values. RKE2 renders its chart some time after it was given
        them, and agents that start before have the old ones. V(0) waits for nothing.
    type: int
    default: 0
extends_documentation_fragment:
  - inferops.locality.cluster
attributes:
  check_mode:
    support: full
    description: Can run in check mode and return what would be changed; the API server is asked with C(dryRun=All).
  diff_mode:
    support: full
    description: Returns the HelmChartConfig, or the values of the release, before and after.
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
give_helm:
  description: Whether helm is to give RV(chart_values) to its release.
  returned: success
  type: bool
  sample: false
differs:
  description: Whether the chart has other values, so that it is given these; in check mode, would be.
  returned: success
  type: bool
  sample: true
noted:
  description: Whether this collection gave the chart values, and noted what was there before.
  returned: success and failure
  type: bool
  sample: true
pending:
  description: Knobs that C(cilium-config) does not have as RV(chart_values) say, which agents that start now would not have.
  returned: success and failure
  type: list
  elements: str
  sample: [cilium.clock]
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

import base64
import json
import time
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
CONFIG_MAP = f"/api/v1/namespaces/{cilium_cluster.NAMESPACE}/configmaps/cilium-config"
SECRETS = f"/api/v1/namespaces/{cilium_cluster.NAMESPACE}/secrets"
DEFINITION = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/ciliumnodeconfigs.cilium.io"
LOOK_SECONDS = 3


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
        "config_map": _get(api, CONFIG_MAP),
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


def read_secret(api: Api, must: bool) -> Optional[Dict[str, Any]]:
    """The note of a release of helm. :param must: False: an account that may not read it has not written it."""
    try:
        secret = _get(api, f"{SECRETS}/{cilium_cluster.NOTE_SECRET}")
    except ApiError as error:
        if error.status == 403 and not must:
            return None
        raise
    text = ((secret or {}).get("data") or {}).get("note")
    return cilium_cluster.read_note(base64.b64decode(text).decode()) if text else None


def write_secret(api: Api, noted: Optional[Mapping[str, Any]], before: Optional[Mapping[str, Any]], dry_run: bool) -> None:
    """Keep a note, or with None take it away. :param before: the one that is there."""
    path = f"{SECRETS}/{cilium_cluster.NOTE_SECRET}"
    if noted is None:
        if not dry_run:
            api.delete(path, {})
        return
    body = {
        "apiVersion": "v1", "kind": "Secret", "metadata": {"name": cilium_cluster.NOTE_SECRET, "namespace": cilium_cluster.NAMESPACE},
        "stringData": {"note": json.dumps(noted, sort_keys=True)},
    }
    if before is None:
        api.create(SECRETS, body, dry_run=dry_run)
    else:
        api.replace(path, body, dry_run=dry_run)


def _readable(spec: Optional[Mapping[str, Any]]) -> Optional[Dict[str, Any]]:
    """A HelmChartConfig with its values as such in place of one text, so that each has a line of a diff. They have been read before."""
    return None if spec is None else {**spec, "valuesContent": yaml.safe_load(spec.get("valuesContent") or "{}")}


class Bringing:
    """One attempt: what the cluster has, what it is to have, and what is written for it."""

    def __init__(self, api: Api, module: AnsibleModule) -> None:
        """:raises ApiError: refused or not reached. :raises ValueError: the values that stand there cannot be read."""
        self.api = api
        self.module = module
        self.params = params = module.params
        network, wrong = policy.check_policy({"network": params["network"]})
        self.cluster = cluster = cilium_cluster.found(read(api), yaml.safe_load)
        if params["cluster_cidrs"]:
            cluster.cidrs = list(params["cluster_cidrs"])
        # What is taken back is that of the cluster, whatever the inventory says.
        mode = None if params["state"] == "absent" else params["mode"]
        if mode != "bundled" and not cluster.bundled:
            cluster.noted = read_secret(api, params["state"] == "present")
        self.decision = cilium_cluster.decide(
            cluster, mode, network["network"], params["values"], params["version"], (params["api_host"], params["api_port"]), params["current"],
        )
        self.result: Dict[str, Any] = {
            "changed": False, "mode": self.decision.mode, "helm": self.decision.helm, "version": self.decision.version, "live": self.decision.live,
            "nodes": cluster.nodes, "cluster_cidrs": cluster.cidrs, "chart_values": self.decision.values, "config": cluster.config,
            "findings": [*wrong, *self.decision.findings], "differs": False, "give_helm": False, "noted": cluster.noted is not None,
        }

    def bring(self) -> Dict[str, Any]:
        """Refuse, or write what is to be written; :raises ApiError: refused or not reached."""
        result, absent = self.result, self.params["state"] == "absent"
        removal = cilium_cluster.removal(self.cluster, self.decision.mode, self.params["current"]) if absent else None
        if removal is not None:
            # What was not given is not taken back, whatever stands against giving it.
            noted = self.cluster.noted is not None
            result.update(findings=removal.findings if noted else [], chart_values=removal.values if noted else {})
        result["pending"] = cilium_cluster.pending(self.cluster.config, result["chart_values"], self.decision.mode)
        errors: List[Dict[str, Any]] = [] if self.params["state"] == "read" else findings.errors(result["findings"])
        if errors:
            self.module.fail_json(
                msg=f"Cilium is left as it is: {len(errors)} error{'s' if len(errors) > 1 else ''}\n{findings.listed(errors)}", **result,
            )
        if absent and self.cluster.noted is None:
            result["pending"] = []
        elif self.params["state"] != "read" and self.decision.mode == "bundled":
            self._bundled(removal)
        elif self.params["state"] != "read":
            self._helm(removal)
        return result

    def _bundled(self, removal: Optional[cilium_cluster.Removal]) -> None:
        config, noted = self.cluster.helm_config, self.cluster.noted
        before: Optional[Mapping[str, Any]] = (config or {}).get("spec")
        kept: Optional[Dict[str, Any]] = {"before": noted["before"] if noted else before, "profile": self.decision.profile}
        after: Optional[Mapping[str, Any]]
        if removal is not None and removal.whole:
            after, kept = (noted or {})["before"], None
        else:
            after = cilium_cluster.config_spec(config, yaml.safe_dump(self.result["chart_values"], sort_keys=True))
        if after != before:
            write(self.api, config, after, kept, self.module.check_mode)
            self._changed(f"HelmChartConfig {cilium_cluster.NAMESPACE}/{cilium_cluster.NAME}", _readable(before), _readable(after))

    def _helm(self, removal: Optional[cilium_cluster.Removal]) -> None:
        """Keep what the release had before helm gives it other values; forget it after it has them back."""
        noted, current, wanted = self.cluster.noted, self.params["current"], self.result["chart_values"]
        if removal is None:
            self.result["give_helm"] = self.decision.helm
            first = noted is None or current is None
            kept: Optional[Dict[str, Any]] = {"before": current if first else (noted or {})["before"], "profile": self.decision.profile}
        elif current is None:
            # Somebody has taken the release away.
            self._forget()
            return
        elif (noted or {}).get("before") is None:
            self.result["findings"] = [*self.result["findings"], {
                "id": "cilium.release_stays", "severity": "warning",
                "message": "the helm release of Cilium was made by this collection and stays: without it no pod has a network",
                "hint": "helm uninstall takes it away, and the cluster's network with it",
            }]
            self.result["pending"] = []
            return
        else:
            kept = {"before": (noted or {})["before"], "profile": self.cluster.profile}
            self.result["give_helm"] = wanted != current
        if kept is not None and wanted != current:
            written = {**kept, "written": cilium_cluster.digest(wanted), "since": None if current is None else cilium_cluster.digest(current)}
            if written != noted:
                write_secret(self.api, written, noted, self.module.check_mode)
            self._changed("values of the helm release", current, wanted)
        elif removal is not None and removal.whole:
            self._forget()

    def _forget(self) -> None:
        write_secret(self.api, None, self.cluster.noted, self.module.check_mode)
        self._changed(f"Secret {cilium_cluster.NAMESPACE}/{cilium_cluster.NOTE_SECRET}", {"exists": True}, {"exists": False})

    def _changed(self, header: str, before: Optional[Mapping[str, Any]], after: Optional[Mapping[str, Any]]) -> None:
        self.result["changed"] = self.result["differs"] = True
        if self.module._diff:
            self.result["diff"] = {"before": before or {}, "after": after or {}, "before_header": header, "after_header": header}


def rendered(api: Api, result: Dict[str, Any], seconds: int) -> None:
    """Wait until ``cilium-config`` has what the values say; ``pending`` of the result is what it has not. :raises ApiError: refused or not reached."""
    began = time.monotonic()
    while True:
        data = (_get(api, CONFIG_MAP) or {}).get("data") or {}
        result["pending"] = cilium_cluster.pending({str(key): str(value) for key, value in data.items()}, result["chart_values"], result["mode"])
        if not result["pending"] or time.monotonic() - began >= seconds:
            return
        time.sleep(LOOK_SECONDS)


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
            "wait": {"type": "int", "default": 0},
        },
        supports_check_mode=True,
    )
    if yaml is None:
        module.fail_json(msg=missing_required_lib("PyYAML"))
    api = kube_client.connect(module)
    try:
        result = kube_client.retry_conflict(lambda: Bringing(api, module).bring())
        waits = module.params["wait"] and not module.check_mode and not result["give_helm"]
        if waits and result["pending"]:
            rendered(api, result, module.params["wait"])
    except ApiError as error:
        kube_client.fail(module, error, "rbac-cilium-values.yaml")
        raise
    except ValueError as error:
        module.fail_json(msg=str(error))
    if waits and result["pending"]:
        module.fail_json(
            msg=f"ConfigMap {cilium_cluster.NAMESPACE}/cilium-config does not have {', '.join(result['pending'])} as the chart's values say, "
            f"{module.params['wait']} s after it was given them: see the log of the job helm-install-{cilium_cluster.NAME} in {cilium_cluster.NAMESPACE}, "
            "and run again when it has ended well", **result,
        )
    module.exit_json(**result)


if __name__ == "__main__":
    main()
