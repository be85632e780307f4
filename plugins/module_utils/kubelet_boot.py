# Copyright (c) 2026 The inferops.locality authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Before the kubelet's first start of a boot: take checkpoint files away with which it would not start, as no container is alive that they could hurt.

The totals of NUMA nodes can move at any reboot, and a Static memory manager does not start when they did (kubernetes/kubernetes 131253, 109996). What a
CPU or a DIMM that is gone does to the files is mended too. What is wanted is RKE2's configuration as it is now.
"""

from __future__ import annotations

from typing import List, Tuple

from ansible_collections.inferops.locality.plugins.module_utils import irq, kubelet_cpu_state, kubelet_live
from ansible_collections.inferops.locality.plugins.module_utils.node_files import FilesError
from ansible_collections.inferops.locality.plugins.module_utils.sysroot import SysRoot

# Gone after a reboot, so its being there means that this boot was looked at.
MARK = "/run/inferops-locality/kubelet-state"


def before_first_start(sysroot: SysRoot, check: bool = False) -> Tuple[bool, bool, List[str]]:
    """Look at the checkpoint files once in a boot.

    Nothing is done while a kubelet runs or a container of any pod is alive, or where that cannot be told.

    :param check: say what would be done and do nothing.
    :returns: whether all is well as far as this can tell, whether something was removed, and what there is to say.
    """
    if sysroot.exists(MARK):
        return True, False, ["this boot was looked at already: nothing to do"]
    process = kubelet_live.kubelet_process(sysroot)
    if process is not None:
        return True, False, [f"the kubelet runs (process {process}): nothing to do"]
    alive = kubelet_live.containers(sysroot)
    if alive is None:
        return True, False, ["whether containers are alive cannot be told (no cgroup v2): checkpoint files are left alone"]
    if alive:
        return True, False, [f"this is no first start, {len(alive)} containers are alive (the first is {alive[0].cgroup}): checkpoint files are left alone"]
    found = kubelet_cpu_state.look(sysroot)
    gone = {item["file"] for item in found.prediction.remove}
    lines = list(found.prediction.reasons)
    good, removed = found.prediction.starts is not False, False
    try:
        files = kubelet_cpu_state.removal(sysroot, found)
        if gone and not check:
            kubelet_cpu_state.remove(sysroot, found, files)
            removed = True
            lines += [f"{file} is removed" for file in sorted(gone)] + [f"{path} is its copy" for path in kubelet_cpu_state.saved(files)]
            good = not found.prediction.configuration
        elif gone:
            lines += [f"{file} would be removed" for file in sorted(gone)]
        if not check:
            irq.store(sysroot, MARK, "")
    except (FilesError, kubelet_cpu_state.CheckpointError) as error:
        return False, False, [*lines, str(error)]
    except OSError as error:
        lines.append(f"{MARK} cannot be written, the next start is looked at too: {error.strerror}")
    return good, removed, lines or ["the kubelet would start with its checkpoint files: nothing to do"]


__all__ = ("MARK", "before_first_start")
