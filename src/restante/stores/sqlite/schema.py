"""The database: how it is set up, and how an older one is brought forward.

`PRAGMA user_version` counts the migrations that a database has been through. A released migration is never changed;
a new layout is one more at the end.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from pathlib import Path

from restante.errors import FormatUnsupported
from restante.limits import MIB
from restante.stores.sqlite.record import Life, pack_lives

Migration = Callable[[sqlite3.Connection], None]

# By measurement (docs/internals/decisions): against 16 KiB, a small commit writes a third of the bytes, in less time.
PAGE_BYTES = 4096
# What the journal's file is cut back to after it once had to grow further.
JOURNAL_FILE_BYTES = 64 * MIB
_WRITER_CACHE_KIB = 64 * 1024
_READER_CACHE_KIB = 8 * 1024


def connect_writer(path: Path) -> sqlite3.Connection:
    """The connection that commits; creates the database if there is none."""
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
    """Connect for `VACUUM INTO`, which changes nothing of the database, and yet is refused to a reader."""
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
    """Bring a database forward, all missing steps or none of them."""
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
    # Any connection may be the one that commits last; none may pay for a checkpoint.
    connection.execute("PRAGMA wal_autocheckpoint = 0").fetchall()
    return connection


def _create(connection: sqlite3.Connection) -> None:
    """Format 1. A blob is either in `data`, or it is `length` bytes from `start` of a file.

    Its id is partition and number in one (2⁴⁸ numbers a partition), which makes a blob one row in one tree.
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
    """Format 2: a log before the database. `mark` begins its records; those up to `transferred` are in the tables.

    Versions that know nothing of the log would miss what it holds, so they must not open the folder.
    """
    connection.execute("CREATE TABLE log (mark BLOB NOT NULL, transferred INTEGER NOT NULL)")
    connection.execute("INSERT INTO log VALUES (randomblob(8), 0)")


def _add_lives(connection: sqlite3.Connection) -> None:
    """Format 3: `mark` begins the log's files; each time one is begun anew it takes one of `lives`, a mark and a key.

    The log of format 2 is brought in before. From there on it would mean nothing.
    """
    connection.execute("ALTER TABLE log ADD COLUMN lives BLOB NOT NULL DEFAULT x''")
    connection.execute("UPDATE log SET mark = randomblob(8), lives = ?", (pack_lives([Life.new(), Life.new()]),))


MIGRATIONS: tuple[Migration, ...] = (_create, _add_log, _add_lives)
