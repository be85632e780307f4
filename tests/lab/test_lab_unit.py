# Copyright (c) 2026 The inferops.locality authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The lab's parts that need no virtual machine."""

from __future__ import annotations

import io
import json
import os
import signal
import socket
import struct
import subprocess
import sys
import tarfile
import threading
import time
from pathlib import Path
from typing import Iterator, List, Optional

import pytest

import lab
from vlab import config, image, machine, process, serial
from vlab.config import Cache
from vlab.machine import Machine, Shape
from vlab.node import BootFailed, LabError, Node, Record
from vlab.serial import Finding

STALL = "[    3.1] rcu: rcu_preempt kthread timer wakeup didn't happen for 2102 jiffies! g-1043 f0x0 RCU_GP_WAIT_FQS(5) ->state=0x402\n"


@pytest.fixture
def cache(tmp_path: Path) -> Cache:
    return config.cache({"LOCALITY_LAB_CACHE": str(tmp_path)})


# -- arguments


def built(**shape: object) -> List[str]:
    return machine.arguments(Machine("a", Path("/n/a"), Path("/n/a/disk"), 2222, Shape(**shape)))  # type: ignore[arg-type]


def values(arguments: List[str], option: str) -> List[str]:
    return [arguments[at + 1] for at, word in enumerate(arguments) if word == option]


def devices(arguments: List[str], driver: str) -> List[str]:
    return [text for text in values(arguments, "-device") if text.split(",")[0] == driver]


def test_two_sockets_with_memory_and_distance() -> None:
    arguments = built(memory0=4096, memory1=2048)
    assert values(arguments, "-m") == ["6144M"]
    assert values(arguments, "-smp") == ["8,sockets=2,cores=2,threads=2"]
    assert values(arguments, "-numa") == ["node,nodeid=0,cpus=0-3,memdev=m0", "node,nodeid=1,cpus=4-7,memdev=m1", "dist,src=0,dst=1,val=21"]


def test_only_loopback_is_bound_and_the_guest_reaches_nothing() -> None:
    for arguments in (built(), built(peer="b"), built(nic="virtio", iommu=True, nvme=True)):
        assert values(arguments, "-netdev")[0] == "user,id=mg,restrict=on,hostfwd=tcp:127.0.0.1:2222-:22"
        text = " ".join(arguments)
        assert "0.0.0.0" not in text and "tcp::" not in text and "-vnc" not in text
        assert "hostfwd" not in text.replace("hostfwd=tcp:127.0.0.1:", "", 1)


@pytest.mark.parametrize("shape, driver, count", [
    ({}, "igb", 6),
    ({}, "bochs-display", 4),
    ({}, "pxb-pcie", 3),
    ({}, "x3130-upstream", 3),
    ({}, "i6300esb", 1),
    ({}, "intel-iommu", 0),
    ({}, "nvme", 0),
    ({"iommu": True}, "intel-iommu", 1),
    ({"nvme": True}, "nvme", 1),
    ({"nic": "virtio"}, "igb", 0),
    ({"nic": "virtio"}, "virtio-net-pci", 7),
])
def test_devices(shape: dict, driver: str, count: int) -> None:  # type: ignore[type-arg]
    assert len(devices(built(**shape), driver)) == count


def test_every_bus_and_id_is_there_once() -> None:
    arguments = built(iommu=True, nvme=True)
    parts = [dict(part.split("=", 1) for part in text.split(",") if "=" in part) for text in values(arguments, "-device")]
    ids = [part["id"] for part in parts if "id" in part]
    assert len(ids) == len(set(ids))
    assert {part["bus"] for part in parts if "bus" in part} <= {*ids, "pcie.0"}
    chassis = [part["chassis"] for part in parts if "chassis" in part]
    assert len(chassis) == len(set(chassis))


def test_an_iommu_comes_before_the_devices_that_it_maps() -> None:
    names = [text.split(",")[0] for text in values(built(iommu=True), "-device")]
    assert names.index("intel-iommu") < names.index("virtio-net-pci")


