"""The cost of the console: `python -m bench.console_cost`. It takes about eight minutes.

Two questions. How long does each page take on a hub with many recipients? Each is asked several times, the list of
recipients also when it is too old to be answered again. And what do a hundred open consoles take from a hub? The answer is
the processor time that a hub without other work takes with them and without: a hub that has to do as much as it can does it
with one core, so a share of a core is that share of its throughput. Small publishes with and without them are the second
witness, in turns that are short and balanced (without, with, with, without), so that what drifts is the same for both; equal
turns differ by more than the cost in question.
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
from datetime import UTC, datetime
from multiprocessing.synchronize import Event
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote, urlsplit

import numpy as np
import pyarrow as pa

import restante
from restante.client.surface import Hub

PAGE_MS_MAX = 300.0
COST_PERCENT_MAX = 2.0
LISTING_SECONDS = 5.5
"""After so long, the list of recipients is made again."""
SETTLING_SECONDS = 15.0
"""A hub that was just filled has still something to do."""
HEAVY_MESSAGES = 200_000
"""The messages of one mailbox, beside those of all."""
PAGES = (
    "",
    "/health",
    "/recipients",
    "/recipients?order=oldest",
    "/recipients?search=0042",
    "/recipients?after=50000",
    "/recipients/r-0000042",
    "/recipients/r-0000042?state=set_aside",
    "/recipients/heavy",
    "/recipients/heavy?state=set_aside",
    "/partitions",
    "/producers",
    "/batches",
    "/batches/{batch}",
    "/consignments",
    "/groups",
    "/actions",
    "/jobs",
    "/jobs/nightly-run",
    "/live",
    "/settings",
    "/tokens",
    "/do/purge?recipient=r-0000042",
    "/do/purge?recipient=heavy",
)


def main(arguments: Sequence[str]) -> int:
    options = _options(arguments)
    with tempfile.TemporaryDirectory(prefix="restante-console-") as folder, _hub(Path(folder), options.port) as hub:
        late = _measure_pages(hub.url, _fill(hub.url, options.recipients, options.messages))
        cost = _measure_consoles(hub, options) if options.consoles else 0.0
    return int(late or cost > COST_PERCENT_MAX)


def _options(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.console_cost", description=__doc__)
    parser.add_argument("--consoles", type=int, default=100)
    parser.add_argument("--seconds", type=float, default=6.0, help="of each turn")
    parser.add_argument("--turns", type=int, default=6, help="each four times so long: without, with, with, without")
    parser.add_argument("--recipients", type=int, default=1_000_000)
    parser.add_argument("--messages", type=int, default=10, help="of each recipient")
    parser.add_argument("--port", type=int, default=8479)
    return parser.parse_args(arguments)


class _Hub:
    """A hub in a process of its own."""

    def __init__(self, url: str, process: subprocess.Popen[str]) -> None:
        self.url, self._process = url, process

    def processor_seconds(self) -> float:
        """The processor time that it has taken so far."""
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


def _fill(url: str, recipients: int, each: int) -> str:
    """Messages for all, in sends of 100,000; the first of each belong to a batch, which is named."""
    began, at_once = time.perf_counter(), 100_000
    names = np.char.add("r-", np.char.zfill(np.arange(recipients).astype(str), 7))
    with restante.connect(url) as hub:
        batch = hub.batches.open("everybody")
        for turn in range(each):
            for start in range(0, recipients, at_once):
                part = names[start : start + at_once]
                hub.send(_table(part, turn), batch=batch if turn == 0 else None)
        batch.seal()
        for _ in range(HEAVY_MESSAGES // at_once):
            hub.send(_table(np.full(at_once, "heavy"), 0))
        _report_runs(hub)
        hub.file()
        print(f"{recipients:,} recipients with {each} messages each, stored in {time.perf_counter() - began:.0f} s\n")
        return batch.id


def _table(recipients: np.ndarray[tuple[int], np.dtype[np.str_]], turn: int) -> pa.Table:
    count = len(recipients)
    kind, data = ("invoice", "reading")[turn % 2], b"%d" % turn
    return pa.table(
        {
            "recipient": pa.array(recipients),
            "data": pa.array([data] * count, pa.binary()),
            "kind": pa.array([kind] * count),
            "media_type": pa.array(["application/json"] * count),
        }
    )


def _report_runs(hub: Hub) -> None:
    """A job with as many runs as are kept, each with a table."""
    now = datetime.now(UTC)
    rows = tuple((f"r-{number:07d}", number, number / 7) for number in range(200))
    table = restante.RunTable(columns=("recipient", "published", "seconds"), rows=rows, rows_in_all=10_000)
    for number in range(100):
        report = restante.JobReport(
            run=number,
            state=restante.JobRunState.DONE,
            began_at=now,
            ended_at=now,
            figures={"rows": number},
            table=table,
        )
        hub.jobs.report("nightly-run", report, schedule="at 02:00 UTC")


def _measure_pages(url: str, batch: str) -> int:
    """How many pages took too long."""
    print(f"{'page':<40}{'median ms':>10}{'worst ms':>10}{'bytes':>10}")
    late = sum(_measure_page(url, page.format(batch=batch), page) for page in PAGES)
    again = []
    for _ in range(3):
        time.sleep(LISTING_SECONDS)
        again.append(_page(url, "/recipients")[0] * 1_000)
    print(f"{'/recipients, made again':<40}{statistics.median(again):>10.1f}{max(again):>10.1f}\n")
    return late + (statistics.median(again) > PAGE_MS_MAX)


def _measure_page(url: str, page: str, name: str) -> bool:
    taken = [_page(url, page) for _ in range(7)]
    times = [seconds * 1_000 for seconds, _ in taken]
    median = statistics.median(times)
    said = "  TOO LONG" if median > PAGE_MS_MAX else ""
    print(f"{name or '/':<40}{median:>10.1f}{max(times):>10.1f}{taken[-1][1]:>10,}{said}", flush=True)
    return median > PAGE_MS_MAX


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


class _Followed(NamedTuple):
    """The pages that open consoles look at."""

    name: str
    pages: Sequence[str]


def _measure_consoles(hub: _Hub, options: argparse.Namespace) -> float:
    """The most that consoles cost, in percent."""
    count = options.consoles
    same = _Followed(f"{count} overviews", [""] * count)
    own = _Followed(f"{count} mailboxes", [f"recipients/r-{number:07d}" for number in range(count)])
    time.sleep(SETTLING_SECONDS)
    alone = _share(hub, options.seconds)
    cost = max(_measure_idle(hub, followed, alone, options.seconds) for followed in (same, own))
    for followed in (same, own):
        _measure_busy(hub, followed, options.seconds, options.turns)
    return cost


@contextmanager
def _open_consoles(url: str, followed: _Followed) -> Iterator[None]:
    """Pages that are followed, in a process of their own."""
    ready, over = multiprocessing.Event(), multiprocessing.Event()
    process = multiprocessing.Process(target=_follow, args=(url, followed.pages, ready, over), daemon=True)
    process.start()
    assert ready.wait(120), "the consoles could not be opened"
    try:
        yield
    finally:
        over.set()
        process.join()


def _follow(url: str, pages: Sequence[str], ready: Event, over: Event) -> None:
    parts = urlsplit(url)

    async def one(page: str) -> asyncio.StreamWriter:
        reader, writer = await asyncio.open_connection(parts.hostname, parts.port)
        target = f"/console/stream?page={quote(page, safe='')}"
        writer.write(f"GET {target} HTTP/1.1\r\nHost: {parts.netloc}\r\n\r\n".encode())
        await reader.readuntil(b"event: part")
        reading.append(asyncio.ensure_future(_read(reader)))
        return writer

    async def run() -> None:
        writers = [await one(page) for page in pages]
        ready.set()
        await asyncio.to_thread(over.wait)
        for writer in writers:
            writer.close()

    reading: list[asyncio.Task[None]] = []
    asyncio.run(run())


async def _read(reader: asyncio.StreamReader) -> None:
    while await reader.read(65_536):
        pass


def _measure_idle(hub: _Hub, followed: _Followed, alone: float, seconds: float) -> float:
    """The share of a core that they take, in percent."""
    with _open_consoles(hub.url, followed):
        time.sleep(2)
        share = _share(hub, 5 * seconds)
    cost = 100 * (share - alone)
    print(f"{followed.name} take {cost:.2f} % of a core from an idle hub, which takes {100 * alone:.2f} %", flush=True)
    return cost


def _share(hub: _Hub, seconds: float) -> float:
    before, began = hub.processor_seconds(), time.perf_counter()
    time.sleep(seconds)
    return (hub.processor_seconds() - before) / (time.perf_counter() - began)


class _Turn(NamedTuple):
    """The result of one turn of publishing."""

    a_second: float
    microseconds: float
    """The hub's processor time for each message."""


