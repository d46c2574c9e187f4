"""`Writer`: the connection that writes, one transaction at a time, guarded by fences.

After a failed flush it is unknown what the disk holds, so the writer refuses to go on until the store is opened again.
"""

from __future__ import annotations

import logging
import sqlite3
import threading
from collections.abc import Mapping, Sequence
from functools import cache
from itertools import chain
from pathlib import Path
from typing import NamedTuple

from restante.errors import StoreConflict, Unavailable
from restante.stores.sqlite.failures import outcome_unknown, reason_of, translated
from restante.stores.sqlite.record import BlobRow

_PUT = "INSERT INTO entries VALUES {} ON CONFLICT DO UPDATE SET value = excluded.value"
_DELETE = "DELETE FROM entries WHERE partition = ? AND space = ? AND key = ?"
_PUT_BLOB = "INSERT INTO blobs VALUES {}"
_DROP_BLOB = "DELETE FROM blobs WHERE id IN (VALUES {}) RETURNING file"
_RAISE_FENCE = "INSERT INTO fences VALUES {} ON CONFLICT DO UPDATE SET fence = excluded.fence"
_TRANSFERRED = "UPDATE log SET transferred = ?"
_KNOW_LIVES = "UPDATE log SET lives = ?"

_ROWS_AT_ONCE = (64, 32, *range(16, 0, -1))
"""Rows are written by statements of a few fixed sizes, so that few statements are prepared. Fewer statements are better: each
releases the interpreter lock, and getting it back from a busy thread takes longer than the statement."""

_log = logging.getLogger(__name__)


class Transaction(NamedTuple):
    """Changes that are written together or not at all."""

    puts: Sequence[tuple[int, int, bytes, bytes]] = ()
    deletes: Sequence[tuple[int, int, bytes]] = ()
    blobs: Sequence[BlobRow] = ()
    dropped: Sequence[int] = ()
    fences: Sequence[tuple[int, int]] = ()
    transferred: int | None = None
    """The last commit of the log that this transaction brings into the database."""
    lives: bytes | None = None
    """The lives of log files that the database knows afterwards; None if they do not change."""


class Writer:
    """Writes transactions. Its methods are called under `lock`, which others take to keep transactions away for a moment."""

    def __init__(self, connection: sqlite3.Connection, folder: Path) -> None:
        self.lock = threading.Lock()
        self._connection = connection
        self._folder = folder
        self._stopped: str | None = None
        self._closed = False
        # Only this process writes, because it holds the folder's lock, so these stay the stored fences.
        self._fences: dict[int, int] = dict(connection.execute("SELECT partition, fence FROM fences"))

    def require_running(self) -> None:
        if self._stopped is not None:
            raise Unavailable(
                f"The store has stopped: {self._stopped}. Nobody knows what is stored; reopen it to go on."
            )
        if self._closed:
            raise Unavailable("The store is closed.")

    def require_fences(self, fences: Mapping[int, int]) -> None:
        for partition, fence in fences.items():
            if self._fences.get(partition) != fence:
                raise StoreConflict(
                    f"Another owner has taken partition {partition}; nothing was changed. Open the hub again.",
                    partition=partition,
                )

    def raise_fences(self, partitions: range, by: int = 1) -> int:
        fence = max(self._fences.values(), default=0) + by
        raised = dict.fromkeys(partitions, fence)
        self.write(Transaction(fences=list(raised.items())))
        self._fences.update(raised)
        return fence

    def write(self, transaction: Transaction) -> list[int]:
        """Write a transaction durably; return the files whose blobs it dropped, once for each blob."""
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
                raise translated(error) from error
            raise
        return freed

    def rebuild(self) -> None:
        """Rewrite the database with nothing but its rows."""
        self.require_running()
        try:
            self._connection.execute("VACUUM")
        except sqlite3.Error as error:
            self._roll_back(error)
            raise translated(error) from error

    def stop(self, reason: str) -> None:
        """Refuse everything until the store is opened again, and log that once."""
        if self._stopped is None:
            self._stopped = reason
            _log.critical("The store in %s has stopped: %s. Restart the hub: opening finds out.", self._folder, reason)

    def failure(self) -> str | None:
        """Why nothing more is written; None while writes are possible."""
        return self._stopped

    def close(self) -> None:
        self._closed = True
        self._connection.close()

    def _roll_back(self, cause: BaseException) -> None:
        if outcome_unknown(cause):
            self.stop(f"a transfer into the database failed ({reason_of(cause)})")
        try:
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
        except sqlite3.Error as error:
            self.stop(f"a failed transfer could not be undone ({reason_of(error)})")


@cache
def _statement(statement: str, columns: int, rows: int) -> str:
    row = f"({', '.join('?' * columns)})"
    return statement.format(", ".join([row] * rows))


def _carry_out(transaction: Transaction, connection: sqlite3.Connection) -> list[int]:
    _execute(connection, _PUT, transaction.puts)
    # Delete one by one: for a list of keys, SQLite would read the whole table.
    connection.executemany(_DELETE, transaction.deletes)
    _execute(connection, _PUT_BLOB, transaction.blobs)
    _execute(connection, _RAISE_FENCE, transaction.fences)
    freed = _execute(connection, _DROP_BLOB, [(row_id,) for row_id in transaction.dropped])
    if transaction.transferred is not None:
        connection.execute(_TRANSFERRED, (transaction.transferred,))
    if transaction.lives is not None:
        connection.execute(_KNOW_LIVES, (transaction.lives,))
    return [file for (file,) in freed if file is not None]


def _execute(
    connection: sqlite3.Connection, statement: str, rows: Sequence[tuple[object, ...]]
) -> list[tuple[int | None]]:
    """Carry out a statement for all rows, many at once; return the rows that it returns."""
    answers: list[tuple[int | None]] = []
    at = 0
    while at < len(rows):
        count = next(size for size in _ROWS_AT_ONCE if size <= len(rows) - at)
        values = list(chain.from_iterable(rows[at : at + count]))
        answers += connection.execute(_statement(statement, len(rows[at]), count), values).fetchall()
        at += count
    return answers
