"""Makes a draft of messages that are Python values: one pass a column, with a slow path only for what is faulty."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from itertools import chain
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from restante.errors import InvalidRequest
from restante.model.columns import media_types
from restante.model.columns.arrow import Column, map_array, string_array
from restante.model.columns.texts import Texts
from restante.model.publishing.draft import NOT_GIVEN, DraftColumns
from restante.model.publishing.message import NEVER, Message, text_of
from restante.model.publishing.validation import Faults

Values = Sequence[Any]
"""One field of all messages."""

_NONE = type(None)
_BYTES = (bytes, bytearray, memoryview)
_AS_BYTES, _AS_JSON, _AS_TEXT = range(3)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND = timedelta(microseconds=1)
_FAR = 2**62
"""Beyond any weight, and still a 64-bit number."""
_encoder = msgspec.json.Encoder()


def draft_of_messages(messages: Sequence[Message], faults: Faults) -> DraftColumns:
    _require_messages(messages)
    _refuse_read_only(messages, faults)
    data, media_default = _data(messages, faults)
    return DraftColumns(
        n=len(messages),
        id=_optional_texts([message.id for message in messages], "id", faults),
        text_id=None,
        recipient=_texts([message.recipient for message in messages], "recipient", faults),
        origin=_texts([message.origin for message in messages], "origin", faults),
        kind=_texts([message.kind for message in messages], "kind", faults),
        document_type=_optional_texts([message.document_type for message in messages], "document_type", faults),
        media_type=_optional_texts([message.media_type for message in messages], "media_type", faults),
        weight=_integers([message.weight for message in messages], "weight", faults),
        bundleable=_bundleable([message.bundleable for message in messages], faults),
        data=data,
        media_default=media_default,
        properties=_properties([message.properties for message in messages], faults),
        expires_at=_times([message.expires_at for message in messages], "expires_at", faults),
        visible_at=_times([message.visible_at for message in messages], "visible_at", faults),
        source_position=_integers([message.source_position for message in messages], "source_position", faults),
    )


def _require_messages(messages: Sequence[object]) -> None:
    if not isinstance(messages, Sequence):
        raise InvalidRequest(f"a sequence of Message is expected, not {type(messages).__name__}")
    if all(issubclass(kind, Message) for kind in set(map(type, messages))):
        return
    index = next(index for index, message in enumerate(messages) if not isinstance(message, Message))
    raise InvalidRequest(f"item {index} is of type {type(messages[index]).__name__}: each must be a Message")


def _refuse_read_only(messages: Sequence[Message], faults: Faults) -> None:
    columns: dict[str, Values] = {
        "sequence_number": [message.sequence_number for message in messages],
        "published_at": [message.published_at for message in messages],
        "collected_at": [message.collected_at for message in messages],
        "state": [message.state for message in messages],
    }
    for name, values in columns.items():
        if values.count(None) < len(values):
            rows = [row for row, value in enumerate(values) if value is not None]
            faults.add(rows, name, f"{name} is read only: the hub gives it, leave it out")


def _optional_texts(values: Values, name: str, faults: Faults) -> Column | None:
    return None if values.count(None) == len(values) else _texts(values, name, faults, _NONE)


def _texts(values: Values, name: str, faults: Faults, *also: type) -> Column:
    if set(map(type, values)) <= {str, *also}:
        try:
            return pa.array(values, pa.large_string())
        except UnicodeEncodeError:
            pass
    kept = _kept(values, lambda value: _text_problem(value, name, also), name, faults)
    return pa.array(kept, pa.large_string())


def _text_problem(value: object, name: str, also: tuple[type, ...] = ()) -> str | None:
    if isinstance(value, also):
        return None
    if not isinstance(value, str):
        return f"{name} must be text (str), not {type(value).__name__}"
    return None if _encodes(value) else f"{name} must be valid Unicode text, without lone surrogates"


def _encodes(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _kept(values: Values, problem: Callable[[Any], str | None], name: str, faults: Faults) -> list[Any]:
    """The values, with None in place of those that have a problem; each such row is a fault."""
    problems = {row: found for row, value in enumerate(values) if (found := problem(value)) is not None}
    faults.add(problems, name, lambda row: problems[row])
    return [None if row in problems else value for row, value in enumerate(values)]


def _integers(values: Values, name: str, faults: Faults) -> NDArray[np.int64] | None:
    if values.count(None) == len(values):
        return None
    if not set(map(type, values)) <= {int, _NONE}:
        values = _kept(values, lambda value: _integer_problem(value, name), name, faults)
    return np.array([NOT_GIVEN if value is None else max(-_FAR, min(value, _FAR)) for value in values], np.int64)


def _integer_problem(value: object, name: str) -> str | None:
    whole = isinstance(value, (int, np.integer)) and not isinstance(value, bool)
    return None if value is None or whole else f"{name} must be an integer, not {type(value).__name__}"


def _bundleable(values: Values, faults: Faults) -> NDArray[np.bool_]:
    if not set(map(type, values)) <= {bool}:
        values = [value is None or value for value in _kept(values, _bool_problem, "bundleable", faults)]
    return np.array(values, np.bool_)


def _bool_problem(value: object) -> str | None:
    fine = isinstance(value, (bool, np.bool_))
    return None if fine else f"bundleable must be true or false, not {type(value).__name__}"


def _data(messages: Sequence[Message], faults: Faults) -> tuple[pa.LargeBinaryArray, Texts | None]:
    """The data, and the media types that it has by default."""
    values: Values = [message.data for message in messages]
    texts: Values = [message.text for message in messages]
    if set(map(type, values)) <= {bytes} and texts.count(None) == len(texts):
        return pa.array(values, pa.large_binary()), None
    encoded, codes = [], []
    for row, message in enumerate(messages):
        text = text_of(message)
        raw = isinstance(message.data, (*_BYTES, msgspec.UnsetType))
        codes.append(_AS_TEXT if text is not None else _AS_BYTES if raw else _AS_JSON)
        encoded.append(encoded_value(message.data, row, faults) if text is None else _text(message, text, row, faults))
    defaults = Texts(np.array(codes, np.int32), string_array([media_types.BYTES, media_types.JSON, media_types.TEXT]))
    return pa.array(encoded, pa.large_binary()), defaults.compact()


def _text(message: Message, text: object, row: int, faults: Faults) -> bytes:
    """The bytes of one message's text."""
    problem = _text_problem(text, "text")
    if message.data is not msgspec.UNSET and not (isinstance(message.data, str) and message.data == text):
        problem = "data and text are both there: give one of them"
    if problem is not None:
        faults.add([row], "text", problem)
        return b""
    assert isinstance(text, str)
    return text.encode()


