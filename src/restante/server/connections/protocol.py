"""The protection of connections: who sends too slowly, too much before the point, or does not read, is cut off.

Uvicorn's protocol with bounds. Nothing is timed per request: each connection notes when something last happened, and a
sweeper looks at all of them once a second.
"""

from __future__ import annotations

import asyncio
import secrets
from collections import deque
from collections.abc import Mapping
from typing import Any, ClassVar

import httptools
import msgspec
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from restante.errors import InvalidRequest
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
)
from restante.server.connections.whole_body import StraightReceiver, WholeBody
from restante.server.health.metrics import Metrics
from restante.settings import ServerSettings
from restante.wire import media
from restante.wire.problems import problem_of

SWEEP_SECONDS = 1.0
_LINGER_SECONDS = 2.0
_CLOSE = b"connection: close\r\n"
_STRAIGHT_BYTES_MIN = 64 * 1024
"""From so many bytes on that are still to come, a body is received past the parser."""
_SHORT_ANSWERS_MAX = 64
"""The number of answers of one connection that are waited for; a client that sends more before it is answered is not read from meanwhile."""


class HttpConnection(HttpToolsProtocol):
    """One connection. `settings`, `metrics` and `shorts` are set on a subclass, for uvicorn makes the instances.

    A request goes to the application, as uvicorn has it, or the short way. Answers leave in the order of the requests.
    """

    settings: ServerSettings
    metrics: Metrics
    shorts: ShortWays | None = None
    _defaults: ClassVar = AnswerDefaults()

    def __init__(self, *args: Any, **kwargs: Any) -> None:  # noqa: ANN401 - uvicorn's own signature
        super().__init__(*args, **kwargs)
        self._began = self._last = self.loop.time()
        self._begun = 0
        """How many requests have begun in the bytes that came last."""
        self._within = False
        """A request has begun, and has not come whole."""
        self._header_bytes = 0
        """How many bytes have come of a header that is not whole yet."""
        self._named_bytes = 0
        """How many bytes the request line and the whole headers take."""
        self._body_bytes = 0
        self._beside_bytes = 0
        """Since the body last went on: of trailers, and of what stands beside the length of a chunk."""
        self._in_headers = True
        self._incomplete = True
        """A request has begun (or is to come first), and has not come whole."""
        self._earlier: deque[RequestResponseCycle] = deque()
        """Requests that were not answered yet when the next one came."""
        self._whole: WholeBody | None = None
        self._known_heads = KnownHeads()
        self._admitted: AdmittedRequest | None = None
        """A request that goes the short way, until it has come whole."""
        self._short_body = b""
        """The body of a request that goes the short way, as far as it has come."""
        self._short_answers: deque[ShortAnswer] = deque()
        """The answers of requests that went past the application, in the order of the requests; an answer that is not there yet is waited for."""
        self._last_was_short = False
        self._latest_head: PlainHead | None = None
        """The head of the request that came whole last, if that went the short way."""
        self._closes = False
        """The connection is closed after the answers that are waited for."""
        self._paused: float | None = None
        self._lingers: float | None = None
        self._refused = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(Corked(transport, self._stays))  # type: ignore[arg-type]  # it has all that a transport has
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
        fresh, self._begun, body_bytes, self._latest_head = not self._within, 0, self._body_bytes, None
        super().data_received(data)
        if self._within and not self._refused:
            if self._in_headers:
                self._count_unfinished(len(data), fresh=fresh)
            else:
                self._count_beside(len(data), went_on=self._begun > 0 or self._body_bytes > body_bytes)
        elif fresh and self._begun == 1:
            self._remember_head(data)

    def _remember_head(self, data: bytes) -> None:
        """Remember the head of what came last: it was one whole request, and nothing else."""
        if self._latest_head is not None:
            self._known_heads.remember(data, self._latest_head)

    def _goes_as_before(self, data: bytes) -> bool:
        """Take a whole request whose head went the short way before. False: it is to be parsed, and nothing was done."""
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
        """Headers did not end in what came last. How much of it is theirs is known unless another request ended in it."""
        if not self._begun:
            self._header_bytes += count
        elif fresh and self._begun == 1:
            self._header_bytes = count
        self._check_headers(self._header_bytes)

    def _count_beside(self, count: int, *, went_on: bool) -> None:
        """The body has not ended, and perhaps went on in what came last."""
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
            return  # A trailer, after the body: it is no header, and nobody asks for it.
        self._named_bytes += len(name) + len(value)
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        self._in_headers = False
        self._check_headers(self._named_bytes)
        if self._refused:
            return
        self._admitted = self._let_in_short()
        if self._admitted is None:
            self._go_the_long_way()

    def _let_in_short(self) -> AdmittedRequest | None:
        """Let a request in that may go the short way, if it may: only such ones are under way then."""
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
        """Whether a request may go the short way, as far as those before it are concerned."""
        latest: RequestResponseCycle | None = self.cycle
        return (
            (latest is None or latest.response_complete)
            and not self.pipeline
            and self._paused is None
            and len(self._short_answers) < _SHORT_ANSWERS_MAX
        )

    def _is_under_way(self) -> bool:
        """Whether the application has a request that is not answered yet."""
        latest: RequestResponseCycle | None = self.cycle
        return latest is not None and not latest.response_complete

    def _go_the_long_way(self) -> None:
        """Give the request to the application, with what has come of it."""
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
        """Start a request of the application; behind answers of the short way that are waited for, it waits."""
        if self._short_answers:
            self.flow.pause_reading()
            self.pipeline.appendleft((cycle, app))
        else:
            super()._start_asgi_task(cycle, app)

    def _go_the_short_way(self, admitted: AdmittedRequest) -> None:
        """A request has come whole that goes the short way, if it is right; else the application takes it."""
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
        """Write the answers of the short way that are there, up to the first that is not.

        Answers of one commit are there together: the first that is given writes them all, and starts what waits behind them. Those
        given after it do nothing more, or the next request would be started beside it.
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
        """Uvicorn tells the latest request only. One before it would never hear that its client has gone."""
        super().connection_lost(exc)
        self._unset_keepalive_if_required()  # Uvicorn leaves the timer of a connection that was reset, and with it all.
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
        """Receive the rest of a request's body in one place; None if it has come already."""
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
        """The length of the body that is being received, if it is known and much of it is still to come; else None."""
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
        """Receive the rest of a body past the parser: into the place where it will lie."""
        receiver = StraightReceiver(self, begun, length, self._came_straight)
        whole.buffer = receiver.whole
        self._read_by(receiver)

    def _came_straight(self, count: int, last: bool) -> None:  # noqa: FBT001  # a callback
        self._last = self.loop.time()
        self._body_bytes += count
        if last:
            # The parser waits for a body that it has not seen: another one reads what follows.
            self.parser = _parser(self)
            self._read_by(self)
            self.on_message_complete()

    def _read_by(self, protocol: asyncio.BaseProtocol) -> None:
        """Have what comes read by this protocol. The event loop asks which one it is when it begins to read."""
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
        if self._lingers is not None and now > self._lingers:
            self.transport.abort()
        elif self._refused or self.transport.is_closing():
            # What was written last is still to go out; who does not take it is left.
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
        """Answer without the application, and close: once the client has, or soon. What it still sends is thrown away.

        If it were closed at once, while there is something unread, the system would take the answer back.
        """
        if self._refused:
            return
        self._refused = True
        made = secrets.token_hex(8)
        problem = problem_of(InvalidRequest(detail), correlation_id=made) | {"status": status, "code": code}
        body = msgspec.json.encode(problem)
        head = (
            f"HTTP/1.1 {status} Refused\r\ncontent-type: {media.PROBLEM}\r\ncontent-length: {len(body)}\r\n"
            f"restante-correlation-id: {made}\r\nx-content-type-options: nosniff\r\nconnection: close\r\n\r\n"
        )
        self._short_answers.append(ShortAnswer(self, head.encode() + body))
        self.answer_in_turn()

    def _stays(self) -> bool:
        """Whether a client that is still sending a body is heard out for a while, so that it gets the answer it was given."""
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
        if self._is_under_way() or not self.transport.can_write_eof():  # TLS has no half that is closed
            self.transport.close()
        else:
            self.transport.write_eof()
            self._lingers = self.loop.time() + _LINGER_SECONDS


def _parser(connection: HttpConnection) -> httptools.HttpRequestParser:
    """A parser as uvicorn has it."""
    parser = httptools.HttpRequestParser(connection)
    parser.set_dangerous_leniencies(lenient_data_after_close=True)
    return parser
