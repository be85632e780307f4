# Copyright (c) 2026 The inferops.locality authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The program packed for the node: the same bytes everywhere, complete, and of the version it says."""

from __future__ import annotations

import io
import json
import os
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from ansible_collections.inferops.locality.plugins.plugin_utils import runtime


def run(archive: Path, *arguments: str) -> subprocess.CompletedProcess:
    # without this interpreter's own import paths, as on a node
    environment = {key: value for key, value in os.environ.items() if not key.startswith("PYTHON")}
    return subprocess.run([sys.executable, "-I", "-S", str(archive), *arguments], capture_output=True, text=True, cwd="/", env=environment, check=False)


def test_same_files_same_bytes() -> None:
    assert runtime.build() == runtime.build()
    with zipfile.ZipFile(io.BytesIO(runtime.build()[0])) as archive:
        assert archive.namelist() == sorted(archive.namelist())
        assert {info.date_time for info in archive.infolist()} == {(1980, 1, 1, 0, 0, 0)}
        assert {info.compress_type for info in archive.infolist()} == {zipfile.ZIP_STORED}


def test_program_runs_without_the_collection(tmp_path: Path) -> None:
    path, version = runtime.write(tmp_path)
    assert re.fullmatch(r"\d+\.\d+\.\d+\S*\+[0-9a-f]{12}", version)
    assert path.name == f"locality-{version}.pyz"
    done = run(path, "version")
    assert (done.returncode, done.stdout, done.stderr) == (0, version + "\n", "")
    done = run(path, "irq", "apply", "--check", "--root", str(tmp_path))
    assert (done.returncode, done.stdout) == (0, "/etc/inferops-locality/irq.json is not there: nothing to do\n")
    done = run(path, "kubelet-state", "--check", "--root", str(tmp_path))
    assert (done.returncode, done.stdout) == (0, "whether containers are alive cannot be told (no cgroup v2): checkpoint files are left alone\n")
    assert run(path).returncode == 2
    assert run(path, "irq", "destroy").returncode == 2


def test_program_holds_only_what_it_needs() -> None:
    names = {Path(name).stem for name in runtime.members()}
    interrupts = {"irq", "irq_saved", "cpulist", "sysroot", "nic_channels"}
    kubelet = {
        "kubelet_boot", "kubelet_cpu_state", "kubelet_live", "kubelet_predict", "kubelet_state", "kubelet_args", "knobs", "node_files", "quantity",
        "rke2_config", "state_files", "state_tasks",
    }
    assert {"runtime_main", *interrupts, *kubelet} == names - {"__init__", "__main__"}


def test_what_the_timer_runs_does_not_read_the_kubelets_part(tmp_path: Path) -> None:
    path, _version = runtime.write(tmp_path)
    code = f"import sys; sys.path.insert(0, {str(path)!r}); from {'.'.join(runtime.PACKAGE)} import runtime_main; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-I", "-S", "-c", code], capture_output=True, text=True, cwd="/", check=True)
    assert "module_utils.irq" in done.stdout and "kubelet" not in done.stdout


def test_version_follows_the_content(tmp_path: Path) -> None:
    folder = tmp_path / "module_utils"
    shutil.copytree(Path(runtime.__file__).parents[1] / "module_utils", folder)
    before = runtime.members(folder)
    assert before == runtime.members()
    # a file the program does not need
    (folder / "topology.py").write_text("changed = True\n")
    assert runtime._version(runtime.members(folder)) == runtime._version(before)
    (folder / "cpulist.py").write_text((folder / "cpulist.py").read_text() + "\n")
    assert runtime._version(runtime.members(folder)) != runtime._version(before)
    assert runtime.version() == runtime.build()[1]


def test_missing_file_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "runtime_main.py").write_text("from ansible_collections.inferops.locality.plugins.module_utils.absent import x\n")
    with pytest.raises(FileNotFoundError, match=r"absent\.py"):
        runtime.members(tmp_path)


def test_version_of_the_collection(tmp_path: Path) -> None:
    assert runtime.collection_version(tmp_path) == "0"
    (tmp_path / "galaxy.yml").write_text("version: 1.2.3\n")
    assert runtime.collection_version(tmp_path) == "1.2.3"
    (tmp_path / "MANIFEST.json").write_text(json.dumps({"collection_info": {"version": "2.0.0"}}))
    assert runtime.collection_version(tmp_path) == "2.0.0"


def test_archive_is_written_once_and_mended(tmp_path: Path) -> None:
    path, _changed = runtime.write(tmp_path)
    first = path.stat()
    assert runtime.write(tmp_path)[0] == path
    assert (path.stat().st_ino, path.stat().st_mtime_ns) == (first.st_ino, first.st_mtime_ns)
    path.write_bytes(b"cut")
    runtime.write(tmp_path)
    assert path.read_bytes() == runtime.build()[0]
    assert [entry.name for entry in tmp_path.iterdir()] == [path.name]
