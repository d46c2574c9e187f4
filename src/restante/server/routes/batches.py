"""Batches: opened, added to, sealed, looked at, waited for, deleted."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

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
from restante.calls.call import query_names
from restante.limits import BATCH_ITEMS_MAX, BATCH_KEY_CHARACTERS_MAX, RECIPIENT_CHARACTERS_MAX
from restante.model.access.access import Role
from restante.model.batches.batch_answers import BatchStatus, Counting, Webhook, is_complete
from restante.model.uuid_text import UuidText
from restante.server.connections.bodies import read_nothing, read_request
from restante.server.connections.exchange import Exchange
from restante.server.connections.room import Wait
from restante.server.connections.waits import unless_gone
from restante.server.desk import Desk
from restante.server.requests.options import asked
from restante.server.requests.publish_headers import check_batch_id
from restante.server.route_table import Route

_NO_STORE = ((b"cache-control", b"no-store"),)


class OpenBatchBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The definition of a batch. Nothing of it is needed."""

    id: UuidText | None = None
    """A UUID that the caller chose, so that the call may be repeated. The hub makes one if it is left out."""
    request_id: UuidText | None = None
    """A UUID in place of `id`, from which the hub makes the id: the same call again opens nothing more."""
    key: Annotated[str, Meta(min_length=1, max_length=BATCH_KEY_CHARACTERS_MAX)] | None = None
    """The caller's own name for it."""
    unique: bool = False
    """Refuse if another open batch has this key."""
    counting: Counting = Counting.EXACT
    webhook: Webhook | None = None
    """Whom to call when it is complete."""
    notify: Annotated[str, Meta(min_length=1, max_length=RECIPIENT_CHARACTERS_MAX)] | None = None
    """The recipient who gets a message when it is complete."""


class AddItemsBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How many items to add. The same `request_id` again adds nothing, and answers as before."""

    count: Annotated[int, Meta(ge=1, le=BATCH_ITEMS_MAX)]
    request_id: UuidText | None = None


class ReapBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The body of a reap; with `dry_run` it only says which batches would go."""

    dry_run: bool = False


async def open_batch(desk: Desk, exchange: Exchange) -> None:
    said = msgspec.structs.asdict(await read_request(desk, exchange, OpenBatchBody))
    for field in ("id", "request_id"):
        said[field] = None if said[field] is None else check_batch_id(said[field], field=field)
    call = OpenBatch(batch_id=said.pop("id"), **said)
    # It may tell a secret.
    await exchange.json(201, await desk.call(call, exchange.grant), headers=_NO_STORE)


async def add_items(desk: Desk, exchange: Exchange) -> None:
    sent = await read_request(desk, exchange, AddItemsBody)
    request_id = None if sent.request_id is None else check_batch_id(sent.request_id, field="request_id")
    call = AddItems(exchange.place["batch"], sent.count, request_id)
    await exchange.json(201, await desk.call(call, exchange.grant))


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
    sent = await read_request(desk, exchange, ReapBody)
    await exchange.json(200, await desk.call(ReapBatches(dry_run=sent.dry_run), exchange.grant))


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
    Route("POST", _BATCH + "/items", add_items, _USING),
    Route("POST", _BATCH + "/seal", seal, _USING),
    Route("GET", _BATCH + "/pending", pending, _LOOKING, query_names(ListPendingItems)),
    Route("GET", _BATCH + "/progress", progress, _LOOKING, query_names(ReadProgress)),
    Route("GET", _BATCH + "/wait", wait, _LOOKING, query_names(WaitForBatch)),
)
