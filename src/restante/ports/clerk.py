"""The clerk: computes what filing writes. It stores nothing and keeps nothing, so it may be another process, and may die."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from restante.model.storage.changes import Buffer
from restante.model.storage.joined import joined
from restante.model.storage.segment import EncodedSegment


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


class Clerk(Protocol):
    """Used from any thread. What it cannot do, its caller does."""

    def joined(self, contents: Sequence[bytes], shifts: Sequence[int], group: int) -> EncodedSegment | None:
        """Small segments as one, or None, as `model.storage.joined` has it; `DataDamaged` if one is not as it was written."""
        ...

    @property
    def merges(self) -> bool:
        """Whether it merges parts now; otherwise the caller does, who has them at hand."""
        ...

    def merged(self, parts: Sequence[SegmentPart], first: int) -> list[EncodedSegment] | None:
        """The segments of one slice of a shelf, with all rows of these parts; None if it could not."""
        ...

    def close(self) -> None: ...


class OwnClerk:
    """Does all of it in the thread that asks."""

    merges = False

    def joined(self, contents: Sequence[bytes], shifts: Sequence[int], group: int) -> EncodedSegment | None:
        return joined(contents, shifts, group)

    def merged(self, parts: Sequence[SegmentPart], first: int) -> list[EncodedSegment] | None:  # noqa: ARG002 - never asked
        return None

    def close(self) -> None:
        """Close nothing: there is nothing to end."""
