"""Snapshots of a data folder in use: a copy of the database as of one moment, and the blob files that it names.

The copy is made inside one read transaction, so it is of one moment and holds up no commit; the journal is not
transferred past that moment until the copy is done. It lies in the data folder, for there the room is looked after.
Blob files are never changed, so they are read where they lie; from before the copy until the snapshot is closed none
is removed, however many of their blobs are dropped meanwhile.
"""

from __future__ import annotations

import os
import sqlite3
import tempfile
import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing
from functools import partial
from pathlib import Path

from restante.errors import DataDamaged, Unavailable
from restante.limits import BACKUP_CHUNK_BYTES
from restante.ports.backup import SnapshotPart
from restante.stores.sqlite.failures import translated
from restante.stores.sqlite.files import BlobFiles
from restante.stores.sqlite.schema import PAGE_BYTES, connect_reader

DATABASE_NAME = "restante.db"
_COPY_PREFIX, _COPY_SUFFIX = "backup-", ".db"
_PAGES_A_STEP = BACKUP_CHUNK_BYTES // PAGE_BYTES
_FILES = "SELECT DISTINCT file FROM blobs WHERE file IS NOT NULL ORDER BY file"


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

    def open(self) -> FolderSnapshot:
        if not self._one.acquire(blocking=False):
            raise Unavailable("A backup of this hub is under way already. Try again when it is done.")
        try:
            with ExitStack() as undo:
                undo.callback(self._one.release)
                undo.enter_context(self._files.kept())
                copy = _new_file(self._folder)
                undo.callback(partial(copy.unlink, missing_ok=True))
                parts = self._parts(copy)
                return FolderSnapshot(parts, undo.pop_all())
        except (sqlite3.Error, OSError) as error:
            raise translated(error, self._folder) from error

    def close(self) -> None:
        """Give up a copy that is being made: its connection must be gone before the store closes its own."""
        self._closing.set()
        with self._copying:
            pass

    def _parts(self, copy: Path) -> tuple[SnapshotPart, ...]:
        with self._copying:
            self._require_open()
            self._copy_database(copy)
        with closing(sqlite3.connect(copy)) as database:
            numbers = [number for (number,) in database.execute(_FILES)]
        blobs = [self._files.path(number) for number in numbers]
        return (self._part(DATABASE_NAME, copy), *(self._part(f"blobs/{path.name}", path) for path in blobs))

    def _copy_database(self, copy: Path) -> None:
        with (
            closing(connect_reader(self._folder / DATABASE_NAME)) as source,
            closing(sqlite3.connect(copy, isolation_level=None)) as target,
        ):
            # It is thrown away at the end: what a crash leaves of it need not make sense.
            for pragma in (f"page_size = {PAGE_BYTES}", "journal_mode = OFF", "synchronous = OFF"):
                target.execute(f"PRAGMA {pragma}").fetchall()
            # The first read fixes the moment for all steps of the copy.
            source.execute("BEGIN")
            source.execute("SELECT count(*) FROM fences").fetchone()
            source.backup(target, pages=_PAGES_A_STEP, progress=lambda *_: self._require_open())

    def _part(self, name: str, path: Path) -> SnapshotPart:
        try:
            size = path.stat().st_size
        except FileNotFoundError as error:
            raise DataDamaged(
                f"The file {path} is missing, so there is no sound backup. Run the doctor; restore an older backup."
            ) from error
        return SnapshotPart(name, size, partial(self._chunks, path))

    def _chunks(self, path: Path) -> Iterator[bytes]:
        try:
            with path.open("rb", buffering=0) as file:
                while chunk := file.read(BACKUP_CHUNK_BYTES):
                    # After the read: once the store is closed, the files may be another's.
                    self._require_open()
                    yield chunk
        except OSError as error:
            raise translated(error, path) from error

    def _require_open(self) -> None:
        if self._closing.is_set():
            raise Unavailable(f"The store in {self._folder} is closed.")


class FolderSnapshot:
    def __init__(self, parts: Sequence[SnapshotPart], kept: ExitStack) -> None:
        self.parts = parts
        self._kept = kept

    def close(self) -> None:
        self._kept.close()


def _new_file(folder: Path) -> Path:
    descriptor, path = tempfile.mkstemp(_COPY_SUFFIX, _COPY_PREFIX, folder)
    os.close(descriptor)
    return Path(path)
