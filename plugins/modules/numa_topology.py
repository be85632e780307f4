#!/usr/bin/python

# Copyright (c) 2026 The inferops.locality authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: numa_topology
short_description: Report CPUs, NUMA nodes, PCI devices and their relations
version_added: 0.1.0
description:
  - Reads from sysfs and procfs what a machine is, and returns it as the fact RV(ansible_facts.numa_topology).
  - Nothing is guessed. What the machine does not state is V(null); a file that is there and makes no sense is V(null) and stands
    in RV(ansible_facts.numa_topology.problems).
  - Runs without privileges. What only root may read becomes V(null) with a problem.
options:
  root:
    description:
      - Directory in which the machine's C(/) lies. Another directory than V(/) is a snapshot, an image or a tree on paper.
      - Symbolic links are followed below it only.
    type: path
    default: /
attributes:
  check_mode:
    support: full
    description: Can run in check mode and return the same facts, since it only reads.
  diff_mode:
    support: none
    description: Returns details on what has changed, or would change in check mode. This module changes nothing.
  facts:
    support: full
    description: Returns RV(ansible_facts), which are added to the host's facts.
  idempotent:
    support: full
    description: Changes nothing, so a second run changes nothing either.
author:
  - The inferops.locality authors (@inferops)
"""

EXAMPLES = r"""
- name: Read the topology of the node
  inferops.locality.numa_topology:

- name: Show the NICs near each GPU
  ansible.builtin.debug:
    msg: "{{ ansible_facts.numa_topology.relations }}"

- name: Read the topology from a snapshot on the controller
  inferops.locality.numa_topology:
    root: /srv/snapshots/gpu-node-1
  delegate_to: localhost
