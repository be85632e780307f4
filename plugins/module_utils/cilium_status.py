# Copyright (c) 2026 The inferops.locality authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What Cilium's agent says that it does: ``cilium-dbg status`` as JSON or as text of the versions 1.7 to 1.21, in one shape.

The agent gives up netkit (``auto``), BIG TCP, the clock probe, XDP (``best-effort``) and BPF host routing without an error, so that what was asked for is
judged by this and not by what was written. What a status does not say is null: an old text without ``Device Mode`` is not veth.
"""

from __future__ import annotations

import json
import re
import textwrap
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple

from ansible_collections.inferops.locality.plugins.module_utils.topo_matrix import without_colours

FAMILIES: Tuple[str, ...] = ("ipv4", "ipv6")
DATAPATH_MODES: Tuple[str, ...] = ("veth", "netkit", "netkit-l2")
# What a device takes without BIG TCP: a family whose sizes are not above it has nothing of it.
PLAIN_SIZE = 65536

_NAME = re.compile(r"[A-Za-z0-9_.:@-]{1,15}")
# Posters replace addresses by x.x.x.x.
_ADDRESS = re.compile(r"[0-9a-fA-FxX.:%]*[.:][0-9a-fA-FxX.:%]*")
_XDP = {"native": "native", "generic": "generic", "best-effort": "best-effort", "none": "disabled", "disabled": "disabled", "testing-only": "generic"}
_FEATURES = ("NodePort", "HostPort", "ExternalIPs", "HostReachableServices", "SessionAffinity")


_KEYS = frozenset((
    "cilium", "datapath-mode", "configured-datapath-mode", "attach-mode", "ipv4-big-tcp", "ipv6-big-tcp", "routing", "host-routing", "kube-proxy-replacement",
    "masquerading", "clock-source", "bandwidth-manager", "bpf-maps", "cni-chaining", "encryption",
))


def empty() -> Dict[str, Any]:
    """The shape, with nothing known.

    ``big_tcp`` has sizes in bytes; ``devices`` are as the agent lists them, its own (``cilium_wg0``) among them; ``map_ratio`` is 0.0 where maps have fixed
    sizes; ``problems`` is ``[{line, reason}]``.
    """
    return {
        "version": None, "health": None, "datapath_mode": None, "datapath_mode_configured": None, "attach_mode": None,
        "big_tcp": {family: {"enabled": None, "gro": None, "gso": None} for family in FAMILIES},
        "routing": None, "tunnel_protocol": None, "host_routing": None, "kube_proxy_replacement": None, "devices": None, "direct_routing_device": None,
        "xdp": None, "masquerade": None, "clock_source": None, "bandwidth_manager": {"enabled": None, "bbr": None}, "map_ratio": None,
        "cni_chaining": None, "encryption": None, "problems": [],
    }


def parse(text: str) -> Dict[str, Any]:
    """JSON or text, as :func:`empty` has it. Never fails: what cannot be read is null and a problem."""
    text = without_colours(text)
    if text.lstrip().startswith("{"):
        try:
            data = json.loads(text)
        except ValueError as error:
            status = empty()
            _problem(status, "JSON", f"cannot be read, it may be cut: {error}")
            return status
        return from_json(data)
    return from_text(text)


def _problem(status: Dict[str, Any], line: str, reason: str) -> None:
    line = " ".join(line.split())
    status["problems"].append({"line": line if len(line) <= 160 else line[:157] + "...", "reason": reason})


def _version(message: Any) -> Optional[str]:
    found = re.match(r"v?(\d+\.\d+\.\d+[\w.+-]*)", str(message or ""))
    return found.group(1) if found else None


# -- JSON


def from_json(data: Any) -> Dict[str, Any]:
    """A ``StatusResponse`` of the agent's API. In an object that is there, a number or boolean that is absent is zero or false: Go leaves those out."""
    status = empty()
    if not isinstance(data, Mapping) or not _KEYS & set(data):
        _problem(status, "JSON", "is no status of an agent")
        return status

    def part(*path: str) -> Optional[Mapping[str, Any]]:
        here: Any = data
        for key in path:
            here = here.get(key)
            if here is None:
                return None
            if not isinstance(here, Mapping):
                _problem(status, ".".join(path), "is no object")
                return None
        return here

    def word(of: Mapping[str, Any], key: str, known: Mapping[str, Any], line: str) -> Any:
        value = of.get(key)
        if value in (None, ""):
            return None
        if not isinstance(value, str) or value.lower() not in known:
            _problem(status, f"{line}: {value!r}", "is no value that is known here")
            return None
        return known[value.lower()]

    daemon = part("cilium")
    if daemon is not None:
        status["health"], status["version"] = str(daemon.get("state") or "") or None, _version(daemon.get("msg"))
    modes = {mode: mode for mode in DATAPATH_MODES}
    status["datapath_mode"] = word(data, "datapath-mode", modes, "datapath-mode")
    status["datapath_mode_configured"] = word(data, "configured-datapath-mode", {**modes, "auto": "auto"}, "configured-datapath-mode")
    status["attach_mode"] = word(data, "attach-mode", {"tcx": "tcx", "legacy tc": "legacy-tc"}, "attach-mode")
    for family in FAMILIES:
        big = part(f"{family}-big-tcp")
        if big is not None:
            status["big_tcp"][family] = {
                "enabled": bool(big.get("enabled")), "gro": _size(status, big.get("maxGRO"), f"{family}-big-tcp.maxGRO"),
                "gso": _size(status, big.get("maxGSO"), f"{family}-big-tcp.maxGSO"),
            }
    routing = part("routing")
    if routing is not None:
        status["routing"] = word(routing, "inter-host-routing-mode", {"native": "native", "tunnel": "tunnel"}, "routing")
        status["host_routing"] = word(routing, "intra-host-routing-mode", {"bpf": "bpf", "legacy": "legacy"}, "routing")
        status["tunnel_protocol"] = routing.get("tunnel-protocol") or None
    old = part("host-routing")
    if old is not None and status["host_routing"] is None:
        status["host_routing"] = word(old, "mode", {"bpf": "bpf", "legacy": "legacy"}, "host-routing")
    _json_services(status, part, word)
    masquerading = part("masquerading")
    if masquerading is not None:
        protocols = part("masquerading", "enabledProtocols")
        on = bool(masquerading.get("enabled")) if protocols is None else bool(protocols.get("ipv4") or protocols.get("ipv6"))
        status["masquerade"] = word(masquerading, "mode", {"bpf": "bpf", "iptables": "iptables"}, "masquerading") if on else "disabled"
    clock = part("clock-source")
    if clock is not None:
        status["clock_source"] = word(clock, "mode", {"jiffies": "jiffies", "ktime": "ktime"}, "clock-source")
    manager = part("bandwidth-manager")
    if manager is not None:
        congestion = word(manager, "congestionControl", {"bbr": True, "cubic": False}, "bandwidth-manager")
        status["bandwidth_manager"] = {"enabled": True, "bbr": congestion} if manager.get("enabled") else {"enabled": False, "bbr": False}
    maps = part("bpf-maps")
    if maps is not None:
        ratio = maps.get("dynamic-size-ratio") or 0
        if isinstance(ratio, (int, float)) and not isinstance(ratio, bool):
            status["map_ratio"] = float(ratio)
        else:
            _problem(status, f"bpf-maps.dynamic-size-ratio: {ratio!r}", "is no number")
    for key, name in (("cni-chaining", "cni_chaining"), ("encryption", "encryption")):
        one = part(key)
        if one is not None:
            status[name] = str(one.get("mode") or "none" if key == "cni-chaining" else one.get("mode") or "disabled").lower()
    stale = data.get("stale")
    if stale:
        _problem(status, "stale", f"the agent has not refreshed {', '.join(sorted(map(str, stale)))}: what it says of these may be old")
    return status


