# Copyright (c) 2026 The inferops.locality authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Dynamic resource allocation: which GPUs and NICs of a node make pairs, the claim templates that get them, and what is wrong with a claim.

DRANET publishes the NICs, NVIDIA's DRA driver the GPUs. What both publish is ``resource.kubernetes.io/pcieRoot``, the host bridge of a device
(``pci0000:15``), so that PHB and nearer can be matched and NODE cannot. GPUs have no NUMA node there: where no GPU shares a host bridge with a NIC, as with
ConnectX-8's Data Direct function, the pairs of a NUMA node are chosen by selectors made from the topology.

A device without the attribute of a constraint is never eligible, and a constraint on one device says nothing: both leave a claim pending or unaligned
without a word. ``check_claim`` finds these before the scheduler is asked.
"""

from __future__ import annotations

import copy
import re
from typing import Any, Dict, Iterable, List, Mapping, Optional, Sequence, Tuple

from ansible_collections.inferops.locality.plugins.module_utils import dranet_config
from ansible_collections.inferops.locality.plugins.module_utils import findings as findings_m

__all__ = [
    "API_VERSIONS", "DRANET", "GPU_CLASSES", "GPU_DRIVER", "MANAGED_BY", "PCIE_ROOT", "ClaimError", "api_version", "attribute", "capacity", "check_claim",
    "device_classes", "free_devices", "near_class", "nic_roots", "objects", "shaped", "templates", "why_pending",
]

GROUP = "resource.k8s.io"
# Newest first: the shape that the cluster's own documentation shows.
API_VERSIONS: Tuple[str, ...] = ("v1", "v1beta2", "v1beta1")
DRANET = "dra.net"
# The driver of all of these classes.
GPU_DRIVER = "gpu.nvidia.com"
GPU_CLASSES: Tuple[str, ...] = ("gpu.nvidia.com", "mig.nvidia.com", "vfio.gpu.nvidia.com")
MANAGED_BY = {"app.kubernetes.io/managed-by": "inferops.locality"}

PCIE_ROOT = "resource.kubernetes.io/pcieRoot"
# What the drivers publish (DRANET v1.4.0, dra-driver-nvidia-gpu 0.5): a constraint on anything else is never met.
_STANDARD = ("pcieRoot", "pciBusID", "numaNode")
_DRANET_ATTRIBUTES = (
    "ifName", "pciAddress", "mac", "pciVendor", "pciDevice", "pciSubsystem", "numaNode", "mtu", "encapsulation", "alias", "state", "type", "ipv4", "ipv6",
    "tcFilterNames", "tcxProgramNames", "ebpf", "sriov", "sriovVfs", "isSriovVf", "virtual", "rdma", "rdmaDevice",
)
_GPU_ATTRIBUTES = (
    "type", "uuid", "productName", "brand", "architecture", "cudaComputeCapability", "driverVersion", "cudaDriverVersion", "addressingMode", "numa",
)
_PUBLISHED = {"resource.kubernetes.io": _STANDARD, DRANET: _DRANET_ATTRIBUTES, "gpu.nvidia.com": _GPU_ATTRIBUTES}
# A claim has at most 32 requests, and a pair takes two.
MOST_PAIRS = 16
_FLAT = ("deviceClassName", "selectors", "allocationMode", "count", "adminAccess", "tolerations", "capacity")


class ClaimError(ValueError):
    """Something that is no claim, or a cluster that serves no API for them."""


def api_version(served: Iterable[str]) -> str:
    """The newest version of the API that a cluster serves and that is known here.

    :param served: what the API server lists, ``resource.k8s.io/v1`` or ``v1``.
    :raises ClaimError: none.
    """
    names = {str(name).rsplit("/", 1)[-1] for name in served if "/" not in str(name) or str(name).startswith(f"{GROUP}/")}
    for version in API_VERSIONS:
        if version in names:
            return version
    raise ClaimError(
        f"the API server serves {', '.join(sorted(names)) or 'nothing'} of {GROUP}, wanted {', '.join(API_VERSIONS)}: "
        "Kubernetes 1.34 serves v1, 1.32 and 1.33 serve a beta only where it was turned on"
    )


# -- what a node offers -----------------------------------------------------------------------------------------------


def _gpus(topology: Mapping[str, Any]) -> List[Mapping[str, Any]]:
    return [device for device in topology.get("devices") or [] if device.get("kind") == "gpu" and not device.get("physfn")]


def _nics(topology: Mapping[str, Any], uplinks: Sequence[str]) -> List[Mapping[str, Any]]:
    """NICs with RDMA that may be given to pods; virtual functions are not counted beside their NIC."""
    return [
        device for device in topology.get("devices") or []
        if device.get("kind") in ("nic", "rdma") and device.get("rdma") and not device.get("physfn")
        and not any(interface.get("name") in uplinks for interface in device.get("interfaces") or [])
    ]


def nic_roots(topology: Mapping[str, Any], uplinks: Sequence[str]) -> Dict[str, Optional[str]]:
    """The NICs that DRANET is to publish as RDMA devices: ``address → PCIe root``, null where the kernel does not tell it."""
    return {str(device["address"]): device.get("pcie_root") for device in sorted(_nics(topology, uplinks), key=lambda device: str(device["address"]))}


def capacity(topology: Mapping[str, Any], dra: Mapping[str, Any]) -> Dict[str, Any]:
    """How many GPUs of a node get a NIC of their own, by host bridge and by NUMA node.

    :param topology: ``ansible_facts.numa_topology``. :param dra: ``dra`` of the normalised policy.
    :returns: ``{roots: {ROOT: {numa_node, gpus: [address], nics: [address], pairs}}, numa_nodes: {"0": {gpus, nics, pairs}}, pairs, level,
        gpus_alone: [address]}``. ``level`` is what pairs are matched by, ``pcie_root``, ``numa_node`` or null where no GPU gets a NIC;
        ``pairs`` is their number at that level, and ``gpus_alone`` are the GPUs with no NIC at that level. Devices whose place the kernel does not tell
        belong to no root.
    """
    roots: Dict[str, Dict[str, Any]] = {}
    nodes: Dict[str, Dict[str, Any]] = {}
    gpus, nics = _gpus(topology), _nics(topology, dra["uplinks"])
    for kind, devices in (("gpus", gpus), ("nics", nics)):
        for device in devices:
            root, node = device.get("pcie_root"), device.get("numa_node")
            if root is not None:
                roots.setdefault(str(root), {"numa_node": node, "gpus": [], "nics": []})[kind].append(str(device["address"]))
            if node is not None:
                nodes.setdefault(str(node), {"gpus": [], "nics": []})[kind].append(str(device["address"]))
    for place in (*roots.values(), *nodes.values()):
        place["pairs"] = min(len(place["gpus"]), len(place["nics"]))
    counts = {"pcie_root": sum(root["pairs"] for root in roots.values()), "numa_node": sum(node["pairs"] for node in nodes.values())}
    level: Optional[str] = dra["align"]
    if level == "auto":
        level = next((name for name in ("pcie_root", "numa_node") if counts[name]), None)
    places = {"pcie_root": roots, "numa_node": nodes}.get(str(level), {})
    near = {gpu for place in places.values() if place["nics"] for gpu in place["gpus"]}
    return {
        "roots": dict(sorted(roots.items())), "numa_nodes": dict(sorted(nodes.items())), "pairs": counts.get(str(level), 0), "level": level,
        "gpus_alone": [str(gpu["address"]) for gpu in gpus if str(gpu["address"]) not in near],
    }


def _capacity_findings(offered: Mapping[str, Any], dra: Mapping[str, Any], topology: Mapping[str, Any], found: findings_m.Findings) -> None:
    gpus = len(_gpus(topology))
    if not gpus:
        return
    with_gpus = sorted(root for root, place in offered["roots"].items() if place["gpus"])
    with_nics = sorted(root for root, place in offered["roots"].items() if place["nics"])
    where = f"GPUs are on {', '.join(with_gpus) or 'no known root'}, RDMA NICs on {', '.join(with_nics) or 'none'}"
    if not offered["pairs"]:
        found.add(
            findings_m.WARNING if dra["align"] == "auto" else findings_m.ERROR, "dra.no_pairs",
            f"no GPU shares a {'NUMA node' if offered['level'] == 'numa_node' else 'PCIe root'} with an RDMA NIC: {where}",
            "nothing here can be aligned by a claim" if dra["align"] == "auto" else "set dra.align to auto",
        )
        return
    if offered["level"] == "numa_node" and dra["align"] == "auto":
        found.warning(
            "dra.root_cannot_match",
            f"no GPU shares a PCIe root with an RDMA NIC, so {PCIE_ROOT} cannot be matched; pairs are taken from one NUMA node instead: {where}",
            "each NUMA node has a template of its own, since no attribute of a GPU names it; with Data Direct functions this is as near as a claim can ask for",
        )
    if offered["gpus_alone"]:
        found.note(
            "dra.gpus_alone", f"{len(offered['gpus_alone'])} of {gpus} GPUs have no NIC at that level, no claim for a pair gets them: "
            f"{', '.join(offered['gpus_alone'])}"
        )


# -- DeviceClasses and templates --------------------------------------------------------------------------------------


def _texts(items: Iterable[str]) -> str:
    return "[" + ", ".join(f'"{item}"' for item in sorted(items)) + "]"


def _cel(expression: str) -> Dict[str, Any]:
    return {"cel": {"expression": expression}}


def near_class(dra: Mapping[str, Any]) -> str:
    """Name of the DeviceClass of NICs that share a PCIe root with a GPU."""
    return f"{dra['nic_class']}-near-gpu"


def device_classes(dra: Mapping[str, Any], roots: Iterable[str], api: str = "v1") -> List[Dict[str, Any]]:
    """DeviceClasses of NICs: all with RDMA, and those on the roots that have GPUs. DRANET ships none.

    An attribute that a device lacks would end the expression with an error, and the allocation with it: ``.?`` makes it a device that is not chosen.
    :param roots: of all nodes that have DRANET.
    """
    expression = f'device.driver == "{DRANET}" && device.attributes["{DRANET}"].?rdma.orValue(false)'
    if dra["uplinks"]:
        expression += f' && !(device.attributes["{DRANET}"].?ifName.orValue("") in {_texts(dra["uplinks"])})'
    near = f'{expression} && device.attributes["resource.kubernetes.io"].?pcieRoot.orValue("") in {_texts(set(roots))}'
    return [
        {"apiVersion": f"{GROUP}/{api}", "kind": "DeviceClass", "metadata": {"name": name, "labels": dict(MANAGED_BY)}, "spec": {"selectors": [_cel(text)]}}
        for name, text in ((dra["nic_class"], expression), (near_class(dra), near))
    ]


def _request(name: str, device_class: str, count: int = 1, selectors: Optional[List[Dict[str, Any]]] = None) -> Dict[str, Any]:
    exactly: Dict[str, Any] = {"deviceClassName": device_class, "allocationMode": "ExactCount", "count": count}
    return {"name": name, "exactly": {**exactly, **({"selectors": selectors} if selectors else {})}}


def _configs(dra: Mapping[str, Any], requests: Sequence[Dict[str, Any]]) -> List[Dict[str, Any]]:
    """The NIC's parameters. Two interfaces of a pod cannot have one name: with several requests the name gets their number."""
    parameters = dra["network_config"]
    if not parameters:
        return []
    names = [request["name"] for request in requests]
    fixed = (parameters.get("interface") or {}).get("name")
    if fixed is None or len(names) == 1:
        return [{"requests": names, "opaque": {"driver": DRANET, "parameters": copy.deepcopy(dict(parameters))}}]
    configs = []
    for index, name in enumerate(names):
        mine = copy.deepcopy(dict(parameters))
        mine["interface"]["name"] = re.sub(r"[0-9]+$", "", fixed) + str(index)
        configs.append({"requests": [name], "opaque": {"driver": DRANET, "parameters": mine}})
    return configs


