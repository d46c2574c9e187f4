"""A hub served by a process of its own, that a test may kill, end, and start again at the same address."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

from bench.server import free_port
from restante.assembly import open_store
from restante.hub.doctor.doctor import examine

CHECKOUT = Path(__file__).parents[2]


class Served:
    """A process that serves a data folder, whenever it is started; always on the same port."""

    def __init__(self, folder: Path, *options: str, **settings: object) -> None:
        self.folder = folder
        self._options = options
        self.log = folder.with_name(folder.name + ".log")
        self._port = free_port()
        self._environment: Mapping[str, str] = {
            **os.environ,
            # A check that a kill cuts off waits until it expires: the campaigns count every message.
            "RESTANTE_HEALTH__DISABLED": "deep_write",
            **{f"RESTANTE_{name.upper()}": str(value) for name, value in settings.items()},
        }
        self._process: subprocess.Popen[str] | None = None
        self.url = f"http://127.0.0.1:{self._port}"

    @property
    def process(self) -> subprocess.Popen[str]:
        assert self._process is not None, "not started"
        return self._process

    def start(self) -> None:
        """Returns when it serves."""
        place = ("--data", str(self.folder), "--port", str(self._port))
        command = [sys.executable, "-m", "restante.cli", "serve", *place, *self._options]
        with self.log.open("a") as log:
            self._process = subprocess.Popen(
                command, stdout=subprocess.PIPE, stderr=log, text=True, cwd=CHECKOUT, env=self._environment
            )
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            self._ended()
        assert line == f"Restante serves {self.folder} on {self.url}\n", (line, self.log.read_text()[-2_000:])

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        assert self._ended() == -signal.SIGKILL

    def end(self) -> int:
        """SIGTERM; gives the exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self._ended()

    def _ended(self) -> int:
        code = self.process.wait()
        assert self.process.stdout is not None
        self.process.stdout.close()
        return code

    def check_folder(self) -> None:
        """The doctor finds it sound; while nothing serves it."""
        store = open_store(self.folder)
        try:
            report = examine(store)
        finally:
            store.close()
        assert report.sound, report.findings

    def check_log(self) -> None:
        """It has never failed at anything: a defect would be logged as an error."""
        lines = self.log.read_text().splitlines()
        faulty = [line for line in lines if '"level":"error"' in line or not line.startswith("{")]
        assert not faulty, faulty[:3]

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._process is not None and self._process.poll() is None:
            self.kill()
