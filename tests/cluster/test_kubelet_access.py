# Copyright (c) 2026 The inferops.locality authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The token with which a node asks its kubelet opens that and nothing else, and is had only with the rights of docs/rbac-configz.yaml."""

from __future__ import annotations

from typing import Any, Iterator

import pytest
import yaml

from turns import TOP, Cluster, turn_cluster, until

RIGHTS = TOP / "docs" / "rbac-configz.yaml"


@pytest.fixture(scope="module")
def cluster(programs: None) -> Iterator[Cluster]:
    with turn_cluster("a") as running:
        yield running


def allowed(cluster: Cluster, token: str, tmp_path: Any, verb: str, resource: str) -> bool:
    """Whether the API server would let the token's account do it, as kubectl asks."""
    known = yaml.safe_load(cluster.admin.read_text(encoding="utf-8"))
    known["users"] = [{"name": user["name"], "user": {"token": token}} for user in known["users"]]
    path = tmp_path / "kubeconfig"
    path.write_text(yaml.safe_dump(known), encoding="utf-8")
    kind, _slash, part = resource.partition("/")
    return cluster.plane.kubectl("auth", "can-i", verb, kind, f"--subresource={part}", kubeconfig=path, check=False).stdout.strip() == "yes"


def test_without_its_rights_none_is_given_and_with_them_it_opens_configz_alone(cluster: Cluster, tmp_path: Any) -> None:
    refused = cluster.call("kubelet_access", "a")
    assert refused["failed"] and refused["status"] in (403, 404) and "token" not in refused
    cluster.plane.kubectl("apply", "-f", str(RIGHTS))
    given = until("the authorizer knows", lambda: (found := cluster.call("kubelet_access", "a")).get("token") and found)
    assert given["port"] == 10250 and not given["changed"]
    until("it may", lambda: allowed(cluster, given["token"], tmp_path, "get", "nodes/configz"))
    for verb, resource in (("get", "nodes"), ("list", "pods"), ("get", "nodes/proxy"), ("patch", "nodes"), ("create", "pods/eviction"), ("get", "secrets")):
        assert not allowed(cluster, given["token"], tmp_path, verb, resource), (verb, resource)
    # The rollout's own account gets no token of any other.
    other = cluster.call("kubelet_access", "a", account="default")
    assert other["failed"] and other["status"] == 403
    assert "the cluster has no such node" in cluster.call("kubelet_access", "nobody")["msg"]
