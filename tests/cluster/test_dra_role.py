# Copyright (c) 2026 The inferops.locality authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The role dranet on a real API server, with DRANET's own chart. Its image does not run here: nodes are stand-ins, whose pods run nothing.

The chart is taken from the Go module sigs.k8s.io/dranet: where that is not had the test is skipped.
"""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any, Dict, Iterator, Sequence

import pytest
import yaml

from ansible_collections.inferops.locality.plugins.module_utils.sysroot import SysRoot
from ansible_collections.inferops.locality.plugins.module_utils.topology import read_topology
from ansible_collections.inferops.locality.plugins.plugin_utils import paper
from controlplane import ControlPlane, binaries, control_plane
import dranet_chart
from dra_slices import GPU_CLASS, slices
from turns import TOP, until

API = "/apis/resource.k8s.io/v1"
DAEMON_SETS = "/apis/apps/v1/namespaces/kube-system/daemonsets"
LABEL = "locality.inferops.io/dranet"
CLAIMS = f"{API}/namespaces/inference/resourceclaims"
PODS = "/api/v1/namespaces/inference/pods"
PLAY = """
- hosts: all
  gather_facts: false
  tasks:
    - inferops.locality.numa_topology:
        root: "{{ node_files }}"
    - ansible.builtin.import_role:
        name: inferops.locality.dranet
"""

# Where the first play of site.yml leaves the nodes, before its plays for DRANET. It is not played itself, nor a turn: they would judge the test's machine.
SITE = """
- name: Observe
  hosts: all
  gather_facts: false
  tags: [always]
  tasks:
    - name: Read the hardware
      inferops.locality.numa_topology:
        root: "{{{{ node_files }}}}"
      register: __observe_topology
    - name: Plan
      inferops.locality.locality_plan:
        topology: "{{{{ __observe_topology.ansible_facts.numa_topology }}}}"
        platform: {{}}
        policy: "{{{{ locality_policy }}}}"
        fail: false
      register: __observe_plan
    - name: Ask the cluster
      ansible.builtin.include_tasks: {top}/roles/observe/tasks/dra.yml
      vars:
        observe_kubeconfig: "{{{{ locality_kubeconfig }}}}"
        observe_node_name: "{{{{ inventory_hostname }}}}"
        observe_control_host: localhost
        observe_nri_socket: "{{{{ dranet_nri_socket }}}}"
        __observe_dra_retries: 60
        __observe_dra_delay: 1
    - name: Compare
      inferops.locality.locality_drift:
        plan: "{{{{ __observe_plan.plan }}}}"
        state: {{}}
        cluster_state: "{{{{ __observe_dra }}}}"
        fail: false
      register: drift
    - name: Note
      ansible.builtin.set_fact:
        observe_result:
          root: /
          policy: "{{{{ locality_policy }}}}"
          plan: "{{{{ __observe_plan.plan }}}}"
          drift: "{{{{ drift }}}}"
          drifting: "{{{{ drift | inferops.locality.locality_drifting(['dra']) }}}}"
          findings: "{{{{ __observe_dra_findings }}}}"
          errors: []
        site_dra_due: "{{{{ drift | inferops.locality.locality_drifting(['dra']) | length > 0 }}}}"
        site_stop: false
    - name: Show
      ansible.builtin.debug:
        msg: "seen: {{{{ {{'drift': __drift, 'findings': observe_result.findings, 'reported': __told}} | to_json }}}}"
      vars:
        __dra: [dra.nri, dra.api, dra.gpu_driver, dra.nics]
        __drift: "{{{{ observe_result.drifting | map(attribute='knob') | sort }}}}"
        __told: "{{{{ drift.entries | selectattr('knob', 'in', __dra) | items2dict(key_name='knob', value_name='in_sync') }}}}"
    - name: Sort
      ansible.builtin.group_by:
        key: "locality_dranet_{{{{ 'present' if observe_result.plan.knobs['dra.dranet'] else 'absent' }}}}"
      changed_when: false
