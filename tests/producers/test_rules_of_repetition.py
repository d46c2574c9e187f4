"""Numbered publishing, rule by rule: the last range again is acknowledged and stored once; other messages never are."""

from __future__ import annotations

import http.client
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from uuid import UUID

import msgspec
import pyarrow as pa
import pytest

import restante
from restante.calls.producers import ReadProducer
from restante.calls.publishing import Publish
from restante.client.surface.sync import Hub
from restante.errors import InvalidClientState, ProducerDisconnected, RestanteError
from restante.hub.doctor.doctor import examine
from restante.limits import MIB
from restante.model.mailboxes.answers import Receipt
from restante.model.producers.producer import ProducerNumbers
from restante.model.publishing.message import Message
from restante.stores.memory import MemoryStore
from restante.wire.publish import stream_bytes
from tests.crash.seen import inside
from tests.hub.engines import FakeClock, WireHub
from tests.hub.letters import at, id_of, letter, letters
from tests.hub.test_concurrency import HeldStore, in_one_commit
from tests.producers.desk import GROUP, SETTINGS, Desk, link_of, replays, table_of
from tests.profiles import places

FEW, MANY = 3, 200
"""The first go the short way, message by message; the others the long way, as columns."""


# The same once more.


@pytest.mark.parametrize("count", [1, FEW, MANY])
def test_the_last_range_again_is_acknowledged_and_stored_once(desk: Desk, count: int) -> None:
    desk.publish(0, letter(500))
    receipt = desk.publish(1, letters(range(count)))
    for _ in range(3):
        assert desk.publish(1, letters(range(count))) == replays(receipt)
    assert desk.stored() == [500, *range(count)]
    assert desk.level_and_last() == (0, count)
    assert desk.publish(count + 1, letter(600)).accepted == 1


@pytest.mark.parametrize("count", [FEW, MANY])
def test_the_last_range_is_known_after_many_other_commits(desk: Desk, count: int) -> None:
    receipt = desk.publish(0, letters(range(count)))
    for number in range(1_000, 1_040):
        desk.link.call(Publish.of(letter(number, desk.neighbour)))
        desk.publish(0, letter(number, desk.neighbour), group=number)
    desk.hub.file()
    assert desk.publish(0, letters(range(count))) == replays(receipt)
    assert desk.stored() == list(range(count))


@pytest.mark.parametrize("count", [FEW, MANY])
def test_the_last_range_is_known_after_a_restart(desk: Desk, count: int) -> None:
    receipt = desk.publish(0, letters(range(count)))
    desk.reopen()
    assert desk.publish(0, letters(range(count))) == replays(receipt)
    desk.refuses_number(0, letters(range(1, count + 1)), expected=count)
    desk.reopen()
    assert desk.publish(0, letters(range(count))) == replays(receipt)
    assert desk.stored() == list(range(count))
    assert desk.state().replays == 2


def test_another_connection_of_the_same_group_and_level_may_repeat_it(desk: Desk) -> None:
    receipt = desk.publish(0, letters(range(3)))
    numbers = ProducerNumbers(group=GROUP, owner_level=0, published_sequence=0)
    with desk.another_link() as other:
        assert other.call(Publish.of(letters(range(3)), partition=desk.partition, producer=numbers)) == replays(receipt)
        with pytest.raises(InvalidClientState):
            other.call(Publish.of(letters(range(3, 6)), partition=desk.partition, producer=numbers))
    assert desk.stored() == [0, 1, 2]


@pytest.mark.parametrize("fate", ["collected", "erased", "withdrawn", "forgotten"])
def test_a_repetition_stores_nothing_whatever_became_of_the_messages(desk: Desk, fate: str) -> None:
    receipt = desk.publish(0, letters(range(3)))
    recipient = desk.hub.recipient("ada")
    if fate == "erased":
        recipient.erase()
    elif fate == "withdrawn":
        recipient.withdraw(id_of(1))
    else:
        bundle = recipient.peek()
        assert bundle is not None
        bundle.dequeue()
        if fate == "forgotten":
            desk.clock.advance(20 * 86_400)
            desk.hub.retain()
    before = desk.messages()
    assert desk.publish(0, letters(range(3))) == replays(receipt)
    assert desk.messages() == before
    assert recipient.peek() is None or fate == "withdrawn"


# Equal however it is sent.


