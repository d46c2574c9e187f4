"""Messages out of a JSON body: `{"messages": […]}`, a bare list, or one message.

The usual body is right, and is decoded into values of the right types: a small one in one go, a large one piece by piece.
When that fails, the piece is taken apart field by field to name every message that is wrong, not only the first. The hub then adds faults against the rules, and
conflicts, so that one answer names all faults.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from datetime import datetime
from functools import partial
from typing import Any

import msgspec
from msgspec import UNSET, Raw, UnsetType

from restante.decoders import json_decoder
from restante.errors import InvalidRequest
from restante.limits import JSON_PIECE_BYTES, MEMBERS_MAX
from restante.model.columns.media_types import JSON
from restante.model.publishing.broadcast import Broadcast
from restante.model.publishing.message import Message
from restante.model.publishing.refusals import Flawed
from restante.model.publishing.validation import FIELDS, READ_ONLY
from restante.wire.incoming.shapes import (
    GatheredMessages,
    Reserve,
    Shaped,
    check_recipients,
    properties_of,
    recipients_of,
)
from restante.wire.json_pieces import TakeRoom, no_bound, pieces, read_members
from restante.wire.json_values import Body, compact, has_space, read_object, read_rows, utf8_body

__all__ = ["SentMessage", "decode_json", "message_of", "messages_of_json", "sent_of"]


class SentMessage(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    """A message as JSON says it. A field that is left out is unset, because null means something else.

    Fields that could hold any number of parts are left as they are written, so that a message takes little more memory
    than its struct.
    """

    recipient: str | UnsetType = UNSET
    recipients: Raw | UnsetType = UNSET
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
    properties: Raw | UnsetType = UNSET
    expires_at: datetime | UnsetType = UNSET
    visible_at: datetime | UnsetType = UNSET
    source_position: int | UnsetType = UNSET


class _Body(msgspec.Struct, forbid_unknown_fields=True):
    messages: list[SentMessage]


_WRAPPED = "the field messages"
_large_head = re.compile(rb'[ \t\r\n]*\{[ \t\r\n]*"messages"[ \t\r\n]*:[ \t\r\n]*(?=\[)')
_large_end = re.compile(rb"(\])[ \t\r\n]*\}[ \t\r\n]*\Z")
_END_BYTES = 1024
"""Within so many bytes the end of a body is looked for; one that is further away is found as any other field is."""
_body_decoder = json_decoder(_Body)
_one_decoder = json_decoder(SentMessage)
_list_decoder = json_decoder(list[SentMessage])


def decode_json(body: Body, take_room: TakeRoom = no_bound) -> Sequence[Message] | Flawed:
    """The messages of a body in one of its three forms."""
    content = utf8_body(body, take_room)
    if len(content) > JSON_PIECE_BYTES:
        return _decode_large(content, take_room)
    gathering = GatheredMessages(take_room)
    if not _took(gathering, content, sent_of):
        _gather(gathering, *_rows(content))
    return gathering.result()


def _decode_large(content: bytes, take_room: TakeRoom) -> Sequence[Message] | Flawed:
    """The messages of a large body. That its only field is a list is seen by its ends, because reading it as a whole takes long."""
    head, end = _large_head.match(content), _large_end.search(content, len(content) - _END_BYTES)
    if head is None or end is None:
        return _gathered(*_rows(content), take_room)
    try:
        return _gathered(content[head.end() : end.end(1)], _WRAPPED, take_room)
    except InvalidRequest:
        _rows(content)  # There may be other fields: an error about them says more.
        raise


def sent_of(content: bytes) -> list[SentMessage]:
    """The messages of a small body that is right. The list is known by its first character; one message is tried last."""
    if content[:1] == b"[":
        return _list_decoder.decode(content)
    try:
        return _body_decoder.decode(content).messages
    except msgspec.ValidationError:
        if content.lstrip()[:1] == b"[":
            return _list_decoder.decode(content)
        return [_one_decoder.decode(content)]


def messages_of_json(array: Raw, take_room: TakeRoom = no_bound) -> Sequence[Message] | Flawed:
    """The messages of a JSON array that lies in something larger, which was found to be UTF-8."""
    return _gathered(bytes(array), _WRAPPED, take_room)


def _gathered(array: bytes, what: str, take_room: TakeRoom) -> Sequence[Message] | Flawed:
    gathering = GatheredMessages(take_room)
    _gather(gathering, array, what)
    return gathering.result()


def _gather(gathering: GatheredMessages, array: bytes, what: str) -> None:
    """Gather the messages of an array, piece by piece; those of a piece in which something is wrong one by one."""
    for piece in pieces(array):
        if not _took(gathering, piece, _list_decoder.decode):
            gathering.look_at(read_rows(piece, what=what), _shape)
        if gathering.is_full:
            return


def _took(gathering: GatheredMessages, content: bytes, read: Callable[[bytes], list[SentMessage]]) -> bool:
    """Whether all messages that `read` finds are right, and were gathered."""
    tidy = compact if has_space(content) else _as_it_is
    try:
        gathering.add([message_of(sent, tidy, gathering.reserve) for sent in read(content)])
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return False
    return True


def _as_it_is(value: bytes) -> bytes:
    return value


def message_of(sent: SentMessage, tidy: Callable[[bytes], bytes], reserve: Reserve = no_bound) -> Message:
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
        return _broadcast(sent, content, media_type, reserve)
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
        properties={} if sent.properties is UNSET else properties_of(sent.properties),
        expires_at=None if sent.expires_at is UNSET else sent.expires_at,
        visible_at=None if sent.visible_at is UNSET else sent.visible_at,
        source_position=None if sent.source_position is UNSET else sent.source_position,
    )


def _broadcast(sent: SentMessage, content: Any, media_type: str | UnsetType, reserve: Reserve) -> Broadcast:  # noqa: ANN401 - unset, or bytes
    assert sent.recipients is not UNSET, "it has been looked at"
    recipients = recipients_of(sent.recipients, reserve)
    if sent.recipient is not UNSET or not recipients:
        raise ValueError
    given = {name: value for name in _SAID if (value := getattr(sent, name)) is not UNSET}
    properties = {} if sent.properties is UNSET else properties_of(sent.properties)
    kind = None if media_type is UNSET else media_type
    return Broadcast(recipients=recipients, data=content, media_type=kind, properties=properties, **given)


def _rows(content: bytes) -> tuple[bytes, str]:
    """The array of the messages of a body, as it is written, and its name in errors."""
    if content.lstrip()[:1] == b"[":
        return content, "the body"
    fields = read_object(content, what="the body")
    if "messages" in fields:
        for name in fields:
            if name != "messages":
                raise InvalidRequest(f"the field {name} is unknown: beside messages there is no other", field=name)
        return bytes(fields["messages"]), _WRAPPED
    if fields.keys().isdisjoint(_ALLOWED):
        name = next(iter(fields), "messages")
        wrong = f"the field {name} is unknown, and " if fields else ""
        raise InvalidRequest(
            f"{wrong}the field messages is missing: send a message, a list of messages, or a list of them in the field "
            "messages",
            field=name,
        )
    return b"[%b]" % content, "the body"


def _shape(index: int, row: Raw, reserve: Reserve) -> Shaped:
    shaped = Shaped(index, reserve)
    try:
        fields = read_members(bytes(row))
    except msgspec.ValidationError:
        shaped.fault(None, "a message must be a JSON object")
        return shaped
    except RecursionError:
        shaped.fault(None, "it is nested too deeply")
        return shaped
    if len(fields) > MEMBERS_MAX:
        # Only unknown fields make a message so large: name one of them, as there is no room for all.
        fields = {name: fields[name] for name in [next(name for name in fields if name not in _ALLOWED)]}
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
    if name == "recipients":
        shaped.take(name, value, partial(recipients_of, reserve=shaped.reserve), "a list of texts")
    elif name in _EXPECTED:
        read, expected = _EXPECTED[name]
        shaped.take(name, value, read, expected)
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
    "expires_at",
    "visible_at",
    "source_position",
)
_text = json_decoder(str).decode
_EXPECTED: dict[str, tuple[Callable[[Raw], Any], str]] = {
    "id": (_text, "text"),
    "recipient": (_text, "text"),
    "text": (_text, "text"),
    "origin": (_text, "text"),
    "kind": (_text, "text"),
    "document_type": (_text, "text"),
    "weight": (json_decoder(int).decode, "an integer"),
    "bundleable": (json_decoder(bool).decode, "true or false"),
    "media_type": (_text, "text"),
    "properties": (properties_of, "an object of text to text"),
    "expires_at": (json_decoder(datetime).decode, "a time like 2030-01-31T12:00:00Z"),
    "visible_at": (json_decoder(datetime).decode, "a time like 2030-01-31T12:00:00Z"),
    "source_position": (json_decoder(int).decode, "an integer"),
}
"""The reader of each field, and the type of the field for people."""
