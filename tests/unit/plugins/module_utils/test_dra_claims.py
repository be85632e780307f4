# Copyright (c) 2026 The inferops.locality authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which pairs a machine offers, the templates made of them, and the claims that are refused. tests/cluster asks the real scheduler."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from ansible_collections.inferops.locality.plugins.module_utils import dra_claims, policy
from ansible_collections.inferops.locality.plugins.module_utils.dra_claims import ClaimError, check_claim
from ansible_collections.inferops.locality.plugins.module_utils.sysroot import SysRoot
from ansible_collections.inferops.locality.plugins.module_utils.topology import read_topology
from ansible_collections.inferops.locality.plugins.plugin_utils import paper

DEMO = Path(__file__).resolve().parents[4] / "inventories" / "demo" / "nodes"
ROOTS = {"pci0000:15", "pci0000:29", "pci0000:3d", "pci0000:51", "pci0000:97", "pci0000:a9", "pci0000:bd", "pci0000:d1"}


def dra(**given: Any) -> dict[str, Any]:
    return dict(policy.normalise_policy({"dra": {"gpus": "nvidia-dra", **given}})["dra"])


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    """Topologies of the demo's machines, read from their files."""
    found = {}
    for file in sorted(DEMO.glob("*.yml")):
        root = tmp_path_factory.mktemp(file.stem) / "node"
        paper.build(yaml.safe_load(file.read_text(encoding="utf-8")), root)
        found[file.stem] = read_topology(SysRoot(str(root))).to_facts()
    return found


def device(kind: str, address: str, root: str | None, node: int | None, **more: Any) -> dict[str, Any]:
    return {
        "address": address, "kind": kind, "pcie_root": root, "numa_node": node, "physfn": None, "rdma": [f"mlx5_{address[5:7]}"] if kind == "nic" else [],
        "interfaces": [], **more,
    }


def data_direct() -> dict[str, Any]:
    """Two GPUs and two NICs in each NUMA node, each on a root of its own, as on machines whose NIC shows its Data Direct function elsewhere."""
    devices = [
        device(kind, f"000{node}:{number}{offset}:00.0", f"pci000{node}:{number}{offset}", node)
        for node in (0, 1) for number in (1, 2) for offset, kind in enumerate(("gpu", "nic"))
    ]
    return {"devices": devices}


# -- capacity ---------------------------------------------------------------------------------------------------------


def test_each_gpu_of_eight_has_a_nic_of_its_own(demo: dict[str, Any]) -> None:
    offered = dra_claims.capacity(demo["h100-8gpu-8nic"], dra())
    assert offered["level"] == "pcie_root" and offered["pairs"] == 8 and offered["gpus_alone"] == []
    assert {root for root, place in offered["roots"].items() if place["pairs"]} == ROOTS


def test_two_gpus_behind_one_nic_are_one_pair_and_the_far_ones_none(demo: dict[str, Any]) -> None:
    offered = dra_claims.capacity(demo["h100-sxm-4gpu"], dra())
    assert offered["pairs"] == 1 and offered["gpus_alone"] == ["0000:9a:00.0", "0000:9b:00.0"]


def test_a_machine_without_gpus_offers_nothing_and_says_nothing(demo: dict[str, Any]) -> None:
    assert dra_claims.capacity(demo["cpu-snc2-cxl"], dra())["level"] is None
    assert dra_claims.templates(demo["cpu-snc2-cxl"], dra()) == ({}, [])


def test_an_uplink_is_no_nic_to_give_away(demo: dict[str, Any]) -> None:
    assert dra_claims.capacity(demo["h100-8gpu-8nic"], dra(uplinks=["fab0"]))["pairs"] == 7


def test_virtual_functions_and_unknown_places_are_no_pairs() -> None:
    devices = [device("gpu", "0000:18:00.0", "pci0000:15", 0), device("nic", "0000:19:00.1", "pci0000:15", 0, physfn="0000:19:00.0")]
    assert dra_claims.capacity({"devices": devices}, dra())["level"] is None
    devices[1] = device("nic", "0000:19:00.0", None, None)
    offered = dra_claims.capacity({"devices": devices}, dra())
    assert offered["level"] is None and offered["gpus_alone"] == ["0000:18:00.0"]


