"""`GET /v1/recipients/{recipient}/live` as server-sent events, for browsers and curl.

Their clients cannot detect gaps, and continue from the last id when they reconnect. So nothing is dropped: a slow client
gets the rest from history.
"""

from __future__ import annotations

import asyncio
import random
from collections import deque
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from typing import Any

from restante.errors import InvalidRequest, NotAcceptable
from restante.limits import LIVE_PING_SECONDS
from restante.model.live.live_queue import Counted
from restante.server.connections.corked_transport import bare
from restante.server.connections.exchange import ClientGone, Exchange
from restante.server.desk import Desk
from restante.server.live.live_rows import LiveRows
from restante.server.live.socket_line import bound_buffer, event_bytes, event_frames
from restante.server.live.web_socket import QUERY, RECIPIENT, check_client, connect
from restante.server.route_table import Route
from restante.wire import media
from restante.wire.live import Disconnected

EVENTS = "text/event-stream"
_HEADERS = [(b"cache-control", b"no-store"), (b"x-accel-buffering", b"no")]


class EventLine:
    """An endless response as a line. One piece is under way at a time; the line is open when none is."""

    def __init__(self) -> None:
        self._pieces: deque[bytes] = deque()
        self._written = asyncio.Event()
        self._taken = asyncio.Event()
        self._taken.set()
        self._last = False
        self.ended = False
        self.opened: Callable[[], None] = lambda: None
        """Called when everything has been sent, so that more may be written."""

    @property
    def open(self) -> bool:
        return self._taken.is_set() and not self.ended

    def write(self, frames: Sequence[bytes], messages: Sequence[Counted]) -> None:
        self._put(event_bytes(frames, messages))

    def push(self, counter: int, rows: LiveRows) -> None:
        self._put(rows.in_frames(event_frames, counter))

    def _put(self, piece: bytes) -> None:
        if not self.ended:
            self._pieces.append(piece)
            self._taken.clear()
            self._written.set()

    async def ready(self) -> None:
        await self._taken.wait()
        if self.ended:
            raise ClientGone

    async def hang_up(self, reason: Disconnected) -> None:  # noqa: ARG002 - the last event names the reason
        self._last = True
        self._written.set()

    async def next(self) -> bytes | None:
        """The next piece, asked for when all before it has been sent; None at the end."""
        if not self._pieces:
            self._written.clear()
            self._taken.set()
            self.opened()
        if not self._pieces and not self._last:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._written.wait(), LIVE_PING_SECONDS)
        if self._pieces:
            return self._pieces.popleft()
        return None if self._last else b": still here\n\n"

    def end(self) -> None:
        self.ended = True
        self._taken.set()


async def live_events(desk: Desk, exchange: Exchange) -> None:
    if not media.names(exchange.header(b"accept"), EVENTS):
        raise NotAcceptable(
            f"Messages are pushed over a web socket, or as server-sent events: send Accept: {EVENTS}.", offered=[EVENTS]
        )
    check_client(desk, exchange)
    after = _last_event(exchange)
    line = EventLine()
    transport = exchange.scope.get("restante.transport")
    if transport is not None:
        bound_buffer(bare(transport))
    pause = round(1_000 * random.uniform(1, 3))
    await exchange.begin(200, media_type=EVENTS, headers=_HEADERS)
    await exchange.go_on(b"retry: %d\n\n" % pause)
    with desk.passes.held(exchange) as held:
        connection = connect(desk, exchange, line, held, after=after, keeps_up=True)
        line.opened = connection.flush
        try:
            await _while_there(exchange, _flow(exchange, line))
        finally:
            line.end()
            desk.post.leave(connection)


def _last_event(exchange: Exchange) -> int | None:
    text = exchange.header(b"last-event-id")
    if not text:
        return None
    if not (text.isascii() and text.isdecimal() and len(text) <= 19 and int(text) < 2**63):
        raise InvalidRequest(f"Last-Event-ID must be a sequence number, not {text[:40]!r}.", parameter="Last-Event-ID")
    return int(text)


async def _flow(exchange: Exchange, line: EventLine) -> None:
    while (piece := await line.next()) is not None:
        await exchange.go_on(piece)
    await exchange.end()


async def _while_there(exchange: Exchange, flow: Coroutine[Any, Any, None]) -> None:
    """Run `flow` until it ends, or raise `ClientGone` when the client leaves."""
    flowing, gone = asyncio.ensure_future(flow), asyncio.ensure_future(exchange.gone())
    try:
        await asyncio.wait((flowing, gone), return_when=asyncio.FIRST_COMPLETED)
        if flowing.done():
            flowing.result()
        else:
            raise ClientGone
    finally:
        for task in (flowing, gone):
            task.cancel()
        with suppress(asyncio.CancelledError):
            await asyncio.gather(flowing, gone, return_exceptions=True)
        del flowing, gone, task  # An error's traceback holds this frame, and a task the error: break the cycle.


ROUTES = (Route("GET", "/v1/recipients/{recipient}/live", live_events, RECIPIENT, QUERY, is_long=True),)
