"""The lease: who owns the store, and until when.

An owner has its name in the row and changes `beat` at a third of the lease. Who wants the store must have seen the beat
unchanged for the whole lease that the row states, by its own clock; no clocks are compared. Then it raises the fence in the
same transaction, so that the former owner stores nothing more, whatever it believes. The owner counts from before it sent
its last renewal, and stops answering a while before the others may begin. A late renewal of an unchanged row is good.

The row of commits may be held by a former owner that was stopped in mid-transaction: its session is ended, by the process
id that it noted, if it is still the one of that owner.
"""

from __future__ import annotations

import logging
import os
import platform
import threading
import time
from collections.abc import Mapping
from typing import NamedTuple

import psycopg

from restante.errors import DataLocked, NotOwner, RestanteError
from restante.stores.postgresql.failures import translated
from restante.stores.postgresql.schema import Session
from restante.stores.postgresql.sessions import connect

LEASE_SECONDS = 3.0
_BEATS_A_LEASE = 3
_MARGIN = 0.2
"""The share of a lease by which its owner stops earlier."""
_LOOKS_A_LEASE = 20
_TRIES_MAX = 3

_LOOK = "SELECT owner, beat, node, pid, lease_milliseconds FROM restante_leases WHERE shard = 0"
_TAKE = """
UPDATE restante_leases SET owner = %s, node = %s, pid = pg_backend_pid(), beat = beat + 1, lease_milliseconds = %s
WHERE shard = 0 AND owner IS NOT DISTINCT FROM %s AND beat = %s
"""
_LOCK_SHARD = "SELECT fence, commits FROM restante_shards WHERE shard = 0 FOR UPDATE"
_RAISE = "UPDATE restante_shards SET fence = fence + 1 WHERE shard = 0 RETURNING fence, commits"
_BEAT = "UPDATE restante_leases SET beat = beat + 1 WHERE shard = 0 AND owner = %s"
_NOTE = "UPDATE restante_leases SET pid = pg_backend_pid() WHERE shard = 0 AND owner = %s"
_LET_GO = "UPDATE restante_leases SET owner = NULL, beat = beat + 1 WHERE shard = 0 AND owner = %s"
_END = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid = %s AND application_name = %s"

TAKEN_OVER = "Another hub has taken over the store; this one stores nothing more. Ask the other."

_log = logging.getLogger(__name__)


class Owned(NamedTuple):
    """What the shard's row says when it is taken."""

    fence: int
    commits: int


class _Seen(NamedTuple):
    owner: str | None
    beat: int
    node: str
    pid: int
    lease_milliseconds: int


def session_name(owner: str) -> str:
    """Under which an owner's sessions are listed by the server."""
    return f"restante {owner}"


def take(session: Session, owner: str, seconds: float) -> Owned:
    """Become the owner: at once if there is none, after its lease if it is silent; else `DataLocked`."""
    seen = _look(session)
    if seen.owner is not None:
        _watch(session, seen)
    for _ in range(_TRIES_MAX):
        try:
            return _take(session, seen, owner, seconds)
        except psycopg.errors.LockNotAvailable:
            end_session(session, seen.pid, seen.owner or "")
    raise DataLocked(f"The former owner of the store ({seen.node}) holds it in a transaction. Try again.")


def end_session(session: Session, pid: int, owner: str) -> None:
    """End an owner's session, and no other that has got its process id since."""
    session.execute(_END, (pid, session_name(owner)))


def note_session(session: Session, owner: str) -> bool:
    """Note the session that commits from now on; False if another has the lease."""
    return session.execute(_NOTE, (owner,)).rowcount > 0


def _look(session: Session) -> _Seen:
    row = session.execute(_LOOK).fetchone()
    assert row is not None, "the row is made with the table"
    return _Seen(*row)


def _watch(session: Session, seen: _Seen) -> None:
    """Return when the beat was unchanged for a whole lease."""
    lease = seen.lease_milliseconds / 1_000
    until = _now() + lease
    while _now() < until:
        time.sleep(lease / _LOOKS_A_LEASE)
        if _look(session)[:2] != seen[:2]:
            raise DataLocked(f"Another hub ({seen.node}) has this store open. One hub at a time owns a store.")


def _take(session: Session, seen: _Seen, owner: str, seconds: float) -> Owned:
    with session.transaction():
        lease = round(seconds * 1_000)
        taken = session.execute(_TAKE, (owner, _node(), lease, seen.owner, seen.beat))
        if taken.rowcount == 0:
            raise DataLocked("Another hub has opened this store at the same moment. One hub at a time owns a store.")
        session.execute(_LOCK_SHARD)
        row = session.execute(_RAISE).fetchone()
    assert row is not None, "the row is made with the table"
    return Owned(*row)


class Lease:
    """Keeps the lease of an owner, in a thread and a session of its own: a long commit holds up no renewal."""

    def __init__(self, terms: Mapping[str, str], owner: str, seconds: float) -> None:
        self._terms = terms
        self._owner = owner
        self._seconds = seconds
        self._until = _now() + seconds * (1 - _MARGIN)
        self._session: Session | None = None
        self._ending = threading.Event()
        self.lost: str | None = None
        """Why it is over for good."""
        self._thread = threading.Thread(target=self._run, name="restante-lease", daemon=True)
        self._thread.start()

    def require(self) -> None:
        """Raise `NotOwner` if another may own the store by now."""
        if self.lost is not None:
            raise NotOwner(self.lost)
        if _now() >= self._until:
            raise NotOwner("This hub could not renew its lease of the store in time. It goes on when it can.")

    def close(self) -> None:
        """Let go of the lease, so that the next owner need not wait."""
        self._ending.set()
        self._thread.join()
        try:
            self._connected().execute(_LET_GO, (self._owner,))
        except (psycopg.Error, RestanteError) as error:
            _log.warning("The lease of the store ends by itself. %s", error)
        self._disconnect()

    def _run(self) -> None:
        told = False
        while self.lost is None and not self._ending.wait(self._seconds / _BEATS_A_LEASE):
            try:
                self._beat()
                told = False
            except (psycopg.Error, RestanteError) as error:
                if not told:
                    _log.warning("The lease of the store cannot be renewed; trying again. %s", _said(error))
                told = True
                self._disconnect()

    def _beat(self) -> None:
        sent = _now()
        if self._connected().execute(_BEAT, (self._owner,)).rowcount == 0:
            self.lost = TAKEN_OVER
            _log.critical(self.lost)
            return
        self._until = sent + self._seconds * (1 - _MARGIN)

    def _connected(self) -> Session:
        if self._session is None:
            self._session = connect(self._terms, session_name(self._owner))
        return self._session

    def _disconnect(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            session.close()


def _said(error: Exception) -> str:
    return str(translated(error)) if isinstance(error, psycopg.Error) else str(error)


def _node() -> str:
    return f"{platform.node()}, process {os.getpid()}"


def _now() -> float:
    """Seconds of a clock that also runs while the machine is suspended, where there is one."""
    clock = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
    return time.clock_gettime(clock)
