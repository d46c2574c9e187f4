"""WebSockets: frames take room as they come, and a client that answers no ping is disconnected."""

from __future__ import annotations

import secrets
import struct
from collections.abc import Sequence
from http import HTTPStatus
from typing import Any, Protocol

import msgspec
from uvicorn._types import ASGISendEvent
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.frames import CloseCode, Frame
from websockets.http11 import Request, Response
from websockets.protocol import State
from websockets.server import ServerProtocol
from websockets.typing import StatusLike

from restante.errors import Internal, InvalidRequest, MethodNotAllowed, Overloaded, RestanteError, Unavailable
from restante.limits import SOCKET_BYTES_UNCOUNTED
from restante.server.connections.exchange import CORRELATION_ID, HUB_ENDS, correlation_id_of
from restante.server.connections.room import Room
from restante.settings import ServerSettings
from restante.wire import media
from restante.wire.frames import encode_problem
from restante.wire.problems import problem_of

_LINGER_SECONDS = 2.0
_GOING_AWAY = 1001
_TRY_AGAIN_LATER = 1013
_LOOSE_PARTS_MAX = 1_024
_TEXT = 0x81
_SHORT = struct.Struct(">BB")
_MIDDLING = struct.Struct(">BBH")
_LONG = struct.Struct(">BBQ")


class Pushing(Protocol):
    """A part that pushes to a socket whenever there is room."""

    def flush(self) -> None:
        """Continue writing, because there is room again."""
        ...

    def farewell(self) -> None:
        """Called when the client has not answered a ping in time."""
        ...


class TakingFrames(Protocol):
    """A part that takes frames as soon as they are received, past the application."""

    def takes(self, frame: bytes | None) -> bool:
        """Take a text frame; None stands for a frame that is no text. Returns False if the application must take it."""
        ...


def text_head(length: int) -> bytes:
    """The frame header of a text of this length."""
    if length < 126:
        return _SHORT.pack(_TEXT, length)
    if length < 65_536:
        return _MIDDLING.pack(_TEXT, 126, length)
    return _LONG.pack(_TEXT, 127, length)


class _Handshake(ServerProtocol):
    """The WebSocket handshake, whose refusals are problems with the usual headers."""

    _given: bytes | None = None
    """The caller's own correlation id."""

    def accept(self, request: Request) -> Response:
        for value in request.headers.get_all(CORRELATION_ID.decode()):
            self._given = value.encode(errors="surrogateescape")
        return super().accept(request)

    def reject(self, status: StatusLike, text: str) -> Response:
        refusal = super().reject(status, text)
        own_id = correlation_id_of(self._given)
        problem = problem_of(_refusal(refusal.status_code, text), correlation_id=own_id)
        refusal.body = msgspec.json.encode(problem | {"status": refusal.status_code})
        for name in ("Content-Type", "Content-Length"):
            del refusal.headers[name]
        refusal.headers["Content-Type"] = media.PROBLEM
        refusal.headers["Content-Length"] = str(len(refusal.body))
        refusal.headers["Restante-Correlation-Id"] = own_id
        refusal.headers["X-Content-Type-Options"] = "nosniff"
        return refusal


def _refusal(status: int, text: str) -> RestanteError:
    """The error for a handshake that failed without, or in, the application."""
    if status == HTTPStatus.SERVICE_UNAVAILABLE:
        return Unavailable(text.partition("\n")[0])
    if status >= 500:
        return Internal("The hub failed. Its log has more.")
    detail = text.partition("\n")[0]
    return MethodNotAllowed(detail, allow="GET") if status == HTTPStatus.METHOD_NOT_ALLOWED else InvalidRequest(detail)