"""


def chart() -> Path:
    try:
        return dranet_chart.chart()
    except OSError as error:
        pytest.skip(str(error))


class Play:
    def __init__(self, plane: ControlPlane, folder: Path, collections: Path) -> None:
        self.plane, self.api, self.folder = plane, plane.api, folder
        self.collections = f"{TOP / '.collections'}:{collections}"
        self.root = folder / "node"
        paper.build(yaml.safe_load((TOP / "inventories" / "demo" / "nodes" / "h100-8gpu-8nic.yml").read_text(encoding="utf-8")), self.root)
        self.given: Dict[str, Any] = {
            "ansible_connection": "local", "ansible_python_interpreter": sys.executable, "node_files": str(self.root),
            "locality_kubeconfig": str(plane.kubeconfig), "observe_mode": "report", "dranet_chart": str(chart()), "dranet_nri_socket": str(folder / "nri.sock"),
            "locality_policy": {"dra": {"dranet": True, "namespaces": ["inference"], "uplinks": ["front0"]}},
        }
        (folder / "play.yml").write_text(PLAY, encoding="utf-8")
        # What site.yml itself has for the cluster.
        every = yaml.safe_load((TOP / "playbooks" / "site.yml").read_text(encoding="utf-8"))
        cluster = [item for item in every if item.get("tags") == ["dra"]]
        assert len(cluster) == 2
        for item in cluster:
            item["vars_files"] = [str(TOP / "playbooks" / name) for name in item["vars_files"]]
            for task in item["tasks"]:
                task["ansible.builtin.import_tasks"] = str(TOP / "playbooks" / task["ansible.builtin.import_tasks"])
        (folder / "observe.yml").write_text(SITE.format(top=TOP), encoding="utf-8")
        (folder / "site.yml").write_text(SITE.format(top=TOP) + yaml.safe_dump(cluster, sort_keys=False), encoding="utf-8")

    def __call__(
        self, *arguments: str, group: str = "dranet_pilot", play: str = "play.yml", hosts: Sequence[str] = ("gpu",), **given: Any,
    ) -> subprocess.CompletedProcess[str]:
        inventory = {"all": {"children": {group: {"hosts": {host: {**self.given, **given} for host in hosts}}}}}
        (self.folder / "hosts.yml").write_text(yaml.safe_dump(inventory), encoding="utf-8")
        helm = str(binaries.programs(["helm"])["helm"].parent)
        return subprocess.run(
            [sys.executable, "-m", "ansible", "playbook", "-i", str(self.folder / "hosts.yml"), str(self.folder / play), *arguments],
            check=False, capture_output=True, text=True, timeout=300, cwd=self.folder,
            env={
                **os.environ, "PATH": f"{helm}:{os.environ['PATH']}", "ANSIBLE_NOCOLOR": "1", "ANSIBLE_COLLECTIONS_PATH": self.collections,
                "HOME": str(self.folder),
            },
        )

    def seen(self, *arguments: str, **given: Any) -> Dict[str, Any]:
        """What the role observe finds, as its tasks have it."""
        run = self(*arguments, play="observe.yml", **given)
        assert run.returncode == 0, run.stdout[-3000:]
        return next(iter(told(run).values()))

    def worker(self) -> None:
        """A pod with a pair of GPU and NIC."""
        for item in slices("gpu", self.topology(), "front0"):
            self.api.post(f"{API}/resourceslices", item)
        self.api.post(PODS, {
            "metadata": {"name": "worker"},
            "spec": {
                "resourceClaims": [{"name": "accel", "resourceClaimTemplateName": "gpu-nic"}],
                "containers": [{"name": "main", "image": "none", "resources": {"claims": [{"name": "accel"}]}}],
            },
        })
        until("the claim is allocated", lambda: [item for item in self.api.get(CLAIMS)["items"] if item.get("status", {}).get("allocation")])

    def no_worker(self) -> None:
        self.api.delete(f"{PODS}/worker")
        until("the claim is gone", lambda: not self.api.get(CLAIMS)["items"])
        for item in self.api.get(f"{API}/resourceslices")["items"]:
            self.api.delete(f"{API}/resourceslices/{item['metadata']['name']}")

    def topology(self) -> Dict[str, Any]:
        return dict(read_topology(SysRoot(str(self.root))).to_facts())

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


def told(run: subprocess.CompletedProcess[str]) -> Dict[str, Any]:
    """What the play said of each host."""
    found = re.findall(r"ok: \[(\w+)\] => \{\s+\"msg\": \"seen: (.*)\"\n", run.stdout)
    return {host: json.loads(json.loads(f'"{text}"')) for host, text in found}


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
    assert pod["containers"][0]["image"] == f"registry.k8s.io/networking/dranet:{dranet_chart.VERSION}"
    pods = "/api/v1/namespaces/kube-system/pods"
    until("the driver's pod is on the node of the pilot group, and on no other", lambda: [
        item["spec"].get("nodeName") for item in play.api.get(pods)["items"]] == ["gpu"])

    for arguments in ((), ("--check",)):
        again = play(*arguments)
        assert again.returncode == 0 and "changed=0" in counts(again), counts(again)

    moved = play(dranet_image_registry="registry.example.com/mirror")
    assert moved.returncode == 0 and "changed=1" in counts(moved), counts(moved)
    driver = play.driver()
    assert driver and driver["spec"]["template"]["spec"]["containers"][0]["image"] == f"registry.example.com/mirror/networking/dranet:{dranet_chart.VERSION}"

    gone = play(dranet_state="absent")
    assert gone.returncode == 0 and play.driver() is None, counts(gone)
    assert LABEL not in play.api.get("/api/v1/nodes/gpu")["metadata"]["labels"]
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


GPUS: Dict[str, Any] = {"dranet": True, "gpus": "nvidia-dra", "namespaces": ["inference"], "uplinks": ["front0"]}
MANAGED = ["dra.claim_template", "dra.device_class", "dra.dranet"]


def policy(**dra: Any) -> Dict[str, Any]:
    return {"dra": {**GPUS, **dra}}


def test_site_brings_it_the_knobs_show_it_and_a_claim_in_use_keeps_it(play: Play) -> None:
    assert play.seen(locality_policy=policy())["drift"] == MANAGED
    foretold = play("--check", "--diff", "--tags", "dra", play="site.yml", locality_policy=policy())
    assert foretold.returncode == 0 and "changed=2" in counts(foretold) and play.driver() is None, counts(foretold)
    assert "+++ after: cluster" in foretold.stdout and "label locality.inferops.io/dranet of node gpu" in foretold.stdout
    # Another layer alone.
    assert "changed=0" in counts(play("--tags", "host", play="site.yml", locality_policy=policy()))

    made = play("--tags", "dra", play="site.yml", locality_policy=policy())
    assert made.returncode == 0 and "changed=2" in counts(made), counts(made)
    # As the proof of the node's turn has it, which waits for the driver's pod.
    proved = play.seen("-e", "observe_mode=proof", locality_policy=policy())
    assert proved["drift"] == [] and proved["reported"] == {"dra.nri": True, "dra.api": True, "dra.gpu_driver": False, "dra.nics": False}
    for arguments in ((), ("--check",)):
        again = play(*arguments, play="site.yml", locality_policy=policy())
        assert again.returncode == 0 and "changed=0" in counts(again) and "Install the chart" not in again.stdout, counts(again)

    # Behind the tool's back: exactly this knob, and site.yml mends it.
    play.api.delete(f"{API}/deviceclasses/dranet-rdma")
    assert play.seen(locality_policy=policy())["drift"] == ["dra.device_class"]
    mended = play(play="site.yml", locality_policy=policy())
    assert mended.returncode == 0 and "changed=1" in counts(mended), counts(mended)

    play.worker()
    seen = play.seen(locality_policy=policy())
    assert seen["drift"] == [] and set(seen["reported"].values()) == {True}
    off = policy(dranet=False)
    refused = play.seen(locality_policy=off)
    assert refused["drift"] == ["dra.dranet"] and [item["id"] for item in refused["findings"]] == ["dra.in_use"]
    assert "(pods: worker): pci-0000-19-00-0" in refused["findings"][0]["message"]
    stopped = play(play="site.yml", locality_policy=off)
    assert "rescued=1" in stopped.stdout and "claims are in use, end their pods first" in stopped.stdout and play.driver(), counts(stopped)
    taken = rollback(play)
    assert taken.returncode and "dra.in_use" in taken.stdout and "worker" in taken.stdout and play.driver(), taken.stdout

    play.no_worker()
    taken = rollback(play)
    assert "DRANET on its Node" in taken.stdout and "label locality.inferops.io/dranet of node gpu" in taken.stdout, taken.stdout[-3000:]
    assert "Remove the chart" in taken.stdout and play.driver()
    gone = play("--tags", "dra", play="site.yml", locality_policy=off)
    assert gone.returncode == 0 and "changed=2" in counts(gone) and play.driver() is None, counts(gone)
    assert play.seen("-e", "observe_mode=proof", locality_policy=off)["drift"] == []
    assert "changed=0" in counts(play(play="site.yml", locality_policy=off))


def rollback(play: Play) -> subprocess.CompletedProcess[str]:
    """In check mode: the node's files would be those of the machine of the test."""
    return play(
        "--check", "--diff", "-e", json.dumps({"record": "none", "node_maintenance_machine_id": ""}), play=str(TOP / "playbooks" / "rollback.yml"),
    )


