# Copyright (c) 2026 The inferops.locality authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs the tests in stages; ``make test`` calls it with the Python of .venv.

    python tests/run.py               all stages but cluster and lab; those too that LOCALITY_REQUIRE names
    python tests/run.py lint units    these
    python tests/run.py --list        what there is

LOCALITY_TIME=SECONDS is for a computer that ends a run after a while: what is left for cluster and lab is used as far as it goes. A
step of theirs for which it does not suffice is not begun, one that it does not suffice for after all is ended; both are said, and
counted as skipped. FULL=1 runs what has no place in a run of every day.

Each command's output goes to tests/output/<stage>/. The last line is ``N passed, N failed``, with ``, N skipped`` if tests
were skipped: every unit and sanity test counts on every Python it ran on, every other command counts once. The exit code is 1 if
anything failed.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
import threading
import time
import xml.etree.ElementTree as ET
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Callable, Sequence

sys.path.insert(0, str(Path(__file__).resolve().parent / "tools"))
import env

TOP = env.TOP
OUTPUT = TOP / "tests" / "output"
VENVS = env.CACHE / "venvs"
TAIL = 60
# Of one command. Playing playbooks on a slow computer takes its time.
TIMEOUT = 2400
ARTIFACT_LIMIT = 2 * 1024 * 1024

# Scenarios that need a node of tests/lab, and the seconds each may take. Without FULL=1 the quick ones are run.
LAB_SCENARIOS = {
    "kubelet_state": 5400, "rollout": 5400, "rollout_resume": 5400,
    "host_tuning": 1800, "irq_affinity": 1500, "boot_fallback": 1800, "knobs": 3600, "removal": 2700, "pcie": 2700, "traffic": 1200, "isolation": 1200,
    "cilium": 900,
}
# Those of them whose nodes are nodes of a control plane, and its name.
LAB_CLUSTERS = {"kubelet_state": "kubelet", "rollout": "rollout", "rollout_resume": "rollout-resume"}
# The quick ones, and the seconds they took, two at a time on two cores without KVM.
LAB_QUICK = {"host_tuning": 810, "irq_affinity": 750, "boot_fallback": 1380}
LAB_IMAGE = 200
LAB_AT_ONCE = 2

# Scenarios on a control plane with stand-ins for nodes, and the seconds each may take. They need Go.
CLUSTER_SCENARIOS = {"dra": 900}

# Stages that are run only if asked for, and the seconds that the cluster's programs may take to build and its tests to run.
ON_DEMAND = ("cluster", "lab")
CLUSTER_BUILD = 3600
CLUSTER_TESTS = 2700
# What both took there, from nothing, on a slow day.
CLUSTER_TOOK = 1800

# The oldest controller the collection supports, and the Pythons it runs on, oldest first.
OLD_CORE = "2.19"
OLD_CORE_MINORS = (11, 12, 13)


@dataclass
class Count:
    passed: int = 0
    failed: int = 0
    skipped: int = 0

    def add(self, other: Count) -> None:
        self.passed += other.passed
        self.failed += other.failed
        self.skipped += other.skipped

    def __str__(self) -> str:
        return f"{self.passed} passed, {self.failed} failed" + (f", {self.skipped} skipped" if self.skipped else "")


class StageError(Exception):
    """A step that later ones need went wrong; it is counted as failed already."""


