# Copyright (c) 2026 The inferops.locality authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which interfaces carry the default route, and how large a packet each takes: from answers of ``ip`` written by hand."""

from __future__ import annotations

import gzip
import json
import shutil
import subprocess
from pathlib import Path
from typing import Any, Dict, List, Mapping, Optional, Sequence

import pytest

from ansible_collections.inferops.locality.plugins.module_utils import net_devices, platform, snapshot
from ansible_collections.inferops.locality.plugins.module_utils.probe import Answer, Probe
from ansible_collections.inferops.locality.plugins.module_utils.rke2_config import read as read_config
from ansible_collections.inferops.locality.plugins.module_utils.state_boot import Boot
from ansible_collections.inferops.locality.plugins.module_utils.sysroot import SysRoot

DEFAULT = {"dst": "default", "flags": []}


def answer(root: Path, name: str, out: Any, rc: int = 0) -> None:
    folder = root / ".locality/probe"
    folder.mkdir(parents=True, exist_ok=True)
    text = out if isinstance(out, str) else json.dumps(out)
    (folder / f"{name}.json").write_text(json.dumps({"argv": ["ip"], "rc": rc, "stdout": text, "stderr": ""}), encoding="utf-8")


def interface(root: Path, name: str, driver: Optional[str] = None, lower: Sequence[str] = (), tso: Optional[int] = None, physfn: bool = False) -> None:
    home = root / "sys/class/net" / name
    home.mkdir(parents=True)
    for below in lower:
        (home / f"lower_{below}").symlink_to(f"../{below}")
    if driver is not None:
        device = root / "sys/devices" / name
        device.mkdir(parents=True)
        (root / "sys/bus/drivers" / driver).mkdir(parents=True, exist_ok=True)
        (device / "driver").symlink_to(f"../../bus/drivers/{driver}")
        (home / "device").symlink_to(f"../../../devices/{name}")
        if physfn:
            (device / "physfn").mkdir()
    answer(root, f"ip-link.{name}", [{"ifname": name, "address": "02:00:00:00:00:01", **({} if tso is None else {"tso_max_size": tso})}])


def read(root: Path) -> Dict[str, Any]:
    sysroot = SysRoot(str(root))
    found = net_devices.read(sysroot, Probe(sysroot))
    assert sysroot.problems == []
    return found


ROUTES: List[Any] = [
    pytest.param([{**DEFAULT, "dev": "eth0"}], [], ["eth0"], id="one"),
    pytest.param([{**DEFAULT, "dev": "eth0", "metric": 100}, {**DEFAULT, "dev": "fab0", "metric": 20100}], [], ["eth0"], id="the-lowest-metric-counts"),
    pytest.param([{**DEFAULT, "dev": "eth0"}, {**DEFAULT, "dev": "fab0", "metric": 100}], [], ["eth0"], id="no-metric-is-0"),
    pytest.param([{**DEFAULT, "nexthops": [{"dev": "eth1", "weight": 1}, {"dev": "eth0", "weight": 1}]}], [], ["eth0", "eth1"], id="several-paths"),
    pytest.param([{**DEFAULT, "dev": "eth0"}], [{**DEFAULT, "dev": "eth1", "metric": 1024}], ["eth0", "eth1"], id="each-family-its-own"),
    pytest.param([], [{**DEFAULT, "dev": "lo", "type": "unreachable", "metric": 4294967295}], [], id="unreachable-is-none"),
    pytest.param([], None, [], id="none"),
    pytest.param(None, None, None, id="nobody-said"),
    pytest.param("Option \"-j\" is unknown", None, None, id="old-iproute2"),
]


@pytest.mark.parametrize(("ipv4", "ipv6", "uplinks"), ROUTES)
def test_the_uplinks_are_those_of_the_default_routes(tmp_path: Path, ipv4: Any, ipv6: Any, uplinks: Any) -> None:
    for name, out in (("ip-route", ipv4), ("ip-route6", ipv6)):
        if out is not None:
            answer(tmp_path, name, out)
    assert read(tmp_path)["uplinks"] == uplinks


def test_what_stands_on_a_nic_is_there_and_pods_interfaces_are_not(tmp_path: Path) -> None:
    interface(tmp_path, "eno1", "mlx5_core", tso=524280)
    interface(tmp_path, "eno2", "mlx5_core", tso=65536)
    interface(tmp_path, "eno2v0", "mlx5_core", tso=524280, physfn=True)
    interface(tmp_path, "bond0", lower=["eno1", "eno2"], tso=65536)
    interface(tmp_path, "bond0.100", lower=["bond0"], tso=65536)
    interface(tmp_path, "lxc1234", tso=524280)
    interface(tmp_path, "cilium_host", tso=524280)
    interface(tmp_path, "cni0", lower=["veth1"], tso=65536)
    interface(tmp_path, "veth1", tso=65536)
    (tmp_path / "sys/class/net/bonding_masters").write_text("bond0\n", encoding="utf-8")
    found = {name: {key: value for key, value in entry.items() if key != "gso_ipv4_max_size"} for name, entry in read(tmp_path)["interfaces"].items()}
    assert found == {
        "bond0": {"driver": None, "physical": False, "lower": ["eno1", "eno2"], "tso_max_size": 65536},
        "bond0.100": {"driver": None, "physical": False, "lower": ["bond0"], "tso_max_size": 65536},
        "eno1": {"driver": "mlx5_core", "physical": True, "lower": [], "tso_max_size": 524280},
        "eno2": {"driver": "mlx5_core", "physical": True, "lower": [], "tso_max_size": 65536},
    }