def _json_services(status: Dict[str, Any], part: Any, word: Any) -> None:
    services = part("kube-proxy-replacement")
    if services is None:
        return
    mode = services.get("mode")
    devices = services.get("deviceList")
    names = [device.get("name") for device in devices if isinstance(device, Mapping)] if isinstance(devices, list) else services.get("devices")
    _services(status, str(mode or ""), bool(names))
    if status["kube_proxy_replacement"] is not False and isinstance(names, list) and names:
        if all(isinstance(name, str) and _NAME.fullmatch(name) for name in names):
            status["devices"] = sorted(set(names))
        else:
            _problem(status, f"kube-proxy-replacement.deviceList: {names!r}", "has what is no name of an interface")
    status["direct_routing_device"] = services.get("directRoutingDevice") or None
    port = part("kube-proxy-replacement", "features", "nodePort")
    if port is not None:
        status["xdp"] = word(port, "acceleration", _XDP, "kube-proxy-replacement.features.nodePort.acceleration") if port.get("enabled") else "disabled"
    elif status["kube_proxy_replacement"] is False:
        status["xdp"] = "disabled"


def _size(status: Dict[str, Any], value: Any, line: str) -> Optional[int]:
    if value is None:
        return None
    if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        return value
    _problem(status, f"{line}: {value!r}", "is no size in bytes")
    return None


