# Copyright (c) 2026 The inferops.locality authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Would the kubelet start: its checkpoints against the configuration it is to have and the machine it is on, and which file must go if not.

The rules are those of Kubernetes 1.30 to 1.36, with what is known of 1.37: pkg/kubelet/cm/cpumanager/policy_static.go (validateState),
pkg/kubelet/cm/memorymanager/policy_static.go (validateState, getDefaultMachineState), pkg/kubelet/cm/cpumanager/state/state_checkpoint.go. A kubelet
ends at the first thing that is wrong and RKE2 starts it again for ever; here all is told at once. What cannot be told is said to be so.

What is *wanted* are knobs and their values, as a plan and as ``locality_state`` have them. A knob that is not among them is not set, so that the kubelet's
own default holds.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, Dict, List, Mapping, Optional, Tuple, Union

from ansible_collections.inferops.locality.plugins.module_utils import cpulist, kubelet_state, quantity
from ansible_collections.inferops.locality.plugins.module_utils.cpulist import CpuListError, CpuSet
from ansible_collections.inferops.locality.plugins.module_utils.kubelet_state import CpuState, MemoryState, StateError
from ansible_collections.inferops.locality.plugins.module_utils.sysroot import SysRoot

FILES: Mapping[str, str] = {"cpu": kubelet_state.CPU_FILE, "memory": kubelet_state.MEMORY_FILE}
POLICY_KNOBS: Mapping[str, str] = {"cpu": "kubelet.cpu_manager_policy", "memory": "kubelet.memory_manager_policy"}
# The kubelet's defaults; the two managers spell theirs differently.
_DEFAULTS: Mapping[str, str] = {"cpu": "none", "memory": "None"}
_POLICIES: Mapping[str, Tuple[str, str]] = {"cpu": ("none", "static"), "memory": ("None", "Static")}
STRICT = "strict-cpu-reservation"
# Minor versions of Kubernetes that an option came with, that it needs no gate for alpha options from, and none for beta options from; None not yet.
_MATURITY: Mapping[str, Tuple[int, Optional[int], Optional[int]]] = {
    "align-by-socket": (25, None, None),
    "distribute-cpus-across-cores": (31, None, None),
    "distribute-cpus-across-numa": (23, 33, None),
    "full-pcpus-only": (22, 23, 33),
    "prefer-align-cpus-by-uncorecache": (32, 34, 36),
    STRICT: (32, 33, 35),
}
CPU_OPTIONS = tuple(_MATURITY)
_ALPHA_GATE, _BETA_GATE = "CPUManagerPolicyAlphaOptions", "CPUManagerPolicyBetaOptions"
# pkg/kubelet/cm/cpumanager/policy_options.go and policy_static.go: these refuse each other.
_EXCLUSIVE = (
    ("full-pcpus-only", "distribute-cpus-across-cores"), ("distribute-cpus-across-numa", "distribute-cpus-across-cores"),
    ("prefer-align-cpus-by-uncorecache", "distribute-cpus-across-cores"), ("prefer-align-cpus-by-uncorecache", "distribute-cpus-across-numa"),
)
# Of the topology manager (pkg/kubelet/cm/topologymanager/policy_options.go).
TOPOLOGY_OPTIONS = ("max-allowable-numa-nodes", "prefer-closest-numa-nodes")
# What kube-reserved and system-reserved may hold.
_RESERVABLE = ("cpu", "memory", "ephemeral-storage", "pid")
# What eviction-hard may name (pkg/kubelet/eviction/helpers.go).
_SIGNALS = ("memory.available", "allocatableMemory.available", "nodefs.available", "nodefs.inodesFree", "imagefs.available", "imagefs.inodesFree",
            "containerfs.available", "containerfs.inodesFree", "pid.available")
# A quantity of any resource, signs and fractions too (apimachinery, resource.ParseQuantity).
_QUANTITY = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[KMGTPE]i|[numkMGTPE]|[eE][+-]?[0-9]{1,2})?")
# Feature gates of these managers that are no more, and the minor version that does not know them: a kubelet that is given one does not start.
_GATES_GONE: Mapping[str, int] = {"CPUManager": 33, "MemoryManager": 36, "TopologyManager": 30}
# Go's strconv.ParseBool.
_TRUE, _FALSE = ("1", "t", "T", "true", "TRUE", "True"), ("0", "f", "F", "false", "FALSE", "False")
# Without max-allowable-numa-nodes the topology manager takes this many.
_NUMA_NODES = 8
# CPU form v3 and memory form v2 came with this minor version of Kubernetes, for kubelets with a feature gate only; the one after it writes CPU form v4
# and memory form v3, which older ones can read, and no longer reads CPU form v1.
_POD_LEVEL, _COMPATIBLE = 36, 37
_GATE = "PodLevelResourceManagers"
# Differences of a memory checkpoint that are told one by one.
_TOLD = 6
_UINT64 = 2**64


@dataclass(frozen=True)
class Machine:
    """What the kubelet finds at its start.

    :ivar online: CPUs; None unknown. :ivar numa_nodes: NUMA node to resource (``memory``, ``hugepages-2Mi``, …) to bytes; None unknown.
    :ivar minor: minor version of its Kubernetes; None unknown. :ivar gates: feature gates that its arguments set; None unknown.
    """

    online: Optional[CpuSet] = None
    numa_nodes: Optional[Dict[int, Dict[str, int]]] = None
    minor: Optional[int] = None
    gates: Optional[Mapping[str, bool]] = None

    def to_facts(self) -> Dict[str, Any]:
        """JSON of it, but for the version, which is a fact of the platform."""
        nodes = None if self.numa_nodes is None else {str(node): dict(sizes) for node, sizes in self.numa_nodes.items()}
        gates = None if self.gates is None else dict(self.gates)
        return {"online": None if self.online is None else cpulist.to_list(self.online), "numa_nodes": nodes, "gates": gates}

    @classmethod
    def from_facts(cls, facts: Mapping[str, Any], minor: Optional[int] = None) -> Machine:
        """The way back; what is missing is unknown."""
        online, nodes = facts.get("online"), facts.get("numa_nodes")
        return cls(
            None if online is None else cpulist.from_list(online),
            None if nodes is None else {int(node): {str(name): int(size) for name, size in sizes.items()} for node, sizes in nodes.items()},
            minor,
            facts.get("gates"),
        )