def _spec(
    dra: Mapping[str, Any], gpus: Sequence[Dict[str, Any]], nics: Sequence[Dict[str, Any]], constraints: Sequence[Dict[str, Any]],
) -> Dict[str, Any]:
    devices: Dict[str, Any] = {"requests": [request for pair in zip(gpus, nics) for request in pair] if gpus else list(nics)}
    if constraints:
        devices["constraints"] = list(constraints)
    configs = _configs(dra, nics)
    return {"devices": {**devices, **({"config": configs} if configs else {})}}


def _by_root(dra: Mapping[str, Any], count: int) -> Dict[str, Any]:
    numbers = [""] if count == 1 else [str(index) for index in range(count)]
    gpus = [_request(f"gpu{number}", dra["gpu_class"]) for number in numbers]
    nics = [_request(f"nic{number}", dra["nic_class"]) for number in numbers]
    # One for each pair: one for all would ask for all devices on one root.
    return _spec(dra, gpus, nics, [{"requests": [f"gpu{number}", f"nic{number}"], "matchAttribute": PCIE_ROOT} for number in numbers])


def _by_numa_node(dra: Mapping[str, Any], count: int, node: str, roots: Iterable[str]) -> Dict[str, Any]:
    on_roots = _cel(f'device.attributes["resource.kubernetes.io"].?pcieRoot.orValue("") in {_texts(roots)}')
    on_node = _cel(f'device.attributes["{DRANET}"].?numaNode.orValue(-1) == {node}')
    numbers = [""] if count == 1 else [str(index) for index in range(count)]
    gpus = [_request(f"gpu{number}", dra["gpu_class"], 1, [on_roots]) for number in numbers]
    return _spec(dra, gpus, [_request(f"nic{number}", dra["nic_class"], 1, [on_node]) for number in numbers], [])


