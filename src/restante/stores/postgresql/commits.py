"""Commits to PostgreSQL. Each is one transaction, sent completely before waiting for any answer, unless it is large.

Its first statement raises the commit number of each changed shard from n to n + 1 if the row has this owner's fence and n.
Otherwise it sets the number to null, which the table refuses. So the transaction fails, while an UPDATE that matched no row
would not.

If the session dies before the answer, the outcome is unknown, and nothing is committed until `resolve` has found it out. It
waits for a transaction that the server may still be running for the dead session. If the number is n + 1 under our fence, the
commit is stored. If it is n, the server may not have read the transaction yet, so `resolve` raises the number to n + 2: the
transaction then fails, whenever the server reads it, and the commit is not stored.
"""

from __future__ import annotations

import logging
import threading
from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import wait
from typing import NamedTuple, NoReturn

import psycopg

from restante.errors import OutcomeUnknown, StoreConflict, Unavailable
from restante.model.storage.changes import Changes
from restante.stores.postgresql.failures import translated
from restante.stores.postgresql.leases import TAKEN_OVER, OwnedShard, cut_shards, end_session, note_session
from restante.stores.postgresql.parts import DROP, PUT_PART, BlobPartRow, PartsBeside, halves, parts_of, size_of
from restante.stores.postgresql.schema import Session

_MOVE = """
UPDATE restante_shards SET commits = CASE WHEN fence = %b AND commits = %b THEN commits + 1 END WHERE shard = %b
"""
_VOID = "UPDATE restante_shards SET commits = commits + 2 WHERE shard = %b AND fence = %b AND commits = %b"
_LOOK = "SELECT shard, fence, commits FROM restante_shards WHERE shard = ANY(%b) ORDER BY shard FOR UPDATE"
_PUT = """
INSERT INTO restante_entries SELECT * FROM unnest(%b::integer[], %b::smallint[], %b::bytea[], %b::bytea[])
ON CONFLICT (partition, space, key) DO UPDATE SET value = excluded.value
"""
_DELETE = """
DELETE FROM restante_entries AS entry USING unnest(%b::integer[], %b::smallint[], %b::bytea[]) AS gone (partition, space, key)
WHERE entry.partition = gone.partition AND entry.space = gone.space AND entry.key = gone.key
"""
_RAISE = "UPDATE restante_shards SET fence = %b WHERE shard = ANY(%b)"
_FENCES = """
INSERT INTO restante_fences SELECT partition, %b FROM unnest(%b::integer[]) AS partition
ON CONFLICT (partition) DO UPDATE SET fence = excluded.fence
"""

_log = logging.getLogger(__name__)


class ShardStanding(NamedTuple):
    """The fence and the commit number in a shard's row while we own the shard."""

    fence: int
    commits: int


