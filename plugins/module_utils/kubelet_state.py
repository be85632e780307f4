# Copyright (c) 2026 The inferops.locality authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The kubelet's checkpoints of its CPU and memory managers: which form a file has, and whether its checksum holds.

A kubelet whose checkpoint disagrees with its configuration does not start. The files are JSON with a checksum over Go's
printed form of the structure (not over the text), which differs between versions. All forms of Kubernetes 1.17 to 1.37 are
known; a file of any other form is ``unknown`` and is left alone. Nothing here writes a checkpoint. Whether a kubelet would start with one
is told by ``kubelet_predict``.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any, Dict, List, Mapping, Optional, Tuple

from ansible_collections.inferops.locality.plugins.module_utils import cpulist
from ansible_collections.inferops.locality.plugins.module_utils.cpulist import CpuSet

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
    """One memory checkpoint. ``machine``: NUMA node to resource to ``{total, systemReserved, allocatable, reserved, free}`` in bytes.

    :ivar entries: pod UID to container to blocks ``{numaAffinity, type, size}``, sizes in bytes. :ivar pods: blocks of a whole pod (v2, v3).
    :ivar assignments: NUMA node to how many blocks it serves. :ivar cells: NUMA node to the nodes it is tied to, itself among them.
    """

    form: str
    policy: str
    machine: Dict[int, Dict[str, Dict[str, int]]]
    entries: Dict[str, Dict[str, List[Dict[str, Any]]]] = field(default_factory=dict)
    pods: Dict[str, List[Dict[str, Any]]] = field(default_factory=dict)
    assignments: Dict[int, int] = field(default_factory=dict)
    cells: Dict[int, List[int]] = field(default_factory=dict)


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


# The sizes of a resource on a NUMA node, in the order of the kubelet's file.
TABLE = ("total", "systemReserved", "allocatable", "reserved", "free")
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
    """A Go structure: keys match without regard to case."""
    if not isinstance(data, dict):
        raise StateError("is not JSON of the expected shape", "unknown")
    found = {str(key).lower(): value for key, value in data.items()}
    if len(found) != len(data):
        raise StateError("has a key twice, in different spellings", "unknown")
    return found


def _once(pairs: List[Tuple[str, Any]]) -> Dict[str, Any]:
    """An object of JSON. Of a key that is there twice Go takes the last and merges maps; no kubelet writes one."""
    found = dict(pairs)
    if len(found) != len(pairs):
        raise StateError("has a key twice", "unknown")
    return found


_CPU_KEYS = frozenset(("policyname", "defaultcpuset", "entries", "podentries", "checksum", "data", "datachecksum"))
_MEMORY_KEYS = frozenset(("policyname", "machinestate", "entries", "podentries", "checksum", "data", "datachecksum"))


def _load(text: str, keys: frozenset[str]) -> Dict[str, Any]:
    if not text.strip("\0 \t\r\n"):
        raise StateError("is empty")
    try:
        raw = json.loads(text, object_pairs_hook=_once)
    except StateError:
        raise
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


def decode_cpu(text: str, minor: Optional[int] = None) -> CpuState:
    """Read a CPU checkpoint as the kubelet does.

    :param minor: minor version of its Kubernetes; None for one that reads all there is. Before 1.37 a kubelet skips the half of form v4 that is new.
    :raises StateError: the kubelet would refuse it, or its form is unknown.
    """
    data = _load(text, _CPU_KEYS)
    data["policyname"] = data.get("policyname") or ""
    data["defaultcpuset"] = data.get("defaultcpuset") or ""
    if "checksum" not in data:
        data["checksum"] = 0
    old = minor is not None and minor < _DATA and (data.pop("data", None), data.pop("datachecksum", None)) != (None, None)
    form = _cpu_form(data)
    inner = data
    if old and form == "v2":
        form = "v4"
    elif form == "v4":
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
# Minor versions of Kubernetes: the first that reads ``data``, the first that takes a memory checkpoint with a checksum of 0.
_DATA, _UNCHECKED = 37, 36


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
    # A kubelet that writes v3 leaves an empty podEntries out, and counts it.
    if not flat and data["checksum"] in (cpu_checksum("v3", data), cpu_checksum("v3", data, _V3_NAME)):
        return "v3"
    raise StateError("checksum does not match")


def _inner(data: Dict[str, Any], keys: frozenset[str]) -> Dict[str, Any]:
    """What ``data`` of CPU v4 and memory v3 holds; a wrong one is an error, the outer keys are no way out."""
    if not isinstance(data.get("data"), str) or data.get("datachecksum") != data_checksum(data["data"]):
        raise StateError("dataChecksum does not match")
    inner = _load(data["data"], keys | {"originals"})
    return inner


def decode_memory(text: str, minor: Optional[int] = None) -> MemoryState:
    """Read a memory checkpoint as the kubelet does.

    :param minor: minor version of its Kubernetes. Before 1.37 a kubelet skips the half of form v3 that is new; before 1.36 it refuses a checksum of 0, as is
        done where None is given.
    :raises StateError: the kubelet would refuse it, or its form is unknown.
    """
    data = _load(text, _MEMORY_KEYS)
    data["policyname"] = data.get("policyname") or ""
    form = "v3" if data.get("data") or data.get("datachecksum") else "v2" if data.get("podentries") is not None else "v1"
    try:
        unchecked = form == "v1" and data.get("checksum", 0) == 0 and minor is not None and minor >= _UNCHECKED
        matches = unchecked or data.get("checksum", 0) == memory_checksum("v1" if form == "v3" else form, data)
        if not matches and form == "v1" and data.get("checksum", 0) == memory_checksum("v2", data):
            # A kubelet that writes v2 leaves an empty podEntries out, and counts it.
            matches, form = True, "v2"
        if not matches:
            raise StateError("checksum does not match")
        inner = _inner(data, _MEMORY_KEYS) if form == "v3" and (minor is None or minor >= _DATA) else data
        nodes = {int(node): _lower(state) for node, state in (inner.get("machinestate") or {}).items()}
        machine = {node: {resource: {name: int(_lower(sizes).get(name.lower(), 0)) for name in TABLE}
                          for resource, sizes in (state.get("memorymap") or {}).items()}
                   for node, state in nodes.items()}
        assignments = {node: int(state.get("numberofassignments") or 0) for node, state in nodes.items()}
        cells = {node: [int(cell) for cell in state.get("cells") or []] for node, state in nodes.items()}
        entries = {pod: {name: [_block(block) for block in blocks or []] for name, blocks in _objects(value, pod).items()}
                   for pod, value in (inner.get("entries") or {}).items()}
        pods = {pod: [_block(block) for block in _lower(value).get("memoryblocks") or []] for pod, value in (inner.get("podentries") or {}).items()}
    except StateError:
        raise
    except (TypeError, ValueError, AttributeError, OverflowError) as error:
        raise StateError("is not JSON of the expected shape", "unknown") from error
    return MemoryState(form, inner.get("policyname") or "", machine, entries, pods, assignments, cells)


def _block(block: Any) -> Dict[str, Any]:
    found = _lower(block)
    return {"numaAffinity": [int(node) for node in found.get("numaaffinity") or []], "type": str(found.get("type") or ""), "size": int(found.get("size") or 0)}


__all__ = (
    "CPU_FILE", "CpuState", "DEFAULT_ROOT_DIR", "MAX_BYTES", "MEMORY_FILE", "MemoryState", "StateError", "TABLE", "cpu_checksum", "data_checksum", "decode_cpu",
    "decode_memory", "fnv1a", "memory_checksum",
)
