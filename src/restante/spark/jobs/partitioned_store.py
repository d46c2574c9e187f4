"""A copy of a table, laid out for those who ask by one property: a query for one value reads little of it.

Any property will do: a column, an entry of a map, something deep within a document. There may be as many stores of a table
as there are such questions, each with its own schedule. A run reads what has changed since the last one, and makes one
commit: the rows that came, the rows that went, and the slices that were merged with them (`restante.spark.tables.slices`). The
commit says up to which version of the table it goes, so a run that is killed has done all or nothing. A store whose
definition has changed is built again in the same place; until that commit, readers see the old one.
"""

from __future__ import annotations

import hashlib
from typing import Annotated

import msgspec
from delta.tables import DeltaTable
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.readwriter import DataFrameWriter

from restante.decoders import json_decoder
from restante.errors import InvalidRequest
from restante.limits import (
    STORE_RECORDS_PER_FILE_DEFAULT,
    STORE_RECORDS_PER_FILE_MAX,
    STORE_ROW_GROUP_BYTES,
    TABLE_VERSIONS_HOURS_DEFAULT,
    TABLE_VERSIONS_HOURS_MAX,
)
from restante.spark.jobs.work import Outcome, Work
from restante.spark.tables import table_changes
from restante.spark.tables.cleanup import history_of
from restante.spark.tables.folders import absolute
from restante.spark.tables.property_paths import value_at
from restante.spark.tables.slices import files_for, to_merge
from restante.spark.tables.table_changes import TableSource, identity_of
from restante.spark.tables.tables import StoredTable

NAME = "partitioned-store"
SUMMARY = "Keep a copy of a table that is laid out by any property, so that a query for one value reads little."
KEY = "key"
SLICE = "slice"
_PROPERTIES = {
    # Delta hands a table's properties on to Parquet.
    "parquet.block.size": str(STORE_ROW_GROUP_BYTES),
    # Readers other than Spark know the plain format only.
    "delta.enableDeletionVectors": "false",
    "delta.columnMapping.mode": "none",
}


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """One store."""

    name: Annotated[str, msgspec.Meta(description="Of the store. By default its key, with dashes for dots.")] = ""
    table: Annotated[str, msgspec.Meta(description="Of which it is a copy.")] = "messages"
    key: Annotated[
        str,
        msgspec.Meta(
            description="The property to ask by, such as recipient, properties.region or data.customer.region."
        ),
    ] = "recipient"
    path: Annotated[str, msgspec.Meta(description="Where it lies. By default stores/NAME beside the tables.")] = ""
    records_per_file: Annotated[
        int, msgspec.Meta(description="So many rows go into a file.", ge=1, le=STORE_RECORDS_PER_FILE_MAX)
    ] = STORE_RECORDS_PER_FILE_DEFAULT
    columns: Annotated[tuple[str, ...], msgspec.Meta(description="Only these columns. By default all.")] = ()
    versions_hours: Annotated[
        int,
        msgspec.Meta(
            ge=0,
            le=TABLE_VERSIONS_HOURS_MAX,
            description="How long older versions can still be read. Rows that went are gone from the disk with a run "
            "a day after that. With 0, at once.",
        ),
    ] = TABLE_VERSIONS_HOURS_DEFAULT

    @property
    def definition(self) -> dict[str, str | int | list[str]]:
        """The definition, which makes another store of it when it changes."""
        names = sorted(self.columns)
        return {"table": self.table, "key": self.key, "columns": names, "records_per_file": self.records_per_file}


class CopyState(msgspec.Struct, frozen=True, kw_only=True):
    """The source of a copy, and up to where it is copied. Each commit carries it."""

    definition: dict[str, str | int | list[str]]
    table_id: str
    version: int

    @property
    def application(self) -> str:
        """The name by which Delta remembers which versions are in."""
        told = msgspec.json.encode((self.definition, self.table_id), order="sorted")
        return f"restante {NAME} {hashlib.sha256(told).hexdigest()[:32]}"


