"""Messages go into their table with their documents as columns, and values that have no place in those are kept aside."""

from __future__ import annotations

from pyspark.sql import DataFrame, Observation
from pyspark.sql import functions as f
from pyspark.sql.types import StructType

from restante.spark.analytical.analytical_tables import DOCUMENT, MISMATCHES, Tables
from restante.spark.documents import Fidelity, Survey, infer, mismatches, survey, with_document

_NO_COLUMNS = StructType([])


def append_messages(tables: Tables, messages: DataFrame, fidelity: Fidelity, *, application: str, version: int) -> int:
    """Append them once, and say how many values were kept aside. The table's columns grow with what the documents bring."""
    if not fidelity.has_columns:
        shown = with_document(messages, _NO_COLUMNS, fidelity)
        tables.messages.append_once(shown, application=application, version=version)
        return 0
    found = survey(messages)
    # If the messages are in already, the columns have grown already, and this is the same schema again.
    schema = infer(found, _known(tables), fidelity)
    shown = with_document(messages, schema, fidelity, found)
    tables.messages.append_once(shown, application=application, version=version, new_columns=True)
    if found.conforms(schema, fidelity) or tables.mismatches.has(application, version):
        return 0
    return _keep_aside(tables, found, schema, fidelity, application=application, version=version)


def _keep_aside(
    tables: Tables, found: Survey, schema: StructType, fidelity: Fidelity, *, application: str, version: int
) -> int:
    counted = Observation()
    values = mismatches(found, schema, fidelity).select(*MISMATCHES.names)
    rows = values.observe(counted, f.count("*").alias("values"))
    tables.mismatches.append_once(rows, application=application, version=version)
    return int(counted.get["values"])


def _known(tables: Tables) -> StructType | None:
    """The columns that documents have so far."""
    schema = tables.messages.frame().schema
    if DOCUMENT not in schema.names:
        return None
    kind = schema[DOCUMENT].dataType
    assert isinstance(kind, StructType), "documents with columns are structs"
    return kind
