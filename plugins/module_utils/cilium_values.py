# Copyright (c) 2026 The inferops.locality authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Values of Cilium's chart: made from the policy, and checked before helm or the agent gets them. No I/O.

The chart's schema takes any key and any word, so a typo is passed over without a word; some combinations render, and then the agent exits. Both are foretold
here, all at once: keys and types by the table of ``cilium_keys``, words and template failures by the rules of the charts (install/kubernetes/cilium/templates),
refusals of the agent by ``cilium_gates``.

``mode`` says whose chart it is: ``bundled`` is rke2-cilium of RKE2, whose values go into a HelmChartConfig, ``helm`` is Cilium's own.
"""

from __future__ import annotations

import copy
import difflib
import re
from typing import Any, Dict, Iterator, List, Mapping, Optional, Sequence, Tuple

from ansible_collections.inferops.locality.plugins.module_utils import cilium_gates, cilium_keys
from ansible_collections.inferops.locality.plugins.module_utils import findings as findings_m
from ansible_collections.inferops.locality.plugins.module_utils.cilium_gates import is_true
from ansible_collections.inferops.locality.plugins.module_utils.cilium_keys import Key
from ansible_collections.inferops.locality.plugins.module_utils.policy import IP_FAMILIES, MAP_RATIO, UPLINK, shown

MODES: Tuple[str, ...] = ("bundled", "helm")
CHARTS: Dict[str, str] = {"bundled": "rke2-cilium", "helm": "cilium"}
Path = Tuple[str, ...]

# Words that a value may be; the chart takes any, the agent does not.
_WORDS: Dict[str, Tuple[str, ...]] = {
    "routingMode": ("", "tunnel", "native"),
    "tunnelProtocol": ("", "vxlan", "geneve"),
    "underlayProtocol": ("", "ipv4", "ipv6", "auto"),
    "bpf.datapathMode": ("veth", "netkit", "netkit-l2", "auto"),
    "loadBalancer.acceleration": ("disabled", "native", "best-effort"),
    "loadBalancer.mode": ("snat", "dsr", "hybrid"),
    "loadBalancer.algorithm": ("random", "maglev"),
    "loadBalancer.dsrDispatch": ("opt", "ipip", "geneve"),
    "encryption.type": ("ipsec", "wireguard", "ztunnel"),
    "cni.chainingMode": ("", "none", "portmap", "aws-cni", "flannel", "generic-veth"),
    "ipam.mode": ("kubernetes", "cluster-pool", "multi-pool", "crd", "eni", "azure", "alibabacloud", "delegated-plugin"),
    "policyEnforcementMode": ("default", "always", "never"),
    "updateStrategy.type": ("RollingUpdate", "OnDelete"),
}
# Words that came later: (version, words).
_LATER: Dict[str, Tuple[Tuple[int, ...], Tuple[str, ...]]] = {
    "bpf.datapathMode": ((1, 20, 0), ("auto",)),
    "encryption.type": ((1, 19, 0), ("ztunnel",)),
}
# Values that are gone; the templates fail where they are set.
_REMOVED: Tuple[str, ...] = (
    "tunnel", "endpointStatus", "remoteNodeIdentity", "containerRuntime.integration", "enableCiliumEndpointSlice", "enableCnpStatusUpdates",
    "encryption.keyFile", "encryption.mountPath", "encryption.secretName", "encryption.interface", "proxy.prometheus.enabled", "proxy.prometheus.port",
)
_INSTEAD: Dict[str, str] = {"tunnel": "routingMode and tunnelProtocol", "enableCiliumEndpointSlice": "ciliumEndpointSlice.enabled"}
# What RKE2 sets by the HelmChart itself, whatever a HelmChartConfig says.
_RKE2_SETS: Tuple[str, ...] = (
    "global.clusterCIDR", "global.clusterCIDRv4", "global.clusterCIDRv6", "global.clusterDNS", "global.clusterDomain", "global.rke2DataDir",
    "global.serviceCIDR", "global.systemDefaultIngressClass", "global.systemDefaultRegistry", "global.prime.enabled", "global.cattle.systemDefaultRegistry",
)
# Defaults of the charts that decide something here; RKE2's chart has some of its own.
_DEFAULTS: Dict[str, Any] = {
    "ipv4.enabled": True, "ipv6.enabled": False, "enableIPv6Masquerade": True, "bpf.datapathMode": "veth", "loadBalancer.acceleration": "disabled",
    "ipam.mode": "cluster-pool", "encryption.type": "ipsec", "cluster.name": "default", "cluster.id": 0, "hubble.enabled": True, "l7Proxy": True,
    "operator.replicas": 2, "operator.removeNodeTaints": True,
}
_RKE2_DEFAULTS: Dict[str, Any] = {"cni.chainingMode": "portmap", "cni.exclusive": False, "ipam.mode": "kubernetes", "hubble.enabled": False}

# Keys of the ConfigMap that must not change while pods live, in words; and those that are set node by node.
VERIFIED: Dict[str, str] = {
    "routing-mode": "how packets go between nodes", "tunnel-protocol": "how packets go between nodes", "kube-proxy-replacement": "who does services",
    "ipam": "who gives pods their addresses", "enable-ipv4": "the address families", "enable-ipv6": "the address families",
    "enable-bpf-masquerade": "who masquerades", "enable-ipv4-masquerade": "whether IPv4 is masqueraded",
    "enable-ipv6-masquerade": "whether IPv6 is masqueraded",
    "cni-chaining-mode": "which CNI plug-ins are chained", "enable-host-legacy-routing": "the way between pods and the network",
}
PER_NODE: Tuple[str, ...] = ("datapath-mode", "enable-ipv4-big-tcp", "enable-ipv6-big-tcp", "devices", "bpf-lb-acceleration")


class ValuesError(ValueError):
    """Values that are no mapping, or a chart that is unknown."""


# -- reading values


def _dig(values: Mapping[str, Any], path: str) -> Any:
    """The value at a dotted path; None where there is none."""
    found: Any = values
    for part in path.split("."):
        if not isinstance(found, Mapping) or part not in found:
            return None
        found = found[part]
    return found


def _given(values: Mapping[str, Any], path: str, mode: str) -> Any:
    """The value at a path, or the chart's default where none is set."""
    found = _dig(values, path)
    if found is not None:
        return found
    return _RKE2_DEFAULTS.get(path, _DEFAULTS.get(path)) if mode == "bundled" else _DEFAULTS.get(path)


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return " ".join(str(item) for item in value) if isinstance(value, (list, tuple)) else str(value)


