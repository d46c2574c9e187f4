"""The machine of all that happens to mail, followed by readers: what they rebuild is what history and explain say."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import cycle
from typing import ClassVar

import msgspec
import pytest
from hypothesis import event
from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, rule

from restante.calls.feed import ReadFeed, ReadSnapshot
from restante.calls.mailboxes import Explain, ListPartitions, PartitionOf, ReadHistory
from restante.errors import PositionAhead, PositionGone
from restante.model.feed.feed_answers import FeedWish
from restante.settings import Settings
from tests.consignments.consigning import MAIL, STAGING, Consigned
from tests.feed.reading import chosen, matches, read_to_end
from tests.feed.replica import Replica, Row, check_against, row_seen, rows_of
from tests.hub.drafts import KINDS, LAYOUTS, ORIGINS, PARCELS, PARTITIONS, RECIPIENTS, Draft
from tests.hub.test_against_reference import PICK
from tests.producers.machines import Step, Weighted, weighted
from tests.reference.intake import as_time

SNAPSHOTS_MAX = 3
FEED_COLUMNS = ("id", "recipient", "data", "at", "message_sequence_number", "properties", "batch", "key", "bundle_id")
SNAPSHOT_COLUMNS = ("id", "recipient", "data", "state", "published_at", "sequence_number")


def wishes(columns: tuple[str, ...]) -> st.SearchStrategy[FeedWish]:
    """Mostly everything, or one filter; sometimes all of them."""

    def some(names: tuple[str, ...]) -> st.SearchStrategy[tuple[str, ...]]:
        return st.lists(st.sampled_from(names), min_size=1, max_size=2, unique=True).map(tuple)

    filters = {
        "origins": some((*ORIGINS, "nobody")),
        "kinds": some(KINDS),
        "recipients": some((*RECIPIENTS, "nobody")),
        "columns": some(columns),
    }
    alone = [st.builds(FeedWish, **{name: names}) for name, names in filters.items()]
    return st.one_of(st.just(FeedWish()), st.just(FeedWish()), *alone, st.builds(FeedWish, **filters))


PARTITION = st.sampled_from([1, 1, 1, 0])
"""Mostly that of the recipient who gets the most."""
READING: Weighted = [
    (8, "read_again", {"partition": PARTITION, "pick": PICK, "wish": wishes(FEED_COLUMNS)}),
    (2, "read_what_is_gone", {"partition": PARTITION, "pick": PICK}),
    (6, "begin_a_snapshot", {"partition": PARTITION, "limit": st.sampled_from([2, 5, 20, None])}),
    (5, "go_on_with_snapshots", {}),
    (4, "read_an_earlier_snapshot", {"partition": PARTITION, "pick": PICK, "limit": st.sampled_from([2, 5, None])}),
    (3, "look_at_a_part", {"partition": PARTITION, "wish": wishes(SNAPSHOT_COLUMNS)}),
]


@dataclass
class Taking:
    """A snapshot of which not all pages have come."""

    partition: int
    limit: int | None
    position: int
    token: str | None
    rows: list[Row] = field(default_factory=list)


class Followed(Consigned):
    """Of each partition a tape of all changes ever read, and replicas made of it and of snapshots."""

    feed_seconds: ClassVar[tuple[float, ...]] = (100.5, 40.5)

    def __init__(self) -> None:
        super().__init__()
        self.tapes: list[list[Row]] = [[] for _ in range(PARTITIONS)]
        self.ends = [0] * PARTITIONS
        self.starts = [1] * PARTITIONS
        self.replicas: list[tuple[int, Replica]] = [(partition, Replica()) for partition in range(PARTITIONS)]
        self.taking: list[Taking] = []
        self.retained = False
        self.limits = cycle([1, 2, 3, 7, None, 100])
        self.feed_reach = self.feed_seconds[0]

    @initialize(
        layout=LAYOUTS, stock=st.lists(PARCELS, min_size=2, max_size=5), reach=st.integers(0, len(feed_seconds) - 1)
    )
    def begin_with_some_mail(self, layout: Settings, stock: list[list[Draft]], reach: int = 0) -> None:
        self.feed_reach = self.feed_seconds[reach]
        super().begin_with_some_mail(layout, stock)

    def open(self, layout: Settings) -> None:
        super().open(msgspec.structs.replace(layout, feed_retention_seconds=self.feed_reach))

    @rule(step=weighted([*STAGING, *MAIL, *READING]))
    def take(self, step: Step) -> None:
        super().take(step)
        self.follow()

    def keep_house(self, what: str) -> None:
        super().keep_house(what)
        self.retained |= what == "retain"

    def time_passes_and_all_is_tidied(self, seconds: int) -> None:
        super().time_passes_and_all_is_tidied(seconds)
        self.retained = True

    # Following.

    def limit(self) -> int | None:
        return next(self.limits)

    def follow(self) -> None:
        """Everybody reads what has come since."""
        for partition in range(PARTITIONS):
            rows, self.ends[partition] = read_to_end(self.core, partition, after=self.ends[partition], limit=self.limit)
            assert self.ends[partition] == self.core.call(ListPartitions())[partition].visible_sequence
            self.tapes[partition] += rows
            for own, replica in self.replicas:
                if own == partition:
                    replica.apply(rows)

    def _stored(self, partition: int) -> Iterator[Row]:
        """What of the tape the feed still gives: nothing that an erasure removed."""
        erased = {
            row["recipient"]: row["sequence_number"] for row in self.tapes[partition] if row["change"] == "erased"
        }
        for row in self.tapes[partition]:
            if row["sequence_number"] >= erased.get(row["recipient"], 0):
                yield row

    def _bounds(self, partition: int) -> tuple[int, int]:
        self.follow()
        answer = self.core.call(ReadFeed(partition, after=self.ends[partition]))
        assert answer.table.num_rows == 0
        return answer.start, answer.end

    # Reading again.

    def read_again(self, partition: int, pick: int, wish: FeedWish) -> None:
        start, end = self._bounds(partition)
        after = None if pick % 4 == 0 else start - 1 + pick % (end - start + 2)
        found = read_to_end(self.core, partition, after=after, wish=wish, limit=self.limit).rows
        begin = start - 1 if after is None else after
        known = [row for row in self._stored(partition) if row["sequence_number"] > begin and matches(row, wish)]
        assert without_erasures(found) == without_erasures([chosen(row, wish) for row in known])
        event(f"read again: {'nothing' if not found else 'something'}, from {'the start' if begin == 0 else 'later'}")

    def read_what_is_gone(self, partition: int, pick: int) -> None:
        start, end = self._bounds(partition)
        if start > 1:
            with pytest.raises(PositionGone) as gone:
                self.core.call(ReadFeed(partition, after=pick % (start - 1)))
            assert gone.value.details["first"] == start
            event("read what is gone")
        ahead = self.core.call(ReadFeed(partition, after=end))
        assert (ahead.table.num_rows, ahead.next, ahead.end) == (0, end, end)
        with pytest.raises(PositionAhead) as ahead_of_it:
            self.core.call(ReadFeed(partition, after=end + 1 + pick))
        assert ahead_of_it.value.details["end"] == end

    # Snapshots.

    def begin_a_snapshot(self, partition: int, limit: int | None) -> None:
        answer = self.core.call(ReadSnapshot(partition, limit=limit))
        assert answer.position == self.core.call(ListPartitions())[partition].visible_sequence
        taking = Taking(partition, limit, answer.position, answer.next, rows_of(answer.table))
        if answer.next is None:
            self._finish(taking)
        else:
            self.taking.append(taking)

    def read_an_earlier_snapshot(self, partition: int, pick: int, limit: int | None) -> None:
        start, end = self._bounds(partition)
        position, rows, token = start - 1 + pick % (end - start + 2), list[Row](), None
        while True:
            answer = self.core.call(ReadSnapshot(partition, after=token, position=position, limit=limit))
            assert answer.position == position
            rows, token = [*rows, *rows_of(answer.table)], answer.next
            if token is None:
                break
        self._check_snapshot(partition, rows, position, FeedWish())
        event(
            f"an earlier snapshot: {'nothing' if not rows else 'something'} as of {'now' if position == end else 'then'}"
        )
        if start > 1:
            with pytest.raises(PositionGone):
                self.core.call(ReadSnapshot(partition, position=pick % (start - 1)))

    def go_on_with_snapshots(self) -> None:
        for taking in tuple(self.taking):
            try:
                answer = self.core.call(ReadSnapshot(taking.partition, after=taking.token, limit=taking.limit))
            except PositionGone:
                assert taking.position < self._bounds(taking.partition)[0] - 1
                event("a snapshot that took too long")
                self.taking.remove(taking)
                continue
            assert answer.position == taking.position
            assert taking.limit is None or answer.table.num_rows <= taking.limit
            taking.rows += rows_of(answer.table)
            taking.token = answer.next
        finished = [taking for taking in self.taking if taking.token is None]
        self.taking = [taking for taking in self.taking if taking.token is not None]
        for taking in finished:
            self._finish(taking)

    def teardown(self) -> None:
        try:
            while self.taking:
                self.go_on_with_snapshots()
        finally:
            super().teardown()

    def _finish(self, taking: Taking) -> None:
        """It is what the changes up to its position make; a replica made of it goes on from there."""
        self.follow()
        self._check_snapshot(taking.partition, taking.rows, taking.position, FeedWish())
        replica = Replica.of_snapshot(taking.rows, taking.position)
        try:
            later = read_to_end(self.core, taking.partition, after=taking.position, limit=self.limit).rows
        except PositionGone:
            assert taking.position < self._bounds(taking.partition)[0] - 1
            event("a snapshot that took too long")
            return
        replica.apply(later)
        snapshots = [*self.replicas[PARTITIONS:], (taking.partition, replica)]
        self.replicas = [*self.replicas[:PARTITIONS], *snapshots[-SNAPSHOTS_MAX:]]
        event(f"a snapshot, and {'more' if replica.position > taking.position else 'nothing'} after it")

    def look_at_a_part(self, partition: int, wish: FeedWish) -> None:
        self.follow()
        rows, token, position = list[Row](), None, None
        while True:
            answer = self.core.call(ReadSnapshot(partition, after=token, wish=wish, limit=3))
            assert position in (None, answer.position)
            rows, token, position = [*rows, *rows_of(answer.table)], answer.next, answer.position
            if token is None:
                break
        if not wish.columns:
            self._check_snapshot(partition, rows, position, wish)
            return
        whole = rows_of(self.core.call(ReadSnapshot(partition, wish=msgspec.structs.replace(wish, columns=()))).table)
        columns = {tuple(row) for row in rows}
        assert all(set(wish.columns) <= set(names) for names in columns)
        assert sorted(map(repr, rows)) == sorted(
            repr({name: row[name] for name in names}) for row in whole for names in columns
        )

    def _check_snapshot(self, partition: int, rows: list[Row], position: int, wish: FeedWish) -> None:
        tape = self.tapes[partition]
        expected = Replica()
        expected.apply(row for row in tape if row["sequence_number"] <= position)
        later = {row["recipient"] for row in tape if row["change"] == "erased" and row["sequence_number"] > position}
        found = {row["sequence_number"]: row_seen(row) for row in rows}
        assert len(found) == len(rows), "each message once"
        for number, copy in expected.copies.items():
            excused = self._is_forgotten(partition, number) or copy.carried["recipient"] in later
            if matches(copy.carried, wish) and not (excused and number not in found):
                shown = found.pop(number, None)
                assert shown == copy.seen(number), f"{shown} ≠ {copy}, as of {position}"
        assert not found, "a snapshot has nothing that the feed did not tell"

    def _is_forgotten(self, partition: int, number: int) -> bool:
        """Whether retention may have taken the message meanwhile."""
        copy = self.replicas[partition][1].copies.get(number)
        return copy is not None and copy.settled_at is not None and copy.settled_at < self._kept_since()

    def _kept_since(self) -> datetime:
        seconds = self.reference.office.settings.collected_retention_seconds
        return as_time(self.clock.now) - timedelta(seconds=seconds)

    # What must hold.

    def every_mailbox_looks_the_same(self) -> None:
        """That is seen elsewhere."""

    def open_bundles_keep_their_messages(self) -> None:
        """That is seen elsewhere."""

    @invariant()
    def replicas_are_what_history_and_explain_say(self) -> None:
        if self.real is None:
            return
        self._settle_the_rest(at_most=self._expired())
        self.follow()
        for name in RECIPIENTS:
            partition = self.core.call(PartitionOf(name))
            table, more = self.core.history_table(ReadHistory(name, limit=1_000))
            assert more is None
            explained = set(self.core.call(Explain(name)).waiting)
            for own, replica in self.replicas:
                if own == partition:
                    check_against(replica, rows_of(table), name, kept_since=self._kept_since())
                    assert replica.waiting(name) == explained

    @invariant()
    def only_what_is_old_is_gone(self) -> None:
        if self.real is None:
            return
        reach = as_time(self.clock.now) - timedelta(seconds=self.feed_reach)
        for partition in range(PARTITIONS):
            start, _ = self._bounds(partition)
            assert start >= self.starts[partition]
            assert start == 1 or self.retained
            self.starts[partition] = start
            gone = [row for row in self.tapes[partition] if row["sequence_number"] < start]
            assert all(row["at"] <= reach for row in gone), "something young is gone"


def without_erasures(rows: list[Row]) -> list[Row]:
    """Whether a recipient's earlier erasure is told after a later one is left open."""
    last = {row.get("recipient"): row["sequence_number"] for row in rows if row["change"] == "erased"}
    return [row for row in rows if row["change"] != "erased" or row["sequence_number"] == last[row.get("recipient")]]