def _named(dra: Mapping[str, Any], count: int, suffix: str = "") -> str:
    return dra["template"] + (f"-tp{count}" if count > 1 else "") + suffix


def templates(topology: Mapping[str, Any], dra: Mapping[str, Any]) -> Tuple[Dict[str, Dict[str, Any]], List[Dict[str, str]]]:
    """Claim templates that a node of this topology can serve, as ``name → spec of a claim`` in the shape of v1, and findings.

    :param dra: ``dra`` of the normalised policy, without errors.
    """
    found = findings_m.Findings()
    offered = capacity(topology, dra)
    _capacity_findings(offered, dra, topology, found)
    made: Dict[str, Dict[str, Any]] = {}
    if dra["gpus"] == "device-plugin":
        found.note(
            "dra.gpus_of_device_plugin",
            "GPUs come from the device plugin, so that a claim cannot align them: the templates ask for NICs near some GPU, and the kubelet's topology "
            "manager brings GPU and CPUs to one NUMA node without looking at the NIC",
            "set dra.gpus to nvidia-dra on nodes that have no device plugin to have pairs",
        )
        most = sum(len(place["nics"]) for place in offered["roots"].values() if place["gpus"])
        for count in dra["pairs"]:
            if count <= most:
                nics = [_request("nic" if count == 1 else f"nic{index}", near_class(dra)) for index in range(count)]
                made[_named(dra, count)] = _spec(dra, [], nics, [])
        return made, found.items
    fixed = (dra["network_config"].get("interface") or {}).get("addresses")
    for count in dra["pairs"]:
        if fixed and count > 1:
            found.error(
                "dra.network_config",
                f"locality_policy.dra.network_config.interface.addresses: found {', '.join(fixed)}, with templates of {count} NICs all of them would have the "
                "same address", "leave addresses out, or set dra.pairs to [1]",
            )
        elif offered["level"] == "pcie_root" and count <= offered["pairs"]:
            made[_named(dra, count)] = _by_root(dra, count)
        elif offered["level"] == "numa_node":
            for node, place in offered["numa_nodes"].items():
                if count <= place["pairs"]:
                    roots = {str(gpu["pcie_root"]) for gpu in _gpus(topology) if str(gpu["address"]) in place["gpus"] and gpu.get("pcie_root")}
                    made[_named(dra, count, f"-numa{node}")] = _by_numa_node(dra, count, node, roots)
    missing = [count for count in dra["pairs"] if not any(name == _named(dra, count) or name.startswith(_named(dra, count, "-numa")) for name in made)]
    if missing and offered["pairs"] and not fixed:
        found.note(
            "dra.no_template", f"no template for {', '.join(map(str, missing))} pairs: this machine has {offered['pairs']}"
            + (", not all on one NUMA node" if offered["level"] == "numa_node" else "")
        )
    return made, found.items


