#!/usr/bin/python

# Copyright (c) 2026 The inferops.locality authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: cilium_manifests
short_description: Prepare a node of a cluster that is still to be made for Cilium
version_added: 0.1.0
description:
  - Writes C(80-inferops-locality-cilium.yaml) into RKE2's C(config.yaml.d), with C(disable-kube-proxy) and, on servers, C(cni), and on servers with
    O(mode=bundled) a HelmChartConfig C(rke2-cilium) with the profile of a new cluster into C(server/manifests) of the data-dir. Cilium starts with it the first
    time. The ranges for pods come from RKE2's configuration on the node.
  - On a node on which RKE2 has been started nothing of that is changed any more. The HelmChartConfig's file is taken away there, since RKE2 would apply it in
    each start of a server and take back what M(inferops.locality.cilium_values) has changed; the object stays.
options:
  role:
    description: What the node will be.
    type: str
    choices: [server, agent]
    required: true
  mode:
    description: V(bundled) for RKE2's own chart, V(helm) for C(cni=none), after which helm brings Cilium's own chart.
    type: str
    choices: [bundled, helm]
    default: bundled
  network:
    description: C(network) of C(locality_policy).
    type: dict
    default: {}
  values:
    description: More values of the chart, which win.
    type: dict
    default: {}
  version:
    description: Version of RKE2's chart C(rke2-cilium). The values are checked for it.
    type: str
    default: ''
  nodes:
    description: How many nodes the cluster will have.
    type: int
    default: 2
  api_host:
    description: Where every node reaches the API server without the service. RKE2 has a load balancer of its own there.
    type: str
    default: localhost
  api_port:
    description: The port of it.
    type: int
    default: 6443
  state:
    description: V(absent) takes the files away again, unless RKE2 has been started.
    type: str
    choices: [present, absent]
    default: present
  root:
    description: Directory in which the node's C(/) lies, of the node itself or of an image.
    type: path
    default: /
attributes:
  check_mode:
    support: full
    description: Can run in check mode and return what would be changed, and refuses there what it would refuse.
  diff_mode:
    support: full
    description: Returns the files before and after.
  idempotent:
    support: full
    description: A second run with the same options changes nothing.
author:
  - The inferops.locality authors (@inferops)
seealso:
  - module: inferops.locality.cilium_values
"""

EXAMPLES = r"""
- name: Prepare a server for its first start
  inferops.locality.cilium_manifests:
    role: server
    version: 1.19.601
    network: {routing: direct, datapath_mode: netkit}
    nodes: 12
"""

RETURN = r"""
paths:
  description: Files that were changed, or would be.
  returned: success
  type: list
  elements: str
  sample: [/etc/rancher/rke2/config.yaml.d/80-inferops-locality-cilium.yaml]
chart_values:
  description: Values of the chart; empty on agents, with O(mode=helm), and where RKE2 has been started.
  returned: success and failure
  type: dict
  sample: {routingMode: native, ipv4NativeRoutingCIDR: 10.42.0.0/16}
started:
  description: Whether RKE2 has been started on the node.
  returned: success and failure
  type: bool
  sample: false
findings:
  description: All that stands against it; errors are refused.
  returned: success and failure
  type: list
  elements: dict
  sample: []
"""

from typing import Any, Dict

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.inferops.locality.plugins.module_utils import cilium_manifests, findings, node_files, policy, rke2_config
from ansible_collections.inferops.locality.plugins.module_utils.sysroot import SysRoot


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "role": {"type": "str", "choices": list(cilium_manifests.ROLES), "required": True},
            "mode": {"type": "str", "choices": ["bundled", "helm"], "default": "bundled"},
            "network": {"type": "dict", "default": {}},
            "values": {"type": "dict", "default": {}},
            "version": {"type": "str", "default": ""},
            "nodes": {"type": "int", "default": 2},
            "api_host": {"type": "str", "default": "localhost"},
            "api_port": {"type": "int", "default": 6443},
            "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
            "root": {"type": "path", "default": "/"},
        },
        supports_check_mode=True,
    )
    params = module.params
    sysroot = SysRoot(params["root"])
    if not sysroot.is_dir("/"):
        module.fail_json(msg=f"root: found '{params['root']}', wanted a directory that can be read")
    network, wrong = policy.check_policy({"network": params["network"]})
    wish = cilium_manifests.Wish(
        params["role"], params["mode"], network["network"], params["values"], params["version"], params["nodes"], (params["api_host"], params["api_port"]),
    )
    node = cilium_manifests.read(sysroot, rke2_config.read(sysroot))
    decision = cilium_manifests.decide(node, wish, params["state"] == "absent")
    files = node_files.Files(sysroot)
    try:
        node_files.decide(files, [{"path": path, "content": text, "mode": "0600"} for path, text in decision.files.items()])
    except node_files.FilesError as error:
        module.fail_json(msg=f"nothing was written: {error}")
    found = [*wrong, *decision.findings, *cilium_manifests.against_start(node, files.changed())]
    result: Dict[str, Any] = {"findings": found, "chart_values": decision.values, "started": node.started}
    errors = findings.errors(found)
    if errors:
        module.fail_json(msg=f"nothing was written: {len(errors)} error{'s' if len(errors) > 1 else ''}\n{findings.listed(errors)}", **result)
    result.update(changed=bool(files.changed()), paths=files.changed())
    if module._diff:
        result["diff"] = files.diff()
    if not module.check_mode:
        try:
            files.apply()
        except node_files.FilesError as error:
            module.fail_json(msg=str(error) if error.left else f"{error}. All files are as before")
        if sysroot.live:
            for path in files.present():
                module.set_default_selinux_context(path, False)
    module.exit_json(**result)


if __name__ == "__main__":
    main()
