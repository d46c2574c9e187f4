"""`ShortRoute`: a request goes from the parser to the committer and back, without a task or an ASGI event.

Only a plainly valid request goes this way. Any other (a wrong token, an unreadable body, a header that changes the meaning,
a crowded hub) is left to the application, which checks everything and gives the same answers.
"""

from __future__ import annotations

import asyncio
import logging
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import ClassVar, Generic, TypeVar

import msgspec

from restante.errors import Internal, RestanteError
from restante.hub.engine.commit_request import CommitRequest, Listener
from restante.limits import PASS_LOOK_SECONDS
from restante.model.access.access import EVERYTHING, Grant, Role
from restante.server.access.web_access import WebAccess
from restante.server.connections.exchange import CORRELATION_ID, correlation_id_of, problem_headers
from restante.server.connections.incoming_messages import is_for_the_loop
from restante.server.connections.short_way import AdmittedRequest, Answering, HeaderList, PlainHead, ShortAnswer
from restante.server.desk import Desk
from restante.server.route_table import Route
from restante.wire import media
from restante.wire.problems import problem_of, status_of

R = TypeVar("R")
GivenHeaders = Mapping[bytes, bytes]

SPECIAL_HEADERS = frozenset(
    {
        b"access-control-request-method",
        b"ce-specversion",
        b"content-encoding",
        b"expect",
        b"origin",
        b"restante-accept",
        b"restante-batch",
        b"restante-made-anew",
        b"restante-owner-level",
        b"restante-producer-group",
        b"restante-published-sequence",
        b"restante-source",
        b"sec-fetch-site",
        b"transfer-encoding",
        b"upgrade",
    }
)
"""Headers that give a request a meaning that this way does not handle."""
JSON_TYPE = b"application/json"
_NO_ROLES: frozenset[Role] = frozenset()
_DIGITS_MAX = 9
"""Lengths with more digits than this are not parsed."""
_log = logging.getLogger("restante.server")
_encode = msgspec.json.Encoder().encode
_HEAD = CORRELATION_ID + b": %b\r\ncontent-type: " + JSON_TYPE + b"\r\n"


