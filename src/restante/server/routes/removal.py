"""Removal: what an operator may do with a recipient's messages."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

import msgspec
from msgspec import Meta

from restante.calls.call import Call, query_names
from restante.calls.removal import Erase, Purge, Release, SetAside, Withdraw
from restante.model.access.access import Role
from restante.server.connections.bodies import (
    read_nothing,
    read_request,
)
from restante.server.connections.exchange import Exchange
from restante.server.desk import Desk
from restante.server.requests.call_bodies import body_of
from restante.server.requests.options import asked
from restante.server.route_table import Handler, Route
from restante.server.routes.mailboxes import MESSAGES, OF_ORIGIN, message_named


class Removed(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The messages that were withdrawn or erased."""

    messages: Annotated[int, Meta(ge=0, description="How many messages; with `dry_run`, how many it would be.")]


# A filter that is null is a mistake of the caller's: without it the purge would take more.
PURGE_BODY = body_of(
    Purge,
    "PurgeBody",
    "The choice of a purge: what fits these filters, or `all`. With `dry_run` it is only counted, without filters too.",
    given=("recipient",),
    nullable=False,
)


def _on_message(kind: Callable[[str, str], Call[None]]) -> Handler:
    async def handle(desk: Desk, exchange: Exchange) -> None:
        await read_nothing(desk, exchange)
        await desk.call(kind(exchange.place["recipient"], message_named(exchange)))
        await exchange.answer(204)

    return handle


async def purge(desk: Desk, exchange: Exchange) -> None:
    sent = await read_request(desk, exchange, PURGE_BODY.shape)
    call = PURGE_BODY.call(exchange, sent, recipient=exchange.place["recipient"])
    await exchange.json(200, Removed(await desk.call(call)))


async def erase(desk: Desk, exchange: Exchange) -> None:
    await read_nothing(desk, exchange)
    count = await desk.call(asked(exchange, Erase, recipient=exchange.place["recipient"]))
    await exchange.json(200, Removed(count))


_OPERATOR = frozenset({Role.OPERATOR})

ROUTES = (
    Route("DELETE", MESSAGES + "/{id}", _on_message(Withdraw), _OPERATOR, OF_ORIGIN),
    Route("POST", MESSAGES + "/{id}/set-aside", _on_message(SetAside), _OPERATOR, OF_ORIGIN),
    Route("POST", MESSAGES + "/{id}/release", _on_message(Release), _OPERATOR, OF_ORIGIN),
    Route("POST", "/v1/recipients/{recipient}/purge", purge, _OPERATOR),
    Route("DELETE", "/v1/recipients/{recipient}", erase, _OPERATOR, query_names(Erase)),
)
