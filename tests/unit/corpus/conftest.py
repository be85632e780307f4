# Copyright (c) 2026 The inferops.locality authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Unpacks each tarball of the corpus once a run."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import Callable, Generator

import pytest

from ansible_collections.inferops.locality.tests.unit.corpus.machines import Machine, unpack


@pytest.fixture(scope="session")
def machines() -> Generator[Callable[[Path], list[Machine]], None, None]:
    """Gives the machines in a tarball. Pytest keeps the folders of three runs; these trees are too large for that."""
    known: dict[Path, list[Path]] = {}
    folder = Path(tempfile.mkdtemp(prefix="locality-corpus-"))

    def get(tarball: Path) -> list[Machine]:
        if tarball not in known:
            known[tarball] = unpack(tarball, folder / str(len(known)))
        return [Machine.at(root) for root in known[tarball]]

    yield get
    shutil.rmtree(folder)
