# Copyright (c) 2026 The inferops.locality authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The registry: every knob, what it costs to mend, where its two sides lie, who writes it and where its rule comes from.

A knob has up to two sides. *running* is what the kernel, the kubelet or a daemon does now; *configured* is what comes back
at the next boot or start. A knob is in sync only if every side it has equals the plan. ``docs/knobs.md`` is printed from here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Dict, Tuple

# What it costs to bring a knob to its plan, cheapest first: a node is disturbed only from ``drain`` on.
NEEDS: Tuple[str, ...] = ("live", "drain", "restart", "reboot")

OWNER = "inferops-locality"
DROP_IN = "90-inferops-locality"

FILE_GRUB = f"/etc/default/grub.d/{DROP_IN}.cfg"
# Where boot arguments are written, by ``platform.boot_loader.kind`` of locality_state; the registry below names the drop-in.
BOOT_FILES: Dict[str, Tuple[Tuple[str, ...], str]] = {
    "grub-drop-in": ((FILE_GRUB,), "Debian, Ubuntu: a file of its own, which grub-mkconfig reads after /etc/default/grub"),
    "grub-default": (("/etc/default/grub",), "SLES: a part between two marks of ours at the end; the file as it was is kept"),
    "bls": (
        ("/boot/loader/entries/*.conf", "/etc/default/grub", "/etc/kernel/cmdline"),
        "RHEL family 9 and 10: grubby changes the entry of each kernel, and the files that entries of later kernels are made from",
    ),
}
FILE_SYSCTL = f"/etc/sysctl.d/{DROP_IN}.conf"
FILE_TMPFILES = f"/etc/tmpfiles.d/{DROP_IN}.conf"
SLICES: Tuple[str, ...] = ("init.scope", "system.slice", "user.slice")
FILES_SLICES: Tuple[str, ...] = tuple(f"/etc/systemd/system/{unit}.d/{DROP_IN}.conf" for unit in SLICES)
RKE2_UNITS: Tuple[str, ...] = ("rke2-agent.service", "rke2-server.service")
FILES_MEMLOCK: Tuple[str, ...] = tuple(f"/etc/systemd/system/{unit}.d/{DROP_IN}.conf" for unit in RKE2_UNITS)
FILE_IRQBALANCE_MASK = "/etc/systemd/system/irqbalance.service"
FILE_IRQBALANCE = f"/etc/systemd/system/irqbalance.service.d/{DROP_IN}.conf"
FILE_TUNED_ACTIVE = "/etc/tuned/active_profile"
FILE_TUNED_MODE = "/etc/tuned/profile_mode"
TUNED_PROFILE = OWNER
FILE_IRQ = f"/etc/{OWNER}/irq.json"
FILE_IRQ_UNIT = f"/etc/systemd/system/{OWNER}-irq.service"
FILE_IRQ_UDEV = f"/etc/udev/rules.d/{DROP_IN}.rules"
# What starts the boot program: at boot, when a NIC appears, and every minute.
FILES_IRQ_SERVICE: Tuple[str, ...] = (
    FILE_IRQ_UNIT, f"/etc/systemd/system/{OWNER}-irq@.service", f"/etc/systemd/system/{OWNER}-irq.timer", FILE_IRQ_UDEV,
)
LINKS_IRQ_SERVICE: Tuple[str, ...] = (
    f"/etc/systemd/system/multi-user.target.wants/{OWNER}-irq.service", f"/etc/systemd/system/timers.target.wants/{OWNER}-irq.timer",
)
FILE_RUNTIME = f"/usr/local/libexec/{OWNER}/locality.pyz"
FILE_KUBELET = f"/etc/rancher/rke2/config.yaml.d/{DROP_IN}.yaml"
# What RKE2's unit runs before it starts: not in the file of the host layer, since each file has one writer.
FILES_FIRST_START: Tuple[str, ...] = tuple(f"/etc/systemd/system/{unit}.d/{DROP_IN}-kubelet.conf" for unit in RKE2_UNITS)
# The boot program's command for it, and the value of the knob.
FIRST_START = "kubelet-state"
DIR_STATE = f"/var/lib/{OWNER}"
# Of the role rke2_kubelet: there as long as RKE2 is stopped by a run.
FILE_STOPPED = f"{DIR_STATE}/rke2-stopped"
# What the host layer found before it changed anything.
FILE_HOST_SAVED = f"{DIR_STATE}/host.json"