def config_of(values: Mapping[str, Any], mode: str) -> Dict[str, str]:
    """The keys of the ConfigMap ``cilium-config`` that decide something here, as the chart would render them from these values.

    A key whose value neither the values nor the chart's defaults give is left out.
    """
    def get(path: str) -> Any:
        return _given(values, path, mode)

    def family(path: str) -> Optional[bool]:
        # RKE2's chart follows the cluster's ranges where the values say nothing.
        return None if mode == "bundled" and _dig(values, path) is None else is_true(get(path))

    chaining = get("cni.chainingMode") or "none"
    config: Dict[str, Any] = {
        "routing-mode": get("routingMode") or "tunnel",
        "tunnel-protocol": get("tunnelProtocol") or "vxlan",
        "enable-ipv4": family("ipv4.enabled"),
        "enable-ipv6": family("ipv6.enabled"),
        "ipv4-native-routing-cidr": get("ipv4NativeRoutingCIDR") or None,
        "ipv6-native-routing-cidr": get("ipv6NativeRoutingCIDR") or None,
        "auto-direct-node-routes": is_true(get("autoDirectNodeRoutes")),
        "direct-routing-skip-unreachable": is_true(get("directRoutingSkipUnreachable")),
        "datapath-mode": get("bpf.datapathMode"),
        "enable-bpf-masquerade": get("bpf.masquerade"),
        "enable-host-legacy-routing": get("bpf.hostLegacyRouting") if get("bpf.hostLegacyRouting") is not None else True if chaining != "none" else None,
        "bpf-distributed-lru": is_true(get("bpf.distributedLRU.enabled")),
        "bpf-map-dynamic-size-ratio": MAP_RATIO if get("bpf.mapDynamicSizeRatio") is None else get("bpf.mapDynamicSizeRatio"),
        "enable-bpf-tproxy": get("bpf.tproxy"),
        "enable-bpf-clock-probe": is_true(get("bpfClockProbe")),
        "kube-proxy-replacement": "false" if get("kubeProxyReplacement") is None else get("kubeProxyReplacement"),
        "enable-ipv4-big-tcp": is_true(get("enableIPv4BIGTCP")),
        "enable-ipv6-big-tcp": is_true(get("enableIPv6BIGTCP")),
        "enable-tunnel-big-tcp": get("enableTunnelBIGTCP"),
        "enable-ipv4-masquerade": get("enableIPv4Masquerade"),
        "enable-ipv6-masquerade": is_true(get("enableIPv6Masquerade")),
        "bpf-lb-acceleration": get("loadBalancer.acceleration"),
        "bpf-lb-mode": get("loadBalancer.mode"),
        "bpf-lb-dsr-dispatch": get("loadBalancer.dsrDispatch"),
        "enable-bandwidth-manager": is_true(get("bandwidthManager.enabled")),
        "enable-bbr": is_true(get("bandwidthManager.bbr")),
        "enable-bbr-hostns-only": is_true(get("bandwidthManager.bbrHostNamespaceOnly")),
        "devices": get("devices") or None,
        "enable-endpoint-routes": is_true(_dig(values, "endpointRoutes.enabled")),
        "install-no-conntrack-iptables-rules": is_true(get("installNoConntrackIptablesRules")),
        "enable-egress-gateway": is_true(get("egressGateway.enabled")),
        "cni-chaining-mode": chaining,
        "ipam": get("ipam.mode"),
        "cluster-name": get("cluster.name"),
        "underlay-protocol": get("underlayProtocol"),
    }
    if is_true(get("encryption.enabled")):
        config[f"enable-{get('encryption.type')}"] = True
    extra = _dig(values, "extraConfig")
    config.update({str(key): value for key, value in extra.items()} if isinstance(extra, Mapping) else {})
    return {key: _text(value) for key, value in config.items() if value is not None}


