# Copyright (c) 2026 The inferops.locality authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The kubelet's checkpoints of its CPU and memory managers: which form a file has, and whether its checksum holds.

A kubelet whose checkpoint disagrees with its configuration does not start. The files are JSON with a checksum over Go's
printed form of the structure (not over the text), which differs between versions. All forms of Kubernetes 1.17 to 1.37 are
known; a file of any other form is ``unknown`` and is left alone. Nothing here writes a checkpoint.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any, Dict, List, Mapping, Optional, Tuple

from ansible_collections.inferops.locality.plugins.module_utils import cpulist
from ansible_collections.inferops.locality.plugins.module_utils.cpulist import CpuSet
from ansible_collections.inferops.locality.plugins.module_utils.sysroot import SysRoot

CPU_FILE = "cpu_manager_state"
MEMORY_FILE = "memory_manager_state"
DEFAULT_ROOT_DIR = "/var/lib/kubelet"
MAX_BYTES = 16 * 2**20


class StateError(ValueError):
    """A checkpoint the kubelet would refuse, or one of an unknown form (``form`` is ``unknown`` then, else None)."""

    def __init__(self, reason: str, form: Optional[str] = None) -> None:
        super().__init__(reason)
        self.form = form


@dataclass(frozen=True)
class CpuState:
    """One CPU checkpoint. ``entries``: pod UID to container to CPUs; of v1 the pod UID is empty and the container is its id.

    :ivar pods: CPUs that belong to a whole pod (v3, v4).
    """

    form: str
    policy: str
    default: CpuSet
    entries: Dict[str, Dict[str, CpuSet]] = field(default_factory=dict)
    pods: Dict[str, CpuSet] = field(default_factory=dict)


@dataclass(frozen=True)
class MemoryState:
    """One memory checkpoint. ``machine``: NUMA node to resource to ``{total, systemReserved, allocatable, reserved, free}`` in bytes."""

    form: str
    policy: str
    machine: Dict[int, Dict[str, Dict[str, int]]]
    entries: Dict[str, Dict[str, List[Dict[str, Any]]]] = field(default_factory=dict)
    pods: Dict[str, List[Dict[str, Any]]] = field(default_factory=dict)


# -- checksums (pkg/kubelet/checkpointmanager/checksum; go-spew with %#v, sorted keys, no methods)

def fnv1a(text: str) -> int:
    """FNV-1a, 32 bits, of the UTF-8 bytes."""
    value = 0x811C9DC5
    for byte in text.encode("utf-8", "surrogatepass"):
        value = ((value ^ byte) * 0x01000193) & 0xFFFFFFFF
    return value


def data_checksum(data: str) -> int:
    """``dataChecksum`` of CPU v4 and memory v3: over the decoded text of ``data``."""
    return fnv1a("(string)" + data)


def _map(items: Mapping[Any, str]) -> str:
    """A Go map as go-spew prints it: keys sorted, texts by their bytes and numbers by value."""
    keys = sorted(items, key=lambda key: key.encode("utf-8", "surrogatepass") if isinstance(key, str) else key)
    return "map[" + " ".join(f"{key}:{items[key]}" for key in keys) + "]"


def _optional_map(items: Optional[Mapping[Any, str]]) -> str:
    return "<nil>" if items is None else _map(items)


def cpu_checksum(form: str, data: Mapping[str, Any], name: str = "CPUManagerCheckpoint") -> int:
    """Checksum of a CPU checkpoint with keys in lower case, as the kubelet that writes ``form`` computes it.

    v1 has one level of entries; v4 carries the checksum of v2.

    :param name: of the Go type. Every release drops the version from it; Kubernetes' own tests of v3 also have files whose
        checksum is over ``CPUManagerCheckpointV3`` (state_checkpoint_test.go).
    """
    entries = data.get("entries")
    if form == "v1":
        kind, printed = "map[string]string", entries
    else:
        kind, printed = "map[string]map[string]string", None if entries is None else {pod: _optional_map(value) for pod, value in entries.items()}
    text = (f"(*state.{name}){{PolicyName:(string){data['policyname']} DefaultCPUSet:(string){data['defaultcpuset']} "
            f"Entries:({kind}){_checked_map(printed)}")
    if form == "v3":
        pods = data.get("podentries")
        shown = None if pods is None else {pod: f"{{CPUSet:(cpuset.CPUSet){{elems:(map[int]struct {{}}){_elements(value)}}}}}" for pod, value in pods.items()}
        text += f" PodEntries:(state.PodCPUAssignments){_checked_map(shown)}"
    return fnv1a(text + " Checksum:(checksum.Checksum)0}")


