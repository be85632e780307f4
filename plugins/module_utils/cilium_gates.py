# Copyright (c) 2026 The inferops.locality authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether a node can do what the policy asks of Cilium, before anything is written. No I/O.

The agent gives much of it up without an error (BIG TCP, XDP, BPF host routing, the clock), or does not start; both would be seen on a drained node only.
What is known to fail is an error here, with what was found and what is wanted. What cannot be told is a warning or a note, and is seen when the agent is
asked.

Two kinds of facts decide: those of the node (``platform`` of ``locality_state``) and the cluster's settings, as its ConfigMap ``cilium-config`` has them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple

from ansible_collections.inferops.locality.plugins.module_utils import cilium_maps
from ansible_collections.inferops.locality.plugins.module_utils import findings as findings_m

# net/core/dev.c: packets of more bytes than this are BIG TCP.
GSO_LEGACY_MAX = 65536

# Drivers whose NICs take more, as Cilium's documentation names them, and some whose do not. Hints for where the number could not be read.
_BIG_DRIVERS = ("ice", "mlx4_core", "mlx5_core")
_SMALL_DRIVERS = ("ena", "virtio_net")
# Drivers with XDP in native mode and the mainline kernel from which on (Cilium's documentation, "XDP drivers"), by the names in /sys/bus/pci/drivers. A hint: a
# distribution may have it earlier, and some want a firmware, an MTU or a number of queues.
_XDP_DRIVERS = {
    "atlantic": (5, 19), "bnxt_en": (4, 11), "ena": (5, 6), "funeth": (5, 18), "gve": (6, 4), "hv_netvsc": (5, 6), "i40e": (4, 13), "ice": (5, 5),
    "igb": (5, 10), "igc": (5, 13), "ixgbe": (4, 12), "ixgbevf": (4, 17), "mana": (5, 17), "mlx4_core": (4, 8), "mlx5_core": (4, 9), "nfp": (4, 10),
    "qede": (4, 10), "rvu_nicpf": (5, 16), "sfc": (5, 5), "stmmac": (5, 13), "thunder-nicvf": (4, 12), "virtio_net": (4, 10), "vmxnet3": (6, 6),
}
# The mainline kernel that a family needs, and what its interfaces show, also where a distribution took it over into an older one.
_SMALLEST_KERNEL = {"ipv4": ((6, 3), "gso_ipv4_max_size"), "ipv6": ((5, 19), "tso_max_size")}
_NETKIT = (6, 8)
_MIB = 2**20
_SEE = "see the problems of locality_state"


