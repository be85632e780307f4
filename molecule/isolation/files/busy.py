# Copyright (c) 2026 The inferops.locality authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Four busy threads that leave it to the scheduler where they run, and end when they are told to."""

from __future__ import annotations

import hashlib
import signal
import threading

for _number in range(4):
    # One call of hours, without Python's lock.
    threading.Thread(target=hashlib.pbkdf2_hmac, args=("sha256", b"a", b"b", 2**31 - 1), daemon=True).start()
signal.pause()
