"""The raw feed, kept as plain Parquet files by partition and hour, for people to look at, and for a replay.

Plain readers know nothing of Spark's own list of committed files: they read what lies there. So a micro-batch is written
beside the capture, and only when it is complete its files are moved in, one by one, under names that follow from the query,
the micro-batch and the file's place in it. A micro-batch that was begun before is not written again but moved on, and so no
change is ever there twice. Messages that were erased in the hub are erased from the files as well.

A capture belongs to one hub: numbers of another one would mean other messages. With a topic of Kafka, its records are
captured in the same way, and it belongs to that topic.
"""

from __future__ import annotations

from typing import Annotated

import msgspec
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql.streaming.query import StreamingQuery

from restante.backplanes.kafka_library import DEFAULT_BROKERS
from restante.errors import InvalidOperation, InvalidRequest
from restante.limits import CAPTURE_ROWS_PER_FILE_DEFAULT, CAPTURE_ROWS_PER_FILE_MAX
from restante.spark.jobs.topic_options import Brokers, KafkaSettings, topic_source
from restante.spark.jobs.work import Outcome, Work
from restante.spark.sessions.failures import cause_of
from restante.spark.source import topic_stream
from restante.spark.source.topic_frames import topic_ranges
from restante.spark.tables.captured_files import Capture, RecordCapture
from restante.spark.tables.folders import Folders, absolute

NAME = "capture"
SUMMARY = "Keep the raw feed as plain Parquet files by partition and hour."
NOW = "now"


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """The options of the job: where the files go, and how often there are new ones."""

    path: Annotated[str, msgspec.Meta(description="Where the files lie. By default capture beside the tables.")] = ""
    trigger: Annotated[
        str,
        msgspec.Meta(
            description="How long changes are gathered until a file of them is closed, such as 1 minute. With now, "
            "everything that is there is captured, and the job ends."
        ),
    ] = NOW
    roll: Annotated[
        int,
        msgspec.Meta(
            ge=1,
            le=CAPTURE_ROWS_PER_FILE_MAX,
            description="A file with so many rows is closed, and the next one begins.",
        ),
    ] = CAPTURE_ROWS_PER_FILE_DEFAULT
    starting: Annotated[
        str, msgspec.Meta(description="Where the first run begins: bootstrap, earliest, latest, or positions as JSON.")
    ] = "bootstrap"
    topic: Annotated[
        str,
        msgspec.Meta(
            description="A Kafka topic, whose records are captured in place of the feed: key, value, partition, offset and "
            "time stamp. Then starting has no say. Needs restante[kafka]."
        ),
    ] = ""
    brokers: Brokers = DEFAULT_BROKERS
    kafka: KafkaSettings = []


def run(work: Work, options: Options) -> Outcome:
    """Capture what has happened since the last run; with an interval, until the stream is stopped."""
    name = f"{NAME}-{options.topic}" if options.topic else NAME
    path = absolute(options.path or work.place(name)).rstrip("/")
    # Each place has a checkpoint of its own, so that two captures do not share one.
    checkpoint = f"{path}.checkpoint" if options.path else work.place("checkpoints", name)
    _check_is_the_same(Folders(work.spark), path=path, checkpoint=checkpoint)
    # Beside the files: only there a move is sure to be within one file system.
    kind = RecordCapture if options.topic else Capture
    capture = kind(work.spark, path=path, staging=f"{path}.staging", rows_per_file=options.roll)
    query = _started(work, options, capture, checkpoint=checkpoint)
    try:
        query.awaitTermination()
    except PySparkException as error:
        raise cause_of(error) from error
    finally:
        query.stop()
    return Outcome(figures={"changes": capture.changes, "files": capture.files, "erased_from_files": capture.rewritten})


def _check_is_the_same(folders: Folders, *, path: str, checkpoint: str) -> None:
    """Refuse to go on in these files without their checkpoint: nobody would know of which hub they are."""
    if folders.exists(path) and not folders.exists(f"{checkpoint}/metadata"):
        raise InvalidOperation(
            f"There is a capture at {path}, but not its checkpoint at {checkpoint}. A capture belongs to one hub, and"
            " goes on by its checkpoint only. Name another path for a new capture."
        )


def _changes(work: Work, options: Options) -> DataFrame:
    changes = work.spark.readStream.format("restante").options(**work.hub).option("reader", NAME)
    return changes.option("startingPosition", options.starting).load()


def _records(work: Work, options: Options) -> DataFrame:
    source = topic_source(options)
    topic_ranges(source)  # raises an error of Kafka as it is, before it would come wrapped from within a stream
    return work.spark.readStream.format(topic_stream.NAME).options(**topic_stream.stream_options(source)).load()


def _started(work: Work, options: Options, capture: Capture, *, checkpoint: str) -> StreamingQuery:
    """The same stream as last time, by its checkpoint."""
    stream = _records(work, options) if options.topic else _changes(work, options)
    writer = stream.writeStream.foreachBatch(capture.keep).option("checkpointLocation", checkpoint)
    try:
        timed = (
            writer.trigger(availableNow=True)
            if options.trigger == NOW
            else writer.trigger(processingTime=options.trigger)
        )
        return timed.queryName(NAME).start()
    except (ValueError, PySparkException) as error:
        if "interval" not in str(error).lower():
            raise
        raise InvalidRequest(f"{options.trigger!r} is no interval. Write one such as 1 minute, or now.") from error