"""

RETURN = r"""
ansible_facts:
  description: Facts to add to the host.
  returned: success
  type: dict
  contains:
    numa_topology:
      description: What the machine is. CPU lists are sorted and without blanks, for example V(0-1,64-65).
      returned: success
      type: dict
      contains:
        cpus:
          description: CPU lists of the whole machine; each is V(null) where the kernel does not state it.
          returned: success
          type: dict
          sample: {possible: 0-127, present: 0-127, online: 0-127, offline: "", threads_per_core: 2, smt: "on"}
          contains:
            possible:
              description: CPUs that the kernel could bring up.
              returned: success
              type: str
              sample: 0-127
            present:
              description: CPUs that are there.
              returned: success
              type: str
              sample: 0-127
            online:
              description: CPUs that are in use.
              returned: success
              type: str
              sample: 0-127
            offline:
              description: CPUs that the kernel lists as offline; these may be possible and not present.
              returned: success
              type: str
              sample: ""
            threads_per_core:
              description: Online CPUs of the core that has most of them; V(null) where nothing tells the cores.
              returned: success
              type: int
              sample: 2
            smt:
              description: State of simultaneous multithreading, one of V(on), V(off), V(forceoff), V(notsupported), V(unknown).
              returned: success
              type: str
              sample: "on"
        sockets:
          description: Processor packages with their online CPUs; empty where the machine does not number them.
          returned: success
          type: list
          elements: dict
          sample: [{id: 0, cpus: "0-31,64-95", numa_nodes: [0]}]
          contains:
            id:
              description: The kernel's number of the package.
              returned: success
              type: int
              sample: 0
            cpus:
              description: Online CPUs of the package.
              returned: success
              type: str
              sample: 0-31,64-95
            numa_nodes:
              description: NUMA nodes of these CPUs.
              returned: success
              type: list
              elements: int
              sample: [0]
        numa_nodes:
          description: NUMA nodes, also those without CPUs; empty where the kernel shows none.
          returned: success
          type: list
          elements: dict
          sample:
            - id: 0
              cpus: 0-31,64-95
              memory_bytes: 549755813888
              distances: {"0": 10, "1": 21}
              hugepages: {"2Mi": {total: 0, free: 0}, "1Gi": {total: 16, free: 16}}
          contains:
            id:
              description: The kernel's number of the node.
              returned: success
              type: int
              sample: 0
            cpus:
              description: Online CPUs of the node; empty for a node of memory only, V(null) where not known.
              returned: success
              type: str
              sample: 0-31,64-95
            memory_bytes:
              description: Memory of the node; V(null) where not known.
              returned: success
              type: int
              sample: 549755813888
            distances:
              description: Distance to each online node, by node id; V(null) where not known.
              returned: success
              type: dict
              sample: {"0": 10, "1": 21}
            hugepages:
              description: Huge pages of each size the node knows, with their C(total) and C(free) number.
              returned: success
              type: dict
              sample: {"1Gi": {total: 16, free: 16}}
        cores:
          description: Physical cores with their online CPUs.
          returned: success
          type: list
          elements: dict
          sample: [{id: 0, socket: 0, numa_node: 0, cpus: "0,64"}]
          contains:
            id:
              description: The lowest CPU of the core.
              returned: success
              type: int
              sample: 0
            socket:
              description: Package of the core; V(null) where not known.
              returned: success
              type: int
              sample: 0
            numa_node:
              description: NUMA node of the core; V(null) where none or several nodes claim it.
              returned: success
              type: int
              sample: 0
            cpus:
              description: Online CPUs of the core.
              returned: success
              type: str
              sample: 0,64
        devices:
          description: GPUs, accelerators, network, RDMA and NVMe functions on PCI, by address.
          returned: success
          type: list
          elements: dict
          sample:
            - address: "0000:1a:00.0"
              kind: nic
              class: "0x020000"
              vendor: "0x15b3"
              device: "0x1021"
              driver: mlx5_core
              numa_node: 0
              pcie_root: pci0000:15
              path: ["0000:15:01.0", "0000:16:00.0", "0000:17:02.0"]
              link: {speed_gts: 32.0, width: 16, max_speed_gts: 32.0, max_width: 16}
              interfaces: [{name: eth0, mac: "02:00:00:00:00:01", speed_mbps: 400000, mtu: 9000}]
              rdma: [mlx5_0]
              physfn:
              iommu_group: 42
              acs: {"0000:15:01.0": {supported: [SV, TB, RR, CR, UF, DT], enabled: [SV, RR, CR, UF]}}
          contains:
            address:
              description: PCI address with its domain, which has four digits or more.
              returned: success
              type: str
              sample: "0000:1a:00.0"
            kind:
              description:
                - One of V(gpu), V(nic), V(rdma), V(nvme), V(accelerator).
                - GPUs are display controllers of NVIDIA, AMD and Intel; functions of class 0x1200 are accelerators, whoever made them.
              returned: success
              type: str
              sample: nic
            class:
              description: PCI class as the kernel prints it.
              returned: success
              type: str
              sample: "0x020000"
            vendor:
              description: PCI vendor as the kernel prints it; V(null) where not known.
              returned: success
              type: str
              sample: "0x15b3"
            device:
              description: PCI device as the kernel prints it; V(null) where not known.
              returned: success
              type: str
              sample: "0x1021"
            driver:
              description: Driver that is bound; V(null) for none.
              returned: success
              type: str
              sample: mlx5_core
            numa_node:
              description: NUMA node that the firmware names; V(null) where it names none.
              returned: success
              type: int
              sample: 0
            pcie_root:
              description: Host bridge, as C(resource.kubernetes.io/pcieRoot) names it; V(null) where the tree does not show it.
              returned: success
              type: str
              sample: pci0000:15
            path:
              description: Bridges from the host bridge down to the device; V(null) where the tree does not show them.
              returned: success
              type: list
              elements: str
              sample: ["0000:15:01.0", "0000:16:00.0", "0000:17:02.0"]
            link:
              description: Link speed in GT/s and width in lanes, now and at most; V(null) for a device without a link.
              returned: success
              type: dict
              sample: {speed_gts: 32.0, width: 16, max_speed_gts: 32.0, max_width: 16}
            interfaces:
              description: Network interfaces; C(speed_mbps) is V(null) while the link is down.
              returned: success
              type: list
              elements: dict
              sample: [{name: eth0, mac: "02:00:00:00:00:01", speed_mbps: 400000, mtu: 9000}]
            rdma:
              description: RDMA devices of the function.
              returned: success
              type: list
              elements: str
              sample: [mlx5_0]
            physfn:
              description: Physical function of a virtual one; V(null) for all others.
              returned: success
              type: str
              sample: "0000:1a:00.0"
            iommu_group:
              description: IOMMU group; V(null) where there is none.
              returned: success
              type: int
              sample: 42
            acs:
              description:
                - Access Control Services of each bridge on the path, the bits it can set (C(supported)) and those set (C(enabled)).
                - A bridge without the capability has none of both; one whose config space only root may read is V(null).
                - V(null) altogether where no bridge could be read.
              returned: success
              type: dict
              sample: {"0000:15:01.0": {supported: [SV, TB, RR, CR, UF, DT], enabled: [SV, RR, CR, UF]}}
        relations:
          description:
            - For each GPU and accelerator, the relation to every other device of RV(ansible_facts.numa_topology.devices), as NVIDIA
              defines them, one of V(PIX), V(PXB), V(PHB), V(NODE), V(SYS); V(null) where the machine does not tell.
          returned: success
          type: dict
          sample: {"0000:18:00.0": {"0000:1a:00.0": PIX, "0000:9a:00.0": SYS}}
        kernel:
          description: The running kernel's C(release) and C(command_line).
          returned: success
          type: dict
          sample: {release: 6.12.57+deb13-amd64, command_line: BOOT_IMAGE=/boot/vmlinuz-6.12.57+deb13-amd64 root=/dev/sda2 ro quiet}
        problems:
          description: Files that could not be used, and contradictions, each with C(file) and C(reason).
          returned: success
          type: list
          elements: dict
          sample: [{file: /sys/devices/system/cpu/online, reason: "'x' in CPU list 'x' is neither a number nor a range"}]
"""

import os

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.inferops.locality.plugins.module_utils.sysroot import SysRoot
from ansible_collections.inferops.locality.plugins.module_utils.topology import read_topology


def main() -> None:
    module = AnsibleModule(argument_spec={"root": {"type": "path", "default": "/"}}, supports_check_mode=True)
    root: str = module.params["root"]
    if not os.path.isdir(root):
        module.fail_json(msg=f"root: '{root}' is not a directory" if os.path.lexists(root) else f"root: '{root}' does not exist")
    if not os.access(root, os.R_OK | os.X_OK):
        module.fail_json(msg=f"root: '{root}' may not be read by this user")
    module.exit_json(changed=False, ansible_facts={"numa_topology": read_topology(SysRoot(root)).to_facts()})


if __name__ == "__main__":
    main()
