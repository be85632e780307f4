# Copyright (c) 2026 The inferops.locality authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How each managed knob is changed behind the tool's back: the tables of the knob test, on paper, in the lab and with a real kubelet.

``python -m ansible_collections.inferops.locality.tests.unit.knob_changes`` prints the lab's part for molecule's scenario ``knobs``.
"""

from __future__ import annotations

import json
import re
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Union

from ansible_collections.inferops.locality.plugins.module_utils import knobs


@dataclass(frozen=True)
class Edit:
    """A part of a file, the first that the pattern matches, becomes another text."""

    file: str
    pattern: str
    text: str

    def apply(self, root: Path) -> None:
        """Below a root."""
        place = root / self.file[1:]
        before = place.read_text(encoding="utf-8")
        after = re.sub(self.pattern, self.text, before, count=1, flags=re.MULTILINE)
        assert after != before, f"{self.file} has nothing like {self.pattern}"
        place.write_text(after, encoding="utf-8")

    def command(self) -> str:
        """For the node's shell."""
        program = (
            "import re, sys; file, pattern, text = sys.argv[1:]; before = open(file).read(); "
            "after = re.sub(pattern, text, before, count=1, flags=re.M); "
            "after != before or sys.exit(file + ' has nothing like ' + pattern); open(file, 'w').write(after)"
        )
        return shlex.join(["python3", "-c", program, self.file, self.pattern, self.text])


@dataclass(frozen=True)
class Remove:
    """A file or link goes away."""

    file: str

    def apply(self, root: Path) -> None:
        """Below a root."""
        (root / self.file[1:]).unlink()

    def command(self) -> str:
        """For the node's shell."""
        return shlex.join(["rm", self.file])


@dataclass(frozen=True)
class Create:
    """A file appears."""

    file: str
    text: str

    def apply(self, root: Path) -> None:
        """Below a root."""
        place = root / self.file[1:]
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(self.text, encoding="utf-8")

    def command(self) -> str:
        """For the node's shell."""
        return f"printf %s {shlex.quote(self.text)} > {shlex.quote(self.file)}"


Change = Union[Edit, Remove, Create]


def _kubelet(flag: str, text: str) -> Edit:
    return Edit(knobs.FILE_KUBELET, rf'"{flag}=[^"]*"', f'"{flag}={text}"')


