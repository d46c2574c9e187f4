"""A hub served: from opening the data folder to the last answer after SIGTERM."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import os
import signal
import socket
import sys
import threading
from collections.abc import Awaitable, Callable, Generator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

import msgspec
import uvicorn

from restante.assembly import open_hub
from restante.errors import InvalidRequest, Unavailable
from restante.hub.door.in_process import InProcess
from restante.limits import CONNECTIONS_BACKLOG, KIB, SEND_BYTES_MAX
from restante.outside.origins import origin_ports
from restante.ports.backplane import Backplane
from restante.ports.clock import Clock
from restante.ports.content import OriginPort
from restante.ports.store import Store
from restante.server.access.gate import gate_of, is_loopback
from restante.server.access.origin_secret import origin_secret
from restante.server.app import Application
from restante.server.connections.exchange import NOSNIFF
from restante.server.connections.protocol import SWEEP_SECONDS, HttpConnection
from restante.server.connections.socket_protocol import Socket
from restante.server.desk import Desk
from restante.server.health.measures import measure_tasks
from restante.server.hub_metrics import HubMetrics
from restante.server.logs import leave_tickets_out
from restante.server.memory import GIVE_BACK_SECONDS, give_back
from restante.server.metrics import Metrics
from restante.server.mounts import MountedApplication
from restante.server.routes.health import cached_checks
from restante.server.short_routes.short_routes import ShortRoutes
from restante.settings import Settings
from restante.settings_tree import KeyPath
from restante.version import __version__

_log = logging.getLogger("restante.server")

_FIRST_ROUND_SECONDS = 2.0
_NEW_OBJECTS_MAX = 50_000
"""The collector of cyclic garbage looks when there are so many new objects, and not every 700: a publish makes dozens,
and leaves no cycles. Measured: a fifth less processor time for small publishes."""


class _Server(uvicorn.Server):
    """Uvicorn's server, with signals left to us: an orderly end is no death by signal."""

    announce: Callable[[], None]
    before_announcing: Callable[[], Awaitable[object]]

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        await self.before_announcing()
        self.announce()

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        yield


class Service:
    """A hub and its server, not yet running."""

    def __init__(
        self,
        folder: str | os.PathLike[str] | None,
        settings: Settings,
        *,
        insecure: bool = False,
        store: Store | None = None,
        origins: Mapping[str, OriginPort] | None = None,
        clock: Clock | None = None,
        places: Mapping[KeyPath, str] | None = None,
        backplane: Backplane | None = None,
    ) -> None:
        path = None if folder is None else Path(folder)
        gate = gate_of(settings.server, path, insecure=insecure)
        self._socket = _bound(settings.server.host, settings.server.port)
        try:
            ports = origin_ports(settings, _origin_secret(settings, path)) if origins is None else dict(origins)
            place = None if store is not None else settings.store_url or path
            hub = open_hub(place, settings=settings, origins=ports, clock=clock, store=store, backplane=backplane)
        except BaseException:
            self._socket.close()
            raise
        metrics = Metrics()
        host, port = self._socket.getsockname()[:2]
        self.url = f"http://{f'[{host}]' if ':' in host else host}:{port}"
        folder_of_data = None if settings.store_url else path
        self.desk = Desk(InProcess(hub), settings, gate, folder_of_data, metrics, self.url, places or {})
        metrics.registry.register(HubMetrics(self.desk))
        self.desk.health.checks.update(cached_checks(self.desk))
        self.application = Application(self.desk)
        given = {"settings": settings.server, "metrics": metrics}
        self._bound: type[HttpConnection] = type("Connection", (HttpConnection,), given)
        self._server = _Server(self._config())

    def _config(self) -> uvicorn.Config:
        server = self.desk.settings.server
        leave_tickets_out()
        return uvicorn.Config(
            self.application,
            http=self._bound,
            ws=type("Socket", (Socket,), {"room": self.desk.room}),
            ws_max_size=SEND_BYTES_MAX + 64 * KIB,
            ws_ping_interval=server.answer_idle_seconds,
            ws_ping_timeout=server.answer_idle_seconds,
            ws_per_message_deflate=False,
            lifespan="off",
            log_config=None,
            access_log=False,
            headers=[(name.decode(), value.decode()) for name, value in (NOSNIFF,)],
            server_header=False,
            proxy_headers=False,
            timeout_keep_alive=round(server.keep_alive_seconds),
            timeout_graceful_shutdown=round(server.drain_seconds),
            backlog=CONNECTIONS_BACKLOG,
        )

    async def run(self, started: Callable[[], None] = lambda: None) -> None:
        """Serve until `drain` is called, then finish what is under way and close the hub."""
        self._tell()
        sweeper = asyncio.ensure_future(self._sweep())
        post = asyncio.ensure_future(self.desk.post.run(self.desk.draining))
        passes = asyncio.ensure_future(self.desk.passes.run(self.desk.draining))
        keeper = asyncio.ensure_future(self._give_memory_back())
        rates = asyncio.ensure_future(self.desk.rates.run())
        self._server.announce = started
        self._server.before_announcing = self._begin_health
        measure_tasks(self.desk.hub.health_sources, (sweeper, post, passes, keeper, rates), self.desk.draining)
        self._bound.shorts = ShortRoutes(self.desk, self.application.web)
        try:
            await self._server.serve([self._socket])
        finally:
            sweeper.cancel()
            keeper.cancel()
            rates.cancel()
            post.cancel()
            passes.cancel()
            await asyncio.wait((post, passes))
            await self.desk.link.thread(self.desk.health.close)
            await self.desk.link.close()
            _log.info("ended")

    async def _begin_health(self) -> None:
        """The server answers already. It is announced when its health is known, unless that takes long."""
        self.desk.health.begin()
        await self.desk.link.thread(self.desk.health.wait_for_first, _FIRST_ROUND_SECONDS)

    def _tell(self) -> None:
        gate = self.desk.gate
        fields = {
            "version": __version__,
            "url": self.url,
            "data": self.desk.settings.store_url or str(self.desk.folder),
            "access": "open" if gate.open else "tokens",
        }
        _log.info("serving", extra={"fields": fields})
        if gate.open and not is_loopback(self.desk.settings.server.host):
            _log.warning("Everybody who reaches this address may do everything here: no token is asked for.")

    def drain(self) -> None:
        """Stop accepting, tell those who wait, finish; from the event loop's thread."""
        if self.desk.draining.is_set():
            self._server.force_exit = True
        else:
            _log.info("ending")
        self.desk.draining.set()
        self._server.should_exit = True
        for mounted in self.application.mounts:
            mounted.drain()

    def mount(self, mounted: MountedApplication) -> None:
        """Serve something else here too, before it runs."""
        self.application.mounts = (*self.application.mounts, mounted)

    async def _sweep(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            due = loop.time() + SWEEP_SECONDS
            await asyncio.sleep(SWEEP_SECONDS)
            if loop.time() - due > SWEEP_SECONDS / 4:
                continue  # the hub itself was slow, so nobody can be blamed
            for connection in tuple(self._server.server_state.connections):
                if isinstance(connection, HttpConnection):
                    _sweep(connection, loop.time())

    async def _give_memory_back(self) -> None:
        while True:
            await asyncio.sleep(GIVE_BACK_SECONDS)
            await self.desk.link.thread(give_back)


def _sweep(connection: HttpConnection, now: float) -> None:
    try:
        connection.sweep(now)
    except Exception:  # noqa: BLE001  # whatever it is, the others must be looked at too, and again
        _log.exception("A connection could not be looked at, and is closed.")
        connection.transport.abort()


def _origin_secret(settings: Settings, folder: Path | None) -> bytes | None:
    """What signs calls to origins that have no secret of their own; made only if there are such."""
    called = (origin for origin in settings.origins.values() if origin.content_url or origin.dequeued_url)
    needed = any(origin.secret is None for origin in called)
    return origin_secret(folder) if needed and folder is not None else None


def _bound(host: str, port: int) -> socket.socket:
    bound = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind((host, port))
        bound.set_inheritable(False)
    except OSError as error:
        bound.close()
        raise InvalidRequest(f"{host}:{port} cannot be served on: {error}. Choose another --host or --port.") from error
    return bound


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    if sys.platform == "win32":
        return None
    import uvloop  # noqa: PLC0415 - not there on every platform

    return uvloop.new_event_loop


def serve(service: Service, started: Callable[[], None]) -> None:
    """Serve in this thread until SIGTERM or SIGINT."""

    async def run() -> None:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, service.drain)
        await service.run(started)

    _spare_the_collector()
    _allow_connections()
    with asyncio.Runner(loop_factory=_loop_factory()) as runner:
        runner.run(run())


