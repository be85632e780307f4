# Copyright (c) 2026 The inferops.locality authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""DRANET's own chart, which its Go module has."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

VERSION = "v1.4.0"


def chart() -> Path:
    """The folder of the chart.

    :raises OSError: there is no Go, or its module proxy does not have it.
    """
    told = subprocess.run(["go", "mod", "download", "-json", f"sigs.k8s.io/dranet@{VERSION}"], cwd="/", check=False, capture_output=True, text=True)
    folder = json.loads(told.stdout or "{}").get("Dir") if told.returncode == 0 else None
    if not folder:
        raise OSError(f"DRANET's source is not had: {told.stdout[-200:]}{told.stderr[-200:]}")
    return Path(folder) / "deployments" / "helm" / "dranet"
