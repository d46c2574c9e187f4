"""The tables that reports are computed from, as the analytical store writes them, from the rows of a case."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from restante.spark.analytical.analytical_changes import DELIVERIES, MESSAGES
from tests.spark.given_then import Case, frame_of


def given_tables(case: Case, spark: SparkSession) -> tuple[DataFrame, DataFrame]:
    return case.given(spark, "messages", MESSAGES), case.given(spark, "deliveries", DELIVERIES)


def fill(spark: SparkSession, tables: str, *waiting: Mapping[str, Any]) -> None:
    """Both tables: one with these messages, and one in which nothing has happened."""
    rows = [
        {"partition": 0, "sequence_number": number, "origin": "o", "kind": "k", "published_at": "2026-03-01T08:00:00Z"}
        | dict(message)
        for number, message in enumerate(waiting, 1)
    ]
    frame_of(spark, rows, MESSAGES).write.format("delta").save(f"{tables}/messages")
    frame_of(spark, [], DELIVERIES).write.format("delta").save(f"{tables}/deliveries")
