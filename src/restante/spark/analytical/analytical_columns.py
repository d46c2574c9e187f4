"""Makes the rows of the analytical store's tables of changes, by columns in memory: for tasks that write files themselves.

The same rules as in `analytical_changes`, where Spark follows them; a test holds one against the other.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from restante.model.columns.arrow import Column
from restante.spark.analytical.analytical_changes import DELIVERIES, MESSAGE_COLUMNS, SETTLING
from restante.spark.analytical.analytical_facts import Facts

_MICROSECONDS_A_DAY = 86_400_000_000


@dataclass(frozen=True, slots=True)
class Split:
    """The parts that one batch of changes comes to."""

    messages: pa.Table
    deliveries: pa.Table
    """The deliveries to which something has happened, settled or not."""
    facts: Facts
    is_stored: bool
    """Whether these are messages that were stored when the stream began."""


def split(changes: pa.RecordBatch) -> Split:
    """All columns of changes are there; null, where a change has none."""
    told = _Told(changes)
    happened = _chosen(changes, _or(told.settled, told.opened))
    return Split(
        messages=_messages(_chosen(changes, told.new)),
        deliveries=_deliveries(happened, _Told(happened)),
        facts=_facts(changes, told),
        is_stored=_some(told.stored),
    )


class _Told:
    """The kinds of the changes: masks without nulls."""

    def __init__(self, changes: pa.RecordBatch | pa.Table) -> None:
        change = changes.column("change")
        self.stored = _is(change, "stored")
        self.new = _is(change, "published", "stored")
        self.state: Column = change
        if _some(self.stored):
            self.state = pc.if_else(self.stored, changes.column("state"), change)
        released = _is(change, "released")
        self.released = released
        self.moved = _and(released, changes.column("weight").is_valid())
        self.settled = _or(_is(self.state, *SETTLING), self.moved)
        self.opened = _or(_is(self.state, "set_aside"), _and(released, changes.column("weight").is_null()))
        self.erased = _is(change, "erased")
        self.completed = _is(change, "batch_completed")


def _messages(new: pa.Table) -> pa.Table:
    columns = [new.column("at" if name == "published_at" else name) for name in MESSAGE_COLUMNS]
    micros = np.asarray(new.column("at").cast(pa.int64()))
    days: Column = pa.array((micros // _MICROSECONDS_A_DAY).astype(np.int32)).cast(pa.date32())
    return pa.table([*columns, days], names=[*MESSAGE_COLUMNS, "published_on"])


def _deliveries(changes: pa.Table, told: _Told) -> pa.Table:
    state, number = told.state, changes.column("sequence_number")
    if _some(told.released):
        state = pc.if_else(told.moved, "moved", pc.if_else(told.released, "waiting", state))
    at = changes.column("at")
    if _some(told.stored):
        ended = pc.coalesce(changes.column("expires_at"), at)
        collected = pc.coalesce(changes.column("collected_at"), at)
        of_stored = pc.if_else(_is(told.state, "expired"), ended, collected)
        at = pc.if_else(told.stored, of_stored, at)
    made: dict[str, Column] = {
        "state": state,
        "at": at,
        "change_sequence_number": number,
        "moved_to": pc.if_else(told.moved, number, pa.scalar(None, number.type)),
        "settled": told.settled,
    }
    names = DELIVERIES.names
    return pa.table([made[name] if name in made else changes.column(name) for name in names], names=names)


def _facts(changes: pa.RecordBatch, told: _Told) -> Facts:
    numbers: Any = pc.min_max(_chosen_column(changes.column("message_sequence_number"), told.moved)).as_py()
    times: Any = pc.min_max(_chosen_column(changes.column("at"), pc.invert(told.stored))).as_py()
    return Facts(
        new=_count(told.new),
        moved=_count(told.moved),
        settled=_count(told.settled),
        opened=_count(told.opened),
        erased=_count(told.erased),
        completed=_count(told.completed),
        moved_first=numbers["min"],
        moved_last=numbers["max"],
        oldest=_utc(times["min"]),
        newest=_utc(times["max"]),
    )


def _utc(moment: datetime | None) -> datetime | None:
    return None if moment is None else moment.astimezone(UTC)


def _is(values: Column, *those: str) -> Column:
    found: Column = pc.is_in(values, value_set=pa.array(those, pa.string()))
    return found


def _and(first: Column, second: Column) -> Column:
    both: Column = pc.and_(first, second)
    return both


def _or(first: Column, second: Column) -> Column:
    either: Column = pc.or_(first, second)
    return either


def _count(mask: Column) -> int:
    return int(pc.sum(mask, min_count=0).as_py())


def _some(mask: Column) -> bool:
    return bool(pc.any(mask, min_count=0).as_py())


def _chosen(rows: pa.RecordBatch, mask: Column) -> pa.Table:
    """Without a copy if it is all of them or none, as is usual where changes of a kind come together."""
    table = pa.Table.from_batches([rows])
    count = _count(mask)
    if count in (0, len(mask)):
        return table.slice(0, count)
    return table.filter(mask)


def _chosen_column(values: Column, mask: Column) -> Column:
    found: Column = values.filter(mask)
    return found
