"""The engine's edge: what PostgreSQL and its driver report, as errors of the hub."""

from __future__ import annotations

import psycopg

from restante.errors import RestanteError, StorageFull, Unavailable

_FULL = frozenset({"53100", "53200"})
_READ_ONLY = frozenset({"25006"})
_NO_TABLES = frozenset({"42P01", "3F000"})
_NO_RIGHT = frozenset({"42501"})


def translated(error: psycopg.Error) -> RestanteError:
    """The hub's error for an error of the driver; raise it `from` the original. It names no machine."""
    if error.sqlstate in _FULL:
        return StorageFull(
            f"PostgreSQL has no room ({reason_of(error)}); nothing was changed. Make room and try again."
        )
    if error.sqlstate in _READ_ONLY:
        return Unavailable("PostgreSQL is read-only here, perhaps a standby. Give the address of the primary server.")
    if error.sqlstate in _NO_TABLES:
        return Unavailable("The database has no tables of Restante. Run `restante migrate --store` with its address.")
    if error.sqlstate in _NO_RIGHT:
        return Unavailable(f"PostgreSQL refuses it ({reason_of(error)}). Grant this user the right to it.")
    if error.sqlstate is None:
        return Unavailable("The connection to PostgreSQL is lost.")
    return Unavailable(f"PostgreSQL failed: {reason_of(error)} ({error.sqlstate}).")


def not_connected(error: psycopg.Error) -> Unavailable:
    """The error for opening a store, with the driver's words, which name the machine that was asked."""
    return Unavailable(f"PostgreSQL cannot be reached: {' '.join(str(error).split())}")


def reason_of(error: psycopg.Error) -> str:
    return error.diag.message_primary or type(error).__name__
