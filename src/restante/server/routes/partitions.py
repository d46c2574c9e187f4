"""Partitions and nodes: how far each partition has come, where a recipient lives, the map, a node that gives its shards away."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from restante.calls.call import query_names
from restante.calls.mailboxes import ListPartitions, PartitionOf
from restante.calls.nodes import DrainNode, ListRounds, ReadNodes
from restante.errors import PartitionUnknown
from restante.model.access.access import Role
from restante.model.mailboxes.answers import PartitionStatus
from restante.model.mailboxes.list_pages import page_size
from restante.model.shards.node_answers import placed, without_reasons
from restante.server.connections.bodies import read_nothing
from restante.server.connections.exchange import Exchange
from restante.server.desk import Desk
from restante.server.requests.options import asked
from restante.server.route_table import Route
from restante.server.routes.publishing import partition_number

_NO_STORE = ((b"cache-control", b"no-store"),)


class Place(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The place where a recipient lives."""

    partition: Annotated[int, Meta(ge=0)]
    owner: Annotated[
        str,
        Meta(description="The address of the hub that owns the partition.", extra_json_schema={"format": "uri"}),
    ]


async def partitions(desk: Desk, exchange: Exchange) -> None:
    limit, after = exchange.integer("limit"), exchange.integer("after")
    size = page_size(limit)
    start = 0 if after is None else after + 1
    found = await desk.link.call(ListPartitions())
    page = found[start : start + size]
    following = str(page[-1].partition) if page and start + size < len(found) else None
    owners = placed(await desk.link.call(ReadNodes()), desk.url)
    shown = [_shown(status, owners.owner_of(status.partition)) for status in page]
    await exchange.json(200, {"partitions": shown, "next": following})


async def partition(desk: Desk, exchange: Exchange) -> None:
    number = partition_number(exchange.place["partition"])
    found = await desk.link.call(ListPartitions())
    status = next((own for own in found if own.partition == number), None)
    if status is None:
        last = (await desk.link.call(ReadNodes())).partition_count - 1
        raise PartitionUnknown(f"There is no partition {number}: partitions go from 0 to {last}.")
    await exchange.json(200, _shown(status, desk.url))


async def partition_of(desk: Desk, exchange: Exchange) -> None:
    number = await desk.link.call(PartitionOf(exchange.place["recipient"]))
    await exchange.json(200, Place(number, desk.url))


def _shown(status: PartitionStatus, owner: str | None) -> dict[str, object]:
    return msgspec.structs.asdict(status) | {"owner": owner or ""}


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


_LOOKING = frozenset({Role.PUBLISHER, Role.READER})
_OPERATOR = frozenset({Role.OPERATOR})

ROUTES = (
    Route("GET", "/v1/partitions", partitions, _LOOKING, frozenset({"limit", "after"})),
    Route("GET", "/v1/partitions/{partition}", partition, _LOOKING),
    Route("GET", "/v1/recipients/{recipient}/partition", partition_of, _LOOKING | {Role.RECIPIENT}),
    Route("GET", "/v1/nodes", nodes, frozenset(Role)),
    Route("POST", "/v1/nodes/{node}/drain", drain, _OPERATOR, query_names(DrainNode)),
    Route("GET", "/v1/rounds", rounds, _OPERATOR),
)
