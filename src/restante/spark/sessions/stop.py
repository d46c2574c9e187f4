"""How what runs in Spark is brought to an end: streams are stopped between two of their batches, the rest is cancelled.

A batch that takes too long to wait for is interrupted. It is done again at the next start, as after a crash.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from restante.limits import STREAM_PAUSE_SECONDS_MAX

_LOOK_SECONDS = 0.1


def stop_streams(spark: SparkSession) -> int:
    """Every stream that runs now. Says how many there were."""
    active = spark.streams.active
    for query in active:
        try:
            _await_pause(query)
            query.stop()
        except (PySparkException, Py4JError):
            continue  # The stream has failed meanwhile; the thread that waits for it gets the error.
    return len(active)


def cancel(spark: SparkSession) -> None:
    """Stop all streams, and cancel all Spark jobs of a session."""
    stop_streams(spark)
    spark.sparkContext.cancelAllJobs()


def ended(spark: SparkSession, threads: Sequence[threading.Thread], *, seconds: float) -> bool:
    """Whether the threads have ended in time, when the streams on which they may wait are stopped."""
    deadline = time.monotonic() + seconds
    while any(thread.is_alive() for thread in threads) and time.monotonic() < deadline:
        stop_streams(spark)
        for thread in threads:
            thread.join(_LOOK_SECONDS)
    return not any(thread.is_alive() for thread in threads)


def _await_pause(query: StreamingQuery) -> None:
    """Wait until a query is between two batches, or has ended, or takes too long."""
    deadline = time.monotonic() + STREAM_PAUSE_SECONDS_MAX
    while query.isActive and query.status["isTriggerActive"] and time.monotonic() < deadline:
        time.sleep(_LOOK_SECONDS)
