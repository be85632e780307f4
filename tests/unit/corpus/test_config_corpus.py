# Copyright (c) 2026 The inferops.locality authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Configuration files of real machines; the expected facts are those of the corpus' own index."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Optional

import pytest

from ansible_collections.inferops.locality.plugins.module_utils import kernel_args, knobs, rke2_config
from ansible_collections.inferops.locality.plugins.module_utils.state import read_state
from ansible_collections.inferops.locality.plugins.module_utils.sysroot import SysRoot


def text(corpus: Path, start: str) -> str:
    path = next(iter(sorted((corpus / "config").glob(start + "*"))), None)
    assert path is not None, f"no file of the corpus starts with {start}"
    return path.read_text(encoding="utf-8")


def root(tmp_path: Path, files: dict[str, str]) -> SysRoot:
    for name, content in files.items():
        target = tmp_path / name.lstrip("/")
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(content, encoding="utf-8")
    return SysRoot(str(tmp_path))


# file, arguments of a normal entry (all of them, in order), knobs they set
GRUB: list[tuple[str, list[str], dict[str, Any]]] = [
    (
        "grub-02",
        ["quiet", "intel_iommu=on", "iommu=pt", "multifunction", "nofb", "nomodeset", "initcall_blacklist=sysfb_init", "nox2apic"],
        {"kernel.iommu": "pt"},
    ),
    ("grub-04", ["quiet"], {}),
    ("grub-06", ["quiet", "intel_idle.max_cstate=1", "processor.max_cstate=1", "pcie_aspm=off"], {}),
    ("grub-10", ["console=ttyS0", "console=ttyS0,115200n8", "no_timer_check", "net.ifnames=0", "crashkernel=auto"], {}),
]


@pytest.mark.parametrize("file, wanted, values", GRUB, ids=[row[0] for row in GRUB])
def test_grub(corpus: Path, file: str, wanted: list, values: dict) -> None:
    found = kernel_args.grub_defaults([("/etc/default/grub", text(corpus, file))])
    args = found.kernel_args()
    assert args is not None and found.problems == []
    assert [arg.raw for arg in args] == wanted
    meaning = kernel_args.meaning(args)
    assert meaning.values == values
    assert meaning.duplicates == []


@pytest.mark.parametrize("file", [row[0] for row in GRUB])
def test_our_drop_in_comes_after_what_is_there(corpus: Path, tmp_path: Path, file: str) -> None:
    ours = kernel_args.grub_words(["isolcpus=managed_irq,2-7"])
    node = root(
        tmp_path,
        {
            "/etc/os-release": "ID=debian\nVERSION_ID=13\n",
            "/etc/default/grub": text(corpus, file),
            knobs.FILE_GRUB: f'GRUB_CMDLINE_LINUX_DEFAULT="$GRUB_CMDLINE_LINUX_DEFAULT {ours}"\n',
        },
    )
    state = read_state(node)
    wanted = next(row[1] for row in GRUB if row[0] == file)
    assert state["boot"]["next_boot"]["args"] == [*wanted, "isolcpus=managed_irq,2-7"]
    assert state["configured"]["kernel.isolcpus"] == {"value": "managed_irq,2-7", "source": f"{knobs.FILE_GRUB}:1"}


def test_foreign_arguments_of_real_files_have_file_and_line(corpus: Path, tmp_path: Path) -> None:
    state = read_state(root(tmp_path, {"/etc/os-release": "ID=debian\nVERSION_ID=13\n", "/etc/default/grub": text(corpus, "grub-06")}))
    assert [(entry["knob"], entry["line"], entry["value"]) for entry in state["foreign"]] == [
        ("cpu.latency", 1, "intel_idle.max_cstate=1"),
        ("cpu.latency", 2, "processor.max_cstate=1"),
    ]


# file, isolated CPUs by isolcpus, tickless CPUs, huge pages, arguments without an effect
LINES: list[tuple[str, Optional[str], Optional[str], Any, list[str]]] = [
    ("cmdline-02", "domain,2-39,44-79", "2-39,44-79", None, []),
    ("cmdline-04", None, None, {"1Gi": {"total": 16}}, ["isolcpus=managed_irq,domain,", "nohz_full=", "rcu_nocbs=", "hugepagesz=1G"]),
]


@pytest.mark.parametrize("file, isolated, tickless, pages, ignored", LINES, ids=[row[0] for row in LINES])
def test_command_lines(corpus: Path, file: str, isolated: Optional[str], tickless: Optional[str], pages: Any, ignored: list) -> None:
    line = kernel_args.parse(text(corpus, file))
    found = kernel_args.meaning(line.args, 79, "2Mi")
    assert found.values.get("kernel.isolcpus") == isolated
    assert found.values.get("kernel.nohz_full") == tickless
    assert found.values.get("kernel.hugepages") == pages
    assert [entry["token"] for entry in found.ignored] == ignored
    assert kernel_args.render(line.args, line.init) == text(corpus, file).strip()


