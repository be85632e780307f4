# Copyright (c) 2026 The inferops.locality authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Where DRANET's chart, helm and kubernetes.core are: ``{chart, bin, collections}``, made or fetched where they are not there."""

import json
import subprocess
import sys
from pathlib import Path

TOP = Path(__file__).resolve().parents[3]
sys.path[:0] = [str(TOP / "tests" / "cluster"), str(TOP / "tests" / "lab")]

from controlplane import binaries  # noqa: E402
from dranet_chart import chart  # noqa: E402

try:
    found = {"chart": chart(), "bin": binaries.programs(["helm"])["helm"].parent, "collections": binaries.collections()}
except (binaries.ClusterError, subprocess.CalledProcessError, OSError) as error:
    sys.exit(str(error))
print(json.dumps({name: str(path) for name, path in found.items()}))
