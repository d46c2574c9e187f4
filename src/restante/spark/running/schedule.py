"""When a job is to run next: decided from its schedule and what has become of it, without looking at a clock.

A job runs `every` so long, `at` a time of each day, or `always`. The next time follows from when the last run began, so
no two runs of a job overlap. A time that has passed meanwhile is due at once, and once only: missed times are not piled
up. Days are those of a time zone. A time that a change of clocks leaves out comes as much later as the clocks were put
forward, and one that comes twice is taken the first time.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, time, timedelta
from typing import assert_never
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import msgspec

from restante.errors import InvalidRequest
from restante.limits import (
    JOB_BACK_OFF_SECONDS,
    JOB_BACK_OFF_SECONDS_MAX,
    JOB_INTERVAL_SECONDS_MAX,
    JOB_INTERVAL_SECONDS_MIN,
)
from restante.model.back_off import back_off
from restante.model.figures import counted

_INTERVAL = re.compile(r"(?P<number>\d{1,9}) *(?P<unit>second|minute|hour|day)s?")
_SECONDS = {"second": 1, "minute": 60, "hour": 3_600, "day": 86_400}
_TIME = re.compile(r"(?P<hour>[01]\d|2[0-3]):(?P<minute>[0-5]\d)")


class Every(msgspec.Struct, frozen=True):
    """A turn so long after the last run began; the first turn is at once."""

    interval: timedelta


class At(msgspec.Struct, frozen=True):
    """A turn at this time of each day, in this zone."""

    time: time
    zone: ZoneInfo


class Always(msgspec.Struct, frozen=True):
    """Without end. If it ends nevertheless it is begun again, later and later while it fails."""


Schedule = Every | At | Always


class Past(msgspec.Struct, frozen=True, kw_only=True):
    """The past of a job: what has become of it so far."""

    since: datetime
    """When the job was first looked after."""
    started: datetime | None = None
    """When its last run began."""
    ended: datetime | None = None
    """The time when that was over."""
    failures: int = 0
    """How many runs have failed, one after the other, up to now."""

    def begun(self, now: datetime) -> Past:
        return msgspec.structs.replace(self, started=now, ended=None)

    def done(self, now: datetime) -> Past:
        return msgspec.structs.replace(self, ended=now, failures=0)

    def failed(self, now: datetime) -> Past:
        """Note a failure. After a run that took long, the count of failures in a row begins again."""
        assert self.started is not None, "what failed has begun"
        lasted = (now - self.started).total_seconds()
        before = 0 if lasted > JOB_BACK_OFF_SECONDS_MAX else self.failures
        return msgspec.structs.replace(self, ended=now, failures=before + 1)


def next_time(schedule: Schedule, past: Past) -> datetime:
    """When a job is to run next, in UTC. If that has passed, the job is due."""
    match schedule:
        case Every():
            return past.since if past.started is None else past.started + schedule.interval
        case At():
            return _next_at(schedule, past.started or past.since)
        case Always():
            return past.since if past.ended is None else past.ended + _pause(past.failures)
        case _:
            assert_never(schedule)


def worded_schedule(schedule: Schedule) -> str:
    """`every 2 minutes`, `at 02:00 UTC` or `always`."""
    match schedule:
        case Every():
            return f"every {_worded_interval(int(schedule.interval.total_seconds()))}"
        case At():
            return f"at {schedule.time:%H:%M} {schedule.zone.key}"
        case Always():
            return "always"
        case _:
            assert_never(schedule)


def _worded_interval(seconds: int) -> str:
    unit = next(name for name, size in reversed(_SECONDS.items()) if seconds % size == 0)
    return counted(seconds // _SECONDS[unit], unit)


def _pause(failures: int) -> timedelta:
    return timedelta(seconds=back_off(failures, first=JOB_BACK_OFF_SECONDS, longest=JOB_BACK_OFF_SECONDS_MAX))


def _next_at(schedule: At, after: datetime) -> datetime:
    """The first such time after another one. Each is taken in UTC, where no hour is left out or comes twice."""
    day = after.astimezone(schedule.zone).date() - timedelta(days=1)
    while True:
        moment = datetime.combine(day, schedule.time, tzinfo=schedule.zone).astimezone(UTC)
        if moment > after:
            return moment
        day += timedelta(days=1)


def parse_schedule(
    *, every: str | None = None, at: str | None = None, always: bool = False, zone: str = "UTC"
) -> Schedule:
    """A schedule as it is written down: one of `every`, `at` and `always`."""
    given = [name for name, value in (("every", every), ("at", at), ("always", always)) if value]
    if len(given) != 1:
        had = " and ".join(given) or "none"
        raise InvalidRequest(f'it needs one of every = "2 minutes", at = "02:00" and always = true; it has {had}.')
    if every is not None:
        return Every(parse_interval(every))
    if at is not None:
        return At(_parse_time(at), parse_zone(zone))
    return Always()


def parse_interval(text: str) -> timedelta:
    """The interval that a text such as `2 minutes` names."""
    found = _INTERVAL.fullmatch(text.strip())
    if found is None:
        raise InvalidRequest(f"every must be a time such as 30 seconds, 2 minutes, 6 hours or 1 day, not {text!r}.")
    seconds = int(found["number"]) * _SECONDS[found["unit"]]
    if not JOB_INTERVAL_SECONDS_MIN <= seconds <= JOB_INTERVAL_SECONDS_MAX:
        bounds = f"{JOB_INTERVAL_SECONDS_MIN:,} to {JOB_INTERVAL_SECONDS_MAX:,} seconds"
        raise InvalidRequest(f"every must be {bounds}, not {text!r}.")
    return timedelta(seconds=seconds)


def _parse_time(text: str) -> time:
    found = _TIME.fullmatch(text.strip())
    if found is None:
        raise InvalidRequest(f"at must be a time of day such as 02:00, not {text!r}.")
    return time(int(found["hour"]), int(found["minute"]))


def parse_zone(name: str) -> ZoneInfo:
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise InvalidRequest(f"zone must be a time zone such as UTC or Europe/Copenhagen, not {name!r}.") from error
