"""The feed: everything that happened in a partition, by sequence number, read from its runs and change records.

Every number of the log is a message, a change record, or a gap. An answer covers a stretch of numbers. `_records` reads its
change records, `_Taking.gather` finds the rows of its messages, `_Taking.cut` decides where the answer ends, and
`_Taking.table` reads the rows that it has. An answer ends at the limit, at 64 MiB, or when enough was looked at; `next` is
the last number that it covers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from restante import limits
from restante.errors import PositionAhead, PositionGone
from restante.hub.engine.core import Core
from restante.hub.engine.partitions import Partition
from restante.hub.feed.feed_handed import HandedRuns, handed, read_handed
from restante.hub.feed.feed_memory import FeedMemory, LoadedRows, RunKey
from restante.hub.feed.feed_rows import is_tiny, joined_span, load, spans_of, whole_span
from restante.hub.feed.feed_settled import settled
from restante.hub.feed.feed_sources import View, feed_gone, loaded, sources, view
from restante.model.feed.feed import (
    NumberedRecord,
    Released,
    changes_table,
    feed_columns,
    in_log_order,
    published_table,
    schema_of,
)
from restante.model.feed.feed_answers import FeedAnswer, FeedWish
from restante.model.feed.gathered_messages import Gathered
from restante.model.feed.span_rows import Choice, Span, SpanRows, in_number_order
from restante.model.publishing.message import HEALTH_ORIGIN
from restante.model.storage.change import ChangeKind, decode_change
from restante.model.storage.changes import Space
from restante.model.storage.keys import key_number, number_key
from restante.model.storage.run import Run

_LARGE = 4_096
"""A run with at least this many rows is a part of the answer by itself; smaller neighbours are joined."""
_PAGING = 8
"""A reader that takes at least one in `_PAGING` rows of a large run will probably take the rest."""


@dataclass(frozen=True, slots=True)
class FeedChoice:
    """The messages and columns that a reader asks for."""

    choice: Choice
    columns: tuple[str, ...]
    only_messages: bool = False
    """Whether only messages are wanted, published or released to the end, and no other changes."""

    @property
    def data(self) -> bool:
        return "data" in self.columns

    @property
    def properties(self) -> bool:
        return "properties" in self.columns

    def has(self, entry: NumberedRecord) -> bool:
        """Whether a change record is wanted. An erasure concerns all origins and kinds of its recipient."""
        record, choice = entry[1], self.choice
        if self.only_messages and not record.moved:
            return False
        if record.kind is ChangeKind.BATCH_COMPLETED:
            return choice.everything()
        if record.origin == HEALTH_ORIGIN:
            return False
        if choice.recipients and record.recipient not in choice.recipients:
            return False
        if record.kind is ChangeKind.ERASED:
            return True
        return (not choice.origins or record.origin in choice.origins) and (
            not choice.kinds or record.message_kind in choice.kinds
        )


def choice_of(core: Core, wish: FeedWish, *, with_checks: bool = False) -> Choice:
    hashes = frozenset(core.locate(recipient).hash for recipient in wish.recipients)
    return Choice(frozenset(wish.origins), frozenset(wish.kinds), frozenset(wish.recipients), hashes, with_checks)


def read_feed(
    core: Core,
    partition: int,
    after: int | None,
    wish: FeedWish,
    limit: int,
    *,
    only_messages: bool = False,
    enough: int | None = None,
) -> FeedAnswer:
    """The changes after number `after`, at most `limit` of them; from the start of the feed if `after` is None.

    `enough`, given while others commit, is a number of messages; the answer ends with the run in which it is reached.
    """
    memory = core.partitions[partition]
    wanted = FeedChoice(choice_of(core, wish, with_checks=only_messages), feed_columns(wish.columns), only_messages)
    while True:
        with core.pins.reading():
            gone = feed_gone(core, memory) if after is None else after
            answer = _read(core, memory, gone, wanted, limit, enough)
            left = feed_gone(core, memory)
        if gone > answer.end:
            raise PositionAhead(
                f"The feed of partition {partition} ends at {answer.end}, before {after}: an older backup was restored, or "
                "this is another hub. Start again, with a snapshot or from the beginning, so that nothing is skipped.",
                end=answer.end,
            )
        if left <= gone:
            return FeedAnswer(
                table=answer.table, next=answer.next, start=left + 1, end=answer.end, stream=answer.stream
            )
        if after is not None:
            raise PositionGone(
                f"The feed of partition {partition} no longer reaches back to {after}: it begins with {left + 1}. Take a "
                "snapshot, or read on from there.",
                first=left + 1,
            )


@dataclass(frozen=True, slots=True)
class _Read:
    table: pa.Table
    next: int
    end: int
    stream: memoryview | None = None


def _read(core: Core, partition: Partition, after: int, wanted: FeedChoice, limit: int, enough: int | None) -> _Read:
    seen = view(partition)
    if after >= seen.end:
        return _Read(schema_of(wanted.columns).empty_table(), after, seen.end)
    high = min(seen.end, after + limits.FEED_NUMBERS_AT_ONCE)
    records, high = _records(core, partition, after + 1, high, limit)
    taking = _Taking(core, partition.number, wanted, limit, enough, [entry for entry in records if wanted.has(entry)])
    covered = taking.gather(seen, after + 1, high)
    last = taking.cut(covered)
    table = taking.table(seen, last)
    return _Read(table, last, seen.end, taking.stream_of(table))


def _records(core: Core, partition: Partition, low: int, high: int, limit: int) -> tuple[list[NumberedRecord], int]:
    """The change records of a stretch, and the number up to which they are complete."""
    entries = core.store.scan(
        partition.number, Space.CHANGE, start=number_key(low), end=number_key(high + 1), limit=limit
    )
    records = [(key_number(key), decode_change(value)) for key, value in entries]
    return records, high if len(records) < limit else records[-1][0]


@dataclass(slots=True)
class _Part:
    """Some rows of the answer, in number order. `run` names their run if it is a large one."""

    group: SpanRows
    run: RunKey | None = None
    low: int = 0
    high: int = 0
    first: int = 0
    """The index of the part's first row among the rows in `whole`."""
    whole: LoadedRows | None = None
    handed: HandedRuns | None = None
    """The runs of the part if the clerk reads it. Then `group` has only numbers and sizes."""


