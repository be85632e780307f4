# Copyright (c) 2026 The inferops.locality authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Snapshots: the facts read from one are those of the node, and no secret is in it."""

from __future__ import annotations

import copy
import hashlib
import io
import json
import struct
import tarfile
from pathlib import Path
from typing import Any, Dict

import pytest

from ansible_collections.inferops.locality.plugins.module_utils import kernel_args, knobs, kubelet_args, rke2_config, snapshot
from ansible_collections.inferops.locality.plugins.module_utils.state import read_state
from ansible_collections.inferops.locality.plugins.module_utils.sysroot import SysRoot
from ansible_collections.inferops.locality.plugins.module_utils.topology import read_topology
from ansible_collections.inferops.locality.plugins.plugin_utils import archives, paper

CANARY = "K10canary"
HOST = "gpu-a03"
UUID = "7e2f6b0c-1c57-4f0b-b8f7-6c1a2d3e4f50"

NODE: Dict[str, Any] = {
    "cpus": {"sockets": 2, "cores_per_numa": 4, "threads": 2, "offline": "15"},
    "numa": {"0": {"memory": "64Gi", "hugepages": {"1Gi": {"total": 4, "free": 4}}}, "1": {"memory": "64Gi"}},
    "pci": [{"host_bridge": "pci0000:15", "numa": 0, "children": [
        {"port": "root", "address": "0000:15:01.0", "acs": "on", "children": [
            {"gpu": "nvidia-h100", "address": "0000:18:00.0"},
            {"nic": "mlx5", "address": "0000:1a:00.0", "interface": "eth0", "speed_mbps": 400000, "queues": 4, "irqs": 5, "rdma": ["mlx5_0"]},
            {"nvme": "samsung-pm9a3", "address": "0000:1c:00.0", "name": "nvme0", "irqs": 5},
        ]}]}],
    "kernel": {"release": "6.12.57", "command_line": f"BOOT_IMAGE=/vmlinuz root=UUID={UUID} ip=10.20.30.40::10.20.30.1 rd.luks.password={CANARY} quiet"},
    "running": {"governor": "performance", "sysctls": {"vm.swappiness": 60}, "softirqs": {"net_rx": {"0": 5}}},
    "files": {
        "/etc/os-release": "ID=debian\nVERSION_ID=\"13\"\n",
        "/etc/hostname": HOST + "\n",
        "/etc/default/grub": f"# {CANARY}\nGRUB_TIMEOUT=5 # {CANARY}\nGRUB_CMDLINE_LINUX_DEFAULT=\"quiet foo.password={CANARY} isolcpus=2-3\"\n",
        "/etc/rancher/rke2/config.yaml": f"server: https://rke2.example.net:9345\ntoken: {CANARY}\nnode-name: {HOST}\nnode-ip: 10.20.30.40\nkubelet-arg:\n"
                                         "- cpu-manager-policy=static\n- reserved-cpus=0,8\n",
        "/etc/rancher/rke2/config.yaml.d/50-x.yaml": f"# {CANARY}\nkubelet-arg+: [\"max-pods=250\", \"azure-secret={CANARY}\"]\n",
        "/etc/rancher/rke2/config.yaml.d/60-broken.yaml": f"node-label: &a [x]\ntoken: {CANARY}\n",
        "/etc/default/rke2-agent": f"RKE2_TOKEN={CANARY}\nHTTPS_PROXY=http://user:{CANARY}@10.1.1.1:3128\n",
        "/etc/sysctl.d/50-own.conf": (
            f"# {CANARY}\n; {CANARY}\nvm.swappiness = 10\nkernel.core_pattern=|/x {CANARY}\n{CANARY}\n"
            f"net.ipv6.conf.all.stable_secret = {CANARY}\n"
        ),
        "/etc/tmpfiles.d/own.conf": f"w /sys/kernel/mm/transparent_hugepage/enabled - - - - never\nf /root/x 0600 root root - {CANARY}\n",
        "/etc/systemd/system/rke2-agent.service": "[Service]\nExecStart=/usr/local/bin/rke2 agent\nLimitMEMLOCK=1024\n",
        "/etc/systemd/system/rke2-agent.service.d/proxy.conf": f"[Service]\nEnvironment=\"HTTPS_PROXY=http://u:{CANARY}@p\"\nLimitMEMLOCK=infinity\n",
        "/etc/systemd/system/irqbalance.service.d/o.conf": "[Service]\nEnvironment=IRQBALANCE_BANNED_CPULIST=2-3 \"OTHER=x\"\n",
        "/var/lib/kubelet/cpu_manager_state": '{"policyName":"none","defaultCpuSet":"","checksum":1353318690}',
        "/usr/bin/python3.11": "",
    },
    "dirs": ["/etc/systemd/system/multi-user.target.wants", "/sys/fs/cgroup/system.slice/rke2-agent.service"],
    "links": {
        "/etc/systemd/system/multi-user.target.wants/rke2-agent.service": "/etc/systemd/system/rke2-agent.service",
        "/etc/systemd/system/irqbalance.service": "/dev/null",
        "/usr/bin/python3": "python3.11",
    },
    "probe": {"systemd-detect-virt": {"argv": ["systemd-detect-virt"], "stdout": "none\n", "rc": 1}},
}


