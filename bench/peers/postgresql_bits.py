"""PostgreSQL, as Carlyle has it: a batch is rows of 64 bits, one for each pending item.

A call clears its bits, commits, and asks whether a row has any left. Masks are made before the timing. The rows are
locked in their order first, as two calls would else wait for one another in a circle. Half of each page is left free, so
that a changed row stays on it. How many bits were set before is not told.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from bench.batch_sql import Parameters, SqlTally, SqlWorker, array
from bench.tally import Worker

TABLE = "batch_bits"
BITS = 64
LOCK = f"""
SELECT count(*) FROM (
    SELECT FROM {TABLE} WHERE batch = %(batch)s AND number = ANY(%(numbers)s::bigint[]) ORDER BY number FOR UPDATE
) AS locked
"""
CLEAR = f"""
UPDATE {TABLE} SET bits = bits & ~mask
FROM unnest(%(numbers)s::bigint[], %(masks)s::bigint[]) AS cleared (number, mask)
WHERE {TABLE}.batch = %(batch)s AND {TABLE}.number = cleared.number
"""


class BitsWorker(SqlWorker):
    table = TABLE
    acknowledge = (LOCK, CLEAR)
    left = f"SELECT EXISTS (SELECT FROM {TABLE} WHERE batch = %(batch)s AND bits <> 0)"

    def encode(self, indices: Sequence[int]) -> Parameters:
        numbers, places = np.divmod(np.sort(indices), BITS)
        rows, firsts = np.unique(numbers, return_index=True)
        masks = np.bitwise_or.reduceat(np.uint64(1) << places.astype(np.uint64), firsts)
        cleared = array(masks.view(np.int64).tolist())
        return {"batch": self.batch, "numbers": array(rows.tolist()), "masks": cleared}

    def newly(self, rows: int) -> None:
        del rows  # as many as there were groups, whatever their bits


class PostgresqlBits(SqlTally):
    name = "postgresql, 64-bit rows"
    table = TABLE
    schema = (
        f"CREATE TABLE {TABLE} (batch bigint, number bigint, bits bigint, PRIMARY KEY (batch, number))"
        " WITH (fillfactor = 50)"
    )
    fill = (
        f"INSERT INTO {TABLE} SELECT %(batch)s, number,"
        f" CASE WHEN number < %(items)s / {BITS} THEN -1 ELSE (1::bigint << (%(items)s %% {BITS})) - 1 END"
        f" FROM generate_series(0, %(items)s / {BITS}) AS number"
    )
    count_pending = f"SELECT coalesce(sum(bit_count(bits::bit({BITS}))), 0) FROM {TABLE} WHERE batch = %(batch)s"

    def worker(self) -> Callable[[], Worker[Any]]:
        return partial(BitsWorker, self._address)


TALLIES = (PostgresqlBits,)
