"""Messages out of JSON lines: one JSON object a line, with the fields of a message over HTTP."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import BinaryIO

import msgspec

from restante.cli.publishing.pieces import FilePiece, FileReading, Pieces, told
from restante.decoders import json_decoder
from restante.errors import InvalidMessage, InvalidRequest
from restante.limits import FILE_LINE_BYTES_MAX, SEND_PIECE_BYTES
from restante.model.publishing.message import Message
from restante.model.publishing.validation import READ_ONLY
from restante.wire.incoming.incoming_json import decode_json
from restante.wire.incoming.shapes import sound

_object_decoder = json_decoder(dict[str, msgspec.Raw])


@dataclass(slots=True)
class _Lines:
    """Lines that are sent together."""

    first: int
    texts: list[bytes] = field(default_factory=list)
    numbers: list[int] = field(default_factory=list)
    read_bytes: int = 0


def json_pieces(file: BinaryIO, reading: FileReading) -> Pieces:
    """Empty lines are passed over. Each piece ends after the line with which it is large enough."""
    lines = _Lines(0)
    for number, text in enumerate(_read_lines(file), 1):
        lines.read_bytes += len(text)
        if text.strip():
            lines.texts.append(text.strip())
            lines.numbers.append(number)
        if lines.read_bytes >= SEND_PIECE_BYTES:
            yield _piece(lines, reading)
            lines = _Lines(lines.first + len(lines.texts))
    if lines.read_bytes:
        yield _piece(lines, reading)


def _read_lines(file: BinaryIO) -> Iterator[bytes]:
    number = 0
    while text := file.readline(FILE_LINE_BYTES_MAX + 1):
        number += 1
        if len(text) > FILE_LINE_BYTES_MAX:
            raise InvalidRequest(f"line {number}: it is longer than {FILE_LINE_BYTES_MAX:,} bytes.")
        yield text


def _piece(lines: _Lines, reading: FileReading) -> FilePiece:
    messages, numbers = _messages(_prepared(lines.texts, reading), lines.numbers, reading)
    return FilePiece(messages=messages, first=lines.first, lines=numbers, read_bytes=lines.read_bytes)


def _prepared(texts: list[bytes], reading: FileReading) -> list[bytes]:
    """A line with what is filled in, and without what is left out."""
    ours = {name: msgspec.Raw(msgspec.json.encode(value)) for name, value in reading.defaults.given().items()}
    without = READ_ONLY if reading.forward else ()
    return [_completed(text, ours, without) for text in texts] if ours or without else texts


def _completed(text: bytes, ours: dict[str, msgspec.Raw], without: Sequence[str]) -> bytes:
    try:
        fields = ours | _object_decoder.decode(text)
        return msgspec.json.encode({name: value for name, value in fields.items() if name not in without})
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return text  # The fault is found when the line is read as a message.


def _messages(texts: list[bytes], numbers: list[int], reading: FileReading) -> tuple[list[Message], list[int]]:
    """The messages, decoded at once as a body; only if that fails, line by line, to find the lines that are wrong."""
    try:
        messages = list(sound(decode_json(_body(texts))))
        if len(messages) == len(texts):
            return messages, numbers
    except InvalidRequest:
        pass
    return _one_by_one(texts, numbers, reading)


def _one_by_one(texts: list[bytes], numbers: list[int], reading: FileReading) -> tuple[list[Message], list[int]]:
    messages: list[Message] = []
    right: list[int] = []
    for text, number in zip(texts, numbers, strict=True):
        try:
            found = _of_line(text, number)
            messages += found
            right += [number] * len(found)
        except InvalidRequest as error:
            reading.refuse(error)
    return messages, right


def _of_line(text: bytes, number: int) -> Sequence[Message]:
    """One message, or one for each of its recipients."""
    try:
        found = sound(decode_json(_body([text])))
    except InvalidMessage as error:
        raise InvalidMessage(f"line {number}: {told(error.faults[0])}.", error.faults) from error
    except InvalidRequest as error:
        raise InvalidRequest(f"line {number}: {_reason(text)}.") from error
    if len(found) != 1 and b'"recipients"' not in text:
        raise InvalidRequest(f"line {number}: a line is one message, not {len(found)}.")
    return found


def _reason(text: bytes) -> str:
    """The fault of a line that is not JSON, by the places in this line."""
    try:
        text.decode()
        _object_decoder.decode(text)
    except UnicodeDecodeError:
        return "it is not UTF-8. Save the file as UTF-8"
    except RecursionError:
        return "it is nested too deeply"
    except (msgspec.MsgspecError, ValueError) as error:
        return f"it is not JSON: {'it ends too early' if 'truncated' in str(error) else error}"
    return "it is not one JSON object with the fields of a message"


def _body(texts: list[bytes]) -> bytes:
    # No text of JSON goes on over a line's end, so a message ends with its line, or is found to be none.
    return b'{"messages":[' + b",\n".join(texts) + b"]}"
