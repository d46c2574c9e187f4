"""The same bytes as one SQLite blob, inserted in its own transaction: as little as SQLite can do with them.

Nothing is checked and nothing can be found again. Checkpoints are left out of the timing.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path

import pyarrow as pa

from bench.peer import Opener, Operation, Peer
from bench.sqlite import checkpoint, connect

KIB = 1024


class Blob(Peer):
    def __init__(self, folder: Path, *, page_bytes: int) -> None:
        self._connection = connect(folder / "blob.sqlite", page_bytes=page_bytes)
        self._connection.execute("CREATE TABLE blob (number INTEGER PRIMARY KEY, bytes BLOB NOT NULL)")

    def prepare(self, table: pa.Table) -> bytes:
        """Ids, recipients and data, one column after the other, without offsets."""
        columns = [table.column(name).combine_chunks() for name in ("id", "recipient", "data")]
        values = [column.buffers()[-1] for column in columns]
        return b"".join(buffer.to_pybytes() for buffer in values if buffer is not None)

    def publish(self, prepared: bytes) -> None:
        self._connection.execute("INSERT INTO blob (bytes) VALUES (?)", (prepared,))

    def settle(self) -> None:
        checkpoint(self._connection)

    def close(self) -> None:
        self._connection.close()


def variants(operation: Operation) -> Mapping[str, Opener]:
    if operation is not Operation.PUBLISH:
        return {}
    return {f"blob, {kib} KiB pages": partial(Blob, page_bytes=kib * KIB) for kib in (16, 64)}
