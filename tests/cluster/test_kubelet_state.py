# Copyright (c) 2026 The inferops.locality authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the predictor of the kubelet's start says is what a real kubelet does: each of its rules, on a lab node.

A row of the table stages checkpoint files and RKE2's configuration on the node while RKE2 is stopped, asks the module kubelet_cpu_state there what comes of
it, and starts the kubelet. Where a file is the reason that it ends, ``state: consistent`` takes exactly that file away, and the kubelet starts.

Numbers of a row: sections of the kubelet's rules (1.5 what it does at its start, 1.6 which changes need a file gone, 2.x its configuration) and of the list
of what people ran into (K1 to K24). What cannot be staged is in NOT_HERE.

FULL=1 only. A node and a control plane are started, or ``LOCALITY_KUBELET_NODE`` names a node of the lab that has joined a cluster (``cluster.py join``), whose
``KUBECONFIG`` is taken.
"""

from __future__ import annotations

import copy
import json
import os
import random
import re
import shlex
import subprocess
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Callable, Dict, Iterator, List, Mapping, Optional, Sequence, Set, Tuple, Union, cast

import pytest

import kubelet_files
from ansible_collections.inferops.locality.plugins.module_utils import kubelet_args, kubelet_state, plan
from ansible_collections.inferops.locality.plugins.plugin_utils import runtime
from controlplane import Api, ControlPlane, control_plane
from controlplane.nodemodules import Modules, modules
from controlplane.realnode import IMAGE, RealNode, real_node
from kubelet_files import HOOK, OURS
from turns import until_slowly as until
from vlab import config, node
from vlab.node import Node

if not os.environ.get("FULL"):
    pytest.skip("a node of tests/lab is booted only with FULL=1", allow_module_level=True)

CPU, MEMORY = "/var/lib/kubelet/cpu_manager_state", "/var/lib/kubelet/memory_manager_state"
SAVED = "/var/lib/inferops-locality/saved"
CONFIG = "/etc/rancher/rke2/config.yaml.d/95-test.yaml"
MIB = 2**20
POD = "39b37746-7f5e-4064-b8e1-eebd2bfaa003"
# NUMA node to resource to bytes.
Sizes = Dict[int, Dict[str, int]]
File = Union[str, Callable[[Sizes], str], None]


# -- checkpoint files, with their checksums ---------------------------------------------------------------------------


def cpu(policy: str = "static", default: str = "0-7", entries: Optional[Dict[str, Any]] = None, form: str = "v2", pods: Optional[Dict[str, Any]] = None,
        **more: Any) -> str:
    """A CPU manager's."""
    data: Dict[str, Any] = {"policyName": policy, "defaultCpuSet": default}
    data.update({} if entries is None else {"entries": entries})
    if form == "v4":
        inner = json.dumps({**data, **({} if pods is None else {"podEntries": pods})})
        more = {"data": inner, "dataChecksum": kubelet_state.data_checksum(inner), **more}
    elif pods is not None:
        data["podEntries"] = pods
    checksum = kubelet_state.cpu_checksum("v2" if form == "v4" else form, {key.lower(): value for key, value in data.items()})
    return json.dumps({**data, "checksum": checksum, **more})


def memory(policy: str = "Static", change: Optional[Callable[[Dict[str, Any]], Any]] = None, entries: Optional[Dict[str, Any]] = None, kept: int = 96 * MIB,
           form: str = "v1", **more: Any) -> Callable[[Sizes], str]:
    """A memory manager's, of the node's own NUMA nodes, each with ``kept`` bytes for the system; ``change`` may change its machine state."""
    def made(sizes: Sizes) -> str:
        nodes: Dict[str, Any] = {}
        for id, resources in sizes.items():
            huge = sum(size for name, size in resources.items() if name != "memory")
            tables = {}
            for name, total in resources.items():
                reserved, left = (kept, total - kept - huge) if name == "memory" else (0, total)
                tables[name] = {"total": total, "systemReserved": reserved, "allocatable": left, "reserved": 0, "free": left}
            nodes[str(id)] = {"numberOfAssignments": 0, "memoryMap": tables, "cells": [id]}
        if change:
            change(nodes)
        data: Dict[str, Any] = {"policyName": policy, "machineState": nodes, "entries": entries or {}}
        checksum = kubelet_state.memory_checksum("v2" if form == "v2" else "v1", {key.lower(): value for key, value in data.items()})
        outer = {"data": (inner := json.dumps(data)), "dataChecksum": kubelet_state.data_checksum(inner)} if form == "v3" else {}
        return json.dumps({**data, "checksum": checksum, **outer, **more})
    return made


def none(nodes: Dict[str, Any]) -> None:
    nodes.clear()


def table(nodes: Dict[str, Any], id: int = 0, name: str = "memory") -> Dict[str, int]:
    return cast(Dict[str, int], nodes[str(id)]["memoryMap"][name])


def moved(*by: int) -> Callable[[Dict[str, Any]], None]:
    """The total of each NUMA node was another one."""
    def change(nodes: Dict[str, Any]) -> None:
        for id, bytes in enumerate(by):
            for key in ("total", "allocatable", "free"):
                table(nodes, id)[key] += bytes
    return change


def held(count: int = 1, **more: Any) -> Callable[[Dict[str, Any]], None]:
    """A container has 64 MiB of NUMA node 0."""
    def change(nodes: Dict[str, Any]) -> None:
        nodes["0"].update(numberOfAssignments=count, **more)
        table(nodes)["reserved"] += 64 * MIB
        table(nodes)["free"] -= 64 * MIB
    return change


def paired(on_0: int, on_1: int) -> Callable[[Dict[str, Any]], None]:
    """A container has memory of both NUMA nodes."""
    def change(nodes: Dict[str, Any]) -> None:
        for id, size in enumerate((on_0, on_1)):
            nodes[str(id)].update(numberOfAssignments=1, cells=[0, 1])
            table(nodes, id)["reserved"] += size
            table(nodes, id)["free"] -= size
    return change


