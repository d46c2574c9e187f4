"""Snapshots of a data folder in use: a copy of the database as of one moment, and the blob files that the copy names.

The copy is made in one read transaction, so it is of one moment and holds up no commit; the journal is not transferred past
that moment until the copy is done. The copy is in the data folder, whose disk space is monitored. It is made by rows, and
blob files give only the ranges that rows name, so dropped and deleted data is not in a snapshot. Named ranges never change,
so the files are read in place; none is removed from before the copy until the snapshot is closed.
"""

from __future__ import annotations

import os
import sqlite3
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing
from functools import partial
from pathlib import Path

from restante.errors import DataDamaged, Unavailable
from restante.limits import BACKUP_CHUNK_BYTES
from restante.model.storage.changes import Space
from restante.ports.backup import SnapshotPart
from restante.stores.sqlite.failures import translated
from restante.stores.sqlite.files import BlobFiles, ByteRange, gaps
from restante.stores.sqlite.lookups import FILE_RANGES
from restante.stores.sqlite.schema import connect_copier

DATABASE_NAME = "restante.db"
_COPY_PREFIX, _COPY_SUFFIX = "backup-", ".db"
_STEPS_A_LOOK = 10_000
"""The number of steps of SQLite's virtual machine between checks whether the store is closing."""


class Snapshots:
    """Makes the snapshots of one folder, one at a time."""

    def __init__(self, folder: Path, files: BlobFiles) -> None:
        self._folder = folder
        self._files = files
        self._closing = threading.Event()
        self._one = threading.Lock()
        self._copying = threading.Lock()
        for left_by_a_crash in folder.glob(f"{_COPY_PREFIX}*{_COPY_SUFFIX}*"):
            left_by_a_crash.unlink(missing_ok=True)

    def open(self, leaving_out: Sequence[Space] = ()) -> FolderSnapshot:
        return self.copied(self.reserve(), leaving_out)

    def reserve(self) -> ExitStack:
        """Keep files from being removed, and other snapshots from being made, until the returned stack is closed."""
        if not self._one.acquire(blocking=False):
            raise Unavailable("A backup of this hub is under way already. Try again when it is done.")
        reserved = ExitStack()
        reserved.callback(self._one.release)
        reserved.enter_context(self._files.kept())
        return reserved

    def copied(
        self, reserved: ExitStack, leaving_out: Sequence[Space], begun: Callable[[], None] = lambda: None
    ) -> FolderSnapshot:
        """Copy the database as it is now. `begun` is called once it may change again, at the latest when this returns."""
        try:
            with reserved as undo:
                copy = _new_file(self._folder)
                undo.callback(partial(copy.unlink, missing_ok=True))
                parts = self._parts(copy, leaving_out, begun)
                return FolderSnapshot(parts, undo.pop_all())
        except (sqlite3.Error, OSError) as error:
            raise translated(error) from error
        finally:
            begun()

    def close(self) -> None:
        """Abort a copy that is being made, because its connection must be closed before the store closes its own."""
        self._closing.set()
        with self._copying:
            pass

    def _parts(self, copy: Path, leaving_out: Sequence[Space], begun: Callable[[], None]) -> tuple[SnapshotPart, ...]:
        with self._copying:
            self._require_open()
            self._copy_database(copy, begun)
        begun()
        if leaving_out:
            _leave_out(copy, leaving_out)
        with closing(sqlite3.connect(copy)) as database:
            ranges: dict[int, list[ByteRange]] = {}
            for file, start, length in database.execute(FILE_RANGES):
                ranges.setdefault(file, []).append(ByteRange(start, length))
        blobs = [(self._files.path(number), live) for number, live in ranges.items()]
        return (
            self._part(DATABASE_NAME, copy, None),
            *(self._part(f"blobs/{path.name}", path, live) for path, live in blobs),
        )

    def _copy_database(self, copy: Path, begun: Callable[[], None]) -> None:
        """Copy the database by rows, not by pages, because free pages may hold erased data."""

        def look() -> bool:
            begun()  # The transaction has begun to read, so its moment is fixed.
            return self._closing.is_set()

        with closing(connect_copier(self._folder / DATABASE_NAME)) as source:
            source.set_progress_handler(look, _STEPS_A_LOOK)
            try:
                # The copy is temporary, so it need not survive a crash.
                source.execute("PRAGMA synchronous = OFF")
                source.execute("VACUUM INTO ?", (str(copy),))
            except sqlite3.OperationalError:
                self._require_open()
                raise

    def _part(self, name: str, path: Path, live: Sequence[ByteRange] | None) -> SnapshotPart:
        """A file as a part of the snapshot, with zeros in place of everything outside the `live` ranges, if these are given."""
        try:
            size = path.stat().st_size
        except FileNotFoundError as error:
            raise DataDamaged(
                f"The file {name} is missing, so there is no sound backup. Run the doctor; restore an older backup."
            ) from error
        blank = [] if live is None else gaps(live, size)
        return SnapshotPart(name, size, partial(self._chunks, path, blank))

    def _chunks(self, path: Path, blank: Sequence[ByteRange]) -> Iterator[bytes]:
        try:
            with path.open("rb", buffering=0) as file:
                at = 0
                while chunk := file.read(BACKUP_CHUNK_BYTES):
                    # Check after the read: once the store is closed, another process may own the files.
                    self._require_open()
                    yield _blanked(chunk, at, blank)
                    at += len(chunk)
        except OSError as error:
            raise translated(error) from error

    def _require_open(self) -> None:
        if self._closing.is_set():
            raise Unavailable("The store is closed.")


class FolderSnapshot:
    def __init__(self, parts: Sequence[SnapshotPart], kept: ExitStack) -> None:
        self.parts = parts
        self._kept = kept

    def close(self) -> None:
        self._kept.close()


def _leave_out(copy: Path, spaces: Sequence[Space]) -> None:
    """Delete the entries of some spaces, overwriting them."""
    with closing(sqlite3.connect(copy, isolation_level=None)) as database:
        for pragma in ("journal_mode = OFF", "synchronous = OFF", "secure_delete = ON"):
            database.execute(f"PRAGMA {pragma}").fetchall()
        for space in spaces:
            # Name the partitions, so that SQLite finds the rows by their key.
            every = "SELECT partition FROM fences"
            database.execute(f"DELETE FROM entries WHERE partition IN ({every}) AND space = ?", (int(space),))


def _blanked(chunk: bytes, at: int, blank: Sequence[ByteRange]) -> bytes:
    """The chunk of a file that starts at `at`, with zeros in the blank ranges."""
    content: bytearray | None = None
    for start, length in blank:
        first, end = max(start - at, 0), min(start + length - at, len(chunk))
        if first < end:
            content = bytearray(chunk) if content is None else content
            content[first:end] = bytes(end - first)
    return chunk if content is None else bytes(content)


def _new_file(folder: Path) -> Path:
    descriptor, path = tempfile.mkstemp(_COPY_SUFFIX, _COPY_PREFIX, folder)
    os.close(descriptor)
    return Path(path)
