"""The processes of the catalogue: a hub, the API and workers, on free ports, with their files in one folder."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Self

from examples.catalog.worker import DATABASE_VARIABLE

CHECKOUT = Path(__file__).parents[2]
END_SECONDS = 20


class Crew:
    """Starts processes and ends them all: the workers, then the API, then the hub."""

    def __init__(self, folder: Path, settings: Mapping[str, str] | None = None) -> None:
        """`settings` are variables of the environment, such as `RESTANTE_GROUPS__HEARTBEAT_SECONDS`."""
        folder = folder.absolute()
        folder.mkdir(parents=True, exist_ok=True)
        self.folder, self.database = folder, folder / "catalog.db"
        self.hub_url = self.api_url = ""
        self.workers: list[subprocess.Popen[str]] = []
        own = {DATABASE_VARIABLE: str(self.database), "PYTHONUNBUFFERED": "1"}
        self._environment = {**os.environ, **own, **(settings or {})}
        self._processes: list[subprocess.Popen[str]] = []
        self._files = ExitStack()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        _end(self.workers)
        for process in reversed(self._processes):
            _end([process])
        self._files.close()

    def start(self, *, workers: int = 2, port: int = 0) -> None:
        """Start hub, API and workers; the port is that of the API."""
        self.start_hub()
        self.start_api(port)
        for _ in range(workers):
            self.start_worker()

    def start_hub(self) -> None:
        self.hub_url = self._address(
            "hub", "-m", "restante", "serve", "--data", str(self.folder / "hub"), "--port", "0"
        )

    def start_api(self, port: int = 0) -> None:
        options = ["--hub", self.hub_url, "--database", str(self.database), "--port", str(port)]
        self.api_url = self._address("api", "-m", "examples.catalog.serve", *options)

    def start_worker(self) -> subprocess.Popen[str]:
        name = f"worker-{len(self.workers) + 1}"
        worker = self._begin(name, "-m", "restante", "work", "examples.catalog.worker:app", "--hub", self.hub_url)
        self.workers.append(worker)
        return worker

    def kill_worker(self) -> None:
        """As a machine that fails: the worker leaves nothing in order."""
        self.workers[0].kill()
        self.workers[0].wait()

    def _address(self, name: str, *arguments: str) -> str:
        """Begin a process whose first line ends with its address."""
        process = self._begin(name, *arguments, stdout=subprocess.PIPE)
        assert process.stdout is not None
        line = process.stdout.readline()
        if "http" not in line:
            raise RuntimeError(f"The {name} did not start: see {self.folder / name}.log")
        return line.split()[-1]

    def _begin(self, name: str, *arguments: str, stdout: int | None = None) -> subprocess.Popen[str]:
        log = self._files.enter_context((self.folder / f"{name}.log").open("a", encoding="utf-8"))
        process = subprocess.Popen(
            [sys.executable, *arguments],
            stdin=subprocess.DEVNULL,
            stdout=log if stdout is None else stdout,
            stderr=log,
            cwd=CHECKOUT,
            env=self._environment,
            text=True,
            start_new_session=True,  # Ctrl-C reaches this process alone, which ends the others in their order
        )
        self._processes.append(process)
        return process


def _end(processes: Sequence[subprocess.Popen[str]]) -> None:
    """End the processes in order; a process that does not end is killed."""
    for process in processes:
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
    for process in processes:
        try:
            process.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        if process.stdout is not None:
            process.stdout.close()
