# Copyright (c) 2026 The inferops.locality authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""``site.yml --tags network`` and ``rollback.yml`` for real against a real API server: the cluster's chart behind its gate, then each node's turn.

The nodes are on paper: their collection is the checkout's, whose one opener of files takes their folder for ``/``. RKE2's helm controller and Cilium's agents
are the stand-ins of ``stand_in_cilium``, and what the agents say are recorded answers.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any, Dict, Iterator, List

import pytest
import yaml

import stand_in_cilium as cilium
from ansible_collections.inferops.locality.plugins.plugin_utils import paper
from ansible_collections.inferops.locality.tests.unit import playing
from ansible_collections.inferops.locality.tests.unit.fixtures import machines as fixtures
from test_cilium_node import RIGHTS as NODE_RIGHTS
from test_cilium_node import reference
from test_cilium_values import CHARTS, CONFIG, CONFIGS, RIGHTS, chart
from turns import TOP, Cluster, turn_cluster, until

NODES = ("a", "b")
# What the operator's cluster was made with.
THEIRS: Dict[str, Any] = {
    "routingMode": "native", "ipv4NativeRoutingCIDR": "10.0.0.0/8", "kubeProxyReplacement": True, "k8sServiceHost": "localhost", "k8sServicePort": "6443",
    "bpf": {"masquerade": True, "hostLegacyRouting": False}, "cni": {"chainingMode": "none"}, "autoDirectNodeRoutes": True,
}
POLICY: Dict[str, Any] = {"network": {"clock_probe": True, "xdp": "best-effort"}}


def stand_in_collection(folder: Path) -> Path:
    """The collection as it is, but that below LOCALITY_STAND_IN_ROOT lies what its modules take for ``/``."""
    top = folder / "collections/ansible_collections/inferops/locality"
    (top / "plugins").mkdir(parents=True)
    for item in TOP.iterdir():
        if item.name not in ("plugins", ".collections", ".git"):
            (top / item.name).symlink_to(item)
    for item in (TOP / "plugins").iterdir():
        if item.name != "module_utils":
            (top / "plugins" / item.name).symlink_to(item)
    shutil.copytree(TOP / "plugins/module_utils", top / "plugins/module_utils", ignore=shutil.ignore_patterns("__pycache__"))
    opener = top / "plugins/module_utils/sysroot.py"
    text = opener.read_text(encoding="utf-8")
    line = "        self.root = os.path.abspath(root)\n"
    assert text.count(line) == 1
    other = line.replace("(root)", '(os.environ.get("LOCALITY_STAND_IN_ROOT", root) if root == "/" else root)')
    opener.write_text(text.replace(line, other), encoding="utf-8")
    return folder / "collections"


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Dict[str, Path]:
    """The roots of the nodes on paper."""
    folder = tmp_path_factory.mktemp("nodes")
    small, node = fixtures.description("two-sockets"), paper.load(playing.DEMO / "nodes" / "cpu-snc2-cxl.yml")
    for name in NODES:
        paper.build({**small, **{key: node[key] for key in ("kernel", "dirs", "files", "links")}}, folder / name)
        python = folder / f"python-{name}"
        python.write_text(f'#!/bin/sh\nLOCALITY_STAND_IN_ROOT={folder / name} exec {sys.executable} "$@"\n', encoding="utf-8")
        python.chmod(0o755)
    return {name: folder / name for name in NODES}


@pytest.fixture(scope="module")
def shared(programs: None, nodes: Dict[str, Path]) -> Iterator[Cluster]:
    definitions = reference() / "data" / "crds"
    with turn_cluster(*NODES) as running:
        for kind in ("helmcharts", "helmchartconfigs"):
            running.plane.kubectl("apply", "-f", str(definitions / f"helm.cattle.io_{kind}.yaml"))
            running.plane.kubectl("wait", "--for=condition=Established", f"crd/{kind}.helm.cattle.io", "--timeout=60s")
        until("the kinds are served", lambda: running.exists(CHARTS) and running.exists(CONFIGS))
        for rights in (RIGHTS, NODE_RIGHTS):
            running.plane.kubectl("apply", "-f", str(rights))
        running.api.post(CHARTS, chart())
        running.api.post(CONFIGS, theirs())
        cilium.install(running, definitions, len(NODES))
        with cilium.played(running, nodes), running.namespace("live") as namespace:
            running.deploy(namespace, "app", 2)
            until("the chart is rendered", lambda: running.api.get(cilium.CONFIG_MAP)["data"]["routing-mode"] == "native")
            until("our account may read", lambda: "status" not in running.call("cilium_values", "", state="read"), 30)
            yield running


