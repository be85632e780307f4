# Copyright (c) 2026 The inferops.locality authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The playbooks as an operator runs them: the demo from a clean tree to an audit, secrets, and input that is wrong."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tarfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from ansible_collections.inferops.locality.plugins.module_utils import knobs
from ansible_collections.inferops.locality.plugins.plugin_utils import paper
from ansible_collections.inferops.locality.tests.unit import playing
from ansible_collections.inferops.locality.tests.unit.fixtures import machines as fixtures

HOSTS = ("cpu-snc2-cxl", "h100-8gpu-8nic", "h100-sxm-4gpu")
SECRET = "demo-canary"

_CHANGED = re.compile(r"^changed: \[[^]]+\].*$", re.MULTILINE)
_DIFF = re.compile(r"^[-+].*$", re.MULTILINE)


def _changes(run: playing.Run) -> list[str]:
    return _CHANGED.findall(run.out)


def _diff(run: playing.Run) -> list[str]:
    """The lines of all diffs; a rendered template has another temporary name in each run."""
    return [re.sub(r"^(\+\+\+ after: ).*/", r"\1", line) for line in _DIFF.findall(run.out)]


@dataclass(frozen=True)
class Demo:
    """The demo's nodes before and after, and the runs in between."""

    trees: Path
    clean: dict[str, dict[str, str]]
    after_check: dict[str, dict[str, str]]
    written: dict[str, dict[str, str]]
    check: playing.Run
    first: playing.Run
    second: playing.Run
    audit: playing.Run
    facts: Path
    records: Path

    def contents(self) -> dict[str, dict[str, str]]:
        """What is on the nodes now."""
        return {host: playing.contents(self.trees / host) for host in HOSTS}


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Demo:
    """Check, run, run again and audit the demo, as talkative as can be."""
    folder = tmp_path_factory.mktemp("demo")
    trees, facts, records = folder / "trees", folder / "facts", folder / "records"
    env = {"LOCALITY_PAPER_TREES": str(trees), "ANSIBLE_CACHE_PLUGIN": "jsonfile", "ANSIBLE_CACHE_PLUGIN_CONNECTION": str(facts)}
    for file in (playing.DEMO / "nodes").glob("*.yml"):
        paper.build(paper.load(file), trees / file.stem)
    clean = {host: playing.contents(trees / host) for host in HOSTS}
    check = playing.play("site", "--check", "--diff", inventory=playing.DEMO, env=env)
    after_check = {host: playing.contents(trees / host) for host in HOSTS}
    first = playing.play("site", "--diff", inventory=playing.DEMO, env=env)
    written = {host: playing.contents(trees / host) for host in HOSTS}
    second = playing.play("site", "-vvv", "-e", f"locality_records_dir={records}", inventory=playing.DEMO, env=env)
    audit = playing.play("audit", "-vvv", inventory=playing.DEMO, env=env)
    return Demo(trees, clean, after_check, written, check, first, second, audit, facts, records)


def test_check_mode_writes_nothing(demo: Demo) -> None:
    assert demo.check.rc == 0, demo.check.text
    assert demo.after_check == demo.clean


def test_check_mode_says_what_the_run_does(demo: Demo) -> None:
    assert demo.first.rc == 0, demo.first.text
    assert _changes(demo.check) == _changes(demo.first)
    assert _diff(demo.check) == _diff(demo.first)


@pytest.mark.parametrize("host", HOSTS)
def test_what_check_mode_did_not_name_is_as_before(demo: Demo, host: str) -> None:
    before, after = demo.clean[host], demo.written[host]
    assert [path for path in before if after.get(path) != before[path]] == []
    new = [path for path in after if path not in before]
    # Folders above a new file come with it.
    files = [path for path in new if after[path] != "folder" or not any(other.startswith(path + "/") for other in new)]
    assert files
    assert [path for path in files if path not in demo.check.out] == []


def test_a_second_run_changes_nothing(demo: Demo) -> None:
    assert demo.second.rc == 0, demo.second.text
    assert {host: demo.second.recap[host]["changed"] for host in HOSTS} == dict.fromkeys(HOSTS, 0)
    assert "PLAY [Bring nodes to their plan]" not in demo.second.out or "no hosts matched" in demo.second.text


