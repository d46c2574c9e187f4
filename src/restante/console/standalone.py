"""A console of a hub elsewhere, served by itself: `restante console`."""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Callable
from functools import partial
from urllib.parse import urlsplit

import uvicorn

from restante.client.transport.address import addresses_of
from restante.console.application import Console
from restante.console.view.markup import BASE
from restante.console.web.doors import NetworkDoor
from restante.console.web.exchanges import ConsoleReply, Receive, Scope, Send, redirect, send_reply
from restante.limits import CONNECTIONS_BACKLOG, CONSOLE_STREAMS_MAX
from restante.model.access.open_access import refuse_open

_KEEP_ALIVE_SECONDS = 60
_DRAIN_SECONDS = 5


class ConsoleSite:
    """The console, and at the root the way to it. It answers to names of its own: a hub may ask for no token."""

    def __init__(self, console: Console, host: str) -> None:
        self._console = console
        self._names = frozenset({host.lower(), "localhost"})

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        host = next((value.decode("latin-1") for name, value in scope["headers"] if name == b"host"), "")
        if not self._answers_to(host):
            text = "This console answers to its own address only."
            await send_reply(send, ConsoleReply(text.encode(), 403, "text/plain; charset=utf-8"))
        elif scope["path"] == BASE or scope["path"].startswith(f"{BASE}/"):
            await self._console(scope, receive, send)
        else:
            await send_reply(send, redirect(BASE))

    def _answers_to(self, host: str) -> bool:
        """A name that a stranger made to point here is none of them; an address nobody can bend."""
        name = (urlsplit(f"//{host}").hostname or "").lower()
        if name in self._names:
            return True
        try:
            ipaddress.ip_address(name)
        except ValueError:
            return False
        return True


class _Server(uvicorn.Server):
    """Uvicorn's server, which ends the streams before it waits for the requests under way."""

    console: Console
    announce: Callable[[], None]

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await self.console.check_hub()
        await super().startup(sockets)
        if self.started:
            self.announce()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self.console.drain()
        await super().shutdown(sockets)
        await self.console.close()


def serve_console(hub: str, *, host: str, port: int, insecure: bool, started: Callable[[str], None]) -> None:
    """Serve until SIGTERM or SIGINT. A hub that asks for no token is not shown to other machines, unless `insecure`."""
    console = Console(
        NetworkDoor(*addresses_of(hub)),
        cookie=f"restante_console_{port}",
        check_open=partial(refuse_open, host, insecure=insecure),
    )
    config = uvicorn.Config(
        ConsoleSite(console, host),
        host=host,
        port=port,
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        headers=[("x-content-type-options", "nosniff")],
        timeout_keep_alive=_KEEP_ALIVE_SECONDS,
        timeout_graceful_shutdown=_DRAIN_SECONDS,
        limit_concurrency=4 * CONSOLE_STREAMS_MAX,
        backlog=CONNECTIONS_BACKLOG,
    )
    server = _Server(config)
    server.console = console
    shown = f"[{host}]" if ":" in host else host
    server.announce = lambda: started(f"http://{shown}:{port}{BASE}")
    server.run()
