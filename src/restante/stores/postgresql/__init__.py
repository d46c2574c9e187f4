"""The PostgreSQL engine: one database, small rows and blobs in tables, each shard with one owner at a time. Needs `psycopg`."""

from __future__ import annotations

from restante.stores.postgresql.node import PostgresqlNode
from restante.stores.postgresql.schema import LAYOUT
from restante.stores.postgresql.store_moment import PostgresqlMoment
from restante.stores.postgresql.whole_store import PostgresqlStore

__all__ = ["LAYOUT", "PostgresqlMoment", "PostgresqlNode", "PostgresqlStore"]
