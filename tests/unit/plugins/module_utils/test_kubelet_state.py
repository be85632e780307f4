# Copyright (c) 2026 The inferops.locality authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The kubelet's checkpoints: every form and checksum, and what makes one unusable."""

from __future__ import annotations

import json
from typing import Any, Optional

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.inferops.locality.plugins.module_utils import kubelet_state
from ansible_collections.inferops.locality.plugins.module_utils.cpulist import from_list

POD = "39b37746-7f5e-4064-b8e1-eebd2bfaa003"
TWO = {"pod": {"container1": "4-6", "container2": "1-3"}}
FLAT = {"containerID1": "4-6", "containerID2": "1-3"}

# form, policy, default set, entries, podEntries, checksum: computed by kubelets
CPU_VECTORS = [
    ("v2", "none", "", None, None, 1353318690),
    ("v1", "none", "", None, None, 3242152201),
    ("v2", "none", "4-6", None, None, 354655845),
    ("v2", "none", "1-3", TWO, None, 3610638499),
    ("v2", "other", "1-3", None, None, 1394507217),
    ("v1", "none", "1-3", None, None, 1694838852),
    ("v1", "none", "1-3", FLAT, None, 3680390589),
    ("v3", "none", "1-3", TWO, {"pod": {"cpuSet": "4-6"}}, 2649431787),
    ("v2", "static", "0-63", None, None, 1058907510),
    ("v2", "static", "2-15,17-31,34-47,49-63", None, None, 4141502832),
    ("v2", "static", "0-151", None, None, 2944298236),
    ("v2", "static", "0-1", None, None, 1636926438),
    ("v2", "static", "1,3-15,17,19-31", None, None, 1902567528),
    ("v2", "static", "0,4-27", {POD: {"app": "1-3"}}, None, 3300516549),
    ("v2", "static", "0,4-8,12-15", {"088fe178-cec9-4eb9-ba3c-cf45cba46371": {"qos-demo-ctr": "1,9"},
                                     "681eca58-a216-4ec4-a57b-941cad3c4e0f": {"qos-demo-ctr": "2-3,10-11"}}, None, 2993692383),
    ("v2", "static", "0,10-15,25-31", {"777870b5-c64f-42f5-9296-688b9dc212ba": {"container-1": "16-24"},
                                       "fb15e10a-b6a5-4aaa-8fcd-76c1aa64e6fd": {"container-1": "1-9"}}, None, 318470969),
    ("v2", "static", "0-7", None, None, 14413152),
    # of Kubernetes' tests: the checksum is over the type's name with its version
    ("v3", "static", "7-9", TWO, None, 1942532442),
]


def cpu_text(policy: str, default: str, entries: Optional[dict], pods: Optional[dict], checksum: int, **more: Any) -> str:
    data: dict = {"policyName": policy, "defaultCpuSet": default}
    if entries is not None:
        data["entries"] = entries
    if pods is not None:
        data["podEntries"] = pods
    return json.dumps({**data, "checksum": checksum, **more})


@pytest.mark.parametrize("form, policy, default, entries, pods, checksum", CPU_VECTORS)
def test_cpu_checkpoint_of_every_form(form: str, policy: str, default: str, entries: Optional[dict], pods: Optional[dict], checksum: int) -> None:
    state = kubelet_state.decode_cpu(cpu_text(policy, default, entries, pods, checksum))
    assert (state.form, state.policy, state.default) == (form, policy, from_list(default))
    assert sum(len(value) for value in state.entries.values()) == (0 if not entries else 2 if entries in (TWO, FLAT) else len(entries))
    with pytest.raises(kubelet_state.StateError, match="checksum does not match"):
        kubelet_state.decode_cpu(cpu_text(policy, default, entries, pods, checksum ^ 1))
    # a file with another content under the same checksum
    with pytest.raises(kubelet_state.StateError, match="checksum does not match"):
        kubelet_state.decode_cpu(cpu_text(policy, default + ("," if default else "") + "99", entries, pods, checksum))


def test_keys_match_without_regard_to_case() -> None:
    text = cpu_text("static", "0-7", None, None, 14413152)
    for spelling in ("defaultCPUSet", "DEFAULTCPUSET"):
        assert kubelet_state.decode_cpu(text.replace("defaultCpuSet", spelling)).default == from_list("0-7")


def test_order_and_spacing_of_the_file_do_not_matter() -> None:
    shuffled = '{"checksum": 3610638499,\n "entries": {"pod": {"container2": "1-3", "container1": "4-6"}}, "defaultCpuSet": "1-3", "policyName": "none"}\n'
    assert kubelet_state.decode_cpu(shuffled).entries["pod"]["container1"] == from_list("4-6")


def v4(inner: str, checksum: int = 14413152, data_checksum: Optional[int] = None) -> str:
    if data_checksum is None:
        data_checksum = kubelet_state.data_checksum(inner)
    return cpu_text("static", "0-7", None, None, checksum, data=inner, dataChecksum=data_checksum)