def test_a_bond_of_virtual_functions_and_a_dummy_that_carry_the_default_route_are_there(tmp_path: Path) -> None:
    interface(tmp_path, "vf0", "mlx5_core", tso=524280, physfn=True)
    interface(tmp_path, "bond0", lower=["vf0"], tso=524280)
    interface(tmp_path, "dummy0", tso=65536)
    interface(tmp_path, "dummy1", tso=65536)
    answer(tmp_path, "ip-route", [{**DEFAULT, "nexthops": [{"dev": "bond0"}, {"dev": "dummy0"}]}])
    assert {name: entry["physical"] for name, entry in read(tmp_path)["interfaces"].items()} == {"bond0": False, "dummy0": False, "vf0": False}


def test_a_kernel_with_big_tcp_of_ipv4_shows_its_size(tmp_path: Path) -> None:
    interface(tmp_path, "eth0", "mlx5_core")
    answer(tmp_path, "ip-link.eth0", [{"ifname": "eth0", "tso_max_size": 524280, "gso_ipv4_max_size": 65536}])
    assert read(tmp_path)["interfaces"]["eth0"]["gso_ipv4_max_size"] == 65536


@pytest.mark.parametrize(("out", "names"), [([{"ifname": "cilium_vxlan"}, {"ifname": "egress0"}], ["cilium_vxlan", "egress0"]), ("", []), (None, None)])
def test_vxlan_devices(tmp_path: Path, out: Any, names: Any) -> None:
    if out is not None:
        answer(tmp_path, "ip-vxlan", out)
    assert read(tmp_path)["vxlan"] == names


@pytest.mark.parametrize("out", ["", "[]", "no json", [{"ifname": "eth0"}], [{"ifname": "eth0", "tso_max_size": 0}], [{"ifname": "eth1", "tso_max_size": 9}]])
def test_a_size_that_is_not_said_is_not_guessed(tmp_path: Path, out: Any) -> None:
    interface(tmp_path, "eth0", "ena")
    answer(tmp_path, "ip-link.eth0", out)
    assert read(tmp_path)["interfaces"]["eth0"]["tso_max_size"] is None


def test_a_snapshot_keeps_of_an_answer_what_is_read(tmp_path: Path) -> None:
    link = {"ifname": "eth0", "address": "02:00:00:00:00:01", "phys_port_id": "020000000001", "tso_max_size": 524280}
    assert json.loads(net_devices.cut(Answer(("ip",), 0, json.dumps([link]), "")).out) == [{"ifname": "eth0", "tso_max_size": 524280}]
    assert net_devices.cut(Answer(("ip",), 1, "x", "Device does not exist")).out == ""


@pytest.mark.skipif(shutil.which("ip") is None, reason="no iproute2 here")
def test_this_machines_own_iproute2_is_understood() -> None:
    sysroot = SysRoot("/")
    said = json.loads(subprocess.run(["ip", "-d", "-j", "link", "show"], capture_output=True, check=True, text=True).stdout)
    for name, entry in net_devices.read(sysroot, Probe(sysroot))["interfaces"].items():
        assert entry["tso_max_size"] == next(link.get("tso_max_size") for link in said if link["ifname"] == name)


# -- the kernel's configuration

CONFIG = "#\n# Linux/x86 6.12.57 Kernel Configuration\n#\nCONFIG_NET=y\n"
NETKIT: List[Any] = [
    pytest.param({"/boot/config-6.12.57": CONFIG + "CONFIG_NETKIT=y\n"}, True, id="there"),
    pytest.param({"/boot/config-6.12.57": CONFIG + "# CONFIG_NETKIT is not set\n"}, False, id="not-set"),
    pytest.param({"/boot/config-6.7.0": CONFIG + "CONFIG_NETKIT=y\n"}, None, id="another-kernel"),
    pytest.param({"/proc/config.gz": gzip.compress((CONFIG + "CONFIG_NETKIT=y\n").encode(), mtime=0)}, True, id="packed"),
    pytest.param({"/proc/config.gz": gzip.compress(CONFIG.encode(), mtime=0)}, False, id="packed-not-set"),
    pytest.param({}, None, id="nowhere"),
]


def kernel(root: Path, files: Mapping[str, Any]) -> SysRoot:
    for path, content in {**files, "/proc/sys/kernel/osrelease": "6.12.57\n"}.items():
        place = root / path[1:]
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(content if isinstance(content, bytes) else content.encode())
    return SysRoot(str(root))


def features(root: SysRoot) -> Dict[str, Any]:
    return dict(platform.read_platform(root, Probe(root), Boot(), read_config(root))["features"])


@pytest.mark.parametrize(("files", "netkit"), NETKIT)
def test_config_netkit(tmp_path: Path, files: Mapping[str, Any], netkit: Any) -> None:
    root = kernel(tmp_path, files)
    assert features(root)["netkit"] is netkit
    assert root.problems == []


def test_a_broken_packed_configuration_is_a_problem(tmp_path: Path) -> None:
    root = kernel(tmp_path, {"/proc/config.gz": b"\x1f\x8b not gzip"})
    assert features(root)["netkit"] is None
    assert [problem["file"] for problem in root.problems] == ["/proc/config.gz"]


def test_a_snapshot_holds_the_packed_configuration(tmp_path: Path) -> None:
    packed = gzip.compress((CONFIG + "CONFIG_NETKIT=y\n").encode(), mtime=0)
    kernel(tmp_path, {"/proc/config.gz": packed})
    assert snapshot.collect(str(tmp_path), anonymize=True).files["/proc/config.gz"][0] == packed
