#!/usr/bin/python
# Copyright (c) 2026 The inferops.locality authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: locality_drift
short_description: Compare a node with its plan
version_added: 0.1.0
author:
  - The inferops.locality authors (@inferops)
description:
  - Compares what a node is set to, running and configured, with its plan, and says what it costs to mend.
  - A knob is in sync only if every side it has equals the plan; a side that could not be read is not in sync.
  - Settings of ours that stand in files of someone else, and recipes that break a node wherever they come from, are findings.
  - Nothing is read from the node and nothing is changed; the action runs on the controller without a connection.
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
  plan:
    description: The plan; RV(inferops.locality.locality_plan#module:plan).
    type: dict
    required: true
  state:
    description: What the node is set to; C(ansible_facts.locality_state) of M(inferops.locality.locality_state).
    type: dict
    required: true
  cluster_state:
    description:
      - What the API server knows of the node, C(labels) (a dictionary) and C(taints) (a list of texts such as C(key=value:NoSchedule)).
      - C(cilium) is what is known of Cilium on it, C(running) (knobs to values) and C(configured) (knobs to C(value) and C(source)).
        C(running) is C(null) where its agent gave no answer; then only the other is judged.
      - C(dra) is likewise what the cluster has of DRANET for it, as M(inferops.locality.dra_objects) with C(state=read) returns it.
      - Without it labels and taints are not judged, without C(cilium) no knob of the layer C(network), without C(dra) none of C(dra).
    type: dict
  kubelet_running:
    description:
      - What the kubelet itself says it runs with, RV(inferops.locality.kubelet_configz#module:running). It is taken instead of the command line of its process
        for knobs that the plan sets.
    type: dict
  adopt:
    description: Whether settings of ours in files of someone else are taken over. Their findings are notes then, otherwise errors.
    type: bool
    default: false
  live:
    description:
      - Whether O(state) was read from the running machine.
      - If V(false), as below another root, only the configured sides are judged, and what is in sync is written, but not in force.
    type: bool
    default: true
  fail:
    description: Whether drift of managed knobs and error findings fail the task, all of them shown together.
    type: bool
    default: false
seealso:
  - module: inferops.locality.locality_plan
  - module: inferops.locality.locality_state
"""

EXAMPLES = r"""
- name: Compare the node with its plan
  inferops.locality.locality_drift:
    plan: "{{ planned.plan }}"
    state: "{{ ansible_facts.locality_state }}"
  register: drift

- name: Say what it would take
  ansible.builtin.debug:
    msg: "{{ drift.summary.count }} knobs drift, mending them needs: {{ drift.summary.needs }}"

- name: Compare files below another root, where nothing runs
  inferops.locality.locality_drift:
    plan: "{{ planned.plan }}"
    state: "{{ ansible_facts.locality_state }}"
    live: false
    fail: true
"""

RETURN = r"""
entries:
  description: One for each knob that the plan judges, and one for each that this collection wrote earlier and the plan no longer has.
  returned: success
  type: list
  elements: dict
  contains:
    knob:
      description: Id of the knob.
      returned: always
      type: str
      sample: kernel.irqaffinity
    wanted:
      description: Value in the plan; null means that it must not be set.
      returned: always
      type: raw
      sample: 0,32,64,96
    running:
      description: Value in force, or null.
      returned: always
      type: raw
      sample: 0-127
    configured:
      description: Value that comes back at the next boot or start, or null.
      returned: always
      type: raw
      sample: 0,32,64,96
    in_sync:
      description: Whether every judged side equals the plan.
      returned: always
      type: bool
      sample: false
    class:
      description: V(managed) or V(reported); only managed knobs count as drift.
      returned: always
      type: str
      sample: managed
    needs:
      description: What mending costs, V(live), V(drain), V(restart) or V(reboot). A knob of which only the file is wrong needs V(live).
      returned: always
      type: str
      sample: reboot
    source:
      description: File and line of the configured value.
      returned: always
      type: str
      sample: /etc/default/grub.d/90-inferops-locality.cfg:3
    reason:
      description: Why it is not in sync, or null.
      returned: always
      type: str
      sample: running differs
summary:
  description: V(needs) is the dearest of what the managed knobs that drift need, or null; V(count) is their number.
  returned: success
  type: dict
  sample: {needs: reboot, count: 1}
findings:
  description: As in the plan. Ids begin with C(foreign.), C(recipe.) or C(root.).
  returned: success
  type: list
  elements: dict
  sample: [{id: foreign.vm.swappiness, severity: error, message: text, hint: text}]
"""