def block(size: int = 64 * MIB, numa: Sequence[int] = (0,), kind: str = "memory") -> Dict[str, Any]:
    return {POD: {"app": [{"numaAffinity": list(numa), "type": kind, "size": size}]}}


# -- the table --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Row:
    """One start.

    :ivar args: of ``kubelet-arg``. :ivar cpu: the CPU manager's file; None: there is none. :ivar memory: the same.
    :ivar ends: what the kubelet says when it ends, its quotes plain; empty: it starts. :ivar said: what the predictor says.
    :ivar gone: the files that have to go, of ``cpu memory``. :ivar told: whether the predictor claims to know.
    :ivar before: shell commands before the start. :ivar after: those that undo them.
    """

    args: Sequence[str]
    cpu: File = None
    memory: File = None
    ends: str = ""
    said: str = ""
    gone: str = ""
    told: bool = True
    before: str = ""
    after: str = ""


STATIC = ["cpu-manager-policy=static", "reserved-cpus=0-1"]
STRICT = [*STATIC, "cpu-manager-policy-options=strict-cpu-reservation=true"]
KEPT = ["system-reserved=memory=128Mi", "kube-reserved=memory=64Mi"]
MEM = ["memory-manager-policy=Static", *KEPT, "reserved-memory=0:memory=96Mi;1:memory=96Mi"]
BUSY = cpu(default="0-3,6-7", entries={POD: {"app": "4-5"}})
HELD = memory(change=held(), entries=block())
FREE = cpu(default="2-7")
ALPHA = "feature-gates=CPUManagerPolicyAlphaOptions=true"
PODS = "feature-gates=PodLevelResources=true,PodLevelResourceManagers=true"
DIFFERENT = "[memorymanager] the expected machine state is different from the real one"
CORRUPT = "checkpoint is corrupted"
PAGES = "/sys/devices/system/node/node0/hugepages/hugepages-2048kB/nr_hugepages"


def reserved(*cpus: str) -> List[str]:
    return ["cpu-manager-policy=static", *(f"reserved-cpus={each}" for each in cpus)]


def options(*given: str) -> List[str]:
    return [*STATIC, *(f"cpu-manager-policy-options={each}" for each in given)]


def topology(policy: str, *more: str) -> List[str]:
    return [f"topology-manager-policy={policy}", *more]


