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
from pathlib import Path
from typing import Any, Dict, Iterator, List, Optional

import pytest
import yaml

from controlplane import binaries
from test_cilium_node import reference
from test_cilium_values import CHARTS, CONFIG, CONFIGS, RIGHTS, chart
from turns import TOP, Cluster, turn_cluster, until

CONFIG_MAP = "/api/v1/namespaces/kube-system/configmaps/cilium-config"
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


def test_a_chart_by_a_real_helm(cluster: Cluster, collections: Path, tmp_path: Path) -> None:
    folder = tmp_path / "cilium"
    (folder / "templates").mkdir(parents=True)
    (folder / "Chart.yaml").write_text("apiVersion: v2\nname: cilium\nversion: 1.19.6\nappVersion: 1.19.6\n", encoding="utf-8")
    (folder / "values.yaml").write_text("bpf: {}\nipam: {mode: cluster-pool}\nupdateStrategy: {type: RollingUpdate}\n", encoding="utf-8")
    (folder / "templates/all.yaml").write_text(TEMPLATE, encoding="utf-8")
    helm = str(binaries.programs(("helm",))["helm"])
    # helm writes Secrets and whatever the chart has: the operator's own rights.
    mine = cluster.admin
    own = {"locality_cilium": {"version": "1.19.6", "mode": "helm"}, "cilium_chart": str(folder), "cilium_helm": helm, "collections": collections}
    play(tmp_path, mine, "--check", "--diff", **own)
    assert not cluster.exists(CONFIG_MAP)
    assert changed(play(tmp_path, mine, **own)) == 1
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
        assert changed(play(tmp_path, mine, **own, locality_policy={"network": {"bpf_maps": {"ratio": 0.005}}})) == 1
    assert cluster.api.get(CONFIG_MAP)["data"] == data
