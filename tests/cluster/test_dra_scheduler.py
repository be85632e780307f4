# Copyright (c) 2026 The inferops.locality authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Claims on the real scheduler: ResourceSlices of the demo's machines as the drivers publish them, and what kube-scheduler gives for which claim.

Every test has nodes of its own, so that no claim has to be given back first.
"""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any, Dict, Iterator, List, Optional

import pytest
import yaml

from ansible_collections.inferops.locality.plugins.module_utils import dra_claims, policy
from ansible_collections.inferops.locality.plugins.module_utils.sysroot import SysRoot
from ansible_collections.inferops.locality.plugins.module_utils.topology import read_topology
from ansible_collections.inferops.locality.plugins.plugin_utils import paper
from controlplane import ApiError, ControlPlane, control_plane
from dra_slices import GPU_CLASS, slices
from turns import TOP, until

API = "/apis/resource.k8s.io/v1"
UPLINK = {"h100-8gpu-8nic": "front0"}
DRA: Dict[str, Any] = dict(policy.normalise_policy({"dra": {"gpus": "nvidia-dra", "uplinks": ["front0", "front1"]}})["dra"])
ALL_VERSIONS = ",".join(f"resource.k8s.io/{version}=true" for version in dra_claims.API_VERSIONS)


class Dra:
    """A control plane with the topologies of the demo. :ivar machines: topology by name."""

    def __init__(self, plane: ControlPlane, machines: Dict[str, Any]) -> None:
        self.plane, self.api, self.machines = plane, plane.api, machines

    def node(self, name: str, machine: str) -> Dict[str, Any]:
        """A node with the slices of a machine; returns the topology."""
        self.plane.nodes.add(name)
        for item in slices(name, self.machines[machine], UPLINK.get(machine)):
            self.api.post(f"{API}/resourceslices", item)
        return dict(self.machines[machine])

    def namespace(self, name: str, topology: Optional[Dict[str, Any]] = None) -> None:
        """A namespace with the templates of a machine."""
        self.api.post("/api/v1/namespaces", {"metadata": {"name": name}})
        until("the namespace has its service account", lambda: exists(self.api, f"/api/v1/namespaces/{name}/serviceaccounts/default"))
        if topology:
            made, _found = dra_claims.templates(topology, DRA)
            for item in dra_claims.objects(made, DRA, [], [name], "v1"):
                if item["kind"] == "ResourceClaimTemplate":
                    self.template(name, item["metadata"]["name"], item["spec"]["spec"])

    def template(self, namespace: str, name: str, spec: Dict[str, Any]) -> None:
        self.api.post(f"{API}/namespaces/{namespace}/resourceclaimtemplates", {"metadata": {"name": name}, "spec": {"spec": spec}})

    def pod(self, namespace: str, name: str, template: str, node: str) -> None:
        self.api.post(f"/api/v1/namespaces/{namespace}/pods", {
            "metadata": {"name": name},
            "spec": {
                "nodeSelector": {"kubernetes.io/hostname": node}, "resourceClaims": [{"name": "accel", "resourceClaimTemplateName": template}],
                "containers": [{"name": "main", "image": "none", "resources": {"claims": [{"name": "accel"}]}}],
            },
        })

    def claims(self, namespace: str) -> List[Dict[str, Any]]:
        return list(self.api.get(f"{API}/namespaces/{namespace}/resourceclaims")["items"])

    def allocated(self, namespace: str, pods: int) -> Dict[str, Dict[str, str]]:
        """Of each pod that runs ``request → address of its device``, when so many have their devices."""
        def given() -> Optional[Dict[str, Dict[str, str]]]:
            found = {}
            for claim in self.claims(namespace):
                results = claim.get("status", {}).get("allocation", {}).get("devices", {}).get("results")
                if results:
                    pod = claim["metadata"]["ownerReferences"][0]["name"]
                    found[pod] = {item["request"]: self.address(item) for item in results}
            return found if len(found) >= pods else None
        return dict(until(f"{pods} claims are allocated", given))

    def address(self, result: Dict[str, Any]) -> str:
        devices = self.api.get(f"{API}/resourceslices/{result['pool']}-{result['driver']}")["spec"]["devices"]
        attributes = next(device["attributes"] for device in devices if device["name"] == result["device"])
        name = "dra.net/pciAddress" if result["driver"] == "dra.net" else "resource.kubernetes.io/pciBusID"
        return str(attributes[name]["string"])

    def pending(self, namespace: str, name: str) -> str:
        """Why the scheduler does not place a pod, in its words."""
        def told() -> str:
            pod = self.api.get(f"/api/v1/namespaces/{namespace}/pods/{name}")
            condition = next((item for item in pod.get("status", {}).get("conditions", []) if item["type"] == "PodScheduled"), {})
            return str(condition.get("message") or "") if condition.get("reason") == "Unschedulable" else ""
        return str(until(f"the scheduler says why {name} is pending", told))

    def explained(self, namespace: str, template: str, node: str) -> str:
        spec = self.api.get(f"{API}/namespaces/{namespace}/resourceclaimtemplates/{template}")["spec"]["spec"]
        every = self.api.get(f"{API}/resourceclaims")["items"]
        lines = dra_claims.why_pending(spec, self.api.get(f"{API}/resourceslices")["items"], every, DRA["gpu_class"])
        return next(line for line in lines if line.startswith(f"{node}: "))


def exists(api: Any, path: str) -> bool:
    try:
        return bool(api.get(path))
    except ApiError as error:
        if error.code not in (404, 429):
            raise
        return False


def data_direct(machine: Dict[str, Any]) -> Dict[str, Any]:
    """The same machine with each NIC on a root of its own, as with Data Direct functions: the NUMA nodes stay."""
    made = copy.deepcopy(machine)
    for index, device in enumerate(item for item in made["devices"] if item["kind"] == "nic"):
        device["pcie_root"] = f"pci0001:{index:02x}"
    return made


@pytest.fixture(scope="module")
def dra(programs: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Dra]:
    machines = {}
    for file in sorted((TOP / "inventories" / "demo" / "nodes").glob("h100-*.yml")):
        root = tmp_path_factory.mktemp("machine") / "node"
        paper.build(yaml.safe_load(file.read_text(encoding="utf-8")), Path(root))
        machines[file.stem] = read_topology(SysRoot(str(root))).to_facts()
    machines["data-direct"] = data_direct(machines["h100-8gpu-8nic"])
    with control_plane(arguments={"kube-apiserver": [f"--runtime-config={ALL_VERSIONS}"]}) as plane:
        running = Dra(plane, machines)
        roots = {root for machine in machines.values() for root, place in dra_claims.capacity(machine, DRA)["roots"].items() if place["gpus"]}
        for item in [GPU_CLASS, *dra_claims.device_classes(DRA, roots)]:
            plane.api.post(f"{API}/deviceclasses", item)
        running.namespace("shapes")
        yield running


def roots_of(topology: Dict[str, Any]) -> Dict[str, str]:
    return {device["address"]: device["pcie_root"] for device in topology["devices"]}


def aligned(devices: Dict[str, str], topology: Dict[str, Any]) -> int:
    """How many of the pairs gpuN, nicN share a root."""
    roots = roots_of(topology)
    return sum(roots[devices[name]] == roots[devices[name.replace("gpu", "nic")]] for name in devices if name.startswith("gpu"))


@pytest.mark.parametrize(("machine", "pairs"), [("h100-8gpu-8nic", 8), ("h100-sxm-4gpu", 1)])
def test_every_claim_has_gpu_and_nic_on_one_root_until_there_is_no_pair_left(dra: Dra, machine: str, pairs: int) -> None:
    name = f"pairs-{machine}"
    topology = dra.node(name, machine)
    dra.namespace(name, topology)
    assert dra_claims.capacity(topology, DRA)["pairs"] == pairs
    for index in range(pairs + 1):
        dra.pod(name, f"p{index}", "gpu-nic", name)
    given = dra.allocated(name, pairs)
    assert all(aligned(devices, topology) == 1 for devices in given.values()), given
    assert len({devices["gpu"] for devices in given.values()}) == pairs
    (left,) = {f"p{index}" for index in range(pairs + 1)} - set(given)
    assert "cannot allocate all claims" in dra.pending(name, left)
    assert len(dra.allocated(name, pairs)) == pairs, "the one that is pending stays so"
    said = dra.explained(name, "gpu-nic", name)
    if machine == "h100-sxm-4gpu":
        # Three GPUs are free, two of them far from every NIC, and the only NIC is taken.
        assert said.startswith(f"{name}: no PCIe root has both a free GPU and a free RDMA NIC; free GPUs: ") and "free NICs: none" in said
    else:
        assert "free GPUs: none" in said and "free NICs: pci0000:e5 (1)" in said


@pytest.mark.parametrize("count", [2, 4, 8])
def test_the_pairs_of_tensor_parallelism_are_aligned_one_by_one(dra: Dra, count: int) -> None:
    name = f"tp{count}"
    topology = dra.node(name, "h100-8gpu-8nic")
    dra.namespace(name, topology)
    for index in range(8 // count):
        dra.pod(name, f"p{index}", f"gpu-nic-tp{count}", name)
    given = dra.allocated(name, 8 // count)
    assert [aligned(devices, topology) for devices in given.values()] == [count] * (8 // count), given


def test_one_constraint_for_all_of_a_claim_is_never_met(dra: Dra) -> None:
    topology = dra.node("all-on-one", "h100-8gpu-8nic")
    dra.namespace("all-on-one", topology)
    spec = dra_claims.templates(topology, DRA)[0]["gpu-nic-tp2"]
    spec["devices"]["constraints"] = [{"matchAttribute": dra_claims.PCIE_ROOT}]
    dra.template("all-on-one", "four", spec)
    dra.pod("all-on-one", "p", "four", "all-on-one")
    assert "cannot allocate all claims" in dra.pending("all-on-one", "p")


def test_the_template_that_is_passed_around_stays_pending_and_is_refused_by_us(dra: Dra) -> None:
    topology = dra.node("broken", "h100-8gpu-8nic")
    dra.namespace("broken", topology)
    spec = {"devices": {
        "requests": [{"name": "nic", "exactly": {"deviceClassName": "dranet-rdma"}}],
        "constraints": [{"requests": ["nic"], "matchAttribute": "dra.net/pcieRoot"}],
    }}
    dra.template("broken", "blog", spec)
    dra.pod("broken", "p", "blog", "broken")
    assert "cannot allocate all claims" in dra.pending("broken", "p")
    found = dra_claims.check_claim({"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaimTemplate", "spec": {"spec": spec}})
    assert {item["id"] for item in found} == {"dra.no_such_attribute", "dra.gpu_not_in_claim"}


def test_without_a_constraint_a_pair_is_aligned_by_luck_only(dra: Dra) -> None:
    """The baseline: GPUs and NICs are taken in the order of their slices. One NIC that somebody else has shifts all that come after it."""
    topology = dra.node("baseline", "h100-8gpu-8nic")
    dra.namespace("baseline", topology)
    spec = dra_claims.templates(topology, DRA)[0]["gpu-nic"]
    dra.template("baseline", "nic-alone", {"devices": {"requests": [spec["devices"]["requests"][1]]}})
    dra.template("baseline", "unaligned", {"devices": {"requests": spec["devices"]["requests"]}})
    dra.pod("baseline", "storage", "nic-alone", "baseline")
    dra.allocated("baseline", 1)
    for index in range(4):
        dra.pod("baseline", f"p{index}", "unaligned", "baseline")
    given = dra.allocated("baseline", 5)
    assert sum(aligned(devices, topology) for name, devices in given.items() if name != "storage") == 0, given
    # With the constraint the same node still gives pairs.
    dra.pod("baseline", "constrained", "gpu-nic", "baseline")
    assert aligned(dra.allocated("baseline", 6)["constrained"], topology) == 1


def test_where_no_root_matches_the_templates_of_the_numa_nodes_do(dra: Dra) -> None:
    topology = dra.node("data-direct", "data-direct")
    dra.namespace("data-direct", topology)
    dra.template("data-direct", "by-root", dra_claims.templates(dra.machines["h100-8gpu-8nic"], DRA)[0]["gpu-nic"])
    dra.pod("data-direct", "root", "by-root", "data-direct")
    assert "cannot allocate all claims" in dra.pending("data-direct", "root")
    assert "no PCIe root has both" in dra.explained("data-direct", "by-root", "data-direct")
    for node in ("0", "1"):
        dra.pod("data-direct", f"numa{node}", f"gpu-nic-tp4-numa{node}", "data-direct")
    given = dra.allocated("data-direct", 2)
    places = {device["address"]: device["numa_node"] for device in topology["devices"]}
    for node in (0, 1):
        assert {places[address] for address in given[f"numa{node}"].values()} == {node}


def test_the_uplink_is_given_to_nobody(dra: Dra) -> None:
    """DRANET leaves out the interface with the default route, and the DeviceClass those that the policy names."""
    topology = dra.node("uplink", "h100-8gpu-8nic")
    dra.namespace("uplink", topology)
    request = {"name": "nic", "exactly": {"deviceClassName": "dranet-rdma", "allocationMode": "All"}}
    dra.template("uplink", "all-nics", {"devices": {"requests": [request]}})
    dra.pod("uplink", "p", "all-nics", "uplink")

    def given() -> List[str]:
        results = [item for claim in dra.claims("uplink") for item in claim.get("status", {}).get("allocation", {}).get("devices", {}).get("results", [])]
        return sorted(dra.address(item) for item in results)

    until("the claim is allocated", given)
    uplinks = {"front0", "front1"}
    assert given() == sorted(
        device["address"] for device in topology["devices"] if device["kind"] == "nic" and not uplinks & {item["name"] for item in device["interfaces"]}
    )


@pytest.mark.parametrize("api", dra_claims.API_VERSIONS)
def test_the_api_server_takes_the_objects_of_each_version_that_it_serves(dra: Dra, api: str) -> None:
    chosen = {**DRA, "network_config": {"interface": {"name": "rdma0", "mtu": 9000}}, "nic_class": f"nic-{api}"}
    made, _found = dra_claims.templates(dra.machines["h100-8gpu-8nic"], chosen)
    for item in dra_claims.objects(made, chosen, ["pci0000:15"], ["shapes"], api):
        place = "deviceclasses" if item["kind"] == "DeviceClass" else "namespaces/shapes/resourceclaimtemplates"
        stored = dra.api.post(f"/apis/resource.k8s.io/{api}/{place}", item, dryRun="All", fieldValidation="Strict")
        assert stored["metadata"]["name"] == item["metadata"]["name"]