def test_it_comes_to_all_nodes_in_their_windows_or_to_none(play: Play) -> None:
    closed = {"windows": [{"days": ["mon"], "start": "03:00", "duration": "1h", "timezone": "UTC"}]}
    given = {"locality_policy": policy(), "locality_maintenance": closed, "locality_now": "2026-12-01T12:00:00Z"}
    waits = play(play="site.yml", **given)
    assert waits.returncode == 0 and "changed=0" in counts(waits) and play.driver() is None, counts(waits)
    assert "Leave the nodes until all their windows are open" in waits.stdout


def test_a_node_gives_it_back_and_another_keeps_it(play: Play) -> None:
    both = play(play="site.yml", hosts=("gpu", "other"), locality_policy=policy())
    assert both.returncode == 0 and play.driver(), both.stdout[-3000:]
    assert rollback(play).stdout.count("Remove the chart") == 1
    gone = play(play="site.yml", locality_policy=policy(dranet=False))
    assert gone.returncode == 0 and "changed=1" in counts(gone) and play.driver(), counts(gone)
    labels = {name: play.api.get(f"/api/v1/nodes/{name}")["metadata"]["labels"].get(LABEL) for name in ("gpu", "other")}
    assert labels == {"gpu": None, "other": "true"}
    assert "dranet-rdma" in [item["metadata"]["name"] for item in play.api.get(f"{API}/deviceclasses")["items"]]
    # One that has it and is not in the run.
    outside = play(play="site.yml", locality_policy=policy())
    assert "rescued=1" in outside.stdout and "nodes other have DRANET and are not in this run" in outside.stdout
    last = play(play="site.yml", hosts=("other",), locality_policy=policy(dranet=False))
    assert last.returncode == 0 and play.driver() is None, last.stdout[-3000:]


