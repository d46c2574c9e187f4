"""PostgreSQL: a batch is a row for each pending item. A call deletes its rows, commits, and asks whether one is left.

Rows are found by the primary key in its order, so that two calls with the same items never wait for one another in a
circle.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from bench.batch_sql import Parameters, SqlTally, SqlWorker, array
from bench.tally import Worker

TABLE = "batch_item"


class ItemWorker(SqlWorker):
    table = TABLE
    acknowledge = (f"DELETE FROM {TABLE} WHERE batch = %(batch)s AND item = ANY(%(items)s::bigint[])",)
    left = f"SELECT EXISTS (SELECT FROM {TABLE} WHERE batch = %(batch)s)"

    def encode(self, indices: Sequence[int]) -> Parameters:
        return {"batch": self.batch, "items": array(sorted(indices))}

    def newly(self, rows: int) -> int:
        return rows


class PostgresqlItems(SqlTally):
    name = "postgresql, a row an item"
    table = TABLE
    schema = f"CREATE TABLE {TABLE} (batch bigint, item bigint, PRIMARY KEY (batch, item))"
    fill = f"INSERT INTO {TABLE} SELECT %(batch)s, item FROM generate_series(0, %(items)s - 1) AS item"
    count_pending = f"SELECT count(*) FROM {TABLE} WHERE batch = %(batch)s"

    def worker(self) -> Callable[[], Worker[Any]]:
        return partial(ItemWorker, self._address)


TALLIES = (PostgresqlItems,)
