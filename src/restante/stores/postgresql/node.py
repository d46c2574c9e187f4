"""`PostgresqlNode`: a node's membership in a database, with its lease, its sessions, and the shards that it takes."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import TypeVar

import psycopg

from restante.errors import RestanteError
from restante.ports.membership import NodeRow, StoreSurvey
from restante.stores.postgresql import leases
from restante.stores.postgresql.commits import FencedCommits
from restante.stores.postgresql.failures import translated
from restante.stores.postgresql.lease import LEASE_SECONDS, Lease
from restante.stores.postgresql.leases import session_name
from restante.stores.postgresql.parts import PartsBeside
from restante.stores.postgresql.schema import Session, make_tables
from restante.stores.postgresql.sessions import ReadSessions, connect, connect_again, terms_of
from restante.stores.postgresql.store import ShardStore
from restante.stores.postgresql.store_moment import BEGIN_READING, PostgresqlMoment

S = TypeVar("S", bound=ShardStore)

_FENCES = "SELECT partition, fence FROM restante_fences"


class PostgresqlNode:
    """A `NodeMembership` in a database. Open it with `open`, and close it after its stores."""

    def __init__(self, terms: dict[str, str], name: str, lease_seconds: float, about: bytes) -> None:
        self.session = uuid.uuid4().hex
        self._terms = terms
        self._reconnect = partial(connect_again, terms, session_name(self.session))
        self._reads = ReadSessions(terms, session_name(self.session))
        self._asking = threading.Lock()
        self._asked: Session | None = None
        self._spare: Session | None = None
        """A session that is ready for the next shard."""
        self._lease = Lease(terms, self.session, name, lease_seconds, about)

    @classmethod
    def open(
        cls,
        address: str,
        name: str,
        *,
        password: str | None = None,
        lease_seconds: float = LEASE_SECONDS,
        about: bytes = b"",
    ) -> PostgresqlNode:
        """Join the nodes of a database, and make its tables if needed. The node owns nothing yet."""
        terms = terms_of(address, password)
        session = connect(terms, f"restante {name}"[:60])
        try:
            make_tables(session)
            return cls(terms, name, lease_seconds, about)
        except psycopg.Error as error:
            raise translated(error) from error
        finally:
            session.close()

    @property
    def lost(self) -> str | None:
        return self._lease.lost

    def survey(self) -> StoreSurvey:
        with self._session() as session:
            return leases.survey(session)

    def expire(self, node: NodeRow) -> bool:
        with self._session() as session:
            return leases.expire(session, node)

    def take(self, shard: int) -> ShardStore | None:
        return self.take_together([shard], ShardStore, partial(self.give_back, [shard]))

    @contextmanager
    def look(self) -> Iterator[PostgresqlMoment]:
        """The database now, in a session that the next shard then commits in, because connecting may take longer than all else."""
        made = self._reconnect()
        try:
            made.execute(BEGIN_READING)
            yield PostgresqlMoment(made)
            made.execute("COMMIT")
        except psycopg.Error as error:
            made.close()
            raise translated(error) from error
        except BaseException:
            made.close()
            raise
        with self._asking:
            before, self._spare = self._spare, made
        if before is not None:
            before.close()

    def let_go(self, shard: int) -> None:
        self.give_back([shard])

    def appoint(self, shard: int, heir: str | None) -> bool:
        with self._session() as session:
            return leases.appoint(session, self.session, shard, heir)

    def tell(self, about: bytes) -> None:
        self._lease.about = about

    def lease_seconds(self) -> float:
        return self._lease.seconds_left()

    def require(self) -> None:
        self._lease.require()

    def close(self) -> None:
        self._reads.close()
        self._lease.close()
        with self._asking:
            self._forget()
            if self._spare is not None:
                self._spare.close()

    def take_together(self, shards: Sequence[int], kind: type[S], let_go: Callable[[], None]) -> S | None:
        """Take several shards as one store; None if one of them has another owner or heir."""
        session = self._ready() or self._reconnect()
        with ExitStack() as undo:
            undo.callback(session.close)
            undo.callback(self.give_back, shards)
            try:
                owned = [leases.take_shard(session, shard, self.session) for shard in shards]
                fences: dict[int, int] = dict(session.execute(_FENCES).fetchall())
            except psycopg.Error as error:
                raise translated(error) from error
            mine = [one for one in owned if one is not None]
            if len(mine) < len(owned):
                return None
            undo.pop_all()
        beside = PartsBeside(self._reads)
        commits = FencedCommits(session, self._reconnect, self.session, mine, fences, beside)
        return kind(self._reads, commits, self._lease, let_go)

    def _ready(self) -> Session | None:
        """The session that is ready for the next shard, if it still works."""
        with self._asking:
            spare, self._spare = self._spare, None
        if spare is not None:
            try:
                spare.execute("SELECT 1")
            except psycopg.Error:
                spare.close()
                return None
        return spare

    def give_back(self, shards: Sequence[int]) -> None:
        """Give up our shards, so that the next owner need not wait. If the server cannot be reached, they end with the lease."""
        try:
            with self._session() as session:
                leases.let_go(session, self.session, shards)
        except RestanteError:
            return

    @contextmanager
    def _session(self) -> Iterator[Session]:
        """The session for reading nodes and shards. After a failure it is replaced."""
        with self._asking:
            if self._asked is None or self._asked.closed:
                self._asked = self._reconnect()
            try:
                yield self._asked
            except psycopg.Error as error:
                self._forget()
                raise translated(error) from error

    def _forget(self) -> None:
        session, self._asked = self._asked, None
        if session is not None:
            session.close()