def _measure_busy(hub: _Hub, followed: _Followed, seconds: float, turns: int) -> None:
    """Measure what a message takes more with consoles than without: the median over the turns."""
    without: list[_Turn] = []
    beside: list[_Turn] = []
    costs = []
    _publish(hub, 3)
    for _ in range(turns):
        first = _publish(hub, seconds)
        with _open_consoles(hub.url, followed):
            pair = [_publish(hub, seconds), _publish(hub, seconds)]
        last = _publish(hub, seconds)
        without += [first, last]
        beside += pair
        costs.append(100 * (_mean(pair) / _mean([first, last]) - 1))
    cost = statistics.median(costs)
    print(f"\nsmall publishes beside {followed.name}, {turns} turns of four times {seconds:g} s, medians:")
    for name, found in (("without", without), ("with", beside)):
        rate, taken = (statistics.median(column) for column in zip(*found, strict=True))
        print(f"  {name:<8}{rate:>9,.0f} a second, {taken:.2f} µs of processor time each")
    print(f"  cost    {cost:+.2f} % (turns: {', '.join(f'{one:+.1f}' for one in costs)})", flush=True)


def _mean(turns: Sequence[_Turn]) -> float:
    return statistics.fmean(turn.microseconds for turn in turns)


def _publish(hub: _Hub, seconds: float) -> _Turn:
    """Small publishes, one message each, over the pipelined link."""
    done, before = 0, hub.processor_seconds()
    with restante.connect(hub.url) as own:
        began = time.perf_counter()
        with own.producer.pipeline() as pipeline:
            while time.perf_counter() - began < seconds:
                for number in range(200):
                    pipeline.send(restante.Message(recipient=f"b-{number}", data=number))
                done += 200
        took = time.perf_counter() - began
    return _Turn(done / took, 1e6 * (hub.processor_seconds() - before) / done)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
