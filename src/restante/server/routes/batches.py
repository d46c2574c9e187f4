"""Batches: opened, added to, sealed, looked at, waited for, deleted."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from restante.errors import InvalidRequest
from restante.limits import BATCH_ITEMS_MAX, BATCH_KEY_CHARACTERS_MAX, RECIPIENT_CHARACTERS_MAX, WAIT_SECONDS_MAX
from restante.model.access import Role
from restante.model.batch_answers import BatchState, BatchStatus, Counting, Webhook
from restante.server.batch_names import check_id
from restante.server.bodies import read_request
from restante.server.desk import Desk
from restante.server.exchange import Exchange
from restante.server.room import Wait
from restante.server.routing import Route
from restante.server.waiting import unless_gone

_NO_STORE = ((b"cache-control", b"no-store"),)


class OpenBatchBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a batch is to be. Nothing of it is needed."""

    id: str | None = None
    """A UUID that the caller chose, so that the call may be repeated. The hub makes one if it is left out."""
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
    request_id: str | None = None


class ReapBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """With `dry_run`, only say which batches would go."""

    dry_run: bool = False


async def open_batch(desk: Desk, exchange: Exchange) -> None:
    asked = await read_request(desk, exchange, OpenBatchBody)
    with desk.room.read():
        opened = await desk.link.open_batch(
            key=asked.key,
            unique=asked.unique,
            counting=asked.counting,
            webhook=asked.webhook,
            notify=asked.notify,
            batch_id=None if asked.id is None else check_id(asked.id, field="id"),
        )
    # It may tell a secret.
    await exchange.json(201, opened, headers=_NO_STORE)


async def add_items(desk: Desk, exchange: Exchange) -> None:
    asked = await read_request(desk, exchange, AddItemsBody)
    request_id = None if asked.request_id is None else check_id(asked.request_id, field="request_id")
    with desk.room.read():
        groups = await desk.link.add_items(exchange.place["batch"], asked.count, request_id=request_id)
    await exchange.json(201, groups)


async def seal(desk: Desk, exchange: Exchange) -> None:
    with desk.room.read():
        sealed = await desk.link.seal_batch(exchange.place["batch"])
    await exchange.json(200, sealed)


async def status(desk: Desk, exchange: Exchange) -> None:
    with desk.room.read():
        found = await desk.link.batch_status(exchange.place["batch"])
    await _show(exchange, found)


async def _show(exchange: Exchange, found: BatchStatus) -> None:
    await exchange.json(200, found, headers=_NO_STORE)


async def batches(desk: Desk, exchange: Exchange) -> None:
    state, key = _state(exchange.text("state")), exchange.text("key")
    limit, after = exchange.integer("limit"), exchange.text("after")
    with desk.room.read():
        page = await desk.link.batches(state=state, key=key, limit=limit, after=after)
    await exchange.json(200, page)


def _state(text: str | None) -> BatchState | None:
    try:
        return None if text is None else BatchState(text)
    except ValueError as error:
        known = ", ".join(state.value for state in BatchState)
        raise InvalidRequest(f"state must be one of {known}, not {text!r}.", parameter="state") from error


async def pending(desk: Desk, exchange: Exchange) -> None:
    limit, after = exchange.integer("limit"), exchange.text("after")
    with desk.room.read():
        page = await desk.link.pending_items(exchange.place["batch"], limit=limit, after=after)
    await exchange.json(200, page)


async def progress(desk: Desk, exchange: Exchange) -> None:
    waiting, limit, after = exchange.flag("waiting"), exchange.integer("limit"), exchange.text("after")
    with desk.room.read():
        page = await desk.link.batch_progress(exchange.place["batch"], waiting=waiting, limit=limit, after=after)
    await exchange.json(200, page)


async def wait(desk: Desk, exchange: Exchange) -> None:
    batch, seconds = exchange.place["batch"], min(exchange.seconds("seconds"), WAIT_SECONDS_MAX)
    with desk.room.read():
        found = await desk.link.wait_batch(batch, 0)
    if found is None and seconds > 0:
        with desk.room.wait(Wait.BATCH):
            found = await unless_gone(desk, exchange, desk.link.wait_batch(batch, seconds))
    if found is None:
        await exchange.answer(204, headers=_NO_STORE)
    else:
        await _show(exchange, found)


async def delete(desk: Desk, exchange: Exchange) -> None:
    with desk.room.read():
        await desk.link.delete_batch(exchange.place["batch"])
    await exchange.answer(204)


async def reap(desk: Desk, exchange: Exchange) -> None:
    asked = await read_request(desk, exchange, ReapBody)
    with desk.room.read():
        reaped = await desk.link.reap_batches(dry_run=asked.dry_run)
    await exchange.json(200, reaped)


_USING = frozenset({Role.PUBLISHER})
_LOOKING = frozenset({Role.PUBLISHER, Role.READER})
_PAGES = frozenset({"limit", "after"})
_BATCHES = "/v1/batches"
_BATCH = "/v1/batches/{batch}"

ROUTES = (
    Route("POST", _BATCHES, open_batch, _USING),
    Route("GET", _BATCHES, batches, _LOOKING, _PAGES | {"state", "key"}),
    Route("POST", _BATCHES + "/reap", reap, frozenset({Role.OPERATOR})),
    Route("GET", _BATCH, status, _LOOKING),
    Route("DELETE", _BATCH, delete, _USING),
    Route("POST", _BATCH + "/items", add_items, _USING),
    Route("POST", _BATCH + "/seal", seal, _USING),
    Route("GET", _BATCH + "/pending", pending, _LOOKING, _PAGES),
    Route("GET", _BATCH + "/progress", progress, _LOOKING, _PAGES | {"waiting"}),
    Route("GET", _BATCH + "/wait", wait, _LOOKING, frozenset({"seconds"})),
)
