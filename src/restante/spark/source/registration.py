"""Making `format("restante")` known to a Spark session."""

from __future__ import annotations

from pyspark.sql import SparkSession

from restante.spark.source.source import RestanteSource
from restante.spark.source.topic_stream import TopicStream

_PUSHDOWN = "spark.sql.python.filterPushdown.enabled"
"""Spark refuses a source that can apply filters unless it may hand them over."""


def register(spark: SparkSession) -> None:
    """From now on `spark.read`, `readStream`, `write` and `writeStream` know `format("restante")`, and `readStream` a topic. Again, it is harmless."""
    spark.conf.set(_PUSHDOWN, "true")
    spark.dataSource.register(RestanteSource)
    spark.dataSource.register(TopicStream)
