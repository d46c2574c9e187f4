"""Parcels: what fits can be sent, what is kept is the same parcel later, and what is damaged is refused."""

from __future__ import annotations

import os
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from typing import Any

import msgspec
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import restante
from restante import errors, limits
from restante.client.publishing.early_checks import HEADER_BYTES, size_of_message
from restante.client.publishing.parcel import Parcel
from restante.client.surface import sync
from restante.model.mailboxes.answers import Receipt
from restante.model.producers.producer import ProducerNumbers
from restante.model.publishing.few_or_many import few_or_many
from restante.model.publishing.message import Message
from restante.wire.frames import FrameHeader, encode_frame
from restante.wire.media import ARROW
from restante.wire.publish import encode_columns, encode_publish
from tests.profiles import by_profile

NUMBERS = ProducerNumbers(
    group=limits.PRODUCER_GROUP_MAX,
    owner_level=limits.OWNER_LEVEL_MAX,
    published_sequence=limits.PUBLISHED_SEQUENCE_MAX,
)
ARROW_FRAME_BYTES = 8 * limits.KIB
"""The schema and the metadata of an Arrow stream."""

texts = st.text(st.characters(codec="utf-8"), min_size=1, max_size=40)
values: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats(allow_nan=False) | texts,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4),
    max_leaves=8,
)
messages = st.builds(
    Message,
    recipient=texts,
    data=values | st.binary(max_size=300) | st.just(msgspec.UNSET),
    id=st.none() | st.uuids().map(str),
    origin=texts,
    kind=texts,
    document_type=st.none() | texts,
    weight=st.none() | st.integers(1, limits.WEIGHT_KIB_MAX),
    bundleable=st.booleans(),
    properties=st.dictionaries(texts, texts, max_size=4),
    expires_at=st.none() | st.datetimes(min_value=datetime(1900, 1, 1), timezones=st.just(UTC)),  # noqa: DTZ001 - naive
)


def sent_bytes(content: object) -> tuple[str, int]:
    """How it is encoded, and how long the whole frame is, with the largest numbers."""
    content_type, body = encode_publish(few_or_many(content), random=os.urandom, now_ms=1)
    header = FrameHeader(number=2**53, partition=limits.PARTITIONS_MAX, producer=NUMBERS)
    return content_type, len(encode_frame(header, content_type=content_type, body=body))


@given(st.lists(messages, min_size=1, max_size=5), st.integers(1, 30))
@settings(max_examples=by_profile(dev=40, ci=150), deadline=None)
def test_a_parcel_takes_no_more_than_it_says(given_messages: list[Message], times: int) -> None:
    parcel = Parcel(0)
    try:
        for message in given_messages * times:
            assert parcel.try_add(msgspec.structs.replace(message, id=None))
        content_type, size = sent_bytes(list(parcel.messages))
    except errors.InvalidMessage:
        return
    assert size <= parcel.size_in_bytes + (ARROW_FRAME_BYTES if content_type == ARROW else 0)


def test_a_message_that_does_not_fit_is_left_out() -> None:
    message = Message(recipient="ada", data=b"x" * 100)
    room = HEADER_BYTES + 2 * size_of_message(message)
    parcel = Parcel(0, max_size_in_bytes=room)
    assert [parcel.try_add(message) for _ in range(3)] == [True, True, False]
    assert (len(parcel), parcel.size_in_bytes) == (2, room)
    smaller = Parcel(0, max_size_in_bytes=room - 1)
    assert [smaller.try_add(message) for _ in range(2)] == [True, False]


