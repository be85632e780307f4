# Copyright (c) 2026 The inferops.locality authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Where the lab keeps its things, what it needs, and where its packages come from."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import List, Mapping, Optional, Tuple

from vlab.process import LabError

SUITE = "trixie"
# Program to Debian package, of what the machine itself must have. QEMU and GRUB come from the cache.
NEEDED: Tuple[Tuple[str, str], ...] = (
    ("mmdebstrap", "mmdebstrap"),
    ("apt-get", "apt"),
    ("tar", "tar"),
    ("ssh", "openssh-client"),
    ("ssh-keygen", "openssh-client"),
    ("setpriv", "util-linux"),
)
_KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"
_LONGEST_SOCKET = 100  # a UNIX socket's path has 107 bytes


@dataclass(frozen=True)
class Cache:
    """The lab's folder outside the tree."""

    top: Path

    @property
    def nodes(self) -> Path:
        return self.top / "nodes"

    @property
    def logs(self) -> Path:
        return self.top / "logs"

    @property
    def key(self) -> Path:
        return self.top / "id_ed25519"

    @property
    def known_hosts(self) -> Path:
        return self.top / "known_hosts"

    @property
    def boots(self) -> Path:
        return self.top / "boots.jsonl"


def cache(env: Optional[Mapping[str, str]] = None) -> Cache:
    """The cache that the environment names; made if absent.

    :raises LabError: its path is too long for the sockets in it.
    """
    env = os.environ if env is None else env
    chosen = env.get("LOCALITY_LAB_CACHE")
    if chosen:
        top = Path(chosen).absolute()
    else:
        top = Path(env.get("XDG_CACHE_HOME") or Path(env.get("HOME", "/root")) / ".cache") / "inferops-locality" / "lab"
    if len(str(top / "nodes" / ("n" * 12) / "wire-n01")) > _LONGEST_SOCKET:
        raise LabError(f"{top}: too long for the sockets in it; set LOCALITY_LAB_CACHE to a shorter path")
    for folder in (top, top / "nodes", top / "logs"):
        folder.mkdir(parents=True, exist_ok=True, mode=0o755)
    return Cache(top)


def missing(root: bool) -> List[str]:
    """The Debian packages that this machine lacks to build the image, in one list."""
    packages = {package for program, package in NEEDED if shutil.which(program) is None}
    if not root and shutil.which("newuidmap") is None:
        packages.add("uidmap")
    if not os.path.exists(os.environ.get("LOCALITY_LAB_KEYRING", _KEYRING)):
        packages.add("debian-archive-keyring")
    return sorted(packages)


def require(root: bool) -> None:
    """:raises LabError: something is missing; names all of it at once."""
    packages = missing(root)
    if packages:
        raise LabError("the lab needs packages that are not here: apt-get install --no-install-recommends " + " ".join(packages))


_INDEX = re.compile(r"^'(?P<address>\S+?)/dists/(?P<suite>[a-z]+)(?P<pocket>[-/]security)?(?:-updates|-backports)?/InRelease'")
_DEBIAN = ("oldoldstable", "oldstable", "stable", "testing", "sid", "unstable", "bullseye", "bookworm", "trixie", "forky", "duke")


def mirrors(indexes: str, env: Mapping[str, str]) -> Tuple[str, str]:
    """The addresses of Debian's main and security archives; the second is empty where there is none.

    :param indexes: what ``apt-get update --print-uris`` says: known before any index was fetched.
    :raises LabError: apt names no Debian archive and the environment does not either.
    """
    main = env.get("LOCALITY_LAB_MIRROR", "")
    security = env.get("LOCALITY_LAB_SECURITY_MIRROR", "")
    for line in indexes.splitlines():
        match = _INDEX.match(line)
        if match is None or match["suite"] not in _DEBIAN:
            continue
        if match["pocket"]:
            security = security or match["address"]
        else:
            main = main or match["address"]
    if not main:
        raise LabError("apt here is not configured for Debian: set LOCALITY_LAB_MIRROR (and LOCALITY_LAB_SECURITY_MIRROR) to a Debian archive")
    return main, security


def sources(backports: bool, env: Optional[Mapping[str, str]] = None) -> List[str]:
    """The lines of a sources.list for the suite, by this machine's own mirror."""
    env = os.environ if env is None else env
    try:
        indexes = subprocess.run(["apt-get", "update", "--print-uris"], capture_output=True, text=True, check=False).stdout
    except FileNotFoundError:
        indexes = ""
    main, security = mirrors(indexes, env)
    option = f"[signed-by={env.get('LOCALITY_LAB_KEYRING', _KEYRING)}]"
    lines = [f"deb {option} {main} {SUITE} main", f"deb {option} {main} {SUITE}-updates main"]
    if security:
        lines.append(f"deb {option} {security} {SUITE}-security main")
    if backports:
        lines.append(f"deb {option} {main} {SUITE}-backports main")
    return lines


_FETCHING = re.compile(r'^Acquire::(Check-Valid-Until|Check-Date|Retries|(http|https|ftp)::(Proxy|Timeout)\S*) "[^"]')


def apt_options(dump: Optional[str] = None) -> List[str]:
    """This machine's apt settings that are needed to reach its mirror: a proxy, a frozen archive."""
    if dump is None:
        dump = subprocess.run(["apt-config", "dump", "Acquire"], capture_output=True, text=True, check=False).stdout
    return [line.rstrip(";") for line in dump.splitlines() if _FETCHING.match(line)]
