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

from ansible_collections.inferops.locality.plugins.plugin_utils import maintenance
from ansible_collections.inferops.locality.tests.unit import playing

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
    r"|tests/sanity/ignore-.*\.txt$|tests/cluster/go\.sum$|.*\.(json|patch)$"
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


def test_the_lab_lists_its_scenarios_and_those_that_are_run() -> None:
    names = {path.parent.name for path in (TOP / "molecule").glob("*/molecule.yml") if "LOCALITY_LAB_NODES" in path.read_text(encoding="utf-8")}
    rows = re.findall(r"^\| `(\w+)` \| (always|FULL) \|", (TOP / "tests" / "lab" / "README.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert sorted(name for name, _run in rows) == sorted(names)
    program = ast.parse((TOP / "tests" / "run.py").read_text(encoding="utf-8"))
    set_there = {ast.unparse(node.targets[0]): node.value for node in program.body if isinstance(node, ast.Assign)}
    assert set(ast.literal_eval(set_there["LAB_SCENARIOS"])) == names
    assert {name for name, run in rows if run == "always"} == set(ast.literal_eval(set_there["LAB_QUICK"]))


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
    "host_settings": {"os.open"},  # gives files of the kernel back what they said
    "irq": {"os.open"},  # the kernel's answer to a write of an interrupt's CPUs is its errno
    "node_files": {"os.lstat", "os.open"},  # replaces files, forced to the disk
    "snapshot": {"os.lstat", "os.readlink"},  # copies links as links
}
OPENS_FILES |= {f"os.path.{name}" for name in ("exists", "isfile", "isdir", "islink", "realpath")}


# Imported by modules that run on the control host only. kube_client is the only one that knows the client and its HTTP library.
ON_THE_CONTROL_HOST = {
    "kube_client": {"ansible.module_utils.basic", "kubernetes", "urllib3"},
    "cluster_look": {"ansible.module_utils.urls"},
}


def roots(names: set[str]) -> set[str]:
    return {name for name in names if not any(name.startswith(f"{other}.") for other in names)}


@pytest.mark.parametrize("file", MODULE_UTILS, ids=lambda path: path.stem)
def test_what_runs_on_nodes_needs_the_standard_library_only(file: Path) -> None:
    ours = "ansible_collections.inferops.locality.plugins.module_utils"
    foreign = {
        name for name in imported(file)
        if not name.startswith(ours) and name.split(".")[0] not in sys.stdlib_module_names
    }
    assert roots(foreign) == ON_THE_CONTROL_HOST.get(file.stem, set())


@pytest.mark.parametrize("file", MODULE_UTILS, ids=lambda path: path.stem)
def test_what_runs_on_nodes_imports_nothing_that_does_not(file: Path) -> None:
    users = {"kube_client": {"cilium_turn", "cluster_look", "node_drain", "node_lock", "node_wait"}, "cluster_look": set()}
    for stem, known in users.items():
        if f"ansible_collections.inferops.locality.plugins.module_utils.{stem}" in imported(file):
            assert file.stem in known


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


# -- variables ------------------------------------------------------------------------------------------------------

VARIABLES = TOP / "docs" / "variables.md"
PLAYBOOKS = sorted((TOP / "playbooks").glob("*.yml"))
# Read from the host's variables by a plugin, for these playbooks.
READ_BY_PLUGINS = {
    name: {"site.yml", "rollback.yml"}
    for name in ("locality_records_dir", "locality_cilium", "locality_policy", "locality_root", "locality_kubeconfig", "locality_control_host")
}


def variables_read(text: str) -> set[str]:
    """Variables of the inventory that YAML or Jinja text reads; what it sets, groups and filters are none."""
    lines = [line for line in text.splitlines() if not re.match(r"\s*(#|key:)", line)]
    return set(re.findall(r"(?<![\w.'\"/-])locality_[a-z_]+\b(?!\s*:)", "\n".join(lines)))


def variable_readers() -> dict[str, set[str]]:
    """Variable → playbooks and roles that read it."""
    readers: dict[str, set[str]] = {name: set(playbooks) for name, playbooks in READ_BY_PLUGINS.items()}
    for playbook in PLAYBOOKS:
        text = playbook.read_text(encoding="utf-8")
        imported_tasks = [TOP / "playbooks" / name for name in re.findall(r"import_tasks: (tasks/\S+)", text)]
        for name in variables_read("\n".join([text, *(file.read_text(encoding="utf-8") for file in imported_tasks)])):
            readers.setdefault(name, set()).add(playbook.name)
    for role in ROLES:
        for kind in ("defaults", "vars", "tasks", "handlers", "templates"):
            for file in (path for path in (TOP / "roles" / role / kind).rglob("*") if path.is_file()):
                for name in variables_read(file.read_text(encoding="utf-8")):
                    readers.setdefault(name, set()).add(role)
    return readers


def variable_rows() -> dict[str, list[str]]:
    """The rows of the page about inventory variables, by variable."""
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in VARIABLES.read_text(encoding="utf-8").splitlines() if line.startswith("| `")]
    return {row[0].strip("`"): row for row in rows if row[0].startswith("`locality_")}


