"""The order of a queue, and how far it is settled: what everything that gathers and sends rests on."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from restante.client.sending.send_queue import SendQueue


def test_what_is_put_back_waits_in_its_place() -> None:
    queue: SendQueue[str] = SendQueue()
    queue.waiting.extend("abcd")
    first = queue.take_first(2)
    assert first == ["a", "b"]
    queue.put_back(first[1:])
    assert [*queue.waiting] == ["b", "c", "d"]


def test_a_flush_ends_with_what_was_taken_before() -> None:
    queue: SendQueue[str] = SendQueue()
    queue.taken = 3
    upto = queue.hurry()
    queue.taken += 2
    assert (upto, queue.urgent) == (3, 3)


@given(st.lists(st.tuples(st.integers(1, 5), st.integers(0, 5))))
def test_whatever_is_put_back_the_order_holds(steps: list[tuple[int, int]]) -> None:
    """Each step takes so many and puts all but the first few of them back."""
    queue: SendQueue[int] = SendQueue()
    queue.waiting.extend(range(30))
    sent: list[int] = []
    for count, kept in steps:
        load = queue.take_first(min(count, len(queue.waiting)))
        sent += load[:kept]
        queue.put_back(load[kept:])
    assert [*sent, *queue.waiting] == [*range(30)]
