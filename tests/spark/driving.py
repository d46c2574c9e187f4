"""Child drivers for the tests: one at a time, started when it is needed, and again after a test has killed it."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tests.crash.served import CHECKOUT
from tests.spark.small_spark import SMALL

LOCAL = {
    **SMALL,
    # Each task may fail three times.
    "spark.master": "local[2,4]",
    "spark.sql.shuffle.partitions": "3",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "100",
}


class DriverError(Exception):
    """What the driver said went wrong."""


class DriverGone(Exception):
    """It died before it answered."""


class Driver:
    """A process of `tests/spark/driver.py`, with its Java."""

    def __init__(self, log: Path, settings: Mapping[str, str]) -> None:
        with log.open("a") as errors:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.spark.driver", json.dumps(dict(settings))],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                cwd=CHECKOUT,
                start_new_session=True,
            )
        try:
            self._hear()
        except DriverGone:
            raise AssertionError(log.read_text()[-3_000:]) from None

    @property
    def alive(self) -> bool:
        return self._process.poll() is None

    def ask(self, do: str, **arguments: object) -> Any:
        """What it answers; `DriverError` with what it raised; `DriverGone` if it was killed over it."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"do": do, **arguments}) + "\n")
        self._process.stdin.flush()
        return self._hear()

    def kill(self) -> None:
        """At once, Java and all; its workers end when they notice."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)

    def close(self) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with contextlib.suppress(OSError):
            self._process.stdin.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(30)
        self.kill()
        self._process.wait()
        self._process.stdout.close()

    def _hear(self) -> Any:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            self._process.wait()
            raise DriverGone
        said = json.loads(line)
        if "error" in said:
            raise DriverError(said["error"])
        return said.get("answer")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class Drivers:
    """The one that runs."""

    def __init__(self, folder: Path) -> None:
        self._log = folder / "driver.log"
        self._running: Driver | None = None

    def __call__(self) -> Driver:
        if self._running is None or not self._running.alive:
            self.close()
            self._running = Driver(self._log, LOCAL)
        return self._running

    def errors(self) -> str:
        """What they have said on standard error."""
        return self._log.read_text()

    def kill(self) -> None:
        assert self._running is not None
        self._running.kill()

    def close(self) -> None:
        if self._running is not None:
            self._running.close()
            self._running = None
