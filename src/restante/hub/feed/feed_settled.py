"""Finding the messages that change records are about.

A record concerns the messages of its cabinet within its ranges. If the record's count equals the length of its ranges, every
number is meant, and nothing needs to be read. Otherwise the drawers of the cabinet show which numbers are its own. They are
read for all records together, segment by segment.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from restante.errors import DataDamaged
from restante.hub.engine.row_places import FoundRows, Lost, Questions, locate
from restante.hub.engine.row_reads import read_properties
from restante.hub.feed.feed_rows import spans_of
from restante.model.columns.arrays import Numbers, Words
from restante.model.columns.arrow import Column, column_of, numbers_of, string_array, strings_of
from restante.model.columns.hashing import Hashes, text_hash
from restante.model.columns.text_ids import split
from restante.model.feed.feed import NumberedRecord, Settled
from restante.model.feed.span_rows import Choice, Span
from restante.model.storage.change import ChangeKind, ChangeRecord
from restante.model.storage.head import NumberRange, in_ranges
from restante.model.storage.identity import expand
from restante.model.storage.rows import TEXT_ID
from restante.model.storage.run import Run, StoredSegment, drawer_numbers
from restante.ports.store import Store

Index = NDArray[np.int64]

_ALL = Choice(frozenset(), frozenset(), frozenset(), frozenset())


def settled(
    store: Store,
    runs: Sequence[Run],
    records: Sequence[NumberedRecord],
    hash_key: int,
    *,
    with_ids: bool,
    with_texts: bool,
) -> Settled:
    """The messages of all these records, with their ids if asked for."""
    numbers = [_plain(record) for _, record in records]
    missing = [index for index, own in enumerate(numbers) if own is None]
    if missing:
        found = _search(store, runs, [records[index] for index in missing], hash_key)
        for index, own in zip(missing, found, strict=True):
            numbers[index] = own
    known = [own for own in numbers if own is not None]
    counts = np.array([max(1, len(own)) for own in known], np.int64)
    joined = np.concatenate([own if len(own) else np.zeros(1, np.int64) for own in known])
    record = np.repeat(np.arange(len(known)), counts)
    if not (with_ids or with_texts):
        return Settled(record, joined, None, np.zeros(0, np.bool_))
    hashes = np.array([text_hash(entry.recipient, hash_key) for _, entry in records], np.uint64)
    return Settled(record, joined, *_ids(store, runs, Questions(hashes, record, joined), with_texts=with_texts))


def _plain(record: ChangeRecord) -> Numbers | None:
    """The numbers of a record if its count shows that every number of its ranges is meant; else None.

    For an erasure it is only the last number, which shows that messages with higher numbers came after the erasure.
    """
    if record.kind is ChangeKind.ERASED:
        return np.array([max(entry.last for entry in record.ranges)] if record.ranges else [], np.int64)
    if not record.count or not record.origin:
        return np.zeros(0, np.int64)
    if sum(map(_length, record.ranges)) - sum(map(_length, record.left_out)) != record.count:
        return None
    numbers = [np.arange(entry.first, entry.last + 1) for entry in record.ranges]
    joined = numbers[0] if len(numbers) == 1 else np.concatenate(numbers)
    return joined[~in_ranges(record.left_out, joined)] if record.left_out else joined


def _length(entry: NumberRange) -> int:
    return entry.last - entry.first + 1


def _ids(
    store: Store, runs: Sequence[Run], questions: Questions, *, with_texts: bool
) -> tuple[Words, NDArray[np.bool_], Column | None]:
    """The ids of these messages, as UUIDs and as texts. A message that is no longer stored has none."""
    texts: dict[int, str] = {}
    words, known = np.zeros((len(questions.numbers), 2), np.uint64), np.zeros(len(questions.numbers), np.bool_)
    for found in locate(store, runs, questions):
        if isinstance(found, Lost):
            raise found.error
        words[found.asked] = found.records["id"]
        known[found.asked] = True
        if with_texts:
            texts.update(_texts(store, found))
    named = pa.array([texts.get(row) for row in range(len(known))], pa.string()) if texts else None
    return words, known, named


def _texts(store: Store, found: FoundRows) -> Iterable[tuple[int, str]]:
    """The ids that are no UUIDs, with the index of their question. Only the properties of these rows are read."""
    marked = np.flatnonzero(found.records["flags"] & TEXT_ID)
    if not len(marked):
        return ()
    row = found.row[marked]
    first, last = int(row[0]), int(row[-1]) + 1
    span = found.span[first - found.span_row : last - found.span_row]
    stored: Column = read_properties(store, found.stored, first, span).properties_column()
    texts = split(stored.take(column_of(row - first)).cast(pa.binary()))[0]
    return zip(found.asked[marked].tolist(), strings_of(texts), strict=True)


def _search(store: Store, runs: Sequence[Run], records: Sequence[NumberedRecord], hash_key: int) -> list[Numbers]:
    """The numbers of each record, read from the drawers of its cabinet."""
    asked = _Asked([record for _, record in records], hash_key)
    parts = [
        part
        for run in runs
        if run.row.first <= asked.last.max() and run.row.last >= asked.first.min()
        for stored in run.segments
        for part in asked.search(store, stored)
    ]
    record = np.concatenate([np.zeros(0, np.int64), *(one for one, _ in parts)])
    numbers = np.concatenate([np.zeros(0, np.int64), *(other for _, other in parts)])
    order = np.lexsort([numbers, record])
    borders = np.searchsorted(record[order], np.arange(len(records) + 1))
    found = []
    for index, (number, entry) in enumerate(records):
        own = numbers[order[borders[index] : borders[index + 1]]]
        own = own[in_ranges(entry.ranges, own) & ~in_ranges(entry.left_out, own)]
        if len(own) != entry.count:
            raise DataDamaged(
                f"Change {number} is about {entry.count} messages, of which {len(own)} are stored. Run `restante doctor`."
            )
        found.append(own)
    return found


class _Asked:
    """The records whose messages are searched for, as columns."""

    def __init__(self, records: Sequence[ChangeRecord], hash_key: int) -> None:
        self._hash: Hashes = np.array([text_hash(record.recipient, hash_key) for record in records], np.uint64)
        self._recipient = string_array([record.recipient for record in records])
        self._origin = [record.origin for record in records]
        self._kind = [record.message_kind for record in records]
        self.first = np.array([record.ranges[0].first for record in records], np.int64)
        self.last = np.array([record.ranges[-1].last for record in records], np.int64)

    def search(self, store: Store, stored: StoredSegment) -> Iterator[tuple[Index, Numbers]]:
        """The rows of a segment that may belong to a record, as (index of the record, number)."""
        chosen = _ALL.of(stored)
        record, drawer = self._drawers(stored)
        if not len(drawer):
            return
        chosen[:] = False
        chosen[drawer] = True
        low, high = int(self.first[record].min()), int(self.last[record].max())
        for span in spans_of(store, stored, chosen, low=low, high=high):
            yield self._rows(span, record, drawer)

    def _rows(self, span: Span, record: Index, drawer: Index) -> tuple[Index, Numbers]:
        lines = span.stretch.stored.segment.drawers
        own = (drawer >= span.stretch.first) & (drawer < span.stretch.last)
        record, drawer = record[own], drawer[own]
        counts = lines["count"][drawer].astype(np.int64)
        numbers = span.numbers[expand(lines["row"][drawer].astype(np.int64) - span.row, counts)]
        of_row = np.repeat(record, counts)
        meant = (numbers >= self.first[of_row]) & (numbers <= self.last[of_row])
        return of_row[meant], numbers[meant]

    def _drawers(self, stored: StoredSegment) -> tuple[Index, Index]:
        """Pairs of a record and a drawer of its cabinet with numbers in its range."""
        segment = stored.segment
        low = np.searchsorted(segment.recipient_hash, self._hash, side="left")
        high = np.searchsorted(segment.recipient_hash, self._hash, side="right")
        record, drawer = np.repeat(np.arange(len(low)), high - low), expand(low, high - low)
        first, last = drawer_numbers(stored)
        fits = (first[drawer] <= self.last[record]) & (last[drawer] >= self.first[record])
        fits &= segment.drawers["origin"][drawer] == _codes(self._origin, segment.names.origins)[record]
        fits &= segment.drawers["kind"][drawer] == _codes(self._kind, segment.names.kinds)[record]
        record, drawer = record[fits], drawer[fits]
        same = pc.equal(self._recipient.take(column_of(record)), segment.recipients.take(column_of(drawer)))
        equal = numbers_of(same)
        return record[equal], drawer[equal]


def _codes(texts: Sequence[str], names: Sequence[str]) -> Index:
    """The index of each text in a list of names, or -1."""
    place = {name: index for index, name in enumerate(names)}
    return np.array([place.get(text, -1) for text in texts], np.int64)