def settings(given: Any) -> Optional[cilium_gates.Settings]:
    """A cluster's settings, given as ``{version, config}``, or as ``{version, mode, values}`` where no ConfigMap is there yet; None for None.

    :raises cilium_gates.SettingsError: it is of another shape.
    """
    if isinstance(given, Mapping) and given.get("config") is None and given.get("values") is not None:
        mode = str(given.get("mode") or "bundled")
        if mode not in MODES or not isinstance(given["values"], Mapping):
            raise cilium_gates.SettingsError(f"cilium: found mode {shown(given.get('mode'))}, wanted one of {', '.join(MODES)}, and a mapping as values")
        given = {**given, "config": config_of(given["values"], mode)}
    return cilium_gates.settings(given)


# -- checking values


def _walk(known: Mapping[str, Key], path: Path = ()) -> Iterator[Tuple[Path, Key]]:
    for name, key in known.items():
        yield (*path, name), key
        yield from _walk(key.below, (*path, name))


# Where a key stands, by its name alone.
_PLACES: Dict[str, List[Path]] = {}
for _path, _key in _walk(cilium_keys.KEYS):
    _PLACES.setdefault(_path[-1], []).append(_path)


def _kind(value: Any) -> str:
    """The letter of a value's type; several where it may pass for several."""
    if value is None:
        return "0"
    if isinstance(value, bool):
        return "b"
    if isinstance(value, int):
        return "in"
    if isinstance(value, float):
        return "n"
    return "a" if isinstance(value, (list, tuple)) else "o" if isinstance(value, Mapping) else "s"


