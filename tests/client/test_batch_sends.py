"""Messages sent into a batch, by every way there is to send: in process and over a real socket."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pyarrow as pa
import pytest

import restante
import restante.aio
from restante import errors
from restante.client.batches.batches_sync import Batch
from restante.client.surface import sync
from restante.model.publishing.message import Message
from restante.server.serve import ServedHub
from tests.client.conftest import QUICK
from tests.client.proxy import CuttingProxy

SECONDS = 20.0
UNKNOWN = "0198c5a2-6f1e-7c3b-9d4a-1b2c3d4e5f60"


def letters(count: int) -> list[Message]:
    return [Message(recipient="ada", data=number) for number in range(count)]


def plainly(hub: sync.Hub, batch: Batch | str) -> None:
    hub.producer.send(letters(3), batch=batch)


def to_a_partition(hub: sync.Hub, batch: Batch | str) -> None:
    hub.producer.send(letters(3), partition=hub.partition_of("ada"), batch=batch)


def as_columns(hub: sync.Hub, batch: Batch | str) -> None:
    hub.producer.send(pa.table({"recipient": ["ada"] * 3, "data": [b"1", b"2", b"3"]}), batch=batch)


def through_a_pipeline(hub: sync.Hub, batch: Batch | str) -> None:
    with hub.producer.pipeline() as pipeline:
        futures = [pipeline.send(letter, batch=batch) for letter in letters(3)]
    for future in futures:
        future.result(SECONDS)


def by_a_producer(hub: sync.Hub, batch: Batch | str) -> None:
    with restante.ProducerClient(hub) as producer:
        producer.send_messages(letters(3), batch=batch)


def under_numbers(hub: sync.Hub, batch: Batch | str) -> None:
    with restante.ProducerClient(hub, enable_idempotent_partitions=True) as producer:
        producer.send_messages(letters(3), partition=hub.partition_of("ada"), batch=batch)


def over_frames(hub: sync.Hub, batch: Batch | str) -> None:
    with restante.ProducerClient(hub, enable_idempotent_partitions=True, pipelined=True) as producer:
        producer.send_messages(letters(3), partition=hub.partition_of("ada"), batch=batch)


def in_a_parcel(hub: sync.Hub, batch: Batch | str) -> None:
    with restante.ProducerClient(hub, enable_idempotent_partitions=True) as producer:
        parcel = producer.create_parcel(hub.partition_of("ada"), batch=batch)
        assert all(map(parcel.try_add, letters(3)))
        producer.send_parcel(parcel)


WAYS = [plainly, to_a_partition, as_columns, through_a_pipeline, by_a_producer, under_numbers, over_frames, in_a_parcel]
Way = Callable[[sync.Hub, Batch | str], None]


@pytest.mark.parametrize("way", WAYS)
def test_what_is_sent_into_a_batch_is_complete_when_it_is_collected(either: sync.Hub, way: Way) -> None:
    with either.batches.open() as batch:
        way(either, batch)
    status = batch.status()
    assert (status.items, status.pending, status.collected) == (3, 3, 0)
    (progress,) = batch.progress(waiting=True)
    assert (progress.recipient, progress.waiting) == ("ada", 3)
    for bundle in either.recipient("ada").bundles(idle=0):
        bundle.dequeue()
    assert batch.completed(timeout=SECONDS).collected == 3
    assert list(batch.progress(waiting=True)) == []


@pytest.mark.parametrize("way", WAYS)
def test_a_batch_may_be_named_by_its_id(either: sync.Hub, way: Way) -> None:
    batch = either.batches.open()
    way(either, batch.id)
    assert batch.status().items == 3


@pytest.mark.parametrize("way", WAYS)
def test_nothing_is_stored_that_its_batch_does_not_take(either: sync.Hub, way: Way) -> None:
    with pytest.raises(errors.BatchUnknown):
        way(either, UNKNOWN)
    with either.batches.open() as batch:
        pass
    with pytest.raises(errors.BatchSealed):
        way(either, batch)
    assert either.recipient("ada").peek() is None


@pytest.mark.parametrize("wrong", [5, "", "x y", b"bytes"])
@pytest.mark.parametrize("way", WAYS)
def test_what_is_no_batch_is_refused(hub: sync.Hub, way: Way, wrong: str) -> None:
    with pytest.raises(errors.InvalidRequest, match="named by its id"):
        way(hub, wrong)
    assert hub.recipient("ada").peek() is None


def test_a_pipeline_keeps_batches_apart_and_the_order(either: sync.Hub) -> None:
    first, second = either.batches.open(), either.batches.open()
    with either.producer.pipeline() as pipeline:
        for number, letter in enumerate(letters(300)):
            pipeline.send(letter, batch=(None, first, second)[number % 3])
    assert (first.status().items, second.status().items) == (100, 100)
    got: list[object] = []
    for bundle in either.recipient("ada").bundles(idle=0):
        got += [message.data for message in bundle.messages]
        bundle.dequeue()
    assert got == list(range(300))


def test_a_dumped_parcel_keeps_its_batch(either: sync.Hub) -> None:
    batch = either.batches.open()
    parcel = restante.Parcel(either.partition_of("ada"), batch=batch)
    assert all(map(parcel.try_add, letters(2)))
    loaded = restante.Parcel.load(parcel.dump())
    assert loaded.batch == batch.id
    with restante.ProducerClient(either, enable_idempotent_partitions=True) as producer:
        producer.send_parcel(loaded)
    assert batch.status().items == 2


def test_the_same_messages_under_another_batch_are_another_parcel(behind: sync.Hub, proxy: CuttingProxy) -> None:
    first, second = behind.batches.open(), behind.batches.open()
    partition = behind.partition_of("ada")
    given = letters(2)
    with restante.ProducerClient(behind, enable_idempotent_partitions=True, retry_total=0) as producer:
        producer.send_messages(letters(1), partition=partition)
        proxy.cut_after()
        with pytest.raises(errors.OutcomeUnknown):
            producer.send_messages(given, partition=partition, batch=first)
        with pytest.raises(errors.InvalidOperation, match="published already"):
            producer.send_messages(given, partition=partition, batch=second)
        assert producer.send_messages(given, partition=partition, batch=first).accepted == 2
    assert (first.status().items, second.status().items) == (2, 0)


def test_a_lost_answer_is_made_good_in_the_batch_too(behind: sync.Hub, proxy: CuttingProxy) -> None:
    batch = behind.batches.open()
    partition = behind.partition_of("ada")
    with restante.ProducerClient(behind, enable_idempotent_partitions=True, retry_backoff_factor=0.001) as producer:
        producer.send_messages(letters(1), partition=partition)
        proxy.cut_after()
        assert producer.send_messages(letters(2), partition=partition, batch=batch).replayed
    status = batch.status()
    assert (status.items, status.duplicates) == (2, 0)


@pytest.mark.parametrize("numbered", [True, False])
def test_a_buffered_producer_sends_into_its_batch(either: sync.Hub, numbered: bool) -> None:
    batch = either.batches.open()
    with restante.BufferedProducer(either, batch=batch, enable_idempotent_partitions=numbered) as producer:
        for letter in letters(50):
            producer.enqueue(letter)
    assert batch.status().items == 50
    with pytest.raises(errors.InvalidRequest, match="named by its id"):
        restante.BufferedProducer(either, batch=5)  # type: ignore[arg-type]


def test_asynchronous_programs_send_into_batches_too(running: ServedHub) -> None:
    async def story() -> None:
        async with asyncio.timeout(SECONDS), restante.aio.connect(running.url, retries=QUICK) as hub:
            batch = await hub.batches.open()
            partition = await hub.partition_of("ada")
            await hub.producer.send(letters(1), batch=batch)
            async with hub.producer.pipeline() as pipeline:
                pipeline.send(letters(2), batch=batch.id)
            async with restante.aio.ProducerClient(hub, enable_idempotent_partitions=True, pipelined=True) as producer:
                await producer.send_messages(letters(4), partition=partition, batch=batch)
                parcel = producer.create_parcel(partition, batch=batch)
                assert all(map(parcel.try_add, letters(8)))
                await producer.send_parcel(parcel)
            async with restante.aio.ProducerClient(hub) as plain:
                await plain.send_messages(letters(16), batch=batch)
            async with restante.aio.BufferedProducer(hub, batch=batch) as buffered:
                await buffered.enqueue(letters(32))
            assert (await batch.status()).items == 63

    asyncio.run(story())
