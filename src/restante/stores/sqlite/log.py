"""The log before the database: each commit is one record at the end of a file, flushed before it is answered.

A file is written over when all it holds is in the database, so most appends change nothing of it but bytes that were
there already: such a flush is the cheapest there is. What a file still holds of its earlier life are records with
numbers that the database has passed; they mean nothing.

One record is flushed before the next is begun. So a crash can spoil the last one only, which was never answered. The
whole records beyond the database must follow it without a gap; a gap is damage.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from restante.errors import DataDamaged
from restante.limits import KIB
from restante.stores.sqlite.failures import FlushFailed, RecordInDoubt
from restante.stores.sqlite.files import flush, flush_names
from restante.stores.sqlite.record import MARK_BYTES, Deeds, Record, encode, whole_records

STEP_BYTES = 256 * KIB
"""Files are made longer in such steps, by zeros that are flushed ahead of the records."""
_SPARE_MAX = 2
_PREFIX = "log-"


def log_files(folder: Path) -> list[Path]:
    return sorted(folder.glob(f"{_PREFIX}*"))


def missing_records(paths: Sequence[Path], *, mark: bytes, transferred: int) -> list[Record]:
    """The records that the database does not have yet, in order."""
    found: dict[int, Record] = {}
    for path in paths:
        content = path.read_bytes()
        if not mark.startswith(content[:MARK_BYTES].rstrip(b"\0")):
            raise DataDamaged(f"{path} is damaged, or is the log of another database. Restore the folder's own.")
        found.update((record.sequence, record) for record in whole_records(content, mark))
    missing = sorted(sequence for sequence in found if sequence > transferred)
    if missing and missing[-1] != transferred + len(missing):
        raise DataDamaged(
            f"The log in {paths[0].parent} lacks commits between {transferred}, the database's last, and {missing[-1]}, "
            f"its own last: one of the two is damaged or of another time. Restore the folder from a backup.",
            transferred=transferred,
            last=missing[-1],
        )
    return [found[sequence] for sequence in missing]


class Log:
    """Its methods are called by one thread at a time, but for `release` and the counts."""

    def __init__(self, folder: Path, *, mark: bytes, last: int, step_bytes: int = STEP_BYTES) -> None:
        self._folder = folder
        self._mark = mark
        self._step_bytes = step_bytes
        self._file: LogFile | None = None
        self._spare: list[LogFile] = []
        self.last = last
        """The number of the last commit."""
        self.written_bytes = 0

    def append(self, deeds: Deeds) -> int:
        """Durable when it returns; gives the record's length. If there is no room, nothing was changed."""
        record = encode(deeds, sequence=self.last + 1, mark=self._mark)
        if self._file is None:
            self._file = self._spare.pop() if self._spare else self._create()
        self._file.append(record)
        self.last += 1
        self.written_bytes += len(record)
        return len(record)

    def leave(self) -> list[LogFile]:
        """The file of the commits so far, if there were any; the next one begins another."""
        files = [] if self._file is None else [self._file]
        self._file = None
        return files

    def release(self, files: Sequence[LogFile]) -> None:
        """All that they hold is in the database: they may be written over."""
        for file in files:
            file.rewind()
            if len(self._spare) < _SPARE_MAX:
                self._spare.append(file)
            else:
                file.remove()

    def close(self, *, remove: bool) -> None:
        """Remove the files if all that they hold is in the database."""
        for file in (*self.leave(), *self._spare):
            if remove:
                file.remove()
            else:
                file.close()
        self._spare.clear()

    def _create(self) -> LogFile:
        used = {path.name for path in log_files(self._folder)}
        number = next(number for number in range(len(used) + 1) if f"{_PREFIX}{number}" not in used)
        return LogFile.create(self._folder / f"{_PREFIX}{number}", self._step_bytes)


class LogFile:
    """One file, written from its beginning to its end, and then again."""

    def __init__(self, path: Path, step_bytes: int = STEP_BYTES) -> None:
        self._path = path
        self._step_bytes = step_bytes
        self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        self._size = os.fstat(self._descriptor).st_size
        self._end = 0

    @classmethod
    def create(cls, path: Path, step_bytes: int) -> LogFile:
        file = cls(path, step_bytes)
        try:
            file._lengthen(step_bytes)
            flush_names(path.parent)
        except OSError:
            file.remove()
            raise
        return file

    def append(self, record: bytes) -> None:
        end = self._end + len(record)
        if end > self._size:
            self._lengthen(end + self._step_bytes)
        try:
            _write(self._descriptor, record, self._end)
        except OSError:
            self._cut(self._end)
            raise
        try:
            flush(self._descriptor)
        except FlushFailed as error:
            raise RecordInDoubt(error.errno, error.strerror) from error
        self._end = end

    def flush(self) -> None:
        flush(self._descriptor)

    def rewind(self) -> None:
        self._end = 0

    def close(self) -> None:
        os.close(self._descriptor)

    def remove(self) -> None:
        self.close()
        # If it fails, the next start removes it: its records are in the database.
        with suppress(OSError):
            self._path.unlink()

    def _lengthen(self, size: int) -> None:
        try:
            _write(self._descriptor, bytes(size - self._size), self._size)
            flush(self._descriptor)
        except OSError:
            self._cut(self._size)
            raise
        self._size = size

    def _cut(self, size: int) -> None:
        """Give back the room that was found before there was no more of it."""
        # If it fails, the next record is written over what is there, which is no whole record.
        with suppress(OSError):
            os.ftruncate(self._descriptor, size)
            self._size = size


def _write(descriptor: int, content: bytes, at: int) -> None:
    written = os.pwrite(descriptor, content, at)
    while written < len(content):
        written += os.pwrite(descriptor, memoryview(content)[written:], at + written)
