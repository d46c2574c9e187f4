"""The functions that carry out `ReadFeed` and `ReadSnapshot`."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from contextlib import nullcontext

import msgspec

from restante import limits
from restante.calls.feed import ReadFeed, ReadSnapshot
from restante.errors import InvalidRequest
from restante.hub.engine.core import Core, is_text
from restante.hub.engine.procedures import Functions
from restante.hub.feed.feed import read_feed
from restante.hub.feed.feed_memory import FeedMemory
from restante.hub.feed.snapshot import read_snapshot
from restante.hub.publishing.publish import check_partition
from restante.model.access.access import Grant
from restante.model.feed.feed import FEED_SCHEMA, feed_columns, schema_of
from restante.model.feed.feed_answers import FeedAnswer, FeedWish, ReaderStatus, SnapshotAnswer
from restante.model.mailboxes.filters import check_filters
from restante.model.mailboxes.message_tables import MESSAGE_SCHEMA


def changes(core: Core, call: ReadFeed, _: Grant) -> FeedAnswer:
    check_feed(core, call)
    if call.wait > 0:
        found = _follow(core, call, min(call.wait, limits.WAIT_SECONDS_MAX))
    else:
        core.closing.wait(feed_pause(core, call))
        found = look_feed(core, call)
    note_reader(core, call, found)
    return found


def _follow(core: Core, call: ReadFeed, seconds: float) -> FeedAnswer:
    deadline, rung, closing = time.monotonic() + seconds, threading.Event(), core.closing
    with core.bell.listening_to_partition(call.partition, rung.set):
        while True:
            rung.clear()
            found = nothing_beyond(core, call)
            if found is not None and not rung.wait(max(0, deadline - time.monotonic())):
                return found
            if found is None or not closing.is_set():
                pause = feed_pause(core, call, following=True)
                closing.wait(min(pause, max(0, deadline - time.monotonic())))
                if found is not None and closing.is_set():
                    return found
                found = look_feed(core, call, following=True)
            call = msgspec.structs.replace(call, after=found.next)
            if not nothing_new(found) or time.monotonic() >= deadline or closing.is_set():
                return found


def nothing_beyond(core: Core, call: ReadFeed) -> FeedAnswer | None:
    """The answer for a reader at the end of the log, which needs no read; None for a reader that is elsewhere.

    None also when the hub closes, because the read that follows raises the error.
    """
    counters = core.partitions[call.partition].counters
    end = counters.visible
    if call.after is None or call.after != end or core.closing.is_set():
        return None
    empty = schema_of(feed_columns(call.wish.columns)).empty_table()
    return FeedAnswer(table=empty, next=call.after, start=counters.feed_gone + 1, end=end)


def nothing_new(found: FeedAnswer) -> bool:
    """Whether the answer has no rows, and the reader has reached the end of the log."""
    return not found.table.num_rows and found.next >= found.end


def feed_pause(core: Core, call: ReadFeed, *, following: bool = False) -> float:
    """How many seconds to wait before a read, so that feed readers cost publishers little.

    While a follower waits, changes gather for it; it does not wait if a full page is ready. A reader that catches up pauses
    only while others commit.
    """
    paces, visible = core.memory(FeedMemory).paces, core.partitions[call.partition].counters.visible
    if following and call.after is not None and visible - call.after < _page(call.limit):
        return paces.following.pause()
    return paces.catching_up.pause() if _is_busy(core) else 0.0


def _is_busy(core: Core) -> bool:
    """Whether there was a commit lately."""
    return time.monotonic() - core.bell.rung_at <= limits.FEED_BUSY_SECONDS


def look_feed(core: Core, call: ReadFeed, *, following: bool = False) -> FeedAnswer:
    """Read the changes that there are now. The caller has checked the call.

    While others commit, pages are short, so that other threads wait less for the interpreter.
    """
    paces = core.memory(FeedMemory).paces
    enough = limits.FEED_CHANGES_BESIDE if _is_busy(core) else None
    # Followers read one after another, because in parallel they would only compete for the interpreter.
    with paces.one_at_a_time if following else nullcontext():
        before = time.thread_time()
        found = read_feed(core, call.partition, call.after, call.wish, _page(call.limit), enough=enough)
        seconds = time.thread_time() - before
    if following:
        paces.following.note(seconds)
    else:
        paces.caught_up(seconds, found.table.nbytes)
    return found


def note_reader(core: Core, call: ReadFeed, found: FeedAnswer) -> None:
    """Note the answer that a named reader got."""
    if call.reader is not None:
        rows = found.table.num_rows
        core.memory(FeedMemory).readers.note(call.reader, call.partition, position=found.next, rows=rows)


def snapshot(core: Core, call: ReadSnapshot, _: Grant) -> SnapshotAnswer:
    check_snapshot(core, call)
    core.closing.wait(snapshot_pause(core))
    return look_snapshot(core, call)


def check_snapshot(core: Core, call: ReadSnapshot) -> None:
    _check(core, call.partition, None, call.limit)
    _check_wish(call.wish, MESSAGE_SCHEMA.names)


def snapshot_pause(core: Core) -> float:
    """How many seconds to wait before a page. A snapshot reader is paced like a reader that catches up."""
    return core.memory(FeedMemory).paces.catching_up.pause() if _is_busy(core) else 0.0


def look_snapshot(core: Core, call: ReadSnapshot) -> SnapshotAnswer:
    """Read a page. The caller has checked the call."""
    limit, before = _page(call.limit), time.thread_time()
    limit = min(limit, limits.FEED_CHANGES_BESIDE) if _is_busy(core) else limit
    found = read_snapshot(core, call.partition, call.wish, limit, after=call.after, position=call.position)
    core.store.require_owned()
    core.memory(FeedMemory).paces.caught_up(time.thread_time() - before, found.table.nbytes)
    return found


def feed_readers(core: Core) -> tuple[ReaderStatus, ...]:
    """How far each named reader has read."""
    return core.memory(FeedMemory).readers.status(
        {partition.number: partition.counters.visible for partition in core.partitions}
    )


def check_feed(core: Core, call: ReadFeed) -> None:
    _check_reader(call.reader)
    _check(core, call.partition, call.after, call.limit)
    _check_wish(call.wish, FEED_SCHEMA.names)


def _page(limit: int | None) -> int:
    return limits.FEED_CHANGES_DEFAULT if limit is None else min(limit, limits.FEED_CHANGES_MAX)


def _check_reader(reader: str | None) -> None:
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
    check_filters("origin", wish.origins)
    check_filters("kind", wish.kinds)
    check_filters("recipient", wish.recipients)


FUNCTIONS: Functions = {ReadFeed: changes, ReadSnapshot: snapshot}
