"""Reading along: the changes of a partition from any number on, and what is stored in it as of one moment."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import pyarrow as pa

from restante.limits import WAIT_SECONDS_MAX
from restante.model.access import Role
from restante.model.feed_answers import FeedAnswer, FeedWish
from restante.server.bodies import SMALL_TABLE_BYTES, send_arrow, send_pieces
from restante.server.desk import Desk
from restante.server.exchange import Exchange, Headers
from restante.server.room import Wait
from restante.server.routes.publishing import partition_number
from restante.server.routing import Route
from restante.server.waiting import unless_gone
from restante.wire import media
from restante.wire.outgoing_feed import changes_json, needed_columns, snapshot_json

SMALL_FEED_ROWS = 64
_OFFERED = (media.JSON, media.ARROW)
_NO_STORE = (b"cache-control", b"no-store")


async def feed(desk: Desk, exchange: Exchange) -> None:
    kind = media.negotiate(exchange.header(b"accept"), _OFFERED)
    wish = _wish(exchange)
    answer = await _changes(desk, exchange, _asked(wish, kind))
    headers = (
        (b"restante-next", b"%d" % answer.next),
        (b"restante-start", b"%d" % answer.start),
        (b"restante-end", b"%d" % answer.end),
        _NO_STORE,
    )
    await _send(desk, exchange, answer.table, changes_json(answer.table, wish.columns), kind=kind, headers=headers)


async def _changes(desk: Desk, exchange: Exchange, wish: FeedWish) -> FeedAnswer:
    """What there is, or else what comes while the caller waits."""
    partition, after = partition_number(exchange.place["partition"]), exchange.integer("after")
    limit, reader = exchange.integer("limit"), exchange.text("reader")
    wait = min(exchange.seconds("wait"), WAIT_SECONDS_MAX)
    ask = partial(desk.link.feed, partition, wish=wish, limit=limit, reader=reader)
    if wait > 0:
        # Who waits is one who follows: the hub says when he reads, so that publishers keep their pace.
        with desk.room.wait(Wait.FEED):
            answer = await unless_gone(desk, exchange, ask(after=after, wait=wait))
        if answer is not None:
            return answer
    with desk.room.read():
        return await ask(after=after)


async def snapshot(desk: Desk, exchange: Exchange) -> None:
    kind = media.negotiate(exchange.header(b"accept"), _OFFERED)
    wish = _wish(exchange)
    partition, after = partition_number(exchange.place["partition"]), exchange.text("after")
    position, limit = exchange.integer("position"), exchange.integer("limit")
    with desk.room.read():
        answer = await desk.link.snapshot(
            partition, after=after, position=position, wish=_asked(wish, kind), limit=limit
        )
    headers = [(b"restante-position", b"%d" % answer.position), _NO_STORE]
    if answer.next is not None:
        headers.append((b"restante-next", answer.next.encode()))
    pieces = snapshot_json(answer.table, answer.next, wish.columns)
    await _send(desk, exchange, answer.table, pieces, kind=kind, headers=headers)


def _wish(exchange: Exchange) -> FeedWish:
    """Columns may be given one by one, or several with commas between."""
    return FeedWish(
        origins=tuple(exchange.texts("origin")),
        kinds=tuple(exchange.texts("kind")),
        recipients=tuple(exchange.texts("recipient")),
        columns=tuple(name.strip() for text in exchange.texts("columns") for name in text.split(",")),
    )


def _asked(wish: FeedWish, kind: str) -> FeedWish:
    """The wish, with the columns that it takes to write it."""
    if kind == media.ARROW:
        return wish
    return FeedWish(
        origins=wish.origins, kinds=wish.kinds, recipients=wish.recipients, columns=needed_columns(wish.columns)
    )


async def _send(
    desk: Desk, exchange: Exchange, table: pa.Table, pieces: Iterator[bytes], *, kind: str, headers: Headers
) -> None:
    if kind == media.ARROW:
        await send_arrow(desk, exchange, table, headers=headers)
        return
    small = table.num_rows <= SMALL_FEED_ROWS and table.nbytes <= SMALL_TABLE_BYTES
    await send_pieces(desk, exchange, pieces, media_type=kind, headers=headers, small=small)


_READER = frozenset({Role.READER})
_WISH = frozenset({"origin", "kind", "recipient", "columns", "after", "limit"})

ROUTES = (
    Route("GET", "/v1/partitions/{partition}/feed", feed, _READER, _WISH | {"wait", "reader"}),
    Route("GET", "/v1/partitions/{partition}/snapshot", snapshot, _READER, _WISH | {"position"}),
)