def _services(status: Dict[str, Any], mode: str, devices: bool) -> None:
    """The mode of the replacement of kube-proxy, which had other words before 1.14."""
    low = mode.lower()
    if low in ("true", "strict"):
        status["kube_proxy_replacement"] = True
    elif low in ("false", "disabled") or (low in ("probe", "partial") and not devices):
        status["kube_proxy_replacement"] = False
    elif low in ("probe", "partial"):
        _problem(status, f"KubeProxyReplacement: {mode}", "replaces a part of kube-proxy, which part is not told")
    elif mode:
        _problem(status, f"KubeProxyReplacement: {mode}", "is no value that is known here")


# -- text

_LABEL = re.compile(r"([A-Za-z0-9][A-Za-z0-9 /]*?):(?:\s+(.*))?$")
_BRACKETS = re.compile(r"\[([^\[\]]*)\]")


def from_text(text: str) -> Dict[str, Any]:
    """The output for eyes, with ``--verbose`` or without, which has neither the clock source nor XDP."""
    status = empty()
    found: Dict[str, str] = {}
    details: Dict[str, str] = {}
    twice = set()
    lines = textwrap.dedent(text.replace("\r\n", "\n").expandtabs()).split("\n")
    cut = lines.pop() if lines[-1].strip() else ""
    block = ""
    for line in lines:
        match = _LABEL.match(line.strip())
        if match is None:
            continue
        label, value = match.group(1), (match.group(2) or "").strip()
        inside = line.startswith(" ")
        if not inside:
            block = label
        elif block != "KubeProxyReplacement Details":
            continue
        known = details if inside else found
        if label in known and known[label] != value and (label in _TEXT or inside):
            twice.add(label)
        known.setdefault(label, value)
    if cut:
        _problem(status, cut, "is the last line and does not end: it may be cut, and is not read")
    for label, read in _TEXT.items():
        if label in twice:
            _problem(status, label, "stands there more than once with other values: of which agent it is cannot be told")
        elif label in found:
            read(status, label, found[label])
    xdp = details.get("XDP Acceleration")
    if xdp is not None and "XDP Acceleration" not in twice:
        status["xdp"] = _one(status, "XDP Acceleration", xdp, _XDP)
    if status["kube_proxy_replacement"] is False and status["xdp"] is None:
        status["xdp"] = "disabled"
    if not any(label in found for label in _TEXT):
        _problem(status, lines[0] if lines else "", "no line of cilium-dbg status was found")
    return status


