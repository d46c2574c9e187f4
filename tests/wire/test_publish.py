"""What a client sends arrives as if it had been sent in process; faults are the same errors."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any
from uuid import UUID

import msgspec
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from restante.errors import Fault, InvalidMessage, InvalidRequest
from restante.limits import FEW_MESSAGES_MAX, MIB
from restante.model.columns.uuids import made_uuids, uuid_texts
from restante.model.mailboxes.answers import PartitionReceipt, Receipt
from restante.model.producers.producer import ProducerNumbers
from restante.model.publishing import intake
from restante.model.publishing.few_or_many import EncodedPublish, few_or_many
from restante.model.publishing.message import Message, MessageColumns
from restante.wire.frames import (
    FrameHeader,
    decode_frame,
    encode_frame,
    encode_problem,
    encode_receipt,
    number_of,
)
from restante.wire.media import ARROW, JSON
from restante.wire.publish import encode_publish
from tests.model.strategies import listed, messages, spoilt, unhurried
from tests.wire.tables import ID, judged, taken_in

NOW_MS = 1_900_000_000_000


def encoded(sent: object) -> EncodedPublish:
    return encode_publish(few_or_many(sent), random=lambda count: bytes(range(256))[:8] * (count // 8), now_ms=NOW_MS)


def arrived(sent: object) -> MessageColumns:
    content_type, body = encoded(sent)
    columns, faults = taken_in(body, content_type)
    assert faults == []
    return columns


def in_process(sent: Sequence[Message]) -> MessageColumns:
    columns, faults = intake.from_messages(sent, claim_check_origins=None)
    assert faults == []
    random = bytes(range(8)) * len(sent)
    filled = intake.fill_made_ids(columns, now_ms=NOW_MS, random=random)
    filled.made_id[:] = False
    return filled


@unhurried
@given(st.lists(messages(), max_size=6), st.integers(1, 20))
def test_messages_arrive_as_in_process_be_they_few_or_many(sent: list[Message], times: int) -> None:
    assert listed(arrived(sent)) == listed(in_process(sent))
    many = sent * (times * 4)
    assert listed(arrived(many)) == listed(in_process(many))


@unhurried
@given(st.lists(spoilt(), min_size=1, max_size=3), st.sampled_from([1, 65]))
def test_faults_are_the_same_as_in_process(pairs: list[tuple[Message, str]], times: int) -> None:
    sent = [message for message, _ in pairs]
    # A client does not know the bound that its hub sets for data, so it reports the other faults of a send without it.
    too_large = [message for message in sent if isinstance(message.data, bytes) and len(message.data) > MIB]
    sent = too_large[:1] or sent * times
    assert outcome(lambda: over_the_wire(sent)) == outcome(lambda: intake.from_messages(sent, claim_check_origins=None))


def over_the_wire(sent: Sequence[Message]) -> tuple[MessageColumns, list[Fault]]:
    content_type, body = encoded(sent)
    return taken_in(body, content_type)


def outcome(send: Callable[[], tuple[MessageColumns, list[Fault]]]) -> str | list[tuple[object, ...]]:
    """What is wrong with a send. An id that the client made is none that its caller gave, so ids are left out."""
    try:
        _, faults = send()
    except InvalidMessage as error:
        faults = list(error.faults)
    except InvalidRequest as error:
        return error.message
    return [(fault.index, fault.field, fault.code, fault.detail) for fault in faults]


def test_few_messages_go_as_json_and_many_as_arrow() -> None:
    one = Message(recipient="anna", data={"a": 1})
    assert encoded(one)[0] == JSON
    assert encoded([one] * FEW_MESSAGES_MAX)[0] == JSON
    assert encoded([one] * (FEW_MESSAGES_MAX + 1))[0] == ARROW
    assert encoded([Message(recipient="anna", data=bytes(MIB))])[0] == ARROW
    assert encoded(pa.table({"recipient": ["anna"]}))[0] == ARROW
    assert encoded([])[0] == JSON


def test_json_says_no_more_than_it_must() -> None:
    body = encoded(Message(recipient="anna", id=ID, data={"a": 1}))[1]
    assert msgspec.json.decode(body) == {"messages": [{"recipient": "anna", "id": ID, "data": {"a": 1}}]}


@pytest.mark.parametrize("count", [1, 2, 64])
def test_ids_are_made_once_and_as_the_hub_makes_them(count: int) -> None:
    random = os.urandom(8 * count)
    sent = [Message(recipient="anna", data=b"")] * count
    _, body = encode_publish(few_or_many(sent), random=lambda size: random[:size], now_ms=NOW_MS)
    ids = [message["id"] for message in msgspec.json.decode(body)["messages"]]
    assert ids == uuid_texts(made_uuids(count, now_ms=NOW_MS, random=random))
    assert [UUID(text).version for text in ids] == [7] * count


def test_ids_that_were_given_stay() -> None:
    sent = [Message(recipient="a", data=b"", id=ID), Message(recipient="a", data=b"")]
    assert uuid_texts(arrived(sent).id)[0] == ID
    assert uuid_texts(arrived(sent * 40).id)[::2] == [ID] * 40


class Colour(StrEnum):
    RED = "red"


@pytest.mark.parametrize(
    "fields",
    [
        {"data": bytearray(b"x")},
        {"data": memoryview(b"x")},
        {"data": {"time": datetime(2030, 1, 1, tzinfo=UTC)}},
        {"data": [None, 1]},
        {"data": Colour.RED},
        {"data": {1: "a"}},
        {"recipient": Colour.RED, "data": b""},
        {"data": "null"},
        {"data": "a b"},
        {"data": 1e300},
        {"data": b"{}", "media_type": "application/json"},
        {"data": b'{ "a": 1 }', "media_type": "application/json"},
        {"data": "text", "media_type": "text/plain"},
    ],
)
def test_unusual_values_arrive_as_in_process(fields: dict[str, Any]) -> None:
    sent = [Message(**{"recipient": "anna", **fields})]
    assert listed(arrived(sent)) == listed(in_process(sent))


def test_what_is_no_message_is_refused_as_in_process() -> None:
    not_messages: list[Any] = [[Message(recipient="a"), "b"], "text", 5, [None] * 200]
    for sent in not_messages:
        with pytest.raises(InvalidRequest):
            encoded(sent)


HEADER = FrameHeader(
    number=7,
    partition=3,
    batch="b",
    producer=ProducerNumbers(group=2**63 - 1, owner_level=1, published_sequence=2**31 - 1),
)


@pytest.mark.parametrize("count", [1, 200])
@pytest.mark.parametrize("header", [HEADER, FrameHeader(number=0)], ids=["full", "least"])
def test_a_frame_holds_its_header_and_its_messages(header: FrameHeader, count: int) -> None:
    sent = [Message(recipient="anna", data={"n": n}, id=ID) for n in range(count)]
    content_type, body = encoded(sent)
    frame = encode_frame(header, content_type=content_type, body=body)
    assert isinstance(frame, str) == (count == 1)
    read = decode_frame(frame)
    assert read.header == header
    columns, faults = judged(read.messages())
    assert faults == []
    assert listed(columns) == listed(in_process(sent))


def test_faults_of_a_frame_come_after_its_number() -> None:
    read = decode_frame('{"number": 5, "messages": [{"recipient": 1}]}')
    assert read.header.number == 5
    with pytest.raises(InvalidMessage) as caught:
        judged(read.messages())
    assert caught.value.faults[0].field == "recipient"


@pytest.mark.parametrize(
    "frame",
    [
        "",
        "[]",
        "{}",
        '{"messages":[]}',
        '{"number":1}',
        '{"number":"1","messages":[]}',
        '{"number":1,"messages":[],"extra":1}',
        '{"number":1,"messages":[],"partition":null}',
        '{"number":1,"messages":[],"producer":{"group":7}}',
        '{"number":1,"messages":[],"producer":{"group":"7","owner_level":0,"published_sequence":0}}',
        '{"number":1,"messages":[],"producer":{"group":7.5,"owner_level":0,"published_sequence":0}}',
        '{"number":1,"messages":[],"producer":{"group":7,"owner_level":true,"published_sequence":0}}',
        '{"number":1,"messages":[],"producer":{"group":7,"owner_level":0,"published_sequence":0,"extra":1}}',
        '{"number":1,"messages":[],"producer":null}',
        "\ud800",
        b"",
        b"\0\0\0",
        b"\0\0\0\5{}",
        b"\xff\xff\xff\xff{}",
        b'\0\0\0\x0e{"number":"1"}',
        b'\0\0\0\x1b{"number":1,"messages":[]} ',
        b"\0\0\0\2\xff\xff",
    ],
)
def test_a_malformed_frame_is_a_clear_error(frame: str | bytes) -> None:
    with pytest.raises(InvalidRequest) as caught:
        decode_frame(frame)
    assert caught.value.message


def test_answers_carry_the_number_of_their_frame() -> None:
    receipt = Receipt(
        accepted=3,
        duplicates=1,
        partitions=(PartitionReceipt(partition=2, first_sequence_number=5, last_sequence_number=7),),
    )
    told = msgspec.json.decode(encode_receipt(9, receipt))
    assert told.pop("number") == 9
    assert msgspec.convert(told, Receipt) == receipt
    assert "replayed" not in encode_receipt(9, receipt)
    replayed = msgspec.structs.replace(receipt, replayed=True, partitions=())
    assert msgspec.json.decode(encode_receipt(-9, replayed)) == {
        "number": -9,
        "accepted": 3,
        "duplicates": 1,
        "partitions": [],
        "replayed": True,
    }
    assert msgspec.json.decode(encode_problem(11, {"code": "x"})) == {"number": 11, "problem": {"code": "x"}}
    assert "number" not in msgspec.json.decode(encode_problem(None, {"code": "x"}))


@pytest.mark.parametrize(
    ("frame", "number"),
    [
        ('{"number": 10, "producer": {"group": "x"}, "messages": []}', 10),
        (b"\x00\x00\x00\x18" + b'{"number": 7, "more": 1}', 7),
        ('{"number": "ten"}', None),
        ('{"messages": []}', None),
        ("no json", None),
        ('"\ud800"', None),
        (b"\x00", None),
    ],
    ids=["text", "binary", "no number", "without", "no JSON", "no Unicode", "cut off"],
)
def test_the_number_of_a_frame_is_found_though_the_rest_is_wrong(frame: str | bytes, number: int | None) -> None:
    with pytest.raises(InvalidRequest):
        decode_frame(frame)
    assert number_of(frame) == number
