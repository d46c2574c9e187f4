"""The feed's columns, from rows and records that need no store."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from restante.model.feed.feed import (
    ALWAYS,
    CHANGES,
    FEED_SCHEMA,
    Released,
    Settled,
    changes_table,
    feed_columns,
    in_log_order,
    schema_of,
)
from restante.model.mailboxes.message_tables import MESSAGE_SCHEMA
from restante.model.storage.change import ChangeKind, ChangeRecord
from restante.model.storage.head import NumberRange

ALL = tuple(FEED_SCHEMA.names)


def numbered(*numbers: int) -> pa.Table:
    """Rows with these numbers and nothing else."""
    return pa.table({"sequence_number": pa.array(numbers, pa.int64())})


def told(table: pa.Table) -> list[object]:
    return list(table["sequence_number"].to_pylist())


def test_the_columns_of_messages_have_the_types_that_messages_have() -> None:
    shared = set(ALL) & set(MESSAGE_SCHEMA.names)
    assert shared == set(MESSAGE_SCHEMA.names) - {"published_at", "collected_at", "state"}
    assert all(FEED_SCHEMA.field(name).type == MESSAGE_SCHEMA.field(name).type for name in shared)
    assert set(CHANGES) == {"published", *(kind.value for kind in ChangeKind)}


def test_columns_come_in_the_order_of_the_schema_with_those_that_always_come() -> None:
    assert feed_columns(()) == ALL
    assert feed_columns(("kind", "id")) == (*ALWAYS, "id", "kind")


@pytest.mark.parametrize("count", [3, 200])
def test_messages_and_changes_are_laid_into_one_order_however_often_they_take_turns(count: int) -> None:
    messages = numbered(*range(1, 2 * count, 2))
    changes = numbered(*sorted([*range(2, 2 * count + 1, 2), *range(2, 2 * count + 1, 2)]))
    expected = sorted([*told(messages), *told(changes)], key=lambda number: int(str(number)))
    assert told(in_log_order([messages.slice(0, 2), messages.slice(2)], changes, ("sequence_number",))) == expected


def test_without_changes_messages_are_not_copied_and_the_other_way_round() -> None:
    rows = numbered(1, 2)
    assert in_log_order([rows], None, ("sequence_number",)).equals(rows)
    assert in_log_order([], rows, ("sequence_number",)) is rows
    assert in_log_order([], None, ALL).equals(schema_of(ALL).empty_table())


def test_a_record_says_of_each_of_its_messages_what_it_says_of_all() -> None:
    bundle = bytes(range(16))
    records = [
        (7, ChangeRecord(ChangeKind.COLLECTED, 5, "ada", "o", "k", 2, (NumberRange(1, 3),), bundle_id=bundle)),
        (9, ChangeRecord(ChangeKind.BATCH_COMPLETED, 6, "", "", "", 0, (), batch=bundle, key="month")),
    ]
    ids = np.zeros((3, 2), np.uint64)
    rows = Settled(np.array([0, 0, 1]), np.array([1, 3, 0]), ids, np.array([True, False, False]))
    table = changes_table(records, rows, ALL)
    assert table.schema == FEED_SCHEMA
    assert table["sequence_number"].to_pylist() == [7, 7, 9]
    assert table["change"].to_pylist() == ["collected", "collected", "batch_completed"]
    assert table["message_sequence_number"].to_pylist() == [1, 3, None]
    assert table["id"].to_pylist() == [bytes(16), None, None]
    assert table["recipient"].to_pylist() == ["ada", "ada", None]
    assert table["bundle_id"].to_pylist() == [bundle, bundle, None]
    assert table["batch"].to_pylist() == [None, None, bundle]
    assert table["key"].to_pylist() == [None, None, "month"]
    assert table["data"].null_count == 3


def test_only_what_moved_was_released_to_the_end() -> None:
    record = ChangeRecord(ChangeKind.RELEASED, 5, "ada", "o", "k", 1, (NumberRange(2, 2),))
    moved = ChangeRecord(ChangeKind.RELEASED, 6, "ada", "o", "k", 1, (NumberRange(3, 3),), moved=True)
    released = Released.of([(8, record), (9, moved)])
    assert (released.number.tolist(), released.old.tolist(), released.at.tolist()) == ([9], [3], [6])
    assert Released.of([]).number.tolist() == []