# What would come back at boot. A managed knob with a configured side that is missing here fails the knob test on paper.
CONFIGURED: dict[str, Change] = {
    "kernel.isolcpus": Edit(knobs.FILE_GRUB, r"isolcpus=\S+", "isolcpus=managed_irq,3"),
    "kernel.nohz_full": Edit(knobs.FILE_GRUB, r" nohz_full=\S+", ""),
    "kernel.irqaffinity": Edit(knobs.FILE_GRUB, r"irqaffinity=\S+", "irqaffinity=0"),
    "kernel.hugepages": Edit(knobs.FILE_GRUB, r"hugepages=\S+", "hugepages=0:1,1:4"),
    "kernel.iommu": Edit(knobs.FILE_GRUB, r" iommu=pt", ""),
    "kernel.acs": Edit(knobs.FILE_GRUB, r" pci=[^ \"]+", ""),
    "vm.thp": Edit(knobs.FILE_TMPFILES, r"(transparent_hugepage/enabled .*) madvise", r"\1 always"),
    "vm.thp_defrag": Edit(knobs.FILE_TMPFILES, r"(transparent_hugepage/defrag .*) madvise", r"\1 always"),
    "vm.swappiness": Edit(knobs.FILE_SYSCTL, r"vm.swappiness = 0", "vm.swappiness = 60"),
    "vm.zone_reclaim": Edit(knobs.FILE_SYSCTL, r"^vm.zone_reclaim_mode.*$", ""),
    "kernel.numa_balancing": Edit(knobs.FILE_SYSCTL, r"kernel.numa_balancing = 0", "kernel.numa_balancing = 1"),
    "cpu.governor": Edit(knobs.FILE_TMPFILES, r"performance", "powersave"),
    "cpu.latency": Edit(knobs.FILE_TMPFILES, r"(latency_us .*) 20", r"\1 99"),
    "workqueue.cpumask": Edit(knobs.FILE_TMPFILES, r"(workqueue/cpumask .*) \S+$", r"\1 1"),
    "systemd.slices": Edit(knobs.FILES_SLICES[1], r"AllowedCPUs=.*", "AllowedCPUs=0"),
    "limits.memlock": Edit(knobs.FILES_MEMLOCK[0], r"infinity", "8388608"),
    "irqbalance": Edit(knobs.FILE_IRQBALANCE, r"CPULIST=.*", "CPULIST=3"),
    # Another profile beside ours: without ours the governor would be another one too.
    "tuned.profile": Edit(knobs.FILE_TUNED_ACTIVE, r"$", " network-latency"),
    "runtime.version": Remove(knobs.FILE_RUNTIME),
    "irq.affinity": Edit(knobs.FILE_IRQ, r'"cpus": "[^"]*"', '"cpus": "0"'),
    "irq.default_affinity": Edit(knobs.FILE_IRQ, r'"default_affinity": "[^"]*"', '"default_affinity": "0"'),
    "irq.service": Edit(knobs.FILE_IRQ_UNIT, r"^ExecStart=.*$", "ExecStart=/bin/true"),
    "nic.queues": Edit(knobs.FILE_IRQ, r'"queues": 4', '"queues": 2'),
    "nic.rps": Edit(knobs.FILE_IRQ, r'"rps": "[^"]*"', '"rps": "0"'),
    "nic.xps": Edit(knobs.FILE_IRQ, r'"xps": "[^"]*"', '"xps": "0"'),
    "kubelet.cpu_manager_policy": _kubelet("cpu-manager-policy", "none"),
    "kubelet.cpu_manager_options": Edit(knobs.FILE_KUBELET, r'  - "cpu-manager-policy-options=.*"\n', ""),
    "kubelet.topology_manager_policy": _kubelet("topology-manager-policy", "restricted"),
    "kubelet.topology_manager_scope": _kubelet("topology-manager-scope", "container"),
    "kubelet.topology_manager_options": _kubelet("topology-manager-policy-options", "max-allowable-numa-nodes=16"),
    "kubelet.memory_manager_policy": _kubelet("memory-manager-policy", "None"),
    "kubelet.reserved_memory": _kubelet("reserved-memory", "0:memory=72Mi"),
    "kubelet.reserved_cpus": _kubelet("reserved-cpus", "0"),
    "kubelet.system_reserved": _kubelet("system-reserved", "memory=48Mi"),
    "kubelet.kube_reserved": _kubelet("kube-reserved", "memory=32Mi"),
    "kubelet.eviction_hard": _kubelet("eviction-hard", "memory.available<40Mi"),
    "kubelet.first_start": Edit(knobs.FILES_FIRST_START[0], r"^ExecStartPre=.*$", ""),
    "kubelet.state_files": Create("/var/lib/kubelet/cpu_manager_state", '{"policyName":"none","defaultCpuSet":"","checksum":1353318690}'),
}

# -- a real kubelet

# What the kubelet is told in its drop-in: all changes of it at once are another configuration, with which the kubelet of a lab node starts.
KUBELET: tuple[str, ...] = tuple(id for id in CONFIGURED if knobs.KNOBS[id].files == (knobs.FILE_KUBELET,))
# Those after whose change in the drop-in the kubelet would not start with the checkpoint files that it has written.
KUBELET_UNFIT: tuple[str, ...] = ("kubelet.cpu_manager_policy", "kubelet.memory_manager_policy", "kubelet.reserved_memory")
# What only the API shows: merge patches of the Node.
CLUSTER: dict[str, dict[str, Any]] = {
    "node.labels": {"metadata": {"labels": {"gpu": "other"}}},
    "node.taints": {"spec": {"taints": None}},
}


def kubelet_sides() -> list[tuple[str, str]]:
    """Knob and side of all that tests/cluster/test_kubelet_knobs.py changes."""
    configured = [(id, "configured") for id in CONFIGURED if knobs.KNOBS[id].layer == "kubelet"]
    return configured + [(id, "running") for id in (*KUBELET, *CLUSTER)]


# -- the lab

LAYERS = ("host", "irq")
THP = "/sys/kernel/mm/transparent_hugepage"
NIC = "enp40s0"
NIC_ADDRESS = "0000:28:00.0"

# Where a lab node wants another change than a node on paper: irqbalance is off there; a profile that a person chose would be that person's,
# and refuse the node.
LAB_CONFIGURED: dict[str, Union[Edit, Remove]] = {
    "irqbalance": Remove(knobs.FILE_IRQBALANCE_MASK),
    "tuned.profile": Edit(knobs.FILE_TUNED_ACTIVE, r".+", ""),
}

