"""What the console costs: `python -m bench.console_cost`.

Two questions. What do a hundred open consoles take from a hub? Its throughput of small publishes with and without them, in
turns, and the processor time that they take from a hub that does nothing else. And how long does a page take on a hub with many
recipients? Each page several times, the list of recipients also when it is too old to be answered again.
"""

from __future__ import annotations

import argparse
import asyncio
import http.client
import multiprocessing
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from multiprocessing.synchronize import Event
from pathlib import Path
from urllib.parse import urlsplit

import numpy as np
import pyarrow as pa

import restante

LISTING_SECONDS = 5.5
"""After so long, the list of recipients is made again."""
SETTLING_SECONDS = 15.0
"""A hub that was just filled has still something to do."""
PAGES = (
    "",
    "/health",
    "/recipients",
    "/recipients?order=oldest",
    "/recipients?search=0042",
    "/recipients?after=50000",
    "/recipients/r-0000042",
    "/partitions",
    "/producers",
    "/batches",
    "/consignments",
    "/groups",
    "/live",
    "/settings",
    "/tokens",
    "/do/purge?recipient=r-0000042",
)


def main(arguments: Sequence[str]) -> int:
    options = _options(arguments)
    with tempfile.TemporaryDirectory(prefix="restante-console-") as folder, _hub(Path(folder), options.port) as hub:
        if options.recipients:
            _fill(hub.url, options.recipients, options.messages)
            _measure_pages(hub.url)
        if options.consoles:
            _measure_idle(hub, options.consoles, options.seconds)
            _measure_busy(hub, options.consoles, options.seconds, options.rounds)
    return 0


