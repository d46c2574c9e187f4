"""`PostgresqlMoment`: a read-only view of a store as of one moment, usable beside the hub that owns the store.

It is one read-only transaction (`REPEATABLE READ`), so the doctor and a copy see all partitions as of the same commit.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any, LiteralString

import psycopg

from restante.errors import InvalidRequest
from restante.ports.store import StoreSize
from restante.stores.postgresql.failures import translated
from restante.stores.postgresql.reads import StoreReads
from restante.stores.postgresql.schema import Session, layout_of, require_layout
from restante.stores.postgresql.sessions import connect, terms_of

_NAME = "restante, reading"
_FIRSTS = "SELECT first_partition FROM restante_shards WHERE first_partition IS NOT NULL ORDER BY first_partition"
BEGIN_READING = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"


class PostgresqlMoment(StoreReads):
    """A `StoreReader`. Open it with `open`, and close it."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._one = threading.Lock()

    @classmethod
    def open(cls, address: str, *, password: str | None = None) -> PostgresqlMoment:
        session = connect(terms_of(address, password), _NAME)
        try:
            found = layout_of(session)
            if found is None:
                raise InvalidRequest(
                    "The database has no tables of Restante. Run `restante migrate --store` first.", tables="none"
                )
            require_layout(found)
            session.execute("SET idle_in_transaction_session_timeout = 0")
            session.execute(BEGIN_READING)
            layout_of(session)  # The first query fixes the moment.
        except psycopg.Error as error:
            session.close()
            raise translated(error) from error
        except BaseException:
            session.close()
            raise
        return cls(session)

    def shard_firsts(self) -> list[int]:
        """The first partitions of the shards, in order."""
        return [first for (first,) in self._rows(_FIRSTS)]

    def size(self) -> StoreSize:
        return StoreSize(stored_bytes=self._stored_bytes(), written_bytes=0)

    def close(self) -> None:
        self._session.close()

    def _rows(self, query: LiteralString, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        try:
            with self._one, self._session.cursor(binary=True) as cursor:
                return cursor.execute(query, values).fetchall()
        except psycopg.Error as error:
            raise translated(error) from error
