"""Consignments through the surface of asynchronous programs, in process and over a real socket."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

import pyarrow as pa
import pytest

import restante.aio
from restante import errors
from restante.client.consignments.consignments_async import Consignment
from restante.client.surface import asynchronous
from restante.model.consignments.consignment_answers import ConsignmentState, Winner
from restante.model.publishing.message import Message
from tests.client.conftest import SETTINGS

SECONDS = 60.0
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
        async with asyncio.timeout(SECONDS), opens() as hub:
            await story(hub)

    asyncio.run(told())


def message(data: object) -> Message:
    return Message(recipient="alice", data=data)


async def collected(hub: asynchronous.Hub) -> list[object]:
    return [each.data for each in (await hub.recipient("alice").history(limit=1_000)).messages]


def test_what_is_staged_is_delivered_at_the_commit_and_not_before(opens: Opens) -> None:
    async def story(hub: asynchronous.Hub) -> None:
        async with hub.consignment("night") as consignment:
            assert await consignment.stage("w", 0, message(1)) == 1
            assert await consignment.stage("w", 0, [message(2), message(3)]) == 2
            assert await collected(hub) == []
        assert await collected(hub) == [1, 2, 3]
        async with hub.consignment("night") as again:
            assert (again.state, again.receipt) == (ConsignmentState.COMMITTED, consignment.receipt)
            with pytest.raises(errors.ConsignmentClosed):
                await again.stage("w", 0, message(4))
            assert await again.commit() == consignment.receipt

    run(opens, story)


def test_leaving_by_an_exception_discards(opens: Opens) -> None:
    async def fail(consignment: Consignment) -> None:
        async with consignment:
            await consignment.stage("w", 0, message(1))
            raise ZeroDivisionError

    async def story(hub: asynchronous.Hub) -> None:
        consignment = await hub.consignment("night")
        with pytest.raises(ZeroDivisionError):
            await fail(consignment)
        assert consignment.state is (await consignment.status()).state is ConsignmentState.DISCARDED

    run(opens, story)


def test_a_cancellation_discards(opens: Opens) -> None:
    async def story(hub: asynchronous.Hub) -> None:
        entered = asyncio.Event()

        async def hang() -> None:
            async with hub.consignment("night") as consignment:
                await consignment.stage("w", 0, message(1))
                entered.set()
                await asyncio.Event().wait()

        hanging = asyncio.create_task(hang())
        await entered.wait()
        hanging.cancel()
        with pytest.raises(asyncio.CancelledError):
            await hanging
        assert [status.state async for status in hub.consignments()] == [ConsignmentState.DISCARDED]

    run(opens, story)


def test_somebody_elses_commit_is_told_with_the_exception(opens: Opens) -> None:
    async def fail(consignment: Consignment) -> None:
        async with consignment:
            raise ZeroDivisionError

    async def story(hub: asynchronous.Hub) -> None:
        consignment = await hub.consignment("night")
        await (await hub.consignment("night")).commit()
        with pytest.raises(ZeroDivisionError) as caught:
            await fail(consignment)
        assert "could not be discarded" in caught.value.__notes__[0]

    run(opens, story)


def test_tasks_stage_side_by_side_and_much_is_cut(opens: Opens) -> None:
    table = pa.table({"recipient": [f"r{place % 50}" for place in range(20_000)], "data": [b"x" * 500] * 20_000})

    async def story(hub: asynchronous.Hub) -> None:
        async with hub.consignment("night") as consignment:
            staged = await asyncio.gather(
                consignment.stage("w", 0, table),
                consignment.stage("w", 0, table),
                consignment.stage("v", 3, [message(place) for place in range(100)]),
            )
            assert sum(staged) == 40_100
            attempts = {each.writer: each for each in (await consignment.status()).attempts}
            assert attempts["w"].parcels > 4
            assert set(consignment.winners) == {
                Winner(writer="w", attempt=0, messages=40_000),
                Winner(writer="v", attempt=3, messages=100),
            }
        assert consignment.receipt is not None
        assert consignment.receipt.accepted == 40_100
        assert await collected(hub) == list(range(100))

    run(opens, story)


def test_a_stage_that_is_called_off_leaves_its_attempt_in_doubt(opens: Opens) -> None:
    table = pa.table({"recipient": ["r"] * 100_000, "data": [b"x" * 500] * 100_000})

    async def story(hub: asynchronous.Hub) -> None:
        consignment = await hub.consignment("night")
        staging = asyncio.create_task(consignment.stage("w", 0, table, progress=lambda _: staging.cancel()))
        with pytest.raises(asyncio.CancelledError):
            await staging
        assert (await consignment.status()).staged_messages > 0
        with pytest.raises(errors.InvalidOperation):
            await consignment.commit()
        assert await consignment.stage("w", 0, table) == 100_000
        assert (await consignment.commit()).accepted == 100_000

    run(opens, story)


def test_a_stage_that_failed_stops_a_commit_that_names_nobody(opens: Opens) -> None:
    def broken() -> Iterator[Message]:
        yield message("never")
        raise ZeroDivisionError

    async def story(hub: asynchronous.Hub) -> None:
        consignment = await hub.consignment("night")
        await consignment.stage("ok", 0, message("ok"))
        for attempt, failing in enumerate(([Message(recipient=" ")], {"recipient": "alice"}, broken())):
            with pytest.raises((errors.InvalidMessage, errors.InvalidRequest, ZeroDivisionError)):
                await consignment.stage("w", attempt, failing)
            with pytest.raises(errors.InvalidOperation, match=f"'w' staged in attempt {attempt}"):
                await consignment.commit()
            await consignment.stage("w", attempt, message(attempt))
            assert consignment.winners[1] == Winner(writer="w", attempt=attempt, messages=1)
        assert (await consignment.commit()).accepted == 2
        assert await collected(hub) == ["ok", 2]

    run(opens, story)


def test_an_empty_list_drops_nothing_that_is_staged(opens: Opens) -> None:
    async def story(hub: asynchronous.Hub) -> None:
        task, driver = await hub.consignment("night"), await hub.consignment("night")
        await task.stage("task", 0, message(1))
        nobody: list[Winner] = []
        for winners in (nobody, None):
            with pytest.raises(errors.InvalidOperation, match="'task'"):
                await driver.commit(winners)
        assert (await driver.status()).state is ConsignmentState.OPEN
        assert (await driver.commit(task.winners)).accepted == 1

    run(opens, story)


def test_a_batch_that_comes_too_late_is_refused(opens: Opens) -> None:
    async def story(hub: asynchronous.Hub) -> None:
        await hub.consignment("night")
        with pytest.raises(errors.InvalidOperation, match="was opened before, without a batch"):
            await hub.consignment("night", batch=True)
        driver = await hub.consignment("other", batch=True)
        assert driver.batch == (await hub.consignment("other")).batch is not None

    run(opens, story)


def test_consignments_are_listed(opens: Opens) -> None:
    async def story(hub: asynchronous.Hub) -> None:
        for number in range(3):
            await hub.consignment(f"key {number}")
        assert [status.key async for status in hub.consignments(state="open")] == ["key 2", "key 1", "key 0"]
        assert [status.key async for status in hub.consignments(key="key 1")] == ["key 1"]

    run(opens, story)
