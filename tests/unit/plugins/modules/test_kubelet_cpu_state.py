# Copyright (c) 2026 The inferops.locality authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The module itself: check mode, what it removes and what it leaves, what forbids it, bad input."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible.module_utils.testing import patch_module_args

from ansible_collections.inferops.locality.plugins.module_utils import kubelet_state
from ansible_collections.inferops.locality.plugins.modules import kubelet_cpu_state
from ansible_collections.inferops.locality.tests.unit import paper_kernel

POD = "39b37746-7f5e-4064-b8e1-eebd2bfaa003"
ID = "a" * 64
NONE = '{"policyName":"none","defaultCpuSet":"","checksum":1353318690}'
MEMORY_NONE = '{"policyName":"None","machineState":{},"checksum":4236770233}'
WANTED = {"kubelet.cpu_manager_policy": "static", "kubelet.reserved_cpus": "0-1", "vm.swappiness": 0}
CPU, MEMORY = "/var/lib/kubelet/cpu_manager_state", "/var/lib/kubelet/memory_manager_state"
POLICY = "policy is 'none', wanted 'static'"


def cpu(default: str, entries: dict[str, Any]) -> str:
    data = {"policyname": "static", "defaultcpuset": default, "entries": entries}
    return json.dumps({"policyName": "static", "defaultCpuSet": default, "entries": entries, "checksum": kubelet_state.cpu_checksum("v2", data)})


PINNED = cpu("0-3", {POD: {"app": "4-7"}})


