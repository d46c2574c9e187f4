"""The short way of a small publish: from the parser to the committer and back, without a task or an ASGI event.

Only what is plainly right goes this way. Anything else (a token that is wrong, a body that cannot be read, a header that
changes what is asked, a hub that is crowded) is left to the application, which looks at all of it and answers the same.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Mapping

import msgspec

from restante.calls.publishing import Publish
from restante.errors import Internal, RestanteError
from restante.hub.engine.committer import CommitRequest, Listener
from restante.limits import PASS_LOOK_SECONDS
from restante.model.access.access import Grant, Role
from restante.model.mailboxes.answers import Receipt
from restante.model.publishing.few_or_many import Few, few_or_many
from restante.server.access.web_access import WebAccess
from restante.server.connections.exchange import CORRELATION_ID, correlation_id_of, problem_headers
from restante.server.connections.incoming_messages import is_for_the_loop
from restante.server.connections.short_way import AdmittedRequest, Answered, Headers, PlainHead
from restante.server.desk import Desk
from restante.server.routes.publishing import count
from restante.wire import media
from restante.wire.incoming.incoming_json import decode_json
from restante.wire.problems import problem_of, status_of

_ROUTE = "/v1/messages"
_DIGITS_MAX = 9
"""Of a length that is worth reading."""
_ROLES = frozenset({Role.PUBLISHER})
_JSON = b"application/json"
_SPECIAL = frozenset(
    {
        b"access-control-request-method",
        b"ce-specversion",
        b"content-encoding",
        b"expect",
        b"origin",
        b"restante-batch",
        b"restante-made-anew",
        b"restante-owner-level",
        b"restante-producer-group",
        b"restante-published-sequence",
        b"sec-fetch-site",
        b"transfer-encoding",
        b"upgrade",
    }
)
"""Headers that ask for more than to publish what the body says."""
_log = logging.getLogger("restante.server")
_encode = msgspec.json.Encoder().encode
_CREATED = CORRELATION_ID + b": %b\r\ncontent-type: " + _JSON + b"\r\n"


class ShortPublish:
    """Takes publishes for one server. Made and used in its event loop."""

    path = _ROUTE.encode()

    def __init__(self, desk: Desk, web: WebAccess) -> None:
        self._desk = desk
        self._web = web
        self._loop = asyncio.get_running_loop()

    def head_of(self, headers: Headers) -> PlainHead | None:
        """What these headers say; None if they ask for more than to publish a small body."""
        given = dict(headers)
        size = _small_length(given.get(b"content-length"))
        if size is None or not self._is_plain(headers, given):
            return None
        authorization = given.get(b"authorization")
        token = None if authorization is None else authorization.decode("latin-1")
        return PlainHead(size, token, given.get(CORRELATION_ID))

    def _is_plain(self, headers: Headers, given: Mapping[bytes, bytes]) -> bool:
        return (
            given.get(b"content-type") == _JSON
            and len(given) == len(headers)
            and _SPECIAL.isdisjoint(given)
            and self._web.is_plain(given.get(b"host"))
        )

    def let_in(self, head: PlainHead) -> AdmittedRequest | None:
        """Take room for a request, if there is any, and its caller may publish."""
        room = self._desk.room
        if not room.has_place(head.size) or _log.isEnabledFor(logging.DEBUG):
            return None
        try:
            grant = self._granted(head)
        except RestanteError:
            return None
        room.enter(head.size)
        return AdmittedRequest(head, grant, time.monotonic())

    def let_out(self, admitted: AdmittedRequest) -> None:
        """Give the room back of a request that does not go this way."""
        self._desk.room.leave(admitted.head.size)

    def _granted(self, head: PlainHead) -> Grant:
        return self._desk.gate.admit(head.authorization, _ROLES, None)

    def take(self, admitted: AdmittedRequest, body: bytes, answered: Answered) -> bool:
        """Publish what a body says, and have it answered; False: nothing was done, the long way is to be gone."""
        desk, now = self._desk, time.monotonic()
        if desk.hub.crowded:
            return False
        try:
            if now - admitted.at > PASS_LOOK_SECONDS:
                admitted = admitted._replace(grant=self._granted(admitted.head))
            sent = few_or_many(decode_json(body))
            if not isinstance(sent, Few):
                return False
            publish = _Publish(desk, admitted, sent, answered, now)
            desk.link_of(admitted.grant).hub.publish_soon(Publish(sent), Listener(self._loop, publish.settle))
        except RestanteError:
            return False
        except Exception:  # noqa: BLE001  # nothing was done yet: the application tries, and answers if it fails too
            _log.exception("A publish failed on its short way.")
            return False
        return True


def _small_length(text: bytes | None) -> int | None:
    """The length of a body, if it is one that the event loop may read."""
    if text is None or not text.isdigit() or len(text) > _DIGITS_MAX:
        return None
    length = int(text)
    return length if is_for_the_loop(length) else None


class _Publish:
    """One publish that waits for its commit."""

    __slots__ = ("_admitted", "_answered", "_came_at", "_correlation_id", "_desk", "_sent")

    def __init__(self, desk: Desk, admitted: AdmittedRequest, sent: Few, answered: Answered, came_at: float) -> None:
        self._desk = desk
        self._admitted = admitted
        self._sent = sent
        self._correlation_id = correlation_id_of(admitted.head.correlation_id)
        self._answered = answered
        self._came_at = came_at

    def settle(self, request: CommitRequest[Receipt]) -> None:
        desk, metrics, size = self._desk, self._desk.metrics, self._admitted.head.size
        seconds = time.monotonic() - self._came_at
        desk.room.leave(size)
        status, head, body = self._answer(request, seconds)
        metrics.received.value += size
        metrics.sent.value += len(body)
        metrics.request("POST", _ROUTE, status, seconds)
        self._answered(status, head, body)

    def _answer(self, request: CommitRequest[Receipt], seconds: float) -> tuple[int, bytes, bytes]:
        try:
            receipt = request.answer()
            body = _encode(receipt)
        except RestanteError as error:
            return self._problem(error, seconds)
        except Exception:  # noqa: BLE001  # whatever it is, the client gets an answer, and the log the rest
            _log.exception("A request failed.", extra={"fields": {"correlation_id": self._correlation_id}})
            return self._problem(Internal("The hub failed. Its log has more, by the correlation id."), seconds)
        count(self._desk, self._sent, receipt, seconds)
        return 201, _CREATED % self._correlation_id.encode(), body

    def _problem(self, error: RestanteError, seconds: float) -> tuple[int, bytes, bytes]:
        status, own_id = status_of(error.code), self._correlation_id
        level = logging.INFO if status < 500 else logging.WARNING
        fields = {"correlation_id": own_id, "method": "POST", "route": _ROUTE, "status": status, "code": error.code}
        fields["caller"] = self._admitted.grant.name
        _log.log(level, "request", extra={"fields": fields | {"seconds": round(seconds, 6)}})
        beside = [(b"content-type", media.PROBLEM.encode()), *problem_headers(error)]
        head = b"".join([b"%b: %b\r\n" % header for header in [(CORRELATION_ID, own_id.encode()), *beside]])
        return status, head, _encode(problem_of(error, correlation_id=own_id))
