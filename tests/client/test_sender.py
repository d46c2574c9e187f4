"""Senders of threads and of tasks: how many loads are under way, when they look again, and how they end."""

from __future__ import annotations

import asyncio
import threading
import time
from collections import deque

import pytest

from restante.client.sending.sender_async import AsyncSender
from restante.client.sending.sender_sync import Sender

SECONDS = 20.0
SOON = 0.02


class Numbers:
    """Gathers numbers, each due at a moment of its own, in their order."""

    def __init__(self) -> None:
        self.waiting: deque[tuple[float, int]] = deque()
        self.unsettled = 0
        self.closed = False
        self.early: list[int] = []
        """Those that were taken before they were due."""

    @property
    def finished(self) -> bool:
        return self.closed and not self.unsettled

    def put(self, *numbers: int, seconds: float = 0) -> None:
        self.waiting.extend((time.monotonic() + seconds, number) for number in numbers)
        self.unsettled += len(numbers)

    def wait(self, now: float) -> float | None:
        return max(self.waiting[0][0] - now, 0) if self.waiting else None

    def take(self) -> int:
        due, number = self.waiting.popleft()
        if time.monotonic() < due:
            self.early.append(number)
        return number


class Threads:
    """A sender of threads, which sends when it is let."""

    def __init__(self, at_once: int = 1) -> None:
        self.numbers = Numbers()
        self.sender = Sender(self.numbers, self._send, name="some-sender", at_once=at_once)
        self.sent: list[int] = []
        self.most = self.under_way = 0
        self.let = threading.Semaphore(0)

    def _send(self, number: int) -> None:
        with self.sender.changed:
            self.under_way += 1
            self.most = max(self.most, self.under_way)
            self.sender.changed.notify_all()
        assert self.let.acquire(timeout=SECONDS)
        with self.sender.changed:
            self.under_way -= 1
            self.sent.append(number)
            self.numbers.unsettled -= 1
            self.sender.changed.notify_all()

    def put(self, *numbers: int, seconds: float = 0) -> None:
        with self.sender.changed:
            self.numbers.put(*numbers, seconds=seconds)
            self.sender.stir()

    def wait_until_under_way(self, count: int) -> None:
        with self.sender.changed:
            assert self.sender.changed.wait_for(lambda: self.under_way == count, SECONDS)

    def end(self) -> None:
        with self.sender.changed:
            self.numbers.closed = True
        self.let.release(100)
        self.sender.finish()


@pytest.mark.parametrize("at_once", [1, 3])
def test_threads_send_as_many_loads_at_a_time_as_they_may(at_once: int) -> None:
    threads = Threads(at_once)
    threads.put(*range(10))
    threads.wait_until_under_way(at_once)
    threads.end()
    assert sorted(threads.sent) == [*range(10)]
    assert threads.most == at_once
    assert "some-sender" not in {thread.name for thread in threading.enumerate()}


def test_one_thread_keeps_the_order() -> None:
    threads = Threads()
    threads.put(1, 2)
    threads.put(3)
    threads.end()
    assert threads.sent == [1, 2, 3]


def test_a_thread_looks_by_itself_when_a_load_will_be_due() -> None:
    threads = Threads()
    threads.put(1, seconds=SOON)
    threads.wait_until_under_way(1)
    threads.end()
    assert (threads.sent, threads.numbers.early) == ([1], [])


def test_no_thread_is_begun_before_there_is_anything_to_send() -> None:
    threads = Threads()
    with threads.sender.changed:
        threads.sender.stir()
    assert "some-sender" not in {thread.name for thread in threading.enumerate()}
    threads.end()


class Tasks:
    """A sender of tasks, which sends when it is let."""

    def __init__(self, at_once: int = 1) -> None:
        self.numbers = Numbers()
        self.sender = AsyncSender(self.numbers, self._send, name="some-sender", at_once=at_once)
        self.sent: list[int] = []
        self.given_up: list[int] = []
        self.most = self.under_way = 0
        self.let = asyncio.Event()

    async def _send(self, number: int) -> None:
        self.under_way += 1
        self.most = max(self.most, self.under_way)
        assert self.sender.is_current
        self.sender.changed.notify_all()
        try:
            await self.let.wait()
        except asyncio.CancelledError:
            self.given_up.append(number)
            raise
        finally:
            self.under_way -= 1
            self.numbers.unsettled -= 1
            self.sender.changed.notify_all()
        self.sent.append(number)

    def put(self, *numbers: int, seconds: float = 0) -> None:
        self.numbers.put(*numbers, seconds=seconds)
        self.sender.stir()

    async def end(self) -> None:
        self.numbers.closed = True
        self.let.set()
        await self.sender.finish()


@pytest.mark.parametrize("at_once", [1, 3])
def test_tasks_send_as_many_loads_at_a_time_as_they_may(at_once: int) -> None:
    async def story() -> None:
        tasks = Tasks(at_once)
        tasks.put(*range(10))
        assert await tasks.sender.changed.wait_for(lambda: tasks.under_way == at_once, SECONDS)
        await tasks.end()
        assert sorted(tasks.sent) == [*range(10)]
        assert tasks.most == at_once
        assert asyncio.all_tasks() == {asyncio.current_task()}

    asyncio.run(story())


def test_a_timer_looks_when_a_load_will_be_due() -> None:
    async def story() -> None:
        tasks = Tasks()
        tasks.put(1, seconds=SOON)
        assert tasks.sender.alarmed
        assert await tasks.sender.changed.wait_for(lambda: tasks.under_way == 1, SECONDS)
        await tasks.end()
        assert (tasks.sent, tasks.numbers.early) == ([1], [])

    asyncio.run(story())


def test_a_cancelled_sender_sends_nothing_more() -> None:
    async def story() -> None:
        tasks = Tasks()
        tasks.put(1, 2)
        assert await tasks.sender.changed.wait_for(lambda: tasks.under_way == 1, SECONDS)
        await tasks.sender.cancel()
        assert (tasks.given_up, tasks.sent, len(tasks.numbers.waiting)) == ([1], [], 1)

    asyncio.run(story())


def test_a_caller_that_stops_waiting_for_the_end_harms_nothing() -> None:
    async def story() -> None:
        tasks = Tasks()
        tasks.put(1, 2)
        tasks.numbers.closed = True
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(SOON):
                await tasks.sender.finish()
        await tasks.end()
        assert tasks.sent == [1, 2]

    asyncio.run(story())