def test_a_wire_has_the_same_two_ends_on_both_nodes() -> None:
    def ends(name: str, peer: str) -> List[List[str]]:
        made = machine.arguments(Machine(name, Path("/n") / name, Path("/d"), 1, Shape(peer=peer)))
        wires = [dict(part.split("=", 1) for part in text.split(",")[1:]) for text in values(made, "-netdev") if text.startswith("dgram")]
        assert [wire["id"] for wire in wires] == ["n01", "n11"]
        return [[wire["local.path"], wire["remote.path"]] for wire in wires]

    assert ends("a", "b") == [pair[::-1] for pair in ends("b", "a")]


def test_nodes_differ_in_mac_tap_and_machine_id() -> None:
    macs = {machine.mac(name, index) for name in ("a", "b", "c") for index in range(6)}
    assert len(macs) == 18
    assert machine.MANAGEMENT_MAC not in macs
    assert len({machine.machine_id(name) for name in ("a", "b")}) == 2
    assert all(len(machine.machine_id(name)) == 32 for name in ("a", "b"))
    assert len(machine.tap("a-long-name1", "n00")) <= 15


def test_kvm_with_an_iommu_splits_the_interrupt_chip() -> None:
    arguments = machine.arguments(Machine("a", Path("/n"), Path("/d"), 1, Shape(iommu=True), accelerator="kvm"))
    assert values(arguments, "-machine") == ["q35,kernel-irqchip=split"]
    assert values(arguments, "-accel") == ["kvm"]


@pytest.mark.parametrize("shape, words", [
    ({"nic": "e1000"}, "igb or virtio"),
    ({"nic": "virtio", "peer": "b"}, "igb"),
    ({"memory0": 256}, "512"),
    ({"peer": "../b"}, "name"),
])
def test_shapes_that_cannot_be_had(shape: dict, words: str) -> None:  # type: ignore[type-arg]
    with pytest.raises(LabError, match=words):
        built(**shape)


@pytest.mark.parametrize("name", ["", "A", "1a", "a/b", "..", "a" * 13, "a_b", "a\n"])
def test_names_that_are_refused(name: str) -> None:
    with pytest.raises(LabError, match="node name"):
        machine.check_name(name)


# -- the console


@pytest.mark.parametrize("text, kind", [
    (STALL, "stall"),
    ("[   40.2] rcu: INFO: rcu_preempt detected stalls on CPUs/tasks:\n", "stall"),
    ("[   40.2] rcu: INFO: rcu_preempt self-detected stall on CPU\n", "stall"),
    ("[   40.2] rcu: INFO: rcu_preempt detected expedited stalls on CPUs/tasks: { 3-... } 21 jiffies\n", "stall"),
    ("[   21.9] rcu_preempt kthread starved for 5250 jiffies! g-1195\n", "stall"),
    ("[   19.2] Kernel panic - not syncing: VFS: Unable to mount root fs on unknown-block(0,0)\n", "panic"),
    ("[    2.1] Oops: int3: 0000 [#1] PREEMPT SMP NOPTI\n", "oops"),
    ("[    2.1] BUG: unable to handle page fault for address: ffffffffff\n", "oops"),
    ("[    2.1] kernel BUG at mm/slub.c:500!\n", "oops"),
    ("x\n(initramfs) ", "initramfs"),
    ("grub rescue> ", "grub"),
    ("error: file `/boot/vmlinuz' not found.\n", "grub"),
])
def test_signs_of_a_dead_kernel(text: str, kind: str) -> None:
    found = serial.find("Booting\n" + text)
    assert found is not None
    assert found.kind == kind
    assert found.line == text.strip().splitlines()[-1].strip()


@pytest.mark.parametrize("text", [
    "",
    "[    0.0] Command line: root=/dev/vda2 panic=5 rcupdate.rcu_cpu_stall_timeout=10\n",
    "[    0.0] rcu: Preemptible hierarchical RCU implementation.\n",
    "[   90.1] watchdog: BUG: soft lockup - CPU#3 stuck for 26s! [swapper/3:0]\n",
    "[  193.3] watchdog: watchdog0: watchdog did not stop!\n",
    "[FAILED] Failed to start systemd-networkd.service - Network Configuration.\n",
    "a login: ",
])
def test_what_is_no_sign(text: str) -> None:
    assert serial.find(text) is None


