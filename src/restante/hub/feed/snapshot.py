"""A snapshot: all messages stored in a partition, in every state, as of one position of its log, in pages.

The position is the visible sequence number when the first page is read, or an earlier one that the caller names. Pages leave
out messages and changes after the position, so together they show one moment, from which the feed continues. A snapshot is
readable while the feed could continue from its position: after that, retention may have removed the change record that
shows that a message was set aside or moved only later.

Runs are sorted by recipient hash, and filing keeps that order. So pages are in the order of (hash, number), and a token
says how far the pages before have come.
"""

from __future__ import annotations

import base64
import binascii
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from restante import limits
from restante.decoders import packed_decoder
from restante.errors import InvalidRequest, PositionGone, Unavailable
from restante.hub.engine.core import Core
from restante.hub.engine.partitions import PARTITION_KEY, Partition, PartitionRow
from restante.hub.feed.feed import choice_of
from restante.hub.feed.feed_rows import load, spans_of
from restante.hub.feed.feed_sources import feed_gone
from restante.hub.feed.snapshot_states import HashRange, records_and_heads, states_at
from restante.hub.mailboxes.message_columns import STATE_TEXTS, Fates
from restante.model.columns.arrays import Numbers, Rows
from restante.model.columns.arrow import Column, column_of, strings_of
from restante.model.columns.hashing import Hashes
from restante.model.columns.texts import Texts
from restante.model.feed.feed_answers import FeedWish, SnapshotAnswer
from restante.model.feed.gathered_messages import Gathered, message_column
from restante.model.feed.span_rows import Choice, Span, SpanRows, joined_arrays, lines_of, mask_of, row_sizes
from restante.model.mailboxes.message_tables import MESSAGE_SCHEMA, time_column
from restante.model.storage.changes import Space
from restante.model.storage.head import EMPTY_HEAD
from restante.model.storage.keys import Cabinet
from restante.model.storage.merge import cabinets_of
from restante.model.storage.run import Run, StoredSegment, drawer_numbers

_TOKEN = struct.Struct(">3Q")
_HASH_MAX = 2**64 - 1
_LAST = 2**63 - 1
_DRAWERS_AT_ONCE = 100_000
_TRIES_MAX = 100


class _Token(NamedTuple):
    """The position, and how far the pages have come: all lower hashes, and messages of `hash` up to `number`."""

    position: int
    hash: int
    number: int

    def text(self) -> str:
        return base64.urlsafe_b64encode(_TOKEN.pack(*self)).decode()

    @staticmethod
    def parse(text: str, visible: int) -> _Token:
        try:
            token = _Token(*_TOKEN.unpack(base64.urlsafe_b64decode(text.encode())))
        except (ValueError, binascii.Error, struct.error, AttributeError) as error:
            raise _bad_token(text) from error
        if token.position > visible or token.number > _LAST or token.text() != text:
            raise _bad_token(text)
        return token


def _bad_token(text: object) -> InvalidRequest:
    return InvalidRequest(f"after must be the next of the page before, not {text!r}.", parameter="after")


def read_snapshot(
    core: Core, partition: int, wish: FeedWish, limit: int, *, after: str | None, position: int | None
) -> SnapshotAnswer:
    """A page of at most `limit` messages: the first one if `after` is None, as of now if `position` is None."""
    memory, choice = core.partitions[partition], choice_of(core, wish)
    names = tuple(n for n in MESSAGE_SCHEMA.names if not wish.columns or n in wish.columns or n == "sequence_number")
    token = _begin(memory.counters.visible, after, position)
    for _ in range(_TRIES_MAX):
        with core.pins.reading():
            erasures = memory.counters.erasures
            page = _Page(core, memory, token, choice, names)
            answer = page.read(limit)
            _check_kept(core, memory, token.position)
            if _erasures(core, memory) == erasures:
                return answer
    raise Unavailable("Recipients are erased faster than a page can be read. Try again.")


def _begin(visible: int, after: str | None, position: int | None) -> _Token:
    """The token with which the page begins."""
    if position is not None and not 0 <= position <= visible:
        raise InvalidRequest(f"position must be from 0 to {visible}, not {position}.", parameter="position")
    if after is None:
        return _Token(visible if position is None else position, 0, 0)
    token = _Token.parse(after, visible)
    if position not in (None, token.position):
        raise InvalidRequest(
            f"after is of a snapshot at position {token.position}, not {position}. Leave position out, or begin again.",
            parameter="position",
        )
    return token


