#!/usr/bin/python

# Copyright (c) 2026 The inferops.locality authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: irq_affinity
short_description: Place the interrupts of devices on CPUs and tell what became of each
version_added: 0.1.0
description:
  - Finds the interrupts of PCI devices in their C(msi_irqs) folders, asks the kernel to move them, and reads from
    C(effective_affinity_list) what it did. A write that succeeds proves nothing.
  - Of O(cpus), a device gets those of its own NUMA node if there are any, else those of the nearest NUMA node that has some. A
    device whose NUMA node the machine does not tell gets all of them.
  - What was asked for before the first change is saved in C(/var/lib/inferops-locality/irq.json), once for each device.
    O(state=restored) puts it back and forgets it.
  - Acts now and lasts until the driver asks for its interrupts anew. The role P(inferops.locality.irq_affinity#role) makes it last.
options:
  devices:
    description:
      - The devices. Each entry names them in one way and may stand for several. One that names nothing is an error.
      - Required with O(state=present). Without it, O(state=restored) puts back all devices.
    type: list
    elements: dict
    suboptions:
      interface:
        description:
          - Name of a network interface. A bond, a bridge or a VLAN stands for the ports below it.
        type: str
      driver:
        description: Name of a driver, all of whose devices are meant, such as V(mlx5_core).
        type: str
      address:
        description: PCI address, such as V(0000:18:00.0). The way to name a virtual function.
        type: str
      class:
        description: All devices of this kind that are no virtual functions.
        type: str
        choices: [nic, rdma, nvme, gpu, accelerator]
  cpus:
    description:
      - CPUs that may take the interrupts, as a CPU list of the kernel. All of them must be online.
      - Required with O(state=present).
    type: str
  strategy:
    description:
      - With V(spread) each interrupt of a device gets one CPU, in turn, one CPU of each core before the second.
      - With V(mask) each gets all of the CPUs, and the kernel chooses one. An interrupt that is on one of them already stays there.
    type: str
    choices: [spread, mask]
    default: spread
  state:
    description: Whether the interrupts are placed, or put back to where they were before they were placed first.
    type: str
    choices: [present, restored]
    default: present
  root:
    description:
      - Directory in which the machine's C(/) lies. Below any other than V(/) the module reads only, and says what would be.
    type: path
    default: /
attributes:
  check_mode:
    support: full
    description: Can run in check mode and return changed status prediction without modifying target.
  diff_mode:
    support: full
    description: Will return details on what has changed (or possibly needs changing in check_mode), when in diff mode.
  idempotent:
    support: full
    description: When run twice in a row outside check mode, with the same arguments, the second invocation indicates no change.
notes:
  - Interrupts that the kernel manages itself (most of those of NVMe and RAID controllers) cannot be moved and are no failure.
    Kernels from 6.12 on say so before anyone writes (C(EPERM) then), older ones only to who writes (C(EIO)). On those, an
    interrupt that differs in check mode can turn out to be managed. The boot argument C(isolcpus=managed_irq) keeps them off isolated
    CPUs where the kernel can, and so do fewer queues.
  - Fails if an interrupt is V(refused), V(no_vectors) or V(differs) afterwards. The others have been moved, the result tells which.
author:
  - The inferops.locality authors (@inferops)
"""

EXAMPLES = r"""
- name: Put the interrupts of all NICs on the housekeeping CPUs of their NUMA nodes
  inferops.locality.irq_affinity:
    devices:
      - class: nic
    cpus: "{{ locality_plan.housekeeping_cpus }}"

- name: Say what would be done to the ports of a bond and to one NVMe drive
  inferops.locality.irq_affinity:
    devices:
      - interface: bond0
      - address: "0000:5e:00.0"
    cpus: 0-1,64-65
  check_mode: true
  diff: true

- name: Put everything back
  inferops.locality.irq_affinity:
    state: restored
"""

RETURN = r"""
irqs:
  description: The interrupts, device by device, queues in the order of their numbers, those without a queue last.
  returned: success or when an interrupt could not be moved
  type: list
  elements: dict
  contains:
    irq:
      description: Number of the interrupt. It changes when a driver is loaded anew.
      returned: always
      type: int
      sample: 99
    device:
      description: PCI address of its device.
      returned: always
      type: str
      sample: "0000:18:00.0"
    queue:
      description: Number of its queue; V(null) for an interrupt that carries no data.
      returned: always
      type: int
      sample: 0
    wanted:
      description: CPUs it should go to.
      returned: always
      type: str
      sample: "0"
    asked:
      description: CPUs the kernel was asked for, as read afterwards; V(null) where it does not tell.
      returned: always
      type: str
      sample: "0"
    effective:
      description: CPUs it goes to; empty for an interrupt that was never started, V(null) where the kernel does not tell.
      returned: always
      type: str
      sample: "0"
    verdict:
      description:
        - V(right) was there already, V(moved) is there now, V(pending) is asked for and moves when it comes next, or
          has no driver that asked for it yet.
        - V(managed) belongs to the kernel, V(refused) was not taken, V(no_vectors) found no vector left on its CPUs. V(differs)
          is elsewhere although nothing was refused; in check mode, it would be moved.
      returned: always
      type: str
      sample: moved
    errno:
      description: Name of the error that the write gave, or V(null).
      returned: always
      type: str
      sample: EPERM
devices:
  description: The devices that were named. With O(state=restored) those that were saved.
  returned: success or when an interrupt could not be moved
  type: list
  elements: dict
  contains:
    address:
      description: PCI address.
      returned: always
      type: str
      sample: "0000:18:00.0"
    interfaces:
      description: Its network interfaces.
      returned: always
      type: list
      elements: str
      sample: [eth0]
    named_by:
      description: Which entries of O(devices) named it.
      returned: always
      type: list
      elements: str
      sample: [class=nic]
    cpus:
      description: Those of O(cpus) that it may use; V(null) with O(state=restored).
      returned: always
      type: str
      sample: 0-1,64-65
restored:
  description: With O(state=restored), what was put back beside interrupts.
  returned: with O(state=restored)
  type: list
  elements: str
  sample: ["0000:18:00.0 eth0: 63 queues"]
"""

import os
from typing import Any, Dict, List, Optional, Sequence

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.inferops.locality.plugins.module_utils import cpulist, irq, irq_saved, irq_targets
from ansible_collections.inferops.locality.plugins.module_utils.sysroot import SysRoot


def _line(device: str, number: int, queue: Optional[int], asked: Optional[str], effective: Optional[str]) -> str:
    what = "no queue" if queue is None else f"queue {queue}"
    return f"{device} interrupt {number} ({what}): CPUs {asked or 'unknown'}" + (f", on {effective}" if effective else "") + "\n"


def _diff(before: Dict[int, Dict[str, Any]], results: Sequence[Dict[str, Any]], written: bool) -> Dict[str, str]:
    """Each interrupt before and after; what is only foretold is where it would be asked to go."""
    old, new = [], []
    for entry in results:
        then = before[entry["irq"]]
        old.append(_line(entry["device"], entry["irq"], entry["queue"], then["asked"], then["effective"]))
        asked, effective = entry["asked"], entry["effective"]
        if not written and entry["verdict"] == "differs":
            asked, effective = entry["wanted"], entry["wanted"] if len(cpulist.from_list(entry["wanted"])) == 1 else None
        new.append(_line(entry["device"], entry["irq"], entry["queue"], asked, effective))
    return {"before_header": "interrupts", "after_header": "interrupts", "before": "".join(old), "after": "".join(new)}


class _Run:
    def __init__(self, module: AnsibleModule) -> None:
        self.module = module
        self.sysroot = SysRoot(module.params["root"])
        self.check = module.check_mode or not self.sysroot.live
        self.devices: List[Dict[str, Any]] = []

    def present(self) -> None:
        module, sysroot = self.module, self.sysroot
        try:
            targets = irq_targets.resolve(sysroot, module.params["devices"])
        except irq_targets.TargetError as error:
            module.fail_json(msg=str(error))
        try:
            cpus = cpulist.from_list(module.params["cpus"])
        except cpulist.CpuListError as error:
            module.fail_json(msg=f"cpus: {error}")
        online = sysroot.cpu_list("/sys/devices/system/cpu/online")
        if not cpus or (online is not None and not cpus <= online):
            found = cpulist.to_list(online) if online is not None else "unknown"
            module.fail_json(msg=f"cpus: '{cpulist.to_list(cpus - (online or cpus))}' is not online (online: {found})" if cpus else "cpus: is empty")
        entries: List[Dict[str, Any]] = []
        plan: Dict[int, cpulist.CpuSet] = {}
        for target in targets:
            mine = irq.read_irqs(sysroot, [{"address": target.address}])
            near = irq.read_nearest(sysroot, target.address, cpus)
            self.devices.append({"address": target.address, "interfaces": list(target.interfaces), "named_by": list(target.named_by),
                                 "cpus": cpulist.to_list(near)})
            if not mine:
                module.warn(f"{target.address} has no interrupts of its own" + ("" if sysroot.live else " below this root"))
            plan.update(irq.place(mine, near, module.params["strategy"], irq.read_cores(sysroot, near)))
            entries += mine
        if not self.check and any(entry["verdict"] not in irq.IN_SYNC for entry in irq.apply(sysroot, plan, entries, check=True)):
            irq_saved.take(sysroot, [target.address for target in targets])
        results = irq.apply(sysroot, plan, entries, self.check)
        if not self.check:
            irq.learn(sysroot, results)
        self._warn(results)
        self._end(entries, results)

    def _warn(self, results: Sequence[Dict[str, Any]]) -> None:
        for device in self.devices:
            mine = [entry for entry in results if entry["device"] == device["address"]]
            words = None if self.check else irq.skew(mine, cpulist.from_list(device["cpus"]))
            if words:
                self.module.warn(f"{device['address']}: {words}; strategy 'spread' makes it even")
            words = irq.without_vectors(mine)
            if words:
                self.module.warn(f"{device['address']}: CPUs {device['cpus']} {words}")

    def restored(self) -> None:
        module, sysroot = self.module, self.sysroot
        try:
            saved = (irq_saved.read(sysroot) or {"devices": {}})["devices"]
            named: Optional[List[str]] = None
            if module.params["devices"]:
                named = [target.address for target in irq_targets.resolve(sysroot, module.params["devices"])]
        except (irq_saved.SavedError, irq_targets.TargetError) as error:
            module.fail_json(msg=str(error))
        chosen = [address for address in saved if named is None or address in named]
        self.devices = [{"address": address, "interfaces": irq.interfaces(sysroot, address), "named_by": [], "cpus": None} for address in chosen]
        entries = irq.read_irqs(sysroot, self.devices)
        results, done, failed = irq_saved.restore(sysroot, named, self.check)
        # Queues that came back have interrupts that were not there before.
        known = {entry["irq"] for entry in entries}
        entries += [{"irq": entry["irq"], "asked": None, "effective": None} for entry in results if entry["irq"] not in known]
        wrong = [line for line in failed if not any(f"interrupt {entry['irq']}:" in line for entry in results)]
        self._end(entries, results, done, wrong, bool(chosen))

    def _end(
        self, entries: Sequence[Dict[str, Any]], results: Sequence[Dict[str, Any]],
        restored: Optional[List[str]] = None, failed: Sequence[str] = (), forgotten: bool = False,
    ) -> None:
        before = {entry["irq"]: entry for entry in entries}
        if self.check:
            changed = any(entry["verdict"] == "differs" for entry in results) or bool(restored) or forgotten
        else:
            changed = any((entry["asked"], entry["effective"]) != (before[entry["irq"]]["asked"], before[entry["irq"]]["effective"]) for entry in results)
            changed = changed or bool(restored) or forgotten
        outcome: Dict[str, Any] = {"changed": changed and self.sysroot.live, "irqs": list(results), "devices": self.devices}
        if restored is not None:
            outcome["restored"] = restored
        if self.module._diff:
            outcome["diff"] = _diff(before, results, not self.check)
        wrong = [] if self.check else [entry for entry in results if entry["verdict"] not in irq.IN_SYNC]
        if wrong or failed:
            words = [f"{entry['device']} interrupt {entry['irq']}: {entry['verdict']}" + (f" ({entry['errno']})" if entry["errno"] else "")
                     + f", on CPUs '{entry['effective'] or entry['asked']}', wanted '{entry['wanted']}'" for entry in wrong]
            moved = [str(entry["irq"]) for entry in results if entry["verdict"] == "moved"]
            self.module.fail_json(
                msg=f"{len(words) + len(failed)} could not be placed: {'; '.join([*words, *failed])}. Moved: {', '.join(moved) or 'none'}", **outcome)
        self.module.exit_json(**outcome)


def main() -> None:
    device = {"interface": {"type": "str"}, "driver": {"type": "str"}, "address": {"type": "str"},
              "class": {"type": "str", "choices": list(irq_targets.CLASSES)}}
    module = AnsibleModule(
        argument_spec={
            "devices": {"type": "list", "elements": "dict", "options": device,
                        "mutually_exclusive": [list(irq_targets.KEYS)], "required_one_of": [list(irq_targets.KEYS)]},
            "cpus": {"type": "str"},
            "strategy": {"type": "str", "choices": list(irq.STRATEGIES), "default": "spread"},
            "state": {"type": "str", "choices": ["present", "restored"], "default": "present"},
            "root": {"type": "path", "default": "/"},
        },
        required_if=[("state", "present", ("devices", "cpus"))],
        supports_check_mode=True,
    )
    root: str = module.params["root"]
    if not os.path.isdir(root):
        module.fail_json(msg=f"root: '{root}' is not a directory" if os.path.lexists(root) else f"root: '{root}' does not exist")
    if module.params["state"] == "present" and not module.params["devices"]:
        module.fail_json(msg="devices: is empty")
    run = _Run(module)
    act = run.present if module.params["state"] == "present" else run.restored
    try:
        if run.check:
            act()
        with irq.locked(run.sysroot):
            act()
    except irq_saved.SavedError as error:
        module.fail_json(msg=f"{error}: nothing was changed")
    except OSError as error:
        module.fail_json(msg=f"{error.filename or irq_saved.SAVED}: {error.strerror}; this needs root")


if __name__ == "__main__":
    main()
