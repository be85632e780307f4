# Copyright (c) 2026 The inferops.locality authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import re

import pytest

from ansible_collections.inferops.locality.plugins.module_utils import boot, knobs

LAYERS = ("host", "irq", "pcie", "kubelet", "network", "dra")


@pytest.mark.parametrize("knob", knobs.KNOBS.values(), ids=lambda knob: knob.id)
def test_every_entry_is_whole(knob: knobs.Knob) -> None:
    assert re.fullmatch(r"[a-z]+\.[a-z0-9_]+|irqbalance", knob.id)
    assert knob.layer in LAYERS
    assert knob.needs in knobs.NEEDS
    assert knob.klass in ("managed", "reported")
    assert knob.sides and set(knob.sides) <= {"running", "configured"}
    assert knob.text and knob.source
    assert bool(knob.writer) == (knob.klass == "managed")
    assert all(file.startswith("/") for file in knob.files)
    assert not (knob.api and knob.files)


def test_files_of_ours_are_named_after_us() -> None:
    shared = {knobs.FILE_TUNED_ACTIVE, knobs.FILE_TUNED_MODE, knobs.FILE_IRQBALANCE_MASK}
    for knob in knobs.KNOBS.values():
        for file in set(knob.files) - shared:
            assert knobs.OWNER in file


def test_every_boot_loader_that_is_written_has_its_files() -> None:
    assert set(knobs.BOOT_FILES) == {loader.kind for loader in (boot.GrubDropIn, boot.GrubDefault, boot.Bls)}
    assert all(files and how for files, how in knobs.BOOT_FILES.values())
