"""`hub.feed` and `hub.snapshot` for asynchronous programs.

A few tasks take tracks that are to be read, read each, or wait at it, and hand the page on. The program's own task takes
the pages one by one, and puts each track back to be read further.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from types import TracebackType
from typing import Self

from restante.calls.feed import ReadFeed, ReadSnapshot
from restante.calls.mailboxes import ListPartitions
from restante.client.feed.feed_pages import FeedPage, FeedReading, SnapshotPage, Track, longest_wait
from restante.client.transport.link import AsyncLink
from restante.errors import InvalidOperation
from restante.limits import FEED_READS_MAX, WAIT_SECONDS_MAX


class Feed:
    """The changes of partitions, page by page: `async for page in feed`. Use it in an `async with` statement, or close it.

    Pages of one partition come in order. `positions` says for each partition where to go on, given to `hub.feed` as `after`.
    It moves when the next page is asked for: so a page that was not done with is read again. To iterate once more goes on
    from there, too, and ends an earlier iteration.
    """

    def __init__(self, link: AsyncLink, reading: FeedReading) -> None:
        self._link = link
        self._reading = reading
        self.positions: dict[int, int] = dict(reading.after)
        self._crew: _Crew | None = None

    async def __aiter__(self) -> AsyncIterator[FeedPage]:
        earlier, crew = self._crew, _Crew(self._link, self._reading)
        self._crew = crew
        if earlier is not None:
            await earlier.stop()
        try:
            async for page in crew.pages(self.positions):
                if page.table.num_rows or page.position > self.positions.get(page.partition, 0):
                    yield page
                if self._crew is not crew:
                    raise InvalidOperation("This feed is read anew elsewhere. Ask the hub for one of your own.")
                self.positions[page.partition] = page.position
        finally:
            if self._crew is crew:
                self._crew = None
            await crew.stop()

    async def close(self) -> None:
        """Whoever waits for a page gets none any more."""
        if self._crew is not None:
            await self._crew.stop()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()


class _Crew:
    """The tasks that read for one iteration."""

    def __init__(self, link: AsyncLink, reading: FeedReading) -> None:
        self._link = link
        self._reading = reading
        self._wait = self._rest = 0.0
        self._room = asyncio.Semaphore(FEED_READS_MAX)
        """For pages that are read as fast as can be."""
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


class Snapshot:
    """What is stored in partitions, page by page, one partition after the other: `async for page in snapshot`.

    `positions` has a partition when all of its pages were done with; given to `hub.feed` as `after`, the feed goes on there.
    """

    def __init__(self, link: AsyncLink, reading: FeedReading) -> None:
        self._link = link
        self._reading = reading
        self.positions: dict[int, int] = {}

    async def __aiter__(self) -> AsyncIterator[SnapshotPage]:
        self.positions.clear()
        known = await self._link.call(ListPartitions()) if self._reading.partitions is None else ()
        self._reading.check_known(known, self._reading.positions, name="positions")
        for partition in self._reading.chosen(known):
            position = 0
            async for page in self._pages(partition):
                if page.table.num_rows:
                    yield page
                position = page.position
            self.positions[partition] = position

    async def _pages(self, partition: int) -> AsyncIterator[SnapshotPage]:
        asked, after = self._reading, None
        position = asked.positions.get(partition)
        while True:
            answer = await self._link.call(
                ReadSnapshot(partition, after=after, position=position, wish=asked.wish, limit=asked.limit)
            )
            yield SnapshotPage(table=answer.table, partition=partition, position=answer.position)
            after = answer.next
            if after is None:
                return
