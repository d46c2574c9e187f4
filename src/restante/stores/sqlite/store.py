"""The SQLite store: a folder with `restante.db` (small rows and small blobs), `blobs/` (large ones) and `lock`.

How a commit is durable at the price of one flush, or of three when it is large: its rows are one transaction of the
write-ahead journal, flushed when it commits. Blobs that are small together lie in that transaction. Larger ones would
be written twice there (journal, then database), page by page; they go into one new file instead, flushed together
with its name before the transaction that names it.

One connection writes, under a lock; reads use their own connections beside it. A thread of the store's own transfers
the journal and removes the files of dropped blobs.
"""

from __future__ import annotations

import logging
import sqlite3
import threading
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path

from restante.errors import DataDamaged, RestanteError, Unavailable
from restante.limits import KIB, PARTITIONS_MAX
from restante.model.changes import BlobKey, Buffer, Changes, Space
from restante.ports.store import StoreSize
from restante.stores.sqlite.backup import FolderSnapshot, Snapshots
from restante.stores.sqlite.failures import outcome_unknown, translated
from restante.stores.sqlite.files import BlobFiles, byte_count, flush_names
from restante.stores.sqlite.journal import JOURNAL_BYTES_MAX, JOURNAL_BYTES_TARGET, Journal
from restante.stores.sqlite.lock import FolderLock
from restante.stores.sqlite.readers import Readers
from restante.stores.sqlite.schema import MIGRATIONS, Migration, connect_writer, is_new, migrate
from restante.stores.sqlite.writer import BlobRow, Transaction, Writer

INLINE_BYTES_MAX = 256 * KIB
"""Blobs of one commit that are together no larger than this lie in the database (by measurement)."""

OLDEST_SQLITE = (3, 35, 0)
"""The first that gives back what it deletes."""

_NUMBERS = 1 << 48
"""Blob numbers of one partition; partition and number make one 63-bit row id."""
assert PARTITIONS_MAX * _NUMBERS < 1 << 63

_GET = "SELECT value FROM entries WHERE partition = ? AND space = ? AND key = ?"
_READ_BLOB = "SELECT file, start, length, substr(data, ?, ?) FROM blobs WHERE id = ?"
_LIST_BLOBS = "SELECT id FROM blobs WHERE id >= ? AND id < ? ORDER BY id"
_LIVE_FILES = "SELECT file, count(*) FROM blobs WHERE file IS NOT NULL GROUP BY file"

_log = logging.getLogger(__name__)


