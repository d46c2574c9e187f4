"""`Exchange`: one request and its answer, for handlers to read from and write to, over bare ASGI."""

from __future__ import annotations

import secrets
from collections.abc import Awaitable, Callable, Iterable, Iterator, MutableMapping, Sequence
from itertools import count
from typing import Any, Final
from urllib.parse import parse_qsl, unquote

import msgspec

from restante.errors import BodyTooLarge, InvalidRequest, MethodNotAllowed, Overloaded, RestanteError, Unauthenticated
from restante.limits import CORRELATION_ID_CHARACTERS_MAX, QUERY_PARAMETERS_MAX
from restante.model.access.access import NOTHING, Grant, Role
from restante.model.storage.changes import Buffer
from restante.server.connections.whole_body import WholeBody
from restante.wire import media
from restante.wire.problems import problem_of, status_of

Scope = MutableMapping[str, Any]
Event = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Event]]
Send = Callable[[Event], Awaitable[None]]
Headers = Iterable[tuple[bytes, bytes]]

PIECE_BYTES: Final = 1024 * 1024
CORRELATION_ID: Final = b"restante-correlation-id"
NOSNIFF: Final = (b"x-content-type-options", b"nosniff")
"""Keeps browsers from guessing another media type. The server adds it to every HTTP answer."""
HUB_ENDS = "The hub is about to end. Connect again in a moment."
_encode_json = msgspec.json.Encoder().encode


# Reading system randomness for each request would release the interpreter lock, and then wait for it during a commit.
_OURS = secrets.token_hex(6)
_numbers = count(1)


class ClientGone(Exception):
    """The client has closed the connection or was cut off, so nobody is left to answer."""