def read_machine(sysroot: SysRoot, minor: Optional[int] = None, gates: Optional[Mapping[str, bool]] = None) -> Machine:
    """The machine as the kubelet's cAdvisor reads it: online CPUs, MemTotal and huge pages of each NUMA node, those without CPUs among them."""
    base = "/sys/devices/system/node"
    nodes: Optional[Dict[int, Dict[str, int]]] = {}
    for name in sysroot.listdir(base):
        if not re.fullmatch(r"node[0-9]{1,6}", name):
            continue
        match = re.search(r"\bMemTotal:\s*([0-9]{1,18}) kB", sysroot.text(f"{base}/{name}/meminfo", 2**20) or "")
        if match is None or nodes is None:
            nodes = None
            continue
        sizes = nodes[int(name[4:])] = {"memory": int(match.group(1)) * 1024}
        for pages in sysroot.listdir(f"{base}/{name}/hugepages"):
            size = re.fullmatch(r"hugepages-([0-9]{1,12})kB", pages)
            count = sysroot.integer(f"{base}/{name}/hugepages/{pages}/nr_hugepages") if size else None
            if size and count is not None:
                sizes[f"hugepages-{quantity.page_from_kib(int(size.group(1)))}"] = int(size.group(1)) * 1024 * count
    return Machine(sysroot.cpu_list("/sys/devices/system/cpu/online"), nodes or None, minor, gates)


# -- the files


@dataclass(frozen=True)
class Checkpoint:
    """One file as it was found.

    :ivar state: its content; None where there is no file or it cannot be used. :ivar error: why it cannot be used.
    :ivar unknown: nobody can tell what a kubelet makes of it: its form is unknown, or it cannot be read. Else a kubelet refuses one with an error.
    :ivar data: its bytes, where they were read.
    """

    file: str
    exists: bool = False
    state: Optional[Union[CpuState, MemoryState]] = None
    error: Optional[str] = None
    unknown: bool = False
    data: Optional[bytes] = field(default=None, repr=False)

    @property
    def form(self) -> Optional[str]:
        """``v1`` … ``v4``, ``unknown``, or None where there is no content to have one."""
        if self.state is not None:
            return self.state.form
        return "unknown" if self.unknown and self.error != _UNREADABLE else None

    @property
    def policy(self) -> Optional[str]:
        """Name of the policy in it."""
        return None if self.state is None else self.state.policy

    @property
    def entries(self) -> int:
        """How many containers and pods have resources of their own in it."""
        return 0 if self.state is None else sum(len(containers) for containers in self.state.entries.values()) + len(self.state.pods)


_UNREADABLE = "cannot be read"


def read_files(sysroot: SysRoot, root_dir: str = kubelet_state.DEFAULT_ROOT_DIR, minor: Optional[int] = None) -> Dict[str, Checkpoint]:
    """Both checkpoints, as ``cpu`` and ``memory``. Never raises for what is in them; a symbolic link is followed, as the kubelet does.

    :param root_dir: the kubelet's ``--root-dir``. :param minor: minor version of its Kubernetes; None unknown.
    """
    return {name: _read(sysroot, name, f"{root_dir.rstrip('/')}/{file}", minor) for name, file in FILES.items()}


def _read(sysroot: SysRoot, name: str, path: str, minor: Optional[int]) -> Checkpoint:
    data = sysroot.data(path, kubelet_state.MAX_BYTES)
    if data is None:
        # A folder that may not be entered hides whether there is a file; a link out of the root, where there is one.
        hidden = any(path == problem["file"] or path.startswith(f"{problem['file']}/") for problem in sysroot.problems)
        return Checkpoint(path, True, None, _UNREADABLE, True) if hidden or sysroot.exists(path) else Checkpoint(path)
    try:
        text = data.decode("utf-8")
        return Checkpoint(path, True, kubelet_state.decode_cpu(text, minor) if name == "cpu" else kubelet_state.decode_memory(text, minor), data=data)
    except UnicodeDecodeError:
        return Checkpoint(path, True, None, "is not UTF-8 text", data=data)
    except StateError as error:
        return Checkpoint(path, True, None, str(error), error.form == "unknown", data)


def content(checkpoint: Checkpoint) -> Optional[Dict[str, Any]]:
    """What is in a file, as JSON that :func:`from_facts` reads; None where it cannot be used."""
    state = checkpoint.state
    if isinstance(state, CpuState):
        return {
            "default": cpulist.to_list(state.default),
            "entries": {pod: {name: cpulist.to_list(cpus) for name, cpus in containers.items()} for pod, containers in state.entries.items()},
            "pods": {pod: cpulist.to_list(cpus) for pod, cpus in state.pods.items()},
        }
    if isinstance(state, MemoryState):
        return {
            "numa_nodes": {str(node): {"assignments": state.assignments.get(node, 0), "cells": state.cells.get(node, []), "resources": sizes}
                           for node, sizes in state.machine.items()},
            "entries": state.entries,
            "pods": state.pods,
        }
    return None


