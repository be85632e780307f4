# Copyright (c) 2026 The inferops.locality authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which hosts are nodes of one cluster, and what they ask together of the chart of its Cilium, which is one for all of them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ansible_collections.inferops.locality.plugins.module_utils import cilium_values, findings, policy
from ansible_collections.inferops.locality.plugins.plugin_utils.plain import plain

# Of ``network`` of the policy: what the chart has for the whole cluster, and what each node may have for itself.
CLUSTER_KEYS = ("routing", "bpf_maps", "clock_probe", "bandwidth_manager")
NODE_KEYS = ("datapath_mode", "big_tcp", "devices", "xdp")
_SETTINGS = ("mode", "version")

Path = tuple[str, ...]


def _leaves(values: Mapping[str, Any], path: Path = ()) -> Iterator[tuple[Path, Any]]:
    for key, value in values.items():
        if isinstance(value, Mapping) and value:
            yield from _leaves(value, (*path, str(key)))
        else:
            yield (*path, str(key)), value


class Host:
    """What one host says of its cluster's Cilium. :ivar cluster: control host and kubeconfig, None for a host of no cluster or on paper."""

    def __init__(self, name: str, variables: Mapping[str, Any]) -> None:
        self.name = name
        kubeconfig, root = variables.get("locality_kubeconfig"), variables.get("locality_root") or "/"
        self.cluster = (str(variables.get("locality_control_host") or "localhost"), str(kubeconfig)) if kubeconfig and root == "/" else None
        # A run that goes back to a record plans with the policy of then.
        planned = (plain(variables.get("observe_result")) or {}).get("policy") or plain(variables.get("locality_policy"))
        network = planned.get("network") if isinstance(planned, Mapping) else None
        # What is wrong in it refuses the host by its plan.
        checked, _wrong = policy.check_policy({"network": network} if network else {})
        self.network: Mapping[str, Any] = checked["network"]
        given = plain(variables.get("locality_cilium"))
        self.cilium: Mapping[str, Any] = given if isinstance(given, Mapping) else {}
        values = self.cilium.get("values")
        self.values: Mapping[str, Any] | None = values if isinstance(values, Mapping) else None

    @property
    def asks(self) -> bool:
        """Whether it asks for anything that the chart has for the whole cluster."""
        return self.cluster is not None and (self.values is not None or any(self.network[key] is not None for key in CLUSTER_KEYS))

    def wishes(self) -> dict[str, Any]:
        """What it asks for, by the name of the setting."""
        told = {f"locality_policy.network.{key}": self.network[key] for key in CLUSTER_KEYS}
        told |= {f"locality_cilium.{key}": self.cilium.get(key) for key in _SETTINGS}
        told |= {f"locality_cilium.values.{'.'.join(path)}": value for path, value in _leaves(self.values or {})}
        return {key: value for key, value in told.items() if value is not None or key.startswith("locality_cilium.values.")}


def _differences(hosts: Sequence[Host], found: findings.Findings) -> None:
    said: dict[str, dict[str, list[str]]] = {}
    for host in hosts:
        for key, value in host.wishes().items():
            said.setdefault(key, {}).setdefault(json.dumps(value, sort_keys=True), []).append(host.name)
    for key, answers in said.items():
        below = {text: names for other, more in said.items() if other.startswith(f"{key}.") for text, names in more.items()}
        if len(answers) > 1 or below:
            told = [*answers.items(), *((f"keys below it ({text})", names) for text, names in below.items())]
            texts = [f"{text} on {', '.join(names)}" for text, names in told]
            found.error(
                "cilium.cluster_disagrees", f"{key}: hosts of one cluster ask its Cilium's chart for different values: {'; '.join(texts)}",
                f"the chart is one for all nodes: say it once for the cluster; only {', '.join(NODE_KEYS)} may differ from node to node",
            )


def _together(hosts: Sequence[Host], everyone: Sequence[Host]) -> dict[str, Any]:
    """What they ask for. A setting of nodes counts for the chart of a new cluster where it is the same on all of them."""
    network = {key: next((host.network[key] for host in hosts if host.network[key] is not None), None) for key in CLUSTER_KEYS}
    network |= {key: everyone[0].network[key] if all(host.network[key] == everyone[0].network[key] for host in everyone) else None for key in NODE_KEYS}
    settings = {key: next((host.cilium[key] for host in hosts if host.cilium.get(key) is not None), None) for key in _SETTINGS}
    return {"network": network, **settings, "values": cilium_values.merge(*(host.values or {} for host in hosts))}


def clusters(variables: Mapping[str, Mapping[str, Any]], names: Sequence[str], reached: Sequence[str], everyone: bool = False) -> list[dict[str, Any]]:
    """Clusters whose chart is asked for something.

    A host that leaves a setting alone agrees with any. Hosts that the run does not look at count too: the chart is one for them all.

    :param variables: of each host. :param names: all hosts of the inventory. :param reached: those that the run has reached.
    :param everyone: clusters that ask for nothing too, as for taking everything off.
    :returns: for each ``hosts``, those that ask (or all), ``members``, all of them, ``first``, the first that asks and was reached, ``network``, ``mode``,
        ``version``, ``values``: what they ask for together, and ``findings``.
    """
    found: dict[tuple[str, str], list[Host]] = {}
    for name in names:
        host = Host(str(name), variables[name])
        if host.cluster is not None:
            found.setdefault(host.cluster, []).append(host)
    result = []
    for members in found.values():
        hosts = [host for host in members if everyone or host.asks]
        first = next((host.name for host in hosts if host.name in reached), None)
        if first is None:
            continue
        wrong = findings.Findings()
        if not everyone:
            _differences(hosts, wrong)
        names_of = {"hosts": [host.name for host in hosts], "members": [host.name for host in members], "first": first}
        result.append({**names_of, **_together(hosts, members), "findings": wrong.items})
    return result


__all__ = ("CLUSTER_KEYS", "NODE_KEYS", "clusters")
