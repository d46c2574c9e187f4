"""Values that have no place in the columns of documents: found by the survey, shown value by value.

Any number of messages can be concerned, with whole documents. So nothing of it goes through the driver's memory.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f
from pyspark.sql.types import ArrayType, IntegerType, LongType, StringType, StructField, StructType, TimestampType

from restante.spark.documents.fidelity import Fidelity
from restante.spark.documents.layouts import Misfit
from restante.spark.documents.names import path_text
from restante.spark.documents.survey import Survey, typed
from restante.spark.documents.texts import at

MISMATCHES = StructType(
    [
        StructField("partition", IntegerType()),
        StructField("sequence_number", LongType()),
        StructField("path", StringType()),
        StructField("expected", StringType()),
        StructField("found", StringType()),
        StructField("value", StringType()),
    ]
)
"""A value without a place: of which message, where, what was expected, what it is, and itself as JSON."""
CARRIED = StructType(
    [
        StructField("id", StringType()),
        StructField("recipient", StringType()),
        StructField("published_at", TimestampType()),
    ]
)
"""The columns that come along if the messages have them, so that nobody has to look for them."""

_MISFIT = StructType(
    [
        StructField("names", ArrayType(StringType())),
        StructField("path", StringType()),
        StructField("expected", StringType()),
        StructField("found", StringType()),
    ]
)
_BY_TYPE = StructType([StructField("known", StringType()), StructField("misfits", ArrayType(_MISFIT))])
_UNREADABLE = Misfit((), "json", "unreadable")
_UNSEEN = Misfit((), "a known shape", "object")
"""The misfit of a shape that was not looked at: there were too many."""


def kept_aside(found: Survey, schema: StructType, fidelity: Fidelity) -> DataFrame:
    """One row for each value without a place, and one for each document that cannot be read."""
    spark = found.frame.sparkSession
    by_type = found.misfits(schema, fidelity)
    listed = {text: misfits for text, misfits in by_type.items() if misfits or not found.is_complete}
    rows = [(text, [_row(misfit) for misfit in misfits]) for text, misfits in listed.items()]
    rows.append(("", [_row(_UNREADABLE)]))
    known = f.broadcast(spark.createDataFrame(rows, _BY_TYPE))
    documents = typed(found.frame).withColumn("type", f.coalesce("type", f.lit("")))
    joined = documents.join(known, f.col("type") == f.col("known"), "inner" if found.is_complete else "left")
    misfits = f.coalesce("misfits", f.array(_literal(_UNSEEN)))
    as_text = f.make_valid_utf8(f.col("data").cast("string"))
    return joined.withColumn("misfit", f.explode(misfits)).select(
        f.col("partition").cast("int").alias("partition"),
        f.col("sequence_number").cast("bigint").alias("sequence_number"),
        "misfit.path",
        "misfit.expected",
        "misfit.found",
        f.coalesce(f.to_json(at(f.col("parsed"), f.col("misfit.names"))), as_text).alias("value"),
        *_carried(found.frame).names,
    )


def nothing_aside(frame: DataFrame) -> DataFrame:
    """No row of that kind."""
    return frame.sparkSession.createDataFrame([], StructType([*MISMATCHES.fields, *_carried(frame).fields]))


def _carried(frame: DataFrame) -> StructType:
    return StructType([field for field in CARRIED.fields if field.name in frame.columns])


def _row(misfit: Misfit) -> tuple[list[str], str, str, str]:
    return list(misfit.names), path_text(misfit.names), misfit.expected, misfit.found


def _literal(misfit: Misfit) -> Column:
    names, *texts = _row(misfit)
    words = zip(("path", "expected", "found"), texts, strict=True)
    return f.struct(
        f.array(*map(f.lit, names)).cast("array<string>").alias("names"),
        *[f.lit(text).alias(name) for name, text in words],
    )