def facts(root: Path) -> Dict[str, Any]:
    return {"topology": read_topology(SysRoot(str(root))).to_facts(), "state": read_state(SysRoot(str(root)))}


def unpacked(tmp_path: Path, root: Path, anonymize: bool = False) -> Path:
    archive = tmp_path / "snapshot.tar.gz"
    archive.write_bytes(snapshot.pack(snapshot.collect(str(root), anonymize), anonymize))
    target = tmp_path / "unpacked"
    archives.unpack(archive, target)
    return target


@pytest.fixture
def root(tmp_path: Path) -> Path:
    paper.build(NODE, tmp_path / "node")
    return tmp_path / "node"


def without_secrets(found: Dict[str, Any]) -> Dict[str, Any]:
    """The facts as a node has them whose files hold masks where this one has secrets."""
    return json.loads(json.dumps(found).replace(f"password={CANARY}", "password=********"))


def test_facts_of_the_snapshot_are_those_of_the_node(tmp_path: Path, root: Path) -> None:
    node = facts(root)
    # the tree has something of everything, else equality says little
    assert node["topology"]["relations"] and node["state"]["irqs"] and node["state"]["foreign"] and node["state"]["problems"]
    assert node["state"]["platform"]["rke2"]["role"] == "agent" and node["state"]["configured"]["limits.memlock"]["value"] == "infinity"
    assert facts(unpacked(tmp_path, root)) == without_secrets(node)


def test_what_starts_the_boot_program_is_judged_the_same(tmp_path: Path, root: Path) -> None:
    body = "[Service]\nExecStart=/usr/bin/python3 x\n# why\nNice=5"
    text = f"# Written by us\n# Checksum of what follows: {hashlib.sha256(body.encode()).hexdigest()}\n{body}\n"
    for file in knobs.FILES_IRQ_SERVICE:
        (root / file[1:]).parent.mkdir(parents=True, exist_ok=True)
        (root / file[1:]).write_text(text, encoding="utf-8")
    for file in knobs.LINKS_IRQ_SERVICE:
        (root / file[1:]).parent.mkdir(parents=True, exist_ok=True)
        (root / file[1:]).symlink_to(f"../{Path(file).name}")
    there, again = (facts(place)["state"]["configured"]["irq.service"] for place in (root, unpacked(tmp_path, root)))
    assert there == again
    assert "changed" not in str(there["value"])


def test_snapshot_of_a_snapshot_is_the_same(tmp_path: Path, root: Path) -> None:
    first, second = snapshot.collect(str(root)), snapshot.collect(str(unpacked(tmp_path, root)))
    assert (second.files, second.links, second.dirs) == (first.files, first.links, first.dirs)
    # nothing is left to leave out
    assert first.left_out and not second.left_out


def test_demo_nodes_give_the_same_facts(tmp_path: Path) -> None:
    nodes = sorted((Path(__file__).resolve().parents[4] / "inventories/demo/nodes").glob("*.yml"))
    assert nodes
    for node in nodes:
        folder = tmp_path / node.stem
        folder.mkdir()
        paper.build(paper.load(node), folder / "node")
        assert facts(unpacked(folder, folder / "node")) == facts(folder / "node"), node.stem


