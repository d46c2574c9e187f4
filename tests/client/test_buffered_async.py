"""Single messages through a buffered producer: in process and over the network, for asynchronous programs."""

from __future__ import annotations

import asyncio
import inspect
import random
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeAlias

import pytest

import restante
import restante.aio
from restante import errors
from restante.client.producers.configuration import PartitionPublishingConfiguration
from restante.client.publishing.buffered_async import BufferedProducer
from restante.client.surface import asynchronous, sync
from restante.model.publishing.message import Message
from restante.server.serve import ServedHub
from tests.client.conftest import SETTINGS
from tests.client.scripted import ScriptedServer, answer
from tests.client.tallying import (
    ADA,
    BOB,
    HERS,
    HIS,
    SECONDS,
    SOME_ID,
    AsyncHeldLink,
    BrokenLink,
    Tally,
    letter,
)
from tests.client.tallying import stored as in_the_hub

Program: TypeAlias = Callable[[asynchronous.Hub], Awaitable[None]]
Run: TypeAlias = Callable[[Program], None]


@pytest.fixture
def tally() -> Tally:
    return Tally()


@pytest.fixture(params=["here", "wire"])
def run(request: pytest.FixtureRequest, tmp_path: Path) -> Run:
    """Runs a program with a hub in this process, and with one over the network; nothing may be left of it."""
    url = request.getfixturevalue("running").url if request.param == "wire" else None

    def opened() -> Any:
        return restante.aio.open(tmp_path / "here", settings=SETTINGS) if url is None else restante.aio.connect(url)

    async def whole(program: Program) -> None:
        async with opened() as hub:
            await program(hub)
            check_nothing_is_left()

    return lambda program: asyncio.run(asyncio.wait_for(whole(program), SECONDS))


def check_nothing_is_left() -> None:
    tasks = [task.get_name() for task in asyncio.all_tasks()]
    assert [name for name in tasks if name.startswith("restante-buffered")] == []
    timers = [handle for handle in asyncio.get_running_loop()._scheduled if not handle.cancelled()]  # type: ignore[attr-defined]
    assert [handle for handle in timers if "BufferedProducer" in repr(handle)] == []


async def stored(hub: asynchronous.Hub, recipient: str = ADA) -> list[object]:
    got: list[object] = []
    async for bundle in hub.recipient(recipient).bundles(idle=0):
        got += [message.data for message in bundle.messages]
        await bundle.dequeue()
    return got


@asynccontextmanager
async def held(hub: asynchronous.Hub, **options: Any) -> AsyncIterator[tuple[BufferedProducer, AsyncHeldLink]]:
    """A producer whose publishes wait until the test lets them go."""
    link = AsyncHeldLink(hub.link)
    async with BufferedProducer(asynchronous.Hub(link), **options) as producer:
        try:
            yield producer, link
        finally:
            link.go.set()


def test_both_kinds_of_program_have_the_same_producer() -> None:
    def parameters(kind: type) -> dict[str, list[tuple[str, object, object]]]:
        own = [each for each in inspect.getmembers(kind, inspect.isfunction) if not each[0].startswith("_")]
        named = [*own, ("init", kind.__init__)]  # type: ignore[misc]
        return {
            name: [(each.name, each.kind, each.default) for each in inspect.signature(value).parameters.values()]
            for name, value in named
        }

    assert parameters(restante.BufferedProducer) == parameters(restante.aio.BufferedProducer)


@pytest.mark.parametrize("options", [{}, {"pipelined": True}, {"enable_idempotent_partitions": False}], ids=str)
def test_messages_are_stored_in_the_order_enqueued(run: Run, tally: Tally, options: dict[str, Any]) -> None:
    async def program(hub: asynchronous.Hub) -> None:
        async with BufferedProducer(hub, max_parcel_messages=7, **tally.callbacks, **options) as producer:
            for number in range(500):
                await producer.enqueue(letter(number, ADA if number % 3 else BOB))
        assert await stored(hub, ADA) == [number for number in range(500) if number % 3]
        assert await stored(hub, BOB) == [number for number in range(500) if not number % 3]
        assert sorted(tally.numbers) == [*range(500)]  # type: ignore[type-var]
        assert tally.failed == []

    run(program)


