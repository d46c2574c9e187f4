"""Collecting: peek, dequeue, explain, and the recipients with waiting messages."""

from __future__ import annotations

from urllib.parse import quote

from restante.calls.call import query_names
from restante.calls.mailboxes import Dequeue, Explain, ListRecipients, Peek
from restante.errors import OriginDidNotDeliver
from restante.model.access.access import Role
from restante.model.mailboxes.answers import BundleAnswer, Reason
from restante.server.connections.bodies import is_small, read_nothing, send_arrow, send_pieces
from restante.server.connections.exchange import Exchange
from restante.server.connections.room import Wait
from restante.server.connections.waits import unless_gone
from restante.server.desk import Desk
from restante.server.requests.options import asked
from restante.server.route_table import Route
from restante.wire import media
from restante.wire.bundle_letters import encode_letters, joined_texts
from restante.wire.outgoing.outgoing import bundle_cloudevents, bundle_json

_OFFERED = (media.JSON, media.CLOUDEVENTS_BATCH, media.ARROW)


async def peek(desk: Desk, exchange: Exchange) -> None:
    call = asked(exchange, Peek, recipient=exchange.place["recipient"])
    try:
        answer = await _peeked(desk, exchange, call)
    except OriginDidNotDeliver:
        answer = Reason.ORIGIN_DID_NOT_DELIVER
    if isinstance(answer, Reason):
        await _answer_empty(exchange, answer)
    else:
        await _answer_bundle(desk, exchange, answer)


async def _peeked(desk: Desk, exchange: Exchange, call: Peek) -> BundleAnswer | Reason:
    """The bundle that the last look found: the first look, unless mail comes while the client waits."""
    with desk.own_of(exchange.grant).peeking(call) as watch:
        with desk.room.read():
            found = await watch.look()
        if isinstance(found, Reason) and call.wait > 0:
            with desk.room.wait(Wait.PEEK):
                return await unless_gone(desk, exchange, watch.wait(found, call.wait)) or found
    return found


async def _answer_empty(exchange: Exchange, reason: Reason) -> None:
    headers = [(b"restante-empty-reason", reason.value.encode()), (b"cache-control", b"no-store")]
    await exchange.answer(204, headers=headers)


async def _answer_bundle(desk: Desk, exchange: Exchange, answer: BundleAnswer) -> None:
    desk.metrics.bundles.add()
    headers = [
        (b"restante-bundle-id", answer.bundle_id.encode()),
        (b"restante-origin", quote(answer.origin, safe="").encode()),
        (b"restante-kind", quote(answer.kind, safe="").encode()),
        (b"restante-document-types", joined_texts(answer.document_types).encode()),
        (b"restante-message-count", b"%d" % answer.message_count),
        (b"cache-control", b"no-store"),
    ]
    if answer.content is not None:
        headers.append((b"restante-content", b"claim-check"))
        content_type = answer.media_type or "application/octet-stream"
        await exchange.answer(200, answer.content, media_type=content_type, headers=headers)
        return
    accept = exchange.header(b"accept")
    if answer.few and media.names(accept, media.LETTERS):
        letters = iter([encode_letters(answer.few)])
        await send_pieces(desk, exchange, letters, media_type=media.LETTERS, headers=headers, small=True)
        return
    kind = media.negotiate(accept, _OFFERED)
    if kind == media.ARROW:
        await send_arrow(desk, exchange, answer.table, headers=headers)
        return
    pieces = bundle_json(answer) if kind == media.JSON else bundle_cloudevents(answer)
    await send_pieces(
        desk, exchange, pieces, media_type=kind, headers=headers, small=bool(answer.few) or is_small(answer.table)
    )


async def dequeue(desk: Desk, exchange: Exchange) -> None:
    await read_nothing(desk, exchange)
    done = await desk.link.call(Dequeue(exchange.place["recipient"], exchange.place["bundle_id"]))
    desk.metrics.collected.add(done.messages)
    await exchange.json(200, done)


async def explain(desk: Desk, exchange: Exchange) -> None:
    call = asked(exchange, Explain, recipient=exchange.place["recipient"])
    await exchange.json(200, await desk.call(call))


async def recipients(desk: Desk, exchange: Exchange) -> None:
    page = await desk.call(asked(exchange, ListRecipients))
    as_of = page.as_of.isoformat().replace("+00:00", "Z").encode()
    answer = {"recipients": page.recipients, "next": page.next}
    await exchange.json(200, answer, headers=[(b"restante-as-of", as_of)])


_RECIPIENT = frozenset({Role.RECIPIENT})

DEQUEUE = Route("DELETE", "/v1/recipients/{recipient}/bundles/{bundle_id}", dequeue, _RECIPIENT)
ROUTES = (
    Route("GET", "/v1/recipients/{recipient}/peek", peek, _RECIPIENT, query_names(Peek)),
    DEQUEUE,
    Route("GET", "/v1/recipients/{recipient}/explain", explain, _RECIPIENT, query_names(Explain)),
    Route("GET", "/v1/recipients", recipients, frozenset(), query_names(ListRecipients)),
)