class ShortRoute(ABC, Generic[R]):
    """The short way of one route of one server. Made and used in its event loop."""

    route: ClassVar[Route]
    """The application's route, which takes all other requests, and whose roles may use this way."""
    status: ClassVar[int]
    special: ClassVar[frozenset[bytes]] = SPECIAL_HEADERS
    takes_room: ClassVar[bool] = True
    """Whether a request takes room like a publish."""
    recurs: ClassVar[bool] = True
    """Whether requests of one connection are likely to have the same head."""
    counts: ClassVar[bytes] = b""
    """The header, if any, whose value is a number that changes with each request."""
    finishes: ClassVar[bool] = False
    """Whether work may be left after the commit, which `is_unfinished` decides."""
    answers_together: ClassVar[bool] = False
    """Whether the answers of one commit are given together. The result of the commit must then be the whole answer."""
    is_of_recipient: ClassVar[bool] = False
    """Whether the first name in the path is a recipient, whose mailbox the caller needs access to."""

    is_of_group: ClassVar[bool] = False
    """Whether the first name in the path is that of a group."""

    def __init__(self, desk: Desk, web: WebAccess) -> None:
        self.desk = desk
        self._web = web
        self.loop = asyncio.get_running_loop()
        self.counted = self.route.method, self.route.path
        self.unfinished: set[asyncio.Task[None]] = set()
        self._open = False
        """Whether this turn of the event loop has found that all callers may go this way."""
        self.together = self if self.answers_together else None

    @abstractmethod
    def place(self, url: bytes) -> tuple[str, ...] | None:
        """The names in the path of a request; None if it is not plainly a path of this route."""

    def size(self, given: GivenHeaders) -> int | None:
        """The length of a request's body; None unless the headers say that it is small and of the right type.

        The body of most routes is JSON that the event loop may read.
        """
        text = given.get(b"content-length")
        if given.get(b"content-type") != JSON_TYPE or text is None or not text.isdigit():
            return None
        return int(text) if len(text) <= _DIGITS_MAX and is_for_the_loop(int(text)) else None

    @abstractmethod
    def submit(self, head: PlainHead, grant: Grant, body: bytes, listener: Listener[R]) -> bool:
        """Submit a complete request to the committer. Returns False, or raises, if the application must take it."""

    @abstractmethod
    def count(self, answers: Sequence[R], seconds: Sequence[float]) -> None:
        """Count these answers, and how long each took, in the metrics."""

    def shown(self, request: CommitRequest[R], own_id: str) -> object:  # noqa: ARG002  # few answers name the correlation id
        """The answer to a request."""
        return request.answer()

    def beside(self, answer: object) -> bytes:  # noqa: ARG002  # most answers have no more
        """Additional header lines of an answer."""
        return b""

    def correlation_id(self, request: CommitRequest[R], given: GivenHeaders) -> str:  # noqa: ARG002  # some requests have one
        return correlation_id_of(given.get(CORRELATION_ID))

    def is_unfinished(self, request: CommitRequest[R]) -> bool:  # noqa: ARG002  # other routes ask the request
        """Whether work is left after the commit, which may have to wait for another system."""
        return False

    def finish(self, request: CommitRequest[R]) -> R:
        """Do the remaining work, in a thread."""
        return request.answer()

    def head_of(self, url: bytes, headers: HeaderList) -> PlainHead | None:
        """The parsed head; None if this way cannot handle it."""
        place, given = self.place(url), dict(headers)
        size = None if place is None else self.size(given)
        if place is None or size is None or not self._is_plain(headers, given):
            return None
        authorization = given.get(b"authorization")
        token = None if authorization is None else authorization.decode("latin-1")
        return PlainHead(self, size, place, given, token, self.recurs, self.counts)

    def let_in(self, head: PlainHead) -> AdmittedRequest | None:
        """Admit a request, and take room for it; None if there is no room, or the caller may not make it."""
        if not self._has_room(head.size) or _log.isEnabledFor(logging.DEBUG):
            return None
        try:
            grant = self._granted(head)
        except RestanteError:
            return None
        if self.takes_room:
            self.desk.room.enter(head.size)
        return AdmittedRequest(head, grant, time.monotonic())

    def let_out(self, admitted: AdmittedRequest) -> None:
        """Give back the room of an admitted request that does not go this way."""
        if self.takes_room:
            self.desk.room.leave(admitted.head.size)

    def take(self, admitted: AdmittedRequest, body: bytes, connection: Answering) -> ShortAnswer | None:
        """Submit a complete request, whose answer comes later. None, with nothing done, if the application must take it."""
        head, grant, now = admitted.head, admitted.grant, time.monotonic()
        if now - admitted.at > PASS_LOOK_SECONDS:
            try:
                grant = self._granted(head)
            except RestanteError:
                return None
        return self._taken_if_quiet(head, grant, body, connection, now)

    def take_whole(self, head: PlainHead, body: bytes, connection: Answering) -> ShortAnswer | None:
        """Admit and submit a complete request. None, with nothing done, if the application must take it."""
        now, room = time.monotonic(), self.desk.room
        if self.takes_room and not room.has_place(head.size):
            return None
        if self._open or self._opens(now):
            answer = self._taken(head, EVERYTHING, body, connection, now)
        else:
            answer = self._taken_closely(head, body, connection, now)
        if answer is not None and self.takes_room:
            room.enter(head.size)
        return answer

    def _opens(self, now: float) -> bool:
        """Whether all callers may go this way. It is checked once in a turn of the event loop."""
        if not self._is_open(now):
            return False
        self._open = True
        self.loop.call_soon(self._close)
        return True

    def _is_open(self, now: float) -> bool:
        return self.desk.gate.lets_all_in(now) and not (_log.isEnabledFor(logging.DEBUG) or self.desk.crowded)

    def _close(self) -> None:
        self._open = False

    def _taken_closely(
        self, head: PlainHead, body: bytes, connection: Answering, now: float
    ) -> PendingAnswer[R] | None:
        """Take a request after checking its caller."""
        if _log.isEnabledFor(logging.DEBUG):
            return None
        try:
            grant = self._granted(head)
        except RestanteError:
            return None
        return self._taken_if_quiet(head, grant, body, connection, now)

    def _taken_if_quiet(
        self, head: PlainHead, grant: Grant, body: bytes, connection: Answering, now: float
    ) -> PendingAnswer[R] | None:
        return None if self.desk.crowded else self._taken(head, grant, body, connection, now)

    def _taken(
        self, head: PlainHead, grant: Grant, body: bytes, connection: Answering, now: float
    ) -> PendingAnswer[R] | None:
        answer = PendingAnswer(self, head, grant, connection, now)
        try:
            return answer if self.submit(head, grant, body, answer) else None
        except RestanteError:
            return None
        except Exception:  # noqa: BLE001  # nothing was done yet, so the application tries, and answers if it fails too
            _log.exception("A request failed on its short way.")
            return None

    def tell_all(self, requests: Sequence[CommitRequest[R]]) -> bool:
        """Answer the successful requests of one commit, and count them together."""
        now, seconds, received, sent = time.monotonic(), list[float](), 0, 0
        pending: list[PendingAnswer[R]] = [request.waiter for request in requests]  # type: ignore[misc]  # all are waiters of this route
        try:
            bodies = [_encode(request.result) for request in requests]
        except Exception:  # noqa: BLE001  # answering one by one will show which answer fails
            return False
        for answer, body in zip(pending, bodies, strict=True):
            asked = answer.asked
            answer.status, answer.body = self.status, body
            answer.head = _HEAD % correlation_id_of(asked.given.get(CORRELATION_ID)).encode()
            seconds.append(now - answer.came_at)
            received += asked.size
            sent += len(body)
        self.desk.room.leave(received, len(requests))
        self.desk.metrics.exchange(self.counted, self.status, seconds, received, sent)
        self.count([request.answer() for request in requests], seconds)
        for answer in pending:
            answer.give()
        return True

    def _has_room(self, size: int) -> bool:
        return not self.takes_room or self.desk.room.has_place(size)

    def _granted(self, head: PlainHead) -> Grant:
        recipient = head.place[0] if self.is_of_recipient else None
        group = head.place[0] if self.is_of_group else None
        return self.desk.gate.admit(head.authorization, self.route.roles or _NO_ROLES, recipient, group)

    def _is_plain(self, headers: HeaderList, given: GivenHeaders) -> bool:
        return len(given) == len(headers) and self.special.isdisjoint(given) and self._web.is_plain(given.get(b"host"))


