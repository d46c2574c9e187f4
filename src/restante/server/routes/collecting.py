"""Collecting: peek, dequeue, explain, and the recipients with waiting messages."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

from restante.errors import OriginDidNotDeliver
from restante.limits import WAIT_SECONDS_MAX
from restante.model.access import Role
from restante.model.answers import BundleAnswer, Reason
from restante.server.bodies import SMALL_TABLE_BYTES, send_arrow, send_pieces
from restante.server.desk import Desk
from restante.server.exchange import Exchange
from restante.server.room import Wait
from restante.server.routing import Route
from restante.server.waiting import unless_gone
from restante.wire import media
from restante.wire.outgoing import bundle_cloudevents, bundle_json

SMALL_BUNDLE_MESSAGES = 64
_OFFERED = (media.JSON, media.CLOUDEVENTS_BATCH, media.ARROW)


async def peek(desk: Desk, exchange: Exchange) -> None:
    recipient = exchange.place["recipient"]
    wish: dict[str, Any] = {
        "origins": exchange.texts("origin"),
        "origin_groups": exchange.texts("origin_group"),
        "bundle_id": exchange.text("bundle_id"),
        "format": exchange.text("format"),
        "max_messages": exchange.integer("max_messages"),
        "max_weight": exchange.integer("max_weight"),
    }
    wait = min(exchange.seconds("wait"), WAIT_SECONDS_MAX)
    try:
        with desk.room.read():
            answer = await desk.link.peek(recipient, **wish)
        if answer is None and wait > 0:
            with desk.room.wait(Wait.PEEK):
                answer = await unless_gone(desk, exchange, desk.link.peek(recipient, **wish, wait=wait))
    except OriginDidNotDeliver:
        await _answer_empty(exchange, Reason.ORIGIN_DID_NOT_DELIVER)
        return
    if answer is None:
        found = await desk.read(
            desk.hub.explain, recipient, origins=wish["origins"], origin_groups=wish["origin_groups"]
        )
        await _answer_empty(exchange, found.reason)
        return
    await _answer_bundle(desk, exchange, answer)


async def _answer_empty(exchange: Exchange, reason: Reason) -> None:
    headers = [(b"restante-empty-reason", reason.value.encode()), (b"cache-control", b"no-store")]
    await exchange.answer(204, headers=headers)


async def _answer_bundle(desk: Desk, exchange: Exchange, answer: BundleAnswer) -> None:
    desk.metrics.bundles.add()
    headers = [
        (b"restante-bundle-id", answer.bundle_id.encode()),
        (b"restante-origin", quote(answer.origin, safe="").encode()),
        (b"restante-kind", quote(answer.kind, safe="").encode()),
        (b"restante-document-types", ",".join(quote(name, safe="") for name in answer.document_types).encode()),
        (b"restante-message-count", b"%d" % answer.message_count),
        (b"cache-control", b"no-store"),
    ]
    if answer.content is not None:
        headers.append((b"restante-content", b"claim-check"))
        content_type = answer.media_type or "application/octet-stream"
        await exchange.answer(200, answer.content, media_type=content_type, headers=headers)
        return
    kind = media.negotiate(exchange.header(b"accept"), _OFFERED)
    if kind == media.ARROW:
        await send_arrow(desk, exchange, answer.table, headers=headers)
        return
    pieces = bundle_json(answer) if kind == media.JSON else bundle_cloudevents(answer)
    small = answer.message_count <= SMALL_BUNDLE_MESSAGES and answer.table.nbytes <= SMALL_TABLE_BYTES
    await send_pieces(desk, exchange, pieces, media_type=kind, headers=headers, small=small)


async def dequeue(desk: Desk, exchange: Exchange) -> None:
    done = await desk.link.dequeue(exchange.place["recipient"], exchange.place["bundle_id"])
    desk.metrics.collected.add(done.messages)
    await exchange.json(200, done)


async def explain(desk: Desk, exchange: Exchange) -> None:
    found = await desk.read(
        desk.hub.explain,
        exchange.place["recipient"],
        origins=exchange.texts("origin"),
        origin_groups=exchange.texts("origin_group"),
    )
    await exchange.json(200, found)


async def recipients(desk: Desk, exchange: Exchange) -> None:
    page = await desk.read(
        desk.hub.recipients,
        order="waiting" if (order := exchange.text("order")) is None else order,  # type: ignore[arg-type]  # judged by the hub
        limit=exchange.integer("limit"),
        after=exchange.text("after"),
    )
    as_of = page.as_of.isoformat().replace("+00:00", "Z").encode()
    answer = {"recipients": page.recipients, "next": page.next}
    await exchange.json(200, answer, headers=[(b"restante-as-of", as_of)])


_RECIPIENT = frozenset({Role.RECIPIENT})
_GROUPS = frozenset({"origin", "origin_group"})

ROUTES = (
    Route(
        "GET",
        "/v1/recipients/{recipient}/peek",
        peek,
        _RECIPIENT,
        _GROUPS | {"bundle_id", "format", "max_messages", "max_weight", "wait"},
    ),
    Route("DELETE", "/v1/recipients/{recipient}/bundles/{bundle_id}", dequeue, _RECIPIENT),
    Route("GET", "/v1/recipients/{recipient}/explain", explain, _RECIPIENT, _GROUPS),
    Route("GET", "/v1/recipients", recipients, frozenset(), frozenset({"order", "limit", "after"})),
)
