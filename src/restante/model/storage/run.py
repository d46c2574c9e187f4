"""Runs are mailbags and shelves. A run is a small row that names its segments, the blobs with its messages.

What must stay true: the visible runs of a partition cover ranges of sequence numbers that never overlap.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import IntEnum

import msgspec
import numpy as np
from numpy.typing import NDArray

from restante import limits
from restante.decoders import packed_decoder
from restante.model.columns.hashing import Hashes
from restante.model.storage.changes import BlobKey
from restante.model.storage.identity import expand
from restante.model.storage.segment import Segment, decode

LoadSegment = Callable[[], Segment]
"""A function that reads the front of a segment, or finds it in a cache."""


class RunState(IntEnum):
    """Numbers are part of the stored format."""

    VISIBLE = 1
    FEED = 2
    """Merged into a shelf, and kept because the feed reads it in number order."""
    STAGED = 3
    """A run of an open consignment, which has no numbers yet and is invisible."""


class SegmentRow(msgspec.Struct, frozen=True, array_like=True):
    blob: int
    length: int
    front: int
    rows: int
    first_hash: int | None = None
    """The hash of its first recipient, by which a recipient's segments are found in a run of several."""
    earliest_expiry: int | None = None
    """The earliest expiry in the segment. Only shelves record it and `first_hash`; for other runs the directory is read."""


class RunRow(msgspec.Struct, frozen=True, array_like=True):
    """The stored row of a run, kept under `identity`, the number of its first blob."""

    identity: int
    first: int
    last: int
    segments: tuple[SegmentRow, ...]
    state: RunState
    made_at: int
    mailbag: bool
    published_at: int = 0
    """When its messages were published, if their records do not say; else 0."""

    @property
    def rows(self) -> int:
        return sum([segment.rows for segment in self.segments])

    @property
    def length(self) -> int:
        segments = self.segments
        return segments[0].length if len(segments) == 1 else sum([segment.length for segment in segments])


_TINY_BYTES = 16 * limits.KIB
_SMALL_BYTES = 256 * limits.KIB
_SMALL_TIER = 1

_encoder = msgspec.msgpack.Encoder()
_decoder = packed_decoder(RunRow)


def encode_run(row: RunRow) -> bytes:
    return _encoder.encode(row)


def decode_run(value: bytes) -> RunRow:
    return _decoder.decode(value)


class StoredSegment:
    """A segment with its blob."""

    __slots__ = ("_damaged", "_dated", "_known", "base", "blob", "earliest_expiry", "published_at")

    def __init__(self, blob: BlobKey, base: int, known: Segment | bytes | LoadSegment, published_at: int = 0) -> None:
        self.blob = blob
        self.base = base
        """The first sequence number of its run. A row's number is base + place."""
        self.published_at = published_at
        """When its messages were published, if their records do not say; else 0."""
        self.earliest_expiry: int | None = None
        """The earliest expiry of its messages, if it is known without reading the directory."""
        self._known = known
        self._dated = not published_at
        self._damaged = isinstance(known, Segment) and known.damaged is not None

    def numbered(self, row: RunRow) -> StoredSegment:
        """The same segment in a run with this row."""
        return StoredSegment(self.blob, row.first, self._known, row.published_at)

    @property
    def damaged(self) -> bool:
        """Whether its directory is known to be damaged. An unread directory counts as sound."""
        return self._damaged

    def may_have_origin(self, origin: str) -> bool:
        """Whether the segment may have messages of an origin, judged without reading or decoding its front."""
        known = self._known
        if isinstance(known, bytes):
            return origin.encode() in known
        return origin in known.names.origins if isinstance(known, Segment) else True

    @property
    def segment(self) -> Segment:
        """The decoded front. A front that was just encoded is decoded on first use; that of an older segment is loaded.

        Two threads may decode the same front at once, which does no harm. Often filing is the first user.
        """
        known = self._known
        if isinstance(known, Segment) and self._dated:
            return known
        if isinstance(known, bytes):
            known = self._known = decode(known, trusted=True)
        if isinstance(known, Segment):
            if not self._dated:
                known = self._known = known.published(self.published_at)
                self._dated = True
            return known
        segment = known()
        self._damaged = segment.damaged is not None
        return segment.published(self.published_at) if self.published_at else segment


