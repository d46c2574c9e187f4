"""The SQLite store: a folder with `restante.db` (small rows and small blobs), `blobs/` (large ones) and `lock`.

A commit is durable after one flush, or after three if it is large. It is one record of a log, flushed before it is answered.
Blobs that are small together are in that record. Larger ones would be written three times (log, journal, database), so they
go into a new file instead, which is flushed, with its name, before the record that names it.

The commits in the log are also in memory, for reads. A thread of the store transfers them into the database, many in one
transaction; it also transfers SQLite's journal, and removes the files of dropped blobs. Reads use separate connections.
"""

from __future__ import annotations

import logging
import sqlite3
import threading
from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from pathlib import Path

from restante.errors import DataDamaged, RestanteError, StorageFull, Unavailable
from restante.limits import KIB
from restante.model.storage.changes import BlobKey, Buffer, Changes, EntryKey, Space
from restante.ports.backup import CutLapses
from restante.ports.store import BlobPlace, StoreSize
from restante.stores.sqlite.backup import FolderSnapshot, Snapshots
from restante.stores.sqlite.commits import LOG_BOUNDS, Commits, LogBounds
from restante.stores.sqlite.cut import FolderCut
from restante.stores.sqlite.data_folder import FolderLock, make_database, make_folder, require_own, tighten
from restante.stores.sqlite.failures import translated
from restante.stores.sqlite.files import BlobFiles, byte_count, flush_names
from restante.stores.sqlite.journal import JOURNAL_BYTES_TARGET, Journal
from restante.stores.sqlite.log import Log, LogFile, log_files
from restante.stores.sqlite.log_content import read_log
from restante.stores.sqlite.lookups import Lookups, row_id_of
from restante.stores.sqlite.older_log import bring_in_older_log
from restante.stores.sqlite.overlay import Generation, Overlay
from restante.stores.sqlite.readers import ReadConnections
from restante.stores.sqlite.record import BlobRow, decode, unpack_lives
from restante.stores.sqlite.schema import MIGRATIONS, Migration, connect_writer, is_new, migrate
from restante.stores.sqlite.writer import Writer

INLINE_BYTES_MAX = 256 * KIB
"""Blobs of one commit that are together no larger than this are in the log and the database (by measurement)."""

OLDEST_SQLITE = (3, 35, 0)
"""The first version that supports RETURNING."""

_LIVE_FILES = "SELECT file, count(*) FROM blobs WHERE file IS NOT NULL GROUP BY file"

_log = logging.getLogger(__name__)