def _checked_map(items: Optional[Mapping[str, str]]) -> str:
    # the kubelet makes the maps before it decodes into them: an absent one is empty
    return _map(items or {})


def _elements(value: Mapping[str, Any]) -> str:
    return _map(dict.fromkeys(cpulist.from_kubelet(str(_lower(value).get("cpuset", ""))), "{}"))


_TABLE = (("TotalMemSize", "total"), ("SystemReserved", "systemreserved"), ("Allocatable", "allocatable"), ("Reserved", "reserved"), ("Free", "free"))


def _numbers(values: Optional[List[int]]) -> str:
    return "<nil>" if values is None else "[" + " ".join(str(value) for value in values) + "]"


def _blocks(blocks: Optional[List[Mapping[str, Any]]]) -> str:
    if blocks is None:
        return "<nil>"
    shown = []
    for block in blocks:
        block = _lower(block)
        shown.append(f"{{NUMAAffinity:([]int){_numbers(block.get('numaaffinity'))} Type:(v1.ResourceName){block.get('type', '')} "
                     f"Size:(uint64){block.get('size', 0)}}}")
    return "[" + " ".join(shown) + "]"


def memory_checksum(form: str, data: Mapping[str, Any]) -> int:
    """Checksum of a memory checkpoint with keys in lower case; v3 carries the checksum of v1."""
    machine = {}
    for node, state in (data.get("machinestate") or {}).items():
        state = _lower(state)
        table = {}
        for resource, sizes in (state.get("memorymap") or {}).items():
            sizes = _lower(sizes)
            table[resource] = "<*>{" + " ".join(f"{name}:(uint64){sizes.get(key, 0)}" for name, key in _TABLE) + "}"
        machine[int(node)] = (f"<*>{{NumberOfAssignments:(int){state.get('numberofassignments', 0)} "
                              f"MemoryMap:(map[v1.ResourceName]*state.MemoryTable)"
                              f"{_optional_map(table if state.get('memorymap') is not None else None)} "
                              f"Cells:([]int){_numbers(state.get('cells'))}}}")
    entries = {pod: _optional_map(None if containers is None else {name: _blocks(blocks) for name, blocks in containers.items()})
               for pod, containers in (data.get("entries") or {}).items()}
    text = (f"(*state.MemoryManagerCheckpoint){{PolicyName:(string){data['policyname']} MachineState:(state.NUMANodeMap){_map(machine)} "
            f"Entries:(state.ContainerMemoryAssignments){_map(entries)}")
    if form == "v2":
        pods = {pod: f"{{MemoryBlocks:([]state.Block){_blocks(_lower(value).get('memoryblocks'))}}}" for pod, value in (data.get("podentries") or {}).items()}
        text += f" PodEntries:(state.PodMemoryAssignments){_map(pods)}"
    return fnv1a(text + " Checksum:(checksum.Checksum)0}")


# -- decoding

def _lower(data: Any) -> Dict[str, Any]:
    """A Go structure: keys match without regard to case, later ones win."""
    if not isinstance(data, dict):
        raise StateError("is not JSON of the expected shape", "unknown")
    return {str(key).lower(): value for key, value in data.items()}


_CPU_KEYS = frozenset(("policyname", "defaultcpuset", "entries", "podentries", "checksum", "data", "datachecksum"))
_MEMORY_KEYS = frozenset(("policyname", "machinestate", "entries", "podentries", "checksum", "data", "datachecksum"))


