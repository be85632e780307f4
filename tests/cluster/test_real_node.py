# Copyright (c) 2026 The inferops.locality authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A kubelet on a lab node is one: it registers, gives CPUs away, refuses what it must.

Boots a virtual node, so these are run with FULL=1 only. In this order: each leaves the node to the next.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any, Dict, Iterator, Optional

import pytest

from controlplane import ApiError, binaries, control_plane
from controlplane.nodemodules import modules
from controlplane.realnode import IMAGE, RealNode, real_node
from turns import TOP, Cluster
from turns import until_slowly as until
from vlab import node

STATIC = """
kubelet-arg+:
  - cpu-manager-policy=static
  - reserved-cpus=0-1
"""

if not os.environ.get("FULL"):
    pytest.skip("a node of tests/lab is booted only with FULL=1", allow_module_level=True)


@pytest.fixture(scope="module")
def real(programs: None) -> Iterator[RealNode]:
    with control_plane() as cluster, node("kubelet") as machine, real_node(machine, cluster) as joined:
        yield joined


def pod(real: RealNode, name: str) -> Optional[Dict[str, Any]]:
    try:
        return real.cluster.api.get(f"/api/v1/namespaces/default/pods/{name}")
    except ApiError as error:
        if error.code != 404:
            raise
        return None


def state(real: RealNode) -> Dict[str, Any]:
    """The CPU manager's checkpoint."""
    return dict(json.loads(real.node.run("cat /var/lib/kubelet/cpu_manager_state").stdout))


def test_it_registers_as_what_it_is(real: RealNode) -> None:
    found = real.cluster.api.get(f"/api/v1/nodes/{real.name}")
    info = found["status"]["nodeInfo"]
    assert info["kubeletVersion"] == binaries.kubernetes_version()
    assert info["containerRuntimeVersion"].startswith("containerd://1.7.")
    assert info["bootID"] == real.node.boot_id()
    assert found["status"]["capacity"]["cpu"] == "8"
    # Of the lab's own config.yaml.
    assert found["status"]["capacity"]["pods"] == "200"
    assert state(real)["policyName"] == "none"


def test_it_refuses_the_checkpoint_of_another_policy(real: RealNode) -> None:
    real.configure("90-test", STATIC)
    refused = real.restart()
    assert "start cpu manager error" in refused and 'configured policy \\"static\\" differs from state checkpoint policy \\"none\\"' in refused
    real.node.run("rm /var/lib/kubelet/cpu_manager_state")
    assert real.restart() == ""
    assert state(real) == {"policyName": "static", "defaultCpuSet": "0-7", "checksum": state(real)["checksum"]}


def test_it_says_what_it_runs_with_to_a_token_that_opens_nothing_else(real: RealNode) -> None:
    real.wait_ready()
    ours = Cluster(real.cluster, Path(os.devnull))
    real.cluster.kubectl("apply", "-f", str(TOP / "docs" / "rbac-configz.yaml"))
    access = until("the authorizer knows", lambda: (found := ours.call("kubelet_access", real.name)).get("token") and found)
    with modules(real.node) as run:
        told = run("kubelet_configz", token=access["token"], port=access["port"], timeout=60)
        assert told.get("running", told)["kubelet.cpu_manager_policy"] == "static"
        assert told["running"]["kubelet.reserved_cpus"] == "0-1" and told["running"]["kubelet.memory_manager_policy"] == "None"
        # As RKE2's file of defaults has it.
        assert told["running"]["kubelet.eviction_hard"] == {"imagefs.available": "5%", "nodefs.available": "5%"}
        refused = run("kubelet_configz", token=real.cluster.api.post(
            "/api/v1/namespaces/default/serviceaccounts/default/token", {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}},
        )["status"]["token"], port=access["port"], timeout=1)
        assert refused["status"] == 403 and "nodes/configz of docs/rbac-configz.yaml" in refused["msg"]


def test_a_guaranteed_pod_has_cpus_of_its_own(real: RealNode) -> None:
    real.wait_ready()
    amount = {"cpu": "2", "memory": "32Mi"}
    real.cluster.api.post("/api/v1/namespaces/default/pods", {
        "metadata": {"name": "own"},
        "spec": {
            # Nodes here have no pod network.
            "hostNetwork": True, "terminationGracePeriodSeconds": 5,
            "containers": [{"name": "main", "image": IMAGE, "imagePullPolicy": "Never", "resources": {"requests": amount, "limits": amount}}],
        },
    })
    running = until("it runs", lambda: (found := pod(real, "own")) and found["status"].get("phase") == "Running" and found)
    assert running["spec"]["nodeName"] == real.name
    assert state(real)["entries"] == {running["metadata"]["uid"]: {"main": "2-3"}}
    container = running["status"]["containerStatuses"][0]["containerID"].removeprefix("containerd://")
    scope = real.node.run(f"find /sys/fs/cgroup/kubepods.slice -name 'cri-containerd-{container}.scope'").stdout.strip()
    assert real.node.run(f"cat {scope}/cpuset.cpus.effective").stdout.strip() == "2-3"


def test_it_refuses_reserved_memory_that_is_not_the_sum(real: RealNode) -> None:
    real.configure("91-test", """
kubelet-arg+:
  - memory-manager-policy=Static
  - system-reserved=memory=256Mi
  - kube-reserved=memory=128Mi
  - "reserved-memory=0:memory=128Mi;1:memory=128Mi"
""")
    real.node.run("rm /var/lib/kubelet/memory_manager_state")
    refused = real.restart()
    assert 'the total amount \\"256Mi\\" of type \\"memory\\" is not equal to the value \\"384Mi\\"' in refused
    real.configure("91-test", "")
    assert real.restart() == ""
