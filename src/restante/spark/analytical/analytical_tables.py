"""Where the analytical store's tables lie, and what they are made of."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial

from pyspark.sql import SparkSession
from pyspark.sql.types import StructField, StructType, VariantType

from restante.spark.analytical.analytical_changes import BATCHES, DELIVERIES, MESSAGES
from restante.spark.analytical.analytical_files import (
    DELIVERIES_BY,
    DELIVERY_STATISTICS,
    MESSAGE_STATISTICS,
    MESSAGES_BY,
    TaskFolders,
)
from restante.spark.documents import CARRIED, Fidelity
from restante.spark.documents import MISMATCHES as VALUES
from restante.spark.tables.folders import Folders
from restante.spark.tables.table_files import has_log
from restante.spark.tables.tables import Definition, StoredTable

DOCUMENT = "document"
APPLICATION = "restante analytical-store"
"""The name under which the tables know which batches they have."""
MISMATCHES = StructType([*VALUES.fields, *CARRIED.fields])
"""Values that have no place in the columns of documents, and of which message they are."""


@dataclass(frozen=True, slots=True)
class Tables:
    """The tables of one analytical store."""

    messages: StoredTable
    deliveries: StoredTable
    batches: StoredTable
    mismatches: StoredTable

    @property
    def all(self) -> tuple[StoredTable, ...]:
        return (self.messages, self.deliveries, self.batches, self.mismatches)


def tables_at(spark: SparkSession, folder: str) -> Tables:
    place = folder.rstrip("/")
    names = ("messages", "deliveries", "batches", "mismatches")
    messages, deliveries, batches, mismatches = (StoredTable(spark, f"{place}/{name}") for name in names)
    return Tables(messages=messages, deliveries=deliveries, batches=batches, mismatches=mismatches)


def folders_of(tables: Tables) -> TaskFolders | None:
    """Where messages and deliveries lie, if tasks can write their files themselves; None, if Spark has to.

    Java and Python may read a name differently that is not in ASCII, if the system's settings name no alphabet.
    """
    folders = Folders(tables.messages.spark)
    messages, deliveries = (folders.on_this_machine(table.path) for table in (tables.messages, tables.deliveries))
    if messages is None or deliveries is None or not (has_log(messages) and has_log(deliveries)):
        return None
    return TaskFolders(messages=messages, deliveries=deliveries)


def create_tables(tables: Tables, fidelity: Fidelity, *, versions_hours: int) -> None:
    """Create the tables that do not exist yet. `InvalidOperation` if the documents were shown in another way before."""
    messages = Definition(
        schema=_with_document(fidelity),
        partitioned_by=MESSAGES_BY,
        statistics=MESSAGE_STATISTICS,
        settings={"schema": fidelity.value},
    )
    deliveries = Definition(
        schema=DELIVERIES,
        partitioned_by=DELIVERIES_BY,
        statistics=DELIVERY_STATISTICS,
    )
    definitions = (messages, deliveries, Definition(schema=BATCHES), Definition(schema=MISMATCHES))
    # Making the first table shows whether the settings fit. The others hardly use a core each, and are made side by side.
    tables.messages.create(messages, versions_hours=versions_hours)
    create = partial(StoredTable.create, versions_hours=versions_hours)
    with ThreadPoolExecutor(len(definitions), thread_name_prefix="restante-table") as pool:
        list(pool.map(create, tables.all[1:], definitions[1:]))


def _with_document(fidelity: Fidelity) -> StructType:
    """A column of inferred type comes with the first documents."""
    if fidelity is not Fidelity.VARIANT:
        return MESSAGES
    return StructType([*MESSAGES.fields, StructField(DOCUMENT, VariantType())])
