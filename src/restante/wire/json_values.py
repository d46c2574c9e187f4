"""JSON as it came: checked for UTF-8, read with clear errors, and made compact without touching its values."""

from __future__ import annotations

import codecs
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TypeVar

import msgspec

from restante.decoders import json_decoder
from restante.errors import InvalidRequest
from restante.limits import JSON_PIECE_BYTES
from restante.wire.json_pieces import TakeRoom, no_bound, read_members

Body = bytes | bytearray | memoryview
"""A body as a server has it."""

_Value = TypeVar("_Value")
_array_decoder = json_decoder(list[msgspec.Raw])


def utf8_body(body: Body, take_room: TakeRoom = no_bound) -> bytes:
    """The body as bytes, which are UTF-8: the JSON decoder itself looks at no text that it skips."""
    if not isinstance(body, bytes):
        take_room(len(body))
    content = body if isinstance(body, bytes) else bytes(body)
    if not content.isascii():
        _check_utf8(content)
    return content


def _check_utf8(content: bytes) -> None:
    """Check bytes piece by piece, because a text takes up to four times their memory."""
    view, place = memoryview(content), 0
    try:
        while place < len(view):
            end = min(place + JSON_PIECE_BYTES, len(view))
            place += codecs.utf_8_decode(view[place:end], "strict", end == len(view))[1]
    except UnicodeDecodeError as error:
        raise InvalidRequest(f"the body is not UTF-8 at byte {place + error.start}: send JSON in UTF-8") from error


def read_json(decoder: msgspec.json.Decoder[_Value], content: bytes | msgspec.Raw, *, what: str) -> _Value:
    """A value whose shape the decoder knows; `what` names it in the error."""
    with clear_errors(what):
        return decoder.decode(content)


@contextmanager
def clear_errors(what: str) -> Iterator[None]:
    """A context in which errors of a decoder become `InvalidRequest`, which names what it decoded."""
    try:
        yield
    except RecursionError as error:
        raise InvalidRequest(f"{what} is nested too deeply") from error
    except msgspec.ValidationError as error:
        raise InvalidRequest(f"{what} does not have the right shape: {error}") from error
    except (msgspec.MsgspecError, ValueError) as error:
        raise InvalidRequest(f"{what} is not valid JSON: {error}") from error


def read_rows(array: bytes, *, what: str) -> list[msgspec.Raw]:
    """The parts of an array that is a piece of a body, each as it is written."""
    return read_json(_array_decoder, array, what=what)


def read_object(content: bytes, *, what: str) -> dict[str, msgspec.Raw]:
    """The members of an object, each as it is written; not all of them if there are more than `MEMBERS_MAX`."""
    with clear_errors(what):
        return read_members(content)


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
