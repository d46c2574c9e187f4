"""What keeps the tables in shape, and what is refused before anything is written."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from restante.errors import InvalidOperation, InvalidRequest
from restante.spark.documents import Fidelity
from restante.spark.jobs import analytical_store
from restante.spark.jobs.analytical_batches import apply
from restante.spark.jobs.analytical_store import Options
from restante.spark.jobs.analytical_tables import Tables, create_tables, tables_at
from restante.spark.jobs.analytical_upkeep import clean, cleaned_on, compact, expire
from restante.spark.jobs.work import Work
from restante.spark.schemas import CHANGES
from tests.spark.given_then import check_rows, frame_of


def made(spark: SparkSession, folder: str, *, days: tuple[int, ...]) -> Tables:
    """A message of each day of March, in a batch of its own, collected the day after; and one that lies aside."""
    tables = tables_at(spark, folder)
    create_tables(tables, Fidelity.NONE, versions_hours=168)
    for number, day in enumerate(days):
        first = number * 10 + 1
        told = {"partition": 0, "recipient": "alice"}
        published = [
            {**told, "sequence_number": first + each, "message_sequence_number": first + each, "change": "published"}
            for each in range(2)
        ]
        rows = [{**row, "weight": 1, "at": f"2026-03-{day:02}T08:00:00Z", "data": "x"} for row in published]
        for each, change in enumerate(("collected", "set_aside")):
            about = {"sequence_number": first + 2 + each, "message_sequence_number": first + each, "change": change}
            rows.append({**told, **about, "at": f"2026-03-{day + 1:02}T08:00:00Z"})
        apply(tables, frame_of(spark, rows, CHANGES), number=number, fidelity=Fidelity.NONE)
    return tables


def files(folder: str, table: str) -> int:
    return len(list(Path(folder, table).rglob("*.parquet")))


def test_each_table_forgets_by_its_own_rule_and_what_is_open_is_kept(spark: SparkSession, tables: str) -> None:
    filled = made(spark, tables, days=(1, 5, 9))
    expire(filled, Options(keep_messages=4, keep_deliveries=6).upkeep, today=date(2026, 3, 11))
    check_rows(filled.messages.frame(), [{"sequence_number": 21}, {"sequence_number": 22}])
    check_rows(
        filled.deliveries.frame(),
        [
            {"message_sequence_number": 2, "state": "set_aside"},
            {"message_sequence_number": 11, "state": "collected"},
            {"message_sequence_number": 12, "state": "set_aside"},
            {"message_sequence_number": 21, "state": "collected"},
            {"message_sequence_number": 22, "state": "set_aside"},
        ],
    )


def test_small_files_become_one_and_the_old_ones_go_when_no_version_needs_them(
    spark: SparkSession, tables: str
) -> None:
    filled = made(spark, tables, days=(1, 1, 1))
    rules = Options(versions_hours=0).upkeep
    before = files(tables, "messages")
    compact(filled, rules)
    assert files(tables, "messages") == before + 1, "the old version can still be read"
    clean(filled, rules, today=date(2026, 3, 2))
    assert files(tables, "messages") == 1
    assert filled.messages.frame().count() == 6
    assert cleaned_on(filled) == date(2026, 3, 2)


def test_how_documents_are_shown_is_fixed_when_the_tables_are_made(spark: SparkSession, tables: str) -> None:
    create_tables(tables_at(spark, tables), Fidelity.VARIANT, versions_hours=168)
    with pytest.raises(InvalidOperation, match=r"made with schema 'variant'.*Go on with 'variant'") as refused:
        analytical_store.start(Work(spark=spark, tables=tables), Options(schema=Fidelity.WELL_DEFINED))
    assert refused.value.details == {"fixed": "variant"}


def test_tables_without_their_checkpoint_are_not_filled_twice(spark: SparkSession, tables: str) -> None:
    made(spark, tables, days=(1,))
    with pytest.raises(InvalidOperation, match="the checkpoint that says how far is gone"):
        analytical_store.start(Work(spark=spark, tables=tables), Options())


@pytest.mark.parametrize("keep_messages", [None, 8])
def test_deliveries_are_not_forgotten_before_their_messages(
    spark: SparkSession, tables: str, keep_messages: int | None
) -> None:
    with pytest.raises(InvalidRequest, match="would look as if it were still waiting"):
        analytical_store.start(
            Work(spark=spark, tables=tables), Options(keep_messages=keep_messages, keep_deliveries=7)
        )
    assert not list(Path(tables).iterdir()), "nothing was made"
