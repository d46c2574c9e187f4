"""Batches through the surface of asynchronous programs, in process and over a real socket."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

import pytest

import restante.aio
from restante import errors, limits
from restante.calls.batches import AcknowledgeItems
from restante.client.batches.batches_async import acknowledge
from restante.client.surface import asynchronous
from restante.model.batches.batch_answers import Acknowledged, BatchState, CompleteBatch
from restante.model.publishing.message import Message
from tests.client.conftest import SETTINGS

SECONDS = 20.0
UNKNOWN = "0198c5a2-6f1e-7c3b-9d4a-1b2c3d4e5f60"
Opens = Callable[[], AbstractAsyncContextManager[asynchronous.Hub]]


@pytest.fixture(params=["in process", "wire"])
def opens(request: pytest.FixtureRequest, tmp_path: Path) -> Opens:
    """How a hub is opened, in this process or over the network."""
    url = request.getfixturevalue("running").url if request.param == "wire" else None

    @asynccontextmanager
    async def opened() -> AsyncIterator[asynchronous.Hub]:
        door = restante.aio.open(tmp_path / "here", settings=SETTINGS) if url is None else restante.aio.connect(url)
        async with door as hub:
            yield hub

    return opened


def run(opens: Opens, story: Callable[[asynchronous.Hub], Awaitable[None]]) -> None:
    async def told() -> None:
        async with asyncio.timeout(3 * SECONDS), opens() as hub:
            await story(hub)

    asyncio.run(told())


def test_a_batch_from_opening_to_completion(opens: Opens) -> None:
    async def story(hub: asynchronous.Hub) -> None:
        async with hub.batches.open("night") as batch:
            items = await batch.add(10)
            assert (await batch.acknowledge(list(items[:5]))).acknowledged == 5
        assert (await batch.status()).state is BatchState.SEALED
        assert [item async for item in batch.pending()] == list(items[5:])
        waiting = asyncio.create_task(batch.completed())
        answer = await batch.acknowledge(items)
        assert answer == Acknowledged(acknowledged=5, complete=(CompleteBatch(id=batch.id, key="night"),), unknown=())
        assert (await waiting).state is BatchState.COMPLETE

    run(opens, story)


def test_a_batch_may_be_awaited_and_entered_later(opens: Opens) -> None:
    async def story(hub: asynchronous.Hub) -> None:
        batch = await hub.batches.open(webhook="https://example.org/done")
        assert batch.webhook_secret is not None
        async with batch:
            pass
        assert (await batch.status()).state is BatchState.COMPLETE

    run(opens, story)


def test_leaving_the_statement_by_an_exception_does_not_seal(opens: Opens) -> None:
    async def fail(hub: asynchronous.Hub) -> None:
        async with hub.batches.open():
            raise ZeroDivisionError

    async def story(hub: asynchronous.Hub) -> None:
        with pytest.raises(ZeroDivisionError):
            await fail(hub)
        assert [status.state async for status in hub.batches.list()] == [BatchState.OPEN]

    run(opens, story)


def test_completed_gives_up_when_the_time_is_over(opens: Opens) -> None:
    async def story(hub: asynchronous.Hub) -> None:
        batch = await hub.batches.open()
        with pytest.raises(TimeoutError, match=r"not complete within 0\.05 s"):
            await batch.completed(timeout=0.05)

    run(opens, story)


def test_many_ids_go_out_in_several_calls_and_are_summed(opens: Opens) -> None:
    async def story(hub: asynchronous.Hub) -> None:
        batch = await hub.batches.open()
        ids = list(await batch.add(35_000))
        random.Random(3).shuffle(ids)
        await batch.seal()
        answer = await hub.batches.acknowledge([*ids, f"{UNKNOWN}:0:1"])
        assert (answer.acknowledged, answer.unknown) == (35_000, (f"{UNKNOWN}:0:1",))
        assert [done.id for done in answer.complete] == [batch.id]
        assert (await hub.batches.acknowledge([])).acknowledged == 0
        assert (await hub.batches.acknowledge(ids[0], ranges=[])).acknowledged == 0

    run(opens, story)


def test_when_one_of_many_calls_fails_so_does_the_whole(opens: Opens) -> None:
    async def story(hub: asynchronous.Hub) -> None:
        batch = await hub.batches.open()
        ids = list(await batch.add(50_000))
        random.Random(3).shuffle(ids)
        ids[25_000] = "junk"
        with pytest.raises(errors.InvalidItem, match="junk"):
            await batch.acknowledge(ids)
        ids.remove("junk")
        await batch.acknowledge(ids)
        assert (await batch.status()).pending == 1

    run(opens, story)


def test_the_other_calls(opens: Opens) -> None:
    async def story(hub: asynchronous.Hub) -> None:
        batch = await hub.batches.open("night", unique=True)
        assert [status.key async for status in hub.batches.list(state="open", key="night")] == ["night"]
        assert await hub.batches.reap() == ()
        await hub.producer.send(Message(recipient="ada", data=1), batch=batch)
        assert [each.recipient async for each in batch.progress()] == ["ada"]
        await hub.batches.get(batch.id).delete()
        with pytest.raises(errors.BatchUnknown):
            await batch.status()

    run(opens, story)


class Counter:
    """A link that notes how many calls are under way, and answers when there are as many as there may be."""

    def __init__(self) -> None:
        self.most = self._under_way = 0
        self._together = asyncio.Event()

    async def call(self, call: AcknowledgeItems) -> Acknowledged:
        self._under_way += 1
        self.most = max(self.most, self._under_way)
        if self._under_way == limits.ACKNOWLEDGE_CALLS_MAX:
            self._together.set()
        async with asyncio.timeout(SECONDS):
            await self._together.wait()
        self._under_way -= 1
        return Acknowledged(acknowledged=len(call.items), complete=(), unknown=())


def test_a_few_calls_are_under_way_at_once_and_never_more() -> None:
    async def story() -> None:
        counter = Counter()
        ids = [f"{UNKNOWN}:0:{index * 7919 % 80_000}" for index in range(80_000)]
        assert (await acknowledge(counter, ids)).acknowledged == 80_000  # type: ignore[arg-type]
        assert counter.most == limits.ACKNOWLEDGE_CALLS_MAX

    asyncio.run(story())


def test_several_calls_at_once_are_answered_one_by_one(opens: Opens) -> None:
    async def story(hub: asynchronous.Hub) -> None:
        async with hub.batches.open() as batch:
            items = await batch.add(30)
        answers = await hub.batches.acknowledge_each([list(items[:10]), items[0], [], list(items)])
        assert [answer.acknowledged for answer in answers] == [10, 0, 0, 20]
        assert [done.id for done in answers[-1].complete] == [batch.id]

    run(opens, story)
