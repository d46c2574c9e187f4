"""`python -m bench.kafka_bridges`: bridges beside plain loops of the Kafka client, in one run on one machine.

A broker and a hub run in processes of their own. The plain consumer reads and does nothing; the plain producer sends and does
nothing else. The loop into PostgreSQL is written in the usual way: a batch of rows by `executemany`, then its commit, then
the offset.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import confluent_kafka
import psycopg

import restante
from bench import machine
from bench.peers.postgresql import Postgresql
from restante.bridges.bridge_in import BridgeIn, InWish
from restante.bridges.bridge_out import BridgeOut, OutWish
from restante.bridges.in_rules import InRule
from tests.crash.served import Served
from tests.kafka.broker import Broker

RESULTS = Path(__file__).resolve().parent / "results" / "kafka.json"
PARTITIONS = 4
RECIPIENTS = 1_000
DATA_BYTES = 200
BATCH = 10_000
INSERTED_AT_ONCE = 500


def timed(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def produced(broker: Broker, topic: str, count: int) -> None:
    """The plain producer: idempotent, as large batches as it makes by itself."""
    producer = confluent_kafka.Producer(
        {"bootstrap.servers": broker.address, "enable.idempotence": True, "linger.ms": 5, "log_level": 0}
    )
    filler = "x" * (DATA_BYTES - 20)
    for number in range(count):
        value = b'{"n":1%06d,"t":"%s"}' % (number, filler.encode())
        while True:
            try:
                producer.produce(topic, value, key=b"r%d" % (number % RECIPIENTS))
                break
            except BufferError:
                producer.poll(0.01)
    producer.flush()


def consumer_of(broker: Broker, topic: str) -> Any:
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": broker.address,
            "group.id": uuid.uuid4().hex,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "log_level": 0,
        }
    )
    consumer.subscribe([topic])
    return consumer


def consumed(broker: Broker, topic: str, count: int) -> None:
    """The plain consumer."""
    consumer, seen = consumer_of(broker, topic), 0
    while seen < count:
        seen += len(consumer.consume(BATCH, 1.0))
    consumer.close()


def inserted(broker: Broker, topic: str, count: int, address: str) -> None:
    """Rows into a table with a unique key of the record, so that it may be repeated."""
    consumer, seen = consumer_of(broker, topic), 0
    with psycopg.connect(address) as connection:
        connection.execute(
            "CREATE TABLE record (topic text, part int, position bigint, key text, value bytea,"
            " PRIMARY KEY (topic, part, position))"
        )
        while seen < count:
            found = consumer.consume(INSERTED_AT_ONCE, 1.0)
            rows = [(one.topic(), one.partition(), one.offset(), one.key().decode(), one.value()) for one in found]
            with connection.cursor() as cursor:
                cursor.executemany("INSERT INTO record VALUES (%s, %s, %s, %s, %s) ON CONFLICT DO NOTHING", rows)
            connection.commit()
            consumer.commit(asynchronous=True)
            seen += len(found)
    consumer.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=300_000)
    count = parser.parse_args().records
    with tempfile.TemporaryDirectory(prefix="restante-bench-") as folder:
        place = Path(folder)
        broker, served, table = Broker(place / "kafka"), Served(place / "data"), Postgresql(_made(place / "postgresql"))
        broker.start()
        served.start()
        try:
            figures = _measured(broker, served.url, table.address, count)
            seen = {"machine": machine.describe(place), "records": count, "bytes": DATA_BYTES, "per_second": figures}
        finally:
            served.end()
            broker.stop()
            table.close()
    for name, figure in figures.items():
        print(f"{name:<45}{figure:>12,.0f} records/s")
    RESULTS.write_text(json.dumps(seen, indent=2, default=str) + "\n")


def _made(folder: Path) -> Path:
    folder.mkdir()
    return folder


def _measured(broker: Broker, url: str, address: str, count: int) -> dict[str, float]:
    topic, out = broker.topic("bench", PARTITIONS), broker.topic("bench-out", PARTITIONS)
    seconds = {"plain producer loop": timed(lambda: produced(broker, topic, count))}
    seconds["plain consumer loop"] = timed(lambda: consumed(broker, topic, count))
    with restante.connect(url) as hub:
        wish = InWish(rules=(InRule(topic=topic),), brokers=broker.address, until_end=True)
        seconds["bridge in"] = timed(BridgeIn(hub, wish).run)
        assert sum(status.waiting for status in hub.partitions()) == count
        carried = BridgeOut(hub, OutWish(topic=out, brokers=broker.address, until_end=True))
        seconds["bridge out, transactions"] = timed(carried.run)
        assert carried.counts.stored == count
    smaller = min(count, 50_000)
    slow = timed(lambda: inserted(broker, topic, smaller, address))
    return {
        **{name: count / one for name, one in seconds.items()},
        "consumer into PostgreSQL, the usual loop": smaller / slow,
    }


if __name__ == "__main__":
    main()
