"""`python -m bench.kafka_backplane`: publishes through a backplane beside direct ones, in turns, in one run on one machine.

A broker and two hubs run in processes of their own: one stores what it is sent, the other takes it through a topic. Both
answer when it is stored. Bulk is an Arrow stream of 51,200 messages, one at a time and four at a time; small publishes are
one message of JSON each, on one connection and on 64.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pyarrow as pa

import restante
from bench import machine
from restante.client.surface.surface import Hub
from tests.crash.served import Served
from tests.kafka.broker import Broker

RESULTS = Path(__file__).resolve().parent / "results" / "kafka_backplane.json"
PARTITIONS = 16
MESSAGES = 51_200
RECIPIENTS = 5_000
DATA_BYTES = 200
CONNECTIONS = 64
TURNS = 5


def table(turn: int) -> pa.Table:
    filler = b"x" * (DATA_BYTES - 12)
    data = [b"%012d" % (turn * MESSAGES + row) + filler for row in range(MESSAGES)]
    return pa.table({"recipient": [f"r{row % RECIPIENTS}" for row in range(MESSAGES)], "data": data})


def bulk_rate(hub: Hub, turn: int, at_a_time: int) -> float:
    """Messages a second, from the first byte that is sent until all are stored."""
    tables = [table(turn * at_a_time + own) for own in range(at_a_time)]
    began = time.perf_counter()
    with ThreadPoolExecutor(at_a_time) as pool:
        stored = sum(receipt.accepted for receipt in pool.map(hub.send, tables))
    return stored / (time.perf_counter() - began)


def small_seconds(url: str, seconds: float) -> list[float]:
    """How long each of many single publishes on one connection takes."""
    return asyncio.run(_small(url, 1, seconds))


def small_rate(url: str, seconds: float) -> float:
    return len(asyncio.run(_small(url, CONNECTIONS, seconds))) / seconds


async def _small(url: str, connections: int, seconds: float) -> list[float]:
    ends = time.perf_counter() + seconds
    found = await asyncio.gather(*(_publisher(url, number, ends) for number in range(connections)))
    return [one for own in found for one in own]


async def _publisher(url: str, number: int, ends: float) -> list[float]:
    """One publish after the other on a connection of its own, with as little client as can be."""
    parts = urlsplit(url)
    reader, writer = await asyncio.open_connection(parts.hostname, parts.port)
    body = json.dumps({"messages": [{"recipient": f"s{number}", "data": {"text": "x" * DATA_BYTES}}]}).encode()
    head = f"POST /v1/messages HTTP/1.1\r\nHost: {parts.netloc}\r\nContent-Type: application/json\r\n"
    request = head.encode() + b"Content-Length: %d\r\n\r\n" % len(body) + body
    took: list[float] = []
    while (began := time.perf_counter()) < ends:
        writer.write(request)
        answer = await reader.readuntil(b"\r\n\r\n")
        length = int(answer.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
        await reader.readexactly(length)
        assert answer.startswith(b"HTTP/1.1 201"), answer
        took.append(time.perf_counter() - began)
    writer.close()
    return took


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--turns", type=int, default=TURNS)
    parser.add_argument("--seconds", type=float, default=4.0)
    wished = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="restante-bench-") as folder:
        place = Path(folder)
        broker = Broker(place / "kafka")
        broker.start()
        topic = broker.topic("backplane", PARTITIONS)
        direct = Served(place / "direct")
        through = Served(place / "through", backplane__topic=topic, backplane__brokers=broker.address)
        direct.start()
        through.start()
        try:
            figures = _measured({"direct": direct.url, "backplane": through.url}, wished.turns, wished.seconds)
            seen = {"machine": machine.describe(place), "turns": wished.turns, "median": figures}
        finally:
            direct.end()
            through.end()
            broker.stop()
    _tell(figures)
    RESULTS.write_text(json.dumps(seen, indent=2, default=str) + "\n")


def _measured(urls: dict[str, str], turns: int, seconds: float) -> dict[str, dict[str, float]]:
    """Medians over turns, in each of which one hub comes after the other."""
    found: dict[str, dict[str, list[float]]] = {}
    hubs = {name: restante.connect(url, timeout=120) for name, url in urls.items()}
    for turn in range(turns + 1):
        for name, hub in hubs.items():
            small = small_seconds(urls[name], seconds / 2)
            figures = {
                "bulk, one at a time, messages/s": bulk_rate(hub, turn, 1),
                "bulk, four at a time, messages/s": bulk_rate(hub, turn, 4),
                "one connection, p50 ms": statistics.median(small) * 1_000,
                f"{CONNECTIONS} connections, publishes/s": small_rate(urls[name], seconds),
            }
            for what, figure in figures.items() if turn else ():  # the first turn warms up
                found.setdefault(what, {}).setdefault(name, []).append(figure)
    for hub in hubs.values():
        hub.close()
    return {what: {name: statistics.median(own) for name, own in each.items()} for what, each in found.items()}


def _tell(figures: dict[str, Any]) -> None:
    for what, each in figures.items():
        direct, through = each["direct"], each["backplane"]
        print(f"{what:<40}{direct:>14,.2f} direct{through:>14,.2f} through{through / direct:>8.2f} x")


if __name__ == "__main__":
    main()
