"""Documents in the data of messages, as columns: the schema is inferred, and grows with what comes.

```python
found = survey(messages)
schema = infer(found, known, Fidelity.WELL_DEFINED)
table = with_document(messages, schema, Fidelity.WELL_DEFINED, found)
aside = mismatches(found, schema, Fidelity.WELL_DEFINED)
```
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as f
from pyspark.sql.types import StructType

from restante.spark.documents.column_types import layout_of, schema_of
from restante.spark.documents.document_reader import with_struct
from restante.spark.documents.fidelity import Fidelity
from restante.spark.documents.layouts import grown
from restante.spark.documents.set_aside_values import CARRIED, MISMATCHES, kept_aside, nothing_aside
from restante.spark.documents.survey import Survey, survey
from restante.spark.documents.texts import is_document, parsed

__all__ = ["CARRIED", "MISMATCHES", "Fidelity", "Survey", "infer", "mismatches", "survey", "with_document"]


def infer(source: DataFrame | Survey, known: StructType | None, fidelity: Fidelity) -> StructType:
    """The known type of the column `document`, grown by the new fields of these messages. Known fields never change.

    A type without fields: no document has shown anything yet.
    """
    if not fidelity.has_columns:
        return StructType([])
    return schema_of(grown(layout_of(known, fidelity), _survey(source).shape, fidelity), fidelity)


def with_document(frame: DataFrame, schema: StructType, fidelity: Fidelity, found: Survey | None = None) -> DataFrame:
    """The messages with the column `document`: null where there is none, or none that can be read.

    No column is added for a schema without fields, because no file can hold a struct without fields. A survey of the
    same messages makes it quicker.
    """
    if fidelity is Fidelity.VARIANT:
        return frame.withColumn("document", f.when(is_document(), parsed(f.col("data").cast("string"))))
    if fidelity is Fidelity.NONE or not schema.fields:
        return frame
    suspects = None if found is None else found.suspects(schema, fidelity)
    read = with_struct(frame, layout_of(schema, fidelity), fidelity, suspects)
    return read.withColumn("document", f.col("document").cast(schema))


def mismatches(source: DataFrame | Survey, schema: StructType, fidelity: Fidelity = Fidelity.WELL_DEFINED) -> DataFrame:
    """Each value that has no place in the schema, and each document that cannot be read.

    Columns as in `MISMATCHES`, and those of `CARRIED` that the messages have.
    """
    found = _survey(source)
    if not fidelity.has_columns or found.conforms(schema, fidelity):
        return nothing_aside(found.frame)
    return kept_aside(found, schema, fidelity)


def _survey(source: DataFrame | Survey) -> Survey:
    return source if isinstance(source, Survey) else survey(source)
