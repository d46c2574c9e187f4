"""Producers that number what they publish: their links, and what the hub knows of them."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from restante.calls.call import query_names
from restante.calls.producers import ListProducers, OpenLink, ReadProducer
from restante.errors import InvalidRequest
from restante.limits import OWNER_LEVEL_MAX, PRODUCER_GROUP_MAX, PUBLISHED_SEQUENCE_MAX
from restante.model.access.access import Role
from restante.server.connections.bodies import read_request
from restante.server.connections.exchange import Exchange
from restante.server.desk import Desk
from restante.server.requests.options import asked
from restante.server.requests.producer_numbers import whole_number
from restante.server.route_table import Route
from restante.server.routes.publishing import partition_number


class LinkBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The body of a producer that links itself to a partition; the hub chooses what is left out."""

    producer_group: Annotated[int, Meta(ge=0, le=PRODUCER_GROUP_MAX)] | None = None
    """A new one if left out."""
    owner_level: Annotated[int, Meta(ge=0, le=OWNER_LEVEL_MAX)] | None = None
    """The owner level; that of the group if left out."""
    last_published_sequence_number: Annotated[int, Meta(ge=0, le=PUBLISHED_SEQUENCE_MAX)] | None = None


async def open_link(desk: Desk, exchange: Exchange) -> None:
    partition = partition_number(exchange.place["partition"])
    sent = await read_request(desk, exchange, LinkBody)
    call = OpenLink(partition, **msgspec.structs.asdict(sent))
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


_LOOKING = frozenset({Role.PUBLISHER, Role.READER})
_PRODUCERS = "/v1/partitions/{partition}/producers"

ROUTES = (
    Route("POST", "/v1/partitions/{partition}/links", open_link, frozenset({Role.PUBLISHER})),
    Route("GET", _PRODUCERS + "/{group}", producer, _LOOKING),
    Route("GET", _PRODUCERS, producers, _LOOKING, query_names(ListProducers)),
)