class Node:
    """A paper node with 8 CPUs and the kubelet's folder."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.put("/sys/devices/system/cpu/online", "0-7\n")
        self.put("/sys/fs/cgroup/cgroup.controllers", "cpuset\n")
        self.put("/proc/1/comm", "systemd\n")
        (root / "var/lib/kubelet").mkdir(parents=True)

    def put(self, path: str, text: str) -> None:
        (self.root / path[1:]).parent.mkdir(parents=True, exist_ok=True)
        (self.root / path[1:]).write_text(text, encoding="utf-8")

    def there(self, path: str) -> bool:
        return os.path.lexists(self.root / path[1:])

    def files(self) -> dict[str, str]:
        """All files but those of the kernel."""
        return {f"/{path.relative_to(self.root)}": path.read_text(errors="replace") for path in self.root.rglob("*")
                if path.is_file() and path.relative_to(self.root).parts[0] not in ("sys", "proc")}

    def container(self, cpus: str) -> None:
        path = f"/sys/fs/cgroup/kubepods.slice/kubepods-pod{POD.replace('-', '_')}.slice/cri-containerd-{ID}.scope"
        self.put(f"{path}/cgroup.events", "populated 1\n")
        self.put(f"{path}/cpuset.cpus", f"{cpus}\n")


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path)


@pytest.fixture
def live(node: Node, monkeypatch: pytest.MonkeyPatch) -> Node:
    """The same, passing for the machine the module runs on."""
    monkeypatch.setattr(kubelet_cpu_state, "SysRoot", lambda root: paper_kernel.Live(Path(root)))
    monkeypatch.setattr("ansible.module_utils.basic.AnsibleModule.set_default_selinux_context", lambda self, path, changed: changed)
    return node


def run(capsys: pytest.CaptureFixture[str], node: Node, **args: Any) -> tuple[int, dict[str, Any]]:
    """Exit status and result."""
    with patch_module_args({"root": str(node.root), "wanted": WANTED, **args}), pytest.raises(SystemExit) as stop:
        kubelet_cpu_state.main()
    return int(stop.value.code or 0), json.loads(capsys.readouterr().out)


def untimed(result: dict[str, Any]) -> Any:
    """A result without the times in the names of copies."""
    text = json.dumps({key: value for key, value in result.items() if key != "invocation"}, sort_keys=True)
    for path in result.get("saved", []):
        text = text.replace(path, path.rpartition(".")[0])
    return json.loads(text)


def test_check_run_and_both_again(node: Node, capsys: pytest.CaptureFixture[str]) -> None:
    node.put(CPU, NONE)
    node.put(MEMORY, MEMORY_NONE)
    before = node.files()
    code, planned = run(capsys, node, state="consistent", _ansible_check_mode=True, _ansible_diff=True)
    assert (code, planned["changed"], planned["remove"]) == (0, True, [{"file": CPU, "reason": POLICY}])
    assert node.files() == before
    done = run(capsys, node, state="consistent", _ansible_diff=True)[1]
    assert untimed(done) == untimed(planned)
    assert node.files() == {MEMORY: MEMORY_NONE, done["saved"][0]: NONE}
    assert done["saved"][0].startswith("/var/lib/inferops-locality/saved/cpu_manager_state.2")
    assert (node.root / done["saved"][0][1:]).stat().st_mode & 0o777 == 0o600
    assert [entry["before_header"] for entry in done["diff"]] == [f"{done['saved'][0]} (absent)", f"{CPU} (mode 0644)"]
    for check in (False, True):
        again = run(capsys, node, state="consistent", _ansible_check_mode=check, _ansible_diff=True)[1]
        assert (again["changed"], again["remove"], again["saved"], again["diff"]) == (False, [], [], [])
        assert again["would_start"] == {"ok": True, "reasons": []} and not again["cpu"]["exists"]


ARGUMENTS = "/etc/rancher/rke2/config.yaml"


def test_what_rke2_gives_the_kubelet_besides(node: Node, capsys: pytest.CaptureFixture[str]) -> None:
    gated = {**WANTED, "kubelet.cpu_manager_options": ["distribute-cpus-across-cores=true"]}
    version = node.root / "var/lib/rancher/rke2/bin"
    version.parent.mkdir(parents=True)
    version.symlink_to("/var/lib/rancher/rke2/data/v1.36.3-rke2r1-abc/bin")
    for argument, wanted, starts, said in (
        ("max-pods=200", WANTED, True, ""),
        ("tls-cert-file=/x", WANTED, True, ""),
        ("cpu-manager=true", WANTED, None, "kubelet-arg: whether the kubelet has the argument --cpu-manager cannot be told"),
        ("pod-infra-container-image=pause", WANTED, False, "kubelet-arg: found --pod-infra-container-image, which Kubernetes 1.36 does not have"),
        ("max-pods=200", gated, False, "needs the feature gate CPUManagerPolicyAlphaOptions"),
        ("feature-gates=Other=false,CPUManagerPolicyAlphaOptions=true", gated, True, ""),
        ("feature-gates=CPUManagerPolicyAlphaOptions", gated, None, "whether the feature gate CPUManagerPolicyAlphaOptions, which it needs, is on"),
        ("feature-gates=MemoryManager=true", WANTED, False, "feature-gates: found MemoryManager"),
    ):
        node.put(ARGUMENTS, f"kubelet-arg:\n  - {argument}\n")
        found = run(capsys, node, wanted=wanted)[1]["would_start"]
        assert (found["ok"], said in "\n".join(found["reasons"])) == (starts, True), (argument, found)
    version.unlink()
    node.put(ARGUMENTS, "kubelet-arg:\n  - pod-infra-container-image=pause\n")
    found = run(capsys, node, wanted=WANTED)[1]["would_start"]
    assert "kubelet-arg: whether the kubelet has the argument --pod-infra-container-image cannot be told" in found["reasons"]


@pytest.mark.parametrize("check", [False, True])
def test_reading_changes_nothing(live: Node, capsys: pytest.CaptureFixture[str], check: bool) -> None:
    live.put(CPU, NONE)
    live.put("/proc/7/comm", "kubelet\n")
    before = live.files()
    code, result = run(capsys, live, _ansible_check_mode=check)
    assert (code, result["changed"], live.files()) == (0, False, before)
    assert result["would_start"] == {"ok": False, "reasons": [f"{CPU} {POLICY}"]} and result["remove"] == [{"file": CPU, "reason": POLICY}]


def test_both_files_and_another_folder(node: Node, capsys: pytest.CaptureFixture[str]) -> None:
    node.put("/data/kubelet/cpu_manager_state", NONE)
    node.put("/data/kubelet/memory_manager_state", "\0\0")
    node.put(CPU, NONE)
    result = run(capsys, node, state="consistent", root_dir="/data/kubelet")[1]
    assert len(result["saved"]) == 2 and set(node.files()) == {CPU, *result["saved"]}


def test_the_folder_and_what_is_wanted_come_from_rke2s_configuration(node: Node, capsys: pytest.CaptureFixture[str]) -> None:
    node.put("/etc/rancher/rke2/config.yaml", "kubelet-arg:\n  - root-dir=/data/kubelet\n  - cpu-manager-policy=static\n  - reserved-cpus=0-1\n")
    node.put("/data/kubelet/cpu_manager_state", NONE)
    assert run(capsys, node, wanted=None)[1]["remove"] == [{"file": "/data/kubelet/cpu_manager_state", "reason": POLICY}]
    node.put("/var/lib/rancher/rke2/agent/etc/kubelet.conf.d/10-x.conf", "cpuManagerPolicy: none\nmemoryManagerPolicy: Static\n")
    result = run(capsys, node, wanted=None)[1]
    assert result["remove"] == [] and result["would_start"]["ok"] is None
    assert "10-x.conf:2 sets 'memoryManagerPolicy: Static' for the kubelet" in result["would_start"]["reasons"][0]


def test_a_configuration_that_cannot_be_read_judges_no_policy(node: Node, capsys: pytest.CaptureFixture[str]) -> None:
    node.put("/etc/rancher/rke2/config.yaml", "kubelet-arg: [\n")
    node.put(CPU, NONE)
    result = run(capsys, node, wanted=None, state="consistent")[1]
    assert (result["changed"], result["would_start"]["ok"]) == (False, None) and node.there(CPU)


def test_a_running_kubelet_forbids_it(live: Node, capsys: pytest.CaptureFixture[str]) -> None:
    live.put(CPU, NONE)
    live.put("/proc/712/comm", "kubelet\n")
    before = live.files()
    for args in ({}, {"force": True}, {"_ansible_check_mode": True}):
        code, result = run(capsys, live, state="consistent", **args)
        assert code == 1 and result["msg"] == "nothing was removed: the kubelet runs (process 712) and would write them again: stop RKE2 first"
        assert live.files() == before and result["remove"]


def test_check_mode_foretells_what_goes_once_the_node_is_drained(live: Node, capsys: pytest.CaptureFixture[str]) -> None:
    live.put(CPU, PINNED)
    live.put("/proc/712/comm", "kubelet\n")
    live.container("4-7")
    before = live.files()
    given = {"state": "consistent", "wanted": {"kubelet.cpu_manager_policy": "none"}, "foretell": True, "_ansible_diff": True}
    code, result = run(capsys, live, **given, _ansible_check_mode=True)
    assert (code, result["changed"], [each["file"] for each in result["remove"]]) == (0, True, [CPU])
    assert result["diff"][-1]["before_header"].startswith(f"{CPU} ") and live.files() == before
    # It opens no way around a refusal.
    code, result = run(capsys, live, **given)
    assert code == 1 and "the kubelet runs (process 712)" in result["msg"] and live.files() == before


def test_containers_with_cpus_of_their_own_forbid_it_unless_forced(live: Node, capsys: pytest.CaptureFixture[str]) -> None:
    live.put(CPU, PINNED)
    live.container("4-7")
    wanted = {"kubelet.cpu_manager_policy": "none"}
    for check in (True, False):
        code, result = run(capsys, live, state="consistent", wanted=wanted, _ansible_check_mode=check)
        assert code == 1 and f"app of pod {POD} on CPUs 4-7" in result["msg"] and "Drain the node" in result["msg"]
        assert result["containers"] == [{"pod": POD, "container": "app", "cpus": "4-7", "alive": True}] and live.there(CPU)
    code, result = run(capsys, live, state="consistent", wanted=wanted, force=True)
    assert (code, result["changed"], live.there(CPU)) == (0, True, False)


def test_containers_of_the_shared_pool_and_leaked_entries_forbid_nothing(live: Node, capsys: pytest.CaptureFixture[str]) -> None:
    live.put(CPU, PINNED)
    live.container("0-3")
    code, result = run(capsys, live, state="consistent", wanted={"kubelet.cpu_manager_policy": "none"})
    assert (code, result["containers"][0]["alive"], live.there(CPU)) == (0, False, False)


def memory(*pods: str) -> str:
    """A file of the memory manager in which these pods have memory; that of another machine, so that it has to go."""
    block = {"numaAffinity": [0], "type": "memory", "size": 1}
    data = {"policyname": "Static", "machinestate": {}, "entries": {pod: {"app": [block]} for pod in pods}}
    checksum = kubelet_state.memory_checksum("v1", data)
    return json.dumps({"policyName": "Static", "machineState": {}, "entries": data["entries"], "checksum": checksum})


# The file, the container's cpuset.mems (None: cannot be read), and whether the container forbids it.
HOLDS_MEMORY = {
    "as in the file": (memory(POD), "0\n", True),
    "it cannot be told": (memory(POD), None, True),
    "of no memory of its own": (memory(POD), "\n", False),
    "of another pod": (memory("0" * 32), "0\n", False),
    "no entries": (MEMORY_NONE, "0\n", False),
    "a file that cannot be used": ("{", "0\n", True),
    "a file that cannot be used, and none has memory": ("{", "\n", False),
}


@pytest.mark.parametrize("name", HOLDS_MEMORY)
def test_containers_with_memory_of_their_own_forbid_it_unless_forced(live: Node, capsys: pytest.CaptureFixture[str], name: str) -> None:
    """With a number of CPUs that is not whole they are in no file of the CPU manager."""
    text, mems, forbids = HOLDS_MEMORY[name]
    live.put(MEMORY, text)
    live.container("")
    if mems is not None:
        live.put(f"/sys/fs/cgroup/kubepods.slice/kubepods-pod{POD.replace('-', '_')}.slice/cri-containerd-{ID}.scope/cpuset.mems", mems)
    wanted = {"kubelet.memory_manager_policy": "Static" if text == MEMORY_NONE else "None"}
    for args in ({"_ansible_check_mode": True}, {}):
        code, result = run(capsys, live, state="consistent", wanted=wanted, **args)
        assert code == int(forbids)
        if forbids:
            assert live.there(MEMORY) and f"pods with memory of their own are alive, and the kubelet would give it to others: {POD}." in result["msg"]
    if forbids:
        code, _result = run(capsys, live, state="consistent", wanted=wanted, force=True)
    assert code == 0 and not live.there(MEMORY)


def test_everything_that_forbids_it_is_told_at_once(live: Node, capsys: pytest.CaptureFixture[str]) -> None:
    live.put(CPU, "{")
    live.put("/proc/712/comm", "kubelet\n")
    live.container("4-7")
    message = run(capsys, live, state="consistent")[1]["msg"]
    assert "process 712" in message and f"{ID} of pod {POD}" in message


def test_without_cgroup_v2_nobody_knows_what_is_alive(live: Node, capsys: pytest.CaptureFixture[str]) -> None:
    live.put(CPU, PINNED)
    (live.root / "sys/fs/cgroup/cgroup.controllers").unlink()
    wanted = {"kubelet.cpu_manager_policy": "none"}
    code, result = run(capsys, live, state="consistent", wanted=wanted)
    assert code == 1 and "cannot be told" in result["msg"] and result["containers"][0]["alive"] is None
    assert run(capsys, live, state="consistent", wanted=wanted, force=True)[1]["changed"] is True


def test_nothing_to_remove_is_refused_by_nothing(live: Node, capsys: pytest.CaptureFixture[str]) -> None:
    live.put(CPU, PINNED)
    live.container("4-7")
    live.put("/proc/712/comm", "kubelet\n")
    code, result = run(capsys, live, state="consistent")
    assert (code, result["changed"], result["would_start"]["ok"]) == (0, False, True)


def test_a_kubelet_that_starts_meanwhile(live: Node, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    live.put(CPU, NONE)
    ours = kubelet_cpu_state.kubelet_cpu_state
    removal = ours.removal

    def slow(*args: Any) -> Any:
        files = removal(*args)
        live.put(CPU, PINNED)
        return files

    monkeypatch.setattr(ours, "removal", slow)
    code, result = run(capsys, live, state="consistent")
    assert code == 1 and "a kubelet was started" in result["msg"] and live.files() == {CPU: PINNED} and not result["changed"]


def test_a_disk_that_is_full_leaves_all_as_before(node: Node, capsys: pytest.CaptureFixture[str]) -> None:
    node.put(CPU, NONE)
    node.put("/var/lib/inferops-locality/saved", "a file where the folder is wanted")
    before = node.files()
    code, result = run(capsys, node, state="consistent")
    assert code == 1 and "cannot be written" in result["msg"] and not result["changed"] and node.files() == before


def test_a_file_that_cannot_be_put_back_is_told(node: Node, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    node.put(CPU, NONE)
    node.put(MEMORY, "{")
    unlink, replace = os.unlink, os.replace

    def no_room(call: Any, ends: str) -> Any:
        def wrapped(*args: Any) -> None:
            if str(args[-1]).endswith(ends):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            call(*args)
        return wrapped

    monkeypatch.setattr(os, "unlink", no_room(unlink, "/memory_manager_state"))
    monkeypatch.setattr(os, "replace", no_room(replace, "/cpu_manager_state"))
    code, result = run(capsys, node, state="consistent")
    assert code == 1 and result["changed"] and "as before" not in result["msg"]
    assert f"{MEMORY} cannot be removed: No space left on device; {CPU} could NOT be put back" in result["msg"]


def test_a_copy_is_never_written_over_another(node: Node, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("time.strftime", lambda *_args: "20261130T021500Z")
    for text in (NONE, "{"):
        node.put(CPU, text)
        run(capsys, node, state="consistent")
    folder = node.root / "var/lib/inferops-locality/saved"
    assert {path.name: path.read_text() for path in folder.iterdir()} == {
        "cpu_manager_state.20261130T021500Z": NONE, "cpu_manager_state.20261130T021500Z.1": "{",
    }


HOSTILE = {
    "garbled": ('{"policyName":"sta\x07', True),
    "empty": ("", True),
    "NULs": ("\0" * 4096, True),
    "a list": ("[]", True),
    "wrong types": ('{"policyName":7,"entries":"x","checksum":"y"}', True),
    "nested without end": ("[" * 100000, True),
    "a key twice": ('{"policyName":"none","policyName":"static","checksum":0}', False),
    "a key of the future": ('{"policyName":"none","defaultCpuSet":"","shiny":1,"checksum":0}', False),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_files(node: Node, capsys: pytest.CaptureFixture[str], name: str) -> None:
    text, goes = HOSTILE[name]
    node.put(CPU, text)
    node.put(MEMORY, text)
    code, result = run(capsys, node, state="consistent", force=True)
    assert (code, node.there(CPU), node.there(MEMORY)) == (0, not goes, not goes)
    assert sorted(Path(path).name.partition(".")[0] for path in result["saved"]) == (["cpu_manager_state", "memory_manager_state"] if goes else [])
    assert result["would_start"]["ok"] is (False if goes else None)
    assert (result["cpu"]["format"] == "unknown") is not goes


def test_what_cannot_be_read_is_left_alone(node: Node, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kubelet_state, "MAX_BYTES", 100)
    node.put(CPU, NONE + " " * 200)
    (node.root / MEMORY[1:]).mkdir()
    code, result = run(capsys, node, state="consistent")
    assert (code, result["changed"], result["would_start"]["ok"]) == (0, False, None) and node.there(CPU)
    assert [result[name]["reason"] for name in ("cpu", "memory")] == ["cannot be read"] * 2


def test_of_a_link_only_the_link_goes(node: Node, capsys: pytest.CaptureFixture[str]) -> None:
    node.put("/data/state", NONE)
    (node.root / CPU[1:]).symlink_to("/data/state")
    result = run(capsys, node, state="consistent")[1]
    assert not node.there(CPU) and node.files() == {"/data/state": NONE, result["saved"][0]: NONE}


def test_a_link_out_of_the_root_is_not_followed(node: Node, capsys: pytest.CaptureFixture[str], tmp_path_factory: pytest.TempPathFactory) -> None:
    outside = tmp_path_factory.mktemp("outside")
    (outside / "cpu_manager_state").write_text(NONE)
    (node.root / "var/lib/kubelet").rmdir()
    (node.root / "var/lib/kubelet").symlink_to(outside)
    code, result = run(capsys, node, state="consistent")
    assert (code, result["changed"]) == (0, False) and (outside / "cpu_manager_state").read_text() == NONE


@pytest.mark.parametrize("args, said", [
    ({"wanted": {"kubelet.cpu_manager_polici": "static"}}, "found the knob 'kubelet.cpu_manager_polici'"),
    ({"root_dir": "data"}, "root_dir: found 'data'"), ({"root_dir": "/data/../x"}, "root_dir: found '/data/../x'"),
    ({"root_dir": "//data"}, "root_dir: found '//data'"),
    ({"state": "absent"}, "state"), ({"wanted": "static"}, "wanted"), ({"root": "/does/not/exist"}, "is not a directory"),
])
def test_bad_input_changes_nothing(node: Node, capsys: pytest.CaptureFixture[str], args: dict[str, Any], said: str) -> None:
    node.put(CPU, NONE)
    code, result = run(capsys, node, **{"state": "consistent", **args})
    assert code == 1 and said in result["msg"] and node.there(CPU)


def test_documentation_names_what_is_returned(node: Node, capsys: pytest.CaptureFixture[str]) -> None:
    documented = yaml.safe_load(kubelet_cpu_state.RETURN)
    result = run(capsys, node, state="consistent")[1]
    assert set(documented) == set(result) - {"changed", "diff", "invocation"}
    for name in ("cpu", "memory", "would_start"):
        assert set(documented[name]["sample"]) == set(result[name])