class _Check:
    def __init__(self, values: Mapping[str, Any], version: str, mode: str, found: findings_m.Findings) -> None:
        self.values = values
        self.found = found
        self.mode = mode
        self.version = version
        self.number = cilium_gates.version(version)
        self.letter = cilium_keys.letter(self.number, CHARTS[mode])
        if self.letter is None:
            self.letter = [name for name, (chart, _text) in cilium_keys.VERSIONS.items() if chart == CHARTS[mode]][-1]
            self.found.warning(
                "cilium.values_version",
                f"chart {CHARTS[mode]} {version}: its keys are not known here, so those of {cilium_keys.VERSIONS[self.letter][1]} were taken",
                "known are " + ", ".join(text for chart, text in cilium_keys.VERSIONS.values() if chart == CHARTS[mode]),
            )

    # keys and types

    def keys(self, values: Mapping[Any, Any], known: Mapping[str, Key], path: Path) -> None:
        for name, value in values.items():
            place = ".".join((*path, str(name)))
            if place in _REMOVED or any(place.startswith(f"{gone}.") for gone in _REMOVED):
                self.found.error(
                    "cilium.values_removed", f"{place}: found {shown(value)}, a value that is gone; the chart does not render with it",
                    f"use {_INSTEAD[place]}" if place in _INSTEAD else "remove it",
                )
                continue
            key = known.get(str(name))
            if key is None:
                self._unknown(str(name), value, known, path)
                continue
            if self.letter not in key.versions:
                self._other_version(place, key)
                continue
            if key.types and not set(_kind(value)) & set(key.types) and not (value is None or ("o" in key.types and isinstance(value, Mapping))):
                self.found.error(
                    "cilium.values_type",
                    f"{place}: found {shown(value)}, wanted {' or '.join(cilium_keys.TYPES[letter] for letter in sorted(key.types))}", "",
                )
            elif isinstance(value, Mapping) and not key.free:
                if key.below:
                    self.keys(value, key.below, (*path, str(name)))
            elif key.below and not key.types and value is not None and not isinstance(value, Mapping):
                self.found.error("cilium.values_type", f"{place}: found {shown(value)}, wanted a mapping of {', '.join(list(key.below)[:6])}", "")

    def _unknown(self, name: str, value: Any, known: Mapping[str, Key], path: Path) -> None:
        here = [key for key, entry in known.items() if self.letter in entry.versions]
        folded = {key.lower(): key for key in here}
        near = [folded[name.lower()]] if name.lower() in folded else difflib.get_close_matches(name, here, 1, 0.8)
        elsewhere = [place for place in _PLACES.get(name, []) if len(name) >= 8]
        place = ".".join((*path, name))
        message = f"{place}: the chart {CHARTS[self.mode]} {self.version} has no such key (value {shown(value)}) and would pass it over"
        if near:
            self.found.error("cilium.values_unknown_key", message, f"the nearest known key is {'.'.join((*path, near[0]))}")
        elif len(elsewhere) == 1:
            self.found.error("cilium.values_unknown_key", message, f"the key of that name is {'.'.join(elsewhere[0])}")
        else:
            self.found.warning(
                "cilium.values_unknown_key", message, "it is near no key that is known here; remove it, or see the chart whether it has it after all",
            )

    def _other_version(self, place: str, key: Key) -> None:
        having = [cilium_gates.version(text) for letter, (_chart, text) in cilium_keys.VERSIONS.items() if letter in key.versions]
        names = ", ".join(
            text for letter, (chart, text) in cilium_keys.VERSIONS.items() if letter in key.versions and chart == CHARTS[self.mode]
        ) or f"the chart {CHARTS['helm' if self.mode == 'bundled' else 'bundled']}"
        message = f"{place}: the chart {CHARTS[self.mode]} {self.version} does not have this key and would pass it over; {names} has it"
        if having and min(having) > self.number:
            self.found.error("cilium.values_other_version", message, "use such a version, or remove the key")
        else:
            self.found.warning("cilium.values_other_version", message, "remove the key")

    # words

    def words(self) -> None:
        for path, allowed in _WORDS.items():
            value = _dig(self.values, path)
            if value is None or not isinstance(value, str):
                continue
            since, later = _LATER.get(path, ((), ()))
            here = [word for word in allowed if word not in later or not self.number or self.number >= since]
            if value not in here:
                near = difflib.get_close_matches(value, [word for word in here if word], 1, 0.5)
                self.found.error(
                    "cilium.values_word",
                    f"{path}: found {shown(value)}, wanted {', '.join(word for word in here if word)}",
                    f"the nearest is {near[0]}" if near else f"{value} is there from {'.'.join(map(str, since))} on" if value in later else "",
                )

    # what the templates refuse

    def get(self, path: str) -> Any:
        """The value, or the chart's default."""
        return _given(self.values, path, self.mode)

    def _template(self, message: str, hint: str) -> None:
        self.found.error("cilium.values_template", f"{message}: the chart does not render", hint)

    def templates(self) -> None:
        native = self.get("routingMode") == "native"
        replacement = _dig(self.values, "kubeProxyReplacement")
        if replacement is not None and _text(replacement) not in ("true", "false"):
            self._template(f"kubeProxyReplacement: found {shown(replacement)}, wanted true or false", "true replaces kube-proxy")
        masquerades = is_true(self.get("ipv6.enabled")) and is_true(self.get("enableIPv6Masquerade"))
        if native and masquerades and not self.get("ipv6NativeRoutingCIDR") and self._needs_cidr():
            self._template("ipv6NativeRoutingCIDR: missing with routingMode: native and IPv6", "set it to the cluster's IPv6 range for pods")
        if self.get("k8sServiceHost") and _dig(self.values, "k8sServiceHostRef.name"):
            self._template("k8sServiceHost and k8sServiceHostRef: found both, wanted one", "remove one of them")
        if is_true(self.get("bpf.tproxy")) and str(self.get("bpf.datapathMode")).startswith("netkit") and self.number >= (1, 19, 0):
            self._template(f"bpf.tproxy: found true with bpf.datapathMode {self.get('bpf.datapathMode')}", "set bpf.tproxy to false")
        envoy = [name for name in ("ingressController", "gatewayAPI", "envoyConfig") if is_true(_dig(self.values, f"{name}.enabled"))]
        if envoy and self.get("l7Proxy") is False:
            self._template(f"l7Proxy: found false with {', '.join(envoy)}", "set l7Proxy to true")
        if envoy and replacement is None:
            self._template(f"kubeProxyReplacement: missing with {', '.join(envoy)}", "set it to true")
        if is_true(_dig(self.values, "hubble.ui.enabled")) and not is_true(_dig(self.values, "hubble.relay.enabled")):
            self._template("hubble.ui: found enabled without hubble.relay", "enable hubble.relay")
        if is_true(_dig(self.values, "hubble.relay.enabled")) and not is_true(self.get("hubble.enabled")):
            self._template("hubble.relay: found enabled without hubble", "enable hubble")
        name, number = str(self.get("cluster.name")), self.get("cluster.id")
        if not re.fullmatch(r"[a-z0-9]([a-z0-9-]{0,30}[a-z0-9])?", name):
            self._template(f"cluster.name: found {shown(name)}, wanted up to 32 lower-case letters, digits and '-', a letter or digit at both ends", "")
        elif name == "default" and number not in (0, "0", None):
            self._template(f"cluster.name: found default with cluster.id {number}, wanted a name of its own", "")
        if is_true(self.get("operator.setNodeTaints")) and self.get("operator.removeNodeTaints") is False:
            self._template("operator.setNodeTaints: found true without operator.removeNodeTaints", "set operator.removeNodeTaints to true")
        if self.get("ipam.mode") == "eni" and not is_true(_dig(self.values, "eni.enabled")) and self.number >= (1, 20, 0):
            self._template("ipam.mode: found eni without eni.enabled", "set eni.enabled to true")
        if is_true(_dig(self.values, "nativeRoutingCIDRFromClusterPool")):
            ranges = _dig(self.values, "ipam.operator.clusterPoolIPv4PodCIDRList")
            if self.get("ipam.mode") != "cluster-pool" or (isinstance(ranges, list) and len(ranges) != 1):
                self._template(
                    "nativeRoutingCIDRFromClusterPool: found true, wanted ipam.mode cluster-pool with exactly one range", "name ipv4NativeRoutingCIDR",
                )

    def _needs_cidr(self) -> bool:
        return not (
            is_true(_dig(self.values, "ipMasqAgent.enabled")) or self.get("ipam.mode") in ("eni", "alibabacloud")
            or is_true(_dig(self.values, "nativeRoutingCIDRFromClusterPool"))
        )

    # what the agent refuses

    def _agent(self, message: str, hint: str) -> None:
        self.found.error("cilium.values_agent", f"{message}: the chart renders, and the agent exits", hint)

    def agent(self) -> None:
        config = cilium_gates.Settings(self.number, config_of(self.values, self.mode))
        native = not config.tunnel
        ipv4 = config.on("enable-ipv4", True) and config.on("enable-ipv4-masquerade", True)
        if native and ipv4 and self._needs_cidr() and "ipv4-native-routing-cidr" not in config.config:
            self._agent("ipv4NativeRoutingCIDR: missing with routingMode: native", "set it to the cluster's range for pods (RKE2: cluster-cidr)")
        if config.on("auto-direct-node-routes") and not native:
            self._agent("autoDirectNodeRoutes: found true with a tunnel, wanted routingMode: native", "set one of them")
        if config.on("enable-bpf-masquerade") and not config.masquerades:
            self._agent("bpf.masquerade: found true, but nothing is masqueraded", "set bpf.masquerade to false, or enableIPv4Masquerade to true")
        ratio = config.config["bpf-map-dynamic-size-ratio"]
        try:
            share = float(ratio)
        except ValueError:
            share = -1.0
        if share == 0 and config.on("bpf-distributed-lru"):
            self._agent("bpf.distributedLRU: found enabled with bpf.mapDynamicSizeRatio 0", f"{MAP_RATIO} is Cilium's own")
        elif share != 0 and not 0 < share <= 1:
            self._agent(f"bpf.mapDynamicSizeRatio: found {ratio}, wanted more than 0 and at most 1", f"{MAP_RATIO} is Cilium's own")
        if config.on("install-no-conntrack-iptables-rules") and not (
            native and config.on("kube-proxy-replacement") and config.on("enable-bpf-masquerade") and config.on("enable-ipv4", True)
        ):
            self._agent(
                "installNoConntrackIptablesRules: found true, wanted with it routingMode: native, kubeProxyReplacement, bpf.masquerade and IPv4",
                "set it to false",
            )
        if config.on("enable-bbr") and not config.on("enable-bandwidth-manager"):
            self.found.warning("cilium.values_bbr", "bandwidthManager.bbr: found true without bandwidthManager.enabled, so it does nothing", "enable both")
        if config.on("kube-proxy-replacement") and not self.get("k8sServiceHost") and not _dig(self.values, "k8sServiceHostRef.name"):
            self.found.error(
                "cilium.values_api_host",
                "k8sServiceHost: missing with kubeProxyReplacement: true; without kube-proxy the agent cannot reach the API server by its service",
                'k8sServiceHost: localhost and k8sServicePort: "6443" is RKE2\'s own load balancer on every node',
            )
        for item in cilium_gates.check_cluster(_wanted(config), config):
            self.found.add(item["severity"], item["id"], _as_values(item["message"]), _as_values(item["hint"]))

    # what RKE2 adds

    def bundled(self) -> None:
        for path in _RKE2_SETS:
            if _dig(self.values, path) not in (None, ""):
                self.found.error(
                    "cilium.values_rke2_sets", f"{path}: found {shown(_dig(self.values, path))}, but RKE2 sets it itself, whatever stands here", "remove it",
                )
        if self.get("cni.chainingMode") in ("", "none") and not is_true(self.get("kubeProxyReplacement")):
            self.found.error(
                "cilium.values_host_ports",
                "cni.chainingMode: found none without kubeProxyReplacement: nobody would serve the hostPorts of pods, such as those of RKE2's ingress",
                "set kubeProxyReplacement to true, with disable-kube-proxy: true in RKE2's configuration, or leave cni.chainingMode as portmap",
            )

    def nodes(self, count: int) -> None:
        replicas = self.get("operator.replicas")
        if isinstance(replicas, int) and replicas > max(count, 1):
            self.found.warning(
                "cilium.values_operator",
                f"operator.replicas: found {replicas} in a cluster of {count} nodes: each wants a node of its own, so one stays pending",
                f"set operator.replicas to {max(count, 1)}",
            )


