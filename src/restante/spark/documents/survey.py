"""Looks through a frame once, and knows the shapes of all its documents.

Spark writes the type of each document as a text. There are few different texts, however many documents there are:
the driver gets each once, with its first position, and does the rest without Spark. Only documents with mixed arrays
(see `type_text`) are looked at again, array by array, until each element has a type of its own.
"""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import DataFrame
from pyspark.sql import functions as f
from pyspark.sql.types import StructType

from restante import limits
from restante.spark.documents.column_types import layout_of
from restante.spark.documents.fidelity import Fidelity
from restante.spark.documents.layouts import Misfit, misfits
from restante.spark.documents.mixed_arrays import with_mixed_arrays
from restante.spark.documents.shapes import PropertyPath, Shape, merged
from restante.spark.documents.texts import document_text, is_document, parsed
from restante.spark.documents.type_text import read_type_text


@dataclass(frozen=True, kw_only=True)
class Survey:
    """The shapes in a frame of messages."""

    frame: DataFrame
    shapes: dict[str, Shape]
    """The shape of all documents that have the same text as their type, by that text."""
    unreadable: int
    """How many messages have a JSON media type, and data that is not valid JSON."""
    is_complete: bool
    """Whether all shapes are there. There can be more than anybody would want as columns."""

    @property
    def shape(self) -> Shape:
        """The shape of all documents together."""
        return merged(self.shapes.values())

    def misfits(self, schema: StructType, fidelity: Fidelity) -> dict[str, list[Misfit]]:
        """For each text of a type, what has no place in this schema."""
        layout = layout_of(schema, fidelity)
        return {text: list(misfits(layout, shape)) for text, shape in self.shapes.items()}

    def conforms(self, schema: StructType, fidelity: Fidelity) -> bool:
        """Whether every value of every document has its place in this schema."""
        return self.is_complete and not self.unreadable and not any(self.misfits(schema, fidelity).values())

    def suspects(self, schema: StructType, fidelity: Fidelity) -> frozenset[PropertyPath] | None:
        """The places that have met what has no place there; () if documents cannot be read. None: not all is known."""
        if not self.is_complete:
            return None
        met = {misfit.names for found in self.misfits(schema, fidelity).values() for misfit in found}
        return frozenset(met | {()} if self.unreadable else met)


def survey(frame: DataFrame) -> Survey:
    """Looks through a frame with the columns partition, sequence_number, data and media_type."""
    documents = typed(frame).select("type", "parsed", f.array("partition", "sequence_number").alias("position"))
    # One row more than wanted, and one for what cannot be read, which comes first.
    rows = (
        documents.groupBy("type")
        .agg(f.min("position").alias("position"), f.count("*").alias("count"))
        .orderBy(f.col("type").isNotNull(), "position", "type")
        .limit(limits.DOCUMENT_SHAPES_MAX + 2)
        .collect()
    )
    found = [row for row in rows if row["type"] is not None]
    kept = found[: limits.DOCUMENT_SHAPES_MAX]
    texts = {row["type"]: read_type_text(row["type"], tuple(row["position"])) for row in kept}
    shapes, is_complete = with_mixed_arrays(documents, texts)
    return Survey(
        frame=frame,
        shapes=shapes,
        unreadable=sum(row["count"] for row in rows if row["type"] is None),
        is_complete=is_complete and len(kept) == len(found),
    )


def typed(frame: DataFrame) -> DataFrame:
    """The messages that have a document, with `text`, `parsed`, and the text of its `type` (null if unreadable)."""
    documents = frame.where(is_document()).withColumn("text", document_text())
    return documents.withColumn("parsed", parsed(f.col("text"))).withColumn("type", f.schema_of_variant("parsed"))