ROWS: Dict[str, Row] = {
    # What the kubelet does at its start.
    "1.5 no files, no policies": Row([]),
    "1.5 no files, static and Static": Row([*STATIC, *MEM]),
    "1.5 files of this machine": Row([*STATIC, *MEM], cpu(), memory()),
    "1.5 K1 K13 another CPU policy": Row([*STATIC, *MEM], cpu("none", ""), memory(), 'configured policy "static" differs from state checkpoint policy "none"',
                                         "policy is 'none', wanted 'static'", "cpu"),
    "1.6 K1 CPU policy back to none": Row([], cpu(), None, 'configured policy "none" differs from state checkpoint policy "static"', "wanted 'none'", "cpu"),
    "1.5 1.6 memory policy None to Static": Row(MEM, None, memory("None", none), 'configured policy "Static" differs from state checkpoint policy "None"',
                                                "policy is 'None', wanted 'Static'", "memory"),
    "1.6 memory policy Static to None": Row([], None, memory(), 'configured policy "None" differs from state checkpoint policy "Static"',
                                            "policy is 'Static', wanted 'None'", "memory"),
    "1.5 CPU file empty": Row(STATIC, "", None, "unexpected end of JSON input", "is empty", "cpu"),
    "1.5 CPU file garbled": Row(STATIC, '{"policyName":"sta', None, "unexpected end of JSON input", "is not JSON: broken at character 15", "cpu"),
    "1.5 memory file garbled": Row(MEM, None, "{]", "invalid character", "is not JSON", "memory"),
    "1.5 CPU checksum wrong": Row(STATIC, cpu().replace("0-7", "0-6"), None, CORRUPT, "checksum does not match", "cpu"),
    "1.5 memory checksum wrong": Row(MEM, None, lambda sizes: memory()(sizes).replace('"cells": [1]', '"cells": [0]'), CORRUPT, "checksum does not match",
                                     "memory"),
    "1.5 a type that no file has": Row(STATIC, '{"policyName":7,"defaultCpuSet":"0-7","checksum":1}', None, "cannot unmarshal number",
                                       "'policyname' is not of the expected type", "cpu"),
    "1.5 checksum of a CPU file left out": Row(STATIC, '{"policyName":"static","defaultCpuSet":"0-7"}'),
    "1.5 checksum of a memory file left out": Row(MEM, None, lambda sizes: json.dumps({**json.loads(memory()(sizes)), "checksum": 0})),
    "1.5 an entry's CPUs cannot be read": Row(STATIC, cpu(entries={POD: {"app": "4-x"}}), None, 'could not parse cpuset "4-x"',
                                              f"CPUs of container app of pod {POD}", "cpu"),
    "1.5 the default set cannot be read": Row(STATIC, cpu(default="0-7,"), None, "could not parse default cpu set", "the default CPU set", "cpu"),
    "1.5 default set empty with entries": Row(STATIC, cpu(default="", entries={POD: {"app": "4-5"}}), None, "default cpuset cannot be empty",
                                              "the default CPU set is empty, but there are entries", "cpu"),
    "1.5 default set empty with an entry of nothing": Row(STATIC, cpu(default="", entries={POD: {}}), None, "default cpuset cannot be empty",
                                                          "the default CPU set is empty, but there are entries", "cpu"),
    "1.5 K10 strict, and pods have all other CPUs": Row(STRICT, cpu(default="", entries={POD: {"app": "2-7"}}), None, "default cpuset cannot be empty",
                                                        "which strict-cpu-reservation leads to when pods have all other CPUs", "cpu"),
    "1.5 default set empty without entries": Row(STATIC, cpu(default="")),
    "1.5 a reserved CPU is in an entry": Row(STATIC, cpu(default="0,2-7", entries={POD: {"app": "1"}}), None, 'not all reserved cpus: "0-1" are present',
                                             f"gives reserved CPUs 1 to container app of pod {POD}", "cpu"),
    "1.5 1.6 strict: reserved CPUs in the default set, as when it is switched on": Row(
        STRICT, cpu(), None, 'some of strictly reserved cpus: "0-1" are present', "has reserved CPUs 0-1 in its default CPU set", "cpu"),
    "1.5 strict: as it should be": Row(STRICT, FREE),
    "1.5 strict: a reserved CPU in an entry": Row(STRICT, cpu(default="2-7", entries={POD: {"app": "1"}}), None, "doesn't match with CPUs in state",
                                                  f"gives reserved CPUs 1 to container app of pod {POD}", "cpu"),
    "1.5 K9 an entry overlaps the default set": Row(STATIC, cpu(entries={POD: {"app": "4-5"}}), None, "overlaps with default cpuset",
                                                    f"has CPUs 4-5 of container app of pod {POD} in its default CPU set", "cpu"),
    "1.5 K8 an entry of a pod that is gone": Row([*STATIC, *MEM], BUSY, HELD),
    "1.5 K5 K13 a CPU is offline": Row(
        STATIC, cpu(), None, 'current set of available CPUs "0-6" doesn\'t match with CPUs in state "0-7"', "CPUs 7 are in it and not online", "cpu",
        before="echo 0 > /sys/devices/system/cpu/cpu7/online", after="echo 1 > /sys/devices/system/cpu/cpu7/online"),
    "1.5 K3 a CPU came online": Row(STATIC, cpu(default="0-6"), None, 'current set of available CPUs "0-7" doesn\'t match with CPUs in state "0-6"',
                                    "does not fit the online CPUs: CPUs 7 are not in it", "cpu"),
    "1.6 SMT switched off": Row(reserved("0"), cpu(), None, 'current set of available CPUs "0,2,4,6"', "CPUs 1,3,5,7 are in it and not online", "cpu",
                                before="echo off > /sys/devices/system/cpu/smt/control", after="echo on > /sys/devices/system/cpu/smt/control"),
    "1.5 machine state empty with entries": Row(MEM, None, memory(change=none, entries=block()), "machine state can not be empty",
                                                "the machine state is empty, but there are entries", "memory"),
    "1.5 machine state empty": Row(MEM, None, memory(change=none)),
    "1.5 one byte of a total": Row(MEM, None, memory(change=moved(1)), DIFFERENT, "memory drift, the NUMA nodes' totals are not what they were: NUMA node 0",
                                   "memory"),
    "1.5 1.6 K6 a plain reboot moved totals between NUMA nodes": Row(MEM, cpu("none", ""), memory(change=moved(-4096, 4096)), DIFFERENT,
                                                                     "their sum is: NUMA node 0 memory total", "memory"),
    "1.5 1.6 what is reserved": Row([*MEM[:-1], "reserved-memory=0:memory=80Mi;1:memory=112Mi"], None, memory(), DIFFERENT,
                                    f"NUMA node 0 memory systemReserved {96 * MIB} in it, {80 * MIB} now", "memory"),
    "1.5 1.6 huge pages": Row(MEM, None, memory(), DIFFERENT, "NUMA node 0 hugepages-2Mi total 0 in it, 8388608 now", "memory",
                              before=f"echo 4 > {PAGES}", after=f"echo 0 > {PAGES}"),
    "1.5 another set of NUMA nodes": Row(MEM, None, memory(change=lambda nodes: nodes.pop("1")), DIFFERENT, "has NUMA nodes 0, the machine has 0-1", "memory"),
    "1.5 another set of page sizes": Row(MEM, None, memory(change=lambda nodes: nodes["0"]["memoryMap"].pop("hugepages-2Mi")), DIFFERENT, "NUMA node 0 has",
                                         "memory"),
    "1.5 numberOfAssignments": Row(MEM, None, memory(change=held(2), entries=block()), DIFFERENT, "has numberOfAssignments 2 in it, its entries make 1",
                                   "memory"),
    "1.5 K7 cells": Row(MEM, None, memory(change=lambda nodes: nodes["0"].update(cells=[0, 1])), DIFFERENT, "NUMA node 0 has cells [0, 1] in it", "memory"),
    "1.5 K7 what an entry took": Row(MEM, None, memory(change=held(), entries=block(32 * MIB)), DIFFERENT, "NUMA nodes 0 memory free", "memory"),
    "1.5 a group of two NUMA nodes": Row(MEM, None, memory(change=paired(40 * MIB, 24 * MIB), entries=block(numa=(0, 1)))),
    "1.5 the sum of a group": Row(MEM, None, memory(change=paired(40 * MIB, 16 * MIB), entries=block(numa=(0, 1))), DIFFERENT, "NUMA nodes 0-1 memory free",
                                  "memory"),
    "1.5 memory of a NUMA node that is not there": Row(MEM, None, memory(entries=block(numa=(7,))), "the memory assignment uses the NUMA that does not exist",
                                                       "memory of NUMA node 7, which is not there", "memory"),
    "1.5 memory of a kind that is not there": Row(MEM, None, memory(entries=block(kind="hugepages-64Ki")), "memory resource that does not exist",
                                                  "hugepages-64Ki of NUMA node 0, which has none", "memory"),
    "1.5 policy none: content does not matter": Row([], cpu("none", "0-3", {POD: {"app": "2-3"}}), memory("None", moved(1, 2))),
    "1.5 both files": Row([*STATIC, *MEM], cpu("none", ""), "{", 'differs from state checkpoint policy "none"', "is not JSON", "cpu memory"),
    # Which changes need a file gone; the others are above.
    "1.6 K2 reserved CPUs grown, no entries": Row(reserved("0-3"), cpu()),
    "1.6 K2 reserved CPUs grown into an entry": Row(reserved("0-4"), BUSY, None, 'not all reserved cpus: "0-4" are present', "gives reserved CPUs 4 to", "cpu"),
    "1.6 K2 reserved CPUs grown beside an entry, with full-pcpus-only": Row(
        [*reserved("0-3"), "cpu-manager-policy-options=full-pcpus-only=true", "cpu-manager-policy-options=prefer-align-cpus-by-uncorecache=true"], BUSY),
    "1.6 K2 reserved CPUs shrunk, distributed": Row([*reserved("0"), "cpu-manager-policy-options=distribute-cpus-across-numa=true"], BUSY),
    "1.6 strict: reserved CPUs grown": Row([*reserved("0-3"), STRICT[-1]], FREE, None, 'some of strictly reserved cpus: "2-3" are present',
                                           "has reserved CPUs 2-3 in its default CPU set", "cpu"),
    "1.6 strict: reserved CPUs shrunk": Row([*reserved("0"), STRICT[-1]], FREE, None, 'CPUs "1-7" doesn\'t match with CPUs in state "2-7"',
                                            "does not fit the online CPUs: CPUs 1 are not in it", "cpu"),
    "1.6 strict switched off": Row(STATIC, FREE, None, 'not all reserved cpus: "0-1" are present', "it was written with strict-cpu-reservation", "cpu"),
    "1.6 topology manager policy and scope": Row([*STATIC, *MEM, *topology("restricted", "topology-manager-scope=pod")], BUSY, HELD),
    "1.2 1.6 K12 CPU form v3, the gate is off": Row(STATIC, cpu(default="0-3,6-7", pods={POD: {"cpuSet": "4-5"}}, form="v3"), None, CORRUPT,
                                                    "which a kubelet without the feature gate PodLevelResourceManagers does not read", "cpu"),
    "1.2 K12 CPU form v3, the gate is on": Row([*STATIC, PODS], cpu(default="0-3,6-7", pods={POD: {"cpuSet": "4-5"}}, form="v3")),
    "1.2 1.6 CPU form v3 without pods, the gate is off": Row(STATIC, cpu(form="v3"), None, CORRUPT, "which a kubelet without the feature gate", "cpu"),
    "1.2 CPU form v3 without pods, the gate is on": Row([*STATIC, PODS], cpu(form="v3")),
    "1.3 1.6 memory form v2 without pods, the gate is off": Row(MEM, None, memory(form="v2"), CORRUPT, "which a kubelet without the feature gate", "memory"),
    "1.3 memory form v2 without pods, the gate is on": Row([*MEM, PODS], None, memory(form="v2")),
    "1.2 K12 CPU form of 1.37 with CPUs of pods": Row(STATIC, cpu(default="0-3,6-7", pods={POD: {"cpuSet": "4-5"}}, form="v4"), None,
                                                      "doesn't match with CPUs in state", "CPUs 4-5 are not in it", "cpu"),
    "1.2 1.3 K12 forms of 1.37": Row([*STATIC, *MEM], cpu(form="v4"), memory(form="v3")),
    "1.2 K12 CPU form of 1.37 whose second half is wrong": Row(STATIC, cpu(form="v4", dataChecksum=1)),
    "1.2 CPU form v1 without entries": Row(STATIC, cpu(form="v1")),
    "1.2 CPU form v1 of a container that nobody knows": Row(STATIC, cpu(default="0-3,6-7", entries={"c0ffee": "4-5"}, form="v1"), None,
                                                            "failed to migrate checkpoint from v1 to v2", "find by their ids", told=False),
    "1.2 K12 a key of a later version": Row(STATIC, cpu(later=1), said="has keys no known version writes (later)", told=False),
    "1.2 K12 a key of a later version, and a checksum over it": Row(STATIC, cpu().replace('"checksum": ', '"later": 1, "checksum": 1'), None, CORRUPT,
                                                                    "has keys no known version writes (later)", told=False),
    # Its configuration.
    "2.1 K15 hard eviction counts": Row([*MEM, "eviction-hard=memory.available<100Mi"], None, None,
                                        'the total amount "192Mi" of type "memory" is not equal to the value "292Mi"', f"wanted {292 * MIB}"),
    "2.1 hard eviction by share": Row([*MEM, "eviction-hard=memory.available<5%"], None, None, 'the total amount "192Mi" of type "memory" is not equal',
                                      "how many bytes '5%' of memory.available are cannot be told", told=False),
    "2.1 huge pages reserved": Row([*MEM[:-1], "reserved-memory=0:memory=96Mi,hugepages-2Mi=2Mi;1:memory=96Mi"], None, None,
                                   'of type "hugepages-2Mi" is not equal to the value "0"', "huge pages cannot be reserved"),
    "2.1 nothing reserved": Row([*MEM[:1]], None, None, "you should specify the system reserved memory", "reserved-memory: found none"),
    "2.1 zero reserved": Row(["reserved-memory=0:memory=0"], None, None, "reserved memory may not be zero for NUMA node 0", "found 0 of NUMA node 0"),
    "2.1 a NUMA node twice": Row(["reserved-memory=0:memory=1Mi", "reserved-memory=0:memory=1Mi"], None, None, "has a duplicate value for NUMA node 0",
                                 "reserved-memory: found '0:memory=1Mi 0:memory=1Mi'"),
    "2.1 a NUMA node that is not there": Row([*MEM[:-1], "reserved-memory=0:memory=96Mi;2:memory=96Mi"], None, None,
                                             "references a NUMA node 2 that does not exist", "found NUMA node 2, wanted one of 0-1"),
    "2.1 a type that cannot be reserved": Row(["reserved-memory=0:cpu=1"], None, None, 'unknown type: "cpu"',
                                              "found cpu of NUMA node 0"),
    "2.1 policy None: nothing is compared": Row([*KEPT, "reserved-memory=0:memory=4Gi;7:memory=4Gi"]),
    "2.1 more than a NUMA node has": Row([*MEM[:1], "system-reserved=memory=1280Mi", "reserved-memory=0:memory=1152Mi;1:memory=128Mi"],
                                         said=f"found {1152 * MIB} bytes of NUMA node 0, wanted at most"),
    "2.1 no kubelet reserves huge pages": Row(["system-reserved=hugepages-2Mi=2Mi"], None, None, 'cannot reserve "hugepages-2Mi" resource',
                                              "system-reserved: found hugepages-2Mi"),
    "2.1 a reservation that is no quantity": Row(["kube-reserved=memory=lots"], None, None, 'failed to parse quantity "lots"', "kube-reserved: found"),
    "2.1 more memory than there is": Row(["kube-reserved=memory=8Gi"], None, None, 'Resource "memory" has a reservation of {{8589934592 0}',
                                         "keep 8589934592 bytes of memory"),
    "2.1 an eviction signal that is not": Row(["eviction-hard=memory.free<1Gi"], None, None, "memory.free", "eviction-hard: found memory.free"),
    "2.1 an eviction threshold of 0": Row(["eviction-hard=memory.available<0"], None, None, "must be positive", "eviction-hard: found"),
    "2.3 reserved-memory that cannot be read": Row(["reserved-memory=0:memory"], None, None, "reserved-memory", "reserved-memory: found '0:memory'"),
    "2.4 K10 reserved CPUs that are not online": Row(reserved("0-1,8"), None, None, "reserved-cpus: 0-1,8 is not a subset of online-cpus: 0-7",
                                                     "CPUs 8 are not online"),
    "2.4 the kernel's grammar": Row(reserved("0-7:1/2"), None, None, "unable to parse reserved", "reserved-cpus: found '0-7:1/2'"),
    "2.4 K19 static without a reservation": Row(["cpu-manager-policy=static"], None, None, "static policy", "does not start without a CPU reservation"),
    "2.4 reserved by count": Row(["cpu-manager-policy=static", "kube-reserved=cpu=500m"]),
    "2.4 more CPUs by count than there are": Row(["kube-reserved=cpu=9"], None, None, 'Resource "cpu" has a reservation of {{9 0}', "keep 9 CPUs"),
    "2.5 an option that is not": Row(options("full-pcpus=true"), None, None, 'unknown CPU Manager Policy option: "full-pcpus"', "found 'full-pcpus'"),
    "2.5 two options in one flag": Row(options("full-pcpus-only=true,strict-cpu-reservation=true"), None, None, 'bad value for option "full-pcpus-only"',
                                       "wanted one option with true or false for each use"),
    "2.5 an option neither true nor false": Row(options("full-pcpus-only=yes"), None, None, 'bad value for option "full-pcpus-only"', "with true or false"),
    "2.5 options that refuse each other": Row(options("distribute-cpus-across-numa=true", "prefer-align-cpus-by-uncorecache=true"), None, None,
                                              "can not be used at the same time", "wanted one of them"),
    "2.5 an alpha option without its gate": Row(options("align-by-socket=true"), None, None, "Alpha-level Options not enabled", "CPUManagerPolicyAlphaOptions"),
    "2.5 an alpha option with its gate": Row([*options("align-by-socket=true"), ALPHA]),
    "2.5 align-by-socket and single-numa-node": Row([*options("align-by-socket=true"), ALPHA, *topology("single-numa-node")], None, None,
                                                    "is incompatible with CPUManager align-by-socket", "with topology-manager-policy single-numa-node"),
    "2.5 options with policy none": Row(["cpu-manager-policy-options=full-pcpus-only=true"], None, None, "None policy: received unsupported options",
                                        "policy none takes no options"),
    "2.6 a policy that is not": Row(topology("numa"), None, None, 'topologyManagerPolicy (--topology-manager-policy) "numa"', "found 'numa'"),
    "2.6 a scope that is not": Row(["topology-manager-scope=node"], None, None, '(--topology-manager-scope) "node"', "topology-manager-scope: found 'node'"),
    "2.6 fewer than 8 NUMA nodes": Row(topology("restricted", "topology-manager-policy-options=max-allowable-numa-nodes=4"), None, None,
                                       "max-allowable-numa-nodes", "found max-allowable-numa-nodes=4"),
    "2.6 a number of NUMA nodes that is none": Row(topology("restricted", "topology-manager-policy-options=max-allowable-numa-nodes=true"), None, None,
                                                   "unable to convert", "wanted a number from 8"),
    "2.6 an option that is not": Row(topology("restricted", "topology-manager-policy-options=max-numa-nodes=16"), None, None,
                                     "unknown Topology Manager Policy option", "found max-numa-nodes"),
    "2.6 an option neither true nor false": Row(topology("restricted", "topology-manager-policy-options=prefer-closest-numa-nodes=yes"), None, None,
                                                'bad value for option "prefer-closest-numa-nodes"', "found prefer-closest-numa-nodes=yes"),
    "2.6 options without a policy": Row(["topology-manager-policy-options=max-numa-nodes=16"]),
    "2.6 16 NUMA nodes allowed": Row([*topology("single-numa-node", "topology-manager-policy-options=max-allowable-numa-nodes=16"), *STATIC, *MEM]),
    "2.7 K14 CPU policy in the wrong case": Row(["cpu-manager-policy=Static", "reserved-cpus=0-1"], None, None, 'unknown policy: "Static"', "found 'Static'"),
    "2.7 K14 memory policy in the wrong case": Row(["memory-manager-policy=static", *MEM[1:]], None, None, 'unknown policy: "static"', "found 'static'"),
    "2.7 K17 quotes inside the value": Row(['cpu-manager-policy="static"', "reserved-cpus=0-1"], None, None, "unknown policy", "cpu-manager-policy: found"),
    "2.7 K16 an argument that is not": Row(["cpu-manager=true"], None, None, "unknown flag: --cpu-manager", "--cpu-manager", told=False),
    "2.7 a gate that is gone": Row(["feature-gates=MemoryManager=true"], None, None, "unrecognized feature gate: MemoryManager", "found MemoryManager"),
}

