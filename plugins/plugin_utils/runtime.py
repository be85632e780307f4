# Copyright (c) 2026 The inferops.locality authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Packs the program that acts on a node at boot: the module_utils it needs, in one archive Python can run.

The same files give the same bytes on every controller: names are sorted, times fixed, nothing is compressed (compressed
bytes differ between versions of zlib).
"""

from __future__ import annotations

import ast
import hashlib
import io
import json
import os
import zipfile
from pathlib import Path

import yaml

from ansible_collections.inferops.locality.plugins.plugin_utils import whole_file

PACKAGE = ("ansible_collections", "inferops", "locality", "plugins", "module_utils")
ENTRY = "runtime_main"
VERSION_FILE = "VERSION"
_PREFIX = ".".join(PACKAGE)
_TIME = (1980, 1, 1, 0, 0, 0)
_TOP = Path(__file__).resolve().parents[2]

_MAIN = f"""# Copyright (c) 2026 The inferops.locality authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

import sys

from {_PREFIX} import {ENTRY}

sys.exit({ENTRY}.main(version=__loader__.get_data("{VERSION_FILE}").decode("ascii").strip()))
"""


def _imports(source: str) -> set[str]:
    """Names of the module_utils a file imports."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom) and node.module == _PREFIX:
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and node.module.startswith(_PREFIX + "."):
            names.add(node.module[len(_PREFIX) + 1:])
    return names


def members(folder: Path | None = None) -> dict[str, bytes]:
    """Files of the program but for its version: the entry and every module_utils file it needs, by name in the archive.

    :raises OSError: a file it imports is not there.
    """
    folder = folder or _TOP / "plugins" / "module_utils"
    files: dict[str, bytes] = {"__main__.py": _MAIN.encode()}
    for depth in range(1, len(PACKAGE) + 1):
        # zipimport finds packages without an __init__.py only in some versions
        files["/".join(PACKAGE[:depth]) + "/__init__.py"] = b""
    wanted, seen = [ENTRY], set()
    while wanted:
        name = wanted.pop()
        if name in seen:
            continue
        seen.add(name)
        content = (folder / f"{name}.py").read_bytes()
        files["/".join(PACKAGE) + f"/{name}.py"] = content
        wanted += sorted(_imports(content.decode("utf-8")))
    return dict(sorted(files.items()))


def collection_version(top: Path | None = None) -> str:
    """Version of this collection: MANIFEST.json where it is installed, galaxy.yml in a checkout; ``0`` where both are missing."""
    top = top or _TOP
    try:
        return str(json.loads((top / "MANIFEST.json").read_text(encoding="utf-8"))["collection_info"]["version"])
    except (OSError, ValueError, KeyError, TypeError):
        pass
    try:
        return str(yaml.safe_load((top / "galaxy.yml").read_text(encoding="utf-8"))["version"])
    except (OSError, yaml.YAMLError, KeyError, TypeError):
        return "0"


def _version(files: dict[str, bytes]) -> str:
    digest = hashlib.sha256()
    for name, content in files.items():
        digest.update(f"{name}\0{len(content)}\0".encode() + content)
    return f"{collection_version()}+{digest.hexdigest()[:12]}"


def version() -> str:
    """Version of the program as it would be packed now: that of the collection, ``+``, 12 digits of its content's hash."""
    return _version(members())


def build() -> tuple[bytes, str]:
    """The archive and its version."""
    files = members()
    number = _version(files)
    buffer = io.BytesIO()
    buffer.write(b"#!/usr/bin/env python3\n")
    with zipfile.ZipFile(buffer, "a", zipfile.ZIP_STORED) as archive:
        for name, content in sorted({**files, VERSION_FILE: number.encode() + b"\n"}.items()):
            info = zipfile.ZipInfo(name, _TIME)
            info.create_system = 3
            info.external_attr = 0o100644 << 16
            archive.writestr(info, content)
    return buffer.getvalue(), number


def write(folder: str | os.PathLike[str]) -> tuple[Path, str]:
    """Write the archive into a folder of the controller; its path and version. An archive that is there and equal stays."""
    content, number = build()
    path = Path(folder) / f"locality-{number}.pyz"
    try:
        if path.read_bytes() == content:
            return path, number
    except OSError:
        pass
    whole_file.write(str(path), content)
    return path, number
