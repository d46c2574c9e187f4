"""Connections for reading: opened on first use, passed between threads, and bounded."""

from __future__ import annotations

import sqlite3
import threading
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any

from restante.errors import Unavailable
from restante.stores.sqlite.failures import translated
from restante.stores.sqlite.schema import connect_reader

READERS_MAX = 16


class ReadConnections:
    """A pool of at most `READERS_MAX` connections for reads; further reads wait for one.

    Every query is finished before its connection is returned, so no idle connection holds the journal open.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._idle: SimpleQueue[sqlite3.Connection | None] = SimpleQueue()
        self._opened = 0
        self._opening = threading.Lock()

    def rows(self, query: str, parameters: tuple[int | bytes, ...]) -> list[Any]:
        connection = self._take()
        try:
            return connection.execute(query, parameters).fetchall()
        except sqlite3.Error as error:
            raise translated(error) from error
        finally:
            self._idle.put(connection)

    def close(self) -> None:
        """Wait for the reads under way, and close all connections."""
        with self._opening:
            for _ in range(self._opened):
                connection = self._idle.get()
                if connection is not None:
                    connection.close()
            self._opened = READERS_MAX
        # This mark stays in the queue, so that every later reader finds it.
        self._idle.put(None)

    def _take(self) -> sqlite3.Connection:
        try:
            connection = self._idle.get_nowait()
        except Empty:
            connection = self._open_another() or self._idle.get()
        if connection is None:
            self._idle.put(None)
            raise Unavailable("The store is closed.")
        return connection

    def _open_another(self) -> sqlite3.Connection | None:
        with self._opening:
            if self._opened == READERS_MAX:
                return None
            try:
                connection = connect_reader(self._path)
            except sqlite3.Error as error:
                raise translated(error) from error
            self._opened += 1
            return connection