def objects(
    made: Mapping[str, Mapping[str, Any]], dra: Mapping[str, Any], roots: Iterable[str], namespaces: Iterable[str], api: str,
) -> List[Dict[str, Any]]:
    """The objects for the API server: the DeviceClasses, and each template in each namespace, in the shape of ``api``."""
    result = device_classes(dra, roots, api)
    for namespace in namespaces:
        for name, spec in sorted(made.items()):
            result.append(shaped({
                "apiVersion": f"{GROUP}/v1", "kind": "ResourceClaimTemplate",
                "metadata": {"name": name, "namespace": namespace, "labels": dict(MANAGED_BY)}, "spec": {"spec": copy.deepcopy(dict(spec))},
            }, api))
    return result


def shaped(claim: Mapping[str, Any], api: str) -> Dict[str, Any]:
    """A claim or template of v1 as another version has it: v1beta1 knows no ``exactly``, the request's fields are its own."""
    result = copy.deepcopy(dict(claim))
    result["apiVersion"] = f"{GROUP}/{api}"
    if api == "v1beta1":
        for request in _devices(result)["requests"]:
            request.update(request.pop("exactly", {}))
    return result


# -- judging a claim --------------------------------------------------------------------------------------------------


def _devices(claim: Mapping[str, Any]) -> Dict[str, Any]:
    spec = claim.get("spec")
    if claim.get("kind") == "ResourceClaimTemplate" and isinstance(spec, Mapping):
        spec = spec.get("spec")
    devices = spec.get("devices") if isinstance(spec, Mapping) else None
    if not isinstance(devices, dict) or not isinstance(devices.get("requests"), list):
        inner = ".spec" if claim.get("kind") == "ResourceClaimTemplate" else ""
        raise ClaimError(f"{claim.get('kind')}: no list of requests at spec{inner}.devices.requests")
    return devices