@dataclass
class Run:
    """One run of the stages: what they share, and what they counted."""

    count: Count = field(default_factory=Count)
    stage: str = ""
    number: int = 0
    scratch: Path = field(default_factory=lambda: Path(tempfile.mkdtemp(prefix="locality-test-")))
    running: set[int] = field(default_factory=set)
    lock: threading.Lock = field(default_factory=threading.Lock)
    deadline: float = field(default_factory=lambda: time.monotonic() + float(os.environ.get("LOCALITY_TIME", "inf")))

    # -- the time that is left ------------------------------------------------------------------------------------

    def left(self) -> float:
        """Seconds until the deadline."""
        return max(self.deadline - time.monotonic(), 0.0)

    def has_time(self, name: str, seconds: float) -> bool:
        """Whether a step that takes so many seconds is to be begun; if not, it is said and counted."""
        left = self.left()
        if left < seconds:
            self.count.add(Count(skipped=1))
            print(f"  no time           {name}: it takes {seconds:.0f} s, and {left:.0f} s of LOCALITY_TIME are left", flush=True)
        return left >= seconds

    def judge(self, code: int) -> Count:
        """What a command counts that may have been ended by the deadline."""
        if code and not self.left():
            return Count(skipped=1)
        return Count(failed=1) if code else Count(passed=1)

    # -- commands and their results -------------------------------------------------------------------------------

    def log(self, name: str) -> Path:
        self.number += 1
        folder = OUTPUT / self.stage
        folder.mkdir(parents=True, exist_ok=True)
        return folder / f"{self.number:02d}-{re.sub(r'[^A-Za-z0-9.]+', '-', name)}.log"

    def tell(self, name: str, count: Count, seconds: float, log: Path | None = None) -> None:
        self.count.add(count)
        word = "FAILED" if count.failed else "ok" if count.passed else "ended"
        detail = f"  {count}" if count.passed + count.failed + count.skipped != 1 else ""
        print(f"  {word:6} {seconds:6.1f} s  {name}{detail}", flush=True)
        if count.failed and log and log.exists():
            lines = log.read_text(errors="replace").splitlines()
            print(*(f"         | {line}" for line in lines[-TAIL:]), f"         (all of it: {log.relative_to(TOP)})", sep="\n", flush=True)

    def execute(self, command: Sequence[str | Path], log: Path, cwd: Path = TOP, timeout: float = TIMEOUT, **variables: str) -> int:
        with open(log, "w", encoding="utf-8") as out:
            print("$", *command, file=out, flush=True)
            try:
                # A group of its own: what the command starts ends with it.
                process = subprocess.Popen(
                    [str(word) for word in command], cwd=cwd, env=environment(**variables), stdin=subprocess.DEVNULL,
                    stdout=out, stderr=subprocess.STDOUT, start_new_session=True,
                )
            except OSError as error:
                print(error, file=out)
                return 127
            with self.lock:
                self.running.add(process.pid)
            try:
                return process.wait(timeout)
            except subprocess.TimeoutExpired:
                print(f"stopped after {timeout:.0f} s", file=out)
                return 124
            finally:
                if process.returncode is None:
                    self.end(process.pid)
                    process.wait()
                with self.lock:
                    self.running.discard(process.pid)

    @staticmethod
    def end(group: int) -> None:
        try:
            os.killpg(group, signal.SIGKILL)
        except ProcessLookupError:
            pass

    def end_all(self) -> None:
        with self.lock:
            for group in self.running:
                self.end(group)

    def command(self, name: str, command: Sequence[str | Path], cwd: Path = TOP, **variables: str) -> str:
        """Run one command that counts as one test; returns what it printed.

        :raises StageError: if it failed.
        """
        log = self.log(name)
        start = time.monotonic()
        code = self.execute(command, log, cwd, **variables)
        self.tell(name, Count(failed=1) if code else Count(passed=1), time.monotonic() - start, log)
        if code:
            raise StageError(name)
        return log.read_text(errors="replace")

    def commands(self, *commands: tuple[str, Sequence[str | Path]], cwd: Path = TOP, **variables: str) -> None:
        """Run commands that do not need each other: all of them, even if one fails."""
        for name, command in commands:
            try:
                self.command(name, command, cwd, **variables)
            except StageError:
                pass

    def check(self, name: str, problems: Sequence[str]) -> None:
        """Count one thing looked at here."""
        log = self.log(name)
        log.write_text("".join(f"{problem}\n" for problem in problems))
        self.tell(name, Count(failed=1) if problems else Count(passed=1), 0.0, log)

    def pytest(self, name: str, python: Path, arguments: Sequence[str], timeout: float = TIMEOUT, **variables: str) -> None:
        """Run pytest and count its tests; an error outside the tests, or no test at all, counts as a failure."""
        log = self.log(name)
        junit = log.with_suffix(".xml")
        junit.unlink(missing_ok=True)
        # A file to a worker: two of them would make twice what its tests share, and playing playbooks takes minutes.
        command = [python, "-m", "pytest", "-q", "--color=no", "-p", "no:cacheprovider", "-n", "2", "--dist", "loadfile", f"--junitxml={junit}", *arguments]
        start = time.monotonic()
        code = self.execute(command, log, timeout=timeout, **variables)
        if code == 124 and not self.left():
            count = self.judge(code)
        else:
            count = count_junit(junit)
            if (code != 0) != (count.failed > 0):
                count.failed += 1
        self.tell(name, count, time.monotonic() - start, log)

    # -- what stages share ----------------------------------------------------------------------------------------

    def venv(self, name: str, python: str, requirements: Sequence[str]) -> Path:
        """An environment under .cache/venvs; returns its bin folder.

        :raises StageError: if it cannot be made.
        """
        log = self.log(f"venv {name}")
        try:
            return env.ensure(VENVS / name, python, requirements, log)
        except subprocess.CalledProcessError:
            self.tell(f"environment {name}", Count(failed=1), 0.0, log)
            raise StageError(name) from None

    @cached_property
    def pythons(self) -> dict[int, str]:
        """Minor version → interpreter, for every supported Python on this machine."""
        found = subprocess.run(["sh", str(TOP / "tests/tools/find_python.sh"), "all"], check=False, capture_output=True, text=True, stdin=subprocess.DEVNULL)
        pairs = (line.split(" ", 1) for line in found.stdout.splitlines())
        pythons = {int(minor): path for minor, path in pairs}
        pythons.setdefault(sys.version_info.minor, env.base_executable())
        return pythons

    @cached_property
    def tree(self) -> Path:
        """A copy of the checkout under the collection's name: ansible-test resolves symlinks, so the import tree will not do.

        It holds what git knows and what is new and not ignored, so a file nobody added yet is tested too.
        """
        listed = subprocess.run(
            ["git", "-c", f"safe.directory={TOP}", "ls-files", "-z", "--cached", "--others", "--exclude-standard"], cwd=TOP, check=True, capture_output=True,
        ).stdout.decode()
        tree = self.scratch / "ansible_collections" / "inferops" / "locality"
        for name in filter(None, listed.split("\0")):
            source, target = TOP / name, tree / name
            if source.is_symlink() or source.is_file():
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(source, target, follow_symlinks=False)
        return tree

    @cached_property
    def bundle(self) -> Path:
        """Bin folder of an environment with the package ``ansible``: it brings the collections that ours depends on."""
        return self.venv("bundle", env.base_executable(), ["ansible", "-r", str(TOP / "requirements.txt")])

    @cached_property
    def old_core(self) -> Path | None:
        """Bin folder of an environment with the oldest supported ansible-core; None if .venv has that one already."""
        minor = next((minor for minor in OLD_CORE_MINORS if minor in self.pythons), None)
        if minor is None or core_version(Path(sys.executable).parent).startswith(f"{OLD_CORE}."):
            return None
        requirements = [f"ansible-core=={OLD_CORE}.*", "-r", str(TOP / "requirements.txt"), "-r", str(TOP / "tests/unit/requirements.txt"), "pytest-xdist"]
        return self.venv(f"core{OLD_CORE}", self.pythons[minor], requirements)

    # -- sanity ---------------------------------------------------------------------------------------------------

    def sanity(self, name: str, bin_folder: Path, *arguments: str) -> None:
        home = sanity_home(self, bin_folder)
        names = env.CACHE / "pythons"
        shutil.rmtree(names, ignore_errors=True)
        names.mkdir(parents=True)
        for minor, path in self.pythons.items():
            wrapper = names / f"python3.{minor}"
            wrapper.write_text(f'#!/bin/sh\nexec "{path}" "$@"\n')
            wrapper.chmod(0o755)
        path = os.pathsep.join([str(bin_folder), str(names), os.environ["PATH"]])
        command = [bin_folder / "ansible-test", "sanity", "--local", "--color", "no", "--truncate", "0", *arguments]
        log = self.log(name)
        start = time.monotonic()
        code = self.execute(command, log, self.tree, HOME=str(home), PATH=path)
        text = log.read_text(errors="replace")
        ran = len(re.findall(r"^Running sanity test ", text, re.MULTILINE))
        verdict = re.search(r"^FATAL: The (\d+) sanity test", text, re.MULTILINE)
        failed = int(verdict.group(1)) if verdict else int(code != 0 or not ran)
        # What it installed on the way is of no interest here: only its findings are.
        findings = log.with_suffix(".findings")
        findings.write_text("\n".join(re.findall(r"^(?:ERROR|FATAL): .*", text, re.MULTILINE)) or text)
        self.tell(name, Count(passed=max(ran - failed, 0), failed=failed), time.monotonic() - start, findings)
        for python in sorted(set(re.findall(r"^WARNING: Skipping sanity test .* on (Python \S+) because it could not be found", text, re.MULTILINE))):
            print(f"         no {python} here", flush=True)

    # -- the demo -------------------------------------------------------------------------------------------------

    def demo(self, bin_folder: Path, inventory: Path, site: str, cwd: Path, **variables: str) -> None:
        """site.yml on the demo's nodes four times: the check run says what the real one does, and the second one does nothing."""
        play = [bin_folder / "ansible-playbook", "-i", inventory]
        shutil.rmtree(inventory / ".nodes", ignore_errors=True)
        try:
            foretold = recap(self.command(f"{site} --check --diff on clean nodes", [*play, site, "--check", "--diff"], cwd, **variables))
            done = recap(self.command(f"{site}", [*play, site], cwd, **variables))
            again = recap(self.command(f"{site} again", [*play, site], cwd, **variables))
        except StageError:
            return
        finally:
            # The tree is tested further: the nodes' files are not the collection's.
            shutil.rmtree(inventory / ".nodes", ignore_errors=True)
        surprises = [f"{host}: foretold {foretold.get(host)}, done {done[host]}" for host in done if foretold.get(host) != done[host]]
        idle = [f"{host} changed nothing" for host, changed in done.items() if host != "localhost" and not changed]
        self.check("the check run foretold each host's changes", surprises)
        self.check("the first run changed every node", idle if done else ["no host ran"])
        self.check("the second run changed nothing", [f"{host}: changed={changed}" for host, changed in again.items() if changed])


