"""Messages out of Arrow and Parquet files: columns named like the fields of a message."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, cast

import pyarrow as pa
import pyarrow.parquet as pq

from restante.cli.publishing.pieces import LEAVE_OUT, Defaults, FilePiece, FileReading, Pieces
from restante.errors import InvalidRequest
from restante.limits import MIB, SEND_PIECE_BYTES
from restante.model.columns.arrow import Column
from restante.model.columns.arrow_checks import check_sound
from restante.model.publishing.intake_arrow import spelt_texts
from restante.model.publishing.validation import READ_ONLY

_ROW_BYTES = 64
"""The bytes that a row weighs beside its data, roughly."""
_ROWS_AT_ONCE = 16_384
_READ_BYTES = 64 * MIB
"""About so much of a Parquet file is unpacked at a time, a row at least."""
_MAGIC = b"ARROW1"

_ReadBytes = Callable[[pa.Table], int]


def parquet_pieces(path: Path, reading: FileReading) -> Pieces:
    with _readable("Parquet"), pq.ParquetFile(path) as file:
        bytes_a_row = path.stat().st_size / max(1, file.metadata.num_rows)
        batches = file.iter_batches(_rows_at_once(file.metadata))
        yield from _pieces(batches, reading, lambda table: round(table.num_rows * bytes_a_row))


def _rows_at_once(said: pq.FileMetaData) -> int:
    """Rows of documents are large, and thousands of them would not fit into memory."""
    unpacked = sum(said.row_group(place).total_byte_size for place in range(said.num_row_groups))
    return max(1, min(_ROWS_AT_ONCE, _READ_BYTES * said.num_rows // max(1, unpacked)))


def arrow_pieces(path: Path, reading: FileReading) -> Pieces:
    """An IPC file or an IPC stream, whichever it is."""
    with _readable("Arrow"), pa.memory_map(str(path)) as source:
        if bytes(source.read(len(_MAGIC))) == _MAGIC:
            file = pa.ipc.open_file(source)
            batches: Iterable[pa.RecordBatch] = (file.get_batch(n) for n in range(file.num_record_batches))
        else:
            source.seek(0)
            batches = pa.ipc.open_stream(source)
        yield from _pieces(batches, reading, lambda table: table.nbytes)


def arrow_stream_pieces(file: BinaryIO, reading: FileReading) -> Pieces:
    with _readable("Arrow"):
        yield from _pieces(pa.ipc.open_stream(cast("io.IOBase", file)), reading, lambda table: table.nbytes)


@contextmanager
def _readable(kind: str) -> Iterator[None]:
    try:
        yield
    except UnicodeDecodeError as error:
        raise InvalidRequest(f"it cannot be read as {kind}: a name in it is not UTF-8.") from error
    except (pa.ArrowException, OSError) as error:
        raise InvalidRequest(f"it cannot be read as {kind}: {error}.") from error


def _pieces(batches: Iterable[pa.RecordBatch], reading: FileReading, read_bytes: _ReadBytes) -> Pieces:
    first = 0
    for batch in batches:
        whole = pa.Table.from_batches([batch])
        check_sound(whole)
        for part in _halved(whole):
            table = _with_defaults(_without_given(part, reading), reading.defaults)
            yield FilePiece(messages=table, first=first, lines=None, read_bytes=read_bytes(part))
            first += part.num_rows


def _without_given(table: pa.Table, reading: FileReading) -> pa.Table:
    """Without the columns that a hub gave."""
    given = [name for name in READ_ONLY if name in table.column_names]
    if given and not reading.forward:
        raise InvalidRequest(f"the column {given[0]} is read only: {LEAVE_OUT}.")
    return table.drop_columns(given)


def _halved(table: pa.Table) -> Iterator[pa.Table]:
    """The table in parts of about the size of a send, without a copy."""
    if table.num_rows > 1 and _weight(table) > SEND_PIECE_BYTES:
        middle = table.num_rows // 2
        yield from _halved(table.slice(0, middle))
        yield from _halved(table.slice(middle))
    elif table.num_rows:
        yield table


def _weight(table: pa.Table) -> int:
    data = table.column("data").nbytes if "data" in table.column_names else 0
    return data + table.num_rows * _ROW_BYTES


def _with_defaults(table: pa.Table, defaults: Defaults) -> pa.Table:
    for name, value in defaults.given().items():
        if name not in table.column_names:
            table = table.append_column(name, _constant(value, table.num_rows))
        elif table.column(name).null_count:
            filled = spelt_texts(table, name).fill_null(value)
            table = table.set_column(table.column_names.index(name), name, filled)
    return table


def _constant(value: str, count: int) -> Column:
    return pa.DictionaryArray.from_arrays(pa.repeat(pa.scalar(0, pa.int32()), count), pa.array([value], pa.string()))