def _check_kept(core: Core, partition: Partition, position: int) -> None:
    """Refuse a page if retention has removed changes after its position. Check this after reading the page."""
    gone = feed_gone(core, partition)
    if position < gone:
        raise PositionGone(
            f"Changes of partition {partition.number} after {position} are past their retention, so nobody knows what was "
            f"true there. Read a snapshot as of now.",
            first=gone + 1,
        )


def _erasures(core: Core, partition: Partition) -> int:
    """How many recipients were erased, as committed. If the count rises during a read, the page may show half of an erasure."""
    value = core.store.get(partition.number, Space.PARTITION, PARTITION_KEY)
    return 0 if value is None else packed_decoder(PartitionRow).decode(value).erasures


@dataclass(frozen=True, slots=True)
class _Border:
    """The last (hash, number) that a page may have."""

    hash: int
    number: int


@dataclass(frozen=True, slots=True)
class _Found:
    """The rows of a page, by hash and number."""

    group: SpanRows
    hash: Hashes
    line: Rows
    """The drawer of each row, counted through all spans."""

    def take(self, chosen: NDArray[np.bool_] | slice) -> _Found:
        group = self.group
        own = SpanRows(group.spans, group.rows[chosen], group.numbers[chosen], group.sizes[chosen])
        return _Found(own, self.hash[chosen], self.line[chosen])