def test_large_parcels_are_stored_in_the_order_enqueued_too(run: Run, tally: Tally) -> None:
    async def program(hub: asynchronous.Hub) -> None:
        async with BufferedProducer(hub, max_wait_time=60, **tally.callbacks) as producer:
            await producer.enqueue([letter(number) for number in range(3_000)])
        assert tally.numbers == await stored(hub) == [*range(3_000)]
        assert len({message.id for message in tally.stored}) == 3_000

    run(program)


def test_a_message_goes_by_itself_after_its_waiting_time(run: Run) -> None:
    told: asyncio.Queue[object] = asyncio.Queue()

    async def on_success(messages: Sequence[Message], partition: int) -> None:
        await told.put([message.data for message in messages])

    async def program(hub: asynchronous.Hub) -> None:
        async with BufferedProducer(hub, max_wait_time=0.01, on_success=on_success) as producer:
            for number in range(3):
                await producer.enqueue(letter(number))
                assert await told.get() == [number]

    run(program)


def test_a_caller_in_a_hurry_does_not_starve_the_senders(run: Run, tally: Tally) -> None:
    async def program(hub: asynchronous.Hub) -> None:
        async with BufferedProducer(hub, max_wait_time=0, **tally.callbacks) as producer:
            count = 0
            while not tally.stored:
                await producer.enqueue(letter(count))
                count += 1

    run(program)


@pytest.mark.parametrize("room", [3, 10_000])
def test_concurrent_calls_keep_their_order_even_without_room(run: Run, room: int) -> None:
    async def program(hub: asynchronous.Hub) -> None:
        async with BufferedProducer(hub, max_buffer_length=room, max_wait_time=0) as producer:
            await producer.enqueue([])
            await asyncio.gather(*(producer.enqueue(letter(number)) for number in range(600)))
        assert await stored(hub) == [*range(600)]

    run(program)


def test_enqueue_waits_for_room_and_says_when_it_lasts_too_long(run: Run, tally: Tally) -> None:
    async def program(hub: asynchronous.Hub) -> None:
        async with held(hub, max_buffer_length=2, max_wait_time=0, **tally.callbacks) as (producer, link):
            await producer.enqueue([letter(1), letter(2)])
            with pytest.raises(errors.Overloaded, match="no room"):
                await producer.enqueue(letter(99), timeout=0.01)
            waiting = asyncio.create_task(producer.enqueue(letter(3)))
            await link.arrived.wait()
            assert not waiting.done()
            link.go.set()
            await waiting
        assert tally.numbers == await stored(hub) == [1, 2, 3]

    run(program)


def test_a_full_buffer_does_not_wait_for_more(run: Run) -> None:
    async def program(hub: asynchronous.Hub) -> None:
        async with BufferedProducer(hub, max_buffer_length=2, max_wait_time=3_600) as producer:
            for number in range(7):
                await producer.enqueue(letter(number, ADA if number % 2 else BOB))
        assert (await stored(hub), await stored(hub, BOB)) == ([1, 3, 5], [0, 2, 4, 6])

    run(program)


def test_a_cancelled_enqueue_takes_nothing_and_lets_the_next_in(run: Run, tally: Tally) -> None:
    async def program(hub: asynchronous.Hub) -> None:
        async with held(hub, max_buffer_length=1, max_wait_time=0, **tally.callbacks) as (producer, link):
            await producer.enqueue(letter(1))
            tasks = [asyncio.create_task(producer.enqueue(letter(number))) for number in (2, 3, 4)]
            await link.arrived.wait()
            tasks[0].cancel()
            tasks[1].cancel()
            link.go.set()
            outcomes = await asyncio.gather(*tasks, return_exceptions=True)
            assert [type(outcome) for outcome in outcomes] == [asyncio.CancelledError] * 2 + [type(None)]
        assert tally.numbers == await stored(hub) == [1, 4]

    run(program)


