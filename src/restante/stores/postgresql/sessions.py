"""Sessions with the server: opening and checking them, and the pool that reads borrow from."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, LiteralString

import psycopg
from psycopg.conninfo import conninfo_to_dict

from restante.errors import InvalidRequest, Unavailable
from restante.stores.postgresql.failures import not_connected, translated
from restante.stores.postgresql.schema import OLDEST_SERVER, Session

READ_SESSIONS_MAX = 16
LOCK_SECONDS = 2
_TERMS: Mapping[str, str] = {
    "connect_timeout": "5",
    "keepalives_idle": "5",
    "keepalives_interval": "2",
    "keepalives_count": "3",
    "tcp_user_timeout": "10000",
    "target_session_attrs": "read-write",
}
"""The default terms of a connection. A server that vanishes silently is noticed after about ten seconds."""
_BEGIN = f"""
SELECT set_config('lock_timeout', '{LOCK_SECONDS}s', false),
       set_config('idle_in_transaction_session_timeout', '60s', false),
       set_config('synchronous_commit', CASE WHEN current_setting('synchronous_commit') IN ('off', 'local') THEN 'on'
           ELSE current_setting('synchronous_commit') END, false),
       current_setting('transaction_read_only')
"""


def terms_of(address: str, password: str | None = None) -> dict[str, str]:
    """The connection terms for the driver. Everything in the address is passed on, including TLS options."""
    try:
        said = {name: str(value) for name, value in conninfo_to_dict(address).items() if value is not None}
    except psycopg.ProgrammingError as error:
        raise InvalidRequest(f"The address of the store makes no sense: {' '.join(str(error).split())}") from error
    if "password" in said:
        raise InvalidRequest(
            "The address of the store has a password in it, which others can see. "
            "Put it into PGPASSWORD, a password file (PGPASSFILE), or the file that the setting store_password_file names."
        )
    return {**_TERMS, **said, **({} if password is None else {"password": password})}


def connect_again(terms: Mapping[str, str], name: str) -> Session:
    """Connect again. Its errors may reach other machines, so they name none."""
    try:
        return connect(terms, name)
    except Unavailable as error:
        raise Unavailable("PostgreSQL cannot be reached, or does not take connections now. Try again.") from error


def connect(terms: Mapping[str, str], name: str) -> Session:
    """Open a session with a primary server whose commits are durable when answered."""
    try:
        session: Session = psycopg.connect(**terms, application_name=name, autocommit=True)  # type: ignore[arg-type]  # all texts
    except psycopg.Error as error:
        raise not_connected(error) from error
    try:
        _check(session)
    except BaseException:
        session.close()
        raise
    # Prepare each statement at its first use, because commits repeat the same few statements.
    session.prepare_threshold = 0
    return session


def _check(session: Session) -> None:
    version = session.info.server_version
    if version < OLDEST_SERVER * 10_000:
        raise Unavailable(
            f"PostgreSQL {OLDEST_SERVER} or newer is needed; this server has {session.info.parameter_status('server_version')}."
        )
    try:
        row = session.execute(_BEGIN).fetchone()
    except psycopg.Error as error:
        raise translated(error) from error
    assert row is not None
    if row[-1] == "on":
        raise Unavailable("PostgreSQL is read-only here, perhaps a standby. Give the address of the primary server.")


class ReadSessions:
    """A pool of sessions for reads. It may be used from any thread."""

    def __init__(self, terms: Mapping[str, str], name: str) -> None:
        self._terms = terms
        self._name = name
        self._idle: list[Session] = []
        self._lock = threading.Lock()
        self._room = threading.BoundedSemaphore(READ_SESSIONS_MAX)
        self.closed = False

    def rows(self, query: LiteralString, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """The rows of a query. If the session is found dead, the query is repeated once in another, which is safe for reads."""
        try:
            return self._rows(query, values)
        except psycopg.OperationalError as error:
            if error.sqlstate is not None and not error.sqlstate.startswith("57P"):
                raise translated(error) from error
            self.forget()
        except psycopg.Error as error:
            raise translated(error) from error
        try:
            return self._rows(query, values)
        except psycopg.Error as error:
            raise translated(error) from error

    @contextmanager
    def borrowed(self) -> Iterator[Session]:
        with self._room:
            session = self._take()
            try:
                yield session
            finally:
                self._give_back(session)

    def close(self) -> None:
        self.closed = True
        self.forget()

    def _rows(self, query: LiteralString, values: Sequence[Any]) -> list[tuple[Any, ...]]:
        with self.borrowed() as session, session.cursor(binary=True) as cursor:
            return cursor.execute(query, values).fetchall()

    def _take(self) -> Session:
        with self._lock:
            if self.closed:
                raise Unavailable("The store is closed.")
            if self._idle:
                return self._idle.pop()
        return connect_again(self._terms, self._name)

    def _give_back(self, session: Session) -> None:
        idle = not session.closed and session.info.transaction_status == psycopg.pq.TransactionStatus.IDLE
        with self._lock:
            if idle and not self.closed:
                self._idle.append(session)
                return
        session.close()

    def forget(self) -> None:
        """Close the idle sessions, because the server or they are gone."""
        with self._lock:
            idle, self._idle = self._idle, []
        for session in idle:
            session.close()