# -- templates --------------------------------------------------------------------------------------------------------


def test_pairs_have_one_constraint_each(demo: dict[str, Any]) -> None:
    made, found = dra_claims.templates(demo["h100-8gpu-8nic"], dra())
    assert list(made) == ["gpu-nic", "gpu-nic-tp2", "gpu-nic-tp4", "gpu-nic-tp8"] and found == []
    devices = made["gpu-nic-tp4"]["devices"]
    assert [request["name"] for request in devices["requests"]] == ["gpu0", "nic0", "gpu1", "nic1", "gpu2", "nic2", "gpu3", "nic3"]
    assert devices["constraints"] == [{"requests": [f"gpu{n}", f"nic{n}"], "matchAttribute": "resource.kubernetes.io/pcieRoot"} for n in range(4)]


def test_no_template_asks_for_more_pairs_than_the_machine_has(demo: dict[str, Any]) -> None:
    made, found = dra_claims.templates(demo["h100-sxm-4gpu"], dra())
    assert list(made) == ["gpu-nic"]
    assert [(item["id"], item["severity"]) for item in found] == [("dra.gpus_alone", "note"), ("dra.no_template", "note")]
    assert "no template for 2, 4, 8 pairs: this machine has 1" in found[1]["message"]


def test_where_the_root_cannot_match_the_numa_node_is_taken_and_said() -> None:
    made, found = dra_claims.templates(data_direct(), dra(pairs=[1, 2]))
    assert list(made) == ["gpu-nic-numa0", "gpu-nic-numa1", "gpu-nic-tp2-numa0", "gpu-nic-tp2-numa1"]
    assert found[0]["id"] == "dra.root_cannot_match" and "pci0000:10, pci0000:20, pci0001:10, pci0001:20, RDMA NICs on pci0000:11" in found[0]["message"]
    gpu, nic = made["gpu-nic-numa1"]["devices"]["requests"]
    assert '["pci0001:10", "pci0001:20"]' in gpu["exactly"]["selectors"][0]["cel"]["expression"]
    assert "numaNode.orValue(-1) == 1" in nic["exactly"]["selectors"][0]["cel"]["expression"]
    assert "constraints" not in made["gpu-nic-numa1"]["devices"], "no attribute of a GPU names its NUMA node"


def test_the_operator_may_insist_on_the_root() -> None:
    made, found = dra_claims.templates(data_direct(), dra(align="pcie_root"))
    assert made == {} and [(item["id"], item["severity"]) for item in found] == [("dra.no_pairs", "error")]


def test_gpus_of_the_device_plugin_are_in_no_template(demo: dict[str, Any]) -> None:
    made, found = dra_claims.templates(demo["h100-8gpu-8nic"], dra(gpus="device-plugin"))
    requests = [request for spec in made.values() for request in spec["devices"]["requests"]]
    assert {request["exactly"]["deviceClassName"] for request in requests} == {"dranet-rdma-near-gpu"}
    assert "dra.gpus_of_device_plugin" in [item["id"] for item in found]


def test_the_interfaces_of_several_nics_have_names_of_their_own(demo: dict[str, Any]) -> None:
    made, _found = dra_claims.templates(demo["h100-8gpu-8nic"], dra(network_config={"interface": {"name": "rdma0", "mtu": 9000}}))
    assert made["gpu-nic"]["devices"]["config"][0]["opaque"]["parameters"]["interface"] == {"name": "rdma0", "mtu": 9000}
    configs = made["gpu-nic-tp2"]["devices"]["config"]
    assert [(item["requests"], item["opaque"]["parameters"]["interface"]["name"]) for item in configs] == [(["nic0"], "rdma0"), (["nic1"], "rdma1")]


def test_one_address_for_several_nics_is_an_error(demo: dict[str, Any]) -> None:
    made, found = dra_claims.templates(demo["h100-8gpu-8nic"], dra(pairs=[1, 2], network_config={"interface": {"addresses": ["192.0.2.7/24"]}}))
    assert list(made) == ["gpu-nic"] and "all of them would have the same address" in found[0]["message"]