def from_facts(name: str, entry: Mapping[str, Any]) -> Checkpoint:
    """A file from its entry in the facts of ``locality_state`` (:func:`judge`).

    An entry without ``content`` of a file with a policy is of a file of which no more is known.
    """
    file, form, policy = str(entry.get("file")), entry.get("format"), entry.get("policy")
    if not entry.get("exists"):
        return Checkpoint(file)
    if policy is None:
        error = entry.get("reason") or _UNREADABLE
        return Checkpoint(file, True, None, error, form == "unknown" or error == _UNREADABLE)
    known = entry.get("content") or {}
    if name == "cpu":
        return Checkpoint(file, True, CpuState(
            str(form), policy, cpulist.from_list(known.get("default") or ""),
            {pod: {each: cpulist.from_list(cpus) for each, cpus in containers.items()} for pod, containers in (known.get("entries") or {}).items()},
            {pod: cpulist.from_list(cpus) for pod, cpus in (known.get("pods") or {}).items()},
        ))
    nodes = {int(node): each for node, each in (known.get("numa_nodes") or {}).items()}
    return Checkpoint(file, True, MemoryState(
        str(form), policy, {node: each["resources"] for node, each in nodes.items()}, known.get("entries") or {}, known.get("pods") or {},
        {node: each["assignments"] for node, each in nodes.items()}, {node: list(each["cells"]) for node, each in nodes.items()},
    ))


# -- predicting


@dataclass
class Prediction:
    """What a kubelet would do at its start.

    :ivar refused: ``cpu``, ``memory`` to why it would not start with that file. :ivar unknown: to why nobody knows what it makes of that file, which is
        left alone. :ivar doubts: to what would have to be known to say whether it takes that file.
    :ivar configuration: why it would not start whatever the files are. :ivar untold: what would have to be known of the configuration.
    :ivar warnings: what it would start with, and should not.
    """

    files: Mapping[str, Checkpoint]
    refused: Dict[str, List[str]] = field(default_factory=dict)
    unknown: Dict[str, List[str]] = field(default_factory=dict)
    doubts: Dict[str, List[str]] = field(default_factory=dict)
    configuration: List[str] = field(default_factory=list)
    untold: List[str] = field(default_factory=list)
    warnings: List[str] = field(default_factory=list)

    @property
    def starts(self) -> Optional[bool]:
        """Whether it would start; None where that cannot be told."""
        if self.configuration or self.refused:
            return False
        return None if self.unknown or self.doubts or self.untold else True

    @property
    def reasons(self) -> List[str]:
        """Everything against it, what is not known, and what it should not start with."""
        found = list(self.configuration)
        for name in FILES:
            found += [f"{self.files[name].file} {reason}" for reason in self.refused.get(name, [])]
            open_ends = self.unknown.get(name, []) + self.doubts.get(name, [])
            found += [f"{self.files[name].file} {reason}: whether the kubelet starts with it cannot be told" for reason in open_ends]
        return found + self.untold + self.warnings

    @property
    def remove(self) -> List[Dict[str, str]]:
        """Files that must be gone for it to start: ``{file, reason}``. It makes them anew."""
        return [{"file": self.files[name].file, "reason": "; ".join(self.refused[name])} for name in FILES if name in self.refused]

    def reason(self, name: str, doubts: bool = True) -> Optional[str]:
        """What there is to say of one file, or None."""
        return "; ".join([*self.refused.get(name, []), *self.unknown.get(name, []), *(self.doubts.get(name, []) if doubts else [])]) or None


def predict(files: Mapping[str, Checkpoint], wanted: Optional[Mapping[str, Any]], machine: Machine) -> Prediction:
    """Say whether the kubelet would start.

    :param files: of :func:`read_files`. :param wanted: knobs to values; None where the configuration is not known: then only the files themselves are judged.
    """
    result = Prediction(files)
    if wanted is not None:
        result.configuration, result.untold, result.warnings = configuration(wanted, machine)
    for name in FILES:
        checkpoint = files[name]
        if not checkpoint.exists:
            continue
        if checkpoint.error is not None:
            (result.unknown if checkpoint.unknown else result.refused)[name] = [checkpoint.error]
            continue
        refused: List[str] = []
        doubts: List[str] = []
        if isinstance(checkpoint.state, CpuState):
            _cpu(checkpoint.state, wanted, machine, refused, doubts)
        elif isinstance(checkpoint.state, MemoryState):
            _memory(checkpoint.state, wanted, machine, refused, doubts)
        if refused:
            result.refused[name] = refused
        elif doubts:
            result.doubts[name] = doubts
    return result


def _policy(name: str, wanted: Mapping[str, Any]) -> Any:
    return wanted.get(POLICY_KNOBS[name]) or _DEFAULTS[name]


def _same_policy(name: str, state: Union[CpuState, MemoryState], wanted: Mapping[str, Any], refused: List[str]) -> bool:
    """Whether the file is of the wanted policy; one that no kubelet knows is not the file's fault."""
    policy = _policy(name, wanted)
    if policy in _POLICIES[name] and state.policy != policy:
        refused.append(f"policy is '{state.policy}', wanted '{policy}'")
    return bool(state.policy == policy)


def _reserved(wanted: Mapping[str, Any]) -> Optional[CpuSet]:
    """The CPUs of reserved-cpus; None where there is no such list, or none that the kubelet would take."""
    given = wanted.get("kubelet.reserved_cpus")
    if given is None or given == "":
        return None
    try:
        return cpulist.from_kubelet(str(given))
    except CpuListError:
        return None


def _options(wanted: Mapping[str, Any]) -> Dict[str, str]:
    given = wanted.get("kubelet.cpu_manager_options") or []
    return dict(str(option).partition("=")[::2] for option in given) if isinstance(given, (list, tuple)) else {}


