# Copyright (c) 2026 The inferops.locality authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a run leaves on the controller about each host, and the way back to it.

What is known of one host is enough to make its plan again. Where the files lie is a matter of :mod:`record_files`.
"""

from __future__ import annotations

import json
import os
from typing import Any, Mapping, Sequence

from ansible_collections.inferops.locality.plugins.module_utils import findings as findings_m
from ansible_collections.inferops.locality.plugins.module_utils import knobs
from ansible_collections.inferops.locality.plugins.plugin_utils import report
from ansible_collections.inferops.locality.plugins.plugin_utils.plain import plain

VERSION = 1
# Outcomes after which a host was as its plan says.
REACHED = ("written", "in_sync")
# Goes with the collection, whatever the policy says.
_OF_THE_COLLECTION = ("runtime.version",)
# Leaves a node as it is where the policy says nothing of it, so that a record from before there was such a layer is whole without it.
_OPTIONAL = "dra"


class RecordError(ValueError):
    """A record that nobody can go back to; the message says why."""


def host_record(host: str, result: Mapping[str, Any], run: Mapping[str, Any]) -> dict[str, Any]:
    """What a run leaves about a host.

    :param result: of the filter ``locality_results``.
    :param run: ``run``: its name, ``by``, ``started``, ``ended``, ``layers``: those that it brought to their plan, ``collection``: its version.
    """
    return plain({
        "version": VERSION,
        "host": host,
        **run,
        **report.host_summary(result),
        "root": result.get("root"),
        "policy": result.get("policy"),
        "chassis_expected": result.get("chassis_expected"),
        "plan": result.get("plan") or {},
    })


def load(path: str, host: str) -> dict[str, Any]:
    """The record of a host.

    :raises RecordError: there is none of that name, it is of another host, or the run did not bring the host to its plan.
    """
    try:
        with open(path, encoding="utf-8") as stream:
            found = json.load(stream)
    except FileNotFoundError:
        raise RecordError(f"there is no record {path}; {_others(os.path.dirname(path))}") from None
    except (OSError, ValueError) as error:
        raise RecordError(f"the record {path} cannot be read: {error}") from error
    if not isinstance(found, dict) or found.get("version") != VERSION or not isinstance(found.get("plan"), dict) or not isinstance(found.get("layers"), list):
        raise RecordError(f"{path} is no record of a host in the form of this version ({VERSION})")
    if found.get("host") != host:
        raise RecordError(f"the record {path} is of {found.get('host')}, wanted one of {host}")
    if found.get("outcome") not in REACHED or not found["plan"]:
        raise RecordError(f"the record {path} is of a run that did not bring the host to its plan: {report.OUTCOMES.get(str(found.get('outcome')), 'unknown')}")
    return found


def _others(folder: str) -> str:
    try:
        names = sorted(name[:-len(".json")] for name in os.listdir(folder) if name.endswith(".json"))
    except OSError:
        names = []
    return f"there are {', '.join(names[-5:])}" if names else "there is none of this host"


def differences(made: Mapping[str, Any], recorded: Mapping[str, Any]) -> list[dict[str, str]]:
    """Findings where the plan of today, made from the recorded policy, is not the recorded one: hardware, software or this collection have changed since.

    :param made: the plan of today. :param recorded: the plan of the record.
    """
    found = findings_m.Findings()
    now, then = _knobs(made), _knobs(recorded)
    # A record from before there was that layer has nothing of it.
    new = {name for name in now if name in knobs.KNOBS and knobs.KNOBS[name].layer == _OPTIONAL} if not _has_layer(recorded, _OPTIONAL) else set()
    changed = [name for name in {**then, **now} if now.get(name) != then.get(name) and name not in new]
    if made.get("version") != recorded.get("version"):
        found.error("record.version", f"the recorded plan is of version {recorded.get('version')}, this collection makes version {made.get('version')}",
                    "go back with the collection that made the record, or change the policy")
    elif changed:
        values = "; ".join(f"{name}: recorded {report.shown(then.get(name))}, now {report.shown(now.get(name))}" for name in changed)
        found.error("record.differs", f"the recorded policy gives another plan today: {values}",
                    "hardware, software or this collection have changed since: change the policy instead, or bring back what has changed")
    return found.sorted()


def _has_layer(made: Mapping[str, Any], layer: str) -> bool:
    return any(name in knobs.KNOBS and knobs.KNOBS[name].layer == layer for name in made.get("knobs") or {})


def missing(recorded: Mapping[str, Any], layers: Sequence[str], made: Mapping[str, Any]) -> list[dict[str, str]]:
    """A finding where the recorded run brought less to its plan than is to be brought now: of the rest the record says only what was planned.

    :param recorded: the record. :param layers: those that this run brings. :param made: the plan of today, made from the recorded policy.
    """
    found = findings_m.Findings()
    has = [layer for layer in report.LAYERS if layer in recorded["layers"]]
    more = [layer for layer in layers if layer not in has and (layer != _OPTIONAL or _has_layer(made, layer))]
    if more:
        found.error("record.layers", f"the run of the record brought {', '.join(has) or 'no layer'} alone to the plan, wanted {', '.join(more)} too",
                    f"go back with --tags {','.join(has)}" if has else "take the record of another run")
    return found.sorted()


def _knobs(made: Mapping[str, Any]) -> dict[str, Any]:
    # As JSON has it, since the record is.
    return {name: value for name, value in json.loads(json.dumps(plain(made.get("knobs") or {}))).items() if name not in _OF_THE_COLLECTION}


__all__ = ("REACHED", "RecordError", "VERSION", "differences", "host_record", "load", "missing")