def _load(text: str, keys: frozenset[str]) -> Dict[str, Any]:
    if not text.strip("\0 \t\r\n"):
        raise StateError("is empty")
    try:
        raw = json.loads(text)
    except RecursionError as error:
        raise StateError("is not JSON: nested too deeply") from error
    except ValueError as error:
        position = getattr(error, "pos", None)
        raise StateError("is not JSON" + (f": broken at character {position + 1}" if position is not None else "")) from error
    if not isinstance(raw, dict):
        raise StateError("is not a JSON object")
    data = _lower(raw)
    unknown = sorted(set(data) - keys)
    if unknown:
        # Go skips them, but a form we do not know may mean anything
        raise StateError(f"has keys no known version writes ({', '.join(unknown)[:80]})", "unknown")
    for key, kind in (("policyname", str), ("defaultcpuset", str), ("data", str), ("entries", dict), ("podentries", dict), ("machinestate", dict)):
        if data.get(key) is not None and not isinstance(data[key], kind):
            raise StateError(f"'{key}' is not of the expected type")
    for key in ("checksum", "datachecksum"):
        if key in data and (isinstance(data[key], bool) or not isinstance(data[key], int) or not 0 <= data[key] < 2**64):
            raise StateError(f"'{key}' is not a number")
    return data


def _cpus(text: Any, what: str) -> CpuSet:
    if not isinstance(text, str):
        raise StateError(f"{what} is not a CPU set")
    try:
        return cpulist.from_kubelet(text)
    except cpulist.CpuListError as error:
        raise StateError(f"{what}: {error}") from error


def decode_cpu(text: str) -> CpuState:
    """Read a CPU checkpoint as the kubelet does.

    :raises StateError: the kubelet would refuse it, or its form is unknown.
    """
    data = _load(text, _CPU_KEYS)
    data["policyname"] = data.get("policyname") or ""
    data["defaultcpuset"] = data.get("defaultcpuset") or ""
    if "checksum" not in data:
        data["checksum"] = 0
    form = _cpu_form(data)
    inner = data
    if form == "v4":
        inner = _inner(data, _CPU_KEYS)
    entries: Dict[str, Dict[str, CpuSet]] = {}
    for pod, value in (inner.get("entries") or {}).items():
        if form == "v1":
            entries.setdefault("", {})[pod] = _cpus(value, f"CPUs of container {pod}")
        else:
            entries[pod] = {name: _cpus(cpus, f"CPUs of container {name} of pod {pod}") for name, cpus in _objects(value, pod).items()}
    pods = {pod: _cpus(_lower(value).get("cpuset", ""), f"CPUs of pod {pod}") for pod, value in (inner.get("podentries") or {}).items()}
    return CpuState(form, inner.get("policyname") or "", _cpus(inner.get("defaultcpuset") or "", "the default CPU set"), entries, pods)


def _objects(value: Any, pod: str) -> Dict[str, Any]:
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise StateError(f"entries of pod {pod} are not an object")
    return value


_V3_NAME = "CPUManagerCheckpointV3"


def _cpu_form(data: Dict[str, Any]) -> str:
    """The form whose checksum holds."""
    entries = data.get("entries")
    flat = bool(entries) and all(isinstance(value, str) for value in (entries or {}).values())
    if not flat:
        for pod, value in (entries or {}).items():
            if any(not isinstance(cpus, str) for cpus in _objects(value, pod).values()):
                raise StateError(f"entries of pod {pod} are not CPU sets")
    if data.get("data") or data.get("datachecksum"):
        if flat or data["checksum"] != cpu_checksum("v2", data):
            raise StateError("checksum does not match")
        return "v4"
    if data.get("podentries") is not None:
        if flat:
            raise StateError("entries are not of the shape podEntries come with", "unknown")
        try:
            known = (cpu_checksum("v3", data), cpu_checksum("v3", data, _V3_NAME))
        except cpulist.CpuListError as error:
            raise StateError(f"CPUs of a pod: {error}") from error
        if data["checksum"] not in known:
            raise StateError("checksum does not match")
        return "v3"
    # a checksum of 0 is taken without a check (1.4 of the kubelet's own recipe: CPU v1 and v2 only)
    if not flat and data["checksum"] in (0, cpu_checksum("v2", data)):
        return "v2"
    if (flat or not entries) and data["checksum"] in (0, cpu_checksum("v1", data)):
        return "v1"
    if not flat and data["checksum"] == cpu_checksum("v3", data, _V3_NAME):
        return "v3"
    raise StateError("checksum does not match")