def _cpu(state: CpuState, wanted: Optional[Mapping[str, Any]], machine: Machine, refused: List[str], doubts: List[str]) -> None:
    _cpu_form(state, machine, refused, doubts)
    if refused or wanted is None or not _same_policy("cpu", state, wanted, refused) or state.policy != "static":
        return
    given = [(f"container {name}" + (f" of pod {pod}" if pod else ""), cpus) for pod, containers in state.entries.items() for name, cpus in containers.items()]
    given += [(f"pod {pod}", cpus) for pod, cpus in state.pods.items()]
    strict = _options(wanted).get(STRICT) in _TRUE
    if not state.default:
        # A pod without containers counts too.
        if state.entries:
            # Under strict reservation this is the file of a node whose pods have all CPUs there are.
            why = f", which {STRICT} leads to when pods have all other CPUs" if strict else ""
            refused.append(f"the default CPU set is empty, but there are entries{why}")
        return
    reserved = _reserved(wanted)
    if reserved is None and (strict or given):
        # A reservation by count: the kubelet chooses the CPUs, and what it chose is not in the file.
        doubts.append("does not name reserved CPUs, nor does reserved-cpus")
    held = [(who, cpus & (reserved or cpulist.EMPTY)) for who, cpus in given]
    taken = cpulist.EMPTY.union(*(cpus for _who, cpus in given))
    expected = None if machine.online is None or (strict and reserved is None) else machine.online - reserved if strict and reserved else machine.online
    if reserved:
        if strict and reserved & state.default:
            refused.append(f"has reserved CPUs {cpulist.to_list(reserved & state.default)} in its default CPU set, which {STRICT} forbids")
        wrong = [(who, cpus if strict else cpus - state.default) for who, cpus in held]
        refused += [f"gives reserved CPUs {cpulist.to_list(cpus)} to {who}" for who, cpus in wrong if cpus]
        lost = reserved - state.default - taken
        if not strict and lost and machine.online is None:
            refused.append(f"does not have reserved CPUs {cpulist.to_list(lost)} in its default CPU set")
    for who, cpus in given:
        if cpus & state.default:
            refused.append(f"has CPUs {cpulist.to_list(cpus & state.default)} of {who} in its default CPU set too")
    if expected is None:
        if machine.online is None:
            doubts.append("cannot be compared with the online CPUs, which are not known")
        return
    # Reserved CPUs where they may not be are told already.
    known, told = state.default | taken, (reserved or cpulist.EMPTY) if strict else cpulist.EMPTY
    parts = []
    if expected - known:
        parts.append(f"CPUs {cpulist.to_list(expected - known)} are not in it" + (
            f" (reserved: it was written with {STRICT})" if reserved and not strict and expected - known == reserved else ""))
    if known - expected - (told & (machine.online or cpulist.EMPTY)):
        parts.append(f"CPUs {cpulist.to_list(known - expected - (told & (machine.online or cpulist.EMPTY)))} are in it and not online")
    if parts:
        refused.append("does not fit the online CPUs: " + ", ".join(parts))


def _cpu_form(state: CpuState, machine: Machine, refused: List[str], doubts: List[str]) -> None:
    """Whether this kubelet reads the form (state_checkpoint.go; PR 137751, PR 139102)."""
    if state.form == "v1" and machine.minor is not None and machine.minor >= _COMPATIBLE:
        refused.append(f"is of form v1, which Kubernetes 1.{_COMPATIBLE} and later do not read")
    elif state.form == "v1" and state.entries:
        doubts.append("is of form v1, whose containers the kubelet has to find by their ids")
    elif state.form == "v3":
        _pod_level("v3", machine, refused, doubts)
    elif state.form == "v4" and state.pods and machine.minor is None:
        doubts.append(f"is of form v4 with CPUs of whole pods, of which Kubernetes before 1.{_COMPATIBLE} reads a part")


def _pod_level(form: str, machine: Machine, refused: List[str], doubts: List[str]) -> None:
    if machine.minor is not None and machine.minor < _POD_LEVEL:
        refused.append(f"is of form {form}, which Kubernetes 1.{machine.minor} does not read (only 1.{_POD_LEVEL} and later with the feature gate {_GATE} do)")
    elif machine.minor == _POD_LEVEL and machine.gates is not None:
        if not machine.gates.get(_GATE):
            refused.append(f"is of form {form}, which a kubelet without the feature gate {_GATE} does not read")
    else:
        doubts.append(f"is of form {form}, which only a kubelet with the feature gate {_GATE} reads")


# -- the memory manager


def _memory(state: MemoryState, wanted: Optional[Mapping[str, Any]], machine: Machine, refused: List[str], doubts: List[str]) -> None:
    if state.form == "v2":
        _pod_level("v2", machine, refused, doubts)
    elif state.form == "v3" and state.pods and machine.minor is None:
        doubts.append(f"is of form v3 with memory of whole pods, of which Kubernetes before 1.{_COMPATIBLE} reads a part")
    if refused or wanted is None or not _same_policy("memory", state, wanted, refused) or state.policy != "Static":
        return
    if not state.machine:
        if state.entries or state.pods:
            refused.append("the machine state is empty, but there are entries")
        return
    reserved = _reserved_memory(wanted)
    if machine.numa_nodes is None:
        doubts.append("cannot be compared with the memory of the NUMA nodes, which is not known")
    elif isinstance(reserved, dict):
        refused += _memory_differences(state, _pages(machine.numa_nodes, wanted), reserved)


def _reserved_memory(wanted: Mapping[str, Any]) -> Union[str, Dict[int, Dict[str, int]], None]:
    """``reserved-memory`` as NUMA node to resource to bytes; None where it is not set, a text where the kubelet would not take it."""
    given = wanted.get("kubelet.reserved_memory")
    if given is None:
        return None
    if not isinstance(given, Mapping):
        return str(given)
    found: Dict[int, Dict[str, int]] = {}
    for key, value in given.items():
        node, _colon, kind = str(key).partition(":")
        try:
            found.setdefault(int(node), {})[kind or "memory"] = quantity.to_bytes(value)
        except (ValueError, TypeError):
            return f"{key}: {value}"
    return found


