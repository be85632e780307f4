#!/usr/bin/python

# Copyright (c) 2026 The inferops.locality authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: kubelet_cpu_state
short_description: Say whether the kubelet would start with its checkpoint files, and take away those that stop it
version_added: 0.1.0
description:
  - The kubelet's CPU manager and memory manager keep what they gave away in C(cpu_manager_state) and C(memory_manager_state). A kubelet whose configuration
    or machine does not fit these files does not start, and never mends that itself.
  - Reads both, in all forms of Kubernetes 1.17 to 1.37 with their checksums, and compares them with the wanted configuration, the online CPUs and the memory
    and huge pages of the NUMA nodes, by the rules of the kubelet's start.
  - With O(state=consistent) only those files are removed with which it would not start. A copy of each is kept below C(/var/lib/inferops-locality/saved),
    with the time in its name. The kubelet makes new ones.
  - A file of an unknown form, and one that cannot be read, is left alone, with O(force) too.
  - Nothing is removed while a kubelet runs, or while containers with CPUs of their own are alive. Containers outlive a kubelet that is stopped, and one
    that has lost its file moves them to other CPUs. Nor is the memory manager's file removed while pods with memory of their own in it are alive.
options:
  root_dir:
    description: The kubelet's C(--root-dir). By default that of RKE2's configuration, else C(/var/lib/kubelet).
    type: path
  wanted:
    description:
      - The configuration that the kubelet is to start with, as knob to value, such as the knobs in RV(inferops.locality.locality_plan#module:plan).
        A knob that is not there is not set. Knobs that say nothing about the kubelet's start are not looked at.
      - By default what RKE2's configuration gives its kubelet now.
    type: dict
  state:
    description: V(read) changes nothing. V(consistent) removes the files with which the kubelet would not start.
    type: str
    choices: [read, consistent]
    default: read
  force:
    description:
      - Remove them although containers with CPUs or memory of their own are alive, as the last thing before a reboot. A running kubelet forbids it
        nevertheless.
    type: bool
    default: false
  foretell:
    description:
      - In check mode, say what would be removed once the node is drained and its kubelet stopped, as earlier tasks would have done by then in a run.
        What forbids a removal now is not looked at.
    type: bool
    default: false
  root:
    description: Directory in which the machine's C(/) lies. Below another directory than V(/) nothing runs, so that nothing forbids a removal.
    type: path
    default: /
attributes:
  check_mode:
    support: full
    description: Can run in check mode and return what would be removed; fails where a run would now, unless O(foretell) is set.
  diff_mode:
    support: full
    description: Returns each file that goes, and its copy.
  idempotent:
    support: full
    description: A second run with the same options changes nothing.
author:
  - The inferops.locality authors (@inferops)
seealso:
  - module: inferops.locality.locality_state
  - module: inferops.locality.locality_plan
"""

EXAMPLES = r"""
- name: Ask whether the kubelet would start as it is configured now
  inferops.locality.kubelet_cpu_state:
  register: kubelet

- name: Take away what would stop it from starting as planned, on a drained node with RKE2 stopped
  inferops.locality.kubelet_cpu_state:
    wanted: "{{ planned.plan.knobs }}"
    state: consistent

- name: Ask about one change before it is made
  inferops.locality.kubelet_cpu_state:
    wanted:
      kubelet.cpu_manager_policy: static
      kubelet.cpu_manager_options: [full-pcpus-only=true, strict-cpu-reservation=true]
      kubelet.reserved_cpus: 0-1,32-33
"""

RETURN = r"""
cpu:
  description:
    - The file of the CPU manager as it was found, before anything was removed.
    - C(valid) is whether the kubelet would take it, V(null) where there is none or that cannot be told. C(entries) counts the containers and pods in it.
      C(format) is V(v1) to V(v4), or V(unknown).
  returned: success
  type: dict
  sample:
    file: /var/lib/kubelet/cpu_manager_state
    exists: true
    policy: none
    valid: false
    reason: policy is 'none', wanted 'static'
    format: v2
    entries: 0
memory:
  description: The same for the file of the memory manager.
  returned: success
  type: dict
  sample: {file: /var/lib/kubelet/memory_manager_state, exists: false, policy: null, valid: null, reason: null, format: null, entries: 0}
would_start:
  description:
    - Whether the kubelet would start with the files as they were found, V(null) where that cannot be told, and everything that is against it or not known.
    - A configuration that no kubelet starts with is among the reasons; then it does not help to remove files. So is what it would start with and should
      not, such as more memory reserved on a NUMA node than that has.
  returned: success
  type: dict
  sample: {ok: false, reasons: ["/var/lib/kubelet/cpu_manager_state policy is 'none', wanted 'static'"]}
remove:
  description: Files that must be gone for it to start, or had to.
  returned: success
  type: list
  elements: dict
  sample: [{file: /var/lib/kubelet/cpu_manager_state, reason: "policy is 'none', wanted 'static'"}]
containers:
  description:
    - What has CPUs of its own in the CPU manager's file, and whether it is alive, V(null) where that cannot be told. An entry of a container that is gone
      keeps its CPUs from others until the kubelet starts.
    - Of a file that cannot be used, the containers that may have some.
  returned: success
  type: list
  elements: dict
  sample: [{pod: 0a1b2c3d-0a1b-0a1b-0a1b-0a1b2c3d4e5f, container: server, cpus: 4-7, alive: false}]
saved:
  description: Copies that were kept, or would be.
  returned: success, with O(state=consistent)
  type: list
  elements: str
  sample: [/var/lib/inferops-locality/saved/cpu_manager_state.20261130T021500Z]
"""

import os
from typing import Any, Dict

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.inferops.locality.plugins.module_utils import kubelet_cpu_state
from ansible_collections.inferops.locality.plugins.module_utils.node_files import FilesError
from ansible_collections.inferops.locality.plugins.module_utils.sysroot import SysRoot


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "root_dir": {"type": "path"},
            "wanted": {"type": "dict"},
            "state": {"type": "str", "choices": ["read", "consistent"], "default": "read"},
            "force": {"type": "bool", "default": False},
            "foretell": {"type": "bool", "default": False},
            "root": {"type": "path", "default": "/"},
        },
        supports_check_mode=True,
    )
    root, root_dir, wanted = module.params["root"], module.params["root_dir"], module.params["wanted"]
    wrong = [] if os.path.isdir(root) else [f"root: '{root}' is not a directory"]
    if root_dir is not None and (not root_dir.startswith("/") or root_dir.startswith("//") or os.path.normpath(root_dir) != root_dir.rstrip("/")):
        wrong.append(f"root_dir: found '{root_dir}', wanted an absolute path without '..' and double slashes")
    wrong += kubelet_cpu_state.check(wanted or {})
    if wrong:
        module.fail_json(msg="; ".join(wrong))
    sysroot = SysRoot(root)
    found = kubelet_cpu_state.look(sysroot, root_dir, wanted)
    result: Dict[str, Any] = {"changed": False, **found.result()}
    if module.params["state"] == "read":
        module.exit_json(**result)
    foretold = module.check_mode and module.params["foretell"]
    refused = [] if foretold else kubelet_cpu_state.refusal(sysroot, found, module.params["force"])
    if refused:
        module.fail_json(msg="nothing was removed: " + "; ".join(refused), **result)
    try:
        files = kubelet_cpu_state.removal(sysroot, found)
        result.update(changed=bool(files.changed()), saved=kubelet_cpu_state.saved(files))
        if module._diff:
            result["diff"] = files.diff()
        if not module.check_mode:
            kubelet_cpu_state.remove(sysroot, found, files)
    except (FilesError, kubelet_cpu_state.CheckpointError) as error:
        result.pop("diff", None)
        left = error.left if isinstance(error, FilesError) else ()
        module.fail_json(msg=str(error) if left else f"{error}. Both files are as before", **{**result, "changed": bool(left)})
    if sysroot.live and not module.check_mode:
        for path in result["saved"]:
            module.set_default_selinux_context(path, False)
    module.exit_json(**result)


if __name__ == "__main__":
    main()
