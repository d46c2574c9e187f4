"""A hub served: from opening the data folder to the last answer after SIGTERM."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import socket
import sys
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Protocol, Self

import msgspec

from restante.assembly import open_hub
from restante.errors import InvalidRequest, Unavailable
from restante.hub.door.in_process import InProcess
from restante.hub.door.opening_rows import BlobsAhead
from restante.model.access.open_access import is_loopback
from restante.outside.filing_clerk import FilingClerk
from restante.outside.origins import origin_ports
from restante.ports.backplane import Backplane
from restante.ports.carrier import Shard
from restante.ports.clerk import Clerk
from restante.ports.clock import Clock
from restante.ports.content import OriginPort
from restante.ports.store import Store
from restante.process_memory import spare_the_collector
from restante.server.access.gate import gate_of
from restante.server.access.private_file import origin_secret
from restante.server.app import Application
from restante.server.desk import Desk
from restante.server.health.hub_metrics import HubMetrics
from restante.server.health.measures import measure_tasks
from restante.server.health.metrics import Metrics
from restante.server.http_server import HttpServer
from restante.server.routes.health import cached_checks
from restante.server.short_routes.short_routes import ShortRoutes
from restante.settings import Settings
from restante.settings.tree import KeyPath
from restante.version import __version__

_log = logging.getLogger("restante.server")

_FIRST_ROUND_SECONDS = 2.0


@dataclass(frozen=True, slots=True)
class ServedPlace:
    """The place where the hub of one shard is served, which is not where its clients are."""

    bound: socket.socket | None
    """None: connections are handed to it."""
    url: str
    """The address of the doors."""
    home: Path
    """The folder with the tokens and secrets of all shards."""
    shard: Shard


class Service(HttpServer):
    """A hub and its server, not yet running."""

    desk: Desk

    def __init__(  # noqa: PLR0913 - all that a program which serves a hub may choose
        self,
        folder: str | os.PathLike[str] | None,
        settings: Settings,
        *,
        insecure: bool = False,
        store: Store | None = None,
        origins: Mapping[str, OriginPort] | None = None,
        clock: Clock | None = None,
        places: Mapping[KeyPath, str] | None = None,
        place: ServedPlace | None = None,
        backplane: Backplane | None = None,
        ahead: BlobsAhead | None = None,
    ) -> None:
        path = None if folder is None else Path(folder)
        home = path if place is None else place.home
        gate = gate_of(settings.server, home, insecure=insecure)
        bound = listening_socket(settings.server.host, settings.server.port) if place is None else place.bound
        try:
            ports = origin_ports(settings, _origin_secret(settings, home)) if origins is None else dict(origins)
            data = None if store is not None else settings.store_url or path
            shard = None if place is None else place.shard
            hub = open_hub(
                data,
                settings=settings,
                origins=ports,
                clock=clock,
                store=store,
                shard=shard,
                backplane=backplane,
                clerk=_clerk(settings) if store is None else None,
                ahead=ahead,
            )
        except BaseException:
            if bound is not None:
                bound.close()
            raise
        metrics, url = Metrics(), place.url if place is not None else url_of(_bound(bound))
        folder_of_data = None if settings.store_url else path
        self.desk = Desk(InProcess(hub), settings, gate, folder_of_data, metrics, url, places or {})
        metrics.registry.register(HubMetrics(self.desk))
        self.desk.health.checks.update(cached_checks(self.desk))
        super().__init__(self.desk, Application(self.desk), bound)

    async def run(self, started: Callable[[], None] = lambda: None) -> None:
        """Serve until `drain` is called, then finish what is under way and close the hub."""
        self._tell()
        keeping = self.begin_keeping()
        post = asyncio.ensure_future(self.desk.post.run(self.desk.draining))
        passes = asyncio.ensure_future(self.desk.passes.run(self.desk.draining))
        rates = asyncio.ensure_future(self.desk.rates.run())
        self.server.announce = started
        self.server.before_announcing = self._begin_health
        measure_tasks(self.desk.hub, (post, passes, *keeping, rates), self.desk.draining)
        self.desk.hub.write_in(asyncio.get_running_loop())
        self.connection.shorts = ShortRoutes(self.desk, self.application.web)
        try:
            await self.serve()
        finally:
            for task in (*keeping, rates, post, passes):
                task.cancel()
            await asyncio.wait((post, passes))
            await self._close_hub()
            _log.info("ended")

    async def _close_hub(self) -> None:
        self.desk.other_shards.close()
        await self.desk.link.thread(self.desk.health.close)
        await self.desk.link.close()

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


def _clerk(settings: Settings) -> Clerk | None:
    """The clerk that computes what filing writes: a process of its own, where there can be one."""
    return FilingClerk() if settings.filing_process and sys.platform != "win32" else None


def _bound(bound: socket.socket | None) -> socket.socket:
    assert bound is not None, "who has no place listens here"
    return bound


def _origin_secret(settings: Settings, folder: Path | None) -> bytes | None:
    """The secret that signs calls to origins that have none of their own; made only if there are such."""
    called = (origin for origin in settings.origins.values() if origin.content_url or origin.dequeued_url)
    needed = any(origin.secret is None for origin in called)
    return origin_secret(folder) if needed and folder is not None else None


def listening_socket(host: str, port: int) -> socket.socket:
    bound = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind((host, port))
        bound.set_inheritable(False)
    except OSError as error:
        bound.close()
        raise InvalidRequest(f"{host}:{port} cannot be served on: {error}. Choose another --host or --port.") from error
    return bound


def url_of(bound: socket.socket) -> str:
    """The address of a server on this socket."""
    host, port = bound.getsockname()[:2]
    return f"http://{f'[{host}]' if ':' in host else host}:{port}"


def loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
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

    spare_the_collector()
    allow_connections()
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        runner.run(run())


def allow_connections() -> None:
    """Each connection takes a file: as many as the system lets this process have."""
    if sys.platform == "win32":
        return
    import resource  # noqa: PLC0415 - not there on every platform

    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


class RunningService(Protocol):
    """A service that runs in an event loop until it is drained: a hub, or a door."""

    url: str

    async def run(self, started: Callable[[], None] = ...) -> None: ...
    def drain(self) -> None: ...
    def release(self) -> None: ...


class ServedHub:
    """A hub served by a thread of this process. Use it in a `with` statement, or stop it."""

    def __init__(self, service: RunningService) -> None:
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
    def service(self) -> RunningService:
        return self._service

    @property
    def desk(self) -> Desk:
        assert isinstance(self._service, Service), "a door has no hub"
        return self._service.desk

    def _run(self) -> None:
        async def run() -> None:
            self._loop = asyncio.get_running_loop()
            await self._service.run(self._ready.set)

        try:
            with asyncio.Runner(loop_factory=loop_factory()) as runner:
                runner.run(run())
        except BaseException as error:  # noqa: BLE001  # handed to the thread that started it
            self._error = error
            _log.exception("The server ended.")
        finally:
            self._ready.set()

    def release(self) -> None:
        """Let go of those who wait: the end is near."""
        if self._loop is not None:
            with contextlib.suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._service.release)

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