def test_an_audit_of_the_written_nodes_is_clean(demo: Demo) -> None:
    assert demo.audit.rc == 0, demo.audit.text
    assert "3 nodes: 3 in sync" in demo.audit.out
    assert "file.stray" not in demo.audit.out


@pytest.mark.parametrize(
    "text",
    [
        "0-1,32-33,64-65,96-97 (8 CPUs)",  # housekeeping of the four-GPU node
        "0000:9a:00.0  0000:1a:00.0  SYS",  # a GPU and the only NIC
        "far from NICs   0000:9a:00.0, 0000:9b:00.0",
        "64 x 1Gi",
        "drift before    reboot: kernel.isolcpus",
        "closed: ",  # or open, see below
        "warning gpu.far_from_nics",
    ],
)
def test_the_summary_has_what_an_operator_asks_for(demo: Demo, text: str) -> None:
    assert text in demo.first.out or (text == "closed: " and "open" in demo.first.out)


def test_a_secret_of_the_node_is_in_no_output_cache_archive_or_record(demo: Demo, tmp_path: Path) -> None:
    for host in HOSTS:
        assert SECRET in (demo.trees / host / "etc/rancher/rke2/config.yaml").read_text(encoding="utf-8")
    made = playing.play(
        "snapshot", "-vvv", "-e", f"output={tmp_path / 'archives'}", inventory=playing.DEMO, env={"LOCALITY_PAPER_TREES": str(demo.trees)},
    )
    assert made.rc == 0, made.text
    archives = sorted((tmp_path / "archives").glob("*.tar.gz"))
    assert [file.name for file in archives] == [f"{host}.tar.gz" for host in HOSTS]
    # Where each is, below everything else.
    assert [host for host in HOSTS if f"the snapshot of {host} is {tmp_path}/archives/{host}.tar.gz" not in made.out.rpartition("TASK")[2]] == []
    for number, file in enumerate(archives):
        with tarfile.open(file) as archive:
            archive.extractall(tmp_path / str(number), filter="tar")
    kept = [*demo.facts.rglob("*"), *demo.records.rglob("*"), *(path for number in range(len(archives)) for path in (tmp_path / str(number)).rglob("*"))]
    files = [path for path in kept if path.is_file() and not path.is_symlink()]
    assert {path.parent for path in files} >= {demo.facts, demo.records}
    assert [str(path) for path in files if SECRET.encode() in path.read_bytes()] == []
    for run in (demo.check, demo.first, demo.second, demo.audit, made):
        assert SECRET not in run.text


def test_a_limit_leaves_the_table_and_the_group_variables(demo: Demo, tmp_path: Path) -> None:
    """What is done once, on the controller, is done for one node too."""
    host, limit, env = "h100-sxm-4gpu", ("--limit", "h100-sxm-4gpu"), {"LOCALITY_PAPER_TREES": str(demo.trees)}
    audit = playing.play("audit", *limit, inventory=playing.DEMO, env=env)
    assert "1 node: 1 in sync" in audit.out and f"{host} - " in audit.out
    record = playing.play("site", *limit, "-e", f"locality_records_dir={tmp_path}/records", inventory=playing.DEMO, env=env)
    assert "1 node: " in record.out and list((tmp_path / "records").glob("site-*.json"))
    plan = playing.play("plan", *limit, "-e", f"output={tmp_path}/vars.yml", inventory=playing.DEMO, env=env)
    assert plan.rc == 0 and "locality_chassis:" in (tmp_path / "vars.yml").read_text(encoding="utf-8")


def test_an_audit_refuses_nothing_and_says_what_would_be(demo: Demo, tmp_path: Path) -> None:
    trees = tmp_path / "trees"
    shutil.copytree(demo.trees, trees, symlinks=True)
    (trees / "h100-sxm-4gpu/etc/os-release").write_text('ID=fedora\nPRETTY_NAME="Fedora Linux 43"\n', encoding="utf-8")
    run = playing.play("audit", "--limit", "h100-sxm-4gpu", inventory=playing.DEMO, env={"LOCALITY_PAPER_TREES": str(trees)})
    assert run.rc != 0
    assert "1 node: 1 has errors, site.yml would refuse it" in run.out
    assert "1 error, site.yml would refuse this node:" in run.text and "platform.unsupported" in run.text
    assert "written" not in run.text