@pytest.mark.parametrize("anonymize", [False, True])
def test_no_secret_is_in_the_archive(tmp_path: Path, root: Path, anonymize: bool) -> None:
    assert CANARY in (root / "etc/rancher/rke2/config.yaml").read_text()
    target = unpacked(tmp_path, root, anonymize)
    for path in target.rglob("*"):
        assert "canary" not in str(path)
        if path.is_file():
            assert b"canary" not in path.read_bytes(), path


def test_same_node_same_bytes(root: Path) -> None:
    assert snapshot.pack(snapshot.collect(str(root))) == snapshot.pack(snapshot.collect(str(root)))


def test_archive_holds_nothing_of_who_made_it(root: Path) -> None:
    with tarfile.open(fileobj=io.BytesIO(snapshot.pack(snapshot.collect(str(root))))) as tar:
        members = tar.getmembers()
    assert [member.name for member in members] == sorted(member.name for member in members)
    assert {(member.mtime, member.uid, member.gid, member.uname, member.gname) for member in members} == {(0, 0, 0, "root", "root")}
    assert {member.mode for member in members if member.isreg()} == {0o444, 0o644}, "a mode that tells something is kept"


def test_interrupt_the_kernel_manages_is_told_by_the_mode_of_its_file(tmp_path: Path, root: Path) -> None:
    before = facts(root)["state"]["irqs"]
    number = next(entry["irq"] for entry in before if not entry["managed"])
    (root / f"proc/irq/{number}/smp_affinity").chmod(0o444)
    irqs = facts(unpacked(tmp_path, root))["state"]["irqs"]
    assert [entry["managed"] for entry in irqs] == [entry["managed"] or entry["irq"] == number for entry in before]


def test_manifest_says_what_was_left_out(tmp_path: Path, root: Path) -> None:
    manifest = json.loads((unpacked(tmp_path, root) / ".locality/manifest.json").read_text())
    assert manifest["format"] == 1 and manifest["anonymized"] is False
    assert "/proc/cmdline" in manifest["files"]
    left_out = {entry["file"]: entry["reason"] for entry in manifest["left_out"]}
    assert left_out["/etc/rancher/rke2/config.yaml"] == "comments, and values of keys outside the whitelist"
    assert left_out["/proc/cmdline"] == "values named like secrets"
    assert "/etc/os-release" not in left_out


def test_files_that_are_not_read_stay_on_the_node(tmp_path: Path, root: Path) -> None:
    (root / "etc/shadow").write_text("root:canary\n")
    (root / "etc/rancher/rke2/rke2.yaml").write_text("canary\n")
    (root / "etc/sysctl.d/README").write_text("canary\n")
    target = unpacked(tmp_path, root)
    assert not (target / "etc/shadow").exists() and not (target / "etc/rancher/rke2/rke2.yaml").exists()
    # what is listed and not read is there by its name alone
    assert (target / "etc/sysctl.d/README").read_text() == ""


