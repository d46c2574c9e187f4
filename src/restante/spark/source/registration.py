"""Making `format("restante")` known to a Spark session."""

from __future__ import annotations

from pyspark.sql import SparkSession

from restante.spark.source.source import RestanteSource

_PUSHDOWN = "spark.sql.python.filterPushdown.enabled"
"""Spark refuses a source that can apply filters unless it may hand them over."""


def register(spark: SparkSession) -> None:
    """From now on `spark.read`, `readStream`, `write` and `writeStream` know `format("restante")`. Again, it is harmless."""
    spark.conf.set(_PUSHDOWN, "true")
    spark.dataSource.register(RestanteSource)
