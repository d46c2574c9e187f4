"""The database: setting it up, and migrating an older one.

`PRAGMA user_version` counts the migrations that a database has been through. A released migration is never changed; a new
layout is another migration at the end.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from pathlib import Path

from restante.errors import FormatUnsupported
from restante.limits import MIB
from restante.stores.sqlite.record import Life, pack_lives

Migration = Callable[[sqlite3.Connection], None]

# By measurement (docs/internals/decisions), a small commit writes a third of the bytes that it does with 16 KiB, in less time.
PAGE_BYTES = 4096
# The size to which the journal's file is truncated after it had to grow further.
JOURNAL_FILE_BYTES = 64 * MIB
_WRITER_CACHE_KIB = 64 * 1024
_READER_CACHE_KIB = 8 * 1024


def connect_writer(path: Path) -> sqlite3.Connection:
    """Open the connection that commits; creates the database if there is none."""
    connection = _connect(path, _WRITER_CACHE_KIB)
    for pragma in (
        f"page_size = {PAGE_BYTES}",
        "journal_mode = WAL",
        "synchronous = FULL",
        "fullfsync = ON",
        "checkpoint_fullfsync = ON",
        f"journal_size_limit = {JOURNAL_FILE_BYTES}",
        "secure_delete = OFF",
    ):
        connection.execute(f"PRAGMA {pragma}").fetchall()
    return connection


def connect_reader(path: Path) -> sqlite3.Connection:
    connection = _connect(path, _READER_CACHE_KIB)
    connection.execute("PRAGMA query_only = ON")
    return connection


def connect_copier(path: Path) -> sqlite3.Connection:
    """Open a connection for `VACUUM INTO`, which does not change the database, but is refused to read-only connections."""
    return _connect(path, _READER_CACHE_KIB)


def connect_checkpointer(path: Path) -> sqlite3.Connection:
    connection = _connect(path, _READER_CACHE_KIB)
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("PRAGMA checkpoint_fullfsync = ON")
    return connection


def is_new(connection: sqlite3.Connection) -> bool:
    return version_of(connection) == 0


def version_of(connection: sqlite3.Connection) -> int:
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    assert isinstance(version, int)
    return version


def migrate(connection: sqlite3.Connection, migrations: Sequence[Migration], folder: Path) -> None:
    """Migrate a database: all missing steps or none."""
    version = version_of(connection)
    if version > len(migrations):
        raise FormatUnsupported(
            f"The data in {folder} has format {version}, written by a newer version of Restante; "
            f"this one knows formats up to {len(migrations)}. Use the newer version.",
            found=version,
            known=len(migrations),
        )
    if version == len(migrations):
        return
    connection.execute("BEGIN EXCLUSIVE")
    for step in migrations[version:]:
        step(connection)
    connection.execute(f"PRAGMA user_version = {len(migrations)}")
    connection.execute("COMMIT")


def _connect(path: Path, cache_kib: int) -> sqlite3.Connection:
    connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    connection.execute(f"PRAGMA cache_size = -{cache_kib}")
    # Any connection may commit, and none must run a checkpoint as part of it.
    connection.execute("PRAGMA wal_autocheckpoint = 0").fetchall()
    return connection


def _create(connection: sqlite3.Connection) -> None:
    """Format 1. A blob is either in `data`, or is `length` bytes from `start` of a file.

    Its id combines partition and number (2⁴⁸ numbers for each partition), so that a blob is one row in one tree.
    """
    connection.execute(
        "CREATE TABLE entries (partition INTEGER NOT NULL, space INTEGER NOT NULL, key BLOB NOT NULL, "
        "value BLOB NOT NULL, PRIMARY KEY (partition, space, key)) WITHOUT ROWID"
    )
    connection.execute(
        "CREATE TABLE blobs (id INTEGER PRIMARY KEY, file INTEGER, start INTEGER NOT NULL, length INTEGER NOT NULL, "
        "data BLOB)"
    )
    connection.execute("CREATE TABLE fences (partition INTEGER PRIMARY KEY, fence INTEGER NOT NULL)")


def _add_log(connection: sqlite3.Connection) -> None:
    """Format 2 has a log before the database. `mark` begins its records; those up to `transferred` are in the tables.

    Older versions would not see the commits in the log, so they must not open the folder.
    """
    connection.execute("CREATE TABLE log (mark BLOB NOT NULL, transferred INTEGER NOT NULL)")
    connection.execute("INSERT INTO log VALUES (randomblob(8), 0)")


def _add_lives(connection: sqlite3.Connection) -> None:
    """Format 3: `mark` begins the log's files, and each time one is begun it takes one of `lives`, a mark and a key.

    A log of format 2 is brought in before, because it is unreadable afterwards.
    """
    connection.execute("ALTER TABLE log ADD COLUMN lives BLOB NOT NULL DEFAULT x''")
    connection.execute("UPDATE log SET mark = randomblob(8), lives = ?", (pack_lives([Life.new(), Life.new()]),))


MIGRATIONS: tuple[Migration, ...] = (_create, _add_log, _add_lives)
