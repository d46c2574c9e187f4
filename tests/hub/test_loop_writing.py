"""An event loop that was asked to writes its small commits itself, where the store is quick; with the same promises."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import restante
from restante.calls.mailboxes import ListPartitions, ReadHistory
from restante.calls.publishing import Publish
from restante.errors import StorageFull
from restante.hub.door.hub import OpenHub
from restante.hub.door.in_process import InProcess
from restante.model.mailboxes.answers import Receipt
from restante.model.publishing.message import Message
from restante.model.storage.changes import Changes
from restante.settings import Settings
from restante.stores.memory import MemoryStore
from restante.stores.sqlite.flush_pace import FlushPace
from restante.stores.sqlite.store import SqliteStore
from tests.crash.seen import inside
from tests.hub.letters import id_of

SETTINGS = Settings(partition_count=4, housekeeping_seconds=0)


class WatchedStore(MemoryStore):
    """Notes which thread commits; can be slow, or have no room."""

    def __init__(self) -> None:
        super().__init__()
        self.threads: list[str] = []
        self.full = False
        self.quick = True

    def is_quick(self, byte_count: int) -> bool:
        return self.quick and super().is_quick(byte_count)

    def commit(self, changes: Changes) -> None:
        self.threads.append(threading.current_thread().name)
        if self.full:
            raise StorageFull("No room.")
        super().commit(changes)


class World:
    def __init__(self) -> None:
        self.store = WatchedStore()
        self.surface = restante.open(None, store=self.store, settings=SETTINGS)
        self.hub: OpenHub = inside(self.surface)
        self.link = InProcess(self.hub)
        self.store.threads.clear()

    def send(self, number: int, name: str = "ada") -> Coroutine[Any, Any, Receipt]:
        return self.link.call(Publish.of(Message(recipient=name, id=id_of(number), data=number)))

    async def send_all(self, numbers: range) -> list[Receipt | BaseException]:
        self.hub.write_in(asyncio.get_running_loop())
        return await asyncio.gather(*[self.send(number) for number in numbers], return_exceptions=True)

    def stored(self, name: str = "ada") -> list[object]:
        return [message.data for message in self.hub.call(ReadHistory(name, limit=1_000)).messages]


@pytest.fixture
def world() -> Iterator[World]:
    world = World()
    yield world
    world.surface.close()


def test_a_group_is_written_by_its_event_loop(world: World) -> None:
    answers = asyncio.run(world.send_all(range(50)))
    assert [type(answer) for answer in answers] == [Receipt] * 50
    assert world.store.threads == [threading.current_thread().name]
    assert world.stored() == list(range(50))


def test_what_a_slow_store_is_to_write_goes_to_the_committer(world: World) -> None:
    world.store.quick = False
    answers = asyncio.run(world.send_all(range(5)))
    assert [type(answer) for answer in answers] == [Receipt] * 5
    assert world.store.threads == ["restante-commit"]


def test_an_event_loop_that_was_not_asked_writes_nothing(world: World) -> None:
    assert asyncio.run(world.send(1)).accepted == 1
    assert world.store.threads == ["restante-commit"]


def test_a_commit_that_fails_fails_for_all_and_the_next_goes_on(world: World) -> None:
    world.store.full = True
    assert {type(answer) for answer in asyncio.run(world.send_all(range(5)))} == {StorageFull}
    world.store.full = False
    assert {type(answer) for answer in asyncio.run(world.send_all(range(5)))} == {Receipt}
    assert world.stored() == list(range(5))


def test_loops_that_write_and_threads_send_at_once_and_everything_is_stored_once(world: World) -> None:
    """Numbers are contiguous: no commit was planned on a state that another one changed."""

    def from_loop(writer: int) -> int:
        async def send() -> int:
            world.hub.write_in(asyncio.get_running_loop())
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


def test_a_store_in_a_folder_is_quick_only_within_what_it_has_room_for(tmp_path: Path) -> None:
    store = SqliteStore.open(tmp_path / "data")
    try:
        assert not store.is_quick(100), "nothing was flushed yet"
        store.raise_fences(1)
    finally:
        store.close()


def test_the_pace_of_flushes_is_that_of_the_shortest_of_late_and_a_stall_makes_it_wary() -> None:
    pace = FlushPace()
    assert not pace.is_quick()
    for seconds in (0.006, 0.0001, 0.005):
        pace.add(seconds)
    assert pace.is_quick()
    for _ in range(8):
        pace.add(0.004)
    assert not pace.is_quick()
    pace.add(0.0001)
    assert pace.is_quick()
    pace.add(0.05)
    assert not pace.is_quick()
