"""`python -m bench.kafka_bridges`: bridges beside plain loops of the Kafka client, in one run on one machine.

A broker and a hub run in processes of their own. The plain consumer reads and does nothing; the plain producer sends and does
nothing else. The loop into PostgreSQL is written in the usual way: a batch of rows by `executemany`, then its commit, then
the offset.

All run in one process, set up as the commands of bridges set up theirs, in turns, several times, and the median counts;
joining a group is inside the timing of each. Of the bridges, the processor time of a record is measured too, in the bridge, the
hub (with the process that files for it) and the broker: it says what bounds them on so many cores.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
import uuid
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from multiprocessing import get_context
from pathlib import Path
from statistics import median
from typing import Any

import confluent_kafka
import psycopg

import restante
from bench import machine
from bench.peers.postgresql import Postgresql
from restante.bridges.bridge_in import BridgeIn, InOptions
from restante.bridges.bridge_out import BridgeOut, OutOptions
from restante.bridges.bridge_process import spare_process
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


def processor_seconds(process_id: int) -> float:
    fields = Path(f"/proc/{process_id}/stat").read_text(encoding="ascii").rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def children(process_id: int) -> list[int]:
    """The processes that a process has started."""
    lists = Path(f"/proc/{process_id}/task").glob("*/children")
    return [int(child) for own in lists for child in own.read_text(encoding="ascii").split()]


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


def looked_at(broker: Broker, topic: str, count: int) -> None:
    """The least that anybody does who wants the records: what each says is taken out of the client's objects."""
    consumer, seen = consumer_of(broker, topic), 0
    while seen < count:
        found = consumer.consume(BATCH, 1.0)
        if found:
            kind = type(found[0])
            for read in (kind.offset, kind.key, kind.value, kind.timestamp, kind.headers):
                list(map(read, found))
        seen += len(found)
    consumer.close()


def inserted(broker: Broker, topic: str, count: int, address: str) -> None:
    """Rows into a table with a unique key of the record, so that it may be repeated."""
    consumer, seen = consumer_of(broker, topic), 0
    with psycopg.connect(address) as connection:
        connection.execute(
            "CREATE TABLE IF NOT EXISTS record (topic text, part int, position bigint, key text, value bytea,"
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


@dataclass
class Stage:
    """The processes that run, and what was measured of them."""

    broker: Broker
    served: Served
    address: str
    count: int
    rates: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    processor_us: dict[str, list[dict[str, float]]] = field(default_factory=lambda: defaultdict(list))

    def plain(self, name: str, count: int, work: Callable[[], object]) -> None:
        self.rates[name].append(count / timed(work))

    def bridge(self, name: str, bridge: BridgeIn | BridgeOut) -> None:
        before = self._processor_seconds()
        seconds, carried = timed(bridge.run), bridge.counts
        self.rates[name].append(carried.stored / seconds)
        after = self._processor_seconds()
        self.processor_us[name].append({part: (after[part] - before[part]) / carried.stored * 1e6 for part in after})

    def together(self, name: str, arguments: tuple[object, ...]) -> None:
        """Two processes of one bridge share the work; timed from when both are ready."""
        spawn = get_context("spawn")
        ready, go, carried = spawn.Barrier(3), spawn.Event(), spawn.Queue()
        own = [spawn.Process(target=_carry, args=(*arguments, ready, go, carried)) for _ in range(2)]
        for process in own:
            process.start()
        ready.wait(120)
        before, began = self._processor_seconds(), time.perf_counter()
        go.set()
        counts = [carried.get(timeout=600) for _ in own]
        seconds, after = time.perf_counter() - began, self._processor_seconds()
        for process in own:
            process.join()
        stored = sum(count for count, _ in counts)
        self.rates[name].append(stored / seconds)
        used = {part: after[part] - before[part] for part in after} | {"bridge": sum(used for _, used in counts)}
        self.processor_us[name].append({part: each / stored * 1e6 for part, each in used.items()})

    def _processor_seconds(self) -> dict[str, float]:
        return {
            "bridge": time.process_time(),
            "hub": processor_seconds(self.served.process.pid),
            "hub, filing": sum(map(processor_seconds, children(self.served.process.pid))),
            "broker": processor_seconds(self.broker.process_id),
        }

    def medians(self) -> dict[str, object]:
        times = {
            name: {part: round(median(each[part] for each in found), 2) for part in found[0]}
            for name, found in self.processor_us.items()
        }
        return {"per_second": {name: median(found) for name, found in self.rates.items()}, "processor_us": times}


def _carry(
    url: str,
    options: InOptions | OutOptions,
    ready: Any,
    go: Any,
    carried: Any,
) -> None:
    """The work of one process of a bridge."""
    spare_process()
    with restante.connect(url) as hub:
        bridge = BridgeIn(hub, options) if isinstance(options, InOptions) else BridgeOut(hub, options)
        ready.wait(120)
        go.wait()
        before = time.process_time()
        bridge.run()
        carried.put((bridge.counts.stored, time.process_time() - before))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=600_000)
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    spare_process()
    with tempfile.TemporaryDirectory(prefix="restante-bench-") as folder:
        place = Path(folder)
        broker, served, table = Broker(place / "kafka"), Served(place / "data"), Postgresql(_made(place / "postgresql"))
        broker.start()
        served.start()
        try:
            stage = Stage(broker, served, table.address, given.records)
            for number in range(given.rounds):
                _round(stage, number)
            about = {"machine": machine.describe(place), "records": given.records, "rounds": given.rounds}
            seen = {**about, "bytes": DATA_BYTES, **stage.medians()}
        finally:
            served.end()
            broker.stop()
            table.close()
    for name, found in stage.rates.items():
        print(f"{name:<45}{median(found):>12,.0f} records/s  of {', '.join(f'{one:,.0f}' for one in found)}")
    print(json.dumps(seen["processor_us"]))
    RESULTS.write_text(json.dumps(seen, indent=2, default=str) + "\n")


