"""Which requests are about one shard, and which one: those are passed on to it as they came."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from restante.calls.call import Home
from restante.cluster.shard_lines import ShardLines
from restante.decoders import json_decoder
from restante.server.connections.exchange import Exchange
from restante.server.route_table import Route
from restante.server.routes.publishing import partition_number

ShardChoice = Callable[[ShardLines, Exchange, bytes], int]
"""A function that gives the number of a shard for the map, the request and its body."""


def _recipient(lines: ShardLines, exchange: Exchange, _: bytes) -> int:
    return lines.of_name(exchange.place["recipient"])


def _partition(lines: ShardLines, exchange: Exchange, _: bytes) -> int:
    return lines.of_partition(partition_number(exchange.place["partition"]))


def _batch(lines: ShardLines, exchange: Exchange, _: bytes) -> int:
    return lines.of_name(exchange.place["batch"].lower())


def _consignment(lines: ShardLines, exchange: Exchange, _: bytes) -> int:
    return lines.of_name(exchange.place["consignment"].lower())


def _first(lines: ShardLines, _: Exchange, __: bytes) -> int:
    return lines.of_partition(0)


class _Named(msgspec.Struct):
    recipient: str = ""


def _ticket(lines: ShardLines, _: Exchange, body: bytes) -> int:
    """The shard to which the ticket will be shown. If the body cannot be read, the first shard, which refuses it."""
    try:
        return lines.of_name(json_decoder(_Named).decode(body).recipient)
    except (msgspec.MsgspecError, UnicodeError):
        return 0


def choice_of(route: Route) -> ShardChoice | None:
    """How the shard of a route's requests is found; None if the door answers them itself."""
    path = route.path
    if route.home is Home.ALL:
        return None
    if route.home is Home.FIRST:
        return _first
    if path == "/v1/tickets":
        return _ticket
    for name, choice in _BY_NAME:
        if f"{{{name}}}" in path:
            return choice
    return None


_BY_NAME: tuple[tuple[str, ShardChoice], ...] = (
    ("recipient", _recipient),
    ("partition", _partition),
    ("batch", _batch),
    ("consignment", _consignment),
    ("group", _first),
)
"""The first of these names that is in the path counts: a group's position in a partition is that partition's. Groups have one home."""