def environment(**variables: str) -> dict[str, str]:
    """The environment of every command: no Ansible setting of the user's, no Python path but those given."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("ANSIBLE_", "MOLECULE_", "PYTHON"))}
    kept.pop("VIRTUAL_ENV", None)
    return {**kept, "ANSIBLE_NOCOLOR": "1", "NO_COLOR": "1", "PYTHONDONTWRITEBYTECODE": "1", **variables}


def count_junit(file: Path) -> Count:
    try:
        suites = list(ET.parse(file).getroot().iter("testsuite"))
    except (OSError, ET.ParseError):
        return Count(failed=1)
    number = {key: sum(int(suite.get(key, 0)) for suite in suites) for key in ("tests", "failures", "errors", "skipped")}
    failed = number["failures"] + number["errors"]
    passed = number["tests"] - failed - number["skipped"]
    return Count(passed, failed or (0 if passed else 1), number["skipped"])


def recap(text: str) -> dict[str, int]:
    """Host → number of changed tasks, from the last lines of ansible-playbook."""
    return {host: int(changed) for host, changed in re.findall(r"^(\S+)\s+: ok=\d+\s+changed=(\d+)\s", text, re.MULTILINE)}


def core_version(bin_folder: Path) -> str:
    code = "from ansible.release import __version__; print(__version__)"
    return subprocess.run([str(bin_folder / "python"), "-c", code], check=True, capture_output=True, text=True, env=environment()).stdout.strip()


def site_packages(bin_folder: Path) -> Path:
    return next((bin_folder.parent / "lib").glob("python3*/site-packages"))


GET_PIP = """\
# Stands in for get-pip.py, which ansible-test would fetch: installs with the pip wheel that lies beside this file.
import pathlib, runpy, sys
sys.path.insert(0, str(pathlib.Path(__file__).with_name("pip-{version}-py3-none-any.whl")))
sys.argv = ["pip", "install", "--upgrade"] + [word for word in sys.argv[1:] if word not in ("--no-setuptools", "--no-wheel")]
runpy.run_module("pip", run_name="__main__")
"""


def sanity_home(run: Run, bin_folder: Path) -> Path:
    """A home folder of ansible-test's own under .cache, with the pip it would fetch from a server of its own.

    ansible-test makes one environment for each sanity test below ``~/.ansible/test`` and wants one version of pip for it. Here
    that pip comes from the package index like everything else, and the user's home is left alone.
    """
    home = env.CACHE / "home"
    cache = home / ".ansible" / "test" / "cache"
    cache.mkdir(parents=True, exist_ok=True)
    config = home / ".config" / "pip" / "pip.conf"
    for users in (Path.home() / ".config" / "pip" / "pip.conf", Path.home() / ".pip" / "pip.conf"):
        if users.exists() and not config.exists():
            config.parent.mkdir(parents=True, exist_ok=True)
            config.symlink_to(users)
    source = (site_packages(bin_folder) / "ansible_test" / "_internal" / "python_requirements.py").read_text()
    found = re.search(r"default_packages = dict\(\s*pip='([0-9.]+)'", source)
    if not found:
        raise StageError("this ansible-test does not say which pip it wants")
    version = found.group(1)
    script = cache / f"get_pip_{version.replace('.', '_')}.py"
    if not script.exists():
        log = run.log(f"pip {version}")
        if run.execute([bin_folder / "python", "-m", "pip", "download", "--quiet", "--no-deps", "-d", cache, f"pip=={version}"], log):
            run.tell(f"download of pip {version}", Count(failed=1), 0.0, log)
            raise StageError("pip")
        script.write_text(GET_PIP.format(version=version))
    return home


# -- the stages -------------------------------------------------------------------------------------------------------


def lint(run: Run) -> None:
    """style, types, YAML, Ansible's own rules, docs and changelog"""
    bin_folder = Path(sys.executable).parent
    collections = os.pathsep.join([str(env.TREE), str(site_packages(run.bundle))])
    docs = ["lint-collection-docs", "--plugin-docs", "--validate-collection-refs", "dependent", "--skip-rstcheck", "."]
    run.commands(
        ("ruff", [bin_folder / "ruff", "check", "."]),
        ("mypy", [bin_folder / "mypy"]),
        ("yamllint", [bin_folder / "yamllint", "--strict", "."]),
        ("ansible-lint", [bin_folder / "ansible-lint", "--offline", "--strict"]),
        ("antsibull-changelog lint", [bin_folder / "antsibull-changelog", "lint"]),
        ("antsibull-docs", [bin_folder / "antsibull-docs", *docs]),
        ("shell syntax", ["sh", "-n", "tests/tools/find_python.sh"]),
        ANSIBLE_COLLECTIONS_PATH=collections,
        PATH=os.pathsep.join([str(bin_folder), os.environ["PATH"]]),
    )


