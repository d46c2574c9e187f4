"""The connection that writes: one transaction at a time, guarded by fences.

After a failed flush nobody knows what the disk holds, so the writer refuses to go on until the store is opened again
and has looked.
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from restante.errors import StoreConflict, Unavailable
from restante.model.changes import EntryKey
from restante.stores.sqlite.failures import outcome_unknown, translated

_PUT = "INSERT INTO entries VALUES (?, ?, ?, ?) ON CONFLICT DO UPDATE SET value = excluded.value"
_DELETE = "DELETE FROM entries WHERE partition = ? AND space = ? AND key = ?"
_PUT_BLOB = "INSERT INTO blobs VALUES (?, ?, ?, ?, ?)"
_DROP_BLOB = "DELETE FROM blobs WHERE id = ?"
_FILE_OF_BLOB = "SELECT file FROM blobs WHERE id = ? AND file IS NOT NULL"
_RAISE_FENCE = "INSERT INTO fences VALUES (?, ?) ON CONFLICT DO UPDATE SET fence = excluded.fence"

BlobRow = tuple[int, int | None, int, int, bytes | None]
"""Row id; file and start there, or none and 0; length; the bytes themselves if they are in no file."""


class Transaction(NamedTuple):
    """What is written whole or not at all."""

    entries: Mapping[EntryKey, bytes | None] = {}
    blobs: Sequence[BlobRow] = ()
    dropped: Iterable[int] = ()
    fences: Iterable[tuple[int, int]] = ()


class Writer:
    """Its methods are called under `lock`, which others take to keep commits away for a moment."""

    def __init__(self, connection: sqlite3.Connection, folder: Path) -> None:
        self.lock = threading.Lock()
        self._connection = connection
        self._folder = folder
        self._stopped: str | None = None
        # Only this process writes (the folder's lock), so what it last stored is what is stored.
        self._fences: dict[int, int] = dict(connection.execute("SELECT partition, fence FROM fences"))

    def require_running(self) -> None:
        if self._stopped is not None:
            raise Unavailable(self._stopped)

    def require_fences(self, fences: Mapping[int, int]) -> None:
        for partition, fence in fences.items():
            if self._fences.get(partition) != fence:
                raise StoreConflict(
                    f"Another owner has taken partition {partition}; nothing was changed. Open the hub again.",
                    partition=partition,
                )

    def raise_fences(self, partition_count: int) -> int:
        fence = max(self._fences.values(), default=0) + 1
        raised = dict.fromkeys(range(partition_count), fence)
        self.write(Transaction(fences=raised.items()))
        self._fences.update(raised)
        return fence

    def write(self, transaction: Transaction) -> list[int]:
        """Durable when it returns; gives the files whose blobs it dropped, once for each blob."""
        self.require_running()
        try:
            self._connection.execute("BEGIN IMMEDIATE")
            freed = _carry_out(transaction, self._connection)
            self._connection.execute("COMMIT")
        except BaseException as error:
            self._roll_back(error)
            if isinstance(error, sqlite3.IntegrityError):
                raise AssertionError("a blob is written once, under a number never used before") from error
            if isinstance(error, sqlite3.Error):
                raise translated(error, self._folder) from error
            raise
        return freed

    def stop(self, reason: str) -> None:
        """Refuse everything from now on."""
        self._stopped = self._stopped or reason

    def stopped(self) -> bool:
        return self._stopped is not None

    def close(self) -> None:
        self.stop(f"The store in {self._folder} is closed.")
        self._connection.close()

    def _roll_back(self, cause: BaseException) -> None:
        if outcome_unknown(cause):
            self.stop(f"The store in {self._folder} failed while it wrote ({cause}); reopen it to go on.")
        try:
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
        except sqlite3.Error as error:
            self.stop(f"The store in {self._folder} could not undo a failed commit ({error}); reopen it to go on.")


def _carry_out(transaction: Transaction, connection: sqlite3.Connection) -> list[int]:
    if transaction.entries:
        _write_entries(transaction.entries, connection)
    if transaction.blobs:
        connection.executemany(_PUT_BLOB, transaction.blobs)
    if transaction.fences:
        connection.executemany(_RAISE_FENCE, transaction.fences)
    freed: list[int] = []
    for row_id in transaction.dropped:
        freed.extend(file for (file,) in connection.execute(_FILE_OF_BLOB, (row_id,)))
        connection.execute(_DROP_BLOB, (row_id,))
    return freed


def _write_entries(entries: Mapping[EntryKey, bytes | None], connection: sqlite3.Connection) -> None:
    # Plain integers, for sqlite3 looks for an adapter for every value of any other type.
    puts = [
        (partition, int(space), key, value) for (partition, space, key), value in entries.items() if value is not None
    ]
    connection.executemany(_PUT, puts)
    if len(puts) < len(entries):
        gone = [(partition, int(space), key) for (partition, space, key), value in entries.items() if value is None]
        connection.executemany(_DELETE, gone)
