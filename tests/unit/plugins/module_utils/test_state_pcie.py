# Copyright (c) 2026 The inferops.locality authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the PCIe layer of a node shows, from config space and sysfs files built here: read, unknown, or not present; never right by default."""

from __future__ import annotations

import json
import os
import struct
from pathlib import Path
from typing import Any, Callable

import pytest

from ansible_collections.inferops.locality.plugins.module_utils import knobs, pcie, pcie_knobs, state_pcie
from ansible_collections.inferops.locality.plugins.module_utils.probe import PROBE_DIR, Probe
from ansible_collections.inferops.locality.plugins.module_utils.state import read_state
from ansible_collections.inferops.locality.plugins.module_utils.sysroot import SysRoot
from ansible_collections.inferops.locality.tests.unit.fixtures import machines as fixtures

GPU, NIC, NVME, IB, GAUDI, AMD = "0000:18:00.0", "0000:19:00.0", "0000:1c:00.0", "0000:1d:00.0", "0000:98:00.0", "0000:a7:00.0"
OPEN = "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.1  Release Build\nGCC version:  gcc 14\n"
CLOSED = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.1  Release Build\nGCC version:  gcc 14\n"


@pytest.fixture
def machine(tmp_path: Path) -> Path:
    return fixtures.build("two-sockets", tmp_path / "node")


def write(root: Path, path: str, text: Any = "") -> None:
    target = root / path.lstrip("/")
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(text if isinstance(text, bytes) else str(text).encode())


def bind(root: Path, address: str, driver: str | None) -> None:
    """Bind a function to a driver, or to none."""
    place = (root / f"sys/bus/pci/devices/{address}").resolve()
    link = place / "driver"
    if link.is_symlink():
        link.unlink()
    if driver is not None:
        home = root / f"sys/bus/pci/drivers/{driver}"
        home.mkdir(parents=True, exist_ok=True)
        link.symlink_to(os.path.relpath(home, place))  # what the reader looks at; the driver's own list is not


def config(root: Path, address: str) -> Path:
    return (root / f"sys/bus/pci/devices/{address}").resolve() / "config"


def running(root: Path) -> dict[str, Any]:
    state = read_state(SysRoot(str(root)))
    return {knob: value for knob, value in state["running"].items() if knobs.KNOBS[knob].layer == "pcie"}


# -- links and registers -----------------------------------------------------------------------------------------------


def test_every_reported_knob_of_the_layer_is_read(machine: Path) -> None:
    assert set(running(machine)) == {knob.id for knob in knobs.KNOBS.values() if knob.layer == "pcie"}


def test_links(machine: Path) -> None:
    found = running(machine)
    assert found["pcie.link_width"] == {
        GPU: "x16", NIC: "x16", NVME: "x4", IB: "x8", "0000:26:00.0": "x8", GAUDI: "unknown: the kernel does not know it", AMD: "x16",
    }, "a virtual function has no link of its own"
    assert (found["pcie.link_speed"][IB], found["pcie.link_speed"][GAUDI]) == ("8 GT/s", "unknown: the kernel does not know it")


def test_acs_redirects_by_bridge(machine: Path) -> None:
    found = running(machine)["pcie.acs"]
    assert found == {
        "0000:15:01.0": "RR CR", "0000:15:02.0": "no ACS", "0000:16:00.0": "no ACS", "0000:17:00.0": "RR CR", "0000:17:01.0": "RR",
        "0000:17:02.0": "RR CR", "0000:1a:00.0": "no ACS", "0000:1b:00.0": "RR CR", "0000:25:01.0": "RR CR", "0000:97:01.0": "RR CR",
    }


# Offsets of the builder's config space: device control 0x68, link control 0x70.
@pytest.mark.parametrize(
    ("device", "port", "aspm"),
    [(0x0000, 0x0000, "off"), (0x0001, 0x0000, "L0s"), (0x0000, 0x0002, "L1"), (0x0003, 0x0003, "L0s L1"), (0x0140, 0x0040, "off")],
    ids=["neither end", "one end enters L0s", "the port alone", "both", "other bits of link control"],
)
def test_aspm_is_on_where_either_end_has_it(machine: Path, device: int, port: int, aspm: str) -> None:
    for path, value in ((config(machine, NIC), device), (config(machine, NIC).parents[1] / "config", port)):
        data = bytearray(path.read_bytes())
        struct.pack_into("<H", data, 0x70, value)
        path.write_bytes(data)
    assert running(machine)["pcie.aspm"][NIC] == aspm


