# Copyright (c) 2026 The inferops.locality authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Number of queues of a network interface, by the ioctl behind ``ethtool -l`` and ``-L`` (linux/ethtool.h).

The program that acts at boot needs it where no ethtool is installed.
"""

from __future__ import annotations

import array
import errno
import fcntl
import re
import socket
import struct
from dataclasses import dataclass, replace
from typing import Callable, Optional

_SIOCETHTOOL = 0x8946
_GET, _SET = 0x3C, 0x3D
_CHANNELS = struct.Struct("=9I")

Ioctl = Callable[[bytes, "array.array[int]"], None]


@dataclass(frozen=True)
class Channels:
    """Channels of an interface: the most it can have, and what it has. ``combined`` ones do both directions."""

    max_rx: int
    max_tx: int
    max_other: int
    max_combined: int
    rx: int
    tx: int
    other: int
    combined: int


def _kernel(request: bytes, data: "array.array[int]") -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        fcntl.ioctl(sock.fileno(), _SIOCETHTOOL, request)


def _call(interface: str, data: "array.array[int]", ioctl: Ioctl) -> None:
    name = interface.encode("ascii", "replace")
    if not 0 < len(name) < 16:
        raise OSError(errno.ENODEV, "no interface has such a name")
    # struct ifreq: the name, then a pointer to the data, in 40 bytes on 64-bit machines
    ioctl(struct.pack("16sP16x", name, data.buffer_info()[0]), data)


def get(interface: str, ioctl: Ioctl = _kernel) -> Optional[Channels]:
    """Channels of an interface; None where its driver has no such setting.

    :raises OSError: the interface is not there, or the kernel refuses.
    """
    data = array.array("B", _CHANNELS.pack(_GET, *[0] * 8))
    try:
        _call(interface, data, ioctl)
    except OSError as error:
        if error.errno in (errno.EOPNOTSUPP, errno.EPERM):
            return None
        raise
    return Channels(*_CHANNELS.unpack(data.tobytes())[1:])


_LINES = re.compile(r"^(RX|TX|Other|Combined):\s+(\d+|n/a)\s*$", re.MULTILINE)


def parse(text: str) -> Optional[Channels]:
    """Channels as ``ethtool -l`` prints them; None where it printed none. What it does not know of a driver is 0."""
    found = [0 if value == "n/a" else int(value) for _name, value in _LINES.findall(text)]
    return Channels(*found) if len(found) == 8 else None


def most(present: Channels) -> int:
    """How many queues the interface can have."""
    return present.max_combined or min(present.max_rx, present.max_tx)


def wanted(present: Channels, queues: int) -> Channels:
    """The channels with this number of queues: combined ones where the driver has them, else receive and transmit.

    :raises ValueError: the interface cannot have as many.
    """
    if queues > most(present):
        raise ValueError(f"{queues} queues are wanted and {most(present)} are possible")
    if present.max_combined:
        return replace(present, combined=queues, rx=0 if present.rx and present.combined == 0 else present.rx)
    return replace(present, rx=queues, tx=queues)


def with_counts(present: Channels, received: int, sent: int, combined: int) -> Channels:
    """The channels with these numbers, such as they were once."""
    return replace(present, rx=received, tx=sent, combined=combined)


def put(interface: str, channels: Channels, ioctl: Ioctl = _kernel) -> None:
    """Set the channels of an interface. Drivers reset the interface for it; interrupts may get new numbers.

    :raises OSError: the kernel refuses.
    """
    values = (channels.max_rx, channels.max_tx, channels.max_other, channels.max_combined, channels.rx, channels.tx, channels.other, channels.combined)
    _call(interface, array.array("B", _CHANNELS.pack(_SET, *values)), ioctl)


__all__ = ("Channels", "get", "most", "parse", "put", "wanted", "with_counts")
