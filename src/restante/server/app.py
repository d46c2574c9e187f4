"""The application: every request finds its route, is let in or not, and is answered, with problem details if need be."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Sequence

from restante.errors import Internal, OutcomeUnknown, RestanteError, Unavailable
from restante.server.access.web_access import WebAccess
from restante.server.connections import pipeline
from restante.server.connections.exchange import HUB_ENDS, ClientGone, Exchange, Receive, Scope, Send
from restante.server.desk import Desk
from restante.server.live import events, web_socket
from restante.server.live.web_socket import TICKET
from restante.server.route_table import MountedApplication, Route, Router, hand_over, is_below
from restante.server.routes import (
    acknowledgements,
    actions,
    backplane,
    batches,
    consignments,
    feed,
    groups,
    health,
    jobs,
    live_clients,
    mailboxes,
    partitions,
    producers,
    publishing,
    removal,
    sends,
    tokens,
    upkeep,
)
from restante.server.routes.pages import Pages

_log = logging.getLogger("restante.server")

SOCKETS: tuple[Route, ...] = (*pipeline.SOCKETS, *web_socket.SOCKETS)
"""The routes of web sockets."""
_WORKING: tuple[Route, ...] = (
    *publishing.ROUTES,
    *sends.ROUTES,
    *producers.ROUTES,
    *backplane.ROUTES,
    *consignments.ROUTES,
    *mailboxes.ROUTES,
    *removal.ROUTES,
    *batches.ROUTES,
    *acknowledgements.ROUTES,
    *partitions.ROUTES,
    *feed.ROUTES,
    *groups.ROUTES,
    *actions.ROUTES,
    *jobs.ROUTES,
    *events.ROUTES,
    *live_clients.ROUTES,
    *tokens.ROUTES,
    *upkeep.ROUTES,
    *health.ROUTES,
)
ROUTES: tuple[Route, ...] = (*_WORKING, *Pages(_WORKING, SOCKETS).routes)
"""All routes, with those of the pages that describe them."""


_ROUTER, _SOCKET_ROUTER = Router(ROUTES), Router(SOCKETS)


class Application:
    """Restante as an ASGI application."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._router = _ROUTER
        self._sockets = _SOCKET_ROUTER
        self.web = WebAccess(desk.settings.server, desk.gate, desk.url, free_paths=health.HEALTH_PATHS)
        self.mounts: Sequence[MountedApplication] = ()
        """The applications that are served here besides."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            await self._http(Exchange(scope, receive, send), receive, send)
        elif scope["type"] == "websocket":
            await receive()
            await self._web_socket(Exchange(scope, receive, send))

    async def _web_socket(self, exchange: Exchange) -> None:
        """After the first event of a web socket, which says nothing: accept and serve it, or refuse it."""
        started, route = time.perf_counter(), None
        try:
            self.web.check(exchange)
            route = self._sockets.find(exchange)
            self._admit(exchange, route)
            await self.handle(route, exchange)
        except RestanteError as error:
            await exchange.deny_socket(error)
            _log_request(exchange, route, time.perf_counter() - started)

    async def _http(self, exchange: Exchange, receive: Receive, send: Send) -> None:
        started, route = time.perf_counter(), None
        try:
            self.web.check(exchange)
            mounted = self._mounted(exchange)
            if mounted is not None:
                await hand_over(mounted, exchange, receive, send)
            elif exchange.method == "OPTIONS" and (allowed := self.web.preflight(exchange)) is not None:
                await exchange.answer(204, headers=allowed)
            else:
                route = self._router.find(exchange)
                self._admit(exchange, route)
                await self.handle(route, exchange)
        except (Exception, asyncio.CancelledError) as error:  # noqa: BLE001  # whatever it is, the client gets an answer
            await answer_failure(exchange, error)
        self._count(exchange, route, time.perf_counter() - started)

    async def handle(self, route: Route, exchange: Exchange) -> None:
        """Answer a request that was let in."""
        await route.handler(self._desk, exchange)

    def _mounted(self, exchange: Exchange) -> MountedApplication | None:
        for mounted in self.mounts:
            if is_below(exchange.path, mounted):
                return mounted
        return None

    def _admit(self, exchange: Exchange, route: Route) -> None:
        if route.roles is not None:
            if TICKET in route.query:
                self._take_ticket(exchange)
            authorization, place = exchange.header(b"authorization"), exchange.place
            recipient, group = place.get("recipient"), place.get("group")
            exchange.grant = self._desk.gate.admit(authorization, route.roles, recipient, group)
            exchange.roles = route.roles
        exchange.allow(route.query)

    def _take_ticket(self, exchange: Exchange) -> None:
        """Take a ticket in the address, which stands for the header that a browser cannot send."""
        ticket = exchange.text(TICKET)
        if ticket is not None:
            exchange.authorize(self._desk.tickets.authorization(ticket, exchange.place.get("recipient")))

    def _count(self, exchange: Exchange, route: Route | None, seconds: float) -> None:
        path = "none" if route is None else route.path
        self._desk.metrics.request(exchange.method if route else "none", path, exchange.status, seconds)
        self._desk.metrics.sent.add(exchange.sent_bytes)
        if route is not None and route.roles is not None:
            waited = route.is_long or b"wait=" in exchange.scope["query_string"]
            self._desk.metrics.api.add(exchange.status, seconds, waited=waited)
        _log_request(exchange, route, seconds)


def _log_request(exchange: Exchange, route: Route | None, seconds: float) -> None:
    level = logging.DEBUG if exchange.status < 400 else logging.INFO if exchange.status < 500 else logging.WARNING
    if _log.isEnabledFor(level):
        _log.log(level, "request", extra={"fields": _told(exchange, "none" if route is None else route.path, seconds)})


def _told(exchange: Exchange, path: str, seconds: float) -> dict[str, object]:
    """The fields of a request that the log shows: none of its content, and no secret."""
    client = exchange.scope.get("client")
    told: dict[str, object] = {
        "correlation_id": exchange.correlation_id,
        "method": exchange.method,
        "route": path,
        "status": exchange.status,
        "seconds": round(seconds, 6),
        "sent_bytes": exchange.sent_bytes,
        "client": client[0] if client else "",
        "caller": exchange.grant.name,
    }
    return told | {"code": exchange.code} if exchange.code else told


async def answer_failure(exchange: Exchange, error: BaseException) -> None:
    """Answer a request that failed, or break it off. The log has what clients are not told."""
    match error:
        case RestanteError():
            await answer_problem(exchange, error)
        case ClientGone():
            await exchange.break_off()
        case asyncio.CancelledError() if exchange.is_read_slowly:
            # The server ends, and the client may never read an answer to what the server no longer waits for.
            await exchange.break_off()
        case asyncio.CancelledError():
            await answer_problem(exchange, _unfinished(exchange.method))
        case _:
            fields = {"correlation_id": exchange.correlation_id}
            _log.error("A request failed.", exc_info=error, extra={"fields": fields})
            await answer_problem(exchange, Internal("The hub failed. Its log has more, by the correlation id."))


def _unfinished(method: str) -> RestanteError:
    """The error for a request that the end of the hub cut off."""
    if method in ("GET", "HEAD"):
        return Unavailable(HUB_ENDS)
    return OutcomeUnknown(
        "The hub ended before it had answered. The request may have been carried out; repeat it unchanged."
    )


async def answer_problem(exchange: Exchange, error: RestanteError) -> None:
    try:
        await exchange.problem(error)
    except ClientGone:
        await exchange.break_off()
