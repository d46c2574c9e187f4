"""Producer clients with real hubs: for programs that wait and asynchronous ones, in process and over the wire."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import pyarrow as pa
import pytest

import restante
import restante.aio
from restante import Parcel, PartitionPublishingConfiguration, ProducerClient, errors
from restante.calls.producers import ListProducers, OpenLink, ReadProducer
from restante.calls.publishing import Publish
from restante.client.surface import sync
from restante.limits import FEW_MESSAGES_MAX
from restante.model.mailboxes.answers import Receipt
from restante.model.producers.producer import ProducerNumbers
from restante.model.publishing.message import Message
from restante.server.serve import ServedHub
from tests.client.conftest import SETTINGS
from tests.client.proxy import CuttingProxy

T = TypeVar("T")

QUICK: dict[str, Any] = {"retry_backoff_factor": 0.001, "retry_backoff_max": 0.01}
ONCE: dict[str, Any] = {"retry_total": 0}
NUMBERED: dict[str, Any] = {"enable_idempotent_partitions": True}
PATIENCE = 30.0
WAYS = ["waiting", "waiting-pipelined", "awaiting", "awaiting-pipelined"]


class Awaited:
    """An asynchronous producer as one that waits: each call is led by an event loop that stays."""

    def __init__(self, hub: Any, **options: Any) -> None:
        self._runner = asyncio.Runner()
        self._own: Any = self._runner.run(self._made(hub, options))

    async def _made(self, hub: Any, options: dict[str, Any]) -> restante.aio.ProducerClient:
        return restante.aio.ProducerClient(hub, **options)

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._own, name)
        if not asyncio.iscoroutinefunction(found):
            return found

        def called(*args: Any, **kwargs: Any) -> Any:
            async def led() -> Any:
                return await found(*args, **kwargs)

            return self._runner.run(led())

        return called

    def __enter__(self) -> Awaited:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
        self._runner.close()


def over(way: str, url: str, **options: Any) -> Any:
    """A producer over the wire."""
    kind: Any = ProducerClient if way.startswith("waiting") else Awaited
    return kind(url, pipelined=way.endswith("pipelined"), **{**NUMBERED, **QUICK, **options})


@pytest.fixture(params=WAYS)
def way(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def partition(hub: sync.Hub) -> int:
    return hub.partition_of("ada")


def letters(*data: object) -> list[Message]:
    return [Message(recipient="ada", data=value) for value in data]


def stored(hub: sync.Hub) -> list[object]:
    return [message.data for message in hub.recipient("ada").history(limit=1_000).messages]


def filled(producer: Any, partition: int, *data: object) -> Parcel:
    parcel: Parcel = producer.create_parcel(partition)
    for message in letters(*data):
        assert parcel.try_add(message)
    return parcel


def test_messages_are_numbered_one_after_another(way: str, running: ServedHub, hub: sync.Hub, partition: int) -> None:
    with over(way, running.url) as producer:
        one, parcel, more = letters(0)[0], filled(producer, partition, 1, 2), letters(3, 4, 5)
        assert producer.send_messages(one, partition=partition).accepted == 1
        assert producer.send_parcel(parcel).accepted == 2
        assert producer.send_messages(more, partition=partition).accepted == 3
        assert stored(hub) == [0, 1, 2, 3, 4, 5]
        numbered = [one, *parcel.messages, *more]
        assert [message.published_sequence_number for message in numbered] == [0, 1, 2, 3, 4, 5]
        assert (parcel.published, parcel.locked, parcel.starting_published_sequence_number) == (True, True, 1)


def test_what_is_published_once_is_not_published_again(
    way: str, running: ServedHub, hub: sync.Hub, partition: int
) -> None:
    with over(way, running.url) as producer:
        parcel = filled(producer, partition, 1)
        producer.send_parcel(parcel)
        with pytest.raises(errors.InvalidOperation):
            producer.send_parcel(parcel)
        with pytest.raises(errors.InvalidOperation):
            producer.send_messages([*letters(2), *parcel.messages], partition=partition)
        with pytest.raises(errors.InvalidOperation):
            parcel.try_add(letters(3)[0])
        assert stored(hub) == [1]


def test_a_partition_is_needed(way: str, running: ServedHub) -> None:
    with over(way, running.url) as producer:
        with pytest.raises(errors.InvalidOperation, match="needs a partition"):
            producer.create_parcel()
        with pytest.raises(errors.InvalidOperation, match="needs a partition"):
            producer.send_messages(letters(1))
        with pytest.raises(errors.InvalidOperation, match="needs a partition"):
            producer.send_parcel(Parcel())
        with pytest.raises(errors.PartitionUnknown):
            producer.send_messages(letters(1), partition=99)


def test_empty_sends_do_nothing(way: str, running: ServedHub, partition: int) -> None:
    with over(way, running.url) as producer:
        assert producer.send_messages([], partition=partition).accepted == 0
        assert producer.send_parcel(producer.create_parcel(partition)).accepted == 0
        assert producer.send_messages(pa.table({"recipient": pa.array([], pa.string())}), partition=partition) == (
            Receipt(accepted=0, duplicates=0, partitions=())
        )
        assert producer.state() == {}


def test_a_refused_parcel_may_be_mended_and_sent(way: str, running: ServedHub, hub: sync.Hub, partition: int) -> None:
    elsewhere = next(name for name in map(str, range(99)) if hub.partition_of(name) != partition)
    with over(way, running.url) as producer:
        with pytest.raises(errors.PartitionMismatch):
            producer.send_messages([Message(recipient=elsewhere, data=0)], partition=partition)
        parcel = filled(producer, partition, 1)
        assert parcel.try_add(Message(recipient=elsewhere, data=2))
        with pytest.raises(errors.PartitionMismatch):
            producer.send_parcel(parcel)
        assert not parcel.locked
        producer.send_messages(letters(3), partition=partition)
        assert producer.state()[partition].starting_sequence_number == 0
        assert stored(hub) == [3]


def test_properties_say_how_the_producer_stands(way: str, running: ServedHub, hub: sync.Hub, partition: int) -> None:
    configuration = {partition: PartitionPublishingConfiguration(5, 2)}
    with over(way, running.url, partition_config=configuration) as producer:
        shown = producer.get_partition_publishing_properties(partition)
        assert (shown.partition, shown.is_idempotent_publishing_enabled) == (partition, True)
        assert (shown.producer_group_id, shown.owner_level, shown.last_published_sequence_number) == (5, 2, None)
        producer.send_messages(letters(1, 2), partition=partition)
        assert producer.get_partition_publishing_properties(partition).last_published_sequence_number == 1
        known = hub.link.call(ReadProducer(partition, 5))
        assert (known.owner_level, known.last_published_sequence_number) == (2, 1)
        assert hub.link.call(ListProducers(partition)).producers == (known,)
    with over(way, running.url, enable_idempotent_partitions=False) as plain:
        shown = plain.get_partition_publishing_properties(partition)
        assert (shown.is_idempotent_publishing_enabled, shown.producer_group_id) == (False, None)


def test_a_later_producer_goes_on_with_the_state_of_an_earlier_one(
    way: str, running: ServedHub, hub: sync.Hub, partition: int
) -> None:
    with over(way, running.url) as producer:
        producer.send_messages(letters(1, 2), partition=partition)
        state = producer.state()
    with over(way, running.url, partition_config=state) as producer:
        last = letters(3)
        producer.send_messages(last, partition=partition)
        assert last[0].published_sequence_number == 2
    with over(way, running.url, partition_config=state) as producer, pytest.raises(errors.LinkRefused) as raised:
        producer.send_messages(letters(4), partition=partition)
    assert raised.value.details["expected"] == 2
    assert stored(hub) == [1, 2, 3]


def test_a_higher_owner_level_fences_the_lower(way: str, running: ServedHub, hub: sync.Hub, partition: int) -> None:
    old = {partition: PartitionPublishingConfiguration(5, 1)}
    new = {partition: PartitionPublishingConfiguration(5, 2)}
    with over(way, running.url, partition_config=old) as zombie, over(way, running.url, partition_config=new) as heir:
        zombie.send_messages(letters("old"), partition=partition)
        heir.send_messages(letters("new"), partition=partition)
        for _ in range(2):
            with pytest.raises(errors.ProducerDisconnected) as raised:
                zombie.send_messages(letters("late"), partition=partition)
            assert raised.value.details == {"received": 1, "current": 2}
        heir.send_messages(letters("newer"), partition=partition)
    assert stored(hub) == ["old", "new", "newer"]
    assert hub.link.call(ReadProducer(partition, 5)).fenced_attempts == 1


@pytest.mark.parametrize("cut", ["before", "after"])
def test_a_cut_connection_is_tried_again_under_the_same_numbers(
    way: str, cut: str, running: ServedHub, hub: sync.Hub, proxy: CuttingProxy, partition: int
) -> None:
    with over(way, proxy.url) as producer:
        producer.send_messages(letters(1), partition=partition)
        getattr(proxy, f"cut_{cut}")()
        messages = letters(2, 3)
        receipt = producer.send_messages(messages, partition=partition)
        assert proxy.cuts == 1
        assert (receipt.accepted, receipt.replayed) == (2, cut == "after")
        assert [message.published_sequence_number for message in messages] == [1, 2]
        assert stored(hub) == [1, 2, 3]


@pytest.mark.parametrize("cut", ["before", "after"])
def test_the_same_parcel_again_is_stored_once(
    way: str, cut: str, running: ServedHub, hub: sync.Hub, proxy: CuttingProxy, partition: int
) -> None:
    with over(way, proxy.url, **ONCE) as producer:
        producer.send_messages(letters(1), partition=partition)
        parcel = filled(producer, partition, 2, 3)
        getattr(proxy, f"cut_{cut}")()
        with pytest.raises(errors.OutcomeUnknown) as raised:
            producer.send_parcel(parcel)
        assert raised.value.parcel is parcel
        assert (parcel.locked, parcel.published) == (True, False)
        assert producer.send_parcel(parcel).replayed == (cut == "after")
        assert stored(hub) == [1, 2, 3]


@pytest.mark.parametrize("cut", ["before", "after"])
@pytest.mark.parametrize("count", [1, 100])
def test_the_same_parcel_after_a_restart_is_stored_once(
    way: str, cut: str, count: int, running: ServedHub, hub: sync.Hub, proxy: CuttingProxy, partition: int
) -> None:
    with over(way, proxy.url, **ONCE) as producer:
        producer.send_messages(letters(-1), partition=partition)
        state = producer.state()
        parcel = filled(producer, partition, *range(count))
        getattr(proxy, f"cut_{cut}")()
        with pytest.raises(errors.OutcomeUnknown):
            producer.send_parcel(parcel)
        kept = parcel.dump()
    with over(way, running.url, partition_config=state) as producer:
        assert producer.send_parcel(Parcel.load(kept)).replayed == (cut == "after")
        after = letters(count)
        producer.send_messages(after, partition=partition)
        assert after[0].published_sequence_number == count + 1
    assert stored(hub) == list(range(-1, count + 1))


def test_what_is_done_again_after_a_crash_is_stored_once_by_the_state_that_was_saved(
    way: str, running: ServedHub, hub: sync.Hub, partition: int
) -> None:
    with over(way, running.url) as producer:
        producer.send_messages(letters(1), partition=partition)
        saved = producer.state()
        producer.send_messages(letters(2, 3), partition=partition)
    with over(way, running.url, partition_config=saved) as producer:
        assert producer.send_messages(letters(2, 3), partition=partition).replayed
        assert not producer.send_messages(letters(4), partition=partition).replayed
    assert stored(hub) == [1, 2, 3, 4]


def test_after_an_older_state_something_else_is_refused(
    way: str, running: ServedHub, hub: sync.Hub, partition: int
) -> None:
    with over(way, running.url) as producer:
        producer.send_messages(letters(1), partition=partition)
        saved = producer.state()
        producer.send_messages(letters(2), partition=partition)
    with over(way, running.url, partition_config=saved) as producer:
        with pytest.raises(errors.LinkRefused) as raised:
            producer.send_messages(letters("other"), partition=partition)
        assert raised.value.details == {"expected": 1}
    assert stored(hub) == [1, 2]


@pytest.mark.parametrize("cut", ["before", "after"])
def test_without_numbers_too_the_same_parcel_again_is_stored_once(
    way: str, cut: str, running: ServedHub, hub: sync.Hub, proxy: CuttingProxy, partition: int
) -> None:
    with over(way, proxy.url, **ONCE, enable_idempotent_partitions=False) as producer:
        message = letters("twice")[0]
        producer.send_messages(message)
        getattr(proxy, f"cut_{cut}")()
        with pytest.raises(errors.OutcomeUnknown) as raised:
            producer.send_messages([message, *letters("once")])
        assert message.id is None
        producer.send_parcel(raised.value.parcel)
    assert stored(hub) == ["twice", "twice", "once"]


@pytest.mark.parametrize("cut", ["before", "after"])
def test_other_messages_after_an_unknown_outcome_are_stored_and_the_first_ones_once(
    way: str, cut: str, running: ServedHub, hub: sync.Hub, proxy: CuttingProxy, partition: int
) -> None:
    with over(way, proxy.url, **ONCE) as producer:
        producer.send_messages(letters(1), partition=partition)
        lost = letters("lost")
        getattr(proxy, f"cut_{cut}")()
        with pytest.raises(errors.OutcomeUnknown):
            producer.send_messages(lost, partition=partition)
        other = letters("other")
        assert producer.send_messages(other, partition=partition).accepted == 1
        assert not producer.send_messages(letters("third"), partition=partition).replayed
        assert producer.send_messages(lost, partition=partition).accepted == 1
    before, after = [1, "other", "third", "lost"], [1, "lost", "other", "third"]
    assert stored(hub) == (before if cut == "before" else after)


def test_a_table_is_sent_as_columns_and_keeps_its_ids(
    way: str, running: ServedHub, hub: sync.Hub, proxy: CuttingProxy, partition: int
) -> None:
    table = pa.table({"recipient": ["ada"] * 400, "data": [str(number).encode() for number in range(400)]})
    with over(way, proxy.url, **ONCE) as producer:
        producer.send_messages(letters(-1), partition=partition)
        proxy.cut_after()
        with pytest.raises(errors.OutcomeUnknown) as raised:
            producer.send_messages(table, partition=partition)
        parcel: Parcel = raised.value.parcel
        assert isinstance(parcel.content, pa.Table)
        receipt = producer.send_messages(table, partition=partition)
        assert (receipt.replayed, receipt.accepted) == (True, 400)
        assert producer.state()[partition].starting_sequence_number == 400
        assert parcel.messages[399].published_sequence_number == 400
        reader = pa.RecordBatchReader.from_batches(table.schema, table.to_batches())
        assert producer.send_messages(reader, partition=partition).accepted == 400
    assert stored(hub) == [-1, *[str(number).encode() for number in range(400)] * 2]


def test_without_numbers_parcels_and_messages_are_just_stored(
    way: str, running: ServedHub, hub: sync.Hub, partition: int
) -> None:
    with over(way, running.url, enable_idempotent_partitions=False) as producer:
        one = letters(1)[0]
        producer.send_messages(one, partition=partition)
        producer.send_messages([one])
        parcel = filled(producer, partition, 2)
        assert producer.send_parcel(parcel).accepted == 1
        anywhere = producer.create_parcel()
        assert anywhere.try_add(letters(3)[0])
        producer.send_parcel(anywhere)
        assert (parcel.published, parcel.starting_published_sequence_number) == (True, None)
        assert one.published_sequence_number is None
        assert producer.send_messages([]).accepted == 0
    assert stored(hub) == [1, 1, 2, 3]
    assert hub.link.call(ListProducers(partition)).producers == ()


def test_a_closed_producer_sends_nothing(way: str, running: ServedHub, hub: sync.Hub, partition: int) -> None:
    with over(way, running.url) as producer:
        parcel = filled(producer, partition, 1)
        producer.close()
        calls: list[Callable[[], object]] = [
            lambda: producer.send_parcel(parcel),
            lambda: producer.send_messages(letters(1), partition=partition),
            lambda: producer.create_parcel(partition),
            lambda: producer.get_partition_publishing_properties(partition),
        ]
        for call in calls:
            with pytest.raises(errors.InvalidOperation, match="closed"):
                call()
        assert not parcel.locked
    assert stored(hub) == []


def test_a_hub_that_was_given_stays_open(running: ServedHub, hub: sync.Hub, partition: int) -> None:
    with ProducerClient(hub, **NUMBERED) as producer:
        producer.send_messages(letters(1), partition=partition)
        assert producer.partition_count() == SETTINGS.partition_count
    assert stored(hub) == [1]


@pytest.mark.parametrize(
    ("options", "wrong"),
    [
        ({"partition_config": {0: PartitionPublishingConfiguration()}}, "enable_idempotent_partitions=True"),
        ({**NUMBERED, "partition_config": [1]}, "maps partitions"),
        ({**NUMBERED, "partition_config": {"first": PartitionPublishingConfiguration()}}, "A partition is a number"),
        ({**NUMBERED, "partition_config": {0: 1}}, "must be a PartitionPublishingConfiguration"),
        ({"enable_idempotent_partitions": 1}, "true or false"),
        ({"retry_total": -1}, "retries"),
        ({"retry_backoff_factor": -1}, "first_pause"),
    ],
)
def test_wrong_options_are_refused_at_once(options: dict[str, Any], wrong: str) -> None:
    for kind in (ProducerClient, restante.aio.ProducerClient):
        with pytest.raises(errors.InvalidRequest, match=wrong):
            kind("http://127.0.0.1:1", **options)


@pytest.mark.parametrize(
    "wrong",
    [
        {"producer_group_id": -1},
        {"producer_group_id": 2**63},
        {"owner_level": 2**15},
        {"starting_sequence_number": 2**31},
        {"starting_sequence_number": True},
        {"owner_level": "1"},
    ],
)
def test_wrong_ranges_are_refused_at_once(wrong: dict[str, Any]) -> None:
    with pytest.raises(errors.InvalidRequest, match="must be a whole number from 0 to"):
        PartitionPublishingConfiguration(**wrong)


def test_what_is_no_hub_and_no_parcel_is_refused(hub: sync.Hub, partition: int) -> None:
    with pytest.raises(errors.InvalidRequest, match="Give a hub"):
        ProducerClient(7)  # type: ignore[arg-type]
    with pytest.raises(errors.InvalidRequest, match="A token belongs to an address"):
        ProducerClient(hub, token="secret")
    with ProducerClient(hub, **NUMBERED) as producer, pytest.raises(errors.InvalidRequest, match="takes a Parcel"):
        producer.send_parcel(letters(1))  # type: ignore[arg-type]


# In process.


@pytest.fixture
def own(tmp_path: Path) -> Iterator[sync.Hub]:
    with restante.open(tmp_path / "own", settings=SETTINGS) as opened:
        yield opened


def led(folder: Path, use: Callable[[Any], Awaitable[T]]) -> T:
    """With an asynchronous hub in process."""

    async def main() -> T:
        async with restante.aio.open(folder, settings=SETTINGS) as hub:
            return await use(hub)

    return asyncio.run(main())


@pytest.mark.parametrize("count", [1, 3, 200])
def test_in_process_it_is_the_same(own: sync.Hub, count: int) -> None:
    partition = own.partition_of("ada")
    with ProducerClient(own, **NUMBERED, pipelined=True) as producer:
        parcel = filled(producer, partition, *range(count))
        assert producer.send_parcel(parcel).accepted == count
        table = pa.table({"recipient": ["ada"] * count})
        with pytest.raises(errors.InvalidMessage):
            producer.send_messages(table, partition=partition)
        with pytest.raises(errors.InvalidOperation):
            producer.send_parcel(parcel)
        again = Parcel.load(_as_unknown(parcel))
        assert producer.send_parcel(again).replayed
    assert stored(own) == list(range(count))


def _as_unknown(parcel: Parcel) -> bytes:
    """The same parcel as it is kept by somebody who has heard no answer."""
    copied = Parcel.of([_unnumbered(message) for message in parcel.messages], parcel.partition)
    numbers = parcel.numbers
    assert numbers is not None
    copied.give_numbers(numbers)
    return copied.dump()


def _unnumbered(message: Message) -> Message:
    return Message(recipient=message.recipient, data=message.data, id=message.id)


def test_in_process_and_asynchronous_it_is_the_same(tmp_path: Path) -> None:
    async def use(hub: Any) -> list[object]:
        partition = await hub.partition_of("ada")
        async with restante.aio.ProducerClient(hub, **NUMBERED) as producer:
            await producer.send_messages(letters(1), partition=partition)
            parcel = filled(producer, partition, *range(2, 200))
            await producer.send_parcel(parcel)
            assert (await producer.send_parcel(Parcel.load(_as_unknown(parcel)))).replayed
            assert producer.state()[partition].starting_sequence_number == 198
        return [message.data for message in (await hub.recipient("ada").history(limit=1_000)).messages]

    assert led(tmp_path / "own", use) == list(range(1, 200))


def test_a_cancelled_send_is_found_and_what_follows_is_never_swallowed(tmp_path: Path) -> None:
    async def use(hub: Any) -> list[object]:
        partition = await hub.partition_of("ada")
        async with restante.aio.ProducerClient(hub, **NUMBERED) as producer:
            await producer.get_partition_publishing_properties(partition)
            for number in range(30):
                parcel = filled(producer, partition, number)
                task = asyncio.create_task(producer.send_parcel(parcel))
                for _ in range(number % 6):
                    await asyncio.sleep(0)
                task.cancel()
                await asyncio.wait([task])
                await producer.send_messages(letters(f"after {number}"), partition=partition)
                if not parcel.published or parcel.locked:
                    await _again(producer, parcel)
        return [message.data for message in (await hub.recipient("ada").history(limit=1_000)).messages]

    found = led(tmp_path / "own", use)
    assert sorted(map(str, found)) == sorted([*map(str, range(30)), *(f"after {number}" for number in range(30))])


async def _again(producer: Any, parcel: Parcel) -> None:
    try:
        await producer.send_parcel(parcel)
    except errors.InvalidOperation:
        assert parcel.published


# Turns.


def test_sends_to_a_partition_are_stored_in_call_order_and_one_at_a_time(
    running: ServedHub, hub: sync.Hub, partition: int
) -> None:
    async def main() -> None:
        async with restante.aio.ProducerClient(running.url, **NUMBERED) as producer:
            sends = [producer.send_messages(letters(number), partition=partition) for number in range(50)]
            await asyncio.gather(*sends)
            assert producer.state()[partition].starting_sequence_number == 49

    asyncio.run(main())
    assert stored(hub) == list(range(50))


@pytest.mark.parametrize("cancelled", [1, 2, 4])
def test_a_cancelled_waiter_lets_nobody_in_and_blocks_nobody(
    running: ServedHub, hub: sync.Hub, partition: int, cancelled: int
) -> None:
    async def main() -> None:
        async with restante.aio.ProducerClient(running.url, **NUMBERED) as producer:
            parcels = [filled(producer, partition, number) for number in range(5)]
            tasks = [asyncio.create_task(producer.send_parcel(parcel)) for parcel in parcels]
            await asyncio.sleep(0)
            assert all(parcel.locked for parcel in parcels)
            tasks[cancelled].cancel()
            outcomes = await asyncio.gather(*tasks, return_exceptions=True)
            assert isinstance(outcomes[cancelled], asyncio.CancelledError)
            assert (parcels[cancelled].locked, parcels[cancelled].numbers) == (False, None)
            assert [parcel.published for parcel in parcels].count(True) == 4

    asyncio.run(main())
    assert stored(hub) == [number for number in range(5) if number != cancelled]


def test_cancelling_the_one_whose_turn_has_just_come_passes_it_on(
    running: ServedHub, hub: sync.Hub, partition: int
) -> None:
    """The turn is handed over in one step of the event loop and taken in another; it is cancelled in between."""

    async def main() -> None:
        async with restante.aio.ProducerClient(running.url, **NUMBERED) as producer:
            # Many messages are encoded in a thread, so the others stand in line meanwhile.
            sends = (letters(*["first"] * (FEW_MESSAGES_MAX + 1)), letters("cancelled"), letters("last"))
            tasks = [asyncio.create_task(producer.send_messages(sent, partition=partition)) for sent in sends]
            async with asyncio.timeout(PATIENCE):
                while not tasks[0].done():  # noqa: ASYNC110 - looks in every turn of the event loop, so before the one woken in it
                    await asyncio.sleep(0)
                assert tasks[1].cancel()
                outcomes = await asyncio.gather(*tasks, return_exceptions=True)
            assert isinstance(outcomes[1], asyncio.CancelledError)
            assert isinstance(outcomes[2], Receipt)

    asyncio.run(main())
    assert stored(hub) == ["first"] * (FEW_MESSAGES_MAX + 1) + ["last"]


def test_threads_share_a_producer_and_each_keeps_its_own_order(
    running: ServedHub, hub: sync.Hub, partition: int
) -> None:
    with ProducerClient(running.url, **NUMBERED, pipelined=True) as producer:

        def work(name: str) -> None:
            for number in range(20):
                producer.send_messages(letters(f"{name}{number}"), partition=partition)

        threads = [threading.Thread(target=work, args=(name,)) for name in "abc"]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(PATIENCE)
        assert producer.state()[partition].starting_sequence_number == 59
    found = [str(data) for data in stored(hub)]
    for name in "abc":
        assert [data for data in found if data.startswith(name)] == [f"{name}{number}" for number in range(20)]


# Why the numbers of an unknown outcome are not simply used again.


class Forgetful:
    """A producer by the simple rule: after a failure, whatever it was, its numbers are free for the next messages."""

    def __init__(self, hub: sync.Hub, partition: int) -> None:
        self._link, self._partition, self._next = hub.link, partition, 0
        self._link.call(OpenLink(partition, producer_group=1, owner_level=0))

    def send(self, message: Message) -> Receipt:
        numbers = ProducerNumbers(group=1, owner_level=0, published_sequence=self._next)
        receipt = self._link.call(Publish.of([message], partition=self._partition, producer=numbers))
        self._next += 1
        return receipt


@pytest.mark.parametrize("careful", [False, True])
def test_to_use_the_numbers_of_an_unknown_outcome_again_would_lose_what_follows(
    running: ServedHub, hub: sync.Hub, proxy: CuttingProxy, partition: int, careful: bool
) -> None:
    """The forgetful producer is stuck for good: were it not for the hub's digest, its second message were swallowed."""
    with restante.connect(proxy.url, retries=0) as behind:
        if careful:
            own = ProducerClient(behind, **NUMBERED, **ONCE)

            def send(message: Message) -> Receipt:
                return own.send_messages(message, partition=partition)
        else:
            send = Forgetful(behind, partition).send

        send(letters("first")[0])
        proxy.cut_after()
        with pytest.raises(errors.OutcomeUnknown):
            send(letters("second")[0])
        refused = 0
        for data in ("third", "fourth"):
            try:
                send(letters(data)[0])
            except errors.InvalidClientState:
                refused += 1
    assert refused == (0 if careful else 2)
    assert stored(hub) == (["first", "second", "third", "fourth"] if careful else ["first", "second"])
