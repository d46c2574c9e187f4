"""What keeps the tables in shape, and what is refused before anything is written."""

from __future__ import annotations

import itertools
import shutil
from datetime import date
from pathlib import Path

import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from restante.errors import InvalidOperation, InvalidRequest
from restante.spark.analytical.analytical_batches import apply
from restante.spark.analytical.analytical_tables import Tables, create_tables, tables_at
from restante.spark.analytical.analytical_upkeep import clean, cleaned_on, compact, expire
from restante.spark.documents import Fidelity
from restante.spark.jobs import analytical_store
from restante.spark.jobs.analytical_store import Options
from restante.spark.jobs.work import Work
from restante.spark.source.schemas import CHANGES
from tests.spark.given_then import check_rows, frame_of


def happened_on(day: int, number: int) -> list[dict[str, object]]:
    """Two messages of a day of March, one collected and one set aside on the next; and a batch that is complete."""
    first, told = number * 10 + 1, {"partition": 0, "recipient": "alice"}
    rows: list[dict[str, object]] = [
        {**told, "sequence_number": place, "message_sequence_number": place, "change": "published", "weight": 1}
        | {"at": f"2026-03-{day:02}T08:00:00Z", "data": "x"}
        for place in (first, first + 1)
    ]
    for each, change in enumerate(("collected", "set_aside")):
        about = {"sequence_number": first + 2 + each, "message_sequence_number": first + each, "change": change}
        rows.append({**told, **about, "at": f"2026-03-{day + 1:02}T08:00:00Z"})
    completed = {"partition": 0, "sequence_number": first + 4, "change": "batch_completed", "batch": f"b{number}"}
    return [*rows, {**completed, "at": f"2026-03-{day:02}T09:00:00Z"}]


def made(spark: SparkSession, folder: str, *micro_batches: tuple[int, ...]) -> Tables:
    """Tables with what happened on these days, in so many micro-batches."""
    tables = tables_at(spark, folder)
    create_tables(tables, Fidelity.NONE, versions_hours=168)
    numbers = itertools.count()
    for number, days in enumerate(micro_batches):
        rows = [row for day in days for row in happened_on(day, next(numbers))]
        apply(tables, frame_of(spark, rows, CHANGES), number=number, fidelity=Fidelity.NONE)
    return tables


def files(folder: str, table: str) -> int:
    return len(list(Path(folder, table).rglob("*.parquet")))


def test_each_table_forgets_by_its_own_rule(spark: SparkSession, tables: str) -> None:
    filled = made(spark, tables, (1, 5, 9))
    expire(filled, Options(keep_messages=4, keep_deliveries=6).upkeep, today=date(2026, 3, 11))
    check_rows(filled.messages.frame(), [{"sequence_number": 21}, {"sequence_number": 22}])
    check_rows(
        filled.deliveries.frame(),
        [
            {"message_sequence_number": 11, "state": "collected"},
            {"message_sequence_number": 12, "state": "set_aside"},
            {"message_sequence_number": 21, "state": "collected"},
            {"message_sequence_number": 22, "state": "set_aside"},
        ],
    )
    check_rows(filled.batches.frame(), [{"batch": "b2"}])


@pytest.mark.long
def test_small_files_become_one_and_the_old_ones_go_when_no_version_needs_them(
    spark: SparkSession, tables: str
) -> None:
    filled = made(spark, tables, (1,), (1,), (1,))
    rules = Options(versions_hours=0).upkeep
    before = {name: files(tables, name) for name in ("messages", "batches")}
    compact(filled, rules)
    for name, count in before.items():
        assert files(tables, name) == count + 1, "the old version can still be read"
    clean(filled, rules, today=date(2026, 3, 2))
    assert {name: files(tables, name) for name in before} == dict.fromkeys(before, 1)
    told = DeltaTable(filled.messages.path).metadata().configuration
    assert told["delta.logRetentionDuration"] == told["delta.deletedFileRetentionDuration"] == "interval 0 hours"
    assert filled.messages.frame().count() == 6
    assert cleaned_on(filled) == date(2026, 3, 2)


def test_how_documents_are_shown_is_fixed_when_the_tables_are_made(spark: SparkSession, tables: str) -> None:
    create_tables(tables_at(spark, tables), Fidelity.VARIANT, versions_hours=168)
    with pytest.raises(InvalidOperation, match=r"made with schema 'variant'.*Go on with 'variant'") as refused:
        analytical_store.start(Work(spark=spark, tables=tables), Options(schema=Fidelity.WELL_DEFINED))
    assert refused.value.details == {"fixed": "variant"}


def test_tables_without_their_checkpoint_are_not_filled_twice(spark: SparkSession, tables: str) -> None:
    made(spark, tables, (1,))
    work = Work(spark=spark, tables=tables)
    with pytest.raises(InvalidOperation, match=r"the checkpoint that says how far, .*/analytical-store, is gone"):
        analytical_store.start(work, Options())
    begin(work)
    shutil.rmtree(work.place("deliveries"))
    with pytest.raises(InvalidOperation, match=r"what was filled is gone: [^,]*/deliveries\."):
        analytical_store.start(work, Options())


def test_a_checkpoint_without_its_tables_is_not_gone_on_with(spark: SparkSession, tables: str) -> None:
    work = Work(spark=spark, tables=tables)
    begin(work)
    with pytest.raises(InvalidOperation, match=r"what was filled is gone: .*/messages, "):
        analytical_store.start(work, Options())


def begin(work: Work) -> None:
    """A checkpoint as Spark leaves it after many batches: what it says of the first ones is gone."""
    checkpoint = Path(work.place("checkpoints", "analytical-store"))
    (checkpoint / "commits").mkdir(parents=True)
    (checkpoint / "metadata").write_text("{}", encoding="utf-8")
    (checkpoint / "commits" / "170").write_text("v1\n{}", encoding="utf-8")


@pytest.mark.parametrize("keep_messages", [None, 8])
def test_deliveries_are_not_forgotten_before_their_messages(
    spark: SparkSession, tables: str, keep_messages: int | None
) -> None:
    with pytest.raises(InvalidRequest, match="would look as if it were still waiting"):
        analytical_store.start(
            Work(spark=spark, tables=tables), Options(keep_messages=keep_messages, keep_deliveries=7)
        )
    assert not list(Path(tables).iterdir()), "nothing was made"
