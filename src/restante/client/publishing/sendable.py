"""`sendable` turns the values that callers send into what a link takes: messages, or columns.

Callers may give a message, a mapping of its fields, a CloudEvent (an object of the `cloudevents` package, or its mapping), a
list of any of these, or a frame. Values that a link takes already are returned unchanged and unchecked.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, TypedDict
from uuid import UUID

import msgspec
from msgspec import UNSET, Raw

from restante.client.publishing.frame_columns import frame_columns
from restante.decoders import converted
from restante.errors import InvalidRequest
from restante.model.publishing.broadcast import Broadcast, spread
from restante.model.publishing.message import Message
from restante.model.publishing.refusals import Flawed
from restante.model.publishing.validation import FIELDS, READ_ONLY
from restante.wire.incoming.incoming_cloudevents import shape_event
from restante.wire.incoming.shapes import Shaped, check_recipients, faults_of, flawed, sound

_ALLOWED = (*FIELDS, "recipients", "data_base64")
_TIMES = ("expires_at", "visible_at")
_EVENT_MARK = "specversion"
"""The attribute that every CloudEvent has, and no message."""
_NO_LIST = (str, bytes, bytearray, memoryview)


class MessageFields(TypedDict, total=False):
    """The fields of one message, as keyword arguments of `send`."""

    recipient: str
    recipients: Sequence[str]
    data: Any
    text: str
    data_base64: str
    id: str
    origin: str
    kind: str
    document_type: str
    weight: int
    bundleable: bool
    media_type: str
    properties: dict[str, str]
    expires_at: datetime
    visible_at: datetime
    source_position: int


def sendable(sent: object, fields: Mapping[str, Any] | None = None) -> object:
    """The value for a link: a message, a list of messages, or columns. Raises if it can be none of these."""
    if fields:
        return _message_of_fields(sent, fields)
    if sent is UNSET:
        raise InvalidRequest('There is nothing to send: give messages, or fields like recipient="alice", text="hello".')
    if isinstance(sent, Message):
        return sent
    if _is_one(sent):
        return message_of(sent)
    if isinstance(sent, _NO_LIST):
        what = "text" if isinstance(sent, str) else "data"
        raise InvalidRequest(f'A message needs a recipient: send(recipient="alice", {what}=…).')
    if isinstance(sent, Sequence):
        return _messages_of(sent)
    return frame_columns(sent)


def few_sendable(sent: object) -> tuple[Message, ...] | None:
    """The messages of one message or a list of them; None for columns and all else."""
    if not _is_one(sent) and not isinstance(sent, list | tuple):
        return None
    taken: Any = sendable(sent)
    return tuple(spread((taken,) if isinstance(taken, Message) else taken))


def message_of(given: object, index: int = 0) -> Message:
    """A message from a value that may be one. Errors name its `index` among others."""
    if isinstance(given, Message):
        return given
    shaped = _shape(index, given)
    if shaped.faults:
        sound(Flawed([shaped.message], faults_of([shaped])))
    return shaped.message


def messages_of_one(given: object, index: int = 0) -> Sequence[Message]:
    """The messages from a value that may be one message. A broadcast gives one for each recipient."""
    return spread((message_of(given, index),))


def single_message(given: object) -> Message:
    """One message for one recipient. Raises for a broadcast."""
    message = message_of(given)
    if isinstance(message, Broadcast):
        raise InvalidRequest("Here a message has one recipient: use recipient, not recipients.")
    return message


def _message_of_fields(sent: object, fields: Mapping[str, Any]) -> Message:
    if sent is not UNSET:
        raise InvalidRequest(f"Give messages, or the fields of one ({', '.join(fields)}), not both.")
    return message_of(fields)


def _messages_of(sent: Sequence[object]) -> Sequence[object]:
    if all(isinstance(each, Message) for each in sent):
        return sent
    shaped = {index: _shape(index, each) for index, each in enumerate(sent) if not isinstance(each, Message)}
    messages: list[Any] = [shaped[index].message if index in shaped else each for index, each in enumerate(sent)]
    faulty = any(one.faults for one in shaped.values())
    return sound(flawed([*shaped.values()], messages)) if faulty else messages


def _is_one(sent: object) -> bool:
    return isinstance(sent, Mapping) or _is_event(sent)


def _is_event(given: object) -> bool:
    """Whether a value is an event of the `cloudevents` package. Its classes differ by version, so test what they share."""
    return callable(getattr(given, "get_attributes", None)) and callable(getattr(given, "get_data", None))


def _shape(index: int, given: object) -> Shaped:
    if isinstance(given, Mapping):
        return _shape_event(index, given) if _EVENT_MARK in given else _shape_fields(index, given)
    if _is_event(given):
        return _shape_event(index, _mapping_of_event(given))
    raise InvalidRequest(
        f"item {index} is of type {type(given).__name__}: each must be a Message, a dict of its fields, or a CloudEvent"
    )


def _mapping_of_event(event: Any) -> dict[str, Any]:  # noqa: ANN401 - of a package that need not be there
    """An event in its JSON form. Without data, it is a claim check."""
    data = event.get_data()
    attributes = {name: value for name, value in event.get_attributes().items() if value is not None}
    if data is None:
        return attributes
    if isinstance(data, bytes | bytearray | memoryview):
        return {**attributes, "data_base64": base64.b64encode(data).decode()}
    return {**attributes, "data": data}


def _shape_event(index: int, event: Mapping[str, Any]) -> Shaped:
    try:
        return shape_event(index, Raw(msgspec.json.encode(dict(event))))
    except (TypeError, ValueError, OverflowError, RecursionError, msgspec.MsgspecError) as error:
        shaped = Shaped(index)
        shaped.fault("data", f"the event holds what JSON cannot say: {error}")
        return shaped


def _shape_fields(index: int, fields: Mapping[str, Any]) -> Shaped:
    shaped = Shaped(index)
    for name, value in fields.items():
        _take(shaped, name, value)
    if "data" in fields and "data_base64" in fields:
        shaped.fault("data_base64", "data and data_base64 are there together: give one of them")
    check_recipients(shaped, fields)
    return shaped


def _take(shaped: Shaped, name: str, value: Any) -> None:  # noqa: ANN401 - whatever a caller gives
    """Set one field. Its value is checked by the rules later."""
    if name == "data_base64":
        shaped.fields["data"] = _unpacked(shaped, value)
    elif name in _TIMES and isinstance(value, str):
        shaped.fields[name] = _time(shaped, name, value)
    elif name == "recipients":
        _take_recipients(shaped, value)
    elif name == "id" and isinstance(value, UUID):
        shaped.fields[name] = str(value)
    elif name in FIELDS or name in READ_ONLY:
        shaped.fields[name] = value
    else:
        shaped.fault(name, f"the field {name} is unknown: allowed are {', '.join(_ALLOWED)}")


def _take_recipients(shaped: Shaped, value: object) -> None:
    if isinstance(value, str) or not isinstance(value, Iterable):
        shaped.fault("recipients", "recipients must be a list of texts")
    else:
        shaped.fields["recipients"] = tuple(value)


def _unpacked(shaped: Shaped, value: object) -> bytes:
    try:
        return base64.b64decode(value, validate=True)  # type: ignore[arg-type]  # anything else is a TypeError
    except (TypeError, ValueError, binascii.Error) as error:
        shaped.fault("data_base64", f"data_base64 must be base64 text (RFC 4648, padded): {error}")
        return b""


def _time(shaped: Shaped, name: str, value: str) -> datetime | None:
    try:
        return converted(value, datetime)
    except msgspec.ValidationError as error:
        shaped.fault(name, f"{name} must be a time like 2030-01-31T12:00:00Z: {error}")
        return None
