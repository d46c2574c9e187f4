"""Delta tables: made with the properties that any reader understands, appended to once, merged, compacted, cleaned.

Readers other than Spark know the plain format only. So a table has no deletion vectors and no renamed columns, and a variant
only where the options ask for one. The cost of a commit is kept low: statistics only of the columns that queries filter by,
few checkpoints of the log, and no more log than the versions that can be read.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from delta.tables import DeltaTable
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql.types import StructType

from restante.errors import InvalidOperation
from restante.limits import MIB, TABLE_VERSIONS_HOURS_DEFAULT
from restante.spark.tables.table_files import NewFile, actions_of

WRITING = {
    # Without it every row is sorted by the partition column.
    "spark.sql.maxConcurrentOutputFileWriters": "64",
    # The state of a log of some hundred files needs no more tasks than this.
    "spark.databricks.delta.snapshotPartitions": "2",
    "spark.databricks.delta.properties.defaults.autoOptimize.optimizeWrite": "false",
    "spark.databricks.delta.properties.defaults.autoOptimize.autoCompact": "false",
}
"""Settings of a session that writes many batches."""
SETTING = "restante."
"""Properties of a table that are ours begin with it."""
_LISTING = {"spark.sql.sources.parallelPartitionDiscovery.parallelism": "8"}
"""Settings of a vacuum. Otherwise it lists even a few folders in very many tasks, and that takes longer than all the rest."""
_PROPERTIES = {
    "delta.enableDeletionVectors": "false",
    "delta.columnMapping.mode": "none",
    "delta.enableChangeDataFeed": "true",
    "delta.checkpointInterval": "50",
}


@dataclass(frozen=True, slots=True)
class Definition:
    """The definition of a table."""

    schema: StructType
    partitioned_by: str | None = None
    statistics: Sequence[str] = ()
    """The columns that queries ask by: files whose values lie elsewhere are not opened."""
    settings: Mapping[str, str] | None = None
    """Ours, fixed when the table is made."""


@dataclass(frozen=True, slots=True)
class StoredTable:
    """A Delta table at its place."""

    spark: SparkSession
    path: str
    _writes: dict[str, tuple[int, int]] = field(default_factory=dict, compare=False, repr=False)
    """For each name in which files were added: the version of the table that came of it, and the number of the write."""

    @property
    def exists(self) -> bool:
        return DeltaTable.isDeltaTable(self.spark, self.path)

    def create(self, definition: Definition, *, versions_hours: int = TABLE_VERSIONS_HOURS_DEFAULT) -> None:
        """Make it, without rows. If it is there, it stays as it is, but its own settings must be the same."""
        if self.exists:
            self._check_settings(definition.settings or {})
            return
        builder = DeltaTable.createIfNotExists(self.spark).location(self.path).addColumns(definition.schema)
        if definition.partitioned_by:
            builder = builder.partitionedBy(definition.partitioned_by)
        for name, value in _properties(definition, versions_hours).items():
            builder = builder.property(name, value)
        builder.execute()

    def frame(self) -> DataFrame:
        """The table as it is now. `InvalidOperation` if there is none."""
        if not self.exists:
            raise InvalidOperation(
                f"There is no table at {self.path}. Fill it first: restante jobs run analytical-store."
            )
        return self.spark.read.format("delta").load(self.path)

    def settings(self) -> dict[str, str]:
        """Set these settings of the session for a while, by their names."""
        own = self._properties().items()
        return {name.removeprefix(SETTING): value for name, value in own if name.startswith(SETTING)}

    def last_version_of(self, application: str) -> int | None:
        """The number of the last write that was made in this name."""
        return _last_write(_snapshot(self.spark, self.path), application)

    def has(self, application: str, version: int) -> bool:
        """Whether the write of this number was made."""
        last = self.last_version_of(application)
        return last is not None and last >= version

    def append_once(self, rows: DataFrame, *, application: str, version: int, new_columns: bool = False) -> None:
        """Add rows, if no write of this name has had this number or a later one."""
        writer = rows.write.format("delta").mode("append").option("txnAppId", application).option("txnVersion", version)
        writer.option("mergeSchema", str(new_columns).lower()).save(self.path)

    def add_files(self, files: Sequence[NewFile], *, application: str, version: int) -> None:
        """Add the rows of files that lie in the table's folder, if no write of this name has had this number or a later one."""
        gateway: Any = self.spark.sparkContext._jvm  # noqa: SLF001 - there is no other way to it
        delta, convert = gateway.org.apache.spark.sql.delta, gateway.scala.jdk.javaapi.CollectionConverters
        nothing = gateway.scala.Option.empty()
        transaction = _log(self.spark, self.path).startTransaction(nothing, nothing)
        if self._seen_write(transaction, application) >= version:
            return
        actions = gateway.java.util.ArrayList()
        for action in actions_of(files, application=application, version=version, now_ms=time.time_ns() // 1_000_000):
            actions.add(delta.actions.Action.fromJson(action))
        appended = gateway.org.apache.spark.sql.streaming.OutputMode.Append()
        operation = getattr(delta, "DeltaOperations$StreamingUpdate")(appended, application, version, nothing)
        self._writes[application] = transaction.commit(convert.asScala(actions).toSeq(), operation), version

    def _seen_write(self, transaction: Any, application: str) -> int:  # noqa: ANN401 - an object of the JVM
        """The number of the last write of this name; one that comes before the transaction is committed makes that fail."""
        transaction.readTxn().append(application)
        seen, number = self._writes.get(application, (None, -1))
        if seen == transaction.readVersion():
            return number  # Nobody has written since this table did.
        last = _last_write(transaction.snapshot(), application)
        return -1 if last is None else last

    def replace_newer(self, rows: DataFrame, *, same: str, newer: str) -> None:
        """Put rows in the place of those that are the same (`t` is the table, `s` the rows), if they are newer."""
        merge = DeltaTable.forPath(self.spark, self.path).alias("t").merge(rows.alias("s"), same)
        merge.whenMatchedUpdateAll(condition=newer).execute()

    def delete(self, condition: Column) -> None:
        DeltaTable.forPath(self.spark, self.path).delete(condition)

    def compact(self, *, file_bytes: int) -> None:
        """Make large files of small ones. Files of half the size and more are left alone, so a row is rewritten rarely."""
        sizes = {
            "spark.databricks.delta.optimize.maxFileSize": str(file_bytes),
            "spark.databricks.delta.optimize.minFileSize": str(max(file_bytes // 2, MIB)),
        }
        with settings(self.spark, sizes):
            DeltaTable.forPath(self.spark, self.path).optimize().executeCompaction()

    def clean(self, *, versions_hours: int) -> None:
        """Remove the files that no version of the last hours needs. Deleted rows are gone from the disk only then."""
        kept = _retention(versions_hours)
        if not kept.items() <= self._properties().items():
            self._alter(kept)
        with settings(self.spark, _LISTING):
            DeltaTable.forPath(self.spark, self.path).vacuum(versions_hours)

    def set(self, values: Mapping[str, str]) -> None:
        """Settings of ours that may change."""
        self._alter({f"{SETTING}{name}": value for name, value in values.items()})

    def _properties(self) -> dict[str, str]:
        """The table's properties, from the state of the log, which the driver has: to describe the table would take a job of Spark's."""
        entries = _snapshot(self.spark, self.path).metadata().configuration().iterator()
        found = {}
        while entries.hasNext():
            entry = entries.next()
            found[str(entry._1())] = str(entry._2())  # noqa: SLF001 - as Scala names the parts of a pair
        return found

    def _alter(self, properties: Mapping[str, str]) -> None:
        told = ", ".join(f"'{name}' = '{value}'" for name, value in properties.items())
        place = self.path.replace("`", "``")
        self.spark.sql(f"ALTER TABLE delta.`{place}` SET TBLPROPERTIES ({told})")

    def _check_settings(self, asked: Mapping[str, str]) -> None:
        fixed = self.settings()
        for name, value in asked.items():
            if fixed.get(name) != value:
                raise InvalidOperation(
                    f"The table at {self.path} was made with {name} {fixed.get(name)!r}, and that is fixed when it is made. "
                    f"Go on with {fixed.get(name)!r}, or fill new tables in another folder with {value!r}.",
                    fixed=fixed.get(name),
                )


@contextmanager
def settings(spark: SparkSession, values: Mapping[str, str]) -> Iterator[None]:
    """Set them for a while."""
    before = {name: spark.conf.get(name, None) for name in values}
    for name, value in values.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        for name, earlier in before.items():
            spark.conf.unset(name) if earlier is None else spark.conf.set(name, earlier)


def _properties(definition: Definition, versions_hours: int) -> dict[str, str]:
    own = {f"{SETTING}{name}": value for name, value in (definition.settings or {}).items()}
    statistics = {"delta.dataSkippingStatsColumns": ",".join(definition.statistics)} if definition.statistics else {}
    return {**_PROPERTIES, **_retention(versions_hours), **statistics, **own}


def _retention(versions_hours: int) -> dict[str, str]:
    """An earlier version can be read as long as both its files and its log are there."""
    kept = f"interval {versions_hours} hours"
    return {"delta.deletedFileRetentionDuration": kept, "delta.logRetentionDuration": kept}


def _last_write(snapshot: Any, application: str) -> int | None:  # noqa: ANN401 - an object of the JVM
    """The number of the last write of this name, by the checksum that Delta writes beside each commit.

    Where there is none, or it does not tell, Delta goes through its log, which takes a job of Spark's and up to a second.
    """
    checksum = snapshot.checksumOpt()
    told = checksum.get().setTransactions() if checksum.isDefined() else None
    if told is None or not told.isDefined():
        found = snapshot.transactions().get(application)
        return int(found.get()) if found.isDefined() else None
    writes = told.get().iterator()
    while writes.hasNext():
        write = writes.next()
        if write.appId() == application:
            return int(write.version())
    return None


def _snapshot(spark: SparkSession, path: str) -> Any:  # noqa: ANN401 - an object of the JVM
    """The newest state of the table's log; only here does Delta show the writes of an application."""
    gateway: Any = spark.sparkContext._jvm  # noqa: SLF001 - there is no other way to it
    return _log(spark, path).update(False, gateway.scala.Option.empty(), gateway.scala.Option.empty())


def _log(spark: SparkSession, path: str) -> Any:  # noqa: ANN401 - an object of the JVM
    gateway: Any = spark.sparkContext._jvm  # noqa: SLF001 - there is no other way to it
    session: Any = spark._jsparkSession  # noqa: SLF001 - the same
    return gateway.org.apache.spark.sql.delta.DeltaLog.forTable(session, path)
