"""Files of a Delta table, written by tasks in Python: Parquet by columns, with the statistics by which queries skip files.

Spark writes row by row, in Java; where the rows are columns in a Python task already, that is most of the work. A file
belongs to its table only when it was committed (`Table.add_files`). One that never is, because its task failed or was run
twice, is removed when the table is cleaned.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from restante.limits import TABLE_FILES_OPEN_MAX, TABLE_GATHERED_BYTES_MAX, TABLE_ROWS_AT_ONCE
from restante.model.columns.arrow import Column

_MILLISECOND = timedelta(milliseconds=1)


class NewFile(msgspec.Struct, frozen=True, kw_only=True):
    """A file that lies in the folder of a table, and is not part of it yet."""

    path: str
    """The path of the file, from the table's folder on."""
    partition: dict[str, str]
    size: int
    modified_ms: int
    statistics: str

    def action(self) -> str:
        """The entry of the file in the table's log."""
        told = {
            "path": self.path,
            "partitionValues": self.partition,
            "size": self.size,
            "modificationTime": self.modified_ms,
            "dataChange": True,
            "stats": self.statistics,
        }
        return msgspec.json.encode({"add": told}).decode()


class FileShape(msgspec.Struct, frozen=True, kw_only=True):
    """The folder of a table's files, and the way they are written."""

    folder: str
    partitioned_by: str
    statistics: tuple[str, ...]
    repeating: tuple[str, ...]
    """The columns whose values repeat, and which get a dictionary; it would be useless for others."""


class FileWriter:
    """Writes batches to files, one for each value of the column by which the table is partitioned.

    Rows are gathered before they are written: a batch may have a few of each of very many days.
    """

    def __init__(self, shape: FileShape, name: str) -> None:
        self._shape = shape
        self._name = name
        self._open: dict[str, _Open] = {}
        """The one to which rows came last is the last."""
        self._done: list[NewFile] = []

    def write(self, rows: pa.Table) -> None:
        if not rows.num_rows:
            return
        place = rows.column_names.index(self._shape.partitioned_by)
        values, kept = rows.column(place), rows.remove_column(place)
        found = pc.unique(values)
        for value in found:
            chosen = kept if len(found) == 1 else kept.filter(pc.equal(values, value))
            self._writer_of(_text(value.as_py()), chosen.schema).gather(chosen)
        if sum(one.gathered_bytes for one in self._open.values()) > TABLE_GATHERED_BYTES_MAX:
            for one in self._open.values():
                one.write()

    def finish(self) -> list[NewFile]:
        """All files that were written."""
        for value in list(self._open):
            self._close(value)
        return self._done

    def discard(self) -> None:
        """Discard the files, as if nothing had been written."""
        for one in self._open.values():
            one.discard()
        remove(self._shape.folder, self._done)
        self._open, self._done = {}, []

    def _writer_of(self, value: str, schema: pa.Schema) -> _Open:
        if value in self._open:
            self._open[value] = self._open.pop(value)
            return self._open[value]
        if len(self._open) >= TABLE_FILES_OPEN_MAX:
            self._close(next(iter(self._open)))
        self._open[value] = _Open(self._shape, self._name, value, schema)
        return self._open[value]

    def _close(self, value: str) -> None:
        self._done.append(self._open[value].close())
        del self._open[value]


class _Open:
    """One file that is being written."""

    def __init__(self, shape: FileShape, name: str, value: str, schema: pa.Schema) -> None:
        self._shape = shape
        self._value = value
        self._relative = f"{shape.partitioned_by}={value}/{name}-{uuid.uuid4()}.parquet"
        self._path = Path(shape.folder, self._relative)
        self._path.parent.mkdir(exist_ok=True)
        self._gathered: list[pa.Table] = []
        self._rows = 0
        self._bounds = {column: _Bounds() for column in shape.statistics if column in schema.names}
        self._writer = pq.ParquetWriter(
            self._path,
            schema,
            compression="snappy",
            use_dictionary=[column for column in shape.repeating if column in schema.names],  # type: ignore[arg-type]  # both are taken
            write_statistics=list(self._bounds),
            store_schema=False,
        )

    @property
    def gathered_bytes(self) -> int:
        return sum(rows.nbytes for rows in self._gathered)

    def gather(self, rows: pa.Table) -> None:
        """Take them; they are written when there are many."""
        self._gathered.append(rows)
        if sum(some.num_rows for some in self._gathered) >= TABLE_ROWS_AT_ONCE:
            self.write()

    def write(self) -> None:
        if not self._gathered:
            return
        rows = pa.concat_tables(self._gathered)
        self._gathered = []
        self._writer.write_table(rows)
        self._rows += rows.num_rows
        for name, bounds in self._bounds.items():
            bounds.add(rows.column(name))

    def close(self) -> NewFile:
        self.write()
        self._writer.close()
        found = self._path.stat()
        return NewFile(
            path=self._relative,
            partition={self._shape.partitioned_by: self._value},
            size=found.st_size,
            modified_ms=found.st_mtime_ns // 1_000_000,
            statistics=_statistics(self._rows, self._bounds),
        )

    def discard(self) -> None:
        with suppress(OSError, pa.ArrowException):
            self._writer.close()
        self._path.unlink(missing_ok=True)


class _Bounds:
    """The lowest and the highest value of a column, and how many are null."""

    def __init__(self) -> None:
        self.lowest: Any = None
        self.highest: Any = None
        self.nulls = 0

    def add(self, values: Column) -> None:
        self.nulls += values.null_count
        found: Any = pc.min_max(values).as_py()
        if found["min"] is not None:
            self.lowest = found["min"] if self.lowest is None else min(self.lowest, found["min"])
            self.highest = found["max"] if self.highest is None else max(self.highest, found["max"])


def _statistics(rows: int, bounds: Mapping[str, _Bounds]) -> str:
    known = {name: own for name, own in bounds.items() if own.lowest is not None}
    told = {
        "numRecords": rows,
        "minValues": {name: _told(own.lowest) for name, own in known.items()},
        "maxValues": {name: _told(own.highest, upwards=True) for name, own in known.items()},
        "nullCount": {name: own.nulls for name, own in bounds.items()},
    }
    return msgspec.json.encode(told).decode()


def _told(value: object, *, upwards: bool = False) -> object:
    """A bound as Delta's log has it. Times become whole milliseconds, rounded outwards, so that all rows lie within the bounds."""
    if not isinstance(value, datetime):
        return value
    whole = value.astimezone(UTC).replace(microsecond=value.microsecond // 1_000 * 1_000)
    if upwards and whole < value:
        whole += _MILLISECOND
    return whole.strftime("%Y-%m-%dT%H:%M:%S.") + f"{whole.microsecond // 1_000:03d}Z"


def _text(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    assert isinstance(value, date), "tables are partitioned by days, or by whether something is so"
    return value.isoformat()


def has_log(folder: str) -> bool:
    """Whether this folder, as Python names it, is a Delta table."""
    return Path(folder, "_delta_log").is_dir()


def remove(folder: str, files: Sequence[NewFile]) -> None:
    """Files that no table needs. Those that are left are removed when their table is cleaned."""
    with suppress(OSError):
        for file in files:
            Path(folder, file.path).unlink(missing_ok=True)


def actions_of(files: Sequence[NewFile], *, application: str, version: int, now_ms: int) -> list[str]:
    """The actions for the table's log: the files, and which write of which name this was."""
    write = {"txn": {"appId": application, "version": version, "lastUpdated": now_ms}}
    return [msgspec.json.encode(write).decode(), *(file.action() for file in files)]
