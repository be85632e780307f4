# Copyright (c) 2026 The inferops.locality authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Keys and certificates of one cluster, made by the openssl command (3.0 or later) when the cluster starts."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import NamedTuple, Sequence

from controlplane.binaries import ClusterError

_DAYS = "7"
# Our own settings: those of the machine may add extensions.
_SETTINGS = "[req]\ndistinguished_name = name\n[name]\n"


class Pair(NamedTuple):
    """A certificate and its private key, both PEM."""

    certificate: Path
    key: Path


def _openssl(*arguments: str) -> None:
    try:
        done = subprocess.run(["openssl", *arguments], capture_output=True, text=True, check=False)
    except FileNotFoundError:
        raise ClusterError("no openssl on PATH: apt-get install --no-install-recommends openssl") from None
    if done.returncode:
        raise ClusterError(f"openssl {arguments[0]} failed (3.0 or later is needed): {done.stderr.strip()}")


class Authority:
    """The certificate authority of one cluster: servers and clients alike are known by it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(mode=0o700)
        (folder / "openssl.cnf").write_text(_SETTINGS, encoding="ascii")
        self.pair = self._certificate("ca", "/CN=locality-test-ca", ["basicConstraints=critical,CA:TRUE", "keyUsage=critical,keyCertSign,cRLSign"])

    def _certificate(self, name: str, subject: str, extensions: Sequence[str], signed: bool = False) -> Pair:
        made = Pair(self.folder / f"{name}.crt", self.folder / f"{name}.key")
        arguments = ["req", "-x509", "-config", str(self.folder / "openssl.cnf"), "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]
        arguments += ["-days", _DAYS, "-subj", subject, "-keyout", str(made.key), "-out", str(made.certificate)]
        arguments += [word for extension in extensions for word in ("-addext", extension)]
        if signed:
            arguments += ["-CA", str(self.pair.certificate), "-CAkey", str(self.pair.key)]
        _openssl(*arguments)
        return made

    def server(self, name: str, alternatives: Sequence[str]) -> Pair:
        """A server's certificate; ``alternatives`` as openssl writes them: ``IP:127.0.0.1``, ``DNS:localhost``."""
        extensions = [f"subjectAltName={','.join(alternatives)}", "extendedKeyUsage=serverAuth", "basicConstraints=critical,CA:FALSE"]
        return self._certificate(name, f"/CN={name}", extensions, signed=True)

    def client(self, name: str, user: str, groups: Sequence[str] = ()) -> Pair:
        """A client's certificate: Kubernetes takes the user's name from CN and the groups from O."""
        subject = "".join(f"/O={group}" for group in groups) + f"/CN={user}"
        return self._certificate(name, subject, ["extendedKeyUsage=clientAuth", "basicConstraints=critical,CA:FALSE"], signed=True)

    def signing_key(self, name: str) -> Pair:
        """A key pair for service account tokens: the public half takes the certificate's place."""
        made = Pair(self.folder / f"{name}.pub", self.folder / f"{name}.key")
        _openssl("genpkey", "-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256", "-out", str(made.key))
        _openssl("pkey", "-in", str(made.key), "-pubout", "-out", str(made.certificate))
        return made
