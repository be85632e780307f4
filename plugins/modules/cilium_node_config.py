#!/usr/bin/python

# Copyright (c) 2026 The inferops.locality authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: cilium_node_config
short_description: Give a node its own configuration of Cilium, by a CiliumNodeConfig
version_added: 0.1.0
description:
  - Writes a CiliumNodeConfig with the values that the plan of a node has for the knobs C(cilium.datapath_mode), C(cilium.big_tcp), C(cilium.devices) and
    C(cilium.xdp), and gives the Node the label C(locality.inferops.io/cilium) that it selects. Nodes with the same values share one object, whose name is
    a hash of the values. An object of ours that no Node is left for is removed.
  - The agent reads it when its pod is made anew, which this module does not do; see M(inferops.locality.cilium_agent).
  - A CiliumNodeConfig of somebody else that sets one of these keys for the node is refused by name, and so is what keeps agents from reading ours.
options:
  node:
    description: Name of the Node.
    type: str
    required: true
  state:
    description:
      - V(present) gives the Node the values of O(wanted), and takes back those of ours that it no longer has.
      - V(absent) takes back all of ours, as V(present) without any knob of Cilium.
      - V(read) changes nothing and fails for nothing that V(present) would refuse.
    type: str
    choices: [present, absent, read]
    default: present
  wanted:
    description: Knobs of a plan. Those that may not differ from node to node, and those of other layers, are not looked at.
    type: dict
    default: {}
extends_documentation_fragment:
  - inferops.locality.cluster
attributes:
  check_mode:
    support: full
    description: Can run in check mode and return what would be changed; the API server is asked with C(dryRun=All).
  diff_mode:
    support: full
    description: Returns the label and the objects that are changed.
  idempotent:
    support: full
    description: A second run with the same options changes nothing.
author:
  - The inferops.locality authors (@inferops)
notes:
  - Needs the rights of C(docs/rbac-cilium.yaml) too.
seealso:
  - module: inferops.locality.cilium_agent
  - module: inferops.locality.cilium_status
  - module: inferops.locality.locality_drift
"""

EXAMPLES = r"""
- name: Give the node its own configuration of Cilium
  inferops.locality.cilium_node_config:
    kubeconfig: "{{ locality_kubeconfig }}"
    node: gpu-a01
    wanted: "{{ plan.knobs }}"
  delegate_to: localhost

- name: See what its agent would be started with
  inferops.locality.cilium_node_config:
    kubeconfig: "{{ locality_kubeconfig }}"
    node: gpu-a01
    state: read
    wanted: "{{ plan.knobs }}"
  delegate_to: localhost
  register: cilium
"""

RETURN = r"""
configured:
  description:
    - Knobs as the agent would be started with, C(value) and C(source). As C(cluster_state.cilium.configured) of M(inferops.locality.locality_drift).
    - In check mode as they are before.
  returned: success
  type: dict
  sample:
    cilium.datapath_mode: {value: netkit, source: CiliumNodeConfig kube-system/inferops-locality-0a1b2c3d4e}
    cilium.clock: {value: false, source: ConfigMap kube-system/cilium-config}
findings:
  description: What O(state=present) refuses, each with C(id), C(severity), C(message) and C(hint).
  returned: success, and if it was refused
  type: list
  elements: dict
  sample: [{id: cilium.foreign_config, severity: error, message: "CiliumNodeConfig kube-system/gpu sets devices", hint: "take these keys out of it"}]
name:
  description: Name of the object for this node, V(null) if it has no values of its own.
  returned: success
  type: str
  sample: inferops-locality-0a1b2c3d4e
own:
  description: Knobs that an object of ours set for this node before the module, with their values. As O(wanted) they are the way back.
  returned: success
  type: dict
  sample: {cilium.datapath_mode: netkit}
removed:
  description: Objects of ours that no Node was left for.
  returned: success
  type: list
  elements: str
  sample: [inferops-locality-5f6e7d8c9b]
status:
  description: HTTP status of the API server's refusal, 0 if it was not reached.
  returned: failure
  type: int
  sample: 403
"""

from typing import Any, Dict, List, NamedTuple
from urllib.parse import quote

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.inferops.locality.plugins.module_utils import cilium_node, kube_client
from ansible_collections.inferops.locality.plugins.module_utils import findings as findings_m
from ansible_collections.inferops.locality.plugins.module_utils.kube_client import Api, ApiError
from ansible_collections.inferops.locality.plugins.module_utils.node_labels import labels_of

OBJECTS = f"/apis/{cilium_node.API_VERSION}/namespaces/{cilium_node.NAMESPACE}/ciliumnodeconfigs"


def _get(api: Api, path: str, what: str) -> Dict[str, Any]:
    """:raises ApiError: with words for a cluster that has no Cilium."""
    try:
        return api.get(path)
    except ApiError as error:
        if error.status == 404:
            raise ApiError(what, 404, "is not there, wanted a cluster whose CNI is Cilium, installed in kube-system", {}) from error
        raise


def _objects(api: Api) -> List[Dict[str, Any]]:
    try:
        return api.items(OBJECTS)
    except ApiError as error:
        if error.status == 404:
            told = f"the API server does not know the kind in {cilium_node.API_VERSION}, wanted Cilium 1.18 or newer"
            raise ApiError("CiliumNodeConfig", 404, told, {}) from error
        raise


class Known:
    """What the API server knows of one node's Cilium."""

    def __init__(self, api: Api, name: str) -> None:
        """:raises ApiError: refused, not reached, or no Cilium."""
        self.node = kube_client.get_node(api, name)
        space = cilium_node.NAMESPACE
        self.config = _get(api, f"/api/v1/namespaces/{space}/configmaps/{cilium_node.CONFIG_MAP}", f"ConfigMap {space}/{cilium_node.CONFIG_MAP}")
        self.sources = cilium_node.sources_of(
            _get(api, f"/apis/apps/v1/namespaces/{space}/daemonsets/{cilium_node.DAEMON_SET}", f"DaemonSet {space}/{cilium_node.DAEMON_SET}"),
        )
        self.objects = _objects(api)
        others = api.items("/api/v1/nodes", {"labelSelector": cilium_node.LABEL})
        self.labels_in_use = [labels_of(item)[cilium_node.LABEL] for item in others if cilium_node.name_of(item) != name]

    def configured(self) -> Dict[str, Dict[str, Any]]:
        """:raises SelectorError: of one of the objects."""
        return cilium_node.configured(cilium_node.merged(self.config.get("data") or {}, self.objects, self.node, self.sources))


