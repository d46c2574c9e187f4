"""Measures that only a server can take: its requests, its tasks, and the disk of the data folder."""

from __future__ import annotations

import asyncio
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from restante.hub.door.hub import OpenHub
from restante.model.health.bounds import Measure, RateWindow, Reading, flag, mean
from restante.server.health.metrics import ApiTotals

ServerTask = asyncio.Future[None]


def measure_server(hub: OpenHub, api: ApiTotals, folder: Path | None) -> None:
    """Register what can be measured before the server runs."""
    hub.register_measure("doors", _requests(api))
    if folder is not None:
        hub.register_measure("store", lambda: [_disk_left(folder)])


def measure_tasks(hub: OpenHub, tasks: Sequence[ServerTask], draining: asyncio.Event) -> None:
    """Register the tasks that a server cannot do without."""

    def measure() -> Iterator[Reading]:
        ended = sum(task.done() for task in tasks)
        died = ended > 0 and not draining.is_set()
        yield flag("dead_tasks", f"{ended} of the server's own tasks ended. Start the hub again." if died else None)

    hub.register_measure("doors", measure)


def _requests(api: ApiTotals, clock: Callable[[], float] = time.monotonic) -> Measure:
    window = RateWindow()

    def measure() -> Iterator[Reading]:
        now = (api.requests, api.failures, api.quick, api.quick_seconds)
        requests, failures, quick, seconds = window.added(clock(), now)
        if requests:
            yield Reading(name="api_failures", value=failures, unit="per_minute")
        took = mean(seconds * 1_000, quick)
        if took is not None:
            yield Reading(name="api_latency", value=took, unit="ms")

    return measure


def _disk_left(folder: Path) -> Reading:
    usage = shutil.disk_usage(folder)
    share = 100 * usage.free / usage.total if usage.total else 0.0
    reason = f"{usage.free:,} of {usage.total:,} bytes are free for the data folder."
    return Reading(name="disk_left", value=share, unit="percent", reason=reason)
