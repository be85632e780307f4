# Copyright (c) 2026 The inferops.locality authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The module irq_affinity on a paper node that passes for the running one."""

from __future__ import annotations

import errno
import json
from pathlib import Path
from typing import Any, Callable

import pytest
import yaml
from ansible.module_utils.testing import patch_module_args

from ansible_collections.inferops.locality.plugins.module_utils import irq
from ansible_collections.inferops.locality.plugins.modules import irq_affinity
from ansible_collections.inferops.locality.plugins.plugin_utils import paper
from ansible_collections.inferops.locality.tests.unit.paper_kernel import Kernel, Live

ETH0, NVME, ETH1 = "0000:11:00.0", "0000:12:00.0", "0000:81:00.0"
MACHINE: dict[str, Any] = {
    "cpus": {"sockets": 2, "cores_per_numa": 2, "threads": 2},
    "pci": [
        {"host_bridge": "pci0000:10", "numa": 0, "children": [
            {"nic": "mlx5", "address": ETH0, "interface": "eth0", "queues": 2, "irqs": 3, "msi": {"cpus": "0-7", "effective": "6"}},
            {"nvme": "samsung-pm9a3", "address": NVME, "name": "nvme0", "irqs": 3},
        ]},
        {"host_bridge": "pci0000:80", "numa": 1, "children": [
            {"nic": "mlx5", "address": ETH1, "interface": "eth1", "queues": 2, "irqs": 3, "msi": {"cpus": "0-7", "effective": "6"}},
        ]},
    ],
}


class Node:
    """The node, and the module run on it."""

    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
        self.root, self.kernel, self.capsys = root, Kernel(root), capsys
        monkeypatch.setattr(irq_affinity, "SysRoot", lambda path: Live(root))
        monkeypatch.setattr(irq, "writer", lambda sysroot: self.kernel.write)
        # In a process that has loaded parts of the controller, ansible-core shows warnings itself and leaves them out of the result.
        self.warnings: list[str] = []
        monkeypatch.setattr(irq_affinity.AnsibleModule, "warn", lambda module, text: self.warnings.append(text))

    def run(self, check: bool = False, **arguments: Any) -> dict[str, Any]:
        # a boolean of the module's own arguments
        with patch_module_args({"root": str(self.root), "_ansible_check_mode": check, "_ansible_diff": True, **arguments}), pytest.raises(SystemExit):
            self.warnings.clear()
            irq_affinity.main()
        return {**json.loads(self.capsys.readouterr().out), "warnings": list(self.warnings)}

    def asked(self) -> dict[int, str]:
        return {int(path.parent.name): path.read_text().strip() for path in self.root.glob("proc/irq/*/smp_affinity_list")}

    @property
    def saved(self) -> Path:
        return self.root / "var/lib/inferops-locality/irq.json"


@pytest.fixture
def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Node:
    paper.build(MACHINE, tmp_path / "node")
    return Node(tmp_path / "node", monkeypatch, capsys)


def verdicts(result: dict[str, Any]) -> list:
    return [(entry["queue"], entry["wanted"], entry["effective"], entry["verdict"]) for entry in result["irqs"]]


NICS = [{"class": "nic"}]


def test_each_device_gets_the_cpus_of_its_own_numa_node(node: Node) -> None:
    result = node.run(devices=NICS, cpus="0-3")
    assert result["changed"] is True
    assert [(device["address"], device["interfaces"], device["named_by"], device["cpus"]) for device in result["devices"]] == [
        (ETH0, ["eth0"], ["class=nic"], "0-1"), (ETH1, ["eth1"], ["class=nic"], "2-3")]
    wanted: dict[str, set[str]] = {entry["device"]: set() for entry in result["irqs"]}
    for entry in result["irqs"]:
        wanted[entry["device"]] |= {entry["wanted"]}
    assert wanted == {ETH0: {"0", "1"}, ETH1: {"2", "3"}}
    assert {entry["verdict"] for entry in result["irqs"]} == {"moved"}


