"""Making `format("restante")` known to a Spark session."""

from __future__ import annotations

from pyspark.sql import SparkSession

from restante.spark.source.source import RestanteSource
from restante.spark.source.topic_stream import TopicStream

_PUSHDOWN = "spark.sql.python.filterPushdown.enabled"
"""Spark refuses a source that can apply filters unless it may hand them over."""


def register(spark: SparkSession) -> None:
    """Teach a session `format("restante")`, and `readStream` a Kafka topic. A second call is harmless."""
    spark.conf.set(_PUSHDOWN, "true")
    spark.dataSource.register(RestanteSource)
    spark.dataSource.register(TopicStream)