def test_the_first_of_several_signs_counts() -> None:
    found = serial.find("ok\n" + STALL + "[   40.0] Kernel panic - not syncing: softlockup\n")
    assert found is not None and found.kind == "stall"


def test_a_sign_is_found_across_two_reads_and_once(tmp_path: Path) -> None:
    log = tmp_path / "serial.log"
    watch = serial.Watch(log)
    assert watch.poll() is None
    log.write_bytes(b"[    1.0] fine\r\n[   19.2] Kernel pa")
    assert watch.poll() is None
    with log.open("ab") as file:
        file.write(b"nic - not syncing: test\r\n")
    assert watch.poll() == Finding("panic", "[   19.2] Kernel panic - not syncing: test")
    assert watch.poll() is None
    with log.open("ab") as file:
        file.write(b"\xff\xfe rebooting\r\n" + STALL.encode())
    found = watch.poll()
    assert found is not None and found.kind == "stall"


def test_a_node_opened_again_is_judged_by_its_last_boot(tmp_path: Path) -> None:
    log = tmp_path / "serial.log"
    assert serial.Watch.last_boot(log).offset == 0
    log.write_text("[    9.1] Kernel panic - not syncing: x\n[    9.2] Rebooting in 5 seconds..\n  Booting `Debian GNU/Linux'\n")
    assert serial.Watch(log).poll() is not None
    assert serial.Watch.last_boot(log).poll() is None
    with log.open("a") as file:
        file.write("[    9.1] Kernel panic - not syncing: again\n")
    found = serial.Watch.last_boot(log).poll()
    assert found is not None and found.line.endswith("again")


# -- boots that are tried again


class Scripted(Node):
    """A node whose boots end as the script says: a kind, or None for a good one."""

    def __init__(self, cache: Cache, script: List[Optional[str]]) -> None:
        super().__init__(cache, "a", Record(1, {}, "tcg"))
        self.directory.mkdir(parents=True, exist_ok=True)
        self.script = script
        self.stopped = 0

    def start(self, tools: image.Tools, disk: Path, disk_format: str) -> None:
        self.record.boots += 1

    def stop(self) -> None:
        self.stopped += 1

    def boot_id(self) -> str:
        return "1"

    def run(self, command: str, check: bool = True, timeout: float = 120, stdin: str = "") -> "subprocess.CompletedProcess[str]":
        return subprocess.CompletedProcess([], 0, "", "")

    def wait(self, timeout: Optional[float] = None, tolerate: object = (), not_boot: str = "") -> float:
        kind = self.script.pop(0)
        if kind:
            raise BootFailed(self.name, Finding(kind, "line"))
        return 1.0


@pytest.mark.parametrize("script, retries", [([None], 0), (["stall", None], 1), (["panic", "timeout", None], 2)])
def test_a_first_boot_is_tried_again(cache: Cache, script: List[Optional[str]], retries: int) -> None:
    node = Scripted(cache, script)
    node.boot(image.Tools(Path()), Path(), retries=2)
    assert [len(node.record.retries), node.record.boots, node.stopped] == [retries, retries + 1, retries]
    results = [json.loads(line)["result"] for line in cache.boots.read_text(encoding="utf-8").splitlines()]
    assert results.count("ok") == 1 and len(results) == retries + 1


def test_tries_are_bounded(cache: Cache) -> None:
    node = Scripted(cache, ["stall"] * 9)
    with pytest.raises(BootFailed, match="stall: line"):
        node.boot(image.Tools(Path()), Path(), retries=2)
    assert node.record.boots == 3


@pytest.mark.parametrize("kind", ["panic", "oops", "initramfs", "grub", "timeout"])
def test_a_reboot_that_a_test_may_have_broken_is_not_tried_again(cache: Cache, kind: str) -> None:
    node = Scripted(cache, [kind, None])
    with pytest.raises(BootFailed):
        node.reboot()
    assert node.record.retries == []


@pytest.mark.parametrize("kind", ["stall", "died"])
def test_a_reboot_that_the_emulator_lost_is_tried_again_once(cache: Cache, kind: str) -> None:
    node = Scripted(cache, [kind, None])
    node.reboot()
    assert [entry["kind"] for entry in node.record.retries] == [kind]
    node = Scripted(cache, [kind, kind, None])
    with pytest.raises(BootFailed):
        node.reboot()


