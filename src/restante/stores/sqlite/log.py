"""The log before the database: each commit is one record at the end of a file, flushed before it is answered.

A file is written over when all it holds is in the database, so most appends change nothing of it but bytes that were
there already: such a flush is the cheapest there is. Each time it is begun anew it has another *life*, a mark and a key
that no earlier record has; so what it still holds of its earlier lives means nothing.

The database knows the lives before they are begun: two, that of the file that is written, and that of the next one. The
transaction that brings a file in forgets its life and adds a new one.
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
from restante.stores.sqlite.record import CHECKSUM_BYTES, Deeds, FileHead, Life, encode, encode_file_head, first_link

STEP_BYTES = 256 * KIB
"""Files are made longer in such steps, by zeros that are flushed ahead of the records."""
_STEPS_MAX = 8
"""A file that has become long is made longer by as much again, but by no more than so many steps."""
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT)
_SPARE_MAX = 2
_LIVES = 2
_PREFIX = "log-"


def log_files(folder: Path) -> list[Path]:
    return sorted(folder.glob(f"{_PREFIX}*"))


class Log:
    """The log before the database. Its methods are called by one thread at a time, but for `release` and the counts."""

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
        """`lives` are those that the database knows; of some of them there may be files already."""
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
        """Whether a record of so many bytes finds its place in the file, and flushes take little time."""
        return self._file is not None and self._file.has_room(byte_count) and self._pace.is_quick()

    def may_append(self) -> bool:
        """Whether there is a file to go on with, or a life for another one."""
        return self._file is not None or bool(self._unused)

    def append(self, deeds: Deeds) -> int:
        """Durable when it returns; gives the record's length. If there is no room, nothing was changed."""
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
        """The file of the commits so far, if there were any; the next one begins another."""
        files = [] if self._file is None else [self._file]
        self._file = None
        return files

    def lives_without(self, files: Sequence[LogFile]) -> list[Life]:
        """The lives that the database must know before the files are released: others instead of theirs."""
        left = [life for life in self._lives if all(file.life != life for file in files)]
        return left + [Life.new() for _ in range(_LIVES - len(left))]

    def release(self, files: Sequence[LogFile], lives: Sequence[Life]) -> None:
        """All that the files hold is in the database, which knows these lives: the files may be written over."""
        for file in files:
            file.rewind()
            if len(self._spare) < _SPARE_MAX:
                self._spare.append(file)
            else:
                file.remove()
        self._unused += [life for life in lives if life not in self._lives]
        self._lives = list(lives)

    def forget(self) -> list[LogFile]:
        """The files that are to be written over; they are no longer the log's."""
        spare, self._spare = self._spare, []
        return spare

    def close(self, *, remove: bool) -> None:
        """Remove the files if all that they hold is in the database."""
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
    """One file, written from its beginning to its end, and then again."""

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
        """Whether the file need not be made longer for so many bytes."""
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
        # If it fails, the next start removes it: its records are in the database.
        with suppress(OSError):
            self._path.unlink()

    def _make_room(self, end: int) -> None:
        """Make the file longer than `end`: by as much again, or, on a disk that is nearly full, by one step."""
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
        """Give back the room that was found before there was no more of it."""
        # If it fails, the next record is written over what is there, which is no whole record.
        with suppress(OSError):
            os.ftruncate(self._descriptor, size)
            self._size = size


def _write(descriptor: int, content: bytes, at: int) -> None:
    written = os.pwrite(descriptor, content, at)
    while written < len(content):
        written += os.pwrite(descriptor, memoryview(content)[written:], at + written)
