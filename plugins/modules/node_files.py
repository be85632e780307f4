#!/usr/bin/python

# Copyright (c) 2026 The inferops.locality authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: node_files
short_description: Write the files of a role in one step
version_added: 0.1.0
description:
  - Brings files and links of a node to what is listed, all of them or none, and makes the folders they lie in. What cannot be done is told for all files
    before the first is written, such as a file where a folder is wanted or a file system that is mounted read-only; if one cannot be written nevertheless,
    those before it are put back, and folders that were made for them are removed. The message names any that could not be put back.
  - Each file is whole at any moment; it is written beside its place, forced to the disk and renamed.
  - Below another root than V(/) no link is followed out of it.
options:
  files:
    description: The files. Each path may stand once.
    type: list
    elements: dict
    required: true
    suboptions:
      path:
        description: Absolute path on the node. None may lie below another, nor two be the same file by way of a link.
        type: str
        required: true
      content:
        description: What is in the file. Without it, O(files[].link) and O(files[].unlink), nothing is to be at the path.
        type: str
      link:
        description:
          - Target of the symbolic link that is to be here, as it is written in the link. It need not exist.
          - A file of somebody else in its place is an error.
        type: str
      unlink:
        description: Target of a symbolic link that is not to be here. Whatever else is at the path stays.
        type: str
      mode:
        description: Permission bits of the file, in octal.
        type: str
        default: "0644"
  root:
    description: Directory in which the machine's C(/) lies.
    type: path
    default: /
attributes:
  check_mode:
    support: full
    description: Can run in check mode and return what would be written.
  diff_mode:
    support: full
    description: Returns each file before and after, with its mode.
  idempotent:
    support: full
    description: A second run with the same options changes nothing.
author:
  - The inferops.locality authors (@inferops)
seealso:
  - module: ansible.builtin.template
"""

EXAMPLES = r"""
- name: Write a sysctl, enable a unit, remove an old file
  inferops.locality.node_files:
    files:
      - path: /etc/sysctl.d/90-example.conf
        content: "{{ lookup('ansible.builtin.template', 'sysctl.conf.j2') }}"
      - path: /etc/systemd/system/multi-user.target.wants/example.service
        link: ../example.service
      - path: /etc/sysctl.d/80-example.conf

- name: Unmask a unit, and leave a unit file of somebody else where it is
  inferops.locality.node_files:
    files:
      - path: /etc/systemd/system/irqbalance.service
        unlink: /dev/null
"""

RETURN = r"""
paths:
  description: Paths that were changed, or would be.
  returned: success
  type: list
  elements: str
  sample: [/etc/sysctl.d/90-example.conf]
"""

import os
from typing import Any, Dict

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.inferops.locality.plugins.module_utils import node_files
from ansible_collections.inferops.locality.plugins.module_utils.sysroot import SysRoot


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "files": {
                "type": "list", "elements": "dict", "required": True,
                "options": {
                    "path": {"type": "str", "required": True},
                    "content": {"type": "str"},
                    "link": {"type": "str"},
                    "unlink": {"type": "str"},
                    "mode": {"type": "str", "default": "0644"},
                },
            },
            "root": {"type": "path", "default": "/"},
        },
        supports_check_mode=True,
    )
    root: str = module.params["root"]
    if not os.path.isdir(root):
        module.fail_json(msg=f"root: '{root}' is not a directory")
    sysroot = SysRoot(root)
    files = node_files.Files(sysroot)
    try:
        node_files.decide(files, module.params["files"])
    except node_files.FilesError as error:
        module.fail_json(msg=f"nothing was written: {error}")
    result: Dict[str, Any] = {"changed": bool(files.changed()), "paths": files.changed()}
    if module._diff:
        result["diff"] = files.diff()
    if not module.check_mode:
        try:
            files.apply()
        except node_files.FilesError as error:
            module.fail_json(msg=str(error) if error.left else f"{error}. All files are as before")
        if sysroot.live:
            # What was removed has no label, and asking for one fails.
            for path in files.present():
                module.set_default_selinux_context(path, False)
    module.exit_json(**result)


if __name__ == "__main__":
    main()
