# Copyright (c) 2026 The inferops.locality authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Numbers of queues, with a driver on paper."""

from __future__ import annotations

import array
import errno
import struct

import pytest

from ansible_collections.inferops.locality.plugins.module_utils import nic_channels
from ansible_collections.inferops.locality.plugins.module_utils.nic_channels import Channels

MLX5 = Channels(0, 0, 0, 63, 0, 0, 0, 63)
SPLIT = Channels(8, 4, 1, 0, 8, 4, 1, 0)


class Driver:
    """Answers the ioctl as linux/ethtool.h lays it out."""

    def __init__(self, channels: tuple, error: int = 0) -> None:
        self.channels, self.error, self.names = channels, error, []

    def __call__(self, request: bytes, data: array.array) -> None:
        if self.error:
            raise OSError(self.error, "refused")
        self.names.append(request[:16].rstrip(b"\0").decode())
        assert len(request) == 40 and struct.unpack("16xP16x", request)[0] == data.buffer_info()[0]
        values = struct.unpack("=9I", data.tobytes())
        if values[0] == 0x3C:
            data[:] = array.array("B", struct.pack("=9I", 0x3C, *self.channels))
        else:
            assert values[0] == 0x3D
            self.channels = values[1:]


def test_read_and_write() -> None:
    driver = Driver((0, 0, 0, 63, 0, 0, 0, 63))
    assert nic_channels.get("eth0", driver) == MLX5
    nic_channels.put("eth0", nic_channels.wanted(MLX5, 8), driver)
    assert nic_channels.get("eth0", driver) == Channels(0, 0, 0, 63, 0, 0, 0, 8)
    assert driver.names == ["eth0"] * 3


@pytest.mark.parametrize("present, queues, expected", [
    (MLX5, 8, Channels(0, 0, 0, 63, 0, 0, 0, 8)),
    (SPLIT, 4, Channels(8, 4, 1, 0, 4, 4, 1, 0)),
    (Channels(0, 0, 1, 128, 0, 0, 1, 40), 40, Channels(0, 0, 1, 128, 0, 0, 1, 40)),
])
def test_wanted_channels(present: Channels, queues: int, expected: Channels) -> None:
    assert nic_channels.wanted(present, queues) == expected


@pytest.mark.parametrize("present, queues, most", [(MLX5, 64, 63), (SPLIT, 5, 4), (Channels(0, 0, 0, 0, 0, 0, 0, 0), 1, 0)])
def test_more_than_possible(present: Channels, queues: int, most: int) -> None:
    with pytest.raises(ValueError, match=f"{queues} queues are wanted and {most} are possible"):
        nic_channels.wanted(present, queues)


def test_driver_without_the_setting() -> None:
    assert nic_channels.get("eth0", Driver((), errno.EOPNOTSUPP)) is None
    with pytest.raises(OSError):
        nic_channels.get("eth0", Driver((), errno.ENODEV))


@pytest.mark.parametrize("name", ["", "x" * 16])
def test_name_no_interface_has(name: str) -> None:
    with pytest.raises(OSError, match="no interface"):
        nic_channels.get(name, Driver(()))
