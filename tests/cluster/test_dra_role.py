# Copyright (c) 2026 The inferops.locality authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The role dranet on a real API server, with DRANET's own chart. Its image does not run here: nodes are stand-ins, whose pods run nothing.

The chart is taken from the Go module sigs.k8s.io/dranet: where that is not had the test is skipped.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any, Dict, Iterator

import pytest
import yaml

from ansible_collections.inferops.locality.plugins.plugin_utils import paper
from controlplane import ControlPlane, binaries, control_plane
from dra_slices import GPU_CLASS, slices
from turns import TOP, until

API = "/apis/resource.k8s.io/v1"
DAEMON_SETS = "/apis/apps/v1/namespaces/kube-system/daemonsets"
VERSION = "v1.4.0"
PLAY = """
- hosts: all
  gather_facts: false
  tasks:
    - inferops.locality.numa_topology:
        root: "{{ node_files }}"
    - ansible.builtin.import_role:
        name: inferops.locality.dranet
"""


def chart() -> Path:
    told = subprocess.run(["go", "mod", "download", "-json", f"sigs.k8s.io/dranet@{VERSION}"], cwd="/", check=False, capture_output=True, text=True)
    folder = json.loads(told.stdout).get("Dir") if told.returncode == 0 else None
    if not folder:
        pytest.skip(f"DRANET's source is not had: {told.stdout[-200:]}{told.stderr[-200:]}")
    return Path(folder) / "deployments" / "helm" / "dranet"


class Play:
    def __init__(self, plane: ControlPlane, folder: Path, collections: Path) -> None:
        self.plane, self.api, self.folder = plane, plane.api, folder
        self.collections = f"{TOP / '.collections'}:{collections}"
        self.root = folder / "node"
        paper.build(yaml.safe_load((TOP / "inventories" / "demo" / "nodes" / "h100-8gpu-8nic.yml").read_text(encoding="utf-8")), self.root)
        self.given: Dict[str, Any] = {
            "ansible_connection": "local", "ansible_python_interpreter": sys.executable, "node_files": str(self.root),
            "locality_kubeconfig": str(plane.kubeconfig), "dranet_chart": str(chart()), "dranet_nri_socket": str(folder / "nri.sock"),
            "locality_policy": {"dra": {"dranet": True, "namespaces": ["inference"], "uplinks": ["front0"]}},
        }
        (folder / "play.yml").write_text(PLAY, encoding="utf-8")

    def __call__(self, *arguments: str, group: str = "dranet_pilot", **given: Any) -> subprocess.CompletedProcess[str]:
        inventory = {"all": {"children": {group: {"hosts": {"gpu": {**self.given, **given}}}}}}
        (self.folder / "hosts.yml").write_text(yaml.safe_dump(inventory), encoding="utf-8")
        helm = str(binaries.programs(["helm"])["helm"].parent)
        return subprocess.run(
            [sys.executable, "-m", "ansible", "playbook", "-i", str(self.folder / "hosts.yml"), str(self.folder / "play.yml"), *arguments],
            check=False, capture_output=True, text=True, timeout=300, cwd=self.folder,
            env={
                **os.environ, "PATH": f"{helm}:{os.environ['PATH']}", "ANSIBLE_NOCOLOR": "1", "ANSIBLE_COLLECTIONS_PATH": self.collections,
                "HOME": str(self.folder),
            },
        )

    def driver(self) -> Dict[str, Any] | None:
        found = {item["metadata"]["name"]: item for item in self.api.get(DAEMON_SETS)["items"]}
        return found.get("dranet")


@pytest.fixture(scope="module")
def play(programs: None, collections: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Play]:
    folder = tmp_path_factory.mktemp("dranet")
    with control_plane() as plane, socket.socket(socket.AF_UNIX) as nri:
        nri.bind(str(folder / "nri.sock"))
        plane.nodes.add("gpu")
        plane.nodes.add("other")
        plane.api.post("/api/v1/namespaces", {"metadata": {"name": "inference"}})
        plane.api.post(f"{API}/deviceclasses", GPU_CLASS)
        yield Play(plane, folder, collections)


def counts(run: subprocess.CompletedProcess[str]) -> str:
    return next((line for line in run.stdout.splitlines() if line.startswith("gpu ") and "ok=" in line), run.stdout[-2000:] + run.stderr[-2000:])


def test_check_install_again_check_again_and_take_off(play: Play) -> None:
    foretold = play("--check", "--diff")
    assert foretold.returncode == 0 and "changed=0" not in counts(foretold), counts(foretold)
    assert play.driver() is None

    made = play()
    assert made.returncode == 0 and "changed=2" in counts(made), counts(made)
    driver = play.driver()
    assert driver is not None
    pod = driver["spec"]["template"]["spec"]
    assert pod["nodeSelector"] == {"locality.inferops.io/dranet": "true"}
    assert pod["containers"][0]["image"] == f"registry.k8s.io/networking/dranet:{VERSION}"
    pods = "/api/v1/namespaces/kube-system/pods"
    until("the driver's pod is on the node of the pilot group, and on no other", lambda: [
        item["spec"].get("nodeName") for item in play.api.get(pods)["items"]] == ["gpu"])

    for arguments in ((), ("--check",)):
        again = play(*arguments)
        assert again.returncode == 0 and "changed=0" in counts(again), counts(again)

    moved = play(dranet_image_registry="registry.example.com/mirror")
    assert moved.returncode == 0 and "changed=1" in counts(moved), counts(moved)
    driver = play.driver()
    assert driver and driver["spec"]["template"]["spec"]["containers"][0]["image"] == f"registry.example.com/mirror/networking/dranet:{VERSION}"

    gone = play(dranet_state="absent")
    assert gone.returncode == 0 and play.driver() is None, counts(gone)
    assert "locality.inferops.io/dranet" not in play.api.get("/api/v1/nodes/gpu")["metadata"]["labels"]
    assert [item["metadata"]["name"] for item in play.api.get(f"{API}/deviceclasses")["items"]] == ["gpu.nvidia.com"]
    assert "changed=0" in counts(play(dranet_state="absent"))


def test_what_stands_against_it_is_said_before_anything_is_installed(play: Play) -> None:
    outside = play(group="others")
    assert outside.returncode and "gpu is not in the group dranet_pilot" in outside.stdout
    no_nri = play(dranet_nri_socket="/nonexistent/nri.sock")
    assert no_nri.returncode and "found no socket /nonexistent/nri.sock" in no_nri.stdout
    nics = next(item for item in slices("gpu", {"devices": [
        {"address": "0000:19:00.0", "kind": "nic", "pcie_root": "pci0000:15", "numa_node": 0, "rdma": ["mlx5_0"], "interfaces": []}]}))
    nics["spec"]["driver"], nics["metadata"]["name"] = "dra.cpu", "cpus"
    play.api.post(f"{API}/resourceslices", nics)
    cpus = play()
    assert cpus.returncode and "static CPU manager" in cpus.stdout and play.driver() is None
    play.api.delete(f"{API}/resourceslices/cpus")
