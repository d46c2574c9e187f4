"""The catalogue's own database, in SQLite: the API reads it, the workers write it, each in a process of its own.

Many writes of one moment share a commit. A write runs in a savepoint of the transaction that is open, and waits until
that transaction is on the disk; whatever fails in a savepoint undoes that write alone. So 32 handlers that work side by
side need one flush of the disk, and not 32.
"""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

from restante.work.once.dialogue import SCHEMA as ONCE

BUSY_SECONDS = 5.0
PURGE_SECONDS = 10.0
SCHEMA = """
CREATE TABLE IF NOT EXISTS items (
    id TEXT PRIMARY KEY, name TEXT NOT NULL, description TEXT NOT NULL, price TEXT NOT NULL, image_url TEXT,
    last_updated TEXT NOT NULL, expires_at REAL
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS items_by_name ON items (name);
CREATE TABLE IF NOT EXISTS comments (
    item_id TEXT NOT NULL, id TEXT NOT NULL, number INTEGER NOT NULL, author_name TEXT NOT NULL, text TEXT NOT NULL,
    creation_date TEXT NOT NULL, expires_at REAL, PRIMARY KEY (item_id, id)
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS comments_by_number ON comments (item_id, number);
CREATE TABLE IF NOT EXISTS ratings (
    item_id TEXT NOT NULL, id TEXT NOT NULL, rating INTEGER NOT NULL, creation_date TEXT NOT NULL, expires_at REAL,
    PRIMARY KEY (item_id, id)
) WITHOUT ROWID;
"""
TABLES = ("items", "comments", "ratings")
_BUSY = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)


class DatabaseError(Exception):
    """The database did not do it."""


class DatabaseUnavailable(DatabaseError):
    """The database cannot be read or written at all."""


class DatabaseThrottled(DatabaseError):
    """The database has too much to do: later it may succeed."""


@contextlib.contextmanager
def translated() -> Iterator[None]:
    """Errors of SQLite as errors of ours."""
    try:
        yield
    except sqlite3.Error as error:
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF
        kind = DatabaseThrottled if code in _BUSY else DatabaseUnavailable
        raise kind(str(error)) from error


def opened(path: Path, *, busy_seconds: float = BUSY_SECONDS) -> sqlite3.Connection:
    """A connection whose commits are on the disk when they return. Transactions are begun and ended by hand."""
    connection = sqlite3.connect(path, timeout=busy_seconds, isolation_level=None, check_same_thread=False)
    try:
        connection.row_factory = sqlite3.Row
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
    except BaseException:
        connection.close()
        raise
    return connection


class Database:
    """Reads at once, since SQLite answers them in microseconds; writes share commits."""

    def __init__(self, path: Path, *, busy_seconds: float = BUSY_SECONDS) -> None:
        with translated():
            self._reader = opened(path, busy_seconds=busy_seconds)
            self._reader.executescript(SCHEMA + ONCE)
            self._writer = opened(path, busy_seconds=busy_seconds)
        self._turn = asyncio.Lock()
        self._commit: asyncio.Task[None] | None = None
        self._purge_at = 0.0

    def close(self) -> None:
        self._reader.close()
        self._writer.close()

    def rows(self, query: str, *values: object) -> list[sqlite3.Row]:
        with translated():
            return self._reader.execute(query, values).fetchall()

    @contextlib.asynccontextmanager
    async def writing(self) -> AsyncIterator[sqlite3.Connection]:
        """A write. It is on the disk when the block has ended, or it has not happened and an error says so."""
        async with self._turn:
            with translated():
                await self._begin()
                with _savepoint(self._writer):
                    yield self._writer
            commit = self._commit
        assert commit is not None
        await asyncio.shield(commit)

    async def _begin(self) -> None:
        """Join the transaction that is open, or open one; it is committed after the writes that wait already."""
        if self._commit is not None:
            return
        begun = asyncio.ensure_future(asyncio.to_thread(self._writer.execute, "BEGIN IMMEDIATE"))
        try:
            await asyncio.shield(begun)
        except asyncio.CancelledError:  # a thread cannot be: let it end, and leave no transaction open
            await asyncio.wait((begun,))
            if self._writer.in_transaction:
                self._writer.execute("ROLLBACK")
            raise
        self._commit = asyncio.ensure_future(self._end())
        self._commit.add_done_callback(_look_at)

    async def _end(self) -> None:
        async with self._turn:
            self._commit = None
            with translated():
                self._purge()
                await asyncio.to_thread(_committed, self._writer)

    def _purge(self) -> None:
        """Remove test data whose life is over; no reader sees it before that."""
        now = time.time()
        if now >= self._purge_at:
            self._purge_at = now + PURGE_SECONDS
            for table in TABLES:
                self._writer.execute(f"DELETE FROM {table} WHERE expires_at <= ?", (now,))


@contextlib.contextmanager
def _savepoint(connection: sqlite3.Connection) -> Iterator[None]:
    connection.execute("SAVEPOINT write")
    try:
        yield
    except BaseException:
        connection.execute("ROLLBACK TO write")
        raise
    finally:
        connection.execute("RELEASE write")


def _committed(connection: sqlite3.Connection) -> None:
    try:
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def _look_at(commit: asyncio.Task[None]) -> None:
    """A commit that nobody waits for, because all of its writes were given up, has an error that nobody asks for."""
    if not commit.cancelled():
        commit.exception()