def test_an_audit_names_the_knob_of_an_edited_file_and_no_other(demo: Demo, tmp_path: Path) -> None:
    trees = tmp_path / "trees"
    shutil.copytree(demo.trees, trees, symlinks=True)
    file = trees / "h100-sxm-4gpu" / knobs.FILE_SYSCTL[1:]
    file.write_text(file.read_text(encoding="utf-8").replace("vm.swappiness = 0", "vm.swappiness = 60") + "vm.dirty_ratio = 5\n", encoding="utf-8")
    run = playing.play("audit", inventory=playing.DEMO, env={"LOCALITY_PAPER_TREES": str(trees)})
    assert run.rc != 0
    assert f"vm.swappiness: configured 60 ({knobs.FILE_SYSCTL}:3); wanted 0" in run.out
    assert "1 managed knob drifts: vm.swappiness" in run.text
    assert f"warning file.stray: {knobs.FILE_SYSCTL} has settings that this collection does not write there: vm.dirty_ratio (line 6)" in run.out
    assert "2 in sync; 1 drifting" in run.out
    assert {host: counts["failed"] for host, counts in run.recap.items() if host in HOSTS} == {host: int(host == "h100-sxm-4gpu") for host in HOSTS}


def test_a_snapshot_gives_the_group_variables_of_the_chassis_without_an_inventory(demo: Demo, tmp_path: Path) -> None:
    output = tmp_path / "chassis_h100.yml"
    arguments = ("-e", f"snapshot={demo.trees / 'h100-sxm-4gpu'}", "-e", "chassis=h100", "-e", f"output={output}")
    run = playing.play("plan", *arguments, inventory=None)
    assert run.rc == 0, run.text
    assert "\nh100-sxm-4gpu - is as planned" in run.out or "\nh100-sxm-4gpu - is not as planned yet" in run.out, "the snapshot, not the controller"
    assert f"{output} was written." in run.out and "draft" not in run.out
    written = yaml.safe_load(output.read_text(encoding="utf-8"))
    assert written["locality_chassis"]["numa_nodes"] == {"0": {"memory": "512Gi", "gpus": 2, "nics": 1}, "1": {"memory": "512Gi", "gpus": 2, "nics": 0}}
    output.write_text("mine: true\n", encoding="utf-8")
    again = playing.play("plan", *arguments, inventory=None)
    assert again.rc != 0
    assert "is there and says something else" in again.text
    assert output.read_text(encoding="utf-8") == "mine: true\n"


def test_group_variables_of_a_node_with_errors_are_called_a_draft(tmp_path: Path) -> None:
    """Nothing is refused by what only reads, and the hardware is what it is."""
    paper.build(_description(), tmp_path / "node")
    (tmp_path / "node/etc/os-release").write_text('ID=fedora\nPRETTY_NAME="Fedora Linux 43"\n', encoding="utf-8")
    output = tmp_path / "vars.yml"
    arguments = ("-e", f"snapshot={tmp_path}/node/", "-e", f"output={output}")
    check = playing.play("plan", *arguments, "--check", inventory=None)
    assert check.rc == 0, check.text
    assert f"{output} would be written." in check.out and not output.exists()
    run = playing.play("plan", *arguments, inventory=None)
    assert run.rc == 0, run.text
    assert f"{output} was written." in run.out and "measured from node." in output.read_text(encoding="utf-8")
    assert "\nnode - has errors, site.yml would refuse it\n" in run.out and "1 node: 1 has errors, site.yml would refuse it" in run.out
    assert "It is a draft: as node is now, site.yml would refuse it. Errors, see the table: platform.unsupported." in run.out


@pytest.mark.parametrize("there", [True, False], ids=["there", "not there"])
def test_a_folder_for_the_group_variables_is_refused_before_anything_is_read(tmp_path: Path, there: bool) -> None:
    folder = tmp_path / "group_vars"
    if there:
        folder.mkdir()
    run = playing.play("plan", "-e", "snapshot=/nowhere", "-e", f"output={folder}{'' if there else '/'}", "-e", "overwrite=true", inventory=None)
    assert run.rc != 0
    assert f"output: found the folder {folder}" in run.text and f"wanted the path of the file to write, such as {folder}/chassis_MODEL.yml" in run.text
    assert list(tmp_path.rglob("*")) == ([folder] if there else [])