NOT_HERE: Dict[str, str] = {
    "1.5 1.6 a DIMM more or less": "test_after_a_power_cut_with_other_memory_the_node_comes_back_by_itself",
    "1.6 K4 isolcpus=": "the same test: the boot after the cut has it",
    "1.6 downgrades": "one version of the kubelet is built: rows with forms v3 and v4 show what 1.36 makes of them",
    "1.7 other checkpoints": "the module neither reads nor removes them; each consistent row checks that",
    "2.1 K15 the example of many guides": "test_the_reservation_of_many_guides_is_refused_with_the_right_sum",
    "2.6 more than 8 NUMA nodes": "a lab node has two",
    "2.5 align-by-socket with more sockets than NUMA nodes": "a lab node has as many",
    "2.4 reserved-cpus with system-reserved-cgroup": "the module is not told of cgroups",
    "K11 K22": "what pods do after a start, not whether there is one",
    "K18 K20": "what a running kubelet took, and files beside RKE2's: module_utils/test_state.py",
    "K21 K24": "devices and drivers of a cluster",
    "K23 live pinned pods": "test_nothing_is_removed_under_a_pinned_pod",
}


# -- the node ---------------------------------------------------------------------------------------------------------


@dataclass
class Lab:
    """The node, the collection's modules on it, and what its machine is.

    :ivar seen: configurations and files that the kubelet was seen to start with.
    """

    real: RealNode
    ask: Modules
    sizes: Sizes
    seen: Set[str] = field(default_factory=set)

    def starts(self, row: Row, files: Mapping[str, str]) -> bool:
        """Whether the kubelet starts now, or did before with just this configuration and these files."""
        key = json.dumps([row.args, row.before, sorted((path, text) for path, text in files.items() if path in (CPU, MEMORY))])
        if key not in self.seen and self.real.go_on() == "":
            self.seen.add(key)
        return key in self.seen

    def stage(self, args: Sequence[str], files: Dict[str, Optional[str]], before: str = "") -> None:
        """Ends the kubelet and writes RKE2's configuration and the files; None: not there."""
        self.real.hold()
        wanted: Dict[str, Optional[str]] = {CONFIG: "kubelet-arg+:\n" + "".join(f"  - {json.dumps(each)}\n" for each in args) if args else None, **files}
        lines = [f"printf %s {shlex.quote(text)} > {path}" if text is not None else f"rm -f {path}" for path, text in wanted.items()]
        self.real.node.run("\n".join(["set -e", f"rm -rf {SAVED}", f"mkdir -p {Path(CONFIG).parent}", *lines, before]), timeout=300)

    def there(self) -> Dict[str, str]:
        """The kubelet's checkpoints and our copies: path to content."""
        told = self.real.node.run(f"for file in /var/lib/kubelet/*_state {SAVED}/*; do [ ! -f $file ] || {{ echo $file; base64 --wrap 0 $file; echo; }}; done")
        lines = told.stdout.splitlines()
        return dict(zip(lines[::2], lines[1::2]))


