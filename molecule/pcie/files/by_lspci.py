# Copyright (c) 2026 The inferops.locality authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What lspci and sysfs say of the PCI functions of this machine, as JSON in the words of the knobs. Runs on a lab node."""

from __future__ import annotations

import json
import os
import re
import subprocess


def first(pattern: str, text: str) -> str | None:
    match = re.search(pattern, text)
    return match.group(1) if match else None


def one(text: str, address: str) -> dict[str, str | None]:
    control = first(r"ACSCtl:\s*(.*)", text)
    aspm = first(r"LnkCtl:\s*ASPM ([^;]*);", text)
    ordering = first(r"(RlxdOrd[+-])", text)
    group = f"/sys/bus/pci/devices/{address}/iommu_group"
    words = {"RR": "ReqRedir+", "CR": "CmpltRedir+", "EC": "EgressCtrl+"}
    bits = None if control is None else " ".join(bit for bit, word in words.items() if word in control.split()) or "off"
    return {
        "acs": bits or "no ACS",
        "acs_all": control,
        "aspm": None if aspm is None else "off" if aspm == "Disabled" else aspm.removesuffix(" Enabled"),
        "relaxed_ordering": None if ordering is None else "on" if ordering.endswith("+") else "off",
        "speed": first(r"LnkSta:\s*Speed ([0-9.]+)GT/s", text),
        "width": first(r"LnkSta:.*Width (x[0-9]+)", text),
        "max_speed": first(r"LnkCap:.*Speed ([0-9.]+)GT/s", text),
        "max_width": first(r"LnkCap:.*Width (x[0-9]+)", text),
        "group": os.path.basename(os.readlink(group)) if os.path.islink(group) else None,
    }


def main() -> None:
    text = subprocess.run(["lspci", "-D", "-vvv"], capture_output=True, text=True, check=True).stdout
    found = {}
    for block in re.split(r"\n\n+", text.strip()):
        address = block.split(" ", 1)[0]
        found[address] = one(block, address)
    print(json.dumps(found))


if __name__ == "__main__":
    main()
