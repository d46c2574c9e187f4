"""Connections that `job.once` knows: of sqlite3, of psycopg 3 and of SQLAlchemy, each waiting or asynchronous.

Drivers are looked for among the modules that are loaded: a program with a connection has loaded its driver.
"""

from __future__ import annotations

import re
import sqlite3
import sys
from collections.abc import Awaitable, Callable, Generator
from typing import Any

from restante.errors import InvalidRequest
from restante.work.once.dialogue import OnceDialogue, OnceKey, Statement, once_dialogue
from restante.work.signals import Again

_SHARE = " FOR SHARE"
_BUSY = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
_NAMED = re.compile(r":(\w+)")

Execute = Callable[[Statement], int | None]
ExecuteAsync = Callable[[Statement], Awaitable[int | None]]


class OnceAwaited:
    """The answer of an asynchronous connection: it has to be awaited."""

    def __init__(self, answer: Callable[[], Awaitable[bool]]) -> None:
        self._answer = answer

    def __await__(self) -> Generator[Any, None, bool]:
        return self._answer().__await__()

    def __bool__(self) -> bool:
        raise TypeError("The connection is asynchronous: `if not await job.once(connection): return`.")


def once(key: OnceKey, connection: Any) -> bool | OnceAwaited:  # noqa: ANN401 - of any driver
    """Whether the action is to be done in the transaction of this connection; of an asynchronous one, to be awaited."""
    if isinstance(connection, sqlite3.Connection):
        return _once_sqlite(key, connection)
    found = _once_psycopg(key, connection)
    if found is None:
        found = _once_sqlalchemy(key, connection)
    if found is None:
        known = "sqlite3, psycopg 3 (Connection, AsyncConnection) and SQLAlchemy (Connection, Session, and their async twins)"
        raise InvalidRequest(f"job.once takes a connection of {known}, not {type(connection).__qualname__}.")
    return found


def _asked(dialogue: OnceDialogue, execute: Execute) -> bool:
    reply: int | None = None
    try:
        statement = next(dialogue)
        while True:
            reply = execute(statement)
            statement = dialogue.send(reply)
    except StopIteration as done:
        answer: bool = done.value
        return answer


async def _asked_async(dialogue: OnceDialogue, execute: ExecuteAsync) -> bool:
    reply: int | None = None
    try:
        statement = next(dialogue)
        while True:
            reply = await execute(statement)
            statement = dialogue.send(reply)
    except StopIteration as done:
        answer: bool = done.value
        return answer


def _no_transaction() -> InvalidRequest:
    return InvalidRequest("The connection commits each statement by itself: begin a transaction before job.once.")


# sqlite3


def _once_sqlite(key: OnceKey, connection: sqlite3.Connection) -> bool:
    def execute(statement: Statement) -> int | None:
        cursor = connection.execute(statement.text, key.values)
        if not statement.reads:
            return cursor.rowcount
        row = cursor.fetchone()
        return None if row is None else int(row[0])

    commits_each = connection.isolation_level is None or getattr(connection, "autocommit", None) is True
    if commits_each and not connection.in_transaction:
        raise _no_transaction()
    try:
        return _asked(once_dialogue(key, share=""), execute)
    except sqlite3.OperationalError as error:
        if getattr(error, "sqlite_errorcode", 0) & 0xFF in _BUSY:
            raise Again("The database is busy.") from error
        raise


# psycopg


def _once_psycopg(key: OnceKey, connection: Any) -> bool | OnceAwaited | None:  # noqa: ANN401
    psycopg = sys.modules.get("psycopg")
    if psycopg is None:
        return None
    if isinstance(connection, psycopg.Connection):
        _check_psycopg(connection)
        return _asked(once_dialogue(key, share=_SHARE), lambda one: _psycopg_reply(_psycopg(key, connection, one), one))
    if isinstance(connection, psycopg.AsyncConnection):
        _check_psycopg(connection)
        return OnceAwaited(lambda: _once_psycopg_async(key, connection))
    return None


def _check_psycopg(connection: Any) -> None:  # noqa: ANN401
    if connection.autocommit and not connection.info.transaction_status:
        raise _no_transaction()


def _psycopg(key: OnceKey, connection: Any, statement: Statement) -> Any:  # noqa: ANN401
    return connection.execute(_NAMED.sub(r"%(\1)s", statement.text), key.values)


def _psycopg_reply(cursor: Any, statement: Statement) -> int | None:  # noqa: ANN401
    if not statement.reads:
        return int(cursor.rowcount)
    return _first(cursor.fetchone())


async def _once_psycopg_async(key: OnceKey, connection: Any) -> bool:  # noqa: ANN401
    async def execute(statement: Statement) -> int | None:
        cursor = await _psycopg(key, connection, statement)
        return _first(await cursor.fetchone()) if statement.reads else int(cursor.rowcount)

    return await _asked_async(once_dialogue(key, share=_SHARE), execute)


def _first(row: Any) -> int | None:  # noqa: ANN401 - by the connection's row factory
    if row is None:
        return None
    return int(next(iter(row.values())) if hasattr(row, "values") else next(iter(row)))


# SQLAlchemy


def _once_sqlalchemy(key: OnceKey, connection: Any) -> bool | OnceAwaited | None:  # noqa: ANN401
    """The asynchronous connections of SQLAlchemy carry out a waiting function over their own."""
    sqlalchemy = sys.modules.get("sqlalchemy")
    if sqlalchemy is None:
        return None
    orm, asyncio = sys.modules.get("sqlalchemy.orm"), sys.modules.get("sqlalchemy.ext.asyncio")
    if isinstance(connection, sqlalchemy.Connection) or (orm is not None and isinstance(connection, orm.Session)):
        return _once_sqlalchemy_sync(key, connection)
    if asyncio is not None and isinstance(connection, (asyncio.AsyncConnection, asyncio.AsyncSession)):
        return OnceAwaited(lambda: connection.run_sync(lambda own: _once_sqlalchemy_sync(key, own)))
    return None


def _once_sqlalchemy_sync(key: OnceKey, given: Any) -> bool:  # noqa: ANN401
    from sqlalchemy import text  # noqa: PLC0415 - it may be missing

    connection = given if hasattr(given, "dialect") else given.connection()
    dialect = connection.dialect.name
    if dialect not in ("sqlite", "postgresql"):
        raise InvalidRequest(f"job.once knows the dialects sqlite and postgresql of SQLAlchemy, not {dialect}.")
    if not connection.in_transaction():
        connection.begin()
    own = connection.connection.dbapi_connection
    if connection.dialect.detect_autocommit_setting(own) and not getattr(own, "in_transaction", False):
        raise _no_transaction()

    def execute(statement: Statement) -> int | None:
        result = connection.execute(text(statement.text), dict(key.values))
        return _first(result.fetchone()) if statement.reads else int(result.rowcount)

    return _asked(once_dialogue(key, share=_SHARE if dialect == "postgresql" else ""), execute)