def _wanted(config: cilium_gates.Settings) -> Dict[str, Any]:
    """The knobs that values set on every node."""
    families = [family for family in IP_FAMILIES if config.on(f"enable-{family}-big-tcp")]
    return {
        "cilium.datapath_mode": config.config.get("datapath-mode", "veth"), "cilium.big_tcp": families,
        "cilium.xdp": config.config.get("bpf-lb-acceleration", "disabled"),
        "cilium.bandwidth_manager": {"enabled": config.on("enable-bandwidth-manager"), "bbr": config.on("enable-bbr")},
    }


def _as_values(text: str) -> str:
    """A finding about the policy's keys, about those of the values."""
    for ours, theirs in (
        ("network.datapath_mode", "bpf.datapathMode"), ("network.big_tcp", "BIG TCP (enableIPv4BIGTCP, enableIPv6BIGTCP)"),
        ("network.xdp", "loadBalancer.acceleration"), ("network.bandwidth_manager", "bandwidthManager"),
    ):
        text = text.replace(ours, theirs)
    return text


def check_values(values: Any, version: str, mode: str, nodes: Optional[int] = None) -> List[Dict[str, str]]:
    """All that is wrong with the values of a chart; findings ``cilium.*``, errors first.

    An unknown key that is near a known one is an error, one that is near none a warning, since charts have a few that stand in no list.

    :param version: of the chart or of Cilium. :param mode: one of ``MODES``. :param nodes: of the cluster, where that is known.
    :raises ValuesError: unknown mode or version.
    """
    if mode not in MODES:
        raise ValuesError(f"mode: found {shown(mode)}, wanted one of {', '.join(MODES)}")
    if not cilium_gates.version(version):
        raise ValuesError(f"version: found {shown(version)}, wanted a version such as 1.19.6")
    found = findings_m.Findings()
    values = {} if values is None else values
    if not isinstance(values, Mapping):
        found.error("cilium.values_type", f"values: found {shown(values)}, wanted a mapping", "")
        return found.items
    check = _Check(values, version, mode, found)
    check.keys(values, cilium_keys.KEYS, ())
    check.words()
    if not any(item["id"] == "cilium.values_type" for item in found.items):
        # With values of other types the rules below would say what is not so.
        check.templates()
        check.agent()
        if mode == "bundled":
            check.bundled()
        if nodes is not None:
            check.nodes(nodes)
    return found.sorted()


