#!/usr/bin/python
# Copyright (c) 2026 The inferops.locality authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: locality_plan
short_description: Plan the CPUs, memory and interrupts of a node
version_added: 0.1.0
author:
  - The inferops.locality authors (@inferops)
description:
  - Makes the plan of one node out of its topology, its platform and the policy of its chassis.
  - The same input gives the same plan. Nothing is read from the node and nothing is changed; the action runs on the controller without a connection.
  - Everything that is wrong with the policy, the chassis or the machine is found at once and returned as findings.
attributes:
  check_mode:
    description: Can run in check mode and does the same there.
    support: full
  diff_mode:
    description: Has nothing to show, since it changes nothing.
    support: none
  platform:
    description: Runs on the controller, for any host.
    support: full
    platforms: posix
options:
  topology:
    description: What the machine is; C(ansible_facts.numa_topology) of M(inferops.locality.numa_topology).
    type: dict
    required: true
  platform:
    description: What its software can do; C(ansible_facts.locality_state.platform) of M(inferops.locality.locality_state).
    type: dict
    required: true
  policy:
    description:
      - What is wanted of this chassis model. Every key has a default; an unknown key is an error finding that names the nearest known one.
      - The inventory calls it C(locality_policy).
    type: raw
    default: {}
  chassis:
    description:
      - What the hardware must look like; every difference is an error finding with what was found and what is wanted.
      - The inventory calls it C(locality_chassis). Without it nothing is expected.
    type: raw
  cilium:
    description:
      - What is known of the Cilium of the node's cluster. C(version) is its version or that of its chart, C(config) the data of its ConfigMap
        C(cilium-config). What C(network) of O(policy) asks for is then judged by both; what contradicts is an error finding C(cilium.*).
      - Where there is no ConfigMap yet, C(values) are the values that the chart gets, and C(mode) says which chart, V(bundled) for the one of RKE2 or V(helm)
        for Cilium's own. They are checked too, and what is wrong with them is an error finding.
      - Without it the node alone is judged, its kernel and interfaces. The inventory calls it C(locality_cilium).
    type: raw
  record:
    description:
      - A record that a run left of this host on the controller. Its policy and chassis are taken instead of O(policy) and O(chassis).
      - A plan that is not the recorded one, since hardware, software or this collection have changed, is an error finding that names the knobs.
    type: path
  layers:
    description: The layers that are to be brought to the plan. A O(record) of a run that did not bring each of them is an error finding.
    type: list
    elements: str
    choices: [host, irq, kubelet, network, dra]
    default: [host, irq, kubelet, network, dra]
  fail:
    description: Whether error findings fail the task, all of them shown together.
    type: bool
    default: true
seealso:
  - module: inferops.locality.numa_topology
  - module: inferops.locality.locality_state
  - module: inferops.locality.locality_drift
"""

EXAMPLES = r"""
- name: Read the machine
  inferops.locality.numa_topology:

- name: Read its settings
  inferops.locality.locality_state:

- name: Plan the node
  inferops.locality.locality_plan:
    topology: "{{ ansible_facts.numa_topology }}"
    platform: "{{ ansible_facts.locality_state.platform }}"
    policy:
      housekeeping:
        cores_per_numa_node: 2
      hugepages:
        1Gi:
          "0": 16
          "1": 16
  register: planned

- name: Show which CPUs pods may have
  ansible.builtin.debug:
    var: planned.plan.isolated_cpus

- name: Plan against the chassis and look at the findings later
  inferops.locality.locality_plan:
    topology: "{{ ansible_facts.numa_topology }}"
    platform: "{{ ansible_facts.locality_state.platform }}"
    policy: "{{ locality_policy }}"
    chassis: "{{ locality_chassis }}"
    fail: false
  register: planned
"""

RETURN = r"""
plan:
  description: The plan.
  returned: always, unless topology or platform are of another shape
  type: dict
  contains:
    version:
      description: Version of the plan's shape.
      returned: always
      type: int
      sample: 1
    housekeeping_cpus:
      description: CPUs for the system, the kubelet and interrupts.
      returned: always
      type: str
      sample: 0,32,64,96
    isolated_cpus:
      description: All other online CPUs, which pods get.
      returned: always
      type: str
      sample: 1-31,33-63,65-95,97-127
    numa_nodes:
      description: One for each NUMA node, those without CPUs too. Memory is in bytes.
      returned: always
      type: list
      elements: dict
      sample:
        - id: 0
          housekeeping_cpus: 0,64
          isolated_cpus: 1-31,65-95
          allocatable_memory_bytes: 525871349760
          reserved_memory_bytes: 6704594944
          hugepages: {1Gi: 16}
          gpus: ["0000:19:00.0"]
          nics: ["0000:18:00.0"]
    kernel_args:
      description: Boot arguments in order.
      returned: always
      type: list
      elements: str
      sample: ["isolcpus=managed_irq,1-31,33-63,65-95,97-127", "irqaffinity=0,32,64,96"]
    kubelet:
      description:
        - The kubelet's arguments, one flag each, under C(args).
        - Under C(node_labels) and C(node_taints) those that RKE2 gives the node at its registration. Labels that only the API takes are not among them.
      returned: always
      type: dict
      sample: {args: ["cpu-manager-policy=static", "reserved-cpus=0,32,64,96"], node_labels: ["gpu=h100"], node_taints: ["dedicated=inference:NoSchedule"]}
    irqs:
      description: Where the interrupts of each device go.
      returned: always
      type: list
      elements: dict
      sample: [{device: "0000:18:00.0", cpus: "0,64"}]
    knobs:
      description: The wanted value of every knob that the plan judges. A missing knob is not judged; null means that it must not be set.
      returned: always
      type: dict
      sample: {kernel.irqaffinity: "0,32,64,96", vm.swappiness: 0}
    capacity:
      description: What is left for pods, in all and on each NUMA node, the nearest NIC of each GPU, and GPUs that no NIC is near to.
      returned: always
      type: dict
      sample: {cpus: 124, whole_cores: 62, gpus: 2, nics: 1, numa_nodes: {}, pairs: [], gpus_far_from_nics: []}
    findings:
      description: Errors first, then warnings, then notes. A plan with errors must not be applied.
      returned: always
      type: list
      elements: dict
      sample: [{id: gpu.far_from_nics, severity: warning, message: text, hint: text}]
"""
