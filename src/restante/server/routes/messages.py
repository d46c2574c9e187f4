"""A recipient's messages: history, one of them, and what an operator may do with them."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import datetime

import msgspec

from restante.errors import InvalidRequest
from restante.hub.hub import Hub
from restante.model.access import Role
from restante.model.message import State
from restante.server.bodies import SMALL_TABLE_BYTES, read_request, send_arrow, send_pieces
from restante.server.desk import Desk
from restante.server.exchange import Exchange
from restante.server.routing import Handler, Route
from restante.wire import media
from restante.wire.live import LIVE_GAP
from restante.wire.outgoing import message_json, page_json

_OFFERED = (media.JSON, media.ARROW)
_COUNT = re.compile("[1-9][0-9]{0,17}")


class PurgeBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What to purge; everything that waits, if nothing is said."""

    origin: str | None = None
    kind: str | None = None
    before: datetime | None = None
    dry_run: bool = False


async def history(desk: Desk, exchange: Exchange) -> None:
    kind = media.negotiate(exchange.header(b"accept"), _OFFERED)
    fills_gap = _fills_gap(exchange.header(LIVE_GAP.lower().encode()))
    table, following = await desk.read(
        desk.hub.history_table,
        exchange.place["recipient"],
        after=exchange.integer("after"),
        before=exchange.integer("before"),
        state=_state(exchange.text("state")),
        limit=exchange.integer("limit"),
    )
    desk.post.tally.gaps_recovered += fills_gap
    headers = [] if following is None else [(b"restante-next", b"%d" % following)]
    if kind == media.ARROW:
        await send_arrow(desk, exchange, table, headers=headers)
        return
    small = table.nbytes <= SMALL_TABLE_BYTES
    await send_pieces(desk, exchange, page_json(table, following), media_type=kind, headers=headers, small=small)


def _fills_gap(text: str | None) -> bool:
    if text is None:
        return False
    if not _COUNT.fullmatch(text):
        raise InvalidRequest(
            f"{LIVE_GAP} is how many messages are missing, 1 or more, not {text[:40]!r}.", header=LIVE_GAP
        )
    return True


def _state(text: str | None) -> State | None:
    try:
        return None if text is None else State(text)
    except ValueError as error:
        known = ", ".join(state.value for state in State)
        raise InvalidRequest(f"state must be one of {known}, not {text!r}.", parameter="state") from error


async def find(desk: Desk, exchange: Exchange) -> None:
    kind = media.negotiate(exchange.header(b"accept"), _OFFERED)
    table = await desk.read(desk.hub.find_table, exchange.place["recipient"], exchange.place["id"])
    if kind == media.ARROW:
        await send_arrow(desk, exchange, table)
        return
    await send_pieces(desk, exchange, iter([message_json(table)]), media_type=kind, small=True)


def _on_message(act: Callable[[Hub, str, str], None]) -> Handler:
    async def handle(desk: Desk, exchange: Exchange) -> None:
        await desk.read(act, desk.hub, exchange.place["recipient"], exchange.place["id"])
        await exchange.answer(204)

    return handle


async def purge(desk: Desk, exchange: Exchange) -> None:
    asked = await read_request(desk, exchange, PurgeBody)
    count = await desk.read(
        desk.hub.purge,
        exchange.place["recipient"],
        origin=asked.origin,
        kind=asked.kind,
        before=asked.before,
        dry_run=asked.dry_run,
    )
    await exchange.json(200, {"messages": count})


async def erase(desk: Desk, exchange: Exchange) -> None:
    count = await desk.read(desk.hub.erase, exchange.place["recipient"], dry_run=exchange.flag("dry_run"))
    await exchange.json(200, {"messages": count})


_RECIPIENT = frozenset({Role.RECIPIENT})
_OPERATOR = frozenset({Role.OPERATOR})
_MESSAGES = "/v1/recipients/{recipient}/messages"

ROUTES = (
    Route("GET", _MESSAGES, history, _RECIPIENT, frozenset({"after", "before", "state", "limit"})),
    Route("GET", _MESSAGES + "/{id}", find, _RECIPIENT),
    Route("DELETE", _MESSAGES + "/{id}", _on_message(Hub.withdraw), _OPERATOR),
    Route("POST", _MESSAGES + "/{id}/set-aside", _on_message(Hub.set_aside), _OPERATOR),
    Route("POST", _MESSAGES + "/{id}/release", _on_message(Hub.release), _OPERATOR),
    Route("POST", "/v1/recipients/{recipient}/purge", purge, _OPERATOR),
    Route("DELETE", "/v1/recipients/{recipient}", erase, _OPERATOR, frozenset({"dry_run"})),
)
