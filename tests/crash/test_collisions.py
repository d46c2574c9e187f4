"""All recipients have the same hash, and all messages the same fingerprint: mail is never mixed."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import numpy as np
import pytest
from numpy.typing import NDArray

import restante
from restante.client.surface.surface import Hub
from restante.errors import BundleUnknown, MessageConflict, MessageErased, MessageUnknown
from restante.model.publishing.message import Message, State
from restante.settings import Settings
from restante.stores.memory import MemoryStore
from tests.crash.seen import check_counters, mailbox_of, seen
from tests.hub.engines import FakeClock

SETTINGS = Settings(partition_count=1, housekeeping_seconds=0, filing=False, collected_retention_seconds=100)
NAMES = ("ada", "ben", "ada ", "...", "ä", "cleo")


def all_alike(_: NDArray[np.uint8], lengths: NDArray[np.int64], key: int) -> NDArray[np.uint64]:
    return np.full(len(lengths), 7, np.uint64)


def all_one(first: NDArray[np.uint64], second: NDArray[np.uint64]) -> NDArray[np.uint64]:
    return np.full(len(first), 9, np.uint64)


@pytest.fixture(params=["recipients", "recipients and fingerprints"], autouse=True)
def colliding(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where all text hashes come from, and all fingerprints."""
    monkeypatch.setattr("restante.model.columns.hashing._hashes_of_words", all_alike)
    monkeypatch.setattr("restante.model.columns.hashing._hash_of_words", lambda content, key: 7)
    if request.param != "recipients":
        monkeypatch.setattr("restante.model.columns.hashing.combine", all_one)
        monkeypatch.setattr("restante.model.columns.hashing.combine_one", lambda first, second: 9)
        monkeypatch.setattr("restante.model.storage.handful.combine_one", lambda first, second: 9)
        for module in ("hub.publishing.publish_few", "model.publishing.delay"):
            monkeypatch.setattr(f"restante.{module}.fingerprint", lambda recipient_hash, first, second: 9)


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore()


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def hub(store: MemoryStore, clock: FakeClock) -> Iterator[Hub]:
    with restante.open(None, store=store, settings=SETTINGS, clock=clock) as opened:
        yield opened


@pytest.fixture(params=["unfiled", "filed"])
def furnished(request: pytest.FixtureRequest, hub: Hub) -> Hub:
    """Everybody gets messages with the same ids, in several mailbags and cabinets."""
    for number in range(4):
        hub.producer.send([message(name, number, kind=f"kind {number % 2}") for name in NAMES])
    if request.param == "filed":
        hub.file()
    return hub


def id_of(number: int) -> str:
    return str(uuid.UUID(int=number))


def message(name: str, number: int, *, kind: str = "kind 0") -> Message:
    return Message(recipient=name, id=id_of(number), kind=kind, data=f"{name}: {number}".encode())


def data_of(hub: Hub, name: str) -> list[bytes]:
    return [each.data for each in mailbox_of(hub, name).history]


def all_data(name: str) -> list[bytes]:
    return [f"{name}: {number}".encode() for number in range(4)]


def test_everybody_sees_and_collects_their_own(furnished: Hub) -> None:
    for name in NAMES:
        assert data_of(furnished, name) == all_data(name)
        collected = []
        for bundle in furnished.recipient(name).bundles(idle=0):
            collected += [each.data for each in bundle.messages]
            bundle.dequeue()
        assert sorted(collected) == all_data(name)
        assert furnished.recipient(name).peek() is None
    assert sum(status.waiting for status in furnished.partitions()) == 0


def test_a_bundle_of_one_is_none_of_another(furnished: Hub) -> None:
    proposed = id_of(99)
    for name in NAMES:
        bundle = furnished.recipient(name).peek(bundle_id=proposed)
        assert bundle is not None
        assert {each.recipient for each in bundle.messages} == {name}
    furnished.recipient("ada").dequeue(proposed)
    with pytest.raises(BundleUnknown):
        furnished.recipient("nobody").dequeue(proposed)
    assert len(mailbox_of(furnished, "ben").of(State.COLLECTED)) == 0
    assert len(mailbox_of(furnished, "ada").of(State.COLLECTED)) == 2
    check_counters(seen(furnished, NAMES))