def test_the_aspm_policy_is_told(machine: Path) -> None:
    write(machine, state_pcie.ASPM_POLICY, "default performance [powersave] powersupersave \n")
    assert running(machine)["pcie.aspm"]["policy"] == "powersave"


@pytest.mark.parametrize(("control", "value"), [(0x2810, "on"), (0x2800, "off"), (0x0010, "on"), (0xFFEF, "off")])
def test_relaxed_ordering(machine: Path, control: int, value: str) -> None:
    path = config(machine, GPU)
    data = bytearray(path.read_bytes())
    struct.pack_into("<H", data, 0x68, control)
    path.write_bytes(data)
    assert running(machine)["pcie.relaxed_ordering"][GPU] == value


@pytest.mark.parametrize("size", [64, 128])
def test_what_only_root_may_read_is_unknown(machine: Path, size: int) -> None:
    for path in (machine / "sys/devices").glob("**/config"):
        os.truncate(path, size)
    found = running(machine)
    for knob in ("pcie.acs", "pcie.aspm", "pcie.relaxed_ordering"):
        assert set(found[knob].values()) == {"unknown: only root may read all of its config space"}, knob
    assert found["pcie.link_width"][GPU] == "x16", "the kernel's own files are for everybody"


CONFIGS: list[tuple[str, Callable[[bytes], bytes], str]] = [
    ("absent", lambda data: b"", "unknown: its PCI Express capability cannot be read"),
    ("fallen off the bus", lambda data: b"\xff" * len(data), "unknown: its PCI Express capability cannot be read"),
    ("no capability", lambda data: data[:6] + b"\0\0" + data[8:], "unknown: its PCI Express capability cannot be read"),
    ("a list that loops", lambda data: data[:0x41] + b"\x40" + data[0x42:], "unknown: its PCI Express capability cannot be read"),
    ("cut in the capability", lambda data: data[:0x70], "unknown: its PCI Express capability cannot be read"),
]


@pytest.mark.parametrize(("change", "value"), [case[1:] for case in CONFIGS], ids=[case[0] for case in CONFIGS])
def test_config_space_that_makes_no_sense_is_unknown(machine: Path, change: Callable[[bytes], bytes], value: str) -> None:
    path = config(machine, NIC)
    path.write_bytes(change(path.read_bytes()))
    found = running(machine)
    assert (found["pcie.relaxed_ordering"][NIC], found["pcie.aspm"][NIC]) == (value, value)
    assert found["pcie.relaxed_ordering"][GPU] == "on", "the others are read"


@pytest.mark.parametrize(
    ("link", "device", "expected"),
    [
        (0x0003, 0x2810, pcie.Express(("L0s", "L1"), True)), (0x0002, 0x2800, pcie.Express(("L1",), False)), (0x1042, 0x0010, pcie.Express(("L1",), True)),
        (0xFFFF, 0xFFFF, None),
    ],
)
def test_express_capability(link: int, device: int, expected: pcie.Express | None) -> None:
    data = bytearray(256)
    struct.pack_into("<H", data, 6, 0x10)
    data[0x34] = 0x40
    data[0x40:0x42] = b"\x10\x00"
    struct.pack_into("<H", data, 0x48, device)
    struct.pack_into("<H", data, 0x50, link)
    assert pcie.express_of(bytes(data)) == expected


# -- GPUs --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("driver", [None, "bochs-drm", "vfio-pci", "nouveau", "pci-stub"])
def test_without_a_gpu_driver_nothing_is_there_and_nothing_is_right(machine: Path, driver: str | None) -> None:
    for address in (GPU, GAUDI, AMD):
        bind(machine, address, driver)
    # Left behind by a driver that is gone.
    write(machine, f"{state_pcie.PEERMEM}/refcnt", "0")
    write(machine, f"{state_pcie.NVIDIA_FS}/refcnt", "0")
    found = running(machine)
    assert {knob: value for knob, value in found.items() if knob.startswith("gpu.")} == {
        "gpu.nic_relation": {GPU: "not present", GAUDI: "not present", AMD: "not present"},
        "gpu.nvme_relation": {GPU: "not present", GAUDI: "not present", AMD: "not present"},
        "gpu.peermem": "not present", "gpu.persistence": "not present", "gpu.gds": "not present",
    }
    wanted = pcie_knobs.wanted([{"address": GPU, "kind": "gpu", "vendor": "0x10de"}, {"address": NIC, "kind": "nic"}, {"address": NVME, "kind": "nvme"}],
                               {GPU: {NIC: "PIX", NVME: "PXB"}}, {}, None, [])
    judged = {knob: pcie_knobs.judge(value, found[knob]) for knob, value in wanted.items() if knob.startswith("gpu.")}
    assert len(judged) == 5 and not any(same for same, _words in judged.values())
    assert all("not present" in words for _same, words in judged.values())


