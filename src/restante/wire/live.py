"""The frames of live delivery: what the hub pushes, and what a client may say.

Each is one JSON object whose `type` says what it is. The hub's frames are put together out of texts, so that a message's own
JSON is made once, however many clients get it.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Literal

import msgspec
from msgspec import UNSET, Raw, UnsetType

from restante.decoders import json_decoder
from restante.errors import InvalidRequest
from restante.limits import JSON_MESSAGE_BYTES
from restante.model.columns import media_types
from restante.model.publishing.message import Message, State, text_of
from restante.wire.incoming.incoming_json import messages_of_json
from restante.wire.incoming.shapes import sound
from restante.wire.json_values import read_json

Disconnected = Literal["draining", "moved", "token_expired", "protocol_error", "idle", "failed"]
"""Why the hub ends a connection."""
Status = Literal["processed", "lost"]
LIVE_GAP = "Restante-Live-Gap"
"""The header that says how many messages a client missed, when it reads them from history: a hub counts such gaps."""

_encoder = msgspec.json.Encoder()


# --- Frames of the hub


class _Given(msgspec.Struct, frozen=True, gc=False):
    """A message as the hub writes it."""

    id: str
    recipient: str
    origin: str
    kind: str
    document_type: str
    weight: int
    bundleable: bool
    media_type: str
    data: Any = UNSET
    text: str | None = None
    data_base64: bytes | UnsetType = UNSET
    properties: dict[str, str] = {}
    expires_at: datetime | None = None
    sequence_number: int | None = None
    published_at: datetime | None = None
    collected_at: datetime | None = None
    state: State | None = None

    def message(self) -> Message:
        data = self.data if self.text is None else self.text
        return Message(
            recipient=self.recipient,
            data=data if self.data_base64 is UNSET else self.data_base64,
            text=self.text,
            id=self.id,
            origin=self.origin,
            kind=self.kind,
            document_type=self.document_type,
            weight=self.weight,
            bundleable=self.bundleable,
            media_type=self.media_type,
            properties=self.properties,
            expires_at=self.expires_at,
            sequence_number=self.sequence_number,
            published_at=self.published_at,
            collected_at=self.collected_at,
            state=self.state,
        )


class _Frame(msgspec.Struct, frozen=True, tag_field="type", gc=False):
    pass


class Connected(_Frame, frozen=True, tag="connected", gc=False):
    """The first frame: everything up to this number lies before the connection."""

    sequence_number: int
    client: str


class Pushed(_Frame, frozen=True, tag="message", gc=False):
    """A message. The counter is the connection's own: where one is missing, a message was dropped."""

    counter: int
    given: _Given = msgspec.field(name="message")


class Echo(_Frame, frozen=True, tag="echo", gc=False):
    """A message that this recipient sent from another client."""

    given: _Given = msgspec.field(name="message")

    @property
    def message(self) -> Message:
        return self.given.message()


class SendAccepted(_Frame, frozen=True, tag="sent", gc=False):
    """The acceptance of a send: it has this id, and is on its way."""

    request: int
    id: str


class Fate(_Frame, frozen=True, tag="status", gc=False):
    """The fate of a message that was sent."""

    id: str
    status: Status
    reason: str | None = None


class Collected(_Frame, frozen=True, tag="collected", gc=False):
    """The hub's answer to a client that confirms: how many messages up to this number are collected."""

    sequence_number: int
    messages: int = 0


class Disconnect(_Frame, frozen=True, tag="disconnect", gc=False):
    """The last frame."""

    reason: str
    owner: str | None = None
    reconnect_after: float | None = None
    detail: str | None = None


HubFrame = Connected | Pushed | Echo | SendAccepted | Fate | Collected | Disconnect
_hub_frames: msgspec.json.Decoder[HubFrame] = json_decoder(HubFrame)
_tagged = json_decoder(dict[str, Any])


def decode_hub_frame(frame: str | bytes | bytearray | memoryview) -> HubFrame | Mapping[str, Any] | None:
    """The words of the hub: a frame, the fields of a `problem`, or None for a type that is not known (yet)."""
    try:
        return _hub_frames.decode(frame)
    except msgspec.ValidationError:
        fields = _tagged.decode(frame)
        if fields.get("type") == "problem":
            return fields
        if fields.get("type") in _HUB_TYPES:
            raise
        return None


_HUB_TYPES = frozenset({"connected", "message", "echo", "sent", "status", "collected", "disconnect"})

MESSAGE_HEAD = b'{"type":"message","counter":%d,"message":'
"""The bytes before a message's JSON, with the place for the counter; after it stands one more brace."""


def message_frame(counter: int, message: bytes) -> bytes:
    return MESSAGE_HEAD % counter + message + b"}"


def echo_frame(message: bytes) -> bytes:
    return b'{"type":"echo","message":%b}' % message


def encode_hub_frame(frame: Connected | SendAccepted | Fate | Collected | Disconnect) -> bytes:
    return _encoder.encode({name: value for name, value in msgspec.to_builtins(frame).items() if value is not None})


def problem_frame(request: int | None, problem: Mapping[str, object]) -> bytes:
    # Problem details have a type of their own, which the frame's takes the place of; the code says the same.
    named = {} if request is None else {"request": request}
    return _encoder.encode({**problem, "type": "problem", **named})


# --- Frames of a client


class LiveSend(msgspec.Struct, frozen=True, tag_field="type", tag="send", forbid_unknown_fields=True):
    """A message to be published; the request's number comes back with the answer."""

    request: int
    message: Raw

    def decoded(self) -> Message:
        (message,) = sound(messages_of_json(Raw(b"[%b]" % bytes(self.message)), _room_for_one))
        return message


def _room_for_one(size: int) -> None:
    if size > JSON_MESSAGE_BYTES:
        raise InvalidRequest("a live connection sends to one recipient at a time: use recipient, not recipients")


class Collect(msgspec.Struct, frozen=True, tag_field="type", tag="collected", forbid_unknown_fields=True):
    """All messages up to this number have been taken."""

    sequence_number: int


_client_frames: msgspec.json.Decoder[LiveSend | Collect] = json_decoder(LiveSend | Collect)


def decode_client_frame(frame: str) -> LiveSend | Collect:
    """The words of a client; `InvalidRequest` if they are no frame at all."""
    try:
        content = frame.encode()
    except UnicodeEncodeError as error:
        raise InvalidRequest("the frame is not valid Unicode text") from error
    return read_json(_client_frames, content, what="the frame")


def encode_send(request: int, message: Message) -> str:
    """A message to be sent over a live connection."""
    return _encoder.encode({"type": "send", "request": request, "message": _fields(message)}).decode()


def encode_collect(sequence_number: int) -> str:
    return _encoder.encode({"type": "collected", "sequence_number": sequence_number}).decode()


_TIMES = ("expires_at", "visible_at")


def _fields(message: Message) -> dict[str, Any]:
    """The fields that a sender may give, as JSON takes them."""
    fields = {
        name: getattr(message, name)
        for name in ("id", "recipient", "origin", "kind", "document_type", "weight", "media_type", *_TIMES)
        if getattr(message, name) is not None
    }
    fields |= {"bundleable": message.bundleable, "properties": message.properties}
    data, text = message.data, text_of(message)
    if text is not None:
        fields["text"] = text
    elif isinstance(data, bytes) and message.media_type is not None and media_types.is_json(message.media_type):
        fields["data"] = Raw(data)
    elif isinstance(data, bytes):
        fields["data_base64"] = data
    elif data is not UNSET:
        fields["data"] = data
    return fields
