#!/usr/bin/python

# Copyright (c) 2026 The inferops.locality authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: dra_objects
short_description: Check a cluster for DRANET, and keep its DeviceClasses and claim templates
version_added: 0.1.0
description:
  - Checks that DRANET can run on the named nodes, makes the DeviceClasses and ResourceClaimTemplates for GPUs and NICs that O(policy) and the topologies of the
    nodes give, and labels the nodes C(locality.inferops.io/dranet=true), by which the driver's pods are placed.
  - Objects that this module made and that are no longer wanted are removed. One of the same name that somebody else made is refused.
  - It does not install the driver; the role C(dranet) does.
options:
  state:
    description:
      - V(checked) changes nothing and fails where V(present) would.
      - V(present) brings the objects and the labels.
      - V(absent) takes the label off O(nodes), and all of ours with the last of them, or all of it where no nodes are named. It fails with the list of claims
        as long as one holds a NIC of DRANET there, or asks for a DeviceClass that would go.
      - V(read) changes nothing and tells what the cluster has of the knobs of the layer C(dra) for one node.
    type: str
    choices: [checked, present, absent, read]
    default: present
  nodes:
    description: Names of the Nodes that get DRANET, or give it back; with O(state=read) of one.
    type: list
    elements: str
    default: []
  topologies:
    description: For each of them C(ansible_facts.numa_topology); its C(devices) are read.
    type: list
    elements: dict
    default: []
  policy:
    description: C(locality_policy) of these nodes; its C(dra) is read.
    type: dict
    default: {}
  uplinks:
    description: Interfaces that are never given away, beside C(dra.uplinks) of the policy.
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
    description: Returns the objects and labels that are changed.
  idempotent:
    support: full
    description: A second run with the same options changes nothing.
author:
  - The inferops.locality authors (@inferops)
notes:
  - Needs the rights of C(docs/rbac-dra.yaml).
"""

EXAMPLES = r"""
- name: Make the DeviceClasses and claim templates
  inferops.locality.dra_objects:
    kubeconfig: "{{ locality_kubeconfig }}"
    nodes: [gpu-a01]
    topologies: ["{{ ansible_facts.numa_topology }}"]
    policy: {dra: {gpus: nvidia-dra, namespaces: [inference]}}
  delegate_to: localhost
"""

RETURN = r"""
api:
  description: The version of C(resource.k8s.io) that the objects are written in.
  returned: success
  type: str
  sample: v1
findings:
  description: What there is to say, each with C(id), C(severity), C(message) and C(hint). Error findings fail the module.
  returned: success, and if it was refused
  type: list
  elements: dict
objects:
  description: The objects that are there afterwards, as C(kind namespace/name).
  returned: success, unless O(state=read)
  type: list
  elements: str
  sample: [DeviceClass dranet-rdma, ResourceClaimTemplate inference/gpu-nic]
left:
  description: Nodes that keep DRANET, and with it the objects.
  returned: success, with O(state=absent)
  type: list
  elements: str
  sample: [gpu-a02]
running:
  description: What runs on the node, by knob.
  returned: success, with O(state=read)
  type: dict
  sample: {dra.dranet: true, dra.api: v1, dra.gpu_driver: nvidia-dra, dra.nics: {"0000:19:00.0": "pci0000:15"}}
configured:
  description: What is configured for the node, by knob, as C(value) and C(source).
  returned: success, with O(state=read)
  type: dict
  sample: {dra.dranet: {value: true, source: label locality.inferops.io/dranet of Node gpu-a01}}
pending:
  description: Claims for GPUs and NICs that nothing is allocated for, and for each node what of them is free there. The scheduler itself says less.
  returned: success, unless O(state=read)
  type: dict
  sample: {"inference/worker-accel-x2x4": ["gpu-a01: no PCIe root has both a free GPU and a free RDMA NIC; free GPUs: pci0000:97 (2); free NICs: none"]}
in_use:
  description: Claims that stand against the removal.
  returned: if it was refused
  type: list
  elements: str
  sample: ["inference/worker-accel-x2x4 (pods: worker): pci-0000-19-00-0"]
status:
  description: HTTP status of the API server's refusal, 0 if it was not reached.
  returned: failure
  type: int
  sample: 403
