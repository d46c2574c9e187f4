"""A little of the web: requests, answers and routes over bare ASGI, so that the example needs nothing beside the hub.

Paths alternate between a collection and an id: `/catalogitem/{id}/comments/{id}`. Each request has a correlation id, its
own or a new one; every answer carries it, and an error says it. The handlers of `api.py` would be the same in Starlette
or FastAPI.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from examples.catalog.shapes import Misfit, Shape, encode

_log = logging.getLogger("catalog.api")

BODY_BYTES_MAX = 64 * 1024
CORRELATION_CHARACTERS_MAX = 128
JSON = "application/json"
PROBLEM = "application/problem+json"

Receive = Callable[[], Awaitable[dict[str, Any]]]
Send = Callable[[dict[str, Any]], Awaitable[None]]


class Request(NamedTuple):
    """The request that a handler gets."""

    headers: Mapping[bytes, bytes]
    ids: Sequence[str]
    """The ids of the path, from left to right."""
    body: bytes
    correlation_id: str

    def header(self, name: str) -> str | None:
        value = self.headers.get(name.encode())
        return None if value is None else value.decode("latin-1")


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer that a handler gives."""

    body: object = None
    """JSON; None is an empty body."""
    status: int = 200
    headers: tuple[tuple[str, str], ...] = ()
    media_type: str = JSON


class Problem(Exception):
    """An answer that is an error; the caller sees the detail."""

    def __init__(self, status: int, detail: str, *headers: tuple[str, str]) -> None:
        super().__init__(detail)
        self.status, self.detail, self.headers = status, detail, headers


class ProblemBody(Shape, frozen=True, kw_only=True):
    """Problem details as RFC 9457 has them."""

    status: int
    detail: str
    correlation_id: str


Handler = Callable[[Request], Awaitable[Answer]]
Recognise = Callable[[Exception], Problem | None]
"""The problem that an error of a handler is to those outside; None: nothing that was expected."""


class Routes:
    """An ASGI application: handlers by method and path."""

    def __init__(self, handlers: Mapping[tuple[str, str], Handler], recognise: Recognise) -> None:
        self._handlers: dict[tuple[str, ...], dict[str, Handler]] = {}
        for (method, path), handler in handlers.items():
            self._handlers.setdefault(_key(path.split("/")[1:]), {})[method] = handler
        self._recognise = recognise

    async def __call__(self, scope: dict[str, Any], receive: Receive, send: Send) -> None:
        assert scope["type"] == "http", "uvicorn is told that there is no life span and no WebSocket"
        headers = dict(scope["headers"])
        correlation_id = _correlation_id(headers)
        try:
            handler, ids = self._found(scope["method"], scope["path"])
            answer = await handler(Request(headers, ids, await _body(receive), correlation_id))
        except Exception as error:  # noqa: BLE001  # whatever went wrong is answered
            answer = self._problem(error, correlation_id)
        await _sent(answer, correlation_id, send)

    def _found(self, method: str, path: str) -> tuple[Handler, list[str]]:
        segments = path.split("/")[1:]
        handlers = self._handlers.get(_key(segments))
        if handlers is None:
            raise Problem(404, f"There is nothing at {path}.")
        if method not in handlers:
            raise Problem(405, f"{method} is not allowed on {path}.", ("allow", ", ".join(handlers)))
        return handlers[method], [_identifier(one, path) for one in segments[1::2]]

    def _problem(self, error: Exception, correlation_id: str) -> Answer:
        problem = _own_problem(error) or self._recognise(error)
        if problem is None:
            problem = Problem(500, "Something went wrong. The log has more, by the correlation id.")
        if problem.status >= 500:
            _log.error("%d: %s, correlation id %s", problem.status, problem.detail, correlation_id, exc_info=error)
        body = ProblemBody(status=problem.status, detail=problem.detail, correlation_id=correlation_id)
        return Answer(body, problem.status, problem.headers, PROBLEM)


def _own_problem(error: Exception) -> Problem | None:
    if isinstance(error, Problem):
        return error
    return Problem(400, str(error)) if isinstance(error, Misfit) else None


def _key(segments: Sequence[str]) -> tuple[str, ...]:
    """A path with a mark in the place of each id."""
    return tuple(segment if place % 2 == 0 else "*" for place, segment in enumerate(segments))


def _identifier(text: str, path: str) -> str:
    """The id in its one form. A text that is no id names nothing."""
    try:
        return str(uuid.UUID(text))
    except ValueError:
        raise Problem(404, f"There is nothing at {path}.") from None


def _correlation_id(headers: Mapping[bytes, bytes]) -> str:
    given = headers.get(b"x-correlation-id", b"").decode("latin-1")
    usable = 0 < len(given) <= CORRELATION_CHARACTERS_MAX and given.isascii() and given.isprintable()
    return given if usable else str(uuid.uuid4())


async def _body(receive: Receive) -> bytes:
    body, more = b"", True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise Problem(400, "The connection ended before the body.")
        body += message.get("body", b"")
        more = message.get("more_body", False)
        if len(body) > BODY_BYTES_MAX:
            raise Problem(413, f"A body has at most {BODY_BYTES_MAX:,} bytes.", ("connection", "close"))
    return body


async def _sent(answer: Answer, correlation_id: str, send: Send) -> None:
    body = b"" if answer.body is None else encode(answer.body)
    headers = [("content-type", answer.media_type)] if body else []
    headers += [("content-length", str(len(body))), ("x-correlation-id", correlation_id), *answer.headers]
    encoded = [(name.encode(), value.encode("latin-1")) for name, value in headers]
    await send({"type": "http.response.start", "status": answer.status, "headers": encoded})
    await send({"type": "http.response.body", "body": body})