def _pages(nodes: Mapping[int, Mapping[str, int]], wanted: Mapping[str, Any]) -> Dict[int, Dict[str, int]]:
    """The NUMA nodes with the huge pages they are to have; those of a plan are in force after its reboot."""
    pages = wanted.get("kernel.hugepages")
    result = {node: dict(sizes) for node, sizes in nodes.items()}
    if not isinstance(pages, Mapping):
        return result
    for node, sizes in result.items():
        for resource in sizes:
            if resource != "memory":
                size = resource[len("hugepages-"):]
                counts = pages.get(size)
                count = counts.get(str(node)) if isinstance(counts, Mapping) else None
                sizes[resource] = quantity.to_bytes(size) * (count if isinstance(count, int) else 0)
    return result


@dataclass
class _Node:
    """A NUMA node as the memory manager would make it: resource to the sizes of ``kubelet_state.TABLE``."""

    sizes: Dict[str, Dict[str, int]]
    assignments: int
    cells: List[int]


def _expected(nodes: Mapping[int, Mapping[str, int]], reserved: Mapping[int, Mapping[str, int]]) -> Dict[int, _Node]:
    """The machine state of a kubelet without pods (getDefaultMachineState)."""
    result = {}
    for id, resources in nodes.items():
        huge = sum(size for name, size in resources.items() if name != "memory")
        table = {}
        for name, total in resources.items():
            kept = reserved.get(id, {}).get(name, 0)
            # Unsigned, as there.
            left = (total - kept - (huge if name == "memory" else 0)) % _UINT64
            table[name] = {"total": total, "systemReserved": kept, "allocatable": left, "reserved": 0, "free": left}
        result[id] = _Node(table, 0, [id])
    return result


def _assign(nodes: Dict[int, _Node], state: MemoryState) -> List[str]:
    """Take the memory of the file's entries from the nodes; what is wrong with the entries."""
    blocks = [(f"container {name} of pod {pod}", block) for pod, containers in state.entries.items() for name, found in containers.items() for block in found]
    blocks += [(f"pod {pod}", block) for pod, found in state.pods.items() for block in found]
    for who, block in blocks:
        left = block["size"]
        for id in block["numaAffinity"]:
            node = nodes.get(id)
            if node is None:
                return [f"gives {who} memory of NUMA node {id}, which is not there"]
            if block["type"] not in node.sizes:
                return [f"gives {who} {block['type']} of NUMA node {id}, which has none"]
            node.assignments += 1
            node.cells = list(block["numaAffinity"])
            table = node.sizes[block["type"]]
            size = min(left, table["free"])
            table["reserved"] += size
            table["free"] -= size
            left -= size
    return []


def _memory_differences(state: MemoryState, nodes: Mapping[int, Mapping[str, int]], reserved: Mapping[int, Mapping[str, int]]) -> List[str]:
    """Where the machine state of the file is not what its entries make of this machine (areMachineStatesEqual); both numbers each, in bytes."""
    expected = _expected(nodes, reserved)
    wrong = _assign(expected, state)
    if wrong:
        return wrong
    if set(state.machine) != set(expected):
        return [f"has NUMA nodes {cpulist.to_list(state.machine) or 'none'}, the machine has {cpulist.to_list(expected) or 'none'}"]
    found: List[str] = []
    moved: List[str] = []
    for id, node in sorted(expected.items()):
        kinds = set(state.machine[id]) ^ set(node.sizes)
        if kinds:
            found.append(f"NUMA node {id} has {', '.join(sorted(state.machine[id]))} in it, {', '.join(sorted(node.sizes))} on this machine")
            continue
        _sizes(id, state.machine[id], node.sizes, found, moved)
    if not found and not moved:
        found = _assignments(state, expected)
    texts = []
    if moved:
        same = sum(sizes["memory"]["total"] for sizes in state.machine.values()) == sum(node.sizes["memory"]["total"] for node in expected.values())
        texts.append("memory drift, the NUMA nodes' totals are not what they were" + (", their sum is" if same else "") + ": " + _first(moved))
    if found:
        texts.append("does not fit this machine and its configuration: " + _first(found))
    return texts


def _first(texts: List[str]) -> str:
    return ", ".join(texts[:_TOLD]) + (f" and {len(texts) - _TOLD} more" if len(texts) > _TOLD else "")


def _sizes(id: int, mine: Mapping[str, Mapping[str, int]], wanted: Mapping[str, Mapping[str, int]], found: List[str], moved: List[str]) -> None:
    # Pages that were added or taken, and what is reserved, explain what is left.
    explained = False
    for name in sorted(wanted):
        for key in ("total", "systemReserved"):
            if mine[name][key] == wanted[name][key]:
                continue
            text = f"NUMA node {id} {name} {key} {mine[name][key]} in it, {wanted[name][key]} now"
            (moved if (name, key) == ("memory", "total") else found).append(text)
            explained = True
    for name in sorted(wanted):
        if not explained and mine[name]["allocatable"] != wanted[name]["allocatable"]:
            found.append(f"NUMA node {id} {name} allocatable {mine[name]['allocatable']} in it, {wanted[name]['allocatable']} now")