def units(run: Run) -> None:
    """unit tests with the newest ansible-core on the newest Python"""
    run.pytest(f"Python 3.{sys.version_info.minor}, ansible-core {core_version(Path(sys.executable).parent)}", Path(sys.executable), [])


def pythons(run: Run) -> None:
    """unit tests of what runs on the nodes, on the oldest Python found; with FULL=1 on each but those of the other stages"""
    # Of ansible-core only what a module sees on a node: the rest does not run on the older Pythons.
    library = env.CACHE / "node-library" / "ansible"
    shutil.rmtree(library.parent, ignore_errors=True)
    library.mkdir(parents=True)
    (library / "__init__.py").touch()
    origin = site_packages(Path(sys.executable).parent) / "ansible"
    for name in ("module_utils", "release.py"):
        (library / name).symlink_to(origin / name)
    others = [
        minor for minor in sorted(run.pythons)
        if minor != sys.version_info.minor and not (run.old_core and site_packages(run.old_core).parent.name == f"python3.{minor}")
    ]
    for minor in others if os.environ.get("FULL") else others[:1]:
        try:
            bin_folder = run.venv(f"py3.{minor}", run.pythons[minor], ["-r", str(TOP / "tests/unit/requirements.txt"), "pytest-xdist"])
        except StageError:
            continue
        run.pytest(
            f"Python 3.{minor}", bin_folder / "python", ["tests/unit/plugins/module_utils", "tests/unit/plugins/modules"],
            PYTHONPATH=str(library.parent), LOCALITY_HYPOTHESIS="quick",
        )


