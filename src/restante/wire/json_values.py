"""JSON as it came: checked for UTF-8, read with clear errors, and made compact without touching its values."""

from __future__ import annotations

from typing import TypeVar

import msgspec

from restante.decoders import json_decoder
from restante.errors import InvalidRequest
from restante.limits import SEND_MESSAGES_MAX

Body = bytes | bytearray | memoryview
"""A body as a server has it."""

_Value = TypeVar("_Value")
_array_decoder = json_decoder(list[msgspec.Raw])
_COMMAS_MAX = 4 * SEND_MESSAGES_MAX


def utf8_body(body: Body) -> bytes:
    """The body as bytes, which are UTF-8: the JSON decoder itself looks at no text that it skips."""
    content = body if isinstance(body, bytes) else bytes(body)
    if not content.isascii():
        try:
            content.decode()
        except UnicodeDecodeError as error:
            raise InvalidRequest(f"the body is not UTF-8 at byte {error.start}: send JSON in UTF-8") from error
    return content


def read_json(decoder: msgspec.json.Decoder[_Value], content: bytes | msgspec.Raw, *, what: str) -> _Value:
    """A value whose shape the decoder knows; `what` names it in the error."""
    try:
        return decoder.decode(content)
    except RecursionError as error:
        raise InvalidRequest(f"{what} is nested too deeply") from error
    except msgspec.ValidationError as error:
        raise InvalidRequest(f"{what} does not have the right shape: {error}") from error
    except (msgspec.MsgspecError, ValueError) as error:
        raise InvalidRequest(f"{what} is not valid JSON: {error}") from error


def read_rows(array: bytes | msgspec.Raw, *, what: str) -> list[msgspec.Raw]:
    """The parts of an array, each as it is written.

    A value of a few bytes takes a hundred here, so a body made of nothing else is refused before it is taken apart.
    """
    commas = bytes(array).count(b",")
    if commas > _COMMAS_MAX:
        raise InvalidRequest(f"{what} does not have the right shape, and too many parts ({commas} commas) to say where")
    rows = read_json(_array_decoder, array, what=what)
    if len(rows) > SEND_MESSAGES_MAX:
        raise InvalidRequest(f"{len(rows)} messages are too many for one send: at most {SEND_MESSAGES_MAX} are allowed")
    return rows


def compact(value: bytes) -> bytes:
    """A valid JSON value without the white space around its parts; numbers and texts stay as they are written."""
    try:
        if has_space(value):
            return msgspec.json.format(value, indent=-1)
    except RecursionError as error:
        raise InvalidRequest("a value is nested too deeply") from error
    return value


def has_space(content: bytes) -> bool:
    """Whether there is white space anywhere, also within texts."""
    return b" " in content or b"\n" in content or b"\t" in content or b"\r" in content
