"""PostgreSQL: all messages in a table with a sequence as its key, read in chunks.

Either a query a chunk, from the last key on, or a cursor at the server that lives through all of them; each as text and in
the binary form. The table has no other index, it is vacuumed, and it lies in the server's cache. A program gets tuples. COPY
gives octets that nobody has decoded, which is less than the work asks for.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import ClassVar

import pyarrow as pa

from bench.peers.postgresql import COLUMNS, COPY_ROW_BYTES_LEAST, Postgresql, copy_body, ids_as_bytes
from bench.server import driver
from bench.stream import CHUNKS, Read, Stream

TABLE = """
DROP TABLE IF EXISTS stream;
CREATE TABLE stream (
    sequence_number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    id uuid NOT NULL,
    recipient text NOT NULL,
    origin text NOT NULL,
    kind text NOT NULL,
    data bytea NOT NULL
)
"""
FILL = f"COPY stream ({', '.join(COLUMNS)}) FROM STDIN (FORMAT binary)"
ALL = f"SELECT sequence_number, {', '.join(COLUMNS)} FROM stream"
CHUNK = f"{ALL} WHERE sequence_number > %s ORDER BY sequence_number LIMIT %s"
COPY = "postgresql, COPY undecoded"


class PostgresqlStream(Stream):
    server = Postgresql.name
    lesser: ClassVar[frozenset[str]] = frozenset({COPY})

    def __init__(self, server: Postgresql) -> None:
        self._connection = driver("psycopg").connect(server.address)
        ids_as_bytes(self._connection)

    def fill(self, parcels: Sequence[pa.Table]) -> None:
        self._connection.execute(TABLE)
        self._connection.commit()
        for parcel in parcels:
            with self._connection.cursor() as cursor, cursor.copy(FILL) as copy:
                copy.write(copy_body(parcel))
            self._connection.commit()
        self._connection.autocommit = True
        self._connection.execute("VACUUM (ANALYZE) stream")
        self._connection.execute("CHECKPOINT")
        self._connection.autocommit = False

    def ways(self) -> Mapping[str, Read]:
        found: dict[str, Read] = {}
        for how, read in (("by key", self._by_key), ("cursor", self._by_cursor)):
            for form, binary in (("", False), (", binary", True)):
                for size in CHUNKS:
                    found[f"postgresql, {how}{form}, chunks of {size:,}"] = partial(read, size, binary=binary)
        return {**found, COPY: self._copied}

    def close(self) -> None:
        self._connection.close()

    def _by_key(self, size: int, *, binary: bool) -> int:
        found, last = 0, 0
        with self._connection.cursor(binary=binary) as cursor:
            while rows := cursor.execute(CHUNK, (last, size), prepare=True).fetchall():
                found += len(rows)
                last = rows[-1][0]
        self._connection.rollback()
        return found

    def _by_cursor(self, size: int, *, binary: bool) -> int:
        found = 0
        with self._connection.cursor("stream", binary=binary) as cursor:
            cursor.execute(f"{ALL} ORDER BY sequence_number")
            while rows := cursor.fetchmany(size):
                found += len(rows)
        self._connection.rollback()
        return found

    def _copied(self) -> int:
        with self._connection.cursor() as cursor:
            with cursor.copy(f"COPY ({ALL} ORDER BY sequence_number) TO STDOUT (FORMAT binary)") as copy:
                octets = sum(map(len, copy))
            found = int(cursor.rowcount)
        self._connection.rollback()
        assert octets > found * COPY_ROW_BYTES_LEAST
        return found


STREAMS = [PostgresqlStream]
