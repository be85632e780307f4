# Copyright (c) 2026 The inferops.locality authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Maintenance windows: when may a node be disturbed?

A window is weekly (``days``, ``start``, ``duration``), by RRULE (``rrule``, ``start``, ``duration``) or absolute (``from``, ``until``), each with an
IANA ``timezone``. Blackouts have the same forms and are taken away from the windows; windows that touch or overlap are one.

* A recurring window starts at a wall-clock time and lasts its duration of real time, also when the clocks change in between.
* It belongs to the day it starts on, whichever day it ends on.
* A start in the hour the clocks leave out does not happen that day; a start in the hour they repeat happens once, the first time. A *blackout*
  that should start in the left-out hour starts when the clocks jump: in doubt the node is left alone.
* Opening and closing are half open: at the second a window ends it is closed.

Nothing is polled: :func:`evaluate` computes all openings of the next 400 days and answers from them.
"""

from __future__ import annotations

import datetime as dt
import difflib
import re
import zoneinfo
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

__all__ = ["HORIZON", "MAX_WAIT", "WindowError", "evaluate", "parse_now"]

HORIZON = dt.timedelta(days=400)
MAX_WAIT = dt.timedelta(hours=12)
MAX_DURATION_MINUTES = 7 * 24 * 60
# Far enough from the ends of the calendar that no conversion can leave it.
MIN_YEAR, MAX_YEAR = 1971, 9000

UTC = dt.timezone.utc
DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
LONG_DAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")

# What must be looked at around the horizon so that no window or blackout that reaches into it is missed.
_MARGIN = dt.timedelta(days=10)

_FORMS = {
    "weekly": ("days", "start", "duration", "timezone"),
    "rrule": ("rrule", "start", "duration", "timezone", "anchor"),
    "absolute": ("from", "until", "timezone"),
}
_OPTIONAL = ("anchor",)
_OTHER_NAMES = {
    "tz": "timezone",
    "zone": "timezone",
    "time_zone": "timezone",
    "day": "days",
    "weekday": "days",
    "weekdays": "days",
    "length": "duration",
    "minutes": "duration",
    "to": "until",
    "since": "from",
    "rule": "rrule",
    "dtstart": "anchor",
}


class WindowError(ValueError):
    """Windows that cannot be used. ``errors`` holds one text for each mistake, with key and value."""

    def __init__(self, errors: Sequence[str]):
        self.errors = list(errors)
        super().__init__("; ".join(self.errors))


@dataclass(frozen=True)
class Rule:
    """One window or blackout, checked."""

    label: str
    text: str
    zone: zoneinfo.ZoneInfo
    minutes: int = 0
    start: dt.time = dt.time()
    weekdays: frozenset[int] = frozenset()
    rrule: Mapping[str, str] | None = None
    anchor: dt.date | None = None
    absolute: tuple[dt.datetime, dt.datetime] | None = None  # UTC

    def __str__(self) -> str:
        return f"{self.label} ({self.text})"


@dataclass(frozen=True)
class Span:
    """A stretch of time, in UTC, end excluded."""

    start: dt.datetime
    end: dt.datetime
    rule: Rule | None = field(default=None, compare=False)


# --- reading what the operator wrote ----------------------------------------------------------------------------------------


# Files of the zone database that name no place: each machine's own choice, a template of rules, and "not set up yet".
_NO_ZONES = frozenset(("localtime", "posixrules", "Factory"))


@lru_cache(maxsize=1)
def _zone_names() -> Mapping[str, str]:
    """Lower-case name to name of every zone this controller knows."""
    return {name.lower(): name for name in sorted(zoneinfo.available_timezones()) if name.rpartition("/")[2] not in _NO_ZONES}


def _nearest(word: str, known: Iterable[str]) -> str:
    known = list(known)
    lower = {name.lower(): name for name in known}
    found = difflib.get_close_matches(word.lower(), lower, n=1, cutoff=0.6)
    if not found:
        # A city alone: Berlin, not Europe/Berlin.
        found = [name for name in lower if name.rpartition("/")[2] == word.lower()][:1]
    return f"; did you mean '{lower[found[0]]}'?" if found else ""


def _show(value: Any) -> str:
    """A value as it may be shown in a message."""
    text = f"'{value}'" if isinstance(value, str) else str(value)
    return text if len(text) <= 80 else text[:77] + "..."


class _Reader:
    """Reads the keys of one window and collects what is wrong with them."""

    def __init__(self, label: str, raw: Any):
        self.label = label
        self.raw = raw
        self.errors: list[str] = []

    def error(self, key: str, reason: str) -> None:
        self.errors.append(f"{self.label}{'.' + key if key else ''}: {reason}")

    def zone(self) -> zoneinfo.ZoneInfo | None:
        value = self.raw.get("timezone")
        if not isinstance(value, str) or not value:
            self.error("timezone", f"{_show(value)} is not the name of a time zone, such as 'Europe/Berlin' or 'UTC'")
            return None
        names = _zone_names()
        if not names:
            self.error("timezone", "this controller has no time zone data: install the package tzdata (system or Python)")
            return None
        known = names.get(value.lower())
        if known != value:
            self.error("timezone", f"{_show(value)} is not a known time zone{_nearest(value, names.values())}")
            return None
        return zoneinfo.ZoneInfo(known)

    def start(self) -> dt.time | None:
        value = self.raw.get("start")
        if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1440:
            # YAML 1.1 reads 22:00 as a number to the base of 60.
            self.error("start", f"{value} is a number; quote the time in YAML: \"{value // 60:02d}:{value % 60:02d}\"")
            return None
        match = re.fullmatch(r"([0-9]{1,2}):([0-9]{2})", value) if isinstance(value, str) else None
        if not match or int(match.group(1)) > 23 or int(match.group(2)) > 59:
            self.error("start", f"{_show(value)} is not a time from 00:00 to 23:59")
            return None
        return dt.time(int(match.group(1)), int(match.group(2)))

    def minutes(self) -> int | None:
        value = self.raw.get("duration")
        minutes: int | None = None
        if isinstance(value, int) and not isinstance(value, bool):
            minutes = value
        elif isinstance(value, str):
            match = re.fullmatch(r"(?:([0-9]{1,5})d)?\s*(?:([0-9]{1,5})h)?\s*(?:([0-9]{1,5})(?:m|min)?)?", value.strip())
            if match and value.strip():
                days, hours, rest = (int(part or 0) for part in match.groups())
                minutes = days * 1440 + hours * 60 + rest
        if minutes is None:
            self.error("duration", f"{_show(value)} is not a duration such as '8h', '1h30m', '90m' or a number of minutes")
        elif minutes <= 0:
            self.error("duration", f"{_show(value)} is not longer than 0 minutes")
        elif minutes > MAX_DURATION_MINUTES:
            self.error("duration", f"{_show(value)} is longer than 7 days")
        else:
            return minutes
        return None

    def days(self) -> frozenset[int] | None:
        value = self.raw.get("days")
        if isinstance(value, str):
            self.error("days", f"{_show(value)} is not a list; write [{value}]")
            return None
        if not isinstance(value, Sequence):
            self.error("days", f"{_show(value)} is not a list of days")
            return None
        if not value:
            self.error("days", f"the list is empty, so the window would never open; for any day write [{', '.join(DAYS)}]")
            return None
        found = set()
        for item in value:
            word = item.strip().lower() if isinstance(item, str) else None
            if word in DAYS:
                found.add(DAYS.index(word))
            elif word in LONG_DAYS:
                found.add(LONG_DAYS.index(word))
            else:
                hint = _nearest(word, DAYS + LONG_DAYS) if word else ""
                self.error("days", f"{_show(item)} is not one of {', '.join(DAYS)}{hint}")
        return frozenset(found)

    def date(self, key: str) -> dt.date | None:
        value = self.raw.get(key)
        if isinstance(value, dt.date) and not isinstance(value, dt.datetime):
            return dt.date(value.year, value.month, value.day)
        try:
            if isinstance(value, str) and len(value) == 10:
                return dt.date.fromisoformat(value)
        except ValueError:
            pass
        self.error(key, f"{_show(value)} is not a date such as '2026-01-31'")
        return None

    def moment(self, key: str, zone: zoneinfo.ZoneInfo | None) -> dt.datetime | None:
        """A wall-clock date and time in the window's zone, as UTC; in a repeated hour the first."""
        value = self.raw.get(key)
        local: dt.datetime | None = None
        if isinstance(value, dt.datetime):
            local = dt.datetime.combine(value.date(), value.time(), value.tzinfo)
        elif isinstance(value, str) and re.match(r"[0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9]{2}:[0-9]{2}", value):
            try:
                local = dt.datetime.fromisoformat(value)
            except ValueError:
                local = None
        if local is None:
            self.error(key, f"{_show(value)} is not a date and time such as '2026-01-31 22:00'")
            return None
        if local.tzinfo is not None:
            self.error(key, f"{_show(value)} has an offset of its own; write the wall-clock time of 'timezone' (which may be UTC)")
            return None
        if not MIN_YEAR <= local.year <= MAX_YEAR:
            self.error(key, f"{_show(value)} is not between the years {MIN_YEAR} and {MAX_YEAR}")
            return None
        if zone is None:
            return None
        found = _to_utc(local, zone)
        if found is None:
            self.error(key, f"{_show(value)} does not exist in {zone.key}: the clocks go forward over it")
        return found

    def rrule(self) -> Mapping[str, str] | None:
        value = self.raw.get("rrule")
        if not isinstance(value, str) or not value.strip():
            self.error("rrule", f"{_show(value)} is not a rule such as 'FREQ=MONTHLY;BYDAY=1SA'")
            return None
        reasons, parts = _read_rrule(value, has_anchor="anchor" in self.raw)
        for reason in reasons:
            self.error("rrule", f"{_show(value)}: {reason}")
        return None if reasons else parts

    def read(self) -> Rule | None:
        if not isinstance(self.raw, Mapping):
            self.error("", f"{_show(self.raw)} is not a mapping with days, rrule or from")
            return None
        keys = [str(key) for key in self.raw]
        form = "rrule" if "rrule" in keys else "absolute" if {"from", "until"} & set(keys) and "days" not in keys else "weekly"
        self._check_keys(keys, form)
        zone = self.zone() if "timezone" in keys else None
        if form == "absolute":
            first = self.moment("from", zone) if "from" in keys else None
            last = self.moment("until", zone) if "until" in keys else None
            if first and last and first >= last:
                same = "and until are the same moment" if first == last else "is not before until"
                self.error("from", f"{_show(self.raw['from'])} {same}, {_show(self.raw['until'])}")
            if self.errors or not zone or not first or not last:
                return None
            text = f"{_local(first, zone)} to {_local(last, zone)} {zone.key}"
            return Rule(self.label, text, zone, absolute=(first, last))
        start = self.start() if "start" in keys else None
        minutes = self.minutes() if "duration" in keys else None
        weekdays = self.days() if form == "weekly" and "days" in keys else frozenset()
        parts = self.rrule() if form == "rrule" else None
        anchor = self.date("anchor") if form == "rrule" and "anchor" in keys else None
        if self.errors or not zone or start is None or not minutes or weekdays is None:
            return None
        what = ";".join(f"{key}={value}" for key, value in parts.items()) if parts else ",".join(DAYS[day] for day in sorted(weekdays))
        text = f"{what} {start:%H:%M} for {_length(minutes)} {zone.key}"
        return Rule(self.label, text, zone, minutes, start, weekdays, parts, anchor)

    def _check_keys(self, keys: Sequence[str], form: str) -> None:
        known = _FORMS[form]
        for key in keys:
            if key in known:
                continue
            if key == "end":
                self.error(key, "not a key: a window has a start and a duration (the same start and end could mean nothing or a whole day)")
            elif any(key in others for others in _FORMS.values()):
                self.error(key, f"does not go with '{known[0]}': such a window has {', '.join(known)}")
            else:
                hint = f"; did you mean '{_OTHER_NAMES[key]}'?" if key in _OTHER_NAMES else _nearest(key, known)
                self.error(key, f"unknown key{hint}")
        missing = [key for key in known if key not in keys and key not in _OPTIONAL]
        if form == "weekly" and "days" in missing and len(missing) == len(known):
            self.error("", "neither days nor rrule nor from is given")
        else:
            for key in missing:
                self.error(key, "is missing" + (": name the IANA time zone the times are meant in" if key == "timezone" else ""))


