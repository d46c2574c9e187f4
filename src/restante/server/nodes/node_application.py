"""A node as an ASGI application: a door that says of itself whether it lives and is ready.

Who asks a node that decides whether to restart it, or to send it callers. The shards of the others are no reason for either.
"""

from __future__ import annotations

from collections.abc import Callable

from restante.errors import RestanteError
from restante.server.connections.exchange import Exchange
from restante.server.doors.door_application import DoorApplication
from restante.server.route_table import Route
from restante.server.routes.health import Check, Health

_NO_STORE = ((b"cache-control", b"no-store"),)


class NodeApplication(DoorApplication):
    """Restante as it is seen through one of several nodes."""

    check_lease: Callable[[], None]
    """Raises why this node is not one of those of the store at the moment."""

    async def handle(self, route: Route, exchange: Exchange) -> None:
        if route.path == "/livez":
            await exchange.json(200, Health(status="pass", checks=[]), headers=_NO_STORE)
        elif route.path == "/readyz":
            await self._ready(exchange)
        else:
            await super().handle(route, exchange)

    async def _ready(self, exchange: Exchange) -> None:
        try:
            self.check_lease()
            if self._desk.draining.is_set():
                raise RestanteError("The node is shutting down.")
        except RestanteError as error:
            failed = Check(name="lease", status="fail", duration_ms=0.0, reason=error.message)
            await exchange.json(503, Health(status="fail", checks=[failed]), headers=_NO_STORE)
        else:
            passed = Check(name="lease", status="pass", duration_ms=0.0)
            await exchange.json(200, Health(status="pass", checks=[passed]), headers=_NO_STORE)
