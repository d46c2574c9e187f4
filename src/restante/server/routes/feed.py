"""Reading along: the changes of a partition from any number on, and what is stored in it as of one moment."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import msgspec
import pyarrow as pa

from restante.calls.call import query_names
from restante.calls.feed import ReadFeed, ReadSnapshot
from restante.limits import ANSWER_BYTES_MAX
from restante.model.access.access import Role
from restante.model.feed.feed_answers import FeedAnswer, FeedWish
from restante.server.connections.bodies import bounded, is_small, send_arrow, send_pieces
from restante.server.connections.exchange import Exchange, Headers
from restante.server.connections.room import Wait
from restante.server.connections.waits import unless_gone
from restante.server.desk import Desk
from restante.server.requests.options import asked
from restante.server.route_table import Route
from restante.server.routes.publishing import partition_number
from restante.wire import media
from restante.wire.outgoing.outgoing_feed import (
    change_bytes,
    changes_json,
    needed_columns,
    snapshot_bytes,
    snapshot_json,
)
from restante.wire.outgoing.page_bounds import RowBytes

_OFFERED = (media.JSON, media.ARROW)
_NO_STORE = (b"cache-control", b"no-store")


async def feed(desk: Desk, exchange: Exchange) -> None:
    kind = media.negotiate(exchange.header(b"accept"), _OFFERED)
    wish = _wish(exchange)
    answer = await _changes(desk, exchange, _needed(wish, kind))
    as_json = None if kind == media.ARROW else partial(change_bytes, columns=wish.columns)
    if kind != media.ARROW or answer.stream is None or len(answer.stream) > ANSWER_BYTES_MAX:
        answer = await _bounded(desk, answer, as_json)
    headers = (
        (b"restante-next", b"%d" % answer.next),
        (b"restante-start", b"%d" % answer.start),
        (b"restante-end", b"%d" % answer.end),
        _NO_STORE,
    )
    pieces = changes_json(answer.table, wish.columns)
    await _send(desk, exchange, answer.table, pieces, kind=kind, headers=headers, made=answer.stream)


async def _bounded(desk: Desk, answer: FeedAnswer, as_json: RowBytes | None) -> FeedAnswer:
    """The changes that an answer has room for."""
    table = await bounded(desk, answer.table, as_json, whole_changes=True)
    if table.num_rows == answer.table.num_rows:
        return msgspec.structs.replace(answer, stream=None)
    last = int(table["sequence_number"][-1].as_py())
    return msgspec.structs.replace(answer, table=table, next=last, stream=None)


async def _changes(desk: Desk, exchange: Exchange, wish: FeedWish) -> FeedAnswer:
    """The changes that there are, or else those that come while the caller waits."""
    call = asked(exchange, ReadFeed, partition=partition_number(exchange.place["partition"]), wish=wish)
    if call.wait > 0:
        # A caller that waits follows the feed. The hub then says when it reads, so that publishers keep their pace.
        with desk.room.wait(Wait.FEED):
            answer = await unless_gone(desk, exchange, desk.link.call(call))
        if answer is not None:
            return answer
    return await desk.call(msgspec.structs.replace(call, wait=0))


async def snapshot(desk: Desk, exchange: Exchange) -> None:
    kind = media.negotiate(exchange.header(b"accept"), _OFFERED)
    wish = _wish(exchange)
    partition = partition_number(exchange.place["partition"])
    answer = await desk.call(asked(exchange, ReadSnapshot, partition=partition, wish=_needed(wish, kind)))
    as_json = None if kind == media.ARROW else partial(snapshot_bytes, columns=wish.columns)
    table = await bounded(desk, answer.table, as_json)
    if table.num_rows < answer.table.num_rows and answer.after is not None:
        answer = msgspec.structs.replace(answer, table=table, next=answer.after(table.num_rows))
    headers = [(b"restante-position", b"%d" % answer.position), _NO_STORE]
    if answer.next is not None:
        headers.append((b"restante-next", answer.next.encode()))
    pieces = snapshot_json(answer.table, answer.next, wish.columns)
    await _send(desk, exchange, answer.table, pieces, kind=kind, headers=headers)


def _wish(exchange: Exchange) -> FeedWish:
    """The wish that a query states. It may name columns one by one, or several with commas between."""
    return FeedWish(
        origins=tuple(exchange.texts("origin")),
        kinds=tuple(exchange.texts("kind")),
        recipients=tuple(exchange.texts("recipient")),
        columns=tuple(name.strip() for text in exchange.texts("columns") for name in text.split(",")),
    )


def _needed(wish: FeedWish, kind: str) -> FeedWish:
    """The wish, with the columns that it takes to write it."""
    if kind == media.ARROW:
        return wish
    return FeedWish(
        origins=wish.origins, kinds=wish.kinds, recipients=wish.recipients, columns=needed_columns(wish.columns)
    )


async def _send(
    desk: Desk,
    exchange: Exchange,
    table: pa.Table,
    pieces: Iterator[bytes],
    *,
    kind: str,
    headers: Headers,
    made: memoryview | None = None,
) -> None:
    if kind == media.ARROW:
        await send_arrow(desk, exchange, table, made=made, headers=headers)
        return
    await send_pieces(desk, exchange, pieces, media_type=kind, headers=headers, small=is_small(table))


_READER = frozenset({Role.READER})
_WISH = frozenset({"origin", "kind", "recipient", "columns"})


def _query(kind: type[ReadFeed | ReadSnapshot]) -> frozenset[str]:
    return _WISH | query_names(kind) - {"wish"}


ROUTES = (
    Route("GET", "/v1/partitions/{partition}/feed", feed, _READER, _query(ReadFeed)),
    Route("GET", "/v1/partitions/{partition}/snapshot", snapshot, _READER, _query(ReadSnapshot)),
)