def sanity(run: Run) -> None:
    """ansible-test sanity: all of it on the newest Python, compile and import on every Python found"""
    run.sanity("ansible-test sanity", Path(sys.executable).parent)


def oldest(run: Run) -> None:
    """the oldest supported ansible-core: units of what it loads or runs, sanity of the modules"""
    bin_folder = run.old_core
    if bin_folder is None:
        print(f"  nothing to do: no further Python for ansible-core {OLD_CORE} here, or .venv has it already", flush=True)
        return
    # Plans, the corpus and the lab have nothing of Ansible in them. The playbooks' tests play the demo too, and with it the roles.
    left_out = ("plugins/module_utils", "corpus", "test_golden.py", *(() if os.environ.get("FULL") else ("roles",)))
    run.pytest(
        f"units, ansible-core {core_version(bin_folder)}", bin_folder / "python", ["tests/unit", *(f"--ignore=tests/unit/{path}" for path in left_out)],
        LOCALITY_HYPOTHESIS="quick",
    )
    run.sanity("ansible-test sanity", bin_folder, "--test", "validate-modules", "--test", "import", "--test", "compile", "--test", "ansible-doc")


def mutations(run: Run) -> None:
    """each kept mutation of plan.py must fail a test"""
    log = run.log("mutations")
    start = time.monotonic()
    code = run.execute([sys.executable, "tests/unit/mutations/run.py"], log)
    lines = log.read_text(errors="replace").splitlines()
    failed = sum(line.startswith("FAILED") for line in lines)
    run.tell("mutations", Count(sum(line.startswith("ok ") for line in lines), failed or int(code != 0)), time.monotonic() - start, log)


