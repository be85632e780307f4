# Copyright (c) 2026 The inferops.locality authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the kernel does when it is asked for netkit and BIG TCP: as Cilium's agent would ask, by ``ip``, and undone."""

import json
import os
import subprocess

BIG = "196608"
SIZES = ("gso_max_size", "gro_max_size", "gso_ipv4_max_size", "gro_ipv4_max_size")
SPACES = ("locality-a", "locality-b")


def ip(*arguments):
    """Exit status and output of ``ip``."""
    run = subprocess.run(["ip", *arguments], capture_output=True, text=True, check=False)
    return run.returncode, run.stdout, run.stderr.strip()


def link(name, *where):
    """What ``ip`` shows of an interface."""
    return json.loads(ip(*where, "-d", "-j", "link", "show", "dev", name)[1])[0]


def netkit():
    """A pair between two network namespaces, its sizes set, and whether packets go through it."""
    first = ("-n", SPACES[0])
    for name in SPACES:
        ip("netns", "add", name)
    try:
        made = ip(*first, "link", "add", "nk0", "type", "netkit", "peer", "name", "nk1", "netns", SPACES[1])
        if made[0]:
            return {"made": False, "message": made[2]}
        refused = [size for size in SIZES if ip(*first, "link", "set", "nk0", size, BIG)[0]]
        shown = link("nk0", *first)
        for space, name, address in zip(SPACES, ("nk0", "nk1"), ("192.0.2.1/30", "192.0.2.2/30")):
            ip("-n", space, "address", "add", address, "dev", name)
            ip("-n", space, "link", "set", name, "up")
        answers = subprocess.run(
            ["ip", "netns", "exec", SPACES[0], "ping", "-c", "3", "-W", "5", "192.0.2.2"], capture_output=True, text=True, check=False,
        )
        return {
            "made": True, "kind": shown["linkinfo"]["info_kind"], "refused": refused, "sizes": {size: shown[size] for size in SIZES},
            "scrub": "scrub" in shown["linkinfo"]["info_data"], "answered": answers.returncode == 0,
        }
    finally:
        for name in SPACES:
            ip("netns", "del", name)


def nic(name):
    """Whether a NIC takes packets of more than 64 KiB, as it says and when it is asked."""
    before = link(name)
    refused = [size for size in SIZES if ip("link", "set", "dev", name, size, BIG)[0]]
    for size in SIZES:
        ip("link", "set", "dev", name, size, str(before[size]))
    return {"tso_max_size": before["tso_max_size"], "refused": refused, "as_before": link(name) == before}


NICS = [name for name in sorted(os.listdir("/sys/class/net")) if os.path.exists(f"/sys/class/net/{name}/device")]
print(json.dumps({"netkit": netkit(), "nics": {name: nic(name) for name in NICS}}))
