# Copyright (c) 2026 The inferops.locality authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""PCI functions: kinds, paths, links, ACS, and relations as nvidia-smi names them."""

from __future__ import annotations

import os
import shutil
import struct
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.inferops.locality.plugins.module_utils import pcie
from ansible_collections.inferops.locality.plugins.module_utils.sysroot import SysRoot
from ansible_collections.inferops.locality.plugins.plugin_utils import paper
from ansible_collections.inferops.locality.tests.unit.fixtures import machines as fixtures


def read(root: Path, numa_nodes: int | None = None) -> tuple[pcie.Pci, list[dict[str, str]]]:
    sysroot = SysRoot(str(root))
    return pcie.read_pci(sysroot, numa_nodes), sysroot.problems


@pytest.fixture
def machine(tmp_path: Path) -> Path:
    return fixtures.build("two-sockets", tmp_path / "node")


def devices(root: Path) -> dict[str, dict[str, Any]]:
    return {device.address: device.to_facts() for device in read(root)[0].devices}


# -- kinds, paths, links -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("class_", "vendor", "kind"),
    [
        ("0x030000", "0x10de", "gpu"),
        ("0x030200", "0x10de", "gpu"),
        ("0x038000", "0x1002", "gpu"),
        ("0x030000", "0x8086", "gpu"),
        ("0x030000", "0x1a03", None),
        ("0x030000", "0x102b", None),
        ("0x030000", None, None),
        ("0x040300", "0x10de", None),
        ("0x120000", "0x1002", "accelerator"),
        ("0x120000", "0x1da3", "accelerator"),
        ("0x020000", "0x15b3", "nic"),
        ("0x028000", "0x15b3", "nic"),
        ("0x020700", "0x15b3", "rdma"),
        ("0x010802", "0x144d", "nvme"),
        ("0x010601", "0x8086", None),
        ("0x060400", "0x8086", None),
    ],
)
def test_kinds(class_: str, vendor: str | None, kind: str | None) -> None:
    assert pcie.kind_of(class_, vendor) == kind


@pytest.mark.parametrize(
    ("path", "root", "bridges"),
    [
        ("/sys/devices/pci0000:00/0000:00:03.0", "pci0000:00", ()),
        ("/sys/devices/pci0000:15/0000:15:01.0/0000:16:00.0/0000:17:02.0/0000:1a:00.0", "pci0000:15", ("0000:15:01.0", "0000:16:00.0", "0000:17:02.0")),
        ("/sys/devices/platform/14160000.pcie/pci0004:00/0004:00:00.0/0004:01:00.0", "pci0004:00", ("0004:00:00.0",)),
        ("/sys/devices/pci10000:00/10000:00:02.0/10000:01:00.0", "pci10000:00", ("10000:00:02.0",)),
        ("/sys/devices/pci0000:64/0000:64:00.5/pci10000:00/10000:00:02.0/10000:01:00.0", "pci0000:64", ("10000:00:02.0",)),
        ("/sys/devices/LNXSYSTM:00/LNXSYBUS:00/ACPI0004:00/VMBUS:00/0f0e/pci7870:00/7870:00:02.0", "pci7870:00", ()),
        ("/sys/bus/pci/devices/0004:05:00.0", None, None),
    ],
    ids=["flat", "switch", "platform", "32-bit domain", "VMD", "Hyper-V", "no path"],
)
def test_paths(path: str, root: str | None, bridges: tuple[str, ...] | None) -> None:
    assert pcie.parse_path(path) == (root, bridges)


@pytest.mark.parametrize(
    ("text", "speed"),
    [
        ("16.0 GT/s PCIe", 16.0),
        ("2.5 GT/s", 2.5),
        ("8 GT/s", 8.0),
        ("64.0 GT/s PCIe", 64.0),
        ("Unknown", None),
        ("Unknown speed", None),
        ("", None),
        (None, None),
    ],
)
def test_link_speeds(text: str | None, speed: float | None) -> None:
    assert pcie.link_speed(text) == speed