class Run:
    """A run in the catalog."""

    __slots__ = ("_first_hash", "content", "recipients", "row", "segments")

    def __init__(
        self,
        row: RunRow,
        segments: tuple[StoredSegment, ...],
        recipients: frozenset[int] | None,
        content: bytes | None = None,
    ) -> None:
        self.row = row
        self.content = content
        """All bytes of a tiny new run, kept because filing will need them soon."""
        self.segments = segments
        self.recipients = recipients
        """The hashes of all its recipients, if they are few and known; None if its directories must be read."""
        self._first_hash: Hashes | None = None

    @staticmethod
    def of(
        row: RunRow,
        partition: int,
        segments: Sequence[Segment | bytes | LoadSegment],
        recipients: frozenset[int] | None = None,
    ) -> Run:
        """A stored run. Each segment is given by its front, encoded or decoded, or by a function that loads it."""
        stored = [
            StoredSegment(BlobKey(partition, place.blob), row.first, segment, row.published_at)
            for place, segment in zip(row.segments, segments, strict=True)
        ]
        for each, place in zip(stored, row.segments, strict=True):
            each.earliest_expiry = place.earliest_expiry
        return Run(row, tuple(stored), recipients)

    def numbered(self, row: RunRow) -> Run:
        """The same run under another row, which gives its messages their numbers."""
        stored = [each.numbered(row) for each in self.segments]
        return Run(row, tuple(stored), self.recipients)

    @property
    def first_hash(self) -> Hashes:
        """The first recipient hash of each segment, ascending, because the segments of a run are in order."""
        if self._first_hash is None:
            told = [place.first_hash for place in self.row.segments if place.first_hash is not None]
            if len(told) == len(self.segments):
                self._first_hash = np.array(told, np.uint64)
            else:
                self._first_hash = _first_hashes([stored.segment for stored in self.segments])
        return self._first_hash


def _first_hashes(segments: Sequence[Segment]) -> Hashes:
    """The first recipient hash of each segment. If the first line is damaged, it may be as low as the last of the one before."""
    first = [segment.recipient_hash[0] for segment in segments]
    for index, segment in enumerate(segments):
        if index and segment.damaged is not None and segment.damaged[0]:
            first[index] = segments[index - 1].recipient_hash[-1]
    return np.maximum.accumulate(np.array(first, np.uint64))


def drawer_numbers(stored: StoredSegment) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """First and last sequence number of each drawer."""
    drawers = stored.segment.drawers
    return drawers["first_place"].astype(np.int64) + stored.base, drawers["last_place"].astype(np.int64) + stored.base


def drawer_of_rows(stored: StoredSegment) -> NDArray[np.int64]:
    """The drawer of each row; -1 where its line in the directory is damaged."""
    segment = stored.segment
    counts = segment.drawers["count"].astype(np.int64)
    drawer = np.repeat(np.arange(len(counts)), counts)
    if segment.damaged is None:
        return drawer
    of_row = np.full(segment.rows, -1, np.int64)
    of_row[expand(segment.drawers["row"].astype(np.int64), counts)] = drawer
    return of_row


def in_order(row: RunRow) -> bool:
    """Whether a visible run can be read in number order. A mailbag or a shelf of one segment is read whole and sorted."""
    return row.mailbag or len(row.segments) == 1


def tier_of(length: int) -> int:
    """The size class of a run: tiny, small, then classes that each reach to eight times the one before."""
    if length < _TINY_BYTES:
        return 0
    tier, bound = 1, _SMALL_BYTES
    while length >= bound:
        tier, bound = tier + 1, bound * limits.FILING_FAN_IN
    return tier


def is_small(row: RunRow) -> bool:
    """Whether filing everything merges a run with any small neighbour."""
    return row.length < _SMALL_BYTES


def choose_merge(
    runs: Sequence[RunRow], *, everything: bool = False, handful: int = limits.FILING_HANDFUL
) -> Sequence[RunRow]:
    """Neighbouring runs worth merging now, or none.

    Eight neighbouring runs of one size class are merged, and tiny ones when there are `handful` of them, because a merge of
    tiny runs costs about the same for few as for many. Smaller runs between them are merged along. `FILING_FAN_IN_MAX`
    neighbours up to a class are merged in any case, so that a large mailbag cannot leave small runs stranded. With
    `everything`, any two small neighbours are enough.
    """
    tiers = [tier_of(run.length) for run in runs]
    if everything:
        tiers = [max(tier, _SMALL_TIER) for tier in tiers]
    for tier in sorted(set(tiers)):
        start, least = 0, _least(tier, handful, everything=everything)
        while start < len(runs):
            if tiers[start] > tier:
                start += 1
                continue
            end = start
            while end < len(runs) and tiers[end] <= tier and end - start < limits.FILING_FAN_IN_MAX:
                end += 1
            enough = tiers[start:end].count(tier) >= least or end - start >= limits.FILING_FAN_IN_MAX
            if enough and _numbers_fit(runs[start:end]):
                return runs[start:end]
            start = end
    return ()


def _least(tier: int, handful: int, *, everything: bool) -> int:
    """How many neighbours of a size class are worth merging."""
    if everything and tier == _SMALL_TIER:
        return 2
    return limits.FILING_FAN_IN if tier else handful


def _numbers_fit(runs: Sequence[RunRow]) -> bool:
    """Whether places in the merged run fit into 32 bits."""
    return runs[-1].last - runs[0].first <= limits.RUN_MESSAGES_MAX
