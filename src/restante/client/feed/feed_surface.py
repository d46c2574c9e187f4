"""`Feed` and `Snapshot`, protocols: the same in process and over the network. `restante.client.surface` has all of them."""

from __future__ import annotations

from collections.abc import Iterator
from types import TracebackType
from typing import Protocol, Self

from restante.client.feed.feed_pages import FeedPage, SnapshotPage


class Feed(Protocol):
    """The changes of partitions, page by page. Use it in a `with` statement, or close it."""

    positions: dict[int, int]
    """For each partition, where to go on. It moves when the next page is asked for."""

    def __iter__(self) -> Iterator[FeedPage]: ...
    def close(self) -> None: ...
    def __enter__(self) -> Self: ...
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


class Snapshot(Protocol):
    """The messages stored in partitions as of one moment each, page by page."""

    positions: dict[int, int]
    """For each partition that was read whole, where the feed goes on."""

    def __iter__(self) -> Iterator[SnapshotPage]: ...
