"""Source positions, in memory, on SQLite and over HTTP: what is stored of a source is skipped, whatever the batches."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path

import msgspec
import pyarrow as pa
import pytest

import restante
from restante import Message, aio
from restante.client.surface import asynchronous
from restante.client.surface.surface import Hub
from restante.errors import InvalidMessage, InvalidRequest, MessageConflict, SourceUnknown
from restante.hub.doctor.doctor import examine
from restante.model.storage.changes import Changes, Space
from restante.server.serve import start
from restante.stores.sqlite import SqliteStore
from tests.sources.conftest import SETTINGS
from tests.sources.records import RECIPIENTS, expected, record, records, stored

SOURCE = "orders/3"


def test_reading_again_in_other_batches_stores_nothing_twice(hub: Hub) -> None:
    first = hub.send(records(range(50)), source=SOURCE)
    assert (first.accepted, first.duplicates, first.skipped) == (50, 0, 0)
    again = hub.send(records(range(20, 80)), source=SOURCE)
    assert (again.accepted, again.skipped) == (30, 30)
    behind = hub.send(records(range(70)), source=SOURCE)
    assert (behind.accepted, behind.skipped, behind.partitions) == (0, 70, ())
    assert stored(hub) == expected(range(80))


def test_gaps_are_allowed_and_the_messages_of_a_record_share_its_position(hub: Hub) -> None:
    positions = [3, 4, 9, 40, 41, 100]
    assert hub.send(records(positions), source=SOURCE).accepted == 6
    several = [Message(recipient=name, data=200, source_position=200) for name in RECIPIENTS]
    assert hub.send(several, source=SOURCE).accepted == 6
    assert hub.send([*records(positions), *several], source=SOURCE).skipped == 12
    broadcast = {"recipients": list(RECIPIENTS), "data": 201, "source_position": 201}
    assert hub.send([broadcast], source=SOURCE).accepted == 6
    assert hub.send([broadcast], source=SOURCE).skipped == 6


def test_sources_count_apart(hub: Hub) -> None:
    assert hub.send(records(range(10)), source="orders/0").accepted == 10
    assert hub.send(records(range(10)), source="orders/1").accepted == 10
    assert hub.send(records(range(10)), source="orders").accepted == 10
    assert [status.source for status in hub.sources.list()] == ["orders", "orders/0", "orders/1"]


def test_a_status_says_how_far_every_partition_is(hub: Hub) -> None:
    hub.send(records([7, 8, 30]), source=SOURCE)
    status = hub.sources.get(SOURCE)
    homes = {hub.partition_of(record(position).recipient) for position in (7, 8, 30)}
    assert (status.source, status.position, status.messages, status.owner) == (SOURCE, 30, 3, None)
    assert {own.partition for own in status.positions} == homes
    assert sum(own.messages for own in status.positions) == 3


def test_a_source_that_is_set_back_is_stored_again(hub: Hub) -> None:
    hub.send([record(position, recipient="r0") for position in range(10)], source=SOURCE)
    assert hub.sources.reset(SOURCE, 6).position == 6
    assert hub.send([record(position, recipient="r0") for position in range(10)], source=SOURCE).accepted == 3
    assert hub.sources.reset(SOURCE, None).position is None
    assert hub.send([record(0, recipient="r0")], source=SOURCE).accepted == 1
    with pytest.raises(SourceUnknown):
        hub.sources.reset(SOURCE, 1, partition=(hub.partition_of("r0") + 1) % 4)
    with pytest.raises(InvalidRequest):
        hub.sources.reset(SOURCE, -5)


def test_a_source_that_is_deleted_is_unknown(hub: Hub) -> None:
    hub.send(records(range(5)), source=SOURCE)
    hub.sources.delete(SOURCE)
    for ask in (hub.sources.get, hub.sources.delete):
        with pytest.raises(SourceUnknown):
            ask(SOURCE)
    assert list(hub.sources.list()) == []
    assert hub.send(records(range(5)), source=SOURCE).accepted == 5


def test_columns_and_values_are_the_same(hub: Hub) -> None:
    table = pa.table(
        {
            "recipient": [RECIPIENTS[position % 6] for position in range(300)],
            "data": [b"%d" % position for position in range(300)],
            "media_type": ["application/json"] * 300,
            "source_position": pa.array(range(300), pa.int64()),
        }
    )
    assert hub.send(table.slice(0, 200), source=SOURCE).accepted == 200
    again = hub.send(records(range(150, 250)), source=SOURCE)
    assert (again.accepted, again.skipped) == (50, 50)
    last = hub.send(table, source=SOURCE)
    assert (last.accepted, last.skipped) == (50, 250)
    assert stored(hub) == expected(range(300))


@pytest.mark.parametrize(
    ("messages", "detail"),
    [
        ([Message(recipient="r0", data=1)], "missing"),
        ([record(2), record(1)], "ascend"),
        ([record(-1)], "from 0"),
        ([record(2**62)], "from 0"),
        ([Message(recipient="r0", data=1, source_position="3")], "integer"),  # type: ignore[arg-type]
    ],
)
def test_positions_are_whole_numbers_that_ascend(hub: Hub, messages: list[Message], detail: str) -> None:
    with pytest.raises(InvalidMessage, match=detail) as refused:
        hub.send(messages, source=SOURCE)
    assert refused.value.faults[0].field == "source_position"
    assert list(hub.sources.list()) == []


def test_a_position_needs_a_source_and_a_source_a_name(hub: Hub) -> None:
    with pytest.raises(InvalidMessage, match="needs a source"):
        hub.send([record(1)])
    with pytest.raises(InvalidMessage, match="needs a source"):
        hub.send([record(1)] * 200)
    consignment = hub.consignment("night")
    with pytest.raises(InvalidMessage, match="needs a source"):
        consignment.stage("w", 0, [record(1)])
    consignment.discard()
    for name in ("", "  ", "x" * 257, "a\nb", "."):
        with pytest.raises(InvalidRequest):
            hub.send([record(1)], source=name)


def test_what_is_skipped_is_not_compared_and_a_conflict_stores_no_position(hub: Hub) -> None:
    one = [Message(recipient="r0", id="a", data=1, source_position=1)]
    assert hub.send(one, source=SOURCE).accepted == 1
    other = Message(recipient="r0", id="a", data="other", source_position=1)
    assert hub.send([other], source=SOURCE).skipped == 1
    conflict = [other, record(2, recipient="r1"), Message(recipient="r0", id="a", data="other", source_position=3)]
    with pytest.raises(MessageConflict) as refused:
        hub.send(conflict, source=SOURCE)
    assert [fault.index for fault in refused.value.faults] == [2]
    assert hub.sources.get(SOURCE).position == 1
    same = [record(2, recipient="r1"), Message(recipient="r0", id="a", data=1, source_position=3)]
    receipt = hub.send(same, source=SOURCE)
    assert (receipt.accepted, receipt.duplicates, receipt.skipped) == (1, 1, 0)
    assert hub.sources.get(SOURCE).position == 3


def test_a_batch_counts_what_was_stored(hub: Hub) -> None:
    with hub.batches.open() as batch:
        hub.send(records(range(6)), source=SOURCE)
        assert hub.send(records(range(12)), source=SOURCE, batch=batch).accepted == 6
    assert batch.status().items == 6


def test_names_of_any_language_go_through(hub: Hub) -> None:
    name = "Bestellungen/ä ö/3%2F"
    assert hub.send(records(range(3)), source=name).accepted == 3
    assert hub.sources.get(name).source == name
    assert [status.source for status in hub.sources.list()] == [name]


def test_readers_side_by_side_store_each_record_once(hub: Hub) -> None:
    """Each begins at the start and sends in order; their batches differ, and meet in the same commits."""

    def read(step: int) -> None:
        for first in range(0, 240, step):
            hub.send(records(range(first, min(first + step, 240))), source=SOURCE)

    readers = [threading.Thread(target=read, args=(step,)) for step in (7, 16, 40, 90)]
    for reader in readers:
        reader.start()
    for reader in readers:
        reader.join()
    assert stored(hub) == expected(range(240))
    assert hub.sources.get(SOURCE).messages == 240


def test_positions_outlive_the_hub_and_pass_the_doctor(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    with restante.open(folder, settings=SETTINGS) as hub:
        hub.send(records(range(20)), source=SOURCE)
    with restante.open(folder, settings=SETTINGS) as hub:
        assert hub.send(records(range(25)), source=SOURCE).skipped == 20
    store = SqliteStore.open(folder)
    assert examine(store).sound
    damaged = msgspec.msgpack.encode([-7, 0, 0])
    partition = next(number for number in range(4) if store.scan(number, Space.SOURCE))
    ((key, _),) = store.scan(partition, Space.SOURCE)
    changes = Changes(fences={partition: store.raise_fences(4)})
    changes.put(partition, Space.SOURCE, key, damaged)
    store.commit(changes)
    (finding,) = examine(store).findings
    assert "position" in finding.detail
    store.close()


def test_asynchronous_programs_do_the_same(tmp_path: Path) -> None:
    async def both(hub: asynchronous.Hub) -> list[int]:
        first = await hub.send(records(range(10)), source=SOURCE)
        second = await hub.send(records(range(30)), source=SOURCE)
        names = [status.source async for status in hub.sources.list()]
        assert names == [SOURCE]
        await hub.sources.reset(SOURCE, 5)
        assert (await hub.sources.get(SOURCE)).position == 5
        await hub.sources.delete(SOURCE)
        return [first.accepted, second.accepted, second.skipped]

    async def run() -> None:
        async with aio.open(tmp_path / "one", settings=SETTINGS) as hub:
            assert await both(hub) == [10, 20, 10]
        with start(tmp_path / "two", settings=SETTINGS) as running:
            async with aio.connect(running.url) as connected:
                assert await both(connected) == [10, 20, 10]

    asyncio.run(run())
