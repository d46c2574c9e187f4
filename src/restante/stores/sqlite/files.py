"""Blobs in files: each file is written once, with all large blobs of one commit, and its live ranges never change.

A file is durable before the transaction that names it, and removed after the transaction that drops the last of its blobs.
So a crash can leave files that no row names, which the next start removes, but never a row without its file.
"""

from __future__ import annotations

import fcntl
import os
import sys
import threading
from collections import Counter, OrderedDict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from restante.limits import MIB
from restante.model.storage.changes import Buffer
from restante.stores.sqlite.data_folder import FILE_MODE, make_folder
from restante.stores.sqlite.failures import FlushFailed

FILES_OPEN_MAX = 128
_BLANK_BYTES = MIB
_PARTS_PER_WRITE = 1000
"""The buffers in one `writev`, below the system's bound of 1,024."""


class ByteRange(NamedTuple):
    start: int
    length: int


class BlobFiles:
    """The blob files of a folder, with counts of the blobs in each that rows name."""

    def __init__(self, folder: Path) -> None:
        make_folder(folder)
        flush_names(folder.parent)
        self._folder = folder
        self._live: Counter[int] = Counter()
        self._sizes: dict[int, int] = {}
        self._unnamed: list[int] = []
        self._keepers = 0
        self._opened: OrderedDict[int, _OpenFile] = OrderedDict()
        self._lock = threading.Lock()
        self._last = 0
        self.written_bytes = 0

    def any(self) -> bool:
        return any(self._folder.iterdir())

    def load(self, live: dict[int, int]) -> None:
        """Start with the counts of blobs that rows name. Files without any are removed."""
        for path in list(self._folder.iterdir()):
            number = int(path.name) if path.name.isdecimal() else None
            if number in live:
                self._sizes[number] = path.stat().st_size
            else:
                path.unlink()
        self._live = Counter(live)
        self._last = max(live, default=0)

    def stored_bytes(self) -> int:
        with self._lock:
            return sum(self._sizes.values())

    def write(self, blobs: Iterable[Sequence[Buffer]]) -> int:
        """Write these blobs into a new file, durably, with its name; return its number."""
        with self._lock:
            self._last += 1
            number = self._last
        path = self.path(number)
        try:
            size = _write_file(path, [part for parts in blobs for part in parts])
            flush_names(self._folder)
        except OSError:
            path.unlink(missing_ok=True)
            raise
        with self._lock:
            self._sizes[number] = size
            self.written_bytes += size
        return number

    def read(self, number: int, start: int, length: int) -> bytes:
        """Read a slice, which is shorter if the file ends before. Raises `FileNotFoundError` if there is no file."""
        return self._open(number).read(start, length)

    def named(self, number: int, count: int) -> None:
        """Note that a committed transaction names `count` blobs of a file."""
        with self._lock:
            self._live[number] += count

    def dropped(self, numbers: Iterable[int]) -> None:
        """Note that one blob was durably dropped for each occurrence of a file."""
        with self._lock:
            for number in numbers:
                self._live[number] -= 1
                if not self._live[number]:
                    del self._live[number]
                    self._unnamed.append(number)

    def any_unnamed(self) -> bool:
        return bool(self._unnamed)

    def discard(self, number: int) -> None:
        """Give up a file that no transaction will name."""
        with self._lock:
            self._unnamed.append(number)
        # If this fails, the next start removes the file.
        with suppress(OSError):
            self.remove_unnamed()

    @contextmanager
    def kept(self) -> Iterator[None]:
        """A context in which no file is removed, for readers of what rows named at an earlier moment."""
        with self._lock:
            self._keepers += 1
        try:
            yield
        finally:
            with self._lock:
                self._keepers -= 1
            # If this fails, the next commit that frees a file tries again, or the next start.
            with suppress(OSError):
                self.remove_unnamed()

    def remove_unnamed(self) -> None:
        with self._lock:
            if self._keepers:
                return
            numbers, self._unnamed = self._unnamed, []
            for number in numbers:
                self._opened.pop(number, None)
                self._sizes.pop(number, None)
        for number in numbers:
            self.path(number).unlink(missing_ok=True)

    def blank(self, live: Mapping[int, Sequence[ByteRange]]) -> bool:
        """Remove everything that no row names: delete files, and overwrite ranges of others with zeros.

        `live` has the ranges that rows name. Returns False if a reader needs what rows named at an earlier moment.
        """
        self.remove_unnamed()
        with self._lock:
            if self._keepers:
                return False
        for number, ranges in live.items():
            with suppress(FileNotFoundError):  # Dropped meanwhile.
                _blank(self.path(number), ranges)
        return True

    def close(self) -> None:
        with self._lock:
            self._opened.clear()
            # From now on another process may own the files. The next start removes what is left over.
            self._unnamed.clear()

    def path(self, number: int) -> Path:
        return self._folder / f"{number:012d}"

    def _open(self, number: int) -> _OpenFile:
        with self._lock:
            file = self._opened.get(number)
            if file is None:
                file = self._opened[number] = _OpenFile(self.path(number))
                if len(self._opened) > FILES_OPEN_MAX:
                    self._opened.popitem(last=False)
            else:
                self._opened.move_to_end(number)
            return file