def test_after_a_power_cut_the_machine_may_be_another(cache: Cache) -> None:
    node = Scripted(cache, ["stall", None])
    node.power_cut(memory1=1280)
    assert node.record.shape == {"memory1": 1280}
    assert (node.stopped, node.record.boots, [entry["kind"] for entry in node.record.retries]) == (2, 2, ["stall"])
    with pytest.raises(BootFailed):
        Scripted(cache, ["panic", None]).power_cut()
    with pytest.raises(LabError, match="needs 512 MiB"):
        Scripted(cache, [None]).power_cut(memory0=100)


def test_an_emulator_that_died_has_its_last_words_repeated(cache: Cache) -> None:
    node = Node(cache, "a", Record(1, {}, "tcg"))
    node.directory.mkdir()
    with pytest.raises(BootFailed, match="died: the emulator ended without a word"):
        node.wait()
    (node.directory / "qemu.log").write_text("qemu: warning: hub 3 is not connected to host network\nAssertion `x' failed.\n")
    (node.directory / "serial.log").write_text("Booting\n")
    with pytest.raises(BootFailed, match=r"died: Assertion `x' failed\.; console: ") as caught:
        node.wait()
    kept = list(cache.logs.glob("a-*-died.log"))
    assert len(kept) == 1 and str(kept[0]) in str(caught.value)


# -- processes and ports


@pytest.fixture
def sleeper(tmp_path: Path) -> Iterator["subprocess.Popen[bytes]"]:
    child = process.start(["sh", "-c", "trap '' TERM; sleep 100 & wait; sleep 100"], tmp_path / "log", tied=False)
    yield child
    if process.group(child.pid):
        os.killpg(child.pid, signal.SIGKILL)


def test_ending_takes_the_whole_group(sleeper: "subprocess.Popen[bytes]") -> None:
    started = process.start_time(sleeper.pid)
    assert started is not None
    deadline = time.monotonic() + 10
    while len(process.group(sleeper.pid)) < 2 and time.monotonic() < deadline:
        time.sleep(0.01)
    process.end(sleeper.pid, started, patience=2)
    assert process.start_time(sleeper.pid) is None
    assert process.group(sleeper.pid) == []


def test_a_reused_pid_is_left_alone(sleeper: "subprocess.Popen[bytes]") -> None:
    started = process.start_time(sleeper.pid)
    assert started is not None
    process.end(sleeper.pid, started - 1)
    assert process.alive(sleeper.pid, started)