@pytest.mark.parametrize(
    ("text", "width"),
    [("16", 16), ("1", 1), ("x8", 8), ("0", None), ("63", None), ("255", None), ("", None), (None, None), ("-1", None), ("\u00b2", None)],
)
def test_link_widths(text: str | None, width: int | None) -> None:
    assert pcie.link_width(text) == width


def test_devices_of_a_machine(machine: Path) -> None:
    found = devices(machine)
    assert {address: device["kind"] for address, device in found.items()} == {
        "0000:18:00.0": "gpu",
        "0000:19:00.0": "nic",
        "0000:19:00.2": "nic",
        "0000:1c:00.0": "nvme",
        "0000:1d:00.0": "rdma",
        "0000:26:00.0": "nic",
        "0000:98:00.0": "accelerator",
        "0000:a7:00.0": "gpu",
    }
    nic = found["0000:19:00.0"]
    assert (nic["driver"], nic["class"], nic["vendor"], nic["device"]) == ("mlx5_core", "0x020000", "0x15b3", "0x1021")
    assert nic["interfaces"] == [{"name": "eth0", "mac": "02:00:00:00:00:01", "speed_mbps": 400000, "mtu": 9000}]
    assert nic["rdma"] == ["mlx5_0"] and nic["numa_node"] == 0 and nic["pcie_root"] == "pci0000:15"
    assert nic["path"] == ["0000:15:01.0", "0000:16:00.0", "0000:17:01.0"]
    assert nic["link"] == {"speed_gts": 32.0, "width": 16, "max_speed_gts": 32.0, "max_width": 16}
    assert isinstance(nic["iommu_group"], int) and nic["physfn"] is None
    function = found["0000:19:00.2"]
    assert (function["physfn"], function["link"], function["rdma"]) == ("0000:19:00.0", None, ["mlx5_2"])
    assert found["0000:1d:00.0"]["link"] == {"speed_gts": 8.0, "width": 8, "max_speed_gts": 32.0, "max_width": 16}
    assert [interface["name"] for interface in found["0000:1d:00.0"]["interfaces"]] == ["ib0"]
    assert found["0000:98:00.0"]["link"] == {"speed_gts": None, "width": None, "max_speed_gts": 16.0, "max_width": 16}
    assert found["0000:a7:00.0"]["numa_node"] is None, "-1 is no node, not node 0"
    assert found["0000:26:00.0"]["interfaces"] == [{"name": "eth1", "mac": "02:00:00:00:00:04", "speed_mbps": None, "mtu": 1500}]


def test_a_virtual_machine(tmp_path: Path) -> None:
    found = devices(fixtures.build("virtual-machine", tmp_path / "node"))
    virtio = found["0000:00:03.0"]
    assert [interface["name"] for interface in virtio["interfaces"]] == ["ens3"], "the interface is that of the virtio device below"
    assert virtio["interfaces"][0]["speed_mbps"] is None, "4294967295 is an unknown speed"
    assert virtio["path"] == [] and virtio["acs"] == {} and virtio["numa_node"] is None
    assert found["10000:01:00.0"]["path"] == ["10000:00:02.0"]


def test_without_a_numa_node_file(machine: Path) -> None:
    for path in machine.glob("sys/devices/pci*/**/numa_node"):
        path.unlink()
    pci, problems = read(machine)
    assert {device.numa_node for device in pci.devices} == {None} and problems == []


def test_without_the_bus_directory(machine: Path) -> None:
    """Some captures hold /sys/devices only."""
    before = read(machine)[0]
    shutil.rmtree(machine / "sys/bus")
    after = read(machine)[0]
    assert [device.address for device in after.devices] == [device.address for device in before.devices]
    assert after.relations == before.relations


