# Copyright (c) 2026 The inferops.locality authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Statuses of Cilium's agent, recorded or written by us: there is no agent here."""

from __future__ import annotations

import copy
import json
import re
from pathlib import Path
from typing import Any, Dict, List

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ansible_collections.inferops.locality.plugins.module_utils import cilium_status
from ansible_collections.inferops.locality.tests.unit import cilium_answers as answers


def failed(wanted: Dict[str, Any], status: Dict[str, Any]) -> List[str]:
    return [entry["knob"] for entry in cilium_status.read_back(wanted, status) if not entry["in_force"]]


@pytest.mark.parametrize("text", [answers.text(answers.GOOD), answers.TEXT], ids=["json", "text"])
def test_a_recorded_agent_that_does_what_was_asked_is_in_force(text: str) -> None:
    status = cilium_status.parse(text)
    assert status["problems"] == []
    assert status["version"] == "1.20.1" and status["attach_mode"] == "tcx" and status["encryption"] == "disabled" and status["cni_chaining"] == "none"
    assert status["big_tcp"]["ipv4"] == {"enabled": True, "gro": 196608, "gso": 196608}
    assert failed(answers.KNOBS, status) == []
    assert cilium_status.running(status) == {**answers.KNOBS, "cilium.bpf_maps": {"distributed_lru": None, "ratio": 0.0025}}


def test_json_and_text_of_the_same_agent_are_read_alike() -> None:
    from_json, from_text = cilium_status.parse(answers.text(answers.GOOD)), cilium_status.parse(answers.TEXT)
    # The text tells what was configured only where it differs.
    assert from_json.pop("datapath_mode_configured") == "netkit" and from_text.pop("datapath_mode_configured") is None
    from_json["big_tcp"]["ipv6"] = {"enabled": False, "gro": None, "gso": None}
    assert from_json == from_text


def test_a_recorded_agent_that_fell_back_fails_for_each_thing_that_did() -> None:
    status = cilium_status.parse(answers.text(answers.FALLEN_BACK))
    entries = {entry["knob"]: entry for entry in cilium_status.read_back(answers.KNOBS, status)}
    assert [knob for knob, entry in entries.items() if not entry["in_force"]] == list(answers.KNOBS)
    reason = {knob: entry["reason"] for knob, entry in entries.items()}
    assert "auto chose it" in reason["cilium.datapath_mode"]
    assert "65536 (GRO) and 65536 (GSO)" in reason["cilium.big_tcp"] and "host routing is legacy" in reason["cilium.big_tcp"]
    assert "does not tell it" in reason["cilium.devices"]
    assert "portmap" in reason["cilium.host_routing"] and "kube-proxy is not replaced" in reason["cilium.host_routing"]
    assert "ktime" in reason["cilium.clock"]
    assert entries["cilium.xdp"]["found"] == "disabled"


def test_the_recorded_fall_back_of_the_reference_fails_the_read_back(reference: Path) -> None:
    status = cilium_status.parse((reference / "data" / "samples" / "cilium-status-fallback.txt").read_text(encoding="utf-8"))
    # It is not verbose: maps and XDP are not told, which is no proof of them.
    assert failed(answers.KNOBS, status) == [knob for knob in answers.KNOBS if knob not in ("cilium.devices", "cilium.kube_proxy_replacement")]


def test_the_recorded_netkit_of_the_reference_passes_it(reference: Path) -> None:
    status = cilium_status.parse((reference / "data" / "samples" / "cilium-status-netkit-bigtcp.txt").read_text(encoding="utf-8"))
    assert failed(answers.KNOBS, status) == [] and status["problems"] == []


# file of the corpus: what its index says of it
CORPUS = {
    "cs-01": {"kube_proxy_replacement": True, "xdp": "disabled", "datapath_mode": "veth", "attach_mode": "legacy-tc", "routing": "tunnel",
              "host_routing": "legacy", "devices": ["ens18"], "map_ratio": 0.0025, "clock_source": "ktime"},
    "cs-03": {"kube_proxy_replacement": True, "datapath_mode": None, "attach_mode": None, "routing": None, "host_routing": "bpf", "devices": ["enp1s0"]},
    "cs-05": {"kube_proxy_replacement": False, "datapath_mode": "veth", "devices": None, "clock_source": None, "xdp": "disabled"},
    "cs-06": {"kube_proxy_replacement": True, "host_routing": "bpf", "devices": ["cilium_wg0", "enp1s0"], "encryption": "wireguard", "masquerade": "bpf"},
    "cs-08": {"kube_proxy_replacement": None, "direct_routing_device": "virbr0", "devices": ["virbr0", "wlp3s0"], "host_routing": "legacy"},
    "cs-10": {"kube_proxy_replacement": False, "devices": None, "host_routing": None, "datapath_mode": None},
    "cs-13": {"kube_proxy_replacement": True, "xdp": "native", "devices": None},
    "cs-14": {"kube_proxy_replacement": True, "devices": ["enx22989c9b16a0"], "datapath_mode": "veth", "attach_mode": "tcx"},
}