_BOTH = ("running", "configured")


@dataclass(frozen=True)
class Knob:
    """One setting.

    :ivar klass: ``managed`` blocks a node when it drifts, ``reported`` never does.
    :ivar needs: one of ``NEEDS``.
    :ivar sides: which of ``running`` and ``configured`` exist.
    :ivar writer: the one role that sets it; empty for reported knobs.
    :ivar files: where the configured side is written.
    :ivar lab: whether a virtual machine has it; the others are tested on paper only.
    :ivar source: where the rule or the proof comes from.
    :ivar api: no file of the node shows it: the API server, or a program that runs as a pod, has to be asked.
    """

    id: str
    layer: str
    klass: str
    needs: str
    sides: Tuple[str, ...]
    writer: str
    files: Tuple[str, ...]
    text: str
    source: str
    lab: bool = True
    api: bool = False


def _host(  # noqa: PLR0917
    id: str, needs: str, files: Tuple[str, ...], text: str, source: str, sides: Tuple[str, ...] = _BOTH, lab: bool = True,
) -> Knob:
    return Knob(id, "host", "managed", needs, sides, "host_tuning", files, text, source, lab)


def _irq(id: str, text: str, source: str, sides: Tuple[str, ...] = _BOTH, files: Tuple[str, ...] = (FILE_IRQ,)) -> Knob:
    return Knob(id, "irq", "managed", "live", sides, "irq_affinity", files, text, source)


def _kubelet(id: str, text: str, source: str, needs: str = "restart") -> Knob:
    return Knob(id, "kubelet", "managed", needs, _BOTH, "rke2_kubelet", (FILE_KUBELET,), text, source)


def _cilium(id: str, text: str, source: str) -> Knob:
    # The agent takes what is configured when its pod is made anew, which pods of the node would feel.
    return Knob(id, "network", "managed", "drain", _BOTH, "cilium", (), text, source, lab=False, api=True)


def _dra(id: str, text: str, source: str, sides: Tuple[str, ...] = ("configured",)) -> Knob:
    # A pod of the driver that comes or goes disturbs nobody, as long as no claim holds a NIC.
    return Knob(id, "dra", "managed", "live", sides, "dranet", (), text, source, lab=False, api=True)


def _reported(id: str, layer: str, text: str, source: str, api: bool = False) -> Knob:
    return Knob(id, layer, "reported", "live", ("running",), "", (), text, source, api=api)


_GRUB = (FILE_GRUB,)
_PARAMETERS = "Documentation/admin-guide/kernel-parameters.txt"