def test_result_is_documented(node: Node) -> None:
    documented = yaml.safe_load(irq_affinity.RETURN)
    result = node.run(devices=NICS, cpus="0")
    for key in ("irqs", "devices"):
        assert set(documented[key]["contains"]) == set(result[key][0])
    assert set(result) - {"changed", "diff", "invocation", "warnings"} == {"irqs", "devices"}
    assert set(node.run(state="restored")) - {"changed", "diff", "invocation", "warnings"} == set(documented)


def test_second_run_changes_nothing(node: Node) -> None:
    node.run(devices=NICS, cpus="0-3")
    before = node.saved.read_text()
    node.kernel.writes.clear()
    result = node.run(devices=NICS, cpus="0-3")
    assert (result["changed"], {entry["verdict"] for entry in result["irqs"]}, node.kernel.writes) == (False, {"right"}, [])
    assert result["diff"]["before"] == result["diff"]["after"]
    assert node.saved.read_text() == before


def test_check_mode_foretells_and_writes_nothing(node: Node) -> None:
    before = node.asked()
    foretold = node.run(check=True, devices=NICS, cpus="0-3")
    assert (foretold["changed"], {entry["verdict"] for entry in foretold["irqs"]}) == (True, {"differs"})
    assert (node.asked(), node.saved.exists(), (node.root / "run").exists()) == (before, False, False)
    assert f"{ETH0} interrupt 65 (queue 0): CPUs 0-7, on 6\n" in foretold["diff"]["before"]
    assert foretold["diff"] == node.run(devices=NICS, cpus="0-3")["diff"]
    assert node.run(check=True, devices=NICS, cpus="0-3")["changed"] is False


def test_strategy_mask_gives_all_cpus(node: Node) -> None:
    result = node.run(devices=[{"interface": "eth1"}], cpus="4-5", strategy="mask")
    assert {(entry["wanted"], entry["asked"], entry["effective"], entry["verdict"]) for entry in result["irqs"]} == {("4-5", "4-5", "4", "moved")}


def test_what_the_kernel_manages_is_no_failure(node: Node) -> None:
    node.kernel.errors = {68: [errno.EPERM], 69: [errno.EPERM]}
    result = node.run(devices=[{"class": "nvme"}], cpus="7")
    assert "failed" not in result
    assert [(entry["verdict"], entry["errno"]) for entry in result["irqs"]] == [("managed", "EPERM"), ("managed", "EPERM"), ("moved", None)]
    again = node.run(check=True, devices=[{"class": "nvme"}], cpus="7")
    assert (again["changed"], [entry["verdict"] for entry in again["irqs"]]) == (False, ["managed", "managed", "right"])


def test_older_kernels_that_only_tell_the_writer_are_remembered(node: Node) -> None:
    for path in node.root.glob("proc/irq/*/smp_affinity*"):
        path.chmod(0o644)
    assert node.run(check=True, devices=[{"class": "nvme"}], cpus="7")["irqs"][0]["verdict"] == "differs"
    node.kernel.errors = {68: [errno.EIO], 69: [errno.EIO]}
    assert node.run(devices=[{"class": "nvme"}], cpus="7")["irqs"][0]["errno"] == "EIO"
    again = node.run(check=True, devices=[{"class": "nvme"}], cpus="7")
    assert (again["changed"], again["irqs"][0]["verdict"]) == (False, "managed")


def test_failing_half_way_tells_exactly_what_moved(node: Node) -> None:
    node.kernel.errors = {66: [errno.ENOSPC], 64: [errno.EINVAL]}
    result = node.run(devices=[{"interface": "eth0"}], cpus="0")
    assert (result["failed"], result["changed"]) == (True, True)
    assert verdicts(result) == [(0, "0", "0", "moved"), (1, "0", "6", "no_vectors"), (None, "0", "6", "refused")]
    assert "interrupt 66: no_vectors (ENOSPC), on CPUs '6', wanted '0'" in result["msg"]
    assert result["msg"].endswith("Moved: 65")
    assert "have vectors for 2 of its 3 interrupts" in str(result["warnings"])
    assert node.saved.exists()