class _Request:
    """A request, or one of the alternatives of ``firstAvailable``; its fields wherever the version has them."""

    def __init__(self, name: str, fields: Mapping[str, Any]) -> None:
        self.name = name
        self.device_class = str(fields.get("deviceClassName") or "")
        self.count = None if fields.get("allocationMode") == "All" else fields.get("count", 1)

    def is_gpu(self, classes: Sequence[str]) -> bool:
        return self.device_class in classes


class _Claim:
    def __init__(self, claim: Mapping[str, Any], gpu_classes: Sequence[str], found: findings_m.Findings) -> None:
        self.found, self.gpu_classes = found, gpu_classes
        self.api = str(claim.get("apiVersion") or "").rsplit("/", 1)[-1]
        self.devices = _devices(claim)
        self.requests: Dict[str, List[_Request]] = {}

    def read(self) -> None:
        for index, request in enumerate(self.devices["requests"]):
            where = f"requests[{index}]"
            if not isinstance(request, Mapping) or not request.get("name"):
                self.found.error("dra.claim_shape", f"{where}: a request is a mapping with a name", "")
                continue
            name = str(request["name"])
            self._shape(request, where)
            inner = request.get("exactly") or {key: request[key] for key in _FLAT if key in request}
            alternatives = request.get("firstAvailable") or []
            if not isinstance(inner, Mapping) or not isinstance(alternatives, list) or not all(isinstance(item, Mapping) for item in alternatives):
                self.found.error("dra.claim_shape", f"{where}: exactly is a mapping, firstAvailable a list of mappings", "")
                continue
            if alternatives:
                self.requests[name] = [_Request(f"{name}/{item.get('name')}", item) for item in alternatives]
            else:
                self.requests[name] = [_Request(name, inner)]

    def _shape(self, request: Mapping[str, Any], where: str) -> None:
        flat = [key for key in _FLAT if key in request]
        if self.api == "v1beta1" and "exactly" in request:
            self.found.error(
                "dra.claim_shape", f"{where}: v1beta1 knows no exactly", "put its fields into the request itself, or use the apiVersion resource.k8s.io/v1"
            )
        elif self.api != "v1beta1" and flat:
            self.found.error(
                "dra.claim_shape", f"{where}: {', '.join(flat)} stand in the request itself, {self.api} wants them below exactly",
                f"write {{name: {request['name']}, exactly: {{{flat[0]}: ...}}}}",
            )

    def named(self, names: Sequence[str], where: str) -> List[_Request]:
        """Requests that a constraint or a configuration is for; none named: all."""
        if not names:
            return [request for alternatives in self.requests.values() for request in alternatives[:1]]
        result: List[_Request] = []
        for name in names:
            main, _slash, sub = str(name).partition("/")
            found = [request for request in self.requests.get(main, []) if not sub or request.name == name]
            if not found:
                self.found.error(
                    "dra.no_such_request", f"{where}: there is no request {name}, found {', '.join(self.requests) or 'none'}", "name a request of this claim"
                )
            result.extend(found[:1])
        return result

    def constraint(self, item: Mapping[str, Any], where: str) -> bool:
        """Judge one constraint; whether it asks for one PCIe root."""
        attribute = item.get("matchAttribute") or item.get("distinctAttribute")
        requests = self.named(item.get("requests") or [], where)
        if not self._attribute(attribute, where) or not item.get("matchAttribute"):
            return False
        counts = [request.count for request in requests]
        if requests and None not in counts and sum(int(count or 1) for count in counts) == 1:
            self.found.error(
                "dra.aligned_with_itself",
                f"{where}: the constraint is on one device, the one of the request {requests[0].name}: a device always agrees with itself, so nothing is "
                "aligned",
                "ask for the GPU and the NIC in two requests of one claim, and name both in the constraint: requests: [gpu, nic]",
            )
        if len(requests) > 1 and all(count is not None and int(count) > 1 for count in counts):
            total = sum(int(count) for count in counts if count is not None)
            self.found.warning(
                "dra.all_on_one_root",
                f"{where}: all {total} devices of the requests {', '.join(request.name for request in requests)} have to be on one PCIe root",
                "for pairs, one request for each device and one constraint for each pair: [gpu0, nic0], [gpu1, nic1]",
            )
        return attribute == PCIE_ROOT

    def _attribute(self, attribute: Any, where: str) -> bool:
        domain, slash, name = str(attribute or "").partition("/")
        if not slash:
            self.found.error("dra.no_such_attribute", f"{where}: found {attribute!r}, wanted an attribute with its domain", f"write {PCIE_ROOT}")
            return False
        known = _PUBLISHED.get(domain)
        if known is not None and name not in known:
            right = f"resource.kubernetes.io/{name}" if name in _STANDARD else ""
            self.found.error(
                "dra.no_such_attribute",
                f"{where}: no driver publishes {attribute}, and a device without the attribute is never eligible: the claim stays pending",
                f"write {right}" if right else f"published are {', '.join(f'{domain}/{item}' for item in known)}",
            )
            return False
        if domain == "gpu.nvidia.com" or (domain == DRANET and name == "numaNode"):
            self.found.warning(
                "dra.one_driver_only", f"{where}: only devices of one driver have {attribute}: GPU and NIC cannot be matched by it", f"write {PCIE_ROOT}"
            )
        return True

    def config(self, item: Mapping[str, Any], where: str) -> None:
        requests = self.named(item.get("requests") or [], where)
        opaque = item.get("opaque") or {}
        if opaque.get("driver") != DRANET:
            return
        dranet_config.check(opaque.get("parameters") or {}, f"{where}.opaque.parameters", self.found)
        gpus = [request.name for request in requests if request.is_gpu(self.gpu_classes)]
        if gpus:
            self.found.error(
                "dra.network_config", f"{where}: DRANET's parameters are for the request {', '.join(gpus)} too, whose device is a GPU",
                "name the requests of the NICs",
            )


