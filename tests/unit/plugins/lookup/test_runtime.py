# Copyright (c) 2026 The inferops.locality authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The lookup that packs the node's program."""

from __future__ import annotations

from pathlib import Path

import pytest
from ansible.errors import AnsibleLookupError

from ansible_collections.inferops.locality.plugins.lookup import runtime as lookup
from ansible_collections.inferops.locality.plugins.plugin_utils import runtime


@pytest.fixture
def plugin(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> lookup.LookupModule:
    monkeypatch.setattr(lookup.C, "DEFAULT_LOCAL_TMP", str(tmp_path))
    return lookup.LookupModule()


def test_returns_path_and_version(plugin: lookup.LookupModule, tmp_path: Path) -> None:
    result = plugin.run([])
    assert result == [{"path": str(tmp_path / f"locality-{runtime.version()}.pyz"), "version": runtime.version()}]
    assert Path(result[0]["path"]).read_bytes() == runtime.build()[0]


def test_takes_no_terms(plugin: lookup.LookupModule) -> None:
    with pytest.raises(AnsibleLookupError, match="takes no terms, found 1"):
        plugin.run(["x"])


def test_folder_that_cannot_be_written(plugin: lookup.LookupModule, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(lookup.C, "DEFAULT_LOCAL_TMP", str(tmp_path / "absent"))
    with pytest.raises(AnsibleLookupError, match="cannot be written"):
        plugin.run([])