# -- making values


def merge(*parts: Mapping[str, Any]) -> Dict[str, Any]:
    """Mappings one over the other, as helm does: of two mappings their union, of anything else the later."""
    result: Dict[str, Any] = {}
    for part in parts:
        for key, value in part.items():
            if isinstance(value, Mapping) and isinstance(result.get(key), Mapping):
                result[key] = merge(result[key], value)
            else:
                result[key] = copy.deepcopy(value)
    return result


def cluster_values(network: Mapping[str, Any]) -> Dict[str, Any]:
    """Values of what is the cluster's and may change while pods live: maps, clock, bandwidth manager. What the policy leaves alone is left out.

    :param network: ``network`` of a checked policy.
    """
    result: Dict[str, Any] = {}
    maps, manager = network["bpf_maps"], network["bandwidth_manager"]
    if maps is not None:
        result["bpf"] = {"distributedLRU": {"enabled": maps["distributed_lru"]}, "mapDynamicSizeRatio": maps["ratio"]}
    if network["clock_probe"] is not None:
        result["bpfClockProbe"] = network["clock_probe"]
    if manager is not None:
        result["bandwidthManager"] = {"enabled": manager["enabled"], "bbr": manager["bbr"]}
    return result


# The keys that these are of.
_CLUSTER_KEYS: Tuple[str, ...] = ("bpf.distributedLRU", "bpf.mapDynamicSizeRatio", "bpfClockProbe", "bandwidthManager")


