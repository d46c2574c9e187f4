"""Which handler serves a request: one table of routes, found segment by segment; and applications mounted under a path."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from typing import Protocol

from restante.calls.call import Home
from restante.errors import MethodNotAllowed, NotFound
from restante.limits import REQUEST_BYTES_MAX
from restante.model.access.access import Role
from restante.server.connections.exchange import CORRELATION_ID, Event, Exchange, Receive, Scope, Send, unquoted
from restante.server.desk import Desk

Handler = Callable[[Desk, Exchange], Awaitable[None]]

ANYBODY: frozenset[Role] | None = None
"""Open to everybody, token or not: health and documentation."""


@dataclass(frozen=True, slots=True)
class Route:
    """One route: who may use it (an operator always may), what it takes in its query, what serves it, and where."""

    method: str
    path: str
    handler: Handler
    roles: frozenset[Role] | None
    query: frozenset[str] = frozenset()
    home: Home = field(default=Home.NAMED, hash=False)
    """Which shard of several answers a request."""
    is_long: bool = field(default=False, hash=False)
    """Whether a request may take long although all is well."""
    body_max: int = field(default=REQUEST_BYTES_MAX, hash=False)
    """The most bytes of a body, for a door that passes it on unread."""


@dataclass(slots=True)
class _Node:
    fixed: dict[bytes, _Node] = field(default_factory=dict)
    free: _Node | None = None
    name: str = ""
    routes: dict[str, Route] = field(default_factory=dict)


class Router:
    """Finds routes by path and method."""

    def __init__(self, routes: Iterable[Route]) -> None:
        self.routes = tuple(routes)
        self._root = _Node()
        for route in self.routes:
            node = self._root
            for segment in route.path.strip("/").split("/"):
                node = _step(node, segment)
            node.routes[route.method] = route

    def find(self, exchange: Exchange) -> Route:
        """The route of a request. Names in the path are put into `exchange.place`."""
        node: _Node | None = self._root
        for segment in exchange.path.split(b"?", 1)[0][1:].split(b"/"):
            if node is None:
                break
            inner = node.fixed.get(segment)
            if inner is None and (inner := node.free) is not None:
                exchange.place[inner.name] = unquoted(segment)
            node = inner
        if node is None or not node.routes:
            raise NotFound("There is nothing at this address. The routes are listed at /docs.")
        route = node.routes.get(exchange.method)
        if route is not None:
            return route
        # A caller that only asks whether a page or the health is there gets its headers; elsewhere a GET is more than a look.
        get = node.routes.get("GET")
        looks = get is not None and get.roles is None
        if get is not None and looks and exchange.method == "HEAD":
            return get
        allowed = ", ".join(sorted([*node.routes, *(["HEAD"] if looks else [])]))
        raise MethodNotAllowed(f"{allowed} only: {exchange.method} is not allowed on this path.", allow=allowed)


def _step(node: _Node, segment: str) -> _Node:
    if not segment.startswith("{"):
        return node.fixed.setdefault(segment.encode(), _Node())
    if node.free is None:
        node.free = _Node(name=segment.strip("{}"))
    return node.free


class MountedApplication(Protocol):
    """An ASGI application that takes part in the orderly end of the hub, by `drain`."""

    path: str
    """The path of the application: all below it is its own."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None: ...
    def drain(self) -> None:
        """End what would go on for ever."""
        ...


def is_below(path: bytes, mounted: MountedApplication) -> bool:
    own = mounted.path.encode()
    return path == own or path.startswith(own + b"/")


async def hand_over(mounted: MountedApplication, exchange: Exchange, receive: Receive, send: Send) -> None:
    """Let the application answer. Its answer is counted like every other, and gets the correlation id of the exchange."""

    async def sending(event: Event) -> None:
        if event["type"] == "http.response.start":
            exchange.status = event["status"]
            own_id = (CORRELATION_ID, exchange.correlation_id.encode())
            event = {**event, "headers": [own_id, *event.get("headers", ())]}
        elif event["type"] == "http.response.body":
            exchange.sent_bytes += len(event.get("body", b""))
        await send(event)

    await mounted(exchange.scope, receive, sending)
