"""What happens between looking into a mailbox and committing: nothing is lost, nothing is counted twice."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

import restante
from restante import Message
from restante.client.surface.sync import Hub
from restante.errors import MessageCollected, MessageErased
from restante.hub.doctor.doctor import examine
from restante.hub.removal import erase, removal
from restante.settings import Settings
from restante.stores.memory import MemoryStore

ID = "00000000-0000-4000-8000-000000000001"


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore()


@pytest.fixture
def hub(store: MemoryStore) -> Iterator[Hub]:
    settings = Settings(partition_count=1, filing=False, housekeeping_seconds=0)
    with restante.open(None, store=store, settings=settings) as opened:
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
