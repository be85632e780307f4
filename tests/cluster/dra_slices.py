# Copyright (c) 2026 The inferops.locality authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""ResourceSlices as DRANET v1.4.0 and NVIDIA's DRA driver 0.5 publish them, made from a topology. The drivers themselves do not run here."""

from __future__ import annotations

from typing import Any, Dict, List, Mapping, Optional, Sequence

# As the charts of the two drivers have it, respectively ask for it.
GPU_CLASS = {
    "apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": {"name": "gpu.nvidia.com"},
    "spec": {"selectors": [{"cel": {"expression": "device.driver == 'gpu.nvidia.com' && device.attributes['gpu.nvidia.com'].type == 'gpu'"}}]},
}


def _attributes(values: Mapping[str, Any]) -> Dict[str, Any]:
    made = {}
    for name, value in values.items():
        if value is not None:
            made[name] = {"bool" if isinstance(value, bool) else "int" if isinstance(value, int) else "string": value}
    return made


def _nic(device: Mapping[str, Any]) -> Dict[str, Any]:
    interface = next(iter(device["interfaces"]), {})
    return {
        "name": "pci-" + device["address"].replace(":", "-").replace(".", "-"),
        "attributes": _attributes({
            "dra.net/ifName": interface.get("name"), "dra.net/mac": interface.get("mac"), "dra.net/mtu": interface.get("mtu"),
            "dra.net/pciAddress": device["address"], "dra.net/numaNode": device["numa_node"], "dra.net/rdma": bool(device["rdma"]),
            "dra.net/rdmaDevice": next(iter(device["rdma"]), None), "dra.net/virtual": False, "dra.net/type": "device",
            "resource.kubernetes.io/pcieRoot": device["pcie_root"],
        }),
    }


def _gpu(index: int, device: Mapping[str, Any]) -> Dict[str, Any]:
    return {
        "name": f"gpu-{index}",
        "attributes": _attributes({
            "type": "gpu", "uuid": f"GPU-{device['address']}", "productName": "NVIDIA H100 80GB HBM3", "architecture": "Hopper",
            "resource.kubernetes.io/pciBusID": device["address"], "resource.kubernetes.io/pcieRoot": device["pcie_root"],
        }),
        "capacity": {"memory": {"value": "80Gi"}},
    }


def slices(node: str, topology: Mapping[str, Any], uplink: Optional[str] = None) -> List[Dict[str, Any]]:
    """One slice for each driver. ``uplink``: the interface with the default route, which DRANET never publishes."""
    nics = [
        _nic(device) for device in topology["devices"]
        if device["kind"] in ("nic", "rdma") and uplink not in [interface["name"] for interface in device["interfaces"]]
    ]
    gpus = [_gpu(index, device) for index, device in enumerate(device for device in topology["devices"] if device["kind"] == "gpu")]
    return [_slice(node, driver, devices) for driver, devices in (("dra.net", nics), ("gpu.nvidia.com", gpus)) if devices]


def _slice(node: str, driver: str, devices: Sequence[Dict[str, Any]]) -> Dict[str, Any]:
    return {
        "apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "metadata": {"name": f"{node}-{driver}"},
        "spec": {"driver": driver, "nodeName": node, "pool": {"name": node, "generation": 1, "resourceSliceCount": 1}, "devices": list(devices)},
    }