@dataclass(frozen=True, slots=True)
class _Page:
    core: Core
    partition: Partition
    token: _Token
    choice: Choice
    names: tuple[str, ...]

    def read(self, limit: int) -> SnapshotAnswer:
        """Read the messages of the page.

        Records are read before heads, and heads before runs, so that a message that retention removes meanwhile is left out,
        and not shown in a wrong state.
        """
        border = self._border(self.partition.runs, limit)
        hashes = self._hashes(border)
        records, heads = records_and_heads(self.core, self.partition.number, hashes)
        spans = self._spans(self.partition.runs, border)
        end = None if border == _Border(_HASH_MAX, _LAST) else _Token(self.token.position, border.hash, border.number)
        if not spans:
            return self._answer(self._empty(), end)
        found = self._found(spans, border)
        cabinets = _cabinets(found)
        fates, shown = Fates.waiting(len(found.line)), np.ones(len(found.line), np.bool_)
        for cabinet, rows in cabinets.items():
            if cabinet in heads or cabinet in records:
                own, visible = states_at(
                    self.token.position,
                    heads.get(cabinet, EMPTY_HEAD),
                    records.get(cabinet, ()),
                    found.group.numbers[rows],
                )
                fates.state[rows], fates.collected_at[rows], shown[rows] = own.state, own.collected_at, visible
        kept, fates = found.take(shown), fates.take(np.flatnonzero(shown))
        count = _fitting(kept.group.sizes, limit)
        after = partial(self._after, kept.hash[:count], kept.group.numbers[:count])
        if count < len(kept.line):
            end = after(count)
        return self._answer(self._table(kept.group.part(0, count), fates.take(np.arange(count))), end, after)

    def _after(self, hashes: Hashes, numbers: Numbers, count: int) -> _Token:
        """The token of a page that begins after the first `count` rows."""
        return _Token(self.token.position, int(hashes[count - 1]), int(numbers[count - 1]))

    def _answer(
        self, table: pa.Table, end: _Token | None, after: Callable[[int], _Token] | None = None
    ) -> SnapshotAnswer:
        following = None if after is None else lambda count: after(count).text()
        return SnapshotAnswer(
            table=table, next=None if end is None else end.text(), position=self.token.position, after=following
        )

    def _empty(self) -> pa.Table:
        return pa.schema([MESSAGE_SCHEMA.field(name) for name in self.names]).empty_table()

    def _hashes(self, border: _Border) -> list[HashRange]:
        if self.choice.recipients:
            return [(own, own) for own in sorted(self.choice.hashes) if self.token.hash <= own <= border.hash]
        return [(self.token.hash, border.hash)]

    def _wanted(self, stored: StoredSegment) -> NDArray[np.bool_]:
        """The chosen drawers that may have messages for this page or later ones."""
        hashes = stored.segment.recipient_hash
        first, last = drawer_numbers(stored)
        here = (hashes > np.uint64(self.token.hash)) | (
            (hashes == np.uint64(self.token.hash)) & (last > self.token.number)
        )
        wanted: NDArray[np.bool_] = self.choice.of(stored) & here & (first <= self.token.position)
        return wanted

    def _border(self, runs: Sequence[Run], limit: int) -> _Border:
        """The border at which the directories promise enough messages for a page."""
        hashes, counts, lasts = [np.zeros(0, np.uint64)], [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
        end = _HASH_MAX
        for stored in _segments(runs, self.token):
            drawers = np.flatnonzero(self._wanted(stored))
            own = stored.segment.recipient_hash[drawers]
            if len(drawers) > _DRAWERS_AT_ONCE:
                end = min(end, int(own[_DRAWERS_AT_ONCE]))
            near = own <= np.uint64(end)
            hashes.append(own[near])
            counts.append(stored.segment.drawers["count"][drawers[near]].astype(np.int64))
            lasts.append(drawer_numbers(stored)[1][drawers[near]])
        hash_, count, last = (np.concatenate(parts) for parts in (hashes, counts, lasts))
        order = np.lexsort([last, hash_])
        total = np.cumsum(count[order])
        enough = int(np.searchsorted(total, limit))
        if enough >= len(order) or int(hash_[order[enough]]) > end:
            return _Border(end, _LAST)
        # Up to this number the counted drawers have enough rows, whatever drawers that reach further add.
        place = order[enough]
        return _Border(int(hash_[place]), int(last[place]))

    def _spans(self, runs: Sequence[Run], border: _Border) -> list[Span]:
        spans: list[Span] = []
        for stored in _segments(runs, self.token):
            hashes = stored.segment.recipient_hash
            first, _ = drawer_numbers(stored)
            inside = (hashes < np.uint64(border.hash)) | ((hashes == np.uint64(border.hash)) & (first <= border.number))
            chosen = self._wanted(stored) & inside
            spans += spans_of(self.core.store, stored, chosen, low=1, high=self.token.position)
        return spans

    def _found(self, spans: Sequence[Span], border: _Border) -> _Found:
        stretches = [span.stretch for span in spans]
        line = lines_of(stretches)
        numbers: Numbers = joined_arrays([span.numbers for span in spans])
        of_line = joined_arrays([s.stored.segment.recipient_hash[s.first : s.last] for s in stretches])
        hashes: Hashes = of_line[line]
        wanted = joined_arrays([mask_of(span) for span in spans])
        wanted = wanted & ((hashes > np.uint64(self.token.hash)) | (numbers > self.token.number))
        wanted &= (hashes < np.uint64(border.hash)) | (numbers <= border.number)
        rows = np.flatnonzero(wanted)
        rows = rows[np.lexsort([numbers[rows], hashes[rows]])]
        sizes = row_sizes(spans, rows, data="data" in self.names, properties="properties" in self.names)
        return _Found(SpanRows(tuple(spans), rows, numbers[rows], sizes), hashes[rows], line[rows])

    def _table(self, group: SpanRows, fates: Fates) -> pa.Table:
        if not len(group.rows):
            return self._empty()
        rows = load(self.core.store, group, self.names)
        schema = pa.schema([MESSAGE_SCHEMA.field(name) for name in self.names])
        return pa.Table.from_arrays([_column(rows, fates, name) for name in self.names], schema=schema)


def _column(rows: Gathered, fates: Fates, name: str) -> Column:
    if name == "sequence_number":
        return column_of(rows.numbers)
    if name == "collected_at":
        return time_column(fates.collected_at)
    if name == "state":
        return Texts(fates.state, STATE_TEXTS).to_dictionary()
    return message_column(rows, name)


def _segments(runs: Sequence[Run], token: _Token) -> list[StoredSegment]:
    """The segments that may have messages for this page or later ones."""
    return [
        stored
        for run in runs
        if run.row.first <= token.position
        for stored in run.segments
        if stored.segment.damaged is not None or int(stored.segment.recipient_hash[-1]) >= token.hash
    ]


def _cabinets(found: _Found) -> dict[Cabinet, Rows]:
    """The rows of each cabinet, by number."""
    listed = cabinets_of([span.stretch for span in found.group.spans])
    used, line = np.unique(found.line, return_inverse=True)
    index = column_of(used)
    texts = (listed.recipient, listed.origin.to_array(), listed.kind.to_array())
    places: dict[Cabinet, int] = {}
    columns = [strings_of(text.take(index)) for text in texts]
    codes = np.array([places.setdefault(Cabinet(*own), len(places)) for own in zip(*columns, strict=True)], np.int64)
    code = codes[line]
    order = np.argsort(code, kind="stable")
    borders = np.searchsorted(code[order], np.arange(len(places) + 1))
    return {cabinet: order[borders[place] : borders[place + 1]] for cabinet, place in places.items()}


def _fitting(sizes: NDArray[np.int64], limit: int) -> int:
    """How many rows fit into an answer; at least one if there are any."""
    within = int(np.searchsorted(np.cumsum(sizes), limits.FEED_BYTES_MAX, side="right"))
    return min(len(sizes), limit, max(1, within))