def demo(run: Run) -> None:
    """site.yml on the three nodes on paper, in a copy of the checkout"""
    run.demo(Path(sys.executable).parent, run.tree / "inventories" / "demo", "playbooks/site.yml", run.tree, ANSIBLE_COLLECTIONS_PATH=str(run.scratch))


def molecule(run: Run) -> None:
    """molecule test, as typed in the checkout"""
    bin_folder = Path(sys.executable).parent
    run.command("molecule test", [bin_folder / "molecule", "test"], PATH=os.pathsep.join([str(bin_folder), os.environ["PATH"]]))


def artifact(run: Run) -> None:
    """build, install elsewhere with the dependencies, run inferops.locality.site from there"""
    galaxy = run.bundle / "ansible-galaxy"
    dist, installed, elsewhere = (run.scratch / name for name in ("dist", "installed", "elsewhere"))
    elsewhere.mkdir()
    run.command("ansible-galaxy collection build", [galaxy, "collection", "build", "--output-path", dist], run.tree)
    file = next(dist.glob("inferops-locality-*.tar.gz"))
    with tarfile.open(file) as archive:
        names = archive.getnames()
    strays = [name for name in names if re.search(r"(^|/)(\.venv|\.cache|\.git|\.nodes|__pycache__|tests)(/|$)|\.pyc$", name)]
    size = file.stat().st_size
    excess = [f"{size} bytes, more than {ARTIFACT_LIMIT}"] if size > ARTIFACT_LIMIT else []
    run.check(f"the artifact holds the collection and nothing else: {size // 1024} KiB, {len(names)} entries", strays + excess)
    shutil.copy2(file, OUTPUT / "artifact")
    run.command("ansible-galaxy collection install --offline", [galaxy, "collection", "install", "--offline", file, "-p", installed], elsewhere)
    inventory = installed / "ansible_collections" / "inferops" / "locality" / "inventories" / "demo"
    run.demo(run.bundle, inventory, "inferops.locality.site", elsewhere, ANSIBLE_COLLECTIONS_PATH=str(installed))


