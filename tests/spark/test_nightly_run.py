"""The nightly run: made readings, exact sums, and a delivery that leaves nothing twice."""

from __future__ import annotations

import json
from datetime import date
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as f
from pyspark.sql.types import IntegerType, LongType, StringType, StructType

from restante.errors import InvalidRequest
from restante.spark.jobs import nightly_run
from restante.spark.jobs.work import Work
from restante.spark.nightly.nightly_readings import AREAS, QUARTERS, NightInput, transform_prices, transform_readings
from restante.spark.nightly.nightly_settlement import PRODUCTS, transform_documents, transform_settlement
from tests.spark.given_then import Case, cases, named
from tests.spark.served import SparkHub

DAY = date(2026, 3, 1)
SMALL = NightInput(day=DAY, seed=7, readings=1_000, actors=3, groups=2)
READINGS = (
    StructType()
    .add("meter", LongType())
    .add("actor", StringType())
    .add("area", StringType())
    .add("meter_group", IntegerType())
    .add("quarter", IntegerType())
    .add("energy_wh", LongType())
)
PRICES = StructType().add("area", StringType()).add("quarter", IntegerType()).add("price_cents_per_mwh", LongType())


@pytest.mark.parametrize("case", cases("nightly-run"), ids=named)
def test_a_settlement_is_exact(case: Case, spark: SparkSession) -> None:
    lines = transform_settlement(case.given(spark, "readings", READINGS), case.given(spark, "prices", PRICES))
    documents = transform_documents(lines, day=DAY)
    # Bytes of JSON are compared as what they say.
    case.check("documents", documents.withColumn("data", f.col("data").cast("binary")))


def test_readings_are_the_same_whoever_makes_them(spark: SparkSession) -> None:
    one, many = (transform_readings(spark.range(0, 1_000, 1, parts), SMALL).collect() for parts in (1, 4))
    assert one == many
    other = NightInput(day=DAY, seed=8, readings=1_000, actors=3, groups=2)
    assert transform_readings(spark.range(1_000), other).collect() != one


def test_a_meter_reads_a_quarter_hour_once(spark: SparkSession) -> None:
    readings = transform_readings(spark.range(1_000), SMALL).collect()
    assert SMALL.meters == 11
    assert len({(row.meter, row.quarter) for row in readings}) == 1_000
    assert {row.quarter for row in readings} == set(range(-(-1_000 // 11)))
    assert {(row.actor, row.meter_group) for row in readings} == {
        (f"actor-{actor:06d}", group) for actor in range(3) for group in range(2)
    }
    assert len({(row.actor, row.meter_group, row.area) for row in readings}) == 6
    assert READINGS.names == transform_readings(spark.range(1), SMALL).columns


def test_every_area_has_a_price_for_every_quarter_hour(spark: SparkSession) -> None:
    prices = transform_prices(spark.range(len(AREAS) * QUARTERS), SMALL).collect()
    assert {(row.area, row.quarter) for row in prices} == {(area, quarter) for area in AREAS for quarter in range(96)}
    assert all(row.price_cents_per_mwh >= 3_000 for row in prices)


def test_the_night_is_delivered_once_in_order_and_bound_to_a_batch(
    spark: SparkSession, tables: str, hub: SparkHub
) -> None:
    work = Work(spark=spark, url=hub.url, tables=tables)
    options = nightly_run.Options(night=DAY, readings=3_000, actors=4, groups=2)
    first = nightly_run.run(work, options)
    messages = 4 * (2 * len(PRODUCTS) + 1)
    assert (first.figures["messages"], first.figures["actors"], first.figures["duplicates"]) == (messages, 4, 0)
    assert first.figures["key"] == "settlement-2026-03-01"

    again = nightly_run.run(work, options)
    kept = ("messages", "consignment", "batch")
    assert [again.figures[name] for name in kept] == [first.figures[name] for name in kept]
    other = nightly_run.run(work, nightly_run.Options(night=DAY, readings=3_000, actors=4, groups=2, key="other"))
    assert (other.figures["messages"], other.figures["duplicates"]) == (0, messages)

    with hub.connect() as connected:
        mail = {name: _collected(connected, name) for name in (f"actor-{number:06d}" for number in range(4))}
        status = connected.batches.get(str(first.figures["batch"])).status()
    assert (status.items, status.pending) == (messages, 0)
    assert status.completed_at is not None
    for documents in mail.values():
        _check(documents)
    assert sum(documents[-1]["readings"] for documents in mail.values()) == 3_000
    assert first.table is not None
    assert first.table.column("product").to_pylist() == list(PRODUCTS)
    for name in ("readings", "energy_wh", "amount_microcents"):
        told = sum(row[name] for row in first.table.to_pylist())
        assert told == sum(documents[-1][name] for documents in mail.values())


def test_too_few_readings_are_told(spark: SparkSession, tables: str) -> None:
    with pytest.raises(InvalidRequest, match="make it at least 8,000"):
        nightly_run.run(Work(spark=spark, tables=tables), nightly_run.Options(readings=7_999))


def _collected(connected: Any, recipient: str) -> list[dict[str, Any]]:
    documents: list[dict[str, Any]] = []
    for bundle in connected.recipient(recipient).bundles(idle=0):
        documents += [json.loads(row["data"]) for row in bundle.table.to_pylist()]
        bundle.dequeue()
    return documents


def _check(documents: list[dict[str, Any]]) -> None:
    """In order, the summary last, and its sums are those of all lines before it."""
    *details, summary = documents
    assert [(told["meter_group"], told["product"]) for told in details] == [
        (group, product) for group in range(2) for product in PRODUCTS
    ]
    lines = [line for told in details for line in told["lines"]]
    assert summary["documents"] == len(details)
    for name in ("energy_wh", "amount_microcents"):
        assert summary[name] == sum(told[name] for told in details) == sum(line[name] for line in lines)
    assert all(line["amount_microcents"] == line["energy_wh"] * line["price_cents_per_mwh"] for line in lines)
    assert summary["amount_cents"] == (summary["amount_microcents"] + 500_000) // 1_000_000