def _write(api: Api, known: Known, change: cilium_node.Change, check_mode: bool) -> None:
    """Try the object, label the Node, write the object, remove those that are left over.

    The label is first: as long as it is there, another run that looks for leftovers keeps the object.
    """
    # A label that nobody else writes, on an object that many write to: whatever else of it has changed does not matter.
    label = {"metadata": {"labels": {cilium_node.LABEL: change.label}}}
    for dry_run in [True] if check_mode else [True, False]:
        if change.relabel and not dry_run:
            api.patch(kube_client.node_path(cilium_node.name_of(known.node)), label)
        if change.write is not None and change.replaces is not None:
            meta = {**change.write["metadata"], "resourceVersion": change.replaces["metadata"]["resourceVersion"]}
            api.replace(f"{OBJECTS}/{quote(meta['name'])}", {**change.write, "metadata": meta}, dry_run=dry_run)
        elif change.write is not None:
            api.create(OBJECTS, change.write, dry_run=dry_run)
    if check_mode and change.relabel:
        api.patch(kube_client.node_path(cilium_node.name_of(known.node)), label, dry_run=True)
    for item in () if check_mode else change.remove:
        meta = item["metadata"]
        try:
            api.delete(f"{OBJECTS}/{quote(meta['name'])}", {"preconditions": {"uid": meta["uid"], "resourceVersion": meta["resourceVersion"]}})
        except ApiError as error:
            # Another run was faster.
            if error.status not in (404, 409):
                raise


class Outcome(NamedTuple):
    """What was known before and is known after, what was done, and what was refused, in which case nothing was."""

    before: Known
    after: Known
    change: cilium_node.Change
    refused: List[Dict[str, str]]


def bring(api: Api, params: Dict[str, Any], check_mode: bool) -> Outcome:
    """Read, judge and write; :raises ApiError: refused or not reached. :raises SelectorError: of one of the objects."""
    known = Known(api, params["node"])
    wanted = {} if params["state"] == "absent" else params["wanted"]
    change = cilium_node.decide(wanted, known.objects, known.node, known.labels_in_use)
    refused = cilium_node.refusals(wanted, known.objects, known.node, known.sources)
    if params["state"] != "read" and change.anything and not refused:
        _write(api, known, change, check_mode)
        if not check_mode:
            return Outcome(known, Known(api, params["node"]), change, refused)
    return Outcome(known, known, change, refused)


def _diff(name: str, known: Known, change: cilium_node.Change) -> Dict[str, Any]:
    before: Dict[str, Any] = {}
    after: Dict[str, Any] = {}
    if change.relabel:
        before[f"label {cilium_node.LABEL}"] = labels_of(known.node).get(cilium_node.LABEL)
        after[f"label {cilium_node.LABEL}"] = change.label
    if change.write is not None:
        before[cilium_node.source_name(change.write)] = (change.replaces or {}).get("spec")
        after[cilium_node.source_name(change.write)] = change.write["spec"]
    for item in change.remove:
        before[cilium_node.source_name(item)], after[cilium_node.source_name(item)] = item["spec"], None
    header = f"Node {name}"
    return {"before": before, "after": after, "before_header": header, "after_header": header}


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            **kube_client.ARGUMENTS,
            "node": {"type": "str", "required": True},
            "state": {"type": "str", "choices": ["present", "absent", "read"], "default": "present"},
            "wanted": {"type": "dict", "default": {}},
        },
        supports_check_mode=True,
    )
    api = kube_client.connect(module)
    read = module.params["state"] == "read"
    try:
        outcome: Outcome = kube_client.retry_conflict(lambda: bring(api, module.params, module.check_mode))
        configured = outcome.after.configured()
        before = cilium_node.own(outcome.before.configured())
    except ApiError as error:
        kube_client.fail(module, error, page="rbac-cilium.yaml")
        raise
    except cilium_node.SelectorError as error:
        module.fail_json(msg=str(error))
        raise
    change, refused = outcome.change, outcome.refused
    if refused and not read:
        module.fail_json(msg=f"the configuration of Cilium on node {module.params['node']} is not ours to set:\n{findings_m.listed(refused)}", findings=refused)
    result: Dict[str, Any] = {
        "changed": change.anything and not read, "configured": configured, "findings": refused, "own": before,
        "name": f"{cilium_node.PREFIX}{change.label}" if change.label else None,
        "removed": [] if read else [cilium_node.name_of(item) for item in change.remove],
    }
    if module._diff and result["changed"]:
        result["diff"] = _diff(module.params["node"], outcome.before, change)
    module.exit_json(**result)


if __name__ == "__main__":
    main()
