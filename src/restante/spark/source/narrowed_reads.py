"""Narrowed reads: what of a micro-batch a job really looks at, told to the tasks that read it: the rest is not fetched.

Spark gives a stream's source no word on the columns and rows that are used of a micro-batch. If one is passed over several
times, each pass says what it needs, in a property that Spark hands to all tasks of a thread's jobs. A column that is not
needed is null, and a change that is not needed may be left out. So it is a hint: who gives one must be right about it with
all rows there, too. It holds for the micro-batch that it names and no other, and for batch reads never. A job may also have
the rows taken where they are, in the tasks, by a function of its own: then what that makes of them comes in their place.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module

import msgspec
import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.taskcontext import TaskContext

from restante.decoders import json_decoder

_PROPERTY = "restante.narrowed"
_BATCH = "streaming.sql.batchId"
"""Where Spark itself says which micro-batch a task belongs to."""


class Narrow(msgspec.Struct, frozen=True, kw_only=True):
    """The part of a micro-batch that is needed."""

    batch: int
    columns: tuple[str, ...]
    without: tuple[str, ...] = ()
    """Changes that may be left out, except for one on each page, which shows that there are such changes."""
    only_first: bool = False
    """One row of each part is enough."""
    made_by: str | None = None
    """A function, as `module:name`, that gets the rows of each part, and returns those that come in their place."""
    told: str = ""
    """A text that is passed to that function."""

    def made_of(self, rows: Iterator[pa.RecordBatch], part: str) -> Iterator[pa.RecordBatch]:
        """The rows that come in the place of these."""
        if self.made_by is None:
            return rows
        module, _, name = self.made_by.partition(":")
        made: Iterator[pa.RecordBatch] = getattr(import_module(module), name)(rows, self.told, part)
        return made


@contextmanager
def narrowed(spark: SparkSession, narrow: Narrow) -> Iterator[None]:
    """Narrow what the jobs read that this thread starts inside this context."""
    context = spark.sparkContext
    before = context.getLocalProperty(_PROPERTY)
    context.setLocalProperty(_PROPERTY, msgspec.json.encode(narrow).decode())
    try:
        yield
    finally:
        # Null takes it away, whatever the annotation says.
        context.setLocalProperty(_PROPERTY, before)  # type: ignore[arg-type]


def narrow_of_task() -> Narrow | None:
    """The narrowing of the task that runs here, from its local properties; None: everything is needed."""
    task = TaskContext.get()
    told = None if task is None else task.getLocalProperty(_PROPERTY)
    if task is None or told is None:
        return None
    narrow = json_decoder(Narrow).decode(told)
    return narrow if task.getLocalProperty(_BATCH) == str(narrow.batch) else None
