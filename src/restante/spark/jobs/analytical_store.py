"""The analytical store: tables of all messages and of what became of them, seconds behind the hub.

A stream reads the feed, and each micro-batch is applied to the tables (`analytical_batches`). They are plain Delta tables:
Spark, DuckDB, pandas and polars read them without us. The hub's own retention does not reach them; they have their own.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated

import msgspec
from pyspark.errors import PySparkException
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from restante.errors import InvalidOperation, InvalidRequest, Unavailable
from restante.limits import (
    TABLE_DAYS_MAX,
    TABLE_FILE_MIB_DEFAULT,
    TABLE_FILE_MIB_MAX,
    TABLE_VERSIONS_HOURS_DEFAULT,
    TABLE_VERSIONS_HOURS_MAX,
    TRIGGER_NUMBERS_DEFAULT,
)
from restante.spark.analytical.analytical_progress import AnalyticalProgress, Lag, ends_of, lag_of
from restante.spark.analytical.analytical_tables import APPLICATION, Tables, create_tables, tables_at
from restante.spark.analytical.analytical_upkeep import Upkeep
from restante.spark.documents import Fidelity
from restante.spark.jobs.work import Outcome, Work
from restante.spark.sessions.failures import cause_of
from restante.spark.source.options import HubPlace, reading_of
from restante.spark.tables.folders import Folders

NAME = "analytical-store"
SUMMARY = "Keep tables of all messages and of their deliveries, seconds after the hub."
NOW = "now"

_Days = Annotated[int, msgspec.Meta(ge=1, le=TABLE_DAYS_MAX)]


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """The options of the job: how often the tables are brought up to date, what they show, and how long they keep it."""

    trigger: Annotated[
        str,
        msgspec.Meta(
            description="How often the tables are brought up to date, such as 30 seconds, until the job is stopped. With "
            "now, everything that is there is taken in, and the job ends."
        ),
    ] = NOW
    schema: Annotated[
        Fidelity,
        msgspec.Meta(
            description="How the documents in the data of messages are shown. Fixed when the tables are made."
        ),
    ] = Fidelity.NONE
    max_messages_per_trigger: Annotated[
        int, msgspec.Meta(ge=1, description="At most so many numbers of the feed are taken in at a time.")
    ] = TRIGGER_NUMBERS_DEFAULT
    keep_messages: Annotated[
        _Days | None,
        msgspec.Meta(description="Days after which a message is deleted from the table. By default never."),
    ] = None
    keep_deliveries: Annotated[
        _Days | None,
        msgspec.Meta(description="Days after which what became of a message is deleted. By default never."),
    ] = None
    compact_every: Annotated[
        int, msgspec.Meta(ge=1, description="Small files become large ones after so many micro-batches.")
    ] = 20
    file_mib: Annotated[int, msgspec.Meta(ge=1, le=TABLE_FILE_MIB_MAX, description="The size of those, in MiB.")] = (
        TABLE_FILE_MIB_DEFAULT
    )
    versions_hours: Annotated[
        int,
        msgspec.Meta(
            ge=0,
            le=TABLE_VERSIONS_HOURS_MAX,
            description="How long earlier versions of the tables can be read, and deleted rows lie on the disk.",
        ),
    ] = TABLE_VERSIONS_HOURS_DEFAULT

    @property
    def upkeep(self) -> Upkeep:
        return Upkeep(
            keep_messages=self.keep_messages,
            keep_deliveries=self.keep_deliveries,
            file_mib=self.file_mib,
            versions_hours=self.versions_hours,
            every=self.compact_every,
        )


class RunningStore:
    """A store that is being filled."""

    def __init__(self, query: StreamingQuery, progress: AnalyticalProgress, place: HubPlace) -> None:
        self.query = query
        self._progress = progress
        self._place = place

    def lag(self) -> Lag:
        """How far the tables are behind the hub, which is asked how far it is."""
        return lag_of(self.query.lastProgress, ends_of(self._place), self._progress.newest, now=datetime.now(UTC))

    def wait(self) -> Outcome:
        """Wait until the run has ended: with the last change that is there now, or when the stream is stopped.

        By then everything is in the tables. If the hub is away, only the lag is unknown.
        """
        try:
            self.query.awaitTermination()
        except PySparkException as error:
            raise cause_of(error) from error
        self._progress.tidy(datetime.now(UTC).date())
        try:
            lag = self.lag()
        except Unavailable:
            lag = Lag(None, None)
        return self._progress.outcome(lag)

    def stop(self) -> None:
        """Stop the stream at once. A micro-batch that is cut off by it is finished by the next run."""
        self.query.stop()


def run(work: Work, options: Options) -> Outcome:
    """Bring the tables up to date, and with an interval keep them so until the stream is stopped."""
    running = start(work, options)
    try:
        return running.wait()
    finally:
        running.stop()


def start(work: Work, options: Options) -> RunningStore:
    """Begin where the last run ended, without waiting for anything."""
    options.upkeep.check()
    tables = tables_at(work.spark, work.place())
    checkpoint = work.place("checkpoints", NAME)
    _check_together(tables, Folders(work.spark), checkpoint)
    create_tables(tables, options.schema, versions_hours=options.versions_hours)
    progress = AnalyticalProgress(tables, options.schema, options.upkeep, work.tell)
    reader = work.spark.readStream.format("restante").options(**work.hub).option("reader", NAME)
    stream = reader.option("maxMessagesPerTrigger", options.max_messages_per_trigger).load()
    writer = stream.writeStream.foreachBatch(progress.take_in).option("checkpointLocation", checkpoint)
    return RunningStore(_triggered(writer, options.trigger), progress, reading_of(work.hub).place)


def _check_together(tables: Tables, folders: Folders, checkpoint: str) -> None:
    """The checkpoint says what was read, the tables have it: one without the other would lose messages or repeat them."""
    is_filled = tables.messages.exists and tables.messages.last_version_of(APPLICATION) is not None
    if is_filled and not folders.exists(f"{checkpoint}/metadata"):
        raise InvalidOperation(
            f"The table at {tables.messages.path} is filled, but the checkpoint that says how far, {checkpoint}, is gone. "
            "Put it back, or fill new tables in another folder."
        )
    gone = [table.path for table in tables.all if not table.exists]
    if not is_filled and not gone:
        gone = [tables.messages.path]
    if gone and _has_begun(folders, checkpoint):
        raise InvalidOperation(
            f"There is a checkpoint, {checkpoint}, but what was filled is gone: {', '.join(gone)}. Put it back, or fill new "
            "tables in another folder."
        )


def _has_begun(folders: Folders, checkpoint: str) -> bool:
    """Whether any micro-batch was finished. Spark keeps a word on the last hundred of them."""
    commits = f"{checkpoint}/commits"
    return folders.exists(commits) and any(folders.files(commits, ending=""))


def _triggered(writer: DataStreamWriter, trigger: str) -> StreamingQuery:
    try:
        timed = writer.trigger(availableNow=True) if trigger == NOW else writer.trigger(processingTime=trigger)
        return timed.queryName(NAME).start()
    except (ValueError, PySparkException) as error:
        if "interval" not in str(error).lower():
            raise
        raise InvalidRequest(f"{trigger!r} is no interval. Write one such as 30 seconds, or now.") from error
