# Copyright (c) 2026 The inferops.locality authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Everything that site.yml wrote is taken off again, on paper: files of all layers, and what was taken over from others."""

from __future__ import annotations

import datetime
import json
import re
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.inferops.locality.plugins.module_utils import knobs
from ansible_collections.inferops.locality.plugins.plugin_utils import paper
from ansible_collections.inferops.locality.tests.unit import playing
from ansible_collections.inferops.locality.tests.unit.fixtures import machines as fixtures

NONE = ("-e", "record=none")
UNIT = "/usr/lib/systemd/system/{}.service"
WANTS = "/etc/systemd/system/multi-user.target.wants/{}.service"


def _description() -> dict[str, Any]:
    """A small machine with the software of a node, tuned with a profile of its own, and irqbalance."""
    small, node = fixtures.description("two-sockets"), paper.load(playing.DEMO / "nodes" / "cpu-snc2-cxl.yml")
    found = {**small, **{key: node[key] for key in ("kernel", "dirs", "files", "links")}}
    for name in ("tuned", "irqbalance"):
        found["files"] = {**found["files"], UNIT.format(name): "", f"/usr/sbin/{name}": ""}
        found["links"] = {**found["links"], WANTS.format(name): UNIT.format(name)}
    found["files"].update({knobs.FILE_TUNED_ACTIVE: "balanced\n", knobs.FILE_TUNED_MODE: "auto\n", "/usr/lib/tuned/balanced/tuned.conf": "[main]\n"})
    return found


@dataclass(frozen=True)
class Story:
    """A node before, written, and taken off again twice."""

    before: dict[str, str]
    written: dict[str, str]
    after: dict[str, str]
    site: playing.Run
    check: playing.Run
    first: playing.Run
    second: playing.Run


@pytest.fixture(scope="module")
def story(tmp_path_factory: pytest.TempPathFactory) -> Story:
    folder = tmp_path_factory.mktemp("rollback")
    root = folder / "node"
    paper.build(_description(), root)
    inventory = playing.write_inventory(folder / "inventory", {"node": root}, {})
    before = playing.contents(root)
    site = playing.play("site", inventory=inventory)
    written = playing.contents(root)
    check = playing.play("rollback", *NONE, "--check", inventory=inventory)
    assert playing.contents(root) == written
    first = playing.play("rollback", *NONE, inventory=inventory)
    return Story(before, written, playing.contents(root), site, check, first, playing.play("rollback", *NONE, inventory=inventory))


def test_the_node_is_as_before(story: Story) -> None:
    assert story.site.rc == 0, story.site.text
    assert story.first.rc == 0, story.first.text
    assert knobs.FILE_TUNED_ACTIVE in story.written and story.written[knobs.FILE_TUNED_ACTIVE] != story.before[knobs.FILE_TUNED_ACTIVE]
    assert knobs.FILE_IRQBALANCE_MASK in story.written
    assert story.after == story.before
    assert "1 node: 1 taken off" in story.first.out


def test_check_mode_says_what_the_run_does(story: Story) -> None:
    assert "1 node: 1 would be taken off (check mode)" in story.check.out
    changed = re.compile(r"^changed: \[[^]]+\].*$", re.MULTILINE)
    # The last folders are empty, or gone, only after what was in them is.
    folders = "(item=/"
    assert [line for line in changed.findall(story.first.out) if folders not in line] == [
        line for line in changed.findall(story.check.out) if folders not in line
    ]


def test_a_second_removal_changes_nothing(story: Story) -> None:
    assert story.second.rc == 0 and story.second.recap["node"]["changed"] == 0
    assert "1 node: 1 has nothing of this collection" in story.second.out


@pytest.mark.parametrize("arguments, text", [
    ((), "record is not set, wanted record=none"), (("-e", "record=2026.json"), "found record=2026.json, but locality_records_dir is not set"),
])
def test_what_nobody_can_go_back_to_is_refused(tmp_path: Path, arguments: tuple[str, ...], text: str) -> None:
    (tmp_path / "node").mkdir()
    run = playing.play("rollback", *arguments, inventory=playing.write_inventory(tmp_path / "inventory", {"node": tmp_path / "node"}, {}))
    assert run.rc != 0 and "rollback.record: " in run.out and text in run.text


