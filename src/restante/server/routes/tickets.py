"""Tickets for browsers: `EventSource` and `WebSocket` cannot send the header that carries a token."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Annotated

import msgspec
from msgspec import Meta

from restante.calls.mailboxes import PartitionOf
from restante.limits import RECIPIENT_CHARACTERS_MAX, TICKET_SECONDS
from restante.model.access.access import Role
from restante.server.access.gate import check_role
from restante.server.connections.bodies import read_request
from restante.server.connections.exchange import Exchange
from restante.server.desk import Desk
from restante.server.route_table import Route

_ROLES = frozenset({Role.RECIPIENT})


class TicketBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The purpose of the ticket."""

    recipient: Annotated[
        str, Meta(min_length=1, max_length=RECIPIENT_CHARACTERS_MAX, description="Whose mailbox is to be followed.")
    ]


class TicketAnswer(msgspec.Struct, frozen=True):
    """A ticket, and until when it opens a live connection."""

    ticket: str
    expires_at: datetime


async def make_ticket(desk: Desk, exchange: Exchange) -> None:
    body = await read_request(desk, exchange, TicketBody)
    desk.hub.call(PartitionOf(body.recipient))  # It refuses what no recipient can be called.
    check_role(exchange.grant, _ROLES, body.recipient)
    expires_at = datetime.now(UTC) + timedelta(seconds=TICKET_SECONDS)
    answer = TicketAnswer(desk.tickets.make(exchange.header(b"authorization"), body.recipient), expires_at)
    await exchange.json(201, answer, headers=((b"cache-control", b"no-store"),))


ROUTES = (Route("POST", "/v1/tickets", make_ticket, _ROLES),)
