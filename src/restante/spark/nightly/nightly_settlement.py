"""The settlement of a night: readings and prices in, documents for every actor out.

All sums are exact: energy in whole watt-hours, prices in cents for a megawatt-hour, and so amounts in millionths of a
cent. Only the amount to pay, once for every actor, is rounded to cents.
"""

from __future__ import annotations

from datetime import date

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f

from restante.spark.running.hub_frames import uuid_of

PRODUCTS = {"night": 0, "day": 24, "peak": 68, "evening": 84}
"""The products that are settled separately, by the quarter-hour with which each begins."""
SUMMARY = "summary"
_CENT = 1_000_000
_LAST = 2**31 - 1
"""The summary comes after all that it sums up."""
_SUMS = ("readings", "energy_wh", "amount_microcents")


def transform_settlement(readings: DataFrame, prices: DataFrame) -> DataFrame:
    """A line per actor, area, meter group and quarter-hour: what was used there, and what it costs."""
    used = readings.groupBy("actor", "area", "meter_group", "quarter").agg(
        f.count(f.lit(1)).alias("readings"), f.sum("energy_wh").alias("energy_wh")
    )
    return used.join(f.broadcast(prices), ["area", "quarter"]).select(
        "actor",
        "area",
        "meter_group",
        _product().alias("product"),
        "quarter",
        "readings",
        "energy_wh",
        "price_cents_per_mwh",
        (f.col("energy_wh") * f.col("price_cents_per_mwh")).alias("amount_microcents"),
    )


def transform_documents(lines: DataFrame, *, day: date) -> DataFrame:
    """A document per actor, meter group and product, and then one that sums them up; `item` is their order."""
    details = _details(lines)
    documents = details.unionByName(_summaries(details), allowMissingColumns=True)
    return documents.select(
        "actor",
        "item",
        "product",
        *_SUMS,
        uuid_of(f.lit("settlement"), f.lit(day.isoformat()), f.col("actor"), f.col("item")).alias("id"),
        f.concat(f.lit(f'{{"night":"{day.isoformat()}",'), f.substring("body", 2, _LAST)).alias("data"),
    )


def transform_messages(documents: DataFrame) -> DataFrame:
    """The documents as messages, with `item`, by which they come in order."""
    summary = f.col("product") == f.lit(SUMMARY)
    return documents.select(
        f.col("actor").alias("recipient"),
        "id",
        f.lit("settlement").alias("kind"),
        f.when(summary, f.lit("settlement-summary")).otherwise(f.lit("settlement-lines")).alias("document_type"),
        f.lit("application/json").alias("media_type"),
        "data",
        "item",
    )


def _details(lines: DataFrame) -> DataFrame:
    line = f.struct("quarter", _clock().alias("from"), "energy_wh", "price_cents_per_mwh", "amount_microcents")
    grouped = lines.groupBy("actor", "area", "meter_group", "product").agg(
        *(f.sum(name).alias(name) for name in _SUMS), f.sort_array(f.collect_list(line)).alias("lines")
    )
    told = f.transform("lines", lambda each: each.dropFields("quarter")).alias("lines")
    number = f.array_position(f.array(*map(f.lit, PRODUCTS)), f.col("product")).cast("int")
    return grouped.select(
        "actor",
        "product",
        *_SUMS,
        (f.col("meter_group") * f.lit(len(PRODUCTS)) + number).alias("item"),
        f.to_json(f.struct("actor", "area", "meter_group", "product", *_SUMS, told)).alias("body"),
    )


def _summaries(details: DataFrame) -> DataFrame:
    first = f.min("item").alias("item")
    products = details.groupBy("actor", "product").agg(
        first, f.count(f.lit(1)).alias("documents"), *(f.sum(name).alias(name) for name in _SUMS)
    )
    each = f.struct("item", "product", "documents", *_SUMS)
    sums = products.groupBy("actor").agg(
        f.sum("documents").alias("documents"),
        *(f.sum(name).alias(name) for name in _SUMS),
        f.sort_array(f.collect_list(each)).alias("products"),
    )
    told = f.transform("products", lambda each: each.dropFields("item")).alias("products")
    return sums.select(
        "actor",
        f.lit(SUMMARY).alias("product"),
        *_SUMS,
        f.lit(_LAST).alias("item"),
        f.to_json(f.struct("actor", "documents", *_SUMS, _cents().alias("amount_cents"), told)).alias("body"),
    )


def _product() -> Column:
    """The product of the quarter-hour: the last one that has begun."""
    chosen = f.lit(next(iter(PRODUCTS)))
    for name, first in PRODUCTS.items():
        chosen = f.when(f.col("quarter") >= f.lit(first), f.lit(name)).otherwise(chosen)
    return chosen


def _clock() -> Column:
    """When the quarter-hour begins, such as 17:15."""
    hour = f.lpad(f.call_function("div", f.col("quarter"), f.lit(4)).cast("string"), 2, "0")
    minute = f.lpad((f.col("quarter") % f.lit(4) * f.lit(15)).cast("string"), 2, "0")
    return f.concat(hour, f.lit(":"), minute)


def _cents() -> Column:
    """The amount in whole cents, half a cent up; amounts are not negative."""
    return f.call_function("div", f.col("amount_microcents") + f.lit(_CENT // 2), f.lit(_CENT))