class Exchange:
    """One request and its answer."""

    __slots__ = (
        "_given",
        "_headers",
        "_receive",
        "_send",
        "beside",
        "came_at",
        "code",
        "correlation_id",
        "grant",
        "method",
        "path",
        "place",
        "roles",
        "scope",
        "sent_bytes",
        "status",
    )

    def __init__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.scope = scope
        self.method: str = scope.get("method", "GET")
        self.path: bytes = scope.get("raw_path") or scope["path"].encode()
        self.place: dict[str, str] = {}
        """The values of the route's path parameters."""
        self.status = 0
        self.code = ""
        """The code of the problem that was answered, if any."""
        self.sent_bytes = 0
        self._receive = receive
        self._send = send
        self._headers: dict[bytes, bytes] = dict(scope["headers"])
        self._given: dict[str, list[str]] | None = None
        self.correlation_id = correlation_id_of(self._headers.get(CORRELATION_ID))
        self.grant: Grant = NOTHING
        self.roles: frozenset[Role] | None = None
        """The roles of the request's route, of which the caller had one when it was admitted."""
        self.came_at = 0.0
        """The time, by `time.monotonic`, at which the body was complete."""
        self.beside: Headers = ()
        """Additional headers of every answer to this request."""

    # The request

    def header(self, name: bytes) -> str | None:
        value = self._headers.get(name)
        return None if value is None else value.decode("latin-1")

    def authorize(self, authorization: str | None) -> None:
        """Set the `Authorization` header, which the request must not have itself."""
        if b"authorization" in self._headers:
            raise InvalidRequest("Authorization and a ticket are there together: give one of them.", parameter="ticket")
        if authorization is not None:
            self._headers = {**self._headers, b"authorization": authorization.encode("latin-1")}

    def raw(self, name: bytes) -> bytes | None:
        """A header as raw bytes."""
        return self._headers.get(name)

    @property
    def distinct(self) -> bool:
        """Whether no header was repeated."""
        return len(self._headers) == len(self.scope["headers"])

    def headers(self) -> dict[str, str]:
        return {name.decode("latin-1"): value.decode("latin-1") for name, value in self._headers.items()}

    def allow(self, names: frozenset[str]) -> None:
        """Refuse query parameters that the route does not have."""
        if not self.scope["query_string"]:
            return
        unknown = self.given.keys() - names
        if unknown:
            known = f"it has {', '.join(sorted(names))}" if names else "it has none"
            raise InvalidRequest(
                f"The query parameter {min(unknown)!r} is unknown here: {known}.", parameter=min(unknown)
            )

    @property
    def given(self) -> dict[str, list[str]]:
        """The query parameters."""
        if self._given is None:
            self._given = _parsed(self.scope["query_string"])
        return self._given

    def texts(self, name: str) -> list[str]:
        return self.given.get(name, [])

    def text(self, name: str) -> str | None:
        values = self.given.get(name)
        if values is None:
            return None
        if len(values) > 1:
            raise InvalidRequest(f"The query parameter {name} may be given once.", parameter=name)
        return values[0]

    def integer(self, name: str) -> int | None:
        text = self.text(name)
        if text is None:
            return None
        if not (text.isascii() and text.isdecimal() and len(text) <= 19 and int(text) < 2**63):
            raise InvalidRequest(f"{name} must be a whole number, 0 or more, not {text!r}.", parameter=name)
        return int(text)

    def seconds(self, name: str) -> float:
        text = self.text(name)
        try:
            value = 0.0 if text is None else float(text)
        except ValueError:
            value = -1.0
        if not 0 <= value < float("inf"):
            raise InvalidRequest(f"{name} must be a number of seconds, 0 or more, not {text!r}.", parameter=name)
        return value

    def flag(self, name: str) -> bool:
        text = self.text(name)
        if text not in (None, "true", "false"):
            raise InvalidRequest(f"{name} must be true or false, not {text!r}.", parameter=name)
        return text == "true"

    # The body

    async def chunk(self) -> tuple[bytes, bool]:
        """The next piece of the body, and whether more follow."""
        event = await self._receive()
        if event["type"] == "http.disconnect":
            raise ClientGone
        return event["body"], event["more_body"]

    async def whole_body(self) -> Buffer | None:
        """The body, received into one buffer; None if it must be read piece by piece."""
        receive = self.scope.get("restante.whole_body")
        whole: WholeBody | None = None if receive is None else receive(self.scope)
        if whole is None:
            return None
        await whole.done
        return whole.buffer

    async def gone(self) -> None:
        """Wait until the client has closed the connection."""
        while (await self._receive())["type"] != "http.disconnect":
            pass

    # The answer

    async def answer(
        self, status: int, body: Buffer = b"", *, media_type: str | bytes | None = None, headers: Headers = ()
    ) -> None:
        """Send a whole answer at once."""
        sent = [(CORRELATION_ID, self.correlation_id.encode())]
        if media_type is not None:
            sent.append((b"content-type", media_type.encode() if isinstance(media_type, str) else media_type))
        if status != 204:
            sent.append((b"content-length", b"%d" % len(body)))
        sent += headers
        sent += self.beside
        self.status = status
        transport = self.scope.get("restante.transport")
        if transport is not None and len(body) <= PIECE_BYTES:
            transport.cork()
        try:
            await self._send({"type": "http.response.start", "status": status, "headers": sent})
            await self._send({"type": "http.response.body", "body": body})
        finally:
            if transport is not None:
                transport.uncork()
        self.sent_bytes = len(body)

    async def json(self, status: int, value: object, *, headers: Headers = ()) -> None:
        await self.answer(status, _encode_json(value), media_type=b"application/json", headers=headers)

    async def begin(self, status: int, *, media_type: str, headers: Headers = ()) -> None:
        """Begin an answer that is sent in pieces."""
        sent = [(CORRELATION_ID, self.correlation_id.encode()), (b"content-type", media_type.encode()), *headers]
        sent += self.beside
        self.status = status
        await self._send({"type": "http.response.start", "status": status, "headers": sent})

    async def go_on(self, body: Buffer) -> None:
        self.sent_bytes += len(body)
        await self._send({"type": "http.response.body", "body": body, "more_body": True})

    async def send_whole(self, status: int, body: Sequence[Buffer], *, media_type: str, headers: Headers = ()) -> None:
        """Send a large answer that exists already, in pieces, as fast as the client takes them, and without a copy."""
        length = (b"content-length", b"%d" % sum(map(len, body)))
        await self.begin(status, media_type=media_type, headers=[*headers, length])
        for part in body:
            for start in range(0, len(part), PIECE_BYTES):
                await self.go_on(part[start : start + PIECE_BYTES])
        await self.end()

    async def end(self) -> None:
        await self._send({"type": "http.response.body", "body": b""})

    @property
    def is_read_slowly(self) -> bool:
        """Whether bytes are waiting to be sent because the client has not read those before them."""
        transport = self.scope.get("restante.transport")
        return transport is not None and transport.get_write_buffer_size() > 0

    async def break_off(self) -> None:
        """Abort the connection, because nobody is left to answer, or the answer cannot be finished and must not seem complete."""
        abort = self.scope.get("restante.abort")
        if abort is not None:
            abort()
            await self.gone()

    # A web socket

    async def receive_event(self) -> Event:
        """The next event of a web socket."""
        event = await self._receive()
        own = self.scope.get("restante.socket")
        if own is not None:
            own.taken()
        return event

    async def accept_socket(self) -> None:
        await self._send({"type": "websocket.accept", "headers": [(CORRELATION_ID, self.correlation_id.encode())]})

    def say_goodbye_itself(self) -> None:
        """Leave it to the code that serves this web socket to close it when the hub ends, after its last answers."""
        own = self.scope.get("restante.socket")
        if own is not None:
            own.ends_itself = True

    async def send_text(self, text: str) -> None:
        await self._send({"type": "websocket.send", "text": text})

    async def close_socket(self, code: int, reason: str) -> None:
        await self._send({"type": "websocket.close", "code": code, "reason": reason})

    async def deny_socket(self, error: RestanteError) -> None:
        """Refuse to open a web socket, with a problem as the answer."""
        self.status, headers, body = socket_denial(error, self.correlation_id)
        self.code = error.code
        await self._send({"type": "websocket.http.response.start", "status": self.status, "headers": headers})
        await self._send({"type": "websocket.http.response.body", "body": body})

    async def problem(self, error: RestanteError) -> None:
        """Answer with an error as problem details. If the answer has begun, raise `ClientGone`, which breaks it off."""
        if self.status:
            raise ClientGone from error
        self.code = error.code
        body = _encode_json(problem_of(error, correlation_id=self.correlation_id))
        await self.answer(status_of(error.code), body, media_type=media.PROBLEM, headers=list(problem_headers(error)))


