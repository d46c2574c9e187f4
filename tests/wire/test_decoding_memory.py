"""Bodies that would take hundreds of times their size when they are decoded: they take a small multiple of it, and say what is wrong."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable

import pytest

from restante.errors import BodyTooLarge, InvalidRequest, Overloaded
from restante.limits import FAULTS_SHOWN_MAX, JSON_MESSAGE_BYTES, KIB, MIB, SEND_MESSAGES_MAX
from restante.model.publishing.refusals import Flawed
from restante.wire.compression import compress, decompress
from restante.wire.frames import decode_frame
from restante.wire.incoming.incoming import Sent, decode_messages
from restante.wire.live import LiveSend, decode_client_frame
from restante.wire.media import ARROW, CLOUDEVENT, CLOUDEVENTS_BATCH, JSON
from tests.wire.test_incoming_arrow import letters, stream

BYTES = 6 * MIB
NAMES = b"".join(b'"%d":"",' % number for number in range(500_000))


def many(part: bytes, last: bytes = b"{}") -> bytes:
    return part * (BYTES // len(part)) + last


BODIES = {
    "empty messages": (JSON, b"[" + many(b"{},") + b"]"),
    "empty messages in a field": (JSON, b'{"messages":[' + many(b"{},") + b"]}"),
    "messages without a recipient": (JSON, b"[" + many(b'{"data":1},') + b"]"),
    "lists": (JSON, b"[" + many(b"[],", b"[]") + b"]"),
    "properties": (JSON, b'[{"recipient":"a","data":1,"properties":{' + NAMES + b'"z":""}}]'),
    "fields of a message": (JSON, b"[{" + NAMES + b'"z":""}]'),
    "fields of the body": (JSON, b"{" + NAMES + b'"z":""}'),
    "recipients": (JSON, b'[{"data":1,"recipients":[' + many(b'"ab",', b'"z"') + b"]}]"),
    "recipients of many": (JSON, b"[" + many(b'{"data":1,"recipients":[' + b'"ab",' * 1_000 + b'"z"]},') + b"]"),
    "empty events": (CLOUDEVENTS_BATCH, b"[" + many(b"{},") + b"]"),
    "attributes of an event": (CLOUDEVENT, b"{" + NAMES + b'"z":""}'),
    "brackets": (JSON, many(b"[", b"")),
}


@pytest.mark.parametrize("name", sorted(BODIES))
def test_a_body_takes_a_small_multiple_of_its_size(name: str) -> None:
    content_type, body = BODIES[name]
    outcome, peak = measured(lambda: decode_messages(body, content_type=content_type, headers={}))
    assert isinstance(outcome, Flawed | InvalidRequest)
    assert peak <= 6 * len(body) + 40 * MIB


def test_a_frame_takes_a_small_multiple_of_its_size() -> None:
    frame = '{"number":1,"messages":[' + "{}," * (BYTES // 3) + "{}]}"
    outcome, peak = measured(lambda: decode_frame(frame).messages())
    assert isinstance(outcome, Flawed)
    assert peak <= 6 * len(frame) + 40 * MIB


@pytest.mark.parametrize("content_type", [JSON, CLOUDEVENTS_BATCH])
def test_a_large_body_of_faults_lists_each_with_its_index_and_field(content_type: str) -> None:
    taken = decode_messages(b"[" + many(b"{},") + b"]", content_type=content_type, headers={})
    assert isinstance(taken, Flawed)
    assert {fault.index for fault in taken.faults} == set(range(FAULTS_SHOWN_MAX))
    assert {fault.code for fault in taken.faults} == {"invalid_message"}
    assert "recipient" in {fault.field for fault in taken.faults}


def test_faults_far_into_a_large_body_have_the_index_of_their_message() -> None:
    good, bad = b'{"recipient":"a","data":1},', b'{"recipient":"a","wieght":1},'
    body = b"[" + good * 100_000 + bad + b'{"recipients":["a","b"],"data":1},' + good * 50_000 + bad + good[:-1] + b"]"
    taken = decode_messages(body, content_type=JSON, headers={})
    assert isinstance(taken, Flawed)
    assert [(fault.index, fault.field) for fault in taken.faults] == [(100_000, "wieght"), (150_003, "wieght")]


@pytest.mark.parametrize("form", [b"[%b]", b' {"messages" : [%b] } ', b'{"messages":[%b]}'])
def test_a_large_body_is_read_in_each_of_its_forms(form: bytes) -> None:
    said = b",".join(b'{"recipient":"r%d","data":{"a":"},{\\""}}' % number for number in range(20_000))
    taken = decode_messages(form % said, content_type=JSON, headers={})
    assert isinstance(taken, list)
    assert [message.recipient for message in taken] == [f"r{number}" for number in range(20_000)]
    assert {message.data for message in taken} == {b'{"a":"},{\\""}'}


def test_an_unknown_field_after_a_large_list_is_named() -> None:
    body = b'{"messages":[' + many(b'{"recipient":"a"},', b'{"recipient":"a"}') + b'],"extra":[1]}'
    with pytest.raises(InvalidRequest, match="the field extra is unknown"):
        decode_messages(body, content_type=JSON, headers={})


def test_more_messages_than_a_send_may_have_are_not_decoded() -> None:
    body = b"[" + b'{"recipient":"a"},' * (3 * SEND_MESSAGES_MAX) + b'{"recipient":"a"}]'
    taken: list[int] = []
    with pytest.raises(InvalidRequest, match="too many for one send"):
        decode_messages(body, content_type=JSON, headers={}, take_room=taken.append)
    assert sum(taken) <= JSON_MESSAGE_BYTES * (SEND_MESSAGES_MAX + 100_000)


def test_messages_take_room_before_the_next_piece_is_decoded() -> None:
    with pytest.raises(Overloaded):
        decode_messages(
            b"[" + many(b'{"recipient":"a"},', b'{"recipient":"a"}') + b"]",
            content_type=JSON,
            headers={},
            take_room=room_of(10 * MIB),
        )


NAMED = b'{"data":1,"recipients":[' + b'"ab",' * 900_000
BROADCASTS = {
    "right": NAMED + b'"z"]}',
    "with a name that is none": NAMED + b"1]}",
    "with another field that is wrong": NAMED + b'"z"],"wieght":1}',
    "in a list": b"[" + NAMED + b'"z"]}]',
}


@pytest.mark.parametrize("name", BROADCASTS)
def test_recipients_take_room_before_they_are_decoded(name: str) -> None:
    def decode() -> object:
        return decode_messages(BROADCASTS[name], content_type=JSON, headers={}, take_room=room_of(100 * MIB))

    outcome, peak = measured(decode)
    assert isinstance(outcome, Overloaded)
    assert peak <= 3 * len(NAMED) + 10 * MIB


@pytest.mark.parametrize("name", ["right", "with a name that is none", "with another field that is wrong"])
def test_a_live_send_decodes_no_more_recipients_than_it_may_have(name: str) -> None:
    frame = decode_client_frame(f'{{"type":"send","request":1,"message":{BROADCASTS[name].decode()}}}')
    assert isinstance(frame, LiveSend)
    outcome, peak = measured(frame.decoded)
    assert isinstance(outcome, InvalidRequest)
    assert peak <= 3 * len(NAMED) + 10 * MIB


@pytest.mark.parametrize("compression", [None, "zstd"])
def test_columns_take_room_for_their_rows_and_for_what_is_unpacked(compression: str | None) -> None:
    body = stream(letters(100_000), compression=compression)
    with pytest.raises(Overloaded):
        decode_messages(body, content_type=ARROW, headers={}, take_room=room_of(100_000))
    taken: list[int] = []
    decode_messages(body, content_type=ARROW, headers={}, take_room=taken.append)
    assert 100_000 <= sum(taken) <= 100 * MIB


@pytest.mark.parametrize("encoding", ["gzip", "zstd"])
def test_what_is_unpacked_takes_room_as_it_comes(encoding: str) -> None:
    packed = b"".join(compress(iter([bytes(MIB)] * 48), encoding))
    assert len(packed) < 500 * KIB

    def unpack(most: int) -> object:
        return decompress(packed, encoding, 64 * MIB, room_of(most))

    outcome, peak = measured(lambda: unpack(4 * MIB))
    assert isinstance(outcome, Overloaded)
    assert peak <= 16 * MIB
    with pytest.raises(BodyTooLarge):
        decompress(packed, encoding, 40 * MIB, room_of(64 * MIB))
    assert unpack(64 * MIB) == bytes(48 * MIB)


def room_of(most: int) -> Callable[[int], None]:
    taken = [0]

    def take(count: int) -> None:
        taken[0] += count
        if taken[0] > most:
            raise Overloaded("there is no room", retry_after=1)

    return take


def measured(work: Callable[[], object]) -> tuple[Sent | object, int]:
    """What it gives or raises, and how much memory it took at most."""
    tracemalloc.start()
    try:
        outcome: object = work()
    except Exception as error:  # noqa: BLE001 - the test looks at it
        outcome = error
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return outcome, peak
