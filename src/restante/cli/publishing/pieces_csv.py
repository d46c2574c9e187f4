"""Messages out of CSV: a heading of field names, one message a row. An empty cell takes the default."""

from __future__ import annotations

import base64
import binascii
import csv
import io
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime
from typing import Any, BinaryIO

import msgspec

from restante.cli.publishing.pieces import LEAVE_OUT, FilePiece, FileReading, Pieces
from restante.decoders import json_decoder
from restante.errors import InvalidMessage, InvalidRequest
from restante.limits import FILE_LINE_BYTES_MAX, SEND_PIECE_BYTES
from restante.model.figures import counted
from restante.model.publishing.message import Message
from restante.model.publishing.validation import FIELDS, READ_ONLY

TEXT = "text/plain"
"""The media type of the column `data`, unless the row or an option says another."""
_ALLOWED = (*FIELDS, "data_base64")
_STRAY = re.compile("[\udc80-\udcff]")
"""Bytes that are no UTF-8, as they are let through."""
_ROW_BYTES = 100
"""The bytes that a row weighs beside its data, roughly."""


def csv_pieces(file: BinaryIO, reading: FileReading) -> Pieces:
    csv.field_size_limit(FILE_LINE_BYTES_MAX)
    # Bytes that are no UTF-8 are let through here and found in their line: the file is decoded in blocks, which know no lines.
    text = io.TextIOWrapper(file, encoding="utf-8-sig", errors="surrogateescape", newline="")
    rows = csv.reader(_checked(text), strict=True)
    try:
        yield from _pieces(rows, reading)
    except csv.Error as error:
        raise InvalidRequest(f"line {rows.line_num}: it is not CSV: {error}.") from error
    finally:
        text.detach()


def _checked(lines: Iterable[str]) -> Iterator[str]:
    for number, line in enumerate(lines, 1):
        if not line.isascii() and _STRAY.search(line):
            raise InvalidRequest(f"line {number}: it is not UTF-8. Save the file as UTF-8.")
        yield line


def _pieces(rows: Any, reading: FileReading) -> Pieces:  # noqa: ANN401  # the reader of `csv` has no name
    heading = _heading(next(rows, None), reading)
    first, size = 0, 0
    messages: list[Message] = []
    lines: list[int] = []
    for message, line, row_bytes in _messages(rows, heading, reading):
        messages.append(message)
        lines.append(line)
        size += row_bytes
        if size >= SEND_PIECE_BYTES:
            yield FilePiece(messages=messages, first=first, lines=lines, read_bytes=size)
            first, size, messages, lines = first + len(messages), 0, [], []
    if messages:
        yield FilePiece(messages=messages, first=first, lines=lines, read_bytes=size)


def _heading(names: list[str] | None, reading: FileReading) -> list[str]:
    if names is None:
        raise InvalidRequest("line 1: a CSV file begins with a line that names its columns.")
    for name in names:
        if name in READ_ONLY and not reading.forward:
            raise InvalidRequest(f"line 1: the column {name} is read only: {LEAVE_OUT}.")
        if name not in (*_ALLOWED, *READ_ONLY):
            raise InvalidRequest(f"line 1: the column {name} is unknown: allowed are {', '.join(_ALLOWED)}.")
        if names.count(name) > 1:
            raise InvalidRequest(f"line 1: the column {name} is there twice.")
    if "recipient" not in names and reading.defaults.recipient is None:
        raise InvalidRequest("line 1: the column recipient is missing: add it, or name one with --recipient.")
    return names


def _messages(rows: Any, heading: list[str], reading: FileReading) -> Iterator[tuple[Message, int, int]]:  # noqa: ANN401  # as above
    ours = reading.defaults.given()
    line = rows.line_num + 1
    for cells in rows:
        if cells:
            try:
                message = _message(_fields(heading, cells, line), ours, line)
            except InvalidMessage as error:
                reading.refuse(error)
            else:
                yield message, line, max(sum(map(len, cells)) + len(cells) + 1, _ROW_BYTES // 10)
        line = rows.line_num + 1


def _fields(heading: list[str], cells: list[str], line: int) -> dict[str, str]:
    if len(cells) != len(heading):
        found = counted(len(cells), "cell")
        raise InvalidMessage(f"line {line}: it has {found}, and the heading names {len(heading)}.")
    return {name: cell for name, cell in zip(heading, cells, strict=True) if name not in READ_ONLY}


def _message(fields: Mapping[str, str], ours: Mapping[str, str], line: int) -> Message:
    said: dict[str, Any] = dict(ours)
    for name, cell in fields.items():
        if cell and name not in ("data", "data_base64"):
            said[name] = _converted(name, cell, line)
    if fields.get("data_base64"):
        said["data"] = _converted("data_base64", fields["data_base64"], line)
    elif "data" in fields and (fields["data"] or "text" not in said):
        said["data"] = fields["data"].encode()
        said.setdefault("media_type", TEXT)
    if "recipient" not in said:
        raise InvalidMessage(f"line {line}: recipient is required: name who gets the message.")
    return Message(**said)


def _converted(name: str, cell: str, line: int) -> Any:  # noqa: ANN401  # whatever the field holds
    if name not in _CONVERSIONS:
        return cell
    convert, expected = _CONVERSIONS[name]
    try:
        return convert(cell)
    except (ValueError, KeyError, binascii.Error, msgspec.MsgspecError) as error:
        raise InvalidMessage(f"line {line}: {name} must be {expected}, not {cell[:80]!r}.") from error


def _properties(cell: str) -> dict[str, str]:
    return json_decoder(dict[str, str]).decode(cell)


_CONVERSIONS: dict[str, tuple[Callable[[str], Any], str]] = {
    "weight": (int, "a whole number"),
    "bundleable": ({"true": True, "false": False}.__getitem__, "true or false"),
    "properties": (_properties, "a JSON object of text to text"),
    "expires_at": (datetime.fromisoformat, "a time like 2030-01-31T12:00:00Z"),
    "visible_at": (datetime.fromisoformat, "a time like 2030-01-31T12:00:00Z"),
    "source_position": (int, "a whole number"),
    "data_base64": (lambda cell: base64.b64decode(cell, validate=True), "base64 text"),
}