def transform(rows: DataFrame, options: Options) -> DataFrame:
    """The rows with their key in front, and the columns that are wanted; those that tell rows apart always stay."""
    identity = identity_of(rows.schema)
    wanted = {*options.columns, *identity} if options.columns else set(rows.columns)
    unknown = sorted(wanted - set(rows.columns))
    taken = sorted(wanted & {KEY, SLICE})
    if unknown:
        raise InvalidRequest(f"There are no columns {', '.join(unknown)}. There are {', '.join(rows.columns)}.")
    if taken:
        raise InvalidRequest(
            f"The store has columns {KEY} and {SLICE} of its own. Name the columns to take, without these."
        )
    kept = [f"`{name}`" for name in rows.columns if name in wanted]
    return rows.select(value_at(rows.schema, options.key).alias(KEY), *kept)


def transform_laid_out(keyed: DataFrame, *, number: int, files: int) -> DataFrame:
    """Rows laid out as one slice: so many ranges of keys, each sorted. Rows of one key may fill more than one range.

    The order begins with the slice, which is the same for all: else Spark sorts by it once more before it writes, and
    that does not keep the order of the keys.
    """
    order = (KEY, *identity_of(keyed.schema))
    numbered = keyed.drop(SLICE).withColumn(SLICE, f.lit(number))
    return numbered.repartitionByRange(files, *order).sortWithinPartitions(SLICE, *order)


def run(work: Work, options: Options) -> Outcome:
    """Bring the store up to the table's newest version."""
    source = table_changes.source_at(work.spark, work.place(options.table))
    store = _Store(work, options)
    wanted = CopyState(definition=options.definition, table_id=source.table_id, version=source.version)
    known = store.state()
    outcome = _brought_up(store, source, known, wanted)
    store.clean()
    return outcome


def _brought_up(store: _Store, source: TableSource, known: CopyState | None, wanted: CopyState) -> Outcome:
    if known is None or known.application != wanted.application or not source.reaches(known.version):
        return store.build(source, wanted)
    if known.version == source.version:
        return store.outcome(wanted, read=0, removed=0, rebuilt=False)
    try:
        return store.update(source, known, wanted)
    except (PySparkException, Py4JJavaError) as error:
        if not table_changes.was_cleaned_away(error):
            raise
    return store.build(source, wanted)


