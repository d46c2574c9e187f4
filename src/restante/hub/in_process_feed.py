"""The feed of a hub in this process as asynchronous programs read it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import ParamSpec, Protocol, TypeVar

from restante.hub.feed_calls import check_reader, nothing_new
from restante.hub.hub import Hub
from restante.limits import WAIT_SECONDS_MAX
from restante.model.feed_answers import EVERYTHING, FeedAnswer, FeedWish, SnapshotAnswer

P = ParamSpec("P")
T = TypeVar("T")


class _Threads(Protocol):
    """What the calls below need of the link that they are part of."""

    @property
    def hub(self) -> Hub: ...
    async def thread(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T: ...


class InProcessFeed:
    """The calls of those who read along. Whoever waits takes no thread."""

    async def feed(
        self: _Threads,
        partition: int,
        *,
        after: int | None = None,
        wish: FeedWish = EVERYTHING,
        limit: int | None = None,
        wait: float = 0,
        reader: str | None = None,
    ) -> FeedAnswer:
        check_reader(reader)
        self.hub.check_feed(partition, after=after, wish=wish, limit=limit)
        if wait > 0:
            found = await _Follower(self, partition, wish, limit).follow(after, min(wait, WAIT_SECONDS_MAX))
        else:
            await asyncio.sleep(self.hub.feed_pause(partition, after, limit))
            found = await self.thread(self.hub.look_feed, partition, after=after, wish=wish, limit=limit)
        self.hub.note_reader(reader, partition, found)
        return found

    async def snapshot(
        self: _Threads,
        partition: int,
        *,
        after: str | None = None,
        position: int | None = None,
        wish: FeedWish = EVERYTHING,
        limit: int | None = None,
    ) -> SnapshotAnswer:
        return await self.thread(self.hub.snapshot, partition, after=after, position=position, wish=wish, limit=limit)


class _Follower:
    """Somebody who waits at a partition."""

    def __init__(self, link: _Threads, partition: int, wish: FeedWish, limit: int | None) -> None:
        self._link = link
        self._partition = partition
        self._wish = wish
        self._limit = limit
        self._loop = asyncio.get_running_loop()
        self._rung = asyncio.Event()

    async def follow(self, after: int | None, seconds: float) -> FeedAnswer:
        """The answer when there is something new beyond `after`, or the time is up."""
        hub, deadline = self._link.hub, self._loop.time() + seconds
        with hub.listening_to_partition(self._partition, self._ring):
            while True:
                self._rung.clear()
                found = hub.nothing_beyond(self._partition, after, self._wish)
                if found is not None and not await self._heard(deadline):
                    return found
                if found is None or not hub.core.closing.is_set():
                    found = await self._look(after, deadline)
                after = found.next
                if not nothing_new(found) or self._loop.time() >= deadline or hub.core.closing.is_set():
                    return found

    def _ring(self) -> None:
        if not self._rung.is_set():
            self._loop.call_soon_threadsafe(self._rung.set)

    async def _heard(self, deadline: float) -> bool:
        with suppress(TimeoutError):
            async with asyncio.timeout_at(deadline):
                await self._rung.wait()
        return self._rung.is_set()

    async def _look(self, after: int | None, deadline: float) -> FeedAnswer:
        hub = self._link.hub
        pause = hub.feed_pause(self._partition, after, self._limit, following=True)
        await asyncio.sleep(min(pause, max(0, deadline - self._loop.time())))
        return await self._link.thread(
            hub.look_feed, self._partition, after=after, wish=self._wish, limit=self._limit, following=True
        )
