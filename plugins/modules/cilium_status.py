#!/usr/bin/python

# Copyright (c) 2026 The inferops.locality authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: cilium_status
short_description: Ask the Cilium agent of this node what it does
version_added: 0.1.0
description:
  - Runs C(cilium-dbg status -o json) in the agent's container, by RKE2's crictl, and the text for eyes where the agent has no JSON. Runs on the node as root,
    so that no account of the cluster needs the right to run commands in pods.
  - The agent falls back without an error from netkit to veth, from BIG TCP to usual sizes, from XDP to none and from BPF to legacy host routing. With O(wanted)
    the module says of each knob whether it is in force.
  - What a status does not tell is C(null), and not in force.
options:
  root:
    description:
      - Directory in which the machine's C(/) lies.
      - Below another directory than V(/) nothing is run, and answers that were recorded below C(.locality/probe) are read.
    type: path
    default: /
  data_dir:
    description: RKE2's data-dir, whose C(bin) has crictl.
    type: str
    default: /var/lib/rancher/rke2
  wanted:
    description: Knobs of a plan; those that do not begin with C(cilium.) are not looked at.
    type: dict
    default: {}
  fail:
    description: Whether a wanted knob that is not in force fails the task, all of them shown together.
    type: bool
    default: false
attributes:
  check_mode:
    support: full
    description: Can run in check mode and does the same there.
  diff_mode:
    support: none
    description: Nothing is changed.
  idempotent:
    support: full
    description: Nothing is changed.
author:
  - The inferops.locality authors (@inferops)
seealso:
  - module: inferops.locality.cilium_node_config
  - module: inferops.locality.locality_drift
"""

EXAMPLES = r"""
- name: Make sure that the agent does what the plan asks for
  inferops.locality.cilium_status:
    wanted: "{{ plan.knobs }}"
    fail: true

- name: Show what it does
  inferops.locality.cilium_status:
  register: cilium
"""

RETURN = r"""
pod:
  description: Name of the agent's pod.
  returned: success
  type: str
  sample: cilium-7x2kq
pod_uid:
  description: UID of the agent's pod, by which one that was made anew is told.
  returned: success
  type: str
  sample: 3f0c2a52-7d0b-4a51-b3a8-0a9f7a0a1c11
container:
  description: ID of the agent's container.
  returned: success
  type: str
  sample: 1f73f2d81bf98
format:
  description: What was read, V(json) or V(text).
  returned: success
  type: str
  sample: json
running:
  description: Knobs of the layer C(network) as they are in force, in the form that a plan has. Those that the agent does not tell are absent.
  returned: success
  type: dict
  sample:
    cilium.datapath_mode: netkit
    cilium.big_tcp: [ipv4]
    cilium.devices: [ens10f0np0]
    cilium.bpf_maps: {distributed_lru: null, ratio: 0.0025}
read_back:
  description: For each knob of O(wanted) whether it is in force, and what the status says of the cause if it is not.
  returned: success, and if a knob is not in force
  type: list
  elements: dict
  sample:
    - {knob: cilium.datapath_mode, wanted: netkit, found: veth, in_force: false, reason: "datapath mode auto chose it"}
status:
  description: All that was read of the status. C(null) is what it does not tell.
  returned: success
  type: dict
  sample:
    version: 1.20.1
    health: Ok
    datapath_mode: netkit
    datapath_mode_configured: netkit
    attach_mode: tcx
    big_tcp: {ipv4: {enabled: true, gro: 196608, gso: 196608}, ipv6: {enabled: false, gro: null, gso: null}}
    routing: native
    tunnel_protocol: null
    host_routing: bpf
    kube_proxy_replacement: true
    devices: [ens10f0np0]
    direct_routing_device: ens10f0np0
    xdp: native
    masquerade: bpf
    clock_source: jiffies
    bandwidth_manager: {enabled: true, bbr: true}
    map_ratio: 0.0025
    cni_chaining: none
    encryption: disabled
    problems: [{line: "Device Mode: netki", reason: "is no value that is known here, or is cut"}]
"""

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.inferops.locality.plugins.module_utils import cilium_crictl, cilium_status
from ansible_collections.inferops.locality.plugins.module_utils.probe import Probe
from ansible_collections.inferops.locality.plugins.module_utils.sysroot import SysRoot


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "root": {"type": "path", "default": "/"},
            "data_dir": {"type": "str", "default": "/var/lib/rancher/rke2"},
            "wanted": {"type": "dict", "default": {}},
            "fail": {"type": "bool", "default": False},
        },
        supports_check_mode=True,
    )
    sysroot = SysRoot(module.params["root"])
    if not sysroot.is_dir("/"):
        module.fail_json(msg=f"root: found '{module.params['root']}', wanted a directory that can be read")
    try:
        asked = cilium_crictl.ask(Probe(sysroot, programs=f"{module.params['data_dir']}/bin"), sysroot.live)
    except cilium_crictl.AgentError as error:
        module.fail_json(msg="; ".join([str(error), *(f"{problem['file']}: {problem['reason']}" for problem in sysroot.problems)]))
        raise
    back = cilium_status.read_back(module.params["wanted"], asked["status"])
    off = [entry for entry in back if not entry["in_force"]]
    if off and module.params["fail"]:
        module.fail_json(
            msg="the Cilium agent does not do what was asked: "
            + "; ".join(f"{entry['knob']} found {entry['found']}, wanted {entry['wanted']} ({entry['reason']})" for entry in off),
            read_back=back, **asked,
        )
    module.exit_json(changed=False, running=cilium_status.running(asked["status"]), read_back=back, **asked)


if __name__ == "__main__":
    main()
