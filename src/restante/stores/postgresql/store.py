"""`ShardStore`: the store of one or several shards in PostgreSQL, for their owner by lease and fence.

Each open store commits through one session, in order; reads borrow other sessions; the lease is kept in yet another. All of
them are with the primary server.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, LiteralString

import psycopg

from restante.errors import NotOwner, Unavailable
from restante.model.storage.changes import BlobKey, Buffer, Changes, EntryKey, Space
from restante.ports.store import StoreSize
from restante.stores.postgresql.commits import FencedCommits
from restante.stores.postgresql.failures import translated
from restante.stores.postgresql.lease import Lease
from restante.stores.postgresql.parts import PartsBeside, parts_of, size_of
from restante.stores.postgresql.reads import StoreReads
from restante.stores.postgresql.recent_rows import ReadMark, RecentRow, RecentRows, prefix_of
from restante.stores.postgresql.sessions import ReadSessions


class ShardStore(StoreReads):
    """A `Store` of some shards of a database. `PostgresqlNode.take` opens one, `PostgresqlStore.open` one of all shards."""

    shared = True

    def __init__(
        self, sessions: ReadSessions, commits: FencedCommits, lease: Lease, let_go: Callable[[], None]
    ) -> None:
        self._sessions = sessions
        self._commits = commits
        self._beside = PartsBeside(sessions)
        self._lease = lease
        self._let_go = let_go
        self._recent = RecentRows()
        self._size = 0
        self._closed = False

    def get(self, partition: int, space: Space, key: bytes) -> bytes | None:
        entry = EntryKey(partition, space, key)
        return self.get_many([entry]).get(entry)

    def get_many(self, keys: Sequence[EntryKey]) -> dict[EntryKey, bytes]:
        """Ask the server only for values that are not known."""
        found = {entry: self._recent.row(entry) for entry in keys}
        unknown = [entry for entry, known in found.items() if isinstance(known, ReadMark)]
        known = {
            entry: known.value
            for entry, known in found.items()
            if isinstance(known, RecentRow) and known.value is not None
        }
        if unknown:
            # The marks differ if a commit came in between. The first mark is the safe one.
            mark = next(each for each in found.values() if isinstance(each, ReadMark))
            read = super().get_many(unknown)
            self._recent.learn(mark, [(entry, read.get(entry)) for entry in unknown])
            known.update(read)
        self.require_owned()
        return known

    def scan(
        self,
        partition: int,
        space: Space,
        *,
        start: bytes = b"",
        end: bytes | None = None,
        limit: int | None = None,
        reverse: bool = False,
    ) -> list[tuple[bytes, bytes]]:
        prefix = prefix_of(partition, space, start, end) if limit is None and not reverse else None
        if prefix is None:
            return super().scan(partition, space, start=start, end=end, limit=limit, reverse=reverse)
        known = self._recent.prefix(prefix)
        if isinstance(known, ReadMark):
            rows = super().scan(partition, space, start=start, end=end)
            self._recent.learn_prefix(known, prefix, dict(rows))
            return rows
        self.require_owned()
        return sorted(known.items())

    def put_blob(self, blob: BlobKey, parts: Sequence[Buffer], *, fence: int) -> None:
        """Write a blob in a separate session, which holds up no commit."""
        self._commits.require_fences({blob.partition: fence})
        rows, (shard, held_fence) = parts_of(blob, parts), self._commits.fence_of(blob.partition)
        try:
            self._beside.write(rows, [(held_fence, shard)])
        except psycopg.Error as error:
            raise translated(error) from error
        self._commits.written_bytes += size_of(rows)

    def put_blobs(self, blobs: Sequence[tuple[BlobKey, Sequence[Buffer]]], *, fence: int) -> None:
        for blob, parts in blobs:
            self.put_blob(blob, parts, fence=fence)

    def raise_fences(self, partition_count: int, *, first: int = 0) -> int:
        return self._commits.raise_fences(range(first, partition_count))

    def commit(self, changes: Changes) -> None:
        self._recent.begin(changes)
        try:
            self._commits.commit(changes)
        except BaseException:
            self._recent.forget(learning=not self._commits.in_doubt)
            raise
        self._recent.done(changes)

    def is_quick(self, byte_count: int) -> bool:  # noqa: ARG002 - a server that is far away never is
        return False

    def resolve(self) -> bool:
        stored = self._commits.resolve()
        self._recent.forget()
        return stored

    def require_owned(self) -> None:
        """Raise `NotOwner` unless the node's lease holds, and the node still has this shard."""
        if self._closed:
            raise NotOwner("This node no longer owns the shard. Ask its owner.")
        self._lease.require()

    def lease_seconds(self) -> float | None:
        return self._lease.seconds_left()

    def checkpoint(self) -> None:
        """Do nothing: the server tidies up by itself."""

    def scrub(self) -> bool:
        """Free deleted rows to be overwritten. When that happens is up to the server and its log."""
        try:
            with self._sessions.borrowed() as session:
                session.execute("VACUUM restante_entries, restante_blobs")
        except psycopg.Error as error:
            raise translated(error) from error
        return True

    def failure(self) -> str | None:
        return self._commits.stopped or self._lease.lost

    def size(self) -> StoreSize:
        """The size of the store; if the server cannot be reached, the last known size, because metrics are needed just then.

        The tables are shared by all shards, so only the owner of the first shard reports their size.
        """
        if 0 in self._commits.shards:
            with suppress(Unavailable):
                self._size = self._stored_bytes()
        return StoreSize(stored_bytes=self._size, written_bytes=self._commits.written_bytes)

    def close(self) -> None:
        """Wait for the commit under way, and close. Closing again does nothing."""
        if self._closed:
            return
        self._closed = True
        self._commits.close()
        self._let_go()

    def _rows(self, query: LiteralString, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """The rows of a query. Raises if the store is no longer owned, so that the hub never relies on rows of a new owner."""
        if self._closed:
            raise Unavailable("The store is closed.")
        rows = self._sessions.rows(query, values)
        self.require_owned()
        return rows
