# Copyright (c) 2026 The inferops.locality authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules of the whole project: headers, where input and output may happen, action groups, roles' arguments, generated pages."""

from __future__ import annotations

import ast
import functools
import importlib.util
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

TOP = Path(__file__).resolve().parents[2]
PLUGINS = TOP / "plugins"
ROLES = sorted(path.name for path in (TOP / "roles").glob("*") if (path / "tasks").is_dir())
LARGEST_FILE = 256 * 1024


@functools.cache
def project_files() -> list[Path]:
    """Files of the project: what git knows and what is new and not ignored; without git, as unpacked."""
    listed = subprocess.run(
        ["git", "-c", f"safe.directory={TOP}", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=TOP, check=False, capture_output=True,
    )
    if listed.returncode:
        pytest.skip("not a git checkout")
    files = (TOP / name for name in listed.stdout.decode().split("\0") if name)
    return [file for file in files if file.is_file() and not file.is_symlink()]


def load(path: Path) -> dict:
    return yaml.safe_load(path.read_text(encoding="utf-8"))


# Formats without comments, files whose every byte matters (fixtures, what lands on a node or in the lab's guest), and generated ones.
HEADERLESS = re.compile(
    r"LICENSE$|CHANGELOG\.md$|changelogs/(changelog\.yaml|fragments/.*)$|tests/unit/fixtures/|tests/lab/guest/root/|roles/[^/]+/templates/"
    r"|tests/sanity/ignore-.*\.txt$|.*\.(json|patch)$"
)


def test_every_file_names_its_licence() -> None:
    bare = []
    for file in project_files():
        name = file.relative_to(TOP).as_posix()
        if not HEADERLESS.match(name) and "SPDX-License-Identifier: GPL-3.0-or-later" not in file.read_text(encoding="utf-8")[:600]:
            bare.append(name)
    assert bare == []


def test_no_file_is_out_of_proportion() -> None:
    assert [str(file.relative_to(TOP)) for file in project_files() if file.stat().st_size > LARGEST_FILE] == []


def test_no_file_names_the_place_where_it_was_made() -> None:
    """A checkout may lie anywhere: a path of one machine is a slip."""
    home = re.compile(rf"(?<![\w.]){re.escape(str(TOP))}(?![\w-])")
    assert [str(file.relative_to(TOP)) for file in project_files() if home.search(file.read_text(encoding="utf-8"))] == []


def test_pages_generated_from_the_registry_are_current() -> None:
    spec = importlib.util.spec_from_file_location("knobs_doc", TOP / "tests" / "tools" / "knobs_doc.py")
    assert spec and spec.loader
    knobs_doc = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(knobs_doc)
    assert (TOP / "docs" / "knobs.md").read_text(encoding="utf-8") == knobs_doc.page(knobs_doc.registry()), "run make docs"


# -- layers ---------------------------------------------------------------------------------------------------------


def imported(file: Path) -> set[str]:
    """Dotted names of what a file imports; ``from a import b`` gives ``a`` and ``a.b``."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{file.name}: relative import"
            names.add(node.module or "")
            names.update(f"{node.module}.{alias.name}" for alias in node.names)
    return names


def calls(file: Path) -> set[str]:
    """What a file calls, as written: ``open``, ``os.listdir``."""
    tree = ast.parse(file.read_text(encoding="utf-8"))
    return {ast.unparse(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)}


MODULE_UTILS = sorted(path for path in (PLUGINS / "module_utils").glob("*.py"))
OPENS_FILES = {"open", "io.open"} | {f"os.{name}" for name in ("open", "listdir", "scandir", "readlink", "walk", "stat", "lstat")}
# sysroot reads. What writes, and what takes a link as a link, says here why it does so itself.
OPENS_NEVERTHELESS = {
    "boot_files": {"os.open", "os.stat"},  # replaces the boot loader's files, forced to the disk
    "host_settings": {"os.open"},  # gives files of the kernel back what they said
    "irq": {"os.open"},  # the kernel's answer to a write of an interrupt's CPUs is its errno
    "snapshot": {"os.lstat", "os.readlink"},  # copies links as links
}
OPENS_FILES |= {f"os.path.{name}" for name in ("exists", "isfile", "isdir", "islink", "realpath")}


@pytest.mark.parametrize("file", MODULE_UTILS, ids=lambda path: path.stem)
def test_what_runs_on_nodes_needs_the_standard_library_only(file: Path) -> None:
    ours = "ansible_collections.inferops.locality.plugins.module_utils"
    foreign = {
        name for name in imported(file)
        if not name.startswith(ours) and name.split(".")[0] not in sys.stdlib_module_names
    }
    assert foreign == set()


@pytest.mark.parametrize("file", [file for file in MODULE_UTILS if file.stem != "sysroot"], ids=lambda path: path.stem)
def test_only_sysroot_opens_files(file: Path) -> None:
    assert calls(file) & OPENS_FILES == OPENS_NEVERTHELESS.get(file.stem, set())
    assert "pathlib" not in imported(file)


@pytest.mark.parametrize("file", [file for file in MODULE_UTILS if file.stem != "probe"], ids=lambda path: path.stem)
def test_only_probe_runs_commands(file: Path) -> None:
    assert "subprocess" not in imported(file)
    assert calls(file) & {"os.system", "os.popen", "os.execv", "os.execvp", "os.posix_spawn"} == set()


@pytest.mark.parametrize("stem", ["plan", "drift"])
def test_decisions_read_nothing(stem: str) -> None:
    names = imported(PLUGINS / "module_utils" / f"{stem}.py")
    assert {name for name in names if name.split(".")[-1] in {"sysroot", "probe", "os", "io", "socket", "time", "datetime"}} == set()


# -- modules and roles ----------------------------------------------------------------------------------------------


def modules() -> set[str]:
    return {path.stem for path in (PLUGINS / "modules").glob("*.py") if path.stem != "__init__"}


def test_every_module_is_in_the_collections_action_group() -> None:
    groups = load(TOP / "meta" / "runtime.yml")["action_groups"]
    assert set(groups["locality"]) == modules()
    assert set(groups["node"]) == {name for name in modules() if "\n  root:\n" in (PLUGINS / "modules" / f"{name}.py").read_text(encoding="utf-8")}


def test_every_action_plugin_has_a_documented_module() -> None:
    assert {path.stem for path in (PLUGINS / "action").glob("*.py")} <= modules()


@pytest.mark.parametrize("role", ROLES)
def test_arguments_of_a_role_are_its_defaults(role: str) -> None:
    options = load(TOP / "roles" / role / "meta" / "argument_specs.yml")["argument_specs"]["main"]["options"]
    defaults = load(TOP / "roles" / role / "defaults" / "main.yml") or {}
    assert set(defaults) <= set(options)
    assert [name for name in options if not name.startswith(f"{role}_")] == []
    undefined = [name for name, option in options.items() if name not in defaults and not option.get("required")]
    assert undefined == [], "an argument without a default is required"


@pytest.mark.parametrize("role", ROLES)
def test_a_role_computes_no_cpu_list(role: str) -> None:
    """The plan decides; a role that subtracts or joins lists would decide a second time."""
    wrong = re.compile(r"inferops\.locality\.cpu_(difference|intersection|union)\b")
    kinds = ("tasks", "templates", "defaults", "vars", "handlers")
    files = [file for kind in kinds for file in (TOP / "roles" / role / kind).rglob("*") if file.is_file()]
    assert [str(file.relative_to(TOP)) for file in files if wrong.search(file.read_text(encoding="utf-8"))] == []


def test_the_next_release_is_the_one_that_new_things_name() -> None:
    version = load(TOP / "galaxy.yml")["version"]
    added = re.compile(r"^version_added: ['\"]?([0-9.]+)", re.MULTILINE)
    named = {found for path in PLUGINS.rglob("*.py") for found in added.findall(path.read_text(encoding="utf-8"))}
    assert {tuple(map(int, found.split("."))) > tuple(map(int, version.split("."))) for found in named} <= {False}