_FREQUENCIES = ("DAILY", "WEEKLY", "MONTHLY", "YEARLY")
_RRULE_PARTS = {
    "FREQ": r"[A-Z]+",
    "INTERVAL": r"[1-9][0-9]{0,3}",
    "COUNT": r"[1-9][0-9]{0,4}",
    "UNTIL": r"[0-9]{8}(?:T[0-9]{6}Z?)?",
    "WKST": r"(?:MO|TU|WE|TH|FR|SA|SU)",
    "BYDAY": r"[+-]?[0-9]{0,2}(?:MO|TU|WE|TH|FR|SA|SU)",
    "BYMONTHDAY": r"[+-]?[0-9]{1,2}",
    "BYYEARDAY": r"[+-]?[0-9]{1,3}",
    "BYWEEKNO": r"[+-]?[0-9]{1,2}",
    "BYMONTH": r"[0-9]{1,2}",
    "BYSETPOS": r"[+-]?[0-9]{1,3}",
}
_RRULE_LIMITS = {"BYMONTHDAY": 31, "BYYEARDAY": 366, "BYWEEKNO": 53, "BYMONTH": 12, "BYSETPOS": 366}
# RFC 5545, table in 3.3.10: where a part has no meaning.
_RRULE_NOT_IN = {
    "BYMONTHDAY": ("WEEKLY",),
    "BYYEARDAY": ("DAILY", "WEEKLY", "MONTHLY"),
    "BYWEEKNO": ("DAILY", "WEEKLY", "MONTHLY"),
}