INNER = '{"policyName":"static","defaultCpuSet":"0-7"}'


def test_v4_is_read_from_its_data() -> None:
    assert kubelet_state.data_checksum(INNER) == 3294586087
    assert kubelet_state.decode_cpu(v4(INNER)).form == "v4"
    inner = json.dumps({"policyName": "static", "defaultCpuSet": "0-3", "podEntries": {"p": {"cpuSet": "4-7"}}, "originals": {}})
    assert kubelet_state.decode_cpu(v4(inner)).pods == {"p": from_list("4-7")}


@pytest.mark.parametrize("text, reason", [
    (v4(INNER, data_checksum=1), "dataChecksum does not match"),
    (v4(INNER, checksum=1), "checksum does not match"),
    (cpu_text("static", "0-7", None, None, 14413152, dataChecksum=5), "dataChecksum does not match"),
    (v4("{"), "is not JSON"),
])
def test_v4_that_is_wrong_has_no_way_back_to_v2(text: str, reason: str) -> None:
    with pytest.raises(kubelet_state.StateError, match=reason):
        kubelet_state.decode_cpu(text)


def test_checksum_zero_is_taken_where_the_kubelet_takes_it() -> None:
    assert kubelet_state.decode_cpu(cpu_text("static", "0-7", None, None, 0)).form == "v2"
    assert kubelet_state.decode_cpu(cpu_text("none", "0-7", FLAT, None, 0)).form == "v1"
    with pytest.raises(kubelet_state.StateError, match="checksum"):
        kubelet_state.decode_cpu(cpu_text("static", "0-7", None, {"p": {"cpuSet": "1"}}, 0))
    with pytest.raises(kubelet_state.StateError, match="checksum"):
        kubelet_state.decode_memory('{"policyName":"None","machineState":{},"checksum":0}')
    assert kubelet_state.decode_memory('{"policyName":"None","machineState":{},"checksum":0}', 36).policy == "None"
    with pytest.raises(kubelet_state.StateError, match="checksum"):
        kubelet_state.decode_memory('{"policyName":"None","machineState":{},"checksum":0}', 35)


def test_a_kubelet_before_1_37_skips_what_1_37_added() -> None:
    inner = json.dumps({"policyName": "static", "defaultCpuSet": "0-3", "podEntries": {"p": {"cpuSet": "4-7"}}})
    for minor, pods, default in ((36, {}, "0-7"), (37, {"p": from_list("4-7")}, "0-3")):
        state = kubelet_state.decode_cpu(v4(inner), minor)
        assert (state.form, state.pods, state.default) == ("v4", pods, from_list(default))
    assert kubelet_state.decode_cpu(v4("{", data_checksum=1), 36).form == "v4"
    memory = json.dumps({**MEMORY, "checksum": 4215593881, "data": "{", "dataChecksum": 1})
    assert kubelet_state.decode_memory(memory, 36).form == "v3"
    with pytest.raises(kubelet_state.StateError, match="dataChecksum"):
        kubelet_state.decode_memory(memory, 37)


BROKEN = {
    "empty": ("", "is empty", None),
    "NULs only": ("\0\0\0", "is empty", None),
    "blanks only": (" \n", "is empty", None),
    "cut": ("{", "is not JSON: broken at character 2", None),
    "cut in a value": ('{"policyName":', "is not JSON", None),
    "two values": ('{"a":1}{"b":2}', "is not JSON", None),
    "a list": ("[]", "not a JSON object", None),
    "null": ("null", "not a JSON object", None),
    "a number": ("7", "not a JSON object", None),
    "nested without end": ("[" * 100000, "is not JSON: nested too deeply", None),
    "unknown key": ('{"policyName":"static","futureThing":1,"checksum":0}', "no known version", "unknown"),
    "policy of another type": ('{"policyName":7,"checksum":0}', "'policyname' is not of", None),
    "entries of another type": ('{"policyName":"static","entries":[],"checksum":0}', "'entries' is not of", None),
    "checksum of another type": ('{"policyName":"static","checksum":"1"}', "'checksum' is not a number", None),
    "a key twice": ('{"policyName":"static","policyName":"none","checksum":0}', "has a key twice", "unknown"),
    "a key twice in two spellings": ('{"policyName":"static","PolicyName":"none","checksum":0}', "has a key twice, in different", "unknown"),
    "a key twice further in": ('{"policyName":"static","entries":{"p":{"c":"1","c":"2"}},"checksum":0}', "has a key twice", "unknown"),
    "a NUL in it": ('{"policyName":"static",\0"checksum":0}', "is not JSON: broken at character 24", None),
    "negative checksum": ('{"policyName":"static","checksum":-1}', "'checksum' is not a number", None),
}


