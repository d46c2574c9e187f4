"""Messages out of CloudEvents 1.0: one in JSON, a batch in JSON, or one in headers with its data as the body."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any
from urllib.parse import unquote_to_bytes

import msgspec
from msgspec import Raw

from restante.decoders import json_decoder
from restante.limits import MEMBERS_MAX, PROPERTIES_MAX
from restante.model.columns import media_types
from restante.model.columns.text_ids import is_uuid
from restante.model.publishing.message import Message
from restante.model.publishing.refusals import Flawed
from restante.wire.cloudevents import (
    FIELDS,
    ORIGINAL_ID,
    REQUIRED,
    SPECVERSION,
    has_no_controls,
    id_of_event,
    is_attribute_name,
    is_time,
)
from restante.wire.incoming.shapes import GatheredMessages, Reserve, Shaped
from restante.wire.json_pieces import TakeRoom, no_bound, pieces, read_members
from restante.wire.json_values import Body, compact, read_json, read_rows, utf8_body

_HEADER_PREFIX = "ce-"
_MARKS = frozenset(_HEADER_PREFIX + name for name in REQUIRED)
_raw_decoder = json_decoder(Raw)
_text_decoder = json_decoder(str)
_quoted_pair = re.compile(r"\\(.)")


def _plain_text(value: Raw) -> str:
    text = _text_decoder.decode(value)
    if not has_no_controls(text):
        raise ValueError("it has one")
    return text


_Expected = tuple[Callable[[Raw], Any], str]
_TEXT: _Expected = (_plain_text, "text without control characters")
_INTEGER: _Expected = (json_decoder(int).decode, "an integer")
_TIME: _Expected = (json_decoder(datetime).decode, "a time like 2030-01-31T12:00:00Z")
_TYPES: dict[str, _Expected] = {
    "weight": _INTEGER,
    "bundleable": (json_decoder(bool).decode, "true or false"),
    "expirytime": _TIME,
    "visibletime": _TIME,
    "sourceposition": _INTEGER,
}


def decode_event(body: Body, take_room: TakeRoom = no_bound) -> Sequence[Message] | Flawed:
    """One event in JSON (structured mode)."""
    event = read_json(_raw_decoder, utf8_body(body, take_room), what="the event")
    gathering = GatheredMessages(take_room)
    gathering.look_at([event], shape_event)
    return gathering.result()


def decode_batch(body: Body, take_room: TakeRoom = no_bound) -> Sequence[Message] | Flawed:
    """An array of events in JSON, piece by piece."""
    gathering = GatheredMessages(take_room)
    for piece in pieces(utf8_body(body, take_room)):
        gathering.look_at(read_rows(piece, what="the batch of events"), shape_event)
        if gathering.is_full:
            break
    return gathering.result()


def is_binary_mode(headers: Mapping[str, str]) -> bool:
    """Whether the headers are those of an event whose data is the body."""
    return not _MARKS.isdisjoint(headers)


def decode_binary(body: Body, *, content_type: str | None, headers: Mapping[str, str]) -> Sequence[Message] | Flawed:
    """One event whose attributes are headers (names in lower case). No body and no type: a claim check."""
    shaped = Shaped(0)
    attributes = {
        name.removeprefix(_HEADER_PREFIX): value for name, value in headers.items() if name.startswith(_HEADER_PREFIX)
    }
    raw = {name: value for name, text in attributes.items() if (value := _header_value(shaped, name, text)) is not None}
    _take_attributes(shaped, raw)
    if content_type is not None:
        shaped.fields["media_type"] = content_type.strip()
    if content_type is not None or len(body):
        shaped.data(_binary_data(bytes(body), content_type), default_media_type=None)
    gathering = GatheredMessages(no_bound)
    gathering.look_at([Raw()], lambda _index, _row, _reserve: shaped)
    return gathering.result()


def _binary_data(content: bytes, content_type: str | None) -> bytes:
    """The body; JSON is made compact, as it is everywhere. If it is none after all, the rules say so."""
    if content_type is None or not media_types.is_json(content_type.strip()):
        return content
    try:
        content.decode()
        return compact(bytes(_raw_decoder.decode(content)))
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return content


def _header_value(shaped: Shaped, name: str, text: str) -> Raw | None:
    """A header as the JSON value that it stands for; texts are percent-encoded, and may be quoted."""
    if len(text) > 1 and text[0] == text[-1] == '"':
        text = _quoted_pair.sub(r"\1", text[1:-1])
    try:
        value = unquote_to_bytes(text.encode("latin-1", "strict")).decode()
    except UnicodeError:
        shaped.fault(name, f"the header {_HEADER_PREFIX}{name} must be percent-encoded UTF-8")
        return None
    if name in {"weight", "bundleable", "sourceposition"} and _is_scalar(value):
        return Raw(value)
    return Raw(msgspec.json.encode(value))


def _is_scalar(text: str) -> bool:
    return text in {"true", "false"} or re.fullmatch(r"-?(0|[1-9][0-9]{0,30})", text) is not None


def shape_event(index: int, row: Raw, reserve: Reserve = no_bound) -> Shaped:
    """One event in JSON, taken apart."""
    shaped = Shaped(index, reserve)
    try:
        attributes = read_members(bytes(row))
    except msgspec.ValidationError:
        shaped.fault(None, "an event must be a JSON object")
        return shaped
    except RecursionError:
        shaped.fault(None, "it is nested too deeply")
        return shaped
    if len(attributes) > MEMBERS_MAX:
        shaped.fault("properties", f"an event has at most {PROPERTIES_MAX} attributes that become properties")
        return shaped
    # An attribute that is null is one that is not there; null data is data.
    given = {name: value for name, value in attributes.items() if name == "data" or bytes(value) != b"null"}
    _take_attributes(shaped, given)
    _take_data(shaped, given)
    return shaped


def _take_data(shaped: Shaped, given: Mapping[str, Raw]) -> None:
    if "data" in given and "data_base64" in given:
        shaped.fault("data_base64", "data and data_base64 are both there: give one of them")
    elif "data_base64" in given:
        shaped.base64("data_base64", given["data_base64"])
    elif "data" in given:
        shaped.data(_json_data(given["data"], shaped.fields.get("media_type")), default_media_type=media_types.JSON)


def _json_data(value: Raw, media_type: str | None) -> bytes:
    """The value; but text of a type that is not JSON is meant as it reads, without quotes."""
    content = bytes(value)
    if media_type is not None and not media_types.is_json(media_type) and content[:1] == b'"':
        return _text_decoder.decode(content).encode()
    return compact(content)


def _take_attributes(shaped: Shaped, given: Mapping[str, Raw]) -> None:
    properties: dict[str, str] = {}
    for name, value in given.items():
        if name in FIELDS:
            read, expected = _TYPES.get(name, _TEXT)
            shaped.take(FIELDS[name], value, read, expected, named=name)
        elif name not in {"specversion", "data", "data_base64"}:
            _take_property(shaped, properties, name, value)
    _check_required(shaped, given)
    _check_version(shaped, given)
    _settle_id(shaped, properties)
    shaped.fields["properties"] = properties


def _check_required(shaped: Shaped, given: Mapping[str, Raw]) -> None:
    for name in (*REQUIRED, "recipient"):
        if name not in given and name not in {field for field, _ in shaped.faults}:
            shaped.fault(name, f"{name} is required: an event without it cannot be taken")


def _check_version(shaped: Shaped, given: Mapping[str, Raw]) -> None:
    if "specversion" in given and bytes(given["specversion"]) != b'"1.0"':
        shaped.fault("specversion", f'specversion must be "{SPECVERSION}", the version that is understood')


def _settle_id(shaped: Shaped, properties: dict[str, str]) -> None:
    """An id that is no UUID becomes one, and is kept."""
    event_id, source = shaped.fields.get("id"), shaped.fields.get("origin")
    if event_id is None or source is None or is_uuid(event_id):
        return
    if not event_id:
        shaped.fault("id", "id must not be empty")
        del shaped.fields["id"]
        return
    shaped.fields["id"] = id_of_event(source, event_id)
    properties[ORIGINAL_ID] = event_id


def _take_property(shaped: Shaped, properties: dict[str, str], name: str, value: Raw) -> None:
    """An attribute that has no field: a property, as text."""
    if name == ORIGINAL_ID:
        shaped.fault(name, f"{name} is the hub's own: it keeps the id of an event in it, leave it out")
    elif not is_attribute_name(name):
        shaped.fault(name, f"{name} cannot be an attribute: names have lower-case letters a to z and digits")
    elif (text := _scalar_text(value)) is None:
        shaped.fault(name, f"{name} must be text, a number, true or false")
    elif not has_no_controls(text):
        shaped.fault(name, f"{name} must be text without control characters: it has one")
    elif name == "time" and not is_time(text):
        shaped.fault(name, "time must be a time like 2030-01-31T12:00:00Z")
    else:
        properties[name] = text


def _scalar_text(value: Raw) -> str | None:
    """The text of a scalar, as it is written; None for an array or an object."""
    content = bytes(value)
    if content[:1] in {b"[", b"{"}:
        return None
    return _text_decoder.decode(content) if content[:1] == b'"' else content.decode()