# -- input that is wrong ----------------------------------------------------------------------------------------------


def _window(**changes: Any) -> dict[str, Any]:
    return {"locality_maintenance": {"windows": [{"days": ["sat"], "start": "22:00", "duration": "8h", "timezone": "Europe/Berlin", **changes}]}}


# Host: its variables, and what its message must hold. Everything that is wrong with a host is in one message.
BAD: dict[str, tuple[dict[str, Any], list[str]]] = {
    "policy-is-text": ({"locality_policy": "housekeeping"}, ["locality_policy: found 'housekeeping'", "wanted a mapping"]),
    "unknown-key": ({"locality_policy": {"housekeping": {}}}, ["locality_policy.housekeping: unknown key", "locality_policy.housekeeping"]),
    "two-wrong-types": (
        {"locality_policy": {"host": {"swappiness": "low"}, "isolation": {"tickless": "maybe"}}},
        ["2 errors", "locality_policy.host.swappiness: found 'low'", "locality_policy.isolation.tickless: found 'maybe'"],
    ),
    "too-many-cores": ({"locality_policy": {"housekeeping": {"cores_per_numa_node": 99}}}, ["wanted 99 housekeeping cores on NUMA node 0, found 4"]),
    "no-such-cpu": ({"locality_policy": {"housekeeping": {"cpus": "0,8,999"}}}, ["found CPUs 999"]),
    "not-yet": ({"locality_policy": {"cpu_policy": "nri-balloons"}}, ["locality_policy.cpu_policy: 'nri-balloons' is not in this version"]),
    "other-hardware": ({"locality_chassis": {"sockets": 4}}, ["locality_chassis.sockets: found 2, wanted 4"]),
    "no-root": ({"locality_root": "/nowhere/at/all"}, ["/nowhere/at/all"]),
    "no-duration": (_window(duration=0), ["locality_maintenance.windows[0]", "duration"]),
    "long-duration": (_window(duration="8d"), ["locality_maintenance.windows[0]", "duration"]),
    "no-zone": (_window(timezone="Europe/Berlim"), ["locality_maintenance.windows[0]", "Europe/Berlim", "Europe/Berlin"]),
    "maintenance-is-a-list": ({"locality_maintenance": ["sat"]}, ["locality_maintenance: found ['sat'], wanted a mapping"]),
    "short-time": (
        {"locality_maintenance": {"expected_minutes": 30}, "locality_policy": {"hosts": {}}},
        ["2 errors", "locality_maintenance.expected_minutes: found 30, wanted at least 60", "locality_policy.hosts: unknown key"],
    ),
}


@dataclass(frozen=True)
class Refusals:
    """One run over hosts with wrong input and one good host."""

    bad: Path
    before: dict[str, str]
    good: Path
    run: playing.Run


def _description() -> dict[str, Any]:
    """A small machine with the software of a node."""
    small, node = fixtures.description("two-sockets"), paper.load(playing.DEMO / "nodes" / "cpu-snc2-cxl.yml")
    return {**small, **{key: node[key] for key in ("kernel", "dirs", "files", "links")}}


@pytest.fixture(scope="module")
def refusals(tmp_path_factory: pytest.TempPathFactory) -> Refusals:
    folder = tmp_path_factory.mktemp("refusals")
    for name in ("bad", "good"):
        paper.build(_description(), folder / name)
    before = playing.contents(folder / "bad")
    inventory = playing.write_inventory(
        folder / "inventory", {**dict.fromkeys(BAD, folder / "bad"), "good": folder / "good"}, {},
        {host: variables for host, (variables, _texts) in BAD.items()},
    )
    return Refusals(folder / "bad", before, folder / "good", playing.play("site", "--tags", "kubelet", inventory=inventory))


