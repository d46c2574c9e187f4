"""Small sends of an event loop are planned there; one writer, and the same promises."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

import restante
from restante.calls.mailboxes import ListPartitions, ReadHistory
from restante.calls.publishing import Publish
from restante.errors import MessageConflict, StorageFull
from restante.hub.door.hub import OpenHub
from restante.hub.door.in_process import InProcess
from restante.hub.engine.committer import Committer
from restante.model.mailboxes.answers import Receipt
from restante.model.publishing.message import Message
from restante.model.storage.changes import Changes
from restante.settings import Settings
from restante.stores.memory import MemoryStore
from tests.crash.seen import inside
from tests.hub.letters import id_of

SECONDS = 20.0
"""Longer than anything here takes; a test that waits so long has failed."""
SETTINGS = Settings(partition_count=4, housekeeping_seconds=0)


class HoldingStore(MemoryStore):
    """Counts commits; can hold one, or have no room for it."""

    def __init__(self) -> None:
        super().__init__()
        self.commits = 0
        self.full = False
        self.holding = False
        self.held, self.let_go = threading.Event(), threading.Event()

    def commit(self, changes: Changes) -> None:
        self.commits += 1
        if self.full:
            raise StorageFull("No room.")
        if self.holding:
            self.holding = False
            self.held.set()
            assert self.let_go.wait(SECONDS)
        super().commit(changes)


class World:
    def __init__(self) -> None:
        self.store = HoldingStore()
        self.surface = restante.open(None, store=self.store, settings=SETTINGS)
        self.hub: OpenHub = inside(self.surface)
        self.link = InProcess(self.hub)

    def send(self, number: int, name: str = "ada") -> Coroutine[Any, Any, Receipt]:
        return self.link.call(Publish.of(Message(recipient=name, id=id_of(number), data=number)))

    def stored(self, name: str = "ada") -> list[object]:
        return [message.data for message in self.hub.call(ReadHistory(name, limit=1_000)).messages]


@pytest.fixture
def world() -> Any:
    world = World()
    yield world
    world.surface.close()


@pytest.fixture
def planned(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, bool]]:
    """The thread of each group that was to be planned in an event loop, and whether it was."""
    noted: list[tuple[str, bool]] = []
    plan: Callable[[Committer, list[Any]], Any] = Committer._plan_here

    def note(self: Committer, batch: list[Any]) -> object:
        found = plan(self, batch)
        noted.append((threading.current_thread().name, found is not None))
        return found

    monkeypatch.setattr(Committer, "_plan_here", note)
    return noted


def test_sends_of_one_turn_are_planned_in_the_loop_and_committed_as_one(
    world: World, planned: list[tuple[str, bool]]
) -> None:
    async def send() -> list[Receipt]:
        return await asyncio.gather(*[world.send(number) for number in range(50)])

    before = world.store.commits
    receipts = asyncio.run(send())
    assert planned == [(threading.current_thread().name, True)]
    assert world.store.commits == before + 1
    assert [receipt.accepted for receipt in receipts] == [1] * 50
    assert world.stored() == list(range(50))


def test_what_needs_a_closer_look_is_planned_by_the_committer(world: World, planned: list[tuple[str, bool]]) -> None:
    async def send() -> list[Receipt | BaseException]:
        other = world.link.call(Publish.of(Message(recipient="ada", id=id_of(2), data="other")))
        return await asyncio.gather(*[world.send(1), world.send(1), world.send(2), other], return_exceptions=True)

    first, again, second, conflict = asyncio.run(send())
    assert [done for _, done in planned] == [False]
    assert isinstance(first, Receipt)
    assert isinstance(again, Receipt)
    assert (first.accepted, again.duplicates) == (1, 1)
    assert isinstance(second, Receipt)
    assert isinstance(conflict, MessageConflict)
    assert world.stored() == [1, 2]


def test_nobody_is_answered_before_it_is_durable(world: World) -> None:
    async def send() -> None:
        world.store.holding = True
        sending = asyncio.ensure_future(world.send(1))
        assert await asyncio.to_thread(world.store.held.wait, SECONDS)
        later = [asyncio.ensure_future(world.send(number)) for number in (2, 3)]
        await asyncio.sleep(0.05)
        assert not any(task.done() for task in (sending, *later))
        assert world.stored() == []
        world.store.let_go.set()
        await asyncio.gather(sending, *later)

    before = world.store.commits
    asyncio.run(send())
    assert world.stored() == [1, 2, 3]
    assert world.store.commits == before + 2


def test_behind_the_commit_of_a_thread_a_loop_plans_its_own_sends(
    world: World, planned: list[tuple[str, bool]]
) -> None:
    async def send() -> list[Receipt]:
        sends = [asyncio.ensure_future(world.send(number)) for number in (2, 3)]
        await asyncio.sleep(0.05)
        assert planned == []
        world.store.let_go.set()
        return await asyncio.gather(*sends)

    world.store.holding = True
    with ThreadPoolExecutor(1) as pool:
        before = pool.submit(world.hub.call, Publish.of(Message(recipient="ada", id=id_of(1), data=1)))
        assert world.store.held.wait(SECONDS)
        assert [receipt.accepted for receipt in asyncio.run(send())] == [1, 1]
        assert before.result(SECONDS).accepted == 1
    assert [done for _, done in planned] == [True]
    assert world.stored() == [1, 2, 3]


def test_a_loop_that_ends_while_its_commit_is_under_way_holds_nobody_up(world: World) -> None:
    async def leave() -> None:
        world.store.holding = True
        asyncio.ensure_future(world.send(1))  # noqa: RUF006  # nobody waits for it
        assert await asyncio.to_thread(world.store.held.wait, SECONDS)
        asyncio.ensure_future(world.send(2))  # noqa: RUF006  # nor for this one, which waits for its turn
        await asyncio.sleep(0.01)

    asyncio.run(leave())
    world.store.let_go.set()
    with ThreadPoolExecutor(1) as pool:
        sent = pool.submit(world.hub.call, Publish.of(Message(recipient="ada", id=id_of(3), data=3)))
        assert sent.result(SECONDS).accepted == 1
    assert world.stored()[0] == 1
    assert world.stored()[-1] == 3
    assert asyncio.run(world.send(4)).accepted == 1


def test_a_commit_that_fails_fails_for_all_and_the_next_goes_on(world: World) -> None:
    async def send(first: int) -> list[Receipt | BaseException]:
        return await asyncio.gather(*[world.send(first + number) for number in range(5)], return_exceptions=True)

    world.store.full = True
    assert {type(answer) for answer in asyncio.run(send(0))} == {StorageFull}
    world.store.full = False
    assert {type(answer) for answer in asyncio.run(send(0))} == {Receipt}
    assert world.stored() == list(range(5))


def test_what_is_under_way_when_the_hub_is_closed_is_stored() -> None:
    world = World()

    async def send() -> list[Receipt]:
        sends = [asyncio.ensure_future(world.send(number)) for number in range(5)]
        await asyncio.sleep(0)
        await world.link.close()
        return await asyncio.gather(*sends)

    assert [receipt.accepted for receipt in asyncio.run(send())] == [1] * 5
    with restante.open(None, store=world.store.survivor(), settings=SETTINGS) as again:
        assert len(again.recipient("ada").history().messages) == 5


def test_loops_and_threads_send_at_once_and_everything_is_stored_once(world: World) -> None:
    """Numbers are contiguous: no commit was planned on a state that another one changed."""

    def from_loop(writer: int) -> int:
        async def send() -> int:
            receipts = []
            for turn in range(20):
                sends = [world.send(writer * 1_000 + turn * 10 + at, f"r{at}") for at in range(10)]
                receipts += await asyncio.gather(*sends)
            return sum([receipt.accepted for receipt in receipts])

        return asyncio.run(send())

    def from_thread(writer: int) -> int:
        accepted = 0
        for number in range(200):
            message = Message(recipient=f"r{number % 10}", id=id_of(writer * 1_000 + number), data=number)
            accepted += world.hub.call(Publish.of(message)).accepted
        return accepted

    with ThreadPoolExecutor(5) as pool:
        loops = [pool.submit(from_loop, writer) for writer in (1, 2, 3)]
        threads = [pool.submit(from_thread, writer) for writer in (4, 5)]
        assert [done.result(60) for done in (*loops, *threads)] == [200] * 5
    assert sum([status.visible_sequence for status in world.hub.call(ListPartitions())]) == 1_000
    assert sum([len(world.stored(f"r{at}")) for at in range(10)]) == 1_000


def test_a_defect_in_planning_leaves_the_requests_to_the_committer(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> bool:
        raise MemoryError

    monkeypatch.setattr(world.hub.core.committer, "_plan_lightly", broken)
    assert asyncio.run(world.send(1)).accepted == 1
    assert world.stored() == [1]