def _assignments(state: MemoryState, expected: Mapping[int, _Node]) -> List[str]:
    """Where the numbers of a file do not fit its own entries, as after some orders of pods coming and going."""
    found = []
    for id, node in sorted(expected.items()):
        if state.assignments.get(id, 0) != node.assignments:
            found.append(f"NUMA node {id} has numberOfAssignments {state.assignments.get(id, 0)} in it, its entries make {node.assignments}")
        mine = state.cells.get(id, [])
        if sorted(mine) != sorted(node.cells):
            found.append(f"NUMA node {id} has cells {sorted(mine)} in it, its entries make {sorted(node.cells)}")
            continue
        for name in sorted(node.sizes):
            for key in ("free", "reserved"):
                group = [cell for cell in node.cells if cell in expected]
                have = sum(state.machine[cell].get(name, {}).get(key, 0) for cell in group)
                want = sum(expected[cell].sizes.get(name, {}).get(key, 0) for cell in group)
                if have != want and id == min(group):
                    found.append(f"NUMA nodes {cpulist.to_list(group)} {name} {key} {have} in it, its entries make {want}")
    return found


# -- the configuration itself


def configuration(wanted: Mapping[str, Any], machine: Machine) -> Tuple[List[str], List[str], List[str]]:
    """Why the kubelet would not start whatever its checkpoints are, what cannot be told, and what it would start with and should not.

    Judged are policies, options with their feature gates, reservations and the number of NUMA nodes (pkg/kubelet/apis/config/validation, cm/cpumanager,
    cm/memorymanager, cm/topologymanager, eviction); other feature gates and flags are not.
    """
    wrong: List[str] = []
    untold: List[str] = []
    warnings: List[str] = []
    for name, flag in (("cpu", "cpu-manager-policy"), ("memory", "memory-manager-policy")):
        if _policy(name, wanted) not in _POLICIES[name]:
            wrong.append(f"{flag}: found '{_policy(name, wanted)}', wanted {' or '.join(_POLICIES[name])}, spelt so")
    for gate in machine.gates or ():
        if machine.minor is not None and machine.minor >= _GATES_GONE.get(gate, machine.minor + 1):
            wrong.append(f"feature-gates: found {gate}, which Kubernetes 1.{machine.minor} does not have (gone since 1.{_GATES_GONE[gate]})")
    _cpu_configuration(wanted, machine, wrong, untold)
    _reservations(wanted, wrong)
    _capacity(wanted, machine, wrong)
    if _policy("memory", wanted) == "Static":
        _memory_configuration(wanted, machine, wrong, untold, warnings)
    _topology_configuration(wanted, machine, wrong)
    return wrong, untold, warnings


def _cpu_configuration(wanted: Mapping[str, Any], machine: Machine, wrong: List[str], untold: List[str]) -> None:
    given = wanted.get("kubelet.reserved_cpus")
    reserved = _reserved(wanted)
    if given not in (None, "") and reserved is None:
        wrong.append(f"reserved-cpus: found '{given}', wanted a list of CPUs such as 0-1,32-33")
    if reserved and machine.online is not None and reserved - machine.online:
        wrong.append(f"reserved-cpus: CPUs {cpulist.to_list(reserved - machine.online)} are not online (online are {cpulist.to_list(machine.online)})")
    options = _options(wanted)
    if wanted.get("kubelet.cpu_manager_options") and not options:
        wrong.append(f"cpu-manager-policy-options: found {wanted['kubelet.cpu_manager_options']!r}, wanted a list such as ['full-pcpus-only=true']")
    if _policy("cpu", wanted) != "static":
        if options and _policy("cpu", wanted) == "none":
            wrong.append(f"cpu-manager-policy-options: found {', '.join(sorted(options))}, wanted none: policy none takes no options")
        return
    if given in (None, "") and not any(_cpu_count(wanted.get(knob)) for knob in ("kubelet.system_reserved", "kubelet.kube_reserved")):
        wrong.append("reserved-cpus: found none, wanted at least one CPU: the static policy does not start without a CPU reservation")
    for option, value in sorted(options.items()):
        if option not in CPU_OPTIONS:
            wrong.append(f"cpu-manager-policy-options: found '{option}', wanted one of {', '.join(CPU_OPTIONS)}")
        elif machine.minor is not None and machine.minor < _MATURITY[option][0]:
            wrong.append(f"cpu-manager-policy-options: found '{option}', which Kubernetes 1.{machine.minor} does not have (since 1.{_MATURITY[option][0]})")
        elif value not in _TRUE + _FALSE:
            wrong.append(f"cpu-manager-policy-options: found '{option}={value}', wanted one option with true or false for each use of the flag")
        else:
            _option_gate(option, machine, wrong, untold)
    on = {option for option, value in options.items() if value in _TRUE}
    for one, other in _EXCLUSIVE:
        if {one, other} <= on:
            wrong.append(f"cpu-manager-policy-options: found {one} and {other}, wanted one of them")
    if "align-by-socket" in on and wanted.get("kubelet.topology_manager_policy") == "single-numa-node":
        wrong.append("cpu-manager-policy-options: found align-by-socket with topology-manager-policy single-numa-node, wanted one of them")


def _option_gate(option: str, machine: Machine, wrong: List[str], untold: List[str]) -> None:
    """Whether the feature gate that an option needs, switched on or off, is on."""
    _since, beta, stable = _MATURITY[option]
    if beta is None or (machine.minor is not None and machine.minor < beta):
        if machine.gates is None:
            untold.append(f"cpu-manager-policy-options: found '{option}': whether the feature gate {_ALPHA_GATE}, which it needs, is on cannot be told")
        elif not machine.gates.get(_ALPHA_GATE):
            wrong.append(f"cpu-manager-policy-options: found '{option}', which needs the feature gate {_ALPHA_GATE}")
    elif (stable is None or (machine.minor is not None and machine.minor < stable)) and (machine.gates or {}).get(_BETA_GATE) is False:
        wrong.append(f"cpu-manager-policy-options: found '{option}', which needs the feature gate {_BETA_GATE}")


