"""Columns in memory follow the same rules as frames of Spark's: both are given the same changes, of all kinds."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import to_arrow_schema

from restante.spark.analytical import analytical_changes as rules
from restante.spark.analytical.analytical_columns import split
from restante.spark.analytical.analytical_facts import together
from restante.spark.source.schemas import CHANGES

START = datetime(2026, 2, 27, 22, tzinfo=UTC)
HAPPENED = ("collected", "expired", "withdrawn", "set_aside", "released", "erased", "batch_completed")


def some_time(chance: random.Random) -> datetime:
    return START + timedelta(microseconds=chance.randrange(4 * 86_400 * 10**6))


def some_change(chance: random.Random, number: int, *, stored: bool) -> dict[str, Any]:
    change = "stored" if stored else chance.choice(("published", "published", "published", *HAPPENED))
    is_message = change in ("published", "stored") or (change == "released" and chance.random() < 0.5)
    row: dict[str, Any] = {
        "partition": chance.randrange(3),
        "sequence_number": number,
        "change": change,
        "at": some_time(chance),
        "message_sequence_number": number if is_message else chance.randrange(1, number + 1),
        "id": f"id-{number}",
        "recipient": chance.choice(("ada", "bob", "zoë")),
        "origin": chance.choice((None, "billing")),
        "kind": chance.choice((None, "invoice")),
    }
    if is_message:
        row |= {"weight": chance.randrange(5), "bundleable": chance.random() < 0.5, "data": bytes([number % 256])}
        row |= {
            "properties": chance.choice((None, [("a", "1")], [])),
            "expires_at": chance.choice((None, some_time(chance))),
        }
    if stored:
        row["state"] = chance.choice(("waiting", "collected", "expired", "withdrawn", "set_aside"))
        row["collected_at"] = some_time(chance) if row["state"] == "collected" else None
    elif change == "collected":
        row["bundle_id"] = f"bundle-{number}"
    return row


def in_order(rows: list[dict[str, Any]], number: str) -> list[dict[str, Any]]:
    return sorted(rows, key=lambda row: (row["partition"], row[number], row.get("change_sequence_number")))


def rows_of(frame: DataFrame) -> list[dict[str, Any]]:
    return frame.toArrow().to_pylist()


def test_both_make_the_same_of_the_same_changes(spark: SparkSession) -> None:
    schema = to_arrow_schema(CHANGES, timezone="UTC")
    for seed in range(4):
        chance = random.Random(seed)
        stored = seed % 2 == 1
        given = [some_change(chance, number, stored=stored) for number in range(1, 400)]
        table = pa.Table.from_pylist(given, schema=schema)
        parts = [split(batch) for batch in table.to_batches(max_chunksize=90)]
        frame = spark.createDataFrame(table, schema=CHANGES)
        messages = pa.concat_tables([part.messages for part in parts]).to_pylist()
        deliveries = pa.concat_tables([part.deliveries for part in parts]).to_pylist()
        assert in_order(messages, "sequence_number") == in_order(rows_of(rules.messages_of(frame)), "sequence_number")
        expected = rows_of(rules.happened_to(frame))
        assert in_order(deliveries, "message_sequence_number") == in_order(expected, "message_sequence_number")
        assert {part.is_stored for part in parts} == {stored}
        facts = together(part.facts for part in parts)
        assert (facts.new, facts.settled + facts.opened) == (len(messages), len(deliveries))
        assert facts.is_plain == (stored and not facts.opened)
        times = [row["at"] for row in given if row["change"] != "stored"]
        assert (facts.oldest, facts.newest) == (min(times, default=None), max(times, default=None))
        from_there = [
            row["message_sequence_number"] for row in given if row["change"] == "released" and "weight" in row
        ]
        assert facts.moved == len(from_there)
        assert (facts.moved_first, facts.moved_last) == (min(from_there, default=None), max(from_there, default=None))
