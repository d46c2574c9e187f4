"""What a producer says to mistakes: at once, what is wrong, and what to do."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import restante
import restante.aio
from restante import Message, ProducerClient, errors, limits
from restante.calls.producers import OpenLink
from restante.client.surface import sync
from restante.settings import Settings
from restante.stores.memory import MemoryStore

NUMBERED: dict[str, Any] = {"enable_idempotent_partitions": True}


@pytest.fixture
def hub() -> Iterator[sync.Hub]:
    with restante.open(None, settings=Settings(partition_count=1), store=MemoryStore()) as opened:
        yield opened


def test_a_hub_of_the_other_surface_is_told_apart_from_what_is_no_hub(hub: sync.Hub) -> None:
    other: Any = restante.aio.connect("http://127.0.0.1:9")
    with pytest.raises(errors.InvalidRequest, match=r"restante\.aio\.ProducerClient"):
        ProducerClient(other)
    with pytest.raises(errors.InvalidRequest, match="not int"):
        ProducerClient(5)  # type: ignore[arg-type]

    async def make() -> None:
        own: Any = hub
        restante.aio.ProducerClient(own)

    with pytest.raises(errors.InvalidRequest, match=r"restante\.ProducerClient"):
        asyncio.run(make())


def test_a_message_that_can_never_be_stored_is_refused_when_it_is_added(hub: sync.Hub) -> None:
    with ProducerClient(hub, **NUMBERED) as producer:
        parcel = producer.create_parcel(0)
        for wrong in (
            Message(recipient=" ", data=1),
            Message(recipient="ada", data=b"x" * (limits.LARGE_DATA_BYTES_MAX + 1)),
        ):
            with pytest.raises(errors.InvalidMessage):
                parcel.try_add(wrong)
        assert parcel.try_add(Message(recipient="ada", data=b"x" * limits.DATA_BYTES_MAX))
        assert len(parcel) == 1
        assert producer.send_parcel(parcel).accepted == 1


@pytest.mark.parametrize("sent", ["text", b"bytes"])
def test_text_and_bytes_are_no_messages(hub: sync.Hub, sent: object) -> None:
    with (
        ProducerClient(hub, **NUMBERED) as producer,
        pytest.raises(errors.InvalidRequest, match="A message needs a recipient"),
    ):
        producer.send_messages(sent, partition=0)


def test_what_cannot_be_read_is_refused_by_the_asynchronous_client_too() -> None:
    async def send() -> None:
        async with (
            restante.aio.open(None, settings=Settings(partition_count=1), store=MemoryStore()) as hub,
            restante.aio.ProducerClient(hub, **NUMBERED) as producer,
        ):
            await producer.send_messages(object(), partition=0)

    with pytest.raises(errors.InvalidRequest):
        asyncio.run(send())


def test_a_hub_that_was_closed_is_not_waited_for(hub: sync.Hub) -> None:
    producer = ProducerClient(hub, **NUMBERED, retry_backoff_factor=600, retry_backoff_max=600, retry_seconds=6_000)
    producer.send_messages(Message(recipient="ada", data=1), partition=0)
    hub.close()
    with pytest.raises(errors.Unavailable) as raised:
        producer.send_messages(Message(recipient="ada", data=2), partition=0)
    assert not raised.value.retriable


def test_wrong_patience_is_told_by_the_names_of_the_arguments(hub: sync.Hub) -> None:
    with pytest.raises(errors.InvalidRequest, match="retry_total"):
        ProducerClient(hub, retry_total=-1)


def test_a_fenced_producer_does_not_show_its_old_state(hub: sync.Hub) -> None:
    with ProducerClient(hub, **NUMBERED) as producer:
        group = producer.get_partition_publishing_properties(0).producer_group_id
        assert group is not None
        hub.link.call(OpenLink(0, producer_group=group, owner_level=5))
        with pytest.raises(errors.ProducerDisconnected):
            producer.send_messages(Message(recipient="ada", data=1), partition=0)
        with pytest.raises(errors.ProducerDisconnected) as raised:
            producer.get_partition_publishing_properties(0)
        assert raised.value.details == {"received": 0, "current": 5}


async def nothing(*_: object) -> None:
    pass


@pytest.mark.parametrize("callback", ["print", nothing], ids=["text", "asynchronous"])
def test_what_cannot_be_called_is_no_callback(hub: sync.Hub, callback: Any) -> None:
    with pytest.raises(errors.InvalidRequest):
        restante.BufferedProducer(hub, on_success=callback)


def test_a_file_is_no_data_folder(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(errors.InvalidRequest, match="is a file"):
        restante.open(tmp_path / "file")
