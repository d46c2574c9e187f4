"""Making `format("restante")` known to a Spark session."""

from __future__ import annotations

from pyspark.sql import SparkSession

from restante.spark.source.source import RestanteSource

_PUSHDOWN = "spark.sql.python.filterPushdown.enabled"
"""Spark refuses a source that can apply filters unless it may hand them over."""


def register(spark: SparkSession) -> None:
    """Teach a session `format("restante")`, for `spark.read`, `readStream`, `write` and `writeStream`. A second call is harmless."""
    spark.conf.set(_PUSHDOWN, "true")
    spark.dataSource.register(RestanteSource)
