"""The clerk: computes what filing writes, large pages of the feed, and the mailbags of bulk.

It stores nothing and keeps nothing, so it may be another process, and may die.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

import pyarrow as pa

from restante.model.publishing.bulk_parcel import BulkParcel
from restante.model.storage.changes import Buffer
from restante.model.storage.joined_segments import joined
from restante.model.storage.segment_frame import EncodedSegment


class SegmentPart(NamedTuple):
    """The part of one segment that is merged: drawers `first` up to, but without, `last`, whose rows begin with row `row`."""

    front: bytes
    base: int
    published_at: int
    first: int
    last: int
    row: int
    records: Buffer
    data: Buffer
    properties: Buffer


class PlacedSegment(NamedTuple):
    """A segment in a file: where it begins, how long it and its front are, and what its run says of it."""

    path: str
    start: int
    length: int
    front: int
    base: int
    published_at: int


class PageQuestion(NamedTuple):
    """The messages of these segments with numbers from `low` to `high` (inclusive), in number order."""

    segments: Sequence[PlacedSegment]
    low: int
    high: int
    columns: Sequence[str]
    with_checks: bool
    """Whether messages of the hub's own health checks are asked for, too."""
    released: Sequence[Sequence[int]]
    """The messages that were released to the end: the numbers that they have, those that they had, and when."""


class BulkTerms(NamedTuple):
    """The terms on which a body is laid out: those of the data folder, the settings, and the time."""

    key: int
    partition_count: int
    claim_check_origins: Sequence[str] | None
    data_bytes_max: int
    now: int


class ReadPage(NamedTuple):
    """Rows of the feed, the same as an Arrow stream, and the seconds of processor time that they took elsewhere."""

    table: pa.Table
    stream: memoryview
    seconds: float


class Clerk(Protocol):
    """Computes for the hub in another process. Used from any thread. If the clerk cannot do a piece of work, its caller does it."""

    def joined(self, contents: Sequence[bytes], shifts: Sequence[int], group: int) -> EncodedSegment | None:
        """Small segments as one, or None, as `model.storage.joined_segments` has it; `DataDamaged` if one is not as it was written."""
        ...

    @property
    def merges(self) -> bool:
        """Whether the clerk merges parts now; otherwise the caller does, which has them at hand."""
        ...

    def merged(self, parts: Sequence[SegmentPart], first: int) -> list[EncodedSegment] | None:
        """The segments of one slice of a shelf, with all rows of these parts; None if it could not."""
        ...

    @property
    def reads(self) -> bool:
        """Whether the clerk reads pages of the feed now; otherwise the caller does."""
        ...

    def published(self, page: PageQuestion) -> ReadPage | None:
        """The rows that are asked for; None if it could not: the caller reads them, and meets the reason."""
        ...

    @property
    def lays_out(self) -> bool:
        """Whether the clerk lays out bulk now; otherwise the caller does."""
        ...

    def laid_out(self, body: Buffer, terms: BulkTerms) -> BulkParcel | None:
        """The mailbags of an Arrow stream, if nothing is wrong with it or special; None: the caller finds out, and does the work."""
        ...

    def close(self) -> None: ...


class OwnClerk:
    """Does all of it in the thread that asks."""

    merges = False
    reads = False
    lays_out = False

    def joined(self, contents: Sequence[bytes], shifts: Sequence[int], group: int) -> EncodedSegment | None:
        return joined(contents, shifts, group)

    def merged(self, parts: Sequence[SegmentPart], first: int) -> list[EncodedSegment] | None:  # noqa: ARG002 - never asked
        return None

    def published(self, page: PageQuestion) -> ReadPage | None:  # noqa: ARG002 - never asked
        return None

    def laid_out(self, body: Buffer, terms: BulkTerms) -> BulkParcel | None:  # noqa: ARG002 - never asked
        return None

    def close(self) -> None:
        """Close nothing: there is nothing to end."""
