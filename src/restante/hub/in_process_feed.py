"""The feed of a hub in this process as asynchronous programs read it."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Awaitable, Callable
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
        look = functools.partial(self.hub.look_feed, partition, wish=wish, limit=limit)
        found = await self.thread(look, after=after)
        if wait > 0 and nothing_new(found):
            found = await _waited(self.hub, partition, lambda after: self.thread(look, after=after), found.next, wait)
        self.hub.note_reader(reader, partition, found)
        return found

    async def snapshot(
        self: _Threads,
        partition: int,
        *,
        after: str | None = None,
        wish: FeedWish = EVERYTHING,
        limit: int | None = None,
    ) -> SnapshotAnswer:
        return await self.thread(self.hub.snapshot, partition, after=after, wish=wish, limit=limit)


async def _waited(
    hub: Hub, partition: int, look: Callable[[int], Awaitable[FeedAnswer]], after: int, seconds: float
) -> FeedAnswer:
    """The answer when there is something new beyond `after`, or the time is up."""
    loop, rung = asyncio.get_running_loop(), asyncio.Event()
    deadline = loop.time() + min(seconds, WAIT_SECONDS_MAX)

    def ring() -> None:
        loop.call_soon_threadsafe(rung.set)

    with hub.listening_to_partition(partition, ring):
        while True:
            found = await look(after)
            if not nothing_new(found) or loop.time() >= deadline or hub.closing:
                return found
            after = found.next
            try:
                async with asyncio.timeout_at(deadline):
                    await rung.wait()
            except TimeoutError:
                return found
            rung.clear()