class _Store:
    """Reads and writes where the store lies."""

    def __init__(self, work: Work, options: Options) -> None:
        name = options.name or options.key.replace(".", "-")
        self.spark: SparkSession = work.spark
        self.options = options
        self.path = absolute(options.path or work.place("stores", name))
        self._work = work
        self._name = name
        self._history = history_of(self.spark, self.path)

    def state(self) -> CopyState | None:
        """The state that the last of our commits says, if there is one."""
        told = (commit["userMetadata"] for commit in self._history.commits)
        return next((state for text in told if text and (state := _state_of(text))), None)

    def build(self, source: TableSource, wanted: CopyState) -> Outcome:
        """Build the whole store again. The commit replaces everything that was there."""
        self._work.tell(f"The store {self._name} is built again.")
        keyed = transform(table_changes.whole(self.spark, source), self.options)
        rows = keyed.count()
        laid = transform_laid_out(keyed, number=0, files=self._files(rows))
        self._prepare(laid)
        _carrying(laid.write, wanted).mode("overwrite").option("overwriteSchema", "true").save(self.path)
        return self.outcome(wanted, read=rows, removed=0, rebuilt=True)

    def update(self, source: TableSource, known: CopyState, wanted: CopyState) -> Outcome:
        """Take in what has come and gone since, and merge a few slices with it, in one commit."""
        changed = table_changes.changes(self.spark, source, after=known.version)
        net = table_changes.transform_changes(changed, identity=identity_of(changed.schema))
        come = transform(net.come, self.options)
        read, sizes = come.count(), self._sizes()
        gone = None if net.gone is None else net.gone.persist()
        touched, removed = self._touched(gone)
        merged = sorted({*touched, *to_merge(sizes, arriving_rows=read)})
        rows = read - removed + sum(sizes[number] for number in merged)
        self._put(self._joined(come, merged, gone), wanted, merged, number=1 + max(sizes, default=-1), rows=rows)
        if gone is not None:
            gone.unpersist()
        return self.outcome(wanted, read=read, removed=removed, rebuilt=False)

    def outcome(self, state: CopyState, *, read: int, removed: int, rebuilt: bool) -> Outcome:
        detail = DeltaTable.forPath(self.spark, self.path).detail().select("numFiles", "sizeInBytes").first()
        assert detail is not None, "there is a store now"
        sizes = self._sizes()
        return Outcome(
            figures={
                "version": state.version,
                "rows_read": read,
                "rows_removed": removed,
                "rebuilt": int(rebuilt),
                "rows": sum(sizes.values()),
                "slices": len(sizes),
                "files": detail["numFiles"],
                "bytes": detail["sizeInBytes"],
            }
        )

    def clean(self) -> None:
        """Files that were replaced go from the disk, once no version that can be read needs them."""
        hours = self.options.versions_hours
        if self._history.is_cleaning_due(versions_hours=hours):
            StoredTable(self.spark, self.path).clean(versions_hours=hours)

    def _prepare(self, laid: DataFrame) -> None:
        """Make the table, if there is none: with row groups small enough to leave out most of a file."""
        if self._history.commits:
            return
        builder = DeltaTable.createIfNotExists(self.spark).location(self.path).addColumns(laid.schema)
        for name, value in _PROPERTIES.items():
            builder = builder.property(name, value)
        builder.partitionedBy(SLICE).execute()

    def _files(self, rows: int) -> int:
        return files_for(rows, records_per_file=self.options.records_per_file)

    def _stored(self) -> DataFrame:
        return self.spark.read.format("delta").load(self.path)

    def _sizes(self) -> dict[int, int]:
        return {row[SLICE]: row["count"] for row in self._stored().groupBy(SLICE).count().collect()}

    def _touched(self, gone: DataFrame | None) -> tuple[list[int], int]:
        """The slices that rows have to leave, and how many rows there are of these."""
        if gone is None:
            return [], 0
        leaving = self._stored().join(gone, [*gone.columns], "left_semi").groupBy(SLICE).count().collect()
        return [row[SLICE] for row in leaving], sum(row["count"] for row in leaving)

    def _joined(self, come: DataFrame, merged: list[int], gone: DataFrame | None) -> DataFrame:
        if not merged:
            return come
        kept = self._stored().where(f.col(SLICE).isin(*merged)).drop(SLICE)
        if gone is not None:
            kept = kept.join(gone, [*gone.columns], "left_anti")
        return kept.unionByName(come, allowMissingColumns=True)

    def _put(self, keyed: DataFrame, wanted: CopyState, merged: list[int], *, number: int, rows: int) -> None:
        laid = transform_laid_out(keyed, number=number, files=self._files(rows))
        writer = _carrying(laid.write, wanted).option("mergeSchema", "true")
        writer = writer.option("txnAppId", wanted.application).option("txnVersion", wanted.version)
        if merged:
            numbers = ", ".join(map(str, (*merged, number)))
            writer = writer.mode("overwrite").option("replaceWhere", f"{SLICE} IN ({numbers})")
        (writer if merged else writer.mode("append")).save(self.path)


def _carrying(writer: DataFrameWriter, state: CopyState) -> DataFrameWriter:
    told = msgspec.json.encode({NAME: state}).decode()
    return writer.format("delta").partitionBy(SLICE).option("userMetadata", told)


def _state_of(text: str) -> CopyState | None:
    """Others may have written something else there."""
    try:
        return json_decoder(dict[str, CopyState]).decode(text).get(NAME)
    except msgspec.MsgspecError:
        return None