class Socket(WebSocketsSansIOProtocol):
    """One WebSocket. A client that answers no ping is disconnected, and frames that it has not read are discarded."""

    room: Room
    settings: ServerSettings
    """Set on a subclass, like the room, because uvicorn makes the instances."""
    live: Pushing | None = None
    """The part that pushes messages over this socket. It also decides when to close the socket."""
    ends_itself = False
    """Whether the code that serves this socket closes it itself when the hub ends, after its last answers."""
    short: TakingFrames | None = None
    """The part that may take each frame first."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:  # noqa: ANN401 - uvicorn's own signature
        super().__init__(*args, **kwargs)
        self.conn = _Handshake(max_size=self.config.ws_max_size, logger=self.logger)
        self._queued = 0
        """The bytes of complete frames that have not been taken yet."""
        self._held = 0
        """The bytes that take room."""
        self._loose = 0
        """The number of separate parts of an unfinished message."""
        self._began = self.loop.time()
        self._closes_since: float | None = None

    async def send(self, message: ASGISendEvent) -> None:
        await super().send(message)
        if self.initial_response is not None and self.close_sent:
            self.handshake_complete = True  # Otherwise uvicorn logs an error for each socket that is refused.

    def data_received(self, data: bytes) -> None:
        if self.handshake_initiated and not self.handshake_complete:
            self._refuse_handshake(
                HTTPStatus.BAD_REQUEST, "A WebSocket sends nothing before its handshake is answered."
            )
            return
        super().data_received(data)
        if not self.handshake_initiated:
            self._refuse_handshake(HTTPStatus.BAD_REQUEST, "The handshake of a WebSocket cannot be read.")
            return
        try:
            self._hold()
        except Overloaded as error:
            self._turn_away(error)

    def handle_cont(self, event: Frame) -> None:
        """Take a part of a message. Many small parts are joined, because each object takes far more memory than its bytes."""
        super().handle_cont(event)
        self._loose = self._loose + 1 if self.frames else 0
        if self._loose == _LOOSE_PARTS_MAX:
            self.frames[-self._loose :] = [b"".join(self.frames[-self._loose :])]
            self._loose = 0

    def send_receive_event_to_app(self) -> None:
        text: bytes | None = None
        if self.curr_msg_data_type == "text" and not self.close_sent:
            text = b"".join(self.frames)
            if not _is_utf8(text):
                self._close_for_no_text()
                return
        if self.short is not None and not self.close_sent and self.short.takes(text):
            self.frames = []
            return
        self._queued += sum(map(len, self.frames))
        super().send_receive_event_to_app()

    def write_texts(self, texts: Sequence[bytes]) -> None:
        """Write each text as a frame, with one write, past the application. Does nothing if the socket is being closed."""
        if not self.close_sent and not self.transport.is_closing():
            self.transport.write(b"".join([part for text in texts for part in (text_head(len(text)), text)]))

    def _close_for_no_text(self) -> None:
        """Close with 1007, as RFC 6455 demands. Uvicorn itself would log a traceback, or fail if the client has closed."""
        self.frames = []
        if self.conn.state is State.OPEN:
            self.conn.send_close(CloseCode.INVALID_DATA, "A text frame is UTF-8.")
            self.handle_parser_exception()

    def taken(self) -> None:
        """Note that a frame was taken. The code that processes it takes its own room."""
        if self._queued and self.queue.empty():
            self._queued = 0
            self._hold()

    def connection_lost(self, exc: Exception | None) -> None:
        self._let_go()
        super().connection_lost(exc)

    def _hold(self) -> None:
        """Take room for received bytes, even of incomplete frames: an endless frame would hold uncounted memory."""
        came = len(self.conn.reader.buffer) + (self.conn.current_size or 0) + self._queued
        count = max(0, came - SOCKET_BYTES_UNCOUNTED)
        if count > self._held:
            self.room.take(count - self._held)
        elif count < self._held:
            self.room.give(self._held - count)
        self._held = count

    def _let_go(self) -> None:
        self.frames = []
        self.conn.reader.discard()
        self.room.give(self._held)
        self._held = self._queued = 0

    def _turn_away(self, error: Overloaded) -> None:
        """Report that there is no room, and close. Further data is thrown away, so that the client gets the report."""
        self._let_go()
        if self.close_sent or not self.handshake_complete or self.conn.state is not State.OPEN:
            self.transport.abort()
            return
        if self.live is None:
            self.conn.send_text(encode_problem(None, problem_of(error, correlation_id=secrets.token_hex(8))).encode())
        self.conn.fail(_TRY_AGAIN_LATER, error.code)
        self.queue.put_nowait({"type": "websocket.disconnect", "code": _TRY_AGAIN_LATER})
        self.transport.write(b"".join(self.conn.data_to_send()))
        self.close_sent = True
        self.close_timer = self.loop.call_later(_LINGER_SECONDS, self.transport.close)
        if self.read_paused:
            self.read_paused = False
            self.transport.resume_reading()

    def handle_connect(self, event: Request) -> None:
        super().handle_connect(event)
        if self.handshake_initiated and not self.close_sent:
            self.scope["restante.socket"] = self  # type: ignore[typeddict-unknown-key]  # ours

    def resume_writing(self) -> None:
        super().resume_writing()
        if self.live is not None:
            self.live.flush()

    def shutdown(self) -> None:
        if not self.handshake_complete:
            self._refuse_handshake(HTTPStatus.SERVICE_UNAVAILABLE, HUB_ENDS)
        elif self.live is None and not self.ends_itself:
            super().shutdown()
        else:
            self.close_timeout = _LINGER_SECONDS  # Do not wait long for the client's close frame.

    def sweep(self, now: float) -> None:
        """Give up a handshake that the application has not answered in time, and a client that does not take the last bytes."""
        if self.transport.is_closing():
            self._closes_since = self._closes_since or now
            if now - self._closes_since > self.settings.answer_idle_seconds:
                self.transport.abort()
        elif not self.handshake_complete and now - self._began > self.settings.header_seconds:
            self._refuse_handshake(HTTPStatus.SERVICE_UNAVAILABLE, "The hub did not open the WebSocket in time.")

    def _refuse_handshake(self, status: HTTPStatus, text: str) -> None:
        """Refuse an upgrade that is not answered yet. The application's later answer is dropped."""
        if self.initial_response is None and not self.transport.is_closing():
            # The library may have written an answer of its own already, which says more.
            own = b"".join(self.conn.data_to_send())
            self.transport.write(own or self.conn.reject(status, text).serialize())
            self.disconnected, self.initial_response = True, (status, [], b"")
            self.transport.close()

    def keepalive_timeout(self) -> None:
        if self.live is not None:
            self.live.farewell()
            self.conn.fail(_GOING_AWAY, "idle")
        super().keepalive_timeout()
        # Closing alone would wait for ever if the client does not read.
        self.loop.call_later(_LINGER_SECONDS, self.transport.abort)


def _is_utf8(content: bytes) -> bool:
    if content.isascii():
        return True
    try:
        content.decode()
    except UnicodeDecodeError:
        return False
    return True
