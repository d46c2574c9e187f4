"""A million rows with the same call: what is larger than a body is cut, and is delivered at one moment, or in parcels."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from functools import partial
from typing import Any

import pyarrow as pa
import pytest

import restante
import restante.aio
from restante import Message
from restante.client.consignments import large_sends
from restante.client.consignments.pieces import pieces_of
from restante.client.surface import sync
from restante.errors import InvalidMessage, InvalidRequest, MessageConflict
from restante.limits import WHOLE_SEND_BYTES_MAX
from restante.server.serve import ServedHub

ROWS = 400
DATA = b"x" * 4_000
SMALL = 128 * 1024
"""In place of the size of a body: the rules are the same, and the tests quick."""


@pytest.fixture
def small_bodies(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(large_sends, "WHOLE_SEND_BYTES_MAX", SMALL)
    monkeypatch.setattr(large_sends, "pieces_of", partial(pieces_of, size=SMALL // 2))


def table(rows: int = ROWS) -> pa.Table:
    names = pa.array([f"r{row % 7}" for row in range(rows)])
    return pa.table({"recipient": names, "data": pa.repeat(pa.scalar(DATA), rows)})


def messages(rows: int = ROWS) -> Iterator[Message]:
    return (Message(recipient=f"r{row % 7}", data=DATA, id=f"m{row}") for row in range(rows))


def dicts(rows: int = ROWS) -> Iterator[dict[str, Any]]:
    return ({"recipient": f"r{row % 7}", "data": {"x": DATA.decode()}} for row in range(rows))


SENT = {
    "table": table,
    "reader": lambda: table().to_reader(max_chunksize=10),
    "messages": messages,
    "list": lambda: list(messages()),
    "dicts": dicts,
    "list of dicts": lambda: list(dicts()),
}


def waiting(hub: sync.Hub) -> int:
    return sum(status.waiting for status in hub.partitions())


@pytest.mark.usefixtures("small_bodies")
@pytest.mark.parametrize("sent", SENT.values(), ids=SENT)
def test_what_is_larger_than_a_body_is_delivered_at_one_moment(either: sync.Hub, sent: Any) -> None:
    heard: list[tuple[int, int]] = []
    receipt = either.send(sent(), progress=lambda staged: heard.append((staged, waiting(either))))
    assert (receipt.accepted, receipt.duplicates) == (ROWS, 0)
    assert len(heard) > 3
    assert [staged for staged, _ in heard] == sorted({staged for staged, _ in heard})
    assert heard[-1] == (ROWS, 0), "nothing is seen before all of it is there"
    assert waiting(either) == ROWS
    (consignment,) = either.consignments()
    assert consignment.key.startswith("send-")


@pytest.mark.usefixtures("small_bodies")
@pytest.mark.parametrize("sent", SENT.values(), ids=SENT)
def test_in_parcels_each_part_is_stored_as_it_comes(either: sync.Hub, sent: Any) -> None:
    heard: list[tuple[int, int]] = []
    receipt = either.send(sent(), parcels=True, progress=lambda sent: heard.append((sent, waiting(either))))
    assert receipt.accepted == ROWS
    assert all(sent == waits for sent, waits in heard)
    assert heard[-1] == (ROWS, ROWS)
    numbers = {status.partition: status.visible_sequence for status in either.partitions() if status.visible_sequence}
    assert {one.partition: one.last_sequence_number for one in receipt.partitions} == numbers
    assert {one.first_sequence_number for one in receipt.partitions} == {1}
    assert not list(either.consignments())


@pytest.mark.parametrize("sent", SENT.values(), ids=SENT)
def test_what_fits_is_one_publish(either: sync.Hub, sent: Any) -> None:
    heard: list[int] = []
    assert either.send(sent(), progress=heard.append).accepted == ROWS
    assert heard == [ROWS]
    assert not list(either.consignments())


@pytest.mark.usefixtures("small_bodies")
def test_a_send_that_fails_leaves_nothing(either: sync.Hub) -> None:
    wrong = [*messages(), Message(recipient=" ", data=b"x")]
    with pytest.raises(InvalidMessage):
        either.send(wrong)
    assert waiting(either) == 0
    assert [each.state.value for each in either.consignments()] == ["discarded"]
    either.send(Message(recipient="r0", data=b"other", id="m0"))
    with pytest.raises(MessageConflict):
        either.send(messages())
    assert waiting(either) == 1


@pytest.mark.usefixtures("small_bodies")
def test_a_send_in_parcels_that_fails_says_what_is_stored(either: sync.Hub) -> None:
    wrong = [*messages(), Message(recipient=" ", data=b"x")]
    with pytest.raises(InvalidMessage) as refused:
        either.send(wrong, parcels=True)
    stored = waiting(either)
    assert 0 < stored < ROWS + 1
    assert refused.value.__notes__ == [f"The {stored} messages before it are stored: the send was cut into parcels."]
    assert either.send(messages(), parcels=True).duplicates == stored


@pytest.mark.usefixtures("small_bodies")
def test_a_batch_or_a_partition_needs_parcels(either: sync.Hub) -> None:
    with either.batches.open("k") as batch:
        with pytest.raises(InvalidRequest, match="with a batch they cannot be delivered at one moment"):
            either.send(table(), batch=batch)
        assert either.send(table(), batch=batch, parcels=True).accepted == ROWS
    assert batch.status().items == ROWS
    partition = either.partition_of("solo")
    solo = pa.table({"recipient": ["solo"] * ROWS, "data": [DATA] * ROWS})
    with pytest.raises(InvalidRequest, match="with a partition"):
        either.send(solo, partition=partition)
    assert either.send(solo, partition=partition, parcels=True).accepted == ROWS


@pytest.mark.usefixtures("small_bodies")
def test_asynchronous_programs_do_the_same(running: ServedHub) -> None:
    async def send() -> tuple[int, int]:
        async with restante.aio.connect(running.url) as hub:
            first = await hub.send(table())
            second = await hub.send(messages(), parcels=True)
            return first.accepted, second.accepted

    assert asyncio.run(send()) == (ROWS, ROWS)


def test_more_than_a_body_in_truth(either: sync.Hub) -> None:
    rows = WHOLE_SEND_BYTES_MAX // 1_000_000 * 2
    large = pa.table({"recipient": ["ada"] * rows, "data": pa.repeat(pa.scalar(b"x" * 1_000_000), rows)})
    assert either.send(large).accepted == rows
    assert waiting(either) == rows