def test_every_variable_is_listed_with_its_readers() -> None:
    assert {name: set(re.findall(r"`([^`]+)`", row[4])) for name, row in variable_rows().items()} == variable_readers()


def test_plugins_read_the_variables_that_they_are_said_to() -> None:
    texts = "".join(path.read_text(encoding="utf-8") for folder in ("action", "plugin_utils") for path in (PLUGINS / folder).glob("*.py"))
    assert set(re.findall(r"\.get\(\"(locality_\w+)\"", texts)) == set(READ_BY_PLUGINS)


def test_listed_defaults_are_those_of_the_code() -> None:
    taken = re.compile(r"(?<![\w.])(locality_\w+) \| default\((\[[^]]*\]|[^(),]*)(?:, true)?\)")
    files = [*(TOP / "playbooks").rglob("*.yml"), *(TOP / "roles" / role / "defaults" / "main.yml" for role in ROLES)]
    found = {match for file in files for match in taken.findall(file.read_text(encoding="utf-8"))}
    rows = variable_rows()
    wrong = [(name, value) for name, value in found if yaml.safe_load(rows[name][2].strip("`")) != yaml.safe_load(value.replace("none", "null"))]
    assert wrong == []
    assert {name for name, _value in found} | set(READ_BY_PLUGINS) == set(rows)


def test_keys_of_the_maintenance_windows_are_listed_with_their_defaults() -> None:
    part = VARIABLES.read_text(encoding="utf-8").split("## `locality_maintenance`")[1].split("\n## ")[0]
    listed = dict(re.findall(r"^\| `(\w+)` \| (\w+) \|", part, re.MULTILINE))
    assert listed == {key: str(maintenance.NUMBERS[key][0]) if key in maintenance.NUMBERS else "none" for key in maintenance.KEYS}


def test_variables_of_the_command_line_are_read() -> None:
    part = VARIABLES.read_text(encoding="utf-8").split("## On the command line")[1].split("\n## ")[0]
    listed = re.findall(r"^\| `(\w+)` \| `(\w+\.yml)` \|", part, re.MULTILINE)
    assert listed and [
        (name, playbook) for name, playbook in listed
        if not re.search(rf"(?<![\w.]){name} \||\b{name} is (not )?defined", (TOP / "playbooks" / playbook).read_text(encoding="utf-8"))
    ] == []


def test_inventories_set_what_somebody_reads() -> None:
    files = [path for name in ("example", "demo") for path in (TOP / "inventories" / name).glob("*_vars/*.yml")]
    names = {name for path in files for name in load(path)}
    assert {name for name in names if name.startswith("locality_")} - set(variable_rows()) == set()


def test_no_rescue_makes_the_condition_of_its_own_block_false_before_it_is_through() -> None:
    """The condition of a block is asked for each task of its rescue too: what comes after a change of it would be skipped."""
    wrong = []
    for path in [*(TOP / "playbooks").rglob("*.yml"), *(TOP / "roles").rglob("tasks/*.yml")]:
        for block in (task for task in playing.every_task(yaml.safe_load(path.read_text(encoding="utf-8"))) if "rescue" in task):
            read = set(re.findall(r"\w+", str(block.get("when", ""))))
            set_facts = [set(task.get("ansible.builtin.set_fact", {})) for task in block["rescue"]]
            wrong += [f"{path.relative_to(TOP)}: {name}" for names in set_facts[:-1] for name in names & read]
    assert wrong == []


def test_every_command_with_an_answer_says_whether_a_dry_run_runs_it() -> None:
    """In check mode a command is skipped, and who waits for its answer, or reads it, fails a dry run of a node that nothing is wrong with."""
    commands = {f"ansible.builtin.{name}" for name in ("command", "shell", "raw", "script")}
    found = [
        (path.relative_to(TOP), task["name"], "check_mode" in task or "not ansible_check_mode" in str(task.get("when")))
        for folder in ("roles", "playbooks") for path in sorted((TOP / folder).rglob("*.yml")) if not {"meta", "defaults", "vars"} & set(path.parts)
        for task in playing.every_task(yaml.safe_load(path.read_text(encoding="utf-8")))
        if commands & task.keys() and {"register", "until", "failed_when"} & task.keys()
    ]
    assert found and [task[:2] for task in found if not task[2]] == []
