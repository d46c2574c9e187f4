"""The short way of few messages stores what the long way stores, and steps aside where it must."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator

import pytest

import restante
import restante.aio
from restante.calls.publishing import Publish
from restante.client.surface.surface import Hub
from restante.errors import InvalidMessage, InvalidRequest, MessageConflict, Unavailable
from restante.hub.door import hub as hubs
from restante.hub.publishing.publish_request import PlainPublish, PublishRequest
from restante.limits import DATA_BYTES_MAX, FEW_MESSAGES_MAX, SEND_BYTES_MAX
from restante.model.access.access import EVERYTHING
from restante.model.mailboxes.answers import Receipt
from restante.model.publishing.message import Message, State
from restante.model.storage.changes import Space
from restante.settings import Settings
from restante.stores.memory import MemoryStore
from tests.crash.seen import inside, mailbox_of
from tests.hub.engines import FakeClock
from tests.hub.letters import id_of
from tests.hub.test_concurrency import HeldStore, in_one_commit

PARTITIONS = 4
SETTINGS = Settings(partition_count=PARTITIONS, housekeeping_seconds=0, filing=False)


@pytest.fixture
def hub() -> Iterator[Hub]:
    with restante.open(None, store=MemoryStore(), settings=SETTINGS, clock=FakeClock()) as opened:
        yield opened


def test_a_plain_publish_sets_all_that_its_classes_have() -> None:
    """It sets them at once, without its classes."""
    plain, other = PlainPublish((), tuple, EVERYTHING), PublishRequest(())
    slots = {name for kind in PublishRequest.__mro__ for name in getattr(kind, "__slots__", ())}
    assert {name for name in slots if not hasattr(plain, name)} == set()
    alike = slots - {"light", "letters"}
    assert {name: getattr(plain, name) for name in alike} == {name: getattr(other, name) for name in alike}


def sends(seed: int) -> list[list[Message]]:
    """A few sends, some of whose messages come again, with the same content or another."""
    chance = random.Random(seed)
    return [
        [
            Message(
                recipient=f"r{chance.randrange(6)}",
                origin=chance.choice("op"),
                kind=chance.choice("kl"),
                id=id_of(chance.randrange(60)),
                data=chance.choice([b"", b"x" * 40]),
                properties=chance.choice([{}, {"a": "b"}]),
            )
            for _ in range(chance.randrange(1, 5))
        ]
        for _ in range(30)
    ]


def stored(seed: int) -> tuple[list[object], list[object]]:
    """What the sends are answered, and everything that is stored then."""
    store, answers = MemoryStore(), list[object]()
    chance = random.Random(seed)
    hub = hubs.OpenHub(store, settings=SETTINGS, origins={}, clock=FakeClock(), random=chance.randbytes)
    for messages in sends(seed):
        try:
            answers.append(hub.call(Publish.of(messages)))
        except MessageConflict as error:
            answers.append((error.message, error.faults))
    content: list[object] = []
    for partition in range(PARTITIONS):
        content += [store.scan(partition, space) for space in Space]
        for run in hub.core.partitions[partition].runs:
            content += [
                bytes(store.read_blob(one.blob, 0, place.length))
                for one, place in zip(run.segments, run.row.segments, strict=True)
            ]
    hub.close()
    return answers, content


@pytest.mark.parametrize("seed", range(8))
def test_the_short_way_stores_what_the_long_way_stores(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    short = stored(seed)
    assert any(isinstance(answer, Receipt) and answer.accepted for answer in short[0])
    monkeypatch.setattr("restante.limits.COMMIT_FEW_BYTES_MAX", -1)
    assert stored(seed) == short


def test_ordinary_messages_go_the_short_way(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    def long_way(*_: object) -> None:
        raise AssertionError("this is the long way")

    monkeypatch.setattr("restante.hub.publishing.publish._small_unit", long_way)
    messages = [Message(recipient=f"r{number}", data={"a": number}) for number in range(FEW_MESSAGES_MAX)]
    assert hub.producer.send(messages).accepted == FEW_MESSAGES_MAX
    with pytest.raises(Unavailable, match="AssertionError"):
        hub.producer.send([*messages[:2], Message(recipient="")])


def test_a_message_sent_again_is_known_however_long_ago_it_came(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("restante.hub.engine.partitions._RECENT_MAX", 5)
    messages = [Message(recipient=f"r{number % 3}", id=id_of(number), data=b"x") for number in range(40)]
    for message in messages:
        assert hub.producer.send(message).accepted == 1
    assert [hub.producer.send(message).duplicates for message in messages] == [1] * 40
    with pytest.raises(MessageConflict):
        hub.producer.send(Message(recipient="r0", id=id_of(0), data=b"y"))
    assert sum(len(mailbox_of(hub, f"r{number}").of(State.WAITING)) for number in range(3)) == 40


def test_few_beside_many_of_the_same_identities_are_duplicates_in_one_commit() -> None:
    store = HeldStore(MemoryStore())
    many = [Message(recipient="ada", id=id_of(number), data=b"x") for number in range(200)]
    with restante.open(None, store=store, settings=SETTINGS, clock=FakeClock()) as hub:
        in_one_commit(hub, store, lambda hub: hub.producer.send(many), lambda hub: hub.producer.send(many[:3]))
        assert len(mailbox_of(hub, "ada").of(State.WAITING)) == 200


def test_few_beside_many_of_others_are_all_stored_in_one_commit() -> None:
    store = HeldStore(MemoryStore())
    many = [Message(recipient="ada", id=id_of(number), data=b"x") for number in range(200)]
    few = [Message(recipient=name, id=id_of(200), data=b"y") for name in ("ada", "ben")]
    with restante.open(None, store=store, settings=SETTINGS, clock=FakeClock()) as hub:
        in_one_commit(hub, store, lambda hub: hub.producer.send(many), lambda hub: hub.producer.send(few))
        assert len(mailbox_of(hub, "ada").of(State.WAITING)) == 201
        assert len(mailbox_of(hub, "ben").of(State.WAITING)) == 1
        numbers = [message.sequence_number for message in mailbox_of(hub, "ada").history]
        assert len(set(numbers)) == 201
        assert [hub.producer.send(few).duplicates, hub.producer.send(many).duplicates] == [2, 200]


def test_small_sends_that_are_large_together_are_all_stored() -> None:
    count = SEND_BYTES_MAX // DATA_BYTES_MAX + 10

    async def send_all() -> list[Receipt]:
        async with restante.aio.open(None, store=MemoryStore(), settings=SETTINGS) as hub:
            messages = [Message(recipient=f"r{number}", data=bytes(DATA_BYTES_MAX)) for number in range(count)]
            return await asyncio.gather(*(hub.producer.send(message) for message in messages))

    assert [receipt.accepted for receipt in asyncio.run(send_all())] == [1] * count


def test_a_send_beyond_the_bound_is_refused_alone() -> None:
    store, refused = HeldStore(MemoryStore()), list[InvalidRequest]()
    large = [Message(recipient="ada", data=bytes(DATA_BYTES_MAX)) for _ in range(SEND_BYTES_MAX // DATA_BYTES_MAX)]

    def too_much(hub: Hub) -> None:
        with pytest.raises(InvalidRequest) as raised:
            hub.producer.send(large)
        refused.append(raised.value)

    with restante.open(None, store=store, settings=SETTINGS, clock=FakeClock()) as hub:
        in_one_commit(hub, store, too_much, lambda hub: hub.producer.send(Message(recipient="ben", data=b"x")))
        assert len(refused) == 1
        assert len(mailbox_of(hub, "ada").history) == 0
        assert len(mailbox_of(hub, "ben").history) == 1


def test_properties_that_json_makes_too_long_are_refused(hub: Hub) -> None:
    with pytest.raises(InvalidMessage, match="as JSON"):
        hub.producer.send(Message(recipient="ada", data=b"x", properties={"a": "\1" * 16_000}))
    longest = {"a": "\1" * 10_000}
    hub.producer.send(Message(recipient="ada", data=b"x", properties=longest))
    assert [message.properties for message in mailbox_of(hub, "ada").history] == [longest]


def test_filing_a_handful_is_one_commit_and_leaves_no_blob_behind(hub: Hub) -> None:
    for number in range(40):
        hub.producer.send(Message(recipient="ada", id=id_of(number), data=b"x"))
    before = mailbox_of(hub, "ada").history
    assert hub.file() == 40
    assert mailbox_of(hub, "ada").history == before
    core = inside(hub).core
    assert sum(len(core.store.blobs(partition)) for partition in range(PARTITIONS)) == 1


def test_a_plain_publish_has_all_that_a_publish_has() -> None:
    """It sets the fields of its base classes itself, so a new one there must be set here, too."""
    made = PlainPublish((), lambda: (), EVERYTHING)
    fields = {name for kind in PlainPublish.__mro__ for name in getattr(kind, "__slots__", ())}
    assert {name for name in fields if not hasattr(made, name)} <= {"__weakref__"}
