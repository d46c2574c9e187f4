"""`MountElsewhere`: what another process serves under a path, such as the console, whose sessions are in the memory of one."""

from __future__ import annotations

from restante.errors import RestanteError
from restante.limits import REQUEST_BYTES_MAX
from restante.server.app import answer_problem
from restante.server.connections.bodies import received
from restante.server.connections.exchange import ClientGone, Exchange, Receive, Scope, Send
from restante.server.doors.upstream import Upstream, forward


class MountElsewhere:
    """Requests below a path, passed on as they came."""

    def __init__(self, path: str, upstream: Upstream) -> None:
        self.path = path
        self._upstream = upstream

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        exchange = Exchange(scope, receive, send)
        try:
            body = bytes(await received(exchange, None, REQUEST_BYTES_MAX))
            await forward(self._upstream, exchange, body, receive, send)
        except RestanteError as error:
            await answer_problem(exchange, error)
        except ClientGone:
            await exchange.break_off()

    def drain(self) -> None:
        """End what goes on for ever with the process that serves it."""
        self._upstream.close()
