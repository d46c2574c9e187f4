"""Connections with bounds: a client that sends too slowly, sends too large headers, or does not read is cut off.

It extends uvicorn's protocol. Requests have no timers of their own: each connection notes when something last happened, and
a sweeper examines all connections once a second.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Mapping
from typing import Any, ClassVar

import httptools
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from restante.limits import BODY_BYTES_PER_SECOND_MIN, HEADER_BYTES_MAX
from restante.server.connections.corked_transport import Corked
from restante.server.connections.exchange import ClientGone
from restante.server.connections.short_way import (
    AdmittedRequest,
    AnswerDefaults,
    KnownHeads,
    PipelineFlow,
    PlainHead,
    ShortAnswer,
    ShortWays,
    announces_body,
    refusal,
)
from restante.server.connections.whole_body import StraightReceiver, WholeBody
from restante.server.health.metrics import Metrics
from restante.settings import ServerSettings

SWEEP_SECONDS = 1.0
_LINGER_SECONDS = 2.0
_CLOSE = b"connection: close\r\n"
_STRAIGHT_BYTES_MIN = 64 * 1024
"""If at least this many bytes of a body are still to come, it is received past the parser."""
_SHORT_ANSWERS_MAX = 64
"""The most unanswered short requests of one connection. With more, the client is not read from until some are answered."""


class HttpConnection(HttpToolsProtocol):
    """One connection. `settings`, `metrics` and `shorts` are set on a subclass, because uvicorn makes the instances.

    A request goes to the application, as in uvicorn, or the short way. Answers leave in the order of the requests.
    """

    settings: ServerSettings
    metrics: Metrics
    shorts: ShortWays | None = None
    _defaults: ClassVar = AnswerDefaults()

    def __init__(self, *args: Any, **kwargs: Any) -> None:  # noqa: ANN401 - uvicorn's own signature
        super().__init__(*args, **kwargs)
        self._began = self._last = self.loop.time()
        self._begun = 0
        """How many requests have begun in the last received bytes."""
        self._within = False
        """Whether a request has begun and is not complete."""
        self._header_bytes = 0
        """How many bytes of incomplete headers have been received."""
        self._named_bytes = 0
        """The bytes of the request line and the complete headers."""
        self._body_bytes = 0
        self._beside_bytes = 0
        """The bytes of trailers and chunk extensions since the last byte of the body."""
        self._in_headers = True
        self._incomplete = True
        """Whether a request has begun and is not complete, or the first one has not come yet."""
        self._earlier: deque[RequestResponseCycle] = deque()
        """Requests that were unanswered when the next one came."""
        self._whole: WholeBody | None = None
        self._known_heads = KnownHeads()
        self._admitted: AdmittedRequest | None = None
        """A request that goes the short way, until it is complete."""
        self._short_body = b""
        """The received part of the body of a request that goes the short way."""
        self._short_answers: deque[ShortAnswer] = deque()
        """The answers of requests that went the short way, in the order of the requests. Some may not be there yet."""
        self._last_was_short = False
        self._latest_head: PlainHead | None = None
        """The head of the last complete request, if it went the short way."""
        self._closes = False
        """Whether the connection closes after the pending answers."""
        self._paused: float | None = None
        self._lingers: float | None = None
        self._refused = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(Corked(transport, self._stays))  # type: ignore[arg-type]  # It has all attributes of a transport.
        self._bare = transport
        self.flow = PipelineFlow(self.transport, self.pipeline)
        if len(self.connections) > self.settings.connections_max:
            self._refuse(503, "unavailable", "Too many connections. Come back later, and keep connections open.")
            self.transport.close()

    def data_received(self, data: bytes) -> None:
        self._last = self.loop.time()
        if self._refused or self._closes or self._bare.is_closing():
            return
        if self._known_heads.any and not self._within and self._goes_as_before(data):
            return
        fresh, self._begun, body_bytes = not self._within, 0, self._body_bytes
        self._unset_keepalive_if_required()
        self._parse(data)
        if self._within and not self._refused:
            if self._in_headers:
                self._count_unfinished(len(data), fresh=fresh)
            else:
                self._count_beside(len(data), went_on=self._begun > 0 or self._body_bytes > body_bytes)
        elif fresh and self._begun == 1 and self._latest_head is not None:
            self._known_heads.remember(data, self._latest_head)  # These bytes were exactly one request.

    def _parse(self, data: bytes) -> None:
        """Parse received bytes. Those after the head of an upgrade belong to the web socket, or to the next request.

        The parser stops after a head that asks for an upgrade, of whatever kind. Such a request has no body: see
        `on_headers_complete`.
        """
        self._latest_head = None
        while data:
            try:
                self.parser.feed_data(data)
            except httptools.HttpParserUpgrade as upgrade:
                data = data[upgrade.args[0] :]
                if self._should_upgrade():
                    self._leave_to_web_socket(data)
                    return
            except httptools.HttpParserError:
                self._refuse(400, "invalid_request", "The request is no valid HTTP.")
                return
            else:
                return
            if self._refused or self.transport.is_closing():
                return

    def _leave_to_web_socket(self, early: bytes) -> None:
        """Hand the connection over, with the bytes that came together with the handshake."""
        self.handle_websocket_upgrade()
        heir = self._bare.get_protocol()
        if early and heir is not self and isinstance(heir, asyncio.Protocol) and not self.transport.is_closing():
            heir.data_received(early)

    def _goes_as_before(self, data: bytes) -> bool:
        """Take a whole request whose head is known. Returns False, with nothing done, if it must be parsed."""
        known = self._known_heads
        head = known.latest if data.startswith(known.own) and len(data) == known.length else known.head_of(data)
        if head is None or not self._has_way_free():
            return False
        answer = head.way.take_whole(head, data[len(data) - head.size :], self)
        if answer is None:
            return False
        self._short_answers.append(answer)
        if self.timeout_keep_alive_task is not None:
            self._unset_keepalive_if_required()
        self._began, self._lingers, self._last_was_short = self._last, None, True
        return True

    def _count_unfinished(self, count: int, *, fresh: bool) -> None:
        """Count received bytes of incomplete headers. If another request ended among them, their number is unknown."""
        if not self._begun:
            self._header_bytes += count
        elif fresh and self._begun == 1:
            self._header_bytes = count
        self._check_headers(self._header_bytes)

    def _count_beside(self, count: int, *, went_on: bool) -> None:
        """Count received bytes that did not continue the body: trailers and chunk extensions."""
        self._beside_bytes = 0 if went_on else self._beside_bytes + count
        self._check_headers(self._beside_bytes)

    def _check_headers(self, count: int) -> None:
        if count > HEADER_BYTES_MAX:
            self._refuse(431, "invalid_request", f"The headers are larger than {HEADER_BYTES_MAX} bytes.")

    def on_message_begin(self) -> None:
        self.url, self.headers, self.expect_100_continue = b"", [], False
        self._whole = None
        self._began = self._last
        self._begun += 1
        self._within = self._incomplete = self._in_headers = True
        self._header_bytes = self._named_bytes = self._body_bytes = self._beside_bytes = 0

    def on_url(self, url: bytes) -> None:
        self._named_bytes += len(url)
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        if not self._in_headers:
            return  # A trailer after the body, which is not used.
        self._named_bytes += len(name) + len(value)
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        self._in_headers = False
        self._check_headers(self._named_bytes)
        if self.parser.should_upgrade() and announces_body(self.headers):
            # The parser would end the request here, and take its body for the next request.
            self._refuse(400, "invalid_request", "A request that asks for an upgrade, or to connect, has no body.")
        if self._refused:
            return
        self._admitted = self._let_in_short()
        if self._admitted is None:
            self._go_the_long_way()

    def _let_in_short(self) -> AdmittedRequest | None:
        """Admit a request to the short way, or return None. Only short requests may be under way then."""
        shorts = self.shorts
        short = None if shorts is None else shorts.find(self.parser.get_method(), self.url)
        if short is None or not (
            self._has_way_free() and self.parser.get_http_version() == "1.1" and self.parser.should_keep_alive()
        ):
            return None
        self._short_body = b""
        head = short.head_of(self.url, self.headers)
        return None if head is None else short.let_in(head)

    def _has_way_free(self) -> bool:
        """Whether the requests before allow the next one to go the short way."""
        latest: RequestResponseCycle | None = self.cycle
        return (
            (latest is None or latest.response_complete)
            and not self.pipeline
            and self._paused is None
            and len(self._short_answers) < _SHORT_ANSWERS_MAX
        )

    def _is_under_way(self) -> bool:
        """Whether the application has an unanswered request."""
        latest: RequestResponseCycle | None = self.cycle
        return latest is not None and not latest.response_complete

    def _go_the_long_way(self) -> None:
        """Give the request to the application, with the part that has been received."""
        self._last_was_short = False
        url, headers, expects = self.url, self.headers, self.expect_100_continue
        super().on_message_begin()
        self.url, self.expect_100_continue = url, expects
        self.headers.extend(headers)
        self.scope["restante.transport"] = self.transport  # type: ignore[typeddict-unknown-key]  # ours
        self.scope["restante.abort"] = self.transport.abort  # type: ignore[typeddict-unknown-key]  # ours
        self.scope["restante.whole_body"] = self.whole_body  # type: ignore[typeddict-unknown-key]
        earlier: RequestResponseCycle | None = self.cycle
        super().on_headers_complete()
        if earlier is not None and not earlier.response_complete:
            while self._earlier and self._earlier[0].response_complete:
                self._earlier.popleft()
            self._earlier.append(earlier)

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:  # noqa: ANN401 - uvicorn's own type
        """Start a request of the application. If short answers are pending, it waits for them."""
        if self._short_answers:
            self.flow.pause_reading()
            self.pipeline.appendleft((cycle, app))
        else:
            super()._start_asgi_task(cycle, app)

    def _go_the_short_way(self, admitted: AdmittedRequest) -> None:
        """Take a complete request the short way, or give it to the application if it is not plainly valid."""
        body, self._admitted = self._short_body, None
        way = admitted.head.way
        answer = way.take(admitted, body, self)
        if answer is not None:
            self._short_answers.append(answer)
            self._last_was_short, self._latest_head = True, admitted.head
            return
        way.let_out(admitted)
        self._go_the_long_way()
        if body:
            super().on_body(body)
        super().on_message_complete()

    def answer_in_turn(self) -> None:
        """Write the short answers that are there, up to the first that is not.

        Answers of one commit come together: the first call writes them all, and starts the request that waits for them. Later
        calls do nothing, or the next request would be started concurrently.
        """
        answers, closing, state = self._short_answers, self._bare.is_closing(), self.server_state
        if not answers:
            return
        while answers and answers[0].body:
            answer = answers.popleft()
            state.total_requests += 1
            if not closing:
                defaults = self._defaults.written(state.default_headers)
                self.transport.write(answer.written(defaults if answers or not self._closes else defaults + _CLOSE))
                closing = self._bare.is_closing()
        if answers or closing:
            return
        if self._refused:
            self._end_refused()
        elif self._closes:
            self.transport.close()
        else:
            if self.pipeline:
                super()._start_asgi_task(*self.pipeline.pop())
            if self.flow.read_paused:
                self.flow.resume_reading()

    def shutdown(self) -> None:
        if self._short_answers:
            self._closes = True
        else:
            super().shutdown()

    def connection_lost(self, exc: Exception | None) -> None:
        """Tell all requests that the client has gone. Uvicorn does so only for the latest."""
        super().connection_lost(exc)
        self._unset_keepalive_if_required()  # Uvicorn leaves this timer, which would keep the connection in memory.
        if self._admitted is not None:
            self._admitted.head.way.let_out(self._admitted)
            self._admitted = None
        if self._whole is not None:
            self._whole.finish(ClientGone())
            self._whole = None
        for cycle in self._earlier:
            if not cycle.response_complete:
                cycle.disconnected = True
                cycle.message_event.set()
        self._earlier.clear()

    def handle_websocket_upgrade(self) -> None:
        if self._short_answers or self.pipeline or self._is_under_way():
            self._refuse(400, "invalid_request", "A WebSocket is opened when all requests before it are answered.")
        elif not self._refused:
            super().handle_websocket_upgrade()

    def whole_body(self, scope: Mapping[str, Any]) -> WholeBody | None:
        """Receive the rest of a request's body into one buffer; None if the body is complete already."""
        cycle = self.cycle
        if cycle.scope is not scope or not cycle.more_body or cycle.disconnected:
            return None
        if cycle.waiting_for_100_continue:
            cycle.waiting_for_100_continue = False
            self.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        self._whole = WholeBody(self.loop)
        length = self._length_to_come()
        if length is None:
            self._whole.take(cycle.body)
        else:
            self._receive_straight(self._whole, cycle.body, length)
        cycle.body = bytearray()
        self.flow.resume_reading()
        return self._whole

    def _length_to_come(self) -> int | None:
        """The length of the body being received, if it is known and much of it is still to come; else None."""
        headers = dict(self.headers)
        if b"content-length" not in headers or b"transfer-encoding" in headers:
            return None
        if (
            not self.parser.should_keep_alive()
            or self.parser.should_upgrade()
            or self._bare.get_extra_info("sslcontext")
        ):
            return None
        length = int(headers[b"content-length"])
        return length if length - self._body_bytes >= _STRAIGHT_BYTES_MIN else None

    def _receive_straight(self, whole: WholeBody, begun: bytearray, length: int) -> None:
        """Receive the rest of a body past the parser, directly into its buffer."""
        receiver = StraightReceiver(self, begun, length, self._came_straight)
        whole.buffer = receiver.whole
        self._read_by(receiver)

    def _came_straight(self, count: int, last: bool) -> None:  # noqa: FBT001  # a callback
        self._last = self.loop.time()
        self._body_bytes += count
        if last:
            # The old parser still waits for the body that bypassed it, so a new one reads what follows.
            self.parser = _parser(self)
            self._read_by(self)
            self.on_message_complete()

    def _read_by(self, protocol: asyncio.BaseProtocol) -> None:
        """Make this protocol receive further data. The event loop looks it up when reading is resumed."""
        self._bare.pause_reading()
        self._bare.set_protocol(protocol)
        if not self.flow.read_paused:
            self._bare.resume_reading()

    def on_body(self, body: bytes) -> None:
        self._body_bytes += len(body)
        if self._refused:
            return
        if self._admitted is not None:
            self._short_body += body
        elif self._whole is not None:
            self._whole.take(body)
        else:
            super().on_body(body)

    def on_message_complete(self) -> None:
        self._incomplete = self._within = False
        if self._refused:
            return
        self._lingers = None
        if self._admitted is not None:
            self._go_the_short_way(self._admitted)
            return
        super().on_message_complete()
        if self._whole is not None:
            self._whole.finish()
            self._whole = None

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if not self.transport.is_closing():
            self.flow.resume_reading()
        if self._incomplete and not self.transport.is_closing():
            # The answer came before the end of the body. The rest is thrown away, for a limited time.
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
        if self._lingers is not None and now > self._lingers:
            self.transport.abort()
        elif self._refused or self.transport.is_closing():
            # The last answer is still being sent. A client that does not take it is cut off.
            if now - self._last > settings.answer_idle_seconds:
                self.transport.abort()
        elif self._paused is not None and now - self._paused > settings.answer_idle_seconds:
            self._cut("answer")
        elif not self._incomplete:
            if self._last_was_short and not self._short_answers and now - self._last > settings.keep_alive_seconds:
                self.timeout_keep_alive_handler()
        elif not self._in_headers:
            self._sweep_body(now)
        elif now - self._began > settings.header_seconds:
            self._cut("headers")

    def _sweep_body(self, now: float) -> None:
        allowed = self.settings.body_idle_seconds
        # While reading is paused the hub is busy, which is not the client's fault.
        if not self.flow.read_paused and (
            now - self._last > allowed or now - self._began > allowed + self._body_bytes / BODY_BYTES_PER_SECOND_MIN
        ):
            self._cut("body")

    def _cut(self, waited_for: str) -> None:
        self.metrics.cut_off.add()
        if waited_for == "headers":
            self._refuse(408, "invalid_request", "The request did not come in time.")
        self.transport.abort()

    def _refuse(self, status: int, code: str, detail: str) -> None:
        """Answer without the application, and close when the client has closed, or soon. Further data is thrown away.

        Closing at once with unread data would reset the connection, and the client might lose the answer.
        """
        if self._refused:
            return
        self._refused = True
        self._short_answers.append(ShortAnswer(self, refusal(status, code, detail)))
        self.answer_in_turn()

    def _stays(self) -> bool:
        """Whether to linger for a client that is still sending a body, so that it gets its answer."""
        latest: RequestResponseCycle | None = self.cycle
        answered = latest is not None and latest.response_complete
        sending = self._incomplete and not self._in_headers
        if self._refused or not (answered and sending) or self._bare.is_closing() or not self._bare.can_write_eof():
            return False
        self._refused = True
        self._bare.write_eof()
        self._lingers = self.loop.time() + _LINGER_SECONDS
        return True

    def _end_refused(self) -> None:
        if self._is_under_way() or not self.transport.can_write_eof():  # TLS cannot be half-closed
            self.transport.close()
        else:
            self.transport.write_eof()
            self._lingers = self.loop.time() + _LINGER_SECONDS


def _parser(connection: HttpConnection) -> httptools.HttpRequestParser:
    """A parser configured like uvicorn's."""
    parser = httptools.HttpRequestParser(connection)
    parser.set_dangerous_leniencies(lenient_data_after_close=True)
    return parser
