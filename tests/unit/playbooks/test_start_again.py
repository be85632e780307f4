# Copyright (c) 2026 The inferops.locality authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A node that failed, and on which RKE2 does not start again either, says both; the run goes on to its summary."""

from __future__ import annotations

from pathlib import Path

import yaml

from ansible_collections.inferops.locality.tests.unit import playing


def test_both_failures_are_told(tmp_path: Path) -> None:
    book = tmp_path / "book.yml"
    book.write_text(yaml.safe_dump([{
        "hosts": "localhost", "gather_facts": False,
        # Fails before it comes to systemd, which this test has no business with.
        "vars": {"rke2_kubelet_unit": "{{ nobody_set_this }}"},
        "tasks": [
            {"block": [{"ansible.builtin.fail": {"msg": "the first failure"}}], "rescue": [
                {"ansible.builtin.set_fact": {"site_failure": "Write: the first failure"}},
                {"ansible.builtin.include_tasks": {"file": str(playing.TOP / "playbooks/tasks/start_again.yml"), "apply": {"tags": ["always"]}}},
            ]},
            {"ansible.builtin.debug": {"msg": "told [{{ site_failure }}]"}},
        ],
    }]), encoding="utf-8")
    run = playing.play(str(book.with_suffix("")), inventory=None)
    assert run.rc == 0, run.text
    assert "told [Write: the first failure; and RKE2 stays stopped: " in run.out and "nobody_set_this" in run.out.split("told [")[1]
