"""Large publishes may be laid out by a process of its own; whatever becomes of it, the hub stores the same."""

from __future__ import annotations

import math
import os
import signal
import uuid
from collections.abc import Iterator
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from restante.assembly import open_hub
from restante.calls.mailboxes import Peek
from restante.calls.publishing import Publish
from restante.errors import Forbidden, InvalidMessage, InvalidRequest, MessageConflict
from restante.hub.door.hub import OpenHub
from restante.hub.publishing.large_publish import OtherCommits
from restante.model.access.access import Grant, Role
from restante.model.mailboxes.answers import BundleAnswer, Receipt
from restante.model.mailboxes.message_tables import to_messages
from restante.model.publishing.bulk_parcel import BulkParcel, Packing, packed, unpacked
from restante.model.publishing.few_or_many import Many, UndecodedBody
from restante.model.publishing.message import Message
from restante.outside.bulk_process import laid_out
from restante.outside.filing_clerk import FilingClerk
from restante.outside.helper_process import HelperProcess
from restante.ports.clerk import BulkTerms
from restante.settings import Settings
from restante.wire.incoming.incoming_arrow import decode_arrow
from restante.wire.publish import stream_bytes
from tests.waiting import wait_until

SETTINGS = Settings(partition_count=4, housekeeping_seconds=0, filing=False)
ROWS = 2_000
TERMS = BulkTerms(key=7, partition_count=4, claim_check_origins=(), data_bytes_max=1_000_000, now=1_790_000_000_000_000)


pytestmark = pytest.mark.xdist_group("bulk clerk")


class LastingClerk(FilingClerk):
    """Not closed with a hub: to start its process takes longer than any test."""

    def close(self) -> None:
        """Stay for the next hub."""

    def end(self) -> None:
        super().close()


@pytest.fixture(scope="module")
def clerk() -> Iterator[FilingClerk]:
    clerk = LastingClerk(worth_calls=1)
    yield clerk
    clerk.end()


@pytest.fixture
def hub(clerk: FilingClerk, tmp_path: Path) -> Iterator[OpenHub]:
    with busy_hub(clerk, tmp_path / "data") as hub:
        yield hub


@contextmanager
def busy_hub(clerk: FilingClerk, folder: Path) -> Iterator[OpenHub]:
    hub = open_hub(folder, settings=SETTINGS, clerk=clerk)
    others = hub.core.memory(OtherCommits)
    others._busy, others._at = True, math.inf  # as if others committed all the time
    yield hub
    hub.close()


def process_of(clerk: FilingClerk) -> HelperProcess:
    return clerk._bulk._process


def table_of(first: int, recipients: int = 7, *, ids: bool = True, data: bytes = b"") -> pa.Table:
    numbers = range(first, first + ROWS)
    columns: dict[str, Any] = {
        "recipient": [f"r{number % recipients}" for number in numbers],
        "kind": pa.array([("a", "b")[number % 2] for number in numbers]).dictionary_encode(),
        "data": pa.array([(data or b"%d" % number) * 30 for number in numbers], pa.binary()),
        "properties": pa.array([[("n", str(number))] for number in numbers], pa.map_(pa.string(), pa.string())),
    }
    if ids:
        columns["id"] = pa.array([uuid.UUID(int=number + 1).bytes for number in numbers], pa.binary(16))
    return pa.table(columns)


def body_of(table: pa.Table, codec: Any = None) -> memoryview:
    if codec is None:
        return stream_bytes(table)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema, options=pa.ipc.IpcWriteOptions(compression=codec)) as writer:
        writer.write_table(table)
    return memoryview(sink.getvalue()).cast("B")


def publish(hub: OpenHub, body: memoryview, **said: Any) -> Receipt:
    return hub.call(Publish(Many(UndecodedBody(body, partial(decode_arrow, body))), **said))


def begin(hub: OpenHub, clerk: FilingClerk) -> None:
    """Have the process answer."""
    numbers = iter(range(10_000_000, 20_000_000, ROWS))

    def is_there() -> bool:
        publish(hub, large(table_of(next(numbers), recipients=1)))
        return process_of(clerk).answers > 0

    wait_until(is_there)


def large(table: pa.Table) -> memoryview:
    body = body_of(table)
    assert len(body) > 256 * 1024
    return body


def waiting(hub: OpenHub, recipient: str) -> list[Message]:
    found = hub.call(Peek(recipient))
    assert isinstance(found, BundleAnswer)
    return list(to_messages(found.table))


def same(one: object, other: object) -> bool:
    if isinstance(one, np.ndarray):
        return isinstance(other, np.ndarray) and one.dtype == other.dtype and np.array_equal(one, other)
    if isinstance(one, pa.Array):
        return isinstance(other, pa.Array) and one.equals(other)
    if hasattr(one, "__dataclass_fields__"):
        return all(same(getattr(one, name), getattr(other, name)) for name in one.__dataclass_fields__)
    return one == other


def contents(parcel: BulkParcel) -> list[tuple[int, int, int, bytes]]:
    return [(one.group, one.rows, one.length, b"".join(one.parts)) for one in parcel.segments]