def test_relations_of_gpus_with_a_driver(machine: Path) -> None:
    for address, driver in ((GPU, "nvidia"), (GAUDI, "habanalabs"), (AMD, "amdgpu")):
        bind(machine, address, driver)
    found = running(machine)
    assert found["gpu.nic_relation"][GPU] == "PIX" and found["gpu.nvme_relation"][GPU] == "PXB"
    assert found["gpu.nic_relation"][GAUDI] == "SYS"
    assert found["gpu.nic_relation"][AMD] == "unknown: the PCI tree does not tell", "its NUMA node is not known"


def test_a_machine_without_gpus_has_no_gpu_knobs(machine: Path) -> None:
    for address in (GPU, GAUDI, AMD):
        config(machine, address).with_name("class").write_text("0x088000\n", encoding="utf-8")
    assert {knob for knob in running(machine) if not knob.startswith("pcie.")} == set()


# (files, release, value)
PEERMEM = [
    ("the module", {f"{state_pcie.PEERMEM}/refcnt": "0", state_pcie.NVIDIA_VERSION: CLOSED}, "5.14.0", "nvidia_peermem"),
    ("open modules", {state_pcie.NVIDIA_VERSION: OPEN}, "6.12.57", "dma-buf"),
    ("open modules, first kernel with it", {state_pcie.NVIDIA_VERSION: OPEN}, "5.12.0", "dma-buf"),
    ("open modules, older kernel", {state_pcie.NVIDIA_VERSION: OPEN}, "5.11.9", "none"),
    ("closed modules", {state_pcie.NVIDIA_VERSION: CLOSED}, "6.12.57", "none"),
    ("no version", {}, "6.12.57", "unknown: /proc/driver/nvidia/version cannot be read, so whether the kernel modules are the open ones is not known"),
]


@pytest.mark.parametrize(("files", "release", "value"), [case[1:] for case in PEERMEM], ids=[case[0] for case in PEERMEM])
def test_gpudirect_rdma(machine: Path, files: dict[str, str], release: str, value: str) -> None:
    bind(machine, GPU, "nvidia")
    write(machine, "/proc/sys/kernel/osrelease", release + "\n")
    for path, text in files.items():
        write(machine, path, text)
    assert running(machine)["gpu.peermem"] == value


def smi(out: str, rc: int = 0) -> dict[str, str]:
    argv = ["nvidia-smi", "--query-gpu=persistence_mode", "--format=csv,noheader"]
    return {f"{PROBE_DIR}/nvidia-smi-persistence.json": json.dumps({"argv": argv, "rc": rc, "stdout": out, "stderr": ""})}


NOBODY = "unknown: nvidia-persistenced does not run, and nvidia-smi, which can set the mode without it, does not answer"
PERSISTENCE = [
    ("the daemon", {"/run/nvidia-persistenced/socket": ""}, "on"),
    ("the daemon of the driver's container", {"/run/nvidia/driver/run/nvidia-persistenced/socket": ""}, "on"),
    ("nvidia-smi -pm 1", smi("Enabled\nEnabled\n"), "on"),
    ("one GPU without", smi("Enabled\nDisabled\n"), "off"),
    ("none", smi("Disabled\n"), "off"),
    ("nvidia-smi fails", smi("NVIDIA-SMI has failed\n", 9), NOBODY),
    ("nvidia-smi says something else", smi("[N/A]\n"), NOBODY),
    ("nobody to ask", {}, NOBODY),
]


@pytest.mark.parametrize(("files", "value"), [case[1:] for case in PERSISTENCE], ids=[case[0] for case in PERSISTENCE])
def test_persistence(machine: Path, files: dict[str, str], value: str) -> None:
    bind(machine, GPU, "nvidia")
    for path, text in files.items():
        write(machine, path, text)
    assert running(machine)["gpu.persistence"] == value