# What runs now, changed by a person at the node's shell, after what is configured was, which stays as it is. In this order: systemd reads its
# changed files again for irqbalance, and other queues are other interrupts with steering of their own.
RUNNING: dict[str, str] = {
    "vm.thp": f"echo always > {THP}/enabled",
    "vm.thp_defrag": f"echo always > {THP}/defrag",
    "vm.swappiness": "sysctl -w vm.swappiness=60",
    "vm.zone_reclaim": "sysctl -w vm.zone_reclaim_mode=1",
    "kernel.numa_balancing": "sysctl -w kernel.numa_balancing=1",
    "workqueue.cpumask": "echo 1 > /sys/devices/virtual/workqueue/cpumask",
    "systemd.slices": "echo 0 > /sys/fs/cgroup/init.scope/cpuset.cpus",
    # Started while it was not masked; a mask comes back afterwards. Its first turn is a day away, so that it moves nothing.
    "irqbalance": (
        f"mask=$(readlink {knobs.FILE_IRQBALANCE_MASK} || true); rm -f {knobs.FILE_IRQBALANCE_MASK}; mkdir -p /run/systemd/system/irqbalance.service.d; "
        "printf '[Service]\\nExecStart=\\nExecStart=/usr/sbin/irqbalance --foreground --interval=86400\\n' "
        "> /run/systemd/system/irqbalance.service.d/slow.conf; "
        "systemctl daemon-reload; systemctl start irqbalance.service; rm -r /run/systemd/system/irqbalance.service.d; "
        f"test -z \"$mask\" || ln -s $mask {knobs.FILE_IRQBALANCE_MASK}; systemctl daemon-reload; systemctl is-active irqbalance.service"
    ),
    # The file names what it named before.
    "tuned.profile": f"name=$(cat {knobs.FILE_TUNED_ACTIVE}); tuned-adm profile balanced; echo \"$name\" > {knobs.FILE_TUNED_ACTIVE}",
    "irq.default_affinity": "echo ff > /proc/irq/default_smp_affinity",
    "irq.affinity": f"for irq in $(ls /sys/bus/pci/devices/{NIC_ADDRESS}/msi_irqs); do echo 7 > /proc/irq/$irq/smp_affinity_list; done",
    # CPU 4: the kernel takes none that it keeps quiet.
    "nic.rps": f"echo 10 > /sys/class/net/{NIC}/queues/rx-0/rps_cpus",
    "nic.xps": f"echo 10 > /sys/class/net/{NIC}/queues/tx-0/xps_cpus",
    "nic.queues": f"ethtool -L {NIC} combined 2",
    # RKE2's own process keeps the limit it was started with.
    "limits.memlock": (
        "for process in $(cat /sys/fs/cgroup/system.slice/rke2-agent.service/cgroup.procs); do prlimit --pid $process --memlock=65536:65536; done"
    ),
}


@dataclass(frozen=True)
class Disturbance:
    """One side of one knob of a lab node. ``command``: for its shell; ``needs``: what mending it costs."""

    knob: str
    side: str
    needs: str
    command: str


def lab() -> list[Disturbance]:
    """All of them that need no reboot: first what is configured, then what runs, the restart last."""
    found = []
    for knob in (knob for knob in knobs.KNOBS.values() if in_lab(knob) and knob.needs != "reboot" and "configured" in knob.sides):
        change = LAB_CONFIGURED.get(knob.id) or CONFIGURED[knob.id]
        assert isinstance(change, (Edit, Remove))
        # What runs is right, so a file is all there is to mend.
        found.append(Disturbance(knob.id, "configured", "live", change.command()))
    found += [Disturbance(id, "running", knobs.KNOBS[id].needs, command) for id, command in RUNNING.items()]
    return found


def lab_boot() -> list[Disturbance]:
    """Boot arguments, changed together in the file that the menu is made from."""
    found = []
    for knob in (knob for knob in knobs.KNOBS.values() if in_lab(knob) and knob.needs == "reboot"):
        change = LAB_CONFIGURED.get(knob.id) or CONFIGURED[knob.id]
        assert isinstance(change, Edit)
        found.append(Disturbance(knob.id, "both", "reboot", change.command()))
    return found


def in_lab(knob: knobs.Knob) -> bool:
    """Whether the lab's knob test has it."""
    return knob.klass == "managed" and knob.layer in LAYERS and knob.lab


if __name__ == "__main__":
    print(json.dumps({"live": [vars(entry) for entry in lab()], "boot": [vars(entry) for entry in lab_boot()]}))