class PendingAnswer(ShortAnswer, Listener[R]):
    """The answer to one request, which waits for its commit."""

    __slots__ = ("_grant", "_route", "asked", "came_at", "loop", "together")

    def __init__(
        self, route: ShortRoute[R], asked: PlainHead, grant: Grant, connection: Answering, came_at: float
    ) -> None:
        self._connection = connection
        self.status, self.head, self.body = 0, b"", b""
        self.loop, self.together = route.loop, route.together
        self._route = route
        self.asked = asked
        self._grant = grant
        self.came_at = came_at

    def tell(self, request: CommitRequest[R]) -> None:
        if self._route.finishes and self._route.is_unfinished(request):
            task = self._route.loop.create_task(self._finish(request))
            self._route.unfinished.add(task)
            task.add_done_callback(self._route.unfinished.discard)
        else:
            self._send(request)

    def give(self) -> None:
        """Write the answer in its turn. A failure on this connection must not affect others."""
        try:
            self._connection.answer_in_turn()
        except Exception:  # noqa: BLE001
            _log.exception("An answer could not be given.")

    async def _finish(self, request: CommitRequest[R]) -> None:
        try:
            request.result = await self._route.desk.link.thread(self._route.finish, request)
        except BaseException as error:  # noqa: BLE001  # the client must get an answer
            request.error = error
        self._send(request)

    def _send(self, request: CommitRequest[R]) -> None:
        route, size, seconds = self._route, self.asked.size, time.monotonic() - self.came_at
        desk = route.desk
        if route.takes_room:
            desk.room.leave(size)
        status, head, body = self._answer(request, seconds)
        desk.metrics.exchange(route.counted, status, (seconds,), size, len(body))
        self.put(status, head, body)

    def _answer(self, request: CommitRequest[R], seconds: float) -> tuple[int, bytes, bytes]:
        own_id = self._route.correlation_id(request, self.asked.given)
        try:
            answer = self._route.shown(request, own_id)
            body = _encode(answer)
        except RestanteError as error:
            return self._problem(error, seconds, own_id)
        except Exception:  # noqa: BLE001  # the client must get an answer; the log has the details
            _log.exception("A request failed.", extra={"fields": {"correlation_id": own_id}})
            return self._problem(Internal("The hub failed. Its log has more, by the correlation id."), seconds, own_id)
        self._route.count((request.answer(),), (seconds,))
        return self._route.status, _HEAD % own_id.encode() + self._route.beside(answer), body

    def _problem(self, error: RestanteError, seconds: float, own_id: str) -> tuple[int, bytes, bytes]:
        status, route = status_of(error.code), self._route.route
        level = logging.INFO if status < 500 else logging.WARNING
        fields = {"correlation_id": own_id, "method": route.method, "route": route.path, "status": status}
        fields |= {"code": error.code, "caller": self._grant.name, "seconds": round(seconds, 6)}
        _log.log(level, "request", extra={"fields": fields})
        beside = [(b"content-type", media.PROBLEM.encode()), *problem_headers(error)]
        head = b"".join([b"%b: %b\r\n" % header for header in [(CORRELATION_ID, own_id.encode()), *beside]])
        return status, head, _encode(problem_of(error, correlation_id=own_id))