def test_file_that_cannot_be_read_is_the_same_problem_again(tmp_path: Path, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    original = SysRoot.data

    def data(self: SysRoot, path: str, *limit: int) -> Any:
        if path == "/etc/sysctl.d/50-own.conf" and self.root == str(root):
            self.problem(path, "cannot be read: Permission denied")
            return None
        return original(self, path, *limit)

    monkeypatch.setattr(SysRoot, "data", data)
    node = facts(root)
    problem = {"file": "/etc/sysctl.d/50-own.conf", "reason": "cannot be read: Permission denied"}
    assert problem in node["state"]["problems"]
    assert snapshot.collect(str(root)).unreadable == {problem["file"]: problem["reason"]}
    target = unpacked(tmp_path, root)
    assert (target / problem["file"][1:]).read_text() == ""
    assert facts(target) == without_secrets(node)


def test_anonymous_snapshot_differs_in_names_and_addresses_only(tmp_path: Path, root: Path) -> None:
    found = facts(unpacked(tmp_path, root, anonymize=True))
    text = json.dumps(found)
    for value in (HOST, UUID, "10.20.30.40", "10.20.30.1\"", "rke2.example.net"):
        assert value not in text
    wanted = copy.deepcopy(without_secrets(facts(root)))
    interface = wanted["topology"]["devices"][1]["interfaces"][0]
    assert wanted["topology"]["devices"][1]["kind"] == "nic"
    interface["mac"] = "02:00:00:00:00:01"
    renamed = json.dumps(wanted).replace(HOST, "node-1").replace(UUID, "00000000-0000-4000-8000-000000000001")
    # the addresses are numbered in the order of the files' names
    renamed = renamed.replace("ip=10.20.30.40::10.20.30.1", "ip=198.18.0.1::198.18.0.2")
    assert found == json.loads(renamed)


def test_anonymous_files_hold_none_of_them(tmp_path: Path, root: Path) -> None:
    target = unpacked(tmp_path, root, anonymize=True)
    for path in target.rglob("*"):
        assert HOST not in str(path.relative_to(target))
        if path.is_file():
            content = path.read_bytes()
            assert not any(value.encode() in content for value in (HOST, UUID, "10.20.30.40")), path
    assert json.loads((target / ".locality/manifest.json").read_text())["anonymized"] is True
    assert (target / "etc/rancher/rke2/config.yaml").read_text().splitlines()[2:4] == ['node-name: "node-1"', 'node-ip: "198.18.0.1"']


ANONYMOUS = {
    "the same by the same": ("a 10.0.0.1 b 10.0.0.2 c 10.0.0.1", "a 198.18.0.1 b 198.18.0.2 c 198.18.0.1"),
    "network": ("10.42.0.0/16", "198.18.0.1/16"),
    "loopback, any, mask": ("127.0.0.1 0.0.0.0 255.255.255.0", "127.0.0.1 0.0.0.0 255.255.255.0"),
    "four numbers that are no address": ("1.2.3.400 v1.2.3.4", "1.2.3.400 v1.2.3.4"),
    "IPv6": ("fd00:10::5 ::1 fe80::1%eth0", "2001:db8::1 ::1 2001:db8::2%eth0"),
    "PCI is no address": ("0000:18:00.0 mlx5_comp0@pci:0000:18:00.0", "0000:18:00.0 mlx5_comp0@pci:0000:18:00.0"),
    "Ethernet": ("aa:bb:cc:dd:ee:ff 00:00:00:00:00:00", "02:00:00:00:00:01 00:00:00:00:00:00"),
    "InfiniBand keeps its length": (":".join(["80"] * 20), ":".join(["02"] + ["00"] * 18 + ["01"])),
    "host name and its short form": ("gpu-a03.example.net gpu-a03 gpu-a030", "node-1 node-1 gpu-a030"),
    "machine id": ("0123456789abcdef0123456789abcdef-6.1.conf", "0" * 31 + "1-6.1.conf"),
    "disk": ("/dev/disk/by-id/nvme-eui.0025388d1110a5ff-part2", "/dev/disk/by-id/disk-1"),
    "iSCSI": ("iqn.2015-02.com.example:host1", "iqn.2000-01.example:1"),
    "serial of a CPU": ("Serial\t\t: 10000000c0ffee\n", "Serial\t\t: 0000000000000000\n"),
    "CPU lists": ("isolcpus=managed_irq,2-31,66-95", "isolcpus=managed_irq,2-31,66-95"),
}


@pytest.mark.parametrize("text, wanted", ANONYMOUS.values(), ids=ANONYMOUS)
def test_addresses_and_serials(tmp_path: Path, text: str, wanted: str) -> None:
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/hostname").write_text("gpu-a03.example.net\n")
    assert snapshot._Anonymous(snapshot._Recorder(str(tmp_path))).text(text) == wanted


def test_host_name_that_is_a_word_elsewhere(tmp_path: Path) -> None:
    path = tmp_path / "etc/rancher/rke2/config.yaml"
    path.parent.mkdir(parents=True)
    path.write_text("node-name: static\nkubelet-arg: [cpu-manager-policy=static]\n")
    anonymous = snapshot._Anonymous(snapshot._Recorder(str(tmp_path)))
    assert anonymous.named(path.read_text()) == "node-name: node-1\nkubelet-arg: [cpu-manager-policy=static]\n"


MASKED = {
    "command line": ("ro a.password=x,y quiet", "ro a.password=********,y quiet"),
    "within quotes": ('X="a token=x b"', 'X="a token=******** b"'),
    "installer": ("inst.rootpw=x inst.sshpw=y bootpw=z wifi.psk=a tpm.pin=b x.cred=c", " ".join(
        f"{name}=********" for name in ("inst.rootpw", "inst.sshpw", "bootpw", "wifi.psk", "tpm.pin", "x.cred"))),
    "in the query of an address": ("ks=https://h/ks?x=1&sig=abc pinctrl.y=1 sig=2", "ks=https://h/ks?x=1&sig=******** pinctrl.y=1 sig=2"),
    "in an address": ("proxy=http://user:pw@host/", "proxy=http://********@host/"),
    "sysctl": ("net.ipv6.conf.all.stable_secret = fe80::1", "net.ipv6.conf.all.stable_secret = ********"),
    "YAML": ("  clientSecret: abc", "  clientSecret: ********"),
    "boot loader": ("set x=1\npassword_pbkdf2 root grub.pbkdf2.x\nset y=2", "set x=1\n\nset y=2"),
    "nothing secret": ("isolcpus=2-3 tsc=reliable rd.luks.uuid=1 authselect", "isolcpus=2-3 tsc=reliable rd.luks.uuid=1 authselect"),
}


@pytest.mark.parametrize("text, wanted", MASKED.values(), ids=MASKED)
def test_mask(text: str, wanted: str) -> None:
    assert snapshot.mask(text) == wanted


def test_unit_is_cut_to_what_is_read() -> None:
    text = ("# head\n[Service]\nEnvironment=A=secret IRQBALANCE_BANNED_CPULIST=2-3\nExecStart=/x --token y\n"
            "LimitMEMLOCK=\\\n  infinity\nEnvironment=B=c\nEnvironment=\n[Slice]\nAllowedCPUs=0-1\n")
    assert snapshot.unit_lines(text).split("\n") == [
        "", "[Service]", 'Environment="IRQBALANCE_BANNED_CPULIST=2-3"', "", "LimitMEMLOCK= infinity", "", "", "Environment=", "[Slice]", "AllowedCPUs=0-1", ""]


def test_tmpfiles_are_cut_to_the_kernels_files() -> None:
    text = "w /sys/x - - - - 1\nf /etc/x - - - - secret\nw /root/.ssh/x - - - - secret\nw+ \"/proc/sys/y\" - - - - 2\n# c\n"
    assert snapshot.tmpfiles_lines(text) == "w /sys/x - - - - 1\n\n\nw+ \"/proc/sys/y\" - - - - 2\n\n"


GRUB = {
    "whole lines and ends of lines": ("# a\nX=1 # b\n  #c\nY=2", "\nX=1 \n  \nY=2"),
    "within quotes and words": ("X='a # b' # c\nY=\"d\n# e\" # f\nZ=g#h\n", "X='a # b' \nY=\"d\n# e\" \nZ=g#h\n"),
    "escaped": ("X=a\\ #b\nY=\"\\\"# c\" # d\n", "X=a\\ #b\nY=\"\\\"# c\" \n"),
    "our part stays marked": ("# BEGIN inferops.locality (x)\nX=1\n# END inferops.locality y\n", "# BEGIN inferops.locality\nX=1\n# END inferops.locality\n"),
    # a statement that is not understood is judged by all of its line
    "what decides stays": ("# a\nfoo # GRUB_CMDLINE_LINUX\n", "\nfoo # GRUB_CMDLINE_LINUX\n"),
    "secret": ("GRUB_X=\"a.token=b\" # c", "GRUB_X=\"a.token=********\" "),
}


@pytest.mark.parametrize("text, wanted", GRUB.values(), ids=GRUB)
def test_comments_of_the_boot_loader_stay_on_the_node(text: str, wanted: str) -> None:
    assert snapshot.grub_lines(text) == wanted
    assert snapshot.grub_lines(wanted) == wanted
    assert text == wanted or kernel_args.grub_defaults([("x", wanted)]).complete == kernel_args.grub_defaults([("x", text)]).complete


def test_sysctl_values_that_are_not_read_stay_on_the_node() -> None:
    text = ("# c\nvm.swappiness=1\n;c\n-vm/swappiness = 2\n-vm.swappiness\nvm.* = 3\nkernel.core_pattern = |/x y=z\n-net.x=4\nstray\n-net.x\n"
            "vm.nr_hugepages = 5\n")
    assert snapshot.sysctl_cut(text).split("\n") == [
        "", "vm.swappiness = 1", "", "-vm/swappiness = 2", "-vm.swappiness", "vm.* = 3", "kernel.core_pattern = ********", "-net.x = ********", "", "",
        "vm.nr_hugepages = 5", ""]


def test_kubelet_command_is_cut_to_known_flags() -> None:
    words = ["kubelet", "--cpu-manager-policy=static", "--bootstrap-token=x", "--max-pods", "250", "stray", "--secret", "y", "--v=2",
             "--v=2 --token=x", "--max-pods", "1\ntoken=x", ""]
    cut = snapshot.kubelet_command("\0".join(words).encode()).decode().split("\0")
    assert cut == [
        "kubelet", "--cpu-manager-policy=static", "--bootstrap-token=(left out)", "--max-pods", "250", "(left out)", "--secret", "(left out)", "--v=2",
        "--v=(left out)", "--max-pods", "(left out)", ""]


def test_kubelet_fields_that_are_read_are_kept() -> None:
    for name in kubelet_args.FIELDS:
        assert snapshot.kubelet_lines(f"{name}: 1\nstaticPodURLHeader: x\n") == f"{name}: 1\n\n"


def test_serial_number_of_a_pci_device_is_zeroed() -> None:
    config = bytearray(4096)
    struct.pack_into("<I", config, 0x100, 0x1 | 1 << 16 | 0x140 << 20)
    struct.pack_into("<I", config, 0x140, 0x3 | 1 << 16 | 0x160 << 20)
    config[0x144:0x14C] = b"\xaa" * 8
    struct.pack_into("<I", config, 0x160, 0xD | 1 << 16)
    config[0x164:0x16C] = b"\xbb" * 8
    clean = snapshot.without_serial(bytes(config))
    assert clean[0x144:0x14C] == bytes(8) and clean[0x164:0x16C] == b"\xbb" * 8
    assert clean[:0x144] == bytes(config[:0x144])
    for odd in (b"", bytes(64), bytes(256), b"\xff" * 4096, struct.pack("<I", 3 | 0x100 << 20).join([bytes(256), bytes(300)])):
        assert len(snapshot.without_serial(odd)) == len(odd)


LINKS = {
    "relative": ("/a/b/c", "../d", "../d"),
    "absolute": ("/etc/systemd/system/x.wants/y", "/usr/lib/systemd/system/y", "../../../../usr/lib/systemd/system/y"),
    "above the root": ("/a/b", "../../../c", "../c"),
    "mask": ("/etc/systemd/system/x", "/dev/null", "/dev/null"),
    "at the top": ("/lib", "usr/lib", "usr/lib"),
    "at the top, absolute": ("/lib", "/usr/lib", "usr/lib"),
}


@pytest.mark.parametrize("path, target, wanted", LINKS.values(), ids=LINKS)
def test_links_stay_inside(path: str, target: str, wanted: str) -> None:
    assert snapshot._inside(path, target) == wanted


def test_every_rke2_file_is_redacted_wherever_it_lies(tmp_path: Path) -> None:
    secret = f"token: {CANARY}\n"
    files = {"/etc/default/rke2-server": "RKE2_CONFIG_FILE=/srv/rke2.yaml\n", "/srv/rke2.yaml": secret, "/srv/rke2.yaml.d/1.yaml": secret}
    for name, text in files.items():
        path = tmp_path / "node" / name[1:]
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    collected = snapshot.collect(str(tmp_path / "node"))
    assert rke2_config.read(SysRoot(str(tmp_path / "node"))).path == "/srv/rke2.yaml"
    assert collected.files["/srv/rke2.yaml"][0].decode().startswith("token: (left out)")
    assert not any(b"canary" in content for content, dummy in collected.files.values())