def test_duplicates_and_conflicts_are_those_of_one_recipient(furnished: Hub) -> None:
    again = furnished.producer.send([message("ada", 0), message("newcomer", 0), message("ada", 50)])
    assert (again.accepted, again.duplicates) == (2, 1)
    with pytest.raises(MessageConflict) as caught:
        furnished.producer.send([message("ben", 51), Message(recipient="ada", id=id_of(0), data=b"other")])
    assert [fault.index for fault in caught.value.faults] == [1]
    assert data_of(furnished, "newcomer") == [b"newcomer: 0"]


def test_twins_in_one_publish_are_told_apart(hub: Hub) -> None:
    receipt = hub.producer.send([message("ada", 1), message("ben", 1), message("ada", 1), message("ada", 2)])
    assert (receipt.accepted, receipt.duplicates) == (3, 1)


def test_recipients_are_listed_each(furnished: Hub) -> None:
    listed = {each.recipient: each.waiting for each in furnished.recipients().recipients}
    assert listed == dict.fromkeys(NAMES, 4)


def test_find_withdraw_and_set_aside_touch_one_recipient(furnished: Hub) -> None:
    assert furnished.recipient("ben").find(id_of(3)).data == b"ben: 3"
    with pytest.raises(MessageUnknown):
        furnished.recipient("nobody").find(id_of(3))
    furnished.recipient("ben").withdraw(id_of(3))
    furnished.recipient("cleo").set_aside(id_of(3))
    states = {name: mailbox_of(furnished, name).history[3].state for name in NAMES}
    assert states == {**dict.fromkeys(NAMES, State.WAITING), "ben": State.WITHDRAWN, "cleo": State.SET_ASIDE}
    check_counters(seen(furnished, NAMES))


def test_purging_one_leaves_the_others(furnished: Hub) -> None:
    assert furnished.recipient("ada").purge(all=True) == 4
    assert len(mailbox_of(furnished, "ada ").of(State.WAITING)) == 4


def test_erasing_one_leaves_the_others(furnished: Hub, clock: FakeClock) -> None:
    assert furnished.recipient("ada").erase() == 4
    assert data_of(furnished, "ada") == []
    for name in NAMES[1:]:
        assert data_of(furnished, name) == all_data(name)
    with pytest.raises(MessageErased):
        furnished.producer.send(message("ada", 0))
    clock.advance(10)
    check_counters(seen(furnished, NAMES))


def test_an_erased_id_may_still_be_sent_to_others(furnished: Hub) -> None:
    furnished.recipient("ada").erase()
    assert furnished.producer.send(message("newcomer", 0)).accepted == 1
    assert furnished.producer.send(message("ben", 0)).duplicates == 1
    with pytest.raises(MessageUnknown):
        furnished.recipient("nobody").find(id_of(0))


def test_what_one_forgets_the_others_keep(furnished: Hub, clock: FakeClock) -> None:
    for bundle in furnished.recipient("ada").bundles(idle=0):
        bundle.dequeue()
    clock.advance(101)
    assert furnished.retain() == 4
    furnished.file()
    assert data_of(furnished, "ada") == []
    assert furnished.producer.send(message("ada", 0)).accepted == 1
    for name in NAMES[1:]:
        assert data_of(furnished, name) == all_data(name)


def test_a_reopened_hub_tells_them_apart_too(furnished: Hub, store: MemoryStore, clock: FakeClock) -> None:
    furnished.recipient("ben").peek(bundle_id=id_of(98))
    with restante.open(None, store=store.survivor(), settings=SETTINGS, clock=clock) as hub:
        assert seen(hub, NAMES) == seen(furnished, NAMES)
        assert hub.producer.send([message(name, 0) for name in NAMES]).duplicates == len(NAMES)
