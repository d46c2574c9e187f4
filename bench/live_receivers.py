"""Receivers that wait for messages: many connections in one event loop, the same for everybody but for how each is made."""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import Coroutine, Iterable
from typing import Any, cast

import numpy as np
import uvloop

from bench.live import Audience, More, Received

CONNECTING_MAX = 64
"""Connections that are being made at the same time."""
WAIT_SECONDS_MAX = 300.0
NOT_READ_BYTES = 4_096
"""The bytes that a stuck connection's kernel takes in for it."""


class Inbox:
    """The messages that came to one connection."""

    __slots__ = ("_done", "dropped", "left", "moments", "numbers")

    def __init__(self, expected: int, done: asyncio.Semaphore) -> None:
        self.expect(expected, done)

    def expect(self, expected: int, done: asyncio.Semaphore) -> None:
        """Begin again with nothing received, and count up to so many."""
        self.left = expected
        self.numbers: list[int] = []
        self.moments: list[float] = []
        self.dropped = 0
        self._done = done
        if not expected:
            done.release()

    def take(self, numbers: Iterable[int]) -> None:
        """Messages that a program could work with from now on."""
        before = len(self.numbers)
        self.numbers.extend(numbers)
        count = len(self.numbers) - before
        self.moments.extend([time.perf_counter()] * count)
        self._less(count)

    def miss(self, count: int) -> None:
        """Note that so many will not come."""
        self.dropped += count
        self._less(count)

    def _less(self, count: int) -> None:
        self.left -= count
        if not self.left and count:
            self._done.release()


class Receiver:
    """A driver (`bench.load.DriverProcess`): prepares an audience, and runs until each has what it waits for."""

    def __init__(self) -> None:
        self._runner = asyncio.Runner(loop_factory=uvloop.new_event_loop)
        self._inboxes: list[Inbox] = []
        self._done = asyncio.Semaphore(0)
        self._failure: BaseException | None = None

    async def connect(self, name: str, inbox: Inbox) -> None:
        """Connect a client; returns when messages would come at once."""
        raise NotImplementedError

    async def connect_stuck(self, name: str) -> None:
        """Connect a client that never reads."""
        raise NotImplementedError

    async def disconnect(self) -> None:
        raise NotImplementedError

    def prepare(self, given: Audience | More) -> None:
        self._runner.run(self._open(given) if isinstance(given, Audience) else self._expect(given))
        # Connections and their buffers stay, so the garbage collector need not look at them while messages come.
        gc.collect()
        gc.freeze()

    def run(self) -> Received:
        received = self._runner.run(self._wait())
        gc.unfreeze()
        return received

    def close(self) -> None:
        self._runner.run(self.disconnect())
        self._runner.close()

    async def _open(self, audience: Audience) -> None:
        asyncio.get_running_loop().set_exception_handler(self._fail)
        await self.disconnect()
        self._done = asyncio.Semaphore(0)
        self._inboxes = [Inbox(expected, self._done) for expected in audience.expected]
        turns = asyncio.Semaphore(CONNECTING_MAX)

        async def within(making: Coroutine[Any, Any, None]) -> None:
            async with turns:
                await asyncio.wait_for(making, WAIT_SECONDS_MAX)

        await asyncio.gather(
            *(
                within(self.connect_stuck(name) if place in audience.stuck else self.connect(name, inbox))
                for place, (name, inbox) in enumerate(zip(audience.names, self._inboxes, strict=True))
            )
        )

    async def _expect(self, more: More) -> None:
        self._done = asyncio.Semaphore(0)
        for inbox, expected in zip(self._inboxes, more.expected, strict=True):
            inbox.expect(expected, self._done)

    async def _wait(self) -> Received:
        try:
            async with asyncio.timeout(WAIT_SECONDS_MAX):
                for _ in self._inboxes:
                    await self._done.acquire()
                    if self._failure is not None:
                        raise self._failure
        except TimeoutError:
            left = [inbox.left for inbox in self._inboxes if inbox.left]
            raise RuntimeError(f"{len(left)} connections still wait for {sum(left)} messages") from None
        return Received(
            connections=np.repeat(np.arange(len(self._inboxes)), [len(inbox.numbers) for inbox in self._inboxes]),
            numbers=np.array([number for inbox in self._inboxes for number in inbox.numbers], np.int64),
            moments=np.array([moment for inbox in self._inboxes for moment in inbox.moments]),
            dropped=sum(inbox.dropped for inbox in self._inboxes),
        )

    def _fail(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """End the sample with what a connection raises."""
        loop.default_exception_handler(context)
        self._failure = self._failure or context.get("exception") or RuntimeError(context["message"])
        self._done.release()


class Link(asyncio.Protocol):
    """A bare connection: greets, is ready when the server has answered, then takes what comes."""

    def __init__(self, inbox: Inbox) -> None:
        self.inbox = inbox
        self.ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def greet(self) -> None:
        raise NotImplementedError

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)
        self.greet()

    def is_ready(self) -> None:
        if not self.ready.done():
            self.ready.set_result(None)

    def connection_lost(self, exc: Exception | None) -> None:
        """Fail if the connection was not ready yet. A connection that is lost later is noticed by the time limit of the wait."""
        if not self.ready.done():
            self.ready.set_exception(exc or ConnectionError("the server closed a connection"))


class BareReceiver(Receiver):
    """Connections with nothing between the socket and a parser."""

    def __init__(self, port: int) -> None:
        super().__init__()
        self._port = port
        self._links: list[Link] = []

    def link(self, name: str, inbox: Inbox) -> Link:
        raise NotImplementedError

    async def connect(self, name: str, inbox: Inbox) -> None:
        loop = asyncio.get_running_loop()
        _, link = await loop.create_connection(lambda: self.link(name, inbox), "127.0.0.1", self._port)
        self._links.append(link)
        await link.ready

    async def disconnect(self) -> None:
        for link in self._links:
            link.transport.abort()
        self._links = []
