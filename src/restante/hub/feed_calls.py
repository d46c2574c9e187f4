"""The hub's door for those who read along."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext

from restante import limits
from restante.errors import InvalidRequest
from restante.hub.core import Core, is_text
from restante.hub.feed import read_feed
from restante.hub.publish import check_partition
from restante.hub.snapshot import read_snapshot
from restante.model.feed import FEED_SCHEMA, feed_columns, schema_of
from restante.model.feed_answers import EVERYTHING, FeedAnswer, FeedWish, ReaderStatus, SnapshotAnswer
from restante.model.outtake import MESSAGE_SCHEMA


class FeedCalls:
    """What a hub tells those who read along. Every method may be called from any thread."""

    _core: Core

    def feed(
        self,
        partition: int,
        *,
        after: int | None = None,
        wish: FeedWish = EVERYTHING,
        limit: int | None = None,
        wait: float = 0,
        reader: str | None = None,
    ) -> FeedAnswer:
        """The changes of a partition beyond `after`; if there are none, `wait` seconds for one."""
        check_reader(reader)
        self.check_feed(partition, after=after, wish=wish, limit=limit)
        if wait > 0:
            found = self._follow(partition, after, wish, limit, min(wait, limits.WAIT_SECONDS_MAX))
        else:
            self._core.closing.wait(self.feed_pause(partition, after, limit))
            found = self.look_feed(partition, after=after, wish=wish, limit=limit)
        self.note_reader(reader, partition, found)
        return found

    def _follow(
        self, partition: int, after: int | None, wish: FeedWish, limit: int | None, seconds: float
    ) -> FeedAnswer:
        deadline, rung, closing = time.monotonic() + seconds, threading.Event(), self._core.closing
        with self.listening_to_partition(partition, rung.set):
            while True:
                rung.clear()
                found = self.nothing_beyond(partition, after, wish)
                if found is not None and not rung.wait(max(0, deadline - time.monotonic())):
                    return found
                if found is None or not closing.is_set():
                    pause = self.feed_pause(partition, after, limit, following=True)
                    closing.wait(min(pause, max(0, deadline - time.monotonic())))
                    if found is not None and closing.is_set():
                        return found
                    found = self.look_feed(partition, after=after, wish=wish, limit=limit, following=True)
                after = found.next
                if not nothing_new(found) or time.monotonic() >= deadline or closing.is_set():
                    return found

    def nothing_beyond(self, partition: int, after: int | None, wish: FeedWish) -> FeedAnswer | None:
        """The answer to who is at the end of the log; None to who is not, or does not know. Nothing is read for it.

        None also when the hub closes: whoever looks hears of it.
        """
        counters = self._core.partitions[partition].counters
        end = counters.visible
        if after is None or after < end or self._core.closing.is_set():
            return None
        empty = schema_of(feed_columns(wish.columns)).empty_table()
        return FeedAnswer(table=empty, next=after, start=counters.feed_gone + 1, end=end)

    def feed_pause(self, partition: int, after: int | None, limit: int | None, *, following: bool = False) -> float:
        """How many seconds to let pass before looking, so that reading along costs the publishers little.

        Who follows gathers what comes meanwhile, unless there is a full page for him. Who catches up pauses only while
        others commit.
        """
        paces, visible = self._core.feed.paces, self._core.partitions[partition].counters.visible
        if following and after is not None and visible - after < _page(limit):
            return paces.following.pause()
        if time.monotonic() - self._core.bell.rung_at > limits.FEED_BUSY_SECONDS:
            return 0.0
        return paces.catching_up.pause()

    def check_feed(self, partition: int, *, after: int | None, wish: FeedWish, limit: int | None) -> None:
        _check(self._core, partition, after, limit)
        _check_wish(wish, FEED_SCHEMA.names)

    def look_feed(
        self, partition: int, *, after: int | None, wish: FeedWish, limit: int | None, following: bool = False
    ) -> FeedAnswer:
        """The changes that there are now. What was asked for has been checked."""
        paces = self._core.feed.paces
        pace = paces.following if following else paces.catching_up
        # Those of a round read one after the other: at once they would only fight for the interpreter.
        with paces.one_at_a_time if following else nullcontext():
            before = time.thread_time()
            found = read_feed(self._core, partition, after, wish, _page(limit))
            pace.note(time.thread_time() - before)
        return found

    def note_reader(self, reader: str | None, partition: int, found: FeedAnswer) -> None:
        """Somebody got an answer."""
        if reader is not None:
            self._core.feed.readers.note(reader, partition, position=found.next, rows=found.table.num_rows)

    def listening_to_partition(self, partition: int, ring: Callable[[], None]) -> AbstractContextManager[None]:
        """While inside, `ring` is called after each commit in the partition."""
        return self._core.bell.listening_to_partition(partition, ring)

    def snapshot(
        self,
        partition: int,
        *,
        after: str | None = None,
        position: int | None = None,
        wish: FeedWish = EVERYTHING,
        limit: int | None = None,
    ) -> SnapshotAnswer:
        """A page of the messages stored in a partition as of one moment; `after` is the `next` of the page before.

        The moment is when the first page is read, or an earlier `position`. What was erased since is not shown.
        """
        _check(self._core, partition, None, limit)
        _check_wish(wish, MESSAGE_SCHEMA.names)
        return read_snapshot(self._core, partition, wish, _page(limit), after=after, position=position)

    def feed_readers(self) -> tuple[ReaderStatus, ...]:
        """How far those who gave a name have read."""
        return self._core.feed.readers.status([partition.counters.visible for partition in self._core.partitions])


def nothing_new(found: FeedAnswer) -> bool:
    """Whether there is nothing to tell, and nothing to look at right away."""
    return not found.table.num_rows and found.next >= found.end


def _page(limit: int | None) -> int:
    return limits.FEED_CHANGES_DEFAULT if limit is None else min(limit, limits.FEED_CHANGES_MAX)


def check_reader(reader: str | None) -> None:
    if reader is None:
        return
    if not is_text(reader) or not reader.strip() or len(reader) > limits.READER_CHARACTERS_MAX:
        raise InvalidRequest(
            f"A reader's name is text of 1 to {limits.READER_CHARACTERS_MAX} characters, not {reader!r}.",
            parameter="reader",
        )


def _check(core: Core, partition: int, after: int | None, limit: int | None) -> None:
    check_partition(core, partition)
    if after is not None and not 0 <= after < 2**63:
        raise InvalidRequest(f"after must be a sequence number, 0 or more, not {after}.", parameter="after")
    if limit is not None and limit < 1:
        raise InvalidRequest(f"limit must be at least 1, not {limit}.", parameter="limit")


def _check_wish(wish: FeedWish, known: Sequence[str]) -> None:
    for name in wish.columns:
        if name not in known:
            raise InvalidRequest(
                f"There is no column {name!r}. There are {', '.join(known)}.", parameter="columns", column=name
            )
    for parameter in ("origins", "kinds", "recipients"):
        for text in getattr(wish, parameter):
            if not is_text(text):
                raise InvalidRequest(f"{parameter} must be texts, not {text!r}.", parameter=parameter)
