"""What happens between looking into a mailbox and committing: nothing is lost, nothing is counted twice."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from threading import Semaphore
from typing import Any

import pytest

import restante
from restante import Message
from restante.client.surface.sync import Hub
from restante.errors import MessageCollected, MessageErased
from restante.hub.doctor.doctor import examine
from restante.hub.removal import erase, removal
from restante.model.storage.changes import Space
from restante.ports.content import Content, ContentRequest, OriginPort
from restante.settings import Settings
from restante.stores.memory import MemoryStore

SECONDS = 30.0
"""Longer than anything here takes; a test that waits so long has failed."""
ID = "00000000-0000-4000-8000-000000000001"


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore()


class Office:
    """An origin that delivers content that is different each time."""

    def __init__(self) -> None:
        self.asked = 0
        self.meanwhile: Callable[[], object] = lambda: None

    def deliver(self, _: ContentRequest) -> Content:
        self.asked += 1
        self.meanwhile()
        return Content(data=b"content %d" % self.asked)


@pytest.fixture
def office() -> Office:
    return Office()


@pytest.fixture
def hub(store: MemoryStore, office: Office) -> Iterator[Hub]:
    settings = Settings(partition_count=1, filing=False, housekeeping_seconds=0)
    charges = OriginPort(content=office.deliver)
    with restante.open(None, store=store, settings=settings, origins={"charges": charges}) as opened:
        yield opened
        opened.file()
        assert [finding.what for finding in examine(store).findings] == []


def once(monkeypatch: pytest.MonkeyPatch, module: Any, name: str, then: Callable[[], object]) -> None:
    """The first call of a function is followed by something else that happens at that moment."""
    real = getattr(module, name)

    def wrapped(*arguments: Any) -> Any:
        found = real(*arguments)
        monkeypatch.setattr(module, name, real)
        then()
        return found

    monkeypatch.setattr(module, name, wrapped)


def test_a_message_that_arrives_while_its_recipient_is_erased_stays(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    hub.producer.send(Message(recipient="ada", data=1))
    once(monkeypatch, erase, "_find", lambda: hub.producer.send(Message(recipient="ada", data=2)))
    assert hub.recipient("ada").erase() == 1
    assert [message.data for message in hub.recipient("ada").history().messages] == [2]
    assert hub.partitions()[0].waiting == 1


@pytest.mark.parametrize("settle", ["withdraw", "set_aside"])
def test_what_is_erased_meanwhile_is_not_settled_again(hub: Hub, monkeypatch: pytest.MonkeyPatch, settle: str) -> None:
    hub.producer.send(Message(recipient="ada", id=ID, data=1))
    once(monkeypatch, removal, "find_row", hub.recipient("ada").erase)
    with pytest.raises(MessageErased):
        getattr(hub.recipient("ada"), settle)(ID)
    assert hub.partitions()[0].waiting == 0


def test_what_is_collected_meanwhile_is_not_withdrawn(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    hub.producer.send(Message(recipient="ada", id=ID, data=1))

    def collect() -> None:
        bundle = hub.recipient("ada").peek()
        assert bundle is not None
        bundle.dequeue()

    once(monkeypatch, removal, "find_row", collect)
    with pytest.raises(MessageCollected):
        hub.recipient("ada").withdraw(ID)
    assert hub.partitions()[0].waiting == 0


def test_content_that_comes_when_its_recipient_is_erased_is_not_kept(
    hub: Hub, store: MemoryStore, office: Office
) -> None:
    hub.producer.send(Message(recipient="ada", origin="charges", weight=1))
    office.meanwhile = hub.recipient("ada").erase
    hub.recipient("ada").peek()
    assert list(store.scan(0, Space.CONTENT)) == []


def test_peeks_while_content_is_asked_for_get_the_one_answer(hub: Hub, office: Office) -> None:
    hub.producer.send(Message(recipient="ada", origin="charges", weight=1))
    several = 8
    with ThreadPoolExecutor(several) as pool:
        begun = Semaphore(0)

        def peek() -> bytes | None:
            begun.release()
            bundle = hub.recipient("ada").peek()
            assert bundle is not None
            return bundle.content

        # The origin answers when all have begun; those that look only after it has find what was kept.
        office.meanwhile = lambda: [begun.acquire(timeout=SECONDS) for _ in range(several)]
        peeks = [pool.submit(peek) for _ in range(several)]
        assert {one.result(SECONDS) for one in peeks} == {b"content 1"}
    assert office.asked == 1