def _read_rrule(text: str, has_anchor: bool) -> tuple[list[str], dict[str, str]]:
    """(what is wrong, parts) of an RRULE of RFC 5545, restricted to rules that name days."""
    reasons: list[str] = []
    parts: dict[str, str] = {}
    body = text.strip().upper()
    body = body[len("RRULE:") :] if body.startswith("RRULE:") else body
    for piece in filter(None, body.split(";")):
        key, equals, value = (part.strip() for part in piece.partition("="))
        if key in ("BYHOUR", "BYMINUTE", "BYSECOND"):
            reasons.append(f"{key} is not taken: the time of day is 'start'")
        elif key.startswith("DTSTART"):
            reasons.append("DTSTART is not taken: the first day to count from is 'anchor'")
        elif not equals or key not in _RRULE_PARTS:
            reasons.append(f"'{key}' is not a part of a rule{_nearest(key, _RRULE_PARTS)}")
        elif key in parts:
            reasons.append(f"{key} is given twice")
        else:
            parts[key] = value
            single = not key.startswith("BY")
            for item in [value] if single else value.split(","):
                if not re.fullmatch(_RRULE_PARTS[key], item) or (key in _RRULE_LIMITS and not 1 <= abs(int(item)) <= _RRULE_LIMITS[key]):
                    reasons.append(f"{key} cannot be '{item}'")
    frequency = parts.get("FREQ")
    if frequency in ("HOURLY", "MINUTELY", "SECONDLY"):
        reasons.append(f"FREQ={frequency} is not taken: a window opens at most once a day; write DAILY and a longer duration")
    elif frequency not in _FREQUENCIES:
        reasons.append(f"FREQ must be one of {', '.join(_FREQUENCIES)}")
    if reasons:
        return reasons, parts
    for key, frequencies in _RRULE_NOT_IN.items():
        if key in parts and frequency in frequencies:
            reasons.append(f"{key} has no meaning with FREQ={frequency}")
    for item in parts.get("BYDAY", "").split(","):
        number = item[:-2].lstrip("+-")
        if not number:
            continue
        limit = 5 if frequency == "MONTHLY" or "BYMONTH" in parts else 53
        if frequency not in ("MONTHLY", "YEARLY") or "BYWEEKNO" in parts:
            reasons.append(f"BYDAY={item}: a number before the day goes with MONTHLY or YEARLY only, without BYWEEKNO")
        elif not 1 <= int(number) <= limit:
            reasons.append(f"BYDAY={item}: there is no such day")
    if "BYSETPOS" in parts and not any(key.startswith("BY") and key != "BYSETPOS" for key in parts):
        reasons.append("BYSETPOS picks from the days of another BY part, and there is none")
    if "COUNT" in parts and "UNTIL" in parts:
        reasons.append("COUNT and UNTIL exclude each other")
    if "UNTIL" in parts:
        try:
            _until(parts["UNTIL"], UTC)
        except ValueError:
            reasons.append(f"UNTIL={parts['UNTIL']} is not a date")
    if not has_anchor:
        if int(parts.get("INTERVAL", "1")) > 1 or "COUNT" in parts:
            reasons.append("INTERVAL and COUNT count from a first day: add 'anchor', such as '2026-01-03'")
        elif frequency != "DAILY" and not {"BYDAY", "BYMONTHDAY", "BYYEARDAY", "BYWEEKNO"} & set(parts):
            reasons.append(f"does not say which day of FREQ={frequency}: add BYDAY or BYMONTHDAY, or 'anchor'")
    return reasons, parts


