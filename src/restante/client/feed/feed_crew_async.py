"""Reading the tracks of a feed, for asynchronous programs.

A few tasks take tracks that are to be read, read each, or wait at it, and hand the page on. The program's own task takes
the pages one by one, and puts each track back to be read further.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from restante.calls.feed import ReadFeed
from restante.calls.mailboxes import ListPartitions
from restante.client.feed.feed_pages import FeedPage, FeedReading, Track, longest_wait
from restante.client.transport.link import AsyncLink
from restante.limits import FEED_READS_MAX, WAIT_SECONDS_MAX


class FeedCrew:
    """The tasks that read for one iteration."""

    def __init__(self, link: AsyncLink, reading: FeedReading) -> None:
        self._link = link
        self._reading = reading
        self._wait = self._rest = 0.0
        self._room = asyncio.Semaphore(FEED_READS_MAX)
        """Room for pages that are read as fast as can be."""
        self._to_read: asyncio.Queue[Track] = asyncio.Queue()
        self._read: asyncio.Queue[tuple[Track, FeedPage, bool] | BaseException | None] = asyncio.Queue()
        self._tasks: list[asyncio.Task[None]] = []
        self._stopped = False

    async def pages(self, positions: dict[int, int]) -> AsyncIterator[FeedPage]:
        tracks = self._reading.tracks(await self._link.call(ListPartitions()), positions)
        self._wait = longest_wait(len(tracks), seconds_max=WAIT_SECONDS_MAX)
        self._rest = self._reading.rest(len(tracks))
        for track in tracks:
            self._to_read.put_nowait(track)
        if not self._stopped:
            self._tasks = [asyncio.create_task(self._work()) for _ in range(self._reading.readers(len(tracks)))]
        unfinished = len(tracks)
        while unfinished and not self._stopped:
            taken = await self._read.get()
            if taken is None:
                return
            if isinstance(taken, BaseException):
                raise taken
            track, page, hurried = taken
            if hurried:
                self._room.release()
            if track.done:
                unfinished -= 1
            else:
                self._to_read.put_nowait(track)
            yield page

    async def stop(self) -> None:
        self._stopped = True
        self._read.put_nowait(None)
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _work(self) -> None:
        try:
            # A request that is answered at the very moment of a cancellation may swallow it.
            while not self._stopped:
                await self._follow(await self._to_read.get())
        except Exception as error:  # noqa: BLE001  # whatever it is, it belongs to the reader
            self._read.put_nowait(error)

    async def _follow(self, track: Track) -> None:
        hurried = track.behind
        if hurried:
            await self._room.acquire()
        elif not track.rested:
            # Single changes that follow one another closely are read in handfuls.
            await asyncio.sleep(self._rest)
        asked = self._reading
        answer = await self._link.call(
            ReadFeed(
                track.partition,
                after=track.position,
                wish=asked.wish,
                limit=asked.limit,
                wait=0 if hurried else self._wait,
                reader=asked.reader,
            )
        )
        self._read.put_nowait((track, track.took(answer), hurried))