def _cpu_count(reservation: Any) -> bool:
    """Whether a reservation has CPUs by count."""
    value = reservation.get("cpu") if isinstance(reservation, Mapping) else None
    return value is not None and str(value).strip("0.m") != ""


def _reservations(wanted: Mapping[str, Any], wrong: List[str]) -> None:
    """What is refused with any policy."""
    pairs = {"kubelet.system_reserved": "memory=8Gi", "kubelet.kube_reserved": "memory=8Gi", "kubelet.eviction_hard": "memory.available<500Mi"}
    for knob, example in pairs.items():
        flag, given = knob[len("kubelet."):].replace("_", "-"), wanted.get(knob)
        if given is not None and not isinstance(given, Mapping):
            wrong.append(f"{flag}: found '{given}', wanted pairs such as {example}")
        elif given and knob != "kubelet.eviction_hard":
            odd = [str(name) for name in given if name not in _RESERVABLE]
            if odd:
                wrong.append(f"{flag}: found {', '.join(odd)}, wanted {', '.join(_RESERVABLE[:-1])} or {_RESERVABLE[-1]}")
            wrong += [f"{flag}: found {name}={value}, wanted a quantity such as 8Gi" for name, value in given.items() if not _is_quantity(value)]
        elif given:
            wrong += [f"{flag}: found {name}, wanted a signal such as memory.available" for name in given if name not in _SIGNALS]
            wrong += [f"{flag}: found {name}<{value}, wanted more than 0, or a share such as 5%" for name, value in given.items() if not _is_threshold(value)]
    reserved = _reserved_memory(wanted)
    if isinstance(reserved, str):
        wrong.append(f"reserved-memory: found '{reserved}', wanted bytes for each NUMA node")
        return
    for node, sizes in sorted((reserved or {}).items()):
        for kind, size in sizes.items():
            if kind != "memory" and not kind.startswith("hugepages-"):
                wrong.append(f"reserved-memory: found {kind} of NUMA node {node}, wanted memory or hugepages-SIZE")
            elif size == 0:
                wrong.append(f"reserved-memory: found 0 of NUMA node {node}, wanted more, or the node left out")


def _is_quantity(value: Any) -> bool:
    text = str(value)
    return _QUANTITY.fullmatch(text) is not None and (text[:1] != "-" or text.strip("-0.") == "")


def _is_threshold(value: Any) -> bool:
    text = str(value)
    if text.endswith("%"):
        return re.fullmatch(r"[0-9]{1,3}(?:\.[0-9]*)?|\.[0-9]+", text[:-1]) is not None and float(text[:-1]) <= 100
    return _is_quantity(value) and re.match(r"[+-]?[0.]*(?:[^0-9.]|$)", text) is None


def _capacity(wanted: Mapping[str, Any], machine: Machine, wrong: List[str]) -> None:
    """Whether the machine has more than is kept from pods (pkg/kubelet/cm/node_container_manager_linux.go, validateNodeAllocatable)."""
    if wanted.get("kubelet.reserved_cpus") in (None, "") and machine.online is not None:
        # A list of CPUs takes the place of the counts.
        try:
            cores = sum(quantity.to_cores(given.get("cpu", 0)) for given in (wanted.get("kubelet.system_reserved"), wanted.get("kubelet.kube_reserved"))
                        if isinstance(given, Mapping))
        except quantity.QuantityError:
            cores = Fraction(0)
        if cores > len(machine.online):
            wrong.append(f"system-reserved and kube-reserved keep {float(cores):g} CPUs from pods, wanted at most the {len(machine.online)} of this machine")
    sizes = [given.get("memory", 0) for given in (wanted.get("kubelet.system_reserved"), wanted.get("kubelet.kube_reserved")) if isinstance(given, Mapping)]
    eviction = wanted.get("kubelet.eviction_hard")
    sizes += [eviction.get("memory.available", 0)] if isinstance(eviction, Mapping) else []
    try:
        kept = sum(quantity.to_bytes(size) for size in sizes)
    except quantity.QuantityError:
        return
    capacity = None if machine.numa_nodes is None else sum(node.get("memory", 0) for node in machine.numa_nodes.values())
    if capacity is not None and kept > capacity:
        wrong.append(f"system-reserved, kube-reserved and eviction-hard keep {kept} bytes of memory from pods, wanted at most the {capacity} of this machine")


def _memory_configuration(wanted: Mapping[str, Any], machine: Machine, wrong: List[str], untold: List[str], warnings: List[str]) -> None:
    reserved = _reserved_memory(wanted)
    if isinstance(reserved, str):
        return
    if not reserved:
        wrong.append("reserved-memory: found none, wanted the memory of system-reserved, kube-reserved and hard eviction: policy Static does not start without")
        return
    for node, sizes in sorted(reserved.items()):
        for kind in sizes:
            if kind.startswith("hugepages-"):
                wrong.append(f"reserved-memory: found {kind} of NUMA node {node}, wanted memory only: huge pages cannot be reserved")
    expected = 0
    for knob, key in (("kubelet.system_reserved", "memory"), ("kubelet.kube_reserved", "memory"), ("kubelet.eviction_hard", "memory.available")):
        given = wanted.get(knob)
        value = given.get(key, 0) if isinstance(given, Mapping) else 0
        try:
            expected += quantity.to_bytes(value)
        except quantity.QuantityError:
            untold.append(f"{knob}: how many bytes '{value}' of {key} are cannot be told, nor whether reserved-memory fits")
            return
    total = sum(sizes.get("memory", 0) for sizes in reserved.values())
    if total != expected:
        wrong.append(f"reserved-memory: found {total} bytes in all, wanted {expected}: system-reserved, kube-reserved and hard eviction, exactly")
    if machine.numa_nodes is None:
        return
    nodes = _pages(machine.numa_nodes, wanted)
    for node, sizes in sorted(reserved.items()):
        if node not in nodes:
            wrong.append(f"reserved-memory: found NUMA node {node}, wanted one of {cpulist.to_list(nodes)}")
            continue
        room = nodes[node].get("memory", 0) - sum(size for name, size in nodes[node].items() if name != "memory")
        if sizes.get("memory", 0) > room:
            warnings.append(f"reserved-memory: found {sizes['memory']} bytes of NUMA node {node}, wanted at most {room}: it has no more without huge pages. "
                            "The kubelet does not look, and takes what is left below zero for more memory than any machine has")