@pytest.mark.parametrize("text, reason, form", BROKEN.values(), ids=BROKEN)
@pytest.mark.parametrize("decode", [kubelet_state.decode_cpu, kubelet_state.decode_memory])
def test_broken_file_has_a_reason(decode: Any, text: str, reason: str, form: Optional[str]) -> None:
    with pytest.raises(kubelet_state.StateError, match=reason) as caught:
        decode(text)
    assert caught.value.form == form


@pytest.mark.parametrize("default, entries, reason", [
    ("1.3", None, "the default CPU set"),
    ("0-3:1/2", None, "the default CPU set"),
    ("1-3", {"pod": {"container2": "asd"}}, "CPUs of container container2 of pod pod"),
    ("1-3", {"pod": {"c": 3}}, "entries of pod pod are not CPU sets"),
    ("1-3", {"pod": "x", "other": {"c": "1"}}, "entries of pod pod are not an object"),
])
def test_cpu_sets_the_kubelet_cannot_read(default: str, entries: Optional[dict], reason: str) -> None:
    with pytest.raises(kubelet_state.StateError, match=reason):
        kubelet_state.decode_cpu(cpu_text("static", default, entries, None, 0))


_JSON = st.recursive(st.one_of(st.none(), st.booleans(), st.integers(), st.text(max_size=5), st.sampled_from(["static", "0-3", "memory"])),
                     lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.sampled_from([
                         "policyName", "defaultCpuSet", "entries", "podEntries", "checksum", "data", "dataChecksum", "machineState", "memoryMap", "cells",
                         "cpuSet", "memoryBlocks", "0", "1", "x"]), inner, max_size=5)), max_leaves=12)


@given(st.dictionaries(st.sampled_from(["policyName", "defaultCpuSet", "entries", "podEntries", "checksum", "data", "dataChecksum", "machineState"]), _JSON))
def test_no_json_makes_a_traceback(data: dict) -> None:
    for decode in (kubelet_state.decode_cpu, kubelet_state.decode_memory):
        try:
            decode(json.dumps(data))
        except kubelet_state.StateError:
            pass


# -- memory

TABLE = {"total": 2048, "systemReserved": 512, "allocatable": 1536, "reserved": 512, "free": 1024}
BLOCK = {"numaAffinity": [0], "type": "memory", "size": 512}
MEMORY = {"policyName": "static", "machineState": {"0": {"numberOfAssignments": 0, "memoryMap": {"memory": TABLE}, "cells": []}},
          "entries": {"pod": {"container1": [BLOCK]}}}


def test_memory_checkpoint_of_every_form() -> None:
    none = kubelet_state.decode_memory('{"policyName":"None","machineState":{},"checksum":4236770233}')
    assert (none.form, none.policy, none.machine) == ("v1", "None", {})
    v1 = kubelet_state.decode_memory(json.dumps({**MEMORY, "checksum": 4215593881}))
    assert (v1.form, v1.machine[0]["memory"]["allocatable"], v1.entries["pod"]["container1"]) == ("v1", 1536, [BLOCK])
    v2 = kubelet_state.decode_memory(json.dumps({**MEMORY, "podEntries": {"pod": {"memoryBlocks": [BLOCK]}}, "checksum": 1278640530}))
    assert (v2.form, v2.pods) == ("v2", {"pod": [BLOCK]})
    without = {"policyName": "None", "machineState": {}}
    checksum = kubelet_state.memory_checksum("v2", {key.lower(): value for key, value in without.items()})
    assert kubelet_state.decode_memory(json.dumps({**without, "checksum": checksum})).form == "v2"
    inner = json.dumps({**MEMORY, "podEntries": {"pod": {"memoryBlocks": [BLOCK]}}})
    v3 = kubelet_state.decode_memory(json.dumps({**MEMORY, "checksum": 4215593881, "data": inner, "dataChecksum": kubelet_state.data_checksum(inner)}))
    assert (v3.form, v3.pods) == ("v3", {"pod": [BLOCK]})


@pytest.mark.parametrize("change", [
    {"policyName": "Static"}, {"entries": {}}, {"machineState": {}},
    {"machineState": {"0": {"numberOfAssignments": 1, "memoryMap": {"memory": TABLE}, "cells": []}}},
    {"machineState": {"0": {"numberOfAssignments": 0, "memoryMap": {"memory": {**TABLE, "free": 1025}}, "cells": []}}},
    {"machineState": {"1": {"numberOfAssignments": 0, "memoryMap": {"memory": TABLE}, "cells": []}}},
])
def test_any_change_breaks_the_memory_checksum(change: dict) -> None:
    with pytest.raises(kubelet_state.StateError, match="checksum does not match"):
        kubelet_state.decode_memory(json.dumps({**MEMORY, **change, "checksum": 4215593881}))


def test_checksum_of_the_allocation_checkpoint_is_of_the_same_kind() -> None:
    data = '{"entries":{"pod1":{"ContainerResources":{"container1":{"requests":{"cpu":"1Ki","memory":"1Ki"}}}}}}'
    assert kubelet_state.data_checksum(data) == 1178570812
