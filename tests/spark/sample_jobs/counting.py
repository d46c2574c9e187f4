"""A job of the tests: it counts, and fails if it is told to."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Annotated, Literal

import msgspec
import pyarrow as pa

from restante.errors import InvalidOperation
from restante.spark.jobs.work import Outcome, Work

NAME = "counting"
SUMMARY = "Count to a number."


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """How far, and how it ends."""

    to: Annotated[int, msgspec.Meta(ge=0, le=1_000_000, description="How far.")] = 10
    names: Annotated[tuple[str, ...], msgspec.Meta(description="Who counts.")] = ()
    ends: Annotated[
        Literal["well", "refused", "in a task", "in the driver"], msgspec.Meta(description="How it ends.")
    ] = "well"

    def __post_init__(self) -> None:
        if len(self.names) > self.to:
            raise ValueError("there are more names than numbers")


def run(work: Work, options: Options) -> Outcome:
    work.tell(f"Counting to {options.to}.")
    numbers = work.spark.range(options.to)
    if options.ends == "refused":
        raise InvalidOperation("Not today.")
    if options.ends == "in the driver":
        raise ZeroDivisionError("by hand")
    if options.ends == "in a task":
        numbers = numbers.mapInArrow(_refusing(), "id long")
    table = pa.table({"number": list(range(min(options.to, 30)))})
    return Outcome(figures={"counted": numbers.count(), "hub": work.url}, table=table, title="The numbers")


def _refusing() -> Callable[[object], Iterator[pa.RecordBatch]]:
    """A function inside of another travels to the tasks as a whole, so they need not find this module."""

    def refuse(batches: object) -> Iterator[pa.RecordBatch]:
        raise InvalidOperation("A task says no.")

    return refuse