def _options(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.console_cost", description=__doc__)
    parser.add_argument("--consoles", type=int, default=100)
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--recipients", type=int, default=1_000_000)
    parser.add_argument("--messages", type=int, default=10, help="of each recipient")
    parser.add_argument("--port", type=int, default=8479)
    return parser.parse_args(arguments)


class _Hub:
    """A hub in a process of its own."""

    def __init__(self, url: str, process: subprocess.Popen[str]) -> None:
        self.url, self._process = url, process

    def processor_seconds(self) -> float:
        """What it has taken so far."""
        fields = Path(f"/proc/{self._process.pid}/stat").read_text(encoding="ascii").rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@contextmanager
def _hub(folder: Path, port: int) -> Iterator[_Hub]:
    command = [sys.executable, "-m", "restante", "serve", "--data", str(folder / "data"), "--port", str(port)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        while (line := process.stdout.readline()) and not line.startswith("Restante serves"):
            pass
        try:
            yield _Hub(f"http://127.0.0.1:{port}", process)
        finally:
            process.terminate()


# Pages


def _fill(url: str, recipients: int, each: int) -> None:
    """Messages for all, in sends of 100,000."""
    began, at_once = time.perf_counter(), 100_000
    names = np.char.add("r-", np.char.zfill(np.arange(recipients).astype(str), 7))
    with restante.connect(url) as hub:
        for turn in range(each):
            for start in range(0, recipients, at_once):
                part = pa.array(names[start : start + at_once])
                data = pa.array([b"%d" % turn] * len(part), pa.binary())
                kind = pa.array([("invoice", "reading")[turn % 2]] * len(part))
                media = pa.array(["application/json"] * len(part))
                hub.send(pa.table({"recipient": part, "data": data, "kind": kind, "media_type": media}))
        hub.file()
    print(f"{recipients:,} recipients with {each} messages each, stored in {time.perf_counter() - began:.0f} s\n")


def _measure_pages(url: str) -> None:
    print(f"{'page':<34}{'median ms':>10}{'worst ms':>10}{'bytes':>10}")
    for page in PAGES:
        taken = [_page(url, page) for _ in range(7)]
        times = [seconds * 1_000 for seconds, _ in taken]
        print(f"{page or '/':<34}{statistics.median(times):>10.1f}{max(times):>10.1f}{taken[-1][1]:>10,}")
    late = []
    for _ in range(3):
        time.sleep(LISTING_SECONDS)
        late.append(_page(url, "/recipients")[0] * 1_000)
    print(f"{'/recipients, made again':<34}{statistics.median(late):>10.1f}{max(late):>10.1f}\n")


def _page(url: str, path: str) -> tuple[float, int]:
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(str(parts.hostname), parts.port, timeout=120)
    began = time.perf_counter()
    connection.request("GET", f"/console{path}")
    answer = connection.getresponse()
    length = len(answer.read())
    connection.close()
    assert answer.status == 200, (path, answer.status)
    return time.perf_counter() - began, length


# Open consoles


@contextmanager
def _open_consoles(url: str, count: int) -> Iterator[None]:
    """So many overviews that are followed, in a process of their own."""
    ready, over = multiprocessing.Event(), multiprocessing.Event()
    process = multiprocessing.Process(target=_follow, args=(url, count, ready, over), daemon=True)
    process.start()
    assert ready.wait(60), "the consoles could not be opened"
    try:
        yield
    finally:
        over.set()
        process.join()


def _follow(url: str, count: int, ready: Event, over: Event) -> None:
    parts = urlsplit(url)

    async def one() -> asyncio.StreamWriter:
        reader, writer = await asyncio.open_connection(parts.hostname, parts.port)
        writer.write(f"GET /console/stream?page= HTTP/1.1\r\nHost: {parts.netloc}\r\n\r\n".encode())
        await reader.readuntil(b"event: part")
        reading.append(asyncio.ensure_future(_read(reader)))
        return writer

    async def run() -> None:
        writers = [await one() for _ in range(count)]
        ready.set()
        await asyncio.to_thread(over.wait)
        for writer in writers:
            writer.close()

    reading: list[asyncio.Task[None]] = []
    asyncio.run(run())


async def _read(reader: asyncio.StreamReader) -> None:
    while await reader.read(65_536):
        pass


def _measure_idle(hub: _Hub, consoles: int, seconds: float) -> None:
    time.sleep(SETTLING_SECONDS)
    alone = _share(hub, seconds)
    with _open_consoles(hub.url, consoles):
        time.sleep(1)
        followed = _share(hub, seconds)
    print(
        f"processor time of an idle hub: {100 * alone:.2f} % of a core alone, {100 * followed:.2f} % with {consoles} consoles"
    )
    print(f"so {consoles} consoles take {100 * (followed - alone):.2f} % of a core\n")


def _share(hub: _Hub, seconds: float) -> float:
    before, began = hub.processor_seconds(), time.perf_counter()
    time.sleep(seconds)
    return (hub.processor_seconds() - before) / (time.perf_counter() - began)


def _measure_busy(hub: _Hub, consoles: int, seconds: float, rounds: int) -> None:
    without, beside = [], []
    _publish(hub.url, 3)
    for _ in range(rounds):
        without.append(_publish(hub.url, seconds))
        with _open_consoles(hub.url, consoles):
            beside.append(_publish(hub.url, seconds))
    a, b = statistics.median(without), statistics.median(beside)
    print(f"small publishes a second: {a:,.0f} without consoles, {b:,.0f} with {consoles}: {100 * (b / a - 1):+.1f} %")
    print(f"  each round without: {', '.join(f'{one:,.0f}' for one in without)}")
    print(f"  each round with:    {', '.join(f'{one:,.0f}' for one in beside)}")


def _publish(url: str, seconds: float) -> float:
    """Small publishes, one message each, over the pipelined link."""
    done = 0
    with restante.connect(url) as hub:
        began = time.perf_counter()
        with hub.producer.pipeline() as pipeline:
            while time.perf_counter() - began < seconds:
                for number in range(200):
                    pipeline.send(restante.Message(recipient=f"b-{number}", data=number))
                done += 200
        return done / (time.perf_counter() - began)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
