# Copyright (c) 2026 The inferops.locality authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: runtime
short_description: Pack the program that acts on a node at boot
version_added: 0.1.0
author:
  - The inferops.locality authors (@inferops)
description:
  - Packs the part of this collection that has to run on a node without Ansible into one archive that Python can run, and returns
    its path on the controller. The role P(inferops.locality.irq_affinity#role) copies it to the node.
  - The same version of the collection gives the same archive, byte for byte, on every controller.
  - On the node C(locality.pyz irq) brings interrupts and queues to what C(/etc/inferops-locality/irq.json) says, C(locality.pyz irq
    --check) says what differs, and C(locality.pyz version) prints the version.
options:
  _terms:
    description: There are no terms.
    required: false
notes:
  - The archive lies in a folder of this run, which is removed at its end.
"""

EXAMPLES = r"""
- name: Show the version that would be brought to a node
  ansible.builtin.debug:
    msg: "{{ lookup('inferops.locality.runtime').version }}"

- name: Bring the program to the node
  ansible.builtin.copy:
    src: "{{ lookup('inferops.locality.runtime').path }}"
    dest: /usr/local/libexec/inferops-locality/locality.pyz
    mode: "0755"
"""

RETURN = r"""
_list:
  description: One entry.
  type: list
  elements: dict
  contains:
    path:
      description: Path of the archive on the controller.
      type: str
      sample: /root/.ansible/tmp/ansible-local-4711abcd/locality-0.1.0+0a1b2c3d4e5f.pyz
    version:
      description: Version of the collection and the first 12 digits of the hash of the archive's content.
      type: str
      sample: 0.1.0+0a1b2c3d4e5f
"""

from typing import Any

from ansible import constants as C
from ansible.errors import AnsibleLookupError
from ansible.plugins.lookup import LookupBase

from ansible_collections.inferops.locality.plugins.plugin_utils import runtime


class LookupModule(LookupBase):
    """Packs the program and returns where it lies."""

    def run(self, terms: list[Any], variables: Any = None, **kwargs: Any) -> list[dict[str, str]]:
        if terms:
            raise AnsibleLookupError(f"inferops.locality.runtime: takes no terms, found {len(terms)}")
        try:
            path, version = runtime.write(C.DEFAULT_LOCAL_TMP)
        except OSError as error:
            raise AnsibleLookupError(f"inferops.locality.runtime: the archive cannot be written: {error}") from error
        return [{"path": str(path), "version": version}]
