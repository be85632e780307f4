# Copyright (c) 2026 The inferops.locality authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""DRANET's parameters: what it refuses is refused here, and what its schema takes is taken."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from ansible_collections.inferops.locality.plugins.module_utils import dranet_config, findings

GOOD: list[dict[str, Any]] = [
    {},
    {"interface": {"name": "rdma0", "mtu": 68, "addresses": ["192.0.2.7/24", "2001:db8::7/64"], "hardwareAddr": "02:00:00:00:00:01"}},
    {"interface": {"gsoMaxSize": 196608, "groMaxSize": 196608, "gsoIPv4MaxSize": 196608, "groIPv4MaxSize": 196608, "disableEbpfPrograms": True}},
    {"interface": {"vrf": {"name": "fabric", "table": 100}, "dhcp": True, "forwarding": False}},
    {"routes": [{"destination": "0.0.0.0/0", "gateway": "192.0.2.1", "source": "192.0.2.7", "scope": 0, "table": 100}]},
    {"routes": [{"destination": "192.0.2.9", "scope": 253}]},
    {"rules": [{"priority": 32767, "source": "192.0.2.0/24", "destination": "198.51.100.0/24", "table": 100}, {}]},
    {"neighbors": [{"destination": "192.0.2.9", "hardwareAddr": "02:00:00:00:00:02"}]},
    {"ethtool": {"features": {"gro": False}, "privateFlags": {"x": True}}, "profile": "fast"},
]

# What its schema refuses too.
BAD: list[tuple[dict[str, Any], str]] = [
    ({"mtu": 9000}, "x.mtu: unknown key"),
    ({"apiVersion": "v1"}, "x.apiVersion: unknown key"),
    ({"interface": {"mtu": 67}}, "x.interface.mtu: found 67, wanted a number from 68"),
    ({"interface": {"mtu": "9000"}}, "x.interface.mtu: found '9000'"),
    ({"interface": {"name": "sixteen-letters-"}}, "at most 15 characters"),
    ({"interface": {"mtus": 9000}}, "x.interface.mtus: unknown key"),
    ({"interface": {"dhcp": "yes"}}, "wanted true or false"),
    ({"interface": {"vrf": {"id": 1}}}, "x.interface.vrf.id: unknown key"),
    ({"interface": []}, "x.interface: found [], wanted a mapping"),
    ({"routes": {"destination": "0.0.0.0/0"}}, "wanted a list"),
    ({"routes": [{"gateway": "192.0.2.1"}]}, "x.routes[0].destination: missing"),
    ({"routes": [{"destination": "0.0.0.0/0", "scope": 254}]}, "0 (universe) or 253 (link)"),
    ({"rules": [{"priority": 32768}]}, "a number from 0 to 32767"),
    ({"neighbors": [{"destination": "192.0.2.9"}]}, "x.neighbors[0].hardwareAddr: missing"),
    ({"ethtool": {"features": {"gro": "off"}}}, "true or false"),
]

# What only the driver refuses, or what cannot be meant.
RULES: list[tuple[dict[str, Any], str]] = [
    ({"interface": {"dhcp": True, "addresses": ["192.0.2.7/24"]}}, "dhcp and addresses exclude each other"),
    ({"interface": {"vrf": {"name": "a"}}, "rules": [{"table": 1}]}, "found rules beside interface.vrf"),
    ({"interface": {"addresses": ["192.0.2.7"]}}, "a list of addresses with their prefix"),
    ({"interface": {"hardwareAddr": "02-00"}}, "a hardware address"),
    ({"interface": {"gsoMaxSize": 0}}, "a number of bytes from 1"),
    ({"interface": {"mtu": True}}, "found True, wanted a number from 68"),
    ({"routes": [{"destination": "everywhere"}]}, "x.routes[0].destination: found 'everywhere'"),
    ({"routes": [{"destination": "0.0.0.0/0", "gateway": "192.0.2.1/24"}]}, "wanted an IP address"),
]


def found(config: Any, **more: bool) -> list[str]:
    items = findings.Findings()
    dranet_config.check(config, "x", items, **more)
    return [item["message"] for item in items.items]


@pytest.fixture(scope="module")
def schema(reference: Path) -> dict[str, Any]:
    return dict(json.loads((reference / "data" / "schemas" / "dranet-networkconfig.schema.json").read_text(encoding="utf-8")))


@pytest.mark.parametrize("config", GOOD)
def test_right_parameters(config: dict[str, Any], schema: dict[str, Any]) -> None:
    jsonschema.validate(config, schema)
    assert found(config) == []


@pytest.mark.parametrize(("config", "message"), BAD)
def test_what_the_schema_refuses_is_refused(config: dict[str, Any], message: str, schema: dict[str, Any]) -> None:
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(config, schema)
    assert any(message in told for told in found(config)), found(config)


@pytest.mark.parametrize(("config", "message"), RULES)
def test_rules_beyond_the_schema(config: dict[str, Any], message: str) -> None:
    assert any(message in told for told in found(config)), found(config)


def test_the_keys_are_those_of_the_schema(schema: dict[str, Any]) -> None:
    def keys(part: dict[str, Any]) -> dict[str, Any]:
        part = part.get("items", part)
        return {name: keys(inner) for name, inner in part.get("properties", {}).items()}

    def ours(rule: Any) -> dict[str, Any]:
        rule = rule[0] if isinstance(rule, tuple) else rule
        return {name: ours(inner) for name, inner in rule.items()} if isinstance(rule, dict) else {}

    assert ours(dranet_config._KEYS) == keys(schema)


def test_a_nic_without_an_interface_takes_none_of_its_parameters() -> None:
    assert found({"interface": {"mtu": 9000}, "profile": "a"}, rdma_only=True) == ["x.interface: the NICs are RDMA only and have no network interface"]


@pytest.mark.parametrize("value", [None, [], "x", 7])
def test_only_a_mapping_is_taken(value: Any) -> None:
    assert found(value) and "wanted a mapping" in found(value)[0]