@pytest.fixture(scope="module")
def lab(programs: None) -> Iterator[Lab]:
    with ExitStack() as stack:
        joined = os.environ.get("LOCALITY_KUBELET_NODE")
        if joined:
            api = Api.of(Path(os.environ["KUBECONFIG"]))
            real = RealNode(Node.open(config.cache(), joined), cast(ControlPlane, SimpleNamespace(api=api)))
            # What the collection brought there is not part of any row.
            real.node.run(f"rm -f {OURS} {HOOK}; systemctl daemon-reload")
        else:
            cluster = stack.enter_context(control_plane())
            real = stack.enter_context(real_node(stack.enter_context(node("kubelet")), cluster))
        ask = stack.enter_context(modules(real.node))
        yield Lab(real, ask, numa_sizes(real.node))


def numa_sizes(machine: Node) -> Sizes:
    """What the kernel says of its NUMA nodes, not read by the code that is tested."""
    told = machine.run("cd /sys/devices/system/node; grep -o 'MemTotal: *[0-9]*' node*/meminfo; grep . node*/hugepages/*/nr_hugepages").stdout
    found: Sizes = {}
    for id, kib in re.findall(r"^node(\d+)/meminfo:MemTotal: *(\d+)$", told, re.MULTILINE):
        found[int(id)] = {"memory": int(kib) * 1024}
    for id, kib, count in re.findall(r"^node(\d+)/hugepages/hugepages-(\d+)kB/nr_hugepages:(\d+)$", told, re.MULTILINE):
        found[int(id)][{"2048": "hugepages-2Mi", "1048576": "hugepages-1Gi"}[kib]] = int(kib) * 1024 * int(count)
    assert sorted(found) == [0, 1]
    return found


