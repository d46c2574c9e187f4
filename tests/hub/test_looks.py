"""Who waits for mail looks once, and once more when the hub tells of some; the last look says why there is none."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import restante
from restante.calls.mailboxes import Explain, Peek
from restante.calls.publishing import Publish
from restante.hub.door.hub import OpenHub
from restante.hub.door.in_process import InProcess
from restante.model.mailboxes.answers import BundleAnswer, Reason
from restante.model.publishing.message import Message
from restante.model.storage.changes import Space
from restante.server.serve import start
from restante.settings import OriginSettings, Settings
from restante.stores.memory import MemoryStore
from tests.crash.seen import inside
from tests.server.wire import Wire

SECONDS = 20.0
"""Longer than anything here takes; a test that waits so long has failed."""
COMMITTER = "restante-commit"


class CountingStore(MemoryStore):
    """Counts how often a mailbox is looked into: each look reads the heads once, and so does the check of a commit."""

    def __init__(self) -> None:
        super().__init__()
        self.looks = 0
        self.looked = threading.Semaphore(0)

    def scan(self, partition: int, space: Space, **bounds: Any) -> list[tuple[bytes, bytes]]:
        found = super().scan(partition, space, **bounds)
        if space is Space.HEAD and threading.current_thread().name != COMMITTER:
            self.looks += 1
            self.looked.release()
        return found


class Waiting:
    """One way to wait for mail: what came of it is a bundle's messages, or the reason why there is none."""

    def __init__(self, store: CountingStore, hub: OpenHub, peek: Callable[[float], int | str]) -> None:
        self.store = store
        self.hub = hub
        self.peek = peek
        store.looks = 0

    def begin(self, pool: ThreadPoolExecutor) -> Future[int | str]:
        """Wait in a thread; gives when the first look was made."""
        waiting = pool.submit(self.peek, SECONDS)
        assert self.store.looked.acquire(timeout=SECONDS)
        return waiting


def shown(found: BundleAnswer | Reason) -> int | str:
    return found.value if isinstance(found, Reason) else found.message_count


SETTINGS = Settings(housekeeping_seconds=0)


def in_threads(_: Path) -> Iterator[Waiting]:
    store = CountingStore()
    with restante.open(None, store=store, settings=SETTINGS) as hub:
        core = inside(hub)
        yield Waiting(store, core, lambda wait: shown(core.call(Peek("ada", wait=wait))))


def in_tasks(_: Path) -> Iterator[Waiting]:
    store = CountingStore()
    with restante.open(None, store=store, settings=SETTINGS) as hub:
        core = inside(hub)
        link = InProcess(core)
        yield Waiting(store, core, lambda wait: shown(asyncio.run(link.call(Peek("ada", wait=wait)))))


def over_http(_: Path) -> Iterator[Waiting]:
    store = CountingStore()
    with start(None, SETTINGS, store=store) as running:
        wire = Wire(running.url)

        def peek(wait: float) -> int | str:
            answer = wire.get(f"/v1/recipients/ada/peek?wait={wait}")
            return answer.headers.get("restante-empty-reason") or len(answer.json()["messages"])

        yield Waiting(store, running.desk.hub, peek)
        wire.close()


@pytest.fixture(params=[in_threads, in_tasks, over_http], ids=lambda way: way.__name__)
def waiting(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Waiting]:
    yield from request.param(tmp_path)


def test_a_wait_for_nothing_looks_once_and_has_the_reason_from_it(waiting: Waiting) -> None:
    assert waiting.peek(0.02) == "recipient_unknown"
    assert waiting.store.looks == 1


def test_a_peek_that_does_not_wait_looks_once(waiting: Waiting) -> None:
    assert waiting.peek(0) == "recipient_unknown"
    assert waiting.store.looks == 1


def test_a_wait_that_is_told_of_mail_looks_once_more(waiting: Waiting) -> None:
    with ThreadPoolExecutor(1) as pool:
        found = waiting.begin(pool)
        waiting.hub.call(Publish.of(Message(recipient="bob", data=1)))
        waiting.hub.call(Publish.of(Message(recipient="ada", data=1)))
        assert found.result(SECONDS) == 1
    assert waiting.store.looks == 2


def test_a_wait_that_is_told_in_vain_looks_once_more_and_waits_on(waiting: Waiting) -> None:
    """A bell that rings for nothing, as it does when two recipients have one hash, costs a look and no more."""
    with ThreadPoolExecutor(1) as pool:
        found = waiting.begin(pool)
        waiting.hub.core.bell.ring_all()
        assert waiting.store.looked.acquire(timeout=SECONDS)
        waiting.hub.call(Publish.of(Message(recipient="ada", data=1)))
        assert found.result(SECONDS) == 1
    assert waiting.store.looks == 3


GROUPED = Settings(
    housekeeping_seconds=0,
    origins={"one": OriginSettings(group="both"), "two": OriginSettings(group="both")},
)


def test_a_peek_says_the_reason_that_explain_says() -> None:
    with restante.open(None, store=MemoryStore(), settings=GROUPED) as opened:
        hub = inside(opened)

        def reasons(**asked: Any) -> tuple[object, object]:
            return hub.call(Peek("ada", **asked)), hub.call(Explain("ada", **asked)).reason

        assert reasons() == (Reason.RECIPIENT_UNKNOWN, Reason.RECIPIENT_UNKNOWN)
        hub.call(Publish.of([Message(recipient="ada", origin=origin, data=1) for origin in ("one", "two")]))
        assert reasons(origins=("three",)) == (Reason.NOTHING_WAITING, Reason.NOTHING_WAITING)
        assert isinstance(hub.call(Peek("ada", origins=("one",))), BundleAnswer)
        assert reasons(origins=("two",)) == (Reason.BUNDLE_OPEN_IN_GROUP, Reason.BUNDLE_OPEN_IN_GROUP)
