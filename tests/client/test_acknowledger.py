"""The acknowledger for workers that finish items one by one, in process and over a real socket."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

import restante
import restante.aio
from restante import errors, limits
from restante.calls.batches import AcknowledgeItems
from restante.client.batches import acknowledger_async
from restante.client.batches.acknowledger_sync import Acknowledger
from restante.client.surface import sync
from restante.model.batches.batch_answers import Acknowledged, BatchState
from restante.server.serve import ServedHub

SECONDS = 20.0
BATCH = "0198c5a2-6f1e-7c3b-9d4a-1b2c3d4e5f60"


class Desk:
    """A link whose answers a test holds back, or replaces by errors."""

    def __init__(self) -> None:
        self.calls: list[list[str]] = []
        self.let_go = threading.Event()
        self.let_go.set()
        self.arrived = threading.Event()
        self.failures: list[Exception] = []

    def call(self, call: AcknowledgeItems) -> Acknowledged:
        self.calls.append(list(call.items))
        self.arrived.set()
        assert self.let_go.wait(SECONDS)
        if self.failures:
            raise self.failures.pop(0)
        return Acknowledged(acknowledged=len(call.items), complete=(), unknown=())

    @property
    def sent(self) -> list[str]:
        return [item for call in self.calls for item in call]


class AsyncDesk(Desk):
    async def call(self, call: AcknowledgeItems) -> Acknowledged:  # type: ignore[override]
        await asyncio.sleep(0)
        return super().call(call)


@pytest.fixture
def desk() -> Iterator[Desk]:
    made = Desk()
    yield made
    made.let_go.set()


def over(desk: Desk) -> Acknowledger:
    return Acknowledger(desk)  # type: ignore[arg-type]


def item(index: int) -> str:
    return f"{BATCH}:0:{index}"


def test_what_workers_finish_is_acknowledged_and_the_complete_batch_is_told(either: sync.Hub) -> None:
    with either.batches.open("night") as batch:
        items = batch.add(500)
    with batch.acknowledging() as acknowledger, ThreadPoolExecutor(4) as workers:
        list(workers.map(acknowledger.add, items))
        acknowledger.flush()
        assert batch.status().state is BatchState.COMPLETE
        acknowledger.add(f"{BATCH}:0:1")
    assert acknowledger.acknowledged == 500
    assert [done.key for done in acknowledger.complete] == ["night"]
    assert acknowledger.unknown == (f"{BATCH}:0:1",)


def test_one_acknowledger_serves_many_batches(either: sync.Hub) -> None:
    batches = [either.batches.open() for _ in range(3)]
    items = [batch.add(2) for batch in batches]
    for batch in batches:
        batch.seal()
    with either.batches.acknowledging() as acknowledger:
        for own in items:
            acknowledger.add(own[0])
        for own in items:
            acknowledger.add(own[1:])
    assert {done.id for done in acknowledger.complete} == {batch.id for batch in batches}


def test_what_is_added_goes_out_without_a_flush(desk: Desk) -> None:
    with over(desk) as acknowledger:
        acknowledger.add(item(1))
        assert desk.arrived.wait(SECONDS)
    assert desk.sent == [item(1)]


def test_what_is_added_while_a_call_is_under_way_goes_together(desk: Desk) -> None:
    with over(desk) as acknowledger:
        desk.let_go.clear()
        acknowledger.add(item(0))
        assert desk.arrived.wait(SECONDS)
        for index in range(1, 100):
            acknowledger.add(item(index))
        desk.let_go.set()
    assert [len(call) for call in desk.calls] == [1, 99]


def test_a_full_one_makes_its_callers_wait(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("restante.limits.ACKNOWLEDGE_ITEMS_TARGET", 3)
    desk.let_go.clear()
    with over(desk) as acknowledger:
        for index in range(3):
            acknowledger.add(item(index))
        assert desk.arrived.wait(SECONDS)
        for index in range(3, 6):
            acknowledger.add(item(index))
        added = threading.Event()

        def add() -> None:
            acknowledger.add(item(6))
            added.set()

        adding = threading.Thread(target=add)
        adding.start()
        assert not added.is_set()
        desk.let_go.set()
        adding.join(SECONDS)
    assert [len(call) for call in desk.calls] == [3, 3, 1]


def test_an_error_is_raised_by_the_next_call_and_nothing_is_lost(desk: Desk) -> None:
    desk.failures.append(errors.Unavailable("the hub is away"))
    with over(desk) as acknowledger:
        acknowledger.add(item(1))
        with pytest.raises(errors.Unavailable, match="away"):
            acknowledger.flush()
        acknowledger.add(item(2))
        acknowledger.flush()
        assert acknowledger.acknowledged == 2
    assert desk.sent == [item(1), item(1), item(2)]


def test_an_error_is_raised_on_leaving(desk: Desk) -> None:
    desk.failures.append(RuntimeError("a defect"))
    acknowledger = over(desk)
    acknowledger.add(item(1))
    with pytest.raises(errors.Internal, match="a defect"):
        acknowledger.close()
    acknowledger.close()
    with pytest.raises(errors.InvalidOperation, match="closed"):
        acknowledger.add(item(2))


def test_leaving_by_an_exception_sends_what_is_done_and_raises_that(desk: Desk) -> None:
    def work(*, fails: bool) -> None:
        desk.failures += [errors.Unavailable("the hub is away")] * fails
        with over(desk) as acknowledger:
            acknowledger.add(item(1))
            raise ZeroDivisionError

    for fails in (False, True):
        with pytest.raises(ZeroDivisionError):
            work(fails=fails)
    assert desk.sent == [item(1), item(1)]


def test_leaving_by_an_interrupt_drops_what_was_not_sent(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("restante.limits.ACKNOWLEDGER_WAIT_SECONDS", 3_600.0)

    def work() -> None:
        with over(desk) as acknowledger:
            acknowledger.add(item(1))
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        work()
    assert desk.sent == []


def test_a_bad_id_is_refused_at_once_and_harms_no_other(desk: Desk) -> None:
    with over(desk) as acknowledger:
        acknowledger.add(item(1))
        with pytest.raises(errors.InvalidItem):
            acknowledger.add("junk")
    assert desk.sent == [item(1)]


# Asynchronous.


def test_tasks_acknowledge_one_by_one(running: ServedHub) -> None:
    async def story() -> None:
        async with asyncio.timeout(SECONDS), restante.aio.connect(running.url) as hub:
            async with hub.batches.open("night") as batch:
                items = await batch.add(500)
            async with batch.acknowledging() as acknowledger:
                await asyncio.gather(*map(acknowledger.add, items))
                await acknowledger.flush()
                assert (await batch.status()).state is BatchState.COMPLETE
                await acknowledger.add(f"{BATCH}:0:1")
            assert acknowledger.acknowledged == 500
            assert [done.key for done in acknowledger.complete] == ["night"]
            assert acknowledger.unknown == (f"{BATCH}:0:1",)

    asyncio.run(story())


def test_an_error_is_raised_by_the_next_awaited_call_and_nothing_is_lost() -> None:
    async def story() -> None:
        desk = AsyncDesk()
        desk.failures += [errors.Unavailable("the hub is away"), RuntimeError("a defect")]
        async with asyncio.timeout(SECONDS), acknowledger_async.Acknowledger(desk) as acknowledger:  # type: ignore[arg-type]
            await acknowledger.add(item(1))
            with pytest.raises(errors.Unavailable, match="away"):
                await acknowledger.flush()
            with pytest.raises(errors.Internal, match="a defect"):
                await acknowledger.flush()
            await acknowledger.add(item(2))
        assert desk.sent == [item(1), item(1), item(1), item(2)]
        await acknowledger.close()
        with pytest.raises(errors.InvalidOperation, match="closed"):
            await acknowledger.add(item(3))

    asyncio.run(story())


def test_a_full_one_lets_its_tasks_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("restante.limits.ACKNOWLEDGE_ITEMS_TARGET", 3)

    async def story() -> None:
        desk = AsyncDesk()
        async with asyncio.timeout(SECONDS), acknowledger_async.Acknowledger(desk) as acknowledger:  # type: ignore[arg-type]
            for index in range(20):
                await acknowledger.add(item(index))
        assert desk.sent == [item(index) for index in range(20)]
        assert max(map(len, desk.calls)) <= limits.ACKNOWLEDGE_ITEMS_TARGET == 3

    asyncio.run(story())


def test_a_cancelled_task_drops_what_was_not_sent() -> None:
    async def story() -> None:
        desk = AsyncDesk()
        entered = asyncio.Event()

        async def work() -> None:
            async with acknowledger_async.Acknowledger(desk) as acknowledger:  # type: ignore[arg-type]
                await acknowledger.add(item(1))
                entered.set()
                await asyncio.Event().wait()

        working = asyncio.create_task(work())
        await entered.wait()
        working.cancel()
        with pytest.raises(asyncio.CancelledError):
            await working
        assert desk.sent == []
        assert asyncio.all_tasks() == {asyncio.current_task()}

    asyncio.run(story())
