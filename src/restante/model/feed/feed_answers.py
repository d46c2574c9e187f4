"""The wishes and answers of feed readers, as values: the same in process and over the network."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    import pyarrow as pa


class FeedWish(msgspec.Struct, frozen=True, kw_only=True):
    """The changes that a reader asks for. An empty field means all origins, kinds, recipients or columns."""

    origins: tuple[str, ...] = ()
    kinds: tuple[str, ...] = ()
    recipients: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()


EVERYTHING = FeedWish()


class FeedAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """Changes of one partition in order, with the columns of `FEED_SCHEMA` or those asked for."""

    table: pa.Table
    next: int
    """The `after` of the next call. Everything up to it is covered, including changes that the wish leaves out."""
    start: int
    """One more than the last number that retention removed."""
    end: int
    """The visible sequence number, the last there is."""
    stream: memoryview | None = None
    """The table as an Arrow stream, if it exists already; not sent over the network."""


class SnapshotAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """A page of the messages stored in one partition as of one moment, with all columns or those asked for."""

    table: pa.Table
    next: str | None
    """The `after` of the next page; None if this is the last."""
    position: int
    """The `after` from which the feed goes on."""
    after: Callable[[int], str] | None = None
    """A function from a number of these rows to the `after` of a page that begins after them; not sent over the network."""


class ReaderStatus(msgspec.Struct, frozen=True, kw_only=True):
    """The progress of a feed reader, over all partitions that it has read since the hub was opened."""

    reader: str
    lag: int
    """How many numbers come after its positions."""
    changes: int
    """Rows given to it."""
    requests: int
