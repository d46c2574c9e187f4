"""A worker as a process: signals, the port for orchestrators, the liveness file, and with which code it ends."""

from __future__ import annotations

import asyncio
import logging
import signal
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from restante.client.groups.member import new_member_name
from restante.client.transport.http_async import AsyncHttpLink
from restante.client.transport.options import terms_of
from restante.work.app import App
from restante.work.port import keep_touching, open_port
from restante.work.runner import WorkRunner

STUCK_EXIT = 75
"""A handler in a thread did not end in time: the parent of the process is to start it again."""
_SIGNALS = (signal.SIGTERM, signal.SIGINT)
_log = logging.getLogger("restante.work")


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerPlace:
    """The place of a worker: its hub, its name there, and the port where it is watched."""

    hub: str
    token: str | None = None
    member: str | None = None
    """The same name after a restart takes the old partitions over at once."""
    port: int | None = None
    """The port of `/livez`, `/readyz` and `/metrics`; 0 takes a free one."""
    host: str = "127.0.0.1"
    liveness_file: Path | None = None


def work(app: App, place: WorkerPlace, *, watch: Callable[[WorkRunner], None] | None = None) -> int:
    """Work until SIGTERM or Ctrl-C; gives the exit code. A second signal ends it at once."""
    with asyncio.Runner(loop_factory=_loop_factory()) as runner:
        return runner.run(work_async(app, place, watch=watch))


async def work_async(app: App, place: WorkerPlace, *, watch: Callable[[WorkRunner], None] | None = None) -> int:
    link = AsyncHttpLink(terms_of(place.hub, token=place.token, retries=0))
    if not app.hub.is_chosen:
        app.connect(place.hub, token=place.token)
    try:
        runner = WorkRunner(app, link, member=place.member or new_member_name())
        async with _signals(runner), _watched(runner, place):
            if watch is not None:
                watch(runner)
            await runner.run()
    finally:
        await app.hub.close_async()
        await link.close()
    return STUCK_EXIT if runner.stuck else 0


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """The quicker event loop, where it is installed."""
    try:
        from uvloop import new_event_loop  # noqa: PLC0415 - it may be missing
    except ImportError:
        return None
    return new_event_loop


@asynccontextmanager
async def _signals(runner: WorkRunner) -> AsyncIterator[None]:
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    asked = False

    def hear(number: signal.Signals) -> None:
        nonlocal asked
        if asked and task is not None:
            _log.warning("%s again: what runs is left, and is done again by another worker.", number.name)
            task.cancel()
        asked = True
        _log.info("%s: no new work is begun; what runs may end.", number.name)
        runner.stop()

    for each in _SIGNALS:
        with suppress(ValueError, RuntimeError, NotImplementedError):  # Only the main thread hears signals.
            loop.add_signal_handler(each, hear, each)
    try:
        yield
    finally:
        for each in _SIGNALS:
            with suppress(ValueError, RuntimeError, NotImplementedError):
                loop.remove_signal_handler(each)


@asynccontextmanager
async def _watched(runner: WorkRunner, place: WorkerPlace) -> AsyncIterator[None]:
    server = None if place.port is None else await open_port(runner, place.host, place.port)
    if server is not None:
        _log.info("The worker answers on http://%s:%s.", *server.sockets[0].getsockname()[:2])
    touching = None if place.liveness_file is None else asyncio.create_task(keep_touching(place.liveness_file))
    try:
        yield
    finally:
        if touching is not None and place.liveness_file is not None:
            touching.cancel()
            place.liveness_file.unlink(missing_ok=True)
        if server is not None:
            server.close()