class _OpenFile:
    """A descriptor that lives while a reader uses it, so that it is never closed, and its number reused, under a reader."""

    def __init__(self, path: Path) -> None:
        self._descriptor = -1
        self._descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)

    def __del__(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)

    def read(self, start: int, length: int) -> bytes:
        # A method, so that the caller's frame holds the object until the bytes are read.
        data = os.pread(self._descriptor, length, start)
        while 0 < len(data) < length:
            more = os.pread(self._descriptor, length - len(data), start + len(data))
            if not more:
                break
            data += more
        return data


def gaps(ranges: Iterable[ByteRange], size: int) -> list[ByteRange]:
    """The gaps between the ordered ranges, and after them up to `size`."""
    found, at = [], 0
    for start, length in (*ranges, ByteRange(size, 0)):
        if start > at:
            found.append(ByteRange(at, start - at))
        at = max(at, start + length)
    return found


def flush(descriptor: int) -> None:
    """Flush everything written so far to the disk."""
    try:
        if sys.platform == "darwin":
            # On macOS, fsync leaves the data in the disk's cache.
            fcntl.fcntl(descriptor, fcntl.F_FULLFSYNC)
        else:
            os.fdatasync(descriptor)
    except OSError as error:
        raise FlushFailed(error.errno, error.strerror) from error


def flush_names(folder: Path) -> None:
    """Make the files created in a folder durable as entries of the folder."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        flush(descriptor)
    finally:
        os.close(descriptor)


def byte_count(parts: Iterable[Buffer]) -> int:
    """The bytes of all parts, also of views of wider items, whose `len` counts items."""
    return sum([part.nbytes if isinstance(part, memoryview) else len(part) for part in parts])


def _blank(path: Path, live: Sequence[ByteRange]) -> None:
    descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    try:
        written = False
        for start, length in gaps(live, os.fstat(descriptor).st_size):
            for at in range(start, start + length, _BLANK_BYTES):
                zeros = bytes(min(_BLANK_BYTES, start + length - at))
                if os.pread(descriptor, len(zeros), at) != zeros:
                    os.pwrite(descriptor, zeros, at)
                    written = True
        if written:
            flush(descriptor)
    finally:
        os.close(descriptor)


def _write_file(path: Path, parts: list[Buffer]) -> int:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, FILE_MODE)
    try:
        for first in range(0, len(parts), _PARTS_PER_WRITE):
            _write_parts(descriptor, parts[first : first + _PARTS_PER_WRITE])
        flush(descriptor)
    finally:
        os.close(descriptor)
    return byte_count(parts)


def _write_parts(descriptor: int, parts: list[Buffer]) -> None:
    written = os.writev(descriptor, parts)
    if written == byte_count(parts):
        return
    # A short write is rare (a signal, a disk filling up), so copying the rest does not matter.
    rest = memoryview(b"".join(parts))[written:]
    while rest:
        rest = rest[os.write(descriptor, rest) :]
