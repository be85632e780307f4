# Copyright (c) 2026 The inferops.locality authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Breaks the planner on purpose, once with each patch of this folder, and looks whether the tests notice.

    python tests/unit/mutations/run.py                 all patches
    python tests/unit/mutations/run.py 03-*.patch      these

Each patch is applied to a copy of what the tests of the planner need, so the checkout stays as it is. One line per patch; the exit
code is 1 if the tests pass with one of them, if one no longer applies, or if the tests fail without any.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

HERE = Path(__file__).resolve().parent
TOP = HERE.parents[2]
COPIED = ("plugins/module_utils", "tests/unit/strategies.py", "tests/unit/conftest.py", "pyproject.toml")
TESTS = ("test_plan.py", "test_plan_properties.py")
# Few examples, and the same ones each time: a mutation must not survive by bad luck. Nobody reads the case that fails, so it
# need not be made smaller, which takes most of the time.
PROFILE = """

from hypothesis import Phase  # noqa: E402

settings.register_profile("mutation", settings.get_profile("quick"), max_examples=25, database=None, phases=[Phase.explicit, Phase.generate])
settings.load_profile("mutation")
"""
SEED = "20260101"
TIMEOUT = 600


def copy(target: Path) -> Path:
    """Copy what the tests need; returns the collection's folder in an import tree of its own."""
    collection = target / "ansible_collections" / "inferops" / "locality"
    for name in (*COPIED, *(f"tests/unit/plugins/module_utils/{test}" for test in TESTS)):
        source, copied = TOP / name, collection / name
        copied.parent.mkdir(parents=True, exist_ok=True)
        if source.is_dir():
            shutil.copytree(source, copied, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy2(source, copied)
    with open(collection / "tests/unit/conftest.py", "a", encoding="utf-8") as conftest:
        conftest.write(PROFILE)
    return collection


def tests(tree: Path, collection: Path) -> subprocess.CompletedProcess[str]:
    """Run the planner's tests in a copy until one fails."""
    command = [
        sys.executable, "-m", "pytest", "-x", "-q", "--no-header", "--color=no", "-p", "no:cacheprovider", "-p", "no:xdist", f"--hypothesis-seed={SEED}",
        "-o", f"pythonpath={tree}", *(f"tests/unit/plugins/module_utils/{test}" for test in TESTS),
    ]
    environment = {key: value for key, value in os.environ.items() if key not in ("PYTHONPATH", "LOCALITY_REQUIRE", "PYTEST_ADDOPTS")}
    return subprocess.run(
        command, cwd=collection, env={**environment, "PYTHONPATH": str(tree), "PYTHONDONTWRITEBYTECODE": "1"}, check=False, capture_output=True,
        text=True, timeout=TIMEOUT, stdin=subprocess.DEVNULL,
    )


def judge(patch: Path | None) -> tuple[bool, str]:
    """Apply one patch and run the tests; without a patch they have to pass."""
    name = patch.name if patch else "no patch"
    start = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="locality-mutation-") as folder:
        tree = Path(folder)
        collection = copy(tree)
        if patch:
            applied = subprocess.run(["git", "apply", "--whitespace=nowarn", str(patch)], cwd=collection, check=False, capture_output=True, text=True)
            if applied.returncode:
                return False, f"FAILED  {name}: does not apply: {applied.stderr.strip()}"
        try:
            run = tests(tree, collection)
        except subprocess.TimeoutExpired:
            return False, f"FAILED  {name}: the tests took more than {TIMEOUT} s"
    took = f"{time.monotonic() - start:5.1f} s"
    failed = [line.split()[1].rpartition("::")[2] for line in run.stdout.splitlines() if line.startswith("FAILED ")]
    if patch is None:
        if run.returncode == 0:
            return True, f"ok      {took}  {name}: the tests pass"
        return False, f"FAILED  {took}  {name}: the tests fail already: {(run.stdout + run.stderr)[-2000:]}"
    # 1: tests failed. Anything else (nothing collected, an import error) says nothing about the tests.
    if run.returncode == 1 and failed:
        return True, f"ok      {took}  {name}: noticed by {failed[0]}"
    if run.returncode == 0:
        return False, f"FAILED  {took}  {name}: no test noticed"
    return False, f"FAILED  {took}  {name}: the tests did not run: {(run.stdout + run.stderr)[-1500:]}"


def main(names: list[str]) -> int:
    patches = sorted(path for name in names for path in HERE.glob(Path(name).name)) if names else sorted(HERE.glob("*.patch"))
    if not patches:
        print(f"FAILED  no patch named {' '.join(names) or '*.patch'} in {HERE}")
        return 1
    good = True
    with ThreadPoolExecutor(max_workers=2) as pool:
        for passed, line in pool.map(judge, [None, *patches]):
            print(line, flush=True)
            good = good and passed
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
