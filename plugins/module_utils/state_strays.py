# Copyright (c) 2026 The inferops.locality authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What stands in files of this collection and is none of its settings: somebody added it, and it goes when the file is written again.

Names only: nobody knows what a value of somebody else's is. A snapshot keeps sysctls and writes of tmpfiles.d, and of units what a knob reads.
The boot loader's files are judged by kernel_args, the interrupt layer's units by their checksums.
"""

from __future__ import annotations

from typing import Any, Dict, FrozenSet, List, Mapping, Optional, Tuple

from ansible_collections.inferops.locality.plugins.module_utils import knobs
from ansible_collections.inferops.locality.plugins.module_utils.rke2_config import Rke2Config
from ansible_collections.inferops.locality.plugins.module_utils.state_files import (
    Setting, Write, ini_settings, sysctl_names, tmpfiles_targets, written,
)
from ansible_collections.inferops.locality.plugins.module_utils.state_knobs import KUBELET_FLAGS, SYSCTLS, WRITTEN
from ansible_collections.inferops.locality.plugins.module_utils.sysroot import SysRoot

_INI: Mapping[str, FrozenSet[Tuple[str, str]]] = {
    **{path: frozenset((("Slice", "AllowedCPUs"), ("Scope", "AllowedCPUs"))) for path in knobs.FILES_SLICES},
    **{path: frozenset((("Service", "LimitMEMLOCK"),)) for path in knobs.FILES_MEMLOCK},
    knobs.FILE_IRQBALANCE: frozenset((("Service", "Environment"),)),
}
_KUBELET_KEYS = ("kubelet-arg+", "node-label+", "node-taint+")
_TUNED = frozenset((("main", "summary"), ("main", "include"), ("cpu", "governor")))


def read_strays(sysroot: SysRoot, config: Rke2Config, profile_dir: Optional[str]) -> List[Dict[str, Any]]:
    """``{"file", "line", "name"}`` in the order of the files; ``line`` is None where only the file is known.

    :param profile_dir: where tuned's own profiles lie; None where it is not installed.
    """
    found = [(knobs.FILE_SYSCTL, line, key) for line, key in sysctl_names(sysroot, knobs.FILE_SYSCTL) if key not in SYSCTLS.values()]
    found += [(knobs.FILE_TMPFILES, line, path) for line, kind, path in tmpfiles_targets(sysroot, knobs.FILE_TMPFILES) if not _is_written(kind, path)]
    inis = {**_INI, **({f"{profile_dir}/{knobs.TUNED_PROFILE}/tuned.conf": _TUNED} if profile_dir is not None else {})}
    for file, known in inis.items():
        found += [(file, item.line, f"[{section}] {key}") for section, key, item in ini_settings(sysroot, file) if (section, key) not in known]
    found += [
        (arg.file, arg.line, f"kubelet-arg {arg.flag}") for arg in config.kubelet_args if arg.file == knobs.FILE_KUBELET and arg.flag not in KUBELET_FLAGS
    ]
    strays: List[Dict[str, Any]] = [{"file": file, "line": line, "name": name} for file, line, name in found]
    for entry in config.files:
        keys = entry["keys"] if entry["file"] == knobs.FILE_KUBELET else []
        if isinstance(keys, list):
            strays += [{"file": entry["file"], "line": None, "name": str(key)} for key in keys if key not in _KUBELET_KEYS]
    return strays


def _is_written(kind: str, path: str) -> bool:
    return kind.startswith("w") and any(written([Write(path, Setting("", path, 0), False)], target) for target in WRITTEN)


__all__ = ("read_strays",)
