"""Messages out of JSON lines: one JSON object a line, with the fields of a message over HTTP."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import BinaryIO

import msgspec

from restante.cli.pieces import Defaults, Piece, Pieces
from restante.errors import InvalidMessage, InvalidRequest
from restante.limits import FILE_LINE_BYTES_MAX, SEND_PIECE_BYTES
from restante.model.message import Message
from restante.wire.incoming_json import decode_json

_object_decoder = msgspec.json.Decoder(dict[str, msgspec.Raw])


@dataclass(slots=True)
class _Lines:
    """Lines that are sent together."""

    first: int
    texts: list[bytes] = field(default_factory=list)
    numbers: list[int] = field(default_factory=list)
    read_bytes: int = 0


def json_pieces(file: BinaryIO, defaults: Defaults) -> Pieces:
    """Empty lines are passed over. Each piece ends after the line with which it is large enough."""
    lines = _Lines(0)
    for number, text in enumerate(_read_lines(file), 1):
        lines.read_bytes += len(text)
        if text.strip():
            lines.texts.append(text.strip())
            lines.numbers.append(number)
        if lines.read_bytes >= SEND_PIECE_BYTES:
            yield _piece(lines, defaults)
            lines = _Lines(lines.first + len(lines.texts))
    if lines.read_bytes:
        yield _piece(lines, defaults)


def _read_lines(file: BinaryIO) -> Iterator[bytes]:
    number = 0
    while text := file.readline(FILE_LINE_BYTES_MAX + 1):
        number += 1
        if len(text) > FILE_LINE_BYTES_MAX:
            raise InvalidRequest(f"line {number}: it is longer than {FILE_LINE_BYTES_MAX:,} bytes.")
        yield text


def _piece(lines: _Lines, defaults: Defaults) -> Piece:
    messages = _messages(_with_defaults(lines.texts, defaults), lines.numbers)
    return Piece(messages=messages, first=lines.first, lines=lines.numbers, read_bytes=lines.read_bytes)


def _with_defaults(texts: list[bytes], defaults: Defaults) -> list[bytes]:
    ours = {name: msgspec.Raw(msgspec.json.encode(value)) for name, value in defaults.given().items()}
    return [_completed(text, ours) for text in texts] if ours else texts


def _completed(text: bytes, ours: dict[str, msgspec.Raw]) -> bytes:
    try:
        return msgspec.json.encode(ours | _object_decoder.decode(text))
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return text  # What is wrong with it is found when it is read as a message.


def _messages(texts: list[bytes], numbers: list[int]) -> list[Message]:
    """All at once, by the rules of a body; only if that fails, line by line to find the one that is wrong."""
    try:
        messages = decode_json(_body(texts))
        if len(messages) == len(texts):
            return messages
    except InvalidMessage as error:
        if len(texts) > 1 and error.faults:
            # A fault's index is that of its line as long as each line is one message.
            first = error.faults[0].index
            _one_by_one(texts[: first + 1], numbers[: first + 1])
        else:
            raise _bad_line(numbers[0], error) from error
    except InvalidRequest:
        pass
    return _one_by_one(texts, numbers)


def _one_by_one(texts: list[bytes], numbers: list[int]) -> list[Message]:
    messages = []
    for text, number in zip(texts, numbers, strict=True):
        try:
            found = decode_json(_body([text]))
        except InvalidRequest as error:
            raise _bad_line(number, error) from error
        if len(found) != 1:
            raise InvalidRequest(f"line {number}: a line is one message, not {len(found)}.")
        messages += found
    return messages


def _body(texts: list[bytes]) -> bytes:
    # No text of JSON goes on over a line's end, so a message ends with its line, or is found to be none.
    return b'{"messages":[' + b",\n".join(texts) + b"]}"


def _bad_line(number: int, error: Exception) -> InvalidRequest:
    if isinstance(error, InvalidMessage) and error.faults:
        return InvalidMessage(f"line {number}: {error.faults[0].detail}.", error.faults)
    reason = error.message if isinstance(error, InvalidRequest) else str(error)
    return InvalidRequest(f"line {number}: it is not one JSON object with the fields of a message: {reason}.")
