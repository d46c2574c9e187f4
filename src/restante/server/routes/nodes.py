"""Nodes and shards: the map, and a node that is to give its shards away."""

from __future__ import annotations

from restante.calls.call import query_names
from restante.calls.nodes import DrainNode, ListRounds, ReadNodes
from restante.model.access.access import Role
from restante.model.shards.node_answers import placed, without_reasons
from restante.server.connections.bodies import read_nothing
from restante.server.connections.exchange import Exchange
from restante.server.desk import Desk
from restante.server.requests.options import asked
from restante.server.route_table import Route

_NO_STORE = ((b"cache-control", b"no-store"),)


async def nodes(desk: Desk, exchange: Exchange) -> None:
    found = placed(await desk.call(ReadNodes(), exchange.grant), desk.url)
    shown = found if exchange.grant.may_operate() else without_reasons(found)
    await exchange.json(200, shown, headers=_NO_STORE)


async def drain(desk: Desk, exchange: Exchange) -> None:
    await read_nothing(desk, exchange)
    call = asked(exchange, DrainNode, node=exchange.place["node"])
    await exchange.json(200, await desk.call(call, exchange.grant), headers=_NO_STORE)


async def rounds(desk: Desk, exchange: Exchange) -> None:
    await exchange.json(200, await desk.call(ListRounds(), exchange.grant), headers=_NO_STORE)


_OPERATOR = frozenset({Role.OPERATOR})

ROUTES = (
    Route("GET", "/v1/nodes", nodes, frozenset(Role)),
    Route("POST", "/v1/nodes/{node}/drain", drain, _OPERATOR, query_names(DrainNode)),
    Route("GET", "/v1/rounds", rounds, _OPERATOR),
)