def without_cluster_values(values: Mapping[str, Any]) -> Dict[str, Any]:
    """Values without those of :func:`cluster_values`: what a cluster was made with, and what is not changed under its pods."""
    result = copy.deepcopy(dict(values))
    for path in _CLUSTER_KEYS:
        place, _dot, name = path.rpartition(".")
        below = _dig(result, place) if place else result
        if isinstance(below, dict):
            below.pop(name, None)
    return result


def node_values(network: Mapping[str, Any]) -> Dict[str, Any]:
    """Values of what nodes may have each for itself, as the default of all: datapath mode, BIG TCP, devices, XDP.

    ``uplink`` is each node's own, and not here.
    """
    result: Dict[str, Any] = {}
    if network["datapath_mode"] is not None:
        result["bpf"] = {"datapathMode": network["datapath_mode"]}
    if network["big_tcp"] is not None:
        result.update(enableIPv4BIGTCP="ipv4" in network["big_tcp"], enableIPv6BIGTCP="ipv6" in network["big_tcp"])
    if network["devices"] not in (None, UPLINK):
        # As one text: charts before 1.20 take no list.
        result["devices"] = " ".join(sorted(network["devices"]))
    if network["xdp"] is not None:
        result["loadBalancer"] = {"acceleration": network["xdp"]}
    return result


