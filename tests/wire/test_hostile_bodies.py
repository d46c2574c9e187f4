"""Bodies of every type, cut off and changed at random: a clear error or a send, and never anything else."""

from __future__ import annotations

import random

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from restante.errors import InvalidRequest
from restante.model.publishing.few_or_many import few_or_many
from restante.model.publishing.message import Message
from restante.model.publishing.refusals import Flawed
from restante.wire.compression import compress, decompress
from restante.wire.frames import FrameHeader, decode_frame, encode_frame
from restante.wire.incoming.incoming import Body
from restante.wire.media import ARROW, CLOUDEVENT, CLOUDEVENTS_BATCH, JSON
from restante.wire.publish import encode_publish
from tests.profiles import by_profile
from tests.wire.tables import ID, taken_in
from tests.wire.test_incoming_arrow import letters, stream

EVENT = {"specversion": "1.0", "id": "e1", "source": "post", "type": "letter", "recipient": "anna", "data": {"a": 1}}
MESSAGE = {"recipient": "anna", "id": ID, "data": {"a": [1, "é"]}, "properties": {"a": "b"}, "weight": 3}
BODIES = {
    "json": (JSON, msgspec.json.encode({"messages": [MESSAGE, {"recipient": "bob", "data_base64": "aGk="}]})),
    "cloudevent": (CLOUDEVENT, msgspec.json.encode(EVENT)),
    "cloudevents batch": (CLOUDEVENTS_BATCH, msgspec.json.encode([EVENT, EVENT])),
    "arrow": (ARROW, stream(letters(3), letters(2))),
    "arrow lz4": (ARROW, stream(letters(30), compression="lz4")),
    "arrow zstd": (ARROW, stream(letters(30), compression="zstd")),
}


def survives(body: Body, content_type: str) -> bool:
    """Whether the body was taken; if not, it was refused as it should be."""
    try:
        _, faults = taken_in(body, content_type)
    except InvalidRequest:
        return False
    return not faults


@pytest.mark.parametrize("name", sorted(BODIES))
def test_a_body_is_taken_whole_and_refused_when_it_is_cut_off_anywhere(name: str) -> None:
    content_type, body = BODIES[name]
    assert survives(body, content_type)
    assert not any(survives(body[:length], content_type) for length in range(len(body)))


@pytest.mark.parametrize("name", sorted(BODIES))
def test_changed_bytes_are_an_error_or_another_send(name: str) -> None:
    content_type, body = BODIES[name]
    dice = random.Random(name)
    refused = 0
    for _ in range(1_500):
        changed = bytearray(body)
        for _ in range(dice.choice((1, 1, 2, 8))):
            changed[dice.randrange(len(changed))] = dice.choice((0, 1, 0x7F, 0x80, 0xFF, dice.randrange(256)))
        refused += not survives(bytes(changed), content_type)
    assert refused > 0


@pytest.mark.parametrize("fault", [b"", b',"weight":"x"'], ids=["right", "wrong"])
@pytest.mark.parametrize("content_type", [JSON, CLOUDEVENT])
def test_any_depth_of_nesting_is_taken_or_refused(content_type: str, fault: bytes) -> None:
    event = msgspec.json.encode({name: value for name, value in EVENT.items() if name != "data"})[:-1]
    outcomes = set()
    for depth in (*range(800, 1_005), 10_000):
        nested = b',"data":' + b"[ " * depth + b"]" * depth + fault + b"}"
        body = event + nested if content_type == CLOUDEVENT else b'{"messages":[{"recipient":"a"' + nested + b"]}"
        outcomes.add(survives(body, content_type))
    assert outcomes == ({False, True} if fault == b"" else {False})


@settings(deadline=None, max_examples=by_profile(dev=60, ci=200))
@given(st.binary(max_size=200), st.sampled_from([JSON, CLOUDEVENT, CLOUDEVENTS_BATCH, ARROW]))
def test_noise_is_refused(noise: bytes, content_type: str) -> None:
    assert not survives(noise, content_type) or content_type == CLOUDEVENTS_BATCH


@pytest.mark.parametrize("encoding", ["gzip", "zstd"])
def test_packed_bodies_are_whole_or_refused(encoding: str) -> None:
    original = BODIES["json"][1]
    packed = b"".join(compress(iter([original]), encoding))
    assert decompress(packed, encoding, 10_000) == original
    for length in range(len(packed)):
        with pytest.raises(InvalidRequest):
            decompress(packed[:length], encoding, 10_000)
    dice = random.Random(encoding)
    refused = 0
    for _ in range(500):
        changed = bytearray(packed)
        changed[dice.randrange(len(changed))] = dice.randrange(256)
        try:
            decompress(bytes(changed), encoding, 10_000)
        except InvalidRequest:
            refused += 1
    assert refused > 0


def frames() -> list[str | bytes]:
    header = FrameHeader(number=1, partition=3, batch="b")
    content_type, body = encode_publish(few_or_many(Message(recipient="a", data=b"x")), random=bytes, now_ms=1)
    return [
        encode_frame(header, content_type=content_type, body=body),
        encode_frame(header, content_type=ARROW, body=BODIES["arrow"][1]),
    ]


def frame_survives(frame: str | bytes) -> bool:
    try:
        return not isinstance(decode_frame(frame).messages(), Flawed)
    except InvalidRequest:
        return False


@pytest.mark.parametrize("frame", frames(), ids=["text", "binary"])
def test_frames_are_whole_or_refused(frame: str | bytes) -> None:
    assert frame_survives(frame)
    assert not any(frame_survives(frame[:length]) for length in range(len(frame)))
    dice = random.Random(5)
    refused = 0
    for _ in range(1_000):
        place = dice.randrange(len(frame))
        if isinstance(frame, str):
            refused += not frame_survives(
                frame[:place] + chr(dice.choice((0, 34, 0xD800, 0x1F600))) + frame[place + 1 :]
            )
        else:
            refused += not frame_survives(frame[:place] + bytes([dice.randrange(256)]) + frame[place + 1 :])
    assert refused > 0