def made(file: File, sizes: Sizes) -> Optional[str]:
    return file(copy.deepcopy(sizes)) if callable(file) else file


# -- tests ------------------------------------------------------------------------------------------------------------


def test_each_rule_has_its_row() -> None:
    found = " ".join([*ROWS, *NOT_HERE])
    assert [number for number in range(1, 25) if f"K{number} " not in f"{found} "] == []
    assert [section for section in ("1.2", "1.3", "1.5", "1.6", "1.7", "2.1", "2.3", "2.4", "2.5", "2.6", "2.7") if f"{section} " not in found] == []


@pytest.mark.parametrize("name", ROWS)
def test_the_kubelet_does_as_predicted(lab: Lab, name: str) -> None:
    row = ROWS[name]
    files = {CPU: made(row.cpu, lab.sizes), MEMORY: made(row.memory, lab.sizes)}
    lab.stage(row.args, files, row.before)
    try:
        found = lab.ask("kubelet_cpu_state")
        ended = lab.real.go_on().replace("\\", "")
        _compare(lab, row, found, ended, files)
    finally:
        if row.after:
            lab.real.node.run(row.after)


def _compare(lab: Lab, row: Row, found: Dict[str, Any], ended: str, files: Dict[str, Optional[str]]) -> None:
    gone = {path for name, path in (("cpu", CPU), ("memory", MEMORY)) if name in row.gone.split()}
    # First what the kubelet did: the rest is of no use if the row itself is wrong.
    assert (bool(ended), row.ends in ended) == (bool(row.ends), True), ended
    assert found["would_start"]["ok"] is (None if not row.told else not row.ends), found
    assert row.said in "\n".join(found["would_start"]["reasons"])
    assert {each["file"] for each in found["remove"]} == gone
    if not row.ends:
        # It starts again with what it has made of the files.
        assert lab.ask("kubelet_cpu_state")["would_start"]["ok"] is (True if row.told else None)
        return
    if row.told:
        # The same of a plan with these values, which knows nothing of RKE2's files.
        wanted = kubelet_args.values([tuple(each.split("=", 1)) for each in row.args])
        assert lab.ask("kubelet_cpu_state", wanted=wanted)["remove"] == found["remove"]
    lab.real.hold()
    before = lab.there()
    done = lab.ask("kubelet_cpu_state", state="consistent")
    after = lab.there()
    assert (done.get("failed", False), done["changed"]) == (False, bool(gone)), done
    copies = {f"{SAVED}/{Path(path).name}": path for path in gone}
    assert {path: text for path, text in after.items() if not path.startswith(SAVED)} == {path: text for path, text in before.items() if path not in gone}
    assert {path.rpartition(".")[0]: text for path, text in after.items() if path.startswith(SAVED)} == {path: before[of] for path, of in copies.items()}
    assert sorted(done["saved"]) == sorted(path for path in after if path.startswith(SAVED))
    if gone:
        assert lab.ask("kubelet_cpu_state")["would_start"]["ok"] is True
        assert lab.starts(row, after)


