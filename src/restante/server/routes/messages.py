"""A recipient's messages: history, one of them, and what an operator may do with them."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Annotated

import msgspec
from msgspec import Meta

from restante.calls.call import Call, query_names
from restante.calls.mailboxes import FindMessage, ReadHistory
from restante.calls.removal import Erase, Purge, Release, SetAside, Withdraw
from restante.errors import InvalidRequest
from restante.model.access.access import Role
from restante.model.columns.text_ids import is_uuid
from restante.model.mailboxes.filters import check_filter
from restante.server.connections.bodies import (
    bounded,
    is_small,
    read_nothing,
    read_request,
    send_arrow,
    send_pieces,
)
from restante.server.connections.exchange import Exchange
from restante.server.desk import Desk
from restante.server.requests.call_bodies import body_of
from restante.server.requests.options import asked
from restante.server.route_table import Handler, Route
from restante.wire import media
from restante.wire.cloudevents import id_of_event
from restante.wire.live import LIVE_GAP
from restante.wire.outgoing.outgoing import message_bytes, message_json, page_json

_OFFERED = (media.JSON, media.ARROW)
_COUNT = re.compile("[1-9][0-9]{0,17}")


class Removed(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The messages that were withdrawn or erased."""

    messages: Annotated[int, Meta(ge=0, description="How many messages; with `dry_run`, how many it would be.")]


# A filter that is null is a mistake of the caller's: without it the purge would take more.
PURGE_BODY = body_of(
    Purge,
    "PurgeBody",
    "The choice of a purge: what fits these filters, or `all`. With `dry_run` it is only counted, without filters too.",
    given=("recipient",),
    nullable=False,
)


async def history(desk: Desk, exchange: Exchange) -> None:
    kind = media.negotiate(exchange.header(b"accept"), _OFFERED)
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


def _named(exchange: Exchange) -> str:
    """The id of a message: its own, or with the origin that of a CloudEvent."""
    own, source = exchange.place["id"], exchange.text("origin")
    if source is not None:
        check_filter("origin", source)
    return own if source is None or is_uuid(own) else id_of_event(source, own)


async def find(desk: Desk, exchange: Exchange) -> None:
    kind = media.negotiate(exchange.header(b"accept"), _OFFERED)
    table = await desk.read(desk.hub.find_table, FindMessage(exchange.place["recipient"], _named(exchange)))
    if kind == media.ARROW:
        await send_arrow(desk, exchange, table)
        return
    await send_pieces(desk, exchange, iter([message_json(table)]), media_type=kind, small=True)


def _on_message(kind: Callable[[str, str], Call[None]]) -> Handler:
    async def handle(desk: Desk, exchange: Exchange) -> None:
        await read_nothing(desk, exchange)
        await desk.call(kind(exchange.place["recipient"], _named(exchange)))
        await exchange.answer(204)

    return handle


async def purge(desk: Desk, exchange: Exchange) -> None:
    sent = await read_request(desk, exchange, PURGE_BODY.shape)
    call = PURGE_BODY.call(exchange, sent, recipient=exchange.place["recipient"])
    await exchange.json(200, Removed(await desk.call(call)))


async def erase(desk: Desk, exchange: Exchange) -> None:
    await read_nothing(desk, exchange)
    count = await desk.call(asked(exchange, Erase, recipient=exchange.place["recipient"]))
    await exchange.json(200, Removed(count))


_RECIPIENT = frozenset({Role.RECIPIENT})
_OPERATOR = frozenset({Role.OPERATOR})
_ORIGIN = frozenset({"origin"})
_MESSAGES = "/v1/recipients/{recipient}/messages"

ROUTES = (
    Route("GET", _MESSAGES, history, _RECIPIENT, query_names(ReadHistory) - {"live_gap"}),
    Route("GET", _MESSAGES + "/{id}", find, _RECIPIENT, _ORIGIN),
    Route("DELETE", _MESSAGES + "/{id}", _on_message(Withdraw), _OPERATOR, _ORIGIN),
    Route("POST", _MESSAGES + "/{id}/set-aside", _on_message(SetAside), _OPERATOR, _ORIGIN),
    Route("POST", _MESSAGES + "/{id}/release", _on_message(Release), _OPERATOR, _ORIGIN),
    Route("POST", "/v1/recipients/{recipient}/purge", purge, _OPERATOR),
    Route("DELETE", "/v1/recipients/{recipient}", erase, _OPERATOR, query_names(Erase)),
)
