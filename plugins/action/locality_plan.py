# Copyright (c) 2026 The inferops.locality authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Plan a node on the controller; documented in plugins/modules/locality_plan.py."""

from __future__ import annotations

from typing import Any, Dict, Optional

from ansible.plugins.action import ActionBase

from ansible_collections.inferops.locality.plugins.module_utils import findings, plan
from ansible_collections.inferops.locality.plugins.plugin_utils import record, report, runtime
from ansible_collections.inferops.locality.plugins.plugin_utils.plain import plain

# Of the mappings only the presence is checked here: what is wrong in them the logic says better.
ARGUMENTS = {
    "topology": {"type": "raw", "required": True},
    "platform": {"type": "raw", "required": True},
    "policy": {"type": "raw", "default": {}},
    "chassis": {"type": "raw"},
    "cilium": {"type": "raw"},
    "record": {"type": "path"},
    "layers": {"type": "list", "elements": "str", "choices": list(report.LAYERS), "default": list(report.LAYERS)},
    "fail": {"type": "bool", "default": True},
}


class ActionModule(ActionBase):
    """Runs without a connection and changes nothing, in check mode too."""

    TRANSFERS_FILES = False
    _requires_connection = False
    _supports_check_mode = True
    _supports_diff = False

    def run(self, tmp: Optional[str] = None, task_vars: Optional[Dict[str, Any]] = None) -> Dict[str, Any]:
        """Returns the plan; fails with all errors at once where asked to."""
        result: Dict[str, Any] = super().run(tmp, task_vars)
        _checked, arguments = self.validate_argument_spec(argument_spec=ARGUMENTS)
        arguments = plain(arguments)
        host = str((task_vars or {}).get("inventory_hostname", "this host"))
        result["changed"] = False
        recorded: Dict[str, Any] = {}
        try:
            if arguments["record"]:
                recorded = record.load(arguments["record"], host)
                arguments.update(policy=recorded["policy"], chassis=recorded["chassis_expected"])
            made = plan.make_plan(
                arguments["topology"], arguments["platform"], arguments["policy"], arguments["chassis"], runtime.version(), arguments["cilium"],
            )
        except (plan.PlanError, record.RecordError) as error:
            result.update(failed=True, msg=f"{host}: cannot be planned: {error}")
            return result
        if recorded:
            made["findings"] += record.missing(recorded, arguments["layers"], made) + record.differences(made, recorded["plan"])
        result.update(policy=arguments["policy"], chassis=arguments["chassis"])
        result["plan"] = made
        errors = findings.errors(made["findings"])
        if errors and arguments["fail"]:
            result.update(failed=True, msg=f"{host}: the plan has {len(errors)} error{'s' if len(errors) > 1 else ''}\n{findings.listed(errors)}")
        return result