_ALL: Tuple[Knob, ...] = (
    _host(
        "kernel.isolcpus", "reboot", _GRUB,
        "isolcpus= with its flags; absent where the policy isolates nothing.",
        "kernel/sched/isolation.c; /sys/devices/system/cpu/isolated shows the domain flag only",
    ),
    _host(
        "kernel.nohz_full", "reboot", _GRUB,
        "nohz_full=, the CPUs whose tick stops; absent unless isolation.tickless.",
        "/sys/devices/system/cpu/nohz_full",
    ),
    _host(
        "kernel.irqaffinity", "reboot", _GRUB,
        "irqaffinity=, where interrupts start their life.",
        f"{_PARAMETERS}; /proc/irq/default_smp_affinity",
    ),
    _host(
        "kernel.hugepages", "reboot", _GRUB,
        "Huge pages of each size on each NUMA node.",
        "mm/hugetlb.c; /sys/devices/system/node/node*/hugepages",
    ),
    _host(
        "kernel.iommu", "reboot", _GRUB,
        "Whether DMA is translated: pt (identity domains) or off.",
        "/sys/kernel/iommu_groups/*/type",
    ),
    _host(
        "kernel.acs", "reboot", _GRUB,
        "Peer-to-peer redirects switched off on named PCIe paths by the kernel's own parameter.",
        "drivers/pci/pci.c (config_acs, disable_acs_redir)",
    ),
    _host("vm.thp", "live", (FILE_TMPFILES,), "Transparent huge pages.", "/sys/kernel/mm/transparent_hugepage/enabled"),
    _host(
        "vm.thp_defrag", "live", (FILE_TMPFILES,),
        "How far an allocation goes to get a transparent huge page.",
        "/sys/kernel/mm/transparent_hugepage/defrag",
    ),
    _host(
        "vm.swappiness", "live", (FILE_SYSCTL,),
        "vm.swappiness; 0 is not swap off.",
        "Documentation/admin-guide/sysctl/vm.rst",
    ),
    _host(
        "vm.zone_reclaim", "live", (FILE_SYSCTL,),
        "vm.zone_reclaim_mode; 0 lets an allocation go to the next NUMA node.",
        "Documentation/admin-guide/sysctl/vm.rst",
    ),
    _host(
        "kernel.numa_balancing", "live", (FILE_SYSCTL,),
        "kernel.numa_balancing; 0, since pods are bound already.",
        "Documentation/admin-guide/sysctl/kernel.rst",
    ),
    _host(
        "cpu.governor", "live", (FILE_TMPFILES,),
        "Frequency governor of every CPU (in the tuned profile where tuned is on).",
        "/sys/devices/system/cpu/cpu*/cpufreq/scaling_governor", lab=False,
    ),
    _host(
        "cpu.latency", "live", (FILE_TMPFILES,),
        "Longest wake-up from idle that is accepted, in microseconds (C-states).",
        "Documentation/ABI/testing/sysfs-devices-power (pm_qos_resume_latency_us)", lab=False,
    ),
    _host(
        "workqueue.cpumask", "live", (FILE_TMPFILES,),
        "Where unbound kernel work runs.",
        "/sys/devices/virtual/workqueue/cpumask",
    ),
    _host(
        "systemd.slices", "live", FILES_SLICES,
        "AllowedCPUs= of system.slice, user.slice and init.scope.",
        "systemd.resource-control(5)",
    ),
    _host(
        "limits.memlock", "restart", FILES_MEMLOCK,
        "LimitMEMLOCK= of RKE2's units, which pods inherit; RDMA needs it.",
        "systemd.exec(5)",
    ),
    _host(
        "irqbalance", "live", (FILE_IRQBALANCE_MASK, FILE_IRQBALANCE),
        "irqbalance is off, or bans the isolated CPUs.",
        "irqbalance(1)",
    ),
    _host(
        "tuned.profile", "live", (FILE_TUNED_ACTIVE, FILE_TUNED_MODE),
        "Our tuned profile is the active one, where tuned is installed.",
        "tuned-adm(8)",
    ),
    _host(
        "runtime.version", "live", (FILE_RUNTIME,),
        "The program that acts at boot is the one this version brings.",
        "roles/irq_affinity", sides=("configured",),
    ),
    _reported("kernel.rcu_nocbs", "host", "rcu_nocbs=; nohz_full implies it.", "kernel/rcu/tree_nocb.h"),
    _reported(
        "kernel.preempt", "host",
        "Preemption model of the kernel.",
        "/sys/kernel/debug/sched/preempt, kernel version",
    ),
    _irq(
        "irq.affinity",
        "Where the interrupts of the named devices go.",
        "Documentation/core-api/irq/irq-affinity.rst; effective_affinity_list decides",
    ),
    _irq("irq.default_affinity", "Where new interrupts go.", "/proc/irq/default_smp_affinity"),
    _irq(
        "irq.service",
        "The boot program is started at boot, when a NIC appears and every minute, by units and a rule as they were written; and how it deals interrupts.",
        "systemd.unit(5), udev(7)",
        sides=("configured",), files=FILES_IRQ_SERVICE,
    ),
    _irq("nic.queues", "Number of queues of a NIC; with irq.queues: fitted as many as it has housekeeping CPUs.", "ethtool -l"),
    _irq("nic.rps", "CPUs of receive packet steering.", "Documentation/networking/scaling.rst"),
    _irq("nic.xps", "CPUs of transmit packet steering.", "Documentation/networking/scaling.rst"),
    _reported(
        "irq.softirq_share", "irq",
        "Share of NET_RX that housekeeping CPUs do, since the boot or over locality_softirq_interval seconds.",
        "/proc/softirqs",
    ),
    _reported(
        "pcie.acs", "pcie",
        "ACS redirects (RR, CR, EC) of the bridges above GPUs, NICs and NVMe; judged on those that pcie.acs_off names, wanted off.",
        "PCI Express Base Specification, ACS; config space; drivers/pci/p2pdma.c pci_bridge_has_acs_redir",
    ),
    _reported(
        "pcie.link_width", "pcie",
        "Lanes in use; wanted the lesser of what device and port have, and no less than pcie.min_link_width.",
        "current_link_width, max_link_width of device and port",
    ),
    _reported(
        "pcie.link_speed", "pcie",
        "Link speed; wanted the lesser of what device and port have. Idle GPUs lower theirs, which is said and is no difference.",
        "current_link_speed, max_link_speed of device and port",
    ),
    _reported(
        "pcie.aspm", "pcie",
        "Active state power management of a link, either end; wanted off for GPUs and NICs. The kernel's policy is told beside it.",
        "PCI Express capability, link control; /sys/module/pcie_aspm/parameters/policy",
    ),
    _reported(
        "pcie.relaxed_ordering", "pcie",
        "Relaxed ordering; wanted on for GPUs and NICs.",
        "PCI Express capability, device control",
    ),
    _reported(
        "gpu.nic_relation", "pcie",
        "How near each GPU's best NIC is, once a driver is bound to the GPU; wanted as the hardware has it.",
        "legend of nvidia-smi topo -m; sysfs",
    ),
    _reported(
        "gpu.nvme_relation", "pcie",
        "How near each GPU's best NVMe drive is, once a driver is bound to the GPU; wanted as the hardware has it.",
        "legend of nvidia-smi topo -m; sysfs",
    ),
    _reported(
        "gpu.peermem", "pcie",
        "GPUDirect RDMA by nvidia_peermem, or by dma-buf: NVIDIA's open kernel modules on Linux 5.12 or newer.",
        "/sys/module/nvidia_peermem, /proc/driver/nvidia/version",
    ),
    _reported(
        "gpu.persistence", "pcie",
        "Persistence mode: nvidia-persistenced runs (on the host or in the driver's container), or nvidia-smi says that it is on.",
        "/run/nvidia-persistenced, nvidia-smi",
    ),
    _reported(
        "gpu.gds", "pcie",
        "GPUDirect Storage by nvidia_fs, or by the kernel's own peer-to-peer DMA.",
        "/sys/module/nvidia_fs, p2pmem of each GPU",
    ),
    _kubelet("kubelet.cpu_manager_policy", "cpu-manager-policy.", "pkg/kubelet/cm/cpumanager"),
    _kubelet(
        "kubelet.cpu_manager_options",
        "cpu-manager-policy-options, one flag each.",
        "pkg/kubelet/cm/cpumanager/policy_options.go",
    ),
    _kubelet("kubelet.topology_manager_policy", "topology-manager-policy.", "pkg/kubelet/cm/topologymanager"),
    _kubelet("kubelet.topology_manager_scope", "topology-manager-scope.", "pkg/kubelet/cm/topologymanager"),
    _kubelet(
        "kubelet.topology_manager_options",
        "topology-manager-policy-options: max-allowable-numa-nodes where a machine has more than eight.",
        "pkg/kubelet/cm/topologymanager/policy_options.go",
    ),
    _kubelet("kubelet.memory_manager_policy", "memory-manager-policy.", "pkg/kubelet/cm/memorymanager"),
    _kubelet(
        "kubelet.reserved_memory",
        "reserved-memory per NUMA node; its sum is system + kube + hard eviction, exactly.",
        "pkg/kubelet/cm/memorymanager/memory_manager.go",
    ),
    _kubelet("kubelet.reserved_cpus", "reserved-cpus: the housekeeping CPUs.", "cmd/kubelet/app/server.go"),
    _kubelet("kubelet.system_reserved", "system-reserved.", "cmd/kubelet/app/server.go"),
    _kubelet("kubelet.kube_reserved", "kube-reserved.", "cmd/kubelet/app/server.go"),
    _kubelet(
        "kubelet.eviction_hard",
        "eviction-hard: memory.available and RKE2's disk thresholds, since the flag replaces the whole map.",
        "pkg/kubelet/eviction",
    ),
    Knob(
        "kubelet.state_files", "kubelet", "managed", "drain", ("configured",), "rke2_kubelet", (),
        "The kubelet's checkpoint files fit the configuration it will start with.",
        "pkg/kubelet/cm/cpumanager/state/checkpoint.go",
    ),
    Knob(
        "kubelet.first_start", "kubelet", "managed", "live", ("configured",), "rke2_kubelet", FILES_FIRST_START,
        "RKE2's unit runs the boot program before its first start of a boot: checkpoint files with which the kubelet would not start go, with a copy.",
        "systemd.service(5), ExecStartPre=",
    ),
    Knob(
        "node.labels", "kubelet", "managed", "live", ("running",), "rke2_kubelet", (),
        "Labels of the Node object; RKE2's configuration sets them at registration only.",
        "docs.rke2.io, advanced options", api=True,
    ),
    Knob(
        "node.taints", "kubelet", "managed", "live", ("running",), "rke2_kubelet", (),
        "Taints of the Node object; RKE2's configuration sets them at registration only.",
        "docs.rke2.io, advanced options", api=True,
    ),
    _reported(
        "gpu.topology_hint", "kubelet",
        "The device plugin tells the kubelet each GPU's NUMA node.",
        "pod-resources API",
    ),
    _cilium(
        "cilium.datapath_mode",
        "Device of a pod: veth, netkit or netkit-l2; of this node, by a CiliumNodeConfig.",
        "cilium-dbg status: datapath-mode; agent option datapath-mode",
    ),
    _cilium(
        "cilium.big_tcp",
        "Families with BIG TCP, ipv4 and ipv6; of this node, by a CiliumNodeConfig. In force where the sizes are above 65536.",
        "cilium-dbg status: ipv4-big-tcp, ipv6-big-tcp; agent options enable-ipv4-big-tcp, enable-ipv6-big-tcp",
    ),
    _cilium(
        "cilium.devices",
        "Interfaces that Cilium works on, so that NICs of the fabric stay out; of this node, by a CiliumNodeConfig.",
        "cilium-dbg status: kube-proxy-replacement; agent option devices",
    ),
    _cilium(
        "cilium.xdp",
        "XDP acceleration of services: disabled, native or best-effort; of this node, by a CiliumNodeConfig.",
        "cilium-dbg status: kube-proxy-replacement, node port acceleration; agent option bpf-lb-acceleration",
    ),
    _cilium(
        "cilium.bpf_maps",
        "Share of the memory that the connection maps are sized by (ratio), and whether they are LRU per CPU (distributed_lru); of the cluster, by the chart. "
        "The agent tells the ratio alone.",
        "cilium-dbg status: bpf-maps; agent options bpf-map-dynamic-size-ratio, bpf-distributed-lru",
    ),
    _cilium(
        "cilium.clock",
        "BPF programs take the time from jiffies, where the kernel's tick is known; of the cluster, by the chart.",
        "cilium-dbg status: clock-source; agent option enable-bpf-clock-probe",
    ),
    _cilium(
        "cilium.bandwidth_manager",
        "Bandwidth manager (enabled), and BBR for pods (bbr); of the cluster, by the chart.",
        "cilium-dbg status: bandwidth-manager; agent options enable-bandwidth-manager, enable-bbr",
    ),
    _reported("cilium.routing", "network", "Between nodes: native or tunnel. Never changed under pods.", "cilium-dbg status: routing", api=True),
    _reported(
        "cilium.kube_proxy_replacement", "network",
        "Services without kube-proxy: true or false. Never changed under pods.",
        "cilium-dbg status: kube-proxy-replacement", api=True,
    ),
    _reported(
        "cilium.host_routing", "network",
        "Between pods and the network: bpf, or legacy through the host's stack. Never changed under pods.",
        "cilium-dbg status: routing", api=True,
    ),
    _reported(
        "cilium.masquerade", "network",
        "Who masquerades: bpf, iptables or disabled. Never changed under pods.",
        "cilium-dbg status: masquerading", api=True,
    ),
    _dra(
        "dra.dranet",
        "DRANET on this node: configured by the label locality.inferops.io/dranet that its pods select, running where its pod is ready. The driver's chart is "
        "of the cluster; with the last node it is taken off.",
        "DRANET v1.4.0, deployments/helm/dranet/templates/daemonset.yaml", _BOTH,
    ),
    _dra(
        "dra.device_class",
        "The DeviceClasses of NICs leave out this node's uplinks, and that of NICs near a GPU has this node's roots; they are of the cluster.",
        "resource.k8s.io/v1 DeviceClass",
    ),
    _dra(
        "dra.claim_template",
        "Claim templates that this node can serve, each with the namespaces where it is as planned; they are of the cluster.",
        "resource.k8s.io/v1 ResourceClaimTemplate",
    ),
    _reported("dra.nri", "dra", "The socket of NRI, by which DRANET moves NICs, is there (dranet_nri_socket).", "containerd 2, docs/NRI.md", api=True),
    _reported(
        "dra.api", "dra",
        "The version of resource.k8s.io that DRANET speaks: served by the API server, and the node's kubelet is new enough.",
        "DRANET v1.4.0 speaks v1; Kubernetes 1.34", api=True,
    ),
    _reported(
        "dra.gpu_driver", "dra",
        "Who gives out the node's GPUs: device-plugin or nvidia-dra; with both, one GPU would be given to two pods.",
        "status.allocatable of the Node, ResourceSlices of gpu.nvidia.com", api=True,
    ),
    _reported(
        "dra.nics", "dra",
        "DRANET publishes each RDMA NIC but the uplinks, with the PCIe root that sysfs has.",
        "ResourceSlices of dra.net; sysfs", api=True,
    ),
)

KNOBS: Dict[str, Knob] = {knob.id: knob for knob in _ALL}

if len(KNOBS) != len(_ALL):
    raise ImportError("a knob is registered twice")

__all__ = (
    "BOOT_FILES",
    "DIR_STATE",
    "DROP_IN",
    "FILES_FIRST_START",
    "FILES_IRQ_SERVICE",
    "FILES_MEMLOCK",
    "FILES_SLICES",
    "FILE_GRUB",
    "FILE_HOST_SAVED",
    "FILE_IRQ",
    "FILE_IRQBALANCE",
    "FILE_IRQBALANCE_MASK",
    "FILE_IRQ_UDEV",
    "FILE_IRQ_UNIT",
    "FILE_KUBELET",
    "FILE_RUNTIME",
    "FILE_SYSCTL",
    "FILE_TMPFILES",
    "FILE_TUNED_ACTIVE",
    "FILE_TUNED_MODE",
    "FIRST_START",
    "KNOBS",
    "LINKS_IRQ_SERVICE",
    "NEEDS",
    "OWNER",
    "RKE2_UNITS",
    "SLICES",
    "TUNED_PROFILE",
    "Knob",
)