def test_interfaces_found_by_the_links_of_the_network_class(machine: Path) -> None:
    """Old kernels have no net directory below the device."""
    net = machine / "sys/devices/pci0000:25/0000:25:01.0/0000:26:00.0/net"
    shutil.rmtree(machine / "sys/class/net/eth1", ignore_errors=True)
    (machine / "sys/class/net/eth1").unlink(missing_ok=True)
    shutil.copytree(net / "eth1", machine / "sys/class/net/eth1", symlinks=True)
    (machine / "sys/class/net/eth1/device").unlink()
    (machine / "sys/class/net/eth1/device").symlink_to("../../../devices/pci0000:25/0000:25:01.0/0000:26:00.0")
    shutil.rmtree(net)
    assert [interface["name"] for interface in devices(machine)["0000:26:00.0"]["interfaces"]] == ["eth1"]


def test_plain_directories_on_the_bus(tmp_path: Path) -> None:
    """A capture without links: the place is not known, the driver still says whose GPU it is."""
    for address in ("0004:05:00.0", "0035:04:00.0"):
        (tmp_path / f"sys/bus/pci/devices/{address}").mkdir(parents=True)
        (tmp_path / f"sys/bus/pci/devices/{address}/class").write_text("0x030000\n")
    (tmp_path / "proc/driver/nvidia/gpus/0004:05:00.0").mkdir(parents=True)
    pci, problems = read(tmp_path)
    (gpu,) = pci.devices
    assert (gpu.kind, gpu.vendor, gpu.path, gpu.pcie_root, gpu.acs) == ("gpu", "0x10de", None, None, None)
    assert [problem["file"] for problem in problems] == ["/sys/bus/pci/devices/0035:04:00.0/vendor"]


def test_a_link_on_the_bus_that_leads_nowhere(machine: Path) -> None:
    shutil.rmtree(machine / "sys/devices/pci0000:25")
    pci, problems = read(machine)
    assert "0000:26:00.0" not in {device.address for device in pci.devices}
    assert {"file": "/sys/bus/pci/devices/0000:26:00.0", "reason": "leads nowhere"} in problems


# -- ACS ---------------------------------------------------------------------------------------------------------------


def test_acs_of_the_bridges_on_a_path(machine: Path) -> None:
    acs = devices(machine)["0000:19:00.0"]["acs"]
    bits = ["SV", "TB", "RR", "CR", "UF", "DT"]
    assert acs == {
        "0000:15:01.0": {"supported": bits, "enabled": ["SV", "RR", "CR", "UF"]},
        "0000:16:00.0": {"supported": [], "enabled": []},
        "0000:17:01.0": {"supported": bits, "enabled": ["SV", "RR"]},
    }


def test_acs_that_only_root_may_read(machine: Path) -> None:
    for path in machine.glob("sys/devices/pci0000:15/**/config"):
        os.truncate(path, 64)
    pci, problems = read(machine)
    found = {device.address: device.acs for device in pci.devices}
    assert found["0000:19:00.0"] is None
    assert any(problem["file"].endswith("0000:17:01.0/config") and "only root may read" in problem["reason"] for problem in problems)
    assert pci.relations["0000:18:00.0"]["0000:19:00.0"] == "PIX", "without config space the ports are told by position"
    assert pci.relations["0000:18:00.0"]["0000:1c:00.0"] == "PXB"
    assert pci.relations["0000:18:00.0"]["0000:1d:00.0"] == "PHB"


def config(*extended: tuple[int, int, bytes], size: int = 4096) -> bytes:
    """Config space with extended capabilities (offset, next, bytes from the id on)."""
    data = bytearray(size)
    for offset, following, body in extended:
        struct.pack_into("<I", data, offset, int.from_bytes(body[:2], "little") | 1 << 16 | following << 20)
        data[offset + 4 : offset + 2 + len(body)] = body[2:]
    return bytes(data)