def manifests(play: Play, *options: str) -> str:
    """DRANET's chart as helm renders it, in a file."""
    helm = str(binaries.programs(["helm"])["helm"])
    rendered = subprocess.run(
        [helm, "template", "dranet", str(chart()), "--namespace", "kube-system", *options], check=True, capture_output=True, text=True, timeout=60,
    )
    file = play.folder / "dranet.yml"
    file.write_text(rendered.stdout, encoding="utf-8")
    return str(file)


def test_manifests_instead_of_the_chart(play: Play) -> None:
    everywhere = play(dranet_manifest=manifests(play))
    assert everywhere.returncode and "would run on every node" in everywhere.stdout and play.driver() is None, counts(everywhere)
    given = {"dranet_manifest": manifests(play, "--set-string", "nodeSelector.locality\\.inferops\\.io/dranet=true", "--set", "image.tag=v9.9.9")}
    foretold = play("--check", "--diff", **given)
    assert foretold.returncode == 0 and "changed=2" in counts(foretold) and play.driver() is None, counts(foretold)
    made = play(**given)
    assert made.returncode == 0 and "changed=2" in counts(made), counts(made)
    driver = play.driver()
    assert driver and driver["spec"]["template"]["spec"]["containers"][0]["image"].endswith(":v9.9.9")
    until("the driver's pod is on the node", lambda: [
        item["spec"].get("nodeName") for item in play.api.get("/api/v1/namespaces/kube-system/pods")["items"]] == ["gpu"])
    for arguments in ((), ("--check",)):
        again = play(*arguments, **given)
        assert again.returncode == 0 and "changed=0" in counts(again), counts(again)
    gone = play(dranet_state="absent", **given)
    assert gone.returncode == 0 and "changed=2" in counts(gone) and play.driver() is None, counts(gone)
    assert "changed=0" in counts(play(dranet_state="absent", **given))
