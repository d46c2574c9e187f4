"""One row per message in SQLite, with the indexes people make and unique ids.

It is given every advantage: the tuples to insert are made outside the timing, checkpoints too (but for sustained
publishing), a large page cache, no secure delete, no record of what was peeked, the order of a peek straight from an
index, and of two ways to do a thing the faster.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa

from bench.mail import KIND, ORIGIN
from bench.peer import Opener, Operation, Peer, Taken
from bench.sqlite import checkpoint, connect

KIB = 1024
BUNDLE_MESSAGES_MAX = 51_200
CHECKPOINT_PAGES = 1_000

SCHEMA = """
CREATE TABLE message (
    sequence_number INTEGER PRIMARY KEY,
    id BLOB NOT NULL,
    recipient TEXT NOT NULL,
    origin TEXT NOT NULL,
    kind TEXT NOT NULL,
    document_type TEXT NOT NULL,
    weight INTEGER NOT NULL,
    bundleable INTEGER NOT NULL,
    data BLOB NOT NULL,
    media_type TEXT NOT NULL,
    collected INTEGER NOT NULL DEFAULT 0,
    UNIQUE (recipient, id)
);
CREATE INDEX cabinet ON message (recipient, origin, kind, sequence_number);
"""
COLUMNS = ("id", "recipient", "origin", "kind", "document_type", "weight", "bundleable", "data", "media_type")
INSERT = f"INSERT OR IGNORE INTO message ({', '.join(COLUMNS)}) VALUES ({', '.join('?' * len(COLUMNS))})"
CABINET = "recipient = ? AND origin = ? AND kind = ? AND NOT collected"
PEEK = f"""
SELECT sequence_number, {", ".join(COLUMNS)} FROM message
WHERE {CABINET} ORDER BY sequence_number LIMIT {BUNDLE_MESSAGES_MAX}
"""
UPDATE = f"UPDATE message SET collected = 1 WHERE {CABINET} AND sequence_number <= ?"
DELETE = f"DELETE FROM message WHERE {CABINET} AND sequence_number <= ?"

Row = tuple[Any, ...]


class Rows(Peer):
    def __init__(
        self, folder: Path, *, page_kib: int = 16, checkpoint_pages: int = 0, arrow: bool = False, collect: str = UPDATE
    ) -> None:
        self._path = folder / "rows.sqlite"
        self._connect = partial(connect, self._path, page_bytes=page_kib * KIB, checkpoint_pages=checkpoint_pages)
        self._arrow = arrow
        self._collect = collect
        self._connection = self._connect()
        self._connection.executescript(SCHEMA)

    def prepare(self, table: pa.Table) -> list[Row]:
        columns = [table.column(name).to_pylist() for name in ("id", "recipient", "origin", "kind", "data")]
        return [
            (id_, recipient, origin, kind, kind, 1, 1, data, "application/octet-stream")
            for id_, recipient, origin, kind, data in zip(*columns, strict=True)
        ]

    def publish(self, prepared: Sequence[Row]) -> None:
        self._connection.execute("BEGIN IMMEDIATE")
        self._connection.executemany(INSERT, prepared)
        self._connection.execute("COMMIT")

    def singles(self, table: pa.Table, *, waiting: int, warm_up: int) -> float:
        """The best case: all those that wait in one transaction, and nobody to be woken."""
        rows = self.prepare(table)
        groups = [rows[first : first + waiting] for first in range(0, len(rows), waiting)]
        self._publish_each(groups[:warm_up])
        start = time.perf_counter()
        self._publish_each(groups[warm_up:])
        return time.perf_counter() - start

    def _publish_each(self, groups: Sequence[Sequence[Row]]) -> None:
        for group in groups:
            self.publish(group)

    def peek(self, recipient: str) -> Taken:
        """The cabinet is known: looking for it first would read every row of the recipient."""
        cabinet = (recipient, ORIGIN, KIND)
        rows = self._connection.execute(PEEK, cabinet).fetchall()
        handle = (*cabinet, rows[-1][0])
        return Taken(_as_columns(rows).num_rows if self._arrow else len(rows), handle)

    def dequeue(self, taken: Taken) -> None:
        self._connection.execute(self._collect, taken.handle)

    def settle(self) -> None:
        checkpoint(self._connection)

    def reopen(self) -> None:
        self._connection.close()
        self._connection = self._connect()

    def close(self) -> None:
        self._connection.close()


def variants(operation: Operation) -> Mapping[str, Opener]:
    match operation:
        case Operation.PUBLISH | Operation.SINGLES:
            return {f"rows, {kib} KiB pages": partial(Rows, page_kib=kib) for kib in (4, 16)}
        case Operation.PEEK:
            return {"rows": Rows, "rows, as Arrow": partial(Rows, arrow=True)}
        case Operation.DEQUEUE:
            return {"rows, updated": Rows, "rows, deleted": partial(Rows, collect=DELETE)}
        case Operation.SUSTAINED:
            return {"rows": partial(Rows, checkpoint_pages=CHECKPOINT_PAGES)}
        case _:
            return {}


def _as_columns(rows: Sequence[Row]) -> pa.Table:
    return pa.table(dict(zip(("sequence_number", *COLUMNS), map(list, zip(*rows, strict=True)), strict=True)))