class FencedCommits:
    """The shards of an owner, and the session in which it commits. Used by one thread at a time."""

    def __init__(
        self,
        session: Session,
        reconnect: Callable[[], Session],
        owner: str,
        owned: Sequence[OwnedShard],
        fences: dict[int, int],
        beside: PartsBeside,
    ) -> None:
        self._session: Session | None = session
        self._pid = session.info.backend_pid
        self._reconnect = reconnect
        self._owner = owner
        self._shards = [one.shard for one in owned]
        self._firsts = [one.first for one in owned]
        self._standing = {one.shard: ShardStanding(one.fence, one.commits) for one in owned}
        self._fences = fences
        self._beside = beside
        self._lock = threading.Lock()
        self._doubtful: list[int] = []
        """The shards of a commit whose outcome is unknown."""
        self._closed = False
        self.stopped: str | None = None
        """Why nothing is committed any more; None while commits are possible."""
        self.written_bytes = 0

    def fence_of(self, partition: int) -> tuple[int, int]:
        """The shard of a partition, and its fence."""
        shard = self._shard_of(partition)
        return shard, self._standing[shard].fence

    @property
    def shards(self) -> Sequence[int]:
        """The owned shards."""
        return self._shards

    @property
    def in_doubt(self) -> bool:
        """Whether the outcome of the last commit is unknown."""
        return bool(self._doubtful)

    def commit(self, changes: Changes) -> None:
        with self._lock:
            self._require_running()
            self.require_fences(changes.fences)
            if changes.empty():
                return
            session, shards = self._connected(), self._changed(changes)
            try:
                moved = [(*self._standing[one], one) for one in shards]
                self.written_bytes += _carry_out(session, changes, moved, self._beside)
            except psycopg.Error as error:
                self._fail(session, error, shards)
            self._move_on(shards)

    def resolve(self) -> bool:
        """Whether the commit that ended in `OutcomeUnknown` is stored; `Unavailable` if that is not known yet."""
        with self._lock:
            assert self._doubtful, "there is a commit in doubt"
            first, session = self._doubtful[0], self._connected()
            fence, commits = self._standing[first]
            found = self._look(session, void=(first, fence, commits))
            stored = found[first] == (fence, commits + 1)
            if stored:
                self._move_on(self._doubtful)
            elif found[first] == (fence, commits + 2):
                self._standing[first] = found[first]
            self._require_same(found)
            self._doubtful = []
            return stored

    def raise_fences(self, partitions: range) -> int:
        with self._lock:
            self._require_running()
            session = self._connected()
            fence = 1 + max(standing.fence for standing in self._standing.values())
            shards = sorted({self._shard_of(partition) for partition in partitions})
            try:
                with session.transaction():
                    self._require_same(_standing(session, self._shards))
                    session.execute(_RAISE, (fence, shards))
                    session.execute(_FENCES, (fence, list(partitions)))
            except psycopg.Error as error:
                # The outcome does not matter: the next opening raises the fences further.
                self._stop_if_dead(session)
                raise translated(error) from error
            for shard in shards:
                self._standing[shard] = self._standing[shard]._replace(fence=fence)
            self._fences.update(dict.fromkeys(partitions, fence))
            return fence

    def cut(self, firsts: Sequence[int], changes: Changes) -> None:
        """Set new borders of the shards and change rows, in one transaction. Their fences are above all old ones.

        Nothing can be committed here afterwards.
        """
        with self._lock:
            self._require_running()
            session, fence = self._connected(), 1 + max(standing.fence for standing in self._standing.values())
            try:
                with session.transaction():
                    self._require_same(_standing(session, self._shards))
                    _change_rows(session, changes)
                    cut_shards(session, firsts, fence)
            except psycopg.Error as error:
                self._stop_if_dead(session)
                raise translated(error) from error
            self.stopped = "The shards have other borders now. Open the hub again."

    def require_fences(self, fences: Mapping[int, int]) -> None:
        for partition, fence in fences.items():
            if self._fences.get(partition) != fence:
                raise StoreConflict(
                    f"Another owner has taken partition {partition}; nothing was changed. Open the hub again.",
                    partition=partition,
                )

    def close(self) -> None:
        with self._lock:
            self._closed = True
            self._disconnect()
            self._beside.close()

    def _shard_of(self, partition: int) -> int:
        return self._shards[bisect_right(self._firsts, partition) - 1]

    def _changed(self, changes: Changes) -> list[int]:
        """The shards that a commit changes."""
        if len(self._shards) == 1:
            return self._shards
        partitions = {entry.partition for entry in changes.entries} | {blob.partition for blob in changes.dropped}
        partitions |= {blob.partition for blob, _ in changes.blobs} | set(changes.fences)
        return sorted({self._shard_of(partition) for partition in partitions})

    def _move_on(self, shards: Iterable[int]) -> None:
        for shard in shards:
            fence, commits = self._standing[shard]
            self._standing[shard] = ShardStanding(fence, commits + 1)

    def _require_running(self) -> None:
        if self._closed:
            raise Unavailable("The store is closed.")
        if self.stopped is not None:
            raise StoreConflict(self.stopped)
        if self._doubtful:
            raise Unavailable("The outcome of the last commit is not known yet. Nothing is committed before it is.")

    def _connected(self) -> Session:
        """The session that commits. After a loss it is a new one, which is noted in the rows of the leases."""
        if self._closed:
            raise Unavailable("The store is closed.")
        if self._session is None or self._session.closed:
            self._session = self._reconnect()
            try:
                noted = note_session(self._session, self._owner, self._shards)
            except psycopg.Error as error:
                self._disconnect()
                raise translated(error) from error
            if not noted:
                self._disconnect()
                self._stop(TAKEN_OVER)
                raise StoreConflict(TAKEN_OVER)
        return self._session

    def _disconnect(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            session.close()

    def _fail(self, session: Session, error: psycopg.Error, shards: list[int]) -> NoReturn:
        if not _lives(session):
            self._disconnect()
            self._doubtful = shards
            raise OutcomeUnknown("The connection to PostgreSQL was lost in a commit: it may be stored.") from error
        if isinstance(error, psycopg.errors.UniqueViolation):
            raise AssertionError("a blob is written once, under a number never used before") from error
        if isinstance(error, psycopg.errors.NotNullViolation):
            self._require_same(self._look(session))
        raise translated(error) from error

    def _look(self, session: Session, *, void: tuple[int, int, int] | None = None) -> dict[int, ShardStanding]:
        """The shards' rows, read when no transaction holds them.

        `void`: a shard with the fence and the number that the commit in doubt moves on from; it can move on no more after this.
        """
        try:
            if void is not None:
                session.execute(_VOID, void)
            found = _standing(session, self._shards)
        except psycopg.errors.LockNotAvailable as error:
            end_session(session, self._pid, self._owner)
            raise Unavailable("PostgreSQL still carries out the last commit. Try again.") from error
        except psycopg.Error as error:
            self._disconnect()
            raise translated(error) from error
        self._pid = session.info.backend_pid
        return found

    def _require_same(self, found: Mapping[int, ShardStanding]) -> None:
        for shard, standing in self._standing.items():
            if found[shard].fence != standing.fence:
                self._stop(TAKEN_OVER)
            elif found[shard].commits < standing.commits:
                self._stop(
                    "PostgreSQL has lost commits that it had acknowledged: an older copy took over, or was restored."
                )
            elif found[shard].commits > standing.commits:
                self._stop("Somebody else has committed under the fence of this hub. Open it again.")
            else:
                continue
            raise StoreConflict(self.stopped or "")

    def _stop(self, reason: str) -> None:
        self.stopped = reason
        _log.critical(reason)

    def _stop_if_dead(self, session: Session) -> None:
        if _dead(session):
            self._disconnect()
            self._stop("The connection to PostgreSQL was lost while the store was taken. Open the hub again.")


def _carry_out(session: Session, changes: Changes, moved: Sequence[tuple[int, int, int]], beside: PartsBeside) -> int:
    """Carry out one transaction, in one round trip unless it is large; return the bytes that it stored."""
    rows = [row for blob, parts in changes.blobs for row in parts_of(blob, parts)]
    own, others = halves(rows)
    if others:
        put_bytes = _carry_out_beside(session, changes, moved, own, beside, others)
    else:
        with session.pipeline():
            put_bytes = _change(session, changes, moved, own)
            session.execute("COMMIT")
    return put_bytes + size_of(rows)


def _carry_out_beside(
    session: Session,
    changes: Changes,
    moved: Sequence[tuple[int, int, int]],
    rows: Sequence[BlobPartRow],
    beside: PartsBeside,
    others: Sequence[BlobPartRow],
) -> int:
    """Commit after `beside` has stored the `others`. These are removed only if the commit certainly failed."""
    written = beside.begin(others, [(fence, shard) for fence, _, shard in moved])
    try:
        with session.pipeline():
            put_bytes = _change(session, changes, moved, rows)
        written.result()
    except BaseException:
        wait((written,))
        if _lives(session):
            beside.remove(others)
        raise
    try:
        session.execute("COMMIT")
    except psycopg.Error:
        if _lives(session):
            beside.remove(others)
        raise
    return put_bytes


def _change(
    session: Session, changes: Changes, moved: Sequence[tuple[int, int, int]], rows: Sequence[BlobPartRow]
) -> int:
    """Send a transaction without its COMMIT into a pipeline; return the bytes of the rows that are put."""
    session.execute("BEGIN")
    for standing in moved:
        session.execute(_MOVE, standing)
    put_bytes = _change_rows(session, changes)
    if changes.dropped:
        session.execute(DROP, _columns(changes.dropped))
    for row in rows:
        session.execute(PUT_PART, row)
    return put_bytes


def _change_rows(session: Session, changes: Changes) -> int:
    """Put and delete rows; return the bytes that are put."""
    puts = [(*entry, value) for entry, value in changes.entries.items() if value is not None]
    gone = [entry for entry, value in changes.entries.items() if value is None]
    if puts:
        session.execute(_PUT, _columns(puts))
    if gone:
        session.execute(_DELETE, _columns(gone))
    return sum(len(key) + len(value) for *_, key, value in puts)


def _standing(session: Session, shards: Sequence[int]) -> dict[int, ShardStanding]:
    """Read and lock the rows of shards."""
    rows = session.execute(_LOOK, (list(shards),)).fetchall()
    return {shard: ShardStanding(fence, commits) for shard, fence, commits in rows}


def _columns(rows: Sequence[tuple[object, ...]]) -> list[list[object]]:
    return [list(column) for column in zip(*rows, strict=True)]


def _dead(session: Session) -> bool:
    return session.closed or session.broken or session.pgconn.status != psycopg.pq.ConnStatus.OK


def _lives(session: Session) -> bool:
    """Roll back, and return whether the session answers. After its server ends it, a session may seem alive for a moment."""
    try:
        session.rollback()
        session.execute("SELECT 1")
    except psycopg.Error:
        return False
    return not _dead(session)
