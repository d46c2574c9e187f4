"""When a job runs next: examples without a clock."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from restante.errors import InvalidRequest
from restante.limits import JOB_BACK_OFF_SECONDS, JOB_BACK_OFF_SECONDS_MAX
from restante.spark.running.schedule import Always, Every, Past, Schedule, next_time, parse_schedule

NOON = datetime(2026, 3, 2, 12, tzinfo=UTC)


def utc(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def at(text: str, zone: str = "UTC") -> Schedule:
    return parse_schedule(at=text, zone=zone)


def test_a_job_that_runs_every_so_often_begins_at_once() -> None:
    assert next_time(Every(timedelta(minutes=2)), Past(since=NOON)) == NOON


def test_the_interval_counts_from_when_the_last_run_began() -> None:
    past = Past(since=NOON).begun(NOON).done(NOON + timedelta(seconds=90))
    assert next_time(Every(timedelta(minutes=2)), past) == NOON + timedelta(minutes=2)


def test_missed_times_are_due_once() -> None:
    """A run that took seven minutes: the next is due at once, and the one after it two minutes later."""
    schedule, late = Every(timedelta(minutes=2)), NOON + timedelta(minutes=7)
    past = Past(since=NOON).begun(NOON).done(late)
    assert next_time(schedule, past) < late
    assert next_time(schedule, past.begun(late).done(late)) == late + timedelta(minutes=2)


def test_a_daily_job_waits_for_its_time() -> None:
    assert next_time(at("02:00"), Past(since=NOON)) == utc("2026-03-03T02:00")
    assert next_time(at("12:30"), Past(since=NOON)) == utc("2026-03-02T12:30")
    assert next_time(at("12:00"), Past(since=NOON)) == utc("2026-03-03T12:00")


def test_a_day_is_missed_only_once() -> None:
    began = utc("2026-03-03T02:00")
    past = Past(since=NOON).begun(began).done(utc("2026-03-06T09:00"))
    due = next_time(at("02:00"), past)
    assert due == utc("2026-03-04T02:00")
    woken = utc("2026-03-06T09:00")
    assert next_time(at("02:00"), past.begun(woken)) == utc("2026-03-07T02:00")


@pytest.mark.parametrize(
    ("since", "time", "due"),
    [
        ("2026-03-27T12:00", "02:30", "2026-03-28T01:30"),  # Winter: one hour before UTC.
        ("2026-03-28T12:00", "02:30", "2026-03-29T01:30"),  # Left out: 02:30 comes as 03:30 in summer time.
        ("2026-03-29T01:30", "02:30", "2026-03-30T00:30"),  # Summer: two hours before UTC.
        ("2026-10-24T12:00", "02:30", "2026-10-25T00:30"),  # Comes twice: the first one counts.
        ("2026-10-25T00:30", "02:30", "2026-10-26T01:30"),  # And the second does not.
    ],
)
def test_clocks_that_change_neither_lose_a_day_nor_run_one_twice(since: str, time: str, due: str) -> None:
    assert next_time(at(time, "Europe/Copenhagen"), Past(since=utc(since))) == utc(due)


@given(
    since=st.integers(0, 40 * 366 * 86_400).map(lambda seconds: utc("2000-01-01") + timedelta(seconds=seconds)),
    hour=st.integers(0, 23),
    minute=st.integers(0, 59),
    zone=st.sampled_from(["UTC", "Europe/Copenhagen", "America/St_Johns", "Pacific/Apia", "Australia/Lord_Howe"]),
)
def test_a_daily_job_runs_about_once_a_day(since: datetime, hour: int, minute: int, zone: str) -> None:
    schedule = at(f"{hour:02}:{minute:02}", zone)
    first = next_time(schedule, Past(since=since))
    second = next_time(schedule, Past(since=since).begun(first))
    assert timedelta(0) < first - since <= timedelta(hours=26)
    assert timedelta(hours=22) <= second - first <= timedelta(hours=26)


def test_what_runs_always_begins_again_later_and_later_while_it_fails() -> None:
    past = Past(since=NOON)
    assert next_time(Always(), past) == NOON
    pauses = []
    for _ in range(10):
        past = past.begun(NOON).failed(NOON)
        pauses.append((next_time(Always(), past) - NOON).total_seconds())
    assert pauses[:3] == [JOB_BACK_OFF_SECONDS, 2 * JOB_BACK_OFF_SECONDS, 4 * JOB_BACK_OFF_SECONDS]
    assert pauses[-1] == JOB_BACK_OFF_SECONDS_MAX


def test_a_failure_after_a_long_run_is_a_first_one() -> None:
    past = Past(since=NOON, failures=7).begun(NOON)
    later = NOON + timedelta(seconds=JOB_BACK_OFF_SECONDS_MAX + 1)
    assert past.failed(NOON).failures == 8
    assert past.failed(later).failures == 1
    assert past.done(NOON).failures == 0


def test_a_job_that_fails_is_tried_again_at_its_next_time() -> None:
    past = Past(since=NOON).begun(NOON).failed(NOON + timedelta(seconds=1))
    assert next_time(Every(timedelta(minutes=2)), past) == NOON + timedelta(minutes=2)


@pytest.mark.parametrize(
    ("text", "seconds"), [("30 seconds", 30), ("2 minutes", 120), ("1 hour", 3_600), ("7days", 7 * 86_400)]
)
def test_intervals_are_written_in_words(text: str, seconds: int) -> None:
    assert parse_schedule(every=text) == Every(timedelta(seconds=seconds))


@pytest.mark.parametrize(
    ("given_", "told"),
    [
        ({}, "it has none"),
        ({"every": "1 hour", "always": True}, "it has every and always"),
        ({"every": "soon"}, "every must be a time such as 30 seconds"),
        ({"every": "0 minutes"}, "every must be 1 to"),
        ({"every": "400 days"}, "every must be 1 to"),
        ({"at": "24:00"}, "at must be a time of day such as 02:00"),
        ({"at": "02:00", "zone": "Nowhere/Else"}, "zone must be a time zone"),
        ({"at": "02:00", "zone": "../../etc"}, "zone must be a time zone"),
    ],
)
def test_a_schedule_that_makes_no_sense_is_refused(given_: dict[str, object], told: str) -> None:
    with pytest.raises(InvalidRequest, match=told):
        parse_schedule(**given_)  # type: ignore[arg-type]  # what a file may hold
