"""Reading along: the changes of a partition, and what is stored in it as of one moment."""

from __future__ import annotations

from restante.calls.call import Call, Count, Number, Seconds
from restante.model.feed.feed_answers import EVERYTHING, FeedAnswer, FeedWish, SnapshotAnswer


class ReadFeed(Call[FeedAnswer], frozen=True):
    """The changes of a partition beyond `after`; if there are none, `wait` seconds for one."""

    partition: int
    after: Number | None = None
    wish: FeedWish = EVERYTHING
    limit: Count | None = None
    wait: Seconds = 0
    reader: str | None = None
    """A name under which the hub says how far this reader has come."""


class ReadSnapshot(Call[SnapshotAnswer], frozen=True):
    """A page of the messages stored in a partition as of one moment; `after` is the `next` of the page before.

    The moment is when the first page is read, or an earlier `position`. Messages that were erased since are not shown.
    """

    partition: int
    after: str | None = None
    position: Number | None = None
    wish: FeedWish = EVERYTHING
    limit: Count | None = None