def test_the_reservation_of_many_guides_is_refused_with_the_right_sum(lab: Lab) -> None:
    """``reserved-memory=0:memory=4Gi;1:memory=4Gi`` with 8Gi kept for the system and 4Gi for Kubernetes, on a node with a 64th of the memory."""
    args = ["memory-manager-policy=Static", "system-reserved=memory=128Mi", "kube-reserved=memory=64Mi", "reserved-memory=0:memory=64Mi;1:memory=64Mi"]
    lab.stage(args, {CPU: None, MEMORY: None})
    found = lab.ask("kubelet_cpu_state")
    assert found["would_start"] == {"ok": False, "reasons": [
        f"reserved-memory: found {128 * MIB} bytes in all, wanted {192 * MIB}: system-reserved, kube-reserved and hard eviction, exactly"]}
    assert found["remove"] == []
    said = 'the total amount "128Mi" of type "memory" is not equal to the value "192Mi" determined by Node Allocatable feature'
    assert said in lab.real.go_on().replace("\\", "")


# -- plans ------------------------------------------------------------------------------------------------------------

SEEDS = range(10)


def policy(choose: random.Random) -> Dict[str, Any]:
    """A policy for a machine with two NUMA nodes of two cores and 1 GiB each."""
    sizes = {"system_reserved": f"{choose.randrange(32, 160)}Mi", "kube_reserved": choose.randrange(2**25, 2**27)}
    return {
        "housekeeping": choose.choice([{"cores_per_numa_node": 1}, {"cores": 2}, {"cores": 3}, {"cpus": "0-1"}, {"cpus": "0-1,6-7"}, {"cpus": "0,2,4"}]),
        "isolation": {"scheduler": choose.choice(["balanced", "isolated"]), "managed_irqs": choose.random() < 0.5, "tickless": choose.random() < 0.5},
        "hugepages": choose.choice([{}, {"2Mi": {"0": choose.randrange(1, 20), "1": choose.randrange(20)}}]),
        "memory": {**sizes, "eviction_hard": f"{choose.randrange(50, 100)}Mi"},
        "kubelet": {
            "topology_manager_policy": choose.choice(["none", "best-effort", "restricted", "single-numa-node"]),
            "topology_manager_scope": choose.choice(["container", "pod"]),
            "memory_manager_policy": choose.choice(["None", "Static", "Static"]),
            "cpu_manager_options": choose.choice([[], ["full-pcpus-only"], ["distribute-cpus-across-numa"], ["full-pcpus-only", "distribute-cpus-across-numa"],
                                                  ["prefer-align-cpus-by-uncorecache"]]),
        },
    }


def planned(topology_facts: Mapping[str, Any], platform: Mapping[str, Any], seed: int) -> Dict[str, Any]:
    """The plan of a random policy that the planner takes."""
    choose = random.Random(seed)
    for _attempt in range(100):
        found = plan.make_plan(topology_facts, platform, policy(choose))
        if not [each for each in found["findings"] if each["severity"] == "error"]:
            return found
    raise AssertionError("no policy that fits")


