# Copyright (c) 2026 The inferops.locality authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the reported knobs of the PCIe layer should be, and how a running value is judged."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.inferops.locality.plugins.module_utils import pcie_knobs

PATH = ["0000:15:01.0", "0000:16:00.0", "0000:17:00.0"]


def device(address: str = "0000:18:00.0", kind: str = "gpu", width: Any = 16, speed: Any = 32.0, path: Any = None, **more: Any) -> dict[str, Any]:
    link = {"width": None, "speed_gts": None, "max_width": width, "max_speed_gts": speed}
    return {"address": address, "kind": kind, "vendor": "0x10de", "link": link, "path": PATH if path is None else path, **more}


def port(width: Any = 16, speed: Any = 32.0, **more: Any) -> dict[str, Any]:
    return {"vendor": "0x1000", "device": "0xc030", "max_width": width, "max_speed_gts": speed, **more}


# (device's maximum, its port's, floor of the policy, wanted)
WIDTHS = [
    pytest.param(16, 16, None, "x16", id="equal"),
    pytest.param(16, 8, None, "x8", id="the port has less"),
    pytest.param(8, 16, None, "x8", id="the device has less"),
    pytest.param(16, None, None, "x16", id="the port does not tell"),
    pytest.param(None, 8, None, "x8", id="the device does not tell"),
    pytest.param(None, None, None, "unknown: neither the device nor its port tells its maximum", id="neither tells"),
    pytest.param(16, 8, 16, "x16", id="a slot below the floor"),
    pytest.param(8, 16, 16, "x8", id="a device that has less than the floor"),
    pytest.param(16, 16, 8, "x16", id="the floor is no ceiling"),
    pytest.param(None, None, 8, "unknown: neither the device nor its port tells its maximum", id="a floor alone is no maximum"),
]


@pytest.mark.parametrize(("own", "ports", "floor", "wanted"), WIDTHS)
def test_link_width_is_the_lesser_maximum(own: Any, ports: Any, floor: Any, wanted: str) -> None:
    made = pcie_knobs.wanted([device(width=own)], {}, {"0000:17:00.0": port(ports), "0000:16:00.0": port(1)}, floor, [])
    assert made["pcie.link_width"] == {"0000:18:00.0": wanted}


def test_the_floor_is_for_gpus_and_nics() -> None:
    made = pcie_knobs.wanted([device(kind="nvme")], {}, {"0000:17:00.0": port(4)}, 16, [])
    assert made["pcie.link_width"] == {"0000:18:00.0": "x4"}
    assert "pcie.aspm" not in made and "pcie.relaxed_ordering" not in made, "a drive may sleep"


@pytest.mark.parametrize(
    ("kind", "own", "ports", "wanted"),
    [("nic", 32.0, 16.0, "16 GT/s"), ("gpu", 32.0, 64.0, "up to 32 GT/s"), ("accelerator", 2.5, None, "up to 2.5 GT/s"), ("nvme", 16.0, 32.0, "16 GT/s")],
)
def test_link_speed_is_the_lesser_maximum(kind: str, own: Any, ports: Any, wanted: str) -> None:
    made = pcie_knobs.wanted([device(kind=kind, speed=own)], {}, {"0000:17:00.0": port(speed=ports)}, None, [])
    assert made["pcie.link_speed"] == {"0000:18:00.0": wanted}


def test_what_has_no_link_or_belongs_to_a_pod_is_not_judged() -> None:
    assert pcie_knobs.wanted([device(kind="nic", path=[]) | {"link": None}, device(kind="nic", physfn="0000:18:00.1")], {}, {}, None, []) == {}


def test_relations_are_those_of_the_hardware() -> None:
    machine = [device(), device("0000:19:00.0", "nic"), device("0000:1a:00.0", "rdma"), device("0000:99:00.0", "nic", physfn="0000:19:00.0")]
    rows = {"0000:18:00.0": {"0000:19:00.0": "SYS", "0000:1a:00.0": "PXB", "0000:99:00.0": "PIX"}}
    made = pcie_knobs.wanted(machine, rows, {}, None, [])
    assert made["gpu.nic_relation"] == {"0000:18:00.0": "PXB"}
    assert "gpu.nvme_relation" not in made and "gpu.gds" not in made, "no drive"


@pytest.mark.parametrize(
    ("relations", "nearest"),
    [(["SYS", "PIX"], "PIX"), (["NODE", "PHB"], "PHB"), ([None, "SYS"], "SYS"), ([None], "unknown: the PCI tree does not tell"), ([], "none there")],
)
def test_nearest(relations: list[Any], nearest: str) -> None:
    assert pcie_knobs.nearest(relations) == nearest


# -- judging -----------------------------------------------------------------------------------------------------------

# (wanted, found, as wanted, what is said)
JUDGED = [
    pytest.param("x16", "x16", True, "", id="right"),
    pytest.param("x16", "x8", False, "x8, wanted x16", id="narrow"),
    pytest.param("x8", "x16", False, "x16, wanted x8", id="wider than anybody said it can be"),
    pytest.param("x16", None, False, "not found", id="no such device any more"),
    pytest.param("x16", "unknown: the kernel does not know it", False, "unknown: the kernel does not know it", id="unknown is never right"),
    pytest.param("unknown: nobody tells", "x16", False, "x16, wanted unknown: nobody tells", id="an unknown maximum is never reached"),
    pytest.param("unknown: a", "unknown: a", False, "unknown: a", id="two unknowns are not equal"),
    pytest.param("32 GT/s", "16 GT/s", False, "16 GT/s, wanted 32 GT/s", id="a NIC does not slow down by itself"),
    pytest.param("up to 32 GT/s", "32 GT/s", True, "", id="a busy GPU"),
    pytest.param("up to 32 GT/s", "2.5 GT/s", True, "2.5 GT/s of 32, as GPUs have when idle: judge it under load", id="an idle GPU is no wolf"),
    pytest.param("up to 16 GT/s", "32 GT/s", False, "32 GT/s, wanted up to 16 GT/s", id="faster than its port"),
    pytest.param("up to 16 GT/s", "unknown: the kernel does not know it", False, "unknown: the kernel does not know it", id="a GPU that does not tell"),
    pytest.param("nvidia_peermem or dma-buf", "dma-buf", True, "", id="one of two"),
    pytest.param("nvidia_peermem or dma-buf", "none", False, "none, wanted nvidia_peermem or dma-buf", id="neither of two"),
    pytest.param("on", "not present", False, "not present, no driver that pods could use the GPU with is bound to it", id="not present is never ok"),
    pytest.param({}, None, True, "", id="nothing to judge"),
]


