"""Messages out of a JSON body.

The usual body is right, and is decoded in one go into values of the right types. When that fails, the body is taken
apart field by field to name every message that is wrong, not only the first; then the rules of the model are asked
too, so that one answer tells all.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any

import msgspec
from msgspec import UNSET, Raw, UnsetType

from restante.errors import InvalidRequest
from restante.model.media_types import JSON
from restante.model.message import Message
from restante.model.validation import FIELDS, READ_ONLY
from restante.wire.json_values import Body, compact, has_space, read_json, read_rows, utf8_body
from restante.wire.shapes import Shaped, messages_of

__all__ = ["decode_json", "messages_of_json"]


class _Sent(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    """A message as JSON says it. What is left out is unset, for null says something else."""

    recipient: str
    data: Raw | UnsetType = UNSET
    data_base64: bytes | UnsetType = UNSET
    id: str | UnsetType = UNSET
    origin: str = "default"
    kind: str = "default"
    document_type: str | UnsetType = UNSET
    weight: int | UnsetType = UNSET
    bundleable: bool = True
    media_type: str | UnsetType = UNSET
    properties: dict[str, str] = {}
    expires_at: datetime | UnsetType = UNSET


class _Body(msgspec.Struct, forbid_unknown_fields=True):
    messages: list[_Sent]


_body_decoder = msgspec.json.Decoder(_Body)
_list_decoder = msgspec.json.Decoder(list[_Sent])
_object_decoder = msgspec.json.Decoder(dict[str, Raw])


def decode_json(body: Body) -> list[Message]:
    """The messages of `{"messages": […]}`."""
    content = utf8_body(body)
    try:
        tidy = _as_it_is if not has_space(content) else compact
        return [_message(sent, tidy) for sent in _body_decoder.decode(content).messages]
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return _decode_slowly(_array_of(content))


def messages_of_json(array: Raw) -> list[Message]:
    """The messages of a JSON array that lies in something larger, which was found to be UTF-8."""
    try:
        return [_message(sent, compact) for sent in _list_decoder.decode(array)]
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return _decode_slowly(array)


def _as_it_is(value: bytes) -> bytes:
    return value


def _message(sent: _Sent, tidy: Callable[[bytes], bytes]) -> Message:
    data, media_type = sent.data, sent.media_type
    content: Any = UNSET
    if data is not UNSET:
        if sent.data_base64 is not UNSET:
            raise ValueError
        content = tidy(bytes(data))
        if media_type is UNSET:
            media_type = JSON
    elif sent.data_base64 is not UNSET:
        content = sent.data_base64
    return Message(
        recipient=sent.recipient,
        data=content,
        id=None if sent.id is UNSET else sent.id,
        origin=sent.origin,
        kind=sent.kind,
        document_type=None if sent.document_type is UNSET else sent.document_type,
        weight=None if sent.weight is UNSET else sent.weight,
        bundleable=sent.bundleable,
        media_type=None if media_type is UNSET else media_type,
        properties=sent.properties,
        expires_at=None if sent.expires_at is UNSET else sent.expires_at,
    )


def _array_of(content: bytes) -> Raw:
    """The array of messages, still as it is written."""
    fields = read_json(_object_decoder, content, what="the body")
    for name in fields:
        if name != "messages":
            raise InvalidRequest(f"the field {name} is unknown: a body has the field messages and no other", field=name)
    if "messages" not in fields:
        raise InvalidRequest("the field messages is missing: send an array of messages in it", field="messages")
    return fields["messages"]


def _decode_slowly(array: Raw) -> list[Message]:
    """Every fault by name, or the messages after all."""
    return messages_of(read_rows(array, what="the field messages"), _shape)


def _shape(index: int, row: Raw) -> Shaped:
    shaped = Shaped(index)
    try:
        fields = _object_decoder.decode(row)
    except msgspec.ValidationError:
        shaped.fault(None, "a message must be a JSON object")
        return shaped
    except RecursionError:
        shaped.fault(None, "it is nested too deeply")
        return shaped
    for name, value in fields.items():
        _take(shaped, name, value)
    if "data" in fields and "data_base64" in fields:
        shaped.fault("data_base64", "data and data_base64 are both there: give one of them")
    if "recipient" not in fields:
        shaped.fault("recipient", "recipient is required: name who gets the message")
    return shaped


def _take(shaped: Shaped, name: str, value: Raw) -> None:
    """One field of a message, into its place or among the faults."""
    if name in _EXPECTED:
        kind, expected = _EXPECTED[name]
        shaped.take(name, value, kind, expected)
    elif name == "data":
        shaped.data(compact(bytes(value)), default_media_type=JSON)
    elif name == "data_base64":
        shaped.base64(name, value)
    elif name in READ_ONLY:
        shaped.fault(name, f"{name} is read only: the hub gives it, leave it out")
    else:
        allowed = ", ".join((*FIELDS, "data_base64"))
        shaped.fault(name, f"the field {name} is unknown: allowed are {allowed}")


_EXPECTED: dict[str, tuple[Any, str]] = {
    "id": (str, "text"),
    "recipient": (str, "text"),
    "origin": (str, "text"),
    "kind": (str, "text"),
    "document_type": (str, "text"),
    "weight": (int, "an integer"),
    "bundleable": (bool, "true or false"),
    "media_type": (str, "text"),
    "properties": (dict[str, str], "an object of text to text"),
    "expires_at": (datetime, "a time like 2030-01-31T12:00:00Z"),
}
"""What each field must be, for the decoder and for people."""