@pytest.fixture(scope="module")
def plans(lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> List[Tuple[Dict[str, Any], Path]]:
    """Plans of this node, and the folders in which the role wrote their files."""
    machine = lab.ask("numa_topology")["ansible_facts"]["numa_topology"]
    platform = lab.ask("locality_state")["ansible_facts"]["locality_state"]["platform"]
    made = {f"seed{seed}": planned(machine, platform, seed) for seed in SEEDS}
    roots = kubelet_files.write(tmp_path_factory.mktemp("plans"), made, platform)
    return [(made[name], roots[name]) for name in made]


@pytest.mark.parametrize("seed", SEEDS)
def test_the_kubelet_starts_as_planned(lab: Lab, plans: List[Tuple[Dict[str, Any], Path]], seed: int) -> None:
    made, root = plans[seed]
    knobs = made["knobs"]
    lab.real.hold()
    pages = "\n".join(f"echo {(knobs['kernel.hugepages'].get('2Mi') or {}).get(str(id), 0)} > {PAGES.replace('node0', f'node{id}')}" for id in (0, 1))
    # What the plan's boot arguments would bring.
    lab.real.node.run(f"set -e\nrm -f {CONFIG}\n{pages}\ncat > {OURS}", stdin=(root / OURS[1:]).read_text(encoding="utf-8"))
    try:
        done = lab.ask("kubelet_cpu_state", wanted=knobs, state="consistent")
        assert not done.get("failed"), done
        # Of what RKE2's configuration gives its kubelet now.
        assert lab.ask("kubelet_cpu_state")["would_start"] == {"ok": True, "reasons": []}
        assert lab.real.go_on() == ""
        now = lab.ask("kubelet_cpu_state", wanted=knobs)
        assert (now["would_start"]["ok"], now["cpu"]["policy"], now["memory"]["policy"]) == (True, "static", knobs["kubelet.memory_manager_policy"])
    finally:
        lab.real.node.run("\n".join([f"rm -f {OURS}", *(f"echo 0 > {PAGES.replace('node0', f'node{id}')}" for id in (0, 1))]))


# -- containers that live ---------------------------------------------------------------------------------------------


def test_nothing_is_removed_under_a_pinned_pod(lab: Lab) -> None:
    api, pods = lab.real.cluster.api, "/api/v1/namespaces/default/pods"
    lab.stage([*STATIC, *MEM], {CPU: None, MEMORY: None})
    assert lab.real.go_on() == ""
    lab.real.wait_ready()
    amount = {"cpu": "2", "memory": "32Mi"}
    main = {"name": "main", "image": IMAGE, "imagePullPolicy": "Never", "resources": {"requests": amount, "limits": amount}}
    api.post(pods, {"metadata": {"name": "pinned"}, "spec": {
        "hostNetwork": True, "terminationGracePeriodSeconds": 5, "nodeName": lab.real.name, "containers": [main]}})
    pod = until("it runs", lambda: (found := api.get(f"{pods}/pinned"))["status"].get("phase") == "Running" and found)
    uid = pod["metadata"]["uid"]
    lab.real.hold()
    before = lab.there()
    # The files that the kubelet itself wrote, with a container in both.
    assert lab.ask("kubelet_cpu_state")["would_start"]["ok"] is True
    both = {"kubelet.cpu_manager_policy": "none", "kubelet.memory_manager_policy": "None"}
    refused = lab.ask("kubelet_cpu_state", wanted=both, state="consistent")
    assert [(each["pod"], each["container"], each["alive"]) for each in refused["containers"]] == [(uid, "main", True)]
    assert refused["failed"] and f"containers with CPUs of their own are alive, and would be moved by the kubelet: main of pod {uid} on CPUs" in refused["msg"]
    assert f"pods with memory of their own are alive, and the kubelet would give it to others: {uid}" in refused["msg"]
    assert lab.there() == before
    # A running kubelet forbids it whatever is alive.
    assert lab.real.go_on() == ""
    assert "the kubelet runs" in lab.ask("kubelet_cpu_state", wanted=both, state="consistent", force=True)["msg"]
    api.delete(f"{pods}/pinned")
    until("it is gone", lambda: not [each for each in api.get(pods)["items"] if each["metadata"]["name"] == "pinned"])
    lab.real.hold()
    gone = lab.ask("kubelet_cpu_state", wanted=both, state="consistent")
    assert not gone.get("failed") and sorted(each["file"] for each in gone["remove"]) == [CPU, MEMORY]


# -- a power cut: last, since the node is another machine afterwards ----------------------------------------------------

PROGRAM = "/usr/local/libexec/inferops-locality/locality.pyz"
ISOLATED = 'GRUB_CMDLINE_LINUX_DEFAULT="$GRUB_CMDLINE_LINUX_DEFAULT isolcpus=domain,managed_irq,2-3"\n'


def test_after_a_power_cut_with_other_memory_the_node_comes_back_by_itself(lab: Lab, plans: List[Tuple[Dict[str, Any], Path]]) -> None:
    root = next(folder for made, folder in plans if made["knobs"]["kubelet.memory_manager_policy"] == "Static")
    machine = lab.real.node
    lab.stage([], {CPU: None, MEMORY: None})
    for path in (OURS, HOOK):
        machine.put(path, (root / path[1:]).read_text(encoding="utf-8"))
    machine.put("/etc/default/grub.d/95-test.cfg", ISOLATED)
    content, _version = runtime.build()
    subprocess.run(machine.ssh_argv(f"install -D -m 755 /dev/stdin {PROGRAM}"), input=content, check=True, timeout=300)
    machine.run("update-grub; systemctl daemon-reload; sync", timeout=600)
    assert lab.real.restart() == ""
    before = lab.there()
    # The kubelet forces a file to the disk, not its name.
    machine.run("sync")

    machine.power_cut(memory1=1280)
    until("it is Ready", lambda: _ready_since_this_boot(lab.real), patience=900)
    assert machine.run("cat /sys/devices/system/cpu/isolated").stdout == "2-3\n"
    after = lab.there()
    copies = [path for path in after if path.startswith(f"{SAVED}/memory_manager_state.")]
    assert [after[path] for path in copies] == [before[MEMORY]] and after[MEMORY] != before[MEMORY]
    # isolcpus= takes no CPU away from the kubelet: its file stays.
    assert after[CPU] == before[CPU] and len([path for path in after if path.startswith(SAVED)]) == 1
    said = machine.run("journalctl --boot --unit rke2-agent --output cat").stdout
    assert f"{MEMORY} memory drift, the NUMA nodes' totals are not what they were: NUMA node " in said and f"{MEMORY} is removed" in said

    # Without it: the same kubelet on the same machine, with the file that was taken away. The line of the unit does nothing any more in this boot.
    with modules(machine) as ask:
        lab.real.hold()
        machine.run(f"cp {copies[0]} {MEMORY}")
        assert ask("kubelet_cpu_state")["would_start"]["ok"] is False
        assert DIFFERENT in lab.real.restart().replace("\\", "")
        lab.real.hold()
        assert [each["file"] for each in ask("kubelet_cpu_state", state="consistent")["remove"]] == [MEMORY]
        assert lab.real.go_on() == ""


def _ready_since_this_boot(real: RealNode) -> bool:
    # The API goes on saying Ready for a while of a node that is gone.
    boot = real.cluster.api.get(f"/api/v1/nodes/{real.name}")["status"]["nodeInfo"]["bootID"]
    return real.ready() and bool(boot == real.node.boot_id())
