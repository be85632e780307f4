#!/usr/bin/python

# Copyright (c) 2026 The inferops.locality authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: locality_state
short_description: Report what a node is set to, running and configured, and what its software can do
version_added: 0.1.0
description:
  - Reads in one run, and returns as the fact RV(ansible_facts.locality_state), every setting that this collection manages.
    Each has up to two sides, what is running now and what is configured to come back at the next boot or start.
  - Reports the platform too, and with file and line every place outside the collection's own files that sets the same things.
  - On the live node the kernel's configured arguments are those of the entry that boots next. Below another root they are
    evaluated from C(/etc/default/grub) and C(/etc/default/grub.d), which the entries are made from.
  - Of RKE2's configuration only listed keys leave the node. Its tokens, servers and registries never do, and values of kernel
    arguments whose names say that they are secret are masked.
  - On a live node with CPUs that are isolated from the scheduler's balancing it watches for under a second whether threads pile up on one of them.
  - Runs without privileges. What only root may read is left out, with an entry in RV(ansible_facts.locality_state.problems).
options:
  root:
    description:
      - Directory in which the machine's C(/) lies. Another directory than V(/) is a snapshot, an image or a tree on paper.
      - Symbolic links are followed below it only.
    type: path
    default: /
  softirq_interval:
    description:
      - Seconds over which RV(ansible_facts.locality_state.softirqs) is counted, and by which the module takes longer. With V(0) it is what was
        counted since the boot, which hides what was changed since.
      - Ignored below another root than V(/), where nothing counts.
    type: float
    default: 0
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
- name: Read what the node is set to
  inferops.locality.locality_state:

- name: Show what others have set
  ansible.builtin.debug:
    msg: "{{ ansible_facts.locality_state.foreign }}"

- name: Read the state from a snapshot on the controller
  inferops.locality.locality_state:
    root: /srv/snapshots/gpu-node-1
  delegate_to: localhost
