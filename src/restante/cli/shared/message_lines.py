"""Messages, and changes of the feed, as JSON lines, each as it is over HTTP."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

import msgspec
import pyarrow as pa

from restante.decoders import json_decoder
from restante.limits import ANSWER_ROWS_MAX
from restante.wire.json_values import compact
from restante.wire.outgoing.outgoing import messages_json
from restante.wire.outgoing.outgoing_feed import changes_json


class _Changes(msgspec.Struct):
    changes: list[msgspec.Raw]


_array_decoder = json_decoder(list[msgspec.Raw])
_changes_decoder = json_decoder(_Changes)


def message_lines(table: pa.Table) -> Iterator[bytes]:
    """Messages as lines, some at a time, each with its end."""
    for part in _parts(table):
        yield _lines(_array_decoder.decode(b"".join(messages_json(part))))


def change_lines(table: pa.Table, columns: Collection[str] = ()) -> Iterator[bytes]:
    """Rows of the feed as lines, some at a time; with columns, only these are written, and those that every change has."""
    for part in _parts(table):
        yield _lines(_changes_decoder.decode(b"".join(changes_json(part, columns))).changes)


def _parts(table: pa.Table) -> Iterator[pa.Table]:
    for first in range(0, table.num_rows, ANSWER_ROWS_MAX):
        yield table.slice(first, ANSWER_ROWS_MAX)


def _lines(objects: Iterable[msgspec.Raw]) -> bytes:
    return b"".join(_line(bytes(one)) for one in objects)


def _line(message: bytes) -> bytes:
    # Data that was sent as bytes is given out as it came, and JSON may have line ends between its parts.
    return (compact(message) if b"\n" in message or b"\r" in message else message) + b"\n"