def theirs() -> Dict[str, Any]:
    return {
        "apiVersion": "helm.cattle.io/v1", "kind": "HelmChartConfig", "metadata": {"name": "rke2-cilium"}, "spec": {"valuesContent": yaml.safe_dump(THEIRS)},
    }


@pytest.fixture
def cluster(shared: Cluster) -> Cluster:
    shared.api.delete(CONFIG)
    shared.api.post(CONFIGS, theirs())
    cilium.forget(shared, *NODES)
    shared.reset(*NODES)
    until("the chart is rendered", lambda: shared.api.get(cilium.CONFIG_MAP)["data"]["enable-bpf-clock-probe"] == "false")
    return shared


class Site:
    """Plays a playbook on both nodes, as an operator does."""

    def __init__(self, cluster: Cluster, nodes: Dict[str, Path], folder: Path) -> None:
        self.cluster = cluster
        self._folder = folder
        self._collections = stand_in_collection(folder)
        self._hosts: Dict[str, Dict[str, Any]] = {
            name: {"ansible_connection": "local", "ansible_python_interpreter": str(root.parent / f"python-{name}")} for name, root in nodes.items()
        }

    def play(self, book: str, *options: str, rc: int = 0, per_host: Any = None, **variables: Any) -> str:
        hosts = {name: {**given, **(per_host or {}).get(name, {})} for name, given in self._hosts.items()}
        given = {
            "locality_kubeconfig": str(self.cluster.ours), "locality_cilium": {"version": "1.19.601"}, "locality_policy": POLICY,
            "node_maintenance_machine_id": "", "cilium_wait": 30, "cilium_timeout": 60, **variables,
        }
        inventory = self._folder / "hosts.yml"
        inventory.write_text(yaml.safe_dump({"all": {"hosts": hosts, "vars": given}}), encoding="utf-8")
        done = subprocess.run(
            [sys.executable, "-m", "ansible", "playbook", "-i", str(inventory), str(TOP / "playbooks" / f"{book}.yml"), "-e", "ansible_become=false", *options],
            env={**os.environ, "ANSIBLE_COLLECTIONS_PATH": str(self._collections), "ANSIBLE_CONFIG": str(TOP / "ansible.cfg"), "ANSIBLE_NOCOLOR": "1"},
            check=False, capture_output=True, text=True, timeout=540,
        )
        assert (done.returncode != 0) == (rc != 0), done.stdout + done.stderr
        return done.stdout

    def site(self, *options: str, **given: Any) -> str:
        return self.play("site", "--tags", "network", *options, **given)

    def values(self) -> Any:
        return yaml.safe_load(self.cluster.api.get(CONFIG)["spec"]["valuesContent"])

    def state(self) -> Any:
        """All that a run may change."""
        labels = {name: self.cluster.node(name)["metadata"]["labels"].get("locality.inferops.io/cilium") for name in NODES}
        holders = [name for name in self.cluster.holders() if name]
        return self.cluster.api.get(CONFIG), sorted(cilium.objects(self.cluster)), labels, sorted(cilium.agents(self.cluster)), holders


@pytest.fixture
def site(cluster: Cluster, nodes: Dict[str, Path], tmp_path: Path) -> Site:
    return Site(cluster, nodes, tmp_path)


def changed(out: str) -> List[int]:
    return [int(count) for count in re.findall(r"changed=(\d+)", out)]


def line(out: str) -> str:
    """All of it, since Ansible breaks lines."""
    return " ".join(out.split())


def test_check_run_run_again_check_again(site: Site) -> None:
    before = site.state()
    out = site.site("--check", "--diff")
    assert site.state() == before and re.search(r"\n\+ +\"bpfClockProbe\": true", out) and "2 nodes: 2 would be written (check mode)" in line(out)
    assert "would be written (check mode)" in line(out).split("cluster.chart")[1]
    done = site.site()
    assert "2 nodes: 2 written, in sync" in line(done) and "the values of the cluster's Cilium were written" in line(done)
    assert site.values() == {**THEIRS, "bpfClockProbe": True, "updateStrategy": {"type": "OnDelete"}}
    made = site.state()
    assert len(made[1]) == 1 and set(made[2].values()) == {made[1][0].rpartition("-")[2]} and not set(made[3]) & set(before[3])
    assert not any(site.cluster.is_cordoned(name) for name in NODES) and not made[4]
    for options in ((), ("--check", "--diff")):
        again = site.site(*options)
        assert changed(again) == [0, 0] and "2 nodes: 2 in sync" in line(again) and site.state() == made


