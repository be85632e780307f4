# Copyright (c) 2026 The inferops.locality authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The program that acts at boot, on a paper node: writes land as they are, since no kernel moves anything there."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.inferops.locality.plugins.module_utils import irq, nic_channels, runtime_main
from ansible_collections.inferops.locality.plugins.module_utils.sysroot import SysRoot
from ansible_collections.inferops.locality.plugins.plugin_utils import paper

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
    assert (status, text.splitlines()[0]) == (1, "0000:7f:00.0: no such device")
    assert asked(root, 66) == "4"


class Live(SysRoot):
    """A paper node that passes for the running one, for what only a running one has."""

    def __init__(self, root: Path) -> None:
        super().__init__(str(root))
        self.live = True


@pytest.mark.parametrize("channels, queues, check, status, text, put", [
    (nic_channels.Channels(0, 0, 0, 63, 0, 0, 0, 63), 8, False, True, "eth0: 63 queues, 8 wanted: set\n", [8]),
    (nic_channels.Channels(0, 0, 0, 63, 0, 0, 0, 63), 8, True, False, "eth0: 63 queues, 8 wanted\n", []),
    (nic_channels.Channels(0, 0, 0, 63, 0, 0, 0, 8), 8, False, True, "", []),
    (nic_channels.Channels(0, 0, 0, 4, 0, 0, 0, 4), 8, False, False, "eth0: the number of queues stays: 8 queues are wanted and 4 are possible\n", []),
    (None, 8, False, True, "eth0: the driver has no number of queues to set\n", []),
])
def test_queues(monkeypatch: pytest.MonkeyPatch, root: Path, channels: Any, queues: int, check: bool, status: bool, text: str, put: list) -> None:
    done: list = []
    monkeypatch.setattr(nic_channels, "get", lambda name: channels)
    monkeypatch.setattr(nic_channels, "put", lambda name, wanted: done.append(wanted.combined))
    out = io.StringIO()
    assert runtime_main._queues(Live(root), {"address": ETH0, "queues": queues}, check, out) == status
    assert (out.getvalue(), done) == (f"{ETH0} {text}" if text else "", put)
