"""Sources: how far each is stored, and what an operator may do about it."""

from __future__ import annotations

import msgspec

from restante.calls.call import Number, query_names
from restante.calls.sources import DeleteSource, ListSources, ReadSource, ResetSource
from restante.model.access.access import Role
from restante.model.sources.source import NO_POSITION
from restante.server.connections.bodies import read_nothing, read_request
from restante.server.connections.exchange import Exchange
from restante.server.desk import Desk
from restante.server.requests.options import asked
from restante.server.route_table import Route

_NO_STORE = ((b"cache-control", b"no-store"),)
_SOURCE = "/v1/sources/{source}"


class ResetSourceBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The position beyond which records are stored when they come again; null: all of them."""

    position: Number | None
    partition: Number | None = None
    """The partition to reset; left out: all partitions that know the source."""


async def show(desk: Desk, exchange: Exchange) -> None:
    call = ReadSource(exchange.place["source"])
    await exchange.json(200, await desk.call(call, exchange.grant), headers=_NO_STORE)


async def sources(desk: Desk, exchange: Exchange) -> None:
    await exchange.json(200, await desk.call(asked(exchange, ListSources), exchange.grant), headers=_NO_STORE)


async def reset(desk: Desk, exchange: Exchange) -> None:
    sent = await read_request(desk, exchange, ResetSourceBody)
    position = NO_POSITION if sent.position is None else sent.position
    call = ResetSource(exchange.place["source"], position, sent.partition)
    await exchange.json(200, await desk.call(call, exchange.grant), headers=_NO_STORE)


async def delete(desk: Desk, exchange: Exchange) -> None:
    await read_nothing(desk, exchange)
    await desk.call(DeleteSource(exchange.place["source"]), exchange.grant)
    await exchange.answer(204)


_LOOKING = frozenset({Role.PUBLISHER, Role.READER})
_OPERATING = frozenset({Role.OPERATOR})

ROUTES = (
    Route("GET", "/v1/sources", sources, _LOOKING, query_names(ListSources)),
    Route("GET", _SOURCE, show, _LOOKING),
    Route("POST", _SOURCE + "/reset", reset, _OPERATING),
    Route("DELETE", _SOURCE, delete, _OPERATING),
)
