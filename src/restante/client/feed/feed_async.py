"""`hub.feed` and `hub.snapshot` for asynchronous programs. `FeedCrew` reads ahead."""

from __future__ import annotations

from collections.abc import AsyncIterator
from types import TracebackType
from typing import Self

from restante.calls.feed import ReadSnapshot
from restante.calls.mailboxes import ListPartitions
from restante.client.feed.feed_crew_async import FeedCrew
from restante.client.feed.feed_pages import FeedPage, FeedReading, SnapshotPage
from restante.client.transport.link import AsyncLink, where
from restante.errors import InvalidOperation


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
        self._crew: FeedCrew | None = None

    def __repr__(self) -> str:
        return f"<Feed of the hub {where(self._link)}, at {self.positions}>"

    async def __aiter__(self) -> AsyncIterator[FeedPage]:
        earlier, crew = self._crew, FeedCrew(self._link, self._reading)
        self._crew = crew
        if earlier is not None:
            await earlier.stop()
        try:
            async for page in crew.pages(self.positions):
                if page.table.num_rows or page.position > self.positions.get(page.partition, 0):
                    yield page
                if self._crew is not crew:
                    raise InvalidOperation(
                        "Another iteration of this feed has begun. Ask the hub for a feed of your own."
                    )
                self.positions[page.partition] = page.position
        finally:
            if self._crew is crew:
                self._crew = None
            await crew.stop()

    async def close(self) -> None:
        """Stop reading. An iteration that waits for a page in another task ends.

        ```python
        feed = hub.feed(follow=True)
        await feed.close()
        ```
        """
        crew = self._crew
        if crew is not None:
            await crew.stop()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()


class Snapshot:
    """The messages stored in partitions, page by page, one partition after the other: `async for page in snapshot`.

    `positions` has a partition when all of its pages were done with; given to `hub.feed` as `after`, the feed goes on there.
    """

    def __init__(self, link: AsyncLink, reading: FeedReading) -> None:
        self._link = link
        self._reading = reading
        self.positions: dict[int, int] = {}

    def __repr__(self) -> str:
        return f"<Snapshot of the hub {where(self._link)}, at {self.positions}>"

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
