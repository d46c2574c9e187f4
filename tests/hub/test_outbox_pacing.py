"""An origin that does not take its notices is not hammered, and holds up nobody else."""

from __future__ import annotations

from threading import Event

import restante
from restante import limits
from restante.hub.mailboxes.outbox import Pacing
from restante.ports.content import DequeuedNotice, OriginPort
from restante.stores.memory import MemoryStore

SECONDS = 30.0
BUNDLES = 20


class Hand:
    """A clock that stands still until it is moved."""

    seconds = 0.0

    def __call__(self) -> float:
        return self.seconds


def pause_after_failure(pacing: Pacing, clock: Hand) -> float:
    """How long the origin is left alone, to a quarter of a second."""
    pacing.note("charges", taken=False)
    started = clock.seconds
    while not pacing.is_due("charges"):
        clock.seconds += 0.25
    return clock.seconds - started


def test_the_pause_doubles_with_each_failure_up_to_its_bound() -> None:
    clock = Hand()
    pacing = Pacing(clock)
    assert pacing.is_due("charges")
    pauses = [pause_after_failure(pacing, clock) for _ in range(100)]
    assert pauses == [0.5, 1, 2, 4, 8, 16, 32] + [limits.NOTICE_PAUSE_SECONDS_MAX] * 93


def test_a_taken_notice_ends_the_pause_for_good() -> None:
    clock = Hand()
    pacing = Pacing(clock)
    for _ in range(5):
        pause_after_failure(pacing, clock)
    pacing.note("charges", taken=True)
    assert pacing.is_due("charges")
    assert pause_after_failure(pacing, clock) == 0.5


def test_one_origin_s_pause_is_no_other_s() -> None:
    pacing = Pacing(Hand())
    pacing.note("charges", taken=False)
    assert not pacing.is_due("charges")
    assert pacing.is_due("points")


def test_a_failing_origin_is_asked_seldom_while_another_is_told_everything() -> None:
    asked: list[DequeuedNotice] = []
    told: list[DequeuedNotice] = []
    all_told = Event()

    def fail(notice: DequeuedNotice) -> None:
        asked.append(notice)
        raise RuntimeError("come again")

    def take(notice: DequeuedNotice) -> None:
        told.append(notice)
        if len(told) == BUNDLES:
            all_told.set()

    origins = {"charges": OriginPort(dequeued=fail), "points": OriginPort(dequeued=take)}
    settings = restante.Settings(partition_count=1, filing=False, housekeeping_seconds=0)
    with restante.open(None, store=MemoryStore(), settings=settings, origins=origins) as hub:
        for recipient in range(BUNDLES):
            for origin in origins:
                hub.producer.send(restante.Message(recipient=str(recipient), origin=origin, data=1))
                bundle = hub.recipient(str(recipient)).peek()
                assert bundle is not None
                bundle.dequeue()
        assert all_told.wait(SECONDS)
    # Without a pause each of the twenty would have been tried with each dequeue.
    assert 1 <= len(asked) < BUNDLES
