"""Questions and answers about the feed, as values: the same in process and over the network."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    import pyarrow as pa


class FeedWish(msgspec.Struct, frozen=True, kw_only=True):
    """The changes that a reader asks for. Empty: all origins, all kinds, all recipients, all columns."""

    origins: tuple[str, ...] = ()
    kinds: tuple[str, ...] = ()
    recipients: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()


EVERYTHING = FeedWish()


class FeedAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """Changes of one partition in order, by `FEED_SCHEMA` or the columns asked for."""

    table: pa.Table
    next: int
    """The `after` of the next call: all up to it was looked at, also what the wish leaves out."""
    start: int
    """One more than the last number that retention removed."""
    end: int
    """The visible sequence: the last number there is."""
    stream: memoryview | None = None
    """The table as an Arrow stream, if that is made already; not used over the network."""


class SnapshotAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """A page of the messages stored in one partition as of one moment, by `MESSAGE_SCHEMA` or the columns asked for."""

    table: pa.Table
    next: str | None
    """The `after` of the next page; None: this is the last."""
    position: int
    """The `after` from which the feed goes on."""
    after: Callable[[int], str] | None = None
    """Gives the `after` of a page that begins after so many of these rows; not used over the network."""


class ReaderStatus(msgspec.Struct, frozen=True, kw_only=True):
    """How far a reader of the feed is, over all partitions that it has read since the hub was opened."""

    reader: str
    lag: int
    """How many numbers come after the positions up to which it has read."""
    changes: int
    """Rows given to it."""
    requests: int