def _one(status: Dict[str, Any], label: str, value: str, known: Mapping[str, Any]) -> Any:
    if value.lower() in known:
        return known[value.lower()]
    _problem(status, f"{label}: {value}", "is no value that is known here, or is cut")
    return None


def _read_daemon(status: Dict[str, Any], label: str, value: str) -> None:
    words = value.split()
    if words:
        status["health"] = words[0]
        status["version"] = _version(words[1]) if len(words) > 1 else None


def _read_mode(status: Dict[str, Any], label: str, value: str) -> None:
    match = re.fullmatch(r"(\S+)(?:\s+\[Configured: (\S+)\])?", value)
    if match is None or match.group(1) not in DATAPATH_MODES:
        _problem(status, f"{label}: {value}", "is no value that is known here, or is cut")
        return
    status["datapath_mode"], status["datapath_mode_configured"] = match.group(1), match.group(2)


def _read_attach(status: Dict[str, Any], label: str, value: str) -> None:
    status["attach_mode"] = _one(status, label, value, {"tcx": "tcx", "legacy tc": "legacy-tc"})


def _read_big_tcp(status: Dict[str, Any], label: str, value: str) -> None:
    big = status["big_tcp"][label[:4].lower()]
    match = re.fullmatch(r"Enabled\s+\[(\d+)(?:,\s*(\d+))?\]", value)
    if value == "Disabled":
        big["enabled"] = False
    elif match is not None:
        big.update({"enabled": True, "gro": int(match.group(1)), "gso": int(match.group(2) or match.group(1))})
    else:
        _problem(status, f"{label}: {value}", "wanted Disabled, or Enabled with sizes such as [196608]")


def _read_routing(status: Dict[str, Any], label: str, value: str) -> None:
    match = re.fullmatch(r"Network: (Native|Tunnel)(?:\s+\[(\w+)\])?\s+Host: (BPF|Legacy)", value)
    if match is None:
        _problem(status, f"{label}: {value}", "wanted such as Network: Native   Host: BPF")
        return
    status["routing"], status["tunnel_protocol"], status["host_routing"] = match.group(1).lower(), match.group(2), match.group(3).lower()


def _read_host_routing(status: Dict[str, Any], label: str, value: str) -> None:
    status["host_routing"] = _one(status, label, value, {"bpf": "bpf", "legacy": "legacy"})


def _read_services(status: Dict[str, Any], label: str, value: str) -> None:
    mode, _blank, rest = value.partition(" ")
    rest = rest.strip()
    match = re.fullmatch(r"\[(.*)\]", rest)
    inner = match.group(1).strip() if match else ""
    if rest and match is None:
        _problem(status, f"{label}: {value}", "has brackets that do not end")
    _services(status, mode, bool(rest and inner) or (bool(rest) and match is None))
    if inner.startswith(_FEATURES):
        # Up to 1.7 the brackets have features.
        xdp = re.search(r"XDP: ([A-Za-z-]+)", inner)
        status["xdp"] = _one(status, "XDP", xdp.group(1), _XDP) if xdp else None
        return
    devices: List[str] = []
    for item in inner.split(",") if inner else []:
        words = item.replace("(Direct Routing)", "").split()
        if not words or not _NAME.fullmatch(words[0]) or not all(_ADDRESS.fullmatch(word) for word in words[1:]):
            _problem(status, f"{label}: {item}", "is no interface with its addresses")
            return
        devices.append(words[0])
        if "(Direct Routing)" in item:
            status["direct_routing_device"] = words[0]
    if devices:
        status["devices"] = sorted(set(devices))


