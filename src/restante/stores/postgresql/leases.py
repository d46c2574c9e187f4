"""The ownership of shards: the rows of leases, which are changed only under conditions.

Taking a shard raises its fence in the same transaction, so that the former owner can store nothing more, whatever it believes.
A former owner that was stopped in mid-transaction may still lock the shard's row. Then its session is ended, by the process id
that it noted, if that is still a session of that owner.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import psycopg

from restante.errors import DataLocked
from restante.ports.membership import NodeRow, ShardRow, StoreSurvey
from restante.stores.postgresql.schema import Session

_TRIES_MAX = 3

_HOLDER = "SELECT holder, pid FROM restante_leases WHERE shard = %s AND owner IS NULL AND (heir IS NULL OR heir = %s)"
_TAKE = """
UPDATE restante_leases SET owner = %s, heir = NULL, holder = %s, pid = pg_backend_pid()
WHERE shard = %s AND owner IS NULL AND (heir IS NULL OR heir = %s)
"""
_LIVING = "SELECT 1 FROM restante_nodes WHERE session = %s FOR KEY SHARE"
_LOCK_SHARD = "SELECT fence FROM restante_shards WHERE shard = %s FOR UPDATE"
_RAISE = (
    "UPDATE restante_shards SET fence = fence + 1 WHERE shard = %s RETURNING shard, first_partition, fence, commits"
)
_NOTE = "UPDATE restante_leases SET holder = owner, pid = pg_backend_pid() WHERE owner = %s AND shard = ANY(%s)"
_LET_GO = "UPDATE restante_leases SET owner = NULL, pid = 0 WHERE owner = %s AND shard = ANY(%s)"
_APPOINT = "UPDATE restante_leases SET heir = %s WHERE shard = %s AND owner = %s"
_END = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid = %s AND application_name = %s"
_NODES = "SELECT session, name, beat, lease_milliseconds, about FROM restante_nodes ORDER BY name, session"
_SHARDS = """
SELECT shard, first_partition, owner, heir, fence FROM restante_shards JOIN restante_leases USING (shard)
WHERE first_partition IS NOT NULL ORDER BY first_partition
"""
_EPOCH = "SELECT max(epoch) FROM restante_layout"
_EXPIRE = "DELETE FROM restante_nodes WHERE session = %s AND beat = %s"
_FREE = "UPDATE restante_leases SET owner = NULL WHERE owner = %s"
_NO_HEIR = "UPDATE restante_leases SET heir = NULL WHERE heir = %s"

_GONE = "UPDATE restante_shards SET first_partition = NULL, fence = %s"
_CUT = """
INSERT INTO restante_shards (shard, first_partition, fence, commits)
SELECT number - 1, first, %s, 0 FROM unnest(%s::integer[]) WITH ORDINALITY AS cut (first, number)
ON CONFLICT (shard) DO UPDATE SET first_partition = excluded.first_partition
"""
_LEASES = "INSERT INTO restante_leases (shard) SELECT shard FROM restante_shards ON CONFLICT (shard) DO NOTHING"
_NEW_EPOCH = "UPDATE restante_layout SET epoch = epoch + 1"

TAKEN_OVER = "Another hub has taken over the store; this one stores nothing more. Ask the other."


class OwnedShard(NamedTuple):
    """The row of a shard that was just taken."""

    shard: int
    first: int
    fence: int
    commits: int


def session_name(owner: str) -> str:
    """The name under which the server lists an owner's sessions."""
    return f"restante {owner}"


def survey(session: Session) -> StoreSurvey:
    """All nodes and shards. An owner that is not among the nodes has just come or gone."""
    with session.pipeline():
        epoch, nodes, shards = (session.execute(query) for query in (_EPOCH, _NODES, _SHARDS))
    row = epoch.fetchone()
    assert row is not None, "the row is made with the table"
    return StoreSurvey(int(row[0]), tuple(map(NodeRow._make, nodes)), tuple(map(ShardRow._make, shards)))


def expire(session: Session, node: NodeRow) -> bool:
    """End a node's lease if its beat is still this one; return whether it was. The node can renew nothing after that."""
    with session.transaction():
        if session.execute(_EXPIRE, (node.session, node.beat)).rowcount == 0:
            return False
        forget(session, node.session)
    return True


def forget(session: Session, owner: str) -> None:
    """Free the shards that a session owned or was to inherit, in the transaction that ends it."""
    session.execute(_FREE, (owner,))
    session.execute(_NO_HEIR, (owner,))


def take_shard(session: Session, shard: int, owner: str) -> OwnedShard | None:
    """Take a shard; None if it has another owner or heir."""
    for _ in range(_TRIES_MAX):
        held = session.execute(_HOLDER, (shard, owner)).fetchone()
        if held is None:
            return None
        if held[1]:  # The former owner did not give the shard up, and a transaction of its session may still hold it.
            end_session(session, held[1], held[0])
        try:
            return _take(session, shard, owner)
        except psycopg.errors.LockNotAvailable:
            continue
    raise DataLocked(f"The former owner of shard {shard} holds it in a transaction. Try again.")


def _take(session: Session, shard: int, owner: str) -> OwnedShard | None:
    with session.transaction():
        # The lock keeps others from ending this session meanwhile, and does not delay renewals.
        living = session.execute(_LIVING, (owner,)).fetchone() is not None
        if not living or session.execute(_TAKE, (owner, owner, shard, owner)).rowcount == 0:
            return None
        session.execute(_LOCK_SHARD, (shard,))
        row = session.execute(_RAISE, (shard,)).fetchone()
    assert row is not None, "a shard's row is never removed"
    return OwnedShard(*row)


def end_session(session: Session, pid: int, owner: str) -> None:
    """End an owner's session, but not another session that has the same process id by now."""
    session.execute(_END, (pid, session_name(owner)))


def note_session(session: Session, owner: str, shards: Sequence[int]) -> bool:
    """Note the session that commits from now on; return False if another owner has one of these shards."""
    return session.execute(_NOTE, (owner, list(shards))).rowcount == len(shards)


def let_go(session: Session, owner: str, shards: Sequence[int]) -> None:
    """Give up shards, so that the next owner need not wait."""
    session.execute(_LET_GO, (owner, list(shards)))


def appoint(session: Session, owner: str, shard: int, heir: str | None) -> bool:
    """Set or clear the heir of a shard; return False if that fails.

    The heir must be alive, because nobody could take a shard with a dead heir. The lock keeps its session from being ended.
    """
    with session.transaction():
        if heir is not None and session.execute(_LIVING, (heir,)).fetchone() is None:
            return False
        return session.execute(_APPOINT, (heir, shard, owner)).rowcount > 0


def cut_shards(session: Session, firsts: Sequence[int], fence: int) -> None:
    """Set new shards that begin with these partitions, in a transaction of the owner of all. Rows of old shards stay, empty."""
    session.execute(_GONE, (fence,))
    session.execute(_CUT, (fence, list(firsts)))
    session.execute(_LEASES)
    session.execute(_NEW_EPOCH)
