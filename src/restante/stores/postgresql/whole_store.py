"""`PostgresqlStore`: all shards of a database as one store, for a single hub and for maintenance commands."""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Sequence
from typing import Self

from restante.errors import DataLocked
from restante.model.storage.changes import Changes
from restante.ports.clock import running_seconds
from restante.ports.membership import NodeRow, StoreSurvey
from restante.stores.postgresql.lease import LEASE_SECONDS
from restante.stores.postgresql.node import PostgresqlNode
from restante.stores.postgresql.store import ShardStore

_LOOKS_A_LEASE = 20


class PostgresqlStore(ShardStore):
    """A `Store` of a whole database. Open it with `open`, and close it."""

    @classmethod
    def open(cls, address: str, *, password: str | None = None, lease_seconds: float = LEASE_SECONDS) -> Self:
        """Take the whole database, and make its tables if needed. Raises `DataLocked` while another hub owns a shard."""
        node = PostgresqlNode.open(address, _name(), password=password, lease_seconds=lease_seconds)
        try:
            _await_silence(node)
            shards = [row.shard for row in node.survey().shards]
            store = node.take_together(shards, cls, node.close)
            if store is None:
                raise DataLocked(
                    "Another hub has opened this store at the same moment. One hub at a time owns a store."
                )
        except BaseException:
            node.close()
            raise
        return store

    @property
    def shard_count(self) -> int:
        return len(self._commits.shards)

    def cut(self, firsts: Sequence[int], changes: Changes | None = None) -> None:
        """Set new shards that begin with these partitions, and change some rows. No row moves. Close the store afterwards."""
        self._commits.cut(firsts, changes or Changes())


def _await_silence(node: PostgresqlNode) -> None:
    """Return when no shard has an owner: at once, or after the lease. Raises `DataLocked` if an owner shows that it is alive."""
    first, since = _owners(node.survey()), running_seconds()
    while owners := _owners(node.survey()):
        for row in owners.values():
            if first.get(row.session) != row:
                raise DataLocked(f"Another hub ({row.name}) has this store open. One hub at a time owns a store.")
            if running_seconds() - since >= row.lease_milliseconds / 1_000:
                node.expire(row)
        time.sleep(min(row.lease_milliseconds for row in owners.values()) / 1_000 / _LOOKS_A_LEASE)


def _owners(found: StoreSurvey) -> dict[str, NodeRow]:
    owners = {row.owner for row in found.shards}
    return {row.session: row for row in found.nodes if row.session in owners}


def _name() -> str:
    return f"{platform.node()}, process {os.getpid()}"
