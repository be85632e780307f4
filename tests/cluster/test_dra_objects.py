# Copyright (c) 2026 The inferops.locality authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""DeviceClasses and claim templates on a real API server, by the module and with the rights of docs/rbac-dra.yaml."""

from __future__ import annotations

import contextlib
import io
import json
from pathlib import Path
from typing import Any, Dict, Iterator, List

import pytest
import yaml
from ansible.module_utils.testing import patch_module_args

from ansible_collections.inferops.locality.plugins.module_utils.sysroot import SysRoot
from ansible_collections.inferops.locality.plugins.module_utils.topology import read_topology
from ansible_collections.inferops.locality.plugins.modules import dra_objects
from ansible_collections.inferops.locality.plugins.plugin_utils import paper
from controlplane import ControlPlane, control_plane
from dra_slices import GPU_CLASS, slices
from turns import TOP, until

API = "/apis/resource.k8s.io/v1"
LABEL = "locality.inferops.io/dranet"
POLICY: Dict[str, Any] = {"dra": {"gpus": "nvidia-dra", "namespaces": ["inference"], "uplinks": ["front0"]}}


class Site:
    """A control plane with one node of the demo. :ivar ours: a kubeconfig with the rights of docs/rbac-dra.yaml."""

    def __init__(self, plane: ControlPlane, topology: Dict[str, Any]) -> None:
        self.plane, self.api, self.topology = plane, plane.api, topology
        self.ours = plane.kubeconfig_for(TOP / "docs" / "rbac-dra.yaml")

    def call(self, *, check: bool = False, **arguments: Any) -> Dict[str, Any]:
        given = {"nodes": ["gpu"], "topologies": [self.topology], "policy": POLICY, **arguments}
        told = io.StringIO()
        modes = {"_ansible_check_mode": check, "_ansible_diff": True}
        with patch_module_args({"kubeconfig": str(self.ours), **modes, **given}), contextlib.redirect_stdout(told), contextlib.suppress(SystemExit):
            dra_objects.main()
        return dict(json.loads(told.getvalue()))

    def names(self) -> List[str]:
        items = [*self.api.get(f"{API}/deviceclasses")["items"], *self.api.get(f"{API}/namespaces/inference/resourceclaimtemplates")["items"]]
        return sorted(item["metadata"]["name"] for item in items)

    def label(self) -> Any:
        return self.api.get("/api/v1/nodes/gpu")["metadata"]["labels"].get(LABEL)


@pytest.fixture(scope="module")
def site(programs: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    root = tmp_path_factory.mktemp("machine") / "node"
    paper.build(yaml.safe_load((TOP / "inventories" / "demo" / "nodes" / "h100-8gpu-8nic.yml").read_text(encoding="utf-8")), Path(root))
    topology = read_topology(SysRoot(str(root))).to_facts()
    with control_plane() as plane:
        plane.nodes.add("gpu")
        plane.api.post("/api/v1/namespaces", {"metadata": {"name": "inference"}})
        plane.api.post(f"{API}/deviceclasses", GPU_CLASS)
        for item in slices("gpu", topology, "front0"):
            plane.api.post(f"{API}/resourceslices", item)
        yield Site(plane, topology)


OURS = ["dranet-rdma", "dranet-rdma-near-gpu", "gpu-nic", "gpu-nic-tp2", "gpu-nic-tp4", "gpu-nic-tp8"]


def test_check_make_make_again_check_again_change_and_take_away(site: Site) -> None:
    assert not site.call(state="checked")["changed"]
    foretold = site.call(check=True)
    assert foretold["changed"] and site.names() == ["gpu.nvidia.com"] and site.label() is None
    assert len(foretold["diff"]["after"]) == len(OURS) + 1
    made = site.call()
    assert made["changed"] and site.names() == sorted([*OURS, "gpu.nvidia.com"]) and site.label() == "true"
    assert made["objects"][0] == "DeviceClass dranet-rdma" and "ResourceClaimTemplate inference/gpu-nic-tp4" in made["objects"]
    for check in (False, True):
        assert not site.call(check=check)["changed"]

    # A class is changed in place, a template is made anew, one that is no longer wanted goes.
    other = {"dra": {**POLICY["dra"], "uplinks": ["front0", "front1"], "pairs": [1, 2], "network_config": {"interface": {"mtu": 9000}}}}
    changed = site.call(policy=other)
    assert changed["changed"] and site.names() == ["dranet-rdma", "dranet-rdma-near-gpu", "gpu-nic", "gpu-nic-tp2", "gpu.nvidia.com"]
    assert '"front1"' in site.api.get(f"{API}/deviceclasses/dranet-rdma")["spec"]["selectors"][0]["cel"]["expression"]
    config = site.api.get(f"{API}/namespaces/inference/resourceclaimtemplates/gpu-nic")["spec"]["spec"]["devices"]["config"]
    assert config[0]["opaque"]["parameters"] == {"interface": {"mtu": 9000}}
    assert not site.call(policy=other)["changed"]
    assert site.call()["changed"]

    # Nothing is taken away from a claim.
    site.api.post("/api/v1/namespaces/inference/pods", {
        "metadata": {"name": "worker"},
        "spec": {
            "resourceClaims": [{"name": "accel", "resourceClaimTemplateName": "gpu-nic"}],
            "containers": [{"name": "main", "image": "none", "resources": {"claims": [{"name": "accel"}]}}],
        },
    })
    claims = f"{API}/namespaces/inference/resourceclaims"
    until("the claim is allocated", lambda: [item for item in site.api.get(claims)["items"] if item.get("status", {}).get("allocation")])
    refused = site.call(state="absent")
    assert refused["failed"] and len(refused["in_use"]) == 1 and "(pods: worker): pci-0000-19-00-0" in refused["in_use"][0]
    assert site.names() == sorted([*OURS, "gpu.nvidia.com"])
    site.api.delete("/api/v1/namespaces/inference/pods/worker")
    until("the claim is gone", lambda: not site.api.get(claims)["items"])

    assert site.call(state="absent", check=True)["changed"] and site.label() == "true"
    assert site.call(state="absent")["changed"] and site.names() == ["gpu.nvidia.com"] and site.label() is None
    assert not site.call(state="absent")["changed"]


def test_an_object_of_somebody_else_is_refused_and_stays(site: Site) -> None:
    site.api.post(f"{API}/deviceclasses", {"metadata": {"name": "dranet-rdma"}, "spec": {}})
    refused = site.call()
    assert refused["failed"] and "DeviceClass dranet-rdma is there and was made by somebody else" in refused["msg"]
    assert not site.call(state="absent")["changed"]
    site.api.delete(f"{API}/deviceclasses/dranet-rdma")


def test_what_the_account_may_not_do_is_told_with_the_page_that_has_it(site: Site) -> None:
    site.plane.kubectl("delete", "clusterrolebinding", "inferops-locality-dra")
    refused = site.call(state="checked")
    assert refused["status"] == 403 and "docs/rbac-dra.yaml" in refused["msg"]