def test_every_recorded_status_of_the_corpus_is_read(corpus: Path) -> None:
    files = sorted((corpus / "cilium").glob("cs-*.txt"))
    assert [path.name[:5] for path in files] == list(CORPUS)
    for path in files:
        status = cilium_status.parse(path.read_text(encoding="utf-8"))
        name = path.name[:5]
        assert {key: status[key] for key in CORPUS[name]} == CORPUS[name], name
        assert [problem["reason"] for problem in status["problems"]] == (
            ["replaces a part of kube-proxy, which part is not told"] if name == "cs-08" else []
        ), name
        # None of them has what the profile asks for.
        assert {"cilium.datapath_mode", "cilium.big_tcp"} <= set(failed(answers.KNOBS, status)), name


def test_a_device_of_the_agent_itself_is_none_that_somebody_chose() -> None:
    text = answers.TEXT.replace("(Direct Routing)]", "(Direct Routing), cilium_wg0 ]")
    status = cilium_status.parse(text)
    assert status["devices"] == ["cilium_wg0", "ens10f0np0"]
    assert failed(answers.KNOBS, status) == []


LINES = [
    ("IPv4 BIG TCP:            Enabled   [196608]", "IPv4 BIG TCP:            Enabled   [524280, 65536]", "cilium.big_tcp", []),
    ("IPv4 BIG TCP:            Enabled   [196608]", "IPv4 BIG TCP:            Enabled   [131072, 65537]", "cilium.big_tcp", ["ipv4"]),
    ("IPv6 BIG TCP:            Disabled", "IPv6 BIG TCP:            Enabled   [196608]", "cilium.big_tcp", ["ipv4", "ipv6"]),
    ("Device Mode:             netkit", "Device Mode:             netkit-l2", "cilium.datapath_mode", "netkit-l2"),
    ("Device Mode:             netkit", "Device Mode:             veth [Configured: auto]", "cilium.datapath_mode", "veth"),
    ("XDP Acceleration:     Native", "XDP Acceleration:     Best-Effort", "cilium.xdp", "best-effort"),
    ("XDP Acceleration:     Native", "XDP Acceleration:     Generic", "cilium.xdp", "generic"),
    ("XDP Acceleration:     Native", "XDP Acceleration:     None", "cilium.xdp", "disabled"),
    ("[BBR]", "[CUBIC]", "cilium.bandwidth_manager", {"enabled": True, "bbr": False}),
    ("Masquerading:            BPF   [", "Masquerading:            BPF (ip-masq-agent)   [", "cilium.masquerade", "bpf"),
    ("[IPv4: Enabled, IPv6: Disabled]", "[IPv4: Disabled, IPv6: Disabled]", "cilium.masquerade", "disabled"),
    ("on (ratio: 0.002500)", "off", "cilium.bpf_maps", {"distributed_lru": None, "ratio": 0.0}),
    ("192.0.2.11 fe80::1 (Direct", "x.x.x.x fe80::1 (Direct", "cilium.devices", ["ens10f0np0"]),
]


@pytest.mark.parametrize(("line", "other", "knob", "value"), LINES, ids=[row[1].strip() for row in LINES])
def test_each_form_of_a_line_is_read(line: str, other: str, knob: str, value: Any) -> None:
    assert line in answers.TEXT
    status = cilium_status.parse(answers.TEXT.replace(line, other))
    assert status["problems"] == []
    assert cilium_status.running(status)[knob] == value


UNKNOWN = [
    ("Device Mode:             netkit", "Device Mode:             netki", "cilium.datapath_mode"),
    ("Device Mode:             netkit", "Gerätemodus:             netkit", "cilium.datapath_mode"),
    ("Device Mode:             netkit", "", "cilium.datapath_mode"),
    ("Device Mode:             netkit", "Device Mode:             netkit\nDevice Mode:             veth", "cilium.datapath_mode"),
    ("Enabled   [196608]", "Enabled   [1966", "cilium.big_tcp"),
    ("Enabled   [196608]", "Enabled", "cilium.big_tcp"),
    ("Host: BPF", "Host: bpf?", "cilium.host_routing"),
    ("True   [ens10f0np0   192.0.2.11 fe80::1 (Direct Routing)]", "True   [ens10f0np0   192.0.2.11 fe8", "cilium.devices"),
    ("fe80::1 (Direct Routing)]", "fe80::1eth1 192.0.2.9 (Direct Routing)]", "cilium.devices"),
    ("jiffies   [1000 Hz]", "jiffies", "cilium.clock"),
    ("EDT with BPF [BBR] [ens10f0np0]", "EDT with BPF   [ens10f0np0, ens11]", "cilium.bandwidth_manager"),
    ("(ratio: 0.002500)", "(ratio: 0.0.1)", "cilium.bpf_maps"),
    ("XDP Acceleration:     Native", "XDP Acceleration:     Nativ", "cilium.xdp"),
    ("  XDP Acceleration:     Native\n", "", "cilium.xdp"),
]


