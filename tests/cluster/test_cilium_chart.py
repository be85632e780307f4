# Copyright (c) 2026 The inferops.locality authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The role cilium, its part for a cluster, played against a real API server: RKE2's chart by a HelmChartConfig, and a chart by a real helm.

That chart is ours: it makes the ConfigMap and the DaemonSet by which a Cilium is known, and no Cilium. The collection kubernetes.core is at hand for it alone:
RKE2's chart needs none.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Dict, Iterator, List, Optional

import pytest
import yaml

from controlplane import binaries
from test_cilium_node import reference
from test_cilium_values import CHARTS, CONFIG, CONFIGS, RIGHTS, chart
from turns import TOP, Cluster, turn_cluster, until

CONFIG_MAP = "/api/v1/namespaces/kube-system/configmaps/cilium-config"
NOTE = "/api/v1/namespaces/kube-system/secrets/inferops-locality-cilium"
POLICY: Dict[str, Any] = {"network": {"routing": "direct", "clock_probe": True}}
TEMPLATE = """\
apiVersion: v1
kind: ConfigMap
metadata: {name: cilium-config}
data:
  routing-mode: {{ .Values.routingMode | default "tunnel" | quote }}
  kube-proxy-replacement: {{ .Values.kubeProxyReplacement | default false | quote }}
  enable-bpf-masquerade: {{ .Values.bpf.masquerade | default false | quote }}
  enable-bpf-clock-probe: {{ .Values.bpfClockProbe | default false | quote }}
  ipam: {{ .Values.ipam.mode | quote }}
---
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: cilium}
spec:
  selector: {matchLabels: {k8s-app: cilium}}
  updateStrategy: {{ .Values.updateStrategy | toJson }}
  template:
    metadata: {labels: {k8s-app: cilium}}
    spec:
      hostNetwork: true
      containers: [{name: cilium-agent, image: "none:v1.19.6"}]
"""


@pytest.fixture(scope="module")
def cluster(programs: None) -> Iterator[Cluster]:
    definitions = reference() / "data" / "crds"
    with turn_cluster("a") as running:
        for kind in ("helmcharts", "helmchartconfigs"):
            running.plane.kubectl("apply", "-f", str(definitions / f"helm.cattle.io_{kind}.yaml"))
            running.plane.kubectl("wait", "--for=condition=Established", f"crd/{kind}.helm.cattle.io", "--timeout=60s")
        until("the kinds are served", lambda: running.exists(CHARTS) and running.exists(CONFIGS))
        running.plane.kubectl("apply", "-f", str(RIGHTS))
        yield running


def play(folder: Path, kubeconfig: Path, *options: str, fails: bool = False, collections: Optional[Path] = None, **variables: Any) -> str:
    """The role on one host that nobody connects to. :param collections: a further folder of collections."""
    book = [{"hosts": "all", "gather_facts": False, "tasks": [
        {"ansible.builtin.include_role": {"name": "inferops.locality.cilium", "tasks_from": "cluster"}, "vars": {"cilium_control_host": "localhost"}},
    ]}]
    (folder / "play.yml").write_text(yaml.safe_dump(book), encoding="utf-8")
    given = {"locality_kubeconfig": str(kubeconfig), "locality_policy": POLICY, "ansible_connection": "local", **variables}
    done = subprocess.run(
        ["ansible-playbook", "-i", "a,", "-e", json.dumps(given), *options, str(folder / "play.yml")], capture_output=True, text=True, check=False, cwd=TOP,
        env={**os.environ, "ANSIBLE_NOCOLOR": "1", "ANSIBLE_COLLECTIONS_PATH": ":".join(str(path) for path in (TOP / ".collections", collections) if path)},
    )
    assert (done.returncode != 0) == fails, done.stdout + done.stderr
    return done.stdout + done.stderr


def changed(out: str) -> int:
    return int(re.search(r"changed=(\d+)", out).group(1))  # type: ignore[union-attr]


