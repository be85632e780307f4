#!/usr/bin/python

# Copyright (c) 2026 The inferops.locality authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: host_settings
short_description: Bring the running side of the host layer to its files, and back
version_added: 0.1.0
description:
  - Compares what runs with what is wanted, and has the system's own tools read the files of the role P(inferops.locality.host_tuning#role) where it
    differs. C(systemd-sysctl) and C(systemd-tmpfiles) are given our file alone, so that nobody else's settings are applied again.
  - Slices take their CPUs with C(systemctl daemon-reload). irqbalance is stopped or restarted. The profile of tuned is activated and verified.
  - What was found before the first change is saved in C(/var/lib/inferops-locality/host.json), once for each knob. It is put back when the knob is no
    longer among O(knobs).
  - Boot arguments are the business of M(inferops.locality.kernel_args), and limits of RKE2's unit of whoever restarts it.
options:
  knobs:
    description:
      - Knob to its wanted value, as in RV(inferops.locality.locality_plan#module:plan). Knobs that this module has nothing to do with are not looked at.
      - An empty one puts everything back.
    type: dict
    default: {}
  step:
    description:
      - V(save) saves what O(knobs) are now, those that were saved before apart. To be done before the first file is written.
      - V(activate) brings what runs to O(knobs).
    type: str
    choices: [save, activate]
    default: activate
  reload:
    description: Whether unit files were written, which systemd has to read.
    type: bool
    default: false
  root:
    description:
      - Directory in which the machine's C(/) lies. Below another directory than V(/) nothing runs, so that only the mask of irqbalance and the files of
        tuned are saved and put back.
    type: path
    default: /
attributes:
  check_mode:
    support: full
    description: Can run in check mode and return what would be done.
  diff_mode:
    support: full
    description: Returns each setting before and after.
  idempotent:
    support: full
    description: A second run with the same options changes nothing.
author:
  - The inferops.locality authors (@inferops)
seealso:
  - module: inferops.locality.kernel_args
  - module: inferops.locality.locality_plan
"""

EXAMPLES = r"""
- name: Save what is going to be changed
  inferops.locality.host_settings:
    knobs: "{{ planned.plan.knobs }}"
    step: save

- name: Bring what runs to the plan
  inferops.locality.host_settings:
    knobs: "{{ planned.plan.knobs }}"

- name: Put everything back
  inferops.locality.host_settings:
    knobs: {}
"""

RETURN = r"""
saved:
  description: Knobs whose value was saved in this run, or would be.
  returned: success, with O(step=save)
  type: list
  elements: str
  sample: [vm.swappiness]
settings:
  description: Knobs that were not as wanted. In check mode C(after) is what is wanted.
  returned: with O(step=activate)
  type: list
  elements: dict
  sample: [{knob: vm.swappiness, before: 60, after: 0, wanted: 0}]
restored:
  description: What was put back, or would be, one line for each thing.
  returned: with O(step=activate)
  type: list
  elements: str
  sample: ["/proc/sys/vm/swappiness: 60"]
commands:
  description: Commands that were run, or would be.
  returned: with O(step=activate)
  type: list
  elements: str
  sample: ["/usr/lib/systemd/systemd-sysctl /etc/sysctl.d/90-inferops-locality.conf"]
"""

import os
from typing import Any, Dict, Sequence, Tuple

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.inferops.locality.plugins.module_utils import host_settings
from ansible_collections.inferops.locality.plugins.module_utils.sysroot import SysRoot


def _diff(outcome: host_settings.Outcome) -> Dict[str, str]:
    before = [f"{item['knob']}: {item['before']}\n" for item in outcome.settings]
    after = [f"{item['knob']}: {item['after']}\n" for item in outcome.settings] + [f"put back: {line}\n" for line in outcome.restored]
    return {"before_header": "running settings", "after_header": "running settings", "before": "".join(before), "after": "".join(after)}


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "knobs": {"type": "dict", "default": {}},
            "step": {"type": "str", "choices": ["save", "activate"], "default": "activate"},
            "reload": {"type": "bool", "default": False},
            "root": {"type": "path", "default": "/"},
        },
        supports_check_mode=True,
    )

    def run(argv: Sequence[str]) -> Tuple[int, str, str]:
        path = argv[0] if os.path.isabs(argv[0]) else module.get_bin_path(argv[0], opt_dirs=["/usr/sbin", "/sbin"])
        if path is None:
            return 127, "", f"{argv[0]} is not on this node"
        rc, out, err = module.run_command([path, *argv[1:]], environ_update={"LC_ALL": "C", "LANG": "C"})
        return rc, out, err

    root: str = module.params["root"]
    if not os.path.isdir(root):
        module.fail_json(msg=f"root: '{root}' is not a directory")
    sysroot, wanted = SysRoot(root), module.params["knobs"]
    try:
        if module.params["step"] == "save":
            saved = host_settings.save(sysroot, wanted, module.check_mode)
            module.exit_json(changed=bool(saved), saved=saved)
        outcome = host_settings.apply(sysroot, run, wanted, module.params["reload"], module.check_mode)
    except host_settings.SettingsError as error:
        module.fail_json(msg=f"{error}: nothing was changed")
    result: Dict[str, Any] = {"changed": outcome.changed, "settings": outcome.settings, "restored": outcome.restored, "commands": outcome.commands}
    if module._diff:
        result["diff"] = _diff(outcome)
    if outcome.failed:
        module.fail_json(msg="; ".join(outcome.failed), **result)
    module.exit_json(**result)


if __name__ == "__main__":
    main()
