"""SQLite as the reference peers open it: durable, and quick otherwise."""

from __future__ import annotations

import sqlite3
from pathlib import Path

CACHE_KIB = 256 * 1024


def connect(path: Path, *, page_bytes: int, checkpoint_pages: int = 0) -> sqlite3.Connection:
    """Every commit is on the disk before it returns. With no pages given, checkpoints are left to the caller."""
    connection = sqlite3.connect(path, isolation_level=None)
    for pragma in (
        f"page_size = {page_bytes}",
        "journal_mode = WAL",
        "synchronous = FULL",
        f"wal_autocheckpoint = {checkpoint_pages}",
        f"cache_size = {-CACHE_KIB}",
        "secure_delete = OFF",
    ):
        connection.execute(f"PRAGMA {pragma}")
    return connection


def checkpoint(connection: sqlite3.Connection) -> None:
    connection.execute("PRAGMA wal_checkpoint(PASSIVE)")


def used_bytes(path: Path) -> int:
    """The bytes that a database uses of its file, without the pages that are free."""
    connection = sqlite3.connect(path)
    try:
        return _number(connection, "page_size") * (
            _number(connection, "page_count") - _number(connection, "freelist_count")
        )
    finally:
        connection.close()


def is_database(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(16) == b"SQLite format 3\0"


def _number(connection: sqlite3.Connection, pragma: str) -> int:
    return int(connection.execute(f"PRAGMA {pragma}").fetchone()[0])
