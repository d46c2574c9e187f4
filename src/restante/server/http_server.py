"""`HttpServer` serves an application on a socket, with all that protects it, until it is stopped: a hub's, or a door's."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
from collections.abc import Awaitable, Callable, Generator
from typing import Protocol, cast

import uvicorn

from restante.limits import CONNECTIONS_BACKLOG, KIB, SEND_BYTES_MAX
from restante.process_memory import GIVE_BACK_SECONDS, give_back
from restante.server.app import Application
from restante.server.connections.exchange import NOSNIFF
from restante.server.connections.protocol import SWEEP_SECONDS, HttpConnection
from restante.server.connections.socket_protocol import Socket
from restante.server.desk import DoorDesk
from restante.server.logs import leave_tickets_out
from restante.server.route_table import MountedApplication

_log = logging.getLogger("restante.server")
_TICK_SECONDS = 0.1
_TICKS_A_DAY = 864_000
_END_SECONDS = 0.01


class AnnouncedServer(uvicorn.Server):
    """Uvicorn's server, with signals left to us: an orderly end is no death by signal."""

    announce: Callable[[], None]
    before_announcing: Callable[[], Awaitable[object]]

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self._ending = asyncio.Event()

    def end(self) -> None:
        """Serve no longer than what is under way."""
        self.should_exit = True
        self._ending.set()

    async def main_loop(self) -> None:
        """As uvicorn's; but an end is heard at once, and not within a tenth of a second."""
        ticks = 0
        while not await self.on_tick(ticks):
            ticks = (ticks + 1) % _TICKS_A_DAY
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_TICK_SECONDS):
                    await self._ending.wait()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """As uvicorn's; but whether all is answered is looked at ten times as often: a shard that moves is missed meanwhile."""
        for closed in (*self.servers, *(sockets or ())):
            closed.close()
        for connection in tuple(self.server_state.connections):
            connection.shutdown()
        try:
            async with asyncio.timeout(self.config.timeout_graceful_shutdown):
                await self._answered()
        except TimeoutError:
            for task in self.server_state.tasks:
                task.cancel()

    async def _answered(self) -> None:
        state = self.server_state
        while (state.connections or state.tasks) and not self.force_exit:  # noqa: ASYNC110 - uvicorn tells nobody
            await asyncio.sleep(_END_SECONDS)
        for server in self.servers:
            await server.wait_closed()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        await self.before_announcing()
        self.announce()

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        yield


class HttpServer:
    """An application that is served, not yet running."""

    def __init__(
        self,
        desk: DoorDesk,
        application: Application,
        bound: socket.socket | None,
        connection: type[HttpConnection] = HttpConnection,
    ) -> None:
        self.desk = desk
        self.application = application
        self.url = desk.url
        self.sockets = [] if bound is None else [bound]
        """The sockets on which the application is served."""
        given = {"settings": desk.settings.server, "metrics": desk.metrics}
        self.connection: type[HttpConnection] = type("Connection", (connection,), given)
        self.server = AnnouncedServer(self._config())

    def _config(self) -> uvicorn.Config:
        server = self.desk.settings.server
        leave_tickets_out()
        return uvicorn.Config(
            self.application,
            http=self.connection,
            ws=type("Socket", (Socket,), {"room": self.desk.room, "settings": server}),
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

    def begin_keeping(self) -> tuple[asyncio.Future[None], ...]:
        """Look after connections and memory, in tasks that are to be cancelled at the end."""
        return asyncio.ensure_future(self._sweep()), asyncio.ensure_future(self._give_memory_back())

    async def serve(self) -> None:
        """Serve until `drain` is called, and the requests under way are answered."""
        await self.server.serve(self.sockets)

    def drain(self) -> None:
        """Stop accepting, tell those who wait, finish; from the event loop's thread."""
        if self.server.should_exit:
            self.server.force_exit = True
        else:
            _log.info("ending")
        self.release()
        self.server.end()

    def release(self) -> None:
        """Let go of those who wait, and tell those who are connected: the end is near."""
        self.desk.draining.set()
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
            for connection in tuple(self.server.server_state.connections):
                _sweep(cast("Swept", connection), loop.time())

    async def _give_memory_back(self) -> None:
        while True:
            await asyncio.sleep(GIVE_BACK_SECONDS)
            await self.desk.link.thread(give_back)


class Swept(Protocol):
    """A connection of a client, of whatever protocol, that is looked at once a second."""

    transport: asyncio.Transport

    def sweep(self, now: float) -> None:
        """Cut off a client that is too slow, or a handshake that nobody ends."""
        ...


def _sweep(connection: Swept, now: float) -> None:
    try:
        connection.sweep(now)
    except Exception:  # noqa: BLE001  # whatever it is, the others must be looked at too, and again
        _log.exception("A connection could not be looked at, and is closed.")
        connection.transport.abort()
