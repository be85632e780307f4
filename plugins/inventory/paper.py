# Copyright (c) 2026 The inferops.locality authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Inventory of nodes on paper: each description file is one host, whose files are built when they are first asked for."""

from __future__ import annotations

DOCUMENTATION = r"""
name: paper
short_description: Nodes on paper, built from a description
version_added: 0.1.0
author:
  - The inferops.locality authors (@inferops)
description:
  - Reads one description of a machine (CPUs, NUMA nodes, PCI devices, files) and adds it as one host.
  - Its files are written below O(trees) unless they are there already; C(locality_root) of the host names them.
    Roles and modules of this collection then work on those files, without a machine and without being root.
  - The host goes into the group C(chassis_<chassis>), as a real node would. It is reached by a local connection
    with the controller's own Python.
  - All other keys of the file are the description itself; C(plugins/plugin_utils/paper.py) lists them.
options:
  plugin:
    description: Makes the file an inventory source of this plugin.
    required: true
    choices: [inferops.locality.paper]
  chassis:
    description: Hardware model, the second half of the group's name.
    required: true
    type: str
  host:
    description: Name of the host. The default is the file's name without its extension.
    type: str
  trees:
    description:
      - Folder in which the nodes' files are built, each in a folder of its host's name. A relative path counts from the description.
      - A tree that is there is left as it is; remove it to have it built again.
    type: str
    default: ../.nodes
    env:
      - name: LOCALITY_PAPER_TREES
"""

EXAMPLES = r"""
# inventories/demo/nodes/small.yml: host "small" in group chassis_small
plugin: inferops.locality.paper
chassis: small
cpus: {sockets: 2, cores_per_numa: 4, threads: 2}
numa:
  "0": {memory: 32Gi}
  "1": {memory: 32Gi}
files:
  /etc/os-release: |
    ID=debian
    VERSION_ID="13"
"""

import os
import re
import shutil
import sys
import tempfile
from typing import Any

from ansible.errors import AnsibleParserError
from ansible.plugins.inventory import BaseInventoryPlugin

from ansible_collections.inferops.locality.plugins.plugin_utils import paper

_GROUP = re.compile(r"[A-Za-z0-9_]+\Z")
_HOST = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*\Z")


class InventoryModule(BaseInventoryPlugin):
    """One description is one host."""

    NAME = "inferops.locality.paper"

    def verify_file(self, path: str) -> bool:
        """Only YAML files are descriptions."""
        return super().verify_file(path) and path.endswith((".yml", ".yaml"))

    def parse(self, inventory: Any, loader: Any, path: str, cache: bool = True) -> None:
        """Add the host; build its files if they are absent."""
        super().parse(inventory, loader, path, cache)
        self._read_config_data(path)
        try:
            description = paper.load(path)
        except ValueError as error:
            raise AnsibleParserError(str(error)) from error
        host = self.get_option("host") or os.path.splitext(os.path.basename(path))[0]
        if not _HOST.match(host):
            raise AnsibleParserError(f"{path}: host '{host}' is not a host name")
        chassis = self.get_option("chassis")
        if not _GROUP.match(chassis):
            raise AnsibleParserError(f"{path}: chassis '{chassis}' cannot end a group's name: letters, digits and _ can")
        trees = os.path.join(os.path.dirname(os.path.abspath(path)), self.get_option("trees"))
        tree = os.path.normpath(os.path.join(trees, host))
        try:
            _build(description, tree)
        except (OSError, ValueError) as error:
            raise AnsibleParserError(f"{path}: the files of {host} cannot be built at {tree} (option trees): {error}") from error

        group = inventory.add_group(f"chassis_{chassis}")
        inventory.add_host(host, group=group)
        inventory.set_variable(host, "ansible_connection", "local")
        inventory.set_variable(host, "ansible_python_interpreter", sys.executable)
        inventory.set_variable(host, "locality_root", tree)


def _build(description: dict[str, Any], tree: str) -> None:
    """Build aside and rename: several processes may read the inventory at once, and one that is killed leaves no half tree."""
    if os.path.isdir(tree):
        return
    os.makedirs(os.path.dirname(tree), exist_ok=True)
    aside = tempfile.mkdtemp(prefix=".building-", dir=os.path.dirname(tree))
    try:
        built = os.path.join(aside, "node")
        paper.build(description, built)
        try:
            os.rename(built, tree)
        except OSError:
            # Another process was faster; its tree is the same.
            if not os.path.isdir(tree):
                raise
    finally:
        shutil.rmtree(aside, ignore_errors=True)
