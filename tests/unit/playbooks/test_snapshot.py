# Copyright (c) 2026 The inferops.locality authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""An archive lies in its folder, whatever the host is called."""

from __future__ import annotations

from pathlib import Path

from ansible_collections.inferops.locality.plugins.plugin_utils import paper
from ansible_collections.inferops.locality.tests.unit import playing
from ansible_collections.inferops.locality.tests.unit.fixtures import machines as fixtures


def test_no_archive_leaves_its_folder(tmp_path: Path) -> None:
    paper.build(fixtures.description("two-sockets"), tmp_path / "node")
    inventory = playing.write_inventory(tmp_path / "inventory", {"../../b": tmp_path / "node"}, {})
    run = playing.play("snapshot", "-e", f"output={tmp_path}/one/two", inventory=inventory)
    assert run.rc == 0, run.text
    assert [str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*.tar.gz")] == ["one/two/%2E.%2F..%2Fb.tar.gz"]
