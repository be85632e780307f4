# Copyright (c) 2026 The inferops.locality authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Files of the controller that are there as a whole or not at all."""

from __future__ import annotations

import os
import tempfile


def write(path: str, content: bytes, mode: int = 0o600) -> None:
    """Write beside the file and rename over it; after a failure nothing is left beside it.

    :raises OSError: it cannot be written.
    """
    handle, aside = tempfile.mkstemp(dir=os.path.dirname(path) or ".", prefix=".locality-")
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(content)
        os.chmod(aside, mode)
        os.replace(aside, path)
    except BaseException:
        os.unlink(aside)
        raise


__all__ = ("write",)
