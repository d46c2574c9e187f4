"""Looks at the elements of mixed arrays one by one, because the type of the whole document does not tell theirs.

Each round goes one array deeper: the elements of mixed arrays get a type each, and where that has mixed arrays in it,
these are next. Most frames have no such documents, and cost nothing here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from pyspark.sql import Column, DataFrame, Row
from pyspark.sql import functions as f

from restante import limits
from restante.spark.documents.shapes import NOTHING, PropertyPath, Shape, an_array, an_object, merge
from restante.spark.documents.texts import as_array, at
from restante.spark.documents.type_text import MIXED_PATTERN, TypeText, read_type_text


def with_mixed_arrays(documents: DataFrame, texts: Mapping[str, TypeText]) -> tuple[dict[str, Shape], bool]:
    """The shapes of all texts, with what the elements of mixed arrays add; and whether these are all there.

    The frame has the columns type, position and parsed. A place deeper than any column can be is left out.
    """
    shapes = {text: read.shape for text, read in texts.items()}
    mixed = _mixed(texts.values())
    level = documents.select("type", "position", "parsed", f.col("type").alias("own"), _ways().alias("way"))
    rounds = 0
    is_complete = True
    while mixed and rounds < limits.DOCUMENT_DEPTH_MAX:
        level = _elements(level.where(f.col("own").rlike(MIXED_PATTERN)), mixed)
        rows = _types(level)
        is_complete = is_complete and len(rows) <= limits.DOCUMENT_SHAPES_MAX
        reads = [read_type_text(row["own"], tuple(row["position"])) for row in rows]
        for row, read in zip(rows, reads, strict=True):
            if row["type"] in shapes:
                shapes[row["type"]] = merge(shapes[row["type"]], _placed(read.shape, row["way"]))
        mixed = _mixed(reads)
        rounds += 1
    return shapes, is_complete


def _mixed(reads: Iterable[TypeText]) -> list[PropertyPath]:
    return sorted({names for read in reads for names in read.mixed})


def _elements(level: DataFrame, mixed: Iterable[PropertyPath]) -> DataFrame:
    """The elements of these arrays, one in a row."""
    arrays = [
        f.struct(_names(names).alias("names"), as_array(at(f.col("parsed"), _names(names))).alias("elements"))
        for names in mixed
    ]
    exploded = level.select("type", "position", "way", f.explode(f.array(*arrays)).alias("array"))
    elements = exploded.select(
        "type", "position", f.concat("way", f.array("array.names")).alias("way"), f.posexplode("array.elements")
    )
    position = f.concat("position", f.array(f.col("pos").cast("bigint")))
    return elements.select(
        "type", position.alias("position"), f.col("col").alias("parsed"), f.schema_of_variant("col").alias("own"), "way"
    )


def _types(level: DataFrame) -> list[Row]:
    grouped = level.groupBy("type", "way", "own").agg(f.min("position").alias("position"))
    return grouped.orderBy("position", "type", "way", "own").limit(limits.DOCUMENT_SHAPES_MAX + 1).collect()


def _placed(shape: Shape, way: list[list[str]]) -> Shape:
    """The shape of a document that has an element of this shape at the end of `way`."""
    position = shape.first
    if position is None:
        return NOTHING
    for names in reversed(way):
        shape = an_array(shape, position)
        for name in reversed(names):
            shape = an_object({name: shape}, position)
    return shape


def _names(names: PropertyPath) -> Column:
    return f.array(*map(f.lit, names)).cast("array<string>")


def _ways() -> Column:
    return f.array().cast("array<array<string>>")
