"""Readers along while others publish: in this process, or in one of its own over the wire.

One that *follows* begins at the end, is known to be there when a first message has reached it, and goes on until it has seen
everything. One that *catches up* reads all from the start, without pause, and again when it is through.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from enum import Enum
from multiprocessing.connection import Connection

import restante
from bench.load import Child
from restante.client.feed.feed_pages import FeedPage
from restante.client.surface.asynchronous import Hub as AsyncHub
from restante.client.surface.surface import Hub
from restante.model.mailboxes.answers import PartitionStatus


class Reader(Enum):
    NOBODY = "without a reader"
    FOLLOWING = "a reader follows"
    CATCHING_UP = "a reader catches up"


@dataclass(frozen=True, slots=True)
class Seen:
    """Changes that came, and in how many seconds."""

    changes: int
    seconds: float


def ends(partitions: Sequence[PartitionStatus]) -> dict[int, int]:
    return {status.partition: status.visible_sequence for status in partitions}


class ReaderProcess(Child):
    """A reader over the wire, from `start` to `stop`."""

    def __init__(self, url: str) -> None:
        super().__init__(_read, url)
        self._reader = Reader.NOBODY
        self._expected = 0

    def start(self, reader: Reader, expected: int, publish_one: Callable[[], object]) -> None:
        """Returns when it reads. One that follows is sent a message, and waits for as many more as are expected."""
        self._reader, self._expected = reader, expected + 1
        if reader is Reader.NOBODY:
            return
        self.ask((reader, self._expected))
        if reader is Reader.FOLLOWING:
            publish_one()
        self.answer()

    def stop(self) -> Seen | None:
        """Stop the reader, and give what came; of one that follows, when all has come."""
        if self._reader is Reader.NOBODY:
            return None
        seen: Seen = self.ask(None)
        if self._reader is Reader.FOLLOWING:
            assert seen.changes == self._expected, f"{seen.changes} changes instead of {self._expected}"
        return seen


def _read(pipe: Connection, url: str) -> None:
    """The work of a `ReaderProcess`: it reports when it is ready, when it has read something and, once stopped, what it has read."""
    with restante.connect(url) as hub, suppress(EOFError, BrokenPipeError):
        while True:
            reader, expected = pipe.recv()
            work = _follow if reader is Reader.FOLLOWING else _catch_up
            seen = work(hub, expected, pipe)
            pipe.recv()
            pipe.send(seen)


def _follow(hub: Hub, expected: int, pipe: Connection) -> Seen:
    changes, start = 0, time.perf_counter()
    with hub.feed(after=ends(hub.partitions()), follow=True) as feed:
        pipe.send(None)
        for page in feed:
            if page.table.num_rows and not changes:
                pipe.send(None)
            changes += page.table.num_rows
            if changes >= expected:
                break
    return Seen(changes, time.perf_counter() - start)


def _catch_up(hub: Hub, _: int, pipe: Connection) -> Seen:
    changes, start = 0, time.perf_counter()
    pipe.send(None)
    while True:
        for page in hub.feed():
            if page.table.num_rows and not changes:
                pipe.send(None)
            changes += page.table.num_rows
            if pipe.poll():
                return Seen(changes, time.perf_counter() - start)


@asynccontextmanager
async def reading(
    hub: AsyncHub, reader: Reader, expected: int, publish_one: Callable[[], Awaitable[object]]
) -> AsyncIterator[list[Seen]]:
    """While inside, a reader reads in this process, as `ReaderProcess` does elsewhere. The list gets its report at the end."""
    found: list[Seen] = []
    if reader is Reader.NOBODY:
        yield found
        return
    task = _Task(expected + 1)
    following = reader is Reader.FOLLOWING
    after = ends(await hub.partitions()) if following else {}
    async with asyncio.TaskGroup() as tasks:
        reads = tasks.create_task(task.follow(hub, after) if following else task.catch_up(hub))
        if following:
            await publish_one()
        await task.came.wait()
        yield found
        task.stop = True
        found.append(await reads)


class _Task:
    """A reader in this process."""

    def __init__(self, expected: int) -> None:
        self.came = asyncio.Event()
        self.stop = False
        self._expected = expected
        self._changes = 0
        self._start = time.perf_counter()

    async def follow(self, hub: AsyncHub, after: dict[int, int]) -> Seen:
        async with hub.feed(after=after, follow=True) as feed:
            async for page in feed:
                if self._took(page) >= self._expected:
                    break
        assert self._changes == self._expected, f"{self._changes} changes instead of {self._expected}"
        return self._seen()

    async def catch_up(self, hub: AsyncHub) -> Seen:
        while True:
            async with hub.feed() as feed:
                async for page in feed:
                    self._took(page)
                    if self.stop:
                        return self._seen()

    def _took(self, page: FeedPage) -> int:
        self._changes += page.table.num_rows
        self.came.set()
        return self._changes

    def _seen(self) -> Seen:
        return Seen(self._changes, time.perf_counter() - self._start)
