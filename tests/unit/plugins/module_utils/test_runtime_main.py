# Copyright (c) 2026 The inferops.locality authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The program that acts at boot, on a paper node: writes land as they are, since no kernel moves anything there."""

from __future__ import annotations

import errno
import functools
import io
import json
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.inferops.locality.plugins.module_utils import irq, nic_channels, runtime_main
from ansible_collections.inferops.locality.plugins.module_utils.sysroot import SysRoot
from ansible_collections.inferops.locality.plugins.plugin_utils import paper
from ansible_collections.inferops.locality.tests.unit.paper_kernel import Live

ETH0, ETH1 = "0000:00:01.0", "0000:00:02.0"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    paper.build({
        "cpus": {"sockets": 1, "cores_per_numa": 4, "threads": 2},
        "pci": [{"host_bridge": "pci0000:00", "numa": 0, "children": [
            {"nic": "mlx5", "address": ETH0, "interface": "eth0", "queues": 2, "irqs": 3, "msi": {"cpus": "0-7", "effective": "0,4"}},
            {"nic": "mlx5", "address": ETH1, "interface": "eth1", "queues": 2, "irqs": 3},
        ]}],
    }, tmp_path / "node")
    return tmp_path / "node"


def run(root: Path, *arguments: str, devices: Any = None, text: str = "") -> tuple:
    if devices is not None or text:
        path = root / irq.CONFIGURED.lstrip("/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text or json.dumps({"version": 1, "devices": devices}))
    out = io.StringIO()
    status = runtime_main.main(["irq", *arguments, "--root", str(root)], "1.0.0+abc", out)
    return status, out.getvalue()


def asked(root: Path, number: int) -> str:
    return (root / f"proc/irq/{number}/smp_affinity_list").read_text().strip()


def test_version() -> None:
    out = io.StringIO()
    assert runtime_main.main(["version"], "1.0.0+abc", out) == 0
    assert out.getvalue() == "1.0.0+abc\n"


def test_nothing_configured(root: Path) -> None:
    assert run(root) == (0, "/etc/inferops-locality/irq.json is not there: nothing to do\n")


def test_file_that_cannot_be_used(root: Path) -> None:
    assert run(root, text="{") == (2, "/etc/inferops-locality/irq.json is not JSON\n")


def test_interrupts_go_where_the_file_has_them(root: Path) -> None:
    # on paper the effective CPU does not follow, and an interrupt that does not come has not moved yet
    assert run(root, "apply", devices=[{"address": ETH0, "cpus": "0,4"}]) == (0, f"{ETH0}: 1 moved, 2 pending\n")
    assert [asked(root, number) for number in (64, 65, 66)] == ["0", "0", "4"]
    assert run(root) == (0, f"{ETH0}: 1 right, 2 pending\n")


def test_check_says_what_differs_and_writes_nothing(root: Path) -> None:
    status, text = run(root, "--check", devices=[{"address": ETH0, "cpus": "0,4", "rps": "0"}])
    assert status == 1
    assert f"{ETH0} interrupt 65: differs: on CPUs '4', wanted '0'\n" in text
    assert text.endswith(f"{ETH0}: 3 differs\n{ETH0} eth0: rps of 2 queues differs from '0'\n")
    assert [asked(root, number) for number in (64, 65, 66)] == ["0-7"] * 3


def test_one_interface_only(root: Path) -> None:
    devices = [{"address": ETH0, "cpus": "1"}, {"address": ETH1, "cpus": "2"}]
    status, text = run(root, "--interface", "eth1", devices=devices)
    assert (status, ETH0 in text, ETH1 in text) == (0, False, True)
    assert asked(root, 64) == "0-7"
    assert run(root, "--interface", "lo")[1] == "lo: nothing is configured for this interface\n"


def test_steering_alone(root: Path) -> None:
    assert run(root, devices=[{"address": ETH0, "rps": "0,4", "xps": "1"}]) == (
        0, f"{ETH0} eth0: rps of 2 queues set to '0,4'\n{ETH0} eth0: xps of 2 queues set to '1'\n")
    assert (root / "sys/class/net/eth0/queues/rx-1/rps_cpus").read_text().strip() == "00000011"
    assert asked(root, 64) == "0-7"
    assert run(root) == (0, "")


def test_device_that_is_gone(root: Path) -> None:
    status, text = run(root, devices=[{"address": "0000:7f:00.0", "cpus": "0"}, {"address": ETH0, "cpus": "0,4"}])
    assert (status, text.splitlines()[0]) == (0, "0000:7f:00.0: no such device")
    assert asked(root, 66) == "4"


@pytest.mark.parametrize("channels, queues, check, status, text, put", [
    (nic_channels.Channels(0, 0, 0, 63, 0, 0, 0, 63), 8, False, True, "eth0: 63 queues, 8 wanted: set", [8]),
    (nic_channels.Channels(0, 0, 0, 63, 0, 0, 0, 63), 8, True, False, "eth0: 63 queues, 8 wanted", []),
    (nic_channels.Channels(0, 0, 0, 63, 0, 0, 0, 8), 8, False, True, "", []),
    (nic_channels.Channels(0, 0, 0, 4, 0, 0, 0, 4), 8, False, False, "eth0: the number of queues stays: 8 queues are wanted and 4 are possible", []),
    (None, 8, False, True, "eth0: the driver has no number of queues to set", []),
])
def test_queues(monkeypatch: pytest.MonkeyPatch, root: Path, channels: Any, queues: int, check: bool, status: bool, text: str, put: list) -> None:
    done: list = []
    monkeypatch.setattr(nic_channels, "get", lambda name: channels)
    monkeypatch.setattr(nic_channels, "put", lambda name, wanted: done.append(wanted.combined))
    report = runtime_main.Report()
    assert runtime_main._queues(Live(root), {"address": ETH0, "queues": queues}, check, report) == status
    assert (report.lines, done) == ([f"{ETH0} {text}"] if text else [], put)
    assert report.changed is bool(put)


# -- what it says at each run, and what only once in a boot

def test_brief_says_news_only(root: Path) -> None:
    devices = [{"address": ETH0, "cpus": "0,4"}, {"address": "0000:7f:00.0", "cpus": "0"}]
    assert run(root, "--brief", devices=devices)[1].splitlines() == [f"{ETH0}: 1 moved, 2 pending", "0000:7f:00.0: no such device"]
    assert run(root, "--brief") == (0, "")
    assert run(root)[1].splitlines()[-1] == "0000:7f:00.0: no such device", "without --brief all is said"
    # another device's run forgets nothing of this one
    assert run(root, "--brief", "--interface", "eth0") == (0, "")
    assert run(root, "--brief") == (0, "")


def test_what_is_mended_and_breaks_again_is_said_again(root: Path) -> None:
    devices = [{"address": "0000:7f:00.0", "cpus": "0"}]
    assert run(root, "--brief", devices=devices)[1] == "0000:7f:00.0: no such device\n"
    (root / "sys/bus/pci/devices/0000:7f:00.0").mkdir()
    assert "no such device" not in run(root, "--brief")[1]
    (root / "sys/bus/pci/devices/0000:7f:00.0").rmdir()
    assert run(root, "--brief")[1] == "0000:7f:00.0: no such device\n"


def test_irqbalance_is_named_once(root: Path) -> None:
    (root / "sys/fs/cgroup/system.slice/irqbalance.service").mkdir(parents=True)
    assert run(root, "--brief", devices=[])[1] == "irqbalance runs: it moves interrupts away from where they are put\n"
    assert run(root, "--brief")[1] == ""


def test_result_as_json(root: Path) -> None:
    devices = [{"address": ETH0, "cpus": "0,4"}]
    assert json.loads(run(root, "--json", "--check", devices=devices)[1])["changed"] is False
    assert json.loads(run(root, "--json")[1]) == {"changed": True, "good": True, "lines": [f"{ETH0}: 1 moved, 2 pending"]}
    assert json.loads(run(root, "--json")[1])["changed"] is False


def test_each_interrupt_that_cannot_be_moved_has_its_line(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(sysroot: SysRoot) -> Any:
        def write(path: str, text: str) -> None:
            raise OSError({"65": errno.EPERM, "66": errno.ENOSPC}.get(path.split("/")[3], errno.EINVAL), "")
        return write
    monkeypatch.setattr(irq, "writer", refuse)
    status, text = run(root, "--brief", devices=[{"address": ETH0, "cpus": "1,2"}])
    assert status == 1
    assert text.splitlines() == [
        f"{ETH0} interrupt 65: managed: on CPUs '4', wanted '1'",
        f"{ETH0} interrupt 66: no_vectors (ENOSPC): on CPUs '0', wanted '2'",
        f"{ETH0} interrupt 64: refused (EINVAL): on CPUs '0', wanted '1'",
        f"{ETH0}: CPUs '1-2' have vectors for 2 of its 3 interrupts: give it fewer queues or more CPUs",
    ]
    assert run(root, "--brief") == (1, "")


# -- where new interrupts start, and the way back

def test_default_affinity(root: Path) -> None:
    text = json.dumps({"version": 1, "default_affinity": "0,4", "devices": []})
    assert run(root, "--check", text=text) == (1, "new interrupts do not start on '0,4'\n")
    assert run(root) == (0, "new interrupts start on '0,4'\n")
    assert irq.read_default(SysRoot(str(root))) == {0, 4}
    assert run(root) == (0, "")


def test_restore_puts_everything_back_and_forgets_it(root: Path) -> None:
    before = {number: asked(root, number) for number in range(64, 70)}
    default = irq.read_default(SysRoot(str(root)))
    devices = [{"address": ETH0, "cpus": "1", "rps": "1", "xps": "2"}, {"address": ETH1, "cpus": "2"}]
    text = json.dumps({"version": 1, "default_affinity": "0,4", "devices": devices})
    assert run(root, text=text)[0] == 0
    assert run(root, text=text.replace('"1"', '"3"'))[0] == 0, "a second plan must not become the original"
    assert asked(root, 64) == "3"
    assert run(root, "restore", "--check")[0] == 0
    assert asked(root, 64) == "3"
    status, said = run(root, "restore")
    assert (status, {number: asked(root, number) for number in range(64, 70)}) == (0, before)
    assert f"{ETH0} eth0: rps of 2 queues" in said
    assert (root / "sys/class/net/eth0/queues/rx-1/rps_cpus").read_text().strip() == "00000000"
    assert irq.read_default(SysRoot(str(root))) == default
    assert not (root / "var/lib/inferops-locality").exists()
    assert run(root, "restore") == (0, "nothing to put back\n")


def test_originals_of_another_version_stop_it(root: Path) -> None:
    saved = root / "var/lib/inferops-locality/irq.json"
    saved.parent.mkdir(parents=True)
    saved.write_text('{"version": 2}')
    status, text = run(root, devices=[{"address": ETH0, "cpus": "1"}])
    assert (status, asked(root, 64)) == (2, "0-7")
    assert "has version 2, this collection knows 1" in text
    assert run(root, "restore")[0] == 2


# -- softirqs

def test_softirqs_are_counted_over_an_interval(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def sleep(seconds: float) -> None:
        text = (root / "proc/softirqs").read_text()
        (root / "proc/softirqs").write_text("\n".join(
            "NET_RX: 9 0 0 0 1 0 0 0" if line.strip().startswith("NET_RX") else line for line in text.splitlines()))
    out = io.StringIO()
    monkeypatch.setattr(irq, "sample_softirqs", functools.partial(irq.sample_softirqs, pause=sleep))
    assert runtime_main.main(["softirqs", "--seconds", "5", "--cpus", "0-3", "--root", str(root)], out=out) == 0
    assert json.loads(out.getvalue()) == {"seconds": 5.0, "net_rx": {"0": 9, "4": 1}, "net_tx": {}, "cpus": "0-3", "share": 0.9}


@pytest.mark.parametrize("arguments", [["softirqs", "--seconds", "0"], ["softirqs", "--cpus", "x"], ["irq", "restore", "--interface", "eth0"]])
def test_arguments_that_make_no_sense(arguments: list) -> None:
    with pytest.raises(SystemExit) as ended:
        runtime_main.main(arguments)
    assert ended.value.code == 2
