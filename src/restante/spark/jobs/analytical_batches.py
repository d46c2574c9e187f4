"""One micro-batch of changes, applied to the analytical store's tables so that it can be applied again without harm.

Each table takes its part in commits of its own, so a crash may come between two of them. Then Spark gives the same batch
again, and what was done is done once: appends carry the number of the batch, and a table refuses one that it has; merges
and deletions change nothing the second time.

A batch of what is stored can be smaller the second time: the hub's retention may have removed messages meanwhile. So there,
what became of messages comes before them. A delivery without its message harms nobody; a message without its delivery
would wait for ever. A batch of the feed is always the same: messages come first, and what was erased at last.

The source is read twice at most: for messages, while which it is seen what else there is, and for that. Each time only what
is needed is fetched from the hub (`narrowing`): messages with their data and without what became of them, then the other
way round. What is needed more than once is kept while the batch lasts. The careful way, which compares deliveries with those
that are open, is only gone if there are such.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from datetime import datetime

from pyspark.sql import Column, DataFrame, Observation
from pyspark.sql import functions as f
from pyspark.storagelevel import StorageLevel

from restante.limits import ERASURES_AT_ONCE_MAX
from restante.spark.documents import Fidelity
from restante.spark.jobs import analytical_changes as rules
from restante.spark.jobs.analytical_documents import append_messages
from restante.spark.jobs.analytical_tables import APPLICATION, Tables
from restante.spark.narrowing import Narrow, narrowed
from restante.spark.tables import WRITING, Table

_SAME = " AND ".join(["NOT t.settled", *(f"t.{name} = s.{name}" for name in rules.KEY)])
_NEWER = "s.change_sequence_number > t.change_sequence_number"


@dataclass(frozen=True, slots=True)
class Facts:
    """What a batch of changes held."""

    new: int = 0
    moved: int = 0
    settled: int = 0
    opened: int = 0
    erased: int = 0
    completed: int = 0
    moved_first: int | None = None
    moved_last: int | None = None
    """The numbers between which the messages lay that were moved."""
    oldest: datetime | None = None
    """When the first change happened; what was stored before is none."""
    newest: datetime | None = None
    mismatches: int = 0

    @property
    def is_plain(self) -> bool:
        """Whether there is nothing but messages, and some that are settled where they are."""
        return not (self.moved or self.opened or self.erased or self.completed)


def apply(
    tables: Tables, changes: DataFrame, *, number: int, fidelity: Fidelity, feed_has_begun: bool = False
) -> Facts:
    """Apply the batch of this number to all tables. The same number again: what is missing of it is done.

    Once the feed has begun, no batch of what is stored can come any more, and nobody need look.
    """
    spark = changes.sparkSession
    for name, value in WRITING.items():
        spark.conf.set(name, value)
    # Each task writes files of its own: more tasks than cores only make more files.
    read = changes.coalesce(spark.sparkContext.defaultParallelism)
    if not fidelity.has_columns:
        return _applied(tables, read, number, fidelity, feed_has_begun=feed_has_begun)
    with _kept(read) as kept:  # To infer columns takes several looks at the documents.
        return _applied(tables, kept, number, fidelity, feed_has_begun=feed_has_begun)


def _applied(tables: Tables, changes: DataFrame, number: int, fidelity: Fidelity, *, feed_has_begun: bool) -> Facts:
    if not feed_has_begun and _is_of_stored(changes, number):
        return _take_stored(tables, changes, number, fidelity)
    facts = _take_messages(tables, changes, number, fidelity)
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
        if facts.completed:
            tables.batches.append_once(rules.batches_of(beside), application=APPLICATION, version=number)
        if facts.erased:
            _erase(tables, rules.erased_of(beside))
    return facts


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
    """The first row tells: the stream gives what is stored in batches of their own."""
    with _only(changes, number, ("change",), only_first=True):
        first = changes.select("change").first()
    return first is not None and first["change"] == "stored"


def _take_stored(tables: Tables, changes: DataFrame, number: int, fidelity: Fidelity) -> Facts:
    """Nothing of these partitions was taken in before, and each message is there once: nothing has to be compared."""
    if tables.deliveries.has(APPLICATION, number):
        facts = _facts(changes)
    else:
        seen = Observation()
        happened = rules.happened_to(changes.observe(seen, *_counts()))
        with _only(changes, number, rules.DELIVERY_NEEDS):
            tables.deliveries.append_once(happened, application=APPLICATION, version=number)
        facts = Facts(**seen.get)
    with _only(changes, number, rules.MESSAGE_NEEDS):
        aside = append_messages(tables, rules.messages_of(changes), fidelity, application=APPLICATION, version=number)
    return replace(facts, mismatches=aside)


def _take_messages(tables: Tables, changes: DataFrame, number: int, fidelity: Fidelity) -> Facts:
    """Count on the way: a pass for that alone would read everything once more.

    Of what is settled only so much is seen that it is known whether there is any; it is counted with the deliveries.
    """
    if fidelity.has_columns or tables.messages.has(APPLICATION, number):
        facts = _facts(changes)
        aside = append_messages(tables, rules.messages_of(changes), fidelity, application=APPLICATION, version=number)
        return replace(facts, mismatches=aside)
    seen = Observation()
    messages = rules.messages_of(changes.observe(seen, *_counts()))
    with _only(changes, number, rules.MESSAGE_NEEDS, without=rules.SETTLING):
        append_messages(tables, messages, fidelity, application=APPLICATION, version=number)
    return Facts(**seen.get)


def _take_moved(tables: Tables, beside: DataFrame, number: int, facts: Facts, fidelity: Fidelity) -> Facts:
    """Only messages between the numbers from which some were moved can be theirs."""
    between = f.col("sequence_number").between(f.lit(facts.moved_first), f.lit(facts.moved_last))
    moved = rules.moved_of(beside, tables.messages.frame().where(between))
    aside = append_messages(tables, moved, fidelity, application=f"{APPLICATION} moved", version=number)
    return replace(facts, mismatches=facts.mismatches + aside)


def _change_deliveries(deliveries: Table, changes: DataFrame, number: int, facts: Facts) -> Facts:
    """Also the facts, with what has happened counted."""
    open_before = deliveries.frame().where(~f.col("settled")).select(*rules.KEY)
    if not facts.opened and open_before.isEmpty():
        return _append_settled(deliveries, changes, number, facts)
    with _kept(rules.happened_to(changes)) as happened, _kept(open_before) as known:
        rows = rules.latest(happened)
        new = rows.join(known, list(rules.KEY), "left_anti")
        deliveries.append_once(new, application=APPLICATION, version=number)
        touching = rows.join(known, list(rules.KEY), "left_semi")
        deliveries.replace_newer(touching, same=_SAME, newer=_NEWER)
        return _with_counted(facts, _facts(changes))


def _append_settled(deliveries: Table, changes: DataFrame, number: int, facts: Facts) -> Facts:
    if deliveries.has(APPLICATION, number):
        return _with_counted(facts, _facts(changes))
    seen = Observation()
    settled = rules.settled_of(changes.observe(seen, *_counts()))
    deliveries.append_once(settled, application=APPLICATION, version=number)
    return _with_counted(facts, Facts(**seen.get))


def _with_counted(facts: Facts, counted: Facts) -> Facts:
    """With what has happened, of which not everything was seen before."""
    return replace(
        facts,
        settled=counted.settled,
        opened=counted.opened,
        oldest=min((moment for moment in (facts.oldest, counted.oldest) if moment is not None), default=None),
        newest=max((moment for moment in (facts.newest, counted.newest) if moment is not None), default=None),
    )


def _erase(tables: Tables, erased: DataFrame) -> None:
    """By conditions with the values in them: so files in which nothing of these recipients lies are not opened."""
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
    """For frames that are small beside what they are made from, and used several times."""
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
    return Facts(**row.asDict())