@pytest.mark.parametrize("recipients", [1, 7, 1_000])
@pytest.mark.parametrize("codec", [None, "zstd"], ids=["plain", "packed"])
def test_a_parcel_comes_back_as_it_was(recipients: int, codec: str | None) -> None:
    body = body_of(table_of(0, recipients), codec)
    parcel = laid_out(body, TERMS)
    assert parcel is not None
    packing = Packing(body)
    directory = packed(parcel, packing)
    again = unpacked(directory, body, b"".join(packing.parts))
    assert len(b"".join(packing.parts)) == packing.size
    assert same(again.arrivals, parcel.arrivals)
    assert same(again.grouped, parcel.grouped)
    assert same(again.place, parcel.place)
    assert same(again.counts, parcel.counts)
    assert contents(again) == contents(parcel)


def test_data_that_lies_in_the_body_is_not_sent_again() -> None:
    table = table_of(0, recipients=1, data=b"x" * 30).drop_columns(["kind", "properties"])
    body = body_of(table)
    parcel = laid_out(body, TERMS)
    assert parcel is not None
    packing = Packing(body)
    packed(parcel, packing)
    assert packing.size < ROWS * 230
    assert len(body) > ROWS * 900


def test_what_the_process_lays_out_is_stored_as_the_hub_would(hub: OpenHub, clerk: FilingClerk) -> None:
    begin(hub, clerk)
    before = process_of(clerk).answers
    receipt = publish(hub, large(table_of(0)))
    assert (receipt.accepted, receipt.duplicates) == (ROWS, 0)
    assert process_of(clerk).answers == before + 1
    hub.call(Publish.of(table_of(ROWS)))
    for recipient in range(7):
        found = waiting(hub, f"r{recipient}")
        kinds = {message.kind for message in found}
        assert len(kinds) == 1
        numbers = [number for number in range(2 * ROWS) if number % 7 == recipient and ("a", "b")[number % 2] in kinds]
        if recipient == 0:  # the beginning is his, too
            found = [message for message in found if int(message.properties["n"]) < 2 * ROWS]
        assert [int(message.properties["n"]) for message in found] == numbers[: len(found)]
        assert all(message.data == message.properties["n"].encode() * 30 for message in found)


def test_ids_are_made_for_those_that_have_none(hub: OpenHub, clerk: FilingClerk) -> None:
    begin(hub, clerk)
    before = process_of(clerk).answers
    body = large(table_of(0, recipients=3, ids=False))
    assert publish(hub, body).accepted == ROWS
    assert publish(hub, body).accepted == ROWS
    assert process_of(clerk).answers == before + 2
    assert len({message.id for message in waiting(hub, "r1")}) == len(waiting(hub, "r1"))


def test_duplicates_are_found_and_conflicts_refused(hub: OpenHub, clerk: FilingClerk) -> None:
    begin(hub, clerk)
    before = process_of(clerk).answers
    assert publish(hub, large(table_of(0))).accepted == ROWS
    again = publish(hub, large(pa.concat_tables([table_of(0), table_of(ROWS)])))
    assert (again.accepted, again.duplicates) == (ROWS, ROWS)
    with pytest.raises(MessageConflict):
        publish(hub, large(table_of(0, data=b"other")))
    assert process_of(clerk).answers == before + 3


def test_what_is_wrong_is_named_as_ever(hub: OpenHub, clerk: FilingClerk) -> None:
    begin(hub, clerk)
    names: Any = pa.array(["", *["ada"] * (ROWS - 1)])
    with pytest.raises(InvalidMessage):
        publish(hub, large(table_of(0).set_column(0, "recipient", names)))
    body = large(table_of(0))
    with pytest.raises(InvalidRequest, match="cannot be read"):
        publish(hub, memoryview(b"\xff" * len(body)))
    with pytest.raises(InvalidRequest, match="cut off"):
        publish(hub, body[: len(body) // 2 * 2 - 8])
    assert publish(hub, body).accepted == ROWS


def test_an_origin_of_others_is_forbidden(hub: OpenHub, clerk: FilingClerk) -> None:
    begin(hub, clerk)
    stranger = Grant("stranger", frozenset({Role.PUBLISHER}), frozenset({"another"}))
    body = large(table_of(0))
    with pytest.raises(Forbidden):
        hub.on_behalf_of(stranger).call(Publish(Many(UndecodedBody(body, partial(decode_arrow, body)))))


def test_a_process_that_is_killed_loses_nothing(tmp_path: Path) -> None:
    with closing(FilingClerk(worth_calls=1)) as clerk, busy_hub(clerk, tmp_path / "data") as hub:
        begin(hub, clerk)
        process = process_of(clerk).process_id
        assert process is not None
        os.kill(process, signal.SIGKILL)
        before = process_of(clerk).answers
        for first in (0, ROWS):
            receipt = publish(hub, large(table_of(first)))
            assert (receipt.accepted, receipt.duplicates) == (ROWS, 0)
        assert process_of(clerk).answers == before


def test_a_hub_with_little_to_do_lays_out_by_itself(hub: OpenHub, clerk: FilingClerk) -> None:
    begin(hub, clerk)
    hub.core.memory(OtherCommits)._at = -math.inf
    before = process_of(clerk).answers
    assert publish(hub, large(table_of(0))).accepted == ROWS
    assert process_of(clerk).answers == before


def test_many_commits_are_seen_and_a_pause_ends_it(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    others = OtherCommits()
    assert not others.are_many(1_000)
    now[0] += 0.5
    assert others.are_many(1_100)
    now[0] += 0.1
    assert others.are_many(1_100)
    now[0] += 0.5
    assert not others.are_many(1_110)
    now[0] += 3_600
    assert not others.are_many(9_000_000)