def test_rkes_own_chart(cluster: Cluster, tmp_path: Path) -> None:
    cluster.api.post(CHARTS, chart())
    bundled = {"locality_cilium": {"version": "1.19.601", "values": {"hubble": {"enabled": True}}}}
    try:
        assert changed(play(tmp_path, cluster.ours, "--check", "--diff", **bundled)) == 1 and not cluster.exists(CONFIG)
        assert changed(play(tmp_path, cluster.ours, **bundled)) == 1
        values = yaml.safe_load(cluster.api.get(CONFIG)["spec"]["valuesContent"])
        assert values["routingMode"] == "native" and values["bpfClockProbe"] is True and values["hubble"] == {"enabled": True}
        assert changed(play(tmp_path, cluster.ours, **bundled)) == 0 == changed(play(tmp_path, cluster.ours, "--check", **bundled))
        told = play(tmp_path, cluster.ours, fails=True, locality_cilium={"version": "1.19.6", "mode": "helm"})
        assert "cilium.helm_beside_bundled" in told
        assert changed(play(tmp_path, cluster.ours, cilium_state="absent", **bundled)) == 1 and not cluster.exists(CONFIG)
    finally:
        cluster.api.delete(f"{CHARTS}/rke2-cilium")


def small_chart(folder: Path) -> Path:
    """A chart of ours that is called cilium."""
    chart_folder = folder / "cilium"
    (chart_folder / "templates").mkdir(parents=True)
    (chart_folder / "Chart.yaml").write_text("apiVersion: v2\nname: cilium\nversion: 1.19.6\nappVersion: 1.19.6\n", encoding="utf-8")
    (chart_folder / "values.yaml").write_text("bpf: {}\nipam: {mode: cluster-pool}\nupdateStrategy: {type: RollingUpdate}\n", encoding="utf-8")
    (chart_folder / "templates/all.yaml").write_text(TEMPLATE, encoding="utf-8")
    return chart_folder


@pytest.fixture
def helm(cluster: Cluster) -> Iterator[str]:
    """The program; its release and our note are gone afterwards."""
    program = str(binaries.programs(("helm",))["helm"])
    yield program
    subprocess.run([program, "--kubeconfig", str(cluster.admin), "-n", "kube-system", "uninstall", "cilium", "--ignore-not-found"], check=True)
    if cluster.exists(NOTE):
        cluster.api.delete(NOTE)


def test_a_chart_by_a_real_helm(cluster: Cluster, collections: Path, tmp_path: Path, helm: str) -> None:
    # helm writes Secrets and whatever the chart has: the operator's own rights.
    mine = cluster.admin
    own = {
        "locality_cilium": {"version": "1.19.6", "mode": "helm"}, "cilium_chart": str(small_chart(tmp_path)), "cilium_helm": helm, "collections": collections,
    }
    play(tmp_path, mine, "--check", "--diff", **own)
    assert not cluster.exists(CONFIG_MAP) and not cluster.exists(NOTE)
    # The note, and the release.
    assert changed(play(tmp_path, mine, **own)) == 2
    data: Dict[str, str] = cluster.api.get(CONFIG_MAP)["data"]
    assert data == {
        "routing-mode": "native", "kube-proxy-replacement": "true", "enable-bpf-masquerade": "true", "enable-bpf-clock-probe": "true", "ipam": "kubernetes",
    }
    assert changed(play(tmp_path, mine, **own)) == 0
    refused: List[str] = [
        play(tmp_path, mine, fails=True, **{**own, "locality_cilium": {**own["locality_cilium"], "values": {"bpf": {"datapathMode": "netkti"}}}}),
        play(tmp_path, mine, fails=True, **{**own, "locality_cilium": {"version": "1.19.601", "mode": "bundled"}}),
    ]
    assert "the nearest is netkit" in refused[0] and "cilium.not_bundled" in refused[1]
    with cluster.namespace("live") as namespace:
        cluster.deploy(namespace, "app", 1)
        assert changed(play(tmp_path, mine, **own)) == 0
        told = play(tmp_path, mine, fails=True, **{**own, "locality_cilium": {**own["locality_cilium"], "values": {"routingMode": "tunnel"}}})
        assert "routing-mode: found native in the cluster" in told
        other = {**own, "locality_policy": {"network": {"bpf_maps": {"ratio": 0.005}}}}
        assert changed(play(tmp_path, mine, **other)) == 2
        # The clock probe is not asked for any more, and what the cluster was made with stays.
        left = cluster.api.get(CONFIG_MAP)["data"]
        assert left == {**data, "enable-bpf-clock-probe": "false"}
        # A release that was not there before is not taken away.
        kept = play(tmp_path, mine, **own, cilium_state="absent")
        assert changed(kept) == 0 and cluster.api.get(CONFIG_MAP)["data"] == left