ACS = b"\x0d\x00" + struct.pack("<HH", 0x5F, 0x1D)


@pytest.mark.parametrize(
    ("data", "enabled"),
    [
        (config((0x100, 0, ACS)), ("SV", "RR", "CR", "UF")),
        (config((0x100, 0x200, b"\x01\x00"), (0x200, 0, ACS)), ("SV", "RR", "CR", "UF")),
        (config((0x100, 0x200, b"\x01\x00"), (0x200, 0x100, b"\x02\x00")), ()),
        (config((0x100, 0x100, b"\x01\x00")), ()),
        (config(), ()),
        (b"\xff" * 4096, ()),
        (bytes(256), ()),
        (bytes(64), None),
        (bytes(128), None),
        (b"", None),
        (config((0x100, 0x200, b"\x01\x00"))[:0x180], None),
        (config((0x100, 0xFFC, b"\x01\x00")), ()),
    ],
    ids=["first", "second", "loop", "loop to itself", "none", "all ones", "256 bytes", "64 bytes", "128 bytes", "empty", "cut short", "at the end"],
)
def test_acs_capability(data: bytes, enabled: tuple[str, ...] | None) -> None:
    found = pcie.acs_of(data)
    assert (None if found is None else found.enabled) == enabled


def capability(kind: int, loop: bool = False) -> bytes:
    data = bytearray(256)
    struct.pack_into("<H", data, 6, 0x10)
    data[0x34] = 0x40
    data[0x40:0x42] = bytes((0x01, 0x40 if loop else 0x60))
    data[0x60:0x64] = bytes((0x10, 0, 2 | kind << 4 & 0xFF, 0))
    return bytes(data)


@pytest.mark.parametrize(
    ("data", "port"),
    [
        (capability(4), "root_port"),
        (capability(5), "upstream"),
        (capability(6), "downstream"),
        (capability(7), "bridge"),
        (capability(0), None),
        (capability(4, loop=True), None),
        (bytes(256), "bridge"),
        (bytes(64), None),
        (b"", None),
        (b"\xff" * 256, None),
    ],
    ids=["root port", "upstream", "downstream", "to conventional PCI", "endpoint", "loop", "no capability", "64 bytes", "empty", "all ones"],
)
def test_port_types(data: bytes, port: str | None) -> None:
    assert pcie.port_type(data) == port


# -- relations ---------------------------------------------------------------------------------------------------------

R, U, D, B = pcie.ROOT_PORT, pcie.UPSTREAM, pcie.DOWNSTREAM, pcie.BRIDGE


def pair(one: str, two: str, numa: tuple[int | None, int | None] = (0, 0), roots: tuple[str, str] = ("a", "a")) -> tuple[pcie.Device, pcie.Device]:
    made = []
    for index, path in enumerate((one, two)):
        bridges = tuple(path.split()) if path != "?" else None
        made.append(pcie.Device(str(index), "gpu", "0x030200", numa_node=numa[index], pcie_root=None if bridges is None else roots[index], path=bridges))
    return made[0], made[1]


@pytest.mark.parametrize(
    ("one", "two", "wanted"),
    [
        ("r1 u1 d1", "r1 u1 d2", "PIX"),
        ("r1 u1 d1", "r1 u1 d1", "PIX"),
        ("r1", "r1", "PIX"),
        ("r1 u1 d1 u2 d3", "r1 u1 d1 u2 d4", "PIX"),
        ("r1 u1 d1", "r1 u1 d2 u2 d3", "PXB"),
        ("r1 u1 d1 u2 d3", "r1 u1 d2 u3 d4", "PXB"),
        ("r1 u1 d1", "r1 u2 d2", "PXB"),
        ("r1", "r1 u1 d1", "PIX"),
        ("r1 b1", "r1 b1", "PIX"),
        ("r1 b1", "r1 b2", "PXB"),
        ("r1 u1 d1 b1", "r1 u1 d2", "PXB"),
        ("r1 u1 d1", "r2 u2 d2", "PHB"),
        ("r1", "", "PHB"),
        ("", "", "PHB"),
        ("u1 d1", "u1 d2", "PIX"),
    ],
)
def test_relations_below_one_host_bridge(one: str, two: str, wanted: str) -> None:
    bridges = {name: pcie.Bridge(name, {"r": R, "u": U, "d": D, "b": B}[name[0]]) for name in (one + " " + two).split()}
    left, right = pair(one, two)
    assert pcie.relation(left, right, bridges) == wanted
    assert pcie.relation(right, left, bridges) == wanted