def socket_denial(error: RestanteError, correlation_id: str) -> tuple[int, list[tuple[bytes, bytes]], bytes]:
    """The status, the headers and the body of the answer that refuses to open a web socket."""
    headers = [
        (CORRELATION_ID, correlation_id.encode()),
        (b"content-type", media.PROBLEM.encode()),
        NOSNIFF,
        *problem_headers(error),
    ]
    return status_of(error.code), headers, _encode_json(problem_of(error, correlation_id=correlation_id))


def problem_headers(error: RestanteError) -> Iterator[tuple[bytes, bytes]]:
    if isinstance(error, Unauthenticated):
        yield b"www-authenticate", b'Bearer realm="restante"'
    elif isinstance(error, MethodNotAllowed):
        yield b"allow", str(error.details["allow"]).encode()
    elif isinstance(error, Overloaded) or "retry_after" in error.details:
        yield b"retry-after", str(error.details.get("retry_after", 1)).encode()
    elif isinstance(error, BodyTooLarge):
        yield b"connection", b"close"


def correlation_id_of(given: bytes | None) -> str:
    """The caller's own correlation id if it is valid, else a new one."""
    if given is not None and 0 < len(given) <= CORRELATION_ID_CHARACTERS_MAX:
        text = given.decode("latin-1")
        if text.isascii() and text.isprintable() and " " not in text:
            return text
    return f"{_OURS}-{next(_numbers):x}"


def _parsed(query: bytes) -> dict[str, list[str]]:
    if not query:
        return {}
    try:
        pairs = parse_qsl(
            query.decode("ascii"), keep_blank_values=True, errors="strict", max_num_fields=QUERY_PARAMETERS_MAX
        )
    except ValueError as error:
        raise InvalidRequest(f"The query cannot be read: {error}.") from error
    given: dict[str, list[str]] = {}
    for name, value in pairs:
        given.setdefault(name, []).append(value)
    return given


def unquoted(segment: bytes) -> str:
    """Decode a segment of a path."""
    try:
        return unquote(segment.decode("ascii"), errors="strict")
    except UnicodeError as error:
        raise InvalidRequest("The path is not valid: percent-encode text as UTF-8.") from error
