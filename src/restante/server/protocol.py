"""The protection of connections: who sends too slowly, too much before the point, or does not read, is cut off.

Uvicorn's protocol with bounds. Nothing is timed per request: each connection notes when something last happened, and a
sweeper looks at all of them once a second.
"""

from __future__ import annotations

import asyncio
import secrets
from collections import deque
from collections.abc import Mapping
from typing import Any, Protocol

import msgspec
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.http11 import Request

from restante.errors import InvalidRequest
from restante.limits import BODY_BYTES_PER_SECOND_MIN, HEADER_BYTES_MAX
from restante.server.corked import Corked
from restante.server.exchange import ClientGone
from restante.server.metrics import Metrics
from restante.server.whole_body import WholeBody
from restante.settings import ServerSettings
from restante.wire import media
from restante.wire.problems import problem_of

SWEEP_SECONDS = 1.0
_LINGER_SECONDS = 2.0
_GOING_AWAY = 1001


class Connection(HttpToolsProtocol):
    """One connection. `settings` and `metrics` are set on a subclass, for uvicorn makes the instances."""

    settings: ServerSettings
    metrics: Metrics

    def __init__(self, *args: Any, **kwargs: Any) -> None:  # noqa: ANN401 - uvicorn's own signature
        super().__init__(*args, **kwargs)
        self._began = self._last = self.loop.time()
        self._header_bytes = 0
        self._body_bytes = 0
        self._in_headers = True
        self._incomplete = True
        """A request has begun (or is to come first), and has not come whole."""
        self._earlier: deque[RequestResponseCycle] = deque()
        """Requests that were not answered yet when the next one came."""
        self._whole: WholeBody | None = None
        self._paused: float | None = None
        self._lingers: float | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(Corked(transport))  # type: ignore[arg-type]  # it has all that a transport has
        if len(self.connections) > self.settings.connections_max:
            self._refuse(503, "unavailable", "Too many connections. Come back later, and keep connections open.")

    def data_received(self, data: bytes) -> None:
        self._last = self.loop.time()
        if self.transport.is_closing():
            return
        if self._in_headers:
            self._header_bytes += len(data)
            if self._header_bytes > HEADER_BYTES_MAX + 64 * 1024:
                self._refuse(431, "invalid_request", f"The headers are larger than {HEADER_BYTES_MAX} bytes.")
                return
        super().data_received(data)

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self.scope["restante.transport"] = self.transport  # type: ignore[typeddict-unknown-key]  # ours
        self.scope["restante.abort"] = self.transport.abort  # type: ignore[typeddict-unknown-key]  # ours
        self.scope["restante.whole_body"] = self.whole_body  # type: ignore[typeddict-unknown-key]
        self._whole = None
        self._began = self._last
        self._incomplete = self._in_headers = True
        self._header_bytes = self._body_bytes = 0

    def on_header(self, name: bytes, value: bytes) -> None:
        self._header_bytes += len(name) + len(value)
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        self._in_headers = False
        earlier: RequestResponseCycle | None = self.cycle
        super().on_headers_complete()
        if earlier is not None and not earlier.response_complete:
            while self._earlier and self._earlier[0].response_complete:
                self._earlier.popleft()
            self._earlier.append(earlier)

    def connection_lost(self, exc: Exception | None) -> None:
        """Uvicorn tells the latest request only. One before it would never hear that its client has gone."""
        super().connection_lost(exc)
        if self._whole is not None:
            self._whole.finish(ClientGone())
        for cycle in self._earlier:
            if not cycle.response_complete:
                cycle.disconnected = True
                cycle.message_event.set()
        self._earlier.clear()

    def whole_body(self, scope: Mapping[str, Any], length: int) -> WholeBody | None:
        """Receive the rest of a request's body in one place; None if it has come already."""
        cycle = self.cycle
        if cycle.scope is not scope or not cycle.more_body or cycle.disconnected:
            return None
        if cycle.waiting_for_100_continue:
            cycle.waiting_for_100_continue = False
            self.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        self._whole = WholeBody(length, self.loop)
        self._whole.take(cycle.body)
        cycle.body = bytearray()
        self.flow.resume_reading()
        return self._whole

    def on_body(self, body: bytes) -> None:
        self._body_bytes += len(body)
        if self._whole is not None:
            self._whole.take(body)
        else:
            super().on_body(body)

    def on_message_complete(self) -> None:
        self._incomplete = False
        super().on_message_complete()
        if self._whole is not None:
            self._whole.finish()
            self._whole = None

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self._incomplete and not self.transport.is_closing():
            # Answered before the body had come: what still comes is thrown away, but not for long.
            self._lingers = self._last + _LINGER_SECONDS

    def pause_writing(self) -> None:
        self._paused = self.loop.time()
        super().pause_writing()

    def resume_writing(self) -> None:
        self._paused = None
        super().resume_writing()

    def timeout_keep_alive_handler(self) -> None:
        if self.transport.get_write_buffer_size():
            self.transport.abort()
        else:
            super().timeout_keep_alive_handler()

    def sweep(self, now: float) -> None:
        """Cut off a client that is too slow."""
        settings = self.settings
        if self.transport.is_closing():
            # What was written last is still to go out; who does not take it is left.
            if now - self._last > settings.answer_idle_seconds:
                self.transport.abort()
        elif self._paused is not None and now - self._paused > settings.answer_idle_seconds:
            self._cut("answer")
        elif self._lingers is not None and now > self._lingers:
            self.transport.abort()
        elif not self._incomplete:
            return
        elif not self._in_headers:
            self._sweep_body(now)
        elif now - self._began > settings.header_seconds:
            self._cut("headers")

    def _sweep_body(self, now: float) -> None:
        allowed = self.settings.body_idle_seconds
        # Reading is paused while the hub is busy with what came: that is not the client's fault.
        if not self.flow.read_paused and (
            now - self._last > allowed or now - self._began > allowed + self._body_bytes / BODY_BYTES_PER_SECOND_MIN
        ):
            self._cut("body")

    def _cut(self, waited_for: str) -> None:
        self.metrics.cut_off.add()
        if waited_for == "headers":
            self._refuse(408, "invalid_request", "The request did not come in time.")
        self.transport.abort()

    def send_400_response(self, msg: str) -> None:
        self._refuse(400, "invalid_request", msg)

    def _refuse(self, status: int, code: str, detail: str) -> None:
        """Answer without the application, and close."""
        made = secrets.token_hex(8)
        problem = problem_of(InvalidRequest(detail), correlation_id=made) | {"status": status, "code": code}
        body = msgspec.json.encode(problem)
        head = (
            f"HTTP/1.1 {status} Refused\r\ncontent-type: {media.PROBLEM}\r\ncontent-length: {len(body)}\r\n"
            f"restante-correlation-id: {made}\r\nconnection: close\r\n\r\n"
        )
        self.transport.write(head.encode() + body)
        self.transport.close()


class Pushing(Protocol):
    """Somebody who writes to a socket whenever there is room."""

    def flush(self) -> None:
        """There is room again."""
        ...

    def farewell(self) -> None:
        """The client has not answered for too long."""
        ...


class Socket(WebSocketsSansIOProtocol):
    """One WebSocket. A client that answers no ping is let go of, with all that it has not read."""

    live: Pushing | None = None
    """Who pushes messages here; it also says when the socket is to be closed."""

    def handle_connect(self, event: Request) -> None:
        super().handle_connect(event)
        if self.handshake_initiated and not self.close_sent:
            self.scope["restante.socket"] = self  # type: ignore[typeddict-unknown-key]  # ours

    def resume_writing(self) -> None:
        super().resume_writing()
        if self.live is not None:
            self.live.flush()

    def shutdown(self) -> None:
        if self.live is None:
            super().shutdown()

    def keepalive_timeout(self) -> None:
        if self.live is not None:
            self.live.farewell()
            self.conn.fail(_GOING_AWAY, "idle")
        super().keepalive_timeout()
        # Closing alone would wait for ever until the other side has read what was sent.
        self.loop.call_later(_LINGER_SECONDS, self.transport.abort)
