# Copyright (c) 2026 The inferops.locality authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs modules of the collection on a lab node: a line ``{"module": name, "args": {…}}`` comes in, a line with the module's own result goes out.

It is one process for all of them: a Python that starts and imports Ansible takes ten seconds on an emulated node.
"""

from __future__ import annotations

import contextlib
import importlib
import io
import json
import sys
import traceback
from typing import Any, Dict

from ansible.module_utils.testing import patch_module_args  # lies beside this file on the node, as does the collection

PACKAGE = "ansible_collections.inferops.locality.plugins.modules"


def run(name: str, args: Dict[str, Any]) -> Dict[str, Any]:
    """What the module printed when it ended."""
    out = io.StringIO()
    try:
        with patch_module_args(args), contextlib.redirect_stdout(out):
            importlib.import_module(f"{PACKAGE}.{name}").main()
    except SystemExit:
        pass
    except Exception:
        return {"failed": True, "msg": traceback.format_exc()}
    result: Dict[str, Any] = json.loads(out.getvalue())
    return result


if __name__ == "__main__":
    for line in sys.stdin:
        asked = json.loads(line)
        print(json.dumps(run(asked["module"], asked["args"])), flush=True)