def test_a_release_of_somebody_else_gets_its_values_back(cluster: Cluster, collections: Path, tmp_path: Path, helm: str) -> None:
    mine, folder = cluster.admin, small_chart(tmp_path)
    theirs = {"routingMode": "native", "kubeProxyReplacement": True, "k8sServiceHost": "localhost", "k8sServicePort": "6443", "ipam": {"mode": "kubernetes"},
              "ipv4NativeRoutingCIDR": "10.0.0.0/8", "bpf": {"masquerade": True}, "hubble": {"enabled": False}}
    (tmp_path / "theirs.yml").write_text(yaml.safe_dump(theirs), encoding="utf-8")
    helms = [helm, "--kubeconfig", str(mine), "-n", "kube-system"]
    subprocess.run([*helms, "install", "cilium", str(folder), "-f", str(tmp_path / "theirs.yml")], check=True, capture_output=True)

    def values() -> Any:
        return json.loads(subprocess.run([*helms, "get", "values", "cilium", "-o", "json"], check=True, capture_output=True, text=True).stdout)

    own = {"locality_cilium": {"version": "1.19.6"}, "cilium_chart": str(folder), "cilium_helm": helm, "collections": collections}
    with cluster.namespace("theirs") as namespace:
        cluster.deploy(namespace, "app", 1)
        told = play(tmp_path, mine, "--check", "--diff", **own)
        assert '+    "bpfClockProbe": true' in told and values() == theirs and not cluster.exists(NOTE)
        assert changed(play(tmp_path, mine, **own)) == 2
        assert values() == {**theirs, "bpfClockProbe": True, "updateStrategy": {"type": "OnDelete"}}
        assert changed(play(tmp_path, mine, **own)) == 0 == changed(play(tmp_path, mine, "--check", **own))
        back = {**own, "cilium_state": "absent"}
        told = play(tmp_path, mine, "--check", "--diff", **back)
        assert '-    "bpfClockProbe": true' in told and values() != theirs and cluster.exists(NOTE)
        # Somebody else's change in between is not lost.
        subprocess.run([*helms, "upgrade", "cilium", str(folder), "--reuse-values", "--set", "debug.enabled=true"], check=True, capture_output=True)
        assert "cilium.config_changed" in play(tmp_path, mine, fails=True, **back)
        subprocess.run([*helms, "rollback", "cilium", "2"], check=True, capture_output=True)
        play(tmp_path, mine, **back)
        assert values() == theirs and not cluster.exists(NOTE)
        assert changed(play(tmp_path, mine, **back)) == 0 == changed(play(tmp_path, mine, "--check", **back))


@pytest.fixture
def served(tmp_path: Path) -> Iterator[str]:
    """A folder ``repository`` behind a web server on the loopback address: the address of it."""
    folder = tmp_path / "repository"
    folder.mkdir()
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(SimpleHTTPRequestHandler, directory=str(folder))) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def test_a_chart_of_a_repository_and_the_same_as_an_archive(cluster: Cluster, collections: Path, tmp_path: Path, helm: str, served: str) -> None:
    """An OCI registry cannot be had here."""
    repository = tmp_path / "repository"
    subprocess.run([helm, "package", str(small_chart(tmp_path)), "--destination", str(repository)], check=True, capture_output=True)
    subprocess.run([helm, "repo", "index", str(repository), "--url", served], check=True, capture_output=True)
    own = {"locality_cilium": {"version": "1.19.6", "mode": "helm"}, "cilium_helm": helm, "collections": collections}
    assert changed(play(tmp_path, cluster.admin, **own, cilium_chart_repository=served, cilium_chart="cilium")) == 2
    assert cluster.api.get(CONFIG_MAP)["data"]["routing-mode"] == "native"
    assert changed(play(tmp_path, cluster.admin, **own, cilium_chart_repository=served, cilium_chart="cilium")) == 0
    assert changed(play(tmp_path, cluster.admin, **own, cilium_chart=str(repository / "cilium-1.19.6.tgz"))) == 0
    told = play(tmp_path, cluster.admin, fails=True, **{**own, "locality_cilium": {"version": "1.19.7", "mode": "helm"}}, cilium_chart_repository=served)
    assert "1.19.7" in told and cluster.api.get(CONFIG_MAP)["data"]["routing-mode"] == "native"
