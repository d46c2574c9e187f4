"""The routes of live connections, for operators: who is connected."""

from __future__ import annotations

from datetime import UTC, datetime
from itertools import islice
from typing import Annotated

import msgspec
from msgspec import Meta

from restante.limits import CONNECTIONS_MAX
from restante.model.access.access import Role
from restante.model.mailboxes.list_pages import page_size
from restante.server.connections.exchange import Exchange
from restante.server.desk import Desk
from restante.server.live.connection import LiveConnection
from restante.server.route_table import Route


class LiveClient(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One connection."""

    recipient: str
    client: Annotated[str, Meta(description="What the client calls itself; may be empty.")]
    connected_at: datetime
    queued: Annotated[int, Meta(ge=0, description="Messages that wait for it.")]
    sent: Annotated[int, Meta(ge=0, description="Messages that were counted for it, dropped ones included.")]
    dropped: Annotated[int, Meta(ge=0, description="Messages that its full queue dropped.")]
    replaying: Annotated[bool, Meta(description="Whether it is being given messages from history.")]


class LiveClientPage(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Connections, those of one recipient together."""

    clients: tuple[LiveClient, ...]
    next: str | None


async def live_clients(desk: Desk, exchange: Exchange) -> None:
    size, start = page_size(exchange.integer("limit")), min(exchange.integer("after") or 0, CONNECTIONS_MAX)
    chosen = tuple(map(_shown, islice(desk.post.connections(), start, start + size)))
    following = str(start + size) if start + size < len(desk.post) else None
    answer = LiveClientPage(clients=chosen, next=following)
    await exchange.json(200, answer, headers=[(b"cache-control", b"no-store")])


def _shown(connection: LiveConnection) -> LiveClient:
    queue = connection.queue
    return LiveClient(
        recipient=connection.recipient,
        client=connection.client,
        connected_at=datetime.fromtimestamp(connection.since, UTC),
        queued=len(queue),
        sent=queue.counter,
        dropped=queue.dropped,
        replaying=connection.replay is not None,
    )


ROUTES = (Route("GET", "/v1/live", live_clients, frozenset({Role.OPERATOR}), frozenset({"limit", "after"})),)
