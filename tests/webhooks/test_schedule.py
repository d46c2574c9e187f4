"""Whose turn it is: one at a time for each receiver, none before its time, none for ever behind another."""

from __future__ import annotations

import queue
import threading

from restante import limits
from restante.hub.batches.notice_schedule import NoticePlace, NoticeSchedule, Turn

SECONDS = 30.0
SECOND = 1_000_000
FIRST, SECOND_PLACE, THIRD = (NoticePlace(0, key) for key in (b"1", b"2", b"3"))


class Hand:
    """A clock that stands still until it is moved."""

    now = 0

    def __call__(self) -> int:
        return self.now


def taken(schedule: NoticeSchedule, clock: Hand) -> Turn | None:
    """The next turn, if it is time for one."""
    return schedule._take(clock())


def test_each_receiver_is_told_one_thing_at_a_time_in_the_order_of_time() -> None:
    schedule, clock = NoticeSchedule(), Hand()
    for receiver, place in (("a", FIRST), ("a", SECOND_PLACE), ("b", THIRD)):
        schedule.add(receiver, place, 0)
    first, other = taken(schedule, clock), taken(schedule, clock)
    assert {first, other} == {Turn("a", FIRST), Turn("b", THIRD)}
    assert taken(schedule, clock) is None
    schedule.done(Turn("a", FIRST), again_at=None, reached=True, now=0)
    assert taken(schedule, clock) == Turn("a", SECOND_PLACE)


def test_nothing_is_tried_before_its_time() -> None:
    schedule, clock = NoticeSchedule(), Hand()
    schedule.add("a", FIRST, 5 * SECOND)
    schedule.add("a", SECOND_PLACE, 3 * SECOND)
    assert taken(schedule, clock) is None
    clock.now = 3 * SECOND
    turn = taken(schedule, clock)
    assert turn == Turn("a", SECOND_PLACE)
    schedule.done(turn, again_at=10 * SECOND, reached=True, now=clock.now)
    assert taken(schedule, clock) is None
    clock.now = 20 * SECOND
    assert taken(schedule, clock) == Turn("a", FIRST)


def test_a_receiver_out_of_reach_is_left_alone_twice_as_long_each_time() -> None:
    schedule, clock, pauses = NoticeSchedule(), Hand(), []
    schedule.add("a", FIRST, 0)
    schedule.add("a", SECOND_PLACE, 0)
    turn = taken(schedule, clock)
    for _ in range(10):
        assert turn is not None
        schedule.done(turn, again_at=clock.now, reached=False, now=clock.now)
        before = clock.now
        while (turn := taken(schedule, clock)) is None:
            clock.now += SECOND // 2
        pauses.append((clock.now - before) / SECOND)
    assert turn is not None
    assert pauses == [0.5, 1, 2, 4, 8, 16, 32] + [limits.NOTICE_PAUSE_SECONDS_MAX] * 3
    schedule.done(turn, again_at=None, reached=True, now=clock.now)
    assert taken(schedule, clock) is not None, "it was reached: the next follows at once"


def test_what_is_known_is_not_added_again_until_it_is_over() -> None:
    schedule, clock = NoticeSchedule(), Hand()
    schedule.add("a", FIRST, 0)
    schedule.add("a", FIRST, 0)
    turn = taken(schedule, clock)
    assert turn is not None
    schedule.add("a", FIRST, 0)
    schedule.done(turn, again_at=None, reached=True, now=0)
    assert taken(schedule, clock) is None
    schedule.add("a", FIRST, 0)
    assert taken(schedule, clock) == turn


def test_who_waits_hears_of_what_is_added_and_of_the_end() -> None:
    schedule, closing, turns = NoticeSchedule(), threading.Event(), queue.Queue[Turn]()

    def wait() -> None:
        while (turn := schedule.next_turn(lambda: 0, closing)) is not None:
            turns.put(turn)
            schedule.done(turn, again_at=None, reached=True, now=0)

    thread = threading.Thread(target=wait)
    thread.start()
    schedule.add("a", FIRST, 0)
    assert turns.get(timeout=SECONDS) == Turn("a", FIRST)
    schedule.add("b", SECOND_PLACE, 0)
    assert turns.get(timeout=SECONDS) == Turn("b", SECOND_PLACE)
    closing.set()
    schedule.wake()
    thread.join(SECONDS)
    assert not thread.is_alive()


def test_a_thousand_receivers_leave_nothing_behind() -> None:
    schedule, clock = NoticeSchedule(), Hand()
    for number in range(1_000):
        schedule.add(str(number), NoticePlace(0, str(number).encode()), number)
    clock.now = 1_000
    while (turn := taken(schedule, clock)) is not None:
        schedule.done(turn, again_at=None, reached=False, now=clock.now)
    assert (schedule._lines, schedule._known, schedule._ready) == ({}, set(), [])
