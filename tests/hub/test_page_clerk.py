"""Large pages of the feed may be read by a process of its own; whatever becomes of it, readers see the same."""

from __future__ import annotations

import math
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from restante import limits
from restante.assembly import open_hub
from restante.calls.feed import ReadFeed
from restante.calls.mailboxes import Dequeue, Peek
from restante.calls.publishing import Publish
from restante.calls.removal import Erase
from restante.errors import DataDamaged
from restante.hub.door.hub import OpenHub
from restante.model.feed.feed_answers import FeedWish
from restante.model.mailboxes.answers import BundleAnswer
from restante.outside.filing_clerk import FilingClerk
from restante.outside.helper_process import HelperProcess
from restante.settings import Settings
from tests.waiting import wait_until

SETTINGS = Settings(partition_count=1, housekeeping_seconds=0, filing=False)
ROWS = 4_000
pytestmark = pytest.mark.xdist_group("page clerk")
"""In one process, so that they share the process that reads."""


class LentClerk(FilingClerk):
    """A clerk that hubs, one after the other, do not close."""

    def close(self) -> None: ...

    def end(self) -> None:
        super().close()


@pytest.fixture(scope="module")
def clerk() -> Iterator[FilingClerk]:
    clerk = LentClerk(worth_calls=1)
    yield clerk
    clerk.end()


@pytest.fixture(autouse=True)
def _unpaced(monkeypatch: pytest.MonkeyPatch) -> None:
    """Readers need not wait for others in these tests."""
    monkeypatch.setattr(limits, "FEED_CATCHING_UP_TIMES", 0)
    monkeypatch.setattr(limits, "FEED_CATCHING_UP_TIMES_MIN", 0)


@pytest.fixture
def hub(clerk: FilingClerk, tmp_path: Path) -> Iterator[OpenHub]:
    hub = open_hub(tmp_path / "data", settings=SETTINGS, clerk=clerk)
    yield hub
    hub.close()


def process_of(clerk: FilingClerk) -> HelperProcess:
    return clerk._pages._process


def send(hub: OpenHub, first: int, count: int = ROWS) -> None:
    numbers = range(first, first + count)
    columns: dict[str, Any] = {
        "recipient": [f"r{number % 97}" for number in numbers],
        "data": pa.array([b"%d" % number * 20 for number in numbers], pa.binary()),
        "properties": pa.array([[("n", str(number))] for number in numbers], pa.map_(pa.string(), pa.string())),
    }
    assert hub.call(Publish.of(pa.table(columns))).accepted == count


def read(hub: OpenHub, limit: int = 100_000, columns: tuple[str, ...] = ()) -> pa.Table:
    """All of the feed, page by page, as if others committed all the time; no page is longer than was asked for."""
    after, tables, end = 0, list[pa.Table](), 1
    while after < end:
        hub.core.bell.rung_at = time.monotonic()
        answer = hub.call(ReadFeed(0, after=after, limit=limit, wish=FeedWish(columns=columns)))
        assert len(answer.table.column("sequence_number").unique()) <= limit
        assert answer.next > after
        tables.append(answer.table)
        after, end = answer.next, answer.end
    return pa.concat_tables(tables)


def rows_of(table: pa.Table) -> list[dict[str, object]]:
    return table.to_pylist()


def begin(hub: OpenHub, clerk: FilingClerk) -> None:
    """Have the process answer."""
    before = process_of(clerk).answers

    def is_there() -> bool:
        read(hub)
        return process_of(clerk).answers > before

    wait_until(is_there)


def read_alone(hub: OpenHub, limit: int = 100_000) -> pa.Table:
    """The same, by the hub itself."""
    assert isinstance(hub.core.clerk, FilingClerk)
    process = process_of(hub.core.clerk)
    closed, process.closed = process.closed, True
    before = process.answers
    try:
        return read(hub, limit)
    finally:
        assert process.answers == before
        process.closed = closed


@pytest.mark.parametrize("limit", [1_500, 9_000, 100_000])
def test_the_process_reads_what_the_hub_would(hub: OpenHub, clerk: FilingClerk, limit: int) -> None:
    send(hub, 0)
    send(hub, ROWS, 10)
    send(hub, 2 * ROWS)
    send(hub, 3 * ROWS)
    begin(hub, clerk)
    before = process_of(clerk).answers
    found = read(hub, limit)
    assert process_of(clerk).answers > before
    alone = read_alone(hub, limit)
    assert found.schema == alone.schema
    assert rows_of(found) == rows_of(alone)
    assert found.num_rows == 3 * ROWS + 10


def test_a_choice_of_columns_and_changes_between(hub: OpenHub, clerk: FilingClerk) -> None:
    send(hub, 0)
    bundle = hub.call(Peek("r5"))
    assert isinstance(bundle, BundleAnswer)
    hub.call(Dequeue("r5", bundle.bundle_id))
    send(hub, ROWS)
    begin(hub, clerk)
    assert rows_of(read(hub, 5_000)) == rows_of(read_alone(hub, 5_000))
    few = read(hub, columns=("recipient", "id"))
    assert few.column_names == ["sequence_number", "change", "id", "recipient"]
    assert rows_of(few) == rows_of(read_alone(hub).select(few.column_names))


def test_what_was_erased_is_not_read(hub: OpenHub, clerk: FilingClerk) -> None:
    send(hub, 0)
    begin(hub, clerk)
    hub.call(Erase("r3"))
    recipients = {row["recipient"] for row in rows_of(read(hub)) if row["change"] == "published"}
    assert "r3" not in recipients
    assert len(recipients) == 96


def test_a_process_that_is_killed_is_missed_by_nobody(tmp_path: Path) -> None:
    clerk = FilingClerk(worth_calls=1)
    hub = open_hub(tmp_path / "data", settings=SETTINGS, clerk=clerk)
    send(hub, 0)
    begin(hub, clerk)
    expected = rows_of(read(hub))
    process = process_of(clerk).process_id
    assert process is not None
    os.kill(process, signal.SIGKILL)
    assert rows_of(read(hub)) == expected
    assert process_of(clerk).process_id is None
    hub.close()


def test_damage_is_told_as_the_hub_tells_it(hub: OpenHub, clerk: FilingClerk, tmp_path: Path) -> None:
    send(hub, 0)
    begin(hub, clerk)
    (file,) = (tmp_path / "data" / "blobs").iterdir()
    content = bytearray(file.read_bytes())
    content[-100] ^= 0xFF
    file.write_bytes(content)
    with pytest.raises(DataDamaged, match=r"Block \d+ of the data of run"):
        read(hub)


def test_while_nobody_commits_the_hub_reads_by_itself(hub: OpenHub, clerk: FilingClerk) -> None:
    send(hub, 0)
    begin(hub, clerk)
    before = process_of(clerk).answers
    hub.core.bell.rung_at = -math.inf
    assert hub.call(ReadFeed(0)).table.num_rows == ROWS
    assert process_of(clerk).answers == before


def test_rows_outlive_the_process_and_the_hub(hub: OpenHub, clerk: FilingClerk) -> None:
    send(hub, 0)
    begin(hub, clerk)
    found, expected = read(hub), read_alone(hub)
    hub.close()
    assert found.equals(expected)
