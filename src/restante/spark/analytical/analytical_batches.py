"""One micro-batch of changes, applied to the analytical store's tables so that it can be applied again without harm.

Each table takes its part in commits of its own, so a crash may come between two of them. Then Spark gives the same batch
again, and no change is made twice: appends carry the number of the batch, and a table refuses one that it has; merges
and deletions change nothing the second time.

A batch of what is stored can be smaller the second time: the hub's retention may have removed messages meanwhile. So there,
what became of messages comes before them. A delivery without its message harms nobody; a message without its delivery
would wait for ever. A batch of the feed is always the same: messages come first, and what was erased at last.

The source is read twice at most. The first read takes the messages, and notes which other changes there are (`Facts`); the
second takes those. Each read fetches only what it needs from the hub (`Narrow`): first messages with their data, without the
changes that settle them, then the other way round. Rows that are needed more than once are kept while the batch lasts.
Changes are compared with open deliveries, which costs more, only if there are open ones.

Where the documents in messages are not shown, and the tables lie in a folder, one pass is enough for nearly everything: the
tasks write the files of both tables while they read (`ByFiles`), and here they are only committed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import NamedTuple

import msgspec
from pyspark.sql import Column, DataFrame, Observation
from pyspark.sql import functions as f
from pyspark.storagelevel import StorageLevel

from restante.limits import ERASURES_AT_ONCE_MAX, OPEN_TOLD_MAX
from restante.spark.analytical import analytical_changes as rules
from restante.spark.analytical.analytical_documents import append_messages
from restante.spark.analytical.analytical_facts import Facts, counted_by_spark, earliest, last
from restante.spark.analytical.analytical_files import Filed, FilingWish, NumbersByPartition, TaskFolders, file_changes
from restante.spark.analytical.analytical_tables import APPLICATION, Tables
from restante.spark.documents import Fidelity
from restante.spark.source.narrowed_reads import Narrow, narrowed
from restante.spark.tables.table_files import remove
from restante.spark.tables.tables import WRITING, StoredTable

_SAME = " AND ".join(["NOT t.settled", *(f"t.{name} = s.{name}" for name in rules.KEY)])
_NEWER = "s.change_sequence_number > t.change_sequence_number"


def apply(
    tables: Tables, changes: DataFrame, *, number: int, fidelity: Fidelity, feed_has_begun: bool = False
) -> Facts:
    """Apply the batch of this number to all tables. If the number comes again, only the missing steps are done.

    Once the feed has begun, no batch of what is stored can come any more, and nobody need look.
    """
    read = _prepared(changes)
    if not fidelity.has_columns:
        return _applied(tables, read, number, fidelity, feed_has_begun=feed_has_begun)
    with _kept(read) as kept:  # To infer columns takes several looks at the documents.
        return _applied(tables, kept, number, fidelity, feed_has_begun=feed_has_begun)


class _Open(NamedTuple):
    """The deliveries that are open."""

    numbers: NumbersByPartition | None
    """The numbers of open messages; None: they are too many to tell the tasks."""

    @property
    def are_some(self) -> bool:
        return self.numbers is None or bool(self.numbers)


_NONE_OPEN = _Open({})


class ByFiles:
    """Takes in micro-batches of our own source whose documents are not shown: its tasks write the tables' files.

    Only changes that must be compared with open deliveries are applied as rows. The driver looks up which deliveries are open
    while the tasks are busy with the first batch. From then on the tasks know the open ones, and say whether changes touch them.
    """

    def __init__(
        self,
        tables: Tables,
        folders: TaskFolders,
        file: Callable[[DataFrame, int, FilingWish], Filed | None] = file_changes,
    ) -> None:
        self._tables = tables
        self._folders = folders
        self._file = file
        self._open: _Open | None = None
        """The open messages; None: not looked up yet."""

    def apply(self, changes: DataFrame, *, number: int) -> Facts:
        tables, read = self._tables, _prepared(changes)
        with ThreadPoolExecutor(1, thread_name_prefix="restante-open") as pool:
            looking = pool.submit(self._look) if self._open is None else None
            wish = self._wish()
            found = self._file(read, number, wish)
            is_compared = self._is_many if looking is None else looking.result().are_some
        if found is None:
            return apply(tables, changes, number=number, fidelity=Fidelity.NONE)
        facts = found.facts
        if found.is_stored:
            assert wish.deliveries is not None, "what is stored comes before the feed"
            tables.deliveries.add_files(found.deliveries, application=APPLICATION, version=number)
            tables.messages.add_files(found.messages, application=APPLICATION, version=number)
            self._open = None if is_compared or facts.opened else _NONE_OPEN
            return facts
        tables.messages.add_files(found.messages, application=APPLICATION, version=number)
        if facts.newest is None:
            return facts  # There was nothing, so it is not known either whether the feed has begun.
        if is_compared or facts.moved or facts.opened or found.touches_open:
            remove(self._folders.deliveries, found.deliveries)
            facts = _take_beside(tables, read, number, facts, Fidelity.NONE)
            self._open = self._look()
            return facts
        self._open = self._open or _NONE_OPEN
        tables.deliveries.add_files(found.deliveries, application=APPLICATION, version=number)
        if not facts.is_plain:
            with _only(read, number, rules.BESIDE_NEEDS, without=(*rules.NEW, *rules.SETTLING)):
                _complete_and_erase(tables, read, number, facts)
        return facts

    def _look(self) -> _Open:
        rows = _open_of(self._tables.deliveries).limit(OPEN_TOLD_MAX + 1).collect()
        numbers: dict[int, list[int]] = {}
        for row in rows:
            numbers.setdefault(row[0], []).append(row[1])
        return _Open(None if len(rows) > OPEN_TOLD_MAX else numbers)

    @property
    def _is_many(self) -> bool:
        """Everything is compared: files of deliveries would be written in vain."""
        return self._open is not None and self._open.numbers is None

    def _wish(self) -> FilingWish:
        return FilingWish(
            messages=self._folders.messages,
            deliveries=None if self._is_many else self._folders.deliveries,
            open=(self._open and self._open.numbers) or {},
        )


def _prepared(changes: DataFrame) -> DataFrame:
    """Each task writes files of its own: more tasks than cores only make more files."""
    spark = changes.sparkSession
    for name, value in WRITING.items():
        spark.conf.set(name, value)
    return changes.coalesce(spark.sparkContext.defaultParallelism)


def _applied(tables: Tables, changes: DataFrame, number: int, fidelity: Fidelity, *, feed_has_begun: bool) -> Facts:
    if not feed_has_begun and _is_of_stored(changes, number):
        return _take_stored(tables, changes, number, fidelity)
    return _take_beside(tables, changes, number, _take_messages(tables, changes, number, fidelity), fidelity)


def _take_beside(tables: Tables, changes: DataFrame, number: int, facts: Facts, fidelity: Fidelity) -> Facts:
    """Take in what there is beside messages."""
    if not facts.is_plain:
        return _take_all_beside(tables, changes, number, facts, fidelity)
    if facts.settled:
        with _only(changes, number, rules.DELIVERY_NEEDS, without=rules.NEW):
            return _change_deliveries(tables.deliveries, changes, number, facts)
    return facts


def _take_all_beside(tables: Tables, changes: DataFrame, number: int, facts: Facts, fidelity: Fidelity) -> Facts:
    columns = tuple(changes.columns) if facts.moved else rules.BESIDE_NEEDS
    with _only(changes, number, columns, without=rules.NEW), _kept(rules.beside_messages(changes)) as beside:
        if facts.moved:
            facts = _take_moved(tables, beside, number, facts, fidelity)
        if facts.settled or facts.opened:
            facts = _change_deliveries(tables.deliveries, beside, number, facts)
        _complete_and_erase(tables, beside, number, facts)
    return facts


def _complete_and_erase(tables: Tables, changes: DataFrame, number: int, facts: Facts) -> None:
    if facts.completed:
        tables.batches.append_once(rules.batches_of(changes), application=APPLICATION, version=number)
    if facts.erased:
        _erase(tables, rules.erased_of(changes))


def _only(
    changes: DataFrame,
    number: int,
    columns: tuple[str, ...],
    *,
    without: tuple[str, ...] = (),
    only_first: bool = False,
) -> AbstractContextManager[None]:
    """Fetch no more than this of the micro-batch meanwhile; all of it, if it is kept, for other passes need the rest."""
    if changes.is_cached:
        return nullcontext()
    narrow = Narrow(batch=number, columns=columns, without=without, only_first=only_first)
    return narrowed(changes.sparkSession, narrow)


def _is_of_stored(changes: DataFrame, number: int) -> bool:
    """Whether a batch is of a snapshot. The first row shows it, because the stream gives snapshots in batches of their own."""
    with _only(changes, number, ("change",), only_first=True):
        first = changes.select("change").first()
    return first is not None and first["change"] == "stored"


def _take_stored(tables: Tables, changes: DataFrame, number: int, fidelity: Fidelity) -> Facts:
    """Take in a snapshot of partitions of which nothing was taken in before: each message is in it once, so nothing is compared."""
    if tables.deliveries.has(APPLICATION, number):
        facts = _facts(changes)
    else:
        seen = Observation()
        happened = rules.happened_to(changes.observe(seen, *_counts()))
        with _only(changes, number, rules.DELIVERY_NEEDS):
            tables.deliveries.append_once(happened, application=APPLICATION, version=number)
        facts = counted_by_spark(seen.get)
    with _only(changes, number, rules.MESSAGE_NEEDS):
        aside = append_messages(tables, rules.messages_of(changes), fidelity, application=APPLICATION, version=number)
    return msgspec.structs.replace(facts, mismatches=aside)


def _take_messages(tables: Tables, changes: DataFrame, number: int, fidelity: Fidelity) -> Facts:
    """Take in the messages, and count on the way: a pass for that alone would read everything once more.

    The read shows only whether there are settled messages; they are counted with the deliveries.
    """
    if fidelity.has_columns or tables.messages.has(APPLICATION, number):
        facts = _facts(changes)
        aside = append_messages(tables, rules.messages_of(changes), fidelity, application=APPLICATION, version=number)
        return msgspec.structs.replace(facts, mismatches=aside)
    seen = Observation()
    messages = rules.messages_of(changes.observe(seen, *_counts()))
    with _only(changes, number, rules.MESSAGE_NEEDS, without=rules.SETTLING):
        append_messages(tables, messages, fidelity, application=APPLICATION, version=number)
    return counted_by_spark(seen.get)


def _take_moved(tables: Tables, beside: DataFrame, number: int, facts: Facts, fidelity: Fidelity) -> Facts:
    """Take in moved messages; only messages between the numbers from which some were moved can be theirs."""
    between = f.col("sequence_number").between(f.lit(facts.moved_first), f.lit(facts.moved_last))
    moved = rules.moved_of(beside, tables.messages.frame().where(between))
    aside = append_messages(tables, moved, fidelity, application=f"{APPLICATION} moved", version=number)
    return msgspec.structs.replace(facts, mismatches=facts.mismatches + aside)


def _change_deliveries(deliveries: StoredTable, changes: DataFrame, number: int, facts: Facts) -> Facts:
    """Change the deliveries; gives the facts, with what has happened counted."""
    open_before = _open_of(deliveries)
    if not facts.opened and open_before.isEmpty():
        return _append_settled(deliveries, changes, number, facts)
    with _kept(rules.happened_to(changes)) as happened, _kept(open_before) as known:
        rows = rules.latest(happened)
        new = rows.join(known, list(rules.KEY), "left_anti")
        deliveries.append_once(new, application=APPLICATION, version=number)
        touching = rows.join(known, list(rules.KEY), "left_semi")
        deliveries.replace_newer(touching, same=_SAME, newer=_NEWER)
        return _with_counted(facts, _facts(changes))


def _open_of(deliveries: StoredTable) -> DataFrame:
    return deliveries.frame().where(~f.col("settled")).select(*rules.KEY)


def _append_settled(deliveries: StoredTable, changes: DataFrame, number: int, facts: Facts) -> Facts:
    if deliveries.has(APPLICATION, number):
        return _with_counted(facts, _facts(changes))
    seen = Observation()
    settled = rules.settled_of(changes.observe(seen, *_counts()))
    deliveries.append_once(settled, application=APPLICATION, version=number)
    return _with_counted(facts, counted_by_spark(seen.get))


def _with_counted(facts: Facts, counted: Facts) -> Facts:
    """The facts with what has happened, of which not everything was seen before."""
    return msgspec.structs.replace(
        facts,
        settled=counted.settled,
        opened=counted.opened,
        oldest=earliest(facts.oldest, counted.oldest),
        newest=last(facts.newest, counted.newest),
    )


def _erase(tables: Tables, erased: DataFrame) -> None:
    """Erase recipients by conditions with the values in them: so files in which nothing of these recipients lies are not opened."""
    rows = erased.collect()
    for first in range(0, len(rows), ERASURES_AT_ONCE_MAX):
        few = rows[first : first + ERASURES_AT_ONCE_MAX]
        for table, column in (
            (tables.messages, "sequence_number"),
            (tables.deliveries, "message_sequence_number"),
            (tables.mismatches, "sequence_number"),
        ):
            table.delete(_any([_of_recipient(row["partition"], row["recipient"], column, row["until"]) for row in few]))


def _of_recipient(partition: int, recipient: str, column: str, until: int) -> Column:
    return (f.col("partition") == partition) & (f.col("recipient") == recipient) & (f.col(column) <= until)


def _any(conditions: list[Column]) -> Column:
    found = conditions[0]
    for condition in conditions[1:]:
        found |= condition
    return found


@contextmanager
def _kept(frame: DataFrame) -> Iterator[DataFrame]:
    """Keep frames in memory that are small beside what they are made from, and used several times."""
    kept = frame.persist(StorageLevel.MEMORY_AND_DISK)
    try:
        yield kept
    finally:
        kept.unpersist()


def _counts() -> list[Column]:
    moved_from = f.when(rules.is_moved(), f.col("message_sequence_number"))
    happened = f.when(f.col("change") != "stored", f.col("at"))
    return [
        f.count_if(rules.is_new()).alias("new"),
        f.count_if(rules.is_moved()).alias("moved"),
        f.count_if(rules.is_settled()).alias("settled"),
        f.count_if(rules.is_open()).alias("opened"),
        f.count_if(f.col("change") == "erased").alias("erased"),
        f.count_if(f.col("change") == "batch_completed").alias("completed"),
        f.min(moved_from).alias("moved_first"),
        f.max(moved_from).alias("moved_last"),
        f.min(happened).alias("oldest"),
        f.max(happened).alias("newest"),
    ]


def _facts(changes: DataFrame) -> Facts:
    row = changes.agg(*_counts()).first()
    assert row is not None, "an aggregate has a row"
    return counted_by_spark(row.asDict())