@pytest.mark.parametrize("api", dra_claims.API_VERSIONS)
@pytest.mark.parametrize("gpus", ["nvidia-dra", "device-plugin"])
def test_templates_have_the_shape_of_each_version(demo: dict[str, Any], reference: Path, api: str, gpus: str) -> None:
    schema = json.loads((reference / "data" / "schemas" / f"dra-claim.{api}.schema.json").read_text(encoding="utf-8"))
    config = {"interface": {"name": "rdma0", "mtu": 9000, "gsoMaxSize": 196608}, "routes": [{"destination": "0.0.0.0/0", "gateway": "192.0.2.1"}]}
    parameters = json.loads((reference / "data" / "schemas" / "dranet-networkconfig.schema.json").read_text(encoding="utf-8"))
    checked = 0
    for topology in (*demo.values(), data_direct()):
        chosen = dra(gpus=gpus, network_config=config)
        made, _found = dra_claims.templates(topology, chosen)
        for item in dra_claims.objects(made, chosen, ROOTS, ["inference"], api):
            assert item["apiVersion"] == f"resource.k8s.io/{api}"
            if item["kind"] == "ResourceClaimTemplate":
                jsonschema.validate(item, schema)
                for entry in item["spec"]["spec"]["devices"].get("config", []):
                    jsonschema.validate(entry["opaque"]["parameters"], parameters)
                assert check_claim(item) == [], "what is made here is not refused here"
                checked += 1
    assert checked >= 4


@pytest.mark.parametrize(
    ("served", "version"),
    [
        (["resource.k8s.io/v1", "resource.k8s.io/v1beta1"], "v1"), (["apps/v1", "resource.k8s.io/v1beta1", "resource.k8s.io/v1beta2"], "v1beta2"),
        (["v1beta1"], "v1beta1"),
    ],
)
def test_the_newest_version_that_is_served_is_taken(served: list[str], version: str) -> None:
    assert dra_claims.api_version(served) == version


@pytest.mark.parametrize("served", [[], ["apps/v1"], ["resource.k8s.io/v1alpha3"]])
def test_a_cluster_without_the_api_is_refused(served: list[str]) -> None:
    with pytest.raises(ClaimError, match=r"Kubernetes 1\.34 serves v1"):
        dra_claims.api_version(served)


# -- claims that are refused ------------------------------------------------------------------------------------------


def claim(*requests: dict[str, Any], constraints: list[dict[str, Any]], config: list[dict[str, Any]] | None = None, api: str = "v1") -> dict[str, Any]:
    devices: dict[str, Any] = {"requests": list(requests), "constraints": constraints}
    return {
        "apiVersion": f"resource.k8s.io/{api}", "kind": "ResourceClaimTemplate", "metadata": {"name": "x"},
        "spec": {"spec": {"devices": {**devices, **({"config": config} if config else {})}}},
    }


def asks(name: str, device_class: str, **more: Any) -> dict[str, Any]:
    return {"name": name, "exactly": {"deviceClassName": device_class, **more}}


GPU, NIC = asks("gpu", "gpu.nvidia.com"), asks("nic", "dranet-rdma")
ROOT = {"requests": ["gpu", "nic"], "matchAttribute": "resource.kubernetes.io/pcieRoot"}
# The template that is passed around: one request, aligned with itself, by an attribute that nobody publishes; the GPU is the device plugin's.
BROKEN = claim(NIC, constraints=[{"matchAttribute": "dra.net/pcieRoot"}])
POD = {"spec": {"containers": [{"name": "main", "resources": {"limits": {"nvidia.com/gpu": 1}, "claims": [{"name": "nic"}]}}]}}


def test_a_right_claim_has_no_findings(reference: Path) -> None:
    assert check_claim(claim(GPU, NIC, constraints=[ROOT])) == []
    for name in ("claim-gpu-nic-v1.yaml", "claim-gpu-nic-v1beta1.yaml"):
        assert check_claim(yaml.safe_load((reference / "data" / "examples" / name).read_text(encoding="utf-8"))) == [], name