class LiveRoot(SysRoot):
    """A tree that stands for the running node."""

    live = True


@pytest.mark.parametrize(
    ("words", "value"),
    [
        (b"/usr/bin/nvidia-persistenced\0--user\0nv\0", "on"), (b"/usr/bin/nvidia-persistenced\0--no-persistence-mode\0", "off"),
        (b"/usr/sbin/sshd\0", NOBODY), (b"", NOBODY),
    ],
    ids=["runs", "runs without", "another program has its number", "ended, the socket stayed"],
)
def test_a_socket_may_outlive_its_daemon(machine: Path, words: bytes, value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    write(machine, "/run/nvidia-persistenced/socket")
    write(machine, "/run/nvidia-persistenced/nvidia-persistenced.pid", "812\n")
    write(machine, "/proc/812/cmdline", words)
    sysroot = LiveRoot(str(machine))
    monkeypatch.setattr(Probe, "ask", lambda *_args, **_more: None)
    sysroot.live = True
    assert state_pcie._persistence(sysroot, Probe(sysroot)) == value


def test_gpudirect_storage(machine: Path) -> None:
    bind(machine, GPU, "nvidia")
    assert running(machine)["gpu.gds"] == "none"
    write(machine, f"{config(machine, GPU).parent.relative_to(machine)}/p2pmem/size", "85899345920")
    assert running(machine)["gpu.gds"] == "NVMe P2PDMA"
    write(machine, f"{state_pcie.NVIDIA_FS}/refcnt", "0")
    assert running(machine)["gpu.gds"] == "nvidia_fs"


# -- facts for the plan ------------------------------------------------------------------------------------------------


def test_what_ports_can_do(machine: Path) -> None:
    write(machine, f"{config(machine, NIC).parents[1].relative_to(machine)}/max_link_width", "8\n")
    ports = read_state(SysRoot(str(machine)))["platform"]["pcie_ports"]
    assert ports["0000:17:01.0"] == {"vendor": "0x1000", "device": "0xc030", "max_speed_gts": 32.0, "max_width": 8}
    assert "0000:1c:00.0" not in ports, "bridges only"


GUESTS: list[tuple[str, dict[str, str], dict[str, Any]]] = [
    ("no hypervisor", {"/sys/module/xfs/refcnt": "1"}, {"vfio": [], "kvm": 0}),
    ("loaded, not used", {"/sys/module/kvm_intel/refcnt": "0", "/sys/module/kvm/refcnt": "1"}, {"vfio": [], "kvm": 0}),
    ("used", {"/sys/module/kvm_amd/refcnt": "5", "/sys/module/kvm/refcnt": "1"}, {"vfio": [], "kvm": 5}),
    ("machines, the hypervisor built in", {"/sys/kernel/debug/kvm/871-13/vcpu0/pid": "9", "/sys/module/kvm/x": ""}, {"vfio": [], "kvm": 1}),
    ("no machines, the hypervisor built in", {"/sys/kernel/debug/kvm/halt_poll": "9", "/sys/module/kvm/x": ""}, {"vfio": [], "kvm": 0}),
    ("built in, debugfs closed", {"/sys/module/kvm/x": ""}, {"vfio": [], "kvm": None}),
    ("nothing to read", {}, {"vfio": [], "kvm": None}),
    ("bound functions", {"/sys/bus/pci/drivers/vfio-pci/0000:65:00.0": "", "/sys/bus/pci/drivers/vfio-pci/new_id": "", "/sys/module/vfio_pci/x": ""},
     {"vfio": ["0000:65:00.0"], "kvm": 0}),
]


@pytest.mark.parametrize(("files", "expected"), [case[1:] for case in GUESTS], ids=[case[0] for case in GUESTS])
def test_virtual_machines_of_a_node(tmp_path: Path, files: dict[str, str], expected: dict[str, Any]) -> None:
    (tmp_path / "etc").mkdir()
    for path, text in files.items():
        write(tmp_path, path, text)
    assert state_pcie.guests(SysRoot(str(tmp_path))) == expected


def test_an_empty_root_shows_no_knob_of_the_layer(tmp_path: Path) -> None:
    (tmp_path / "etc").mkdir()
    assert running(tmp_path) == {}
