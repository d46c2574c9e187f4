"""Small acknowledgements of many threads share requests, and no thread notices."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from queue import SimpleQueue

import pytest

from restante import errors, limits
from restante.client.batches.joint_calls import ACKNOWLEDGEMENTS, JointCall
from restante.client.batches.joint_sync import JointCalls
from restante.client.surface import sync
from restante.model.batches.batch_answers import Acknowledged, CompleteBatch

SECONDS = 120.0
"""Longer than a busy machine takes to start a thousand threads."""
FULL = limits.ACKNOWLEDGE_REQUESTS_MAX


def told(number: int) -> Acknowledged:
    return Acknowledged(acknowledged=number, complete=(), unknown=())


def call(number: int, weight: int = 1) -> JointCall:
    return JointCall(str(number).encode(), weight)


class Desk:
    """Answers each call with the number that it says, a request for each that is let in; notes what came together."""

    def __init__(self) -> None:
        self.requests: list[list[int]] = []
        self.arrived: SimpleQueue[list[int]] = SimpleQueue()
        self.let = threading.Semaphore(0)
        self.guilty: dict[int, BaseException] = {}

    def send(self, texts: Sequence[bytes]) -> tuple[Acknowledged, ...]:
        numbers = [int(text) for text in texts]
        self.requests.append(numbers)
        self.arrived.put(numbers)
        assert self.let.acquire(timeout=SECONDS)
        for number in numbers:
            if number in self.guilty:
                raise self.guilty[number]
        return tuple(map(told, numbers))


class Line(JointCalls[Acknowledged]):
    """Tells when a caller has taken its place."""

    def __init__(self, desk: Desk) -> None:
        super().__init__(desk.send, ACKNOWLEDGEMENTS)
        self.lined_up: SimpleQueue[None] = SimpleQueue()

    def _line_up(self, caller: object) -> None:
        super()._line_up(caller)  # type: ignore[arg-type]  # the caller is the base's own affair
        self.lined_up.put(None)


class Threads:
    """Threads that acknowledge; each is known to have gone out, or to wait."""

    def __init__(self, pool: ThreadPoolExecutor) -> None:
        self.desk = Desk()
        self.line = Line(self.desk)
        self._pool = pool

    def calls(self, *numbers: int, weight: int = 1) -> list[Future[Acknowledged]]:
        """One after the other, each in a thread of its own."""
        futures = []
        for number in numbers:
            futures.append(self._pool.submit(self.line.carry_out, call(number, weight)))
            self.line.lined_up.get(timeout=SECONDS)
        return futures

    def full(self, *, let: bool = False) -> list[Future[Acknowledged]]:
        """As many requests as may be are under way: 0, 1 and so on. Then they may be let through."""
        futures = []
        for number in range(FULL):
            futures += self.calls(number)
            assert self.desk.arrived.get(timeout=SECONDS) == [number]
        if let:
            self.let(FULL)
        return futures

    def anew(self) -> None:
        """Nothing is let through any more, and what was seen is forgotten."""
        self.desk.let = threading.Semaphore(0)
        self.desk.arrived = SimpleQueue()

    def let(self, requests: int) -> None:
        self.desk.let.release(requests)


@contextmanager
def started() -> Iterator[Threads]:
    with ThreadPoolExecutor(2_000) as pool:
        threads = Threads(pool)
        try:
            yield threads
        finally:
            threads.let(10_000)


@pytest.fixture
def threads() -> Iterator[Threads]:
    with started() as found:
        yield found


def outcomes(futures: Sequence[Future[Acknowledged]]) -> list[Acknowledged | BaseException]:
    return [future.exception(SECONDS) or future.result() for future in futures]


def test_a_lone_call_goes_out_at_once_and_alone(threads: Threads) -> None:
    threads.let(3)
    assert [threads.line.carry_out(call(number)) for number in range(3)] == [told(0), told(1), told(2)]
    assert threads.desk.requests == [[0], [1], [2]]


def test_who_comes_while_requests_are_under_way_goes_out_together_and_has_an_own_answer(threads: Threads) -> None:
    futures = threads.full() + threads.calls(7, 8, 9)
    assert len(threads.desk.requests) == FULL
    threads.let(1)
    assert threads.desk.arrived.get(timeout=SECONDS) == [7, 8, 9]
    threads.let(FULL)
    assert outcomes(futures) == [*map(told, range(FULL)), told(7), told(8), told(9)]
    assert len(threads.desk.requests) == FULL + 1


def test_a_request_is_bounded_by_its_items(threads: Threads) -> None:
    futures = threads.full() + threads.calls(7, 8, 9, weight=limits.ACKNOWLEDGE_ITEMS_TARGET // 2)
    threads.let(100)
    assert outcomes(futures)[FULL:] == [told(7), told(8), told(9)]
    assert sorted(threads.desk.requests[FULL:]) in ([[7, 8], [9]], [[7], [8, 9]], [[7, 9], [8]])


def test_a_request_is_bounded_by_its_calls(threads: Threads) -> None:
    numbers = range(FULL, FULL + limits.ACKNOWLEDGED_CALLS_MAX + 1)
    futures = threads.full() + threads.calls(*numbers)
    threads.let(1)
    assert len(threads.desk.arrived.get(timeout=SECONDS)) == limits.ACKNOWLEDGED_CALLS_MAX
    threads.let(100)
    assert outcomes(futures)[FULL:] == list(map(told, numbers))


def test_only_the_guilty_call_hears_of_a_refusal(threads: Threads) -> None:
    threads.desk.guilty[8] = errors.InvalidItem("It is no item.", item="junk")
    futures = threads.full() + threads.calls(7, 8, 9)
    threads.let(1)
    assert threads.desk.arrived.get(timeout=SECONDS) == [7, 8, 9]
    threads.let(100)
    first, guilty, last = outcomes(futures)[FULL:]
    assert (first, last) == (told(7), told(9))
    assert isinstance(guilty, errors.InvalidItem)
    assert guilty.details == {"item": "junk"}
    assert threads.desk.requests[FULL:] == [[7, 8, 9], [7], [8], [9]]


@pytest.mark.parametrize("error", [errors.OutcomeUnknown("No answer."), errors.Forbidden("No."), ValueError("defect")])
def test_when_the_request_fails_each_of_its_callers_hears_of_it(threads: Threads, error: Exception) -> None:
    threads.desk.guilty[8] = error
    futures = threads.full() + threads.calls(7, 8, 9)
    threads.let(1)
    assert threads.desk.arrived.get(timeout=SECONDS) == [7, 8, 9]
    threads.let(100)
    assert [type(outcome) for outcome in outcomes(futures)[FULL:]] == [type(error)] * 3
    assert threads.line.carry_out(call(5)) == told(5)


class Interrupt(BaseException):
    """Such as Ctrl-C."""


def test_when_the_sender_is_interrupted_another_sends_for_the_others(threads: Threads) -> None:
    threads.desk.guilty[7] = Interrupt()
    futures = threads.full() + threads.calls(7, 8, 9)
    threads.let(1)
    assert threads.desk.arrived.get(timeout=SECONDS) == [7, 8, 9]
    threads.let(100)
    found = outcomes(futures)
    assert isinstance(found[FULL], Interrupt)
    assert found[FULL + 1 :] == [told(8), told(9)]
    assert sorted(number for request in threads.desk.requests[FULL + 1 :] for number in request) == [8, 9]
    threads.anew()
    assert outcomes(threads.full(let=True)) == list(map(told, range(FULL))), "no turn is lost"


def test_a_waiter_that_is_interrupted_leaves_the_line_and_blocks_nobody(threads: Threads) -> None:
    futures = threads.full()
    main = threading.get_ident()

    def interrupt() -> list[Future[Acknowledged]]:
        threads.line.lined_up.get(timeout=SECONDS)
        later = threads.calls(8)
        signal.pthread_kill(main, signal.SIGINT)
        return later

    with ThreadPoolExecutor(1) as pool:
        later = pool.submit(interrupt)
        with pytest.raises(KeyboardInterrupt):
            threads.line.carry_out(call(7))
    threads.let(100)
    assert outcomes([*futures, *later.result()]) == [*map(told, range(FULL)), told(8)]
    assert [7] not in threads.desk.requests
    threads.anew()
    assert outcomes(threads.full(let=True)) == list(map(told, range(FULL))), "no turn is lost"


def test_one_that_is_interrupted_while_another_sends_for_it_is_not_sent_again(threads: Threads) -> None:
    threads.desk.guilty[7] = Interrupt()
    futures = threads.full() + threads.calls(7)
    main = threading.get_ident()

    def interrupt() -> list[Future[Acknowledged]]:
        threads.line.lined_up.get(timeout=SECONDS)
        later = threads.calls(9)
        threads.let(1)
        assert threads.desk.arrived.get(timeout=SECONDS) == [7, 8, 9]
        signal.pthread_kill(main, signal.SIGINT)
        return later

    with ThreadPoolExecutor(1) as pool:
        later = pool.submit(interrupt)
        with pytest.raises(KeyboardInterrupt):
            threads.line.carry_out(call(8))
    threads.let(100)
    *_, sender = outcomes(futures)
    assert isinstance(sender, Interrupt)
    assert outcomes(later.result()) == [told(9)]
    assert threads.desk.requests[FULL:] == [[7, 8, 9], [9]]
    threads.anew()
    assert outcomes(threads.full(let=True)) == list(map(told, range(FULL))), "no turn is lost"


def test_threads_of_a_served_hub_share_requests_and_a_wrong_one_is_told_alone(hub: sync.Hub) -> None:
    with hub.batches.open("night") as batch:
        items = list(batch.add(2_000))
    calls = [items[first : first + 10] for first in range(0, 2_000, 10)]
    calls[50] = ["junk", items[500]]
    calls[60] = [f"{batch.id}:77:1", *calls[60]]
    with ThreadPoolExecutor(16) as pool:
        found = outcomes([pool.submit(batch.acknowledge, each) for each in calls])
    assert isinstance(found[50], errors.InvalidItem)
    answers = [each for each in found if isinstance(each, Acknowledged)]
    assert [each.acknowledged for each in answers] == [10] * 199
    assert [each.unknown for each in answers if each.unknown] == [(f"{batch.id}:77:1",)]
    assert batch.acknowledge(items).complete == (CompleteBatch(id=batch.id, key="night"),)
