"""Batches: opened, added to, sealed, looked at, waited for, deleted."""

from __future__ import annotations

import msgspec

from restante.calls.batches import (
    AddItems,
    DeleteBatch,
    ListBatches,
    ListPendingItems,
    OpenBatch,
    ReadBatch,
    ReadProgress,
    ReapBatches,
    SealBatch,
    WaitForBatch,
)
from restante.calls.call import Home, query_names
from restante.model.access.access import Role
from restante.model.batches.batch_answers import BatchStatus, is_complete
from restante.server.connections.bodies import read_nothing, read_request
from restante.server.connections.exchange import Exchange
from restante.server.connections.room import Wait
from restante.server.connections.waits import unless_gone
from restante.server.desk import Desk
from restante.server.requests.call_bodies import body_of
from restante.server.requests.options import asked
from restante.server.requests.publish_headers import check_batch_id
from restante.server.route_table import Route

_NO_STORE = ((b"cache-control", b"no-store"),)


OPEN_BODY = body_of(OpenBatch, "OpenBatchBody", "The definition of a batch. Nothing of it is needed.")
ADD_BODY = body_of(
    AddItems,
    "AddItemsBody",
    "How many items to add. The same `request_id` again adds nothing, and answers as before.",
    given=("batch_id",),
)
REAP_BODY = body_of(ReapBatches, "ReapBody", "The body of a reap; with `dry_run` it only says which batches would go.")


async def open_batch(desk: Desk, exchange: Exchange) -> None:
    call = OPEN_BODY.call(exchange, await read_request(desk, exchange, OPEN_BODY.shape))
    call = msgspec.structs.replace(
        call, batch_id=_checked(call.batch_id, "id"), request_id=_checked(call.request_id, "request_id")
    )
    # The answer may contain a secret.
    await exchange.json(201, await desk.call(call, exchange.grant), headers=_NO_STORE)


async def add_items(desk: Desk, exchange: Exchange) -> None:
    sent = await read_request(desk, exchange, ADD_BODY.shape)
    call = ADD_BODY.call(exchange, sent, batch_id=exchange.place["batch"])
    call = msgspec.structs.replace(call, request_id=_checked(call.request_id, "request_id"))
    await exchange.json(201, await desk.call(call, exchange.grant))


def _checked(given: str | None, field: str) -> str | None:
    return None if given is None else check_batch_id(given, field=field)


async def seal(desk: Desk, exchange: Exchange) -> None:
    await read_nothing(desk, exchange)
    await exchange.json(200, await desk.call(SealBatch(exchange.place["batch"]), exchange.grant))


async def status(desk: Desk, exchange: Exchange) -> None:
    await _show(exchange, await desk.call(ReadBatch(exchange.place["batch"]), exchange.grant))


async def _show(exchange: Exchange, found: BatchStatus) -> None:
    await exchange.json(200, found, headers=_NO_STORE)


async def batches(desk: Desk, exchange: Exchange) -> None:
    call = asked(exchange, ListBatches)
    await exchange.json(200, await desk.call(call, exchange.grant))


async def pending(desk: Desk, exchange: Exchange) -> None:
    call = asked(exchange, ListPendingItems, batch_id=exchange.place["batch"])
    await exchange.json(200, await desk.call(call, exchange.grant))


async def progress(desk: Desk, exchange: Exchange) -> None:
    call = asked(exchange, ReadProgress, batch_id=exchange.place["batch"])
    await exchange.json(200, await desk.call(call, exchange.grant))


async def wait(desk: Desk, exchange: Exchange) -> None:
    call = asked(exchange, WaitForBatch, batch_id=exchange.place["batch"])
    with desk.own_of(exchange.grant).watching_batch(call.batch_id) as watch:
        with desk.room.read():
            found = await watch.look()
        if not is_complete(found) and call.seconds > 0:
            with desk.room.wait(Wait.BATCH):
                found = await unless_gone(desk, exchange, watch.wait(found, call.seconds)) or found
    if is_complete(found):
        await _show(exchange, found)
    else:
        await exchange.answer(204, headers=_NO_STORE)


async def delete(desk: Desk, exchange: Exchange) -> None:
    await read_nothing(desk, exchange)
    await desk.call(DeleteBatch(exchange.place["batch"]), exchange.grant)
    await exchange.answer(204)


async def reap(desk: Desk, exchange: Exchange) -> None:
    call = REAP_BODY.call(exchange, await read_request(desk, exchange, REAP_BODY.shape))
    await exchange.json(200, await desk.call(call, exchange.grant))


_USING = frozenset({Role.PUBLISHER})
_LOOKING = frozenset({Role.PUBLISHER, Role.READER})
_BATCHES = "/v1/batches"
_BATCH = "/v1/batches/{batch}"

ROUTES = (
    Route("POST", _BATCHES, open_batch, _USING),
    Route("GET", _BATCHES, batches, _LOOKING, query_names(ListBatches)),
    Route("POST", _BATCHES + "/reap", reap, frozenset({Role.OPERATOR})),
    Route("GET", _BATCH, status, _LOOKING),
    Route("DELETE", _BATCH, delete, _USING),
    Route("POST", _BATCH + "/items", add_items, _USING, home=Home.ALL),
    Route("POST", _BATCH + "/seal", seal, _USING),
    Route("GET", _BATCH + "/pending", pending, _LOOKING, query_names(ListPendingItems)),
    Route("GET", _BATCH + "/progress", progress, _LOOKING, query_names(ReadProgress), home=Home.ALL),
    Route("GET", _BATCH + "/wait", wait, _LOOKING, query_names(WaitForBatch), is_long=True),
)