class SqliteStore:
    """The `Store` of one machine. Open it with `open`, once per folder, and close it."""

    def __init__(self, folder: Path, writer: Writer, files: BlobFiles, lock: FolderLock) -> None:
        self._folder = folder
        self._path = folder / "restante.db"
        self._writer = writer
        self._files = files
        self._lock = lock
        self._journal = Journal(self._path)
        self._readers = Readers(self._path)
        self._snapshots = Snapshots(folder, files)
        self._closing = threading.Event()
        self._untidy = threading.Event()
        self._tidying = threading.Thread(target=self._keep_tidy, name="restante-store-tidy", daemon=True)
        self._tidying.start()

    @classmethod
    def open(cls, folder: Path, *, migrations: Sequence[Migration] = MIGRATIONS) -> SqliteStore:
        """Open a data folder, or create it: takes it for this process, and brings older data forward."""
        if sqlite3.sqlite_version_info < OLDEST_SQLITE:
            raise Unavailable(
                f"SQLite {'.'.join(map(str, OLDEST_SQLITE))} or newer is needed; this Python has {sqlite3.sqlite_version}."
            )
        try:
            with ExitStack() as undo:
                folder.mkdir(parents=True, exist_ok=True)
                flush_names(folder.parent)
                lock = FolderLock(folder)
                undo.callback(lock.release)
                connection = connect_writer(folder / "restante.db")
                undo.callback(connection.close)
                files = BlobFiles(folder / "blobs")
                undo.callback(files.close)
                if is_new(connection) and files.any():
                    # Else all of them would go as a crash's leavings.
                    raise DataDamaged(f"The database in {folder} is missing or empty, yet there are blobs.")
                migrate(connection, migrations, folder)
                files.load(dict(connection.execute(_LIVE_FILES)))
                store = cls(folder, Writer(connection, folder), files, lock)
                undo.pop_all()
                return store
        except (sqlite3.Error, OSError) as error:
            raise translated(error, folder) from error

    def get(self, partition: int, space: Space, key: bytes) -> bytes | None:
        rows = self._readers.rows(_GET, (partition, int(space), key))
        return rows[0][0] if rows else None

    def scan(
        self,
        partition: int,
        space: Space,
        *,
        start: bytes = b"",
        end: bytes | None = None,
        limit: int | None = None,
        reverse: bool = False,
    ) -> list[tuple[bytes, bytes]]:
        query = (
            "SELECT key, value FROM entries WHERE partition = ? AND space = ? AND key >= ?"
            f"{'' if end is None else ' AND key < ?'} ORDER BY key{' DESC' if reverse else ''} LIMIT ?"
        )
        bounds = (start,) if end is None else (start, end)
        # SQLite's word for no limit is a negative one.
        return self._readers.rows(query, (partition, int(space), *bounds, -1 if limit is None else limit))

    def read_blob(self, blob: BlobKey, offset: int, length: int) -> bytes:
        rows = self._readers.rows(_READ_BLOB, (offset + 1, length, _row_id(blob)))
        if not rows:
            raise DataDamaged(f"{_name(blob)} is missing in {self._folder}.")
        file, start, stored, inline = rows[0]
        if offset + length <= stored:
            # A slice of nothing is NULL to SQLite.
            data = inline or b"" if file is None else self._read_file(blob, file, start + offset, length)
            if len(data) == length:
                return data
        raise DataDamaged(f"{_name(blob)} in {self._folder} ends before byte {offset + length}.")

    def put_blob(self, blob: BlobKey, parts: Sequence[Buffer]) -> None:
        self.commit(Changes(blobs=[(blob, parts)]))

    def blobs(self, partition: int) -> list[BlobKey]:
        first = partition * _NUMBERS
        rows = self._readers.rows(_LIST_BLOBS, (first, first + _NUMBERS))
        return [BlobKey(partition, row_id - first) for (row_id,) in rows]

    def raise_fences(self, partition_count: int) -> int:
        with self._writer.lock:
            return self._writer.raise_fences(partition_count)

    def commit(self, changes: Changes) -> None:
        self._writer.require_running()
        if self._journal.length_bytes() > JOURNAL_BYTES_MAX:
            self.checkpoint()
        # Outside the lock: the blobs of filing do not hold up a small commit.
        rows, file = self._lay(changes.blobs)
        dropped = dict.fromkeys(map(_row_id, changes.dropped))
        try:
            self._write(Transaction(changes.entries, rows, dropped), changes.fences, file)
        except Exception:
            # A file that a restart may find named is left for the restart to judge.
            if file is not None and not self._writer.stopped():
                self._files.discard(file)
            raise

    def checkpoint(self) -> None:
        """Remove the files whose blobs are dropped, and transfer the journal into the database."""
        try:
            self._files.remove_unnamed()
            self._journal.transfer(self._writer.lock)
        except (sqlite3.Error, OSError) as error:
            raise self._failed(error) from error

    def size(self) -> StoreSize:
        """Database, journal and blob files as they are; written, blob files and journal frames exactly.

        The transfer into the database is an upper bound: a page changed twice since the last one is counted twice.
        """
        paths = (self._path, Path(f"{self._path}-wal"))
        stored_bytes = sum(path.stat().st_size for path in paths if path.exists())
        return StoreSize(
            stored_bytes=stored_bytes + self._files.stored_bytes(),
            written_bytes=self._files.written_bytes + self._journal.written_bytes(),
        )

    def snapshot(self) -> FolderSnapshot:
        return self._snapshots.open()

    def close(self) -> None:
        """Ends when the reads and the commit under way have ended. Closing again does nothing."""
        if self._closing.is_set():
            return
        self._closing.set()
        self._snapshots.close()
        self._untidy.set()
        self._tidying.join()
        self._readers.close()
        self._journal.close_connection()
        with self._writer.lock:
            self._writer.close()
        self._journal.close_index()
        self._files.close()
        self._lock.release()

    def _lay(self, blobs: Sequence[tuple[BlobKey, Sequence[Buffer]]]) -> tuple[list[BlobRow], int | None]:
        """The rows of blobs, and the file they lie in, durably, if they are large."""
        sizes = [byte_count(parts) for _, parts in blobs]
        file = None if sum(sizes) <= INLINE_BYTES_MAX else self._write_file([parts for _, parts in blobs])
        rows: list[BlobRow] = []
        start = 0
        for (blob, parts), size in zip(blobs, sizes, strict=True):
            if file is None:
                rows.append((_row_id(blob), None, 0, size, b"".join(parts)))
            else:
                rows.append((_row_id(blob), file, start, size, None))
                start += size
        return rows, file

    def _write_file(self, blobs: Sequence[Sequence[Buffer]]) -> int:
        try:
            return self._files.write(blobs)
        except OSError as error:
            raise self._failed(error) from error

    def _write(self, transaction: Transaction, fences: Mapping[int, int], file: int | None) -> None:
        with self._writer.lock:
            self._writer.require_fences(fences)
            freed = self._writer.write(transaction)
            self._journal.committed()
            if file is not None:
                self._files.named(file, len(transaction.blobs))
        if (freed and self._files.dropped(freed)) or self._journal.length_bytes() > JOURNAL_BYTES_TARGET:
            self._untidy.set()

    def _read_file(self, blob: BlobKey, file: int, start: int, length: int) -> bytes:
        try:
            return self._files.read(file, start, length)
        except FileNotFoundError as error:
            raise DataDamaged(f"The file of {_name(blob)} is missing: {error}.") from error
        except OSError as error:
            raise translated(error, self._folder) from error

    def _keep_tidy(self) -> None:
        while not self._closing.is_set():
            self._untidy.wait()
            self._untidy.clear()
            try:
                self._files.remove_unnamed()
                if self._journal.length_bytes() > JOURNAL_BYTES_TARGET:
                    self._journal.transfer(self._writer.lock)
            except (sqlite3.Error, OSError) as error:
                # Nothing is lost: the journal and the files stay for the next time.
                _log.warning("Tidying up failed. %s", self._failed(error))

    def _failed(self, error: sqlite3.Error | OSError) -> RestanteError:
        if outcome_unknown(error):
            self._writer.stop(f"A flush failed in {self._folder} ({error}); reopen the store to go on.")
        return translated(error, self._folder)


def _row_id(blob: BlobKey) -> int:
    assert 0 <= blob.number < _NUMBERS
    return blob.partition * _NUMBERS + blob.number


def _name(blob: BlobKey) -> str:
    return f"Blob {blob.number} of partition {blob.partition}"