@dataclass(slots=True)
class _Taking:
    """An answer in the making."""

    core: Core
    partition: int
    wanted: FeedChoice
    limit: int
    enough: int | None
    """The number of messages after which no further run is looked at; None if no commit was made lately. When it is set, the
    clerk reads the runs that it can, to leave the interpreter to others."""
    records: list[NumberedRecord]
    parts: list[_Part] = field(default_factory=list)
    spans: list[Span] = field(default_factory=list)
    """Spans of small runs, not yet joined into a part."""
    tiny: list[Run] = field(default_factory=list)
    """Tiny runs, not yet joined into spans."""
    streams: list[memoryview] = field(default_factory=list)
    """The Arrow streams that the clerk returned."""
    others: bool = False
    """Whether the table has other changes besides messages."""
    pending: int = 0
    messages: int = 0
    size: int = 0

    def gather(self, seen: View, low: int, high: int) -> int:
        """Find the messages numbered `low` to `high`, until there are enough; return the number up to which all are found."""
        numbers = np.array([number for number, record in self.records if not record.moved], np.int64)
        for looked, (source, first, last) in enumerate(sources(seen, low, high), 1):
            run = loaded(self.core, self.partition, source)
            if self.wanted.choice.may_have(run):
                self._take(run, first, last)
            changes = self.messages + int(np.searchsorted(numbers, last, side="right"))
            full = changes >= self.limit or self.size >= limits.FEED_BYTES_MAX
            if full or (self.enough is not None and self.messages >= self.enough) or looked >= limits.FEED_RUNS_AT_ONCE:
                high = last
                break
        self._join()
        return high

    def _take(self, run: Run, low: int, high: int) -> None:
        given = handed(self.core, run, self.wanted.choice, low, high) if self.enough is not None else None
        if given is not None:
            self._join()
            self._hand_over(given)
            return
        if run.row.rows >= _LARGE:
            self._join()
            part = self._large(run, low, high)
            if part is not None:
                self._add(part)
            return
        if self.wanted.data and self._whole(run, low, high) and is_tiny(run):
            self.tiny.append(run)
            self._count(run.row.rows, run.row.length)
        else:
            self._join_tiny()
            self._add_spans(self._spans(run, low, high))
        if self.pending >= 2 * _LARGE:
            self._join()

    def _hand_over(self, given: HandedRuns) -> None:
        """Hand a run to the clerk, together with the runs handed over just before."""
        before = self.parts[-1].handed if self.parts else None
        part = _Part(given.group(), handed=given)
        self._add(part)
        if before is not None:
            both = before.joined_by(given)
            self.parts[-2:] = [_Part(both.group(), handed=both)]

    def _whole(self, run: Run, low: int, high: int) -> bool:
        return low <= run.row.first and run.row.last <= high and self.wanted.choice.is_whole(run)

    def _add_spans(self, spans: Sequence[Span]) -> None:
        self.spans += spans
        for span in spans:
            rows = len(span.records) if span.wanted is None else int(span.wanted.sum())
            self._count(rows, int(span.records["data_length"].sum()) if self.wanted.data else 0)

    def _count(self, rows: int, size: int) -> None:
        self.pending += rows
        self.messages += rows
        self.size += size

    def _join_tiny(self) -> None:
        """Make spans of the tiny runs found so far. `_take` has counted them already."""
        tiny, self.tiny = self.tiny, []
        joined = joined_span(self.core, self.partition, tiny) if len(tiny) > 1 else None
        if joined is not None:
            self.spans.append(joined)
        else:
            self.spans += [whole_span(self.core.store, stored) for run in tiny for stored in run.segments]

    def _spans(self, run: Run, low: int, high: int) -> list[Span]:
        store, choice = self.core.store, self.wanted.choice
        if self._whole(run, low, high):
            return [whole_span(store, stored) for stored in run.segments]
        return [
            span for stored in run.segments for span in spans_of(store, stored, choice.of(stored), low=low, high=high)
        ]

    def _join(self) -> None:
        """Make a part of the small runs found so far."""
        self._join_tiny()
        if self.pending:
            group = in_number_order(self.spans, data=self.wanted.data, properties=self.wanted.properties)
            self.parts.append(_Part(group))
        self.spans, self.pending = [], 0

    def _large(self, run: Run, low: int, high: int) -> _Part | None:
        """The rows of a large run, which may be cached from the page before; None if there are none."""
        key = (self.partition, tuple([place.blob for place in run.row.segments]))
        known = self.core.memory(FeedMemory).loaded.get((key, self.wanted))
        if known is not None and known.low <= low and high <= known.high:
            first, last = np.searchsorted(known.group.numbers, [low, high + 1]).tolist()
            return _Part(known.group.part(first, last), key, low, high, first, known) if first < last else None
        spans = self._spans(run, low, high)
        if not spans:
            return None
        group = in_number_order(spans, data=self.wanted.data, properties=self.wanted.properties)
        return _Part(group, key, low, high) if len(group.rows) else None

    def _add(self, part: _Part) -> None:
        self.parts.append(part)
        self.messages += len(part.group.rows)
        self.size += int(part.group.sizes.sum())

    def cut(self, covered: int) -> int:
        """The last number of the answer, which has at least one change, and each change whole."""
        records = [
            (number, 100 + 100 * record.count)
            for number, record in self.records
            if number <= covered and not record.moved
        ]
        own, sizes = np.array(records, np.int64).reshape(-1, 2).T
        numbers = np.concatenate([own, *(part.group.numbers for part in self.parts)])
        sizes = np.concatenate([sizes, *(part.group.sizes for part in self.parts)])
        if len(numbers) <= self.limit and int(sizes.sum()) <= limits.FEED_BYTES_MAX:
            return covered
        order = np.argsort(numbers, kind="stable")
        fitting = int(np.searchsorted(np.cumsum(sizes[order]), limits.FEED_BYTES_MAX, side="right"))
        count = min(self.limit, max(1, fitting))
        return covered if count >= len(numbers) else int(numbers[order[count - 1]])

    def table(self, seen: View, last: int) -> pa.Table:
        """The table of everything found up to number `last`."""
        names, records = self.wanted.columns, [entry for entry in self.records if entry[0] <= last]
        released = Released.of(records)
        published = []
        for part in self.parts:
            count = int(np.searchsorted(part.group.numbers, last, side="right"))
            if count:
                published += self._published(part, count, last, released)
        others = [entry for entry in records if not entry[1].moved]
        self.others = bool(others)
        if not others:
            return in_log_order(published, None, names)
        rows = settled(
            self.core.store,
            seen.runs,
            others,
            self.core.deed.key,
            with_ids="id" in names,
            with_texts="text_id" in names,
        )
        return in_log_order(published, changes_table(others, rows, names), names)

    def _published(self, part: _Part, count: int, last: int, released: Released) -> list[pa.Table]:
        """The first `count` rows of a part, which are those up to number `last`."""
        names = self.wanted.columns
        if part.handed is None:
            return [published_table(self._rows(part, count), released, names)]
        page = read_handed(self.core, part.handed, self.wanted.choice, last, released, names)
        if page is None:
            return self._read_here(part.handed, last, released)
        self.streams.append(page.stream)
        return [page.table]

    def stream_of(self, table: pa.Table) -> memoryview | None:
        """The table as an Arrow stream, if the clerk read all of it."""
        is_whole = len(self.parts) == 1 and len(self.streams) == 1 and not self.others
        return self.streams[0] if is_whole and table.num_rows else None

    def _read_here(self, runs: HandedRuns, last: int, released: Released) -> list[pa.Table]:
        """Read runs here that were handed to the clerk and that it could not read."""
        found = [self._large(run, max(runs.low, run.row.first), min(last, run.row.last)) for run in runs.runs]
        return [
            published_table(self._rows(part, len(part.group.rows)), released, self.wanted.columns)
            for part in found
            if part is not None
        ]

    def _rows(self, part: _Part, count: int) -> Gathered:
        """Read the first `count` rows of a part. Rows of a large run that the next page will want are cached."""
        store, wanted, group = self.core.store, self.wanted, part.group
        whole = part.whole
        if whole is not None and whole.gathered is not None:
            rows = whole.gathered.part(part.first, part.first + count)
        elif part.run is not None and _worth_loading(group, count, again=whole is not None):
            gathered = load(store, group, wanted.columns)
            self.core.memory(FeedMemory).loaded.put(
                (part.run, wanted), LoadedRows(part.low, part.high, group, gathered)
            )
            return gathered.part(0, count)
        else:
            rows = load(store, group.part(0, count), wanted.columns)
        if part.run is not None:
            self._remember(part, count)
        return rows

    def _remember(self, part: _Part, count: int) -> None:
        assert part.run is not None
        key = (part.run, self.wanted)
        if count == len(part.group.rows):
            self.core.memory(FeedMemory).loaded.drop(key)
        elif part.whole is None:
            self.core.memory(FeedMemory).loaded.put(key, LoadedRows(part.low, part.high, part.group, None))


def _worth_loading(group: SpanRows, count: int, *, again: bool) -> bool:
    """Whether to read all rows of a large run when `count` are taken now; `again` if an earlier page took some too."""
    paged = count < len(group.rows) and (again or len(group.rows) <= count * _PAGING)
    return paged and group.nbytes + int(group.sizes.sum()) <= limits.FEED_BYTES_REMEMBERED_MAX
