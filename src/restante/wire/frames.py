"""The frames of a pipelined link: sends with numbers one way, answers with the same numbers the other.

A text frame is JSON with its messages inside. A binary frame is the length of such JSON in four bytes, the JSON
without messages, and an Arrow stream.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence

import msgspec
import pyarrow as pa
from msgspec import UNSET, Raw, UnsetType

from restante.decoders import json_decoder
from restante.errors import InvalidRequest
from restante.limits import FRAME_HEADER_BYTES_MAX
from restante.model.backplane.accept import Accept
from restante.model.mailboxes.answers import Receipt
from restante.model.producers.producer import ProducerNumbers
from restante.model.publishing.message import Message
from restante.model.publishing.refusals import Flawed
from restante.wire.incoming.incoming_arrow import decode_arrow
from restante.wire.incoming.incoming_json import messages_of_json
from restante.wire.json_pieces import TakeRoom, no_bound
from restante.wire.json_values import Body, read_json, utf8_body
from restante.wire.media import ARROW, JSON

_LENGTH = struct.Struct(">I")


class FrameHeader(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """The words of a frame beside its messages. The number is the client's own, and comes back with the answer."""

    number: int
    partition: int | UnsetType = UNSET
    producer: ProducerNumbers | UnsetType = UNSET
    batch: str | UnsetType = UNSET
    source: str | UnsetType = UNSET
    accept: Accept | UnsetType = UNSET


class SendFrame(msgspec.Struct, frozen=True):
    """A frame whose header was read; its messages are read apart, so that the answer to a fault in them can have its number."""

    header: FrameHeader
    content: Raw | memoryview
    """The messages: a JSON array, or an Arrow stream."""

    def messages(self, take_room: TakeRoom = no_bound) -> Sequence[Message] | Flawed | pa.Table:
        if isinstance(self.content, Raw):
            return messages_of_json(self.content, take_room)
        return decode_arrow(self.content, take_room)


class _TextFrame(FrameHeader, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    messages: Raw


class PlainFrame(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A text frame that says no more than where its messages go."""

    number: int
    messages: Raw
    partition: int | UnsetType = UNSET


_plain_decoder = json_decoder(PlainFrame)
_header_decoder = json_decoder(FrameHeader)
_text_decoder = json_decoder(_TextFrame)
_encoder = msgspec.json.Encoder()


def decode_frame(frame: str | Body) -> SendFrame:
    """Decode a frame that a client sent: text as `str`, binary as bytes."""
    if isinstance(frame, str):
        return _decode_text(frame)
    content = memoryview(frame)
    if len(content) < _LENGTH.size:
        raise InvalidRequest("the frame is cut off: a binary frame begins with a length of four bytes")
    (length,) = _LENGTH.unpack_from(content)
    start = _LENGTH.size + length
    if length > FRAME_HEADER_BYTES_MAX:
        raise InvalidRequest(f"the frame's JSON has {length} bytes: at most {FRAME_HEADER_BYTES_MAX} are allowed")
    if start > len(content):
        raise InvalidRequest("the frame is cut off: it is shorter than the length at its beginning")
    header = read_json(_header_decoder, utf8_body(content[_LENGTH.size : start]), what="the frame's JSON")
    return SendFrame(header, content[start:])


def plain_frame(frame: bytes) -> PlainFrame | None:
    """A text frame, if it has a number, a list of messages and perhaps a partition; None if `decode_frame` is to say what it has."""
    try:
        found = _plain_decoder.decode(frame)
    except (msgspec.MsgspecError, RecursionError):
        return None
    return found if bytes(found.messages).startswith(b"[") else None


class _Numbered(msgspec.Struct, frozen=True):
    number: int


_number_decoder = json_decoder(_Numbered)


def number_of(frame: str | Body) -> int | None:
    """The number of a frame that cannot be read as a whole, so that its refusal can name it."""
    try:
        if isinstance(frame, str):
            return _number_decoder.decode(frame).number
        content = memoryview(frame)
        (length,) = _LENGTH.unpack_from(content)
        return _number_decoder.decode(content[_LENGTH.size : _LENGTH.size + min(length, FRAME_HEADER_BYTES_MAX)]).number
    except (msgspec.MsgspecError, struct.error, UnicodeError, RecursionError):
        return None


def encode_frame(header: FrameHeader, *, content_type: str, body: Body) -> str | bytes:
    """A frame out of what `encode_publish` made."""
    head = _encoder.encode(header)
    if content_type == JSON:
        # The body is an object with the messages, so the header's fields go in front of its own.
        return (head[:-1] + b"," + body[1:]).decode()
    assert content_type == ARROW, content_type
    return b"".join((_LENGTH.pack(len(head)), head, body))


def encode_receipt(number: int, receipt: Receipt) -> str:
    """The answer to a frame that was stored."""
    # The receipt is an object with fields in any case, so the number goes in front of them.
    return f'{{"number":{number},{_encoder.encode(receipt)[1:].decode()}'


def encode_problem(number: int | None, problem: Mapping[str, object]) -> str:
    """The answer to a frame that was refused; without a number if the frame had none that could be read."""
    numbered = {} if number is None else {"number": number}
    return _encoder.encode({**numbered, "problem": problem}).decode()


def _decode_text(frame: str) -> SendFrame:
    found = read_json(_text_decoder, _encoded(frame), what="the frame")
    header = FrameHeader(
        number=found.number,
        partition=found.partition,
        producer=found.producer,
        batch=found.batch,
        source=found.source,
        accept=found.accept,
    )
    return SendFrame(header, found.messages)


def _encoded(frame: str) -> bytes:
    try:
        return frame.encode()
    except UnicodeEncodeError as error:
        raise InvalidRequest("the frame is not valid Unicode text") from error