def _until(text: str, zone: dt.tzinfo) -> dt.datetime:
    """UNTIL as a wall-clock time of the zone; a date alone includes that day."""
    if len(text) == 8:
        return dt.datetime.strptime(text, "%Y%m%d").replace(hour=23, minute=59, second=59)
    local = dt.datetime.strptime(text.rstrip("Z"), "%Y%m%dT%H%M%S")
    # "For ever" is often written as the last second of the year 9999, which has no wall-clock time east of Greenwich.
    if not text.endswith("Z") or not MIN_YEAR <= local.year <= MAX_YEAR:
        return local
    return local.replace(tzinfo=UTC).astimezone(zone).replace(tzinfo=None)


def _read_all(name: str, raw: Any) -> tuple[list[Rule], list[str]]:
    if raw is None:
        raw = []
    if isinstance(raw, (str, Mapping)) or not isinstance(raw, Sequence):
        return [], [f"{name}: {_show(raw)} is not a list"]
    rules: list[Rule] = []
    errors: list[str] = []
    for index, item in enumerate(raw):
        reader = _Reader(f"{name}[{index}]", item)
        rule = reader.read()
        errors.extend(reader.errors)
        if rule:
            rules.append(rule)
    return rules, errors


def parse_now(value: Any) -> dt.datetime:
    """A moment with a zone: ISO 8601 with an offset (``2026-10-25T03:00+02:00``, ``…Z``), or a wall-clock time and an IANA zone
    (``2026-10-25 03:00 Europe/Berlin``; in a repeated hour the first).

    :raises WindowError: anything else, above all a time without a zone: nobody knows when that is.
    """
    moment: dt.datetime | None = None
    if isinstance(value, dt.datetime):
        moment = dt.datetime.combine(value.date(), value.time(), value.tzinfo)
    elif isinstance(value, str):
        wall, _blank, zone_name = value.strip().rpartition(" ")
        known = _zone_names().get(zone_name.lower())
        if wall and known:
            try:
                local = dt.datetime.fromisoformat(wall.strip())
            except ValueError:
                local = None
            if local is not None and local.tzinfo is None and len(wall.strip()) > 10:
                _in_range(local, value)
                found = _to_utc(local, zoneinfo.ZoneInfo(known))
                if found is None:
                    raise WindowError([f"now: {_show(value)} does not exist: the clocks go forward over it"])
                return _in_range(found.astimezone(zoneinfo.ZoneInfo(known)), value)
        elif re.match(r"[0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9]{2}:[0-9]{2}", value.strip()):
            try:
                moment = dt.datetime.fromisoformat(value.strip())
            except ValueError:
                moment = None
    if moment is None:
        raise WindowError([f"now: {_show(value)} is not a date and time such as '2026-10-25T03:00+01:00' or '2026-10-25 03:00 Europe/Berlin'"])
    if moment.tzinfo is None:
        examples = f"'{moment:%Y-%m-%dT%H:%M}+00:00' or '{moment:%Y-%m-%d %H:%M} Europe/Berlin'"
        raise WindowError([f"now: {_show(value)} has no time zone; add an offset or a zone, such as {examples}"])
    return _in_range(moment, value)


