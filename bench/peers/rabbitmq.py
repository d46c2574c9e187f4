"""RabbitMQ, where it is installed: a durable queue for each recipient, filled and emptied in transactions.

There is no wheel of it, so it takes part only where `rabbitmq-server` and the driver `pika` are found. Messages are
persistent, and a transaction is answered when it is on the disk. One acknowledgement stands for all before it.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from collections.abc import Mapping
from functools import partial
from importlib.util import find_spec
from pathlib import Path

import pyarrow as pa

from bench.peer import Operation, Peer, Taken
from bench.server import LOCALHOST, Process, Server, Way, driver, free_port, listening

BINARY = "rabbitmq-server"
DRIVER = "pika"
PERSISTENT = 2
BUNDLE_MESSAGES_MAX = 51_200


class RabbitmqClient(Peer):
    def __init__(self, port: int) -> None:
        pika = driver(DRIVER)
        self._connection = pika.BlockingConnection(pika.ConnectionParameters(host=LOCALHOST, port=port, heartbeat=0))
        self._channel = self._connection.channel()
        self._channel.tx_select()
        self._persistent = pika.BasicProperties(delivery_mode=PERSISTENT)

    def prepare(self, table: pa.Table) -> list[tuple[str, bytes]]:
        """The messages, with a queue for each recipient."""
        for recipient in table.column("recipient").unique().to_pylist():
            self._channel.queue_declare(recipient, durable=True)
        columns = [table.column(name).to_pylist() for name in ("recipient", "data")]
        return list(zip(*columns, strict=True))

    def publish(self, prepared: list[tuple[str, bytes]]) -> None:
        for recipient, data in prepared:
            self._channel.basic_publish("", recipient, data, self._persistent)
        self._channel.tx_commit()

    def peek(self, recipient: str) -> Taken:
        """A queue that is empty answers nothing, which ends the loop."""
        count, last = 0, None
        while count < BUNDLE_MESSAGES_MAX:
            method, _, _ = self._channel.basic_get(recipient)
            if method is None:
                break
            count, last = count + 1, method.delivery_tag
        return Taken(count, last)

    def dequeue(self, taken: Taken) -> None:
        self._channel.basic_ack(taken.handle, multiple=True)
        self._channel.tx_commit()

    def close(self) -> None:
        self._connection.close()


class Rabbitmq(Server):
    name = "rabbitmq"

    @classmethod
    def missing(cls) -> str | None:
        absent = [BINARY] * (shutil.which(BINARY) is None) + [DRIVER] * (find_spec(DRIVER) is None)
        return f"not installed: {', '.join(absent)}" if absent else None

    def __init__(self, folder: Path) -> None:
        self.port = free_port()
        environment = {
            "HOME": str(folder),
            "RABBITMQ_NODENAME": f"bench{os.getpid()}@localhost",
            "RABBITMQ_NODE_IP_ADDRESS": LOCALHOST,
            "RABBITMQ_NODE_PORT": str(self.port),
            "RABBITMQ_DIST_PORT": str(free_port()),
            "RABBITMQ_MNESIA_BASE": str(folder / "data"),
            "RABBITMQ_LOG_BASE": str(folder / "logs"),
        }
        self._process = Process([BINARY], folder, environment={**os.environ, **environment})
        with self._process.stopped_on_failure():
            self._process.wait_until(lambda: listening(self.port))

    def facts(self) -> dict[str, str]:
        asked = subprocess.run(["rabbitmqctl", "version"], capture_output=True, text=True, check=False)
        return {"version": f"RabbitMQ {asked.stdout.strip()}", "settings": "durable queues, persistent, transactions"}

    def ways(self, operation: Operation) -> Mapping[str, Way]:
        if operation in {Operation.PUBLISH, Operation.PEEK, Operation.DEQUEUE}:
            return {"rabbitmq": partial(RabbitmqClient, self.port)}
        return {}

    def close(self) -> None:
        self._process.stop(signal.SIGTERM)


SERVER = Rabbitmq