def encoded_value(value: object, row: int, faults: Faults) -> bytes | None:
    """The bytes of one message's data; None for a claim check, nothing for what cannot be encoded."""
    if value is msgspec.UNSET:
        return None
    if type(value) is bytes:
        return value
    try:
        if isinstance(value, _BYTES):
            return bytes(value)
        encoded = _encoder.encode(value)
    except (TypeError, ValueError, OverflowError, AttributeError, RecursionError, msgspec.MsgspecError) as error:
        faults.add([row], "data", f"data must be bytes or a value that JSON can say: {error}")
        return b""
    # The encoder writes null for numbers that JSON does not have.
    if b"null" in encoded and _holds_non_finite(value):
        faults.add([row], "data", "data must not hold NaN or Infinity: JSON cannot say them")
        return b""
    return encoded


def _holds_non_finite(value: object) -> bool:
    # A part that is JSON text already has no plain form: then the rest is looked at as it is.
    with suppress(TypeError, ValueError, msgspec.MsgspecError):
        value = msgspec.to_builtins(value, str_keys=True)
    waiting = [value]
    while waiting:
        part = waiting.pop()
        if isinstance(part, float) and not math.isfinite(part):
            return True
        if isinstance(part, dict):
            waiting.extend(part.values())
        elif isinstance(part, (list, tuple, set, frozenset)):
            waiting.extend(part)
    return False


def _properties(values: Values, faults: Faults) -> pa.MapArray[Any, Any] | None:
    if set(map(type, values)) <= {dict} and not any(values):
        return None
    try:
        return _map_array(values)
    except (TypeError, AttributeError, UnicodeEncodeError):
        kept = _kept(values, _properties_problem, "properties", faults)
        return _map_array([value or {} for value in kept])


def _map_array(maps: Values) -> pa.MapArray[Any, Any]:
    keys = list(chain.from_iterable(maps))
    items = list(chain.from_iterable(value.values() for value in maps))
    if not all(issubclass(kind, str) for kind in set(map(type, chain(keys, items)))):
        raise TypeError
    offsets = np.zeros(len(maps) + 1, np.int64)
    np.cumsum(np.fromiter(map(len, maps), np.int64, len(maps)), out=offsets[1:])
    return map_array(offsets, pa.array(keys, pa.large_string()), pa.array(items, pa.large_string()))


def _properties_problem(value: object) -> str | None:
    if not isinstance(value, dict):
        return f"properties must be a dict of text to text, not {type(value).__name__}"
    for part in chain(value, value.values()):
        if not isinstance(part, str):
            return f"properties must map text to text: {type(part).__name__} is neither"
        if not _encodes(part):
            return "properties must be valid Unicode text, without lone surrogates"
    return None


def _times(values: Values, name: str, faults: Faults) -> NDArray[np.int64] | None:
    if values.count(None) == len(values):
        return None
    kept = _kept(values, lambda value: _time_problem(value, name), name, faults)
    return np.array([NEVER if time is None else (time - EPOCH) // MICROSECOND for time in kept], np.int64)


def _time_problem(value: object, name: str) -> str | None:
    if value is None:
        return None
    if not isinstance(value, datetime) or value != value:  # noqa: PLR0124 - a "not a time" of pandas is a datetime
        return f"{name} must be a datetime, not {type(value).__name__}"
    return None if value.utcoffset() is not None else f"{name} must have a time zone, like datetime.UTC"