def _plugin_gpus(pod: Mapping[str, Any]) -> List[str]:
    """Extended resources of GPUs that a pod asks the device plugin for, as ``container: resource``."""
    spec = pod.get("spec") or {}
    spec = (spec.get("template") or {}).get("spec") or spec
    found = []
    for container in [*(spec.get("containers") or []), *(spec.get("initContainers") or [])]:
        resources = container.get("resources") or {}
        for name in sorted({*(resources.get("limits") or {}), *(resources.get("requests") or {})}):
            if re.fullmatch(r"(nvidia\.com/(gpu|mig-.+)|amd\.com/gpu|gpu\.intel\.com/.+)", str(name)):
                found.append(f"{container.get('name')}: {name}")
    return found


def check_claim(claim: Any, *, pod: Optional[Mapping[str, Any]] = None, gpu_classes: Sequence[str] = GPU_CLASSES) -> List[Dict[str, str]]:
    """What is wrong with a ResourceClaim or ResourceClaimTemplate that is to align GPU and NIC.

    :param pod: the pod, or what has its template, that uses the claim. :param gpu_classes: DeviceClasses whose devices are GPUs.
    :returns: findings; errors are claims that are never allocated or align nothing.
    :raises ClaimError: not the object of a claim.
    """
    if not isinstance(claim, Mapping) or claim.get("kind") not in ("ResourceClaim", "ResourceClaimTemplate"):
        raise ClaimError(f"found {claim.get('kind') if isinstance(claim, Mapping) else type(claim).__name__}, wanted a ResourceClaim or ResourceClaimTemplate")
    found = findings_m.Findings()
    group, _slash, version = str(claim.get("apiVersion") or "").partition("/")
    if group != GROUP or version not in API_VERSIONS:
        found.error(
            "dra.claim_shape", f"apiVersion: found {claim.get('apiVersion')!r}, wanted {GROUP}/ and one of {', '.join(API_VERSIONS)}", f"write {GROUP}/v1"
        )
    judged = _Claim(claim, gpu_classes, found)
    judged.read()
    roots = False
    for part in ("constraints", "config"):
        wrong = [item for item in judged.devices.get(part) or [] if not isinstance(item, Mapping)]
        if wrong:
            found.error("dra.claim_shape", f"{part}: found {str(wrong[0])[:80]!r}, wanted a list of mappings", "")
            return found.sorted()
    for index, item in enumerate(judged.devices.get("constraints") or []):
        attribute = str(item.get("matchAttribute") or "")
        # What was meant to be the root counts as asking for it: the GPU is missing all the same.
        roots = judged.constraint(item, f"constraints[{index}]") or attribute.endswith("/pcieRoot") or roots
    for index, item in enumerate(judged.devices.get("config") or []):
        judged.config(item, f"config[{index}]")
    gpus = [request.name for alternatives in judged.requests.values() for request in alternatives if request.is_gpu(gpu_classes)]
    plugin = _plugin_gpus(pod) if pod else []
    if plugin:
        found.error(
            "dra.gpu_not_in_claim", f"the GPU of {', '.join(plugin)} comes from the device plugin and is not in the claim: nothing aligns it with the NIC",
            f"ask for it in the claim, with the DeviceClass {gpu_classes[0]} of NVIDIA's DRA driver, on a node without the device plugin",
        )
    elif roots and not gpus:
        found.error(
            "dra.gpu_not_in_claim", f"no request of the claim asks for a GPU (DeviceClass {', '.join(gpu_classes)}): one that the device plugin gives is not "
            "aligned by it",
            f"add a request for the GPU, {{name: gpu, exactly: {{deviceClassName: {gpu_classes[0]}}}}}, and name both in the constraint",
        )
    return found.sorted()