class SqliteStore:
    """The `Store` of one machine. Open it with `open`, once per folder, and close it."""

    shared = False

    def __init__(
        self,
        folder: Path,
        *,
        writer: Writer,
        files: BlobFiles,
        lock: FolderLock,
        log: Log,
        left: Generation | None,
        bounds: LogBounds,
    ) -> None:
        self._folder = folder
        self._path = folder / "restante.db"
        self._writer = writer
        self._files = files
        self._lock = lock
        self._log = log
        self._overlay = Overlay(left)
        self._journal = Journal(self._path)
        self._readers = ReadConnections(self._path)
        self._lookups = Lookups(self._readers, files, self._overlay)
        self._commits = Commits(
            writer=writer,
            journal=self._journal,
            files=files,
            log=log,
            overlay=self._overlay,
            lookups=self._lookups,
            bounds=bounds,
        )
        self._snapshots = Snapshots(folder, files)
        self._cut: FolderCut | None = None
        self._closing = threading.Event()
        self._untidy = threading.Event()
        self._tidying = threading.Thread(target=self._keep_tidy, name="restante-store-tidy", daemon=True)
        self._tidying.start()

    @classmethod
    def open(
        cls, folder: Path, *, migrations: Sequence[Migration] = MIGRATIONS, bounds: LogBounds = LOG_BOUNDS
    ) -> SqliteStore:
        """Open or create a data folder: lock it for this process, and migrate older data."""
        if sqlite3.sqlite_version_info < OLDEST_SQLITE:
            raise Unavailable(
                f"SQLite {'.'.join(map(str, OLDEST_SQLITE))} or newer is needed; this Python has {sqlite3.sqlite_version}."
            )
        try:
            with ExitStack() as undo:
                require_own(folder)
                make_folder(folder)
                flush_names(folder.parent)
                lock = FolderLock(folder)
                undo.callback(lock.release)
                make_database(folder / "restante.db")
                tighten(folder)
                connection = connect_writer(folder / "restante.db")
                undo.callback(connection.close)
                files = BlobFiles(folder / "blobs")
                undo.callback(files.close)
                if is_new(connection) and (files.any() or log_files(folder)):
                    # Otherwise all of these would be removed as leftovers of a crash.
                    raise DataDamaged(f"The database in {folder} is missing or empty, yet there are blobs or a log.")
                bring_in_older_log(connection, folder)
                migrate(connection, migrations, folder)
                left, log = _read_log(connection, folder, bounds)
                files.load(Counter(dict(connection.execute(_LIVE_FILES))) + left.named_files())
                writer = Writer(connection, folder)
                store = cls(folder, writer=writer, files=files, lock=lock, log=log, left=left, bounds=bounds)
                undo.pop_all()
        except (sqlite3.Error, OSError) as error:
            raise translated(error, folder) from error
        store._bring_in_what_is_left()
        return store

    def get(self, partition: int, space: Space, key: bytes) -> bytes | None:
        return self._lookups.get(partition, space, key)

    def get_many(self, keys: Sequence[EntryKey]) -> dict[EntryKey, bytes]:
        found = ((entry, self._lookups.get(*entry)) for entry in keys)
        return {entry: value for entry, value in found if value is not None}

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
        return self._lookups.scan(partition, space, start=start, end=end, limit=limit, reverse=reverse)

    def read_blob(self, blob: BlobKey, offset: int, length: int) -> bytes:
        return self._lookups.read_blob(blob, offset, length)

    def blob_size(self, blob: BlobKey) -> int:
        return self._lookups.blob_size(blob)

    def blob_place(self, blob: BlobKey) -> BlobPlace | None:
        return self._lookups.blob_place(blob)

    def put_blob(self, blob: BlobKey, parts: Sequence[Buffer], *, fence: int) -> None:
        self.put_blobs([(blob, parts)], fence=fence)

    def put_blobs(self, blobs: Sequence[tuple[BlobKey, Sequence[Buffer]]], *, fence: int) -> None:
        """Write all these blobs into one file, or into the log."""
        self.commit(Changes(blobs=list(blobs), fences={blob.partition: fence for blob, _ in blobs}))

    def blobs(self, partition: int) -> list[BlobKey]:
        return self._lookups.blobs(partition)

    def raise_fences(self, partition_count: int, *, first: int = 0, by: int = 1) -> int:
        return self._commits.raise_fences(range(first, partition_count), by)

    def commit(self, changes: Changes) -> None:
        self._commits.require_running()
        # Do this outside the lock, so that the blobs of filing do not hold up a small commit.
        rows, file = self._lay(changes.blobs)
        try:
            self._commits.commit(changes, rows, file)
        except Exception:
            # If a restart may find a record that names the file, leave the file.
            if file is not None and self._writer.failure() is None:
                self._files.discard(file)
            raise
        if self._commits.due() or self._files.any_unnamed():
            self._untidy.set()

    def is_quick(self, byte_count: int) -> bool:
        return byte_count <= INLINE_BYTES_MAX and self._commits.is_quick(byte_count)

    def resolve(self) -> bool:
        """Raise, because no commit here ends in `OutcomeUnknown` without stopping the store."""
        raise Unavailable(self.failure() or "No commit is in doubt.")

    def require_owned(self) -> None:
        """Do nothing: the lock of the folder lasts as long as the process."""

    def lease_seconds(self) -> float | None:
        return None

    def checkpoint(self) -> None:
        """Transfer the log and the journal into the database, and remove the files whose blobs are dropped."""
        try:
            self._commits.transfer()
            self._files.remove_unnamed()
            self._journal.transfer(self._writer.lock)
        except (sqlite3.Error, OSError) as error:
            raise self._commits.failed(error) from error

    def scrub(self) -> bool:
        """Remove everything dropped or deleted before from the log, the database, its journal and the files.

        The database is rewritten, which takes time and disk space of up to twice its size. Commits go on meanwhile, into the
        log.
        """
        try:
            self._commits.renew_log()
            blanked = self._files.blank(self._lookups.file_ranges())
            with self._writer.lock:
                self._writer.rebuild()
                self._journal.committed()
            return self._journal.empty(self._writer.lock) and blanked
        except (sqlite3.Error, OSError) as error:
            raise self._commits.failed(error) from error

    def size(self) -> StoreSize:
        """The size of database, journal, log and blob files, and the bytes written.

        The bytes of blob files, log and journal frames are exact. Those of transfers into the database are an upper bound,
        because a page that changed twice since the last transfer is counted twice.
        """
        paths = (self._path, Path(f"{self._path}-wal"), *log_files(self._folder))
        return StoreSize(
            stored_bytes=sum(map(_size_of, paths)) + self._files.stored_bytes(),
            written_bytes=self._files.written_bytes + self._log.written_bytes + self._journal.written_bytes(),
        )

    def failure(self) -> str | None:
        return self._writer.failure()

    def snapshot(self, leaving_out: Sequence[Space] = ()) -> FolderSnapshot:
        """A snapshot with everything that was committed before the call."""
        self._commits.transfer()
        return self._snapshots.open(leaving_out)

    def cut(self, lapses: CutLapses) -> FolderCut:
        """Prepare a snapshot of a moment that is agreed upon with other stores."""
        self._cut = FolderCut(self._commits, self._snapshots, lapses)
        return self._cut

    def close(self) -> None:
        """Wait for the reads and the commit under way, and close. Closing again does nothing."""
        if self._closing.is_set():
            return
        self._closing.set()
        if self._cut is not None:
            self._cut.close()
        self._snapshots.close()
        self._untidy.set()
        self._tidying.join()
        self._commits.close()
        all_transferred = self._transferred_all()
        self._readers.close()
        self._overlay.close()
        self._journal.close_connection()
        with self._writer.lock:
            self._writer.close()
        self._journal.close_index()
        self._log.close(remove=all_transferred)
        self._files.close()
        self._lock.release()

    def _bring_in_what_is_left(self) -> None:
        """Bring the commits that a crash left in the log into the database at once."""
        try:
            self._commits.transfer()
            self._untidy.set()
        except (StorageFull, DataDamaged) as error:
            # Everything is still readable from the log, for the doctor or until there is room.
            _log.warning("The log could not be transferred yet; its commits are kept in memory. %s", error)
        except BaseException:
            self.close()
            raise

    def _transferred_all(self) -> bool:
        try:
            # After a failed flush the log must stay, for the next opening to judge.
            self._writer.require_running()
            self._commits.transfer()
        except RestanteError as error:
            _log.warning("The log stays until the store is opened again. %s", error)
            return False
        with suppress(OSError):  # The next opening removes what cannot be removed now.
            self._files.remove_unnamed()
        return True

    def _lay(self, blobs: Sequence[tuple[BlobKey, Sequence[Buffer]]]) -> tuple[list[BlobRow], int | None]:
        """The rows of blobs, and the number of the file to which they were durably written if they are large."""
        sizes = [byte_count(parts) for _, parts in blobs]
        file = None if sum(sizes) <= INLINE_BYTES_MAX else self._write_file([parts for _, parts in blobs])
        rows: list[BlobRow] = []
        start = 0
        for (blob, parts), size in zip(blobs, sizes, strict=True):
            if file is None:
                rows.append((row_id_of(blob), None, 0, size, b"".join(parts)))
            else:
                rows.append((row_id_of(blob), file, start, size, None))
                start += size
        return rows, file

    def _write_file(self, blobs: Sequence[Sequence[Buffer]]) -> int:
        try:
            return self._files.write(blobs)
        except OSError as error:
            raise self._commits.failed(error) from error

    def _keep_tidy(self) -> None:
        while not self._closing.is_set():
            self._untidy.wait()
            self._untidy.clear()
            try:
                self._tidy()
            except (sqlite3.Error, OSError) as error:
                # Nothing is lost: the journal and the files stay until the next time.
                _log.warning("Tidying up failed. %s", self._commits.failed(error))
            except RestanteError as error:
                # Nothing is lost: the log stays until the next time.
                _log.warning("Tidying up failed. %s", error)

    def _tidy(self) -> None:
        if self._commits.due():
            self._commits.transfer()
        self._files.remove_unnamed()
        if self._journal.length_bytes() > JOURNAL_BYTES_TARGET:
            self._journal.transfer(self._writer.lock)


def _read_log(connection: sqlite3.Connection, folder: Path, bounds: LogBounds) -> tuple[Generation, Log]:
    """The commits that the database does not have yet, and the log that continues after them."""
    ((mark, packed, transferred),) = connection.execute("SELECT mark, lives, transferred FROM log")
    paths, lives = log_files(folder), unpack_lives(packed)
    found = read_log(paths, mark=mark, lives=lives, transferred=transferred)
    left = Generation()
    for record in found.missing:
        left.apply(decode(record), sequence=record.sequence, record_bytes=len(record.payload))
    for path, life in zip(paths, found.lives, strict=True):
        left.files.append(LogFile(path, bounds.step_bytes, life=life))
        # Flush, because a killed process may not have flushed its last record, and the next commits follow it.
        left.files[-1].flush()
    last = left.last or transferred
    log = Log(folder, mark=mark, lives=lives, used=found.lives, last=last, step_bytes=bounds.step_bytes)
    return left, log


def _size_of(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0
