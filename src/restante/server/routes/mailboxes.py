"""Mailboxes: peek, dequeue, explain, the recipients with waiting messages, and what a recipient has and had."""

from __future__ import annotations

import re
from urllib.parse import quote

from restante.calls.call import query_names
from restante.calls.mailboxes import Dequeue, Explain, FindMessage, ListRecipients, Peek, ReadHistory
from restante.errors import InvalidRequest, OriginDidNotDeliver
from restante.model.access.access import Role
from restante.model.columns.text_ids import is_uuid
from restante.model.mailboxes.answers import BundleAnswer, Reason
from restante.model.mailboxes.filters import check_filter
from restante.server.connections.bodies import bounded, is_small, read_nothing, send_arrow, send_pieces
from restante.server.connections.exchange import Exchange
from restante.server.connections.room import Wait
from restante.server.connections.waits import unless_gone
from restante.server.desk import Desk
from restante.server.requests.options import asked
from restante.server.route_table import Route
from restante.wire import media
from restante.wire.bundle_letters import encode_letters, joined_texts
from restante.wire.cloudevents import id_of_event
from restante.wire.live import LIVE_GAP
from restante.wire.outgoing.outgoing import bundle_cloudevents, bundle_json, message_bytes, message_json, page_json

MESSAGES = "/v1/recipients/{recipient}/messages"
OF_ORIGIN = frozenset({"origin"})
"""The query of routes about one message, which may name it as the CloudEvent of an origin."""
_FOREIGN = (
    (b"restante-content", b"claim-check"),
    (b"content-security-policy", b"sandbox"),
    (b"content-disposition", b"attachment"),
)
"""Beside content in its origin's own media type: a browser that is led here saves it, and runs none of it as the hub's own."""
_OFFERED = (media.JSON, media.CLOUDEVENTS_BATCH, media.ARROW)
_SHOWN_AS = (media.JSON, media.ARROW)
_COUNT = re.compile("[1-9][0-9]{0,17}")


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
        headers += _FOREIGN
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


async def history(desk: Desk, exchange: Exchange) -> None:
    kind = media.negotiate(exchange.header(b"accept"), _SHOWN_AS)
    fills_gap = _fills_gap(exchange.header(LIVE_GAP.lower().encode()))
    call = asked(exchange, ReadHistory, recipient=exchange.place["recipient"], live_gap=None)
    whole, following = await desk.read(desk.hub.history_table, call)
    desk.post.tally.gaps_recovered += fills_gap
    backwards = call.before is not None and call.after is None
    table = await bounded(desk, whole, None if kind == media.ARROW else message_bytes, backwards=backwards)
    if table.num_rows < whole.num_rows:
        following = int(table["sequence_number"][0 if backwards else -1].as_py())
    headers = [] if following is None else [(b"restante-next", b"%d" % following)]
    if kind == media.ARROW:
        await send_arrow(desk, exchange, table, headers=headers)
        return
    pieces = page_json(table, following)
    await send_pieces(desk, exchange, pieces, media_type=kind, headers=headers, small=is_small(table))


def _fills_gap(text: str | None) -> bool:
    if text is None:
        return False
    if not _COUNT.fullmatch(text):
        raise InvalidRequest(
            f"{LIVE_GAP} is how many messages are missing, 1 or more, not {text[:40]!r}.", header=LIVE_GAP
        )
    return True


async def find(desk: Desk, exchange: Exchange) -> None:
    kind = media.negotiate(exchange.header(b"accept"), _SHOWN_AS)
    table = await desk.read(desk.hub.find_table, FindMessage(exchange.place["recipient"], message_named(exchange)))
    if kind == media.ARROW:
        await send_arrow(desk, exchange, table)
        return
    await send_pieces(desk, exchange, iter([message_json(table)]), media_type=kind, small=True)


def message_named(exchange: Exchange) -> str:
    """The id of a message: its own, or with the origin that of a CloudEvent."""
    own, source = exchange.place["id"], exchange.text("origin")
    if source is not None:
        check_filter("origin", source)
    return own if source is None or is_uuid(own) else id_of_event(source, own)


_RECIPIENT = frozenset({Role.RECIPIENT})

DEQUEUE = Route("DELETE", "/v1/recipients/{recipient}/bundles/{bundle_id}", dequeue, _RECIPIENT)
ROUTES = (
    Route("GET", "/v1/recipients/{recipient}/peek", peek, _RECIPIENT, query_names(Peek)),
    DEQUEUE,
    Route("GET", "/v1/recipients/{recipient}/explain", explain, _RECIPIENT, query_names(Explain)),
    Route("GET", "/v1/recipients", recipients, frozenset(), query_names(ListRecipients)),
    Route("GET", MESSAGES, history, _RECIPIENT, query_names(ReadHistory) - {"live_gap"}),
    Route("GET", MESSAGES + "/{id}", find, _RECIPIENT, OF_ORIGIN),
)