def _read_masquerading(status: Dict[str, Any], label: str, value: str) -> None:
    match = re.fullmatch(r"(BPF|IPTables)(?: \(ip-masq-agent\))?(?:\s.*)?\[IPv4: (Enabled|Disabled), IPv6: (Enabled|Disabled)\]", value)
    if value == "Disabled":
        status["masquerade"] = "disabled"
    elif match is not None:
        status["masquerade"] = match.group(1).lower() if "Enabled" in match.groups() else "disabled"
    else:
        _problem(status, f"{label}: {value}", "wanted such as BPF   [eth0]   10.42.0.0/16 [IPv4: Enabled, IPv6: Disabled]")


def _read_clock(status: Dict[str, Any], label: str, value: str) -> None:
    match = re.fullmatch(r"(jiffies)\s+\[\d+ Hz\]|(ktime)", value)
    if match is None:
        _problem(status, f"{label}: {value}", "wanted ktime, or jiffies with its rate such as [1000 Hz]")
        return
    status["clock_source"] = match.group(1) or match.group(2)


def _read_bandwidth(status: Dict[str, Any], label: str, value: str) -> None:
    if value == "Disabled":
        status["bandwidth_manager"] = {"enabled": False, "bbr": False}
        return
    match = re.fullmatch(r"EDT with BPF((?:\s*\[[^\[\]]*\])*)", value)
    if match is None:
        _problem(status, f"{label}: {value}", "wanted Disabled, or such as EDT with BPF [BBR] [eth0]")
        return
    groups = [group.strip().upper() for group in _BRACKETS.findall(match.group(1))]
    # Versions without BBR have one pair of brackets, with devices: whether pods have it is not told.
    status["bandwidth_manager"] = {"enabled": True, "bbr": {"BBR": True, "CUBIC": False}.get(groups[0]) if groups else None}


def _read_maps(status: Dict[str, Any], label: str, value: str) -> None:
    match = re.fullmatch(r"dynamic sizing: (?:(off)|on \(ratio: ([0-9.]+)\))", value)
    try:
        if match is None:
            raise ValueError(value)
        status["map_ratio"] = 0.0 if match.group(1) else float(match.group(2))
    except ValueError:
        _problem(status, f"{label}: {value}", "wanted dynamic sizing: off, or on with its ratio")


def _read_chaining(status: Dict[str, Any], label: str, value: str) -> None:
    status["cni_chaining"] = value.lower() or None


def _read_encryption(status: Dict[str, Any], label: str, value: str) -> None:
    status["encryption"] = value.partition(" ")[0].lower() or None


_TEXT = {
    "Cilium": _read_daemon, "Device Mode": _read_mode, "Attach Mode": _read_attach, "IPv4 BIG TCP": _read_big_tcp, "IPv6 BIG TCP": _read_big_tcp,
    "Host Routing": _read_host_routing, "Routing": _read_routing, "KubeProxyReplacement": _read_services, "Masquerading": _read_masquerading,
    "Clock Source for BPF": _read_clock, "BandwidthManager": _read_bandwidth, "BPF Maps": _read_maps, "CNI Chaining": _read_chaining,
    "Encryption": _read_encryption,
}


# -- knobs


def running(status: Mapping[str, Any]) -> Dict[str, Any]:
    """A status as knobs, in the form that a plan has; those that it does not tell are absent. ``distributed_lru`` is never told and null."""
    found: Dict[str, Any] = {
        "cilium.datapath_mode": status["datapath_mode"], "cilium.xdp": status["xdp"], "cilium.routing": status["routing"],
        "cilium.kube_proxy_replacement": status["kube_proxy_replacement"], "cilium.host_routing": status["host_routing"],
        "cilium.masquerade": status["masquerade"],
    }
    big = {family: _in_force(status["big_tcp"][family]) for family in FAMILIES}
    if None not in big.values():
        found["cilium.big_tcp"] = [family for family in FAMILIES if big[family]]
    if status["devices"] is not None:
        # The agent adds devices of its own, such as that of WireGuard.
        found["cilium.devices"] = [name for name in status["devices"] if not name.startswith("cilium_")]
    if status["map_ratio"] is not None:
        found["cilium.bpf_maps"] = {"distributed_lru": None, "ratio": status["map_ratio"]}
    if status["clock_source"] is not None:
        found["cilium.clock"] = status["clock_source"] == "jiffies"
    if None not in status["bandwidth_manager"].values():
        found["cilium.bandwidth_manager"] = dict(status["bandwidth_manager"])
    return {knob: value for knob, value in found.items() if value is not None}