def test_back(site: Site) -> None:
    spec = site.cluster.api.get(CONFIG)["spec"]
    assert "2 nodes: 2 written, in sync" in line(site.site())
    made = site.state()
    # The nodes' turns would act on the machine of the test, so only what is foretold is seen: agents have to let go of the clock too.
    foretold = site.play("rollback", "-e", "record=none", "--check", "--diff")
    assert site.state() == made and re.search(r"\n- +\"bpfClockProbe\": true", foretold), foretold
    assert "the values of its cluster's Cilium, as its agent has them" in line(foretold)
    assert "2 nodes: 2 would be taken off (check mode)" in line(foretold)
    # With the policy of before, the chart has its values of before and the nodes those of their cluster.
    site.site(locality_policy={"network": {}}, locality_cilium={"version": "1.19.601", "values": {}})
    back = site.state()
    assert site.values() == {**THEIRS, "updateStrategy": {"type": "OnDelete"}} and (back[1], set(back[2].values())) == ([], {None})
    # Nothing of ours is on the nodes any more; the chart gets back what stood there.
    gone = line(site.play("rollback", "-e", "record=none"))
    assert "2 nodes: 2 has nothing of this collection" in gone and "the values of the cluster's Cilium were written" in gone
    found = site.cluster.api.get(CONFIG)
    assert found["spec"] == spec and not found["metadata"].get("annotations") and site.state()[3] == back[3]
    assert changed(site.play("rollback", "-e", "record=none")) == [0, 0]


def test_hosts_that_disagree_are_refused_with_their_values_and_nothing_is_touched(site: Site) -> None:
    before = site.state()
    out = site.site(rc=2, per_host={"b": {"locality_policy": {"network": {"clock_probe": False}}}})
    assert "locality_policy.network.clock_probe: hosts of one cluster ask its Cilium's chart for different values: true on a; false on b" in line(out)
    assert "2 nodes: 2 refused" in line(out) and site.state() == before
    # One that is not looked at counts too.
    out = site.site("--limit", "a", rc=2, per_host={"b": {"locality_policy": {"network": {"clock_probe": False}}}})
    assert "1 node: 1 refused" in line(out) and site.state() == before


def test_what_the_chart_is_refused_is_said_of_all_hosts_with_everything_else_at_once(site: Site) -> None:
    before = site.state()
    wrong = {"version": "1.19.601", "values": {"enableIpv4BigTcp": True, "routingMode": "tunnel"}}
    out = site.site(rc=2, locality_cilium=wrong, per_host={"b": {"locality_policy": {"network": {"big_tcp": ["ipv4"], "clock_probe": True}}}})
    assert "2 nodes: 2 refused" in line(out) and site.state() == before
    for host in NODES:
        told = re.search(rf"\n{host} - refused\n.*?(?=\n\n)", out, re.DOTALL)
        assert told and "the nearest known key is enableIPv4BIGTCP" in told[0] and "routing-mode: found native in the cluster" in told[0], out


def test_a_closed_window_leaves_the_chart_and_a_cluster_that_is_not_well_stops_the_rollout(site: Site) -> None:
    before = site.state()
    closed = {"windows": [{"days": ["sun"], "start": "02:00", "duration": "3h", "timezone": "UTC"}], "expected_minutes": 60}
    out = site.site(locality_maintenance=closed, locality_now="2026-11-30T12:00:00Z")
    assert site.state() == before and "the values of the cluster's Cilium were left as they are:" in line(out)
    site.cluster.plane.nodes["b"].not_ready()
    until("b is not ready", lambda: not site.cluster._is_clean("b"))
    out = site.site(rc=2)
    assert "1 nodes are not ready: b" in line(out) and "were not written" in line(out)
    assert "1 failed; 1 left out, the rollout stopped before it" in line(out) and site.state() == before


def test_a_chart_that_is_not_rendered_stops_the_rollout_before_any_node(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    agents = cilium.agents(site.cluster)
    monkeypatch.setattr(cilium, "render", lambda cluster: None)
    out = site.site(rc=2, cilium_wait=2)
    assert "does not have cilium.clock as the chart's values say" in line(out) and "helm-install-rke2-cilium" in line(out)
    assert cilium.agents(site.cluster) == agents and not any(site.cluster.holders())
