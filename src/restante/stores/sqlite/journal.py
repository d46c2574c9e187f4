"""SQLite's write-ahead journal: its length, and its transfer into the database without holding up commits.

A passive round transfers earlier commits while others go on. When little is left, one more round runs under the writer's
lock. Then everything is transferred, and the next commit starts the journal from its beginning.
"""

from __future__ import annotations

import os
import struct
import threading
from pathlib import Path

from restante.limits import MIB
from restante.stores.sqlite.schema import PAGE_BYTES, connect_checkpointer

JOURNAL_BYTES_TARGET = 16 * MIB
"""The length from which the journal is transferred in the background."""
JOURNAL_BYTES_MAX = 256 * MIB
"""The length from which a commit first transfers the journal, if the background does not keep up."""
_FRAME_BYTES = PAGE_BYTES + 24
_ROUNDS_MAX = 8
_LAST_ROUND_FRAMES_MAX = 256

# In the journal's index (sqlite.org/walformat.html, "WAL-Index Header"): number of frames, and the salt, which
# changes whenever the journal starts afresh. Python's module has no hook that would tell.
_INDEX_OFFSET = 16
_INDEX = struct.Struct("=I12x8s")


class Journal:
    """Counts the frames that commits wrote, and transfers them."""

    def __init__(self, path: Path) -> None:
        self._connection = connect_checkpointer(path)
        # Keep this open until all connections are closed: closing any descriptor of the file would release SQLite's locks.
        self._index = os.open(f"{path}-shm", os.O_RDONLY | os.O_CLOEXEC)
        self._rounds = threading.Lock()
        self._frames, self._salt = self._read_index()
        self._frames_bytes = 0
        self._transferred = 0
        self._transferred_bytes = 0

    def length_bytes(self) -> int:
        return self._frames * _FRAME_BYTES

    def written_bytes(self) -> int:
        """The exact bytes of frames, plus an upper bound for transfers, as if every frame were written to the database."""
        return self._frames_bytes + self._transferred_bytes

    def committed(self) -> None:
        """Note a commit. Called under the writer's lock."""
        frames, salt = self._read_index()
        if salt != self._salt:
            self._frames = self._transferred = 0
        self._frames_bytes += (frames - self._frames) * _FRAME_BYTES
        self._frames, self._salt = frames, salt

    def transfer(self, writing: threading.Lock) -> None:
        with self._rounds:
            for _ in range(_ROUNDS_MAX):
                if self._round() <= _LAST_ROUND_FRAMES_MAX:
                    break
            with writing:
                self._round()

    def empty(self, writing: threading.Lock) -> bool:
        """Transfer everything, and truncate the journal's file; return False if a reader uses it."""
        self.transfer(writing)
        with self._rounds, writing:
            busy, _, _ = self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
            if not busy:
                self._frames, self._salt = self._read_index()
                self._transferred = 0
            return not busy

    def close_connection(self) -> None:
        with self._rounds:
            self._connection.close()

    def close_index(self) -> None:
        """Close the index. Call this only after every connection to the database is closed."""
        os.close(self._index)

    def _round(self) -> int:
        """Run a passive round; return how many frames are left to transfer."""
        _, frames, transferred = self._connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
        self._transferred_bytes += max(0, transferred - self._transferred) * PAGE_BYTES
        self._transferred = transferred
        left: int = frames - transferred
        return left

    def _read_index(self) -> tuple[int, bytes]:
        frames, salt = _INDEX.unpack(os.pread(self._index, _INDEX.size, _INDEX_OFFSET))
        return frames, salt
