"""Numbered publishes side by side, in commits that fail, and under the doctor's eyes."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

import restante
from restante import limits
from restante.assembly import open_hub
from restante.calls.mailboxes import ReadHistory
from restante.calls.producers import ReadProducer
from restante.calls.publishing import Publish
from restante.errors import InvalidClientState, InvalidMessage, OutcomeUnknown, StorageFull
from restante.hub.doctor.doctor import examine
from restante.hub.door.hub import OpenHub
from restante.hub.door.in_process import InProcess
from restante.hub.engine.commit_request import Planned
from restante.hub.publishing.producers import ProducerMemory
from restante.model.mailboxes.answers import Receipt
from restante.model.producers.producer import ProducerNumbers, ProducerRow
from restante.model.publishing.message import Message
from restante.model.storage.changes import Changes, Space
from restante.model.storage.keys import number_key
from restante.settings import Settings
from restante.stores.memory import MemoryStore
from restante.stores.sqlite import SqliteStore

SETTINGS = Settings(partition_count=1, housekeeping_seconds=0, filing=False)
GROUP = 7


def numbered(first: int, *, level: int = 0, group: int = GROUP) -> ProducerNumbers:
    return ProducerNumbers(group=group, owner_level=level, published_sequence=first)


def letter(text: object) -> Message:
    return Message(recipient="ada", data=text)


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore()


@pytest.fixture
def hub(store: MemoryStore) -> Iterator[OpenHub]:
    opened = open_hub(None, settings=SETTINGS, store=store)
    yield opened
    opened.close()


def texts(hub: OpenHub) -> list[object]:
    return [message.data for message in hub.call(ReadHistory("ada", limit=1_000)).messages]


def test_parcels_of_one_producer_that_wait_side_by_side_are_stored_in_their_order(hub: OpenHub) -> None:
    async def send_all() -> list[Receipt]:
        link = InProcess(hub)
        return await asyncio.gather(
            *(link.call(Publish.of([letter(number)], partition=0, producer=numbered(number))) for number in range(300))
        )

    receipts = asyncio.run(send_all())
    assert texts(hub) == list(range(300))
    assert not any(receipt.replayed for receipt in receipts)


def send_together(
    hub: OpenHub, *parcels: tuple[list[Message], ProducerNumbers | None]
) -> list[Receipt | BaseException]:
    """All wait before the first of them is planned: the committer is kept busy until then."""

    async def send() -> list[Receipt | BaseException]:
        link, free = InProcess(hub), threading.Event()
        hub.core.committer.submit_soon(Planned(lambda _: free.wait(30)), asyncio.get_running_loop().create_future())
        sending = [
            asyncio.ensure_future(link.call(Publish.of(messages, partition=0, producer=numbers)))
            for messages, numbers in parcels
        ]
        await asyncio.sleep(0)
        free.set()
        return await asyncio.gather(*sending, return_exceptions=True)

    return asyncio.run(send())


def test_parcels_that_follow_each_other_go_into_one_commit(hub: OpenHub, store: MemoryStore) -> None:
    commits: list[int] = []
    commit = store.commit

    def counted(changes: Changes) -> None:
        commits.append(len(changes.entries))
        commit(changes)

    store.commit = counted  # type: ignore[method-assign]  # the store is real, only counted
    send_together(hub, *(([letter(number)], numbered(number)) for number in range(20)))
    assert texts(hub) == list(range(20))
    assert len(commits) == 1
    assert hub.call(ReadProducer(0, GROUP)).last_published_sequence_number == 19


def test_behind_a_refused_parcel_the_next_number_is_not_the_next(hub: OpenHub) -> None:
    bad = Message(recipient=" ", data=1)
    answers = send_together(
        hub, ([letter(0)], numbered(0)), ([bad], numbered(1)), ([letter(2)], numbered(2)), ([letter("x")], None)
    )
    assert isinstance(answers[0], Receipt)
    assert isinstance(answers[1], InvalidMessage)
    assert isinstance(answers[2], InvalidClientState)
    assert answers[2].details == {"expected": 1}
    assert sorted(map(str, texts(hub))) == ["0", "x"]


def test_a_message_stored_before_does_not_hold_up_those_behind_it(hub: OpenHub) -> None:
    known = Message(recipient="ada", id="0198c5a2-6f1e-7c3b-9d4a-1b2c3d4e5f60", data="known")
    hub.call(Publish.of(known))
    answers = send_together(hub, ([letter(0)], numbered(0)), ([known], numbered(1)), ([letter(2)], numbered(2)))
    assert [answer.duplicates for answer in answers if isinstance(answer, Receipt)] == [0, 1, 0]
    assert texts(hub) == ["known", 0, 2]


def test_small_and_large_parcels_of_one_producer_keep_their_order(hub: OpenHub) -> None:
    many = [letter(["large", number]) for number in range(limits.FEW_MESSAGES_MAX + 1)]
    count = len(many)
    answers = send_together(
        hub,
        ([letter("a")], numbered(0)),
        (many, numbered(1)),
        ([letter("b")], numbered(count + 1)),
        ([letter("c")], numbered(count + 2)),
    )
    stored = [text for text in texts(hub) if isinstance(text, str)]
    fine = [answer for answer in answers if isinstance(answer, Receipt)]
    # The large one is prepared in a thread, and may come behind the small ones: then these are refused, and not stored.
    assert stored == (["a", "b", "c"] if len(fine) == 4 else ["a"])
    assert texts(hub)[1 : count + 1] == [message.data for message in many]


def test_the_same_parcel_waiting_twice_is_stored_once(hub: OpenHub) -> None:
    async def send_twice() -> list[Receipt]:
        link = InProcess(hub)
        return await asyncio.gather(
            *(link.call(Publish.of([letter("once")], partition=0, producer=numbered(0))) for _ in range(2))
        )

    first, second = asyncio.run(send_twice())
    assert texts(hub) == ["once"]
    assert (first.replayed, second.replayed) == (False, True)
    assert first.partitions == second.partitions


def test_many_producers_share_a_commit_with_plain_publishers(hub: OpenHub) -> None:
    async def send_all() -> None:
        link = InProcess(hub)
        for round_number in range(4):
            parcels = [
                link.call(
                    Publish.of(
                        [letter([group, round_number])], partition=0, producer=numbered(round_number, group=group)
                    )
                )
                for group in range(50)
            ]
            plain = [link.call(Publish.of([letter("plain")])) for _ in range(50)]
            await asyncio.gather(*parcels, *plain)

    asyncio.run(send_all())
    stored = texts(hub)
    for group in range(50):
        own = [value for value in stored if isinstance(value, list) and value[0] == group]
        assert own == [[group, round_number] for round_number in range(4)]
    assert stored.count("plain") == 200


def test_a_large_parcel_and_the_small_one_after_it_keep_their_order(hub: OpenHub) -> None:
    many = [letter(number) for number in range(limits.FEW_MESSAGES_MAX + 1)]

    async def send_both() -> None:
        link = InProcess(hub)
        large = asyncio.ensure_future(link.call(Publish.of(many, partition=0, producer=numbered(0))))
        await large
        await link.call(Publish.of([letter("last")], partition=0, producer=numbered(len(many))))

    asyncio.run(send_both())
    assert texts(hub) == [*range(len(many)), "last"]


def test_a_commit_that_found_no_room_leaves_the_numbers_as_they_were(hub: OpenHub, store: MemoryStore) -> None:
    store.fail_at(0, StorageFull("There is no room."))
    with pytest.raises(StorageFull):
        hub.call(Publish.of([letter("first")], partition=0, producer=numbered(0)))
    assert not hub.call(Publish.of([letter("second")], partition=0, producer=numbered(0))).replayed
    assert texts(hub) == ["second"]


@pytest.mark.parametrize("stored", [False, True])
def test_after_a_commit_that_broke_off_the_same_parcel_is_stored_once(stored: bool) -> None:
    store = MemoryStore()
    with restante.open(None, settings=SETTINGS, store=store):
        pass
    store = store.survivor()
    hub = open_hub(None, settings=SETTINGS, store=store)
    store.fail_at(1_000 if stored else 0)
    with pytest.raises(OutcomeUnknown):
        hub.call(Publish.of([letter("once")], partition=0, producer=numbered(0)))
    hub.close()
    opened = open_hub(None, settings=SETTINGS, store=store.survivor())
    if stored:
        with pytest.raises(InvalidClientState):
            opened.call(Publish.of([letter("other")], partition=0, producer=numbered(0)))
    again = opened.call(Publish.of([letter("once")], partition=0, producer=numbered(0)))
    assert again.replayed is stored
    assert texts(opened) == ["once"]
    opened.close()


def test_the_state_of_more_producers_than_are_remembered_is_read_from_the_store(
    hub: OpenHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "PRODUCERS_REMEMBERED_MAX", 3)
    for first in (0, 1):
        for group in range(10):
            hub.call(Publish.of([letter([group, first])], partition=0, producer=numbered(first, group=group)))
    assert len(hub.core.memory(ProducerMemory).rows) == 3
    assert len(texts(hub)) == 20


@pytest.mark.parametrize(
    "wrong",
    [
        {"owner_level": -1},
        {"last": -5},
        {"range": (0, 2, (b"d" * 16, b"d" * 16), 1, 1, 1)},
        {"range": (0, 1, (b"short", b"d" * 16), 1, 1, 1)},
        {"range": (0, 1, (b"d" * 16, b"d" * 16), 1, 9, 9)},
    ],
)
def test_the_doctor_finds_a_producer_that_cannot_be(tmp_path: Path, wrong: dict[str, object]) -> None:
    opened = open_hub(tmp_path, settings=SETTINGS)
    opened.call(Publish.of([letter("one")], partition=0, producer=numbered(0)))
    opened.close()
    store = SqliteStore.open(tmp_path)
    assert examine(store).sound
    value = store.get(0, Space.PRODUCER, number_key(GROUP))
    assert value is not None
    row = msgspec.msgpack.decode(value)
    fields = ProducerRow.__struct_fields__
    for name, new in wrong.items():
        row[fields.index(name)] = new
    store.close()
    patched = open_hub(tmp_path, settings=SETTINGS)
    patched.core.commit(lambda draft: draft.put(0, Space.PRODUCER, number_key(GROUP), msgspec.msgpack.encode(row)))
    patched.close()
    store = SqliteStore.open(tmp_path)
    (finding,) = examine(store).findings
    assert "producer" in finding.what
    assert "makes no sense (" not in finding.detail, "it is read, and found to be wrong"
    store.close()
