"""The log before the database. Each commit is one record at the end of a file, flushed before the commit is answered.

A file is overwritten once all its records are in the database. So most appends overwrite existing bytes, for which flushing
is cheapest. Each time a file is begun again it has a new *life*: a mark and a key that no earlier record has, so that
remaining records of earlier lives are not mistaken for its own.

The database knows two lives before they are begun: that of the current file, and that of the next. The transaction that
brings in a file's records replaces its life with a new one.
"""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Collection, Sequence
from contextlib import suppress
from pathlib import Path

from restante.limits import KIB
from restante.stores.sqlite.data_folder import FILE_MODE
from restante.stores.sqlite.failures import FlushFailed, RecordInDoubt
from restante.stores.sqlite.files import flush, flush_names
from restante.stores.sqlite.flush_pace import FlushPace
from restante.stores.sqlite.record import (
    CHECKSUM_BYTES,
    CommitDeeds,
    FileHead,
    Life,
    encode,
    encode_file_head,
    first_link,
)

STEP_BYTES = 256 * KIB
"""Files grow in steps of this size, by zeros that are flushed ahead of the records."""
_STEPS_MAX = 8
"""A file doubles in size when it grows, but grows by no more than this many steps."""
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT)
_SPARE_MAX = 2
_LIVES = 2
_PREFIX = "log-"


def log_files(folder: Path) -> list[Path]:
    return sorted(folder.glob(f"{_PREFIX}*"))


class Log:
    """The log. Its methods are called by one thread at a time, except `release` and the counts."""

    def __init__(
        self,
        folder: Path,
        *,
        mark: bytes,
        lives: Sequence[Life],
        used: Collection[Life | None],
        last: int,
        step_bytes: int,
    ) -> None:
        """`lives` are those that the database knows; those in `used` have files already."""
        self._folder = folder
        self._mark = mark
        self._lives = list(lives)
        self._unused = [life for life in lives if life not in used]
        self._step_bytes = step_bytes
        self._file: LogFile | None = None
        self._link = b""
        """The checksum of the last record of the file."""
        self._spare: list[LogFile] = []
        self.last = last
        """The number of the last commit."""
        self.written_bytes = 0
        self._pace = FlushPace()

    def is_quick(self, byte_count: int) -> bool:
        """Whether a record of `byte_count` bytes fits into the file, and flushes are quick."""
        return self._file is not None and self._file.has_room(byte_count) and self._pace.is_quick()

    def may_append(self) -> bool:
        """Whether there is a current file, or a life for another one."""
        return self._file is not None or bool(self._unused)

    def append(self, deeds: CommitDeeds) -> int:
        """Append a commit durably; return the record's length. If there is no room, nothing is changed."""
        file = self._file or self._begin()
        life = file.life
        assert life is not None
        head = b""
        if file.is_empty():
            head = encode_file_head(FileHead(self._mark, self.last + 1))
            self._link = first_link(head, life)
        record = encode(deeds, sequence=self.last + 1, before=self._link, life=life)
        began = time.perf_counter()
        file.append(head + record)
        self._pace.add(time.perf_counter() - began)
        self._link = record[-CHECKSUM_BYTES:]
        self.last += 1
        self.written_bytes += len(head) + len(record)
        return len(record)

    def leave(self) -> list[LogFile]:
        """Give up the current file, if there is one, and return it. The next commit begins another."""
        files = [] if self._file is None else [self._file]
        self._file = None
        return files

    def lives_without(self, files: Sequence[LogFile]) -> list[Life]:
        """The lives that the database must know before these files are released: new ones in place of theirs."""
        left = [life for life in self._lives if all(file.life != life for file in files)]
        return left + [Life.new() for _ in range(_LIVES - len(left))]

    def release(self, files: Sequence[LogFile], lives: Sequence[Life]) -> None:
        """Release files whose records are in the database, which knows these lives, so that they may be overwritten."""
        for file in files:
            file.rewind()
            if len(self._spare) < _SPARE_MAX:
                self._spare.append(file)
            else:
                file.remove()
        self._unused += [life for life in lives if life not in self._lives]
        self._lives = list(lives)

    def forget(self) -> list[LogFile]:
        """Give up the files that could be overwritten, and return them."""
        spare, self._spare = self._spare, []
        return spare

    def close(self, *, remove: bool) -> None:
        """Close the files. With `remove`, when all their records are in the database, remove them."""
        for file in (*self.leave(), *self._spare):
            if remove:
                file.remove()
            else:
                file.close()
        self._spare.clear()

    def _begin(self) -> LogFile:
        assert self._unused, "a transfer comes first"
        file = self._spare.pop() if self._spare else self._create()
        file.life = self._unused.pop(0)
        self._file = file
        return file

    def _create(self) -> LogFile:
        used = {path.name for path in log_files(self._folder)}
        number = next(number for number in range(len(used) + 1) if f"{_PREFIX}{number}" not in used)
        return LogFile.create(self._folder / f"{_PREFIX}{number}", self._step_bytes)


class LogFile:
    """One file of the log, which is written from its beginning again and again."""

    def __init__(self, path: Path, step_bytes: int = STEP_BYTES, *, life: Life | None = None) -> None:
        self.life = life
        self._path = path
        self._step_bytes = step_bytes
        self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, FILE_MODE)
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

    def is_empty(self) -> bool:
        return self._end == 0

    def has_room(self, byte_count: int) -> bool:
        """Whether `byte_count` more bytes fit without growing the file."""
        return self._end + byte_count <= self._size

    def append(self, record: bytes) -> None:
        end = self._end + len(record)
        if end > self._size:
            self._make_room(end)
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
        self._end, self.life = 0, None

    def close(self) -> None:
        os.close(self._descriptor)

    def remove(self) -> None:
        self.close()
        # If this fails, the next start removes the file, whose records are in the database.
        with suppress(OSError):
            self._path.unlink()

    def _make_room(self, end: int) -> None:
        """Grow the file beyond `end`: by its own size within limits or, on a nearly full disk, by one step."""
        more = min(self._size, _STEPS_MAX * self._step_bytes)
        if more > self._step_bytes:
            try:
                self._lengthen(end + more)
                return
            except OSError as error:
                if error.errno not in _NO_ROOM:
                    raise
        self._lengthen(end + self._step_bytes)

    def _lengthen(self, size: int) -> None:
        try:
            _write(self._descriptor, bytes(size - self._size), self._size)
            flush(self._descriptor)
        except OSError:
            self._cut(self._size)
            raise
        self._size = size

    def _cut(self, size: int) -> None:
        """Truncate the file after growing it has failed in the middle."""
        # If this fails, the next record overwrites what is there, which is no whole record.
        with suppress(OSError):
            os.ftruncate(self._descriptor, size)
            self._size = size


def _write(descriptor: int, content: bytes, at: int) -> None:
    written = os.pwrite(descriptor, content, at)
    while written < len(content):
        written += os.pwrite(descriptor, memoryview(content)[written:], at + written)
