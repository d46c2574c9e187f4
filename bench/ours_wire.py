"""The hub over the wire, as one of the servers that are measured: `restante serve` and the clients that programs use."""

from __future__ import annotations

import re
import signal
import sys
from collections.abc import Mapping, Sequence
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from urllib.request import urlopen

import pyarrow as pa

import restante
from bench.drivers.restante import Asynchronous, OneByOneBare, OneByOneClient, Pipelined, bare_connections
from bench.peer import Operation, Peer, Taken
from bench.server import LOCALHOST, Process, Server, Way

METRICS_SECONDS_MAX = 30
ADDRESS = re.compile(r"http://127\.0\.0\.1:(\d+)")


class RestanteClient(Peer):
    """The client for programs that wait."""

    def __init__(self, url: str) -> None:
        self.hub = restante.connect(url)

    def prepare(self, table: pa.Table) -> pa.Table:
        return table

    def publish(self, prepared: pa.Table) -> None:
        receipt = self.hub.producer.send(prepared)
        assert receipt.accepted == prepared.num_rows, receipt

    def peek(self, recipient: str) -> Taken:
        bundle = self.hub.recipient(recipient).peek()
        assert bundle is not None
        return Taken(bundle.raw_table.num_rows, bundle)

    def dequeue(self, taken: Taken) -> None:
        assert taken.handle.dequeue().messages == taken.messages

    def settle(self) -> None:
        self.hub.file()

    def close(self) -> None:
        self.hub.close()


class Restante(Server):
    name = "restante"

    @classmethod
    def missing(cls) -> str | None:
        return None if find_spec("uvicorn") else "not installed: restante[server]"

    def __init__(self, folder: Path, *, store: str | None = None, options: Sequence[str] = ()) -> None:
        self.data = folder / "data"
        command: list[str | Path] = [
            sys.executable,
            "-m",
            "restante",
            "serve",
            "--host",
            LOCALHOST,
            "--port",
            "0",
            "--data",
            self.data,
            *(() if store is None else ("--store", store)),
            *options,
        ]
        self._process = Process(command, folder)
        with self._process.stopped_on_failure():
            self.port = self._process.wait_until(self._port)
        self.url = f"http://{LOCALHOST}:{self.port}"

    def facts(self) -> dict[str, str]:
        return {"version": f"Restante {restante.__version__}", "settings": "defaults (every commit synced)"}

    def ways(self, operation: Operation) -> Mapping[str, Way]:
        match operation:
            case Operation.PUBLISH | Operation.PEEK | Operation.DEQUEUE | Operation.BULK:
                return {"restante": partial(RestanteClient, self.url)}
            case Operation.ONE:
                return {
                    "restante": partial(OneByOneClient, self.url),
                    "restante, bare socket": partial(OneByOneBare, self.port),
                }
            case Operation.CONNECTIONS:
                return {
                    "restante": partial(Asynchronous, self.url),
                    "restante, bare sockets": partial(bare_connections, self.port),
                }
            case Operation.PIPELINE:
                return {"restante": partial(Pipelined, self.url)}
            case _:
                return {}

    def metric(self, name: str) -> int:
        """A number that it counts."""
        with urlopen(f"{self.url}/metrics", timeout=METRICS_SECONDS_MAX) as answer:
            lines = answer.read().decode().splitlines()
        return int(float(next(line.split()[1] for line in lines if line.startswith(f"{name} "))))

    def close(self) -> None:
        self._process.stop(signal.SIGTERM)

    def _port(self) -> int | None:
        """The port of the hub, which says where it is when it is ready."""
        found = ADDRESS.search(self._process.output())
        return int(found[1]) if found else None
