"""`hub.feed` and `hub.snapshot` for programs that wait.

A few threads take tracks that are to be read, read each, or wait at it, and hand the page on. The program's own thread
takes the pages one by one, and puts each track back to be read further. A thread that waits at the hub cannot be called
off, so it waits a second at most.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from queue import SimpleQueue
from types import TracebackType
from typing import Self

from restante.calls.feed import ReadFeed, ReadSnapshot
from restante.calls.mailboxes import ListPartitions
from restante.client.feed.feed_pages import FeedPage, FeedReading, SnapshotPage, Track, longest_wait
from restante.client.transport.link import Link
from restante.errors import InvalidOperation
from restante.limits import FEED_POLL_SECONDS, FEED_READS_MAX


class Feed:
    """The changes of partitions, page by page: `for page in feed`. Use it in a `with` statement, or close it.

    Pages of one partition come in order. `positions` says for each partition where to go on, given to `hub.feed` as `after`.
    It moves when the next page is asked for: so a page that was not done with is read again. To iterate once more goes on
    from there, too, and ends an earlier iteration.
    """

    def __init__(self, link: Link, reading: FeedReading) -> None:
        self._link = link
        self._reading = reading
        self.positions: dict[int, int] = dict(reading.after)
        self._crew: _Crew | None = None

    def __iter__(self) -> Iterator[FeedPage]:
        earlier, crew = self._crew, _Crew(self._link, self._reading)
        self._crew = crew
        if earlier is not None:
            earlier.stop()
        try:
            for page in crew.pages(self.positions):
                if page.table.num_rows or page.position > self.positions.get(page.partition, 0):
                    yield page
                if self._crew is not crew:
                    raise InvalidOperation("This feed is read anew elsewhere. Ask the hub for one of your own.")
                self.positions[page.partition] = page.position
        finally:
            if self._crew is crew:
                self._crew = None
            crew.stop()

    def close(self) -> None:
        """Whoever waits for a page, in another thread, gets none any more."""
        crew = self._crew
        if crew is not None:
            crew.stop()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class _Crew:
    """The threads that read for one iteration."""

    def __init__(self, link: Link, reading: FeedReading) -> None:
        self._link = link
        self._reading = reading
        self._wait = self._rest = 0.0
        self._room = threading.Semaphore(FEED_READS_MAX)
        """For pages that are read as fast as can be."""
        self._to_read: SimpleQueue[Track | None] = SimpleQueue()
        self._read: SimpleQueue[tuple[Track, FeedPage, bool] | BaseException | None] = SimpleQueue()
        self._threads: list[threading.Thread] = []
        self._lock = threading.Lock()
        self._stopped = threading.Event()

    def pages(self, positions: dict[int, int]) -> Iterator[FeedPage]:
        tracks = self._reading.tracks(self._link.call(ListPartitions()), positions)
        self._wait = longest_wait(len(tracks), seconds_max=FEED_POLL_SECONDS)
        self._rest = self._reading.rest(len(tracks))
        self._start(tracks)
        unfinished = len(tracks)
        while unfinished and not self._stopped.is_set():
            taken = self._read.get()
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
                self._to_read.put(track)
            yield page

    def stop(self) -> None:
        """Returns when all of them have ended, unless the hub keeps one waiting: that one ends by itself."""
        with self._lock:
            self._stopped.set()
        self._read.put(None)
        for _ in self._threads:
            self._room.release()
            self._to_read.put(None)
        deadline = time.monotonic() + 2 * FEED_POLL_SECONDS
        for thread in self._threads:
            thread.join(max(deadline - time.monotonic(), 0))

    def _start(self, tracks: list[Track]) -> None:
        for track in tracks:
            self._to_read.put(track)
        with self._lock:
            if self._stopped.is_set():
                return
            for _ in range(self._reading.readers(len(tracks))):
                thread = threading.Thread(target=self._work, name="restante-feed", daemon=True)
                self._threads.append(thread)
                thread.start()

    def _work(self) -> None:
        try:
            while (track := self._to_read.get()) is not None and not self._stopped.is_set():
                self._follow(track)
        except BaseException as error:  # noqa: BLE001  # whatever it is, it belongs to the reader
            self._read.put(error)

    def _follow(self, track: Track) -> None:
        hurried = track.behind
        if hurried:
            self._room.acquire()
        elif not track.rested:
            # Single changes that follow one another closely are read in handfuls.
            self._stopped.wait(self._rest)
        if self._stopped.is_set():
            return
        asked = self._reading
        answer = self._link.call(
            ReadFeed(
                track.partition,
                after=track.position,
                wish=asked.wish,
                limit=asked.limit,
                wait=0 if hurried else self._wait,
                reader=asked.reader,
            )
        )
        self._read.put((track, track.took(answer), hurried))


class Snapshot:
    """What is stored in partitions, page by page, one partition after the other: `for page in snapshot`.

    `positions` has a partition when all of its pages were done with; given to `hub.feed` as `after`, the feed goes on there.
    """

    def __init__(self, link: Link, reading: FeedReading) -> None:
        self._link = link
        self._reading = reading
        self.positions: dict[int, int] = {}

    def __iter__(self) -> Iterator[SnapshotPage]:
        self.positions.clear()
        known = self._link.call(ListPartitions()) if self._reading.partitions is None else ()
        self._reading.check_known(known, self._reading.positions, name="positions")
        for partition in self._reading.chosen(known):
            position = 0
            for page in self._pages(partition):
                if page.table.num_rows:
                    yield page
                position = page.position
            self.positions[partition] = position

    def _pages(self, partition: int) -> Iterator[SnapshotPage]:
        asked, after = self._reading, None
        position = asked.positions.get(partition)
        while True:
            answer = self._link.call(
                ReadSnapshot(partition, after=after, position=position, wish=asked.wish, limit=asked.limit)
            )
            yield SnapshotPage(table=answer.table, partition=partition, position=answer.position)
            after = answer.next
            if after is None:
                return
