# Copyright (c) 2026 The inferops.locality authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the scheduler gave, of the output of kubectl on stdin, by pod: its devices, how many pairs they are, and how many of these share a PCIe root."""

import json
import sys

ROOT = "resource.kubernetes.io/pcieRoot"


def main():
    """:returns: exit status."""
    items = json.load(sys.stdin)["items"]
    slices = [item["spec"] for item in items if item["kind"] == "ResourceSlice"]
    roots = {(spec["driver"], device["name"], spec["nodeName"]): device["attributes"][ROOT]["string"] for spec in slices for device in spec["devices"]}
    told = {}
    for claim in (item for item in items if item["kind"] == "ResourceClaim"):
        status = claim.get("status", {})
        given = {}
        for result in status.get("allocation", {}).get("devices", {}).get("results", []):
            given[result["request"]] = (f"{result['pool']}/{result['device']}", roots[result["driver"], result["device"], result["pool"]])
        pairs = [(given[name], given[name.replace("gpu", "nic")]) for name in given if name.startswith("gpu")]
        told[claim["metadata"]["ownerReferences"][0]["name"]] = {
            "devices": sorted(device for device, _root in given.values()),
            "pairs": len(pairs),
            "aligned": sum(gpu[1] == nic[1] for gpu, nic in pairs),
            "mtu": sorted({config["opaque"]["parameters"]["interface"]["mtu"] for config in claim["spec"]["devices"].get("config", [])}),
        }
    print(json.dumps(told))
    return 0


sys.exit(main())