def _inner(data: Dict[str, Any], keys: frozenset[str]) -> Dict[str, Any]:
    """What ``data`` of CPU v4 and memory v3 holds; a wrong one is an error, the outer keys are no way out."""
    if not isinstance(data.get("data"), str) or data.get("datachecksum") != data_checksum(data["data"]):
        raise StateError("dataChecksum does not match")
    inner = _load(data["data"], keys | {"originals"})
    return inner


def decode_memory(text: str) -> MemoryState:
    """Read a memory checkpoint as the kubelet does. A checksum of 0 is refused, as kubelets before 1.36 do.

    :raises StateError: the kubelet would refuse it, or its form is unknown.
    """
    data = _load(text, _MEMORY_KEYS)
    data["policyname"] = data.get("policyname") or ""
    form = "v3" if data.get("data") or data.get("datachecksum") else "v2" if data.get("podentries") is not None else "v1"
    try:
        matches = data.get("checksum", 0) == memory_checksum("v1" if form == "v3" else form, data)
        if not matches:
            raise StateError("checksum does not match")
        inner = _inner(data, _MEMORY_KEYS) if form == "v3" else data
        machine = {int(node): {resource: {str(key): int(size) for key, size in sizes.items()}
                               for resource, sizes in (_lower(state).get("memorymap") or {}).items()}
                   for node, state in (inner.get("machinestate") or {}).items()}
        entries = {pod: {name: list(blocks or []) for name, blocks in _objects(value, pod).items()} for pod, value in (inner.get("entries") or {}).items()}
        pods = {pod: list(_lower(value).get("memoryblocks") or []) for pod, value in (inner.get("podentries") or {}).items()}
    except StateError:
        raise
    except (TypeError, ValueError, AttributeError) as error:
        raise StateError("is not JSON of the expected shape", "unknown") from error
    return MemoryState(form, inner.get("policyname") or "", machine, entries, pods)


# -- judging

def judge(
    sysroot: SysRoot, root_dir: str = DEFAULT_ROOT_DIR, wanted: Optional[Mapping[str, Any]] = None, online: Optional[CpuSet] = None,
) -> Dict[str, Dict[str, Any]]:
    """Read both checkpoints and say whether a kubelet with the ``wanted`` policies could take them.

    Judged are form and checksum, the policy's name, and that the CPU manager's sets are the online CPUs (static policy). Whether reserved
    CPUs or NUMA totals would stop it is not.

    :param root_dir: the kubelet's ``--root-dir``.
    :param wanted: ``{"cpu": "static"|"none"|None, "memory": "Static"|"None"|None, "strict": bool, "reserved": CpuSet}``; a policy
        of None is not judged. With ``strict`` (option strict-cpu-reservation, default false) the ``reserved`` CPUs are in none of
        the sets; without it they are not looked at.
    :param online: the online CPUs; None where they are not known.
    :returns: for ``cpu`` and ``memory``: ``{file, exists, policy, valid, reason, format, entries}``. ``valid`` is None where there is no
        file; ``entries`` counts containers and pods with resources of their own; ``format`` is ``v1``…``v4``, ``unknown`` or None.
    """
    wanted = wanted or {}
    folder = root_dir.rstrip("/")
    return {"cpu": _judge_cpu(sysroot, f"{folder}/{CPU_FILE}", wanted, online), "memory": _judge_memory(sysroot, f"{folder}/{MEMORY_FILE}", wanted)}


