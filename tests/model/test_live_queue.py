"""The queue of a live connection: bounded whatever happens, and every gap shows."""

from __future__ import annotations

from copy import deepcopy

from hypothesis import given
from hypothesis import strategies as st

from restante.model.live.live_queue import Counted, LiveQueue
from tests.model.strategies import unhurried

EVERYTHING = 2**40
pushes = st.tuples(st.just("push"), st.integers(0, 40))
takes = st.tuples(st.just("take"), st.integers(0, 60))


def drained(queue: LiveQueue) -> list[Counted]:
    """All that is still to be sent; the queue itself stays as it is."""
    return deepcopy(queue).take(EVERYTHING)


def pushed(queue: LiveQueue, sizes: list[int]) -> list[bool]:
    return [queue.push(queue.last + 1, bytes(size)) for size in sizes]


@unhurried
@given(st.integers(1, 6), st.integers(10, 80), st.lists(pushes | takes, max_size=80))
def test_whatever_happens_it_is_bounded_and_nothing_goes_uncounted(
    messages_max: int, bytes_max: int, steps: list[tuple[str, int]]
) -> None:
    queue = LiveQueue(messages_max, bytes_max, last=0)
    taken: list[Counted] = []
    count = 0
    for what, size in steps:
        if what == "push":
            count += 1
            queue.push(10 * count, bytes(size))
        else:
            taken += queue.take(size)
        rest = drained(queue)
        waiting = rest[: len(queue)]
        assert len(waiting) <= messages_max
        assert sum(len(message) for _, _, message in waiting) <= bytes_max or len(waiting) == 1
        assert len(rest) - len(waiting) <= 1
        assert len(taken) + len(rest) + queue.dropped == count == queue.counter
    everything = [*taken, *queue.take(EVERYTHING)]
    counters = [counter for counter, _, _ in everything]
    assert counters == sorted(set(counters))
    assert [number for _, number, _ in everything] == [10 * counter for counter in counters]
    assert counters[-1:] == ([count] if count else [])
    assert len(queue) == 0


@unhurried
@given(st.integers(1, 20), st.integers(0, 60))
def test_of_what_nobody_takes_the_first_ones_are_kept_and_the_last_one(messages_max: int, count: int) -> None:
    queue = LiveQueue(messages_max, 1_000, last=0)
    kept = pushed(queue, [1] * count)
    first = list(range(1, min(count, messages_max) + 1))
    assert kept == [counter in first for counter in range(1, count + 1)]
    assert [counter for counter, _, _ in drained(queue)] == first + ([count] if count > messages_max else [])
    assert queue.dropped == max(0, count - messages_max - 1)
    assert queue.gaps == (count > messages_max)


def test_a_gap_ends_as_soon_as_there_is_room_and_the_next_one_follows_without_another() -> None:
    queue = LiveQueue(2, 1_000, last=0)
    pushed(queue, [1] * 5)
    assert [counter for counter, _, _ in queue.take(1)] == [1]
    assert len(queue) == 2
    assert pushed(queue, [1]) == [False]
    assert [counter for counter, _, _ in queue.take(EVERYTHING)] == [2, 5, 6]
    assert pushed(queue, [1]) == [True]
    assert [counter for counter, _, _ in queue.take(EVERYTHING)] == [7]
    assert (queue.dropped, queue.gaps) == (2, 2)


def test_what_is_larger_than_the_bound_goes_alone() -> None:
    queue = LiveQueue(4, 10, last=0)
    assert pushed(queue, [50, 1]) == [True, False]
    assert not queue.fits(b"x")
    assert [len(message) for _, _, message in queue.take(1)] == [50]
    assert [len(message) for _, _, message in queue.take(1)] == [1]
    assert queue.fits(b"x")


def test_take_gives_at_least_one_and_about_as_many_bytes_as_asked_for() -> None:
    queue = LiveQueue(9, 1_000, last=0)
    pushed(queue, [10] * 6)
    assert [len(queue.take(size)) for size in (0, 1, 10, 11)] == [1, 1, 1, 2]
    assert len(queue) == 1
    assert LiveQueue(9, 1_000, last=0).take(100) == []


def test_what_was_dealt_with_before_is_left_out_and_not_counted() -> None:
    queue = LiveQueue(4, 1_000, last=7)
    assert queue.push(7, b"old")
    assert (queue.counter, len(queue)) == (0, 0)
    assert queue.count(8) == 1
    assert queue.push(8, b"replayed")
    assert queue.push(9, b"new")
    assert queue.take(EVERYTHING) == [(2, 9, b"new")]
    assert queue.last == 9
