# Copyright (c) 2026 The inferops.locality authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Compare a node with its plan on the controller; documented in plugins/modules/locality_drift.py."""

from __future__ import annotations

from typing import Any, Dict, Optional

from ansible.plugins.action import ActionBase

from ansible_collections.inferops.locality.plugins.module_utils import drift, findings
from ansible_collections.inferops.locality.plugins.plugin_utils.plain import plain

# Of the mappings only the presence is checked here: what is wrong in them the logic says better.
ARGUMENTS = {
    "plan": {"type": "raw", "required": True},
    "state": {"type": "raw", "required": True},
    "cluster_state": {"type": "raw"},
    "kubelet_running": {"type": "raw"},
    "adopt": {"type": "bool", "default": False},
    "live": {"type": "bool", "default": True},
    "fail": {"type": "bool", "default": False},
}


class ActionModule(ActionBase):
    """Runs without a connection and changes nothing, in check mode too."""

    TRANSFERS_FILES = False
    _requires_connection = False
    _supports_check_mode = True
    _supports_diff = False

    def run(self, tmp: Optional[str] = None, task_vars: Optional[Dict[str, Any]] = None) -> Dict[str, Any]:
        """Returns entries, summary and findings; fails with all of them at once where asked to."""
        result: Dict[str, Any] = super().run(tmp, task_vars)
        _checked, arguments = self.validate_argument_spec(argument_spec=ARGUMENTS)
        arguments = plain(arguments)
        host = str((task_vars or {}).get("inventory_hostname", "this host"))
        result["changed"] = False
        try:
            report = drift.compare(
                arguments["plan"], arguments["state"], arguments["cluster_state"], adopt=arguments["adopt"], live=arguments["live"],
                kubelet_running=arguments["kubelet_running"],
            )
        except drift.DriftError as error:
            result.update(failed=True, msg=f"{host}: cannot be compared: {error}")
            return result
        result.update(report)
        if not arguments["fail"]:
            return result
        errors = findings.errors(report["findings"])
        drifted = [entry for entry in report["entries"] if entry["class"] == "managed" and not entry["in_sync"]]
        if errors or drifted:
            lines = [findings.listed(errors)] if errors else []
            lines += [f"- {entry['knob']}: {entry['reason']} (needs: {entry['needs']})" for entry in drifted]
            result.update(failed=True, msg=f"{host}: errors {len(errors)}, drifting knobs {len(drifted)}\n" + "\n".join(lines))
        return result
