"""A folder of Parquet files that `restante feed` fills: by partition, each complete under its name.

A file is named by its partition and the number of its first change. It gets its name when it is on the disk, and only
then is its position safe, and recorded before the partition's next file is finished. So after a crash the same changes are
written again under the same name, in place of the file that was not recorded any more, and nothing is there twice. Until
then it is hidden, so that readers of the whole folder pass it over. Hidden files that a crash left are removed at the next
start.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import ExitStack, suppress
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from restante.cli.feed.feed_outputs import Given, Output
from restante.cli.feed.feed_rows import first_number
from restante.cli.shared.new_files import new_file, remove_unfinished
from restante.limits import MIB

FILE_BYTES_TARGET = 128 * MIB
FILE_ROWS_MAX = 1_000_000
FILE_SECONDS_MAX = 60.0
"""The time for which those who read the folder while it grows wait for a file."""
_GROUP_BYTES = 16 * MIB
_GROUP_ROWS = 65_536
_FILES_OPEN_MAX = 64


class Folder(Output):
    """Files of all partitions, some of them under way."""

    def __init__(self, path: Path, schema: pa.Schema) -> None:
        path.mkdir(parents=True, exist_ok=True)
        remove_unfinished(path, "partition-*.parquet")
        self._path = path
        self._schema = schema
        self._files: dict[int, _File] = {}
        self._stored: dict[int, int] = {}
        """How many files of its snapshot a partition has."""
        self._safe: dict[int, int] = {}
        self._finished = 0

    def put(self, given: Given) -> bool:
        before = self._finished
        file = self._files.get(given.partition)
        if given.rows.num_rows:
            file = file or self._begin(given)
            file.put(given.rows)
        if file is not None:
            file.position = None if given.stored else given.position
            if file.is_full:
                self._finish(given.partition)
        elif not given.stored:
            self._safe[given.partition] = given.position
        return self._finished > before

    def settle(self) -> Mapping[int, int]:
        now = time.monotonic()
        for partition in [number for number, file in self._files.items() if now - file.begun >= FILE_SECONDS_MAX]:
            self._finish(partition)
        return self._safe

    def finish(self) -> Mapping[int, int]:
        for partition in list(self._files):
            self._finish(partition)
        return self._safe

    def close(self) -> None:
        for file in self._files.values():
            file.drop()
        self._files.clear()

    def _begin(self, given: Given) -> _File:
        if len(self._files) >= _FILES_OPEN_MAX:
            self._finish(max(self._files, key=lambda number: self._files[number].rows))
        file = _File(self._path / f"partition-{given.partition:05d}-{self._name(given)}.parquet", self._schema)
        self._files[given.partition] = file
        return file

    def _name(self, given: Given) -> str:
        if not given.stored:
            return f"{first_number(given.rows):015d}"
        part = self._stored[given.partition] = self._stored.get(given.partition, 0) + 1
        return f"stored-{given.position:015d}-{part:06d}"

    def _finish(self, partition: int) -> None:
        file = self._files.pop(partition)
        file.finish()
        self._finished += 1
        if file.position is not None:
            self._safe[partition] = file.position


class _File:
    """A file under way. Few rows at a time are gathered, so that its row groups are not small."""

    def __init__(self, path: Path, schema: pa.Schema) -> None:
        self._stack = ExitStack()
        self._file = self._stack.enter_context(new_file(path, hidden=True))
        self._writer = pq.ParquetWriter(self._file, schema, compression="zstd")
        self._gathered: list[pa.Table] = []
        self._gathered_rows = self._gathered_bytes = 0
        self.begun = time.monotonic()
        self.rows = 0
        self.position: int | None = None

    def put(self, rows: pa.Table) -> None:
        self._gathered.append(rows)
        self.rows += rows.num_rows
        self._gathered_rows += rows.num_rows
        self._gathered_bytes += rows.nbytes
        if self._gathered_rows >= _GROUP_ROWS or self._gathered_bytes >= _GROUP_BYTES:
            self._write()

    @property
    def is_full(self) -> bool:
        return self.rows >= FILE_ROWS_MAX or self._file.tell() >= FILE_BYTES_TARGET

    def finish(self) -> None:
        """Put a file on the disk, under its name, before this returns."""
        with self._stack:
            self._write()
            self._writer.close()

    def drop(self) -> None:
        """Drop the file, as if it had never been."""
        dropped = _DroppedError()
        with suppress(OSError):
            self._writer.close()  # or it would do so by itself, later, when its file is closed
        with suppress(_DroppedError):
            self._stack.__exit__(_DroppedError, dropped, None)

    def _write(self) -> None:
        if self._gathered:
            self._writer.write_table(pa.concat_tables(self._gathered))
            self._gathered.clear()
            self._gathered_rows = self._gathered_bytes = 0


class _DroppedError(Exception):
    """Ends a file that is not to be."""
