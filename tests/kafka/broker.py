"""A real Kafka on this machine: one broker that is its own controller (KRaft), on free ports, in a folder of its own."""

from __future__ import annotations

import base64
import signal
import socket
import subprocess
import time
import uuid
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from bench.server import free_port
from restante.spark.sessions import java
from tests.kafka.jars import class_path

_SETTINGS = """\
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller}
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}
advertised.listeners=PLAINTEXT://127.0.0.1:{port}
controller.listener.names=CONTROLLER
log.dirs={folder}/data
offsets.topic.replication.factor=1
offsets.topic.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
transaction.state.log.num.partitions=1
group.initial.rebalance.delay.ms=0
group.min.session.timeout.ms=1000
auto.create.topics.enable=false
"""


class Broker:
    """Start it, kill it, start it again on what it has stored."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self.port, controller = free_port(), free_port()
        self._settings = folder / "server.properties"
        self._settings.write_text(_SETTINGS.format(port=self.port, controller=controller, folder=folder))
        self._process: subprocess.Popen[bytes] | None = None
        self._class_path, self._java = class_path(), str(java.find().command)

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def process_id(self) -> int:
        assert self._process is not None, "not started"
        return self._process.pid

    def start(self) -> None:
        if not (self.folder / "data").exists():
            cluster = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
            self._run("kafka.tools.StorageTool", "format", f"--cluster-id={cluster}", "-c", str(self._settings)).wait(
                120
            )
        self._process = self._run("kafka.Kafka", str(self._settings))
        self._wait()

    def _run(self, *arguments: str) -> subprocess.Popen[bytes]:
        command = [
            self._java,
            "-Xmx512m",
            "-Xshare:auto",
            "-XX:TieredStopAtLevel=1",
            "-cp",
            self._class_path,
            *arguments,
        ]
        with (self.folder / "output.txt").open("ab") as output:
            return subprocess.Popen(command, stdout=output, stderr=output, cwd=self.folder)

    def _wait(self) -> None:
        deadline = time.monotonic() + 120
        while time.monotonic() < deadline:
            assert self._process is not None
            assert self._process.poll() is None, (self.folder / "output.txt").read_text()[-2000:]
            try:
                socket.create_connection(("127.0.0.1", self.port), timeout=1).close()
                self.admin().list_topics(timeout=5)
            except (OSError, KafkaException):
                time.sleep(0.1)
            else:
                return
        raise AssertionError("Kafka did not come up")

    def kill(self) -> None:
        """Without a word."""
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        self._end(signal.SIGTERM)

    def _end(self, how: signal.Signals) -> None:
        if self._process is not None:
            self._process.send_signal(how)
            try:
                self._process.wait(30)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
            self._process = None

    # What tests do with it.

    def _client(self, **settings: Any) -> dict[str, Any]:
        return {"bootstrap.servers": self.address, "log_level": 0, **settings}

    def admin(self) -> AdminClient:
        return AdminClient(self._client())

    def topic(self, name: str, partitions: int = 2, **settings: str) -> str:
        """A new topic, named so that no other test has it."""
        return self.admin_topic(f"{name}-{uuid.uuid4().hex[:8]}", partitions, **settings)

    def admin_topic(self, topic: str, partitions: int, **settings: str) -> str:
        admin = self.admin()
        made = admin.create_topics([NewTopic(topic, partitions, 1, config=settings)])
        made[topic].result(30)
        return topic

    def produce(self, topic: str, records: list[dict[str, Any]], **settings: Any) -> None:
        producer = Producer(self._client(**{"linger.ms": 5, **settings}))
        for record in records:
            producer.produce(topic, **record)
        assert producer.flush(60) == 0

    def read(self, topic: str) -> list[Any]:
        """All records that are committed, partition by partition, in order."""
        consumer = Consumer(
            self._client(
                **{
                    "group.id": uuid.uuid4().hex,
                    "enable.auto.commit": False,
                    "enable.partition.eof": True,
                    "isolation.level": "read_committed",
                }
            )
        )
        partitions = consumer.list_topics(topic, timeout=30).topics[topic].partitions
        consumer.assign([TopicPartition(topic, number, 0) for number in partitions])
        found, ended = [], 0
        while ended < len(partitions):
            for message in consumer.consume(1_000, 1.0):
                if message.error() is not None:
                    ended += 1
                else:
                    found.append(message)
        consumer.close()
        return sorted(found, key=lambda message: (message.partition(), message.offset()))