def test_a_parcel_filled_to_the_largest_size_can_be_sent(hub: sync.Hub) -> None:
    partition = hub.partition_of("ada")
    with restante.ProducerClient(hub, enable_idempotent_partitions=True) as producer:
        parcel = producer.create_parcel(partition, max_size_in_bytes=limits.PARCEL_BYTES_MAX)
        data = os.urandom(limits.DATA_BYTES_MAX // 2)
        while parcel.try_add(Message(recipient="ada", data=data)):
            pass
        assert parcel.size_in_bytes > limits.PARCEL_BYTES_MAX - limits.DATA_BYTES_MAX
        assert producer.send_parcel(parcel).accepted == len(parcel)


@pytest.mark.parametrize("size", [0, -1, limits.PARCEL_BYTES_MAX + 1, True, "1", 1.5])
def test_a_wrong_size_is_refused(size: Any) -> None:
    with pytest.raises(errors.InvalidRequest, match="max_size_in_bytes"):
        Parcel(0, max_size_in_bytes=size)


def test_what_is_no_message_or_cannot_be_said_is_refused() -> None:
    parcel = Parcel(0)
    with pytest.raises(errors.InvalidRequest, match="is of type str: each must be a Message"):
        parcel.try_add("ada")
    with pytest.raises(errors.InvalidRequest, match="cannot be sent"):
        parcel.try_add(Message(recipient="ada", data=object()))
    assert len(parcel) == 0


def test_a_parcel_that_is_being_sent_or_was_takes_nothing_more() -> None:
    parcel = Parcel(0)
    assert parcel.try_add(Message(recipient="ada"))
    seen = [parcel.locked]
    with parcel.held():
        seen.append(parcel.locked)
        with pytest.raises(errors.InvalidOperation, match="locked"):
            parcel.try_add(Message(recipient="ada"))
    changes: list[Callable[[], None]] = [
        partial(parcel.give_numbers, NUMBERS),
        parcel.clear_numbers,
        parcel.set_published,
    ]
    for change in changes:
        seen.append(parcel.locked)
        change()
    assert [*seen, parcel.locked] == [False, True, False, True, False, True]


def test_numbers_show_only_when_it_is_published() -> None:
    parcel = Parcel(0)
    for _ in range(3):
        assert parcel.try_add(Message(recipient="ada"))
    parcel.give_numbers(NUMBERS)
    before = parcel.starting_published_sequence_number
    parcel.set_published()
    assert (before, parcel.starting_published_sequence_number) == (None, limits.PUBLISHED_SEQUENCE_MAX)
    assert [message.published_sequence_number for message in parcel.messages] == [2**31 - 1, 0, 1]


def test_ids_are_given_once_and_stay() -> None:
    own = "0198c5a2-6f1e-7c3b-9d4a-1b2c3d4e5f60"
    parcel = Parcel(0)
    for message_id in (None, own, None):
        assert parcel.try_add(Message(recipient="ada", id=message_id))
    parcel.identify()
    ids = [message.id for message in parcel.messages]
    assert ids[1] == own
    assert None not in ids
    assert len(set(ids)) == 3
    parcel.identify()
    assert [message.id for message in parcel.messages] == ids


def test_the_same_message_twice_would_be_stored_once_and_is_refused() -> None:
    message = Message(recipient="ada")
    with pytest.raises(errors.InvalidOperation, match="twice"):
        Parcel.of([message, message], 0).identify()


def table_of(ids: pa.Array[Any] | None) -> pa.Table:
    columns: dict[str, Any] = {"recipient": ["ada", "bob", "ada"], "data": [b"1", b"2", b"3"]}
    return pa.table(columns if ids is None else {**columns, "id": ids})


OWN = "0198c5a2-6f1e-7c3b-9d4a-1b2c3d4e5f60"
OWN_BYTES = bytes.fromhex(OWN.replace("-", ""))


@pytest.mark.parametrize(
    "ids",
    [
        None,
        pa.nulls(3),
        pa.array([None, OWN, None], pa.string()),
        pa.array([None, OWN, None], pa.large_string()),
        pa.array([None, OWN, None], pa.string_view()),
        pa.array([None, OWN, None], pa.string()).dictionary_encode(),
        pa.array([None, OWN_BYTES, None], pa.binary(16)),
        pa.ExtensionArray.from_storage(pa.uuid(), pa.array([None, OWN_BYTES, None], pa.binary(16))),
    ],
    ids=["none", "null", "string", "large", "view", "dictionary", "binary", "uuid"],
)
def test_a_table_gets_its_ids_as_a_column_once(ids: Any) -> None:
    parcel = Parcel.of(table_of(ids), 0)
    parcel.identify()
    content = parcel.content
    assert isinstance(content, pa.Table)
    given_ids = [message.id for message in parcel.messages]
    assert None not in given_ids
    assert len(set(given_ids)) == 3
    assert (given_ids[1] == OWN) == (ids is not None and ids.null_count == 2)
    parcel.identify()
    assert parcel.content is content


def test_wrong_ids_of_a_table_are_left_to_the_rules() -> None:
    parcel = Parcel.of(table_of(pa.array([1, None, 3])), 0)
    parcel.identify()
    with pytest.raises(errors.InvalidRequest, match="the column id is of type int64"):
        encode_publish(parcel.sent, random=os.urandom, now_ms=1)


def test_a_table_is_known_by_itself_and_messages_by_themselves() -> None:
    table = table_of(None)
    assert Parcel.of(table, 0).holds(table)
    assert not Parcel.of(table, 0).holds(table_of(None))
    one, other = Message(recipient="ada"), Message(recipient="ada")
    parcel = Parcel.of([one, other], 0)
    assert parcel.holds((one, other))
    assert not parcel.holds([other, one])
    assert not parcel.holds([one])
    assert Parcel.of(one, 0).holds([one])
    assert not Parcel.of(one, 0).holds(other)


@given(st.lists(messages, max_size=4))
@settings(max_examples=by_profile(dev=30, ci=100), deadline=None)
def test_a_loaded_parcel_is_sent_just_as_the_dumped_one(given_messages: list[Message]) -> None:
    parcel = Parcel.of([msgspec.structs.replace(message, id=None) for message in given_messages], 1)
    try:
        kept = parcel.dump()
    except errors.InvalidMessage:
        return
    again = Parcel.load(kept)
    assert (again.partition, len(again), again.locked) == (1, len(parcel), True)
    assert [message.id for message in again.messages] == [message.id for message in parcel.messages]
    assert _columns(again) == _columns(parcel)


def _columns(parcel: Parcel) -> list[dict[str, Any]]:
    """What the rules make of it."""
    with pa.ipc.open_stream(encode_columns(parcel.content, random=os.urandom, now_ms=1)) as reader:
        return reader.read_all().to_pylist()


def test_a_dump_keeps_the_numbers_the_limit_and_what_its_sender_has_not_heard() -> None:
    parcel = Parcel(1, max_size_in_bytes=5_000)
    assert parcel.try_add(Message(recipient="ada", data={"a": [1, None]}))
    parcel.give_numbers(NUMBERS)
    again = Parcel.load(parcel.dump())
    assert (again.numbers, again.max_size_in_bytes, again.published) == (NUMBERS, 5_000, False)
    receipt = Receipt(accepted=1, duplicates=0, partitions=(), replayed=True)
    parcel.set_published(receipt)
    again = Parcel.load(parcel.dump())
    assert again.published
    assert again.messages[0].published_sequence_number == limits.PUBLISHED_SEQUENCE_MAX
    assert again.messages[0].data == {"a": [1, None]}
    assert again.take_unheard() == receipt
    assert again.take_unheard() is None


def test_a_message_that_is_not_right_is_named_when_it_is_dumped() -> None:
    parcel = Parcel.of([Message(recipient="ada"), Message(recipient="")], 0)
    with pytest.raises(errors.InvalidMessage) as raised:
        parcel.dump()
    assert [fault.index for fault in raised.value.faults] == [1]


def dumped() -> bytes:
    parcel = Parcel(1)
    assert parcel.try_add(Message(recipient="ada", data="x"))
    parcel.give_numbers(NUMBERS)
    return parcel.dump()


def test_every_damaged_byte_is_noticed() -> None:
    whole = dumped()
    for place in range(len(whole)):
        damaged = bytearray(whole)
        damaged[place] ^= 0x21
        with pytest.raises(errors.InvalidRequest, match="cannot be loaded"):
            Parcel.load(bytes(damaged))


def test_every_missing_end_is_noticed() -> None:
    whole = dumped()
    for length in range(len(whole)):
        with pytest.raises(errors.InvalidRequest, match="cannot be loaded"):
            Parcel.load(whole[:length])
    with pytest.raises(errors.InvalidRequest, match="cannot be loaded"):
        Parcel.load(whole + b"\0")


@pytest.mark.parametrize(
    "foreign",
    [
        b"",
        b"a parcel",
        msgspec.msgpack.encode({"kind": "restante.parcel"}),
        msgspec.msgpack.encode(["another.parcel", 1, b"", b""]),
        msgspec.msgpack.encode(["restante.parcel", 2, b"", b""]),
    ],
)
def test_foreign_bytes_are_refused(foreign: bytes) -> None:
    with pytest.raises(errors.InvalidRequest, match="cannot be loaded"):
        Parcel.load(foreign)


def test_what_is_not_bytes_is_refused() -> None:
    with pytest.raises(errors.InvalidRequest, match="from bytes, not str"):
        Parcel.load("parcel")  # type: ignore[arg-type]
