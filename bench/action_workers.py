"""A hub with one worker process: how many actions it does a second, and how long each takes from acceptance to done."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import sys
import time
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Self
from urllib.request import urlopen

import restante
import restante.aio
from bench.ours_wire import Restante
from bench.server import Process
from restante.client.surface import sync
from restante.model.actions.wanted_action import WantedAction

ROOT = Path(__file__).resolve().parents[1]
DONE = re.compile(r'restante_actions_done_total\{action="nothing",group="bench"\} (\d+)')
THINGS = 1_000
SENT_AT_ONCE = 5_000
LOOK_SECONDS = 0.05
DONE_SECONDS_MAX = 300


class Spent(NamedTuple):
    """Seconds by the clock, and of processor time of hub and worker."""

    seconds: float
    hub: float
    worker: float


class WorkedHub:
    """A hub and a worker of `bench.action_app`, each a process of its own."""

    def __init__(self, folder: Path) -> None:
        self.server = Restante(folder)
        command: list[str | Path] = [sys.executable, "-m", "restante", "work", "bench.action_app:app"]
        command += ["--hub", self.server.url]
        paths = os.pathsep.join((str(ROOT), str(ROOT / "src")))
        environment = os.environ | {"PYTHONPATH": paths}
        self._worker = Process(command, folder, environment=environment, log=folder / "worker.log")
        self._hub = restante.connect(self.server.url)
        self._worker.wait_until(lambda: True if "Doing the actions" in self._worker.output() else None)

    @property
    def hub(self) -> sync.Hub:
        return self._hub

    def done(self) -> int:
        """How many have their outcome at the hub: a worker is ahead of its reports."""
        with urlopen(f"{self.server.url}/metrics") as answer:
            found = DONE.search(answer.read().decode())
        return int(found[1]) if found else 0

    def spent(self) -> Spent:
        return Spent(time.perf_counter(), _processor(self.server.pid), _processor(self._worker.pid))

    def work_off(self, count: int) -> Spent:
        """Work off so many that wait, from when the worker may begin until it has done the last."""
        group, before = self._hub.group("bench"), self.done()
        group.pause()
        for first in range(0, count, SENT_AT_ONCE):
            self._hub.act_all([_wanted(number) for number in range(first, min(first + SENT_AT_ONCE, count))])
        began, deadline = self.spent(), time.monotonic() + DONE_SECONDS_MAX
        group.resume()
        while self.done() < before + count:
            assert time.monotonic() < deadline, "the worker stands still"
            time.sleep(LOOK_SECONDS)
        ended = self.spent()
        return Spent(*(later - earlier for later, earlier in zip(ended, began, strict=True)))

    def latencies(self, count: int, *, rate: float) -> list[float]:
        """The latencies of so many, one after another at this rate: seconds from acceptance to done, by the hub's clock, in order."""
        return sorted(asyncio.run(_latencies(self.server.url, count, rate)))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._hub.close()
        self._worker.stop(signal.SIGTERM)
        self.server.close()


def _wanted(number: int) -> WantedAction:
    return WantedAction(action="nothing", concerns=f"thing {number % THINGS}", data=b'{"number":%d}' % number)


async def _latencies(url: str, count: int, rate: float) -> list[float]:
    async with restante.aio.connect(url) as hub:
        began, sends = time.perf_counter(), []
        for number in range(count):
            await asyncio.sleep(max(0.0, began + number / rate - time.perf_counter()))
            thing = f"thing {number % THINGS}"
            sends.append(asyncio.create_task(hub.act("nothing", concerns=thing, data={"number": number})))
        found = []
        for sent in await asyncio.gather(*sends):
            status = await hub.outcome(sent.id, concerns=sent.concerns, wait=20)
            assert status.ended_at is not None, "it is done"
            found.append((status.ended_at - status.accepted_at).total_seconds())
        return found


def _processor(pid: int) -> float:
    """Seconds of processor time of a process so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
