"""Doors in front of several shards: each takes publishes for all partitions, also while their shard is away."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa
import pytest

import restante
from restante.calls.backplane import AwaitRecords, ListRefusedRecords, ReadBackplane
from restante.client.surface.sync import Hub
from restante.errors import InvalidMessage, InvalidRequest, MessageConflict, Unavailable
from restante.model.storage.partition import partition_of
from restante.settings import BackplaneSettings, Settings
from tests.backplane.memory_backplane import MemoryBackplane
from tests.cluster.several import SeveralHub
from tests.waiting import wait_until

PARTITIONS = 8
SETTINGS = Settings(partition_count=PARTITIONS, housekeeping_seconds=0, backplane=BackplaneSettings(stored_seconds=20))


@pytest.fixture
def log() -> MemoryBackplane:
    return MemoryBackplane(PARTITIONS)


@pytest.fixture
def several(log: MemoryBackplane, tmp_path: Path) -> Iterator[SeveralHub]:
    running = SeveralHub(tmp_path / "data", SETTINGS, shards=2, backplane=log)
    yield running
    running.stop()


@pytest.fixture
def hub(several: SeveralHub) -> Iterator[Hub]:
    with restante.connect(several.url, retries=0) as hub:
        yield hub


def names(shard: int, count: int) -> list[str]:
    found = (f"r{number}" for number in range(1_000))
    return [name for name in found if partition_of(name, PARTITIONS) * 2 // PARTITIONS == shard][:count]


def texts(hub: Hub, name: str, count: int) -> list[str | None]:
    """What a mailbox holds, once it has so many messages."""
    box = hub.recipient(name)
    wait_until(lambda: sum(own.messages for own in box.explain().waiting) >= count)
    bundle = box.peek()
    assert bundle is not None
    return [message.text for message in bundle.messages]


def test_who_waits_gets_the_receipt_of_the_shard_that_stored_it(hub: Hub, log: MemoryBackplane) -> None:
    everybody = [*names(0, 3), *names(1, 3)]
    receipt = hub.send([{"recipient": name, "text": "hello"} for name in everybody])
    assert (receipt.accepted, receipt.duplicates, receipt.stored) == (6, 0, True)
    assert {own.partition for own in receipt.partitions} == {partition_of(name, PARTITIONS) for name in everybody}
    assert sum(end.next for end in log.ends(range(PARTITIONS)).values()) == len(receipt.partitions)
    table = pa.table({"recipient": [everybody[n % 6] for n in range(5_000)], "data": [b"%d" % n for n in range(5_000)]})
    assert hub.send(table).accepted == 5_000
    assert [texts(hub, name, 1)[0] for name in everybody] == ["hello"] * 6


def test_what_is_refused_is_told_to_who_waits_and_kept(hub: Hub) -> None:
    first, other = names(0, 1)[0], names(1, 1)[0]
    hub.send(recipient=first, id="one", text="a")
    with pytest.raises(MessageConflict) as refused:
        hub.send([{"recipient": other, "text": "b"}, {"recipient": first, "id": "one", "text": "other"}])
    assert [fault.index for fault in refused.value.faults] == [1]
    with pytest.raises(InvalidMessage):
        hub.send(recipient="", text="x", accept="accepted")
    (record,) = hub.link.call(ListRefusedRecords()).records
    assert (record.partition, record.code) == (partition_of(first, PARTITIONS), "message_conflict")
    status = hub.link.call(ReadBackplane())
    assert (status.topic, status.messages, status.refused, status.waiting) == ("memory", 2, 1, 0)
    assert [own.partition for own in status.partitions] == list(range(PARTITIONS))


def test_refused_records_of_all_shards_are_listed_page_by_page(hub: Hub) -> None:
    everybody = sorted([*names(0, 2), *names(1, 2)], key=lambda name: partition_of(name, PARTITIONS))
    for name in everybody:
        hub.send(recipient=name, id="one", text="a")
        with pytest.raises(MessageConflict):
            hub.send(recipient=name, id="one", text="b")
    found, after = [], None
    while True:
        page = hub.link.call(ListRefusedRecords(limit=1, after=after))
        found += [own.partition for own in page.records]
        after = page.next
        if after is None:
            break
    assert found == [partition_of(name, PARTITIONS) for name in everybody]


def test_doors_take_publishes_while_their_shard_is_away(several: SeveralHub, hub: Hub) -> None:
    name, other = names(0, 1)[0], names(1, 1)[0]
    several.stop_shard(0)
    for number in range(20):
        receipt = hub.send(recipient=name, text=f"{number}", accept="accepted")
        assert (receipt.accepted, receipt.stored) == (1, False)
    assert hub.send(recipient=other, text="there").accepted == 1
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(hub.send, recipient=name, text="waits")
        assert not waiting.done()
        several.start_shard(0)
        stored = waiting.result()
    assert (stored.accepted, stored.duplicates) == (1, 0)
    assert texts(hub, name, 21) == [*(f"{number}" for number in range(20)), "waits"]


def test_who_asks_a_shard_that_was_started_since_hears_that_it_is_stored(several: SeveralHub, hub: Hub) -> None:
    """The outcome of a record is told from what the store has: stored, or refused with the reason."""
    name = names(0, 1)[0]
    partition = partition_of(name, PARTITIONS)
    hub.send([{"recipient": name, "id": "one", "text": "a"}])
    with pytest.raises(MessageConflict):
        hub.send(recipient=name, id="one", text="b")
    several.stop_shard(0)
    several.start_shard(0)
    core = several.shards[0].desk.hub
    stored, refused, later = core.call(AwaitRecords(((partition, 0, 1), (partition, 1, 1), (partition, 2, 1)), 0.1))
    assert stored.receipt is not None
    assert (stored.receipt.accepted, stored.receipt.partitions) == (1, ())
    assert refused.problem is not None
    assert refused.problem["code"] == "message_conflict"
    assert (later.receipt, later.problem) == (None, None)


def test_many_who_wait_are_each_told_of_their_own(several: SeveralHub, hub: Hub) -> None:
    """A record that was stored just before its shard ended is told of without its partition."""
    everybody = [*names(0, 4), *names(1, 4)]

    def publish(number: int) -> int:
        name = everybody[number % 8]
        receipt = hub.send(recipient=name, text=f"{number}")
        assert {own.partition for own in receipt.partitions} <= {partition_of(name, PARTITIONS)}
        return receipt.accepted

    stopped = threading.Timer(0.1, several.stop_shard, (1,))
    with ThreadPoolExecutor(16) as pool:
        stopped.start()
        done = [pool.submit(publish, number) for number in range(200)]
        stopped.join()
        several.start_shard(1)
        assert sum(one.result() for one in done) == 200
    assert sum(len(texts(hub, name, 25)) for name in everybody) == 200


def test_what_goes_straight_is_stored_by_its_shard(hub: Hub, log: MemoryBackplane) -> None:
    name = names(0, 1)[0]
    large = "x" * (log.record_bytes_max + 1)
    assert hub.send(recipient=name, text=large).accepted == 1
    assert hub.send([{"recipient": name, "text": "sourced", "source_position": 3}], source="elsewhere").accepted == 1
    with pytest.raises(InvalidRequest, match="has room for"):
        hub.send(recipient=name, text=large, accept="accepted")
    with pytest.raises(InvalidRequest, match="a source"):
        hub.send([{"recipient": name, "text": "s", "source_position": 4}], source="elsewhere", accept="accepted")
    assert sum(end.next for end in log.ends(range(PARTITIONS)).values()) == 0


def test_nothing_is_taken_while_the_log_is_away(hub: Hub, log: MemoryBackplane) -> None:
    log.away = "no broker"
    with pytest.raises(Unavailable, match="no broker"):
        hub.send(recipient="ada", text="x", accept="accepted")
    log.away = None
    assert hub.send(recipient="ada", text="x").accepted == 1


def test_doors_without_a_backplane_say_that_they_only_store(tmp_path: Path) -> None:
    running = SeveralHub(tmp_path / "data", Settings(partition_count=PARTITIONS), shards=2)
    try:
        with restante.connect(running.url, retries=0) as hub:
            with pytest.raises(InvalidRequest, match="no backplane"):
                hub.send(recipient="ada", text="x", accept="accepted")
            assert hub.link.call(ReadBackplane()).topic is None
    finally:
        running.stop()
