# Copyright (c) 2026 The inferops.locality authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Nodes on paper of a cluster that is still to be made, and of one that has been."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible.module_utils.testing import patch_module_args

from ansible_collections.inferops.locality.plugins.module_utils import cilium_cluster
from ansible_collections.inferops.locality.plugins.modules import cilium_manifests

CONFIG = "etc/rancher/rke2/config.yaml"
DROP_IN = "etc/rancher/rke2/config.yaml.d/80-inferops-locality-cilium.yaml"
MANIFEST = "var/lib/rancher/rke2/server/manifests/inferops-locality-cilium.yaml"
WANTED: dict[str, Any] = {"role": "server", "version": "1.19.601", "network": {"routing": "direct", "datapath_mode": "netkit"}, "nodes": 3}


def run(capsys: pytest.CaptureFixture[str], root: Path, check: bool = False, **given: Any) -> dict[str, Any]:
    arguments = {"root": str(root), "_ansible_check_mode": check, "_ansible_diff": True, **WANTED, **given}
    with patch_module_args(arguments), pytest.raises(SystemExit):
        cilium_manifests.main()
    return dict(json.loads(capsys.readouterr().out))


def write(root: Path, path: str, text: str) -> None:
    (root / path).parent.mkdir(parents=True, exist_ok=True)
    (root / path).write_text(text, encoding="utf-8")


def test_check_run_run_again_check_again_and_back(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    foretold = run(capsys, tmp_path, check=True)
    assert foretold["changed"] and not list(tmp_path.iterdir())
    made = run(capsys, tmp_path)
    assert made["paths"] == foretold["paths"] and made["diff"] == foretold["diff"] and len(made["paths"]) == 2
    assert yaml.safe_load((tmp_path / DROP_IN).read_text(encoding="utf-8")) == {"cni": "cilium", "disable-kube-proxy": True}
    for check in (False, True):
        assert not run(capsys, tmp_path, check=check)["changed"]
    assert run(capsys, tmp_path, state="absent", check=True)["changed"] and (tmp_path / DROP_IN).exists()
    run(capsys, tmp_path, state="absent")
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []
    assert not run(capsys, tmp_path, state="absent")["changed"]


def test_the_manifest_is_what_the_cluster_would_be_given_and_is_known_as_ours(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(tmp_path, CONFIG, 'token: secret\ncluster-cidr: "10.7.0.0/16,fd00:7::/56"\n')
    made = run(capsys, tmp_path, network={**WANTED["network"], "clock_probe": True}, values={"hubble": {"enabled": True}, "cluster": {"name": "it's"}})
    assert made["failed"] and "cluster.name" in made["msg"] and not (tmp_path / MANIFEST).exists()
    made = run(capsys, tmp_path, network={**WANTED["network"], "clock_probe": True}, values={"hubble": {"enabled": True}})
    config = yaml.safe_load((tmp_path / MANIFEST).read_text(encoding="utf-8"))
    assert (config["kind"], config["metadata"]["name"], config["metadata"]["namespace"]) == ("HelmChartConfig", "rke2-cilium", "kube-system")
    values = yaml.safe_load(config["spec"]["valuesContent"])
    assert values == made["chart_values"] and config["spec"]["failurePolicy"] == "abort"
    assert values["ipv4NativeRoutingCIDR"] == "10.7.0.0/16" and values["ipv6NativeRoutingCIDR"] == "fd00:7::/56"
    assert values["bpf"]["datapathMode"] == "netkit" and values["operator"]["replicas"] == 2 and values["kubeProxyReplacement"] is True
    # As the module that looks at the cluster later reads it.
    noted = cilium_cluster.note(config)
    assert noted is not None and noted["written"] == cilium_cluster.digest(config["spec"]) and noted["before"] is None
    assert noted["profile"]["routingMode"] == "native" and "bpfClockProbe" not in noted["profile"] and "hubble" not in noted["profile"]


def test_an_agent_has_no_manifest(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert len(run(capsys, tmp_path, role="agent", version="")["paths"]) == 1
    assert (tmp_path / DROP_IN).read_text(encoding="utf-8") == "disable-kube-proxy: true\n"


def test_for_helm_rke2_brings_no_cni(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert len(run(capsys, tmp_path, mode="helm")["paths"]) == 1
    assert yaml.safe_load((tmp_path / DROP_IN).read_text(encoding="utf-8")) == {"cni": "none", "disable-kube-proxy": True}


@pytest.mark.parametrize(("text", "kept"), [
    ("cni: cilium\n", {"disable-kube-proxy": True}), ("cni: [multus, cilium]\n", {"disable-kube-proxy": True}),
    ("disable-kube-proxy: true\n", {"cni": "cilium"}),
])
def test_what_the_operator_has_is_left(tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, kept: Any) -> None:
    write(tmp_path, CONFIG, text)
    run(capsys, tmp_path)
    assert yaml.safe_load((tmp_path / DROP_IN).read_text(encoding="utf-8")) == kept
    assert not run(capsys, tmp_path)["changed"]


def test_all_refusals_come_at_once_and_nothing_is_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(tmp_path, CONFIG, "cni: calico\ndisable-kube-proxy: false\n")
    write(tmp_path, "var/lib/rancher/rke2/server/manifests/mine.yaml", "kind: HelmChartConfig\nmetadata:\n  name: rke2-cilium\n")
    refused = run(capsys, tmp_path, version="", network={}, check=True)
    assert refused["failed"] and sorted(item["id"] for item in refused["findings"]) == [
        "cilium.foreign_manifest", "cilium.no_version", "cilium.rke2_setting", "cilium.rke2_setting", "cilium.routing_unstated",
    ]
    assert f"cni: found calico (/{CONFIG}:1)" in refused["msg"] and not (tmp_path / DROP_IN).exists()
    write(tmp_path, CONFIG, "cni: &x calico\n")
    assert "cilium.rke2_unread" in run(capsys, tmp_path)["msg"] and not (tmp_path / DROP_IN).exists()


def test_after_the_first_start_only_the_manifest_goes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run(capsys, tmp_path)
    write(tmp_path, "var/lib/rancher/rke2/server/token", "secret")
    after = run(capsys, tmp_path, network={"routing": "bgp"})
    assert after["started"] and after["paths"] == [f"/{MANIFEST}"] and not (tmp_path / MANIFEST).exists() and (tmp_path / DROP_IN).exists()
    assert not run(capsys, tmp_path)["changed"]
    for given in ({"state": "absent"}, {"mode": "helm"}):
        refused = run(capsys, tmp_path, **given)
        assert refused["failed"] and "cilium.started" in refused["msg"] and (tmp_path / DROP_IN).read_text(encoding="utf-8").startswith("cni: cilium")


def test_a_cluster_that_lives_without_it_is_not_changed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(tmp_path, "var/lib/rancher/rke2/agent/kubelet.kubeconfig", "")
    refused = run(capsys, tmp_path, role="agent")
    assert refused["failed"] and "cilium.started" in refused["msg"] and not (tmp_path / DROP_IN).exists()


def test_another_data_dir_is_followed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(tmp_path, CONFIG, "data-dir: /data/rke2\n")
    assert "/data/rke2/server/manifests/inferops-locality-cilium.yaml" in run(capsys, tmp_path)["paths"]