def _spare_the_collector() -> None:
    """What there is now stays as long as the process: nobody need look at it again."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(_NEW_OBJECTS_MAX, 20, 100)


def _allow_connections() -> None:
    """Each connection takes a file: as many as the system lets this process have."""
    if sys.platform == "win32":
        return
    import resource  # noqa: PLC0415 - not there on every platform

    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


class ServedHub:
    """A hub served by a thread of this process. Use it in a `with` statement, or stop it."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._loop: asyncio.AbstractEventLoop | None = None
        self._error: BaseException | None = None
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._run, name="restante-server", daemon=True)
        self._thread.start()
        self._ready.wait()
        if self._error is not None:
            raise Unavailable(f"The hub did not start: {self._error!r}.") from self._error

    @property
    def url(self) -> str:
        return self._service.url

    @property
    def desk(self) -> Desk:
        return self._service.desk

    def _run(self) -> None:
        async def run() -> None:
            self._loop = asyncio.get_running_loop()
            await self._service.run(self._ready.set)

        try:
            with asyncio.Runner(loop_factory=_loop_factory()) as runner:
                runner.run(run())
        except BaseException as error:  # noqa: BLE001  # handed to whoever started it
            self._error = error
            _log.exception("The server ended.")
        finally:
            self._ready.set()

    def stop(self) -> None:
        """Drain, close, and wait until all is done."""
        if self._loop is not None and self._thread.is_alive():
            with contextlib.suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._service.drain)
        self._thread.join()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


def start(  # noqa: PLR0913 - all that a program which serves a hub may choose
    folder: str | os.PathLike[str] | None,
    settings: Settings | None = None,
    *,
    host: str = "127.0.0.1",
    port: int = 0,
    insecure: bool = False,
    store: Store | None = None,
    origins: Mapping[str, OriginPort] | None = None,
    clock: Clock | None = None,
    backplane: Backplane | None = None,
    prepare: Callable[[Service], None] = lambda _: None,
) -> ServedHub:
    """Serve a hub in a thread of this process; port 0 takes a free one. `prepare` may mount something before it runs."""
    chosen = settings or Settings()
    placed = msgspec.structs.replace(chosen, server=msgspec.structs.replace(chosen.server, host=host, port=port))
    service = Service(folder, placed, insecure=insecure, store=store, origins=origins, clock=clock, backplane=backplane)
    prepare(service)
    return ServedHub(service)
