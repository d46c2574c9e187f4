"""Counting down in PostgreSQL: what the ways to do it share.

A call is a transaction of its own, and the question whether anything is left comes after its commit. Asked before it, two
last calls would each see the items that the other has not committed yet, and neither would learn of the completion. All
statements of a call go in one round trip, by the driver's pipeline.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count
from typing import Any, ClassVar

from bench.peers.postgresql import Postgresql
from bench.server import driver
from bench.tally import Answer, Tally, Worker

Parameters = dict[str, Any]
"""The batch among them, as `batch`."""
COMPLETION = (
    "CREATE TABLE IF NOT EXISTS completed_batch (table_name text, batch bigint, PRIMARY KEY (table_name, batch))"
)
CLAIM = "INSERT INTO completed_batch VALUES (%s, %s) ON CONFLICT DO NOTHING"


class SqlWorker(Worker[Parameters]):
    """The usual client. Subclasses state the statements of a call; the last of them is the one that changes something."""

    table: ClassVar[str]
    acknowledge: ClassVar[Sequence[str]]
    left: ClassVar[str]

    def __init__(self, address: str) -> None:
        super().__init__()
        self._connection = driver("psycopg").connect(address, autocommit=True)
        self.batch = 0

    def begin(self, batch: int) -> None:
        self.batch = batch

    def newly(self, rows: int) -> int | None:
        """How many items were pending until then, by the number of rows that were changed."""
        raise NotImplementedError

    def send(self, requests: Sequence[Parameters]) -> Sequence[Answer]:
        execute = self._connection.execute
        found = []
        with self._connection.pipeline():
            for parameters in requests:
                execute("BEGIN", prepare=True)
                changed = [execute(each, parameters, prepare=True) for each in self.acknowledge]
                execute("COMMIT", prepare=True)
                found.append((changed[-1], execute(self.left, parameters, prepare=True)))
        return [Answer(self.newly(changed.rowcount), not left.fetchone()[0]) for changed, left in found]

    def claim(self) -> bool:
        return bool(self._connection.execute(CLAIM, (self.table, self.batch)).rowcount == 1)

    def close(self) -> None:
        self._connection.close()


class SqlTally(Tally):
    """A table that is filled for each batch, and emptied after it."""

    server = Postgresql.name
    table: ClassVar[str]
    schema: ClassVar[str]
    fill: ClassVar[str]
    count_pending: ClassVar[str]

    def __init__(self, server: Postgresql) -> None:
        self._address = server.address
        self._connection = driver("psycopg").connect(server.address, autocommit=True)
        for statement in (self.schema, COMPLETION):
            self._connection.execute(statement)
        self._numbers = count(1)

    def open(self, items: int) -> int:
        batch = next(self._numbers)
        self._connection.execute(self.fill, {"batch": batch, "items": items})
        self._connection.execute(f"VACUUM (ANALYZE) {self.table}")
        self._connection.execute("CHECKPOINT")
        assert self.pending(batch) == items
        return batch

    def pending(self, batch: int) -> int:
        row: Any = self._connection.execute(self.count_pending, {"batch": batch}).fetchone()
        return int(row[0])

    def drop(self, batch: int) -> None:
        self._connection.execute(f"TRUNCATE {self.table}")
        self._connection.execute("DELETE FROM completed_batch WHERE batch = %s", (batch,))

    def close(self) -> None:
        self._connection.close()


def array(values: Sequence[int]) -> str:
    """As PostgreSQL writes it: made before the timing, which saves the driver the work."""
    return "{" + ",".join(map(str, values)) + "}"