def written(count: int) -> list[Message]:
    """Messages that say everything there is to say, each something else."""
    return [
        Message(
            recipient="ada",
            data=f"<price number='{number}'/>".encode() * (1 + number % 3),
            id=id_of(number),
            origin=f"origin {number % 2}",
            kind=f"kind {number % 3}",
            document_type="Price list" if number % 2 else None,
            weight=7 + number % 5 if number % 2 else None,
            bundleable=bool(number % 4),
            media_type="text/xml" if number % 3 else None,
            properties={"process": f"D{number:02}", "empty": "", "größe": "ß"} if number % 3 else {},
            expires_at=at(10_000 + number) if number % 2 else None,
        )
        for number in range(count)
    ]


def _identity(messages: Sequence[Message]) -> object:
    return messages


def _binary_ids(messages: Sequence[Message]) -> pa.Table:
    table = table_of(messages)
    ids = pa.array([UUID(message.id).bytes if message.id else None for message in messages], pa.binary(16))
    return table.set_column(table.schema.get_field_index("id"), "id", ids)


def _with_defaults(messages: Sequence[Message]) -> list[Message]:
    """All that a sender may leave out, spelled out."""
    return [
        msgspec.structs.replace(
            message,
            id=message.id.upper() if message.id else None,
            document_type=message.document_type or message.kind,
            weight=message.weight or 1,
            media_type=message.media_type or "application/octet-stream",
        )
        for message in messages
    ]


WAYS: dict[str, Callable[[Sequence[Message]], object]] = {
    "messages": _identity,
    "columns": table_of,
    "columns with binary ids": _binary_ids,
    "messages with defaults": _with_defaults,
}


@pytest.mark.parametrize("count", [FEW, MANY])
@pytest.mark.parametrize("first_way", list(WAYS))
def test_a_repetition_is_the_same_as_messages_and_as_columns(desk: Desk, first_way: str, count: int) -> None:
    receipt = desk.publish(0, WAYS[first_way](written(count)))
    assert receipt.accepted == count
    for way in WAYS.values():
        assert desk.publish(0, way(written(count))) == replays(receipt)
    desk.refuses_number(0, table_of(written(count)[::-1]), expected=count)


