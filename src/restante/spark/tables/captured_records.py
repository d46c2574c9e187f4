"""Records of a Kafka topic in plain files, as a capture keeps the feed: each once, by topic partition and hour."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from restante.spark.tables.captured_files import Capture, hour_of

_MILLISECONDS = 1_000


def transform_records(records: DataFrame) -> DataFrame:
    """The records with the hour of their time stamp, in UTC."""
    return records.withColumn("hour", hour_of(f.floor(f.col("timestamp_ms") / f.lit(_MILLISECONDS))))


class RecordCapture(Capture):
    """The files of one topic. What a record says nobody looks at, so nothing is erased from them."""

    order = "offset"

    def rows_of(self, batch: DataFrame) -> DataFrame:
        return transform_records(batch)

    def forget(self, batch: DataFrame) -> None:
        """Kafka does not say who was erased."""