def profile(
    network: Mapping[str, Any],
    mode: str,
    cidrs: Sequence[str],
    nodes: int,
    api: Tuple[str, int] = ("localhost", 6443),
) -> Tuple[Dict[str, Any], List[Dict[str, str]]]:
    """Values for a new cluster: native routing, no kube-proxy, BPF masquerade and BPF host routing, and what the policy asks for.

    :param network: ``network`` of a checked policy. :param mode: one of ``MODES``.
    :param cidrs: the cluster's ranges for pods, one for each address family, as RKE2 has them (cluster-cidr).
    :param nodes: how many the cluster has or will have. :param api: where every node reaches the API server without the service.
    :returns: the values and what is missing for them, as findings.
    """
    found = findings_m.Findings()
    ranges = {"ipv6" if ":" in cidr else "ipv4": cidr for cidr in cidrs}
    if not ranges:
        found.error("cilium.no_cidr", "the cluster's ranges for pods are not known, and native routing needs them", "see cluster-cidr of RKE2's configuration")
    if network["routing"] is None:
        found.error(
            "cilium.routing_unstated",
            "network.routing: found null, wanted direct or bgp: with native routing somebody has to know the way to each node's pods",
            "direct, if all nodes are in one layer 2 network and Cilium may set the routes; bgp, if routers learn them or have them already",
        )
    values: Dict[str, Any] = {
        "routingMode": "native",
        **{f"{family}NativeRoutingCIDR": ranges[family] for family in IP_FAMILIES if family in ranges},
        "autoDirectNodeRoutes": network["routing"] == "direct",
        "kubeProxyReplacement": True,
        "k8sServiceHost": api[0],
        "k8sServicePort": str(api[1]),
        "bpf": {"masquerade": True, "hostLegacyRouting": False},
        "cni": {"chainingMode": "none"},
        "operator": {"replicas": 1 if nodes < 2 else 2},
        # The agents are restarted node by node, each in its turn.
        "updateStrategy": {"type": "OnDelete"},
    }
    if mode == "helm":
        values.update({family: {"enabled": family in ranges} for family in IP_FAMILIES}, ipam={"mode": "kubernetes"})
    return merge(values, cluster_values(network), node_values(network)), found.items


# -- a cluster that has pods


def live_differences(now: Mapping[str, str], values: Mapping[str, Any], mode: str) -> List[Dict[str, str]]:
    """What values would change that must not change under pods: errors, one for each key of the ConfigMap.

    :param now: data of the ConfigMap ``cilium-config`` as it is. :param values: all values that the chart would get.
    """
    found = findings_m.Findings()
    wanted = config_of(values, mode)
    before = cilium_gates.Settings((), now)
    defaults = {"routing-mode": "tunnel", "tunnel-protocol": "vxlan", "kube-proxy-replacement": "false", "cni-chaining-mode": "none", "ipam": "cluster-pool",
                "datapath-mode": "veth", "bpf-lb-acceleration": "disabled", "devices": ""}
    for key in (*VERIFIED, *PER_NODE):
        default = defaults.get(key, "true" if (key.endswith("-masquerade") and "bpf" not in key) or key == "enable-ipv4" else "false")
        here, there = before.config.get(key, default).strip().lower(), wanted.get(key, default).strip().lower()
        if key == "tunnel-protocol" and "native" in (before.config.get("routing-mode"), wanted.get("routing-mode")):
            continue
        if mode == "bundled" and key in ("enable-ipv4", "enable-ipv6") and _dig(values, f"{key[len('enable-'):]}.enabled") is None:
            # RKE2's chart follows the cluster's ranges.
            continue
        if here == there:
            continue
        if key in VERIFIED:
            found.error(
                "cilium.live_change",
                f"{key}: found {here or 'nothing'} in the cluster, and the values make it {there or 'nothing'}: {VERIFIED[key]} is not changed under pods",
                "leave it as it is, or build a new cluster",
            )
        else:
            found.error(
                "cilium.live_node_change",
                f"{key}: found {here or 'nothing'} in the cluster, and the values make it {there or 'nothing'} for all nodes at once",
                "network of locality_policy changes it node by node, each drained",
            )
    return found.items


__all__ = (
    "CHARTS", "MODES", "PER_NODE", "VERIFIED", "ValuesError", "check_values", "cluster_values", "config_of", "live_differences", "merge", "node_values",
    "profile", "settings", "without_cluster_values",
)