def cluster_programs(run: Run) -> None:
    """:raises StageError: they cannot be made."""
    log = run.log("programs")
    start = time.monotonic()
    code = run.execute([Path(sys.executable).parent / "python", "tests/cluster/cluster.py", "binaries"], log, timeout=min(CLUSTER_BUILD, run.left()))
    run.tell("programs of the cluster", run.judge(code), time.monotonic() - start, log)
    if code:
        raise StageError("programs")


def cluster(run: Run) -> None:
    """a real control plane on the loopback address, its nodes stand-ins (tests/cluster/README.md says what it needs)"""
    python = Path(sys.executable).parent / "python"
    if not run.has_time("cluster", CLUSTER_TOOK):
        return
    cluster_programs(run)
    real = ("tests/cluster/test_real_node.py", "tests/cluster/test_kubelet_knobs.py")
    # The scenario kubelet_state of the lab runs the table.
    elsewhere = [f"--ignore={path}" for path in (*real, "tests/cluster/test_kubelet_state.py")]
    run.pytest("pytest tests/cluster", python, ["tests/cluster", *elsewhere], min(CLUSTER_TESTS, run.left()), LOCALITY_REQUIRE="cluster")
    path_with_tools = os.pathsep.join([str(python.parent), os.environ["PATH"]])
    for name, budget in CLUSTER_SCENARIOS.items():
        if not shutil.which("go"):
            run.count.add(Count(skipped=1))
            print(f"  left out          molecule test -s {name}: it needs Go", flush=True)
        elif run.has_time(name, budget / 2):
            log, start = run.log(name), time.monotonic()
            try:
                code = run.execute([python.parent / "molecule", "test", "-s", name], log, timeout=min(budget, run.left()), PATH=path_with_tools)
            finally:
                # One that was ended has not put it down.
                subprocess.run([python, "tests/cluster/cluster.py", "down", name], cwd=TOP, check=False, capture_output=True)
            run.tell(f"molecule test -s {name}  (budget {budget} s)", run.judge(code), time.monotonic() - start, log)
    for path in real if os.environ.get("FULL") else ():
        run.pytest(f"pytest {path}", python, ["-n", "0", path], min(CLUSTER_TESTS, run.left()), LOCALITY_REQUIRE="cluster")


