"""The backplane: how far its log is stored, and what of it was refused."""

from __future__ import annotations

from restante.calls.backplane import (
    DeleteRefusedRecord,
    ListRefusedRecords,
    ReadBackplane,
    ReadRefusedRecord,
    RepeatRefusedRecord,
)
from restante.calls.call import query_names
from restante.errors import NotFound
from restante.model.access.access import Role
from restante.server.connections.bodies import read_nothing
from restante.server.connections.exchange import Exchange
from restante.server.desk import Desk
from restante.server.requests.options import asked
from restante.server.route_table import Route
from restante.server.routes.publishing import partition_number

_NO_STORE = ((b"cache-control", b"no-store"),)
_DIGITS_MAX = 18


async def show(desk: Desk, exchange: Exchange) -> None:
    await exchange.json(200, await desk.call(ReadBackplane(), exchange.grant), headers=_NO_STORE)


async def refused(desk: Desk, exchange: Exchange) -> None:
    await exchange.json(200, await desk.call(asked(exchange, ListRefusedRecords), exchange.grant), headers=_NO_STORE)


async def read(desk: Desk, exchange: Exchange) -> None:
    found = await desk.call(ReadRefusedRecord(*_place(exchange)), exchange.grant)
    await exchange.json(200, found, headers=_NO_STORE)


async def again(desk: Desk, exchange: Exchange) -> None:
    await read_nothing(desk, exchange)
    await exchange.json(200, await desk.call(RepeatRefusedRecord(*_place(exchange)), exchange.grant))


async def delete(desk: Desk, exchange: Exchange) -> None:
    await read_nothing(desk, exchange)
    await desk.call(DeleteRefusedRecord(*_place(exchange)), exchange.grant)
    await exchange.answer(204)


def _place(exchange: Exchange) -> tuple[int, int]:
    partition, position = partition_number(exchange.place["partition"]), exchange.place["position"]
    if not (position.isascii() and position.isdecimal() and len(position) <= _DIGITS_MAX):
        raise NotFound(f"A position is a number, not {position[:64]!r}. GET /v1/backplane/refused lists them.")
    return partition, int(position)


_OPERATING = frozenset({Role.OPERATOR})
_RECORD = "/v1/backplane/refused/{partition}/{position}"

ROUTES = (
    Route("GET", "/v1/backplane", show, _OPERATING),
    Route("GET", "/v1/backplane/refused", refused, _OPERATING, query_names(ListRefusedRecords)),
    Route("GET", _RECORD, read, _OPERATING),
    Route("POST", f"{_RECORD}/again", again, _OPERATING),
    Route("DELETE", _RECORD, delete, _OPERATING),
)