def version(text: Optional[str]) -> Tuple[int, ...]:
    """Three numbers of a version of Cilium; empty where there are none. The chart of RKE2 adds two digits to the last: 1.19.402 is 1.19.4."""
    match = re.match(r"v?(\d+)\.(\d+)(?:\.(\d+))?", text or "")
    if match is None:
        return ()
    patch = int(match.group(3) or 0)
    return (int(match.group(1)), int(match.group(2)), patch // 100 if patch >= 100 else patch)


def is_true(value: Any) -> bool:
    """Whether a value of the chart or of the ConfigMap switches something on."""
    return str(value).strip().lower() == "true"


@dataclass(frozen=True)
class Settings:
    """What a cluster's Cilium is set to; what it does not set has the agent's default.

    :ivar version: three numbers, or empty where it is not known.
    :ivar config: the data of the ConfigMap ``cilium-config``, or what a chart would put there.
    :ivar stored_versions: of the CustomResourceDefinition of CiliumNodeConfig, where somebody asked.
    """

    version: Tuple[int, ...]
    config: Mapping[str, str]
    stored_versions: Tuple[str, ...] = ()

    def on(self, key: str, default: bool = False) -> bool:
        """Whether a switch is on."""
        return is_true(self.config[key]) if key in self.config else default

    @property
    def tunnel(self) -> bool:
        """Whether packets between nodes are put into others."""
        return self.config.get("routing-mode", "tunnel") != "native"

    @property
    def encryption(self) -> Optional[str]:
        """``ipsec``, ``wireguard``, ``ztunnel`` or None."""
        return next((name for name in ("ipsec", "wireguard", "ztunnel") if self.on(f"enable-{name}")), None)

    @property
    def masquerades(self) -> bool:
        """Whether anything is masqueraded."""
        return any(self.on(f"enable-{family}-masquerade", True) and self.on(f"enable-{family}", family == "ipv4") for family in ("ipv4", "ipv6"))

    def legacy_reasons(self) -> List[str]:
        """Why packets go through the host's stack instead of BPF host routing; none where they do not."""
        reasons = []
        if self.on("enable-host-legacy-routing"):
            chained = self.config.get("cni-chaining-mode", "none")
            reasons.append("enable-host-legacy-routing is true" + (f" (cni.chainingMode {chained} of the chart sets it)" if chained != "none" else ""))
        if not self.on("kube-proxy-replacement"):
            reasons.append("kube-proxy is not replaced (kubeProxyReplacement)")
        if self.masquerades and not self.on("enable-bpf-masquerade"):
            reasons.append("iptables masquerades (bpf.masquerade is not set)")
        if self.encryption == "ipsec":
            reasons.append("IPsec encrypts")
        return reasons

    @property
    def devices(self) -> List[str]:
        """The devices that are named; a name that ends in + stands for all that begin so."""
        return re.split(r"[\s,]+", self.config.get("devices", "").strip()) if self.config.get("devices", "").strip() else []


class SettingsError(ValueError):
    """What was given as a cluster's Cilium is of another shape."""


def settings(given: Any) -> Optional[Settings]:
    """The settings of a cluster, given as ``{version, config, stored_versions}``; None for None.

    :raises SettingsError: it is of another shape.
    """
    if given is None:
        return None
    if not isinstance(given, Mapping):
        raise SettingsError("cilium: wanted a mapping with version and config")
    config = given.get("config")
    if config is not None and not isinstance(config, Mapping):
        raise SettingsError("cilium.config: wanted the data of the ConfigMap cilium-config")
    text = None if given.get("version") is None else str(given["version"])
    if text and not version(text):
        raise SettingsError(f"cilium.version: found '{text}', wanted a version such as 1.19.6")
    return Settings(version(text), {str(key): str(value) for key, value in (config or {}).items()}, tuple(given.get("stored_versions") or ()))


def _shown(number: Sequence[int]) -> str:
    return ".".join(map(str, number))


class _Gates:
    """One node's gates. ``known``: whether the cluster's settings are there."""

    def __init__(
        self, wanted: Mapping[str, Any], platform: Mapping[str, Any], cluster: Optional[Settings], found: findings_m.Findings,
    ) -> None:
        self.wanted = wanted
        self.cluster = cluster or Settings((), {})
        self.known = cluster is not None and bool(cluster.config)
        self.found = found
        self.release = str(platform.get("kernel") or "")
        self.kernel = tuple(int(part) for part in re.findall(r"\d+", self.release)[:2])
        self.netkit_built = (platform.get("features") or {}).get("netkit")
        self.guests = platform.get("guests") or {}
        network = platform.get("network") or {}
        self.interfaces: Mapping[str, Mapping[str, Any]] = network.get("interfaces") or {}
        self.vxlan: List[str] = list(network.get("vxlan") or ())
        self.devices = self._devices(network.get("uplinks") or ())
        self.netkit = str(wanted.get("cilium.datapath_mode") or "").startswith("netkit")
        self.families = list(wanted.get("cilium.big_tcp") or ())

    def _devices(self, uplinks: Sequence[str]) -> List[str]:
        """Those that the node will have: as planned, as the cluster has them, or else those of the default route."""
        if self.wanted.get("cilium.devices"):
            return list(self.wanted["cilium.devices"])
        named: List[str] = []
        for name in self.cluster.devices:
            named += [each for each in self.interfaces if each.startswith(name[:-1])] if name.endswith("+") else [name]
        return named or list(uplinks)

    def since(self, *number: int) -> bool:
        """Whether Cilium is this version or a later one; where it is not known the later one counts."""
        return not self.cluster.version or self.cluster.version >= number

    def within(self, first: Tuple[int, ...], last: Tuple[int, ...]) -> bool:
        """Whether Cilium is one of these versions."""
        return bool(self.cluster.version) and first <= self.cluster.version <= last

    # -- netkit

    def check_netkit(self) -> None:
        asked = f"network.datapath_mode: found {self.wanted['cilium.datapath_mode']}"
        if not self.kernel:
            self.found.warning("cilium.kernel_unknown", f"{asked}; which kernel runs could not be read, wanted 6.8 or newer", _SEE)
        elif self.kernel < _NETKIT:
            self.found.error(
                "cilium.netkit_kernel",
                f"{asked}, but the kernel is {self.release}, wanted 6.8 or newer" + ("; before 6.7 there is no netkit at all" if self.kernel < (6, 7) else ""),
                "boot a newer kernel, or set network.datapath_mode to veth",
            )
        elif self.netkit_built is False:
            self.found.error(
                "cilium.netkit_not_built",
                f"{asked}, but the kernel {self.release} is built without CONFIG_NETKIT",
                "boot a kernel that has it, or set network.datapath_mode to veth",
            )
        elif self.netkit_built is None:
            self.found.note("cilium.netkit_unknown", f"{asked}; whether the kernel has CONFIG_NETKIT could not be read (/boot/config-*, /proc/config.gz)")
        self.found.note(
            "cilium.netkit_beta",
            f"{asked}, which Cilium calls beta: host firewall and extra route tables have known faults with it, and Kata and KubeVirt do not know its devices",
        )
        if self.guests.get("kvm"):
            self.found.warning(
                "cilium.netkit_guests",
                f"{asked}, and {self.guests['kvm']} users of KVM are on this node: Kata Containers and KubeVirt refuse a netkit interface",
                "keep network.datapath_mode: veth on nodes with virtual machines",
            )

    def check_netkit_cluster(self) -> None:
        asked = f"network.datapath_mode: found {self.wanted['cilium.datapath_mode']}"
        if self.cluster.on("enable-bpf-tproxy"):
            self.found.error("cilium.netkit_tproxy", f"{asked} with bpf.tproxy on: the two exclude each other", "set bpf.tproxy to false")
        reasons = self.cluster.legacy_reasons() if self.known else []
        if reasons:
            self.found.add(
                findings_m.ERROR if self.since(1, 20, 0) else findings_m.WARNING, "cilium.netkit_legacy_routing",
                f"{asked}, but {'; '.join(reasons)}: host routing is then legacy, with which netkit is of no use, and the agent from 1.20 on does not start",
                "bpf.hostLegacyRouting: false, cni.chainingMode: none, kubeProxyReplacement: true and bpf.masquerade: true, on a cluster without pods",
            )
        if self.cluster.on("enable-endpoint-routes") and self.kernel < (6, 13):
            # Mainline has the attribute from 6.13 on; a late 6.12 of the stable tree has it too.
            sure = self.kernel and self.kernel < (6, 12)
            self.found.add(
                findings_m.ERROR if self.since(1, 20, 0) and sure else findings_m.WARNING,
                "cilium.netkit_endpoint_routes",
                f"{asked} with endpointRoutes on: " + (f"kernel {self.release}" if self.kernel else "a kernel before 6.13") + " lacks the "
                "scrub attribute of netkit" + ("" if sure else ", unless it was taken over from 6.13: `ip -d link show` of a netkit device has scrub then"),
                "set endpointRoutes.enabled to false, or boot kernel 6.13 or newer",
            )

    # -- BIG TCP

    @property
    def _asked_big_tcp(self) -> str:
        return f"network.big_tcp: found {', '.join(self.families)}"

    def check_big_tcp(self) -> None:
        asked = self._asked_big_tcp
        self._big_tcp_kernel(asked)
        if not self.devices:
            self.found.warning(
                "cilium.devices_unknown", f"{asked}; which devices Cilium uses on this node could not be told, so how large a packet they take was not judged",
                "name them in network.devices",
            )
        for name in self.devices:
            self._big_tcp_device(asked, name)

    def _big_tcp_kernel(self, asked: str) -> None:
        if not self.kernel:
            self.found.warning(
                "cilium.kernel_unknown", f"{asked}; which kernel runs could not be read, wanted 6.3 or newer (IPv6: 5.19)", _SEE,
            )
            return
        for family in self.families:
            least, shown = _SMALLEST_KERNEL[family]
            if self.kernel < least and not any(entry.get(shown) for entry in self.interfaces.values()):
                self.found.error(
                    "cilium.big_tcp_kernel",
                    f"network.big_tcp: found {family}, but the kernel is {self.release}, wanted {_shown(least)} or newer: the agent would start without it",
                    f"boot a newer kernel, or take {family} out of network.big_tcp",
                )
        if len(self.families) == 1 and self.kernel >= (6, 7):
            other = "ipv6" if self.families == ["ipv4"] else "ipv4"
            self.found.warning(
                "cilium.big_tcp_one_family",
                f"{asked} alone: on kernels from 6.7 on that had no effect until a fix that not every distribution has (this one is {self.release})",
                f"add {other} where the cluster has both, or measure",
            )

    def check_big_tcp_cluster(self) -> None:
        asked, cluster = self._asked_big_tcp, self.cluster
        if not self.known:
            return
        reasons = cluster.legacy_reasons()
        if reasons:
            self.found.error(
                "cilium.big_tcp_legacy_routing",
                f"{asked}, but {'; '.join(reasons)}: with legacy host routing the agent does not start",
                "bpf.hostLegacyRouting: false, cni.chainingMode: none, kubeProxyReplacement: true and bpf.masquerade: true, on a cluster without pods",
            )
        if cluster.encryption and (cluster.encryption == "ipsec" or not self.since(1, 19, 0)):
            self.found.error(
                "cilium.big_tcp_encryption",
                f"{asked}, but the cluster encrypts with {cluster.encryption}: the agent does not start with both",
                "leave BIG TCP off" + ("" if cluster.encryption == "ipsec" else ", or use Cilium 1.19 or newer, which takes both"),
            )
        if cluster.tunnel:
            protocol = cluster.config.get("tunnel-protocol", "vxlan")
            message, hint = f"{asked}, but the cluster's routing is a {protocol} tunnel", "BIG TCP wants routingMode: native, which is for a new cluster"
            if not self.since(1, 19, 0):
                self.found.error("cilium.big_tcp_tunnel", f"{message}: before 1.19 the agent does not start", hint)
            elif self.within((1, 19, 0), (1, 19, 2)) and not cluster.on("enable-tunnel-big-tcp"):
                self.found.error("cilium.big_tcp_tunnel", f"{message}: 1.19.0 to 1.19.2 take it with enableTunnelBIGTCP only", hint)
            else:
                self.found.warning("cilium.big_tcp_tunnel", f"{message}: the agent tries whether the kernel's {protocol} devices take large packets", hint)
        if cluster.config.get("bpf-lb-dsr-dispatch") == "ipip" and self.since(1, 19, 3):
            self.found.error(
                "cilium.big_tcp_dsr", f"{asked} with loadBalancer.dsrDispatch ipip: from 1.19.3 on the agent does not start with both", "use dsrDispatch: opt",
            )
        for family in self.families:
            # Charts of RKE2 follow the cluster's ranges, so values alone may not say it.
            if not cluster.on(f"enable-{family}", True):
                self.found.error(
                    "cilium.big_tcp_no_family", f"network.big_tcp: found {family}, but Cilium of this cluster does not use {family}",
                    f"leave {family} out",
                )

    def _big_tcp_device(self, asked: str, name: str) -> None:
        entry = self.interfaces.get(name) or {}
        size = entry.get("tso_max_size")
        drivers = sorted(set(self._drivers(name)))
        what = f"{name} ({', '.join(drivers)})" if drivers else name
        hint = "leave it out of network.devices, or set network.big_tcp to [] for this chassis"
        if entry and not drivers:
            self.found.warning(
                "cilium.big_tcp_virtual",
                f"{asked}; {name} stands on no NIC (a dummy or another virtual interface), where the sizes may not be set or mean nothing", hint,
            )
        if size is not None and size <= GSO_LEGACY_MAX:
            self.found.error(
                "cilium.big_tcp_device",
                f"{asked}, but {what} takes packets up to {size} bytes (tso_max_size), wanted more than {GSO_LEGACY_MAX}: one such device holds the whole node "
                "down", hint,
            )
        elif size is None and set(drivers) & set(_SMALL_DRIVERS):
            self.found.error(
                "cilium.big_tcp_device",
                f"{asked}, but {what} could not be asked how large a packet it takes, and its driver is not known to take more than {GSO_LEGACY_MAX} bytes",
                f"{hint}, or install iproute2 6.0 or newer if it does",
            )
        elif size is None:
            likely = bool(drivers) and set(drivers) <= set(_BIG_DRIVERS)
            known = f", but its driver is known to take more than {GSO_LEGACY_MAX} bytes" if likely else ""
            self.found.add(
                findings_m.NOTE if likely else findings_m.WARNING, "cilium.big_tcp_unknown",
                f"{asked}; how large a packet {what} takes could not be read (tso_max_size of `ip -d link`){known}",
                "iproute2 6.0 or newer and kernel 5.19 or newer say it",
            )

    def _drivers(self, name: str, depth: int = 0) -> List[str]:
        """Drivers of the NICs that an interface stands on."""
        entry = self.interfaces.get(name) or {}
        found = [str(entry["driver"])] if entry.get("driver") else []
        for below in entry.get("lower") or ():
            found += self._drivers(below, depth + 1) if depth < 8 else []
        return found

    # -- the others

    def check_xdp(self) -> None:
        mode = self.wanted["cilium.xdp"]
        for name in self.devices:
            drivers = sorted(set(self._drivers(name)))
            others = [driver for driver in drivers if driver not in _XDP_DRIVERS]
            early = [driver for driver in drivers if self.kernel and self.kernel < _XDP_DRIVERS.get(driver, ())]
            if others or early:
                unknown = f"has the driver {', '.join(others)}, which is not known to do XDP itself"
                later = f"has a driver that does XDP itself from a newer kernel than {self.release} on: " + ", ".join(
                    f"{driver} from {_shown(_XDP_DRIVERS[driver])}" for driver in early)
                self.found.add(
                    findings_m.WARNING if mode == "native" else findings_m.NOTE, "cilium.xdp_driver",
                    f"network.xdp: found {mode}, but {name} {unknown if others else later}: "
                    + ("the agent does not start if it does not" if mode == "native" else "that device is passed over without a word if it does not"),
                    "use best-effort, or leave the device out of network.devices" if mode == "native" else "",
                )
        if self.known and not self.cluster.on("kube-proxy-replacement"):
            self.found.error(
                "cilium.xdp_kube_proxy", f"network.xdp: found {mode}, but kube-proxy is not replaced, so there are no services to accelerate",
                "set network.xdp to disabled, or kubeProxyReplacement to true on a new cluster",
            )
        if mode == "native" and self.known and self.cluster.tunnel and self.cluster.config.get("underlay-protocol") == "ipv6":
            self.found.error("cilium.xdp_tunnel", "network.xdp: found native, with a tunnel over IPv6 the agent does not start", "use best-effort")

    def check_bandwidth_manager(self) -> None:
        manager = self.wanted["cilium.bandwidth_manager"]
        if manager["enabled"] and self.cluster.encryption == "ipsec":
            self.found.error(
                "cilium.bandwidth_manager_ipsec", "network.bandwidth_manager: found enabled: true, but with IPsec the agent switches it off with a warning",
                "set enabled to false",
            )
        if not (manager["enabled"] and manager["bbr"]):
            return
        if self.kernel and self.kernel < (5, 18):
            self.found.error(
                "cilium.bbr_kernel", f"network.bandwidth_manager: found bbr: true, but the kernel is {self.release}, wanted 5.18 or newer", "set bbr to false",
            )
        reasons = self.cluster.legacy_reasons() if self.known and not self.cluster.on("enable-bbr-hostns-only") else []
        if reasons:
            self.found.error(
                "cilium.bbr_legacy_routing", f"network.bandwidth_manager: found bbr: true, but {'; '.join(reasons)}: BBR wants BPF host routing, and the agent "
                "does not start", "set bbr to false",
            )

    def check_versions(self) -> None:
        """Versions that are known to be bad: refused where what they stumble over is there, else a warning with the reason."""
        here, name = _shown(self.cluster.version), self.cluster.config.get("cluster-name", "default")
        if self.within((1, 19, 0), (1, 19, 4)):
            self.found.add(
                findings_m.ERROR if name != "default" else findings_m.WARNING, "cilium.version_policies",
                f"Cilium is {here}: its ipBlock policies let too much through (CVE-2026-56743) on clusters whose name is not default; this one is {name}",
                "use 1.19.5 or newer",
            )
        if self.families and self.within((1, 19, 0), (1, 19, 6)) and not self.cluster.tunnel:
            large = [device for device in self.devices if ((self.interfaces.get(device) or {}).get("tso_max_size") or 0) > GSO_LEGACY_MAX]
            there = [*self.vxlan, *(["the egress gateway's"] if self.cluster.on("enable-egress-gateway") else [])]
            sure = self.cluster.version <= (1, 19, 4)
            self.found.add(
                findings_m.ERROR if sure and large and there else findings_m.WARNING, "cilium.version_vxlan",
                f"Cilium is {here}, which with native routing, BIG TCP and NICs that take more than {GSO_LEGACY_MAX} bytes does not start where there is a "
                f"VXLAN device (cilium#44198; found {', '.join(there) or 'none'})" + ("" if sure else "; whether this version has the fix is not known"),
                "use 1.20.2 or newer, or leave BIG TCP off",
            )
        if self.within((1, 20, 0), (1, 20, 1)):
            self.found.add(
                findings_m.ERROR if "v2alpha1" in self.cluster.stored_versions else findings_m.WARNING, "cilium.version_node_config",
                f"Cilium is {here}, which does not take over the CiliumNodeConfig definition of a cluster made with 1.15 or older",
                "use 1.20.2 or newer",
            )


def check(
    wanted: Mapping[str, Any],
    platform: Mapping[str, Any],
    cluster: Optional[Settings],
    memory: Optional[int] = None,
    possible_cpus: int = 1,
) -> List[Dict[str, str]]:
    """Everything that stands against the knobs of the network layer on one node.

    :param wanted: knobs of the plan; without one of the network layer nothing is judged. :param platform: ``platform`` of ``locality_state``.
    :param cluster: settings of its cluster; None where they are not known, and then what depends on them is not judged.
    :param memory: of the node, in bytes, for what the maps cost. :param possible_cpus: CPUs that the kernel could have.
    :returns: findings ``cilium.*``.
    """
    found = findings_m.Findings()
    if not any(knob.startswith("cilium.") for knob in wanted):
        return []
    gates = _Gates(wanted, platform, cluster, found)
    if gates.netkit:
        gates.check_netkit()
        gates.check_netkit_cluster()
    if gates.families:
        gates.check_big_tcp()
        gates.check_big_tcp_cluster()
    if wanted.get("cilium.xdp", "disabled") != "disabled":
        gates.check_xdp()
    if wanted.get("cilium.bandwidth_manager"):
        gates.check_bandwidth_manager()
    if wanted.get("cilium.bpf_maps") and memory:
        found.extend(map_findings(wanted["cilium.bpf_maps"], memory, possible_cpus))
    gates.check_versions()
    return found.items


def check_cluster(wanted: Mapping[str, Any], cluster: Settings) -> List[Dict[str, str]]:
    """What in a cluster's settings stands against these knobs on any node, whatever its kernel and NICs; findings as :func:`check` has them."""
    found = findings_m.Findings()
    gates = _Gates(wanted, {}, cluster, found)
    if gates.netkit:
        gates.check_netkit_cluster()
    if gates.families:
        gates.check_big_tcp_cluster()
    if wanted.get("cilium.xdp", "disabled") != "disabled":
        gates.check_xdp()
    if wanted.get("cilium.bandwidth_manager"):
        gates.check_bandwidth_manager()
    gates.check_versions()
    return found.items


def map_findings(maps: Mapping[str, Any], memory: int, possible_cpus: int) -> List[Dict[str, str]]:
    """What the connection maps of a node will cost: a note; a warning where that is more than a hundredth of its memory, or where they cannot grow further."""
    found = findings_m.Findings()
    sizes = cilium_maps.entries(memory, maps["ratio"], possible_cpus, maps["distributed_lru"])
    cost = cilium_maps.cost(sizes)
    message = (
        f"network.bpf_maps: ratio {maps['ratio']:g} gives this node of {memory // 2**30} GiB {sizes['ct_tcp']} connections of TCP, {sizes['ct_any']} of "
        f"others and {sizes['nat']} translations, at least {cost // _MIB} MiB for each of IPv4 and IPv6"
    )
    if cilium_maps.at_most(sizes):
        found.warning("cilium.map_memory", f"{message}; the maps are as large as they can be: a smaller ratio may give the same", "0.0025 is Cilium's own")
    elif cost * 100 > memory:
        found.warning("cilium.map_memory", f"{message}, more than a hundredth of its memory", "0.0025 is Cilium's own")
    else:
        found.note("cilium.map_memory", message)
    return found.items


__all__ = ("GSO_LEGACY_MAX", "Settings", "SettingsError", "check", "check_cluster", "is_true", "map_findings", "settings", "version")