def _made(folder: Path) -> Path:
    folder.mkdir()
    return folder


def _round(stage: Stage, number: int) -> None:
    """Every round has topics, groups and sources of its own, so nothing is skipped."""
    broker, count = stage.broker, stage.count
    topic, out = broker.topic("bench", PARTITIONS), broker.topic("bench-out", PARTITIONS)
    stage.plain("plain producer loop", count, lambda: produced(broker, topic, count))
    stage.plain("plain consumer loop", count, lambda: consumed(broker, topic, count))
    stage.plain("plain consumer, records looked at", count, lambda: looked_at(broker, topic, count))
    with restante.connect(stage.served.url) as hub:
        rules = (InRule(topic=topic, origin="bench", kind=f"round-{number}"),)
        stage.bridge("bridge in", BridgeIn(hub, InOptions(rules=rules, brokers=broker.address, until_end=True)))
        options = OutOptions(
            topic=out, brokers=broker.address, until_end=True, group=f"bench-{number}", kinds=(f"round-{number}",)
        )
        carried = BridgeOut(hub, options)
        stage.bridge("bridge out, transactions", carried)
        assert carried.counts.stored == count
    shared = InOptions(
        rules=(InRule(topic=topic, origin="bench", kind=f"both-{number}"),),
        brokers=broker.address,
        group=f"both-{number}",
        prefix=f"both-{number}/",
        until_end=True,
    )
    stage.together("bridge in, two processes", (stage.served.url, shared))
    both = OutOptions(
        topic=out, brokers=broker.address, until_end=True, group=f"both-{number}", kinds=(f"both-{number}",)
    )
    stage.together("bridge out, two processes", (stage.served.url, both))
    smaller = min(count, 50_000)
    stage.plain(
        "consumer into PostgreSQL, the usual loop", smaller, lambda: inserted(broker, topic, smaller, stage.address)
    )


if __name__ == "__main__":
    main()