@pytest.mark.parametrize(("wanted", "found", "same", "words"), JUDGED)
def test_judge(wanted: Any, found: Any, same: bool, words: str) -> None:
    assert pcie_knobs.judge(wanted, found) == (same, words)


def test_devices_that_differ_alike_share_a_line() -> None:
    wanted = {"0000:18:00.0": "up to 32 GT/s", "0000:28:00.0": "up to 32 GT/s", "0000:19:00.0": "32 GT/s"}
    found = {"0000:18:00.0": "2.5 GT/s", "0000:28:00.0": "2.5 GT/s", "0000:19:00.0": "16 GT/s", "policy": "default"}
    same, words = pcie_knobs.judge(wanted, found)
    assert not same
    assert words == "0000:18:00.0 0000:28:00.0 2.5 GT/s of 32, as GPUs have when idle: judge it under load, 0000:19:00.0 16 GT/s, wanted 32 GT/s"


@pytest.mark.parametrize("found", [None, "off", ["x16"]])
def test_a_value_of_another_shape_is_not_right(found: Any) -> None:
    assert pcie_knobs.judge({"0000:18:00.0": "x16"}, found) == (False, "0000:18:00.0 not found")


# -- ACS ---------------------------------------------------------------------------------------------------------------

MACHINE = [
    device("0000:18:00.0", path=["0000:15:01.0", "0000:16:00.0", "0000:17:00.0"]),
    device("0000:19:00.0", "nic", path=["0000:15:01.0", "0000:16:00.0", "0000:17:01.0"]),
    device("0000:99:00.0", "nic", path=["0000:97:01.0"]),
]
PORTS = {"0000:15:01.0": port() | {"vendor": "0x8086", "device": "0x352a"}, "0000:97:01.0": port() | {"vendor": "0x8086", "device": "0x352b"},
         "0000:16:00.0": port(), "0000:17:00.0": port(), "0000:17:01.0": port() | {"device": None}}
# drivers/pci/pci.c: an address, a path of device.function below one, or ids with 0 for any
NAMES = [
    ("0000:17:00.0", {"0000:17:00.0"}), ("0000:15:01.0/00.0", {"0000:16:00.0"}), ("0000:15:01.0/00.0/01.0", {"0000:17:01.0"}),
    ("0000:16:00.0/00.0", {"0000:17:00.0"}), ("0000:15:01.0/01.0", set()), ("0000:15:01.0/00.0/00.0/00.0", set()), ("0000:42:00.0", set()),
    ("pci:8086:352a", {"0000:15:01.0"}), ("pci:8086:0", {"0000:15:01.0", "0000:97:01.0"}), ("pci:1000:c030", {"0000:16:00.0", "0000:17:00.0"}),
    ("pci:1:2", set()),
]


@pytest.mark.parametrize(("name", "bridges"), NAMES)
def test_names_of_bridges(name: str, bridges: set[str]) -> None:
    found, missing = pcie_knobs.resolve([name], MACHINE, PORTS)
    assert found == {name: frozenset(bridges)}
    assert missing == ([] if bridges or name.startswith("pci:") else [name])


def acs(**bits: list[str]) -> dict[str, Any]:
    return {f"0000:{name[1:3]}:{name[3:5]}.0": {"supported": ["SV", "RR", "CR", "UF", "EC"], "enabled": enabled} for name, enabled in bits.items()}


REDIRECTED = [
    ("off everywhere", acs(b1501=[], b1700=[], b1701=[]), []),
    ("the port above the switch does not matter", acs(b1501=["RR", "CR"], b1700=[], b1701=[]), []),
    ("requests", acs(b1700=["SV", "RR"], b1701=[]), ["0000:17:00.0"]),
    ("completions", acs(b1700=[], b1701=["CR"]), ["0000:17:01.0"]),
    ("egress control", acs(b1700=["EC"], b1701=["EC"]), ["0000:17:00.0", "0000:17:01.0"]),
    ("other bits", acs(b1700=["SV", "UF"], b1701=["TB"]), []),
    ("not known", {"0000:17:00.0": None}, []),
]


@pytest.mark.parametrize(("bits", "bridges"), [case[1:] for case in REDIRECTED], ids=[case[0] for case in REDIRECTED])
def test_bridges_that_send_peers_the_long_way(bits: dict[str, Any], bridges: list[str]) -> None:
    assert pcie_knobs.redirected({**MACHINE[0], "acs": bits}, {**MACHINE[1], "acs": bits}) == bridges


def test_devices_below_different_root_ports_meet_at_the_host_bridge_anyway() -> None:
    assert pcie_knobs.redirected({**MACHINE[0], "acs": acs(b1700=["RR"])}, {**MACHINE[2], "acs": acs(b9701=["RR"])}) == []