"""

from typing import Any, Dict, List, Mapping
from urllib.parse import quote

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.inferops.locality.plugins.module_utils import dra_claims, dra_cluster, dra_knobs, kube_client
from ansible_collections.inferops.locality.plugins.module_utils import findings as findings_m
from ansible_collections.inferops.locality.plugins.module_utils import policy as policy_m
from ansible_collections.inferops.locality.plugins.module_utils.kube_client import Api, ApiError
from ansible_collections.inferops.locality.plugins.module_utils.node_labels import labels_of

GROUP = f"/apis/{dra_claims.GROUP}"
PLURALS = {"DeviceClass": "deviceclasses", "ResourceClaimTemplate": "resourceclaimtemplates"}


def _versions(api: Api) -> List[str]:
    try:
        return [item["version"] for item in api.get(GROUP).get("versions") or []]
    except ApiError as error:
        if error.status == 404:
            return []
        raise


def _look(api: Api) -> dra_cluster.Look:
    """:raises ApiError: refused or not reached."""
    digits = "".join(letter for letter in str(api.get("/version").get("minor") or "0") if letter.isdigit())
    versions = _versions(api)
    lists: Dict[str, List[Dict[str, Any]]] = {"resourceslices": [], "resourceclaims": [], **{plural: [] for plural in PLURALS.values()}}
    if "v1" in versions:
        lists = {plural: api.items(f"{GROUP}/v1/{plural}") for plural in lists}
    # Items of a list do not say their kind.
    objects = [{**item, "kind": kind, "apiVersion": f"{dra_claims.GROUP}/v1"} for kind, plural in PLURALS.items() for item in lists[plural]]
    return dra_cluster.Look(int(digits or 0), versions, api.items("/api/v1/nodes"), lists["resourceslices"], lists["resourceclaims"], objects)


def _folder(item: Mapping[str, Any]) -> str:
    namespace = item["metadata"].get("namespace")
    return f"{GROUP}/v1/{'namespaces/' + quote(namespace) + '/' if namespace else ''}{PLURALS[item['kind']]}"


def _path(item: Mapping[str, Any]) -> str:
    return f"{_folder(item)}/{quote(item['metadata']['name'])}"


def _told(item: Mapping[str, Any]) -> str:
    kind, namespace, name = dra_cluster.key_of(item)
    return f"{kind} {namespace + '/' if namespace else ''}{name}"


def _remove(api: Api, item: Mapping[str, Any]) -> None:
    try:
        api.delete(_path(item), {"preconditions": {"uid": item["metadata"]["uid"]}})
    except ApiError as error:
        if error.status != 404:
            raise


def _write(api: Api, change: dra_cluster.Change, check_mode: bool) -> None:
    for dry_run in [True] if check_mode else [True, False]:
        for item in change.create:
            api.create(_folder(item), item, dry_run=dry_run)
        for old, item in change.replace:
            if item["kind"] == "DeviceClass":
                meta = {**item["metadata"], "resourceVersion": old["metadata"]["resourceVersion"]}
                api.replace(_path(item), {**item, "metadata": meta}, dry_run=dry_run)
            elif not dry_run:
                _remove(api, old)
                api.create(_folder(item), item)
        for node, value in change.label.items():
            api.patch(kube_client.node_path(node), {"metadata": {"labels": {dra_cluster.LABEL: value}}}, dry_run=dry_run)
    for left in () if check_mode else change.remove:
        _remove(api, left)


def _diff(look: dra_cluster.Look, change: dra_cluster.Change) -> Dict[str, Any]:
    labels = {item["metadata"]["name"]: labels_of(item).get(dra_cluster.LABEL) for item in look.nodes}
    before = {f"label {dra_cluster.LABEL} of node {node}": labels[node] for node in change.label}
    after: Dict[str, Any] = {f"label {dra_cluster.LABEL} of node {node}": value for node, value in change.label.items()}
    for item in change.create:
        before[_told(item)], after[_told(item)] = None, item["spec"]
    for old, item in change.replace:
        before[_told(item)], after[_told(item)] = old["spec"], item["spec"]
    for gone in change.remove:
        before[_told(gone)], after[_told(gone)] = gone["spec"], None
    return {"before": before, "after": after, "before_header": "cluster", "after_header": "cluster"}


def _refuse(module: AnsibleModule, found: List[Dict[str, str]], **more: Any) -> None:
    errors = findings_m.errors(found)
    if errors:
        module.fail_json(msg=f"DRANET is not brought to these nodes:\n{findings_m.listed(errors)}", findings=found, **more)


def _used(module: AnsibleModule, why: str, used: List[str]) -> None:
    if used:
        claims = "\n- ".join(used)
        module.fail_json(msg=f"{why}, end their pods first:\n- {claims}", in_use=used)


def _read(module: AnsibleModule, api: Api, look: dra_cluster.Look, dra: Mapping[str, Any], cpu_policy: str) -> Dict[str, Any]:
    params = module.params
    if len(params["nodes"]) != 1 or len(params["topologies"]) != 1:
        module.fail_json(msg=f"state read is for one node with its topology, found {len(params['nodes'])} nodes and {len(params['topologies'])} topologies")
    node, topology = params["nodes"][0], params["topologies"][0]
    driver = dra_knobs.Driver(kube_client.pods_of(api, node), api.items("/apis/apps/v1/daemonsets"))
    state = dra_knobs.node_state(look, driver, node, topology, dra)
    found = findings_m.Findings()
    if dra["dranet"]:
        found.extend(dra_cluster.checks(look, dra, [node], cpu_policy, every=False))
    elif state.configured["dra.dranet"]["value"]:
        change, keep = dra_cluster.leave(look, [node])
        used = dra_cluster.in_use(look, change.remove, driver=True, nodes=[node] if keep else None)
        if used:
            found.error("dra.in_use", f"DRANET is to be taken off, and claims are in use: {'; '.join(used)}", "end their pods first")
    return {"changed": False, "running": state.running, "configured": state.configured, "findings": found.items}


def _bring(module: AnsibleModule, api: Api) -> Dict[str, Any]:
    params = module.params
    policy, found = policy_m.check_policy(params["policy"])
    _refuse(module, found)
    dra = {**policy["dra"], "uplinks": sorted({*policy["dra"]["uplinks"], *params["uplinks"]})}
    look = _look(api)
    if params["state"] == "read":
        return _read(module, api, look, dra, policy["cpu_policy"])
    keep: List[str] = []
    if params["state"] == "absent":
        change, keep = dra_cluster.leave(look, params["nodes"])
        _used(module, "claims are in use", dra_cluster.in_use(look, change.remove, driver=True, nodes=params["nodes"] if keep else None))
        objects: List[Dict[str, Any]] = []
    else:
        found = dra_cluster.checks(look, dra, params["nodes"], policy["cpu_policy"])
        _refuse(module, found)
        objects, more = dra_cluster.wanted(params["topologies"], dra, "v1")
        change, foreign = dra_cluster.decide(look, objects, params["nodes"])
        found = found + more + foreign
        _refuse(module, found)
        _used(module, "claims ask for a DeviceClass that would be removed", dra_cluster.in_use(look, change.remove, driver=False))
    result: Dict[str, Any] = {
        "changed": False, "api": "v1", "findings": found, "objects": sorted(map(_told, objects)), "pending": dra_cluster.pending(look, dra),
    }
    if params["state"] == "checked":
        return result
    if params["state"] == "absent":
        result["left"] = keep
    if change.anything:
        _write(api, change, module.check_mode)
        result["changed"] = True
        if module._diff:
            result["diff"] = _diff(look, change)
    return result


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            **kube_client.ARGUMENTS,
            "state": {"type": "str", "choices": ["checked", "present", "absent", "read"], "default": "present"},
            "nodes": {"type": "list", "elements": "str", "default": []},
            "topologies": {"type": "list", "elements": "dict", "default": []},
            "policy": {"type": "dict", "default": {}},
            "uplinks": {"type": "list", "elements": "str", "default": []},
        },
        supports_check_mode=True,
    )
    api = kube_client.connect(module)
    try:
        result = kube_client.retry_conflict(lambda: _bring(module, api))
    except ApiError as error:
        kube_client.fail(module, error, page="rbac-dra.yaml")
        raise
    module.exit_json(**result)


if __name__ == "__main__":
    main()