def _in_range(moment: dt.datetime, value: Any) -> dt.datetime:
    if not MIN_YEAR <= moment.year <= MAX_YEAR:
        raise WindowError([f"now: {_show(value)} is not between the years {MIN_YEAR} and {MAX_YEAR}"])
    return moment


# --- from rules to stretches of time ----------------------------------------------------------------------------------------


def _to_utc(local: dt.datetime, zone: dt.tzinfo) -> dt.datetime | None:
    """A wall-clock time as UTC: the first of two, None if the clocks leave it out."""
    utc = local.replace(tzinfo=zone, fold=0).astimezone(UTC)
    return utc if utc.astimezone(zone).replace(tzinfo=None) == local else None


def _jump(local: dt.datetime, zone: dt.tzinfo) -> dt.datetime:
    """The moment (UTC) at which the clocks jump over a wall-clock time that does not exist."""
    before = local.replace(tzinfo=zone, fold=1).astimezone(UTC)
    after = local.replace(tzinfo=zone, fold=0).astimezone(UTC)
    offset = before.astimezone(zone).utcoffset()
    while after - before > dt.timedelta(seconds=1):
        middle = before + dt.timedelta(seconds=(after - before).total_seconds() // 2)
        if middle.astimezone(zone).utcoffset() == offset:
            before = middle
        else:
            after = middle
    return after


def _local(moment: dt.datetime, zone: dt.tzinfo) -> str:
    return f"{moment.astimezone(zone):%a %Y-%m-%d %H:%M}"


def _say(moment: dt.datetime, zone: zoneinfo.ZoneInfo) -> str:
    return f"{_local(moment, zone)} {zone.key} ({moment.astimezone(UTC):%Y-%m-%d %H:%M} UTC)"


def _length(minutes: int) -> str:
    hours, rest = divmod(minutes, 60)
    return (f"{hours}h" if hours else "") + (f"{rest}m" if rest or not hours else "")


def _rrule_dates(rule: Rule, first: dt.date, last: dt.date) -> list[dt.date]:
    """The days a rule names between two days, by dateutil."""
    try:
        from dateutil import rrule as dateutil_rrule
    except ImportError as error:
        raise WindowError([f"{rule.label}.rrule: needs the Python package python-dateutil on the controller"]) from error
    if rule.rrule is None:
        raise AssertionError
    parts = dict(rule.rrule)
    # dateutil looks for the next day of a rule that has none (the 31st of February) until the year 9999. The calendar repeats every 400
    # years to the day of the week, so everything is moved as near to that end as it goes: a few hundred years instead of eight thousand.
    years = (9990 - last.year) // 400 * 400
    until = _until(parts.pop("UNTIL"), rule.zone) if "UNTIL" in parts else None
    # Without an anchor the rule does not depend on where it is begun, but for the first week or year: begin well before.
    anchor = rule.anchor or dt.date(first.year - 2, 1, 1)

    def moved(day: dt.date, time: dt.time) -> dt.datetime:
        return dt.datetime.combine(day.replace(year=day.year + years), time)

    if anchor > last:
        return []
    text = ";".join(f"{key}={value}" for key, value in parts.items())
    try:
        dates = dateutil_rrule.rrulestr(text, dtstart=moved(anchor, dt.time())).between(moved(first, dt.time()), moved(last, dt.time()), inc=True)
    except (ValueError, TypeError, KeyError, IndexError, OverflowError) as error:
        raise WindowError([f"{rule.label}.rrule: '{text}' cannot be used: {error}"]) from error
    found = [date.date().replace(year=date.year - years) for date in dates]
    return [day for day in found if until is None or dt.datetime.combine(day, rule.start) <= until]


def _spans(rule: Rule, lo: dt.datetime, hi: dt.datetime, is_blackout: bool) -> tuple[list[Span], list[tuple[dt.datetime, str]]]:
    """(stretches, [(when, note)]) of a rule between two moments, in order."""
    if rule.absolute:
        start, end = max(rule.absolute[0], lo), min(rule.absolute[1], hi)
        return ([Span(start, end, rule)] if start < end else []), []
    first, last = lo.astimezone(rule.zone).date(), hi.astimezone(rule.zone).date()
    if rule.rrule is not None:
        days = _rrule_dates(rule, first, last)
    else:
        every = (first + dt.timedelta(days=number) for number in range((last - first).days + 1))
        days = [day for day in every if day.weekday() in rule.weekdays]
    spans: list[Span] = []
    notes: list[tuple[dt.datetime, str]] = []
    for day in days:
        local = dt.datetime.combine(day, rule.start)
        start_at = _to_utc(local, rule.zone)
        if start_at is None:
            jump = _jump(local, rule.zone)
            missing = f"{rule.start:%H:%M} does not exist on {day} in {rule.zone.key}, the clocks go forward"
            if not is_blackout:
                notes.append((jump, f"{rule} does not happen on {day}: {missing}"))
                continue
            start_at = jump
            notes.append((jump, f"{rule} starts at {_say(jump, rule.zone)}: {missing}"))
        start, end = max(start_at, lo), min(start_at + dt.timedelta(minutes=rule.minutes), hi)
        if start < end:
            spans.append(Span(start, end, rule))
    return spans, notes


def _merged(spans: Iterable[Span]) -> list[Span]:
    """The union, in order; stretches that touch become one and keep the rule of the first."""
    merged: list[Span] = []
    for span in sorted(spans, key=lambda item: item.start):
        if merged and span.start <= merged[-1].end:
            merged[-1] = Span(merged[-1].start, max(merged[-1].end, span.end), merged[-1].rule)
        else:
            merged.append(span)
    return merged


def _without(spans: Sequence[Span], holes: Sequence[Span]) -> list[Span]:
    """What is left of merged stretches when merged holes are taken away."""
    left: list[Span] = []
    at = 0
    for span in spans:
        start = span.start
        while at < len(holes) and holes[at].end <= start:
            at += 1
        look = at
        while look < len(holes) and holes[look].start < span.end:
            if holes[look].start > start:
                left.append(Span(start, holes[look].start))
            start = holes[look].end
            look += 1
        if start < span.end:
            left.append(Span(start, span.end))
    return left


def _rule_at(spans: Iterable[Span], moment: dt.datetime) -> Rule | None:
    return next((span.rule for span in spans if span.start <= moment < span.end), None)


# --- the answer -------------------------------------------------------------------------------------------------------------


def evaluate(windows: Any, blackouts: Any, expected_minutes: Any, now: Any) -> dict[str, Any]:
    """May a step that takes ``expected_minutes`` start now, and if not, when?

    :param windows: list of windows, at least one.
    :param blackouts: list of the same forms, or None.
    :param expected_minutes: how long the step may take, 1 to 10080.
    :param now: a datetime with a zone, or a text for :func:`parse_now`.
    :returns: ``outcome`` run, wait (opens within 12 hours) or stop; ``reason``; ``opens_at`` (ISO 8601, zone of the window) and ``opens_at_utc``: the next
        opening that is long enough, null when running or when there is none within 400 days; ``closes_at`` and ``closes_at_utc`` of the opening that is
        on; ``minutes_left`` in it, rounded down, 0 when closed; ``timezone`` of the window meant; ``window`` its place in the list; ``notes``: starts that the
        clock change of the next 31 days leaves out.
    :raises WindowError: everything that is wrong with all arguments, at once.
    """
    rules, errors = _read_all("windows", windows)
    if not errors and not rules:
        errors.append(
            "windows: the list is empty, so no node would ever be touched; for any time write "
            f"[{{days: [{', '.join(DAYS)}], start: \"00:00\", duration: 24h, timezone: UTC}}]"
        )
    bans, ban_errors = _read_all("blackouts", blackouts)
    errors.extend(ban_errors)
    if isinstance(expected_minutes, bool) or not isinstance(expected_minutes, int) or not 1 <= expected_minutes <= MAX_DURATION_MINUTES:
        errors.append(f"expected_minutes: {_show(expected_minutes)} is not a number of minutes from 1 to {MAX_DURATION_MINUTES}")
    moment = None
    try:
        moment = parse_now(now).astimezone(UTC)
    except WindowError as error:
        errors.extend(error.errors)
    if errors or moment is None:
        raise WindowError(errors)

    lo, hi = moment - _MARGIN, moment + HORIZON + _MARGIN
    open_spans, notes = _expand(rules, lo, hi, is_blackout=False)
    ban_spans, ban_notes = _expand(bans, lo, hi, is_blackout=True)
    free = _without(_merged(open_spans), _merged(ban_spans))
    expected = dt.timedelta(minutes=expected_minutes)

    current = next((span for span in free if span.start <= moment < span.end), None)
    left = current.end - moment if current else dt.timedelta()
    answer: dict[str, Any] = {
        "outcome": "run",
        "reason": "",
        "opens_at": None,
        "opens_at_utc": None,
        "closes_at": None,
        "closes_at_utc": None,
        "minutes_left": int(left.total_seconds() // 60),
        "timezone": None,
        "window": None,
        "notes": [text for when, text in sorted(notes + ban_notes) if -dt.timedelta(days=1) <= when - moment <= dt.timedelta(days=31)],
    }
    if current:
        rule = _rule_at(open_spans, moment)
        if rule is None:
            raise AssertionError
        answer.update(timezone=rule.zone.key, window=rule.label, closes_at=_iso(current.end, rule.zone), closes_at_utc=_iso(current.end, UTC))
        until = f"{rule} is open until {_say(current.end, rule.zone)}: {answer['minutes_left']} minutes left, {expected_minutes} expected"
        if left >= expected:
            answer["reason"] = until
            return answer
        why = f"too late to start: {until}"
    else:
        why = _why_closed(moment, rules[0].zone, open_spans, ban_spans)

    later = [span for span in free if moment < span.start <= moment + HORIZON]
    following = next((span for span in later if span.end - span.start >= expected), None)
    # Who waits for a start that the clocks leave out must read it where he looks, not only in the notes.
    soon = min(following.start if following else hi, moment + dt.timedelta(days=31))
    left_out = "".join(f"; {text}" for when, text in sorted(notes) if moment - dt.timedelta(days=1) <= when <= soon)
    if following is None:
        answer["outcome"] = "stop"
        what = f"none of the next openings is {expected_minutes} minutes long" if later else "no window opens"
        answer["reason"] = f"{why}; {what} within {HORIZON.days} days{left_out}"
        return answer
    rule = _rule_at(open_spans, following.start)
    if rule is None:
        raise AssertionError
    answer["outcome"] = "wait" if following.start - moment <= MAX_WAIT else "stop"
    answer.update(opens_at=_iso(following.start, rule.zone), opens_at_utc=_iso(following.start, UTC), timezone=rule.zone.key, window=rule.label)
    short = later.index(following)
    skipped = f", after {short} opening{'s' if short > 1 else ''} too short for {expected_minutes} minutes" if short else ""
    answer["reason"] = f"{why}; opens {_say(following.start, rule.zone)}{skipped}, {rule}{left_out}"
    return answer


def _expand(rules: Iterable[Rule], lo: dt.datetime, hi: dt.datetime, is_blackout: bool) -> tuple[list[Span], list[tuple[dt.datetime, str]]]:
    spans: list[Span] = []
    notes: list[tuple[dt.datetime, str]] = []
    for rule in rules:
        rule_spans, rule_notes = _spans(rule, lo, hi, is_blackout)
        spans.extend(rule_spans)
        notes.extend(rule_notes)
    return spans, notes


def _why_closed(moment: dt.datetime, zone: zoneinfo.ZoneInfo, open_spans: Sequence[Span], ban_spans: Sequence[Span]) -> str:
    inside = _rule_at(open_spans, moment)
    ban = next((span for span in _merged(ban_spans) if span.start <= moment < span.end), None)
    if inside and ban:
        rule = _rule_at(ban_spans, moment)
        if rule is None:
            raise AssertionError
        return f"closed by {rule} until {_say(ban.end, rule.zone)}"
    return f"closed: {_say(moment, zone)} is in no window"


def _iso(moment: dt.datetime, zone: dt.tzinfo) -> str:
    if zone is UTC:
        return f"{moment.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}"
    return moment.astimezone(zone).isoformat(timespec="seconds")