def _file(sysroot: SysRoot, path: str) -> Tuple[Dict[str, Any], Optional[str]]:
    result: Dict[str, Any] = {"file": path, "exists": False, "policy": None, "valid": None, "reason": None, "format": None, "entries": 0}
    data = sysroot.data(path, MAX_BYTES)
    if data is None:
        if sysroot.exists(path):
            result.update(exists=True, reason="cannot be read")
        return result, None
    result["exists"] = True
    try:
        return result, data.decode("utf-8")
    except UnicodeDecodeError:
        result.update(valid=False, reason="is not UTF-8 text")
        return result, None


def _judge_cpu(sysroot: SysRoot, path: str, wanted: Mapping[str, Any], online: Optional[CpuSet]) -> Dict[str, Any]:
    result, text = _file(sysroot, path)
    if text is None:
        return result
    try:
        state = decode_cpu(text)
    except StateError as error:
        result.update(valid=False, reason=str(error), format=error.form)
        return result
    result.update(valid=True, policy=state.policy, format=state.form, entries=sum(len(containers) for containers in state.entries.values()) + len(state.pods))
    policy = wanted.get("cpu")
    if policy is not None and state.policy != policy:
        result.update(valid=False, reason=f"policy is '{state.policy}', wanted '{policy}'")
    elif state.policy == "static" and online is not None:
        reason = _static_reason(state, online, wanted)
        if reason:
            result.update(valid=False, reason=reason)
    return result


def _static_reason(state: CpuState, online: CpuSet, wanted: Mapping[str, Any]) -> Optional[str]:
    """Why the sets of a static checkpoint are not this machine's (pkg/kubelet/cm/cpumanager/policy_static.go validateState)."""
    given: List[CpuSet] = [cpus for containers in state.entries.values() for cpus in containers.values()] + list(state.pods.values())
    if not state.default and given:
        return "the default CPU set is empty, but there are entries"
    if not state.default:
        return None
    known = state.default.union(*given)
    expected = online - frozenset(wanted.get("reserved") or ()) if wanted.get("strict") else online
    return None if known == expected else _difference(known, expected)


def _difference(known: CpuSet, expected: CpuSet) -> str:
    parts = []
    if expected - known:
        parts.append(f"CPUs {cpulist.to_list(expected - known)} are not in it")
    if known - expected:
        parts.append(f"CPUs {cpulist.to_list(known - expected)} are in it and not online")
    return "does not fit the online CPUs: " + ", ".join(parts)


def _judge_memory(sysroot: SysRoot, path: str, wanted: Mapping[str, Any]) -> Dict[str, Any]:
    result, text = _file(sysroot, path)
    if text is None:
        return result
    try:
        state = decode_memory(text)
    except StateError as error:
        result.update(valid=False, reason=str(error), format=error.form)
        return result
    count = sum(len(containers) for containers in state.entries.values()) + len(state.pods)
    result.update(valid=True, policy=state.policy, format=state.form, entries=count)
    policy = wanted.get("memory")
    if policy is not None and state.policy != policy:
        result.update(valid=False, reason=f"policy is '{state.policy}', wanted '{policy}'")
    return result


def summary(judged: Mapping[str, Mapping[str, Any]], wanted: Optional[Mapping[str, Any]] = None) -> str:
    """``consistent``, or why a kubelet with the ``wanted`` policies (as for :func:`judge`) would not take the files.

    Absent files are consistent: the kubelet makes them.
    """
    reasons = []
    for name in ("cpu", "memory"):
        entry = judged.get(name) or {}
        if not entry.get("exists"):
            continue
        reason = entry.get("reason")
        policy = (wanted or {}).get(name)
        if not reason and policy is not None and entry.get("policy") != policy:
            reason = f"policy is '{entry.get('policy')}', wanted '{policy}'"
        if reason:
            reasons.append(f"{entry.get('file')} {reason}")
    return "; ".join(reasons) or "consistent"


__all__ = (
    "CPU_FILE", "CpuState", "DEFAULT_ROOT_DIR", "MEMORY_FILE", "MemoryState", "StateError", "cpu_checksum", "data_checksum", "decode_cpu",
    "decode_memory", "fnv1a", "judge", "memory_checksum", "summary",
)
