"""Hubs for the tests of batches bound to messages: each can be opened again, and is examined at the end."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Protocol

import msgspec
import pytest

from restante.assembly import open_hub
from restante.calls.batches import OpenBatch, ReadBatch, ReadProgress
from restante.calls.mailboxes import Dequeue, Peek
from restante.hub.doctor.doctor import Report, examine
from restante.hub.door.hub import OpenHub
from restante.hub.engine.commit_request import CommitRequest, Planned
from restante.limits import FEW_MESSAGES_MAX
from restante.model.batches.batch_answers import RecipientProgress
from restante.model.batches.bound_stretches import BindingRole
from restante.model.mailboxes.answers import BundleAnswer
from restante.model.storage.changes import Space
from restante.settings import Settings
from restante.stores.memory import MemoryStore
from restante.stores.sqlite import SqliteStore
from tests.hub.engines import FakeClock
from tests.hub.letters import SETTINGS

ALONE = msgspec.structs.replace(SETTINGS, partition_count=1)
MANY = FEW_MESSAGES_MAX + 10
PATIENCE_SECONDS = 30


class World(Protocol):
    """A hub that can be closed and opened again on what it has stored."""

    hub: OpenHub

    def reopen(self) -> OpenHub: ...
    def examined(self) -> Report: ...


class MemoryWorld:
    def __init__(self, settings: Settings, clock: FakeClock) -> None:
        self._settings, self._clock = settings, clock
        self.store = MemoryStore()
        self.hub = self._open()

    def _open(self) -> OpenHub:
        return open_hub(None, settings=self._settings, store=self.store, clock=self._clock)

    def reopen(self) -> OpenHub:
        self.hub.close()
        self.store = self.store.survivor()
        self.hub = self._open()
        return self.hub

    def examined(self) -> Report:
        return examine(self.store)


class SqliteWorld:
    def __init__(self, settings: Settings, clock: FakeClock, folder: Path) -> None:
        self._settings, self._clock, self._folder = settings, clock, folder
        self.hub = self._open()

    def _open(self) -> OpenHub:
        return open_hub(self._folder, settings=self._settings, clock=self._clock)

    def reopen(self) -> OpenHub:
        self.hub.close()
        self.hub = self._open()
        return self.hub

    def examined(self) -> Report:
        """Closes the hub: nobody else may write meanwhile."""
        self.hub.close()
        store = SqliteStore.open(self._folder)
        try:
            return examine(store)
        finally:
            store.close()


def worlds(request: pytest.FixtureRequest, clock: FakeClock, folder: Path) -> Iterator[World]:
    """For a fixture of both engines. Whatever a test did, the doctor finds nothing wrong with it."""
    settings = getattr(request.function, "settings", SETTINGS)
    made = MemoryWorld(settings, clock) if request.param == "memory" else SqliteWorld(settings, clock, folder)
    yield made
    report = made.examined()
    made.hub.close()
    assert report.sound, report.findings


def on_one_partition(test: Callable[..., None]) -> Callable[..., None]:
    test.settings = ALONE  # type: ignore[attr-defined]
    return test


def opened(hub: OpenHub, **options: Any) -> str:
    return hub.call(OpenBatch(**options)).id


def counted(hub: OpenHub, batch: str) -> dict[str, int]:
    """The counts of a batch that are not 0."""
    status = hub.call(ReadBatch(batch))
    names = (
        "items",
        "pending",
        "acknowledged",
        "collected",
        "expired",
        "withdrawn",
        "duplicates",
        "duplicates_waiting",
    )
    return {name: getattr(status, name) for name in names if getattr(status, name)}


def taken(hub: OpenHub, recipient: str = "ada", **options: Any) -> BundleAnswer:
    found = hub.call(Peek(recipient, **options))
    assert isinstance(found, BundleAnswer)
    return found


def collect(hub: OpenHub, recipient: str = "ada", **options: Any) -> int:
    return hub.call(Dequeue(recipient, taken(hub, recipient, **options).bundle_id)).messages


def progress_of(hub: OpenHub, batch: str, **options: Any) -> dict[str, dict[str, Any]]:
    """By recipient what is not 0 of its progress."""
    page = hub.call(ReadProgress(batch, **options))
    return {entry.recipient: _shown(entry) for entry in page.recipients}


def _shown(entry: RecipientProgress) -> dict[str, Any]:
    return {name: value for name, value in msgspec.structs.asdict(entry).items() if value and name != "recipient"}


def stretches(hub: OpenHub, role: BindingRole = BindingRole.ITEM) -> list[tuple[int, int]]:
    """The stored stretches of all partitions."""
    core = hub.core
    rows = [row for memory in core.partitions for row in core.store.scan(memory.number, Space.BATCH_BINDING)]
    ends = [(key[8], int.from_bytes(key[:8], "big"), int.from_bytes(value, "big")) for key, value in rows]
    return [(first, last) for own, first, last in ends if own == role]


Act = Callable[[], object]


def in_one_commit(hub: OpenHub, *acts: Act) -> list[object]:
    """What the acts commit goes, in their order, into one commit; gives their answers, or errors."""
    committer, queued, free = hub.core.committer, threading.Semaphore(0), threading.Event()
    enqueue = committer._enqueue

    def told(request: CommitRequest[object], *, wait: bool) -> None:
        enqueue(request, wait=wait)
        queued.release()

    committer._enqueue = told  # type: ignore[assignment, method-assign]
    with ThreadPoolExecutor(len(acts) + 1) as pool:
        pool.submit(hub.core.submit, Planned(lambda _: free.wait(PATIENCE_SECONDS)))
        assert queued.acquire(timeout=PATIENCE_SECONDS)
        futures = []
        for act in acts:
            futures.append(pool.submit(_attempt, act))
            assert queued.acquire(timeout=PATIENCE_SECONDS)
        committer._enqueue = enqueue  # type: ignore[method-assign]
        free.set()
        return [future.result(PATIENCE_SECONDS) for future in futures]


def _attempt(act: Act) -> object:
    try:
        return act()
    except Exception as error:  # noqa: BLE001  # whatever it is, the test looks at it
        return error