def _topology_configuration(wanted: Mapping[str, Any], machine: Machine, wrong: List[str]) -> None:
    policy, scope = wanted.get("kubelet.topology_manager_policy") or "none", wanted.get("kubelet.topology_manager_scope") or "container"
    policies = ("none", "best-effort", "restricted", "single-numa-node")
    if policy not in policies:
        wrong.append(f"topology-manager-policy: found '{policy}', wanted one of {', '.join(policies)}")
    if scope not in ("container", "pod"):
        wrong.append(f"topology-manager-scope: found '{scope}', wanted container or pod")
    if policy == "none" or policy not in policies:
        return
    given = wanted.get("kubelet.topology_manager_options")
    unknown = [str(option) for option in given if option not in TOPOLOGY_OPTIONS] if isinstance(given, Mapping) else []
    if unknown or not isinstance(given, (Mapping, type(None))):
        found = ", ".join(unknown) or given
        wrong.append(f"topology-manager-policy-options: found {found}, wanted a value for {' or '.join(TOPOLOGY_OPTIONS)}")
    prefer = given.get("prefer-closest-numa-nodes") if isinstance(given, Mapping) else None
    if prefer is not None and str(prefer) not in _TRUE + _FALSE:
        wrong.append(f"topology-manager-policy-options: found prefer-closest-numa-nodes={prefer}, wanted true or false")
    limit = given.get("max-allowable-numa-nodes") if isinstance(given, Mapping) else None
    if limit is not None and not re.fullmatch(r"[0-9]{1,9}", str(limit)):
        wrong.append(f"topology-manager-policy-options: found max-allowable-numa-nodes={limit}, wanted a number from {_NUMA_NODES}")
        return
    count = int(limit) if limit is not None else _NUMA_NODES
    if count < _NUMA_NODES:
        wrong.append(f"topology-manager-policy-options: found max-allowable-numa-nodes={count}, wanted {_NUMA_NODES} or more")
    elif machine.numa_nodes is not None and len(machine.numa_nodes) > count:
        wrong.append(f"topology-manager-policy: the machine has {len(machine.numa_nodes)} NUMA nodes, wanted at most {count} (max-allowable-numa-nodes)")


# -- a node's facts


def judge(files: Mapping[str, Checkpoint], prediction: Prediction) -> Dict[str, Dict[str, Any]]:
    """``cpu`` and ``memory`` with ``{file, exists, policy, valid, reason, format, entries}``.

    ``valid`` is whether a kubelet would take the file, None where there is none or nobody can tell; ``entries`` counts containers and pods with
    resources of their own; ``format`` is ``v1``…``v4``, ``unknown`` or None.
    """
    result = {}
    for name in FILES:
        checkpoint = files[name]
        valid = None if not checkpoint.exists or name in prediction.unknown or name in prediction.doubts else name not in prediction.refused
        result[name] = {
            "file": checkpoint.file, "exists": checkpoint.exists, "policy": checkpoint.policy, "valid": valid, "reason": prediction.reason(name),
            "format": checkpoint.form, "entries": checkpoint.entries,
        }
    return result


def summary(prediction: Prediction) -> str:
    """``consistent``, or why the kubelet would not take the files, or that their form is unknown. Absent files are consistent: it makes them."""
    reasons = {name: prediction.reason(name, doubts=False) for name in FILES}
    return "; ".join(f"{prediction.files[name].file} {reason}" for name, reason in reasons.items() if reason) or "consistent"


def foretell(facts: Mapping[str, Any], wanted: Mapping[str, Any]) -> Prediction:
    """What a kubelet as ``wanted`` would do at its start on the node of these facts.

    :param facts: of ``locality_state``.
    """
    kubelet, rke2 = facts.get("kubelet") or {}, (facts.get("platform") or {}).get("rke2") or {}
    entries: Mapping[str, Any] = kubelet.get("state_files") or {}
    files = {name: from_facts(name, entries.get(name) or {}) for name in FILES}
    return predict(files, wanted, Machine.from_facts(kubelet.get("machine") or {}, rke2.get("minor")))


def stale(facts: Mapping[str, Any], wanted: Mapping[str, Any]) -> List[Dict[str, str]]:
    """Files that must be gone before it starts: ``[{file, reason}]``."""
    return foretell(facts, wanted).remove


def entries_of(checkpoint: Checkpoint) -> List[Tuple[str, str, CpuSet]]:
    """``(pod UID, container, CPUs)`` of what has CPUs of its own; the pod is empty for form v1, the container for a whole pod."""
    state = checkpoint.state
    if not isinstance(state, CpuState):
        return []
    found = [(pod, name, cpus) for pod, containers in state.entries.items() for name, cpus in containers.items()]
    return found + [(pod, "", cpus) for pod, cpus in state.pods.items()]


__all__ = (
    "CPU_OPTIONS", "Checkpoint", "FILES", "Machine", "POLICY_KNOBS", "Prediction", "STRICT", "configuration", "content", "entries_of", "foretell", "from_facts",
    "judge", "predict", "read_files", "read_machine", "stale", "summary",
)