def test_the_broken_template_is_refused_for_each_of_its_faults() -> None:
    found = {item["id"]: item for item in check_claim(BROKEN, pod=POD)}
    assert set(found) == {"dra.no_such_attribute", "dra.gpu_not_in_claim"}
    assert found["dra.no_such_attribute"]["hint"] == "write resource.kubernetes.io/pcieRoot"
    assert "main: nvidia.com/gpu" in found["dra.gpu_not_in_claim"]["message"]
    mended = copy.deepcopy(BROKEN)
    mended["spec"]["spec"]["devices"]["constraints"][0]["matchAttribute"] = "resource.kubernetes.io/pcieRoot"
    told = {item["id"]: item for item in check_claim(mended)}
    assert set(told) == {"dra.aligned_with_itself", "dra.gpu_not_in_claim"}
    assert "requests: [gpu, nic]" in told["dra.aligned_with_itself"]["hint"]
    assert "exactly: {deviceClassName: gpu.nvidia.com}" in told["dra.gpu_not_in_claim"]["hint"]


REFUSED: list[tuple[dict[str, Any], str, str]] = [
    (claim(GPU, NIC, constraints=[{"requests": ["gpu", "net"], "matchAttribute": "resource.kubernetes.io/pcieRoot"}]), "dra.no_such_request",
     "there is no request net, found gpu, nic"),
    (claim(GPU, NIC, constraints=[{"requests": ["gpu"], "matchAttribute": "resource.kubernetes.io/pcieRoot"}]), "dra.aligned_with_itself", "request gpu"),
    (claim(GPU, NIC, constraints=[{"matchAttribute": "pcieRoot"}]), "dra.no_such_attribute", "wanted an attribute with its domain"),
    (claim(GPU, NIC, constraints=[{"matchAttribute": "gpu.nvidia.com/index"}]), "dra.no_such_attribute", "no driver publishes gpu.nvidia.com/index"),
    (claim(GPU, NIC, constraints=[{"matchAttribute": "dra.net/numaNode"}]), "dra.one_driver_only", "only devices of one driver have dra.net/numaNode"),
    (claim(asks("gpu", "gpu.nvidia.com", count=2), asks("nic", "dranet-rdma", count=2), constraints=[ROOT]), "dra.all_on_one_root", "all 4 devices"),
    (claim({"name": "gpu", "deviceClassName": "gpu.nvidia.com"}, NIC, constraints=[ROOT]), "dra.claim_shape", "v1 wants them below exactly"),
    (claim(GPU, NIC, constraints=[ROOT], api="v1beta1"), "dra.claim_shape", "requests[0]: v1beta1 knows no exactly"),
    (claim(GPU, NIC, constraints=["root"]), "dra.claim_shape", "constraints: found 'root', wanted a list of mappings"),  # type: ignore[list-item]
    (claim({"name": "gpu", "firstAvailable": ["x"]}, NIC, constraints=[]), "dra.claim_shape", "firstAvailable a list of mappings"),
    (claim(GPU, NIC, constraints=[ROOT], api="v1alpha3"), "dra.claim_shape", "apiVersion: found 'resource.k8s.io/v1alpha3'"),
    (claim(NIC, asks("other", "dranet-rdma"), constraints=[{"requests": ["nic", "other"], "matchAttribute": "resource.kubernetes.io/pcieRoot"}]),
     "dra.gpu_not_in_claim", "no request of the claim asks for a GPU"),
    (claim(GPU, NIC, constraints=[ROOT], config=[{"requests": ["nic"], "opaque": {"driver": "dra.net", "parameters": {"interface": {"mtus": 9000}}}}]),
     "dra.network_config", "config[0].opaque.parameters.interface.mtus: unknown key"),
    (claim(GPU, NIC, constraints=[ROOT], config=[{"opaque": {"driver": "dra.net", "parameters": {}}}]), "dra.network_config", "the request gpu too"),
]


@pytest.mark.parametrize(("wrong", "id", "message"), REFUSED)
def test_a_wrong_claim_is_told_what_is_wrong(wrong: dict[str, Any], id: str, message: str) -> None:
    found = [item for item in check_claim(wrong) if item["id"] == id]
    assert found and message in found[0]["message"], check_claim(wrong)
    assert found[0]["hint"] or "mappings" in message or "network_config" in id