def lab(run: Run) -> None:
    """molecule scenarios on virtual nodes with real kernels (tests/lab/README.md says what they need)"""
    bin_folder = Path(sys.executable).parent
    program: list[str | Path] = [bin_folder / "python", "tests/lab/lab.py"]
    chosen = {name: budget for name, budget in LAB_SCENARIOS.items() if name in LAB_QUICK or os.environ.get("FULL")}
    if not run.has_time("lab", LAB_IMAGE + min(LAB_QUICK.values())):
        return
    since = time.strftime("%Y-%m-%dT%H:%M:%S")
    before = lab_nodes(program)
    run.command("image of the nodes", [*program, "image"])
    if any(name in LAB_CLUSTERS for name in chosen):
        cluster_programs(run)
    path = os.pathsep.join([str(bin_folder), os.environ["PATH"]])

    def scenario(name: str, budget: int, log: Path) -> None:
        if not run.has_time(name, LAB_QUICK.get(name, budget)):
            return
        start = time.monotonic()
        code = run.execute([bin_folder / "molecule", "test", "-s", name], log, timeout=min(budget, run.left()), PATH=path)
        run.tell(f"molecule test -s {name}  (budget {budget} s)", run.judge(code), time.monotonic() - start, log)

    try:
        # An emulated node keeps one CPU busy most of the time.
        with ThreadPoolExecutor(LAB_AT_ONCE) as pool:
            tasks = [pool.submit(scenario, name, budget, run.log(name)) for name, budget in chosen.items()]
            try:
                for task in tasks:
                    task.result()
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)
                run.end_all()
                raise
    finally:
        for node in lab_nodes(program) - before:
            subprocess.run([*map(str, program), "down", node], cwd=TOP, check=False, capture_output=True)
        for name in (cluster for scenario, cluster in LAB_CLUSTERS.items() if scenario in chosen):
            subprocess.run([program[0], "tests/cluster/cluster.py", "down", name], cwd=TOP, check=False, capture_output=True)
    log = run.log("boots")
    run.execute([*program, "boots", "--since", since], log)
    print(*(f"         | {line}" for line in log.read_text(errors="replace").splitlines()[1:]), sep="\n", flush=True)


def lab_nodes(program: Sequence[str | Path]) -> set[str]:
    status = subprocess.run([*map(str, program), "status", "--json"], cwd=TOP, check=False, capture_output=True, text=True)
    return {node["node"] for node in json.loads(status.stdout or "[]")}


# Quick ones first, so that a slip is told soon.
STAGES: tuple[Callable[[Run], None], ...] = (lint, units, mutations, demo, molecule, artifact, sanity, oldest, pythons, cluster, lab)


def main(arguments: Sequence[str]) -> int:
    stages = {stage.__name__: stage for stage in STAGES}
    if arguments == ["--list"]:
        print(*(f"{name:10} {stage.__doc__}" for name, stage in stages.items()), sep="\n")
        return 0
    unknown = [name for name in arguments if name not in stages]
    if unknown:
        print(f"No stage {', '.join(unknown)}; there are {', '.join(stages)}.", file=sys.stderr)
        return 2
    required = os.environ.get("LOCALITY_REQUIRE", "").split(",")
    wanted = arguments or [name for name in stages if name not in ON_DEMAND or name in required]
    run = Run()
    start = time.monotonic()
    times = {}
    # Whoever ends this run ends all that it started.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        for name, stage in stages.items():
            if name not in wanted:
                continue
            print(f"{name}: {stage.__doc__}", flush=True)
            run.stage, run.number = name, 0
            shutil.rmtree(OUTPUT / name, ignore_errors=True)
            (OUTPUT / name).mkdir(parents=True)
            begin = time.monotonic()
            try:
                stage(run)
            except StageError:
                print("  the rest of this stage needs that", flush=True)
            times[name] = time.monotonic() - begin
    except KeyboardInterrupt:
        run.end_all()
        print("interrupted", file=sys.stderr)
        return 130
    finally:
        shutil.rmtree(run.scratch, ignore_errors=True)
    print("times: " + ", ".join(f"{name} {seconds:.0f} s" for name, seconds in times.items()) + f"; {time.monotonic() - start:.0f} s in all")
    print(run.count, flush=True)
    return 1 if run.count.failed or not run.count.passed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