def test_bls_of_rhel_8_takes_its_arguments_from_grubenv(corpus: Path) -> None:
    entry = text(corpus, "bls-01")
    args, missing = kernel_args.bls_args(entry, "/e", {"kernelopts": "root=/dev/sda ro", "tuned_params": "isolcpus=1"}, "/boot/grub2/grubenv")
    assert [arg.raw for arg in args] == ["root=/dev/sda", "ro", "isolcpus=1"]
    assert {arg.file for arg in args} == {"/boot/grub2/grubenv"} and missing == []
    assert kernel_args.bls_args(entry, "/e", {}, "/g")[1] == ["kernelopts", "tuned_params"]


def test_bls_keeps_both_consoles(corpus: Path) -> None:
    args, missing = kernel_args.bls_args(text(corpus, "bls-04"), "/e", {}, "/g")
    assert [arg.raw for arg in args if arg.key == "console"] == ["console=tty0", "console=ttyS0,115200n8"]
    assert {arg.source for arg in args} == {"/e:5"} and missing == []


# file, kubelet arguments in order, knobs they set
RKE2: list[tuple[str, list[str], dict[str, Any]]] = [
    (
        "rke2-01",
        ["topology-manager-policy=best-effort", "cpu-manager-policy=static", "reserved-cpus=1", "max-pods=250", "tls-cipher-suites=*"],
        {"kubelet.cpu_manager_policy": "static", "kubelet.reserved_cpus": "1", "kubelet.topology_manager_policy": "best-effort"},
    ),
    ("rke2-02", ["cpu-manager-policy=static", "reserved-cpus=2,3"], {"kubelet.cpu_manager_policy": "static", "kubelet.reserved_cpus": "2-3"}),
    ("rke2-03", ["v=5"], {}),
    ("rke2-05", ["node-ip=10.0.0.5\\n"], {}),
    (
        "rke2-06",
        ["cpu-manager-policy=static", "topology-manager-policy=single-numa-node", "reserved-cpus=0-1"],
        {"kubelet.cpu_manager_policy": "static", "kubelet.topology_manager_policy": "single-numa-node", "kubelet.reserved_cpus": "0-1"},
    ),
    ("rke2-11", ["cluster-dns=169.254.20.10"], {}),
    ("rke2-12", ["housekeeping-interval=5s"], {}),
]


@pytest.mark.parametrize("file, args, values", RKE2, ids=[row[0] for row in RKE2])
def test_rke2(corpus: Path, tmp_path: Path, file: str, args: list, values: dict) -> None:
    name = f"/etc/rancher/rke2/config.yaml.d/{file}.yaml"
    state = read_state(root(tmp_path, {name: text(corpus, file)}))
    assert state["problems"] == []
    found = [f"{entry['flag']}={'*' if entry['flag'] == 'tls-cipher-suites' else entry['value']}" for entry in state["kubelet"]["args_sources"]]
    assert found == args
    got = {knob: entry["value"] for knob, entry in state["configured"].items() if knob in values or (knob.startswith("kubelet.") and entry["value"])}
    assert got == {**values, "kubelet.state_files": "consistent"}
    assert {entry["knob"] for entry in state["foreign"]} == set(values)
    assert all(entry["file"] == name for entry in state["foreign"])


def test_a_drop_in_appends_to_the_list_before_it(corpus: Path, tmp_path: Path) -> None:
    state = read_state(
        root(
            tmp_path,
            {
                "/etc/rancher/rke2/config.yaml": text(corpus, "rke2-06"),
                "/etc/rancher/rke2/config.yaml.d/99-z.yaml": text(corpus, "rke2-02"),
            },
        )
    )
    assert state["kubelet"]["args"]["reserved-cpus"] == ["0-1", "2,3"]
    assert state["configured"]["kubelet.reserved_cpus"] == {"value": "2-3", "source": "/etc/rancher/rke2/config.yaml.d/99-z.yaml:3"}


def test_only_listed_keys_of_real_files_leave_the_node(corpus: Path, tmp_path: Path) -> None:
    state = read_state(root(tmp_path, {"/etc/rancher/rke2/config.yaml": text(corpus, "rke2-01")}))
    assert "etcd-arg" not in rke2_config.WHITELIST
    assert "PortForwardWebsockets" not in json.dumps(state) and "TLS_AES_128_GCM_SHA256" not in json.dumps(state)


def test_every_file_of_the_corpus_has_a_test(corpus: Path) -> None:
    tested = {row[0] for row in (*GRUB, *LINES, *RKE2)} | {"bls-01", "bls-04"}
    files = {"-".join(path.name.split("-")[:2]) for path in (corpus / "config").iterdir() if path.name != "INDEX.md"}
    assert files == tested
