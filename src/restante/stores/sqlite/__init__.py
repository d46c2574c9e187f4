"""The SQLite engine: one data folder, one process, small rows in a database and large blobs in files beside it."""

from __future__ import annotations

from restante.stores.sqlite.store import SqliteStore

__all__ = ["SqliteStore"]
