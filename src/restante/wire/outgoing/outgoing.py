"""Answers of the hub as bytes, piece by piece: bundles, lists of messages, Arrow streams.

Tables follow `restante.model.mailboxes.message_tables.MESSAGE_SCHEMA`.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyarrow import ipc

from restante.limits import ANSWER_BYTES_TARGET, KIB
from restante.model.columns.arrow import Column, binaries_of, string_array
from restante.model.mailboxes.answers import BundleAnswer
from restante.model.storage.changes import Buffer
from restante.wire.outgoing.json_columns import (
    FieldWriter,
    data_bytes,
    data_writer,
    id_writer,
    number_writer,
    properties_writer,
    row_bytes,
    row_lines,
    rows_json,
    text_writer,
    time_writer,
)
from restante.wire.outgoing.outgoing_cloudevents import event_writers
from restante.wire.outgoing.single_rows import SINGLE_ROWS_MAX, few_json, table_json

_PIECE_BYTES_MIN = 16 * KIB
"""Smaller columns are copied: a piece of its own costs more."""


def bundle_json(answer: BundleAnswer) -> Iterator[bytes]:
    head = msgspec.json.encode(
        {
            "bundle_id": answer.bundle_id,
            "origin": answer.origin,
            "kind": answer.kind,
            "document_types": answer.document_types,
        }
    )
    messages = iter([few_json(answer.few)]) if answer.few else _messages(answer.table)
    return _framed(head[:-1] + b',"messages":[', messages, b"]}")


def bundle_cloudevents(answer: BundleAnswer) -> Iterator[bytes]:
    """The messages of a bundle as a batch of CloudEvents."""
    table = answer.table
    rows = rows_json(table, event_writers(table)) if table.num_rows else iter(())
    return _framed(b"[", rows, b"]")


def messages_json(table: pa.Table) -> Iterator[bytes]:
    """A JSON array."""
    return _framed(b"[", _messages(table), b"]")


def page_json(table: pa.Table, next: int | None) -> Iterator[bytes]:
    """A page of history, and where the next one begins."""
    return _framed(b'{"messages":[', _messages(table), b'],"next":' + msgspec.json.encode(next) + b"}")


def message_json(table: pa.Table) -> bytes:
    """The first row."""
    return b"".join(_messages(table.slice(0, 1)))


def message_lines(table: pa.Table) -> Column:
    """Each row as a JSON object of its own, as a column of texts: for tables that are not large."""
    return row_lines(table, _message_writers(table)) if table.num_rows else string_array([])


def message_texts(table: pa.Table) -> list[bytes]:
    """The JSON of each message, as a list of values."""
    return binaries_of(message_lines(table).view(pa.binary()))


def message_bytes(table: pa.Table) -> NDArray[np.int64]:
    """How many bytes each row takes in a page."""
    return row_bytes(table, _message_writers(table))


def arrow_size(table: pa.Table) -> int:
    """The bytes of a whole Arrow IPC stream, without making it."""
    counted = pa.MockOutputStream()
    write_arrow(table, counted)
    return counted.size()


def arrow_bytes(table: pa.Table) -> memoryview:
    """A whole Arrow IPC stream in one buffer of just its size, so that columns in memory are copied only once."""
    buffer = pa.allocate_buffer(arrow_size(table))
    write_arrow(table, pa.FixedSizeBufferWriter(buffer))
    return memoryview(buffer).cast("B")


def arrow_pieces(table: pa.Table) -> list[Buffer]:
    """A whole Arrow IPC stream, piece after piece: of what is in memory already, nothing is copied."""
    gathered = _GatheredStream()
    write_arrow(table, pa.PythonFile(gathered, mode="w"))
    return gathered.ended()


class _GatheredStream(io.RawIOBase):
    """The file that a stream is written to: columns come as they lie in memory, and what is between them as bytes."""

    def __init__(self) -> None:
        super().__init__()
        self._pieces: list[Buffer] = []
        self._small: list[Buffer] = []
        self._size = 0

    def writable(self) -> bool:
        return True

    def write(self, content: Any) -> int:  # noqa: ANN401 - bytes, or a buffer of Arrow's
        piece = memoryview(content).cast("B")
        self._size += len(piece)
        if len(piece) < _PIECE_BYTES_MIN:
            self._small.append(piece)
        else:
            self._pieces = [*self.ended(), piece]
        return len(piece)

    def tell(self) -> int:
        return self._size

    def ended(self) -> list[Buffer]:
        """All pieces; small ones that follow each other are one."""
        small, self._small = self._small, []
        return [*self._pieces, b"".join(small)] if small else self._pieces


def write_arrow(table: pa.Table, sink: pa.NativeFile) -> None:
    """Write a whole Arrow IPC stream."""
    with ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)


def _messages(table: pa.Table) -> Iterator[bytes]:
    if not table.num_rows:
        return iter(())
    few = table.num_rows <= SINGLE_ROWS_MAX and data_bytes(table) <= ANSWER_BYTES_TARGET
    if few and not _is_delayed(table):
        return iter([table_json(table)])
    return columns_json(table)


def columns_json(table: pa.Table) -> Iterator[bytes]:
    """The rows of a table, with commas between them, made column by column."""
    return rows_json(table, _message_writers(table))


def _message_writers(table: pa.Table) -> list[FieldWriter]:
    return [
        id_writer(table),
        text_writer(table, "recipient", key="recipient"),
        text_writer(table, "origin", key="origin"),
        text_writer(table, "kind", key="kind"),
        text_writer(table, "document_type", key="document_type"),
        number_writer(table, "weight", key="weight"),
        number_writer(table, "bundleable", key="bundleable"),
        text_writer(table, "media_type", key="media_type"),
        properties_writer(table),
        time_writer(table, "expires_at", key="expires_at"),
        *_publishing_writers(table),
        time_writer(table, "collected_at", key="collected_at"),
        text_writer(table, "state", key="state"),
        data_writer(table),
    ]


def _publishing_writers(table: pa.Table) -> list[FieldWriter]:
    """A message that is delayed has no number yet, but a time at which it gets one."""
    if _is_delayed(table):
        return [time_writer(table, "visible_at", key="visible_at")]
    return [
        number_writer(table, "sequence_number", key="sequence_number"),
        time_writer(table, "published_at", key="published_at"),
    ]


def _is_delayed(table: pa.Table) -> bool:
    return "visible_at" in table.column_names


def _framed(head: bytes, rows: Iterator[bytes], tail: bytes) -> Iterator[bytes]:
    """The rows between head and tail, which go with the first and the last of them: a small answer is one piece."""
    held = head
    for piece in rows:
        if held is not head:
            yield held
            held = piece
        else:
            held = head + piece
    yield held + tail


__all__ = [
    "arrow_bytes",
    "arrow_pieces",
    "arrow_size",
    "bundle_cloudevents",
    "bundle_json",
    "columns_json",
    "message_bytes",
    "message_json",
    "message_lines",
    "message_texts",
    "messages_json",
    "page_json",
    "write_arrow",
]