@pytest.mark.parametrize("host", BAD)
def test_wrong_input_refuses_the_host_and_says_why(refusals: Refusals, host: str) -> None:
    fatal = [line for line in re.findall(rf"^fatal: \[{host}\].*$", refusals.run.out, re.MULTILINE) if "refused" in line]
    assert len(fatal) == 1, "one message for each host"
    assert [text for text in BAD[host][1] if text not in fatal[0].replace('\\"', '"')] == []
    assert refusals.run.recap[host]["failed"] == 1


def test_refused_hosts_are_left_alone_and_the_good_one_is_written(refusals: Refusals) -> None:
    assert refusals.run.rc != 0
    assert playing.contents(refusals.bad) == refusals.before
    assert (refusals.good / knobs.FILE_KUBELET[1:]).is_file()
    assert f"{len(BAD) + 1} nodes: 1 written, in sync; {len(BAD)} refused" in refusals.run.out


def test_strict_stops_before_anything_is_touched(tmp_path: Path) -> None:
    for name in ("bad", "good"):
        paper.build(_description(), tmp_path / name)
    before = playing.contents(tmp_path / "good")
    inventory = playing.write_inventory(
        tmp_path / "inventory", {"bad": tmp_path / "bad", "good": tmp_path / "good"}, {"locality_strict": True}, {"bad": BAD["unknown-key"][0]},
    )
    run = playing.play("site", inventory=inventory)
    assert run.rc != 0
    assert playing.contents(tmp_path / "good") == before
    assert "1 refused; 1 left out" in run.out


def test_a_tag_writes_its_layer_and_is_judged_by_it(tmp_path: Path) -> None:
    paper.build(_description(), tmp_path / "node")
    run = playing.play("site", "--tags", "kubelet", inventory=playing.write_inventory(tmp_path / "inventory", {"node": tmp_path / "node"}, {}))
    assert run.rc == 0, run.text
    assert (tmp_path / "node" / knobs.FILE_KUBELET[1:]).is_file()
    assert not (tmp_path / "node" / knobs.FILE_GRUB[1:]).exists()


def test_a_stale_checkpoint_is_saved_and_removed(tmp_path: Path) -> None:
    paper.build(_description(), tmp_path / "node")
    checkpoint = tmp_path / "node" / "var/lib/kubelet/cpu_manager_state"
    checkpoint.parent.mkdir(parents=True)
    checkpoint.write_text('{"policyName":"none","defaultCpuSet":"","checksum":1353318690}', encoding="utf-8")
    inventory = playing.write_inventory(tmp_path / "inventory", {"node": tmp_path / "node"}, {})
    check = playing.play("site", "--check", "--tags", "kubelet", inventory=inventory)
    run = playing.play("site", "--tags", "kubelet", inventory=inventory)
    assert run.rc == 0, run.text
    assert _changes(check) == _changes(run)
    assert not checkpoint.exists()
    (saved,) = (tmp_path / "node" / "var/lib/inferops-locality/saved").glob("cpu_manager_state.*")
    assert '"policyName":"none"' in saved.read_text(encoding="utf-8")


@pytest.mark.parametrize("arguments", [(), ("--check",)], ids=["run", "check"])
def test_a_running_node_that_needs_a_reboot_is_refused_before_anything_is_touched(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    """Only reads: the play has no role that writes."""
    play = tmp_path / "play.yml"
    play.write_text(
        yaml.safe_dump([{
            "hosts": "localhost", "gather_facts": False,
            "tasks": [{"ansible.builtin.import_role": {"name": "inferops.locality.observe"}, "vars": {"observe_mode": "preflight", "observe_root": "/"}}],
        }]),
        encoding="utf-8",
    )
    command = [sys.executable, "-m", "ansible", "playbook", str(play), *arguments]
    env = {"ANSIBLE_COLLECTIONS_PATH": str(playing.COLLECTIONS), "PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": str(tmp_path)}
    refused = subprocess.run(command, check=False, capture_output=True, text=True, env=env)
    assert refused.returncode != 0
    assert "boot.reboot_not_allowed" in refused.stdout and "set locality_reboot_ok" in refused.stdout
    allowed = subprocess.run([*command, "-e", "locality_reboot_ok=true"], check=False, capture_output=True, text=True, env=env)
    assert "boot.reboot_not_allowed" not in allowed.stdout