def _in_force(big: Mapping[str, Any]) -> Optional[bool]:
    """Whether a family has sizes above those without BIG TCP: where one device takes no more, the agent says Enabled all the same."""
    if not big["enabled"]:
        return big["enabled"]
    if big["gro"] is None or big["gso"] is None:
        return None
    return bool(min(big["gro"], big["gso"]) > PLAIN_SIZE)


def differing_maps(wanted: Mapping[str, Any], found: Mapping[str, Any]) -> List[str]:
    """Parts of ``cilium.bpf_maps`` in which an agent differs; all where it tells nothing of them. The text has six digits of the ratio."""
    told = [key for key in wanted if found.get(key) is not None]
    return [
        key for key in told or wanted
        if not told or (round(float(found[key]), 6) != round(float(wanted[key]), 6) if key == "ratio" else found[key] != wanted[key])
    ]


def read_back(wanted: Mapping[str, Any], status: Mapping[str, Any]) -> List[Dict[str, Any]]:
    """Is each knob of Cilium that a plan wants in force? ``[{knob, wanted, found, in_force, reason}]`` in the order of ``wanted``.

    :param wanted: knobs of a plan; those of other layers are not looked at.
    :param status: what :func:`parse` returned. What it does not tell is not in force.
    """
    known = running(status)
    result = []
    for knob, value in wanted.items():
        if not knob.startswith("cilium."):
            continue
        found = known.get(knob)
        in_force = found is not None and (not differing_maps(value, found) if knob == "cilium.bpf_maps" else value == found)
        result.append({
            "knob": knob, "wanted": value, "found": found, "in_force": in_force,
            "reason": None if in_force else "; ".join(_why(knob, found, status)),
        })
    return result


def _why(knob: str, found: Any, status: Mapping[str, Any]) -> Sequence[str]:
    """What a status says about the cause."""
    if found is None:
        return ["the agent's status does not tell it"]
    words = ["the agent runs with another value than asked for"]
    legacy = status["host_routing"] == "legacy"
    if knob == "cilium.datapath_mode" and status["datapath_mode_configured"] == "auto":
        words.append("datapath mode auto chose it: the kernel has no netkit, or the agent could not use it")
    if knob == "cilium.big_tcp":
        words += [
            f"{family} is enabled with sizes {big['gro']} (GRO) and {big['gso']} (GSO), no larger than without: a device among cilium.devices takes no more"
            for family, big in status["big_tcp"].items() if big["enabled"] and _in_force(big) is False
        ]
    if knob in ("cilium.big_tcp", "cilium.datapath_mode") and legacy:
        words.append("host routing is legacy, with which it does not work")
    if knob == "cilium.host_routing" and legacy:
        if status["cni_chaining"] not in (None, "none"):
            words.append(f"CNI chaining mode {status['cni_chaining']} turns legacy host routing on")
        if status["kube_proxy_replacement"] is False:
            words.append("kube-proxy is not replaced")
        if status["masquerade"] == "iptables":
            words.append("iptables masquerades")
    if knob == "cilium.clock" and found is False:
        words.append("the time is taken from ktime: the tick of the kernel was not found, or the probe is off")
    return words


__all__ = ("DATAPATH_MODES", "FAMILIES", "PLAIN_SIZE", "differing_maps", "empty", "from_json", "from_text", "parse", "read_back", "running")