@pytest.mark.parametrize("long_way_first", [True, False])
def test_a_repetition_is_the_same_the_short_way_and_the_long(
    desk: Desk, long_way_first: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    ways = (-1, MIB) if long_way_first else (MIB, -1)
    receipts = []
    for most in ways:
        monkeypatch.setattr("restante.limits.COMMIT_FEW_BYTES_MAX", most)
        receipts.append(desk.publish(0, written(12)))
    assert receipts[0].accepted == 12
    assert receipts[1] == replays(receipts[0])


def bodies(messages: Sequence[Message]) -> dict[str, bytes]:
    """The messages as other programs may send them."""
    sent = []
    for message in messages:
        own = {
            name: getattr(message, name)
            for name in ("recipient", "id", "origin", "kind", "document_type", "weight", "bundleable", "properties")
        }
        data = json.loads(message.data) if isinstance(message.data, bytes) else message.data
        sent.append({name: value for name, value in own.items() if value is not None} | {"data": data})
    columns = table_of([msgspec.structs.replace(message, media_type="application/json") for message in messages])
    return {
        "application/json": json.dumps({"messages": sent}, indent=2, ensure_ascii=False).encode(),
        "application/vnd.apache.arrow.stream": bytes(stream_bytes(columns)),
    }


def posted(hub: WireHub, partition: int, content_type: str, body: bytes) -> Receipt:
    """The receipt of a parcel sent without a client of ours, which would make ids."""
    headers = {
        "Content-Type": content_type,
        "Restante-Producer-Group": str(GROUP),
        "Restante-Owner-Level": "0",
        "Restante-Published-Sequence": "0",
    }
    connection = http.client.HTTPConnection(urlsplit(hub.running.url).netloc)
    try:
        connection.request("POST", f"/v1/partitions/{partition}/parcels", body, headers)
        response = connection.getresponse()
        content = response.read()
        assert response.status == 201, content
        return msgspec.json.decode(content, type=Receipt)
    finally:
        connection.close()


@pytest.mark.parametrize("count", [FEW, MANY])
@pytest.mark.parametrize("with_ids", [True, False])
@pytest.mark.parametrize("first", ["application/json", "application/vnd.apache.arrow.stream"])
def test_a_repetition_is_the_same_in_json_and_in_arrow(tmp_path: Path, first: str, with_ids: bool, count: int) -> None:
    sent = [
        Message(
            recipient="ada",
            data=json.dumps(
                {"number": number, "text": ["ä", 1.5, None]}, separators=(",", ":"), ensure_ascii=False
            ).encode(),
            id=id_of(number) if with_ids else None,
            kind=f"kind {number % 3}",
            properties={"a": "b"} if number % 2 else {},
            weight=9 if number % 4 else None,
        )
        for number in range(count)
    ]
    desk = Desk("wire", tmp_path / "data")
    hub = desk.hub
    assert isinstance(hub, WireHub)
    receipt = posted(hub, desk.partition, first, bodies(sent)[first])
    assert receipt.accepted == count
    for content_type, body in bodies(sent).items():
        assert posted(hub, desk.partition, content_type, body) == replays(receipt)
    assert len(desk.messages()) == count
    desk.close()


@pytest.mark.parametrize("engine", ["memory", "sqlite"])
@pytest.mark.parametrize("count", [FEW, MANY])
def test_ids_that_the_hub_made_do_not_matter(tmp_path: Path, engine: str, count: int) -> None:
    """Over the network our client makes the ids; there it is shown by the test of bodies."""
    desk = Desk(engine, tmp_path / "data")
    nameless = [Message(recipient="ada", data=f"letter {number}".encode()) for number in range(count)]
    receipt = desk.publish(0, nameless)
    desk.reopen()
    for sent in (nameless, table_of(nameless)):
        assert desk.publish(0, sent) == replays(receipt)
    assert [message.data for message in desk.messages()] == [message.data for message in nameless]
    named = [
        msgspec.structs.replace(message, id=stored.id)
        for message, stored in zip(nameless, desk.messages(), strict=True)
    ]
    desk.refuses_number(0, named, expected=count)
    desk.close()


# The same numbers with other messages.

SAID = Message(
    recipient="ada",
    data=b"<price/>",
    id=id_of(1),
    origin="charges",
    kind="price list",
    document_type="PriceList",
    weight=7,
    bundleable=False,
    media_type="text/xml",
    properties={"process": "D08", "empty": ""},
    expires_at=at(60),
)

OTHERWISE: list[dict[str, Any]] = [
    {"id": id_of(2)},
    {"id": None},
    {"origin": "charge"},
    {"origin": "default"},
    {"kind": "price lisT"},
    {"document_type": "Pricelist"},
    {"document_type": None},
    {"weight": 8},
    {"weight": None},
    {"bundleable": True},
    {"data": b"<price />"},
    {"data": b"<pricE/>"},
    {"data": b""},
    {"media_type": "text/plain"},
    {"media_type": None},
    {"properties": {}},
    {"properties": {"process": "D08"}},
    {"properties": {"process": "D09", "empty": ""}},
    {"properties": {"process": "D0", "empty": "8"}},
    {"properties": {"process": "", "empty": "D08"}},
    {"expires_at": at(60.000001)},
    {"expires_at": None},
]


@pytest.mark.parametrize("beside", [0, 2, MANY])
def test_the_same_numbers_with_another_message_are_refused(desk: Desk, beside: int, subtests: pytest.Subtests) -> None:
    others = letters(range(100, 100 + beside))
    receipt = desk.publish(0, [*others, SAID])
    changes = [{"recipient": desk.neighbour}, *OTHERWISE]
    for change in [changes[place] for place in places(len(changes), most=5)] if beside == MANY else changes:
        changed = [*others, msgspec.structs.replace(SAID, **change)]
        with subtests.test(changed=change):
            desk.refuses_number(0, changed, expected=beside + 1)
            desk.refuses_number(0, table_of(changed), expected=beside + 1)
    assert desk.publish(0, [*others, SAID]) == replays(receipt)


def _two(**fields: tuple[Any, Any]) -> list[Message]:
    """Two messages that differ in these fields."""
    return [
        Message(recipient="ada", **{"data": b"x", **{name: both[at] for name, both in fields.items()}}) for at in (0, 1)
    ]


IDS = (id_of(1), id_of(2))
MOVED: dict[str, tuple[list[Message], list[Message]]] = {
    "order": (_two(id=IDS, data=(b"a", b"b")), _two(id=IDS[::-1], data=(b"b", b"a"))),
    "bytes": (_two(id=IDS, data=(b"ab", b"c")), _two(id=IDS, data=(b"a", b"bc"))),
    "all bytes": (_two(id=IDS, data=(b"ab", b"")), _two(id=IDS, data=(b"", b"ab"))),
    "data": (_two(id=IDS, data=(b"a", b"b")), _two(id=IDS, data=(b"b", b"a"))),
    "ids": (_two(id=IDS), _two(id=IDS[::-1])),
    "kinds": (_two(id=IDS, kind=("a", "b")), _two(id=IDS, kind=("b", "a"))),
    "text to the next field": (
        _two(id=IDS, kind=("ab", "ab"), document_type=("c", "c")),
        _two(id=IDS, kind=("a", "a"), document_type=("bc", "bc")),
    ),
    "swapped fields": (
        _two(id=IDS, origin=("a", "a"), kind=("b", "b"), document_type=("c", "c")),
        _two(id=IDS, origin=("b", "b"), kind=("a", "a"), document_type=("c", "c")),
    ),
    "weights": (_two(id=IDS, weight=(1, 2)), _two(id=IDS, weight=(2, 1))),
    "flags": (_two(id=IDS, bundleable=(True, False)), _two(id=IDS, bundleable=(False, True))),
    "expiry": (_two(id=IDS, expires_at=(at(60), None)), _two(id=IDS, expires_at=(None, at(60)))),
    "properties": (
        _two(id=IDS, properties=({"a": "b"}, {})),
        _two(id=IDS, properties=({}, {"a": "b"})),
    ),
    "text of properties": (
        _two(id=IDS, properties=({"a": "bc"}, {"d": "e"})),
        _two(id=IDS, properties=({"ab": "c"}, {"d": "e"})),
    ),
    "a json number for its text": (_two(id=IDS, data=(1, 2)), _two(id=IDS, data=("1", "2"))),
    "json null for nothing": (_two(id=IDS, data=(None, 1)), _two(id=IDS, data=(b"", 1))),
}


@pytest.mark.parametrize(("engine", "beside"), [("memory", 0), ("memory", MANY)])
@pytest.mark.parametrize("what", list(MOVED))
def test_what_moved_between_neighbours_is_refused(tmp_path: Path, what: str, engine: str, beside: int) -> None:
    desk = Desk(engine, tmp_path / "data")
    others = letters(range(100, 100 + beside))
    sent, moved = MOVED[what]
    desk.publish(0, [*others, *sent])
    desk.refuses_number(0, [*others, *moved], expected=beside + 2)
    assert desk.publish(0, [*others, *sent]).replayed
    desk.close()


@pytest.mark.parametrize("engine", ["memory", "sqlite"])
def test_an_id_given_to_the_neighbour_is_refused(tmp_path: Path, engine: str) -> None:
    desk = Desk(engine, tmp_path / "data")
    desk.publish(0, _two(id=(id_of(1), None)))
    desk.refuses_number(0, _two(id=(None, id_of(1))), expected=2)
    assert desk.publish(0, _two(id=(id_of(1), None))).replayed
    desk.close()


def test_numbers_alone_would_swallow_what_is_sent_after_an_unclear_failure(desk: Desk) -> None:
    """A producer that never heard of its first parcel gives its numbers to other messages.

    By group, level and numbers these are the last range once more, to be acknowledged and dropped. The hub looks at
    the messages too, refuses them, and a new link tells where to go on.
    """
    desk.publish(0, letters(range(3)))
    by_numbers = (GROUP, *desk.level_and_last())
    assert by_numbers == (GROUP, 0, 0 + 3 - 1), "just what the second parcel would end with"
    desk.refuses_number(0, letters(range(3, 6)), expected=3)
    true_last = desk.open_link(producer_group=GROUP).last_published_sequence_number
    assert true_last == 2
    assert desk.publish(true_last + 1, letters(range(3, 6))).accepted == 3
    assert desk.stored() == list(range(6))


# Whole or nothing, together with the state.


@pytest.mark.parametrize("count", [FEW, MANY])
@pytest.mark.parametrize("step", range(6))
def test_messages_and_state_are_stored_in_one_commit(step: int, count: int) -> None:
    """However far a commit comes before the machine goes down: both are there, or neither."""
    store = MemoryStore()
    numbers = ProducerNumbers(group=GROUP, owner_level=0, published_sequence=1)
    with restante.open(None, store=store, settings=SETTINGS, clock=FakeClock()) as hub:
        partition = hub.partition_of("ada")
        link_of(hub).call(
            Publish.of(
                letter(500), partition=partition, producer=msgspec.structs.replace(numbers, published_sequence=0)
            )
        )
        store.fail_at(step)
        with pytest.raises(RestanteError):
            link_of(hub).call(Publish.of(letters(range(count)), partition=partition, producer=numbers))
    store = store.survivor()
    with restante.open(None, store=store, settings=SETTINGS, clock=FakeClock()) as hub:
        link = link_of(hub)
        stored = len(hub.recipient("ada").history().messages) - 1
        assert stored in (0, count if count < 100 else 99)
        state = link.call(ReadProducer(partition, GROUP))
        assert state.last_published_sequence_number == (count if stored else 0)
        again = link.call(Publish.of(letters(range(count)), partition=partition, producer=numbers))
        assert (again.accepted, again.duplicates, again.replayed) == (count, 0, bool(stored))
        assert len(hub.recipient("ada").history(limit=1_000).messages) == count + 1
        hub.file()
    assert [finding.what for finding in examine(store.survivor()).findings] == []


# Several in one commit.


def together(*parcels: tuple[int, int, Sequence[Message]]) -> tuple[list[Receipt | RestanteError], list[int]]:
    """What is answered to parcels (level, first number, messages) that wait for one commit; and what is stored."""
    store = HeldStore(MemoryStore())
    answers: dict[int, Receipt | RestanteError] = {}
    with restante.open(None, store=store, settings=SETTINGS, clock=FakeClock()) as hub:
        partition = hub.partition_of("ada")

        def act(place: int, level: int, first: int, messages: Sequence[Message]) -> Callable[[Any], object]:
            def publish(hub: Hub) -> object:
                numbers = ProducerNumbers(group=GROUP, owner_level=level, published_sequence=first)
                try:
                    answers[place] = link_of(hub).call(Publish.of(messages, partition=partition, producer=numbers))
                except RestanteError as error:
                    answers[place] = error
                return None

            return publish

        in_one_commit(hub, store, *(act(place, *parcel) for place, parcel in enumerate(parcels)))
        assert inside(hub).core.committer.alive
        stored = [UUID(message.id or "").int for message in hub.recipient("ada").history(limit=1_000).messages]
    return [answers[place] for place in range(len(parcels))], stored


@pytest.mark.parametrize(("count", "next_count"), [(FEW, FEW), (FEW, MANY), (MANY, FEW), (MANY, MANY)])
def test_numbers_that_follow_one_another_are_accepted_in_the_order_asked(count: int, next_count: int) -> None:
    numbers = range(count + next_count)
    answers, stored = together((0, 0, letters(numbers[:count])), (0, count, letters(numbers[count:])))
    assert [answer.accepted for answer in answers if isinstance(answer, Receipt)] == [count, next_count]
    assert stored == list(numbers)


@pytest.mark.parametrize("count", [FEW, MANY])
def test_a_parcel_twice_at_the_same_moment_is_stored_once(count: int) -> None:
    sent = letters(range(count))
    (first, *others), stored = together((0, 0, sent), (0, 0, sent), (0, 0, sent))
    assert isinstance(first, Receipt)
    assert others == [replays(first)] * 2
    assert stored == list(range(count))


@pytest.mark.parametrize("count", [FEW, MANY])
def test_of_two_parcels_with_the_same_numbers_one_is_refused(count: int) -> None:
    (first, second), stored = together((0, 0, letters(range(count))), (0, 0, letters(range(count, 2 * count))))
    assert isinstance(first, Receipt)
    assert isinstance(second, InvalidClientState)
    assert second.details["expected"] == count
    assert stored == list(range(count))


def test_a_higher_level_fences_a_lower_one_that_waits_behind_it() -> None:
    answers, stored = together((0, 0, letters([0])), (1, 0, letters([1])), (0, 1, letters([2])), (1, 1, letters([3])))
    assert isinstance(answers[2], ProducerDisconnected)
    assert [isinstance(answer, Receipt) for answer in answers] == [True, True, False, True]
    assert stored == [0, 1, 3]