@pytest.mark.parametrize("arguments", [("--tags", "host"), ("--skip-tags", "kubelet")])
def test_a_part_is_not_taken_off(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    """Tags reach no task that takes something off: without a word the run would call the node in sync, or take off what was to be skipped."""
    root = tmp_path / "node"
    paper.build(_description(), root)
    inventory = playing.write_inventory(tmp_path / "inventory", {"node": root}, {})
    before = playing.contents(root)
    run = playing.play("rollback", *NONE, *arguments, inventory=inventory)
    assert run.rc != 0 and "rollback.tags: found --tags or --skip-tags" in run.out and playing.contents(root) == before


def test_a_policy_that_json_has_no_form_for_costs_no_host_its_record(tmp_path: Path) -> None:
    roots = {name: tmp_path / name for name in ("wrong", "right")}
    for root in roots.values():
        paper.build(_description(), root)
    wrong = {"host": {"swappiness": datetime.date(2026, 1, 1), 1: 2}}
    records = {"locality_records_dir": str(tmp_path / "records")}
    inventory = playing.write_inventory(tmp_path / "inventory", roots, records, {"wrong": {"locality_policy": wrong}})
    run = playing.play("site", "--tags", "host", inventory=inventory)
    assert run.rc != 0 and "2 nodes: 1 written, in sync; 1 refused" in run.out, run.text
    kept = {path.parent.name: json.loads(path.read_text(encoding="utf-8")) for path in (tmp_path / "records").glob("*/site-*.json")}
    assert {host: record["outcome"] for host, record in kept.items()} == {"wrong": "refused", "right": "written"}
    assert kept["wrong"]["policy"]["host"] == {"swappiness": "2026-01-01", "1": 2}
    assert len(list((tmp_path / "records").glob("site-*.json"))) == 1


def test_a_run_is_gone_back_to_by_its_record(tmp_path: Path) -> None:
    """A policy, then another one, then the first one's record: the same files as after the first run; and what is no longer possible is refused."""
    root, records = tmp_path / "node", tmp_path / "records"
    paper.build(_description(), root)
    variables = {"locality_records_dir": str(records)}
    inventory = playing.write_inventory(tmp_path / "inventory", {"node": root}, variables)
    host = ("--tags", "host")
    assert playing.play("site", *host, inventory=inventory).rc == 0
    first = playing.contents(root)
    name = next(records.glob("site-*.json")).stem
    kept = json.loads((records / "node" / f"{name}.json").read_text(encoding="utf-8"))
    assert (kept["run"], kept["host"], kept["outcome"], kept["drift"], kept["layers"]) == (name, "node", "written", [], ["host"])
    assert json.loads((records / f"{name}.json").read_text(encoding="utf-8"))["layers"] == ["host"]
    assert kept["drift_before"] and "@" in kept["by"]
    other = playing.write_inventory(tmp_path / "other", {"node": root}, {**variables, "locality_policy": {"host": {"swappiness": 7}}})
    assert playing.play("site", *host, inventory=other).rc == 0
    changed = playing.contents(root)
    assert changed != first
    check = playing.play("rollback", "-e", f"record={name}", *host, "--check", "--diff", inventory=other)
    assert check.rc == 0 and "+vm.swappiness" in check.out and playing.contents(root) == changed
    back = playing.play("rollback", "-e", f"record={name}.json", *host, inventory=other)
    assert back.rc == 0 and "node 1 of 1: node (chassis_test) live: vm.swappiness; no maintenance windows are set" in " ".join(back.out.split()), back.text
    assert playing.contents(root) == first
    assert re.search(r"PLAY \[Take everything off\] \*+\nskipping: no hosts matched", back.out)
    # The run brought the host layer alone: of the others it says only what was planned.
    whole = playing.play("rollback", "-e", f"record={name}", "--check", inventory=other)
    assert whole.rc != 0 and "record.layers: the run of the record brought host alone to the plan, wanted irq, kubelet, network too" in whole.out, whole.text
    assert "go back with --tags host" in whole.out and playing.contents(root) == first
    # The policy of then with a plan that it does not give today.
    kept["plan"]["knobs"]["vm.swappiness"] = 3
    (records / "node" / "changed.json").write_text(json.dumps(kept), encoding="utf-8")
    refused = playing.play("rollback", "-e", "record=changed", *host, inventory=other)
    assert refused.rc != 0 and "record.differs: the recorded policy gives another plan today: vm.swappiness: recorded 3, now" in refused.out
    absent = playing.play("rollback", "-e", "record=site-1", *host, inventory=other)
    assert absent.rc != 0 and f"there is no record {records}/node/site-1.json; there are " in absent.out
    assert playing.contents(root) == first


def test_each_host_has_its_record_where_its_inventory_says(tmp_path: Path) -> None:
    """Two folders, one relative to the inventory, and a host whose name would lead out of it; and back by the record, from another working directory."""
    hosts = {"a": "../kept", "../../b": str(tmp_path / "other"), "none": None}
    roots = {host: tmp_path / f"node{number}" for number, host in enumerate(hosts)}
    for root in roots.values():
        paper.build(_description(), root)
    where = {host: {"locality_records_dir": records} for host, records in hosts.items()}
    inventory = playing.write_inventory(tmp_path / "inventory", roots, {}, where)
    tags, (here, there) = ("--tags", "host"), (tmp_path / "here", tmp_path / "there")
    for folder in (here, there):
        folder.mkdir()

    def kept() -> list[str]:
        folders = ("kept", "other", "here", "there", "b", "inventory")
        return sorted(re.sub(r"site-[0-9TZ]+", "RUN", str(path.relative_to(tmp_path))) for name in folders for path in (tmp_path / name).rglob("*.json"))

    check = playing.play("site", *tags, "--check", inventory=inventory, cwd=here)
    assert check.rc == 0 and kept() == [], check.text
    run = playing.play("site", *tags, inventory=inventory, cwd=here)
    assert run.rc == 0 and "3 nodes: 3 written, in sync" in run.out, run.text
    assert kept() == ["kept/RUN.json", "kept/a/RUN.json", "other/%2E.%2F..%2Fb/RUN.json", "other/RUN.json"]
    names = {path.stem for path in (tmp_path / "kept").glob("*.json")}
    assert names == {path.stem for path in (tmp_path / "other").glob("*.json")} and len(names) == 1
    assert set(json.loads(next((tmp_path / "other").glob("*.json")).read_text(encoding="utf-8"))["hosts"]) == set(hosts)
    again = playing.play("site", *tags, inventory=inventory, cwd=there)
    assert again.rc == 0 and {counts["changed"] for counts in again.recap.values()} == {0} and len(kept()) == 8
    audit = playing.play("site", *tags, "--check", inventory=inventory, cwd=there)
    assert audit.rc == 0 and "3 nodes: 3 in sync" in audit.out and len(kept()) == 8
    back = playing.play("rollback", "-e", f"record={names.pop()}", *tags, "--limit", "all:!none", inventory=inventory, cwd=there)
    assert back.rc == 0 and "2 nodes: 2 in sync" in back.out, back.text


def test_it_goes_on_where_a_run_died(tmp_path: Path) -> None:
    """Only a part of what is written is there, and something that was removed by hand is not."""
    root = tmp_path / "node"
    paper.build(_description(), root)
    inventory = playing.write_inventory(tmp_path / "inventory", {"node": root}, {})
    before = playing.contents(root)
    assert playing.play("site", "--tags", "host", inventory=inventory).rc == 0
    (root / knobs.FILE_SYSCTL[1:]).unlink()
    shutil.rmtree(root / knobs.FILES_SLICES[0][1:].rpartition("/")[0])
    run = playing.play("rollback", *NONE, inventory=inventory)
    assert run.rc == 0, run.text
    assert playing.contents(root) == before