@pytest.mark.parametrize(("line", "other", "knob"), UNKNOWN, ids=[row[1].strip() or f"without {row[2]}" for row in UNKNOWN])
def test_what_is_not_told_beyond_doubt_is_not_in_force_and_nothing_else_suffers(line: str, other: str, knob: str) -> None:
    assert line in answers.TEXT
    status = cilium_status.parse(answers.TEXT.replace(line, other, 1))
    assert knob not in cilium_status.running(status)
    assert set(failed(answers.KNOBS, status)) <= {knob, "cilium.routing" if knob == "cilium.host_routing" else knob}
    assert knob in failed(answers.KNOBS, status)


@pytest.mark.parametrize(
    "text",
    [
        "\n".join(f"\x1b[32m{line}\x1b[0m" for line in answers.TEXT.split("\n")), answers.TEXT.replace("\n", "\r\n"), answers.TEXT.replace("   ", "\t"),
        "Defaulted container \"cilium-agent\" out of: cilium-agent, config (init)\n" + answers.TEXT, re.sub("(?m)^", "    ", answers.TEXT) + "\n",
        answers.TEXT.replace("   ", " \xa0 "),
    ],
    ids=["colours", "carriage returns", "tabs", "a line of kubectl", "indented", "blanks of a web page"],
)
def test_what_terminals_and_pages_do_to_a_text_changes_nothing(text: str) -> None:
    assert failed(answers.KNOBS, cilium_status.parse(text)) == []


@pytest.mark.parametrize("text", ["", "\n", "error: unable to upgrade connection\n", "[]", "null", "{", "{}", "Etat: Bon\n", answers.text(answers.GOOD)[:300]])
def test_what_is_no_status_proves_nothing(text: str) -> None:
    status = cilium_status.parse(text)
    assert set(status) == set(cilium_status.empty())
    assert cilium_status.running(status) == {}
    assert failed(answers.KNOBS, status) == list(answers.KNOBS)
    assert status["problems"]


@given(st.integers(min_value=0, max_value=len(answers.TEXT)))
@example(answers.TEXT.index("netkit\n") + len("netkit"))
def test_a_text_that_is_cut_says_less_and_nothing_else(length: int) -> None:
    """Such as netkit of netkit-l2."""
    whole = cilium_status.running(cilium_status.parse(answers.TEXT))
    part = cilium_status.running(cilium_status.parse(answers.TEXT[:length]))
    assert all(whole[knob] == value for knob, value in part.items())


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.sampled_from(["", "True", "BPF", "netkit", "Native", "x"]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(["mode", "enabled", "maxGRO", "deviceList", "features", "nodePort"]), inner),
    max_leaves=6,
)


@given(st.dictionaries(st.sampled_from(sorted(answers.GOOD)), JSON))
def test_no_shape_of_json_ends_in_an_error(data: Dict[str, Any]) -> None:
    status = cilium_status.parse(json.dumps({**answers.GOOD, **data}))
    assert set(status) == set(cilium_status.empty())
    assert len(cilium_status.read_back(answers.KNOBS, status)) == len(answers.KNOBS)


@given(st.text())
def test_no_text_ends_in_an_error(text: str) -> None:
    assert set(cilium_status.parse(text)) == set(cilium_status.empty())


def test_a_part_that_the_agent_has_not_refreshed_is_told() -> None:
    status = cilium_status.from_json({**answers.GOOD, "stale": {"ipcache": "2026-11-29T10:00:00Z"}})
    assert "ipcache" in status["problems"][0]["reason"]


def test_statuses_of_older_agents_say_what_they_have() -> None:
    data = copy.deepcopy(answers.GOOD)
    for key in ("datapath-mode", "configured-datapath-mode", "attach-mode", "routing", "ipv6-big-tcp"):
        del data[key]
    data["host-routing"] = {"mode": "BPF"}
    known = cilium_status.running(cilium_status.from_json(data))
    assert known["cilium.host_routing"] == "bpf"
    assert not {"cilium.datapath_mode", "cilium.big_tcp", "cilium.routing"} & set(known)


def test_knobs_of_other_layers_are_not_looked_at() -> None:
    assert cilium_status.read_back({"vm.thp": "madvise"}, cilium_status.empty()) == []


@pytest.mark.parametrize(("wanted", "found", "differs"), [
    ({"distributed_lru": True, "ratio": 1 / 300}, {"distributed_lru": None, "ratio": 0.003333}, []),
    ({"distributed_lru": True, "ratio": 0.0025}, {"distributed_lru": False, "ratio": 0.0025}, ["distributed_lru"]),
    ({"distributed_lru": True, "ratio": 0.0025}, {"distributed_lru": None, "ratio": None}, ["distributed_lru", "ratio"]),
])
def test_maps_are_compared_by_what_is_told_of_them(wanted: Dict[str, Any], found: Dict[str, Any], differs: List[str]) -> None:
    assert cilium_status.differing_maps(wanted, found) == differs