def test_a_tied_process_ends_when_its_starter_is_killed(tmp_path: Path) -> None:
    code = (
        f"import sys, time; sys.path.insert(0, {str(Path(lab.__file__).parent)!r})\n"
        "from pathlib import Path; from vlab import process\n"
        f"child = process.start(['sleep', '100'], Path({str(tmp_path / 'log')!r}), tied=True)\n"
        "print(child.pid, flush=True); time.sleep(100)"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as starter:
        assert starter.stdout is not None
        pid = int(starter.stdout.readline())
        deadline = time.monotonic() + 10
        while b"sleep" not in Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")[0] and time.monotonic() < deadline:
            time.sleep(0.01)
        starter.kill()
    while process.start_time(pid) is not None and time.monotonic() < deadline:
        time.sleep(0.01)
    assert process.start_time(pid) is None


def test_a_failed_step_says_its_last_lines(tmp_path: Path) -> None:
    with pytest.raises(LabError, match=r"(?s)sh failed \(rc 3\).*no space"):
        process.run(["sh", "-c", "echo no space; exit 3"], tmp_path / "log")


def test_a_free_port_is_free_and_differs_from_a_taken_one() -> None:
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        port = process.free_port()
        assert port != holder.getsockname()[1]
        with socket.socket() as other:
            other.bind(("127.0.0.1", port))


# -- cache, recipe, sources


def test_the_image_key_changes_with_the_key_and_the_guest_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = tmp_path / "guest"
    (files / "root/etc").mkdir(parents=True)
    (files / "root/etc/fstab").write_text("a")
    monkeypatch.setattr(image, "_GUEST_FILES", files)
    keys = {image.image_key("ssh-ed25519 A"), image.image_key("ssh-ed25519 B")}
    (files / "root/etc/fstab").write_text("b")
    keys.add(image.image_key("ssh-ed25519 A"))
    (files / "root/etc/fstab").chmod(0o755)
    keys.add(image.image_key("ssh-ed25519 A"))
    (files / "root/etc/fstab").rename(files / "root/etc/fstab2")
    keys.add(image.image_key("ssh-ed25519 A"))
    monkeypatch.setattr(image, "GUEST", (*image.GUEST, "fio"))
    keys.add(image.image_key("ssh-ed25519 A"))
    assert len(keys) == 6
    assert image.image_key("ssh-ed25519 A") in keys


def test_guest_files_are_packed_with_their_modes() -> None:
    with tarfile.open(fileobj=io.BytesIO(image.files_tar("ssh-ed25519 A x"))) as tar:
        entries = {entry.name: entry for entry in tar.getmembers()}
        key = tar.extractfile("root/.ssh/authorized_keys")
        assert key is not None and key.read() == b"ssh-ed25519 A x\n"
    assert oct(entries["root/.ssh"].mode) == "0o700"
    assert oct(entries["usr/local/lib/inferops-lab/stand-in-gpus"].mode) == "0o755"
    assert oct(entries["etc/default/grub"].mode) == "0o644"
    assert all(entry.uid == 0 and entry.gid == 0 for entry in entries.values())


def test_grub_is_embedded_beside_the_partition_table(tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    table = bytes(range(1, 71))
    disk.write_bytes(bytes(0x1B8) + table + b"\x55\xaa" + bytes(4 << 20))
    image.embed_grub(disk, b"\xeb\x63" + b"B" * 510, b"C" * 1300)
    content = disk.read_bytes()
    assert content[:2] == b"\xeb\x63" and content[0x1B8:0x1FE] == table and content[0x1FE:0x200] == b"\x55\xaa"
    assert struct.unpack_from("<Q", content, 0x5C) == (2048,)
    core = 2048 * 512
    assert struct.unpack_from("<QHH", content, core + 0x1F4) == (2049, 2, 0x820)
    assert content[core + 512 : core + 1300] == b"C" * 788 and content[core + 1300 : core + 1536] == bytes(236)
    with pytest.raises(LabError, match="too many"):
        image.embed_grub(disk, b"B" * 512, bytes(2 << 20))


INDEXES = """\
'http://mirror.example/debian/dists/bookworm/InRelease' x 0
'http://mirror.example/debian/dists/bookworm/main/binary-amd64/Packages.xz' x 0
'http://mirror.example/debian-security/dists/bookworm-security/InRelease' x 0
'http://vendor.example/deb/dists/nodistro/InRelease' x 0
"""


@pytest.mark.parametrize("indexes, env, expected", [
    (INDEXES, {}, ("http://mirror.example/debian", "http://mirror.example/debian-security")),
    ("'http://m.example/d/dists/buster/InRelease' x 0\n'http://m.example/s/dists/stable/InRelease' x 0", {}, ("http://m.example/s", "")),
    (INDEXES, {"LOCALITY_LAB_MIRROR": "http://own.example/d"}, ("http://own.example/d", "http://mirror.example/debian-security")),
    ("'mirror+file:/etc/apt/mirrors/debian.list/dists/trixie/InRelease' x 0", {}, ("mirror+file:/etc/apt/mirrors/debian.list", "")),
])
def test_the_mirror_is_the_machines_own(indexes: str, env: dict, expected: tuple) -> None:  # type: ignore[type-arg]
    assert config.mirrors(indexes, env) == expected


def test_a_machine_without_a_debian_mirror_is_told_what_to_set() -> None:
    with pytest.raises(LabError, match="LOCALITY_LAB_MIRROR"):
        config.mirrors("'http://archive.example/ubuntu/dists/noble/InRelease' x 0", {})


def test_only_settings_for_fetching_are_taken_from_apt() -> None:
    dump = 'Acquire "";\nAcquire::http::Proxy "http://p.example:3128";\nAcquire::Check-Date "false";\nAcquire::cdrom::mount "/c/";\nAcquire::Languages "";\n'
    assert config.apt_options(dump) == ['Acquire::http::Proxy "http://p.example:3128"', 'Acquire::Check-Date "false"']


def test_everything_missing_is_named_in_one_message(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(config.shutil, "which", lambda program: None if program in ("mmdebstrap", "ssh", "ssh-keygen", "newuidmap") else "/x")
    monkeypatch.setenv("LOCALITY_LAB_KEYRING", "/nowhere")
    assert config.missing(root=True) == ["debian-archive-keyring", "mmdebstrap", "openssh-client"]
    assert config.missing(root=False) == ["debian-archive-keyring", "mmdebstrap", "openssh-client", "uidmap"]
    with pytest.raises(LabError, match=r"apt-get install .* debian-archive-keyring mmdebstrap openssh-client"):
        config.require(root=True)


def test_a_cache_too_deep_for_sockets_is_refused(tmp_path: Path) -> None:
    with pytest.raises(LabError, match="shorter path"):
        config.cache({"LOCALITY_LAB_CACHE": str(tmp_path / ("x" * 90))})


def test_an_image_under_a_node_is_in_use(cache: Cache) -> None:
    (cache.nodes / "a").mkdir()
    (cache.nodes / "a/disk.qcow2").write_bytes(b"QFI\xfb" + bytes(500) + b"/c/image-1/disk.raw" + bytes(9000))
    assert image.in_use(cache, Path("/c/image-1"))
    assert not image.in_use(cache, Path("/c/image-2"))


# -- command line


def test_the_inventory_lists_running_nodes_only(cache: Cache, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("LOCALITY_LAB_CACHE", str(cache.top))
    for name, pid in (("a", os.getpid()), ("b", 0)):
        node = Node(cache, name, Record(2300, {}, "tcg", pid, process.start_time(pid) or 0))
        node.directory.mkdir()
        node._save()
    assert lab.main(["inventory", "--group", "chassis_lab"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[1:6] == ["chassis_lab:", "  hosts:", "    a:", "      ansible_host: 127.0.0.1", "      ansible_port: 2300"]
    assert "    b:" not in lines
    assert any(str(cache.key) in line for line in lines)


@pytest.mark.parametrize("words", [["ssh", "zz", "--", "true"], ["wait", "zz"], ["down", "zz"], ["down"], ["serial", "zz"], ["up", "Not-A-Name"]])
def test_faults_of_the_caller_have_a_message_and_an_exit_status(
    words: List[str], cache: Cache, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("LOCALITY_LAB_CACHE", str(cache.top))
    assert lab.main(words) == 1
    assert capsys.readouterr().err.startswith("lab: ")


@pytest.mark.parametrize("words", [["ssh", "a"], ["ssh", "a", "--", "true"]])
def test_a_node_that_does_not_answer_ssh_is_named(
    words: List[str], cache: Cache, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def silent(argv: List[str], timeout: float = 0, **_options: object) -> None:
        raise subprocess.TimeoutExpired(argv, timeout)

    monkeypatch.setenv("LOCALITY_LAB_CACHE", str(cache.top))
    node = Node(cache, "a", Record(2300, {}, "tcg", os.getpid(), process.start_time(os.getpid()) or 0))
    node.directory.mkdir()
    node._save()
    node.serial_log.write_text("[    9.1] Kernel panic - not syncing: x\n")
    monkeypatch.setattr(subprocess, "run", silent)
    assert lab.main(words) == 1
    assert capsys.readouterr().err == "lab: node a: ssh has no answer after 60 s; panic: [    9.1] Kernel panic - not syncing: x; see lab.py serial a\n"


def test_a_node_whose_ssh_hangs_is_not_up_yet(cache: Cache, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        node = Node(cache, "a", Record(server.getsockname()[1], {}, "tcg"))
        node.directory.mkdir()
        accepted = threading.Thread(target=lambda: server.accept()[0].sendall(b"SSH-2.0"))
        accepted.start()

        def silent(argv: List[str], timeout: float = 0, **_options: object) -> None:
            raise subprocess.TimeoutExpired(argv, timeout)

        monkeypatch.setattr(subprocess, "run", silent)
        assert not node.answers()
        accepted.join()


def test_down_all_without_nodes_is_no_fault(cache: Cache, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOCALITY_LAB_CACHE", str(cache.top))
    assert lab.main(["down", "--all"]) == 0