def test_restored_puts_back_and_forgets(node: Node) -> None:
    before = node.asked()
    node.run(devices=NICS, cpus="0")
    node.run(devices=NICS, cpus="1")
    foretold = node.run(check=True, state="restored")
    assert (foretold["changed"], node.saved.exists()) == (True, True)
    result = node.run(state="restored")
    assert (result["changed"], node.asked(), node.saved.parent.exists()) == (True, before, False)
    assert [device["address"] for device in result["devices"]] == [ETH0, ETH1]
    assert node.run(state="restored")["changed"] is False


def test_one_device_is_restored_alone(node: Node) -> None:
    before = node.asked()
    node.run(devices=NICS, cpus="0")
    node.run(state="restored", devices=[{"interface": "eth1"}])
    assert list(json.loads(node.saved.read_text())["devices"]) == [ETH0]
    assert {number: value for number, value in node.asked().items() if value != before[number]} == {64: "0", 65: "0", 66: "0"}


def test_originals_outlive_new_numbers(node: Node) -> None:
    """A driver that is loaded anew gets other interrupts; queues are what stays."""
    for number, value in ((64, "0-3"), (65, "2"), (66, "3")):
        (node.root / f"proc/irq/{number}/smp_affinity_list").write_text(value)
    node.run(devices=[{"interface": "eth0"}], cpus="0")
    for number in (64, 65, 66):
        (node.root / f"proc/irq/{number}").rename(node.root / f"proc/irq/{number + 60}")
        folder = next(node.root.glob(f"sys/devices/pci0000:10/*{ETH0[5:]}/msi_irqs"), None) or next(
            path for path in node.root.glob("sys/devices/**/msi_irqs") if path.parent.name == ETH0)
        (folder / str(number)).rename(folder / str(number + 60))
    node.run(state="restored")
    assert {number: value for number, value in node.asked().items() if number >= 120} == {124: "0-3", 125: "2", 126: "3"}


def test_originals_that_cannot_be_saved_stop_it(node: Node) -> None:
    (node.root / "var").mkdir(exist_ok=True)
    (node.root / "var/lib").write_text("")
    before = node.asked()
    result = node.run(devices=NICS, cpus="0")
    assert result["failed"] is True and node.asked() == before


def test_originals_of_another_version_stop_it(node: Node) -> None:
    node.saved.parent.mkdir(parents=True)
    node.saved.write_text('{"version": 2}')
    before = node.asked()
    result = node.run(devices=NICS, cpus="0")
    assert "has version 2, this collection knows 1: nothing was changed" in result["msg"] and node.asked() == before


def test_below_another_root_it_only_says_what_would_be(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    root = tmp_path / "node"
    paper.build(MACHINE, root)
    before = {path: path.read_bytes() for path in root.rglob("*") if path.is_file()}
    with patch_module_args({"root": str(root), "devices": NICS, "cpus": "0", "_ansible_diff": True}), pytest.raises(SystemExit):
        irq_affinity.main()
    result = json.loads(capsys.readouterr().out)
    assert (result["changed"], {entry["verdict"] for entry in result["irqs"]}) == (False, {"differs"})
    assert "CPUs 0, on 0" in result["diff"]["after"]
    assert {path: path.read_bytes() for path in root.rglob("*") if path.is_file()} == before


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "no such interface": ({"devices": [{"interface": "eth7"}], "cpus": "0"}, "there is no interface eth7, found eth0, eth1"),
    "no such driver": ({"devices": [{"driver": "igb"}], "cpus": "0"}, "no PCI device has the driver igb, found mlx5_core, nvme"),
    "no such device": ({"devices": [{"address": "0000:99:00.0"}], "cpus": "0"}, "devices with interrupts of their own are " + ", ".join((ETH0, NVME, ETH1))),
    "no address": ({"devices": [{"address": "99:00.0"}], "cpus": "0"}, "'99:00.0' is not a PCI address"),
    "none of a class": ({"devices": [{"class": "gpu"}], "cpus": "0"}, "there is no device of class gpu, found nic, nvme"),
    "one good, one bad": ({"devices": [{"interface": "eth0"}, {"class": "gpu"}], "cpus": "0"}, "class gpu"),
    "no devices": ({"devices": [], "cpus": "0"}, "devices: is empty"),
    "two names in one entry": ({"devices": [{"interface": "eth0", "class": "nic"}], "cpus": "0"}, "mutually exclusive"),
    "nothing in an entry": ({"devices": [{}], "cpus": "0"}, "one of the following is required"),
    "no CPUs": ({"devices": NICS}, "missing: cpus"),
    "an empty list": ({"devices": NICS, "cpus": ""}, "cpus: is empty"),
    "offline CPUs": ({"devices": NICS, "cpus": "0,8-9"}, "cpus: '8-9' is not online (online: 0-7)"),
    "a colon": ({"devices": NICS, "cpus": "managed_irq:1-3"}, "cpus: "),
}


