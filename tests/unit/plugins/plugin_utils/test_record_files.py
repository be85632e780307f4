# Copyright (c) 2026 The inferops.locality authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Records stay in their folder, whatever a host is called, and none is written over another."""

from __future__ import annotations

import json
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from ansible_collections.inferops.locality.plugins.plugin_utils import record_files

NAMES = ["a", "gpu-a01.example.net", "fe80::1", "a b", "..", ".", "../../etc", "/etc/cron.d", "a/../../b", ".hidden", "%2E%2E", "a%2Fb", "a/b", "a\n"]


@pytest.mark.parametrize("host", NAMES)
def test_a_record_is_right_below_its_folder_whatever_the_host_is_called(host: str) -> None:
    path = record_files.of_host("/records", host, "site-1")
    assert os.path.basename(os.path.dirname(path)) == record_files.file_name(host)
    assert os.path.normpath(path) == path and os.path.dirname(os.path.dirname(path)) == "/records" and os.path.basename(path) == "site-1.json"


def test_no_two_hosts_share_a_folder_and_usual_names_are_as_they_are() -> None:
    assert len({record_files.of_host("/records", host, "x") for host in NAMES}) == len(NAMES)
    assert record_files.of_host("/records", "gpu-a01.example.net", "x") == "/records/gpu-a01.example.net/x.json"


def test_a_relative_folder_is_that_of_the_inventory_and_not_of_the_moment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", "/home/anna")
    monkeypatch.setenv("SITE", "x")
    assert record_files.folder("records", "/srv/inventory") == "/srv/inventory/records"
    assert record_files.folder("../records", "/srv/inventory") == "/srv/records"
    assert record_files.folder("/var/log/x", "/srv/inventory") == "/var/log/x"
    assert record_files.folder("~/records", "/srv/inventory") == "/home/anna/records"
    assert record_files.folder("/var/$SITE", "/srv/inventory") == "/var/x"
    # One given with -i host, has none.
    assert record_files.folder("records", None) == str(tmp_path / "records")


def tree(folder: Path) -> dict[str, str]:
    return {str(path.relative_to(folder)): path.read_text(encoding="utf-8") for path in folder.rglob("*") if path.is_file()}


def save(name: str, folders: dict[str, str]) -> record_files.Files:
    files = record_files.Files(name, folders)
    files.write({"run": files.name}, lambda host: {"host": host, "run": files.name})
    return files


def test_each_host_has_its_own_folder_and_the_summary_is_in_all(tmp_path: Path) -> None:
    one, two = str(tmp_path / "one"), str(tmp_path / "two")
    files = save("site-1", {"a": one, "b": two, "c": one})
    assert files.errors == [] and files.summaries == [f"{one}/site-1.json", f"{two}/site-1.json"]
    assert set(tree(tmp_path)) == {"one/site-1.json", "one/a/site-1.json", "one/c/site-1.json", "two/site-1.json", "two/b/site-1.json"}
    assert json.loads(tree(tmp_path)["two/b/site-1.json"]) == {"host": "b", "run": "site-1"}


@pytest.mark.parametrize("there", ["one/site-1.json", "one/a/site-1.json", "two/site-1.json", "two/b/site-1.json"])
def test_what_is_there_is_left_and_the_run_has_one_name_everywhere(tmp_path: Path, there: str) -> None:
    (tmp_path / there).parent.mkdir(parents=True)
    (tmp_path / there).write_text("another run", encoding="utf-8")
    assert save("site-1", {"a": str(tmp_path / "one"), "b": str(tmp_path / "two")}).name == "site-1-2"
    found = tree(tmp_path)
    assert found.pop(there) == "another run"
    assert set(found) == {"one/site-1-2.json", "one/a/site-1-2.json", "two/site-1-2.json", "two/b/site-1-2.json"}
    assert save("site-1", {"a": str(tmp_path / "one"), "b": str(tmp_path / "two")}).name == "site-1-3"


def test_of_many_runs_at_once_each_has_a_name_of_its_own(tmp_path: Path) -> None:
    folders = {"a": str(tmp_path / "one"), "b": str(tmp_path / "two")}
    with ThreadPoolExecutor(8) as pool:
        names = [files.name for files in pool.map(lambda _number: save("site-1", folders), range(24))]
    assert len(set(names)) == 24
    found = tree(tmp_path)
    assert len(found) == 4 * 24 and all(json.loads(text)["run"] == Path(path).stem for path, text in found.items())


def test_a_folder_that_cannot_be_written_to_costs_the_others_nothing(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    files = save("site-1", {"a": str(tmp_path / "file"), "b": str(tmp_path / "two"), "c": str(tmp_path / "file" / "below")})
    assert [error.split(":")[0] for error in files.errors] == [f"the records below {tmp_path}/file{rest} cannot be written" for rest in ("", "/below")]
    assert "Not a directory" in files.errors[0]
    assert set(tree(tmp_path)) == {"file", "two/site-1.json", "two/b/site-1.json"} and files.summaries == [f"{tmp_path}/two/site-1.json"]
