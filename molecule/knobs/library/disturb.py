# Copyright (c) 2026 The inferops.locality authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs commands on the node, one after the other, and reads the node's state after each: many checks for one connection."""

from __future__ import annotations

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.inferops.locality.plugins.module_utils.state import read_state
from ansible_collections.inferops.locality.plugins.module_utils.sysroot import SysRoot


def main() -> None:
    """Returns ``states``, one for each command."""
    module = AnsibleModule({"commands": {"type": "list", "elements": "str", "required": True}})
    states = []
    for command in module.params["commands"]:
        code, out, err = module.run_command(["/bin/sh", "-euc", command])
        if code:
            module.fail_json(msg=f"{command}: exit status {code}: {out}{err}")
        states.append(read_state(SysRoot("/")))
    module.exit_json(changed=True, states=states)


if __name__ == "__main__":
    main()