@pytest.mark.parametrize("seed", range(5))
def test_whenever_enqueues_are_cancelled_exactly_those_that_returned_were_taken(run: Run, seed: int) -> None:
    chance = random.Random(seed)

    async def program(hub: asynchronous.Hub) -> None:
        async with BufferedProducer(hub, max_buffer_length=3, max_parcel_messages=2, max_wait_time=0) as producer:
            tasks = [asyncio.create_task(producer.enqueue(letter(number))) for number in range(200)]
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            while not all(task.done() for task in tasks):
                chance.choice(tasks).cancel()
                for _ in range(chance.randrange(4)):
                    await asyncio.sleep(0)
        taken = [number for number, task in enumerate(tasks) if not task.cancelled()]
        assert 0 < len(taken) < 200
        assert await stored(hub) == taken

    run(program)


def test_flush_has_a_limit_and_goes_on_afterwards(run: Run) -> None:
    async def program(hub: asynchronous.Hub) -> None:
        async with held(hub) as (producer, link):
            await producer.enqueue([letter(1), letter(2, BOB)])
            assert (producer.buffered_count(), producer.buffered_count(HERS), producer.buffered_count(HIS)) == (2, 1, 1)
            with pytest.raises(errors.OutcomeUnknown, match="2 messages are still being sent"):
                await producer.flush(timeout=0.01)
            link.go.set()
            await producer.flush()
            assert producer.buffered_count() == 0
            assert await stored(hub) == [1]

    run(program)


def test_flush_does_not_wait_for_what_comes_later(run: Run, tally: Tally) -> None:
    async def program(hub: asynchronous.Hub) -> None:
        async with BufferedProducer(hub, max_wait_time=60, **tally.callbacks) as producer:
            await producer.enqueue(letter(1))
            flushing = asyncio.create_task(producer.flush())
            await asyncio.sleep(0)
            await producer.enqueue(letter(2))
            await flushing
            assert tally.numbers == [1]
            assert producer.buffered_count() == 1

    run(program)


def test_a_closed_producer_takes_nothing(run: Run, tally: Tally) -> None:
    async def program(hub: asynchronous.Hub) -> None:
        producer = BufferedProducer(hub, max_wait_time=60, **tally.callbacks)
        await producer.enqueue(letter(1))
        await producer.close()
        await producer.close(flush=False)
        assert tally.numbers == [1]
        with pytest.raises(errors.InvalidOperation, match="closed"):
            await producer.enqueue(letter(2))
        with pytest.raises(errors.InvalidOperation, match="closed"):
            await producer.flush()
        fresh = BufferedProducer(hub)
        await fresh.close()
        with pytest.raises(errors.InvalidOperation, match="closed"):
            await fresh.enqueue(letter(2))

    run(program)


def test_closing_without_a_flush_tells_what_was_not_sent(run: Run, tally: Tally) -> None:
    dropped = asyncio.Event()

    def on_error(messages: Sequence[Message], partition: int, error: errors.RestanteError) -> None:
        tally.on_error(messages, partition, error)
        dropped.set()

    async def program(hub: asynchronous.Hub) -> None:
        callbacks = {"on_success": tally.on_success, "on_error": on_error}
        async with held(hub, max_wait_time=60, max_parcel_messages=2, **callbacks) as (producer, link):
            await producer.enqueue([letter(1), letter(2), letter(3)])
            await link.arrived.wait()
            await producer.enqueue(letter(4, BOB))
            waiting = asyncio.create_task(producer.close(flush=False))
            await dropped.wait()
            assert not waiting.done()
            link.go.set()
            await waiting
        assert tally.errors == [([4], errors.Unavailable), ([3], errors.Unavailable)]
        assert tally.numbers == await stored(hub) == [1, 2]

    run(program)


