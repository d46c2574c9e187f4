"""Producers that number what they publish, and sources that have positions: what the hub knows of them, and how it is changed."""

from __future__ import annotations

import msgspec

from restante.calls.call import Home, Number, query_names
from restante.calls.producers import (
    DeleteSource,
    ListProducers,
    ListSources,
    OpenLink,
    ReadProducer,
    ReadSource,
    ResetSource,
)
from restante.errors import InvalidRequest
from restante.limits import PRODUCER_GROUP_MAX
from restante.model.access.access import Role
from restante.model.sources.source import NO_POSITION
from restante.server.connections.bodies import read_nothing, read_request
from restante.server.connections.exchange import Exchange
from restante.server.desk import Desk
from restante.server.requests.call_bodies import body_of
from restante.server.requests.options import asked
from restante.server.requests.producer_numbers import whole_number
from restante.server.route_table import Route
from restante.server.routes.publishing import partition_number

_NO_STORE = ((b"cache-control", b"no-store"),)
_PRODUCERS = "/v1/partitions/{partition}/producers"
_SOURCE = "/v1/sources/{source}"


LINK_BODY = body_of(
    OpenLink,
    "LinkBody",
    "The body of a producer that links itself to a partition; the hub chooses what is left out.",
    given=("partition",),
)


async def open_link(desk: Desk, exchange: Exchange) -> None:
    partition = partition_number(exchange.place["partition"])
    sent = await read_request(desk, exchange, LINK_BODY.shape)
    call = LINK_BODY.call(exchange, sent, partition=partition)
    await exchange.json(201, await desk.call(call, exchange.grant))


async def producer(desk: Desk, exchange: Exchange) -> None:
    call = ReadProducer(partition_number(exchange.place["partition"]), _group(exchange.place["group"]))
    await exchange.json(200, await desk.call(call, exchange.grant))


async def producers(desk: Desk, exchange: Exchange) -> None:
    call = asked(exchange, ListProducers, partition=partition_number(exchange.place["partition"]))
    await exchange.json(200, await desk.call(call, exchange.grant))


def _group(text: str) -> int:
    found = whole_number(text, PRODUCER_GROUP_MAX)
    if found is None:
        raise InvalidRequest(f"A producer group is a whole number from 0 to {PRODUCER_GROUP_MAX}, not {text!r}.")
    return found


class ResetSourceBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The position beyond which records are stored when they come again; null: all of them."""

    # Not of the call: null stands for the position that the call has as -1.
    position: Number | None
    partition: Number | None = None
    """The partition to reset; left out: all partitions that know the source."""


async def source(desk: Desk, exchange: Exchange) -> None:
    call = ReadSource(exchange.place["source"])
    await exchange.json(200, await desk.call(call, exchange.grant), headers=_NO_STORE)


async def sources(desk: Desk, exchange: Exchange) -> None:
    await exchange.json(200, await desk.call(asked(exchange, ListSources), exchange.grant), headers=_NO_STORE)


async def reset_source(desk: Desk, exchange: Exchange) -> None:
    sent = await read_request(desk, exchange, ResetSourceBody)
    position = NO_POSITION if sent.position is None else sent.position
    call = ResetSource(exchange.place["source"], position, sent.partition)
    await exchange.json(200, await desk.call(call, exchange.grant), headers=_NO_STORE)


async def delete_source(desk: Desk, exchange: Exchange) -> None:
    await read_nothing(desk, exchange)
    await desk.call(DeleteSource(exchange.place["source"]), exchange.grant)
    await exchange.answer(204)


_LOOKING = frozenset({Role.PUBLISHER, Role.READER})
_OPERATING = frozenset({Role.OPERATOR})

ROUTES = (
    Route("POST", "/v1/partitions/{partition}/links", open_link, frozenset({Role.PUBLISHER})),
    Route("GET", _PRODUCERS + "/{group}", producer, _LOOKING),
    Route("GET", _PRODUCERS, producers, _LOOKING, query_names(ListProducers)),
    Route("GET", "/v1/sources", sources, _LOOKING, query_names(ListSources)),
    Route("GET", _SOURCE, source, _LOOKING, home=Home.ALL),
    Route("POST", _SOURCE + "/reset", reset_source, _OPERATING, home=Home.ALL),
    Route("DELETE", _SOURCE, delete_source, _OPERATING, home=Home.ALL),
)