# -- what is free -----------------------------------------------------------------------------------------------------


def attribute(device: Mapping[str, Any], name: str) -> Any:
    """The value of an attribute of a published device, whatever its type; v1beta1 has it below ``basic``."""
    found = (device.get("basic") or device).get("attributes") or {}
    value = found.get(name) or {}
    return next(iter(value.values()), None)


def _taken(claims: Iterable[Mapping[str, Any]]) -> Dict[Tuple[str, str, str], str]:
    """``(driver, pool, device) → namespace/claim`` of what is allocated, without what is only looked at (adminAccess)."""
    taken = {}
    for claim in claims:
        metadata = claim.get("metadata") or {}
        results = (((claim.get("status") or {}).get("allocation") or {}).get("devices") or {}).get("results") or []
        for item in results:
            if not item.get("adminAccess"):
                taken[str(item["driver"]), str(item["pool"]), str(item["device"])] = f"{metadata.get('namespace')}/{metadata.get('name')}"
    return taken


def free_devices(slices: Iterable[Mapping[str, Any]], claims: Iterable[Mapping[str, Any]]) -> Dict[str, Dict[str, Dict[str, int]]]:
    """Free GPUs and RDMA NICs: ``node → {"gpus": {ROOT: number}, "nics": {ROOT: number}}``; devices without a root are under ``""``.

    :param slices: the ResourceSlices of the cluster. :param claims: its ResourceClaims.
    """
    taken = _taken(claims)
    found: Dict[str, Dict[str, Dict[str, int]]] = {}
    for item in slices:
        spec = item["spec"]
        kind = "nics" if spec["driver"] == DRANET else "gpus" if spec["driver"] == GPU_DRIVER else None
        node = spec.get("nodeName")
        if kind is None or not node:
            continue
        counts = found.setdefault(str(node), {"gpus": {}, "nics": {}})[kind]
        for device in spec.get("devices") or []:
            free = (str(spec["driver"]), str(spec["pool"]["name"]), str(device["name"])) not in taken
            if free and (kind == "gpus" or attribute(device, f"{DRANET}/rdma") is True or attribute(device, "rdma") is True):
                root = str(attribute(device, PCIE_ROOT) or "")
                counts[root] = counts.get(root, 0) + 1
    return found