def test_closing_wakes_who_waits_for_room(run: Run) -> None:
    async def program(hub: asynchronous.Hub) -> None:
        async with held(hub, max_buffer_length=1, max_wait_time=0) as (producer, link):
            await producer.enqueue(letter(1))
            waiting = asyncio.create_task(producer.enqueue(letter(2)))
            await link.arrived.wait()
            closing = asyncio.create_task(producer.close())
            with pytest.raises(errors.InvalidOperation, match="closed"):
                await waiting
            link.go.set()
            await closing
        assert await stored(hub) == [1]

    run(program)


def test_who_is_cancelled_while_closing_has_only_stopped_waiting(run: Run, tally: Tally) -> None:
    async def program(hub: asynchronous.Hub) -> None:
        async with held(hub, max_wait_time=60, **tally.callbacks) as (producer, link):
            await producer.enqueue(letter(1))
            closing = asyncio.create_task(producer.close())
            await link.arrived.wait()
            closing.cancel()
            with pytest.raises(asyncio.CancelledError):
                await closing
            link.go.set()
            await producer.close()
        assert tally.numbers == await stored(hub) == [1]

    run(program)


async def cancelled_inside(producer: BufferedProducer, inside: asyncio.Event) -> None:
    async with producer:
        await producer.enqueue(letter(1))
        inside.set()
        await asyncio.Event().wait()


def test_a_cancelled_program_drops_what_was_not_sent_and_tells_it(run: Run, tally: Tally) -> None:
    async def program(hub: asynchronous.Hub) -> None:
        inside = asyncio.Event()
        producer = BufferedProducer(hub, max_wait_time=60, **tally.callbacks)
        task = asyncio.create_task(cancelled_inside(producer, inside))
        await inside.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert tally.errors == [([1], errors.Unavailable)]
        assert await stored(hub) == []

    run(program)


def test_a_program_that_ends_without_closing_is_told_what_was_under_way(tmp_path: Path, tally: Tally) -> None:
    async def program() -> None:
        hub = await restante.aio.open(tmp_path / "here", settings=SETTINGS)
        link = AsyncHeldLink(hub.link)
        producer = BufferedProducer(asynchronous.Hub(link), max_wait_time=0, **tally.callbacks)
        await producer.enqueue(letter(1))
        await link.arrived.wait()

    asyncio.run(program())
    assert tally.errors == [([1], errors.OutcomeUnknown)]


# Callbacks.


def test_callbacks_may_be_asynchronous_and_may_enqueue_though_there_is_no_room(run: Run) -> None:
    left = [*range(20)]
    done = asyncio.Event()

    async def program(hub: asynchronous.Hub) -> None:
        async def follow(messages: Sequence[Message], partition: int) -> None:
            await asyncio.sleep(0)
            if left:
                await producer.enqueue([letter(left.pop(0)), letter(-1)])
            else:
                done.set()

        async with BufferedProducer(
            hub, on_success=follow, max_buffer_length=2, max_concurrent_sends=1, max_wait_time=0
        ) as producer:
            await producer.enqueue([letter(-1), letter(-1)])
            await done.wait()
        assert [number for number in await stored(hub) if number != -1] == [*range(20)]

    run(program)


def test_a_callback_that_raises_or_is_cancelled_is_logged_and_harms_nobody(
    run: Run, caplog: pytest.LogCaptureFixture
) -> None:
    async def cancelled(*_: object) -> None:
        raise asyncio.CancelledError

    async def fail(*_: object) -> None:
        raise ValueError("mine")

    async def program(hub: asynchronous.Hub) -> None:
        async with BufferedProducer(hub, on_success=cancelled, on_error=fail, max_parcel_messages=1) as producer:
            await producer.enqueue([letter(1), letter(2, id="an end of line\n"), letter(3)])
        assert await stored(hub) == [1, 3]

    run(program)
    assert sorted(record.message for record in caplog.records) == [
        "A callback of the buffered producer failed.",
        "A callback of the buffered producer was cancelled.",
        "A callback of the buffered producer was cancelled.",
    ]