@pytest.mark.parametrize(("arguments", "message"), REFUSED.values(), ids=REFUSED)
def test_refused(node: Node, arguments: dict[str, Any], message: str) -> None:
    result = node.run(**arguments)
    assert result["failed"] is True
    assert message in result["msg"]
    assert node.kernel.writes == []


@pytest.mark.parametrize("name", ["nothing", "file"])
def test_a_root_that_is_no_directory_is_refused(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").write_text("")
    with patch_module_args({"root": str(tmp_path / name), "devices": NICS, "cpus": "0"}), pytest.raises(SystemExit):
        irq_affinity.main()
    assert json.loads(capsys.readouterr().out)["msg"].startswith(f"root: '{tmp_path / name}'")


# -- what a name stands for

def _link(root: Path, path: str, target: str) -> None:
    place = root / path[1:]
    place.parent.mkdir(parents=True, exist_ok=True)
    place.symlink_to(target)


def bond(root: Path) -> None:
    for name in ("eth0", "eth1"):
        _link(root, f"/sys/devices/virtual/net/bond0/lower_{name}", f"../../../../class/net/{name}")
    (root / "sys/devices/virtual/net/bond0/bonding").mkdir()
    (root / "sys/devices/virtual/net/bond0/bonding/slaves").write_text("eth0 eth1\n")
    _link(root, "/sys/class/net/bond0", "../../devices/virtual/net/bond0")


def vlan_on_bond(root: Path) -> None:
    bond(root)
    _link(root, "/sys/devices/virtual/net/bond0.7/lower_bond0", "../bond0")
    _link(root, "/sys/class/net/bond0.7", "../../devices/virtual/net/bond0.7")


def vlan(root: Path) -> None:
    _link(root, "/sys/devices/virtual/net/eth1.7/lower_eth1", "../../../../class/net/eth1")
    _link(root, "/sys/class/net/eth1.7", "../../devices/virtual/net/eth1.7")


@pytest.mark.parametrize(("make", "name", "devices"), [
    (bond, "bond0", [ETH0, ETH1]), (vlan, "eth1.7", [ETH1]), (vlan_on_bond, "bond0.7", [ETH0, ETH1]),
])
def test_stacked_interfaces_stand_for_their_ports(node: Node, make: Callable[[Path], None], name: str, devices: list) -> None:
    make(node.root)
    result = node.run(devices=[{"interface": name}, {"interface": "eth1"}], cpus="0-3")
    assert [device["address"] for device in result["devices"]] == devices
    assert result["devices"][-1]["named_by"] == [f"interface={name}", "interface=eth1"]


def test_an_interface_without_ports_is_refused(node: Node) -> None:
    (node.root / "sys/devices/virtual/net/dummy0").mkdir(parents=True)
    _link(node.root, "/sys/class/net/dummy0", "../../devices/virtual/net/dummy0")
    assert "is no device and has no ports below it; of devices are eth0, eth1" in node.run(devices=[{"interface": "dummy0"}], cpus="0")["msg"]
