# Copyright (c) 2026 The inferops.locality authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""In which order site.yml and rollback.yml take their nodes: begun turns first, servers last, others as the inventory has them; and how far, if one fails."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from ansible_collections.inferops.locality.plugins.module_utils import knobs
from ansible_collections.inferops.locality.plugins.plugin_utils import paper
from ansible_collections.inferops.locality.tests.unit import playing
from ansible_collections.inferops.locality.tests.unit.fixtures import machines as fixtures

UNIT, WANTS = "/usr/local/lib/systemd/system/rke2-{}.service", "/etc/systemd/system/multi-user.target.wants/rke2-{}.service"


@pytest.fixture
def inventory(tmp_path: Path) -> Path:
    small, node = fixtures.description("two-sockets"), paper.load(playing.DEMO / "nodes" / "cpu-snc2-cxl.yml")
    found = {**small, **{key: node[key] for key in ("kernel", "dirs", "files", "links")}}
    for name in ("server", "one", "begun", "two"):
        files, links = dict(found["files"]), dict(found["links"])
        if name == "server":
            files[UNIT.format("server")] = files.pop(UNIT.format("agent"))
            del links[WANTS.format("agent")]
            links[WANTS.format("server")] = UNIT.format("server")
        paper.build({**found, "files": files, "links": links}, tmp_path / name)
    # The mark is what an API server says, and these nodes have none.
    return playing.write_inventory(
        tmp_path / "inventory", {name: tmp_path / name for name in ("server", "one", "begun", "two")}, {},
        {"begun": {"node_maintenance_mark": {"run": "anna@control/1"}}},
    )


def test_begun_turns_come_first_and_servers_last(inventory: Path) -> None:
    run = playing.play("site", "--tags", "kubelet", inventory=inventory)
    assert run.rc == 0, run.out
    order = re.findall(r"TASK \[Note that the node is begun\] \*+\nok: \[(\w+)\]", run.out)
    assert order == ["begun", "one", "two", "server"]
    agents, servers = run.out.split("PLAY [Bring servers of RKE2 to their plan]")
    assert "ok: [two]" in agents and re.findall(r"TASK \[Note that the node is begun\] \*+\nok: \[(\w+)\]", servers) == ["server"]
    assert re.findall(r"node (\d of \d): (\w+)", " ".join(run.out.split())) == [(f"{i} of 4", name) for i, name in enumerate(order, 1)]
    # In sync, and brought to its end all the same.
    again = playing.play("site", "--tags", "kubelet", inventory=inventory)
    assert re.findall(r"TASK \[Note that the node is begun\] \*+\nok: \[(\w+)\]", again.out) == ["begun"]
    assert {host: counts["changed"] for host, counts in again.recap.items()} == dict.fromkeys(("server", "one", "begun", "two"), 0)


def test_t_roll_16_and_18_the_first_node_that_fails_stops_all_after_it(inventory: Path, tmp_path: Path) -> None:
    # In the way of a file that is written: seen by the module that writes, before it writes any.
    (tmp_path / "one" / knobs.FILE_SYSCTL[1:]).mkdir(parents=True)
    before = {name: playing.contents(tmp_path / name) for name in ("two", "server")}
    # As if the nodes had been taken out of a cluster: it is said how the one that failed is left.
    run = playing.play("site", "--tags", "host", "-e", "{site_taken: true}", inventory=inventory)
    assert run.rc != 0 and "\n4 nodes: 1 written, in sync; 1 failed; 2 left out, the rollout stopped before it\n" in run.out, run.out
    assert {host: counts["failed"] for host, counts in run.recap.items()} == {"begun": 0, "one": 1, "two": 0, "server": 0}
    assert {name: playing.contents(tmp_path / name) for name in before} == before
    failure = " ".join(run.out.split("failure  ")[1].partition("\n\n")[0].split())
    assert knobs.FILE_SYSCTL in failure and "the node had been given back to its cluster" in failure


def test_a_removal_takes_them_in_the_same_order(inventory: Path) -> None:
    assert playing.play("site", "--tags", "kubelet", inventory=inventory).rc == 0
    run = playing.play("rollback", "-e", "record=none", "--check", inventory=inventory)
    assert run.rc == 0, run.out
    assert re.findall(r"TASK \[Note that the node is begun\] \*+\nok: \[(\w+)\]", run.out) == ["begun", "one", "two", "server"]


@pytest.mark.parametrize("arguments", [("--tags", "host,kublet"), ("--skip-tags", "kublet")])
def test_a_tag_that_names_no_layer_is_refused(inventory: Path, tmp_path: Path, arguments: tuple[str, str]) -> None:
    run = playing.play("site", *arguments, inventory=inventory)
    assert run.rc != 0 and "site.tags: found kublet in --tags or --skip-tags, wanted layers: host, irq, kubelet, network, dra" in run.out, run.out
    assert not (tmp_path / "one" / knobs.FILE_KUBELET[1:]).exists() and not (tmp_path / "one" / knobs.FILE_SYSCTL[1:]).exists()
