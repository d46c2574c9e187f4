"""Celery: a chord, which counts the tasks of its header as they return and then runs its body.

Broker and results are in Valkey. Celery has no call that only acknowledges: its workers fetch tasks that do nothing, and that is in the figure. The tasks
are sent before the timing, while no worker takes any. A result is counted when a task returns, one at a time: calls of
many items and pipelining are not to be had. Not exact: a task that is delivered again is counted again.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from bench.load import DriverProcess
from bench.peers.valkey import Valkey
from bench.server import LOCALHOST, Process, driver
from bench.tally import WORKERS

NAME = "celery, chord"
QUEUE = "celery"
RESULT_SECONDS_MAX = 300
ANSWER_SECONDS_MAX = 60
PREFETCH = 8
ROOT = Path(__file__).resolve().parents[2]
SETTINGS = {
    "worker_prefetch_multiplier": PREFETCH,
    "worker_send_task_events": False,
    "broker_connection_retry_on_startup": True,
    "worker_hijack_root_logger": False,
}


def missing() -> str | None:
    absent = [name for name in ("celery", "redis") if find_spec(name) is None]
    return f"not installed: {', '.join(absent)}" if absent else None


def facts() -> str:
    """The version of Celery, and the settings that differ from its defaults."""
    settings = f"prefork with {WORKERS} processes, prefetch {PREFETCH}, no events, gossip, mingle or heartbeat"
    return f"Celery {version('celery')}; {settings}; broker and results in Valkey"


class Sender:
    """Sends chords and waits for their bodies, in a process of its own (`bench.load`)."""

    def __init__(self, url: str) -> None:
        self._app = application(url)
        self._tasks = 0
        self._body = ""

    def prepare(self, tasks: int) -> None:
        """A chord, all of its tasks in the queue and none taken; the worker is asked until it is up."""
        self._consume("cancel_consumer")
        header = [self._app.signature("bench.nothing", (number,)) for number in range(tasks)]
        self._tasks = tasks
        self._body = driver("celery").chord(header, app=self._app)(self._app.signature("bench.count")).id

    def run(self) -> float:
        """The time from when the workers may begin until the result of the body is known."""
        start = time.perf_counter()
        self._consume("add_consumer")
        counted = self._app.AsyncResult(self._body).get(timeout=RESULT_SECONDS_MAX)
        seconds = time.perf_counter() - start
        assert counted == self._tasks, f"{counted} of {self._tasks} were counted"
        return seconds

    def close(self) -> None:
        self._app.close()

    def _consume(self, command: str) -> None:
        deadline = time.monotonic() + ANSWER_SECONDS_MAX
        while not getattr(self._app.control, command)(QUEUE, reply=True, timeout=1, limit=1):
            assert time.monotonic() < deadline, "the worker did not answer"


@contextmanager
def running(server: Valkey, folder: Path) -> Iterator[DriverProcess]:
    """A worker with its processes, and one that sends to it."""
    url = f"redis://{LOCALHOST}:{server.port}/1"
    worker = Process([sys.executable, "-m", __name__, url], folder, environment={**os.environ, "PYTHONPATH": str(ROOT)})
    try:
        with DriverProcess(partial(Sender, url)) as sender:
            yield sender
    finally:
        worker.stop(signal.SIGTERM)


def application(url: str) -> Any:
    """The Celery application, the same for sender and workers."""
    app = driver("celery").Celery("bench", broker=url, backend=url)
    app.conf.update(SETTINGS)
    app.task(name="bench.nothing")(_nothing)
    app.task(name="bench.count")(_count)
    app.finalize()
    return app


def _nothing(number: int) -> int:
    return number


def _count(results: list[int]) -> int:
    return len(results)


def main(url: str) -> None:
    quiet = ("--without-gossip", "--without-mingle", "--without-heartbeat")
    application(url).worker_main(["worker", "--concurrency", str(WORKERS), "--loglevel", "WARNING", *quiet])


if __name__ == "__main__":
    main(sys.argv[1])
