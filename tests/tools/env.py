# Copyright (c) 2026 The inferops.locality authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Makes the checkout's .venv and the import tree .collections; ``tests/run.py`` makes its further environments with it.

    python env.py check [PYTHON]   rc 0 if .venv is complete (and was made from PYTHON)
    python env.py make             makes both with the interpreter that runs this file

Standard library only: it runs before anything is installed.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import time
from contextlib import nullcontext
from pathlib import Path
from typing import Sequence

TOP = Path(__file__).resolve().parents[2]
CACHE = TOP / ".cache"
TREE = TOP / ".collections"
DEV = TOP / ".venv"
DEV_REQUIREMENTS = ("-r", str(TOP / "tests" / "requirements.txt"))


def base_executable() -> str:
    """The interpreter itself, even if this runs in a virtual environment."""
    return os.path.realpath(getattr(sys, "_base_executable", None) or sys.executable)


def wanted(python: str, requirements: Sequence[str]) -> str:
    """What an environment is made of, as its stamp: the place too, since scripts in it hold absolute paths."""
    digest = hashlib.sha256(repr(tuple(requirements)).encode())
    for file in sorted([*TOP.glob("requirements.txt"), *TOP.glob("tests/**/requirements.txt")]):
        if file.is_relative_to(TOP / "tests" / "output"):
            continue
        digest.update(file.read_bytes())
    return f"{python}\n{digest.hexdigest()}\n{TOP}\n"


def is_complete(venv: Path, requirements: Sequence[str], python: str | None = None) -> bool:
    """Whether ``venv`` was made of ``requirements`` at this place, by ``python`` if that is given, and still runs."""
    try:
        stamp = (venv / "stamp").read_text()
    except OSError:
        return False
    python = python or stamp.split("\n", 1)[0]
    return stamp == wanted(python, requirements) and Path(python).exists() and (venv / "bin" / "python").exists()


def ensure(venv: Path, python: str, requirements: Sequence[str], log: Path | None = None) -> Path:
    """Make ``venv`` if it is missing or stale; returns its bin folder.

    :raises subprocess.CalledProcessError: if venv or pip failed; what they printed is in ``log`` or on the terminal.
    """
    python = os.path.realpath(python)
    if is_complete(venv, requirements, python):
        return venv / "bin"
    shutil.rmtree(venv, ignore_errors=True)
    venv.parent.mkdir(parents=True, exist_ok=True)
    name = venv.relative_to(TOP) if venv.is_relative_to(TOP) else venv
    print(f"Making {name} with {python} ...", flush=True)
    start = time.monotonic()
    dropped = {"PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV", "PIP_REQUIRE_VIRTUALENV", "PIP_USER"}
    clean = {key: value for key, value in os.environ.items() if key not in dropped}
    pip = [str(venv / "bin" / "python"), "-m", "pip", "--disable-pip-version-check", "install", "--quiet", *requirements]
    with open(log, "a", encoding="utf-8") if log else nullcontext() as out:
        for command in ([python, "-m", "venv", str(venv)], pip):
            subprocess.run(command, check=True, env=clean, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT if out else None)
    (venv / "stamp").write_text(wanted(python, requirements))
    print(f"Made {name} in {time.monotonic() - start:.0f} s.", flush=True)
    return venv / "bin"


def link_tree() -> None:
    """Make ``.collections``, through which Ansible and Python find this checkout under the collection's name, wherever it lies.

    The empty package file makes this ``ansible_collections`` win over one in site-packages, which the bundle ``ansible`` brings.
    """
    root = TREE / "ansible_collections"
    link = root / "inferops" / "locality"
    link.parent.mkdir(parents=True, exist_ok=True)
    (root / "__init__.py").touch()
    target = os.path.relpath(TOP, link.parent)
    if not link.is_symlink() or os.readlink(link) != target:
        if link.is_symlink() or link.exists():
            link.unlink()
        link.symlink_to(target)


def main(arguments: Sequence[str]) -> int:
    if arguments[:1] == ["check"] and len(arguments) <= 2:
        python = os.path.realpath(arguments[1]) if arguments[1:] else None
        return 0 if is_complete(DEV, DEV_REQUIREMENTS, python) and (TREE / "ansible_collections" / "inferops" / "locality").is_dir() else 1
    if arguments == ["make"]:
        link_tree()
        try:
            ensure(DEV, base_executable(), DEV_REQUIREMENTS)
        except subprocess.CalledProcessError as error:
            print(f"Making .venv failed: {' '.join(error.cmd)} returned {error.returncode}.", file=sys.stderr)
            return 1
        return 0
    print(__doc__, file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
