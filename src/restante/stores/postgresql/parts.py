"""The parts of blobs. Half of the parts of a large commit are written beside it, in a separate session and thread.

The server uses one process for each session, so two sessions write blobs faster. The parts beside are committed before the
commit that names them, with the same check of the fences as a blob that is put ahead, so that a new owner of the shard waits
for their end. The commit is made only when they are stored. If it fails they are removed; if that fails too, no row names
them, and the next owner drops them. A blob is listed by its first part, which is in the commit, so a blob in both halves is
listed only when all of it is there.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from typing import TypeAlias

import psycopg

from restante.errors import RestanteError, StoreConflict
from restante.limits import MIB
from restante.model.storage.changes import BlobKey, Buffer
from restante.stores.postgresql.leases import TAKEN_OVER
from restante.stores.postgresql.sessions import ReadSessions

PART_BYTES = MIB
"""The size of the parts of a blob. By measurement, parts of 8 MiB take four times as long, and rows of 8 KiB gain nothing."""
_BESIDE_BYTES_MIN = 4 * MIB
"""Writing fewer bytes takes less time than starting another session."""

PUT_PART = "INSERT INTO restante_blobs VALUES (%b, %b, %b, %b, %b)"
_PUT_PART_AGAIN = f"""
{PUT_PART} ON CONFLICT (partition, number, part) DO UPDATE SET size = excluded.size, data = excluded.data
"""
"""Overwrites, because the same commit may have been tried before and failed."""
_HELD = "SELECT 1 / CASE WHEN fence = %b THEN 1 ELSE 0 END FROM restante_shards WHERE shard = %b FOR KEY SHARE"
"""Fails if another owner has the shard. So everything can be sent at once, and a hub paused in the middle holds up nobody."""
DROP = """
DELETE FROM restante_blobs AS blob USING unnest(%b::integer[], %b::bigint[]) AS gone (partition, number)
WHERE blob.partition = gone.partition AND blob.number = gone.number
"""

BlobPartRow: TypeAlias = tuple[int, int, int, int, memoryview]
"""Partition, number of the blob, number of the part, size of the whole blob, content."""
ShardFence: TypeAlias = tuple[int, int]
"""The fence under which parts are written, and the shard."""


def parts_of(blob: BlobKey, parts: Sequence[Buffer]) -> list[BlobPartRow]:
    """The rows of a blob. An empty blob has one row too."""
    content = memoryview(b"".join(parts))
    cuts = range(0, max(len(content), 1), PART_BYTES)
    return [(*blob, number, len(content), content[start : start + PART_BYTES]) for number, start in enumerate(cuts)]


def size_of(rows: Sequence[BlobPartRow]) -> int:
    return sum(len(row[-1]) for row in rows)


def halves(rows: Sequence[BlobPartRow]) -> tuple[Sequence[BlobPartRow], Sequence[BlobPartRow]]:
    """The parts to write in a commit, and those to write beside it. The first part of a blob in both halves is in the commit."""
    if size_of(rows) < _BESIDE_BYTES_MIN:
        return rows, ()
    half, middle = size_of(rows) // 2, 0
    while size_of(rows[:middle]) < half:
        middle += 1
    return rows[:middle], rows[middle:]


class PartsBeside:
    """Writes parts in separate sessions. `close` it when nothing is written any more."""

    def __init__(self, sessions: ReadSessions) -> None:
        self._sessions = sessions
        self._threads: ThreadPoolExecutor | None = None

    def begin(self, rows: Sequence[BlobPartRow], fences: Sequence[ShardFence]) -> Future[None]:
        """Begin to write parts. The future ends when they are stored or have failed."""
        if self._threads is None:
            self._threads = ThreadPoolExecutor(1, "restante-parts")
        return self._threads.submit(self.write, rows, fences)

    def write(self, rows: Sequence[BlobPartRow], fences: Sequence[ShardFence]) -> None:
        """Write parts. The check of the fences makes a new owner wait for the end. Raises `StoreConflict` if there is one already."""
        try:
            with self._sessions.borrowed() as session, session.pipeline():
                session.execute("BEGIN")
                for row in rows:
                    session.execute(_PUT_PART_AGAIN, row)
                for fence in fences:
                    session.execute(_HELD, fence)
                session.execute("COMMIT")
        except psycopg.errors.DivisionByZero as error:
            raise StoreConflict(TAKEN_OVER) from error
        except psycopg.Error:
            self._sessions.forget()
            raise

    def remove(self, rows: Sequence[BlobPartRow]) -> None:
        """Remove the parts of a commit that is certainly not stored. If this fails, the next owner drops them."""
        blobs = sorted({row[:2] for row in rows})
        with suppress(psycopg.Error, RestanteError), self._sessions.borrowed() as session:
            session.execute(DROP, [list(column) for column in zip(*blobs, strict=True)])

    def close(self) -> None:
        if self._threads is not None:
            self._threads.shutdown()