"""

RETURN = r"""
ansible_facts:
  description: Facts to add to the host.
  returned: success
  type: dict
  contains:
    locality_state:
      description: State and platform of the node.
      returned: success
      type: dict
      contains:
        platform:
          description: What the software of the node can do.
          returned: success
          type: dict
          contains:
            distribution:
              description: Fields of C(os-release), with C(ID_LIKE) as C(like).
              returned: success
              type: dict
              sample: {id: debian, version_id: "13", pretty_name: Debian GNU/Linux 13 (trixie), like: []}
            supported:
              description: Whether this version of the collection supports the node.
              returned: success
              type: bool
              sample: true
            unsupported_reason:
              description: Every reason why it does not, or V(null).
              returned: success
              type: str
              sample: "Rocky Linux 8.10: supported are Debian 12 and 13, Ubuntu 22.04 and 24.04, the RHEL family 9 and 10, and SLES 15 SP6 or newer"
            kernel:
              description: Release of the running kernel.
              returned: success
              type: str
              sample: 6.12.57+deb13-amd64
            machine_id:
              description: Content of C(/etc/machine-id), by which a Node of the cluster is told from another machine's.
              returned: success
              type: str
              sample: 7d1f0e6a6a0b4c0d9c3f5b1e2a4c6d8e
            cpu_vendor:
              description: Vendor as C(/proc/cpuinfo) names it.
              returned: success
              type: str
              sample: GenuineIntel
            interpreter:
              description: The Python that the program at boot runs with, 3.9 or newer of the distribution itself.
              returned: success
              type: str
              sample: /usr/bin/python3
            python:
              description: Version of the Python that modules run with. Below another root the one that is installed there.
              returned: success
              type: str
              sample: 3.13.5
            boot_loader:
              description:
                - C(kind) is one of V(grub-drop-in), V(grub-default), V(bls), V(systemd-boot) and V(unknown).
                - C(once) tells whether the file system of C(/boot) can take the loader's note back. V(null) where that cannot be told.
                - C(trial) tells whether boot arguments can be tried once on this node, and why not. V(null) below another root.
              returned: success
              type: dict
              sample: {kind: grub-drop-in, drop_in_dir: /etc/default/grub.d, once: true, trial: {possible: true, reason: null}}
            cgroup:
              description: V(v1), V(v2), V(hybrid) or V(null).
              returned: success
              type: str
              sample: v2
            selinux:
              description: V(enforcing), V(permissive), V(disabled) or V(null).
              returned: success
              type: str
              sample: disabled
            features:
              description: What kernel and machine have. V(null) where that cannot be told.
              returned: success
              type: dict
              sample:
                config_acs: true
                hugepages_per_node: true
                nohz_full: true
                cpufreq: true
                cpuidle: true
                thp: true
                numa_balancing: true
                iommu: true
                netkit: true
            tuned:
              description: Whether tuned is installed, its version, where profiles of the operator lie, the active profile, and whether it runs or will.
              returned: success
              type: dict
              sample: {installed: false, version: null, profile_dir: null, active: null, "on": false}
            irqbalance:
              description: Whether irqbalance is installed, and the environment file its unit reads.
              returned: success
              type: dict
              sample: {installed: true, env_file: /etc/default/irqbalance}
            rke2:
              description: What is known of RKE2 without asking the cluster.
              returned: success
              type: dict
              sample:
                role: agent
                version: v1.34.1+rke2r1
                minor: 34
                data_dir: /var/lib/rancher/rke2
                kubelet_root_dir: /var/lib/kubelet
                node_name: gpu-node-1
                units: [rke2-agent.service]
            network:
              description:
                - What a CNI may attach to. C(uplinks) are the interfaces of the default routes with the lowest metric, or V(null) where C(ip) did not say.
                - C(interfaces) are the physical ones without virtual functions, what stands on them, and the uplinks. C(tso_max_size) is the largest
                  packet in bytes that one takes; V(null) where iproute2 before 6.0 or a kernel before 5.19 does not say.
                - C(vxlan) are the VXLAN devices, whoever made them.
              returned: success
              type: dict
              sample:
                uplinks: [eth0]
                interfaces: {eth0: {driver: mlx5_core, physical: true, lower: [], tso_max_size: 524280, gso_ipv4_max_size: 65536}}
                vxlan: []
            nic_queues:
              description:
                - PCI address to the most queues that the NIC can have; V(null) where its driver has no such setting. A NIC that does not say is
                  left out.
              returned: success
              type: dict
              sample: {"0000:18:00.0": 63, "0000:3d:00.0": null}
            virtualization:
              description: Hypervisor as C(systemd-detect-virt) names it, V(none) on hardware, V(null) where that cannot be told.
              returned: success
              type: str
              sample: none
            pcie_ports:
              description: Bridges on the paths of GPUs, NICs and NVMe drives, with the most that the link below each can do.
              returned: success
              type: dict
              sample: {"0000:15:01.0": {vendor: "0x8086", device: "0x352a", max_speed_gts: 32.0, max_width: 16}}
            guests:
              description:
                - What tells that the node runs virtual machines. C(vfio) are PCI functions bound to C(vfio-pci), C(kvm) is the number of
                  users of the kernel's hypervisor, V(null) where that cannot be told.
              returned: success
              type: dict
              sample: {vfio: [], kvm: 0}
        running:
          description:
            - Knob to its value now. A knob that could not be read is left out, V(null) means that it is not set.
            - Values of the PCIe layer are texts by PCI address. One that starts with C(unknown) could not be read and says why. What needs a GPU
              driver that is not there is V(not present).
          returned: success
          type: dict
          sample:
            kernel.isolcpus: managed_irq,2-31
            vm.thp: madvise
            vm.swappiness: 0
            pcie.acs: {"0000:15:01.0": "RR CR", "0000:17:00.0": "off", "0000:16:00.0": "no ACS"}
            pcie.link_width: {"0000:18:00.0": "x16"}
            pcie.link_speed: {"0000:18:00.0": "2.5 GT/s"}
            pcie.aspm: {policy: default, "0000:18:00.0": "off"}
            pcie.relaxed_ordering: {"0000:18:00.0": "on"}
            gpu.nic_relation: {"0000:18:00.0": "PIX"}
            gpu.peermem: dma-buf
            gpu.persistence: "on"
            gpu.gds: not present
        configured:
          description:
            - Knob to what comes back at the next boot or start, with C(path:line) of what decides it.
          returned: success
          type: dict
          sample:
            vm.swappiness: {value: 0, source: "/etc/sysctl.d/90-inferops-locality.conf:3"}
        foreign:
          description: Places outside the collection's files that set a knob.
          returned: success
          type: list
          elements: dict
          sample: [{knob: vm.swappiness, file: /etc/sysctl.d/99-tuning.conf, line: 4, value: "10"}]
        irqs:
          description:
            - Interrupts of NICs, NVMe drives, GPUs and accelerators, and of other devices that the collection places. Lists are CPU lists.
            - C(managed) tells whether the kernel alone places an interrupt. Linux from 6.12 on tells for all; older ones tell only who tries
              to move it, so there it is V(null) for an interrupt that nobody tried to move since the boot.
          returned: success
          type: list
          elements: dict
          sample: [{irq: 120, device: "0000:18:00.0", queue: 0, asked: "0", effective: "0", affinity_hint: null, managed: false}]
        softirqs:
          description:
            - Softirqs C(NET_RX) and C(NET_TX) by CPU, those of an interval of C(seconds). With V(null) there they are counters since the boot,
              which wrap at 32 bits.
          returned: success
          type: dict
          sample: {net_rx: {"0": 1207, "1": 33}, net_tx: {"0": 12, "1": 0}, seconds: 10.0}
        tasks:
          description:
            - What the threads on isolated CPUs do, in cgroups that were busy. V(null) below another root and where it cannot be told.
            - C(piled_up) has the cgroups whose busy threads share one isolated CPU, C(share_percent) of it each on average, although C(idle_cpus) of
              their cpuset C(cpus) have nothing to do. Threads that pinned themselves do not count. C(pod) is the UID of the pod, or V(null).
          returned: success
          type: dict
          sample:
            isolated_at_boot: "2-7"
            isolated_by_partition: ""
            groups: 1
            threads: 4
            piled_up:
              - cgroup: /kubepods.slice/kubepods-pod0a1b2c3d_0a1b_0a1b_0a1b_0a1b2c3d4e5f.slice/cri-containerd-4f2a.scope
                pod: 0a1b2c3d-0a1b-0a1b-0a1b-0a1b2c3d4e5f
                cpus: 2-5
                cpu: 5
                threads: 4
                share_percent: 25
                idle_cpus: 2-4
        cpu_affinity:
          description: C(CPUAffinity=) of systemd itself and of RKE2's units, which pods inherit.
          returned: success
          type: list
          elements: dict
          sample: [{unit: rke2-agent.service, file: /etc/systemd/system/rke2-agent.service.d/pin.conf, line: 2, value: 0-3}]
        kubelet:
          description: What RKE2 hands to the kubelet, the files it comes from with their keys, and the kubelet's checkpoint files.
          returned: success
          type: dict
          contains:
            args:
              description: Flag to its values in order.
              returned: success
              type: dict
              sample: {cpu-manager-policy: [static], reserved-cpus: ["0-1"]}
            args_sources:
              description: The same with file and line.
              returned: success
              type: list
              elements: dict
              sample: [{flag: reserved-cpus, value: "0-1", file: /etc/rancher/rke2/config.yaml, line: 4}]
            files:
              description: Files in the order RKE2 reads them, with the names of their keys.
              returned: success
              type: list
              elements: dict
              sample: [{file: /etc/rancher/rke2/config.yaml, keys: [token, kubelet-arg]}]
            state_files:
              description:
                - What the kubelet's checkpoint files hold, and whether it would start with them as it is configured.
                - C(valid) is V(null) where there is no file or that cannot be told, C(content) where the file cannot be used.
              returned: success
              type: dict
              sample:
                cpu:
                  file: /var/lib/kubelet/cpu_manager_state
                  exists: true
                  policy: static
                  valid: true
                  reason: null
                  format: v2
                  entries: 1
                  content: {default: "0-3,8-63", entries: {0a1b2c3d-0a1b-0a1b-0a1b-0a1b2c3d4e5f: {server: "4-7"}}, pods: {}}
                memory:
                  file: /var/lib/kubelet/memory_manager_state
                  exists: false
                  policy: null
                  valid: null
                  reason: null
                  format: null
                  entries: 0
                  content: null
            machine:
              description:
                - What the kubelet compares them with, the sizes of NUMA nodes in bytes, and the feature gates that RKE2's files set for it.
                  V(null) where it cannot be read.
              returned: success
              type: dict
              sample: {online: 0-63, numa_nodes: {"0": {memory: 67108864000, hugepages-1Gi: 17179869184, hugepages-2Mi: 0}}, gates: {}}
            runs:
              description:
                - Whether RKE2's unit and its kubelet run. V(null) where that cannot be read.
                - C(left) is whether a run of this collection stopped the unit and did not start it again.
              returned: success
              type: dict
              sample: {unit: true, kubelet: true, left: false}
        boot:
          description: The kernel's command line, secrets masked.
          returned: success
          type: dict
          contains:
            command_line:
              description: Of the running kernel.
              returned: success
              type: str
              sample: BOOT_IMAGE=/boot/vmlinuz-6.12.57 root=/dev/sda2 ro quiet
            next_boot:
              description: Arguments of the next boot, the entry and the file they come from. V(null) where they cannot be told.
              returned: success
              type: dict
              sample: {entry: gnulinux-simple-0a1b, args: [ro, quiet], source: "/boot/grub/grub.cfg:131"}
            duplicates:
              description: Arguments given more than once where only one counts.
              returned: success
              type: list
              elements: str
              sample: [isolcpus]
            ignored:
              description: Arguments that the kernel drops, with the reason.
              returned: success
              type: list
              elements: dict
              sample: [{token: "nohz_full=", reason: "names no CPUs: nothing is isolated"}]
        ours:
          description: Files and links of this collection that are there.
          returned: success
          type: list
          elements: str
          sample: [/etc/sysctl.d/90-inferops-locality.conf]
        strays:
          description:
            - What stands in the text files of the host and kubelet layers and is none of the settings that this collection writes there. Names, no values.
            - C(line) is V(null) where only the file is known.
          returned: success
          type: list
          elements: dict
          sample: [{file: /etc/sysctl.d/90-inferops-locality.conf, line: 6, name: vm.dirty_ratio}]
        problems:
          description: Files that are there and could not be used.
          returned: success
          type: list
          elements: dict
          sample: [{file: /boot/grub/grub.cfg, reason: "cannot be read: Permission denied"}]
"""

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.inferops.locality.plugins.module_utils.state import read_state
from ansible_collections.inferops.locality.plugins.module_utils.sysroot import SysRoot


def main() -> None:
    """Read and return."""
    module = AnsibleModule(
        argument_spec={"root": {"type": "path", "default": "/"}, "softirq_interval": {"type": "float", "default": 0}}, supports_check_mode=True)
    interval = module.params["softirq_interval"]
    if not 0 <= interval <= 3600:
        module.fail_json(msg=f"softirq_interval: found {interval:g}, wanted 0 to 3600 seconds")
    sysroot = SysRoot(module.params["root"])
    if not sysroot.is_dir("/"):
        module.fail_json(msg=f"root: found '{module.params['root']}', wanted a directory that can be read")
    module.exit_json(changed=False, ansible_facts={"locality_state": read_state(sysroot, watch=True, softirq_interval=interval)})


if __name__ == "__main__":
    main()