def _listed_roots(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{root or 'no root'} ({count})" for root, count in sorted(counts.items())) or "none"


def why_pending(
    spec: Mapping[str, Any], slices: Iterable[Mapping[str, Any]], claims: Iterable[Mapping[str, Any]], gpu_class: str = GPU_CLASSES[0],
) -> List[str]:
    """One line for each node that publishes devices: why a claim for pairs is not allocated there, or that it could be.

    The scheduler says ``cannot allocate all claims`` and no more. Selectors are not looked at.
    :param spec: ``spec`` of the claim, in the shape of v1.
    """
    devices = spec["devices"]
    wanted = sum(1 for item in devices.get("constraints") or [] if item.get("matchAttribute") == PCIE_ROOT)
    gpus = sum(1 for item in devices["requests"] if (item.get("exactly") or {}).get("deviceClassName") == gpu_class)
    lines = []
    for node, free in sorted(free_devices(slices, claims).items()):
        pairs = sum(min(count, free["nics"].get(root, 0)) for root, count in free["gpus"].items() if root)
        told = f"free GPUs: {_listed_roots(free['gpus'])}; free NICs: {_listed_roots(free['nics'])}"
        if wanted and not pairs:
            lines.append(f"{node}: no PCIe root has both a free GPU and a free RDMA NIC; {told}")
        elif wanted > pairs:
            lines.append(f"{node}: {pairs} pairs are left on one PCIe root each, the claim wants {wanted}; {told}")
        elif gpus > sum(free["gpus"].values()):
            lines.append(f"{node}: {sum(free['gpus'].values())} GPUs are free, the claim wants {gpus}; {told}")
        else:
            lines.append(f"{node}: there are devices for it, unless a selector of its requests excludes them; {told}")
    return lines
