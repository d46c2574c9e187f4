"""Reading the tracks of a feed, for programs that wait.

A few threads take tracks that are to be read, read each, or wait at it, and hand the page on. The program's own thread
takes the pages one by one, and puts each track back to be read further. A thread that waits at the hub cannot be called
off, so it waits a second at most.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from queue import SimpleQueue

from restante.calls.feed import ReadFeed
from restante.calls.mailboxes import ListPartitions
from restante.client.feed.feed_pages import FeedPage, FeedReading, Track, longest_wait
from restante.client.transport.link import Link
from restante.limits import FEED_POLL_SECONDS, FEED_READS_MAX


class FeedCrew:
    """The threads that read for one iteration."""

    def __init__(self, link: Link, reading: FeedReading) -> None:
        self._link = link
        self._reading = reading
        self._wait = self._rest = 0.0
        self._room = threading.Semaphore(FEED_READS_MAX)
        """Room for pages that are read as fast as can be."""
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
