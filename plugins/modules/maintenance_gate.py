#!/usr/bin/python
# Copyright (c) 2026 The inferops.locality authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Documentation of the action plugin of this name."""

from __future__ import annotations

DOCUMENTATION = r"""
---
module: maintenance_gate
short_description: Say whether a node may be disturbed now, and wait for it
version_added: 0.1.0
author:
  - The inferops.locality authors (@inferops)
description:
  - Works out from maintenance windows and blackouts whether a step that takes O(expected_minutes) may start now, and when the next opening is.
  - Says why it is closed and when it opens next, in the time zone of the window and in UTC.
  - A window starts at a wall-clock time and lasts its duration of real time, also when the clocks change in between. It belongs to the day it starts on,
    so a window of Saturday 22:00 for 8 hours is open on Sunday at 02:00.
  - A start in the hour that the clocks leave out in spring does not happen that day. A start in the hour they repeat in autumn happens once, the first time.
    A blackout that should start in the left-out hour starts when the clocks jump.
  - Windows that overlap or touch are one. Blackouts are taken away from them.
  - This is an action plugin. It runs on the controller and needs no connection to the node.
requirements:
  - The Python package python-dateutil on the controller, for windows with C(rrule).
  - Time zone data on the controller, from the system or the Python package tzdata.
attributes:
  check_mode:
    description: Can run in check mode and then never waits.
    support: full
  diff_mode:
    description: Returns details on what changed when run in diff mode.
    support: none
options:
  windows:
    description:
      - When nodes may be disturbed, at least one. Each has one of three forms.
      - Weekly, with C(days) (a list of V(mon) to V(sun)), C(start) (wall-clock time such as V("22:00"), quoted), C(duration) (such as V(8h), V(1h30m) or a
        number of minutes, at most 7 days) and C(timezone) (an IANA name such as V(Europe/Berlin)).
      - By rule, with C(rrule) (RFC 5545, such as V(FREQ=MONTHLY;BYDAY=1SA)) in place of C(days). Only rules that name days are taken, the time is C(start).
        Rules with INTERVAL or COUNT need C(anchor), the day to count from.
      - Absolute, with C(from) and C(until) (such as V("2026-12-05 22:00"), wall-clock time, quoted) and C(timezone).
    type: list
    elements: dict
    required: true
  blackouts:
    description:
      - When nodes may not be disturbed even inside a window. The forms of O(windows).
    type: list
    elements: dict
    default: []
  expected_minutes:
    description:
      - How long the step may take at worst. It is only started if the opening lasts that long.
    type: int
    required: true
  now:
    description:
      - Answer for this moment instead of the present one, and never wait.
      - A date and time with an offset (V("2026-10-25T03:00+01:00")) or with an IANA time zone (V("2026-10-25 03:00 Europe/Berlin")).
    type: str
  on_closed:
    description:
      - What to do when the gate is closed.
      - V(wait) waits for an opening within 12 hours, and otherwise ends with outcome V(stop).
      - V(stop) ends with outcome V(stop) and does not fail.
      - V(fail) fails.
    type: str
    choices: [wait, stop, fail]
    default: wait
"""

EXAMPLES = r"""
- name: Wait for a window
  inferops.locality.maintenance_gate:
    windows:
      - {days: [sat], start: "22:00", duration: 8h, timezone: Europe/Berlin}
      - {rrule: "FREQ=MONTHLY;BYDAY=1TU", start: "02:00", duration: 3h, timezone: Europe/Berlin}
    blackouts:
      - {from: "2026-12-18 00:00", until: "2027-01-07 00:00", timezone: Europe/Berlin}
    expected_minutes: 60
  register: gate

- name: End here if no window opens soon
  ansible.builtin.meta: end_play
  when: gate.outcome == 'stop'

- name: Ask whether it would run on Sunday at 03:00
  inferops.locality.maintenance_gate:
    windows: "{{ locality_maintenance.windows }}"
    expected_minutes: 60
    now: "2026-10-25 03:00 Europe/Berlin"
"""

RETURN = r"""
outcome:
  description:
    - V(run) if the step may start now.
    - V(wait) if it may start within 12 hours. Only returned in check mode or with O(now).
    - V(stop) if not.
  returned: success
  type: str
  sample: run
reason:
  description: Why, and when the gate opens next, for people.
  returned: success
  type: str
  sample: >-
    closed: Sat 2026-10-03 02:00 Europe/Berlin (2026-10-03 00:00 UTC) is in no window; opens Sat 2026-10-03 22:00 Europe/Berlin (2026-10-03 20:00 UTC),
    windows[0] (sat 22:00 for 8h Europe/Berlin)
opens_at:
  description: The next opening that is long enough, in the time zone of its window. Null with outcome V(run), and if there is none within 400 days.
  returned: success
  type: str
  sample: "2026-10-03T22:00:00+02:00"
opens_at_utc:
  description: The same in UTC.
  returned: success
  type: str
  sample: "2026-10-03T20:00:00Z"
closes_at:
  description: The end of the opening that is on, in the time zone of its window. Null when closed.
  returned: success
  type: str
  sample: "2026-10-04T06:00:00+02:00"
closes_at_utc:
  description: The same in UTC.
  returned: success
  type: str
  sample: "2026-10-04T04:00:00Z"
minutes_left:
  description: Minutes left in the opening that is on, rounded down. 0 when closed.
  returned: success
  type: int
  sample: 240
timezone:
  description: The time zone of the window meant.
  returned: success
  type: str
  sample: Europe/Berlin
window:
  description: The place of that window in O(windows).
  returned: success
  type: str
  sample: windows[0]
notes:
  description: Starts that the clock change of the next 31 days leaves out.
  returned: success
  type: list
  elements: str
  sample: []
waited_minutes:
  description: How long this task has waited.
  returned: success
  type: int
  sample: 0
errors:
  description: Everything that is wrong with the arguments.
  returned: when arguments are wrong
  type: list
  elements: str
  sample: ["windows[0].timezone: 'Europe/Berln' is not a known time zone; did you mean 'Europe/Berlin'?"]
"""