def test_alternatives_are_requests_that_a_constraint_may_name() -> None:
    classes = {"big": "gpu.nvidia.com", "part": "mig.nvidia.com"}
    either = {"name": "gpu", "firstAvailable": [{"name": name, "deviceClassName": value} for name, value in classes.items()]}
    assert check_claim(claim(either, NIC, constraints=[ROOT])) == []
    assert check_claim(claim(either, NIC, constraints=[{**ROOT, "requests": ["gpu/big", "nic"]}])) == []
    assert check_claim(claim(either, NIC, constraints=[{**ROOT, "requests": ["gpu/none", "nic"]}]))[0]["id"] == "dra.no_such_request"


@pytest.mark.parametrize("value", [None, {"kind": "Pod"}, {"kind": "ResourceClaimTemplate", "spec": {"devices": {}}}, []])
def test_what_is_no_claim_is_an_error(value: Any) -> None:
    with pytest.raises(ClaimError):
        check_claim(value)


# -- what is free -----------------------------------------------------------------------------------------------------


def published(driver: str, *devices: tuple[str, str | None, bool]) -> dict[str, Any]:
    made = []
    for name, root, rdma in devices:
        attributes: dict[str, Any] = {"dra.net/rdma": {"bool": rdma}} if driver == "dra.net" else {}
        made.append({"name": name, "attributes": {**attributes, **({"resource.kubernetes.io/pcieRoot": {"string": root}} if root else {})}})
    return {"spec": {"driver": driver, "nodeName": "a", "pool": {"name": "a"}, "devices": made}}


def holds(*devices: tuple[str, str], **more: Any) -> dict[str, Any]:
    results = [{"driver": driver, "pool": "a", "device": device, **more} for driver, device in devices]
    return {"metadata": {"namespace": "x", "name": "y"}, "status": {"allocation": {"devices": {"results": results}}}}


SLICES = [
    published("gpu.nvidia.com", ("gpu-0", "pci0000:15", True), ("gpu-1", "pci0000:97", True)),
    published("dra.net", ("nic-0", "pci0000:15", True), ("nic-1", "pci0000:29", True), ("slow", "pci0000:97", False)),
    published("other.example.com", ("x", "pci0000:15", True)),
]
PAIR = {"devices": {"requests": [GPU, NIC], "constraints": [ROOT]}}


def test_free_devices_are_counted_by_root() -> None:
    assert dra_claims.free_devices(SLICES, []) == {"a": {"gpus": {"pci0000:15": 1, "pci0000:97": 1}, "nics": {"pci0000:15": 1, "pci0000:29": 1}}}
    assert dra_claims.free_devices(SLICES, [holds(("dra.net", "nic-0"))])["a"]["nics"] == {"pci0000:29": 1}
    assert dra_claims.free_devices(SLICES, [holds(("dra.net", "nic-0"), adminAccess=True)])["a"]["nics"] == {"pci0000:15": 1, "pci0000:29": 1}


@pytest.mark.parametrize(
    ("spec", "claims", "said"),
    [
        (PAIR, [], "a: there are devices for it, unless a selector of its requests excludes them; free GPUs: pci0000:15 (1), pci0000:97 (1);"),
        (PAIR, [holds(("dra.net", "nic-0"))],
         "a: no PCIe root has both a free GPU and a free RDMA NIC; free GPUs: pci0000:15 (1), pci0000:97 (1); free NICs: pci0000:29"),
        ({"devices": {"requests": [GPU, NIC], "constraints": [ROOT, ROOT]}}, [], "a: 1 pairs are left on one PCIe root each, the claim wants 2"),
        ({"devices": {"requests": [GPU, GPU, GPU]}}, [], "a: 2 GPUs are free, the claim wants 3"),
    ],
)
def test_what_is_pending_is_explained(spec: dict[str, Any], claims: list[dict[str, Any]], said: str) -> None:
    (line,) = dra_claims.why_pending(spec, SLICES, claims)
    assert line.startswith(said)
