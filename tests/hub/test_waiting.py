"""Peeks that wait, and peeks and dequeues that come at once."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier, Event

from restante import errors
from restante.client.surface.surface import Bundle, Hub
from tests.hub.letters import letter, letters, numbers_of, peeked

THREADS = 8
SECONDS = 20.0
"""Longer than anything here takes; a test that waits so long has failed."""


# Waiting.


def test_a_peek_that_waits_answers_as_soon_as_something_is_there(hub: Hub) -> None:
    with ThreadPoolExecutor(1) as pool:
        begun = Event()

        def wait() -> Bundle | None:
            begun.set()
            return hub.recipient("ada").peek(wait=SECONDS)

        waiting = pool.submit(wait)
        assert begun.wait(SECONDS)
        hub.producer.send([letter(1, "dora")])
        hub.producer.send([letter(2, "ada")])
        bundle = waiting.result(SECONDS)
    assert bundle is not None
    assert numbers_of(bundle.messages) == [2]


def test_a_peek_does_not_wait_when_something_is_there(hub: Hub) -> None:
    hub.producer.send(letter(1))
    assert numbers_of(peeked(hub, wait=SECONDS).messages) == [1]


def test_a_wait_for_one_origin_is_not_ended_by_another(hub: Hub) -> None:
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(lambda: hub.recipient("ada").peek(origins=["series"], wait=SECONDS))
        hub.producer.send(letter(1, origin="points"))
        hub.producer.send(letter(2, origin="series"))
        bundle = waiting.result(SECONDS)
    assert bundle is not None
    assert numbers_of(bundle.messages) == [2]


def test_a_wait_ends_when_a_dequeue_frees_the_group(hub: Hub) -> None:
    hub.producer.send([letter(1, origin="charges"), letter(2, origin="points")])
    held = peeked(hub, origins=["charges"])
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(lambda: hub.recipient("ada").peek(origins=["points"], wait=SECONDS))
        held.dequeue()
        bundle = waiting.result(SECONDS)
    assert bundle is not None
    assert numbers_of(bundle.messages) == [2]


def test_bundles_come_one_after_another_and_wait_for_more(hub: Hub) -> None:
    got: list[list[int]] = []
    first_came = Event()

    def collect() -> None:
        for bundle in hub.recipient("ada").bundles():
            got.append(numbers_of(bundle.messages))
            bundle.dequeue()
            first_came.set()
            if len(got) == 2:
                return

    hub.producer.send(letters([1, 2]))
    with ThreadPoolExecutor(1) as pool:
        collecting = pool.submit(collect)
        assert first_came.wait(SECONDS)
        hub.producer.send(letters([3]))
        collecting.result(SECONDS)
    assert got == [[1, 2], [3]]


def test_bundles_end_when_nothing_comes_for_so_long(hub: Hub) -> None:
    hub.producer.send(letters([1, 2, 3], bundleable=False))
    got = []
    for bundle in hub.recipient("ada").bundles(idle=0):
        got.append(numbers_of(bundle.messages))
        bundle.dequeue()
    assert got == [[1], [2], [3]]


def test_bundles_that_are_not_dequeued_come_again(hub: Hub) -> None:
    hub.producer.send(letters([1, 2]))
    bundles = hub.recipient("ada").bundles(max_messages=1)
    assert next(bundles).bundle_id == next(bundles).bundle_id


# At once.


def test_concurrent_peeks_give_one_bundle(hub: Hub) -> None:
    hub.producer.send(letters(range(50)))
    together = Barrier(THREADS)

    def peek() -> str:
        together.wait(SECONDS)
        return peeked(hub, max_messages=10).bundle_id

    with ThreadPoolExecutor(THREADS) as pool:
        asked = [pool.submit(peek) for _ in range(THREADS)]
        assert len({each.result(SECONDS) for each in asked}) == 1
    assert len(hub.recipient("ada").explain().open_bundles) == 1


def test_of_concurrent_dequeues_one_succeeds(hub: Hub) -> None:
    hub.producer.send(letters([1, 2]))
    bundle = peeked(hub)
    together = Barrier(THREADS)

    def dequeue() -> int:
        together.wait(SECONDS)
        try:
            return bundle.dequeue().messages
        except errors.BundleUnknown:
            return 0

    with ThreadPoolExecutor(THREADS) as pool:
        counts = [each.result(SECONDS) for each in [pool.submit(dequeue) for _ in range(THREADS)]]
    assert sorted(counts) == [0] * (THREADS - 1) + [2]
