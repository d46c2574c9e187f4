"""Whose turn it is: one at a time for each receiver, none before its time, none for ever behind another."""

from __future__ import annotations

import queue
import threading

from restante import limits
from restante.hub.batches.notice_schedule import NoticePlace, NoticeSchedule, Turn
from restante.model.batches.notice import NoticeReceiver

SECONDS = 30.0
SECOND = 1_000_000
A, B = (NoticeReceiver(b"", name) for name in "ab")
MAILBOX = NoticeReceiver(b"")
FIRST, SECOND_PLACE, THIRD = (NoticePlace(0, key) for key in (b"1", b"2", b"3"))


class Hand:
    """A clock that stands still until it is moved."""

    now = 0

    def __call__(self) -> int:
        return self.now


def taken(schedule: NoticeSchedule, clock: Hand) -> Turn | None:
    """The next turn, if it is time for one."""
    return schedule._take(clock())[0]


def test_each_receiver_is_told_one_thing_at_a_time_in_the_order_of_time() -> None:
    schedule, clock = NoticeSchedule(), Hand()
    for receiver, place in ((A, FIRST), (A, SECOND_PLACE), (B, THIRD)):
        schedule.add(receiver, place, 0)
    first, other = taken(schedule, clock), taken(schedule, clock)
    assert {first, other} == {Turn(A, FIRST), Turn(B, THIRD)}
    assert taken(schedule, clock) is None
    schedule.done(Turn(A, FIRST), again_at=None, reached=True, now=0)
    assert taken(schedule, clock) == Turn(A, SECOND_PLACE)


def test_nothing_is_tried_before_its_time() -> None:
    schedule, clock = NoticeSchedule(), Hand()
    schedule.add(A, FIRST, 5 * SECOND)
    schedule.add(A, SECOND_PLACE, 3 * SECOND)
    assert taken(schedule, clock) is None
    clock.now = 3 * SECOND
    turn = taken(schedule, clock)
    assert turn == Turn(A, SECOND_PLACE)
    schedule.done(turn, again_at=10 * SECOND, reached=True, now=clock.now)
    assert taken(schedule, clock) is None
    clock.now = 20 * SECOND
    assert taken(schedule, clock) == Turn(A, FIRST)


def test_a_receiver_out_of_reach_is_left_alone_twice_as_long_each_time() -> None:
    schedule, clock, pauses = NoticeSchedule(), Hand(), []
    schedule.add(A, FIRST, 0)
    schedule.add(A, SECOND_PLACE, 0)
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
    schedule.add(A, FIRST, 0)
    schedule.add(A, FIRST, 0)
    turn = taken(schedule, clock)
    assert turn is not None
    schedule.add(A, FIRST, 0)
    schedule.done(turn, again_at=None, reached=True, now=0)
    assert taken(schedule, clock) is None
    schedule.add(A, FIRST, 0)
    assert taken(schedule, clock) == turn


def test_who_waits_hears_of_what_is_added_and_of_the_end() -> None:
    schedule, closing, turns = NoticeSchedule(), threading.Event(), queue.Queue[Turn]()

    def wait() -> None:
        while (turn := schedule.next_turn(lambda: 0, closing)) is not None:
            turns.put(turn)
            schedule.done(turn, again_at=None, reached=True, now=0)

    thread = threading.Thread(target=wait)
    thread.start()
    schedule.add(A, FIRST, 0)
    assert turns.get(timeout=SECONDS) == Turn(A, FIRST)
    schedule.add(B, SECOND_PLACE, 0)
    assert turns.get(timeout=SECONDS) == Turn(B, SECOND_PLACE)
    closing.set()
    schedule.wake()
    thread.join(SECONDS)
    assert not thread.is_alive()


def test_a_thousand_receivers_leave_nothing_behind() -> None:
    schedule, clock = NoticeSchedule(), Hand()
    for number in range(1_000):
        schedule.add(NoticeReceiver(b"", str(number)), NoticePlace(0, str(number).encode()), number)
    clock.now = 1_000
    while (turn := taken(schedule, clock)) is not None:
        schedule.done(turn, again_at=None, reached=False, now=clock.now)
    assert (schedule._owners, schedule._known, schedule._busy.total()) == ({}, set(), 0)


def receivers(owner: bytes, count: int) -> list[NoticeReceiver]:
    return [NoticeReceiver(owner, str(number)) for number in range(count)]


def test_an_owner_has_its_share_at_a_time_and_the_one_with_the_fewest_goes_first() -> None:
    schedule, clock = NoticeSchedule(), Hand()
    for owner in (b"x", b"y"):
        for receiver in receivers(owner, 2 * limits.WEBHOOKS_OF_OWNER_MAX):
            schedule.add(receiver, NoticePlace(0, owner + receiver.server.encode()), 0 if owner == b"x" else 1)
    turns = []
    while (turn := taken(schedule, clock)) is not None:
        turns.append(turn)
    assert [turn.receiver.owner for turn in turns] == [b"x"] * limits.WEBHOOKS_OF_OWNER_MAX
    clock.now = 1
    schedule.done(turns[0], again_at=None, reached=True, now=1)
    for expected in [b"y"] * (limits.WEBHOOKS_OF_OWNER_MAX - 1):
        turn = taken(schedule, clock)
        assert turn is not None
        assert turn.receiver.owner == expected


def test_a_message_waits_for_no_webhook() -> None:
    schedule, clock, turns = NoticeSchedule(), Hand(), 0
    for number in range(limits.WEBHOOKS_AT_ONCE_MAX):
        owner = number.to_bytes(1, "big")
        for receiver in receivers(owner, limits.WEBHOOKS_OF_OWNER_MAX):
            schedule.add(receiver, NoticePlace(0, owner + receiver.server.encode()), 0)
    while taken(schedule, clock) is not None:
        turns += 1
    assert turns == limits.WEBHOOKS_AT_ONCE_MAX
    schedule.add(MAILBOX, FIRST, 0)
    assert taken(schedule, clock) == Turn(MAILBOX, FIRST)


def test_messages_of_one_owner_hold_up_one_of_another_for_one_turn() -> None:
    schedule, clock, owners = NoticeSchedule(), Hand(), []
    for number in range(100):
        schedule.add(NoticeReceiver(b"x"), NoticePlace(0, b"x%d" % number), 0)
    for number in range(3):
        turn = taken(schedule, clock)
        assert turn is not None
        assert taken(schedule, clock) is None, "a shard gets one message at a time"
        schedule.add(NoticeReceiver(b"y"), NoticePlace(0, b"y%d" % number), 1)
        clock.now = 1
        schedule.done(turn, again_at=None, reached=True, now=clock.now)
        owners.append(turn.receiver.owner)
    assert owners.count(b"y") == 1
    for _ in range(4):
        turn = taken(schedule, clock)
        assert turn is not None
        schedule.done(turn, again_at=None, reached=True, now=clock.now)
        owners.append(turn.receiver.owner)
    assert owners == [b"x", b"x", b"y", b"x", b"y", b"x", b"y"]


def test_a_message_waits_for_no_other_shard() -> None:
    schedule, clock = NoticeSchedule(), Hand()
    schedule.add(NoticeReceiver(b"x", shard=1), FIRST, 0)
    schedule.add(NoticeReceiver(b"x", shard=1), SECOND_PLACE, 0)
    schedule.add(NoticeReceiver(b"x", shard=2), THIRD, 0)
    assert taken(schedule, clock) == Turn(NoticeReceiver(b"x", shard=1), FIRST)
    assert taken(schedule, clock) == Turn(NoticeReceiver(b"x", shard=2), THIRD)
    assert taken(schedule, clock) is None