@pytest.mark.parametrize(
    ("one", "two", "wanted"),
    [
        ("r1 u1 d1", "r1 u1 d2", "PIX"),
        ("r1 u1 d1", "r1 u1 d2 u2 d3", "PXB"),
        ("r1 u1 d1", "r1 u2 d2", "PXB"),
        ("r1", "r1", "PIX"),
        ("r1 b1", "r1 b1", "PIX"),
        ("r1", "r2", "PHB"),
    ],
)
def test_relations_by_position(one: str, two: str, wanted: str) -> None:
    """Nothing tells the port types: the first bridge is the root port, then upstream and downstream ports in turn."""
    assert pcie.relation(*pair(one, two), {}) == wanted


@pytest.mark.parametrize(
    ("numa", "nodes", "wanted"),
    [
        ((0, 0), 2, "NODE"),
        ((0, 1), 2, "SYS"),
        ((None, 0), 2, None),
        ((None, None), 2, None),
        ((None, None), 1, "NODE"),
        ((None, None), None, None),
        ((0, 0), None, "NODE"),
    ],
)
def test_relations_across_host_bridges(numa: tuple[int | None, int | None], nodes: int | None, wanted: str | None) -> None:
    assert pcie.relation(*pair("r1", "r2", numa, ("a", "b")), {}, nodes) == wanted


@pytest.mark.parametrize(("numa", "wanted"), [((0, 1), "SYS"), ((0, 0), None), ((None, 1), None)])
def test_relations_of_a_device_whose_path_is_unknown(numa: tuple[int | None, int | None], wanted: str | None) -> None:
    assert pcie.relation(*pair("?", "r1", numa), {}, 2) == wanted


def test_relations_of_a_machine(machine: Path) -> None:
    found = read(machine, 2)[0].relations
    assert set(found) == {"0000:18:00.0", "0000:98:00.0", "0000:a7:00.0"}, "rows are GPUs and accelerators"
    assert found["0000:18:00.0"] == {
        "0000:19:00.0": "PIX",
        "0000:19:00.2": "PIX",
        "0000:1c:00.0": "PXB",
        "0000:1d:00.0": "PHB",
        "0000:26:00.0": "NODE",
        "0000:98:00.0": "SYS",
        "0000:a7:00.0": None,
    }


def test_a_root_port_is_no_switch(tmp_path: Path) -> None:
    """Two functions of one card below a root port cross no switch; a NIC behind the next root port crosses the host bridge."""
    description = {
        "cpus": {"sockets": 1, "cores_per_numa": 1},
        "pci": [
            {
                "host_bridge": "pci0000:00",
                "numa": 0,
                "children": [
                    {
                        "port": "root",
                        "address": "0000:00:01.0",
                        "children": [{"gpu": "nvidia-h100", "address": "0000:01:00.0"}, {"nic": "mlx5", "address": "0000:01:00.1"}],
                    },
                    {"port": "root", "address": "0000:00:02.0", "children": [{"nic": "mlx5", "address": "0000:02:00.0"}]},
                ],
            }
        ],
    }
    paper.build(description, tmp_path / "node")
    assert read(tmp_path / "node", 1)[0].relations == {"0000:01:00.0": {"0000:01:00.1": "PIX", "0000:02:00.0": "PHB"}}
