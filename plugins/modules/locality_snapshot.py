#!/usr/bin/python

# Copyright (c) 2026 The inferops.locality authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: locality_snapshot
short_description: Put what the facts modules read from a node into one archive
version_added: 0.1.0
description:
  - Collects exactly the files that M(inferops.locality.numa_topology) and M(inferops.locality.locality_state) read on the node, and the
    answers of the commands they ask, into one archive on the node.
  - Both modules, run with O(root) set to the unpacked archive, return the facts of the node, for planning without the node and for bug reports.
  - Configuration is cut to the lines these modules read, each on its own line number. Of RKE2's configuration only the values of
    listed keys are taken, so that tokens never leave the node; comments are dropped. Of other files, values named like
    secrets are masked.
  - Only root may read all files. What could not be read stands in the archive's manifest.
options:
  root:
    description: Directory in which the machine's C(/) lies. Another directory than V(/) is a snapshot, an image or a tree on paper.
    type: path
    default: /
  dest:
    description:
      - Path of the archive (tar, compressed with gzip) on the node. Its folder must be there.
      - It belongs to the user that runs the module, and nobody else may read it.
    type: path
    required: true
  anonymize:
    description:
      - Replace hardware and network addresses, host names, UUIDs, disk names and serial numbers; the same one by the same one everywhere.
      - The kubelet's checkpoint files stay as they are, since a checksum covers them. They hold the IDs of pods and names of containers.
    type: bool
    default: false
attributes:
  check_mode:
    support: full
    description: Can run in check mode, says what would be collected and writes nothing.
  diff_mode:
    support: none
    description: Returns details on what has changed, or would change in check mode. An archive of counters has no useful difference.
  idempotent:
    support: partial
    description: Writes nothing if the archive is there with the same content. On a running node counters differ from one reading to the next.
author:
  - The inferops.locality authors (@inferops)
seealso:
  - module: inferops.locality.numa_topology
  - module: inferops.locality.locality_state
"""

EXAMPLES = r"""
- name: Collect what the facts modules read
  inferops.locality.locality_snapshot:
    dest: /root/locality-snapshot.tar.gz

- name: Collect for a public bug report
  inferops.locality.locality_snapshot:
    dest: /root/locality-snapshot.tar.gz
    anonymize: true
"""

RETURN = r"""
dest:
  description: Path of the archive.
  returned: success
  type: str
  sample: /root/locality-snapshot.tar.gz
size:
  description: Size of the archive in bytes.
  returned: success
  type: int
  sample: 84213
files:
  description: Paths of all files in the archive, as on the node.
  returned: success
  type: list
  elements: str
  sample: [/proc/cmdline, /sys/devices/system/cpu/online]
left_out:
  description: Files of which a part was left out, with the reason.
  returned: success
  type: list
  elements: dict
  contains:
    file:
      description: Path on the node.
      type: str
      sample: /etc/rancher/rke2/config.yaml
    reason:
      description: What was left out.
      type: str
      sample: comments, and values of keys outside the whitelist
unreadable:
  description: Files that are there and could not be read, with the reason.
  returned: success
  type: dict
  sample: {"/boot/grub/grub.cfg": "cannot be read: Permission denied"}
"""

import os
import tempfile

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.inferops.locality.plugins.module_utils import snapshot


def _write(dest: str, archive: bytes) -> None:
    """Write beside the destination, readable by the owner only, and rename."""
    handle, temporary = tempfile.mkstemp(dir=os.path.dirname(dest), prefix=".locality-snapshot-")
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(archive)
        os.replace(temporary, dest)
    except BaseException:
        os.unlink(temporary)
        raise


def _same(dest: str, archive: bytes) -> bool:
    try:
        with open(dest, "rb") as stream:
            return os.fstat(stream.fileno()).st_mode & 0o777 == 0o600 and stream.read(len(archive) + 1) == archive
    except OSError:
        return False


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "root": {"type": "path", "default": "/"},
            "dest": {"type": "path", "required": True},
            "anonymize": {"type": "bool", "default": False},
        },
        supports_check_mode=True,
    )
    root: str = module.params["root"]
    dest = os.path.abspath(module.params["dest"])
    if not os.path.isdir(root):
        module.fail_json(msg=f"root: found '{root}', wanted a directory that can be read")
    if os.path.isdir(dest):
        module.fail_json(msg=f"dest: '{dest}' is a directory, wanted the path of a file")
    if not os.path.isdir(os.path.dirname(dest)):
        module.fail_json(msg=f"dest: the folder '{os.path.dirname(dest)}' does not exist")
    collected = snapshot.collect(root, module.params["anonymize"])
    archive = snapshot.pack(collected, module.params["anonymize"])
    changed = not _same(dest, archive)
    if changed and not module.check_mode:
        try:
            _write(dest, archive)
        except OSError as error:
            module.fail_json(msg=f"dest: '{dest}' cannot be written: {error.strerror}")
    module.exit_json(
        changed=changed, dest=dest, size=len(archive), files=sorted(collected.files), left_out=collected.left_out,
        unreadable=collected.unreadable,
    )


if __name__ == "__main__":
    main()
