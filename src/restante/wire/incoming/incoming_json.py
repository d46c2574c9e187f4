"""Messages out of a JSON body: `{"messages": […]}`, a bare list, or one message.

The usual body is right, and is decoded in one go into values of the right types. When that fails, the body is taken
apart field by field to name every message that is wrong, not only the first. The hub then adds faults against the rules, and
conflicts, so that one answer names all faults.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any

import msgspec
from msgspec import UNSET, Raw, UnsetType

from restante.decoders import json_decoder
from restante.errors import InvalidRequest
from restante.model.columns.media_types import JSON
from restante.model.publishing.broadcast import Broadcast, spread
from restante.model.publishing.message import Message
from restante.model.publishing.refusals import Flawed
from restante.model.publishing.validation import FIELDS, READ_ONLY
from restante.wire.incoming.shapes import Shaped, check_recipients, messages_of
from restante.wire.json_values import Body, compact, has_space, read_json, read_rows, utf8_body

__all__ = ["SentMessage", "decode_json", "message_of", "messages_of_json", "sent_of"]


class SentMessage(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    """A message as JSON says it. A field that is left out is unset, because null means something else."""

    recipient: str | UnsetType = UNSET
    recipients: list[str] | UnsetType = UNSET
    data: Raw | UnsetType = UNSET
    text: str | UnsetType = UNSET
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
    visible_at: datetime | UnsetType = UNSET
    source_position: int | UnsetType = UNSET


class _Body(msgspec.Struct, forbid_unknown_fields=True):
    messages: list[SentMessage]


_WRAPPED = "the field messages"
_body_decoder = json_decoder(_Body)
_one_decoder = json_decoder(SentMessage)
_list_decoder = json_decoder(list[SentMessage])
_object_decoder = json_decoder(dict[str, Raw])


def decode_json(body: Body) -> Sequence[Message] | Flawed:
    """The messages of a body in one of its three forms."""
    content = utf8_body(body)
    try:
        tidy = _as_it_is if not has_space(content) else compact
        return spread([message_of(sent, tidy) for sent in sent_of(content)])
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return _decode_slowly(content)


def sent_of(content: bytes) -> list[SentMessage]:
    """The messages of a body that is right. The list is known by its first character; one message is tried last."""
    if content[:1] == b"[":
        return _list_decoder.decode(content)
    try:
        return _body_decoder.decode(content).messages
    except msgspec.ValidationError:
        if content.lstrip()[:1] == b"[":
            return _list_decoder.decode(content)
        return [_one_decoder.decode(content)]


def messages_of_json(array: Raw) -> Sequence[Message] | Flawed:
    """The messages of a JSON array that lies in something larger, which was found to be UTF-8."""
    try:
        return spread([message_of(sent, compact) for sent in _list_decoder.decode(array)])
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return messages_of(read_rows(array, what=_WRAPPED), _shape)


def _as_it_is(value: bytes) -> bytes:
    return value


def message_of(sent: SentMessage, tidy: Callable[[bytes], bytes]) -> Message:
    """The message that is said, its data as `tidy` leaves it; `ValueError` if what it says does not go together."""
    data, media_type = sent.data, sent.media_type
    content: Any = UNSET
    if data is not UNSET:
        if sent.data_base64 is not UNSET or sent.text is not UNSET:
            raise ValueError
        content = tidy(bytes(data))
        if media_type is UNSET:
            media_type = JSON
    elif sent.data_base64 is not UNSET:
        if sent.text is not UNSET:
            raise ValueError
        content = sent.data_base64
    if sent.recipients is not UNSET:
        return _broadcast(sent, content, media_type)
    if sent.recipient is UNSET:
        raise ValueError
    return Message(
        recipient=sent.recipient,
        data=content,
        text=None if sent.text is UNSET else sent.text,
        id=None if sent.id is UNSET else sent.id,
        origin=sent.origin,
        kind=sent.kind,
        document_type=None if sent.document_type is UNSET else sent.document_type,
        weight=None if sent.weight is UNSET else sent.weight,
        bundleable=sent.bundleable,
        media_type=None if media_type is UNSET else media_type,
        properties=sent.properties,
        expires_at=None if sent.expires_at is UNSET else sent.expires_at,
        visible_at=None if sent.visible_at is UNSET else sent.visible_at,
        source_position=None if sent.source_position is UNSET else sent.source_position,
    )


def _broadcast(sent: SentMessage, content: Any, media_type: str | UnsetType) -> Broadcast:  # noqa: ANN401 - unset, or bytes
    if sent.recipient is not UNSET or not sent.recipients:
        raise ValueError
    given = {name: value for name in _SAID if (value := getattr(sent, name)) is not UNSET}
    kind = None if media_type is UNSET else media_type
    return Broadcast(recipients=tuple(sent.recipients), data=content, media_type=kind, **given)


def _decode_slowly(content: bytes) -> Sequence[Message] | Flawed:
    """Every fault by name, or the messages after all."""
    return messages_of(_rows(content), _shape)


def _rows(content: bytes) -> list[Raw]:
    """The messages of a body, still as they are written."""
    if content.lstrip()[:1] == b"[":
        return read_rows(content, what="the body")
    fields = read_json(_object_decoder, content, what="the body")
    if "messages" in fields:
        for name in fields:
            if name != "messages":
                raise InvalidRequest(f"the field {name} is unknown: beside messages there is no other", field=name)
        return read_rows(fields["messages"], what=_WRAPPED)
    if fields.keys().isdisjoint(_ALLOWED):
        name = next(iter(fields), "messages")
        wrong = f"the field {name} is unknown, and " if fields else ""
        raise InvalidRequest(
            f"{wrong}the field messages is missing: send a message, a list of messages, or a list of them in the field "
            "messages",
            field=name,
        )
    return [Raw(content)]


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
    given = [name for name in ("data", "text", "data_base64") if name in fields]
    if len(given) > 1:
        shaped.fields.pop("text", None)
        shaped.fault(given[-1], f"{' and '.join(given)} are there together: give one of them")
    check_recipients(shaped, fields)
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
        shaped.fault(name, f"the field {name} is unknown: allowed are {', '.join(_ALLOWED)}")


_ALLOWED = (*FIELDS, "recipients", "data_base64")
_SAID = (
    "id",
    "text",
    "origin",
    "kind",
    "document_type",
    "weight",
    "bundleable",
    "properties",
    "expires_at",
    "visible_at",
    "source_position",
)
_EXPECTED: dict[str, tuple[Any, str]] = {
    "id": (str, "text"),
    "recipient": (str, "text"),
    "recipients": (tuple[str, ...], "a list of texts"),
    "text": (str, "text"),
    "origin": (str, "text"),
    "kind": (str, "text"),
    "document_type": (str, "text"),
    "weight": (int, "an integer"),
    "bundleable": (bool, "true or false"),
    "media_type": (str, "text"),
    "properties": (dict[str, str], "an object of text to text"),
    "expires_at": (datetime, "a time like 2030-01-31T12:00:00Z"),
    "visible_at": (datetime, "a time like 2030-01-31T12:00:00Z"),
    "source_position": (int, "an integer"),
}
"""The type of each field, for the decoder and for people."""