def test_a_callback_cannot_wait_for_itself(run: Run) -> None:
    caught: list[str] = []

    async def program(hub: asynchronous.Hub) -> None:
        async def wait(*_: object) -> None:
            for call in (producer.flush, producer.close):
                try:
                    await call()
                except errors.InvalidOperation as error:
                    caught.append(error.message)

        async with BufferedProducer(hub, on_success=wait) as producer:
            await producer.enqueue(letter(1))

    run(program)
    assert ["flush" in caught[0], "close" in caught[1], len(caught)] == [True, True, 2]


# Failures.


def test_only_the_faulty_messages_of_a_parcel_fail(run: Run, tally: Tally) -> None:
    async def program(hub: asynchronous.Hub) -> None:
        await hub.producer.send(letter(-1, id=SOME_ID))
        async with BufferedProducer(hub, **tally.callbacks) as producer:
            await producer.enqueue([letter(0), letter(1, id=SOME_ID), letter(2), letter(3, BOB)])
        assert tally.errors == [([1], errors.MessageConflict)]
        assert (await stored(hub), await stored(hub, BOB)) == ([-1, 0, 2], [3])

    run(program)


def test_a_partition_that_was_taken_over_fails_at_once_and_the_others_go_on(run: Run, tally: Tally) -> None:
    mine, higher = (PartitionPublishingConfiguration(producer_group_id=5, owner_level=level) for level in (1, 2))

    async def program(hub: asynchronous.Hub) -> None:
        async with BufferedProducer(hub, partition_config={HERS: mine}, **tally.callbacks) as producer:
            await producer.enqueue(letter(1))
            await producer.flush()
            async with restante.aio.ProducerClient(
                hub, enable_idempotent_partitions=True, partition_config={HERS: higher}
            ) as other:
                await other.send_messages([letter(2)], partition=HERS)
            for number in (3, 4):
                await producer.enqueue([letter(number), letter(number, BOB)])
                await producer.flush()
        assert tally.errors == [([3], errors.ProducerDisconnected), ([4], errors.ProducerDisconnected)]
        assert (await stored(hub), await stored(hub, BOB)) == ([1, 2], [3, 4])

    run(program)


def test_an_address_is_enough(running: ServedHub, hub: sync.Hub, tally: Tally) -> None:
    async def program() -> None:
        async with BufferedProducer(running.url, **tally.callbacks) as producer:
            await producer.enqueue(letter(1))
        check_nothing_is_left()

    asyncio.run(program())
    assert tally.numbers == in_the_hub(hub) == [1]


def test_a_defect_is_told_and_logged_and_stops_nothing(
    run: Run, tally: Tally, caplog: pytest.LogCaptureFixture
) -> None:
    async def program(hub: asynchronous.Hub) -> None:
        broken = asynchronous.Hub(BrokenLink(hub.link))
        async with BufferedProducer(broken, max_parcel_messages=1, **tally.callbacks) as producer:
            await producer.enqueue([letter(1), letter(2)])
        assert await stored(hub) == [2]

    run(program)
    assert tally.errors == [([1], errors.Internal)]
    assert "a defect" in caplog.text


def test_a_hub_that_says_nothing_is_not_waited_for_longer_than_asked() -> None:
    never = threading.Event()
    with ScriptedServer(answer({}, 200)._replace(held=never)) as server:

        async def program() -> None:
            async with BufferedProducer(server.url) as producer:
                with pytest.raises(errors.Unavailable, match="how many partitions"):
                    await producer.enqueue(letter(1), timeout=0.05)
                assert producer.buffered_count() == 0

        asyncio.run(program())
        never.set()
