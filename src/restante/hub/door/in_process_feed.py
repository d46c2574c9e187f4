"""The feed of a hub in this process as asynchronous programs read it. A wait takes no thread."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import msgspec

from restante.calls.feed import ReadFeed, ReadSnapshot
from restante.hub.door.in_process_watch import OwnWays, Threads
from restante.hub.feed.calls import (
    check_feed,
    check_snapshot,
    feed_pause,
    look_feed,
    look_snapshot,
    note_reader,
    nothing_beyond,
    nothing_new,
    snapshot_pause,
)
from restante.limits import WAIT_SECONDS_MAX
from restante.model.feed.feed_answers import FeedAnswer, SnapshotAnswer


async def read_feed(link: Threads, call: ReadFeed) -> FeedAnswer:
    core = link.hub.core
    check_feed(core, call)
    if call.wait > 0:
        found = await _Follower(link).follow(call, min(call.wait, WAIT_SECONDS_MAX))
    else:
        await asyncio.sleep(feed_pause(core, call))
        found = await link.thread(look_feed, core, call)
    note_reader(core, call, found)
    return found


async def read_snapshot(link: Threads, call: ReadSnapshot) -> SnapshotAnswer:
    core = link.hub.core
    check_snapshot(core, call)
    await asyncio.sleep(snapshot_pause(core))
    return await link.thread(look_snapshot, core, call)


class _Follower:
    """A reader that waits at the end of a partition."""

    def __init__(self, link: Threads) -> None:
        self._link = link
        self._core = link.hub.core
        self._loop = asyncio.get_running_loop()
        self._rung = asyncio.Event()

    async def follow(self, call: ReadFeed, seconds: float) -> FeedAnswer:
        """The answer when there is something new beyond `after`, or the time is up."""
        core, deadline = self._core, self._loop.time() + seconds
        with core.bell.listening_to_partition(call.partition, self._ring):
            while True:
                self._rung.clear()
                found = nothing_beyond(core, call)
                if found is not None and not await self._heard(deadline):
                    return found
                if found is None or not core.closing.is_set():
                    found = await self._look(call, deadline)
                call = msgspec.structs.replace(call, after=found.next)
                if not nothing_new(found) or self._loop.time() >= deadline or core.closing.is_set():
                    return found

    def _ring(self) -> None:
        if not self._rung.is_set():
            self._loop.call_soon_threadsafe(self._rung.set)

    async def _heard(self, deadline: float) -> bool:
        with suppress(TimeoutError):
            async with asyncio.timeout_at(deadline):
                await self._rung.wait()
        return self._rung.is_set()

    async def _look(self, call: ReadFeed, deadline: float) -> FeedAnswer:
        pause = feed_pause(self._core, call, following=True)
        await asyncio.sleep(min(pause, max(0, deadline - self._loop.time())))
        return await self._link.thread(look_feed, self._core, call, following=True)


OWN_WAYS: OwnWays = {ReadFeed: read_feed, ReadSnapshot: read_snapshot}
